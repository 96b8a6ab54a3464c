// SPDX-License-Identifier: Apache-2.0
// What the SQLite store does when it is killed, full, damaged, of another version, too old or too large.

#include "tests/unit/store_cases_series.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lake/sql_sqlite.h"
#include "lake/store_sqlite.h"

static char directory[64];
static struct store_retention keep;

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
	keep = (struct store_retention){0};
}

static int open_at(const char *path, struct store **ret_store, struct store_error *error)
{
	struct store_options options = {.create = true, .retention = keep};
	char url[160];

	snprintf(url, sizeof(url), "sqlite:%s", path);
	return store_open(url, &options, ret_store, error);
}

struct store *cases_open(int number)
{
	struct store_error error = {0};
	struct store *store = NULL;
	char path[96];
	int status;

	snprintf(path, sizeof(path), "%s/%d", directory, number);
	status = open_at(path, &store, &error);
	if (status < 0)
		print_error("%d %s\n", status, error.text);
	assert_int_equal(status, 0);
	return store;
}

static int fresh(void **state)
{
	(void)state;
	cases_fresh();
	return 0;
}

static void check_sound(struct store *store)
{
	struct store_reader *reader = cases_reader(store);
	struct store_error error;

	assert_int_equal(store_check(reader, cases_no_problem, NULL, &error), 0);
	store_reader_close(reader);
}

static void sleep_us(unsigned us)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

static uint64_t number(struct store *store, const char *sql)
{
	struct store_error error;
	uint64_t value = 0;

	assert_int_equal(sqlite_number(sqlite_store_of(store)->db, sql, &value, &error), 0);
	return value;
}

// --- killed ------------------------------------------------------------------------------

// Writes until it is killed, and tells each acknowledgement.
static void write_on(int tell, uint64_t first)
{
	struct store *store = cases_open(0);

	for (;;) {
		struct cases_batch b;
		struct store_result result;
		struct lake_batch *batch = &b.batch;
		struct store_upkeep upkeep;
		struct store_error error;

		cases_begin(&b, "w", "host-1", 7, first);
		for (unsigned i = 0; i < 40; i++)
			cases_process(&b, (unsigned)(first + i), "r", i % 2 ? "a" : "b", "");
		if (store_write(store, &batch, 1, &result, &error) < 0 || result.verdict != STORE_STORED)
			_exit(1);
		lake_batch_free(batch);
		if (write(tell, &result.acked, sizeof(result.acked)) != sizeof(result.acked))
			_exit(1);
		first = result.acked + 1;
		if (store_maintain(store, CASES_START + first * CASES_SECOND, &upkeep, &error) < 0)
			_exit(1);
	}
}

static void test_killed(void **state)
{
	uint64_t told = 0, acked = 0;
	struct store *store;

	(void)state;
	store_close(cases_open(0));
	for (unsigned turn = 0; turn < 25; turn++) {
		struct store_reader *reader;
		struct store_cursor cursor;
		struct store_error error;
		int pipes[2], status;
		pid_t child;

		assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
		child = fork();
		if (child == 0)
			write_on(pipes[1], acked + 1);
		// Every other one while it writes for sure, however slow this machine is.
		if (turn % 2)
			poll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1, 30000);
		sleep_us(20000 + turn * 7919 % 90000);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status));
		while (read(pipes[0], &told, sizeof(told)) == sizeof(told))
			;
		close(pipes[0]);
		close(pipes[1]);
		store = cases_open(0);
		reader = cases_reader(store);
		if (store_cursor_get(reader, "w", "host-1", 7, &cursor, &error) == 0)
			acked = cursor.acked;
		store_reader_close(reader);
		assert_true(acked >= told);
		assert_int_equal(acked % 40, 0);
		assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), acked);
		if (acked) {
			assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "processes"), acked);
			assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "cpu_ns"),
					 100 * acked * (acked + 1) / 2);
		}
		check_sound(store);
		store_close(store);
	}
	assert_true(acked > 0);
}

// Making the tables is killed at any moment: the next start makes them.
static void test_killed_while_made(void **state)
{
	(void)state;
	for (unsigned turn = 0; turn < 10; turn++) {
		struct cases_batch b;
		struct store *store;
		int status;
		pid_t child;

		cases_fresh();
		child = fork();
		if (child == 0) {
			store_close(cases_open(0));
			_exit(0);
		}
		sleep_us(turn * 4500);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		store = cases_open(0);
		cases_begin(&b, "w", "host-1", 7, 1);
		cases_process(&b, 1, "r", "t", "");
		assert_int_equal(cases_write(store, &b).acked, 1);
		check_sound(store);
		store_close(store);
	}
}

static unsigned events_left;

static int kill_at_event(unsigned what, void *context, void *statement, void *more)
{
	(void)what;
	(void)context;
	(void)statement;
	(void)more;
	if (events_left-- == 0)
		raise(SIGKILL);
	return 0;
}

static int watch_statements(sqlite3 *db, char **message, const void *api)
{
	(void)message;
	(void)api;
	return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, kill_at_event, NULL);
}

// Killed before each statement that brings an empty file, which is version 0, to this version: the next start
// finds either version, whole.
static void test_killed_at_each_statement(void **state)
{
	bool done = false;

	(void)state;
	for (unsigned at = 0; !done; at++) {
		struct cases_batch b;
		struct store *store;
		uint64_t version;
		int status;
		pid_t child;

		cases_fresh();
		child = fork();
		if (child == 0) {
			sql_sqlite_setup();
			events_left = at;
			sqlite3_auto_extension((void (*)(void))watch_statements);
			store_close(cases_open(0));
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		done = WIFEXITED(status);
		assert_true(done ? WEXITSTATUS(status) == 0 && at > 20 : WTERMSIG(status) == SIGKILL);
		store = cases_open(0);
		version = number(store, "PRAGMA user_version");
		assert_int_equal(version, SQLITE_STORE_VERSION);
		cases_begin(&b, "w", "host-1", 7, 1);
		cases_process(&b, 1, "r", "t", "");
		assert_int_equal(cases_write(store, &b).acked, 1);
		assert_int_equal(cases_count(store, ENTITY_RUNS, "w"), 1);
		store_close(store);
	}
}

// --- other ills --------------------------------------------------------------------------

static void test_full(void **state)
{
	struct store *store = cases_open(0);
	struct sqlite_store *sqlite = sqlite_store_of(store);
	struct store_error error = {0};
	struct store_result result;
	struct cases_batch b;
	struct lake_batch *batch = &b.batch;

	(void)state;
	cases_many(store, "w", "host-1", 1, 100);
	assert_int_equal(sqlite_run(sqlite->db, "PRAGMA max_page_count=1", &error), 0);
	cases_begin(&b, "w", "host-1", 7, 101);
	for (unsigned i = 101; i <= 2000; i++)
		cases_process(&b, i, "run-1", "task-1", "");
	for (int turn = 0; turn < 3; turn++) {
		assert_int_equal(store_write(store, &batch, 1, &result, &error), -ENOSPC);
		assert_non_null(strstr(error.text, "full"));
		assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 100);
	}
	// Room again: it goes on by itself.
	assert_int_equal(sqlite_run(sqlite->db, "PRAGMA max_page_count=1000000", &error), 0);
	assert_int_equal(cases_write(store, &b).acked, 2000);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 2000);
	assert_int_equal(cases_number(store, ENTITY_HOSTS, "w", "processes"), 2000);
	check_sound(store);
	store_close(store);
}

static void test_versions(void **state)
{
	struct store *store = cases_open(0), *other = NULL;
	struct store_error error = {0};
	char path[96];

	(void)state;
	snprintf(path, sizeof(path), "%s/0", directory);
	assert_int_equal(open_at(path, &other, &error), -EBUSY);
	assert_int_equal(sqlite_run(sqlite_store_of(store)->db, "PRAGMA user_version=99", &error), 0);
	store_close(store);
	assert_int_equal(open_at(path, &other, &error), -EPROTO);
	assert_non_null(strstr(error.text, "newer"));
	assert_null(other);
}

static void test_backup(void **state)
{
	struct store *store = cases_open(0);
	struct store_backup *backup;
	struct store_error error;
	char path[96];
	int status;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		cases_many(store, "w", "host-1", i * 400 + 1, 400);
	snprintf(path, sizeof(path), "%s/1", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/1/lake.db", directory);
	assert_int_equal(store_backup_begin(store, path, &backup, &error), 0);
	// Writing goes on meanwhile.
	cases_many(store, "w", "host-1", 8001, 400);
	while ((status = store_backup_step(backup, &error)) == 1)
		;
	assert_int_equal(status, 0);
	store_backup_end(backup);
	assert_int_equal(store_backup_begin(store, path, &backup, &error), -EEXIST);
	store_close(store);
	store = cases_open(1);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 8400);
	check_sound(store);
	cases_many(store, "w", "host-1", 8401, 10);
	store_close(store);
}

static void count_problem(void *data, const char *sentence)
{
	size_t *count = data;

	(void)sentence;
	(*count)++;
}

static void test_damage(void **state)
{
	struct store *store = cases_open(0);
	struct store_reader *reader;
	struct store_error error;
	size_t problems = 0;
	char path[96], junk[4096];
	int fd, status;

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		cases_many(store, "w", "host-1", i * 400 + 1, 400);
	// A sum that is wrong.
	assert_int_equal(sqlite_run(sqlite_store_of(store)->db, "UPDATE hosts SET cpu_ns=cpu_ns+1", &error), 0);
	reader = cases_reader(store);
	assert_int_equal(store_check(reader, count_problem, &problems, &error), 1);
	assert_int_equal(problems, 1);
	store_reader_close(reader);
	assert_int_equal(sqlite_run(sqlite_store_of(store)->db, "PRAGMA wal_checkpoint(TRUNCATE)", &error), 0);
	store_close(store);
	snprintf(path, sizeof(path), "%s/0/lake.db", directory);
	memset(junk, 0x5a, sizeof(junk));
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, junk, sizeof(junk), 40 * 8192), sizeof(junk));
	close(fd);
	store = cases_open(0);
	reader = cases_reader(store);
	problems = 0;
	status = store_check(reader, count_problem, &problems, &error);
	assert_true(status == -EILSEQ || (status == 1 && problems > 0));
	store_reader_close(reader);
	store_close(store);
}

// --- the greatest first ---

struct top_case {
	uint64_t rows, last, last_id, sum;
	uint64_t ids[700];
};

static int top_row(void *data, const union lake_slot *slot)
{
	struct top_case *top = data;
	uint64_t cpu = slot[PROCESSES_cpu_ns].u64;

	assert_true(top->rows == 0 || cpu < top->last || (cpu == top->last && slot[0].u64 > top->last_id));
	top->last = cpu;
	top->last_id = slot[0].u64;
	top->ids[top->rows++] = slot[0].u64;
	return 0;
}

static void top_select(struct store_reader *reader, uint64_t limit, const char *tool, bool whole, struct top_case *top)
{
	CLEANUP(cleanup_free) struct lake_text *text = calloc(1, sizeof(*text) + 32);
	struct store_filter filter = {.column = PROCESSES_tool, .op = STORE_EQ, .value.text = text};
	struct store_query query = {.entity = ENTITY_PROCESSES, .sort = PROCESSES_cpu_ns, .descending = true,
				    .limit = limit, .filters = &filter, .filter_count = tool ? 1 : 0};
	char cursor[STORE_CURSOR_SIZE] = "";
	struct store_error error;

	if (tool) {
		text->length = (uint32_t)strlen(tool);
		memcpy(text->bytes, tool, text->length + 1);
	}
	*top = (struct top_case){0};
	do {
		char next[STORE_CURSOR_SIZE];

		query.cursor = cursor;
		assert_int_equal(store_select(reader, &query, top_row, top, next, &error), 0);
		memcpy(cursor, next, sizeof(cursor));
	} while (whole && cursor[0] && top->rows < 600);
}

static void top_add(struct store *store, unsigned first, unsigned count)
{
	struct cases_batch b;

	cases_begin(&b, "w", "host-1", 7, first);
	for (unsigned i = first; i < first + count; i++)
		cases_addf(&b,
			   "{\"kind\":\"process\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"pid\":%u,\"start_ns\":"
			   "%llu,\"end_ns\":%llu,\"start_boot_ns\":%u,\"comm\":\"c\",\"args\":[\"c\"],\"cpu_ns\":%u,\"tool\":"
			   "\"%s\",\"quality\":{}}",
			   (unsigned long long)CASES_START, i, (unsigned long long)CASES_START,
			   (unsigned long long)CASES_START + 1, i, i * 7919 % 5003, i % 97 ? "often" : "rare");
	cases_write(store, &b);
}

// What the remembered zones find is what a look at every row finds, also when there is more of it later, and when a
// filter leaves fewer than the zones promised.
static void test_greatest(void **state)
{
	static struct top_case top, rest;
	struct store_reader *reader;
	struct store *store;

	(void)state;
	store = cases_open(0);
	top_add(store, 1, 20000);
	reader = cases_reader(store);
	for (int turn = 0; turn < 2; turn++) {
		uint64_t most = number(store, "SELECT max(cpu_ns) FROM processes_1");

		top_select(reader, 20, NULL, false, &top);
		assert_int_equal(top.rows, 20);
		assert_int_equal(number(store, "SELECT sum(cpu_ns=(SELECT max(cpu_ns) FROM processes_1)) FROM processes_1"
					       " WHERE id IN (SELECT id FROM processes_1 ORDER BY cpu_ns DESC,id LIMIT 1)"), 1);
		assert_true(top.last <= most);
		assert_int_equal(top.last_id, number(store, "SELECT id FROM processes_1 ORDER BY cpu_ns DESC,id LIMIT 1"
							    " OFFSET 19"));
		// Every page behind the first is read the long way: together they are what one long page is.
		top_select(reader, 20, NULL, true, &rest);
		assert_int_equal(rest.rows, 600);
		assert_memory_equal(rest.ids, top.ids, 20 * sizeof(top.ids[0]));
		assert_int_equal(rest.last_id, number(store, "SELECT id FROM processes_1 ORDER BY cpu_ns DESC,id LIMIT 1"
							     " OFFSET 599"));
		// The filter leaves 207 of 20,000 rows: the zones' own do not fill the page.
		top_select(reader, 5, "rare", false, &top);
		assert_int_equal(top.rows, 5);
		assert_int_equal(top.last_id, number(store, "SELECT id FROM processes WHERE tool='rare'"
							    " ORDER BY cpu_ns DESC,id LIMIT 1 OFFSET 4"));
		top_select(reader, 5, "never", false, &top);
		assert_int_equal(top.rows, 0);
		top_add(store, 20001 + (unsigned)turn * 6000, 6000);
	}
	store_reader_close(reader);
	store_close(store);
}

// --- retention ---------------------------------------------------------------------------

static void many_on_day(struct store *store, unsigned day, unsigned first, unsigned count)
{
	struct cases_batch b;

	cases_begin(&b, "w", "host-1", 7, first);
	b.batch.received_ns = CASES_START + day * 86400 * CASES_SECOND;
	for (unsigned i = first; i < first + count; i++)
		cases_process(&b, i, "r", "t", "");
	cases_write(store, &b);
}

static void test_retention(void **state)
{
	struct store *store;

	(void)state;
	keep.processes_s = 3 * 86400;
	store = cases_open(0);
	many_on_day(store, 0, 1, 100);
	many_on_day(store, 1, 101, 50);
	many_on_day(store, 5, 151, 25);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 175);
	cases_maintain(store, CASES_START + 5 * 86400 * CASES_SECOND);
	cases_maintain(store, CASES_START + 5 * 86400 * CASES_SECOND);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 25);
	// What went is told, and what was summed stays.
	assert_int_equal(cases_number(store, ENTITY_GAPS, "w", "count"), 150);
	assert_int_equal(cases_number(store, ENTITY_RUNS, "w", "processes"), 175);
	check_sound(store);
	many_on_day(store, 5, 176, 25);
	assert_int_equal(cases_count(store, ENTITY_PROCESSES, "w"), 50);
	store_close(store);
}

// Upkeep on that day until there is nothing more to do.
static void keep_on_day(struct store *store, unsigned day)
{
	struct store_upkeep upkeep = {.more = true};
	struct store_error error;

	for (int i = 0; i < 500 && upkeep.more; i++)
		assert_int_equal(store_maintain(store, CASES_START + day * 86400 * CASES_SECOND, &upkeep, &error), 0);
	assert_false(upkeep.more);
}

static uint64_t gone(struct store *store, const char *why)
{
	char sql[200];

	snprintf(sql, sizeof(sql), "SELECT sum(count) FROM gaps WHERE workspace='w' AND reason='%s'", why);
	return number(store, sql);
}

// Each thing goes on the day after its age, not before, and what goes is told to those whose it was.
static void test_ages(void **state)
{
	static const char *const levels[] = {"roll-ups of 10 s past their age", "roll-ups of 1 min past their age",
					     "roll-ups of 1 h past their age"};
	static const char *const whats[] = {"runs past their age", "tasks past their age", "tools past their age",
					    "events past their age", "gaps past their age"};
	uint64_t steps[3];
	struct cases_batch b;
	struct store *store;

	(void)state;
	keep = (struct store_retention){.points_s = 2 * 86400, .rollup_10s_s = 4 * 86400, .rollup_1min_s = 6 * 86400,
					.rollup_1h_s = 8 * 86400, .aggregates_s = 10 * 86400, .processes_s = 12 * 86400};
	store = cases_open(0);
	cases_host_samples(store, 1, 0, 3000);
	cases_begin(&b, "w", "host-1", 7, 3001);
	cases_process(&b, 3001, "r", "t", "");
	cases_addf(&b, "{\"kind\":\"oom\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"pid\":3001}",
		   (unsigned long long)CASES_START);
	cases_addf(&b, "{\"kind\":\"gap\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"room\":\"ring\","
		       "\"reason\":\"full\",\"count\":3}", (unsigned long long)CASES_START);
	cases_write(store, &b);
	keep_on_day(store, 1);
	assert_int_equal(number(store, "SELECT sum(count) FROM chunks"), 9000 + number(store, "SELECT sum(count) FROM chunks"
		" WHERE series_id IN (SELECT id FROM series WHERE kind='run')"));
	for (int i = 0; i < 3; i++) {
		static const char *const sums[] = {"SELECT sum(count) FROM rollups WHERE level=10",
						   "SELECT sum(count) FROM rollups WHERE level=60",
						   "SELECT sum(count) FROM rollups WHERE level=3600"};

		steps[i] = number(store, sums[i]);
		assert_true(steps[i] > 0);
	}
	assert_int_equal(number(store, "SELECT count(*) FROM gaps WHERE room='retention'"), 0);
	keep_on_day(store, 3);
	assert_int_equal(number(store, "SELECT count(*) FROM chunks"), 0);
	assert_true(gone(store, "points past their age") >= 9000);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(gone(store, levels[i]), 0);
		keep_on_day(store, 5 + 2 * i + (i == 2)); // a day's span of hours is over a day later
		assert_int_equal(gone(store, levels[i]), steps[i]);
	}
	assert_int_equal(number(store, "SELECT count(*) FROM rollups"), 0);
	assert_int_equal(cases_count(store, ENTITY_RUNS, "w"), 1);
	assert_int_equal(cases_count(store, ENTITY_TASKS, "w"), 1);
	keep_on_day(store, 11);
	assert_int_equal(cases_count(store, ENTITY_RUNS, "w") + cases_count(store, ENTITY_TASKS, "w") +
				 cases_count(store, ENTITY_TOOLS, "w"), 0);
	assert_int_equal(cases_count(store, ENTITY_HOSTS, "w"), 1);
	assert_int_equal(number(store, "SELECT count(*) FROM gaps WHERE room='ring'"), 1);
	assert_int_equal(cases_count(store, ENTITY_EVENTS, "w"), 1);
	keep_on_day(store, 13);
	assert_int_equal(number(store, "SELECT count(*) FROM gaps WHERE room='ring'"), 0);
	assert_int_equal(cases_count(store, ENTITY_EVENTS, "w"), 0);
	// Nothing went untold, nothing is left of a series that has nothing.
	for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++)
		assert_int_equal(gone(store, whats[i]), 1);
	assert_int_equal(number(store, "SELECT count(*) FROM series"), 0);
	assert_int_equal(number(store, "SELECT count(*) FROM gaps WHERE room<>'retention'"), 0);
	keep_on_day(store, 40);
	assert_true(gone(store, "points past their age") >= 9000);
	cases_host_samples(store, 3004, 0, 100);
	assert_int_equal(number(store, "SELECT count(*) FROM series"), 3);
	store_close(store);
}

// What a run that went has left in series goes with it; that of a run that stays stays.
static void test_series_of_runs(void **state)
{
	struct cases_batch b;
	struct store *store;

	(void)state;
	keep = (struct store_retention){.aggregates_s = 3 * 86400};
	store = cases_open(0);
	many_on_day(store, 0, 1, 100);
	cases_begin(&b, "w", "host-1", 7, 101);
	cases_addf(&b,
		   "{\"kind\":\"process\",\"time_ns\":%llu,\"host\":\"h\",\"boot\":\"b\",\"pid\":9,\"start_ns\":%llu,"
		   "\"end_ns\":%llu,\"start_boot_ns\":9,\"comm\":\"x\",\"cpu_ns\":5,\"run\":\"late\"}",
		   (unsigned long long)(CASES_START + 300000 * CASES_SECOND),
		   (unsigned long long)(CASES_START + 299990 * CASES_SECOND),
		   (unsigned long long)(CASES_START + 300000 * CASES_SECOND));
	cases_write(store, &b);
	assert_int_equal(number(store, "SELECT count(*) FROM series WHERE kind='run'"), 2);
	keep_on_day(store, 5);
	assert_int_equal(cases_count(store, ENTITY_RUNS, "w"), 1);
	assert_int_equal(number(store, "SELECT count(*) FROM series WHERE kind='run'"), 1);
	assert_int_equal(number(store, "SELECT count(*) FROM chunks WHERE series_id NOT IN (SELECT id FROM series)"), 0);
	assert_int_equal(number(store, "SELECT count(*) FROM rollups WHERE series_id NOT IN (SELECT id FROM series)"), 0);
	assert_true(gone(store, "series of runs and containers past their age") > 0);
	store_close(store);
}

static void test_mode(void **state)
{
	static const char *const names[] = {"lake.db", "lake.db-wal", "lake.db-shm"};
	struct store *store = cases_open(0);
	char path[100];
	struct stat info;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/0/%s", directory, names[i]);
		assert_int_equal(stat(path, &info), 0);
		assert_int_equal(info.st_mode & 0777, 0600);
	}
	store_close(store);
	snprintf(path, sizeof(path), "%s/0/lake.db", directory);
	assert_int_equal(chmod(path, 0644), 0);
	store = cases_open(0);
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0640);
	store_close(store);
}

static void test_cap(void **state)
{
	struct store_upkeep upkeep = {.more = true};
	struct store_error error;
	struct store *store;
	uint64_t dropped;

	(void)state;
	keep.bytes_max = 700000;
	store = cases_open(0);
	cases_host_samples(store, 1, 0, 2000);
	for (unsigned i = 0; i < 8; i++)
		many_on_day(store, i, 2001 + i * 1000, 1000);
	for (int i = 0; i < 200 && upkeep.more; i++)
		assert_int_equal(store_maintain(store, CASES_START + 8 * 86400 * CASES_SECOND, &upkeep, &error), 0);
	assert_true(upkeep.bytes <= 700000);
	dropped = 8000 - cases_count(store, ENTITY_PROCESSES, "w");
	assert_true(dropped > 0);
	assert_int_equal(number(store, "SELECT sum(count) FROM gaps WHERE workspace='w' AND reason="
				       "'processes over the size cap'"), dropped);
	// Two disks and the host itself, a point a second.
	assert_true(number(store, "SELECT sum(count) FROM gaps WHERE workspace='w' AND reason="
				  "'points over the size cap'") >= 6000);
	check_sound(store);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_killed, fresh),    cmocka_unit_test_setup(test_killed_while_made, fresh),
		cmocka_unit_test_setup(test_full, fresh),      cmocka_unit_test_setup(test_versions, fresh),
		cmocka_unit_test_setup(test_backup, fresh),    cmocka_unit_test_setup(test_damage, fresh),
		cmocka_unit_test_setup(test_retention, fresh), cmocka_unit_test_setup(test_cap, fresh),
		cmocka_unit_test_setup(test_mode, fresh),      cmocka_unit_test_setup(test_series_of_runs, fresh),
		cmocka_unit_test_setup(test_ages, fresh),      cmocka_unit_test_setup(test_greatest, fresh),
		cmocka_unit_test_setup(test_killed_at_each_statement, fresh),
	};
	int failed;

	snprintf(directory, sizeof(directory), "/tmp/tracer-lake-XXXXXX");
	assert_non_null(mkdtemp(directory));
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return failed;
}
