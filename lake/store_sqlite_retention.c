// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: what is dropped, by age and by size, and the gap that tells it. Processes go by partitions, everything
// else by rows, so many at a time that a slice stays short.

#include <stdio.h>
#include <string.h>

#include "lake/store_sqlite_upkeep.h"

enum { DELETE_ROWS = 2000, SERIES_ROWS = 200 };
#define SWEEP_NS (UINT64_C(3600) * 1000000000)

// One row a day for each workspace and reason; count is added to it.
static int gap_write(struct upkeep *upkeep, const char *workspace, const char *what, uint64_t count)
{
	static const char *const sql[] = {
		"UPDATE gaps SET count=count+?3,time_ns=?4,revision=?5 WHERE room='retention' AND workspace=?1"
		" AND reason=?2 AND time_ns/86400000000000=?4/86400000000000",
		"INSERT INTO gaps(workspace,room,reason,count,time_ns,revision) VALUES(?1,'retention',?2,?3,?4,?5)",
	};
	int status = 0;

	for (size_t i = 0; status == 0 && count && i < 2; i++) {
		__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;

		status = sqlite_prepare(upkeep->db, sql[i], false, &statement, upkeep->error);
		if (status < 0)
			return status;
		sqlite3_bind_text(statement, 1, workspace, -1, SQLITE_STATIC);
		sqlite3_bind_text(statement, 2, what, -1, SQLITE_STATIC);
		sqlite3_bind_int64(statement, 3, (sqlite3_int64)count);
		sqlite3_bind_int64(statement, 4, (sqlite3_int64)upkeep->now_ns);
		sqlite3_bind_int64(statement, 5, (sqlite3_int64)upkeep->store->revision);
		status = sqlite_step_once(upkeep->db, statement, upkeep->error);
		if (sqlite3_changes(upkeep->db))
			break;
	}
	return status;
}

// Whose the processes of a partition are.
static int gap_of_partition(struct upkeep *upkeep, uint64_t no, const char *why)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	char sql[320];
	int status, step = SQLITE_DONE;

	snprintf(sql, sizeof(sql),
		 "SELECT (SELECT text FROM texts_%1$llu WHERE no=c.workspace),sum((SELECT count(*) FROM "
		 "processes_%1$llu p"
		 " WHERE p.context=c.no)) FROM contexts_%1$llu c GROUP BY 1",
		 (unsigned long long)no);
	status = sqlite_prepare(upkeep->db, sql, false, &statement, upkeep->error);
	while (status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW)
		status = gap_write(upkeep, (const char *)sqlite3_column_text(statement, 0), why,
				   (uint64_t)sqlite3_column_int64(statement, 1));
	return status == 0 && step != SQLITE_DONE ? sqlite_fail(upkeep->db, upkeep->error, "retention") : status;
}

// The oldest partition but the one being written, when it is older than day. LAKE_NULL: whatever its age.
static int processes_drop(struct upkeep *upkeep, uint64_t day, const char *why, bool *ret_dropped)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	uint64_t no, rows;
	int status = sqlite_prepare(upkeep->db, "SELECT no,rows,day FROM partitions WHERE no<? ORDER BY no LIMIT 1",
				    false, &statement, upkeep->error);

	*ret_dropped = false;
	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)upkeep->store->partition.no);
	if (sqlite3_step(statement) != SQLITE_ROW || (uint64_t)sqlite3_column_int64(statement, 2) >= day)
		return 0;
	no = (uint64_t)sqlite3_column_int64(statement, 0);
	rows = (uint64_t)sqlite3_column_int64(statement, 1);
	sqlite3_reset(statement);
	status = gap_of_partition(upkeep, no, why);
	if (status == 0)
		status = sqlite_partition_drop(upkeep->db, no, upkeep->error);
	if (status < 0)
		return status;
	upkeep->result->processes_removed += rows;
	*ret_dropped = true;
	return 0;
}

// What goes, of one table.
struct dropping {
	const char *table, *key, *where; // where: of ?1, the bound
	const char *workspace, *count; // whose a row is and what it counts for
	const char *why;
};

// At most DELETE_ROWS rows. They are a gap of those whose they were, and are added to *removed.
static int drop(struct upkeep *upkeep, const struct dropping *dropping, uint64_t bound, uint64_t *removed)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	char sql[500], workspace[128] = "";
	uint64_t rows = 0, of_workspace = 0, count;
	int status, step = SQLITE_DONE;

	snprintf(sql, sizeof(sql),
		 "DELETE FROM %1$s WHERE (%2$s) IN (SELECT %2$s FROM %1$s WHERE %3$s LIMIT %4$d) RETURNING %5$s,%6$s",
		 dropping->table, dropping->key, dropping->where, DELETE_ROWS, dropping->workspace, dropping->count);
	status = sqlite_prepare(upkeep->db, sql, false, &statement, upkeep->error);
	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, (sqlite3_int64)bound);
	for (; status == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW; rows++) {
		const char *whose = (const char *)sqlite3_column_text(statement, 0);

		count = (uint64_t)sqlite3_column_int64(statement, 1);
		*removed += count;
		if (whose && strcmp(whose, workspace) != 0) {
			status = gap_write(upkeep, workspace, dropping->why, of_workspace);
			snprintf(workspace, sizeof(workspace), "%s", whose);
			of_workspace = 0;
		}
		of_workspace += count;
	}
	if (status == 0 && step != SQLITE_DONE)
		return sqlite_fail(upkeep->db, upkeep->error, "retention");
	upkeep->result->more |= rows == DELETE_ROWS;
	return status < 0 ? status : gap_write(upkeep, workspace, dropping->why, of_workspace);
}

// Rows of an entity.
static int rows_drop(struct upkeep *upkeep, const char *table, const char *key, const char *where, uint64_t bound,
		     const char *why, uint64_t *removed)
{
	const struct dropping dropping = {table, key, where, "workspace", "1", why};

	return drop(upkeep, &dropping, bound, removed);
}

// Rows of packed points or steps: what was in them.
static int packed_drop(struct upkeep *upkeep, const char *table, const char *key, const char *where, uint64_t bound,
		       const char *why, uint64_t *removed)
{
	const struct dropping dropping = {table,
					  key,
					  where,
					  "ifnull((SELECT workspace FROM series s WHERE s.id=series_id),'')",
					  "count",
					  why};

	return drop(upkeep, &dropping, bound, removed);
}

static uint64_t older_than(const struct upkeep *upkeep, uint64_t age_s)
{
	uint64_t age_ns = age_s > UINT64_MAX / 1000000000 ? UINT64_MAX : age_s * 1000000000;

	return age_s && upkeep->now_ns > age_ns ? upkeep->now_ns - age_ns : 0;
}

static int rollups_drop(struct upkeep *upkeep, int level, uint64_t age_s)
{
	static const char *const whys[SERIES_LEVELS] = {"roll-ups of 10 s past their age",
							"roll-ups of 1 min past their age",
							"roll-ups of 1 h past their age"};
	char where[64];
	uint64_t bound_ns = older_than(upkeep, age_s);

	if (!bound_ns)
		return 0;
	snprintf(where, sizeof(where), "level=%llu AND span<?1",
		 (unsigned long long)(series_levels[level].step_ns / 1000000000));
	return packed_drop(upkeep, "rollups", "level,series_id,span", where, bound_ns / series_levels[level].span_ns,
			   whys[level], &upkeep->result->rollups_removed);
}

// Entities whose last process ended long ago and that nothing is part of any more.
static int aggregates_drop(struct upkeep *upkeep, uint64_t bound_ns)
{
	static const char *const tables[][3] = {
		{"tasks", "run_id,id", "tasks past their age"},
		{"tools", "id", "tools past their age"},
		{"samples", "id", "samples past their age"},
		{"containers", "id", "containers past their age"},
		{"runs", "id", "runs past their age"},
	};
	uint64_t removed = 0;
	int status = 0;

	for (size_t i = 0; status == 0 && bound_ns && i < sizeof(tables) / sizeof(tables[0]); i++)
		status = rows_drop(upkeep, tables[i][0], tables[i][1], "ifnull(end_ns,start_ns)<?1 AND living=0",
				   bound_ns, tables[i][2], &removed);
	if (removed)
		aggregates_forget(&upkeep->store->aggregates);
	upkeep->result->aggregates_removed += removed;
	return status;
}

// Points and steps of a run, container or process that went: nobody can ask for them. *ret_all: nothing is left.
static int series_empty(struct upkeep *upkeep, uint64_t series_id, bool *ret_all)
{
	static const char why[] = "series of runs and containers past their age";
	uint64_t points = 0, steps = 0;
	int status = packed_drop(upkeep, "chunks", "series_id,minute", "series_id=?1", series_id, why, &points);

	if (status == 0)
		status = packed_drop(upkeep, "rollups", "level,series_id,span",
				     "level IN (10,60,3600) AND series_id=?1", series_id, why, &steps);
	upkeep->result->points_removed += points;
	upkeep->result->rollups_removed += steps;
	*ret_all = !points && !steps;
	return status;
}

// The rows of series that have nothing any more, SERIES_ROWS of them looked at in a slice, all of them once an hour.
static int series_drop(struct upkeep *upkeep, uint64_t bound_ns)
{
	static const char look[] =
		"SELECT id,kind IN ('run','cgroup','cgroup_io','process') AND last_ns<?2"
		" AND (kind<>'run' OR NOT EXISTS(SELECT 1 FROM runs r WHERE r.id=s.owner_id)),"
		"NOT EXISTS(SELECT 1 FROM chunks c WHERE c.series_id=s.id)"
		" AND NOT EXISTS(SELECT 1 FROM points p WHERE p.series_id=s.id)"
		" AND NOT EXISTS(SELECT 1 FROM rollups o WHERE o.level=10 AND o.series_id=s.id)"
		" AND NOT EXISTS(SELECT 1 FROM rollups o WHERE o.level=60 AND o.series_id=s.id)"
		" AND NOT EXISTS(SELECT 1 FROM rollups o WHERE o.level=3600 AND o.series_id=s.id)"
		" AND NOT EXISTS(SELECT 1 FROM stale t WHERE t.level=0 AND t.series_id=s.id)"
		" FROM series s WHERE id>?1 ORDER BY id LIMIT ?3";
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	struct sqlite_store *store = upkeep->store;
	int64_t empty[SERIES_ROWS];
	size_t looked = 0, count = 0;
	bool all = true;
	int status;

	if (upkeep->now_ns - store->series_swept_ns < SWEEP_NS && upkeep->now_ns >= store->series_swept_ns)
		return 0;
	status = sqlite_prepare(upkeep->db, look, false, &statement, upkeep->error);
	if (status < 0)
		return status;
	sqlite3_bind_int64(statement, 1, store->series_at);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)bound_ns);
	sqlite3_bind_int64(statement, 3, SERIES_ROWS);
	while (status == 0 && all && sqlite3_step(statement) == SQLITE_ROW) {
		sqlite3_int64 id = sqlite3_column_int64(statement, 0);

		looked++;
		if (sqlite3_column_int(statement, 2))
			empty[count++] = id;
		else if (sqlite3_column_int(statement, 1))
			status = series_empty(upkeep, (uint64_t)id, &all);
		// What was not emptied whole is looked at again.
		store->series_at = all ? id : id - 1;
	}
	sqlite3_reset(statement);
	for (size_t i = 0; status == 0 && i < count; i++)
		status = sqlite_runf(upkeep->db, upkeep->error, "DELETE FROM series WHERE id=%lld",
				     (long long)empty[i]);
	if (count)
		series_forget(store);
	upkeep->result->more |= !all || looked == SERIES_ROWS;
	if (status == 0 && all && looked < SERIES_ROWS) {
		store->series_at = -1;
		store->series_swept_ns = upkeep->now_ns;
	}
	return status;
}

int upkeep_retention(struct upkeep *upkeep)
{
	const struct store_retention *keep = &upkeep->store->options.retention;
	uint64_t bound_ns = older_than(upkeep, keep->processes_s);
	bool dropped;
	int status = 0;

	if (bound_ns)
		status = processes_drop(upkeep, bound_ns / 1000000000 / STORE_DAY_S, "processes past their age",
					&dropped);
	// What tells of a removal is a row a day, and stays.
	if (status == 0 && bound_ns)
		status = rows_drop(upkeep, "gaps", "id", "time_ns<?1 AND room<>'retention'", bound_ns,
				   "gaps past their age", &(uint64_t){0});
	if (status == 0 && bound_ns)
		status = rows_drop(upkeep, "events", "id", "time_ns<?1", bound_ns, "events past their age",
				   &(uint64_t){0});
	bound_ns = older_than(upkeep, keep->points_s);
	if (status == 0 && bound_ns)
		status = packed_drop(upkeep, "chunks", "series_id,minute", "minute<?1", bound_ns / SERIES_MINUTE_NS,
				     "points past their age", &upkeep->result->points_removed);
	if (status == 0)
		status = rollups_drop(upkeep, 0, keep->rollup_10s_s);
	if (status == 0)
		status = rollups_drop(upkeep, 1, keep->rollup_1min_s);
	if (status == 0)
		status = rollups_drop(upkeep, 2, keep->rollup_1h_s);
	if (status == 0)
		status = aggregates_drop(upkeep, older_than(upkeep, keep->aggregates_s));
	return status < 0 ? status : series_drop(upkeep, older_than(upkeep, keep->aggregates_s));
}

static int bytes_used(struct upkeep *upkeep, uint64_t *ret_bytes)
{
	uint64_t pages = 0, free_pages = 0, size = 0;
	int status = sqlite_number(upkeep->db, "PRAGMA page_count", &pages, upkeep->error);

	if (status == 0)
		status = sqlite_number(upkeep->db, "PRAGMA freelist_count", &free_pages, upkeep->error);
	if (status == 0)
		status = sqlite_number(upkeep->db, "PRAGMA page_size", &size, upkeep->error);
	*ret_bytes = (pages - free_pages) * size;
	return status;
}

// Over the cap: points first, then the finest roll-ups, then processes.
int upkeep_cap(struct upkeep *upkeep)
{
	uint64_t most = upkeep->store->options.retention.bytes_max, bytes, removed = 0;
	bool dropped;
	int status = bytes_used(upkeep, &bytes);

	upkeep->result->bytes = bytes;
	if (status < 0 || !most || bytes <= most)
		return status;
	upkeep->result->more = true;
	status = packed_drop(upkeep, "chunks", "series_id,minute", "minute<?1",
			     (upkeep->now_ns - 2 * SERIES_GRACE_NS) / SERIES_MINUTE_NS, "points over the size cap",
			     &removed);
	upkeep->result->points_removed += removed;
	if (status == 0 && removed)
		return 0;
	if (status == 0)
		status = packed_drop(upkeep, "rollups", "level,series_id,span", "level=10 AND span<?1",
				     (upkeep->now_ns - 2 * SERIES_GRACE_NS) / SERIES_MINUTE_NS,
				     "roll-ups of 10 s over the size cap", &removed);
	upkeep->result->rollups_removed += removed;
	if (status < 0 || removed)
		return status;
	status = processes_drop(upkeep, LAKE_NULL, "processes over the size cap", &dropped);
	if (status == 0 && !dropped && upkeep->store->partition.rows)
		status = sqlite_partition_new(upkeep->store, upkeep->store->partition.day, upkeep->error);
	else if (!dropped)
		upkeep->result->more = false; // nothing left that may go
	return status;
}
