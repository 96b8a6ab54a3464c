// SPDX-License-Identifier: Apache-2.0
// The cgroups of this host: kernel id to path, and what a path says about containers and jobs. On a hybrid or v1 host
// ids come from one chosen v1 hierarchy (memory, else pids, else cpu): the default hierarchy's are all alike there.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"

enum cgroup_mode { CGROUP_MODE_NONE, CGROUP_MODE_V1, CGROUP_MODE_HYBRID, CGROUP_MODE_UNIFIED };

struct cgroup {
	struct cgroup *hash_next;
	uint64_t id; // kernfs id: the directory's inode number
	char *path; // below the hierarchy's root, begins with '/'
	bool removed;
	uint32_t processes; // tracked processes in it now
	// Read out of the path; NULL or -1 when it says nothing.
	const char *runtime; // "docker", "containerd", "crio", "podman", "ecs", "slurm", ...
	char *container_id;
	char *pod_uid;
	int64_t slurm_job; // -1: none
	char *slurm_step; // "batch", "extern", "0", ...
	void *previous; // core/cgroup_sample.c: counters of the last sample
};

struct cgroup_table;

// Finds the hierarchies in /proc/self/mountinfo and opens their roots. -ENOENT when no cgroup file system is mounted
// (the table then stays empty and every lookup gives NULL).
int cgroup_table_new(struct cgroup_table **ret_table);
void cgroup_table_free(struct cgroup_table *table);
enum cgroup_mode cgroup_table_mode(const struct cgroup_table *table);

// The name of the controller whose v1 hierarchy gives the ids ("memory", ...); NULL on a unified host.
const char *cgroup_table_controller(const struct cgroup_table *table);

// Walks the chosen hierarchy and adds every directory.
int cgroup_table_scan(struct cgroup_table *table);

// From cgroup_mkdir, cgroup_rmdir and cgroup_attach_task: adds or marks. A removed one stays while processes name it.
int cgroup_table_add(struct cgroup_table *table, uint64_t id, const char *path, const struct cgroup **ret_cgroup);
void cgroup_table_removed(struct cgroup_table *table, uint64_t id);

// NULL when the id is not known; a miss triggers no scan.
struct cgroup *cgroup_find(struct cgroup_table *table, uint64_t id);

// For host and cgroup records: files of one cgroup in one controller's hierarchy ("cpu", "memory", "io" or "blkio",
// "pids"), opened read-only relative to the hierarchy's root. -1 when there is none. Caller closes.
int cgroup_open_directory(const struct cgroup_table *table, const struct cgroup *cgroup, const char *controller);

void cgroup_each(struct cgroup_table *table, void (*visit)(void *context, struct cgroup *cgroup), void *context);

// Writes the members "cgroup", "container" (object or null) of a record. cgroup may be NULL: both null.
void cgroup_write(const struct cgroup *cgroup, struct json *json);
