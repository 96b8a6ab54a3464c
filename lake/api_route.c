// SPDX-License-Identifier: Apache-2.0
// API, bound to the server: a request becomes a question, the answer goes out in chunks as it is made. Handlers run on
// the server's reader threads; each takes one of the store's readers while it works.

#include "lake/api_route.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/api.h"

enum {
	API_READERS_MAX = 64,
	API_BODY_MAX = 128 * 1024,
	API_ARENA_BLOCK = 16 * 1024,
	API_ROUTES_MAX = 2 * ENTITY_END + 5
};

struct api_routes {
	pthread_mutex_t lock;
	pthread_cond_t given;
	struct store_reader *readers[API_READERS_MAX]; // not in use
	unsigned int count;
	unsigned int route_count;
	struct server_route table[API_ROUTES_MAX + 1]; // ends with a NULL method
	char patterns[API_ROUTES_MAX][48];
};

struct store_reader *api_reader_take(struct api_routes *routes)
{
	struct store_reader *reader;

	pthread_mutex_lock(&routes->lock);
	while (routes->count == 0)
		pthread_cond_wait(&routes->given, &routes->lock);
	reader = routes->readers[--routes->count];
	pthread_mutex_unlock(&routes->lock);
	return reader;
}

void api_reader_give(struct api_routes *routes, struct store_reader *reader)
{
	pthread_mutex_lock(&routes->lock);
	routes->readers[routes->count++] = reader;
	pthread_cond_signal(&routes->given);
	pthread_mutex_unlock(&routes->lock);
}

// --- the answer's way out ----------------------------------------------------------------------------------------

static int route_begin(void *data, int status, const char *content_type, const char *next)
{
	struct server_reply *reply = data;
	int error = server_reply_begin(reply, status, content_type);

	if (error == 0)
		error = server_reply_header(reply, "Cache-Control", "no-store");
	if (error == 0 && next)
		error = server_reply_header(reply, "Tracer-Next", next);
	return error;
}

static int route_write(void *data, const char *bytes, size_t length)
{
	return server_reply_write(data, bytes, length);
}

static void route_cut(void *data)
{
	server_reply_error(data, 500, "cut", "the answer could not be finished");
}

static void route_handle(void *context, const struct server_request *request, struct server_reply *reply)
{
	CLEANUP(arena_free) struct arena arena;
	struct query_parameters parameters = {.arena = &arena};
	const struct api_sink sink = {route_begin, route_write, route_cut, reply};
	struct api_request question = {
		.method = request->method,
		.path = request->path,
		.accept = server_header(request, "accept"),
		.body = request->body,
		.body_length = request->body_length,
		.workspace = request->workspace,
		.parameters = &parameters,
		.now_ns = clock_real_ns(),
	};
	struct store_reader *reader;

	arena_init(&arena, API_ARENA_BLOCK);
	for (size_t i = 0; i < request->query_count; i++) {
		if (query_parameters_add(&parameters, request->query[i].name, request->query[i].value) < 0) {
			server_reply_error(reply, 400, "too_many_parameters", "at most %d parameters",
					   QUERY_PARAMETERS_MAX);
			return;
		}
	}
	reader = api_reader_take(context);
	api_answer(reader, &question, &sink);
	api_reader_give(context, reader);
}

// --- routes ------------------------------------------------------------------------------------------------------

static struct server_route *route_add(struct api_routes *routes, const char *name, const char *rest)
{
	unsigned int at = routes->route_count++;

	snprintf(routes->patterns[at], sizeof(routes->patterns[at]), "/api/v1/%s%s", name, rest);
	routes->table[at] = (struct server_route){
		.method = "GET",
		.pattern = routes->patterns[at],
		.role = TOKEN_READ,
		.handler = route_handle,
	};
	return &routes->table[at];
}

// Two for each entity, and what is no entity.
static void route_fill(struct api_routes *routes)
{
	struct server_route *sql;

	for (int id = 0; id < ENTITY_END; id++) {
		route_add(routes, schema_entities[id].name, "");
		if (id != ENTITY_WORKSPACES)
			route_add(routes, schema_entities[id].name, "/{id}");
	}
	route_add(routes, "runs", "/{id}/tree");
	route_add(routes, "runs", "/{id}/export")->slow = true;
	route_add(routes, "points", "");
	route_add(routes, "schema", "");
	route_add(routes, "tail", "")->handler = api_tail;
	sql = route_add(routes, "sql", "");
	sql->method = "POST";
	sql->body_max = API_BODY_MAX;
	sql->slow = true;
}

int api_routes_new(struct store *store, struct server *server, unsigned int readers, struct api_routes **ret_routes,
		   struct store_error *error)
{
	struct api_routes *routes = calloc(1, sizeof(*routes));
	int result = routes ? 0 : -ENOMEM;

	if (!routes)
		return result;
	pthread_mutex_init(&routes->lock, NULL);
	pthread_cond_init(&routes->given, NULL);
	route_fill(routes);
	readers = readers == 0 ? 1 : readers > API_READERS_MAX ? API_READERS_MAX : readers;
	while (result == 0 && routes->count < readers) {
		result = store_reader_open(store, &routes->readers[routes->count], error);
		routes->count += result == 0;
	}
	if (result == 0)
		result = server_add_routes(server, routes->table, routes);
	if (result < 0) {
		api_routes_free(routes);
		return result;
	}
	*ret_routes = routes;
	return 0;
}

void api_routes_free(struct api_routes *routes)
{
	if (!routes)
		return;
	while (routes->count > 0)
		store_reader_close(routes->readers[--routes->count]);
	pthread_cond_destroy(&routes->given);
	pthread_mutex_destroy(&routes->lock);
	free(routes);
}
