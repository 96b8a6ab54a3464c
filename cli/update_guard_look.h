// SPDX-License-Identifier: Apache-2.0
// Between the files of the updater's guard: what it sees of the collector and of its service.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "updater/trial.h"

#define S UINT64_C(1000000000)

struct guard {
	const char *library, *directory;
	char socket[256];
	struct update_trial trial; // of the program; of rules: version and previous are those of the program that runs
	struct trial_watch watch;
	struct trial_sample sample; // the latest, of whatever version
	bool answered; // the last question
	bool asked_hand_over, restarted, stopped; // stopped: by somebody, not by itself
	uint64_t began_ns, stopped_asked_ns, memory_asked_ns, memory_bytes, failed_before;
};

void guard_pause_s(unsigned seconds);
// Where the collector of this host answers, by its configuration.
void guard_find_socket(struct guard *guard);
// Asks the collector; one that is not of this installation counts as none. Sets sample and answered.
void guard_ask(struct guard *guard);
// What update_guard_remember() kept. false: nothing.
bool guard_remembered(const char *directory, struct trial_sample *ret_sample);
// The process that was watched is gone, or another one of its version answers.
bool guard_ended(const struct guard *guard);
// No answer: is that because somebody stopped it? Asked every few seconds, and at once when its process is gone.
bool guard_silence_is_meant(struct guard *guard, bool gone);
// One guard at a time; the others wait, to go on when this one is killed. A descriptor or -errno.
int guard_lock(const char *directory);
