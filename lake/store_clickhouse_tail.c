// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: what arrived or changed since, and rows of the store's own making. A mark is a place in the chain
// and a row behind it: what is published later comes later, whichever instance stored it.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

struct tailing {
	const struct schema_entity *entity;
	union lake_slot slot[SCHEMA_COLUMNS_MAX];
	struct arena arena;
	store_row_fn row;
	void *data;
	uint64_t mark;
};

static bool take_row(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct tailing *tailing = rows->context;
	uint64_t mark;

	arena_reset(&tailing->arena);
	if (!clickhouse_take_u64(cut, &mark))
		return false;
	for (unsigned i = 0; i < tailing->entity->column_count; i++) {
		if (!clickhouse_take_slot(cut, (enum schema_type)tailing->entity->columns[i].type, &tailing->arena,
					  &tailing->slot[i]))
			return false;
	}
	tailing->mark = mark;
	*ret_stop = tailing->row(tailing->data, tailing->slot);
	return true;
}

static int chain_end(struct clickhouse_reader *reader, uint64_t *ret_n, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {.query = "SELECT max(n) FROM chain"};
	int err = clickhouse_http_text(reader->http, &request, &text, error);

	if (!err && sscanf(text.data, "%" SCNu64, ret_n) != 1)
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	return err;
}

static void make_query(struct buf *out, enum schema_entity_id id, bool workspace)
{
	const struct schema_entity *entity = &schema_entities[id];
	static const char since[] = "(SELECT n, batch FROM chain WHERE kind = 'batch' AND n >= {first:UInt64} AND n <= "
				    "{end:UInt64}) AS c";

	buf_append_string(out, "SELECT m AS place");
	for (unsigned i = 0; i < entity->column_count; i++)
		buf_printf(out, ", toNullable(t.`%s`)", entity->columns[i].name);
	if (clickhouse_has_parts(id))
		buf_printf(
			out,
			" FROM `%s` AS t INNER JOIN (SELECT key, bitOr(bitShiftLeft(newest, %d), toUInt64(least("
			"row_number() OVER (PARTITION BY newest ORDER BY key), %d))) AS m FROM (SELECT p.id AS key, "
			"max(c.n) AS newest FROM %s_part AS p INNER JOIN %s ON p.batch = c.batch GROUP BY key)) AS k "
			"ON t.id = k.key",
			entity->name, CLICKHOUSE_ROW_BITS, CLICKHOUSE_BATCH_ROWS - 1, entity->name, since);
	else
		buf_printf(
			out,
			" FROM (SELECT p.*, bitOr(bitShiftLeft(c.n, %d), bitAnd(p.id, %d) + 1) AS m FROM %s_rows AS p "
			"INNER JOIN %s ON p.batch = c.batch) AS t",
			CLICKHOUSE_ROW_BITS, CLICKHOUSE_BATCH_ROWS - 1, entity->name, since);
	buf_append_string(out, " WHERE place > {mark:UInt64}");
	if (workspace)
		buf_append_string(out, " AND t.workspace = {workspace:String}");
	buf_append_string(out, " ORDER BY place LIMIT {limit:UInt64}");
}

int clickhouse_tail(struct store_reader *base, const char *workspace, enum schema_entity_id entity, uint64_t mark,
		    uint64_t limit, store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct tailing tailing = {.entity = &schema_entities[entity], .row = row, .data = data};
	struct clickhouse_rows rows = {.row = take_row, .context = &tailing};
	struct clickhouse_request request = {0};
	char first[24], last[24], place[24], most[24];
	uint64_t end = 0;
	int err = chain_end(reader, &end, error);

	if (err < 0)
		return err;
	if (!mark || entity == ENTITY_WORKSPACES || entity == ENTITY_PIPELINES || (mark >> CLICKHOUSE_ROW_BITS) > end) {
		*ret_mark = (end + 1) << CLICKHOUSE_ROW_BITS;
		return 0;
	}
	make_query(&text, entity, workspace != NULL);
	if (buf_error(&text) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = text.data;
	snprintf(first, sizeof(first), "%" PRIu64, mark >> CLICKHOUSE_ROW_BITS);
	snprintf(last, sizeof(last), "%" PRIu64, end);
	snprintf(place, sizeof(place), "%" PRIu64, mark);
	snprintf(most, sizeof(most), "%" PRIu64, limit ? limit : UINT64_MAX);
	clickhouse_parameter(&request, "first", first);
	clickhouse_parameter(&request, "end", last);
	clickhouse_parameter(&request, "mark", place);
	clickhouse_parameter(&request, "limit", most);
	if (workspace)
		clickhouse_parameter(&request, "workspace", workspace);
	clickhouse_setting(&request, "readonly", "2");
	arena_init(&tailing.arena, 64 * 1024);
	lake_row_clear(tailing.slot, tailing.entity);
	err = clickhouse_rows_run(reader->http, &request, &rows, error);
	arena_free(&tailing.arena);
	if (!err) // without rows everything up to the end was looked at
		*ret_mark = tailing.mark ? tailing.mark : (end + 1) << CLICKHOUSE_ROW_BITS;
	return err;
}

// ---- rows of the store's own making ---------------------------------------------------------------------------------

static int put_part(struct clickhouse_parts *parts, const struct lake_row *row, const struct lake_batch *now)
{
	bool fresh;
	struct clickhouse_part *run;
	int err = clickhouse_parts_row(parts, now, row, row->slot[0].u64, now->received_ns);

	if (err < 0 || row->entity != ENTITY_JOINS || !strcmp(row->slot[JOINS_how].text->bytes, "weak"))
		return err;
	run = clickhouse_part_get(parts, ENTITY_RUNS, row->slot[JOINS_run_id].u64, 0, &fresh);
	if (!run)
		return -ENOMEM;
	run->slot[RUNS_workspace] = row->slot[JOINS_workspace];
	run->slot[RUNS_stitched_id].u64 =
		row->slot[JOINS_stitched_id].u64 == LAKE_NULL ? 0 : row->slot[JOINS_stitched_id].u64;
	run->at = now->received_ns;
	run->received_s = now->received_ns / 1000000000;
	return 0;
}

static int put_all(struct clickhouse_store *store, enum schema_entity_id entity, struct lake_row *const *rows,
		   size_t count, uint64_t batch, struct store_error *error)
{
	CLEANUP(buf_free) struct buf own = BUF_INIT;
	CLEANUP(buf_free) struct buf runs = BUF_INIT;
	CLEANUP(clickhouse_parts_free) struct clickhouse_parts parts = {0};
	struct lake_batch now = {0};
	struct timespec clock;
	char table[64];
	int err = clickhouse_parts_begin(&parts);

	clock_gettime(CLOCK_REALTIME, &clock);
	now.received_ns = (uint64_t)clock.tv_sec * 1000000000 + (uint64_t)clock.tv_nsec;
	for (size_t i = 0; !err && i < count; i++) {
		if (clickhouse_has_parts(entity))
			err = put_part(&parts, rows[i], &now);
		else
			err = clickhouse_put_row(&own, rows[i], batch << CLICKHOUSE_ROW_BITS | i, now.received_ns,
						 batch);
	}
	for (size_t i = 0; !err && i < parts.slot_count; i++) {
		if (parts.slots[i])
			clickhouse_part_put(parts.slots[i]->entity == ENTITY_RUNS ? &runs : &own, parts.slots[i],
					    batch);
	}
	if (err < 0 || buf_error(&own) < 0 || buf_error(&runs) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	snprintf(table, sizeof(table), "%s_%s", schema_entities[entity].name,
		 clickhouse_has_parts(entity) ? "part" : "rows");
	err = clickhouse_insert(store, table, &own, batch, error);
	return err ? err : clickhouse_insert(store, "runs_part", &runs, batch, error);
}

int clickhouse_put(struct store *base, enum schema_entity_id entity, struct lake_row *const *rows, size_t count,
		   struct store_error *error)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	uint64_t batch;
	int err;

	if (store->options.read_only)
		return store_fail(error, -EROFS, "the store was opened for reading");
	if (entity != ENTITY_FINDINGS && entity != ENTITY_JOINS && entity != ENTITY_GAPS && entity != ENTITY_KEYS)
		return store_fail(error, -EINVAL, "%s are made from records", schema_entities[entity].name);
	if (!count)
		return 0;
	if (count >= CLICKHOUSE_BATCH_ROWS)
		return store_fail(error, -E2BIG, "%d rows or more at once", CLICKHOUSE_BATCH_ROWS);
	err = clickhouse_chain_draw(store, &batch, error);
	if (!err)
		err = put_all(store, entity, rows, count, batch, error);
	while (!err) { // nothing here was made from cursors, so being second does no harm
		err = clickhouse_chain_publish(store, "batch", batch, 0, error);
		if (!err)
			clickhouse_cursors_forget(store);
	}
	if (err < 0)
		store->head = 0;
	return err < 0 ? err : 0;
}
