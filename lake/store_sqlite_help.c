// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: errors as -errno with a sentence, statements, values in and out.

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lake/store_sqlite.h"

int sqlite_fail(sqlite3 *db, struct store_error *error, const char *what)
{
	int extended = sqlite3_extended_errcode(db), system = sqlite3_system_errno(db);
	const char *why = sqlite3_errmsg(db);

	switch (extended & 0xff) {
	case SQLITE_FULL:
		return store_fail(error, -ENOSPC, "%s: the disk of the lake is full: make room there", what);
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return store_fail(error, -EROFS, "%s: the lake cannot be written: %s", what, why);
	case SQLITE_IOERR:
		if (system == ENOSPC || system == EDQUOT)
			return store_fail(error, -ENOSPC, "%s: the disk of the lake is full: make room there", what);
		if (system == EROFS)
			return store_fail(error, -EROFS, "%s: the lake's file system is read-only", what);
		return store_fail(error, -EIO, "%s: %s (%s)", what, why, system ? strerror(system) : "no system error");
	case SQLITE_CANTOPEN:
		return store_fail(error,
				  system == EROFS    ? -EROFS
				  : system == ENOENT ? -ENOENT
						     : -EIO,
				  "%s: %s (%s)", what, why, system ? strerror(system) : "no system error");
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return store_fail(error, -EILSEQ, "%s: the lake is damaged: %s", what, why);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return store_fail(error, -EAGAIN, "%s: another process writes to the lake", what);
	case SQLITE_NOMEM:
		return store_fail(error, -ENOMEM, "%s: out of memory", what);
	case SQLITE_INTERRUPT:
		return store_fail(error, -ETIME, "%s: took longer than it may", what);
	case SQLITE_TOOBIG:
		return store_fail(error, -E2BIG, "%s: %s", what, why);
	case SQLITE_AUTH:
		return store_fail(error, -EACCES, "%s: %s", what, why);
	default:
		return store_fail(error, -EINVAL, "%s: %s", what, why);
	}
}

void cleanup_statement(sqlite3_stmt **statement)
{
	sqlite3_finalize(*statement);
}

int sqlite_prepare(sqlite3 *db, const char *sql, bool persistent, sqlite3_stmt **ret_statement,
		   struct store_error *error)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v3(db, sql, -1, persistent ? SQLITE_PREPARE_PERSISTENT : 0, &statement, NULL) != SQLITE_OK)
		return sqlite_fail(db, error, "statement");
	*ret_statement = statement;
	return 0;
}

int sqlite_run(sqlite3 *db, const char *sql, struct store_error *error)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return sqlite_fail(db, error, "lake");
	return 0;
}

int sqlite_runf(sqlite3 *db, struct store_error *error, const char *format, ...)
{
	char sql[512];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(sql, sizeof(sql), format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(sql))
		return store_fail(error, -EINVAL, "a statement is too long");
	return sqlite_run(db, sql, error);
}

int sqlite_number(sqlite3 *db, const char *sql, uint64_t *number, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(db, sql, false, &statement, error);

	if (status < 0)
		return status;
	status = sqlite3_step(statement);
	if (status != SQLITE_ROW && status != SQLITE_DONE)
		return sqlite_fail(db, error, "lake");
	if (status == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
		*number = (uint64_t)sqlite3_column_int64(statement, 0);
	return 0;
}

int sqlite_step_once(sqlite3 *db, sqlite3_stmt *statement, struct store_error *error)
{
	int status = sqlite3_step(statement);

	if (status != SQLITE_DONE && status != SQLITE_ROW)
		status = sqlite_fail(db, error, "lake");
	else
		status = 0;
	sqlite3_reset(statement);
	return status;
}

void sqlite_bind_u64(sqlite3_stmt *statement, int at, uint64_t value)
{
	if (value == LAKE_NULL)
		sqlite3_bind_null(statement, at);
	else
		sqlite3_bind_int64(statement, at, (sqlite3_int64)value);
}

void sqlite_bind_slot(sqlite3_stmt *statement, int at, union lake_slot slot, enum schema_type type)
{
	if (lake_slot_is_null(slot, type))
		sqlite3_bind_null(statement, at);
	else if (type == SCHEMA_TEXT || type == SCHEMA_JSON)
		sqlite3_bind_text(statement, at, slot.text->bytes, (int)slot.text->length, SQLITE_STATIC);
	else if (type == SCHEMA_F64)
		sqlite3_bind_double(statement, at, slot.f64);
	else
		sqlite3_bind_int64(statement, at, slot.i64);
}

uint64_t sqlite_column_u64(sqlite3_stmt *statement, int at)
{
	return sqlite3_column_type(statement, at) == SQLITE_NULL ? LAKE_NULL
								 : (uint64_t)sqlite3_column_int64(statement, at);
}

int sqlite_column_slot(sqlite3_stmt *statement, int at, enum schema_type type, struct arena *arena,
		       union lake_slot *ret_slot)
{
	// One look at the row for type and value: this is called for every value that is read.
	sqlite3_value *value = sqlite3_column_value(statement, at);
	bool null = sqlite3_value_type(value) == SQLITE_NULL;
	struct lake_text *text;
	size_t length;

	switch (type) {
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		ret_slot->text = NULL;
		if (null)
			return 0;
		length = (size_t)sqlite3_value_bytes(value);
		text = arena_alloc(arena, sizeof(*text) + length + 1);
		if (!text)
			return -ENOMEM;
		*text = (struct lake_text){.length = (uint32_t)length};
		if (length)
			memcpy(text->bytes, sqlite3_value_blob(value), length);
		text->bytes[length] = '\0';
		ret_slot->text = text;
		return 0;
	case SCHEMA_F64:
		ret_slot->f64 = null ? __builtin_nan("") : sqlite3_value_double(value);
		return 0;
	case SCHEMA_I64:
		ret_slot->i64 = null ? LAKE_I64_NULL : sqlite3_value_int64(value);
		return 0;
	default:
		ret_slot->u64 = null ? LAKE_NULL : (uint64_t)sqlite3_value_int64(value);
		return 0;
	}
}
