// SPDX-License-Identifier: Apache-2.0
// Room reader, /proc/PID: where a process belongs: its cgroup, its children, the processes and threads there are.
#include "core/proc_read_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"

enum { CHILDREN_STEP = 4096 };

// Whether a comma-separated list holds the name.
static bool list_has(const char *list, size_t length, const char *name)
{
	size_t name_length = strlen(name);

	while (length > 0) {
		const char *comma = memchr(list, ',', length);
		size_t item = comma ? (size_t)(comma - list) : length;

		if (item == name_length && !memcmp(list, name, item))
			return true;
		item += comma ? 1 : 0;
		list += item;
		length -= item;
	}
	return false;
}

int proc_read_cgroup(int proc_fd, const char *controller, char ret_path[PROC_PATH_MAX])
{
	CLEANUP(cleanup_close) int fd = openat(proc_fd, "cgroup", O_RDONLY | O_CLOEXEC);
	CLEANUP(cleanup_fclose) FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
	CLEANUP(cleanup_free) char *line = NULL;
	size_t capacity = 0;
	ssize_t length;

	if (!file)
		return -errno;
	fd = -1; // closed with the file
	// "4:memory:/a/b", and "0::/a/b" for the unified hierarchy
	while ((length = getline(&line, &capacity, file)) > 0) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (line[length - 1] == '\n')
			line[--length] = '\0';
		if (!path)
			continue;
		list++;
		if (controller ? !list_has(list, (size_t)(path - list), controller) : path != list)
			continue;
		length -= path + 1 - line;
		if (length >= PROC_PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(ret_path, path + 1, (size_t)length + 1);
		return 0;
	}
	return -ENOENT;
}

int proc_open_children(int proc_fd, uint32_t tid)
{
	char name[40];
	int fd;

	snprintf(name, sizeof(name), "task/%u/children", tid);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int proc_read_children(int children_fd, void (*visit)(void *context, uint32_t pid), void *context)
{
	char text[CHILDREN_STEP];
	uint32_t pid = 0;
	off_t offset = 0;

	for (;;) {
		ssize_t got = pread(children_fd, text, sizeof(text), offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (uint32_t)(text[i] - '0');
			} else if (pid) {
				visit(context, pid);
				pid = 0;
			}
		}
		offset += got;
	}
}

int proc_each_number(int directory_fd, const char *name,
		     void (*visit)(void *context, uint32_t number), void *context)
{
	int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!directory) {
		int error = -errno;

		if (fd >= 0)
			close(fd);
		return error;
	}
	while ((entry = readdir(directory))) {
		char *end;
		unsigned long number = strtoul(entry->d_name, &end, 10);

		if (end != entry->d_name && !*end && number > 0 && number <= UINT32_MAX)
			visit(context, (uint32_t)number);
	}
	closedir(directory);
	return 0;
}
