// SPDX-License-Identifier: Apache-2.0
// One store, two backends that pass one conformance test (tests/unit/test_store_conformance.c).
//
// Threads: a struct store is used by one thread at a time, the writer (write, put, maintenance, backup). A struct
// store_reader is used by one thread at a time too; there may be many, in other threads than the writer, and they
// never wait for it. Errors are -errno with a sentence in struct store_error: -ENOSPC disk full, -EROFS, -EIO,
// -EAGAIN (the other end is down or busy), -EINVAL (the caller's), -EILSEQ (damaged), -ETIME (a limit), -ENOMEM. After
// a failure nothing of that call is stored; the next call tries anew, so a store recovers by itself when its disk or
// server does.
#pragma once

#include "lake/rows.h"

enum {
	STORE_CURSOR_SIZE = 512, // room for a page cursor, NUL included
	STORE_FILTERS_MAX = 32,
	STORE_BATCHES_MAX = 512, // of one store_write()
	STORE_SORT_CHARACTERS = 56, // texts are sorted by so many of their first
	STORE_DAY_S = 86400,
};

struct store_error {
	int code; // -errno, as returned
	char text[256];
};

// What is kept for how long. 0: for ever. Ages count from arrival.
struct store_retention {
	uint64_t processes_s; // processes, gaps, events
	uint64_t points_s; // samples as they came
	uint64_t rollup_10s_s, rollup_1min_s, rollup_1h_s;
	uint64_t aggregates_s; // runs, tasks and the like, since their latest process
	uint64_t bytes_max; // of the whole store; oldest go first: points, roll-ups of 10 s, processes
};

struct store_options {
	struct store_retention retention;
	bool read_only; // for readers on a store that another process writes; write, put and maintenance are refused
	bool create; // make it when it is not there
	uint64_t cache_bytes; // 0: a default
	// Upkeep that waits for another machine is done by a thread of the store's own: store_maintain() returns at
	// once and tells of what was done since.
	bool upkeep_aside;
};

struct store;
struct store_reader;

// url: "sqlite:DIR" or "clickhouse://USER@HOST:PORT/DATABASE?..." A store of an older version is brought to this one;
// one of a newer version is refused with -EPROTO. 0 or -errno.
int store_open(const char *url, const struct store_options *options, struct store **ret_store,
	       struct store_error *error);
void store_close(struct store *store); // takes NULL

// A store's URL as it may be shown and logged: without a password.
void store_url_shown(const char *url, char *out, size_t size);

// --- writing -----------------------------------------------------------------------------------------------------

enum store_verdict {
	STORE_STORED, // or there already
	STORE_SEQUENCE, // first is beyond acked + 1, or the server is behind after: nothing was stored
};

struct store_result {
	enum store_verdict verdict;
	uint64_t acked; // highest contiguous sequence that is durable for this host and epoch
	uint64_t records; // records of this batch that were new
};

// Stores each batch whole or not at all, all of them in one durable step. A host unknown in this epoch begins at the
// batch's `after`. What is acknowledged already is left out (each row has its sequence). On success every result is
// set and durable; on failure none is, and nothing was stored. One host may come several times, in order.
int store_write(struct store *store, struct lake_batch *const *batches, size_t count, struct store_result *ret_results,
		struct store_error *error);

// Rows of the store's own making: ENTITY_FINDINGS, ENTITY_JOINS (which also sets runs.stitched_id of run_id, to null
// too, but for rows whose how is "weak"), ENTITY_GAPS. A row
// with the same key replaces the older. Atomic and durable.
int store_put(struct store *store, enum schema_entity_id entity, struct lake_row *const *rows, size_t count,
	      struct store_error *error);

struct store_upkeep {
	uint64_t processes_removed, points_removed, rollups_removed, aggregates_removed; // rollups: steps
	uint64_t bytes; // of the store now
	bool more; // there is more to do: call again soon
};

// Roll-ups, retention, size cap, checkpoint: as much as fits into about 50 ms. Call it often, from the writer, when
// nothing else is waiting and at least once a second. What retention removes is counted in a gap row (room
// "retention").
int store_maintain(struct store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep, struct store_error *error);

// A whole copy at path (which must not exist, or be empty), while writing goes on between the calls of step, or in
// another process. 0 done, 1 call again, -errno: what is at path then is of no use.
struct store_backup;
int store_backup_begin(struct store *store, const char *path, struct store_backup **ret_backup,
		       struct store_error *error);
int store_backup_step(struct store_backup *backup, struct store_error *error);
void store_backup_end(struct store_backup *backup); // takes NULL

// --- reading -----------------------------------------------------------------------------------------------------

int store_reader_open(struct store *store, struct store_reader **ret_reader, struct store_error *error);
void store_reader_close(struct store_reader *reader); // takes NULL

enum store_operator {
	STORE_EQ,
	STORE_NE, // null is not equal to anything, so it is in
	STORE_LT,
	STORE_LE,
	STORE_GT,
	STORE_GE,
	STORE_PREFIX, // text begins so, case counts
	STORE_CONTAINS, // text holds it, case of ASCII letters does not count
	STORE_IS_NULL,
	STORE_NOT_NULL,
};

struct store_filter {
	unsigned column;
	enum store_operator op;
	union lake_slot value; // of the column's type; not used by the last two
};

struct store_query {
	enum schema_entity_id entity;
	const char *workspace; // NULL: all of them (an admin)
	const struct store_filter *filters; // all must hold
	size_t filter_count;
	const uint8_t *columns; // which to read, by index; the others are null in the rows. NULL: all
	size_t column_count;
	int sort; // column; -1: by id
	bool descending; // nulls come last either way; rows of equal value by id
	uint64_t limit; // rows; 0: all
	const char *cursor; // of the page before; NULL or "": from the start
	uint64_t time_limit_ms; // 0: none
};

// slot: one for each column of the entity, valid during the call. Not 0 ends the reading, and is returned.
typedef int (*store_row_fn)(void *data, const union lake_slot *slot);

// Pages are stable: a row that is there the whole time is in exactly one page, however much is written in between
// (unless the value it is sorted by moves). ret_cursor is "" at the end. -EINVAL: a cursor of another query.
int store_select(struct store_reader *reader, const struct store_query *query, store_row_fn row, void *data,
		 char ret_cursor[STORE_CURSOR_SIZE], struct store_error *error);

// How many rows the filters leave.
int store_count(struct store_reader *reader, const struct store_query *query, uint64_t *ret_count,
		struct store_error *error);

// Rows that arrived or changed after a mark, oldest first, at most limit; for a live view. Mark 0 begins now and gives
// no rows. ret_mark is the mark for the next call. ENTITY_PROCESSES gives ended processes only.
int store_tail(struct store_reader *reader, const char *workspace, enum schema_entity_id entity, uint64_t mark,
	       uint64_t limit, store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error);

struct store_series_query {
	const char *workspace; // NULL: all
	enum series_kind kind;
	uint64_t owner_id;
	const char *label; // NULL: all of them
	const uint8_t *metrics; // by index in series_schemas[kind].metrics
	size_t metric_count;
	uint64_t from_ns, to_ns; // from <= time < to; with a step, rounded down and up to whole steps
	uint64_t step_ns; // 0: points as they came; else steps, aligned to multiples of it
	uint64_t time_limit_ms;
};

// Of one metric in one step. A gauge: mean, least, greatest of the points. A counter: sum is how much it rose (a reset
// counts from 0), min and max the rates per second between points. count 0: unknown, the others mean nothing. Points as
// they came have value in all four.
struct store_step {
	uint64_t count;
	double mean; // of a counter: rise per second over the step's known part
	double min, max;
	double sum;
};

// One call for each label and step, by label and then time; steps without a point are left out.
typedef int (*store_step_fn)(void *data, const char *label, uint64_t time_ns, const struct store_step *steps);

int store_series(struct store_reader *reader, const struct store_series_query *query, store_step_fn step, void *data,
		 struct store_error *error);

struct store_sql_limits {
	uint64_t rows; // 0: none
	uint64_t time_ms;
	uint64_t memory_bytes;
};

struct store_value {
	enum { STORE_VALUE_NULL, STORE_VALUE_I64, STORE_VALUE_U64, STORE_VALUE_F64, STORE_VALUE_TEXT } type;
	union {
		int64_t i64;
		uint64_t u64;
		double f64;
	};
	const char *text; // not NUL-terminated
	size_t length;
};

// One statement that only reads: tables are the entities of docs/lake-schema.md, of one workspace, or of all when it is
// NULL. -EINVAL: what is wrong with it; -ETIME, -E2BIG, -ENOMEM: over a limit (rows given so far stand). columns is
// called once before the rows. -EACCES: it does more than read.
typedef int (*store_sql_columns_fn)(void *data, const char *const *names, size_t count);
typedef int (*store_sql_row_fn)(void *data, const struct store_value *values, size_t count);
int store_sql(struct store_reader *reader, const char *workspace, const char *sql,
	      const struct store_sql_limits *limits, store_sql_columns_fn columns, store_sql_row_fn row, void *data,
	      struct store_error *error);

// Where an agent stands. -ENOENT: nothing of that host and epoch.
struct store_cursor {
	char workspace[128];
	char host_id[64];
	uint64_t epoch;
	uint64_t acked;
};
int store_cursor_get(struct store_reader *reader, const char *workspace, const char *host_id, uint64_t epoch,
		     struct store_cursor *ret_cursor, struct store_error *error);

// --- all of it, for migrate ----------------------------------------------------------------------------------------

typedef int (*store_cursor_fn)(void *data, const struct store_cursor *cursor);
typedef int (*store_point_fn)(void *data, const char *workspace, const char *host_id, const struct lake_point *point);
struct store_rollup {
	uint64_t series_id;
	uint64_t level_s; // 10, 60, 3600
	uint64_t time_ns;
	const struct store_step *steps; // one for each metric of the kind
	enum series_kind kind;
};
typedef int (*store_rollup_fn)(void *data, const struct store_rollup *rollup);

int store_each_cursor(struct store_reader *reader, store_cursor_fn fn, void *data, struct store_error *error);
// All points still kept, by series and then time.
int store_each_point(struct store_reader *reader, store_point_fn fn, void *data, struct store_error *error);
int store_each_rollup(struct store_reader *reader, store_rollup_fn fn, void *data, struct store_error *error);

// --- health --------------------------------------------------------------------------------------------------------

// Reads everything: damage on disk, and sums of entities against their processes where those are still kept. Calls
// problem with one sentence for each thing found. 0: sound; 1: something was found; -errno: could not look.
typedef void (*store_problem_fn)(void *data, const char *sentence);
int store_check(struct store_reader *reader, store_problem_fn problem, void *data, struct store_error *error);

struct store_status {
	char backend[16];
	uint64_t version; // of the tables
	uint64_t bytes;
	uint64_t processes, points_staged;
	uint64_t wal_bytes;
};
int store_status(struct store_reader *reader, struct store_status *ret_status, struct store_error *error);

// --- what a backend is -----------------------------------------------------------------------------------------------

// Each function as the one of the same name above. A backend's store and reader begin with the structs below.
struct store_backend {
	const char *scheme; // "sqlite"
	uint64_t gather_ns; // a commit is so dear that what a crowd sends is gathered so long; 0: as the caller likes
	int (*open)(const char *rest, const struct store_options *, struct store **, struct store_error *);
	void (*close)(struct store *);
	int (*write)(struct store *, struct lake_batch *const *, size_t, struct store_result *, struct store_error *);
	int (*put)(struct store *, enum schema_entity_id, struct lake_row *const *, size_t, struct store_error *);
	int (*maintain)(struct store *, uint64_t, struct store_upkeep *, struct store_error *);
	int (*backup_begin)(struct store *, const char *, struct store_backup **, struct store_error *);
	int (*backup_step)(struct store_backup *, struct store_error *);
	void (*backup_end)(struct store_backup *);
	int (*reader_open)(struct store *, struct store_reader **, struct store_error *);
	void (*reader_close)(struct store_reader *);
	int (*select)(struct store_reader *, const struct store_query *, store_row_fn, void *, char *,
		      struct store_error *);
	int (*count)(struct store_reader *, const struct store_query *, uint64_t *, struct store_error *);
	int (*tail)(struct store_reader *, const char *, enum schema_entity_id, uint64_t, uint64_t, store_row_fn,
		    void *, uint64_t *, struct store_error *);
	int (*series)(struct store_reader *, const struct store_series_query *, store_step_fn, void *,
		      struct store_error *);
	int (*sql)(struct store_reader *, const char *, const char *, const struct store_sql_limits *,
		   store_sql_columns_fn, store_sql_row_fn, void *, struct store_error *);
	int (*cursor_get)(struct store_reader *, const char *, const char *, uint64_t, struct store_cursor *,
			  struct store_error *);
	int (*each_cursor)(struct store_reader *, store_cursor_fn, void *, struct store_error *);
	int (*each_point)(struct store_reader *, store_point_fn, void *, struct store_error *);
	int (*each_rollup)(struct store_reader *, store_rollup_fn, void *, struct store_error *);
	int (*check)(struct store_reader *, store_problem_fn, void *, struct store_error *);
	int (*status)(struct store_reader *, struct store_status *, struct store_error *);
};

struct store {
	const struct store_backend *backend;
};
struct store_reader {
	const struct store_backend *backend;
};
struct store_backup {
	const struct store_backend *backend;
};

extern const struct store_backend store_sqlite;
extern const struct store_backend store_clickhouse;
