// SPDX-License-Identifier: Apache-2.0
// From a request to rows that are durable: threads that check and decode batches, and one that writes. A batch is
// acknowledged after the store has made it durable, never before; a refused one changes nothing.
#pragma once

#include <stdint.h>

#include "lake/server.h"
#include "lake/store.h"

struct ingest;

struct ingest_options {
	struct server *server; // borrowed, as are tokens and store
	struct tokens *tokens;
	struct store *store; // the writer thread's alone from ingest_start() to ingest_stop()
	unsigned int decoders; // threads
};

// Run by the writer thread between two writes, at least interval_ns apart. It may write and put; an error of its own is
// its own to tell. At most about 50 ms.
typedef void ingest_task_fn(void *context, struct store *store, uint64_t now_ns);

struct ingest_counts {
	uint64_t batches, records, bytes_encoded, bytes_decoded; // stored
	uint64_t refused, sequence, busy, store_errors;
	uint64_t commits; // group commits
	uint64_t waiting; // batches between their request and their answer
};

int ingest_new(const struct ingest_options *options, struct ingest **ret_ingest);

// Before ingest_start().
int ingest_add_task(struct ingest *ingest, ingest_task_fn *task, void *context, uint64_t interval_ns);

// Adds the routes of docs/wire.md (health, enrol, ingest) to the server and starts the threads.
int ingest_start(struct ingest *ingest);

// Answers what is at work, then ends the threads. Takes NULL.
void ingest_stop(struct ingest *ingest);
void ingest_free(struct ingest *ingest); // takes NULL; ingest_stop() first

void ingest_counts(struct ingest *ingest, struct ingest_counts *ret_counts);

// The latest trouble of the store, for status and log: true and a sentence when there was one since the last call.
bool ingest_trouble(struct ingest *ingest, char *text, size_t size);

// enrol.c: POST /api/v1/enrol and GET /api/v1/health.
int enrol_add_routes(struct server *server, struct tokens *tokens);
