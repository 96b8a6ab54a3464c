// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: tables and views out of the declared schema. A table holds rows as they came, each with its batch;
// the view of the entity's own name is what people and queries read: published rows only, parts put together, a process
// once. Changing a type or a key here needs a new schema version and a statement that brings old tables to it.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

// Texts of few different values, which ClickHouse keeps as numbers of a dictionary.
static const char *const few[] = {"workspace",
				  "host_id",
				  "host",
				  "boot",
				  "tool",
				  "engine",
				  "run",
				  "run_name",
				  "run_parent",
				  "comm",
				  "exe",
				  "cwd",
				  "interpreter",
				  "script",
				  "cgroup",
				  "sample",
				  "task_name",
				  "task",
				  "room",
				  "reason",
				  "kind",
				  "oom_limit",
				  "epoch",
				  "rule",
				  "severity",
				  "pipeline",
				  "container_runtime",
				  "pod_qos",
				  "label",
				  "machine_id",
				  "tracer_version",
				  "os_type",
				  "kernel_release",
				  "architecture",
				  NULL};

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++) {
		if (!strcmp(name, *list))
			return true;
	}
	return false;
}

bool clickhouse_has_parts(enum schema_entity_id entity)
{
	return entity != ENTITY_PROCESSES && entity != ENTITY_GAPS && entity != ENTITY_EVENTS &&
	       entity != ENTITY_WORKSPACES && entity != ENTITY_PIPELINES;
}

enum clickhouse_role clickhouse_role(enum schema_entity_id entity, unsigned column)
{
	static const char *const keys[] = {"id", "workspace", "host_id", "run_id", NULL};
	static const char *const least[] = {"start_ns", "first_ns", "first_seen_ns", NULL};
	static const char *const most[] = {"end_ns", "last_ns", "last_seen_ns", "threads_max", "peak_rss_bytes", NULL};
	static const char *const sums[] = {"records", "records_lost", "values_out_of_range", NULL};
	const struct schema_entity *schema = &schema_entities[entity];
	const char *name = schema->columns[column].name;

	if (entity == ENTITY_FINDINGS || entity == ENTITY_JOINS || entity == ENTITY_KEYS)
		return !strcmp(name, "id") || !strcmp(name, "workspace") ? ROLE_KEY : ROLE_REPLACE;
	if (is_one_of(name, keys))
		return ROLE_KEY;
	if (is_one_of(name, least))
		return ROLE_MIN;
	if (is_one_of(name, most))
		return ROLE_MAX;
	if (schema->aggregate >= 0 && (int)column >= schema->aggregate)
		return ROLE_SUM;
	if ((schema->root >= 0 && (int)column >= schema->root) || (entity == ENTITY_TASKS && column == TASKS_cwd))
		return ROLE_ROOT;
	if (entity == ENTITY_RUNS && column == RUNS_tasks)
		return ROLE_DISTINCT;
	if (entity == ENTITY_HOSTS && is_one_of(name, sums))
		return ROLE_SUM;
	return schema->columns[column].flags & SCHEMA_N ? ROLE_LATEST : ROLE_ANY;
}

const char *clickhouse_type(enum schema_entity_id entity, unsigned column)
{
	const struct schema_column *schema = &schema_entities[entity].columns[column];
	bool null = schema->flags & SCHEMA_N;

	// Parts of an entity seldom have everything, so that there all but keys may be unknown.
	if (clickhouse_has_parts(entity)) {
		enum clickhouse_role role = clickhouse_role(entity, column);

		if (role == ROLE_DISTINCT)
			return "Array(UInt64)";
		null = null || (role != ROLE_KEY && role != ROLE_ANY);
	}
	switch (schema->type) {
	case SCHEMA_I64:
		return null ? "Nullable(Int64)" : "Int64";
	case SCHEMA_F64:
		return null ? "Nullable(Float64)" : "Float64";
	case SCHEMA_BOOL:
		return null ? "Nullable(Bool)" : "Bool";
	case SCHEMA_TEXT:
		if (is_one_of(schema->name, few))
			return null ? "LowCardinality(Nullable(String))" : "LowCardinality(String)";
		return null ? "Nullable(String)" : "String";
	case SCHEMA_JSON:
		return null ? "Nullable(String)" : "String";
	default:
		return null ? "Nullable(UInt64)" : "UInt64";
	}
}

// Moments and ids rise, so their differences are small; amounts are mostly small numbers.
static const char *codec(const char *name, uint8_t type)
{
	size_t length = strlen(name);

	if (type == SCHEMA_JSON)
		return " CODEC(ZSTD(3))";
	if (type != SCHEMA_U64)
		return "";
	if (!strcmp(name, "id") || !strcmp(name, "start_ns") || !strcmp(name, "end_ns") || !strcmp(name, "time_ns") ||
	    !strcmp(name, "start_boot_ns") || (length > 8 && !strcmp(name + length - 8, "_seen_ns")))
		return " CODEC(Delta(8), ZSTD(1))";
	return " CODEC(ZSTD(1))";
}

void clickhouse_metric_name(const struct series_metric *metric, char ret_name[64])
{
	size_t i;

	for (i = 0; i < 63 && metric->name[i]; i++)
		ret_name[i] = metric->name[i] == '.' ? '_' : metric->name[i];
	ret_name[i] = '\0';
}

// ---- statements ---------------------------------------------------------------------------------------------------

struct writer {
	const struct clickhouse_url *url;
	const struct store_retention *retention;
	struct buf *out;
};

static void begin(struct writer *writer, const char *what, const char *name, const char *suffix)
{
	buf_printf(writer->out, "CREATE %s IF NOT EXISTS `%s`.`%s%s`", what, writer->url->database, name, suffix);
	if (*writer->url->cluster)
		buf_printf(writer->out, " ON CLUSTER `%s`", writer->url->cluster);
}

static void end(struct writer *writer)
{
	buf_append(writer->out, "", 1);
}

// keep_s 0: no TTL.
static void engine(struct writer *writer, const char *order, const char *partition, uint64_t keep_s, const char *more)
{
	const struct clickhouse_url *url = writer->url;

	buf_append_string(writer->out, ") ENGINE = ");
	if (!url->replicated)
		buf_append_string(writer->out, "MergeTree");
	else if (!*url->path)
		buf_append_string(writer->out, "ReplicatedMergeTree");
	else
		buf_printf(writer->out, "ReplicatedMergeTree('%s', '{replica}')", url->path);
	if (*partition)
		buf_printf(writer->out, " PARTITION BY %s", partition);
	buf_printf(writer->out, " ORDER BY (%s)", order);
	if (keep_s)
		buf_printf(writer->out, " TTL received + INTERVAL %" PRIu64 " SECOND DELETE", keep_s);
	buf_printf(writer->out, " SETTINGS allow_nullable_key = 1%s", more);
	if (url->fsync)
		buf_append_string(writer->out, ", fsync_after_insert = 1, fsync_part_directory = 1");
	end(writer);
}

static const char *window(const struct writer *writer)
{
	return writer->url->replicated
		       ? ", replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800"
		       : ", non_replicated_deduplication_window = 10000";
}

static void columns(struct writer *writer, enum schema_entity_id id)
{
	const struct schema_entity *entity = &schema_entities[id];

	for (unsigned i = 0; i < entity->column_count; i++)
		buf_printf(writer->out, "`%s` %s%s, ", entity->columns[i].name, clickhouse_type(id, i),
			   codec(entity->columns[i].name, entity->columns[i].type));
	buf_append_string(writer->out, "received DateTime('UTC') CODEC(Delta(4), ZSTD(1)), "
				       "batch UInt64 CODEC(Delta(8), ZSTD(1))");
}

static void chain_table(struct writer *writer)
{
	begin(writer, "TABLE", "chain", "");
	buf_append_string(writer->out, " (n UInt64, kind LowCardinality(String), batch UInt64, upto UInt64, "
				       "written DateTime64(3, 'UTC') DEFAULT now64(3)");
	engine(writer, "n", "", 0, window(writer));
}

static void row_table(struct writer *writer, enum schema_entity_id id, const char *name, const char *order)
{
	begin(writer, "TABLE", name, "");
	buf_append_string(writer->out, " (");
	columns(writer, id);
	if (id == ENTITY_PROCESSES)
		buf_append_string(writer->out,
				  ", sequence UInt64 CODEC(Delta(8), ZSTD(1)), row_id UInt64 "
				  "CODEC(Delta(8), ZSTD(1)), process_id UInt64 "
				  "CODEC(ZSTD(1)), INDEX by_process process_id TYPE bloom_filter(0.01) "
				  "GRANULARITY 4, INDEX by_id id TYPE minmax GRANULARITY 1, INDEX by_batch batch "
				  "TYPE minmax GRANULARITY 1");
	engine(writer, order, "toYYYYMM(received)", writer->retention->processes_s, window(writer));
}

static void part_table(struct writer *writer, enum schema_entity_id id)
{
	const char *order = "workspace, id";

	if (id == ENTITY_TASKS || id == ENTITY_SAMPLES || id == ENTITY_TOOLS)
		order = "workspace, run_id, id";
	begin(writer, "TABLE", schema_entities[id].name, "_part");
	buf_append_string(writer->out, " (");
	columns(writer, id);
	buf_append_string(writer->out, ", `at` UInt64 CODEC(ZSTD(1)), open_id UInt64 CODEC(ZSTD(1))");
	engine(writer, order, "", 0, window(writer));
}

static void points_table(struct writer *writer, enum series_kind kind)
{
	const struct series_schema *series = &series_schemas[kind];
	char name[64];

	begin(writer, "TABLE", "points_", series->name);
	buf_append_string(writer->out,
			  " (workspace LowCardinality(String), host_id LowCardinality(String), series_id UInt64 "
			  "CODEC(Delta(8), ZSTD(1)), owner_id UInt64 CODEC(Delta(8), ZSTD(1)), label "
			  "LowCardinality(String), time_ns UInt64 CODEC(DoubleDelta, ZSTD(1))");
	for (unsigned i = 0; i < series->metric_count; i++) {
		clickhouse_metric_name(&series->metrics[i], name);
		buf_printf(writer->out, ", `%s` %s CODEC(%s)", name,
			   series->metrics[i].real ? "Nullable(Decimal64(3))" : "Nullable(UInt64)",
			   series->metrics[i].type == SERIES_COUNTER ? "Delta(8), ZSTD(1)" : "T64, ZSTD(1)");
	}
	buf_append_string(writer->out, ", received DateTime('UTC') CODEC(Delta(4), ZSTD(1)), batch UInt64 "
				       "CODEC(Delta(8), ZSTD(1))");
	engine(writer, "owner_id, label, time_ns", "toYYYYMM(received)", writer->retention->points_s, window(writer));
}

static void rollup_table(struct writer *writer)
{
	begin(writer, "TABLE", "rollups", "_rows");
	buf_append_string(writer->out,
			  " (series_id UInt64, kind LowCardinality(String), level_s UInt64, time_ns UInt64 "
			  "CODEC(DoubleDelta, ZSTD(1)), metric LowCardinality(String), count UInt64, mean "
			  "Float64, min Float64, max Float64, sum Float64, received DateTime('UTC') "
			  "CODEC(Delta(4), ZSTD(1)), batch UInt64 CODEC(Delta(8), ZSTD(1))");
	engine(writer, "series_id, level_s, metric, time_ns", "", 0, window(writer));
}

// How far a move from another store has come: written with the rows it brought, so that both are there or neither.
static void migrate_table(struct writer *writer)
{
	begin(writer, "TABLE", "migrate", "_rows");
	buf_append_string(writer->out, " (stage UInt64, position String, received DateTime('UTC'), batch UInt64");
	engine(writer, "batch", "", 0, window(writer));
}

// ---- views --------------------------------------------------------------------------------------------------------

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

static void gather(struct writer *writer, enum schema_entity_id id, unsigned column)
{
	const char *name = schema_entities[id].columns[column].name;

	switch (clickhouse_role(id, column)) {
	case ROLE_KEY:
		buf_printf(writer->out, "p.`%s`", name);
		break;
	case ROLE_ANY:
		buf_printf(writer->out, "max(p.`%s`)", name); // parts that only add something have it empty
		break;
	case ROLE_LATEST:
		if (id == ENTITY_RUNS && column == RUNS_stitched_id) // 0: taken back
			buf_append_string(writer->out, "nullIf(argMax(p.stitched_id, p.`at`), 0)");
		else if (id == ENTITY_HOSTS && (column == HOSTS_epoch || column == HOSTS_acked))
			buf_printf(writer->out, "argMax(p.`%s`, (p.`at`, p.acked))", name);
		else
			buf_printf(writer->out, "argMax(p.`%s`, p.`at`)", name);
		break;
	case ROLE_ROOT:
		buf_printf(writer->out, "argMin(tuple(p.`%s`), p.root_start_ns).1", name);
		break;
	case ROLE_REPLACE:
		buf_printf(writer->out, "argMax(tuple(p.`%s`), p.`at`).1", name);
		break;
	case ROLE_MIN:
		buf_printf(writer->out, "min(p.`%s`)", name);
		break;
	case ROLE_MAX:
		buf_printf(writer->out, "max(p.`%s`)", name);
		break;
	case ROLE_SUM: // numbers end at 2^63 - 1 everywhere
		buf_printf(writer->out, "if(sum(p.`%s`) > 9223372036854775807, 9223372036854775807, sum(p.`%s`))", name,
			   name);
		break;
	case ROLE_DISTINCT:
		buf_printf(writer->out, "uniqExactArray(p.`%s`)", name);
		break;
	}
}

static void parts_view(struct writer *writer, enum schema_entity_id id)
{
	const struct schema_entity *entity = &schema_entities[id];
	const char *comma = "";

	view(writer, entity->name);
	buf_append_string(writer->out, "SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++) {
		bool count = clickhouse_role(id, i) == ROLE_SUM && !(entity->columns[i].flags & SCHEMA_N);

		buf_append_string(writer->out, i ? ", " : "");
		buf_append_string(writer->out, count ? "ifNull(" : "");
		gather(writer, id, i);
		buf_printf(writer->out, "%s AS `%s`", count ? ", 0)" : "", entity->columns[i].name);
	}
	buf_printf(writer->out, " FROM `%s`.%s_part AS p", writer->url->database, entity->name);
	where_published(writer);
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
	where_published(writer);
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

int clickhouse_schema_statements(const struct clickhouse_url *url, const struct store_retention *retention,
				 struct buf *ret_statements)
{
	struct writer writer = {.url = url, .retention = retention, .out = ret_statements};

	chain_table(&writer);
	row_table(&writer, ENTITY_PROCESSES, "processes_rows", "workspace, run_id, task_id, start_ns, id");
	row_table(&writer, ENTITY_PROCESSES, "open_rows", "workspace, process_id, id");
	row_table(&writer, ENTITY_GAPS, "gaps_rows", "workspace, time_ns, id");
	row_table(&writer, ENTITY_EVENTS, "events_rows", "workspace, time_ns, id");
	rollup_table(&writer);
	migrate_table(&writer);
	for (int kind = 0; kind < SERIES_KIND_END; kind++)
		points_table(&writer, (enum series_kind)kind);
	for (int id = 0; id < ENTITY_END; id++) {
		if (clickhouse_has_parts((enum schema_entity_id)id))
			part_table(&writer, (enum schema_entity_id)id);
	}
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
	buf_append(ret_statements, "", 1);
	return buf_error(ret_statements);
}
