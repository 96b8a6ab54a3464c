// SPDX-License-Identifier: Apache-2.0
// A repository of The Update Framework in memory, written and signed by hand: bodies are put down in canonical form, so that what is
// signed here does not come from the code under test. Key n is made from a seed of its number.
#pragma once

#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/buf.h"
#include "updater/client.h"

enum { DAY_S = 86400, REPO_FILES = 700, REPO_KEYS = 8 };

#define REPO_NOW_S 1800000000 // 2027-01-15

struct repo_role {
	uint64_t version;
	int64_t expires_s;
	int keys[REPO_KEYS], signers[REPO_KEYS]; // numbers of keys, ended by 0
	unsigned threshold;
};

struct repo {
	struct repo_role roles[TUF_TYPES];
	bool consistent, describe; // describe: digests of metadata in metadata
	struct buf targets, more_meta, delegations; // members, as they stand in targets.json and snapshot.json
	char described[TUF_TYPES][500]; // what the next file says of this one
	struct {
		char name[256];
		struct buf bytes;
	} files[REPO_FILES];
	size_t file_count;
	bool ignores_max; // the source gives more than it was asked for
	unsigned asked;
	char last_asked[256];
};

struct repo_key {
	unsigned char public[32], secret[64];
	char hex[65], id[65];
};

static inline struct repo_key repo_key(int number)
{
	unsigned char seed[32] = {0}, digest[32];
	struct repo_key key;
	char text[256];

	memcpy(seed, &number, sizeof(number));
	crypto_sign_seed_keypair(key.public, key.secret, seed);
	sodium_bin2hex(key.hex, sizeof(key.hex), key.public, 32);
	snprintf(text, sizeof(text), "{\"keytype\":\"ed25519\",\"keyval\":{\"public\":\"%s\"},\"scheme\":\"ed25519\"}", key.hex);
	crypto_hash_sha256(digest, (unsigned char *)text, strlen(text));
	sodium_bin2hex(key.id, sizeof(key.id), digest, 32);
	return key;
}

static inline void repo_put(struct repo *repo, const char *name, const void *data, size_t length)
{
	size_t i = 0;

	while (i < repo->file_count && strcmp(repo->files[i].name, name) != 0)
		i++;
	if (i == REPO_FILES)
		abort();
	if (i == repo->file_count)
		snprintf(repo->files[repo->file_count++].name, sizeof(repo->files[i].name), "%s", name);
	buf_reset(&repo->files[i].bytes);
	buf_append(&repo->files[i].bytes, data, length);
}

static inline struct buf *repo_file(struct repo *repo, const char *name)
{
	for (size_t i = 0; i < repo->file_count; i++)
		if (strcmp(repo->files[i].name, name) == 0)
			return &repo->files[i].bytes;
	return NULL;
}

static inline void repo_drop(struct repo *repo, const char *name)
{
	struct buf *bytes = repo_file(repo, name);

	if (bytes)
		repo->files[((char *)bytes - (char *)repo->files) / sizeof(repo->files[0])].name[0] = 0;
}

static inline const char *repo_time(int64_t at_s)
{
	static char text[32];
	time_t time = at_s;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime(&time));
	return text;
}

// {"signatures":[...],"signed":BODY} with the body as it stands.
static inline void repo_sign(const char *body, const int *signers, struct buf *out)
{
	buf_reset(out);
	buf_append_string(out, "{\"signatures\":[");
	for (int i = 0; i < REPO_KEYS && signers[i]; i++) {
		struct repo_key key = repo_key(signers[i]);
		unsigned char signature[64];
		char hex[129];

		crypto_sign_detached(signature, NULL, (const unsigned char *)body, strlen(body), key.secret);
		sodium_bin2hex(hex, sizeof(hex), signature, 64);
		buf_printf(out, "%s{\"keyid\":\"%s\",\"sig\":\"%s\"}", i ? "," : "", key.id, hex);
	}
	buf_printf(out, "],\"signed\":%s}", body);
}

static inline int repo_compare(const void *a, const void *b)
{
	return strcmp(((const struct repo_key *)a)->id, ((const struct repo_key *)b)->id);
}

static inline void repo_keys_text(const int *numbers, size_t count, struct buf *out)
{
	struct repo_key keys[TUF_TYPES * REPO_KEYS];
	bool first = true;

	for (size_t i = 0; i < count; i++)
		keys[i] = repo_key(numbers[i]);
	qsort(keys, count, sizeof(keys[0]), repo_compare);
	buf_append_char(out, '{');
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && strcmp(keys[i - 1].id, keys[i].id) == 0)
			continue;
		buf_printf(out, "%s\"%s\":{\"keytype\":\"ed25519\",\"keyval\":{\"public\":\"%s\"},\"scheme\":\"ed25519\"}",
			   first ? "" : ",", keys[i].id, keys[i].hex);
		first = false;
	}
	buf_append_char(out, '}');
}

static inline void repo_role_text(const struct repo_role *role, struct buf *out)
{
	buf_append_string(out, "{\"keyids\":[");
	for (int i = 0; i < REPO_KEYS && role->keys[i]; i++)
		buf_printf(out, "%s\"%s\"", i ? "," : "", repo_key(role->keys[i]).id);
	buf_printf(out, "],\"threshold\":%u}", role->threshold);
}

static inline void repo_root_body(struct repo *repo, struct buf *out)
{
	static const enum tuf_type order[] = {TUF_ROOT, TUF_SNAPSHOT, TUF_TARGETS, TUF_TIMESTAMP};
	int numbers[TUF_TYPES * REPO_KEYS];
	size_t count = 0;

	buf_printf(out, "{\"_type\":\"root\",\"consistent_snapshot\":%s,\"expires\":\"%s\",\"keys\":", repo->consistent ? "true" : "false",
		   repo_time(repo->roles[TUF_ROOT].expires_s));
	for (int type = 0; type < TUF_TYPES; type++)
		for (int i = 0; i < REPO_KEYS && repo->roles[type].keys[i]; i++)
			numbers[count++] = repo->roles[type].keys[i];
	repo_keys_text(numbers, count, out);
	buf_append_string(out, ",\"roles\":{");
	for (int i = 0; i < TUF_TYPES; i++) {
		buf_printf(out, "%s\"%s\":", i ? "," : "", tuf_type_names[order[i]]);
		repo_role_text(&repo->roles[order[i]], out);
	}
	buf_printf(out, "},\"spec_version\":\"1.0.31\",\"version\":%llu}", (unsigned long long)repo->roles[TUF_ROOT].version);
}

static inline void repo_body(struct repo *repo, enum tuf_type type, struct buf *out)
{
	const struct repo_role *role = &repo->roles[type];

	if (type == TUF_ROOT) {
		repo_root_body(repo, out);
		return;
	}
	buf_printf(out, "{\"_type\":\"%s\",", tuf_type_names[type]);
	if (type == TUF_TARGETS && repo->delegations.length)
		buf_printf(out, "\"delegations\":%s,", repo->delegations.data);
	buf_printf(out, "\"expires\":\"%s\",", repo_time(role->expires_s));
	if (type == TUF_TIMESTAMP)
		buf_printf(out, "\"meta\":{\"snapshot.json\":%s},", repo->described[TUF_SNAPSHOT]);
	if (type == TUF_SNAPSHOT)
		buf_printf(out, "\"meta\":{%s\"targets.json\":%s},", repo->more_meta.data ? repo->more_meta.data : "",
			   repo->described[TUF_TARGETS]);
	buf_append_string(out, "\"spec_version\":\"1.0.31\",");
	if (type == TUF_TARGETS)
		buf_printf(out, "\"targets\":{%s},", repo->targets.data ? repo->targets.data : "");
	buf_printf(out, "\"version\":%llu}", (unsigned long long)role->version);
}

static inline void repo_digest(const void *data, size_t length, char out[320])
{
	unsigned char digest[64];
	char hex[129], longer[129];

	crypto_hash_sha256(digest, data, length);
	sodium_bin2hex(hex, sizeof(hex), digest, 32);
	crypto_hash_sha512(digest, data, length);
	sodium_bin2hex(longer, sizeof(longer), digest, 64);
	snprintf(out, 320, "{\"sha256\":\"%s\",\"sha512\":\"%s\"}", hex, longer);
}

// Signs and shows one role as it is now.
static inline void repo_publish(struct repo *repo, enum tuf_type type)
{
	const struct repo_role *role = &repo->roles[type];
	struct buf body = BUF_INIT, whole = BUF_INIT;
	char name[64], digest[320];

	repo_body(repo, type, &body);
	repo_sign(body.data, role->signers, &whole);
	snprintf(name, sizeof(name), "%llu.%s.json", (unsigned long long)role->version, tuf_type_names[type]);
	if (type == TUF_TIMESTAMP || (type != TUF_ROOT && !repo->consistent))
		snprintf(name, sizeof(name), "%s.json", tuf_type_names[type]);
	repo_put(repo, name, whole.data, whole.length);
	repo_digest(whole.data, whole.length, digest);
	if (repo->describe)
		snprintf(repo->described[type], sizeof(repo->described[type]), "{\"hashes\":%s,\"length\":%zu,\"version\":%llu}", digest,
			 whole.length, (unsigned long long)role->version);
	else
		snprintf(repo->described[type], sizeof(repo->described[type]), "{\"version\":%llu}", (unsigned long long)role->version);
	buf_free(&body);
	buf_free(&whole);
}

// The next version of targets, snapshot and timestamp.
static inline void repo_release(struct repo *repo)
{
	for (int type = TUF_TARGETS; type >= TUF_TIMESTAMP; type--) {
		static const enum tuf_type order[] = {0, TUF_TIMESTAMP, TUF_SNAPSHOT, TUF_TARGETS};

		repo->roles[order[type]].version++;
		repo_publish(repo, order[type]);
	}
}

static inline void repo_root(struct repo *repo)
{
	repo->roles[TUF_ROOT].version++;
	repo_publish(repo, TUF_ROOT);
}

// Root 3 of 5 (keys 1 to 5), targets 2 of 3 (11 to 13), timestamp 21, snapshot 31; all in version 1, for a hundred days.
static inline struct repo *repo_new(void)
{
	struct repo *repo = calloc(1, sizeof(*repo));

	if (!repo || sodium_init() < 0)
		abort();
	repo->consistent = true;
	repo->roles[TUF_ROOT] = (struct repo_role){.keys = {1, 2, 3, 4, 5}, .signers = {1, 2, 3}, .threshold = 3};
	repo->roles[TUF_TARGETS] = (struct repo_role){.keys = {11, 12, 13}, .signers = {11, 13}, .threshold = 2};
	repo->roles[TUF_TIMESTAMP] = (struct repo_role){.keys = {21}, .signers = {21}, .threshold = 1};
	repo->roles[TUF_SNAPSHOT] = (struct repo_role){.keys = {31}, .signers = {31}, .threshold = 1};
	for (int type = 0; type < TUF_TYPES; type++)
		repo->roles[type].expires_s = REPO_NOW_S + 100 * DAY_S;
	repo_root(repo);
	repo_release(repo);
	return repo;
}

static inline void repo_free(struct repo *repo)
{
	for (size_t i = 0; i < repo->file_count; i++)
		buf_free(&repo->files[i].bytes);
	buf_free(&repo->targets);
	buf_free(&repo->more_meta);
	buf_free(&repo->delegations);
	free(repo);
}

static inline int repo_fetch(void *context, const char *name, uint64_t max, struct buf *out, char why[TUF_WHY_SIZE])
{
	struct repo *repo = context;
	struct buf *bytes = repo_file(repo, name);

	repo->asked++;
	snprintf(repo->last_asked, sizeof(repo->last_asked), "%s", name);
	if (!bytes)
		return tuf_fail(why, -ENOENT, "not there");
	if (bytes->length > max && !repo->ignores_max)
		return -EFBIG;
	buf_append(out, bytes->data, bytes->length);
	return 0;
}
