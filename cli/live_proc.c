// SPDX-License-Identifier: Apache-2.0
// The processes that /proc shows, for a host without a collector. Each is read through its own directory's
// descriptor, so a reused pid is never mixed up; one that ends meanwhile is left out.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
	int error;
};

static void live_name_tool(struct live_walk *walk, struct live_process *process,
			   const struct image_strings *strings)
{
	const struct rule_subject subject = {
		.comm = process->comm,
		.exe = strings->exe,
		.script = strings->script,
		.interpreter = strings->interpreter,
		.args = strings->args,
		.args_size = strings->args_size,
		.cwd = strings->cwd,
		.uid = process->uid,
	};
	struct rule_result result;

	if (walk->source->rules &&
	    rules_match(walk->source->rules, &subject, &walk->live->arena, &result) == 0)
		process->tool = result.tool;
	else
		process->tool = process->comm;
}

static void live_read_proc(struct live_walk *walk, struct live_process *process, int fd,
			   const struct event_identity *identity,
			   const struct proc_figures *figures)
{
	struct arena *arena = &walk->live->arena;
	struct image_strings strings = {0};
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
	if (proc_read_image(fd, arena, &strings) == 0) {
		report_command(command, strings.args, strings.args_size);
		process->command = *command ? arena_strndup(arena, command, strlen(command)) : NULL;
	}
	if (proc_read_cgroup(fd, NULL, cgroup) == 0)
		process->cgroup = arena_strndup(arena, cgroup, strlen(cgroup));
	live_name_tool(walk, process, &strings);
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
	process = live_add(walk->live);
	if (process)
		live_read_proc(walk, process, fd, &identity, &figures);
	else
		walk->error = -ENOMEM;
}

int live_take_proc(struct live_source *source, struct live *live)
{
	struct live_walk walk = {.source = source, .live = live};
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
	return error < 0 ? error : walk.error;
}
