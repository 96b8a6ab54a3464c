// SPDX-License-Identifier: Apache-2.0
// Any bytes as metadata of an update: read or refused with a reason; what is read has a canonical form that means the same when it is
// read again, its signatures can be counted, its delegations searched, its targets picked from and its times said.
//
// Input: the first byte says as which role. A K stands for a key that exists and an S for that key's signature over the rest, as far
// as there is one: else nothing that is signed would ever be seen.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/update_repository.h"
#include "updater/canonical.h"
#include "updater/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : abort())

static const int signers[REPO_KEYS] = {50};

// The text with its marks filled in, and, when it is a body, signed.
static void make(const char *text, size_t length, bool sign, struct buf *out)
{
	struct buf body = BUF_INIT;
	struct repo_key key = repo_key(50);

	for (size_t i = 0; i < length; i++) {
		if (text[i] == 'K')
			buf_append_string(&body, key.id);
		else if (text[i] == 'P')
			buf_append_string(&body, key.hex);
		else
			buf_append_char(&body, text[i]);
	}
	if (sign && body.data && !memchr(body.data, 0, body.length))
		repo_sign(body.data, signers, out);
	else
		buf_append(out, body.data ? body.data : "", body.length);
	buf_free(&body);
}

static void look(const struct buf *bytes, enum tuf_type type)
{
	struct tuf_metadata metadata = {0}, again = {0};
	struct buf canonical = BUF_INIT;
	char why[TUF_WHY_SIZE] = "";
	int result = tuf_metadata_parse(bytes->data ? bytes->data : "", bytes->length, type, &metadata, why);

	MUST(result == 0 || (result < 0 && why[0] && !metadata.doc));
	if (result < 0)
		return;
	MUST(metadata.version > 0);
	// The canonical form reads as the same, and is its own canonical form.
	buf_printf(&canonical, "{\"signatures\":[],\"signed\":");
	for (size_t i = 0; i < metadata.message.length; i++) {
		unsigned char c = (unsigned char)metadata.message.data[i];

		if (c < ' ') // as it is signed, but no JSON
			buf_printf(&canonical, "\\u%04x", c);
		else
			buf_append_char(&canonical, (char)c);
	}
	buf_append_char(&canonical, '}');
	MUST(tuf_metadata_parse(canonical.data, canonical.length, type, &again, why) == 0);
	MUST(again.message.length == metadata.message.length &&
	     memcmp(again.message.data, metadata.message.data, again.message.length) == 0);
	MUST(again.version == metadata.version && again.expires_s == metadata.expires_s);
	if (type == TUF_ROOT) {
		for (int role = 0; role < TUF_TYPES; role++)
			(void)tuf_verify(&metadata, tuf_root_keys(&metadata), tuf_root_role(&metadata, role), "it", why);
		// Nobody has signed this one.
		MUST(tuf_verify(&again, tuf_root_keys(&again), tuf_root_role(&again, TUF_ROOT), "it", why) == -EKEYREJECTED);
	}
	if (type == TUF_TARGETS) {
		const struct tuf_wanted wanted = {"tracer", "stable", "x86_64", "1.0", NULL, NULL};
		struct tuf_client client = {.directory = "/nonexistent", .lock_fd = -1};
		struct tuf_target target = {0};
		const char *path;
		char url[600];

		client.trusted[TUF_TARGETS] = metadata;
		if (tuf_pick(&client, &wanted, &path, &target) == 0) {
			MUST(!tuf_unfit(&target, &wanted));
			(void)tuf_target_url(&client, &target, path, url, sizeof(url));
		}
		memset(&target, 0, sizeof(target));
		if (tuf_find(&client, "a/b", &target) == 0)
			tuf_target_free(&target);
	}
	tuf_metadata_free(&metadata);
	tuf_metadata_free(&again);
	buf_free(&canonical);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf bytes = BUF_INIT;

	if (size == 0 || sodium_init() < 0)
		return 0;
	size -= size > 1 && data[size - 1] == '\n';
	make((const char *)data + 1, size - 1, data[0] & 4, &bytes);
	look(&bytes, data[0] & 3);
	buf_free(&bytes);
	return 0;
}
