// SPDX-License-Identifier: Apache-2.0
// Lake: amounts of runs, spread over steps of 10 s. Invariant: at most STEPS_MAX steps for one process and call, so
// that a life of months costs no more than one of an hour. Knows no store.
#include "lake/amounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 256 };
enum { STEPS_MAX = 360 }; // of one spreading; longer times are filled at wider distances

_Static_assert((int)AMOUNTS <= (int)SERIES_METRICS_MAX, "room for the metrics of a run");
_Static_assert(sizeof(union lake_slot) == sizeof(uint64_t), "figures of a row are copied as they lie");

static bool is_positive(uint64_t value)
{
	return value != LAKE_NULL && value > 0;
}

bool amounts_failed(const struct lake_row *row)
{
	static const char meaning[] = "\"end\":";
	const union lake_slot *slot = row->slot;
	const struct lake_text *quality = slot[PROCESSES_quality].text;

	if (row->open || (!is_positive(slot[PROCESSES_exit_code].u64) && !is_positive(slot[PROCESSES_signal].u64) &&
			  slot[PROCESSES_oom].u64 != 1))
		return false;
	return !quality || !memmem(quality->bytes, quality->length, meaning, sizeof(meaning) - 1);
}

void amounts_free(struct amounts *amounts)
{
	free(amounts->steps);
	memset(amounts, 0, sizeof(*amounts));
}

void amounts_clear(struct amounts *amounts)
{
	if (amounts->steps)
		memset(amounts->steps, 0, amounts->slots * sizeof(*amounts->steps));
	amounts->count = 0;
}

void amounts_add(uint64_t *to, uint64_t value)
{
	if (value == LAKE_NULL)
		return;
	if (*to == LAKE_NULL)
		*to = 0;
	*to = value > LAKE_U64_MAX - *to ? LAKE_U64_MAX : *to + value;
}

// Most processes have all figures, and nothing is near the end: then no figure is looked at alone, but two at a time.
// What is above LAKE_U64_MAX, unknown or too much, has the top bit.
typedef uint64_t two __attribute__((vector_size(16), aligned(8), may_alias));
enum { TWOS = SUM_END / 2 };
_Static_assert(SUM_END % 2 == 0, "figures are taken by twos");

void amounts_add_sums(uint64_t to[SUM_END], const uint64_t values[SUM_END])
{
	const two *more = (const two *)values;
	two *sums = (two *)to, top = {0, 0};

	for (unsigned i = 0; i < TWOS; i++)
		top |= sums[i] | more[i];
	if ((top[0] | top[1]) > LAKE_U64_MAX) {
		for (unsigned i = 0; i < SUM_END; i++)
			amounts_add(&to[i], values[i]);
		return;
	}
	for (unsigned i = 0; i < TWOS; i++) {
		sums[i] += more[i];
		top |= sums[i];
	}
	for (unsigned i = 0; (top[0] | top[1]) > LAKE_U64_MAX && i < SUM_END; i++) {
		if (to[i] > LAKE_U64_MAX)
			to[i] = LAKE_U64_MAX;
	}
}

static size_t slot_of(const struct amounts_step *steps, size_t slots, uint64_t run, uint64_t step)
{
	size_t at = (size_t)((run ^ step * UINT64_C(0x9e3779b97f4a7c15)) & (slots - 1));

	while (steps[at].run && (steps[at].run != run || steps[at].step != step))
		at = (at + 1) & (slots - 1);
	return at;
}

static int grow(struct amounts *amounts)
{
	size_t slots = amounts->slots ? amounts->slots * 2 : SLOTS_FIRST;
	struct amounts_step *larger;

	if ((amounts->count + 1) * 2 <= amounts->slots)
		return 0;
	larger = calloc(slots, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	for (size_t i = 0; i < amounts->slots; i++) {
		const struct amounts_step *old = &amounts->steps[i];

		if (old->run)
			larger[slot_of(larger, slots, old->run, old->step)] = *old;
	}
	free(amounts->steps);
	amounts->steps = larger;
	amounts->slots = slots;
	return 0;
}

// The values of a step; NULL: out of memory.
static uint64_t *step_get(struct amounts *amounts, struct lake_batch *batch, uint64_t run, uint64_t step)
{
	struct amounts_step *found;

	if (grow(amounts) < 0)
		return NULL;
	found = &amounts->steps[slot_of(amounts->steps, amounts->slots, run, step)];
	if (!found->run) {
		found->run = run;
		found->step = step;
		found->batch = batch;
		memset(found->value, 0xff, sizeof(found->value));
		memset(found->value, 0, AMOUNT_USED * sizeof(found->value[0]));
		amounts->count++;
	}
	return found->value;
}

// The part of amount that has come up to done of whole.
static uint64_t up_to(uint64_t amount, uint64_t done, uint64_t whole)
{
	uint64_t product;

	if (done == whole)
		return amount;
	if (!__builtin_mul_overflow(amount, done, &product))
		return product / whole;
	return (uint64_t)((unsigned __int128)amount * done / whole);
}

static int spread(struct amounts *amounts, struct lake_batch *batch, uint64_t run, uint64_t from_ns, uint64_t to_ns,
		  const uint64_t *used)
{
	uint64_t first = from_ns / AMOUNTS_STEP_NS, last = to_ns / AMOUNTS_STEP_NS;
	uint64_t stride = (last - first) / STEPS_MAX + 1, whole = to_ns - from_ns, done = 0;

	for (uint64_t step = first; step <= last; step += stride) {
		uint64_t end_ns = step + stride > last ? to_ns : (step + stride) * AMOUNTS_STEP_NS;
		uint64_t now = end_ns - from_ns, *value = step_get(amounts, batch, run, step);

		if (!value)
			return -ENOMEM;
		amounts_add(&value[AMOUNT_RUNNING], now - done);
		for (unsigned i = 0; i < SUM_END; i++) {
			if (used[i] != LAKE_NULL)
				amounts_add(&value[AMOUNT_USED + i],
					    whole ? up_to(used[i], now, whole) - up_to(used[i], done, whole) : used[i]);
		}
		done = now;
	}
	return 0;
}

struct amounts_short {
	uint64_t running_ns;
	const uint64_t *used;
	bool started, ended, failed;
};

static int count_one(struct amounts *amounts, struct lake_batch *batch, uint64_t run, uint64_t time_ns, unsigned what)
{
	uint64_t *value = step_get(amounts, batch, run, time_ns / AMOUNTS_STEP_NS);

	if (!value)
		return -ENOMEM;
	value[what]++;
	return 0;
}

// Most processes live within one step.
static int add_short(struct amounts *amounts, struct lake_batch *batch, uint64_t run, uint64_t step,
		     const struct amounts_short *life)
{
	uint64_t *value = step_get(amounts, batch, run, step);

	if (!value)
		return -ENOMEM;
	amounts_add(&value[AMOUNT_RUNNING], life->running_ns);
	amounts_add_sums(&value[AMOUNT_USED], life->used);
	value[AMOUNT_STARTED] += life->started;
	value[AMOUNT_ENDED] += life->ended;
	value[AMOUNT_FAILED] += life->failed;
	return 0;
}

int amounts_process(struct amounts *amounts, struct lake_batch *batch, const struct lake_row *row,
		    const struct lake_row *before, bool failed)
{
	const union lake_slot *slot = row->slot;
	uint64_t run = slot[PROCESSES_run_id].u64, used[SUM_END];
	uint64_t from_ns = before ? before->slot[PROCESSES_time_ns].u64 : slot[PROCESSES_start_ns].u64;
	uint64_t to_ns = row->open ? slot[PROCESSES_time_ns].u64 : slot[PROCESSES_end_ns].u64;
	int err;

	if (run == LAKE_NULL)
		return 0;
	memcpy(used, &slot[PROCESSES_cpu_ns], sizeof(used));
	for (unsigned i = 0; before && i < SUM_END; i++) {
		uint64_t old = before->slot[PROCESSES_cpu_ns + i].u64;

		if (used[i] != LAKE_NULL && old != LAKE_NULL)
			used[i] = used[i] > old ? used[i] - old : 0;
	}
	if (to_ns >= from_ns && from_ns / AMOUNTS_STEP_NS == to_ns / AMOUNTS_STEP_NS)
		return add_short(amounts, batch, run, to_ns / AMOUNTS_STEP_NS,
				 &(struct amounts_short){to_ns - from_ns, used, !before, !row->open, failed});
	err = spread(amounts, batch, run, from_ns, to_ns < from_ns ? from_ns : to_ns, used);
	if (!err && !before)
		err = count_one(amounts, batch, run, slot[PROCESSES_start_ns].u64, AMOUNT_STARTED);
	if (!err && !row->open)
		err = count_one(amounts, batch, run, to_ns, AMOUNT_ENDED);
	if (!err && failed)
		err = count_one(amounts, batch, run, to_ns, AMOUNT_FAILED);
	return err;
}
