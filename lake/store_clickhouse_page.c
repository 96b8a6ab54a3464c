// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: pages. They are kept apart by the value sorted by and the key of the last row, so that rows that
// arrive in between neither move nor repeat any.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse_select.h"

enum { CURSOR_TEXT_MAX = 160 }; // bytes of a text value in a page cursor; a longer one is looked up by its key

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

int clickhouse_page_write(const struct store_query *query, const union lake_slot *row,
			  char ret_cursor[STORE_CURSOR_SIZE])
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

static void page_value(struct clickhouse_builder *builder, const struct store_query *query, const struct page *page)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	const struct schema_column *column = &entity->columns[query->sort];

	if (!page->lookup) {
		clickhouse_builder_slot(builder, page->value, (enum schema_type)column->type);
		return;
	}
	buf_printf(&builder->text, "(SELECT `%s` FROM `%s` WHERE `%s` = ", column->name, entity->name,
		   entity->columns[0].name);
	clickhouse_builder_slot(builder, page->key, (enum schema_type)entity->columns[0].type);
	buf_append_string(&builder->text, " LIMIT 1)");
}

// Rows behind the last one of the page before.
int clickhouse_page_condition(struct clickhouse_builder *builder, const struct store_query *query,
			      struct store_error *error)
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
		clickhouse_builder_slot(builder, page.key, key_type);
		return 0;
	}
	name = entity->columns[query->sort].name;
	if (page.null) {
		buf_printf(&builder->text, " AND `%s` IS NULL AND `%s` > ", name, key);
		clickhouse_builder_slot(builder, page.key, key_type);
		return 0;
	}
	buf_printf(&builder->text, " AND (`%s` IS NULL OR `%s` %s ", name, name, query->descending ? "<" : ">");
	page_value(builder, query, &page);
	buf_printf(&builder->text, " OR (`%s` = ", name);
	page_value(builder, query, &page);
	buf_printf(&builder->text, " AND `%s` > ", key);
	clickhouse_builder_slot(builder, page.key, key_type);
	buf_append_string(&builder->text, "))");
	return 0;
}
