// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: select and count as SQL made from the declared schema. Values are bound, names come from
// the schema. Pages go by key: the sort value and id of the last row, so that writing in between moves nothing.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/images.h"
#include "lake/store_sqlite_select.h"

static size_t bind_add(struct select *select, union lake_slot slot, enum schema_type type)
{
	select->binds[select->bind_count] = (struct bind){.slot = slot, .type = type};
	return ++select->bind_count;
}

static void put_expression(struct select *select, const struct source *source, unsigned column)
{
	if (source->partition)
		process_expression(&select->sql, column, source->partition);
	else
		buf_append_string(&select->sql, select->entity->columns[column].name);
}

// What rows are sorted by. A text only by its beginning, so that a page cursor has room for it.
static void put_sort(struct select *select, const struct source *source)
{
	unsigned column = (unsigned)select->query->sort;
	bool text = column_is_text(select, column);

	buf_append_string(&select->sql, text ? "substr(" : "");
	put_expression(select, source, column);
	if (text)
		buf_printf(&select->sql, ",1,%d)", STORE_SORT_CHARACTERS);
}

// --- filters ---------------------------------------------------------------------------

static const char *operator_text(enum store_operator op)
{
	static const char *const texts[] = {
		[STORE_EQ] = "=",  [STORE_NE] = " IS NOT ", [STORE_LT] = "<",
		[STORE_LE] = "<=", [STORE_GT] = ">",	    [STORE_GE] = ">=",
	};

	return texts[op];
}

// A text of the dictionary is looked for there once, not in every row.
static void put_dictionary_equal(struct select *select, const struct source *source, unsigned column, size_t bound)
{
	bool context = process_place(column) == PLACE_CONTEXT_DICTIONARY;

	buf_printf(&select->sql, "%s.%s IN (SELECT no FROM texts_%llu WHERE text=?%zu)", context ? "c" : "p",
		   select->entity->columns[column].name, (unsigned long long)source->partition, bound);
}

static void put_filter(struct select *select, const struct source *source, const struct store_filter *filter,
		       size_t bound)
{
	struct buf *sql = &select->sql;
	bool dictionary = source->partition && (process_place(filter->column) == PLACE_CONTEXT_DICTIONARY ||
						process_place(filter->column) == PLACE_ROW_DICTIONARY);

	buf_append_string(sql, " AND ");
	switch (filter->op) {
	case STORE_IS_NULL:
	case STORE_NOT_NULL:
		put_expression(select, source, filter->column);
		buf_append_string(sql, filter->op == STORE_IS_NULL ? " IS NULL" : " IS NOT NULL");
		break;
	case STORE_PREFIX:
		buf_append_string(sql, "substr(");
		put_expression(select, source, filter->column);
		buf_printf(sql, ",1,length(?%zu))=?%zu", bound, bound);
		break;
	case STORE_CONTAINS:
		buf_append_string(sql, "instr(lower(");
		put_expression(select, source, filter->column);
		buf_printf(sql, "),lower(?%zu))>0", bound);
		break;
	case STORE_EQ:
		if (dictionary) {
			put_dictionary_equal(select, source, filter->column, bound);
			break;
		}
		// fall through
	default:
		put_expression(select, source, filter->column);
		buf_printf(sql, "%s?%zu", operator_text(filter->op), bound);
	}
}

// --- pages ---------------------------------------------------------------------------

// Rows after the last one of the page before, in the order of the query.
static void put_after(struct select *select, const struct source *source, size_t first_bound)
{
	const struct store_query *query = select->query;
	struct buf *sql = &select->sql;
	char id[40];

	if (query->sort < 0 && query->entity == ENTITY_TASKS) {
		buf_printf(sql, " AND (run_id,id)%s(?%zu,?%zu)", query->descending ? "<" : ">", first_bound + 2,
			   first_bound + 1);
		return;
	}
	snprintf(id, sizeof(id), source->partition ? "p.id" : "id");
	if (query->sort < 0) {
		buf_printf(sql, " AND %s%s?%zu", id, query->descending ? "<" : ">", first_bound + 1);
		return;
	}
	buf_append_string(sql, " AND (");
	if (select->after_null) {
		put_sort(select, source);
		buf_printf(sql, " IS NULL AND %s>?%zu)", id, first_bound + 1);
		return;
	}
	put_sort(select, source);
	buf_printf(sql, "%s?%zu OR (", query->descending ? "<" : ">", first_bound);
	put_sort(select, source);
	buf_printf(sql, "=?%zu AND %s>?%zu)", first_bound, id, first_bound + 1);
	if (select->entity->columns[query->sort].flags & SCHEMA_N) {
		buf_append_string(sql, " OR ");
		put_sort(select, source);
		buf_append_string(sql, " IS NULL");
	}
	buf_append_char(sql, ')');
}

// --- the statement ---------------------------------------------------------------------------

static void put_where(struct select *select, const struct source *source, const size_t *bounds, size_t workspace_bound,
		      size_t after_bound)
{
	const struct store_query *query = select->query;
	struct buf *sql = &select->sql;

	buf_append_string(sql, " WHERE 1");
	if (workspace_bound && source->partition)
		put_dictionary_equal((buf_append_string(sql, " AND "), select), source, PROCESSES_workspace,
				     workspace_bound);
	else if (workspace_bound)
		buf_printf(sql, " AND workspace=?%zu", workspace_bound);
	for (size_t i = 0; i < query->filter_count; i++)
		put_filter(select, source, &query->filters[i], bounds[i]);
	if (select->threshold) {
		buf_append_string(sql, " AND ");
		put_sort(select, source);
		buf_printf(sql, ">=%llu", (unsigned long long)select->threshold);
	}
	if (select->after)
		put_after(select, source, after_bound);
}

static bool of_context(const struct select *select, int column)
{
	enum process_place place;

	if (select->query->entity != ENTITY_PROCESSES || column < 0)
		return false;
	place = process_place((unsigned)column);
	return place == PLACE_CONTEXT || place == PLACE_CONTEXT_DICTIONARY;
}

// Whether finding rows, before they are read, looks at their contexts.
static bool finding_needs_context(const struct select *select)
{
	bool needs = select->workspace != NULL || of_context(select, select->query->sort);

	for (size_t i = 0; i < select->query->filter_count; i++)
		needs |= of_context(select, (int)select->query->filters[i].column);
	return needs;
}

static void put_from(struct select *select, const struct source *source)
{
	unsigned long long no = source->partition;

	if (no)
		buf_printf(&select->sql, " FROM processes_%llu p JOIN contexts_%llu c ON c.no=p.context", no, no);
	else
		buf_printf(&select->sql, " FROM %s", source->table);
}

static void put_order(struct select *select, size_t sort_at, size_t id_at)
{
	const struct store_query *query = select->query;
	const char *down = query->descending ? " DESC" : "";

	if (query->sort < 0 && query->entity == ENTITY_TASKS)
		buf_printf(&select->sql, " ORDER BY run_id%s,id%s", down, down);
	else if (query->sort < 0)
		buf_printf(&select->sql, " ORDER BY %zu%s", id_at, down);
	else
		buf_printf(&select->sql, " ORDER BY %zu%s%s,%zu", sort_at, down,
			   !query->descending && select->entity->columns[query->sort].flags & SCHEMA_N ? " NULLS LAST"
												       : "",
			   id_at);
}

// Where the bound values of a statement are; 0: not bound.
struct bounds {
	size_t filter[STORE_FILTERS_MAX];
	size_t workspace, after;
};

static void bind_all(struct select *select, struct bounds *bounds)
{
	const struct store_query *query = select->query;

	*bounds = (struct bounds){0};
	if (select->workspace) {
		select->binds[select->bind_count++] =
			(struct bind){.text = select->workspace, .length = strlen(select->workspace)};
		bounds->workspace = select->bind_count;
	}
	for (size_t i = 0; i < query->filter_count; i++)
		bounds->filter[i] = bind_add(select, query->filters[i].value,
					     (enum schema_type)select->entity->columns[query->filters[i].column].type);
	if (!select->after)
		return;
	select->binds[select->bind_count++] = select->after_value;
	bounds->after = select->bind_count;
	bind_add(select, (union lake_slot){.u64 = select->after_id}, SCHEMA_U64);
	bind_add(select, (union lake_slot){.u64 = select->after_outer}, SCHEMA_U64);
}

// The ids of one partition that can be in the page, found without reading whole rows.
static void put_ids(struct select *select, const struct source *source, const struct bounds *bounds)
{
	const struct store_query *query = select->query;
	unsigned long long no = source->partition;
	struct buf *sql = &select->sql;

	buf_append_string(sql, "SELECT p.id FROM ");
	if (select->threshold) {
		buf_append_char(sql, '(');
		if (!top_zones_put(select->reader, sql, no, (unsigned)query->sort, select->threshold))
			buf_append_string(sql, "VALUES(-1000)");
		buf_printf(sql, ") z CROSS JOIN processes_%llu p NOT INDEXED ON p.id>=z.column1 AND p.id<z.column1+%d",
			   no, TOP_ZONE_ROWS);
	} else {
		buf_printf(sql, "processes_%llu p", no);
	}
	if (finding_needs_context(select))
		buf_printf(sql, " JOIN contexts_%llu c ON c.no=p.context", no);
	put_where(select, source, bounds->filter, bounds->workspace, bounds->after);
	buf_append_string(sql, " ORDER BY ");
	if (query->sort >= 0) {
		put_sort(select, source);
		buf_append_string(sql, query->descending ? " DESC,p.id" : " NULLS LAST,p.id");
	} else {
		buf_append_string(sql, query->descending ? "p.id DESC" : "p.id");
	}
	buf_printf(sql, " LIMIT %llu", (unsigned long long)query->limit);
}

// Columns come in the order of the schema, those wanted only. The first is always the id.
static void put_source(struct select *select, const struct source *source, const struct bounds *bounds,
		       size_t *ret_sort_at, size_t *ret_id_at)
{
	const struct store_query *query = select->query;
	size_t position = 0;

	buf_append_string(&select->sql, "SELECT ");
	for (unsigned i = 0; i < select->entity->column_count; i++) {
		if (!select->wanted[i])
			continue;
		buf_append_string(&select->sql, position++ ? "," : "");
		put_expression(select, source, i);
		if ((int)i == query->sort)
			*ret_sort_at = position;
		if (i == 0)
			*ret_id_at = position;
	}
	if (query->sort >= 0 && column_is_text(select, (unsigned)query->sort)) {
		buf_append_char(&select->sql, ',');
		put_sort(select, source);
		*ret_sort_at = position + 1;
	}
	put_from(select, source);
	if (!source->partition || !query->limit) {
		put_where(select, source, bounds->filter, bounds->workspace, bounds->after);
		return;
	}
	buf_append_string(&select->sql, " WHERE p.id IN (");
	put_ids(select, source, bounds);
	buf_append_char(&select->sql, ')');
}

static void put_select(struct select *select)
{
	size_t sort_at = 0, id_at = 0;
	struct bounds bounds;

	bind_all(select, &bounds);
	for (size_t s = 0; s < select->source_count; s++) {
		buf_append_string(&select->sql, s ? " UNION ALL " : "");
		put_source(select, &select->sources[s], &bounds, &sort_at, &id_at);
	}
	put_order(select, sort_at, id_at);
	// Workspaces are few and have no id: one page.
	if (select->query->limit && select->query->entity != ENTITY_WORKSPACES)
		buf_printf(&select->sql, " LIMIT %llu", (unsigned long long)select->query->limit);
}

static void put_count(struct select *select)
{
	struct bounds bounds;

	bind_all(select, &bounds);
	buf_append_string(&select->sql, "SELECT sum(n) FROM (");
	for (size_t s = 0; s < select->source_count; s++) {
		const struct source *source = &select->sources[s];

		buf_append_string(&select->sql, s ? " UNION ALL SELECT count(*) AS n" : "SELECT count(*) AS n");
		if (source->partition && !finding_needs_context(select))
			buf_printf(&select->sql, " FROM processes_%llu p", (unsigned long long)source->partition);
		else
			put_from(select, source);
		put_where(select, source, bounds.filter, bounds.workspace, bounds.after);
	}
	buf_append_char(&select->sql, ')');
}

// In a lake of one workspace nothing has to be told apart: rows of hosts need no look at whose they are.
static int workspace_choose(struct select *select, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	const struct store_query *query = select->query;
	int status;

	select->workspace = query->workspace;
	if (!query->workspace || (query->entity != ENTITY_PROCESSES && query->entity != ENTITY_TASKS))
		return 0;
	status =
		sqlite_prepare(select->reader->db,
			       "SELECT (SELECT min(workspace) FROM hosts)=?1 AND (SELECT max(workspace) FROM hosts)=?1",
			       false, &statement, error);
	if (status < 0)
		return status;
	sqlite3_bind_text(statement, 1, query->workspace, -1, SQLITE_STATIC);
	if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) == 1)
		select->workspace = NULL;
	return 0;
}

// --- where processes are ---------------------------------------------------------------------------

// Partitions that cannot have a row of the query are left out.
static bool partition_may_match(const struct store_query *query, uint64_t start_min_ns, uint64_t end_max_ns,
				uint64_t first_id, uint64_t next_id)
{
	for (size_t i = 0; i < query->filter_count; i++) {
		const struct store_filter *filter = &query->filters[i];
		uint64_t value = filter->value.u64;
		bool below = filter->op == STORE_LT || filter->op == STORE_LE || filter->op == STORE_EQ;
		bool above = filter->op == STORE_GT || filter->op == STORE_GE || filter->op == STORE_EQ;
		bool time = filter->column == PROCESSES_start_ns || filter->column == PROCESSES_end_ns;

		if (time && below && value < start_min_ns)
			return false;
		if (time && above && value > end_max_ns)
			return false;
		if (filter->column == PROCESSES_id && filter->op == STORE_EQ && (value < first_id || value >= next_id))
			return false;
	}
	return true;
}

static int sources_find(struct select *select, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	struct sqlite_reader *reader = select->reader;
	uint64_t first_id = 0;
	int status;

	if (select->query->entity != ENTITY_PROCESSES) {
		select->sources[select->source_count++] = (struct source){.table = select->entity->name};
		return 0;
	}
	status = sqlite_prepare(reader->db, "SELECT no,start_min_ns,end_max_ns,next_id FROM partitions ORDER BY no",
				false, &statement, error);
	if (status < 0)
		return status;
	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		uint64_t next_id = sqlite_column_u64(statement, 3);

		if (select->source_count + 1 == SOURCES_MAX)
			return store_fail(error, -E2BIG, "the query covers too many days: narrow the time");
		if (partition_may_match(select->query, sqlite_column_u64(statement, 1), sqlite_column_u64(statement, 2),
					first_id, next_id))
			select->sources[select->source_count++] =
				(struct source){.partition = sqlite_column_u64(statement, 0)};
		first_id = next_id;
	}
	if (status != SQLITE_DONE)
		return sqlite_fail(reader->db, error, "partitions");
	select->sources[select->source_count++] = (struct source){.table = "living"};
	return 0;
}

// --- rows out ---------------------------------------------------------------------------

static int images_slot(struct sqlite_reader *reader, const void *packed, size_t size, uint64_t start_ns,
		       const struct lake_text *tool, union lake_slot *ret_slot)
{
	struct lake_image *images;
	struct lake_text *text;
	struct json json;
	size_t count;
	int status = images_unpack(packed, size, start_ns, tool, &reader->arena, &images, &count);

	if (status < 0)
		return status;
	buf_reset(&reader->scratch);
	json = json_to(&reader->scratch);
	lake_images_json(images, count, &json);
	text = arena_alloc(&reader->arena, sizeof(*text) + reader->scratch.length + 1);
	if (!text || buf_error(&reader->scratch) < 0)
		return -ENOMEM;
	*text = (struct lake_text){.length = (uint32_t)reader->scratch.length};
	memcpy(text->bytes, reader->scratch.data, reader->scratch.length + 1);
	ret_slot->text = text;
	return 0;
}

static int row_read(struct select *select, sqlite3_stmt *statement, union lake_slot *slot)
{
	const struct schema_entity *entity = select->entity;
	int at = 0, images_at = -1, status = 0;

	arena_reset(&select->reader->arena);
	for (; status == 0 && (unsigned)at < select->read_count; at++) {
		unsigned i = select->read[at];

		if (select->query->entity == ENTITY_PROCESSES && i == PROCESSES_images)
			images_at = at;
		else
			status = sqlite_column_slot(statement, at, (enum schema_type)entity->columns[i].type,
						    &select->reader->arena, &slot[i]);
	}
	if (status == 0 && images_at >= 0) {
		slot[PROCESSES_images].text = NULL;
		if (sqlite3_column_type(statement, images_at) == SQLITE_BLOB)
			status = images_slot(select->reader, sqlite3_column_blob(statement, images_at),
					     (size_t)sqlite3_column_bytes(statement, images_at),
					     slot[PROCESSES_start_ns].u64, slot[PROCESSES_tool].text,
					     &slot[PROCESSES_images]);
	}
	return status;
}

static void binds_apply(const struct select *select, sqlite3_stmt *statement)
{
	for (size_t i = 0; i < select->bind_count; i++) {
		const struct bind *bind = &select->binds[i];

		if (bind->text)
			sqlite3_bind_text(statement, (int)i + 1, bind->text, (int)bind->length, SQLITE_STATIC);
		else
			sqlite_bind_slot(statement, (int)i + 1, bind->slot, bind->type);
	}
}

static int rows_give(struct select *select, sqlite3_stmt *statement, store_row_fn row, void *data,
		     char ret_cursor[STORE_CURSOR_SIZE], struct store_error *error)
{
	union lake_slot slot[SCHEMA_COLUMNS_MAX];
	char cursor[STORE_CURSOR_SIZE] = "";
	uint64_t rows = 0;
	int status = 0, step;

	lake_row_clear(slot, select->entity);
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		status = row_read(select, statement, slot);
		if (status < 0)
			return store_fail(error, status == -EBADMSG ? -EILSEQ : status, "a row of %s cannot be read",
					  select->entity->name);
		rows++;
		select->given++;
		select->last_id = slot[0].u64;
		if (select->query->sort >= 0)
			select->last = slot[select->query->sort];
		if (rows == select->query->limit && select->query->entity != ENTITY_WORKSPACES)
			page_cursor_write(select, slot, cursor);
		status = row(data, slot);
	}
	if (status == 0 && step != SQLITE_DONE)
		return sqlite_fail(select->reader->db, error, "select");
	if (ret_cursor)
		memcpy(ret_cursor, cursor, sizeof(cursor));
	return status;
}

static int query_check(const struct select *select, struct store_error *error)
{
	const struct store_query *query = select->query;

	if (query->filter_count > STORE_FILTERS_MAX)
		return store_fail(error, -EINVAL, "at most %d filters", STORE_FILTERS_MAX);
	if (query->sort >= (int)select->entity->column_count)
		return store_fail(error, -EINVAL, "%s has no such column", select->entity->name);
	for (size_t i = 0; i < query->filter_count; i++) {
		const struct store_filter *filter = &query->filters[i];

		if (filter->column >= select->entity->column_count)
			return store_fail(error, -EINVAL, "%s has no such column", select->entity->name);
		if ((filter->op == STORE_PREFIX || filter->op == STORE_CONTAINS) &&
		    !column_is_text(select, filter->column))
			return store_fail(error, -EINVAL, "%s is no text",
					  select->entity->columns[filter->column].name);
	}
	return 0;
}

static void columns_choose(struct select *select)
{
	const struct store_query *query = select->query;

	for (unsigned i = 0; i < select->entity->column_count; i++)
		select->wanted[i] = !query->columns;
	for (size_t i = 0; query->columns && i < query->column_count; i++)
		select->wanted[query->columns[i]] = true;
	// The key is needed for a cursor only; tasks are in its order without it.
	if (query->limit || query->entity != ENTITY_TASKS)
		select->wanted[0] = true;
	if (query->sort >= 0)
		select->wanted[query->sort] = select->wanted[0] = true;
	if (query->entity == ENTITY_TASKS && query->limit)
		select->wanted[TASKS_run_id] = true;
	if (query->entity == ENTITY_PROCESSES && select->wanted[PROCESSES_images])
		select->wanted[PROCESSES_start_ns] = select->wanted[PROCESSES_tool] = true;
	for (unsigned i = 0; i < select->entity->column_count; i++) {
		if (select->wanted[i])
			select->read[select->read_count++] = (uint8_t)i;
	}
}

static int statement_run(struct select *select, store_row_fn row, void *data, char *ret_cursor,
			 struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status;

	buf_reset(&select->sql);
	select->bind_count = 0;
	put_select(select);
	if (buf_error(&select->sql) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	status = sqlite_prepare(select->reader->db, select->sql.data, false, &statement, error);
	if (status < 0)
		return status;
	binds_apply(select, statement);
	return rows_give(select, statement, row, data, ret_cursor, error);
}

// The first page of the processes with the most of something.
static void threshold_choose(struct select *select)
{
	const struct store_query *query = select->query;
	size_t zones = query->limit * (query->filter_count || select->workspace ? 6 : 1), count = 0;
	uint64_t partitions[SOURCES_MAX];

	if (query->entity != ENTITY_PROCESSES || query->sort < 0 || !query->descending || !query->limit ||
	    query->limit > 1000 || select->after || process_place((unsigned)query->sort) != PLACE_ROW ||
	    select->entity->columns[query->sort].type != SCHEMA_U64 || query->sort == PROCESSES_time_ns ||
	    query->sort == PROCESSES_pid_in_namespace)
		return;
	for (size_t i = 0; i < select->source_count; i++) {
		if (select->sources[i].partition)
			partitions[count++] = select->sources[i].partition;
	}
	select->threshold = top_threshold(select->reader, (unsigned)query->sort, partitions, count, zones);
}

// Those that reach the threshold; when they are too few for the page, the others follow as the next page would.
static int select_rows(struct select *select, store_row_fn row, void *data, char *ret_cursor, struct store_error *error)
{
	struct store_query rest = *select->query;
	int status;

	threshold_choose(select);
	status = statement_run(select, row, data, ret_cursor, error);
	if (status != 0 || !select->threshold || select->given >= rest.limit)
		return status;
	select->threshold = 0;
	rest.limit -= select->given;
	if (select->given) {
		select->after = true;
		select->after_value = (struct bind){.slot = select->last, .type = SCHEMA_U64};
		select->after_id = select->last_id;
	}
	select->query = &rest;
	return statement_run(select, row, data, ret_cursor, error);
}

static int count_run(struct select *select, uint64_t *ret_count, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status;

	put_count(select);
	if (buf_error(&select->sql) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	status = sqlite_prepare(select->reader->db, select->sql.data, false, &statement, error);
	if (status < 0)
		return status;
	binds_apply(select, statement);
	if (sqlite3_step(statement) != SQLITE_ROW)
		return sqlite_fail(select->reader->db, error, "count");
	*ret_count = (uint64_t)sqlite3_column_int64(statement, 0);
	return 0;
}

// sources, statement and rows are of one state of the store.
static int select_run(struct select *select, store_row_fn row, void *data, char *ret_cursor, uint64_t *ret_count,
		      struct store_error *error)
{
	int status = workspace_choose(select, error);

	if (status == 0)
		status = sources_find(select, error);
	if (status < 0)
		return status;
	return ret_count ? count_run(select, ret_count, error) : select_rows(select, row, data, ret_cursor, error);
}

static int select_whole(struct store_reader *base, const struct store_query *query, store_row_fn row, void *data,
			char *ret_cursor, uint64_t *ret_count, struct store_error *error)
{
	CLEANUP(cleanup_free) struct select *select = calloc(1, sizeof(*select));
	struct arena arena;
	int status;

	if (!select)
		return store_fail(error, -ENOMEM, "out of memory");
	select->reader = sqlite_reader_of(base);
	select->query = query;
	select->entity = &schema_entities[query->entity];
	arena_init(&arena, 1024);
	columns_choose(select);
	status = query_check(select, error);
	if (status == 0)
		status = page_cursor_read(select, &arena, error);
	if (status == 0) {
		reader_deadline(select->reader, query->time_limit_ms);
		status = sqlite_run(select->reader->db, "BEGIN", error);
	}
	if (status == 0) {
		status = select_run(select, row, data, ret_cursor, ret_count, error);
		reader_deadline(select->reader, 0);
		sqlite3_exec(select->reader->db, "COMMIT", NULL, NULL, NULL);
	}
	arena_free(&arena);
	buf_free(&select->sql);
	return status;
}

int sqlite_select(struct store_reader *base, const struct store_query *query, store_row_fn row, void *data,
		  char *ret_cursor, struct store_error *error)
{
	return select_whole(base, query, row, data, ret_cursor, NULL, error);
}

int sqlite_count(struct store_reader *base, const struct store_query *query, uint64_t *ret_count,
		 struct store_error *error)
{
	struct store_query all = *query;

	all.cursor = NULL;
	return select_whole(base, &all, NULL, NULL, NULL, ret_count, error);
}
