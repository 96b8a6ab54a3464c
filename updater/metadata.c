// SPDX-License-Identifier: Apache-2.0
// Verifier: the form of one metadata file. Everything a later step relies on is checked here, once: types, ranges, the
// roles of a root, the parts of a delegation. What is not known is left alone and stays in the signed bytes.
#include "updater/metadata.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "updater/canonical.h"

const char *const tuf_type_names[TUF_TYPES] = {"root", "timestamp", "snapshot", "targets"};

int tuf_fail(char why[TUF_WHY_SIZE], int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, TUF_WHY_SIZE, format, arguments);
	va_end(arguments);
	for (char *c = why; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return error;
}

// "2030-12-31T23:59:59Z" and nothing else: written again, it is the same.
static bool read_time(yyjson_val *value, int64_t *ret_s)
{
	const char *text = yyjson_get_str(value), format[] = "%Y-%m-%dT%H:%M:%SZ";
	struct tm parts = {0};
	char again[32];
	time_t time;

	if (!text || !strptime(text, format, &parts))
		return false;
	time = timegm(&parts);
	if (!gmtime_r(&time, &parts) || strftime(again, sizeof(again), format, &parts) != yyjson_get_len(value) ||
	    strcmp(text, again) != 0)
		return false;
	*ret_s = time;
	return true;
}

static bool text_fine(yyjson_val *value)
{
	// No NUL inside: names become C strings.
	return yyjson_is_str(value) && yyjson_get_len(value) > 0 &&
	       strlen(yyjson_get_str(value)) == yyjson_get_len(value);
}

static bool texts_fine(yyjson_val *list)
{
	size_t at, count;
	yyjson_val *item;

	if (!yyjson_is_arr(list))
		return false;
	yyjson_arr_foreach(list, at, count, item)
		if (!text_fine(item))
			return false;
	return true;
}

static bool role_fine(yyjson_val *role)
{
	yyjson_val *names = yyjson_obj_get(role, "keyids");

	return texts_fine(names) && yyjson_arr_size(names) <= TUF_KEYS_MAX &&
	       yyjson_is_uint(yyjson_obj_get(role, "threshold")) &&
	       yyjson_get_uint(yyjson_obj_get(role, "threshold")) > 0;
}

static bool hashes_fine(yyjson_val *hashes)
{
	size_t at, count;
	yyjson_val *key, *value;

	if (!yyjson_is_obj(hashes) || yyjson_obj_size(hashes) == 0)
		return false;
	yyjson_obj_foreach(hashes, at, count, key, value)
		if (!text_fine(value))
			return false;
	return true;
}

static bool meta_file_fine(yyjson_val *file)
{
	yyjson_val *length = yyjson_obj_get(file, "length"), *hashes = yyjson_obj_get(file, "hashes"),
		   *version = yyjson_obj_get(file, "version");

	return yyjson_is_uint(version) && yyjson_get_uint(version) > 0 && (!length || yyjson_is_uint(length)) &&
	       (!hashes || hashes_fine(hashes));
}

static bool root_fine(yyjson_val *body)
{
	yyjson_val *keys = yyjson_obj_get(body, "keys"), *roles = yyjson_obj_get(body, "roles"),
		   *consistent = yyjson_obj_get(body, "consistent_snapshot");

	if (!yyjson_is_obj(keys) || (consistent && !yyjson_is_bool(consistent)))
		return false;
	for (int type = 0; type < TUF_TYPES; type++)
		if (!role_fine(yyjson_obj_get(roles, tuf_type_names[type])))
			return false;
	return true;
}

static bool meta_fine(yyjson_val *body, const char *needed)
{
	yyjson_val *meta = yyjson_obj_get(body, "meta");
	size_t at, count;
	yyjson_val *key, *value;

	if (!yyjson_obj_get(meta, needed))
		return false;
	yyjson_obj_foreach(meta, at, count, key, value)
		if (!text_fine(key) || !meta_file_fine(value))
			return false;
	return true;
}

static bool delegated_fine(yyjson_val *role)
{
	yyjson_val *name = yyjson_obj_get(role, "name"), *paths = yyjson_obj_get(role, "paths"),
		   *prefixes = yyjson_obj_get(role, "path_hash_prefixes");
	char quoted[TUF_NAME_MAX];

	if (!text_fine(name) || tuf_quote(yyjson_get_str(name), false, quoted, sizeof(quoted)) < 0)
		return false;
	// Its file would be that of a role which only the root may speak for.
	for (int type = 0; type < TUF_TYPES; type++)
		if (strcmp(yyjson_get_str(name), tuf_type_names[type]) == 0)
			return false;
	return role_fine(role) && yyjson_is_bool(yyjson_obj_get(role, "terminating")) && !paths != !prefixes &&
	       (!paths || texts_fine(paths)) && (!prefixes || texts_fine(prefixes));
}

static bool delegations_fine(yyjson_val *delegations)
{
	yyjson_val *roles = yyjson_obj_get(delegations, "roles"), *role;
	size_t at, count;

	if (!yyjson_is_obj(yyjson_obj_get(delegations, "keys")) || !yyjson_is_arr(roles))
		return false;
	yyjson_arr_foreach(roles, at, count, role)
		if (!delegated_fine(role))
			return false;
	return true;
}

static bool targets_fine(yyjson_val *body)
{
	yyjson_val *targets = yyjson_obj_get(body, "targets"), *delegations = yyjson_obj_get(body, "delegations"), *key,
		   *value, *custom;
	size_t at, count;

	if (!yyjson_is_obj(targets))
		return false;
	yyjson_obj_foreach(targets, at, count, key, value) {
		custom = yyjson_obj_get(value, "custom");
		if (!text_fine(key) || !yyjson_is_uint(yyjson_obj_get(value, "length")) ||
		    !hashes_fine(yyjson_obj_get(value, "hashes")) || (custom && !yyjson_is_obj(custom)))
			return false;
	}
	return !delegations || delegations_fine(delegations);
}

static bool signatures_fine(yyjson_val *signatures)
{
	size_t at, count;
	yyjson_val *item;

	if (!yyjson_is_arr(signatures) || yyjson_arr_size(signatures) > TUF_SIGNATURES_MAX)
		return false;
	yyjson_arr_foreach(signatures, at, count, item)
		if (!text_fine(yyjson_obj_get(item, "keyid")) || !yyjson_is_str(yyjson_obj_get(item, "sig")))
			return false;
	return true;
}

static bool body_fine(yyjson_val *body, enum tuf_type type)
{
	if (type == TUF_ROOT || type == TUF_TARGETS)
		return type == TUF_ROOT ? root_fine(body) : targets_fine(body);
	return meta_fine(body, type == TUF_TIMESTAMP ? "snapshot.json" : "targets.json");
}

static int parse(const void *data, size_t length, enum tuf_type type, struct tuf_metadata *metadata,
		 char why[TUF_WHY_SIZE])
{
	const char *name = tuf_type_names[type], *kind, *specification;
	struct buf whole = BUF_INIT;
	yyjson_read_err error;
	yyjson_val *top, *version;
	int result;

	// Without YYJSON_READ_INSITU the bytes are only read.
	metadata->doc = yyjson_read_opts((char *)(uintptr_t)data, length, YYJSON_READ_NOFLAG, NULL, &error);
	if (!metadata->doc)
		return tuf_fail(why, -EBADMSG, "%s: not JSON: %s at byte %zu", name, error.msg, error.pos);
	top = yyjson_doc_get_root(metadata->doc);
	// Also for what is outside of the signed part: a key that comes twice would be two documents.
	result = canonical_encode(top, &whole);
	buf_free(&whole);
	metadata->body = yyjson_obj_get(top, "signed");
	metadata->signatures = yyjson_obj_get(top, "signatures");
	if (result == 0)
		result = canonical_encode(metadata->body, &metadata->message);
	if (result < 0)
		return tuf_fail(why, result, "%s: it has no canonical form", name);
	kind = yyjson_get_str(yyjson_obj_get(metadata->body, "_type"));
	if (!kind || strcmp(kind, name) != 0)
		return tuf_fail(why, -EBADMSG, "%s: the file is of the type %s", name, kind ? kind : "of none");
	specification = yyjson_get_str(yyjson_obj_get(metadata->body, "spec_version"));
	if (!specification || strncmp(specification, "1.", 2) != 0)
		return tuf_fail(why, -EBADMSG, "%s: not of version 1 of the specification", name);
	version = yyjson_obj_get(metadata->body, "version");
	if (!yyjson_is_uint(version) || yyjson_get_uint(version) == 0)
		return tuf_fail(why, -EBADMSG, "%s: its version is no number from 1 up", name);
	metadata->version = yyjson_get_uint(version);
	if (!read_time(yyjson_obj_get(metadata->body, "expires"), &metadata->expires_s))
		return tuf_fail(why, -EBADMSG, "%s: it does not say when it expires", name);
	if (!signatures_fine(metadata->signatures) || !body_fine(metadata->body, type))
		return tuf_fail(why, -EBADMSG, "%s: a part is missing or of the wrong form", name);
	return 0;
}

int tuf_metadata_parse(const void *data, size_t length, enum tuf_type type, struct tuf_metadata *ret_metadata,
		       char why[TUF_WHY_SIZE])
{
	struct tuf_metadata metadata = {0};
	int result = parse(data, length, type, &metadata, why);

	if (result < 0)
		tuf_metadata_free(&metadata);
	else
		*ret_metadata = metadata;
	return result;
}

void tuf_metadata_free(struct tuf_metadata *metadata)
{
	yyjson_doc_free(metadata->doc);
	buf_free(&metadata->message);
	*metadata = (struct tuf_metadata){0};
}

yyjson_val *tuf_root_keys(const struct tuf_metadata *root)
{
	return yyjson_obj_get(root->body, "keys");
}

yyjson_val *tuf_root_role(const struct tuf_metadata *root, enum tuf_type role)
{
	return yyjson_obj_get(yyjson_obj_get(root->body, "roles"), tuf_type_names[role]);
}

bool tuf_meta_find(const struct tuf_metadata *metadata, const char *name, struct tuf_meta_file *ret_file)
{
	yyjson_val *file = yyjson_obj_get(yyjson_obj_get(metadata->body, "meta"), name), *length;

	if (!file)
		return false;
	length = yyjson_obj_get(file, "length");
	*ret_file = (struct tuf_meta_file){
		.version = yyjson_get_uint(yyjson_obj_get(file, "version")),
		.length = length ? yyjson_get_uint(length) : UINT64_MAX,
		.hashes = yyjson_obj_get(file, "hashes"),
	};
	return true;
}

int tuf_quote(const char *name, bool keep_slash, char *out, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~";
	size_t at = 0;

	for (; *name; name++) {
		bool as_is = strchr(plain, *name) || (keep_slash && *name == '/');

		if (at + 4 > size)
			return -ENAMETOOLONG;
		at += (size_t)snprintf(out + at, size - at, as_is ? "%c" : "%%%02X",
				       as_is ? *name : (unsigned char)*name);
	}
	out[at] = 0;
	return 0;
}
