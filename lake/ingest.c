// SPDX-License-Identifier: Apache-2.0
// Room 8, ingest: batches go from the loop to the decoders, from there to the one writer, and their answers back.
// Both queues are bounded by number and bytes; past that an agent is told to come back later, before its body is
// read. The writer takes what waits as one group commit. No batch is answered with 200 before store_write() has
// returned.

#include "lake/ingest.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "lake/pace.h"
#include "lake/wire.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

enum {
	WAITING_MAX = 2048, // batches
	WAITING_BYTES_MAX = 32 << 20, // of encoded bodies
	DECODED_BYTES_MAX = 24 << 20, // of inflated text, waiting for the writer; one batch may always
	GATHERED_BYTES = DECODED_BYTES_MAX / 2, // these are written whether more may come or not
	DECODED_LEAST = 128 * 1024, // what even a small one takes once it is decoded
	GROUP_MAX = STORE_BATCHES_MAX, // batches of one commit
	GROUP_RECORDS = 20000, // a commit is not filled beyond this
	SPARE_BATCHES = 256,
	SPARE_BYTES_MAX = 256 * 1024,
	TASKS_MAX = 8,
};
// A commit costs a sync and some pages whatever is in it. While a crowd posts (so many batches of another host than the
// one before within the window), the next one waits until so long after the last began; one agent by itself waits for
// nothing.
enum { CROWD = 20 };
static const uint64_t CROWD_WINDOW_NS = 200 * NS_PER_MS;
static const uint64_t CROWD_NS = 40 * NS_PER_MS;
static const uint64_t MAINTAIN_NS = NS_PER_S;
static const uint64_t MAINTAIN_IDLE_NS = NS_PER_S / 5;
static const size_t THREAD_STACK_BYTES = 1 << 20;

struct job {
	struct job *next;
	struct server_reply *reply;
	const struct server_request *request;
	struct wire_headers headers;
	struct lake_batch batch;
	size_t text_bytes, decoded_bytes; // inflated; what it counts for in the queue
};

struct queue {
	struct job *first, **end;
	pthread_cond_t come;
};

struct task {
	ingest_task_fn *run;
	void *context;
	uint64_t interval_ns, due_ns;
};

struct ingest {
	struct ingest_options options;
	pthread_mutex_t lock; // of all below
	struct queue arrived, decoded;
	pthread_cond_t room; // for decoded batches
	size_t decoded_bytes;
	size_t waiting, waiting_bytes;
	struct pace pace;
	bool stop_decoders, stop_writer;
	bool gathering; // the writer waits for more
	struct job *spare;
	size_t spare_count;
	struct ingest_counts counts;
	char trouble[320];
	struct task tasks[TASKS_MAX];
	size_t task_count;
	pthread_t *decoders;
	size_t decoder_count;
	pthread_t writer;
	bool writer_runs;
};

static void queue_init(struct queue *queue)
{
	pthread_condattr_t attributes;

	queue->end = &queue->first;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->come, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void queue_put(struct queue *queue, struct job *job)
{
	job->next = NULL;
	*queue->end = job;
	queue->end = &job->next;
}

static struct job *queue_take(struct queue *queue)
{
	struct job *job = queue->first;

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
	bool pressure;

	pthread_mutex_lock(&ingest->lock);
	pressure = ingest->waiting >= WAITING_MAX || ingest->waiting_bytes >= WAITING_BYTES_MAX ||
		   !pace_allows(&ingest->pace, bytes, ingest->waiting_bytes);
	ingest->counts.busy += pressure;
	pthread_mutex_unlock(&ingest->lock);
	return pressure;
}

static void retry_after(struct ingest *ingest, struct server_reply *reply, uint64_t bytes)
{
	char text[16];

	pthread_mutex_lock(&ingest->lock);
	snprintf(text, sizeof(text), "%u",
		 pace_retry_s(&ingest->pace, clock_boot_ns(), bytes, ingest->waiting_bytes));
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
		retry_after(context, reply, bytes);
		server_reply_error(reply, 429, "busy", "more batches are waiting than there may be; try again later");
		return 1;
	}
	return 0;
}

static struct job *job_new(struct ingest *ingest)
{
	struct job *job;

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
	struct job *job = job_new(ingest);

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
static void job_end(struct ingest *ingest, struct job *job)
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

static void job_refuse(struct ingest *ingest, struct job *job, const struct wire_error *error)
{
	answer_refusal(job->reply, error);
	pthread_mutex_lock(&ingest->lock);
	ingest->counts.refused++;
	pthread_mutex_unlock(&ingest->lock);
	job_end(ingest, job);
}

// ---- decoders ------------------------------------------------------------------------------------

static int job_decode(struct ingest *ingest, struct job *job, struct wire_memory *memory, struct buf *text,
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
	job->decoded_bytes = text->length > DECODED_LEAST ? text->length : DECODED_LEAST;
	return wire_walk(&job->headers, text->data, text->length, memory, &job->batch, error);
}

static void job_hand_on(struct ingest *ingest, struct job *job)
{
	pthread_mutex_lock(&ingest->lock);
	while (ingest->decoded_bytes > 0 && ingest->decoded_bytes + job->decoded_bytes > DECODED_BYTES_MAX)
		pthread_cond_wait(&ingest->room, &ingest->lock);
	ingest->decoded_bytes += job->decoded_bytes;
	queue_put(&ingest->decoded, job);
	// A writer that lets a crowd gather wakes by itself.
	if (!ingest->gathering || ingest->decoded_bytes >= GATHERED_BYTES)
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
		struct job *job = queue_take(&ingest->arrived);
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

// ---- the writer ------------------------------------------------------------------------------------

struct group {
	struct job *jobs[GROUP_MAX];
	struct lake_batch *batches[GROUP_MAX];
	struct store_result results[GROUP_MAX];
	size_t count;
};

static void answer_stored(struct ingest *ingest, struct job *job, const struct store_result *result)
{
	bool stored = result->verdict == STORE_STORED;

	pthread_mutex_lock(&ingest->lock);
	if (stored) {
		ingest->counts.batches++;
		ingest->counts.records += result->records;
		ingest->counts.bytes_encoded += job->request->body_length;
		ingest->counts.bytes_decoded += job->text_bytes;
	} else {
		ingest->counts.sequence++;
	}
	pthread_mutex_unlock(&ingest->lock);
	if (stored) {
		server_reply_printf(job->reply, "{\"acked\":%" PRIu64 "}\n", result->acked);
	} else {
		server_reply_error(job->reply, 409, "sequence",
				   "the batch does not follow what is stored up to %" PRIu64, result->acked);
		server_reply_add(job->reply, "acked", result->acked);
	}
	job_end(ingest, job);
}

static void answer_failed(struct ingest *ingest, struct job *job, const struct store_error *why)
{
	pthread_mutex_lock(&ingest->lock);
	ingest->counts.store_errors++;
	snprintf(ingest->trouble, sizeof(ingest->trouble), "%s", why->text[0] ? why->text : strerror(-why->code));
	pthread_mutex_unlock(&ingest->lock);
	retry_after(ingest, job->reply, job->request->body_length);
	server_reply_error(job->reply, 503, "store", "the store cannot take this now: %s",
			   why->text[0] ? why->text : strerror(-why->code));
	job_end(ingest, job);
}

// What was stored, and whether more waits, for the pace.
static void group_note(struct ingest *ingest, size_t batches, size_t bytes)
{
	pthread_mutex_lock(&ingest->lock);
	ingest->counts.commits++;
	pace_note(&ingest->pace, clock_boot_ns(), batches, bytes, ingest->waiting > batches);
	pthread_mutex_unlock(&ingest->lock);
}

static void group_take(struct ingest *ingest, struct group *group)
{
	size_t records = 0, bytes = 0;

	group->count = 0;
	while (group->count < GROUP_MAX && (group->count == 0 || records < GROUP_RECORDS)) {
		struct job *job = queue_take(&ingest->decoded);

		if (!job)
			break;
		records += job->batch.records;
		bytes += job->decoded_bytes;
		group->batches[group->count] = &job->batch;
		group->jobs[group->count++] = job;
	}
	ingest->decoded_bytes -= bytes;
	pthread_cond_broadcast(&ingest->room);
}

// One batch that the store will not have must not keep back those beside it.
static void group_write_singly(struct ingest *ingest, struct group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		struct store_error why = {0};
		int result = store_write(ingest->options.store, &group->batches[i], 1, &group->results[i], &why);

		why.code = result;
		if (result < 0)
			answer_failed(ingest, group->jobs[i], &why);
		else
			answer_stored(ingest, group->jobs[i], &group->results[i]);
	}
}

static void group_write(struct ingest *ingest, struct group *group)
{
	struct store_error why = {0};
	int result = store_write(ingest->options.store, group->batches, group->count, group->results, &why);
	size_t bytes = 0;

	why.code = result;
	for (size_t i = 0; i < group->count; i++)
		bytes += group->jobs[i]->request->body_length;
	if (result == 0)
		group_note(ingest, group->count, bytes);
	if (result == -EINVAL && group->count > 1) {
		group_write_singly(ingest, group);
		return;
	}
	for (size_t i = 0; i < group->count; i++) {
		if (result < 0)
			answer_failed(ingest, group->jobs[i], &why);
		else
			answer_stored(ingest, group->jobs[i], &group->results[i]);
	}
	if (result == 0)
		server_notify(ingest->options.server);
}

static void trouble_note(struct ingest *ingest, const struct store_error *why, int result)
{
	pthread_mutex_lock(&ingest->lock);
	snprintf(ingest->trouble, sizeof(ingest->trouble), "%s", why->text[0] ? why->text : strerror(-result));
	pthread_mutex_unlock(&ingest->lock);
}

// Upkeep and the tasks that are due. Returns when upkeep wants to be called again.
static uint64_t writer_upkeep(struct ingest *ingest, uint64_t due_ns, bool idle)
{
	uint64_t now_ns = clock_boot_ns();
	struct store_upkeep upkeep = {0};
	struct store_error why = {0};
	int result;

	for (size_t i = 0; i < ingest->task_count; i++) {
		struct task *task = &ingest->tasks[i];

		if (now_ns < task->due_ns)
			continue;
		task->run(task->context, ingest->options.store, clock_real_ns());
		task->due_ns = clock_boot_ns() + task->interval_ns;
	}
	if (now_ns < due_ns && !(idle && now_ns + MAINTAIN_NS - MAINTAIN_IDLE_NS >= due_ns))
		return due_ns;
	result = store_maintain(ingest->options.store, clock_real_ns(), &upkeep, &why);
	if (result < 0)
		trouble_note(ingest, &why, result);
	return clock_boot_ns() + (upkeep.more ? MAINTAIN_IDLE_NS : MAINTAIN_NS);
}

static void writer_wait(struct ingest *ingest, uint64_t wait_ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)wait_ns;
	if (until.tv_nsec >= (long)NS_PER_S) {
		until.tv_nsec -= (long)NS_PER_S;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&ingest->decoded.come, &ingest->lock, &until);
}

struct crowd {
	bool there;
	uint64_t begun_ns; // of the group before
	uint64_t window_ns; // when it began
	unsigned int strangers; // in it
	uint64_t host; // of the last batch
};

static void crowd_note(struct crowd *crowd, const struct group *group)
{
	uint64_t now_ns = clock_boot_ns();

	crowd->begun_ns = now_ns;
	for (size_t i = 0; i < group->count; i++) {
		crowd->strangers += group->batches[i]->host != crowd->host;
		crowd->host = group->batches[i]->host;
	}
	if (now_ns - crowd->window_ns < CROWD_WINDOW_NS)
		return;
	crowd->there = crowd->strangers >= CROWD;
	crowd->window_ns = now_ns;
	crowd->strangers = 0;
}

// Under the lock. Lets a group of a crowd gather; what the queue can take is written before it is full.
static void crowd_gather(struct ingest *ingest, const struct crowd *crowd)
{
	uint64_t dear_ns = ingest->options.store->backend->gather_ns;
	uint64_t now_ns, until_ns = crowd->begun_ns + (dear_ns > CROWD_NS ? dear_ns : CROWD_NS);

	if (!crowd->there)
		return;
	ingest->gathering = true;
	while (!ingest->stop_writer && ingest->decoded_bytes < GATHERED_BYTES &&
	       (now_ns = clock_boot_ns()) < until_ns)
		writer_wait(ingest, until_ns - now_ns);
	ingest->gathering = false;
}

static void *writer_main(void *context)
{
	struct ingest *ingest = context;
	struct group *group = calloc(1, sizeof(*group));
	uint64_t upkeep_ns = clock_boot_ns() + MAINTAIN_NS;
	struct crowd crowd = {0};

	if (!group)
		abort();
	pthread_mutex_lock(&ingest->lock);
	for (;;) {
		bool idle;

		crowd_gather(ingest, &crowd);
		group_take(ingest, group);
		crowd_note(&crowd, group);
		if (!group->count && ingest->stop_writer)
			break;
		idle = group->count == 0;
		if (idle)
			writer_wait(ingest, MAINTAIN_IDLE_NS);
		pthread_mutex_unlock(&ingest->lock);
		if (group->count)
			group_write(ingest, group);
		upkeep_ns = writer_upkeep(ingest, upkeep_ns, idle);
		pthread_mutex_lock(&ingest->lock);
	}
	pthread_mutex_unlock(&ingest->lock);
	free(group);
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
	if (ingest->task_count == TASKS_MAX)
		return -E2BIG;
	ingest->tasks[ingest->task_count++] = (struct task){task, context, interval_ns, 0};
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
		result = -pthread_create(&ingest->writer, &attributes, writer_main, ingest);
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
		struct job *next = ingest->spare->next;

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
