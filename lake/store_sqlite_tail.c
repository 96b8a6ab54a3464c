// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: what is new. Processes by their ids, which rise with arrival; other rows by the revision of the write
// that changed them last.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_sqlite.h"

// Where a live view is: of processes the next id, of others the revision of the latest write.
static int tail_now(struct sqlite_reader *reader, enum schema_entity_id entity, uint64_t *ret_mark,
		    struct store_error *error)
{
	uint64_t mark = 1;
	int status = sqlite_number(reader->db,
				   entity == ENTITY_PROCESSES ? "SELECT max(next_id) FROM partitions"
							      : "SELECT value+1 FROM meta WHERE name='revision'",
				   &mark, error);

	*ret_mark = mark ? mark : 1;
	return status;
}

static int tail_processes(struct sqlite_reader *reader, const char *workspace, uint64_t mark, uint64_t limit,
			  store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error)
{
	struct store_filter filters[] = {
		{.column = PROCESSES_id, .op = STORE_GE, .value = {.u64 = mark}},
		{.column = PROCESSES_end_ns, .op = STORE_NOT_NULL},
	};
	struct store_query query = {.entity = ENTITY_PROCESSES,
				    .workspace = workspace,
				    .filters = filters,
				    .filter_count = 2,
				    .sort = -1,
				    .limit = limit};
	char cursor[STORE_CURSOR_SIZE];
	unsigned long long last;
	int status = tail_now(reader, ENTITY_PROCESSES, ret_mark, error);

	if (status == 0)
		status = sqlite_select(&reader->reader, &query, row, data, cursor, error);
	// A full page: go on after its last row.
	if (status == 0 && cursor[0] && sscanf(cursor, "1.%*d.%*d.%*d.%llx", &last) == 1)
		*ret_mark = last + 1;
	return status;
}

// What one write changed stays together: the limit ends between two writes.
static int tail_rows(struct sqlite_reader *reader, const struct schema_entity *entity, sqlite3_stmt *statement,
		     uint64_t limit, store_row_fn row, void *data, uint64_t *mark, struct store_error *error)
{
	union lake_slot slot[SCHEMA_COLUMNS_MAX];
	uint64_t rows = 0;
	int status = 0, step = SQLITE_DONE;

	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		uint64_t revision = (uint64_t)sqlite3_column_int64(statement, (int)entity->column_count);

		if (limit && rows >= limit && revision >= *mark)
			return 0;
		arena_reset(&reader->arena);
		for (unsigned i = 0; status == 0 && i < entity->column_count; i++)
			status = sqlite_column_slot(statement, (int)i, (enum schema_type)entity->columns[i].type,
						    &reader->arena, &slot[i]);
		if (status == 0)
			status = row(data, slot);
		*mark = revision + 1;
		rows++;
	}
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(reader->db, error, "tail") : status;
}

int sqlite_tail(struct store_reader *base, const char *workspace, enum schema_entity_id id, uint64_t mark,
		uint64_t limit, store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	const struct schema_entity *entity = &schema_entities[id];
	struct sqlite_reader *reader = sqlite_reader_of(base);
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	int status;

	if (mark == 0)
		return tail_now(reader, id, ret_mark, error);
	if (id == ENTITY_PROCESSES)
		return tail_processes(reader, workspace, mark, limit, row, data, ret_mark, error);
	buf_append_string(&sql, "SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++)
		buf_printf(&sql, "%s,", entity->columns[i].name);
	buf_printf(&sql, "revision FROM %s WHERE revision>=?1 AND (?2 IS NULL OR workspace=?2) ORDER BY revision",
		   entity->name);
	status = buf_error(&sql) < 0 ? -ENOMEM : sqlite_prepare(reader->db, sql.data, false, &statement, error);
	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)mark);
	sqlite3_bind_text(statement, 2, workspace, -1, SQLITE_STATIC);
	status = tail_rows(reader, entity, statement, limit, row, data, &mark, error);
	*ret_mark = mark;
	return status;
}
