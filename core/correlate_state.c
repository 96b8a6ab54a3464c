// SPDX-License-Identifier: Apache-2.0
// Correlate between two images. Each run and task is written with a number that processes and children refer to it by;
// ids are taken as they were written, never made anew. Tags are never used for another thing.
#include "core/correlate_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/correlate_private.h"

#define RUN(tag, member) PARCEL_MEMBER(tag, struct run_private, member)
#define TASK(tag, member) PARCEL_MEMBER(tag, struct task_private, member)
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const struct parcel_member run_members[] = {
	RUN(1, run.root_pid), RUN(2, run.root_start_boot_ns), RUN(3, run.start_boot_ns), RUN(4, run.task_count),
	RUN(5, ended), RUN(6, chosen), RUN(7, job), RUN(8, named), RUN(9, children_are_tasks), RUN(10, service),
	RUN(11, steps), RUN(12, join_count),
};

static const struct parcel_member task_members[] = {
	TASK(1, task.root_pid), TASK(2, task.root_start_boot_ns), TASK(3, task.start_boot_ns), TASK(4, task.number),
	TASK(5, naming), TASK(6, more), TASK(7, rank), TASK(8, sample_weight), TASK(9, sample_said),
	TASK(10, sample_joint),
};

enum run_tag { RUN_KEY = 128, RUN_ID, RUN_ENGINE, RUN_NAME, RUN_PARENT, RUN_FILE, RUN_JOINS_TOLD };
enum task_tag { TASK_KEY = 128, TASK_RUN, TASK_ID, TASK_NAME, TASK_SAMPLE, TASK_CWD, TASK_TOOL };

// ---- writing -------------------------------------------------------------------------------------------------------

static uint64_t key_of(const void *object)
{
	return (uint64_t)(uintptr_t)object;
}

static void run_write(struct buf *out, uint16_t tag, const struct run_private *run, struct parcel_map *written)
{
	size_t opened;
	bool fresh;

	if (run->run.parent)
		run_write(out, tag, run_of(run->run.parent), written);
	if (!parcel_map_put(written, key_of(run), &fresh) || !fresh)
		return;
	opened = parcel_open(out, tag);
	parcel_put_u64(out, RUN_KEY, key_of(run));
	parcel_put_string(out, RUN_ID, run->run.id);
	parcel_put_string(out, RUN_ENGINE, run->run.engine);
	parcel_put_string(out, RUN_NAME, run->run.name);
	if (run->run.parent)
		parcel_put_u64(out, RUN_PARENT, key_of(run->run.parent));
	parcel_put_members(out, run_members, COUNT(run_members), run);
	if (run->joins_told)
		parcel_put(out, RUN_JOINS_TOLD, run->joins_told, RUN_JOINS_MAX * sizeof(*run->joins_told));
	for (uint32_t i = 0; i < run->file_slots; i++) {
		const struct sample_file *file = &run->files[i];

		if (!file->path)
			continue;
		parcel_put_u64(out, RUN_FILE, file->path);
		parcel_put_string(out, RUN_FILE, file->sample ? file->sample : "");
	}
	parcel_close(out, opened);
}

static void task_write(struct buf *out, uint16_t tag, const struct task_private *task)
{
	size_t opened = parcel_open(out, tag);

	parcel_put_u64(out, TASK_KEY, key_of(task));
	parcel_put_u64(out, TASK_RUN, key_of(task->task.run));
	parcel_put_string(out, TASK_ID, task->task.id);
	parcel_put_string(out, TASK_NAME, task->task.name);
	parcel_put_string(out, TASK_SAMPLE, task->task.sample);
	parcel_put_string(out, TASK_CWD, task->task.cwd);
	parcel_put_members(out, task_members, COUNT(task_members), task);
	for (uint32_t i = 0; i < task->name_count; i++) {
		parcel_put_u64(out, TASK_TOOL, task->names[i].start_boot_ns);
		parcel_put_string(out, TASK_TOOL, task->names[i].text);
	}
	parcel_close(out, opened);
}

void correlate_state_write(struct buf *out, uint16_t run_tag, uint16_t task_tag, const struct correlate *correlate)
{
	struct parcel_map written = { 0 };

	for (uint32_t i = 0; i < correlate->run_slots; i++) {
		for (const struct run_private *run = correlate->runs[i]; run; run = run->hash_next)
			run_write(out, run_tag, run, &written);
	}
	for (uint32_t i = 0; i < correlate->task_slots; i++) {
		for (const struct task_private *task = correlate->tasks[i]; task; task = task->hash_next)
			task_write(out, task_tag, task);
	}
	parcel_map_free(&written);
}

void correlate_state_write_process(struct buf *out, const struct process *process)
{
	if (process->run)
		parcel_put_u64(out, CORRELATE_RUN, key_of(process->run));
	if (process->task)
		parcel_put_u64(out, CORRELATE_TASK, key_of(process->task));
	parcel_put_u64(out, CORRELATE_BITS, (uint64_t)(uintptr_t)process->correlate);
	joins_state_write(out, CORRELATE_JOIN, process);
}

// ---- reading -------------------------------------------------------------------------------------------------------

// Text that must be there, in memory of its own.
static int text_take(const struct parcel_field *field, char **to)
{
	const char *text = parcel_string(field);
	char *copy = text ? strdup(text) : NULL;

	if (!copy)
		return text ? -ENOMEM : -EBADMSG;
	free(*to);
	*to = copy;
	return 0;
}

static int remember(struct parcel_map *map, uint64_t key, void *object)
{
	void **value;
	bool fresh;

	if (!key)
		return -EBADMSG;
	value = parcel_map_put(map, key, &fresh);
	if (!value)
		return -ENOMEM;
	if (!fresh)
		return -EBADMSG;
	*value = object;
	return 0;
}

static int joins_told_read(struct run_private *run, const struct parcel_field *field)
{
	size_t size = RUN_JOINS_MAX * sizeof(*run->joins_told);

	if (field->length != size || run->joins_told)
		return 0; // kept otherwise in that version: a key may be told again
	run->joins_told = malloc(size);
	if (!run->joins_told)
		return -ENOMEM;
	memcpy(run->joins_told, field->data, size);
	return 0;
}

struct run_reading {
	uint64_t key, file; // of the run; of the file whose sample comes next, 0: none
};

static int run_field(struct correlate *correlate, struct correlate_state *state, struct run_private *run,
		     const struct parcel_field *field, struct run_reading *reading)
{
	const char *sample;
	uint64_t file;

	if (parcel_take_member(field, run_members, COUNT(run_members), run))
		return 0;
	switch (field->tag) {
	case RUN_KEY:
		reading->key = parcel_u64(field);
		return 0;
	case RUN_ID:
		return text_take(field, &run->run.id);
	case RUN_ENGINE:
		return text_take(field, &run->run.engine);
	case RUN_NAME:
		return text_take(field, &run->run.name);
	case RUN_PARENT:
		run_release(run->run.parent);
		run->run.parent = run_reference(parcel_map_get(&state->runs, parcel_u64(field)));
		return 0;
	case RUN_JOINS_TOLD:
		return joins_told_read(run, field);
	case RUN_FILE:
		if (!reading->file) {
			reading->file = parcel_u64(field);
			return 0;
		}
		sample = parcel_string(field);
		if (!sample)
			return -EBADMSG;
		file = reading->file;
		reading->file = 0;
		return run_restore_file(correlate, run, file, *sample ? sample : NULL);
	default:
		return 0;
	}
}

int correlate_state_read_run(struct correlate *correlate, struct correlate_state *state,
			     const struct parcel_field *field)
{
	struct run_private *run = calloc(1, sizeof(*run));
	struct parcel inside = parcel_inside(field);
	struct run_reading reading = { 0 };
	struct parcel_field one;
	int result = run ? 0 : -ENOMEM;

	while (!result && parcel_next(&inside, &one))
		result = run_field(correlate, state, run, &one, &reading);
	if (!result && (inside.bad || !run->run.id || !run->run.engine))
		result = -EBADMSG;
	if (!result)
		result = remember(&state->runs, reading.key, run);
	if (result < 0) {
		run_discard(correlate, run);
		return result;
	}
	run_restore(correlate, run);
	return 0;
}

struct task_reading {
	uint64_t key, run, tool_start;
	bool tool; // its start came, its name comes next
};

static int task_field(struct correlate *correlate, struct task_private *task, const struct parcel_field *field,
		      struct task_reading *reading)
{
	const char *tool;

	if (parcel_take_member(field, task_members, COUNT(task_members), task))
		return 0;
	switch (field->tag) {
	case TASK_KEY:
		reading->key = parcel_u64(field);
		return 0;
	case TASK_RUN:
		reading->run = parcel_u64(field);
		return 0;
	case TASK_ID:
		return text_take(field, &task->task.id);
	case TASK_NAME:
		return text_take(field, &task->task.name);
	case TASK_SAMPLE:
		return text_take(field, &task->task.sample);
	case TASK_CWD:
		return text_take(field, &task->task.cwd);
	case TASK_TOOL:
		reading->tool = !reading->tool;
		if (reading->tool) {
			reading->tool_start = parcel_u64(field);
			return 0;
		}
		tool = parcel_string(field);
		if (!tool || task->name_count == TASK_NAMES_MAX)
			return tool ? 0 : -EBADMSG;
		task->names[task->name_count].start_boot_ns = reading->tool_start;
		task->names[task->name_count].text = name_intern(&correlate->names, tool);
		return task->names[task->name_count].text ? (task->name_count++, 0) : -ENOMEM;
	default:
		return 0;
	}
}

int correlate_state_read_task(struct correlate *correlate, struct correlate_state *state,
			      const struct parcel_field *field)
{
	struct task_private *task = calloc(1, sizeof(*task));
	struct parcel inside = parcel_inside(field);
	struct task_reading reading = { 0 };
	struct parcel_field one;
	struct run *run = NULL;
	int result = task ? 0 : -ENOMEM;

	while (!result && parcel_next(&inside, &one))
		result = task_field(correlate, task, &one, &reading);
	if (!result)
		run = parcel_map_get(&state->runs, reading.run);
	if (!result && (inside.bad || !run || !task->task.id || !task->task.name))
		result = -EBADMSG;
	if (!result)
		result = remember(&state->tasks, reading.key, task);
	if (result < 0) {
		task_discard(correlate, task);
		return result;
	}
	task_restore(correlate, task, run);
	return 0;
}

int correlate_state_read_process(struct correlate *correlate, const struct correlate_state *state,
				 struct process *process, const struct parcel_field *field)
{
	switch (field->tag) {
	case CORRELATE_RUN:
		run_release(process->run);
		process->run = run_reference(parcel_map_get(&state->runs, parcel_u64(field)));
		return 0;
	case CORRELATE_TASK:
		task_release(process->task);
		process->task = task_reference(parcel_map_get(&state->tasks, parcel_u64(field)));
		return 0;
	case CORRELATE_BITS:
		process->correlate = (void *)(uintptr_t)parcel_u64(field);
		return 0;
	case CORRELATE_JOIN:
		return joins_state_read(correlate, process, field);
	default:
		return 0;
	}
}

int correlate_state_tool(struct correlate *correlate, struct image *image, const char *tool)
{
	name_release(&correlate->names, image->tool);
	image->tool = name_intern(&correlate->names, tool);
	return image->tool ? 0 : -ENOMEM;
}

void correlate_state_end(struct correlate_state *state)
{
	for (size_t i = 0; i < state->tasks.slot_count; i++)
		task_release(state->tasks.slots[i].value);
	for (size_t i = 0; i < state->runs.slot_count; i++)
		run_release(state->runs.slots[i].value);
	parcel_map_free(&state->tasks);
	parcel_map_free(&state->runs);
}
