// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: rows of ended processes on their way into processes_N. They are gathered and taken by one statement
// that selects them from a virtual table over the gathered rows: a statement for each row would bind every column, open
// its cursors and look for the place anew, which here stays the end of the table. Each batch's rows are written before
// it is done with, so that the rows need no copy.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/images.h"
#include "lake/store_sqlite.h"

enum { ENDED_MAX = 256, OWN_COLUMNS = 2 }; // of a statement; id and context

// What processes_N has for a pid in its namespace that is not known; null there means that it is the pid.
#define PID_UNKNOWN (-2)

struct ended_row {
	const struct lake_row *row;
	uint64_t id, context;
	size_t images_at, images_length; // in images, when the row has none packed
};

struct ended_rows {
	struct ended_row row[ENDED_MAX];
	size_t count;
	struct buf images; // packed
	uint8_t columns[PROCESSES_END]; // of the table behind its first two
};

// --- the virtual table ---------------------------------------------------------------------------

struct ended_table {
	sqlite3_vtab base;
	struct ended_rows *rows;
};

struct ended_cursor {
	sqlite3_vtab_cursor base;
	size_t at;
};

static struct ended_rows *rows_of(sqlite3_vtab_cursor *cursor)
{
	return ((struct ended_table *)cursor->pVtab)->rows;
}

static int table_connect(sqlite3 *db, void *data, int argc, const char *const *argv, sqlite3_vtab **ret_table,
			 char **ret_error)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	struct ended_rows *rows = data;
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	struct ended_table *table;
	int status;

	(void)argc;
	(void)argv;
	(void)ret_error;
	buf_append_string(&sql, "CREATE TABLE ended(id,context");
	for (unsigned i = 0, at = 0; i < PROCESSES_END; i++) {
		enum process_place place = process_place(i);

		if (place == PLACE_ID || place == PLACE_CONTEXT || place == PLACE_CONTEXT_DICTIONARY)
			continue;
		buf_printf(&sql, ",%s", entity->columns[i].name);
		rows->columns[at++] = (uint8_t)i;
	}
	buf_append_char(&sql, ')');
	if (buf_error(&sql) < 0)
		return SQLITE_NOMEM;
	status = sqlite3_declare_vtab(db, sql.data);
	table = status == SQLITE_OK ? sqlite3_malloc64(sizeof(*table)) : NULL;
	if (!table)
		return status == SQLITE_OK ? SQLITE_NOMEM : status;
	*table = (struct ended_table){.rows = rows};
	*ret_table = &table->base;
	return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *table)
{
	sqlite3_free(table);
	return SQLITE_OK;
}

static int table_plan(sqlite3_vtab *table, sqlite3_index_info *plan)
{
	(void)table;
	plan->estimatedCost = ENDED_MAX;
	plan->estimatedRows = ENDED_MAX;
	return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *table, sqlite3_vtab_cursor **ret_cursor)
{
	struct ended_cursor *cursor = sqlite3_malloc64(sizeof(*cursor));

	(void)table;
	if (!cursor)
		return SQLITE_NOMEM;
	*cursor = (struct ended_cursor){.at = 0};
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
	sqlite3_free(cursor);
	return SQLITE_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int plan, const char *text, int argc, sqlite3_value **argv)
{
	(void)plan;
	(void)text;
	(void)argc;
	(void)argv;
	((struct ended_cursor *)cursor)->at = 0;
	return SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
	((struct ended_cursor *)cursor)->at++;
	return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *cursor)
{
	return ((struct ended_cursor *)cursor)->at >= rows_of(cursor)->count;
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *ret_rowid)
{
	*ret_rowid = (sqlite3_int64)((struct ended_cursor *)cursor)->at;
	return SQLITE_OK;
}

// A result that is not set is null.
static void give_number(sqlite3_context *context, uint64_t value)
{
	if (value != LAKE_NULL)
		sqlite3_result_int64(context, (sqlite3_int64)value);
}

static int cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int at)
{
	struct ended_rows *rows = rows_of(cursor);
	const struct ended_row *ended = &rows->row[((struct ended_cursor *)cursor)->at];
	const union lake_slot *slot = ended->row->slot;
	unsigned column;

	if (at < OWN_COLUMNS) {
		give_number(context, at ? ended->context : ended->id);
		return SQLITE_OK;
	}
	column = rows->columns[at - OWN_COLUMNS];
	switch (process_places()[column]) {
	case PLACE_ROW_DICTIONARY:
		// ended_add() has seen to it that the mark is the text's number.
		if (slot[column].text)
			give_number(context, slot[column].text->mark);
		break;
	case PLACE_ROW_TEXT:
		if (slot[column].text)
			sqlite3_result_text(context, slot[column].text->bytes, (int)slot[column].text->length,
					    SQLITE_STATIC);
		break;
	case PLACE_ROW_IMAGES:
		if (ended->row->images_packed)
			sqlite3_result_blob(context, ended->row->images_packed, (int)ended->row->images_packed_size,
					    SQLITE_STATIC);
		else if (ended->row->images)
			sqlite3_result_blob(context, rows->images.data + ended->images_at, (int)ended->images_length,
					    SQLITE_STATIC);
		break;
	default:
		if (column == PROCESSES_time_ns && slot[column].u64 == slot[PROCESSES_end_ns].u64)
			break;
		if (column == PROCESSES_pid_in_namespace && slot[column].u64 == slot[PROCESSES_pid].u64)
			break;
		if (column == PROCESSES_pid_in_namespace && slot[column].u64 == LAKE_NULL)
			sqlite3_result_int64(context, PID_UNKNOWN);
		else
			give_number(context, slot[column].u64);
	}
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.iVersion = 0,
	.xConnect = table_connect,
	.xDisconnect = table_disconnect,
	.xBestIndex = table_plan,
	.xOpen = cursor_open,
	.xClose = cursor_close,
	.xFilter = cursor_filter,
	.xNext = cursor_next,
	.xEof = cursor_eof,
	.xColumn = cursor_column,
	.xRowid = cursor_rowid,
};

// --- gathering ---------------------------------------------------------------------------

int ended_begin(struct sqlite_store *store, struct store_error *error)
{
	store->ended = calloc(1, sizeof(*store->ended));
	if (!store->ended)
		return store_fail(error, -ENOMEM, "out of memory");
	if (sqlite3_create_module_v2(store->db, "ended", &module, store->ended, NULL) != SQLITE_OK)
		return sqlite_fail(store->db, error, "ended");
	return 0;
}

void ended_free(struct sqlite_store *store)
{
	if (store->ended)
		buf_free(&store->ended->images);
	free(store->ended);
	store->ended = NULL;
}

void ended_forget(struct sqlite_store *store)
{
	if (!store->ended)
		return;
	store->ended->count = 0;
	buf_reset(&store->ended->images);
}

int ended_flush(struct sqlite_store *store, struct store_error *error)
{
	int status = 0;

	if (!store->ended->count)
		return 0;
	if (buf_error(&store->ended->images) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	status = sqlite_step_once(store->db, store->process_insert, error);
	ended_forget(store);
	return status;
}

int ended_add(struct sqlite_store *store, const struct lake_row *row, uint64_t context, struct store_error *error)
{
	struct ended_rows *rows = store->ended;
	struct sqlite_partition *partition = &store->partition;
	const union lake_slot *slot = row->slot;
	const uint8_t *places = process_places();
	struct ended_row *ended;
	uint64_t no;
	int status = 0;

	if (rows->count == ENDED_MAX)
		status = ended_flush(store, error);
	for (unsigned i = 1; status == 0 && i < PROCESSES_END; i++) {
		if (places[i] == PLACE_ROW_DICTIONARY)
			status = dictionary_text(store, slot[i].text, &no, error);
	}
	if (status < 0)
		return status;
	ended = &rows->row[rows->count++];
	*ended = (struct ended_row){
		.row = row, .id = partition->next_id++, .context = context, .images_at = rows->images.length};
	if (!row->images_packed)
		images_pack(row->images, row->image_count, slot[PROCESSES_start_ns].u64, slot[PROCESSES_tool].text,
			    &rows->images);
	ended->images_length = rows->images.length - ended->images_at;
	partition->rows++;
	if (partition->start_min_ns == LAKE_NULL || slot[PROCESSES_start_ns].u64 < partition->start_min_ns)
		partition->start_min_ns = slot[PROCESSES_start_ns].u64;
	if (slot[PROCESSES_end_ns].u64 > partition->end_max_ns)
		partition->end_max_ns = slot[PROCESSES_end_ns].u64;
	return 0;
}
