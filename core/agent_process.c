// SPDX-License-Identifier: Apache-2.0
// What the agent does for one process: resolve its cgroup and place when it starts, execs or moves, write its
// record when it ends, and at the very end account for those that still live.
#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/agent_private.h"
#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/filter.h"
#include "core/proc_read.h"
#include "core/record.h"

static void cgroup_count(struct process *process, int change)
{
	struct cgroup *cgroup = (struct cgroup *)process->cgroup;

	if (!cgroup)
		return;
	cgroup->processes = (uint32_t)((int)cgroup->processes + change);
	if (!cgroup->processes)
		cgroup->due = true; // its last figures, before somebody removes it
}

// Of two hierarchies the one whose path names a container is believed, the chosen one first.
static struct cgroup *cgroup_of(struct agent *agent, const struct process *process)
{
	struct cgroup *chosen = cgroup_find(agent->cgroups, process->cgroup_id);
	struct cgroup *other;

	if (!process->default_cgroup_id || (chosen && chosen->container_id))
		return chosen;
	other = cgroup_find(agent->default_cgroups, process->default_cgroup_id);
	return other && other->container_id ? other : chosen;
}

void agent_cgroup_resolve(struct agent *agent, struct process *process)
{
	cgroup_count(process, -1);
	process->cgroup = cgroup_of(agent, process);
	cgroup_count(process, 1);
}

static void cgroup_retry(void *context, struct process *process)
{
	struct agent *agent = context;

	if (process->cgroup || !cgroup_of(agent, process))
		return;
	agent_cgroup_resolve(agent, process);
	correlate_cgroup(agent->correlate, process);
}

void agent_cgroups_rescan(struct agent *agent)
{
	if (!agent->cgroups)
		return;
	cgroup_table_scan(agent->cgroups);
	cgroup_table_scan(agent->default_cgroups);
	process_each(agent->processes, cgroup_retry, agent);
}

void agent_process_seed(struct agent *agent, struct process *process)
{
	struct image_strings strings = { 0 };
	struct arena arena;

	arena_init(&arena, 32 * 1024);
	if (!proc_read_image_of(process->pid, process->start_boot_ns, &arena, &strings) &&
	    !process_set_strings(process, &strings))
		process->quality[FIGURE_ARGS] = QUALITY_SAMPLED;
	arena_free(&arena);
	agent_process_start(agent, process);
	agent_process_exec(agent, process);
}

struct seeded {
	struct process **processes;
	size_t count, room;
	uint64_t since_boot_ns;
};

static void seeded_gather(void *context, struct process *process)
{
	struct seeded *seeded = context;

	if (process->seeded && process->seeded_boot_ns >= seeded->since_boot_ns && seeded->count < seeded->room)
		seeded->processes[seeded->count++] = process;
}

static int by_start(const void *left, const void *right)
{
	const struct process *a = *(struct process *const *)left;
	const struct process *b = *(struct process *const *)right;

	return (a->start_boot_ns > b->start_boot_ns) - (a->start_boot_ns < b->start_boot_ns);
}

void agent_processes_seed(struct agent *agent, uint64_t since_boot_ns)
{
	size_t room = process_table_count(agent->processes);
	struct seeded seeded = {
		.processes = calloc(room + 1, sizeof(struct process *)),
		.room = room,
		.since_boot_ns = since_boot_ns,
	};

	if (!seeded.processes) {
		agent_gap(agent, "proc", "no memory to place what already ran", room);
		return;
	}
	process_each(agent->processes, seeded_gather, &seeded);
	qsort(seeded.processes, seeded.count, sizeof(*seeded.processes), by_start);
	for (size_t i = 0; i < seeded.count; i++) {
		process_relink(agent->processes, seeded.processes[i]);
		// What it used before is in its totals, not in the share of what runs now.
		seeded.processes[i]->image->at_start = seeded.processes[i]->counters;
		agent_process_seed(agent, seeded.processes[i]);
	}
	free(seeded.processes);
}

void agent_process_start(struct agent *agent, struct process *process)
{
	agent_cgroup_resolve(agent, process);
	correlate_fork(agent->correlate, process);
}

// Secrets leave the arguments before anything else sees them.
static void args_redact(struct agent *agent, struct process *process)
{
	const struct image *image = process->image;
	struct image_strings strings;
	struct arena arena;
	const char *args;
	uint32_t size;

	if (!image->args || image->program->plain)
		return;
	arena_init(&arena, 4096);
	if (rules_redact(agent->rules, image->args, image->args_size, &arena, &args, &size) < 0) {
		args = NULL; // better no arguments than secret ones
		size = 0;
	}
	if (args != image->args) {
		strings = (struct image_strings){
			.exe = image->exe,
			.script = image->script,
			.interpreter = image->interpreter,
			.cwd = image->cwd,
			.args = args,
			.args_size = size,
			.args_total = image->args_total,
		};
		if (process_set_strings(process, &strings) < 0)
			process->image->args_size = 0;
	} else {
		process_program_plain(agent->processes, process);
	}
	arena_free(&arena);
}

void agent_process_exec(struct agent *agent, struct process *process)
{
	args_redact(agent, process);
	agent_cgroup_resolve(agent, process);
	correlate_exec(agent->correlate, process);
}

void agent_cgroup_made(struct agent *agent, uint64_t id, const char *path, bool in_default)
{
	struct cgroup_table *table = in_default ? agent->default_cgroups : agent->cgroups;
	const struct cgroup *cgroup;

	if (!table)
		return;
	if (cgroup_table_add(table, id, path, &cgroup) < 0)
		agent_gap(agent, "cgroup", "a new cgroup found the table full", 1);
	if (!in_default && !agent->options.tree && filter_cgroup_made(&agent->loader, agent->rules, id, path) < 0)
		agent_gap(agent, "filter", "a new cgroup found the filter full", 1);
}

void agent_cgroup_removed(struct agent *agent, uint64_t id, bool in_default)
{
	cgroup_table_removed(in_default ? agent->default_cgroups : agent->cgroups, id);
}

void agent_process_move(struct agent *agent, struct process *process, uint64_t cgroup_id, uint64_t default_cgroup_id)
{
	if (process->cgroup_id == cgroup_id && process->default_cgroup_id == default_cgroup_id && process->cgroup)
		return;
	process->cgroup_id = cgroup_id;
	process->default_cgroup_id = default_cgroup_id;
	agent_cgroup_resolve(agent, process);
	correlate_cgroup(agent->correlate, process);
}

static void process_record(struct agent *agent, struct process *process)
{
	uint64_t at = process->exit_boot_ns ? process->exit_boot_ns : clock_boot_ns();
	struct json *json = agent_record_begin(agent, "process", RECORD_EVENT, at);

	record_process(process, &agent->record_host, &agent->clock, json);
	agent_record_end(agent, RECORD_EVENT);
}

static void oom_record(struct agent *agent, struct process *process)
{
	struct json *json = agent_record_begin(agent, "oom", RECORD_EVENT, process->exit_boot_ns);

	json_put_u64(json, "pid", process->pid);
	json_put_u64(json, "start_boot_ns", process->start_boot_ns);
	json_put_string(json, "comm", process->image->comm);
	json_put_string(json, "tool", process->image->tool);
	json_put_string(json, "limit", process->oom_limit);
	json_put_known_u64(json, "peak_rss_bytes", process->peak_rss_bytes);
	cgroup_write(process->cgroup, json);
	agent_record_end(agent, RECORD_EVENT);
}

static void modules_end(struct agent *agent, struct process *process)
{
	for (size_t i = 0; i < agent->loader.count; i++) {
		struct loaded_module *loaded = &agent->loader.modules[i];

		if (loaded->state == MODULE_RUNNING && loaded->module->process_end)
			loaded->module->process_end(loaded->data, process);
	}
}

void agent_process_end(struct agent *agent, struct process *process)
{
	modules_end(agent, process);
	if (process->oom)
		oom_record(agent, process);
	process_record(agent, process);
	agent->ended++;
	for (uint32_t i = 0; i < agent->options.sink_count; i++) {
		if (agent->options.sinks[i].process_end)
			agent->options.sinks[i].process_end(agent->options.sinks[i].context, process);
	}
	correlate_end(agent->correlate, process);
	cgroup_count(process, -1);
	process_remove(agent->processes, process);
}

struct count_living {
	size_t living, ended;
};

static void count_one(void *context, struct process *process)
{
	struct count_living *count = context;

	if (process->exit_boot_ns)
		count->ended++;
	else
		count->living++;
}

size_t agent_living(struct agent *agent)
{
	struct count_living count = { 0 };

	process_each(agent->processes, count_one, &count);
	return count.living;
}

static void finish_ended(void *context, struct process *process)
{
	if (process->exit_boot_ns)
		agent_process_end(context, process);
}

static void finish_living(void *context, struct process *process)
{
	agent_process_end(context, process);
}

static void finish_tick(struct agent *agent)
{
	struct loaded_module *proc = loader_find(&agent->loader, MODULE_PROC);

	// The live iterator gives the last figures of those that live, and the final ones of zombies.
	if (proc && proc->module->tick)
		proc->module->tick(proc->data, UINT64_MAX);
}

// A task is released after an RCU grace period, on the CPU that reaped it; one that idles may sit on its callbacks
// for seconds. Waiting for a grace period from each CPU in turn gets them done. Returns whether each CPU had its turn.
static bool grace_period_wait(void)
{
	static unsigned int next_cpu;
	unsigned int last_cpu = next_cpu;
	cpu_set_t before, one;

	if (!sched_getaffinity(0, sizeof(before), &before)) {
		do
			next_cpu = (next_cpu + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(next_cpu, &before));
		CPU_ZERO(&one);
		CPU_SET(next_cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		sched_setaffinity(0, sizeof(before), &before);
	}
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		poll(NULL, 0, 5);
	return next_cpu <= last_cpu;
}

// Until all that ended are released, for wait_ns at least (some never are); where grace periods are long, until two
// were waited for on each CPU, for ten times wait_ns at most.
static void release_wait(struct agent *agent, uint64_t wait_ns)
{
	uint64_t begin = clock_boot_ns();
	unsigned int rounds = 0;

	for (;;) {
		struct count_living count = { 0 };
		uint64_t waited_ns = clock_boot_ns() - begin;

		reader_drain(agent->reader);
		process_each(agent->processes, count_one, &count);
		if (!count.ended || (waited_ns >= wait_ns && (rounds >= 2 || waited_ns >= 10 * wait_ns)))
			return;
		rounds += grace_period_wait();
	}
}

size_t agent_finish(struct agent *agent, uint64_t wait_ns)
{
	size_t living;

	if (agent->reader)
		release_wait(agent, wait_ns);
	finish_tick(agent);
	process_each(agent->processes, finish_ended, agent);
	living = process_table_count(agent->processes);
	if (agent->options.living_at_end)
		process_each(agent->processes, finish_living, agent);
	agent_losses_read(agent);
	agent_flush(agent);
	return living;
}

struct write_living {
	struct agent *agent;
	struct buf *out;
};

static void write_one(void *context, struct process *process)
{
	struct write_living *write = context;
	struct json json = json_to(write->out);

	if (process->exit_boot_ns)
		return;
	json_open_object(&json);
	json_put_string(&json, "kind", "process");
	json_put_string(&json, "state", (char[]){ process->state, '\0' });
	json_put_known_u64(&json, "rss_bytes", process->rss_bytes);
	json_put_known_u64(&json, "figures_boot_ns", process->counters_boot_ns ? process->counters_boot_ns : UNKNOWN);
	record_process(process, NULL, &write->agent->clock, &json);
	json_close_object(&json);
	json_end_line(&json);
}

bool agent_is_watched(const struct agent *agent, uint64_t now_boot_ns)
{
	enum { WATCHED_SECONDS = 15 };

	return agent->watched_ns && now_boot_ns >= agent->watched_ns &&
	       now_boot_ns - agent->watched_ns < WATCHED_SECONDS * UINT64_C(1000000000);
}

void agent_processes_write(struct agent *agent, struct buf *out)
{
	struct write_living write = { agent, out };

	agent->watched_ns = clock_boot_ns();
	process_each(agent->processes, write_one, &write);
}
