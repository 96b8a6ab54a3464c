// SPDX-License-Identifier: Apache-2.0
// The rights of the collector's parent: those an image needs until it has attached, and no other; and a filter that the
// images inherit, of what neither parent nor collector nor streamer ever calls.

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "core/privs_profile.h"

// Since Linux 5.8; headers may be older.
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

#define BIT(capability) (UINT64_C(1) << (capability))

// BPF, PERFMON (before 5.8 SYS_ADMIN, SYS_RESOURCE) attach. SYS_PTRACE, DAC_READ_SEARCH: what /proc shows of other
// users' processes. NET_ADMIN: process events where there is no BPF. The rest makes the spool and the streamer's user.
static const uint64_t kept = BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_RESOURCE) |
			     BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_NET_ADMIN) | BIT(CAP_SETUID) |
			     BIT(CAP_SETGID) | BIT(CAP_SETPCAP) | BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) |
			     BIT(CAP_DAC_OVERRIDE) | BIT(CAP_KILL);

static const int none[] = { -1 };
static const struct privs_checked nothing[] = { { .number = -1 } };

static const int deadly[] = {
	SYS_ptrace,	 SYS_process_vm_readv, SYS_process_vm_writev,
	SYS_init_module, SYS_finit_module,     SYS_delete_module,
	SYS_kexec_load,	 SYS_mount,	       SYS_umount2,
	SYS_pivot_root,	 SYS_setns,	       SYS_unshare,
	SYS_reboot,	 SYS_swapon,	       SYS_swapoff,
	SYS_keyctl,	 SYS_add_key,	       SYS_request_key,
	SYS_settimeofday, SYS_clock_settime,   SYS_sethostname,
	SYS_acct,	 SYS_syslog,	       SYS_userfaultfd,
	-1,
};

const struct privs_tables privs_tables_warden = { none, nothing, deadly, true };

int privs_warden(void)
{
	const struct rlimit no_core = { 0, 0 };
	int error;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &no_core) < 0)
		return -errno;
	error = privs_bound(kept);
	return error < 0 ? error : privs_seccomp(PRIVS_WARDEN);
}
