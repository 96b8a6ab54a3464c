// SPDX-License-Identifier: Apache-2.0
// The one way to ask the lake, for the API, the command line and analysis: parameters in (docs/api.md has the grammar),
// typed rows out, written as JSON, NDJSON or CSV.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/json.h"
#include "lake/query_parameter.h"
#include "lake/store.h"

enum query_format { QUERY_JSON, QUERY_NDJSON, QUERY_CSV };

enum {
	QUERY_LIMIT_DEFAULT = 100,
	QUERY_LIMIT_MAX = 10000, // rows of a page
	QUERY_TIME_LIMIT_MS = 30000,
};

// What is wrong with a question, for the person who asked.
struct query_error {
	const char *code; // stable word: "unknown_parameter", "bad_value", ...
	char parameter[80]; // which one; "": none
	char text[320];
};

struct query {
	struct store_query select; // points into this struct: do not copy it
	struct store_filter filters[STORE_FILTERS_MAX];
	uint8_t columns[SCHEMA_COLUMNS_MAX];
};

// Reads filters (COLUMN=VALUE, COLUMN.OPERATOR=VALUE), since, until, sort, limit, cursor and fields. Values are
// allocated in the arena of parameters. Parameters it does not know stay unread: query_reject_unused() ends the
// parsing. workspace NULL: all. 0, or -EINVAL with error filled, or -ENOMEM. now_ns: Unix time, for relative times.
int query_parse(struct query *query, enum schema_entity_id entity, const char *workspace,
		struct query_parameters *parameters, uint64_t now_ns, struct query_error *error);

// Adds a filter of the caller's own. -E2BIG: too many.
int query_filter_u64(struct query *query, unsigned column, enum store_operator op, uint64_t value);

// -EINVAL with error filled when something was given that nobody read.
int query_reject_unused(struct query_parameters *parameters, const struct schema_entity *entity,
			struct query_error *error);

__attribute__((format(printf, 4, 5))) int query_fail(struct query_error *error, const char *code, const char *parameter,
						     const char *format,
						     ...); // -EINVAL

// A number as people write it: 12, 1e9, 1.5G (columns in bytes: powers of 1024), 90s (in ns), a time (2026-01-31,
// 2026-01-31T10:00:00Z, -2h: that long ago) for columns that are moments. False: it is none of these.
enum query_unit { QUERY_UNIT_NONE, QUERY_UNIT_NS, QUERY_UNIT_BYTES, QUERY_UNIT_MOMENT };
bool query_number(const char *text, enum query_unit unit, uint64_t now_ns, uint64_t *ret_value);
enum query_unit query_column_unit(const char *name);

// Ids are 63 bits wide, more than a JSON reader in a browser keeps: they are written as strings.
bool query_column_is_id(const struct schema_column *column);

// The column that since and until speak of.
unsigned query_time_column(enum schema_entity_id entity);

// --- writing rows ------------------------------------------------------------------------------------------------

struct query_writer {
	enum query_format format;
	const struct schema_entity *entity;
	size_t column_count;
	uint8_t columns[SCHEMA_COLUMNS_MAX];
	bool id[SCHEMA_COLUMNS_MAX]; // by position: query_column_is_id()
	bool compact; // JSON rows as arrays of values instead of objects
	uint64_t rows;
	size_t room; // of a row, without its texts
	uint8_t texts[SCHEMA_COLUMNS_MAX]; // columns that are text or JSON
	size_t text_count;
	struct buf *out;
};

// NULL columns: all.
struct query_writer query_writer_to(struct buf *out, enum query_format format, const struct schema_entity *entity,
				    const uint8_t *columns, size_t column_count);
void query_write_heading(struct query_writer *writer); // CSV: the names; else nothing
void query_write_row(struct query_writer *writer, const union lake_slot *slot);
// One value as JSON.
void query_write_slot(struct json *json, const struct schema_column *column, union lake_slot slot);
// One field of a CSV line, quoted where needed (RFC 4180).
void query_write_csv(struct buf *out, const char *text, size_t length);
