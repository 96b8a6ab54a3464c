// SPDX-License-Identifier: Apache-2.0
// `tracer update --apply`: a worker process refreshes, verifies, writes and switches, with no way to a network but its
// child and no right it does not need; this process waits and parses nothing of it. What was switched it sees in the
// pointer, like everybody.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "cli/update.h"
#include "cli/update_guard.h"
#include "core/base/cleanup.h"
#include "updater/trial.h"

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

static const char *sha256_of(const struct update_pick *pick)
{
	const char *text = yyjson_get_str(yyjson_obj_get(pick->target.hashes, "sha256"));

	return text && strlen(text) < UPDATE_SHA256_SIZE ? text : "";
}

static struct versions *versions_of(struct update *update, const struct update_pick *pick)
{
	return pick->rules ? &update->rule_versions : &update->versions;
}

static int fill(struct update *update, const struct update_pick *pick, int fd, char why[VERSIONS_WHY_SIZE])
{
	char reason[TUF_WHY_SIZE];
	int result = update_target_write(&update->source, &update->client, pick->path, &pick->target, fd, reason);

	if (result < 0)
		snprintf(why, VERSIONS_WHY_SIZE, "%.100s, into %.120s/versions: %.250s", pick->path,
			 versions_of(update, pick)->path, reason);
	else if (pick->rules)
		result = update_rules_check(&update->rule_versions, pick->version, why);
	return result;
}

static int stage(struct update *update, const struct update_pick *pick, char why[VERSIONS_WHY_SIZE])
{
	struct versions *versions = versions_of(update, pick);
	int result = versions_preflight(versions, pick->target.length, why), fd;
	char sums[1024];

	if (result == 0) {
		result = versions_tidy(versions);
		if (result == 0)
			result = versions_stage(versions, pick->version, &fd);
		if (result < 0)
			snprintf(why, VERSIONS_WHY_SIZE, "%.300s/versions: %s", versions->path, strerror(-result));
	}
	if (result < 0)
		return result;
	result = fill(update, pick, fd, why);
	if (result < 0) {
		versions_stage_drop(versions, pick->version, fd);
		return result;
	}
	snprintf(sums, sizeof(sums), "%s  %s/%s/tracer-%s\n", sha256_of(pick), update->options.channel, pick->version,
		 pick->rules ? "rules" : pick->architecture);
	return versions_stage_end(versions, pick->version, fd, sums, why);
}

static int note(struct update *update, const struct update_pick *pick, struct update_state *state)
{
	char name[VERSIONS_NAME_SIZE];
	int result = 0;

	snprintf(name, sizeof(name), "%s%s", pick->policy.prefix, pick->version);
	if (pick->rules && (size_t)snprintf(state->rules_folder, sizeof(state->rules_folder), "%s",
					    update->rule_versions.path) >= sizeof(state->rules_folder))
		result = -ENAMETOOLONG;
	if (result == 0)
		result = update_trial_begin(pick->rules ? &state->rules_trial : &state->trial, pick->version,
					    pick->current, sha256_of(pick),
					    pick->rules ? TRIAL_RULES_S : TRIAL_PERIOD_S);
	update_state_set_last(state, "apply", "on trial", name, "", time(NULL));
	return result < 0 ? result : update_state_write(update->directory, state);
}

// The trial is on record before the pointer moves: whoever starts the new version finds it.
static int switch_to(struct update *update, const struct update_pick *pick, char why[VERSIONS_WHY_SIZE])
{
	CLEANUP(cleanup_close) int lock = -1;
	struct versions *versions = versions_of(update, pick);
	struct update_state state;
	int result = update_state_lock(update->directory, &lock);

	if (result == 0)
		result = update_state_read(update->directory, &state);
	if (result == 0)
		result = note(update, pick, &state);
	if (result < 0) {
		snprintf(why, VERSIONS_WHY_SIZE, "%.300s/" UPDATE_STATE_FILE ": %s", update->directory,
			 strerror(-result));
		return result;
	}
	result = versions_point(versions, pick->version);
	if (result < 0)
		snprintf(why, VERSIONS_WHY_SIZE, "%.300s/" VERSIONS_CURRENT ": %s", versions->path, strerror(-result));
	return result;
}

// Rules that cannot be read are not fetched again and again.
static void remember_bad(struct update *update, const struct update_pick *pick, const char *why)
{
	CLEANUP(cleanup_close) int lock = -1;
	struct update_state state;
	char name[VERSIONS_NAME_SIZE];

	snprintf(name, sizeof(name), "%s%s", pick->policy.prefix, pick->version);
	if (update_state_lock(update->directory, &lock) < 0 || update_state_read(update->directory, &state) < 0)
		return;
	update_state_add_bad(&state, name, sha256_of(pick), why, time(NULL));
	update_state_set_last(&state, "apply", "refused", name, why, time(NULL));
	(void)update_state_write(update->directory, &state);
}

// One trial at a time: else nobody could say which of the two a fault is of. NULL: none is on.
static const struct update_trial *on_trial(const struct update_pick *pick)
{
	const struct update_trial *own = pick->rules ? &pick->state.rules_trial : &pick->state.trial;
	const struct update_trial *other = pick->rules ? &pick->state.trial : &pick->state.rules_trial;

	if (own->on && strcmp(own->version, pick->current) == 0)
		return own;
	return other->on && other->starts > 0 ? other : NULL;
}

// What stands in the way whatever there is to install. EXIT_OK: nothing.
static int may_install(const struct update_pick *pick)
{
	const struct update_trial *trial = on_trial(pick);
	bool rules = trial == &pick->state.rules_trial;
	char why[VERSIONS_WHY_SIZE];

	if (pick->state.hold) {
		snprintf(why, sizeof(why), "%s is held by --hold; --unhold ends that", pick->current);
		return update_refuse(-ECANCELED, why);
	}
	if (trial) {
		snprintf(why, sizeof(why), "%s%s is on trial still; wait for its end, or say --rollback%s",
			 rules ? "rules-" : "", trial->version, rules ? " --rules" : "");
		return update_refuse(-EBUSY, why);
	}
	if (versions_name_fine(pick->version) < 0 || !*sha256_of(pick) ||
	    strlen(pick->version) + strlen(pick->policy.prefix) >= VERSIONS_NAME_SIZE) {
		snprintf(why, sizeof(why), "%.100s: its version is no name of a folder, or it has no sha256",
			 pick->path);
		return update_refuse(-EBADMSG, why);
	}
	return EXIT_OK;
}

static int install(struct update *update, bool rules)
{
	struct update_pick pick = {.rules = rules};
	char why[VERSIONS_WHY_SIZE];
	int code = update_choose(update, &pick), result;

	if (code != EXIT_OK)
		return code;
	if (!pick.path) {
		if (!update->automatic && (!rules || update->rules))
			update_say_nothing_newer(update, &pick);
		return EXIT_OK;
	}
	if (update->automatic && (pick.state.hold || on_trial(&pick) != NULL))
		return EXIT_OK; // the next run of the timer asks again
	code = may_install(&pick);
	if (code != EXIT_OK)
		return code;
	result = stage(update, &pick, why);
	if (result == -EINVAL && rules)
		remember_bad(update, &pick, why);
	if (result == 0)
		result = switch_to(update, &pick, why);
	if (result < 0)
		return update_refuse(result, why);
	if (rules)
		printf("rules %s are installed\n", pick.version);
	else
		printf("%s is installed, and %s is the way back\n", pick.version, pick.current);
	return EXIT_OK;
}

// What both pointers name, for a look before and after; "" for what is not open or names nothing.
struct pointers {
	char program[VERSIONS_NAME_SIZE], rules[VERSIONS_NAME_SIZE];
};

static struct pointers look(const struct update *update)
{
	struct pointers pointers = {.program = ""};

	if (update->versions.fd >= 0)
		(void)versions_named(&update->versions, VERSIONS_CURRENT, pointers.program);
	if (update->rule_versions.fd >= 0)
		(void)versions_named(&update->rule_versions, VERSIONS_CURRENT, pointers.rules);
	return pointers;
}

// What is wrong with one is no reason against the other; but only one at a time is on trial.
static int work(struct update *update)
{
	struct pointers before = look(update), after;
	int code = update_start(update), result, other = EXIT_OK;

	if (code == EXIT_OK) {
		result = tuf_refresh(&update->client);
		if (result < 0)
			code = update_refuse(result, update->client.why);
	}
	if (code == EXIT_OK && *update->options.rules_folder)
		other = install(update, true);
	after = look(update);
	if (code == EXIT_OK && !update->rules && strcmp(before.rules, after.rules) == 0)
		code = install(update, false);
	update_end(update);
	return code != EXIT_OK ? code : other;
}

// ---- outside -------------------------------------------------------------------------------------------------------

static int open_program(struct update *update, char why[VERSIONS_WHY_SIZE])
{
	char installed[VERSIONS_NAME_SIZE];
	int result = versions_open(update->library, &update->versions, why);

	if (result == 0)
		result = versions_preflight(&update->versions, 0, why);
	if (result == 0)
		result = versions_lock(&update->versions, why);
	if (result < 0)
		return result;
	result = versions_named(&update->versions, VERSIONS_CURRENT, installed);
	if (result < 0)
		snprintf(why, VERSIONS_WHY_SIZE,
			 "%.300s/" VERSIONS_CURRENT ": %s; install the program with install.sh first", update->library,
			 strerror(-result));
	return result;
}

static int open_versions(struct update *update)
{
	const char *who = update_container();
	char why[VERSIONS_WHY_SIZE];
	int result = 0;

	if (who)
		return update_refuse(-EPERM, who);
	if (update->rules && !*update->options.rules_folder)
		return update_refuse(-EINVAL, "rules_folder is \"\": pushed rules are not taken here");
	if (!update->rules)
		result = open_program(update, why);
	if (result == 0 && (update->rules || (update->apply && *update->options.rules_folder)))
		result = update_rules_open(update, why);
	return result < 0 ? update_refuse(result, why) : EXIT_OK;
}

static void close_versions(struct update *update)
{
	versions_close(&update->versions);
	versions_close(&update->rule_versions);
}

static int run_worker(struct update *update)
{
	pid_t parent = getpid(), worker;
	int code, status;

	fflush(stdout);
	worker = fork();
	if (worker == 0) {
		// Nobody would watch over what it switches to.
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_NO);
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

static bool in_window(const struct update *update)
{
	time_t now = time(NULL);
	struct tm local;

	return localtime_r(&now, &local) && rollout_window_open(&update->window, &local);
}

// *ret_rules: new rules came, and the program was not looked at.
static int apply_once(struct update *update, bool *ret_rules)
{
	struct pointers before, after;
	int code = open_versions(update), guarded = EXIT_OK;

	*ret_rules = false;
	if (code != EXIT_OK) {
		close_versions(update);
		return code;
	}
	before = look(update);
	update_guard_remember(update->directory);
	code = run_worker(update);
	after = look(update);
	close_versions(update);
	*ret_rules = strcmp(before.rules, after.rules) != 0;
	// Whatever else went wrong: what was switched to is on trial.
	if (*ret_rules)
		guarded = update_guard_rules(update->library, update->directory);
	else if (strcmp(before.program, after.program) != 0)
		guarded = update_guard(update->library, update->directory);
	return code != EXIT_OK ? code : guarded;
}

int update_apply(struct update *update)
{
	bool rules, again;
	int code, other;

	if (update->automatic) {
		if (!in_window(update))
			return EXIT_OK;
		sleep((unsigned)rollout_jitter_s(update->host_id, update->options.jitter_ns / 1000000000));
		if (!in_window(update))
			return EXIT_OK;
	}
	code = apply_once(update, &rules);
	if (!rules || update->rules)
		return code;
	other = apply_once(update, &again);
	return code != EXIT_OK ? code : other;
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
	const struct versions *versions = update->rules ? &update->rule_versions : &update->versions;
	char current[VERSIONS_NAME_SIZE], name[VERSIONS_NAME_SIZE + 8];
	int result = versions_named(versions, VERSIONS_CURRENT, current);
	const struct update_trial *trial = update->rules ? &state->rules_trial : &state->trial;
	bool same = trial->on && strcmp(trial->version, current) == 0;

	if (result < 0)
		return result;
	snprintf(name, sizeof(name), "%s%s", update->rules ? "rules-" : "", current);
	if (!update_state_bad(state, name, ""))
		update_state_add_bad(state, name, same ? trial->sha256 : "", "rolled back by hand", time(NULL));
	if (update->rules)
		state->rules_trial = (struct update_trial){.on = false};
	else
		state->trial = (struct update_trial){.on = false};
	update_state_set_last(state, "rollback", "rolled back", name, "by hand", time(NULL));
	return 0;
}

// Rules may go back to none; the program goes to a version that is whole.
static int may_go_back(const struct update *update)
{
	const struct versions *versions = update->rules ? &update->rule_versions : &update->versions;
	char name[VERSIONS_NAME_SIZE], why[VERSIONS_WHY_SIZE];
	int result = versions_named(versions, VERSIONS_PREVIOUS, name);

	if (result == 0)
		result = versions_whole(versions, name);
	else if (result == -ENOENT && update->rules)
		result = versions_named(versions, VERSIONS_CURRENT, name);
	if (result == 0)
		return EXIT_OK;
	snprintf(why, sizeof(why), "%.300s has no version to go back to: %s", versions->path, strerror(-result));
	return update_refuse(result, why);
}

static int go_back(struct update *update)
{
	struct versions *versions = update->rules ? &update->rule_versions : &update->versions;
	char previous[VERSIONS_NAME_SIZE], why[VERSIONS_WHY_SIZE];
	int code = may_go_back(update), result;

	// First remembered as bad, then left: cut off in between, it is not taken again.
	if (code == EXIT_OK)
		code = change_state(update, give_up);
	if (code != EXIT_OK)
		return code;
	result = versions_back(versions, previous);
	if (result < 0) {
		snprintf(why, sizeof(why), "%.300s/" VERSIONS_CURRENT ": %s", versions->path, strerror(-result));
		return update_refuse(result, why);
	}
	if (update->rules)
		printf("pushed rules: %s\n", previous[0] ? previous : "none");
	return EXIT_OK;
}

int update_rollback(struct update *update)
{
	char current[VERSIONS_NAME_SIZE] = "";
	int code = open_versions(update);

	if (code == EXIT_OK)
		code = go_back(update);
	if (code == EXIT_OK && !update->rules)
		(void)versions_named(&update->versions, VERSIONS_CURRENT, current);
	close_versions(update);
	if (code != EXIT_OK)
		return code;
	if (!update->rules)
		return update_guard_take_up(update->library, current);
	update_rules_reload();
	return EXIT_OK;
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
