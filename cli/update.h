// SPDX-License-Identifier: Apache-2.0
// Between the files of `tracer update`.
#pragma once

#include "updater/client.h"
#include "updater/bundle.h"
#include "updater/fetch.h"
#include "updater/state.h"
#include "updater/target.h"
#include "updater/versions.h"

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

// Trusts the root that the binary carries where the directory has none. -ENOENT: there is none either.
int update_root_begin(const char *directory, char why[TUF_WHY_SIZE]);

// Puts the target into directory as a file of its (quoted) name: nothing when the file is there already, else bytes
// from the source, held against the metadata as they come and renamed into place only when all of them are right. 0 or
// -errno, with why.
int update_target_get(struct update_source *source, const struct tuf_client *client, const char *path,
		      const struct tuf_target *target, const char *directory, bool *ret_was_there,
		      char why[TUF_WHY_SIZE]);

// The same, written to fd and not flushed.
int update_target_write(struct update_source *source, const struct tuf_client *client, const char *path,
			const struct tuf_target *target, int fd, char why[TUF_WHY_SIZE]);

// One run of `tracer update`.
struct update {
	const char *directory, *metadata_url, *target_url, *target_dir, *target_name, *channel, *ca_file, *proxy;
	const char *bundle, *prefix, *pin;
	bool json, check, status, apply, rollback, hold, unhold, unpin;
	char default_target_url[FETCH_URL_SIZE];
	char base[FETCH_URL_SIZE]; // of the metadata, without a slash at the end
	char library[PATH_MAX]; // where versions are
	struct update_source source;
	struct tuf_client client;
	struct versions versions; // with --apply and --rollback
};

// Says why, made harmless; returns an exit code.
int update_refuse(int error, const char *why);

// The child with the network or the bundle, then this process without rights, then the trusted root. An exit code.
int update_start(struct update *update);
void update_end(struct update *update);

const char *update_custom(const struct tuf_target *target, const char *member); // "": it does not say

// The folder of versions, of --prefix, else of the program that runs, else /usr/local.
void update_library(struct update *update);

// --apply, --rollback, and --pin, --unpin, --hold, --unhold.
int update_apply(struct update *update);
int update_rollback(struct update *update);
int update_settings(struct update *update);

// Who updates this container, as a sentence; NULL: this is none.
const char *update_container(void);

// What the directory holds and when it expires, for people or as JSON. Returns an exit code.
int update_status(const char *directory, int64_t now_s, bool json);
