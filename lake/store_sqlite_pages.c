// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: a file of rows that exists in memory only, which SQLite reads as an attached database. Who fills it
// writes its pages as SQLite's file format has them, and one INSERT ... SELECT * moves the rows: SQLite then copies
// them as they stand instead of making each anew from its columns.
// The pages change only between statements, also within a transaction. That is right because they are given out mapped
// (xFetch), so SQLite keeps none of them; were one kept, its rows would come twice and the INSERT would fail by their
// ids. Page 1, which SQLite keeps, does not change. Nothing here is written by SQLite.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_sqlite_pages.h"

struct pages_file {
	sqlite3_file file;
	struct pages *pages;
};

static const unsigned char zeros[PAGES_BYTES];

static const unsigned char *page_of(const struct pages *pages, sqlite3_int64 offset)
{
	size_t no = (size_t)(offset / PAGES_BYTES);

	return no < PAGES_MAX && pages->page[no] ? pages->page[no] : zeros;
}

static int pages_close(sqlite3_file *file)
{
	(void)file;
	return SQLITE_OK;
}

static int pages_read(sqlite3_file *file, void *bytes, int length, sqlite3_int64 offset)
{
	const struct pages *pages = ((struct pages_file *)file)->pages;
	int within = (int)(offset % PAGES_BYTES);

	if (offset >= (sqlite3_int64)PAGES_MAX * PAGES_BYTES || length > PAGES_BYTES - within)
		return SQLITE_IOERR_SHORT_READ;
	memcpy(bytes, page_of(pages, offset) + within, (size_t)length);
	return SQLITE_OK;
}

static int pages_write(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 offset)
{
	(void)file;
	(void)bytes;
	(void)length;
	(void)offset;
	return SQLITE_READONLY;
}

static int pages_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	(void)file;
	(void)size;
	return SQLITE_READONLY;
}

static int pages_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	(void)file;
	*ret_size = (sqlite3_int64)PAGES_MAX * PAGES_BYTES;
	return SQLITE_OK;
}

static int pages_nothing(sqlite3_file *file, int what)
{
	(void)file;
	(void)what;
	return SQLITE_OK;
}

static int pages_reserved(sqlite3_file *file, int *ret_reserved)
{
	(void)file;
	*ret_reserved = 0;
	return SQLITE_OK;
}

static int pages_control(sqlite3_file *file, int what, void *argument)
{
	(void)file;
	(void)what;
	(void)argument;
	return SQLITE_NOTFOUND;
}

static int pages_sector(sqlite3_file *file)
{
	(void)file;
	return PAGES_BYTES;
}

static int pages_device(sqlite3_file *file)
{
	(void)file;
	return 0;
}

static int pages_fetch(sqlite3_file *file, sqlite3_int64 offset, int length, void **ret_bytes)
{
	struct pages *pages = ((struct pages_file *)file)->pages;

	*ret_bytes = length == PAGES_BYTES ? (void *)(uintptr_t)page_of(pages, offset) : NULL;
	return SQLITE_OK;
}

static int pages_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *bytes)
{
	(void)file;
	(void)offset;
	(void)bytes;
	return SQLITE_OK;
}

static const sqlite3_io_methods methods = {
	.iVersion = 3,
	.xClose = pages_close,
	.xRead = pages_read,
	.xWrite = pages_write,
	.xTruncate = pages_truncate,
	.xSync = pages_nothing,
	.xFileSize = pages_size,
	.xLock = pages_nothing,
	.xUnlock = pages_nothing,
	.xCheckReservedLock = pages_reserved,
	.xFileControl = pages_control,
	.xSectorSize = pages_sector,
	.xDeviceCharacteristics = pages_device,
	.xFetch = pages_fetch,
	.xUnfetch = pages_unfetch,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	(void)name;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return SQLITE_CANTOPEN;
	*(struct pages_file *)file = (struct pages_file){.file = {&methods}, .pages = vfs->pAppData};
	if (ret_flags)
		*ret_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	(void)name;
	(void)sync;
	return SQLITE_READONLY;
}

// No journal beside it.
static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_is)
{
	(void)vfs;
	(void)name;
	(void)flags;
	*ret_is = 0;
	return SQLITE_OK;
}

static int vfs_name(sqlite3_vfs *vfs, const char *name, int size, char *ret_name)
{
	(void)vfs;
	snprintf(ret_name, (size_t)size, "%s", name);
	return SQLITE_OK;
}

// --- the first pages ---------------------------------------------------------------------------

static void put_u32(unsigned char *at, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (unsigned char)(value >> (24 - 8 * i));
}

// SQLite makes them itself, with the tables and no rows.
static int pages_make(struct pages *pages, const char *tables)
{
	sqlite3_int64 size = 0;
	unsigned char *image = NULL;
	sqlite3 *db = NULL;
	char page_size[40];
	int status;

	snprintf(page_size, sizeof(page_size), "PRAGMA page_size=%d", PAGES_BYTES);
	status = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (status == SQLITE_OK)
		status = sqlite3_exec(db, page_size, NULL, NULL, NULL);
	if (status == SQLITE_OK)
		status = sqlite3_exec(db, tables, NULL, NULL, NULL);
	if (status == SQLITE_OK)
		image = sqlite3_serialize(db, "main", &size, 0);
	if (status == SQLITE_OK && (!image || size % PAGES_BYTES || size / PAGES_BYTES > PAGES_MAX))
		status = SQLITE_NOMEM;
	for (sqlite3_int64 at = 0; status == SQLITE_OK && at < size; at += PAGES_BYTES) {
		unsigned char *page = pages_get(pages, (uint32_t)(at / PAGES_BYTES) + 1);

		if (page)
			memcpy(page, image + at, PAGES_BYTES);
		else
			status = SQLITE_NOMEM;
	}
	// The header's count of pages: what the size of the file says.
	if (status == SQLITE_OK)
		put_u32(pages->page[0] + 28, PAGES_MAX);
	sqlite3_free(image);
	sqlite3_close(db);
	return status;
}

int pages_attach(struct pages *pages, sqlite3 *db, const char *as, const char *tables)
{
	sqlite3_vfs *real = sqlite3_vfs_find(NULL);
	char sql[192];
	int status = real ? pages_make(pages, tables) : SQLITE_ERROR;

	if (status != SQLITE_OK)
		return status;
	snprintf(pages->name, sizeof(pages->name), "tracer-pages-%p", (void *)pages);
	pages->vfs = *real;
	pages->vfs.iVersion = 1;
	pages->vfs.szOsFile = (int)sizeof(struct pages_file);
	pages->vfs.zName = pages->name;
	pages->vfs.pNext = NULL;
	pages->vfs.pAppData = pages;
	pages->vfs.xOpen = vfs_open;
	pages->vfs.xDelete = vfs_delete;
	pages->vfs.xAccess = vfs_access;
	pages->vfs.xFullPathname = vfs_name;
	status = sqlite3_vfs_register(&pages->vfs, 0);
	if (status != SQLITE_OK)
		return status;
	pages->registered = true;
	snprintf(sql, sizeof(sql), "ATTACH 'file:pages?vfs=%s&mode=ro' AS %s;PRAGMA %s.mmap_size=%lld", pages->name, as,
		 as, (long long)PAGES_MAX * PAGES_BYTES);
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

unsigned char *pages_get(struct pages *pages, uint32_t no)
{
	if (no == 0 || no > PAGES_MAX)
		return NULL;
	if (!pages->page[no - 1])
		pages->page[no - 1] = calloc(1, PAGES_BYTES);
	return pages->page[no - 1];
}

void pages_drop(struct pages *pages, uint32_t first)
{
	for (uint32_t no = first; no <= PAGES_MAX && pages->page[no - 1]; no++) {
		free(pages->page[no - 1]);
		pages->page[no - 1] = NULL;
	}
}

void pages_free(struct pages *pages)
{
	if (pages->registered)
		sqlite3_vfs_unregister(&pages->vfs);
	pages->registered = false;
	pages_drop(pages, 1);
}
