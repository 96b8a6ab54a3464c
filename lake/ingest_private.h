// SPDX-License-Identifier: Apache-2.0
// Between lake/ingest.c (what comes in, decoders, answers of refusals) and lake/ingest_writer.c (the one writer).
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "lake/ingest.h"
#include "lake/pace.h"
#include "lake/wire.h"

enum {
	INGEST_DECODED_BYTES_MAX = 24 << 20, // of decoded batches, waiting for the writer; one may always
	INGEST_GATHERED_BYTES = INGEST_DECODED_BYTES_MAX / 2, // these are written whether more may come or not
	INGEST_TASKS_MAX = 8,
};

struct ingest_job {
	struct ingest_job *next;
	struct server_reply *reply;
	const struct server_request *request;
	struct wire_headers headers;
	struct lake_batch batch;
	size_t text_bytes, decoded_bytes; // inflated; in memory, what it counts for in the queue
};

struct ingest_queue {
	struct ingest_job *first, **end;
	pthread_cond_t come;
};

struct ingest_task {
	ingest_task_fn *run;
	void *context;
	uint64_t interval_ns, due_ns;
};

struct ingest {
	struct ingest_options options;
	pthread_mutex_t lock; // of all below
	struct ingest_queue arrived, decoded;
	pthread_cond_t room; // for decoded batches
	size_t decoded_bytes;
	size_t waiting, waiting_bytes;
	struct pace pace;
	bool stop_decoders, stop_writer;
	bool gathering; // the writer waits for more
	struct ingest_job *spare;
	size_t spare_count;
	struct ingest_counts counts;
	char trouble[320];
	struct ingest_task tasks[INGEST_TASKS_MAX];
	size_t task_count;
	pthread_t *decoders;
	size_t decoder_count;
	pthread_t writer;
	bool writer_runs;
};

// The first of the queue, or NULL. Under the lock.
struct ingest_job *ingest_queue_take(struct ingest_queue *queue);
// Tells a client when to come again with so many bytes.
void ingest_retry_after(struct ingest *ingest, struct server_reply *reply, uint64_t bytes);
// The reply is gone with this.
void ingest_job_end(struct ingest *ingest, struct ingest_job *job);

void *ingest_writer_main(void *ingest); // of the writer's thread
