// SPDX-License-Identifier: Apache-2.0
// The one declared schema of the lake: entities and their columns. From this table come the SQLite and ClickHouse
// tables, JSON and CSV output, filters, the OpenAPI components and docs/lake-schema.md. A column has the name of the
// record member it holds (docs/records.md); units are in the name. Unknown is NULL everywhere.
//
// Each list below is used twice: as enum (PROCESSES_pid) to index a row's slots, and as the table in lake/schema.c.
// X(name, type, flags, help). Flags: N may be null, F may be filtered by, S may be sorted by, R comes from the record
// member of that name, K part of the row's key.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum schema_type {
	SCHEMA_U64, // 0 to 2^63-1
	SCHEMA_I64,
	SCHEMA_F64,
	SCHEMA_TEXT,
	SCHEMA_BOOL,
	SCHEMA_JSON, // text that is one JSON value
};

enum schema_flag {
	SCHEMA_N = 1, // nullable
	SCHEMA_F = 2, // filterable
	SCHEMA_S = 4, // sortable
	SCHEMA_R = 8, // member of the record
	SCHEMA_K = 16, // of the key
	SCHEMA_NF = 3,
	SCHEMA_NS = 5,
	SCHEMA_FS = 6,
	SCHEMA_NFS = 7,
	SCHEMA_KF = 18,
	SCHEMA_KFS = 22,
	SCHEMA_RN = 9,
	SCHEMA_RF = 10,
	SCHEMA_RFS = 14,
	SCHEMA_RNF = 11,
	SCHEMA_RNS = 13,
	SCHEMA_RNFS = 15,
	SCHEMA_NONE = 0,
};

// Figures of a process that add up over processes. Group: see SCHEMA_UNKNOWN.
#define SCHEMA_SUMS(X) \
	X(cpu_ns, U64, RNFS, "CPU time of all threads") \
	X(cpu_user_ns, U64, RNS, "CPU time in user mode") \
	X(cpu_system_ns, U64, RNS, "CPU time in the kernel") \
	X(run_delay_ns, U64, RNS, "ready, but waiting for a CPU") \
	X(voluntary_switches, U64, RNS, "gave the CPU up to wait") \
	X(involuntary_switches, U64, RNS, "had the CPU taken away") \
	X(blocked_disk_ns, U64, RNS, "asleep, waiting for a disk") \
	X(blocked_network_fs_ns, U64, RNS, "asleep, waiting for a network file system") \
	X(blocked_socket_ns, U64, RNS, "asleep, waiting for a socket") \
	X(blocked_pipe_ns, U64, RNS, "asleep, waiting for a pipe") \
	X(blocked_lock_ns, U64, RNS, "asleep, waiting for a lock") \
	X(blocked_child_ns, U64, RNS, "asleep, waiting for a child") \
	X(blocked_timer_ns, U64, RNS, "asleep until a time") \
	X(blocked_other_ns, U64, RNS, "asleep for another reason") \
	X(blocked_samples, U64, RNS, "looks that found a thread asleep") \
	X(minor_faults, U64, RNS, "page faults without a read") \
	X(major_faults, U64, RNS, "page faults that read from a disk") \
	X(reclaim_stall_ns, U64, RNS, "the kernel looked for free memory on its behalf") \
	X(compaction_stall_ns, U64, RNS, "the kernel moved memory together on its behalf") \
	X(rchar_bytes, U64, RNS, "read through system calls, pipes and sockets included") \
	X(wchar_bytes, U64, RNS, "written through system calls, pipes and sockets included") \
	X(read_syscalls, U64, RNS, "read calls") \
	X(write_syscalls, U64, RNS, "write calls") \
	X(read_bytes, U64, RNS, "caused to be read at the block layer") \
	X(write_bytes, U64, RNS, "caused to be written at the block layer") \
	X(cancelled_write_bytes, U64, RNS, "dirty pages thrown away before they were written")

// What every entity that processes belong to has: moved at ingest, each process counted once, a living one with what
// is known of it so far. A sum is NULL when no process had the figure; unknown_X counts processes that lacked one.
#define SCHEMA_AGGREGATE(X) \
	X(start_ns, U64, NFS, "earliest start of a process") \
	X(end_ns, U64, NFS, "latest end of a process; null while none has ended") \
	X(processes, U64, FS, "processes, living ones included") \
	X(living, U64, FS, "of those, not known to have ended") \
	X(failures, U64, FS, "ended with a code, a signal or for want of memory, probes and answers aside") \
	X(images, U64, S, "programs that another one replaced by exec") \
	X(wall_ns, U64, S, "sum of the lives of ended processes") \
	X(threads_max, U64, NS, "most threads of one process at once") \
	X(peak_rss_bytes, U64, NFS, "largest resident memory of one process") \
	SCHEMA_SUMS(X) \
	X(unknown_cpu, U64, NONE, "processes of which CPU time or its split is unknown") \
	X(unknown_delay, U64, NONE, "of which run_delay_ns is unknown") \
	X(unknown_switches, U64, NONE, "of which switches are unknown") \
	X(unknown_blocked, U64, NONE, "of which the time asleep is unknown") \
	X(unknown_faults, U64, NONE, "of which page faults are unknown") \
	X(unknown_stall, U64, NONE, "of which memory stalls are unknown") \
	X(unknown_io, U64, NONE, "of which bytes or calls are unknown") \
	X(unknown_memory, U64, NONE, "of which peak_rss_bytes is unknown")

// How the process that opened a run or task ended: the earliest one of it.
#define SCHEMA_ROOT(X) \
	X(command, TEXT, N, "arguments of its earliest process, joined") \
	X(root_start_ns, U64, N, "start of its earliest process") \
	X(exit_code, U64, NF, "of its earliest process") \
	X(signal, U64, NF, "of its earliest process") \
	X(oom, BOOL, NF, "its earliest process was killed for memory") \
	X(oom_limit, TEXT, N, "cgroup whose limit that was, or host")

#define WORKSPACES_COLUMNS(X) \
	X(workspace, TEXT, KFS, "name") \
	X(created_ns, U64, S, "first use") \
	X(hosts, U64, S, "hosts that ever wrote")

#define HOSTS_COLUMNS(X) \
	X(id, U64, KFS, "made from workspace and host_id") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, FS, "identity of the agent, for ever") \
	X(host, TEXT, RNFS, "host name, latest") \
	X(boot, TEXT, RNF, "the kernel's boot id, latest") \
	X(machine_id, TEXT, RNF, "/etc/machine-id") \
	X(schema_version, U64, RNF, "of its records") \
	X(tracer_version, TEXT, RNFS, "of its collector") \
	X(os_type, TEXT, RNF, "linux") \
	X(kernel_release, TEXT, RNF, "uname") \
	X(architecture, TEXT, RNF, "uname") \
	X(cpu_count, U64, RNFS, "CPUs online") \
	X(memory_bytes, U64, RNFS, "physical memory") \
	X(namespaces, JSON, RN, "inodes of the host's own namespaces") \
	X(time_ns, U64, RN, "of its latest host record") \
	X(first_seen_ns, U64, FS, "first batch, by the server's clock") \
	X(last_seen_ns, U64, FS, "latest batch, by the server's clock") \
	X(epoch, TEXT, N, "of its spool, hexadecimal, latest") \
	X(acked, U64, N, "highest contiguous sequence stored, latest epoch") \
	X(records, U64, S, "records stored") \
	X(records_lost, U64, FS, "sequence numbers declared as holes") \
	X(values_out_of_range, U64, FS, "numbers of 2^63 and more, or of the wrong sign, kept as null") \
	SCHEMA_AGGREGATE(X)

#define PIPELINES_COLUMNS(X) \
	X(id, U64, KFS, "made from workspace, engine and name") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(pipeline, TEXT, FS, "name its runs share") \
	X(engine, TEXT, NFS, "what ran it") \
	X(runs, U64, FS, "runs, one for each host that took part") \
	SCHEMA_AGGREGATE(X)

#define RUNS_COLUMNS(X) \
	X(id, U64, KFS, "made from workspace, host_id and run") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it ran") \
	X(host, TEXT, NFS, "its name") \
	X(run, TEXT, FS, "id, unique on the host") \
	X(run_name, TEXT, NFS, "name for people") \
	X(run_parent, TEXT, NF, "run in which it was started") \
	X(engine, TEXT, NFS, "what ran it") \
	X(pipeline_id, U64, NF, "pipelines.id") \
	X(stitched_id, U64, NFS, "runs.id that stands for all parts of a run over several hosts; null: it is whole") \
	X(tasks, U64, FS, "tasks seen") \
	SCHEMA_ROOT(X) \
	SCHEMA_AGGREGATE(X)

#define TASKS_COLUMNS(X) \
	X(id, U64, KFS, "made from run_id and task") \
	X(run_id, U64, KFS, "runs.id") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it ran") \
	X(task, TEXT, FS, "id inside the run") \
	X(task_name, TEXT, NFS, "name for people") \
	X(sample, TEXT, NFS, "biological or other sample, by the rules") \
	X(cwd, TEXT, N, "working directory of its earliest process") \
	SCHEMA_ROOT(X) \
	SCHEMA_AGGREGATE(X)

#define TOOLS_COLUMNS(X) \
	X(id, U64, KFS, "made from workspace, host_id, run_id and tool") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it ran") \
	X(run_id, U64, NF, "runs.id; null: outside any run") \
	X(tool, TEXT, FS, "display name by the rules") \
	SCHEMA_AGGREGATE(X)

#define SAMPLES_COLUMNS(X) \
	X(id, U64, KFS, "made from run_id and sample") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it ran") \
	X(run_id, U64, NF, "runs.id") \
	X(sample, TEXT, FS, "by the rules") \
	SCHEMA_AGGREGATE(X)

#define CONTAINERS_COLUMNS(X) \
	X(id, U64, KFS, "made from workspace, host_id and cgroup") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it is") \
	X(host, TEXT, NFS, "its name") \
	X(cgroup, TEXT, FS, "path below the hierarchy's root") \
	X(container_runtime, TEXT, NFS, "docker, containerd, podman, ...; null: a cgroup that is no container") \
	X(container_id, TEXT, NF, "as the runtime has it") \
	X(pod_uid, TEXT, NF, "Kubernetes pod") \
	X(pod_qos, TEXT, NF, "its class") \
	X(ecs_task, TEXT, NF, "Amazon ECS or Batch task") \
	X(slurm_job, U64, NF, "Slurm job") \
	X(slurm_step, TEXT, NF, "and step") \
	SCHEMA_AGGREGATE(X)

#define PROCESSES_COLUMNS(X) \
	X(id, U64, KFS, "rises with arrival") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it ran") \
	X(host, TEXT, RNF, "its name then") \
	X(boot, TEXT, RNF, "the kernel's boot id") \
	X(time_ns, U64, R, "of the record") \
	X(pid, U64, RFS, "thread group") \
	X(ppid, U64, RNF, "its parent") \
	X(start_ns, U64, RFS, "fork") \
	X(end_ns, U64, RNFS, "end of its last thread; null: not known to have ended") \
	X(start_boot_ns, U64, RF, "start by the clock that never jumps: with pid the identity") \
	X(parent_start_boot_ns, U64, RNF, "of its parent") \
	X(comm, TEXT, RNF, "the kernel's 15 characters") \
	X(exe, TEXT, RNF, "path of the program") \
	X(script, TEXT, RNF, "given to execve, if that was a script") \
	X(interpreter, TEXT, RN, "what the kernel ran it with") \
	X(args, JSON, RN, "array of arguments") \
	X(args_total_bytes, U64, RN, "their whole length, when args is cut") \
	X(cwd, TEXT, RNF, "working directory") \
	X(uid, U64, RNF, "real user") \
	X(gid, U64, RNF, "real group") \
	X(pid_in_namespace, U64, RN, "pid as it sees itself") \
	X(session, U64, RNF, "session id") \
	X(process_group, U64, RNF, "process group id") \
	X(namespaces, JSON, RN, "those that differ from the host's; null: none does") \
	X(exit_code, U64, RNFS, "null: a signal ended it, alive, or unknown") \
	X(signal, U64, RNFS, "null: none, alive, or unknown; see quality") \
	X(core_dumped, BOOL, RN, "left a core") \
	X(oom, BOOL, RNF, "victim of an out-of-memory kill") \
	X(oom_limit, TEXT, RN, "cgroup whose limit that was, or host") \
	X(threads_max, U64, RNS, "most threads at once") \
	SCHEMA_SUMS(X) \
	X(peak_rss_bytes, U64, RNFS, "largest resident memory") \
	X(anon_bytes, U64, RN, "resident anonymous memory at exit") \
	X(file_bytes, U64, RN, "resident file pages at exit") \
	X(shmem_bytes, U64, RN, "resident shared memory at exit") \
	X(swap_bytes, U64, RN, "swapped pages") \
	X(images, JSON, RN, "its programs in order, each with its share: docs/records.md") \
	X(images_dropped, U64, RN, "programs left out of images") \
	X(cgroup, TEXT, RNF, "path below the hierarchy's root") \
	X(container, JSON, RN, "what the path says") \
	X(tool, TEXT, RNF, "display name by the rules") \
	X(task, TEXT, RNF, "id inside the run") \
	X(task_name, TEXT, RN, "its name, as known at the time") \
	X(run, TEXT, RNF, "id, unique on the host") \
	X(run_name, TEXT, RN, "its name, as known at the time") \
	X(run_parent, TEXT, RN, "run in which the run was started") \
	X(engine, TEXT, RNF, "what ran it") \
	X(sample, TEXT, RNF, "of the task") \
	X(quality, JSON, RN, "how the figures that are not exact were obtained") \
	X(run_id, U64, NF, "runs.id") \
	X(task_id, U64, NF, "tasks.id") \
	X(cgroup_id, U64, NF, "containers.id")

#define GAPS_COLUMNS(X) \
	X(id, U64, KFS, "rises with arrival") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, NF, "where; null: the datalake itself") \
	X(host, TEXT, RNF, "its name then") \
	X(boot, TEXT, RN, "the kernel's boot id") \
	X(time_ns, U64, RFS, "when it was noticed") \
	X(room, TEXT, RFS, "where it was lost: ring, kernel, spool, wire, retention, ...") \
	X(reason, TEXT, RFS, "why") \
	X(count, U64, RNFS, "events, processes or records") \
	X(first_sequence, U64, RN, "first of the lost numbers") \
	X(last_sequence, U64, RN, "last of the lost numbers") \
	X(cpu_ns, U64, RN, "sum over lost processes") \
	X(read_bytes, U64, RN, "sum over lost processes") \
	X(write_bytes, U64, RN, "sum over lost processes") \
	X(cgroup, TEXT, RN, "where they were") \
	X(container, JSON, RN, "what the path says")

#define EVENTS_COLUMNS(X) \
	X(id, U64, KFS, "rises with arrival") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where") \
	X(host, TEXT, RNF, "its name then") \
	X(boot, TEXT, RN, "the kernel's boot id") \
	X(time_ns, U64, RFS, "when") \
	X(kind, TEXT, RFS, "oom, or a kind that this version does not know") \
	X(pid, U64, RNF, "whose") \
	X(start_boot_ns, U64, RN, "whose") \
	X(record, JSON, NONE, "the whole record")

#define FINDINGS_COLUMNS(X) \
	X(id, U64, KFS, "made by who found it: the same finding twice is one row") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, NF, "where") \
	X(run_id, U64, NF, "runs.id") \
	X(task_id, U64, NF, "tasks.id") \
	X(time_ns, U64, FS, "when it was found") \
	X(rule, TEXT, FS, "which rule") \
	X(severity, TEXT, FS, "info, warning, error") \
	X(title, TEXT, NONE, "one sentence") \
	X(detail, JSON, N, "evidence, confidence, saving, how to refute it, how to apply it")

#define KEYS_COLUMNS(X) \
	X(id, U64, KFS, "made from run_id and key") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, F, "where it was seen") \
	X(run_id, U64, FS, "runs.id of the run that showed it") \
	X(key, TEXT, FS, "SCOPE:VALUE, what parts of one run have in common") \
	X(why, TEXT, NONE, "the same in words") \
	X(how, TEXT, FS, "id, place or weak: docs/records.md, member join") \
	X(within_s, U64, N, "how far apart the times of parts may be; null: at any time") \
	X(head, BOOL, F, "of a place: the one that hands out the work") \
	X(time_ns, U64, FS, "of the record that showed it")

#define JOINS_COLUMNS(X) \
	X(id, U64, KFS, "made from run_id and key: keys.id") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(stitched_id, U64, NFS, "runs.id that stands for the whole; null: the run is none's part by this key") \
	X(run_id, U64, FS, "runs.id of a part") \
	X(key, TEXT, FS, "what both have in common") \
	X(why, TEXT, NONE, "one sentence for people") \
	X(how, TEXT, FS, "id, place, or weak: a hint that joins nothing") \
	X(confidence, F64, FS, "0 to 1") \
	X(time_ns, U64, FS, "when the key was shown")

#define SERIES_COLUMNS(X) \
	X(id, U64, KFS, "made from kind, owner_id and label") \
	X(workspace, TEXT, F, "team it belongs to") \
	X(host_id, TEXT, NF, "where") \
	X(kind, TEXT, FS, "host, disk, mount, nfs, lustre, cgroup, cgroup_io, process, run") \
	X(owner_id, U64, NF, "hosts.id, containers.id, runs.id or, for a process, one made from its identity") \
	X(label, TEXT, FS, "device, path or name among several; empty: there is one") \
	X(attributes, JSON, N, "what does not change: type, source, pid, ...") \
	X(first_ns, U64, FS, "time of its first point") \
	X(last_ns, U64, FS, "time of its last point")

#define SCHEMA_ENUM_(prefix, name) prefix##_##name,
#define SCHEMA_E_WORKSPACES(name, type, flags, help) SCHEMA_ENUM_(WORKSPACES, name)
#define SCHEMA_E_HOSTS(name, type, flags, help) SCHEMA_ENUM_(HOSTS, name)
#define SCHEMA_E_PIPELINES(name, type, flags, help) SCHEMA_ENUM_(PIPELINES, name)
#define SCHEMA_E_RUNS(name, type, flags, help) SCHEMA_ENUM_(RUNS, name)
#define SCHEMA_E_TASKS(name, type, flags, help) SCHEMA_ENUM_(TASKS, name)
#define SCHEMA_E_TOOLS(name, type, flags, help) SCHEMA_ENUM_(TOOLS, name)
#define SCHEMA_E_SAMPLES(name, type, flags, help) SCHEMA_ENUM_(SAMPLES, name)
#define SCHEMA_E_CONTAINERS(name, type, flags, help) SCHEMA_ENUM_(CONTAINERS, name)
#define SCHEMA_E_PROCESSES(name, type, flags, help) SCHEMA_ENUM_(PROCESSES, name)
#define SCHEMA_E_GAPS(name, type, flags, help) SCHEMA_ENUM_(GAPS, name)
#define SCHEMA_E_EVENTS(name, type, flags, help) SCHEMA_ENUM_(EVENTS, name)
#define SCHEMA_E_FINDINGS(name, type, flags, help) SCHEMA_ENUM_(FINDINGS, name)
#define SCHEMA_E_KEYS(name, type, flags, help) SCHEMA_ENUM_(KEYS, name)
#define SCHEMA_E_JOINS(name, type, flags, help) SCHEMA_ENUM_(JOINS, name)
#define SCHEMA_E_SERIES(name, type, flags, help) SCHEMA_ENUM_(SERIES, name)
#define SCHEMA_E_AGGREGATE(name, type, flags, help) SCHEMA_ENUM_(AGGREGATE, name)
#define SCHEMA_E_SUM(name, type, flags, help) SCHEMA_ENUM_(SUM, name)

enum { WORKSPACES_COLUMNS(SCHEMA_E_WORKSPACES) WORKSPACES_END };
enum { HOSTS_COLUMNS(SCHEMA_E_HOSTS) HOSTS_END };
enum { PIPELINES_COLUMNS(SCHEMA_E_PIPELINES) PIPELINES_END };
enum { RUNS_COLUMNS(SCHEMA_E_RUNS) RUNS_END };
enum { TASKS_COLUMNS(SCHEMA_E_TASKS) TASKS_END };
enum { TOOLS_COLUMNS(SCHEMA_E_TOOLS) TOOLS_END };
enum { SAMPLES_COLUMNS(SCHEMA_E_SAMPLES) SAMPLES_END };
enum { CONTAINERS_COLUMNS(SCHEMA_E_CONTAINERS) CONTAINERS_END };
enum { PROCESSES_COLUMNS(SCHEMA_E_PROCESSES) PROCESSES_END };
enum { GAPS_COLUMNS(SCHEMA_E_GAPS) GAPS_END };
enum { EVENTS_COLUMNS(SCHEMA_E_EVENTS) EVENTS_END };
enum { FINDINGS_COLUMNS(SCHEMA_E_FINDINGS) FINDINGS_END };
enum { KEYS_COLUMNS(SCHEMA_E_KEYS) KEYS_END };
enum { JOINS_COLUMNS(SCHEMA_E_JOINS) JOINS_END };
enum { SERIES_COLUMNS(SCHEMA_E_SERIES) SERIES_END };
enum { SCHEMA_AGGREGATE(SCHEMA_E_AGGREGATE) AGGREGATE_END };
enum { SCHEMA_SUMS(SCHEMA_E_SUM) SUM_END };

enum schema_entity_id {
	ENTITY_WORKSPACES,
	ENTITY_HOSTS,
	ENTITY_PIPELINES,
	ENTITY_RUNS,
	ENTITY_TASKS,
	ENTITY_TOOLS,
	ENTITY_SAMPLES,
	ENTITY_CONTAINERS,
	ENTITY_PROCESSES,
	ENTITY_GAPS,
	ENTITY_EVENTS,
	ENTITY_FINDINGS,
	ENTITY_KEYS,
	ENTITY_JOINS,
	ENTITY_SERIES,
	ENTITY_END,
};

enum { SCHEMA_COLUMNS_MAX = 96 };

struct schema_column {
	const char *name;
	const char *help;
	uint8_t type; // enum schema_type
	uint8_t flags; // enum schema_flag
	uint8_t name_length;
};

struct schema_entity {
	const char *name; // plural: table and API path
	const char *singular;
	const char *help;
	const struct schema_column *columns;
	unsigned column_count;
	int aggregate; // index of the first SCHEMA_AGGREGATE column; -1: it has none
	int root; // index of the first SCHEMA_ROOT column; -1: it has none
};

extern const struct schema_entity schema_entities[ENTITY_END];

// NULL when there is no such entity; its id is the difference to schema_entities.
const struct schema_entity *schema_entity_find(const char *name);

// Index of a column, or -1.
int schema_column_find(const struct schema_entity *entity, const char *name);

// "u64", "text", ...
const char *schema_type_name(enum schema_type type);

// --- time series ---------------------------------------------------------------------------------------------------

// What a metric is decides what a roll-up keeps: a gauge its mean, least and greatest; a counter how much it rose.
enum series_metric_type { SERIES_GAUGE, SERIES_COUNTER };

enum series_kind {
	SERIES_HOST,
	SERIES_DISK,
	SERIES_MOUNT,
	SERIES_NFS,
	SERIES_LUSTRE,
	SERIES_CGROUP,
	SERIES_CGROUP_IO,
	SERIES_PROCESS,
	SERIES_RUN, // made by the store from what its processes used, not from records: amounts in steps of 10 s
	SERIES_KIND_END,
};

enum { SERIES_METRICS_MAX = 80 };

struct series_metric {
	const char *name; // member of the record; JSON path with dots for nested ones
	uint8_t type; // enum series_metric_type
	uint8_t name_length;
	bool real; // may have a fraction (load); kept in thousandths
};

struct series_schema {
	const char *name; // as in series.kind
	const char *owner; // entity of owner_id
	const char *label; // record member that tells several apart; NULL: there is one
	const struct series_metric *metrics;
	unsigned metric_count;
};

extern const struct series_schema series_schemas[SERIES_KIND_END];

// -1 when there is none.
int series_kind_find(const char *name);
int series_metric_find(enum series_kind kind, const char *name);
