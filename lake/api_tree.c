// SPDX-License-Identifier: Apache-2.0
// API, one run as a tree: the run, the parts it has on other hosts, its tasks and its tools. Tasks are rows of values
// under one list of names, streamed as they are read, because a run may have hundreds of thousands.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/api.h"

enum { TREE_PARTS_MAX = 1024 };

// What a picture of the run needs; others by name, with fields=.
static const char tree_task_fields[] = "task,task_name,sample,start_ns,end_ns,processes,failures,exit_code,signal,"
				       "cpu_ns,peak_rss_bytes";

struct tree {
	struct api *api;
	struct query query; // of tasks
	uint64_t parts[TREE_PARTS_MAX];
	size_t part_count;
	struct query_writer writer;
	uint64_t left; // tasks still wanted; 0: no limit
	char next[STORE_CURSOR_SIZE + 24];
};

static void tree_comma_key(struct tree *tree, const char *text)
{
	buf_append_string(&tree->api->out, text);
}

// --- the parts of a run ------------------------------------------------------------------------------------------

static int tree_part(void *data, const union lake_slot *slot)
{
	struct tree *tree = data;

	for (size_t i = 0; i < tree->part_count; i++) {
		if (tree->parts[i] == slot[RUNS_id].u64)
			return 0;
	}
	if (tree->part_count == TREE_PARTS_MAX)
		return -E2BIG;
	tree->parts[tree->part_count++] = slot[RUNS_id].u64;
	return 0;
}

static int tree_parts(struct tree *tree, const union lake_slot *run)
{
	static const uint8_t columns[] = {RUNS_id};
	const struct store_filter filter = {.column = RUNS_stitched_id, .op = STORE_EQ, .value = run[RUNS_stitched_id]};
	const struct store_query query = {
		.entity = ENTITY_RUNS,
		.workspace = tree->api->request->workspace,
		.filters = &filter,
		.filter_count = 1,
		.columns = columns,
		.column_count = 1,
		.sort = -1,
		.time_limit_ms = QUERY_TIME_LIMIT_MS,
	};
	char next[STORE_CURSOR_SIZE];

	tree->parts[tree->part_count++] = run[RUNS_id].u64;
	if (run[RUNS_stitched_id].u64 == LAKE_NULL)
		return 0;
	return store_select(tree->api->reader, &query, tree_part, tree, next, &tree->api->store_error);
}

// Tasks of several parts say whose they are.
static void tree_name_parts(struct tree *tree)
{
	struct store_query *select = &tree->query.select;

	if (tree->part_count == 1 || memchr(tree->query.columns, TASKS_run_id, select->column_count))
		return;
	tree->query.columns[select->column_count++] = TASKS_run_id;
}

static void tree_write_head(struct tree *tree, const union lake_slot *run)
{
	struct query_writer writer =
		query_writer_to(&tree->api->out, QUERY_JSON, &schema_entities[ENTITY_RUNS], NULL, 0);

	tree_comma_key(tree, "{\"run\":");
	query_write_row(&writer, run);
	tree_comma_key(tree, ",\"parts\":[");
	for (size_t i = 0; i < tree->part_count; i++)
		buf_printf(&tree->api->out, "%s\"%llu\"", i ? "," : "", (unsigned long long)tree->parts[i]);
	tree_comma_key(tree, "]");
}

static void tree_write_names(struct tree *tree, const struct schema_entity *entity, const uint8_t *columns,
			     size_t count)
{
	for (size_t i = 0; i < count; i++)
		buf_printf(&tree->api->out, "%s\"%s\"", i ? "," : "", entity->columns[columns ? columns[i] : i].name);
}

// --- tasks -------------------------------------------------------------------------------------------------------

static int tree_row(void *data, const union lake_slot *slot)
{
	struct tree *tree = data;

	query_write_row(&tree->writer, slot);
	return api_flush(tree->api);
}

// A cursor names the part it is in: PART.CURSOR.
static bool tree_cursor(struct tree *tree, size_t *ret_part)
{
	const char *cursor = tree->query.select.cursor;
	char *end;
	unsigned long part;

	*ret_part = 0;
	if (!cursor || !*cursor)
		return true;
	part = strtoul(cursor, &end, 10);
	if (*cursor < '0' || *cursor > '9' || *end != '.' || part >= tree->part_count) {
		query_fail(&tree->api->error, "bad_cursor", "cursor", "that is no cursor of this tree");
		return false;
	}
	tree->query.select.cursor = end + 1;
	*ret_part = part;
	return true;
}

static int tree_tasks(struct tree *tree, size_t part)
{
	char next[STORE_CURSOR_SIZE];
	unsigned filters = (unsigned)tree->query.select.filter_count;
	int error = 0;

	for (; error == 0 && part < tree->part_count; part++) {
		uint64_t before = tree->writer.rows;

		tree->query.select.filter_count = filters;
		tree->query.select.limit = tree->left;
		error = query_filter_u64(&tree->query, TASKS_run_id, STORE_EQ, tree->parts[part]);
		if (error == 0)
			error = store_select(tree->api->reader, &tree->query.select, tree_row, tree, next,
					     &tree->api->store_error);
		tree->query.select.cursor = NULL;
		if (error != 0 || tree->left == 0)
			continue;
		tree->left -= tree->writer.rows - before;
		if (*next)
			snprintf(tree->next, sizeof(tree->next), "%zu.%s", part, next);
		else if (tree->left == 0 && part + 1 < tree->part_count)
			snprintf(tree->next, sizeof(tree->next), "%zu.", part + 1);
		if (tree->left == 0)
			break;
	}
	return error;
}

// --- tools -------------------------------------------------------------------------------------------------------

static int tree_tools(struct tree *tree)
{
	struct store_filter filter = {.column = TOOLS_run_id, .op = STORE_EQ};
	const struct store_query query = {
		.entity = ENTITY_TOOLS,
		.workspace = tree->api->request->workspace,
		.filters = &filter,
		.filter_count = 1,
		.sort = -1,
		.time_limit_ms = QUERY_TIME_LIMIT_MS,
	};
	char next[STORE_CURSOR_SIZE];
	int error = 0;

	tree->writer = query_writer_to(&tree->api->out, QUERY_JSON, &schema_entities[ENTITY_TOOLS], NULL, 0);
	tree->writer.compact = true;
	for (size_t part = 0; error == 0 && part < tree->part_count; part++) {
		filter.value.u64 = tree->parts[part];
		error = store_select(tree->api->reader, &query, tree_row, tree, next, &tree->api->store_error);
	}
	return error;
}

// Filters, sort and fields are of tasks. Without limit all of them come.
static int tree_parse(struct tree *tree)
{
	struct query_parameters *parameters = tree->api->request->parameters;
	bool fields = false, limit = false, twice = false;
	const char *format = query_parameter_take(parameters, "format", &twice);
	int error = 0;

	if (twice || (format && strcmp(format, "json") != 0))
		return query_fail(&tree->api->error, "bad_value", "format", "a tree is JSON");

	for (size_t i = 0; i < parameters->count; i++) {
		fields |= !strcmp(parameters->list[i].name, "fields");
		limit |= !strcmp(parameters->list[i].name, "limit");
	}
	if (!fields)
		error = query_parameters_add(parameters, "fields", tree_task_fields);
	if (error == 0)
		error = query_parse(&tree->query, ENTITY_TASKS, tree->api->request->workspace, parameters,
				    tree->api->request->now_ns, &tree->api->error);
	if (error == 0)
		error = query_reject_unused(parameters, &schema_entities[ENTITY_TASKS], &tree->api->error);
	tree->left = limit ? tree->query.select.limit : 0;
	return error == -E2BIG ? query_fail(&tree->api->error, "too_many_filters", NULL, "too many parameters") : error;
}

void api_tree(struct api *api, uint64_t id)
{
	CLEANUP(cleanup_free) struct tree *tree = calloc(1, sizeof(*tree));
	union lake_slot run[SCHEMA_COLUMNS_MAX];
	struct json json = {.out = &api->out, .comma = true};
	size_t part = 0;
	int error;

	if (!tree) {
		api_problem(api, 500, "internal", "%s", strerror(ENOMEM));
		return;
	}
	tree->api = api;
	error = tree_parse(tree);
	if (error < 0) {
		api_problem_query(api, error);
		return;
	}
	error = api_row(api, ENTITY_RUNS, id, run);
	if (error == 0)
		error = tree_parts(tree, run);
	if (error == -ENOENT) {
		api_problem(api, 404, "not_found", "no such run");
		return;
	}
	if (error != 0) {
		api_problem_store(api, error);
		return;
	}
	if (!tree_cursor(tree, &part)) {
		api_problem_query(api, -EINVAL);
		return;
	}
	tree_name_parts(tree);
	tree_write_head(tree, run);
	tree_comma_key(tree, ",\"columns\":[");
	tree_write_names(tree, &schema_entities[ENTITY_TASKS], tree->query.columns, tree->query.select.column_count);
	tree_comma_key(tree, "],\"tasks\":[");
	tree->writer = query_writer_to(&api->out, QUERY_JSON, &schema_entities[ENTITY_TASKS], tree->query.columns,
				       tree->query.select.column_count);
	tree->writer.compact = true;
	error = tree_tasks(tree, part);
	if (error == 0) {
		tree_comma_key(tree, "],\"tool_columns\":[");
		tree_write_names(tree, &schema_entities[ENTITY_TOOLS], NULL,
				 schema_entities[ENTITY_TOOLS].column_count);
		tree_comma_key(tree, "],\"tools\":[");
		error = tree_tools(tree);
	}
	if (error != 0) {
		api_problem_store(api, error);
		return;
	}
	tree_comma_key(tree, "]");
	json_put_string(&json, "next", *tree->next ? tree->next : NULL);
	json_close_object(&json);
	json_end_line(&json);
	api_finish(api);
}
