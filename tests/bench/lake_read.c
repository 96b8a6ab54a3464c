// SPDX-License-Identifier: Apache-2.0
// How long the usual questions take on a lake that lake_seed filled: the median of 15 of each, in ms.
//
//	lake_read DIR|URL

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "lake/store.h"

enum { TURNS = 15 };

struct read {
	struct store_reader *reader;
	uint64_t rows, first_id, largest_run, most_tasks;
};

static void die(const char *what)
{
	fprintf(stderr, "lake_read: %s\n", what);
	exit(1);
}

static int count_row(void *data, const union lake_slot *slot)
{
	struct read *read = data;

	(void)slot;
	read->rows++;
	return 0;
}

static int run_row(void *data, const union lake_slot *slot)
{
	struct read *read = data;

	if (slot[RUNS_tasks].u64 != LAKE_NULL && slot[RUNS_tasks].u64 > read->most_tasks) {
		read->most_tasks = slot[RUNS_tasks].u64;
		read->largest_run = slot[RUNS_id].u64;
	}
	read->rows++;
	return 0;
}

static int count_step(void *data, const char *label, uint64_t time_ns, const struct store_step *steps)
{
	struct read *read = data;

	(void)label;
	(void)time_ns;
	(void)steps;
	read->rows++;
	return 0;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

static void ask(struct read *read, const char *what, void (*question)(struct read *))
{
	double ms[TURNS];

	for (int i = 0; i < TURNS; i++) {
		uint64_t begin_ns = clock_boot_ns();

		read->rows = 0;
		question(read);
		ms[i] = (double)(clock_boot_ns() - begin_ns) / 1e6;
	}
	qsort(ms, TURNS, sizeof(ms[0]), compare);
	printf("%-44s %8.1f ms median, %8.1f ms most, %llu rows\n", what, ms[TURNS / 2], ms[TURNS - 1],
	       (unsigned long long)read->rows);
}

static void select_rows(struct read *read, const struct store_query *query, store_row_fn row)
{
	char cursor[STORE_CURSOR_SIZE];
	struct store_error error;

	if (store_select(read->reader, query, row, read, cursor, &error) < 0)
		die(error.text);
}

static void runs(struct read *read)
{
	select_rows(read,
		    &(struct store_query){
			    .entity = ENTITY_RUNS, .workspace = "default", .sort = RUNS_start_ns, .descending = true},
		    run_row);
}

static void tree(struct read *read)
{
	static const uint8_t columns[] = {TASKS_id,	  TASKS_task_name,     TASKS_sample,	TASKS_exit_code,
					  TASKS_start_ns, TASKS_end_ns,	       TASKS_processes, TASKS_failures,
					  TASKS_cpu_ns,	  TASKS_peak_rss_bytes};
	struct store_filter filter = {.column = TASKS_run_id, .op = STORE_EQ, .value = {.u64 = read->largest_run}};

	select_rows(read,
		    &(struct store_query){.entity = ENTITY_TASKS,
					  .workspace = "default",
					  .filters = &filter,
					  .filter_count = 1,
					  .columns = columns,
					  .column_count = sizeof(columns),
					  .sort = -1},
		    count_row);
}

static void processes_of_run(struct read *read)
{
	struct store_filter filter = {.column = PROCESSES_run_id, .op = STORE_EQ, .value = {.u64 = read->largest_run}};

	select_rows(read,
		    &(struct store_query){.entity = ENTITY_PROCESSES,
					  .workspace = "default",
					  .filters = &filter,
					  .filter_count = 1,
					  .sort = -1,
					  .limit = 100},
		    count_row);
}

static void processes_by_cpu(struct read *read)
{
	static const uint8_t columns[] = {PROCESSES_pid, PROCESSES_tool, PROCESSES_cpu_ns};

	select_rows(read,
		    &(struct store_query){.entity = ENTITY_PROCESSES,
					  .workspace = "default",
					  .columns = columns,
					  .column_count = 3,
					  .sort = PROCESSES_cpu_ns,
					  .descending = true,
					  .limit = 100},
		    count_row);
}

static void day(struct read *read)
{
	static const uint8_t metrics[] = {1, 3, 4, 11, 25};
	uint64_t now_ns = clock_real_ns();
	struct store_series_query query = {.workspace = "default",
					   .kind = SERIES_HOST,
					   .owner_id = lake_id_host("default", "00000000-0000-4000-8000-000000000000"),
					   .metrics = metrics,
					   .metric_count = sizeof(metrics),
					   .from_ns = now_ns - 26 * UINT64_C(3600000000000),
					   .to_ns = now_ns,
					   .step_ns = UINT64_C(60000000000)};
	struct store_error error;

	if (store_series(read->reader, &query, count_step, read, &error) < 0)
		die(error.text);
}

static void day_10s(struct read *read)
{
	static const uint8_t metrics[] = {1};
	uint64_t now_ns = clock_real_ns();
	struct store_series_query query = {.workspace = "default",
					   .kind = SERIES_HOST,
					   .owner_id = lake_id_host("default", "00000000-0000-4000-8000-000000000000"),
					   .metrics = metrics,
					   .metric_count = 1,
					   .from_ns = now_ns - 26 * UINT64_C(3600000000000),
					   .to_ns = now_ns,
					   .step_ns = UINT64_C(10000000000)};
	struct store_error error;

	if (store_series(read->reader, &query, count_step, read, &error) < 0)
		die(error.text);
}

int main(int argc, char **argv)
{
	struct store_options options = {.read_only = true};
	struct read read = {0};
	struct store_error error;
	struct store *store;
	char url[512];

	if (argc != 2) {
		fprintf(stderr, "usage: lake_read DIR\n");
		return 2;
	}
	snprintf(url, sizeof(url), strstr(argv[1], "://") ? "%s" : "sqlite:%s", argv[1]);
	if (store_open(url, &options, &store, &error) < 0 || store_reader_open(store, &read.reader, &error) < 0)
		die(error.text);
	ask(&read, "runs, all columns", runs);
	ask(&read, "tasks of the largest run, ten columns", tree);
	ask(&read, "first 100 processes of it, all columns", processes_of_run);
	ask(&read, "100 processes with the most CPU time", processes_by_cpu);
	ask(&read, "a day of a host, by minute, five metrics", day);
	ask(&read, "a day of a host, by 10 s, one metric", day_10s);
	store_reader_close(read.reader);
	store_close(store);
	return 0;
}
