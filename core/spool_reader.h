// SPDX-License-Identifier: Apache-2.0
// Reading a spool, beside a running writer or without one: frames in sequence order over both classes, and between
// them every number that is not there. For dump, fsck and the streamer. Never writes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/spool.h"
#include "core/spool_format.h"

struct spool_reader;

enum spool_item_kind { SPOOL_ITEM_FRAME, SPOOL_ITEM_GAP };

// Why numbers are missing.
enum spool_hole {
	SPOOL_HOLE_MISSING, // no trace: dropped by the writer, or the segment is gone
	SPOOL_HOLE_RECORDS, // the records of a frame do not match their CRC
	SPOOL_HOLE_LINE, // no frame line where one should be
	SPOOL_HOLE_TORN, // a frame that was not written to its end
	SPOOL_HOLE_UNREADABLE, // the file cannot be read from there on
};

// "missing", "records", "line", "torn", "unreadable"
const char *spool_hole_name(enum spool_hole hole);

#define SPOOL_COUNT_UNKNOWN UINT64_MAX

struct spool_item {
	enum spool_item_kind kind;
	// FRAME: count records, first..last. GAP: count numbers within first..last will not come. count is 0 for
	// damage that cost no record, SPOOL_COUNT_UNKNOWN at the end of the spool, where no later number tells.
	uint64_t first, last, count;
	enum spool_class class; // FRAME, and GAP with a file
	uint64_t epoch, time_ns; // FRAME, and GAP of RECORDS: as in its frame line; else 0
	uint32_t crc; // FRAME: CRC-32C of the data
	const char *data; // FRAME: NDJSON, valid until the next call
	size_t length;
	enum spool_hole hole; // GAP
	char file[SPOOL_NAME_SIZE]; // GAP: where the damage is; empty for MISSING
	uint64_t offset, bytes;
};

enum {
	// No writer is at work: an unfinished end is damage, and the end of the spool is final.
	SPOOL_READER_FINAL = 1,
	// Keeps a shared lock on every segment read from until spool_reader_release(), so that the writer, over its
	// cap, drops another one. What was read is then never counted as dropped. For the streamer.
	SPOOL_READER_HOLD = 2,
	// A file that cannot be read makes next() fail with -EREMOTEIO; without this it is a gap. What failed once may
	// be read the next time, and a gap that was declared stays one. For the streamer.
	SPOOL_READER_PATIENT = 4,
};

// Reads from the record with sequence from on (0: from the first there is, without a gap before it). dir_fd is
// borrowed. 0 or -errno.
int spool_reader_open(int dir_fd, uint64_t from, unsigned int flags,
		      struct spool_reader **ret_reader);
void spool_reader_close(struct spool_reader *reader); // takes NULL

// 1: an item. 0: nothing more now (ever, when FINAL); call again after a while. -errno: the directory cannot be listed
// or memory is out. A frame that holds from is returned whole.
int spool_reader_next(struct spool_reader *reader, struct spool_item *ret_item);

// Makes next() return the damage at the very end too, which otherwise waits for a later frame to tell its extent.
void spool_reader_settle(struct spool_reader *reader);

// Lets go of segments wholly up to acked.
void spool_reader_release(struct spool_reader *reader, uint64_t acked);

// True when a writer holds the spool now.
bool spool_is_written(int dir_fd);
