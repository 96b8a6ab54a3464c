// SPDX-License-Identifier: Apache-2.0
// API, questions in SQL. The store runs them read-only, for one workspace; here are the limits and the answer's form.

#include <errno.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "lake/api.h"

enum {
	SQL_ROWS_DEFAULT = 10000,
	SQL_ROWS_MAX = 1000000,
	SQL_TIME_DEFAULT_MS = 10000,
	SQL_TIME_MAX_MS = 60000,
	SQL_MEMORY_BYTES = 64 << 20,
	SQL_RESULT_BYTES_MAX = 256 << 20,
};

struct sql {
	struct api *api;
	enum query_format format;
	uint64_t rows_max, rows, bytes;
	uint64_t time_ms;
	const char *text;
	const char **names; // of the columns, for NDJSON
	size_t name_count;
	bool more, too_large;
};

static void sql_document_free(yyjson_doc **document)
{
	yyjson_doc_free(*document);
}

// --- what is asked -----------------------------------------------------------------------------------------------

static int sql_number(struct sql *sql, yyjson_val *value, const char *name, uint64_t max,
		      uint64_t *ret_value)
{
	if (!value)
		return 0;
	if (!yyjson_is_uint(value) || yyjson_get_uint(value) == 0 || yyjson_get_uint(value) > max)
		return query_fail(&sql->api->error, "bad_value", name,
				  "%s takes a number from 1 to %llu", name,
				  (unsigned long long)max);
	*ret_value = yyjson_get_uint(value);
	return 0;
}

// {"sql": "SELECT ...", "limit": rows, "time_ms": milliseconds}
static int sql_parse(struct sql *sql, yyjson_val *root)
{
	yyjson_val *text = yyjson_obj_get(root, "sql"), *key;
	yyjson_obj_iter each = yyjson_obj_iter_with(root);
	int error;

	if (!yyjson_is_str(text) || strlen(yyjson_get_str(text)) != yyjson_get_len(text))
		return query_fail(&sql->api->error, "bad_body", "sql",
				  "the body is JSON: {\"sql\": \"SELECT ...\"}");
	while ((key = yyjson_obj_iter_next(&each))) {
		const char *name = yyjson_get_str(key);

		if (strcmp(name, "sql") != 0 && strcmp(name, "limit") != 0 &&
		    strcmp(name, "time_ms") != 0)
			return query_fail(&sql->api->error, "unknown_member", name,
					  "no member %.60s; there are sql, limit and time_ms",
					  name);
	}
	sql->text = yyjson_get_str(text);
	error = sql_number(sql, yyjson_obj_get(root, "limit"), "limit", SQL_ROWS_MAX,
			   &sql->rows_max);
	return error < 0 ? error
			 : sql_number(sql, yyjson_obj_get(root, "time_ms"), "time_ms",
				      SQL_TIME_MAX_MS, &sql->time_ms);
}

// --- what is answered --------------------------------------------------------------------------------------------

static int sql_columns(void *data, const char *const *names, size_t count)
{
	struct sql *sql = data;
	struct arena *arena = sql->api->request->parameters->arena;
	struct json json = json_to(&sql->api->out);

	sql->names = arena_alloc(arena, (count ? count : 1) * sizeof(*sql->names));
	if (!sql->names)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		sql->names[i] = arena_strndup(arena, names[i], strlen(names[i]));
		if (!sql->names[i])
			return -ENOMEM;
	}
	sql->name_count = count;
	if (sql->format == QUERY_CSV) {
		for (size_t i = 0; i < count; i++) {
			if (i)
				buf_append_char(json.out, ',');
			query_write_csv(json.out, names[i], strlen(names[i]));
		}
		buf_append_string(json.out, "\r\n");
	} else if (sql->format == QUERY_JSON) {
		buf_append_string(json.out, "{\"columns\":");
		json_open_array(&json);
		for (size_t i = 0; i < count; i++)
			json_string(&json, names[i]);
		json_close_array(&json);
		buf_append_string(json.out, ",\"rows\":[");
	}
	return buf_error(json.out);
}

static void sql_value(struct json *json, const struct store_value *value)
{
	switch (value->type) {
	case STORE_VALUE_NULL:
		json_null(json);
		break;
	case STORE_VALUE_I64:
		json_i64(json, value->i64);
		break;
	case STORE_VALUE_U64:
		json_u64(json, value->u64);
		break;
	case STORE_VALUE_F64:
		json_double(json, value->f64);
		break;
	case STORE_VALUE_TEXT:
		json_string_n(json, value->text, value->length);
		break;
	}
}

// A name that a client chose may need escaping: json_key() takes plain names only.
static void sql_name(struct json *json, const char *name)
{
	json_string(json, name);
	buf_append_char(json->out, ':');
	json->comma = false;
}

static int sql_row(void *data, const struct store_value *values, size_t count)
{
	struct sql *sql = data;
	struct buf *out = &sql->api->out;
	struct json json = json_to(out);
	size_t before = out->length;

	if (sql->rows == sql->rows_max) {
		sql->more = true;
		return 1;
	}
	if (sql->format == QUERY_JSON && sql->rows)
		buf_append_char(out, ',');
	if (sql->format != QUERY_CSV)
		buf_append_char(out, sql->format == QUERY_JSON ? '[' : '{');
	for (size_t i = 0; i < count; i++) {
		if (sql->format == QUERY_CSV && i)
			buf_append_char(out, ',');
		if (sql->format == QUERY_CSV && values[i].type == STORE_VALUE_TEXT) {
			query_write_csv(out, values[i].text, values[i].length);
			continue;
		}
		if (sql->format == QUERY_CSV)
			json = json_to(out);
		if (sql->format == QUERY_CSV && values[i].type == STORE_VALUE_NULL)
			continue;
		if (sql->format == QUERY_NDJSON)
			sql_name(&json, i < sql->name_count ? sql->names[i] : "");
		sql_value(&json, &values[i]);
	}
	buf_append_string(out, sql->format == QUERY_JSON  ? "]"
			       : sql->format == QUERY_CSV ? "\r\n"
							  : "}\n");
	sql->rows++;
	sql->bytes += out->length - before;
	if (sql->bytes > SQL_RESULT_BYTES_MAX) {
		sql->too_large = true;
		return 1;
	}
	return api_flush(sql->api);
}

static void sql_problem(struct sql *sql, int error)
{
	struct api *api = sql->api;
	const char *text = *api->store_error.text ? api->store_error.text : strerror(-error);

	if (sql->too_large)
		api_problem(api, 422, "size_limit", "the answer is larger than %d MiB",
			    SQL_RESULT_BYTES_MAX >> 20);
	else if (error == -EINVAL)
		api_problem(api, 400, "bad_sql", "%s", text);
	else if (error == -EACCES)
		api_problem(api, 403, "not_allowed", "%s", text);
	else if (error == -ETIME)
		api_problem(api, 422, "time_limit", "%s", text);
	else if (error == -ENOMEM || error == -E2BIG)
		api_problem(api, 422, "memory_limit", "%s", text);
	else
		api_problem_store(api, error);
}

static void sql_finish(struct sql *sql)
{
	struct json json = {.out = &sql->api->out, .comma = true};

	// Only the JSON form can say that there was more; the others are refused or cut, never silently short.
	if (sql->more && sql->format != QUERY_JSON) {
		api_problem(sql->api, 422, "row_limit",
			    "there are more than %llu rows: raise limit, or LIMIT the question",
			    (unsigned long long)sql->rows_max);
		return;
	}
	if (sql->format == QUERY_JSON) {
		buf_append_char(json.out, ']');
		json_put_u64(&json, "row_count", sql->rows);
		json_put_bool(&json, "truncated", sql->more);
		json_close_object(&json);
		json_end_line(&json);
	}
	api_finish(sql->api);
}

void api_sql(struct api *api)
{
	struct sql sql = {.api = api, .rows_max = SQL_ROWS_DEFAULT, .time_ms = SQL_TIME_DEFAULT_MS};
	CLEANUP(sql_document_free) yyjson_doc *document = NULL;
	struct store_sql_limits limits;
	int error;

	if (strcmp(api->request->method, "POST") != 0) {
		api_problem(api, 405, "method_not_allowed", "this path takes POST");
		return;
	}
	if (!api_format(api, &sql.format))
		return;
	error = query_reject_unused(api->request->parameters, NULL, &api->error);
	document = yyjson_read(api->request->body, api->request->body_length, 0);
	if (error == 0)
		error = sql_parse(&sql, yyjson_doc_get_root(document));
	if (error < 0) {
		api_problem_query(api, error);
		return;
	}
	limits =
		(struct store_sql_limits){.time_ms = sql.time_ms, .memory_bytes = SQL_MEMORY_BYTES};
	error = store_sql(api->reader, api->request->workspace, sql.text, &limits, sql_columns,
			  sql_row, &sql, &api->store_error);
	if (error != 0 && !(error > 0 && sql.more))
		sql_problem(&sql, error);
	else
		sql_finish(&sql);
}
