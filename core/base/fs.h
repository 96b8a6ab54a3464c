// SPDX-License-Identifier: Apache-2.0
// Small files: read whole, replace whole. All return 0 or -errno.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"

// Appends the file's content to buf. -EFBIG when it holds more than max bytes. Works for /proc and /sys (no stat size).
int fs_read(const char *path, size_t max, struct buf *buf);
int fs_read_at(int dir_fd, const char *path, size_t max, struct buf *buf);

// The first bytes, at most size, of a file in a directory where others may write: a link or a fifo is refused
// (-ELOOP, -EBADMSG), not followed or waited for.
int fs_read_untrusted_at(int dir_fd, const char *name, void *out, size_t size, size_t *ret_size);

// A file that holds one number ("max" gives UINT64_MAX). -EINVAL when it holds anything else.
int fs_read_u64_at(int dir_fd, const char *path, uint64_t *ret_value);

// Write to a temporary beside it, fsync, rename, fsync the directory. The old content stays until the rename.
int fs_replace(const char *path, const void *data, size_t length, mode_t mode);

// Removes the temporaries that fs_replace() left of files with such a name (fnmatch) when it was killed. For who holds
// the lock under which these are replaced. What cannot be removed stays.
void fs_replace_tidy(const char *directory, const char *pattern);

// Creates the directory and its parents. An existing directory is fine.
int fs_make_directories(const char *path, mode_t mode);

int fs_sync_directory(const char *path);

// write(2) until all is written. EINTR is retried.
int fs_write_all(int fd, const void *data, size_t length);
