// SPDX-License-Identifier: Apache-2.0
// A bundle: the files of an update in one file, for hosts without a network. A line "tracer-bundle 1", then for each
// file a line "NAME SIZE", its bytes and a newline; metadata/ and targets/ in front of names that are written as in a
// URL. A source like the network: nobody believes what is in it before the verifier does.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

enum { BUNDLE_WHY_SIZE = 256, BUNDLE_NAME_SIZE = 1024, BUNDLE_ENTRIES_MAX = 4096 };

struct bundle_entry {
	char *name;
	uint64_t offset, size; // of its bytes
};

struct bundle {
	int fd; // -1: not open
	struct bundle_entry *entries;
	size_t count;
};

// Reads where everything is. -EBADMSG: not a bundle, or one that was cut off or has a name twice; other -errno. With
// why.
int bundle_open(const char *path, struct bundle *ret_bundle, char why[BUNDLE_WHY_SIZE]);
void bundle_close(struct bundle *bundle);

const struct bundle_entry *bundle_find(const struct bundle *bundle, const char *name); // NULL: not in it
// Hands the bytes on in pieces; a negative result of take ends it and is returned. -EIO: the file became shorter.
int bundle_read(const struct bundle *bundle, const struct bundle_entry *entry,
		int (*take)(void *context, const void *data, size_t length), void *context);

int bundle_write_head(int fd);
int bundle_write_entry(int fd, const char *name, uint64_t size); // then its bytes
int bundle_write_end(int fd); // behind the bytes of each entry
