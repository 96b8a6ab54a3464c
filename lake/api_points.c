// SPDX-License-Identifier: Apache-2.0
// API, the points of time series: several metrics of one owner over a span, in steps. One number for each metric and
// step; a step without a point is left out, a metric unknown in it is null.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lake/api.h"

enum { POINTS_MAX = 100000, POINTS_WANTED = 720 };
#define POINTS_SECOND UINT64_C(1000000000)

enum points_statistic {
	POINTS_MEAN,
	POINTS_MINIMUM,
	POINTS_MAXIMUM,
	POINTS_SUM,
	POINTS_COUNT,
	POINTS_STATISTICS
};
static const char *const points_statistics[] = {"mean", "min", "max", "sum", "count"};

struct points {
	struct api *api;
	struct store_series_query query;
	uint8_t metrics[SERIES_METRICS_MAX];
	enum points_statistic statistic;
	enum query_format format;
	char label[STORE_CURSOR_SIZE]; // of the series being written
	bool any;
	uint64_t count;
};

// --- what is asked -----------------------------------------------------------------------------------------------

static const char *points_take(struct points *points, const char *name, int *error)
{
	bool twice = false;
	const char *value = query_parameter_take(points->api->request->parameters, name, &twice);

	if (twice && *error == 0)
		*error = query_fail(&points->api->error, "given_twice", name,
				    "%s may be given once", name);
	return *error ? NULL : value;
}

static int points_kind(struct points *points)
{
	int error = 0, kind;
	const char *name = points_take(points, "kind", &error), *owner;

	owner = points_take(points, "owner_id", &error);
	if (error)
		return error;
	kind = name ? series_kind_find(name) : -1;
	if (kind < 0)
		return query_fail(&points->api->error, "bad_value", "kind",
				  "kind takes host, disk, mount, nfs, lustre, cgroup, cgroup_io, "
				  "process or run");
	points->query.kind = (enum series_kind)kind;
	if (!owner || !api_id(owner, &points->query.owner_id))
		return query_fail(&points->api->error, "bad_value", "owner_id",
				  "owner_id takes the id of one of the %s",
				  series_schemas[kind].owner);
	return 0;
}

static int points_metrics(struct points *points)
{
	const struct series_schema *schema = &series_schemas[points->query.kind];
	int error = 0, at;
	const char *value = points_take(points, "metrics", &error);
	char name[64];

	if (error)
		return error;
	points->query.metrics = points->metrics;
	if (!value) {
		for (; points->query.metric_count < schema->metric_count;
		     points->query.metric_count++)
			points->metrics[points->query.metric_count] =
				(uint8_t)points->query.metric_count;
		return 0;
	}
	while (*value) {
		size_t length = strcspn(value, ",");

		snprintf(name, sizeof(name), "%.*s", (int)(length < 63 ? length : 63), value);
		at = series_metric_find(points->query.kind, name);
		if (at < 0)
			return query_fail(&points->api->error, "bad_value", "metrics",
					  "%s has no metric %s", schema->name, name);
		for (size_t i = 0; i < points->query.metric_count; i++) {
			if (points->metrics[i] == at)
				return query_fail(&points->api->error, "given_twice", "metrics",
						  "%s is named twice", name);
		}
		points->metrics[points->query.metric_count++] = (uint8_t)at;
		value += length + (value[length] == ',');
	}
	return points->query.metric_count ? 0
					  : query_fail(&points->api->error, "bad_value", "metrics",
						       "metrics takes names, separated by commas");
}

static int points_moment(struct points *points, const char *name, uint64_t otherwise,
			 uint64_t *ret_value)
{
	uint64_t now_ns = points->api->request->now_ns;
	int error = 0;
	const char *value = points_take(points, name, &error);
	char ago[32];

	if (error)
		return error;
	*ret_value = otherwise;
	snprintf(ago, sizeof(ago), "-%s", value ? value : "");
	if (value && !query_number(value, QUERY_UNIT_MOMENT, now_ns, ret_value) &&
	    !query_number(ago, QUERY_UNIT_MOMENT, now_ns, ret_value))
		return query_fail(&points->api->error, "bad_value", name,
				  "%s takes a time: 2026-01-31T10:00:00Z, nanoseconds since 1970, "
				  "or an age such as 2h",
				  name);
	return 0;
}

// The smallest of the usual steps that gives no more points than a screen shows.
static uint64_t points_step(uint64_t span_ns)
{
	static const unsigned steps_s[] = {10,	 20,   30,   60,   120,	  300,	 600,
					   1200, 1800, 3600, 7200, 14400, 43200, 86400};
	enum { STEPS = sizeof(steps_s) / sizeof(steps_s[0]) };
	unsigned i = 0;

	while (i + 1 < STEPS && span_ns / (steps_s[i] * POINTS_SECOND) > POINTS_WANTED)
		i++;
	return steps_s[i] * POINTS_SECOND;
}

static int points_span(struct points *points)
{
	struct store_series_query *query = &points->query;
	int error = points_moment(points, "until", points->api->request->now_ns, &query->to_ns);
	const char *step, *statistic;

	if (error == 0)
		error = points_moment(points, "since",
				      query->to_ns > 3600 * POINTS_SECOND
					      ? query->to_ns - 3600 * POINTS_SECOND
					      : 0,
				      &query->from_ns);
	if (error < 0)
		return error;
	if (query->from_ns >= query->to_ns)
		return query_fail(&points->api->error, "bad_value", "since",
				  "since must be before until");
	query->label = points_take(points, "label", &error);
	step = points_take(points, "step", &error);
	statistic = points_take(points, "statistic", &error);
	query->step_ns = points_step(query->to_ns - query->from_ns);
	if (error == 0 && step && !query_number(step, QUERY_UNIT_NS, 0, &query->step_ns))
		return query_fail(
			&points->api->error, "bad_value", "step",
			"step takes a time such as 10s or 1h, or 0 for points as they came");
	if (error == 0 && query->step_ns &&
	    (query->to_ns - query->from_ns) / query->step_ns > POINTS_MAX)
		return query_fail(&points->api->error, "bad_value", "step",
				  "that are more than %d steps", POINTS_MAX);
	while (statistic && points->statistic < POINTS_STATISTICS &&
	       strcmp(points_statistics[points->statistic], statistic) != 0)
		points->statistic++;
	if (points->statistic == POINTS_STATISTICS)
		return query_fail(&points->api->error, "bad_value", "statistic",
				  "statistic takes mean, min, max, sum or count");
	return error;
}

// --- what is answered --------------------------------------------------------------------------------------------

static void points_number(struct json *json, const struct store_step *step,
			  enum points_statistic statistic)
{
	double value = statistic == POINTS_MEAN	     ? step->mean
		       : statistic == POINTS_MINIMUM ? step->min
		       : statistic == POINTS_MAXIMUM ? step->max
						     : step->sum;

	if (statistic == POINTS_COUNT)
		json_u64(json, step->count);
	else if (step->count == 0)
		json_null(json);
	else if (value >= 0 && value < 9e15 && value == floor(value))
		json_u64(json, (uint64_t)value);
	else
		json_double(json, value);
}

static void points_line(struct points *points, const char *label, uint64_t time_ns,
			const struct store_step *steps)
{
	struct buf *out = &points->api->out;
	bool csv = points->format == QUERY_CSV;
	struct json json = json_to(out);

	if (csv) {
		query_write_csv(out, label, strlen(label));
		buf_append_char(out, ',');
		json_u64(&json, time_ns);
	} else {
		json_open_object(&json);
		json_put_string(&json, "label", label);
		json_put_u64(&json, "time_ns", time_ns);
	}
	for (size_t i = 0; i < points->query.metric_count; i++) {
		if (!csv)
			json_key(&json, series_schemas[points->query.kind]
						.metrics[points->metrics[i]]
						.name);
		if (csv && steps[i].count == 0 && points->statistic != POINTS_COUNT)
			buf_append_char(out, ',');
		else
			points_number(&json, &steps[i], points->statistic);
	}
	buf_append_string(out, csv ? "\r\n" : "}\n");
}

static int points_one(void *data, const char *label, uint64_t time_ns,
		      const struct store_step *steps)
{
	struct points *points = data;
	struct buf *out = &points->api->out;
	struct json json = json_to(out);

	label = label ? label : "";
	if (++points->count > POINTS_MAX * 10)
		return -E2BIG;
	if (points->format != QUERY_JSON) {
		points_line(points, label, time_ns, steps);
		return api_flush(points->api);
	}
	if (!points->any || strncmp(points->label, label, sizeof(points->label) - 1) != 0) {
		buf_append_string(out, points->any ? "]},{\"label\":" : "{\"label\":");
		json_string(&json, label);
		buf_append_string(out, ",\"points\":[");
		snprintf(points->label, sizeof(points->label), "%s", label);
		points->any = true;
	} else {
		buf_append_char(out, ',');
	}
	json = json_to(out);
	json_open_array(&json);
	json_u64(&json, time_ns);
	for (size_t i = 0; i < points->query.metric_count; i++)
		points_number(&json, &steps[i], points->statistic);
	json_close_array(&json);
	return api_flush(points->api);
}

static void points_heading(struct points *points)
{
	const struct series_schema *schema = &series_schemas[points->query.kind];
	struct buf *out = &points->api->out;
	struct json json = json_to(out);

	if (points->format == QUERY_CSV) {
		buf_append_string(out, "label,time_ns");
		for (size_t i = 0; i < points->query.metric_count; i++)
			buf_printf(out, ",%s", schema->metrics[points->metrics[i]].name);
		buf_append_string(out, "\r\n");
	}
	if (points->format != QUERY_JSON)
		return;
	json_open_object(&json);
	json_put_string(&json, "kind", schema->name);
	buf_printf(out, ",\"owner_id\":\"%llu\"", (unsigned long long)points->query.owner_id);
	json_put_u64(&json, "step_ns", points->query.step_ns);
	json_put_string(&json, "statistic", points_statistics[points->statistic]);
	json_key(&json, "metrics");
	json_open_array(&json);
	for (size_t i = 0; i < points->query.metric_count; i++)
		json_string(&json, schema->metrics[points->metrics[i]].name);
	json_close_array(&json);
	buf_append_string(out, ",\"series\":[");
}

void api_points(struct api *api)
{
	struct points points = {
		.api = api,
		.query = {.workspace = api->request->workspace,
			  .time_limit_ms = QUERY_TIME_LIMIT_MS},
	};
	int error;

	if (!api_format(api, &points.format))
		return;
	error = points_kind(&points);
	if (error == 0)
		error = points_metrics(&points);
	if (error == 0)
		error = points_span(&points);
	if (error == 0)
		error = query_reject_unused(api->request->parameters, NULL, &api->error);
	if (error < 0) {
		api_problem_query(api, error);
		return;
	}
	points_heading(&points);
	error = store_series(api->reader, &points.query, points_one, &points, &api->store_error);
	if (error == -E2BIG)
		api_problem(api, 400, "too_many_points", "more than %d points: take a larger step",
			    POINTS_MAX * 10);
	else if (error != 0)
		api_problem_store(api, error);
	if (error != 0)
		return;
	if (points.format == QUERY_JSON)
		buf_append_string(&api->out, points.any ? "]}]}\n" : "]}\n");
	api_finish(api);
}
