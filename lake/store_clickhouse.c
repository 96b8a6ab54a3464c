// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: opening, closing and what this backend is. The writer and each reader have a connection of their
// own; nothing is shared between them but what ClickHouse holds. Backups are ClickHouse's own work.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/stream_private.h"
#include "lake/store_clickhouse.h"

static void clickhouse_close(struct store *base)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;

	if (!store)
		return;
	clickhouse_thread_free(store->thread);
	clickhouse_http_free(store->http);
	clickhouse_cursors_forget(store);
	buf_free(&store->ca);
	explicit_bzero(store->url.password, sizeof(store->url.password));
	free(store);
}

// While the process still may: libcurl looks for no certificates by itself.
static int ca_read(struct clickhouse_store *store, struct store_error *error)
{
	char path[sizeof(store->url.ca_file)] = "";
	const char *name = "";
	int err;

	if (strncmp(store->url.base, "https:", 6) != 0)
		return 0;
	if (*store->url.ca_file)
		snprintf(path, sizeof(path), "%s", store->url.ca_file);
	else
		stream_ca_find(path);
	err = stream_ca_read(path, &store->ca, &name);
	store->url.ca = &store->ca;
	return err < 0 ? store_fail(error, err, "ca_file %s: %s", name, strerror(-err)) : 0;
}

static int clickhouse_open(const char *rest, const struct store_options *options, struct store **ret_store,
			   struct store_error *error)
{
	struct clickhouse_store *store = calloc(1, sizeof(*store));
	int err;

	if (!store)
		return store_fail(error, -ENOMEM, "out of memory");
	store->store.backend = &store_clickhouse;
	store->options = *options;
	err = clickhouse_url_parse(rest, &store->url, error);
	if (!err)
		err = ca_read(store, error);
	if (!err && clickhouse_http_new(&store->url, &store->http) < 0)
		err = store_fail(error, -ENOMEM, "out of memory");
	if (!err)
		err = clickhouse_schema_open(store, error);
	if (err < 0) {
		clickhouse_close(&store->store);
		return err;
	}
	*ret_store = &store->store;
	return 0;
}

static int clickhouse_reader_open(struct store *base, struct store_reader **ret_reader, struct store_error *error)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	struct clickhouse_reader *reader = calloc(1, sizeof(*reader));

	if (!reader || clickhouse_http_new(&store->url, &reader->http) < 0) {
		free(reader);
		return store_fail(error, -ENOMEM, "out of memory");
	}
	reader->reader.backend = &store_clickhouse;
	reader->url = store->url;
	*ret_reader = &reader->reader;
	return 0;
}

static void clickhouse_reader_close(struct store_reader *base)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;

	if (!reader)
		return;
	clickhouse_http_free(reader->http);
	explicit_bzero(reader->url.password, sizeof(reader->url.password));
	free(reader);
}

static int clickhouse_backup_begin(struct store *store, const char *path, struct store_backup **ret_backup,
				   struct store_error *error)
{
	return store_fail(error, -EOPNOTSUPP,
			  "ClickHouse makes its own backups: BACKUP DATABASE ... TO ..., see docs/datalake.md");
}

static int clickhouse_backup_step(struct store_backup *backup, struct store_error *error)
{
	return store_fail(error, -EOPNOTSUPP, "ClickHouse makes its own backups");
}

static void clickhouse_backup_end(struct store_backup *backup)
{
}

const struct store_backend store_clickhouse = {
	.scheme = "clickhouse",
	.gather_ns = 250000000, // each insert makes a part of each table, and ClickHouse wants few and large ones
	.open = clickhouse_open,
	.close = clickhouse_close,
	.write = clickhouse_write,
	.put = clickhouse_put,
	.maintain = clickhouse_maintain,
	.backup_begin = clickhouse_backup_begin,
	.backup_step = clickhouse_backup_step,
	.backup_end = clickhouse_backup_end,
	.reader_open = clickhouse_reader_open,
	.reader_close = clickhouse_reader_close,
	.select = clickhouse_select,
	.count = clickhouse_count,
	.tail = clickhouse_tail,
	.series = clickhouse_series,
	.sql = clickhouse_sql,
	.cursor_get = clickhouse_cursor_get,
	.each_cursor = clickhouse_each_cursor,
	.each_point = clickhouse_each_point,
	.each_rollup = clickhouse_each_rollup,
	.check = clickhouse_check,
	.status = clickhouse_status,
};
