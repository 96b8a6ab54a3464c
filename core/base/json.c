// SPDX-License-Identifier: Apache-2.0
// Base: the JSON writer. On the path of every record, so each call reserves once and then stores directly.
// Invariant: what it writes is valid UTF-8 and holds no control character, whatever bytes come in.
#include "core/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"

#define U64_DIGITS JSON_U64_SIZE
#define DOUBLE_CHARS 32

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
			    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
			    "8081828384858687888990919293949596979899";

static char *write_pair(char *out, uint32_t value)
{
	memcpy(out, pairs + (size_t)value * 2, 2);
	return out + 2;
}

// Below 10,000, without leading zeros.
static char *write_short(char *out, uint32_t value)
{
	uint32_t high = value / 100;

	if (value < 10) {
		*out = (char)('0' + value);
		return out + 1;
	}
	if (value < 100)
		return write_pair(out, value);
	if (high < 10)
		*out++ = (char)('0' + high);
	else
		out = write_pair(out, high);
	return write_pair(out, value % 100);
}

static char *write_four(char *out, uint32_t value)
{
	return write_pair(write_pair(out, value / 100), value % 100);
}

static char *write_eight(char *out, uint32_t value)
{
	return write_four(write_four(out, value / 10000), value % 10000);
}

// Below 100,000,000, without leading zeros.
static char *write_middle(char *out, uint32_t value)
{
	if (value < 10000)
		return write_short(out, value);
	return write_four(write_short(out, value / 10000), value % 10000);
}

// By eight digits, since 32-bit division is the cheap one. out has room for U64_DIGITS. Returns the position after the
// number.
static char *write_u64(char *out, uint64_t value)
{
	const uint64_t eight = 100000000;
	uint64_t high;

	if (value < eight)
		return write_middle(out, (uint32_t)value);
	high = value / eight;
	if (high < eight)
		out = write_middle(out, (uint32_t)high);
	else
		out = write_eight(write_middle(out, (uint32_t)(high / eight)), (uint32_t)(high % eight));
	return write_eight(out, (uint32_t)(value % eight));
}

// Room for size bytes and a comma where one is due; NULL when memory is out.
static inline char *begin(struct json *json, size_t size)
{
	struct buf *out = json->out;
	char *next;

	if ((out->failed || out->capacity - out->length < size + 3) && buf_reserve(out, size + 2) < 0)
		return NULL;
	next = out->data + out->length;
	*next = ',';
	return next + json->comma;
}

static inline void end(struct json *json, char *next, bool comma)
{
	*next = '\0';
	json->out->length = (size_t)(next - json->out->data);
	json->comma = comma;
}

// Keys and most values are short, where calling musl's memcpy costs more than copying: inline, by words that overlap
// at the end.
static inline char *copy(char *out, const char *text, size_t length)
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

static inline char *write_key(char *next, const char *key, size_t length)
{
	*next++ = '"';
	next = copy(next, key, length);
	*next++ = '"';
	*next++ = ':';
	return next;
}

// As begin(), with the key already written and room for size more bytes.
static inline char *begin_keyed(struct json *json, const char *key, size_t length, size_t size)
{
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

void json_key_n(struct json *json, const char *key, size_t length)
{
	char *next = begin_keyed(json, key, length, 0);

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
	void json_put_##name##_n(struct json *json, const char *key,            \
				 size_t length, type value)                     \
	{                                                                       \
		char *next = begin_keyed(json, key, length, size);              \
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

void json_put_null_n(struct json *json, const char *key, size_t length)
{
	char *next = begin_keyed(json, key, length, 4);

	if (next)
		end(json, write_null(next), true);
}

void json_put_known_u64_n(struct json *json, const char *key, size_t length, uint64_t value)
{
	char *next = begin_keyed(json, key, length, U64_DIGITS);

	if (next)
		end(json, value == JSON_UNKNOWN ? write_null(next) : write_u64(next, value), true);
}

static void put_fields(struct json *json, const struct json_field *fields, size_t count, const void *values,
		       bool zeros)
{
	char *next = begin(json, count * (sizeof(fields->text) + U64_DIGITS));
	size_t comma = json->comma;

	if (!next)
		return;
	next -= comma;
	for (const struct json_field *field = fields; field < fields + count; field++) {
		uint64_t value;

		memcpy(&value, (const char *)values + field->offset, sizeof(value));
		if (!value && !zeros)
			continue;
		// All of it, in a few wide moves; the value covers what is too much.
		memcpy(next, field->text + 1 - comma, sizeof(field->text) - 1);
		next += field->length - 1 + comma;
		next = value == JSON_UNKNOWN ? write_null(next) : write_u64(next, value);
		comma = 1;
	}
	end(json, next, comma);
}

void json_put_fields(struct json *json, const struct json_field *fields, size_t count, const void *values)
{
	put_fields(json, fields, count, values, true);
}

void json_put_nonzero_fields(struct json *json, const struct json_field *fields, size_t count, const void *values)
{
	put_fields(json, fields, count, values, false);
}

void json_raw(struct json *json, const char *text, size_t length)
{
	char *next;

	if (buf_reserve(json->out, length) < 0)
		return;
	next = json->out->data + json->out->length;
	memcpy(next, text, length);
	end(json, next + length, true);
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

// Copies text up to the first character that is not plain, and perhaps some of what follows; out has room for all of
// it. Returns how many were plain.
static size_t copy_plain(char *out, const char *text, size_t length)
{
	size_t i = 0;
	uint64_t word;

	for (; i + 8 <= length; i += 8) {
		memcpy(&word, text + i, 8);
		memcpy(out + i, &word, 8);
		if (!plain8(word))
			break;
	}
	// The last few once more, with those before them.
	if (i + 8 > length && i && i < length) {
		memcpy(&word, text + length - 8, 8);
		memcpy(out + length - 8, &word, 8);
		if (plain8(word))
			return length;
	}
	for (; i < length && plain((unsigned char)text[i]); i++)
		out[i] = text[i];
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

// text as a string. next has room for six times its length and two quotes.
static char *write_string(char *next, const char *text, size_t length)
{
	size_t taken;

	*next++ = '"';
	for (size_t i = 0; i < length; i += taken) {
		taken = copy_plain(next, text + i, length - i);
		next += taken;
		i += taken;
		taken = length - i;
		if (taken)
			next = write_hard(next, text + i, &taken);
	}
	*next++ = '"';
	return next;
}

char *json_write_u64(char *out, uint64_t value)
{
	return write_u64(out, value);
}

char *json_write_string(char *out, const char *text, size_t length)
{
	return write_string(out, text, length);
}

// Six bytes for each is the worst case.
static size_t string_size(size_t length)
{
	return length > SIZE_MAX / 8 ? SIZE_MAX / 2 : JSON_STRING_SIZE(length);
}

void json_string_n(struct json *json, const char *text, size_t length)
{
	char *next = begin(json, string_size(length));

	if (next)
		end(json, write_string(next, text, length), true);
}

void json_string(struct json *json, const char *text)
{
	if (text)
		json_string_n(json, text, strlen(text));
	else
		json_null(json);
}

void json_put_string_n(struct json *json, const char *key, size_t key_length, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	char *next = begin_keyed(json, key, key_length, text ? string_size(length) : 4);

	if (next)
		end(json, text ? write_string(next, text, length) : write_null(next), true);
}
