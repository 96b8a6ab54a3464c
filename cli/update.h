// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer update`.
#pragma once

#include "updater/client.h"
#include "updater/fetch.h"

// Puts the target into directory as a file of its (quoted) name: nothing when the file is there already, else bytes
// from base_url, held against the metadata as they come and renamed into place only when all of them are right. 0 or
// -errno, with why.
int update_target_get(struct fetch *fetch, const char *base_url, const struct tuf_client *client, const char *path,
		      const struct tuf_target *target, const char *directory, bool *ret_was_there,
		      char why[TUF_WHY_SIZE]);

// What the directory holds and when it expires, for people or as JSON. Returns an exit code.
int update_status(const char *directory, int64_t now_s, bool json);
