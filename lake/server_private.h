// SPDX-License-Identifier: Apache-2.0
// Between the files of the server. Nobody else includes it.
//
//	server.c             listeners, the ready queue, timers, start and stop
//	server_connection.c  one connection: its states, reading, writing, deadlines
//	server_request.c     a whole head: route, who it is, whether its body may come
//	server_auth.c        tokens, sessions, the Host and Origin checks, limits on failures
//	server_reply.c       the answer, as handlers write it on their own threads
//	server_reader.c      the pool of readers
//
// A server_reply is always in one place: with the loop, or with another thread (with_worker). The loop frees it, and
// only while it has it. What both touch is under its lock.
#pragma once

#include <netinet/in.h>
#include <pthread.h>

#include "core/base/buf.h"
#include "core/base/loop.h"
#include "lake/http.h"
#include "lake/server.h"
#include "lake/server_tls.h"
#include "lake/session.h"

#define SERVER_S UINT64_C(1000000000)

enum {
	SERVER_PATH_VALUES_MAX = 4,
	SERVER_LISTENERS_MAX = 8,
	SERVER_STREAMS_MAX = 64,
	SERVER_JOBS_MAX = 256,
	SERVER_SLOW_JOBS_MAX = 32, // of slow routes
	SERVER_PENDING_MAX = 256 << 10, // of an answer, made and not yet taken
	SERVER_DISCARD_MAX = 1 << 20, // of a refused body, so that the connection can be kept
	SERVER_BODIES_MAX = 192 << 20, // of all bodies announced and not yet answered
};

struct server_reply {
	struct server *server;
	struct server_request request;
	struct http_request http;
	struct token token; // what request.workspace and others point to
	char *head; // what http points into
	struct server_pair headers[HTTP_HEADERS_MAX], query[HTTP_QUERY_MAX];
	struct server_pair path_values[SERVER_PATH_VALUES_MAX];
	const struct server_route *route;
	void *route_context;
	struct buf body;
	size_t body_reserved;
	bool tls;

	// the loop's
	struct connection *connection; // NULL: it is gone
	bool with_worker;
	struct server_reply *next_stream;
	bool is_stream, in_streams;
	uint64_t stream_due_ns, stream_spoke_ns;

	// the queues'
	struct server_reply *next_job, *next_ready;

	// both
	pthread_mutex_t lock;
	pthread_cond_t space;
	struct buf pending; // to be sent
	bool gone;
	bool ready_queued, returned; // under the server's ready_lock

	// whoever answers
	int status;
	struct buf answer_headers, answer; // answer: until it is large enough to begin chunks
	char content_type[96];
	uint64_t put_bytes, waited_ns; // of it, and for the client to take it
	bool started; // some of it is out
	bool finished; // nothing more may be written
	bool cut; // the connection must be closed, not kept
	int error;
	server_events_fn *events;
	void *events_state;
	void (*events_release)(void *state);
};

enum connection_state {
	CONNECTION_HANDSHAKE,
	CONNECTION_HEAD,
	CONNECTION_BODY,
	CONNECTION_DISCARD, // over the body of a refused request
	CONNECTION_ANSWER,
	CONNECTION_LINGER, // all said; so that the client reads it before it learns that we hung up
};

struct connection {
	struct connection *next, *previous;
	struct server *server;
	struct server_reply *reply; // the request at work
	struct tls_stream *tls; // NULL: plain
	int fd;
	enum connection_state state;
	uint32_t events;
	uint64_t deadline_ns;
	struct buf in; // received, not yet understood
	size_t scanned;
	struct buf out;
	size_t out_sent;
	uint64_t discard;
	uint64_t lingered;
	bool half_closed;
	unsigned char address[16]; // IPv6, or IPv4 mapped into it
};

struct listener {
	struct server *server;
	int fd;
	bool tls;
	uint16_t port;
};

struct route_entry {
	struct route_entry *next;
	const struct server_route *route;
	void *context;
};

struct jobs { // replies that wait for a reader
	struct server_reply *first, **end;
	size_t count;
};

struct server {
	struct server_options options;
	struct loop *loop;
	struct listener listeners[SERVER_LISTENERS_MAX];
	size_t listener_count;
	bool accept_paused;
	struct route_entry *routes;
	struct connection *connections;
	size_t connection_count;
	struct sessions *sessions;
	struct failures *failures;
	struct tokens *tokens;
	const struct certificate *certificate;
	const char *client_ca;
	struct tls_context *tls;
	size_t bodies_reserved;
	size_t working; // replies that are with a worker
	bool stopping;
	uint64_t stop_at_ns;
	struct loop_timer *timer;
	struct server_reply *streams;
	size_t stream_count; // atomic
	uint64_t sweep_ns;
	struct server_counts counts;
	char scratch[32 * 1024];

	// the ready queue: replies that have something for the loop
	int wake_fd;
	pthread_mutex_t ready_lock;
	struct server_reply *ready, **ready_end;
	bool notified; // atomic

	// the readers
	pthread_mutex_t jobs_lock;
	pthread_cond_t jobs_come;
	struct jobs quick, slow;
	size_t slow_running;
	bool jobs_stop;
	pthread_t *threads;
	size_t thread_count;
};

// server.c
// From any thread: there is something for the loop. returned: and nobody else has the reply any more.
void server_wake(struct server *server, struct server_reply *reply, bool returned);
void server_stream_add(struct server *server, struct server_reply *reply);
void server_stream_remove(struct server *server, struct server_reply *reply);

// server_connection.c
int connection_new(struct server *server, int fd, bool tls, const struct sockaddr *address);
void connection_free(struct connection *connection);
// Goes on with whatever can go on: sends what the reply has, begins the next request. May free the connection.
void connection_advance(struct connection *connection);
void connection_expire(struct connection *connection, uint64_t now_ns);
// From the request on: read the body, or over it, or answer now.
void connection_await_body(struct connection *connection);

// server_request.c: takes a whole head off connection->in. Sets the state and, with a request, the reply.
void request_begin(struct connection *connection, size_t head_length);
// The body is whole: hands the request to whoever answers.
void request_dispatch(struct connection *connection);

// server_auth.c
// True when the request may go on; else it was answered.
bool auth_allow(struct connection *connection, struct server_reply *reply, enum token_role needed);
struct failures *failures_new(void);
void failures_free(struct failures *failures);

// server_reply.c
struct server_reply *reply_new(struct server *server);
void reply_free(struct server_reply *reply); // takes NULL
// Ends what a handler wrote: head and body go to pending.
void reply_end(struct server_reply *reply);
// Of a stream: what was written so far goes out, and more will come.
void reply_flush(struct server_reply *reply);
// Hands the reply back to the loop. Nothing of it may be touched afterwards.
void reply_return(struct server_reply *reply);

// server_reader.c
int readers_start(struct server *server);
void readers_stop(struct server *server);
// -EAGAIN: the queue is full.
int readers_submit(struct server *server, struct server_reply *reply);
// NULL: there is none. Under the lock, or when no reader runs.
struct server_reply *jobs_take(struct jobs *jobs);
