// SPDX-License-Identifier: Apache-2.0
// The datalake's HTTP server as the rooms behind it see it: a table of routes, what a handler is given and how it
// answers. One thread (the event loop) owns every connection and never waits; handlers run on a small pool of readers
// and may wait for the store. A handler keeps nothing of the request or reply after it has returned.
//
//	static void runs_get(void *context, const struct server_request *request, struct server_reply *reply)
//	{
//		const char *limit = server_query_value(request, "limit");
//		...
//		server_reply_begin(reply, 200, "application/json");
//		server_reply_write(reply, text.data, text.length);
//	}
//	static const struct server_route routes[] = {
//		{ .method = "GET", .pattern = "/api/v1/runs/{run}", .role = TOKEN_READ, .handler = runs_get },
//		{ 0 },
//	};
//	server_add_routes(server, routes, store);
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lake/token.h"

struct server;
struct server_reply;

struct server_pair {
	const char *name, *value; // decoded, UTF-8, without control characters
};

// Valid until the handler returns (of a submitted request: until server_reply_finish()).
struct server_request {
	const char *method; // "GET" for HEAD too: the server leaves the body out
	const char *path; // decoded, without the query
	const struct server_pair *path_values; // what stood for {name} in the pattern
	size_t path_value_count;
	const struct server_pair *query; // in order; a name may come twice
	size_t query_count;
	const struct server_pair *headers; // names in lower case
	size_t header_count;
	const char *body; // whole, a NUL behind it; "" without one
	size_t body_length;
	enum token_role role;
	// The one workspace this caller may see; NULL: an administrator's token of all of them. A handler must put it
	// into every question it asks the store.
	const char *workspace;
	const char *host_id; // of an agent's token, else NULL
	const char *token_id; // public part; "" for a session or none
};

// NULL when it is not there; of several the first.
const char *server_query_value(const struct server_request *request, const char *name);
const char *server_path_value(const struct server_request *request, const char *name);
const char *server_header(const struct server_request *request, const char *name);

// ---- routes --------------------------------------------------------------------------------------------------

typedef void server_handler_fn(void *context, const struct server_request *request, struct server_reply *reply);

// Called in the loop before a body is read: 0, or the answer was written to reply (pressure, limits). Must not wait.
typedef int server_admit_fn(void *context, const struct server_request *request, struct server_reply *reply);

// Called in the loop with a whole request; another thread answers and calls server_reply_finish(). -EAGAIN: no room,
// the client gets 429. Must not wait.
typedef int server_submit_fn(void *context, const struct server_request *request, struct server_reply *reply);

struct server_route {
	const char *method; // NULL ends a table; GET answers HEAD too
	const char *pattern; // "/api/v1/runs/{run}": {name} stands for one part that is not empty
	enum token_role role; // least role, see token_role_allows(); TOKEN_NONE: anyone
	size_t body_max; // 0: no body
	bool slow; // may keep a reader for seconds: only half of them take such at once, and few of them wait
	server_handler_fn *handler; // on a reader, or
	server_submit_fn *submit; // elsewhere
	server_admit_fn *admit; // may be NULL
};

// Before server_start(). The table and context stay the caller's and must outlive the server. -EEXIST: method and
// pattern are taken; -EINVAL: neither handler nor submit.
int server_add_routes(struct server *server, const struct server_route *routes, void *context);

// ---- answers -------------------------------------------------------------------------------------------------
// All return 0 or -errno; -EPIPE when the client is gone or too slow: the handler should stop. Errors are sticky, so a
// handler may look only at the end. Memory is bounded: a write waits (at most 30 s without progress) while the client
// has more than 256 KiB to take.

// Status and content type, once and before the first write. Without it the answer is 200 application/json.
int server_reply_begin(struct server_reply *reply, int status, const char *content_type);
// A further header, before the first write. Name and value without control characters (-EINVAL).
int server_reply_header(struct server_reply *reply, const char *name, const char *value);
int server_reply_write(struct server_reply *reply, const void *data, size_t length);
__attribute__((format(printf, 2, 3))) int server_reply_printf(struct server_reply *reply, const char *format, ...);

// {"error":"text","code":"code"} in place of everything written before, when nothing of it is out yet; else the
// connection is cut, so that a half answer cannot be taken for a whole one (-EPIPE).
__attribute__((format(printf, 4, 5))) int server_reply_error(struct server_reply *reply, int status, const char *code,
							     const char *format, ...);

// A further number in the object of server_reply_error(), right after it.
int server_reply_add(struct server_reply *reply, const char *name, uint64_t value);

// For long work: the client hung up.
bool server_reply_gone(const struct server_reply *reply);

// Of a submitted request: ends the answer; the reply and request are gone with the call. A handler's return does it.
void server_reply_finish(struct server_reply *reply);

// ---- server-sent events --------------------------------------------------------------------------------------

// Called on a reader after server_notify() and at least every second while the client is there: writes what is new with
// server_reply_event(), and keeps where it is in state. 0 to go on; anything else ends the stream.
typedef int server_events_fn(void *state, struct server_reply *reply);

// Turns the answer into a stream of events; state is released with release() in the end, whatever happens, this call
// failing included. -EBUSY: as many streams as there may be (64): the client got 503.
int server_reply_events(struct server_reply *reply, server_events_fn *events, void *state,
			void (*release)(void *state));

// One event. id and name may be NULL; data is one line or several, without NUL.
int server_reply_event(struct server_reply *reply, const char *id, const char *name, const char *data, size_t length);

// Bytes of all bodies that were let in and are not answered yet, whether they have come or not. In admit() only.
size_t server_bodies_bytes(const struct server *server);

// Something new is in the store. From any thread; cheap.
void server_notify(struct server *server);

// ---- the server itself ---------------------------------------------------------------------------------------

struct loop;
struct certificate;
struct tokens;

struct server_options {
	struct loop *loop; // borrowed, as all of these
	const char *const *hosts; // further names that stand in Host:, NULL-terminated; may be NULL
	unsigned int readers; // threads
	unsigned int connections_max;
	uint64_t idle_ns; // a connection without a request is closed after this
};

struct server_counts {
	uint64_t connections, connections_total, refused, handshakes, handshakes_failed, requests, streams;
	uint64_t bad_requests, unauthorized, timeouts, body_bytes;
	uint64_t status[6]; // answers by hundreds: [2] is 2xx
};

int server_new(const struct server_options *options, struct server **ret_server);

// Before server_start(): what needs the rights of the user the server then runs as. tokens is borrowed.
void server_set_tokens(struct server *server, struct tokens *tokens);

// Listens on ADDRESS:PORT ([ADDRESS]:PORT; port 0: any). tls false is refused anywhere but on loopback (-EPERM).
// -EINVAL: no address. ret_port may be NULL.
int server_listen(struct server *server, const char *address, bool tls, uint16_t *ret_port);

// The port of the index-th server_listen(), 0 behind the last.
uint16_t server_port(const struct server *server, size_t index, bool *ret_tls);

// False for what is no address.
bool server_address_is_loopback(const char *address);

// Before server_start(), borrowed. client_ca: PEM text; only clients with a certificate of it may then connect by TLS.
// NULL: anyone.
void server_set_certificate(struct server *server, const struct certificate *certificate, const char *client_ca);

// Takes the certificate as it is now for connections yet to come. On failure the old one stays.
int server_renew_certificate(struct server *server);

// Takes connections from now on, in the loop, and starts the readers. -ENOENT: TLS without a certificate; -EINVAL: with
// one that is of no use.
int server_start(struct server *server);

// Takes no new requests, lets those at work end for at most wait_ns, then closes. Takes NULL.
void server_stop(struct server *server, uint64_t wait_ns);
void server_free(struct server *server);

void server_counts(const struct server *server, struct server_counts *ret_counts);
