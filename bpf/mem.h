// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Time a process stood still while the kernel looked for memory on its behalf.
#pragma once

#include "bpf/event.h"

struct mem_stall {
	__u64 start_ns; // of the process: tells a reused pid
	__u64 reclaim_ns; // direct and cgroup reclaim
	__u64 compaction_ns;
	__u64 reclaims;
	__u64 compactions;
};
