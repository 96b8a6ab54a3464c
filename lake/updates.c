// SPDX-License-Identifier: Apache-2.0
// A mirror of updates. Looks names up below one directory and nowhere else; knows nothing of what the files say.
#include "lake/updates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"

enum { PIECE = 64 << 10 };

#define BELOW "/updates/"

struct updates {
	int fd;
};

// No part of it is hidden, "." or "..", and none is empty.
static bool is_plain(const char *path)
{
	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (*part == '.' || *part == '/' || !*part)
			return false;
	}
	return true;
}

static void file_get(void *context, const struct server_request *request, struct server_reply *reply)
{
	const struct updates *updates = context;
	const char *path = request->path + strlen(BELOW);
	CLEANUP(cleanup_close) int fd =
		is_plain(path) ? openat(updates->fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	CLEANUP(cleanup_free) char *piece = malloc(PIECE);
	struct stat info;
	ssize_t got;

	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		server_reply_error(reply, 404, "not_found", "no such file here");
		return;
	}
	if (!piece) {
		server_reply_error(reply, 503, "memory", "out of memory");
		return;
	}
	server_reply_begin(reply, 200, "application/octet-stream");
	while ((got = read(fd, piece, PIECE)) > 0)
		if (server_reply_write(reply, piece, (size_t)got) < 0)
			return;
	// Half a file must not look like a whole one.
	if (got < 0)
		server_reply_error(reply, 500, "read", "%s", strerror(errno));
}

int updates_new(const char *directory, struct server *server, struct updates **ret_updates)
{
	static const struct server_route routes[] = {
		{.method = "GET", .pattern = BELOW "metadata/{a}", .slow = true, .handler = file_get},
		{.method = "GET", .pattern = BELOW "targets/{a}", .slow = true, .handler = file_get},
		{.method = "GET", .pattern = BELOW "targets/{a}/{b}", .slow = true, .handler = file_get},
		{.method = "GET", .pattern = BELOW "targets/{a}/{b}/{c}", .slow = true, .handler = file_get},
		{.method = "GET", .pattern = BELOW "targets/{a}/{b}/{c}/{d}", .slow = true, .handler = file_get},
		{0},
	};
	struct updates *updates = calloc(1, sizeof(*updates));
	int result;

	if (!updates)
		return -ENOMEM;
	updates->fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	result = updates->fd < 0 ? -errno : server_add_routes(server, routes, updates);
	if (result < 0)
		updates_free(updates);
	else
		*ret_updates = updates;
	return result;
}

void updates_free(struct updates *updates)
{
	if (!updates)
		return;
	cleanup_close(&updates->fd);
	free(updates);
}
