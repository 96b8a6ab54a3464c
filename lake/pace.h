// SPDX-License-Identifier: Apache-2.0
// How fast batches are stored here, learned from those that were, and what follows from it: which may be let in, and
// when those that may not should come back. Each of them is given a time of its own, as far from the one before as its
// batch will take to be stored, so that what was refused together comes back one by one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pace {
	uint64_t batches_per_s, bytes_per_s; // of bodies as they are sent
	uint64_t usual_per_s; // batches that come in a usual second: follows what is stored, downwards over ten minutes
	uint64_t window_ns; // when what is being counted began
	uint64_t batches, bytes; // since
	bool rested; // there was a moment in it with nothing to do
	uint64_t slot_ns; // the next time that nobody was given
	uint64_t carry_ns; // seconds are whole: what the times given so far lack
};

enum {
	PACE_SMALL_BYTES = 64 << 10, // a body of so many is let in even when what is there takes long
	PACE_ROOM_BYTES = 4 << 20, // so much may wait at any pace: some stores take as long for little as for much
};

void pace_begin(struct pace *pace, uint64_t now_ns);

// So much was stored; waiting: more is there to do.
void pace_note(struct pace *pace, uint64_t now_ns, uint64_t batches, uint64_t bytes, bool waiting);

// May a body of so many bytes be let in beside those that wait? A large one only while what waits is little or
// is stored within a second, so that the small ones of hosts that keep up need not wait for those that catch up.
bool pace_allows(const struct pace *pace, uint64_t bytes, uint64_t waiting_bytes);

// Seconds after which a batch of so many bytes should come back, from 1 to 300. However fast the store is, no more come
// back in a second than a part of those that usually come, which are there besides.
unsigned int pace_retry_s(struct pace *pace, uint64_t now_ns, uint64_t bytes, uint64_t waiting_bytes);
