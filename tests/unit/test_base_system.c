// SPDX-License-Identifier: Apache-2.0
// Base, the system half: arena, clock, crc, fs, loop.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/crc.h"
#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/base/resident.h"

#define MS 1000000ULL

// Blocks go round between the arenas of a pool, which keeps no more than it may; large ones do not.
static void arena_pool_keeps_some_blocks(void **state)
{
	struct arena_pool pool = ARENA_POOL(3);
	struct arena first, second;
	const void *given;

	(void)state;
	arena_init_pool(&first, 1024, &pool);
	arena_init_pool(&second, 1024, &pool);
	for (int i = 0; i < 5; i++)
		assert_non_null(arena_alloc(&first, 1000));
	assert_non_null(arena_alloc(&first, 100000));
	assert_int_equal(pool.count, 0);
	arena_reset(&first); // keeps one of the five itself
	assert_int_equal(pool.count, 3);
	given = pool.blocks;
	assert_non_null(arena_alloc(&second, 1000));
	assert_int_equal(pool.count, 2);
	assert_ptr_equal(second.blocks, given);
	assert_non_null(arena_alloc(&second, 100000));
	assert_int_equal(pool.count, 2);
	arena_free(&first);
	assert_int_equal(pool.count, 3);
	arena_free(&second);
	assert_int_equal(pool.count, 3);
	pool.most = 0;
	while (pool.count > 0) {
		assert_non_null(arena_alloc(&first, 1000));
		assert_non_null(arena_alloc(&first, 1000));
	}
	arena_free(&first);
	assert_null(pool.blocks);
}

static void arena_hands_out_apart_and_aligned(void **state)
{
	struct arena arena;
	unsigned char *given[500];

	(void)state;
	arena_init(&arena, 1000);
	for (size_t i = 0; i < 500; i++) {
		given[i] = arena_alloc(&arena, i * 7 % 300 + (i % 50 == 0 ? 5000 : 0));
		assert_non_null(given[i]);
		assert_int_equal((uintptr_t)given[i] % 16, 0);
		memset(given[i], (int)i, i * 7 % 300 + (i % 50 == 0 ? 5000 : 0));
	}
	for (size_t i = 0; i < 500; i++)
		for (size_t j = 0; j < i * 7 % 300 + (i % 50 == 0 ? 5000 : 0); j++)
			assert_int_equal(given[i][j], (unsigned char)i);
	assert_non_null(arena_alloc(&arena, 0));
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, SIZE_MAX - 8));
	assert_string_equal(arena_strndup(&arena, "hello", 4), "hell");
	assert_string_equal(arena_strndup(&arena, NULL, 0), "");
	arena_reset(&arena);
	assert_int_equal(arena.used_bytes, 0);
	assert_non_null(arena.blocks);
	assert_non_null(arena_alloc(&arena, 10));
	assert_int_equal(arena.used_bytes, 16);
	arena_free(&arena);
	assert_null(arena.blocks);
	assert_non_null(arena_alloc(&arena, 10));
	arena_free(&arena);
	arena_free(NULL);
}

static void crc_matches_the_published_vectors(void **state)
{
	unsigned char zeros[32] = { 0 }, ones[32], rising[32];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	for (unsigned char i = 0; i < 32; i++)
		rising[i] = i;
	assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa); // RFC 3720 B.4
	assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
	assert_int_equal(crc32c(0, rising, 32), 0x46dd794e);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, NULL, 0), 0);
}

static void crc_is_the_same_by_tables_and_in_pieces(void **state)
{
	unsigned char data[600];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 131 >> 3);
	for (size_t offset = 0; offset < 9; offset++)
		for (size_t length = 0; length + offset < sizeof(data); length++) {
			uint32_t whole = crc32c(0, data + offset, length);
			size_t cut = length / 3;

			assert_int_equal(whole, crc32c_portable(0, data + offset, length));
			assert_int_equal(whole, crc32c(crc32c(0, data + offset, cut), data + offset + cut,
						       length - cut));
		}
}

// Long ones are taken in several runs side by side.
static void crc_of_long_texts_is_the_same_too(void **state)
{
	static unsigned char data[20000];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * i * 2654435761u >> 13);
	for (size_t offset = 0; offset < 9; offset++)
		for (size_t length = 2900; length + offset < sizeof(data); length += 97) {
			uint32_t whole = crc32c(0, data + offset, length);

			assert_int_equal(whole, crc32c_portable(0, data + offset, length));
			assert_int_equal(whole, crc32c(crc32c(0, data + offset, length / 2),
						       data + offset + length / 2, length - length / 2));
		}
}

static void clock_converts_boot_to_wall(void **state)
{
	struct clock_offset offset = { 0 };
	uint64_t wall, expect, cpu = clock_process_cpu_ns();

	(void)state;
	clock_offset_update(&offset);
	wall = clock_to_real_ns(&offset, clock_boot_ns());
	expect = clock_real_ns();
	assert_true(expect >= wall ? expect - wall < 100 * MS : wall - expect < 100 * MS);
	assert_true(llabs(clock_offset_update(&offset)) < (long long)(100 * MS));
	for (volatile int i = 0; i < 1000000; i++)
		;
	assert_true(clock_process_cpu_ns() > cpu);
}

static char *scratch(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "/tmp/tracer-base-XXXXXX");
	assert_non_null(mkdtemp(path));
	return path;
}

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void fs_replaces_whole_or_not_at_all(void **state)
{
	char *dir = scratch(), path[128];
	struct buf buf = BUF_INIT;
	struct stat info;

	(void)state;
	snprintf(path, sizeof(path), "%s/file", dir);
	assert_int_equal(fs_replace(path, "one", 3, 0640), 0);
	assert_int_equal(fs_replace(path, "second", 6, 0640), 0);
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0640);
	assert_int_equal(entries(dir), 1);
	buf_append_string(&buf, "kept ");
	assert_int_equal(fs_read(path, 6, &buf), 0);
	assert_string_equal(buf.data, "kept second");
	assert_int_equal(fs_read(path, 5, &buf), -EFBIG);
	assert_string_equal(buf.data, "kept second");
	assert_int_equal(fs_read(path, 0, &buf), -EFBIG);
	assert_int_equal(fs_read("/nowhere/at/all", 10, &buf), -ENOENT);
	assert_int_equal(fs_read(dir, 10, &buf), -EISDIR);
	snprintf(path, sizeof(path), "%s/none/file", dir);
	assert_int_equal(fs_replace(path, "x", 1, 0640), -ENOENT);
	assert_int_equal(entries(dir), 1);
	snprintf(path, sizeof(path), "%s/file", dir);
	unlink(path);
	rmdir(dir);
	buf_free(&buf);
}

// What was killed in the middle leaves its temporary; everything else stays.
static void fs_replace_leaves_nothing_for_ever(void **state)
{
	static const char *const others[] = {"file", "file.lock", "file.json", "file.abc-ef", "other.abcdef", ".abcdef"};
	char *dir = scratch(), path[128];

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, others[i]);
		assert_int_equal(fs_replace(path, "x", 1, 0600), 0);
	}
	snprintf(path, sizeof(path), "%s/file.aBcD19", dir);
	assert_int_equal(fs_replace(path, "x", 1, 0600), 0);
	fs_replace_tidy("/nowhere/at/all", "file");
	fs_replace_tidy(dir, "f*e");
	assert_int_equal(access(path, F_OK), -1);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, others[i]);
		assert_int_equal(unlink(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void fs_reads_files_without_a_size(void **state)
{
	struct buf buf = BUF_INIT;

	(void)state;
	assert_int_equal(fs_read("/proc/self/status", 1 << 20, &buf), 0);
	assert_non_null(strstr(buf.data, "VmRSS"));
	assert_int_equal(strlen(buf.data), buf.length);
	buf_free(&buf);
}

static void fs_reads_numbers(void **state)
{
	static const struct {
		const char *text;
		int result;
		uint64_t value;
	} cases[] = {
		{ "0\n", 0, 0 },
		{ "18446744073709551615\n", 0, UINT64_MAX },
		{ "max\n", 0, UINT64_MAX },
		{ "42", 0, 42 },
		{ "18446744073709551616\n", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "\n", -EINVAL, 0 },
		{ "-1\n", -EINVAL, 0 },
		{ "12 13\n", -EINVAL, 0 },
		{ "1234567890123456789012345678901234567890123456789012345678901234", -EINVAL, 0 },
	};
	char *dir = scratch(), path[128];
	int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	snprintf(path, sizeof(path), "%s/n", dir);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t value = 77;

		assert_int_equal(fs_replace(path, cases[i].text, strlen(cases[i].text), 0600), 0);
		assert_int_equal(fs_read_u64_at(dir_fd, "n", &value), cases[i].result);
		assert_int_equal(value, cases[i].result == 0 ? cases[i].value : 77);
	}
	close(dir_fd);
	unlink(path);
	rmdir(dir);
}

static void fs_makes_parents_and_refuses_a_file_in_the_way(void **state)
{
	char *dir = scratch(), path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/a//b/c/", dir);
	assert_int_equal(fs_make_directories(path, 0750), 0);
	assert_int_equal(fs_make_directories(path, 0750), 0);
	assert_int_equal(access(path, X_OK), 0);
	snprintf(path, sizeof(path), "%s/a/file", dir);
	assert_int_equal(fs_replace(path, "", 0, 0600), 0);
	snprintf(path, sizeof(path), "%s/a/file/below", dir);
	assert_int_equal(fs_make_directories(path, 0750), -ENOTDIR);
	assert_int_equal(fs_make_directories("", 0750), -ENOENT);
	assert_int_equal(fs_make_directories("/", 0750), 0);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

struct seen {
	struct loop *loop;
	struct loop_timer *timer;
	int fired, other, removed_fd;
	uint64_t last_ns;
};

static void on_pipe(void *context, int fd, uint32_t events)
{
	struct seen *seen = context;
	char c;

	assert_true(events & EPOLLIN);
	assert_int_equal(read(fd, &c, 1), 1);
	seen->fired++;
	// The other pipe is ready in the same batch; its handler must not run any more.
	if (seen->removed_fd >= 0) {
		assert_int_equal(loop_remove_fd(seen->loop, fd), 0);
		assert_int_equal(loop_remove_fd(seen->loop, seen->removed_fd), 0);
		assert_int_equal(loop_remove_fd(seen->loop, seen->removed_fd), -ENOENT);
	}
}

static void stop_timer(void *context, uint64_t now_ns)
{
	struct seen *seen = context;

	(void)now_ns;
	loop_stop(seen->loop, 42);
}

static void loop_delivers_and_forgets_descriptors(void **state)
{
	struct seen seen = { .removed_fd = -1 };
	int first[2], second[2];

	(void)state;
	assert_int_equal(loop_new(&seen.loop), 0);
	assert_int_equal(pipe(first), 0);
	assert_int_equal(pipe(second), 0);
	assert_int_equal(loop_add_fd(seen.loop, first[0], EPOLLIN, on_pipe, &seen), 0);
	assert_int_equal(loop_add_fd(seen.loop, first[0], EPOLLIN, on_pipe, &seen), -EEXIST);
	assert_int_equal(write(first[1], "abc", 3), 3);
	assert_int_equal(loop_add_timer(seen.loop, 30 * MS, stop_timer, &seen, NULL), 0);
	assert_int_equal(loop_run(seen.loop), 42);
	assert_int_equal(seen.fired, 3);

	struct seen other = { .loop = seen.loop, .removed_fd = first[0] };

	seen.removed_fd = second[0];
	assert_int_equal(loop_add_fd(seen.loop, second[0], EPOLLIN, on_pipe, &other), 0);
	assert_int_equal(write(first[1], "d", 1) + write(second[1], "d", 1), 2);
	assert_int_equal(loop_run(seen.loop), 42);
	assert_int_equal(seen.fired - 3 + other.fired, 1);
	loop_free(seen.loop);
	loop_free(NULL);
	close(first[0]), close(first[1]), close(second[0]), close(second[1]);
}

static void on_tick(void *context, uint64_t now_ns)
{
	struct seen *seen = context;

	if (seen->last_ns)
		assert_true(now_ns - seen->last_ns >= 5 * MS);
	seen->last_ns = now_ns;
	if (++seen->fired == 3)
		usleep(40000); // a stall: the missed runs are not made up for
	if (seen->fired == 6)
		loop_timer_set(seen->timer, 0);
}

static void loop_timers_repeat_and_disarm(void **state)
{
	struct seen seen = { 0 };
	uint64_t start;

	(void)state;
	assert_int_equal(loop_new(&seen.loop), 0);
	assert_int_equal(loop_add_timer(seen.loop, 5 * MS, on_tick, &seen, &seen.timer), 0);
	assert_int_equal(loop_add_timer(seen.loop, 120 * MS, stop_timer, &seen, NULL), 0);
	start = clock_boot_ns();
	assert_int_equal(loop_run(seen.loop), 42);
	assert_true(clock_boot_ns() - start >= 120 * MS);
	assert_int_equal(seen.fired, 6);
	loop_stop(seen.loop, 7);
	assert_int_equal(loop_run(seen.loop), 7);
	loop_free(seen.loop);
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	struct seen *seen = context;

	seen->fired += (int)info->ssi_signo;
	if (info->ssi_signo == SIGUSR2)
		loop_stop(seen->loop, 0);
}

static void loop_delivers_signals_and_restores_the_mask(void **state)
{
	struct seen seen = { 0 };
	sigset_t mask;

	(void)state;
	assert_int_equal(loop_new(&seen.loop), 0);
	assert_int_equal(loop_add_signal(seen.loop, SIGUSR1, on_signal, &seen), 0);
	assert_int_equal(loop_add_signal(seen.loop, SIGUSR2, on_signal, &seen), 0);
	assert_int_equal(loop_add_signal(seen.loop, 9999, on_signal, &seen), -EINVAL);
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGUSR2);
	assert_int_equal(loop_run(seen.loop), 0);
	assert_int_equal(seen.fired, SIGUSR1 + SIGUSR2);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	assert_true(sigismember(&mask, SIGUSR1));
	loop_restore_signals(seen.loop);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	assert_false(sigismember(&mask, SIGUSR1));
	loop_free(seen.loop);
}

__attribute__((used)) static const char constants[32 * RESIDENT_CHUNK_BYTES] = { 1 }; // what nobody needs

// Sums Rss of the mappings of this program's file that nobody can write, and touches each page of them when asked to.
static unsigned long own_file_kib(bool touch)
{
	char line[4096], own[2000], permissions[8] = "";
	ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
	FILE *maps = fopen("/proc/self/smaps", "re");
	unsigned long first, end, kib, sum = 0;
	bool counts = false;
	int path;

	assert_non_null(maps);
	assert_true(length > 0);
	own[length] = '\0';
	while (fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &first, &end, permissions, &path) == 3) {
			counts = permissions[1] == '-' && !strcmp(line + path, own);
			for (unsigned long at = first; touch && counts && at < end; at += 4096)
				(void)*(volatile const char *)at;
		} else if (counts && sscanf(line, "Rss: %lu", &kib) == 1) {
			sum += kib;
		}
	}
	fclose(maps);
	return sum;
}

static void resident_pages_go_and_come_back(void **state)
{
	unsigned long whole, left;

	(void)state;
	own_file_kib(true);
	whole = own_file_kib(false);
	resident_release();
	left = own_file_kib(false);
	assert_true(whole > 20 * RESIDENT_CHUNK_BYTES / 1024);
	assert_true(left < whole / 2);
	resident_release(); // of what is in chunks already
	assert_true(own_file_kib(false) < whole / 2);
	own_file_kib(true);
	assert_true(own_file_kib(false) > whole / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_hands_out_apart_and_aligned),
		cmocka_unit_test(arena_pool_keeps_some_blocks),
		cmocka_unit_test(crc_matches_the_published_vectors),
		cmocka_unit_test(crc_is_the_same_by_tables_and_in_pieces),
		cmocka_unit_test(crc_of_long_texts_is_the_same_too),
		cmocka_unit_test(clock_converts_boot_to_wall),
		cmocka_unit_test(fs_replaces_whole_or_not_at_all),
		cmocka_unit_test(fs_replace_leaves_nothing_for_ever),
		cmocka_unit_test(fs_reads_files_without_a_size),
		cmocka_unit_test(fs_reads_numbers),
		cmocka_unit_test(fs_makes_parents_and_refuses_a_file_in_the_way),
		cmocka_unit_test(resident_pages_go_and_come_back),
		cmocka_unit_test(loop_delivers_and_forgets_descriptors),
		cmocka_unit_test(loop_timers_repeat_and_disarm),
		cmocka_unit_test(loop_delivers_signals_and_restores_the_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
