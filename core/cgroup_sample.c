// SPDX-License-Identifier: Apache-2.0
// Room correlate: which cgroups are looked at, when, and which of them changed. A round is a list of ids, deepest
// first, worked off in portions; ids are looked up again, since entries may go in between. A cgroup whose CPU time
// stands still is taken to be unchanged without reading the rest, except every FULL_NS: idle ones cost one small file.
#include "core/cgroup_sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/cgroup_private.h"

#define FULL_NS 60000000000ull
#define LIMITS_NS 60000000000ull

struct item {
	uint64_t id;
	uint32_t depth;
};

struct cgroup_sampler {
	struct cgroup_table *table;
	uint64_t round_ns;
	uint64_t round_start_ns;
	uint32_t round;
	struct item *items;
	uint32_t capacity, count, next;
};

int cgroup_sampler_new(struct cgroup_table *table, uint64_t round_ns, struct cgroup_sampler **ret_sampler)
{
	struct cgroup_sampler *sampler = calloc(1, sizeof(*sampler));

	if (!sampler)
		return -ENOMEM;
	sampler->table = table;
	sampler->round_ns = round_ns;
	*ret_sampler = sampler;
	return 0;
}

void cgroup_sampler_free(struct cgroup_sampler *sampler)
{
	if (!sampler)
		return;
	free(sampler->items);
	free(sampler);
}

static uint32_t depth_of(const struct cgroup *cgroup)
{
	uint32_t depth = 0;

	while ((cgroup = cgroup->parent))
		depth++;
	return depth;
}

static void add_item(struct cgroup_sampler *sampler, struct cgroup *cgroup)
{
	if (sampler->count == sampler->capacity) {
		uint32_t capacity = sampler->capacity ? sampler->capacity * 2 : 64;
		struct item *items = realloc(sampler->items, capacity * sizeof(*items));

		if (!items)
			return; // out of memory: a partial round, the next one tries again
		sampler->items = items;
		sampler->capacity = capacity;
	}
	sampler->items[sampler->count++] = (struct item){ cgroup->id, depth_of(cgroup) };
	cgroup->round = sampler->round;
}

static void choose(void *context, struct cgroup *cgroup)
{
	struct cgroup_sampler *sampler = context;

	if (!cgroup->processes)
		return;
	for (; cgroup && cgroup->parent && cgroup->round != sampler->round; cgroup = cgroup->parent)
		add_item(sampler, cgroup);
}

static void choose_due(void *context, struct cgroup *cgroup)
{
	struct cgroup_sampler *sampler = context;

	if (cgroup->due && cgroup->parent)
		add_item(sampler, cgroup);
}

static int deeper_first(const void *a, const void *b)
{
	const struct item *left = a, *right = b;

	if (left->depth != right->depth)
		return left->depth < right->depth ? 1 : -1;
	return left->id < right->id ? -1 : left->id > right->id;
}

static void start_round(struct cgroup_sampler *sampler, uint64_t now)
{
	sampler->round++;
	sampler->round_start_ns = now;
	sampler->count = 0;
	sampler->next = 0;
	cgroup_each(sampler->table, choose, sampler);
	if (sampler->count)
		qsort(sampler->items, sampler->count, sizeof(*sampler->items), deeper_first);
}

// Whether one cheap file says that nothing ran here since the last sample.
static bool stands_still(const struct cgroup_table *table, const struct cgroup *cgroup, uint64_t now)
{
	const struct cgroup_sample *sample = cgroup->sample;
	char text[1024];
	bool unified;

	if (!sample || sample->figures.cpu_ns == CGROUP_UNKNOWN || now - sample->boot_ns >= FULL_NS)
		return false;
	CLEANUP(cleanup_close) int fd = cgroup_open_directory(table, cgroup, "cpuacct", &unified);

	if (fd < 0)
		return false;
	if (!unified)
		return cgroup_number_read(fd, "cpuacct.usage") == sample->figures.cpu_ns;
	if (cgroup_file_read(fd, "cpu.stat", text, sizeof(text)) < 0)
		return false;
	return text_key_number(text, "usage_usec") == sample->figures.cpu_ns / 1000;
}

static bool same(const struct cgroup_sample *a, const struct cgroup_sample *b)
{
	uint64_t devices = a->figures.device_count == CGROUP_UNKNOWN ? 0 : a->figures.device_count;

	return !memcmp(&a->figures, &b->figures, sizeof(a->figures)) &&
	       !memcmp(a->devices, b->devices, devices * sizeof(a->devices[0]));
}

// Something that can mean an OOM kill was counted since.
static bool memory_events(const struct cgroup_figures *now, const struct cgroup_figures *before)
{
	return now->oom_events != before->oom_events || now->oom_kills != before->oom_kills ||
	       now->limit_hits != before->limit_hits;
}

// Reads one cgroup; true when a new sample of it is to be written.
static bool look(struct cgroup_sampler *sampler, struct cgroup *cgroup, uint64_t now)
{
	struct cgroup_sample sample, *last = cgroup->sample;
	bool asked = cgroup->processes || cgroup->due, due = cgroup->due;

	cgroup->due = false;
	// An ancestor without processes of its own matters for its limit.
	if (!asked && last && !last->limited && now - last->boot_ns < LIMITS_NS)
		return false;
	if (!due && stands_still(sampler->table, cgroup, now))
		return false;
	if (cgroup_figures_read(sampler->table, cgroup, &sample))
		return false;
	sample.boot_ns = now;
	if (last && memory_events(&sample.figures, &last->figures))
		cgroup_oom_watch(sampler->table, cgroup);
	bool changed = !last || !same(last, &sample);

	if (!last) {
		last = malloc(sizeof(*last));
		if (!last)
			return false;
		cgroup->sample = last;
	}
	*last = sample;
	return changed && (asked || sample.limited);
}

uint32_t cgroup_sampler_run(struct cgroup_sampler *sampler, uint64_t now_boot_ns, uint32_t budget,
			    void (*visit)(void *context, struct cgroup *cgroup), void *context)
{
	uint32_t looked = 0, first = sampler->count;

	// Due ones go behind the round's list for this call only.
	cgroup_each(sampler->table, choose_due, sampler);
	for (uint32_t i = first; i < sampler->count && looked < budget; i++, looked++) {
		struct cgroup *cgroup = cgroup_find(sampler->table, sampler->items[i].id);

		if (look(sampler, cgroup, now_boot_ns))
			visit(context, cgroup);
	}
	sampler->count = first;
	if (sampler->next == sampler->count) {
		if (sampler->round && now_boot_ns - sampler->round_start_ns < sampler->round_ns)
			return looked;
		start_round(sampler, now_boot_ns);
	}
	while (looked < budget && sampler->next < sampler->count) {
		struct cgroup *cgroup = cgroup_find(sampler->table, sampler->items[sampler->next++].id);

		if (!cgroup || cgroup->removed)
			continue;
		looked++;
		if (look(sampler, cgroup, now_boot_ns))
			visit(context, cgroup);
	}
	return looked;
}
