// SPDX-License-Identifier: Apache-2.0
// The mem module's part of host and cgroup samples: memory by use, swap, reclaim, memory pressure.
#pragma once

#include "core/base/json.h"
#include "core/cgroup.h"
#include "core/base/text.h"

// Zero it before the first use.
struct mem_host {
	struct text_file meminfo, vmstat, pressure;
	uint64_t page_size;
};

// Opens what there is; a file that is missing leaves its members null. Always 0.
int mem_host_open(struct mem_host *host);
int mem_host_open_at(struct mem_host *host, const char *proc); // another /proc
void mem_host_close(struct mem_host *host); // idempotent

// Members of a hostsample record; counters since boot. docs/host-samples.md.
void mem_host_fields(struct mem_host *host, struct json *json);

// Members of a cgroup record, from cgroup->sample.
void mem_cgroup_fields(const struct cgroup_table *table, const struct cgroup *cgroup, struct json *json);
