// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the state sampler says of one sleeping thread.
#pragma once

#include "bpf/event.h"

enum { EVENT_STATE = EVENT_KIND(MODULE_SCHED, 1) };

enum { SCHED_SYSCALLS_MAX = 512 };

// What a system call waits for; user space fills the table, since numbers differ between architectures.
enum sched_syscall_class {
	SCHED_SYSCALL_OTHER,
	SCHED_SYSCALL_FILE, // depends on the file behind the first argument
	SCHED_SYSCALL_SOCKET,
	SCHED_SYSCALL_LOCK,
	SCHED_SYSCALL_CHILD,
	SCHED_SYSCALL_TIMER,
	SCHED_SYSCALL_SIGNAL,
	SCHED_SYSCALL_NONE, // not in a system call: a page fault, or the kernel is older than bpf_task_pt_regs()
};

enum sched_file_class {
	SCHED_FILE_NONE,
	SCHED_FILE_REGULAR,
	SCHED_FILE_NETWORK, // on a network or parallel file system
	SCHED_FILE_PIPE,
	SCHED_FILE_SOCKET,
	SCHED_FILE_OTHER,
};

struct event_state {
	struct event_process_id process;
	__u8 syscall_class;
	__u8 file_class;
	__u8 uninterruptible; // state D
	__u8 in_iowait;
	__u32 tid;
};
_Static_assert(sizeof(struct event_state) == 24, "event_state");
