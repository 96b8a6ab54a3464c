// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: time series. ClickHouse hands out the points of one owner in order, and what a step is (resets of
// counters, rates, means) is folded here by the same code as for every store (lake/chunk.h).
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/chunk.h"
#include "lake/store_clickhouse.h"
#include "lake/store_sqlite_series.h"

struct series_reading {
	const struct store_series_query *query;
	store_step_fn step;
	void *data;
	char label[512];
	bool any;
	struct series_fold fold;
};

static int give_step(struct series_reading *reading)
{
	const struct store_series_query *query = reading->query;
	const struct series_schema *schema = &series_schemas[query->kind];
	struct store_step steps[SERIES_METRICS_MAX];
	bool any = false;

	if (!reading->fold.open)
		return 0;
	reading->fold.open = false;
	for (size_t i = 0; i < query->metric_count; i++) {
		series_step_of_sum(&schema->metrics[query->metrics[i]], &reading->fold.sums[i], &steps[i]);
		any |= steps[i].count > 0;
	}
	return any ? reading->step(reading->data, reading->label, reading->fold.step_start_ns, steps) : 0;
}

static int give_point(struct series_reading *reading, uint64_t time_ns, const uint64_t *value)
{
	const struct store_series_query *query = reading->query;
	const struct series_schema *schema = &series_schemas[query->kind];
	struct store_step steps[SERIES_METRICS_MAX];
	bool any = false;

	for (size_t i = 0; i < query->metric_count; i++) {
		uint64_t known = value[query->metrics[i]];
		double number = (double)known * (schema->metrics[query->metrics[i]].real ? 1e-3 : 1);

		steps[i] = (struct store_step){.count = known != LAKE_NULL};
		if (known == LAKE_NULL)
			continue;
		steps[i].mean = steps[i].min = steps[i].max = steps[i].sum = number;
		any = true;
	}
	return any ? reading->step(reading->data, reading->label, time_ns, steps) : 0;
}

static void begin_label(struct series_reading *reading, const char *label, size_t length)
{
	const struct store_series_query *query = reading->query;

	snprintf(reading->label, sizeof(reading->label), "%.*s", (int)length, label);
	series_fold_begin(&reading->fold, query->kind, query->metrics, query->metric_count,
			  query->step_ns ? query->step_ns : 1);
	reading->any = true;
}

static bool take_point(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct series_reading *reading = rows->context;
	const struct store_series_query *query = reading->query;
	uint64_t value[SERIES_METRICS_MAX], time_ns;
	const char *label;
	size_t length;

	memset(value, 0xff, sizeof(value));
	if (!clickhouse_take_text(cut, &label, &length) || !clickhouse_take_u64(cut, &time_ns))
		return false;
	for (size_t i = 0; i < query->metric_count; i++) {
		if (!clickhouse_take_known(cut, &value[query->metrics[i]]))
			return false;
	}
	if (!reading->any || strlen(reading->label) != length || memcmp(reading->label, label, length) != 0) {
		*ret_stop = reading->any ? give_step(reading) : 0;
		begin_label(reading, label, length);
	}
	if (*ret_stop)
		return true;
	if (time_ns < query->from_ns) {
		series_fold_before(&reading->fold, time_ns, value);
	} else if (!query->step_ns) {
		*ret_stop = give_point(reading, time_ns, value);
	} else {
		while (!*ret_stop && series_fold_point(&reading->fold, time_ns, value))
			*ret_stop = give_step(reading);
	}
	return true;
}

static int check(const struct store_series_query *query, struct store_error *error)
{
	if (query->metric_count > SERIES_METRICS_MAX || query->kind >= SERIES_KIND_END)
		return clickhouse_fail(error, -EINVAL, "there is no such series");
	for (size_t i = 0; i < query->metric_count; i++) {
		if (query->metrics[i] >= series_schemas[query->kind].metric_count)
			return clickhouse_fail(error, -EINVAL, "%s has no such metric",
					       series_schemas[query->kind].name);
	}
	return 0;
}

static void make_query(struct buf *out, const struct store_series_query *query)
{
	const struct series_schema *schema = &series_schemas[query->kind];
	bool amounts = query->kind == SERIES_RUN; // each batch brings some
	char name[64];

	buf_append_string(out, "SELECT toString(p.label), p.time_ns");
	for (size_t i = 0; i < query->metric_count; i++) {
		clickhouse_metric_name(&schema->metrics[query->metrics[i]], name);
		buf_printf(out, amounts ? ", sum(p.`%s`)" : ", p.`%s`", name);
	}
	buf_printf(out,
		   " FROM points_%s AS p WHERE p.owner_id = {owner:UInt64} AND p.time_ns >= {from:UInt64} AND "
		   "p.time_ns < {to:UInt64}%s%s AND " CLICKHOUSE_PUBLISHED "%s ORDER BY p.label, p.time_ns",
		   schema->name, query->workspace ? " AND p.workspace = {workspace:String}" : "",
		   query->label ? " AND p.label = {label:String}" : "", amounts ? " GROUP BY p.label, p.time_ns" : "");
}

int clickhouse_series(struct store_reader *base, const struct store_series_query *query, store_step_fn step, void *data,
		      struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	CLEANUP(cleanup_free) struct series_reading *reading = calloc(1, sizeof(*reading));
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {0};
	struct clickhouse_rows rows = {.row = take_point, .context = reading};
	uint64_t before = query->step_ns ? SERIES_BEFORE_NS : 0;
	char owner[24], from[24], to[24], seconds[24];
	int err = check(query, error);

	if (!reading)
		return clickhouse_fail(error, -ENOMEM, "out of memory");
	if (err < 0)
		return err;
	*reading = (struct series_reading){.query = query, .step = step, .data = data};
	make_query(&text, query);
	if (buf_error(&text) < 0)
		return clickhouse_fail(error, -ENOMEM, "out of memory");
	snprintf(owner, sizeof(owner), "%" PRIu64, query->owner_id);
	snprintf(from, sizeof(from), "%" PRIu64, query->from_ns > before ? query->from_ns - before : 0);
	snprintf(to, sizeof(to), "%" PRIu64, query->to_ns);
	request.query = text.data;
	clickhouse_parameter(&request, "owner", owner);
	clickhouse_parameter(&request, "from", from);
	clickhouse_parameter(&request, "to", to);
	if (query->workspace)
		clickhouse_parameter(&request, "workspace", query->workspace);
	if (query->label)
		clickhouse_parameter(&request, "label", query->label);
	clickhouse_setting(&request, "readonly", "2");
	if (query->time_limit_ms) {
		snprintf(seconds, sizeof(seconds), "%" PRIu64, query->time_limit_ms / 1000 + 1);
		clickhouse_setting(&request, "max_execution_time", seconds);
	}
	err = clickhouse_rows_run(reader->http, &request, &rows, error);
	return err ? err : give_step(reading);
}
