// SPDX-License-Identifier: Apache-2.0
// The sched module's part of host and cgroup samples: CPU time, load, scheduling, CPU pressure, pids.
#pragma once

#include "core/base/json.h"
#include "core/cgroup.h"
#include "core/base/text.h"

// Zero it before the first use.
struct sched_host {
	struct text_file stat, loadavg, pressure;
	uint64_t tick_ns; // of /proc/stat
};

// Opens what there is; a file that is missing leaves its members null. Always 0.
int sched_host_open(struct sched_host *host);
int sched_host_open_at(struct sched_host *host, const char *proc); // another /proc
void sched_host_close(struct sched_host *host); // idempotent

// Members of a hostsample record; counters since boot. docs/host-samples.md.
void sched_host_fields(struct sched_host *host, struct json *json);

// Members of a cgroup record, from cgroup->sample.
void sched_cgroup_fields(const struct cgroup_table *table, const struct cgroup *cgroup, struct json *json);
