// SPDX-License-Identifier: Apache-2.0
// A request whose head is whole: which route it means, who sends it, whether its body may come at all. What is
// refused is refused here, before a byte of the body takes memory. Bodies are announced (Content-Length), and all
// that are announced together have a limit.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "lake/server_private.h"

// ---- routes ------------------------------------------------------------------------------------

int server_add_routes(struct server *server, const struct server_route *routes, void *context)
{
	for (; routes->method; routes++) {
		struct route_entry *entry, **end = &server->routes;

		if (!routes->handler == !routes->submit)
			return -EINVAL;
		for (; *end; end = &(*end)->next)
			if (!strcmp((*end)->route->method, routes->method) &&
			    !strcmp((*end)->route->pattern, routes->pattern))
				return -EEXIST;
		entry = malloc(sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		*entry = (struct route_entry){.route = routes, .context = context};
		*end = entry;
	}
	return 0;
}

// Compares a path with a pattern, and counts what stands for {name}. With values set, cuts them out of path.
static bool pattern_match(const char *pattern, const char *path, struct server_reply *reply)
{
	size_t count = 0;

	while (*pattern) {
		if (*pattern == '{') {
			size_t part = strcspn(path, "/");

			if (part == 0 || count == SERVER_PATH_VALUES_MAX)
				return false;
			if (reply)
				reply->path_values[count] = (struct server_pair){pattern + 1, path};
			count++;
			path += part;
			pattern += strcspn(pattern, "}") + 1;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	if (reply)
		reply->request.path_value_count = count;
	return *path == 0;
}

// The values, still within path and pattern, become texts of their own behind the head.
static int path_values_copy(struct server_reply *reply)
{
	size_t count = reply->request.path_value_count;

	for (size_t i = 0; i < count; i++) {
		struct server_pair *pair = &reply->path_values[i];
		size_t name = strcspn(pair->name, "}"), value = strcspn(pair->value, "/");

		pair->name = strndup(pair->name, name);
		pair->value = strndup(pair->value, value);
		if (!pair->name || !pair->value) {
			// What was not copied yet is not ours to free.
			if (!pair->name)
				pair->value = NULL;
			reply->request.path_value_count = i;
			free((char *)(uintptr_t)pair->name);
			free((char *)(uintptr_t)pair->value);
			return -ENOMEM;
		}
	}
	return 0;
}

static const struct route_entry *route_find(struct server_reply *reply, bool *ret_other_method)
{
	const char *method = strcmp(reply->http.method, "HEAD") ? reply->http.method : "GET";

	*ret_other_method = false;
	for (const struct route_entry *entry = reply->server->routes; entry; entry = entry->next) {
		if (!pattern_match(entry->route->pattern, reply->http.path, NULL))
			continue;
		if (!strcmp(entry->route->method, method)) {
			pattern_match(entry->route->pattern, reply->http.path, reply);
			return entry;
		}
		*ret_other_method = true;
	}
	return NULL;
}

// ---- judging -------------------------------------------------------------------------------------

static void request_fill(struct server_reply *reply)
{
	struct server_request *request = &reply->request;
	const struct http_request *http = &reply->http;

	request->method = strcmp(http->method, "HEAD") ? http->method : "GET";
	request->path = http->path;
	for (size_t i = 0; i < http->query_count; i++)
		reply->query[i] = (struct server_pair){http->query[i].name, http->query[i].value};
	for (size_t i = 0; i < http->header_count; i++)
		reply->headers[i] = (struct server_pair){http->headers[i].name, http->headers[i].value};
	request->query = reply->query;
	request->query_count = http->query_count;
	request->headers = reply->headers;
	request->header_count = http->header_count;
	request->path_values = reply->path_values;
}

// 0: go on. 1: answered.
static int request_route(struct connection *connection, struct server_reply *reply)
{
	bool other_method;
	const struct route_entry *entry = route_find(reply, &other_method);

	// Who may not even ask is not told which paths there are.
	if (!entry && !auth_allow(connection, reply, other_method ? TOKEN_NONE : TOKEN_READ))
		return 1;
	if (!entry && other_method)
		return server_reply_error(reply, 405, "method", "this path does not take this method"), 1;
	if (!entry)
		return server_reply_error(reply, 404, "path", "there is nothing at this path"), 1;
	reply->route = entry->route;
	reply->route_context = entry->context;
	if (path_values_copy(reply) < 0)
		return server_reply_error(reply, 503, "memory", "out of memory"), 1;
	return auth_allow(connection, reply, reply->route->role) ? 0 : 1;
}

static int request_body(struct server_reply *reply)
{
	struct server *server = reply->server;
	uint64_t length = reply->http.content_length;

	if (!http_header(&reply->http, "content-length") && reply->route->body_max &&
	    strcmp(reply->request.method, "GET") != 0)
		return server_reply_error(reply, 411, "length", "send a Content-Length"), 1;
	if (length > reply->route->body_max)
		return server_reply_error(reply, 413, "too_large", "the body may have at most %zu bytes",
					  reply->route->body_max),
		       1;
	if (server->bodies_reserved + length > SERVER_BODIES_MAX) {
		server_reply_header(reply, "Retry-After", "5");
		return server_reply_error(reply, 429, "busy", "too many requests are on their way; try again soon"), 1;
	}
	if (reply->route->admit && reply->route->admit(reply->route_context, &reply->request, reply) != 0)
		return 1;
	server->bodies_reserved += length;
	reply->body_reserved = length;
	return 0;
}

static void request_refused(struct connection *connection, struct server_reply *reply)
{
	uint64_t length = reply->http.content_length, have = connection->in.length;

	// Whoever waits for a "100 Continue" may send the body or not: what comes next cannot be told.
	if (reply->cut || reply->http.expect_continue || length > SERVER_DISCARD_MAX) {
		reply->cut = true;
		connection->state = CONNECTION_ANSWER;
		return;
	}
	connection->discard = length > have ? length - have : 0;
	have = length < have ? length : have;
	if (have) {
		connection->in.length -= have;
		memmove(connection->in.data, connection->in.data + have, connection->in.length);
	}
	connection->state = connection->discard ? CONNECTION_DISCARD : CONNECTION_ANSWER;
}

// Takes the head's bytes off what was received.
static int head_take(struct connection *connection, struct server_reply *reply, size_t length)
{
	reply->head = malloc(length + 1);
	if (!reply->head)
		return -ENOMEM;
	memcpy(reply->head, connection->in.data, length);
	reply->head[length] = 0;
	connection->in.length -= length;
	memmove(connection->in.data, connection->in.data + length, connection->in.length);
	connection->scanned = 0;
	return 0;
}

void request_begin(struct connection *connection, size_t head_length)
{
	struct server *server = connection->server;
	struct server_reply *reply = reply_new(server);
	const char *why = "";
	int status;

	if (!reply || head_take(connection, reply, head_length) < 0) {
		reply_free(reply);
		connection->state = CONNECTION_LINGER;
		return;
	}
	reply->connection = connection;
	reply->tls = connection->tls != NULL;
	connection->reply = reply;
	server->counts.requests++;
	status = http_parse(reply->head, head_length, &reply->http, &why);
	if (status) {
		// After a head that was not understood, nothing that follows can be.
		server->counts.bad_requests++;
		reply->cut = true;
		reply->http.method = NULL;
		server_reply_error(reply, status, "request", "%s", why);
		connection->state = CONNECTION_ANSWER;
		reply_end(reply);
		return;
	}
	request_fill(reply);
	if (server->stopping)
		reply->cut = true;
	if (request_route(connection, reply) || request_body(reply)) {
		request_refused(connection, reply);
		reply_end(reply);
		return;
	}
	connection_await_body(connection);
}

void request_dispatch(struct connection *connection)
{
	struct server_reply *reply = connection->reply;
	int result;

	connection->state = CONNECTION_ANSWER;
	if (reply->body.data) {
		reply->request.body = reply->body.data;
		reply->request.body_length = reply->body.length;
	}
	reply->with_worker = true;
	connection->server->working++;
	result = reply->route->handler ? readers_submit(connection->server, reply)
				       : reply->route->submit(reply->route_context, &reply->request, reply);
	if (result == 0)
		return;
	reply->with_worker = false;
	connection->server->working--;
	server_reply_header(reply, "Retry-After", "2");
	server_reply_error(reply, 429, "busy", "more requests are waiting than there may be; try again soon");
	reply_end(reply);
}
