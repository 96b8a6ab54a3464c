// SPDX-License-Identifier: Apache-2.0
// Between the files of the SQLite backend's upkeep. All of it happens in the transaction of one slice.
#pragma once

#include "lake/store_sqlite_series.h"

struct upkeep {
	struct sqlite_store *store;
	sqlite3 *db;
	uint64_t now_ns;
	uint64_t until_boot_ns; // end of the slice
	struct store_upkeep *result;
	struct store_error *error;
};

// --- store_sqlite_retention.c: what goes is counted in *result and, but for sums, in rows of `gaps` of the workspace
// that it was of. result->more: there is more to drop.

int upkeep_retention(struct upkeep *upkeep); // what is past its age
int upkeep_cap(struct upkeep *upkeep); // what is over the size, the oldest first; sets result->bytes
