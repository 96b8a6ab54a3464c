// SPDX-License-Identifier: Apache-2.0
// The io module's part of host and cgroup samples: disks, space of local file systems, NFS and Lustre clients, I/O
// pressure. Nothing here can hang on a dead server or disk: see modules/io_mounts.c.
#pragma once

#include "core/base/json.h"
#include "core/cgroup.h"
#include "core/base/text.h"
#include "modules/io_mounts.h"

enum { IO_DISKS_MAX = 256 };

// What was found out about a block device when it was first seen.
struct io_disk {
	char name[32];
	bool whole; // not a partition
	bool stacked; // made of other block devices (dm, md): its I/O is counted below it too
	bool seen; // in this sample
};

// Zero it before the first use.
struct io_host {
	struct text_file diskstats, pressure;
	bool sys_open;
	int sys_block_fd; // /sys/block
	struct io_disk disks[IO_DISKS_MAX];
	uint32_t disk_count;
	struct io_mounts mounts;
	bool mounts_left_out; // written as null
};

// Opens what there is; what is missing leaves its members null. Always 0.
int io_host_open(struct io_host *host);
int io_host_open_at(struct io_host *host, const char *proc, const char *sys); // another /proc and /sys
void io_host_close(struct io_host *host); // idempotent

// Members of a hostsample record; counters since boot or mount. docs/host-samples.md.
void io_host_fields(struct io_host *host, struct json *json);

// Members of a cgroup record, from cgroup->sample.
void io_cgroup_fields(const struct cgroup_table *table, const struct cgroup *cgroup, struct json *json);
