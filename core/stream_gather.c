// SPDX-License-Identifier: Apache-2.0
// Streamer: from the spool to batches. Numbers rise without exception: what is missing before a frame becomes a hole of
// that frame's epoch, with the reason the reader found. Frames go whole and verbatim unless the limits, a number
// acknowledged in their middle or a quarantined record cut them. Must not send or write anything.
#include <errno.h>
#include <string.h>

#include "core/base/crc.h"
#include "core/stream_private.h"

#define REASON_QUARANTINED "quarantined"
#define REASON_SERVER_LOST "server_lost"

void stream_gather_free(struct stream_gather *gather)
{
	spool_reader_close(gather->reader);
	gather->reader = NULL;
	gather->has_item = false;
}

int stream_gather_seek(struct stream_gather *gather, int spool_fd, uint64_t from, uint64_t known)
{
	struct spool_reader *reader;
	int result = spool_reader_open(spool_fd, from, gather->reader_flags, &reader);

	if (result < 0)
		return result;
	stream_gather_free(gather);
	gather->spool_fd = spool_fd;
	gather->reader = reader;
	gather->expected = from;
	gather->known = known;
	gather->hole = SPOOL_HOLE_MISSING;
	return 0;
}

// Bytes of the first count records of a text of lines.
static size_t lines_length(const char *text, size_t length, uint64_t count)
{
	const char *at = text, *end = text + length;

	for (; count > 0 && at < end; count--) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		at = newline ? newline + 1 : end;
	}
	return (size_t)(at - text);
}

static void rest_advance(struct stream_gather *gather, uint64_t records, size_t length)
{
	gather->rest += length;
	gather->rest_length -= length;
	gather->rest_first += records;
	gather->rest_records -= records;
	gather->expected = gather->rest_first;
	gather->has_item = gather->rest_records > 0;
}

// 1: an item is held. 0: nothing is there now.
static int item_take(struct stream_gather *gather)
{
	struct spool_item *item = &gather->item;

	while (!gather->has_item) {
		int result = spool_reader_next(gather->reader, item);

		if (result <= 0)
			return result;
		if (item->kind == SPOOL_ITEM_GAP) {
			gather->hole = item->hole;
			// Only this kind says exactly which numbers, and whose; the others show before the next frame.
			if (item->hole != SPOOL_HOLE_RECORDS || item->epoch == 0 || item->last < gather->expected)
				continue;
			gather->rest_first = item->last + 1;
			gather->rest_records = gather->rest_length = 0;
			gather->has_item = true;
			return 1;
		}
		if (item->last < gather->expected)
			continue;
		gather->rest = item->data;
		gather->rest_length = item->length;
		gather->rest_first = item->first;
		gather->rest_records = item->count;
		gather->has_item = true;
		if (item->first < gather->expected) {
			uint64_t done = gather->expected - item->first;

			rest_advance(gather, done, lines_length(item->data, item->length, done));
		}
	}
	return 1;
}

// Declares the numbers up to before missing.
static int hole_put(struct stream_gather *gather, struct stream_batch *batch, uint64_t before)
{
	uint64_t first = gather->expected, known = gather->known < before ? gather->known : before - 1;
	int result = 0;

	if (first <= known) {
		result = stream_batch_hole(batch, first, known, REASON_SERVER_LOST);
		first = known + 1;
	}
	if (result == 0 && first < before)
		result = stream_batch_hole(batch, first, before - 1, spool_hole_name(gather->hole));
	if (result == 0)
		gather->expected = before;
	return result;
}

static int frame_whole(struct stream_gather *gather, struct stream_batch *batch)
{
	const struct spool_item *item = &gather->item;
	struct spool_frame_line line = {.class = item->class,
					.epoch = item->epoch,
					.first = item->first,
					.records = item->count,
					.bytes = item->length,
					.time_ns = item->time_ns,
					.crc = item->crc};
	int result = stream_batch_frame(batch, &line, item->data);

	if (result == 0)
		rest_advance(gather, item->count, item->length);
	return result;
}

static int frame_piece(struct stream_gather *gather, struct stream_batch *batch, uint64_t records, size_t length)
{
	struct spool_frame_line line = {.class = gather->item.class,
					.epoch = gather->item.epoch,
					.first = gather->rest_first,
					.records = records,
					.bytes = length,
					.time_ns = gather->item.time_ns,
					.crc = crc32c(0, gather->rest, length)};
	int result = stream_batch_frame(batch, &line, gather->rest);

	if (result == 0)
		rest_advance(gather, records, length);
	return result;
}

// How many records of the rest fit into what the batch may still take; at least one when it is empty.
static uint64_t piece_fitting(const struct stream_gather *gather, const struct stream_batch *batch, size_t *ret_length)
{
	uint64_t room = gather->records_limit > batch->records ? gather->records_limit - batch->records : 0;
	uint64_t bytes = gather->bytes_limit > batch->packed ? gather->bytes_limit - batch->packed : 0;
	uint64_t records = 0;
	size_t length = 0;

	if (gather->skip > gather->rest_first && gather->skip - gather->rest_first < room)
		room = gather->skip - gather->rest_first;
	while (records < room && records < gather->rest_records) {
		size_t next = lines_length(gather->rest + length, gather->rest_length - length, 1);

		if (length + next > bytes && batch->records + records > 0)
			break;
		length += next;
		records++;
	}
	*ret_length = length;
	return records;
}

static bool item_untouched(const struct stream_gather *gather)
{
	return gather->rest == gather->item.data && gather->rest_first == gather->item.first;
}

// The held item into the batch, as far as it fits. 1: the batch is full.
static int item_put(struct stream_gather *gather, struct stream_batch *batch)
{
	size_t length;
	uint64_t records;
	int result = 0;

	if (gather->rest_first > gather->expected)
		result = hole_put(gather, batch, gather->rest_first);
	if (result < 0)
		return result;
	gather->hole = SPOOL_HOLE_MISSING;
	if (gather->rest_records == 0) {
		gather->has_item = false;
		return 0;
	}
	if (gather->skip == gather->rest_first) {
		result = stream_batch_hole(batch, gather->skip, gather->skip, REASON_QUARANTINED);
		if (result == 0)
			rest_advance(gather, 1, lines_length(gather->rest, gather->rest_length, 1));
		return result < 0 ? result : 1; // alone: its neighbours may be no better
	}
	if (item_untouched(gather) && batch->records + gather->rest_records <= gather->records_limit &&
	    (batch->records == 0 || batch->packed + gather->rest_length <= gather->bytes_limit) &&
	    (gather->skip < gather->item.first || gather->skip > gather->item.last))
		return frame_whole(gather, batch);
	// A frame that fits a batch of its own is not cut.
	if (batch->records > 0 && gather->rest_records <= gather->records_limit &&
	    gather->rest_length <= gather->bytes_limit &&
	    (gather->skip < gather->rest_first || gather->skip > gather->item.last))
		return 1;
	records = piece_fitting(gather, batch, &length);
	return records == 0 ? 1 : frame_piece(gather, batch, records, length);
}

int stream_gather_fill(struct stream_gather *gather, struct stream_batch *batch)
{
	int result;

	for (;;) {
		if (batch->open && (batch->records >= gather->records_limit || batch->packed >= gather->bytes_limit))
			return 1;
		result = item_take(gather);
		if (result <= 0)
			return result;
		if (batch->open && batch->epoch != gather->item.epoch)
			return 1;
		if (!batch->open)
			stream_batch_begin(batch, gather->item.epoch, gather->expected);
		result = item_put(gather, batch);
		if (result != 0)
			return result;
	}
}

int stream_gather_record(struct stream_gather *gather, uint64_t sequence, uint64_t *ret_epoch, const char **ret_text,
			 size_t *ret_length)
{
	int result = item_take(gather);

	if (result <= 0)
		return result < 0 ? result : -ENOENT;
	if (gather->rest_records == 0 || gather->rest_first != sequence)
		return -ENOENT;
	*ret_epoch = gather->item.epoch;
	*ret_text = gather->rest;
	*ret_length = lines_length(gather->rest, gather->rest_length, 1);
	return 0;
}
