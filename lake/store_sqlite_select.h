// SPDX-License-Identifier: Apache-2.0
// Between the files of the SQLite backend's select.
#pragma once

#include "lake/store_sqlite.h"

enum { SOURCES_MAX = 480, BINDS_MAX = STORE_FILTERS_MAX + 8 };

// Where rows come from: a table, or one partition of processes.
struct source {
	uint64_t partition; // 0: the table
	const char *table;
};

struct bind {
	union lake_slot slot;
	enum schema_type type;
	const char *text; // instead of slot
	size_t length;
};

struct select {
	struct sqlite_reader *reader;
	const struct store_query *query;
	const struct schema_entity *entity;
	struct buf sql;
	struct bind binds[BINDS_MAX];
	size_t bind_count;
	bool wanted[SCHEMA_COLUMNS_MAX];
	const char *workspace; // to tell apart; NULL: no need
	uint8_t read[SCHEMA_COLUMNS_MAX]; // the wanted ones in order
	unsigned read_count;
	// Where the page begins: after the row with this sort value and id.
	bool after, after_null;
	struct bind after_value;
	uint64_t after_id, after_outer;
	struct source sources[SOURCES_MAX];
	size_t source_count;
	uint64_t threshold; // only rows whose sort value reaches it; 0: all
	uint64_t given, last_id; // rows, and the last one's id and sort value
	union lake_slot last;
};

static inline bool column_is_text(const struct select *select, unsigned column)
{
	return select->entity->columns[column].type == SCHEMA_TEXT ||
	       select->entity->columns[column].type == SCHEMA_JSON;
}

// --- store_sqlite_page.c: where a page begins and ends, as text that a client keeps

// The query's cursor into select->after and its friends; a text is made in arena. -EINVAL: of another query.
int page_cursor_read(struct select *select, struct arena *arena, struct store_error *error);
// The cursor behind a row.
void page_cursor_write(const struct select *select, const union lake_slot *slot, char ret_cursor[STORE_CURSOR_SIZE]);
