// SPDX-License-Identifier: Apache-2.0
// Shared by core/cgroup*.c only: reading the small files of a cgroup without allocating.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/text.h"

enum { CGROUP_FILE_MAX = 16384 };

// Reads a file of at most size - 1 bytes and adds a NUL. Returns its length or -errno (-EFBIG: it does not fit).
int cgroup_file_read(int directory_fd, const char *name, char *text, size_t size);

// A file that holds one number; "max" and what cannot be read give UINT64_MAX.
uint64_t cgroup_number_read(int directory_fd, const char *name);
