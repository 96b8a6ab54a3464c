// SPDX-License-Identifier: Apache-2.0
// Shared by core/fallback*.c only: the processes that are watched, and the calls between the files.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/agent.h"
#include "core/fallback.h"
#include "core/proc_read.h"

struct loop_timer;
struct fallback_stats;
struct proc_event;

// One pid. Never holds a process beyond its agent_process_end().
struct watched {
	struct watched *hash_next;
	struct watched *next, *previous; // in order of first sight
	struct fallback *fallback;
	uint32_t pid;
	struct process *
		process; // NULL: not ours (a kernel thread, or outside the tree), or an ended zombie
	uint64_t start_ticks; // UNKNOWN until /proc was read
	uint64_t first_seen_ns;
	uint64_t figures_ns,
		cpu_boot_ns; // when all figures, and the CPU time, were last read; 0: never
	uint64_t program_mark; // of struct proc_stat, 0: unknown
	int pid_fd, children_fd; // -1: none
	uint32_t scan; // the last scan of /proc that met it
	uint32_t threads_met; // taskstats: threads whose figures came
	bool stats_missed; // taskstats: a thread ended without
	bool leader_ended;
	bool threads_counted; // by events from its fork on: threads is exact
	uint32_t threads;
	bool args_missed; // an exec was seen too late to read its arguments
	int32_t status; // as wait(2), of the thread that ended last; -1: unknown
	struct counters ended; // taskstats: sums over threads that ended
	uint64_t ended_peak_rss_bytes;
	uint64_t reclaim_ns, compaction_ns;
	uint64_t maxrss_bytes,
		maxrss_inherited_bytes; // ru_maxrss of a child of ours, and what it may have from us
};

enum { WATCHED_BUCKETS = 4096, QUEUE_EVENTS = 16384 };

// What the report has to own up to.
struct fallback_count {
	uint64_t ended; // process records ended here
	uint64_t cpu_bound; // whose CPU time is a lower bound or unknown
	uint64_t args_missed;
	uint64_t exit_unknown;
	uint64_t overruns; // the kernel dropped events
	uint64_t started; // processes first seen, by polling
	uint64_t forks_at_start; // "processes" of /proc/stat; UNKNOWN
	uint64_t cpu_recorded_ns; // own CPU time of the processes that ended
	uint64_t cpu_reaped_ns; // CPU time of reaped children with all that they reaped
	uint64_t slowest_poll_ns; // longest interval used
};

struct fallback {
	struct agent *agent;
	struct loop *loop;
	struct fallback_options options;
	enum fallback_tier tier;
	struct watched *buckets[WATCHED_BUCKETS];
	struct watched *first, *last;
	struct watched *cursor; // where reading figures goes on
	uint32_t watched_count;
	uint32_t scan;
	uint32_t descriptors, descriptors_max;
	bool children_files; // the kernel has /proc/PID/task/TID/children
	int own_children_fd;
	struct loop_timer *timer;
	uint64_t poll_interval_ns, cost_ns; // cost_ns: CPU time of a look, smoothed
	uint64_t paid_boot_ns;
	int64_t credit_ns; // CPU time that may be spent
	uint64_t cgroup_scan_ns;
	uint64_t monotonic_to_boot_ns;
	struct proc_event *queue; // taken from the socket, in a ring of QUEUE_EVENTS
	uint32_t queue_first, queue_count;
	int event_fd; // netlink connector, -1
	int stats_fd; // generic netlink, -1
	uint16_t stats_family;
	struct fallback_stats *stats; // NULL: no taskstats
	bool first_user_namespace; // the ids in events are ours
	bool look_again; // events were lost
	bool delays_on; // kernel.task_delayacct
	struct run *root_run; // of the root that ended, for orphans found later; referenced
	struct fallback_count count;
};

static inline bool fallback_has_events(const struct fallback *fallback)
{
	return fallback->event_fd >= 0;
}

// ---- core/fallback_watch.c -----------------------------------------------------------------------

struct watched *watched_find(struct fallback *fallback, uint32_t pid);
// A pid that is not ours, so that it is not looked at again.
struct watched *watched_add(struct fallback *fallback, uint32_t pid);
void watched_close(struct watched *watched); // its descriptors only
void watched_drop(struct watched *watched);

// ---- core/fallback_process.c, core/fallback_end.c ------------------------------------------------

// First sight of a process in /proc: adds it with the program it runs. -ESRCH: gone already.
int fallback_found(struct fallback *fallback, uint32_t pid, bool seeded,
		   struct watched **ret_watched);
// From an event: the child of a watched process, which runs the parent's program still. Reads
// nothing.
int fallback_forked(struct fallback *fallback, uint32_t pid, struct watched *parent,
		    uint64_t boot_ns);
// From an event, or seen by another program_mark: reads the new program.
void fallback_execed(struct watched *watched, uint64_t boot_ns, bool from_event);
// Reads the figures. 0: it lives; 1: it is a zombie and they are final; -ESRCH: it is gone.
int fallback_figures(struct watched *watched, uint64_t now_ns);
// Reads the CPU time alone, which costs one system call.
void fallback_cpu(struct watched *watched, uint64_t now_ns);
// Whether the pid is still the same process, dead or alive.
bool fallback_is_here(const struct watched *watched);
// It is dead: takes what a zombie still shows and writes the record. The entry stays for as long as
// a zombie does, so that it is not taken for a new process.
void fallback_ended(struct watched *watched, uint64_t boot_ns);
void counters_merge(struct counters *to, const struct counters *from);
// Whether this stat is of the process and not of a later one with its pid.
bool fallback_start_is_own(struct watched *watched, const struct proc_stat *stat);
void fallback_figures_take(struct watched *watched, const struct proc_figures *figures,
			   uint64_t now_ns);

// ---- core/fallback_poll.c ------------------------------------------------------------------------

int poll_open(struct fallback *fallback);
void poll_close(struct fallback *fallback);
// Finds new processes and ends gone ones, whatever the tier: at the start, after lost events, at
// the end.
void poll_everything(struct fallback *fallback, bool seeding);
void poll_watch_end(struct watched *watched); // by a pidfd, when descriptors allow

// ---- core/fallback_event.c, core/fallback_taskstats.c --------------------------------------------

int event_open(struct fallback *fallback, char why[FALLBACK_WHY_SIZE]);
void event_close(struct fallback *fallback);
void event_drain(struct fallback *fallback);
int stats_open(struct fallback *fallback); // -EPERM, -ENOENT: go on without
void stats_close(struct fallback *fallback);
void stats_drain(struct fallback *fallback);
// Adds the figures of an ended thread to its process; watched NULL: forgets them.
void stats_take(struct fallback *fallback, uint32_t tid, struct watched *watched);
