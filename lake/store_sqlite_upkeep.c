// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: upkeep by the writer, in slices of about 50 ms: pack minutes of points, roll up, drop what is too old
// or too much (store_sqlite_retention.c), hand free pages back, move the log into the file. Each slice is a transaction
// of its own; a kill in between costs nothing but doing it again.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/store_sqlite_upkeep.h"

enum { SLICE_NS = 50 * 1000 * 1000, BATCH = 64 };

void series_sums_of_row(const uint64_t *columns, size_t metrics, struct series_sum *sums)
{
	for (size_t i = 0; i < metrics; i++, columns += SERIES_SUM_COLUMNS) {
		sums[i] = (struct series_sum){columns[0], columns[1], columns[2], columns[3], columns[4]};
		if (columns[0] == LAKE_NULL)
			sums[i] = (struct series_sum){0};
	}
}

void series_row_of_sums(const struct series_sum *sums, size_t metrics, uint64_t *columns)
{
	for (size_t i = 0; i < metrics; i++, columns += SERIES_SUM_COLUMNS) {
		columns[0] = sums[i].count;
		columns[1] = sums[i].sum;
		columns[2] = sums[i].min;
		columns[3] = sums[i].max;
		columns[4] = sums[i].covered_ns;
	}
}

static bool time_is_up(const struct upkeep *upkeep)
{
	return clock_boot_ns() > upkeep->until_boot_ns;
}

// --- rows of roll-ups ---------------------------------------------------------------------------

struct rollup_row {
	struct buf rows; // uint64_t[1 + metrics * SERIES_SUM_COLUMNS] each
	size_t metrics, count;
};

static void rollup_take(struct rollup_row *rollup, struct series_fold *fold)
{
	uint64_t row[1 + SERIES_METRICS_MAX * SERIES_SUM_COLUMNS];

	if (!fold->open)
		return;
	fold->open = false;
	row[0] = fold->step_start_ns;
	series_row_of_sums(fold->sums, rollup->metrics, row + 1);
	buf_append(&rollup->rows, row, (1 + rollup->metrics * SERIES_SUM_COLUMNS) * sizeof(row[0]));
	rollup->count++;
}

static int blob_write(struct upkeep *upkeep, const char *sql, const uint64_t *key, size_t keys, size_t count,
		      const struct buf *data)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(upkeep->db, sql, false, &statement, upkeep->error);

	if (status < 0)
		return status;
	for (size_t i = 0; i < keys; i++)
		sqlite3_bind_int64(statement, (int)i + 1, (sqlite3_int64)key[i]);
	sqlite3_bind_int64(statement, (int)keys + 1, (sqlite3_int64)count);
	sqlite3_bind_blob(statement, (int)keys + 2, data->data, (int)data->length, SQLITE_STATIC);
	return sqlite_step_once(upkeep->db, statement, upkeep->error);
}

static int rollup_write(struct upkeep *upkeep, int level, uint64_t series_id, uint64_t span, struct rollup_row *rollup)
{
	uint64_t key[] = {series_levels[level].step_ns / 1000000000, series_id, span};
	CLEANUP(buf_free) struct buf packed = BUF_INIT;

	if (!rollup->count)
		return 0;
	if (buf_error(&rollup->rows) < 0 || chunk_pack((const uint64_t *)(const void *)rollup->rows.data, rollup->count,
						       rollup->metrics * SERIES_SUM_COLUMNS, &packed) < 0)
		return store_fail(upkeep->error, -ENOMEM, "out of memory");
	return blob_write(upkeep, "INSERT OR REPLACE INTO rollups VALUES(?,?,?,?,?)", key, 3, rollup->count, &packed);
}

static int stale_set(struct upkeep *upkeep, int level, uint64_t series_id, uint64_t span)
{
	return sqlite_runf(upkeep->db, upkeep->error, "INSERT OR IGNORE INTO stale VALUES(%d,%lld,%lld)", level,
			   (long long)series_id, (long long)span);
}

static int stale_clear(struct upkeep *upkeep, int level, uint64_t series_id, uint64_t span)
{
	return sqlite_runf(upkeep->db, upkeep->error,
			   "DELETE FROM stale WHERE level=%d AND series_id=%lld AND span=%lld", level,
			   (long long)series_id, (long long)span);
}

// The span above holds something older now: it is made anew, and read from below until then.
static int coarser_is_stale(struct upkeep *upkeep, int level, uint64_t series_id, uint64_t start_ns)
{
	int status = 0;

	for (int above = level + 1; status == 0 && above < SERIES_LEVELS; above++) {
		uint64_t span = start_ns / series_levels[above].span_ns;

		status = stale_set(upkeep, above, series_id, span);
		if (status == 0)
			status = sqlite_runf(upkeep->db, upkeep->error,
					     "DELETE FROM rollups WHERE level=%llu AND series_id=%lld AND span=%lld",
					     (unsigned long long)(series_levels[above].step_ns / 1000000000),
					     (long long)series_id, (long long)span);
	}
	return status;
}

// --- minutes ---------------------------------------------------------------------------

static int series_kind_of(struct upkeep *upkeep, uint64_t series_id, int *ret_kind)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(upkeep->db, "SELECT kind FROM series WHERE id=?", false, &statement, upkeep->error);

	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)series_id);
	*ret_kind = -1;
	if (sqlite3_step(statement) == SQLITE_ROW)
		*ret_kind = series_kind_find((const char *)sqlite3_column_text(statement, 0));
	return 0;
}

static void points_free(struct series_points *points)
{
	free(points->rows);
}

// Points of one minute become a chunk and a roll-up of 10 s.
static int minute_pack(struct upkeep *upkeep, uint64_t series_id, uint64_t minute)
{
	__attribute__((cleanup(points_free))) struct series_points points = {0};
	CLEANUP(buf_free) struct buf packed = BUF_INIT;
	uint64_t start_ns = minute * SERIES_MINUTE_NS, key[] = {series_id, minute};
	CLEANUP(cleanup_free) struct series_fold *fold = malloc(sizeof(*fold));
	struct rollup_row rollup = {0};
	size_t inside = 0, width;
	int kind, status = series_kind_of(upkeep, series_id, &kind);

	if (status < 0 || kind < 0 || !fold)
		return status < 0 ? status : stale_clear(upkeep, 0, series_id, minute);
	points.metrics = rollup.metrics = series_schemas[kind].metric_count;
	points.amounts = kind == SERIES_RUN;
	width = points.metrics + 1;
	status = series_points_read(upkeep->db, series_id, start_ns - SERIES_BEFORE_NS, start_ns + SERIES_MINUTE_NS,
				    &points, upkeep->error);
	if (status < 0)
		return status;
	while (inside < points.count && points.rows[inside * width] < start_ns)
		inside++;
	series_fold_begin(fold, (enum series_kind)kind, NULL, 0, series_levels[0].step_ns);
	for (size_t i = 0; i < points.count; i++) {
		const uint64_t *row = points.rows + i * width;

		if (i < inside)
			series_fold_before(fold, row[0], row + 1);
		else
			while (series_fold_point(fold, row[0], row + 1))
				rollup_take(&rollup, fold);
	}
	rollup_take(&rollup, fold);
	status = rollup_write(upkeep, 0, series_id, minute, &rollup);
	buf_free(&rollup.rows);
	if (status == 0 && points.count > inside) {
		if (chunk_pack(points.rows + inside * width, points.count - inside, points.metrics, &packed) < 0)
			return store_fail(upkeep->error, -ENOMEM, "out of memory");
		status = blob_write(upkeep, "INSERT OR REPLACE INTO chunks VALUES(?,?,?,?)", key, 2,
				    points.count - inside, &packed);
	}
	if (status == 0)
		status = sqlite_runf(upkeep->db, upkeep->error,
				     "DELETE FROM points WHERE series_id=%lld AND time_ns>=%llu AND time_ns<%llu",
				     (long long)series_id, (unsigned long long)start_ns,
				     (unsigned long long)(start_ns + SERIES_MINUTE_NS));
	series_packed(upkeep->store, series_id);
	if (status == 0)
		status = coarser_is_stale(upkeep, 0, series_id, start_ns);
	return status < 0 ? status : stale_clear(upkeep, 0, series_id, minute);
}

// Hours from minutes, days from hours.
static int span_rollup(struct upkeep *upkeep, int level, uint64_t series_id, uint64_t span)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	const struct series_level *to = &series_levels[level], *from = &series_levels[level - 1];
	uint64_t start_ns = span * to->span_ns;
	CLEANUP(cleanup_free) struct series_fold *fold = malloc(sizeof(*fold));
	struct rollup_row rollup = {0};
	struct series_sum sums[SERIES_METRICS_MAX];
	int kind, status = series_kind_of(upkeep, series_id, &kind), step = SQLITE_DONE;

	if (status < 0 || kind < 0 || !fold)
		return status < 0 ? status : stale_clear(upkeep, level, series_id, span);
	rollup.metrics = series_schemas[kind].metric_count;
	status = sqlite_prepare(upkeep->db,
				"SELECT data FROM rollups WHERE level=? AND series_id=? AND span>=? AND span<?"
				" ORDER BY span",
				false, &statement, upkeep->error);
	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)(from->step_ns / 1000000000));
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)series_id);
	sqlite3_bind_int64(statement, 3, (sqlite3_int64)(start_ns / from->span_ns));
	sqlite3_bind_int64(statement, 4, (sqlite3_int64)((start_ns + to->span_ns) / from->span_ns));
	series_fold_begin(fold, (enum series_kind)kind, NULL, 0, to->step_ns);
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		size_t width = 1 + rollup.metrics * SERIES_SUM_COLUMNS, count;
		CLEANUP(cleanup_free) uint64_t *rows = NULL;

		status = chunk_unpack(sqlite3_column_blob(statement, 0), (size_t)sqlite3_column_bytes(statement, 0),
				      width - 1, &rows, &count);
		for (size_t i = 0; status == 0 && i < count; i++) {
			series_sums_of_row(rows + i * width + 1, rollup.metrics, sums);
			while (series_fold_sums(fold, rows[i * width], sums))
				rollup_take(&rollup, fold);
		}
	}
	if (status == 0 && step != SQLITE_DONE)
		status = sqlite_fail(upkeep->db, upkeep->error, "roll-up");
	else if (status < 0)
		status = store_fail(upkeep->error, status == -EBADMSG ? -EILSEQ : status, "a roll-up cannot be read");
	rollup_take(&rollup, fold);
	sqlite3_reset(statement);
	if (status == 0)
		status = rollup_write(upkeep, level, series_id, span, &rollup);
	buf_free(&rollup.rows);
	return status < 0 ? status : stale_clear(upkeep, level, series_id, span);
}

// Up to BATCH spans of a level that are over. ret_more: there were as many.
static int spans_do(struct upkeep *upkeep, int level, bool *ret_more)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	uint64_t ids[BATCH], spans[BATCH], over;
	size_t count = 0;
	int status = sqlite_prepare(upkeep->db, "SELECT series_id,span FROM stale WHERE level=? AND span<? LIMIT ?",
				    false, &statement, upkeep->error);

	if (status < 0)
		return status;
	over = upkeep->now_ns > SERIES_GRACE_NS ? (upkeep->now_ns - SERIES_GRACE_NS) / series_levels[level].span_ns : 0;
	sqlite3_bind_int64(statement, 1, level);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)over);
	sqlite3_bind_int64(statement, 3, BATCH);
	while (count < BATCH && sqlite3_step(statement) == SQLITE_ROW) {
		ids[count] = (uint64_t)sqlite3_column_int64(statement, 0);
		spans[count++] = (uint64_t)sqlite3_column_int64(statement, 1);
	}
	sqlite3_reset(statement);
	*ret_more = count == BATCH;
	for (size_t i = 0; status == 0 && i < count; i++) {
		status = level ? span_rollup(upkeep, level, ids[i], spans[i]) : minute_pack(upkeep, ids[i], spans[i]);
		if (time_is_up(upkeep)) {
			*ret_more = true;
			break;
		}
	}
	return status;
}

// --- the whole ---------------------------------------------------------------------------

static int slice(struct upkeep *upkeep)
{
	bool more = false;
	int status = sqlite_write_begin(upkeep->store, upkeep->error);

	if (status < 0)
		return status;
	upkeep->store->revision++;
	for (int level = 0; status == 0 && level < SERIES_LEVELS && !more; level++)
		status = spans_do(upkeep, level, &more);
	upkeep->result->more |= more;
	if (status == 0 && !more)
		status = upkeep_retention(upkeep);
	if (status == 0 && !more)
		status = upkeep_cap(upkeep);
	return sqlite_write_end(upkeep->store, status, upkeep->error);
}

// The log goes into the file without waiting for readers; what one still reads stays for the next time.
static int checkpoint(struct upkeep *upkeep)
{
	enum { LOG_PAGES = 4000, LOG_RESTART_PAGES = 100000 };
	CLEANUP(cleanup_free) char *path = NULL;
	struct stat log;
	int mode = SQLITE_CHECKPOINT_PASSIVE, result;

	if (asprintf(&path, "%s-wal", upkeep->store->path) < 0)
		return store_fail(upkeep->error, -ENOMEM, "out of memory");
	if (stat(path, &log) < 0 || log.st_size < (off_t)LOG_PAGES * 8192)
		return 0;
	if (log.st_size > (off_t)LOG_RESTART_PAGES * 8192)
		mode = SQLITE_CHECKPOINT_TRUNCATE;
	result = sqlite3_wal_checkpoint_v2(upkeep->db, NULL, mode, NULL, NULL);
	if (result != SQLITE_OK && result != SQLITE_BUSY && result != SQLITE_LOCKED)
		return sqlite_fail(upkeep->db, upkeep->error, "checkpoint");
	return 0;
}

int sqlite_maintain(struct store *base, uint64_t now_ns, struct store_upkeep *ret_upkeep, struct store_error *error)
{
	struct sqlite_store *store = sqlite_store_of(base);
	struct store_upkeep result = {0};
	struct upkeep upkeep = {
		.store = store,
		.db = store->db,
		.now_ns = now_ns,
		.until_boot_ns = clock_boot_ns() + SLICE_NS,
		.result = &result,
		.error = error,
	};
	int status;

	if (store->options.read_only)
		return store_fail(error, -EROFS, "the lake was opened for reading");
	status = slice(&upkeep);
	if (status == 0)
		status = sqlite_run(store->db, "PRAGMA incremental_vacuum(500)", error);
	if (status == 0)
		status = checkpoint(&upkeep);
	if (status == 0)
		*ret_upkeep = result;
	return status;
}
