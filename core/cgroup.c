// SPDX-License-Identifier: Apache-2.0
// Room correlate: the table of this host's cgroups, by id and by path. Invariants: an entry's parent is in the
// table as long as the entry is; an entry that a process or child names is never dropped; strings given out live as
// long as their entry; at most CGROUP_MAX entries, what is refused is counted. It must not read a cgroup's figures.
#include "core/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/cgroup_path.h"
#include "core/cgroup_private.h"

enum { CGROUP_MAX = 16384, EXPIRE_AGE = 2 };

// The strings of one entry, in one allocation; a renamed cgroup keeps the older ones for those who hold them.
struct strings {
	struct strings *older;
	char text[];
};

static uint32_t id_bucket(uint64_t id)
{
	return (uint32_t)((id * 0x9e3779b97f4a7c15) >> 53);
}
_Static_assert(CGROUP_BUCKETS == 1 << 11, "id_bucket");

static uint32_t path_bucket(const char *path)
{
	uint32_t hash = 2166136261;

	while (*path)
		hash = (hash ^ (unsigned char)*path++) * 16777619;
	return (hash ^ hash >> 16) % CGROUP_BUCKETS;
}

static const char *copy_slice(char **to, struct cgroup_slice slice)
{
	char *text = *to;

	if (!slice.text)
		return NULL;
	memcpy(text, slice.text, slice.length);
	text[slice.length] = 0;
	*to = text + slice.length + 1;
	return text;
}

// Gives the entry this path and what can be read out of it.
static int set_path(struct cgroup *cgroup, const char *path)
{
	struct cgroup_path_facts facts;
	size_t length = strlen(path) + 1;
	struct strings *strings;
	char *to, *uid;

	cgroup_path_parse(path, &facts);
	strings = malloc(sizeof(*strings) + length + facts.container_id.length + facts.pod_uid.length +
			 facts.ecs_task.length + facts.slurm_step.length + facts.unit.length + 5);
	if (!strings)
		return -ENOMEM;
	strings->older = cgroup->strings;
	memcpy(strings->text, path, length);
	to = strings->text + length;
	cgroup->strings = strings;
	cgroup->path = strings->text;
	cgroup->container_id = copy_slice(&to, facts.container_id);
	cgroup->ecs_task = copy_slice(&to, facts.ecs_task);
	cgroup->slurm_step = copy_slice(&to, facts.slurm_step);
	cgroup->unit = copy_slice(&to, facts.unit);
	uid = to;
	cgroup->pod_uid = copy_slice(&to, facts.pod_uid);
	for (; cgroup->pod_uid && *uid; uid++)
		if (*uid == '_')
			*uid = '-';
	cgroup->runtime = facts.runtime;
	cgroup->pod_qos = facts.pod_qos;
	cgroup->slurm_job = facts.slurm_job;
	cgroup->slurm_uid = facts.slurm_uid;
	return 0;
}

static void cgroup_release(struct cgroup *cgroup)
{
	struct strings *strings = cgroup->strings;

	while (strings) {
		struct strings *older = strings->older;

		free(strings);
		strings = older;
	}
	free(cgroup->sample);
	free(cgroup->oom);
	free(cgroup);
}

static void path_link(struct cgroup_table *table, struct cgroup *cgroup)
{
	struct cgroup **bucket = &table->by_path[path_bucket(cgroup->path)];

	cgroup->path_next = *bucket;
	*bucket = cgroup;
}

static void path_unlink(struct cgroup_table *table, struct cgroup *cgroup)
{
	struct cgroup **link = &table->by_path[path_bucket(cgroup->path)];

	while (*link && *link != cgroup)
		link = &(*link)->path_next;
	if (*link)
		*link = cgroup->path_next;
}

int cgroup_table_new_from(const char *mountinfo_path, struct cgroup_table **ret_table)
{
	struct cgroup_table *table = calloc(1, sizeof(*table));
	int error;

	if (!table)
		return -ENOMEM;
	error = cgroup_mounts_read(mountinfo_path, &table->mounts);
	if (error) {
		free(table);
		return error;
	}
	*ret_table = table;
	return 0;
}

int cgroup_table_new(struct cgroup_table **ret_table)
{
	return cgroup_table_new_from("/proc/self/mountinfo", ret_table);
}

int cgroup_table_new_default(struct cgroup_table **ret_table)
{
	struct cgroup_table *table;
	int error = cgroup_table_new(&table);

	if (error)
		return error;
	table->mounts.chosen = CGROUP_UNIFIED;
	*ret_table = table;
	return 0;
}

void cgroup_table_free(struct cgroup_table *table)
{
	if (!table)
		return;
	for (int i = 0; i < CGROUP_BUCKETS; i++)
		while (table->by_id[i]) {
			struct cgroup *cgroup = table->by_id[i];

			table->by_id[i] = cgroup->hash_next;
			cgroup_release(cgroup);
		}
	cgroup_mounts_close(&table->mounts);
	free(table);
}

enum cgroup_mode cgroup_table_mode(const struct cgroup_table *table)
{
	return table ? table->mounts.mode : CGROUP_MODE_NONE;
}

const char *cgroup_mode_name(enum cgroup_mode mode)
{
	static const char *const names[] = { "none", "v1", "hybrid", "unified" };

	return names[mode];
}

const char *cgroup_table_controller(const struct cgroup_table *table)
{
	return table && table->mounts.chosen != CGROUP_UNIFIED ? cgroup_controller_name(table->mounts.chosen) : NULL;
}

uint32_t cgroup_table_count(const struct cgroup_table *table)
{
	return table ? table->count : 0;
}

uint64_t cgroup_table_refused(const struct cgroup_table *table)
{
	return table ? table->refused : 0;
}

struct cgroup *cgroup_find(struct cgroup_table *table, uint64_t id)
{
	struct cgroup *cgroup = table ? table->by_id[id_bucket(id)] : NULL;

	while (cgroup && cgroup->id != id)
		cgroup = cgroup->hash_next;
	return cgroup;
}

struct cgroup *cgroup_find_path(struct cgroup_table *table, const char *path)
{
	struct cgroup *cgroup = table ? table->by_path[path_bucket(path)] : NULL;

	// A removed cgroup's path may be taken again by a new one.
	while (cgroup && (cgroup->removed || strcmp(cgroup->path, path)))
		cgroup = cgroup->path_next;
	return cgroup;
}

void cgroup_each(struct cgroup_table *table, void (*visit)(void *context, struct cgroup *cgroup), void *context)
{
	for (int i = 0; table && i < CGROUP_BUCKETS; i++)
		for (struct cgroup *cgroup = table->by_id[i]; cgroup; cgroup = cgroup->hash_next)
			visit(context, cgroup);
}

bool cgroup_controller_is_unified(const struct cgroup_table *table, const char *controller)
{
	enum cgroup_controller wanted = cgroup_controller_find(controller, strlen(controller));

	return table && wanted != CGROUP_CONTROLLER_END &&
	       (wanted == CGROUP_UNIFIED || table->mounts.mounts[wanted].fd < 0);
}

int cgroup_open_directory(const struct cgroup_table *table, const struct cgroup *cgroup, const char *controller,
			  bool *ret_unified)
{
	enum cgroup_controller wanted = cgroup_controller_find(controller, strlen(controller));
	int fd;

	if (!table || wanted == CGROUP_CONTROLLER_END)
		return -ENOENT;
	if (table->mounts.mounts[wanted].fd < 0)
		wanted = CGROUP_UNIFIED;
	fd = cgroup_mount_open(&table->mounts.mounts[wanted], cgroup->path, O_PATH);
	if (fd >= 0 && ret_unified)
		*ret_unified = wanted == CGROUP_UNIFIED;
	return fd;
}

// The entry of the directory above this path, added when it is not known. *ret_parent is NULL for the root.
static int find_parent(struct cgroup_table *table, const char *path, struct cgroup **ret_parent)
{
	CLEANUP(cleanup_free) char *above = strdup(path);
	CLEANUP(cleanup_close) int fd = -1;
	const struct cgroup *added;
	struct stat stat;
	char *slash;
	int error;

	if (!above)
		return -ENOMEM;
	if (!strcmp(path, "/")) {
		*ret_parent = NULL;
		return 0;
	}
	slash = strrchr(above, '/');
	slash[slash == above] = 0;
	*ret_parent = cgroup_find_path(table, above);
	if (*ret_parent)
		return 0;
	fd = cgroup_mount_open(&table->mounts.mounts[table->mounts.chosen], above, O_PATH);
	if (fd < 0 || fstat(fd, &stat))
		return -ENOENT;
	error = cgroup_table_add(table, stat.st_ino, above, &added);
	if (!error)
		*ret_parent = (struct cgroup *)added;
	return error;
}

static int add_new(struct cgroup_table *table, uint64_t id, const char *path, struct cgroup *parent,
		   struct cgroup **ret_cgroup)
{
	struct cgroup *cgroup;
	int error;

	if (table->count >= CGROUP_MAX) {
		table->refused++;
		return -ENOSPC;
	}
	cgroup = calloc(1, sizeof(*cgroup));
	if (!cgroup)
		return -ENOMEM;
	error = set_path(cgroup, path);
	if (error) {
		free(cgroup);
		return error;
	}
	cgroup->id = id;
	cgroup->parent = parent;
	if (parent)
		parent->children++;
	cgroup->hash_next = table->by_id[id_bucket(id)];
	table->by_id[id_bucket(id)] = cgroup;
	path_link(table, cgroup);
	table->count++;
	cgroup_oom_watch(table, cgroup);
	*ret_cgroup = cgroup;
	return 0;
}

// A known id under another path was renamed (v1 allows it within one parent).
static int update(struct cgroup_table *table, struct cgroup *cgroup, const char *path)
{
	int error = 0;

	if (cgroup->removed) {
		cgroup->removed = false;
		cgroup->age = 0;
		table->removed_count--;
	}
	if (strcmp(cgroup->path, path)) {
		path_unlink(table, cgroup);
		error = set_path(cgroup, path);
		path_link(table, cgroup);
	}
	return error;
}

int cgroup_table_add(struct cgroup_table *table, uint64_t id, const char *path, const struct cgroup **ret_cgroup)
{
	struct cgroup *cgroup, *parent = NULL;
	unsigned depth = 0;
	int error;

	if (!table)
		return -ENOENT;
	for (const char *p = path; *p; p++)
		depth += *p == '/';
	if (*path != '/' || depth > CGROUP_DEPTH_MAX || strlen(path) >= PATH_MAX)
		return -EINVAL;
	cgroup = cgroup_find(table, id);
	if (cgroup) {
		error = update(table, cgroup, path);
	} else {
		error = find_parent(table, path, &parent);
		if (error == -ENOENT)
			error = 0; // gone already, or above what is mounted: known without its ancestors
		if (!error)
			error = add_new(table, id, path, parent, &cgroup);
	}
	if (!error && ret_cgroup)
		*ret_cgroup = cgroup;
	return error;
}

void cgroup_mark_removed(struct cgroup_table *table, struct cgroup *cgroup)
{
	if (cgroup->removed)
		return;
	cgroup->removed = true;
	cgroup->age = 0;
	table->removed_count++;
}

void cgroup_table_removed(struct cgroup_table *table, uint64_t id)
{
	struct cgroup *cgroup = cgroup_find(table, id);

	if (cgroup)
		cgroup_mark_removed(table, cgroup);
}

uint32_t cgroup_table_expire(struct cgroup_table *table)
{
	uint32_t dropped = 0;

	if (!table || !table->removed_count)
		return 0;
	for (int i = 0; i < CGROUP_BUCKETS; i++) {
		struct cgroup **link = &table->by_id[i];

		while (*link) {
			struct cgroup *cgroup = *link;

			if (!cgroup->removed || cgroup->processes || cgroup->children ||
			    ++cgroup->age < EXPIRE_AGE) {
				link = &cgroup->hash_next;
				continue;
			}
			*link = cgroup->hash_next;
			path_unlink(table, cgroup);
			if (cgroup->parent)
				cgroup->parent->children--;
			cgroup_release(cgroup);
			table->count--;
			table->removed_count--;
			dropped++;
		}
	}
	return dropped;
}

static void write_container(const struct cgroup *cgroup, struct json *json)
{
	json_open_object(json);
	json_put_string(json, "runtime", cgroup->runtime);
	json_put_string(json, "id", cgroup->container_id);
	if (cgroup->pod_uid)
		json_put_string(json, "pod_uid", cgroup->pod_uid);
	if (cgroup->pod_qos)
		json_put_string(json, "pod_qos", cgroup->pod_qos);
	if (cgroup->ecs_task)
		json_put_string(json, "ecs_task", cgroup->ecs_task);
	if (cgroup->slurm_job >= 0)
		json_put_i64(json, "slurm_job", cgroup->slurm_job);
	if (cgroup->slurm_step)
		json_put_string(json, "slurm_step", cgroup->slurm_step);
	json_close_object(json);
}

void cgroup_write(const struct cgroup *cgroup, struct json *json)
{
	json_put_string(json, "cgroup", cgroup ? cgroup->path : NULL);
	if (!cgroup || (!cgroup->runtime && !cgroup->container_id && !cgroup->pod_uid)) {
		json_put_null(json, "container");
		return;
	}
	json_key(json, "container");
	write_container(cgroup, json);
}
