// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: what is dropped, by age and by size, and the gap that tells it. For each kind of row there is a
// moment of arrival below which rows are gone (retention_state). It moves together with the gap that counts what lies
// between, as one published batch, so each row is counted once whoever dies or does it twice; the rows themselves are
// deleted after that, again if need be. The TTL of the tables lies CLICKHOUSE_TTL_SLACK_S behind, for a database that
// nobody looks after: what it may have taken before it was counted is a gap without a number.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/series.h"
#include "lake/store_clickhouse.h"

enum { PUBLISHES = 16, STEPS = 32, LEAST_STEP_S = 300, GAPS_OF_ONE = 4096 };

enum of {
	OF_PROCESSES, // rows by their arrival
	OF_POINTS,
	OF_ROLLUP_10S,
	OF_ROLLUP_1MIN,
	OF_ROLLUP_1H,
	OF_AGGREGATES, // all rows of an entity, by the arrival of the last one
	OF_SERIES, // steps of series that got no point for so long as the runs and containers that they are of
	OF_END,
};

static const struct removal {
	const char *what; // its name in retention_state, for ever
	const char *table;
	enum of of;
	const char *only; // which rows of it
	const char *why, *over; // past its age; over the size cap, NULL: that takes none
} removals[] = {
#define POINTS(kind) \
	{"points_" kind, "points_" kind, OF_POINTS, "1", "points past their age", "points over the size cap"}
	POINTS("host"),
	POINTS("disk"),
	POINTS("mount"),
	POINTS("nfs"),
	POINTS("lustre"),
	POINTS("cgroup"),
	POINTS("cgroup_io"),
	POINTS("process"),
	POINTS("run"),
#undef POINTS
	{"rollup_10s", "rollup_steps", OF_ROLLUP_10S, "level_s = 10", "roll-ups of 10 s past their age",
	 "roll-ups of 10 s over the size cap"},
	{"rollup_1min", "rollup_steps", OF_ROLLUP_1MIN, "level_s = 60", "roll-ups of 1 min past their age", NULL},
	{"rollup_1h", "rollup_steps", OF_ROLLUP_1H, "level_s = 3600", "roll-ups of 1 h past their age", NULL},
	{"processes", "processes_rows", OF_PROCESSES, "1", "processes past their age", "processes over the size cap"},
	{"open", "open_rows", OF_PROCESSES, "row_id IN (SELECT row_id FROM live)", "processes past their age", NULL},
	{"events", "events_rows", OF_PROCESSES, "1", "events past their age", NULL},
	{"gaps", "gaps_rows", OF_PROCESSES, "room != 'retention'", "gaps past their age", NULL}, // what tells stays
	{"tasks", "tasks_part", OF_AGGREGATES, NULL, "tasks past their age", NULL},
	{"tools", "tools_part", OF_AGGREGATES, NULL, "tools past their age", NULL},
	{"samples", "samples_part", OF_AGGREGATES, NULL, "samples past their age", NULL},
	{"containers", "containers_part", OF_AGGREGATES, NULL, "containers past their age", NULL},
	{"runs", "runs_part", OF_AGGREGATES, NULL, "runs past their age", NULL},
	{"series", "rollup_steps", OF_SERIES, NULL, "series of runs and containers past their age", NULL},
};
enum { REMOVALS = sizeof(removals) / sizeof(removals[0]) };
_Static_assert((int)REMOVALS == (int)CLICKHOUSE_REMOVALS, "a place for each in struct clickhouse_store");

struct retaining {
	struct clickhouse_store *store;
	struct store_error *error;
	uint64_t now_s, batch;
	uint64_t gone_s[REMOVALS]; // what arrived before is counted as gone
	uint64_t bound_s[REMOVALS]; // from now on; not above gone_s: stays as it is
	bool over[REMOVALS]; // it is the size cap that asks for it
	uint64_t states; // of retention_state, when gone_s was read
};

uint64_t clickhouse_keep_s(const struct store_retention *keep, enum clickhouse_keep which)
{
	const uint64_t ages[] = {
		[CLICKHOUSE_KEEP_PROCESSES] = keep->processes_s, [CLICKHOUSE_KEEP_POINTS] = keep->points_s,
		[CLICKHOUSE_KEEP_10S] = keep->rollup_10s_s,	 [CLICKHOUSE_KEEP_1MIN] = keep->rollup_1min_s,
		[CLICKHOUSE_KEEP_1H] = keep->rollup_1h_s,	 [CLICKHOUSE_KEEP_AGGREGATES] = keep->aggregates_s};
	// Points are needed until the day that they are of is rolled up; and nothing goes that may still be published.
	uint64_t least = which == CLICKHOUSE_KEEP_POINTS ? 25 * 3600 : CLICKHOUSE_REMOVE_S;

	return ages[which] && ages[which] < least ? least : ages[which];
}

static uint64_t age_of(const struct retaining *retaining, enum of of)
{
	const struct store_retention *keep = &retaining->store->options.retention;

	if (of == OF_SERIES)
		of = OF_AGGREGATES;
	return clickhouse_keep_s(keep, (enum clickhouse_keep)of);
}

static int ask(struct retaining *retaining, const char *query, struct buf *ret_text)
{
	struct clickhouse_request request = {.query = query, .timeout_ms = 600000};

	if (retaining->store->url.replicated)
		clickhouse_setting(&request, "select_sequential_consistency", "1");
	return clickhouse_http_text(retaining->store->http, &request, ret_text, retaining->error);
}

static int ask_numbers(struct retaining *retaining, const char *query, uint64_t *ret_first, uint64_t *ret_second)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int err = ask(retaining, query, &text);

	if (!err && sscanf(text.data, "%" SCNu64 "\t%" SCNu64, ret_first, ret_second) != 2)
		err = store_fail(retaining->error, -EIO, "ClickHouse: an answer that is no number");
	return err;
}

// ---- how far --------------------------------------------------------------------------------------------------------

static int read_state(struct retaining *retaining)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int err =
		ask(retaining,
		    "SELECT what, max(upto), count() FROM retention_state WHERE " CLICKHOUSE_PUBLISHED " GROUP BY what",
		    &text);

	retaining->states = 0;
	for (const char *line = text.data; !err && line && *line; line += *line == '\n') {
		uint64_t gone_s = 0, rows = 0;
		char what[64];

		if (sscanf(line, "%63s\t%" SCNu64 "\t%" SCNu64, what, &gone_s, &rows) != 3)
			return store_fail(retaining->error, -EIO, "ClickHouse: an answer that is no number");
		for (unsigned i = 0; i < REMOVALS; i++) {
			if (!strcmp(removals[i].what, what))
				retaining->gone_s[i] = gone_s;
		}
		retaining->states += rows;
		line += strcspn(line, "\n");
	}
	return err;
}

static void by_age(struct retaining *retaining)
{
	for (unsigned i = 0; i < REMOVALS; i++) {
		uint64_t age = age_of(retaining, removals[i].of), step = age / STEPS, bound;

		if (!age || age > retaining->now_s)
			continue;
		step = step < LEAST_STEP_S ? LEAST_STEP_S : step > STORE_DAY_S ? STORE_DAY_S : step;
		bound = retaining->now_s - age;
		if (bound >= retaining->gone_s[i] + step)
			retaining->bound_s[i] = bound;
	}
}

static void tables_of(struct buf *out, enum of of, const char *before, const char *after)
{
	const char *comma = "";

	for (unsigned i = 0; i < REMOVALS; i++) {
		if (removals[i].of != of || !removals[i].over)
			continue;
		buf_printf(out, "%s%s%s%s", comma, before, removals[i].table, after);
		comma = *after == '\'' ? ", " : " UNION ALL ";
	}
}

// The moment below which as much of it arrived as has to go; 0: there is nothing that may.
static int by_size(struct retaining *retaining, enum of of, uint64_t too_many, uint64_t *ret_bound_s)
{
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	char where[120];
	uint64_t bytes = 0, parts = 0, bound = 0, first = 0;
	uint64_t least = of == OF_POINTS ? 25 * 3600 : CLICKHOUSE_REMOVE_S;
	double share;
	int err;

	buf_append_string(&query, "SELECT sum(bytes_on_disk), count() FROM system.parts WHERE database = "
				  "currentDatabase() AND active AND table IN (");
	tables_of(&query, of, "'", "'");
	buf_append_char(&query, ')');
	err = buf_error(&query) < 0 ? -ENOMEM : ask_numbers(retaining, query.data, &bytes, &parts);
	if (err < 0 || !bytes)
		return err;
	share = 0.02 + 1.1 * (double)too_many / (double)bytes;
	buf_reset(&query);
	buf_printf(&query, "SELECT toUInt64(quantile(%.4f)(t)), toUInt64(min(t)) FROM (", share < 1 ? share : 1);
	snprintf(where, sizeof(where), " WHERE received < toDateTime(%" PRIu64 ", 'UTC')%s", retaining->now_s - least,
		 of == OF_ROLLUP_10S ? " AND level_s = 10" : "");
	tables_of(&query, of, "SELECT toUInt32(received) AS t FROM ", where);
	buf_append_string(&query, ") HAVING count() > 0");
	if (buf_error(&query) < 0)
		return -ENOMEM;
	{
		CLEANUP(buf_free) struct buf text = BUF_INIT;

		err = ask(retaining, query.data, &text);
		if (err < 0 || !text.length)
			return err;
		if (sscanf(text.data, "%" SCNu64 "\t%" SCNu64, &bound, &first) != 2)
			return store_fail(retaining->error, -EIO, "ClickHouse: an answer that is no number");
	}
	bound = bound > first ? bound : first + 1;
	*ret_bound_s = bound < retaining->now_s - least ? bound : retaining->now_s - least;
	return 0;
}

// Points first, then the finest roll-ups, then processes.
static int by_cap(struct retaining *retaining, bool *ret_more)
{
	static const enum of order[] = {OF_POINTS, OF_ROLLUP_10S, OF_PROCESSES};
	const struct clickhouse_store *store = retaining->store;
	uint64_t most = store->options.retention.bytes_max, bound_s = 0;
	int err = 0;

	if (!most || store->bytes <= most)
		return 0;
	for (size_t i = 0; !err && !bound_s && i < sizeof(order) / sizeof(order[0]); i++) {
		err = by_size(retaining, order[i], store->bytes - most, &bound_s);
		for (unsigned r = 0; bound_s && r < REMOVALS; r++) {
			if (removals[r].of != order[i] || !removals[r].over || bound_s <= retaining->gone_s[r] ||
			    bound_s <= retaining->bound_s[r])
				continue;
			retaining->bound_s[r] = bound_s;
			retaining->over[r] = *ret_more = true;
		}
	}
	return err;
}

// ---- which rows -----------------------------------------------------------------------------------------------------

// A condition: they arrived before until_s and, where it is not 0, not before from_s.
static void which(struct buf *out, const struct removal *removal, uint64_t from_s, uint64_t until_s)
{
	const char *group = removal->of == OF_SERIES ? "series_part" : removal->table;
	char arrived[160];

	if (removal->of != OF_AGGREGATES && removal->of != OF_SERIES) {
		buf_printf(out,
			   "received < toDateTime(%" PRIu64 ", 'UTC') AND received >= toDateTime(%" PRIu64
			   ", 'UTC') AND %s",
			   until_s, from_s, removal->only);
		return;
	}
	snprintf(arrived, sizeof(arrived),
		 "max(received) < toDateTime(%" PRIu64 ", 'UTC') AND max(received) >= toDateTime(%" PRIu64 ", 'UTC')",
		 until_s, from_s);
	if (removal->of == OF_SERIES)
		buf_printf(out,
			   "kind IN ('run', 'cgroup', 'cgroup_io', 'process') AND series_id IN (SELECT id FROM %s "
			   "GROUP BY id HAVING %s)",
			   group, arrived);
	else
		buf_printf(out,
			   "id IN (SELECT id FROM %s GROUP BY id HAVING %s AND countIf(open_id IN (SELECT row_id FROM "
			   "live)) = 0)",
			   group, arrived);
}

// ---- counting -------------------------------------------------------------------------------------------------------

static int put_gaps(struct retaining *retaining, unsigned i)
{
	const struct removal *removal = &removals[i];
	uint64_t first_id = retaining->batch << CLICKHOUSE_ROW_BITS | (uint64_t)i * GAPS_OF_ONE;
	uint64_t age = age_of(retaining, removal->of);
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 600000};
	bool entity = removal->of == OF_AGGREGATES;
	char token[48];

	buf_printf(
		&query,
		"INSERT INTO gaps_rows (id, workspace, time_ns, room, reason, count, received, batch) SELECT %" PRIu64
		" + rowNumberInAllBlocks(), workspace, %" PRIu64 ", 'retention', '%s', c, toDateTime(%" PRIu64
		", 'UTC'), %" PRIu64 " FROM (SELECT toString(workspace) AS workspace, ",
		first_id, retaining->now_s * 1000000000, retaining->over[i] ? removal->over : removal->why,
		retaining->now_s, retaining->batch);
	// A TTL may have taken some before: how many went is not known then.
	if (retaining->gone_s[i] && age && removal->of < OF_AGGREGATES && !retaining->over[i] &&
	    retaining->gone_s[i] + age + CLICKHOUSE_TTL_SLACK_S < retaining->now_s) {
		buf_append_string(&query, "CAST(NULL AS Nullable(UInt64)) AS c FROM hosts_part GROUP BY workspace)");
	} else {
		buf_printf(&query, "toNullable(%s) AS c FROM %s WHERE ", entity ? "uniqExact(id)" : "count()",
			   removal->table);
		which(&query, removal, retaining->gone_s[i], retaining->bound_s[i]);
		buf_printf(&query, " AND %s GROUP BY workspace ORDER BY workspace LIMIT %d)",
			   entity ? "1" : CLICKHOUSE_PUBLISHED, GAPS_OF_ONE);
	}
	if (buf_error(&query) < 0)
		return store_fail(retaining->error, -ENOMEM, "out of memory");
	request.query = query.data;
	snprintf(token, sizeof(token), "%" PRIu64 ".%u", retaining->batch, i);
	clickhouse_setting(&request, "insert_deduplicate", "1");
	clickhouse_setting(&request, "insert_deduplication_token", token);
	clickhouse_setting(&request, "max_insert_threads", "1");
	if (retaining->store->url.replicated) {
		clickhouse_setting(&request, "insert_quorum", "auto");
		clickhouse_setting(&request, "select_sequential_consistency", "1");
	}
	return clickhouse_http_run(retaining->store->http, &request, retaining->error);
}

static int publish(struct retaining *retaining, const struct buf *state)
{
	struct clickhouse_store *store = retaining->store;
	uint64_t states = retaining->states, before[REMOVALS];
	int err = clickhouse_insert(store, "retention_state", state, retaining->batch, retaining->error);

	memcpy(before, retaining->gone_s, sizeof(before));
	for (int i = 0; !err && i < PUBLISHES; i++) {
		err = clickhouse_chain_publish(store, "batch", retaining->batch, 0, retaining->error);
		if (err)
			break;
		// Others were first: what was counted is right unless they have counted it too.
		clickhouse_cursors_forget(store);
		err = read_state(retaining);
		if (!err && retaining->states != states)
			return 0;
	}
	if (err < 0)
		return err;
	memcpy(retaining->gone_s, before, sizeof(before));
	for (unsigned i = 0; i < REMOVALS; i++) {
		if (retaining->bound_s[i] > retaining->gone_s[i])
			retaining->gone_s[i] = retaining->bound_s[i];
	}
	return 0;
}

static int count_gone(struct retaining *retaining)
{
	CLEANUP(buf_free) struct buf state = BUF_INIT;
	bool any = false;
	int err = 0;

	for (unsigned i = 0; i < REMOVALS; i++)
		any |= retaining->bound_s[i] > retaining->gone_s[i];
	if (!any)
		return 0;
	err = clickhouse_chain_draw(retaining->store, &retaining->batch, retaining->error);
	for (unsigned i = 0; !err && i < REMOVALS; i++) {
		if (retaining->bound_s[i] <= retaining->gone_s[i])
			continue;
		err = put_gaps(retaining, i);
		clickhouse_put_text(&state, removals[i].what, strlen(removals[i].what));
		clickhouse_put_u64(&state, retaining->bound_s[i]);
		clickhouse_put_u32(&state, (uint32_t)retaining->now_s);
		clickhouse_put_u64(&state, retaining->batch);
	}
	if (!err && buf_error(&state) < 0)
		err = store_fail(retaining->error, -ENOMEM, "out of memory");
	return err < 0 ? err : publish(retaining, &state);
}

// ---- deleting -------------------------------------------------------------------------------------------------------

static int delete_where(struct retaining *retaining, const char *table, const struct buf *condition)
{
	const struct clickhouse_url *url = &retaining->store->url;
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 600000};
	uint64_t rows = 0, one;
	int err;

	if (buf_error(condition) < 0)
		return store_fail(retaining->error, -ENOMEM, "out of memory");
	buf_printf(&query, "SELECT count(), 1 FROM (SELECT 1 FROM %s WHERE %s LIMIT 1)", table, condition->data);
	err = buf_error(&query) < 0 ? -ENOMEM : ask_numbers(retaining, query.data, &rows, &one);
	if (err < 0 || !rows)
		return err;
	buf_reset(&query);
	buf_printf(&query, "ALTER TABLE %s%s%s%s DELETE WHERE %s", table, *url->cluster ? " ON CLUSTER `" : "",
		   url->cluster, *url->cluster ? "`" : "", condition->data);
	if (buf_error(&query) < 0)
		return store_fail(retaining->error, -ENOMEM, "out of memory");
	request.query = query.data;
	clickhouse_setting(&request, "mutations_sync", "1");
	clickhouse_setting(&request, "allow_nondeterministic_mutations", "1");
	return clickhouse_http_run(retaining->store->http, &request, retaining->error);
}

static int delete_gone(struct retaining *retaining)
{
	struct clickhouse_store *store = retaining->store;
	int err = 0;

	for (unsigned i = 0; !err && i < REMOVALS; i++) {
		CLEANUP(buf_free) struct buf condition = BUF_INIT;

		if (retaining->gone_s[i] <= store->deleted_s[i])
			continue;
		which(&condition, &removals[i], 0, retaining->gone_s[i]);
		err = delete_where(retaining, removals[i].table, &condition);
		if (!err)
			store->deleted_s[i] = retaining->gone_s[i];
	}
	return err;
}

// Rows of series_part that nothing is of any more.
static int delete_series(struct retaining *retaining)
{
	CLEANUP(buf_free) struct buf condition = BUF_INIT;
	struct clickhouse_store *store = retaining->store;
	int err;

	if (retaining->now_s - store->series_swept_s < STORE_DAY_S && retaining->now_s >= store->series_swept_s)
		return 0;
	buf_printf(&condition,
		   "id IN (SELECT id FROM series_part GROUP BY id HAVING max(received) < toDateTime(%" PRIu64
		   ", 'UTC')) AND id NOT IN (SELECT series_id FROM rollup_steps)",
		   retaining->now_s - 25 * 3600);
	for (int kind = 0; kind < SERIES_KIND_END; kind++)
		buf_printf(&condition, " AND id NOT IN (SELECT series_id FROM points_%s)", series_schemas[kind].name);
	err = delete_where(retaining, "series_part", &condition);
	if (!err)
		store->series_swept_s = retaining->now_s;
	return err;
}

// Steps that a later pass of this instance made anew. What dies before this leaves steps that nobody reads.
static int delete_versions(struct retaining *retaining)
{
	static const char key[] = "owner_id, kind, level_s, label, time_ns";
	struct clickhouse_store *store = retaining->store;
	int err = 0;

	for (int level = 0; !err && level < SERIES_LEVELS; level++) {
		struct clickhouse_again *again = &store->again[level];
		CLEANUP(buf_free) struct buf condition = BUF_INIT;
		char place[160];

		if (!again->version)
			continue;
		snprintf(place, sizeof(place),
			 "level_s = %" PRIu64 " AND time_ns >= %" PRIu64 " AND time_ns <= %" PRIu64,
			 series_levels[level].step_ns / 1000000000, again->from_ns, again->to_ns);
		buf_printf(&condition,
			   "%1$s AND (%2$s, version) IN (SELECT %2$s, v FROM (SELECT %2$s, groupArray(version) AS "
			   "every, max(version) AS latest FROM rollup_steps WHERE %1$s AND (owner_id, kind, label) IN "
			   "(SELECT owner_id, kind, label FROM rollup_steps WHERE %1$s AND version >= %3$" PRIu64
			   ") AND " CLICKHOUSE_PUBLISHED
			   " GROUP BY %2$s HAVING count() > 1) ARRAY JOIN every AS v WHERE v < latest)",
			   place, key, again->version);
		err = delete_where(retaining, "rollup_steps", &condition);
		if (!err)
			*again = (struct clickhouse_again){0};
	}
	return err;
}

int clickhouse_retention(struct clickhouse_store *store, uint64_t now_ns, bool *ret_more, struct store_error *error)
{
	struct retaining retaining = {.store = store, .error = error, .now_s = now_ns / 1000000000};
	uint64_t head = store->head;
	int err = clickhouse_chain_head(store, error);

	if (err < 0 || store->head != head) // others were here
		clickhouse_cursors_forget(store);
	if (!err)
		err = delete_versions(&retaining);
	if (!err)
		err = read_state(&retaining);
	if (!err) {
		by_age(&retaining);
		err = by_cap(&retaining, ret_more);
	}
	if (!err)
		err = count_gone(&retaining);
	if (!err)
		err = delete_gone(&retaining);
	return err ? err : delete_series(&retaining);
}
