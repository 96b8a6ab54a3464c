// SPDX-License-Identifier: Apache-2.0
// What the datalake tells of itself and of what it holds: GET /metrics for Prometheus. And the stitching of runs, as a
// task of the writer, whose counts are told there too.
#pragma once

#include "lake/ingest.h"
#include "lake/server.h"
#include "lake/store.h"

struct health;

// Opens a reader and adds the route and the task; before server_start() and ingest_start(). All three are borrowed.
// 0 or -errno.
int health_new(struct store *store, struct server *server, struct ingest *ingest, struct health **ret_health,
	       struct store_error *error);
// Whose counts are told too. May be NULL.
struct push;
void health_push(struct health *health, struct push *push);
void health_free(struct health *health); // after server_free() and ingest_stop(); takes NULL

// The latest trouble of stitching: true and a sentence when there was one since the last call.
bool health_trouble(struct health *health, char *text, size_t size);
