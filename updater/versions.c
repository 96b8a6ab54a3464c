// SPDX-License-Identifier: Apache-2.0
// Versions side by side, and the pointer between them. Order is everything: bytes, then the folder that names them,
// then the folder's name, then the pointers, each flushed before the next. What goes loses its name first, so that
// half of a version is never called one.
#include "updater/versions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "updater/versions_file.h"

#define SUMS "SHA256SUMS"

int versions_name_fine(const char *version)
{
	size_t length = strlen(version);

	if (length == 0 || length >= VERSIONS_NAME_SIZE || version[0] == '.' || version[0] == '-')
		return -EINVAL;
	return version[strspn(version, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+~-")] ? -EINVAL
													       : 0;
}

static int open_both(struct versions *versions, const char *library)
{
	if ((size_t)snprintf(versions->path, sizeof(versions->path), "%s", library) >= sizeof(versions->path))
		return -ENAMETOOLONG;
	versions->fd = open(library, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (versions->fd >= 0)
		versions->versions_fd =
			openat(versions->fd, "versions", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return versions->versions_fd < 0 ? -errno : 0;
}

int versions_open(const char *library, struct versions *ret_versions, char why[VERSIONS_WHY_SIZE])
{
	struct versions versions = VERSIONS_INIT;
	int result = open_both(&versions, library);

	versions.file = "tracer";
	if (result == 0) {
		*ret_versions = versions;
		return 0;
	}
	snprintf(why, VERSIONS_WHY_SIZE,
		 "%.300s/versions: %s; the installer makes it, or say --prefix where it put the program", library,
		 strerror(-result));
	versions_close(&versions);
	return result;
}

int versions_open_data(const char *folder, const char *file, struct versions *ret_versions, char why[VERSIONS_WHY_SIZE])
{
	struct versions versions = VERSIONS_INIT;
	char path[PATH_MAX];
	int result = -ENAMETOOLONG;

	if ((size_t)snprintf(path, sizeof(path), "%s/versions", folder) < sizeof(path))
		result = fs_make_directories(path, 0755);
	if (result == 0)
		result = open_both(&versions, folder);
	versions.file = file;
	versions.data = true;
	if (result == 0) {
		*ret_versions = versions;
		return 0;
	}
	snprintf(why, VERSIONS_WHY_SIZE, "%.300s/versions: %s", folder, strerror(-result));
	versions_close(&versions);
	return result;
}

void versions_close(struct versions *versions)
{
	cleanup_close(&versions->fd);
	cleanup_close(&versions->versions_fd);
	cleanup_close(&versions->lock_fd);
	*versions = (struct versions)VERSIONS_INIT;
}

int versions_lock(struct versions *versions, char why[VERSIONS_WHY_SIZE])
{
	int fd = openat(versions->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644), result;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
		versions->lock_fd = fd;
		return 0;
	}
	result = errno == EWOULDBLOCK ? -EBUSY : -errno;
	cleanup_close(&fd);
	snprintf(why, VERSIONS_WHY_SIZE, "%.300s/lock: %s", versions->path,
		 result == -EBUSY ? "an installation or another update is at work; try again when it is done"
				  : strerror(-result));
	return result;
}

int versions_named(const struct versions *versions, const char *pointer, char ret_version[VERSIONS_NAME_SIZE])
{
	char text[VERSIONS_NAME_SIZE + 32], name[VERSIONS_NAME_SIZE];
	ssize_t length = readlinkat(versions->fd, pointer, text, sizeof(text) - 1);
	const char *end;

	if (length < 0)
		return errno == EINVAL ? -EBADMSG : -errno;
	text[length] = 0;
	end = strrchr(text, '/');
	if (strncmp(text, "versions/", 9) != 0 || end < text + 9 || strcmp(end + 1, versions->file) != 0 ||
	    end - (text + 9) >= VERSIONS_NAME_SIZE)
		return -EBADMSG;
	snprintf(name, sizeof(name), "%.*s", (int)(end - (text + 9)), text + 9);
	if (versions_name_fine(name) < 0)
		return -EBADMSG;
	memcpy(ret_version, name, sizeof(name));
	return 0;
}

int versions_whole(const struct versions *versions, const char *version)
{
	char path[VERSIONS_NAME_SIZE + 32];
	struct stat info;

	if (versions_name_fine(version) < 0)
		return -EBADMSG;
	snprintf(path, sizeof(path), "%s/%s", version, versions->file);
	if (fstatat(versions->versions_fd, path, &info, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return S_ISREG(info.st_mode) && (versions->data || (info.st_mode & 0111)) && info.st_size > 0 ? 0 : -EBADMSG;
}

// ---- what goes -----------------------------------------------------------------------------------------------------

static int remove_unfinished(const struct versions *versions, const char *name)
{
	int fd = openat(versions->versions_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), result = 0;
	DIR *folder;

	if (fd < 0)
		return errno != ENOTDIR && errno != ELOOP	      ? -errno
		       : unlinkat(versions->versions_fd, name, 0) < 0 ? -errno
								      : 0;
	folder = fdopendir(fd);
	if (!folder) {
		result = -errno;
		close(fd);
		return result;
	}
	for (struct dirent *entry; (entry = readdir(folder));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    unlinkat(fd, entry->d_name, 0) < 0)
			result = -errno;
	closedir(folder);
	if (result == 0 && unlinkat(versions->versions_fd, name, AT_REMOVEDIR) < 0)
		result = -errno;
	return result;
}

// Without its name it is no version, whatever is left of it.
static int remove_version(const struct versions *versions, const char *version)
{
	char old[VERSIONS_NAME_SIZE + 8];

	// Such a name nobody here has made.
	if ((size_t)snprintf(old, sizeof(old), ".%s.old", version) >= sizeof(old))
		return 0;
	if (renameat(versions->versions_fd, version, versions->versions_fd, old) < 0)
		return -errno;
	if (fsync(versions->versions_fd) < 0)
		return -errno;
	return remove_unfinished(versions, old);
}

// Every entry that is none of the two; unfinished: also what has no name yet.
static int remove_others(const struct versions *versions, const char *one, const char *other, int unfinished)
{
	int fd = openat(versions->versions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (!folder) {
		result = -errno;
		cleanup_close(&fd);
		return result;
	}
	for (struct dirent *entry; result == 0 && (entry = readdir(folder));) {
		const char *name = entry->d_name;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, one) == 0 ||
		    strcmp(name, other) == 0)
			continue;
		if (name[0] != '.')
			result = remove_version(versions, name);
		else if (unfinished)
			result = remove_unfinished(versions, name);
	}
	closedir(folder);
	return result;
}

int versions_tidy(struct versions *versions)
{
	char current[VERSIONS_NAME_SIZE], previous[VERSIONS_NAME_SIZE] = "";
	int result = versions_named(versions, VERSIONS_CURRENT, current);

	if (result == -ENOENT && versions->data)
		return remove_others(versions, "", "", 1);
	// Without a pointer that can be read nothing may go.
	if (result < 0)
		return result;
	result = versions_named(versions, VERSIONS_PREVIOUS, previous);
	return result < 0 && result != -ENOENT ? result : remove_others(versions, current, previous, 1);
}

// Two versions at most: the way back that was goes before another version comes. The pointer goes before what it names.
static int make_room(const struct versions *versions)
{
	char current[VERSIONS_NAME_SIZE] = "";
	int result = versions_named(versions, VERSIONS_CURRENT, current);

	if (result < 0)
		return result == -ENOENT ? 0 : result;
	if (unlinkat(versions->fd, VERSIONS_PREVIOUS, 0) == 0)
		result = fsync(versions->fd) < 0 ? -errno : 0;
	else
		result = errno == ENOENT ? 0 : -errno;
	return result < 0 ? result : remove_others(versions, current, "", 0);
}

// ---- what comes ----------------------------------------------------------------------------------------------------

static void staging_name(const char *version, char out[VERSIONS_NAME_SIZE + 8])
{
	snprintf(out, VERSIONS_NAME_SIZE + 8, ".%s.new", version);
}

int versions_stage(struct versions *versions, const char *version, int *ret_fd)
{
	char name[VERSIONS_NAME_SIZE + 8], file[VERSIONS_NAME_SIZE + 32];
	int fd;

	if (versions_name_fine(version) < 0)
		return -EINVAL;
	staging_name(version, name);
	if (mkdirat(versions->versions_fd, name, 0755) < 0)
		return -errno;
	snprintf(file, sizeof(file), "%s/%s", name, versions->file);
	fd = openat(versions->versions_fd, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		int result = -errno;

		remove_unfinished(versions, name);
		return result;
	}
	*ret_fd = fd;
	return 0;
}

int versions_stage_path(const struct versions *versions, const char *version, char out[PATH_MAX])
{
	char name[VERSIONS_NAME_SIZE + 8];

	staging_name(version, name);
	return (size_t)snprintf(out, PATH_MAX, "%s/versions/%s/%s", versions->path, name, versions->file) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

void versions_stage_drop(struct versions *versions, const char *version, int fd)
{
	char name[VERSIONS_NAME_SIZE + 8];

	close(fd);
	staging_name(version, name);
	remove_unfinished(versions, name);
}

static int write_sums(int folder, const char *sums)
{
	CLEANUP(cleanup_close)
	int fd = openat(folder, SUMS, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int result = fd < 0 ? -errno : fs_write_all(fd, sums, strlen(sums));

	if (result == 0 && fsync(fd) < 0)
		result = -errno;
	return result;
}

static int finish(struct versions *versions, const char *name, const char *version, int fd, const char *sums,
		  char why[VERSIONS_WHY_SIZE])
{
	CLEANUP(cleanup_close)
	int folder = openat(versions->versions_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP(cleanup_close) int model = openat(versions->fd, VERSIONS_CURRENT, O_RDONLY | O_CLOEXEC);
	int result = folder < 0	      ? -errno
		     : versions->data ? versions_file_data(fd, why)
				      : versions_file_like(fd, model, why);

	if (result < 0)
		return result;
	if (fsync(fd) < 0)
		return -errno;
	result = write_sums(folder, sums);
	if (result < 0)
		return result;
	if (fchmod(folder, 0755) < 0 || fsync(folder) < 0)
		return -errno;
	result = make_room(versions);
	if (result < 0)
		return result;
	if (renameat(versions->versions_fd, name, versions->versions_fd, version) < 0)
		return -errno;
	return fsync(versions->versions_fd) < 0 ? -errno : 0;
}

int versions_stage_end(struct versions *versions, const char *version, int fd, const char *sums,
		       char why[VERSIONS_WHY_SIZE])
{
	char name[VERSIONS_NAME_SIZE + 8];
	int result;

	staging_name(version, name);
	why[0] = 0;
	result = finish(versions, name, version, fd, sums, why);
	if (result < 0 && !why[0])
		snprintf(why, VERSIONS_WHY_SIZE, "%.300s/versions/%s: %s", versions->path, version, strerror(-result));
	if (close(fd) < 0 && result == 0)
		result = -errno;
	if (result < 0)
		remove_unfinished(versions, name);
	return result;
}

// ---- the pointers --------------------------------------------------------------------------------------------------

static int point(struct versions *versions, const char *pointer, const char *version)
{
	char text[VERSIONS_NAME_SIZE + 32], fresh[32];

	snprintf(text, sizeof(text), "versions/%s/%s", version, versions->file);
	snprintf(fresh, sizeof(fresh), ".%s.tracer-new", pointer); // the installer's name, which it clears up too
	if (unlinkat(versions->fd, fresh, 0) < 0 && errno != ENOENT)
		return -errno;
	if (symlinkat(text, versions->fd, fresh) < 0 || fsync(versions->fd) < 0 ||
	    renameat(versions->fd, fresh, versions->fd, pointer) < 0 || fsync(versions->fd) < 0)
		return -errno;
	return 0;
}

int versions_point(struct versions *versions, const char *version)
{
	char current[VERSIONS_NAME_SIZE];
	int result = versions_whole(versions, version);

	if (result < 0)
		return result;
	result = versions_named(versions, VERSIONS_CURRENT, current);
	if (result == 0 && strcmp(current, version) == 0)
		return 0;
	if (result == 0)
		result = point(versions, VERSIONS_PREVIOUS, current);
	return result < 0 && result != -ENOENT ? result : point(versions, VERSIONS_CURRENT, version);
}

int versions_back(struct versions *versions, char ret_version[VERSIONS_NAME_SIZE])
{
	char previous[VERSIONS_NAME_SIZE], current[VERSIONS_NAME_SIZE] = "";
	int result = versions_named(versions, VERSIONS_PREVIOUS, previous);

	(void)versions_named(versions, VERSIONS_CURRENT, current);
	if (result == -ENOENT && versions->data && current[0]) {
		if (unlinkat(versions->fd, VERSIONS_CURRENT, 0) < 0 || fsync(versions->fd) < 0)
			return -errno;
		ret_version[0] = 0;
		return 0;
	}
	if (result < 0)
		return result;
	// The same: a way back that was cut off before its end.
	if (strcmp(previous, current) != 0) {
		result = versions_whole(versions, previous);
		if (result == 0)
			result = point(versions, VERSIONS_CURRENT, previous);
		if (result < 0)
			return result;
	}
	if (unlinkat(versions->fd, VERSIONS_PREVIOUS, 0) < 0 || fsync(versions->fd) < 0)
		return -errno;
	memcpy(ret_version, previous, sizeof(previous));
	return 0;
}
