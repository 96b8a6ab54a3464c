// SPDX-License-Identifier: Apache-2.0
// A JSON writer for the hot path: appends to a buf, allocates nothing of its own, one object a line.
// (Reading JSON is yyjson's work.) Strings that are not valid UTF-8 are written with U+FFFD for each bad byte;
// control characters are escaped, so a record is always one line and never carries a terminal escape.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
void json_key(struct json *json, const char *key); // key: plain ASCII, not escaped

void json_u64(struct json *json, uint64_t value);
void json_i64(struct json *json, int64_t value);
void json_double(struct json *json, double value); // NaN and infinities become null
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
void json_string(struct json *json, const char *text); // NULL becomes null
void json_string_n(struct json *json, const char *text, size_t length);

// key and value in one call
void json_put_u64(struct json *json, const char *key, uint64_t value);
void json_put_i64(struct json *json, const char *key, int64_t value);
void json_put_double(struct json *json, const char *key, double value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_null(struct json *json, const char *key);
void json_put_string(struct json *json, const char *key, const char *text);

// UINT64_MAX means unknown and is written as null.
#define JSON_UNKNOWN UINT64_MAX
void json_put_known_u64(struct json *json, const char *key, uint64_t value);

// Ends a record with a newline.
void json_end_line(struct json *json);
