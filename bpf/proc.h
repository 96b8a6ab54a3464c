// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The lifecycle records of the proc module. Strings travel behind the fixed part, in the order of the lengths.
#pragma once

#include "bpf/event.h"
#include "bpf/filter_policy.h"

enum {
	EVENT_FORK = EVENT_KIND(MODULE_PROC, 1),
	EVENT_EXEC = EVENT_KIND(MODULE_PROC, 2),
	EVENT_EXIT = EVENT_KIND(MODULE_PROC, 3), // the last thread is ending: figures are provisional
	EVENT_FREE = EVENT_KIND(MODULE_PROC, 4), // the task is gone: figures are final
	EVENT_LIVE = EVENT_KIND(MODULE_PROC, 5), // iterator: a process that runs, or is a zombie, now
	EVENT_CGROUP = EVENT_KIND(MODULE_PROC, 6), // a cgroup was made or removed
	EVENT_MOVE = EVENT_KIND(MODULE_PROC, 7), // a process was moved to another cgroup
	EVENT_LIVE_THREAD = EVENT_KIND(MODULE_PROC, 8), // iterator: a further thread of such a process
};

enum {
	PROC_COMM_SIZE = 16, // TASK_COMM_LEN
	PROC_ARGS_MAX = 16384,
	PROC_PATH_MAX = 4096,
	PROC_NAMESPACES = 7,
};

// Order of struct event_identity.namespaces: inode numbers as in /proc/PID/ns.
enum proc_namespace {
	PROC_NAMESPACE_MNT,
	PROC_NAMESPACE_PID,
	PROC_NAMESPACE_NET,
	PROC_NAMESPACE_USER,
	PROC_NAMESPACE_UTS,
	PROC_NAMESPACE_IPC,
	PROC_NAMESPACE_CGROUP,
};

// Who a process is at the moment of the record.
struct event_identity {
	struct event_process_id process;
	struct event_process_id parent; // real_parent's group leader
	__u64 cgroup_id; // kernfs id in the hierarchy that core chose
	__u64 default_cgroup_id; // the same in the default hierarchy, when that is another one; else 0
	__u32 uid; // real ids, in the initial user namespace
	__u32 gid;
	__u32 pid_in_namespace;
	__u32 session; // sid and process group, initial pid namespace
	__u32 process_group;
	__u32 namespaces[PROC_NAMESPACES];
	char comm[PROC_COMM_SIZE];
};
_Static_assert(sizeof(struct event_identity) == 112, "event_identity");

// All else a child has from its parent, until a record or the live iterator says otherwise.
struct event_fork {
	struct event_header header;
	struct event_process_id process;
	struct event_process_id parent; // real_parent's group leader
	__u64 cgroup_id; // as in struct event_identity; both 0: the parent's
	__u64 default_cgroup_id;
};
_Static_assert(sizeof(struct event_fork) == 64, "event_fork");

struct event_exec {
	struct event_header header;
	struct event_identity identity; // parent: zero unless records are whole (struct filter_config)
	struct counters counters; // up to this exec: the share of the images before
	__u64 maxrss_bytes; // signal->maxrss just after exec: what an older image or a parent left behind
	__u32 old_pid; // thread that called exec when it was not the leader, else 0
	__u32 args_total; // arg_end - arg_start, may exceed args_size
	__u16 exe_size; // path of mm->exe_file: components from leaf to root, each ending in NUL
	__u16 cwd_size; // likewise, fs->pwd
	__u16 filename_size; // bprm->filename: as given to execve, NUL included; 0 without interp
	__u16 interp_size; // bprm->interp when it differs from filename, NUL included, else 0
	__u32 args_size; // bytes from mm->arg_start, NUL-separated
	__u32 reserved;
};
_Static_assert(sizeof(struct event_exec) == 16 + 112 + 128 + 32, "event_exec");

enum proc_exit_flag {
	PROC_EXIT_OOM_VICTIM = 1 << 0, // signal->oom_mm was set
	PROC_EXIT_MM_READ = 1 << 1, // memory figures were read from a living mm
	PROC_EXIT_RSS_BOUND = 1 << 2, // peak_rss_bytes is an upper bound: an inherited maxrss may hide the truth
	PROC_EXIT_RSS_NEAR = 1 << 4, // not with every CPU's share: short by some pages for each CPU it ran on
	PROC_EXIT_THREADS_UNSURE = 1 << 3, // a thread's figures could not be kept: sums are lower bounds
};

struct event_exit {
	struct event_header header;
	struct event_process_id process;
	char comm[PROC_COMM_SIZE];
	struct counters counters;
	__u64 peak_rss_bytes; // max(mm->hiwater_rss, anon + file + shmem), or see flags
	__u64 maxrss_bytes; // signal->maxrss, for kernels whose exit hook has no mm
	__u64 anon_bytes; // at exit
	__u64 file_bytes;
	__u64 shmem_bytes;
	__u64 swap_bytes;
	__u64 threads_life_ns; // summed over threads; 0: there was one, or it is not known
	__u32 status; // as wait(2): code << 8 | core << 7 | signal
	__u32 flags; // enum proc_exit_flag
	__u32 identity_size; // of a struct event_identity behind the fixed part, or 0: only from a process that never
			     // called exec, and where records are whole (struct filter_config)
	__u32 cwd_size; // behind that, only from a process that never called exec
};
_Static_assert(sizeof(struct event_exit) == 16 + 16 + 16 + 128 + 72, "event_exit");

struct event_free {
	struct event_header header;
	struct event_process_id process;
	struct counters counters;
};

// Sums over the dead threads of a process that has, or had, more than one; run delay and I/O are kept by the kernel
// per thread only (signal->ioac holds reaped children too). Absent for the many processes that never had a second
// thread.
struct thread_sums {
	__u64 start_ns;
	__u64 run_delay_ns;
	__u64 life_ns; // from each thread's start to its exit
	struct thread_io {
		__u64 rchar;
		__u64 wchar;
		__u64 syscr;
		__u64 syscw;
		__u64 read_bytes;
		__u64 write_bytes;
		__u64 cancelled_write_bytes;
	} io;
	__u32 threads_max;
	__u32 partial; // threads died before this entry was made
};

// The figures of a process whose last thread had given back its memory and told its parent: what the parent can learn
// from wait4(2), for the few that the kernel never passes to sched_process_free. In an array, each in its slot until
// another comes to it.
enum { PROC_PARTINGS = 32768 };

struct proc_parting {
	__u64 start_ns;
	__u64 cpu_ns;
	__u64 run_delay_ns; // of the last thread alone
	__u32 pid;
	__u32 reserved;
};

// Pids and starts rise together, so all that end within seconds have slots of their own, and so has a pid that is had
// again after a quarter of a millisecond.
static inline __u32 proc_parting_slot(__u32 pid, __u64 start_ns)
{
	return (pid + (__u32)(start_ns >> 18)) & (PROC_PARTINGS - 1);
}

struct event_live {
	struct event_header header;
	struct event_identity identity;
	struct counters counters;
	__u64 rss_bytes;
	__u64 peak_rss_bytes;
	__u64 swap_bytes;
	__u32 status; // when zombie
	__u32 zombie; // 1: exit_state is set, the figures are final
	__u32 flags; // enum proc_exit_flag
	__u32 state; // task_struct.__state | exit_state, include/linux/sched.h
};

struct event_live_thread {
	struct event_header header;
	struct event_process_id process;
	struct counters counters; // of this thread alone
};

enum proc_cgroup_change { PROC_CGROUP_MADE, PROC_CGROUP_REMOVED };

struct event_cgroup {
	struct event_header header;
	__u64 cgroup_id;
	__u32 change; // enum proc_cgroup_change
	__u32 path_size; // behind the fixed part, NUL included; below the hierarchy's root
	__u32 in_default; // 1: in the default hierarchy, which core did not choose
	__u32 reserved;
};

struct event_move {
	struct event_header header;
	struct event_process_id process;
	__u64 cgroup_id;
	__u32 in_default;
	__u32 reserved;
};
