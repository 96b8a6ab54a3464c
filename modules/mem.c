// SPDX-License-Identifier: Apache-2.0
// The mem module: faults, peaks and swap of a process, its reclaim and compaction stalls, and which limit an OOM
// kill came from. Stalls are counted in the kernel and read here on the tick, and once more when the process ends.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "bpf/mem.h"
#include "core/agent.h"
#include "core/module.h"
#include "mem.skel.h"
#include "modules/mem_host.h"

static const uint64_t STALLS_INTERVAL_NS = 1000 * 1000 * 1000ULL;

struct mem_options {
	bool stalls;
};

static const struct option_spec mem_options[] = {
	{ "stalls", OPTION_BOOL, offsetof(struct mem_options, stalls), "true", 0, 0,
	  "Hook reclaim and compaction, for the time processes stall in them" },
	{ 0 },
};

struct mem_state {
	struct mem_bpf *skeleton;
	const struct module_host *host;
	const struct mem_options *options;
	struct mem_host host_files;
	uint64_t read_ns;
	uint64_t lost;
};

static int mem_supported(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	if (env->btf)
		return 0;
	snprintf(why, MODULE_WHY_SIZE, "the kernel gives no BTF (/sys/kernel/btf/vmlinux)");
	return -ENOTSUP;
}

static void stalls_leave_out(struct bpf_object *object)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, object)
		bpf_program__set_autoload(program, false);
}

static int mem_open(void *data, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton)
{
	struct mem_state *state = data;

	state->host = host;
	state->options = host->options;
	mem_host_open(&state->host_files);
	state->skeleton = mem_bpf__open();
	if (!state->skeleton)
		return -errno;
	if (!state->options->stalls)
		stalls_leave_out(state->skeleton->obj);
	*ret_skeleton = state->skeleton->skeleton;
	return 0;
}

// What was lost before was told before.
static int mem_resume(void *data)
{
	struct mem_state *state = data;

	state->lost = state->skeleton->bss->stalls_lost;
	return 0;
}

static void mem_close(void *data)
{
	struct mem_state *state = data;

	if (!state)
		return;
	mem_bpf__destroy(state->skeleton);
	state->skeleton = NULL;
	mem_host_close(&state->host_files);
}

static void stall_set(struct mem_state *state, uint32_t pid, const struct mem_stall *stall)
{
	struct process *process = process_find_exact(agent_processes(state->host->agent), pid, stall->start_ns);
	int fd = bpf_map__fd(state->skeleton->maps.mem_stalls);

	if (!process) {
		bpf_map_delete_elem(fd, &pid);
		return;
	}
	process->reclaim_stall_ns = stall->reclaim_ns;
	process->compaction_stall_ns = stall->compaction_ns;
}

static void lost_read(struct mem_state *state)
{
	uint64_t lost = state->skeleton->bss->stalls_lost;

	if (lost <= state->lost)
		return;
	agent_gap(state->host->agent, "mem", "a stall not counted, map full", lost - state->lost);
	state->lost = lost;
}

// Few processes ever stall: the map is empty on most hosts.
static int mem_tick(void *data, uint64_t now_boot_ns)
{
	struct mem_state *state = data;
	int fd = bpf_map__fd(state->skeleton->maps.mem_stalls);
	uint32_t pid, next;
	struct mem_stall stall;
	int result;

	if (now_boot_ns - state->read_ns < STALLS_INTERVAL_NS || !state->skeleton->bss->stalls_begun)
		return 0;
	state->read_ns = now_boot_ns;
	for (result = bpf_map_get_next_key(fd, NULL, &next); !result;) {
		pid = next;
		result = bpf_map_get_next_key(fd, &pid, &next);
		if (!bpf_map_lookup_elem(fd, &pid, &stall))
			stall_set(state, pid, &stall);
	}
	lost_read(state);
	return 0;
}

static void mem_process_end(void *data, struct process *process)
{
	struct mem_state *state = data;
	int fd = bpf_map__fd(state->skeleton->maps.mem_stalls);
	struct cgroup_table *cgroups = agent_cgroups(state->host->agent);
	struct mem_stall stall;

	if (state->options->stalls)
		process->reclaim_stall_ns = process->compaction_stall_ns = 0;
	if (state->skeleton->bss->stalls_begun && !bpf_map_lookup_elem(fd, &process->pid, &stall) &&
	    stall.start_ns == process->start_boot_ns) {
		process->reclaim_stall_ns = stall.reclaim_ns;
		process->compaction_stall_ns = stall.compaction_ns;
		bpf_map_delete_elem(fd, &process->pid);
	}
	if (process->oom && process->cgroup && cgroups)
		cgroup_oom_limit(cgroups, (struct cgroup *)process->cgroup, &process->oom_limit);
}

static void mem_process_fields(const struct process *process, struct json *json)
{
	static const struct json_field faults[] = {
		JSON_FIELD(struct counters, minor_faults, "minor_faults"),
		JSON_FIELD(struct counters, major_faults, "major_faults"),
	};
	static const struct json_field fields[] = {
		JSON_FIELD(struct process, peak_rss_bytes, "peak_rss_bytes"),
		JSON_FIELD(struct process, anon_bytes, "anon_bytes"),
		JSON_FIELD(struct process, file_bytes, "file_bytes"),
		JSON_FIELD(struct process, shmem_bytes, "shmem_bytes"),
		JSON_FIELD(struct process, swap_bytes, "swap_bytes"),
		JSON_FIELD(struct process, reclaim_stall_ns, "reclaim_stall_ns"),
		JSON_FIELD(struct process, compaction_stall_ns, "compaction_stall_ns"),
	};
	bool known = process_counted(process);

	json_put_fields(json, faults, sizeof(faults) / sizeof(faults[0]), process_counters(process, known));
	json_put_fields(json, fields, sizeof(fields) / sizeof(fields[0]), process);
}

static void mem_host_record(void *data, struct json *json)
{
	mem_host_fields(&((struct mem_state *)data)->host_files, json);
}

static void mem_cgroup_record(void *data, struct cgroup *cgroup, struct json *json)
{
	struct mem_state *state = data;

	mem_cgroup_fields(agent_cgroups(state->host->agent), cgroup, json);
}

const struct module module_mem = {
	.name = "mem",
	.id = MODULE_MEM,
	.summary = "faults, peak memory, reclaim and compaction stalls, OOM",
	.options = mem_options,
	.options_size = sizeof(struct mem_options),
	.state_size = sizeof(struct mem_state),
	.supported = mem_supported,
	.open = mem_open,
	.resume = mem_resume,
	.tick = mem_tick,
	.process_end = mem_process_end,
	.process_fields = mem_process_fields,
	.host_fields = mem_host_record,
	.cgroup_fields = mem_cgroup_record,
	.close = mem_close,
};
