// SPDX-License-Identifier: Apache-2.0
// The cgroups of this host: kernel id to path, and what a path says about containers and jobs. On a hybrid or v1 host
// ids come from one chosen v1 hierarchy (memory, else pids, else cpu): the default hierarchy's are mostly alike there.
// Every function takes a NULL table: it is then empty.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"

enum cgroup_mode { CGROUP_MODE_NONE, CGROUP_MODE_V1, CGROUP_MODE_HYBRID, CGROUP_MODE_UNIFIED };

struct cgroup_sample;
struct cgroup_oom_mark;

// Strings live as long as the entry. An entry lives while a process or a child names it (see cgroup_table_expire).
struct cgroup {
	struct cgroup *hash_next;
	struct cgroup *path_next;
	struct cgroup *parent; // NULL: the hierarchy's root
	uint64_t id; // kernfs id: the directory's inode number
	const char *path; // below the hierarchy's root, begins with '/'
	bool removed;
	bool due; // set it to have the cgroup sampled first, e.g. when its last process left
	uint8_t age; // calls of cgroup_table_expire() since its removal
	uint32_t processes; // tracked processes in it now; kept by the owner of the process table
	uint32_t children; // entries whose parent this is
	uint32_t scan; // the scan that last saw it
	uint32_t round; // the round of samples that last chose it
	// Read out of the path; NULL or -1 when it says nothing.
	const char *runtime; // "docker", "containerd", "crio", "podman", "ecs", "slurm", "lxc", ...
	const char *container_id;
	const char *pod_uid;
	const char *pod_qos; // "guaranteed", "burstable", "besteffort"
	const char *ecs_task; // the task's id, also of AWS Batch on ECS
	int64_t slurm_job; // -1: none
	int64_t slurm_uid; // -1: none
	const char *slurm_step; // "batch", "extern", "0", ...
	const char *unit; // systemd unit it is or lies below
	void *strings; // private: the allocations behind the strings
	struct cgroup_sample *sample; // core/cgroup_sample.c: the last sample, NULL before the first
	struct cgroup_oom_mark *oom; // core/cgroup_oom.c: event counters when last asked
};

struct cgroup_table;

// Finds the hierarchies in /proc/self/mountinfo and opens their roots. -ENOENT when no cgroup file system is mounted
// (*ret_table is then untouched; a NULL table may be used everywhere).
int cgroup_table_new(struct cgroup_table **ret_table);
// The same from another file of that format.
int cgroup_table_new_from(const char *mountinfo_path, struct cgroup_table **ret_table);
// A table of the default (cgroup2) hierarchy, whatever the others hold: beside the one above on a host of several.
// Where that is not mounted a scan finds nothing, and it has only what is added.
int cgroup_table_new_default(struct cgroup_table **ret_table);
void cgroup_table_free(struct cgroup_table *table);
enum cgroup_mode cgroup_table_mode(const struct cgroup_table *table);
const char *cgroup_mode_name(enum cgroup_mode mode); // "none", "v1", "hybrid", "unified"

// The name of the controller whose v1 hierarchy gives the ids ("memory", ...); NULL on a unified host.
const char *cgroup_table_controller(const struct cgroup_table *table);

// Walks the chosen hierarchy: adds every directory, marks entries whose directory is gone. May be called again at any
// time. A directory that vanishes meanwhile is skipped; -errno when the walk was not complete (nothing is then marked).
int cgroup_table_scan(struct cgroup_table *table);

// From cgroup_mkdir, cgroup_rmdir and cgroup_attach_task: adds or marks. A removed one stays while processes name it.
// Parents that are not known are looked up and added too. ret_cgroup may be NULL. -ENOSPC: the table is full (counted).
int cgroup_table_add(struct cgroup_table *table, uint64_t id, const char *path, const struct cgroup **ret_cgroup);
void cgroup_table_removed(struct cgroup_table *table, uint64_t id);

// Drops removed entries that no process and no child names, one call later at the earliest. Call it on the tick.
// Returns how many went.
uint32_t cgroup_table_expire(struct cgroup_table *table);

uint32_t cgroup_table_count(const struct cgroup_table *table);
// Entries not added because the table was full, since it was made.
uint64_t cgroup_table_refused(const struct cgroup_table *table);

// NULL when the id is not known; a miss triggers no scan.
struct cgroup *cgroup_find(struct cgroup_table *table, uint64_t id);
struct cgroup *cgroup_find_path(struct cgroup_table *table, const char *path);

// For host and cgroup records: the directory of one cgroup in one controller's hierarchy ("cpu", "cpuacct", "memory",
// "io" or "blkio", "pids", "unified"), an O_PATH descriptor. Without a v1 hierarchy of that controller it is the
// unified one. ret_unified (may be NULL) tells which file names to expect. -ENOENT when there is none. Caller closes.
int cgroup_open_directory(const struct cgroup_table *table, const struct cgroup *cgroup, const char *controller,
			  bool *ret_unified);

// Whether that is the unified hierarchy for this controller.
bool cgroup_controller_is_unified(const struct cgroup_table *table, const char *controller);

// visit must not add or drop entries.
void cgroup_each(struct cgroup_table *table, void (*visit)(void *context, struct cgroup *cgroup), void *context);

// Which limit an OOM kill of a process in this cgroup hit: *ret_path is the path of the cgroup (lives as long as
// this entry) or "host". -ENODATA when the counters do not say. On v1 the answer is the nearest ancestor whose charge
// failed since last asked, an estimate; v2 counts it exactly. cgroup_oom_watch() takes the counters to compare with;
// cgroup_table_scan() and cgroup_table_add() call it for entries they add.
int cgroup_oom_limit(struct cgroup_table *table, struct cgroup *cgroup, const char **ret_path);
void cgroup_oom_watch(struct cgroup_table *table, struct cgroup *cgroup);

// Writes the members "cgroup", "container" (object or null) of a record. cgroup may be NULL: both null.
void cgroup_write(const struct cgroup *cgroup, struct json *json);
