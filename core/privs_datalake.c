// SPDX-License-Identifier: Apache-2.0
// The datalake's system calls: connections it accepts, the files of its store and state, threads; and, for a store
// behind a network, connections it makes.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/privs_profile.h"

static const int allowed[] = {
	PRIVS_ALLOWED_TO_ALL
	// files
	SYS_preadv,
	SYS_pwritev,
	SYS_fallocate,
	SYS_fadvise64,
	SYS_fchmodat,
	SYS_fchown,
	SYS_mkdirat,
	SYS_getcwd,
	SYS_umask,
	SYS_dup,
	SYS_dup3,
	SYS_sync_file_range,
	SYS_fstatfs,
	SYS_statfs,
	SYS_fchmod,
	// network and waiting
	SYS_accept4,
	SYS_connect,
	SYS_bind,
	SYS_socketpair,
	// memory and threads
	SYS_rt_sigtimedwait,
	// who, when, how much
	SYS_prlimit64,
	SYS_getpriority,
#ifdef __x86_64__
	// Calls that newer machines no longer have; musl uses some of them.
	SYS_mkdir,
	SYS_rmdir,
	SYS_unlink,
	SYS_rename,
	SYS_chmod,
	SYS_getdents,
#endif
	-1,
};

static const int deadly[] = {
	PRIVS_DEADLY_TO_ALL
	SYS_bpf,
	SYS_perf_event_open,
	-1,
};

static const struct privs_checked checked[] = {
	PRIVS_CHECKED_OF_A_PEER
	// Is it a terminal? Is there more to read?
	{SYS_ioctl, 1, ~0U, 4, {0x5401, 0x5413, 0x541b, 0x5421}},
	{SYS_prctl, 0, ~0U, 2, {PR_SET_NAME, PR_GET_NAME}},
	{.number = -1},
};

const struct privs_tables privs_tables_datalake = {allowed, checked, deadly, false};
