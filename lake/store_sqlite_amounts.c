// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: what runs used over time. Each process's figures since it was last heard of are spread evenly over that
// time, in steps of 10 s, gathered for a transaction and then added to the points of the run's series. Totals stay
// exact: what is spread adds up to what the process used.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_sqlite_series.h"
#include "lake/varint.h"

enum { STARTED, ENDED, FAILED, RUNNING, USED, AMOUNTS = USED + SUM_END, SLOTS_FIRST = 256, SLOTS_MAX = 1 << 14 };
#define STEP_NS UINT64_C(10000000000)
enum { STEPS_MAX = 360 }; // of one spreading; longer times are filled at wider distances

struct amounts_step {
	uint64_t run; // 0 is free
	uint64_t step;
	struct lake_batch *batch; // whose host it is
	uint64_t value[AMOUNTS]; // LAKE_NULL: unknown so far
};

_Static_assert((int)AMOUNTS <= (int)SERIES_METRICS_MAX, "room for the metrics of a run");

void amounts_free(struct sqlite_store *store)
{
	free(store->amounts);
	store->amounts = NULL;
	store->amount_slots = store->amount_count = 0;
}

void amounts_forget(struct sqlite_store *store)
{
	if (store->amounts)
		memset(store->amounts, 0, store->amount_slots * sizeof(*store->amounts));
	store->amount_count = 0;
}

static size_t amounts_at(const struct amounts_step *steps, size_t slots, uint64_t run, uint64_t step)
{
	size_t at = (size_t)((run ^ step * UINT64_C(0x9e3779b97f4a7c15)) & (slots - 1));

	while (steps[at].run && (steps[at].run != run || steps[at].step != step))
		at = (at + 1) & (slots - 1);
	return at;
}

static int amounts_grow(struct sqlite_store *store)
{
	size_t slots = store->amount_slots ? store->amount_slots * 2 : SLOTS_FIRST;
	struct amounts_step *larger;

	if ((store->amount_count + 1) * 2 <= store->amount_slots)
		return 0;
	larger = calloc(slots, sizeof(*larger));
	if (!larger)
		return -ENOMEM;
	for (size_t i = 0; i < store->amount_slots; i++) {
		const struct amounts_step *old = &store->amounts[i];

		if (old->run)
			larger[amounts_at(larger, slots, old->run, old->step)] = *old;
	}
	free(store->amounts);
	store->amounts = larger;
	store->amount_slots = slots;
	return 0;
}

// --- to disk ---------------------------------------------------------------------------

static void add_known(uint64_t *to, uint64_t value)
{
	if (value == LAKE_NULL)
		return;
	if (*to == LAKE_NULL)
		*to = 0;
	*to = value > LAKE_U64_MAX - *to ? LAKE_U64_MAX : *to + value;
}

static int step_write(struct sqlite_store *store, struct amounts_step *step, struct store_error *error)
{
	struct {
		struct lake_point point;
		uint64_t value[AMOUNTS];
	} moment = {.point = {.kind = SERIES_RUN, .owner_id = step->run, .time_ns = step->step * STEP_NS}};
	sqlite3_stmt *get = store->point_get;
	int status;

	moment.point.series_id = lake_id_series(SERIES_RUN, step->run, "", 0);
	sqlite3_bind_int64(get, 1, (sqlite3_int64)moment.point.series_id);
	sqlite3_bind_int64(get, 2, (sqlite3_int64)moment.point.time_ns);
	status = sqlite3_step(get);
	if (status == SQLITE_ROW) {
		struct varint_reader reader =
			varint_reader(sqlite3_column_blob(get, 0), (size_t)sqlite3_column_bytes(get, 0));

		for (size_t i = 0; i < AMOUNTS && reader.at < reader.end; i++)
			add_known(&step->value[i], varint_get(&reader) - 1);
	}
	sqlite3_reset(get);
	if (status != SQLITE_ROW && status != SQLITE_DONE)
		return sqlite_fail(store->db, error, "points");
	memcpy(moment.point.value, step->value, sizeof(step->value));
	return series_point(store, step->batch, &moment.point, error);
}

int amounts_flush(struct sqlite_store *store, struct store_error *error)
{
	int status = 0;

	for (size_t i = 0; status == 0 && store->amount_count && i < store->amount_slots; i++) {
		if (store->amounts[i].run)
			status = step_write(store, &store->amounts[i], error);
	}
	amounts_forget(store);
	return status;
}

// --- spreading ---------------------------------------------------------------------------

static int step_get(struct sqlite_store *store, struct lake_batch *batch, uint64_t run, uint64_t step,
		    uint64_t **ret_value, struct store_error *error)
{
	struct amounts_step *found;
	int status = store->amount_count * 2 > SLOTS_MAX ? amounts_flush(store, error) : 0;

	if (status < 0)
		return status;
	if (amounts_grow(store) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	found = &store->amounts[amounts_at(store->amounts, store->amount_slots, run, step)];
	if (!found->run) {
		found->run = run;
		found->step = step;
		found->batch = batch;
		memset(found->value, 0xff, sizeof(found->value));
		found->value[STARTED] = found->value[ENDED] = found->value[FAILED] = found->value[RUNNING] = 0;
		store->amount_count++;
	}
	*ret_value = found->value;
	return 0;
}

// The part of amount that has come up to done of whole.
static uint64_t up_to(uint64_t amount, uint64_t done, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)amount * done / whole);
}

static int spread(struct sqlite_store *store, struct lake_batch *batch, uint64_t run, uint64_t from_ns, uint64_t to_ns,
		  const uint64_t *used, struct store_error *error)
{
	uint64_t first = from_ns / STEP_NS, last = to_ns / STEP_NS, stride = (last - first) / STEPS_MAX + 1;
	uint64_t whole = to_ns - from_ns, done = 0, *value;
	int status = 0;

	for (uint64_t step = first; status == 0 && step <= last; step += stride) {
		uint64_t end_ns = step + stride > last ? to_ns : (step + stride) * STEP_NS;
		uint64_t now = end_ns - from_ns;

		status = step_get(store, batch, run, step, &value, error);
		if (status < 0)
			break;
		add_known(&value[RUNNING], now - done);
		for (unsigned i = 0; i < SUM_END; i++) {
			if (used[i] != LAKE_NULL)
				add_known(&value[USED + i],
					  whole ? up_to(used[i], now, whole) - up_to(used[i], done, whole) : used[i]);
		}
		done = now;
	}
	return status;
}

static int count_one(struct sqlite_store *store, struct lake_batch *batch, uint64_t run, uint64_t time_ns,
		     unsigned what, struct store_error *error)
{
	uint64_t *value;
	int status = step_get(store, batch, run, time_ns / STEP_NS, &value, error);

	if (status == 0)
		value[what]++;
	return status;
}

int series_amounts(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		   const struct lake_row *before, bool failed, struct store_error *error)
{
	const union lake_slot *slot = row->slot;
	uint64_t run = slot[PROCESSES_run_id].u64, used[SUM_END];
	uint64_t from_ns = before ? before->slot[PROCESSES_time_ns].u64 : slot[PROCESSES_start_ns].u64;
	uint64_t to_ns = row->open ? slot[PROCESSES_time_ns].u64 : slot[PROCESSES_end_ns].u64;
	int status = 0;

	if (run == LAKE_NULL)
		return 0;
	for (unsigned i = 0; i < SUM_END; i++) {
		uint64_t old = before ? before->slot[PROCESSES_cpu_ns + i].u64 : LAKE_NULL;

		used[i] = slot[PROCESSES_cpu_ns + i].u64;
		if (used[i] != LAKE_NULL && old != LAKE_NULL)
			used[i] = used[i] > old ? used[i] - old : 0;
	}
	status = spread(store, batch, run, from_ns, to_ns < from_ns ? from_ns : to_ns, used, error);
	if (status == 0 && !before)
		status = count_one(store, batch, run, slot[PROCESSES_start_ns].u64, STARTED, error);
	if (status == 0 && !row->open)
		status = count_one(store, batch, run, to_ns, ENDED, error);
	if (status == 0 && failed)
		status = count_one(store, batch, run, to_ns, FAILED, error);
	return status;
}
