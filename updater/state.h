// SPDX-License-Identifier: Apache-2.0
// What this host remembers of updates besides trusted metadata: what its administrator said, which versions were bad,
// the trial that is on, and how the last attempt ended. One small file, replaced whole; `tracer update`, its guard and
// what runs before a start of the service share it under a lock.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "updater/versions.h"

enum {
	UPDATE_BAD_MAX = 32, // bad versions that are remembered; the oldest goes
	UPDATE_SHA256_SIZE = 65, // hexadecimal and NUL
	UPDATE_REASON_SIZE = 200,
	UPDATE_WORD_SIZE = 24,
	UPDATE_BOOT_ID_SIZE = 40,
};

// The file in the directory of trusted metadata. Without ".json", so that no role of a repository has its name.
#define UPDATE_STATE_FILE "state"
// Beside it, of the trial that is on: what the version before said of itself, and when somebody asked for a stop.
#define UPDATE_BEFORE_FILE "before"
#define UPDATE_ASKED_FILE "asked"

struct update_bad {
	// version: of pushed rules it is "rules-VERSION"
	char version[VERSIONS_NAME_SIZE], sha256[UPDATE_SHA256_SIZE], reason[UPDATE_REASON_SIZE];
	int64_t at_s; // Unix time
};

// Written before `current` is switched: a trial of a version that `current` does not name has not begun, or is over.
struct update_trial {
	bool on;
	char version[VERSIONS_NAME_SIZE], previous[VERSIONS_NAME_SIZE], sha256[UPDATE_SHA256_SIZE];
	char began_boot_id[UPDATE_BOOT_ID_SIZE];
	uint64_t began_ns; // CLOCK_BOOTTIME of that boot
	uint64_t deadline_s; // after that: held or rolled back
	uint64_t starts; // of the service, since it began
};

enum { UPDATE_FOLDER_SIZE = 512 };

struct update_last {
	char action[UPDATE_WORD_SIZE]; // "apply", "rollback"; "": none yet
	char outcome[UPDATE_WORD_SIZE]; // "on trial", "held", "rolled back", "refused", "failed"; of rules "installed"
	char version[VERSIONS_NAME_SIZE], reason[UPDATE_REASON_SIZE];
	int64_t at_s;
};

struct update_state {
	char pin[VERSIONS_NAME_SIZE]; // "": none
	bool hold;
	struct update_bad bad[UPDATE_BAD_MAX];
	size_t bad_count;
	struct update_trial trial;
	struct update_trial rules_trial; // version: without "rules-"; previous: "0" for none
	char rules_folder[UPDATE_FOLDER_SIZE]; // where they are
	struct update_last last;
};

// Waits for the others, and removes what a kill left half-written. Close the descriptor to give it back. 0 or -errno.
int update_state_lock(const char *directory, int *ret_fd);

// No file: all zero. -EBADMSG: it is damaged; remove it to begin anew, which forgets pins and bad versions.
int update_state_read(const char *directory, struct update_state *ret_state);

// Durable when it returns 0. Hold the lock from the reading on.
int update_state_write(const char *directory, const struct update_state *state);

// The remembered entry of this version or of these bytes; NULL: it is not known to be bad.
const struct update_bad *update_state_bad(const struct update_state *state, const char *version, const char *sha256);
void update_state_add_bad(struct update_state *state, const char *version, const char *sha256, const char *reason,
			  int64_t at_s);

void update_state_set_last(struct update_state *state, const char *action, const char *outcome, const char *version,
			   const char *reason, int64_t at_s);

// A trial that begins now. 0, or -errno when the boot's id cannot be read.
int update_trial_begin(struct update_trial *ret_trial, const char *version, const char *previous, const char *sha256,
		       uint64_t deadline_s);
