// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: reading series. Points that are not packed yet are rows of `points`, packed minutes rows of `chunks`,
// roll-ups rows of `rollups`. A span whose roll-up is not made yet is read from what is finer.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/chunk.h"
#include "lake/store_sqlite.h"
#include "lake/store_sqlite_series.h"
#include "lake/varint.h"

static void points_free(struct series_points *points)
{
	free(points->rows);
}

int series_points_add(struct series_points *points, uint64_t time_ns, const uint64_t *value)
{
	size_t width = points->metrics + 1;

	if (points->count == points->room) {
		size_t room = points->room ? points->room * 2 : 64;
		uint64_t *larger = realloc(points->rows, room * width * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		points->rows = larger;
		points->room = room;
	}
	points->rows[points->count * width] = time_ns;
	memcpy(points->rows + points->count * width + 1, value, points->metrics * sizeof(*value));
	points->count++;
	return 0;
}

static int read_packed_point(sqlite3_stmt *statement, struct series_points *points)
{
	struct varint_reader reader =
		varint_reader(sqlite3_column_blob(statement, 1), (size_t)sqlite3_column_bytes(statement, 1));
	uint64_t value[SERIES_METRICS_MAX];

	for (size_t i = 0; i < points->metrics; i++)
		value[i] = reader.at < reader.end ? varint_get(&reader) - 1 : LAKE_NULL;
	if (reader.failed)
		return -EBADMSG;
	return series_points_add(points, (uint64_t)sqlite3_column_int64(statement, 0), value);
}

static int compare_rows(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static int read_chunks(sqlite3 *db, uint64_t series_id, uint64_t from_ns, uint64_t to_ns, struct series_points *points,
		       struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(
		    db, "SELECT data FROM chunks WHERE series_id=? AND minute>=? AND minute<=? ORDER BY minute", false,
		    &statement, error),
	    step = SQLITE_DONE;

	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)series_id);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)(from_ns / SERIES_MINUTE_NS));
	sqlite3_bind_int64(statement, 3, (sqlite3_int64)((to_ns - 1) / SERIES_MINUTE_NS));
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		CLEANUP(cleanup_free) uint64_t *rows = NULL;
		size_t count, width = points->metrics + 1;

		status = chunk_unpack(sqlite3_column_blob(statement, 0), (size_t)sqlite3_column_bytes(statement, 0),
				      points->metrics, &rows, &count);
		for (size_t i = 0; status == 0 && i < count; i++) {
			if (rows[i * width] >= from_ns && rows[i * width] < to_ns)
				status = series_points_add(points, rows[i * width], rows + i * width + 1);
		}
	}
	if (status < 0)
		return store_fail(error, status == -EBADMSG ? -EILSEQ : status, "points of a series cannot be read");
	return step == SQLITE_DONE ? 0 : sqlite_fail(db, error, "series");
}

// Equal times are one point: the later one, or for amounts their sum.
static void points_unite(struct series_points *points)
{
	size_t width = points->metrics + 1, out = 0;

	for (size_t i = 0; i < points->count; i++) {
		uint64_t *to = points->rows + out * width, *from = points->rows + i * width;
		uint64_t *last = out ? to - width : NULL;

		if (!last || last[0] != from[0]) {
			memmove(to, from, width * sizeof(*to));
			out++;
			continue;
		}
		for (size_t c = 1; c < width; c++) {
			if (points->amounts && last[c] != LAKE_NULL && from[c] != LAKE_NULL)
				last[c] += from[c];
			else if (from[c] != LAKE_NULL)
				last[c] = from[c];
		}
	}
	points->count = out;
}

int series_points_read(sqlite3 *db, uint64_t series_id, uint64_t from_ns, uint64_t to_ns, struct series_points *points,
		       struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	size_t packed, width = points->metrics + 1;
	int status, step = SQLITE_DONE;

	if (to_ns <= from_ns)
		return 0;
	status = read_chunks(db, series_id, from_ns, to_ns, points, error);
	packed = points->count;
	if (status == 0)
		status = sqlite_prepare(db,
					"SELECT time_ns,data FROM points WHERE series_id=? AND time_ns>=? AND time_ns<?"
					" ORDER BY time_ns",
					false, &statement, error);
	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)series_id);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)from_ns);
	sqlite3_bind_int64(statement, 3, (sqlite3_int64)(to_ns > LAKE_U64_MAX ? LAKE_U64_MAX : to_ns));
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW)
		status = read_packed_point(statement, points);
	if (status < 0)
		return store_fail(error, status == -EBADMSG ? -EILSEQ : status, "points of a series cannot be read");
	if (step != SQLITE_DONE)
		return sqlite_fail(db, error, "series");
	// Late points of a minute that was packed before.
	if (packed && packed < points->count && points->rows[packed * width] <= points->rows[(packed - 1) * width]) {
		qsort(points->rows, points->count, width * sizeof(points->rows[0]), compare_rows);
		points_unite(points);
	}
	return 0;
}

// --- a query ---------------------------------------------------------------------------

struct series_reading {
	struct sqlite_reader *reader;
	struct series_giver giver;
	struct store_error *error;
};

// Points from <= time < to, folded or as they are. before_ns: how far back to look for what counters rise from.
static int read_points(struct series_reading *reading, uint64_t series_id, uint64_t from_ns, uint64_t to_ns,
		       uint64_t before_ns)
{
	__attribute__((cleanup(points_free))) struct series_points points = {
		.metrics = series_schemas[reading->giver.query->kind].metric_count,
		.amounts = reading->giver.query->kind == SERIES_RUN,
	};
	uint64_t first_ns = from_ns > before_ns ? from_ns - before_ns : 0;
	size_t width = points.metrics + 1;
	int status = series_points_read(reading->reader->db, series_id, first_ns, to_ns, &points, reading->error);

	for (size_t i = 0; status == 0 && i < points.count; i++) {
		const uint64_t *row = points.rows + i * width;

		if (row[0] < from_ns)
			series_fold_before(&reading->giver.fold, row[0], row + 1);
		else if (!reading->giver.query->step_ns)
			status = series_give_point(&reading->giver, row[0], row + 1);
		else
			while (status == 0 && series_fold_point(&reading->giver.fold, row[0], row + 1))
				status = series_give_step(&reading->giver);
	}
	return status;
}

// A row of `rollups`, its steps in [from, to) folded in.
static int read_rollup(struct series_reading *reading, const void *data, size_t size, uint64_t from_ns, uint64_t to_ns)
{
	size_t metrics = series_schemas[reading->giver.query->kind].metric_count;
	size_t columns = metrics * SERIES_SUM_COLUMNS, count;
	CLEANUP(cleanup_free) uint64_t *rows = NULL;
	struct series_sum sums[SERIES_METRICS_MAX];
	int status = chunk_unpack(data, size, columns, &rows, &count);

	if (status < 0)
		return store_fail(reading->error, status == -EBADMSG ? -EILSEQ : status, "a roll-up cannot be read");
	for (size_t i = 0; status == 0 && i < count; i++) {
		const uint64_t *row = rows + i * (columns + 1);

		if (row[0] < from_ns || row[0] >= to_ns)
			continue;
		series_sums_of_row(row + 1, metrics, sums);
		while (status == 0 && series_fold_sums(&reading->giver.fold, row[0], sums))
			status = series_give_step(&reading->giver);
	}
	return status;
}

static int read_level(struct series_reading *reading, uint64_t series_id, int level, uint64_t from_ns, uint64_t to_ns);

// What a coarser span lacks comes from the level below, at last from the points.
static int read_finer(struct series_reading *reading, uint64_t series_id, int level, uint64_t from_ns, uint64_t to_ns)
{
	if (from_ns >= to_ns)
		return 0;
	if (level > 0)
		return read_level(reading, series_id, level - 1, from_ns, to_ns);
	return read_points(reading, series_id, from_ns, to_ns, SERIES_BEFORE_NS);
}

static int read_level(struct series_reading *reading, uint64_t series_id, int level, uint64_t from_ns, uint64_t to_ns)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	uint64_t span_ns = series_levels[level].span_ns, next_ns = from_ns;
	sqlite3 *db = reading->reader->db;
	int status =
		    sqlite_prepare(db,
				   "SELECT span,data FROM rollups WHERE level=? AND series_id=? AND span>=? AND span<=?"
				   " ORDER BY span",
				   false, &statement, reading->error),
	    step = SQLITE_DONE;

	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)(series_levels[level].step_ns / 1000000000));
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)series_id);
	sqlite3_bind_int64(statement, 3, (sqlite3_int64)(from_ns / span_ns));
	sqlite3_bind_int64(statement, 4, (sqlite3_int64)((to_ns - 1) / span_ns));
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		uint64_t start_ns = (uint64_t)sqlite3_column_int64(statement, 0) * span_ns;

		status = read_finer(reading, series_id, level, next_ns, start_ns);
		if (status == 0)
			status = read_rollup(reading, sqlite3_column_blob(statement, 1),
					     (size_t)sqlite3_column_bytes(statement, 1), from_ns, to_ns);
		next_ns = start_ns + span_ns;
	}
	if (status == 0 && step != SQLITE_DONE)
		return sqlite_fail(db, reading->error, "series");
	return status == 0 ? read_finer(reading, series_id, level, next_ns, to_ns) : status;
}

static int read_one(struct series_reading *reading, uint64_t series_id, uint64_t first_ns, uint64_t last_ns)
{
	const struct store_series_query *query = reading->giver.query;
	int level = series_level_of(query->step_ns), status;
	uint64_t step_ns = query->step_ns ? query->step_ns : 1;
	// The series' own bounds are good to a minute. A step is read whole.
	uint64_t from_ns = first_ns - first_ns % SERIES_MINUTE_NS, to_ns = last_ns - last_ns % SERIES_MINUTE_NS;

	from_ns = query->from_ns > from_ns ? query->from_ns : from_ns;
	from_ns -= from_ns % step_ns;
	to_ns = query->to_ns < to_ns + SERIES_MINUTE_NS ? query->to_ns : to_ns + SERIES_MINUTE_NS;
	to_ns = (to_ns + step_ns - 1) / step_ns * step_ns;
	if (from_ns >= to_ns)
		return 0;
	series_fold_begin(&reading->giver.fold, query->kind, query->metrics, query->metric_count,
			  query->step_ns ? query->step_ns : 1);
	if (level < 0)
		status = read_points(reading, series_id, from_ns, to_ns, query->step_ns ? SERIES_BEFORE_NS : 0);
	else
		status = read_level(reading, series_id, level, from_ns, to_ns);
	return status == 0 ? series_give_step(&reading->giver) : status;
}

static int series_run(struct series_reading *reading)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	const struct store_series_query *query = reading->giver.query;
	sqlite3 *db = reading->reader->db;
	int status = sqlite_prepare(db,
				    "SELECT id,label,first_ns,last_ns FROM series WHERE owner_id=?1 AND kind=?2 AND"
				    " (?3 IS NULL OR workspace=?3) AND (?4 IS NULL OR label=?4) ORDER BY label",
				    false, &statement, reading->error),
	    step = SQLITE_DONE;

	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)query->owner_id);
	sqlite3_bind_text(statement, 2, series_schemas[query->kind].name, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 3, query->workspace, -1, SQLITE_STATIC);
	sqlite3_bind_text(statement, 4, query->label, -1, SQLITE_STATIC);
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
		reading->giver.label = (const char *)sqlite3_column_text(statement, 1);
		status = read_one(reading, (uint64_t)sqlite3_column_int64(statement, 0),
				  sqlite_column_u64(statement, 2), sqlite_column_u64(statement, 3));
	}
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(db, reading->error, "series") : status;
}

int sqlite_series(struct store_reader *base, const struct store_series_query *query, store_step_fn step, void *data,
		  struct store_error *error)
{
	CLEANUP(cleanup_free) struct series_reading *reading = calloc(1, sizeof(*reading));
	char text[128];
	const char *wrong = series_query_wrong(query, text);
	int status;

	if (!reading)
		return store_fail(error, -ENOMEM, "out of memory");
	if (wrong)
		return store_fail(error, -EINVAL, "%s", wrong);
	*reading = (struct series_reading){
		.reader = sqlite_reader_of(base),
		.giver = {.query = query, .step = step, .data = data},
		.error = error,
	};
	reader_deadline(reading->reader, query->time_limit_ms);
	status = sqlite_run(reading->reader->db, "BEGIN", error);
	if (status == 0) {
		status = series_run(reading);
		reader_deadline(reading->reader, 0);
		sqlite3_exec(reading->reader->db, "COMMIT", NULL, NULL, NULL);
	}
	return status;
}
