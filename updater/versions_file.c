// SPDX-License-Identifier: Apache-2.0
// A version's file besides its bytes: whom it belongs to and what it may, and whether its place lets it run at all.
// Refuses early, with what to do; changes nothing but the descriptor it is given.
#include "updater/versions_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/base/cleanup.h"

enum {
	XATTR_SIZE = 4096,
	SPARE_BYTES = 4 << 20, // beside the program: folders, sums, state, metadata
	SPARE_FILES = 16,
};

static int fail(char why[VERSIONS_WHY_SIZE], int error, const char *what)
{
	snprintf(why, VERSIONS_WHY_SIZE, "the new file's %s: %s", what, strerror(-error));
	return error;
}

// Not security.ima and security.evm: they are of the bytes of the old one.
static int keep_attribute(int fd, int model, const char *name, const char *what, char why[VERSIONS_WHY_SIZE])
{
	char want[XATTR_SIZE], has[XATTR_SIZE];
	ssize_t length = fgetxattr(model, name, want, sizeof(want)), there;

	if (length < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? 0 : fail(why, -errno, what);
	there = fgetxattr(fd, name, has, sizeof(has));
	if (there == length && memcmp(want, has, (size_t)length) == 0)
		return 0;
	return fsetxattr(fd, name, want, (size_t)length, 0) < 0 ? fail(why, -errno, what) : 0;
}

static bool selinux_works(void)
{
	struct statfs place;

	return statfs("/sys/fs/selinux", &place) == 0 && (uint32_t)place.f_type == SELINUX_MAGIC;
}

int versions_file_like(int fd, int model, char why[VERSIONS_WHY_SIZE])
{
	struct stat info = {.st_mode = 0755};
	int result;

	if (model >= 0 && fstat(model, &info) < 0)
		return fail(why, -errno, "model");
	if (geteuid() == 0 && fchown(fd, info.st_uid, info.st_gid) < 0)
		return fail(why, -errno, "owner");
	if (fchmod(fd, (info.st_mode & 07777) | 0100) < 0)
		return fail(why, -errno, "mode");
	if (model < 0)
		return 0;
	result = keep_attribute(fd, model, "security.capability", "capabilities", why);
	// A label that no policy reads is not worth refusing an update.
	if (result == 0 && keep_attribute(fd, model, "security.selinux", "SELinux label", why) < 0 && selinux_works())
		result = -EPERM;
	return result;
}

int versions_file_data(int fd, char why[VERSIONS_WHY_SIZE])
{
	return fchmod(fd, 0644) < 0 ? fail(why, -errno, "mode") : 0;
}

// ---- the place -----------------------------------------------------------------------------------------------------

static int refuse(const struct versions *versions, char why[VERSIONS_WHY_SIZE], int error, const char *text)
{
	snprintf(why, VERSIONS_WHY_SIZE, "%.200s %s", versions->path, text);
	return error;
}

int versions_preflight(const struct versions *versions, uint64_t bytes, char why[VERSIONS_WHY_SIZE])
{
	struct statvfs room;
	struct statfs kind;
	uint64_t free_bytes;

	if (fstatvfs(versions->versions_fd, &room) < 0 || fstatfs(versions->versions_fd, &kind) < 0)
		return refuse(versions, why, -errno, strerror(errno));
	if (room.f_flag & ST_RDONLY)
		return refuse(
			versions, why, -EROFS,
			"is on a read-only file system: mount it writable, or update the image that it comes from");
	if (!versions->data && (room.f_flag & ST_NOEXEC))
		return refuse(versions, why, -ENOEXEC,
			      "is mounted noexec, where no new program could start: mount it without, or install with "
			      "--prefix elsewhere");
	if ((uint32_t)kind.f_type == OVERLAYFS_SUPER_MAGIC)
		return refuse(
			versions, why, -EXDEV,
			"is on an overlay, which is thrown away with its container or live system: update the image "
			"that it comes from");
	if (faccessat(versions->fd, ".", W_OK, AT_EACCESS) < 0 ||
	    faccessat(versions->versions_fd, ".", W_OK, AT_EACCESS) < 0)
		return refuse(versions, why, -EACCES, "cannot be written to by this user: run it as root");
	free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
	if (free_bytes < bytes + SPARE_BYTES) {
		snprintf(why, VERSIONS_WHY_SIZE, "%.200s has %llu MiB free and %llu MiB are needed: make room",
			 versions->path, (unsigned long long)(free_bytes >> 20),
			 (unsigned long long)((bytes + SPARE_BYTES) >> 20) + 1);
		return -ENOSPC;
	}
	if (room.f_files > 0 && room.f_favail < SPARE_FILES)
		return refuse(versions, why, -ENOSPC, "has no free inodes left: remove files there");
	return 0;
}
