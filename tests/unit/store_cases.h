// SPDX-License-Identifier: Apache-2.0
// What every store must do, for any backend: a test program defines how to make an empty store and runs the cases.
#pragma once

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/decode.h"
#include "lake/store.h"

// An empty store, opened for writing. Opened again with the same number it is the same store.
struct store *cases_open(int number);
// Forgets what earlier cases left.
void cases_fresh(void);

#define CASES_START UINT64_C(1700000000000000000)
#define CASES_SECOND UINT64_C(1000000000)

// --- making batches ----------------------------------------------------------------------------------------------------

struct cases_batch {
	struct lake_batch batch;
	uint64_t next;
};

static inline void cases_begin(struct cases_batch *b, const char *workspace, const char *host, uint64_t epoch,
			       uint64_t first)
{
	assert_int_equal(lake_batch_begin(&b->batch, workspace, host), 0);
	b->batch.epoch = epoch;
	b->batch.first = first;
	b->batch.after = first - 1;
	b->batch.received_ns = CASES_START;
	b->next = first;
}

// One record as JSON; the sequence number follows the last.
static inline void cases_add(struct cases_batch *b, const char *json)
{
	struct decode_error error;
	yyjson_doc *doc = yyjson_read(json, strlen(json), 0);
	int status;

	assert_non_null(doc);
	status = decode_record(&b->batch, yyjson_doc_get_root(doc), b->next++, &error);
	if (status < 0)
		print_error("%s %s\n%s\n", error.member, error.text, json);
	assert_int_equal(status, 0);
	yyjson_doc_free(doc);
	b->batch.last = b->next - 1;
}

__attribute__((format(printf, 2, 3))) static inline void cases_addf(struct cases_batch *b, const char *format, ...)
{
	CLEANUP(cleanup_free) char *json = NULL;
	va_list arguments;

	va_start(arguments, format);
	assert_true(vasprintf(&json, format, arguments) > 0);
	va_end(arguments);
	cases_add(b, json);
}

// A process that ended: pid tells it from others; the figures follow from it.
static inline void cases_process(struct cases_batch *b, unsigned pid, const char *run, const char *task,
				 const char *more)
{
	uint64_t start = CASES_START + pid * CASES_SECOND;

	cases_addf(b,
		   "{\"kind\":\"process\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"pid\":%u,\"ppid\":1,\"start_"
		   "ns\":%llu,"
		   "\"end_ns\":%llu,\"start_boot_ns\":%u,\"comm\":\"sort\",\"exe\":\"/usr/bin/"
		   "sort\",\"args\":[\"sort\",\"-u\"],"
		   "\"cwd\":\"/"
		   "w\",\"uid\":0,\"gid\":0,\"pid_in_namespace\":%u,\"session\":1,\"process_group\":1,\"exit_code\":0,"
		   "\"signal\":null,\"core_dumped\":false,\"oom\":false,\"oom_limit\":null,\"cpu_ns\":%u,\"cpu_user_"
		   "ns\":%u,"
		   "\"cpu_system_ns\":0,\"run_delay_ns\":7,\"threads_max\":2,\"minor_faults\":3,\"major_faults\":0,"
		   "\"read_bytes\":%u,\"write_bytes\":null,\"cgroup\":\"/c\",\"container\":null,\"tool\":\"sort\","
		   "\"task\":%s%s%s,\"task_name\":\"step\",\"run\":%s%s%s,\"run_name\":\"pipe\",\"engine\":\"script\","
		   "\"quality\":{}%s}",
		   (unsigned long long)(start + CASES_SECOND), pid, (unsigned long long)start,
		   (unsigned long long)(start + CASES_SECOND), pid * 10, pid, pid * 100, pid * 100, pid * 4096,
		   task ? "\"" : "", task ? task : "null", task ? "\"" : "", run ? "\"" : "", run ? run : "null",
		   run ? "\"" : "", more);
}

static inline struct store_result cases_write(struct store *store, struct cases_batch *b)
{
	struct lake_batch *batch = &b->batch;
	struct store_result result = {.acked = 12345};
	struct store_error error = {0};
	int status = store_write(store, &batch, 1, &result, &error);

	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	lake_batch_free(batch);
	return result;
}

// --- reading -------------------------------------------------------------------------------------------------------------

struct cases_rows {
	const struct schema_entity *entity;
	size_t count;
	uint64_t sum; // of the column
	unsigned column;
	uint64_t number[4096]; // of the column, in order
	char text[64]; // of the last row, when the column is one
};

static inline int cases_row(void *data, const union lake_slot *slot)
{
	struct cases_rows *rows = data;
	uint8_t type = rows->entity->columns[rows->column].type;

	if (type == SCHEMA_TEXT || type == SCHEMA_JSON) {
		snprintf(rows->text, sizeof(rows->text), "%s",
			 slot[rows->column].text ? slot[rows->column].text->bytes : "(null)");
	} else {
		rows->number[rows->count % 4096] = slot[rows->column].u64;
		rows->sum += slot[rows->column].u64 == LAKE_NULL ? 0 : slot[rows->column].u64;
	}
	rows->count++;
	return 0;
}

static inline struct store_reader *cases_reader(struct store *store)
{
	struct store_error error = {0};
	struct store_reader *reader = NULL;
	int status = store_reader_open(store, &reader, &error);

	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	return reader;
}

// All rows of a query, through pages of `limit` rows.
static inline struct cases_rows cases_select(struct store *store, struct store_query query, const char *column)
{
	struct cases_rows rows = {.entity = &schema_entities[query.entity]};
	struct store_reader *reader = cases_reader(store);
	char cursor[STORE_CURSOR_SIZE] = "";
	struct store_error error = {0};

	rows.column = (unsigned)schema_column_find(rows.entity, column);
	assert_true(rows.column < rows.entity->column_count);
	do {
		int status;

		query.cursor = cursor;
		status = store_select(reader, &query, cases_row, &rows, cursor, &error);
		if (status < 0)
			print_error("%d %s\n", status, error.text);
		assert_int_equal(status, 0);
	} while (cursor[0]);
	store_reader_close(reader);
	return rows;
}

static inline uint64_t cases_number(struct store *store, enum schema_entity_id entity, const char *workspace,
				    const char *column)
{
	struct cases_rows rows =
		cases_select(store, (struct store_query){.entity = entity, .workspace = workspace, .sort = -1}, column);

	assert_int_equal(rows.count, 1);
	return rows.number[0];
}

static inline size_t cases_count(struct store *store, enum schema_entity_id entity, const char *workspace)
{
	struct store_query query = {.entity = entity, .workspace = workspace, .sort = -1};
	struct store_reader *reader = cases_reader(store);
	struct store_error error = {0};
	uint64_t count = 999;
	int status = store_count(reader, &query, &count, &error);

	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	store_reader_close(reader);
	assert_int_equal(cases_select(store, query, schema_entities[entity].columns[0].name).count, count);
	return count;
}

// --- cases: acknowledgement ------------------------------------------------------------------------------------------------

static inline void case_acknowledge(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;
	struct store_result result;

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	for (unsigned i = 1; i <= 10; i++)
		cases_process(&b, i, "r", i % 2 ? "odd" : "even", "");
	result = cases_write(store, &b);
	assert_int_equal(result.verdict, STORE_STORED);
	assert_int_equal(result.acked, 10);
	assert_int_equal(result.records, 10);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 10);
	// A replay changes nothing.
	cases_begin(&b, "w", "host-1", 7, 1);
	for (unsigned i = 1; i <= 10; i++)
		cases_process(&b, i, "r", i % 2 ? "odd" : "even", "");
	result = cases_write(store, &b);
	assert_int_equal(result.acked, 10);
	assert_int_equal(result.records, 0);
	// An overlap stores what is new.
	cases_begin(&b, "w", "host-1", 7, 8);
	for (unsigned i = 8; i <= 12; i++)
		cases_process(&b, i, "r", i % 2 ? "odd" : "even", "");
	result = cases_write(store, &b);
	assert_int_equal(result.acked, 12);
	assert_int_equal(result.records, 2);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 12);
	// What comes too early is refused whole.
	cases_begin(&b, "w", "host-1", 7, 20);
	b.batch.after = 12;
	cases_process(&b, 20, "r", "even", "");
	result = cases_write(store, &b);
	assert_int_equal(result.verdict, STORE_SEQUENCE);
	assert_int_equal(result.acked, 12);
	// A store that knows less than the agent believes says so.
	cases_begin(&b, "w", "host-1", 7, 13);
	b.batch.after = 15;
	cases_process(&b, 13, "r", "odd", "");
	result = cases_write(store, &b);
	assert_int_equal(result.verdict, STORE_SEQUENCE);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 12);
	// Another epoch begins where the agent says.
	cases_begin(&b, "w", "host-1", 8, 100);
	cases_process(&b, 100, "r", "even", "");
	result = cases_write(store, &b);
	assert_int_equal(result.verdict, STORE_STORED);
	assert_int_equal(result.acked, 100);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "processes"), 13);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "tasks"), 2);
	store_close(store);
}

static inline void case_holes(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;
	struct store_result result;

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	cases_process(&b, 1, NULL, NULL, "");
	assert_int_equal(lake_batch_hole(&b.batch, 2, 5, 4, "cap", 3), 0);
	b.next = 6;
	cases_process(&b, 6, NULL, NULL, "");
	result = cases_write(store, &b);
	assert_int_equal(result.acked, 6);
	assert_int_equal(cases_number(store, ENTITY_GAPS, "w", "count"), 4);
	assert_int_equal(cases_number(store, ENTITY_HOSTS, "w", "records_lost"), 4);
	// A hole that reaches back loses only what was not there.
	assert_int_equal(lake_batch_begin(&b.batch, "w", "host-1"), 0);
	b.batch.epoch = 7;
	b.batch.first = 4;
	b.batch.after = 6;
	b.batch.last = 9;
	assert_int_equal(lake_batch_hole(&b.batch, 4, 9, 6, "cap", 3), 0);
	result = cases_write(store, &b);
	assert_int_equal(result.acked, 9);
	assert_int_equal(cases_number(store, ENTITY_HOSTS, "w", "records_lost"), 7);
	store_close(store);
}

static inline void case_reopen(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	cases_process(&b, 1, "r", "t", "");
	cases_write(store, &b);
	store_close(store);
	store = cases_open(0);
	cases_begin(&b, "w", "host-1", 7, 1);
	cases_process(&b, 1, "r", "t", "");
	cases_process(&b, 2, "r", "t", "");
	assert_int_equal(cases_write(store, &b).records, 1);
	assert_int_equal(cases_number(store, ENTITY_TASKS, "w", "processes"), 2);
	assert_int_equal(cases_number(store, ENTITY_TASKS, "w", "cpu_ns"), 300);
	store_close(store);
}

// --- cases: values -----------------------------------------------------------------------------------------------------

static inline void case_null_is_not_zero(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	cases_process(&b, 1, "r", "t", "");
	cases_process(&b, 2, "r", "t", "");
	cases_write(store, &b);
	// write_bytes is null in each, run_delay_ns known, write_syscalls was not there at all, major_faults 0.
	assert_true(cases_number(store, ENTITY_RUNS, "w", "write_bytes") == LAKE_NULL);
	assert_true(cases_number(store, ENTITY_RUNS, "w", "write_syscalls") == LAKE_NULL);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "unknown_io"), 2);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "unknown_cpu"), 0);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "major_faults"), 0);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "run_delay_ns"), 14);
	store_close(store);
}

static inline void case_extremes(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;
	struct cases_rows rows;

	(void)state;
	cases_begin(&b, "w", "host-1", UINT64_MAX, 1);
	cases_process(&b, 1, "r", NULL, ",\"rchar_bytes\":9223372036854775807");
	cases_process(&b, 2, "r", NULL, ",\"rchar_bytes\":18446744073709551615");
	cases_process(&b, 3, "r", NULL, ",\"rchar_bytes\":-1");
	cases_process(&b, 4, "r", NULL, ",\"rchar_bytes\":9223372036854775807");
	cases_write(store, &b);
	rows = cases_select(store, (struct store_query){.entity = ENTITY_PROCESSES, .sort = -1}, "rchar_bytes");
	assert_int_equal(rows.count, 4);
	assert_true(rows.number[0] == LAKE_U64_MAX);
	assert_true(rows.number[1] == LAKE_NULL);
	assert_true(rows.number[2] == LAKE_NULL);
	assert_int_equal(cases_number(store, ENTITY_HOSTS, "w", "values_out_of_range"), 2);
	// Sums stop at the top.
	assert_true(cases_number(store, ENTITY_RUNS, "w", "rchar_bytes") == LAKE_U64_MAX);
	store_close(store);
}

static inline void case_odd_texts(void **state)
{
	static const char *const texts[] = {"\xf0\x9f\xa7\xac", "quote\\\"'; DROP TABLE runs;--", "tab\\tnew\\nline",
					    "\xed\x9f\xbf", ""};
	struct store *store = cases_open(0);
	struct cases_batch b;
	struct cases_rows rows;
	char more[128];

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	for (unsigned i = 0; i < 5; i++) {
		snprintf(more, sizeof(more), ",\"comm\":\"%s\"", texts[i]);
		cases_process(&b, i + 1, "r", NULL, more);
	}
	cases_process(&b, 9, "r", NULL, ",\"comm\":\"nul\\u0000byte\"");
	cases_write(store, &b);
	for (unsigned i = 0; i < 5; i++) {
		union lake_slot value = {.u64 = i + 1};
		struct store_filter filter = {.column = PROCESSES_pid, .op = STORE_EQ, .value = value};
		CLEANUP(cleanup_free) char *wanted = NULL;
		yyjson_doc *doc;

		snprintf(more, sizeof(more), "\"%s\"", texts[i]);
		doc = yyjson_read(more, strlen(more), 0);
		wanted = strdup(yyjson_get_str(yyjson_doc_get_root(doc)));
		yyjson_doc_free(doc);
		rows = cases_select(
			store,
			(struct store_query){
				.entity = ENTITY_PROCESSES, .sort = -1, .filters = &filter, .filter_count = 1},
			"comm");
		assert_int_equal(rows.count, 1);
		assert_string_equal(rows.text, wanted);
	}
	rows = cases_select(store, (struct store_query){.entity = ENTITY_PROCESSES, .sort = -1}, "comm");
	assert_string_equal(rows.text, "nul\xef\xbf\xbd"
				       "byte");
	store_close(store);
}

// --- cases: life of a process --------------------------------------------------------------------------------------------

static inline void case_living(void **state)
{
	static const char *const open =
		"{\"kind\":\"open\",\"time_ns\":1700000001000000000,\"host\":\"h\",\"boot\":\"b\",\"pid\":5,\"ppid\":1,"
		"\"start_ns\":1700000000000000000,\"end_ns\":null,\"start_boot_ns\":50,\"cpu_ns\":10,\"tool\":\"sh\","
		"\"run\":\"r\","
		"\"run_name\":\"pipe\",\"engine\":\"script\"}";
	static const char *const sample = "{\"kind\":\"sample\",\"time_ns\":1700000002000000000,\"host\":\"h\","
					  "\"boot\":\"b\",\"pid\":5,\"start_boot_ns\":50,"
					  "\"state\":\"S\",\"rss_bytes\":4096,\"cpu_ns\":25,\"read_bytes\":100}";
	// The clock of the wall was slewed meanwhile: the same process began some nanoseconds later.
	static const char *const end =
		"{\"kind\":\"process\",\"time_ns\":1700000003000000000,\"host\":\"h\",\"boot\":\"b\",\"pid\":5,"
		"\"ppid\":1,"
		"\"start_ns\":1700000000000000005,\"end_ns\":1700000003000000000,\"start_boot_ns\":50,\"cpu_ns\":40,"
		"\"tool\":\"sh\","
		"\"run\":\"r\",\"run_name\":\"pipe\",\"engine\":\"script\",\"exit_code\":3,\"read_bytes\":200}";
	struct store *store = cases_open(0);
	struct cases_batch b;

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	cases_add(&b, open);
	cases_write(store, &b);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 1);
	assert_true(cases_number(store, ENTITY_PROCESSES, "w", "end_ns") == LAKE_NULL);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "living"), 1);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "cpu_ns"), 10);
	cases_begin(&b, "w", "host-1", 7, 2);
	cases_add(&b, sample);
	cases_write(store, &b);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "cpu_ns"), 25);
	assert_int_equal(cases_number(store, ENTITY_PROCESSES, "w", "cpu_ns"), 25);
	store_close(store);
	store = cases_open(0);
	cases_begin(&b, "w", "host-1", 7, 3);
	cases_add(&b, end);
	cases_write(store, &b);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 1);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "living"), 0);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "processes"), 1);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "cpu_ns"), 40);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "read_bytes"), 200);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "failures"), 1);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "exit_code"), 3);
	assert_int_equal(cases_number(store, ENTITY_TOOLS, "w", "cpu_ns"), 40);
	assert_int_equal(cases_number(store, ENTITY_PIPELINES, "w", "cpu_ns"), 40);
	store_close(store);
}

// --- cases: reading ------------------------------------------------------------------------------------------------------

static inline void cases_many(struct store *store, const char *workspace, const char *host, unsigned first,
			      unsigned count)
{
	struct cases_batch b;
	char run[16], task[16];

	cases_begin(&b, workspace, host, 7, first);
	for (unsigned i = first; i < first + count; i++) {
		snprintf(run, sizeof(run), "run-%u", i % 3);
		snprintf(task, sizeof(task), "task-%u", i % 10);
		cases_process(&b, i, run, task, i % 7 ? "" : ",\"exit_code\":1");
	}
	cases_write(store, &b);
}

static inline void case_pages(void **state)
{
	static const struct {
		const char *column;
		bool down;
	} orders[] = {
		{NULL, false},
		{NULL, true},
		{"pid", false},
		{"pid", true},
		{"exit_code", false},
		{"exit_code", true},
		{"peak_rss_bytes", false},
	};
	struct store *store = cases_open(0);

	(void)state;
	cases_many(store, "w", "host-1", 1, 100);
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
		struct store_query query = {.entity = ENTITY_PROCESSES,
					    .workspace = "w",
					    .limit = 7,
					    .descending = orders[i].down,
					    .sort = orders[i].column ? schema_column_find(entity, orders[i].column)
								     : -1};
		struct cases_rows rows = cases_select(store, query, "pid");

		assert_int_equal(rows.count, 100);
		assert_int_equal(rows.sum, 5050);
		rows = cases_select(store, query, orders[i].column ? orders[i].column : "pid");
		for (size_t at = 1; at < rows.count; at++) {
			if (rows.number[at] == LAKE_NULL)
				continue;
			assert_true(orders[i].down ? rows.number[at] <= rows.number[at - 1]
						   : rows.number[at] >= rows.number[at - 1]);
		}
	}
	store_close(store);
}

// Long texts that begin alike do not hold up the pages.
static inline void case_pages_of_long_texts(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;
	char more[512], name[301];

	(void)state;
	memset(name, 'x', 300);
	name[300] = '\0';
	cases_begin(&b, "w", "host-1", 7, 1);
	for (unsigned i = 1; i <= 60; i++) {
		snprintf(more, sizeof(more), ",\"comm\":\"%s%u\"", name, i % 7);
		cases_process(&b, i, "r", NULL, more);
	}
	cases_write(store, &b);
	for (int down = 0; down < 2; down++) {
		struct store_query query = {
			.entity = ENTITY_PROCESSES, .limit = 7, .sort = PROCESSES_comm, .descending = down};

		assert_int_equal(cases_select(store, query, "pid").sum, 1830);
	}
	store_close(store);
}

static inline void case_pages_while_writing(void **state)
{
	struct store *store = cases_open(0);
	struct store_reader *reader;
	char cursor[STORE_CURSOR_SIZE] = "";
	struct cases_rows rows = {.entity = &schema_entities[ENTITY_PROCESSES], .column = PROCESSES_pid};
	struct store_query query = {.entity = ENTITY_PROCESSES, .workspace = "w", .limit = 9, .sort = PROCESSES_comm};
	struct store_error error;
	unsigned seen[400] = {0}, next = 101;

	(void)state;
	cases_many(store, "w", "host-1", 1, 100);
	reader = cases_reader(store);
	do {
		query.cursor = cursor;
		assert_int_equal(store_select(reader, &query, cases_row, &rows, cursor, &error), 0);
		if (next < 200)
			cases_many(store, "w", "host-1", next, 10);
		next += 10;
	} while (cursor[0]);
	for (size_t i = 0; i < rows.count; i++)
		seen[rows.number[i] % 400]++;
	for (unsigned i = 1; i <= 100; i++)
		assert_int_equal(seen[i], 1);
	// A cursor belongs to its query.
	query.cursor = "nonsense";
	assert_int_equal(store_select(reader, &query, cases_row, &rows, cursor, &error), -EINVAL);
	store_reader_close(reader);
	store_close(store);
}

static inline size_t cases_filtered(struct store *store, enum schema_entity_id entity, const char *column,
				    enum store_operator op, const char *text, uint64_t number)
{
	struct {
		struct lake_text text;
		char room[64];
	} value = {0};
	struct store_filter filter = {.column = (unsigned)schema_column_find(&schema_entities[entity], column),
				      .op = op};
	struct store_query query = {.entity = entity, .sort = -1, .filters = &filter, .filter_count = 1, .limit = 17};

	filter.value.u64 = number;
	if (text) {
		value.text.length = (uint32_t)strlen(text);
		memcpy(value.text.bytes, text, strlen(text) + 1);
		filter.value.text = &value.text;
	}
	return cases_select(store, query, schema_entities[entity].columns[0].name).count;
}

static inline void case_filters(void **state)
{
	struct store *store = cases_open(0);

	(void)state;
	cases_many(store, "w", "host-1", 1, 100);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "pid", STORE_LE, NULL, 10), 10);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "pid", STORE_GT, NULL, 90), 10);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "pid", STORE_NE, NULL, 5), 99);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "exit_code", STORE_EQ, NULL, 1), 14);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "exe", STORE_EQ, "/usr/bin/sort", 0), 100);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "exe", STORE_NE, "/usr/bin/sort", 0), 0);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "exe", STORE_PREFIX, "/usr/", 0), 100);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "exe", STORE_CONTAINS, "BIN/so", 0), 100);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "exe", STORE_PREFIX, "usr", 0), 0);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "run", STORE_EQ, "run-0", 0), 33);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "task", STORE_EQ, "task-1", 0), 10);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "signal", STORE_IS_NULL, NULL, 0), 100);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "signal", STORE_NOT_NULL, NULL, 0), 0);
	assert_int_equal(cases_filtered(store, ENTITY_PROCESSES, "signal", STORE_NE, NULL, 9), 100);
	assert_int_equal(cases_filtered(store, ENTITY_RUNS, "run", STORE_EQ, "run-2", 0), 1);
	assert_int_equal(cases_filtered(store, ENTITY_TASKS, "task_name", STORE_EQ, "step", 0), 30);
	assert_int_equal(cases_filtered(store, ENTITY_TASKS, "processes", STORE_GE, NULL, 4), 10);
	assert_int_equal(cases_filtered(store, ENTITY_PIPELINES, "pipeline", STORE_EQ, "pipe", 0), 1);
	assert_int_equal(cases_filtered(store, ENTITY_CONTAINERS, "cgroup", STORE_EQ, "/c", 0), 1);
	store_close(store);
}

static inline void case_workspaces(void **state)
{
	struct store *store = cases_open(0);

	(void)state;
	cases_many(store, "one", "host-1", 1, 30);
	cases_many(store, "two", "host-1", 1, 20);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "one"), 30);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "two"), 20);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, NULL), 50);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "three"), 0);
	for (int id = ENTITY_HOSTS; id <= ENTITY_CONTAINERS; id++) {
		size_t all = cases_count(store, (enum schema_entity_id)id, NULL);

		assert_int_equal(cases_count(store, (enum schema_entity_id)id, "one") +
					 cases_count(store, (enum schema_entity_id)id, "two"),
				 all);
		assert_int_equal(cases_count(store, (enum schema_entity_id)id, "three"), 0);
	}
	assert_int_equal(cases_count(store, ENTITY_WORKSPACES, NULL), 2);
	assert_int_equal(cases_number(store, ENTITY_HOSTS, "one", "processes"), 30);
	store_close(store);
}

static inline void case_sums(void **state)
{
	static const enum schema_entity_id all[] = {ENTITY_HOSTS, ENTITY_PIPELINES, ENTITY_RUNS,
						    ENTITY_TASKS, ENTITY_TOOLS,	    ENTITY_CONTAINERS};
	struct store *store = cases_open(0);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		cases_many(store, "w", "host-1", i * 50 + 1, 50);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct store_query query = {.entity = all[i], .workspace = "w", .sort = -1, .limit = 3};

		assert_int_equal(cases_select(store, query, "processes").sum, 500);
		assert_int_equal(cases_select(store, query, "cpu_ns").sum, 100 * 500 * 501 / 2);
		assert_int_equal(cases_select(store, query, "read_bytes").sum, UINT64_C(4096) * 500 * 501 / 2);
		assert_int_equal(cases_select(store, query, "failures").sum, 71);
		assert_int_equal(cases_select(store, query, "wall_ns").sum, 500 * CASES_SECOND);
		assert_int_equal(cases_select(store, query, "unknown_io").sum, 500);
	}
	store_close(store);
}
