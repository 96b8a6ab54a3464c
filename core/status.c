// SPDX-License-Identifier: Apache-2.0
// The local sockets of the collector and their reading side. Runs in its loop and never blocks it: what a client's
// socket does not take at once waits for EPOLLOUT or the deadline. Must never read from a client.

#include "core/status.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/privs.h"
#include "version.h"

struct status_client {
	struct status_server *server;
	int fd; // -1: free
	size_t sent;
	uint64_t since_ns;
};

struct status_server {
	struct loop *loop;
	struct loop_timer *timer; // armed while there are clients
	char *path;
	int fd;
	dev_t device; // of the socket file, so that only our own is unlinked
	ino_t inode;
	status_fill_fn *fill;
	void *context;
	struct buf snapshot; // shared by the clients there are
	uint64_t snapshot_until_ns; // it serves new clients until then; 0: there is none
	bool armed; // the timer
	struct status_client clients[STATUS_CLIENTS_MAX];
	unsigned client_count;
	struct status_counts counts;
};

static void status_client_end(struct status_client *client, bool whole)
{
	struct status_server *server = client->server;

	loop_remove_fd(server->loop, client->fd);
	close(client->fd);
	client->fd = -1;
	server->client_count--;
	server->counts.served += whole;
	server->counts.cut += !whole;
}

static void status_client_send(struct status_client *client)
{
	const struct buf *snapshot = &client->server->snapshot;

	while (client->sent < snapshot->length) {
		ssize_t sent = send(client->fd, snapshot->data + client->sent,
				    snapshot->length - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return;
		if (sent < 0) {
			status_client_end(client, false);
			return;
		}
		client->sent += (size_t)sent;
	}
	status_client_end(client, true);
}

static void status_client_ready(void *context, int fd, uint32_t events)
{
	(void)fd;
	(void)events;
	status_client_send(context);
}

static void status_check_deadlines(void *context, uint64_t now_ns)
{
	struct status_server *server = context;

	for (unsigned i = 0; i < STATUS_CLIENTS_MAX; i++) {
		struct status_client *client = &server->clients[i];

		if (client->fd >= 0 && now_ns - client->since_ns > STATUS_CLIENT_MAX_NS)
			status_client_end(client, false);
	}
	if (server->client_count)
		return;
	// The memory of a large snapshot is not kept for the next client, who may never come.
	buf_free(&server->snapshot);
	server->snapshot = (struct buf)BUF_INIT;
	server->snapshot_until_ns = 0;
	server->armed = false;
	loop_timer_set(server->timer, 0);
}

static int status_take_snapshot(struct status_server *server)
{
	uint64_t begin_ns = clock_boot_ns(), cost_ns;

	if (server->client_count || begin_ns < server->snapshot_until_ns)
		return 0;
	buf_reset(&server->snapshot);
	server->fill(server->context, &server->snapshot);
	if (buf_error(&server->snapshot) < 0 || server->snapshot.length > STATUS_SNAPSHOT_MAX)
		return -ENOMEM;
	// Clients that come all the time cost a tenth of a core at most.
	cost_ns = clock_boot_ns() - begin_ns;
	server->snapshot_until_ns =
		begin_ns + cost_ns +
		(cost_ns < STATUS_SNAPSHOT_MIN_NS / 9 ? STATUS_SNAPSHOT_MIN_NS : cost_ns * 9);
	return 0;
}

static void status_client_begin(struct status_server *server, int fd)
{
	struct status_client *client = server->clients;

	while (client < server->clients + STATUS_CLIENTS_MAX && client->fd >= 0)
		client++;
	if (client == server->clients + STATUS_CLIENTS_MAX) {
		server->counts.refused++;
		close(fd);
		return;
	}
	if (status_take_snapshot(server) < 0 ||
	    loop_add_fd(server->loop, fd, EPOLLOUT, status_client_ready, client) < 0) {
		server->counts.cut++;
		close(fd);
		return;
	}
	*client = (struct status_client){.server = server, .fd = fd, .since_ns = clock_boot_ns()};
	server->client_count++;
	// Not set anew: clients that keep coming must not put off the deadline of those before.
	if (!server->armed)
		loop_timer_set(server->timer, 1000000000);
	server->armed = true;
	shutdown(fd, SHUT_RD);
	status_client_send(client);
}

static void status_accept(void *context, int fd, uint32_t events)
{
	struct status_server *server = context;

	(void)events;
	// A flood of clients must not hold the loop: the rest waits for its next turn.
	for (unsigned i = 0; i < STATUS_CLIENTS_MAX; i++) {
		int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (client < 0)
			return;
		status_client_begin(server, client);
	}
}

static int status_address(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(ret_address->sun_path))
		return -ENAMETOOLONG;
	memcpy(ret_address->sun_path, path, strlen(path) + 1);
	return 0;
}

// Makes way: a socket without a listener is left over from a collector that was killed.
static int status_clear_path(const char *path, const struct sockaddr_un *address)
{
	CLEANUP(cleanup_close) int fd = -1;
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int status_bind(struct status_server *server, mode_t mode, gid_t group)
{
	CLEANUP(cleanup_free) char *directory = strdup(server->path);
	struct sockaddr_un address;
	struct stat status;
	mode_t before;
	int error, result;

	if (!directory)
		return -ENOMEM;
	error = status_address(server->path, &address);
	if (error == 0)
		error = fs_make_directories(dirname(directory), 0755);
	if (error == 0)
		error = status_clear_path(server->path, &address);
	if (error < 0)
		return error;
	server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->fd < 0)
		return -errno;
	// Nobody gets in before mode and group are set.
	before = umask(0777);
	result = bind(server->fd, (const struct sockaddr *)&address, sizeof(address));
	error = result < 0 ? -errno : 0;
	umask(before);
	if (error < 0)
		return error;
	if (lstat(server->path, &status) < 0)
		return -errno;
	server->device = status.st_dev;
	server->inode = status.st_ino;
	if (group != (gid_t)-1 && chown(server->path, (uid_t)-1, group) < 0)
		return -errno;
	if (chmod(server->path, mode) < 0 || listen(server->fd, STATUS_CLIENTS_MAX) < 0)
		return -errno;
	return 0;
}

static struct status_server *server_new(struct loop *loop, const char *path, status_fill_fn *fill, void *context)
{
	struct status_server *server = calloc(1, sizeof(*server));

	if (!server)
		return NULL;
	server->loop = loop;
	server->fd = -1;
	server->fill = fill;
	server->context = context;
	for (unsigned i = 0; i < STATUS_CLIENTS_MAX; i++)
		server->clients[i].fd = -1;
	server->path = strdup(path);
	if (!server->path) {
		free(server);
		return NULL;
	}
	return server;
}

static int server_listen(struct status_server *server)
{
	int error = loop_add_timer(server->loop, 0, status_check_deadlines, server, &server->timer);

	return error ? error : loop_add_fd(server->loop, server->fd, EPOLLIN, status_accept, server);
}

int status_server_open(struct loop *loop, const char *path, mode_t mode, gid_t group,
		       status_fill_fn *fill, void *context, struct status_server **ret_server)
{
	struct status_server *server = server_new(loop, path, fill, context);
	int error;

	if (!server)
		return -ENOMEM;
	error = status_bind(server, mode, group);
	if (error == 0)
		error = server_listen(server);
	if (error < 0) {
		status_server_close(server);
		return error;
	}
	*ret_server = server;
	return 0;
}

static bool bound_to(int fd, const char *path)
{
	struct sockaddr_un address = {0};
	socklen_t size = sizeof(address) - 1;

	return getsockname(fd, (struct sockaddr *)&address, &size) == 0 && !strcmp(address.sun_path, path);
}

int status_server_adopt(struct loop *loop, const char *path, int fd, status_fill_fn *fill, void *context,
			struct status_server **ret_server)
{
	struct status_server *server;
	struct stat status;
	int error;

	if (fd < 0 || !bound_to(fd, path) || lstat(path, &status) < 0 || !S_ISSOCK(status.st_mode))
		return -ENOENT;
	server = server_new(loop, path, fill, context);
	if (!server)
		return -ENOMEM;
	server->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	server->device = status.st_dev;
	error = server->fd < 0 ? -errno : server_listen(server);
	if (error < 0) {
		status_server_close(server);
		return error;
	}
	server->inode = status.st_ino; // from now on it is ours to unlink
	*ret_server = server;
	return 0;
}

int status_server_fd(const struct status_server *server)
{
	return server ? server->fd : -1;
}

void status_server_close(struct status_server *server)
{
	struct stat status;

	if (!server)
		return;
	for (unsigned i = 0; i < STATUS_CLIENTS_MAX; i++) {
		if (server->clients[i].fd >= 0)
			status_client_end(&server->clients[i], false);
	}
	if (server->timer)
		loop_timer_set(server->timer, 0);
	if (server->fd >= 0) {
		loop_remove_fd(server->loop, server->fd);
		close(server->fd);
	}
	if (server->inode && lstat(server->path, &status) == 0 && status.st_dev == server->device &&
	    status.st_ino == server->inode)
		unlink(server->path);
	buf_free(&server->snapshot);
	free(server->path);
	free(server);
}

void status_server_counts(const struct status_server *server, struct status_counts *ret_counts)
{
	*ret_counts = server->counts;
}

uint64_t status_rss_bytes(uint64_t pid)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	char path[64];
	const char *line;
	unsigned long long amount;

	snprintf(path, sizeof(path), "/proc/%llu/smaps_rollup", (unsigned long long)pid);
	line = fs_read(path, 4096, &text) < 0 || !text.data ? NULL : strstr(text.data, "\nRss:");
	if (line && sscanf(line, "\nRss: %llu kB", &amount) == 1)
		return amount * 1024;
	buf_reset(&text);
	snprintf(path, sizeof(path), "/proc/%llu/statm", (unsigned long long)pid);
	if (fs_read(path, 4096, &text) < 0 || !text.data || sscanf(text.data, "%*u %llu", &amount) != 1)
		return JSON_UNKNOWN;
	return amount * (uint64_t)sysconf(_SC_PAGESIZE);
}

void status_write_self(struct json *json, uint64_t main_pid, uint64_t started_boot_ns)
{
	int number;
	uint64_t refused = privs_refused(&number);

	json_put_string(json, "version", TRACER_VERSION);
	json_put_string(json, "build", TRACER_BUILD);
	json_put_u64(json, "pid", main_pid);
	json_put_u64(json, "collector_pid", (uint64_t)getpid());
	json_put_u64(json, "uptime_ns", clock_boot_ns() - started_boot_ns);
	json_put_u64(json, "cpu_ns", clock_process_cpu_ns());
	json_put_known_u64(json, "rss_bytes", status_rss_bytes((uint64_t)getpid()));
	json_put_u64(json, "refused_calls", refused);
	if (refused)
		json_put_i64(json, "refused_call_latest", number);
}

// --- the reading side --------------------------------------------------------------------------------------------

static int status_wait(int fd, uint64_t deadline_ns)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	uint64_t now_ns = clock_boot_ns();
	int ready;

	if (now_ns >= deadline_ns)
		return -ETIMEDOUT;
	ready = poll(&poll_fd, 1, (int)((deadline_ns - now_ns) / 1000000) + 1);
	if (ready < 0)
		return errno == EINTR ? 0 : -errno;
	return ready ? 0 : -ETIMEDOUT;
}

int status_fetch(const char *path, uint64_t timeout_ns, struct buf *out)
{
	CLEANUP(cleanup_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t deadline_ns = clock_boot_ns() + timeout_ns;
	struct sockaddr_un address;
	int error = fd < 0 ? -errno : status_address(path, &address);

	if (error < 0)
		return error;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	for (;;) {
		ssize_t got;

		error = status_wait(fd, deadline_ns);
		if (error == 0)
			error = buf_reserve(out, 65536);
		if (error < 0)
			return error;
		got = recv(fd, out->data + out->length, 65536, MSG_DONTWAIT);
		if (got == 0)
			break;
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		out->length += got > 0 ? (size_t)got : 0;
		if (out->length > STATUS_SNAPSHOT_MAX)
			return -EFBIG;
	}
	if (buf_reserve(out, 1) < 0)
		return -ENOMEM;
	out->data[out->length] = 0;
	return 0;
}
