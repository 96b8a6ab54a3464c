// SPDX-License-Identifier: Apache-2.0
// Rows of ended processes are written by the store itself in SQLite's file format: whatever they hold, SQLite finds
// them sound, reads the same values, and has taken them as they stand.

#include "tests/unit/store_cases.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lake/store_sqlite.h"

static char directory[64];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

void cases_fresh(void)
{
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	assert_int_equal(mkdir(directory, 0700), 0);
}

struct store *cases_open(int number)
{
	struct store_options options = {.create = true};
	struct store_error error = {0};
	struct store *store = NULL;
	char url[160];

	snprintf(url, sizeof(url), "sqlite:%s/%d", directory, number);
	assert_int_equal(store_open(url, &options, &store, &error), 0);
	return store;
}

static int fresh(void **state)
{
	(void)state;
	cases_fresh();
	return 0;
}

static void no_problem(void *data, const char *sentence)
{
	(void)data;
	fail_msg("%s", sentence);
}

static void check_sound(struct store *store)
{
	struct store_reader *reader = cases_reader(store);
	struct store_error error;

	assert_int_equal(store_check(reader, no_problem, NULL, &error), 0);
	store_reader_close(reader);
}

__attribute__((format(printf, 2, 3))) static uint64_t number(struct store *store, const char *format, ...)
{
	struct store_error error;
	uint64_t value = LAKE_NULL;
	va_list arguments;
	char sql[512];

	va_start(arguments, format);
	vsnprintf(sql, sizeof(sql), format, arguments);
	va_end(arguments);
	assert_int_equal(sqlite_number(sqlite_store_of(store)->db, sql, &value, &error), 0);
	return value;
}

static void ended(struct cases_batch *b, unsigned pid, const char *task, uint64_t figure, const char *args)
{
	cases_addf(b,
		   "{\"kind\":\"process\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"pid\":%u,\"start_ns\":%llu,"
		   "\"end_ns\":%llu,\"start_boot_ns\":%u,\"comm\":\"c\",\"args\":[\"%s\"],\"cpu_ns\":%llu,"
		   "\"tool\":\"t\",\"run\":\"r\",\"task\":\"%s\",\"quality\":{}}",
		   (unsigned long long)CASES_START, pid, (unsigned long long)CASES_START,
		   (unsigned long long)CASES_START + 1, pid, args, (unsigned long long)figure, task);
}

// Numbers of every width, at its edges.
static void test_numbers(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;
	uint64_t value[64 * 3 + 2];
	unsigned count = 0;

	(void)state;
	value[count++] = 0;
	for (unsigned bit = 0; bit < 63; bit++) {
		value[count++] = (UINT64_C(1) << bit) - 1;
		value[count++] = UINT64_C(1) << bit;
		value[count++] = (UINT64_C(1) << bit) + 1;
	}
	value[count++] = LAKE_U64_MAX;
	cases_begin(&b, "w", "host-1", 7, 1);
	for (unsigned i = 0; i < count; i++)
		ended(&b, i + 1, "a", value[i], "c");
	cases_write(store, &b);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(number(store, "SELECT cpu_ns FROM processes_1 WHERE pid=%u", i + 1), value[i]);
		assert_int_equal(number(store, "SELECT count(*) FROM processes_1 WHERE id=%u AND pid=%u AND cpu_ns=%llu"
					       " AND typeof(cpu_ns)='integer' AND typeof(read_bytes)='null'",
					i + 1, i + 1, (unsigned long long)value[i]), 1);
	}
	// Neither the pid nor -2, by which the table tells it.
	assert_int_equal(number(store, "SELECT count(*) FROM processes WHERE pid_in_namespace IS NULL"), count);
	assert_int_equal(number(store, "SELECT count(*) FROM processes WHERE time_ns=start_ns AND end_ns=start_ns+1"), count);
	// Their sum is more than SQLite adds up, so check_sound() is not for them.
	assert_int_equal(number(store, "SELECT count(*) FROM pragma_integrity_check('processes_1')"
				       " WHERE integrity_check<>'ok'"), 0);
	store_close(store);
}

// Texts around the sizes at which a row no longer fits a page of ours, or of the file, with short rows between.
static void test_long_texts(void **state)
{
	static const size_t around[] = {1900, 4060, 8100, 65440, 65536, 131000, 262144, 1000000};
	enum { SIZES = sizeof(around) / sizeof(around[0]), NEAR = 12 };
	struct store *store = cases_open(0);
	char *text = malloc(1100000);
	struct cases_batch b;
	unsigned pid = 0;

	(void)state;
	assert_non_null(text);
	cases_begin(&b, "w", "host-1", 7, 1);
	for (unsigned i = 0; i < SIZES; i++) {
		for (size_t length = around[i]; length < around[i] + NEAR; length++) {
			memset(text, 'a' + (int)(length % 26), length);
			text[length] = '\0';
			text[length - 1] = 'Z';
			ended(&b, ++pid, "a", length, text);
			ended(&b, ++pid, "b", 1, "short");
		}
	}
	cases_write(store, &b);
	pid = 0;
	for (unsigned i = 0; i < SIZES; i++) {
		for (size_t length = around[i]; length < around[i] + NEAR; length++, pid += 2) {
			char byte = (char)('a' + length % 26);

			assert_int_equal(number(store, "SELECT length(args) FROM processes_1 WHERE pid=%u", pid + 1), length + 4);
			// The same byte all along, and the last one where it belongs.
			assert_int_equal(number(store, "SELECT trim(args,'[\"%c')='Z\"]' OR trim(args,'[\"]%c')='Z'"
						       " FROM processes_1 WHERE pid=%u", byte, byte, pid + 1), 1);
			assert_int_equal(number(store, "SELECT args='[\"short\"]' AND cpu_ns=1 FROM processes_1 WHERE pid=%u",
						pid + 2), 1);
		}
	}
	assert_int_equal(number(store, "SELECT count(*) FROM processes_1"), pid);
	check_sound(store);
	free(text);
	store_close(store);
}

// Rows of tasks that take turns, over many pages and transactions: the index has each once, where it belongs.
static void test_index(void **state)
{
	enum { TASKS = 7, ROWS = 3000, BATCHES = 3 };
	struct store *store = cases_open(0);
	uint64_t contexts;

	(void)state;
	for (unsigned n = 0; n < BATCHES; n++) {
		struct cases_batch b;

		cases_begin(&b, "w", "host-1", 7, 1 + n * ROWS);
		for (unsigned i = 0; i < ROWS; i++) {
			char task[16];

			snprintf(task, sizeof(task), "t%u", (i * 5 + n) % TASKS);
			ended(&b, 1 + n * ROWS + i, task, i, "c");
		}
		cases_write(store, &b);
	}
	contexts = number(store, "SELECT count(*) FROM contexts_1");
	assert_int_equal(contexts, TASKS);
	for (uint64_t c = 1; c <= contexts; c++)
		assert_int_equal(number(store, "SELECT sum(id) FROM processes_1 INDEXED BY processes_1_context"
					       " WHERE context=%llu", (unsigned long long)c),
				 number(store, "SELECT sum(id) FROM processes_1 NOT INDEXED WHERE context=%llu",
					(unsigned long long)c));
	assert_int_equal(number(store, "SELECT count(*) FROM processes_1 INDEXED BY processes_1_context WHERE context>0"),
			 ROWS * BATCHES);
	assert_int_equal(number(store, "SELECT max(id) FROM processes_1"), ROWS * BATCHES);
	check_sound(store);
	store_close(store);
}

// SQLite takes the rows as they are: were the tables in memory and in the file ever to differ, it would take them apart
// again, with the same rows in the end but much later.
static void test_taken_whole(void **state)
{
	struct store *store = cases_open(0);
	struct cases_batch b;
	sqlite3_stmt *explain;
	bool whole = false;
	char sql[200];

	(void)state;
	cases_begin(&b, "w", "host-1", 7, 1);
	ended(&b, 1, "a", 1, "c");
	cases_write(store, &b);
	snprintf(sql, sizeof(sql), "EXPLAIN %s", sqlite3_sql(sqlite_store_of(store)->process_insert));
	assert_int_equal(sqlite3_prepare_v2(sqlite_store_of(store)->db, sql, -1, &explain, NULL), SQLITE_OK);
	while (sqlite3_step(explain) == SQLITE_ROW) {
		const char *step = (const char *)sqlite3_column_text(explain, 1);

		whole |= !strcmp(step, "RowCell");
		assert_string_not_equal(step, "MakeRecord");
	}
	sqlite3_finalize(explain);
	assert_true(whole);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_numbers, fresh),
		cmocka_unit_test_setup(test_long_texts, fresh),
		cmocka_unit_test_setup(test_index, fresh),
		cmocka_unit_test_setup(test_taken_whole, fresh),
	};
	int failed;

	snprintf(directory, sizeof(directory), "/tmp/test_store_ended.%d", (int)getpid());
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return failed;
}
