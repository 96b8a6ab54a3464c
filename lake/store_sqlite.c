// SPDX-License-Identifier: Apache-2.0
// Lake, the SQLite backend: opening and closing, and the table of its functions. lake/store_sqlite.h tells the shape.
// The writer's connection holds the lock of DIR/lock, so that no second writer begins; readers need none.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/sql_sqlite.h"
#include "lake/store_sqlite.h"

enum { CACHE_BYTES = 32 * 1024 * 1024, PAGE_BYTES = 8192 };

static int writer_settings(struct sqlite_store *store, struct store_error *error)
{
	uint64_t cache = store->options.cache_bytes ? store->options.cache_bytes : CACHE_BYTES;
	int status = sqlite_runf(store->db, error,
				 "PRAGMA page_size=%d;PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;"
				 "PRAGMA wal_autocheckpoint=0;PRAGMA temp_store=MEMORY;PRAGMA cache_size=-%llu;"
				 "PRAGMA auto_vacuum=INCREMENTAL",
				 PAGE_BYTES, (unsigned long long)(cache / 1024));

	sqlite3_busy_timeout(store->db, 1000);
	return status;
}

static int writer_statements(struct sqlite_store *store, struct store_error *error)
{
	const struct {
		sqlite3_stmt **statement;
		const char *sql;
	} all[] = {
		{&store->begin, "BEGIN IMMEDIATE"},
		{&store->commit, "COMMIT"},
		{&store->rollback, "ROLLBACK"},
		{&store->cursor_get, "SELECT acked FROM cursors WHERE host=? AND epoch=?"},
		{&store->cursor_set, "INSERT OR REPLACE INTO cursors VALUES(?,?,?)"},
		{&store->partition_set,
		 "UPDATE partitions SET rows=?2,next_id=?3,start_min_ns=?4,end_max_ns=?5 WHERE no=?1"},
		{&store->living_get, "SELECT * FROM living WHERE key=?"},
		{&store->living_delete, "DELETE FROM living WHERE key=?"},
		{&store->point_insert, "INSERT OR REPLACE INTO points VALUES(?,?,?)"},
		{&store->point_get, "SELECT data FROM points WHERE series_id=? AND time_ns=?"},
		{&store->rollup_delete, "DELETE FROM rollups WHERE level=? AND series_id=? AND span=?"},
		{&store->stale_insert, "INSERT OR IGNORE INTO stale VALUES(0,?,?)"},
		{&store->series_insert,
		 "INSERT INTO series VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?8,?9) ON CONFLICT(id) DO UPDATE SET"
		 " attributes=ifnull(?7,attributes),first_ns=min(first_ns,?8),last_ns=max(last_ns,?8),revision=?9"},
	};
	const struct {
		sqlite3_stmt **statement;
		const char *table;
		unsigned columns;
	} inserts[] = {
		{&store->living_insert, "living", PROCESSES_END + 2},
		{&store->gap_insert, "gaps", GAPS_END + 1},
		{&store->event_insert, "events", EVENTS_END + 1},
		{&store->key_insert, "keys", KEYS_END + 1},
	};
	int status = 0;

	for (size_t i = 0; status == 0 && i < sizeof(all) / sizeof(all[0]); i++)
		status = sqlite_prepare(store->db, all[i].sql, true, all[i].statement, error);
	for (size_t i = 0; status == 0 && i < sizeof(inserts) / sizeof(inserts[0]); i++) {
		CLEANUP(buf_free) struct buf sql = BUF_INIT;

		buf_printf(&sql, "INSERT OR REPLACE INTO %s VALUES(?", inserts[i].table);
		for (unsigned c = 1; c < inserts[i].columns; c++)
			buf_append_string(&sql, ",?");
		buf_append_char(&sql, ')');
		status = buf_error(&sql) < 0 ? -ENOMEM
					     : sqlite_prepare(store->db, sql.data, true, inserts[i].statement, error);
	}
	return status;
}

static void writer_statements_close(struct sqlite_store *store)
{
	sqlite3_stmt *all[] = {store->begin,	     store->commit,	   store->rollback,	 store->cursor_get,
			       store->cursor_set,    store->partition_set, store->living_get,	 store->living_delete,
			       store->living_insert, store->gap_insert,	   store->event_insert,	 store->key_insert,
			       store->point_insert,  store->point_get,	   store->series_insert, store->stale_insert,
			       store->rollup_delete};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sqlite3_finalize(all[i]);
	process_statements_close(store);
}

static int writer_open(struct sqlite_store *store, struct store_error *error)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI |
		    (store->options.create ? SQLITE_OPEN_CREATE : 0);
	int status;

	if (sqlite3_open_v2(store->path, &store->db, flags, sqlite_log_vfs()) != SQLITE_OK)
		return sqlite_fail(store->db, error, store->path);
	sqlite3_extended_result_codes(store->db, 1);
	sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	status = writer_settings(store, error);
	if (status == 0)
		status = sqlite_tables(store->db, error);
	if (status == 0)
		status = dictionary_begin(&store->dictionary) < 0 ? store_fail(error, -ENOMEM, "out of memory") : 0;
	if (status == 0)
		status = writer_statements(store, error);
	if (status == 0)
		status = ended_begin(store, error);
	if (status == 0)
		status = sqlite_number(store->db, "SELECT value FROM meta WHERE name='revision'", &store->revision,
				       error);
	dictionary_forget(&store->dictionary);
	store->failed = true; // so that the first write loads what is on disk
	return status;
}

static int directory_lock(struct sqlite_store *store, const char *directory, struct store_error *error)
{
	CLEANUP(cleanup_free) char *path = NULL;

	if (store->options.create && mkdir(directory, 0750) < 0 && errno != EEXIST)
		return store_fail(error, -errno, "%.150s: %s", directory, strerror(errno));
	if (asprintf(&path, "%s/lock", directory) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	store->lock_fd = open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0640);
	if (store->lock_fd < 0)
		return store_fail(error, -errno, "%.150s: %s", path, strerror(errno));
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return store_fail(error, -EBUSY, "%.150s: another tracer datalake has this lake open", directory);
	return 0;
}

// SQLite would make it readable for everybody; log and index take their mode from it. What lies there from before is
// taken from others, and a group that was let in stays.
static int file_close_to_others(struct sqlite_store *store, struct store_error *error)
{
	CLEANUP(cleanup_close) int fd = -1;
	struct stat info;

	fd = open(store->path, O_RDWR | O_CLOEXEC | (store->options.create ? O_CREAT : 0), 0600);
	if (fd < 0 || fstat(fd, &info) < 0)
		return store_fail(error, -errno, "%.200s: %s", store->path, strerror(errno));
	if (info.st_mode & 07 && fchmod(fd, info.st_mode & 0770) < 0 && errno != EPERM)
		return store_fail(error, -errno, "%.200s: %s", store->path, strerror(errno));
	return 0;
}

static void sqlite_close(struct store *base)
{
	struct sqlite_store *store = sqlite_store_of(base);

	writer_statements_close(store);
	free(store->gathered);
	aggregates_free(&store->aggregates);
	dictionary_free(&store->dictionary);
	living_forget(store);
	free(store->series);
	amounts_free(&store->amounts);
	buf_free(&store->scratch);
	sqlite3_close(store->db);
	ended_free(store);
	if (store->lock_fd >= 0)
		close(store->lock_fd);
	free(store->path);
	free(store);
}

static int sqlite_open(const char *directory, const struct store_options *options, struct store **ret_store,
		       struct store_error *error)
{
	struct sqlite_store *store;
	const char *before;
	int status;

	sql_sqlite_setup(); // -EBUSY when something used SQLite before: then only its memory limits do not hold
	store = calloc(1, sizeof(*store));
	// A path that begins with "file:" would be read as a URI.
	before = strncmp(directory, "file:", 5) ? "" : "./";
	if (!store || asprintf(&store->path, "%s%s/lake.db", before, directory) < 0) {
		free(store);
		return store_fail(error, -ENOMEM, "out of memory");
	}
	store->store.backend = &store_sqlite;
	store->options = *options;
	store->lock_fd = -1;
	status = 0;
	if (options->read_only && access(store->path, R_OK) < 0)
		status = store_fail(error, -errno, "%.200s: %s", store->path, strerror(errno));
	if (!options->read_only)
		status = directory_lock(store, directory, error);
	if (status == 0 && !options->read_only)
		status = file_close_to_others(store, error);
	if (status == 0 && !options->read_only)
		status = writer_open(store, error);
	if (status < 0) {
		sqlite_close(&store->store);
		return status;
	}
	*ret_store = &store->store;
	return 0;
}

// --- readers ---------------------------------------------------------------------------

static int reader_late(void *data)
{
	struct sqlite_reader *reader = data;

	reader->timed_out = reader->deadline_ns && clock_boot_ns() > reader->deadline_ns;
	return reader->timed_out;
}

void reader_deadline(struct sqlite_reader *reader, uint64_t limit_ms)
{
	reader->timed_out = false;
	reader->deadline_ns = limit_ms ? clock_boot_ns() + limit_ms * 1000000 : 0;
}

static void sqlite_reader_close(struct store_reader *base)
{
	struct sqlite_reader *reader = sqlite_reader_of(base);

	sqlite3_close(reader->db);
	arena_free(&reader->arena);
	buf_free(&reader->scratch);
	top_free(reader->top);
	free(reader);
}

static int sqlite_reader_open(struct store *base, struct store_reader **ret_reader, struct store_error *error)
{
	struct sqlite_store *store = sqlite_store_of(base);
	struct sqlite_reader *reader = calloc(1, sizeof(*reader));
	int status;

	if (!reader)
		return store_fail(error, -ENOMEM, "out of memory");
	reader->reader.backend = &store_sqlite;
	reader->store = store;
	arena_init(&reader->arena, 65536);
	// Not SQLITE_OPEN_READONLY: a reader of a WAL file may have to make its shared-memory index.
	if (sqlite3_open_v2(store->path, &reader->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		status = sqlite_fail(reader->db, error, store->path);
	else
		status = 0;
	if (status == 0) {
		sqlite3_extended_result_codes(reader->db, 1);
		sqlite3_busy_timeout(reader->db, 1000);
		sqlite3_db_config(reader->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
		sqlite3_db_config(reader->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
		sqlite3_progress_handler(reader->db, 2000, reader_late, reader);
		status = sqlite_run(reader->db,
				    "PRAGMA wal_autocheckpoint=0;PRAGMA temp_store=MEMORY;PRAGMA cache_size=-16384;"
				    "PRAGMA mmap_size=4294967296;PRAGMA query_only=1",
				    error);
	}
	if (status < 0) {
		sqlite_reader_close(&reader->reader);
		return status;
	}
	*ret_reader = &reader->reader;
	return 0;
}

const struct store_backend store_sqlite = {
	.scheme = "sqlite",
	.open = sqlite_open,
	.close = sqlite_close,
	.write = sqlite_write,
	.put = sqlite_put,
	.maintain = sqlite_maintain,
	.backup_begin = sqlite_backup_begin,
	.backup_step = sqlite_backup_step,
	.backup_end = sqlite_backup_end,
	.reader_open = sqlite_reader_open,
	.reader_close = sqlite_reader_close,
	.select = sqlite_select,
	.count = sqlite_count,
	.tail = sqlite_tail,
	.series = sqlite_series,
	.sql = sqlite_sql,
	.cursor_get = sqlite_cursor_get,
	.each_cursor = sqlite_each_cursor,
	.each_point = sqlite_each_point,
	.each_rollup = sqlite_each_rollup,
	.check = sqlite_check,
	.status = sqlite_status,
};
