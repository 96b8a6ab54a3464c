// SPDX-License-Identifier: Apache-2.0
// What an agent knows, from one image to the next: living processes and those that wait for their last figures, with
// their images, runs, tasks and cgroups; what was counted and lost.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct buf;
struct handover_offer;
struct handover_state;

enum { AGENT_STATE_VERSION = 1 }; // of tags whose meaning changed; what was only added does not raise it

// --- the older image ---------------------------------------------------------------------------------------------

// What could be taken over: hash, modules, maps and links. -ENOTSUP: no BPF, there is nothing.
int agent_offer(const struct agent *agent, struct handover_offer *offer);
// Reads the rings to the end, hands everything on to the sinks and appends the state. own_hooks: the next image has
// hooks of its own, and events from *ret_cut_ns (else 0) on are kept back, as it has them too.
int agent_yield(struct agent *agent, bool own_hooks, struct buf *out, uint64_t *ret_last_drain_ns,
		uint64_t *ret_cut_ns);
// The next image did not take over: goes on as if nothing had been.
void agent_unyield(struct agent *agent);

// --- the newer image ---------------------------------------------------------------------------------------------

// After agent_new() with an offer: the state, or NULL, when modules look at what runs as at a first start and a gap
// says so. Nothing was read from the rings before. -EBADMSG: the state was not one; the agent is then as without one.
int agent_resume(struct agent *agent, const struct handover_offer *offer, const struct handover_state *state,
		 const void *data);
// Reads the rings for the first time. Returns the boot time of that.
uint64_t agent_first_drain(struct agent *agent);
// The modules that run, 1 << enum module_id each; whether maps and links were taken over.
uint64_t agent_modules(const struct agent *agent);
bool agent_adopted(const struct agent *agent);
