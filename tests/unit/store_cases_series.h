// SPDX-License-Identifier: Apache-2.0
// More of what every store must do: time series, what is new, the store's own rows, reading all of it.
#pragma once

#include "tests/unit/store_cases.h"

// --- cases: series -------------------------------------------------------------------------------------------------------

struct cases_steps {
	size_t count;
	double sum, min, max;
	uint64_t first_ns, last_ns, points;
};

static inline int cases_step(void *data, const char *label, uint64_t time_ns, const struct store_step *steps)
{
	struct cases_steps *all = data;

	(void)label;
	if (!all->count || steps[0].min < all->min)
		all->min = steps[0].min;
	if (!all->count || steps[0].max > all->max)
		all->max = steps[0].max;
	if (!all->count)
		all->first_ns = time_ns;
	assert_true(!all->count || time_ns > all->last_ns);
	all->last_ns = time_ns;
	all->sum += steps[0].sum;
	all->points += steps[0].count;
	all->count++;
	return 0;
}

static inline struct cases_steps cases_series(struct store *store, enum series_kind kind, uint64_t owner,
					      const char *metric, uint64_t step_ns)
{
	uint8_t index = (uint8_t)series_metric_find(kind, metric);
	struct store_series_query query = {.workspace = "w",
					   .kind = kind,
					   .owner_id = owner,
					   .metrics = &index,
					   .label = kind == SERIES_DISK ? "sda" : NULL,
					   .metric_count = 1,
					   .from_ns = CASES_START - 7200 * CASES_SECOND,
					   .to_ns = CASES_START + 7200 * CASES_SECOND,
					   .step_ns = step_ns};
	struct store_reader *reader = cases_reader(store);
	struct cases_steps all = {0};
	struct store_error error = {0};
	int status = store_series(reader, &query, cases_step, &all, &error);

	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	store_reader_close(reader);
	return all;
}

static inline void cases_maintain(struct store *store, uint64_t now_ns)
{
	struct store_upkeep upkeep = {.more = true};
	struct store_error error = {0};

	for (int i = 0; i < 1000 && upkeep.more; i++) {
		int status = store_maintain(store, now_ns, &upkeep, &error);

		if (status < 0)
			print_error("%d %s\n", status, error.text);
		assert_int_equal(status, 0);
	}
}

static inline void cases_host_samples(struct store *store, unsigned first, unsigned from, unsigned to)
{
	struct cases_batch b;

	cases_begin(&b, "w", "host-1", 7, first);
	for (unsigned i = from; i < to; i++)
		cases_addf(&b,
			   "{\"kind\":\"hostsample\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"cpu_user_ns\":%u,"
			   "\"memory_free_bytes\":%u,\"load_1m\":1.25,\"disks\":[{\"name\":\"sda\",\"reads\":%u},"
			   "{\"name\":\"sdb\",\"reads\":%u}]}",
			   (unsigned long long)(CASES_START + i * CASES_SECOND), i * 1000, 1000 + i % 100, i, i * 2);
	cases_write(store, &b);
}

// The same answers before and after upkeep has packed the points.
static inline void cases_host_series(struct store *store)
{
	uint64_t host = lake_id_host("w", "host-1");
	static const uint64_t steps_s[] = {0, 3, 10, 30, 60, 600, 3600};

	for (size_t i = 0; i < sizeof(steps_s) / sizeof(steps_s[0]); i++) {
		uint64_t step_ns = steps_s[i] * CASES_SECOND;
		struct cases_steps gauge = cases_series(store, SERIES_HOST, host, "memory_free_bytes", step_ns);
		struct cases_steps counter = cases_series(store, SERIES_HOST, host, "cpu_user_ns", step_ns);

		assert_int_equal(gauge.points, 3000);
		assert_true(gauge.min == 1000 && gauge.max == 1099);
		assert_true(gauge.sum == 3000 * 1000 + 30 * 4950);
		if (step_ns) {
			assert_true(counter.sum == 2999 * 1000);
			assert_true(counter.min == 1000 && counter.max == 1000);
			assert_int_equal(gauge.first_ns % step_ns, 0);
		}
		assert_true(cases_series(store, SERIES_HOST, host, "load_1m", step_ns).max == 1.25);
	}
	assert_true(cases_series(store, SERIES_DISK, host, "reads", 60 * CASES_SECOND).sum == 2999);
	assert_int_equal(cases_series(store, SERIES_HOST, host, "swap_free_bytes", 0).count, 0);
}

static inline void case_series(void **state)
{
	struct store *store = cases_open(0);

	(void)state;
	cases_host_samples(store, 1, 0, 1000);
	cases_host_samples(store, 1001, 1000, 3000);
	cases_host_series(store);
	cases_maintain(store, CASES_START + 90 * CASES_SECOND);
	cases_host_series(store);
	cases_maintain(store, CASES_START + 2 * 86400 * CASES_SECOND);
	cases_host_series(store);
	store_close(store);
}

// Points of minutes that were packed already.
static inline void case_series_late(void **state)
{
	struct store *store = cases_open(0);

	(void)state;
	cases_host_samples(store, 1, 0, 900);
	cases_host_samples(store, 901, 2000, 3000);
	cases_maintain(store, CASES_START + 2 * 86400 * CASES_SECOND);
	cases_host_samples(store, 1901, 900, 2000);
	cases_host_series(store);
	cases_maintain(store, CASES_START + (2 * 86400 + 600) * CASES_SECOND);
	cases_host_series(store);
	store_close(store);
}

// What a run used over time adds up to what its processes used.
static inline void case_series_of_run(void **state)
{
	uint64_t run = lake_id_run(lake_id_host("w", "host-1"), "r", 1);
	struct store *store = cases_open(0);
	struct cases_batch b;

	(void)state;
	for (unsigned part = 0; part < 3; part++) {
		cases_begin(&b, "w", "host-1", 7, part * 100 + 1);
		for (unsigned i = 1; i <= 100; i++)
			cases_process(&b, part * 100 + i, "r", "t", i % 10 ? "" : ",\"exit_code\":2");
		cases_write(store, &b);
		for (unsigned step_s = 10; step_s <= 3600; step_s *= 6) {
			uint64_t n = (part + 1) * 100, step_ns = step_s * CASES_SECOND;

			assert_true(cases_series(store, SERIES_RUN, run, "cpu_ns", step_ns).sum ==
				    (double)(100 * n * (n + 1) / 2));
			assert_true(cases_series(store, SERIES_RUN, run, "started", step_ns).sum == (double)n);
			assert_true(cases_series(store, SERIES_RUN, run, "ended", step_ns).sum == (double)n);
			assert_true(cases_series(store, SERIES_RUN, run, "failed", step_ns).sum == (double)n / 10);
			assert_true(cases_series(store, SERIES_RUN, run, "running_ns", step_ns).sum ==
				    (double)(n * CASES_SECOND));
		}
		if (part)
			cases_maintain(store, CASES_START + part * 86400 * CASES_SECOND);
	}
	store_close(store);
}

// --- cases: the store's own rows, what is new ------------------------------------------------------------------------------

static inline void case_put(void **state)
{
	struct store *store = cases_open(0);
	struct store_error error = {0};
	struct lake_batch rows = {0};
	uint64_t run;

	(void)state;
	cases_many(store, "w", "host-1", 1, 30);
	run = lake_id_run(lake_id_host("w", "host-1"), "run-1", 5);
	for (int turn = 0; turn < 2; turn++) {
		struct lake_row *join;

		assert_int_equal(lake_batch_begin(&rows, "w", "host-1"), 0);
		join = lake_batch_row(&rows, ENTITY_JOINS, 0);
		join->slot[JOINS_id].u64 = lake_id_key(run, "slurm:1", 7);
		join->slot[JOINS_run_id].u64 = run;
		join->slot[JOINS_stitched_id].u64 = 4711;
		join->slot[JOINS_key].text = lake_batch_text(&rows, "slurm:1", 7);
		join->slot[JOINS_how].text = lake_batch_text(&rows, "id", 2);
		join->slot[JOINS_why].text = lake_batch_text(&rows, "same job", 8);
		assert_int_equal(store_put(store, ENTITY_JOINS, &join, 1, &error), 0);
		lake_batch_free(&rows);
	}
	assert_int_equal(cases_count(store, ENTITY_JOINS, "w"), 1);
	assert_int_equal(cases_filtered(store, ENTITY_RUNS, "stitched_id", STORE_EQ, NULL, 4711), 1);
	// Later processes leave it.
	cases_many(store, "w", "host-1", 31, 30);
	assert_int_equal(cases_filtered(store, ENTITY_RUNS, "stitched_id", STORE_EQ, NULL, 4711), 1);
	assert_int_equal(store_put(store, ENTITY_RUNS, NULL, 0, &error), -EINVAL);
	store_close(store);
}

static inline void case_tail(void **state)
{
	struct store *store = cases_open(0);
	struct store_reader *reader = cases_reader(store);
	struct cases_rows rows = {.entity = &schema_entities[ENTITY_PROCESSES], .column = PROCESSES_pid};
	struct cases_rows runs = {.entity = &schema_entities[ENTITY_RUNS], .column = RUNS_processes};
	struct store_error error;
	uint64_t mark = 0, runs_mark = 0;

	(void)state;
	cases_many(store, "w", "host-1", 1, 10);
	assert_int_equal(store_tail(reader, "w", ENTITY_PROCESSES, 0, 100, cases_row, &rows, &mark, &error), 0);
	assert_int_equal(store_tail(reader, "w", ENTITY_RUNS, 0, 100, cases_row, &runs, &runs_mark, &error), 0);
	assert_int_equal(rows.count + runs.count, 0);
	cases_many(store, "w", "host-1", 11, 25);
	cases_many(store, "other", "host-1", 1, 25);
	for (int i = 0; i < 5; i++)
		assert_int_equal(store_tail(reader, "w", ENTITY_PROCESSES, mark, 10, cases_row, &rows, &mark, &error),
				 0);
	assert_int_equal(rows.count, 25);
	assert_int_equal(rows.sum, 25 * (11 + 35) / 2);
	for (int i = 0; i < 5; i++)
		assert_int_equal(
			store_tail(reader, "w", ENTITY_RUNS, runs_mark, 100, cases_row, &runs, &runs_mark, &error), 0);
	assert_int_equal(runs.count, 3);
	store_reader_close(reader);
	store_close(store);
}

// --- cases: all of it ------------------------------------------------------------------------------------------------------

static inline int cases_count_cursor(void *data, const struct store_cursor *cursor)
{
	size_t *count = data;

	assert_string_equal(cursor->host_id, "host-1");
	(*count)++;
	return 0;
}

static inline int cases_count_point(void *data, const char *workspace, const char *host_id,
				    const struct lake_point *point)
{
	size_t *count = data;

	assert_string_equal(workspace, "w");
	assert_string_equal(host_id, "host-1");
	*count += point->kind == SERIES_HOST;
	return 0;
}

static inline void cases_no_problem(void *data, const char *sentence)
{
	(void)data;
	fail_msg("%s", sentence);
}

static inline void case_each(void **state)
{
	struct store *store = cases_open(0);
	struct store_reader *reader;
	struct store_cursor cursor;
	struct store_error error;
	size_t cursors = 0, points = 0;

	(void)state;
	cases_host_samples(store, 1, 0, 300);
	cases_many(store, "w", "host-1", 301, 10);
	cases_maintain(store, CASES_START + 200 * CASES_SECOND);
	reader = cases_reader(store);
	assert_int_equal(store_each_cursor(reader, cases_count_cursor, &cursors, &error), 0);
	assert_int_equal(cursors, 1);
	assert_int_equal(store_each_point(reader, cases_count_point, &points, &error), 0);
	assert_int_equal(points, 300);
	assert_int_equal(store_cursor_get(reader, "w", "host-1", 7, &cursor, &error), 0);
	assert_int_equal(cursor.acked, 310);
	assert_int_equal(store_cursor_get(reader, "w", "host-1", 8, &cursor, &error), -ENOENT);
	assert_int_equal(store_check(reader, cases_no_problem, NULL, &error), 0);
	store_reader_close(reader);
	store_close(store);
}
