// SPDX-License-Identifier: Apache-2.0
// Streamer: before rights go. Makes the spool readable to the streamer's group and its own directories its own, and
// reads the files that only their owner may read. Works on descriptors and never through a link, since the streamer's
// user owns what lies in its directories.
#include "core/stream_prepare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"

enum {
	SECRET_MAX = 64 << 10,
	CURSOR_MODE = 0711, // the collector reads the cursor without any right over others' files
};

void stream_setup_free(struct stream_setup *setup)
{
	int *const fds[] = {&setup->spool_fd, &setup->state_fd, &setup->cursor_fd, &setup->report_fd};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	buf_free(&setup->ca);
	buf_free(&setup->token);
	buf_free(&setup->client_cert);
	buf_free(&setup->client_key);
}

static int say(char why[STREAM_WHY_SIZE], const char *path, int error)
{
	snprintf(why, STREAM_WHY_SIZE, "%.200s: %s", path, strerror(-error));
	return error;
}

// What lies in one of the streamer's directories goes with it to a new user. Only what the old one owned and has one
// name: a link made to a file of somebody else must not be given away.
static void hand_over_files(int fd, uid_t old, uid_t uid, gid_t gid)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;
	struct stat info;

	while (dir && (entry = readdir(dir)))
		if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
		    info.st_nlink == 1 && info.st_uid == old &&
		    fchownat(fd, entry->d_name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
			continue; // it shows when the streamer cannot read it
	if (dir)
		closedir(dir);
}

static int hand_over(int fd, mode_t mode, const struct stream_setup *setup)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return -errno;
	if (setup->uid == (uid_t)-1 || (info.st_uid == setup->uid && (info.st_mode & 07777) == mode))
		return 0;
	if (info.st_uid != 0 && info.st_uid != setup->uid)
		hand_over_files(fd, info.st_uid, setup->uid, setup->gid);
	else
		hand_over_files(fd, 0, setup->uid, setup->gid);
	if (fchown(fd, setup->uid, setup->gid) < 0 || fchmod(fd, mode) < 0)
		return -errno;
	return 0;
}

// Files that are there and those to come are of the streamer's group; the directory stays root's.
static int open_to_group(int fd, gid_t gid)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;
	struct stat info;
	int result = 0;

	if (!dir)
		return -errno;
	// Every time: an earlier start may have been killed in the middle.
	if (gid != (gid_t)-1 && (fchown(fd, (uid_t)-1, gid) < 0 || fchmod(fd, 02750) < 0))
		result = -errno;
	while (gid != (gid_t)-1 && result == 0 && (entry = readdir(dir)))
		if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
		    info.st_gid != gid && fchownat(fd, entry->d_name, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) < 0)
			result = -errno;
	closedir(dir);
	return result == -ENOENT ? 0 : result; // one that was just removed
}

static int open_directories(const char *spool, struct stream_setup *setup, char why[STREAM_WHY_SIZE])
{
	const char *state = setup->options->state_directory;
	int result = fs_make_directories(spool, 0750);

	setup->spool_fd = open(spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (setup->spool_fd < 0)
		return say(why, spool, result < 0 ? result : -errno);
	result = open_to_group(setup->spool_fd, setup->gid);
	if (result < 0)
		return say(why, spool, result);
	mkdirat(setup->spool_fd, SPOOL_STREAM_DIRECTORY, CURSOR_MODE);
	setup->cursor_fd =
		openat(setup->spool_fd, SPOOL_STREAM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	result = setup->cursor_fd < 0 ? -errno : hand_over(setup->cursor_fd, CURSOR_MODE, setup);
	if (result < 0)
		return say(why, "the spool's " SPOOL_STREAM_DIRECTORY " directory", result);
	if (!*state) {
		setup->state_fd = fcntl(setup->cursor_fd, F_DUPFD_CLOEXEC, 3);
		return setup->state_fd < 0 ? say(why, spool, -errno) : 0;
	}
	result = fs_make_directories(state, 0700);
	setup->state_fd = open(state, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	result = setup->state_fd < 0 ? (result < 0 ? result : -errno) : hand_over(setup->state_fd, 0700, setup);
	return result < 0 ? say(why, state, result) : 0;
}

// A file that holds a secret: its owner's alone. A link is followed (Kubernetes and systemd hand out such); what counts
// is the file at its end.
static int secret_read(const char *key, const char *path, struct buf *out, char why[STREAM_WHY_SIZE])
{
	CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat info;
	ssize_t got;

	if (fd < 0 || fstat(fd, &info) < 0)
		return say(why, path, -errno);
	if (!S_ISREG(info.st_mode) || info.st_size > SECRET_MAX) {
		snprintf(why, STREAM_WHY_SIZE, "%s: %.200s is no small file", key, path);
		return -EINVAL;
	}
	if ((info.st_mode & 077) || (info.st_uid != 0 && info.st_uid != geteuid())) {
		snprintf(why, STREAM_WHY_SIZE,
			 "%s: others than its owner could read or change %.180s; chown it to root "
			 "and chmod 600",
			 key, path);
		return -EINVAL;
	}
	if (buf_reserve(out, SECRET_MAX) < 0)
		return -ENOMEM;
	got = pread(fd, out->data, SECRET_MAX, 0);
	if (got < 0)
		return say(why, path, -errno);
	out->length = (size_t)got;
	out->data[got] = 0;
	return 0;
}

static int token_read(struct stream_setup *setup, char why[STREAM_WHY_SIZE])
{
	const char *path = setup->options->token_file;
	int result = *path ? secret_read("stream.token_file", path, &setup->token, why) : -ENOENT;

	if (result == -ENOENT || result == -EACCES) { // enough for a host that is enrolled
		snprintf(setup->token_missing, sizeof(setup->token_missing), "%s",
			 *path ? why : "stream.token_file names no file");
		return 0;
	}
	if (result < 0)
		return result;
	while (setup->token.length > 0 && strchr(" \t\r\n", setup->token.data[setup->token.length - 1]))
		setup->token.data[--setup->token.length] = 0;
	for (size_t i = 0; i < setup->token.length; i++)
		if (setup->token.data[i] <= ' ' || setup->token.data[i] > '~') {
			snprintf(why, STREAM_WHY_SIZE, "stream.token_file: %.200s is not one line with a token", path);
			return -EINVAL;
		}
	if (setup->token.length == 0 || setup->token.length > 400) {
		snprintf(why, STREAM_WHY_SIZE, "stream.token_file: %.200s is not one line with a token", path);
		return -EINVAL;
	}
	return 0;
}

static void names_read(struct stream_setup *setup)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	stream_hardware("/sys", setup->hardware);
	if (gethostname(setup->host, sizeof(setup->host) - 1) < 0)
		setup->host[0] = 0;
	if (fs_read("/etc/machine-id", sizeof(setup->machine_id) - 1, &text) < 0)
		return;
	snprintf(setup->machine_id, sizeof(setup->machine_id), "%.*s",
		 (int)strcspn(text.data ? text.data : "", "\r\n "), text.data ? text.data : "");
}

static int files_read(struct stream_setup *setup, char why[STREAM_WHY_SIZE])
{
	const struct stream_options *options = setup->options;
	const char *name;
	int result = token_read(setup, why);

	if (result == 0 && *options->client_cert) {
		result = fs_read(options->client_cert, SECRET_MAX, &setup->client_cert);
		if (result < 0)
			say(why, options->client_cert, result);
		else
			result = secret_read("stream.client_key", options->client_key, &setup->client_key, why);
	}
	if (result < 0)
		return result;
	if (*options->ca_file)
		snprintf(setup->ca_path, sizeof(setup->ca_path), "%s", options->ca_file);
	else
		stream_ca_find(setup->ca_path);
	result = stream_ca_read(setup->ca_path, &setup->ca, &name);
	return result < 0 ? say(why, name, result) : 0;
}

int stream_prepare(const struct stream_options *options, const char *spool_directory, struct stream_setup *setup,
		   char why[STREAM_WHY_SIZE])
{
	int result;

	*setup = (struct stream_setup){
		.options = options, .spool_fd = -1, .state_fd = -1, .cursor_fd = -1, .report_fd = -1};
	result = stream_options_check(options, why);
	if (result < 0)
		return result;
	stream_user(options->user, &setup->uid, &setup->gid);
	names_read(setup);
	result = files_read(setup, why);
	if (result == 0)
		result = open_directories(spool_directory, setup, why);
	if (result < 0)
		stream_setup_free(setup);
	return result;
}
