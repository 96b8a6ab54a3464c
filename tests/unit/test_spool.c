// SPDX-License-Identifier: Apache-2.0
// The spool's writer: what goes in is there, in order, counted, after every kind of stop and under every kind of limit.
#include "tests/unit/spool_help.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/spool_files.h"

static const struct spool_options small = {.segment_bytes = 4096,
					   .cap_bytes = 1 << 20,
					   .group_commit_ns = 50000000,
					   .memory_ring_bytes = 1 << 16};

static void append_comes_back_in_order_over_both_classes(void **state)
{
	char *path = help_scratch();
	struct spool *spool = help_open(path, small, NULL);
	struct spool_stats stats;
	struct tally tally;

	(void)state;
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(
			help_append(spool, 1 + i % 7, i % 3 ? SPOOL_SAMPLE : SPOOL_PROCESS), 0);
	stats = help_stats(spool);
	assert_int_equal(stats.pending, stats.accepted);
	assert_true(stats.segments > 10);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 0);
	assert_int_equal(tally.read, stats.accepted);
	assert_int_equal(tally.frames, 300);
	assert_int_equal(tally.lost + tally.places, 0);
	tally = help_read(path, 500);
	assert_true(tally.first <= 500 && tally.first > 493);
	assert_int_equal(tally.read, stats.accepted - tally.first + 1);
	help_remove(path);
}

static void files_have_the_modes_and_a_reader_of_text_gets_json(void **state)
{
	char *path = help_scratch(), sub[128];
	mode_t mask = umask(077);
	struct spool *spool;
	struct buf text;
	struct stat info;

	(void)state;
	snprintf(sub, sizeof(sub), "%s/a/spool", path);
	umask(022);
	spool = help_open(sub, small, NULL);
	umask(077);
	assert_int_equal(help_append(spool, 3, SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	umask(mask);
	assert_int_equal(stat(sub, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0750);
	snprintf(sub, sizeof(sub), "%s/a/spool/p-00000000000000000001.ndjson", path);
	assert_int_equal(stat(sub, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0640);
	text = help_slurp(path, "a/spool/p-00000000000000000001.ndjson");
	// A frame line, three records, an end line: each an object on a line of its own.
	for (char *line = text.data, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		assert_true(line[0] == '{' && end[-1] == '}');
	}
	buf_free(&text);
	help_remove(path);
}

static void bad_appends_are_refused_and_count_nothing(void **state)
{
	char *path = help_scratch();
	struct spool *spool = help_open(path, small, NULL), *other;
	char *huge = malloc(1 << 20);

	(void)state;
	memset(huge, 'x', 1 << 20);
	huge[(1 << 20) - 1] = '\n';
	assert_int_equal(spool_append(spool, "{}", 2, 1, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append(spool, "{}\n", 3, 2, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append(spool, "{}\n{}\n", 6, 1, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append(spool, "{}\n\n", 4, 2, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append(spool, "", 0, 0, SPOOL_PROCESS), -EINVAL);
	assert_int_equal(spool_append(spool, huge, 1 << 20, 1, SPOOL_PROCESS), -EMSGSIZE);
	assert_int_equal(spool_append(spool, "{}\n", 3, 1, (enum spool_class)7), -EINVAL);
	assert_int_equal(help_stats(spool).accepted, 0);
	assert_int_equal(spool_open(path, &small, &other), -EBUSY);
	assert_int_equal(spool_close(spool), 0);
	assert_int_equal(spool_close(NULL), 0);
	for (int i = 0; i < 3; i++) {
		struct spool_options bad = small;

		if (i == 0)
			bad.cap_bytes = 100;
		if (i == 1)
			bad.group_commit_ns = 0;
		if (i == 2)
			bad.segment_bytes = 0;
		assert_int_equal(spool_open(path, &bad, &other), -EINVAL);
	}
	free(huge);
	help_remove(path);
}

static void a_large_append_is_split_at_lines(void **state)
{
	char *path = help_scratch();
	struct spool *spool = help_open(path, small, NULL);
	struct tally tally;

	(void)state;
	assert_int_equal(help_append(spool, 20000, SPOOL_PROCESS), 0);
	assert_int_equal(help_stats(spool).accepted, 20000);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 0);
	assert_int_equal(tally.read, 20000);
	assert_true(tally.frames > 100);
	assert_int_equal(tally.lost + tally.places, 0);
	help_remove(path);
}

// Runs in a child that stops without closing, as SIGKILL would.
static void die_after(const char *path, uint32_t frames)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct spool *spool = NULL;

		if (spool_open(path, &small, &spool) < 0)
			_exit(1);
		for (uint32_t i = 0; i < frames; i++)
			if (help_append(spool, 5, i % 2 ? SPOOL_SAMPLE : SPOOL_PROCESS) < 0)
				_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_killed_writer_loses_nothing_and_keeps_its_epoch(void **state)
{
	char *path = help_scratch();
	struct reported reported = {0};
	struct spool_stats stats, first;
	struct spool *spool = help_open(path, small, NULL);

	(void)state;
	first = help_stats(spool);
	assert_int_equal(spool_close(spool), 0);
	for (uint64_t round = 1; round <= 5; round++) {
		die_after(path, 100);
		spool = help_open(path, small, &reported);
		help_tick(spool);
		stats = help_stats(spool);
		assert_int_equal(stats.accepted, round * 500);
		assert_int_equal(stats.pending, round * 500);
		assert_int_equal(stats.unclean_starts, round);
		assert_int_equal(stats.epoch, first.epoch);
		assert_int_equal(spool_close(spool), 0);
	}
	assert_int_equal(reported.calls, 0);
	assert_int_equal(help_read(path, 0).read, 2500);
	help_remove(path);
}

static void rewrite_state(const char *path, void (*change)(struct spool_state *))
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[2 * SPOOL_STATE_LINE];
	struct spool_state found;

	assert_int_equal(spool_state_read(dir_fd, &found), 0);
	change(&found);
	spool_state_encode(&found, text);
	spool_state_encode(&found, text + SPOOL_STATE_LINE);
	help_spit(path, SPOOL_STATE_FILE, text, sizeof(text));
	close(dir_fd);
}

static void other_boot(struct spool_state *found)
{
	found->boot ^= 1;
}

static void the_epoch_changes_when_numbers_may_have_been_used(void **state)
{
	char *path = help_scratch();
	struct reported reported = {0};
	struct spool *spool;
	uint64_t before;

	(void)state;
	die_after(path, 10);
	spool = help_open(path, small, NULL);
	before = help_stats(spool).epoch;
	assert_int_equal(spool_close(spool), 0);
	// Closed in order, then a reboot: the same epoch.
	rewrite_state(path, other_boot);
	spool = help_open(path, small, NULL);
	assert_int_equal(help_stats(spool).epoch, before);
	assert_int_equal(spool_close(spool), 0);
	// Killed, then a reboot: the page cache went with it.
	die_after(path, 10);
	rewrite_state(path, other_boot);
	spool = help_open(path, small, NULL);
	assert_int_not_equal(help_stats(spool).epoch, before);
	before = help_stats(spool).epoch;
	assert_int_equal(help_append(spool, 1, SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	// No readable state: a new epoch, and the numbers still rise.
	help_spit(path, SPOOL_STATE_FILE, "garbage\n", 8);
	spool = help_open(path, small, &reported);
	assert_int_not_equal(help_stats(spool).epoch, before);
	assert_int_equal(help_stats(spool).accepted, 101);
	assert_int_equal(help_append(spool, 1, SPOOL_PROCESS), 0);
	help_tick(spool);
	assert_int_equal(reported.calls, 0);
	assert_int_equal(spool_close(spool), 0);
	assert_int_equal(help_read(path, 0).read, 102);
	help_remove(path);
}

static void state_says_more(struct spool_state *found)
{
	found->accepted += 40;
}

static void records_that_a_crash_took_are_counted_and_reported(void **state)
{
	char *path = help_scratch();
	struct reported reported = {0};
	struct spool *spool;
	struct spool_stats stats;

	(void)state;
	die_after(path, 4);
	rewrite_state(path, state_says_more); // numbers 1..40 were given, 20 are on disk
	spool = help_open(path, small, &reported);
	stats = help_stats(spool);
	assert_int_equal(stats.accepted, 40);
	assert_int_equal(stats.dropped[SPOOL_DAMAGED], 20);
	help_tick(spool);
	assert_int_equal(reported.count[SPOOL_DAMAGED], 20);
	assert_int_equal(reported.first, 21);
	assert_int_equal(reported.last, 40);
	assert_int_equal(help_append(spool, 1, SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	assert_int_equal(help_read(path, 0).lost, 20);
	spool = help_open(path, small, &reported); // once only
	help_tick(spool);
	assert_int_equal(reported.calls, 1);
	assert_int_equal(spool_close(spool), 0);
	help_remove(path);
}

static void over_the_cap_samples_go_first_and_every_record_is_counted(void **state)
{
	struct spool_options options = small;
	char *path = help_scratch();
	struct reported reported = {0};
	struct spool_stats stats;
	struct spool *spool;
	uint64_t process_records = 0;
	struct tally tally;

	(void)state;
	options.cap_bytes = 65536;
	spool = help_open(path, options, &reported);
	for (uint32_t i = 0; i < 400; i++) {
		enum spool_class class = i % 10 == 0 ? SPOOL_PROCESS : SPOOL_SAMPLE;

		process_records += class == SPOOL_PROCESS ? 10 : 0;
		assert_int_equal(help_append(spool, 10, class), 0);
		stats = help_stats(spool);
		assert_true(stats.bytes <= options.cap_bytes);
		assert_int_equal(stats.dropped[SPOOL_CAP], stats.accepted - stats.pending);
	}
	help_tick(spool);
	stats = help_stats(spool);
	assert_true(stats.dropped[SPOOL_CAP] > 1000);
	assert_int_equal(reported.count[SPOOL_CAP], stats.dropped[SPOOL_CAP]);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 1);
	assert_int_equal(tally.read, stats.pending);
	assert_int_equal(tally.lost, stats.dropped[SPOOL_CAP]);
	assert_int_equal(tally.places, 0);

	char command[256];
	FILE *grep;

	snprintf(command, sizeof(command), "cat %s/p-* | grep -c '\"kind\":\"process\"'", path);
	grep = popen(command, "r");
	assert_int_equal(fscanf(grep, "%255s", command), 1);
	pclose(grep);
	assert_int_equal(strtoull(command, NULL, 10),
			 process_records); // not one of them was dropped

	// Processes alone: the oldest go.
	spool = help_open(path, options, &reported);
	for (uint32_t i = 0; i < 400; i++)
		assert_int_equal(help_append(spool, 10, SPOOL_PROCESS), 0);
	stats = help_stats(spool);
	assert_true(stats.bytes <= options.cap_bytes);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 1);
	assert_int_equal(tally.read, stats.pending);
	assert_int_equal(tally.last, stats.accepted);
	assert_int_equal(tally.lost, stats.dropped[SPOOL_CAP]);
	help_remove(path);
}

static void a_segment_that_is_being_delivered_is_not_dropped(void **state)
{
	struct spool_options options = small;
	char *path = help_scratch();
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool_reader *reader;
	struct spool_cursor cursor;
	struct spool_item item;
	struct spool_stats stats;
	struct spool *spool;
	uint64_t held_records = 0, last = 0;

	(void)state;
	options.cap_bytes = 65536;
	spool = help_open(path, options, NULL);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
	assert_int_equal(spool_reader_open(dir_fd, 1, SPOOL_READER_HOLD, &reader), 0);
	for (int i = 0; i < 30; i++) { // into the second or third segment
		assert_int_equal(spool_reader_next(reader, &item), 1);
		assert_int_equal(item.kind, SPOOL_ITEM_FRAME);
		held_records += item.count;
		last = item.last;
	}
	for (uint32_t i = 0; i < 600; i++)
		assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
	stats = help_stats(spool);
	assert_true(stats.dropped[SPOOL_CAP] > 500);
	assert_true(help_has(path, "p-00000000000000000001.ndjson")); // behind it they went
	cursor = (struct spool_cursor){
		.epoch = stats.epoch, .acked = last, .delivered = held_records};
	assert_int_equal(help_cursor_write(dir_fd, &cursor), 0);
	spool_reader_release(reader, last);
	spool_reader_close(reader);
	help_tick(spool);
	stats = help_stats(spool);
	assert_int_equal(stats.delivered, held_records);
	assert_int_equal(stats.dropped[SPOOL_DAMAGED], 0);
	assert_int_equal(spool_close(spool), 0);
	assert_int_equal(help_read(path, last + 1).read, stats.pending);
	close(dir_fd);
	help_remove(path);
}

static void the_cursor_moves_records_from_pending_to_delivered(void **state)
{
	char *path = help_scratch();
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool *spool = help_open(path, small, NULL);
	struct spool_stats stats;

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		assert_int_equal(help_append(spool, 5, i % 2 ? SPOOL_SAMPLE : SPOOL_PROCESS), 0);
	for (uint64_t acked = 5; acked <= 1000; acked += 33) {
		struct spool_cursor cursor = {.acked = acked, .delivered = acked};

		assert_int_equal(help_cursor_write(dir_fd, &cursor), 0);
		help_tick(spool);
		stats = help_stats(spool);
		assert_int_equal(stats.delivered, acked);
		assert_int_equal(stats.pending, 1000 - acked);
		assert_int_equal(stats.dropped[SPOOL_DAMAGED], 0);
		if (acked % 132 == 5) { // and over a restart
			assert_int_equal(spool_close(spool), 0);
			spool = help_open(path, small, NULL);
			assert_int_equal(help_stats(spool).pending, 1000 - acked);
		}
	}
	// Only what is pending is still there.
	assert_true(stats.segments <= 4);
	assert_true(help_read(path, stats.acked + 1).first <= stats.acked + 1);
	assert_int_equal(help_read(path, stats.acked + 1).last - stats.acked, stats.pending);
	// A cursor that went back, claims the future or is damaged changes nothing.
	for (int i = 0; i < 3; i++) {
		struct spool_cursor cursor = {.acked = i ? 100 : 5000, .delivered = 100};

		assert_int_equal(help_cursor_write(dir_fd, &cursor), 0);
		if (i == 2)
			help_spit(path, "stream/cursor", "{\"cursor\":", 10);
		help_tick(spool);
		assert_int_equal(help_stats(spool).delivered, stats.delivered);
	}
	// Numbers that the streamer passed but could not deliver are "damaged".
	struct spool_cursor cursor = {.acked = 1000, .delivered = stats.delivered + 2};

	assert_int_equal(help_cursor_write(dir_fd, &cursor), 0);
	help_tick(spool);
	stats = help_stats(spool);
	assert_int_equal(stats.pending, 0);
	assert_int_equal(stats.dropped[SPOOL_DAMAGED], 1000 - stats.delivered);
	assert_int_equal(spool_close(spool), 0);
	close(dir_fd);
	help_remove(path);
}

static void a_segment_can_be_acknowledged_while_it_grows(void **state)
{
	char *path = help_scratch();
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool_options options = small;
	struct spool_stats stats;
	struct spool *spool;

	(void)state;
	options.cap_bytes = 65536;
	spool = help_open(path, options, NULL);
	for (uint32_t i = 0; i < 300; i++) {
		assert_int_equal(help_append(spool, 7, i % 5 ? SPOOL_SAMPLE : SPOOL_PROCESS), 0);
		stats = help_stats(spool);
		// Sometimes all of it, sometimes the middle of a frame, sometimes nothing for so long that the cap drops.
		if (i % 3 == 0 && i < 200) {
			uint64_t acked = stats.accepted - i % 2 * 3;
			struct spool_cursor cursor = {
				.acked = acked,
				.delivered = stats.delivered + acked - stats.acked,
			};

			assert_int_equal(help_cursor_write(dir_fd, &cursor), 0);
			help_tick(spool);
			stats = help_stats(spool);
			assert_int_equal(stats.delivered, cursor.delivered);
			assert_int_equal(stats.pending, stats.accepted - acked);
		}
		assert_int_equal(stats.dropped[SPOOL_DAMAGED], 0);
	}
	for (uint32_t i = 0; i < 300; i++)
		assert_int_equal(help_append(spool, 7, SPOOL_SAMPLE), 0);
	stats = help_stats(spool);
	assert_true(stats.dropped[SPOOL_CAP] > 0);
	assert_int_equal(stats.dropped[SPOOL_DAMAGED], 0);
	// The cursor moves while the cap is being enforced: read in the middle of an append.
	struct spool_cursor cursor = {.acked = stats.acked + 8, .delivered = stats.delivered + 8};

	assert_int_equal(help_cursor_write(dir_fd, &cursor), 0);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(help_append(spool, 7, SPOOL_SAMPLE), 0);
		help_stats(spool);
	}
	assert_int_equal(help_stats(spool).delivered, cursor.delivered);
	assert_int_equal(spool_close(spool), 0);
	close(dir_fd);
	help_remove(path);
}

static void an_unusable_directory_means_memory_and_recovery(void **state)
{
	char *dir = help_scratch(), path[128];
	struct reported reported = {0};
	struct spool_stats stats;
	struct spool *spool;
	struct tally tally;

	(void)state;
	snprintf(path, sizeof(path), "%s/spool", dir);
	spool = help_open(path, small, NULL);
	assert_int_equal(help_append(spool, 10, SPOOL_PROCESS), 0);
	assert_int_equal(spool_close(spool), 0);
	char aside[140];

	snprintf(aside, sizeof(aside), "%s.aside", path);
	assert_int_equal(rename(path, aside), 0);
	help_spit(dir, "spool", "a file in the way", 17);
	spool = help_open(path, small, &reported);
	stats = help_stats(spool);
	assert_true(stats.ring_active);
	assert_int_equal(stats.ring_error, ENOTDIR);
	assert_int_equal(stats.ring_reason, SPOOL_IO_ERROR);
	// Numbers are not known yet: records say which they will get behind the ten on disk.
	for (uint64_t i = 0; i < 5000; i++) {
		char text[96];
		int length = snprintf(text, sizeof(text), "{\"kind\":\"process\",\"n\":%llu}\n",
				      (unsigned long long)(11 + i));

		assert_int_equal(spool_append(spool, text, (size_t)length, 1, SPOOL_PROCESS), 0);
		if (i % 100 == 0)
			help_tick(spool);
	}
	stats = help_stats(spool);
	assert_true(stats.ring_bytes <= small.memory_ring_bytes);
	assert_true(stats.dropped[SPOOL_IO_ERROR] > 3000);
	assert_int_equal(reported.calls, 0); // not while it lasts
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(aside, path), 0);
	help_tick(spool);
	stats = help_stats(spool);
	assert_false(stats.ring_active);
	assert_int_equal(stats.ring_records, 0);
	assert_int_equal(stats.accepted, 5010);
	assert_int_equal(stats.pending + stats.dropped[SPOOL_IO_ERROR], 5010);
	assert_int_equal(reported.count[SPOOL_IO_ERROR], stats.dropped[SPOOL_IO_ERROR]);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 0);
	assert_int_equal(tally.read, stats.pending);
	assert_int_equal(tally.lost, stats.dropped[SPOOL_IO_ERROR]);
	assert_int_equal(tally.last, 5010);
	help_remove(dir);
}

// RLIMIT_FSIZE makes writes fail or fall short in the middle of a frame, at any size wanted.
static void short_writes_leave_no_trace(void **state)
{
	struct rlimit before, limit;
	char *path = help_scratch();
	struct spool_stats stats;
	struct tally tally;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	for (uint64_t at = 2000; at < 2600; at += 7) {
		struct spool *spool = help_open(path, small, NULL);

		limit = before;
		limit.rlim_cur = at;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		for (int i = 0; i < 12; i++)
			assert_int_equal(help_append(spool, 6, SPOOL_PROCESS), 0);
		assert_true(help_stats(spool).ring_active);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		help_tick(spool);
		stats = help_stats(spool);
		assert_false(stats.ring_active);
		assert_int_equal(stats.pending, stats.accepted);
		assert_int_equal(spool_close(spool), 0);
		tally = help_read(path, 1);
		assert_int_equal(tally.read, stats.accepted);
		assert_int_equal(tally.places + tally.lost, 0);
	}
	signal(SIGXFSZ, SIG_DFL);
	help_remove(path);
}

// Without memory the frame that failed is dropped, and a shorter one takes its place in the file.
static void a_shorter_frame_after_a_failed_one_has_no_tail(void **state)
{
	struct spool_options options = small;
	struct rlimit before, limit;
	char *path = help_scratch();
	struct spool_stats stats;
	struct spool *spool;
	struct tally tally;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	options.memory_ring_bytes = 0;
	spool = help_open(path, options, NULL);
	assert_int_equal(help_append(spool, 2, SPOOL_PROCESS), 0);
	limit = before;
	limit.rlim_cur = 900;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(help_append(spool, 60, SPOOL_PROCESS), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(help_stats(spool).dropped[SPOOL_IO_ERROR], 60);
	help_tick(spool);
	assert_int_equal(help_append(spool, 1, SPOOL_PROCESS), 0);
	stats = help_stats(spool);
	assert_int_equal(stats.pending, 3);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 1);
	assert_int_equal(tally.read, 3);
	assert_int_equal(tally.lost, 60);
	assert_int_equal(tally.places, 0);
	help_remove(path);
}

static void in_memory_samples_give_way_to_processes(void **state)
{
	struct spool_options options = small;
	char *dir = help_scratch(), path[128];
	struct spool_stats stats, full;
	struct spool *spool;
	struct tally tally;

	(void)state;
	snprintf(path, sizeof(path), "%s/spool", dir);
	help_spit(dir, "spool", "x", 1);
	options.memory_ring_bytes = 16384;
	spool = help_open(path, options, NULL);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(help_append(spool, 5, i < 50 ? SPOOL_PROCESS : SPOOL_SAMPLE), 0);
	assert_int_equal(unlink(path), 0);
	help_tick(spool);
	stats = help_stats(spool);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 1);
	assert_int_equal(tally.read, stats.pending);
	// All fifty process frames stayed, and of the samples the latest.
	assert_int_equal(tally.first, 1);
	assert_int_equal(tally.last, 500);
	assert_true(stats.pending >= 300 && stats.pending < 500);
	help_remove(path);

	help_spit(dir, "spool", "x", 1);
	spool = help_open(path, options, NULL);
	for (uint32_t i = 0; i < 150; i++)
		assert_int_equal(help_append(spool, 5, SPOOL_PROCESS), 0);
	full = help_stats(spool);
	assert_true(full.dropped[SPOOL_IO_ERROR] > 0);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(help_append(spool, 5, SPOOL_SAMPLE), 0);
	stats = help_stats(spool);
	assert_int_equal(unlink(path), 0);
	help_tick(spool);
	assert_int_equal(spool_close(spool), 0);
	tally = help_read(path, 1);
	// Of a ring full of processes at most the odd place went to a sample, and no process gave way.
	assert_true(tally.read >= full.pending);
	assert_int_equal(tally.first, full.accepted - full.pending + 1);
	assert_int_equal(tally.read, stats.pending);
	help_remove(dir);
}

static void a_removed_directory_or_segment_is_noticed(void **state)
{
	char *dir = help_scratch(), path[128], command[256];
	struct reported reported = {0};
	struct spool_stats stats;
	struct spool *spool;

	(void)state;
	snprintf(path, sizeof(path), "%s/spool", dir);
	spool = help_open(path, small, &reported);
	assert_int_equal(help_append(spool, 10, SPOOL_PROCESS), 0);
	snprintf(command, sizeof(command), "rm %s/p-*", path);
	assert_int_equal(system(command), 0);
	help_tick(spool);
	assert_int_equal(help_append(spool, 10, SPOOL_PROCESS), 0);
	stats = help_stats(spool);
	assert_int_equal(stats.dropped[SPOOL_DAMAGED], 10);
	assert_int_equal(stats.pending, 10);
	help_remove(path);
	help_tick(spool); // notices
	assert_int_equal(help_append(spool, 10, SPOOL_PROCESS), 0);
	help_tick(spool); // makes it anew
	stats = help_stats(spool);
	assert_int_equal(stats.accepted, 30);
	assert_int_equal(stats.dropped[SPOOL_DAMAGED], 20);
	assert_int_equal(stats.pending, 10);
	assert_false(stats.ring_active);
	assert_int_equal(reported.count[SPOOL_DAMAGED], 20);
	assert_int_equal(spool_close(spool), 0);
	assert_int_equal(help_read(path, 0).read, 10);
	help_remove(dir);
}

static void group_commit_makes_durable_within_two_ticks(void **state)
{
	(void)state;
	for (int blocking = 0; blocking < 2; blocking++) {
		struct spool_options options = small;
		char *path = help_scratch();
		uint64_t start = clock_boot_ns(), waited;
		struct spool_stats stats;
		struct spool *spool;

		options.blocking_sync = blocking;
		spool = help_open(path, options, NULL);
		spool_tick(spool, clock_boot_ns());
		for (int i = 0; i < 20; i++) {
			assert_int_equal(
				help_append(spool, 5, i % 2 ? SPOOL_SAMPLE : SPOOL_PROCESS), 0);
			stats = help_stats(spool);
			if (!stats.blocking_sync)
				assert_true(stats.durable < stats.accepted);
		}
		waited = clock_boot_ns();
		do {
			usleep(10000);
			spool_tick(spool, clock_boot_ns());
			stats = help_stats(spool);
		} while (stats.durable < stats.accepted &&
			 clock_boot_ns() - waited < 5000000000ULL);
		assert_int_equal(stats.durable, 100);
		assert_int_equal(stats.sync_errors, 0);
		// Never more often than twice in a group commit for each class, plus what attaching and creating cost.
		assert_true(stats.syncs <=
			    8 + 4 * (1 + (clock_boot_ns() - start) / options.group_commit_ns));
		assert_int_equal(spool_close(spool), 0);
		help_remove(path);
	}
}

static void a_reader_beside_the_writer_sees_every_record_once(void **state)
{
	char *path = help_scratch();
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool *spool = help_open(path, small, NULL);
	struct spool_reader *reader;
	struct tally tally;
	uint64_t read = 0;

	(void)state;
	assert_true(spool_is_written(dir_fd));
	assert_int_equal(spool_reader_open(dir_fd, 1, 0, &reader), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(
			help_append(spool, 1 + i % 5, i % 7 < 3 ? SPOOL_SAMPLE : SPOOL_PROCESS), 0);
		if (i % 13 != 0)
			continue;
		tally = help_drain(reader);
		assert_int_equal(tally.lost + tally.places, 0);
		read += tally.read;
		assert_int_equal(read, help_stats(spool).accepted);
	}
	assert_int_equal(spool_close(spool), 0);
	read += help_drain(reader).read;
	assert_int_equal(read, 3000);
	assert_false(spool_is_written(dir_fd));
	spool_reader_close(reader);
	close(dir_fd);
	help_remove(path);
}

static void an_interrupted_drop_is_finished_and_counted_once(void **state)
{
	struct spool_options options = small;
	char *path = help_scratch();
	struct spool *spool;
	struct spool_stats stats;
	struct buf first;

	(void)state;
	options.cap_bytes = 65536;
	spool = help_open(path, options, NULL);
	assert_int_equal(help_append(spool, 60, SPOOL_SAMPLE), 0);
	first = help_slurp(path, "s-00000000000000000001.ndjson");
	while (help_stats(spool).dropped[SPOOL_CAP] == 0)
		assert_int_equal(help_append(spool, 60, SPOOL_SAMPLE), 0);
	// As if killed after the state was written, before the unlink.
	help_spit(path, "s-00000000000000000001.ndjson", first.data, first.length);
	stats = help_stats(spool);
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool_state found;

	assert_int_equal(spool_state_read(dir_fd, &found), 0);
	assert_int_equal(found.dropping_class, SPOOL_SAMPLE + 1);
	struct buf saved = help_slurp(path, SPOOL_STATE_FILE);

	assert_int_equal(spool_close(spool), 0);
	help_spit(path, SPOOL_STATE_FILE, saved.data, saved.length);
	spool = help_open(path, options, NULL);
	assert_int_equal(help_stats(spool).dropped[SPOOL_CAP], stats.dropped[SPOOL_CAP]);
	assert_int_equal(help_stats(spool).pending, stats.pending);
	assert_false(help_has(path, "s-00000000000000000001.ndjson"));
	assert_int_equal(spool_close(spool), 0);
	buf_free(&first);
	buf_free(&saved);
	close(dir_fd);
	help_remove(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(append_comes_back_in_order_over_both_classes),
		cmocka_unit_test(files_have_the_modes_and_a_reader_of_text_gets_json),
		cmocka_unit_test(bad_appends_are_refused_and_count_nothing),
		cmocka_unit_test(a_large_append_is_split_at_lines),
		cmocka_unit_test(a_killed_writer_loses_nothing_and_keeps_its_epoch),
		cmocka_unit_test(the_epoch_changes_when_numbers_may_have_been_used),
		cmocka_unit_test(records_that_a_crash_took_are_counted_and_reported),
		cmocka_unit_test(over_the_cap_samples_go_first_and_every_record_is_counted),
		cmocka_unit_test(a_segment_that_is_being_delivered_is_not_dropped),
		cmocka_unit_test(the_cursor_moves_records_from_pending_to_delivered),
		cmocka_unit_test(a_segment_can_be_acknowledged_while_it_grows),
		cmocka_unit_test(an_unusable_directory_means_memory_and_recovery),
		cmocka_unit_test(short_writes_leave_no_trace),
		cmocka_unit_test(a_shorter_frame_after_a_failed_one_has_no_tail),
		cmocka_unit_test(in_memory_samples_give_way_to_processes),
		cmocka_unit_test(a_removed_directory_or_segment_is_noticed),
		cmocka_unit_test(group_commit_makes_durable_within_two_ticks),
		cmocka_unit_test(a_reader_beside_the_writer_sees_every_record_once),
		cmocka_unit_test(an_interrupted_drop_is_finished_and_counted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
