// SPDX-License-Identifier: Apache-2.0
// All roles that have targets: targets.json and what is delegated below it, each once, verified by the updater's own
// verifier as it is reached.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bundle.h"
#include "core/base/cleanup.h"

struct walk {
	struct tuf_metadata roles[TUF_DELEGATIONS_MAX];
	char names[TUF_DELEGATIONS_MAX][TUF_NAME_MAX];
	size_t count;
};

static bool is_known(const struct walk *walk, const char *name)
{
	for (size_t i = 0; i < walk->count; i++)
		if (strcmp(walk->names[i], name) == 0)
			return true;
	return false;
}

static int load_below(struct walk *walk, struct tuf_client *client, const struct tuf_metadata *metadata)
{
	yyjson_val *delegations = yyjson_obj_get(metadata->body, "delegations"), *role;
	size_t at, count;

	yyjson_arr_foreach(yyjson_obj_get(delegations, "roles"), at, count, role) {
		const char *name = yyjson_get_str(yyjson_obj_get(role, "name"));
		int result;

		if (is_known(walk, name))
			continue;
		if (walk->count == TUF_DELEGATIONS_MAX)
			return tuf_fail(client->why, -E2BIG, "more than %d delegated roles", TUF_DELEGATIONS_MAX);
		result = tuf_targets_load(client, name, yyjson_obj_get(delegations, "keys"), role,
					  &walk->roles[walk->count]);
		if (result < 0)
			return result;
		snprintf(walk->names[walk->count++], TUF_NAME_MAX, "%s", name);
	}
	return 0;
}

int bundle_each_target(struct tuf_client *client, int (*visit)(void *context, yyjson_val *key, yyjson_val *value),
		       void *context, char why[TUF_WHY_SIZE])
{
	CLEANUP(cleanup_free) struct walk *walk = calloc(1, sizeof(*walk)); // too large for a stack
	const struct tuf_metadata *metadata = &client->trusted[TUF_TARGETS];
	int result = walk ? 0 : tuf_fail(why, -ENOMEM, "out of memory");

	for (size_t next = 0; result == 0; next++) {
		yyjson_val *key, *value;
		size_t at, count;

		result = load_below(walk, client, metadata);
		if (result < 0) {
			memcpy(why, client->why, TUF_WHY_SIZE);
			break;
		}
		yyjson_obj_foreach(yyjson_obj_get(metadata->body, "targets"), at, count, key, value) {
			result = visit(context, key, value);
			if (result < 0)
				break;
		}
		if (next == walk->count)
			break;
		metadata = &walk->roles[next];
	}
	for (size_t i = 0; walk && i < walk->count; i++)
		tuf_metadata_free(&walk->roles[i]);
	return result;
}
