// SPDX-License-Identifier: Apache-2.0
// Room correlate, leaf: the small text files of a cgroup. Nothing is allocated: a sample of many cgroups would
// otherwise
// spend its time in malloc. What is not there is unknown (UINT64_MAX), never 0.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/cgroup_private.h"

int cgroup_file_read(int directory_fd, const char *name, char *text, size_t size)
{
	CLEANUP(cleanup_close) int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
	size_t length = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t got = read(fd, text + length, size - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		length += (size_t)got;
		if (length == size - 1)
			return -EFBIG;
	}
	text[length] = 0;
	return (int)length;
}

uint64_t cgroup_number_read(int directory_fd, const char *name)
{
	char text[64];

	if (cgroup_file_read(directory_fd, name, text, sizeof(text)) < 0)
		return UINT64_MAX;
	return text_number(text, NULL);
}
