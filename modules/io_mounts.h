// SPDX-License-Identifier: Apache-2.0
// Mounted file systems of this mount namespace: space of local ones, client counters of NFS and Lustre. Part
// of io_host.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/json.h"
#include "core/base/text.h"

enum { IO_MOUNTS_MAX = 64 };

// A local file system whose space is asked for. Strings live in the arena until mountinfo changes.
struct io_mount {
	const char *path, *type, *source;
	uint32_t major, minor;
};

struct io_mounts {
	struct text_file mountinfo, mountstats;
	struct arena arena;
	bool arena_ready;
	bool read; // mountinfo was read at least once
	struct io_mount mounts[IO_MOUNTS_MAX];
	uint32_t count;
	uint32_t omitted; // local file systems beyond IO_MOUNTS_MAX
	bool has_nfs, has_lustre;
	char sys[64]; // where /sys is
	char proc[64];
	bool lustre_open;
	int lustre_fd; // the folder with one folder for each mount
};

void io_mounts_open(struct io_mounts *mounts, const char *proc, const char *sys);
void io_mounts_close(struct io_mounts *mounts); // idempotent; takes a zeroed one

// Reads mountinfo again if it changed. 0 or -errno (the former list stays).
int io_mounts_update(struct io_mounts *mounts);

// The members "mounts", "nfs" and "lustre": arrays; null when not known.
void io_mounts_write(struct io_mounts *mounts, struct json *json);

// modules/io_netfs.c
void io_nfs_write(struct io_mounts *mounts, struct json *json);
void io_lustre_write(struct io_mounts *mounts, struct json *json);
