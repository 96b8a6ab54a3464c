// SPDX-License-Identifier: Apache-2.0
// Stitching on a store. Keeps no state that the store has not: whatever goes wrong, all is forgotten and read again.
// Runs without keys are not held. What ended longer ago than HELD_NS joins nothing new.
#include "lake/stitcher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/stitch.h"

enum { ROWS_AT_ONCE = 5000, TAIL_ROWS = 20000 };

static const uint64_t S_NS = 1000000000, HELD_NS = UINT64_C(30) * 24 * 3600 * 1000000000;

struct stitcher {
	struct stitch *stitch;
	struct store_reader *reader;
	struct store *store;
	uint64_t keys_mark, runs_mark, forgotten_ns;
	struct stitcher_counts counts;
	// Of one step.
	struct store_error *error;
	uint64_t *unknown; // runs with keys whose times are not known yet
	size_t unknown_count, unknown_room;
	bool seen; // a row came
	struct lake_batch rows;
	bool loaded;
};

int stitcher_new(struct stitcher **ret_stitcher)
{
	*ret_stitcher = calloc(1, sizeof(**ret_stitcher));
	return *ret_stitcher ? 0 : -ENOMEM;
}

static void forget_all(struct stitcher *stitcher)
{
	stitch_free(stitcher->stitch);
	stitcher->stitch = NULL;
	store_reader_close(stitcher->reader);
	stitcher->reader = NULL;
	stitcher->unknown_count = 0;
	stitcher->loaded = false;
}

void stitcher_free(struct stitcher *stitcher)
{
	if (!stitcher)
		return;
	forget_all(stitcher);
	free(stitcher->unknown);
	lake_batch_free(&stitcher->rows);
	free(stitcher);
}

void stitcher_counts(const struct stitcher *stitcher, struct stitcher_counts *ret_counts)
{
	*ret_counts = stitcher->counts;
	ret_counts->keys = stitcher->stitch ? stitch_count(stitcher->stitch) : 0;
}

// --- what comes in
// -----------------------------------------------------------------------------------------------------

static const char *text_of(union lake_slot slot)
{
	return slot.text ? slot.text->bytes : "";
}

static int how_of(union lake_slot slot, enum stitch_how *ret_how)
{
	static const char *const names[] = {[STITCH_ID] = "id", [STITCH_PLACE] = "place", [STITCH_WEAK] = "weak"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], text_of(slot))) {
			*ret_how = (enum stitch_how)i;
			return 0;
		}
	return -EINVAL;
}

static int remember(struct stitcher *stitcher, uint64_t run_id)
{
	if (stitcher->unknown_count == stitcher->unknown_room) {
		size_t room = stitcher->unknown_room ? stitcher->unknown_room * 2 : 256;
		uint64_t *list = reallocarray(stitcher->unknown, room, sizeof(*list));
		if (!list)
			return -ENOMEM;
		stitcher->unknown = list;
		stitcher->unknown_room = room;
	}
	stitcher->unknown[stitcher->unknown_count++] = run_id;
	return 0;
}

static int see_key(void *data, const union lake_slot *slot)
{
	struct stitcher *stitcher = data;
	uint64_t run_id = slot[KEYS_run_id].u64, within = slot[KEYS_within_s].u64;
	const char *workspace = text_of(slot[KEYS_workspace]);
	struct stitch_key key = {
		.workspace = workspace,
		.key = text_of(slot[KEYS_key]),
		.why = text_of(slot[KEYS_why]),
		.run_id = run_id,
		.host = lake_id_host(workspace, text_of(slot[KEYS_host_id])),
		.time_ns = slot[KEYS_time_ns].u64,
		.within_ns = within == LAKE_NULL || within > UINT64_MAX / S_NS ? STITCH_EVER : within * S_NS,
		.head = slot[KEYS_head].u64 == 1,
	};
	bool known = stitch_has(stitcher->stitch, run_id);

	stitcher->seen = true;
	if (how_of(slot[KEYS_how], &key.how)) // of a newer version: it joins nothing here
		return 0;
	return known || !stitcher->loaded   ? stitch_key(stitcher->stitch, &key)
	       : remember(stitcher, run_id) ? -ENOMEM
					    : stitch_key(stitcher->stitch, &key);
}

static int see_run(void *data, const union lake_slot *slot)
{
	struct stitcher *stitcher = data;
	uint64_t start = slot[RUNS_start_ns].u64, end = slot[RUNS_end_ns].u64;

	stitcher->seen = true;
	if (!stitch_has(stitcher->stitch, slot[RUNS_id].u64) || start == LAKE_NULL)
		return 0;
	return stitch_run(stitcher->stitch, slot[RUNS_id].u64, start,
			  slot[RUNS_living].u64 || end == LAKE_NULL ? STITCH_ALIVE : end);
}

static int see_join(void *data, const union lake_slot *slot)
{
	struct stitcher *stitcher = data;
	uint64_t whole = slot[JOINS_stitched_id].u64;

	stitch_known(stitcher->stitch, text_of(slot[JOINS_workspace]), text_of(slot[JOINS_key]), slot[JOINS_run_id].u64,
		     whole == LAKE_NULL ? 0 : whole, slot[JOINS_confidence].f64);
	return 0;
}

static int read_all(struct stitcher *stitcher, enum schema_entity_id entity, unsigned column, enum store_operator op,
		    uint64_t value, store_row_fn visit)
{
	struct store_filter filter = {.column = column, .op = op, .value.u64 = value};
	struct store_query query = {.entity = entity, .filters = &filter, .filter_count = 1, .sort = -1};
	char cursor[STORE_CURSOR_SIZE];

	return store_select(stitcher->reader, &query, visit, stitcher, cursor, stitcher->error);
}

// What is new of an entity, until there is no more.
static int read_new(struct stitcher *stitcher, enum schema_entity_id entity, uint64_t *mark, store_row_fn visit)
{
	int error = 0;

	do {
		stitcher->seen = false;
		error = store_tail(stitcher->reader, NULL, entity, *mark, TAIL_ROWS, visit, stitcher, mark,
				   stitcher->error);
	} while (!error && stitcher->seen);
	return error;
}

// The marks first: what arrives while the rest is read comes again.
static int load(struct stitcher *stitcher, uint64_t now_ns)
{
	uint64_t since = now_ns > HELD_NS ? now_ns - HELD_NS : 0;
	int error = stitch_new(&stitcher->stitch);

	stitcher->keys_mark = stitcher->runs_mark = 0;
	stitcher->forgotten_ns = now_ns;
	error = error ? error : store_reader_open(stitcher->store, &stitcher->reader, stitcher->error);
	error = error ? error : read_new(stitcher, ENTITY_KEYS, &stitcher->keys_mark, see_key);
	error = error ? error : read_new(stitcher, ENTITY_RUNS, &stitcher->runs_mark, see_run);
	error = error ? error : read_all(stitcher, ENTITY_KEYS, KEYS_time_ns, STORE_GE, since, see_key);
	error = error ? error : read_all(stitcher, ENTITY_RUNS, RUNS_id, STORE_GE, 0, see_run);
	error = error ? error : read_all(stitcher, ENTITY_JOINS, JOINS_time_ns, STORE_GE, since, see_join);
	stitcher->loaded = !error;
	return error;
}

static int follow(struct stitcher *stitcher)
{
	int error = read_new(stitcher, ENTITY_KEYS, &stitcher->keys_mark, see_key);

	error = error ? error : read_new(stitcher, ENTITY_RUNS, &stitcher->runs_mark, see_run);
	// Runs that were there before their first key.
	for (size_t i = 0; i < stitcher->unknown_count && !error; i++)
		error = read_all(stitcher, ENTITY_RUNS, RUNS_id, STORE_EQ, stitcher->unknown[i], see_run);
	stitcher->unknown_count = 0;
	return error;
}

// --- what goes out
// -----------------------------------------------------------------------------------------------------

static int flush(struct stitcher *stitcher)
{
	int error = 0;

	if (stitcher->rows.row_count)
		error = store_put(stitcher->store, ENTITY_JOINS, stitcher->rows.rows, stitcher->rows.row_count,
				  stitcher->error);
	if (!error)
		stitcher->counts.joins += stitcher->rows.row_count;
	lake_batch_free(&stitcher->rows);
	return error;
}

static int put_change(void *data, const struct stitch_change *change)
{
	static const char *const how[] = {[STITCH_ID] = "id", [STITCH_PLACE] = "place", [STITCH_WEAK] = "weak"};
	struct stitcher *stitcher = data;
	struct lake_row *row;
	int error = 0;

	if (stitcher->rows.row_count >= ROWS_AT_ONCE)
		error = flush(stitcher);
	if (!error && !stitcher->rows.workspace)
		error = lake_batch_begin(&stitcher->rows, change->workspace, "");
	row = error ? NULL : lake_batch_row(&stitcher->rows, ENTITY_JOINS, 0);
	if (!row)
		return error ? error : -ENOMEM;
	row->slot[JOINS_id].u64 = lake_id_key(change->run_id, change->key, strlen(change->key));
	row->slot[JOINS_workspace].text = lake_batch_text(&stitcher->rows, change->workspace,
							  strlen(change->workspace));
	row->slot[JOINS_stitched_id].u64 = change->stitched_id ? change->stitched_id : LAKE_NULL;
	row->slot[JOINS_run_id].u64 = change->run_id;
	row->slot[JOINS_key].text = lake_batch_text(&stitcher->rows, change->key, strlen(change->key));
	row->slot[JOINS_why].text = lake_batch_text(&stitcher->rows, change->why, strlen(change->why));
	row->slot[JOINS_how].text = lake_batch_text(&stitcher->rows, how[change->how], strlen(how[change->how]));
	row->slot[JOINS_confidence].f64 = change->confidence;
	row->slot[JOINS_time_ns].u64 = change->time_ns;
	return row->slot[JOINS_why].text && row->slot[JOINS_key].text && row->slot[JOINS_how].text &&
			       row->slot[JOINS_workspace].text
		       ? 0
		       : -ENOMEM;
}

int stitcher_step(struct stitcher *stitcher, struct store *store, uint64_t now_ns, struct store_error *error)
{
	int result;

	stitcher->store = store;
	stitcher->error = error;
	result = stitcher->loaded ? follow(stitcher) : load(stitcher, now_ns);
	result = result ? result : stitch_update(stitcher->stitch, put_change, stitcher);
	result = result ? result : flush(stitcher);
	if (!result && now_ns > stitcher->forgotten_ns + 3600 * S_NS) {
		stitch_forget(stitcher->stitch, now_ns - HELD_NS);
		stitcher->forgotten_ns = now_ns;
	}
	if (result) {
		lake_batch_free(&stitcher->rows);
		stitcher->counts.failures++;
		forget_all(stitcher);
	}
	return result;
}
