// SPDX-License-Identifier: Apache-2.0
// Verifier: the workflow. Order is everything: signature, then version, then expiry, then disk. Old metadata on disk
// counts as known only as long as today's keys vouch for it. Nothing here knows where files come from.
#include "updater/client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"

static int local_path(const char *directory, const char *name, char out[PATH_MAX])
{
	return (size_t)snprintf(out, PATH_MAX, "%s/%s.json", directory, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int local_read(const struct tuf_client *client, const char *name, size_t max, struct buf *out)
{
	char path[PATH_MAX];
	int result = local_path(client->directory, name, path);

	return result < 0 ? result : fs_read(path, max, out);
}

static int local_write(struct tuf_client *client, const char *name, const struct buf *bytes)
{
	char path[PATH_MAX];
	int result = local_path(client->directory, name, path);

	if (result == 0)
		result = fs_replace(path, bytes->data, bytes->length, 0644);
	return result < 0 ? tuf_fail(client->why, result, "%s cannot be written: %s", name, strerror(-result)) : 0;
}

static int local_forget(struct tuf_client *client, enum tuf_type type)
{
	char path[PATH_MAX];
	int result = local_path(client->directory, tuf_type_names[type], path);

	if (result == 0 && unlink(path) < 0 && errno != ENOENT)
		result = -errno;
	if (result == 0)
		result = fs_sync_directory(client->directory);
	return result < 0 ? tuf_fail(client->why, result, "%s cannot be removed: %s", path, strerror(-result)) : 0;
}

static void keep(struct tuf_metadata *place, struct tuf_metadata *metadata)
{
	tuf_metadata_free(place);
	*place = *metadata;
	*metadata = (struct tuf_metadata){0};
}

// A source may lie about lengths: what it gave is measured here too.
static int fetch(struct tuf_client *client, const char *name, uint64_t max, struct buf *out)
{
	int result;

	buf_reset(out);
	result = client->source.fetch(client->source.context, name, max, out, client->why);
	if (result == 0 && out->length > max)
		result = -EFBIG;
	if (result == 0)
		result = buf_error(out);
	if (result == -EFBIG)
		return tuf_fail(client->why, result, "%s: longer than %" PRIu64 " bytes", name, max);
	if (result == -ENOENT)
		return tuf_fail(client->why, result, "%s: not there", name);
	return result;
}

// By the keys that the trusted root names for its type.
static int verify(struct tuf_client *client, const struct tuf_metadata *metadata, enum tuf_type type)
{
	const struct tuf_metadata *root = &client->trusted[TUF_ROOT];

	return tuf_verify(metadata, tuf_root_keys(root), tuf_root_role(root, type), tuf_type_names[type], client->why);
}

static int check_expiry(struct tuf_client *client, const struct tuf_metadata *metadata, const char *name)
{
	if (client->now_s >= metadata->expires_s)
		return tuf_fail(client->why, -EKEYEXPIRED, "%s: version %" PRIu64 " has expired", name,
				metadata->version);
	return 0;
}

// What is on disk, if it is whole and signed by today's keys; else nothing. Its expiry does not matter: it is a memory
// of versions first.
static void load_local(struct tuf_client *client, enum tuf_type type, size_t max)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	CLEANUP(tuf_metadata_free) struct tuf_metadata metadata = {0};
	char ignored[TUF_WHY_SIZE];

	if (local_read(client, tuf_type_names[type], max, &bytes) == 0 &&
	    tuf_metadata_parse(bytes.data, bytes.length, type, &metadata, ignored) == 0 &&
	    verify(client, &metadata, type) == 0)
		keep(&client->trusted[type], &metadata);
}

// Whether a key that spoke for the role no longer does.
static bool key_withdrawn(const struct tuf_metadata *old, const struct tuf_metadata *fresh, enum tuf_type type)
{
	yyjson_val *before = yyjson_obj_get(tuf_root_role(old, type), "keyids"),
		   *after = yyjson_obj_get(tuf_root_role(fresh, type), "keyids"), *key, *other;
	size_t at, count, other_at, other_count;

	yyjson_arr_foreach(before, at, count, key) {
		bool found = false;

		yyjson_arr_foreach(after, other_at, other_count, other)
			found |= yyjson_equals(key, other);
		if (!found)
			return true;
	}
	return false;
}

static int root_take(struct tuf_client *client, const struct buf *bytes)
{
	CLEANUP(tuf_metadata_free) struct tuf_metadata fresh = {0};
	struct tuf_metadata *root = &client->trusted[TUF_ROOT];
	int result = tuf_metadata_parse(bytes->data, bytes->length, TUF_ROOT, &fresh, client->why);

	if (result == 0)
		result = verify(client, &fresh, TUF_ROOT);
	if (result == 0)
		result = tuf_verify(&fresh, tuf_root_keys(&fresh), tuf_root_role(&fresh, TUF_ROOT),
				    "root, by its own keys", client->why);
	if (result < 0)
		return result;
	if (fresh.version != root->version + 1)
		return tuf_fail(client->why, -ESTALE, "root: version %" PRIu64 " where %" PRIu64 " was asked for",
				fresh.version, root->version + 1);
	// Whoever had that key may have used up the version numbers: they count from anew. First, so that a crash in
	// between comes here again.
	if (key_withdrawn(root, &fresh, TUF_TIMESTAMP) || key_withdrawn(root, &fresh, TUF_SNAPSHOT)) {
		result = local_forget(client, TUF_TIMESTAMP);
		if (result == 0)
			result = local_forget(client, TUF_SNAPSHOT);
	}
	if (result == 0)
		result = local_write(client, tuf_type_names[TUF_ROOT], bytes);
	if (result == 0)
		keep(root, &fresh);
	return result;
}

static int root_refresh(struct tuf_client *client)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	char name[64];

	for (int i = 0; i < TUF_ROTATIONS_MAX; i++) {
		int result;

		snprintf(name, sizeof(name), "%" PRIu64 ".root.json", client->trusted[TUF_ROOT].version + 1);
		result = fetch(client, name, TUF_ROOT_BYTES, &bytes);
		if (result == -ENOENT)
			break;
		if (result == 0)
			result = root_take(client, &bytes);
		if (result < 0)
			return result;
	}
	return check_expiry(client, &client->trusted[TUF_ROOT], "root");
}

static int timestamp_refresh(struct tuf_client *client)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	CLEANUP(tuf_metadata_free) struct tuf_metadata fresh = {0};
	struct tuf_metadata *known = &client->trusted[TUF_TIMESTAMP];
	struct tuf_meta_file before, after;
	int result;

	load_local(client, TUF_TIMESTAMP, TUF_TIMESTAMP_BYTES);
	result = fetch(client, "timestamp.json", TUF_TIMESTAMP_BYTES, &bytes);
	if (result == 0)
		result = tuf_metadata_parse(bytes.data, bytes.length, TUF_TIMESTAMP, &fresh, client->why);
	if (result == 0)
		result = verify(client, &fresh, TUF_TIMESTAMP);
	if (result < 0)
		return result;
	if (known->doc && fresh.version < known->version)
		return tuf_fail(client->why, -ESTALE, "timestamp: version %" PRIu64 ", and %" PRIu64 " was seen before",
				fresh.version, known->version);
	if (known->doc && fresh.version == known->version)
		return check_expiry(client, known, "timestamp");
	tuf_meta_find(&fresh, "snapshot.json", &after);
	if (known->doc && tuf_meta_find(known, "snapshot.json", &before) && after.version < before.version)
		return tuf_fail(client->why, -ESTALE,
				"timestamp: of snapshot %" PRIu64 ", and %" PRIu64 " was seen before", after.version,
				before.version);
	result = check_expiry(client, &fresh, "timestamp");
	if (result == 0)
		result = local_write(client, "timestamp", &bytes);
	if (result == 0)
		keep(known, &fresh);
	return result;
}

// Bytes as other metadata describes them: length and digests, where it gives them.
static int check_described(struct tuf_client *client, const struct buf *bytes, const struct tuf_meta_file *said,
			   const char *name)
{
	if (tuf_check_bytes(bytes->data, bytes->length, said->length, said->hashes) < 0)
		return tuf_fail(client->why, -EBADMSG, "%s: not the file that was described", name);
	return 0;
}

// Fetches a file that other metadata describes. Versions are in names only where snapshots are consistent; quoted:
// without ".json".
static int fetch_described(struct tuf_client *client, const char *quoted, const struct tuf_meta_file *said,
			   uint64_t max, struct buf *out)
{
	bool consistent = yyjson_get_bool(yyjson_obj_get(client->trusted[TUF_ROOT].body, "consistent_snapshot"));
	char version[32] = "", name[TUF_NAME_MAX + sizeof(version) + 8];

	if (consistent)
		snprintf(version, sizeof(version), "%" PRIu64 ".", said->version);
	snprintf(name, sizeof(name), "%s%s.json", version, quoted);
	return fetch(client, name, said->length < max ? said->length : max, out);
}

static int check_version(struct tuf_client *client, const struct tuf_metadata *metadata,
			 const struct tuf_meta_file *said, const char *name)
{
	if (metadata->version != said->version)
		return tuf_fail(client->why, -EBADMSG, "%s: version %" PRIu64 " where %" PRIu64 " was described", name,
				metadata->version, said->version);
	return 0;
}

// No role that was known may be missing or older.
static int check_snapshot_rollback(struct tuf_client *client, const struct tuf_metadata *fresh)
{
	yyjson_val *meta = yyjson_obj_get(client->trusted[TUF_SNAPSHOT].body, "meta"), *key, *value;
	size_t at, count;

	yyjson_obj_foreach(meta, at, count, key, value) {
		uint64_t before = yyjson_get_uint(yyjson_obj_get(value, "version"));
		struct tuf_meta_file after;

		if (!tuf_meta_find(fresh, yyjson_get_str(key), &after))
			return tuf_fail(client->why, -ESTALE, "snapshot: it no longer has %s", yyjson_get_str(key));
		if (after.version < before)
			return tuf_fail(client->why, -ESTALE,
					"snapshot: %s in version %" PRIu64 ", and %" PRIu64 " was seen before",
					yyjson_get_str(key), after.version, before);
	}
	return 0;
}

// Whether the one on disk is the one that the timestamp speaks of, so that none has to be fetched.
static bool snapshot_is_current(struct tuf_client *client, const struct tuf_meta_file *said)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	const struct tuf_metadata *known = &client->trusted[TUF_SNAPSHOT];

	return known->doc && check_version(client, known, said, "snapshot") == 0 &&
	       check_expiry(client, known, "snapshot") == 0 &&
	       local_read(client, "snapshot", TUF_SNAPSHOT_BYTES, &bytes) == 0 &&
	       check_described(client, &bytes, said, "snapshot") == 0;
}

static int snapshot_refresh(struct tuf_client *client)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	CLEANUP(tuf_metadata_free) struct tuf_metadata fresh = {0};
	struct tuf_meta_file said;
	int result;

	tuf_meta_find(&client->trusted[TUF_TIMESTAMP], "snapshot.json", &said);
	load_local(client, TUF_SNAPSHOT, TUF_SNAPSHOT_BYTES);
	if (snapshot_is_current(client, &said))
		return 0;
	result = fetch_described(client, "snapshot", &said, TUF_SNAPSHOT_BYTES, &bytes);
	if (result == 0)
		result = check_described(client, &bytes, &said, "snapshot");
	if (result == 0)
		result = tuf_metadata_parse(bytes.data, bytes.length, TUF_SNAPSHOT, &fresh, client->why);
	if (result == 0)
		result = verify(client, &fresh, TUF_SNAPSHOT);
	if (result == 0)
		result = check_version(client, &fresh, &said, "snapshot");
	if (result == 0)
		result = check_snapshot_rollback(client, &fresh);
	if (result == 0)
		result = check_expiry(client, &fresh, "snapshot");
	if (result == 0)
		result = local_write(client, "snapshot", &bytes);
	if (result == 0)
		keep(&client->trusted[TUF_SNAPSHOT], &fresh);
	return result;
}

// Everything that is asked of a targets file, wherever it came from.
static int targets_check(struct tuf_client *client, const struct buf *bytes, const struct tuf_meta_file *said,
			 const char *name, yyjson_val *keys, yyjson_val *role, struct tuf_metadata *metadata)
{
	int result = check_described(client, bytes, said, name);

	if (result == 0)
		result = tuf_metadata_parse(bytes->data, bytes->length, TUF_TARGETS, metadata, client->why);
	if (result == 0)
		result = tuf_verify(metadata, keys, role, name, client->why);
	if (result == 0)
		result = check_version(client, metadata, said, name);
	return result < 0 ? result : check_expiry(client, metadata, name);
}

int tuf_targets_load(struct tuf_client *client, const char *name, yyjson_val *keys, yyjson_val *role,
		     struct tuf_metadata *ret_metadata)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	CLEANUP(tuf_metadata_free) struct tuf_metadata metadata = {0};
	char quoted[TUF_NAME_MAX], file[TUF_NAME_MAX + 8];
	struct tuf_meta_file said;
	int result = tuf_quote(name, false, quoted, sizeof(quoted));

	if (result < 0)
		return tuf_fail(client->why, result, "the role %s has too long a name", name);
	snprintf(file, sizeof(file), "%s.json", name);
	if (!tuf_meta_find(&client->trusted[TUF_SNAPSHOT], file, &said))
		return tuf_fail(client->why, -EBADMSG, "%s: the snapshot does not have it", name);
	if (local_read(client, quoted, TUF_TARGETS_BYTES, &bytes) == 0 &&
	    targets_check(client, &bytes, &said, name, keys, role, &metadata) == 0) {
		keep(ret_metadata, &metadata);
		return 0;
	}
	tuf_metadata_free(&metadata);
	result = fetch_described(client, quoted, &said, TUF_TARGETS_BYTES, &bytes);
	if (result == 0)
		result = targets_check(client, &bytes, &said, name, keys, role, &metadata);
	if (result == 0)
		result = local_write(client, quoted, &bytes);
	if (result == 0)
		keep(ret_metadata, &metadata);
	return result;
}

int tuf_init(const char *directory, const void *root, size_t length, char why[TUF_WHY_SIZE])
{
	CLEANUP(tuf_metadata_free) struct tuf_metadata fresh = {0};
	struct tuf_client client = {.lock_fd = -1};
	const struct buf bytes = {.data = (char *)(uintptr_t)root, .length = length};
	int result = tuf_metadata_parse(root, length, TUF_ROOT, &fresh, why);

	if (result == 0)
		result = tuf_verify(&fresh, tuf_root_keys(&fresh), tuf_root_role(&fresh, TUF_ROOT), "root", why);
	if (result < 0)
		return result;
	result = fs_make_directories(directory, 0755);
	if (result < 0)
		return tuf_fail(why, result, "%s: %s", directory, strerror(-result));
	result = tuf_open(&client, directory, &(struct tuf_source){0}, TUF_EARLIEST_S);
	if (result == 0 && client.trusted[TUF_ROOT].version > fresh.version)
		result = tuf_fail(client.why, -ESTALE, "root: the directory has a newer one");
	else if (result == 0 || result == -ENOENT)
		result = local_write(&client, "root", &bytes);
	memcpy(why, client.why, TUF_WHY_SIZE);
	tuf_close(&client);
	return result;
}

static int open_root(struct tuf_client *client)
{
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;
	struct tuf_metadata *root = &client->trusted[TUF_ROOT];
	int result;

	client->lock_fd = open(client->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (client->lock_fd < 0)
		return tuf_fail(client->why, -errno, "%s: %s", client->directory, strerror(errno));
	if (flock(client->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return tuf_fail(client->why, -EBUSY, "%s: another update is at work", client->directory);
	result = local_read(client, "root", TUF_ROOT_BYTES, &bytes);
	if (result < 0)
		return tuf_fail(client->why, result, "%s has no trusted root: %s", client->directory,
				strerror(-result));
	fs_replace_tidy(client->directory, "*.json");
	result = tuf_metadata_parse(bytes.data, bytes.length, TUF_ROOT, root, client->why);
	return result < 0 ? result : verify(client, root, TUF_ROOT);
}

int tuf_open(struct tuf_client *client, const char *directory, const struct tuf_source *source, int64_t now_s)
{
	int result;

	*client = (struct tuf_client){.directory = directory, .source = *source, .now_s = now_s, .lock_fd = -1};
	if (sodium_init() < 0)
		return tuf_fail(client->why, -EIO, "libsodium cannot start");
	if (now_s < TUF_EARLIEST_S)
		return tuf_fail(client->why, -EKEYEXPIRED, "the clock is wrong: no expiry can be judged by it");
	result = open_root(client);
	if (result < 0)
		tuf_close(client);
	return result;
}

void tuf_close(struct tuf_client *client)
{
	for (int type = 0; type < TUF_TYPES; type++)
		tuf_metadata_free(&client->trusted[type]);
	if (client->lock_fd >= 0)
		close(client->lock_fd);
	client->lock_fd = -1;
}

int tuf_refresh(struct tuf_client *client)
{
	const struct tuf_metadata *root = &client->trusted[TUF_ROOT];
	int result = root_refresh(client);

	if (result == 0)
		result = timestamp_refresh(client);
	if (result == 0)
		result = snapshot_refresh(client);
	return result < 0 ? result
			  : tuf_targets_load(client, "targets", tuf_root_keys(root), tuf_root_role(root, TUF_TARGETS),
					     &client->trusted[TUF_TARGETS]);
}
