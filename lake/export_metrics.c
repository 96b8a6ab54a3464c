// SPDX-License-Identifier: Apache-2.0
// OpenTelemetry metrics. process.* are sums over the recorded processes of a host, and again of each run that lives
// there, told apart by tracer.run.id; system.* come from the host's time series. What is unknown has no point.
#include "lake/export_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "lake/export_private.h"
#include "lake/otlp.h"

static const uint64_t SERIES_AGE_NS = UINT64_C(300) * 1000000000;

struct metrics {
	struct store_reader *reader;
	struct store_error *error;
	struct buf *out;
	struct json json;
	uint64_t now_ns;
	const char *name; // of the metric that is open; NULL: none
	// Of the host at work.
	const union lake_slot *host;
};

// --- points
// ------------------------------------------------------------------------------------------------------------

static void close_metric(struct metrics *metrics)
{
	struct json *json = &metrics->json;

	if (!metrics->name)
		return;
	json_close_array(json);
	json_put_u64(json, "aggregationTemporality", 2);
	json_put_bool(json, "isMonotonic", true);
	json_close_object(json);
	json_close_object(json);
	metrics->name = NULL;
}

static void open_metric(struct metrics *metrics, const char *name, const char *unit)
{
	struct json *json = &metrics->json;

	if (metrics->name && !strcmp(metrics->name, name))
		return;
	close_metric(metrics);
	metrics->name = name;
	json_open_object(json);
	json_put_string(json, "name", name);
	json_put_string(json, "unit", unit);
	json_key(json, "sum");
	json_open_object(json);
	json_key(json, "dataPoints");
	json_open_array(json);
}

static void put_moment(struct json *json, const char *key, uint64_t ns)
{
	char text[24];

	if (ns == LAKE_NULL)
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)ns);
	json_put_string(json, key, text);
}

struct point {
	const char *name, *unit, *attribute, *value;
	unsigned column; // of the aggregate
	bool seconds; // the column is in nanoseconds
};

// In the order of names: points of one metric stand together.
static const struct point points[] = {
	{"process.cpu.time", "s", "cpu.mode", "user", AGGREGATE_cpu_user_ns, true},
	{"process.cpu.time", "s", "cpu.mode", "system", AGGREGATE_cpu_system_ns, true},
	{"process.disk.io", "By", "disk.io.direction", "read", AGGREGATE_read_bytes, false},
	{"process.disk.io", "By", "disk.io.direction", "write", AGGREGATE_write_bytes, false},
	{"process.context_switches", "{context_switch}", "process.context_switch.type", "voluntary",
	 AGGREGATE_voluntary_switches, false},
	{"process.context_switches", "{context_switch}", "process.context_switch.type", "involuntary",
	 AGGREGATE_involuntary_switches, false},
	{"process.paging.faults", "{fault}", "system.paging.fault.type", "minor", AGGREGATE_minor_faults, false},
	{"process.paging.faults", "{fault}", "system.paging.fault.type", "major", AGGREGATE_major_faults, false},
	{"tracer.processes", "{process}", NULL, NULL, AGGREGATE_processes, false},
	{"tracer.process.failures", "{process}", NULL, NULL, AGGREGATE_failures, false},
};

enum { POINTS = sizeof(points) / sizeof(points[0]) };

static void put_point(struct metrics *metrics, const struct point *point, uint64_t start, uint64_t value,
		      const union lake_slot *run)
{
	struct json *json = &metrics->json;
	char text[24];

	if (value == LAKE_NULL)
		return;
	open_metric(metrics, point->name, point->unit);
	json_open_object(json);
	put_moment(json, "startTimeUnixNano", start);
	put_moment(json, "timeUnixNano", metrics->now_ns);
	if (point->seconds) {
		json_put_double(json, "asDouble", (double)value / 1e9);
	} else {
		snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
		json_put_string(json, "asInt", text);
	}
	json_key(json, "attributes");
	json_open_array(json);
	otlp_put_text(json, point->attribute ? point->attribute : "", point->attribute ? point->value : NULL);
	if (run) {
		otlp_put_text(json, "tracer.run.id", run[RUNS_run].text ? run[RUNS_run].text->bytes : NULL);
		otlp_put_text(json, "tracer.run.name", run[RUNS_run_name].text ? run[RUNS_run_name].text->bytes : NULL);
		otlp_put_text(json, "tracer.engine", run[RUNS_engine].text ? run[RUNS_engine].text->bytes : NULL);
	}
	json_close_array(json);
	json_close_object(json);
}

static void put_points(struct metrics *metrics, const union lake_slot *slot, int aggregate, const union lake_slot *run)
{
	for (size_t i = 0; i < POINTS; i++)
		put_point(metrics, &points[i], slot[(unsigned)aggregate + AGGREGATE_start_ns].u64,
			  slot[(unsigned)aggregate + points[i].column].u64, run);
	close_metric(metrics);
}

// --- the host's own
// ------------------------------------------------------------------------------------------------------

static const struct {
	struct point point;
	const char *metric;
} system_points[] = {
	{{"system.cpu.time", "s", "cpu.mode", "user", 0, true}, "cpu_user_ns"},
	{{"system.cpu.time", "s", "cpu.mode", "system", 0, true}, "cpu_system_ns"},
	{{"system.cpu.time", "s", "cpu.mode", "idle", 0, true}, "cpu_idle_ns"},
	{{"system.cpu.time", "s", "cpu.mode", "iowait", 0, true}, "cpu_iowait_ns"},
	{{"system.paging.faults", "{fault}", "system.paging.fault.type", "major", 0, false}, "major_faults"},
};

enum { SYSTEM_POINTS = sizeof(system_points) / sizeof(system_points[0]) };

struct latest {
	struct store_step steps[SYSTEM_POINTS];
	bool any;
};

static int see_point(void *data, const char *label, uint64_t time_ns, const struct store_step *steps)
{
	struct latest *latest = data;

	(void)label, (void)time_ns;
	memcpy(latest->steps, steps, sizeof(latest->steps));
	latest->any = true;
	return 0;
}

static int put_system(struct metrics *metrics)
{
	uint8_t columns[SYSTEM_POINTS];
	struct latest latest = {.any = false};
	struct store_series_query query = {
		.kind = SERIES_HOST,
		.owner_id = metrics->host[HOSTS_id].u64,
		.metrics = columns,
		.metric_count = SYSTEM_POINTS,
		.from_ns = metrics->now_ns > SERIES_AGE_NS ? metrics->now_ns - SERIES_AGE_NS : 0,
		.to_ns = metrics->now_ns + SERIES_AGE_NS,
	};
	int error;

	for (size_t i = 0; i < SYSTEM_POINTS; i++)
		columns[i] = (uint8_t)series_metric_find(SERIES_HOST, system_points[i].metric);
	error = store_series(metrics->reader, &query, see_point, &latest, metrics->error);
	for (size_t i = 0; i < SYSTEM_POINTS && !error && latest.any; i++)
		put_point(metrics, &system_points[i].point, LAKE_NULL,
			  latest.steps[i].count ? (uint64_t)latest.steps[i].max : LAKE_NULL, NULL);
	close_metric(metrics);
	return error;
}

// --- all of it
// -----------------------------------------------------------------------------------------------------------

static int see_run(void *data, const union lake_slot *slot)
{
	put_points(data, slot, schema_entities[ENTITY_RUNS].aggregate, slot);
	return 0;
}

static int put_runs(struct metrics *metrics)
{
	struct store_filter filters[] = {
		{.column = RUNS_host_id, .op = STORE_EQ, .value = metrics->host[HOSTS_host_id]},
		{.column = RUNS_living, .op = STORE_GT, .value.u64 = 0},
	};
	struct store_query query = {
		.entity = ENTITY_RUNS,
		.workspace = metrics->host[HOSTS_workspace].text ? metrics->host[HOSTS_workspace].text->bytes : "",
		.filters = filters,
		.filter_count = 2,
		.sort = RUNS_start_ns,
		.descending = true,
		.limit = EXPORT_METRICS_RUNS_MAX,
	};
	char cursor[STORE_CURSOR_SIZE];

	return store_select(metrics->reader, &query, see_run, metrics, cursor, metrics->error);
}

static int put_host(struct metrics *metrics)
{
	struct json *json = &metrics->json;
	int error;

	json_open_object(json);
	json_key(json, "resource");
	otlp_put_resource(json, metrics->host, "tracer");
	json_key(json, "scopeMetrics");
	json_open_array(json);
	json_open_object(json);
	otlp_put_scope(json);
	json_key(json, "metrics");
	json_open_array(json);
	error = put_system(metrics);
	put_points(metrics, metrics->host, schema_entities[ENTITY_HOSTS].aggregate, NULL);
	error = error ? error : put_runs(metrics);
	json_close_array(json);
	otlp_put_schema(json);
	json_close_object(json);
	json_close_array(json);
	otlp_put_schema(json);
	json_close_object(json);
	return error;
}

struct hosts {
	struct arena arena;
	const union lake_slot *rows[EXPORT_METRICS_HOSTS_MAX];
	size_t count;
};

static int see_host(void *data, const union lake_slot *slot)
{
	struct hosts *hosts = data;

	if (hosts->count == EXPORT_METRICS_HOSTS_MAX)
		return 0;
	hosts->rows[hosts->count] = export_copy_row(&hosts->arena, &schema_entities[ENTITY_HOSTS], slot);
	return hosts->rows[hosts->count++] ? 0 : -ENOMEM;
}

// A reader answers one question at a time: the hosts are read before more is asked about each.
int export_metrics(struct store_reader *reader, uint64_t now_ns, struct buf *out, size_t *ret_hosts,
		   struct store_error *error)
{
	struct metrics metrics = {.reader = reader, .error = error, .out = out, .json = json_to(out), .now_ns = now_ns};
	struct store_query query = {
		.entity = ENTITY_HOSTS,
		.sort = HOSTS_last_seen_ns,
		.descending = true,
		.limit = EXPORT_METRICS_HOSTS_MAX,
	};
	struct hosts hosts = {.count = 0};
	char cursor[STORE_CURSOR_SIZE];
	int result;

	arena_init(&hosts.arena, 64 * 1024);
	result = store_select(reader, &query, see_host, &hosts, cursor, error);
	json_open_object(&metrics.json);
	json_key(&metrics.json, "resourceMetrics");
	json_open_array(&metrics.json);
	for (size_t i = 0; i < hosts.count && !result; i++) {
		metrics.host = hosts.rows[i];
		result = put_host(&metrics);
	}
	json_close_array(&metrics.json);
	json_close_object(&metrics.json);
	*ret_hosts = hosts.count;
	arena_free(&hosts.arena);
	return result ? result : buf_error(out);
}
