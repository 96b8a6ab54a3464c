// SPDX-License-Identifier: Apache-2.0
// Spool: one segment file, piece by piece. Invariants: memory is bounded by one frame and a read-ahead; every byte of
// the file belongs to exactly one piece; a damaged stretch ends where a line opens like a frame or end line.
// Reads with pread, never by mapping: a file cut short under us is a short read here, not a SIGBUS.
#include "core/spool_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/crc.h"

#define READ_AHEAD (256 << 10)
#define NOT_FOUND UINT64_MAX

static const char opening_line[] = "\n" SPOOL_LINE_OPENING;
#define OPENING_LENGTH (sizeof(opening_line) - 2) // without the newline

void spool_walk_start(struct spool_walk *walk, int fd, uint64_t offset)
{
	walk->fd = fd;
	walk->offset = offset;
	walk->verify_from = 0;
	walk->buffer_length = 0;
	walk->buffer_offset = offset;
}

void spool_walk_free(struct spool_walk *walk)
{
	free(walk->buffer);
	*walk = (struct spool_walk){.fd = -1};
}

static int buffer_room(struct spool_walk *walk, size_t size)
{
	char *buffer;

	if (size <= walk->buffer_capacity)
		return 0;
	buffer = realloc(walk->buffer, size);
	if (!buffer)
		return -ENOMEM;
	walk->buffer = buffer;
	walk->buffer_capacity = size;
	return 0;
}

// Makes at least size bytes from offset on readable at *ret_text, fewer only at the end of the file.
static int peek(struct spool_walk *walk, uint64_t offset, size_t size, const char **ret_text,
		size_t *ret_size)
{
	uint64_t skip = offset - walk->buffer_offset;
	ssize_t got;
	int result;

	if (offset < walk->buffer_offset || skip > walk->buffer_length) {
		walk->buffer_offset = offset;
		walk->buffer_length = 0;
		skip = 0;
	}
	if (walk->buffer_length - skip < size) {
		if (walk->buffer_length > skip)
			memmove(walk->buffer, walk->buffer + skip, walk->buffer_length - skip);
		walk->buffer_offset = offset;
		walk->buffer_length -= skip;
		skip = 0;
		result = buffer_room(walk, size + READ_AHEAD);
		if (result < 0)
			return result;
	}
	while (walk->buffer_length - skip < size) {
		walk->reads++;
		got = pread(walk->fd, walk->buffer + walk->buffer_length,
			    walk->buffer_capacity - walk->buffer_length,
			    (off_t)(walk->buffer_offset + walk->buffer_length));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		walk->buffer_length += (size_t)got;
	}
	*ret_text = walk->buffer + skip;
	*ret_size = walk->buffer_length - skip;
	return 0;
}

// What was read may be older than the file: a writer that ran out of space takes an unfinished frame back.
static void forget(struct spool_walk *walk)
{
	walk->buffer_length = 0;
	walk->buffer_offset = walk->offset;
}

// The first line behind offset that opens like ours; *ret_end is the end of the file when there is none.
static int find_opening(struct spool_walk *walk, uint64_t offset, uint64_t *ret_found,
			uint64_t *ret_end)
{
	const char *text, *hit;
	size_t size;
	int result;

	for (;;) {
		result = peek(walk, offset, READ_AHEAD, &text, &size);
		if (result < 0)
			return result;
		hit = size ? memmem(text, size, opening_line, OPENING_LENGTH + 1) : NULL;
		if (hit) {
			*ret_found = offset + (uint64_t)(hit - text) + 1;
			return 0;
		}
		if (size < READ_AHEAD) {
			*ret_found = NOT_FOUND;
			*ret_end = offset + size;
			return 0;
		}
		offset += size - OPENING_LENGTH; // an opening may lie across the two reads
	}
}

// The writer is at it. Not searched behind it: by then there may be more, and it would look torn.
static int piece_unfinished(struct spool_walk *walk, struct spool_piece *piece)
{
	forget(walk);
	piece->kind = SPOOL_PIECE_NOTHING;
	return 0;
}

// From walk->offset to the next opening is one piece of this kind. When there is none: the rest of a final file; else
// not known yet.
static int piece_to_opening(struct spool_walk *walk, bool final, enum spool_piece_kind kind,
			    struct spool_piece *piece)
{
	uint64_t found, end = 0;
	int result = find_opening(walk, walk->offset, &found, &end);

	if (result < 0)
		return result;
	if (found == NOT_FOUND && !final)
		return piece_unfinished(walk, piece);
	piece->kind = kind;
	piece->offset = walk->offset;
	piece->length = (found == NOT_FOUND ? end : found) - walk->offset;
	walk->offset += piece->length;
	return 0;
}

static int piece_end(struct spool_walk *walk, struct spool_piece *piece)
{
	piece->kind = SPOOL_PIECE_END;
	piece->offset = walk->offset;
	piece->length = SPOOL_END_LINE;
	walk->offset += SPOOL_END_LINE;
	return 0;
}

static int piece_frame(struct spool_walk *walk, size_t length, struct spool_piece *piece)
{
	piece->kind = SPOOL_PIECE_FRAME;
	piece->offset = walk->offset;
	piece->length = length;
	walk->offset += length;
	return 0;
}

// Is what follows a frame that fails its CRC the start of a line of ours, or the end of the file?
static int followed_well(struct spool_walk *walk, uint64_t offset, bool *ret_well)
{
	const char *text;
	size_t size;
	int result = peek(walk, offset, OPENING_LENGTH, &text, &size);

	if (result < 0)
		return result;
	*ret_well = size == 0 ||
		    (size >= OPENING_LENGTH && memcmp(text, opening_line + 1, OPENING_LENGTH) == 0);
	return 0;
}

static int piece_bad_records(struct spool_walk *walk, bool final, size_t length,
			     struct spool_piece *piece)
{
	bool well;
	int result = followed_well(walk, walk->offset + length, &well);

	if (result < 0)
		return result;
	if (!well) // its length led nowhere: there may be frames inside it
		return piece_to_opening(walk, final, SPOOL_PIECE_BAD_RECORDS, piece);
	result = piece_frame(walk, length, piece);
	piece->kind = SPOOL_PIECE_BAD_RECORDS;
	return result;
}

// A frame line holds at walk->offset. -ESTALE: the records do not match, and again is false.
static int walk_frame(struct spool_walk *walk, bool final, bool again, size_t line_length,
		      struct spool_piece *piece)
{
	size_t length = line_length + piece->line.bytes, size;
	const char *text;
	int result;

	if (walk->offset + length < walk->verify_from)
		return piece_frame(walk, length, piece);
	result = peek(walk, walk->offset, length, &text, &size);
	if (result < 0)
		return result;
	if (size < length && !final)
		return piece_unfinished(walk, piece);
	if (size < length) {
		piece->torn_line = true;
		return piece_to_opening(walk, final, SPOOL_PIECE_TORN, piece);
	}
	if (crc32c(0, text + line_length, piece->line.bytes) == piece->line.crc) {
		piece->data = text + line_length;
		return piece_frame(walk, length, piece);
	}
	return again ? piece_bad_records(walk, final, length, piece) : -ESTALE;
}

int spool_walk_next(struct spool_walk *walk, bool final, struct spool_piece *ret_piece)
{
	struct spool_end_line end;
	const char *text;
	size_t size;
	int result;

	*ret_piece = (struct spool_piece){.offset = walk->offset};
	// What looks damaged is read a second time before it is called so.
	for (bool again = false;; again = true) {
		result = peek(walk, walk->offset, SPOOL_LINE_MAX, &text, &size);
		if (result < 0)
			return result;
		if (size == 0) {
			ret_piece->kind = SPOOL_PIECE_NOTHING;
			return 0;
		}
		result = spool_frame_decode(text, size, &ret_piece->line);
		if (result > 0) {
			int frame = walk_frame(walk, final, again, (size_t)result, ret_piece);

			if (frame != -ESTALE)
				return frame;
		} else if (size >= SPOOL_END_LINE && spool_end_decode(text, size, &end) == 0) {
			return piece_end(walk, ret_piece);
		} else if (again) {
			break;
		}
		forget(walk);
	}
	if (result == -EAGAIN && !final)
		return piece_unfinished(walk, ret_piece);
	return piece_to_opening(walk, final,
				result == -EAGAIN ? SPOOL_PIECE_TORN : SPOOL_PIECE_BAD_LINE,
				ret_piece);
}
