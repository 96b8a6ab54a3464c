// SPDX-License-Identifier: Apache-2.0
// Pushing to an OpenTelemetry collector. One thread with a reader and a connection of its own; it shares no more than
// its counts. Its file holds how far changes of runs were looked at and which wait; it is replaced whole, so it is
// always one or the other. A run may be pushed twice (the spans have the same ids), never not at all.
#include "lake/push.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/stream_private.h"
#include "lake/export.h"
#include "lake/export_metrics.h"
#include "version.h"

enum {
	HEADER_MAX = 8192, // of one line
	WAITING_MAX = 4096,
	TAIL_ROWS = 1000,
	CONNECT_S = 15,
	ANSWER_S = 60,
	TRACE_BYTES_MAX = 64 << 20,
	STACK_BYTES = 1 << 20
};

static const uint64_t S_NS = 1000000000, PAUSE_MAX_NS = UINT64_C(300) * 1000000000;

struct waiting {
	uint64_t run_id, since_ns;
};

struct push {
	struct store_reader *reader;
	CURL *easy;
	struct curl_slist *headers;
	struct buf ca;
	char *endpoint, *file;
	uint64_t interval_ns, pause_ns;
	uint64_t mark; // of changed runs
	struct waiting waiting[WAITING_MAX];
	size_t waiting_count;
	pthread_t thread;
	pthread_mutex_t lock; // of stop and counts
	pthread_cond_t wake;
	bool started, stop;
	struct push_counts counts;
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * S_NS + (uint64_t)time.tv_nsec;
}

static void count(struct push *push, uint64_t *which)
{
	pthread_mutex_lock(&push->lock);
	++*which;
	push->counts.waiting = push->waiting_count;
	pthread_mutex_unlock(&push->lock);
}

// --- the file
// ------------------------------------------------------------------------------------------------------------

// "tracer-push-1 MARK RUN RUN ...": a file that is not that is begun anew.
static void file_read(struct push *push)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	char *at, *end;

	if (fs_read(push->file, 1 << 20, &text) < 0 || !text.data || strncmp(text.data, "tracer-push-1 ", 14) != 0)
		return;
	at = text.data + 14;
	push->mark = strtoull(at, &end, 10);
	for (at = end; push->waiting_count < WAITING_MAX && *at == ' '; at = end) {
		uint64_t id = strtoull(at, &end, 10);
		if (end == at || !id)
			break;
		push->waiting[push->waiting_count++] = (struct waiting){id, now()};
	}
}

static int file_write(struct push *push)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	buf_printf(&text, "tracer-push-1 %" PRIu64, push->mark);
	for (size_t i = 0; i < push->waiting_count; i++)
		buf_printf(&text, " %" PRIu64, push->waiting[i].run_id);
	buf_append_char(&text, '\n');
	return buf_error(&text) ? -ENOMEM : fs_replace(push->file, text.data, text.length, 0600);
}

// --- the other end
// ---------------------------------------------------------------------------------------------------------

static size_t ignore_answer(char *data, size_t size, size_t times, void *context)
{
	(void)data, (void)context;
	return size * times;
}

// 0: taken; -EPERM: refused for good; -EAGAIN: try again.
static int post(struct push *push, const char *path, const struct buf *body)
{
	CLEANUP(buf_free) struct buf url = BUF_INIT;
	long status = 0;
	CURLcode code;

	buf_printf(&url, "%s%s", push->endpoint, path);
	if (buf_error(&url))
		return -EAGAIN;
	curl_easy_setopt(push->easy, CURLOPT_URL, url.data);
	curl_easy_setopt(push->easy, CURLOPT_POSTFIELDS, body->data);
	curl_easy_setopt(push->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->length);
	code = curl_easy_perform(push->easy);
	curl_easy_getinfo(push->easy, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK)
		return -EAGAIN;
	if (status / 100 == 2)
		return 0;
	// What another attempt cannot change.
	return status == 400 || status == 413 || status == 415 || status == 422 ? -EPERM : -EAGAIN;
}

static int settle(struct push *push, int result, uint64_t *taken)
{
	count(push, !result ? taken : result == -EPERM ? &push->counts.refused : &push->counts.failures);
	return result == -EPERM ? 0 : result;
}

// --- what is pushed
// ----------------------------------------------------------------------------------------------------------

static int push_metrics(struct push *push)
{
	CLEANUP(buf_free) struct buf body = BUF_INIT;
	struct store_error why = {0};
	size_t hosts = 0;
	int error = export_metrics(push->reader, now(), &body, &hosts, &why);

	if (error)
		count(push, &push->counts.failures);
	if (error || !hosts)
		return error;
	return settle(push, post(push, "/v1/metrics", &body), &push->counts.metrics);
}

static int see_run(void *data, const union lake_slot *slot)
{
	struct push *push = data;
	uint64_t id = slot[RUNS_stitched_id].u64 == LAKE_NULL ? slot[RUNS_id].u64 : slot[RUNS_stitched_id].u64;

	if (slot[RUNS_living].u64 || slot[RUNS_end_ns].u64 == LAKE_NULL)
		return 0; // it changes once more when it ends
	for (size_t i = 0; i < push->waiting_count; i++)
		if (push->waiting[i].run_id == id) {
			push->waiting[i].since_ns = now();
			return 0;
		}
	if (push->waiting_count == WAITING_MAX) {
		memmove(push->waiting, push->waiting + 1, (WAITING_MAX - 1) * sizeof(push->waiting[0]));
		push->waiting_count--;
		count(push, &push->counts.dropped);
	}
	push->waiting[push->waiting_count++] = (struct waiting){id, now()};
	return 0;
}

static int read_changes(struct push *push)
{
	uint64_t before;
	int error;

	do {
		struct store_error why;
		before = push->mark;
		error = store_tail(push->reader, NULL, ENTITY_RUNS, push->mark, TAIL_ROWS, see_run, push, &push->mark,
				   &why);
	} while (!error && before && push->mark != before);
	if (error)
		count(push, &push->counts.failures);
	return error ? error : file_write(push);
}

static int gather(void *data, const char *bytes, size_t length)
{
	struct buf *body = data;

	if (body->length + length > TRACE_BYTES_MAX)
		return -E2BIG;
	buf_append(body, bytes, length);
	return buf_error(body);
}

static int push_run(struct push *push, uint64_t run_id)
{
	CLEANUP(buf_free) struct buf body = BUF_INIT;
	const struct export_question question = {.reader = push->reader, .run_id = run_id, .now_ns = now()};
	const struct export_sink sink = {gather, &body};
	struct store_error why = {0};
	int error = export_run(export_format_find("otlp"), &question, &sink, &why);

	if (error == -ENOENT) // retention took it
		return 0;
	if (error == -E2BIG)
		return settle(push, -EPERM, NULL);
	return error ? error : settle(push, post(push, "/v1/traces", &body), &push->counts.traces);
}

static int push_runs(struct push *push)
{
	int error = read_changes(push);

	for (size_t i = 0; i < push->waiting_count && !error && !push->stop;) {
		if (push->waiting[i].since_ns + push->interval_ns > now()) {
			i++;
			continue;
		}
		error = push_run(push, push->waiting[i].run_id);
		if (error)
			break;
		memmove(&push->waiting[i], &push->waiting[i + 1],
			(push->waiting_count - i - 1) * sizeof(push->waiting[0]));
		push->waiting_count--;
		error = file_write(push);
	}
	return error;
}

// --- the thread
// --------------------------------------------------------------------------------------------------------------

static bool pause_for(struct push *push, uint64_t pause_ns)
{
	uint64_t until_ns = now() + pause_ns;
	struct timespec until = {.tv_sec = (time_t)(until_ns / S_NS), .tv_nsec = (long)(until_ns % S_NS)};
	bool stop;

	pthread_mutex_lock(&push->lock);
	while (!push->stop && pthread_cond_timedwait(&push->wake, &push->lock, &until) == 0)
		;
	stop = push->stop;
	pthread_mutex_unlock(&push->lock);
	return !stop;
}

static void *run(void *data)
{
	struct push *push = data;

	do {
		int error = push_metrics(push);
		error = error ? error : push_runs(push);
		push->pause_ns = !error				     ? push->interval_ns
				 : push->pause_ns * 2 < PAUSE_MAX_NS ? push->pause_ns * 2
								     : PAUSE_MAX_NS;
	} while (pause_for(push, push->pause_ns));
	return NULL;
}

// --- from outside
// --------------------------------------------------------------------------------------------------------------

static int trust(struct push *push, const char *ca_file)
{
	struct curl_blob blob = {.flags = CURL_BLOB_NOCOPY};
	const char *name = "";
	char path[256] = "";
	int error;

	if (*ca_file)
		snprintf(path, sizeof(path), "%s", ca_file);
	else
		stream_ca_find(path);
	error = stream_ca_read(path, &push->ca, &name);
	if (error < 0)
		return error;
	blob.data = push->ca.data;
	blob.len = push->ca.length;
	curl_easy_setopt(push->easy, CURLOPT_CAINFO_BLOB, &blob);
	curl_easy_setopt(push->easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(push->easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(push->easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	return 0;
}

static bool header_valid(const char *line, size_t length)
{
	size_t name = strcspn(line, ":\n");

	if (name == 0 || name >= length || line[name] != ':' || length >= HEADER_MAX)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (line[i] < 0x20 || line[i] > 0x7e || (i < name && line[i] == ' '))
			return false;
	}
	return true;
}

// A secret leaves inside TLS only, or to this machine.
static int headers_add(struct push *push, const char *headers, const char *endpoint)
{
	static const char *const near[] = {"https://", "http://127.", "http://localhost:", "http://[::1]"};
	struct curl_slist *longer;
	bool safe = false;

	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
		safe |= !strncmp(endpoint, near[i], strlen(near[i]));
	for (size_t length; *headers; headers += length + (headers[length] == '\n')) {
		char line[HEADER_MAX];

		length = strcspn(headers, "\n");
		if (!length)
			continue;
		if (!header_valid(headers, length))
			return -EBADMSG;
		if (!safe)
			return -EPERM;
		snprintf(line, sizeof(line), "%.*s", (int)length, headers);
		longer = curl_slist_append(push->headers, line);
		if (!longer)
			return -ENOMEM;
		push->headers = longer;
	}
	return 0;
}

static int connect_to(struct push *push, const struct push_options *options)
{
	const char *endpoint = options->endpoint;
	bool tls = !strncmp(endpoint, "https://", 8);
	size_t length = strlen(endpoint);
	int result;

	if (!tls && strncmp(endpoint, "http://", 7) != 0)
		return -EINVAL;
	push->endpoint = strdup(endpoint);
	if (!push->endpoint || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(push->easy = curl_easy_init()))
		return -ENOMEM;
	while (length && push->endpoint[length - 1] == '/')
		push->endpoint[--length] = 0;
	push->headers = curl_slist_append(NULL, "Content-Type: application/json");
	result = headers_add(push, options->headers, endpoint);
	if (result < 0)
		return result;
	curl_easy_setopt(push->easy, CURLOPT_HTTPHEADER, push->headers);
	curl_easy_setopt(push->easy, CURLOPT_POST, 1L);
	curl_easy_setopt(push->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(push->easy, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http");
	curl_easy_setopt(push->easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(push->easy, CURLOPT_USERAGENT, "tracer/" TRACER_VERSION);
	curl_easy_setopt(push->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(push->easy, CURLOPT_TIMEOUT, (long)ANSWER_S);
	curl_easy_setopt(push->easy, CURLOPT_WRITEFUNCTION, ignore_answer);
	return tls ? trust(push, options->ca_file) : 0;
}

int push_new(const struct push_options *options, struct push **ret_push, struct store_error *error)
{
	struct push *push = calloc(1, sizeof(*push));
	CLEANUP(buf_free) struct buf path = BUF_INIT;
	int result = -ENOMEM;

	if (!push)
		return -ENOMEM;
	pthread_mutex_init(&push->lock, NULL);
	pthread_cond_init(&push->wake, NULL);
	push->interval_ns = push->pause_ns = options->interval_ns;
	buf_printf(&path, "%s/push", options->state);
	push->file = path.data ? strdup(path.data) : NULL;
	if (push->file)
		result = connect_to(push, options);
	result = result ? result : store_reader_open(options->store, &push->reader, error);
	if (result) {
		push_free(push);
		return result;
	}
	file_read(push);
	*ret_push = push;
	return 0;
}

int push_start(struct push *push)
{
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&push->thread, &attributes, run, push);
	pthread_attr_destroy(&attributes);
	push->started = !error;
	return -error;
}

void push_stop(struct push *push)
{
	if (!push || !push->started)
		return;
	pthread_mutex_lock(&push->lock);
	push->stop = true;
	pthread_cond_signal(&push->wake);
	pthread_mutex_unlock(&push->lock);
	pthread_join(push->thread, NULL);
	push->started = false;
}

void push_free(struct push *push)
{
	if (!push)
		return;
	push_stop(push);
	store_reader_close(push->reader);
	curl_slist_free_all(push->headers);
	curl_easy_cleanup(push->easy);
	buf_free(&push->ca);
	free(push->endpoint);
	free(push->file);
	pthread_cond_destroy(&push->wake);
	pthread_mutex_destroy(&push->lock);
	free(push);
}

void push_counts(struct push *push, struct push_counts *ret_counts)
{
	pthread_mutex_lock(&push->lock);
	*ret_counts = push->counts;
	pthread_mutex_unlock(&push->lock);
}
