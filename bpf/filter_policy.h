// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The filter as user space writes it and the kernel reads it.
#pragma once

#ifdef __bpf__
#include "bpf/lib/kernel.h"
#else
#include <linux/types.h>
#endif

enum filter_policy { FILTER_INCLUDE = 1, FILTER_EXCLUDE = 2 };

enum filter_field { FILTER_UID = 1, FILTER_CGROUP = 2, FILTER_COMM = 3 };

struct filter_key {
	__u32 field; // enum filter_field
	__u32 reserved;
	__u64 number; // uid or cgroup id
	char comm[16]; // NUL-padded
};
_Static_assert(sizeof(struct filter_key) == 32, "filter_key");

// Whose policy it is. The pid alone is reused, even before the one who had it is freed.
struct filter_process {
	__u32 pid;
	__u32 reserved;
	__u64 start_ns; // start_boottime; 0: whoever has the pid
};
_Static_assert(sizeof(struct filter_process) == 16, "filter_process");

struct filter_config {
	__u32 active; // 0: every process is recorded
	__u32 default_policy; // of a process without a policy of its own
	__u32 rules; // entries in filter_rules
	__u32 seeding; // the live iterator gives policies to what already runs
	__u32 whole; // records say all of a process: those before may be missing. Only user space clears it
	__u32 reserved;
};
