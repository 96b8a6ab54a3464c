// SPDX-License-Identifier: Apache-2.0
// Verifier: finding a target. Targets first, then the roles it delegates to in their order, the first that has the
// path wins; a terminating one that matches ends the search. At most TUF_DELEGATIONS_MAX roles, each once.
#include <errno.h>
#include <fnmatch.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "updater/client.h"

enum { WAITING_MAX = 1024 }; // roles that wait for their turn

struct waiting {
	char name[TUF_NAME_MAX];
	yyjson_val *role, *keys; // in the delegator's document
};

struct search {
	struct tuf_client *client;
	const char *path;
	char digest[crypto_hash_sha256_BYTES * 2 + 1]; // of the path
	struct tuf_metadata visited[TUF_DELEGATIONS_MAX];
	char names[TUF_DELEGATIONS_MAX][TUF_NAME_MAX];
	size_t visited_count, waiting_count;
	struct waiting waiting[WAITING_MAX];
};

static bool any_matches(const struct search *search, yyjson_val *role)
{
	size_t at, count;
	yyjson_val *item;

	yyjson_arr_foreach(yyjson_obj_get(role, "paths"), at, count, item)
		if (fnmatch(yyjson_get_str(item), search->path, FNM_PATHNAME | FNM_NOESCAPE) == 0)
			return true;
	yyjson_arr_foreach(yyjson_obj_get(role, "path_hash_prefixes"), at, count, item)
		if (strncmp(search->digest, yyjson_get_str(item), yyjson_get_len(item)) == 0)
			return true;
	return false;
}

static int wait_add(struct search *search, const char *name, yyjson_val *role, yyjson_val *keys)
{
	struct waiting *waiting = &search->waiting[search->waiting_count];

	if (search->waiting_count == WAITING_MAX)
		return tuf_fail(search->client->why, -E2BIG, "more than %d delegations for %s", WAITING_MAX,
				search->path);
	snprintf(waiting->name, sizeof(waiting->name), "%s", name);
	waiting->role = role;
	waiting->keys = keys;
	search->waiting_count++;
	return 0;
}

// The next to be looked at is the last that waits: the roles of one delegator are added from behind.
static int wait_for_delegated(struct search *search, const struct tuf_metadata *metadata)
{
	yyjson_val *delegations = yyjson_obj_get(metadata->body, "delegations"),
		   *keys = yyjson_obj_get(delegations, "keys"), *roles = yyjson_obj_get(delegations, "roles"), *role;
	size_t at, count, end = yyjson_arr_size(roles);
	int result = 0;

	yyjson_arr_foreach(roles, at, count, role) {
		if (!any_matches(search, role) || !yyjson_get_bool(yyjson_obj_get(role, "terminating")))
			continue;
		search->waiting_count = 0;
		end = at + 1;
		break;
	}
	while (end-- > 0 && result == 0) {
		role = yyjson_arr_get(roles, end);
		if (any_matches(search, role))
			result = wait_add(search, yyjson_get_str(yyjson_obj_get(role, "name")), role, keys);
	}
	return result;
}

static bool was_visited(const struct search *search, const char *name)
{
	for (size_t i = 0; i < search->visited_count; i++)
		if (strcmp(search->names[i], name) == 0)
			return true;
	return false;
}

static yyjson_val *entry(const struct tuf_metadata *metadata, const char *path)
{
	return yyjson_obj_get(yyjson_obj_get(metadata->body, "targets"), path);
}

static int look(struct search *search, struct tuf_metadata *ret_owner)
{
	int result = wait_for_delegated(search, &search->client->trusted[TUF_TARGETS]);

	while (result == 0 && search->waiting_count > 0) {
		const struct waiting next = search->waiting[--search->waiting_count];
		struct tuf_metadata *metadata = &search->visited[search->visited_count];

		if (was_visited(search, next.name))
			continue;
		if (search->visited_count == TUF_DELEGATIONS_MAX)
			break;
		result = tuf_targets_load(search->client, next.name, next.keys, next.role, metadata);
		if (result < 0)
			return result;
		if (entry(metadata, search->path)) {
			*ret_owner = *metadata;
			*metadata = (struct tuf_metadata){0};
			return 0;
		}
		snprintf(search->names[search->visited_count++], TUF_NAME_MAX, "%s", next.name);
		result = wait_for_delegated(search, metadata);
	}
	return result < 0 ? result : tuf_fail(search->client->why, -ENOENT, "%s: no such target", search->path);
}

static int look_delegated(struct tuf_client *client, const char *path, struct tuf_metadata *ret_owner)
{
	CLEANUP(cleanup_free) struct search *search = calloc(1, sizeof(*search)); // too large for a stack
	unsigned char digest[crypto_hash_sha256_BYTES];
	int result;

	if (!search)
		return tuf_fail(client->why, -ENOMEM, "out of memory");
	search->client = client;
	search->path = path;
	crypto_hash_sha256(digest, (const unsigned char *)path, strlen(path));
	sodium_bin2hex(search->digest, sizeof(search->digest), digest, sizeof(digest));
	result = look(search, ret_owner);
	for (size_t i = 0; i < TUF_DELEGATIONS_MAX; i++)
		tuf_metadata_free(&search->visited[i]);
	return result;
}

int tuf_find(struct tuf_client *client, const char *path, struct tuf_target *ret_target)
{
	const struct tuf_metadata *targets = &client->trusted[TUF_TARGETS];
	struct tuf_target target = {0};
	int result;

	if (!targets->doc)
		return tuf_fail(client->why, -ENOENT, "%s: there are no targets yet", path);
	if (!entry(targets, path)) {
		result = look_delegated(client, path, &target.owner);
		if (result < 0)
			return result;
		targets = &target.owner;
	}
	tuf_target_of(entry(targets, path), &target);
	*ret_target = target;
	return 0;
}

void tuf_target_of(yyjson_val *entry_of, struct tuf_target *target)
{
	target->length = yyjson_get_uint(yyjson_obj_get(entry_of, "length"));
	target->hashes = yyjson_obj_get(entry_of, "hashes");
	target->custom = yyjson_obj_get(entry_of, "custom");
}

void tuf_target_free(struct tuf_target *target)
{
	tuf_metadata_free(&target->owner);
	*target = (struct tuf_target){0};
}

int tuf_target_url(const struct tuf_client *client, const struct tuf_target *target, const char *path, char *out,
		   size_t size)
{
	bool consistent = yyjson_get_bool(yyjson_obj_get(client->trusted[TUF_ROOT].body, "consistent_snapshot"));
	yyjson_val *hash = yyjson_obj_get(target->hashes, "sha256");
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	if (!hash)
		hash = yyjson_obj_get(target->hashes, "sha512");
	if (consistent && hash)
		buf_printf(&text, "%.*s%s.%s", (int)(name - path), path, yyjson_get_str(hash), name);
	else
		buf_append_string(&text, path);
	return buf_error(&text) < 0 ? -ENOMEM : tuf_quote(text.data, true, out, size);
}
