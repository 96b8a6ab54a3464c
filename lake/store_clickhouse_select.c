// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: reading entities. Column names come from the schema, everything else goes out as a typed parameter.
// Pages are kept apart by the value sorted by and the key of the last row, so that rows that arrive in between neither
// move nor repeat any.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

enum { CURSOR_TEXT_MAX = 160 }; // bytes of a text value in a page cursor; a longer one is looked up by its key

struct builder {
	struct buf text;
	struct arena arena; // of parameters
	struct clickhouse_request request;
	unsigned count; // of parameters
};

static void builder_begin(struct builder *builder)
{
	memset(builder, 0, sizeof(*builder));
	arena_init(&builder->arena, 4096);
	clickhouse_setting(&builder->request, "readonly", "2");
}

static void builder_free(struct builder *builder)
{
	buf_free(&builder->text);
	arena_free(&builder->arena);
}

// Adds {pN:Type} to the query and the value to the parameters.
static void parameter(struct builder *builder, const char *type, const char *value, size_t length)
{
	char name[16];
	char *kept_name, *kept;

	snprintf(name, sizeof(name), "p%u", builder->count++);
	kept_name = arena_strndup(&builder->arena, name, strlen(name));
	kept = arena_strndup(&builder->arena, value, length);
	if (!kept_name || !kept) {
		builder->text.failed = true;
		return;
	}
	clickhouse_parameter(&builder->request, kept_name, kept);
	buf_printf(&builder->text, "{%s:%s}", kept_name, type);
}

static void parameter_u64(struct builder *builder, uint64_t value)
{
	char number[24];

	parameter(builder, "UInt64", number, (size_t)snprintf(number, sizeof(number), "%" PRIu64, value));
}

static void parameter_slot(struct builder *builder, union lake_slot slot, enum schema_type type)
{
	char number[40];

	switch (type) {
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		parameter(builder, "String", slot.text->bytes, slot.text->length);
		break;
	case SCHEMA_BOOL:
		parameter(builder, "Bool", slot.u64 ? "true" : "false", slot.u64 ? 4 : 5);
		break;
	case SCHEMA_F64:
		parameter(builder, "Float64", number, (size_t)snprintf(number, sizeof(number), "%.17g", slot.f64));
		break;
	case SCHEMA_I64:
		parameter(builder, "Int64", number, (size_t)snprintf(number, sizeof(number), "%" PRId64, slot.i64));
		break;
	default:
		parameter_u64(builder, slot.u64);
	}
}

// ---- conditions ---------------------------------------------------------------------------------------------------

static void filter(struct builder *builder, const struct schema_entity *entity, const struct store_filter *f)
{
	static const char *const signs[] = {[STORE_EQ] = " = ",	 [STORE_NE] = " != ", [STORE_LT] = " < ",
					    [STORE_LE] = " <= ", [STORE_GT] = " > ",  [STORE_GE] = " >= "};
	const struct schema_column *column = &entity->columns[f->column];
	enum schema_type type = (enum schema_type)column->type;

	buf_append_string(&builder->text, " AND ");
	switch (f->op) {
	case STORE_IS_NULL:
	case STORE_NOT_NULL:
		buf_printf(&builder->text, "`%s` IS %sNULL", column->name, f->op == STORE_NOT_NULL ? "NOT " : "");
		break;
	case STORE_PREFIX:
		buf_printf(&builder->text, "startsWith(`%s`, ", column->name);
		parameter_slot(builder, f->value, type);
		buf_append_char(&builder->text, ')');
		break;
	case STORE_CONTAINS:
		buf_printf(&builder->text, "positionCaseInsensitive(`%s`, ", column->name);
		parameter_slot(builder, f->value, type);
		buf_append_string(&builder->text, ") > 0");
		break;
	default:
		buf_printf(&builder->text, "(`%s`%s", column->name, signs[f->op]);
		parameter_slot(builder, f->value, type);
		if (f->op == STORE_NE && (column->flags & SCHEMA_N))
			buf_printf(&builder->text, " OR `%s` IS NULL", column->name);
		buf_append_char(&builder->text, ')');
	}
}

static bool filter_fits(const struct schema_entity *entity, const struct store_filter *f)
{
	enum schema_type type;

	if (f->column >= entity->column_count)
		return false;
	type = (enum schema_type)entity->columns[f->column].type;
	if (f->op == STORE_IS_NULL || f->op == STORE_NOT_NULL)
		return true;
	if (lake_slot_is_null(f->value, type))
		return false;
	if (f->op == STORE_PREFIX || f->op == STORE_CONTAINS)
		return type == SCHEMA_TEXT || type == SCHEMA_JSON;
	return true;
}

static int where(struct builder *builder, const struct store_query *query, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[query->entity];

	if (query->filter_count > STORE_FILTERS_MAX)
		return store_fail(error, -EINVAL, "more than %d conditions", STORE_FILTERS_MAX);
	buf_append_string(&builder->text, " WHERE 1");
	if (query->workspace) {
		buf_append_string(&builder->text, " AND workspace = ");
		parameter(builder, "String", query->workspace, strlen(query->workspace));
	}
	for (size_t i = 0; i < query->filter_count; i++) {
		if (!filter_fits(entity, &query->filters[i]))
			return store_fail(error, -EINVAL, "a condition that does not fit its column");
		filter(builder, entity, &query->filters[i]);
	}
	return 0;
}

// ---- page cursors ---------------------------------------------------------------------------------------------------

// CHECK.KEY.VALUE in hexadecimal: which query, the last row's key, and its value: n null, v bytes, t too long.
struct page {
	bool null, lookup;
	union lake_slot key, value;
};

static uint64_t mix(uint64_t hash, const void *data, size_t length)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t query_check(const struct store_query *query)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	uint64_t numbers[3] = {query->entity, (uint64_t)query->sort, query->descending};
	uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), numbers, sizeof(numbers));

	if (query->workspace)
		hash = mix(hash, query->workspace, strlen(query->workspace));
	for (size_t i = 0; i < query->filter_count; i++) {
		const struct store_filter *f = &query->filters[i];
		uint64_t head[2] = {f->column, f->op};
		uint8_t type = entity->columns[f->column].type;

		hash = mix(hash, head, sizeof(head));
		if (f->op == STORE_IS_NULL || f->op == STORE_NOT_NULL)
			continue;
		if (type == SCHEMA_TEXT || type == SCHEMA_JSON)
			hash = mix(hash, f->value.text->bytes, f->value.text->length);
		else
			hash = mix(hash, &f->value.u64, sizeof(f->value.u64));
	}
	return hash;
}

static void put_value(struct buf *out, union lake_slot slot, enum schema_type type)
{
	if (type != SCHEMA_TEXT && type != SCHEMA_JSON) {
		buf_printf(out, "%016" PRIx64, slot.u64);
		return;
	}
	for (uint32_t i = 0; i < slot.text->length; i++)
		buf_printf(out, "%02x", (unsigned char)slot.text->bytes[i]);
}

static int page_write(const struct store_query *query, const union lake_slot *row, char ret_cursor[STORE_CURSOR_SIZE])
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	const struct schema_entity *entity = &schema_entities[query->entity];
	enum schema_type key = (enum schema_type)entity->columns[0].type;

	buf_printf(&out, "%016" PRIx64 ".", query_check(query));
	put_value(&out, row[0], key);
	if (query->sort >= 0) {
		enum schema_type type = (enum schema_type)entity->columns[query->sort].type;
		union lake_slot slot = row[query->sort];
		bool text = type == SCHEMA_TEXT || type == SCHEMA_JSON;

		if (lake_slot_is_null(slot, type)) {
			buf_append_string(&out, ".n");
		} else if (text && slot.text->length > CURSOR_TEXT_MAX) {
			buf_append_string(&out, ".t");
		} else {
			buf_append_string(&out, ".v");
			put_value(&out, slot, type);
		}
	}
	if (buf_error(&out) < 0)
		return -ENOMEM;
	if (out.length >= STORE_CURSOR_SIZE)
		return -ENAMETOOLONG;
	memcpy(ret_cursor, out.data, out.length + 1);
	return 0;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_value(const char *text, size_t length, enum schema_type type, struct arena *arena,
		       union lake_slot *ret_slot)
{
	bool is_text = type == SCHEMA_TEXT || type == SCHEMA_JSON;
	struct lake_text *value;

	if (length % 2 || (!is_text && length != 16))
		return false;
	value = arena_alloc(arena, sizeof(*value) + length / 2 + 1);
	if (!value)
		return false;
	ret_slot->u64 = 0;
	for (size_t i = 0; i < length; i += 2) {
		int high = hex(text[i]), low = hex(text[i + 1]);

		if (high < 0 || low < 0 || (is_text && !high && !low))
			return false;
		if (is_text)
			value->bytes[i / 2] = (char)(high << 4 | low);
		else
			ret_slot->u64 = ret_slot->u64 << 8 | (uint64_t)(high << 4 | low);
	}
	if (is_text) {
		value->bytes[length / 2] = '\0';
		value->length = (uint32_t)(length / 2);
		ret_slot->text = value;
	}
	return true;
}

static bool page_read(const struct store_query *query, struct arena *arena, struct page *page)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	char check[24];
	const char *key, *value;

	snprintf(check, sizeof(check), "%016" PRIx64 ".", query_check(query));
	if (strncmp(query->cursor, check, 17))
		return false;
	key = query->cursor + 17;
	value = strchr(key, '.');
	if (!value != (query->sort < 0))
		return false;
	if (!read_value(key, value ? (size_t)(value - key) : strlen(key), (enum schema_type)entity->columns[0].type,
			arena, &page->key))
		return false;
	if (!value)
		return true;
	page->null = value[1] == 'n';
	page->lookup = value[1] == 't';
	if (page->null || page->lookup)
		return !value[2];
	return value[1] == 'v' && read_value(value + 2, strlen(value + 2),
					     (enum schema_type)entity->columns[query->sort].type, arena, &page->value);
}

static void page_value(struct builder *builder, const struct store_query *query, const struct page *page)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	const struct schema_column *column = &entity->columns[query->sort];

	if (!page->lookup) {
		parameter_slot(builder, page->value, (enum schema_type)column->type);
		return;
	}
	buf_printf(&builder->text, "(SELECT `%s` FROM `%s` WHERE `%s` = ", column->name, entity->name,
		   entity->columns[0].name);
	parameter_slot(builder, page->key, (enum schema_type)entity->columns[0].type);
	buf_append_string(&builder->text, " LIMIT 1)");
}

// Rows behind the last one of the page before.
static int page_condition(struct builder *builder, const struct store_query *query, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	const char *key = entity->columns[0].name, *name;
	enum schema_type key_type = (enum schema_type)entity->columns[0].type;
	struct page page = {0};

	if (!query->cursor || !*query->cursor)
		return 0;
	if (!page_read(query, &builder->arena, &page))
		return store_fail(error, -EINVAL, "a page cursor of another query");
	if (query->sort < 0) {
		buf_printf(&builder->text, " AND `%s` %s ", key, query->descending ? "<" : ">");
		parameter_slot(builder, page.key, key_type);
		return 0;
	}
	name = entity->columns[query->sort].name;
	if (page.null) {
		buf_printf(&builder->text, " AND `%s` IS NULL AND `%s` > ", name, key);
		parameter_slot(builder, page.key, key_type);
		return 0;
	}
	buf_printf(&builder->text, " AND (`%s` IS NULL OR `%s` %s ", name, name, query->descending ? "<" : ">");
	page_value(builder, query, &page);
	buf_printf(&builder->text, " OR (`%s` = ", name);
	page_value(builder, query, &page);
	buf_printf(&builder->text, " AND `%s` > ", key);
	parameter_slot(builder, page.key, key_type);
	buf_append_string(&builder->text, "))");
	return 0;
}

// ---- running ----------------------------------------------------------------------------------------------

struct reading {
	const struct schema_entity *entity;
	const uint8_t *columns;
	size_t column_count;
	union lake_slot slot[SCHEMA_COLUMNS_MAX];
	struct arena arena;
	uint64_t limit, given; // limit 0: none
	bool more;
	store_row_fn row;
	void *data;
	const struct store_query *query; // NULL: no page cursor
	char *cursor;
	uint64_t *mark; // of a tail: the last column of a row; NULL: none
};

static bool take_row(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct reading *reading = rows->context;
	uint64_t mark;

	arena_reset(&reading->arena);
	for (size_t i = 0; i < reading->column_count; i++) {
		unsigned column = reading->columns[i];

		if (!clickhouse_take_slot(cut, (enum schema_type)reading->entity->columns[column].type, &reading->arena,
					  &reading->slot[column]))
			return false;
	}
	if (reading->mark && !clickhouse_take_u64(cut, &mark))
		return false;
	if (reading->limit && reading->given == reading->limit) {
		reading->more = true;
		return true;
	}
	reading->given++;
	if (reading->mark)
		*reading->mark = mark;
	*ret_stop = reading->row(reading->data, reading->slot);
	if (!*ret_stop && reading->query && reading->given == reading->limit)
		*ret_stop = page_write(reading->query, reading->slot, reading->cursor);
	return true;
}

static void select_list(struct builder *builder, const struct reading *reading)
{
	buf_append_string(&builder->text, "SELECT ");
	for (size_t i = 0; i < reading->column_count; i++)
		buf_printf(&builder->text, "%stoNullable(t.`%s`)", i ? ", " : "",
			   reading->entity->columns[reading->columns[i]].name);
}

static int run(struct clickhouse_reader *reader, struct builder *builder, struct reading *reading,
	       uint64_t time_limit_ms, struct store_error *error)
{
	struct clickhouse_rows rows = {.row = take_row, .context = reading};
	char seconds[24];
	int err;

	if (buf_error(&builder->text) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	builder->request.query = builder->text.data;
	if (time_limit_ms) {
		snprintf(seconds, sizeof(seconds), "%" PRIu64, time_limit_ms / 1000 + 1);
		clickhouse_setting(&builder->request, "max_execution_time", seconds);
		clickhouse_setting(&builder->request, "cancel_http_readonly_queries_on_client_close", "1");
		builder->request.timeout_ms = time_limit_ms;
	}
	arena_init(&reading->arena, 64 * 1024);
	lake_row_clear(reading->slot, reading->entity);
	err = clickhouse_rows_run(reader->http, &builder->request, &rows, error);
	arena_free(&reading->arena);
	return err;
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

int clickhouse_select(struct store_reader *base, const struct store_query *query, store_row_fn row, void *data,
		      char *ret_cursor, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	const struct schema_entity *entity = &schema_entities[query->entity];
	const char *key = entity->columns[0].name;
	CLEANUP(builder_free) struct builder builder;
	uint8_t chosen[SCHEMA_COLUMNS_MAX];
	char cursor[STORE_CURSOR_SIZE] = "";
	struct reading reading = {.entity = entity,
				  .columns = chosen,
				  .limit = query->limit,
				  .row = row,
				  .data = data,
				  .query = query,
				  .cursor = cursor};
	int err;

	builder_begin(&builder);
	if (query->sort >= (int)entity->column_count)
		return store_fail(error, -EINVAL, "sorted by a column that there is not");
	reading.column_count = choose(query, chosen);
	select_list(&builder, &reading);
	buf_printf(&builder.text, " FROM `%s` AS t", entity->name);
	err = where(&builder, query, error);
	if (!err)
		err = page_condition(&builder, query, error);
	if (err < 0)
		return err;
	buf_append_string(&builder.text, " ORDER BY ");
	if (query->sort >= 0)
		buf_printf(&builder.text, "`%s` %s NULLS LAST, `%s`", entity->columns[query->sort].name,
			   query->descending ? "DESC" : "ASC", key);
	else
		buf_printf(&builder.text, "`%s` %s", key, query->descending ? "DESC" : "ASC");
	if (query->limit)
		buf_printf(&builder.text, " LIMIT %" PRIu64, query->limit + 1);
	err = run(reader, &builder, &reading, query->time_limit_ms, error);
	if (!err && ret_cursor) // a full page with nothing behind it is the last one
		snprintf(ret_cursor, STORE_CURSOR_SIZE, "%s", reading.more ? cursor : "");
	return err;
}

static int one_number(struct clickhouse_reader *reader, struct builder *builder, uint64_t *ret_number,
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
	CLEANUP(builder_free) struct builder builder;
	int err;

	builder_begin(&builder);
	buf_printf(&builder.text, "SELECT count() FROM `%s` AS t", schema_entities[query->entity].name);
	err = where(&builder, query, error);
	return err < 0 ? err : one_number((struct clickhouse_reader *)base, &builder, ret_count, error);
}

int clickhouse_cursor_get(struct store_reader *base, const char *workspace, const char *host_id, uint64_t epoch,
			  struct store_cursor *ret_cursor, struct store_error *error)
{
	CLEANUP(builder_free) struct builder builder;
	struct store_cursor cursor = {.epoch = epoch};
	char text[17];
	int err;

	builder_begin(&builder);
	buf_append_string(&builder.text, "SELECT max(acked) FROM hosts_part WHERE workspace = ");
	parameter(&builder, "String", workspace, strlen(workspace));
	buf_append_string(&builder.text, " AND host_id = ");
	parameter(&builder, "String", host_id, strlen(host_id));
	buf_append_string(&builder.text, " AND epoch = ");
	snprintf(text, sizeof(text), "%016" PRIx64, epoch);
	parameter(&builder, "String", text, 16);
	buf_append_string(&builder.text, " AND " CLICKHOUSE_PARTS " HAVING count() > 0");
	err = one_number((struct clickhouse_reader *)base, &builder, &cursor.acked, error);
	if (err < 0)
		return err;
	snprintf(cursor.workspace, sizeof(cursor.workspace), "%s", workspace);
	snprintf(cursor.host_id, sizeof(cursor.host_id), "%s", host_id);
	*ret_cursor = cursor;
	return 0;
}
