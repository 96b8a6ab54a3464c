// SPDX-License-Identifier: Apache-2.0
// The ClickHouse backend's own parts; nobody outside lake/store_clickhouse*.c includes this.
//
// Exactly once, over instances that share nothing but ClickHouse, which has no transactions:
//
// - Every row that a write brings carries a batch number that nobody ever used before or will use again. Rows of any
//   number of agents and tables go in first, in any order, in any number of statements. Nobody sees them.
// - One row in `chain` then publishes the batch: (n, batch). n counts up without a gap and each n is taken once: the
//   insert names n as its deduplication token, which ClickHouse checks and takes in one step, and inserts nothing when
//   the chain has moved on. Whoever finds its own batch at n afterwards has won; whoever does not has changed nothing.
// - A reader takes rows whose batch is in the chain. What a dead, slow or beaten instance left behind is never seen,
//   whichever statement it died after, in base tables and in everything derived from them, since those carry the batch
//   too; store_maintain() removes it later.
// - Where each agent stands is such a row as well (hosts_part), so it moves with the records it stands for. A write is
//   made from the cursors as they are at n - 1 and wins only if it is the next: two instances that got overlapping
//   batches of one agent, cut differently, cannot both publish what they were given. The second one finds the chain
//   moved, reads the cursors again and leaves out what is there already.
// - Parts of hosts, runs and the like, which every batch leaves, become one now and then: a fold, published in the same
//   way, whose entry says for which places of the chain it stands. Those count no more for parts, and go later
//   (lake/store_clickhouse_fold.c).
// - A statement whose outcome is unknown needs no answer: rows of a batch that is not published do not count, and the
//   chain tells whether it was.
//
// Limits that keep this true: a batch number is void half an hour after it was drawn (checked by ClickHouse's clock in
// the statement that publishes), so that what is older and unpublished can be removed; an entry of the chain is looked
// for at its place, so that a token remembered for a row that a crash took is found out and gone round.
#pragma once

#include <pthread.h>

#include "lake/amounts.h"
#include "lake/chunk.h"
#include "lake/store_clickhouse_http.h"

enum {
	CLICKHOUSE_SCHEMA_VERSION = 3,
	CLICKHOUSE_CLAIM = 64, // batch numbers that one entry of the chain gives
	CLICKHOUSE_ROW_BITS = 20, // of a row's id that count within its batch
	CLICKHOUSE_BATCH_ROWS = 1 << CLICKHOUSE_ROW_BITS,
	CLICKHOUSE_VOID_S = 1800, // age at which a batch number may not be published any more
	CLICKHOUSE_REMOVE_S = 3600, // age at which its rows may be removed
	CLICKHOUSE_TTL_SLACK_S = 7 * STORE_DAY_S, // by which the TTL of tables is later than what is kept
	CLICKHOUSE_REMOVALS = 22, // kinds of rows that retention tells apart
	CLICKHOUSE_FOLD_BATCHES = 16, // so many batches at least become a fold
	CLICKHOUSE_NOTE = 4096, // places of the chain that a round of upkeep leaves unnoted when it has nothing to do
};

// A condition on the column batch: its rows are published.
#define CLICKHOUSE_PUBLISHED                                                                                        \
	"(batch <= (SELECT max(batch) FROM chain WHERE kind = 'floor') OR batch IN (SELECT batch FROM chain WHERE " \
	"kind = "                                                                                                   \
	"'batch'))"

// The same for parts of an entity: published, and no fold stands for it.
#define CLICKHOUSE_PARTS "(batch IN (SELECT batch FROM part_batches))"

// How parts of an entity that were gathered batch by batch become one row.
enum clickhouse_role {
	ROLE_KEY, // same in all, grouped by
	ROLE_ANY, // same in all
	ROLE_LATEST, // of the latest part that knows it
	ROLE_ROOT, // of the part with the earliest root_start_ns, together with the other root columns
	ROLE_MIN,
	ROLE_MAX,
	ROLE_SUM, // null when all are
	ROLE_DISTINCT, // how many different ids: parts hold them
	ROLE_REPLACE, // of the latest part, null or not
};
enum clickhouse_role clickhouse_role(enum schema_entity_id entity, unsigned column);

// Entities that are put together from parts: table NAME_part. The others are rows: table NAME_rows.
bool clickhouse_has_parts(enum schema_entity_id entity);

// A fold whose rows are there and that is to be published.
struct clickhouse_fold {
	uint64_t batch; // 0: none
	uint64_t after, upto; // it stands for these places of the chain: after < n <= upto
	uint64_t planned; // the chain's head that it was made at
	uint64_t ready_ns; // CLOCK_BOOTTIME
};

// Steps of a level that were rolled up anew and whose older versions are still there. version 0: none.
struct clickhouse_again {
	uint64_t from_ns, to_ns, version;
};

struct clickhouse_thread;

struct clickhouse_store {
	struct store store;
	struct clickhouse_url url;
	struct buf ca;
	struct store_options options;
	struct clickhouse_http *http;
	// Of the chain, as last seen. Valid while head is not 0.
	uint64_t head; // highest n
	uint64_t next_batch, batches_left, claimed_at; // claimed_at: n of the entry that gave them
	uint64_t claimed_s; // CLOCK_BOOTTIME before that
	uint64_t stuck_at, stuck_since_s; // a place that took nothing
	unsigned stuck_tries; // tokens given up there
	struct clickhouse_cursor *cursors; // hash table of where agents stand at head
	size_t cursor_count, cursor_room;
	uint64_t maintained_ns, rolled_ns, bytes;
	struct clickhouse_fold fold;
	struct clickhouse_again again[3]; // by level of roll-ups
	uint64_t deleted_s[CLICKHOUSE_REMOVALS]; // retention: up to when rows were deleted
	uint64_t series_swept_s;
	bool retention_more;
	struct clickhouse_thread *thread; // NULL: not begun
};

struct clickhouse_reader {
	struct store_reader reader;
	struct clickhouse_url url;
	struct clickhouse_http *http;
};

// ---- schema -------------------------------------------------------------------------------------------------------

// Creates what is missing and checks the version. -EPROTO: a newer one; -ENOENT: nothing there and create is false.
int clickhouse_schema_open(struct clickhouse_store *store, struct store_error *error);
// The statements that make the tables and the views, in order, each ended by a NUL.
int clickhouse_schema_tables(const struct clickhouse_url *url, const struct store_retention *retention,
			     struct buf *ret_statements);
int clickhouse_schema_views(const struct clickhouse_url *url, struct buf *ret_statements);
// A column of an entity as the views put it together from the parts p: "EXPRESSION AS `NAME`".
void clickhouse_put_gathered(struct buf *out, enum schema_entity_id id, unsigned column);
// Those that bring tables to what they should be; there: a line "TABLE tab COLUMN" for each column, "TABLE tab TTL ..."
// for each TTL. Each ended by a NUL, the list by another one.
int clickhouse_schema_alters(const struct clickhouse_url *url, const struct store_retention *retention,
			     const char *there, struct buf *ret_statements);
// The columns of a table as an insert names them, in the order in which rows are put.
int clickhouse_table_columns(const char *table, struct buf *ret_names);
// ClickHouse's type of a column as it is stored.
const char *clickhouse_type(enum schema_entity_id entity, unsigned column);
// Name of a metric as a column: dots become underscores.
void clickhouse_metric_name(const struct series_metric *metric, char ret_name[64]);

// ---- rows as bytes (RowBinary) --------------------------------------------------------------------------------------

void clickhouse_put_u64(struct buf *out, uint64_t value);
void clickhouse_put_u32(struct buf *out, uint32_t value);
void clickhouse_put_varint(struct buf *out, uint64_t value);
void clickhouse_put_text(struct buf *out, const char *bytes, size_t length);
void clickhouse_put_known(struct buf *out, uint64_t value); // Nullable(UInt64); LAKE_NULL is null
void clickhouse_put_slot(struct buf *out, union lake_slot slot, enum schema_type type, bool nullable);

// Bytes still to be read. The functions return false when they end too early (and leave cut wherever).
struct clickhouse_cut {
	const char *bytes;
	size_t left;
	bool out_of_memory;
};
bool clickhouse_take_u64(struct clickhouse_cut *cut, uint64_t *ret_value);
bool clickhouse_take_known(struct clickhouse_cut *cut, uint64_t *ret_value); // Nullable(UInt64)
bool clickhouse_take_f64(struct clickhouse_cut *cut, double *ret_value);
bool clickhouse_take_text(struct clickhouse_cut *cut, const char **ret_bytes, size_t *ret_length);
bool clickhouse_take_varint(struct clickhouse_cut *cut, uint64_t *ret_value);
// Array(UInt64); what is beyond room is passed over, what is missing stays.
bool clickhouse_take_list(struct clickhouse_cut *cut, uint64_t *values, size_t room);
// Nullable, of the column's type; texts are made in arena.
bool clickhouse_take_slot(struct clickhouse_cut *cut, enum schema_type type, struct arena *arena,
			  union lake_slot *ret_slot);

// Runs a query and hands its rows on one by one.
struct clickhouse_rows {
	// Takes one row; false when the bytes end before it does. *ret_stop other than 0 ends the reading.
	bool (*row)(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop);
	void *context;
	struct buf pending;
};
int clickhouse_rows_run(struct clickhouse_http *http, struct clickhouse_request *request, struct clickhouse_rows *rows,
			struct store_error *error);
// A copy of text in arena; NULL: out of memory.
const struct lake_text *clickhouse_text(struct arena *arena, const char *text);
int clickhouse_rows_body(void *context, const char *bytes, size_t length);

// ---- columns as blocks (Native) -------------------------------------------------------------------------------------

// As the type of a column: UInt64 of which any value may be, since what a migration takes away is negative modulo 2^64.
// No sum is so low, so this one is null.
#define CLICKHOUSE_NO_SUM (UINT64_C(1) << 63)
enum { CLICKHOUSE_SUM = 64 };

// Runs a query and hands its answer on block by block: the cheapest form on both sides, above all for texts of few
// different values.
struct clickhouse_native {
	// enum schema_type of each column, or CLICKHOUSE_SUM; a list of UInt64 is a text of its numbers' bytes.
	const uint8_t *types;
	size_t type_count;
	int (*block)(struct clickhouse_native *native); // not 0 ends the reading
	void *context;
	// The block: of column c and row r slots[c * rows + r]. Texts are gone when block() returns.
	uint64_t rows;
	union lake_slot *slots;
	struct arena arena;
	struct buf pending;
	size_t room, column; // column: the next
	bool begun;
};
int clickhouse_native_run(struct clickhouse_http *http, struct clickhouse_request *request,
			  struct clickhouse_native *native, struct store_error *error);

// ---- parts ----------------------------------------------------------------------------------------------------------

// What a batch brings to entities that are put together, one part for each entity met.
struct clickhouse_part {
	uint64_t id, open_id; // open_id: of the opening row it comes from; 0: final
	uint64_t at; // orders parts for ROLE_LATEST
	uint64_t *list; // of ROLE_DISTINCT, rising after clickhouse_parts_put()
	size_t list_count, list_room;
	uint64_t received_s;
	uint8_t entity;
	union lake_slot slot[];
};

struct clickhouse_parts {
	struct arena arena;
	struct clickhouse_part **slots; // hash table
	size_t slot_count, used;
};

int clickhouse_parts_begin(struct clickhouse_parts *parts);
void clickhouse_parts_free(struct clickhouse_parts *parts); // takes a zeroed one
// The part of (entity, id, open_id), made empty when it is new. NULL: out of memory.
struct clickhouse_part *clickhouse_part_get(struct clickhouse_parts *parts, enum schema_entity_id entity, uint64_t id,
					    uint64_t open_id, bool *ret_fresh);
// What one process brings to all that it belongs to. 0 or -ENOMEM.
int clickhouse_parts_process(struct clickhouse_parts *parts, struct lake_batch *batch, const struct lake_row *row,
			     uint64_t open_id);
// What a row of an entity with parts says. 0 or -ENOMEM.
int clickhouse_parts_row(struct clickhouse_parts *parts, const struct lake_batch *batch, const struct lake_row *row,
			 uint64_t id, uint64_t at);
// Writes a row of the part's table.
void clickhouse_part_put(struct buf *out, struct clickhouse_part *part, uint64_t batch);

// ---- chain ------------------------------------------------------------------------------------------------

// Reads the chain's head.
int clickhouse_chain_head(struct clickhouse_store *store, struct store_error *error);
// A new batch number.
int clickhouse_chain_draw(struct clickhouse_store *store, uint64_t *ret_batch, struct store_error *error);
// Publishes a batch as the next entry. 1: done; 0: somebody else was first, head is what it is now; -errno.
int clickhouse_chain_publish(struct clickhouse_store *store, const char *kind, uint64_t batch, uint64_t upto,
			     struct store_error *error);

// The same for a fold, which stands for the places after < n <= upto.
int clickhouse_chain_publish_fold(struct clickhouse_store *store, uint64_t batch, uint64_t after, uint64_t upto,
				  struct store_error *error);

// ---- folds ----------------------------------------------------------------------------------------------------------

// A piece of the work: begins a fold when one is due, publishes one that was begun. ret_more: call again.
int clickhouse_fold(struct clickhouse_store *store, bool due, bool *ret_more, struct store_error *error);
// Removes parts and entries of the chain that folds have stood for long enough.
int clickhouse_fold_remove(struct clickhouse_store *store, struct store_error *error);
// Removes the rows of a table whose number in column is among those that query gives, and says how many those were.
int clickhouse_remove_by(struct clickhouse_store *store, const char *table, const char *column, const char *query,
			 size_t *ret_count, struct store_error *error);

// ---- retention ------------------------------------------------------------------------------------------------------

enum clickhouse_keep { // in the order of enum of in lake/store_clickhouse_retention.c
	CLICKHOUSE_KEEP_PROCESSES,
	CLICKHOUSE_KEEP_POINTS,
	CLICKHOUSE_KEEP_10S,
	CLICKHOUSE_KEEP_1MIN,
	CLICKHOUSE_KEEP_1H,
	CLICKHOUSE_KEEP_AGGREGATES,
};
// For how long rows are kept at least, by the policy and by what the store needs them for. 0: for ever.
uint64_t clickhouse_keep_s(const struct store_retention *keep, enum clickhouse_keep which);
// Counts and removes what is too old or too much (store->bytes), as of now. ret_more: call again soon.
int clickhouse_retention(struct clickhouse_store *store, uint64_t now_ns, bool *ret_more, struct store_error *error);

// ---- upkeep -----------------------------------------------------------------------------------------------

// What is due, however long it takes.
int clickhouse_upkeep(struct clickhouse_store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep,
		      struct store_error *error);
// The same by a thread that has a connection of its own, as another instance would do it, so that no batch waits for
// it. At once; what comes out is of rounds that ended since, and an error is told once.
int clickhouse_thread_ask(struct clickhouse_store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep,
			  struct store_error *error);
void clickhouse_thread_free(struct clickhouse_thread *thread); // takes NULL; breaks off what is under way

// ---- living processes -----------------------------------------------------------------------------------------------

// A sample moves the figures of a process that lives on, and the series of its run gets what it used since it was last
// heard of. An instance remembers nothing of it, so it reads the rows of those that a group of batches is about. They
// are as they were at the cursors that the group is planned from: who moves them moves a cursor of the same host.
struct clickhouse_life {
	uint64_t process_id; // 0: a free slot
	uint64_t id; // of the row
	bool ended, moved;
	struct lake_row *row; // NULL: not known to live
	struct lake_batch *batch; // that moved it
};

struct clickhouse_living {
	struct arena arena;
	struct clickhouse_life *slots; // hash table
	size_t slot_count, used;
	struct amounts amounts; // what the group adds to the series of runs
};

uint64_t clickhouse_process_id(const struct lake_batch *batch, const struct lake_row *row);
int clickhouse_living_begin(struct clickhouse_living *living);
void clickhouse_living_free(struct clickhouse_living *living); // takes a zeroed one
// Notes which processes the rows and samples of a batch behind acked are about.
int clickhouse_living_wanted(struct clickhouse_living *living, const struct lake_batch *batch, uint64_t acked);
int clickhouse_living_load(struct clickhouse_living *living, struct clickhouse_store *store, struct store_error *error);
// What a new row of a process, and a sample, make of it. 0 or -ENOMEM.
int clickhouse_living_row(struct clickhouse_living *living, struct lake_batch *batch, const struct lake_row *row,
			  uint64_t id);
int clickhouse_living_point(struct clickhouse_living *living, struct lake_batch *batch, const struct lake_point *point);

// ---- cursors --------------------------------------------------------------------------------------------------------

struct clickhouse_cursor {
	uint64_t host, epoch; // host 0: free
	uint64_t acked;
	bool known; // false: nothing of that host and epoch
};

// Nothing is known of the cursors any more.
void clickhouse_cursors_forget(struct clickhouse_store *store);
// Makes those of the batches known, as of store->head or later: a later state has moved the chain, which publishing
// finds out.
int clickhouse_cursors_load(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
			    struct store_error *error);
// NULL: not loaded.
struct clickhouse_cursor *clickhouse_cursor_find(struct clickhouse_store *store, const struct lake_batch *batch);
int clickhouse_cursor_set(struct clickhouse_store *store, uint64_t host, uint64_t epoch, bool known, uint64_t acked);
// Reads them again. 1: none of these hosts has moved; 0: one has; -errno.
int clickhouse_cursors_unmoved(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
			       struct store_error *error);

// ---- writing ----------------------------------------------------------------------------------------------

struct clickhouse_plan {
	bool store; // there is something new
	uint64_t acked; // before it
	uint64_t records, lost; // what it brings
};

bool clickhouse_is_hole(const struct lake_row *row);
// A hole that lies partly below what is acknowledged already counts for the rest only.
uint64_t clickhouse_hole_count(const struct lake_row *row, uint64_t acked);

struct clickhouse_group {
	struct clickhouse_store *store;
	uint64_t batch; // its number
	uint64_t rows;
	struct buf entity[ENTITY_END]; // of those without parts
	struct buf open;
	struct buf points[SERIES_KIND_END];
	struct clickhouse_parts parts;
	struct clickhouse_living living;
};

void clickhouse_group_free(struct clickhouse_group *group); // takes a zeroed one
// What is new of a batch; index: its place in the group. 0 or -ENOMEM.
int clickhouse_group_add(struct clickhouse_group *group, struct lake_batch *batch, const struct clickhouse_plan *plan,
			 size_t index);
// After the last batch: what several of them have moved. 0 or -ENOMEM.
int clickhouse_group_end(struct clickhouse_group *group);
int clickhouse_group_send(struct clickhouse_group *group, struct store_error *error);

// Rows (RowBinary) into a table, under a batch number.
int clickhouse_insert(struct clickhouse_store *store, const char *table, const struct buf *rows, uint64_t batch,
		      struct store_error *error);
// A row of an entity without parts.
int clickhouse_put_row(struct buf *out, const struct lake_row *row, uint64_t id, uint64_t received_ns, uint64_t batch);

// ---- roll-ups -------------------------------------------------------------------------------------------------------

struct clickhouse_rollup {
	uint64_t owner_id, series_id;
	const char *label, *workspace;
	enum series_kind kind;
	uint64_t level_s, time_ns;
	uint64_t version; // how far in the chain it was made from; 0: by another store
	const struct series_sum *sums; // one for each metric of the kind
};
// A row of rollup_steps.
void clickhouse_put_rollup(struct buf *out, const struct clickhouse_rollup *rollup, uint64_t received_s,
			   uint64_t batch);
// Rolls up what is over.
int clickhouse_rollup(struct clickhouse_store *store, uint64_t now_ns, struct store_error *error);
// How far the published roll-ups of a level go: in the chain, and in time. 0, 0: there are none.
int clickhouse_rolled(struct clickhouse_http *http, int level, uint64_t *ret_upto, uint64_t *ret_over_ns,
		      struct store_error *error);
// Before a point is folded: what came too long before its minute is nothing that a counter rises from.
void clickhouse_fold_forget(struct series_fold *fold, uint64_t time_ns);

// ---- the functions of the backend -------------------------------------------------------------------------

int clickhouse_write(struct store *store, struct lake_batch *const *batches, size_t count,
		     struct store_result *ret_results, struct store_error *error);
int clickhouse_put(struct store *store, enum schema_entity_id entity, struct lake_row *const *rows, size_t count,
		   struct store_error *error);
int clickhouse_maintain(struct store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep,
			struct store_error *error);
int clickhouse_select(struct store_reader *reader, const struct store_query *query, store_row_fn row, void *data,
		      char *ret_cursor, struct store_error *error);
int clickhouse_count(struct store_reader *reader, const struct store_query *query, uint64_t *ret_count,
		     struct store_error *error);
int clickhouse_tail(struct store_reader *reader, const char *workspace, enum schema_entity_id entity, uint64_t mark,
		    uint64_t limit, store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error);
int clickhouse_series(struct store_reader *reader, const struct store_series_query *query, store_step_fn step,
		      void *data, struct store_error *error);
int clickhouse_sql(struct store_reader *reader, const char *workspace, const char *sql,
		   const struct store_sql_limits *limits, store_sql_columns_fn columns, store_sql_row_fn row,
		   void *data, struct store_error *error);
int clickhouse_cursor_get(struct store_reader *reader, const char *workspace, const char *host_id, uint64_t epoch,
			  struct store_cursor *ret_cursor, struct store_error *error);
int clickhouse_each_cursor(struct store_reader *reader, store_cursor_fn fn, void *data, struct store_error *error);
int clickhouse_each_point(struct store_reader *reader, store_point_fn fn, void *data, struct store_error *error);
int clickhouse_each_rollup(struct store_reader *reader, store_rollup_fn fn, void *data, struct store_error *error);
int clickhouse_check(struct store_reader *reader, store_problem_fn problem, void *data, struct store_error *error);
int clickhouse_status(struct store_reader *reader, struct store_status *ret_status, struct store_error *error);
