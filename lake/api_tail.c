// SPDX-License-Identifier: Apache-2.0
// API, the live tail: what arrives in the lake, as server-sent events. Each event's id holds one mark for each entity
// asked for, so a client that comes back with Last-Event-ID misses nothing that is still there. A client that is too
// far behind is not sent everything late: rows beyond a bound are left out and counted in an event "loss".

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/api_route.h"
#include "lake/query.h"

enum {
	TAIL_ENTITIES_MAX = 6,
	TAIL_ROWS = 500, // read at once
	TAIL_ROWS_MAX = 5000, // of an entity sent in one go; what is beyond is counted
	TAIL_LOST_MAX = 200000, // counted in one go
};
#define TAIL_PING_NS UINT64_C(15000000000)

// Entities that can be followed; the default are the first two.
static const uint8_t tail_entities[] = {ENTITY_RUNS, ENTITY_TASKS,  ENTITY_PROCESSES,
					ENTITY_GAPS, ENTITY_EVENTS, ENTITY_FINDINGS};

struct tail {
	struct api_routes *routes;
	char workspace[TOKEN_WORKSPACE_SIZE];
	bool all; // workspaces
	enum schema_entity_id entities[TAIL_ENTITIES_MAX];
	uint64_t marks[TAIL_ENTITIES_MAX];
	unsigned count;
	uint64_t sent_ns; // last event
	bool greeted;
	struct buf rows; // JSON objects, each with a NUL behind it
	struct store_error error;
};

static void tail_release(void *state)
{
	struct tail *tail = state;

	buf_free(&tail->rows);
	free(tail);
}

// --- what is asked -----------------------------------------------------------------------------------------------

static bool tail_add(struct tail *tail, const char *name, size_t length)
{
	for (unsigned i = 0; i < sizeof(tail_entities); i++) {
		const char *known = schema_entities[tail_entities[i]].name;

		if (strlen(known) != length || strncmp(known, name, length) != 0)
			continue;
		for (unsigned j = 0; j < tail->count; j++) {
			if (tail->entities[j] == tail_entities[i])
				return false;
		}
		tail->entities[tail->count++] = tail_entities[i];
		return true;
	}
	return false;
}

static bool tail_parse_entities(struct tail *tail, const char *text)
{
	if (!text)
		text = "runs,tasks";
	while (*text) {
		size_t length = strcspn(text, ",");

		if (!tail_add(tail, text, length))
			return false;
		text += length + (text[length] == ',');
	}
	return tail->count > 0;
}

// MARK-MARK-..., one for each entity in the order in which they were asked for.
static bool tail_parse_marks(struct tail *tail, const char *text)
{
	for (unsigned i = 0; i < tail->count; i++) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		errno = 0;
		tail->marks[i] = strtoull(text, &end, 10);
		if (errno || *end != (i + 1 < tail->count ? '-' : 0))
			return false;
		text = end + 1;
	}
	return true;
}

// --- what is sent ------------------------------------------------------------------------------------------------

static int tail_event(struct tail *tail, struct server_reply *reply, const char *name,
		      const char *data, size_t length)
{
	char id[TAIL_ENTITIES_MAX * 21 + 1];
	size_t used = 0;

	for (unsigned i = 0; i < tail->count; i++)
		used += (size_t)snprintf(id + used, sizeof(id) - used, "%s%llu", i ? "-" : "",
					 (unsigned long long)tail->marks[i]);
	tail->sent_ns = clock_boot_ns();
	return server_reply_event(reply, id, name, data, length);
}

struct tail_rows {
	struct tail *tail;
	struct query_writer writer;
	bool count_only;
};

static int tail_row(void *data, const union lake_slot *slot)
{
	struct tail_rows *rows = data;

	if (rows->count_only) {
		rows->writer.rows++;
		return 0;
	}
	query_write_row(&rows->writer, slot);
	buf_append_char(&rows->tail->rows, 0);
	return buf_error(&rows->tail->rows);
}

// Reads what is new of one entity, at most TAIL_ROWS; the store is not held while a client is slow.
static int tail_read(struct tail *tail, struct store_reader *reader, unsigned i, bool count_only,
		     uint64_t *ret_rows, uint64_t *ret_mark)
{
	struct tail_rows rows = {
		tail,
		query_writer_to(&tail->rows, QUERY_JSON, &schema_entities[tail->entities[i]], NULL,
				0),
		count_only,
	};
	int error;

	buf_reset(&tail->rows);
	// One event for each row: no commas between them.
	rows.writer.format = QUERY_NDJSON;
	error = store_tail(reader, tail->all ? NULL : tail->workspace, tail->entities[i],
			   tail->marks[i], TAIL_ROWS, tail_row, &rows, ret_mark, &tail->error);
	*ret_rows = rows.writer.rows;
	return error;
}

static int tail_send(struct tail *tail, struct server_reply *reply, unsigned i)
{
	const char *name = schema_entities[tail->entities[i]].singular;
	const char *at = tail->rows.data, *end = at + tail->rows.length;
	int error = 0;

	while (error == 0 && at < end) {
		size_t length = strlen(at);

		error = tail_event(tail, reply, name, at, length - 1);
		at += length + 1;
	}
	return error;
}

static int tail_entity(struct tail *tail, struct server_reply *reply, unsigned i)
{
	uint64_t sent = 0, lost = 0, rows = TAIL_ROWS, mark;
	char text[128];
	int error = 0, length;

	while (error == 0 && rows == TAIL_ROWS && lost < TAIL_LOST_MAX) {
		bool skip = sent >= TAIL_ROWS_MAX;
		struct store_reader *reader = api_reader_take(tail->routes);

		error = tail_read(tail, reader, i, skip, &rows, &mark);
		api_reader_give(tail->routes, reader);
		if (error != 0)
			break;
		// The id of an event is where to go on after it: rows of one reading share the mark behind them, so a
		// client that is cut off among them gets the rest of that reading again, and none is missed.
		if (!skip)
			error = tail_send(tail, reply, i);
		tail->marks[i] = mark;
		sent += skip ? 0 : rows;
		lost += skip ? rows : 0;
	}
	if (error != 0 || lost == 0)
		return error;
	length = snprintf(text, sizeof(text), "{\"entity\":\"%s\",\"rows\":%llu}",
			  schema_entities[tail->entities[i]].name, (unsigned long long)lost);
	return tail_event(tail, reply, "loss", text, (size_t)length);
}

static int tail_events(void *state, struct server_reply *reply)
{
	struct tail *tail = state;
	int error = 0;

	for (unsigned i = 0; error == 0 && i < tail->count; i++)
		error = tail_entity(tail, reply, i);
	if (error == 0 && !tail->greeted)
		error = tail_event(tail, reply, "ready", "{}", 2);
	else if (error == 0 && clock_boot_ns() - tail->sent_ns > TAIL_PING_NS)
		error = tail_event(tail, reply, "ping", "{}", 2);
	tail->greeted = true;
	return error;
}

void api_tail(void *routes, const struct server_request *request, struct server_reply *reply)
{
	const char *last = server_header(request, "last-event-id");
	struct tail *tail;

	for (size_t i = 0; i < request->query_count; i++) {
		const char *name = request->query[i].name;

		if (strcmp(name, "entities") != 0 && strcmp(name, "after") != 0) {
			server_reply_error(reply, 400, "unknown_parameter",
					   "no parameter %.60s here", name);
			return;
		}
	}
	if (!last)
		last = server_query_value(request, "after");
	tail = calloc(1, sizeof(*tail));
	if (!tail) {
		server_reply_error(reply, 500, "internal", "no memory");
		return;
	}
	tail->routes = routes;
	tail->all = !request->workspace;
	snprintf(tail->workspace, sizeof(tail->workspace), "%s",
		 request->workspace ? request->workspace : "");
	if (!tail_parse_entities(tail, server_query_value(request, "entities"))) {
		server_reply_error(reply, 400, "bad_value",
				   "entities takes some of "
				   "runs,tasks,processes,gaps,events,findings, each once");
		tail_release(tail);
		return;
	}
	if (last && *last && !tail_parse_marks(tail, last)) {
		server_reply_error(reply, 400, "bad_value", "that is no event id of this tail");
		tail_release(tail);
		return;
	}
	server_reply_events(reply, tail_events, tail, tail_release);
}
