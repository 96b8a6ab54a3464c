// SPDX-License-Identifier: Apache-2.0
// The files of a spool directory: finding, counting and naming them, and the two small ones that hold the accounting.
// Everything works relative to a directory descriptor and changes nothing unless its name says so.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/spool_format.h"
#include "core/spool_walk.h"

#define SPOOL_STATE_FILE "state"
#define SPOOL_STREAM_DIRECTORY "stream" // whoever delivers owns it, and alone writes there
#define SPOOL_CURSOR_FILE "cursor" // in it
#define SPOOL_LOCK_FILE "lock"

struct spool_segment {
	uint64_t first; // as in its name
	uint64_t last; // sequence of the last record that was read or written; first - 1 when none
	uint64_t records, frames;
	uint64_t bytes; // of the file
	uint64_t frames_end; // offset behind the last frame
	uint64_t acked_records; // of those delivered already, see spool_segment_ack()
	uint64_t acked_whole,
		acked_offset; // in frames delivered whole, and where the next one starts
	bool sealed; // has an end line
	bool unread; // could not be read to its end; the figures are of what could
};

// The segments of one class, by first sequence.
struct spool_lane {
	struct spool_segment *segments;
	size_t count, capacity;
};

// What a directory holds.
struct spool_survey {
	struct spool_lane lane[SPOOL_CLASS_END];
	struct spool_state state;
	struct spool_cursor cursor;
	bool state_read, cursor_read; // they were there and hold
	uint64_t highest; // no sequence above this was used, as far as files and state tell
	uint64_t damage_first,
		damage_last; // numbers lost in segments without an end line are in this range; 0: none
};

// Adds a segment behind the others. NULL when memory is out.
struct spool_segment *spool_lane_add(struct spool_lane *lane, uint64_t first);
void spool_lane_remove(struct spool_lane *lane, size_t index);
void spool_lane_free(struct spool_lane *lane);

// Adds the segments of both classes (zeroed lanes), only their first sequence known.
int spool_list(int dir_fd, struct spool_lane lanes[SPOOL_CLASS_END]);

// Fills the survey (zeroed by the caller). Segments with an end line are taken by it, others walked. Other files
// are ignored; an unreadable segment counts as far as it can be read. 0, or -errno when the directory cannot be
// listed; the survey is to be freed either way.
int spool_survey(int dir_fd, struct spool_survey *survey);
void spool_survey_free(struct spool_survey *survey);

// Opens a segment for reading. A descriptor, or -errno; -ELOOP and -EINVAL for what is no regular file.
int spool_segment_open(int dir_fd, enum spool_class class, uint64_t first);

// Brings acked_records up to date with an acknowledgement of everything up to acked. Reads only the frame lines
// between the earlier and this acknowledgement.
int spool_segment_ack(int dir_fd, enum spool_class class, struct spool_segment *segment,
		      uint64_t acked);

// Appends an end line, behind a newline where the damage before it has none, to a segment that has none.
int spool_segment_seal(int dir_fd, enum spool_class class, struct spool_segment *segment);

// -ENOENT when there is none yet, -EBADMSG when none holds.
int spool_state_read(int dir_fd, struct spool_state *ret_state);
int spool_cursor_read(int dir_fd, struct spool_cursor *ret_cursor);

// For whoever delivers: makes the acknowledgement durable (temporary file, fsync, rename, fsync of the directory).
// stream_fd is SPOOL_STREAM_DIRECTORY.
int spool_cursor_write(int stream_fd, const struct spool_cursor *cursor);
