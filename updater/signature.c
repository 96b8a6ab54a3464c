// SPDX-License-Identifier: Apache-2.0
// Verifier: signatures and digests, with libsodium. A key counts once however often it is named or has signed; what is
// not Ed25519 or not named by its own digest does not count.
#include <errno.h>
#include <sodium.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "updater/canonical.h"
#include "updater/metadata.h"

enum { KEY = crypto_sign_PUBLICKEYBYTES, SIGNATURE = crypto_sign_BYTES };

bool tuf_hex(const char *text, size_t length, unsigned char *out, size_t size)
{
	size_t got;
	const char *end;

	return sodium_hex2bin(out, size, text, length, NULL, &got, &end) == 0 && got == size && end == text + length;
}

static bool digest_is(const struct buf *bytes, const char *name)
{
	unsigned char digest[crypto_hash_sha256_BYTES], said[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(digest, (const unsigned char *)bytes->data, bytes->length);
	return tuf_hex(name, strlen(name), said, sizeof(said)) && memcmp(digest, said, sizeof(said)) == 0;
}

// Of the whole object, as specified, or of the three members that make the key: tools add others later.
static bool name_is_digest(yyjson_val *key, const char *name)
{
	static const char members[][8] = {"keytype", "keyval", "scheme"};
	CLEANUP(buf_free) struct buf bytes = BUF_INIT;

	if (canonical_encode(key, &bytes) < 0)
		return false;
	if (digest_is(&bytes, name))
		return true;
	buf_reset(&bytes);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		yyjson_val *value = yyjson_obj_get(key, members[i]);

		buf_printf(&bytes, "%c\"%s\":", i ? ',' : '{', members[i]);
		if (!value || canonical_encode(value, &bytes) < 0)
			return false;
	}
	buf_append_char(&bytes, '}');
	return buf_error(&bytes) == 0 && digest_is(&bytes, name);
}

static bool is(yyjson_val *object, const char *member, const char *text)
{
	return yyjson_equals_str(yyjson_obj_get(object, member), text);
}

static bool key_read(yyjson_val *keys, const char *name, unsigned char out[KEY])
{
	yyjson_val *key = yyjson_obj_get(keys, name), *text = yyjson_obj_get(yyjson_obj_get(key, "keyval"), "public");

	return is(key, "keytype", "ed25519") && is(key, "scheme", "ed25519") && yyjson_is_str(text) &&
	       tuf_hex(yyjson_get_str(text), yyjson_get_len(text), out, KEY) && name_is_digest(key, name);
}

static bool signed_by(const struct tuf_metadata *metadata, const char *name, const unsigned char key[KEY])
{
	unsigned char signature[SIGNATURE];
	size_t at, count;
	yyjson_val *item;

	yyjson_arr_foreach(metadata->signatures, at, count, item) {
		yyjson_val *text = yyjson_obj_get(item, "sig");

		if (is(item, "keyid", name) &&
		    tuf_hex(yyjson_get_str(text), yyjson_get_len(text), signature, SIGNATURE) &&
		    crypto_sign_verify_detached(signature, (const unsigned char *)metadata->message.data,
						metadata->message.length, key) == 0)
			return true;
	}
	return false;
}

static unsigned signers(const struct tuf_metadata *metadata, yyjson_val *keys, yyjson_val *role)
{
	unsigned char seen[TUF_KEYS_MAX][KEY];
	unsigned count = 0;
	size_t at, names;
	yyjson_val *item;

	yyjson_arr_foreach(yyjson_obj_get(role, "keyids"), at, names, item) {
		const char *name = yyjson_get_str(item);
		bool twice = false;

		if (!key_read(keys, name, seen[count]))
			continue;
		for (unsigned i = 0; i < count; i++)
			twice |= memcmp(seen[i], seen[count], KEY) == 0;
		if (!twice && signed_by(metadata, name, seen[count]))
			count++;
	}
	return count;
}

int tuf_verify(const struct tuf_metadata *metadata, yyjson_val *keys, yyjson_val *role, const char *name,
	       char why[TUF_WHY_SIZE])
{
	uint64_t threshold = yyjson_get_uint(yyjson_obj_get(role, "threshold"));
	unsigned count = signers(metadata, keys, role);

	if (count < threshold)
		return tuf_fail(why, -EKEYREJECTED, "%s: signed by %u of the %" PRIu64 " keys that are needed", name,
				count, threshold);
	return 0;
}

static bool want(yyjson_val *text, bool *has, unsigned char *out, size_t size)
{
	*has = text;
	return !text || tuf_hex(yyjson_get_str(text), yyjson_get_len(text), out, size);
}

int tuf_check_begin(uint64_t length, yyjson_val *hashes, struct tuf_check *ret_check)
{
	struct tuf_check check = {.said = length};

	if (!want(yyjson_obj_get(hashes, "sha256"), &check.has_256, check.want_256, sizeof(check.want_256)) ||
	    !want(yyjson_obj_get(hashes, "sha512"), &check.has_512, check.want_512, sizeof(check.want_512)) ||
	    (!check.has_256 && !check.has_512))
		return -EBADMSG;
	crypto_hash_sha256_init(&check.state_256);
	crypto_hash_sha512_init(&check.state_512);
	*ret_check = check;
	return 0;
}

int tuf_check_add(struct tuf_check *check, const void *data, size_t length)
{
	if (length > check->said - check->got)
		return -EFBIG;
	check->got += length;
	if (check->has_256)
		crypto_hash_sha256_update(&check->state_256, data, length);
	if (check->has_512)
		crypto_hash_sha512_update(&check->state_512, data, length);
	return 0;
}

int tuf_check_end(struct tuf_check *check)
{
	unsigned char got[crypto_hash_sha512_BYTES];

	if (check->said != UINT64_MAX && check->got != check->said)
		return -EBADMSG;
	crypto_hash_sha256_final(&check->state_256, got);
	if (check->has_256 && memcmp(got, check->want_256, sizeof(check->want_256)) != 0)
		return -EBADMSG;
	crypto_hash_sha512_final(&check->state_512, got);
	if (check->has_512 && memcmp(got, check->want_512, sizeof(check->want_512)) != 0)
		return -EBADMSG;
	return 0;
}

int tuf_check_bytes(const void *data, size_t length, uint64_t said_length, yyjson_val *hashes)
{
	struct tuf_check check;
	int result;

	if (said_length != UINT64_MAX && length != said_length)
		return -EBADMSG;
	if (!hashes)
		return 0;
	result = tuf_check_begin(said_length, hashes, &check);
	if (result == 0)
		result = tuf_check_add(&check, data, length);
	return result < 0 ? result : tuf_check_end(&check);
}
