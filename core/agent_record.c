// SPDX-License-Identifier: Apache-2.0
// Records the agent writes about itself and the host: host, hostsample, cgroup, gap; and the books of losses behind
// them.
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/agent_private.h"
#include "core/base/clock.h"
#include "core/record.h"

enum { CGROUPS_A_SECOND = 64 };

struct json *agent_record_begin(struct agent *agent, const char *kind, enum record_class class, uint64_t boot_ns)
{
	struct json *json = batch_begin(&agent->batches[class]);

	// The wall clock may have been set since the last round.
	if (!agent->batches[class].count)
		clock_offset_update(&agent->clock);
	json_open_object(json);
	json_put_string(json, "kind", kind);
	json_put_u64(json, "time_ns", clock_to_real_ns(&agent->clock, boot_ns));
	json_raw(json, agent->origin.data, agent->origin.length);
	return json;
}

void agent_record_end(struct agent *agent, enum record_class class)
{
	json_close_object(&agent->batches[class].json);
	batch_end(&agent->batches[class]);
}

void agent_host_record(struct agent *agent)
{
	record_host(&agent->record_host, agent_record_begin(agent, "host", RECORD_EVENT, agent->start_boot_ns));
	agent_record_end(agent, RECORD_EVENT);
}

static void gap_add(struct agent *agent, const char *room, const char *reason, uint64_t count)
{
	for (size_t i = 0; i < agent->gap_count; i++) {
		if (!strcmp(agent->gaps[i].room, room) && !strcmp(agent->gaps[i].reason, reason)) {
			agent->gaps[i].count += count;
			return;
		}
	}
	if (agent->gap_count < GAPS_MAX)
		agent->gaps[agent->gap_count++] = (struct gap_count){ room, reason, count, NULL };
}

int agent_gap_restore(struct agent *agent, const char *room, const char *reason, uint64_t count)
{
	size_t room_size = strlen(room) + 1, reason_size = strlen(reason) + 1;
	size_t before = agent->gap_count;
	char *texts = malloc(room_size + reason_size);

	if (!texts)
		return -ENOMEM;
	memcpy(texts, room, room_size);
	memcpy(texts + room_size, reason, reason_size);
	gap_add(agent, texts, texts + room_size, count);
	if (agent->gap_count > before)
		agent->gaps[before].texts = texts;
	else
		free(texts);
	return 0;
}

static struct json *gap_begin(struct agent *agent, const char *room, const char *reason, uint64_t count)
{
	struct json *json;

	gap_add(agent, room, reason, count);
	json = agent_record_begin(agent, "gap", RECORD_EVENT, clock_boot_ns());
	json_put_string(json, "room", room);
	json_put_string(json, "reason", reason);
	json_put_u64(json, "count", count);
	return json;
}

void agent_gap(struct agent *agent, const char *room, const char *reason, uint64_t count)
{
	gap_begin(agent, room, reason, count);
	agent_record_end(agent, RECORD_EVENT);
}

void agent_unseen(struct agent *agent, const char *room, const char *reason)
{
	agent_losses_read(agent);
	if (agent->ring_explained < agent->ring_lost)
		agent->ring_explained++;
	else
		agent_gap(agent, room, reason, 1);
}

void agent_failed_each(const struct agent *agent,
		       void (*visit)(void *context, const char *module, const char *reason), void *context)
{
	for (size_t i = 0; i < agent->loader.count; i++) {
		const struct loaded_module *loaded = &agent->loader.modules[i];

		if (loaded->state == MODULE_FAILED)
			visit(context, loaded->module->name, loaded->why);
	}
}

void agent_gaps_each(const struct agent *agent,
		     void (*visit)(void *context, const char *room, const char *reason, uint64_t count), void *context)
{
	for (size_t i = 0; i < agent->gap_count; i++)
		visit(context, agent->gaps[i].room, agent->gaps[i].reason, agent->gaps[i].count);
}

static uint64_t agent_dropped(const struct agent *agent)
{
	uint64_t dropped = 0;

	for (int class = 0; class < RECORD_CLASS_END; class++)
		dropped += agent->batches[class].dropped;
	return dropped;
}

void agent_gap_range(struct agent *agent, const char *room, const char *reason, uint64_t count, uint64_t first,
		     uint64_t last)
{
	struct json *json = gap_begin(agent, room, reason, count);

	json_put_known_u64(json, "first_sequence", first ? first : JSON_UNKNOWN);
	json_put_known_u64(json, "last_sequence", last ? last : JSON_UNKNOWN);
	agent_record_end(agent, RECORD_EVENT);
}

uint64_t agent_lost(const struct agent *agent)
{
	uint64_t lost = agent_dropped(agent);

	for (size_t i = 0; i < agent->gap_count; i++) {
		if (strcmp(agent->gaps[i].room, "kernel") != 0) // what a full ring took, once more
			lost += agent->gaps[i].count;
	}
	return lost;
}

// Sums of processes whose last record was lost: the detail is gone, the totals are not.
static void lost_totals_read(struct agent *agent)
{
	int fd = agent->loader.lost_totals_fd;
	uint64_t key, next;
	struct lost_totals totals;

	while (fd >= 0 && !bpf_map_get_next_key(fd, NULL, &next)) {
		struct json *json;

		key = next;
		if (bpf_map_lookup_elem(fd, &key, &totals) || bpf_map_delete_elem(fd, &key))
			return;
		json = gap_begin(agent, "kernel", "process totals kept without detail", totals.processes);
		json_put_u64(json, "cpu_ns", totals.cpu_ns);
		json_put_u64(json, "read_bytes", totals.read_bytes);
		json_put_u64(json, "write_bytes", totals.write_bytes);
		cgroup_write(agent->cgroups ? cgroup_find(agent->cgroups, key) : NULL, json);
		agent_record_end(agent, RECORD_EVENT);
	}
}

void agent_losses_read(struct agent *agent)
{
	struct reader_stats stats;
	uint64_t lost;

	if (!agent->reader || reader_stats(agent->reader, &stats) < 0)
		return;
	lost = stats.lifecycle.count[EVENT_COUNT_LOST] + stats.detail.count[EVENT_COUNT_LOST];
	if (lost > agent->ring_lost) {
		agent_gap(agent, "ring", "full", lost - agent->ring_lost);
		agent->ring_lost = lost;
		agent_cgroups_rescan(agent);
		lost_totals_read(agent);
	}
}

static void cgroup_sample(void *context, struct cgroup *cgroup)
{
	struct agent *agent = context;
	struct json *json;

	json = agent_record_begin(agent, "cgroup", RECORD_SAMPLE, clock_boot_ns());
	cgroup_write(cgroup, json);
	for (size_t i = 0; i < agent->loader.count; i++) {
		struct loaded_module *loaded = &agent->loader.modules[i];

		if (loaded->state == MODULE_RUNNING && loaded->module->cgroup_fields)
			loaded->module->cgroup_fields(loaded->data, cgroup, json);
	}
	agent_record_end(agent, RECORD_SAMPLE);
}

void agent_sample_cgroups(struct agent *agent, uint64_t now_boot_ns)
{
	uint64_t refused;

	if (!agent->cgroups)
		return;
	cgroup_table_expire(agent->cgroups);
	cgroup_table_expire(agent->default_cgroups);
	refused = cgroup_table_refused(agent->cgroups);
	if (refused > agent->cgroups_refused)
		agent_gap(agent, "cgroups", "table full", refused - agent->cgroups_refused);
	agent->cgroups_refused = refused;
	cgroup_sampler_run(agent->cgroup_sampler, now_boot_ns, CGROUPS_A_SECOND, cgroup_sample, agent);
}

// An opening record when a process outlives a tick, then its figures as they grow: one that has not run has none.
static void process_sample(void *context, struct process *process)
{
	struct agent *agent = context;
	struct json *json;

	if (process->exit_boot_ns || process->seen_boot_ns < process->start_boot_ns + agent->options.sample_ns ||
	    (process->opened && process->sampled_cpu_ns == process->counters.cpu_ns))
		return;
	json = agent_record_begin(agent, process->opened ? "sample" : "open", RECORD_SAMPLE, clock_boot_ns());
	if (process->opened)
		record_sample(process, json);
	else
		record_process(process, &agent->record_host, &agent->clock, json);
	process->opened = true;
	process->sampled_cpu_ns = process->counters.cpu_ns;
	agent_record_end(agent, RECORD_SAMPLE);
}

void agent_sample(struct agent *agent, uint64_t now_boot_ns)
{
	struct json *json = agent_record_begin(agent, "hostsample", RECORD_SAMPLE, now_boot_ns);

	for (size_t i = 0; i < agent->loader.count; i++) {
		struct loaded_module *loaded = &agent->loader.modules[i];

		if (loaded->state == MODULE_RUNNING && loaded->module->host_fields)
			loaded->module->host_fields(loaded->data, json);
	}
	agent_record_end(agent, RECORD_SAMPLE);
	process_each(agent->processes, process_sample, agent);
}

static void ring_status(struct json *json, const char *name, const struct ring_totals *totals)
{
	json_key(json, name);
	json_open_object(json);
	json_put_u64(json, "seen", totals->count[EVENT_COUNT_SEEN]);
	json_put_u64(json, "submitted", totals->count[EVENT_COUNT_SUBMITTED]);
	json_put_u64(json, "lost", totals->count[EVENT_COUNT_LOST]);
	json_put_u64(json, "filtered", totals->count[EVENT_COUNT_FILTERED]);
	json_close_object(json);
}

static void modules_status(struct agent *agent, struct json *json)
{
	json_key(json, "modules");
	json_open_array(json);
	for (size_t i = 0; i < agent->loader.count; i++) {
		struct loaded_module *loaded = &agent->loader.modules[i];

		json_open_object(json);
		json_put_string(json, "name", loaded->module->name);
		json_put_string(json, "state", module_state_name(loaded->state));
		json_put_string(json, "reason", loaded->why[0] ? loaded->why : NULL);
		json_close_object(json);
	}
	json_close_array(json);
}

void agent_status(struct agent *agent, struct json *json)
{
	struct reader_stats stats;

	modules_status(agent, json);
	json_key(json, "rings");
	json_open_object(json);
	if (agent->reader && !reader_stats(agent->reader, &stats)) {
		ring_status(json, "lifecycle", &stats.lifecycle);
		ring_status(json, "detail", &stats.detail);
		json_put_u64(json, "malformed", stats.malformed);
	}
	json_close_object(json);
	json_key(json, "gaps");
	json_open_array(json);
	for (size_t i = 0; i < agent->gap_count; i++) {
		json_open_object(json);
		json_put_string(json, "room", agent->gaps[i].room);
		json_put_string(json, "reason", agent->gaps[i].reason);
		json_put_u64(json, "count", agent->gaps[i].count);
		json_close_object(json);
	}
	json_close_array(json);
	json_put_u64(json, "events", agent->events);
	json_put_u64(json, "records", agent->batches[RECORD_EVENT].records + agent->batches[RECORD_SAMPLE].records);
	json_put_u64(json, "records_dropped", agent_dropped(agent));
	json_put_u64(json, "processes_ended", agent->ended);
	json_put_u64(json, "processes_live", process_table_count(agent->processes));
}
