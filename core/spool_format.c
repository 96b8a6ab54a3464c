// SPDX-License-Identifier: Apache-2.0
// Spool: the lines on disk. One table a kind of line says its members; one encoder and one decoder serve them all.
// The decoder accepts exactly what the encoder writes, so a flipped bit anywhere in a line is damage, never a value.
#include "core/spool_format.h"

#include <errno.h>
#include <string.h>

#include "core/base/crc.h"

#define SEQUENCE_MAX (1ULL << 63)
#define CHECK_NAME ",\"check\":\""
#define CHECK_DIGITS 8
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum kind { DECIMAL, HEX, CLASS };

struct member {
	const char *name; // as written: ,"name":
	enum kind kind;
	unsigned int width;
	size_t offset; // of a uint64_t in the struct
};

struct line {
	const char *opening;
	const struct member *members;
	size_t member_count;
	size_t size;
};

static const char class_letters[] = {[SPOOL_PROCESS] = 'p', [SPOOL_SAMPLE] = 's'};

#define MEMBER(type, field, text, kind, width) \
	{",\"" text "\":", kind, width, offsetof(struct type, field)}

static const struct member frame_members[] = {
	MEMBER(spool_frame_line, class, "class", CLASS, 1),
	MEMBER(spool_frame_line, epoch, "epoch", HEX, 16),
	MEMBER(spool_frame_line, first, "seq", DECIMAL, 20),
	MEMBER(spool_frame_line, records, "records", DECIMAL, 8),
	MEMBER(spool_frame_line, bytes, "bytes", DECIMAL, 8),
	MEMBER(spool_frame_line, time_ns, "time_ns", DECIMAL, 20),
	MEMBER(spool_frame_line, crc, "crc", HEX, 8),
};

static const struct member end_members[] = {
	MEMBER(spool_end_line, class, "class", CLASS, 1),
	MEMBER(spool_end_line, first, "first", DECIMAL, 20),
	MEMBER(spool_end_line, last, "last", DECIMAL, 20),
	MEMBER(spool_end_line, records, "records", DECIMAL, 20),
	MEMBER(spool_end_line, frames, "frames", DECIMAL, 10),
	MEMBER(spool_end_line, bytes, "bytes", DECIMAL, 12),
};

static const struct member cursor_members[] = {
	MEMBER(spool_cursor, epoch, "epoch", HEX, 16),
	MEMBER(spool_cursor, acked, "acked", DECIMAL, 20),
	MEMBER(spool_cursor, delivered, "delivered", DECIMAL, 20),
};

static const struct member state_members[] = {
	MEMBER(spool_state, generation, "generation", DECIMAL, 20),
	MEMBER(spool_state, epoch, "epoch", HEX, 16),
	MEMBER(spool_state, epoch_first, "epoch_first", DECIMAL, 20),
	MEMBER(spool_state, boot, "boot", HEX, 16),
	MEMBER(spool_state, clean, "clean", DECIMAL, 1),
	MEMBER(spool_state, accepted, "accepted", DECIMAL, 20),
	MEMBER(spool_state, acked, "acked", DECIMAL, 20),
	MEMBER(spool_state, delivered, "delivered", DECIMAL, 20),
	MEMBER(spool_state, pending, "pending", DECIMAL, 20),
	MEMBER(spool_state, dropped[SPOOL_CAP], "dropped_cap", DECIMAL, 20),
	MEMBER(spool_state, dropped[SPOOL_DISK_FULL], "dropped_disk_full", DECIMAL, 20),
	MEMBER(spool_state, dropped[SPOOL_READ_ONLY], "dropped_read_only", DECIMAL, 20),
	MEMBER(spool_state, dropped[SPOOL_IO_ERROR], "dropped_io_error", DECIMAL, 20),
	MEMBER(spool_state, dropped[SPOOL_DAMAGED], "dropped_damaged", DECIMAL, 20),
	MEMBER(spool_state, unclean_starts, "unclean_starts", DECIMAL, 10),
	MEMBER(spool_state, dropping_class, "dropping_class", DECIMAL, 1),
	MEMBER(spool_state, dropping_first, "dropping_first", DECIMAL, 20),
};

static const struct line frame_line = {SPOOL_LINE_OPENING "1\"", frame_members,
				       COUNT(frame_members), SPOOL_FRAME_LINE};
static const struct line end_line = {SPOOL_LINE_OPENING "1-end\"", end_members, COUNT(end_members),
				     SPOOL_END_LINE};
static const struct line cursor_line = {"{\"cursor\":\"tracer-spool-1\"", cursor_members,
					COUNT(cursor_members), SPOOL_CURSOR_LINE};
static const struct line state_line = {"{\"state\":\"tracer-spool-1\"", state_members,
				       COUNT(state_members), SPOOL_STATE_LINE};

static char *put_text(char *out, const char *text)
{
	size_t length = strlen(text);

	memcpy(out, text, length);
	return out + length;
}

static char *put_hex(char *out, uint64_t value, unsigned int width)
{
	static const char digits[] = "0123456789abcdef";

	for (unsigned int i = 0; i < width; i++)
		out[i] = digits[value >> (4 * (width - 1 - i)) & 15];
	return out + width;
}

static char *put_decimal(char *out, uint64_t value, unsigned int width)
{
	char *next = out + width;

	do {
		*--next = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0 && next > out);
	memset(out, ' ', (size_t)(next - out));
	return out + width;
}

static char *put_quoted(char *out, uint64_t value, const struct member *member)
{
	*out++ = '"';
	if (member->kind == CLASS)
		*out++ = class_letters[value];
	else
		out = put_hex(out, value, member->width);
	*out++ = '"';
	return out;
}

static void line_encode(const struct line *line, const void *values, char *out)
{
	char *next = put_text(out, line->opening);
	uint64_t value;

	for (size_t i = 0; i < line->member_count; i++) {
		const struct member *member = &line->members[i];

		memcpy(&value, (const char *)values + member->offset, sizeof(value));
		next = put_text(next, member->name);
		if (member->kind == DECIMAL)
			next = put_decimal(next, value, member->width);
		else
			next = put_quoted(next, value, member);
	}
	value = crc32c(0, out, (size_t)(next - out));
	next = put_text(next, CHECK_NAME);
	next = put_hex(next, value, CHECK_DIGITS);
	memcpy(next, "\"}\n", 3);
}

static const char *take_text(const char *text, const char *expect)
{
	size_t length = strlen(expect);

	return memcmp(text, expect, length) == 0 ? text + length : NULL;
}

static const char *take_hex(const char *text, unsigned int width, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < width; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return NULL;
	}
	*ret_value = value;
	return text + width;
}

static const char *take_decimal(const char *text, unsigned int width, uint64_t *ret_value)
{
	uint64_t value = 0;
	unsigned int i = 0;

	while (i + 1 < width && text[i] == ' ')
		i++;
	if (text[i] == '0' && i + 1 < width)
		return NULL;
	for (; i < width; i++)
		if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
			return NULL;
	*ret_value = value;
	return text + width;
}

static const char *take_quoted(const char *text, const struct member *member, uint64_t *ret_value)
{
	const char *next = text + 1;

	if (*text != '"')
		return NULL;
	if (member->kind == HEX) {
		next = take_hex(next, member->width, ret_value);
	} else {
		*ret_value = *next == class_letters[SPOOL_SAMPLE] ? SPOOL_SAMPLE : SPOOL_PROCESS;
		next = *next == class_letters[*ret_value] ? next + 1 : NULL;
	}
	return next && *next == '"' ? next + 1 : NULL;
}

// All but the closing "}\n" of the line; text has at least line->size bytes.
static int line_decode(const struct line *line, const char *text, void *values)
{
	const char *next = take_text(text, line->opening), *members_end;
	uint64_t value, check;

	for (size_t i = 0; next && i < line->member_count; i++) {
		const struct member *member = &line->members[i];

		next = take_text(next, member->name);
		if (next)
			next = member->kind == DECIMAL ? take_decimal(next, member->width, &value)
						       : take_quoted(next, member, &value);
		if (next)
			memcpy((char *)values + member->offset, &value, sizeof(value));
	}
	members_end = next;
	if (next)
		next = take_text(next, CHECK_NAME);
	if (next)
		next = take_hex(next, CHECK_DIGITS, &check);
	if (!next || *next != '"' || check != crc32c(0, text, (size_t)(members_end - text)))
		return -EBADMSG;
	return 0;
}

static bool line_closes(const struct line *line, const char *text)
{
	return memcmp(text + line->size - 2, "}\n", 2) == 0;
}

void spool_frame_encode(const struct spool_frame_line *line, char out[SPOOL_FRAME_LINE])
{
	line_encode(&frame_line, line, out);
}

void spool_end_encode(const struct spool_end_line *line, char out[SPOOL_END_LINE])
{
	line_encode(&end_line, line, out);
}

void spool_cursor_encode(const struct spool_cursor *cursor, char out[SPOOL_CURSOR_LINE])
{
	line_encode(&cursor_line, cursor, out);
}

void spool_state_encode(const struct spool_state *state, char out[SPOOL_STATE_LINE])
{
	line_encode(&state_line, state, out);
}

int spool_frame_decode(const char *text, size_t size, struct spool_frame_line *ret_line)
{
	struct spool_frame_line line;
	const char *newline;

	if (size < SPOOL_FRAME_LINE)
		return -EAGAIN;
	if (line_decode(&frame_line, text, &line) < 0)
		return -EBADMSG;
	if (line.records == 0 || line.bytes == 0 || line.bytes > SPOOL_FRAME_MAX ||
	    line.records > line.bytes || line.first == 0 || line.first > SEQUENCE_MAX)
		return -EBADMSG;
	if (line_closes(&frame_line, text)) {
		*ret_line = line;
		return SPOOL_FRAME_LINE;
	}
	if (text[SPOOL_FRAME_LINE - 2] != ',')
		return -EBADMSG;
	newline = memchr(text, '\n', size < SPOOL_LINE_MAX ? size : SPOOL_LINE_MAX);
	if (!newline)
		return size < SPOOL_LINE_MAX ? -EAGAIN : -EBADMSG;
	if (newline < text + SPOOL_FRAME_LINE || newline[-1] != '}')
		return -EBADMSG;
	*ret_line = line;
	return (int)(newline + 1 - text);
}

static int exact_decode(const struct line *line, const char *text, size_t size, void *values)
{
	return size >= line->size && line_closes(line, text) ? line_decode(line, text, values)
							     : -EBADMSG;
}

int spool_end_decode(const char *text, size_t size, struct spool_end_line *ret_line)
{
	struct spool_end_line line;

	if (exact_decode(&end_line, text, size, &line) < 0)
		return -EBADMSG;
	*ret_line = line;
	return 0;
}

int spool_cursor_decode(const char *text, size_t size, struct spool_cursor *ret_cursor)
{
	struct spool_cursor cursor;

	if (exact_decode(&cursor_line, text, size, &cursor) < 0)
		return -EBADMSG;
	*ret_cursor = cursor;
	return 0;
}

int spool_state_decode(const char *text, size_t size, struct spool_state *ret_state)
{
	struct spool_state state;

	if (exact_decode(&state_line, text, size, &state) < 0)
		return -EBADMSG;
	*ret_state = state;
	return 0;
}

void spool_segment_name(enum spool_class class, uint64_t first, char out[SPOOL_NAME_SIZE])
{
	out[0] = class_letters[class];
	out[1] = '-';
	for (int i = 21; i >= 2; i--, first /= 10)
		out[i] = (char)('0' + first % 10);
	memcpy(out + 22, ".ndjson", sizeof(".ndjson"));
}

int spool_segment_parse(const char *name, enum spool_class *ret_class, uint64_t *ret_first)
{
	char again[SPOOL_NAME_SIZE];
	uint64_t first = 0;

	if (strlen(name) != 29 || (name[0] != 'p' && name[0] != 's'))
		return -EINVAL;
	for (int i = 2; i < 22; i++) {
		if (name[i] < '0' || name[i] > '9')
			return -EINVAL;
		first = first * 10 + (uint64_t)(name[i] - '0');
	}
	*ret_class = name[0] == 's' ? SPOOL_SAMPLE : SPOOL_PROCESS;
	*ret_first = first;
	spool_segment_name(*ret_class, first, again);
	return first > 0 && first <= SEQUENCE_MAX && strcmp(name, again) == 0 ? 0 : -EINVAL;
}
