// SPDX-License-Identifier: Apache-2.0
// The guard of pushed rules on trial: has the running collector read them, watches that it takes them and goes on as
// before, and brings the rules before back. The program is no part of the trial, so any version of it may be the guard.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/update.h"
#include "cli/update_back.h"
#include "cli/update_guard.h"
#include "cli/update_guard_look.h"
#include "cli/update_service.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"

enum {
	BACK_S = 12, // for the collector to read the rules before again, or for the manager to start it
	BACK_TRIES = 3,
};

static bool still_on(const struct guard *guard, const struct update_trial *trial, struct update_state *state)
{
	char current[VERSIONS_NAME_SIZE] = "";

	return update_state_read(guard->directory, state) == 0 && state->rules_trial.on &&
	       strcmp(state->rules_trial.version, trial->version) == 0 &&
	       update_back_rules_current(state, current) == 0 && strcmp(current, trial->version) == 0;
}

// outcome NULL: it was never switched, or somebody went back, who said so.
static int end(const struct guard *guard, const char *outcome, const char *why)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;
	char name[VERSIONS_NAME_SIZE + 8];
	int result = update_state_lock(guard->directory, &lock);

	if (result == 0)
		result = update_state_read(guard->directory, &state);
	if (result == 0 && state.rules_trial.on) {
		snprintf(name, sizeof(name), "rules-%s", state.rules_trial.version);
		if (outcome)
			update_state_set_last(&state, "apply", outcome, name, why, time(NULL));
		state.rules_trial = (struct update_trial){0};
		result = update_state_write(guard->directory, &state);
	}
	if (result == 0)
		return EXIT_OK;
	update_back_say("%s: %s", guard->directory, strerror(-result));
	return EXIT_NO;
}

// From now on an end of the collector is one that counts.
static void count_running(const struct guard *guard, const struct update_trial *trial)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;

	if (update_state_lock(guard->directory, &lock) < 0 || !still_on(guard, trial, &state) ||
	    state.rules_trial.starts > 0)
		return;
	state.rules_trial.starts = 1;
	update_state_write(guard->directory, &state);
}

// With a collector that answers. What it said before it had them is the measure, if that was kept.
static void begin(struct guard *guard, const struct update_trial *trial)
{
	struct trial_sample before;

	if (!guard_remembered(guard->directory, &before) || strcmp(before.version, guard->sample.version) != 0)
		before = guard->sample;
	before.rules_read = guard->sample.rules_read;
	before.rules_failed = guard->sample.rules_failed;
	before.rules_failed_own = guard->sample.rules_failed_own;
	snprintf(guard->trial.version, sizeof(guard->trial.version), "%s", guard->sample.version);
	trial_rules_begin(&guard->watch, trial, &before, clock_boot_ns());
	trial_watch_add(&guard->watch, &guard->sample, clock_boot_ns());
	count_running(guard, trial);
	kill((pid_t)guard->sample.pid, SIGHUP);
	update_back_say("the collector reads rules %s, which are on trial for %llu s", trial->version,
			(unsigned long long)trial->deadline_s);
}

// The rules before are in use again, and the collector is as it was.
static bool back(struct guard *guard)
{
	uint64_t pid = guard->watch.latest.pid, read = guard->watch.latest.rules_read;

	guard_ask(guard);
	if (guard->answered)
		kill((pid_t)guard->sample.pid, SIGHUP);
	for (int tries = 0; tries < BACK_TRIES; tries++) {
		uint64_t until_ns = clock_boot_ns() + BACK_S * S;

		while (clock_boot_ns() < until_ns) {
			guard_pause_s(1);
			guard_ask(guard); // of one that hangs it takes a while
			trial_watch_add(&guard->watch, guard->answered ? &guard->sample : NULL, clock_boot_ns());
			if (guard->answered && guard->watch.memory_ns == 0 &&
			    (guard->sample.pid != pid || guard->sample.rules_read != read))
				return true;
		}
		if (service_is_stopped(guard->library))
			return true;
		update_back_say("the service is started anew, with the rules before");
		service_restart(guard->library);
	}
	return false;
}

static int give_back(struct guard *guard, const struct update_trial *trial, const char *why)
{
	struct update_state state;
	int result = 0;

	{
		CLEANUP(cleanup_close) int lock = -1;

		if (update_state_lock(guard->directory, &lock) < 0)
			return EXIT_NO;
		if (still_on(guard, trial, &state))
			result = update_back_roll_rules(guard->directory, &state, why);
	}
	if (result == 0)
		update_back_say(back(guard) ? "the rules before are in use again"
					    : "the collector does not answer; see what the service says");
	return EXIT_NO;
}

// One second of it. *ret_begun false: the collector is another one, and is to be told first.
static enum trial_verdict look(struct guard *guard, bool *ret_begun, bool *ret_unread, char why[UPDATE_REASON_SIZE])
{
	bool ended;

	guard_ask(guard);
	ended = *ret_begun && guard_ended(guard);
	*ret_unread = false;
	guard->stopped = !guard->answered && guard_silence_is_meant(guard, ended);
	if (guard->stopped)
		return TRIAL_GOING;
	if (ended && !update_back_stop_was_asked(guard->directory)) {
		snprintf(why, UPDATE_REASON_SIZE, "the collector ended after %llu s",
			 (unsigned long long)((clock_boot_ns() - guard->watch.first_ns) / S));
		return TRIAL_FAILED;
	}
	if (ended || (guard->answered && strcmp(guard->sample.version, guard->trial.version) != 0))
		*ret_begun = false;
	if (!*ret_begun)
		return TRIAL_GOING;
	trial_watch_add(&guard->watch, guard->answered ? &guard->sample : NULL, clock_boot_ns());
	return trial_judge_rules(&guard->watch, clock_boot_ns(), ret_unread, why);
}

static int watch(struct guard *guard, const struct update_trial *trial)
{
	char why[UPDATE_REASON_SIZE] = "its service did that";
	enum trial_verdict verdict = TRIAL_GOING;
	bool begun = false, unread = false;
	struct update_state state = {.hold = false};
	uint64_t silent_ns = clock_boot_ns();

	while (verdict == TRIAL_GOING && still_on(guard, trial, &state)) {
		verdict = look(guard, &begun, &unread, why);
		if (guard->stopped) {
			update_back_say("no service runs: the trial of rules %s begins when it is started",
					trial->version);
			return EXIT_OK;
		}
		if (verdict == TRIAL_GOING && !begun && guard->answered) {
			begin(guard, trial);
			begun = true;
		} else if (begun) {
			silent_ns = clock_boot_ns();
		} else if (clock_boot_ns() - silent_ns > TRIAL_SILENT_S * S) {
			verdict = TRIAL_FAILED;
			snprintf(why, sizeof(why), "the collector never answered");
		}
		if (verdict == TRIAL_GOING)
			guard_pause_s(1);
	}
	if (verdict == TRIAL_HELD) {
		update_back_say(unread ? "rules %s are not read: the host's own files are bad" : "rules %s have held",
				trial->version);
		return end(guard, unread ? "installed" : "held",
			   unread ? "not read: the host's own files are bad" : "");
	}
	if (verdict == TRIAL_GOING && strcmp(state.last.outcome, "rolled back") != 0)
		return EXIT_OK; // ended by hand
	return give_back(guard, trial, why);
}

int update_guard_rules(const char *library, const char *directory)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct guard guard = {.library = library, .directory = directory};
	struct update_trial trial;
	struct update_state state;

	if (update_state_read(directory, &state) < 0 || !state.rules_trial.on)
		return EXIT_OK;
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	lock = guard_lock(directory);
	if (lock < 0) {
		update_back_say("%s: %s", directory, strerror(-lock));
		return EXIT_REFUSED;
	}
	if (update_state_read(directory, &state) < 0 || !state.rules_trial.on)
		return EXIT_OK;
	trial = state.rules_trial;
	if (!still_on(&guard, &trial, &state))
		return end(&guard, NULL, "");
	guard_find_socket(&guard);
	guard_ask(&guard);
	if (!guard.answered && service_is_stopped(library))
		update_rules_reload(); // one that is not of this installation may run
	if (!guard.answered && service_manager_of(library) == SERVICE_NONE)
		return end(&guard, "installed", "no service to watch");
	service_start_standby(library);
	return watch(&guard, &trial);
}
