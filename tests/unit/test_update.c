// SPDX-License-Identifier: Apache-2.0
// The updater against the attacks of The Update Framework's specification. tests/updater/mutate.py takes each check out of the
// verifier and runs this file and test_update_form.c: one of them then has to fail.
#include "update_world.h"

#include <fcntl.h>
#include <sys/file.h>

static void updated(struct world *world)
{
	int result = world_update(world);

	if (result < 0)
		fail_msg("update: %s", world->why);
}

// A role whose keys or threshold the root changes.
static void rotate(struct repo *repo, enum tuf_type type, int key)
{
	repo->roles[type] = (struct repo_role){.version = repo->roles[type].version,
					       .expires_s = repo->roles[type].expires_s,
					       .keys = {key},
					       .signers = {key},
					       .threshold = 1};
}

static void add_target(struct repo *repo, const char *path, const char *content, const char *custom)
{
	char digest[320];

	repo_digest(content, strlen(content), digest);
	buf_printf(&repo->targets, "%s\"%s\":{%s%s%s\"hashes\":%s,\"length\":%zu}", repo->targets.length ? "," : "", path,
		   custom ? "\"custom\":" : "", custom ? custom : "", custom ? "," : "", digest, strlen(content));
}

// ---- 1: arbitrary install ----------------------------------------------------------------------------------------

static void attack_arbitrary_metadata(void **state)
{
	static const int stranger[REPO_KEYS] = {99, 98, 97};
	struct world *world = *state;

	updated(world);
	for (int type = TUF_TIMESTAMP; type < TUF_TYPES; type++) {
		struct repo_role saved = world->repo->roles[type];

		memcpy(world->repo->roles[type].signers, stranger, sizeof(stranger));
		repo_release(world->repo);
		assert_int_equal(world_update(world), -EKEYREJECTED);
		memcpy(world->repo->roles[type].signers, saved.signers, sizeof(saved.signers));
	}
	memcpy(world->repo->roles[TUF_ROOT].signers, stranger, sizeof(stranger));
	memcpy(world->repo->roles[TUF_ROOT].keys, stranger, sizeof(stranger));
	repo_root(world->repo);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	assert_int_equal(world_version(world, "root", TUF_ROOT), 1);
	assert_int_equal(world_version(world, "targets", TUF_TARGETS), 1);
}

// Signed by the right key, then changed: one signature over other bytes.
static void attack_changed_after_signing(void **state)
{
	struct world *world = *state;
	struct buf *bytes;
	char *at;

	updated(world);
	repo_release(world->repo);
	bytes = repo_file(world->repo, "timestamp.json");
	at = strstr(bytes->data, "\"version\":2}");
	assert_non_null(at);
	at[strlen("\"version\":")] = '3';
	assert_int_equal(world_update(world), -EKEYREJECTED);
}

static void attack_target_bytes(void **state)
{
	const char good[] = "content of a target", evil[] = "malware of a target";
	struct tuf_check check;
	char digest[320];
	yyjson_doc *doc;
	yyjson_val *hashes;

	(void)state;
	assert_int_equal(sizeof(good), sizeof(evil));
	repo_digest(good, sizeof(good), digest);
	for (int which = 0; which < 3; which++) {
		// Both digests, each alone.
		char one[700];
		const char *comma = strchr(digest, ',');

		snprintf(one, sizeof(one), "%.*s%s%s",
			 which == 1   ? (int)(comma - digest)
			 : which == 2 ? 1
				      : (int)strlen(digest),
			 digest, which == 2 ? comma + 1 : "", which == 1 ? "}" : "");
		doc = yyjson_read(one, strlen(one), 0);
		hashes = yyjson_doc_get_root(doc);
		assert_int_equal(tuf_check_begin(sizeof(good), hashes, &check), 0);
		assert_int_equal(tuf_check_add(&check, good, sizeof(good)), 0);
		assert_int_equal(tuf_check_end(&check), 0);
		assert_int_equal(tuf_check_begin(sizeof(good), hashes, &check), 0);
		assert_int_equal(tuf_check_add(&check, evil, sizeof(evil)), 0);
		assert_int_equal(tuf_check_end(&check), -EBADMSG);
		// What is longer or shorter is refused for its length, whatever its digests.
		assert_int_equal(tuf_check_begin(sizeof(good) - 1, hashes, &check), 0);
		assert_int_equal(tuf_check_add(&check, good, sizeof(good)), -EFBIG);
		assert_int_equal(tuf_check_begin(sizeof(good) + 1, hashes, &check), 0);
		assert_int_equal(tuf_check_add(&check, good, sizeof(good)), 0);
		assert_int_equal(tuf_check_end(&check), -EBADMSG);
		yyjson_doc_free(doc);
	}
	// Digests that nobody can check vouch for nothing.
	doc = yyjson_read("{\"md5\":\"00112233445566778899aabbccddeeff\"}", 42, 0);
	assert_int_equal(tuf_check_begin(1, yyjson_doc_get_root(doc), &check), -EBADMSG);
	yyjson_doc_free(doc);
	doc = yyjson_read("{\"sha256\":\"0011\"}", 17, 0);
	assert_int_equal(tuf_check_begin(1, yyjson_doc_get_root(doc), &check), -EBADMSG);
	yyjson_doc_free(doc);
}

// ---- 2: endless data ---------------------------------------------------------------------------------------------

static void attack_endless_data(void **state)
{
	struct world *world = *state;
	struct buf *bytes = repo_file(world->repo, "timestamp.json");

	world->repo->ignores_max = true;
	// Good JSON, rightly signed, only too long.
	while (bytes->length <= TUF_TIMESTAMP_BYTES)
		buf_append_char(bytes, ' ');
	assert_int_equal(world_update(world), -EFBIG);
	assert_int_equal(world_version(world, "timestamp", TUF_TIMESTAMP), 0);
	// Where the metadata says a length, that is the limit.
	world->repo->describe = true;
	repo_release(world->repo);
	buf_append_char(repo_file(world->repo, "2.snapshot.json"), ' ');
	assert_int_equal(world_update(world), -EFBIG);
}

// ---- 3: extraneous dependencies ----------------------------------------------------------------------------------

// Only what the path asks for is fetched; what is found by it is that entry and no other.
static void attack_extraneous_dependencies(void **state)
{
	struct world *world = *state;
	uint64_t length;

	add_target(world->repo, "malware", "123456", NULL);
	add_target(world->repo, "tool", "12345", "{\"depends\":[\"malware\"]}");
	repo_release(world->repo);
	assert_int_equal(world_find(world, "tool", &length), 0);
	assert_int_equal(length, 5);
	assert_int_equal(world->repo->asked, 4); // the next root, timestamp, snapshot, targets
	assert_string_equal(world->repo->last_asked, "2.targets.json");
}

// ---- 4: fast-forward ---------------------------------------------------------------------------------------------

static void fast_forward(struct world *world, bool timestamp, bool snapshot)
{
	for (int type = TUF_TIMESTAMP; type < TUF_TYPES; type++)
		world->repo->roles[type].version = 999998;
	repo_release(world->repo);
	updated(world);
	assert_string_equal(world_versions(world), "1 999999 999999 999999");
	for (int type = TUF_TIMESTAMP; type < TUF_TYPES; type++)
		world->repo->roles[type].version = 9;
	repo_release(world->repo);
	assert_int_equal(world_update(world), -ESTALE);
	// Another key beside the old one takes nothing from whoever has that: no recovery.
	if (timestamp)
		world->repo->roles[TUF_TIMESTAMP].keys[1] = 22;
	if (snapshot)
		world->repo->roles[TUF_SNAPSHOT].keys[1] = 32;
	repo_root(world->repo);
	repo_release(world->repo);
	assert_int_equal(world_update(world), -ESTALE);
	// The keys stay, one of them is withdrawn.
	if (timestamp)
		rotate(world->repo, TUF_TIMESTAMP, 22);
	if (snapshot)
		rotate(world->repo, TUF_SNAPSHOT, 32);
	repo_root(world->repo);
	repo_release(world->repo);
	updated(world);
	assert_string_equal(world_versions(world), "3 12 12 12");
}

static void attack_fast_forward_timestamp(void **state)
{
	fast_forward(*state, true, false);
}

static void attack_fast_forward_snapshot(void **state)
{
	fast_forward(*state, false, true);
}

// A key is withdrawn, but enough others of the old file's signers stay: it would still verify.
static void attack_fast_forward_threshold(void **state)
{
	struct world *world = *state;
	struct repo_role *roles = world->repo->roles;

	for (int type = TUF_TIMESTAMP; type <= TUF_SNAPSHOT; type++) {
		roles[type].keys[1] = roles[type].signers[1] = 40 + type;
		roles[type].version = 999998;
	}
	repo_root(world->repo);
	repo_release(world->repo);
	updated(world);
	roles[TUF_SNAPSHOT].keys[1] = roles[TUF_SNAPSHOT].signers[1] = 0;
	for (int type = TUF_TIMESTAMP; type < TUF_TYPES; type++)
		roles[type].version = 9;
	repo_root(world->repo);
	repo_release(world->repo);
	updated(world);
	assert_string_equal(world_versions(world), "3 10 10 10");
	for (int type = TUF_TIMESTAMP; type < TUF_TYPES; type++)
		roles[type].version = 5;
	roles[TUF_TIMESTAMP].keys[1] = roles[TUF_TIMESTAMP].signers[1] = 0;
	repo_root(world->repo);
	repo_release(world->repo);
	updated(world);
	assert_string_equal(world_versions(world), "4 6 6 6");
}

// ---- 5: freeze ---------------------------------------------------------------------------------------------------

static void attack_freeze(void **state)
{
	struct world *world = *state;

	updated(world);
	for (int type = TUF_TIMESTAMP; type < TUF_TYPES; type++) {
		const int64_t saved = world->repo->roles[type].expires_s;

		// The instant itself is too late; the second before is not.
		world->repo->roles[type].expires_s = REPO_NOW_S;
		repo_release(world->repo);
		assert_int_equal(world_update(world), -EKEYEXPIRED);
		world->now_s = REPO_NOW_S - 1;
		updated(world);
		// By now it is on disk, is offered no more, and has expired there.
		world->now_s = REPO_NOW_S;
		assert_int_equal(world_update(world), -EKEYEXPIRED);
		world->repo->roles[type].expires_s = saved;
		repo_release(world->repo);
		updated(world);
	}
	world->repo->roles[TUF_ROOT].expires_s = REPO_NOW_S;
	repo_root(world->repo);
	repo_release(world->repo);
	assert_int_equal(world_update(world), -EKEYEXPIRED);
	// The new root is kept, so that the next one can follow it; nothing else is.
	assert_int_equal(world_version(world, "root", TUF_ROOT), 2);
	assert_int_equal(world_version(world, "timestamp", TUF_TIMESTAMP), 7);
	world->repo->roles[TUF_ROOT].expires_s = REPO_NOW_S + DAY_S;
	repo_root(world->repo);
	updated(world);
}

static void attack_freeze_by_the_clock(void **state)
{
	struct world *world = *state;

	world->now_s = 0; // 1970
	assert_int_equal(world_update(world), -EKEYEXPIRED);
	assert_int_equal(world->repo->asked, 0);
	world->now_s = TUF_EARLIEST_S - 1;
	assert_int_equal(world_update(world), -EKEYEXPIRED);
	world->now_s = 4102444800; // 2100
	assert_int_equal(world_update(world), -EKEYEXPIRED);
	assert_string_equal(world_versions(world), "1 0 0 0");
	world->now_s = REPO_NOW_S;
	updated(world);
}

// ---- 6: malicious mirror -----------------------------------------------------------------------------------------

// It may hold back, mix up and cut; it cannot make the host take anything.
static void attack_malicious_mirror(void **state)
{
	static const char *const names[] = {"timestamp.json", "2.snapshot.json", "2.targets.json"};
	struct world *world = *state;
	char versions[128];

	updated(world);
	repo_release(world->repo);
	snprintf(versions, sizeof(versions), "%s", world_versions(world));
	for (size_t i = 0; i < 3; i++) {
		struct buf *bytes = repo_file(world->repo, names[i]);
		char *copy = malloc(bytes->length);
		size_t length = bytes->length;

		assert_non_null(copy);
		memcpy(copy, bytes->data, length);
		for (size_t cut = 0; cut < length; cut += 97) {
			repo_put(world->repo, names[i], copy, cut);
			assert_true(world_update(world) < 0);
		}
		for (size_t at = 0; at < length; at += 61) {
			copy[at] ^= 1;
			repo_put(world->repo, names[i], copy, length);
			assert_true(world_update(world) < 0);
			copy[at] ^= 1;
		}
		repo_put(world->repo, names[i], "<html>captive portal</html>", 27);
		assert_int_equal(world_update(world), -EBADMSG);
		repo_put(world->repo, names[i], copy, length);
		free(copy);
	}
	updated(world);
	assert_string_equal(world_versions(world), "1 2 2 2");
	assert_string_equal(versions, "1 1 1 1");
}

// ---- 7: mix-and-match --------------------------------------------------------------------------------------------

static void attack_mix_and_match(void **state)
{
	struct world *world = *state;
	struct buf *old;

	updated(world);
	repo_release(world->repo);
	old = repo_file(world->repo, "1.targets.json");
	repo_put(world->repo, "2.targets.json", old->data, old->length);
	assert_int_equal(world_update(world), -EBADMSG);
	repo_publish(world->repo, TUF_TARGETS);
	old = repo_file(world->repo, "1.snapshot.json");
	repo_release(world->repo);
	repo_put(world->repo, "3.snapshot.json", old->data, old->length);
	assert_int_equal(world_update(world), -EBADMSG);
	// A file of the right version and role, signed, but not the one that was described.
	world->repo->describe = true;
	for (int type = TUF_SNAPSHOT; type <= TUF_TARGETS; type++) {
		repo_release(world->repo);
		world->repo->roles[type].expires_s++;
		repo_publish(world->repo, type);
		assert_int_equal(world_update(world), -EBADMSG);
	}
	repo_release(world->repo);
	updated(world);
	// One role's file where another's should be, both by the same keys.
	memcpy(&world->repo->roles[TUF_SNAPSHOT].keys, &world->repo->roles[TUF_TIMESTAMP].keys, sizeof(world->repo->roles[0].keys));
	memcpy(&world->repo->roles[TUF_SNAPSHOT].signers, &world->repo->roles[TUF_TIMESTAMP].keys, sizeof(world->repo->roles[0].keys));
	world->repo->describe = false;
	repo_root(world->repo);
	repo_release(world->repo);
	repo_put(world->repo, "timestamp.json",
		 repo_file(world->repo, "7.snapshot.json") ? repo_file(world->repo, "7.snapshot.json")->data : "",
		 repo_file(world->repo, "7.snapshot.json") ? repo_file(world->repo, "7.snapshot.json")->length : 0);
	assert_int_equal(world_update(world), -EBADMSG);
	assert_non_null(repo_file(world->repo, "7.snapshot.json"));
	assert_non_null(strstr(world->why, "of the type snapshot"));
}

// ---- 8: rollback -------------------------------------------------------------------------------------------------

static void attack_rollback_timestamp(void **state)
{
	struct world *world = *state;
	struct buf old = BUF_INIT;

	updated(world);
	buf_append(&old, repo_file(world->repo, "timestamp.json")->data, repo_file(world->repo, "timestamp.json")->length);
	world->repo->roles[TUF_TIMESTAMP].version++;
	repo_publish(world->repo, TUF_TIMESTAMP);
	updated(world);
	repo_put(world->repo, "timestamp.json", old.data, old.length);
	assert_int_equal(world_update(world), -ESTALE);
	assert_int_equal(world_version(world, "timestamp", TUF_TIMESTAMP), 2);
	// The same version with other content: what is known stays.
	world->repo->roles[TUF_TIMESTAMP].expires_s++;
	repo_publish(world->repo, TUF_TIMESTAMP);
	world->repo->roles[TUF_SNAPSHOT].version = 77;
	repo_publish(world->repo, TUF_SNAPSHOT);
	repo_publish(world->repo, TUF_TIMESTAMP);
	updated(world);
	assert_string_equal(world_versions(world), "1 2 1 1");
	buf_free(&old);
}

static void attack_rollback_snapshot(void **state)
{
	struct world *world = *state;

	repo_release(world->repo);
	updated(world);
	// A newer timestamp that speaks of an older snapshot.
	world->repo->roles[TUF_SNAPSHOT].version = 0;
	repo_release(world->repo);
	assert_int_equal(world_update(world), -ESTALE);
	assert_string_equal(world_versions(world), "1 2 2 2");
}

static void attack_rollback_targets(void **state)
{
	struct world *world = *state;

	buf_append_string(&world->repo->more_meta, "\"more.json\":{\"version\":3},");
	repo_release(world->repo);
	updated(world);
	world->repo->roles[TUF_TARGETS].version = 0;
	repo_release(world->repo);
	assert_int_equal(world_update(world), -ESTALE);
	world->repo->roles[TUF_TARGETS].version = 3;
	buf_reset(&world->repo->more_meta);
	buf_append_string(&world->repo->more_meta, "\"more.json\":{\"version\":2},");
	repo_release(world->repo);
	assert_int_equal(world_update(world), -ESTALE);
	buf_reset(&world->repo->more_meta);
	repo_release(world->repo);
	assert_int_equal(world_update(world), -ESTALE);
	assert_int_equal(world_version(world, "snapshot", TUF_SNAPSHOT), 2);
	buf_append_string(&world->repo->more_meta, "\"more.json\":{\"version\":3},");
	repo_release(world->repo);
	updated(world);
}

static void attack_rollback_root(void **state)
{
	struct world *world = *state;
	struct buf *old = repo_file(world->repo, "1.root.json");

	updated(world);
	// The same root again, and one that skips a number, each where the next should be.
	repo_put(world->repo, "2.root.json", old->data, old->length);
	assert_int_equal(world_update(world), -ESTALE);
	world->repo->roles[TUF_ROOT].version = 3;
	repo_publish(world->repo, TUF_ROOT);
	old = repo_file(world->repo, "3.root.json");
	repo_put(world->repo, "2.root.json", old->data, old->length);
	assert_int_equal(world_update(world), -ESTALE);
	assert_int_equal(world_version(world, "root", TUF_ROOT), 1);
}

// Somebody who could write to the disk once: unsigned memory would pin or free versions.
static void attack_memory_on_disk(void **state)
{
	static const int stranger[REPO_KEYS] = {99};
	struct world *world = *state;
	struct repo *other = repo_new();
	struct buf *root;

	memcpy(other->roles[TUF_TIMESTAMP].signers, stranger, sizeof(stranger));
	memcpy(other->roles[TUF_SNAPSHOT].signers, stranger, sizeof(stranger));
	other->roles[TUF_TIMESTAMP].version = other->roles[TUF_SNAPSHOT].version = other->roles[TUF_TARGETS].version = 1000;
	repo_release(other);
	world_write(world, "timestamp.json", repo_file(other, "timestamp.json")->data, repo_file(other, "timestamp.json")->length);
	world_write(world, "snapshot.json", repo_file(other, "1001.snapshot.json")->data, repo_file(other, "1001.snapshot.json")->length);
	updated(world);
	assert_string_equal(world_versions(world), "1 1 1 1");
	memcpy(other->roles[TUF_ROOT].signers, stranger, sizeof(stranger));
	repo_publish(other, TUF_ROOT);
	root = repo_file(other, "1.root.json");
	world_write(world, "root.json", root->data, root->length);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	assert_int_equal(world->repo->asked, 0);
	repo_free(other);
}

// ---- 9: key compromise below the threshold ------------------------------------------------------------------------

static void attack_one_key_of_two(void **state)
{
	static const int one[REPO_KEYS] = {11}, twice[REPO_KEYS] = {11, 11, 11}, two[REPO_KEYS] = {12, 13};
	struct world *world = *state;
	struct repo_role *targets = &world->repo->roles[TUF_TARGETS];

	memcpy(targets->signers, one, sizeof(one));
	repo_release(world->repo);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	memcpy(targets->signers, twice, sizeof(twice));
	repo_release(world->repo);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	// The role names that key twice, and the root is signed.
	targets->keys[1] = 11;
	repo_root(world->repo);
	repo_release(world->repo);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	targets->keys[1] = 12;
	memcpy(targets->signers, two, sizeof(two));
	repo_root(world->repo);
	repo_release(world->repo);
	updated(world);
}

static void attack_two_root_keys_of_three(void **state)
{
	static const int thief[REPO_KEYS] = {2, 4}, own[REPO_KEYS] = {2, 4, 91, 92, 93};
	struct world *world = *state;
	struct repo_role *root = &world->repo->roles[TUF_ROOT];

	updated(world);
	memcpy(root->signers, thief, sizeof(thief));
	repo_root(world->repo);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	// With keys of its own beside: three of the new, two of the old.
	memcpy(root->keys, own, sizeof(own));
	memcpy(root->signers, own, sizeof(own));
	repo_publish(world->repo, TUF_ROOT);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	assert_int_equal(world_version(world, "root", TUF_ROOT), 1);
}

// A root that its own keys have not signed would lock everybody out.
static void attack_new_root_not_by_itself(void **state)
{
	static const int old[REPO_KEYS] = {1, 2, 3}, fresh[REPO_KEYS] = {6, 7, 8, 1, 2};
	struct world *world = *state;
	struct repo_role *root = &world->repo->roles[TUF_ROOT];

	updated(world);
	memcpy(root->keys, fresh, sizeof(fresh));
	memcpy(root->signers, old, sizeof(old));
	repo_root(world->repo);
	assert_int_equal(world_update(world), -EKEYREJECTED);
	assert_int_equal(world_version(world, "root", TUF_ROOT), 1);
}

// ---- 10: wrong software ------------------------------------------------------------------------------------------

static int pick(struct world *world, const char *running, char out[64])
{
	const struct tuf_wanted wanted = {"tracer", "stable", "x86_64", running, NULL, NULL};
	const struct tuf_source source = world_source(world);
	struct tuf_target target = {0};
	struct tuf_client client;
	const char *path = "";
	int result = tuf_open(&client, world->directory, &source, world->now_s);

	if (result == 0)
		result = tuf_refresh(&client);
	if (result == 0)
		result = tuf_pick(&client, &wanted, &path, &target);
	snprintf(out, 64, "%s", path);
	tuf_close(&client);
	return result;
}

#define CUSTOM(product, channel, architecture, version, more)                                                                           \
	"{\"architecture\":\"" architecture "\",\"channel\":\"" channel "\"," more "\"product\":\"" product "\",\"version\":\"" version \
	"\"}"

static void attack_wrong_software(void **state)
{
	struct world *world = *state;
	struct repo *repo = world->repo;
	char path[64];

	add_target(repo, "01-product", "x", CUSTOM("rules", "stable", "x86_64", "9.0", ""));
	add_target(repo, "02-channel", "x", CUSTOM("tracer", "beta", "x86_64", "9.0", ""));
	add_target(repo, "03-machine", "x", CUSTOM("tracer", "stable", "aarch64", "9.0", ""));
	add_target(repo, "04-none", "x", NULL);
	add_target(repo, "05-words", "x", CUSTOM("tracer", "stable", "x86_64", "newest", ""));
	add_target(repo, "06-older", "x", CUSTOM("tracer", "stable", "x86_64", "0.9", ""));
	add_target(repo, "07-same", "x", CUSTOM("tracer", "stable", "x86_64", "1.0", ""));
	repo_release(repo);
	assert_int_equal(pick(world, "1.0", path), -ENOENT);
	add_target(repo, "08-new", "x", CUSTOM("tracer", "stable", "x86_64", "1.2", ""));
	add_target(repo, "09-newer", "x", CUSTOM("tracer", "stable", "x86_64", "1.10", ""));
	add_target(repo, "10-between", "x", CUSTOM("tracer", "stable", "x86_64", "1.9", ""));
	add_target(repo, "11-far", "x", CUSTOM("tracer", "stable", "x86_64", "3.0", "\"minimum_version\":\"1.10\","));
	add_target(repo, "12-odd", "x", CUSTOM("tracer", "stable", "x86_64", "4.0", "\"minimum_version\":7,"));
	repo_release(repo);
	assert_int_equal(pick(world, "1.0", path), 0);
	assert_string_equal(path, "09-newer");
	assert_int_equal(pick(world, "1.10", path), 0);
	assert_string_equal(path, "11-far");
	assert_int_equal(pick(world, "3.0", path), -ENOENT);
}

// ---- the rest of the workflow ------------------------------------------------------------------------------------

static void test_fifty_roots(void **state)
{
	struct world *world = *state;

	for (int step = 0; step < 50; step++) {
		struct repo_role *root = &world->repo->roles[TUF_ROOT];
		int leaving = root->keys[0];

		// One of five leaves, one comes: signed by three that stay and the new one.
		memmove(root->keys, root->keys + 1, 4 * sizeof(root->keys[0]));
		root->keys[4] = 100 + step;
		memcpy(root->signers, (int[REPO_KEYS]){root->keys[0], root->keys[1], root->keys[2], leaving}, sizeof(root->signers));
		repo_root(world->repo);
	}
	updated(world);
	assert_int_equal(world_version(world, "root", TUF_ROOT), 51);
}

static void test_more_roots_than_one_run_takes(void **state)
{
	struct world *world = *state;

	for (int step = 0; step < TUF_ROTATIONS_MAX + 9; step++)
		repo_root(world->repo);
	updated(world);
	assert_int_equal(world_version(world, "root", TUF_ROOT), TUF_ROTATIONS_MAX + 1);
	updated(world);
	assert_int_equal(world_version(world, "root", TUF_ROOT), TUF_ROTATIONS_MAX + 10);
}

static void test_nothing_is_fetched_twice(void **state)
{
	struct world *world = *state;

	updated(world);
	assert_int_equal(world->repo->asked, 4);
	updated(world);
	assert_int_equal(world->repo->asked, 2); // the next root, timestamp
	world->repo->consistent = false;
	repo_root(world->repo);
	repo_release(world->repo);
	updated(world);
	assert_string_equal(world->repo->last_asked, "targets.json");
	assert_string_equal(world_versions(world), "2 2 2 2");
}

// What lies on disk has to be what was described, too.
static void test_damaged_on_disk_is_fetched_again(void **state)
{
	struct world *world = *state;

	world->repo->describe = true;
	repo_release(world->repo);
	updated(world);
	for (int type = TUF_SNAPSHOT; type <= TUF_TARGETS; type++) {
		char name[32], remote[64], *longer;
		struct buf *bytes;

		snprintf(name, sizeof(name), "%s.json", tuf_type_names[type]);
		snprintf(remote, sizeof(remote), "2.%s", name);
		bytes = repo_file(world->repo, remote);
		longer = malloc(bytes->length + 1);
		assert_non_null(longer);
		memcpy(longer, bytes->data, bytes->length);
		longer[bytes->length] = ' ';
		world_write(world, name, longer, bytes->length + 1);
		updated(world);
		assert_string_equal(world->repo->last_asked, remote);
		world_write(world, name, "{", 1);
		updated(world);
		assert_string_equal(world->repo->last_asked, remote);
		free(longer);
	}
}

static void test_one_at_a_time(void **state)
{
	struct world *world = *state;
	int held = open(world->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(flock(held, LOCK_EX), 0);
	assert_int_equal(world_update(world), -EBUSY);
	close(held);
	updated(world);
}

static void test_init(void **state)
{
	struct world *world = *state;
	struct buf *root = repo_file(world->repo, "1.root.json");
	struct repo *other = repo_new();

	// Again is fine; not signed is not; older than what is trusted is not.
	assert_int_equal(tuf_init(world->directory, root->data, root->length, world->why), 0);
	other->roles[TUF_ROOT].signers[2] = 0;
	repo_publish(other, TUF_ROOT);
	assert_int_equal(
		tuf_init(world->directory, repo_file(other, "1.root.json")->data, repo_file(other, "1.root.json")->length, world->why),
		-EKEYREJECTED);
	repo_root(world->repo);
	updated(world);
	root = repo_file(world->repo, "1.root.json");
	assert_int_equal(tuf_init(world->directory, root->data, root->length, world->why), -ESTALE);
	assert_int_equal(world_version(world, "root", TUF_ROOT), 2);
	repo_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORLD_TEST(attack_arbitrary_metadata),
		WORLD_TEST(attack_changed_after_signing),
		WORLD_TEST(attack_target_bytes),
		WORLD_TEST(attack_endless_data),
		WORLD_TEST(attack_extraneous_dependencies),
		WORLD_TEST(attack_fast_forward_timestamp),
		WORLD_TEST(attack_fast_forward_snapshot),
		WORLD_TEST(attack_fast_forward_threshold),
		WORLD_TEST(attack_freeze),
		WORLD_TEST(attack_freeze_by_the_clock),
		WORLD_TEST(attack_malicious_mirror),
		WORLD_TEST(attack_mix_and_match),
		WORLD_TEST(attack_rollback_timestamp),
		WORLD_TEST(attack_rollback_snapshot),
		WORLD_TEST(attack_rollback_targets),
		WORLD_TEST(attack_rollback_root),
		WORLD_TEST(attack_memory_on_disk),
		WORLD_TEST(attack_one_key_of_two),
		WORLD_TEST(attack_two_root_keys_of_three),
		WORLD_TEST(attack_new_root_not_by_itself),
		WORLD_TEST(attack_wrong_software),
		WORLD_TEST(test_fifty_roots),
		WORLD_TEST(test_more_roots_than_one_run_takes),
		WORLD_TEST(test_nothing_is_fetched_twice),
		WORLD_TEST(test_damaged_on_disk_is_fetched_again),
		WORLD_TEST(test_one_at_a_time),
		WORLD_TEST(test_init),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
