// SPDX-License-Identifier: Apache-2.0
// What a collector does with a burst. Lines that were counted as they were written are in one frame, or in as many as
// their number needs. The commit at its end: durable without a tick, and never more often than twice in a group commit.
#include "spool_help.h"

static const struct spool_options small = {
	.segment_bytes = 1 << 20, .cap_bytes = 16 << 20, .group_commit_ns = 50000000, .memory_ring_bytes = 1 << 20
};

static void a_burst_is_durable_without_a_tick(void **state)
{
	(void)state;
	for (int blocking = 0; blocking < 2; blocking++) {
		struct spool_options options = small;
		char *path = help_scratch();
		uint64_t start = clock_boot_ns();
		struct spool *spool;

		options.blocking_sync = blocking;
		spool = help_open(path, options, NULL);
		assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
		assert_int_equal(help_append(spool, 5, SPOOL_SAMPLE), 0);
		assert_false(spool_commit(spool, clock_boot_ns()));
		while (help_stats(spool).durable < 10 && clock_boot_ns() - start < 5000000000ULL) {
			usleep(1000);
			assert_false(spool_commit(spool, clock_boot_ns()));
		}
		assert_int_equal(help_stats(spool).durable, 10);
		assert_int_equal(help_stats(spool).sync_errors, 0);
		assert_int_equal(spool_close(spool), 0);
		help_remove(path);
	}
}

static void a_second_burst_waits_its_turn(void **state)
{
	struct spool_options options = small;
	char *path = help_scratch();
	struct spool *spool;
	uint64_t now = clock_boot_ns(), syncs;

	(void)state;
	options.blocking_sync = true; // done when submitted: what waits below waits for its turn alone
	spool = help_open(path, options, NULL);
	assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
	assert_false(spool_commit(spool, now));
	syncs = help_stats(spool).syncs;
	assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
	assert_true(spool_commit(spool, now + options.group_commit_ns / 2 - 1));
	assert_int_equal(help_stats(spool).syncs, syncs);
	assert_int_equal(help_stats(spool).durable, 5);
	assert_false(spool_commit(spool, now + options.group_commit_ns / 2));
	assert_int_equal(help_stats(spool).syncs, syncs + 1);
	assert_int_equal(help_stats(spool).durable, 10);
	assert_int_equal(spool_close(spool), 0);
	help_remove(path);
}

static void a_disk_that_takes_nothing_wants_ticks(void **state)
{
	char *path = help_scratch();
	struct spool *spool = help_open("/proc/self/nowhere", small, NULL);

	(void)state;
	assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
	assert_true(spool_commit(spool, clock_boot_ns()));
	assert_int_equal(help_stats(spool).durable, 0);
	assert_true(help_stats(spool).ring_active);
	spool_close(spool);
	help_remove(path);
}

static void counted_lines_become_the_same_frames(void **state)
{
	char *path = help_scratch();
	struct spool *spool = help_open(path, small, NULL);
	struct buf text = BUF_INIT;
	struct tally tally;

	(void)state;
	for (int i = 1; i <= 30000; i++) {
		buf_printf(&text, "{\"kind\":\"process\",\"n\":%d}\n", i);
		if (i == 10) {
			assert_int_equal(spool_append_counted(spool, text.data, text.length, 10, SPOOL_PROCESS), 0);
			buf_reset(&text);
		}
	}
	assert_int_equal(spool_append_counted(spool, text.data, text.length, 29990, SPOOL_PROCESS), 0);
	assert_int_equal(spool_append_counted(spool, text.data, text.length, 29989, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append_counted(spool, "{}", 2, 1, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append_counted(spool, "{}\n", 3, 0, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(help_stats(spool).accepted, 30000);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 0);
	assert_int_equal(tally.read, 30000);
	assert_true(tally.frames > 2);
	assert_int_equal(tally.lost + tally.places, 0);
	buf_free(&text);
	help_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counted_lines_become_the_same_frames),
		cmocka_unit_test(a_burst_is_durable_without_a_tick),
		cmocka_unit_test(a_second_burst_waits_its_turn),
		cmocka_unit_test(a_disk_that_takes_nothing_wants_ticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
