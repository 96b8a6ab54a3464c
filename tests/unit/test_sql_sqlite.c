// SPDX-License-Identifier: Apache-2.0
// SQL of strangers: what they may ask is answered, for their workspace only; what is hostile is refused or stopped
// within its limits, and the memory of the process stays bounded whatever they send.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/decode.h"
#include "lake/sql_sqlite.h"
#include "lake/store.h"

static char directory[] = "/tmp/tracer-sql-XXXXXX", file[64];

static const char record[] =
	"{\"kind\":\"process\",\"time_ns\":1000000000000000%u,\"host\":\"%s\",\"boot\":\"b\",\"pid\":%u,\"ppid\":1,"
	"\"start_ns\":1000000000000000,\"end_ns\":1000000000000100,\"start_boot_ns\":%u,\"parent_start_boot_ns\":1,"
	"\"comm\":\"c\",\"exe\":\"/bin/"
	"%s\",\"args\":[\"%s\",\"-x\"],\"tool\":\"tool-%s\",\"cpu_ns\":%u,\"images\":[{\"start_ns\":1000000000000000,"
	"\"comm\":\"f\",\"exe\":\"/bin/first\"},"
	"{\"start_ns\":1000000000000050}],"
	"\"run\":\"run-%s\",\"run_name\":\"run-%s\",\"task\":\"t%u\",\"quality\":{}}";

static void fill(struct store *store, const char *workspace, unsigned count)
{
	struct store_error error = {0};
	struct lake_batch batch = {0}, *batches[] = {&batch};
	struct store_result result;
	char host_id[40], text[1024];

	snprintf(host_id, sizeof(host_id), "%s-host", workspace);
	assert_int_equal(lake_batch_begin(&batch, workspace, host_id), 0);
	for (unsigned i = 1; i <= count; i++) {
		struct decode_error wrong = {0};
		int length = snprintf(text, sizeof(text), record, i % 10, workspace, i, i, workspace, workspace,
				      workspace, i, workspace, workspace, i % 7);
		yyjson_doc *document = yyjson_read(text, (size_t)length, 0);

		assert_non_null(document);
		if (decode_record(&batch, yyjson_doc_get_root(document), i, &wrong) != 0)
			fail_msg("%s: %s", wrong.member, wrong.text);
		yyjson_doc_free(document);
	}
	batch.epoch = 1;
	batch.first = 1;
	batch.last = count;
	batch.received_ns = UINT64_C(1700000000000000000);
	if (store_write(store, batches, 1, &result, &error) != 0)
		fail_msg("%s", error.text);
	lake_batch_free(&batch);
}

static int make_lake(void **state)
{
	const struct store_options options = {.create = true};
	struct store_error error = {0};
	struct store *store;
	char url[80];

	(void)state;
	assert_int_equal(sql_sqlite_setup(), 0);
	assert_non_null(mkdtemp(directory));
	snprintf(url, sizeof(url), "sqlite:%s/lake", directory);
	snprintf(file, sizeof(file), "%s/lake/lake.db", directory);
	if (store_open(url, &options, &store, &error) != 0)
		fail_msg("%s", error.text);
	fill(store, "red", 400);
	fill(store, "blue", 300);
	store_close(store);
	return 0;
}

static int remove_lake(void **state)
{
	char command[80];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

// --- asking ------------------------------------------------------------------------------------------------------

struct answer {
	struct buf text; // values with blanks between, rows with | between
	uint64_t rows, bytes;
	struct store_error error;
};

static int columns(void *data, const char *const *names, size_t count)
{
	(void)data;
	(void)names;
	assert_true(count > 0);
	return 0;
}

static int row(void *data, const struct store_value *values, size_t count)
{
	struct answer *answer = data;

	if (answer->rows++)
		buf_append_char(&answer->text, '|');
	for (size_t i = 0; i < count && answer->text.length < 1000000; i++) {
		buf_append_string(&answer->text, i ? " " : "");
		if (values[i].type == STORE_VALUE_I64)
			buf_printf(&answer->text, "%lld", (long long)values[i].i64);
		else if (values[i].type == STORE_VALUE_F64)
			buf_printf(&answer->text, "%.3f", values[i].f64);
		else if (values[i].type == STORE_VALUE_TEXT)
			buf_append(&answer->text, values[i].text, values[i].length);
		else
			buf_append_string(&answer->text, "null");
		answer->bytes += values[i].type == STORE_VALUE_TEXT ? values[i].length : 8;
	}
	return 0;
}

static int ask(const char *workspace, const char *sql, uint64_t time_ms, struct answer *answer)
{
	const struct store_sql_limits limits = {.rows = 100000, .time_ms = time_ms, .memory_bytes = 16 << 20};

	buf_reset(&answer->text);
	answer->rows = answer->bytes = 0;
	answer->error = (struct store_error){0};
	return sql_sqlite_run(file, workspace, sql, &limits, columns, row, answer, &answer->error);
}

static void expect(const char *workspace, const char *sql, const char *text)
{
	struct answer answer = {0};
	int error = ask(workspace, sql, 10000, &answer);

	if (error != 0)
		fail_msg("%s\n%d: %s", sql, error, answer.error.text);
	if (strcmp(answer.text.data ? answer.text.data : "", text) != 0)
		fail_msg("%s\ngives %s\n  not %s", sql, answer.text.data, text);
	buf_free(&answer.text);
}

static void questions_are_answered_for_one_workspace(void **state)
{
	(void)state;
	expect("red", "SELECT count(*) FROM processes", "400");
	expect("blue", "SELECT count(*), sum(cpu_ns) FROM processes", "300 45150");
	expect(NULL, "SELECT count(*) FROM processes", "700");
	expect("green", "SELECT count(*) FROM processes", "0");
	expect("red", "SELECT tool, processes FROM tools", "tool-red 400");
	expect("red", "SELECT DISTINCT workspace FROM tasks ORDER BY 1", "red");
	expect("red", "SELECT r.run_name, count(*) FROM runs r JOIN tasks t ON t.run_id = r.id GROUP BY 1 ;  -- ok",
	       "run-red 7");
	expect("red",
	       "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT sum(x) FROM n",
	       "15");
	expect("red", "SELECT json_extract(args, '$[1]') FROM processes LIMIT 1", "-x");
	expect("red", "SELECT value FROM processes, json_each(args) LIMIT 2", "red|-x");
	expect("red", "SELECT instr('größer', 'ß'), instr('abc', 'x'), instr(NULL, 'x'), instr('abc', '')",
	       "4 0 null 1");
	expect("red", "SELECT runs.processes FROM runs, (SELECT 1)", "400");
	expect("red", "SELECT count(*) OVER () FROM runs", "1");
	expect("red", "VALUES (1), (2)", "1|2");
	expect("red", "SELECT DISTINCT json_extract(images, '$[0].exe') FROM processes", "/bin/first");
}

// Another workspace's rows, the tables behind the views, or the schema: by every road there is.
static void nothing_else_can_be_reached(void **state)
{
	static const char *const roads[] = {
		"SELECT * FROM main.processes",
		"SELECT * FROM main.runs",
		"SELECT * FROM cursors",
		"SELECT acked FROM cursors",
		"SELECT * FROM living",
		"SELECT * FROM processes_1",
		"SELECT * FROM contexts_1",
		"SELECT no FROM texts_1",
		"SELECT * FROM sqlite_master",
		"SELECT * FROM sqlite_schema",
		"SELECT sql FROM sqlite_temp_master",
		"SELECT sql FROM sqlite_temp_schema",
		"SELECT sql FROM temp.sqlite_schema",
		"SELECT count(*) FROM main.sqlite_schema",
		"SELECT * FROM pragma_database_list",
		"SELECT count(*) FROM pragma_database_list",
		"SELECT * FROM pragma_table_info('runs')",
		"SELECT * FROM pragma_table_list",
		"SELECT * FROM sqlite_dbpage",
		"SELECT * FROM dbstat",
		"SELECT * FROM bytecode('SELECT 1')",
		"WITH runs AS (SELECT * FROM main.runs) SELECT * FROM runs",
		"WITH runs AS (SELECT * FROM cursors) SELECT * FROM runs",
		"WITH processes AS (SELECT * FROM living) SELECT * FROM processes",
		"WITH x AS (SELECT sql FROM sqlite_temp_schema) SELECT * FROM x",
		"SELECT (SELECT count(*) FROM main.processes)",
		"SELECT * FROM runs WHERE id IN (SELECT id FROM main.runs)",
		"EXPLAIN SELECT * FROM runs",
		"EXPLAIN QUERY PLAN SELECT * FROM runs",
		"PRAGMA database_list",
		"PRAGMA table_info(runs)",
		"PRAGMA writable_schema=1",
		"PRAGMA query_only=0",
		"ATTACH 'x' AS y",
		"ATTACH '/etc/passwd' AS y",
		"DETACH main",
		"VACUUM INTO '/tmp/x'",
		"INSERT INTO runs VALUES (1)",
		"UPDATE runs SET run_name = 'x'",
		"DELETE FROM runs",
		"DROP VIEW runs",
		"CREATE TABLE x (y)",
		"CREATE TEMP TABLE x AS SELECT 1",
		"CREATE TEMP VIEW runs2 AS SELECT 1",
		"CREATE TEMP TRIGGER x AFTER INSERT ON runs BEGIN SELECT 1; END",
		"ALTER TABLE runs RENAME TO x",
		"REINDEX",
		"ANALYZE",
		"BEGIN",
		"COMMIT",
		"SAVEPOINT x",
		"SELECT load_extension('x')",
		"SELECT readfile('/etc/passwd')",
		"SELECT writefile('/tmp/x', 'y')",
		"SELECT edit('x')",
		"SELECT fts3_tokenizer('x')",
		"SELECT sqlite_version()",
		"SELECT sqlite_source_id()",
		"SELECT sqlite_compileoption_get(1)",
		"SELECT changes()",
		"SELECT randomblob(10)",
		"SELECT zeroblob(10)",
		"SELECT 1; SELECT 2",
		"SELECT 1; DROP VIEW runs",
		"SELECT 1; -- x\n SELECT 2",
		"",
		";",
		"-- nothing",
		"SELECT",
		"SELECT * FROM nowhere",
		"SELECT nothing FROM runs",
		"SELECT ?1 FROM runs",
	};
	struct answer answer = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(roads) / sizeof(roads[0]); i++) {
		int error = ask("red", roads[i], 10000, &answer);

		if (error != -EACCES && error != -EINVAL)
			fail_msg("%s\ngives %d %s: %s", roads[i], error, answer.error.text, answer.text.data);
		assert_int_equal(answer.rows, 0);
		assert_true(answer.error.text[0]);
		assert_null(strstr(answer.error.text, directory));
	}
	buf_free(&answer.text);
}

// --- bombs -------------------------------------------------------------------------------------------------------

static uint64_t peak_bytes(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

static void bomb(const char *sql)
{
	struct answer answer = {0};
	uint64_t before = clock_boot_ns(), took_ns;
	int error = ask("red", sql, 1000, &answer);

	took_ns = clock_boot_ns() - before;
	// What the engine made small by itself may be answered; what is large may not.
	if (error == 0 ? answer.bytes > 1000000
		       : error != -ETIME && error != -ENOMEM && error != -EINVAL && error != -EACCES && error != -E2BIG)
		fail_msg("%.200s\ngives %d, %llu bytes: %s", sql, error, (unsigned long long)answer.bytes,
			 answer.error.text);
	// The limit is a second; a step of the engine, under the sanitizers, may take a while longer.
	if (took_ns > UINT64_C(6000000000))
		fail_msg("%.200s\ntook %.1f s", sql, (double)took_ns / 1e9);
	buf_free(&answer.text);
}

#define FOREVER "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
#define BIG "printf('%.*c', 200000, 'a')"

static void bombs_are_stopped(void **state)
{
	static const char *const bombs[] = {
		FOREVER "SELECT count(*) FROM c",
		FOREVER "SELECT max(x) FROM c",
		FOREVER "SELECT x FROM c",
		FOREVER "SELECT x FROM c ORDER BY x DESC",
		FOREVER "SELECT " BIG " FROM c ORDER BY 1",
		FOREVER "SELECT DISTINCT " BIG " || x FROM c",
		FOREVER "SELECT group_concat(" BIG ") FROM c",
		FOREVER "SELECT json_group_array(" BIG ") FROM c",
		FOREVER "SELECT count(*) FROM c GROUP BY x % 1000000, " BIG " || x",
		FOREVER "SELECT sum(x) OVER (ORDER BY x DESC) FROM c",
		FOREVER "SELECT string_agg(x, '') FROM c",
		"WITH RECURSIVE c(x) AS (SELECT 1 UNION SELECT x + 1 FROM c) SELECT count(*) FROM c",
		"WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM c) SELECT length(x) FROM c",
		"WITH RECURSIVE c(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM c) SELECT count(*) FROM c",
		"WITH a AS MATERIALIZED (SELECT * FROM processes, processes b, processes d) SELECT count(*) FROM a",
		"SELECT count(*) FROM processes a, processes b, processes c, processes d",
		"SELECT * FROM processes a, processes b, processes c ORDER BY a.cpu_ns * b.cpu_ns",
		"SELECT zeroblob(1000000000)",
		"SELECT randomblob(1000000000)",
		"SELECT printf('%.*c', 1000000000, 'x')",
		"SELECT printf('%1000000000d', 1)",
		"SELECT format('%.999999999f', 1.5)",
		"SELECT hex(hex(hex(hex(hex(" BIG ")))))",
		"SELECT replace(" BIG ", 'a', " BIG ")",
		"SELECT replace(replace(replace(" BIG ", 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaa')",
		FOREVER "SELECT count(replace(" BIG ", printf('%.*c', 100000, 'a') || 'b', '')) FROM c",
		FOREVER "SELECT count(instr(" BIG ", printf('%.*c', 100000, 'a') || 'b')) FROM c",
		FOREVER "SELECT count(" BIG " LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b') FROM c",
		FOREVER "SELECT count(" BIG " GLOB '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b') FROM c",
		"SELECT 'a' LIKE '"
		"%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_"
		"%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_%_"
		"%_%_%_%_%_%_'",
		"SELECT json_extract(printf('%.*c', 100000, '['), '$[0]')",
		"SELECT value FROM json_each(printf('[%.*c1]', 100000, ','))",
		"WITH RECURSIVE c(x) AS (SELECT '[]' UNION ALL SELECT json_array(x, x) FROM c) SELECT length(x) FROM c",
		"SELECT strftime(printf('%.*c', 100000, '%'), 'now')",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++)
		bomb(bombs[i]);
}

// What is too large before it begins: deep, wide or long texts, made here.
static void repeat(struct buf *out, const char *text, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		buf_append_string(out, text);
}

static void large_questions_are_refused(void **state)
{
	static const struct {
		const char *head, *part, *middle, *back, *tail;
		unsigned times;
	} shapes[] = {
		{"SELECT ", "(", "1", ")", "", 20000},
		{"SELECT ", "-", "1", "", "", 60000},
		{"SELECT ", "1+", "1", "", "", 30000},
		{"SELECT ", "NOT ", "1", "", "", 15000},
		{"SELECT ", "abs(", "1", ")", "", 12000},
		{"SELECT count(*) FROM processes WHERE pid IN (", "1,", "1", "", ")", 100000},
		{"SELECT ", "1,", "1", "", "", 30000},
		{"", "SELECT 1 UNION ALL ", "SELECT 1", "", "", 3000},
		{"SELECT * FROM ", "runs,", "runs", "", "", 100},
		{"SELECT ", "(SELECT ", "1", ")", "", 5000},
		{"SELECT '", "aaaaaaaaaaaaaaaa", "", "", "'", 20000},
		{"SELECT CASE ", "WHEN 1 THEN 2 ", "", "", "", 5000},
		{"/*", "**********", "", "", "*/ SELECT", 100000},
		{"SELECT * FROM runs WHERE ", "run_name = 'x' OR ", "1", "", "", 3000},
		{"WITH a AS (SELECT 1)", ", a AS (SELECT 1)", " SELECT 1 FROM a", "", "", 2000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		CLEANUP(buf_free) struct buf sql = BUF_INIT;

		buf_append_string(&sql, shapes[i].head);
		repeat(&sql, shapes[i].part, shapes[i].times);
		buf_append_string(&sql, shapes[i].middle);
		repeat(&sql, shapes[i].back, shapes[i].times);
		buf_append_string(&sql, shapes[i].tail);
		assert_int_equal(buf_error(&sql), 0);
		bomb(sql.data);
	}
}

static void memory_stays_bounded(void **state)
{
	uint64_t before = peak_bytes();

	(void)state;
	// A limit of 16 MiB for each question, and what the allocator and the sanitizer keep beside it.
	for (unsigned i = 0; i < 5; i++)
		bomb(FOREVER "SELECT " BIG " FROM c ORDER BY 1");
	if (peak_bytes() > before + (UINT64_C(192) << 20))
		fail_msg("peak memory rose from %llu to %llu MiB", (unsigned long long)before >> 20,
			 (unsigned long long)peak_bytes() >> 20);
	expect("red", "SELECT count(*) FROM processes", "400");
}

static void limits_are_told(void **state)
{
	struct answer answer = {0};

	(void)state;
	assert_int_equal(ask("red", FOREVER "SELECT count(*) FROM c", 300, &answer), -ETIME);
	assert_non_null(strstr(answer.error.text, "0.3 s"));
	assert_int_equal(ask("red", FOREVER "SELECT " BIG " FROM c ORDER BY 1", 20000, &answer), -ENOMEM);
	assert_non_null(strstr(answer.error.text, "16 MiB"));
	assert_int_equal(ask("red", FOREVER "SELECT x FROM c", 20000, &answer), -E2BIG);
	assert_int_equal(answer.rows, 100000);
	assert_int_equal(ask("red", "SELECT * FROM secrets", 1000, &answer), -EINVAL);
	assert_non_null(strstr(answer.error.text, "no such table: secrets"));
	assert_int_equal(ask("red", "PRAGMA query_only=0", 1000, &answer), -EACCES);
	assert_non_null(strstr(answer.error.text, "PRAGMA"));
	buf_free(&answer.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions_are_answered_for_one_workspace),
		cmocka_unit_test(nothing_else_can_be_reached),
		cmocka_unit_test(bombs_are_stopped),
		cmocka_unit_test(large_questions_are_refused),
		cmocka_unit_test(memory_stays_bounded),
		cmocka_unit_test(limits_are_told),
	};

	return cmocka_run_group_tests(tests, make_lake, remove_lake);
}
