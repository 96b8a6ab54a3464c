// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: everything there is, for a move to another store.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/series.h"
#include "lake/store_clickhouse.h"

// ---- cursors --------------------------------------------------------------------------------------------------------

struct cursors {
	store_cursor_fn fn;
	void *data;
};

static bool take_cursor(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct cursors *cursors = rows->context;
	struct store_cursor cursor = {0};
	const char *workspace, *host_id, *epoch;
	size_t workspace_length, host_length, epoch_length;
	char text[17] = "";

	if (!clickhouse_take_text(cut, &workspace, &workspace_length) ||
	    !clickhouse_take_text(cut, &host_id, &host_length) || !clickhouse_take_text(cut, &epoch, &epoch_length) ||
	    !clickhouse_take_u64(cut, &cursor.acked))
		return false;
	if (epoch_length != 16)
		return true;
	memcpy(text, epoch, 16);
	cursor.epoch = strtoull(text, NULL, 16);
	snprintf(cursor.workspace, sizeof(cursor.workspace), "%.*s", (int)workspace_length, workspace);
	snprintf(cursor.host_id, sizeof(cursor.host_id), "%.*s", (int)host_length, host_id);
	*ret_stop = cursors->fn(cursors->data, &cursor);
	return true;
}

int clickhouse_each_cursor(struct store_reader *base, store_cursor_fn fn, void *data, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	struct cursors cursors = {fn, data};
	struct clickhouse_rows rows = {.row = take_cursor, .context = &cursors};
	struct clickhouse_request request = {
		.query = "SELECT toString(workspace), toString(host_id), toString(assumeNotNull(epoch)) AS e, "
			 "assumeNotNull(max(acked)) FROM hosts_part WHERE epoch IS NOT NULL AND acked IS NOT NULL "
			 "AND " CLICKHOUSE_PARTS " GROUP BY workspace, host_id, epoch ORDER BY workspace, host_id, e",
		.timeout_ms = 600000,
	};

	return clickhouse_rows_run(reader->http, &request, &rows, error);
}

// ---- points ---------------------------------------------------------------------------------------------------------

struct points {
	const struct series_schema *schema;
	struct lake_point *point;
	struct arena arena;
	store_point_fn fn;
	void *data;
};

static bool take_point(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct points *points = rows->context;
	struct lake_point *point = points->point;
	const char *workspace, *host_id, *label;
	size_t workspace_length, host_length, label_length;
	struct lake_text *text;
	char names[2][128];

	if (!clickhouse_take_text(cut, &workspace, &workspace_length) ||
	    !clickhouse_take_text(cut, &host_id, &host_length) || !clickhouse_take_u64(cut, &point->series_id) ||
	    !clickhouse_take_u64(cut, &point->owner_id) || !clickhouse_take_text(cut, &label, &label_length) ||
	    !clickhouse_take_u64(cut, &point->time_ns))
		return false;
	for (unsigned i = 0; i < points->schema->metric_count; i++) {
		if (!clickhouse_take_known(cut, &point->value[i]))
			return false;
	}
	arena_reset(&points->arena);
	snprintf(names[0], sizeof(names[0]), "%.*s", (int)workspace_length, workspace);
	snprintf(names[1], sizeof(names[1]), "%.*s", (int)host_length, host_id);
	text = arena_alloc(&points->arena, sizeof(*text) + label_length + 1);
	if (!text) {
		cut->out_of_memory = true;
		return false;
	}
	memset(text, 0, sizeof(*text));
	text->length = (uint32_t)label_length;
	memcpy(text->bytes, label, label_length);
	text->bytes[label_length] = '\0';
	point->label = label_length ? text : NULL;
	*ret_stop = points->fn(points->data, names[0], names[1], point);
	return true;
}

static int each_of_kind(struct clickhouse_reader *reader, enum series_kind kind, struct points *points,
			struct store_error *error)
{
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	struct clickhouse_rows rows = {.row = take_point, .context = points};
	struct clickhouse_request request = {.timeout_ms = 3600000};
	bool amounts = kind == SERIES_RUN; // each batch brings some
	char name[64];

	points->schema = &series_schemas[kind];
	points->point->kind = (uint8_t)kind;
	buf_append_string(&query, "SELECT toString(p.workspace), toString(p.host_id), p.series_id, p.owner_id, "
				  "toString(p.label), p.time_ns");
	for (unsigned i = 0; i < points->schema->metric_count; i++) {
		clickhouse_metric_name(&points->schema->metrics[i], name);
		buf_printf(&query, amounts ? ", sum(p.`%s`)" : ", p.`%s`", name);
	}
	buf_printf(&query, " FROM points_%s AS p WHERE " CLICKHOUSE_PUBLISHED "%s ORDER BY p.series_id, p.time_ns",
		   points->schema->name,
		   amounts ? " GROUP BY p.workspace, p.host_id, p.series_id, p.owner_id, p.label, p.time_ns" : "");
	if (buf_error(&query) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = query.data;
	return clickhouse_rows_run(reader->http, &request, &rows, error);
}

int clickhouse_each_point(struct store_reader *base, store_point_fn fn, void *data, struct store_error *error)
{
	struct points points = {.fn = fn, .data = data};
	CLEANUP(cleanup_free)
	struct lake_point *point = calloc(1, sizeof(*point) + SERIES_METRICS_MAX * sizeof(point->value[0]));
	int err = 0;

	if (!point)
		return store_fail(error, -ENOMEM, "out of memory");
	points.point = point;
	arena_init(&points.arena, 4096);
	for (int kind = 0; !err && kind < SERIES_KIND_END; kind++)
		err = each_of_kind((struct clickhouse_reader *)base, (enum series_kind)kind, &points, error);
	arena_free(&points.arena);
	return err;
}

// ---- roll-ups -------------------------------------------------------------------------------------------------------

struct rollups {
	store_rollup_fn fn;
	void *data;
};

static bool take_rollup(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct rollups *rollups = rows->context;
	uint64_t columns[5][SERIES_METRICS_MAX];
	struct store_step steps[SERIES_METRICS_MAX];
	struct store_rollup rollup = {.steps = steps};
	const char *kind;
	size_t length;
	char name[64];
	int which;

	memset(columns, 0, sizeof(columns));
	if (!clickhouse_take_text(cut, &kind, &length) || !clickhouse_take_u64(cut, &rollup.series_id) ||
	    !clickhouse_take_u64(cut, &rollup.level_s) || !clickhouse_take_u64(cut, &rollup.time_ns))
		return false;
	for (int c = 0; c < 5; c++) {
		if (!clickhouse_take_list(cut, columns[c], SERIES_METRICS_MAX))
			return false;
	}
	snprintf(name, sizeof(name), "%.*s", (int)length, kind);
	which = series_kind_find(name);
	if (which < 0)
		return true;
	rollup.kind = (enum series_kind)which;
	for (unsigned i = 0; i < series_schemas[which].metric_count; i++) {
		struct series_sum sum = {columns[0][i], columns[1][i], columns[2][i], columns[3][i], columns[4][i]};

		series_step_of_sum(&series_schemas[which].metrics[i], &sum, &steps[i]);
	}
	*ret_stop = rollups->fn(rollups->data, &rollup);
	return true;
}

int clickhouse_each_rollup(struct store_reader *base, store_rollup_fn fn, void *data, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	struct rollups rollups = {.fn = fn, .data = data};
	struct clickhouse_rows rows = {.row = take_rollup, .context = &rollups};
	struct clickhouse_request request = {
		.query = "SELECT toString(kind), series_id, toUInt64(level_s), time_ns, counts, sums, least, most, "
			 "covered "
			 "FROM rollup_steps WHERE " CLICKHOUSE_PUBLISHED
			 " ORDER BY series_id, level_s, time_ns, version "
			 "DESC LIMIT 1 BY series_id, level_s, time_ns",
		.timeout_ms = 3600000,
	};

	return clickhouse_rows_run(reader->http, &request, &rows, error);
}
