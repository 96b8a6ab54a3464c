// SPDX-License-Identifier: Apache-2.0
// ClickHouse over its HTTP interface: one connection, one question at a time. What a caller hands in as text goes out
// as a typed parameter ({name:Type} in the query), never as part of the query. The password is sent and shown nowhere.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "lake/store_private.h"

enum { CLICKHOUSE_NAME_MAX = 64 };

// Where and what, from clickhouse://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?OPTION&...]. Options:
//   tls=1|0             HTTPS; plain HTTP to another machine needs tls=0 in so many words
//   ca_file=FILE        certificates to trust instead of the system's
//   password_file=FILE  mode 0600, its first line
//   replicated=1        ReplicatedMergeTree instead of MergeTree
//   cluster=NAME        tables ON CLUSTER NAME
//   path=TEXT           of the tables in Keeper, with {uuid}, {shard} and the like; the server's default without it
//   fsync=0             do not wait for the disk (with replicated=1 the default)
struct clickhouse_url {
	char base[256]; // http://HOST:PORT/
	char user[CLICKHOUSE_NAME_MAX + 1];
	char password[256];
	char database[CLICKHOUSE_NAME_MAX + 1];
	char cluster[CLICKHOUSE_NAME_MAX + 1]; // empty: none
	char path[128]; // empty: the server's default
	char ca_file[256]; // empty: the system's
	const struct buf *ca; // its text, the store's: connections to come may open no file. NULL: plain HTTP
	bool replicated, fsync;
};

// rest: the URL behind "clickhouse:". -EINVAL, -EACCES (password file), -ENOENT: error says what.
int clickhouse_url_parse(const char *rest, struct clickhouse_url *ret_url, struct store_error *error);

struct clickhouse_pair {
	const char *name, *value;
};

enum { CLICKHOUSE_PAIRS_MAX = 128 };

struct clickhouse_request {
	const char *query;
	const void *data; // what an INSERT takes; NULL: none
	size_t data_length;
	struct clickhouse_pair parameters[CLICKHOUSE_PAIRS_MAX]; // names without "param_"; values as they are
	size_t parameter_count;
	struct clickhouse_pair settings[CLICKHOUSE_PAIRS_MAX];
	size_t setting_count;
	uint64_t timeout_ms; // of the client; 0: a minute
	bool no_database; // before it exists
	bool raw_parameters; // values are in ClickHouse's text form already (arrays)
	// Called with pieces of the answer; not 0 ends it and is returned. NULL: the answer is dropped.
	int (*body)(void *context, const char *bytes, size_t length);
	void *context;
};

void clickhouse_parameter(struct clickhouse_request *request, const char *name, const char *value);
void clickhouse_setting(struct clickhouse_request *request, const char *name, const char *value);

struct clickhouse_http;
int clickhouse_http_new(const struct clickhouse_url *url, struct clickhouse_http **ret_http);
void clickhouse_http_free(struct clickhouse_http *http); // takes NULL
// Once *stop is true, what is under way ends within about a second, and what begins at once, with -EAGAIN. stop
// outlives http.
void clickhouse_http_stop_by(struct clickhouse_http *http, const atomic_bool *stop);

// 0, what body returned, or -errno with a sentence. -EAGAIN: no answer, so whether it was done is unknown.
int clickhouse_http_run(struct clickhouse_http *http, const struct clickhouse_request *request,
			struct store_error *error);

// The whole answer into ret_text (reset first), without a newline at its end.
int clickhouse_http_text(struct clickhouse_http *http, struct clickhouse_request *request, struct buf *ret_text,
			 struct store_error *error);
