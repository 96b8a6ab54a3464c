// SPDX-License-Identifier: Apache-2.0
// The agent ties the rooms together: modules, rings, process table, correlate, batch. `tracer collect`, `run` and `top`
// are three ways to drive one agent. Also the calls a module makes on its host.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/clock.h"
#include "core/cgroup.h"
#include "core/correlate.h"
#include "core/module.h"
#include "core/process.h"

struct agent;
struct loop;

// What comes out. Calls are made from the loop; pointers are valid during the call only.
struct agent_sink {
	// NDJSON records, each ended by a newline. 0 or -errno (counted as dropped by the sink, never retried here).
	int (*write)(void *context, const char *records, size_t length, uint32_t count);
	// A process ended, after its record was written and before it leaves the table. May be NULL.
	void (*process_end)(void *context, const struct process *process);
	// Every 50 ms or sooner. May be NULL.
	void (*tick)(void *context, uint64_t now_boot_ns);
	void *context;
};

// --- calls for modules -------------------------------------------------------------------------------------------

struct process_table *agent_processes(struct agent *agent);
struct cgroup_table *agent_cgroups(struct agent *agent);
struct correlate *agent_correlate(struct agent *agent);
const struct clock_offset *agent_clock(const struct agent *agent);

// A process ended and its figures are final: writes its record, tells correlate and the sinks, removes it.
void agent_process_end(struct agent *agent, struct process *process);

// Starts a record: {"kind":"...","time_ns":...,"host":... . Close with agent_record_end(). NULL when memory is out (the
// record is then counted as dropped).
struct json *agent_record_begin(struct agent *agent, const char *kind, uint64_t boot_ns);
void agent_record_end(struct agent *agent);

// A loss: counted, shown in status and written as a record of kind gap.
void agent_gap(struct agent *agent, const char *room, const char *reason, uint64_t count);
