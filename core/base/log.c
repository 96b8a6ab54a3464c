// SPDX-License-Identifier: Apache-2.0
// Base: the log. One message is one line and one write(2), so lines of several processes never mix. Control
// characters and malformed UTF-8 are written as \xNN: a message can hold hostile text without acting on a terminal.
#include "core/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/utf8.h"

#define TEXT_MAX 2048
#define LINE_MAX_BYTES (64 + 4 * TEXT_MAX)

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static enum log_level least_severe = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	least_severe = level;
}

int log_level_parse(const char *text, enum log_level *ret_level)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++)
		if (strcmp(text, level_names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	return -EINVAL;
}

// Writes at most 4 bytes for each byte of text. Returns the bytes written.
static size_t escape(char *out, const char *text, size_t length)
{
	static const char hex[] = "0123456789abcdef";
	size_t used = 0;

	for (size_t i = 0; i < length;) {
		size_t sequence = utf8_sequence(text + i, length - i);

		if (sequence > 0 && !utf8_is_control(text + i, sequence)) {
			memcpy(out + used, text + i, sequence);
			used += sequence;
			i += sequence;
			continue;
		}
		for (size_t end = i + (sequence ? sequence : 1); i < end; i++) {
			unsigned char byte = (unsigned char)text[i];

			out[used++] = '\\';
			out[used++] = 'x';
			out[used++] = hex[byte >> 4];
			out[used++] = hex[byte & 15];
		}
	}
	return used;
}

// "2026-01-02T03:04:05.678Z level " in UTC. Returns its length.
static size_t prefix(char *out, size_t size, enum log_level level)
{
	struct timespec now;
	struct tm utc;
	int length;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	length = snprintf(out, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s ", utc.tm_year + 1900,
			  utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
			  (int)(now.tv_nsec / 1000000), level_names[level]);
	return length < 0 || (size_t)length >= size ? 0 : (size_t)length;
}

void log_write(enum log_level level, const char *format, ...)
{
	char text[TEXT_MAX], line[LINE_MAX_BYTES];
	int saved = errno, length;
	size_t used;
	va_list args;

	if (level > least_severe)
		return;
	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length < 0)
		length = 0;
	if ((size_t)length >= sizeof(text)) {
		length = sizeof(text) - 1;
		memcpy(text + length - 3, "...", 3);
	}
	used = prefix(line, sizeof(line), level);
	used += escape(line + used, text, (size_t)length);
	line[used++] = '\n';
	// A log that cannot be written has nowhere to say so; a full pipe must not stop the agent either.
	if (write(STDERR_FILENO, line, used) < 0)
		errno = 0;
	errno = saved;
}
