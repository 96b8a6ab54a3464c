// SPDX-License-Identifier: Apache-2.0
// The batch room: one buffer that is written, handed on and emptied. A record is in it whole or not at all.
#include "core/batch.h"

void batch_init(struct batch *batch, enum record_class class, batch_write_fn *write, void *context)
{
	*batch = (struct batch){ .class = class, .write = write, .context = context };
	buf_reserve(&batch->lines, BATCH_BYTES_MAX);
}

void batch_free(struct batch *batch)
{
	buf_free(&batch->lines);
}

struct json *batch_begin(struct batch *batch)
{
	batch->record_start = batch->lines.length;
	batch->json = json_to(&batch->lines);
	return &batch->json;
}

void batch_end(struct batch *batch)
{
	json_end_line(&batch->json);
	if (buf_error(&batch->lines)) {
		batch->dropped += 1 + batch->count;
		batch->count = 0;
		buf_reset(&batch->lines);
		return;
	}
	batch->count++;
	batch->records++;
	if (batch->lines.length >= BATCH_BYTES_MAX - 32 * 1024)
		batch_flush(batch);
}

void batch_flush(struct batch *batch)
{
	if (!batch->count)
		return;
	if (batch->write(batch->context, batch->lines.data, batch->lines.length, batch->count, batch->class) < 0)
		batch->dropped += batch->count;
	batch->count = 0;
	buf_reset(&batch->lines);
}
