// SPDX-License-Identifier: Apache-2.0
// Query: what parameters mean, and that everything that is not understood is refused by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "lake/query.h"

#define NOW UINT64_C(1800000000000000000)
#define SECOND UINT64_C(1000000000)

static int parse(const char *text, enum schema_entity_id entity, struct arena *arena, struct query *query,
		 struct query_error *error)
{
	struct query_parameters parameters = {.arena = arena};
	int result = query_parameters_parse(&parameters, text);

	*error = (struct query_error){0};
	if (result == 0)
		result = query_parse(query, entity, "w", &parameters, NOW, error);
	return result < 0 ? result : query_reject_unused(&parameters, &schema_entities[entity], error);
}

static void good(const char *text, enum schema_entity_id entity, unsigned column, enum store_operator op,
		 uint64_t value)
{
	CLEANUP(arena_free) struct arena arena;
	struct query_error error;
	struct query query;

	arena_init(&arena, 4096);
	if (parse(text, entity, &arena, &query, &error) != 0)
		fail_msg("%s: %s", text, error.text);
	assert_string_equal(query.select.workspace, "w");
	assert_int_equal(query.select.filter_count, 1);
	assert_int_equal(query.filters[0].column, column);
	assert_int_equal(query.filters[0].op, op);
	if (op != STORE_IS_NULL && op != STORE_NOT_NULL && query.filters[0].value.u64 != value)
		fail_msg("%s: %llu, not %llu", text, (unsigned long long)query.filters[0].value.u64,
			 (unsigned long long)value);
}

static void numbers_have_units(void **state)
{
	(void)state;
	good("pid=12", ENTITY_PROCESSES, PROCESSES_pid, STORE_EQ, 12);
	good("pid=9223372036854775807", ENTITY_PROCESSES, PROCESSES_pid, STORE_EQ, INT64_MAX);
	good("cpu_ns.gte=1e9", ENTITY_PROCESSES, PROCESSES_cpu_ns, STORE_GE, SECOND);
	good("cpu_ns.gt=90s", ENTITY_PROCESSES, PROCESSES_cpu_ns, STORE_GT, 90 * SECOND);
	good("cpu_ns.lt=1.5h", ENTITY_PROCESSES, PROCESSES_cpu_ns, STORE_LT, 5400 * SECOND);
	good("cpu_ns.lte=2ms", ENTITY_PROCESSES, PROCESSES_cpu_ns, STORE_LE, 2000000);
	good("peak_rss_bytes.gte=1.5G", ENTITY_PROCESSES, PROCESSES_peak_rss_bytes, STORE_GE, 1610612736);
	good("start_ns.gte=-2h", ENTITY_PROCESSES, PROCESSES_start_ns, STORE_GE, NOW - 7200 * SECOND);
	good("start_ns.lt=2027-01-15T08:00:00Z", ENTITY_PROCESSES, PROCESSES_start_ns, STORE_LT, NOW);
	good("start_ns.lt=2027-01-15T08:00:00.25Z", ENTITY_PROCESSES, PROCESSES_start_ns, STORE_LT, NOW + SECOND / 4);
	good("start_ns.lt=2027-01-15", ENTITY_PROCESSES, PROCESSES_start_ns, STORE_LT, NOW - 8 * 3600 * SECOND);
	good("since=2h", ENTITY_RUNS, RUNS_start_ns, STORE_GE, NOW - 7200 * SECOND);
	good("until=now", ENTITY_GAPS, GAPS_time_ns, STORE_LT, NOW);
	good("since=1d", ENTITY_HOSTS, HOSTS_last_seen_ns, STORE_GE, NOW - 86400 * SECOND);
	good("end_ns.null=true", ENTITY_RUNS, RUNS_end_ns, STORE_IS_NULL, 0);
	good("end_ns.null=false", ENTITY_RUNS, RUNS_end_ns, STORE_NOT_NULL, 0);
	good("oom=true", ENTITY_PROCESSES, PROCESSES_oom, STORE_EQ, 1);
	good("oom.ne=false", ENTITY_PROCESSES, PROCESSES_oom, STORE_NE, 0);
}

static void bad(const char *text, enum schema_entity_id entity, const char *code, const char *parameter)
{
	CLEANUP(arena_free) struct arena arena;
	struct query_error error;
	struct query query;

	arena_init(&arena, 4096);
	if (parse(text, entity, &arena, &query, &error) != -EINVAL)
		fail_msg("%s: taken", text);
	if (!error.code || strcmp(error.code, code) != 0 || strcmp(error.parameter, parameter) != 0)
		fail_msg("%s: %s %s: %s", text, error.code, error.parameter, error.text);
	assert_true(error.text[0]);
}

static void what_is_not_understood_is_named(void **state)
{
	(void)state;
	bad("nothing=1", ENTITY_RUNS, "unknown_parameter", "nothing");
	bad("nothing.gte=1", ENTITY_RUNS, "unknown_parameter", "nothing.gte");
	bad("cpu_ns.like=1", ENTITY_RUNS, "unknown_operator", "cpu_ns.like");
	bad("cpu_ns.=1", ENTITY_RUNS, "unknown_operator", "cpu_ns.");
	bad("cpu_ns.prefix=1", ENTITY_RUNS, "unknown_operator", "cpu_ns.prefix");
	bad("oom.gt=true", ENTITY_RUNS, "unknown_operator", "oom.gt");
	bad("cpu_ns=abc", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("cpu_ns=-1", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("cpu_ns=0x10", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("cpu_ns=1G", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("cpu_ns=", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("cpu_ns=1e400", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("cpu_ns=9223372036854775808", ENTITY_RUNS, "bad_value", "cpu_ns");
	bad("tasks=inf", ENTITY_RUNS, "bad_value", "tasks");
	bad("tasks=1s", ENTITY_RUNS, "bad_value", "tasks");
	bad("oom=1", ENTITY_RUNS, "bad_value", "oom");
	bad("end_ns.null=yes", ENTITY_RUNS, "bad_value", "end_ns.null");
	bad("since=yesterday", ENTITY_RUNS, "bad_value", "since");
	bad("since=2026-13-45", ENTITY_RUNS, "bad_value", "since");
	bad("since=1h&since=2h", ENTITY_RUNS, "given_twice", "since");
	bad("limit=0", ENTITY_RUNS, "bad_value", "limit");
	bad("limit=10001", ENTITY_RUNS, "bad_value", "limit");
	bad("limit=1.5", ENTITY_RUNS, "bad_value", "limit");
	bad("sort=nothing", ENTITY_RUNS, "unknown_column", "sort");
	bad("sort=", ENTITY_RUNS, "unknown_column", "sort");
	bad("sort=command", ENTITY_RUNS, "not_sortable", "sort");
	bad("command=x", ENTITY_RUNS, "not_filterable", "command");
	bad("fields=id,nothing", ENTITY_RUNS, "unknown_column", "fields");
	bad("fields=id,id", ENTITY_RUNS, "given_twice", "fields");
	bad("fields=", ENTITY_RUNS, "bad_value", "fields");
}

static void the_rest_of_a_question(void **state)
{
	CLEANUP(arena_free) struct arena arena;
	struct query_error error;
	struct query query;

	(void)state;
	arena_init(&arena, 4096);
	assert_int_equal(parse("", ENTITY_RUNS, &arena, &query, &error), 0);
	assert_int_equal(query.select.sort, -1);
	assert_int_equal(query.select.limit, QUERY_LIMIT_DEFAULT);
	assert_int_equal(query.select.column_count, RUNS_END);
	assert_int_equal(parse("sort=-cpu_ns&limit=7&fields=run,id&cursor=x", ENTITY_RUNS, &arena, &query, &error), 0);
	assert_int_equal(query.select.sort, RUNS_cpu_ns);
	assert_true(query.select.descending);
	assert_int_equal(query.select.limit, 7);
	assert_int_equal(query.select.column_count, 2);
	assert_int_equal(query.columns[0], RUNS_run);
	assert_int_equal(query.columns[1], RUNS_id);
	assert_string_equal(query.select.cursor, "x");
}

static void query_strings_are_decoded_or_refused(void **state)
{
	static const char *const wrong[] = {"a",     "=1",    "a=%",   "a=%4", "a=%zz",
					    "a=%00", "a=%ff", "a=%c3", "%=1",  "a&b=1"};
	CLEANUP(arena_free) struct arena arena;
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct query_parameters parameters = {.arena = &arena};

	(void)state;
	arena_init(&arena, 4096);
	assert_int_equal(query_parameters_parse(&parameters, "a=1+2%2B3&b=gr%C3%B6%c3%9Fer&&c="), 0);
	assert_int_equal(parameters.count, 3);
	assert_string_equal(parameters.list[0].value, "1 2+3");
	assert_string_equal(parameters.list[1].value, "größer");
	assert_string_equal(parameters.list[2].value, "");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct query_parameters other = {.arena = &arena};

		if (query_parameters_parse(&other, wrong[i]) != -EINVAL)
			fail_msg("%s: taken", wrong[i]);
	}
	for (unsigned i = 0; i <= QUERY_PARAMETERS_MAX; i++)
		buf_append_string(&text, "a=1&");
	parameters.count = 0;
	assert_int_equal(query_parameters_parse(&parameters, text.data), -E2BIG);
	buf_reset(&text);
	query_encode(&text, "größer & a/b");
	assert_string_equal(text.data, "gr%C3%B6%C3%9Fer%20%26%20a%2Fb");
}

static void conditions_become_parameters(void **state)
{
	static const struct {
		const char *text, *name, *value;
	} cases[] = {
		{"cpu_ns>=1e9", "cpu_ns.gte", "1e9"},
		{"tool=bwa", "tool", "bwa"},
		{"tool == bwa mem", "tool", "bwa mem"},
		{"a<=1", "a.lte", "1"},
		{"a<1", "a.lt", "1"},
		{"a > 1", "a.gt", "1"},
		{"a!=1", "a.ne", "1"},
		{"exe^=/usr", "exe.prefix", "/usr"},
		{"cwd~x=y", "cwd.contains", "x=y"},
		{"end_ns=null", "end_ns.null", "true"},
		{"end_ns!=null", "end_ns.null", "false"},
		{"a.gte=3", "a.gte", "3"},
	};
	static const char *const wrong[] = {"", "a", "=1", " = 1", "a!1", "a^1"};
	CLEANUP(arena_free) struct arena arena;
	struct query_parameter parameter;

	(void)state;
	arena_init(&arena, 4096);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(query_where(&arena, cases[i].text, &parameter), 0);
		assert_string_equal(parameter.name, cases[i].name);
		assert_string_equal(parameter.value, cases[i].value);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(query_where(&arena, wrong[i], &parameter), -EINVAL);
}

static const struct lake_text *text_of(struct arena *arena, const char *bytes)
{
	struct lake_text *text = arena_alloc(arena, sizeof(*text) + strlen(bytes) + 1);

	text->length = (uint32_t)strlen(bytes);
	memcpy(text->bytes, bytes, strlen(bytes) + 1);
	return text;
}

static void rows_are_written_as_they_are(void **state)
{
	static const uint8_t columns[] = {PROCESSES_id,	    PROCESSES_tool, PROCESSES_args,
					  PROCESSES_cpu_ns, PROCESSES_oom,  PROCESSES_signal};
	union lake_slot slot[SCHEMA_COLUMNS_MAX];
	CLEANUP(arena_free) struct arena arena;
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct query_writer writer;

	(void)state;
	arena_init(&arena, 4096);
	lake_row_clear(slot, &schema_entities[ENTITY_PROCESSES]);
	slot[PROCESSES_id].u64 = 9007199254740993;
	slot[PROCESSES_tool].text = text_of(&arena, "a,\"b\"\n");
	slot[PROCESSES_args].text = text_of(&arena, "[\"x\",\"y\"]");
	slot[PROCESSES_cpu_ns].u64 = 0;
	slot[PROCESSES_oom].u64 = 1;
	writer = query_writer_to(&out, QUERY_NDJSON, &schema_entities[ENTITY_PROCESSES], columns, sizeof(columns));
	query_write_heading(&writer);
	query_write_row(&writer, slot);
	assert_string_equal(out.data, "{\"id\":\"9007199254740993\",\"tool\":\"a,\\\"b\\\"\\n\",\"args\":[\"x\",\"y\"],"
				      "\"cpu_ns\":0,\"oom\":true,\"signal\":null}\n");
	buf_reset(&out);
	writer.format = QUERY_JSON;
	writer.compact = true;
	writer.rows = 0;
	query_write_row(&writer, slot);
	query_write_row(&writer, slot);
	assert_non_null(strstr(out.data, "null],[\"9007199254740993\","));
	buf_reset(&out);
	writer = query_writer_to(&out, QUERY_CSV, &schema_entities[ENTITY_PROCESSES], columns, sizeof(columns));
	query_write_heading(&writer);
	query_write_row(&writer, slot);
	assert_string_equal(out.data, "id,tool,args,cpu_ns,oom,signal\r\n"
				      "9007199254740993,\"a,\"\"b\"\"\n\",\"[\"\"x\"\",\"\"y\"\"]\",0,true,\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_have_units),		cmocka_unit_test(what_is_not_understood_is_named),
		cmocka_unit_test(the_rest_of_a_question),	cmocka_unit_test(query_strings_are_decoded_or_refused),
		cmocka_unit_test(conditions_become_parameters), cmocka_unit_test(rows_are_written_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
