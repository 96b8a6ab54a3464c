// SPDX-License-Identifier: Apache-2.0
// `tracer update --apply`: a worker process refreshes, verifies, writes and switches, with no way to a network but its
// child and no right it does not need; this process waits and parses nothing of it. What was switched it sees in the
// pointer, like everybody.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "cli/update.h"
#include "core/base/cleanup.h"
#include "version.h"

enum { TRIAL_S = 600 };

void update_library(struct update *update)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *at = NULL;

	if (!update->prefix && length > 0) {
		program[length] = 0;
		at = strstr(program, "/lib/tracer/versions/");
	}
	if (at)
		snprintf(update->library, sizeof(update->library), "%.*s/lib/tracer", (int)(at - program), program);
	else
		snprintf(update->library, sizeof(update->library), "%s/lib/tracer",
			 update->prefix ? update->prefix : "/usr/local");
}

// ---- in the worker -------------------------------------------------------------------------------------------------

struct candidate {
	const char *path, *version;
	char current[VERSIONS_NAME_SIZE], sha256[UPDATE_SHA256_SIZE], architecture[65];
	struct tuf_target target;
};

static int choose(struct update *update, const struct update_state *state, struct candidate *candidate)
{
	struct utsname host;
	struct tuf_wanted wanted = {.product = "tracer", .channel = update->channel, .version = candidate->current};
	const struct update_bad *bad;
	char why[TUF_WHY_SIZE];
	int result;

	if (uname(&host) < 0)
		return update_refuse(-errno, strerror(errno));
	snprintf(candidate->architecture, sizeof(candidate->architecture), "%s", host.machine);
	wanted.architecture = candidate->architecture;
	result = tuf_pick(&update->client, &wanted, &candidate->path, &candidate->target);
	if (result == -ENOENT) {
		candidate->path = NULL;
		printf("%s is the newest on channel %s\n", candidate->current, update->channel);
		return EXIT_OK;
	}
	if (result < 0)
		return update_refuse(result, update->client.why);
	candidate->version = update_custom(&candidate->target, "version");
	snprintf(candidate->sha256, sizeof(candidate->sha256), "%s",
		 yyjson_get_str(yyjson_obj_get(candidate->target.hashes, "sha256")) ?: "");
	if (versions_name_fine(candidate->version) < 0 || !candidate->sha256[0]) {
		tuf_fail(why, -EBADMSG, "%s: its version is no name of a folder, or it has no sha256", candidate->path);
		return update_refuse(-EBADMSG, why);
	}
	bad = update_state_bad(state, candidate->version, candidate->sha256);
	if (bad) {
		tuf_fail(why, -EPERM, "%s was tried here and is remembered as bad: %s", candidate->version,
			 bad->reason);
		return update_refuse(-ECANCELED, why);
	}
	return EXIT_OK;
}

static int stage(struct update *update, const struct candidate *candidate, char why[VERSIONS_WHY_SIZE])
{
	char reason[TUF_WHY_SIZE], sums[1024];
	int result = versions_preflight(&update->versions, candidate->target.length, why), fd;

	if (result == 0) {
		result = versions_tidy(&update->versions);
		if (result == 0)
			result = versions_stage(&update->versions, candidate->version, &fd);
		if (result < 0)
			snprintf(why, VERSIONS_WHY_SIZE, "%.300s/versions: %s", update->library, strerror(-result));
	}
	if (result < 0)
		return result;
	result = update_target_write(&update->source, &update->client, candidate->path, &candidate->target, fd, reason);
	if (result < 0) {
		versions_stage_drop(&update->versions, candidate->version, fd);
		snprintf(why, VERSIONS_WHY_SIZE, "%s", reason);
		return result;
	}
	snprintf(sums, sizeof(sums), "%s  %s/%s/tracer-%s\n", candidate->sha256, update->channel, candidate->version,
		 candidate->architecture);
	return versions_stage_end(&update->versions, candidate->version, fd, sums, why);
}

// The trial is on record before the pointer moves: whoever starts the new version finds it.
static int switch_to(struct update *update, const struct candidate *candidate, char why[VERSIONS_WHY_SIZE])
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;
	int result = update_state_lock(update->directory, &lock);

	if (result == 0)
		result = update_state_read(update->directory, &state);
	if (result == 0)
		result = update_state_begin_trial(&state, candidate->version, candidate->current, candidate->sha256,
						  TRIAL_S);
	if (result == 0) {
		update_state_set_last(&state, "apply", "on trial", candidate->version, "", time(NULL));
		result = update_state_write(update->directory, &state);
	}
	if (result < 0) {
		snprintf(why, VERSIONS_WHY_SIZE, "%.300s/" UPDATE_STATE_FILE ": %s", update->directory,
			 strerror(-result));
		return result;
	}
	result = versions_point(&update->versions, candidate->version);
	if (result < 0)
		snprintf(why, VERSIONS_WHY_SIZE, "%.300s/" VERSIONS_CURRENT ": %s", update->library, strerror(-result));
	return result;
}

static int install(struct update *update)
{
	struct candidate candidate = {.path = NULL};
	struct update_state state;
	char why[VERSIONS_WHY_SIZE];
	int result = versions_named(&update->versions, VERSIONS_CURRENT, candidate.current), code;

	if (result < 0) {
		snprintf(why, sizeof(why), "%.300s/" VERSIONS_CURRENT ": %s; install the program with install.sh first",
			 update->library, strerror(-result));
		return update_refuse(result, why);
	}
	result = update_state_read(update->directory, &state);
	if (result < 0) {
		snprintf(why, sizeof(why), "%.300s/" UPDATE_STATE_FILE ": %s; remove it to begin anew",
			 update->directory, result == -EBADMSG ? "damaged" : strerror(-result));
		return update_refuse(result, why);
	}
	code = choose(update, &state, &candidate);
	if (code != EXIT_OK || !candidate.path)
		return code;
	result = stage(update, &candidate, why);
	if (result == 0)
		result = switch_to(update, &candidate, why);
	if (result < 0)
		return update_refuse(result, why);
	printf("%s is installed, and %s is the way back\n", candidate.version, candidate.current);
	return EXIT_OK;
}

static int work(struct update *update)
{
	int code = update_start(update), result;

	if (code == EXIT_OK) {
		result = tuf_refresh(&update->client);
		code = result < 0 ? update_refuse(result, update->client.why) : install(update);
	}
	update_end(update);
	return code;
}

// ---- outside -------------------------------------------------------------------------------------------------------

static int open_versions(struct update *update, uint64_t bytes)
{
	const char *who = update_container();
	char why[VERSIONS_WHY_SIZE];
	int result;

	if (who)
		return update_refuse(-EPERM, who);
	result = versions_open(update->library, &update->versions, why);
	if (result == 0)
		result = versions_preflight(&update->versions, bytes, why);
	if (result == 0)
		result = versions_lock(&update->versions, why);
	return result < 0 ? update_refuse(result, why) : EXIT_OK;
}

static int run_worker(struct update *update)
{
	int code, status;
	pid_t worker;

	fflush(stdout);
	worker = fork();
	if (worker == 0) {
		code = work(update);
		fflush(stdout);
		_exit(code);
	}
	if (worker < 0)
		return update_refuse(-errno, strerror(errno));
	if (waitpid(worker, &status, 0) < 0 || !WIFEXITED(status))
		return update_refuse(-EIO, "the verifying process was killed; nothing half-done is used, try again");
	return WEXITSTATUS(status);
}

// The pointer names another version: the collector has still to take it up.
static int switched(struct update *update)
{
	printf("the collector runs it from its next start on\n");
	return EXIT_OK;
}

int update_apply(struct update *update)
{
	char before[VERSIONS_NAME_SIZE] = "", after[VERSIONS_NAME_SIZE] = "";
	int code = open_versions(update, 0);

	if (code == EXIT_OK) {
		(void)versions_named(&update->versions, VERSIONS_CURRENT, before);
		code = run_worker(update);
		(void)versions_named(&update->versions, VERSIONS_CURRENT, after);
	}
	versions_close(&update->versions);
	return code == EXIT_OK && strcmp(before, after) != 0 ? switched(update) : code;
}

static int change_state(struct update *update, int (*change)(struct update *update, struct update_state *state))
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;
	char why[VERSIONS_WHY_SIZE];
	int result = update_state_lock(update->directory, &lock);

	if (result == 0)
		result = update_state_read(update->directory, &state);
	if (result == 0)
		result = change(update, &state);
	if (result == 0)
		result = update_state_write(update->directory, &state);
	if (result == 0)
		return EXIT_OK;
	snprintf(why, sizeof(why), "%.300s/" UPDATE_STATE_FILE ": %s", update->directory,
		 result == -EBADMSG  ? "damaged; remove it to begin anew"
		 : result == -ENOENT ? "`tracer update init ROOT` begins"
				     : strerror(-result));
	return update_refuse(result, why);
}

static int give_up(struct update *update, struct update_state *state)
{
	char current[VERSIONS_NAME_SIZE];
	int result = versions_named(&update->versions, VERSIONS_CURRENT, current);
	bool same = state->trial.on && strcmp(state->trial.version, current) == 0;

	if (result < 0)
		return result;
	if (!update_state_bad(state, current, ""))
		update_state_add_bad(state, current, same ? state->trial.sha256 : "", "rolled back by hand",
				     time(NULL));
	state->trial = (struct update_trial){.on = false};
	update_state_set_last(state, "rollback", "rolled back", current, "by hand", time(NULL));
	return 0;
}

// First remembered as bad, then left: cut off in between, it is not taken again.
int update_rollback(struct update *update)
{
	char previous[VERSIONS_NAME_SIZE], why[VERSIONS_WHY_SIZE];
	int code = open_versions(update, 0), result;

	if (code != EXIT_OK)
		return code;
	result = versions_named(&update->versions, VERSIONS_PREVIOUS, previous);
	if (result == 0)
		result = versions_whole(&update->versions, previous);
	if (result < 0) {
		snprintf(why, sizeof(why), "%.300s has no version to go back to: %s", update->library,
			 strerror(-result));
		code = update_refuse(result, why);
	} else {
		code = change_state(update, give_up);
	}
	if (code == EXIT_OK) {
		result = versions_back(&update->versions, previous);
		if (result < 0) {
			snprintf(why, sizeof(why), "%.300s/" VERSIONS_CURRENT ": %s", update->library,
				 strerror(-result));
			code = update_refuse(result, why);
		} else {
			printf("%s runs again from its next start on\n", previous);
		}
	}
	versions_close(&update->versions);
	return code;
}

static int set(struct update *update, struct update_state *state)
{
	if (update->pin)
		snprintf(state->pin, sizeof(state->pin), "%s", update->pin);
	if (update->unpin)
		state->pin[0] = 0;
	state->hold = (state->hold || update->hold) && !update->unhold;
	return 0;
}

int update_settings(struct update *update)
{
	char why[VERSIONS_WHY_SIZE];
	int order;

	if (update->pin &&
	    (versions_name_fine(update->pin) < 0 || tuf_version_compare(update->pin, update->pin, &order) < 0)) {
		snprintf(why, sizeof(why), "--pin: \"%.100s\" is no version such as 1.2.3", update->pin);
		update_refuse(-EINVAL, why);
		return EXIT_USAGE;
	}
	return change_state(update, set);
}
