// SPDX-License-Identifier: Apache-2.0
// When a release that is verified comes to this host: what its signed data says of its rollout, what the administrator
// said (pin, hold, channel, canary, window), and what this host has seen of it. Never makes anything acceptable that
// the verifier refused.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "updater/state.h"
#include "updater/target.h"

enum { ROLLOUT_WHY_SIZE = 320, ROLLOUT_PLACES = 10000 };

// In custom of a target: "rollout": {"percent": 25, "halt": false}. Without: every host.
struct rollout {
	uint64_t percent; // of hosts; canaries come before all
	bool halt; // nobody takes it any more
};

// -EBADMSG: it has a form that this version does not know, so nobody knows who should take it.
int rollout_of(const struct tuf_target *target, struct rollout *ret_rollout);

// This host's place for that version, below ROLLOUT_PLACES: the same each time, another for another version, so that
// not the same hosts are first always. Those below percent * 100 are in; a larger percentage keeps who was in.
unsigned rollout_place(const char *host_id, const char *version);

// A part of max_s that is this host's own, so that not all ask at once.
uint64_t rollout_jitter_s(const char *host_id, uint64_t max_s);

// What is installed only when all of it agrees.
struct rollout_policy {
	const struct update_state *state;
	const char *pin; // "": none
	const char *prefix; // of its versions in the state: "", "rules-"
	const char *host_id;
	bool canary;
	bool automatic; // nobody asked: percentages count
	// The newest that was passed over, and why; "": none.
	char passed[VERSIONS_NAME_SIZE], why[ROLLOUT_WHY_SIZE];
};

// For struct tuf_wanted: context is a struct rollout_policy.
bool rollout_takes(void *context, const struct tuf_target *target);

// Maintenance window: "", "02:00-04:00", "Sat,Sun 02:00-04:00", "Mon-Fri 22:00-04:00", in local time; one that goes
// past midnight belongs to the day on which it began.
struct rollout_window {
	unsigned days; // bit 0: Sunday
	int from_min, to_min; // of the day; the same: all of it
};
int rollout_window_parse(const char *text, struct rollout_window *ret_window); // -EINVAL
bool rollout_window_open(const struct rollout_window *window, const struct tm *local);
