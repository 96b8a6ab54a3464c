// SPDX-License-Identifier: Apache-2.0
// The agent: owns the rooms, moves records from one to the next, keeps the books of what was lost. It decides
// nothing about processes (modules do), tools (rules do) or storage (sinks do). Single-threaded, driven by the
// caller's loop.
#include "core/agent.h"

#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/agent_private.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/log.h"
#include "core/base/loop.h"
#include "core/filter.h"
#include "core/probe.h"

static const uint64_t SECOND_NS = 1000 * 1000 * 1000ULL;

void agent_options_default(struct agent_options *options)
{
	*options = (struct agent_options){
		.drain_ns = 100 * 1000 * 1000ULL,
		.tick_ns = SECOND_NS / 10,
		.sample_ns = 10 * SECOND_NS,
		.ring_bytes = 2 << 20,
	};
}

static int sinks_write(void *context, const char *records, size_t length, uint32_t count, enum record_class class)
{
	struct agent *agent = context;
	int result = 0;

	for (uint32_t i = 0; i < agent->options.sink_count; i++) {
		const struct agent_sink *sink = &agent->options.sinks[i];
		int one = sink->write ? sink->write(sink->context, records, length, count, class) : 0;

		if (one < 0)
			result = one;
	}
	return result;
}

void agent_flush(struct agent *agent)
{
	for (int class = 0; class < RECORD_CLASS_END; class++)
		batch_flush(&agent->batches[class]);
	for (uint32_t i = 0; i < agent->options.sink_count; i++) {
		if (agent->options.sinks[i].flushed)
			agent->options.sinks[i].flushed(agent->options.sinks[i].context);
	}
}

static void after_drain(void *context, uint32_t records)
{
	struct agent *agent = context;

	agent->events += records;
	agent_flush(agent);
}

static int identity_read(struct agent *agent)
{
	CLEANUP(buf_free) struct buf boot = BUF_INIT;
	struct json json;

	if (gethostname(agent->host, sizeof(agent->host) - 1))
		snprintf(agent->host, sizeof(agent->host), "unknown");
	if (!fs_read("/proc/sys/kernel/random/boot_id", 64, &boot) && boot.data)
		snprintf(agent->boot, sizeof(agent->boot), "%.36s", boot.data);
	json = json_to(&agent->origin);
	json.comma = true;
	json_put_string(&json, "host", agent->host);
	json_put_string(&json, "boot", agent->boot);
	return buf_error(&agent->origin);
}

static void modules_tick(struct agent *agent, uint64_t now_ns)
{
	for (size_t i = 0; i < agent->loader.count; i++) {
		struct loaded_module *loaded = &agent->loader.modules[i];

		if (loaded->state == MODULE_RUNNING && loaded->module->tick)
			loaded->module->tick(loaded->data, now_ns);
	}
}

static void on_tick(void *context, uint64_t now_ns)
{
	struct agent *agent = context;

	// Else what was forked before a stall of this process would still wait in the ring, as if its start had been
	// missed.
	if (agent->reader)
		agent->events += reader_drain(agent->reader);
	modules_tick(agent, now_ns);
	if (now_ns - agent->second_ns >= SECOND_NS) {
		agent->second_ns = now_ns;
		clock_offset_update(&agent->clock);
		agent_losses_read(agent);
		agent_sample_cgroups(agent, now_ns);
	}
	if (now_ns - agent->sample_ns >= agent->options.sample_ns) {
		agent->sample_ns = now_ns;
		agent_sample(agent, now_ns);
	}
	agent_flush(agent);
	for (uint32_t i = 0; i < agent->options.sink_count; i++) {
		if (agent->options.sinks[i].tick)
			agent->options.sinks[i].tick(agent->options.sinks[i].context, now_ns);
	}
}

static int kernel_start(struct agent *agent, struct buf *why)
{
	struct loader_options options = {
		.ring_bytes = agent->options.ring_bytes,
		.tree = agent->options.tree,
		.filter = agent->rules,
		.cgroups = agent->cgroups,
		.modules = agent->options.modules,
		.offer = agent->options.offer,
	};
	struct btf *btf = NULL;
	int result = probe_btf(&btf);

	if (result < 0) {
		buf_printf(why, "the kernel gives no BTF (/sys/kernel/btf/vmlinux): %s", strerror(-result));
		return result;
	}
	probe_host(btf, agent->cgroups, &agent->env);
	result = loader_start(&agent->loader, btf, &agent->env, agent, &options);
	btf__free(btf);
	if (result < 0) {
		buf_printf(why, "module proc: %s", agent->loader.count ? agent->loader.modules[0].why : "missing");
		return result;
	}
	// Each tick drains them too.
	result = reader_new(&agent->loader, agent->options.loop,
			    agent->options.drain_ns < agent->options.tick_ns ? agent->options.drain_ns : 0, after_drain,
			    agent, &agent->reader);
	if (result < 0)
		buf_printf(why, "reading the rings: %s", strerror(-result));
	return result;
}

static int module_defaults(struct agent *agent)
{
	int result = config_new(&agent->module_config);

	agent->options.modules = &agent->module_options;
	return result < 0 ? result : module_options_add(agent->module_config, &agent->module_options);
}

static int rooms_open(struct agent *agent, struct buf *why)
{
	int result = agent->options.modules ? 0 : module_defaults(agent);

	if (!result)
		result = process_table_new(&agent->processes);
	if (!result)
		result = rules_load_pushed(agent->options.rules_directory, agent->options.rules_pushed, &agent->rules,
					   why);
	if (!result)
		result = correlate_new(agent->rules, agent->boot, &agent->correlate);
	if (result < 0)
		return result;
	result = cgroup_table_new(&agent->cgroups);
	if (result == -ENOENT)
		return 0;
	if (!result)
		result = cgroup_sampler_new(agent->cgroups, agent->options.sample_ns, &agent->cgroup_sampler);
	if (!result && cgroup_table_controller(agent->cgroups) &&
	    cgroup_table_new_default(&agent->default_cgroups) == 0)
		cgroup_table_scan(agent->default_cgroups);
	return result < 0 ? result : cgroup_table_scan(agent->cgroups);
}

int agent_new(const struct agent_options *options, struct agent **ret_agent, struct buf *why)
{
	struct agent *agent = calloc(1, sizeof(*agent));
	int result;

	if (!agent)
		return -ENOMEM;
	agent->options = *options;
	agent->loader.filter_config_fd = agent->loader.filter_rules_fd = -1; // none without BPF
	agent->start_boot_ns = agent->second_ns = agent->sample_ns = clock_boot_ns();
	for (int class = 0; class < RECORD_CLASS_END; class++)
		batch_init(&agent->batches[class], (enum record_class)class, sinks_write, agent);
	clock_offset_update(&agent->clock);
	result = identity_read(agent);
	record_host_read(&agent->record_host);
	if (!result)
		result = rooms_open(agent, why);
	if (result < 0 && !why->length)
		buf_printf(why, "starting: %s", strerror(-result));
	if (!result && options->fallback)
		probe_host(NULL, agent->cgroups, &agent->env);
	else if (!result)
		result = kernel_start(agent, why);
	// Once more: one made before the hooks were there had no event.
	if (!result && agent->cgroups) {
		cgroup_table_scan(agent->cgroups);
		cgroup_table_scan(agent->default_cgroups);
	}
	if (!result)
		result = loop_add_timer(options->loop, options->tick_ns, on_tick, agent, &agent->tick);
	if (result < 0) {
		agent_free(agent);
		return result;
	}
	agent_host_record(agent);
	*ret_agent = agent;
	return 0;
}

int agent_tree_open(struct agent *agent)
{
	return agent->reader ? filter_process(&agent->loader, (uint32_t)getpid(), true) : 0;
}

// The fork of the root was not seen: the iterator finds it.
static void tree_root_seek(struct agent *agent, uint32_t pid)
{
	struct loaded_module *proc = loader_find(&agent->loader, MODULE_PROC);

	filter_process(&agent->loader, pid, true);
	proc->module->start(proc->data);
	agent_gap(agent, "proc", "start of a process not seen", 1);
}

int agent_tree_close(struct agent *agent, uint32_t pid, const char *name)
{
	struct process *root;

	if (agent->reader && agent->options.tree)
		filter_process(&agent->loader, (uint32_t)getpid(), false);
	if (agent->reader)
		reader_drain(agent->reader);
	root = process_find(agent->processes, pid);
	if (!root && agent->reader) {
		tree_root_seek(agent, pid);
		root = process_find(agent->processes, pid);
	}
	return root ? correlate_root(agent->correlate, root, name) : -ESRCH;
}

static void end_references(void *context, struct process *process)
{
	correlate_end(((struct agent *)context)->correlate, process);
}

void agent_free(struct agent *agent)
{
	if (!agent)
		return;
	if (agent->tick)
		loop_timer_set(agent->tick, 0);
	reader_free(agent->reader);
	loader_stop(&agent->loader);
	if (agent->processes && agent->correlate)
		process_each(agent->processes, end_references, agent);
	correlate_free(agent->correlate);
	process_table_free(agent->processes);
	cgroup_sampler_free(agent->cgroup_sampler);
	cgroup_table_free(agent->cgroups);
	cgroup_table_free(agent->default_cgroups);
	rules_free(agent->rules);
	for (size_t i = 0; i < agent->gap_count; i++)
		free(agent->gaps[i].texts);
	buf_free(&agent->origin);
	for (int class = 0; class < RECORD_CLASS_END; class++)
		batch_free(&agent->batches[class]);
	config_free(agent->module_config);
	module_options_free(&agent->module_options);
	free(agent);
}

int agent_reload(struct agent *agent, struct buf *why)
{
	struct rules *fresh;
	int result = rules_load_pushed(agent->options.rules_directory, agent->options.rules_pushed, &fresh, why);

	if (result < 0)
		return result;
	if (!agent->options.tree)
		result = filter_apply(&agent->loader, fresh, agent->cgroups);
	if (result < 0) {
		buf_printf(why, "filter: %s\n", strerror(-result));
		(void)filter_apply(&agent->loader, agent->rules, agent->cgroups); // part of the new ones may be in it
		rules_free(fresh);
		return result == -EINVAL ? -EIO : result; // the rules themselves are good
	}
	process_programs_forget(agent->processes); // what they say is plain, the new ones may hide
	correlate_set_rules(agent->correlate, fresh);
	rules_free(agent->rules);
	agent->rules = fresh;
	return 0;
}

struct process_table *agent_processes(struct agent *agent)
{
	return agent->processes;
}

struct cgroup_table *agent_cgroups(struct agent *agent)
{
	return agent->cgroups;
}

struct correlate *agent_correlate(struct agent *agent)
{
	return agent->correlate;
}

uint64_t agent_drained_ns(const struct agent *agent)
{
	return agent->reader ? reader_drained_ns(agent->reader) : 0;
}

const struct clock_offset *agent_clock(const struct agent *agent)
{
	return &agent->clock;
}
