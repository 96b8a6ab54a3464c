// SPDX-License-Identifier: Apache-2.0
// The processes that /proc shows, for a host without a collector. Each is read through its own directory's
// descriptor, so a reused pid is never mixed up; one that ends meanwhile is left out.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/live.h"
#include "core/base/cleanup.h"
#include "core/proc_read.h"
#include "core/report_tree.h"
#include "core/rules.h"

struct live_walk {
	struct live_source *source;
	struct live *live;
	const char *controller;
	struct live_seen *seen; // as many as rows
	size_t seen_room;
	int error;
};

static void live_read_proc(struct live_walk *walk, struct live_process *process, int fd,
			   const struct event_identity *identity,
			   const struct proc_figures *figures)
{
	struct arena *arena = &walk->live->arena;
	struct live_seen *seen = &walk->seen[walk->live->count - 1];
	struct image_strings *strings = &seen->strings;
	char command[REPORT_TEXT_MAX], cgroup[PROC_PATH_MAX];

	process->pid = identity->process.pid;
	process->ppid = identity->parent.pid;
	process->uid = identity->uid;
	process->state = figures->stat.state;
	process->start_boot_ns = identity->process.start_ns;
	process->cpu_ns = figures->counters.cpu_ns;
	process->run_delay_ns = figures->counters.run_delay_ns;
	process->rss_bytes = figures->rss_bytes;
	process->threads = figures->stat.threads;
	process->rchar_bytes = figures->counters.rchar_bytes;
	process->wchar_bytes = figures->counters.wchar_bytes;
	process->read_bytes = figures->counters.read_bytes;
	process->write_bytes = figures->counters.write_bytes;
	process->comm =
		arena_strndup(arena, identity->comm, strnlen(identity->comm, PROC_COMM_SIZE));
	process->tool = process->comm;
	*seen = (struct live_seen){.identity = *identity};
	if (proc_read_image(fd, arena, strings) == 0) {
		report_command(command, strings->args, strings->args_size);
		process->command = *command ? arena_strndup(arena, command, strlen(command)) : NULL;
	}
	if (proc_read_cgroup(fd, walk->controller, cgroup) == 0)
		seen->cgroup = process->cgroup = arena_strndup(arena, cgroup, strlen(cgroup));
}

static bool seen_room(struct live_walk *walk)
{
	size_t room = walk->seen_room ? walk->seen_room * 2 : 256;
	struct live_seen *grown;

	if (walk->live->count < walk->seen_room)
		return true;
	grown = realloc(walk->seen, room * sizeof(*grown));
	if (!grown)
		return false;
	walk->seen = grown;
	walk->seen_room = room;
	return true;
}

static void live_visit(void *context, uint32_t pid)
{
	CLEANUP(cleanup_close) int fd = proc_open(pid);
	struct live_walk *walk = context;
	struct event_identity identity;
	struct proc_figures figures;
	struct live_process *process;
	struct proc_stat stat;

	if (fd < 0 || walk->error < 0 || proc_read_identity(fd, pid, &identity, &stat) < 0 ||
	    stat.kernel_thread || proc_read_figures(fd, pid, &figures) < 0)
		return;
	process = seen_room(walk) ? live_add(walk->live) : NULL;
	if (process)
		live_read_proc(walk, process, fd, &identity, &figures);
	else
		walk->error = -ENOMEM;
}

int live_take_proc(struct live_source *source, struct live *live)
{
	struct live_walk walk = {.source = source, .live = live, .controller = live_cgroup_controller()};
	CLEANUP(cleanup_close) int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error;

	if (fd < 0)
		return -errno;
	if (!source->rules) {
		CLEANUP(buf_free) struct buf complaint = BUF_INIT;

		// Without rules a tool keeps its own name.
		(void)rules_load(NULL, &source->rules, &complaint);
	}
	error = proc_each_number(fd, ".", live_visit, &walk);
	if (!error)
		error = walk.error;
	// Without rules each is its own.
	if (!error && source->rules)
		error = live_place_all(live, walk.seen, live->count, source->rules);
	free(walk.seen);
	return error;
}
