// SPDX-License-Identifier: Apache-2.0
// Runs, tasks and containers of what /proc shows: the processes in a table of their own, the oldest first, placed by
// the same rules as the collector's. What had ended when /proc was read is missing between them: a process whose parent
// is gone begins at the top.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/live.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/correlate.h"
#include "core/process.h"

struct live_place {
	struct process_table *table;
	struct correlate *correlate;
	struct cgroup_table *cgroups; // NULL: none are mounted
};

static int by_start(const void *left, const void *right)
{
	const struct live_seen *a = left, *b = right;
	uint64_t a_ns = a->identity.process.start_ns, b_ns = b->identity.process.start_ns;

	// Starts are of a clock tick: within one the pids mostly tell.
	if (a_ns == b_ns)
		return (a->identity.process.pid > b->identity.process.pid) -
		       (a->identity.process.pid < b->identity.process.pid);
	return a_ns < b_ns ? -1 : 1;
}

static int place_open(struct live_place *place, const struct rules *rules)
{
	CLEANUP(buf_free) struct buf boot = BUF_INIT;
	char id[40] = "";
	int result = process_table_new(&place->table);

	if (!fs_read("/proc/sys/kernel/random/boot_id", 64, &boot) && boot.data)
		snprintf(id, sizeof(id), "%.36s", boot.data);
	if (!result)
		result = correlate_new(rules, id, &place->correlate);
	if (!result && !cgroup_table_new(&place->cgroups))
		cgroup_table_scan(place->cgroups);
	return result;
}

static void forget(void *context, struct process *process)
{
	correlate_end(((struct live_place *)context)->correlate, process);
}

static void place_close(struct live_place *place)
{
	if (place->table && place->correlate)
		process_each(place->table, forget, place);
	correlate_free(place->correlate);
	process_table_free(place->table);
	cgroup_table_free(place->cgroups);
}

static int place_add(struct live_place *place, const struct live_seen *seen)
{
	struct event_identity identity = seen->identity;
	struct process *parent = process_find(place->table, identity.parent.pid), *process;
	int result;

	identity.parent.start_ns = parent ? parent->start_boot_ns : 0;
	result = process_add(place->table, &identity, &process);
	if (result < 0)
		return result == -EEXIST ? 0 : result;
	result = process_set_strings(process, &seen->strings);
	process->cgroup = seen->cgroup ? cgroup_find_path(place->cgroups, seen->cgroup) : NULL;
	if (!result)
		result = correlate_fork(place->correlate, process);
	return result ? result : correlate_exec(place->correlate, process);
}

static const char *keep(struct live *live, const char *text)
{
	return text ? arena_strndup(&live->arena, text, strlen(text)) : NULL;
}

static void row_fill(struct live *live, struct live_process *row, const struct process *process)
{
	const struct cgroup *cgroup = process->cgroup;
	char name[96];

	if (process->image->tool)
		row->tool = keep(live, process->image->tool);
	if (process->run) {
		row->run = keep(live, process->run->name ? process->run->name : process->run->id);
		row->engine = keep(live, process->run->engine);
	}
	if (process->task) {
		row->task = keep(live, process->task->name);
		row->sample = keep(live, process->task->sample);
	}
	if (cgroup && (cgroup->runtime || cgroup->container_id)) {
		snprintf(name, sizeof(name), "%.40s%s%.12s", cgroup->runtime ? cgroup->runtime : "",
			 cgroup->runtime && cgroup->container_id ? ":" : "",
			 cgroup->container_id ? cgroup->container_id : "");
		row->container = keep(live, name);
	}
}

int live_place_all(struct live *live, struct live_seen *seen, size_t count, const struct rules *rules)
{
	struct live_place place = { 0 };
	int result = place_open(&place, rules);

	qsort(seen, count, sizeof(*seen), by_start);
	for (size_t i = 0; !result && i < count; i++)
		result = place_add(&place, &seen[i]);
	for (size_t i = 0; !result && i < live->count; i++) {
		struct process *process = process_find(place.table, live->rows[i].pid);

		if (process)
			row_fill(live, &live->rows[i], process);
	}
	place_close(&place);
	return result;
}

const char *live_cgroup_controller(void)
{
	struct cgroup_table *cgroups;
	static char name[32];
	const char *controller;

	if (cgroup_table_new(&cgroups) < 0)
		return NULL;
	controller = cgroup_table_controller(cgroups);
	snprintf(name, sizeof(name), "%s", controller ? controller : "");
	cgroup_table_free(cgroups);
	return *name ? name : NULL;
}
