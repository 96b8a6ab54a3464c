// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: SQL of strangers. ClickHouse itself says what a statement is made of (EXPLAIN AST), and only
// SELECTs over the entities' views pass: no other table, no table function, no dictionary, no file. It then runs
// read-only, with limits that it cannot lift, and with a filter on the workspace under every table the views read.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

enum { SQL_MAX = 64 * 1024, NAMES_MAX = 64, VALUES_MAX = 1024 };

// ---- what it is made of ---------------------------------------------------------------------------------------------

struct names {
	char name[NAMES_MAX][128]; // of WITH ... AS (SELECT)
	size_t count;
};

static bool is_allowed_table(const char *name, const struct names *names)
{
	if (schema_entity_find(name))
		return true;
	for (size_t i = 0; i < names->count; i++) {
		if (!strcmp(names->name[i], name))
			return true;
	}
	return false;
}

// Functions that look at something else than their arguments. A table function is told by where it stands.
static bool is_refused_function(const char *name)
{
	static const char *const refused[] = {"dictGet",
					      "joinGet",
					      "file",
					      "getSetting",
					      "getServerSetting",
					      "hasColumnInTable",
					      "catboostEvaluate",
					      "executable",
					      "shardNum",
					      "getMacro",
					      "getOSKernelVersion",
					      "hostName",
					      "fqdn",
					      "currentDatabase",
					      "version",
					      "tcpPort",
					      "serverUUID",
					      "buildId",
					      "currentUser",
					      "user",
					      "filesystem",
					      "sleep",
					      "showCertificate",
					      "initialQueryID",
					      "queryID",
					      "connectionId",
					      "getClientHTTPHeader",
					      "url",
					      "encrypt",
					      "decrypt",
					      "addressTo",
					      "demangle",
					      "ai",
					      "naiveBayes",
					      "modelEvaluate",
					      "throwIf",
					      "getSubcolumn",
					      "merge",
					      "loop",
					      "view",
					      NULL};

	for (size_t i = 0; refused[i]; i++) {
		size_t length = strlen(refused[i]);

		if (!strncasecmp(name, refused[i], length))
			return strncasecmp(name, "aiter", 5) != 0;
	}
	return false;
}

struct line {
	size_t depth;
	char kind[64], name[128];
};

static void read_line(const char *text, size_t length, struct line *ret_line)
{
	size_t depth = 0, word;

	memset(ret_line, 0, sizeof(*ret_line));
	while (depth < length && text[depth] == ' ')
		depth++;
	ret_line->depth = depth;
	word = strcspn(text + depth, " \n");
	if (word > length - depth)
		word = length - depth;
	snprintf(ret_line->kind, sizeof(ret_line->kind), "%.*s", (int)word, text + depth);
	if (depth + word < length && text[depth + word] == ' ') {
		const char *name = text + depth + word + 1;
		size_t rest = strcspn(name, " \n");

		snprintf(ret_line->name, sizeof(ret_line->name), "%.*s", (int)rest, name);
	}
}

struct checking {
	struct names names;
	size_t table_depth; // of the TableExpression that is open; 0: none
	size_t in_depth; // of the arguments of an IN that is open; 0: none
	unsigned in_argument;
	char why[160];
};

// The tree comes line by line, a blank more for each level.
static bool check_line(struct checking *checking, const struct line *line)
{
	if (checking->in_depth && line->depth + 1 < checking->in_depth)
		checking->in_depth = 0;
	if (checking->in_depth && line->depth == checking->in_depth && ++checking->in_argument == 2 &&
	    !strcmp(line->kind, "Identifier") && !is_allowed_table(line->name, &checking->names)) {
		snprintf(checking->why, sizeof(checking->why), "there is no table %.64s", line->name);
		return false;
	}
	if (!strcmp(line->kind, "TableIdentifier") && !is_allowed_table(line->name, &checking->names)) {
		snprintf(checking->why, sizeof(checking->why), "there is no table %.64s", line->name);
		return false;
	}
	if (checking->table_depth && line->depth == checking->table_depth + 1 && !strcmp(line->kind, "Function")) {
		snprintf(checking->why, sizeof(checking->why), "table function %.64s is not allowed", line->name);
		return false;
	}
	if (!strcmp(line->kind, "TableExpression"))
		checking->table_depth = line->depth;
	else if (line->depth <= checking->table_depth)
		checking->table_depth = 0;
	if (!strcmp(line->kind, "Function") && is_refused_function(line->name)) {
		snprintf(checking->why, sizeof(checking->why), "function %.64s is not allowed", line->name);
		return false;
	}
	if (!strcmp(line->kind, "Function") &&
	    (!strcasecmp(line->name, "in") || strcasestr(line->name, "globalIn") || !strcasecmp(line->name, "notIn") ||
	     strcasestr(line->name, "globalNotIn") || strcasestr(line->name, "nullIn") ||
	     strcasestr(line->name, "notNullIn"))) {
		checking->in_depth = line->depth + 2;
		checking->in_argument = 0;
	}
	return strcmp(line->kind, "Set") && strcmp(line->kind, "InsertQuery");
}

static void note_names(const char *tree, struct names *names)
{
	struct line line;

	for (const char *at = tree; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		read_line(at, strcspn(at, "\n"), &line);
		if (strcmp(line.kind, "WithElement") && strcmp(line.kind, "WithElement,"))
			continue;
		if (names->count < NAMES_MAX && *line.name)
			snprintf(names->name[names->count++], sizeof(names->name[0]), "%s", line.name);
	}
}

// What a table of the store's own is called, apart from the views.
static bool is_own_table(const char *begin, const char *end)
{
	char name[128];
	size_t length = (size_t)(end - begin);

	if (length >= sizeof(name))
		return true;
	memcpy(name, begin, length);
	name[length] = '\0';
	return !strcmp(name, "chain") || !strcmp(name, "live") || !strncmp(name, "points_", 7) ||
	       (length > 5 && (!strcmp(name + length - 5, "_rows") || !strcmp(name + length - 5, "_part")));
}

// Names that WITH gives are not in the tree of every version: then they are taken from the text, where a name in front
// of "AS (" cannot be a table of the server's.
static void note_with(const char *sql, struct names *names)
{
	for (const char *at = sql; (at = strcasestr(at, "as")); at += 2) {
		const char *end = at, *begin, *after = at + 2;

		after += strspn(after, " \t\r\n");
		while (end > sql && strchr(" \t\r\n", end[-1]))
			end--;
		begin = end;
		while (begin > sql && (strchr("_", begin[-1]) || (begin[-1] >= '0' && begin[-1] <= '9') ||
				       ((begin[-1] | 32) >= 'a' && (begin[-1] | 32) <= 'z')))
			begin--;
		if (*after != '(' || end == at || begin == end || names->count >= NAMES_MAX || is_own_table(begin, end))
			continue;
		snprintf(names->name[names->count++], sizeof(names->name[0]), "%.*s", (int)(end - begin), begin);
	}
}

static int check(struct clickhouse_reader *reader, const char *sql, struct store_error *error)
{
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	CLEANUP(buf_free) struct buf tree = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 10000};
	struct checking checking = {0};
	struct line line;
	bool first = true;
	int err;

	buf_printf(&query, "EXPLAIN AST %s", sql);
	if (buf_error(&query) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = query.data;
	clickhouse_setting(&request, "readonly", "1");
	clickhouse_setting(&request, "default_format", "TabSeparatedRaw");
	err = clickhouse_http_text(reader->http, &request, &tree, error);
	if (err < 0)
		return err == -EIO || err == -ENOENT ? -EINVAL : err;
	note_names(tree.data, &checking.names);
	note_with(sql, &checking.names);
	for (const char *at = tree.data; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		read_line(at, strcspn(at, "\n"), &line);
		if (first && strcmp(line.kind, "SelectWithUnionQuery"))
			return store_fail(error, -EACCES, "only a SELECT is answered");
		first = false;
		if (!check_line(&checking, &line))
			return store_fail(error, -EACCES, "%s",
					  *checking.why ? checking.why : "only a SELECT is answered");
	}
	return first ? store_fail(error, -EINVAL, "an empty statement") : 0;
}

// ---- running it -----------------------------------------------------------------------------------------------------

struct answer {
	struct buf pending;
	struct arena arena;
	store_sql_columns_fn columns;
	store_sql_row_fn row;
	void *data;
	unsigned lines;
	uint64_t given, limit; // limit 0: none
	bool over;
};

static void value_of(struct arena *arena, yyjson_val *value, struct store_value *ret_value)
{
	char *text;

	*ret_value = (struct store_value){.type = STORE_VALUE_NULL};
	if (yyjson_is_null(value) || !value)
		return;
	if (yyjson_is_bool(value)) {
		ret_value->type = STORE_VALUE_U64;
		ret_value->u64 = yyjson_get_bool(value);
	} else if (yyjson_is_uint(value)) {
		ret_value->type = yyjson_get_uint(value) <= LAKE_U64_MAX ? STORE_VALUE_I64 : STORE_VALUE_U64;
		ret_value->u64 = yyjson_get_uint(value);
	} else if (yyjson_is_int(value)) {
		ret_value->type = STORE_VALUE_I64;
		ret_value->i64 = yyjson_get_sint(value);
	} else if (yyjson_is_real(value)) {
		ret_value->type = STORE_VALUE_F64;
		ret_value->f64 = yyjson_get_real(value);
	} else if (yyjson_is_str(value)) {
		ret_value->type = STORE_VALUE_TEXT;
		ret_value->text = yyjson_get_str(value);
		ret_value->length = yyjson_get_len(value);
	} else if ((text = yyjson_val_write(value, 0, &ret_value->length))) {
		ret_value->type = STORE_VALUE_TEXT;
		ret_value->text = arena_strndup(arena, text, ret_value->length);
		free(text);
	}
}

// Line 1 has the names, line 2 the types, then a row each.
static int take_line(struct answer *answer, const char *text, size_t length)
{
	yyjson_doc *document = yyjson_read(text, length, 0);
	yyjson_val *array = yyjson_doc_get_root(document), *item;
	yyjson_arr_iter each = yyjson_arr_iter_with(array);
	const char *names[VALUES_MAX];
	struct store_value values[VALUES_MAX];
	size_t count = 0;
	int err = yyjson_is_arr(array) && yyjson_arr_size(array) <= VALUES_MAX ? 0 : -EIO;

	arena_reset(&answer->arena);
	while (!err && (item = yyjson_arr_iter_next(&each))) {
		if (answer->lines == 0)
			names[count++] = yyjson_get_str(item) ? yyjson_get_str(item) : "";
		else
			value_of(&answer->arena, item, &values[count++]);
	}
	if (!err && answer->lines == 0) {
		err = answer->columns(answer->data, names, count);
	} else if (!err && answer->lines > 1) {
		answer->over = answer->limit && answer->given == answer->limit;
		err = answer->over ? -E2BIG : answer->row(answer->data, values, count);
		answer->given++;
	}
	answer->lines++;
	yyjson_doc_free(document);
	return err;
}

static int take_bytes(void *context, const char *bytes, size_t length)
{
	struct answer *answer = context;
	const char *at, *end;
	size_t left;
	int err = 0;

	buf_append(&answer->pending, bytes, length);
	if (buf_error(&answer->pending) < 0)
		return -ENOMEM;
	at = answer->pending.data;
	left = answer->pending.length;
	while (!err && (end = memchr(at, '\n', left))) {
		err = take_line(answer, at, (size_t)(end - at));
		left -= (size_t)(end + 1 - at);
		at = end + 1;
	}
	memmove(answer->pending.data, at, left);
	answer->pending.length = left;
	return err;
}

// The workspace under every table: a filter of the server's, which the statement cannot lift.
static int filters(struct clickhouse_reader *reader, const char *workspace, struct buf *out)
{
	CLEANUP(buf_free) struct buf name = BUF_INIT;
	static const char *const tables[] = {"processes_rows", "open_rows", "gaps_rows", "events_rows", NULL};
	const char *comma = "{";

	for (const char *c = workspace; *c; c++) {
		if (*c == '\'' || *c == '\\')
			buf_append_string(&name, *c == '\'' ? "\\\\\\'" : "\\\\\\\\");
		else
			buf_append_char(&name, *c);
	}
	if (buf_error(&name) < 0 || !name.data)
		return -ENOMEM;
	for (size_t i = 0; tables[i]; i++, comma = ",")
		buf_printf(out, "%s'%s.%s':'workspace = \\'%s\\''", comma, reader->url.database, tables[i], name.data);
	for (int id = 0; id < ENTITY_END; id++) {
		if (clickhouse_has_parts((enum schema_entity_id)id))
			buf_printf(out, ",'%s.%s_part':'workspace = \\'%s\\''", reader->url.database,
				   schema_entities[id].name, name.data);
	}
	buf_append_char(out, '}');
	return buf_error(out);
}

int clickhouse_sql(struct store_reader *base, const char *workspace, const char *sql,
		   const struct store_sql_limits *limits, store_sql_columns_fn columns, store_sql_row_fn row,
		   void *data, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	CLEANUP(buf_free) struct buf filter = BUF_INIT;
	struct answer answer = {.columns = columns, .row = row, .data = data, .limit = limits->rows};
	struct clickhouse_request request = {.body = take_bytes, .context = &answer};
	char seconds[24], memory[24], most[24];
	int err;

	if (strlen(sql) > SQL_MAX)
		return store_fail(error, -EINVAL, "a statement of more than %d bytes", SQL_MAX);
	err = check(reader, sql, error);
	if (err < 0)
		return err;
	if (workspace && (err = filters(reader, workspace, &filter)) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	buf_printf(&query, "SELECT * FROM (%s\n)", sql);
	if (limits->rows)
		buf_printf(&query, " LIMIT %" PRIu64, limits->rows + 1);
	buf_append_string(&query, " FORMAT JSONCompactEachRowWithNamesAndTypes");
	if (buf_error(&query) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = query.data;
	if (limits->time_ms) {
		snprintf(seconds, sizeof(seconds), "%" PRIu64, limits->time_ms / 1000 + 1);
		clickhouse_setting(&request, "max_execution_time", seconds);
		request.timeout_ms = limits->time_ms + 500;
	}
	snprintf(memory, sizeof(memory), "%" PRIu64, limits->memory_bytes);
	snprintf(most, sizeof(most), "%d", 256 << 20);
	if (limits->memory_bytes)
		clickhouse_setting(&request, "max_memory_usage", memory);
	clickhouse_setting(&request, "max_result_bytes", most);
	clickhouse_setting(&request, "output_format_json_quote_64bit_integers", "0");
	clickhouse_setting(&request, "output_format_json_quote_denormals", "0");
	clickhouse_setting(&request, "cancel_http_readonly_queries_on_client_close", "1");
	if (filter.length)
		clickhouse_setting(&request, "additional_table_filters", filter.data);
	clickhouse_setting(&request, "readonly", "1");
	arena_init(&answer.arena, 16 * 1024);
	err = clickhouse_http_run(reader->http, &request, error);
	arena_free(&answer.arena);
	buf_free(&answer.pending);
	if (answer.over)
		return store_fail(error, -E2BIG, "more than %" PRIu64 " rows", limits->rows);
	if (err == -EAGAIN && limits->time_ms)
		return store_fail(error, -ETIME, "longer than %" PRIu64 " ms", limits->time_ms);
	return err;
}
