// SPDX-License-Identifier: Apache-2.0
// Base: parsing what the kernel writes. It knows no file by name and keeps nothing but the buffer of an open
// file, which is reused: after the first samples nothing is allocated.
#include "core/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

uint64_t text_number(const char *text, const char **ret_end)
{
	uint64_t number = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*p - '0'), &number))
			number = TEXT_UNKNOWN;
	if (ret_end)
		*ret_end = p;
	return p == text ? TEXT_UNKNOWN : number;
}

uint64_t text_scaled(uint64_t value, uint64_t factor)
{
	uint64_t product;

	return value == TEXT_UNKNOWN || __builtin_mul_overflow(value, factor, &product) ? TEXT_UNKNOWN : product;
}

void text_unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
		    from[3] >= '0' && from[3] <= '7') {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

const char *text_next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

static uint64_t number_after(const char *text)
{
	while (*text == ' ' || *text == '\t')
		text++;
	return text_number(text, NULL);
}

uint64_t text_key_number(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; *line; line = text_next_line(line))
		if (!strncmp(line, key, length) && (line[length] == ' ' || line[length] == '\t'))
			return number_after(line + length);
	return TEXT_UNKNOWN;
}

void text_take_keys(const char *text, const struct text_key *keys, void *base)
{
	for (const char *line = text; *line; line = text_next_line(line)) {
		size_t length = strcspn(line, " \t\n");

		if (line[length] != ' ' && line[length] != '\t')
			continue;
		for (const struct text_key *key = keys; key->name; key++) {
			if (key->name[0] != line[0] || strncmp(key->name, line, length) || key->name[length])
				continue;
			*(uint64_t *)((char *)base + key->offset) =
				text_scaled(number_after(line + length), key->factor ? key->factor : 1);
			break;
		}
	}
}

void text_take_pressure(const char *text, uint64_t *ret_some_ns, uint64_t *ret_full_ns)
{
	for (const char *line = text; *line; line = text_next_line(line)) {
		const char *end = strchr(line, '\n');
		const char *total = strstr(line, " total=");

		if (!total || (end && total > end))
			continue;
		if (!strncmp(line, "some ", 5))
			*ret_some_ns = text_scaled(text_number(total + 7, NULL), 1000);
		else if (!strncmp(line, "full ", 5))
			*ret_full_ns = text_scaled(text_number(total + 7, NULL), 1000);
	}
}

int text_file_open(struct text_file *file, int directory_fd, const char *path)
{
	int fd = openat(directory_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	*file = (struct text_file){ .open = fd >= 0, .fd = fd };
	return fd < 0 ? -errno : 0;
}

int text_file_read(struct text_file *file, size_t max)
{
	off_t offset = 0;
	int error;

	buf_reset(&file->text);
	if (!file->open)
		return -EBADF;
	for (;;) {
		error = buf_reserve(&file->text, 4096);
		if (error)
			return error;
		ssize_t got = pread(file->fd, file->text.data + file->text.length,
				    file->text.capacity - file->text.length - 1, offset);

		if (got < 0 && errno == EINTR)
			continue;
		error = got < 0 ? -errno : (size_t)offset + (size_t)got > max ? -EFBIG : 0;
		if (error) {
			buf_reset(&file->text);
			return error;
		}
		if (!got)
			break;
		offset += got;
		file->text.length += (size_t)got;
	}
	file->text.data[file->text.length] = 0;
	return 0;
}

void text_file_close(struct text_file *file)
{
	if (file->open)
		close(file->fd);
	buf_free(&file->text);
	*file = (struct text_file){ 0 };
}
