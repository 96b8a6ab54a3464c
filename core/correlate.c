// SPDX-License-Identifier: Apache-2.0
// Correlate, the decisions: what a fork inherits and what an exec opens. A run begins below a
// boundary, at an engine or with a scheduler's job; a task at a rule, or at each child of a root
// that has no rules for tasks. Everything else stays in what its parent was in, so a process costs
// the same however deep it is. Bounded by the living processes.
#include "core/correlate.h"

#include <errno.h>
#include <string.h>

#include "core/correlate_private.h"

// Kept in process->correlate itself: nothing to allocate or free.
enum process_bit {
	BIT_BOUNDARY = 1 << 0, // its children begin runs (a fork inherits this until it execs)
	BIT_SHELL = 1 << 1,
	BIT_PLACED =
		1 << 2, // its cgroup's job was looked at; below, a task may have joined an engine
	BIT_PROBE = 1 << 3, // its end is no failure
	BIT_PROBE_ALL = 1 << 4, // nor that of anything it starts or becomes
	BIT_STARTS_PROBES = 1 << 5, // its copies are probes until they run a program
	BIT_ASKS = 1 << 6, // exit code 1 is an answer
};

enum { SIBLINGS_SEEN = 256, BOUNDARY_LEVELS = 3 };

static const char default_engine[] = "command";

static uintptr_t bits_of(const struct process *process)
{
	return (uintptr_t)process->correlate;
}

static void set_bits(struct process *process, uintptr_t bits)
{
	process->correlate = (void *)bits;
}

static bool is_run_root(const struct process *process)
{
	return process->run && process->run->root_pid == process->pid &&
	       process->run->root_start_boot_ns == process->start_boot_ns;
}

static bool is_task_root(const struct process *process)
{
	return process->task && process->task->root_pid == process->pid &&
	       process->task->root_start_boot_ns == process->start_boot_ns;
}

// The init of the host is a boundary whatever it is called.
static bool is_boundary(const struct process *process)
{
	return process && !process->run && (bits_of(process) & BIT_BOUNDARY || process->pid == 1);
}

// Some kernels' task iterator leaves init out, so it may be known only as somebody's parent.
static bool is_init_child(const struct process *process)
{
	return process->ppid == 1 && (!process->parent || process->parent->pid == 1);
}

static void set_run(struct process *process, struct run *run)
{
	struct run *old = process->run;

	process->run = run_reference(run);
	run_release(old);
}

static void set_task(struct process *process, struct task *task)
{
	struct task *old = process->task;

	process->task = task_reference(task);
	task_release(old);
}

// The process turned out not to be a task of its own: nobody else has seen it.
static void withdraw_task(struct process *process)
{
	struct task *task = process->task;

	if (task && is_task_root(process) && task->references == 1 &&
	    task->number == task->run->task_count)
		task->run->task_count--;
	set_task(process, NULL);
}

static void set_tool(struct correlate *correlate, struct process *process, const char *tool)
{
	const char *name = tool ? name_intern(&correlate->names, tool) : NULL;

	name_release(&correlate->names, process->image->tool);
	process->image->tool = name;
}

// --- tasks ---------------------------------------------------------------------------------------------------------

static int open_task(struct correlate *correlate, struct process *process, const char *id)
{
	struct task *task;
	int error = task_new(correlate, process->run, id, process, &task);

	if (error)
		return error;
	set_task(process, task);
	task_release(task);
	return 0;
}

// A task without a rule is called after its first process, unless that only starts others.
static int name_own_task(struct correlate *correlate, struct process *process,
			 const struct rule_result *result)
{
	struct task_private *task = task_of(process->task);

	task->naming = result->rank >= RULE_RANK_SCRIPT ? NAMING_ROOT : NAMING_TOOLS;
	if (task->naming == NAMING_ROOT)
		return task_set_name(task, result->tool);
	return task_add_tool(correlate, task, process, result->tool, result->rank);
}

static int open_own_task(struct correlate *correlate, struct process *process,
			 const struct rule_result *result)
{
	int error = is_task_root(process) && process->task->run == process->run
			    ? 0
			    : open_task(correlate, process, NULL);

	return error ? error : name_own_task(correlate, process, result);
}

// The task a rule speaks of: one that is there already, or a new one.
static int enter_task(struct correlate *correlate, struct process *process,
		      const struct rule_result *result)
{
	struct task_private *task = NULL;
	bool inside;
	int error = 0;

	if (result->task_id)
		task = task_find(correlate, process->run, NULL, result->task_id);
	// Its engine runs elsewhere on this host, as with a task inside a container.
	if (!task && result->task_id && strcmp(process->run->engine, result->task_engine))
		task = task_find(correlate, NULL, result->task_engine, result->task_id);
	inside = task && process->task == &task->task;
	if (task) {
		struct run *run = run_reference(task->task.run);
		set_task(process, &task->task);
		set_run(process, run);
		run_release(run);
	} else if (!is_task_root(process) || result->task_id ||
		   process->task->run != process->run) {
		if (is_task_root(process) && process->task->run == process->run)
			withdraw_task(process);
		error = open_task(correlate, process, result->task_id);
	}
	if (error)
		return error;
	task = task_of(process->task);
	if (result->task_name) {
		task->naming = NAMING_RULE;
		return task_set_name(task, result->task_name);
	}
	if (task->naming == NAMING_RULE)
		return 0;
	// The task proper begins: what its wrapper ran before does not name it.
	if (inside)
		task_forget_tools(correlate, task);
	task->naming = NAMING_TOOLS;
	return task_add_tool(correlate, task, process, result->tool, result->rank);
}

// --- runs ----------------------------------------------------------------------------------------------------------

// What the root's program says about its run's tasks; and the root's own task where there is no
// engine to speak of.
static int set_up_root(struct correlate *correlate, struct process *process,
		       const struct rule_result *result)
{
	struct run_private *run = run_of(process->run);

	run->children_are_tasks = !(run->chosen && result->roles & RULE_ENGINE_HAS_TASKS);
	if (!run->chosen)
		return open_own_task(correlate, process, result);
	if (process->task && is_task_root(process))
		withdraw_task(process);
	return 0;
}

static bool is_engine(const struct rule_result *result)
{
	return result->roles & RULE_ENGINE && !(result->roles & RULE_ENGINE_AT_ROOT);
}

static int open_run(struct correlate *correlate, struct process *process,
		    const struct rule_result *result)
{
	const char *engine = result->roles & RULE_ENGINE ? result->engine : default_engine;
	struct run *run, *outer = process->run;
	int error = run_new(correlate, engine, NULL,
			    result->run_name ? result->run_name : result->tool, process, &run);

	if (error)
		return error;
	if (process->task && is_task_root(process))
		withdraw_task(process);
	set_task(process, NULL);
	run->parent = run_reference(outer);
	run_of(run)->chosen = is_engine(result);
	run_of(run)->service = is_init_child(process);
	set_run(process, run);
	run_release(run);
	return set_up_root(correlate, process, result);
}

// A pipeline typed into an interactive shell is one process group: its members share the run of the
// first.
static struct run *pipeline_run(const struct process *process)
{
	const struct process *parent = process->parent;

	if (!(bits_of(parent) & BIT_SHELL) || process->process_group == process->pid)
		return NULL;
	for (int level = 0; level < BOUNDARY_LEVELS && is_boundary(parent);
	     level++, parent = parent->parent) {
		int seen = 0;
		for (const struct process *other = parent->children; other && seen < SIBLINGS_SEEN;
		     other = other->sibling_next, seen++)
			if (other != process && other->process_group == process->process_group &&
			    other->run && is_run_root(other))
				return other->run;
	}
	return NULL;
}

static int begin_run(struct correlate *correlate, struct process *process,
		     const struct rule_result *result)
{
	struct run *run = is_engine(result) || !process->parent ? NULL : pipeline_run(process);

	if (!run)
		return open_run(correlate, process, result);
	set_run(process, run);
	return open_own_task(correlate, process, result);
}

// The root of a run became another program: an engine lends a run without one its name.
static int change_root(struct correlate *correlate, struct process *process,
		       const struct rule_result *result)
{
	struct run_private *run = run_of(process->run);
	const char *engine = result->roles & RULE_ENGINE ? result->engine : default_engine;
	int error;

	if (run->chosen && !is_engine(result))
		return 0;
	if (run->chosen && !strcmp(run->run.engine, engine))
		return 0;
	const char *name = run->named	      ? result->run_name
			   : result->run_name ? result->run_name
					      : result->tool;
	error = run_rename(correlate, run, engine, name);
	if (error)
		return error;
	run->chosen = is_engine(result);
	return set_up_root(correlate, process, result);
}

static bool is_inside(const struct run *run, const struct run *outer)
{
	while (run && run != outer)
		run = run->parent;
	return run;
}

static int open_job(struct correlate *correlate, struct process *process, struct run *outer,
		    const struct rule_result *result, struct run **ret_run)
{
	const char *name = result->job_name ? result->job_name : result->job_id;
	int error = run_new(correlate, result->job_engine, result->job_id, name, process, ret_run);

	if (error)
		return error;
	(*ret_run)->parent = run_reference(outer);
	run_of(*ret_run)->job = run_of(*ret_run)->chosen = true;
	run_of(*ret_run)->children_are_tasks = !result->job_task;
	return 0;
}

static int enter_step(struct correlate *correlate, struct process *process, const char *step)
{
	struct task_private *task = task_find(correlate, process->run, NULL, step);

	if (!task)
		return open_task(correlate, process, step);
	set_task(process, &task->task);
	return 0;
}

// The run of a scheduler's job or a container, wherever the process was started.
static int enter_job(struct correlate *correlate, struct process *process,
		     const struct rule_result *result)
{
	struct run_private *known = run_find(correlate, result->job_engine, result->job_id);
	struct run *run = known ? run_reference(&known->run) : NULL, *own = process->run;
	bool inside = run && is_inside(own, run);
	// An engine that ran before its job was known: the job is then what it runs in.
	bool adopt = own && !inside && run_of(own)->chosen && !run_of(own)->job && !own->parent &&
		     is_run_root(process) && !is_inside(run, own);
	int error = 0;

	if (!run)
		error = open_job(correlate, process, adopt ? NULL : own, result, &run);
	if (error)
		return error;
	if (adopt)
		own->parent = run_reference(run);
	if (!adopt && !inside) {
		set_task(process, NULL);
		set_run(process, run);
	}
	run_release(run);
	if (process->run != run)
		return 0;
	if (!result->job_task)
		return inside ? 0 : open_own_task(correlate, process, result);
	// Inside a step a rule may have opened a task of its own: that one stays.
	return process->task && process->task->run == run
		       ? 0
		       : enter_step(correlate, process, result->job_task);
}

// --- what the agent calls ------------------------------------------------------------------------------------------

int correlate_root(struct correlate *correlate, struct process *process, const char *name)
{
	struct run *run;
	int error = run_new(correlate, default_engine, NULL, name, process, &run);

	if (error)
		return error;
	set_task(process, NULL);
	set_run(process, run);
	run_of(run)->named = name != NULL;
	run_of(run)->children_are_tasks = true;
	run_release(run);
	set_bits(process, bits_of(process) & ~(uintptr_t)BIT_BOUNDARY);
	return 0;
}

static uintptr_t fork_bits(const struct process *parent)
{
	uintptr_t bits = bits_of(parent) & ~(uintptr_t)BIT_ASKS;

	if (bits & BIT_STARTS_PROBES)
		bits = (bits & ~(uintptr_t)BIT_STARTS_PROBES) | BIT_PROBE;
	else if (!(bits & BIT_PROBE_ALL))
		bits &= ~(uintptr_t)BIT_PROBE;
	return bits | (is_boundary(parent) ? BIT_BOUNDARY : 0);
}

// A wrapper's jobs go through a shell, which may become the job: only what its copy runs at once is its own.
static uintptr_t exec_bits(const struct process *process, const struct rule_result *result)
{
	uintptr_t bits = bits_of(process) & (BIT_PLACED | BIT_PROBE_ALL);
	bool copy = !process->parent || !(bits_of(process->parent) & BIT_STARTS_PROBES) ||
		    bits_of(process) & BIT_PROBE;

	if (bits & BIT_PROBE_ALL || (result->probe && copy))
		bits |= BIT_PROBE | BIT_PROBE_ALL;
	return bits | (result->roles & RULE_SHELL ? BIT_SHELL : 0) |
	       (result->starts_probes ? BIT_STARTS_PROBES : 0) | (result->asks ? BIT_ASKS : 0);
}

enum end_meaning correlate_end_meaning(const struct process *process)
{
	bool failed = process->exit_code > 0 || process->signal > 0 || process->oom;

	if (!failed)
		return END_PLAIN;
	if (bits_of(process) & BIT_PROBE && !process->oom)
		return END_PROBE;
	return bits_of(process) & BIT_ASKS && process->exit_code == 1 ? END_ANSWER : END_PLAIN;
}

static const char *const end_meanings[] = {[END_PLAIN] = NULL, [END_ANSWER] = "answer", [END_PROBE] = "probe"};

const char *end_meaning_name(enum end_meaning meaning)
{
	return end_meanings[meaning];
}

enum end_meaning end_meaning_of(const char *name)
{
	for (int meaning = END_ANSWER; name && meaning <= END_PROBE; meaning++)
		if (!strcmp(name, end_meanings[meaning]))
			return (enum end_meaning)meaning;
	return END_PLAIN;
}

int correlate_fork(struct correlate *correlate, struct process *process)
{
	struct process *parent = process->parent;
	int error;

	if (!parent) {
		if (is_init_child(process))
			set_bits(process, BIT_BOUNDARY);
		return 0;
	}
	set_tool(correlate, process, parent->image ? parent->image->tool : NULL);
	set_bits(process, fork_bits(parent));
	if (process->cgroup != parent->cgroup)
		set_bits(process, bits_of(process) & ~(uintptr_t)BIT_PLACED);
	set_run(process, parent->run);
	set_task(process, parent->task);
	if (!is_run_root(parent) || !(bits_of(parent) & BIT_SHELL) ||
	    !run_of(parent->run)->children_are_tasks)
		return 0;
	// What a script's shell forks is a task, and the shell itself is then none.
	if (is_task_root(parent) && parent->task->run == parent->run) {
		set_task(process, NULL);
		withdraw_task(parent);
	}
	error = open_task(correlate, process, NULL);
	if (error)
		return error;
	return task_set_name(task_of(process->task), "(subshell)");
}

// Inside a run and not its root.
static int exec_inside(struct correlate *correlate, struct process *process,
		       const struct rule_result *result)
{
	const struct run *run = process->run;
	bool below_root =
		process->parent && process->parent->run == run && is_run_root(process->parent);

	if (result->roles & RULE_TASK &&
	    (result->roles & RULE_TASK_ANYWHERE || !strcmp(result->task_engine, run->engine)))
		return enter_task(correlate, process, result);
	if (is_engine(result)) {
		// An engine's launcher starts the engine proper.
		if (below_root && !strcmp(run->engine, result->engine))
			return 0;
		return open_run(correlate, process, result);
	}
	if (run_of((struct run *)run)->children_are_tasks &&
	    (below_root || is_task_root(process)) &&
	    (!is_task_root(process) || task_of(process->task)->naming != NAMING_RULE))
		return open_own_task(correlate, process, result);
	return process->task ? task_add_tool(correlate, task_of(process->task), process,
					     result->tool, result->rank)
			     : 0;
}

static int place_in_job(struct correlate *correlate, struct process *process,
			const struct rule_result *result)
{
	if (!(result->roles & RULE_JOB) || bits_of(process) & BIT_PLACED)
		return 0;
	set_bits(process, bits_of(process) | BIT_PLACED);
	return enter_job(correlate, process, result);
}

// A service is a run until it turns out to hand work out: a terminal in it, a login.
static bool leaves_service(const struct process *process, const struct rule_result *result)
{
	const struct run_private *run = run_of(process->run);

	return result->roles & RULE_BOUNDARY && run->service && !run->chosen && !run->named && !run->job;
}

static int exec_place(struct correlate *correlate, struct process *process,
		      const struct rule_result *result, bool inherited_boundary)
{
	int error = place_in_job(correlate, process, result);

	if (error)
		return error;
	if (process->run && leaves_service(process, result)) {
		if (process->task && is_task_root(process))
			withdraw_task(process);
		set_task(process, NULL);
		set_run(process, NULL);
	}
	if (!process->run) {
		if (result->roles & RULE_BOUNDARY || process->pid == 1) {
			set_bits(process, bits_of(process) | BIT_BOUNDARY);
			return 0;
		}
		if (!inherited_boundary && !is_boundary(process->parent) && !is_engine(result))
			return 0;
		return begin_run(correlate, process, result);
	}
	if (is_run_root(process) && !run_of(process->run)->job)
		return change_root(correlate, process, result);
	return exec_inside(correlate, process, result);
}

int correlate_exec(struct correlate *correlate, struct process *process)
{
	struct rule_result result;
	bool inherited = is_boundary(process);
	int error = match_process(correlate, process, &result);

	if (error)
		return error;
	set_tool(correlate, process, result.tool);
	set_bits(process, exec_bits(process, &result));
	error = exec_place(correlate, process, &result, inherited);
	error = error ? error : joins_add(correlate, process, &result);
	if (error || !process->task)
		return error;
	return task_add_sample(correlate, task_of(process->task), process, result.sample);
}

int correlate_cgroup(struct correlate *correlate, struct process *process)
{
	struct rule_result result;
	int error = match_process(correlate, process, &result);

	if (error)
		return error;
	set_bits(process, bits_of(process) & ~(uintptr_t)BIT_PLACED);
	error = place_in_job(correlate, process, &result);
	return error ? error : joins_add(correlate, process, &result);
}

void correlate_end(struct correlate *correlate, struct process *process)
{
	joins_release(correlate, process);
	if (process->run)
		run_of(process->run)->ended++;
	set_task(process, NULL);
	set_run(process, NULL);
	for (struct image *image = process->images; image; image = image->next) {
		name_release(&correlate->names, image->tool);
		image->tool = NULL;
	}
	set_bits(process, 0);
}

void correlate_write(const struct process *process, struct json *json)
{
	const struct task *task = process->task;
	const struct run *run = process->run;

	json_put_string(json, "tool", process->image ? process->image->tool : NULL);
	json_put_string(json, "task", task ? task->id : NULL);
	json_put_string(json, "task_name", task ? task->name : NULL);
	json_put_string(json, "run", run ? run->id : NULL);
	json_put_string(json, "run_name", run ? run->name : NULL);
	json_put_string(json, "run_parent", run && run->parent ? run->parent->id : NULL);
	json_put_string(json, "engine", run ? run->engine : NULL);
	json_put_string(json, "sample", task ? task->sample : NULL);
	joins_write(process, json);
}
