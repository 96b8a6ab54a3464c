// SPDX-License-Identifier: Apache-2.0
// `tracer update`: what an administrator sets once, in /etc/tracer/update.yaml, TRACER_UPDATE_* or flags. Read before
// anything else happens; a wrong value stops here, where the old version goes on.
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"

#define AT(member) offsetof(struct update_options, member)

static const struct option_spec specs[] = {
	{"metadata_url", OPTION_STRING, AT(metadata_url), "", 0, 0,
	 "Where the metadata is, such as https://updates.example/metadata; http or https; \"\": what the release says"},
	{"target_base_url", OPTION_STRING, AT(target_base_url), "", 0, 0,
	 "Where targets are; \"\": targets beside the metadata"},
	{"channel", OPTION_STRING, AT(channel), "stable", 0, 0, "Whose versions are for this host"},
	{"ca_file", OPTION_STRING, AT(ca_file), "", 0, 0,
	 "Authorities to trust for https; \"\": the distribution's, else the built-in ones"},
	{"proxy", OPTION_STRING, AT(proxy), "", 0, 0, "Proxy; \"\": as the environment says"},
	{"window", OPTION_STRING, AT(window), "", 0, 0,
	 "When --automatic may install, in local time: 02:00-04:00, or Sat,Sun 22:00-04:00; \"\": always"},
	{"jitter", OPTION_DURATION, AT(jitter_ns), "30m", 0, 86400000000000,
	 "--automatic waits for a part of this first, each host another"},
	{"rules_folder", OPTION_STRING, AT(rules_folder), "/var/lib/tracer/rules", 0, 0,
	 "Where pushed rules are kept (the collector reads current in it); \"\": take none"},
	{"canary", OPTION_BOOL, AT(canary), "false", 0, 0,
	 "This host takes a release before its percentage reaches it"},
	{0},
};

const struct option_table *command_update_options(void)
{
	static const struct option_table tables[] = {{"", specs, NULL}, {0}};

	return tables;
}

int update_options_new(struct update_options *options, struct config **ret_config)
{
	int result = config_new(ret_config);

	return result < 0 ? result : config_add(*ret_config, "", specs, options);
}

// TRACER_UPDATE_CHANNEL is given on as TRACER_CHANNEL: other commands have variables of their own.
static int environment_load(struct config *config, char error[CONFIG_ERROR_SIZE])
{
	static const char prefix[] = "TRACER_UPDATE_";
	int result = 0;

	for (char **at = environ; *at && result == 0; at++) {
		CLEANUP(cleanup_free) char *own = NULL;
		char *one[] = {NULL, NULL};

		if (strncmp(*at, prefix, sizeof(prefix) - 1) != 0 || strncmp(*at, "TRACER_UPDATE_CONFIG=", 21) == 0)
			continue;
		if (asprintf(&own, "TRACER_%s", *at + sizeof(prefix) - 1) < 0) {
			own = NULL;
			return -ENOMEM;
		}
		one[0] = own;
		result = config_load_environment(config, one, error);
	}
	return result;
}

int update_options_read(struct update *update, struct config *config, const char *file)
{
	struct update_options *options = &update->options;
	const char *from_environment = getenv("TRACER_UPDATE_CONFIG");
	const char *path = file ? file : from_environment ? from_environment : UPDATE_FILE;
	char error[CONFIG_ERROR_SIZE] = "";
	int result = config_load_file(config, path, file || from_environment, error);

	if (result == 0)
		result = environment_load(config, error);
	if (result == 0 && rollout_window_parse(options->window, &update->window) < 0) {
		snprintf(error, sizeof(error),
			 "window: \"%.60s\" is none: say 02:00-04:00 or Sat,Sun 22:00-04:00, or \"\" for always",
			 options->window);
		result = -EINVAL;
	}
	if (result < 0) {
		fprintf(stderr, "tracer update: %s\n", error);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

// What tells this host from others for as long as it is installed; a name is better than nothing.
void update_host_id(char out[UPDATE_HOST_ID_SIZE])
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct utsname host;

	out[0] = 0;
	if (fs_read("/etc/machine-id", UPDATE_HOST_ID_SIZE, &text) == 0 && text.data)
		snprintf(out, UPDATE_HOST_ID_SIZE, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	if (!out[0] && uname(&host) == 0)
		snprintf(out, UPDATE_HOST_ID_SIZE, "%s", host.nodename);
}
