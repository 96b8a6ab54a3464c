// SPDX-License-Identifier: Apache-2.0
// Series inside the SQLite backend: points, packed minutes, roll-ups. Times in ns since 1970.
#pragma once

#include "lake/series.h"
#include "lake/store_sqlite.h"

enum { SERIES_SUM_COLUMNS = 5 };

// Rows of time and metrics values, by time. Free rows.
struct series_points {
	uint64_t *rows;
	size_t count, room;
	size_t metrics;
	bool amounts; // two of the same time add up; else the later one counts
};

int series_points_add(struct series_points *points, uint64_t time_ns, const uint64_t *value);
// Adds what is in [from, to), packed or not.
int series_points_read(sqlite3 *db, uint64_t series_id, uint64_t from_ns, uint64_t to_ns, struct series_points *points,
		       struct store_error *error);

// The sums that the columns of a roll-up's row stand for, and back.
void series_sums_of_row(const uint64_t *columns, size_t metrics, struct series_sum *sums);
void series_row_of_sums(const struct series_sum *sums, size_t metrics, uint64_t *columns);
// A minute of it was packed: a further point of that minute makes it stale again.
void series_packed(struct sqlite_store *store, uint64_t series_id);
