// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer update`.
#pragma once

#include "updater/client.h"
#include "updater/bundle.h"
#include "updater/fetch.h"

// Where bytes come from: a server or a bundle. name: as in a URL, from metadata/ or targets/ on.
struct update_source {
	struct fetch *fetch; // NULL: from the bundle
	const char *metadata_url, *target_url; // without a slash at the end
	struct bundle bundle;
};

// As fetch_get(): -ENOENT not there, -EFBIG longer than max.
int update_source_get(struct update_source *source, const char *name, uint64_t max,
		      int (*take)(void *context, const void *data, size_t length), void *context,
		      char why[TUF_WHY_SIZE]);
// The same for the verifier: context is a struct update_source.
int update_source_fetch(void *context, const char *name, uint64_t max, struct buf *out, char why[TUF_WHY_SIZE]);

// Puts the target into directory as a file of its (quoted) name: nothing when the file is there already, else bytes
// from the source, held against the metadata as they come and renamed into place only when all of them are right. 0 or
// -errno, with why.
int update_target_get(struct update_source *source, const struct tuf_client *client, const char *path,
		      const struct tuf_target *target, const char *directory, bool *ret_was_there,
		      char why[TUF_WHY_SIZE]);

// What the directory holds and when it expires, for people or as JSON. Returns an exit code.
int update_status(const char *directory, int64_t now_s, bool json);
