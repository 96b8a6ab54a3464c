// SPDX-License-Identifier: Apache-2.0
// Base: small files. Nothing here holds a descriptor after it returns; every open is close-on-exec.
#include "core/base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#define READ_STEP 4096

int fs_read_at(int dir_fd, const char *path, size_t max, struct buf *buf)
{
	CLEANUP(cleanup_close) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	size_t start = buf->length, want;
	ssize_t got;
	int result;

	if (fd < 0)
		return -errno;
	for (;;) {
		// Asking for one byte past max tells a file of exactly max bytes from a longer one.
		want = max - (buf->length - start);
		want = want >= READ_STEP ? READ_STEP : want + 1;
		result = buf_reserve(buf, want);
		if (result < 0)
			return result;
		got = read(fd, buf->data + buf->length, want);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		buf->length += (size_t)got;
		if (buf->length - start > max) {
			got = -1;
			errno = EFBIG;
			break;
		}
	}
	result = got < 0 ? -errno : 0;
	if (result < 0)
		buf->length = start;
	buf->data[buf->length] = '\0';
	return result;
}

int fs_read(const char *path, size_t max, struct buf *buf)
{
	return fs_read_at(AT_FDCWD, path, max, buf);
}

static int parse_u64(const char *text, size_t length, uint64_t *ret_value)
{
	uint64_t value = 0;

	while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == ' '))
		length--;
	if (length == 3 && memcmp(text, "max", 3) == 0) {
		*ret_value = UINT64_MAX;
		return 0;
	}
	if (length == 0)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
			return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

int fs_read_untrusted_at(int dir_fd, const char *name, void *out, size_t size, size_t *ret_size)
{
	CLEANUP(cleanup_close)
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat info;
	ssize_t got;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
		return -EBADMSG;
	got = pread(fd, out, size, 0);
	if (got < 0)
		return -errno;
	*ret_size = (size_t)got;
	return 0;
}

int fs_read_u64_at(int dir_fd, const char *path, uint64_t *ret_value)
{
	CLEANUP(cleanup_close) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	char text[64];
	ssize_t got;

	if (fd < 0)
		return -errno;
	do
		got = read(fd, text, sizeof(text));
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	if ((size_t)got == sizeof(text))
		return -EINVAL;
	return parse_u64(text, (size_t)got, ret_value);
}

int fs_write_all(int fd, const void *data, size_t length)
{
	const char *next = data;

	while (length > 0) {
		ssize_t written = write(fd, next, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return -errno;
		next += written;
		length -= (size_t)written;
	}
	return 0;
}

int fs_sync_directory(const char *path)
{
	CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

static int sync_parent(const char *path)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (!slash)
		return fs_sync_directory(".");
	if (slash == path)
		return fs_sync_directory("/");
	snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	return fs_sync_directory(parent);
}

static int write_and_sync(int fd, const void *data, size_t length, mode_t mode)
{
	int result;

	if (fchmod(fd, mode) < 0)
		return -errno;
	result = fs_write_all(fd, data, length);
	if (result < 0)
		return result;
	return fsync(fd) < 0 ? -errno : 0;
}

int fs_replace(const char *path, const void *data, size_t length, mode_t mode)
{
	char temporary[PATH_MAX];
	int fd, result;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= sizeof(temporary))
		return -ENAMETOOLONG;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	result = write_and_sync(fd, data, length, mode);
	if (close(fd) < 0 && result == 0)
		result = -errno;
	if (result == 0 && rename(temporary, path) < 0)
		result = -errno;
	if (result < 0) {
		unlink(temporary);
		return result;
	}
	return sync_parent(path);
}

// NAME.XXXXXX, the X as mkostemp makes them.
static bool is_temporary(const char *entry, const char *pattern)
{
	static const char random[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t length = strlen(entry);
	char name[NAME_MAX + 1];

	if (length < 8 || length > NAME_MAX || entry[length - 7] != '.' || strspn(entry + length - 6, random) != 6)
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)length - 7, entry);
	return fnmatch(pattern, name, 0) == 0;
}

void fs_replace_tidy(const char *directory, const char *pattern)
{
	DIR *open_directory = opendir(directory);
	struct dirent *entry;

	while (open_directory && (entry = readdir(open_directory)))
		if (is_temporary(entry->d_name, pattern))
			unlinkat(dirfd(open_directory), entry->d_name, 0);
	if (open_directory)
		closedir(open_directory);
}

// mkdir that is content with a directory, or a link to one, already there.
static int make_directory(const char *path, mode_t mode)
{
	struct stat info;
	int error;

	if (mkdir(path, mode) == 0)
		return 0;
	error = errno;
	if (stat(path, &info) < 0)
		return -error;
	return S_ISDIR(info.st_mode) ? 0 : -ENOTDIR;
}

int fs_make_directories(const char *path, mode_t mode)
{
	char partial[PATH_MAX];
	size_t length = strlen(path);
	int result;

	if (length == 0)
		return -ENOENT;
	if (length >= sizeof(partial))
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= length; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(partial, path, i);
		partial[i] = '\0';
		result = make_directory(partial, mode);
		if (result < 0)
			return result;
	}
	return 0;
}
