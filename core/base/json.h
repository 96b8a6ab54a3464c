// SPDX-License-Identifier: Apache-2.0
// A JSON writer for the hot path: appends to a buf, allocates nothing of its own, one object a line.
// (Reading JSON is yyjson's work.) Strings that are not valid UTF-8 are written with U+FFFD for each bad byte;
// control characters are escaped, so a record is always one line and never carries a terminal escape.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/buf.h"

struct json {
	struct buf *out;
	bool comma; // a value was written at this level: the next one needs a comma
};

static inline struct json json_to(struct buf *out)
{
	return (struct json){ .out = out };
}

void json_open_object(struct json *json);
void json_close_object(struct json *json);
void json_open_array(struct json *json);
void json_close_array(struct json *json);
void json_u64(struct json *json, uint64_t value);
void json_i64(struct json *json, int64_t value);
void json_double(struct json *json, double value); // NaN and infinities become null
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
void json_string(struct json *json, const char *text); // NULL becomes null
void json_string_n(struct json *json, const char *text, size_t length);

// Text that is JSON already: one value, or members with the commas between and before them.
void json_raw(struct json *json, const char *text, size_t length);

// UINT64_MAX means unknown and is written as null.
#define JSON_UNKNOWN UINT64_MAX

// The same with a key (plain ASCII, not escaped) of length bytes before the value. What is called are the inline
// functions behind, which know the length of a literal key without counting.
void json_key_n(struct json *json, const char *key, size_t length);
void json_put_u64_n(struct json *json, const char *key, size_t length, uint64_t value);
void json_put_i64_n(struct json *json, const char *key, size_t length, int64_t value);
void json_put_double_n(struct json *json, const char *key, size_t length, double value);
void json_put_bool_n(struct json *json, const char *key, size_t length, bool value);
void json_put_null_n(struct json *json, const char *key, size_t length);
void json_put_string_n(struct json *json, const char *key, size_t length, const char *text);
void json_put_known_u64_n(struct json *json, const char *key, size_t length, uint64_t value);

static inline void json_key(struct json *json, const char *key)
{
	json_key_n(json, key, strlen(key));
}

static inline void json_put_u64(struct json *json, const char *key, uint64_t value)
{
	json_put_u64_n(json, key, strlen(key), value);
}

static inline void json_put_i64(struct json *json, const char *key, int64_t value)
{
	json_put_i64_n(json, key, strlen(key), value);
}

static inline void json_put_double(struct json *json, const char *key, double value)
{
	json_put_double_n(json, key, strlen(key), value);
}

static inline void json_put_bool(struct json *json, const char *key, bool value)
{
	json_put_bool_n(json, key, strlen(key), value);
}

static inline void json_put_null(struct json *json, const char *key)
{
	json_put_null_n(json, key, strlen(key));
}

static inline void json_put_string(struct json *json, const char *key, const char *text)
{
	json_put_string_n(json, key, strlen(key), text);
}

static inline void json_put_known_u64(struct json *json, const char *key, uint64_t value)
{
	json_put_known_u64_n(json, key, strlen(key), value);
}

// Many numbers of one struct, each a uint64_t or unknown, in one call: about a third of the cost.
struct json_field {
	char text[29]; // with the comma, quotes and colon around the key
	uint8_t length; // of text
	uint16_t offset; // in the struct
};

#define JSON_FIELD(type, member, key) { ",\"" key "\":", sizeof(key) + 3, offsetof(type, member) }

void json_put_fields(struct json *json, const struct json_field *fields, size_t count, const void *values);
// Those that are not 0.
void json_put_nonzero_fields(struct json *json, const struct json_field *fields, size_t count, const void *values);

// The bare values, for rows of many: out has room, JSON_U64_SIZE or JSON_STRING_SIZE(length) bytes. The place after
// what was written is returned, where nothing is yet, no NUL either.
#define JSON_U64_SIZE 20
#define JSON_STRING_SIZE(length) ((length) * 6 + 2)
char *json_write_u64(char *out, uint64_t value);
char *json_write_string(char *out, const char *text, size_t length);

// Ends a record with a newline.
void json_end_line(struct json *json);
