// SPDX-License-Identifier: Apache-2.0
// The Update Framework's client workflow (specification 1.0, section 5) over a directory of trusted metadata and a
// source of files that nobody trusts. Nothing is written that was not verified before; each file is replaced whole. No
// network here.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "updater/metadata.h"

enum {
	TUF_ROOT_BYTES = 512 << 10, // largest files taken where metadata does not say a length
	TUF_TIMESTAMP_BYTES = 16 << 10,
	TUF_SNAPSHOT_BYTES = 2 << 20,
	TUF_TARGETS_BYTES = 5 << 20,
	TUF_ROTATIONS_MAX = 256, // new roots in one run; the next run goes on
	TUF_DELEGATIONS_MAX = 32, // delegated roles that are looked at for one target
};

// No clock that works says less: 2025-01-01. Before it nothing can be told from expired, so nothing is updated.
#define TUF_EARLIEST_S 1735689600

// Where files come from. Appends the named file ("3.root.json") to out. -ENOENT: it is not there. -EFBIG: it is longer
// than max bytes. Anything else negative: it cannot be had, with a sentence in why.
struct tuf_source {
	int (*fetch)(void *context, const char *name, uint64_t max, struct buf *out, char why[TUF_WHY_SIZE]);
	void *context;
};

struct tuf_client {
	const char *directory;
	struct tuf_source source;
	int64_t now_s; // the start of the update: every expiry is held against it
	int lock_fd;
	struct tuf_metadata trusted[TUF_TYPES]; // doc NULL: none yet
	char why[TUF_WHY_SIZE]; // the reason of the last failure
};

// A file that the metadata vouches for. Points into the client.
struct tuf_target {
	struct tuf_metadata owner; // or into this, when it is a delegated role's
	uint64_t length;
	yyjson_val *hashes;
	yyjson_val *custom; // NULL: none
};

// Errors of all: -EBADMSG malformed or not what other metadata says, -EKEYREJECTED too few signatures, -ESTALE older
// than what was known, -EKEYEXPIRED, -EFBIG too long, -ENOENT missing, -EBUSY another update is at work, or that of a
// system call.

// Starts trust: writes the root into the directory (made when missing) when it is signed by its own keys and the
// directory has none or an older version of it. Asks no source.
int tuf_init(const char *directory, const void *root, size_t length, char why[TUF_WHY_SIZE]);

// Takes the lock and loads the trusted root. On failure only client->why is set. directory has to live on.
int tuf_open(struct tuf_client *client, const char *directory, const struct tuf_source *source, int64_t now_s);
void tuf_close(struct tuf_client *client);

// Brings root, timestamp, snapshot and targets up to date, in this order. What was verified before a failure stays.
int tuf_refresh(struct tuf_client *client);

// After a refresh: finds path in targets and its delegations. Release with tuf_target_free().
int tuf_find(struct tuf_client *client, const char *path, struct tuf_target *ret_target);
void tuf_target_free(struct tuf_target *target);

// The target's path at the source: with its digest in front of the name where snapshots are consistent.
int tuf_target_url(const struct tuf_client *client, const struct tuf_target *target, const char *path, char *out,
		   size_t size);

void tuf_target_of(yyjson_val *entry, struct tuf_target *target);

// Targets or a delegated role, name without ".json".
int tuf_targets_load(struct tuf_client *client, const char *name, yyjson_val *keys, yyjson_val *role,
		     struct tuf_metadata *ret_metadata);
