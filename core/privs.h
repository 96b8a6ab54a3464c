// SPDX-License-Identifier: Apache-2.0
// Giving up rights, once everything that needs them is open. Neither call can be undone.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// What stays. Everything else goes.
struct privs_keep {
	// CAP_BPF and CAP_PERFMON: kernels before 5.19 ask for them on map access, see privs_kernel_needs_bpf().
	bool bpf;
	uint64_t capabilities; // more, as 1 << CAP_X
};

// Before 5.19 bpf(2) refused map commands to a process without CAP_BPF when unprivileged BPF is off (c8644cd0efe7).
bool privs_kernel_needs_bpf(void);

// Empties the ambient, inheritable, permitted and effective sets but for keep, and the bounding set where
// CAP_SETPCAP allows; sets no_new_privs, forbids core dumps and marks every descriptor above 2 close-on-exec.
// Works without any privilege too: what is not held cannot be dropped. 0; -EPERM when a capability that should be gone
// is still there; -errno of the call that failed. Call while there is one thread.
int privs_drop(const struct privs_keep *keep);

enum privs_profile {
	PRIVS_COLLECT, // files, the loop, maps and iterators; no new program, socket, process or executable memory
	PRIVS_DATALAKE, // files, connections in and out, threads; no other process, no executable memory
	PRIVS_STREAM, // files and network; no other process, no executable memory, nothing of the kernel's
	PRIVS_FETCH, // the updater's child with a network, and no file that is written
	PRIVS_UPDATE, // the updater's half that writes files, and no new socket
	PRIVS_WARDEN, // the collector's parent: no other process's memory, no mount, module, namespace or clock
};

// Installs the system-call filter for all threads. A call outside the profile fails with EPERM and is counted, so a
// surprise costs a figure and not the recording; one that only an intruder makes (execve, ptrace, mount, ...) kills the
// process. Needs no_new_privs. -ENOSYS: the kernel has no seccomp filters; -ENOTSUP: no profile for this machine.
int privs_seccomp(enum privs_profile profile);

// For the collector's parent, which keeps the capabilities an image needs to start and gives up the others; what it
// starts has no more than it. no_new_privs, no core dumps and PRIVS_WARDEN. 0 or -errno; what could be done is done.
int privs_warden(void);

// Keeps only these capabilities (1 << CAP_X each) in every set, the bounding set where CAP_SETPCAP allows. 0 or -errno.
int privs_bound(uint64_t keep);

// Calls refused so far, and the number of the latest one (-1: none).
uint64_t privs_refused(int *ret_number);
