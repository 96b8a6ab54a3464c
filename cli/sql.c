// SPDX-License-Identifier: Apache-2.0
// `tracer sql`: one SELECT over the lake, of this machine or elsewhere, with the limits of the API.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "cli/ask.h"
#include "core/base/cleanup.h"
#include "core/base/json.h"

static void sql_document_free(yyjson_doc **document)
{
	yyjson_doc_free(*document);
}

// The text of a question, or what standard input has when it is "-".
static int sql_text(const char *operand, struct buf *out)
{
	char part[4096];
	size_t length;

	if (strcmp(operand, "-") != 0) {
		buf_append_string(out, operand);
		return buf_error(out);
	}
	while (out->length <= 64 * 1024 && (length = fread(part, 1, sizeof(part), stdin)) > 0)
		buf_append(out, part, length);
	return ferror(stdin) ? -EIO : buf_error(out);
}

// The tables and columns there are, one a line.
static int sql_tables(struct ask *ask)
{
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	CLEANUP(sql_document_free) yyjson_doc *document = NULL;
	struct query_parameters none = {.arena = &ask->arena};
	yyjson_val *entity, *column;
	yyjson_arr_iter entities, columns;
	struct ui ui;
	int exit_code = ask_answer(ask, "/api/v1/schema", &none, "json", NULL, &answer);

	if (exit_code >= 0)
		return exit_code;
	if (ask->output == ASK_JSON) {
		fwrite(answer.body.data, 1, answer.body.length, stdout);
		return EXIT_OK;
	}
	ui_init(&ui, stdout);
	document = yyjson_read(answer.body.data, answer.body.length, 0);
	entities = yyjson_arr_iter_with(yyjson_obj_get(yyjson_doc_get_root(document), "entities"));
	while ((entity = yyjson_arr_iter_next(&entities))) {
		printf("%s%s%s  %s\n", ui_style(&ui, UI_BOLD), yyjson_get_str(yyjson_obj_get(entity, "name")),
		       ui_style(&ui, UI_PLAIN), yyjson_get_str(yyjson_obj_get(entity, "help")));
		columns = yyjson_arr_iter_with(yyjson_obj_get(entity, "columns"));
		while ((column = yyjson_arr_iter_next(&columns)))
			printf("  %-24s %-5s %s\n", yyjson_get_str(yyjson_obj_get(column, "name")),
			       yyjson_get_str(yyjson_obj_get(column, "type")),
			       yyjson_get_str(yyjson_obj_get(column, "help")));
	}
	return EXIT_OK;
}

static int sql_body(const char *text, uint64_t limit, uint64_t seconds, struct buf *out)
{
	struct json json = json_to(out);

	json_open_object(&json);
	json_put_string(&json, "sql", text);
	json_put_u64(&json, "limit", limit);
	json_put_u64(&json, "time_ms", seconds * 1000);
	json_close_object(&json);
	return buf_error(out);
}

static int sql_show(const struct ask *ask, const struct ask_answer *answer)
{
	CLEANUP(sql_document_free) yyjson_doc *document = NULL;
	struct ui ui;
	size_t rows = 0;

	if (ask->output != ASK_TABLE) {
		fwrite(answer->body.data, 1, answer->body.length, stdout);
		return EXIT_OK;
	}
	ui_init(&ui, stdout);
	if (ask_table_sql(&ui, answer->body.data, answer->body.length, &rows) < 0) {
		fprintf(stderr, "tracer sql: the answer is not what it should be\n");
		return EXIT_REFUSED;
	}
	document = yyjson_read(answer->body.data, answer->body.length, 0);
	if (yyjson_get_bool(yyjson_obj_get(yyjson_doc_get_root(document), "truncated")))
		fprintf(stderr, "tracer sql: %zu rows, and there are more: raise --limit\n", rows);
	return EXIT_OK;
}

int command_sql(int argc, char **argv)
{
	static const char *const formats[] = {[ASK_TABLE] = "json", [ASK_JSON] = "ndjson", [ASK_CSV] = "csv"};
	struct args args = args_of("sql", argc, argv);
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	CLEANUP(buf_free) struct buf text = BUF_INIT, body = BUF_INIT;
	CLEANUP(ask_free) struct ask ask;
	struct query_parameters none;
	uint64_t seconds = 10;
	bool tables = false;
	int exit_code;

	ask_init(&ask, "sql");
	ask.limit = 10000;
	none = (struct query_parameters){.arena = &ask.arena};
	while (args_next(&args)) {
		tables |= args_is(&args, "tables");
		if (args_is(&args, "timeout") && !args_number(&args, 1, 60, &seconds))
			break;
		ask_option(&ask, &args);
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (tables && args.operand_count == 0)
		return sql_tables(&ask);
	if (args.operand_count != 1 || tables)
		return args_usage(&args, "takes one question in quotes, or - for standard input");
	if (ask.limit == 0 || ask.limit > 1000000)
		return args_usage(&args, "--limit needs a number from 1 to 1000000");
	if (sql_text(args.operands[0], &text) < 0 ||
	    sql_body(text.data ? text.data : "", ask.limit, seconds, &body) < 0)
		return args_usage(&args, "the question cannot be read");
	exit_code = ask_answer(&ask, "/api/v1/sql", &none, formats[ask.output], body.data, &answer);
	exit_code = exit_code >= 0 ? exit_code : sql_show(&ask, &answer);
	return fflush(stdout) == 0 ? exit_code : EXIT_NO;
}
