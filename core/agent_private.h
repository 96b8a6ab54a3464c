// SPDX-License-Identifier: Apache-2.0
// The agent's inside, for the files agent*.c only.
#pragma once

#include "core/agent.h"
#include "core/batch.h"
#include "core/cgroup_sample.h"
#include "core/loader.h"
#include "core/reader.h"
#include "core/record.h"

struct gap_count {
	const char *room;
	const char *reason;
	uint64_t count;
	char *texts; // where another image counted it: room and reason, owned
};

enum { GAPS_MAX = 16 };

struct agent {
	struct agent_options options;
	struct host_env env;
	struct config *module_config; // of module_options, when the caller gave none
	struct module_options module_options;
	struct clock_offset clock;
	struct record_host record_host;
	char host[256];
	char boot[40];
	struct buf origin; // the members host and boot of every record
	uint64_t start_boot_ns;
	struct loader loader;
	struct reader *reader; // NULL: fallback
	struct process_table *processes;
	struct cgroup_table *cgroups; // NULL: no cgroup file system
	struct cgroup_table *default_cgroups; // the default hierarchy; NULL: none, or cgroups has it
	struct cgroup_sampler *cgroup_sampler; // NULL: no cgroups
	uint64_t cgroups_refused; // already told as a gap
	struct rules *rules;
	struct correlate *correlate;
	struct batch batches[RECORD_CLASS_END];
	struct loop_timer *tick;
	uint64_t watched_ns; // when the living were asked for; 0: never
	uint64_t second_ns, sample_ns; // when each was last done
	uint64_t events; // ring records read
	uint64_t ended; // process records written
	uint64_t ring_lost; // already told as a gap
	uint64_t ring_explained; // of these, those that were noticed once more
	struct gap_count gaps[GAPS_MAX];
	size_t gap_count;
};

// Hands what is in the batches to the sinks.
void agent_flush(struct agent *agent);
// Finds the cgroup of a process by its ids, and counts it there.
void agent_cgroup_resolve(struct agent *agent, struct process *process);
// Losses that another image counted, which wrote the records of them. -ENOMEM.
int agent_gap_restore(struct agent *agent, const char *room, const char *reason, uint64_t count);
void agent_host_record(struct agent *agent);
// Turns what the kernel counted as lost since the last call into gap records.
void agent_losses_read(struct agent *agent);
// Writes hostsample, open and sample records.
void agent_sample(struct agent *agent, uint64_t now_boot_ns);
// After events were lost: finds cgroups whose event was among them, and the processes that wait for one.
void agent_cgroups_rescan(struct agent *agent);
// Writes records of cgroups that changed, a bounded number each call.
void agent_sample_cgroups(struct agent *agent, uint64_t now_boot_ns);
