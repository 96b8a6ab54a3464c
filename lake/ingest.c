// SPDX-License-Identifier: Apache-2.0
// Room 8, ingest: batches go from the loop to the decoders, from there to the one writer (lake/ingest_writer.c), and
// their answers back. Both queues are bounded by number and bytes; past that an agent is told to come back later,
// before its body is read.

#include "lake/ingest_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

enum {
	WAITING_MAX = 2048, // batches
	WAITING_BYTES_MAX = 32 << 20, // of encoded bodies
	BODIES_BYTES_MAX = 48 << 20, // of these and of those that are still on their way
	DECODED_LEAST = 64 * 1024, // what even a small one takes once it is decoded
	SPARE_BATCHES = 64,
	SPARE_BYTES_MAX = 256 * 1024,
};
static const size_t THREAD_STACK_BYTES = 1 << 20;

static void queue_init(struct ingest_queue *queue)
{
	pthread_condattr_t attributes;

	queue->end = &queue->first;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->come, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void queue_put(struct ingest_queue *queue, struct ingest_job *job)
{
	job->next = NULL;
	*queue->end = job;
	queue->end = &job->next;
}

struct ingest_job *ingest_queue_take(struct ingest_queue *queue)
{
	struct ingest_job *job = queue->first;

	if (job) {
		queue->first = job->next;
		if (!queue->first)
			queue->end = &queue->first;
	}
	return job;
}

// ---- in the loop -------------------------------------------------------------------------------

static void answer_refusal(struct server_reply *reply, const struct wire_error *error)
{
	if (error->status == 503)
		server_reply_header(reply, "Retry-After", "10");
	server_reply_error(reply, error->status, error->code, "%s", error->text);
	if (error->of_record) {
		server_reply_add(reply, "record", error->record);
		server_reply_add(reply, "sequence", error->sequence);
	}
}

static int headers_take(const struct server_request *request, struct wire_headers *ret_headers,
			struct wire_error *error)
{
	const struct wire_header_texts texts = {
		.content_type = server_header(request, "content-type"),
		.content_encoding = server_header(request, "content-encoding"),
		.content_digest = server_header(request, "content-digest"),
		.host = server_header(request, "tracer-host"),
		.epoch = server_header(request, "tracer-epoch"),
		.sequence = server_header(request, "tracer-sequence"),
		.after = server_header(request, "tracer-after"),
	};

	return wire_headers_parse(&texts, ret_headers, error);
}

static bool under_pressure(struct ingest *ingest, uint64_t bytes)
{
	bool pressure = server_bodies_bytes(ingest->options.server) + bytes > BODIES_BYTES_MAX;

	pthread_mutex_lock(&ingest->lock);
	pressure = pressure || ingest->waiting >= WAITING_MAX || ingest->waiting_bytes >= WAITING_BYTES_MAX ||
		   !pace_allows(&ingest->pace, bytes, ingest->waiting_bytes);
	ingest->counts.busy += pressure;
	pthread_mutex_unlock(&ingest->lock);
	return pressure;
}

void ingest_retry_after(struct ingest *ingest, struct server_reply *reply, uint64_t bytes)
{
	char text[16];

	pthread_mutex_lock(&ingest->lock);
	snprintf(text, sizeof(text), "%u", pace_retry_s(&ingest->pace, clock_boot_ns(), bytes, ingest->waiting_bytes));
	pthread_mutex_unlock(&ingest->lock);
	server_reply_header(reply, "Retry-After", text);
}

static int ingest_admit(void *context, const struct server_request *request, struct server_reply *reply)
{
	const char *length = server_header(request, "content-length");
	uint64_t bytes = length ? strtoull(length, NULL, 10) : 0;
	struct wire_error error = {0};
	struct wire_headers headers;

	if (headers_take(request, &headers, &error) < 0) {
		answer_refusal(reply, &error);
		return 1;
	}
	if (!request->host_id || strcmp(request->host_id, headers.host_id) != 0) {
		server_reply_error(reply, 403, "host", "the token was given to another host than Tracer-Host names");
		return 1;
	}
	if (under_pressure(context, bytes)) {
		ingest_retry_after(context, reply, bytes);
		server_reply_error(reply, 429, "busy", "more batches are waiting than there may be; try again later");
		return 1;
	}
	return 0;
}

static struct ingest_job *job_new(struct ingest *ingest)
{
	struct ingest_job *job;

	pthread_mutex_lock(&ingest->lock);
	job = ingest->spare;
	if (job) {
		ingest->spare = job->next;
		ingest->spare_count--;
	}
	pthread_mutex_unlock(&ingest->lock);
	return job ? job : calloc(1, sizeof(*job));
}

static int ingest_submit(void *context, const struct server_request *request, struct server_reply *reply)
{
	struct ingest *ingest = context;
	struct wire_error error = {0};
	struct ingest_job *job = job_new(ingest);

	if (!job)
		return -EAGAIN;
	job->reply = reply;
	job->request = request;
	// They were good when the body was let in.
	headers_take(request, &job->headers, &error);
	pthread_mutex_lock(&ingest->lock);
	ingest->waiting++;
	ingest->waiting_bytes += request->body_length;
	queue_put(&ingest->arrived, job);
	pthread_cond_signal(&ingest->arrived.come);
	pthread_mutex_unlock(&ingest->lock);
	return 0;
}

// ---- the end of a job ----------------------------------------------------------------------------

// The reply is gone with this; small batches keep their memory for the next.
void ingest_job_end(struct ingest *ingest, struct ingest_job *job)
{
	struct server_reply *reply = job->reply;
	size_t bytes = job->request->body_length;
	bool keep = job->decoded_bytes <= SPARE_BYTES_MAX;

	pthread_mutex_lock(&ingest->lock);
	ingest->waiting--;
	ingest->waiting_bytes -= bytes;
	keep = keep && ingest->spare_count < SPARE_BATCHES;
	if (keep) {
		ingest->spare_count++;
		job->reply = NULL;
		job->request = NULL;
		job->next = ingest->spare;
		ingest->spare = job;
	}
	pthread_mutex_unlock(&ingest->lock);
	server_reply_finish(reply);
	if (!keep) {
		lake_batch_free(&job->batch);
		free(job);
	}
}

static void job_refuse(struct ingest *ingest, struct ingest_job *job, const struct wire_error *error)
{
	answer_refusal(job->reply, error);
	pthread_mutex_lock(&ingest->lock);
	ingest->counts.refused++;
	pthread_mutex_unlock(&ingest->lock);
	ingest_job_end(ingest, job);
}

// ---- decoders ------------------------------------------------------------------------------------

static int job_decode(struct ingest *ingest, struct ingest_job *job, struct wire_memory *memory, struct buf *text,
		      struct wire_error *error)
{
	const struct server_request *request = job->request;
	int result = wire_digest_check(&job->headers, request->body, request->body_length, error);

	buf_reset(text);
	if (!result)
		result = wire_inflate(request->body, request->body_length, text, error);
	if (result)
		return result;
	result = job->batch.workspace ? lake_batch_again(&job->batch, request->workspace, request->host_id)
				      : lake_batch_begin(&job->batch, request->workspace, request->host_id);
	if (!result)
		result = tokens_note_use(ingest->options.tokens, request->token_id);
	if (result) {
		*error = (struct wire_error){.status = 503, .code = "store"};
		snprintf(error->text, sizeof(error->text), "the datalake cannot take this now: %s", strerror(-result));
		return result;
	}
	job->batch.received_ns = clock_real_ns();
	job->text_bytes = text->length;
	result = wire_walk(&job->headers, text->data, text->length, memory, &job->batch, error);
	// Short records take several times their text.
	job->decoded_bytes = job->batch.arena.used_bytes > DECODED_LEAST ? job->batch.arena.used_bytes : DECODED_LEAST;
	return result;
}

static void job_hand_on(struct ingest *ingest, struct ingest_job *job)
{
	pthread_mutex_lock(&ingest->lock);
	while (ingest->decoded_bytes > 0 && ingest->decoded_bytes + job->decoded_bytes > INGEST_DECODED_BYTES_MAX)
		pthread_cond_wait(&ingest->room, &ingest->lock);
	ingest->decoded_bytes += job->decoded_bytes;
	queue_put(&ingest->decoded, job);
	// A writer that lets a crowd gather wakes by itself.
	if (!ingest->gathering || ingest->decoded_bytes >= INGEST_GATHERED_BYTES)
		pthread_cond_signal(&ingest->decoded.come);
	pthread_mutex_unlock(&ingest->lock);
}

static void *decoder_main(void *context)
{
	struct ingest *ingest = context;
	struct wire_memory memory = {0};
	struct buf text = BUF_INIT;

	pthread_mutex_lock(&ingest->lock);
	for (;;) {
		struct ingest_job *job = ingest_queue_take(&ingest->arrived);
		struct wire_error error = {0};

		if (!job && ingest->stop_decoders)
			break;
		if (!job) {
			pthread_cond_wait(&ingest->arrived.come, &ingest->lock);
			continue;
		}
		pthread_mutex_unlock(&ingest->lock);
		if (job_decode(ingest, job, &memory, &text, &error) < 0)
			job_refuse(ingest, job, &error);
		else
			job_hand_on(ingest, job);
		// What one large batch needed is not kept for the small ones that follow.
		if (text.capacity > 16 * (size_t)SPARE_BYTES_MAX)
			buf_free(&text);
		pthread_mutex_lock(&ingest->lock);
	}
	pthread_mutex_unlock(&ingest->lock);
	wire_memory_free(&memory);
	buf_free(&text);
	return NULL;
}

// ---- life ------------------------------------------------------------------------------------------

int ingest_new(const struct ingest_options *options, struct ingest **ret_ingest)
{
	struct ingest *ingest = calloc(1, sizeof(*ingest));

	if (!ingest)
		return -ENOMEM;
	ingest->options = *options;
	pthread_mutex_init(&ingest->lock, NULL);
	pthread_cond_init(&ingest->room, NULL);
	queue_init(&ingest->arrived);
	queue_init(&ingest->decoded);
	pace_begin(&ingest->pace, clock_boot_ns());
	*ret_ingest = ingest;
	return 0;
}

int ingest_add_task(struct ingest *ingest, ingest_task_fn *task, void *context, uint64_t interval_ns)
{
	if (ingest->task_count == INGEST_TASKS_MAX)
		return -E2BIG;
	ingest->tasks[ingest->task_count++] = (struct ingest_task){task, context, interval_ns, 0};
	return 0;
}

static int threads_start(struct ingest *ingest)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int result = 0;

	ingest->decoders = calloc(ingest->options.decoders, sizeof(*ingest->decoders));
	if (!ingest->decoders)
		return -ENOMEM;
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
	while (!result && ingest->decoder_count < ingest->options.decoders) {
		result = -pthread_create(&ingest->decoders[ingest->decoder_count], &attributes, decoder_main, ingest);
		ingest->decoder_count += !result;
	}
	if (!result)
		result = -pthread_create(&ingest->writer, &attributes, ingest_writer_main, ingest);
	ingest->writer_runs = !result;
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

int ingest_start(struct ingest *ingest)
{
	static const struct server_route routes[] = {
		{.method = "POST",
		 .pattern = "/api/v1/ingest",
		 .role = TOKEN_AGENT,
		 .body_max = WIRE_ENCODED_MAX,
		 .submit = ingest_submit,
		 .admit = ingest_admit},
		{0},
	};
	int result = server_add_routes(ingest->options.server, routes, ingest);

	if (!result)
		result = enrol_add_routes(ingest->options.server, ingest->options.tokens);
	return result < 0 ? result : threads_start(ingest);
}

void ingest_stop(struct ingest *ingest)
{
	if (!ingest)
		return;
	pthread_mutex_lock(&ingest->lock);
	ingest->stop_decoders = true;
	pthread_cond_broadcast(&ingest->arrived.come);
	pthread_mutex_unlock(&ingest->lock);
	for (size_t i = 0; i < ingest->decoder_count; i++)
		pthread_join(ingest->decoders[i], NULL);
	ingest->decoder_count = 0;
	pthread_mutex_lock(&ingest->lock);
	ingest->stop_writer = true;
	pthread_cond_broadcast(&ingest->decoded.come);
	pthread_mutex_unlock(&ingest->lock);
	if (ingest->writer_runs)
		pthread_join(ingest->writer, NULL);
	ingest->writer_runs = false;
}

void ingest_free(struct ingest *ingest)
{
	if (!ingest)
		return;
	while (ingest->spare) {
		struct ingest_job *next = ingest->spare->next;

		lake_batch_free(&ingest->spare->batch);
		free(ingest->spare);
		ingest->spare = next;
	}
	free(ingest->decoders);
	pthread_cond_destroy(&ingest->arrived.come);
	pthread_cond_destroy(&ingest->decoded.come);
	pthread_cond_destroy(&ingest->room);
	pthread_mutex_destroy(&ingest->lock);
	free(ingest);
}

void ingest_counts(struct ingest *ingest, struct ingest_counts *ret_counts)
{
	pthread_mutex_lock(&ingest->lock);
	*ret_counts = ingest->counts;
	ret_counts->waiting = ingest->waiting;
	pthread_mutex_unlock(&ingest->lock);
}

bool ingest_trouble(struct ingest *ingest, char *text, size_t size)
{
	bool any;

	pthread_mutex_lock(&ingest->lock);
	any = ingest->trouble[0] != 0;
	if (any)
		snprintf(text, size, "%s", ingest->trouble);
	ingest->trouble[0] = 0;
	pthread_mutex_unlock(&ingest->lock);
	return any;
}
