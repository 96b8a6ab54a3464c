// SPDX-License-Identifier: Apache-2.0
// Room 8, ingest: the one writer. It takes what waits decoded as one group commit, answers each batch of it, and
// between groups sees to upkeep and to what else may write. No batch is answered with 200 before store_write() has
// returned.

#include "lake/ingest_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

enum {
	GROUP_MAX = STORE_BATCHES_MAX, // batches of one commit
	GROUP_RECORDS = 20000, // a commit is not filled beyond this
};
// A commit costs a sync and some pages whatever is in it. While a crowd posts (so many batches of another host than the
// one before within the window), the next one waits until so long after the last began; one agent by itself waits for
// nothing.
enum { CROWD = 20 };
static const uint64_t CROWD_WINDOW_NS = 200 * NS_PER_MS;
static const uint64_t CROWD_NS = 40 * NS_PER_MS;
static const uint64_t MAINTAIN_NS = NS_PER_S;
static const uint64_t MAINTAIN_IDLE_NS = NS_PER_S / 5;

struct group {
	struct ingest_job *jobs[GROUP_MAX];
	struct lake_batch *batches[GROUP_MAX];
	struct store_result results[GROUP_MAX];
	size_t count;
};

static void answer_stored(struct ingest *ingest, struct ingest_job *job, const struct store_result *result)
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
	ingest_job_end(ingest, job);
}

static void answer_failed(struct ingest *ingest, struct ingest_job *job, const struct store_error *why)
{
	pthread_mutex_lock(&ingest->lock);
	ingest->counts.store_errors++;
	snprintf(ingest->trouble, sizeof(ingest->trouble), "%s", why->text[0] ? why->text : strerror(-why->code));
	pthread_mutex_unlock(&ingest->lock);
	ingest_retry_after(ingest, job->reply, job->request->body_length);
	server_reply_error(job->reply, 503, "store", "the store cannot take this now: %s",
			   why->text[0] ? why->text : strerror(-why->code));
	ingest_job_end(ingest, job);
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
		struct ingest_job *job = ingest_queue_take(&ingest->decoded);

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
		struct ingest_task *task = &ingest->tasks[i];

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
	while (!ingest->stop_writer && ingest->decoded_bytes < INGEST_GATHERED_BYTES &&
	       (now_ns = clock_boot_ns()) < until_ns)
		writer_wait(ingest, until_ns - now_ns);
	ingest->gathering = false;
}

void *ingest_writer_main(void *context)
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
