// SPDX-License-Identifier: Apache-2.0
// The API on the server: routes, a reader of the store for each thread that answers, and the live tail.
#pragma once

#include "lake/server.h"
#include "lake/store.h"

struct api_routes;

// Opens readers (as many as the server has reader threads) and adds the routes; before server_start(). Both are
// borrowed and must outlive it; so must ret_routes outlive the server. 0 or -errno.
int api_routes_new(struct store *store, struct server *server, unsigned int readers,
		   struct api_routes **ret_routes, struct store_error *error);
void api_routes_free(struct api_routes *routes); // after server_free(); takes NULL

// --- for the files of the API ------------------------------------------------------------------------------------

// A reader for this thread's use; waits for one.
struct store_reader *api_reader_take(struct api_routes *routes);
void api_reader_give(struct api_routes *routes, struct store_reader *reader);

void api_tail(void *routes, const struct server_request *request,
	      struct server_reply *reply); // lake/api_tail.c
