// SPDX-License-Identifier: Apache-2.0
// Spool: the sum. accepted = delivered + pending + dropped. Delivered comes from the cursor, pending is counted in the
// segments and the ring, drops are counted when made, and "damaged" is by definition what is then missing: so no
// crash, deleted file or damage can make the sum wrong, it can only move records to "damaged".
// The state file is two lines written in turn in place: no rename, no new block, so it works on a full disk.
#include <errno.h>
#include <unistd.h>

#include "core/spool_writer.h"

const char *spool_reason_name(enum spool_reason reason)
{
	static const char *const names[] = {"cap", "disk_full", "read_only", "io_error", "damaged"};

	return names[reason];
}

uint64_t spool_pending(const struct spool *spool)
{
	uint64_t pending = spool->ring.records;

	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; i < spool->lane[class].files.count; i++)
			pending += spool->lane[class].files.segments[i].records -
				   spool->lane[class].files.segments[i].acked_records;
	return pending;
}

static void gap_note(struct spool *spool, enum spool_reason reason, uint64_t first, uint64_t last,
		     uint64_t count)
{
	struct spool_gap *gap = &spool->gap[reason];

	if (!spool->known)
		first = last = 0;
	if (gap->count == 0)
		*gap = (struct spool_gap){.first = first, .last = last, .reason = reason};
	if (first < gap->first)
		gap->first = first;
	if (last > gap->last)
		gap->last = last;
	gap->count += count;
}

void spool_drop(struct spool *spool, enum spool_reason reason, uint64_t first, uint64_t last,
		uint64_t count)
{
	if (count == 0)
		return;
	spool->state.dropped[reason] += count;
	spool->state_stale = true;
	gap_note(spool, reason, first, last, count);
}

// More is accounted for than was accepted. Only a cursor that counts a dropped record as delivered can do that:
// then it was not dropped.
static void drops_take_back(struct spool *spool, uint64_t excess)
{
	for (int reason = 0; reason < SPOOL_REASON_END; reason++) {
		uint64_t *dropped = &spool->state.dropped[reason];
		uint64_t taken = *dropped < excess ? *dropped : excess;

		*dropped -= taken;
		excess -= taken;
	}
	spool->state.delivered -= spool->state.delivered < excess ? spool->state.delivered : excess;
}

void spool_balance(struct spool *spool, uint64_t first, uint64_t last)
{
	struct spool_state *state = &spool->state;
	uint64_t accounted = state->delivered + spool_pending(spool), missing;

	for (int reason = 0; reason < SPOOL_REASON_END; reason++)
		accounted += state->dropped[reason];
	if (accounted > state->accepted) {
		drops_take_back(spool, accounted - state->accepted);
		spool->state_stale = true;
		return;
	}
	missing = state->accepted - accounted;
	if (missing == 0)
		return;
	state->dropped[SPOOL_DAMAGED] += missing;
	spool->state_stale = true;
	if (first == 0)
		return;
	if (last < first || last - first + 1 < missing) {
		first = state->acked + 1;
		last = state->accepted;
	}
	gap_note(spool, SPOOL_DAMAGED, first, last, missing);
}

void spool_state_write(struct spool *spool)
{
	char text[SPOOL_STATE_LINE];

	spool->state.generation++;
	spool->state.pending = spool_pending(spool);
	spool_state_encode(&spool->state, text);
	// A failed write leaves the other line; the next tick tries again.
	if (pwrite(spool->state_fd, text, sizeof(text),
		   (off_t)((spool->state.generation + 1) % 2 * SPOOL_STATE_LINE)) !=
	    (ssize_t)sizeof(text))
		return;
	spool->state_stale = false;
	spool->state_accepted = spool->state.accepted;
	spool->state_acked = spool->state.acked;
}

static void lane_ack(struct spool *spool, enum spool_class class)
{
	struct spool_writer_lane *lane = &spool->lane[class];
	size_t i = 0;

	while (i < lane->files.count) {
		struct spool_segment *segment = &lane->files.segments[i];
		bool writing = lane->fd >= 0 && i == lane->files.count - 1;
		uint64_t highest = segment->last > segment->first ? segment->last : segment->first;

		// An unreadable segment keeps its count: its records are pending until the cursor has passed them all.
		spool_segment_ack(spool->dir_fd, class, segment, spool->state.acked);
		if (!writing && highest <= spool->state.acked)
			spool_lane_unlink(spool, class, i);
		else
			i++;
	}
}

void spool_reacknowledge(struct spool *spool)
{
	struct spool_state *state = &spool->state;
	struct spool_cursor cursor;

	// The state may be a second behind the cursor, and the cursor may be missing or from another spool.
	if (spool_cursor_read(spool->dir_fd, &cursor) == 0 && cursor.acked <= state->accepted &&
	    cursor.acked >= state->acked && cursor.delivered >= state->delivered) {
		state->acked = cursor.acked;
		state->delivered = cursor.delivered;
	}
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		lane_ack(spool, (enum spool_class) class);
}

void spool_take_cursor(struct spool *spool)
{
	uint64_t acked = spool->state.acked, delivered = spool->state.delivered;

	spool_reacknowledge(spool);
	// Records the cursor passed without delivering were found damaged by whoever delivers, and reported there.
	if (spool->state.acked != acked || spool->state.delivered != delivered)
		spool_balance(spool, 0, 0);
}
