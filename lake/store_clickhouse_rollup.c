// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: roll-ups. A span of a series is rolled up when it is over, and again when points for it come later;
// the row of the highest version counts. The rows and how far they go (rollup_state) are one published batch, so a pass
// that dies or is done by two instances at once changes nothing. Not materialized views: those see rows of batches that
// are never published, and rows twice when an insert is repeated.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/series.h"
#include "lake/store_clickhouse.h"

enum { SEND_BYTES = 1 << 20, PUBLISHES = 16 };

struct rolling {
	struct clickhouse_store *store;
	struct store_error *error;
	int level;
	enum series_kind kind;
	uint64_t upto, over_ns; // how far this pass goes: in the chain, in time
	uint64_t before_upto, before_ns; // how far the last one went
	uint64_t now_s, batch, inserts, steps;
	struct buf rows;
	struct clickhouse_again again; // what this pass makes anew
	// The series being folded.
	uint64_t owner_id, series_id;
	char label[512], workspace[128];
	bool any;
	struct series_fold fold;
};

void clickhouse_fold_forget(struct series_fold *fold, uint64_t time_ns)
{
	uint64_t minute_ns = time_ns - time_ns % SERIES_MINUTE_NS;

	if (fold->any && fold->last_time_ns >= minute_ns)
		return;
	for (size_t i = 0; i < fold->metric_count; i++) {
		if (fold->last[i] != LAKE_NULL && fold->last_ns[i] + SERIES_BEFORE_NS < minute_ns)
			fold->last[i] = LAKE_NULL;
	}
}

int clickhouse_rolled(struct clickhouse_http *http, int level, uint64_t *ret_upto, uint64_t *ret_over_ns,
		      struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {.query = "SELECT max(upto), max(over_ns) FROM rollup_state WHERE level_s "
						      "= {level:UInt32} AND " CLICKHOUSE_PUBLISHED};
	char number[24];
	int err;

	snprintf(number, sizeof(number), "%" PRIu64, series_levels[level].step_ns / 1000000000);
	clickhouse_parameter(&request, "level", number);
	err = clickhouse_http_text(http, &request, &text, error);
	if (!err && sscanf(text.data, "%" SCNu64 "\t%" SCNu64, ret_upto, ret_over_ns) != 2)
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	return err;
}

// ---- rows -----------------------------------------------------------------------------------------------------------

void clickhouse_put_rollup(struct buf *out, const struct clickhouse_rollup *rollup, uint64_t received_s, uint64_t batch)
{
	const struct series_schema *schema = &series_schemas[rollup->kind];

	clickhouse_put_u64(out, rollup->owner_id);
	clickhouse_put_text(out, schema->name, strlen(schema->name));
	clickhouse_put_u32(out, (uint32_t)rollup->level_s);
	clickhouse_put_text(out, rollup->label, strlen(rollup->label));
	clickhouse_put_u64(out, rollup->time_ns);
	clickhouse_put_text(out, rollup->workspace, strlen(rollup->workspace));
	clickhouse_put_u64(out, rollup->series_id);
	clickhouse_put_u64(out, rollup->version);
	for (int c = 0; c < 5; c++) {
		clickhouse_put_varint(out, schema->metric_count);
		for (unsigned i = 0; i < schema->metric_count; i++) {
			const struct series_sum *sum = &rollup->sums[i];
			const uint64_t column[5] = {sum->count, sum->sum, sum->min, sum->max, sum->covered_ns};

			clickhouse_put_u64(out, column[c]);
		}
	}
	clickhouse_put_u32(out, (uint32_t)received_s);
	clickhouse_put_u64(out, batch);
}

static int send(struct rolling *rolling)
{
	int err = buf_error(&rolling->rows) < 0 ? store_fail(rolling->error, -ENOMEM, "out of memory") : 0;

	// A token of its own for each insert of the batch.
	if (!err)
		err = clickhouse_insert(rolling->store, "rollup_steps", &rolling->rows,
					rolling->batch | rolling->inserts++ << 48, rolling->error);
	buf_reset(&rolling->rows);
	return err;
}

static int take_step(struct rolling *rolling)
{
	struct clickhouse_rollup rollup = {.owner_id = rolling->owner_id,
					   .series_id = rolling->series_id,
					   .label = rolling->label,
					   .workspace = rolling->workspace,
					   .kind = rolling->kind,
					   .level_s = series_levels[rolling->level].step_ns / 1000000000,
					   .time_ns = rolling->fold.step_start_ns,
					   .version = rolling->upto,
					   .sums = rolling->fold.sums};

	if (!rolling->fold.open)
		return 0;
	rolling->fold.open = false;
	rolling->steps++;
	if (rollup.time_ns < rolling->before_ns) {
		struct clickhouse_again *again = &rolling->again;

		again->from_ns = again->version && again->from_ns < rollup.time_ns ? again->from_ns : rollup.time_ns;
		again->to_ns = again->to_ns > rollup.time_ns ? again->to_ns : rollup.time_ns;
		again->version = rolling->upto;
	}
	clickhouse_put_rollup(&rolling->rows, &rollup, rolling->now_s, rolling->batch);
	return rolling->rows.length > SEND_BYTES ? send(rolling) : buf_error(&rolling->rows);
}

// ---- points ---------------------------------------------------------------------------------------------------------

static void begin_series(struct rolling *rolling, uint64_t owner_id, const char *label, size_t length)
{
	rolling->owner_id = owner_id;
	rolling->any = true;
	snprintf(rolling->label, sizeof(rolling->label), "%.*s", (int)length, label);
	series_fold_begin(&rolling->fold, rolling->kind, NULL, 0, series_levels[rolling->level].step_ns);
}

static bool take_point(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct rolling *rolling = rows->context;
	uint64_t value[SERIES_METRICS_MAX], owner_id, time_ns, mine, series_id;
	const char *label, *workspace;
	size_t length, workspace_length;

	if (!clickhouse_take_u64(cut, &owner_id) || !clickhouse_take_text(cut, &label, &length) ||
	    !clickhouse_take_u64(cut, &time_ns) || !clickhouse_take_text(cut, &workspace, &workspace_length) ||
	    !clickhouse_take_u64(cut, &series_id) || !clickhouse_take_u64(cut, &mine))
		return false;
	for (unsigned i = 0; i < series_schemas[rolling->kind].metric_count; i++) {
		if (!clickhouse_take_known(cut, &value[i]))
			return false;
	}
	if (!rolling->any || rolling->owner_id != owner_id || strlen(rolling->label) != length ||
	    memcmp(rolling->label, label, length) != 0) {
		*ret_stop = take_step(rolling);
		begin_series(rolling, owner_id, label, length);
		rolling->series_id = series_id;
		snprintf(rolling->workspace, sizeof(rolling->workspace), "%.*s", (int)workspace_length, workspace);
	}
	if (!mine) {
		*ret_stop = *ret_stop ? *ret_stop : take_step(rolling);
		series_fold_before(&rolling->fold, time_ns, value);
		return true;
	}
	clickhouse_fold_forget(&rolling->fold, time_ns);
	while (!*ret_stop && series_fold_point(&rolling->fold, time_ns, value))
		*ret_stop = take_step(rolling);
	return true;
}

// Spans that are over since the last pass, and older ones that got points since. What another store has rolled up (its
// rows have version 0) stays unless points come.
static void touched(struct buf *out, const struct rolling *rolling)
{
	const struct series_level *level = &series_levels[rolling->level];
	const char *kind = series_schemas[rolling->kind].name;

	buf_printf(out,
		   "SELECT DISTINCT owner_id, label, toUInt64(intDiv(time_ns, %1$" PRIu64 ")) AS span FROM points_%2$s "
		   "WHERE time_ns < %3$" PRIu64
		   " AND (batch IN (SELECT batch FROM chain WHERE kind = 'batch' AND n > %4$" PRIu64
		   " AND n <= %5$" PRIu64 ") OR (time_ns >= %6$" PRIu64
		   " AND (batch <= (SELECT max(batch) FROM chain WHERE kind = 'floor') OR batch IN (SELECT batch FROM "
		   "chain WHERE kind = 'batch' AND n <= %5$" PRIu64 "))))",
		   level->span_ns, kind, rolling->over_ns, rolling->before_upto, rolling->upto, rolling->before_ns);
	if (!rolling->before_upto)
		buf_printf(out,
			   " AND (owner_id, label, toUInt64(intDiv(time_ns, %1$" PRIu64
			   "))) NOT IN (SELECT owner_id, label, "
			   "toUInt64(intDiv(time_ns, %1$" PRIu64
			   ")) FROM rollup_steps WHERE kind = '%2$s' AND level_s = %3$" PRIu64
			   " AND version = 0 AND " CLICKHOUSE_PUBLISHED ")",
			   level->span_ns, kind, level->step_ns / 1000000000);
}

static void make_query(struct buf *out, const struct rolling *rolling)
{
	const struct series_level *level = &series_levels[rolling->level];
	const struct series_schema *schema = &series_schemas[rolling->kind];
	uint64_t reach = SERIES_BEFORE_NS / level->span_ns + (SERIES_BEFORE_NS % level->span_ns ? 1 : 0);
	bool amounts = rolling->kind == SERIES_RUN; // each batch brings some
	char name[64];

	buf_append_string(out, "WITH touched AS (");
	touched(out, rolling);
	buf_printf(out,
		   ") SELECT p.owner_id, toString(p.label), p.time_ns, toString(p.workspace), p.series_id, "
		   "toUInt64((p.owner_id, p.label, toUInt64(intDiv(p.time_ns, %" PRIu64
		   "))) IN (SELECT owner_id, label, span FROM touched))",
		   level->span_ns);
	for (unsigned i = 0; i < schema->metric_count; i++) {
		clickhouse_metric_name(&schema->metrics[i], name);
		buf_printf(out, amounts ? ", sum(p.`%s`)" : ", p.`%s`", name);
	}
	buf_printf(
		out,
		" FROM points_%s AS p WHERE p.time_ns < %" PRIu64
		" AND (p.owner_id, p.label, toUInt64(intDiv(p.time_ns, %" PRIu64
		"))) IN (SELECT owner_id, label, span - k FROM touched ARRAY JOIN range(toUInt64(%" PRIu64
		")) AS k) AND (batch <= (SELECT max(batch) FROM chain WHERE kind = 'floor') OR batch IN (SELECT batch "
		"FROM chain WHERE kind = 'batch' AND n <= %" PRIu64 "))%s ORDER BY p.owner_id, p.label, p.time_ns",
		schema->name, rolling->over_ns, level->span_ns, reach + 1, rolling->upto,
		amounts ? " GROUP BY p.owner_id, p.label, p.time_ns, p.workspace, p.series_id" : "");
}

static int roll_kind(struct rolling *rolling)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 600000};
	struct clickhouse_rows rows = {.row = take_point, .context = rolling};
	struct clickhouse_http *aside = NULL; // the store's own connection sends rows while points come in
	int err;

	make_query(&text, rolling);
	if (buf_error(&text) < 0 || clickhouse_http_new(&rolling->store->url, &aside) < 0)
		return store_fail(rolling->error, -ENOMEM, "out of memory");
	request.query = text.data;
	if (rolling->store->url.replicated)
		clickhouse_setting(&request, "select_sequential_consistency", "1");
	rolling->any = false;
	rolling->fold.open = false;
	err = clickhouse_rows_run(aside, &request, &rows, rolling->error);
	clickhouse_http_free(aside);
	return err ? err : take_step(rolling);
}

// Which kinds have something to roll up, as a set of bits.
static int ask_kinds(struct rolling *rolling, uint64_t *ret_kinds)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT, answer = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 600000};
	int err;

	buf_append_string(&text, "SELECT sum(bit) FROM (");
	for (int kind = 0; kind < SERIES_KIND_END; kind++) {
		rolling->kind = (enum series_kind)kind;
		buf_printf(&text, "%sSELECT toUInt64(if(count() > 0, %d, 0)) AS bit FROM (", kind ? " UNION ALL " : "",
			   1 << kind);
		touched(&text, rolling);
		buf_append_string(&text, " LIMIT 1)");
	}
	buf_append_char(&text, ')');
	if (buf_error(&text) < 0)
		return store_fail(rolling->error, -ENOMEM, "out of memory");
	request.query = text.data;
	err = clickhouse_http_text(rolling->store->http, &request, &answer, rolling->error);
	if (!err && sscanf(answer.data, "%" SCNu64, ret_kinds) != 1)
		err = store_fail(rolling->error, -EIO, "ClickHouse: an answer that is no number");
	return err;
}

// ---- publishing -----------------------------------------------------------------------------------------------------

// The rows stay good unless another instance has rolled up meanwhile.
static int publish(struct rolling *rolling)
{
	CLEANUP(buf_free) struct buf state = BUF_INIT;
	struct clickhouse_store *store = rolling->store;
	uint64_t upto = 0, over_ns = 0;
	int err;

	clickhouse_put_u32(&state, (uint32_t)(series_levels[rolling->level].step_ns / 1000000000));
	clickhouse_put_u64(&state, rolling->upto);
	clickhouse_put_u64(&state, rolling->over_ns);
	clickhouse_put_u32(&state, (uint32_t)rolling->now_s);
	clickhouse_put_u64(&state, rolling->batch);
	err = buf_error(&state) < 0 ? -ENOMEM : send(rolling);
	if (!err)
		err = clickhouse_insert(store, "rollup_state", &state, rolling->batch, rolling->error);
	for (int i = 0; !err && i < PUBLISHES; i++) {
		err = clickhouse_chain_publish(store, "batch", rolling->batch, 0, rolling->error);
		if (err)
			break;
		clickhouse_cursors_forget(store);
		err = clickhouse_rolled(store->http, rolling->level, &upto, &over_ns, rolling->error);
		if (!err && (upto != rolling->before_upto || over_ns != rolling->before_ns))
			break;
	}
	return err < 0 ? err : 0;
}

static void note_again(struct clickhouse_again *all, const struct clickhouse_again *again)
{
	if (!all->version) {
		*all = *again;
		return;
	}
	all->from_ns = all->from_ns < again->from_ns ? all->from_ns : again->from_ns;
	all->to_ns = all->to_ns > again->to_ns ? all->to_ns : again->to_ns;
}

static int roll_level(struct rolling *rolling, uint64_t now_ns)
{
	const struct series_level *level = &series_levels[rolling->level];
	struct clickhouse_store *store = rolling->store;
	uint64_t over_ns = now_ns > SERIES_GRACE_NS ? now_ns - SERIES_GRACE_NS : 0, kinds = 0, head = store->head;
	int err = clickhouse_chain_head(store, rolling->error);

	if (err < 0 || store->head != head) // others were here
		clickhouse_cursors_forget(store);
	rolling->upto = store->head;
	if (!err)
		err = clickhouse_rolled(store->http, rolling->level, &rolling->before_upto, &rolling->before_ns,
					rolling->error);
	rolling->over_ns = over_ns - over_ns % level->span_ns;
	if (rolling->over_ns < rolling->before_ns)
		rolling->over_ns = rolling->before_ns;
	if (err < 0 || rolling->upto <= rolling->before_upto)
		return err;
	err = ask_kinds(rolling, &kinds);
	// Nothing to do, but now and then what is behind is noted, so that the next question is small.
	if (err < 0 || (!kinds && rolling->upto - rolling->before_upto < CLICKHOUSE_NOTE))
		return err;
	err = clickhouse_chain_draw(store, &rolling->batch, rolling->error);
	for (int kind = 0; !err && kind < SERIES_KIND_END; kind++) {
		rolling->kind = (enum series_kind)kind;
		if (kinds >> kind & 1)
			err = roll_kind(rolling);
	}
	if (!err)
		err = publish(rolling);
	if (!err && rolling->again.version)
		note_again(&store->again[rolling->level], &rolling->again);
	return err;
}

int clickhouse_rollup(struct clickhouse_store *store, uint64_t now_ns, struct store_error *error)
{
	CLEANUP(cleanup_free) struct rolling *rolling = calloc(1, sizeof(*rolling));
	int err = 0;

	if (!rolling)
		return store_fail(error, -ENOMEM, "out of memory");
	*rolling = (struct rolling){.store = store, .error = error, .now_s = now_ns / 1000000000};
	for (int level = 0; !err && level < SERIES_LEVELS; level++) {
		rolling->level = level;
		rolling->inserts = 0;
		memset(&rolling->again, 0, sizeof(rolling->again));
		buf_reset(&rolling->rows);
		err = roll_level(rolling, now_ns);
	}
	buf_free(&rolling->rows);
	return err;
}
