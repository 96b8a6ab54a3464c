// SPDX-License-Identifier: Apache-2.0
// `tracer update`: rules that come as targets. The same verifier, rollout and way back as the program's; what is their
// own is that they are read before they count, and that a running collector takes them up by reading again.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/rules.h"
#include "core/status.h"

int update_rules_open(struct update *update, char why[VERSIONS_WHY_SIZE])
{
	int result = versions_open_data(update->options.rules_folder, UPDATE_RULES_FILE, &update->rule_versions, why);

	return result < 0 ? result : versions_lock(&update->rule_versions, why);
}

int update_rules_check(const struct versions *versions, const char *version, char why[VERSIONS_WHY_SIZE])
{
	CLEANUP(buf_free) struct buf problems = BUF_INIT;
	struct rules *rules = NULL;
	char path[PATH_MAX];
	int result = versions_stage_path(versions, version, path);

	if (result == 0)
		result = rules_load_pushed(NULL, path, &rules, &problems);
	rules_free(rules);
	if (result == 0 && problems.length > 0)
		result = -EINVAL;
	if (result < 0)
		snprintf(why, VERSIONS_WHY_SIZE, "rules %s: %.*s", version,
			 problems.data ? (int)strcspn(problems.data, "\n") : 0, problems.data ? problems.data : "");
	return result;
}

void update_rules_reload(void)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	yyjson_doc *document;
	uint64_t pid;

	if (status_fetch(STATUS_SOCKET, UINT64_C(5000000000), &text) < 0) {
		printf("no collector runs; its next start reads them\n");
		return;
	}
	document = yyjson_read(text.data, text.length, 0);
	pid = yyjson_get_uint(yyjson_obj_get(yyjson_doc_get_root(document), "pid"));
	yyjson_doc_free(document);
	if (pid > 1 && pid < INT32_MAX && kill((pid_t)pid, SIGHUP) == 0)
		printf("the collector (pid %llu) reads them now\n", (unsigned long long)pid);
	else
		printf("the collector was not told: send it SIGHUP\n");
}
