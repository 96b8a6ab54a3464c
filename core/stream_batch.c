// SPDX-License-Identifier: Apache-2.0
// Streamer: one request body. Frames go in as they are on disk, a frame line and its records, hole lines between them;
// all is compressed as it comes, so a batch costs its compressed size. Invariant: what is in the batch covers
// first..last without overlap or hole. Must not read the spool or talk to anybody.
#include <errno.h>
#include <mbedtls/base64.h>
#include <mbedtls/sha256.h>
#include <stdio.h>
#include <string.h>

#include "core/stream_private.h"

enum { BODY_STEP = 64 << 10, LEVEL = 1, GZIP_WINDOW = 15 + 16 };

int stream_batch_init(struct stream_batch *batch)
{
	*batch = (struct stream_batch){0};
	if (deflateInit2(&batch->zip, LEVEL, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	batch->zip_ready = true;
	return 0;
}

void stream_batch_free(struct stream_batch *batch)
{
	if (batch->zip_ready)
		deflateEnd(&batch->zip);
	buf_free(&batch->body);
	buf_free(&batch->hole_ranges);
	*batch = (struct stream_batch){0};
}

void stream_batch_begin(struct stream_batch *batch, uint64_t epoch, uint64_t first)
{
	deflateReset(&batch->zip);
	buf_reset(&batch->body);
	buf_reset(&batch->hole_ranges);
	batch->open = true;
	batch->closed = false;
	batch->epoch = epoch;
	batch->first = first;
	batch->last = first - 1;
	batch->records = batch->holes = batch->packed = batch->oldest_ns = 0;
	batch->digest[0] = 0;
}

static int batch_pack(struct stream_batch *batch, const void *data, size_t length, int flush)
{
	z_stream *zip = &batch->zip;
	int result;

	zip->next_in = (void *)(uintptr_t)data;
	zip->avail_in = (unsigned int)length;
	do {
		if (buf_reserve(&batch->body, BODY_STEP) < 0)
			return -ENOMEM;
		zip->next_out = (unsigned char *)batch->body.data + batch->body.length;
		zip->avail_out = BODY_STEP;
		result = deflate(zip, flush);
		batch->body.length += BODY_STEP - zip->avail_out;
	} while (zip->avail_out == 0 || (flush == Z_FINISH && result == Z_OK));
	batch->packed += length;
	return result == Z_STREAM_ERROR ? -EIO : 0;
}

int stream_batch_frame(struct stream_batch *batch, const struct spool_frame_line *line, const char *data)
{
	char text[SPOOL_FRAME_LINE];
	int result;

	spool_frame_encode(line, text);
	result = batch_pack(batch, text, sizeof(text), Z_NO_FLUSH);
	if (result == 0)
		result = batch_pack(batch, data, line->bytes, Z_NO_FLUSH);
	if (result < 0)
		return result;
	if (batch->oldest_ns == 0 || line->time_ns < batch->oldest_ns)
		batch->oldest_ns = line->time_ns;
	batch->last = line->first + line->records - 1;
	batch->records += line->records;
	return 0;
}

int stream_batch_hole(struct stream_batch *batch, uint64_t first, uint64_t last, const char *reason)
{
	char text[160];
	int length = snprintf(
		text, sizeof(text), "{\"hole\":{\"first\":%llu,\"last\":%llu,\"count\":%llu,\"reason\":\"%s\"}}\n",
		(unsigned long long)first, (unsigned long long)last, (unsigned long long)(last - first + 1), reason);
	int result = batch_pack(batch, text, (size_t)length, Z_NO_FLUSH);

	if (result < 0)
		return result;
	batch->last = last;
	batch->holes += last - first + 1;
	buf_append(&batch->hole_ranges, (const uint64_t[]){first, last}, 2 * sizeof(uint64_t));
	return buf_error(&batch->hole_ranges);
}

uint64_t stream_batch_records(const struct stream_batch *batch, uint64_t after, uint64_t to)
{
	uint64_t records = to > after ? to - after : 0, range[2];

	for (size_t at = 0; at + sizeof(range) <= batch->hole_ranges.length; at += sizeof(range)) {
		memcpy(range, batch->hole_ranges.data + at, sizeof(range));
		if (range[0] <= after)
			range[0] = after + 1;
		if (range[1] > to)
			range[1] = to;
		records -= range[1] >= range[0] ? range[1] - range[0] + 1 : 0;
	}
	return records;
}

uint64_t stream_batch_lowest(const struct stream_batch *batch)
{
	uint64_t number = batch->first, range[2];

	for (size_t at = 0; at + sizeof(range) <= batch->hole_ranges.length; at += sizeof(range)) {
		memcpy(range, batch->hole_ranges.data + at, sizeof(range));
		if (range[0] == number)
			number = range[1] + 1;
	}
	return number;
}

int stream_batch_close(struct stream_batch *batch)
{
	unsigned char sum[32], text[48];
	size_t length;
	int result = batch_pack(batch, NULL, 0, Z_FINISH);

	if (result < 0)
		return result;
	if (mbedtls_sha256((const unsigned char *)batch->body.data, batch->body.length, sum, 0) != 0 ||
	    mbedtls_base64_encode(text, sizeof(text), &length, sum, sizeof(sum)) != 0)
		return -EIO;
	snprintf(batch->digest, sizeof(batch->digest), "sha-256=:%.*s:", (int)length, (const char *)text);
	batch->closed = true;
	return 0;
}
