// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: tables out of the declared schema. A table holds rows as they came, each with its batch. Each is
// declared once, below, and that makes the statement that creates it, those that add what an older table lacks, its TTL
// and the columns that an insert names. A new column needs a new version only; a type or a key that changes needs a
// statement of its own.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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
	if (entity == ENTITY_RUNS && column == RUNS_host_id)
		return ROLE_ANY; // a join says only which run
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

// ---- tables -------------------------------------------------------------------------------------------------------

enum mode {
	MODE_CREATE,
	MODE_ADD, // columns that a table of an older version lacks
	MODE_KEEP, // the TTL, where it is another one
	MODE_NAMES, // the columns of one table, as an insert names them
};

struct writer {
	const struct clickhouse_url *url;
	const struct store_retention *retention;
	const char *there; // MODE_ADD, MODE_KEEP: lines of what is there
	const char *only; // MODE_NAMES: the table
	struct buf *out;
	enum mode mode;
	char table[64];
	char before[64]; // the column before; empty: none
};

static void on_cluster(struct writer *writer)
{
	if (*writer->url->cluster)
		buf_printf(writer->out, " ON CLUSTER `%s`", writer->url->cluster);
}

static void alter(struct writer *writer)
{
	buf_printf(writer->out, "ALTER TABLE `%s`.`%s`", writer->url->database, writer->table);
	on_cluster(writer);
}

static void begin(struct writer *writer, const char *name, const char *suffix)
{
	snprintf(writer->table, sizeof(writer->table), "%s%s", name, suffix);
	writer->before[0] = '\0';
	if (writer->mode != MODE_CREATE)
		return;
	buf_printf(writer->out, "CREATE TABLE IF NOT EXISTS `%s`.`%s`", writer->url->database, writer->table);
	on_cluster(writer);
}

// Whether a line of what is there says so.
static bool is_there(const struct writer *writer, const char *line)
{
	const char *found = writer->there;
	size_t length = strlen(line);

	for (; (found = strstr(found, line)); found++) {
		if ((found == writer->there || found[-1] == '\n') && (found[length] == '\n' || !found[length]))
			return true;
	}
	return false;
}

static void column(struct writer *writer, const char *name, const char *type, const char *codec)
{
	char line[160];

	snprintf(line, sizeof(line), "%s\t%s", writer->table, name);
	if (writer->mode == MODE_CREATE)
		buf_printf(writer->out, "%s`%s` %s%s", *writer->before ? ", " : " (", name, type, codec);
	if (writer->mode == MODE_NAMES && !strcmp(writer->table, writer->only))
		buf_printf(writer->out, "%s`%s`", *writer->before ? "," : "", name);
	if (writer->mode == MODE_ADD && !is_there(writer, line)) {
		alter(writer);
		buf_printf(writer->out, " ADD COLUMN IF NOT EXISTS `%s` %s%s", name, type, codec);
		if (*writer->before)
			buf_printf(writer->out, " AFTER `%s`", writer->before);
		buf_append(writer->out, "", 1);
	}
	snprintf(writer->before, sizeof(writer->before), "%s", name);
}

static void indices(struct writer *writer, const char *text)
{
	if (writer->mode == MODE_CREATE)
		buf_append_string(writer->out, text);
}

// As ClickHouse itself writes it, so that it can be compared. Empty: rows stay. Upkeep counts and removes what is older
// than it is kept (lake/store_clickhouse_retention.c); a TTL stands behind it.
static void ttl_text(char *text, size_t size, const struct store_retention *retention, enum clickhouse_keep which,
		     const char *where)
{
	uint64_t keep_s = clickhouse_keep_s(retention, which);
	size_t used = strlen(text);

	if (keep_s)
		snprintf(text + used, size - used, "%sreceived + toIntervalSecond(%" PRIu64 ")%s", used ? ", " : "",
			 keep_s + CLICKHOUSE_TTL_SLACK_S, where);
}

static void keep(struct writer *writer, const char *ttl)
{
	char line[400];
	bool any;

	snprintf(line, sizeof(line), "%s\tTTL %s", writer->table, ttl);
	any = strstr(writer->there, "TTL") != NULL;
	if (is_there(writer, line))
		return;
	snprintf(line, sizeof(line), "%s\tTTL ", writer->table);
	if (!*ttl && (!any || !strstr(writer->there, line)))
		return;
	alter(writer);
	if (*ttl)
		buf_printf(writer->out, " MODIFY TTL %s", ttl);
	else
		buf_append_string(writer->out, " REMOVE TTL");
	buf_append(writer->out, "", 1);
}

static void end_with(struct writer *writer, const char *order, const char *partition, const char *ttl)
{
	const struct clickhouse_url *url = writer->url;

	if (writer->mode == MODE_KEEP)
		keep(writer, ttl);
	if (writer->mode != MODE_CREATE)
		return;
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
	if (*ttl)
		buf_printf(writer->out, " TTL %s", ttl);
	buf_printf(writer->out, " SETTINGS allow_nullable_key = 1%s",
		   url->replicated ? ", replicated_deduplication_window = 10000, "
				     "replicated_deduplication_window_seconds = 604800"
				   : ", non_replicated_deduplication_window = 10000");
	if (url->fsync)
		buf_append_string(writer->out, ", fsync_after_insert = 1, fsync_part_directory = 1");
	buf_append(writer->out, "", 1);
}

static void end(struct writer *writer, const char *order)
{
	end_with(writer, order, "", "");
}

// Rows that go by their arrival.
static void end_by_month(struct writer *writer, const char *order, enum clickhouse_keep which, const char *where)
{
	char ttl[160] = "";

	ttl_text(ttl, sizeof(ttl), writer->retention, which, where);
	end_with(writer, order, "toYYYYMM(received)", ttl);
}

static void arrival(struct writer *writer)
{
	column(writer, "received", "DateTime('UTC')", " CODEC(Delta(4), ZSTD(1))");
	column(writer, "batch", "UInt64", " CODEC(Delta(8), ZSTD(1))");
}

static void columns(struct writer *writer, enum schema_entity_id id)
{
	const struct schema_entity *entity = &schema_entities[id];

	for (unsigned i = 0; i < entity->column_count; i++)
		column(writer, entity->columns[i].name, clickhouse_type(id, i),
		       codec(entity->columns[i].name, entity->columns[i].type));
	arrival(writer);
}

static void chain_table(struct writer *writer)
{
	begin(writer, "chain", "");
	column(writer, "n", "UInt64", "");
	column(writer, "kind", "LowCardinality(String)", "");
	column(writer, "batch", "UInt64", "");
	column(writer, "upto", "UInt64", "");
	column(writer, "after", "UInt64", "");
	column(writer, "written", "DateTime64(3, 'UTC') DEFAULT now64(3)", "");
	end(writer, "n");
}

static void row_table(struct writer *writer, enum schema_entity_id id, const char *name, const char *order)
{
	begin(writer, name, "");
	columns(writer, id);
	if (id == ENTITY_PROCESSES) {
		column(writer, "sequence", "UInt64", " CODEC(Delta(8), ZSTD(1))");
		column(writer, "row_id", "UInt64", " CODEC(Delta(8), ZSTD(1))");
		column(writer, "process_id", "UInt64", " CODEC(ZSTD(1))");
		indices(writer,
			", INDEX by_process process_id TYPE bloom_filter(0.01) GRANULARITY 4, INDEX by_id id TYPE "
			"minmax GRANULARITY 1, INDEX by_batch batch TYPE minmax GRANULARITY 1");
	}
	// What tells of a removal stays.
	end_by_month(writer, order, CLICKHOUSE_KEEP_PROCESSES, id == ENTITY_GAPS ? " WHERE room != 'retention'" : "");
}

static void part_table(struct writer *writer, enum schema_entity_id id)
{
	const char *order = "workspace, id";

	if (id == ENTITY_TASKS || id == ENTITY_SAMPLES || id == ENTITY_TOOLS)
		order = "workspace, run_id, id";
	begin(writer, schema_entities[id].name, "_part");
	columns(writer, id);
	column(writer, "at", "UInt64", " CODEC(ZSTD(1))");
	column(writer, "open_id", "UInt64", " CODEC(ZSTD(1))");
	end(writer, order);
}

static void points_table(struct writer *writer, enum series_kind kind)
{
	const struct series_schema *series = &series_schemas[kind];
	char name[64];

	begin(writer, "points_", series->name);
	column(writer, "workspace", "LowCardinality(String)", "");
	column(writer, "host_id", "LowCardinality(String)", "");
	column(writer, "series_id", "UInt64", " CODEC(Delta(8), ZSTD(1))");
	column(writer, "owner_id", "UInt64", " CODEC(Delta(8), ZSTD(1))");
	column(writer, "label", "LowCardinality(String)", "");
	column(writer, "time_ns", "UInt64", " CODEC(DoubleDelta, ZSTD(1))");
	for (unsigned i = 0; i < series->metric_count; i++) {
		clickhouse_metric_name(&series->metrics[i], name);
		column(writer, name, series->metrics[i].real ? "Nullable(Decimal64(3))" : "Nullable(UInt64)",
		       series->metrics[i].type == SERIES_COUNTER ? " CODEC(Delta(8), ZSTD(1))"
								 : " CODEC(T64, ZSTD(1))");
	}
	arrival(writer);
	indices(writer,
		", INDEX by_batch batch TYPE minmax GRANULARITY 1, INDEX by_time time_ns TYPE minmax GRANULARITY 1");
	end_by_month(writer, "owner_id, label, time_ns", CLICKHOUSE_KEEP_POINTS, "");
}

// A step of a series. The arrays have a place for each metric of its kind, in the order of lake/schema.c; those that a
// later version added are missing in older rows.
static void rollup_table(struct writer *writer)
{
	const struct store_retention *retention = writer->retention;
	char ttl[400] = "";

	begin(writer, "rollup", "_steps");
	column(writer, "owner_id", "UInt64", " CODEC(Delta(8), ZSTD(1))");
	column(writer, "kind", "LowCardinality(String)", "");
	column(writer, "level_s", "UInt32", "");
	column(writer, "label", "LowCardinality(String)", "");
	column(writer, "time_ns", "UInt64", " CODEC(DoubleDelta, ZSTD(1))");
	column(writer, "workspace", "LowCardinality(String)", "");
	column(writer, "series_id", "UInt64", " CODEC(Delta(8), ZSTD(1))");
	column(writer, "version", "UInt64", " CODEC(Delta(8), ZSTD(1))");
	column(writer, "counts", "Array(UInt64)", " CODEC(ZSTD(1))");
	column(writer, "sums", "Array(UInt64)", " CODEC(ZSTD(1))");
	column(writer, "least", "Array(UInt64)", " CODEC(ZSTD(1))");
	column(writer, "most", "Array(UInt64)", " CODEC(ZSTD(1))");
	column(writer, "covered", "Array(UInt64)", " CODEC(ZSTD(1))");
	arrival(writer);
	ttl_text(ttl, sizeof(ttl), retention, CLICKHOUSE_KEEP_10S, " WHERE level_s = 10");
	ttl_text(ttl, sizeof(ttl), retention, CLICKHOUSE_KEEP_1MIN, " WHERE level_s = 60");
	ttl_text(ttl, sizeof(ttl), retention, CLICKHOUSE_KEEP_1H, " WHERE level_s = 3600");
	end_with(writer, "owner_id, kind, level_s, label, time_ns", "", ttl);
}

// How far the roll-ups of a level go: every span that ended by over_ns, from what the chain had up to upto.
static void rolled_table(struct writer *writer)
{
	begin(writer, "rollup", "_state");
	column(writer, "level_s", "UInt32", "");
	column(writer, "upto", "UInt64", "");
	column(writer, "over_ns", "UInt64", "");
	arrival(writer);
	end(writer, "level_s, upto");
}

// Below which moment of arrival rows are counted as gone.
static void retention_table(struct writer *writer)
{
	begin(writer, "retention", "_state");
	column(writer, "what", "LowCardinality(String)", "");
	column(writer, "upto", "UInt64", "");
	arrival(writer);
	end(writer, "what, upto");
}

// How far a move from another store has come: written with the rows it brought, so that both are there or neither.
static void migrate_table(struct writer *writer)
{
	begin(writer, "migrate", "_rows");
	column(writer, "stage", "UInt64", "");
	column(writer, "position", "String", "");
	column(writer, "received", "DateTime('UTC')", "");
	column(writer, "batch", "UInt64", "");
	end(writer, "batch");
}

static void all_tables(struct writer *writer)
{
	chain_table(writer);
	row_table(writer, ENTITY_PROCESSES, "processes_rows", "workspace, run_id, task_id, start_ns, id");
	row_table(writer, ENTITY_PROCESSES, "open_rows", "workspace, process_id, id");
	row_table(writer, ENTITY_GAPS, "gaps_rows", "workspace, time_ns, id");
	row_table(writer, ENTITY_EVENTS, "events_rows", "workspace, time_ns, id");
	rollup_table(writer);
	rolled_table(writer);
	retention_table(writer);
	migrate_table(writer);
	for (int kind = 0; kind < SERIES_KIND_END; kind++)
		points_table(writer, (enum series_kind)kind);
	for (int id = 0; id < ENTITY_END; id++) {
		if (clickhouse_has_parts((enum schema_entity_id)id))
			part_table(writer, (enum schema_entity_id)id);
	}
}

int clickhouse_schema_tables(const struct clickhouse_url *url, const struct store_retention *retention,
			     struct buf *ret_statements)
{
	struct writer writer = {.url = url, .retention = retention, .out = ret_statements, .mode = MODE_CREATE};

	all_tables(&writer);
	return buf_error(ret_statements);
}

int clickhouse_schema_alters(const struct clickhouse_url *url, const struct store_retention *retention,
			     const char *there, struct buf *ret_statements)
{
	struct writer writer = {.url = url, .retention = retention, .there = there, .out = ret_statements};

	writer.mode = MODE_ADD;
	all_tables(&writer);
	writer.mode = MODE_KEEP;
	all_tables(&writer);
	buf_append(ret_statements, "", 1);
	return buf_error(ret_statements);
}

int clickhouse_table_columns(const char *table, struct buf *ret_names)
{
	static const struct store_retention retention;
	static const struct clickhouse_url url;
	struct writer writer = {.url = &url, .retention = &retention, .only = table, .out = ret_names};

	writer.mode = MODE_NAMES;
	all_tables(&writer);
	return buf_error(ret_names);
}
