// SPDX-License-Identifier: Apache-2.0
// The updater's child with the network: what it may hold and ask for, what it makes of what a server says; and what its parent takes from a
// child that was taken over. Every refusal here is a check that tests/updater/mutate.py takes out.
#include "updater/fetch.c"

#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct buf taken = BUF_INIT;
static int take_result;

static int take(void *context, const void *data, size_t length)
{
	(void)context;
	buf_append(&taken, data, length);
	return take_result;
}

static int clear(void **state)
{
	(void)state;
	alarm(60);
	take_result = 0;
	buf_free(&taken);
	return 0;
}

// ---- a server ------------------------------------------------------------------------------------------------------

static struct {
	const char *path, *head, *body;
} pages[] = {
	{"/file", "200 OK\r\nContent-Length: 9", "some text"},
	{"/unsaid", "200 OK\r\nConnection: close", "some text"},
	{"/absent", "404 Not Found\r\nContent-Length: 4", "none"},
	{"/forbidden", "403 Forbidden\r\nContent-Length: 4", "none"},
	{"/broken", "500 Internal Server Error\r\nContent-Length: 4", "none"},
	{"/elsewhere", "302 Found\r\nLocation: /file\r\nContent-Length: 0", ""},
	{"/a/../b", "200 OK\r\nContent-Length: 5", "as is"},
};

enum { LONG = 20000 }; // more than libcurl hands on at once

static void serve(int listener)
{
	static char request[4096], answer[LONG + 1024], path[256];

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		ssize_t got = recv(fd, request, sizeof(request) - 1, 0);
		const char *head = "404 Not Found\r\nContent-Length: 1", *body = "?";

		request[got > 0 ? got : 0] = 0;
		if (sscanf(request, "GET %255s HTTP/1.1\r\n", path) == 1)
			for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
				if (strcmp(pages[i].path, path) == 0) {
					head = pages[i].head;
					body = pages[i].body;
				}
		snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\n\r\n%s", head, body);
		if (strcmp(path, "/long") == 0)
			snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\n\r\n%0*d", (int)LONG, 0);
		send(fd, answer, strlen(answer), MSG_NOSIGNAL);
		close(fd);
	}
}

static pid_t server;
static char base[64];

static int server_start(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	snprintf(base, sizeof(base), "http://127.0.0.1:%d", ntohs(address.sin_port));
	server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(fd);
	}
	close(fd);
	return 0;
}

static int server_stop(void **state)
{
	(void)state;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return 0;
}

static struct fetch *start(uid_t uid, bool sandbox)
{
	static const struct buf ca = BUF_INIT;
	const struct fetch_options options = {.agent = "test", .ca = &ca, .uid = uid, .gid = uid, .sandbox = sandbox};
	struct fetch *fetch = NULL;
	char why[FETCH_WHY_SIZE];

	unsetenv("http_proxy");
	assert_int_equal(fetch_start(&options, &fetch, why), 0);
	return fetch;
}

static int get_page(struct fetch *fetch, const char *path, uint64_t max)
{
	char url[256], why[FETCH_WHY_SIZE];
	int result;

	snprintf(url, sizeof(url), "%s%s", strncmp(path, "file:", 5) == 0 ? "" : base, path);
	buf_free(&taken);
	result = fetch_get(fetch, url, max, take, NULL, why);
	if (result < 0)
		assert_true(why[0] != 0 || result == -EFBIG);
	return result;
}

static void test_what_a_server_says(void **state)
{
	static const struct {
		const char *path;
		uint64_t max;
		int result;
		const char *text;
	} cases[] = {
		{"/file", 9, 0, "some text"},
		{"/unsaid", 9, 0, "some text"},
		{"/a/../b", 9, 0, "as is"}, // not made another one on the way
		{"/file", 8, -EFBIG, ""},
		{"/unsaid", 8, -EFBIG, ""},
		{"/unsaid", 0, -EFBIG, ""},
		{"/absent", 9, -ENOENT, ""},
		{"/forbidden", 9, -ENOENT, ""},
		{"/broken", 9, -EIO, ""},
		{"/elsewhere", 9, -EIO, ""}, // no redirect but to https
		{"file:///proc/self/comm", 99, -EIO, ""},
		{"/long", LONG - 1, -EFBIG, NULL},
		{"/file", 9, 0, "some text"},
	};
	struct fetch *fetch = start((uid_t)-1, false);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result = get_page(fetch, cases[i].path, cases[i].max);

		if (result != cases[i].result || taken.length > cases[i].max ||
		    (cases[i].text && strcmp(taken.data ? taken.data : "", cases[i].text) != 0))
			fail_msg("%s: %d, %s", cases[i].path, result, taken.data);
	}
	fetch_stop(fetch);
}

// ---- what the child holds --------------------------------------------------------------------------------------------

static void child_says(const struct fetch *fetch, const char *name, char *out, size_t size)
{
	char path[64], line[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)fetch->child);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) && strncmp(line, name, strlen(name)) != 0)
		;
	fclose(file);
	snprintf(out, size, "%s", line + strlen(name));
	out[strcspn(out, "\n")] = 0;
}

static void test_what_the_child_has(void **state)
{
	static const uid_t users[] = {(uid_t)-1, 65534};
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), open_file = fcntl(null, F_DUPFD_CLOEXEC, 500);

	(void)state;
	// As root both; anybody else cannot become another.
	if (geteuid() == 0)
		assert_int_equal(setgroups(1, &(gid_t){65534}), 0);
	for (size_t i = 0; i < (geteuid() == 0 ? 2 : 1); i++) {
		struct fetch *fetch = start(users[i], true);
		char text[256], path[64], target[64];
		unsigned long long uid = i == 0 ? geteuid() : users[i];

		// It has given up everything before it takes a request.
		assert_int_equal(get_page(fetch, "/file", 9), 0);
		child_says(fetch, "Uid:", text, sizeof(text));
		snprintf(target, sizeof(target), "\t%llu\t%llu\t%llu\t%llu", uid, uid, uid, uid);
		assert_string_equal(text, target);
		child_says(fetch, "CapEff:", text, sizeof(text));
		assert_string_equal(text, "\t0000000000000000");
		child_says(fetch, "CapPrm:", text, sizeof(text));
		assert_string_equal(text, "\t0000000000000000");
		child_says(fetch, "NoNewPrivs:", text, sizeof(text));
		assert_string_equal(text, "\t1");
		child_says(fetch, "Seccomp:", text, sizeof(text));
		assert_string_equal(text, "\t2");
		if (i == 1) {
			child_says(fetch, "Groups:", text, sizeof(text));
			assert_int_equal(strspn(text, "\t "), strlen(text));
			child_says(fetch, "Gid:", text, sizeof(text));
			assert_string_equal(text, target);
			child_says(fetch, "CapBnd:", text, sizeof(text));
			assert_string_equal(text, "\t0000000000000000");
		}
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)fetch->child, open_file);
		assert_true(open_file >= 500 && readlink(path, target, sizeof(target)) < 0);
		assert_int_equal(geteuid() == 0 ? errno : ENOENT, ENOENT);
		fetch_stop(fetch);
	}
	if (geteuid() == 0)
		assert_int_equal(setgroups(0, NULL), 0);
	close(null);
	close(open_file);
}

// ---- a child that was taken over -----------------------------------------------------------------------------------

struct word {
	uint32_t kind;
	int32_t result;
	size_t length; // of what is behind; SIZE_MAX: half a head
};

// A process that answers any request with these words. Its last one is of kind 0 and not sent; then it waits, or ends.
static struct fetch *taken_over(const struct word *words, bool waits)
{
	struct fetch *fetch = calloc(1, sizeof(*fetch));
	static char data[PIECE + 8];
	int pair[2];

	assert_non_null(fetch);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	memset(data, 'x', sizeof(data));
	fetch->fd = pair[0];
	fetch->child = fork();
	if (fetch->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		recv(pair[1], data + 8, PIECE, 0);
		for (; words->kind; words++) {
			memset(data + 8, 'x', PIECE);
			memcpy(data, &words->kind, 4);
			memcpy(data + 4, &words->result, 4);
			send(pair[1], data, words->length == SIZE_MAX ? 4 : 8 + words->length, MSG_NOSIGNAL);
		}
		while (waits)
			pause();
		_exit(0);
	}
	close(pair[1]);
	return fetch;
}

static void test_a_child_that_lies(void **state)
{
	static const struct {
		struct word words[4];
		uint64_t max;
		int result, again; // of a second request
		size_t taken;
	} cases[] = {
		{{{FETCH_PIECE, 0, 5}, {FETCH_PIECE, 0, 5}, {FETCH_END, 0, 0}}, 10, 0, 1, 10},
		{{{FETCH_PIECE, 0, 11}, {FETCH_END, 0, 0}}, 10, -EPROTO, -EPIPE, 0},
		{{{FETCH_PIECE, 0, 6}, {FETCH_PIECE, 0, 5}, {FETCH_END, 0, 0}}, 10, -EPROTO, -EPIPE, 6},
		{{{7, 0, 5}, {FETCH_END, 0, 0}}, 10, -EPROTO, -EPIPE, 0},
		{{{FETCH_END, 1, 3}}, 10, -EPROTO, 1, 0},
		{{{FETCH_END, -4096, 3}}, 10, -EPROTO, 1, 0},
		{{{FETCH_END, -ENOENT, PIECE}}, 10, -ENOENT, 1, 0},
		{{{FETCH_PIECE, 0, SIZE_MAX}, {FETCH_END, 0, 0}}, 10, -EPIPE, -EPIPE, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fetch *fetch = taken_over(cases[i].words, true);
		char why[FETCH_WHY_SIZE];
		int result;

		buf_free(&taken);
		result = fetch_get(fetch, "http://x", cases[i].max, take, NULL, why);
		if (result != cases[i].result || taken.length != cases[i].taken || strlen(why) >= sizeof(why))
			fail_msg("case %zu: %d, %zu bytes", i, result, taken.length);
		if (cases[i].again != 1) {
			int status;

			assert_int_equal(fetch_get(fetch, "http://x", 10, take, NULL, why), cases[i].again);
			assert_int_equal(waitpid(fetch->child, &status, 0), fetch->child); // it was ended
			assert_true(WIFSIGNALED(status));
			close(fetch->fd);
			free(fetch);
		} else {
			fetch_stop(fetch);
		}
	}
}

static void test_a_child_that_is_gone(void **state)
{
	static const struct word nothing[] = {{0, 0, 0}}, half[] = {{FETCH_PIECE, 0, 5}, {0, 0, 0}};
	char url[FETCH_URL_SIZE + 1], why[FETCH_WHY_SIZE];
	struct fetch *fetch = taken_over(nothing, false);

	(void)state;
	assert_int_equal(fetch_get(fetch, "http://x", 10, take, NULL, why), -EPIPE);
	assert_string_equal(why, "the downloading process is gone");
	fetch_stop(fetch);
	fetch = taken_over(half, false);
	assert_int_equal(fetch_get(fetch, "http://x", 10, take, NULL, why), -EPIPE);
	fetch_stop(fetch);
	// Who takes the bytes refuses them: nothing more is asked of that child.
	fetch = taken_over(half, true);
	take_result = -EBADMSG;
	assert_int_equal(fetch_get(fetch, "http://x", 10, take, NULL, why), -EBADMSG);
	assert_int_equal(fetch_get(fetch, "http://x", 10, take, NULL, why), -EPIPE);
	fetch_stop(fetch);
	fetch = taken_over(half, true);
	memset(url, 'u', sizeof(url));
	url[sizeof(url) - 1] = 0;
	assert_int_equal(fetch_get(fetch, url, 10, take, NULL, why), -ENAMETOOLONG);
	fetch_stop(fetch);
	fetch_stop(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_a_server_says, server_start, server_stop),
		cmocka_unit_test_setup_teardown(test_what_the_child_has, server_start, server_stop),
		TEST(test_a_child_that_lies),
		TEST(test_a_child_that_is_gone),
	};

	return cmocka_run_group_tests(tests, clear, clear);
}
