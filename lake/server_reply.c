// SPDX-License-Identifier: Apache-2.0
// Answers, as handlers write them on threads of their own. What fits is sent with its length; what grows goes out
// in chunks; what fails after it began is cut off, never ended as if it were whole. A slow client makes the writer
// wait, bounded in bytes and time, and never the loop.

#include "lake/server_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/json.h"

static const size_t ANSWER_WHOLE_MAX = 64 * 1024;
static const unsigned int WRITE_WAIT_S = 30;
static const unsigned int WRITE_BYTES_PER_S = 32 * 1024; // slower, over all of a long answer, is too slow

struct server_reply *reply_new(struct server *server)
{
	struct server_reply *reply = calloc(1, sizeof(*reply));
	pthread_condattr_t attributes;

	if (!reply)
		return NULL;
	reply->server = server;
	pthread_mutex_init(&reply->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&reply->space, &attributes);
	pthread_condattr_destroy(&attributes);
	reply->request.body = "";
	reply->request.token_id = "";
	return reply;
}

void reply_free(struct server_reply *reply)
{
	if (!reply)
		return;
	if (reply->events_release)
		reply->events_release(reply->events_state);
	for (size_t i = 0; i < reply->request.path_value_count; i++) {
		free((char *)(uintptr_t)reply->path_values[i].name);
		free((char *)(uintptr_t)reply->path_values[i].value);
	}
	reply->server->bodies_reserved -= reply->body_reserved;
	if (reply->is_stream)
		__atomic_sub_fetch(&reply->server->stream_count, 1, __ATOMIC_RELAXED);
	buf_free(&reply->body);
	buf_free(&reply->pending);
	buf_free(&reply->answer);
	buf_free(&reply->answer_headers);
	pthread_cond_destroy(&reply->space);
	pthread_mutex_destroy(&reply->lock);
	free(reply->head);
	free(reply);
}

// ---- what a request holds ----------------------------------------------------------------------

static const char *pair_value(const struct server_pair *pairs, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(pairs[i].name, name))
			return pairs[i].value;
	return NULL;
}

const char *server_query_value(const struct server_request *request, const char *name)
{
	return pair_value(request->query, request->query_count, name);
}

const char *server_path_value(const struct server_request *request, const char *name)
{
	return pair_value(request->path_values, request->path_value_count, name);
}

const char *server_header(const struct server_request *request, const char *name)
{
	return pair_value(request->headers, request->header_count, name);
}

// ---- handing bytes to the loop -----------------------------------------------------------------

struct part {
	const void *data;
	size_t length;
};

// Until the client has taken some of what waits for it. -EPIPE: nothing for a while, or all the time so slowly that
// it would keep a reader, and the store's view of that moment, for hours.
static int space_await(struct server_reply *reply)
{
	uint64_t began_ns = clock_boot_ns(), most_ns = WRITE_WAIT_S * SERVER_S, ns;
	uint64_t allowed_ns = most_ns + reply->put_bytes * (SERVER_S / WRITE_BYTES_PER_S);
	struct timespec until;
	int result = 0;

	if (!reply->is_stream && allowed_ns < reply->waited_ns + most_ns)
		most_ns = allowed_ns > reply->waited_ns ? allowed_ns - reply->waited_ns : 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	ns = (uint64_t)until.tv_nsec + most_ns;
	until.tv_sec += (time_t)(ns / SERVER_S);
	until.tv_nsec = (long)(ns % SERVER_S);
	while (reply->with_worker && !reply->gone && !result && reply->pending.length >= SERVER_PENDING_MAX) {
		size_t before = reply->pending.length;

		if (pthread_cond_timedwait(&reply->space, &reply->lock, &until) == ETIMEDOUT &&
		    reply->pending.length >= before)
			result = -EPIPE;
	}
	reply->waited_ns += clock_boot_ns() - began_ns;
	return result;
}

// Moves the parts to what the loop sends. In the loop itself (with_worker false) nothing may wait, and nothing has to.
// The loop is told once for what it has not taken yet.
static int pending_put(struct server_reply *reply, const struct part *parts, size_t count)
{
	bool first = false;
	int result = 0;

	pthread_mutex_lock(&reply->lock);
	if (reply->with_worker && !reply->gone && reply->pending.length >= SERVER_PENDING_MAX)
		result = space_await(reply);
	if (reply->gone)
		result = -EPIPE;
	if (!result) {
		first = !reply->pending.length;
		for (size_t i = 0; i < count; i++)
			buf_append(&reply->pending, parts[i].data, parts[i].length);
		for (size_t i = 0; i < count; i++)
			reply->put_bytes += parts[i].length;
		result = buf_error(&reply->pending);
	}
	pthread_mutex_unlock(&reply->lock);
	if (result < 0) {
		reply->error = result;
		reply->cut = true;
	} else if (reply->with_worker && first) {
		server_wake(reply->server, reply, false);
	}
	return result;
}

static bool status_has_body(int status)
{
	return status != 204 && status != 304;
}

static void head_write(struct server_reply *reply, struct buf *out, bool chunked)
{
	const struct http_request *http = &reply->http;
	char date[40] = "";
	time_t now = time(NULL);
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	buf_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", reply->status, http_reason(reply->status), date);
	if (status_has_body(reply->status))
		buf_printf(out, "Content-Type: %s\r\n", reply->content_type);
	buf_append_string(out, "X-Content-Type-Options: nosniff\r\nReferrer-Policy: same-origin\r\n"
			       "Cross-Origin-Resource-Policy: same-origin\r\n");
	if (!reply->answer_headers.data ||
	    !memmem(reply->answer_headers.data, reply->answer_headers.length, "Cache-Control:", 14))
		buf_append_string(out, "Cache-Control: no-store\r\n");
	buf_append(out, reply->answer_headers.data ? reply->answer_headers.data : "", reply->answer_headers.length);
	if (reply->cut || !http->keep_alive || (chunked && http->http_1_0))
		buf_append_string(out, "Connection: close\r\n");
	if (chunked && !http->http_1_0)
		buf_append_string(out, "Transfer-Encoding: chunked\r\n");
	else if (!chunked && status_has_body(reply->status))
		buf_printf(out, "Content-Length: %zu\r\n", reply->answer.length);
	buf_append_string(out, "\r\n");
}

static bool is_head(const struct server_reply *reply)
{
	return reply->http.method && !strcmp(reply->http.method, "HEAD");
}

static int out_put(struct server_reply *reply, const struct buf *out)
{
	int result = buf_error(out);

	if (result < 0) {
		reply->error = result;
		reply->cut = true;
		return result;
	}
	return out->length ? pending_put(reply, &(struct part){out->data, out->length}, 1) : 0;
}

// Sends the head when that has not been done, and the bytes as one chunk.
static int chunk_put(struct server_reply *reply, const void *data, size_t length)
{
	CLEANUP(buf_free) struct buf head = BUF_INIT;
	bool plain = reply->http.http_1_0;
	struct part parts[3];

	if (!reply->started) {
		// Without chunks the end of the answer is the end of the connection.
		reply->cut |= plain;
		head_write(reply, &head, true);
		reply->started = true;
	}
	if (!length || is_head(reply))
		return out_put(reply, &head);
	if (!plain)
		buf_printf(&head, "%zx\r\n", length);
	if (buf_error(&head) < 0)
		return out_put(reply, &head);
	parts[0] = (struct part){head.data, head.length};
	parts[1] = (struct part){data, length};
	parts[2] = (struct part){"\r\n", plain ? 0 : 2};
	return pending_put(reply, parts, 3);
}

static int chunk_out(struct server_reply *reply)
{
	int result = chunk_put(reply, reply->answer.data, reply->answer.length);

	buf_reset(&reply->answer);
	return result;
}

void reply_flush(struct server_reply *reply)
{
	if (!reply->started || reply->answer.length)
		chunk_out(reply);
}

// ---- what handlers call ------------------------------------------------------------------------

static bool field_clean(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

int server_reply_begin(struct server_reply *reply, int status, const char *content_type)
{
	if (reply->status || reply->finished)
		return reply->error ? reply->error : -EALREADY;
	if (!field_clean(content_type) || strlen(content_type) >= sizeof(reply->content_type))
		return -EINVAL;
	reply->status = status;
	snprintf(reply->content_type, sizeof(reply->content_type), "%s", content_type);
	return 0;
}

int server_reply_header(struct server_reply *reply, const char *name, const char *value)
{
	if (!field_clean(name) || !field_clean(value) || strchr(name, ':'))
		return -EINVAL;
	if (reply->started)
		return -EALREADY;
	buf_printf(&reply->answer_headers, "%s: %s\r\n", name, value);
	return buf_error(&reply->answer_headers);
}

int server_reply_write(struct server_reply *reply, const void *data, size_t length)
{
	if (reply->error || reply->finished)
		return reply->error ? reply->error : -EPIPE;
	if (!reply->status)
		server_reply_begin(reply, 200, "application/json");
	if (server_reply_gone(reply))
		return reply->error = -EPIPE;
	if (length >= ANSWER_WHOLE_MAX && !reply->answer.length)
		return chunk_put(reply, data, length);
	buf_append(&reply->answer, data, length);
	if (buf_error(&reply->answer) < 0) {
		reply->cut = true;
		return reply->error = -ENOMEM;
	}
	return reply->answer.length >= ANSWER_WHOLE_MAX ? chunk_out(reply) : 0;
}

int server_reply_printf(struct server_reply *reply, const char *format, ...)
{
	CLEANUP(cleanup_free) char *text = NULL;
	va_list list;
	int length;

	va_start(list, format);
	length = vasprintf(&text, format, list);
	va_end(list);
	if (length < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return server_reply_write(reply, text, (size_t)length);
}

int server_reply_error(struct server_reply *reply, int status, const char *code, const char *format, ...)
{
	char text[512];
	struct json json;
	va_list list;

	if (reply->finished)
		return -EPIPE;
	if (reply->started) {
		reply->cut = true;
		reply->finished = true;
		return reply->error = -EPIPE;
	}
	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	buf_reset(&reply->answer);
	reply->error = 0;
	reply->status = status;
	snprintf(reply->content_type, sizeof(reply->content_type), "application/json");
	json = json_to(&reply->answer);
	json_open_object(&json);
	json_put_string(&json, "error", text);
	json_put_string(&json, "code", code);
	json_close_object(&json);
	json_end_line(&json);
	return buf_error(&reply->answer);
}

int server_reply_add(struct server_reply *reply, const char *name, uint64_t value)
{
	size_t end = reply->answer.length;

	if (reply->started || end < 2 || memcmp(reply->answer.data + end - 2, "}\n", 2) != 0)
		return -EINVAL;
	reply->answer.length = end - 2;
	buf_printf(&reply->answer, ",\"%s\":%llu}\n", name, (unsigned long long)value);
	return buf_error(&reply->answer);
}

bool server_reply_gone(const struct server_reply *reply)
{
	return __atomic_load_n(&reply->gone, __ATOMIC_RELAXED);
}

void reply_end(struct server_reply *reply)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;

	if (!reply->status)
		server_reply_error(reply, 500, "internal", "the request was not answered");
	if (!reply->started) {
		head_write(reply, &out, false);
		if (!is_head(reply) && status_has_body(reply->status))
			buf_append(&out, reply->answer.data ? reply->answer.data : "", reply->answer.length);
		reply->started = true;
	} else if (!reply->error && !reply->finished) {
		chunk_out(reply);
		if (!reply->error && !is_head(reply) && !reply->http.http_1_0)
			buf_append_string(&out, "0\r\n\r\n");
	}
	if (!reply->error)
		out_put(reply, &out);
	buf_free(&reply->answer);
	buf_free(&reply->answer_headers);
	reply->finished = true;
}

void reply_return(struct server_reply *reply)
{
	server_wake(reply->server, reply, true);
}

void server_reply_finish(struct server_reply *reply)
{
	reply_end(reply);
	reply_return(reply);
}

// ---- events ------------------------------------------------------------------------------------

int server_reply_events(struct server_reply *reply, server_events_fn *events, void *state, void (*release)(void *state))
{
	reply->events_state = state;
	reply->events_release = release;
	if (__atomic_add_fetch(&reply->server->stream_count, 1, __ATOMIC_RELAXED) > SERVER_STREAMS_MAX) {
		__atomic_sub_fetch(&reply->server->stream_count, 1, __ATOMIC_RELAXED);
		server_reply_header(reply, "Retry-After", "10");
		server_reply_error(reply, 503, "streams", "as many live streams are open as there may be");
		return -EBUSY;
	}
	reply->is_stream = true;
	reply->status = 0;
	server_reply_begin(reply, 200, "text/event-stream");
	reply->events = events;
	return 0;
}

int server_reply_event(struct server_reply *reply, const char *id, const char *name, const char *data, size_t length)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	const char *end = data + length;
	int result;

	if ((id && !field_clean(id)) || (name && !field_clean(name)) || memchr(data, 0, length))
		return -EINVAL;
	if (id)
		buf_printf(&text, "id: %s\n", id);
	if (name)
		buf_printf(&text, "event: %s\n", name);
	while (data <= end) {
		const char *newline = memchr(data, '\n', (size_t)(end - data));
		size_t part = newline ? (size_t)(newline - data) : (size_t)(end - data);

		// A carriage return ends a line of an event stream too.
		if (memchr(data, '\r', part))
			return -EINVAL;
		buf_append_string(&text, "data: ");
		buf_append(&text, data, part);
		buf_append_char(&text, '\n');
		data += part + 1;
	}
	buf_append_char(&text, '\n');
	result = buf_error(&text);
	return result < 0 ? result : server_reply_write(reply, text.data, text.length);
}
