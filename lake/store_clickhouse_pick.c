// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: a page of rows in any order. Which rows it has is asked first, of the columns that decide it; then
// all columns of those rows alone. In one question ClickHouse reads, and for parts puts together, every column of every
// row that could be in the page.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse_select.h"

enum { PICKS_MAX = 10001, FEW_COLUMNS = 6 };

struct pick {
	uint64_t id;
	uint64_t version; // of a living process: its row; else 0
	union lake_slot *slot; // NULL: not read
};

struct picking {
	struct clickhouse_reading *reading;
	struct pick *picks; // in the order of the page
	struct pick **by_id;
	size_t count, versions;
	struct arena arena; // of rows
};

bool clickhouse_picks(const struct clickhouse_reading *reading)
{
	const struct store_query *query = reading->query;
	bool entity = query->entity == ENTITY_PROCESSES ||
		      (clickhouse_has_parts(query->entity) && query->entity != ENTITY_HOSTS);

	return entity && query->limit && query->limit < PICKS_MAX && reading->column_count > FEW_COLUMNS;
}

static int take_picks(struct clickhouse_native *block)
{
	struct picking *picking = block->context;

	for (uint64_t row = 0; row < block->rows && picking->count <= picking->reading->limit; row++) {
		uint64_t version = block->slots[block->rows + row].u64;

		picking->picks[picking->count++] = (struct pick){.id = block->slots[row].u64, .version = version};
		picking->versions += version != 0;
	}
	return 0;
}

static int pick(struct picking *picking, struct store_error *error)
{
	static const uint8_t types[] = {SCHEMA_U64, SCHEMA_U64};
	const struct clickhouse_reading *reading = picking->reading;
	struct clickhouse_reading narrow = *reading;
	CLEANUP(clickhouse_builder_free) struct clickhouse_builder builder;
	struct clickhouse_native native = {.types = types, .type_count = 2, .block = take_picks, .context = picking};
	int err;

	narrow.column_count = 1; // the key
	if (reading->query->sort > 0)
		narrow.columns[narrow.column_count++] = (uint8_t)reading->query->sort;
	clickhouse_builder_begin(&builder);
	buf_printf(&builder.text, "SELECT t.id, %s",
		   reading->query->entity == ENTITY_PROCESSES ? "t.version" : "toUInt64(0)");
	err = clickhouse_builder_source(&builder, &narrow, error);
	if (!err)
		err = clickhouse_builder_page(&builder, reading->query, error);
	return err < 0 ? err : clickhouse_reading_run(&narrow, &builder, &native, error);
}

// ---- the rows -------------------------------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
	const struct pick *x = *(struct pick *const *)a, *y = *(struct pick *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int sort_picks(struct picking *picking)
{
	picking->by_id = calloc(picking->count ? picking->count : 1, sizeof(*picking->by_id));
	if (!picking->by_id)
		return -ENOMEM;
	for (size_t i = 0; i < picking->count; i++)
		picking->by_id[i] = &picking->picks[i];
	qsort(picking->by_id, picking->count, sizeof(*picking->by_id), by_id);
	return 0;
}

static const struct lake_text *copy_text(struct arena *arena, const struct lake_text *text)
{
	struct lake_text *copy = arena_alloc(arena, sizeof(*copy) + text->length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, sizeof(*copy) + text->length);
	copy->bytes[text->length] = '\0';
	return copy;
}

static int keep_row(void *data, const union lake_slot *slot)
{
	struct picking *picking = data;
	const struct clickhouse_reading *reading = picking->reading;
	struct pick key = {.id = slot[0].u64}, *wanted = &key, **found;

	found = bsearch(&wanted, picking->by_id, picking->count, sizeof(*picking->by_id), by_id);
	if (!found)
		return 0;
	wanted = *found;
	wanted->slot = arena_alloc(&picking->arena, reading->entity->column_count * sizeof(*slot));
	if (!wanted->slot)
		return -ENOMEM;
	memcpy(wanted->slot, slot, reading->entity->column_count * sizeof(*slot));
	for (size_t i = 0; i < reading->column_count; i++) {
		unsigned column = reading->columns[i];
		uint8_t type = reading->entity->columns[column].type;

		if ((type != SCHEMA_TEXT && type != SCHEMA_JSON) || !slot[column].text)
			continue;
		wanted->slot[column].text = copy_text(&picking->arena, slot[column].text);
		if (!wanted->slot[column].text)
			return -ENOMEM;
	}
	return 0;
}

static void put_ids(const struct picking *picking, struct buf *out, bool versions)
{
	const char *comma = "";

	for (size_t i = 0; i < picking->count; i++) {
		const struct pick *one = picking->by_id[i];

		if (picking->reading->query->entity == ENTITY_PROCESSES && versions != (one->version != 0))
			continue;
		buf_printf(out, "%s%" PRIu64, comma, versions ? one->version : one->id);
		comma = ",";
	}
}

static int read_parts(struct picking *picking, struct clickhouse_reading *rows, struct store_error *error)
{
	const struct store_query *query = picking->reading->query;
	CLEANUP(cleanup_free) struct store_filter *keys = calloc(STORE_FILTERS_MAX, sizeof(*keys));
	CLEANUP(buf_free) struct buf ids = BUF_INIT;
	struct store_query parts = *query;

	if (!keys)
		return store_fail(error, -ENOMEM, "out of memory");
	parts.filters = keys;
	parts.filter_count = 0;
	for (size_t i = 0; i < query->filter_count; i++) {
		if (clickhouse_role(query->entity, query->filters[i].column) == ROLE_KEY)
			keys[parts.filter_count++] = query->filters[i];
	}
	parts.sort = -1;
	parts.descending = false;
	parts.cursor = NULL;
	rows->query = &parts;
	put_ids(picking, &ids, false);
	buf_append_char(&ids, '\0');
	if (buf_error(&ids) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	rows->ids = ids.data;
	return clickhouse_gather(rows, error);
}

static void select_list(struct clickhouse_builder *builder, const struct clickhouse_reading *reading)
{
	for (size_t i = 0; i < reading->column_count; i++)
		buf_printf(&builder->text, "%st.`%s`", i ? ", " : "SELECT ",
			   reading->entity->columns[reading->columns[i]].name);
}

static int read_processes(struct picking *picking, struct clickhouse_reading *rows, struct store_error *error)
{
	CLEANUP(clickhouse_builder_free) struct clickhouse_builder builder;
	int err = 0;

	clickhouse_builder_begin(&builder);
	if (picking->versions < picking->count) {
		select_list(&builder, rows);
		buf_append_string(&builder.text, " FROM processes_rows AS t");
		err = clickhouse_builder_where(&builder, rows->query, error);
		buf_append_string(&builder.text, " AND t.id IN (");
		put_ids(picking, &builder.text, false);
		buf_append_char(&builder.text, ')');
	}
	if (picking->versions) {
		buf_append_string(&builder.text, builder.text.length ? " UNION ALL " : "");
		select_list(&builder, rows);
		buf_append_string(&builder.text, " FROM open_rows AS t WHERE t.row_id IN (");
		put_ids(picking, &builder.text, true);
		buf_append_char(&builder.text, ')');
	}
	return err < 0 ? err : clickhouse_reading_rows(rows, &builder, error);
}

static int give_all(struct picking *picking)
{
	struct clickhouse_reading *reading = picking->reading;
	int stop = 0;

	for (size_t i = 0; !stop && i < picking->count && i < reading->limit; i++) {
		if (!picking->picks[i].slot) // gone since
			continue;
		memcpy(reading->slot, picking->picks[i].slot, reading->entity->column_count * sizeof(reading->slot[0]));
		stop = clickhouse_reading_give(reading);
	}
	reading->more = !stop && picking->count > reading->limit;
	if (reading->more && reading->given && reading->given < reading->limit)
		stop = clickhouse_page_write(reading->query, reading->slot, reading->cursor);
	return stop;
}

int clickhouse_pick(struct clickhouse_reading *reading, struct store_error *error)
{
	struct picking picking = {.reading = reading};
	struct clickhouse_reading rows = *reading;
	int err;

	rows.limit = 0;
	rows.row = keep_row;
	rows.data = &picking;
	arena_init(&picking.arena, 64 * 1024);
	picking.picks = calloc(reading->limit + 1, sizeof(*picking.picks));
	err = picking.picks ? pick(&picking, error) : store_fail(error, -ENOMEM, "out of memory");
	if (!err && sort_picks(&picking) < 0)
		err = store_fail(error, -ENOMEM, "out of memory");
	if (!err && picking.count)
		err = reading->query->entity == ENTITY_PROCESSES ? read_processes(&picking, &rows, error)
								 : read_parts(&picking, &rows, error);
	if (!err)
		err = give_all(&picking);
	arena_free(&picking.arena);
	free(picking.picks);
	free(picking.by_id);
	return err;
}
