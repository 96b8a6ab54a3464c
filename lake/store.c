// SPDX-License-Identifier: Apache-2.0
// Lake, the store: finds the backend that a URL names and hands every call on to it. Holds no state.

#include "lake/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lake/store_private.h"

static const struct store_backend *const backends[] = { &store_sqlite, &store_clickhouse };

int store_fail(struct store_error *error, int code, const char *format, ...)
{
	va_list arguments;

	if (!error)
		return code;
	error->code = code;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	return code;
}

int store_open(const char *url, const struct store_options *options, struct store **ret_store,
	       struct store_error *error)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
		size_t length = strlen(backends[i]->scheme);

		if (!strncmp(url, backends[i]->scheme, length) && url[length] == ':')
			return backends[i]->open(url + length + 1, options, ret_store, error);
	}
	return store_fail(error, -EINVAL, "a store is sqlite:DIRECTORY or clickhouse://USER@HOST:PORT/DATABASE");
}

void store_url_shown(const char *url, char *out, size_t size)
{
	const char *user = strstr(url, "://"), *at = user ? strchr(user, '@') : NULL;
	const char *colon = at ? strchr(user + 3, ':') : NULL;

	if (colon && colon < at)
		snprintf(out, size, "%.*s%s", (int)(colon - url), url, strrchr(url, '@'));
	else
		snprintf(out, size, "%s", url);
}

void store_close(struct store *store)
{
	if (store)
		store->backend->close(store);
}

int store_write(struct store *store, struct lake_batch *const *batches, size_t count, struct store_result *ret_results,
		struct store_error *error)
{
	return store->backend->write(store, batches, count, ret_results, error);
}

int store_put(struct store *store, enum schema_entity_id entity, struct lake_row *const *rows, size_t count,
	      struct store_error *error)
{
	return store->backend->put(store, entity, rows, count, error);
}

int store_maintain(struct store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep, struct store_error *error)
{
	return store->backend->maintain(store, now_ns, ret_upkeep, error);
}

int store_backup_begin(struct store *store, const char *path, struct store_backup **ret_backup,
		       struct store_error *error)
{
	return store->backend->backup_begin(store, path, ret_backup, error);
}

int store_backup_step(struct store_backup *backup, struct store_error *error)
{
	return backup->backend->backup_step(backup, error);
}

void store_backup_end(struct store_backup *backup)
{
	if (backup)
		backup->backend->backup_end(backup);
}

int store_reader_open(struct store *store, struct store_reader **ret_reader, struct store_error *error)
{
	return store->backend->reader_open(store, ret_reader, error);
}

void store_reader_close(struct store_reader *reader)
{
	if (reader)
		reader->backend->reader_close(reader);
}

int store_select(struct store_reader *reader, const struct store_query *query, store_row_fn row, void *data,
		 char ret_cursor[STORE_CURSOR_SIZE], struct store_error *error)
{
	return reader->backend->select(reader, query, row, data, ret_cursor, error);
}

int store_count(struct store_reader *reader, const struct store_query *query, uint64_t *ret_count,
		struct store_error *error)
{
	return reader->backend->count(reader, query, ret_count, error);
}

int store_tail(struct store_reader *reader, const char *workspace, enum schema_entity_id entity, uint64_t mark,
	       uint64_t limit, store_row_fn row, void *data, uint64_t *ret_mark, struct store_error *error)
{
	return reader->backend->tail(reader, workspace, entity, mark, limit, row, data, ret_mark, error);
}

int store_series(struct store_reader *reader, const struct store_series_query *query, store_step_fn step, void *data,
		 struct store_error *error)
{
	return reader->backend->series(reader, query, step, data, error);
}

int store_sql(struct store_reader *reader, const char *workspace, const char *sql,
	      const struct store_sql_limits *limits, store_sql_columns_fn columns, store_sql_row_fn row, void *data,
	      struct store_error *error)
{
	return reader->backend->sql(reader, workspace, sql, limits, columns, row, data, error);
}

int store_cursor_get(struct store_reader *reader, const char *workspace, const char *host_id, uint64_t epoch,
		     struct store_cursor *ret_cursor, struct store_error *error)
{
	return reader->backend->cursor_get(reader, workspace, host_id, epoch, ret_cursor, error);
}

int store_each_cursor(struct store_reader *reader, store_cursor_fn fn, void *data, struct store_error *error)
{
	return reader->backend->each_cursor(reader, fn, data, error);
}

int store_each_point(struct store_reader *reader, store_point_fn fn, void *data, struct store_error *error)
{
	return reader->backend->each_point(reader, fn, data, error);
}

int store_each_rollup(struct store_reader *reader, store_rollup_fn fn, void *data, struct store_error *error)
{
	return reader->backend->each_rollup(reader, fn, data, error);
}

int store_check(struct store_reader *reader, store_problem_fn problem, void *data, struct store_error *error)
{
	return reader->backend->check(reader, problem, data, error);
}

int store_status(struct store_reader *reader, struct store_status *ret_status, struct store_error *error)
{
	return reader->backend->status(reader, ret_status, error);
}
