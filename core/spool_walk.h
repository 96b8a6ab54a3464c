// SPDX-License-Identifier: Apache-2.0
// Walks one segment file from front to back, piece by piece, over any bytes. Shared by the writer (which counts what a
// crash left) and the reader. Knows nothing of other segments.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/spool_format.h"

enum spool_piece_kind {
	SPOOL_PIECE_FRAME, // line and data hold
	SPOOL_PIECE_BAD_RECORDS, // the frame line holds, the records do not match its CRC
	SPOOL_PIECE_BAD_LINE, // where a frame line should be is none; line is not set
	SPOOL_PIECE_TORN, // the file ends inside a frame line, or inside the frame when torn_line is set
	SPOOL_PIECE_END, // an end line
	SPOOL_PIECE_NOTHING, // end of the file, or of what is there so far
};

struct spool_piece {
	enum spool_piece_kind kind;
	uint64_t offset, length; // in the file
	bool torn_line; // TORN: line is set
	struct spool_frame_line line;
	const char *
		data; // FRAME: line.bytes bytes, valid until the next call; NULL when only the line was read
};

struct spool_walk {
	int fd; // borrowed
	uint64_t offset; // where the next piece starts
	uint64_t verify_from; // frames that end before this offset are taken by their line alone
	char *buffer; // what was read of the file, from buffer_offset on
	size_t buffer_capacity, buffer_length;
	uint64_t buffer_offset;
	uint64_t reads; // how often the file was read
};

// Starts at offset, which must be where a piece starts. Keeps the buffer of an earlier walk.
void spool_walk_start(struct spool_walk *walk, int fd, uint64_t offset);
void spool_walk_free(struct spool_walk *walk);

// The next piece. final: the file grows no more, so an unfinished frame at its end is TORN; otherwise such an end is
// NOTHING and the next call looks again. 0, or -errno of pread(2), or -ENOMEM.
int spool_walk_next(struct spool_walk *walk, bool final, struct spool_piece *ret_piece);
