// SPDX-License-Identifier: Apache-2.0
// A repository and a host that trusts it, for the tests of the updater.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/fs.h"
#include "update_repository.h"
#include "updater/target.h"

struct world {
	struct repo *repo;
	char directory[64];
	char why[TUF_WHY_SIZE];
	int64_t now_s;
};

static inline struct tuf_source world_source(struct world *world)
{
	return (struct tuf_source){repo_fetch, world->repo};
}

// One run of an update, as the command does it.
static inline int world_update(struct world *world)
{
	const struct tuf_source source = world_source(world);
	struct tuf_client client;
	int result = tuf_open(&client, world->directory, &source, world->now_s);

	world->repo->asked = 0;
	if (result == 0)
		result = tuf_refresh(&client);
	memcpy(world->why, client.why, sizeof(world->why));
	tuf_close(&client);
	return result;
}

// The same, then the search for a target. Its length through ret_length.
static inline int world_find(struct world *world, const char *path, uint64_t *ret_length)
{
	const struct tuf_source source = world_source(world);
	struct tuf_target target = {0};
	struct tuf_client client;
	int result = tuf_open(&client, world->directory, &source, world->now_s);

	world->repo->asked = 0;
	if (result == 0)
		result = tuf_refresh(&client);
	if (result == 0)
		result = tuf_find(&client, path, &target);
	if (result == 0)
		*ret_length = target.length;
	memcpy(world->why, client.why, sizeof(world->why));
	tuf_target_free(&target);
	tuf_close(&client);
	return result;
}

// The version that the host trusts; 0: none.
static inline uint64_t world_version(struct world *world, const char *role, enum tuf_type type)
{
	struct tuf_metadata metadata = {0};
	struct buf bytes = BUF_INIT;
	char path[128], why[TUF_WHY_SIZE];
	uint64_t version = 0;

	snprintf(path, sizeof(path), "%s/%s.json", world->directory, role);
	if (fs_read(path, 8 << 20, &bytes) == 0 && tuf_metadata_parse(bytes.data, bytes.length, type, &metadata, why) == 0)
		version = metadata.version;
	tuf_metadata_free(&metadata);
	buf_free(&bytes);
	return version;
}

// Root, timestamp, snapshot, targets as digits: "1111".
static inline const char *world_versions(struct world *world)
{
	static char text[128];
	size_t at = 0;

	text[0] = 0;
	for (int type = 0; type < TUF_TYPES; type++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%llu", type ? " " : "",
				       (unsigned long long)world_version(world, tuf_type_names[type], type));
	return text;
}

static inline void world_write(struct world *world, const char *name, const void *data, size_t length)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", world->directory, name);
	assert_int_equal(fs_replace(path, data, length, 0644), 0);
}

static inline int world_begin(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct buf *root;

	assert_non_null(world);
	world->repo = repo_new();
	world->now_s = REPO_NOW_S;
	// In memory where there is some: every step of an update waits for the disk.
	snprintf(world->directory, sizeof(world->directory), "%s/test_update.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(world->directory));
	root = repo_file(world->repo, "1.root.json");
	if (tuf_init(world->directory, root->data, root->length, world->why) < 0)
		fail_msg("init: %s", world->why);
	*state = world;
	return 0;
}

static inline int world_end(void **state)
{
	struct world *world = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", world->directory);
	assert_int_equal(system(command), 0);
	repo_free(world->repo);
	free(world);
	return 0;
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_begin, world_end)
