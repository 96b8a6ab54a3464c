// SPDX-License-Identifier: Apache-2.0
// The datalake's server: listeners, the queue by which other threads reach the loop, timers, start and stop. The
// loop thread owns every connection and waits for nothing but epoll. Each limit is in server_private.h.

#include "lake/server_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"

static const uint64_t TICK_NS = 250 * 1000 * 1000;
static const uint64_t STREAM_STEP_NS = SERVER_S;
static const uint64_t STREAM_ALIVE_NS = 15 * SERVER_S;
// With TLS fewer at a time: who is let in costs a handshake, and those under way come first. The others wait in the
// kernel, where they cost nothing and do not run out of time.
enum { ACCEPT_ROUNDS = 64, ACCEPT_ROUNDS_TLS = 8 };

// ---- what other threads have for the loop --------------------------------------------------------

void server_wake(struct server *server, struct server_reply *reply, bool returned)
{
	const uint64_t one = 1;
	bool first;

	pthread_mutex_lock(&server->ready_lock);
	first = !server->ready;
	// Both in one step: once the loop sees it returned, it may free it.
	reply->returned |= returned;
	if (!reply->ready_queued) {
		reply->ready_queued = true;
		reply->next_ready = NULL;
		*server->ready_end = reply;
		server->ready_end = &reply->next_ready;
	}
	pthread_mutex_unlock(&server->ready_lock);
	if (first && write(server->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

size_t server_bodies_bytes(const struct server *server)
{
	return server->bodies_reserved;
}

void server_notify(struct server *server)
{
	__atomic_store_n(&server->notified, true, __ATOMIC_RELAXED);
}

static struct server_reply *ready_pop(struct server *server, bool *ret_returned)
{
	struct server_reply *reply;

	pthread_mutex_lock(&server->ready_lock);
	reply = server->ready;
	if (reply) {
		server->ready = reply->next_ready;
		if (!server->ready)
			server->ready_end = &server->ready;
		reply->ready_queued = false;
		*ret_returned = reply->returned;
		reply->returned = false;
	}
	pthread_mutex_unlock(&server->ready_lock);
	return reply;
}

static void on_wake(void *context, int fd, uint32_t epoll_events)
{
	struct server *server = context;
	struct server_reply *reply;
	uint64_t count;
	bool returned;

	(void)epoll_events;
	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return;
	while ((reply = ready_pop(server, &returned))) {
		if (returned) {
			reply->with_worker = false;
			server->working--;
			if (reply->events && !reply->finished && reply->connection && !reply->in_streams)
				server_stream_add(server, reply);
		}
		if (reply->connection)
			connection_advance(reply->connection);
		else if (!reply->with_worker)
			reply_free(reply);
	}
}

// ---- event streams -------------------------------------------------------------------------------

void server_stream_add(struct server *server, struct server_reply *reply)
{
	reply->next_stream = server->streams;
	server->streams = reply;
	reply->in_streams = true;
	reply->stream_due_ns = reply->stream_spoke_ns = clock_boot_ns();
}

void server_stream_remove(struct server *server, struct server_reply *reply)
{
	for (struct server_reply **link = &server->streams; *link; link = &(*link)->next_stream)
		if (*link == reply) {
			*link = reply->next_stream;
			break;
		}
	reply->in_streams = false;
}

static void streams_step(struct server *server, uint64_t now_ns)
{
	bool notified = __atomic_exchange_n(&server->notified, false, __ATOMIC_RELAXED);

	for (struct server_reply *reply = server->streams, *next; reply; reply = next) {
		next = reply->next_stream;
		// A client that has not taken the last events gets no new ones.
		if (reply->with_worker || reply->finished || reply->connection->out.length)
			continue;
		if (!notified && now_ns - reply->stream_due_ns < STREAM_STEP_NS)
			continue;
		reply->stream_due_ns = now_ns;
		if (now_ns - reply->stream_spoke_ns > STREAM_ALIVE_NS) {
			reply->stream_spoke_ns = now_ns;
			buf_append_string(&reply->pending, reply->http.http_1_0 ? ":\n\n" : "3\r\n:\n\n\r\n");
			connection_advance(reply->connection);
			continue;
		}
		reply->with_worker = true;
		server->working++;
		readers_submit(server, reply);
	}
}

// ---- listening -----------------------------------------------------------------------------------

static void on_accept(void *context, int fd, uint32_t epoll_events)
{
	struct listener *listener = context;
	struct server *server = listener->server;
	struct sockaddr_storage address;

	(void)epoll_events;
	for (int round = listener->tls ? ACCEPT_ROUNDS - ACCEPT_ROUNDS_TLS : 0; round < ACCEPT_ROUNDS; round++) {
		socklen_t size = sizeof(address);
		int client = accept4(fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
		int on = 1;

		if (client < 0) {
			// Out of descriptors: the queue keeps them for a moment.
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
				server->accept_paused = true;
				loop_change_fd(server->loop, fd, 0);
			}
			return;
		}
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (server->connection_count >= server->options.connections_max ||
		    connection_new(server, client, listener->tls, (struct sockaddr *)&address) < 0) {
			server->counts.refused++;
			close(client);
		}
	}
}

// "127.0.0.1:7070", "[::1]:7070", "0.0.0.0:7070"
static int address_parse(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_size)
{
	const char *colon = strrchr(text, ':');
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr_in four = {.sin_family = AF_INET};
	size_t length = colon ? (size_t)(colon - text) : 0;
	unsigned long port;
	char host[64], *end;

	if (!colon || colon[1] < '0' || colon[1] > '9' || length >= sizeof(host))
		return -EINVAL;
	port = strtoul(colon + 1, &end, 10);
	if (*end || port > 65535)
		return -EINVAL;
	memcpy(host, text, length);
	host[length] = 0;
	if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = 0;
		if (inet_pton(AF_INET6, host + 1, &six.sin6_addr) != 1)
			return -EINVAL;
		six.sin6_port = htons((uint16_t)port);
		memcpy(ret_address, &six, *ret_size = sizeof(six));
		return 0;
	}
	if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &four.sin_addr) != 1)
		return -EINVAL;
	four.sin_port = htons((uint16_t)port);
	memcpy(ret_address, &four, *ret_size = sizeof(four));
	return 0;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
}

bool server_address_is_loopback(const char *address)
{
	struct sockaddr_storage parsed;
	socklen_t size;

	return address_parse(address, &parsed, &size) == 0 && is_loopback(&parsed);
}

static int socket_listen(const struct sockaddr_storage *address, socklen_t size, uint16_t *ret_port)
{
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_storage bound;
	socklen_t bound_size = sizeof(bound);
	int on = 1, result;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)address, size) < 0 || listen(fd, 4096) < 0 ||
	    getsockname(fd, (struct sockaddr *)&bound, &bound_size) < 0) {
		result = -errno;
		close(fd);
		return result;
	}
	// The port is at the same place in both families.
	*ret_port = ntohs(((struct sockaddr_in *)(void *)&bound)->sin_port);
	return fd;
}

int server_listen(struct server *server, const char *address, bool tls, uint16_t *ret_port)
{
	struct listener *listener = &server->listeners[server->listener_count];
	struct sockaddr_storage parsed;
	socklen_t size;

	if (server->listener_count == SERVER_LISTENERS_MAX)
		return -E2BIG;
	if (address_parse(address, &parsed, &size) < 0)
		return -EINVAL;
	if (!tls && !is_loopback(&parsed))
		return -EPERM;
	*listener = (struct listener){.server = server, .tls = tls};
	listener->fd = socket_listen(&parsed, size, &listener->port);
	if (listener->fd < 0)
		return listener->fd;
	server->listener_count++;
	if (ret_port)
		*ret_port = listener->port;
	return 0;
}

uint16_t server_port(const struct server *server, size_t index, bool *ret_tls)
{
	if (index >= server->listener_count)
		return 0;
	*ret_tls = server->listeners[index].tls;
	return server->listeners[index].port;
}

void server_set_tokens(struct server *server, struct tokens *tokens)
{
	server->tokens = tokens;
}

void server_set_certificate(struct server *server, const struct certificate *certificate, const char *client_ca)
{
	server->certificate = certificate;
	server->client_ca = client_ca;
}

int server_renew_certificate(struct server *server)
{
	struct tls_context *fresh;
	int result;

	if (!server->certificate)
		return -ENOENT;
	result = tls_context_new(server->certificate, server->client_ca, &fresh);
	if (result < 0)
		return result;
	tls_context_release(server->tls);
	server->tls = fresh;
	return 0;
}

// ---- life ----------------------------------------------------------------------------------------

static void on_tick(void *context, uint64_t now_ns)
{
	struct server *server = context;

	if (server->accept_paused && !server->stopping) {
		server->accept_paused = false;
		for (size_t i = 0; i < server->listener_count; i++)
			loop_change_fd(server->loop, server->listeners[i].fd, EPOLLIN);
	}
	streams_step(server, now_ns);
	if (now_ns < server->sweep_ns)
		return;
	server->sweep_ns = now_ns + SERVER_S;
	for (struct connection *connection = server->connections, *next; connection; connection = next) {
		next = connection->next;
		connection_expire(connection, now_ns);
	}
}

int server_new(const struct server_options *options, struct server **ret_server)
{
	struct server *server = calloc(1, sizeof(*server));
	int result;

	if (!server)
		return -ENOMEM;
	server->options = *options;
	server->loop = options->loop;
	server->ready_end = &server->ready;
	server->quick.end = &server->quick.first;
	server->slow.end = &server->slow.first;
	pthread_mutex_init(&server->ready_lock, NULL);
	pthread_mutex_init(&server->jobs_lock, NULL);
	pthread_cond_init(&server->jobs_come, NULL);
	server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	server->failures = failures_new();
	result = server->wake_fd < 0 ? -errno : server->failures ? sessions_new(&server->sessions) : -ENOMEM;
	if (!result)
		result = loop_add_fd(server->loop, server->wake_fd, EPOLLIN, on_wake, server);
	if (!result)
		result = loop_add_timer(server->loop, TICK_NS, on_tick, server, &server->timer);
	if (result < 0)
		server_free(server);
	else
		*ret_server = server;
	return result;
}

int server_start(struct server *server)
{
	int result = 0;

	for (size_t i = 0; i < server->listener_count && !result; i++)
		if (server->listeners[i].tls && !server->tls)
			result = server_renew_certificate(server);
	for (size_t i = 0; i < server->listener_count && !result; i++)
		result = loop_add_fd(server->loop, server->listeners[i].fd, EPOLLIN, on_accept, &server->listeners[i]);
	return result < 0 ? result : readers_start(server);
}

static void on_stop_tick(void *context, uint64_t now_ns)
{
	struct server *server = context;

	if (server->stop_at_ns && (server->working == 0 || now_ns >= server->stop_at_ns)) {
		server->stop_at_ns = 0;
		loop_stop(server->loop, 0);
	}
}

void server_stop(struct server *server, uint64_t wait_ns)
{
	struct loop_timer *timer;

	if (!server || server->stopping)
		return;
	server->stopping = true;
	for (size_t i = 0; i < server->listener_count; i++) {
		loop_remove_fd(server->loop, server->listeners[i].fd);
		close(server->listeners[i].fd);
	}
	server->listener_count = 0;
	for (struct connection *connection = server->connections, *next; connection; connection = next) {
		next = connection->next;
		if (!connection->reply || connection->reply->is_stream)
			connection_free(connection);
	}
	server->stop_at_ns = clock_boot_ns() + wait_ns;
	if (loop_add_timer(server->loop, TICK_NS / 10, on_stop_tick, server, &timer) == 0) {
		loop_run(server->loop);
		loop_timer_set(timer, 0);
	}
}

void server_free(struct server *server)
{
	struct server_reply *reply;
	bool returned;

	if (!server)
		return;
	server_stop(server, 0);
	readers_stop(server);
	while (server->connections)
		connection_free(server->connections);
	while ((reply = ready_pop(server, &returned)))
		reply_free(reply);
	while ((reply = jobs_take(&server->quick)) || (reply = jobs_take(&server->slow)))
		reply_free(reply);
	while (server->routes) {
		struct route_entry *next = server->routes->next;

		free(server->routes);
		server->routes = next;
	}
	if (server->timer)
		loop_timer_set(server->timer, 0);
	if (server->wake_fd >= 0) {
		loop_remove_fd(server->loop, server->wake_fd);
		close(server->wake_fd);
	}
	tls_context_release(server->tls);
	sessions_free(server->sessions);
	failures_free(server->failures);
	pthread_cond_destroy(&server->jobs_come);
	pthread_mutex_destroy(&server->jobs_lock);
	pthread_mutex_destroy(&server->ready_lock);
	free(server);
}

void server_counts(const struct server *server, struct server_counts *ret_counts)
{
	*ret_counts = server->counts;
	ret_counts->connections = server->connection_count;
	ret_counts->streams = __atomic_load_n(&server->stream_count, __ATOMIC_RELAXED);
}
