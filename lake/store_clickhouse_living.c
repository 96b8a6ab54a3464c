// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: processes that live on, while a group of batches is being stored. Processes that the group has rows
// or samples of are here; one that ends in the group is no longer moved. What each has used since it was last heard of
// goes to the series of its run.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/amounts.h"
#include "lake/store_clickhouse.h"

enum { FIRST_SLOTS = 64, IDS_MAX = 20000 }; // ids in one question

uint64_t clickhouse_process_id(const struct lake_batch *batch, const struct lake_row *row)
{
	const union lake_slot *slot = row->slot;

	return lake_id_process(batch->host, slot[PROCESSES_boot].text->bytes, slot[PROCESSES_pid].u64,
			       slot[PROCESSES_start_boot_ns].u64);
}

int clickhouse_living_begin(struct clickhouse_living *living)
{
	living->slots = calloc(FIRST_SLOTS, sizeof(*living->slots));
	if (!living->slots)
		return -ENOMEM;
	living->slot_count = FIRST_SLOTS;
	arena_init(&living->arena, 64 * 1024);
	return 0;
}

void clickhouse_living_free(struct clickhouse_living *living)
{
	if (living->slots)
		arena_free(&living->arena);
	free(living->slots);
	amounts_free(&living->amounts);
	memset(living, 0, sizeof(*living));
}

static struct clickhouse_life *slot_of(struct clickhouse_life *slots, size_t count, uint64_t process_id)
{
	size_t at = (size_t)(process_id % count);

	while (slots[at].process_id && slots[at].process_id != process_id)
		at = (at + 1) % count;
	return &slots[at];
}

static int grow(struct clickhouse_living *living)
{
	size_t count = living->slot_count * 2;
	struct clickhouse_life *larger = calloc(count, sizeof(*larger));

	if (!larger)
		return -ENOMEM;
	for (size_t i = 0; i < living->slot_count; i++) {
		if (living->slots[i].process_id)
			*slot_of(larger, count, living->slots[i].process_id) = living->slots[i];
	}
	free(living->slots);
	living->slots = larger;
	living->slot_count = count;
	return 0;
}

static int want(struct clickhouse_living *living, uint64_t process_id)
{
	struct clickhouse_life *life;

	if (living->used * 2 >= living->slot_count && grow(living) < 0)
		return -ENOMEM;
	life = slot_of(living->slots, living->slot_count, process_id);
	living->used += !life->process_id;
	life->process_id = process_id;
	return 0;
}

int clickhouse_living_wanted(struct clickhouse_living *living, const struct lake_batch *batch, uint64_t acked)
{
	int err = 0;

	for (size_t i = 0; !err && i < batch->row_count; i++) {
		const struct lake_row *row = batch->rows[i];

		if (row->entity == ENTITY_PROCESSES && row->sequence > acked)
			err = want(living, clickhouse_process_id(batch, row));
	}
	for (size_t i = 0; !err && i < batch->point_count; i++) {
		const struct lake_point *point = batch->points[i];

		if (point->kind == SERIES_PROCESS && point->sequence > acked)
			err = want(living, point->owner_id);
	}
	return err;
}

// ---- reading them -------------------------------------------------------------------------------------------------

static bool take_life(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	struct clickhouse_living *living = rows->context;
	struct clickhouse_life *life;
	struct lake_row *row;
	uint64_t process_id;

	if (!clickhouse_take_u64(cut, &process_id))
		return false;
	row = arena_alloc(&living->arena, sizeof(*row) + entity->column_count * sizeof(row->slot[0]));
	if (!row) {
		cut->out_of_memory = true;
		return false;
	}
	memset(row, 0, sizeof(*row));
	row->entity = ENTITY_PROCESSES;
	row->open = true;
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (!clickhouse_take_slot(cut, (enum schema_type)entity->columns[i].type, &living->arena,
					  &row->slot[i]))
			return false;
	}
	life = slot_of(living->slots, living->slot_count, process_id);
	if (life->process_id && row->slot[PROCESSES_boot].text) {
		life->row = row;
		life->id = row->slot[PROCESSES_id].u64;
	}
	return true;
}

static bool take_opened(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct buf *opened = rows->context;
	uint64_t process_id;

	(void)ret_stop;
	if (!clickhouse_take_u64(cut, &process_id))
		return false;
	buf_printf(opened, "%s%" PRIu64, opened->length ? "," : "", process_id);
	return true;
}

// Of all those in ids the few that were ever opened: most processes come with their end only. Numbers go into the
// statement itself, which is the body of its request, for a URL would not hold them.
static int ask_opened(struct clickhouse_store *store, const struct buf *ids, struct buf *ret_opened,
		      struct store_error *error)
{
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	struct clickhouse_request request = {0};
	struct clickhouse_rows rows = {.row = take_opened, .context = ret_opened};

	buf_printf(&query,
		   "SELECT DISTINCT process_id FROM open_rows WHERE process_id IN (%s) AND " CLICKHOUSE_PUBLISHED,
		   ids->data);
	if (buf_error(&query) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = query.data;
	clickhouse_setting(&request, "max_query_size", "4000000");
	return clickhouse_rows_run(store->http, &request, &rows, error);
}

// The latest opening row of each, unless its end is there.
static int ask_rows(struct clickhouse_living *living, struct clickhouse_store *store, const struct buf *opened,
		    struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	struct clickhouse_request request = {0};
	struct clickhouse_rows rows = {.row = take_life, .context = living};

	buf_append_string(&query, "SELECT t.process_id");
	for (unsigned i = 0; i < entity->column_count; i++)
		buf_printf(&query, ", toNullable(t.`%s`)", entity->columns[i].name);
	buf_printf(&query,
		   " FROM open_rows AS t WHERE t.process_id IN (%1$s) AND t.row_id IN (SELECT argMax(row_id, (time_ns, "
		   "sequence, row_id)) FROM open_rows WHERE process_id IN (%1$s) AND " CLICKHOUSE_PUBLISHED
		   " GROUP BY process_id) AND t.process_id NOT IN (SELECT process_id FROM processes_rows WHERE "
		   "process_id IN "
		   "(%1$s) AND " CLICKHOUSE_PUBLISHED ")",
		   opened->data);
	if (buf_error(&query) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = query.data;
	clickhouse_setting(&request, "max_query_size", "4000000");
	return clickhouse_rows_run(store->http, &request, &rows, error);
}

static int ask(struct clickhouse_living *living, struct clickhouse_store *store, const struct buf *ids,
	       struct store_error *error)
{
	CLEANUP(buf_free) struct buf opened = BUF_INIT;
	int err = buf_error(ids) < 0 ? store_fail(error, -ENOMEM, "out of memory")
				     : ask_opened(store, ids, &opened, error);

	if (!err && buf_error(&opened) < 0)
		err = store_fail(error, -ENOMEM, "out of memory");
	return !err && opened.length ? ask_rows(living, store, &opened, error) : err;
}

int clickhouse_living_load(struct clickhouse_living *living, struct clickhouse_store *store, struct store_error *error)
{
	CLEANUP(buf_free) struct buf ids = BUF_INIT;
	size_t count = 0;
	int err = 0;

	for (size_t i = 0; !err && i < living->slot_count; i++) {
		if (!living->slots[i].process_id)
			continue;
		buf_printf(&ids, "%s%" PRIu64, count ? "," : "", living->slots[i].process_id);
		if (++count < IDS_MAX)
			continue;
		err = ask(living, store, &ids, error);
		buf_reset(&ids);
		count = 0;
	}
	return !err && count ? ask(living, store, &ids, error) : err;
}

// ---- moving them --------------------------------------------------------------------------------------------------

static struct lake_row *copy(struct clickhouse_living *living, const struct lake_row *row)
{
	size_t size = sizeof(*row) + PROCESSES_END * sizeof(row->slot[0]);
	struct lake_row *again = arena_alloc(&living->arena, size);

	if (again)
		memcpy(again, row, size);
	return again;
}

int clickhouse_living_row(struct clickhouse_living *living, struct lake_batch *batch, const struct lake_row *row,
			  uint64_t id)
{
	struct clickhouse_life *life = slot_of(living->slots, living->slot_count, clickhouse_process_id(batch, row));
	int err;

	if (!life->process_id || (life->ended && row->open))
		return 0;
	err = amounts_process(&living->amounts, batch, row, life->ended ? NULL : life->row,
			      amounts_failed(row));
	life->ended |= !row->open;
	if (err < 0 || !row->open)
		return err;
	life->row = copy(living, row);
	life->id = id;
	life->moved = false;
	return life->row ? 0 : -ENOMEM;
}

static void move_to(union lake_slot *slot, uint64_t value)
{
	if (value != LAKE_NULL)
		slot->u64 = value;
}

int clickhouse_living_point(struct clickhouse_living *living, struct lake_batch *batch, const struct lake_point *point)
{
	static const struct {
		const char *metric;
		unsigned column;
	} others[] = {
		{"threads_max", PROCESSES_threads_max}, {"peak_rss_bytes", PROCESSES_peak_rss_bytes},
		{"anon_bytes", PROCESSES_anon_bytes},	{"file_bytes", PROCESSES_file_bytes},
		{"shmem_bytes", PROCESSES_shmem_bytes}, {"swap_bytes", PROCESSES_swap_bytes},
	};
	struct clickhouse_life *life = slot_of(living->slots, living->slot_count, point->owner_id);
	int sums = series_metric_find(SERIES_PROCESS, "cpu_ns");
	const struct lake_row *before = life->row;

	if (!life->process_id || life->ended || !before)
		return 0;
	life->row = copy(living, before);
	if (!life->row)
		return -ENOMEM;
	for (int i = 0; i < SUM_END; i++)
		move_to(&life->row->slot[PROCESSES_cpu_ns + i], point->value[sums + i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		move_to(&life->row->slot[others[i].column],
			point->value[series_metric_find(SERIES_PROCESS, others[i].metric)]);
	life->row->slot[PROCESSES_time_ns].u64 = point->time_ns;
	life->row->sequence = point->sequence;
	life->row->open = true;
	life->moved = true;
	life->batch = batch;
	return amounts_process(&living->amounts, batch, life->row, before, false);
}
