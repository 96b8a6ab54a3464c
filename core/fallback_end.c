// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: the end of a watched process. Invariants: its record is written once; a
// status or figure that nobody kept is UNKNOWN; a figure of a look long before the end is marked a
// bound. It must not reap.
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/fallback_private.h"

// From 6.15 a pidfd keeps the exit status of a process that was reaped. Older headers do not know
// the call.
struct pidfd_info_v0 {
	uint64_t mask, cgroup_id;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_info_v0) == 64, "struct pidfd_info, first version");
#define PIDFD_INFO_EXIT_BIT (1u << 3)
#define PIDFD_GET_INFO_V0 _IOWR(0xff, 11, struct pidfd_info_v0)

static int32_t status_of_pidfd(int pid_fd)
{
	struct pidfd_info_v0 info = {.mask = PIDFD_INFO_EXIT_BIT};

	if (pid_fd < 0 || ioctl(pid_fd, PIDFD_GET_INFO_V0, &info) < 0 ||
	    !(info.mask & PIDFD_INFO_EXIT_BIT))
		return -1;
	return info.exit_code;
}

// The kernel does not tell who sent SIGKILL: an OOM kill is known by the counters of the cgroup,
// which move with it.
static void oom_set(struct agent *agent, struct process *process)
{
	struct cgroup_table *cgroups = agent_cgroups(agent);

	if (process->signal != SIGKILL)
		return;
	process->oom = cgroups && process->cgroup &&
		       cgroup_oom_limit(cgroups, (struct cgroup *)process->cgroup,
					&process->oom_limit) == 0;
	process->oom_unknown = !process->oom;
}

static void status_set(struct process *process, int32_t status)
{
	if (status < 0)
		return;
	process->signal = status & 0x7f;
	process->core_dumped = (status & 0x80) != 0;
	process->exit_code = process->signal ? -1 : status >> 8 & 0xff;
	process->quality[FIGURE_EXIT] = QUALITY_EXACT;
}

// Figures of a process that was reaped before it could be read are of the last look: near the end a
// sample, else no more than a lower bound.
static void quality_at_end(const struct watched *watched, struct process *process, uint64_t boot_ns)
{
	uint64_t life = boot_ns - process->start_boot_ns;

	// The clock of a process that had not run yet when it was read says nothing about it.
	if (process->counters.cpu_ns == 0 && !watched->threads_met) {
		memset(&process->counters, 0xff, offsetof(struct counters, threads));
		process->quality[FIGURE_IO] = QUALITY_UNKNOWN;
	} else if (process->counters.cpu_ns == 0) {
		process->counters.cpu_ns = UNKNOWN;
	}
	if (process->counters.cpu_ns == UNKNOWN)
		process->quality[FIGURE_CPU] = QUALITY_UNKNOWN;
	else if (process->quality[FIGURE_CPU] != QUALITY_EXACT &&
		 (watched->threads_met || !watched->cpu_boot_ns ||
		  boot_ns - watched->cpu_boot_ns > life / 10))
		process->quality[FIGURE_CPU] = QUALITY_ESTIMATED;
}

static void stats_apply(struct watched *watched)
{
	struct process *process = watched->process;

	if (!watched->threads_met)
		return;
	counters_merge(&process->counters, &watched->ended);
	if (watched->ended_peak_rss_bytes != UNKNOWN) {
		process->image->peak_rss_bytes = watched->ended_peak_rss_bytes;
		if (process->peak_rss_bytes == UNKNOWN ||
		    watched->ended_peak_rss_bytes > process->peak_rss_bytes)
			process->peak_rss_bytes = watched->ended_peak_rss_bytes;
		process->quality[FIGURE_MEMORY] = QUALITY_EXACT;
	}
	if (process->quality[FIGURE_IO] != QUALITY_EXACT)
		process->quality[FIGURE_IO] = QUALITY_ESTIMATED; // whole KiB of each thread
	process->reclaim_stall_ns = watched->reclaim_ns;
	process->compaction_stall_ns = watched->compaction_ns;
}

// ru_maxrss is inherited through fork and exec: it is this process's own when it is more than any
// ancestor can have left, else no more than an upper bound for a process whose memory was never
// seen.
static void maxrss_apply(struct watched *watched)
{
	struct process *process = watched->process;

	if (watched->maxrss_bytes == UNKNOWN || process->quality[FIGURE_MEMORY] == QUALITY_EXACT)
		return;
	if (process->peak_rss_bytes == UNKNOWN) {
		process->peak_rss_bytes = watched->maxrss_bytes;
		process->quality[FIGURE_MEMORY] = QUALITY_ESTIMATED;
	} else if (watched->maxrss_bytes > process->peak_rss_bytes &&
		   watched->maxrss_bytes > watched->maxrss_inherited_bytes) {
		process->peak_rss_bytes = process->image->peak_rss_bytes = watched->maxrss_bytes;
		process->quality[FIGURE_MEMORY] = QUALITY_EXACT;
	}
}

static void end_count(struct fallback_count *count, const struct watched *watched)
{
	const struct process *process = watched->process;

	count->ended++;
	count->cpu_bound += process->quality[FIGURE_CPU] != QUALITY_EXACT;
	count->args_missed += watched->args_missed;
	count->exit_unknown += process->quality[FIGURE_EXIT] == QUALITY_UNKNOWN;
	if (process->counters.cpu_ns != UNKNOWN)
		count->cpu_recorded_ns += process->counters.cpu_ns;
}

// Takes what a zombie still shows. False: it was waited for already.
static bool zombie_take(struct watched *watched, uint64_t boot_ns)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(watched->pid);
	struct proc_figures figures;

	if (proc_fd < 0 || proc_read_figures(proc_fd, watched->pid, &figures) < 0 ||
	    !fallback_start_is_own(watched, &figures.stat) || !proc_stat_is_dead(&figures.stat))
		return false;
	fallback_figures_take(watched, &figures, boot_ns);
	if (watched->args_missed)
		memcpy(watched->process->image->comm, figures.stat.comm, PROC_COMM_SIZE);
	return true;
}

void fallback_ended(struct watched *watched, uint64_t boot_ns)
{
	struct process *process = watched->process;
	struct fallback *fallback = watched->fallback;
	bool zombie = zombie_take(watched, boot_ns);

	if (watched->status < 0)
		watched->status = status_of_pidfd(watched->pid_fd);
	stats_apply(watched);
	maxrss_apply(watched);
	status_set(process, watched->status);
	oom_set(fallback->agent, process);
	process->exit_boot_ns =
		boot_ns > process->start_boot_ns ? boot_ns : process->start_boot_ns + 1;
	process->state = 'Z';
	quality_at_end(watched, process, process->exit_boot_ns);
	if (watched->args_missed && process->image->comm[0])
		agent_process_exec(fallback->agent, process); // its name is known at last
	end_count(&fallback->count, watched);
	if (watched->pid == fallback->options.root_pid && process->run && !fallback->root_run)
		fallback->root_run = run_reference(process->run);
	watched->process = NULL;
	if (zombie && !fallback_has_events(fallback))
		watched_close(watched);
	else
		watched_drop(watched);
	agent_process_end(fallback->agent, process);
}
