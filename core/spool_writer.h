// SPDX-License-Identifier: Apache-2.0
// Inside the writer: the one struct its four files share. spool.c takes records and ticks, spool_attach.c finds what a
// directory holds, spool_lane.c writes segments and keeps the cap, spool_account.c keeps the sum.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/spool_files.h"
#include "core/spool_ring.h"
#include "core/spool_sync.h"

enum { SPOOL_TAG_DIRECTORY = SPOOL_CLASS_END }; // beside the classes

struct spool_writer_lane {
	struct spool_lane files;
	int fd; // of the last segment, which is written; -1 none
	uint64_t dirty_first; // lowest sequence not yet submitted for syncing; 0 none
	uint64_t dirty_since_ns;
	uint64_t submitted_ns;
};

struct spool {
	char *path;
	struct spool_options options;
	uint64_t frame_max_bytes, record_max_bytes;

	int dir_fd, lock_fd, state_fd; // -1 unless attached
	bool attached;
	bool known; // was attached at least once, so that sequence numbers are absolute
	struct spool_writer_lane lane[SPOOL_CLASS_END];
	uint64_t bytes;
	struct spool_sync sync;
	uint64_t sync_errors_seen;

	struct spool_ring ring;
	bool failing; // frames go to the ring
	enum spool_reason ring_reason;
	int ring_error;
	uint64_t retry_ns, housekeeping_ns;

	struct spool_state state; // accepted, acked, delivered and dropped are the living figures
	uint64_t
		base; // accepted when the numbers were last certain: at start 0, later when the directory went away
	bool state_stale; // figures that only the state holds have changed
	uint64_t state_accepted, state_acked; // as last written
	struct spool_gap gap[SPOOL_REASON_END]; // not yet reported; count 0 none
	uint64_t gaps;
};

// spool_attach.c: opens the directory and takes over what is there. On failure nothing is held.
int spool_attach(struct spool *spool);
// Lets go of the directory; what was pending in it is lost from view.
void spool_detach(struct spool *spool);

// spool_lane.c
// Writes one frame. On failure nothing of it stays. -EXFULL: the cap leaves no room.
int spool_lane_write(struct spool *spool, const struct spool_ring_frame *frame, const char *data);
// Ends the segment that is written, if any.
void spool_lane_seal(struct spool *spool, enum spool_class class);
void spool_lane_unlink(struct spool *spool, enum spool_class class, size_t index);
// Submits what was written to one class for syncing.
void spool_lane_commit(struct spool *spool, enum spool_class class, uint64_t now_ns);

// spool_account.c
uint64_t spool_pending(const struct spool *spool);
void spool_drop(struct spool *spool, enum spool_reason reason, uint64_t first, uint64_t last,
		uint64_t count);
// What is missing from the sum becomes "damaged"; reported as a gap in first..last unless first is 0.
void spool_balance(struct spool *spool, uint64_t first, uint64_t last);
void spool_state_write(struct spool *spool);
// Reads the cursor, marks what it acknowledges in the segments and removes those delivered whole. The first leaves
// the sum to its caller.
void spool_reacknowledge(struct spool *spool);
void spool_take_cursor(struct spool *spool);
