// SPDX-License-Identifier: Apache-2.0
// `tracer update`: where bytes come from, the child with the network or a bundle. Believes neither: whoever asks
// verifies.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/update.h"

static int from_bundle(const struct bundle *bundle, const char *name, uint64_t max,
		       int (*take)(void *context, const void *data, size_t length), void *context,
		       char why[TUF_WHY_SIZE])
{
	const struct bundle_entry *entry = bundle_find(bundle, name);
	int result;

	if (!entry)
		return tuf_fail(why, -ENOENT, "%s: not in the bundle", name);
	if (entry->size > max)
		return tuf_fail(why, -EFBIG, "%s: too long", name);
	result = bundle_read(bundle, entry, take, context);
	return result < 0 ? tuf_fail(why, result, "%s: %s", name, strerror(-result)) : 0;
}

int update_source_get(struct update_source *source, const char *name, uint64_t max,
		      int (*take)(void *context, const void *data, size_t length), void *context,
		      char why[TUF_WHY_SIZE])
{
	bool target = strncmp(name, "targets/", 8) == 0;
	const char *base = target ? source->target_url : source->metadata_url;
	char url[FETCH_URL_SIZE], reason[FETCH_WHY_SIZE];
	int result;

	if (!source->fetch)
		return from_bundle(&source->bundle, name, max, take, context, why);
	if ((size_t)snprintf(url, sizeof(url), "%s/%s", base, strchr(name, '/') + 1) >= sizeof(url))
		return tuf_fail(why, -ENAMETOOLONG, "%s: the URL is too long", name);
	result = fetch_get(source->fetch, url, max, take, context, reason);
	return result < 0 ? tuf_fail(why, result, "%s: %s", strchr(name, '/') + 1, reason) : 0;
}

static int on_bytes(void *context, const void *data, size_t length)
{
	struct buf *out = context;

	buf_append(out, data, length);
	return buf_error(out);
}

int update_source_fetch(void *context, const char *name, uint64_t max, struct buf *out, char why[TUF_WHY_SIZE])
{
	char whole[BUNDLE_NAME_SIZE];

	if ((size_t)snprintf(whole, sizeof(whole), "metadata/%s", name) >= sizeof(whole))
		return tuf_fail(why, -ENAMETOOLONG, "%s: the name is too long", name);
	return update_source_get(context, whole, max, on_bytes, out, why);
}
