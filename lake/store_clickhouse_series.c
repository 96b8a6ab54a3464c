// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: reading time series. ClickHouse hands out points and roll-ups of one owner in order, and what a
// step is (resets of counters, rates, means) is folded here by the same code as for every store (lake/chunk.h). Spans
// that are not rolled up, or have got points since, are read from their points; they are few, and kept in memory while
// the roll-ups of the others stream by.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/series.h"
#include "lake/store_clickhouse.h"

// A step made from points.
struct kept {
	uint32_t label; // offset in labels
	uint64_t time_ns;
	struct series_sum sums[]; // of the metrics asked for
};

// A step as it was rolled up. Later versions of one come behind it.
struct rollup {
	bool any;
	char label[512];
	uint64_t time_ns;
	struct series_sum sums[SERIES_METRICS_MAX];
};

struct series_reading {
	struct clickhouse_reader *reader;
	struct series_giver giver;
	struct store_error *error;
	char label[512];
	bool any;
	// With roll-ups:
	int level; // -1: without
	uint64_t from_ns, to_ns;
	uint64_t upto, over_ns; // how far the roll-ups go
	struct buf late; // spans before over_ns that have got points since: numbers, with commas
	struct buf kept, labels, spans; // struct kept; texts; numbers of spans with points, each once for each label
	size_t kept_size, kept_at; // of one; the next to be handed on
	struct series_fold points; // folds points into steps of the level
	struct rollup rollup;
};

static void begin_label(struct series_reading *reading, const char *label, size_t length)
{
	const struct store_series_query *query = reading->giver.query;

	snprintf(reading->label, sizeof(reading->label), "%.*s", (int)length, label);
	reading->giver.label = reading->label;
	series_fold_begin(&reading->giver.fold, query->kind, query->metrics, query->metric_count,
			  query->step_ns ? query->step_ns : 1);
	reading->any = true;
}

static bool is_label(const struct series_reading *reading, const char *label, size_t length)
{
	return reading->any && strlen(reading->label) == length && !memcmp(reading->label, label, length);
}

static bool take_values(const struct store_series_query *query, struct clickhouse_cut *cut, uint64_t *value)
{
	memset(value, 0xff, SERIES_METRICS_MAX * sizeof(*value));
	for (size_t i = 0; i < query->metric_count; i++) {
		if (!clickhouse_take_known(cut, &value[query->metrics[i]]))
			return false;
	}
	return true;
}

// ---- from points alone ----------------------------------------------------------------------------------------------

static bool take_point(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct series_reading *reading = rows->context;
	const struct store_series_query *query = reading->giver.query;
	uint64_t value[SERIES_METRICS_MAX], time_ns;
	const char *label;
	size_t length;

	if (!clickhouse_take_text(cut, &label, &length) || !clickhouse_take_u64(cut, &time_ns) ||
	    !take_values(query, cut, value))
		return false;
	if (!is_label(reading, label, length)) {
		*ret_stop = reading->any ? series_give_step(&reading->giver) : 0;
		begin_label(reading, label, length);
	}
	if (*ret_stop)
		return true;
	if (time_ns < reading->from_ns) {
		series_fold_before(&reading->giver.fold, time_ns, value);
	} else if (!query->step_ns) {
		*ret_stop = series_give_point(&reading->giver, time_ns, value);
	} else {
		while (!*ret_stop && series_fold_point(&reading->giver.fold, time_ns, value))
			*ret_stop = series_give_step(&reading->giver);
	}
	return true;
}

// ---- with roll-ups --------------------------------------------------------------------------------------------------

// Steps of the level become steps of the query.
static int feed(struct series_reading *reading, const char *label, size_t length, uint64_t time_ns,
		const struct series_sum *sums)
{
	const struct store_series_query *query = reading->giver.query;
	struct series_sum all[SERIES_METRICS_MAX];
	int stop = 0;

	for (size_t i = 0; i < query->metric_count; i++)
		all[query->metrics[i]] = sums[i];
	if (!is_label(reading, label, length)) {
		stop = reading->any ? series_give_step(&reading->giver) : 0;
		begin_label(reading, label, length);
	}
	while (!stop && series_fold_sums(&reading->giver.fold, time_ns, all))
		stop = series_give_step(&reading->giver);
	return stop;
}

static int order(const char *label, uint64_t time_ns, const char *other_label, size_t other_length, uint64_t other_ns)
{
	size_t length = strlen(label);
	int by_label = memcmp(label, other_label, length < other_length ? length : other_length);

	if (!by_label && length != other_length)
		by_label = length < other_length ? -1 : 1;
	return by_label ? by_label : (time_ns > other_ns) - (time_ns < other_ns);
}

// What is kept and comes before a place. label NULL: all of it.
static int feed_kept(struct series_reading *reading, const char *label, size_t length, uint64_t time_ns)
{
	int stop = 0;

	while (!stop && reading->kept_at < reading->kept.length) {
		const struct kept *kept = (const void *)(reading->kept.data + reading->kept_at);
		const char *own = reading->labels.data + kept->label;

		if (label && order(own, kept->time_ns, label, length, time_ns) > 0)
			break;
		stop = feed(reading, own, strlen(own), kept->time_ns, kept->sums);
		reading->kept_at += reading->kept_size;
	}
	return stop;
}

// The fold's open step, of the label that came last.
static int keep_step(struct series_reading *reading)
{
	struct kept head = {.time_ns = reading->points.step_start_ns};
	const struct store_series_query *query = reading->giver.query;

	if (!reading->points.open)
		return 0;
	reading->points.open = false;
	head.label = (uint32_t)(reading->labels.length - strlen(reading->label) - 1);
	buf_append(&reading->kept, &head, sizeof(head));
	buf_append(&reading->kept, reading->points.sums, query->metric_count * sizeof(struct series_sum));
	return buf_error(&reading->kept);
}

static bool take_unrolled(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct series_reading *reading = rows->context;
	const struct store_series_query *query = reading->giver.query;
	uint64_t value[SERIES_METRICS_MAX], time_ns, mine, span;
	const char *label;
	size_t length;

	if (!clickhouse_take_text(cut, &label, &length) || !clickhouse_take_u64(cut, &time_ns) ||
	    !clickhouse_take_u64(cut, &mine) || !take_values(query, cut, value))
		return false;
	if (!is_label(reading, label, length)) {
		*ret_stop = keep_step(reading);
		snprintf(reading->label, sizeof(reading->label), "%.*s", (int)length, label);
		reading->any = true;
		buf_append(&reading->labels, reading->label, strlen(reading->label) + 1);
		series_fold_begin(&reading->points, query->kind, query->metrics, query->metric_count,
				  series_levels[reading->level].step_ns);
	}
	if (!mine) {
		*ret_stop = *ret_stop ? *ret_stop : keep_step(reading);
		series_fold_before(&reading->points, time_ns, value);
		return true;
	}
	clickhouse_fold_forget(&reading->points, time_ns);
	span = time_ns / series_levels[reading->level].span_ns;
	if (!reading->spans.length || memcmp(reading->spans.data + reading->spans.length - 8, &span, 8) != 0)
		buf_append(&reading->spans, &span, sizeof(span));
	while (!*ret_stop && series_fold_point(&reading->points, time_ns, value))
		*ret_stop = keep_step(reading);
	return true;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

// The step that came last, once it is clear that no later version of it comes.
static int feed_rollup(struct series_reading *reading)
{
	struct rollup *rollup = &reading->rollup;
	uint64_t span = rollup->time_ns / series_levels[reading->level].span_ns;
	size_t length = strlen(rollup->label);
	int stop;

	if (!rollup->any)
		return 0;
	rollup->any = false;
	if (reading->spans.length && bsearch(&span, reading->spans.data, reading->spans.length / 8, 8, by_number))
		return 0; // made from points
	stop = feed_kept(reading, rollup->label, length, rollup->time_ns);
	return stop ? stop : feed(reading, rollup->label, length, rollup->time_ns, rollup->sums);
}

static bool take_rollup(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct series_reading *reading = rows->context;
	const struct store_series_query *query = reading->giver.query;
	struct rollup *rollup = &reading->rollup;
	struct series_sum sums[SERIES_METRICS_MAX];
	uint64_t time_ns;
	const char *label;
	size_t length;

	if (!clickhouse_take_text(cut, &label, &length) || !clickhouse_take_u64(cut, &time_ns))
		return false;
	for (size_t i = 0; i < query->metric_count; i++) {
		if (!clickhouse_take_u64(cut, &sums[i].count) || !clickhouse_take_u64(cut, &sums[i].sum) ||
		    !clickhouse_take_u64(cut, &sums[i].min) || !clickhouse_take_u64(cut, &sums[i].max) ||
		    !clickhouse_take_u64(cut, &sums[i].covered_ns))
			return false;
	}
	if (rollup->any && order(rollup->label, rollup->time_ns, label, length, time_ns) != 0)
		*ret_stop = feed_rollup(reading);
	rollup->any = true;
	rollup->time_ns = time_ns;
	snprintf(rollup->label, sizeof(rollup->label), "%.*s", (int)length, label);
	memcpy(rollup->sums, sums, query->metric_count * sizeof(sums[0]));
	return true;
}

// ---- questions ------------------------------------------------------------------------------------------------------

struct numbers {
	char owner[24], from[24], to[24], over[24], upto[24], seconds[24];
};

static void parameters(const struct series_reading *reading, struct clickhouse_request *request,
		       struct numbers *numbers, uint64_t before_ns)
{
	const struct store_series_query *query = reading->giver.query;
	uint64_t from_ns = reading->from_ns > before_ns ? reading->from_ns - before_ns : 0;

	snprintf(numbers->owner, sizeof(numbers->owner), "%" PRIu64, query->owner_id);
	snprintf(numbers->from, sizeof(numbers->from), "%" PRIu64, from_ns);
	snprintf(numbers->to, sizeof(numbers->to), "%" PRIu64, reading->to_ns);
	snprintf(numbers->over, sizeof(numbers->over), "%" PRIu64, reading->over_ns);
	snprintf(numbers->upto, sizeof(numbers->upto), "%" PRIu64, reading->upto);
	clickhouse_parameter(request, "owner", numbers->owner);
	clickhouse_parameter(request, "from", numbers->from);
	clickhouse_parameter(request, "to", numbers->to);
	clickhouse_parameter(request, "over", numbers->over);
	clickhouse_parameter(request, "upto", numbers->upto);
	if (query->workspace)
		clickhouse_parameter(request, "workspace", query->workspace);
	if (query->label)
		clickhouse_parameter(request, "label", query->label);
	clickhouse_setting(request, "readonly", "2");
	if (query->time_limit_ms) {
		snprintf(numbers->seconds, sizeof(numbers->seconds), "%" PRIu64, query->time_limit_ms / 1000 + 1);
		clickhouse_setting(request, "max_execution_time", numbers->seconds);
	}
}

static void whose(struct buf *out, const struct store_series_query *query)
{
	buf_printf(out,
		   " WHERE p.owner_id = {owner:UInt64} AND p.time_ns >= {from:UInt64} AND p.time_ns < {to:UInt64}%s%s "
		   "AND " CLICKHOUSE_PUBLISHED,
		   query->workspace ? " AND p.workspace = {workspace:String}" : "",
		   query->label ? " AND p.label = {label:String}" : "");
}

static void select_points(struct buf *out, const struct store_series_query *query, const char *more)
{
	const struct series_schema *schema = &series_schemas[query->kind];
	bool amounts = query->kind == SERIES_RUN; // each batch brings some
	char name[64];

	buf_printf(out, "SELECT toString(p.label), p.time_ns%s", more);
	for (size_t i = 0; i < query->metric_count; i++) {
		clickhouse_metric_name(&schema->metrics[query->metrics[i]], name);
		buf_printf(out, amounts ? ", sum(p.`%s`)" : ", p.`%s`", name);
	}
	buf_printf(out, " FROM points_%s AS p", schema->name);
	whose(out, query);
}

static void in_order(struct buf *out, const struct store_series_query *query)
{
	buf_printf(out, "%s ORDER BY p.label, p.time_ns",
		   query->kind == SERIES_RUN ? " GROUP BY p.label, p.time_ns" : "");
}

static int run(struct series_reading *reading, struct buf *text, uint64_t before_ns,
	       bool (*row)(struct clickhouse_rows *, struct clickhouse_cut *, int *))
{
	struct clickhouse_request request = {.query = text->data};
	struct clickhouse_rows rows = {.row = row, .context = reading};
	struct numbers numbers;

	if (buf_error(text) < 0)
		return store_fail(reading->error, -ENOMEM, "out of memory");
	parameters(reading, &request, &numbers, before_ns);
	return clickhouse_rows_run(reading->reader->http, &request, &rows, reading->error);
}

static bool take_late(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct series_reading *reading = rows->context;
	uint64_t span;

	(void)ret_stop;
	if (!clickhouse_take_u64(cut, &span))
		return false;
	buf_printf(&reading->late, "%s%" PRIu64, reading->late.length ? "," : "", span);
	return true;
}

// How far the roll-ups go, and what has changed before that since.
static int ask_state(struct series_reading *reading)
{
	const struct series_level *level = &series_levels[reading->level];
	const struct store_series_query *query = reading->giver.query;
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int err = clickhouse_rolled(reading->reader->http, reading->level, &reading->upto, &reading->over_ns,
				    reading->error);

	if (err < 0 || reading->over_ns <= reading->from_ns)
		return err;
	buf_printf(&text, "SELECT DISTINCT toUInt64(intDiv(p.time_ns, %" PRIu64 ")) FROM points_%s AS p",
		   level->span_ns, series_schemas[query->kind].name);
	whose(&text, query);
	buf_append_string(&text, " AND p.time_ns < {over:UInt64} AND p.batch IN (SELECT batch FROM chain WHERE kind = "
				 "'batch' AND n > {upto:UInt64}) ORDER BY 1");
	return run(reading, &text, 0, take_late);
}

// Points of spans without roll-ups, and those before that counters rise from.
static int ask_points(struct series_reading *reading)
{
	const struct series_level *level = &series_levels[reading->level];
	CLEANUP(buf_free) struct buf text = BUF_INIT, mine = BUF_INIT, near = BUF_INIT;
	uint64_t reach = SERIES_BEFORE_NS / level->span_ns + (SERIES_BEFORE_NS % level->span_ns ? 1 : 0);
	const char *late = reading->late.length ? reading->late.data : "";
	int err;

	buf_printf(&mine, ", toUInt64(p.time_ns >= %" PRIu64 " AND (p.time_ns >= {over:UInt64}", reading->from_ns);
	if (*late)
		buf_printf(&mine, " OR intDiv(p.time_ns, %" PRIu64 ") IN (%s)", level->span_ns, late);
	buf_append_string(&mine, "))");
	buf_printf(&near, "(p.time_ns + %" PRIu64 " >= {over:UInt64}", SERIES_BEFORE_NS);
	for (uint64_t i = 0; *late && i <= reach; i++)
		buf_printf(&near, " OR intDiv(p.time_ns, %" PRIu64 ") + %" PRIu64 " IN (%s)", level->span_ns, i, late);
	buf_append_char(&near, ')');
	buf_append_char(&mine, '\0');
	buf_append_char(&near, '\0');
	if (buf_error(&mine) < 0 || buf_error(&near) < 0)
		return store_fail(reading->error, -ENOMEM, "out of memory");
	select_points(&text, reading->giver.query, mine.data);
	buf_printf(&text, " AND %s", near.data);
	in_order(&text, reading->giver.query);
	err = run(reading, &text, SERIES_BEFORE_NS, take_unrolled);
	if (!err)
		err = keep_step(reading);
	if (!err && (buf_error(&reading->labels) < 0 || buf_error(&reading->spans) < 0))
		err = store_fail(reading->error, -ENOMEM, "out of memory");
	if (!err && reading->spans.length)
		qsort(reading->spans.data, reading->spans.length / 8, 8, by_number);
	reading->any = false;
	return err;
}

static int ask_rollups(struct series_reading *reading)
{
	static const char *const columns[] = {"counts", "sums", "least", "most", "covered"};
	const struct store_series_query *query = reading->giver.query;
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	buf_append_string(&text, "SELECT toString(p.label), p.time_ns");
	for (size_t i = 0; i < query->metric_count; i++) {
		for (size_t c = 0; c < 5; c++)
			buf_printf(&text, ", p.%s[%u]", columns[c], query->metrics[i] + 1U);
	}
	buf_append_string(&text, " FROM rollup_steps AS p");
	whose(&text, query);
	buf_printf(&text, " AND p.kind = '%s' AND p.level_s = %" PRIu64 " ORDER BY p.label, p.time_ns, p.version",
		   series_schemas[query->kind].name, series_levels[reading->level].step_ns / 1000000000);
	return run(reading, &text, 0, take_rollup);
}

static int read_rolled(struct series_reading *reading)
{
	int err = ask_state(reading);

	reading->kept_size = sizeof(struct kept) + reading->giver.query->metric_count * sizeof(struct series_sum);
	if (!err)
		err = ask_points(reading);
	if (!err)
		err = ask_rollups(reading);
	if (!err)
		err = feed_rollup(reading);
	return err ? err : feed_kept(reading, NULL, 0, 0);
}

static int read_points(struct series_reading *reading)
{
	const struct store_series_query *query = reading->giver.query;
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	select_points(&text, query, "");
	in_order(&text, query);
	return run(reading, &text, query->step_ns ? SERIES_BEFORE_NS : 0, take_point);
}

int clickhouse_series(struct store_reader *base, const struct store_series_query *query, store_step_fn step, void *data,
		      struct store_error *error)
{
	CLEANUP(cleanup_free) struct series_reading *reading = calloc(1, sizeof(*reading));
	uint64_t step_ns = query->step_ns ? query->step_ns : 1;
	char text[128];
	const char *wrong = series_query_wrong(query, text);
	int err;

	if (!reading)
		return store_fail(error, -ENOMEM, "out of memory");
	if (wrong)
		return store_fail(error, -EINVAL, "%s", wrong);
	*reading = (struct series_reading){
		.reader = (struct clickhouse_reader *)base,
		.giver = {.query = query, .step = step, .data = data},
		.error = error,
		.level = series_level_of(query->step_ns),
		.from_ns = query->from_ns - query->from_ns % step_ns,
		.to_ns = query->to_ns > LAKE_U64_MAX - step_ns ? LAKE_U64_MAX
							       : (query->to_ns + step_ns - 1) / step_ns * step_ns,
	};
	err = reading->level < 0 ? read_points(reading) : read_rolled(reading);
	buf_free(&reading->late);
	buf_free(&reading->kept);
	buf_free(&reading->labels);
	buf_free(&reading->spans);
	return err ? err : series_give_step(&reading->giver);
}
