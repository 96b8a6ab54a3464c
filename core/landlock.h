// SPDX-License-Identifier: Apache-2.0
// A cage of files for this process: Landlock, by raw calls, as the C library knows nothing of it. Rights that a kernel
// does not know yet are left out; what cannot be opened allows nothing. Needs no_new_privs; before threads are started.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct landlock {
	int fd;
	int version; // of the kernel's Landlock
	uint64_t handled;
};

enum landlock_access {
	LANDLOCK_FILES, // read files
	LANDLOCK_READ, // and list directories
	LANDLOCK_OWN, // and write, make, remove and cut them
	LANDLOCK_INSTALL, // and make symbolic links
};

// outward: may also bind no TCP port, and reach no other process by signals or abstract sockets, where the kernel has
// that. -ENOSYS, -EOPNOTSUPP: the kernel has no Landlock.
int landlock_begin(bool outward, struct landlock *ret_landlock);
void landlock_allow(struct landlock *landlock, int fd, enum landlock_access access);
void landlock_allow_path(struct landlock *landlock, const char *path, enum landlock_access access);

// A file to read, and the folder it really lies in, as it is often replaced whole; of /etc and /tmp only the file.
void landlock_allow_file(struct landlock *landlock, const char *path);

// What every process that talks to a network reads: names of hosts, randomness.
void landlock_allow_network(struct landlock *landlock);

// From here on nothing else. Releases landlock in any case. 0 or -errno.
int landlock_enforce(struct landlock *landlock);
