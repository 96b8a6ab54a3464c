// SPDX-License-Identifier: Apache-2.0
// Room reader, /proc/PID: what a process runs: executable, working directory, script, arguments.
#include "core/proc_read_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"

// The target of a link in /proc/PID; NULL when it is not to be had. *ret_error: -ENOMEM.
static const char *link_read(int proc_fd, const char *name, struct arena *arena, int *ret_error)
{
	static const char deleted[] = " (deleted)";
	char target[PROC_PATH_MAX];
	ssize_t length = readlinkat(proc_fd, name, target, sizeof(target));
	size_t tail = sizeof(deleted) - 1;
	char *copy;

	if (length <= 0 || (size_t)length == sizeof(target))
		return NULL;
	if ((size_t)length > tail && !memcmp(target + length - tail, deleted, tail))
		length -= (ssize_t)tail;
	copy = arena_strndup(arena, target, (size_t)length);
	if (!copy)
		*ret_error = -ENOMEM;
	return copy;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

// execve() of a script names the process after the script and puts interpreter and script in front
// of the arguments; a shell that is given a script to read is named after itself.
static void image_find_script(const char *comm, struct image_strings *strings)
{
	const char *argument = strings->args, *end = strings->args + strings->args_size;

	if (!strings->args || !comm[0] ||
	    !strncmp(base_name(strings->args), comm, PROC_COMM_SIZE - 1) ||
	    (strings->exe && !strncmp(base_name(strings->exe), comm, PROC_COMM_SIZE - 1)))
		return;
	// One argument of the interpreter may stand between.
	for (int i = 0; i < 2; i++) {
		argument += strlen(argument) + 1;
		if (argument >= end)
			return;
		if (argument[0] == '-' ||
		    strncmp(base_name(argument), comm, PROC_COMM_SIZE - 1) != 0)
			continue;
		strings->script = argument;
		strings->interpreter = strings->args;
		return;
	}
}

static int image_read_args(int proc_fd, uint64_t args_bytes, struct arena *arena,
			   struct image_strings *strings)
{
	char text[PROC_ARGS_MAX + 2]; // one byte more than is kept tells a longer one, and a NUL
	ssize_t length = proc_text_read(proc_fd, "cmdline", text, sizeof(text));
	size_t kept;

	if (length <= 0)
		return 0;
	kept = length > PROC_ARGS_MAX ? PROC_ARGS_MAX : (size_t)length;
	strings->args_total = (uint32_t)length;
	if ((size_t)length > kept && args_bytes > (uint64_t)length)
		strings->args_total = args_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)args_bytes;
	// A process may have written over its arguments: the last byte is then not a NUL.
	if (text[kept - 1] && kept < PROC_ARGS_MAX)
		kept++;
	text[kept - 1] = '\0';
	strings->args = arena_strndup(arena, text, kept);
	strings->args_size = (uint32_t)kept;
	if (strings->args_total < strings->args_size)
		strings->args_total = strings->args_size;
	return strings->args ? 0 : -ENOMEM;
}

int proc_read_image(int proc_fd, struct arena *arena, struct image_strings *ret_strings)
{
	struct image_strings strings = {0};
	struct proc_stat before, after;
	int result, error = 0;

	// An exec between two reads would mix two programs: read again until it holds still.
	for (int attempt = 0; attempt < 3; attempt++) {
		result = proc_read_stat(proc_fd, &before);
		if (result < 0)
			return result;
		strings = (struct image_strings){0};
		strings.exe = link_read(proc_fd, "exe", arena, &error);
		strings.cwd = link_read(proc_fd, "cwd", arena, &error);
		result = image_read_args(proc_fd, before.args_bytes, arena, &strings);
		if (result < 0 || error < 0)
			return -ENOMEM;
		result = proc_read_stat(proc_fd, &after);
		if (result < 0)
			return result;
		if (before.program_mark == after.program_mark)
			break;
	}
	image_find_script(after.comm, &strings);
	*ret_strings = strings;
	return 0;
}

int proc_read_image_of(uint32_t pid, uint64_t start_boot_ns, struct arena *arena,
		       struct image_strings *ret_strings)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(pid);
	struct proc_stat stat;
	int result;

	if (proc_fd < 0)
		return -ESRCH;
	result = proc_read_stat(proc_fd, &stat);
	if (result < 0)
		return -ESRCH;
	if (!proc_start_matches(start_boot_ns, stat.start_ticks))
		return -ESRCH;
	return proc_read_image(proc_fd, arena, ret_strings);
}
