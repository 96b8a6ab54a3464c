// SPDX-License-Identifier: Apache-2.0
// The updater's system calls, in two tables. The fetching half: one connection, names of hosts, the threads libcurl
// resolves with. The verifying half: files, its one child, and no socket that it does not hold already.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/privs_profile.h"

static const int fetch_allowed[] = {
	PRIVS_ALLOWED_TO_ALL
	PRIVS_ALLOWED_TO_A_PEER
	-1,
};

static const struct privs_checked fetch_checked[] = {
	PRIVS_CHECKED_OF_A_PEER
	{SYS_prctl, 0, ~0U, 3, {PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG}},
	{.number = -1},
};

static const int update_allowed[] = {
	PRIVS_ALLOWED_TO_ALL
	SYS_mkdirat,
	SYS_symlinkat,
	SYS_fchown,
	SYS_fgetxattr,
	SYS_fsetxattr,
	SYS_statfs,
	SYS_fstatfs,
	SYS_kill,
	SYS_wait4,
#ifdef __x86_64__
	SYS_mkdir,
	SYS_unlink,
	SYS_rename,
#endif
	-1,
};

static const struct privs_checked update_checked[] = {
	{SYS_mmap, 2, PROT_EXEC, 1, {0}},
	{SYS_mprotect, 2, PROT_EXEC, 1, {0}},
	// Is it a terminal?
	{SYS_ioctl, 1, ~0U, 2, {0x5401, 0x5413}},
	{.number = -1},
};

static const int deadly[] = {
	PRIVS_DEADLY_TO_ALL
	PRIVS_DEADLY_WITHOUT_BPF
	-1,
};

const struct privs_tables privs_tables_fetch = {fetch_allowed, fetch_checked, deadly, false};
const struct privs_tables privs_tables_update = {update_allowed, update_checked, deadly, false};
