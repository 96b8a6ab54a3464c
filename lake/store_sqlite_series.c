// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: points of series come in. Each is a row of `points` until upkeep packs whole minutes into chunks.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_sqlite_series.h"
#include "lake/varint.h"

struct series_known {
	uint64_t id; // 0 is free
	uint64_t minute; // of its latest point here
};

enum { SERIES_SLOTS = 1 << 16 };

void series_forget(struct sqlite_store *store)
{
	if (store->series)
		memset(store->series, 0, SERIES_SLOTS * sizeof(*store->series));
	store->series_count = 0;
}

void series_packed(struct sqlite_store *store, uint64_t series_id)
{
	size_t at = series_id & (SERIES_SLOTS - 1);

	while (store->series && store->series[at].id && store->series[at].id != series_id)
		at = (at + 1) & (SERIES_SLOTS - 1);
	if (store->series && store->series[at].id)
		store->series[at].minute = UINT64_MAX;
}

// Once for each series and minute: its row, and that the minute has points to pack.
static int series_note(struct sqlite_store *store, const struct lake_batch *batch, const struct lake_point *point,
		       struct store_error *error)
{
	sqlite3_stmt *insert = store->series_insert;
	struct series_known *known;
	size_t at = point->series_id & (SERIES_SLOTS - 1);
	const char *kind = series_schemas[point->kind].name;
	uint64_t minute = point->time_ns / SERIES_MINUTE_NS;
	int status;

	if (!store->series)
		store->series = calloc(SERIES_SLOTS, sizeof(*store->series));
	if (!store->series)
		return store_fail(error, -ENOMEM, "out of memory");
	if (store->series_count * 2 > SERIES_SLOTS)
		series_forget(store);
	while (store->series[at].id && store->series[at].id != point->series_id)
		at = (at + 1) & (SERIES_SLOTS - 1);
	known = &store->series[at];
	if (known->id && known->minute == minute)
		return 0;
	if (!known->id)
		store->series_count++;
	known->id = point->series_id;
	known->minute = minute;
	sqlite3_bind_int64(store->stale_insert, 1, (sqlite3_int64)point->series_id);
	sqlite3_bind_int64(store->stale_insert, 2, (sqlite3_int64)minute);
	status = sqlite_step_once(store->db, store->stale_insert, error);
	// A minute that was rolled up before is read from its points again, until it is rolled up anew.
	for (int level = 0; status == 0 && level < SERIES_LEVELS; level++) {
		sqlite3_bind_int64(store->rollup_delete, 1, (sqlite3_int64)(series_levels[level].step_ns / 1000000000));
		sqlite3_bind_int64(store->rollup_delete, 2, (sqlite3_int64)point->series_id);
		sqlite3_bind_int64(store->rollup_delete, 3,
				   (sqlite3_int64)(point->time_ns / series_levels[level].span_ns));
		status = sqlite_step_once(store->db, store->rollup_delete, error);
	}
	if (status < 0)
		return status;
	sqlite3_bind_int64(insert, 1, (sqlite3_int64)point->series_id);
	sqlite3_bind_text(insert, 2, batch->workspace, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 3, batch->host_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 4, kind, -1, SQLITE_STATIC);
	sqlite3_bind_int64(insert, 5, (sqlite3_int64)point->owner_id);
	sqlite3_bind_text(insert, 6, point->label ? point->label->bytes : "",
			  point->label ? (int)point->label->length : 0, SQLITE_STATIC);
	sqlite_bind_slot(insert, 7, (union lake_slot){.text = point->attributes}, SCHEMA_TEXT);
	sqlite3_bind_int64(insert, 8, (sqlite3_int64)point->time_ns);
	sqlite3_bind_int64(insert, 9, (sqlite3_int64)store->revision);
	return sqlite_step_once(store->db, insert, error);
}

int series_point(struct sqlite_store *store, struct lake_batch *batch, const struct lake_point *point,
		 struct store_error *error)
{
	unsigned char packed[SERIES_METRICS_MAX * VARINT_MAX], *end = packed;
	int status = series_note(store, batch, point, error);

	if (status < 0)
		return status;
	for (unsigned i = 0; i < series_schemas[point->kind].metric_count; i++)
		end = varint_write(end, point->value[i] + 1); // LAKE_NULL becomes 0
	sqlite3_bind_int64(store->point_insert, 1, (sqlite3_int64)point->series_id);
	sqlite3_bind_int64(store->point_insert, 2, (sqlite3_int64)point->time_ns);
	sqlite3_bind_blob(store->point_insert, 3, packed, (int)(end - packed), SQLITE_STATIC);
	return sqlite_step_once(store->db, store->point_insert, error);
}
