// SPDX-License-Identifier: Apache-2.0
// `tracer update`: what is new, verified, and brought here. Two processes: a child that talks to the network and can
// do nothing else, and this one, which loses its way to any network before it looks at the first byte. Nothing is
// installed.
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "cli/update.h"
#include "cli/update_guard.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/landlock.h"
#include "core/privs.h"
#include "core/stream_private.h"
#include "updater/target.h"
#include "version.h"

int update_refuse(int error, const char *why)
{
	char safe[TUF_WHY_SIZE * 2];

	ui_escape(safe, sizeof(safe), why);
	fprintf(stderr, "tracer update: %s\n", safe);
	return error == -EACCES || error == -EPERM ? EXIT_REFUSED : EXIT_NO;
}

// The verifying half: from here on it writes below two directories, and has no way to a network but its child.
static int confine(const struct update *update)
{
	// To install: the file's owner, mode, capabilities and label too.
	const struct privs_keep keep = {.capabilities =
						UINT64_C(1) << CAP_DAC_OVERRIDE |
						(update->apply ? UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_FOWNER |
									 UINT64_C(1) << CAP_SETFCAP
							       : 0)};
	struct landlock cage;
	int result = privs_drop(&keep);

	if (result < 0)
		return result;
	if (landlock_begin(true, &cage) == 0) {
		landlock_allow_path(&cage, update->directory, LANDLOCK_OWN);
		if (update->target_dir)
			landlock_allow_path(&cage, update->target_dir, LANDLOCK_OWN);
		if (update->apply) {
			landlock_allow_path(&cage, update->library, LANDLOCK_INSTALL);
			landlock_allow_path(&cage, update->options.rules_folder, LANDLOCK_INSTALL);
			landlock_allow_path(&cage, "/proc/sys/kernel/random/boot_id", LANDLOCK_FILES);
		}
		landlock_enforce(&cage);
	}
	result = privs_seccomp(PRIVS_UPDATE);
	return result == -ENOSYS || result == -ENOTSUP ? 0 : result;
}

static int open_bundle(struct update *update)
{
	char why[BUNDLE_WHY_SIZE], whole[TUF_WHY_SIZE];
	int result = bundle_open(update->bundle, &update->source.bundle, why);

	return result < 0 ? update_refuse(result, (tuf_fail(whole, 0, "%s: %s", update->bundle, why), whole)) : EXIT_OK;
}

static int start_fetch(struct update *update)
{
	CLEANUP(buf_free) struct buf ca = BUF_INIT;
	struct fetch_options options = {.agent = "tracer/" TRACER_VERSION,
					.ca = &ca,
					.proxy = *update->options.proxy ? update->options.proxy : NULL,
					.sandbox = true};
	char why[FETCH_WHY_SIZE], found[256];
	const char *name;
	int result;

	snprintf(found, sizeof(found), "%s", update->options.ca_file);
	if (!*found)
		stream_ca_find(found);
	result = stream_ca_read(found, &ca, &name);
	if (result < 0) {
		snprintf(why, sizeof(why), "%s: %s", name, strerror(-result));
		return update_refuse(result, why);
	}
	stream_user("tracer", &options.uid, &options.gid);
	result = fetch_start(&options, &update->source.fetch, why);
	if (result < 0)
		return update_refuse(result, why);
	return EXIT_OK;
}

int update_start(struct update *update)
{
	const struct tuf_source source = {update_source_fetch, &update->source};
	char why[TUF_WHY_SIZE];
	int result = update_root_begin(update->directory, why);

	if (result < 0)
		return update_refuse(result, why);
	result = update->bundle ? open_bundle(update) : start_fetch(update);
	if (result != EXIT_OK)
		return result;
	result = confine(update);
	if (result < 0)
		return update_refuse(result, "it cannot give up its rights");
	result = tuf_open(&update->client, update->directory, &source, time(NULL));
	return result < 0 ? update_refuse(result, update->client.why) : EXIT_OK;
}

void update_end(struct update *update)
{
	tuf_close(&update->client);
	fetch_stop(update->source.fetch);
	bundle_close(&update->source.bundle);
}

static void say_versions(const struct update *update)
{
	const struct tuf_metadata *trusted = update->client.trusted;
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);

	if (!update->json) {
		for (int type = 0; type < TUF_TYPES; type++)
			printf("%s%s %llu", type ? ", " : "", tuf_type_names[type],
			       (unsigned long long)trusted[type].version);
		printf("\n");
		return;
	}
	json_open_object(&json);
	for (int type = 0; type < TUF_TYPES; type++)
		json_put_u64(&json, tuf_type_names[type], trusted[type].version);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&text) == 0)
		fwrite(text.data, 1, text.length, stdout);
}

const char *update_custom(const struct tuf_target *target, const char *member)
{
	const char *text = yyjson_get_str(yyjson_obj_get(target->custom, member));

	return text ? text : "";
}

// What is installed, as far as there is an installation; else what runs.
static void find_current(const struct update *update, char out[VERSIONS_NAME_SIZE])
{
	struct versions versions = VERSIONS_INIT;
	char why[VERSIONS_WHY_SIZE];

	snprintf(out, VERSIONS_NAME_SIZE, "%s", TRACER_VERSION);
	if (versions_open(update->library, &versions, why) == 0)
		(void)versions_named(&versions, VERSIONS_CURRENT, out);
	versions_close(&versions);
}

// Rules are for any machine, and older than all without any.
static int describe(const struct update *update, struct update_pick *pick, struct tuf_wanted *wanted)
{
	struct utsname host;

	*wanted = (struct tuf_wanted){.product = pick->rules ? "tracer-rules" : "tracer",
				      .channel = update->options.channel,
				      .architecture = pick->architecture,
				      .version = pick->current,
				      .takes = rollout_takes,
				      .context = &pick->policy};
	if (uname(&host) < 0)
		return -errno;
	snprintf(pick->architecture, sizeof(pick->architecture), "%s", pick->rules ? "any" : host.machine);
	snprintf(pick->current, sizeof(pick->current), "0");
	if (pick->rules) {
		int result = versions_named(&update->rule_versions, VERSIONS_CURRENT, pick->current);

		return result == -ENOENT ? 0 : result;
	}
	// What is to be replaced is never guessed.
	if (update->versions.fd >= 0)
		return versions_named(&update->versions, VERSIONS_CURRENT, pick->current);
	find_current(update, pick->current);
	return 0;
}

int update_choose(struct update *update, struct update_pick *pick)
{
	struct tuf_wanted wanted;
	char why[TUF_WHY_SIZE];
	int result = describe(update, pick, &wanted);

	if (result < 0)
		return update_refuse(result, strerror(-result));
	result = update_state_read(update->directory, &pick->state);
	if (result < 0) {
		tuf_fail(why, result, "%s/" UPDATE_STATE_FILE ": %s; remove it to begin anew", update->directory,
			 result == -EBADMSG ? "damaged" : strerror(-result));
		return update_refuse(result, why);
	}
	pick->path = NULL;
	pick->policy = (struct rollout_policy){.state = &pick->state,
					       .pin = pick->rules ? "" : pick->state.pin,
					       .prefix = pick->rules ? "rules-" : "",
					       .host_id = update->host_id,
					       .canary = update->options.canary,
					       .automatic = update->automatic};
	result = tuf_pick(&update->client, &wanted, &pick->path, &pick->target);
	if (result < 0 && result != -ENOENT)
		return update_refuse(result, update->client.why);
	pick->version = pick->path ? update_custom(&pick->target, "version") : NULL;
	return EXIT_OK;
}

static void check_json(const struct update *update, const struct update_pick *pick)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);

	json_open_object(&json);
	json_put_string(&json, "running", pick->current);
	json_put_string(&json, "channel", update->options.channel);
	json_put_string(&json, "available", pick->version);
	json_put_string(&json, "target", pick->path);
	json_put_known_u64(&json, "length_bytes", pick->path ? pick->target.length : JSON_UNKNOWN);
	json_put_string(&json, "passed_over", pick->policy.passed[0] ? pick->policy.passed : NULL);
	json_put_string(&json, "passed_over_because", pick->policy.passed[0] ? pick->policy.why : NULL);
	json_put_bool(&json, "hold", pick->state.hold);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&text) == 0)
		fwrite(text.data, 1, text.length, stdout);
}

void update_say_nothing_newer(const struct update *update, const struct update_pick *pick)
{
	char safe[2 * ROLLOUT_WHY_SIZE];

	if (!pick->policy.passed[0]) {
		printf("%s is the newest on channel %s\n", pick->current, update->options.channel);
		return;
	}
	ui_escape(safe, sizeof(safe), pick->policy.why);
	printf("%s stays: %s is there, but %s\n", pick->current, pick->policy.passed, safe);
}

static int check(struct update *update)
{
	struct update_pick pick = {.path = NULL};
	char safe[512];
	int code = update_choose(update, &pick);

	if (code != EXIT_OK)
		return code;
	if (update->json) {
		check_json(update, &pick);
		return EXIT_OK;
	}
	if (!pick.path) {
		update_say_nothing_newer(update, &pick);
		return EXIT_OK;
	}
	ui_escape(safe, sizeof(safe), pick.path);
	printf("%s is available: %s, %llu bytes%s\n", pick.version, safe, (unsigned long long)pick.target.length,
	       pick.state.hold ? "; held back by --hold" : "");
	return EXIT_OK;
}

static int download(struct update *update)
{
	CLEANUP(tuf_target_free) struct tuf_target target = {0};
	const char *path = update->target_name;
	char why[TUF_WHY_SIZE], safe[512];
	bool was_there;
	int result;

	if (path) {
		result = tuf_find(&update->client, path, &target);
		if (result < 0)
			return update_refuse(result, update->client.why);
	} else {
		struct update_pick pick = {.path = NULL};
		int code = update_choose(update, &pick);

		if (code != EXIT_OK)
			return code;
		path = pick.path;
		target = pick.target;
		if (!path) {
			update_say_nothing_newer(update, &pick);
			return EXIT_OK;
		}
	}
	result =
		update_target_get(&update->source, &update->client, path, &target, update->target_dir, &was_there, why);
	if (result < 0)
		return update_refuse(result, why);
	ui_escape(safe, sizeof(safe), path);
	printf("%s: %llu bytes, verified%s\n", safe, (unsigned long long)target.length,
	       was_there ? "; it was there already" : "");
	return EXIT_OK;
}

static int init(const struct update *update, const char *file)
{
	CLEANUP(buf_free) struct buf root = BUF_INIT;
	char why[TUF_WHY_SIZE];
	int result;

	if (!file) {
		result = update_root_begin(update->directory, why);
		return result < 0 ? update_refuse(result, why) : EXIT_OK;
	}
	result = fs_read(file, TUF_ROOT_BYTES, &root);
	if (result < 0) {
		tuf_fail(why, result, "%s: %s", file, strerror(-result));
		return update_refuse(result, why);
	}
	result = tuf_init(update->directory, root.data ? root.data : "", root.length, why);
	return result < 0 ? update_refuse(result, why) : EXIT_OK;
}

static void copy_url(char out[FETCH_URL_SIZE], const char *url)
{
	size_t length;

	snprintf(out, FETCH_URL_SIZE, "%s", url);
	length = strlen(out);
	while (length > 0 && out[length - 1] == '/')
		out[--length] = 0;
}

// Without --target-base-url: "targets" beside the metadata.
static void complete_urls(struct update *update)
{
	const char *target_url = update->options.target_base_url;

	copy_url(update->metadata_url, update->source_url);
	copy_url(update->target_url, *target_url ? target_url : update->metadata_url);
	if (!*target_url) {
		char *slash = strrchr(update->target_url, '/');
		size_t at = slash ? (size_t)(slash - update->target_url) : strlen(update->target_url);

		snprintf(update->target_url + at, sizeof(update->target_url) - at, "/targets");
	}
	update->source.metadata_url = update->metadata_url;
	update->source.target_url = update->target_url;
}

static int with_network(struct update *update, bool with_target)
{
	int code = update_start(update), result;

	if (code == EXIT_OK) {
		result = tuf_refresh(&update->client);
		if (result < 0)
			code = update_refuse(result, update->client.why);
		else if (with_target)
			code = download(update);
		else if (update->check)
			code = check(update);
		else
			say_versions(update);
	}
	update_end(update);
	return code;
}

static void take_option(struct update *update, struct args *args)
{
	const struct {
		const char *name, **place;
	} texts[] = {{"metadata-dir", &update->directory},  {"target-dir", &update->target_dir},
		     {"target-name", &update->target_name}, {"bundle", &update->bundle},
		     {"prefix", &update->prefix},	    {"pin", &update->pin}};

	const struct {
		const char *name;
		bool *place;
	} flags[] = {
		{"check", &update->check},	 {"status", &update->status}, {"apply", &update->apply},
		{"rollback", &update->rollback}, {"hold", &update->hold},     {"unhold", &update->unhold},
		{"unpin", &update->unpin},	 {"rules", &update->rules},   {"automatic", &update->automatic},
		{"json", &update->json},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (args_is(args, texts[i].name))
			*texts[i].place = args->value;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		*flags[i].place |= args_is(args, flags[i].name);
}

static int run_verb(struct update *update, struct args *args)
{
	const char *verb = args->operand_count > 0 ? args->operands[0] : NULL;
	const char *operand = args->operand_count > 1 ? args->operands[1] : NULL;
	bool with_target = verb && strcmp(verb, "download") == 0;

	if (verb && strcmp(verb, "init") == 0)
		return init(update, operand);
	if (verb && !with_target && strcmp(verb, "refresh") != 0)
		return args_usage(args, "no such subcommand: %s", verb);
	if (operand && !with_target)
		return args_usage(args, "%s takes no operand", verb);
	if (operand)
		update->target_name = operand;
	update->source_url = *update->options.metadata_url ? update->options.metadata_url : TRACER_UPDATE_URL;
	if (!*update->source_url && !update->bundle && update->automatic)
		return EXIT_OK; // nobody said from where: then there is nothing to keep current
	if (!*update->source_url && !update->bundle)
		return args_usage(args,
				  "where from? Say --metadata-url (metadata_url: in " UPDATE_FILE ") or --bundle");
	if (with_target && !update->target_dir)
		update->target_dir = ".";
	complete_urls(update);
	return update->apply ? update_apply(update) : with_network(update, with_target);
}

static int run(struct update *update, struct args *args, const char *config_file)
{
	bool settings = update->pin || update->unpin || update->hold || update->unhold;
	int code;

	if (update->check + update->status + update->apply + update->rollback + settings + (args->operand_count > 0) !=
		    1 ||
	    args->operand_count > 2)
		return args_usage(args, "say one of init, refresh, download, --check, --apply, --rollback, --pin, "
					"--hold and --status");
	update_library(update);
	// The way back asks for no configuration, and a wrong one hides nothing.
	if (update->status)
		(void)update_options_read(update, args->config, config_file);
	if (update->status)
		return update_status(update, time(NULL));
	if (update->rollback && !update->rules)
		return update_rollback(update);
	if (settings)
		return update_settings(update);
	if (update->bundle && *update->options.metadata_url)
		return args_usage(args, "where from? Say --metadata-url or --bundle, not both");
	code = update_options_read(update, args->config, config_file);
	if (code != EXIT_OK)
		return code;
	if (update->rollback)
		return update_rollback(update);
	update_host_id(update->host_id);
	return run_verb(update, args);
}

int command_update(int argc, char **argv)
{
	struct update update = {.directory = UPDATE_DIRECTORY,
				.client = {.lock_fd = -1},
				.source = {.bundle = {.fd = -1}},
				.versions = VERSIONS_INIT,
				.rule_versions = VERSIONS_INIT};
	struct args args = args_of("update", argc, argv);
	const char *config_file = NULL;
	int code;

	if (argc > 1 && strcmp(argv[1], "guard") == 0)
		return command_update_guard(argc - 1, argv + 1);
	if (update_options_new(&update.options, &args.config) < 0) {
		config_free(args.config);
		fprintf(stderr, "tracer update: out of memory\n");
		return EXIT_REFUSED;
	}
	while (args_next(&args)) {
		take_option(&update, &args);
		if (args_is(&args, "config"))
			config_file = args.value;
	}
	code = args.exit_code >= 0 ? args.exit_code : run(&update, &args, config_file);
	config_free(args.config);
	return code;
}
