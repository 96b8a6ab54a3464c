// SPDX-License-Identifier: Apache-2.0
// Lake, the declared schema as a table. What a column is stands in lake/schema.h; this file only lays it out.
// Metrics of series are on disk by their position: add new ones at the end of their list, never remove one.

#include "lake/schema.h"

#include <string.h>

#define COLUMN(column, column_type, column_flags, column_help) \
	{ \
		.name = #column, .help = column_help, .type = SCHEMA_##column_type, .flags = SCHEMA_##column_flags, \
		.name_length = sizeof(#column) - 1, \
	},

static const struct schema_column workspaces[] = { WORKSPACES_COLUMNS(COLUMN) };
static const struct schema_column hosts[] = { HOSTS_COLUMNS(COLUMN) };
static const struct schema_column pipelines[] = { PIPELINES_COLUMNS(COLUMN) };
static const struct schema_column runs[] = { RUNS_COLUMNS(COLUMN) };
static const struct schema_column tasks[] = { TASKS_COLUMNS(COLUMN) };
static const struct schema_column tools[] = { TOOLS_COLUMNS(COLUMN) };
static const struct schema_column samples[] = { SAMPLES_COLUMNS(COLUMN) };
static const struct schema_column containers[] = { CONTAINERS_COLUMNS(COLUMN) };
static const struct schema_column processes[] = { PROCESSES_COLUMNS(COLUMN) };
static const struct schema_column gaps[] = { GAPS_COLUMNS(COLUMN) };
static const struct schema_column events[] = { EVENTS_COLUMNS(COLUMN) };
static const struct schema_column findings[] = { FINDINGS_COLUMNS(COLUMN) };
static const struct schema_column keys[] = { KEYS_COLUMNS(COLUMN) };
static const struct schema_column joins[] = { JOINS_COLUMNS(COLUMN) };
static const struct schema_column series[] = { SERIES_COLUMNS(COLUMN) };

#define ENTITY(id, list, one, first_aggregate, first_root, text) \
	[ENTITY_##id] = { \
		.name = #list, .singular = one, .help = text, .columns = list, .column_count = id##_END, \
		.aggregate = first_aggregate, .root = first_root, \
	}

_Static_assert((int)PROCESSES_END <= (int)SCHEMA_COLUMNS_MAX, "room for the widest entity");
_Static_assert((int)HOSTS_END <= (int)SCHEMA_COLUMNS_MAX, "room for the widest entity");
_Static_assert((int)TASKS_END <= (int)SCHEMA_COLUMNS_MAX, "room for the widest entity");
_Static_assert((int)RUNS_END <= (int)SCHEMA_COLUMNS_MAX, "room for the widest entity");

const struct schema_entity schema_entities[ENTITY_END] = {
	ENTITY(WORKSPACES, workspaces, "workspace", -1, -1, "Teams, kept apart."),
	ENTITY(HOSTS, hosts, "host", HOSTS_start_ns, -1, "Machines whose agents write here."),
	ENTITY(PIPELINES, pipelines, "pipeline", PIPELINES_start_ns, -1, "Runs of the same name and engine."),
	ENTITY(RUNS, runs, "run", RUNS_start_ns, RUNS_command, "What one start of a pipeline did on one host."),
	ENTITY(TASKS, tasks, "task", TASKS_start_ns, TASKS_command, "Steps of runs."),
	ENTITY(TOOLS, tools, "tool", TOOLS_start_ns, -1, "Programs by name, in each run and outside of runs."),
	ENTITY(SAMPLES, samples, "sample", SAMPLES_start_ns, -1, "What the tasks of a run worked on."),
	ENTITY(CONTAINERS, containers, "container", CONTAINERS_start_ns, -1, "Containers and other cgroups."),
	ENTITY(PROCESSES, processes, "process", -1, -1, "Every process, once."),
	ENTITY(GAPS, gaps, "gap", -1, -1, "What was lost, how much, where and why."),
	ENTITY(EVENTS, events, "event", -1, -1, "Out-of-memory kills, and records of kinds not known here."),
	ENTITY(FINDINGS, findings, "finding", -1, -1, "What analysis found."),
	ENTITY(KEYS, keys, "key", -1, -1, "What runs show of the whole that they may be part of."),
	ENTITY(JOINS, joins, "join", -1, -1, "Why runs of several hosts are one."),
	ENTITY(SERIES, series, "series", -1, -1, "Which time series there are."),
};

const struct schema_entity *schema_entity_find(const char *name)
{
	for (int id = 0; id < ENTITY_END; id++) {
		if (!strcmp(schema_entities[id].name, name))
			return &schema_entities[id];
	}
	return NULL;
}

int schema_column_find(const struct schema_entity *entity, const char *name)
{
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (!strcmp(entity->columns[i].name, name))
			return (int)i;
	}
	return -1;
}

const char *schema_type_name(enum schema_type type)
{
	static const char *const names[] = {
		[SCHEMA_U64] = "u64",	[SCHEMA_I64] = "i64",	[SCHEMA_F64] = "f64",
		[SCHEMA_TEXT] = "text", [SCHEMA_BOOL] = "bool", [SCHEMA_JSON] = "json",
	};

	return names[type];
}

// --- time series ---------------------------------------------------------------------------------------------------

#define G(member) { .name = #member, .type = SERIES_GAUGE, .name_length = sizeof(#member) - 1 },
#define C(member) { .name = #member, .type = SERIES_COUNTER, .name_length = sizeof(#member) - 1 },
#define R(member) { .name = #member, .type = SERIES_GAUGE, .name_length = sizeof(#member) - 1, .real = true },
#define P(path) { .name = path, .type = SERIES_COUNTER, .name_length = sizeof(path) - 1 },

static const struct series_metric host_metrics[] = {
	G(cpus_online) C(cpu_user_ns) C(cpu_nice_ns) C(cpu_system_ns) C(cpu_idle_ns) C(cpu_iowait_ns) C(cpu_irq_ns)
	C(cpu_softirq_ns) C(cpu_steal_ns) C(cpu_guest_ns) C(cpu_guest_nice_ns)
	R(load_1m) R(load_5m) R(load_15m) C(context_switches) C(forks) G(procs_running) G(procs_blocked)
	C(pressure_cpu_some_ns) C(pressure_memory_some_ns) C(pressure_memory_full_ns) C(pressure_io_some_ns)
	C(pressure_io_full_ns)
	G(memory_total_bytes) G(memory_free_bytes) G(memory_available_bytes) G(memory_buffers_bytes)
	G(memory_cached_bytes) G(memory_anon_bytes) G(memory_shmem_bytes) G(memory_mapped_bytes)
	G(memory_slab_reclaimable_bytes) G(memory_slab_unreclaimable_bytes) G(memory_kernel_stack_bytes)
	G(memory_page_tables_bytes) G(memory_dirty_bytes) G(memory_writeback_bytes) G(memory_committed_bytes)
	G(swap_total_bytes) G(swap_free_bytes) G(swap_cached_bytes)
	G(hugepages_total) G(hugepages_free) G(hugepage_size_bytes) C(page_faults) C(major_faults)
	C(swap_in_bytes) C(swap_out_bytes) C(oom_kills) C(reclaim_stalls) C(compaction_stalls)
	C(reclaim_direct_scanned_bytes) C(reclaim_direct_bytes) C(reclaim_kswapd_bytes) C(refaults_file)
	G(disks_omitted) G(mounts_omitted) G(nfs_omitted)
};

static const struct series_metric disk_metrics[] = {
	C(reads) C(read_bytes) C(read_ns) C(writes) C(write_bytes) C(write_ns) C(discards) C(discard_bytes)
	C(flushes) C(flush_ns) G(in_flight) C(busy_ns) C(queue_ns)
};

static const struct series_metric mount_metrics[] = {
	G(total_bytes) G(free_bytes) G(available_bytes) G(inodes_total) G(inodes_free)
};

#define NFS_OPERATIONS(of) \
	P(of ".operations") P(of ".retransmissions") P(of ".timeouts") P(of ".errors") P(of ".sent_bytes") \
	P(of ".received_bytes") P(of ".queue_ns") P(of ".rtt_ns") P(of ".execute_ns")

static const struct series_metric nfs_metrics[] = {
	C(age_ns) C(buffered_read_bytes) C(buffered_write_bytes) C(direct_read_bytes) C(direct_write_bytes)
	C(read_bytes) C(write_bytes) NFS_OPERATIONS("read") NFS_OPERATIONS("write") NFS_OPERATIONS("all")
};

static const struct series_metric lustre_metrics[] = {
	C(reads) C(read_bytes) C(writes) C(write_bytes) C(metadata_operations) C(opens)
};

static const struct series_metric cgroup_metrics[] = {
	C(cpu_ns) C(cpu_user_ns) C(cpu_system_ns) C(cpu_periods) C(cpu_throttled_periods) C(cpu_throttled_ns)
	G(cpu_quota_ns) G(cpu_period_ns) G(pids) G(pids_peak) G(pids_limit) C(pids_limit_hits)
	G(memory_bytes) G(memory_peak_bytes) G(memory_limit_bytes) G(memory_high_bytes) G(swap_limit_bytes)
	G(swap_bytes) G(anon_bytes) G(file_bytes) G(shmem_bytes) G(active_file_bytes) G(inactive_file_bytes)
	G(dirty_bytes) G(writeback_bytes) C(minor_faults) C(major_faults) C(refaults_file) G(kernel_bytes)
	G(slab_reclaimable_bytes) G(slab_unreclaimable_bytes) C(memory_limit_hits) C(memory_high_hits)
	C(oom_events) C(oom_kills) G(io_omitted) C(pressure_cpu_some_ns) C(pressure_cpu_full_ns)
	C(pressure_memory_some_ns) C(pressure_memory_full_ns) C(pressure_io_some_ns) C(pressure_io_full_ns)
};

static const struct series_metric cgroup_io_metrics[] = {
	C(read_bytes) C(write_bytes) C(reads) C(writes) C(discard_bytes) C(discards)
};

#define SUM_METRIC(member, type, flags, help) C(member)

static const struct series_metric process_metrics[] = {
	G(rss_bytes) G(threads_max) SCHEMA_SUMS(SUM_METRIC) G(peak_rss_bytes) G(anon_bytes) G(file_bytes)
	G(shmem_bytes) G(swap_bytes)
};

// Amounts within a step: started, ended and failed processes, process-seconds as running_ns, then what was used.
static const struct series_metric run_metrics[] = {
	C(started) C(ended) C(failed) C(running_ns) SCHEMA_SUMS(SUM_METRIC)
};

#define SERIES(id, text, of, by, list) \
	[SERIES_##id] = { \
		.name = text, .owner = of, .label = by, .metrics = list, \
		.metric_count = sizeof(list) / sizeof(list[0]), \
	}

_Static_assert(sizeof(host_metrics) / sizeof(host_metrics[0]) <= SERIES_METRICS_MAX, "room for the widest series");

const struct series_schema series_schemas[SERIES_KIND_END] = {
	SERIES(HOST, "host", "hosts", NULL, host_metrics),
	SERIES(DISK, "disk", "hosts", "name", disk_metrics),
	SERIES(MOUNT, "mount", "hosts", "path", mount_metrics),
	SERIES(NFS, "nfs", "hosts", "path", nfs_metrics),
	SERIES(LUSTRE, "lustre", "hosts", "name", lustre_metrics),
	SERIES(CGROUP, "cgroup", "containers", NULL, cgroup_metrics),
	SERIES(CGROUP_IO, "cgroup_io", "containers", "device", cgroup_io_metrics),
	SERIES(PROCESS, "process", "processes", NULL, process_metrics),
	SERIES(RUN, "run", "runs", NULL, run_metrics),
};

int series_kind_find(const char *name)
{
	for (int kind = 0; kind < SERIES_KIND_END; kind++) {
		if (!strcmp(series_schemas[kind].name, name))
			return kind;
	}
	return -1;
}

int series_metric_find(enum series_kind kind, const char *name)
{
	for (unsigned i = 0; i < series_schemas[kind].metric_count; i++) {
		if (!strcmp(series_schemas[kind].metrics[i].name, name))
			return (int)i;
	}
	return -1;
}
