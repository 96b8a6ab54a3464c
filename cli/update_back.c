// SPDX-License-Identifier: Apache-2.0
// The way back from a version on trial, and the count of its starts: what the guard does when it has judged, and what
// runs before each start of the service. Judges nothing but whether a program can be started at all; remembers first,
// then points, then kills, so that a kill at any moment leaves something that the next run ends.
#include "cli/update_back.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/update.h"
#include "cli/update_guard.h"
#include "cli/update_service.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "updater/trial.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

enum {
	ELF_HEAD = 20, // up to and with e_machine
	LOCK_TRIES = 40, // of a quarter of a second
	ASKED_S = 30,
};

void update_back_say(const char *format, ...)
{
	va_list list;

	fputs("tracer update: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}

int update_back_boot_id(char out[UPDATE_BOOT_ID_SIZE])
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int result = fs_read(BOOT_ID_FILE, 256, &text);

	if (result < 0)
		return result;
	snprintf(out, UPDATE_BOOT_ID_SIZE, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	return 0;
}

// The first bytes of a program: what kernel and machine it is for.
static int elf_head(const char *path, unsigned char out[ELF_HEAD])
{
	CLEANUP(cleanup_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		return -errno;
	if (!S_ISREG(info.st_mode) || !(info.st_mode & S_IXUSR))
		return -EACCES;
	return read(fd, out, ELF_HEAD) == ELF_HEAD ? 0 : -ENOEXEC;
}

// Asked before anything executes it: a shell takes a program of another machine for a script.
int update_back_startable(const char *library, const char *version, char why[UPDATE_REASON_SIZE])
{
	unsigned char own[ELF_HEAD], other[ELF_HEAD];
	char path[PATH_MAX];
	int result;

	if (snprintf(path, sizeof(path), "%s/versions/%s/tracer", library, version) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	result = elf_head(path, other);
	if (result == 0 && access(path, X_OK) < 0)
		result = -errno;
	if (result < 0) {
		snprintf(why, UPDATE_REASON_SIZE, "its program cannot be started: %s", strerror(-result));
		return result;
	}
	result = elf_head("/proc/self/exe", own);
	// All but the padding, byte 7 to 15, and e_type.
	if (result < 0 || (memcmp(own, other, 6) == 0 && memcmp(own + 18, other + 18, 2) == 0))
		return 0;
	snprintf(why, UPDATE_REASON_SIZE, "its program is not for this machine");
	return -ENOEXEC;
}

// The pointer alone. Another process may have the installer's lock for a moment. folder: of pushed rules, or NULL.
static int point_back(const char *library, const char *folder, const char *version)
{
	CLEANUP(versions_close) struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE], current[VERSIONS_NAME_SIZE];
	int result = folder ? versions_open_data(folder, UPDATE_RULES_FILE, &versions, why)
			    : versions_open(library, &versions, why);

	for (int tries = 0; result == 0 && tries < LOCK_TRIES; tries++) {
		result = versions_lock(&versions, why);
		if (result != -EBUSY || tries + 1 == LOCK_TRIES)
			break;
		result = 0;
		nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
	}
	if (result < 0) {
		update_back_say("%s", why);
		return result;
	}
	result = versions_named(&versions, VERSIONS_CURRENT, current);
	if (result == 0 && strcmp(current, version) != 0)
		return 0;
	result = versions_back(&versions, current);
	if (result < 0)
		update_back_say("%s: no way back from %s: %s", folder ? folder : library, version, strerror(-result));
	return result;
}

// With the state's lock: what is remembered comes first, so that a kill in between leaves a trial that is over.
int update_back_roll(const char *library, const char *directory, struct update_state *state, const char *reason)
{
	struct update_trial trial = state->trial;
	int result;

	update_back_say("%s is rolled back to %s: %s", trial.version, trial.previous, reason);
	update_state_add_bad(state, trial.version, trial.sha256, reason, time(NULL));
	result = update_state_write(directory, state);
	if (result < 0)
		update_back_say("%s: %s", directory, strerror(-result)); // a full disk keeps nobody from going back
	result = point_back(library, NULL, trial.version);
	if (result < 0)
		return result;
	service_kill_version(library, trial.version);
	state->trial = (struct update_trial){0};
	update_state_set_last(state, "apply", "rolled back", trial.version, reason, time(NULL));
	update_state_write(directory, state);
	return 0;
}

int update_back_roll_rules(const char *directory, struct update_state *state, const char *reason)
{
	char name[VERSIONS_NAME_SIZE + 8];
	int result;

	snprintf(name, sizeof(name), "rules-%s", state->rules_trial.version);
	update_back_say("%s go back to those before: %s", name, reason);
	update_state_add_bad(state, name, state->rules_trial.sha256, reason, time(NULL));
	result = update_state_write(directory, state);
	if (result < 0)
		update_back_say("%s: %s", directory, strerror(-result));
	result = point_back(NULL, state->rules_folder, state->rules_trial.version);
	if (result < 0)
		return result;
	state->rules_trial = (struct update_trial){0};
	update_state_set_last(state, "apply", "rolled back", name, reason, time(NULL));
	update_state_write(directory, state);
	return 0;
}

// A kill between the pointer and the state: what is left to say is said now.
static void end_what_is_over(const char *directory, struct update_state *state)
{
	const struct update_bad *bad = update_state_bad(state, state->trial.version, state->trial.sha256);

	if (!bad)
		return; // not switched yet
	update_state_set_last(state, "apply", "rolled back", bad->version, bad->reason, bad->at_s);
	state->trial = (struct update_trial){0};
	update_state_write(directory, state);
}

int update_back_current(const char *library, char out[VERSIONS_NAME_SIZE])
{
	CLEANUP(versions_close) struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE];
	int result = versions_open(library, &versions, why);

	return result < 0 ? result : versions_named(&versions, VERSIONS_CURRENT, out);
}

int update_back_rules_current(const struct update_state *state, char out[VERSIONS_NAME_SIZE])
{
	CLEANUP(versions_close) struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE];
	int result = versions_open_data(state->rules_folder, UPDATE_RULES_FILE, &versions, why);

	return result < 0 ? result : versions_named(&versions, VERSIONS_CURRENT, out);
}

// Of the program first: while that is on trial an end of the collector says nothing of the rules.
static void count_for_rules(const char *directory, struct update_state *state, const char *boot)
{
	char current[VERSIONS_NAME_SIZE] = "";

	if (update_back_rules_current(state, current) < 0)
		return;
	if (trial_count_start(&state->rules_trial, current, boot, clock_boot_ns()))
		update_state_write(directory, state);
	else
		update_back_roll_rules(directory, state, "the collector ended and was to be started again");
}

int update_guard_before_start(const char *library, const char *directory)
{
	CLEANUP(cleanup_close) int lock = -1;
	char boot[UPDATE_BOOT_ID_SIZE] = "", current[VERSIONS_NAME_SIZE] = "", why[UPDATE_REASON_SIZE] = "";
	struct update_state state;
	bool fine;

	// Nothing that is in the way here keeps the collector from starting.
	if (access(directory, F_OK) < 0 || update_state_lock(directory, &lock) < 0 ||
	    update_state_read(directory, &state) < 0 || (!state.trial.on && !state.rules_trial.on) ||
	    update_back_boot_id(boot) < 0)
		return EXIT_OK;
	if (!state.trial.on) {
		count_for_rules(directory, &state, boot);
		return EXIT_OK;
	}
	if (update_back_current(library, current) < 0)
		return EXIT_OK;
	if (strcmp(current, state.trial.version) != 0) {
		end_what_is_over(directory, &state);
		return EXIT_OK;
	}
	fine = update_back_startable(library, current, why) == 0;
	if (fine && trial_count_start(&state.trial, current, boot, clock_boot_ns())) {
		update_state_write(directory, &state);
		return EXIT_OK;
	}
	if (!*why)
		snprintf(why, sizeof(why), "the collector ended and was to be started again");
	if (update_back_roll(library, directory, &state, why) == 0)
		return EXIT_OK;
	return fine ? EXIT_OK : EXIT_NO;
}

int update_guard_stopped(const char *directory)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;
	char path[PATH_MAX], text[32];

	if (access(directory, F_OK) < 0 || update_state_lock(directory, &lock) < 0 ||
	    update_state_read(directory, &state) < 0 || (!state.trial.on && !state.rules_trial.on))
		return EXIT_OK;
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)clock_boot_ns());
	if (snprintf(path, sizeof(path), "%s/" UPDATE_ASKED_FILE, directory) < (int)sizeof(path))
		fs_replace(path, text, strlen(text), 0644);
	state.trial.starts = state.rules_trial.starts = 0;
	update_state_write(directory, &state);
	return EXIT_OK;
}

bool update_back_stop_was_asked(const char *directory)
{
	uint64_t asked_ns, now_ns = clock_boot_ns();
	CLEANUP(cleanup_close) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && fs_read_u64_at(fd, UPDATE_ASKED_FILE, &asked_ns) == 0 && asked_ns <= now_ns &&
	       now_ns - asked_ns < ASKED_S * UINT64_C(1000000000);
}
