// SPDX-License-Identifier: Apache-2.0
// Rollout: places that are stable and evenly spread, percentages that only grow, and the maintenance window.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "updater/rollout.h"

enum { HOSTS = 20000 };

static void test_places_are_stable_and_even(void **state)
{
	unsigned tenth[10] = {0}, moved = 0;
	char id[40];

	(void)state;
	for (int i = 0; i < HOSTS; i++) {
		unsigned place;

		snprintf(id, sizeof(id), "host-%d", i);
		place = rollout_place(id, "1.0");
		assert_int_equal(place, rollout_place(id, "1.0"));
		assert_true(place < ROLLOUT_PLACES);
		tenth[place / (ROLLOUT_PLACES / 10)]++;
		moved += (place < 1000) != (rollout_place(id, "1.1") < 1000);
	}
	for (int i = 0; i < 10; i++)
		assert_in_range(tenth[i], HOSTS / 10 - 200, HOSTS / 10 + 200);
	// The first tenth of one release is not that of the next.
	assert_in_range(moved, HOSTS / 10, HOSTS / 4);
	// What is on record must not change with a new version of the program: half-done rollouts would jump.
	assert_int_equal(rollout_place("0123456789abcdef0123456789abcdef", "1.2.3"), 9564);
}

static void test_jitter(void **state)
{
	uint64_t least = UINT64_MAX, most = 0;
	char id[40];

	(void)state;
	assert_int_equal(rollout_jitter_s("a", 0), 0);
	for (int i = 0; i < 1000; i++) {
		uint64_t wait_s;

		snprintf(id, sizeof(id), "host-%d", i);
		wait_s = rollout_jitter_s(id, 3600);
		least = wait_s < least ? wait_s : least;
		most = wait_s > most ? wait_s : most;
	}
	assert_true(least < 60 && most >= 3540 && most < 3600);
}

static bool open_at(const char *text, int day, int hour, int minute)
{
	struct rollout_window window;
	const struct tm local = {.tm_wday = day, .tm_hour = hour, .tm_min = minute};

	assert_int_equal(rollout_window_parse(text, &window), 0);
	return rollout_window_open(&window, &local);
}

static void test_window(void **state)
{
	enum { SUNDAY, MONDAY, TUESDAY, FRIDAY = 5, SATURDAY };

	(void)state;
	assert_true(open_at("", MONDAY, 3, 0));
	assert_true(open_at("02:00-04:00", MONDAY, 2, 0));
	assert_true(open_at("02:00-04:00", MONDAY, 3, 59));
	assert_false(open_at("02:00-04:00", MONDAY, 4, 0));
	assert_false(open_at("02:00-04:00", MONDAY, 1, 59));
	assert_true(open_at("Sat,Sun 02:00-04:00", SUNDAY, 3, 0));
	assert_false(open_at("Sat,Sun 02:00-04:00", MONDAY, 3, 0));
	assert_true(open_at("mon-fri 22:00-04:00", FRIDAY, 23, 0));
	assert_true(open_at("Mon-Fri 22:00-04:00", SATURDAY, 3, 59)); // began on Friday
	assert_false(open_at("Mon-Fri 22:00-04:00", MONDAY, 3, 0)); // would have begun on Sunday
	assert_true(open_at("Sat-Mon 00:00-00:00", SUNDAY, 12, 0));
	assert_false(open_at("Sat-Mon 00:00-00:00", TUESDAY, 12, 0));
}

static void test_window_refused(void **state)
{
	static const char *const bad[] = {
		"02:00",	   "2:00-4:00",	   "02:00-24:00",      "02:60-03:00",  "Mon",
		"Mon 02:00",	   "Mon,",	   "Mon- 02:00-03:00", "02:00-04:00 ", "02:00 -04:00",
		"Foo 01:00-02:00", " 01:00-02:00", "+1:00-02:00"};
	struct rollout_window window = {.days = 5};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(rollout_window_parse(bad[i], &window), -EINVAL);
	assert_int_equal(window.days, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places_are_stable_and_even),
		cmocka_unit_test(test_jitter),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_window_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
