// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer update`.
#pragma once

#include "core/base/json.h"
#include "core/config.h"
#include "updater/client.h"
#include "updater/bundle.h"
#include "updater/fetch.h"
#include "updater/rollout.h"
#include "updater/state.h"
#include "updater/target.h"
#include "updater/versions.h"

// Where bytes come from: a server or a bundle. name: as in a URL, from metadata/ or targets/ on.
struct update_source {
	struct fetch *fetch; // NULL: from the bundle
	const char *metadata_url, *target_url; // without a slash at the end
	struct bundle bundle;
};

// As fetch_get(): -ENOENT not there, -EFBIG longer than max.
int update_source_get(struct update_source *source, const char *name, uint64_t max,
		      int (*take)(void *context, const void *data, size_t length), void *context,
		      char why[TUF_WHY_SIZE]);
// The same for the verifier: context is a struct update_source.
int update_source_fetch(void *context, const char *name, uint64_t max, struct buf *out, char why[TUF_WHY_SIZE]);

// Trusts the root that the binary carries where the directory has none. -ENOENT: there is none either.
int update_root_begin(const char *directory, char why[TUF_WHY_SIZE]);

// Puts the target into directory as a file of its (quoted) name: nothing when the file is there already, else bytes
// from the source, held against the metadata as they come and renamed into place only when all of them are right. 0 or
// -errno, with why.
int update_target_get(struct update_source *source, const struct tuf_client *client, const char *path,
		      const struct tuf_target *target, const char *directory, bool *ret_was_there,
		      char why[TUF_WHY_SIZE]);

// The same, written to fd and not flushed.
int update_target_write(struct update_source *source, const struct tuf_client *client, const char *path,
			const struct tuf_target *target, int fd, char why[TUF_WHY_SIZE]);

#define UPDATE_FILE "/etc/tracer/update.yaml"

enum { UPDATE_HOST_ID_SIZE = 80 };

struct update_options {
	char *metadata_url, *target_base_url, *channel, *ca_file, *proxy, *window, *rules_folder;
	uint64_t jitter_ns;
	bool canary;
};

// One run of `tracer update`.
struct update {
	struct update_options options;
	struct rollout_window window;
	const char *source_url; // said, or the release's own; "": none
	const char *directory, *target_dir, *target_name, *bundle, *prefix, *pin;
	bool json, check, status, apply, automatic, rollback, hold, unhold, unpin, rules;
	char target_url[FETCH_URL_SIZE], metadata_url[FETCH_URL_SIZE]; // without a slash at the end
	char library[PATH_MAX]; // where versions are
	char host_id[UPDATE_HOST_ID_SIZE];
	struct update_source source;
	struct tuf_client client;
	struct versions versions, rule_versions; // with --apply and --rollback
};

// Declares the options; free the config in any case.
int update_options_new(struct update_options *options, struct config **ret_config);
// Reads file (or TRACER_UPDATE_CONFIG, or the default one) and TRACER_UPDATE_*. An exit code, the reason printed.
int update_options_read(struct update *update, struct config *config, const char *file);
void update_host_id(char out[UPDATE_HOST_ID_SIZE]);

// What of the targets is for this host.
struct update_pick {
	bool rules; // pushed rules; else the program
	const char *path; // NULL: nothing
	const char *version;
	char current[VERSIONS_NAME_SIZE]; // what is installed, or else runs
	char architecture[65];
	struct tuf_target target;
	struct update_state state;
	struct rollout_policy policy; // has what was passed over
};

// After a refresh. An exit code, the reason printed.
int update_choose(struct update *update, struct update_pick *pick);
void update_say_nothing_newer(const struct update *update, const struct update_pick *pick);

// Says why, made harmless; returns an exit code.
int update_refuse(int error, const char *why);

// The child with the network or the bundle, then this process without rights, then the trusted root. An exit code.
int update_start(struct update *update);
void update_end(struct update *update);

const char *update_custom(const struct tuf_target *target, const char *member); // "": it does not say

// The folder of versions, of --prefix, else of the program that runs, else /usr/local.
void update_library(struct update *update);

#define UPDATE_RULES_FILE "rules.yaml"

// cli/update_rules.c: opens the folder of pushed rules, and locks it.
int update_rules_open(struct update *update, char why[VERSIONS_WHY_SIZE]);
// What was staged as a version is read as the collector will. -EINVAL: the rules are bad.
int update_rules_check(const struct versions *versions, const char *version, char why[VERSIONS_WHY_SIZE]);
// Tells the collector, if one runs, to read its rules again.
void update_rules_reload(void);

// --apply, --rollback, and --pin, --unpin, --hold, --unhold.
int update_apply(struct update *update);
int update_rollback(struct update *update);
int update_settings(struct update *update);

// Who updates this container, as a sentence; NULL: this is none.
const char *update_container(void);

// What the directory holds and when it expires, for people or as JSON. Returns an exit code.
int update_status(const struct update *update, int64_t now_s);

#define UPDATE_DIRECTORY "/var/lib/tracer/update"

// For `tracer status`: what of the trusted metadata expires within 30 days, or has. false: nothing, or no updates here.
bool update_notice(const char *directory, int64_t now_s, void (*say)(void *context, const char *name, const char *text),
		   void *context);
void update_notice_json(const char *directory, int64_t now_s, struct json *json); // a member "update"
