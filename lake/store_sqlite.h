// SPDX-License-Identifier: Apache-2.0
// The inside of the SQLite backend. One file, DIR/lake.db, in WAL mode. The writer has one connection and alone makes
// checkpoints; each reader has its own.
//
// Processes are in partitions: tables processes_N, contexts_N and texts_N, a new N each day or when one is full, so
// that retention drops tables. A process row refers to its context (all that processes of one task have in common) and
// to texts by number. A process that lives on is a plain row of `living` until its last record. docs/lake-schema.md
// has the tables; the view `processes` puts all of it together again.
#pragma once

#include <sqlite3.h>

#include "core/base/buf.h"
#include "lake/amounts.h"
#include "lake/store_private.h"

enum {
	SQLITE_STORE_VERSION = 1, // PRAGMA user_version
	PARTITION_ROWS_MAX = 8 * 1000 * 1000,
};

// Where a column of a process is kept.
enum process_place {
	PLACE_ROW, // a number of the row
	PLACE_ROW_TEXT, // a text of its own
	PLACE_ROW_DICTIONARY, // number of a text in texts_N
	PLACE_ROW_IMAGES, // packed, lake/images.h
	PLACE_CONTEXT, // a number of the context
	PLACE_CONTEXT_DICTIONARY,
	PLACE_ID,
};

enum process_place process_place(unsigned column);
const uint8_t *process_places(void); // of all columns
const uint8_t *process_context_columns(unsigned *ret_count); // those of PLACE_CONTEXT and PLACE_CONTEXT_DICTIONARY

// The SQL expression of a column over processes_N AS p and contexts_N AS c.
void process_expression(struct buf *sql, unsigned column, uint64_t partition);

struct sqlite_partition {
	uint64_t no;
	uint64_t day; // days since 1970 when it began
	uint64_t rows;
	uint64_t next_id; // first id after its last row
	uint64_t start_min_ns, end_max_ns; // over its rows
};

struct aggregate; // store_sqlite_aggregate.c
struct aggregates {
	struct aggregate **slots;
	size_t slot_count, used;
	struct aggregate **dirty;
	size_t dirty_count, dirty_room;
	uint64_t swept; // revision at which those not asked for left the last time
	sqlite3_stmt *load[ENTITY_END];
	sqlite3_stmt *save[ENTITY_END], *change[ENTITY_END]; // a whole row; one that is there
};

struct gathered; // store_sqlite_sum.c
struct ended_rows; // store_sqlite_ended.c
struct dictionary_text;
struct dictionary_context;
struct dictionary {
	struct arena arena;
	struct dictionary_text **texts;
	struct dictionary_context **contexts;
	size_t text_count, context_count;
	uint64_t next_text, next_context;
	uint32_t generation; // of marks in struct lake_text
	sqlite3_stmt *insert_text, *insert_context;
};

struct series_known;

struct sqlite_store {
	struct store store;
	sqlite3 *db;
	char *path; // of lake.db
	int lock_fd; // -1: for reading
	struct store_options options;
	bool failed; // the last transaction was rolled back: caches are empty
	struct sqlite_partition partition; // the one written to
	struct aggregates aggregates;
	struct gathered *gathered; // of the batch being written; NULL until there is one
	struct ended_rows *ended;
	struct dictionary dictionary;
	uint64_t revision; // of the transaction being written
	uint64_t *living; // set of fingerprints of processes in `living`; 0 is free
	size_t living_slots, living_count;
	struct series_known *series;
	size_t series_slots, series_count;
	sqlite3_int64 series_at; // up to where rows of series were looked at for what has nothing
	uint64_t series_swept_ns; // when all had been
	struct amounts amounts; // of runs, of the transaction being written
	struct buf scratch;
	sqlite3_stmt *begin, *commit, *rollback, *cursor_get, *cursor_set, *partition_set;
	sqlite3_stmt *process_insert, *living_insert, *living_get, *living_delete;
	sqlite3_stmt *gap_insert, *event_insert, *key_insert, *point_insert, *point_get, *rollup_delete, *series_insert,
		*stale_insert;
};

struct sqlite_reader {
	struct store_reader reader;
	struct sqlite_store *store;
	sqlite3 *db;
	struct arena arena; // texts of one row
	struct buf scratch;
	uint64_t deadline_ns; // boot clock; 0: none
	bool timed_out;
	struct top *top; // store_sqlite_top.c
};

static inline struct sqlite_store *sqlite_store_of(struct store *store)
{
	return (struct sqlite_store *)store;
}
static inline struct sqlite_reader *sqlite_reader_of(struct store_reader *reader)
{
	return (struct sqlite_reader *)reader;
}

// --- store_sqlite_help.c: errors, statements, values

// The failure that the connection reports, as -errno with a sentence.
int sqlite_fail(sqlite3 *db, struct store_error *error, const char *what);
int sqlite_prepare(sqlite3 *db, const char *sql, bool persistent, sqlite3_stmt **ret_statement,
		   struct store_error *error);
int sqlite_run(sqlite3 *db, const char *sql, struct store_error *error);
__attribute__((format(printf, 3, 4))) int sqlite_runf(sqlite3 *db, struct store_error *error, const char *format, ...);
// The one number that a statement gives; otherwise stays when it gives no row or null.
int sqlite_number(sqlite3 *db, const char *sql, uint64_t *number, struct store_error *error);
// Runs a statement that gives no rows and resets it.
int sqlite_step_once(sqlite3 *db, sqlite3_stmt *statement, struct store_error *error);
void sqlite_bind_slot(sqlite3_stmt *statement, int at, union lake_slot slot, enum schema_type type);
void sqlite_bind_u64(sqlite3_stmt *statement, int at, uint64_t value); // LAKE_NULL is NULL
uint64_t sqlite_column_u64(sqlite3_stmt *statement, int at); // NULL is LAKE_NULL
// Texts are made in arena. -ENOMEM.
int sqlite_column_slot(sqlite3_stmt *statement, int at, enum schema_type type, struct arena *arena,
		       union lake_slot *ret_slot);
void cleanup_statement(sqlite3_stmt **statement);

// --- store_sqlite_tables.c

// Makes or moves the tables to SQLITE_STORE_VERSION. -EPROTO: newer than this.
int sqlite_tables(sqlite3 *db, struct store_error *error);
// The newest partition, made when there is none.
int sqlite_partition_load(struct sqlite_store *store, struct store_error *error);
// Begins a new one inside the transaction.
int sqlite_partition_new(struct sqlite_store *store, uint64_t day, struct store_error *error);
int sqlite_partition_drop(sqlite3 *db, uint64_t no, struct store_error *error);
// The table of ended processes with its index, as a partition has it.
void sqlite_processes_table(struct buf *sql, const char *name);
// The view `processes` over all partitions.
int sqlite_view(sqlite3 *db, struct store_error *error);

// --- store_sqlite_process.c

int process_statements(struct sqlite_store *store, struct store_error *error);
void process_statements_close(struct sqlite_store *store);
// Stores an ended process, or one that lives on, and moves the aggregates.
int process_store(struct sqlite_store *store, struct lake_batch *batch, struct lake_row *row,
		  struct store_error *error);
int living_load(struct sqlite_store *store, struct store_error *error);
void living_forget(struct sqlite_store *store);
// Moves a living process's figures to what a sample says.
int living_sample(struct sqlite_store *store, struct lake_batch *batch, const struct lake_point *point,
		  struct store_error *error);

// --- store_sqlite_ended.c

// Once for a connection, before process_statements().
int ended_begin(struct sqlite_store *store, struct store_error *error);
void ended_free(struct sqlite_store *store); // after the connection
// A row of processes_N, with the next id. It is copied; ended_flush() comes before the transaction ends.
int ended_add(struct sqlite_store *store, const struct lake_row *row, uint64_t context, struct store_error *error);
int ended_flush(struct sqlite_store *store, struct store_error *error);
void ended_forget(struct sqlite_store *store);

// --- store_sqlite_dictionary.c

int dictionary_begin(struct dictionary *dictionary);
void dictionary_forget(struct dictionary *dictionary); // nothing is known any more
void dictionary_free(struct dictionary *dictionary);
// Number of a text in the partition, written when it is not known; 0 for NULL. -ENOMEM and the like as *ret_error.
int dictionary_text(struct sqlite_store *store, const struct lake_text *text, uint64_t *ret_no,
		    struct store_error *error);
int dictionary_context(struct sqlite_store *store, const union lake_slot *slot, uint64_t host, uint64_t *ret_no,
		       struct store_error *error);

// --- store_sqlite_aggregate.c

void aggregates_free(struct aggregates *aggregates);
void aggregates_forget(struct aggregates *aggregates);
int aggregate_host(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row_or_null,
		   struct store_error *error);
int aggregate_container(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
			struct store_error *error);
// What the batch as a whole says of its host.
int aggregate_batch(struct sqlite_store *store, struct lake_batch *batch, uint64_t acked, uint64_t records,
		    uint64_t lost, struct store_error *error);
// Writes what moved.
int aggregates_flush(struct sqlite_store *store, struct store_error *error);

// --- store_sqlite_sum.c

// Adds (sign 1) or takes away (sign -1) what one process brings to all that it belongs to, after what was gathered.
int aggregate_process(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row, int sign,
		      struct store_error *error);
// The same for one that ended, gathered with others of the batch until gathered_flush(), which comes before the batch's
// rows go. ret_context: what dictionary_context() gives.
int gathered_add(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		 uint64_t *ret_context, struct store_error *error);
int gathered_flush(struct sqlite_store *store, struct store_error *error);
void gathered_forget(struct sqlite_store *store);

// --- store_sqlite_series.c

int series_point(struct sqlite_store *store, struct lake_batch *batch, const struct lake_point *point,
		 struct store_error *error);
void series_forget(struct sqlite_store *store);

// --- store_sqlite_amounts.c

// What a process used since before (NULL: since its start), for the series of its run.
int series_amounts(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		   const struct lake_row *before, bool failed, struct store_error *error);
int amounts_flush(struct sqlite_store *store, struct store_error *error);

// --- store_sqlite_top.c: zones of TOP_ZONE_ROWS ids, by the greatest value of a number of theirs

enum { TOP_ZONE_ROWS = 256 };

// A value that the greatest ones of so many zones reach, so that every row of it or more lies in those zones and there
// are at least as many. 0: none, or it would leave out little.
uint64_t top_threshold(struct sqlite_reader *reader, unsigned column, const uint64_t *partitions, size_t count,
		       size_t zones);
// Writes VALUES(first id of a zone),... of a partition's zones that reach the threshold. Returns how many.
size_t top_zones_put(struct sqlite_reader *reader, struct buf *sql, uint64_t partition, unsigned column,
		     uint64_t threshold);
void top_free(struct top *top); // takes NULL

// --- store_sqlite_write.c: around any transaction of the writer. end commits when status is 0, else rolls back and
// forgets; both return what then holds.

int sqlite_write_begin(struct sqlite_store *store, struct store_error *error);
int sqlite_write_end(struct sqlite_store *store, int status, struct store_error *error);

// --- store_sqlite_log.c

// The name of the file system that the writer opens its connection with.
const char *sqlite_log_vfs(void);

// --- store_sqlite.c

// Statements of the reader end with -ETIME after so long. 0: never.
void reader_deadline(struct sqlite_reader *reader, uint64_t limit_ms);

// --- the functions of the backend

int sqlite_write(struct store *store, struct lake_batch *const *batches, size_t count, struct store_result *ret_results,
		 struct store_error *error);
int sqlite_put(struct store *store, enum schema_entity_id entity, struct lake_row *const *rows, size_t count,
	       struct store_error *error);
int sqlite_maintain(struct store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep, struct store_error *error);
int sqlite_backup_begin(struct store *store, const char *path, struct store_backup **ret_backup,
			struct store_error *error);
int sqlite_backup_step(struct store_backup *backup, struct store_error *error);
void sqlite_backup_end(struct store_backup *backup);
int sqlite_select(struct store_reader *reader, const struct store_query *query, store_row_fn row, void *data,
		  char *ret_cursor, struct store_error *error);
int sqlite_count(struct store_reader *reader, const struct store_query *query, uint64_t *ret_count,
		 struct store_error *error);
int sqlite_tail(struct store_reader *reader, const char *workspace, enum schema_entity_id entity, uint64_t mark,
		uint64_t limit, store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error);
int sqlite_series(struct store_reader *reader, const struct store_series_query *query, store_step_fn step, void *data,
		  struct store_error *error);
int sqlite_sql(struct store_reader *reader, const char *workspace, const char *sql,
	       const struct store_sql_limits *limits, store_sql_columns_fn columns, store_sql_row_fn row, void *data,
	       struct store_error *error);
int sqlite_cursor_get(struct store_reader *reader, const char *workspace, const char *host_id, uint64_t epoch,
		      struct store_cursor *ret_cursor, struct store_error *error);
int sqlite_each_cursor(struct store_reader *reader, store_cursor_fn fn, void *data, struct store_error *error);
int sqlite_each_point(struct store_reader *reader, store_point_fn fn, void *data, struct store_error *error);
int sqlite_each_rollup(struct store_reader *reader, store_rollup_fn fn, void *data, struct store_error *error);
int sqlite_check(struct store_reader *reader, store_problem_fn problem, void *data, struct store_error *error);
int sqlite_status(struct store_reader *reader, struct store_status *ret_status, struct store_error *error);
