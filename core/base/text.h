// SPDX-License-Identifier: Apache-2.0
// Reading the text the kernel writes in /proc and /sys: kept-open files, numbers, "key value" lines. What is not
// there is TEXT_UNKNOWN, never 0.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

#define TEXT_UNKNOWN UINT64_MAX

// Decimal digits at text; TEXT_UNKNOWN when there are none or too many. ret_end may be NULL.
uint64_t text_number(const char *text, const char **ret_end);

// The number behind a key that starts a line ("oom_kill 3", "MemFree:   12 kB"); TEXT_UNKNOWN without such a line.
uint64_t text_key_number(const char *text, const char *key);

// value * factor; unknown stays unknown, an overflow becomes it.
uint64_t text_scaled(uint64_t value, uint64_t factor);

// Undoes in place the octal escapes of a mount table: blank, tab, newline, backslash (proc_pid_mountinfo(5)).
void text_unescape(char *text);

// The start of the line after this one, or the end of the text.
const char *text_next_line(const char *line);

// For a table of wanted keys: the number behind names[i] goes to the uint64_t at (char *)base + offset, times factor.
struct text_key {
	const char *name; // NULL ends the table
	size_t offset;
	uint64_t factor; // 0: 1
};
void text_take_keys(const char *text, const struct text_key *keys, void *base);

// The totals of a pressure file, microseconds made nanoseconds (Documentation/accounting/psi.rst). A line that is not
// there leaves its output as it was.
void text_take_pressure(const char *text, uint64_t *ret_some_ns, uint64_t *ret_full_ns);

// A file that is opened once and read again and again. After the collector gave up its capabilities it could perhaps
// not be opened any more.
struct text_file {
	bool open; // false in a zeroed one
	int fd;
	struct buf text; // of the last read; NUL-terminated when that succeeded
};

// 0 or -errno; the file is then not open.
int text_file_open(struct text_file *file, int directory_fd, const char *path);
// Reads the whole of it, at most max bytes. -EBADF: it is not open. -EFBIG, other -errno: text is then empty.
int text_file_read(struct text_file *file, size_t max);
void text_file_close(struct text_file *file); // idempotent; takes a zeroed one
