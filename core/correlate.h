// SPDX-License-Identifier: Apache-2.0
// The only stateful join: gives each process its tool, task and run, from its parents, cgroup and
// rules. Bounded by the living processes: a run or task lives while a process or the report refers
// to it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/cgroup.h"
#include "core/process.h"
#include "core/rules.h"

struct run {
	uint32_t references;
	char *id; // unique on the host: engine, boot id and root process, or the engine's own id (Slurm job)
	char *engine; // "nextflow", "snakemake", "slurm", "script", ...
	char *name; // pipeline or script name for people
	struct run *parent; // the run this one was started in; referenced; may be NULL
	uint32_t root_pid;
	uint64_t root_start_boot_ns;
	uint64_t start_boot_ns;
	uint32_t task_count;
};

struct task {
	uint32_t references;
	struct run *run; // referenced
	char *id; // stable inside the run
	char *name;
	char *sample; // NULL: none
	uint32_t root_pid;
	uint64_t root_start_boot_ns;
	uint64_t start_boot_ns;
	char *cwd; // of its first process, NULL: unknown
	uint32_t number; // in order of appearance in the run, from 1
};

struct correlate;

// rules: borrowed, replaced by correlate_set_rules(). boot_id: text of
// /proc/sys/kernel/random/boot_id.
int correlate_new(const struct rules *rules, const char *boot_id, struct correlate **ret_correlate);
void correlate_free(struct correlate *correlate);
void correlate_set_rules(struct correlate *correlate, const struct rules *rules);

// Makes this process the root of a run whatever the rules say (tracer run's command). Call after
// its fork. name: of the run until a rule gives a better one; may be NULL.
int correlate_root(struct correlate *correlate, struct process *process, const char *name);

// Gives the run of this process, a root, an identifier by which runs elsewhere with the same one belong to it.
// -EINVAL when it is in no run.
int correlate_trace(struct correlate *correlate, struct process *process, const char *trace_id);

// process->parent, images and cgroup are set. After a fork: inherits. After an exec: matches rules
// on process->image and sets image->tool, process->task, process->run. After seeding: both, parents
// first.
int correlate_fork(struct correlate *correlate, struct process *process);
int correlate_exec(struct correlate *correlate, struct process *process);
// The process moved to, or its cgroup got, a known path: a Slurm job or a container may open a run
// or task late.
int correlate_cgroup(struct correlate *correlate, struct process *process);
// The process ended: drops its references. The record was written before.
void correlate_end(struct correlate *correlate, struct process *process);

struct task *task_reference(struct task *task);
void task_release(struct task *task); // takes NULL
struct run *run_reference(struct run *run);
void run_release(struct run *run);

// What the rules make of its end, if that is not 0: a failure like any other, the answer no to what it was asked, or
// nothing, since a wrapper started it for itself.
enum end_meaning { END_PLAIN, END_ANSWER, END_PROBE };
enum end_meaning correlate_end_meaning(const struct process *process);
// "answer" or "probe", as member "end" of a record's quality has it; NULL: plain. And back.
const char *end_meaning_name(enum end_meaning meaning);
enum end_meaning end_meaning_of(const char *name);

// Members "tool", "task", "task_name", "run", "run_name", "run_parent", "engine", "sample" of a record; null
// when there is none. And "join", where there is one.
// Names settle while programs of a task start: the latest record has the final one.
void correlate_write(const struct process *process, struct json *json);
