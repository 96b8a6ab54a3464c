// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: the views that people and queries read: published rows only, parts put together, a process once.
// They are made anew with each version, so they may change without further ado.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lake/store_clickhouse.h"

struct writer {
	const struct clickhouse_url *url;
	struct buf *out;
};

static void end(struct writer *writer)
{
	buf_append(writer->out, "", 1);
}

static const char published[] = "(batch <= (SELECT max(batch) FROM `%s`.chain WHERE kind = 'floor') OR batch IN "
				"(SELECT batch FROM `%s`.chain WHERE kind = 'batch'))";

static void where_published(struct writer *writer)
{
	const char *database = writer->url->database;

	buf_append_string(writer->out, " WHERE ");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	buf_printf(writer->out, published, database, database);
#pragma GCC diagnostic pop
}

static void where_part(struct writer *writer)
{
	buf_printf(writer->out, " WHERE batch IN (SELECT batch FROM `%s`.part_batches)", writer->url->database);
}

static void view(struct writer *writer, const char *name)
{
	buf_printf(writer->out, "CREATE OR REPLACE VIEW `%s`.`%s`", writer->url->database, name);
	if (*writer->url->cluster)
		buf_printf(writer->out, " ON CLUSTER `%s`", writer->url->cluster);
	buf_append_string(writer->out, " AS ");
}

static void select_columns(struct writer *writer, enum schema_entity_id id)
{
	const struct schema_entity *entity = &schema_entities[id];

	buf_append_string(writer->out, "SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++)
		buf_printf(writer->out, "%s`%s`", i ? ", " : "", entity->columns[i].name);
}

// The batches whose parts count: published, and no fold stands for them.
static void part_batches_view(struct writer *writer)
{
	const char *database = writer->url->database;

	view(writer, "part_batches");
	buf_printf(writer->out,
		   "SELECT batch FROM `%s`.chain WHERE kind IN ('batch', 'fold') AND NOT arrayExists(f -> n > f.1 AND "
		   "n <= f.2, "
		   "(SELECT groupArray((after, upto)) FROM `%s`.chain WHERE kind = 'fold'))",
		   database, database);
	end(writer);
}

// Of each living process the latest opening row: those that a reader counts.
static void live_view(struct writer *writer)
{
	const char *database = writer->url->database;

	view(writer, "live");
	buf_printf(writer->out,
		   "SELECT argMax(o.row_id, (o.time_ns, o.sequence, o.row_id)) AS row_id, o.process_id AS process_id "
		   "FROM `%s`.open_rows AS o",
		   database);
	where_published(writer);
	buf_printf(writer->out,
		   " GROUP BY process_id HAVING process_id NOT IN (SELECT process_id FROM "
		   "`%s`.processes_rows",
		   database);
	where_published(writer);
	buf_printf(writer->out, " AND process_id IN (SELECT process_id FROM `%s`.open_rows", database);
	where_published(writer);
	buf_append_string(writer->out, "))");
	end(writer);
}

static void processes_view(struct writer *writer)
{
	view(writer, "processes");
	select_columns(writer, ENTITY_PROCESSES);
	buf_printf(writer->out, " FROM `%s`.processes_rows", writer->url->database);
	where_published(writer);
	buf_append_string(writer->out, " UNION ALL ");
	select_columns(writer, ENTITY_PROCESSES);
	buf_printf(writer->out, " FROM `%s`.open_rows", writer->url->database);
	where_published(writer);
	buf_printf(writer->out, " AND row_id IN (SELECT row_id FROM `%s`.live)", writer->url->database);
	end(writer);
}

static void rows_view(struct writer *writer, enum schema_entity_id id)
{
	view(writer, schema_entities[id].name);
	select_columns(writer, id);
	buf_printf(writer->out, " FROM `%s`.%s_rows", writer->url->database, schema_entities[id].name);
	where_published(writer);
	end(writer);
}

static void gather(struct buf *out, enum schema_entity_id id, unsigned column)
{
	const char *name = schema_entities[id].columns[column].name;

	switch (clickhouse_role(id, column)) {
	case ROLE_KEY:
		buf_printf(out, "p.`%s`", name);
		break;
	case ROLE_ANY:
		buf_printf(out, "max(p.`%s`)", name); // parts that only add something have it empty
		break;
	case ROLE_LATEST:
		if (id == ENTITY_RUNS && column == RUNS_stitched_id) // 0: taken back
			buf_append_string(out, "nullIf(argMax(p.stitched_id, p.`at`), 0)");
		else if (id == ENTITY_HOSTS && (column == HOSTS_epoch || column == HOSTS_acked))
			buf_printf(out, "argMax(p.`%s`, (p.`at`, p.acked))", name);
		else
			buf_printf(out, "argMax(p.`%s`, p.`at`)", name);
		break;
	case ROLE_ROOT:
		buf_printf(out, "argMin(tuple(p.`%s`), p.root_start_ns).1", name);
		break;
	case ROLE_REPLACE:
		buf_printf(out, "argMax(tuple(p.`%s`), p.`at`).1", name);
		break;
	case ROLE_MIN:
		buf_printf(out, "min(p.`%s`)", name);
		break;
	case ROLE_MAX:
		buf_printf(out, "max(p.`%s`)", name);
		break;
	case ROLE_SUM: // numbers end at 2^63 - 1 everywhere
		buf_printf(out, "if(sum(p.`%s`) > 9223372036854775807, 9223372036854775807, sum(p.`%s`))", name, name);
		break;
	case ROLE_DISTINCT:
		buf_printf(out, "uniqExactArray(p.`%s`)", name);
		break;
	}
}

void clickhouse_put_gathered(struct buf *out, enum schema_entity_id id, unsigned column)
{
	const struct schema_column *schema = &schema_entities[id].columns[column];
	bool count = clickhouse_role(id, column) == ROLE_SUM && !(schema->flags & SCHEMA_N);

	buf_append_string(out, count ? "ifNull(" : "");
	gather(out, id, column);
	buf_printf(out, "%s AS `%s`", count ? ", 0)" : "", schema->name);
}

static void parts_view(struct writer *writer, enum schema_entity_id id)
{
	const struct schema_entity *entity = &schema_entities[id];
	const char *comma = "";

	view(writer, entity->name);
	buf_append_string(writer->out, "SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++) {
		buf_append_string(writer->out, i ? ", " : "");
		clickhouse_put_gathered(writer->out, id, i);
	}
	buf_printf(writer->out, " FROM `%s`.%s_part AS p", writer->url->database, entity->name);
	where_part(writer);
	if (entity->aggregate >= 0)
		buf_printf(writer->out, " AND (open_id = 0 OR open_id IN (SELECT row_id FROM `%s`.live))",
			   writer->url->database);
	buf_append_string(writer->out, " GROUP BY ");
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (clickhouse_role(id, i) == ROLE_KEY) {
			buf_printf(writer->out, "%sp.`%s`", comma, entity->columns[i].name);
			comma = ", ";
		}
	}
	end(writer);
}

static void workspaces_view(struct writer *writer)
{
	view(writer, "workspaces");
	buf_printf(writer->out,
		   "SELECT p.workspace AS workspace, ifNull(min(p.first_seen_ns), 0) AS created_ns, "
		   "uniqExact(p.host_id) AS hosts FROM `%s`.hosts_part AS p",
		   writer->url->database);
	where_part(writer);
	buf_append_string(writer->out, " GROUP BY p.workspace");
	end(writer);
}

// Sums and the like of their runs.
static void pipelines_view(struct writer *writer)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PIPELINES];

	view(writer, "pipelines");
	buf_append_string(writer->out, "SELECT assumeNotNull(r.pipeline_id) AS id, r.workspace AS workspace, "
				       "any(ifNull(r.run_name, r.run)) AS pipeline, any(r.engine) AS engine, "
				       "count() AS runs");
	for (unsigned i = (unsigned)entity->aggregate; i < entity->column_count; i++) {
		const char *name = entity->columns[i].name;
		enum clickhouse_role role = clickhouse_role(ENTITY_PIPELINES, i);

		if (role == ROLE_SUM)
			buf_printf(writer->out,
				   ", if(sum(r.`%s`) > 9223372036854775807, 9223372036854775807, "
				   "sum(r.`%s`)) AS `%s`",
				   name, name, name);
		else
			buf_printf(writer->out, ", %s(r.`%s`) AS `%s`", role == ROLE_MIN ? "min" : "max", name, name);
	}
	buf_printf(writer->out,
		   " FROM `%s`.runs AS r WHERE r.pipeline_id IS NOT NULL GROUP BY r.workspace, r.pipeline_id",
		   writer->url->database);
	end(writer);
}

int clickhouse_schema_views(const struct clickhouse_url *url, struct buf *ret_statements)
{
	struct writer writer = {.url = url, .out = ret_statements};

	part_batches_view(&writer);
	live_view(&writer);
	processes_view(&writer);
	rows_view(&writer, ENTITY_GAPS);
	rows_view(&writer, ENTITY_EVENTS);
	workspaces_view(&writer);
	for (int id = 0; id < ENTITY_END; id++) {
		if (clickhouse_has_parts((enum schema_entity_id)id))
			parts_view(&writer, (enum schema_entity_id)id);
	}
	pipelines_view(&writer);
	return buf_error(ret_statements);
}
