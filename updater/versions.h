// SPDX-License-Identifier: Apache-2.0
// The versions of the program on this host, side by side in one folder, and the one pointer that says which runs:
//
//	LIBRARY/versions/VERSION/tracer, SHA256SUMS
//	LIBRARY/current  -> versions/VERSION/tracer
//	LIBRARY/previous -> versions/VERSION/tracer, while there is a way back
//
// Every step is on disk before the next begins, so that a kill or a power cut at any moment leaves `current` naming one
// whole version. Names that begin with a dot are unfinished and never run. Knows nothing of metadata: what it is given
// to install was verified.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { VERSIONS_NAME_SIZE = 64, VERSIONS_WHY_SIZE = 512 };

#define VERSIONS_CURRENT "current"
#define VERSIONS_PREVIOUS "previous"

struct versions {
	int fd, versions_fd, lock_fd; // -1: not open
	const char *file; // what a version consists of: "tracer"
	bool data; // it is read, not run
	char path[PATH_MAX]; // LIBRARY
};

#define VERSIONS_INIT {.fd = -1, .versions_fd = -1, .lock_fd = -1}

// Opens LIBRARY (such as /usr/local/lib/tracer) to look. -ENOENT: nothing is installed there. With why.
int versions_open(const char *library, struct versions *ret_versions, char why[VERSIONS_WHY_SIZE]);
// The same for files that are read: pushed rules, where nothing need be there yet (it is made; current names nothing).
int versions_open_data(const char *folder, const char *file, struct versions *ret_versions,
		       char why[VERSIONS_WHY_SIZE]);
void versions_close(struct versions *versions); // takes VERSIONS_INIT; gives the lock back

// Before anything is changed: the installer's lock too. -EBUSY: another one holds it. Until versions_close().
int versions_lock(struct versions *versions, char why[VERSIONS_WHY_SIZE]);

// What a pointer (VERSIONS_CURRENT, VERSIONS_PREVIOUS) names. -ENOENT: there is none; -EBADMSG: it names no version.
int versions_named(const struct versions *versions, const char *pointer, char ret_version[VERSIONS_NAME_SIZE]);

// 0: the version is there, and its program is a regular file that its mode lets run. -ENOENT, -EBADMSG.
int versions_whole(const struct versions *versions, const char *version);

// A name that can be a folder here: letters, digits and . _ + ~ -, not a dot first.
int versions_name_fine(const char *version);

// Whether a program of bytes can be put here and then run; without the lock, before anything is downloaded. -EROFS,
// -ENOEXEC (noexec), -EXDEV (an overlay, which the next image forgets), -ENOSPC, -EACCES, with why and what to do.
int versions_preflight(const struct versions *versions, uint64_t bytes, char why[VERSIONS_WHY_SIZE]);

// Removes what is unfinished, and all versions but the current and the previous one. Needs the lock, as does all below.
int versions_tidy(struct versions *versions);

// Begins a version: its program's file, empty, to be written by the caller. A version of that name must not be there.
int versions_stage(struct versions *versions, const char *version, int *ret_fd);
// Where that file is until then. -ENAMETOOLONG.
int versions_stage_path(const struct versions *versions, const char *version, char out[PATH_MAX]);
// What was written becomes the version: owner, mode, capabilities and SELinux label as the current one has them (root,
// 0755 without one), then its sums (text of SHA256SUMS), then its name, each on disk. Just before the name all versions
// but the current one go: there are never more than two. Closes fd in any case; on failure what was staged is removed.
int versions_stage_end(struct versions *versions, const char *version, int fd, const char *sums,
		       char why[VERSIONS_WHY_SIZE]);
// Gives it up; closes fd.
void versions_stage_drop(struct versions *versions, const char *version, int fd);

// Switches: `previous` names what was current, `current` the version. Durable when it returns 0; after a failure or a
// power cut `current` names one of the two.
int versions_point(struct versions *versions, const char *version);

// The way back: `current` names the previous version again and `previous` goes. -ENOENT: there is none, save for data:
// then `current` goes too, and ret_version is "".
int versions_back(struct versions *versions, char ret_version[VERSIONS_NAME_SIZE]);
