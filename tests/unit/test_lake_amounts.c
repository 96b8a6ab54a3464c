// SPDX-License-Identifier: Apache-2.0
// Figures added all at once are what they are added one by one: known, unknown, and at the end of what a number holds.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "lake/amounts.h"

static const uint64_t edges[] = {0, 1, 1000, LAKE_U64_MAX / 2, LAKE_U64_MAX - 1, LAKE_U64_MAX, LAKE_NULL};
enum { EDGES = sizeof(edges) / sizeof(edges[0]) };

// Every pair of edges at every place, the others small and known, or as the place before.
static void test_sums(void **state)
{
	(void)state;
	for (unsigned at = 0; at < SUM_END; at++) {
		for (unsigned pair = 0; pair < EDGES * EDGES; pair++) {
			uint64_t together[SUM_END], apart[SUM_END], more[SUM_END];

			for (unsigned i = 0; i < SUM_END; i++) {
				together[i] = 7 * i;
				more[i] = i;
			}
			together[at] = edges[pair / EDGES];
			more[at] = edges[pair % EDGES];
			together[(at + pair) % SUM_END] = edges[(pair + at) % EDGES];
			memcpy(apart, together, sizeof(apart));
			for (unsigned i = 0; i < SUM_END; i++)
				amounts_add(&apart[i], more[i]);
			amounts_add_sums(together, more);
			assert_memory_equal(together, apart, sizeof(apart));
		}
	}
}

// One by one: what amounts_add() is held to.
static void test_one(void **state)
{
	uint64_t value = LAKE_NULL;

	(void)state;
	amounts_add(&value, LAKE_NULL);
	assert_true(value == LAKE_NULL);
	amounts_add(&value, 5);
	assert_int_equal(value, 5);
	amounts_add(&value, LAKE_NULL);
	assert_int_equal(value, 5);
	amounts_add(&value, LAKE_U64_MAX - 5);
	assert_true(value == LAKE_U64_MAX);
	amounts_add(&value, 1);
	assert_true(value == LAKE_U64_MAX);
}

// What the quality of the record calls an answer or a probe's end is no failure; what it says of figures changes nothing.
static void test_failed(void **state)
{
	static const struct {
		const char *quality;
		uint64_t exit_code, signal, oom;
		bool open, failed;
	} cases[] = {
		{NULL, 0, LAKE_NULL, 0, false, false},
		{NULL, 1, LAKE_NULL, 0, false, true},
		{"{\"blocked\":\"sampled\"}", 1, LAKE_NULL, 0, false, true},
		{"{\"blocked\":\"sampled\",\"end\":\"answer\"}", 1, LAKE_NULL, 0, false, false},
		{"{\"end\":\"probe\"}", LAKE_NULL, 9, 0, false, false},
		{"{}", LAKE_NULL, 9, 0, false, true},
		{"{}", LAKE_NULL, LAKE_NULL, 1, false, true},
		{"{}", LAKE_NULL, LAKE_NULL, LAKE_NULL, false, false},
		{NULL, 1, LAKE_NULL, 0, true, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t length = cases[i].quality ? strlen(cases[i].quality) : 0;
		struct lake_text *quality = calloc(1, sizeof(*quality) + length);
		struct lake_row *row = calloc(1, sizeof(*row) + PROCESSES_END * sizeof(row->slot[0]));

		assert_non_null(quality);
		assert_non_null(row);
		row->open = cases[i].open;
		row->slot[PROCESSES_exit_code].u64 = cases[i].exit_code;
		row->slot[PROCESSES_signal].u64 = cases[i].signal;
		row->slot[PROCESSES_oom].u64 = cases[i].oom;
		if (cases[i].quality) {
			quality->length = (uint32_t)length;
			memcpy(quality->bytes, cases[i].quality, length);
			row->slot[PROCESSES_quality].text = quality;
		}
		assert_int_equal(amounts_failed(row), cases[i].failed);
		free(quality);
		free(row);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
