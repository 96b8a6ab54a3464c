// SPDX-License-Identifier: Apache-2.0
// A run as rows: every process and column as CSV, or all there is as NDJSON, each line with the name of its entity.
// Columns and their meaning are those of docs/lake-schema.md.
#include <string.h>

#include "lake/export_private.h"
#include "lake/query.h"

enum { FLUSH_BYTES = 32 * 1024 };

struct rows_out {
	struct export *export;
	const struct schema_entity *entity;
	struct query_writer writer;
};

static int put_csv(void *data, const union lake_slot *slot)
{
	struct rows_out *rows = data;

	query_write_row(&rows->writer, slot);
	return rows->export->out.length > FLUSH_BYTES ? export_flush(rows->export) : 0;
}

int export_csv(struct export *export)
{
	struct rows_out rows = {.export = export, .entity = &schema_entities[ENTITY_PROCESSES]};
	int error = 0;

	rows.writer = query_writer_to(&export->out, QUERY_CSV, rows.entity, NULL, 0);
	query_write_heading(&rows.writer);
	for (size_t i = 0; i < export->run_count && !error; i++)
		error = export_each(export, ENTITY_PROCESSES, PROCESSES_run_id, export->runs[i][RUNS_id].u64,
				    PROCESSES_start_ns, put_csv, &rows);
	return error;
}

static int put_line(void *data, const union lake_slot *slot)
{
	struct rows_out *rows = data;
	struct json json = json_to(&rows->export->out);

	json_open_object(&json);
	json_put_string(&json, "entity", rows->entity->singular);
	for (unsigned i = 0; i < rows->entity->column_count; i++) {
		const struct schema_column *column = &rows->entity->columns[i];
		if (lake_slot_is_null(slot[i], (enum schema_type)column->type))
			continue;
		json_key(&json, column->name);
		query_write_slot(&json, column, slot[i]);
	}
	json_close_object(&json);
	json_end_line(&json);
	return rows->export->out.length > FLUSH_BYTES ? export_flush(rows->export) : 0;
}

int export_ndjson(struct export *export)
{
	static const struct {
		enum schema_entity_id entity;
		uint8_t column;
	} parts[] = {
		{ENTITY_RUNS, RUNS_id},	      {ENTITY_JOINS, JOINS_run_id},	    {ENTITY_TASKS, TASKS_run_id},
		{ENTITY_TOOLS, TOOLS_run_id}, {ENTITY_PROCESSES, PROCESSES_run_id},
	};
	int error = 0;

	for (size_t i = 0; i < export->run_count; i++)
		for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]) && !error; j++) {
			struct rows_out rows = {.export = export, .entity = &schema_entities[parts[j].entity]};
			int sort = schema_column_find(rows.entity, "start_ns");
			error = export_each(export, parts[j].entity, parts[j].column, export->runs[i][RUNS_id].u64,
					    sort, put_line, &rows);
		}
	return error;
}
