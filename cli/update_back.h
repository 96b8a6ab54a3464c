// SPDX-License-Identifier: Apache-2.0
// Between the files of the updater's guard: the way back from a version on trial.
#pragma once

#include <stdbool.h>

#include "updater/state.h"

// One line for the log, with "tracer update: " in front.
__attribute__((format(printf, 1, 2))) void update_back_say(const char *format, ...);

int update_back_boot_id(char out[UPDATE_BOOT_ID_SIZE]);

// What `current` names. 0 or -errno.
int update_back_current(const char *library, char out[VERSIONS_NAME_SIZE]);

// 0: its program is one for this machine and may be executed, as far as can be said without executing it. Else -errno
// and why.
int update_back_startable(const char *library, const char *version, char why[UPDATE_REASON_SIZE]);

// The same of pushed rules. -ENOENT: there are none.
int update_back_rules_current(const struct update_state *state, char out[VERSIONS_NAME_SIZE]);

// Whether somebody told the service to stop in the last half minute.
bool update_back_stop_was_asked(const char *directory);

// From the trial in state to the version before, with the state's lock: remembers it as bad, points `current` back,
// kills what runs of it, and ends the trial. Does not start anything. 0, or -errno when there is no way back.
int update_back_roll(const char *library, const char *directory, struct update_state *state, const char *reason);

// The same of pushed rules, back to those before or to none; the collector is not told.
int update_back_roll_rules(const char *directory, struct update_state *state, const char *reason);
