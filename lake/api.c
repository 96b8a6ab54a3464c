// SPDX-License-Identifier: Apache-2.0
// API, which answer belongs to which path, and the answers that are rows of one entity. Every question carries the
// caller's workspace; nothing here can widen it. Streams: an answer is never whole in memory unless it is one page.

#include "lake/api.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"

// --- the answer's way out ----------------------------------------------------------------------------------------

static int api_begin(struct api *api, int status, const char *content_type)
{
	if (!api->begun)
		api->broken = api->sink->begin(api->sink->data, status, content_type, api->next);
	api->begun = true;
	return api->broken;
}

static int api_send(struct api *api)
{
	if (buf_error(&api->out) < 0 && !api->broken) {
		api->broken = -ENOMEM;
		if (api->begun)
			api->sink->cut(api->sink->data);
	}
	if (api->broken || api_begin(api, 200, api->content_type) < 0)
		return api->broken;
	if (api->out.length)
		api->broken = api->sink->write(api->sink->data, api->out.data, api->out.length);
	buf_reset(&api->out);
	return api->broken;
}

int api_flush(struct api *api)
{
	return api->out.length < API_CHUNK && !api->out.failed ? api->broken : api_send(api);
}

void api_finish(struct api *api)
{
	api_send(api);
}

static const char *api_title(int status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 406:
		return "Not Acceptable";
	case 413:
		return "Content Too Large";
	case 422:
		return "Unprocessable Content";
	case 503:
		return "Service Unavailable";
	default:
		return "Internal Server Error";
	}
}

static void api_problem_send(struct api *api, int status)
{
	struct json json = json_to(&api->out);

	if (api->begun) {
		if (!api->broken)
			api->sink->cut(api->sink->data);
		api->broken = -EPIPE;
		return;
	}
	buf_reset(&api->out);
	json_open_object(&json);
	json_put_string(&json, "type", "about:blank");
	json_put_string(&json, "title", api_title(status));
	json_put_u64(&json, "status", (uint64_t)status);
	json_put_string(&json, "detail", api->error.text);
	json_put_string(&json, "code", api->error.code);
	if (*api->error.parameter)
		json_put_string(&json, "parameter", api->error.parameter);
	json_close_object(&json);
	json_end_line(&json);
	api->next = NULL;
	if (api_begin(api, status, "application/problem+json") == 0)
		api_send(api);
}

void api_problem(struct api *api, int status, const char *code, const char *format, ...)
{
	va_list list;

	api->error.code = code;
	va_start(list, format);
	vsnprintf(api->error.text, sizeof(api->error.text), format, list);
	va_end(list);
	api_problem_send(api, status);
}

void api_problem_query(struct api *api, int error)
{
	if (error == -EINVAL)
		api_problem_send(api, 400);
	else
		api_problem(api, 500, "internal", "%s", strerror(-error));
}

void api_problem_store(struct api *api, int error)
{
	const char *text = *api->store_error.text ? api->store_error.text : strerror(-error);

	if (api->broken)
		return;
	switch (error) {
	case -EINVAL:
		api_problem(api, 400, "bad_question", "%s", text);
		break;
	case -ETIME:
		api_problem(api, 422, "time_limit", "%s", text);
		break;
	case -EAGAIN:
		api_problem(api, 503, "store_busy", "%s", text);
		break;
	default:
		api_problem(api, 500, "store", "%s", text);
	}
}

// --- what every answer reads -------------------------------------------------------------------------------------

// The first type in Accept that we have; JSON when there is none.
static bool api_accept(const char *accept, enum query_format *ret_format)
{
	static const struct {
		const char *type;
		enum query_format format;
	} types[] = {
		{"application/json", QUERY_JSON},
		{"application/x-ndjson", QUERY_NDJSON},
		{"application/jsonl", QUERY_NDJSON},
		{"text/csv", QUERY_CSV},
		{"application/*", QUERY_JSON},
		{"*/*", QUERY_JSON},
		{"application/problem+json", QUERY_JSON},
	};

	for (; *accept; accept += strcspn(accept, ",") + (accept[strcspn(accept, ",")] == ',')) {
		size_t length;

		accept += strspn(accept, " \t");
		length = strcspn(accept, ",; \t");
		for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			if (strlen(types[i].type) == length &&
			    !strncasecmp(types[i].type, accept, length)) {
				*ret_format = types[i].format;
				return true;
			}
		}
	}
	return false;
}

bool api_format(struct api *api, enum query_format *ret_format)
{
	static const char *const names[] = {"json", "ndjson", "csv"};
	static const char *const types[] = {"application/json", "application/x-ndjson",
					    "text/csv; charset=utf-8"};
	bool twice = false;
	const char *format = query_parameter_take(api->request->parameters, "format", &twice);
	enum query_format found = QUERY_JSON;

	if (format) {
		while (found <= QUERY_CSV && strcmp(names[found], format) != 0)
			found++;
		if (twice || found > QUERY_CSV) {
			query_fail(&api->error, "bad_value", "format",
				   "format takes json, ndjson or csv, once");
			api_problem_query(api, -EINVAL);
			return false;
		}
	} else if (api->request->accept && *api->request->accept &&
		   !api_accept(api->request->accept, &found)) {
		api_problem(api, 406, "not_acceptable",
			    "application/json, application/x-ndjson and text/csv are there");
		return false;
	}
	api->content_type = types[found];
	*ret_format = found;
	return true;
}

bool api_id(const char *text, uint64_t *ret_id)
{
	return *text >= '0' && *text <= '9' && strlen(text) < 20 &&
	       strspn(text, "0123456789") == strlen(text) &&
	       query_number(text, QUERY_UNIT_NONE, 0, ret_id);
}

// --- rows --------------------------------------------------------------------------------------------------------

struct api_rows {
	struct api *api;
	struct query_writer writer;
	bool whole; // the page must be whole before it goes out: its header names the next one
};

static int api_rows_one(void *data, const union lake_slot *slot)
{
	struct api_rows *rows = data;

	query_write_row(&rows->writer, slot);
	if (!rows->whole)
		return api_flush(rows->api);
	if (rows->api->out.length <= API_PAGE_BYTES_MAX)
		return buf_error(&rows->api->out);
	return -EFBIG;
}

void api_list(struct api *api, enum schema_entity_id entity)
{
	const struct api_request *request = api->request;
	char next[STORE_CURSOR_SIZE] = "";
	struct query query;
	struct api_rows rows;
	enum query_format format;
	int error;

	if (!api_format(api, &format))
		return;
	error = query_parse(&query, entity, request->workspace, request->parameters,
			    request->now_ns, &api->error);
	if (error == 0)
		error = query_reject_unused(request->parameters, &schema_entities[entity],
					    &api->error);
	if (error < 0) {
		api_problem_query(api, error);
		return;
	}
	rows = (struct api_rows){api,
				 query_writer_to(&api->out, format, &schema_entities[entity],
						 query.columns, query.select.column_count),
				 format != QUERY_JSON};
	if (format == QUERY_JSON)
		buf_append_string(&api->out, "{\"items\":[");
	query_write_heading(&rows.writer);
	error = store_select(api->reader, &query.select, api_rows_one, &rows, next,
			     &api->store_error);
	if (error == -EFBIG) {
		api_problem(api, 413, "page_too_large",
			    "the page is larger than %d MiB: lower limit or name fields",
			    API_PAGE_BYTES_MAX >> 20);
		return;
	}
	if (error != 0) {
		api_problem_store(api, error);
		return;
	}
	if (format == QUERY_JSON) {
		struct json json = {.out = &api->out, .comma = true};

		buf_append_char(&api->out, ']');
		json_put_string(&json, "next", *next ? next : NULL);
		json_close_object(&json);
		json_end_line(&json);
	}
	api->next = *next ? next : NULL;
	api_finish(api);
	api->next = NULL;
}

struct api_row_copy {
	struct arena *arena;
	const struct schema_entity *entity;
	union lake_slot *slot;
	bool found;
};

static int api_row_copy(void *data, const union lake_slot *slot)
{
	struct api_row_copy *copy = data;

	for (unsigned i = 0; i < copy->entity->column_count; i++) {
		uint8_t type = copy->entity->columns[i].type;
		size_t size;
		void *text;

		copy->slot[i] = slot[i];
		if ((type != SCHEMA_TEXT && type != SCHEMA_JSON) || !slot[i].text)
			continue;
		size = sizeof(struct lake_text) + slot[i].text->length + 1;
		text = arena_alloc(copy->arena, size);
		if (!text)
			return -ENOMEM;
		memcpy(text, slot[i].text, size);
		copy->slot[i].text = text;
	}
	copy->found = true;
	return 0;
}

int api_row(struct api *api, enum schema_entity_id entity, uint64_t id, union lake_slot *ret_slot)
{
	const struct schema_entity *schema = &schema_entities[entity];
	const struct store_filter filter = {.column = (unsigned)schema_column_find(schema, "id"),
					    .op = STORE_EQ,
					    .value.u64 = id};
	const struct store_query query = {
		.entity = entity,
		.workspace = api->request->workspace,
		.filters = &filter,
		.filter_count = 1,
		.sort = -1,
		.limit = 1,
		.time_limit_ms = QUERY_TIME_LIMIT_MS,
	};
	struct api_row_copy copy = {api->request->parameters->arena, schema, ret_slot, false};
	char next[STORE_CURSOR_SIZE];
	int error = store_select(api->reader, &query, api_row_copy, &copy, next, &api->store_error);

	return error != 0 ? error : copy.found ? 0 : -ENOENT;
}

// What is one object comes as JSON; format may say so.
static int api_only_json(struct api *api)
{
	bool twice = false;
	const char *format = query_parameter_take(api->request->parameters, "format", &twice);

	if (twice || (format && strcmp(format, "json") != 0))
		return query_fail(&api->error, "bad_value", "format", "this is one JSON object");
	return query_reject_unused(api->request->parameters, NULL, &api->error);
}

void api_one(struct api *api, enum schema_entity_id entity, uint64_t id)
{
	union lake_slot slot[SCHEMA_COLUMNS_MAX];
	struct query_writer writer =
		query_writer_to(&api->out, QUERY_NDJSON, &schema_entities[entity], NULL, 0);
	int error = api_only_json(api);

	if (error < 0) {
		api_problem_query(api, error);
		return;
	}
	error = api_row(api, entity, id, slot);
	if (error == -ENOENT) {
		api_problem(api, 404, "not_found", "no such %s", schema_entities[entity].singular);
	} else if (error != 0) {
		api_problem_store(api, error);
	} else {
		query_write_row(&writer, slot);
		api_finish(api);
	}
}

// --- the schema itself -------------------------------------------------------------------------------------------

static void api_schema_columns(struct json *json, const struct schema_entity *entity)
{
	json_key(json, "columns");
	json_open_array(json);
	for (unsigned i = 0; i < entity->column_count; i++) {
		const struct schema_column *column = &entity->columns[i];

		json_open_object(json);
		json_put_string(json, "name", column->name);
		json_put_string(json, "type",
				query_column_is_id(column)
					? "id"
					: schema_type_name((enum schema_type)column->type));
		json_put_bool(json, "nullable", (column->flags & SCHEMA_N) != 0);
		json_put_bool(json, "filterable", (column->flags & SCHEMA_F) != 0);
		json_put_bool(json, "sortable", (column->flags & SCHEMA_S) != 0);
		json_put_string(json, "help", column->help);
		json_close_object(json);
	}
	json_close_array(json);
}

static void api_schema_series(struct json *json)
{
	json_key(json, "series");
	json_open_array(json);
	for (int kind = 0; kind < SERIES_KIND_END; kind++) {
		const struct series_schema *series = &series_schemas[kind];

		json_open_object(json);
		json_put_string(json, "kind", series->name);
		json_put_string(json, "owner", series->owner);
		json_key(json, "metrics");
		json_open_array(json);
		for (unsigned i = 0; i < series->metric_count; i++) {
			json_open_object(json);
			json_put_string(json, "name", series->metrics[i].name);
			json_put_string(json, "type",
					series->metrics[i].type == SERIES_GAUGE ? "gauge"
										: "counter");
			json_close_object(json);
		}
		json_close_array(json);
		json_close_object(json);
	}
	json_close_array(json);
}

void api_schema(struct api *api)
{
	struct json json = json_to(&api->out);
	int error = api_only_json(api);

	if (error < 0) {
		api_problem_query(api, error);
		return;
	}
	json_open_object(&json);
	json_key(&json, "entities");
	json_open_array(&json);
	for (int id = 0; id < ENTITY_END; id++) {
		json_open_object(&json);
		json_put_string(&json, "name", schema_entities[id].name);
		json_put_string(&json, "singular", schema_entities[id].singular);
		json_put_string(&json, "help", schema_entities[id].help);
		api_schema_columns(&json, &schema_entities[id]);
		json_close_object(&json);
	}
	json_close_array(&json);
	api_schema_series(&json);
	json_close_object(&json);
	json_end_line(&json);
	api_finish(api);
}

// --- paths -------------------------------------------------------------------------------------------------------

static void api_entity(struct api *api, const struct schema_entity *entity, const char *rest)
{
	enum schema_entity_id which = (enum schema_entity_id)(entity - schema_entities);
	char id_text[24];
	size_t length;
	uint64_t id;

	if (!*rest) {
		api_list(api, which);
		return;
	}
	length = strcspn(++rest, "/");
	snprintf(id_text, sizeof(id_text), "%.*s", (int)(length < 23 ? length : 23), rest);
	if (which == ENTITY_WORKSPACES || !api_id(id_text, &id))
		api_problem(api, 404, "not_found", "no such %s", entity->singular);
	else if (!rest[length])
		api_one(api, which, id);
	else if (which == ENTITY_RUNS && !strcmp(rest + length, "/tree"))
		api_tree(api, id);
	else if (which == ENTITY_RUNS && !strcmp(rest + length, "/export"))
		api_export(api, id);
	else
		api_problem(api, 404, "not_found", "nothing at this path");
}

static void api_dispatch(struct api *api)
{
	static const char prefix[] = "/api/v1/";
	const char *path = api->request->path;
	const struct schema_entity *entity;
	char name[32];
	size_t length;
	bool post = !strcmp(api->request->method, "POST");

	if (strncmp(path, prefix, sizeof(prefix) - 1) != 0) {
		api_problem(api, 404, "not_found", "nothing at this path");
		return;
	}
	path += sizeof(prefix) - 1;
	length = strcspn(path, "/");
	snprintf(name, sizeof(name), "%.*s", (int)(length < 31 ? length : 31), path);
	entity = schema_entity_find(name);
	if (!strcmp(path, "sql"))
		api_sql(api);
	else if (post || strcmp(api->request->method, "GET") != 0)
		api_problem(api, 405, "method_not_allowed", "this path takes GET");
	else if (entity)
		api_entity(api, entity, path + length);
	else if (!strcmp(path, "points"))
		api_points(api);
	else if (!strcmp(path, "schema"))
		api_schema(api);
	else
		api_problem(api, 404, "not_found", "nothing at this path");
}

static void api_release(struct api *api)
{
	buf_free(&api->out);
}

void api_answer(struct store_reader *reader, const struct api_request *request,
		const struct api_sink *sink)
{
	CLEANUP(api_release)
	struct api api = {
		.reader = reader,
		.request = request,
		.sink = sink,
		.content_type = "application/json",
	};

	api_dispatch(&api);
}
