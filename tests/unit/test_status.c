// SPDX-License-Identifier: Apache-2.0
// The collector's sockets: one snapshot a client, never a byte read, slow and hostile clients bounded.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/status.h"

struct test {
	struct loop *loop;
	struct status_server *server;
	char directory[64], path[96];
	size_t size; // of a snapshot
	unsigned snapshots;
	pthread_t thread;
	bool running;
	int stop[2];
};

static void test_fill(void *context, struct buf *out)
{
	struct test *test = context;

	test->snapshots++;
	buf_append_string(out, "{\"n\":1}\n");
	while (out->length < test->size)
		buf_append_char(out, 'x');
}

static void test_stop(void *context, int fd, uint32_t events)
{
	struct test *test = context;

	(void)fd;
	(void)events;
	loop_stop(test->loop, 0);
}

static void *test_run(void *context)
{
	struct test *test = context;

	assert_int_equal(loop_run(test->loop), 0);
	return NULL;
}

static struct test *test_begin(size_t size)
{
	struct test *test = calloc(1, sizeof(*test));

	assert_non_null(test);
	test->size = size;
	snprintf(test->directory, sizeof(test->directory), "/tmp/tracer-test-status-XXXXXX");
	assert_non_null(mkdtemp(test->directory));
	snprintf(test->path, sizeof(test->path), "%s/a/b/s.sock", test->directory);
	assert_int_equal(loop_new(&test->loop), 0);
	assert_int_equal(pipe(test->stop), 0);
	assert_int_equal(loop_add_fd(test->loop, test->stop[0], 1 /* EPOLLIN */, test_stop, test),
			 0);
	assert_int_equal(status_server_open(test->loop, test->path, 0640, getgid(), test_fill, test,
					    &test->server),
			 0);
	return test;
}

static void test_start(struct test *test)
{
	assert_int_equal(pthread_create(&test->thread, NULL, test_run, test), 0);
	test->running = true;
}

static void test_join(struct test *test)
{
	if (test->running) {
		assert_int_equal(write(test->stop[1], "x", 1), 1);
		pthread_join(test->thread, NULL);
	}
	test->running = false;
}

static void test_end(struct test *test)
{
	char command[128];

	test_join(test);
	status_server_close(test->server);
	loop_free(test->loop);
	close(test->stop[0]);
	close(test->stop[1]);
	assert_int_equal(access(test->path, F_OK), -1);
	snprintf(command, sizeof(command), "%s/a/b", test->directory);
	assert_int_equal(rmdir(command), 0);
	snprintf(command, sizeof(command), "%s/a", test->directory);
	assert_int_equal(rmdir(command), 0);
	assert_int_equal(rmdir(test->directory), 0);
	free(test);
}

static int test_connect(const struct test *test)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", test->path);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void a_client_gets_one_whole_snapshot(void **state)
{
	static const size_t sizes[] = {0, 100, 5 << 20};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct test *test = test_begin(sizes[i]);
		struct status_counts counts;
		struct buf text = BUF_INIT;
		struct stat status;

		assert_int_equal(stat(test->path, &status), 0);
		assert_int_equal(status.st_mode & 0777, 0640);
		test_start(test);
		for (int round = 0; round < 3; round++) {
			buf_reset(&text);
			assert_int_equal(status_fetch(test->path, 5000000000, &text), 0);
			assert_int_equal(text.length, sizes[i] > 8 ? sizes[i] : 8);
			assert_int_equal(strncmp(text.data, "{\"n\":1}\n", 8), 0);
		}
		test_join(test);
		status_server_counts(test->server, &counts);
		assert_int_equal(counts.served, 3);
		assert_int_equal(counts.cut, 0);
		buf_free(&text);
		test_end(test);
	}
}

static void what_a_client_sends_is_never_read(void **state)
{
	struct test *test = test_begin(100);
	char answer[200];
	struct buf text = BUF_INIT;
	ssize_t got;
	int fd;

	(void)state;
	test_start(test);
	fd = test_connect(test);
	// Its side is shut for reading: sending fails or is thrown away, and the answer comes all the same.
	(void)!send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL | MSG_DONTWAIT);
	got = recv(fd, answer, sizeof(answer), MSG_WAITALL);
	assert_int_equal(got, 100);
	close(fd);
	assert_int_equal(status_fetch(test->path, 5000000000, &text), 0);
	buf_free(&text);
	test_end(test);
}

static void slow_clients_share_a_snapshot_and_are_cut(void **state)
{
	struct test *test = test_begin(8 << 20);
	int fds[STATUS_CLIENTS_MAX + 4];
	struct status_counts counts;
	struct buf text = BUF_INIT;
	uint64_t from_ns;

	(void)state;
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]) - 3; i++)
		fds[i] = test_connect(test);
	test_start(test);
	usleep(200000);
	// One more than there are places: turned away at once.
	from_ns = clock_boot_ns();
	assert_int_equal(status_fetch(test->path, 2000000000, &text), 0);
	assert_int_equal(text.length, 0);
	assert_true(clock_boot_ns() - from_ns < 1000000000);
	// After the deadline the slow ones are gone and there is room again.
	usleep((unsigned)(STATUS_CLIENT_MAX_NS / 1000) + 2500000);
	assert_int_equal(status_fetch(test->path, 5000000000, &text), 0);
	assert_int_equal(text.length, 8 << 20);
	test_join(test);
	status_server_counts(test->server, &counts);
	assert_int_equal(counts.cut, STATUS_CLIENTS_MAX);
	assert_int_equal(counts.refused, 2);
	assert_int_equal(counts.served, 1);
	assert_int_equal(test->snapshots, 2);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]) - 3; i++)
		close(fds[i]);
	buf_free(&text);
	test_end(test);
}

static void clients_that_leave_do_no_harm(void **state)
{
	struct test *test = test_begin(8 << 20);
	struct buf text = BUF_INIT;

	(void)state;
	test_start(test);
	for (int i = 0; i < 200; i++)
		close(test_connect(test));
	usleep(200000);
	assert_int_equal(status_fetch(test->path, 5000000000, &text), 0);
	assert_int_equal(text.length, 8 << 20);
	// They did not cost a snapshot each.
	assert_true(test->snapshots < 60);
	buf_free(&text);
	test_end(test);
}

static void a_path_in_use_is_not_taken(void **state)
{
	struct test *test = test_begin(10);
	struct status_server *other;
	char path[128], line[200];
	int fd;

	(void)state;
	assert_int_equal(status_server_open(test->loop, test->path, 0600, (gid_t)-1, test_fill,
					    test, &other),
			 -EADDRINUSE);
	// A file that is no socket is not overwritten.
	snprintf(path, sizeof(path), "%s/file", test->directory);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(
		status_server_open(test->loop, path, 0600, (gid_t)-1, test_fill, test, &other),
		-EEXIST);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
	memset(line, 'a', sizeof(line));
	line[0] = '/';
	line[sizeof(line) - 1] = 0;
	assert_int_equal(
		status_server_open(test->loop, line, 0600, (gid_t)-1, test_fill, test, &other),
		-ENAMETOOLONG);
	test_end(test);
}

static void a_left_over_socket_is_replaced(void **state)
{
	struct test *test = test_begin(10);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct status_server *other;
	char path[80];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	snprintf(path, sizeof(path), "%s/left", test->directory);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(
		status_server_open(test->loop, path, 0600, (gid_t)-1, test_fill, test, &other), 0);
	status_server_close(other);
	assert_int_equal(access(path, F_OK), -1);
	test_end(test);
}

static void nobody_there_is_told(void **state)
{
	struct buf text = BUF_INIT;

	(void)state;
	assert_int_equal(status_fetch("/nonexistent/s.sock", 1000000000, &text), -ENOENT);
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_gets_one_whole_snapshot),
		cmocka_unit_test(what_a_client_sends_is_never_read),
		cmocka_unit_test(slow_clients_share_a_snapshot_and_are_cut),
		cmocka_unit_test(clients_that_leave_do_no_harm),
		cmocka_unit_test(a_path_in_use_is_not_taken),
		cmocka_unit_test(a_left_over_socket_is_replaced),
		cmocka_unit_test(nobody_there_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
