// SPDX-License-Identifier: Apache-2.0
// Options and configuration: what is accepted, what is refused and how it is said, and which source wins.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/config.h"

struct test_values {
	bool sync;
	uint64_t workers;
	uint64_t cap_bytes;
	uint64_t flush_ns;
	char *directory;
	char **hide;
};

static const struct option_spec test_options[] = {
	{"spool.sync", OPTION_BOOL, offsetof(struct test_values, sync), "true", 0, 0,
	 "Wait for the disk"},
	{"spool.cap_bytes", OPTION_BYTES, offsetof(struct test_values, cap_bytes), "1G", 1 << 20,
	 UINT64_C(1) << 40, "Most bytes kept"},
	{"spool.directory", OPTION_STRING, offsetof(struct test_values, directory), "/var/lib/x", 0,
	 0, "Where"},
	{"flush", OPTION_DURATION, offsetof(struct test_values, flush_ns), "50ms", 1000000,
	 1000000000, "Longest wait"},
	{"workers", OPTION_U64, offsetof(struct test_values, workers), "2", 1, 8, "How many"},
	{"hide", OPTION_LIST, offsetof(struct test_values, hide), NULL, 0, 0, "Names"},
	{0},
};

struct test_module_values {
	uint64_t interval_ns;
};

static const struct option_spec test_module_options[] = {
	{"interval", OPTION_DURATION, offsetof(struct test_module_values, interval_ns), "1s", 0, 0,
	 "How often"},
	{0},
};

struct test {
	struct config *config;
	struct test_values values;
	struct test_module_values module;
	char error[CONFIG_ERROR_SIZE];
	char path[64];
};

static struct test *test_begin(void)
{
	struct test *test = calloc(1, sizeof(*test));

	assert_non_null(test);
	assert_int_equal(config_new(&test->config), 0);
	assert_int_equal(config_add(test->config, "", test_options, &test->values), 0);
	assert_int_equal(config_add(test->config, "sched", test_module_options, &test->module), 0);
	return test;
}

static void test_end(struct test *test)
{
	if (*test->path)
		unlink(test->path);
	config_free(test->config);
	free(test);
}

static int test_load(struct test *test, const char *text, size_t length)
{
	int fd;

	snprintf(test->path, sizeof(test->path), "/tmp/tracer-test-config-XXXXXX");
	fd = mkstemp(test->path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), (ssize_t)length);
	close(fd);
	return config_load_file(test->config, test->path, true, test->error);
}

static void defaults_come_from_the_declaration(void **state)
{
	struct test *test = test_begin();

	(void)state;
	assert_true(test->values.sync);
	assert_int_equal(test->values.cap_bytes, 1 << 30);
	assert_int_equal(test->values.flush_ns, 50000000);
	assert_string_equal(test->values.directory, "/var/lib/x");
	assert_null(test->values.hide);
	assert_int_equal(test->module.interval_ns, 1000000000);
	assert_int_equal(config_add(test->config, "", test_options, &test->values), -EEXIST);
	assert_false(config_is_set(test->config, "spool.cap_bytes"));
	test_end(test);
}

static void numbers_take_their_units_and_no_others(void **state)
{
	static const struct {
		enum option_type type;
		const char *text;
		uint64_t value; // UINT64_MAX: refused
	} cases[] = {
		{OPTION_BYTES, "0", 0},
		{OPTION_BYTES, "512", 512},
		{OPTION_BYTES, "512B", 512},
		{OPTION_BYTES, "64K", 65536},
		{OPTION_BYTES, "64k", 65536},
		{OPTION_BYTES, "1KiB", 1024},
		{OPTION_BYTES, "1 GB", 1 << 30},
		{OPTION_BYTES, "2T", UINT64_C(2) << 40},
		{OPTION_BYTES, "16777216T", UINT64_MAX},
		{OPTION_BYTES, "1X", UINT64_MAX},
		{OPTION_BYTES, "-1", UINT64_MAX},
		{OPTION_BYTES, "", UINT64_MAX},
		{OPTION_BYTES, "iB", UINT64_MAX},
		{OPTION_BYTES, "0x10", UINT64_MAX},
		{OPTION_BYTES, "1.5G", UINT64_MAX},
		{OPTION_DURATION, "10", UINT64_MAX},
		{OPTION_DURATION, "10ms", 10000000},
		{OPTION_DURATION, "10MS", UINT64_MAX},
		{OPTION_DURATION, "1d", UINT64_C(86400000000000)},
		{OPTION_DURATION, "5us", 5000},
		{OPTION_DURATION, "99999999d", UINT64_MAX},
		{OPTION_U64, "18446744073709551616", UINT64_MAX},
		{OPTION_U64, "7", 7},
		{OPTION_U64, "7K", UINT64_MAX},
		{OPTION_U64, " 7", UINT64_MAX},
		{OPTION_U64, "7 x", UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct option_spec spec = {.key = "x", .type = cases[i].type};
		char error[OPTION_ERROR_SIZE];
		uint64_t value = 42;
		int result = option_parse(&spec, cases[i].text, &value, error);

		if (cases[i].value == UINT64_MAX) {
			assert_int_equal(result, -EINVAL);
			assert_int_equal(value, 42);
			assert_non_null(strstr(error, "is not a"));
		} else {
			assert_int_equal(result, 0);
			assert_int_equal(value, cases[i].value);
		}
	}
}

static void later_sources_win_in_any_order(void **state)
{
	static const char text[] = "workers: 3\nflush: 10ms\nspool:\n  cap_bytes: 2M\n  sync: no\n"
				   "sched:\n  interval: 5s\nhide: [a, 'b c']\n";
	char *environment[] = {(char[]){"TRACER_WORKERS=5"}, (char[]){"TRACER_FLUSH=20ms"},
				      (char[]){"HOME=/x"}, (char[]){"TRACER_HIDE=x,y"}, NULL};
	struct test *test = test_begin();

	(void)state;
	// The flag is met first, as on a real command line.
	assert_int_equal(config_set_flag(test->config, config_find_flag(test->config, "workers", 7),
					 "7", test->error),
			 0);
	assert_int_equal(test_load(test, text, sizeof(text) - 1), 0);
	assert_int_equal(config_load_environment(test->config, environment, test->error), 0);
	assert_int_equal(test->values.workers, 7);
	assert_int_equal(test->values.flush_ns, 20000000);
	assert_int_equal(test->values.cap_bytes, 2 << 20);
	assert_false(test->values.sync);
	assert_int_equal(test->module.interval_ns, UINT64_C(5000000000));
	assert_string_equal(test->values.hide[0], "x");
	assert_string_equal(test->values.hide[1], "y");
	assert_null(test->values.hide[2]);
	assert_true(config_is_set(test->config, "sched.interval"));
	test_end(test);
}

static void written_configuration_names_sources_and_reads_back(void **state)
{
	static const char text[] =
		"spool:\n  cap_bytes: 2M\n  directory: \"a\\tb \\\"c\\\"\"\nhide: [a, 'b c']\n";
	struct test *test = test_begin(), *again = test_begin();
	char *written = NULL, expect[120];
	size_t size;
	FILE *out = open_memstream(&written, &size);

	(void)state;
	assert_int_equal(test_load(test, text, sizeof(text) - 1), 0);
	assert_int_equal(config_set_flag(test->config,
					 config_find_flag(test->config, "sched-interval", 14), "2m",
					 test->error),
			 0);
	assert_int_equal(config_write(test->config, out), 0);
	fclose(out);
	snprintf(expect, sizeof(expect), "# %s:2", test->path);
	assert_non_null(strstr(written, expect));
	assert_non_null(strstr(written, "# --sched-interval"));
	assert_non_null(strstr(written, "# default"));
	assert_int_equal(test_load(again, written, size), 0);
	assert_int_equal(again->values.cap_bytes, 2 << 20);
	assert_string_equal(again->values.directory, "a\tb \"c\"");
	assert_string_equal(again->values.hide[1], "b c");
	assert_int_equal(again->module.interval_ns, UINT64_C(120000000000));
	free(written);
	test_end(test);
	test_end(again);
}

static void bad_files_are_refused_with_line_and_reason(void **state)
{
	static const struct {
		const char *text, *line, *says;
	} cases[] = {
		{"workers: 3\nspool:\n  cap_byte: 1M\n",
		 ":3: ", "spool.cap_byte: no such key; did you mean spool.cap_bytes?"},
		{"workers: 3\nspool:\n  cap_byte: 1M\n",
		 ":3: ", "Allowed here: sync, cap_bytes, directory"},
		{"color: red\n", ":1: ", "Allowed here: spool.sync"},
		{"workers: nine\n", ":1: ", "workers: \"nine\" is not a count from 1 to 8"},
		{"\n\nflush: 2s\n",
		 ":3: ", "is not a time with ns, us, ms, s, m, h or d from 1ms to 1s"},
		{"workers: 9\n", ":1: ", "from 1 to 8"},
		{"workers: 3\nflush: 5ms\nworkers: 4\n",
		 ":3: ", "given twice; the first is on line 1"},
		{"workers: [1, 2]\n", ":1: ", "takes one value, not a list"},
		{"workers:\n  a: 1\n", ":2: ", "takes a value, not a section"},
		{"workers:\n", ":1: ", "has no value"},
		{"spool: 3\n", ":1: ", "is a section"},
		{"hide: [a, [b]]\n", ":1: ", "an item must be a plain value"},
		{"- a\n", ":1: ", "expected \"key: value\" lines"},
		{"hello\n", ":1: ", "expected \"key: value\" lines"},
		{"workers: &a 3\nflush: *a\n", ":2: ", "anchors and aliases"},
		{"workers: 3\n---\nworkers: 4\n", ":2: ", "a second document"},
		{"workers: 3\n\tflush: 1ms\n", ":2: ", "no valid YAML"},
		{"workers: \"3\n", ":", "no valid YAML"},
		{"? [a]\n: 3\n", ":1: ", "a key must be a plain word"},
		{"\033[2J: 3\n", ":1: ", "no valid YAML"},
		{"\"\\e[2J\": 3\n", ":1: ", "?[2J: no such key"},
		{"workers: \"\\e[2J\"\n", ":1: ", "\"?[2J\" is not"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct test *test = test_begin();

		assert_int_equal(test_load(test, cases[i].text, strlen(cases[i].text)), -EINVAL);
		if (!strstr(test->error, cases[i].says) ||
		    strncmp(test->error, test->path, strlen(test->path)) != 0 ||
		    strncmp(test->error + strlen(test->path), cases[i].line,
			    strlen(cases[i].line)) != 0)
			fail_msg("case %zu: %s", i, test->error);
		// Nothing of a bad file is taken.
		assert_int_equal(test->values.workers, 2);
		assert_int_equal(test->values.flush_ns, 50000000);
		test_end(test);
	}
}

static void absent_and_unreadable_files(void **state)
{
	struct test *test = test_begin();

	(void)state;
	assert_int_equal(config_load_file(test->config, "/nonexistent/x.yaml", false, test->error),
			 0);
	assert_int_equal(config_load_file(test->config, "/nonexistent/x.yaml", true, test->error),
			 -ENOENT);
	assert_non_null(strstr(test->error, "/nonexistent/x.yaml: "));
	assert_int_equal(config_load_file(test->config, "/tmp", true, test->error), -EISDIR);
	assert_int_equal(test_load(test, "", 0), 0);
	unlink(test->path);
	assert_int_equal(test_load(test, "# nothing\n", 10), 0);
	unlink(test->path);
	assert_int_equal(test_load(test, "spool:\n", 7), 0);
	test_end(test);
}

static void variables_and_flags_are_checked_too(void **state)
{
	char *unknown[] = {(char[]){"TRACER_WORKER=5"}, NULL};
	char *bad[] = {(char[]){"TRACER_WORKERS=many"}, NULL};
	char *foreign[] = {
		(char[]){"TRACER_SERVICE_HOST=10.0.0.1"}, (char[]){"TRACER_PORT=tcp://10.0.0.1:80"},
		(char[]){"TRACER_DATALAKE_LISTEN=127.0.0.1:80"},
		(char[]){"TRACER_PORT_80_TCP_ADDR=10.0.0.1"}, (char[]){"TRACER_CONFIG=/x"}, NULL};
	struct test *test = test_begin();

	(void)state;
	assert_int_equal(config_load_environment(test->config, unknown, test->error), -EINVAL);
	assert_non_null(strstr(test->error, "TRACER_WORKER: no such option"));
	assert_int_equal(config_load_environment(test->config, bad, test->error), -EINVAL);
	assert_non_null(strstr(test->error, "TRACER_WORKERS: \"many\" is not a count from 1 to 8"));
	assert_int_equal(config_load_environment(test->config, foreign, test->error), 0);
	assert_null(config_find_flag(test->config, "worker", 6));
	assert_non_null(config_find_flag(test->config, "spool-cap-bytes", 15));
	assert_int_equal(config_set_flag(test->config,
					 config_find_flag(test->config, "spool-cap-bytes", 15), "1",
					 test->error),
			 -EINVAL);
	assert_non_null(strstr(test->error, "--spool-cap-bytes: \"1\" is not a size"));
	test_end(test);
}

static void mutated_files_never_harm(void **state)
{
	static const char seed[] =
		"workers: 3\nspool:\n  cap_bytes: 2M\n  sync: [a, *b, {c: d}]\nhide: [x, \"y\"]\n";
	static const char bytes[] = ":-[]{}\"'&*!|>%@`,?# \n\t\0\xff\xc3";
	char text[sizeof(seed)];

	(void)state;
	srandom(11);
	for (int round = 0; round < 2000; round++) {
		struct test *test = test_begin();
		int result;

		memcpy(text, seed, sizeof(seed));
		for (int i = 0; i <= round % 6; i++)
			text[(size_t)random() % (sizeof(text) - 1)] =
				bytes[(size_t)random() % (sizeof(bytes) - 1)];
		result = test_load(test, text, sizeof(text) - 1);
		assert_true(result == 0 || result == -EINVAL);
		assert_true(result == 0 || *test->error);
		test_end(test);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_come_from_the_declaration),
		cmocka_unit_test(numbers_take_their_units_and_no_others),
		cmocka_unit_test(later_sources_win_in_any_order),
		cmocka_unit_test(written_configuration_names_sources_and_reads_back),
		cmocka_unit_test(bad_files_are_refused_with_line_and_reason),
		cmocka_unit_test(absent_and_unreadable_files),
		cmocka_unit_test(variables_and_flags_are_checked_too),
		cmocka_unit_test(mutated_files_never_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
