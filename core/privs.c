// SPDX-License-Identifier: Apache-2.0
// Dropping capabilities by the raw calls: capset(2) and prctl(2). The filter is privs_seccomp.c.

#include "core/privs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

// Since Linux 5.8; headers may be older.
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

bool privs_kernel_needs_bpf(void)
{
	struct utsname name;
	unsigned major, minor;

	// The one question that cannot be tried: the answer is needed before the rights are gone.
	if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return true;
	return major < 5 || (major == 5 && minor < 19);
}

static int privs_get(uint64_t *ret_permitted)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	*ret_permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	return 0;
}

static int privs_set(uint64_t mask)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.permitted = (uint32_t)mask, .effective = (uint32_t)mask},
		{.permitted = (uint32_t)(mask >> 32), .effective = (uint32_t)(mask >> 32)},
	};

	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

// Without CAP_SETPCAP the bounding set stays, and no_new_privs alone keeps an exec from gaining from it.
static int privs_drop_bounding(uint64_t keep)
{
	for (unsigned capability = 0; capability < 64; capability++) {
		int held = prctl(PR_CAPBSET_READ, capability, 0, 0, 0);

		if (held < 0)
			return 0;
		if (!held || keep & (UINT64_C(1) << capability))
			continue;
		if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
			return errno == EPERM ? 0 : -errno;
	}
	return 0;
}

// Kernels before 5.11 have no close_range(CLOEXEC): each descriptor by itself.
static int privs_close_on_exec(void)
{
	long limit;

	if (syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
		return 0;
	limit = sysconf(_SC_OPEN_MAX);
	for (int fd = 3; fd < limit && fd < 65536; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags >= 0 && fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0)
			return -errno;
	}
	return 0;
}

int privs_bound(uint64_t keep)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	int error = privs_drop_bounding(keep);

	if (error < 0)
		return error;
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		uint32_t mask = (uint32_t)(keep >> 32 * i);

		data[i].permitted &= mask;
		data[i].effective = data[i].permitted;
		data[i].inheritable &= mask;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int privs_drop(const struct privs_keep *keep)
{
	const struct rlimit no_core = {0, 0};
	uint64_t mask = keep->capabilities, held = 0;
	int error;

	if (keep->bpf)
		mask |= UINT64_C(1) << CAP_BPF | UINT64_C(1) << CAP_PERFMON;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (setrlimit(RLIMIT_CORE, &no_core) < 0)
		return -errno;
	error = privs_close_on_exec();
	if (error < 0)
		return error;
	// Root by number gains nothing at an exec; refused without CAP_SETPCAP, see above.
	(void)prctl(PR_SET_SECUREBITS,
		    SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
			    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
		    0, 0, 0);
	error = privs_drop_bounding(mask);
	if (error < 0)
		return error;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	error = privs_get(&held);
	if (error == 0)
		error = privs_set(held & mask);
	if (error == 0)
		error = privs_get(&held);
	return error < 0 ? error : held & ~mask ? -EPERM : 0;
}
