// SPDX-License-Identifier: Apache-2.0
// A store on this machine as the source of answers: opened for reading only, while a datalake may be writing to it. The
// question goes through the same functions as one that came over the network.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask.h"
#include "core/base/clock.h"
#include "lake/api.h"

static int source_open(struct ask *ask, char why[300])
{
	const struct store_options options = {.read_only = true};
	struct store_error error = {0};
	int result;

	if (ask->local_reader)
		return 0;
	result = store_open(ask->store, &options, &ask->local, &error);
	if (result == 0)
		result = store_reader_open(ask->local, &ask->local_reader, &error);
	if (result == -ENOENT)
		snprintf(why, 300,
			 "no store at %.200s: start `tracer up` or `tracer datalake`, or give "
			 "--store or --url",
			 ask->store);
	else if (result < 0)
		snprintf(why, 300, "%.120s: %.160s", ask->store, *error.text ? error.text : strerror(-result));
	return result;
}

void ask_local_close(struct ask *ask)
{
	if (ask->local_reader)
		store_reader_close(ask->local_reader);
	if (ask->local)
		store_close(ask->local);
	ask->local_reader = NULL;
	ask->local = NULL;
}

static int source_begin(void *data, int status, const char *content_type, const char *next)
{
	struct ask_answer *answer = data;

	(void)content_type;
	answer->status = status;
	snprintf(answer->next, sizeof(answer->next), "%s", next ? next : "");
	return 0;
}

static int source_write(void *data, const char *bytes, size_t length)
{
	struct ask_answer *answer = data;

	buf_append(&answer->body, bytes, length);
	return buf_error(&answer->body);
}

static void source_cut(void *data)
{
	struct ask_answer *answer = data;

	answer->status = -EIO;
}

int ask_local(struct ask *ask, const char *path, struct query_parameters *parameters, const char *body,
	      struct ask_answer *answer, char why[300])
{
	const struct api_sink sink = {source_begin, source_write, source_cut, answer};
	const struct api_request request = {
		.method = body ? "POST" : "GET",
		.path = path,
		.body = body ? body : "",
		.body_length = body ? strlen(body) : 0,
		.workspace = ask->workspace,
		.parameters = parameters,
		.now_ns = clock_real_ns(),
	};
	int error = source_open(ask, why);

	if (error < 0)
		return error;
	api_answer(ask->local_reader, &request, &sink);
	if (answer->status < 0) {
		snprintf(why, 300, "the answer could not be finished: the store failed, or memory is out");
		return answer->status;
	}
	return 0;
}
