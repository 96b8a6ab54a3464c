// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: storing batches. Rows go in under a number of their own, then one entry of the chain publishes them
// (lake/store_clickhouse.h has the reasoning). Here is what is new in a batch, and who is first.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

enum {
	ATTEMPTS = 8, // to store one group that others keep getting in front of
	PUBLISHES = 64, // to publish rows that stay good although others got in front
};

// ---- planning ---------------------------------------------------------------------------------------------

uint64_t clickhouse_hole_count(const struct lake_row *row, uint64_t acked)
{
	const union lake_slot *slot = row->slot;
	uint64_t count = slot[GAPS_count].u64, last = slot[GAPS_last_sequence].u64;

	return slot[GAPS_first_sequence].u64 <= acked && last - acked < count ? last - acked : count;
}

bool clickhouse_is_hole(const struct lake_row *row)
{
	const union lake_slot *slot = row->slot;

	return row->entity == ENTITY_GAPS && slot[GAPS_first_sequence].u64 != LAKE_NULL &&
	       slot[GAPS_last_sequence].u64 == row->sequence && slot[GAPS_count].u64 != LAKE_NULL &&
	       !strcmp(slot[GAPS_room].text->bytes, "spool") && !slot[GAPS_boot].text;
}

// Records are told apart by their sequence: one may be several rows and points.
static void count_new(const struct lake_batch *batch, struct clickhouse_plan *plan)
{
	size_t row = 0, point = 0;
	uint64_t last = plan->acked;

	while (row < batch->row_count || point < batch->point_count) {
		bool is_row = row < batch->row_count && (point >= batch->point_count ||
							 batch->rows[row]->sequence <= batch->points[point]->sequence);
		uint64_t sequence = is_row ? batch->rows[row]->sequence : batch->points[point]->sequence;

		if (is_row && sequence > plan->acked && clickhouse_is_hole(batch->rows[row]))
			plan->lost += clickhouse_hole_count(batch->rows[row], plan->acked);
		else if (sequence > last) {
			plan->records++;
			last = sequence;
		}
		row += is_row;
		point += !is_row;
	}
}

static void plan_batch(struct clickhouse_store *store, const struct lake_batch *batch, uint64_t acked, bool known,
		       struct clickhouse_plan *plan, struct store_result *result)
{
	if (!known)
		acked = batch->after;
	*plan = (struct clickhouse_plan){.acked = acked};
	*result = (struct store_result){.verdict = STORE_STORED, .acked = acked};
	if (batch->first > acked + 1 || acked < batch->after) {
		result->verdict = STORE_SEQUENCE;
		return;
	}
	plan->store = batch->last > acked;
	if (!plan->store)
		return;
	count_new(batch, plan);
	result->acked = batch->last;
	result->records = plan->records;
}

// One host may come several times: the later batch begins where the earlier one ends.
static int plan_all(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
		    struct clickhouse_plan *plans, struct store_result *results, bool *ret_any)
{
	*ret_any = false;
	for (size_t i = 0; i < count; i++) {
		struct clickhouse_cursor *cursor = clickhouse_cursor_find(store, batches[i]);
		uint64_t acked = cursor->acked;
		bool known = cursor->known;

		for (size_t j = 0; j < i; j++) {
			if (plans[j].store && batches[j]->host == batches[i]->host &&
			    batches[j]->epoch == batches[i]->epoch) {
				acked = batches[j]->last;
				known = true;
			}
		}
		plan_batch(store, batches[i], acked, known, &plans[i], &results[i]);
		*ret_any |= plans[i].store;
	}
	return 0;
}

// ---- publishing -------------------------------------------------------------------------------------------

// 1: published; 0: others moved what the rows were made from; -errno.
static int publish(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count, uint64_t batch,
		   struct store_error *error)
{
	for (int i = 0; i < PUBLISHES; i++) {
		int err = clickhouse_chain_publish(store, "batch", batch, 0, error);

		if (err)
			return err;
		// Rows made from cursors that have not moved are good all the same.
		err = clickhouse_cursors_unmoved(store, batches, count, error);
		if (err <= 0)
			return err;
	}
	return 0;
}

// 1: done; 0: plan again; -errno.
static int attempt(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
		   struct clickhouse_plan *plans, struct store_result *results, struct store_error *error)
{
	CLEANUP(clickhouse_group_free) struct clickhouse_group group = {.store = store};
	bool any = false;
	int err;

	if (!store->head)
		clickhouse_cursors_forget(store);
	// Before the cursors are read: drawing may find that the chain has moved, and then forgets them.
	err = clickhouse_chain_draw(store, &group.batch, error);
	if (!err)
		err = clickhouse_cursors_load(store, batches, count, error);
	if (err < 0)
		return err;
	plan_all(store, batches, count, plans, results, &any);
	if (!any)
		return 1;
	err = clickhouse_parts_begin(&group.parts);
	if (!err)
		err = clickhouse_living_begin(&group.living);
	for (size_t i = 0; !err && i < count; i++) {
		if (plans[i].store)
			err = clickhouse_living_wanted(&group.living, batches[i], plans[i].acked);
	}
	if (!err)
		err = clickhouse_living_load(&group.living, store, error);
	for (size_t i = 0; !err && i < count; i++) {
		if (plans[i].store)
			err = clickhouse_group_add(&group, batches[i], &plans[i], i);
	}
	if (!err)
		err = clickhouse_group_end(&group);
	if (err == -ENOMEM)
		store_fail(error, err, "out of memory");
	if (!err)
		err = clickhouse_group_send(&group, error);
	return err < 0 ? err : publish(store, batches, count, group.batch, error);
}

static int write_some(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
		      struct store_result *results, struct store_error *error)
{
	CLEANUP(cleanup_free) struct clickhouse_plan *plans = calloc(count, sizeof(*plans));
	int done = 0;

	if (!plans)
		return store_fail(error, -ENOMEM, "out of memory");
	for (int i = 0; !done && i < ATTEMPTS; i++)
		done = attempt(store, batches, count, plans, results, error);
	if (done <= 0) {
		store->head = 0;
		clickhouse_cursors_forget(store);
		return done < 0 ? done : store_fail(error, -EAGAIN, "other instances keep storing for these hosts");
	}
	for (size_t i = 0; i < count; i++) {
		if (plans[i].store &&
		    clickhouse_cursor_set(store, batches[i]->host, batches[i]->epoch, true, results[i].acked) < 0)
			store->head = 0;
	}
	return 0;
}

int clickhouse_write(struct store *base, struct lake_batch *const *batches, size_t count,
		     struct store_result *ret_results, struct store_error *error)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	size_t begin = 0;

	if (store->options.read_only)
		return store_fail(error, -EROFS, "the store was opened for reading");
	while (begin < count) {
		size_t end = begin;
		uint64_t rows = 0;
		int err;

		for (; end < count; end++) {
			rows += batches[end]->row_count + batches[end]->point_count;
			if (rows >= CLICKHOUSE_BATCH_ROWS && end > begin)
				break;
		}
		if (rows >= CLICKHOUSE_BATCH_ROWS && end == begin + 1 &&
		    batches[begin]->row_count + batches[begin]->point_count >= CLICKHOUSE_BATCH_ROWS)
			return store_fail(error, -E2BIG, "a batch of %d rows or more", CLICKHOUSE_BATCH_ROWS);
		err = write_some(store, batches + begin, end - begin, ret_results + begin, error);
		if (err < 0)
			return err;
		begin = end;
	}
	return 0;
}
