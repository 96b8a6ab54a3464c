// SPDX-License-Identifier: Apache-2.0
// The readers: a few threads that run handlers and steps of event streams, fed from two bounded queues. A handler
// may wait for the store or for its client; the loop never does. A thread holds nothing between two jobs. What a slow
// route was asked waits in a queue of its own and gets half of the readers at most, so that whoever asks much and long
// keeps no host from enrolling and nobody from a quick answer.

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "lake/server_private.h"

// Handlers parse and format; the C library's own default (128 KiB with musl) is too little for SQLite beneath them.
static const size_t READER_STACK_BYTES = 1 << 20;

static void job_run(struct server_reply *reply)
{
	bool more = false;

	if (server_reply_gone(reply)) {
		server_reply_error(reply, 503, "gone", "nobody waits for it any more");
	} else if (reply->events && reply->started) {
		more = reply->events(reply->events_state, reply) == 0 && !reply->error;
	} else {
		reply->route->handler(reply->route_context, &reply->request, reply);
		more = reply->events && !reply->error;
	}
	if (more)
		reply_flush(reply);
	else
		reply_end(reply);
	reply_return(reply);
}

static void jobs_append(struct jobs *jobs, struct server_reply *reply)
{
	reply->next_job = NULL;
	*jobs->end = reply;
	jobs->end = &reply->next_job;
	jobs->count++;
}

struct server_reply *jobs_take(struct jobs *jobs)
{
	struct server_reply *reply = jobs->first;

	if (!reply)
		return NULL;
	jobs->first = reply->next_job;
	if (!jobs->first)
		jobs->end = &jobs->first;
	jobs->count--;
	return reply;
}

static size_t slow_max(const struct server *server)
{
	return server->options.readers > 1 ? server->options.readers / 2 : 1;
}

static void *reader_main(void *context)
{
	struct server *server = context;

	pthread_mutex_lock(&server->jobs_lock);
	while (!server->jobs_stop) {
		bool slow = !server->quick.first && server->slow_running < slow_max(server);
		struct server_reply *reply = jobs_take(slow ? &server->slow : &server->quick);

		if (!reply) {
			pthread_cond_wait(&server->jobs_come, &server->jobs_lock);
			continue;
		}
		server->slow_running += slow;
		pthread_mutex_unlock(&server->jobs_lock);
		job_run(reply);
		pthread_mutex_lock(&server->jobs_lock);
		server->slow_running -= slow;
	}
	pthread_mutex_unlock(&server->jobs_lock);
	return NULL;
}

int readers_start(struct server *server)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int result = 0;

	server->threads = calloc(server->options.readers, sizeof(*server->threads));
	if (!server->threads)
		return -ENOMEM;
	// Signals are the loop's; only the trap of the system-call filter must reach every thread.
	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, READER_STACK_BYTES);
	while (!result && server->thread_count < server->options.readers) {
		result = -pthread_create(&server->threads[server->thread_count], &attributes, reader_main, server);
		server->thread_count += !result;
	}
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

void readers_stop(struct server *server)
{
	pthread_mutex_lock(&server->jobs_lock);
	server->jobs_stop = true;
	pthread_cond_broadcast(&server->jobs_come);
	pthread_mutex_unlock(&server->jobs_lock);
	for (size_t i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i], NULL);
	server->thread_count = 0;
	free(server->threads);
	server->threads = NULL;
}

int readers_submit(struct server *server, struct server_reply *reply)
{
	bool slow = reply->route->slow;
	struct jobs *jobs = slow ? &server->slow : &server->quick;
	int result = 0;

	pthread_mutex_lock(&server->jobs_lock);
	// A step of an open stream has its place: there are fewer of them than the queue is long.
	if (jobs->count >= (slow ? SERVER_SLOW_JOBS_MAX : SERVER_JOBS_MAX) && !reply->is_stream) {
		result = -EAGAIN;
	} else {
		jobs_append(jobs, reply);
		pthread_cond_signal(&server->jobs_come);
	}
	pthread_mutex_unlock(&server->jobs_lock);
	return result;
}
