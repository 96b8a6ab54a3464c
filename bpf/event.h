// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What crosses a ring from kernel to user space. Both sides include this file: sizes are asserted, padding is
// explicit, and every record begins with struct event_header. Times are CLOCK_BOOTTIME nanoseconds.
#pragma once

#ifdef __bpf__
#include "bpf/lib/kernel.h"
#else
#include <linux/types.h>
#endif

// Stable on disk: never renumbered.
enum module_id {
	MODULE_PROC = 1,
	MODULE_SCHED = 2,
	MODULE_MEM = 3,
	MODULE_IO = 4,
	MODULE_NET = 5,
	MODULE_GPU = 6,
	MODULE_ID_END,
};

// The high byte of a kind is the module that reads the record.
#define EVENT_KIND(module, number) ((module) << 8 | (number))

struct event_header {
	__u16 kind;
	__u16 cpu;
	__u32 size; // of the whole record, this header included
	__u64 time_ns;
};
_Static_assert(sizeof(struct event_header) == 16, "event_header");

// A process: the pid alone is reused, with its start time it is not.
struct event_process_id {
	__u32 pid;
	__u32 reserved;
	__u64 start_ns; // task_struct.start_boottime of the thread-group leader
};
_Static_assert(sizeof(struct event_process_id) == 16, "event_process_id");

// Everything the kernel counts for a process by itself, summed over its threads, dead ones included and children
// excluded. Nothing here needs a probe on a hot path.
struct counters {
	__u64 cpu_ns; // se.sum_exec_runtime: exact
	__u64 utime_ns; // task utime, stime: tick-sampled; user space scales them to cpu_ns as the kernel does
	__u64 stime_ns;
	__u64 run_delay_ns; // sched_info.run_delay
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 minor_faults;
	__u64 major_faults;
	__u64 rchar_bytes; // task_struct.ioac, see proc_pid_io(5)
	__u64 wchar_bytes;
	__u64 read_syscalls;
	__u64 write_syscalls;
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 cancelled_write_bytes;
	__u32 threads; // alive now
	__u32 threads_max; // most alive at once so far
};
_Static_assert(sizeof(struct counters) == 128, "counters");

// What processes used whose final record did not fit into the ring, by cgroup.
struct lost_totals {
	__u64 processes;
	__u64 cpu_ns;
	__u64 read_bytes;
	__u64 write_bytes;
};

// Why events did not arrive; one per-CPU array of these for each ring. seen = submitted + lost + filtered.
enum event_count {
	EVENT_COUNT_SEEN,
	EVENT_COUNT_SUBMITTED,
	EVENT_COUNT_LOST,
	EVENT_COUNT_FILTERED,
	EVENT_COUNT_END,
};
