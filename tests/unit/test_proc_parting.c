// SPDX-License-Identifier: Apache-2.0
// Where the last word of a dying process is kept: found again seconds later, also when its pid was had again at once.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>
#include <linux/types.h>

#include "bpf/event.h"
#include "bpf/proc.h"

static unsigned char taken[PROC_PARTINGS];

static unsigned overwritten(uint32_t pid, uint32_t pid_step, uint64_t interval_ns, unsigned count)
{
	uint64_t start_ns = 4321 * 1000000007ULL;
	unsigned twice = 0;

	memset(taken, 0, sizeof(taken));
	for (unsigned i = 0; i < count; i++, pid += pid_step, start_ns += interval_ns) {
		uint32_t slot = proc_parting_slot(pid, start_ns);

		assert_in_range(slot, 0, PROC_PARTINGS - 1);
		twice += taken[slot];
		taken[slot] = 1;
	}
	return twice;
}

static void test_one_pid_again_and_again(void **state)
{
	(void)state;
	assert_int_equal(overwritten(29214, 0, 300000, 10000), 0);
}

static void test_a_storm_of_three_seconds(void **state)
{
	(void)state;
	assert_int_equal(overwritten(1000, 1, 100000, 23000), 0);
	assert_int_equal(overwritten(1000, 1, 300000, 10000), 0);
	assert_int_equal(overwritten(1000, 3, 1000000, 3000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_pid_again_and_again),
		cmocka_unit_test(test_a_storm_of_three_seconds),
	};

	return cmocka_run_group_tests_name("proc_parting", tests, NULL, NULL);
}
