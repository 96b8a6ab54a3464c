// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: the writer's log goes to disk in large pieces. SQLite writes each page of a transaction with two calls,
// a header and the page; many hosts in one transaction are thousands of them. Here they gather and are written when
// something needs them: a sync, a read, another place of the file. SQLite lets nobody read a page of the log before it
// has synced it (synchronous=FULL), so who reads through another connection misses nothing. A write that fails is told
// by the call that made it happen; that fails the transaction as well.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_sqlite.h"

#define VFS_NAME "tracer-log"

enum { GATHER_BYTES = (128 << 10) - 1 }; // more the unix layer of SQLite does not take at once

struct log_file {
	sqlite3_file file;
	char *bytes;
	int length;
	sqlite3_int64 offset;
	sqlite3_file *real; // behind this
};

static sqlite3_vfs log_vfs, *real_vfs;

static struct log_file *log_of(sqlite3_file *file)
{
	return (struct log_file *)file;
}

static int flush(struct log_file *log)
{
	int length = log->length;

	log->length = 0;
	return length ? log->real->pMethods->xWrite(log->real, log->bytes, length, log->offset) : SQLITE_OK;
}

static int log_close(sqlite3_file *file)
{
	struct log_file *log = log_of(file);
	int status = flush(log), closed = log->real->pMethods->xClose(log->real);

	free(log->bytes);
	return status ? status : closed;
}

static int log_read(sqlite3_file *file, void *bytes, int length, sqlite3_int64 offset)
{
	struct log_file *log = log_of(file);
	int status = flush(log);

	return status ? status : log->real->pMethods->xRead(log->real, bytes, length, offset);
}

static int log_write(sqlite3_file *file, const void *bytes, int length, sqlite3_int64 offset)
{
	struct log_file *log = log_of(file);
	int status = SQLITE_OK;

	if (log->length && (offset != log->offset + log->length || length > GATHER_BYTES - log->length))
		status = flush(log);
	if (!status && !log->bytes)
		log->bytes = malloc(GATHER_BYTES);
	if (status || !log->bytes || length > GATHER_BYTES)
		return status ? status : log->real->pMethods->xWrite(log->real, bytes, length, offset);
	if (!log->length)
		log->offset = offset;
	memcpy(log->bytes + log->length, bytes, (size_t)length);
	log->length += length;
	return SQLITE_OK;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct log_file *log = log_of(file);
	int status = flush(log);

	return status ? status : log->real->pMethods->xTruncate(log->real, size);
}

static int log_sync(sqlite3_file *file, int flags)
{
	struct log_file *log = log_of(file);
	int status = flush(log);

	return status ? status : log->real->pMethods->xSync(log->real, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
	struct log_file *log = log_of(file);
	int status = flush(log);

	return status ? status : log->real->pMethods->xFileSize(log->real, ret_size);
}

static int log_lock(sqlite3_file *file, int lock)
{
	return log_of(file)->real->pMethods->xLock(log_of(file)->real, lock);
}

static int log_unlock(sqlite3_file *file, int lock)
{
	return log_of(file)->real->pMethods->xUnlock(log_of(file)->real, lock);
}

static int log_reserved(sqlite3_file *file, int *ret_reserved)
{
	return log_of(file)->real->pMethods->xCheckReservedLock(log_of(file)->real, ret_reserved);
}

static int log_control(sqlite3_file *file, int what, void *argument)
{
	return log_of(file)->real->pMethods->xFileControl(log_of(file)->real, what, argument);
}

static int log_sector(sqlite3_file *file)
{
	return log_of(file)->real->pMethods->xSectorSize(log_of(file)->real);
}

static int log_device(sqlite3_file *file)
{
	return log_of(file)->real->pMethods->xDeviceCharacteristics(log_of(file)->real);
}

static const sqlite3_io_methods log_methods = {
	.iVersion = 1,
	.xClose = log_close,
	.xRead = log_read,
	.xWrite = log_write,
	.xTruncate = log_truncate,
	.xSync = log_sync,
	.xFileSize = log_size,
	.xLock = log_lock,
	.xUnlock = log_unlock,
	.xCheckReservedLock = log_reserved,
	.xFileControl = log_control,
	.xSectorSize = log_sector,
	.xDeviceCharacteristics = log_device,
};

// Any other file is the real system's, without a layer in between.
static int log_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	struct log_file *log = log_of(file);
	int status;

	(void)vfs;
	if (!(flags & SQLITE_OPEN_WAL))
		return real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);
	*log = (struct log_file){.real = (sqlite3_file *)(void *)(log + 1)};
	status = real_vfs->xOpen(real_vfs, name, log->real, flags, ret_flags);
	if (status == SQLITE_OK)
		log->file.pMethods = &log_methods;
	return status;
}

static void vfs_register(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	if (!real_vfs)
		return;
	log_vfs = *real_vfs;
	log_vfs.zName = VFS_NAME;
	log_vfs.szOsFile = (int)sizeof(struct log_file) + real_vfs->szOsFile;
	log_vfs.pNext = NULL;
	log_vfs.xOpen = log_open;
	sqlite3_vfs_register(&log_vfs, 0);
}

const char *sqlite_log_vfs(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, vfs_register);
	return real_vfs ? VFS_NAME : NULL;
}
