// SPDX-License-Identifier: Apache-2.0
// Room correlate: walks the hierarchy that gives the ids and brings the table up to it. Directories come and go
// meanwhile: one that vanished is no error, any other obstacle makes the walk incomplete, and then nothing is marked.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/cgroup_private.h"

struct scan {
	struct cgroup_table *table;
	char path[PATH_MAX];
	int error; // the first that made the walk incomplete
};

static void scan_below(struct scan *scan, int parent_fd, size_t length, unsigned depth);

static void scan_failed(struct scan *scan, int error)
{
	if (!scan->error && error != -ENOENT && error != -ENODEV)
		scan->error = error;
}

// One directory whose path is in scan->path: adds it and what lies below.
static void scan_directory(struct scan *scan, int fd, size_t length, unsigned depth)
{
	const struct cgroup *added;
	struct stat stat;
	int error;

	if (fstat(fd, &stat)) {
		scan_failed(scan, -errno);
		return;
	}
	error = cgroup_table_add(scan->table, stat.st_ino, length ? scan->path : "/", &added);
	if (error) {
		scan_failed(scan, error);
		return;
	}
	((struct cgroup *)added)->scan = scan->table->scan;
	if (stat.st_nlink != 2) // 2: no directories in it
		scan_below(scan, fd, length, depth);
}

static void scan_below(struct scan *scan, int parent_fd, size_t length, unsigned depth)
{
	int list_fd = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = list_fd < 0 ? NULL : fdopendir(list_fd);
	struct dirent *entry;

	if (!directory) {
		scan_failed(scan, -errno);
		if (list_fd >= 0)
			close(list_fd);
		return;
	}
	while ((entry = readdir(directory))) {
		size_t name = strlen(entry->d_name);

		if (entry->d_name[0] == '.' || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
			continue;
		if (depth >= CGROUP_DEPTH_MAX || length + name + 2 > sizeof(scan->path)) {
			scan_failed(scan, -ENAMETOOLONG);
			continue;
		}
		CLEANUP(cleanup_close)
		int fd = openat(parent_fd, entry->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0) {
			if (errno != ENOTDIR)
				scan_failed(scan, -errno);
			continue;
		}
		scan->path[length] = '/';
		memcpy(scan->path + length + 1, entry->d_name, name + 1);
		scan_directory(scan, fd, length + 1 + name, depth + 1);
		scan->path[length] = 0;
	}
	closedir(directory);
}

int cgroup_table_scan(struct cgroup_table *table)
{
	CLEANUP(cleanup_free) struct scan *scan = NULL;
	CLEANUP(cleanup_close) int fd = -1;
	const struct cgroup_mount *mount;

	if (!table)
		return -ENOENT;
	scan = calloc(1, sizeof(*scan));
	if (!scan)
		return -ENOMEM;
	mount = &table->mounts.mounts[table->mounts.chosen];
	scan->table = table;
	if (strlen(mount->prefix) >= sizeof(scan->path))
		return -ENAMETOOLONG;
	memcpy(scan->path, mount->prefix, strlen(mount->prefix) + 1);
	fd = cgroup_mount_open(mount, mount->prefix, O_PATH);
	if (fd < 0)
		return fd;
	table->scan++;
	scan_directory(scan, fd, strlen(mount->prefix), 0);
	if (scan->error)
		return scan->error;
	for (int i = 0; i < CGROUP_BUCKETS; i++)
		for (struct cgroup *cgroup = table->by_id[i]; cgroup; cgroup = cgroup->hash_next)
			if (cgroup->scan != table->scan)
				cgroup_mark_removed(table, cgroup);
	return 0;
}
