// SPDX-License-Identifier: Apache-2.0
// Base: reading the text the kernel writes. Unknown is never 0.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/text.h"

static void numbers_are_whole_or_unknown(void **state)
{
	const char *end;

	(void)state;
	assert_int_equal(text_number("0", NULL), 0);
	assert_int_equal(text_number("12 kB", &end), 12);
	assert_string_equal(end, " kB");
	assert_true(text_number("", NULL) == TEXT_UNKNOWN);
	assert_true(text_number("max", NULL) == TEXT_UNKNOWN);
	assert_true(text_number("-1", NULL) == TEXT_UNKNOWN);
	assert_true(text_number("18446744073709551614", NULL) == UINT64_MAX - 1);
	assert_true(text_number("18446744073709551616", NULL) == TEXT_UNKNOWN);
	assert_true(text_number("99999999999999999999999999", &end) == TEXT_UNKNOWN);
	assert_string_equal(end, "");
	assert_true(text_scaled(TEXT_UNKNOWN, 2) == TEXT_UNKNOWN);
	assert_true(text_scaled(UINT64_MAX / 2, 3) == TEXT_UNKNOWN);
	assert_int_equal(text_scaled(7, 1000), 7000);
}

static void keys_match_whole_words_at_line_starts(void **state)
{
	static const char text[] = "oom 1\noom_kill 2\n max 3\nMemFree:\t  4 kB\nlast 5";
	struct {
		uint64_t kill, last, absent;
	} values = { TEXT_UNKNOWN, TEXT_UNKNOWN, TEXT_UNKNOWN };
	static const struct text_key keys[] = {
		{ "oom_kill", 0, 0 },
		{ "last", sizeof(uint64_t), 1024 },
		{ "las", 2 * sizeof(uint64_t), 1 },
		{ 0 },
	};

	(void)state;
	assert_int_equal(text_key_number(text, "oom"), 1);
	assert_int_equal(text_key_number(text, "oom_kill"), 2);
	assert_true(text_key_number(text, "max") == TEXT_UNKNOWN);
	assert_int_equal(text_key_number(text, "MemFree:"), 4);
	assert_int_equal(text_key_number(text, "last"), 5);
	assert_true(text_key_number("", "last") == TEXT_UNKNOWN);
	text_take_keys(text, keys, &values);
	assert_int_equal(values.kill, 2);
	assert_int_equal(values.last, 5 * 1024);
	assert_true(values.absent == TEXT_UNKNOWN);
}

static void pressure_lines_are_told_apart(void **state)
{
	uint64_t some = 1, full = 2;

	(void)state;
	text_take_pressure("some avg10=0.00 total=5\n", &some, &full);
	assert_int_equal(some, 5000);
	assert_int_equal(full, 2); // no such line: as it was
	text_take_pressure("some avg10=0.00\nfull avg10=0.00 avg60=1.00 total=7\n", &some, &full);
	assert_int_equal(some, 5000); // the total of the next line is not its own
	assert_int_equal(full, 7000);
}

static void files_are_read_again_from_the_start(void **state)
{
	char path[] = "/tmp/tracer-text.XXXXXX", block[1000];
	int fd = mkstemp(path);
	struct text_file file = { 0 };

	(void)state;
	assert_true(fd >= 0);
	text_file_close(&file); // zeroed: nothing to close, and descriptor 0 stays open
	assert_int_not_equal(fcntl(0, F_GETFD), -1);
	assert_int_equal(text_file_read(&file, 100), -EBADF);
	assert_int_equal(text_file_open(&file, AT_FDCWD, "/tmp/tracer-no-such-file"), -ENOENT);
	assert_false(file.open);
	assert_int_equal(text_file_open(&file, AT_FDCWD, path), 0);
	assert_int_equal(text_file_read(&file, 100), 0);
	assert_string_equal(file.text.data, "");
	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 40; i++)
		assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
	assert_int_equal(text_file_read(&file, 40000), 0);
	assert_int_equal(strlen(file.text.data), 40000);
	assert_int_equal(text_file_read(&file, 39999), -EFBIG);
	assert_int_equal(file.text.length, 0);
	assert_int_equal(ftruncate(fd, 3), 0);
	assert_int_equal(text_file_read(&file, 40000), 0);
	assert_string_equal(file.text.data, "xxx");
	text_file_close(&file);
	text_file_close(&file);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_whole_or_unknown),
		cmocka_unit_test(keys_match_whole_words_at_line_starts),
		cmocka_unit_test(pressure_lines_are_told_apart),
		cmocka_unit_test(files_are_read_again_from_the_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
