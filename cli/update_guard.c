// SPDX-License-Identifier: Apache-2.0
// `tracer update guard`: the dead-man of an update. Run by the version before, it watches the collector of the new one
// from outside and brings the old one back; what it can be killed at, its next run or the next start of the service
// goes on with. Judges by updater/trial.c, changes versions by updater/versions.c, and has no network.
#include "cli/update_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/identity.h"
#include "cli/update_back.h"
#include "cli/update_guard_look.h"
#include "cli/update_service.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/status.h"
#include "updater/trial.h"

#define DIRECTORY "/var/lib/tracer/update"

enum {
	HAND_OVER_S = 15, // or until it says that it failed; then the service is started anew
	OLD_BACK_S = 12, // for the manager to start the old one by itself
	OLD_TRIES = 3,
	NETWORK_S = 45, // for the old one to deliver
};


// The old one still answers: it is asked once to hand over, then the service is started anew.
static void bring_up(struct guard *guard)
{
	bool given_up = !guard->sample.hands_over || clock_boot_ns() - guard->began_ns > HAND_OVER_S * S;

	if (guard->sample.hands_over && !guard->asked_hand_over) {
		guard->asked_hand_over = true;
		guard->failed_before = guard->sample.handovers_failed;
		update_back_say("%s is asked to hand over to %s", guard->sample.version, guard->trial.version);
		kill((pid_t)guard->sample.pid, SIGUSR2);
	} else if (!guard->restarted && (given_up || guard->sample.handovers_failed > guard->failed_before)) {
		int result;

		guard->restarted = true;
		update_back_say("the service is started anew with %s", guard->trial.version);
		result = service_restart(guard->library);
		if (result < 0)
			update_back_say("the service: %s", strerror(-result));
	}
}

// ---- the trial -----------------------------------------------------------------------------------------------------

// The state's trial as this guard knows it? Otherwise another process has brought it to its end.
static bool still_on(const struct guard *guard, struct update_state *state)
{
	return update_state_read(guard->directory, state) < 0 ||
	       (state->trial.on && strcmp(state->trial.version, guard->trial.version) == 0);
}

// Once it runs: an end of it from now on is one that counts.
static void count_running(const struct guard *guard)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;

	if (update_state_lock(guard->directory, &lock) < 0 || !still_on(guard, &state) || state.trial.starts > 0)
		return;
	state.trial.starts = 1;
	update_state_write(guard->directory, &state);
}

static void watch_begin(struct guard *guard)
{
	struct trial_sample before;

	trial_watch_begin(&guard->watch, &guard->trial, guard_remembered(guard->directory, &before) ? &before : NULL,
			  clock_boot_ns());
}

// One second of the watch.
static enum trial_verdict look(struct guard *guard, bool *ret_network, char why[UPDATE_REASON_SIZE])
{
	bool was_seen = guard->watch.seen, ended;

	guard_ask(guard);
	ended = guard_ended(guard);
	*ret_network = false;
	guard->stopped = !guard->answered && guard_silence_is_meant(guard, ended);
	if (guard->stopped)
		return TRIAL_GOING;
	if (ended && update_back_stop_was_asked(guard->directory)) {
		watch_begin(guard);
		return TRIAL_GOING;
	}
	if (ended) {
		snprintf(why, UPDATE_REASON_SIZE, "the collector ended after %llu s",
			 (unsigned long long)((clock_boot_ns() - guard->watch.first_ns) / S));
		return TRIAL_FAILED;
	}
	if (guard->answered && strcmp(guard->sample.version, guard->trial.version) != 0)
		bring_up(guard);
	trial_watch_add(&guard->watch, guard->answered ? &guard->sample : NULL, clock_boot_ns());
	if (guard->watch.seen && !was_seen) {
		update_back_say("%s runs, and is on trial for %llu s", guard->trial.version,
				(unsigned long long)guard->trial.deadline_s);
		count_running(guard);
	}
	return trial_judge(&guard->watch, clock_boot_ns(), ret_network, why);
}

static int held(const struct guard *guard)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;
	int result = update_state_lock(guard->directory, &lock);

	if (result == 0)
		result = update_state_read(guard->directory, &state);
	if (result == 0 && state.trial.on) {
		state.trial = (struct update_trial){0};
		update_state_set_last(&state, "apply", "held", guard->trial.version, "", time(NULL));
		result = update_state_write(guard->directory, &state);
	}
	if (result < 0) {
		update_back_say("%s: %s", guard->directory, strerror(-result));
		return EXIT_NO;
	}
	update_back_say("%s has held", guard->trial.version);
	return EXIT_OK;
}

// The version before has to run again, whoever pointed back to it.
static bool old_runs(struct guard *guard)
{
	for (int tries = 0; tries < OLD_TRIES; tries++) {
		for (int waited = 0; waited < OLD_BACK_S; waited++) {
			guard_ask(guard);
			if (guard->answered && strcmp(guard->sample.version, guard->trial.previous) == 0)
				return true;
			guard_pause_s(1);
		}
		if (service_is_stopped(guard->library))
			return true;
		update_back_say("%s does not answer: the service is started anew", guard->trial.previous);
		service_restart(guard->library);
	}
	return false;
}

// Neither delivers: then it was not the new one's fault, and it may be tried again. It is then not judged by what it
// delivers, for the version before delivers nothing.
static void acquit(struct guard *guard, uint64_t since_ns)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;

	for (int waited = 0; waited < NETWORK_S; waited++) {
		guard_ask(guard);
		if (guard->answered && trial_delivers(&guard->sample, since_ns))
			return;
		guard_pause_s(1);
	}
	if (update_state_lock(guard->directory, &lock) < 0 || update_state_read(guard->directory, &state) < 0)
		return;
	for (size_t i = 0; i < state.bad_count; i++)
		if (strcmp(state.bad[i].version, guard->trial.version) == 0) {
			memmove(&state.bad[i], &state.bad[i + 1],
				(state.bad_count - i - 1) * sizeof(state.bad[0]));
			state.bad_count--;
			update_back_say("%s delivers nothing either: %s is not held to be bad", guard->trial.previous,
			    guard->trial.version);
			update_state_write(guard->directory, &state);
			return;
		}
}

static void remove_bad(const char *library)
{
	CLEANUP(versions_close) struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE];

	if (versions_open(library, &versions, why) == 0 && versions_lock(&versions, why) == 0)
		versions_tidy(&versions);
}

static int give_back(struct guard *guard, bool network, const char *why)
{
	uint64_t since_ns = clock_real_ns();
	struct update_state state;
	int result = 0;

	{
		CLEANUP(cleanup_close) int lock = -1;

		if (update_state_lock(guard->directory, &lock) < 0)
			return EXIT_NO;
		if (still_on(guard, &state))
			result = update_back_roll(guard->library, guard->directory, &state, why);
	}
	if (result < 0)
		return EXIT_NO;
	if (!old_runs(guard)) {
		update_back_say("%s does not answer either; see what the service says", guard->trial.previous);
		return EXIT_NO;
	}
	if (network)
		acquit(guard, since_ns);
	remove_bad(guard->library);
	update_back_say("%s runs again", guard->trial.previous);
	return EXIT_NO;
}

static int watch(struct guard *guard)
{
	char why[UPDATE_REASON_SIZE] = "", current[VERSIONS_NAME_SIZE];
	enum trial_verdict verdict = TRIAL_GOING;
	struct update_state state;
	bool network = false;

	while (verdict == TRIAL_GOING) {
		if (!still_on(guard, &state)) {
			snprintf(why, sizeof(why), "its service did that");
			break;
		}
		if (update_back_current(guard->library, current) == 0 &&
		    strcmp(current, guard->trial.version) != 0)
			return EXIT_OK; // not switched, or switched back by hand
		verdict = look(guard, &network, why);
		if (guard->stopped) {
			update_back_say("no service runs: the trial of %s begins when it is started",
					guard->trial.version);
			return EXIT_OK;
		}
		if (verdict == TRIAL_GOING)
			guard_pause_s(1);
	}
	if (verdict == TRIAL_HELD)
		return held(guard);
	if (verdict == TRIAL_GOING && strcmp(state.last.outcome, "rolled back") != 0)
		return EXIT_OK; // held, or ended by hand
	return give_back(guard, network, why);
}

int update_guard_take_up(const char *library, const char *version)
{
	struct guard guard = {.library = library, .began_ns = clock_boot_ns()};

	snprintf(guard.trial.version, sizeof(guard.trial.version), "%s", version);
	snprintf(guard.trial.previous, sizeof(guard.trial.previous), "%s", version);
	guard_find_socket(&guard);
	guard_ask(&guard);
	if (!guard.answered && service_is_stopped(library)) {
		update_back_say("no service runs: %s begins when it is started", version);
		return EXIT_OK;
	}
	if (!guard.answered || strcmp(guard.sample.version, version) != 0)
		bring_up(&guard);
	if (!old_runs(&guard)) {
		update_back_say("%s does not answer; see what the service says", version);
		return EXIT_NO;
	}
	update_back_say("%s runs", version);
	return EXIT_OK;
}

static int guard_program(const char *library, const char *directory)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct guard guard = {.library = library, .directory = directory, .began_ns = clock_boot_ns()};
	char boot[UPDATE_BOOT_ID_SIZE] = "", why[UPDATE_REASON_SIZE];
	struct update_state state;
	int result;

	result = update_state_read(directory, &state);
	if (result < 0) {
		update_back_say("%s/" UPDATE_STATE_FILE ": %s", directory,
		    result == -EBADMSG ? "damaged; remove it to begin anew" : strerror(-result));
		return EXIT_REFUSED;
	}
	if (!state.trial.on)
		return EXIT_OK;
	// Neither the end of a session nor a careless Ctrl-C leaves a trial without its guard.
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	lock = guard_lock(directory);
	if (lock < 0) {
		update_back_say("%s: %s", directory, strerror(-lock));
		return EXIT_REFUSED;
	}
	if (update_state_read(directory, &state) < 0 || !state.trial.on)
		return EXIT_OK;
	guard.began_ns = clock_boot_ns();
	guard.trial = state.trial;
	if (update_back_boot_id(boot) < 0 || strcmp(boot, state.trial.began_boot_id) != 0)
		guard.trial.began_ns = guard.began_ns;
	guard_find_socket(&guard);
	watch_begin(&guard);
	// A hand-over starts no service, and so none that a start of the service brings with it.
	service_start_standby(library);
	if (update_back_startable(library, guard.trial.version, why) < 0)
		return give_back(&guard, false, why);
	return watch(&guard);
}

int update_guard(const char *library, const char *directory)
{
	int code = guard_program(library, directory), rules = update_guard_rules(library, directory);

	return code != EXIT_OK ? code : rules;
}

// ---- the command ---------------------------------------------------------------------------------------------------

// LIBRARY, of LIBRARY/versions/VERSION/tracer, which this process runs.
static int own_library(char out[PATH_MAX])
{
	ssize_t got = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	if (got < 0)
		return -errno;
	out[got] = 0;
	for (int level = 0; level < 3; level++) {
		slash = strrchr(out, '/');
		if (!slash || slash == out)
			return -ENOENT;
		*slash = 0;
		if (level == 1 && strcmp(strrchr(out, '/') ? strrchr(out, '/') : "", "/versions") != 0)
			return -ENOENT;
	}
	return 0;
}

int command_update_guard(int argc, char **argv)
{
	struct args args = args_of("update", argc, argv);
	const char *directory = DIRECTORY, *verb;
	char library[PATH_MAX];

	while (args_next(&args))
		if (args_is(&args, "metadata-dir"))
			directory = args.value;
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count > 1)
		return args_usage(&args, "guard: say nothing more, or one of before-start and stopped");
	verb = args.operand_count ? args.operands[0] : "";
	if (*verb && strcmp(verb, "before-start") != 0 && strcmp(verb, "stopped") != 0)
		return args_usage(&args, "guard: \"%s\" is none of before-start and stopped", verb);
	if (strcmp(verb, "stopped") == 0)
		return update_guard_stopped(directory);
	if (own_library(library) < 0) {
		update_back_say("guard: this program is not one of the versions that the installer keeps");
		return EXIT_REFUSED;
	}
	return *verb ? update_guard_before_start(library, directory) : update_guard(library, directory);
}
