// SPDX-License-Identifier: Apache-2.0
// One metadata file of The Update Framework 1.0: read, its form checked, its signatures counted. Says nothing about
// versions or time: updater/client.h does.
#pragma once

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yyjson.h>

#include "core/base/buf.h"

enum {
	TUF_WHY_SIZE = 256,
	TUF_KEYS_MAX = 64, // of one role
	TUF_SIGNATURES_MAX = 256, // of one file
	TUF_NAME_MAX = 200, // bytes of a delegated role's name as it stands in a file's name
};

enum tuf_type { TUF_ROOT, TUF_TIMESTAMP, TUF_SNAPSHOT, TUF_TARGETS, TUF_TYPES };

extern const char *const tuf_type_names[TUF_TYPES];

struct tuf_metadata {
	yyjson_doc *doc; // NULL: none
	yyjson_val *body; // what is signed
	yyjson_val *signatures;
	struct buf message; // body in canonical form
	uint64_t version;
	int64_t expires_s; // Unix time
};

// What one file says of another.
struct tuf_meta_file {
	uint64_t version;
	uint64_t length; // UINT64_MAX: not said
	yyjson_val *hashes; // NULL: not said
};

// Fills why with a sentence made harmless, and returns error.
__attribute__((format(printf, 3, 4))) int tuf_fail(char why[TUF_WHY_SIZE], int error, const char *format, ...);

// Reads one file. -EBADMSG: it is not metadata of that type in the form that the specification asks for. Fields that it
// does not know stay in the message. Release with tuf_metadata_free(), which takes a zeroed one.
int tuf_metadata_parse(const void *data, size_t length, enum tuf_type type, struct tuf_metadata *ret_metadata,
		       char why[TUF_WHY_SIZE]);
void tuf_metadata_free(struct tuf_metadata *metadata);

// 0, or -EKEYREJECTED when fewer different keys than the role's threshold have signed. keys: the table that its names
// stand in; name is for the sentence. A key of a kind other than Ed25519, or whose name is not the digest of itself,
// is none.
int tuf_verify(const struct tuf_metadata *metadata, yyjson_val *keys, yyjson_val *role, const char *name,
	       char why[TUF_WHY_SIZE]);

yyjson_val *tuf_root_keys(const struct tuf_metadata *root);
yyjson_val *tuf_root_role(const struct tuf_metadata *root, enum tuf_type role);

// False when there is nothing about name (with its ".json") in a timestamp or snapshot.
bool tuf_meta_find(const struct tuf_metadata *metadata, const char *name, struct tuf_meta_file *ret_file);

// Length and digests of bytes that come in pieces.
struct tuf_check {
	uint64_t said, got;
	bool has_256, has_512;
	unsigned char want_256[crypto_hash_sha256_BYTES], want_512[crypto_hash_sha512_BYTES];
	crypto_hash_sha256_state state_256;
	crypto_hash_sha512_state state_512;
};
// hashes: algorithm to hexadecimal, at least one of them sha256 or sha512, else -EBADMSG. length UINT64_MAX: any.
int tuf_check_begin(uint64_t length, yyjson_val *hashes, struct tuf_check *ret_check);
int tuf_check_add(struct tuf_check *check, const void *data, size_t length); // -EFBIG: longer than it should be
int tuf_check_end(struct tuf_check *check); // -EBADMSG: shorter, or another digest
// The same for bytes that are all there. Neither said: 0.
int tuf_check_bytes(const void *data, size_t length, uint64_t said_length, yyjson_val *hashes);

bool tuf_hex(const char *text, size_t length, unsigned char *out, size_t size); // exactly size bytes
// A name as one piece of a path or URL; keep_slash: as several. -ENAMETOOLONG.
int tuf_quote(const char *name, bool keep_slash, char *out, size_t size);
