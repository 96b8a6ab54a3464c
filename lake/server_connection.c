// SPDX-License-Identifier: Apache-2.0
// One connection: handshake, head, body, answer, and again. Everything here runs in the loop and returns at once;
// each state has a deadline, each buffer a limit. What an idle connection holds is this struct and its TLS stream,
// no buffers. It must not look into a request beyond its length: that is server_request.c.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "lake/server_private.h"

static const uint64_t HEAD_NS = 10 * SERVER_S;
static const uint64_t BODY_NS = 20 * SERVER_S;
static const uint64_t BODY_BYTES_PER_S = 32 * 1024; // slower than this is no agent
static const uint64_t WRITE_NS = 30 * SERVER_S;
static const uint64_t LINGER_NS = 2 * SERVER_S;
enum { READ_ROUNDS = 8, LINGER_MAX = 1 << 20 };

static void connection_event(void *context, int fd, uint32_t epoll_events);

static void deadline_set(struct connection *connection, uint64_t after_ns)
{
	connection->deadline_ns = clock_boot_ns() + after_ns;
}

static void address_take(struct connection *connection, const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6) {
		memcpy(connection->address, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
	} else {
		connection->address[10] = connection->address[11] = 0xff;
		memcpy(connection->address + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
	}
}

int connection_new(struct server *server, int fd, bool tls, const struct sockaddr *address)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	int result = connection ? 0 : -ENOMEM;

	if (!connection)
		return result;
	connection->server = server;
	connection->fd = fd;
	connection->state = tls ? CONNECTION_HANDSHAKE : CONNECTION_HEAD;
	address_take(connection, address);
	if (tls)
		result = tls_stream_new(server->tls, fd, &connection->tls);
	if (!result)
		result = loop_add_fd(server->loop, fd, EPOLLIN, connection_event, connection);
	if (result < 0) {
		tls_stream_free(connection->tls);
		free(connection);
		return result;
	}
	connection->events = EPOLLIN;
	deadline_set(connection, HEAD_NS);
	connection->next = server->connections;
	if (connection->next)
		connection->next->previous = connection;
	server->connections = connection;
	server->connection_count++;
	server->counts.connections_total++;
	server->counts.handshakes += tls;
	return 0;
}

// The reply is the loop's to free, unless somebody else still writes it.
static void reply_leave(struct connection *connection)
{
	struct server_reply *reply = connection->reply;

	connection->reply = NULL;
	if (!reply)
		return;
	reply->connection = NULL;
	if (reply->in_streams)
		server_stream_remove(reply->server, reply);
	pthread_mutex_lock(&reply->lock);
	__atomic_store_n(&reply->gone, true, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&reply->space);
	pthread_mutex_unlock(&reply->lock);
	if (!reply->with_worker)
		reply_free(reply);
}

void connection_free(struct connection *connection)
{
	struct server *server = connection->server;

	reply_leave(connection);
	loop_remove_fd(server->loop, connection->fd);
	tls_stream_free(connection->tls);
	close(connection->fd);
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next)
		connection->next->previous = connection->previous;
	server->connection_count--;
	buf_free(&connection->in);
	buf_free(&connection->out);
	free(connection);
}

static void events_settle(struct connection *connection)
{
	uint32_t events = EPOLLIN;

	// No more requests until this one is answered; but a client that hangs up is noticed.
	if (connection->state == CONNECTION_ANSWER)
		events = connection->half_closed ? 0 : EPOLLRDHUP;
	if (connection->out_sent < connection->out.length ||
	    (connection->tls && tls_stream_wants_write(connection->tls)))
		events |= EPOLLOUT;
	if (events == connection->events)
		return;
	connection->events = events;
	loop_change_fd(connection->server->loop, connection->fd, events);
}

// ---- bytes -------------------------------------------------------------------------------------

static ssize_t bytes_read(struct connection *connection, void *data, size_t size)
{
	ssize_t got;

	if (connection->tls)
		return tls_stream_read(connection->tls, data, size);
	got = recv(connection->fd, data, size, 0);
	if (got >= 0)
		return got;
	return errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t bytes_write(struct connection *connection, const void *data, size_t size)
{
	ssize_t sent;

	if (connection->tls)
		return tls_stream_write(connection->tls, data, size);
	sent = send(connection->fd, data, size, MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	return errno == EINTR ? -EAGAIN : -errno;
}

// False: the connection is gone.
static bool out_flush(struct connection *connection)
{
	while (connection->out_sent < connection->out.length) {
		ssize_t sent = bytes_write(connection, connection->out.data + connection->out_sent,
					   connection->out.length - connection->out_sent);

		if (sent == -EAGAIN)
			return true;
		if (sent < 0) {
			connection_free(connection);
			return false;
		}
		connection->out_sent += (size_t)sent;
		deadline_set(connection, WRITE_NS);
	}
	buf_reset(&connection->out);
	connection->out_sent = 0;
	return true;
}

// ---- answering ---------------------------------------------------------------------------------

// Takes what the answer has for us, and leaves the buffer that was sent for more. True when it is all there.
static bool pending_take(struct connection *connection, struct server_reply *reply)
{
	struct buf sent = connection->out;
	bool whole;

	pthread_mutex_lock(&reply->lock);
	if (!connection->out.length && reply->pending.length) {
		connection->out = reply->pending;
		reply->pending = sent;
		pthread_cond_signal(&reply->space);
	}
	whole = !reply->with_worker && reply->finished && !reply->pending.length;
	pthread_mutex_unlock(&reply->lock);
	return whole;
}

static bool pending_there(struct server_reply *reply)
{
	bool there;

	pthread_mutex_lock(&reply->lock);
	there = reply->pending.length > 0;
	pthread_mutex_unlock(&reply->lock);
	return there;
}

static void linger_begin(struct connection *connection)
{
	connection->state = CONNECTION_LINGER;
	deadline_set(connection, LINGER_NS);
	if (connection->tls)
		tls_stream_close(connection->tls);
	shutdown(connection->fd, SHUT_WR);
}

static void request_end(struct connection *connection)
{
	struct server_reply *reply = connection->reply;
	struct server *server = connection->server;
	int hundreds = reply->status / 100;
	bool close_it =
		reply->cut || reply->error || !reply->http.keep_alive || connection->half_closed || server->stopping;

	server->counts.status[hundreds >= 1 && hundreds <= 5 ? hundreds : 0]++;
	connection->reply = NULL;
	reply_free(reply);
	buf_free(&connection->out);
	if (close_it) {
		linger_begin(connection);
		return;
	}
	connection->state = CONNECTION_HEAD;
	deadline_set(connection, connection->in.length ? HEAD_NS : server->options.idle_ns);
}

enum turn {
	TURN_AGAIN, // something moved
	TURN_WAIT, // for the client or a worker
	TURN_GONE, // the connection was freed
};

static enum turn answer_turn(struct connection *connection)
{
	struct server_reply *reply = connection->reply;
	bool whole = pending_take(connection, reply);

	if (!out_flush(connection))
		return TURN_GONE;
	if (connection->out.length)
		return TURN_WAIT;
	// A stream may be silent for long, and holds nothing meanwhile.
	if (reply->is_stream)
		buf_free(&connection->out);
	if (whole) {
		request_end(connection);
		return TURN_AGAIN;
	}
	// What came while the last part went out was announced then, and is not announced again.
	return pending_there(reply) ? TURN_AGAIN : TURN_WAIT;
}

// ---- reading -----------------------------------------------------------------------------------

// Moves body bytes that came with the head, or after it, to the request.
static void body_take(struct connection *connection)
{
	struct server_reply *reply = connection->reply;
	size_t missing = (size_t)reply->http.content_length - reply->body.length;
	size_t take = connection->in.length < missing ? connection->in.length : missing;

	if (take) {
		buf_append(&reply->body, connection->in.data, take);
		connection->in.length -= take;
		memmove(connection->in.data, connection->in.data + take, connection->in.length);
	}
}

void connection_await_body(struct connection *connection)
{
	struct server_reply *reply = connection->reply;
	uint64_t length = reply->http.content_length;

	connection->state = CONNECTION_BODY;
	deadline_set(connection, BODY_NS + length / BODY_BYTES_PER_S * SERVER_S);
	if (length && reply->http.expect_continue && connection->in.length == 0)
		buf_append_string(&connection->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

// The first buffer of a body is no larger than what has come, so that announcing one costs nothing.
static bool body_append(struct connection *connection, const char *data, size_t length, size_t *ret_used)
{
	struct server_reply *reply = connection->reply;
	size_t missing = (size_t)reply->http.content_length - reply->body.length;

	*ret_used = length < missing ? length : missing;
	buf_append(&reply->body, data, *ret_used);
	connection->server->counts.body_bytes += *ret_used;
	return buf_error(&reply->body) == 0;
}

static void answer_here(struct connection *connection, int status, const char *code, const char *text)
{
	struct server_reply *reply = connection->reply;

	reply->cut = true;
	server_reply_error(reply, status, code, "%s", text);
	reply_end(reply);
	connection->state = CONNECTION_ANSWER;
}

// Without a request yet there is no reply to answer with: one is made.
static void answer_headless(struct connection *connection, int status, const char *code, const char *text)
{
	struct server_reply *reply = reply_new(connection->server);

	if (!reply) {
		linger_begin(connection);
		return;
	}
	reply->connection = connection;
	connection->reply = reply;
	answer_here(connection, status, code, text);
}

static bool bytes_take(struct connection *connection, const char *data, size_t length)
{
	size_t used = 0;

	if (connection->state == CONNECTION_BODY && !body_append(connection, data, length, &used)) {
		answer_here(connection, 503, "memory", "out of memory");
		return false;
	}
	if (connection->state == CONNECTION_DISCARD) {
		used = length < connection->discard ? length : (size_t)connection->discard;
		connection->discard -= used;
		if (!connection->discard)
			connection->state = CONNECTION_ANSWER;
	}
	if (connection->state == CONNECTION_HEAD && connection->in.length == 0)
		deadline_set(connection, HEAD_NS);
	buf_append(&connection->in, data + used, length - used);
	return buf_error(&connection->in) == 0;
}

static enum turn head_turn(struct connection *connection)
{
	size_t length = connection->in.length, head = 0;

	if (length)
		head = http_head_length(connection->in.data, length, &connection->scanned);
	if (head > HTTP_HEAD_MAX || (!head && length > HTTP_HEAD_MAX)) {
		connection->server->counts.bad_requests++;
		answer_headless(connection, 431, "head", "the request's head is longer than 16384 bytes");
		return TURN_AGAIN;
	}
	if (!head)
		return TURN_WAIT;
	request_begin(connection, head);
	return TURN_AGAIN;
}

static enum turn body_turn(struct connection *connection)
{
	if (!out_flush(connection))
		return TURN_GONE;
	body_take(connection);
	if (connection->reply->body.length < connection->reply->http.content_length)
		return TURN_WAIT;
	request_dispatch(connection);
	return TURN_AGAIN;
}

// With what has come already.
static enum turn turn(struct connection *connection)
{
	switch (connection->state) {
	case CONNECTION_HEAD:
		return head_turn(connection);
	case CONNECTION_BODY:
		return body_turn(connection);
	case CONNECTION_ANSWER:
		return answer_turn(connection);
	default:
		return TURN_WAIT;
	}
}

static enum turn read_turn(struct connection *connection)
{
	struct server *server = connection->server;
	ssize_t got = bytes_read(connection, server->scratch, sizeof(server->scratch));

	if (got == -EAGAIN)
		return TURN_WAIT;
	if (got > 0 && connection->state == CONNECTION_LINGER)
		connection->lingered += (uint64_t)got;
	// A request that was not sent whole is nobody's.
	if (got <= 0 || connection->lingered > LINGER_MAX) {
		connection_free(connection);
		return TURN_GONE;
	}
	if (connection->state == CONNECTION_LINGER || bytes_take(connection, server->scratch, (size_t)got) ||
	    connection->state == CONNECTION_ANSWER)
		return TURN_AGAIN;
	connection_free(connection);
	return TURN_GONE;
}

// Goes on as far as what has been received allows, then reads a bounded amount more. A TLS stream may hold bytes
// that the descriptor no longer shows, so it is read until it has none.
void connection_advance(struct connection *connection)
{
	for (int reads = 0;;) {
		enum turn result = turn(connection);

		if (result == TURN_AGAIN)
			continue;
		if (result == TURN_GONE)
			return;
		if (connection->state == CONNECTION_ANSWER)
			break;
		if (reads++ >= READ_ROUNDS && !(connection->tls && tls_stream_pending(connection->tls)))
			break;
		result = read_turn(connection);
		if (result == TURN_GONE)
			return;
		if (result == TURN_WAIT)
			break;
	}
	if (connection->state == CONNECTION_HEAD && connection->in.length == 0)
		buf_free(&connection->in);
	events_settle(connection);
}

static void handshake(struct connection *connection)
{
	int result = tls_stream_handshake(connection->tls);

	if (result == 0) {
		connection->state = CONNECTION_HEAD;
		connection_advance(connection);
	} else if (result == -EAGAIN) {
		events_settle(connection);
	} else {
		connection->server->counts.handshakes_failed++;
		connection_free(connection);
	}
}

static void connection_event(void *context, int fd, uint32_t epoll_events)
{
	struct connection *connection = context;

	(void)fd;
	if (connection->state == CONNECTION_HANDSHAKE) {
		handshake(connection);
		return;
	}
	if (epoll_events & (EPOLLERR | EPOLLHUP) && connection->state == CONNECTION_ANSWER) {
		connection_free(connection);
		return;
	}
	if (epoll_events & EPOLLRDHUP && connection->state == CONNECTION_ANSWER) {
		// Some send, say that they are done sending, and wait for the answer. A stream has no such end.
		if (connection->reply && connection->reply->is_stream) {
			connection_free(connection);
			return;
		}
		connection->half_closed = true;
	}
	connection_advance(connection);
}

void connection_expire(struct connection *connection, uint64_t now_ns)
{
	bool waiting = connection->state == CONNECTION_ANSWER && connection->out_sent >= connection->out.length;

	// While a worker is at it, it is ours to be slow.
	if (now_ns < connection->deadline_ns || waiting)
		return;
	connection->server->counts.timeouts += connection->state != CONNECTION_LINGER;
	if (connection->state == CONNECTION_BODY) {
		answer_here(connection, 408, "timeout", "the body came too slowly");
		connection_advance(connection);
	} else if (connection->state == CONNECTION_HEAD && connection->in.length) {
		answer_headless(connection, 408, "timeout", "the request's head came too slowly");
		connection_advance(connection);
	} else {
		connection_free(connection);
	}
}
