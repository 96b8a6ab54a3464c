// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: what runs used over time (lake/amounts.h), gathered for a transaction and then added to the points of
// the run's series.

#include <errno.h>
#include <string.h>

#include "lake/store_sqlite_series.h"
#include "lake/varint.h"

enum { SLOTS_MAX = 1 << 14 };

static int step_write(struct sqlite_store *store, struct amounts_step *step, struct store_error *error)
{
	struct {
		struct lake_point point;
		uint64_t value[AMOUNTS];
	} moment = {.point = {.kind = SERIES_RUN, .owner_id = step->run, .time_ns = step->step * AMOUNTS_STEP_NS}};
	sqlite3_stmt *get = store->point_get;
	int status;

	moment.point.series_id = lake_id_series(SERIES_RUN, step->run, "", 0);
	sqlite3_bind_int64(get, 1, (sqlite3_int64)moment.point.series_id);
	sqlite3_bind_int64(get, 2, (sqlite3_int64)moment.point.time_ns);
	status = sqlite3_step(get);
	if (status == SQLITE_ROW) {
		struct varint_reader reader =
			varint_reader(sqlite3_column_blob(get, 0), (size_t)sqlite3_column_bytes(get, 0));

		for (size_t i = 0; i < AMOUNTS && reader.at < reader.end; i++)
			amounts_add(&step->value[i], varint_get(&reader) - 1);
	}
	sqlite3_reset(get);
	if (status != SQLITE_ROW && status != SQLITE_DONE)
		return sqlite_fail(store->db, error, "points");
	memcpy(moment.point.value, step->value, sizeof(step->value));
	return series_point(store, step->batch, &moment.point, error);
}

int amounts_flush(struct sqlite_store *store, struct store_error *error)
{
	int status = 0;

	for (size_t i = 0; status == 0 && store->amounts.count && i < store->amounts.slots; i++) {
		if (store->amounts.steps[i].run)
			status = step_write(store, &store->amounts.steps[i], error);
	}
	amounts_clear(&store->amounts);
	return status;
}

int series_amounts(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		   const struct lake_row *before, bool failed, struct store_error *error)
{
	int status = store->amounts.count * 2 > SLOTS_MAX ? amounts_flush(store, error) : 0;

	if (status < 0)
		return status;
	if (amounts_process(&store->amounts, batch, row, before, failed) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	return 0;
}
