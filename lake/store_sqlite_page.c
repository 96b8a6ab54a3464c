// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: page cursors, which name the last row of a page by its sort value and id. They come back from outside:
// whatever is in one, it reaches nothing but the place where reading goes on.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lake/store_sqlite_select.h"

_Static_assert(STORE_CURSOR_SIZE > 2 * 4 * STORE_SORT_CHARACTERS + 60, "a cursor has room for a text");

static void cursor_write(const struct select *select, const struct bind *value, bool null, uint64_t id, uint64_t outer,
			 char out[STORE_CURSOR_SIZE])
{
	const struct store_query *query = select->query;
	int used = snprintf(out, STORE_CURSOR_SIZE, "1.%d.%d.%d.%llx.%llx.", query->entity, query->sort,
			    query->descending, (unsigned long long)id, (unsigned long long)outer);
	size_t at = (size_t)used;

	if (query->sort < 0)
		return;
	if (null) {
		snprintf(out + at, STORE_CURSOR_SIZE - at, "n");
	} else if (value->text) {
		out[at++] = 't';
		for (size_t i = 0; i < value->length; i++)
			at += (size_t)snprintf(out + at, 3, "%02x", (unsigned char)value->text[i]);
	} else {
		snprintf(out + at, STORE_CURSOR_SIZE - at, "i%llx", (unsigned long long)value->slot.u64);
	}
}

int page_cursor_read(struct select *select, struct arena *arena, struct store_error *error)
{
	const struct store_query *query = select->query;
	unsigned long long id, outer, number;
	int entity, sort, descending, used = 0;
	const char *at;
	char *text;

	if (!query->cursor || !query->cursor[0])
		return 0;
	if (strlen(query->cursor) >= STORE_CURSOR_SIZE ||
	    sscanf(query->cursor, "1.%d.%d.%d.%llx.%llx.%n", &entity, &sort, &descending, &id, &outer, &used) != 5 ||
	    used == 0 || entity != (int)query->entity || sort != query->sort || descending != query->descending)
		return store_fail(error, -EINVAL, "the page cursor is not one of this query");
	select->after = true;
	select->after_id = id;
	select->after_outer = outer;
	at = query->cursor + used;
	if (sort < 0 || *at == 'n') {
		select->after_null = sort >= 0;
		return 0;
	}
	if (*at == 'i' && !column_is_text(select, (unsigned)sort) && sscanf(at + 1, "%llx", &number) == 1) {
		select->after_value = (struct bind){.slot = {.u64 = number}, .type = SCHEMA_U64};
		return 0;
	}
	text = arena_alloc(arena, strlen(at) / 2 + 1);
	if (!text)
		return store_fail(error, -ENOMEM, "out of memory");
	select->after_value.text = text;
	if (*at++ != 't' || !column_is_text(select, (unsigned)sort))
		return store_fail(error, -EINVAL, "the page cursor is not one of this query");
	for (unsigned byte; at[0] && at[1] && sscanf(at, "%2x", &byte) == 1; at += 2)
		text[select->after_value.length++] = (char)byte;
	return 0;
}

static size_t beginning_length(const struct lake_text *text)
{
	size_t length = 0;

	for (int characters = 0; length < text->length; length++) {
		if ((text->bytes[length] & 0xc0) != 0x80 && characters++ == STORE_SORT_CHARACTERS)
			break;
	}
	return length;
}

void page_cursor_write(const struct select *select, const union lake_slot *slot, char ret_cursor[STORE_CURSOR_SIZE])
{
	const struct store_query *query = select->query;
	struct bind value = {0};
	uint64_t id = slot[0].u64, outer = query->entity == ENTITY_TASKS ? slot[TASKS_run_id].u64 : 0;
	bool null = false;

	if (query->sort >= 0) {
		null = lake_slot_is_null(slot[query->sort],
					 (enum schema_type)select->entity->columns[query->sort].type);
		value.slot = slot[query->sort];
		if (column_is_text(select, (unsigned)query->sort) && !null) {
			value.text = slot[query->sort].text->bytes;
			value.length = beginning_length(slot[query->sort].text);
		}
	}
	cursor_write(select, &value, null, id, outer, ret_cursor);
}
