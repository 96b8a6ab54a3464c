// SPDX-License-Identifier: Apache-2.0
// The cgroup hierarchies mounted on this host. Private to core/cgroup*.c.
#pragma once

#include <stdbool.h>

#include "core/cgroup.h"

enum cgroup_controller {
	CGROUP_MEMORY, // the first three in the order in which they are chosen to give the ids
	CGROUP_PIDS,
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_BLKIO,
	CGROUP_UNIFIED, // the cgroup2 hierarchy
	CGROUP_CONTROLLER_END,
};

struct cgroup_mount {
	int fd; // O_PATH of the mount point, -1: not mounted
	char *prefix; // the part of the hierarchy above the mount point, "" when it is mounted whole
};

struct cgroup_mounts {
	struct cgroup_mount mounts[CGROUP_CONTROLLER_END];
	enum cgroup_controller chosen; // gives ids and paths
	enum cgroup_mode mode;
};

// Reads a mountinfo file. -ENOENT when it names no cgroup mount that can be opened.
int cgroup_mounts_read(const char *mountinfo_path, struct cgroup_mounts *ret_mounts);
void cgroup_mounts_close(struct cgroup_mounts *mounts);

// "cpu", "io", ... to a controller; CGROUP_CONTROLLER_END when it is none of them.
enum cgroup_controller cgroup_controller_find(const char *name, size_t length);
const char *cgroup_controller_name(enum cgroup_controller controller);

// Opens a cgroup's directory below a mount, given its path in the hierarchy. flags as for openat(2). fd or -errno.
int cgroup_mount_open(const struct cgroup_mount *mount, const char *path, int flags);
