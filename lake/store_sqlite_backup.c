// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: a whole copy while the lake is written. The writer copies from its own connection, so what it writes
// meanwhile goes into the copy too; another process copies one state of the lake, which it holds until it is done.

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lake/store_sqlite.h"

enum { PAGES_AT_ONCE = 2000 };

struct sqlite_backup {
	struct store_backup backup;
	sqlite3 *own; // where pages come from when the writer is another process
	sqlite3 *to;
	sqlite3_backup *copy;
};

// The reading transaction holds the state: without it a copy would begin anew each time the writer writes.
static int source_open(struct sqlite_backup *backup, const char *path, struct store_error *error)
{
	if (sqlite3_open_v2(path, &backup->own, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return sqlite_fail(backup->own, error, path);
	sqlite3_extended_result_codes(backup->own, 1);
	sqlite3_busy_timeout(backup->own, 1000);
	sqlite3_db_config(backup->own, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	return sqlite_run(backup->own,
			  "PRAGMA wal_autocheckpoint=0;PRAGMA query_only=1;BEGIN;SELECT count(*) FROM sqlite_schema",
			  error);
}

// A journal would want to lie beside the copy, in a directory that may not be ours; half a copy is of no use anyway.
static int target_open(struct sqlite_backup *backup, const char *path, struct store_error *error)
{
	if (sqlite3_open_v2(path, &backup->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return sqlite_fail(backup->to, error, path);
	sqlite3_extended_result_codes(backup->to, 1);
	return sqlite_run(backup->to, "PRAGMA journal_mode=OFF", error);
}

static int copy_begin(struct sqlite_backup *backup, struct sqlite_store *store, const char *path,
		      struct store_error *error)
{
	int status = store->db ? 0 : source_open(backup, store->path, error);

	if (status == 0)
		status = target_open(backup, path, error);
	if (status < 0)
		return status;
	backup->copy = sqlite3_backup_init(backup->to, "main", store->db ? store->db : backup->own, "main");
	return backup->copy ? 0 : sqlite_fail(backup->to, error, path);
}

// An empty file may be there: root makes one that the lake's user may fill.
static int file_make(const char *path, struct store_error *error)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	int result = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (size > 0)
		return store_fail(error, -EEXIST, "%.200s is there already", path);
	return result < 0 ? store_fail(error, result, "%.200s: %s", path, strerror(-result)) : 0;
}

int sqlite_backup_begin(struct store *base, const char *path, struct store_backup **ret_backup,
			struct store_error *error)
{
	struct sqlite_backup *backup;
	int status = file_make(path, error);

	if (status < 0)
		return status;
	backup = calloc(1, sizeof(*backup));
	if (!backup)
		return store_fail(error, -ENOMEM, "out of memory");
	backup->backup.backend = &store_sqlite;
	status = copy_begin(backup, sqlite_store_of(base), path, error);
	if (status < 0) {
		sqlite_backup_end(&backup->backup);
		return status;
	}
	*ret_backup = &backup->backup;
	return 0;
}

int sqlite_backup_step(struct store_backup *base, struct store_error *error)
{
	struct sqlite_backup *backup = (struct sqlite_backup *)base;
	int result = sqlite3_backup_step(backup->copy, PAGES_AT_ONCE);

	if (result == SQLITE_OK || result == SQLITE_BUSY || result == SQLITE_LOCKED)
		return 1;
	if (result == SQLITE_DONE)
		return 0;
	return sqlite_fail(backup->to, error, "backup");
}

void sqlite_backup_end(struct store_backup *base)
{
	struct sqlite_backup *backup = (struct sqlite_backup *)base;

	if (backup->copy)
		sqlite3_backup_finish(backup->copy);
	sqlite3_close(backup->to);
	sqlite3_close(backup->own);
	free(backup);
}
