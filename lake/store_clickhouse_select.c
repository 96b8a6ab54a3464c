// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: reading entities.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse_select.h"

int clickhouse_reading_give(struct clickhouse_reading *reading)
{
	int stop;

	if (reading->limit && reading->given == reading->limit) {
		reading->more = true;
		return 0;
	}
	reading->given++;
	stop = reading->row(reading->data, reading->slot);
	if (!stop && reading->given == reading->limit)
		stop = clickhouse_page_write(reading->query, reading->slot, reading->cursor);
	return stop;
}

int clickhouse_reading_run(struct clickhouse_reading *reading, struct clickhouse_builder *builder,
			   struct clickhouse_native *native, struct store_error *error)
{
	uint64_t limit_ms = reading->query->time_limit_ms;
	char seconds[24];

	if (buf_error(&builder->text) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	builder->request.query = builder->text.data;
	if (builder->text.length > 100000) // ids
		clickhouse_setting(&builder->request, "max_query_size", "4000000");
	if (limit_ms) {
		snprintf(seconds, sizeof(seconds), "%" PRIu64, limit_ms / 1000 + 1);
		clickhouse_setting(&builder->request, "max_execution_time", seconds);
		clickhouse_setting(&builder->request, "cancel_http_readonly_queries_on_client_close", "1");
		builder->request.timeout_ms = limit_ms;
	}
	return clickhouse_native_run(reading->reader->http, &builder->request, native, error);
}

static int take_block(struct clickhouse_native *block)
{
	struct clickhouse_reading *reading = block->context;
	int stop = 0;

	for (uint64_t row = 0; !stop && row < block->rows; row++) {
		for (size_t i = 0; i < reading->column_count; i++)
			reading->slot[reading->columns[i]] = block->slots[i * block->rows + row];
		stop = clickhouse_reading_give(reading);
	}
	return stop;
}

// The columns that are read: those asked for, the key and the one sorted by.
static size_t choose(const struct store_query *query, uint8_t chosen[SCHEMA_COLUMNS_MAX])
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	bool wanted[SCHEMA_COLUMNS_MAX] = {[0] = true};
	size_t count = 0;

	for (unsigned i = 0; !query->columns && i < entity->column_count; i++)
		wanted[i] = true;
	for (size_t i = 0; query->columns && i < query->column_count; i++)
		wanted[query->columns[i]] = query->columns[i] < entity->column_count;
	if (query->sort >= 0)
		wanted[query->sort] = true;
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (wanted[i])
			chosen[count++] = (uint8_t)i;
	}
	return count;
}

int clickhouse_reading_rows(struct clickhouse_reading *reading, struct clickhouse_builder *builder,
			    struct store_error *error)
{
	uint8_t types[SCHEMA_COLUMNS_MAX];
	struct clickhouse_native native = {
		.types = types, .type_count = reading->column_count, .block = take_block, .context = reading};

	for (size_t i = 0; i < reading->column_count; i++)
		types[i] = reading->entity->columns[reading->columns[i]].type;
	return clickhouse_reading_run(reading, builder, &native, error);
}

static int select_all(struct clickhouse_reading *reading, struct store_error *error)
{
	CLEANUP(clickhouse_builder_free) struct clickhouse_builder builder;
	int err;

	clickhouse_builder_begin(&builder);
	for (size_t i = 0; i < reading->column_count; i++)
		buf_printf(&builder.text, "%st.`%s`", i ? ", " : "SELECT ",
			   reading->entity->columns[reading->columns[i]].name);
	err = clickhouse_builder_source(&builder, reading, error);
	if (!err)
		err = clickhouse_builder_page(&builder, reading->query, error);
	return err < 0 ? err : clickhouse_reading_rows(reading, &builder, error);
}

int clickhouse_select(struct store_reader *base, const struct store_query *query, store_row_fn row, void *data,
		      char *ret_cursor, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	struct clickhouse_reading reading = {.reader = (struct clickhouse_reader *)base,
					     .query = query,
					     .entity = entity,
					     .limit = query->limit,
					     .row = row,
					     .data = data};
	int err;

	if (query->sort >= (int)entity->column_count)
		return store_fail(error, -EINVAL, "sorted by a column that there is not");
	reading.column_count = choose(query, reading.columns);
	lake_row_clear(reading.slot, entity);
	if (clickhouse_gathers(query))
		err = clickhouse_gather(&reading, error);
	else
		err = clickhouse_picks(&reading) ? clickhouse_pick(&reading, error) : select_all(&reading, error);
	if (!err && ret_cursor) // a full page with nothing behind it is the last one
		snprintf(ret_cursor, STORE_CURSOR_SIZE, "%s", reading.more ? reading.cursor : "");
	return err;
}

static int one_number(struct clickhouse_reader *reader, struct clickhouse_builder *builder, uint64_t *ret_number,
		      struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int err;

	if (buf_error(&builder->text) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	builder->request.query = builder->text.data;
	err = clickhouse_http_text(reader->http, &builder->request, &text, error);
	if (err < 0)
		return err;
	if (sscanf(text.data, "%" SCNu64, ret_number) != 1)
		return store_fail(error, -ENOENT, "no such row");
	return 0;
}

int clickhouse_count(struct store_reader *base, const struct store_query *query, uint64_t *ret_count,
		     struct store_error *error)
{
	CLEANUP(clickhouse_builder_free) struct clickhouse_builder builder;
	int err;

	clickhouse_builder_begin(&builder);
	buf_printf(&builder.text, "SELECT count() FROM `%s` AS t", schema_entities[query->entity].name);
	err = clickhouse_builder_where(&builder, query, error);
	return err < 0 ? err : one_number((struct clickhouse_reader *)base, &builder, ret_count, error);
}

int clickhouse_cursor_get(struct store_reader *base, const char *workspace, const char *host_id, uint64_t epoch,
			  struct store_cursor *ret_cursor, struct store_error *error)
{
	CLEANUP(clickhouse_builder_free) struct clickhouse_builder builder;
	struct store_cursor cursor = {.epoch = epoch};
	char text[17];
	int err;

	clickhouse_builder_begin(&builder);
	buf_append_string(&builder.text, "SELECT max(acked) FROM hosts_part WHERE workspace = ");
	clickhouse_builder_text(&builder, "String", workspace, strlen(workspace));
	buf_append_string(&builder.text, " AND host_id = ");
	clickhouse_builder_text(&builder, "String", host_id, strlen(host_id));
	buf_append_string(&builder.text, " AND epoch = ");
	snprintf(text, sizeof(text), "%016" PRIx64, epoch);
	clickhouse_builder_text(&builder, "String", text, 16);
	buf_append_string(&builder.text, " AND " CLICKHOUSE_PARTS " HAVING count() > 0");
	err = one_number((struct clickhouse_reader *)base, &builder, &cursor.acked, error);
	if (err < 0)
		return err;
	snprintf(cursor.workspace, sizeof(cursor.workspace), "%s", workspace);
	snprintf(cursor.host_id, sizeof(cursor.host_id), "%s", host_id);
	*ret_cursor = cursor;
	return 0;
}
