// SPDX-License-Identifier: Apache-2.0
// Room 12, ingest: the pace. Pure arithmetic over the caller's clock; the caller holds a lock around it.

#include "lake/pace.h"

#define NS_PER_S UINT64_C(1000000000)

enum {
	RETRY_MIN_S = 1,
	RETRY_MAX_S = 300,
	LEAST_BATCHES_PER_S = 20,
	LEAST_BYTES_PER_S = 256 << 10,
	FIRST_BATCHES_PER_S = 200, // before anything is known
	FIRST_BYTES_PER_S = 4 << 20,
	SHARE = 40, // per cent of the pace is promised to those who come back,
	USUAL_SHARE = 25, // and at most so many per cent of what usually comes
	USUAL_RISE = 8, // windows
	USUAL_FALL = 600,
};
static const uint64_t WINDOW_NS = NS_PER_S;

void pace_begin(struct pace *pace, uint64_t now_ns)
{
	*pace = (struct pace){
		.batches_per_s = FIRST_BATCHES_PER_S,
		.bytes_per_s = FIRST_BYTES_PER_S,
		.usual_per_s = FIRST_BATCHES_PER_S,
		.window_ns = now_ns,
	};
}

// With nothing to do now and then, more would have gone: the measure is a bound from below.
static void learn(uint64_t *per_s, uint64_t count, uint64_t ns, bool rested, uint64_t least)
{
	uint64_t measured = (uint64_t)((double)count * 1e9 / (double)ns);

	if (!rested)
		*per_s = (*per_s + measured) / 2;
	else if (measured > *per_s)
		*per_s = measured;
	if (*per_s < least)
		*per_s = least;
}

// A burst after a pause is not what usually comes, and an hour in which little does will not be for ever.
static void learn_usual(struct pace *pace, uint64_t ns)
{
	double measured = (double)pace->batches * 1e9 / (double)ns, usual = (double)pace->usual_per_s;
	double share = (double)ns / (double)WINDOW_NS / (measured > usual ? USUAL_RISE : USUAL_FALL);

	usual += (measured - usual) * (share < 1 ? share : 1);
	pace->usual_per_s = usual > LEAST_BATCHES_PER_S ? (uint64_t)(usual + 0.5) : LEAST_BATCHES_PER_S;
}

void pace_note(struct pace *pace, uint64_t now_ns, uint64_t batches, uint64_t bytes, bool waiting)
{
	uint64_t ns = now_ns - pace->window_ns;

	pace->batches += batches;
	pace->bytes += bytes;
	pace->rested |= !waiting;
	if (ns < WINDOW_NS)
		return;
	// Few large batches say little of how many small ones would go, and the other way round.
	learn(&pace->batches_per_s, pace->batches, ns, pace->rested || pace->bytes > pace->batches * PACE_SMALL_BYTES,
	      LEAST_BATCHES_PER_S);
	learn(&pace->bytes_per_s, pace->bytes, ns, pace->rested || pace->bytes <= pace->batches * PACE_SMALL_BYTES,
	      LEAST_BYTES_PER_S);
	learn_usual(pace, ns);
	pace->window_ns = now_ns;
	pace->batches = pace->bytes = 0;
	pace->rested = false;
}

bool pace_allows(const struct pace *pace, uint64_t bytes, uint64_t waiting_bytes)
{
	return bytes <= PACE_SMALL_BYTES || waiting_bytes < PACE_ROOM_BYTES || waiting_bytes < pace->bytes_per_s;
}

unsigned int pace_retry_s(struct pace *pace, uint64_t now_ns, uint64_t bytes, uint64_t waiting_bytes)
{
	uint64_t by_bytes = bytes * NS_PER_S / pace->bytes_per_s, by_number = NS_PER_S / pace->batches_per_s;
	uint64_t by_pace = (by_bytes > by_number ? by_bytes : by_number) * 100 / SHARE;
	uint64_t by_usual = NS_PER_S * 100 / USUAL_SHARE / pace->usual_per_s;
	uint64_t takes_ns = by_pace > by_usual ? by_pace : by_usual;
	uint64_t soonest_ns = now_ns + RETRY_MIN_S * NS_PER_S + waiting_bytes * NS_PER_S / pace->bytes_per_s;
	uint64_t after_s;

	if (pace->slot_ns < soonest_ns)
		pace->slot_ns = soonest_ns;
	// Some are told a second less than they should wait and some a second more: all rounded up would come together.
	pace->carry_ns += pace->slot_ns - now_ns;
	after_s = pace->carry_ns / NS_PER_S;
	after_s = after_s < RETRY_MIN_S ? RETRY_MIN_S : after_s > RETRY_MAX_S ? RETRY_MAX_S : after_s;
	pace->carry_ns = pace->carry_ns < after_s * NS_PER_S ? 0 : pace->carry_ns - after_s * NS_PER_S;
	if (pace->carry_ns >= NS_PER_S)
		pace->carry_ns = 0;
	// Beyond the longest wait all come at the same time, spread only by what each adds of its own accord.
	if (after_s < RETRY_MAX_S)
		pace->slot_ns += takes_ns;
	return (unsigned int)after_s;
}
