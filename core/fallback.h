// SPDX-License-Identifier: Apache-2.0
// Processes without BPF: fills the agent's process table from what an ordinary system still gives,
// and marks each figure with how it was had. Registers its descriptors and timers on the loop;
// everything happens there.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct agent;
struct loop;
struct fallback;

enum fallback_tier {
	// The kernel's process events (netlink connector): no process is missed. With CAP_NET_ADMIN
	// also taskstats, which gives the figures of every thread at its exit. Since Linux 6.6 the
	// events need no privilege.
	FALLBACK_NETLINK,
	// /proc at intervals of 10 to 50 ms, longer when that would cost more than 1 % of a core,
	// and a pidfd for each process: what lives shorter than an interval is not seen.
	FALLBACK_PROC,
	FALLBACK_ANY, // the first of these that works
};

enum { FALLBACK_WHY_SIZE = 160 };

struct fallback_options {
	uint32_t root_pid; // this process and all it starts; 0: the whole host
};

// The agent was made with options.fallback. Reads what already runs before it returns:
// process_find(root_pid) then works. root_pid must not have run its program yet (have it wait), or
// what it started before is missing. -EPERM, -ENOTSUP, ...: this tier is not to be had, why has a
// sentence; try the next one.
int fallback_open(struct agent *agent, struct loop *loop, enum fallback_tier tier,
		  const struct fallback_options *options, struct fallback **ret_fallback,
		  char why[FALLBACK_WHY_SIZE]);

// Instead of waitpid(-1, ..., WNOHANG) by who starts root_pid, and by a child subreaper for what it
// adopts: takes the final figures of one dead child, which only a child that was not waited for
// still has, ends its process and reaps it. Returns 1 and the child, 0 when none is dead, -ECHILD
// when there are none.
int fallback_reap(struct fallback *fallback, pid_t *ret_pid, int *ret_status);

// A last look: ends what has ended. Call it before agent_finish().
void fallback_finish(struct fallback *fallback);

// What the records lack with this tier on this host, for people: one sentence at a time, after
// fallback_finish().
void fallback_missing(struct fallback *fallback, void (*visit)(void *context, const char *sentence),
		      void *context);

// After agent_finish(); takes NULL.
void fallback_free(struct fallback *fallback);

// FALLBACK_NETLINK or FALLBACK_PROC: the one that works.
enum fallback_tier fallback_tier(const struct fallback *fallback);
