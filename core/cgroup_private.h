// SPDX-License-Identifier: Apache-2.0
// Shared by core/cgroup*.c only: reading the small files of a cgroup without allocating.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { CGROUP_FILE_MAX = 16384 };

// Reads a file of at most size - 1 bytes and adds a NUL. Returns its length or -errno (-EFBIG: it does not fit).
int cgroup_file_read(int directory_fd, const char *name, char *text, size_t size);

// The number behind a key at the start of a line ("oom_kill 3"); UINT64_MAX when the line is not there.
uint64_t cgroup_key_find(const char *text, const char *key);

// Decimal digits at text; UINT64_MAX when there are none or too many. ret_end may be NULL.
uint64_t cgroup_number_parse(const char *text, const char **ret_end);

// A file that holds one number; "max" and what cannot be read give UINT64_MAX.
uint64_t cgroup_number_read(int directory_fd, const char *name);
