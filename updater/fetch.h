// SPDX-License-Identifier: Apache-2.0
// The half of the updater that has a network, and nothing else: a child process without user, capabilities or files,
// which hands bytes over through a socket pair. Who takes them believes nothing and needs no network of its own.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"

enum { FETCH_WHY_SIZE = 256, FETCH_URL_SIZE = 4096 };

struct fetch_options {
	const char *agent; // what it calls itself
	const struct buf *ca; // PEM; whom to trust for https
	const char *proxy; // NULL: what the environment says
	uid_t uid; // to become; (uid_t)-1: stay
	gid_t gid;
	bool sandbox; // Landlock and the system-call filter
};

struct fetch;

// Starts the child. Call before the caller gives up its own rights. 0 or -errno.
int fetch_start(const struct fetch_options *options, struct fetch **ret_fetch, char why[FETCH_WHY_SIZE]);

// Gets url, http or https, and passes it on in pieces; a negative result of take ends the child and is returned.
// -ENOENT: the server has no such file. -EFBIG: it is longer than max; take never saw more. Else negative, and why
// says what was in the way.
int fetch_get(struct fetch *fetch, const char *url, uint64_t max,
	      int (*take)(void *context, const void *data, size_t length), void *context, char why[FETCH_WHY_SIZE]);

// Ends the child; takes NULL.
void fetch_stop(struct fetch *fetch);
