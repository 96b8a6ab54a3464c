// SPDX-License-Identifier: Apache-2.0
// Text made harmless, cut and padded; numbers for people.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ui.h"

static void text_is_escaped(void **state)
{
	static const struct {
		const char *text, *safe;
	} cases[] = {
		{"plain", "plain"},
		{"", ""},
		{"\033[2J", "\\x1b[2J"},
		{"a\nb\tc\rd", "a\\nb\\tc\\rd"},
		{"\x7f", "\\x7f"},
		{"\xc2\x9b"
		 "2J",
		 "\\u{9b}2J"}, // CSI as one character
		{"\xff\xfe", "\\xff\\xfe"},
		{"\xc3", "\\xc3"},
		{"\xe2\x80\xae"
		 "abc",
		 "\\u{202e}abc"}, // right to left
		{"\xe2\x80\x8b", "\\u{200b}"}, // zero width
		{"\xef\xbb\xbf", "\\u{feff}"},
		{"\xc3\xa9\xe4\xb8\xad", "\xc3\xa9\xe4\xb8\xad"},
		{"\xed\xa0\x80", "\\xed\\xa0\\x80"}, // half a surrogate
		{NULL, "?"},
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t columns = ui_escape(out, sizeof(out), cases[i].text);

		assert_string_equal(out, cases[i].safe);
		assert_int_equal(columns, ui_columns(out));
	}
}

static void text_never_leaves_its_room(void **state)
{
	static const char text[] = "a\033\xe4\xb8\xad\xc3\xa9\xff\xe2\x80\xae"
				   "bcdefghijklmnop";
	struct ui ui = {0};

	(void)state;
	for (int unicode = 0; unicode < 2; unicode++) {
		ui.unicode = unicode;
		for (size_t size = 1; size < 60; size++) {
			for (size_t columns = 0; columns < 40; columns++) {
				char *out = malloc(size);
				size_t used;

				assert_non_null(out);
				used = ui_fit(&ui, out, size, text, columns);
				assert_true(strlen(out) < size);
				assert_true(used <= columns);
				assert_int_equal(used, ui_columns(out));
				free(out);
			}
		}
	}
}

static void a_cut_is_marked(void **state)
{
	struct ui ui = {.unicode = true};
	char out[32];

	(void)state;
	ui_fit(&ui, out, sizeof(out), "abcdefgh", 8);
	assert_string_equal(out, "abcdefgh");
	ui_fit(&ui, out, sizeof(out), "abcdefghi", 8);
	assert_string_equal(out, "abcdefg…");
	ui.unicode = false;
	ui_fit(&ui, out, sizeof(out), "abcdefghi", 8);
	assert_string_equal(out, "abcdef..");
}

static void numbers_are_short_and_true(void **state)
{
	static const struct {
		uint64_t value;
		const char *text;
	} durations[] = {{0, "0"},
			 {310000, "0.31ms"},
			 {1240000, "1.2ms"},
			 {12400000, "12ms"},
			 {999499999, "999ms"},
			 {1240000000, "1.24s"},
			 {12400000000, "12.4s"},
			 {125000000000, "2m05s"},
			 {11220000000000, "3h07m"},
			 {352800000000000, "4d02h"},
			 {UINT64_MAX, "?"}},
	  sizes[] = {{0, "0"},
		     {512, "512B"},
		     {999, "999B"},
		     {1000, "1.0K"},
		     {1229, "1.2K"},
		     {35651584, "34M"},
		     {1181116006, "1.1G"},
		     {UINT64_MAX - 1, "16E"},
		     {UINT64_MAX, "?"}},
	  counts[] = {{0, "0"},
		      {999, "999"},
		      {1000, "1,000"},
		      {12345678, "12,345,678"},
		      {UINT64_MAX, "?"}};
	char out[UI_NUMBER_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
		assert_string_equal(ui_duration(out, durations[i].value), durations[i].text);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		assert_string_equal(ui_bytes(out, sizes[i].value), sizes[i].text);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		assert_string_equal(ui_count(out, counts[i].value), counts[i].text);
	assert_string_equal(ui_percent(out, 0.934), "93%");
	assert_string_equal(ui_percent(out, 0.001), "<1%");
	assert_string_equal(ui_percent(out, 0), "0%");
	assert_string_equal(ui_percent(out, -1), "?");
	assert_string_equal(ui_signal(out, 9), "SIGKILL");
	assert_string_equal(ui_signal(out, 40), "signal 40");
	// Every value fits, whatever it is.
	srandom(5);
	for (int i = 0; i < 100000; i++) {
		uint64_t value = ((uint64_t)random() << 33 ^ (uint64_t)random()) >> (random() % 64);

		assert_true(strlen(ui_duration(out, value)) < 12);
		assert_true(strlen(ui_bytes(out, value)) <= 4);
		assert_true(strlen(ui_count(out, value)) < UI_NUMBER_SIZE);
	}
}

static void paragraphs_wrap_and_keep_their_indent(void **state)
{
	char *text = NULL;
	size_t size;
	struct ui ui = {.width = 40, .out = open_memstream(&text, &size)};

	(void)state;
	ui_paragraphs(&ui, "one two three four five six seven eight nine\n\nten", 4, 0);
	ui_paragraphs(&ui, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", 4, 0);
	fclose(ui.out);
	assert_string_equal(text, "    one two three four five six seven\n"
				  "    eight nine\n"
				  "\n"
				  "    ten\n"
				  "    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
				  "    aaaaaaaaaaaaaa b\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_escaped),
		cmocka_unit_test(text_never_leaves_its_room),
		cmocka_unit_test(a_cut_is_marked),
		cmocka_unit_test(numbers_are_short_and_true),
		cmocka_unit_test(paragraphs_wrap_and_keep_their_indent),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
