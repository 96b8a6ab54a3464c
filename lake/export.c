// SPDX-License-Identifier: Apache-2.0
// Exports, what all formats need: the parts of a run over its hosts, their tasks and processes in the order of their
// starts, and the way out. Knows no format.
#include "lake/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/export_private.h"

enum { CHUNK = 64 * 1024 };

const struct export_format export_formats[] = {
	{"trace", "text/tab-separated-values", ".trace.txt", "Nextflow's trace.txt", export_nextflow},
	{"snakemake", "text/tab-separated-values", ".benchmark.tsv", "Snakemake's benchmark", export_snakemake},
	{"csv", "text/csv", ".csv", "every process, every column", export_csv},
	{"ndjson", "application/x-ndjson", ".ndjson", "runs, tasks, tools and processes", export_ndjson},
	{"perfetto", "application/x-protobuf", ".perfetto-trace", "for ui.perfetto.dev", export_perfetto},
	{"otlp", "application/json", ".otlp.json", "OpenTelemetry trace, OTLP's JSON", export_otlp},
	{0},
};

const struct export_format *export_format_find(const char *name)
{
	const struct export_format *format = export_formats;

	while (format->name && strcmp(format->name, name) != 0)
		format++;
	return format->name ? format : NULL;
}

const char *export_text(union lake_slot slot)
{
	return slot.text ? slot.text->bytes : "";
}

uint64_t export_end(const struct export *export, uint64_t end_ns, uint64_t living)
{
	return living || end_ns == LAKE_NULL ? export->question->now_ns : end_ns;
}

int export_flush(struct export *export)
{
	int error = buf_error(&export->out);

	if (!error && export->out.length)
		error = export->sink->write(export->sink->data, export->out.data, export->out.length);
	if (!error)
		buf_reset(&export->out);
	return error;
}

int export_each(struct export *export, enum schema_entity_id entity, unsigned column, uint64_t value, int sort,
		store_row_fn visit, void *data)
{
	struct store_filter filter = {.column = column, .op = STORE_EQ, .value.u64 = value};
	struct store_query query = {
		.entity = entity,
		.workspace = export->question->workspace,
		.filters = &filter,
		.filter_count = 1,
		.sort = sort,
	};
	char cursor[STORE_CURSOR_SIZE];

	return store_select(export->question->reader, &query, visit, data, cursor, export->error);
}

// --- rows that are kept ----------------------------------------------------------------------------------------------

struct keeping {
	struct export *export;
	struct export_rows *rows;
	const struct schema_entity *entity;
};

const union lake_slot *export_copy_row(struct arena *arena, const struct schema_entity *entity,
				       const union lake_slot *slot)
{
	union lake_slot *copy = arena_alloc(arena, entity->column_count * sizeof(*copy));

	if (!copy)
		return NULL;
	memcpy(copy, slot, entity->column_count * sizeof(*copy));
	for (unsigned i = 0; i < entity->column_count; i++) {
		struct lake_text *text;
		bool is_text = entity->columns[i].type == SCHEMA_TEXT || entity->columns[i].type == SCHEMA_JSON;
		if (!is_text || !slot[i].text)
			continue;
		text = arena_alloc(arena, sizeof(*text) + slot[i].text->length + 1);
		if (!text)
			return NULL;
		memcpy(text, slot[i].text, sizeof(*text) + slot[i].text->length);
		text->bytes[text->length] = 0;
		copy[i].text = text;
	}
	return copy;
}

static int keep_row(void *data, const union lake_slot *slot)
{
	struct keeping *keeping = data;
	struct export_rows *rows = keeping->rows;

	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 64;
		const union lake_slot **list = arena_alloc(&keeping->export->arena,
							   room * sizeof(const union lake_slot *));
		if (!list)
			return -ENOMEM;
		if (rows->count)
			memcpy(list, rows->rows, rows->count * sizeof(const union lake_slot *));
		rows->rows = list;
		rows->room = room;
	}
	rows->rows[rows->count] = export_copy_row(&keeping->export->arena, keeping->entity, slot);
	return rows->rows[rows->count++] ? 0 : -ENOMEM;
}

int export_rows(struct export *export, enum schema_entity_id entity, unsigned column, uint64_t value,
		struct export_rows *ret_rows)
{
	struct keeping keeping = {export, ret_rows, &schema_entities[entity]};
	int sort = schema_column_find(keeping.entity, "start_ns");

	*ret_rows = (struct export_rows){0};
	return export_each(export, entity, column, value, sort, keep_row, &keeping);
}

// --- tasks ---------------------------------------------------------------------------------------------------------

struct first_processes {
	struct export_task *tasks; // by task id
	size_t count;
};

static int by_id(const void *a, const void *b)
{
	uint64_t x = ((const struct export_task *)a)->row[TASKS_id].u64;
	uint64_t y = ((const struct export_task *)b)->row[TASKS_id].u64;

	return x < y ? -1 : x > y;
}

static int by_start(const void *a, const void *b)
{
	const struct export_task *x = a, *y = b;

	if (x->row[TASKS_start_ns].u64 != y->row[TASKS_start_ns].u64)
		return x->row[TASKS_start_ns].u64 < y->row[TASKS_start_ns].u64 ? -1 : 1;
	return by_id(a, b);
}

static int see_process(void *data, const union lake_slot *slot)
{
	const struct first_processes *first = data;
	size_t low = 0, high = first->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (first->tasks[middle].row[TASKS_id].u64 < slot[PROCESSES_task_id].u64)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == first->count || first->tasks[low].row[TASKS_id].u64 != slot[PROCESSES_task_id].u64)
		return 0;
	if (first->tasks[low].pid && first->tasks[low].root_start_ns <= slot[PROCESSES_start_ns].u64)
		return 0;
	first->tasks[low].pid = slot[PROCESSES_pid].u64;
	first->tasks[low].root_start_ns = slot[PROCESSES_start_ns].u64;
	return 0;
}

static int first_processes(struct export *export, uint64_t run_id, struct first_processes *first)
{
	static const uint8_t columns[] = {PROCESSES_task_id, PROCESSES_pid, PROCESSES_start_ns};
	struct store_filter filter = {.column = PROCESSES_run_id, .op = STORE_EQ, .value.u64 = run_id};
	struct store_query query = {
		.entity = ENTITY_PROCESSES,
		.workspace = export->question->workspace,
		.filters = &filter,
		.filter_count = 1,
		.columns = columns,
		.column_count = sizeof(columns),
		.sort = -1,
	};
	char cursor[STORE_CURSOR_SIZE];

	return store_select(export->question->reader, &query, see_process, first, cursor, export->error);
}

int export_tasks(struct export *export, struct export_task **ret_tasks, size_t *ret_count)
{
	struct first_processes first = {0};
	size_t room = 0;
	int error = 0;

	for (size_t i = 0; i < export->run_count && !error; i++) {
		struct export_rows rows;
		uint64_t run_id = export->runs[i][RUNS_id].u64;
		error = export_rows(export, ENTITY_TASKS, TASKS_run_id, run_id, &rows);
		if (error)
			break;
		if (first.count + rows.count > room || !first.tasks) {
			size_t more = (first.count + rows.count) * 2 + 16;
			struct export_task *tasks = arena_alloc(&export->arena, more * sizeof(*tasks));
			if (!tasks)
				return -ENOMEM;
			if (first.count)
				memcpy(tasks, first.tasks, first.count * sizeof(*tasks));
			first.tasks = tasks;
			room = more;
		}
		for (size_t j = 0; j < rows.count; j++)
			first.tasks[first.count++] = (struct export_task){.row = rows.rows[j], .run = export->runs[i]};
	}
	if (error)
		return error;
	qsort(first.tasks, first.count, sizeof(*first.tasks), by_id);
	for (size_t i = 0; i < export->run_count && !error; i++)
		error = first_processes(export, export->runs[i][RUNS_id].u64, &first);
	qsort(first.tasks, first.count, sizeof(*first.tasks), by_start);
	*ret_tasks = first.tasks;
	*ret_count = first.count;
	return error;
}

// --- the run
// -----------------------------------------------------------------------------------------------------------

static int load_runs(struct export *export)
{
	struct export_rows rows;
	int error = export_rows(export, ENTITY_RUNS, RUNS_id, export->question->run_id, &rows);

	if (error)
		return error;
	if (!rows.count)
		return -ENOENT;
	export->whole = rows.rows[0][RUNS_stitched_id].u64;
	if (export->whole == LAKE_NULL)
		export->whole = rows.rows[0][RUNS_id].u64;
	else
		error = export_rows(export, ENTITY_RUNS, RUNS_stitched_id, export->whole, &rows);
	if (error)
		return error;
	export->runs = rows.rows;
	export->run_count = rows.count;
	for (size_t i = 1; i < rows.count; i++) {
		const union lake_slot *head = rows.rows[i];
		if (head[RUNS_id].u64 != export->whole)
			continue;
		memmove(rows.rows + 1, rows.rows, i * sizeof(const union lake_slot *));
		rows.rows[0] = head;
	}
	return 0;
}

int export_run(const struct export_format *format, const struct export_question *question,
	       const struct export_sink *sink, struct store_error *error)
{
	struct export export = {.question = question, .sink = sink, .error = error};
	int result;

	arena_init(&export.arena, CHUNK);
	result = load_runs(&export);
	if (!result)
		result = format->write(&export);
	if (!result)
		result = export_flush(&export);
	buf_free(&export.out);
	arena_free(&export.arena);
	return result;
}
