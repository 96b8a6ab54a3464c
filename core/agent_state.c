// SPDX-License-Identifier: Apache-2.0
// The agent between two images: yields what it knows, or goes on from what another one knew. The state is written once
// the rings are empty and read before anything is drained, so each event counts on one side. A state that cannot be
// read costs images and arguments of what lives, never a process: the iterator finds it.
#include "core/agent_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/agent_private.h"
#include "core/base/clock.h"
#include "core/correlate_state.h"
#include "core/filter.h"
#include "core/handover.h"
#include "core/process_state.h"

// Top-level fields, in the order they are written; an older one may be missing, a newer one is passed over.
enum agent_tag {
	AGENT_VERSION = 1,
	AGENT_FIGURES,
	AGENT_GAP,
	AGENT_CGROUP,
	AGENT_RUN,
	AGENT_TASK,
	AGENT_PROCESS,
	AGENT_END,
};
enum gap_tag { GAP_ROOM = 1, GAP_REASON, GAP_COUNT };
enum cgroup_tag { CGROUP_ID = 1, CGROUP_PATH, CGROUP_DEFAULT, CGROUP_REMOVED };

#define FIGURE(tag, member) PARCEL_MEMBER(tag, struct agent, member)

static const struct parcel_member figures[] = {
	FIGURE(1, events), FIGURE(2, ended), FIGURE(3, ring_lost), FIGURE(4, ring_explained),
	FIGURE(5, cgroups_refused), FIGURE(6, second_ns), FIGURE(7, sample_ns),
};

#define FIGURE_COUNT (sizeof(figures) / sizeof(figures[0]))

// ---- the older image -----------------------------------------------------------------------------------------------

int agent_offer(const struct agent *agent, struct handover_offer *offer)
{
	if (!agent->reader)
		return -ENOTSUP;
	loader_offer(&agent->loader, offer);
	return 0;
}

struct writing {
	struct agent *agent;
	struct buf *out;
	struct process_programs programs;
	struct parcel_map cgroups;
	bool ended;
};

static void cgroup_state_write(void *context, struct process *process)
{
	struct writing *writing = context;
	const struct cgroup *cgroup = process->cgroup;
	size_t opened;
	bool fresh;

	if (!cgroup || !parcel_map_put(&writing->cgroups, (uint64_t)(uintptr_t)cgroup, &fresh) || !fresh)
		return;
	opened = parcel_open(writing->out, AGENT_CGROUP);
	parcel_put_u64(writing->out, CGROUP_ID, cgroup->id);
	parcel_put_string(writing->out, CGROUP_PATH, cgroup->path);
	parcel_put_u64(writing->out, CGROUP_DEFAULT, cgroup != cgroup_find(writing->agent->cgroups, cgroup->id));
	parcel_put_u64(writing->out, CGROUP_REMOVED, cgroup->removed);
	parcel_close(writing->out, opened);
}

static void process_state_one(void *context, struct process *process)
{
	struct writing *writing = context;
	size_t opened;

	if ((process->exit_boot_ns != 0) != writing->ended)
		return;
	opened = parcel_open(writing->out, AGENT_PROCESS);
	process_state_write(writing->out, process, &writing->programs);
	correlate_state_write_process(writing->out, process);
	parcel_close(writing->out, opened);
}

static void gaps_write(const struct agent *agent, struct buf *out)
{
	for (size_t i = 0; i < agent->gap_count; i++) {
		size_t opened = parcel_open(out, AGENT_GAP);

		parcel_put_string(out, GAP_ROOM, agent->gaps[i].room);
		parcel_put_string(out, GAP_REASON, agent->gaps[i].reason);
		parcel_put_u64(out, GAP_COUNT, agent->gaps[i].count);
		parcel_close(out, opened);
	}
}

static int state_write(struct agent *agent, struct buf *out)
{
	struct writing writing = { .agent = agent, .out = out, .ended = true };
	size_t opened;

	parcel_put_u64(out, AGENT_VERSION, AGENT_STATE_VERSION);
	opened = parcel_open(out, AGENT_FIGURES);
	parcel_put_members(out, figures, FIGURE_COUNT, agent);
	parcel_close(out, opened);
	gaps_write(agent, out);
	process_each(agent->processes, cgroup_state_write, &writing);
	correlate_state_write(out, AGENT_RUN, AGENT_TASK, agent->correlate);
	// A pid may be had again by one that lives.
	process_each(agent->processes, process_state_one, &writing);
	writing.ended = false;
	process_each(agent->processes, process_state_one, &writing);
	parcel_put_u64(out, AGENT_END, process_table_count(agent->processes));
	parcel_map_free(&writing.cgroups);
	// Ids alone were remembered: no program is held.
	parcel_map_free(&writing.programs.met);
	return buf_error(out);
}

int agent_yield(struct agent *agent, bool own_hooks, struct buf *out, uint64_t *ret_last_drain_ns,
		uint64_t *ret_cut_ns)
{
	uint64_t cut_ns = own_hooks ? clock_boot_ns() : 0;

	if (own_hooks)
		reader_hold_from(agent->reader, cut_ns);
	agent->events += reader_drain(agent->reader);
	*ret_last_drain_ns = clock_boot_ns();
	*ret_cut_ns = cut_ns;
	agent_losses_read(agent);
	agent_flush(agent);
	return state_write(agent, out);
}

void agent_unyield(struct agent *agent)
{
	agent->events += reader_release(agent->reader);
	agent_flush(agent);
}

// ---- the newer image -----------------------------------------------------------------------------------------------

struct reading {
	struct agent *agent;
	struct process_programs programs;
	struct correlate_state correlate;
	uint64_t handed_boot_ns;
	uint64_t processes, known;
	bool whole; // its end was there
};

static int read_tool(void *context, struct image *image, const char *tool)
{
	return correlate_state_tool(((struct reading *)context)->agent->correlate, image, tool);
}

static int read_other(void *context, struct process *process, const struct parcel_field *field)
{
	struct reading *reading = context;

	return correlate_state_read_process(reading->agent->correlate, &reading->correlate, process, field);
}

static void process_discard(struct agent *agent, struct process *process)
{
	correlate_end(agent->correlate, process);
	process_remove(agent->processes, process);
}

static int process_read(struct reading *reading, const struct parcel_field *field)
{
	const struct process_state_visitor visitor = { .tool = read_tool, .other = read_other, .context = reading };
	struct agent *agent = reading->agent;
	struct process *process = NULL;
	int result = process_state_read(agent->processes, field, &reading->programs, &visitor, &process);

	if (result < 0) {
		if (process)
			process_discard(agent, process);
		return result;
	}
	process->handed_boot_ns = reading->handed_boot_ns;
	agent_cgroup_resolve(agent, process);
	reading->processes++;
	return 0;
}

static int gap_read(struct agent *agent, const struct parcel_field *field)
{
	struct parcel inside = parcel_inside(field);
	const char *room = NULL, *reason = NULL;
	struct parcel_field one;
	uint64_t count = 0;

	while (parcel_next(&inside, &one)) {
		if (one.tag == GAP_ROOM)
			room = parcel_string(&one);
		else if (one.tag == GAP_REASON)
			reason = parcel_string(&one);
		else if (one.tag == GAP_COUNT)
			count = parcel_u64(&one);
	}
	if (inside.bad || !room || !reason)
		return -EBADMSG;
	return agent_gap_restore(agent, room, reason, count);
}

static int cgroup_read(struct agent *agent, const struct parcel_field *field)
{
	struct parcel inside = parcel_inside(field);
	bool in_default = false, removed = false;
	const char *path = NULL;
	struct cgroup_table *table;
	struct parcel_field one;
	uint64_t id = 0;

	while (parcel_next(&inside, &one)) {
		if (one.tag == CGROUP_ID)
			id = parcel_u64(&one);
		else if (one.tag == CGROUP_PATH)
			path = parcel_string(&one);
		else if (one.tag == CGROUP_DEFAULT)
			in_default = parcel_u64(&one) != 0;
		else if (one.tag == CGROUP_REMOVED)
			removed = parcel_u64(&one) != 0;
	}
	if (inside.bad || !path || *path != '/')
		return -EBADMSG;
	table = in_default ? agent->default_cgroups : agent->cgroups;
	// Most are there; one that is not was removed, and ended processes still name it.
	if (!table || cgroup_find(table, id))
		return 0;
	if (!cgroup_table_add(table, id, path, NULL) && removed)
		cgroup_table_removed(table, id);
	return 0;
}

static int figures_read(struct agent *agent, const struct parcel_field *field)
{
	struct parcel inside = parcel_inside(field);
	struct parcel_field one;

	while (parcel_next(&inside, &one))
		parcel_take_member(&one, figures, FIGURE_COUNT, agent);
	if (!agent->loader.adopted)
		agent->ring_lost = agent->ring_explained = 0; // rings of its own: counts begin anew
	return inside.bad ? -EBADMSG : 0;
}

static int field_read(struct reading *reading, const struct parcel_field *field)
{
	switch (field->tag) {
	case AGENT_VERSION:
		return parcel_u64(field) == AGENT_STATE_VERSION ? 0 : -EBADMSG;
	case AGENT_FIGURES:
		return figures_read(reading->agent, field);
	case AGENT_GAP:
		return gap_read(reading->agent, field);
	case AGENT_CGROUP:
		return cgroup_read(reading->agent, field);
	case AGENT_RUN:
		return correlate_state_read_run(reading->agent->correlate, &reading->correlate, field);
	case AGENT_TASK:
		return correlate_state_read_task(reading->agent->correlate, &reading->correlate, field);
	case AGENT_PROCESS:
		return process_read(reading, field);
	case AGENT_END:
		reading->whole = true;
		reading->known = parcel_u64(field);
		return 0;
	default:
		return 0;
	}
}

static void relink(void *context, struct process *process)
{
	process_relink(context, process);
}

static void discard(void *context, struct process *process)
{
	process_discard(context, process);
}

static int state_read(struct agent *agent, const struct handover_state *state, const void *data)
{
	struct reading reading = { .agent = agent, .handed_boot_ns = state->cut_ns };
	struct parcel parcel = parcel_of(data, state->length);
	struct parcel_field field;
	int result = 0;

	while (!result && parcel_next(&parcel, &field))
		result = field_read(&reading, &field);
	if (!result && (parcel.bad || !reading.whole || reading.known != reading.processes))
		result = -EBADMSG;
	if (result < 0)
		process_each(agent->processes, discard, agent);
	else
		process_each(agent->processes, relink, agent->processes);
	process_state_free(&reading.programs);
	correlate_state_end(&reading.correlate);
	return result;
}

int agent_resume(struct agent *agent, const struct handover_offer *offer, const struct handover_state *state,
		 const void *data)
{
	int result = data ? state_read(agent, state, data) : -ENODATA;

	loader_maps_merge(&agent->loader, offer);
	if (state)
		reader_skip_before(agent->reader, state->cut_ns);
	loader_resume(&agent->loader, !result);
	if (result < 0)
		agent_gap(agent, "handover", "what the image before knew could not be read", 1);
	// Its rules may be others.
	if (agent->loader.adopted && filter_apply(&agent->loader, agent->rules, agent->cgroups) < 0)
		agent_gap(agent, "filter", "the rules' filter could not be set", 1);
	filter_seeded(&agent->loader);
	return result == -ENODATA ? 0 : result;
}

uint64_t agent_first_drain(struct agent *agent)
{
	uint64_t now_ns = clock_boot_ns();

	agent->events += reader_drain(agent->reader);
	agent_flush(agent);
	return now_ns;
}

uint64_t agent_modules(const struct agent *agent)
{
	uint64_t running = 0;

	for (size_t i = 0; i < agent->loader.count; i++) {
		if (agent->loader.modules[i].state == MODULE_RUNNING)
			running |= 1ull << agent->loader.modules[i].module->id;
	}
	return running;
}

bool agent_adopted(const struct agent *agent)
{
	return agent->loader.adopted;
}
