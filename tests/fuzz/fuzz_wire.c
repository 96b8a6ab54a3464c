// SPDX-License-Identifier: Apache-2.0
// Any bytes as the inflated body of a batch, with good frames and holes among them: it is refused with a reason, or its
// frames and holes cover first..last exactly, each number once.
//
// Input: the first byte says how many numbers are announced. F is a good frame of one to three records, B one whose record
// is the bytes up to the next N, H a good hole; a newline at the very end is left out; everything else stands for
// itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/crc.h"
#include "core/spool_format.h"
#include "lake/decode.h"
#include "lake/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : abort())

static void put_frame(struct buf *out, uint64_t *next, const char *text, size_t length, uint64_t records)
{
	struct spool_frame_line line = {.class = SPOOL_PROCESS, .epoch = 7, .first = *next, .records = records};
	char encoded[SPOOL_FRAME_LINE];

	line.bytes = length;
	line.crc = crc32c(0, text, length);
	spool_frame_encode(&line, encoded);
	buf_append(out, encoded, sizeof(encoded));
	buf_append(out, text, length);
	*next += records;
}

static void put_good(struct buf *out, uint64_t *next)
{
	struct buf text = BUF_INIT;
	uint64_t records = 1 + *next % 3;

	for (uint64_t i = 0; i < records; i++)
		buf_printf(
			&text,
			"{\"kind\":\"process\",\"time_ns\":5,\"host\":\"h\",\"boot\":\"b\",\"pid\":%llu,\"start_ns\":1,"
			"\"end_ns\":5,\"start_boot_ns\":1,\"comm\":\"c\",\"args\":[\"c\"],\"quality\":{}}\n",
			(unsigned long long)(*next + i));
	put_frame(out, next, text.data, text.length, records);
	buf_free(&text);
}

static uint64_t body_make(const uint8_t *data, size_t size, struct buf *out)
{
	uint64_t next = 1;

	for (size_t i = 0; i < size; i++) {
		const uint8_t *end = data[i] == 'B' ? memchr(data + i, 'N', size - i) : NULL;

		if (data[i] == 'F') {
			put_good(out, &next);
		} else if (data[i] == 'H') {
			buf_printf(out, "{\"hole\":{\"first\":%llu,\"last\":%llu,\"count\":2,\"reason\":\"cap\"}}\n",
				   (unsigned long long)next, (unsigned long long)(next + 1));
			next += 2;
		} else if (end) {
			struct buf text = BUF_INIT;

			buf_append(&text, data + i + 1, (size_t)(end - data) - i - 1);
			buf_append_char(&text, '\n');
			put_frame(out, &next, text.data, text.length, 1);
			buf_free(&text);
			i = (size_t)(end - data);
		} else {
			buf_append_char(out, (char)data[i]);
		}
	}
	return next - 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_headers headers = {.epoch = 7, .first = 1, .last = 1};
	struct lake_batch batch = {0};
	struct wire_memory memory = {0};
	struct wire_error error = {0};
	struct buf body = BUF_INIT;
	uint64_t made;
	int result;

	size -= size > 1 && data[size - 1] == '\n';
	if (size == 0)
		return 0;
	made = body_make(data + 1, size - 1, &body);
	headers.last = data[0] == '*' && made ? made : 1 + data[0] % 16;
	MUST(buf_reserve(&body, DECODE_SLACK) == 0);
	MUST(lake_batch_begin(&batch, "default", "11111111-2222-4333-8444-555555555555") == 0);
	result = wire_walk(&headers, body.data ? body.data : "", body.length, &memory, &batch, &error);
	MUST(result == 0 || (error.status >= 400 && error.code && error.text[0]));
	if (result == 0) {
		uint64_t before = 0;

		MUST(batch.records <= headers.last);
		for (size_t i = 0; i < batch.row_count; i++) {
			MUST(batch.rows[i]->sequence >= before && batch.rows[i]->sequence >= headers.first &&
			     batch.rows[i]->sequence <= headers.last);
			before = batch.rows[i]->sequence;
		}
	}
	lake_batch_free(&batch);
	wire_memory_free(&memory);
	buf_free(&body);
	return 0;
}
