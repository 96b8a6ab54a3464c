// SPDX-License-Identifier: Apache-2.0
// Read-only SQL of strangers over a SQLite lake: the sql function of that backend. They see one view for each entity,
// bound to one workspace, and nothing else of the file; time and memory are bounded whatever they ask. Safe for several
// threads.
#pragma once

#include "lake/store.h"

// Must be called before SQLite is used in this process: afterwards a thread can be given a memory budget. 0, again
// when called twice; -EBUSY: SQLite was already running.
int sql_sqlite_setup(void);

// As store_sql(), on the lake file at path.
int sql_sqlite_run(const char *path, const char *workspace, const char *text,
		   const struct store_sql_limits *limits, store_sql_columns_fn columns,
		   store_sql_row_fn row, void *data, struct store_error *error);
