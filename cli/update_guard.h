// SPDX-License-Identifier: Apache-2.0
// The dead-man of an update: a process of the version before that watches the new one and brings the old one back. It
// runs the service manager's commands, so it must not be confined before. Where LIBRARY is PREFIX/lib/tracer and
// DIRECTORY that of the trusted metadata and the update state. All return exit codes.
#pragma once

// Keeps what the running collector says of itself, for the trial of the version that comes after it: before anything is
// changed. No collector runs: nothing is kept, and nothing is held against the new one.
void update_guard_remember(const char *directory);

// After the switch: brings the new version up (by hand-over where the running collector offers that, else by the
// service manager), watches it, and says "held" (EXIT_OK) or rolls back (EXIT_NO). No trial, or no service that runs:
// EXIT_OK at once; the trial waits for the first start. Waits for another guard that is at work.
int update_guard(const char *library, const char *directory);

// The same for pushed rules on trial: the collector reads them, and is watched.
int update_guard_rules(const char *library, const char *directory);

// After `current` was pointed to version by hand: the running collector is brought to it.
int update_guard_take_up(const char *library, const char *version);

// Before a start of the service: counts it, and rolls back when it is one too many or the program cannot be started.
// EXIT_NO: it cannot be started, and there is no way back.
int update_guard_before_start(const char *library, const char *directory);

// The service was stopped by somebody: its next start is none that counts.
int update_guard_stopped(const char *directory);

// `tracer update guard [before-start|stopped]`; argv[0] is "guard".
int command_update_guard(int argc, char **argv);
