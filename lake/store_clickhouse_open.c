// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: makes the tables when they are not there, brings older ones to this version and to what is to be
// kept for how long, and checks whose they are. Several instances may do so at once, and each may be killed anywhere in
// it: every statement is repeatable, and the entry of the chain that says which schema the tables have comes last.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

static int is_there(struct clickhouse_store *store, bool *ret_there, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {
		.query = "SELECT count() FROM system.tables WHERE database = {database:String} AND name = 'chain'",
		.no_database = true,
	};
	int err;

	clickhouse_parameter(&request, "database", store->url.database);
	err = clickhouse_http_text(store->http, &request, &text, error);
	if (!err)
		*ret_there = !strcmp(text.data, "1");
	return err;
}

static int run_all(struct clickhouse_store *store, const char *statements, struct store_error *error)
{
	struct clickhouse_request request = {.no_database = true, .timeout_ms = 600000};
	int err = 0;

	for (const char *at = statements; !err && *at; at += strlen(at) + 1) {
		request.query = at;
		err = clickhouse_http_run(store->http, &request, error);
	}
	return err;
}

static int make_database(struct clickhouse_store *store, struct store_error *error)
{
	char create[256];
	struct clickhouse_request request = {.query = create, .no_database = true};

	snprintf(create, sizeof(create), "CREATE DATABASE IF NOT EXISTS `%s`%s%s%s", store->url.database,
		 *store->url.cluster ? " ON CLUSTER `" : "", store->url.cluster, *store->url.cluster ? "`" : "");
	return clickhouse_http_run(store->http, &request, error);
}

// What the tables are now: a line "TABLE tab COLUMN" for each column, "TABLE tab TTL ..." for each TTL.
static int read_there(struct clickhouse_store *store, struct buf *ret_there, struct store_error *error)
{
	struct clickhouse_request request = {
		.query = "SELECT table || '\\t' || name FROM system.columns WHERE database = {database:String} UNION "
			 "ALL "
			 "SELECT name || '\\tTTL ' || trimRight(extract(engine_full, ' TTL (.*) SETTINGS ')) FROM "
			 "system.tables WHERE database = {database:String} AND position(engine_full, ' TTL ') > 0 "
			 "FORMAT TSVRaw",
		.no_database = true,
	};

	clickhouse_parameter(&request, "database", store->url.database);
	return clickhouse_http_text(store->http, &request, ret_there, error);
}

static int bring_up(struct clickhouse_store *store, const struct buf *statements, struct store_error *error)
{
	CLEANUP(buf_free) struct buf there = BUF_INIT, alters = BUF_INIT, views = BUF_INIT;
	int err = make_database(store, error);

	if (!err)
		err = run_all(store, statements->data, error);
	if (!err)
		err = read_there(store, &there, error);
	if (err < 0)
		return err;
	if (clickhouse_schema_alters(&store->url, &store->options.retention, there.data, &alters) < 0 ||
	    clickhouse_schema_views(&store->url, &views) < 0 || (buf_append(&views, "", 1), buf_error(&views)) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	err = run_all(store, alters.data, error);
	return err ? err : run_all(store, views.data, error);
}

static uint64_t fingerprint(const struct buf *statements)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < statements->length; i++)
		hash = (hash ^ (unsigned char)statements->data[i]) * UINT64_C(0x100000001b3);
	return hash >> 1;
}

// What the latest entry about the schema says. Version 0: there is none.
static int schema_entry(struct clickhouse_store *store, uint64_t *ret_version, uint64_t *ret_print,
			struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {
		.query = "SELECT max(batch), argMax(upto, n) FROM chain WHERE kind = 'schema'",
	};
	int err = clickhouse_http_text(store->http, &request, &text, error);

	if (!err && sscanf(text.data, "%" SCNu64 "\t%" SCNu64, ret_version, ret_print) != 2)
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	return err;
}

// Publishes which schema the tables have; another instance may do the same meanwhile.
static int schema_publish(struct clickhouse_store *store, uint64_t print, struct store_error *error)
{
	uint64_t version = 0, there = 0;
	int err = 0;

	for (int i = 0; i < 20; i++) {
		err = clickhouse_chain_head(store, error);
		if (!err)
			err = clickhouse_chain_publish(store, "schema", CLICKHOUSE_SCHEMA_VERSION, print, error);
		if (err < 0)
			return err;
		err = schema_entry(store, &version, &there, error);
		if (err < 0 || (version >= CLICKHOUSE_SCHEMA_VERSION && there == print))
			return err;
	}
	return store_fail(error, -EAGAIN, "other instances keep changing the tables");
}

int clickhouse_schema_open(struct clickhouse_store *store, struct store_error *error)
{
	CLEANUP(buf_free) struct buf statements = BUF_INIT;
	uint64_t version = 0, print = 0;
	bool there = false;
	int err = is_there(store, &there, error);

	if (err < 0)
		return err;
	if (!there && (store->options.read_only || !store->options.create))
		return store_fail(error, -ENOENT, "there is no datalake in database %s", store->url.database);
	if (clickhouse_schema_tables(&store->url, &store->options.retention, &statements) < 0 ||
	    (buf_append(&statements, "", 1), buf_error(&statements)) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	if (there && (err = schema_entry(store, &version, &print, error)) < 0)
		return err;
	if (version > CLICKHOUSE_SCHEMA_VERSION)
		return store_fail(error, -EPROTO,
				  "database %s is of a newer Tracer (schema %" PRIu64 ", this one knows %d)",
				  store->url.database, version, CLICKHOUSE_SCHEMA_VERSION);
	if (store->options.read_only || (version == CLICKHOUSE_SCHEMA_VERSION && print == fingerprint(&statements)))
		return 0;
	err = bring_up(store, &statements, error);
	return err ? err : schema_publish(store, fingerprint(&statements), error);
}
