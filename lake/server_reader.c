// SPDX-License-Identifier: Apache-2.0
// The readers: a few threads that run handlers and steps of event streams, fed from one bounded queue. A handler
// may wait for the store or for its client; the loop never does. A thread holds nothing between two jobs.

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "lake/server_private.h"

// Handlers parse and format; the C library's own default (128 KiB with musl) is too little for SQLite beneath them.
static const size_t READER_STACK_BYTES = 1 << 20;

static void job_run(struct server_reply *reply)
{
	bool more = false;

	if (reply->events && reply->started) {
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

static void *reader_main(void *context)
{
	struct server *server = context;

	pthread_mutex_lock(&server->jobs_lock);
	while (!server->jobs_stop) {
		struct server_reply *reply = server->jobs;

		if (!reply) {
			pthread_cond_wait(&server->jobs_come, &server->jobs_lock);
			continue;
		}
		server->jobs = reply->next_job;
		if (!server->jobs)
			server->jobs_end = &server->jobs;
		server->job_count--;
		pthread_mutex_unlock(&server->jobs_lock);
		job_run(reply);
		pthread_mutex_lock(&server->jobs_lock);
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
	int result = 0;

	pthread_mutex_lock(&server->jobs_lock);
	// A step of an open stream has its place: there are fewer of them than the queue is long.
	if (server->job_count >= SERVER_JOBS_MAX && !reply->is_stream) {
		result = -EAGAIN;
	} else {
		reply->next_job = NULL;
		*server->jobs_end = reply;
		server->jobs_end = &reply->next_job;
		server->job_count++;
		pthread_cond_signal(&server->jobs_come);
	}
	pthread_mutex_unlock(&server->jobs_lock);
	return result;
}
