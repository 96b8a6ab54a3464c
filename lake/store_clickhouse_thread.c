// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: upkeep beside the writer. Roll-ups, folds and removals wait for ClickHouse for as long as they
// take; instances share nothing but the chain, so one of them may as well be a thread in here. It has a store struct of
// its own, and the two never touch each other's.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_clickhouse.h"

static const size_t STACK_BYTES = 1 << 20;

struct clickhouse_thread {
	struct clickhouse_store aside;
	atomic_bool stop;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock; // of all below
	pthread_cond_t asked;
	uint64_t now_ns; // 0: nothing is asked for
	struct store_upkeep done;
	int result; // of the last round, until it was told
	struct store_error error;
};

static void *thread_main(void *context)
{
	struct clickhouse_thread *thread = context;

	pthread_mutex_lock(&thread->lock);
	while (!thread->stop) {
		struct store_upkeep upkeep = {0};
		struct store_error error = {0};
		uint64_t now_ns = thread->now_ns;
		int result;

		if (!now_ns) {
			pthread_cond_wait(&thread->asked, &thread->lock);
			continue;
		}
		pthread_mutex_unlock(&thread->lock);
		result = clickhouse_upkeep(&thread->aside, now_ns, &upkeep, &error);
		pthread_mutex_lock(&thread->lock);
		thread->now_ns = 0;
		thread->result = result;
		thread->error = error;
		if (result == 0)
			thread->done = upkeep;
	}
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

static struct clickhouse_thread *thread_new(const struct clickhouse_store *store)
{
	struct clickhouse_thread *thread = calloc(1, sizeof(*thread));
	pthread_attr_t attributes;

	if (!thread)
		return NULL;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->asked, NULL);
	thread->aside.store = store->store;
	thread->aside.url = store->url;
	thread->aside.options = store->options;
	if (clickhouse_http_new(&store->url, &thread->aside.http) == 0) {
		clickhouse_http_stop_by(thread->aside.http, &thread->stop);
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, STACK_BYTES);
		thread->runs = pthread_create(&thread->thread, &attributes, thread_main, thread) == 0;
		pthread_attr_destroy(&attributes);
	}
	if (!thread->runs) {
		clickhouse_thread_free(thread);
		return NULL;
	}
	return thread;
}

int clickhouse_thread_ask(struct clickhouse_store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep,
			  struct store_error *error)
{
	struct clickhouse_thread *thread = store->thread;
	int result;

	if (!thread)
		thread = store->thread = thread_new(store);
	if (!thread)
		return store_fail(error, -ENOMEM, "no thread for upkeep");
	pthread_mutex_lock(&thread->lock);
	result = thread->result;
	thread->result = 0;
	if (result < 0 && error)
		*error = thread->error;
	if (!thread->now_ns) {
		thread->now_ns = now_ns;
		pthread_cond_signal(&thread->asked);
	}
	if (result == 0)
		*ret_upkeep = thread->done;
	pthread_mutex_unlock(&thread->lock);
	return result;
}

void clickhouse_thread_free(struct clickhouse_thread *thread)
{
	if (!thread)
		return;
	pthread_mutex_lock(&thread->lock);
	thread->stop = true;
	pthread_cond_signal(&thread->asked);
	pthread_mutex_unlock(&thread->lock);
	if (thread->runs)
		pthread_join(thread->thread, NULL);
	clickhouse_http_free(thread->aside.http);
	clickhouse_cursors_forget(&thread->aside);
	pthread_cond_destroy(&thread->asked);
	pthread_mutex_destroy(&thread->lock);
	explicit_bzero(thread->aside.url.password, sizeof(thread->aside.url.password));
	free(thread);
}
