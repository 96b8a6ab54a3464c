// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: makes the tables when they are not there and checks whose they are. Several instances may do so at
// once: every statement is repeatable, and which schema the tables have is an entry of the chain.
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

static int run_all(struct clickhouse_store *store, const struct buf *statements, struct store_error *error)
{
	char create[256];
	struct clickhouse_request request = {.query = create, .no_database = true};
	int err;

	snprintf(create, sizeof(create), "CREATE DATABASE IF NOT EXISTS `%s`%s%s%s", store->url.database,
		 *store->url.cluster ? " ON CLUSTER `" : "", store->url.cluster, *store->url.cluster ? "`" : "");
	err = clickhouse_http_run(store->http, &request, error);
	for (const char *at = statements->data; !err && *at; at += strlen(at) + 1) {
		request.query = at;
		err = clickhouse_http_run(store->http, &request, error);
	}
	return err;
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
		err = clickhouse_fail(error, -EIO, "ClickHouse: an answer that is no number");
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
	return clickhouse_fail(error, -EAGAIN, "other instances keep changing the tables");
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
		return clickhouse_fail(error, -ENOENT, "there is no datalake in database %s", store->url.database);
	if (clickhouse_schema_statements(&store->url, &store->options.retention, &statements) < 0)
		return clickhouse_fail(error, -ENOMEM, "out of memory");
	if (there && (err = schema_entry(store, &version, &print, error)) < 0)
		return err;
	if (version > CLICKHOUSE_SCHEMA_VERSION)
		return clickhouse_fail(error, -EPROTO,
				       "database %s is of a newer Tracer (schema %" PRIu64 ", this one knows %d)",
				       store->url.database, version, CLICKHOUSE_SCHEMA_VERSION);
	if (store->options.read_only || (version && print == fingerprint(&statements)))
		return 0;
	err = run_all(store, &statements, error);
	return err ? err : schema_publish(store, fingerprint(&statements), error);
}
