// SPDX-License-Identifier: Apache-2.0
// The processes of this host as they are now: one table, keyed by pid, each entry known by (pid, start time).
// Filled by the proc module from lifecycle records, decorated by correlate, read by the writers of records.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/proc.h"
#include "core/program.h"

// UINT64_MAX stands for "unknown" in every uint64_t figure; it is written as null.
#define UNKNOWN UINT64_MAX

// How a figure was obtained.
enum quality {
	QUALITY_UNKNOWN,
	QUALITY_EXACT, // the kernel's own final count
	QUALITY_SAMPLED, // read or inferred at intervals
	QUALITY_ESTIMATED, // derived, or a bound
};
const char *quality_name(enum quality quality);

enum figure {
	FIGURE_CPU,
	FIGURE_MEMORY,
	FIGURE_IO,
	FIGURE_ARGS,
	FIGURE_START,
	FIGURE_EXIT,
	FIGURE_BLOCKED,
	FIGURE_END,
};

// What a sleeping thread waits for.
enum blocked {
	BLOCKED_DISK,
	BLOCKED_NETWORK_FS,
	BLOCKED_SOCKET,
	BLOCKED_PIPE,
	BLOCKED_LOCK,
	BLOCKED_CHILD,
	BLOCKED_TIMER,
	BLOCKED_OTHER,
	BLOCKED_END,
};

// As in the record's member blocked_ns.
const char *blocked_name(enum blocked blocked);

enum { IMAGES_MAX = 64 }; // kept of one process: the first and the latest; what is dropped between adds to the first

// One program a process has been: from an exec (or the fork) to the next exec or the end. All strings are
// NUL-terminated and live as long as the image; NULL is unknown.
struct image {
	struct image *next; // the program that replaced this one
	struct program *program;
	bool forked; // the copy of the parent's program that a fork makes
	uint64_t start_boot_ns;
	struct counters at_start; // figures of the process when this image began
	uint64_t peak_rss_bytes; // of this image, UNKNOWN until the process ends or when not separable
	const char *exe; // path of the executable file, inside the mount namespace of the process
	const char *script; // file given to execve when an interpreter runs it
	const char *interpreter; // as the kernel chose it, with script
	const char *cwd; // when the image began
	const char *args; // args_size bytes, NUL-separated, last byte NUL
	uint32_t args_size;
	uint32_t args_total; // more than args_size: truncated
	char comm[PROC_COMM_SIZE];
	const char *tool; // display name, owned by correlate's names table
};

struct task;
struct run;
struct cgroup;

struct process {
	struct process *hash_next;
	struct process *parent; // NULL: unknown or gone
	struct process *children, *sibling_next, *sibling_previous;

	uint32_t pid;
	uint64_t start_boot_ns;
	uint32_t ppid;
	uint64_t parent_start_boot_ns; // 0: unknown
	uint32_t uid, gid;
	uint32_t pid_in_namespace; // 0: unknown
	uint32_t session, process_group;
	uint32_t namespaces[PROC_NAMESPACES];
	uint64_t cgroup_id;
	uint64_t default_cgroup_id; // on a host of several hierarchies, in the default one; else 0
	const struct cgroup *cgroup; // resolved, may be NULL: in the default hierarchy when only that names a container

	struct image *images; // in order, at least one
	struct image *image; // the current (last) one
	uint32_t image_count; // in the list
	uint32_t images_dropped;

	struct counters counters; // the latest known
	uint64_t rss_bytes;
	uint64_t peak_rss_bytes;
	uint64_t anon_bytes, file_bytes, shmem_bytes, swap_bytes; // at exit
	uint64_t maxrss_at_exec_bytes;
	uint64_t reclaim_stall_ns, compaction_stall_ns; // UNKNOWN without the mem module
	uint64_t blocked_ns[BLOCKED_END]; // sampled
	uint32_t blocked_samples;
	char state; // as in /proc/PID/stat, last seen

	uint64_t exit_boot_ns; // 0: still running
	uint64_t counters_boot_ns; // when counters was read; 0: never, the figures are unknown
	uint64_t seen_boot_ns; // when it was last known to live
	int32_t exit_code; // -1: unknown
	int32_t signal; // 0: none
	bool core_dumped;
	bool oom;
	bool oom_unknown; // killed, and nothing told by whom
	const char *oom_limit; // path of the cgroup whose limit was hit, "host", or NULL
	bool no_exec; // forked only: user, session, group and namespaces are its parent's until it is seen again
	bool seeded; // ran before the collector did
	uint64_t seeded_boot_ns; // when it was first seen, then
	bool threads_unsure; // sums over threads are lower bounds
	bool thread_took_over; // a thread that was not the leader called exec: it has the leader's start from then on
	uint64_t threads_life_ns; // summed over threads; 0: there was one, or it is not known
	bool opened; // an opening record was written
	uint64_t sampled_cpu_ns; // counters.cpu_ns in the last sample
	uint64_t handed_boot_ns; // up to then the hooks of an older image told of it, and those of this one too; 0: no
	uint8_t quality[FIGURE_END]; // enum quality

	// correlate's part
	struct task *task; // referenced
	struct run *run; // referenced
	void *correlate; // private
	struct process_joins *joins; // NULL: none
};

// The user part of counters.cpu_ns. utime and stime are sampled at the tick; the kernel scales them so that they
// add up to the exact total (kernel/sched/cputime.c, cputime_adjust), and so does this. UNKNOWN when the total is.
uint64_t counters_user_ns(const struct counters *counters);

// Whether counters were read at all: what could not be had among them is UNKNOWN then.
static inline bool process_counted(const struct process *process)
{
	return process->quality[FIGURE_CPU] != QUALITY_UNKNOWN || process->quality[FIGURE_IO] != QUALITY_UNKNOWN;
}

// The counters as a record shows them: all unknown when none were read.
const struct counters *process_counters(const struct process *process, bool known);

struct process_table;

int process_table_new(struct process_table **ret_table);
void process_table_free(struct process_table *table);
size_t process_table_count(const struct process_table *table);

// The process with this pid that has not ended, or NULL.
struct process *process_find(struct process_table *table, uint32_t pid);
// The process with this pid and start, ended or not, or NULL.
struct process *process_find_exact(struct process_table *table, uint32_t pid, uint64_t start_boot_ns);

// Adds an entry with one empty image and links it below its parent. An older entry with the same pid must
// have ended. -EEXIST, -ENOMEM.
int process_add(struct process_table *table, const struct event_identity *identity, struct process **ret_process);

// Gives a forked process the program its parent runs, for as long as it does not exec.
void process_share_image(struct process *process, const struct process *parent);

// Gives the current image these strings. -ENOMEM.
int process_set_strings(struct process *process, const struct image_strings *strings);

// Appends an image holding the strings; it becomes process->image. -ENOMEM.
int process_add_image(struct process_table *table, struct process *process, uint64_t start_boot_ns,
		      const char comm[PROC_COMM_SIZE], const struct image_strings *strings);

// Appends an image as another collector had it, with this program (one reference more); the first one takes the place
// of the empty one. Of the image start, names, figures and forked are taken. -ENOMEM.
int process_restore_image(struct process_table *table, struct process *process, const struct image *image,
			  struct program *program);

// The arguments of the current image hold no secret: images with the same strings may share them from now on, until
// process_programs_forget().
void process_program_plain(struct process_table *table, struct process *process);
void process_programs_forget(struct process_table *table);

// Links the entry below its parent, when that came into the table after it.
void process_relink(struct process_table *table, struct process *process);

// Unlinks and releases the entry; its children become orphans.
void process_remove(struct process_table *table, struct process *process);

// Calls visit for each entry, in no order; visit may remove the entry it is given.
void process_each(struct process_table *table, void (*visit)(void *context, struct process *process), void *context);

// The image's first argument that is not empty, else its comm.
const char *image_name(const struct image *image);
