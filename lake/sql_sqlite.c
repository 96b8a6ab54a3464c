// SPDX-License-Identifier: Apache-2.0
// SQL of strangers over a SQLite lake. Each question has a connection of its own: an empty database in memory, the lake
// attached read-only under a random name that cannot be guessed, and a temporary view for each entity, bound to one
// workspace. Every table of the lake has its name taken by such a view, so a name without a schema never reaches the
// lake itself; the authorizer lets nothing but SELECT, known functions and these views pass. Memory is counted for the
// thread that runs the question, because SQLite's own limits hold for the whole process.

#include <errno.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/json.h"
#include "lake/images.h"
#include "lake/sql_sqlite.h"

enum {
	SQL_TEXT_MAX = 64 * 1024,
	SQL_VALUE_MAX = 256 * 1024, // a string or blob, so that no single step of the engine takes long
	SQL_STEPS = 1000, // of the virtual machine between two looks at the clock
};

// --- memory of the thread that runs a question -------------------------------------------------------------------

static _Thread_local struct {
	bool counted, refused;
	int64_t used, max;
} budget;

static bool budget_take(int64_t size)
{
	if (!budget.counted)
		return true;
	if (budget.used + size > budget.max) {
		budget.refused = true;
		return false;
	}
	return true;
}

static void *budget_malloc(int size)
{
	void *memory = budget_take(size) ? malloc((size_t)size) : NULL;

	if (memory && budget.counted)
		budget.used += (int64_t)malloc_usable_size(memory);
	return memory;
}

static void budget_free(void *memory)
{
	if (budget.counted && memory)
		budget.used -= (int64_t)malloc_usable_size(memory);
	free(memory);
}

static void *budget_realloc(void *memory, int size)
{
	int64_t before = memory ? (int64_t)malloc_usable_size(memory) : 0;
	void *moved;

	if (size > before && !budget_take(size - before))
		return NULL;
	moved = realloc(memory, (size_t)size);
	if (moved && budget.counted)
		budget.used += (int64_t)malloc_usable_size(moved) - before;
	return moved;
}

static int budget_size(void *memory)
{
	return memory ? (int)malloc_usable_size(memory) : 0;
}

static int budget_roundup(int size)
{
	return (size + 7) & ~7;
}

static int budget_init(void *data)
{
	(void)data;
	return SQLITE_OK;
}

static void budget_shutdown(void *data)
{
	(void)data;
}

// SQLite makes paths absolute. One that begins with ./ is meant so: its user may reach its directory from within only.
static int (*path_whole)(sqlite3_vfs *, const char *, int, char *);

static int path_as_named(sqlite3_vfs *vfs, const char *path, int size, char *out)
{
	if (strncmp(path, "./", 2) != 0 || strlen(path) >= (size_t)size)
		return path_whole(vfs, path, size, out);
	memcpy(out, path, strlen(path) + 1);
	return SQLITE_OK;
}

static void paths_setup(void)
{
	static sqlite3_vfs vfs;
	const sqlite3_vfs *base = sqlite3_vfs_find(NULL);

	if (!base || path_whole)
		return;
	vfs = *base;
	vfs.zName = "tracer";
	path_whole = vfs.xFullPathname;
	vfs.xFullPathname = path_as_named;
	sqlite3_vfs_register(&vfs, 1);
}

int sql_sqlite_setup(void)
{
	static const sqlite3_mem_methods methods = {
		.xMalloc = budget_malloc,
		.xFree = budget_free,
		.xRealloc = budget_realloc,
		.xSize = budget_size,
		.xRoundup = budget_roundup,
		.xInit = budget_init,
		.xShutdown = budget_shutdown,
	};
	static bool done;

	done = done || sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK;
	paths_setup();
	return done ? 0 : -EBUSY;
}

// --- one question ------------------------------------------------------------------------------------------------

struct sql {
	sqlite3 *db;
	sqlite3_stmt *statement;
	const struct store_sql_limits *limits;
	struct store_error *error;
	char schema[40]; // the lake's random name
	uint64_t deadline_ns;
	bool late;
	char refused[160]; // what the authorizer did not let pass
};

static void sql_close(struct sql *sql)
{
	sqlite3_finalize(sql->statement);
	sqlite3_close(sql->db);
	memset(&budget, 0, sizeof(budget));
}

static int sql_progress(void *data)
{
	struct sql *sql = data;

	sql->late = clock_boot_ns() >= sql->deadline_ns;
	return sql->late;
}

static bool sql_word_in(const char *const *words, const char *word)
{
	for (; *words; words++) {
		if (!strcasecmp(*words, word))
			return true;
	}
	return false;
}

// Functions whose work is bounded by the size of a value or of the rows read, and that tell nothing about the process.
static const char *const sql_functions[] = {
	"->",
	"->>",
	"abs",
	"avg",
	"ceil",
	"ceiling",
	"char",
	"coalesce",
	"concat",
	"concat_ws",
	"count",
	"cume_dist",
	"date",
	"datetime",
	"dense_rank",
	"exp",
	"first_value",
	"floor",
	"format",
	"glob",
	"group_concat",
	"hex",
	"if",
	"ifnull",
	"iif",
	"instr",
	"json",
	"json_array",
	"json_array_length",
	"json_each",
	"json_extract",
	"json_group_array",
	"json_group_object",
	"json_object",
	"json_quote",
	"json_tree",
	"json_type",
	"json_valid",
	"julianday",
	"lag",
	"last_value",
	"lead",
	"length",
	"like",
	"likelihood",
	"likely",
	"ln",
	"log",
	"log10",
	"log2",
	"lower",
	"ltrim",
	"max",
	"min",
	"mod",
	"nth_value",
	"ntile",
	"nullif",
	"octet_length",
	"percent_rank",
	"pow",
	"power",
	"printf",
	"quote",
	"rank",
	"replace",
	"round",
	"row_number",
	"rtrim",
	"sign",
	"sqrt",
	"strftime",
	"string_agg",
	"substr",
	"substring",
	"sum",
	"time",
	"timediff",
	"total",
	"trim",
	"trunc",
	"typeof",
	"unicode",
	"unixepoch",
	"unlikely",
	"upper",
	NULL,
};

static int sql_refuse(struct sql *sql, const char *what, const char *name)
{
	if (!*sql->refused)
		snprintf(sql->refused, sizeof(sql->refused), "%s%s%.80s is not allowed here", what, name ? " " : "",
			 name ? name : "");
	return SQLITE_DENY;
}

// A column of table is read; schema is NULL for what is no table of any (a common table expression).
static int sql_read(struct sql *sql, const char *table, const char *schema)
{
	static const char *const generated[] = {"json_each", "json_tree", NULL};

	if (schema && !strcmp(schema, sql->schema))
		return strncasecmp(table, "sqlite_", 7) ? SQLITE_OK : sql_refuse(sql, "the table", table);
	if (schema && !strcmp(schema, "temp"))
		return schema_entity_find(table) ? SQLITE_OK : sql_refuse(sql, "the table", table);
	if (!strncasecmp(table, "sqlite_", 7) || !strncasecmp(table, "pragma_", 7))
		return sql_refuse(sql, "the table", table);
	if (!schema || sql_word_in(generated, table))
		return SQLITE_OK;
	return sql_refuse(sql, "the table", table);
}

static int sql_authorize(void *data, int action, const char *first, const char *second, const char *schema,
			 const char *inner)
{
	struct sql *sql = data;

	(void)inner; // the name of a common table expression would do, so it proves nothing
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_READ:
		return sql_read(sql, first ? first : "", schema);
	case SQLITE_FUNCTION:
		return second && (!strcmp(second, sql->schema) || sql_word_in(sql_functions, second))
			       ? SQLITE_OK
			       : sql_refuse(sql, "the function", second);
	case SQLITE_PRAGMA:
		return sql_refuse(sql, "PRAGMA", NULL);
	case SQLITE_ATTACH:
	case SQLITE_DETACH:
		return sql_refuse(sql, "ATTACH", NULL);
	default:
		return sql_refuse(sql, "anything but SELECT", NULL);
	}
}

// instr() of the engine compares at every place, which is quadratic; this one is linear.
static void sql_instr(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *text, *part, *found;
	int length, part_length;
	sqlite3_int64 at = 0;

	(void)count;
	if (sqlite3_value_type(values[0]) == SQLITE_NULL || sqlite3_value_type(values[1]) == SQLITE_NULL)
		return;
	text = (const char *)sqlite3_value_text(values[0]);
	part = (const char *)sqlite3_value_text(values[1]);
	length = sqlite3_value_bytes(values[0]);
	part_length = sqlite3_value_bytes(values[1]);
	if (!text || !part) {
		sqlite3_result_error_nomem(context);
		return;
	}
	found = part_length ? memmem(text, (size_t)length, part, (size_t)part_length) : text;
	for (const char *c = text; found && c <= found; c++)
		at += c == found || ((uint8_t)*c & 0xc0) != 0x80;
	sqlite3_result_int64(context, at);
}

static void sql_limit(sqlite3 *db)
{
	static const struct {
		int id, value;
	} limits[] = {
		{SQLITE_LIMIT_LENGTH, SQL_VALUE_MAX}, {SQLITE_LIMIT_SQL_LENGTH, SQL_TEXT_MAX},
		{SQLITE_LIMIT_COLUMN, 400},	      {SQLITE_LIMIT_EXPR_DEPTH, 100},
		{SQLITE_LIMIT_COMPOUND_SELECT, 500}, // processes have one part a day
		{SQLITE_LIMIT_VDBE_OP, 1000000},      {SQLITE_LIMIT_FUNCTION_ARG, 32},
		{SQLITE_LIMIT_ATTACHED, 1},	      {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200},
		{SQLITE_LIMIT_VARIABLE_NUMBER, 0},    {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
		{SQLITE_LIMIT_WORKER_THREADS, 0},
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		sqlite3_limit(db, limits[i].id, limits[i].value);
}

static int sql_exec(struct sql *sql, const char *format, ...)
{
	va_list list;
	char *text;
	int rc;

	va_start(list, format);
	text = sqlite3_vmprintf(format, list);
	va_end(list);
	rc = text ? sqlite3_exec(sql->db, text, NULL, NULL, NULL) : SQLITE_NOMEM;
	sqlite3_free(text);
	return rc;
}

// file:PATH with what a URI gives a meaning to escaped.
static int sql_attach(struct sql *sql, const char *path)
{
	CLEANUP(buf_free) struct buf uri = BUF_INIT;
	uint8_t random[16];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	sql->schema[0] = 'x';
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(sql->schema + 1 + 2 * i, 3, "%02x", random[i]);
	buf_append_string(&uri, "file:");
	for (; *path; path++) {
		if (strchr("?#%", *path))
			buf_printf(&uri, "%%%02x", (unsigned char)*path);
		else
			buf_append_char(&uri, *path);
	}
	buf_append_string(&uri, "?mode=ro");
	if (buf_error(&uri) < 0)
		return -ENOMEM;
	return sql_exec(sql, "ATTACH %Q AS %s", uri.data, sql->schema) == SQLITE_OK ? 0 : -EIO;
}

// Takes the name of every table of the lake, so that it cannot be reached without the lake's random name.
static int sql_shadow(struct sql *sql)
{
	CLEANUP(buf_free) struct buf names = BUF_INIT;
	sqlite3_stmt *tables = NULL;
	char *text = sqlite3_mprintf("SELECT name FROM %s.sqlite_schema WHERE type IN ('table', 'view')", sql->schema);
	int rc = text ? sqlite3_prepare_v2(sql->db, text, -1, &tables, NULL) : SQLITE_NOMEM;

	sqlite3_free(text);
	while (rc == SQLITE_OK && sqlite3_step(tables) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(tables, 0);

		if (name && !schema_entity_find(name) && strncmp(name, "sqlite_", 7) != 0)
			buf_append(&names, name, strlen(name) + 1);
	}
	sqlite3_finalize(tables);
	if (rc != SQLITE_OK || buf_error(&names) < 0)
		return -EIO;
	for (size_t i = 0; i < names.length; i += strlen(names.data + i) + 1) {
		if (sql_exec(sql, "CREATE TEMP VIEW \"%w\" AS SELECT 0 WHERE 0", names.data + i) != SQLITE_OK)
			return -EIO;
	}
	return 0;
}

// What a process was before its last program is kept packed; this makes it JSON again. It has the lake's random name,
// so that nobody can hand it bytes of his own.
static void sql_images(sqlite3_context *context, int count, sqlite3_value **values)
{
	const void *packed = sqlite3_value_blob(values[0]);
	const char *tool = (const char *)sqlite3_value_text(values[2]);
	size_t size = (size_t)sqlite3_value_bytes(values[0]), tool_size = (size_t)sqlite3_value_bytes(values[2]);
	CLEANUP(arena_free) struct arena arena;
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct json json = json_to(&out);
	struct lake_text *text = NULL;
	struct lake_image *images;
	size_t image_count;

	(void)count;
	arena_init(&arena, 4096);
	if (sqlite3_value_type(values[0]) != SQLITE_BLOB) {
		sqlite3_result_value(context, values[0]);
		return;
	}
	if (tool) {
		text = arena_alloc(&arena, sizeof(*text) + tool_size + 1);
		if (text) {
			text->length = (uint32_t)tool_size;
			memcpy(text->bytes, tool, tool_size + 1);
		}
	}
	if (images_unpack(packed, size, (uint64_t)sqlite3_value_int64(values[1]), text, &arena, &images, &image_count) <
	    0)
		return;
	lake_images_json(images, image_count, &json);
	if (out.length > SQL_VALUE_MAX)
		sqlite3_result_error_toobig(context);
	else if (buf_error(&out) == 0)
		sqlite3_result_text(context, out.data, (int)out.length, SQLITE_TRANSIENT);
}

// A view for each entity, with the columns that the schema declares and the rows of one workspace.
static int sql_views(struct sql *sql, const char *workspace)
{
	for (int id = 0; id < ENTITY_END; id++) {
		const struct schema_entity *entity = &schema_entities[id];
		CLEANUP(buf_free) struct buf columns = BUF_INIT;
		int rc;

		for (unsigned i = 0; i < entity->column_count; i++) {
			if (id == ENTITY_PROCESSES && i == PROCESSES_images)
				buf_printf(&columns, ",%s(images,start_ns,tool) AS images", sql->schema);
			else
				buf_printf(&columns, "%s\"%s\"", i ? "," : "", entity->columns[i].name);
		}
		if (buf_error(&columns) < 0)
			return -ENOMEM;
		if (workspace)
			rc = sql_exec(sql,
				      "CREATE TEMP VIEW \"%w\" AS SELECT %s FROM %s.\"%w\" WHERE "
				      "workspace = %Q",
				      entity->name, columns.data, sql->schema, entity->name, workspace);
		else
			rc = sql_exec(sql, "CREATE TEMP VIEW \"%w\" AS SELECT %s FROM %s.\"%w\"", entity->name,
				      columns.data, sql->schema, entity->name);
		if (rc != SQLITE_OK)
			return -EIO;
	}
	return 0;
}

static int sql_open(struct sql *sql, const char *path, const char *workspace)
{
	static const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
				  SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, SQLITE_DBCONFIG_DQS_DML,
				  SQLITE_DBCONFIG_DQS_DDL};
	int error;

	if (sqlite3_open_v2(":memory:", &sql->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
			    NULL) != SQLITE_OK)
		return -ENOMEM;
	sqlite3_db_config(sql->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		sqlite3_db_config(sql->db, off[i], 0, NULL);
	sqlite3_busy_timeout(sql->db, 2000);
	error = sql_attach(sql, path);
	if (error == 0 && sql_exec(sql, "PRAGMA temp_store=2; PRAGMA %s.cache_size=-8192", sql->schema) != SQLITE_OK)
		error = -EIO;
	if (error == 0)
		error = sql_shadow(sql);
	if (error == 0)
		sqlite3_create_function(sql->db, sql->schema, 3, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
					NULL, sql_images, NULL, NULL);
	if (error == 0)
		error = sql_views(sql, workspace);
	if (error < 0)
		return error;
	sqlite3_create_function(sql->db, "instr", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
				sql_instr, NULL, NULL);
	sqlite3_exec(sql->db, "PRAGMA query_only=1", NULL, NULL, NULL);
	sql_limit(sql->db);
	sqlite3_set_authorizer(sql->db, sql_authorize, sql);
	sqlite3_progress_handler(sql->db, SQL_STEPS, sql_progress, sql);
	return 0;
}

__attribute__((format(printf, 3, 4))) static int sql_fail(struct sql *sql, int code, const char *format, ...)
{
	va_list list;

	sql->error->code = code;
	va_start(list, format);
	vsnprintf(sql->error->text, sizeof(sql->error->text), format, list);
	va_end(list);
	return code;
}

// Why the engine gave up, in the order of what explains the rest. The lake's name is a secret and in no message.
static int sql_failed(struct sql *sql, int rc)
{
	const char *text = sqlite3_errmsg(sql->db);

	if (*sql->refused)
		return sql_fail(sql, -EACCES, "%s", sql->refused);
	if (sql->late)
		return sql_fail(sql, -ETIME, "stopped after %.1f s: narrow it down, or ask for more time",
				(double)sql->limits->time_ms / 1e3);
	if (budget.refused || rc == SQLITE_NOMEM)
		return sql_fail(sql, -ENOMEM, "stopped: it needs more than %llu MiB of memory",
				(unsigned long long)(sql->limits->memory_bytes >> 20));
	if (rc == SQLITE_TOOBIG)
		return sql_fail(sql, -EINVAL, "a value of more than %d KiB, or a question of more than %d KiB",
				SQL_VALUE_MAX / 1024, SQL_TEXT_MAX / 1024);
	if (rc == SQLITE_CORRUPT || rc == SQLITE_NOTADB)
		return sql_fail(sql, -EILSEQ, "the lake is damaged: see tracer datalake check");
	if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED)
		return sql_fail(sql, -EAGAIN, "the lake is busy");
	if (strstr(text, sql->schema))
		return sql_fail(sql, -EINVAL, "the question cannot be run");
	return sql_fail(sql, -EINVAL, "%s", text);
}

// One SELECT and nothing behind it.
static int sql_prepare(struct sql *sql, const char *text)
{
	const char *tail = NULL;
	sqlite3_stmt *more = NULL;
	int rc = sqlite3_prepare_v3(sql->db, text, -1, 0, &sql->statement, &tail);

	if (rc != SQLITE_OK)
		return sql_failed(sql, rc);
	if (!sql->statement || sqlite3_stmt_isexplain(sql->statement) || !sqlite3_stmt_readonly(sql->statement))
		return sql_fail(sql, -EACCES, "one SELECT is what can be asked");
	// What follows may be blanks, comments and semicolons.
	while (tail && *tail) {
		rc = sqlite3_prepare_v3(sql->db, tail, -1, 0, &more, &tail);
		if (more || rc != SQLITE_OK) {
			sqlite3_finalize(more);
			return sql_fail(sql, -EACCES, "one SELECT is what can be asked; there is more behind it");
		}
	}
	return 0;
}

static void sql_take(sqlite3_stmt *statement, int column, struct store_value *value)
{
	*value = (struct store_value){.type = STORE_VALUE_NULL};
	switch (sqlite3_column_type(statement, column)) {
	case SQLITE_INTEGER:
		value->type = STORE_VALUE_I64;
		value->i64 = sqlite3_column_int64(statement, column);
		break;
	case SQLITE_FLOAT:
		value->type = STORE_VALUE_F64;
		value->f64 = sqlite3_column_double(statement, column);
		break;
	case SQLITE_TEXT:
	case SQLITE_BLOB:
		value->type = STORE_VALUE_TEXT;
		value->text = (const char *)sqlite3_column_blob(statement, column);
		value->length = (size_t)sqlite3_column_bytes(statement, column);
		value->text = value->text ? value->text : "";
		break;
	default:
		break;
	}
}

static int sql_names(struct sql *sql, size_t count, store_sql_columns_fn columns, void *data)
{
	CLEANUP(cleanup_free) const char **names = calloc(count, sizeof(*names));

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		names[i] = sqlite3_column_name(sql->statement, (int)i);
		if (!names[i])
			return -ENOMEM;
	}
	return columns(data, names, count);
}

static int sql_rows(struct sql *sql, store_sql_columns_fn columns, store_sql_row_fn row, void *data)
{
	size_t count = (size_t)sqlite3_column_count(sql->statement);
	CLEANUP(cleanup_free) struct store_value *values = calloc(count, sizeof(*values));
	int error = values ? sql_names(sql, count, columns, data) : -ENOMEM;
	uint64_t rows = 0;
	int rc = SQLITE_DONE;

	while (error == 0 && (rc = sqlite3_step(sql->statement)) == SQLITE_ROW) {
		if (sql->limits->rows && rows++ == sql->limits->rows)
			return sql_fail(sql, -E2BIG, "there are more than %llu rows",
					(unsigned long long)sql->limits->rows);
		for (size_t i = 0; i < count; i++)
			sql_take(sql->statement, (int)i, &values[i]);
		error = row(data, values, count);
	}
	return error != 0 ? error : rc == SQLITE_DONE ? 0 : sql_failed(sql, rc);
}

int sql_sqlite_run(const char *path, const char *workspace, const char *text, const struct store_sql_limits *limits,
		   store_sql_columns_fn columns, store_sql_row_fn row, void *data, struct store_error *error)
{
	CLEANUP(sql_close) struct sql sql = {.limits = limits, .error = error};
	int result;

	sql.deadline_ns = limits->time_ms ? clock_boot_ns() + limits->time_ms * 1000000 : UINT64_MAX;
	budget.max = limits->memory_bytes ? (int64_t)limits->memory_bytes : INT64_MAX;
	budget.counted = true;
	result = sql_open(&sql, path, workspace);
	if (result < 0)
		return sql_fail(&sql, result, "the lake cannot be opened for reading: %s",
				sql.db ? sqlite3_errmsg(sql.db) : "no memory");
	result = sql_prepare(&sql, text);
	return result < 0 ? result : sql_rows(&sql, columns, row, data);
}
