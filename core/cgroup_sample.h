// SPDX-License-Identifier: Apache-2.0
// What the kernel counted for a cgroup, read from its files: v2, v1 and hybrid. Figures include the cgroups below it.
// Modules write the members (modules/*_host.c); here they are read once, compared and rotated through a budget.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/cgroup.h"

enum { CGROUP_DEVICES_MAX = 8 };

#define CGROUP_UNKNOWN UINT64_MAX // written as null
#define CGROUP_NO_LIMIT (UINT64_MAX - 1) // the member is left out

// Writes a limit: the member is left out when none is set, null when that is not known.
static inline void cgroup_put_limit(struct json *json, const char *key, uint64_t value)
{
	if (value != CGROUP_NO_LIMIT)
		json_put_known_u64(json, key, value);
}

struct cgroup_device {
	uint32_t major, minor;
	uint64_t read_bytes, write_bytes, reads, writes, discard_bytes, discards;
};

// Only uint64_t, so that two samples can be compared as bytes. CGROUP_UNKNOWN: the kernel does not say.
struct cgroup_figures {
	uint64_t cpu_ns, cpu_user_ns, cpu_system_ns;
	uint64_t cpu_periods, cpu_throttled_periods, cpu_throttled_ns;
	uint64_t cpu_quota_ns, cpu_period_ns; // quota in each period
	uint64_t pids, pids_peak, pids_limit, pids_limit_hits;

	uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes, memory_high_bytes;
	uint64_t swap_bytes, swap_limit_bytes; // v1 limits memory and swap together: unknown there
	uint64_t anon_bytes, file_bytes, shmem_bytes; // file includes shmem, as the kernel has it
	uint64_t kernel_bytes, slab_reclaimable_bytes, slab_unreclaimable_bytes;
	uint64_t active_file_bytes, inactive_file_bytes, dirty_bytes, writeback_bytes;
	uint64_t minor_faults, major_faults; // minor: all faults less the major ones
	uint64_t refaults_file; // pages read again soon after reclaim
	uint64_t limit_hits, high_hits, oom_events, oom_kills; // v1: limit_hits is failcnt

	uint64_t pressure_cpu_some_ns, pressure_cpu_full_ns;
	uint64_t pressure_memory_some_ns, pressure_memory_full_ns;
	uint64_t pressure_io_some_ns, pressure_io_full_ns;

	uint64_t device_count; // CGROUP_UNKNOWN: no I/O figures
	uint64_t devices_omitted; // beyond CGROUP_DEVICES_MAX
};

struct cgroup_sample {
	uint64_t boot_ns; // when the figures were read
	bool limited; // CPU, memory or swap is limited (pids is nearly everywhere under systemd)
	struct cgroup_figures figures;
	struct cgroup_device devices[CGROUP_DEVICES_MAX];
};

// Reads all figures of one cgroup; the time is the caller's to set. -ENOENT: no hierarchy has its directory any more.
int cgroup_figures_read(const struct cgroup_table *table, const struct cgroup *cgroup,
			struct cgroup_sample *ret_sample);

struct cgroup_sampler;

// round_ns: no cgroup is looked at twice within this time unless it is due. The table is borrowed.
int cgroup_sampler_new(struct cgroup_table *table, uint64_t round_ns, struct cgroup_sampler **ret_sampler);
void cgroup_sampler_free(struct cgroup_sampler *sampler);

// Looks at up to budget cgroups: first those that are due, then, leaf first, those with tracked processes and those of
// their ancestors that have a limit (never the root, which is the host). Calls visit for each whose figures changed
// since its last sample; cgroup->sample holds them. The rest waits for the next call. Returns how many were looked at.
uint32_t cgroup_sampler_run(struct cgroup_sampler *sampler, uint64_t now_boot_ns, uint32_t budget,
			    void (*visit)(void *context, struct cgroup *cgroup), void *context);
