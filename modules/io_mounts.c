// SPDX-License-Identifier: Apache-2.0
// Module io: which file systems are mounted and how full the local ones are. Source: proc_pid_mountinfo(5).
// Invariant: nothing here may wait for a server, a user-space file system or an automounter. So statvfs(3) is called
// only for types in local_types, and only when every mount on the way to it is of a type that lives in this kernel.
// mountinfo is parsed again only when poll(2) says it changed. No descriptor to a mount is kept: it would pin it.
#include "modules/io_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/text.h"

enum { MOUNTINFO_MAX = 16 << 20, SCAN_MAX = 8192, DEPTH_MAX = 64 };

// File systems on block devices, or their like: the superblock is in memory, so asking does no I/O.
static const char *const local_types[] = { "ext2", "ext3", "ext4", "xfs",  "btrfs",	"zfs",	 "f2fs",
					   "jfs",  "vfat", "ntfs3", "exfat", "bcachefs", "nilfs2", "reiserfs", NULL };

// Their mount points can be passed through without waiting.
static const char *const kernel_types[] = { "rootfs", "tmpfs",	 "devtmpfs", "ramfs",  "proc",	  "sysfs",
					    "cgroup", "cgroup2", "squashfs", "erofs",  "overlay", "iso9660",
					    "devpts", "mqueue",	 "debugfs",  "tracefs", NULL };

// A line of mountinfo while the file is read.
struct line {
	uint32_t id, parent, major, minor;
	char *path, *type, *source;
	bool safe; // itself and all above it
};

static bool in_list(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(*list, name))
			return true;
	return false;
}

void io_mounts_open(struct io_mounts *mounts, const char *proc, const char *sys)
{
	CLEANUP(cleanup_close) int directory = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);

	memset(mounts, 0, sizeof(*mounts));
	snprintf(mounts->proc, sizeof(mounts->proc), "%s", proc);
	snprintf(mounts->sys, sizeof(mounts->sys), "%s", sys);
	arena_init(&mounts->arena, 4096);
	mounts->arena_ready = true;
	if (directory < 0)
		return;
	text_file_open(&mounts->mountinfo, directory, "self/mountinfo");
	text_file_open(&mounts->mountstats, directory, "self/mountstats");
	io_mounts_update(mounts);
}

void io_mounts_close(struct io_mounts *mounts)
{
	text_file_close(&mounts->mountinfo);
	text_file_close(&mounts->mountstats);
	if (mounts->arena_ready)
		arena_free(&mounts->arena);
	mounts->arena_ready = false;
	if (mounts->lustre_open)
		close(mounts->lustre_fd);
	mounts->lustre_open = false;
	mounts->count = 0;
}

// "36 35 98:0 /root /point options shared:1 - type source super"
static bool parse_line(char *text, struct line *ret_line)
{
	char *tail = strstr(text, " - "), *save = NULL, *fields[5];
	struct line line = { 0 };

	if (!tail)
		return false;
	*tail = 0;
	line.type = strtok_r(tail + 3, " ", &save);
	line.source = strtok_r(NULL, " ", &save);
	for (int i = 0; i < 5; i++) {
		fields[i] = strtok_r(i ? NULL : text, " ", &save);
		if (!fields[i])
			return false;
	}
	if (!line.type || !line.source || sscanf(fields[2], "%u:%u", &line.major, &line.minor) != 2)
		return false;
	line.id = (uint32_t)strtoul(fields[0], NULL, 10);
	line.parent = (uint32_t)strtoul(fields[1], NULL, 10);
	line.path = fields[4];
	text_unescape(line.path);
	text_unescape(line.source);
	*ret_line = line;
	return true;
}

static const struct line *find_parent(const struct line *lines, uint32_t count, const struct line *line)
{
	for (uint32_t i = 0; i < count; i++)
		if (lines[i].id == line->parent && &lines[i] != line)
			return &lines[i];
	return NULL; // the root of what this process sees
}

// Whether other is line, or line lies on it. Parents may stand behind their children in the file.
static bool lies_on(const struct line *lines, uint32_t count, const struct line *line, const struct line *other)
{
	for (unsigned depth = 0; line && depth < DEPTH_MAX; depth++, line = find_parent(lines, count, line))
		if (line == other)
			return true;
	return false;
}

// A mount is safe when its type is, and the mounts it lies on are.
static bool is_safe(const struct line *lines, uint32_t count, const struct line *line)
{
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		if (!in_list(local_types, line->type) && !in_list(kernel_types, line->type))
			return false;
		line = find_parent(lines, count, line);
		if (!line)
			return true;
	}
	return false;
}

// Mounted over, itself or a folder above it: the path leads to another mount.
static bool is_hidden(const struct line *lines, uint32_t count, const struct line *line)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t length = strlen(lines[i].path);

		if (&lines[i] == line || strncmp(lines[i].path, line->path, length))
			continue;
		if (line->path[length] && line->path[length] != '/' && length != 1)
			continue;
		// On the way there, above or under it?
		if (!lies_on(lines, count, line, &lines[i]))
			return true;
	}
	return false;
}

static struct io_mount *find_device(struct io_mounts *mounts, const struct line *line)
{
	for (uint32_t i = 0; i < mounts->count; i++)
		if (mounts->mounts[i].major == line->major && mounts->mounts[i].minor == line->minor)
			return &mounts->mounts[i];
	return NULL;
}

// tmpfs counts where programs put data; an overlay only as the root of this mount namespace.
static bool is_wanted(const struct line *line)
{
	if (in_list(local_types, line->type))
		return true;
	if (!strcmp(line->type, "tmpfs"))
		return !strcmp(line->path, "/dev/shm") || !strcmp(line->path, "/tmp") || !strcmp(line->path, "/");
	return !strcmp(line->type, "overlay") && !strcmp(line->path, "/");
}

// Of each file system one mount is kept, the one with the shortest path. Asked first: hosts of containers bind
// the same file system thousands of times.
static bool is_better(struct io_mounts *mounts, const struct line *line)
{
	const struct io_mount *mount;

	if (!is_wanted(line))
		return false;
	mount = find_device(mounts, line);
	return !mount || strlen(line->path) < strlen(mount->path);
}

static int take_line(struct io_mounts *mounts, const struct line *line)
{
	struct io_mount *mount = find_device(mounts, line);

	if (!mount && mounts->count == IO_MOUNTS_MAX) {
		mounts->omitted++;
		return 0;
	}
	struct io_mount taken = { .major = line->major, .minor = line->minor };

	taken.path = arena_strndup(&mounts->arena, line->path, strlen(line->path));
	taken.type = arena_strndup(&mounts->arena, line->type, strlen(line->type));
	taken.source = arena_strndup(&mounts->arena, line->source, strlen(line->source));
	if (!taken.path || !taken.type || !taken.source)
		return -ENOMEM;
	if (!mount)
		mount = &mounts->mounts[mounts->count++];
	*mount = taken;
	return 0;
}

static int take_lines(struct io_mounts *mounts, const struct line *lines, uint32_t count)
{
	int error = 0;

	arena_reset(&mounts->arena);
	mounts->count = 0;
	mounts->omitted = 0;
	mounts->has_nfs = false;
	mounts->has_lustre = false;
	for (uint32_t i = 0; i < count && !error; i++) {
		mounts->has_nfs |= !strcmp(lines[i].type, "nfs") || !strcmp(lines[i].type, "nfs4");
		mounts->has_lustre |= !strcmp(lines[i].type, "lustre");
		if (is_better(mounts, &lines[i]) && !is_hidden(lines, count, &lines[i]) &&
		    is_safe(lines, count, &lines[i]))
			error = take_line(mounts, &lines[i]);
	}
	return error;
}

static int read_mountinfo(struct io_mounts *mounts)
{
	CLEANUP(cleanup_free) struct line *lines = NULL;
	uint32_t count = 0;
	char *save = NULL;
	int error = text_file_read(&mounts->mountinfo, MOUNTINFO_MAX);

	if (error)
		return error;
	lines = calloc(SCAN_MAX, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	for (char *text = strtok_r(mounts->mountinfo.text.data, "\n", &save); text && count < SCAN_MAX;
	     text = strtok_r(NULL, "\n", &save))
		count += parse_line(text, &lines[count]);
	error = take_lines(mounts, lines, count);
	buf_free(&mounts->mountinfo.text); // thousands of mounts: not to be kept
	return error;
}

int io_mounts_update(struct io_mounts *mounts)
{
	struct pollfd changed = { .fd = mounts->mountinfo.fd, .events = POLLPRI };
	int error;

	if (!mounts->mountinfo.open)
		return -EBADF;
	// Asked even before the first reading: the kernel reports a change once.
	if (poll(&changed, 1, 0) <= 0 && mounts->read)
		return 0;
	if (mounts->read && !(changed.revents & (POLLPRI | POLLERR)))
		return 0;
	error = read_mountinfo(mounts);
	if (!error)
		mounts->read = true;
	return error;
}

static void write_mount(const struct io_mount *mount, struct json *json)
{
	struct statvfs space;
	bool known = !statvfs(mount->path, &space);
	uint64_t unit = known ? space.f_frsize : 0;
	char device[24];

	snprintf(device, sizeof(device), "%u:%u", mount->major, mount->minor);
	json_open_object(json);
	json_put_string(json, "path", mount->path);
	json_put_string(json, "type", mount->type);
	json_put_string(json, "source", mount->source);
	json_put_string(json, "device", device);
	json_put_known_u64(json, "total_bytes", known ? space.f_blocks * unit : TEXT_UNKNOWN);
	json_put_known_u64(json, "free_bytes", known ? space.f_bfree * unit : TEXT_UNKNOWN);
	json_put_known_u64(json, "available_bytes", known ? space.f_bavail * unit : TEXT_UNKNOWN);
	// File systems without a table of inodes say 0.
	json_put_known_u64(json, "inodes_total", known && space.f_files ? space.f_files : TEXT_UNKNOWN);
	json_put_known_u64(json, "inodes_free", known && space.f_files ? space.f_ffree : TEXT_UNKNOWN);
	json_close_object(json);
}

void io_mounts_write(struct io_mounts *mounts, struct json *json)
{
	int error = io_mounts_update(mounts);

	if (error && !mounts->read) {
		json_put_null(json, "mounts");
		json_put_null(json, "mounts_omitted");
	} else {
		json_key(json, "mounts");
		json_open_array(json);
		for (uint32_t i = 0; i < mounts->count; i++)
			write_mount(&mounts->mounts[i], json);
		json_close_array(json);
		json_put_u64(json, "mounts_omitted", mounts->omitted);
	}
	io_nfs_write(mounts, json);
	io_lustre_write(mounts, json);
}
