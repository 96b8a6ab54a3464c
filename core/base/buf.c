// SPDX-License-Identifier: Apache-2.0
// Base: the growing byte buffer. Invariant: when data is set, length < capacity and data[length] is NUL.
// After a failed append nothing more is appended until buf_reset(), so a caller checks once, at the end.
#include "core/base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINIMUM_CAPACITY 256

static int buf_grow(struct buf *buf, size_t extra)
{
	size_t capacity = buf->capacity ? buf->capacity : MINIMUM_CAPACITY;
	char *data;

	if (extra > SIZE_MAX / 2 || buf->length > SIZE_MAX / 2 - extra - 1) {
		buf->failed = true;
		return -ENOMEM;
	}
	while (capacity < buf->length + extra + 1)
		capacity *= 2;
	data = realloc(buf->data, capacity);
	if (!data) {
		buf->failed = true;
		return -ENOMEM;
	}
	data[buf->length] = '\0';
	buf->data = data;
	buf->capacity = capacity;
	return 0;
}

int buf_reserve(struct buf *buf, size_t extra)
{
	if (buf->failed)
		return -ENOMEM;
	if (extra < buf->capacity && buf->length < buf->capacity - extra)
		return 0;
	return buf_grow(buf, extra);
}

void buf_append(struct buf *buf, const void *data, size_t length)
{
	if (length == 0 || buf_reserve(buf, length) < 0)
		return;
	memcpy(buf->data + buf->length, data, length);
	buf->length += length;
	buf->data[buf->length] = '\0';
}

void buf_append_string(struct buf *buf, const char *text)
{
	buf_append(buf, text, strlen(text));
}

void buf_append_char(struct buf *buf, char c)
{
	if (buf_reserve(buf, 1) < 0)
		return;
	buf->data[buf->length++] = c;
	buf->data[buf->length] = '\0';
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args, again;
	int length;

	if (buf_reserve(buf, 64) < 0)
		return;
	va_start(args, format);
	va_copy(again, args);
	length = vsnprintf(buf->data + buf->length, buf->capacity - buf->length, format, args);
	if (length < 0) {
		buf->data[buf->length] = '\0';
		buf->failed = true;
	} else if ((size_t)length < buf->capacity - buf->length) {
		buf->length += (size_t)length;
	} else if (buf_reserve(buf, (size_t)length) == 0) {
		vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
		buf->length += (size_t)length;
	} else {
		buf->data[buf->length] = '\0';
	}
	va_end(again);
	va_end(args);
}

int buf_error(const struct buf *buf)
{
	return buf->failed ? -ENOMEM : 0;
}

void buf_reset(struct buf *buf)
{
	buf->length = 0;
	buf->failed = false;
	if (buf->data)
		buf->data[0] = '\0';
}

void buf_free(struct buf *buf)
{
	if (!buf)
		return;
	free(buf->data);
	*buf = (struct buf)BUF_INIT;
}
