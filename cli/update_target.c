// SPDX-License-Identifier: Apache-2.0
// `tracer update`: a target's bytes, from the fetching child into a staging file. They count as nothing before length
// and digests are right; then write, fsync, rename, fsync of the directory, as everywhere.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"

struct staging {
	int fd;
	int write_error; // 0: none
	struct tuf_check check;
};

static int on_bytes(void *context, const void *data, size_t length)
{
	struct staging *staging = context;
	int result = tuf_check_add(&staging->check, data, length);

	if (result < 0)
		return result;
	staging->write_error = fs_write_all(staging->fd, data, length);
	return staging->write_error;
}

static bool is_there(const char *path, const struct tuf_target *target)
{
	CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct tuf_check check;
	struct stat info;
	char data[16384];
	ssize_t got;

	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) ||
	    tuf_check_begin(target->length, target->hashes, &check) < 0)
		return false;
	while ((got = read(fd, data, sizeof(data))) > 0)
		if (tuf_check_add(&check, data, (size_t)got) < 0)
			return false;
	return got == 0 && tuf_check_end(&check) == 0;
}

static int fill(struct staging *staging, struct update_source *source, const char *name,
		const struct tuf_target *target, char why[TUF_WHY_SIZE])
{
	int result = tuf_check_begin(target->length, target->hashes, &staging->check);

	if (result < 0)
		return tuf_fail(why, result, "no digest that can be checked");
	result = update_source_get(source, name, target->length, on_bytes, staging, why);
	if (staging->write_error < 0)
		return tuf_fail(why, staging->write_error, "it cannot be written: %s; %s",
				strerror(-staging->write_error),
				staging->write_error == -ENOSPC || staging->write_error == -EDQUOT
					? "make room and try again"
					: "look at the disk and the kernel's log");
	if (result == -ENOENT)
		return tuf_fail(why, result, "the source does not have it");
	if (result == -EFBIG)
		return tuf_fail(why, result, "longer than the %llu bytes that it should have",
				(unsigned long long)target->length);
	if (result < 0)
		return result;
	result = tuf_check_end(&staging->check);
	return result < 0 ? tuf_fail(why, result, "not the file that the metadata describes") : 0;
}

static int remote_name(const struct tuf_client *client, const char *path, const struct tuf_target *target,
		       char out[FETCH_URL_SIZE])
{
	memcpy(out, "targets/", 8);
	return tuf_target_url(client, target, path, out + 8, FETCH_URL_SIZE - 8);
}

int update_target_write(struct update_source *source, const struct tuf_client *client, const char *path,
			const struct tuf_target *target, int fd, char why[TUF_WHY_SIZE])
{
	struct staging staging = {.fd = fd};
	char remote[FETCH_URL_SIZE];
	int result = remote_name(client, path, target, remote);

	if (result < 0)
		return tuf_fail(why, result, "%s: the name is too long", path);
	return fill(&staging, source, remote, target, why);
}

int update_target_get(struct update_source *source, const struct tuf_client *client, const char *path,
		      const struct tuf_target *target, const char *directory, bool *ret_was_there,
		      char why[TUF_WHY_SIZE])
{
	char name[NAME_MAX], file[PATH_MAX], part[PATH_MAX];
	int result = tuf_quote(path, false, name, sizeof(name)), fd;

	if (result < 0 || (size_t)snprintf(file, sizeof(file), "%s/%s", directory, name) >= sizeof(file) ||
	    (size_t)snprintf(part, sizeof(part), "%s/.part.XXXXXX", directory) >= sizeof(part))
		return tuf_fail(why, -ENAMETOOLONG, "%s: the name is too long", path);
	*ret_was_there = is_there(file, target);
	if (*ret_was_there)
		return 0;
	fd = mkostemp(part, O_CLOEXEC);
	if (fd < 0)
		return tuf_fail(why, -errno, "%s: %s", directory, strerror(errno));
	result = update_target_write(source, client, path, target, fd, why);
	if (result == 0 && (fchmod(fd, 0644) < 0 || fsync(fd) < 0))
		result = tuf_fail(why, -errno, "%s: %s", file, strerror(errno));
	close(fd);
	if (result == 0 && rename(part, file) < 0)
		result = tuf_fail(why, -errno, "%s: %s", file, strerror(errno));
	if (result < 0) {
		unlink(part);
		return result;
	}
	result = fs_sync_directory(directory);
	return result < 0 ? tuf_fail(why, result, "%s: %s", directory, strerror(-result)) : 0;
}
