// SPDX-License-Identifier: Apache-2.0
// What /proc/PID says about one process. Everything is read through one descriptor of its
// directory, which the kernel ties to the process and not to the number: once the process is reaped
// each read fails with -ESRCH or -ENOENT, so that a reused pid is never mistaken for it. Reads no
// environment, no memory and no file of the workload.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/proc.h"
#include "core/base/arena.h"
#include "core/process.h"

// Whether pids, and user ids, here are those that the kernel itself works with, as in BPF and in
// process events.
bool proc_in_first_pid_namespace(void);
bool proc_in_first_user_namespace(void);

// A descriptor (O_PATH, close-on-exec) of /proc/PID, to be closed by the caller. -ENOENT: no such
// process.
int proc_open(uint32_t pid);

// Start times. /proc/PID/stat gives start_boottime in clock ticks (USER_HZ, nearly always 100),
// rounded down; the kernel and BPF know the nanosecond. A start known exactly matches when it
// rounds down to the same tick.
uint64_t proc_start_boot_ns(uint64_t start_ticks); // the beginning of that tick
bool proc_start_matches(uint64_t start_boot_ns, uint64_t start_ticks);

// Fields of /proc/PID/stat. Faults and times are of the whole process, ended threads included.
struct proc_stat {
	char comm[PROC_COMM_SIZE];
	char state;
	bool kernel_thread;
	bool children_reaped; // a waited-for child left its faults here
	uint32_t ppid, process_group, session;
	uint32_t threads;
	uint64_t minor_faults, major_faults;
	uint64_t utime_ns, stime_ns; // a whole number of ticks
	uint64_t start_ticks;
	uint64_t rss_bytes;
	// Addresses that each exec lays out anew: another value is another program. 0 when we may
	// not see them.
	uint64_t program_mark;
	uint64_t args_bytes; // arg_end - arg_start; 0 when we may not see it
	int32_t status; // as wait(2), of a zombie; -1: still running, or we may not see it
};
int proc_read_stat(int proc_fd, struct proc_stat *ret_stat);
// No thread of it is left. A leader that ended before its other threads is shown as a zombie too.
bool proc_stat_is_dead(const struct proc_stat *stat);

// Who a process is. start_ns is the beginning of its tick (see proc_start_boot_ns), parent.start_ns
// and cgroup_id are 0, namespaces we may not see are 0, uid and gid are as our user namespace shows
// them. ret_stat may be NULL.
int proc_read_identity(int proc_fd, uint32_t pid, struct event_identity *ret_identity, struct proc_stat *ret_stat);

// Executable, working directory and arguments as they are now; what we may not see is NULL. At most
// PROC_ARGS_MAX bytes of arguments: args_total tells how many there were. A script that the kernel
// gave to an interpreter is recognised by the process name, which is the script's (an inference:
// the process may have been renamed). Strings live in arena.
int proc_read_image(int proc_fd, struct arena *arena, struct image_strings *ret_strings);

// The same for a process known by pid and exact start: -ESRCH when the pid is another process by
// now.
int proc_read_image_of(uint32_t pid, uint64_t start_boot_ns, struct arena *arena, struct image_strings *ret_strings);

// The figures of a process now, UNKNOWN each that cannot be had. cpu_ns comes from the process CPU
// clock: exact and of all threads, those that ended too, for a zombie as well. Only root sees a
// zombie's I/O.
struct proc_figures {
	struct counters counters; // threads_max is threads
	uint64_t rss_bytes;
	uint64_t peak_rss_bytes; // of the program it runs now; UNKNOWN for a zombie
	uint64_t anon_bytes, file_bytes, shmem_bytes, swap_bytes;
	uint32_t uid, gid; // real ids, as our user namespace shows them
	// Run delay, switches and I/O are kept for each thread: with more threads than one, those
	// that ended before are missing from the sums.
	bool living_threads_only;
	// I/O likewise, unless no child was reaped yet: the sums of the process would hold it, and
	// are then its own.
	bool io_living_threads_only;
	// It is dead and off the CPU: all of this was read afterwards and nothing of it moves again.
	bool final;
	struct proc_stat stat;
};
int proc_read_figures(int proc_fd, uint32_t pid, struct proc_figures *ret_figures);

// The exact CPU time of a process, ended threads included; also of a zombie. -ESRCH.
int proc_read_cpu(uint32_t pid, uint64_t *ret_cpu_ns);

// The process's path in a cgroup hierarchy, as our cgroup namespace shows it: of the v1 controller,
// or of the unified one when controller is NULL. -ENOENT: not in it. -ENAMETOOLONG.
int proc_read_cgroup(int proc_fd, const char *controller, char ret_path[PROC_PATH_MAX]);

// Calls visit with each child of one thread; needs CONFIG_PROC_CHILDREN (-ENOENT without).
// children_fd: of /proc/PID/task/TID/children, may be kept open and read again.
int proc_open_children(int proc_fd, uint32_t tid);
int proc_read_children(int children_fd, void (*visit)(void *context, uint32_t pid), void *context);

// Calls visit with each number in a directory: the processes in /proc, the threads in
// /proc/PID/task.
int proc_each_number(int directory_fd, const char *name, void (*visit)(void *context, uint32_t number), void *context);
