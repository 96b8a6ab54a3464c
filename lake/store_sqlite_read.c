// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: the smaller questions: where an agent stands, what is new, all points for a move to another store, how
// large the store is, whether it is sound. SQL of strangers is in lake/sql_sqlite.c.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/cleanup.h"
#include "lake/sql_sqlite.h"
#include "lake/store_sqlite_series.h"

// --- cursors ---------------------------------------------------------------------------

int sqlite_cursor_get(struct store_reader *base, const char *workspace, const char *host_id, uint64_t epoch,
		      struct store_cursor *ret_cursor, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	sqlite3 *db = sqlite_reader_of(base)->db;
	int status = sqlite_prepare(db, "SELECT acked FROM cursors WHERE host=? AND epoch=?", false, &statement, error);

	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)lake_id_host(workspace, host_id));
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)epoch);
	status = sqlite3_step(statement);
	if (status == SQLITE_DONE)
		return store_fail(error, -ENOENT, "nothing of that host and epoch is here");
	if (status != SQLITE_ROW)
		return sqlite_fail(db, error, "cursor");
	*ret_cursor = (struct store_cursor){.epoch = epoch, .acked = (uint64_t)sqlite3_column_int64(statement, 0)};
	snprintf(ret_cursor->workspace, sizeof(ret_cursor->workspace), "%s", workspace);
	snprintf(ret_cursor->host_id, sizeof(ret_cursor->host_id), "%s", host_id);
	return 0;
}

int sqlite_each_cursor(struct store_reader *base, store_cursor_fn fn, void *data, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	sqlite3 *db = sqlite_reader_of(base)->db;
	int status = sqlite_prepare(
		    db,
		    "SELECT h.workspace,h.host_id,c.epoch,c.acked FROM cursors c JOIN hosts h ON h.id=c.host"
		    " ORDER BY 1,2,3",
		    false, &statement, error),
	    step = SQLITE_DONE;

	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		struct store_cursor cursor = {
			.epoch = (uint64_t)sqlite3_column_int64(statement, 2),
			.acked = (uint64_t)sqlite3_column_int64(statement, 3),
		};

		snprintf(cursor.workspace, sizeof(cursor.workspace), "%s", sqlite3_column_text(statement, 0));
		snprintf(cursor.host_id, sizeof(cursor.host_id), "%s", sqlite3_column_text(statement, 1));
		status = fn(data, &cursor);
	}
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(db, error, "cursors") : status;
}

// --- all series ---------------------------------------------------------------------------

static struct lake_text *text_of(sqlite3_stmt *statement, int at)
{
	size_t length = (size_t)sqlite3_column_bytes(statement, at);
	struct lake_text *text = malloc(sizeof(*text) + length + 1);

	if (!text)
		return NULL;
	*text = (struct lake_text){.length = (uint32_t)length};
	if (length)
		memcpy(text->bytes, sqlite3_column_text(statement, at), length);
	text->bytes[length] = '\0';
	return text;
}

static int each_point_of(sqlite3 *db, sqlite3_stmt *series, store_point_fn fn, void *data, struct store_error *error)
{
	int kind = series_kind_find((const char *)sqlite3_column_text(series, 3)), status;
	struct {
		struct lake_point point;
		uint64_t value[SERIES_METRICS_MAX];
	} one = {0};
	CLEANUP(cleanup_free) struct lake_text *label = text_of(series, 5), *attributes = text_of(series, 6);
	struct series_points points = {0};
	size_t width;

	if (kind < 0)
		return 0;
	if (!label || !attributes)
		return store_fail(error, -ENOMEM, "out of memory");
	one.point.kind = (uint8_t)kind;
	one.point.series_id = sqlite_column_u64(series, 0);
	one.point.owner_id = sqlite_column_u64(series, 4);
	one.point.label = label->length ? label : NULL;
	one.point.attributes = sqlite3_column_type(series, 6) == SQLITE_NULL ? NULL : attributes;
	points.metrics = series_schemas[kind].metric_count;
	points.amounts = kind == SERIES_RUN;
	width = points.metrics + 1;
	status = series_points_read(db, one.point.series_id, 0, LAKE_U64_MAX, &points, error);
	for (size_t i = 0; status == 0 && i < points.count; i++) {
		one.point.time_ns = points.rows[i * width];
		memcpy(one.point.value, points.rows + i * width + 1, points.metrics * sizeof(one.value[0]));
		status = fn(data, (const char *)sqlite3_column_text(series, 1),
			    (const char *)sqlite3_column_text(series, 2), &one.point);
	}
	free(points.rows);
	return status;
}

int sqlite_each_point(struct store_reader *base, store_point_fn fn, void *data, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *series = NULL;
	sqlite3 *db = sqlite_reader_of(base)->db;
	int status = sqlite_prepare(
		    db, "SELECT id,workspace,host_id,kind,owner_id,label,attributes FROM series ORDER BY id", false,
		    &series, error),
	    step = SQLITE_DONE;

	while (status == 0 && (step = sqlite3_step(series)) == SQLITE_ROW)
		status = each_point_of(db, series, fn, data, error);
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(db, error, "series") : status;
}

static int each_rollup_of(sqlite3_stmt *row, store_rollup_fn fn, void *data, struct store_error *error)
{
	int kind = series_kind_find((const char *)sqlite3_column_text(row, 2)), status;
	struct store_rollup rollup = {.level_s = sqlite_column_u64(row, 0), .series_id = sqlite_column_u64(row, 1)};
	struct store_step steps[SERIES_METRICS_MAX];
	struct series_sum sums[SERIES_METRICS_MAX];
	CLEANUP(cleanup_free) uint64_t *rows = NULL;
	size_t count, metrics, width;

	if (kind < 0)
		return 0;
	metrics = series_schemas[kind].metric_count;
	width = 1 + metrics * SERIES_SUM_COLUMNS;
	rollup.kind = (enum series_kind)kind;
	rollup.steps = steps;
	status = chunk_unpack(sqlite3_column_blob(row, 3), (size_t)sqlite3_column_bytes(row, 3), width - 1, &rows,
			      &count);
	if (status < 0)
		return store_fail(error, status == -EBADMSG ? -EILSEQ : status, "a roll-up cannot be read");
	for (size_t i = 0; status == 0 && i < count; i++) {
		rollup.time_ns = rows[i * width];
		series_sums_of_row(rows + i * width + 1, metrics, sums);
		for (size_t m = 0; m < metrics; m++)
			series_step_of_sum(&series_schemas[kind].metrics[m], &sums[m], &steps[m]);
		status = fn(data, &rollup);
	}
	return status;
}

int sqlite_each_rollup(struct store_reader *base, store_rollup_fn fn, void *data, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *row = NULL;
	sqlite3 *db = sqlite_reader_of(base)->db;
	int status = sqlite_prepare(
		    db,
		    "SELECT r.level,r.series_id,s.kind,r.data FROM rollups r JOIN series s ON s.id=r.series_id"
		    " ORDER BY r.level,r.series_id,r.span",
		    false, &row, error),
	    step = SQLITE_DONE;

	while (status == 0 && (step = sqlite3_step(row)) == SQLITE_ROW)
		status = each_rollup_of(row, fn, data, error);
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(db, error, "roll-ups") : status;
}

// --- SQL of strangers ---------------------------------------------------------------------------

int sqlite_sql(struct store_reader *base, const char *workspace, const char *sql, const struct store_sql_limits *limits,
	       store_sql_columns_fn columns, store_sql_row_fn row, void *data, struct store_error *error)
{
	return sql_sqlite_run(sqlite_reader_of(base)->store->path, workspace, sql, limits, columns, row, data, error);
}

// --- health ---------------------------------------------------------------------------

int sqlite_status(struct store_reader *base, struct store_status *ret_status, struct store_error *error)
{
	struct sqlite_reader *reader = sqlite_reader_of(base);
	struct store_status result = {.backend = "sqlite"};
	CLEANUP(cleanup_free) char *log = NULL;
	struct stat file;
	uint64_t living = 0;
	int status = sqlite_number(reader->db, "PRAGMA user_version", &result.version, error);

	if (status == 0)
		status = sqlite_number(reader->db, "SELECT sum(rows) FROM partitions", &result.processes, error);
	if (status == 0)
		status = sqlite_number(reader->db, "SELECT count(*) FROM living", &living, error);
	if (status == 0)
		status = sqlite_number(reader->db, "SELECT count(*) FROM points", &result.points_staged, error);
	if (status < 0)
		return status;
	result.processes += living;
	if (stat(reader->store->path, &file) == 0)
		result.bytes = (uint64_t)file.st_size;
	if (asprintf(&log, "%s-wal", reader->store->path) >= 0 && stat(log, &file) == 0)
		result.wal_bytes = (uint64_t)file.st_size;
	result.bytes += result.wal_bytes;
	*ret_status = result;
	return 0;
}

static int check_damage(struct sqlite_reader *reader, store_problem_fn problem, void *data, bool *found,
			struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(reader->db, "PRAGMA quick_check", false, &statement, error), step = SQLITE_DONE;

	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *line = (const char *)sqlite3_column_text(statement, 0);

		if (line && strcmp(line, "ok") != 0) {
			problem(data, line);
			*found = true;
		}
	}
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(reader->db, error, "check") : status;
}

// Each row a statement gives is a sentence about something that does not add up.
static int check_sums(struct sqlite_reader *reader, const char *sql, store_problem_fn problem, void *data, bool *found,
		      struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(reader->db, sql, false, &statement, error), step = SQLITE_DONE;

	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		problem(data, (const char *)sqlite3_column_text(statement, 0));
		*found = true;
	}
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(reader->db, error, "check") : status;
}

// Without retention a host's sums are those of its processes; with it they are at least as large.
int sqlite_check(struct store_reader *base, store_problem_fn problem, void *data, struct store_error *error)
{
	static const char *const sums[] = {
		"SELECT 'host '||h.host_id||': '||h.processes||' processes counted, '||n||' kept' FROM hosts h JOIN"
		" (SELECT host_id,workspace,count(*) AS n FROM processes GROUP BY 1,2) p"
		" ON p.host_id=h.host_id AND p.workspace=h.workspace"
		" WHERE h.processes<n OR (h.processes>n AND NOT EXISTS(SELECT 1 FROM gaps WHERE room='retention'))",
		"SELECT 'host '||h.host_id||': CPU time of '||h.cpu_ns||' ns counted, '||n||' kept' FROM hosts h JOIN"
		" (SELECT host_id,workspace,sum(cpu_ns) AS n FROM processes GROUP BY 1,2) p"
		" ON p.host_id=h.host_id AND p.workspace=h.workspace"
		" WHERE h.cpu_ns<n OR (h.cpu_ns>n AND NOT EXISTS(SELECT 1 FROM gaps WHERE room='retention'))",
		"SELECT 'run '||r.run||': '||r.processes||' processes counted, its tasks have '||n FROM runs r JOIN"
		" (SELECT run_id,sum(processes) AS n FROM tasks GROUP BY 1) t ON t.run_id=r.id WHERE n>r.processes",
		"SELECT 'run '||r.run||': '||r.processes||' processes counted, its tools have '||n FROM runs r JOIN"
		" (SELECT run_id,sum(processes) AS n FROM tools GROUP BY 1) t ON t.run_id=r.id WHERE n>r.processes",
		"SELECT 'partition '||no||': '||rows||' processes counted, its next id is '||next_id FROM partitions"
		" WHERE rows>next_id",
	};
	struct sqlite_reader *reader = sqlite_reader_of(base);
	bool found = false;
	int status = sqlite_run(reader->db, "BEGIN", error);

	if (status < 0)
		return status;
	status = check_damage(reader, problem, data, &found, error);
	for (size_t i = 0; status == 0 && i < sizeof(sums) / sizeof(sums[0]); i++)
		status = check_sums(reader, sums[i], problem, data, &found, error);
	sqlite3_exec(reader->db, "COMMIT", NULL, NULL, NULL);
	return status < 0 ? status : found;
}
