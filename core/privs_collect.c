// SPDX-License-Identifier: Apache-2.0
// The collector's system calls, once everything is open: files, the loop, maps and iterators.

#include <linux/bpf.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "core/privs_profile.h"

static const int allowed[] = {
	PRIVS_ALLOWED_TO_ALL
	PRIVS_ALLOWED_TO_A_KEEPER
	// files
	SYS_preadv2,
	SYS_pwritev2,
	SYS_close_range,
	SYS_io_setup,
	SYS_io_submit,
	SYS_io_getevents,
	SYS_io_destroy,
	// pidfds, children
	SYS_pidfd_open,
	SYS_wait4,
	SYS_waitid,
	SYS_times,
#ifdef __x86_64__
	SYS_dup2,
#endif
	-1,
};

static const int deadly[] = {
	PRIVS_DEADLY_TO_ALL
	SYS_connect,
	-1,
};

static const struct privs_checked checked[] = {
	// No new executable memory.
	{SYS_mmap, 2, PROT_EXEC, 1, {0}},
	{SYS_mprotect, 2, PROT_EXEC, 1, {0}},
	// Threads, not processes.
	{SYS_clone, 0, CLONE_THREAD | CLONE_VM, 1, {CLONE_THREAD | CLONE_VM}},
	// Is it a terminal? And what a pidfd tells of an ended process (PIDFD_GET_INFO, any size).
	{SYS_ioctl, 1, ~0U, 2, {0x5401, 0x5413}},
	{SYS_ioctl, 1, 0xc000ffff, 1, {0xc000ff0b}},
	// Maps, iterators and links that are there; no program is loaded, nothing is attached by it.
	{SYS_bpf,
	 0,
	 ~0U,
	 11,
	 {BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY,
	  BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_LOOKUP_BATCH, BPF_MAP_LOOKUP_AND_DELETE_BATCH,
	  BPF_MAP_UPDATE_BATCH, BPF_MAP_DELETE_BATCH, BPF_OBJ_GET_INFO_BY_FD, BPF_ITER_CREATE}},
	{SYS_prctl, 0, ~0U, 2, {PR_SET_NAME, PR_GET_NAME}},
	{.number = -1},
};

const struct privs_tables privs_tables_collect = {allowed, checked, deadly, false};
