// SPDX-License-Identifier: Apache-2.0
// The commands that read the lake: options into a question, pages into one answer. What comes back is the same whether
// a store on this machine or a datalake elsewhere answered.

#include "cli/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/cleanup.h"

enum { ASK_PAGE = 5000, ASK_ARENA_BLOCK = 16 * 1024 };

static void ask_document_free(yyjson_doc **document)
{
	yyjson_doc_free(*document);
}

void ask_init(struct ask *ask, const char *command)
{
	*ask = (struct ask){.command = command, .store = ASK_STORE, .limit = 50};
	arena_init(&ask->arena, ASK_ARENA_BLOCK);
	ask->parameters.arena = &ask->arena;
}

void ask_free(struct ask *ask)
{
	ask_local_close(ask);
	ask_remote_close(ask);
	arena_free(&ask->arena);
}

void ask_answer_free(struct ask_answer *answer)
{
	buf_free(&answer->body);
}

static void ask_option_where(struct ask *ask, struct args *args)
{
	struct query_parameter parameter;
	int error = query_where(&ask->arena, args->value, &parameter);
	char safe[80];

	if (error == 0)
		error = query_parameters_add(&ask->parameters, parameter.name, parameter.value);
	if (error == 0)
		return;
	ui_escape(safe, sizeof(safe), args->value);
	args->exit_code = args_usage(args, "--where %s is no condition; write it as 'cpu_ns>=1e9' or 'tool=bwa'", safe);
}

// A folder, or a url as `tracer datalake` takes it.
static const char *ask_store_url(struct ask *ask, const char *text)
{
	size_t size = strlen(text) + sizeof("sqlite:");
	char *url;

	if (!strncmp(text, "sqlite:", 7) || strstr(text, "://"))
		return text;
	url = arena_alloc(&ask->arena, size);
	if (url)
		snprintf(url, size, "sqlite:%s", text);
	return url ? url : text;
}

bool ask_option(struct ask *ask, struct args *args)
{
	struct {
		const char *name;
		const char **value;
	} texts[] = {
		{"workspace", &ask->workspace},
		{"url", &ask->url},
		{"token-file", &ask->token_file},
		{"ca-file", &ask->ca_file},
		{"pin", &ask->pin},
		{"proxy", &ask->proxy},
		{"run", &ask->run},
		{"host", &ask->host},
		{"since", &ask->since},
		{"sort", &ask->sort},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (args_is(args, texts[i].name)) {
			*texts[i].value = args->value;
			return true;
		}
	}
	if (args_is(args, "store"))
		ask->store = ask_store_url(ask, args->value);
	else if (args_is(args, "json"))
		ask->output = ASK_JSON;
	else if (args_is(args, "csv"))
		ask->output = ASK_CSV;
	else if (args_is(args, "limit"))
		args_number(args, 0, UINT32_MAX, &ask->limit);
	else if (args_is(args, "where"))
		ask_option_where(ask, args);
	else
		return false;
	return true;
}

// --- one question ------------------------------------------------------------------------------------------------

// What an answer that is no 2xx says, in its own words.
static int ask_refused(const struct ask *ask, const struct ask_answer *answer)
{
	CLEANUP(ask_document_free)
	yyjson_doc *document = yyjson_read(answer->body.data ? answer->body.data : "", answer->body.length, 0);
	yyjson_val *root = yyjson_doc_get_root(document);
	const char *text = yyjson_get_str(yyjson_obj_get(root, "detail"));
	char safe[400];

	text = text ? text : yyjson_get_str(yyjson_obj_get(root, "error"));
	ui_escape(safe, sizeof(safe), text ? text : "no reason given");
	if (answer->status == 401 || answer->status == 403)
		fprintf(stderr, "tracer %s: refused: %s\n", ask->command, safe);
	else if (answer->status == 400 || answer->status == 404)
		fprintf(stderr, "tracer %s: %s\n", ask->command, safe);
	else
		fprintf(stderr, "tracer %s: %s (status %d)\n", ask->command, safe, answer->status);
	if (answer->status == 404)
		return EXIT_NO;
	return answer->status == 400 || answer->status == 422 ? EXIT_USAGE : EXIT_REFUSED;
}

int ask_answer(struct ask *ask, const char *path, struct query_parameters *parameters, const char *format,
	       const char *body, struct ask_answer *answer)
{
	char why[300] = "", safe[600];
	int error = query_parameters_add(parameters, "format", format);

	buf_reset(&answer->body);
	answer->next[0] = 0;
	answer->status = 0;
	if (error == 0)
		error = ask->url ? ask_remote(ask, path, parameters, body, answer, why)
				 : ask_local(ask, path, parameters, body, answer, why);
	if (error < 0) {
		ui_escape(safe, sizeof(safe), *why ? why : strerror(-error));
		fprintf(stderr, "tracer %s: %s\n", ask->command, safe);
		return error == -EINVAL ? EXIT_USAGE : EXIT_REFUSED;
	}
	return answer->status == 200 ? -1 : ask_refused(ask, answer);
}

// --- pages -------------------------------------------------------------------------------------------------------

static int ask_copy(struct query_parameters *to, const struct query_parameters *from)
{
	int error = 0;

	for (size_t i = 0; error == 0 && i < from->count; i++)
		error = query_parameters_add(to, from->list[i].name, from->list[i].value);
	return error;
}

static uint64_t ask_lines(const struct buf *body)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < body->length; i++)
		lines += body->data[i] == '\n';
	return lines;
}

static int ask_page(struct ask *ask, const char *path, const struct query_parameters *from, const char *format,
		    uint64_t limit, const char *cursor, struct ask_answer *answer)
{
	CLEANUP(arena_free) struct arena arena;
	struct query_parameters parameters = {.arena = &arena};
	char number[24];
	int error;

	arena_init(&arena, ASK_ARENA_BLOCK);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)limit);
	error = ask_copy(&parameters, from);
	if (error == 0)
		error = query_parameters_add(&parameters, "limit", number);
	if (error == 0 && *cursor)
		error = query_parameters_add(&parameters, "cursor", cursor);
	if (error < 0) {
		fprintf(stderr, "tracer %s: %s\n", ask->command,
			error == -E2BIG ? "too many conditions" : strerror(-error));
		return EXIT_USAGE;
	}
	return ask_answer(ask, path, &parameters, format, NULL, answer);
}

int ask_pages(struct ask *ask, const char *path, struct query_parameters *parameters, const char *format,
	      uint64_t limit, ask_page_fn page, void *data, bool *ret_more)
{
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	char cursor[sizeof(answer.next)] = "";
	bool csv = !strcmp(format, "csv"), first = true;
	uint64_t left = limit;
	int exit_code;

	do {
		uint64_t want = limit && left < ASK_PAGE ? left : ASK_PAGE, heading = csv;
		const char *lines;
		size_t skip = 0;

		exit_code = ask_page(ask, path, parameters, format, want, cursor, &answer);
		if (exit_code >= 0)
			return exit_code;
		lines = answer.body.data ? answer.body.data : "";
		// The names stand above the first page only.
		if (csv && !first && strchr(lines, '\n'))
			skip = (size_t)(strchr(lines, '\n') - lines) + 1;
		left -= limit ? ask_lines(&answer.body) - heading : 0;
		first = false;
		if (page(data, lines + skip, answer.body.length - skip) != 0)
			return EXIT_NO;
		snprintf(cursor, sizeof(cursor), "%s", answer.next);
	} while (*cursor && (!limit || (left > 0 && left <= limit)));
	*ret_more = *cursor;
	return -1;
}

// --- names into ids ----------------------------------------------------------------------------------------------

static bool ask_is_id(const char *text)
{
	return strlen(text) >= 15 && strspn(text, "0123456789") == strlen(text);
}

// The first row that the question gives, its member copied. 1: there is none.
static int ask_first(struct ask *ask, const char *path, const char *column, const char *value, const char *sort,
		     const char *member, char *out, size_t size)
{
	CLEANUP(arena_free) struct arena arena;
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	CLEANUP(ask_document_free) yyjson_doc *document = NULL;
	struct query_parameters parameters = {.arena = &arena};
	const char *text;
	int exit_code;

	arena_init(&arena, ASK_ARENA_BLOCK);
	if (query_parameters_add(&parameters, column, value) < 0 ||
	    query_parameters_add(&parameters, "sort", sort) < 0 || query_parameters_add(&parameters, "limit", "1") < 0)
		return EXIT_REFUSED;
	exit_code = ask_answer(ask, path, &parameters, "ndjson", NULL, &answer);
	if (exit_code >= 0)
		return exit_code;
	document = answer.body.length ? yyjson_read(answer.body.data, answer.body.length, YYJSON_READ_STOP_WHEN_DONE)
				      : NULL;
	text = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(document), member));
	snprintf(out, size, "%s", text ? text : "");
	return -1;
}

int ask_find_run(struct ask *ask, const char *text, char ret_id[24])
{
	static const char *const columns[] = {"run", "run_name"};
	char safe[200];

	*ret_id = 0;
	if (ask_is_id(text)) {
		snprintf(ret_id, 24, "%s", text);
		return -1;
	}
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		int exit_code = ask_first(ask, "/api/v1/runs", columns[i], text, "-start_ns", "id", ret_id, 24);

		if (exit_code >= 0 || *ret_id)
			return exit_code;
	}
	ui_escape(safe, sizeof(safe), text);
	fprintf(stderr, "tracer %s: no run %s; `tracer runs` lists them\n", ask->command, safe);
	return EXIT_NO;
}

int ask_find_host(struct ask *ask, const char *text, char ret_id[80])
{
	char safe[200];
	int exit_code = ask_first(ask, "/api/v1/hosts", "host", text, "-last_seen_ns", "host_id", ret_id, 80);

	if (exit_code >= 0 || *ret_id)
		return exit_code;
	ui_escape(safe, sizeof(safe), text);
	fprintf(stderr, "tracer %s: no host %s; `tracer hosts` lists them\n", ask->command, safe);
	return EXIT_NO;
}
