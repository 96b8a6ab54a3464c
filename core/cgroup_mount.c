// SPDX-License-Identifier: Apache-2.0
// Room correlate, leaf: which cgroup hierarchies are mounted and where. Descriptors are opened once, at start, while
// the collector may still open them; everything later is relative to them. Of several mounts of a hierarchy the one
// that shows most of it is taken. See proc_pid_mountinfo(5) for the format.
#include "core/cgroup_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/text.h"

enum { MOUNTINFO_MAX = 16 << 20 };

static const char *const controller_names[CGROUP_CONTROLLER_END] = {
	[CGROUP_MEMORY] = "memory",   [CGROUP_PIDS] = "pids",	[CGROUP_CPU] = "cpu",
	[CGROUP_CPUACCT] = "cpuacct", [CGROUP_BLKIO] = "blkio", [CGROUP_UNIFIED] = "unified",
};

enum cgroup_controller cgroup_controller_find(const char *name, size_t length)
{
	if (length == 2 && !memcmp(name, "io", 2))
		return CGROUP_BLKIO;
	for (int i = 0; i < CGROUP_CONTROLLER_END; i++)
		if (strlen(controller_names[i]) == length && !memcmp(controller_names[i], name, length))
			return (enum cgroup_controller)i;
	return CGROUP_CONTROLLER_END;
}

const char *cgroup_controller_name(enum cgroup_controller controller)
{
	return controller < CGROUP_CONTROLLER_END ? controller_names[controller] : NULL;
}

// Takes this mount for the controller unless one that shows more of the hierarchy is known.
static int take_mount(struct cgroup_mounts *mounts, enum cgroup_controller controller, const char *root,
		      const char *point)
{
	struct cgroup_mount *mount = &mounts->mounts[controller];
	// A root above the cgroup namespace is written "/..": then the mount shows it whole.
	const char *prefix = !strcmp(root, "/") || strstr(root, "/..") ? "" : root;
	int fd;

	if (mount->fd >= 0 && strlen(mount->prefix) <= strlen(prefix))
		return 0;
	fd = open(point, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0; // not reachable for us: as good as not mounted
	char *copy = strdup(prefix);

	if (!copy) {
		close(fd);
		return -ENOMEM;
	}
	if (mount->fd >= 0)
		close(mount->fd);
	free(mount->prefix);
	*mount = (struct cgroup_mount){ fd, copy };
	return 0;
}

// "36 35 98:0 /root /point rw,options shared:1 - type source super,options"
static int read_line(struct cgroup_mounts *mounts, char *line)
{
	char *tail = strstr(line, " - "), *save = NULL, *fields[5] = { 0 };
	char *type, *options, *name;
	int error = 0;

	if (!tail)
		return 0;
	*tail = 0;
	type = strtok_r(tail + 3, " ", &save);
	if (!type || strncmp(type, "cgroup", 6) || (type[6] && strcmp(type, "cgroup2")))
		return 0;
	strtok_r(NULL, " ", &save); // the source
	options = strtok_r(NULL, " ", &save);
	fields[0] = strtok_r(line, " ", &save);
	for (int i = 1; i < 5 && fields[i - 1]; i++)
		fields[i] = strtok_r(NULL, " ", &save);
	if (!fields[4])
		return 0;
	text_unescape(fields[3]);
	text_unescape(fields[4]);
	if (type[6])
		return take_mount(mounts, CGROUP_UNIFIED, fields[3], fields[4]);
	for (name = options ? strtok_r(options, ",", &save) : NULL; name && !error; name = strtok_r(NULL, ",", &save)) {
		enum cgroup_controller controller = cgroup_controller_find(name, strlen(name));

		if (controller < CGROUP_UNIFIED)
			error = take_mount(mounts, controller, fields[3], fields[4]);
	}
	return error;
}

// Whether the cgroup2 root offers the memory controller: then that hierarchy is the one in use.
static bool unified_has_memory(const struct cgroup_mounts *mounts)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	char *save = NULL;

	if (fs_read_at(mounts->mounts[CGROUP_UNIFIED].fd, "cgroup.controllers", 4096, &text) || !text.data)
		return false;
	for (char *name = strtok_r(text.data, " \n", &save); name; name = strtok_r(NULL, " \n", &save))
		if (!strcmp(name, "memory"))
			return true;
	return false;
}

static int choose(struct cgroup_mounts *mounts)
{
	bool unified = mounts->mounts[CGROUP_UNIFIED].fd >= 0;
	bool legacy = false;

	mounts->chosen = CGROUP_CONTROLLER_END;
	for (int i = 0; i < CGROUP_UNIFIED; i++) {
		if (mounts->mounts[i].fd < 0)
			continue;
		legacy = true;
		if (i <= CGROUP_CPU && mounts->chosen == CGROUP_CONTROLLER_END)
			mounts->chosen = (enum cgroup_controller)i;
	}
	if (!unified && mounts->chosen == CGROUP_CONTROLLER_END)
		return -ENOENT;
	mounts->mode = !unified ? CGROUP_MODE_V1 : legacy ? CGROUP_MODE_HYBRID : CGROUP_MODE_UNIFIED;
	if (unified && (mounts->chosen == CGROUP_CONTROLLER_END ||
			(mounts->chosen != CGROUP_MEMORY && unified_has_memory(mounts)))) {
		mounts->chosen = CGROUP_UNIFIED;
		mounts->mode = CGROUP_MODE_UNIFIED;
	}
	return 0;
}

int cgroup_mounts_read(const char *mountinfo_path, struct cgroup_mounts *ret_mounts)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct cgroup_mounts mounts;
	char *save = NULL;
	int error;

	error = fs_read(mountinfo_path, MOUNTINFO_MAX, &text);
	if (error)
		return error;
	for (int i = 0; i < CGROUP_CONTROLLER_END; i++)
		mounts.mounts[i] = (struct cgroup_mount){ .fd = -1 };
	for (char *line = text.data ? strtok_r(text.data, "\n", &save) : NULL; line && !error;
	     line = strtok_r(NULL, "\n", &save))
		error = read_line(&mounts, line);
	if (!error)
		error = choose(&mounts);
	if (error) {
		cgroup_mounts_close(&mounts);
		return error;
	}
	*ret_mounts = mounts;
	return 0;
}

void cgroup_mounts_close(struct cgroup_mounts *mounts)
{
	for (int i = 0; i < CGROUP_CONTROLLER_END; i++) {
		if (mounts->mounts[i].fd >= 0)
			close(mounts->mounts[i].fd);
		free(mounts->mounts[i].prefix);
		mounts->mounts[i] = (struct cgroup_mount){ .fd = -1 };
	}
}

int cgroup_mount_open(const struct cgroup_mount *mount, const char *path, int flags)
{
	size_t length;
	int fd;

	if (mount->fd < 0)
		return -ENOENT;
	length = strlen(mount->prefix);
	if (strncmp(path, mount->prefix, length) || (length && path[length] && path[length] != '/'))
		return -ENOENT; // above what is mounted here
	path += length;
	while (*path == '/')
		path++;
	if (strstr(path, "..") && (!strncmp(path, "../", 3) || strstr(path, "/..")))
		return -EINVAL;
	fd = openat(mount->fd, *path ? path : ".", flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
