// SPDX-License-Identifier: Apache-2.0
// Base: the JSON writer. On the path of every record, so each call reserves once and then stores directly.
// Invariant: what it writes is valid UTF-8 and holds no control character, whatever bytes come in.
#include "core/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"

#define U64_DIGITS 20
#define DOUBLE_CHARS 32

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
			    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
			    "8081828384858687888990919293949596979899";

static unsigned int digits_of(uint64_t value)
{
	unsigned int digits = 1;

	for (; value >= 10000; value /= 10000)
		digits += 4;
	return digits + (value >= 10) + (value >= 100) + (value >= 1000);
}

// Two digits a division. out has room for U64_DIGITS. Returns the position after the number.
static char *write_u64(char *out, uint64_t value)
{
	char *end = out + digits_of(value), *next = end;

	while (value >= 100) {
		next -= 2;
		memcpy(next, pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10)
		memcpy(next - 2, pairs + value * 2, 2);
	else
		next[-1] = (char)('0' + value);
	return end;
}

// Room for size bytes and a comma where one is due; NULL when memory is out.
static char *begin(struct json *json, size_t size)
{
	char *next;

	if (buf_reserve(json->out, size + 1) < 0)
		return NULL;
	next = json->out->data + json->out->length;
	if (json->comma)
		*next++ = ',';
	return next;
}

static void end(struct json *json, char *next, bool comma)
{
	*next = '\0';
	json->out->length = (size_t)(next - json->out->data);
	json->comma = comma;
}

// Keys and most values are short, where calling musl's memcpy costs more than copying: inline, by words that overlap
// at the end.
static char *copy(char *out, const char *text, size_t length)
{
	if (length > 64) {
		memcpy(out, text, length);
	} else if (length >= 8) {
		for (size_t i = 0; i < length - 8; i += 8)
			memcpy(out + i, text + i, 8);
		memcpy(out + length - 8, text + length - 8, 8);
	} else if (length >= 4) {
		memcpy(out, text, 4);
		memcpy(out + length - 4, text + length - 4, 4);
	} else if (length > 0) {
		out[0] = text[0];
		out[length / 2] = text[length / 2];
		out[length - 1] = text[length - 1];
	}
	return out + length;
}

static char *write_key(char *next, const char *key, size_t length)
{
	*next++ = '"';
	next = copy(next, key, length);
	*next++ = '"';
	*next++ = ':';
	return next;
}

// As begin(), with the key already written and room for size more bytes.
static char *begin_keyed(struct json *json, const char *key, size_t size)
{
	size_t length = strlen(key);
	char *next = begin(json, length + 3 + size);

	return next ? write_key(next, key, length) : NULL;
}

static void mark(struct json *json, char c, bool comma)
{
	char *next = begin(json, 1);

	if (!next)
		return;
	*next++ = c;
	end(json, next, comma);
}

void json_open_object(struct json *json)
{
	mark(json, '{', false);
}

void json_open_array(struct json *json)
{
	mark(json, '[', false);
}

void json_close_object(struct json *json)
{
	json->comma = false;
	mark(json, '}', true);
}

void json_close_array(struct json *json)
{
	json->comma = false;
	mark(json, ']', true);
}

void json_end_line(struct json *json)
{
	json->comma = false;
	mark(json, '\n', false);
}

void json_key(struct json *json, const char *key)
{
	char *next = begin_keyed(json, key, 0);

	if (next)
		end(json, next, false);
}

static char *write_i64(char *next, int64_t value)
{
	if (value < 0)
		*next++ = '-';
	return write_u64(next, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

// The shortest of 15, 16 or 17 digits that reads back as the same value. out has room for DOUBLE_CHARS.
static char *write_double(char *out, double value)
{
	if (!isfinite(value)) {
		memcpy(out, "null", 4);
		return out + 4;
	}
	if (fabs(value) < 1e15 && value == (double)(int64_t)value && !(value == 0 && signbit(value)))
		return write_i64(out, (int64_t)value);
	for (int precision = 15;; precision++) {
		int length = snprintf(out, DOUBLE_CHARS, "%.*g", precision, value);

		if (precision == 17 || strtod(out, NULL) == value)
			return out + length;
	}
}

static char *write_bool(char *next, bool value)
{
	memcpy(next, value ? "true" : "false", value ? 4 : 5);
	return next + (value ? 4 : 5);
}

static char *write_null(char *next)
{
	memcpy(next, "null", 4);
	return next + 4;
}

// A value alone, and the same behind its key.
#define JSON_VALUE(name, type, size, write)                                     \
	void json_##name(struct json *json, type value)                         \
	{                                                                       \
		char *next = begin(json, size);                                 \
                                                                                \
		if (next)                                                       \
			end(json, write(next, value), true);                    \
	}                                                                       \
	void json_put_##name(struct json *json, const char *key, type value)    \
	{                                                                       \
		char *next = begin_keyed(json, key, size);                      \
                                                                                \
		if (next)                                                       \
			end(json, write(next, value), true);                    \
	}

JSON_VALUE(u64, uint64_t, U64_DIGITS, write_u64)
JSON_VALUE(i64, int64_t, U64_DIGITS + 1, write_i64)
JSON_VALUE(double, double, DOUBLE_CHARS, write_double)
JSON_VALUE(bool, bool, 5, write_bool)

void json_null(struct json *json)
{
	char *next = begin(json, 4);

	if (next)
		end(json, write_null(next), true);
}

void json_put_null(struct json *json, const char *key)
{
	char *next = begin_keyed(json, key, 4);

	if (next)
		end(json, write_null(next), true);
}

void json_put_known_u64(struct json *json, const char *key, uint64_t value)
{
	if (value == JSON_UNKNOWN)
		json_put_null(json, key);
	else
		json_put_u64(json, key, value);
}

#define EACH_BYTE(byte) (0x0101010101010101ULL * (byte))

// True when none of the eight bytes needs thought: printable ASCII, no quote, no backslash.
static bool plain8(uint64_t word)
{
	uint64_t quote = word ^ EACH_BYTE('"'), slash = word ^ EACH_BYTE('\\'), del = word ^ EACH_BYTE(0x7f);
	uint64_t special = (word - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (slash - EACH_BYTE(1)) |
			   (del - EACH_BYTE(1));

	// Exact as long as no byte has its top bit set, and the first term refuses those.
	return ((word | special) & EACH_BYTE(0x80)) == 0;
}

static bool plain(unsigned char byte)
{
	return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

static size_t plain_prefix(const char *text, size_t length)
{
	size_t i = 0;
	uint64_t word;

	for (; i + 8 <= length; i += 8) {
		memcpy(&word, text + i, 8);
		if (!plain8(word))
			break;
	}
	while (i < length && plain((unsigned char)text[i]))
		i++;
	return i;
}

static char *write_escape(char *next, unsigned char code)
{
	static const char hex[] = "0123456789abcdef";
	const char *shorts = "\"\"\\\\\nn\tt\rr\bb\ff";

	for (; *shorts; shorts += 2)
		if ((unsigned char)shorts[0] == code) {
			*next++ = '\\';
			*next++ = shorts[1];
			return next;
		}
	memcpy(next, "\\u00", 4);
	next[4] = hex[code >> 4];
	next[5] = hex[code & 15];
	return next + 6;
}

// One character that is not plain. Takes *length bytes of text; writes at most 6 bytes for each.
static char *write_hard(char *next, const char *text, size_t *length)
{
	size_t sequence = utf8_sequence(text, *length);

	*length = sequence ? sequence : 1;
	if (sequence == 0) {
		memcpy(next, "\xef\xbf\xbd", 3);
		return next + 3;
	}
	if (utf8_is_control(text, sequence) || *text == '"' || *text == '\\')
		return write_escape(next, (unsigned char)text[sequence - 1]); // C1: U+00NN is the second byte
	memcpy(next, text, sequence);
	return next + sequence;
}

void json_string_n(struct json *json, const char *text, size_t length)
{
	size_t run = plain_prefix(text, length), taken;
	// Six bytes for each byte of the rest is the worst case; all but hostile strings have no rest.
	char *next = begin(json, length > SIZE_MAX / 8 ? SIZE_MAX / 2 : run + (length - run) * 6 + 2);

	if (!next)
		return;
	*next++ = '"';
	for (size_t i = 0;;) {
		next = copy(next, text + i, run);
		i += run;
		if (i == length)
			break;
		taken = length - i;
		next = write_hard(next, text + i, &taken);
		i += taken;
		run = plain_prefix(text + i, length - i);
	}
	*next++ = '"';
	end(json, next, true);
}

void json_string(struct json *json, const char *text)
{
	if (text)
		json_string_n(json, text, strlen(text));
	else
		json_null(json);
}

void json_put_string(struct json *json, const char *key, const char *text)
{
	json_key(json, key);
	json_string(json, text);
}
