// SPDX-License-Identifier: Apache-2.0
// Base, the text half: utf8, buf, json, log.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/utf8.h"

static void utf8_measures_only_well_formed_sequences(void **state)
{
	static const struct {
		const char *bytes;
		size_t length, expect;
	} cases[] = {
		{ "a", 1, 1 },		       { "", 0, 0 },
		{ "\xc3\xa9", 2, 2 },	       { "\xc3", 1, 0 },
		{ "\xc0\x80", 2, 0 },	       { "\xc1\xbf", 2, 0 },
		{ "\xe2\x82\xac", 3, 3 },      { "\xe0\x9f\xbf", 3, 0 },
		{ "\xed\xa0\x80", 3, 0 },      { "\xed\x9f\xbf", 3, 3 },
		{ "\xf0\x9f\x98\x80", 4, 4 },  { "\xf0\x8f\xbf\xbf", 4, 0 },
		{ "\xf4\x8f\xbf\xbf", 4, 4 },  { "\xf4\x90\x80\x80", 4, 0 },
		{ "\xf5\x80\x80\x80", 4, 0 },  { "\x80", 1, 0 },
		{ "\xf0\x9f\x98", 3, 0 },      { "\xe2\x28\xa1", 3, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(utf8_sequence(cases[i].bytes, cases[i].length), cases[i].expect);
	assert_true(utf8_is_control("\x1b", 1));
	assert_true(utf8_is_control("\x7f", 1));
	assert_true(utf8_is_control("\xc2\x9b", 2));
	assert_false(utf8_is_control("\xc2\xa0", 2));
	assert_false(utf8_is_control(" ", 1));
}

static void buf_grows_and_stays_terminated(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		buf_append_char(&buf, (char)('a' + i % 26));
		assert_int_equal(buf.data[buf.length], '\0');
	}
	buf_append(&buf, "xyz", 3);
	buf_append_string(&buf, "!");
	assert_int_equal(buf.length, 5004);
	assert_string_equal(buf.data + 5000, "xyz!");
	buf_reset(&buf);
	buf_printf(&buf, "%d-%s", 7, "seven");
	assert_string_equal(buf.data, "7-seven");
	buf_printf(&buf, "%*s", 3000, "x");
	assert_int_equal(buf.length, 3007);
	assert_int_equal(strlen(buf.data), 3007);
	assert_int_equal(buf_error(&buf), 0);
	buf_free(&buf);
	assert_null(buf.data);
	buf_free(NULL);
}

static void buf_error_is_sticky_until_reset(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	buf_append_string(&buf, "before");
	assert_int_equal(buf_reserve(&buf, SIZE_MAX), -ENOMEM);
	assert_int_equal(buf_error(&buf), -ENOMEM);
	buf_append_string(&buf, "after");
	buf_printf(&buf, "%d", 1);
	buf_append_char(&buf, 'x');
	assert_string_equal(buf.data, "before");
	buf_reset(&buf);
	buf_append_string(&buf, "again");
	assert_string_equal(buf.data, "again");
	assert_int_equal(buf_error(&buf), 0);
	buf_free(&buf);
}

static void json_writes_every_kind_of_value(void **state)
{
	struct buf buf = BUF_INIT;
	struct json json = json_to(&buf);

	(void)state;
	json_open_object(&json);
	json_put_u64(&json, "u", UINT64_MAX);
	json_put_i64(&json, "i", INT64_MIN);
	json_put_double(&json, "d", 0.1);
	json_put_double(&json, "nan", NAN);
	json_put_bool(&json, "t", true);
	json_put_bool(&json, "f", false);
	json_put_null(&json, "n");
	json_put_string(&json, "s", "x");
	json_put_string(&json, "missing", NULL);
	json_put_known_u64(&json, "unknown", JSON_UNKNOWN);
	json_put_known_u64(&json, "known", 3);
	json_key(&json, "a");
	json_open_array(&json);
	json_u64(&json, 0);
	json_i64(&json, -1);
	json_open_object(&json);
	json_close_object(&json);
	json_open_array(&json);
	json_close_array(&json);
	json_null(&json);
	json_bool(&json, true);
	json_string_n(&json, "ab", 1);
	json_close_array(&json);
	json_close_object(&json);
	json_end_line(&json);
	json_open_object(&json);
	json_close_object(&json);
	json_end_line(&json);
	assert_string_equal(buf.data,
			    "{\"u\":18446744073709551615,\"i\":-9223372036854775808,\"d\":0.1,\"nan\":null,"
			    "\"t\":true,\"f\":false,\"n\":null,\"s\":\"x\",\"missing\":null,\"unknown\":null,"
			    "\"known\":3,\"a\":[0,-1,{},[],null,true,\"a\"]}\n{}\n");
	buf_free(&buf);
}

struct numbers {
	uint64_t none, small, unknown, large;
};

static void json_writes_the_numbers_of_a_struct(void **state)
{
	static const struct json_field fields[] = {
		JSON_FIELD(struct numbers, none, "none"),
		JSON_FIELD(struct numbers, small, "s"),
		JSON_FIELD(struct numbers, unknown, "a_rather_long_name_bytes"),
		JSON_FIELD(struct numbers, large, "large_ns"),
	};
	const struct numbers numbers = { .small = 7, .unknown = JSON_UNKNOWN, .large = UINT64_MAX - 1 };
	struct buf buf = BUF_INIT;
	struct json json = json_to(&buf);

	(void)state;
	json_open_object(&json);
	json_put_fields(&json, fields, 4, &numbers);
	json_key(&json, "o");
	json_open_object(&json);
	json_put_nonzero_fields(&json, fields, 4, &numbers);
	json_close_object(&json);
	json_key(&json, "p");
	json_open_object(&json);
	json_put_nonzero_fields(&json, fields, 1, &numbers);
	json_close_object(&json);
	json_raw(&json, ",\"r\":[1]", 8);
	json_put_fields(&json, fields + 1, 1, &numbers);
	json_close_object(&json);
	assert_string_equal(buf.data,
			    "{\"none\":0,\"s\":7,\"a_rather_long_name_bytes\":null,\"large_ns\":18446744073709551614,"
			    "\"o\":{\"s\":7,\"a_rather_long_name_bytes\":null,\"large_ns\":18446744073709551614},"
			    "\"p\":{},\"r\":[1],\"s\":7}");
	buf_free(&buf);
}

static void json_numbers_read_back_exactly(void **state)
{
	struct buf buf = BUF_INIT;
	uint64_t seed = 88172645463325252ULL;
	char expect[32];

	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct json json = json_to(&buf);
		double real;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		buf_reset(&buf);
		json_u64(&json, seed >> (i % 64));
		snprintf(expect, sizeof(expect), "%llu", (unsigned long long)(seed >> (i % 64)));
		assert_string_equal(buf.data, expect);
		memcpy(&real, &seed, sizeof(real));
		if (!isfinite(real))
			continue;
		buf_reset(&buf);
		json = json_to(&buf);
		json_double(&json, i % 2 ? real : (double)(int64_t)(seed >> (i % 64)) / 1000);
		assert_true(strtod(buf.data, NULL) ==
			    (i % 2 ? real : (double)(int64_t)(seed >> (i % 64)) / 1000));
	}
	static const struct {
		double value;
		const char *text;
	} doubles[] = { { 0, "0" },	     { -0.0, "-0" },	    { 1e300, "1e+300" },
			{ -5, "-5" },	     { 2147483648.0, "2147483648" }, { 1.5, "1.5" },
			{ INFINITY, "null" }, { DBL_MIN, "2.2250738585072014e-308" } };

	for (size_t i = 0; i < sizeof(doubles) / sizeof(doubles[0]); i++) {
		struct json json = json_to(&buf);

		buf_reset(&buf);
		json_double(&json, doubles[i].value);
		assert_string_equal(buf.data, doubles[i].text);
	}
	buf_free(&buf);
}

static void check_string(const char *text, size_t length, const char *expect)
{
	struct buf buf = BUF_INIT;
	struct json json = json_to(&buf);

	json_string_n(&json, text, length);
	assert_string_equal(buf.data, expect);
	buf_free(&buf);
}

static void json_strings_never_carry_control_or_bad_bytes(void **state)
{
	(void)state;
	check_string("", 0, "\"\"");
	check_string("plain text of some length", 25, "\"plain text of some length\"");
	check_string("a\"b\\c\nd\te\rf", 11, "\"a\\\"b\\\\c\\nd\\te\\rf\"");
	check_string("\0\x1b[31m\x7f", 7, "\"\\u0000\\u001b[31m\\u007f\"");
	check_string("\xc2\x9b" "2J", 4, "\"\\u009b2J\"");
	check_string("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 14,
		      "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
	check_string("a\xff\xfe" "b\xe2\x82", 6, "\"a\xef\xbf\xbd\xef\xbf\xbd" "b\xef\xbf\xbd\xef\xbf\xbd\"");
	check_string("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

// The fast path looks at eight bytes at once: put every byte value at every position.
static void json_fast_path_agrees_at_every_position(void **state)
{
	(void)state;
	for (int value = 0; value < 256; value++) {
		for (size_t at = 0; at < 17; at++) {
			struct buf buf = BUF_INIT;
			struct json json = json_to(&buf);
			char text[17], plain[32];

			memset(text, 'x', sizeof(text));
			text[at] = (char)value;
			json_string_n(&json, text, sizeof(text));
			snprintf(plain, sizeof(plain), "\"%.17s\"", text);
			if (value >= 0x20 && value < 0x7f && value != '"' && value != '\\')
				assert_string_equal(buf.data, plain);
			else
				assert_true(buf.length > 19);
			for (size_t i = 0; i < buf.length; i++)
				assert_true((unsigned char)buf.data[i] >= 0x20 && buf.data[i] != 0x7f);
			buf_free(&buf);
		}
	}
}

static size_t logged(char *out, size_t size, enum log_level level, const char *text)
{
	int pipe_fds[2], saved = dup(STDERR_FILENO);
	ssize_t got;

	assert_int_equal(pipe(pipe_fds), 0);
	dup2(pipe_fds[1], STDERR_FILENO);
	close(pipe_fds[1]);
	errno = EXDEV;
	log_write(level, "%s", text);
	assert_int_equal(errno, EXDEV);
	dup2(saved, STDERR_FILENO);
	close(saved);
	got = read(pipe_fds[0], out, size - 1); // one read: the line came in one write
	close(pipe_fds[0]);
	assert_true(got >= 0);
	out[got] = '\0';
	return (size_t)got;
}

static void log_writes_one_escaped_line(void **state)
{
	char line[16384], huge[8000];

	(void)state;
	logged(line, sizeof(line), LOG_LEVEL_WARN, "a\nb\x1b[0m\xc3\xa9\xff\xc2\x9b");
	assert_int_equal(line[10], 'T');
	assert_int_equal(line[23], 'Z');
	assert_string_equal(line + 24, " warn a\\x0ab\\x1b[0m\xc3\xa9\\xff\\xc2\\x9b\n");
	assert_int_equal(logged(line, sizeof(line), LOG_LEVEL_DEBUG, "hidden"), 0);
	log_set_level(LOG_LEVEL_DEBUG);
	assert_true(logged(line, sizeof(line), LOG_LEVEL_DEBUG, "shown") > 0);
	log_set_level(LOG_LEVEL_INFO);
	memset(huge, '\n', sizeof(huge));
	huge[sizeof(huge) - 1] = '\0';
	logged(line, sizeof(line), LOG_LEVEL_ERROR, huge);
	assert_string_equal(line + strlen(line) - 8, "\\x0a...\n");
}

static void log_level_names_parse(void **state)
{
	enum log_level level = LOG_LEVEL_ERROR;

	(void)state;
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("warn", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("Warn", &level), -EINVAL);
	assert_int_equal(log_level_parse("", &level), -EINVAL);
	assert_int_equal(level, LOG_LEVEL_WARN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_measures_only_well_formed_sequences),
		cmocka_unit_test(buf_grows_and_stays_terminated),
		cmocka_unit_test(buf_error_is_sticky_until_reset),
		cmocka_unit_test(json_writes_every_kind_of_value),
		cmocka_unit_test(json_writes_the_numbers_of_a_struct),
		cmocka_unit_test(json_numbers_read_back_exactly),
		cmocka_unit_test(json_strings_never_carry_control_or_bad_bytes),
		cmocka_unit_test(json_fast_path_agrees_at_every_position),
		cmocka_unit_test(log_writes_one_escaped_line),
		cmocka_unit_test(log_level_names_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
