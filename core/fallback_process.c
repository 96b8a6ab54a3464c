// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: a watched process while it lives. Invariants: a figure only grows; what
// was not read stays UNKNOWN; /proc is believed only when the start time there is the process's
// own. It must not decide when to look (core/fallback_poll.c, core/fallback_event.c).
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/fallback_private.h"

#define NS_PER_S 1000000000u

enum { DEPTH_MAX = 64, ARENA_BYTES = 64 * 1024 };

// ---- figures -------------------------------------------------------------------------------------

static void figure_merge(__u64 *to, uint64_t from)
{
	if (from != UNKNOWN && (*to == UNKNOWN || from > *to))
		*to = from;
}

void counters_merge(struct counters *to, const struct counters *from)
{
	figure_merge(&to->cpu_ns, from->cpu_ns);
	figure_merge(&to->utime_ns, from->utime_ns);
	figure_merge(&to->stime_ns, from->stime_ns);
	figure_merge(&to->run_delay_ns, from->run_delay_ns);
	figure_merge(&to->voluntary_switches, from->voluntary_switches);
	figure_merge(&to->involuntary_switches, from->involuntary_switches);
	figure_merge(&to->minor_faults, from->minor_faults);
	figure_merge(&to->major_faults, from->major_faults);
	figure_merge(&to->rchar_bytes, from->rchar_bytes);
	figure_merge(&to->wchar_bytes, from->wchar_bytes);
	figure_merge(&to->read_syscalls, from->read_syscalls);
	figure_merge(&to->write_syscalls, from->write_syscalls);
	figure_merge(&to->read_bytes, from->read_bytes);
	figure_merge(&to->write_bytes, from->write_bytes);
	figure_merge(&to->cancelled_write_bytes, from->cancelled_write_bytes);
	if (from->threads_max > to->threads_max)
		to->threads_max = from->threads_max;
}

static void figures_unknown(struct process *process)
{
	memset(&process->counters, 0xff, sizeof(process->counters));
	process->counters.threads = process->counters.threads_max = 1;
}

// A start known from an event may lie a little
// behind the kernel's own: the tick before is the process's too.
bool fallback_start_is_own(struct watched *watched, const struct proc_stat *stat)
{
	struct process *process = watched->process;

	if (watched->start_ticks != UNKNOWN)
		return watched->start_ticks == stat->start_ticks;
	if (proc_start_boot_ns(stat->start_ticks) > process->start_boot_ns ||
	    proc_start_boot_ns(stat->start_ticks + 2) < process->start_boot_ns)
		return false;
	watched->start_ticks = stat->start_ticks;
	return true;
}

static void memory_take(struct process *process, const struct proc_figures *figures)
{
	if (figures->rss_bytes == UNKNOWN)
		return; // a zombie's memory is gone
	process->rss_bytes = figures->rss_bytes;
	process->anon_bytes = figures->anon_bytes;
	process->file_bytes = figures->file_bytes;
	process->shmem_bytes = figures->shmem_bytes;
	process->swap_bytes = figures->swap_bytes;
	if (figures->peak_rss_bytes == UNKNOWN)
		return;
	if (process->image->peak_rss_bytes == UNKNOWN || figures->peak_rss_bytes > process->image->peak_rss_bytes)
		process->image->peak_rss_bytes = figures->peak_rss_bytes;
	if (process->peak_rss_bytes == UNKNOWN || figures->peak_rss_bytes > process->peak_rss_bytes)
		process->peak_rss_bytes = figures->peak_rss_bytes;
	process->quality[FIGURE_MEMORY] = QUALITY_SAMPLED;
}

void fallback_figures_take(struct watched *watched, const struct proc_figures *figures, uint64_t now_ns)
{
	struct process *process = watched->process;
	bool dead = proc_stat_is_dead(&figures->stat);

	counters_merge(&process->counters, &figures->counters);
	if (figures->counters.threads)
		process->counters.threads = figures->counters.threads;
	if (process->counters.threads_max > 1 && !watched->threads_met)
		process->threads_unsure = true;
	process->counters_boot_ns = now_ns;
	process->state = figures->stat.state;
	process->uid = figures->uid;
	process->gid = figures->gid;
	process->process_group = figures->stat.process_group;
	process->session = figures->stat.session;
	memory_take(process, figures);
	process->quality[FIGURE_CPU] = figures->final ? QUALITY_EXACT : QUALITY_SAMPLED;
	if (figures->counters.rchar_bytes != UNKNOWN) {
		// The kernel's sums of the process hold every thread; those of a lone thread miss
		// the others.
		bool whole = !figures->stat.children_reaped || process->counters.threads_max <= 1;

		process->quality[FIGURE_IO] = !dead ? QUALITY_SAMPLED : whole ? QUALITY_EXACT : QUALITY_ESTIMATED;
	}
	watched->figures_ns = watched->cpu_boot_ns = now_ns;
	if (dead && figures->stat.status >= 0 && watched->status < 0)
		watched->status = figures->stat.status;
}

static void cgroup_follow(struct watched *watched, int proc_fd);

int fallback_figures(struct watched *watched, uint64_t now_ns)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(watched->pid);
	struct proc_figures figures;

	if (proc_fd < 0 || proc_read_figures(proc_fd, watched->pid, &figures) < 0 ||
	    !fallback_start_is_own(watched, &figures.stat))
		return -ESRCH;
	if (figures.stat.program_mark && figures.stat.program_mark != watched->program_mark) {
		if (watched->program_mark && !fallback_has_events(watched->fallback))
			fallback_execed(watched, now_ns, false);
		else
			watched->program_mark = figures.stat.program_mark;
	}
	fallback_figures_take(watched, &figures, now_ns);
	if (proc_stat_is_dead(&figures.stat))
		return 1;
	cgroup_follow(watched, proc_fd);
	return 0;
}

bool fallback_is_here(const struct watched *watched)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(watched->pid);
	struct proc_stat stat;

	return proc_fd >= 0 && proc_read_stat(proc_fd, &stat) == 0 &&
	       (watched->start_ticks == UNKNOWN || stat.start_ticks == watched->start_ticks);
}

void fallback_cpu(struct watched *watched, uint64_t now_ns)
{
	uint64_t cpu_ns;

	if (proc_read_cpu(watched->pid, &cpu_ns) < 0)
		return;
	figure_merge(&watched->process->counters.cpu_ns, cpu_ns);
	watched->cpu_boot_ns = now_ns;
}

// ---- first sight ---------------------------------------------------------------------------------

// The id of the process's cgroup; 0: unknown. A cgroup made since the last scan is looked for once
// a second.
static uint64_t cgroup_id_read(struct fallback *fallback, int proc_fd)
{
	struct cgroup_table *cgroups = agent_cgroups(fallback->agent);
	uint64_t now = clock_boot_ns();
	struct cgroup *cgroup;
	char path[PROC_PATH_MAX];

	if (!cgroups || proc_read_cgroup(proc_fd, cgroup_table_controller(cgroups), path) < 0)
		return 0;
	cgroup = cgroup_find_path(cgroups, path);
	if (!cgroup && now - fallback->cgroup_scan_ns > NS_PER_S) {
		fallback->cgroup_scan_ns = now;
		cgroup_table_scan(cgroups);
		cgroup = cgroup_find_path(cgroups, path);
	}
	return cgroup ? cgroup->id : 0;
}

static void cgroup_follow(struct watched *watched, int proc_fd)
{
	uint64_t id = cgroup_id_read(watched->fallback, proc_fd);

	if (id && id != watched->process->cgroup_id)
		agent_process_move(watched->fallback->agent, watched->process, id, 0);
}

static void image_first(struct watched *watched, int proc_fd)
{
	struct process *process = watched->process;
	struct watched *parent = process->parent ? watched_find(watched->fallback, process->parent->pid) : NULL;
	struct image_strings strings;
	struct arena arena;

	// A fork leaves every address where it was: the same mark is the parent's program still.
	if (parent && parent->process == process->parent && watched->program_mark &&
	    parent->program_mark == watched->program_mark) {
		process_share_image(process, process->parent);
		process->quality[FIGURE_ARGS] = process->parent->quality[FIGURE_ARGS];
		return;
	}
	arena_init(&arena, ARENA_BYTES);
	if (proc_read_image(proc_fd, &arena, &strings) == 0 && process_set_strings(process, &strings) == 0 &&
	    strings.args)
		process->quality[FIGURE_ARGS] = QUALITY_SAMPLED;
	arena_free(&arena);
}

static int found_at_depth(struct fallback *fallback, uint32_t pid, bool seeded, int depth,
			  struct watched **ret_watched);

// Makes sure of the parent first, as the tree is built from above. NULL: it is not ours.
static struct watched *parent_of(struct fallback *fallback, uint32_t ppid, bool seeded, int depth)
{
	struct watched *parent = watched_find(fallback, ppid);

	// A tree found from above has no ancestors to look for.
	if (!parent && ppid && depth < DEPTH_MAX && (!fallback->options.root_pid || !fallback->children_files))
		found_at_depth(fallback, ppid, seeded, depth + 1, &parent);
	return parent && parent->process ? parent : NULL;
}

// parent: the nearest known ancestor; its pid is identity's parent, but for an orphan that we
// adopted.
static int process_begin(struct watched *watched, struct event_identity *identity, struct watched *parent, bool seeded)
{
	struct fallback *fallback = watched->fallback;
	uint32_t ppid = identity->parent.pid;
	struct process *process;
	int result;

	if (parent)
		identity->parent =
			(struct event_process_id){.pid = parent->pid, .start_ns = parent->process->start_boot_ns};
	result = process_add(agent_processes(fallback->agent), identity, &process);
	if (result < 0)
		return result;
	if (process->ppid != ppid) {
		process->ppid = ppid;
		process->parent_start_boot_ns = 0;
	}
	if (!parent && fallback->root_run)
		process->run = run_reference(fallback->root_run);
	watched->process = process;
	figures_unknown(process);
	process->seeded = seeded;
	process->seeded_boot_ns = seeded ? watched->first_seen_ns : 0;
	fallback->count.started++;
	return 0;
}

static int found_at_depth(struct fallback *fallback, uint32_t pid, bool seeded, int depth, struct watched **ret_watched)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(pid);
	struct event_identity identity;
	struct watched *watched, *parent;
	struct proc_stat stat;
	int result;

	if (proc_fd < 0 || proc_read_identity(proc_fd, pid, &identity, &stat) < 0)
		return -ESRCH;
	parent = stat.kernel_thread ? NULL : parent_of(fallback, stat.ppid, seeded, depth);
	watched = watched_find(fallback, pid);
	if (!watched)
		watched = watched_add(fallback, pid);
	if (!watched)
		return -ENOMEM;
	*ret_watched = watched;
	if (watched->process || stat.kernel_thread ||
	    (seeded && stat.state == 'Z' && pid != fallback->options.root_pid))
		return 0;
	if (fallback->options.root_pid && pid != fallback->options.root_pid && !parent) {
		if (stat.ppid != (uint32_t)getpid())
			return 0;
		// An orphan we adopted: whoever started it, it comes from the root.
		parent = watched_find(fallback, fallback->options.root_pid);
		if (parent && !parent->process)
			parent = NULL;
	}
	identity.cgroup_id = cgroup_id_read(fallback, proc_fd);
	result = process_begin(watched, &identity, parent, seeded);
	if (result < 0)
		return result;
	watched->start_ticks = stat.start_ticks;
	watched->program_mark = stat.program_mark;
	watched->process->quality[FIGURE_START] = QUALITY_ESTIMATED; // the beginning of its clock tick
	image_first(watched, proc_fd);
	agent_process_start(fallback->agent, watched->process);
	agent_process_exec(fallback->agent, watched->process);
	fallback_figures(watched, clock_boot_ns());
	if (!fallback_has_events(fallback))
		poll_watch_end(watched);
	return 0;
}

int fallback_found(struct fallback *fallback, uint32_t pid, bool seeded, struct watched **ret_watched)
{
	struct watched *ignored;

	return found_at_depth(fallback, pid, seeded, 0, ret_watched ? ret_watched : &ignored);
}

// ---- events --------------------------------------------------------------------------------------

int fallback_forked(struct fallback *fallback, uint32_t pid, struct watched *parent, uint64_t boot_ns)
{
	const struct process *from = parent->process;
	struct event_identity identity = {
		.process = {.pid = pid, .start_ns = boot_ns},
		.parent = {.pid = from->pid, .start_ns = from->start_boot_ns},
		.cgroup_id = from->cgroup_id,
		.uid = from->uid,
		.gid = from->gid,
		.pid_in_namespace = from->pid_in_namespace == from->pid ? pid : 0,
		.session = from->session,
		.process_group = from->process_group,
	};
	struct watched *watched = watched_find(fallback, pid);
	int result;

	if (watched) {
		if (watched->process && watched->process->start_boot_ns <= boot_ns && watched->first_seen_ns >= boot_ns)
			return 0; // /proc was read after this event
		if (watched->process)
			fallback_ended(watched, boot_ns);
		else
			watched_drop(watched);
	}
	watched = watched_add(fallback, pid);
	if (!watched)
		return -ENOMEM;
	watched->first_seen_ns = boot_ns;
	watched->threads_counted = true;
	watched->threads = 1;
	memcpy(identity.namespaces, from->namespaces, sizeof(identity.namespaces));
	memcpy(identity.comm, from->image->comm, sizeof(identity.comm));
	result = process_begin(watched, &identity, parent, false);
	if (result < 0) {
		watched_drop(watched);
		return result;
	}
	watched->process->quality[FIGURE_START] = QUALITY_EXACT;
	watched->process->quality[FIGURE_ARGS] = from->quality[FIGURE_ARGS];
	process_share_image(watched->process, from);
	agent_process_start(fallback->agent, watched->process);
	return 0;
}

static void identity_take(struct process *process, const struct event_identity *identity)
{
	process->uid = identity->uid;
	process->gid = identity->gid;
	process->session = identity->session;
	process->process_group = identity->process_group;
	process->pid_in_namespace = identity->pid_in_namespace;
	memcpy(process->namespaces, identity->namespaces, sizeof(process->namespaces));
}

// What the process runs now. -ESRCH: too late.
static int program_read(struct watched *watched, struct arena *arena, struct event_identity *ret_identity,
			struct image_strings *ret_strings)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(watched->pid);
	struct proc_figures figures;
	struct proc_stat stat;
	uint64_t cgroup_id;
	int result;

	if (proc_fd < 0 || proc_read_identity(proc_fd, watched->pid, ret_identity, &stat) < 0 ||
	    !fallback_start_is_own(watched, &stat))
		return -ESRCH;
	identity_take(watched->process, ret_identity);
	watched->program_mark = stat.program_mark;
	cgroup_id = cgroup_id_read(watched->fallback, proc_fd);
	if (cgroup_id)
		watched->process->cgroup_id = cgroup_id;
	// A fork's first program takes all there is; one that comes after another, only what it
	// adds.
	if (watched->process->image->forked)
		fallback_cpu(watched, clock_boot_ns());
	else if (proc_read_figures(proc_fd, watched->pid, &figures) == 0)
		counters_merge(&watched->process->counters, &figures.counters);
	if (stat.state == 'Z')
		return -ESRCH; // its memory, and so its arguments, are gone
	result = proc_read_image(proc_fd, arena, ret_strings);
	return result < 0 ? result : 0;
}

// What was used before this exec, as far as it was read. Between a fork and its exec next to
// nothing is: what was not read goes to the program that the fork was made for.
static struct counters counters_at_exec(const struct process *process, bool forked)
{
	struct counters counters = forked ? (struct counters){0} : process->counters;

	if (forked)
		counters_merge(&counters, &process->counters);
	return counters;
}

void fallback_execed(struct watched *watched, uint64_t boot_ns, bool from_event)
{
	struct process_table *table = agent_processes(watched->fallback->agent);
	struct process *process = watched->process;
	struct event_identity identity = {0};
	struct image_strings strings = {0};
	bool forked = process->image->forked;
	struct arena arena;
	int result;

	arena_init(&arena, ARENA_BYTES);
	result = program_read(watched, &arena, &identity, &strings);
	if (result < 0 && !from_event) {
		arena_free(&arena);
		return;
	}
	if (process_add_image(table, process, boot_ns, identity.comm, &strings) == 0) {
		process->image->at_start = counters_at_exec(process, forked);
		process->quality[FIGURE_ARGS] = strings.args ? QUALITY_SAMPLED : QUALITY_UNKNOWN;
		watched->args_missed = result < 0;
		agent_process_exec(watched->fallback->agent, process);
	}
	arena_free(&arena);
}
