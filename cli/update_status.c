// SPDX-License-Identifier: Apache-2.0
// `tracer update --status`, and what `tracer status` says of updates: what is trusted and until when, what is
// installed, on trial, held, pinned and bad. Reads only; a file that cannot be read is shown so and hides no other.
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"

enum { DAY_S = 86400 };

struct expiry {
	bool known;
	uint64_t version;
	int64_t expires_s, left_s;
	char why[TUF_WHY_SIZE]; // not known
};

// The step of 30, 14, 7 and 1 days that is reached; 0: none yet. 1 also for what has expired.
static unsigned announced(int64_t left_s)
{
	static const unsigned steps[] = {1, 7, 14, 30};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (left_s <= (int64_t)steps[i] * DAY_S)
			return steps[i];
	return 0;
}

static void when(char out[32], int64_t time_s)
{
	struct tm parts;
	time_t time = time_s;

	if (!gmtime_r(&time, &parts) || !strftime(out, 32, "%Y-%m-%d %H:%M UTC", &parts))
		snprintf(out, 32, "?");
}

static void read_one(const char *directory, enum tuf_type type, int64_t now_s, struct expiry *expiry)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	struct tuf_metadata metadata = {0};
	char path[PATH_MAX];
	int result;

	*expiry = (struct expiry){.known = false};
	snprintf(path, sizeof(path), "%s/%s.json", directory, tuf_type_names[type]);
	result = fs_read(path, TUF_TARGETS_BYTES, &bytes);
	if (result < 0)
		tuf_fail(expiry->why, result, "%s", strerror(-result));
	else
		result = tuf_metadata_parse(bytes.data ? bytes.data : "", bytes.length, type, &metadata, expiry->why);
	if (result < 0)
		return;
	expiry->known = true;
	expiry->version = metadata.version;
	expiry->expires_s = metadata.expires_s;
	expiry->left_s = metadata.expires_s - now_s;
	tuf_metadata_free(&metadata);
}

static void say_expiry(char *out, size_t size, const struct expiry *expiry)
{
	char date[32];
	int length;

	when(date, expiry->expires_s);
	length = snprintf(out, size, "version %llu, %s %s", (unsigned long long)expiry->version,
			  expiry->left_s > 0 ? "until" : "EXPIRED since", date);
	if (expiry->left_s > 0 && announced(expiry->left_s))
		snprintf(out + length, size - (size_t)length, ": EXPIRES in %lld days",
			 (long long)(expiry->left_s / DAY_S));
}

static void put_expiry(struct json *json, const char *name, const struct expiry *expiry)
{
	if (!expiry->known) {
		json_put_null(json, name);
		return;
	}
	json_key(json, name);
	json_open_object(json);
	json_put_u64(json, "version", expiry->version);
	json_put_i64(json, "expires_unix_s", expiry->expires_s);
	json_put_bool(json, "expired", expiry->left_s <= 0);
	json_put_u64(json, "announced_days", announced(expiry->left_s));
	json_close_object(json);
}

// ---- in `tracer status` --------------------------------------------------------------------------------------------

bool update_notice(const char *directory, int64_t now_s, void (*say)(void *context, const char *name, const char *text),
		   void *context)
{
	struct stat info;
	bool any = false;

	if (stat(directory, &info) < 0)
		return false;
	for (int type = 0; type < TUF_TYPES; type++) {
		struct expiry expiry;
		char text[128];

		read_one(directory, (enum tuf_type)type, now_s, &expiry);
		if (!expiry.known || !announced(expiry.left_s))
			continue;
		say_expiry(text, sizeof(text), &expiry);
		say(context, tuf_type_names[type], text);
		any = true;
	}
	return any;
}

void update_notice_json(const char *directory, int64_t now_s, struct json *json)
{
	struct stat info;

	if (stat(directory, &info) < 0) {
		json_put_null(json, "update");
		return;
	}
	json_key(json, "update");
	json_open_object(json);
	for (int type = 0; type < TUF_TYPES; type++) {
		struct expiry expiry;

		read_one(directory, (enum tuf_type)type, now_s, &expiry);
		put_expiry(json, tuf_type_names[type], &expiry);
	}
	json_close_object(json);
}

// ---- this host -----------------------------------------------------------------------------------------------------

struct host {
	char current[VERSIONS_NAME_SIZE], previous[VERSIONS_NAME_SIZE], rules[VERSIONS_NAME_SIZE]; // "": none
	struct update_state state;
	int error; // of reading the state
};

// The folder of pushed rules is looked at, not made.
static void read_rules(const char *folder, char out[VERSIONS_NAME_SIZE])
{
	struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE];

	if (versions_open(folder, &versions, why) < 0)
		return;
	versions.file = UPDATE_RULES_FILE;
	(void)versions_named(&versions, VERSIONS_CURRENT, out);
	versions_close(&versions);
}

static void read_host(const struct update *update, struct host *host)
{
	struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE];

	*host = (struct host){.error = 0};
	host->error = update_state_read(update->directory, &host->state);
	if (versions_open(update->library, &versions, why) == 0) {
		(void)versions_named(&versions, VERSIONS_CURRENT, host->current);
		(void)versions_named(&versions, VERSIONS_PREVIOUS, host->previous);
	}
	versions_close(&versions);
	read_rules(update->options.rules_folder, host->rules);
}

static bool on_trial(const struct host *host)
{
	return host->state.trial.on && strcmp(host->state.trial.version, host->current) == 0;
}

static bool rules_on_trial(const struct host *host)
{
	return host->state.rules_trial.on && strcmp(host->state.rules_trial.version, host->rules) == 0;
}

static void say_text(const char *name, const char *text)
{
	char safe[2 * UPDATE_REASON_SIZE];

	ui_escape(safe, sizeof(safe), text);
	printf("%-10s %s\n", name, safe);
}

static void say_host(const struct host *host)
{
	const struct update_state *state = &host->state;
	char text[UPDATE_REASON_SIZE + 2 * VERSIONS_NAME_SIZE + 64], date[32];

	if (host->current[0]) {
		snprintf(text, sizeof(text), "%s%s%s%s%s", host->current, on_trial(host) ? ", on trial" : "",
			 host->previous[0] ? "; before it " : "", host->previous,
			 host->previous[0] ? ", which --rollback goes back to" : "");
		say_text("installed", text);
	}
	if (host->rules[0]) {
		snprintf(text, sizeof(text), "%s%s", host->rules, rules_on_trial(host) ? ", on trial" : "");
		say_text("rules", text);
	}
	if (host->error < 0) {
		say_text("state",
			 host->error == -EBADMSG ? "damaged: remove it to begin anew" : strerror(-host->error));
		return;
	}
	if (state->hold)
		say_text("held", "nothing is installed until --unhold");
	if (state->pin[0])
		say_text("pinned", state->pin);
	for (size_t i = 0; i < state->bad_count; i++) {
		when(date, state->bad[i].at_s);
		snprintf(text, sizeof(text), "%s, since %s: %s", state->bad[i].version, date, state->bad[i].reason);
		say_text("bad", text);
	}
	if (state->last.action[0]) {
		when(date, state->last.at_s);
		snprintf(text, sizeof(text), "%s %s, %s: %s%s%s", state->last.action, state->last.version, date,
			 state->last.outcome, state->last.reason[0] ? ", " : "", state->last.reason);
		say_text("last", text);
	}
}

static void put_text(struct json *json, const char *key, const char *text)
{
	json_put_string(json, key, text[0] ? text : NULL);
}

static void put_host(struct json *json, const struct host *host)
{
	const struct update_state *state = &host->state;

	json_key(json, "host");
	json_open_object(json);
	put_text(json, "installed", host->current);
	put_text(json, "previous", host->previous);
	json_put_bool(json, "on_trial", on_trial(host));
	json_put_bool(json, "damaged", host->error < 0);
	put_text(json, "rules", host->rules);
	json_put_bool(json, "rules_on_trial", rules_on_trial(host));
	json_put_bool(json, "hold", state->hold);
	put_text(json, "pin", state->pin);
	json_key(json, "bad");
	json_open_array(json);
	for (size_t i = 0; i < state->bad_count; i++) {
		json_open_object(json);
		put_text(json, "version", state->bad[i].version);
		put_text(json, "reason", state->bad[i].reason);
		json_put_i64(json, "at_unix_s", state->bad[i].at_s);
		json_close_object(json);
	}
	json_close_array(json);
	put_text(json, "last_action", state->last.action);
	put_text(json, "last_version", state->last.version);
	put_text(json, "last_outcome", state->last.outcome);
	put_text(json, "last_reason", state->last.reason);
	json_close_object(json);
}

int update_status(const struct update *update, int64_t now_s)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);
	struct host host;
	int code = EXIT_OK;

	read_host(update, &host);
	json_open_object(&json);
	for (int type = 0; type < TUF_TYPES; type++) {
		const char *name = tuf_type_names[type];
		struct expiry expiry;
		char line[128];

		read_one(update->directory, (enum tuf_type)type, now_s, &expiry);
		put_expiry(&json, name, &expiry);
		if (expiry.known)
			say_expiry(line, sizeof(line), &expiry);
		if (!update->json)
			printf("%-10s %s%s\n", name, expiry.known ? "" : "none: ", expiry.known ? line : expiry.why);
		if (!expiry.known || expiry.left_s <= 0)
			code = EXIT_NO;
	}
	put_host(&json, &host);
	json_close_object(&json);
	json_end_line(&json);
	if (!update->json)
		say_host(&host);
	else if (buf_error(&text) == 0)
		fwrite(text.data, 1, text.length, stdout);
	return code;
}
