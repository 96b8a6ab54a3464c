// SPDX-License-Identifier: Apache-2.0
// Correlate, the objects: runs and tasks, counted references, found by id. They live while a
// process or the report refers to them, also beyond correlate itself.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/correlate_private.h"

enum { TABLE_SLOTS = 1024, MS_NS = 1000000 };

static uint32_t slot_of(const char *id, uint32_t slots)
{
	uint32_t hash = UINT32_C(2166136261);

	for (; *id; id++)
		hash = (hash ^ (uint8_t)*id) * UINT32_C(16777619);
	return (hash ^ hash >> 15) & (slots - 1);
}

static void run_link(struct correlate *correlate, struct run_private *run)
{
	uint32_t slot = slot_of(run->run.id, correlate->run_slots);

	run->hash_next = correlate->runs[slot];
	correlate->runs[slot] = run;
}

static void run_unlink(struct correlate *correlate, struct run_private *run)
{
	struct run_private **link = &correlate->runs[slot_of(run->run.id, correlate->run_slots)];

	while (*link && *link != run)
		link = &(*link)->hash_next;
	if (*link)
		*link = run->hash_next;
}

// The table doubles with its content; when memory is short it stays as it is and chains grow.
static void grow_tasks(struct correlate *correlate)
{
	uint32_t slots = correlate->task_slots * 2;
	struct task_private **table;

	if (correlate->task_count < slots)
		return;
	table = calloc(slots, sizeof(struct task_private *));
	if (!table)
		return;
	for (uint32_t i = 0; i < correlate->task_slots; i++)
		for (struct task_private *task = correlate->tasks[i], *next; task; task = next) {
			uint32_t slot = slot_of(task->task.id, slots);
			next = task->hash_next;
			task->hash_next = table[slot];
			table[slot] = task;
		}
	free(correlate->tasks);
	correlate->tasks = table;
	correlate->task_slots = slots;
}

static void task_unlink(struct correlate *correlate, struct task_private *task)
{
	struct task_private **link =
		&correlate->tasks[slot_of(task->task.id, correlate->task_slots)];

	while (*link && *link != task)
		link = &(*link)->hash_next;
	if (*link)
		*link = task->hash_next;
}

static int make_id(struct correlate *correlate, const char *engine, const char *id,
		   const struct run *run, char **ret_id)
{
	int length = id ? asprintf(ret_id, "%s-%s", engine, id)
			: asprintf(ret_id, "%s-%s-%u-%llu", engine, correlate->boot, run->root_pid,
				   (unsigned long long)(run->root_start_boot_ns / MS_NS));

	return length < 0 ? -ENOMEM : 0;
}

static void run_free(struct run_private *run)
{
	for (uint32_t i = 0; run->owner && i < run->file_slots; i++)
		name_release(&run->owner->names, run->files[i].sample);
	free(run->files);
	free(run->joins_told);
	free(run->run.id);
	free(run->run.engine);
	free(run->run.name);
	free(run);
}

int run_new(struct correlate *correlate, const char *engine, const char *id, const char *name,
	    struct process *root, struct run **ret_run)
{
	struct run_private *run = calloc(1, sizeof(*run));

	if (!run)
		return -ENOMEM;
	run->run = (struct run){.references = 1,
				.root_pid = root->pid,
				.root_start_boot_ns = root->start_boot_ns,
				.start_boot_ns = root->image ? root->image->start_boot_ns
							     : root->start_boot_ns};
	run->run.engine = strdup(engine);
	run->run.name = name ? strdup(name) : NULL;
	if (!run->run.engine || (name && !run->run.name) ||
	    make_id(correlate, engine, id, &run->run, &run->run.id)) {
		run->run.id = NULL;
		run_free(run);
		return -ENOMEM;
	}
	run->owner = correlate;
	run_link(correlate, run);
	correlate->run_count++;
	*ret_run = &run->run;
	return 0;
}

struct run_private *run_find(struct correlate *correlate, const char *engine, const char *id)
{
	size_t length = strlen(engine);

	char *whole = arena_alloc(&correlate->arena, length + strlen(id) + 2);
	if (!whole)
		return NULL;
	memcpy(whole, engine, length);
	whole[length] = '-';
	memcpy(whole + length + 1, id, strlen(id) + 1);
	for (struct run_private *run = correlate->runs[slot_of(whole, correlate->run_slots)]; run;
	     run = run->hash_next)
		if (!strcmp(run->run.id, whole))
			return run;
	return NULL;
}

int run_rename(struct correlate *correlate, struct run_private *run, const char *engine,
	       const char *name)
{
	char *new_engine = strdup(engine), *new_name = name ? strdup(name) : NULL, *new_id = NULL;

	// Records that are out hold the id: it stays as it was.
	bool keep_id = run->ended || run->job;
	if (!new_engine || (name && !new_name) ||
	    (!keep_id && make_id(correlate, engine, NULL, &run->run, &new_id))) {
		free(new_engine);
		free(new_name);
		return -ENOMEM;
	}
	if (!keep_id) {
		run_unlink(correlate, run);
		free(run->run.id);
		run->run.id = new_id;
		run_link(correlate, run);
	}
	free(run->run.engine);
	run->run.engine = new_engine;
	if (name) {
		free(run->run.name);
		run->run.name = new_name;
	}
	return 0;
}

struct run *run_reference(struct run *run)
{
	if (run)
		run->references++;
	return run;
}

void run_release(struct run *run)
{
	// A chain of runs, each the last to refer to the one it was started in.
	while (run && !--run->references) {
		struct run_private *private = run_of(run);
		struct run *parent = run->parent;
		if (private->owner) {
			run_unlink(private->owner, private);
			private->owner->run_count--;
		}
		run_free(private);
		run = parent;
	}
}

void run_restore(struct correlate *correlate, struct run_private *run)
{
	run->run.references = 1;
	run->owner = correlate;
	run_link(correlate, run);
	correlate->run_count++;
}

void run_discard(struct correlate *correlate, struct run_private *run)
{
	if (!run)
		return;
	run->owner = correlate;
	run_release(run->run.parent);
	run_free(run);
}

static void task_link(struct correlate *correlate, struct task_private *task)
{
	uint32_t slot;

	grow_tasks(correlate);
	slot = slot_of(task->task.id, correlate->task_slots);
	task->hash_next = correlate->tasks[slot];
	correlate->tasks[slot] = task;
	correlate->task_count++;
}

void task_restore(struct correlate *correlate, struct task_private *task, struct run *run)
{
	task->task.references = 1;
	task->task.run = run_reference(run);
	task->owner = correlate;
	task_link(correlate, task);
}

static void task_free(struct task_private *task, struct correlate *owner)
{
	for (uint32_t i = 0; owner && i < task->name_count; i++)
		name_release(&owner->names, task->names[i].text);
	free(task->task.id);
	free(task->task.name);
	free(task->task.sample);
	free(task->task.cwd);
	free(task);
}

void task_discard(struct correlate *correlate, struct task_private *task)
{
	if (task)
		task_free(task, correlate);
}

int task_new(struct correlate *correlate, struct run *run, const char *id, struct process *root,
	     struct task **ret_task)
{
	struct task_private *task = calloc(1, sizeof(*task));
	const char *cwd = root->image ? root->image->cwd : NULL;
	int length;

	if (!task)
		return -ENOMEM;
	length = id ? asprintf(&task->task.id, "%s", id)
		    : asprintf(&task->task.id, "%u-%llu", root->pid,
			       (unsigned long long)(root->start_boot_ns / MS_NS));
	if (length < 0)
		task->task.id = NULL;
	task->task.name = strdup("");
	task->task.cwd = cwd ? strdup(cwd) : NULL;
	if (!task->task.id || !task->task.name || (cwd && !task->task.cwd)) {
		free(task->task.id);
		free(task->task.name);
		free(task);
		return -ENOMEM;
	}
	task->task.references = 1;
	task->task.run = run_reference(run);
	task->task.root_pid = root->pid;
	task->task.root_start_boot_ns = root->start_boot_ns;
	task->task.start_boot_ns = root->image ? root->image->start_boot_ns : root->start_boot_ns;
	task->task.number = ++run->task_count;
	task->naming = NAMING_TOOLS;
	task->sample_weight = UINT32_MAX;
	task->owner = correlate;
	task_link(correlate, task);
	*ret_task = &task->task;
	return 0;
}

struct task_private *task_find(struct correlate *correlate, const struct run *run,
			       const char *engine, const char *id)
{
	struct task_private *found = NULL;

	for (struct task_private *task = correlate->tasks[slot_of(id, correlate->task_slots)]; task;
	     task = task->hash_next) {
		if (strcmp(task->task.id, id) ||
		    (run ? task->task.run != run : strcmp(task->task.run->engine, engine)))
			continue;
		if (found)
			return NULL; // two runs have such a task: it cannot be told which
		found = task;
	}
	return found;
}

struct task *task_reference(struct task *task)
{
	if (task)
		task->references++;
	return task;
}

void task_release(struct task *task)
{
	struct task_private *private = task ? task_of(task) : NULL;

	if (!task || --task->references)
		return;
	if (private->owner) {
		task_unlink(private->owner, private);
		private->owner->task_count--;
	}
	run_release(task->run);
	task_free(private, private->owner);
}

int correlate_new(const struct rules *rules, const char *boot_id, struct correlate **ret_correlate)
{
	struct correlate *correlate = calloc(1, sizeof(*correlate));

	if (!correlate)
		return -ENOMEM;
	correlate->rules = rules;
	snprintf(correlate->boot, sizeof(correlate->boot), "%.8s", boot_id ? boot_id : "");
	correlate->run_slots = correlate->task_slots = TABLE_SLOTS;
	correlate->runs = calloc(TABLE_SLOTS, sizeof(struct run_private *));
	correlate->tasks = calloc(TABLE_SLOTS, sizeof(struct task_private *));
	arena_init(&correlate->arena, 16384);
	correlate->answers = answers_new();
	if (!correlate->runs || !correlate->tasks || !correlate->answers) {
		correlate_free(correlate);
		return -ENOMEM;
	}
	*ret_correlate = correlate;
	return 0;
}

void correlate_free(struct correlate *correlate)
{
	if (!correlate)
		return;
	for (uint32_t i = 0; correlate->runs && i < correlate->run_slots; i++)
		for (struct run_private *run = correlate->runs[i]; run; run = run->hash_next)
			run->owner = NULL;
	for (uint32_t i = 0; correlate->tasks && i < correlate->task_slots; i++)
		for (struct task_private *task = correlate->tasks[i]; task; task = task->hash_next)
			task->owner = NULL;
	names_free(&correlate->names);
	answers_free(correlate->answers);
	arena_free(&correlate->arena);
	free(correlate->runs);
	free(correlate->tasks);
	free(correlate);
}

void correlate_set_rules(struct correlate *correlate, const struct rules *rules)
{
	correlate->rules = rules;
	answers_forget(correlate->answers);
}
