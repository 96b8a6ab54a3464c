// SPDX-License-Identifier: Apache-2.0
// Verifier: the right software. A target that is signed is still the wrong one when it is for another product, channel
// or machine, not newer, or too far ahead of what runs.
#include "updater/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4 };

struct version {
	unsigned long parts[PARTS];
	const char *name; // behind the "-"; NULL: none
};

static int version_read(const char *text, struct version *ret_version)
{
	struct version version = {.name = NULL};

	for (int i = 0;; i++) {
		char *end;

		if (i == PARTS || !isdigit((unsigned char)*text) || strspn(text, "0123456789") > 9)
			return -EINVAL;
		version.parts[i] = strtoul(text, &end, 10);
		text = end;
		if (*text != '.')
			break;
		text++;
	}
	if (*text && (*text != '-' || !text[1]))
		return -EINVAL;
	version.name = *text ? text + 1 : NULL;
	*ret_version = version;
	return 0;
}

int tuf_version_compare(const char *left, const char *right, int *ret_order)
{
	struct version a, b;

	if (version_read(left, &a) < 0 || version_read(right, &b) < 0)
		return -EINVAL;
	*ret_order = 0;
	for (int i = 0; i < PARTS && *ret_order == 0; i++)
		*ret_order = (a.parts[i] > b.parts[i]) - (a.parts[i] < b.parts[i]);
	if (*ret_order == 0)
		*ret_order = a.name && b.name ? strverscmp(a.name, b.name) : !a.name - !b.name;
	return 0;
}

static const char *said(const struct tuf_target *target, const char *member)
{
	const char *text = yyjson_get_str(yyjson_obj_get(target->custom, member));

	return text ? text : "";
}

const char *tuf_unfit(const struct tuf_target *target, const struct tuf_wanted *wanted)
{
	yyjson_val *minimum = yyjson_obj_get(target->custom, "minimum_version");
	int order;

	if (strcmp(said(target, "product"), wanted->product) != 0)
		return "another product";
	if (strcmp(said(target, "channel"), wanted->channel) != 0)
		return "another channel";
	if (strcmp(said(target, "architecture"), wanted->architecture) != 0)
		return "another architecture";
	if (tuf_version_compare(said(target, "version"), wanted->version, &order) < 0)
		return "no version";
	if (order <= 0)
		return "not newer";
	if (minimum && (tuf_version_compare(said(target, "minimum_version"), wanted->version, &order) < 0 || order > 0))
		return "an older version has to come in between";
	return NULL;
}

int tuf_pick(struct tuf_client *client, const struct tuf_wanted *wanted, const char **ret_path,
	     struct tuf_target *ret_target)
{
	yyjson_val *targets = yyjson_obj_get(client->trusted[TUF_TARGETS].body, "targets"), *key, *value;
	struct tuf_target best = {0}, target = {0};
	const char *path = NULL;
	size_t at, count;
	int order;

	yyjson_obj_foreach(targets, at, count, key, value) {
		tuf_target_of(value, &target);
		if (tuf_unfit(&target, wanted) || (wanted->takes && !wanted->takes(wanted->context, &target)))
			continue;
		if (path &&
		    (tuf_version_compare(said(&target, "version"), said(&best, "version"), &order) < 0 || order <= 0))
			continue;
		best = target;
		path = yyjson_get_str(key);
	}
	if (!path)
		return tuf_fail(client->why, -ENOENT, "nothing newer than %s", wanted->version);
	*ret_path = path;
	*ret_target = best;
	return 0;
}
