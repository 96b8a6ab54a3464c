// SPDX-License-Identifier: Apache-2.0
// A growing byte buffer with a sticky error: append freely, check buf_error() once.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data; // NUL after the last byte whenever data is not NULL
	size_t length;
	size_t capacity;
	bool failed;
};

#define BUF_INIT { 0 }

// Makes room for extra more bytes plus a NUL. 0 or -ENOMEM (sticky).
int buf_reserve(struct buf *buf, size_t extra);
void buf_append(struct buf *buf, const void *data, size_t length);
void buf_append_string(struct buf *buf, const char *text);
void buf_append_char(struct buf *buf, char c);
__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *buf, const char *format, ...);

// 0, or -ENOMEM when any append since the last buf_reset() failed; the content is then incomplete.
int buf_error(const struct buf *buf);

// Empties the buffer and clears the error; memory is kept.
void buf_reset(struct buf *buf);

// Releases the memory. Takes NULL. Usable with CLEANUP(buf_free).
void buf_free(struct buf *buf);
