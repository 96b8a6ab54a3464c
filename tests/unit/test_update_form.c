// SPDX-License-Identifier: Apache-2.0
// The updater's reading: canonical JSON, the form of metadata, keys and signatures, versions, names, delegations. Every refusal here is
// a check that tests/updater/mutate.py takes out.
#include "update_world.h"

#include <yyjson.h>

#include "updater/canonical.h"

static int canonical(const char *text, size_t length, struct buf *out)
{
	yyjson_doc *doc = yyjson_read(text, length, 0);
	int result;

	assert_non_null(doc);
	result = canonical_encode(yyjson_doc_get_root(doc), out);
	yyjson_doc_free(doc);
	return result;
}

static void test_canonical(void **state)
{
	static const struct {
		const char *text, *out; // NULL: refused
	} cases[] = {
		{"{\"b\": 1, \"a\": [true, false, null, -7, \"x\"]}", "{\"a\":[true,false,null,-7,\"x\"],\"b\":1}"},
		{"{\"ab\":1,\"a\":2,\"B\":3,\"\":4,\"\xc3\xa9\":5,\"z\":6}", "{\"\":4,\"B\":3,\"a\":2,\"ab\":1,\"z\":6,\"\xc3\xa9\":5}"},
		{"\"\\\"\\\\\\n\\t\\u00e9\\/\"", "\"\\\"\\\\\n\t\xc3\xa9/\""},
		{"18446744073709551615", "18446744073709551615"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"[]", "[]"},
		{"{}", "{}"},
		{"[[],{}]", "[[],{}]"},
		{"1.5", NULL},
		{"1e3", NULL},
		{"18446744073709551616", NULL},
		{"{\"a\":1,\"a\":1}", NULL},
		{"{\"a\":1,\"b\":2,\"\\u0061\":3}", NULL},
		{"[{\"a\":{\"b\":1,\"b\":2}}]", NULL},
	};
	char deep[2 * CANONICAL_DEPTH + 10];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = BUF_INIT;
		int result = canonical(cases[i].text, strlen(cases[i].text), &out);

		assert_int_equal(result, cases[i].out ? 0 : -EBADMSG);
		if (cases[i].out)
			assert_string_equal(out.data, cases[i].out);
		buf_free(&out);
	}
	for (int depth = CANONICAL_DEPTH; depth <= CANONICAL_DEPTH + 2; depth++) {
		struct buf out = BUF_INIT;

		memset(deep, '[', (size_t)depth);
		memset(deep + depth, ']', (size_t)depth);
		assert_int_equal(canonical(deep, 2 * (size_t)depth, &out), depth <= CANONICAL_DEPTH + 1 ? 0 : -EBADMSG);
		buf_free(&out);
	}
}

// A file whose text from is replaced by to, unsigned: only its form is looked at.
static int parse_changed(struct repo *repo, enum tuf_type type, const char *name, const char *from, const char *to)
{
	struct buf *bytes = repo_file(repo, name), changed = BUF_INIT;
	struct tuf_metadata metadata = {0};
	char why[TUF_WHY_SIZE] = "";
	const char *at = strstr(bytes->data, from);
	int result;

	if (!at)
		fail_msg("%s has no %s", name, from);
	buf_append(&changed, bytes->data, (size_t)(at - bytes->data));
	buf_append_string(&changed, to);
	buf_append_string(&changed, at + strlen(from));
	result = tuf_metadata_parse(changed.data, changed.length, type, &metadata, why);
	if (result < 0)
		assert_true(why[0] != 0);
	tuf_metadata_free(&metadata);
	buf_free(&changed);
	return result;
}

static void test_form(void **state)
{
	static const struct {
		enum tuf_type type;
		const char *from, *to;
		bool fine;
	} cases[] = {
		{TUF_ROOT, "\"version\":1}", "\"version\":1,\"new\":{\"x\":[]}}", true},
		{TUF_ROOT, "\"_type\":\"root\"", "\"_type\":\"targets\"", false},
		{TUF_ROOT, "\"_type\":\"root\",", "", false},
		{TUF_ROOT, "\"spec_version\":\"1.0.31\"", "\"spec_version\":\"2.0\"", false},
		{TUF_ROOT, "\"spec_version\":\"1.0.31\",", "", false},
		{TUF_ROOT, "\"version\":1}", "\"version\":0}", false},
		{TUF_ROOT, "\"version\":1}", "\"version\":-1}", false},
		{TUF_ROOT, "\"version\":1}", "\"version\":\"1\"}", false},
		{TUF_ROOT, "2027-04-25T08:00:00Z", "2027-04-25T08:00:00z", false},
		{TUF_ROOT, "2027-04-25T08:00:00Z", "2027-04-31T08:00:00Z", false},
		{TUF_ROOT, "2027-04-25T08:00:00Z", "2027-4-25T08:00:00Z", false},
		{TUF_ROOT, "2027-04-25T08:00:00Z", "2027-04-25T08:00:00Z ", false},
		{TUF_ROOT, "2027-04-25T08:00:00Z", "2027-04-25T08:00:00Z\\u0000", false},
		{TUF_ROOT, "\"2027-04-25T08:00:00Z\"", "1800000000", false},
		{TUF_ROOT, "\"threshold\":3", "\"threshold\":0", false},
		{TUF_ROOT, "\"threshold\":3", "\"threshold\":\"3\"", false},
		{TUF_ROOT, "\"threshold\":3", "\"thresh\":3", false},
		{TUF_ROOT, "\"consistent_snapshot\":true", "\"consistent_snapshot\":1", false},
		{TUF_ROOT, "\"consistent_snapshot\":true,", "", true},
		{TUF_ROOT, "\"keys\":{", "\"keis\":{", false},
		{TUF_ROOT, "\"timestamp\":{\"keyids\"", "\"timestump\":{\"keyids\"", false},
		{TUF_ROOT, "\"signatures\":[", "\"signatures\":[7,", false},
		{TUF_ROOT, "\"signatures\":[", "\"signatures\":[{\"keyid\":\"a\"},", false},
		{TUF_ROOT, "\"signatures\":[", "\"signatures\":[{\"keyid\":7,\"sig\":\"\"},", false},
		{TUF_ROOT, "\"signatures\":[", "\"signatures\":[{\"keyid\":\"a\",\"sig\":\"\"},", true},
		{TUF_ROOT, "\"signatures\":[", "\"sig\":1,\"sig\":2,\"signatures\":[", false},
		{TUF_TIMESTAMP, "\"snapshot.json\"", "\"snapshut.json\"", false},
		{TUF_TIMESTAMP, "{\"version\":1}", "{\"version\":0}", false},
		{TUF_TIMESTAMP, "{\"version\":1}", "{\"hashes\":{},\"version\":1}", false},
		{TUF_TIMESTAMP, "{\"version\":1}", "{\"hashes\":{\"sha256\":7},\"version\":1}", false},
		{TUF_TIMESTAMP, "{\"version\":1}", "{\"length\":-1,\"version\":1}", false},
		{TUF_TIMESTAMP, "{\"version\":1}", "{\"length\":\"9\",\"version\":1}", false},
		{TUF_SNAPSHOT, "\"targets.json\"", "\"torgets.json\"", false},
		{TUF_SNAPSHOT, "\"meta\":{", "\"meta\":{\"a\\u0000b.json\":{\"version\":1},", false},
		{TUF_SNAPSHOT, "\"meta\":{", "\"meta\":{\"a.json\":{\"version\":null},", false},
		{TUF_TARGETS, "\"targets\":{}", "\"targets\":[]", false},
		{TUF_TARGETS, "\"targets\":{}", "\"targets\":{\"a\":{\"hashes\":{\"sha256\":\"00\"},\"length\":1}}", true},
		{TUF_TARGETS, "\"targets\":{}", "\"targets\":{\"a\":{\"hashes\":{\"sha256\":\"00\"}}}", false},
		{TUF_TARGETS, "\"targets\":{}", "\"targets\":{\"a\":{\"length\":1}}", false},
		{TUF_TARGETS, "\"targets\":{}", "\"targets\":{\"a\":{\"custom\":7,\"hashes\":{\"sha256\":\"00\"},\"length\":1}}", false},
		{TUF_TARGETS, "\"targets\":{}", "\"targets\":{\"\":{\"hashes\":{\"sha256\":\"00\"},\"length\":1}}", false},
	};
	static const char *const names[] = {"1.root.json", "timestamp.json", "1.snapshot.json", "1.targets.json"};
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result = parse_changed(world->repo, cases[i].type, names[cases[i].type], cases[i].from, cases[i].to);

		if (result != (cases[i].fine ? 0 : -EBADMSG))
			fail_msg("case %zu: %s to %s: %d", i, cases[i].from, cases[i].to, result);
	}
}

#define ROLE(name, more) "{\"keyids\":[],\"name\":\"" name "\"," more "\"terminating\":false,\"threshold\":1}"

static void test_form_of_delegations(void **state)
{
	static const struct {
		const char *roles;
		bool fine;
	} cases[] = {
		{"[" ROLE("a", "\"paths\":[\"*\"],") "]", true},
		{"[" ROLE("a", "\"path_hash_prefixes\":[\"00\"],") "]", true},
		{"[" ROLE("a", "") "]", false},
		{"[" ROLE("a", "\"path_hash_prefixes\":[\"00\"],\"paths\":[\"*\"],") "]", false},
		{"[" ROLE("a", "\"paths\":[7],") "]", false},
		{"[" ROLE("", "\"paths\":[\"*\"],") "]", false},
		{"[" ROLE("root", "\"paths\":[\"*\"],") "]", false},
		{"[" ROLE("timestamp", "\"paths\":[\"*\"],") "]", false},
		{"[" ROLE("snapshot", "\"paths\":[\"*\"],") "]", false},
		{"[" ROLE("targets", "\"paths\":[\"*\"],") "]", false},
		{"{}", false},
		{"[7]", false},
	};
	struct world *world = *state;
	char text[1200], name[TUF_NAME_MAX + 10];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "\"delegations\":{\"keys\":{},\"roles\":%s},\"targets\":{}", cases[i].roles);
		if (parse_changed(world->repo, TUF_TARGETS, "1.targets.json", "\"targets\":{}", text) != (cases[i].fine ? 0 : -EBADMSG))
			fail_msg("%s", cases[i].roles);
	}
	assert_int_equal(parse_changed(world->repo, TUF_TARGETS, "1.targets.json", "\"targets\":{}",
				       "\"delegations\":{\"roles\":[]},\"targets\":{}"),
			 -EBADMSG);
	// The longest name of a file, and one byte more.
	for (int more = 0; more < 2; more++) {
		int length = TUF_NAME_MAX - 3 + more;

		memset(name, 'n', sizeof(name));
		snprintf(text, sizeof(text),
			 "\"delegations\":{\"keys\":{},\"roles\":[" ROLE("%.*s", "\"paths\":[\"*\"],") "]},\"targets\":{}", length, name);
		assert_int_equal(parse_changed(world->repo, TUF_TARGETS, "1.targets.json", "\"targets\":{}", text), more ? -EBADMSG : 0);
	}
}

// More of a kind than there is room for.
static void test_too_many(void **state)
{
	struct world *world = *state;
	struct buf text = BUF_INIT;

	for (int count = TUF_SIGNATURES_MAX - 3; count <= TUF_SIGNATURES_MAX - 2; count++) {
		buf_reset(&text);
		buf_append_string(&text, "\"signatures\":[");
		for (int i = 0; i < count; i++)
			buf_append_string(&text, "{\"keyid\":\"a\",\"sig\":\"00\"},");
		assert_int_equal(parse_changed(world->repo, TUF_ROOT, "1.root.json", "\"signatures\":[", text.data),
				 count == TUF_SIGNATURES_MAX - 3 ? 0 : -EBADMSG);
	}
	for (int count = TUF_KEYS_MAX - 5; count <= TUF_KEYS_MAX - 4; count++) {
		buf_reset(&text);
		buf_append_string(&text, "\"root\":{\"keyids\":[");
		for (int i = 0; i < count; i++)
			buf_printf(&text, "\"%d\",", i);
		assert_int_equal(parse_changed(world->repo, TUF_ROOT, "1.root.json", "\"root\":{\"keyids\":[", text.data),
				 count == TUF_KEYS_MAX - 5 ? 0 : -EBADMSG);
	}
	buf_free(&text);
}

// What signs, by the words in the table of keys.
static int verify_with(const char *id, const char *key, const char *more_ids, int signer, const char *signed_as, unsigned threshold)
{
	struct buf file = BUF_INIT, keys = BUF_INIT;
	struct tuf_metadata metadata = {0};
	const char body[] = "{\"_type\":\"timestamp\",\"expires\":\"2030-01-01T00:00:00Z\",\"meta\":{\"snapshot.json\":{\"version\":1}},"
			    "\"spec_version\":\"1.0\",\"version\":1}";
	unsigned char signature[64];
	char hex[129], why[TUF_WHY_SIZE];
	yyjson_doc *doc;
	int result;

	crypto_sign_detached(signature, NULL, (const unsigned char *)body, strlen(body), repo_key(signer).secret);
	sodium_bin2hex(hex, sizeof(hex), signature, sizeof(signature));
	buf_printf(&file, "{\"signatures\":[{\"keyid\":\"%s\",\"sig\":\"%s\"}", signed_as, hex);
	if (*more_ids)
		buf_printf(&file, ",{\"keyid\":\"%s\",\"sig\":\"%s\"}", more_ids, hex);
	buf_printf(&file, "],\"signed\":%s}", body);
	buf_printf(&keys, "{\"keys\":{\"%s\":%s", id, key);
	if (*more_ids)
		buf_printf(&keys, ",\"%s\":%s", more_ids, key);
	buf_printf(&keys, "},\"role\":{\"keyids\":[\"%s\"%s%s%s],\"threshold\":%u}}", id, *more_ids ? ",\"" : "", more_ids,
		   *more_ids ? "\"" : "", threshold);
	doc = yyjson_read(keys.data, keys.length, 0);
	assert_non_null(doc);
	assert_int_equal(tuf_metadata_parse(file.data, file.length, TUF_TIMESTAMP, &metadata, why), 0);
	result = tuf_verify(&metadata, yyjson_obj_get(yyjson_doc_get_root(doc), "keys"), yyjson_obj_get(yyjson_doc_get_root(doc), "role"),
			    "it", why);
	yyjson_doc_free(doc);
	tuf_metadata_free(&metadata);
	buf_free(&file);
	buf_free(&keys);
	return result;
}

static void digest_of(const char *text, char out[65])
{
	unsigned char digest[32];

	crypto_hash_sha256(digest, (const unsigned char *)text, strlen(text));
	sodium_bin2hex(out, 65, digest, 32);
}

static void test_keys(void **state)
{
	const struct repo_key key = repo_key(1);
	char plain[300], text[400], id[65];

	(void)state;
	snprintf(plain, sizeof(plain), "{\"keytype\":\"ed25519\",\"keyval\":{\"public\":\"%s\"},\"scheme\":\"ed25519\"}", key.hex);
	assert_int_equal(verify_with(key.id, plain, "", 1, key.id, 1), 0);
	assert_int_equal(verify_with(key.id, plain, "", 2, key.id, 1), -EKEYREJECTED);
	assert_int_equal(verify_with(key.id, plain, "", 1, repo_key(2).id, 1), -EKEYREJECTED);
	// A name that is not the key's digest.
	assert_int_equal(verify_with(repo_key(2).id, plain, "", 1, repo_key(2).id, 1), -EKEYREJECTED);
	assert_int_equal(verify_with("short", plain, "", 1, "short", 1), -EKEYREJECTED);
	// A key with more members, named by its whole or by the three.
	snprintf(text, sizeof(text), "{\"keytype\":\"ed25519\",\"keyval\":{\"public\":\"%s\"},\"owner\":\"me\",\"scheme\":\"ed25519\"}",
		 key.hex);
	assert_int_equal(verify_with(key.id, text, "", 1, key.id, 1), 0);
	digest_of(text, id);
	assert_int_equal(verify_with(id, text, "", 1, id, 1), 0);
	// Both names at once: one key.
	assert_int_equal(verify_with(key.id, text, id, 1, key.id, 1), 0);
	assert_int_equal(verify_with(key.id, text, id, 1, key.id, 2), -EKEYREJECTED);
	// Another kind or scheme, rightly named.
	snprintf(text, sizeof(text), "{\"keytype\":\"ed25519\",\"keyval\":{\"public\":\"%s\"},\"scheme\":\"ed448\"}", key.hex);
	digest_of(text, id);
	assert_int_equal(verify_with(id, text, "", 1, id, 1), -EKEYREJECTED);
	snprintf(text, sizeof(text), "{\"keytype\":\"rsa\",\"keyval\":{\"public\":\"%s\"},\"scheme\":\"ed25519\"}", key.hex);
	digest_of(text, id);
	assert_int_equal(verify_with(id, text, "", 1, id, 1), -EKEYREJECTED);
	// Too short a key.
	snprintf(text, sizeof(text), "{\"keytype\":\"ed25519\",\"keyval\":{\"public\":\"%.62s\"},\"scheme\":\"ed25519\"}", key.hex);
	digest_of(text, id);
	assert_int_equal(verify_with(id, text, "", 1, id, 1), -EKEYREJECTED);
}

static void test_hex(void **state)
{
	unsigned char out[4];

	(void)state;
	assert_true(tuf_hex("00ffAB10", 8, out, 4));
	assert_memory_equal(out, "\x00\xff\xab\x10", 4);
	assert_false(tuf_hex("00ffab1", 7, out, 4));
	assert_false(tuf_hex("00ffab", 6, out, 4));
	assert_false(tuf_hex("00ffab1000", 10, out, 4));
	assert_false(tuf_hex("00ffab1g", 8, out, 4));
	assert_false(tuf_hex("00 ffab1", 8, out, 4));
	assert_false(tuf_hex("00ffab10zz", 10, out, 4));
}

static void test_quote(void **state)
{
	char out[32];

	(void)state;
	assert_int_equal(tuf_quote("../a b/c?#%\xc3\xa9~_-.", false, out, sizeof(out)), -ENAMETOOLONG);
	assert_int_equal(tuf_quote("../a b?%\xc3\xa9~_-", false, out, sizeof(out)), 0);
	assert_string_equal(out, "..%2Fa%20b%3F%25%C3%A9~_-");
	assert_int_equal(tuf_quote("a/b", true, out, sizeof(out)), 0);
	assert_string_equal(out, "a/b");
}

static void test_version_order(void **state)
{
	static const char *const rising[] = {"0",	 "0.1", "0.9.9",   "0.10", "1.0-alpha", "1.0-rc1",  "1.0-rc2",
					     "1.0-rc10", "1.0", "1.0.0.1", "1.9",  "1.10",	"999999999"};
	static const char *const none[] = {"", "v1", "1.", ".1", "1..2", "1.2.3.4.5", "1-", "1 ", "1.x", "-1", "+1", "9999999999", "1.2_3"};
	int order = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(rising) / sizeof(rising[0]); i++)
		for (size_t j = 0; j < sizeof(rising) / sizeof(rising[0]); j++) {
			assert_int_equal(tuf_version_compare(rising[i], rising[j], &order), 0);
			if ((order > 0) - (order < 0) != (i > j) - (i < j))
				fail_msg("%s and %s: %d", rising[i], rising[j], order);
		}
	assert_int_equal(tuf_version_compare("1", "1.0.0", &order), 0);
	assert_int_equal(order, 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_int_equal(tuf_version_compare(none[i], "1", &order), -EINVAL);
		assert_int_equal(tuf_version_compare("1", none[i], &order), -EINVAL);
	}
}

// ---- delegations -------------------------------------------------------------------------------------------------

// A delegated role's file: targets and delegations as they stand, signed by key 50.
static void put_delegated(struct repo *repo, const char *name, unsigned version, const char *delegations, const char *targets, int signer)
{
	struct buf body = BUF_INIT, whole = BUF_INIT;
	char file[256];

	buf_append_string(&body, "{\"_type\":\"targets\",");
	if (*delegations)
		buf_printf(&body, "\"delegations\":%s,", delegations);
	buf_printf(&body, "\"expires\":\"%s\",\"spec_version\":\"1.0\",\"targets\":{%s},\"version\":%u}", repo_time(REPO_NOW_S + DAY_S),
		   targets, version);
	repo_sign(body.data, (int[REPO_KEYS]){signer}, &whole);
	snprintf(file, sizeof(file), "%u.%s.json", version, name);
	repo_put(repo, file, whole.data, whole.length);
	buf_free(&body);
	buf_free(&whole);
}

// {"keys":{50},"roles":[...]}: each "name pattern t|-" delegated to key 50.
static void delegations(struct buf *out, const char *const *roles, size_t count)
{
	const struct repo_key key = repo_key(50);

	buf_reset(out);
	buf_append_string(out, "{\"keys\":");
	repo_keys_text((int[]){50}, 1, out);
	buf_append_string(out, ",\"roles\":[");
	for (size_t i = 0; i < count; i++) {
		char name[64], pattern[64], end[8];

		assert_int_equal(sscanf(roles[i], "%63s %63s %7s", name, pattern, end), 3);
		buf_printf(out, "%s{\"keyids\":[\"%s\"],\"name\":\"%s\",\"paths\":[\"%s\"],\"terminating\":%s,\"threshold\":1}",
			   i ? "," : "", key.id, name, pattern, *end == 't' ? "true" : "false");
	}
	buf_append_string(out, "]}");
}

#define TARGET "\"a/b\":{\"hashes\":{\"sha256\":\"00\"},\"length\":5}"

static void test_delegations(void **state)
{
	// "good" has the target, "empty" has not, "foreign" is signed by a stranger, the snapshot knows no "missing".
	static const struct {
		const char *roles[3];
		size_t count;
		bool found;
		const char *last; // asked for; NULL: no delegated role
	} cases[] = {
		{{"good a/* -"}, 1, true, "1.good.json"},
		{{"good a/? -"}, 1, true, "1.good.json"},
		{{"good * -"}, 1, false, NULL}, // a star ends at a slash
		{{"good b/* -", "empty a/* -"}, 2, false, "1.empty.json"},
		{{"empty a/* -", "good a/* -"}, 2, true, "1.good.json"},
		{{"empty a/* t", "good a/* -"}, 2, false, "1.empty.json"},
		{{"empty b/* t", "good a/* -"}, 2, true, "1.good.json"},
		{{"foreign a/* -"}, 1, false, "1.foreign.json"},
		{{"missing a/* -"}, 1, false, NULL},
	};
	static const char *const names[] = {"empty", "foreign", "good"};
	struct world *world = *state;
	uint64_t length = 0;

	put_delegated(world->repo, "good", 1, "", TARGET, 50);
	put_delegated(world->repo, "empty", 1, "", "", 50);
	put_delegated(world->repo, "foreign", 1, "", TARGET, 51);
	for (size_t i = 0; i < 3; i++)
		buf_printf(&world->repo->more_meta, "\"%s.json\":{\"version\":1},", names[i]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int result;

		delegations(&world->repo->delegations, cases[i].roles, cases[i].count);
		repo_release(world->repo);
		result = world_find(world, "a/b", &length);
		if ((result == 0) != cases[i].found)
			fail_msg("case %zu: %s", i, world->why);
		if (cases[i].found)
			assert_int_equal(length, 5);
		if (cases[i].last)
			assert_string_equal(world->repo->last_asked, cases[i].last);
		else
			assert_non_null(strstr(world->repo->last_asked, ".targets.json"));
		for (size_t name = 0; name < 3; name++) {
			char path[128];

			snprintf(path, sizeof(path), "%s/%s.json", world->directory, names[name]);
			unlink(path);
		}
	}
	assert_int_equal(world_find(world, "b", &length), -ENOENT);
}

static void test_delegations_have_an_end(void **state)
{
	static const char *const to_good[] = {"good a/* -"}, *const to_empty[] = {"empty a/* -"}, *const to_chain[] = {"c10 a/* -"};
	struct world *world = *state;
	struct buf text = BUF_INIT;
	char *many[1100];
	uint64_t length;

	// In a circle.
	delegations(&text, to_empty, 1);
	put_delegated(world->repo, "good", 1, text.data, "", 50);
	delegations(&text, to_good, 1);
	put_delegated(world->repo, "empty", 1, text.data, "", 50);
	buf_append_string(&world->repo->more_meta,
			  "\"empty.json\":{\"version\":1},\"good.json\":{\"version\":1},\"other.json\":{\"version\":1},");
	delegations(&world->repo->delegations, to_good, 1);
	repo_release(world->repo);
	assert_int_equal(world_find(world, "a/b", &length), -ENOENT);
	assert_int_equal(world->repo->asked, 6);
	// Each is looked at once: a circle does not use up the search.
	put_delegated(world->repo, "other", 1, "", TARGET, 50);
	delegations(&world->repo->delegations, (const char *const[]){"good a/* -", "other a/* -"}, 2);
	repo_release(world->repo);
	assert_int_equal(world_find(world, "a/b", &length), 0);
	// More that wait than there is room for.
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		assert_true(asprintf(&many[i], "d%zu a/* -", i) > 0);
	delegations(&world->repo->delegations, (const char *const *)many, sizeof(many) / sizeof(many[0]));
	repo_release(world->repo);
	assert_int_equal(world_find(world, "a/b", &length), -E2BIG);
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		free(many[i]);
	// One behind the other: the last that is looked at has it, or the one after that.
	buf_reset(&world->repo->more_meta);
	for (int i = 10; i < 60; i++)
		buf_printf(&world->repo->more_meta, "\"c%d.json\":{\"version\":1},", i);
	buf_append_string(&world->repo->more_meta,
			  "\"empty.json\":{\"version\":1},\"good.json\":{\"version\":1},\"other.json\":{\"version\":1},");
	delegations(&world->repo->delegations, to_chain, 1);
	repo_release(world->repo);
	for (int where = TUF_DELEGATIONS_MAX - 1; where <= TUF_DELEGATIONS_MAX; where++) {
		for (int i = 0; i < 50; i++) {
			char name[16], next[32], path[128];
			const char *one = next;

			snprintf(name, sizeof(name), "c%d", 10 + i);
			snprintf(next, sizeof(next), "c%d a/* -", 11 + i);
			delegations(&text, &one, 1);
			put_delegated(world->repo, name, 1, text.data, i == where ? TARGET : "", 50);
			snprintf(path, sizeof(path), "%s/%s.json", world->directory, name);
			unlink(path);
		}
		assert_int_equal(world_find(world, "a/b", &length), where < TUF_DELEGATIONS_MAX ? 0 : -ENOENT);
	}
	buf_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canonical),     WORLD_TEST(test_form),
		WORLD_TEST(test_form_of_delegations), WORLD_TEST(test_too_many),
		cmocka_unit_test(test_keys),	      cmocka_unit_test(test_hex),
		cmocka_unit_test(test_quote),	      cmocka_unit_test(test_version_order),
		WORLD_TEST(test_delegations),	      WORLD_TEST(test_delegations_have_an_end),
	};

	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
