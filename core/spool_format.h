// SPDX-License-Identifier: Apache-2.0
// What is on disk, byte by byte. A spool is a directory (mode 0750) of files (0640):
//
//   p-00000000000000000001.ndjson   a segment of process-like records; the number is the first sequence in it
//   s-00000000000000000042.ndjson   a segment of sample-like records
//   state                           two lines, written in turn: the writer's accounting (struct spool_state)
//   lock                            flock()ed by the one writer
//   stream/                         of whoever delivers (mode 0711), the only place where it writes
//   stream/cursor                   one line, replaced whole (struct spool_cursor; 0644, read by the writer)
//
// Every line of a segment is a JSON object, so `cat p-* | jq .` works. A frame is a frame line followed by `bytes`
// bytes of NDJSON; a sealed segment ends with an end line. Frame, end, state and cursor lines have a fixed width
// (numbers padded with spaces in front, hexadecimal as strings), open with a text found at no other line start, and
// close with "check", the CRC-32C of everything before that member. A damaged stretch ends at the next line that
// opens like a frame or end line. A later version may add members behind "check" of a frame line: readers skip to the
// newline. Anything else needs a new number in the opening text.
//
// Sequence numbers count records, from 1, over both classes, and are never given twice within one epoch. The epoch is
// a random number of the spool; it is drawn anew when the writer cannot prove that a number was not used before
// (no readable state, or the machine went down while the spool was open); numbers go on rising all the same.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/spool.h"

enum {
	SPOOL_FRAME_LINE = 196, // bytes of a frame line, its newline included
	SPOOL_END_LINE = 191,
	SPOOL_CURSOR_LINE = 136,
	SPOOL_STATE_LINE = 584,
	SPOOL_LINE_MAX =
		640, // more than any of these, and than a frame line with members of a later version
	SPOOL_NAME_SIZE = 32, // room for a segment's name and NUL
};

#define SPOOL_LINE_OPENING \
	"{\"frame\":\"tracer-spool-" // what a damaged stretch ends at, at the start of a line

struct spool_frame_line {
	uint64_t class; // enum spool_class
	uint64_t epoch;
	uint64_t first; // sequence of the first record
	uint64_t records;
	uint64_t bytes;
	uint64_t time_ns; // Unix time of the append
	uint64_t crc; // CRC-32C of the records
};

struct spool_end_line {
	uint64_t class;
	uint64_t first; // as in the file's name
	uint64_t last; // of the last frame; first - 1 when there is none
	uint64_t
		records; // in readable frames; less than last - first + 1, as the other class takes numbers too
	uint64_t frames;
	uint64_t bytes; // where this line starts: frames and what was damaged among them
};

struct spool_cursor {
	uint64_t epoch;
	uint64_t acked; // every record up to here is delivered or known to be lost
	uint64_t delivered; // of those, how many were delivered, since the spool began
};

struct spool_state {
	uint64_t generation; // the greater of the two lines counts
	uint64_t epoch;
	uint64_t epoch_first; // first sequence of this epoch
	uint64_t boot; // first 64 bits of the kernel's boot id when it was written
	uint64_t clean; // 1: closed in order
	uint64_t accepted;
	uint64_t acked;
	uint64_t delivered;
	uint64_t pending; // on disk and in memory
	uint64_t dropped[SPOOL_REASON_END];
	uint64_t unclean_starts;
	uint64_t
		dropping_class; // a segment about to be unlinked, its records counted above; class + 1, 0 none
	uint64_t dropping_first;
};

// Each writes exactly the bytes of its line to out.
void spool_frame_encode(const struct spool_frame_line *line, char out[SPOOL_FRAME_LINE]);
void spool_end_encode(const struct spool_end_line *line, char out[SPOOL_END_LINE]);
void spool_cursor_encode(const struct spool_cursor *cursor, char out[SPOOL_CURSOR_LINE]);
void spool_state_encode(const struct spool_state *state, char out[SPOOL_STATE_LINE]);

// Length of the frame line that starts at text; -EAGAIN when more than size bytes are needed to tell; -EBADMSG when
// it is none or damaged. Numbers no writer makes (no records, too many bytes, sequence past 2^63) are damage.
int spool_frame_decode(const char *text, size_t size, struct spool_frame_line *ret_line);
// 0, or -EBADMSG. size: at least the line.
int spool_end_decode(const char *text, size_t size, struct spool_end_line *ret_line);
int spool_cursor_decode(const char *text, size_t size, struct spool_cursor *ret_cursor);
int spool_state_decode(const char *text, size_t size, struct spool_state *ret_state);

void spool_segment_name(enum spool_class class, uint64_t first, char out[SPOOL_NAME_SIZE]);
// 0, or -EINVAL when the name is not a segment's.
int spool_segment_parse(const char *name, enum spool_class *ret_class, uint64_t *ret_first);
