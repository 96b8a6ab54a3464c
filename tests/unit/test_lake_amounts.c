// SPDX-License-Identifier: Apache-2.0
// Figures added all at once are what they are added one by one: known, unknown, and at the end of what a number holds.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
