// SPDX-License-Identifier: Apache-2.0
// Bundles: their outer form. Every size is held against the file before it is used; nothing of a name reaches the file
// system.
#include "updater/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/fs.h"

static const char head[] = "tracer-bundle 1\n";

enum { LINE = BUNDLE_NAME_SIZE + 24, HEAD = sizeof(head) - 1 };

static int say(char why[BUNDLE_WHY_SIZE], int error, const char *text, uint64_t at)
{
	snprintf(why, BUNDLE_WHY_SIZE, "%s at byte %" PRIu64, text, at);
	return error;
}

// "NAME SIZE\n" at the beginning of line. Its length, 0: it is none.
static size_t line_read(char *line, size_t length, uint64_t *ret_size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~%/";
	char *end = memchr(line, '\n', length), *blank, *stop;
	uint64_t size = 0;

	if (!end)
		return 0;
	*end = 0;
	blank = strchr(line, ' ');
	if (!blank || blank == line || blank - line >= BUNDLE_NAME_SIZE)
		return 0;
	*blank = 0;
	if (strspn(line, plain) != (size_t)(blank - line) ||
	    (strncmp(line, "metadata/", 9) != 0 && strncmp(line, "targets/", 8) != 0))
		return 0;
	for (stop = blank + 1; *stop >= '0' && *stop <= '9' && stop - blank <= 15; stop++)
		size = size * 10 + (uint64_t)(*stop - '0');
	if (stop == blank + 1 || stop != end)
		return 0;
	*ret_size = size;
	return (size_t)(end - line) + 1;
}

static int entry_add(struct bundle *bundle, const char *name, uint64_t offset, uint64_t size)
{
	struct bundle_entry *entry = &bundle->entries[bundle->count];

	entry->name = strdup(name);
	if (!entry->name)
		return -ENOMEM;
	entry->offset = offset;
	entry->size = size;
	bundle->count++;
	return 0;
}

static int walk(struct bundle *bundle, uint64_t whole, char why[BUNDLE_WHY_SIZE])
{
	char line[LINE + 1];
	uint64_t at = HEAD, size;

	if (pread(bundle->fd, line, HEAD, 0) != HEAD || memcmp(line, head, HEAD) != 0)
		return say(why, -EBADMSG, "not a bundle", 0);
	while (at < whole) {
		ssize_t got = pread(bundle->fd, line, LINE, (off_t)at);
		size_t length = got > 0 ? line_read(line, (size_t)got, &size) : 0;
		char last;

		if (length == 0 || bundle->count == BUNDLE_ENTRIES_MAX)
			return say(why, -EBADMSG, "no entry of a bundle", at);
		// The newline behind the bytes tells that they are all there.
		if (size >= whole - at - length || pread(bundle->fd, &last, 1, (off_t)(at + length + size)) != 1 ||
		    last != '\n')
			return say(why, -EBADMSG, "an entry is cut off", at);
		if (bundle_find(bundle, line))
			return say(why, -EBADMSG, "an entry comes twice", at);
		if (entry_add(bundle, line, at + length, size) < 0)
			return say(why, -ENOMEM, "out of memory", at);
		at += length + size + 1;
	}
	return 0;
}

int bundle_open(const char *path, struct bundle *ret_bundle, char why[BUNDLE_WHY_SIZE])
{
	struct bundle bundle = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
	struct stat info;
	int result;

	if (bundle.fd < 0 || fstat(bundle.fd, &info) < 0) {
		result = -errno;
		snprintf(why, BUNDLE_WHY_SIZE, "%s", strerror(-result));
		bundle_close(&bundle);
		return result;
	}
	bundle.entries = calloc(BUNDLE_ENTRIES_MAX, sizeof(*bundle.entries));
	result = bundle.entries ? walk(&bundle, (uint64_t)info.st_size, why) : say(why, -ENOMEM, "out of memory", 0);
	if (result < 0)
		bundle_close(&bundle);
	else
		*ret_bundle = bundle;
	return result;
}

void bundle_close(struct bundle *bundle)
{
	for (size_t i = 0; i < bundle->count; i++)
		free(bundle->entries[i].name);
	free(bundle->entries);
	if (bundle->fd >= 0)
		close(bundle->fd);
	*bundle = (struct bundle){.fd = -1};
}

const struct bundle_entry *bundle_find(const struct bundle *bundle, const char *name)
{
	for (size_t i = 0; i < bundle->count; i++)
		if (strcmp(bundle->entries[i].name, name) == 0)
			return &bundle->entries[i];
	return NULL;
}

int bundle_read(const struct bundle *bundle, const struct bundle_entry *entry,
		int (*take)(void *context, const void *data, size_t length), void *context)
{
	char data[16384];
	uint64_t done = 0;
	int result = 0;

	while (done < entry->size && result == 0) {
		size_t want = entry->size - done < sizeof(data) ? (size_t)(entry->size - done) : sizeof(data);
		ssize_t got = pread(bundle->fd, data, want, (off_t)(entry->offset + done));

		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		result = take(context, data, (size_t)got);
		done += (uint64_t)got;
	}
	return result < 0 ? result : 0;
}

int bundle_write_head(int fd)
{
	return fs_write_all(fd, head, HEAD);
}

int bundle_write_entry(int fd, const char *name, uint64_t size)
{
	char line[LINE];
	int length = snprintf(line, sizeof(line), "%s %" PRIu64 "\n", name, size);

	return length >= LINE ? -ENAMETOOLONG : fs_write_all(fd, line, (size_t)length);
}

int bundle_write_end(int fd)
{
	return fs_write_all(fd, "\n", 1);
}
