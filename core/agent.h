// SPDX-License-Identifier: Apache-2.0
// The agent ties the rooms together: modules, rings, process table, correlate, batch. `tracer collect`, `run` and
// `top` are three ways to drive one agent. Also the calls a module makes on its host.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/clock.h"
#include "core/batch.h"
#include "core/cgroup.h"
#include "core/correlate.h"
#include "core/module.h"
#include "core/module_options.h"
#include "core/process.h"

struct agent;
struct handover_offer;
struct loop;
struct buf;
struct reader_stats;

// What comes out. Calls are made from the loop; pointers are valid during the call only.
struct agent_sink {
	// NDJSON records, each ended by a newline. 0 or -errno (counted as dropped by the sink, never retried here).
	int (*write)(void *context, const char *records, size_t length, uint32_t count, enum record_class class);
	// A process ended, after its record was written and before it leaves the table. May be NULL.
	void (*process_end)(void *context, const struct process *process);
	// What one look at the rings or one tick had for it was written, perhaps nothing. May be NULL.
	void (*flushed)(void *context);
	// Every tick of the agent. May be NULL.
	void (*tick)(void *context, uint64_t now_boot_ns);
	void *context;
};

struct agent_options {
	struct loop *loop; // borrowed
	const struct agent_sink *sinks; // borrowed; sink_count of them
	uint32_t sink_count;
	const char *rules_directory; // NULL: embedded rules only
	const char *rules_pushed; // a file that came with an update; NULL: none
	bool tree; // only the tree that agent_tree_open() and agent_tree_close() mark; else the whole host
	bool fallback; // no BPF: a room of core/fallback.h feeds the process table
	bool living_at_end; // agent_finish() writes a record of each process that still lives, without an end
	uint64_t drain_ns; // how often rings are emptied while records come
	uint64_t tick_ns; // how often modules look at what runs: each look wakes an idle host
	uint64_t sample_ns; // how often living processes, the host and cgroups are sampled
	uint64_t ring_bytes; // of the lifecycle ring; a power of two
	const struct module_options *modules; // borrowed; NULL: their defaults
	const struct handover_offer *offer; // borrowed: of the image before; agent_resume() is then due. NULL: none
};

void agent_options_default(struct agent_options *options);

// Loads, attaches, then reads what already runs (whole host only): no process falls between. On failure *ret_agent is
// untouched and why has a sentence. -EINVAL: the rules are bad, why then has every line of it. On success why is empty
// or says that pushed rules are bad and left out; so does agent_reload().
int agent_new(const struct agent_options *options, struct agent **ret_agent, struct buf *why);
void agent_free(struct agent *agent);

// Around the fork of the process whose tree is recorded: what the caller forks in between is in it, and pid, which
// must not have called exec yet, is the root of a run called name. -ESRCH: its fork was not seen.
int agent_tree_open(struct agent *agent);
int agent_tree_close(struct agent *agent, uint32_t pid, const char *name);

// Takes everything out of the rings, waits wait_ns for ended processes to be released (up to ten times that on a
// machine whose grace periods are long), writes the records of those that ended (of those that live too, see
// living_at_end), and flushes. Returns how many still live. The agent can only be freed then.
size_t agent_finish(struct agent *agent, uint64_t wait_ns);

// Tracked processes that have not ended.
size_t agent_living(struct agent *agent);

// Reads the rules again; the old ones stay when the new are bad (-EINVAL, why has the lines).
int agent_reload(struct agent *agent, struct buf *why);

// Appends the members modules, rings, gaps, records of the status object.
void agent_status(struct agent *agent, struct json *json);

// Appends one NDJSON line for each living process, and reads them again soon: somebody looks.
void agent_processes_write(struct agent *agent, struct buf *out);

// Whether somebody asked for the living processes within the last seconds.
bool agent_is_watched(const struct agent *agent, uint64_t now_boot_ns);

// Each module that should run here and does not, with its reason.
void agent_failed_each(const struct agent *agent,
		       void (*visit)(void *context, const char *module, const char *reason), void *context);

// Each kind of loss so far.
void agent_gaps_each(const struct agent *agent,
		     void (*visit)(void *context, const char *room, const char *reason, uint64_t count), void *context);

// Losses so far, over all reasons.
uint64_t agent_lost(const struct agent *agent);

// --- calls for modules -------------------------------------------------------------------------------------------

struct process_table *agent_processes(struct agent *agent);
struct cgroup_table *agent_cgroups(struct agent *agent);
struct correlate *agent_correlate(struct agent *agent);
// Boot time up to which everything in the rings was read; 0: nothing yet, or there are none.
uint64_t agent_drained_ns(const struct agent *agent);
const struct clock_offset *agent_clock(const struct agent *agent);

// A process that ran before the collector: arguments, files and directory from /proc, then its place.
void agent_process_seed(struct agent *agent, struct process *process);
// The same for all that were seeded since that time, the oldest first: a parent is older than its children, whatever
// their pids say.
void agent_processes_seed(struct agent *agent, uint64_t since_boot_ns);

// A process was forked or first seen; one got a new image; one changed its cgroup: resolves cgroup, tool, task, run.
void agent_process_start(struct agent *agent, struct process *process);
void agent_process_exec(struct agent *agent, struct process *process);
void agent_process_move(struct agent *agent, struct process *process, uint64_t cgroup_id, uint64_t default_cgroup_id);

// A cgroup was made or removed, in the chosen hierarchy or in the default one beside it: its table and the filter learn
// of it.
void agent_cgroup_made(struct agent *agent, uint64_t id, const char *path, bool in_default);
void agent_cgroup_removed(struct agent *agent, uint64_t id, bool in_default);

// A process ended and its figures are final: writes its record, tells correlate and the sinks, removes it.
void agent_process_end(struct agent *agent, struct process *process);

// Starts a record: {"kind":"...","time_ns":...,"host":... . Close with agent_record_end(). Records of one class
// never nest; one that met a lack of memory is dropped whole and counted.
struct json *agent_record_begin(struct agent *agent, const char *kind, enum record_class class, uint64_t boot_ns);
void agent_record_end(struct agent *agent, enum record_class class);

// A loss: counted, shown in status and written as a record of kind gap.
void agent_gap(struct agent *agent, const char *room, const char *reason, uint64_t count);
// The same for numbered records; first and last are 0 when not known.
void agent_gap_range(struct agent *agent, const char *room, const char *reason, uint64_t count, uint64_t first,
		     uint64_t last);
// One thing was found to be missing: what a full ring took, and is counted there already, else a loss of its own.
void agent_unseen(struct agent *agent, const char *room, const char *reason);
