// SPDX-License-Identifier: Apache-2.0
// Moves a whole lake into ClickHouse and proves that it is the same.
#pragma once

#include "lake/store.h"

struct migrate_hooks {
	void (*progress)(void *data, const char *what, uint64_t rows); // now and then
	void (*difference)(void *data, const char *sentence); // for each one found in the end
	void *data;
};

// from: any store, which nobody writes to meanwhile. to: clickhouse://..., empty, or a move of the same store that did
// not come to its end: it goes on where it was. 0: everything is there and equal, by row counts and by sums of every
// column; 1: it is not, see difference; -EEXIST: to holds something else; -errno. keep: what the new one is to keep,
// as the server that will have it.
int migrate_lake(const char *from, const char *to, const struct store_retention *keep,
		 const struct migrate_hooks *hooks, struct store_error *error);
