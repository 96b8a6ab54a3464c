// SPDX-License-Identifier: Apache-2.0
// Which of the targets is for this host. A target says in its custom data what it is: product, channel, version,
// architecture and, if need be, minimum_version, the oldest that may go straight to it.
#pragma once

#include "updater/client.h"

struct tuf_wanted {
	const char *product; // "tracer"
	const char *channel; // "stable"
	const char *architecture; // as uname(2) says: "x86_64"
	const char *version; // what runs now
	bool (*takes)(void *context, const struct tuf_target *target); // NULL: all; asked only about what fits
	void *context;
};

// Older, equal, newer: below, at, above 0. Numbers with dots between, then perhaps "-" and a name, which makes it older
// than without: 1.9 < 1.10-rc1 < 1.10. -EINVAL: one of them is none.
int tuf_version_compare(const char *left, const char *right, int *ret_order);

// Why the target is not for this host; NULL: it is.
const char *tuf_unfit(const struct tuf_target *target, const struct tuf_wanted *wanted);

// The newest of the fitting targets in targets.json itself; delegated roles have no say in what runs here. *ret_path
// points into the client, as the target does. -ENOENT: none that is newer than what runs.
int tuf_pick(struct tuf_client *client, const struct tuf_wanted *wanted, const char **ret_path,
	     struct tuf_target *ret_target);
