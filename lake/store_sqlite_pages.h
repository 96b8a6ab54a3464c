// SPDX-License-Identifier: Apache-2.0
// A database of SQLite in memory, filled page by page by who knows the file format: lake/store_sqlite_pages.c.
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	PAGES_BYTES = 65536, // of a page
	PAGES_MAX = 4096, // rows of up to 256 MiB
};

struct pages {
	unsigned char *page[PAGES_MAX]; // page 1 at 0; NULL: zeros
	sqlite3_vfs vfs;
	char name[40];
	bool registered;
};

// Makes the tables, empty, and attaches them to a connection that was opened with SQLITE_OPEN_URI. The first table's
// root is page 2, that of the next table or index page 3 and so on. A code of SQLite. pages is zeroed before the first
// call; also after a failure pages_free() is owed, once the connection is closed.
int pages_attach(struct pages *pages, sqlite3 *db, const char *as, const char *tables);
// A page to write to, its old content kept; NULL: no memory, or no page of that number.
unsigned char *pages_get(struct pages *pages, uint32_t no);
// Releases the pages from first on, up to one that is not there.
void pages_drop(struct pages *pages, uint32_t first);
void pages_free(struct pages *pages);
