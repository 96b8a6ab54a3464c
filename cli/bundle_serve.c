// SPDX-License-Identifier: Apache-2.0
// `tracer bundle serve`: a mirror for a network without a way out, of a published tree or of a bundle as it is. Plain
// HTTP, GET and HEAD, one answer a connection; a mirror has no key, so nobody has to believe it. One thread that
// never waits for a client, as many connections as there are slots, each with a deadline; names are looked up below
// the tree and nowhere else. Rights are gone before the first byte of a stranger is read.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/bundle.h"
#include "cli/command.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/landlock.h"
#include "core/privs.h"
#include "core/stream_private.h"
#include "lake/http.h"
#include "updater/bundle.h"

enum { CLIENTS_MAX = 128, PATIENCE_S = 30 };

struct client {
	struct mirror *mirror;
	int fd, file; // -1: none; file of a tree is its own, of a bundle shared
	char head[HTTP_HEAD_MAX]; // of the request, then of the answer
	size_t have, scanned;
	size_t out_at, out_length; // of the answer's head
	uint64_t offset, left; // of the file
	uint64_t moved_ns;
	bool answering, owns_file, draining;
};

struct mirror {
	struct loop *loop;
	int tree; // -1: a bundle
	struct bundle bundle;
	int listener;
	struct client *clients[CLIENTS_MAX];
};

static int fail(const char *what, int error)
{
	fprintf(stderr, "tracer bundle: %s: %s\n", what, strerror(-error));
	return error == -EACCES || error == -EPERM ? EXIT_REFUSED : EXIT_NO;
}

static void client_end(struct client *client)
{
	struct mirror *mirror = client->mirror;

	loop_remove_fd(mirror->loop, client->fd);
	close(client->fd);
	if (client->owns_file && client->file >= 0)
		close(client->file);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (mirror->clients[i] == client)
			mirror->clients[i] = NULL;
	free(client);
}

// ---- what is asked for -------------------------------------------------------------------------------------------

// Part by part, and no link is followed. There is no ".." in a path that http_parse() took.
static int open_below(int tree, const char *path)
{
	CLEANUP(cleanup_close) int held = -1;
	int folder = tree;

	for (const char *slash; (slash = strchr(path, '/')); path = slash + 1) {
		char part[NAME_MAX + 1];
		int next;

		if ((size_t)(slash - path) >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = 0;
		next = openat(folder, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		cleanup_close(&held);
		folder = held = next;
	}
	folder = openat(folder, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return folder < 0 ? -errno : folder;
}

static int find_in_tree(struct client *client, const char *name)
{
	int fd = open_below(client->mirror->tree, name);
	struct stat info;

	if (fd < 0)
		return fd;
	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		close(fd);
		return -ENOENT;
	}
	client->file = fd;
	client->owns_file = true;
	client->left = (uint64_t)info.st_size;
	return 0;
}

// A bundle's names are quoted as in URLs, and compared before anything is decoded.
static int find_in_bundle(struct client *client, const char *quoted)
{
	const struct bundle_entry *entry = bundle_find(&client->mirror->bundle, quoted);

	if (!entry)
		return -ENOENT;
	client->file = client->mirror->bundle.fd;
	client->offset = entry->offset;
	client->left = entry->size;
	return 0;
}

static void answer(struct client *client, int status)
{
	int length = snprintf(client->head, sizeof(client->head),
			      "HTTP/1.1 %d %s\r\nContent-Length: %" PRIu64
			      "\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n",
			      status, http_reason(status), client->left);

	client->out_length = (size_t)length;
	client->answering = true;
	loop_change_fd(client->mirror->loop, client->fd, EPOLLOUT);
}

// The target as it stands in the request line, for a bundle.
static void target_of(const char *head, size_t length, char *out, size_t size)
{
	const char *from = memchr(head, ' ', length), *end;

	*out = 0;
	if (!from || from[1] != '/')
		return;
	end = from + 2 + strcspn(from + 2, " ?\r\n");
	if ((size_t)(end - from - 2) < size) {
		memcpy(out, from + 2, (size_t)(end - from - 2));
		out[end - from - 2] = 0;
	}
}

static void understand(struct client *client, size_t length)
{
	char quoted[BUNDLE_NAME_SIZE];
	struct http_request request;
	const char *why;
	int status, result;
	bool whole;

	target_of(client->head, length, quoted, sizeof(quoted));
	status = http_parse(client->head, length, &request, &why);
	if (status == 0 && request.content_length > 0)
		status = 400;
	whole = status == 0 && strcmp(request.method, "GET") == 0;
	if (status == 0 && !whole && strcmp(request.method, "HEAD") != 0)
		status = 405;
	if (status == 0) {
		result = client->mirror->tree >= 0 ? find_in_tree(client, request.path + 1)
						   : find_in_bundle(client, quoted);
		status = result == 0 ? 200 : 404;
	}
	answer(client, status);
	if (!whole)
		client->left = 0;
}

// ---- one connection ----------------------------------------------------------------------------------------------

// 0: more may follow; -EAGAIN: not now; anything else negative: the connection is over.
static int take(struct client *client)
{
	ssize_t got = recv(client->fd, client->head + client->have, sizeof(client->head) - client->have, 0);
	size_t length;

	if (got <= 0)
		return got < 0 ? -errno : -EPIPE;
	client->have += (size_t)got;
	length = http_head_length(client->head, client->have, &client->scanned);
	if (length > 0)
		understand(client, length);
	else if (client->have == sizeof(client->head))
		answer(client, 431);
	return 0;
}

// What the client still sends is read until it hangs up: a connection that is closed over it takes the answer along.
static int drain(struct client *client)
{
	ssize_t got = recv(client->fd, client->head, sizeof(client->head), 0);

	return got > 0 ? -EAGAIN : got < 0 ? -errno : -EPIPE;
}

static int give(struct client *client)
{
	char data[65536];
	ssize_t done;

	if (client->out_at < client->out_length) {
		done = send(client->fd, client->head + client->out_at, client->out_length - client->out_at,
			    MSG_NOSIGNAL | (client->left ? MSG_MORE : 0));
		if (done < 0)
			return -errno;
		client->out_at += (size_t)done;
		return 0;
	}
	if (client->left == 0) {
		client->draining = true;
		shutdown(client->fd, SHUT_WR);
		return loop_change_fd(client->mirror->loop, client->fd, EPOLLIN);
	}
	done = pread(client->file, data, client->left < sizeof(data) ? (size_t)client->left : sizeof(data),
		     (off_t)client->offset);
	if (done > 0)
		done = send(client->fd, data, (size_t)done, MSG_NOSIGNAL);
	if (done <= 0)
		return done < 0 ? -errno : -EIO;
	client->offset += (uint64_t)done;
	client->left -= (uint64_t)done;
	return 0;
}

static void on_client(void *context, int fd, uint32_t events)
{
	struct client *client = context;
	int result = client->draining ? drain(client) : client->answering ? give(client) : take(client);

	(void)fd;
	(void)events;
	if (result < 0 && result != -EAGAIN && result != -EINTR)
		client_end(client);
	else if (result == 0)
		client->moved_ns = clock_boot_ns();
}

static void on_listener(void *context, int listener, uint32_t events)
{
	struct mirror *mirror = context;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct client *client = NULL;

	(void)events;
	if (fd < 0)
		return;
	for (int i = 0; i < CLIENTS_MAX && !client; i++)
		if (!mirror->clients[i])
			client = mirror->clients[i] = calloc(1, sizeof(*client));
	if (!client) {
		close(fd);
		return;
	}
	client->mirror = mirror;
	client->fd = fd;
	client->file = -1;
	client->moved_ns = clock_boot_ns();
	if (loop_add_fd(mirror->loop, fd, EPOLLIN, on_client, client) < 0)
		client_end(client);
}

static void on_timer(void *context, uint64_t now_ns)
{
	struct mirror *mirror = context;

	(void)now_ns;
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (mirror->clients[i] &&
		    clock_boot_ns() - mirror->clients[i]->moved_ns > PATIENCE_S * UINT64_C(1000000000))
			client_end(mirror->clients[i]);
}

static void on_end(void *context, const struct signalfd_siginfo *info)
{
	struct mirror *mirror = context;

	(void)info;
	loop_stop(mirror->loop, 0);
}

// ---- begin and end -----------------------------------------------------------------------------------------------

// "ADDRESS:PORT", "[ADDRESS]:PORT".
static int address_of(const char *text, struct sockaddr_storage *out, socklen_t *ret_length)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	const char *colon = strrchr(text, ':');
	char host[64], *end;
	unsigned long port = colon && colon[1] ? strtoul(colon + 1, &end, 10) : 65536;

	if (port > 65535 || *end || (size_t)(colon - text) >= sizeof(host))
		return -EINVAL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	*out = (struct sockaddr_storage){0};
	if (inet_pton(AF_INET, host, &four.sin_addr) == 1) {
		four.sin_port = htons((uint16_t)port);
		memcpy(out, &four, sizeof(four));
		*ret_length = sizeof(four);
		return 0;
	}
	if (*host != '[' || host[strlen(host) - 1] != ']')
		return -EINVAL;
	host[strlen(host) - 1] = 0;
	if (inet_pton(AF_INET6, host + 1, &six.sin6_addr) != 1)
		return -EINVAL;
	six.sin6_port = htons((uint16_t)port);
	memcpy(out, &six, sizeof(six));
	*ret_length = sizeof(six);
	return 0;
}

static int listen_at(const char *text)
{
	struct sockaddr_storage address;
	socklen_t length;
	int result = address_of(text, &address, &length), fd, one = 1;

	if (result < 0)
		return result;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 128) < 0) {
		result = -errno;
		close(fd);
		return result;
	}
	return fd;
}

static int say_port(int listener, const char *text)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);

	if (getsockname(listener, (struct sockaddr *)&address, &length) < 0)
		return -errno;
	printf("listening on %.*s:%u\n", (int)(strrchr(text, ':') - text), text,
	       ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
						  : ((struct sockaddr_in6 *)&address)->sin6_port));
	fflush(stdout);
	return 0;
}

static int confine(const struct mirror *mirror)
{
	const struct privs_keep keep = {.capabilities = 0};
	struct landlock cage;
	uid_t uid = 0;
	gid_t gid = 0;
	int result;

	if (geteuid() == 0) {
		stream_user("tracer", &uid, &gid);
		if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
			return -errno;
	}
	result = privs_drop(&keep);
	if (result < 0)
		return result;
	if (landlock_begin(true, &cage) == 0) {
		if (mirror->tree >= 0)
			landlock_allow(&cage, mirror->tree, LANDLOCK_FILES);
		landlock_enforce(&cage);
	}
	result = privs_seccomp(PRIVS_DATALAKE);
	return result == -ENOSYS || result == -ENOTSUP ? 0 : result;
}

static int open_source(struct mirror *mirror, const char *path)
{
	char why[BUNDLE_WHY_SIZE];
	struct stat info;
	int result;

	if (stat(path, &info) < 0)
		return fail(path, -errno);
	if (S_ISDIR(info.st_mode)) {
		mirror->tree = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		return mirror->tree < 0 ? fail(path, -errno) : EXIT_OK;
	}
	result = bundle_open(path, &mirror->bundle, why);
	if (result < 0)
		fprintf(stderr, "tracer bundle: %s: %s\n", path, why);
	return result < 0 ? EXIT_NO : EXIT_OK;
}

static int run(struct mirror *mirror)
{
	int result = loop_add_fd(mirror->loop, mirror->listener, EPOLLIN, on_listener, mirror);

	if (result == 0)
		result = loop_add_timer(mirror->loop, UINT64_C(1000000000), on_timer, mirror, NULL);
	if (result == 0)
		result = loop_add_signal(mirror->loop, SIGTERM, on_end, mirror);
	if (result == 0)
		result = loop_add_signal(mirror->loop, SIGINT, on_end, mirror);
	if (result == 0)
		result = loop_run(mirror->loop);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (mirror->clients[i])
			client_end(mirror->clients[i]);
	return result;
}

int bundle_serve(const char *path, const char *listen)
{
	CLEANUP(cleanup_free) struct mirror *mirror = calloc(1, sizeof(*mirror));
	int code, result;

	if (!mirror)
		return fail(path, -ENOMEM);
	mirror->tree = mirror->bundle.fd = -1;
	mirror->listener = listen_at(listen);
	if (mirror->listener < 0)
		return mirror->listener == -EINVAL
			       ? (fprintf(stderr, "tracer bundle: --listen: %s is no ADDRESS:PORT\n", listen),
				  EXIT_USAGE)
			       : fail(listen, mirror->listener);
	code = open_source(mirror, path);
	if (code == EXIT_OK) {
		result = loop_new(&mirror->loop);
		if (result == 0)
			result = confine(mirror);
		if (result == 0)
			result = say_port(mirror->listener, listen);
		if (result == 0)
			result = run(mirror);
		code = result < 0 ? fail(path, result) : EXIT_OK;
	}
	loop_free(mirror->loop);
	if (mirror->tree >= 0)
		close(mirror->tree);
	bundle_close(&mirror->bundle);
	close(mirror->listener);
	return code;
}
