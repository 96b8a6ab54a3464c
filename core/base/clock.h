// SPDX-License-Identifier: Apache-2.0
// One clock: CLOCK_BOOTTIME nanoseconds (what bpf_ktime_get_boot_ns() returns), made into wall time at the edge.
#pragma once

#include <stdint.h>

uint64_t clock_boot_ns(void);
uint64_t clock_real_ns(void);
uint64_t clock_thread_cpu_ns(void);
uint64_t clock_process_cpu_ns(void); // CPU time this process has used

// The distance from boot time to Unix time, taken again every interval: the wall clock may step.
struct clock_offset {
	int64_t boot_to_real_ns;
};

// Measures the offset (the tightest of a few readings). Returns how far it moved since the last call, ns.
int64_t clock_offset_update(struct clock_offset *offset);
uint64_t clock_to_real_ns(const struct clock_offset *offset, uint64_t boot_ns);
