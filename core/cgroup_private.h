// SPDX-License-Identifier: Apache-2.0
// Shared by core/cgroup*.c only: the table, and reading the small files of a cgroup without allocating.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/text.h"
#include "core/cgroup_mount.h"

enum { CGROUP_FILE_MAX = 16384, CGROUP_BUCKETS = 2048, CGROUP_DEPTH_MAX = 64 };

struct cgroup_table {
	struct cgroup_mounts mounts;
	struct cgroup *by_id[CGROUP_BUCKETS];
	struct cgroup *by_path[CGROUP_BUCKETS];
	uint32_t count;
	uint32_t removed_count;
	uint32_t scan; // number of the last scan
	uint64_t refused;
};

// The entry's directory is gone.
void cgroup_mark_removed(struct cgroup_table *table, struct cgroup *cgroup);

// Reads a file of at most size - 1 bytes and adds a NUL. Returns its length or -errno (-EFBIG: it does not fit).
int cgroup_file_read(int directory_fd, const char *name, char *text, size_t size);

// A file that holds one number; "max" and what cannot be read give UINT64_MAX.
uint64_t cgroup_number_read(int directory_fd, const char *name);
