// SPDX-License-Identifier: Apache-2.0
// The process table between two images. Tags stay what they are for ever: a figure that is new gets a new one, one
// that is gone leaves its own unused. What a neighbour's version did not write stays unknown.
#include "core/process_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/program.h"

#define PROCESS(tag, member) PARCEL_MEMBER(tag, struct process, member)
#define COUNTER(tag, member) PARCEL_MEMBER(tag, struct counters, member)
#define IMAGE(tag, member) PARCEL_MEMBER(tag, struct image, member)

static const struct parcel_member process_members[] = {
	PROCESS(1, pid), PROCESS(2, start_boot_ns), PROCESS(3, ppid), PROCESS(4, parent_start_boot_ns),
	PROCESS(5, uid), PROCESS(6, gid), PROCESS(7, pid_in_namespace), PROCESS(8, session),
	PROCESS(9, process_group), PROCESS(10, namespaces), PROCESS(11, cgroup_id), PROCESS(12, default_cgroup_id),
	PROCESS(13, rss_bytes), PROCESS(14, peak_rss_bytes), PROCESS(15, anon_bytes), PROCESS(16, file_bytes),
	PROCESS(17, shmem_bytes), PROCESS(18, swap_bytes), PROCESS(19, maxrss_at_exec_bytes),
	PROCESS(20, reclaim_stall_ns), PROCESS(21, compaction_stall_ns), PROCESS(22, blocked_ns),
	PROCESS(23, blocked_samples), PROCESS(24, state), PROCESS(25, exit_boot_ns), PROCESS(26, counters_boot_ns),
	PROCESS(27, seen_boot_ns), PROCESS(28, exit_code), PROCESS(29, signal), PROCESS(30, core_dumped),
	PROCESS(31, oom), PROCESS(32, oom_unknown), PROCESS(33, seeded), PROCESS(34, seeded_boot_ns),
	PROCESS(35, threads_unsure), PROCESS(36, thread_took_over), PROCESS(37, threads_life_ns), PROCESS(38, opened),
	PROCESS(39, sampled_cpu_ns), PROCESS(40, quality), PROCESS(41, no_exec),
};

static const struct parcel_member counter_members[] = {
	COUNTER(1, cpu_ns), COUNTER(2, utime_ns), COUNTER(3, stime_ns), COUNTER(4, run_delay_ns),
	COUNTER(5, voluntary_switches), COUNTER(6, involuntary_switches), COUNTER(7, minor_faults),
	COUNTER(8, major_faults), COUNTER(9, rchar_bytes), COUNTER(10, wchar_bytes), COUNTER(11, read_syscalls),
	COUNTER(12, write_syscalls), COUNTER(13, read_bytes), COUNTER(14, write_bytes),
	COUNTER(15, cancelled_write_bytes), COUNTER(16, threads), COUNTER(17, threads_max),
};

static const struct parcel_member image_members[] = {
	IMAGE(1, forked), IMAGE(2, start_boot_ns), IMAGE(3, peak_rss_bytes), IMAGE(4, comm),
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

enum process_tag { PROCESS_COUNTERS = 128, PROCESS_IMAGE, PROCESS_IMAGES_DROPPED };
enum image_tag { IMAGE_AT_START = 128, IMAGE_PROGRAM_ID, IMAGE_PROGRAM, IMAGE_TOOL };
enum program_tag { PROGRAM_EXE = 1, PROGRAM_SCRIPT, PROGRAM_INTERPRETER, PROGRAM_CWD, PROGRAM_ARGS, PROGRAM_TOTAL,
		   PROGRAM_PLAIN };

void process_state_free(struct process_programs *programs)
{
	for (size_t i = 0; i < programs->met.slot_count; i++)
		program_release(programs->met.slots[i].value);
	parcel_map_free(&programs->met);
}

// ---- writing -------------------------------------------------------------------------------------------------------

static void program_write(struct buf *out, const struct program *program)
{
	const struct image_strings *strings = &program->strings;
	size_t opened = parcel_open(out, IMAGE_PROGRAM);

	parcel_put_string(out, PROGRAM_EXE, strings->exe);
	parcel_put_string(out, PROGRAM_SCRIPT, strings->script);
	parcel_put_string(out, PROGRAM_INTERPRETER, strings->interpreter);
	parcel_put_string(out, PROGRAM_CWD, strings->cwd);
	if (strings->args)
		parcel_put(out, PROGRAM_ARGS, strings->args, strings->args_size);
	parcel_put_u64(out, PROGRAM_TOTAL, strings->args_total);
	parcel_put_u64(out, PROGRAM_PLAIN, program->plain);
	parcel_close(out, opened);
}

static void counters_write(struct buf *out, uint16_t tag, const struct counters *counters)
{
	size_t opened = parcel_open(out, tag);

	parcel_put_members(out, counter_members, COUNT(counter_members), counters);
	parcel_close(out, opened);
}

static void image_write(struct buf *out, const struct image *image, struct process_programs *programs)
{
	size_t opened = parcel_open(out, PROCESS_IMAGE);
	bool fresh = true;

	parcel_put_members(out, image_members, COUNT(image_members), image);
	counters_write(out, IMAGE_AT_START, &image->at_start);
	parcel_put_string(out, IMAGE_TOOL, image->tool);
	// Written again where it cannot be remembered: more bytes, no less right.
	parcel_map_put(&programs->met, image->program->id, &fresh);
	parcel_put_u64(out, IMAGE_PROGRAM_ID, image->program->id);
	if (fresh)
		program_write(out, image->program);
	parcel_close(out, opened);
}

void process_state_write(struct buf *out, const struct process *process, struct process_programs *programs)
{
	parcel_put_members(out, process_members, COUNT(process_members), process);
	counters_write(out, PROCESS_COUNTERS, &process->counters);
	for (const struct image *image = process->images; image; image = image->next)
		image_write(out, image, programs);
	parcel_put_u64(out, PROCESS_IMAGES_DROPPED, process->images_dropped);
}

// ---- reading -------------------------------------------------------------------------------------------------------

static void members_read(const struct parcel_field *field, const struct parcel_member *members, size_t count, void *to)
{
	struct parcel inside = parcel_inside(field);
	struct parcel_field one;

	while (parcel_next(&inside, &one))
		parcel_take_member(&one, members, count, to);
}

static int program_read(const struct parcel_field *field, void **ret_program)
{
	struct parcel inside = parcel_inside(field);
	struct image_strings strings = { 0 };
	struct program *program;
	struct parcel_field one;
	bool plain = false;

	while (parcel_next(&inside, &one)) {
		if (one.tag == PROGRAM_EXE)
			strings.exe = parcel_string(&one);
		else if (one.tag == PROGRAM_SCRIPT)
			strings.script = parcel_string(&one);
		else if (one.tag == PROGRAM_INTERPRETER)
			strings.interpreter = parcel_string(&one);
		else if (one.tag == PROGRAM_CWD)
			strings.cwd = parcel_string(&one);
		else if (one.tag == PROGRAM_ARGS)
			strings.args = one.data, strings.args_size = one.length;
		else if (one.tag == PROGRAM_TOTAL)
			strings.args_total = (uint32_t)parcel_u64(&one);
		else if (one.tag == PROGRAM_PLAIN)
			plain = parcel_u64(&one) != 0;
	}
	program = inside.bad ? NULL : program_new(&strings);
	if (!program)
		return inside.bad ? -EBADMSG : -ENOMEM;
	program->plain = plain;
	*ret_program = program;
	return 0;
}

struct image_parts {
	struct image image;
	uint64_t program_id;
	struct parcel_field program; // tag 0: it came before
	const char *tool;
};

static int image_parts_read(const struct parcel_field *field, struct image_parts *parts)
{
	struct parcel inside = parcel_inside(field);
	struct parcel_field one;

	*parts = (struct image_parts){ .image.peak_rss_bytes = UNKNOWN };
	while (parcel_next(&inside, &one)) {
		if (parcel_take_member(&one, image_members, COUNT(image_members), &parts->image))
			continue;
		if (one.tag == IMAGE_AT_START)
			members_read(&one, counter_members, COUNT(counter_members), &parts->image.at_start);
		else if (one.tag == IMAGE_PROGRAM_ID)
			parts->program_id = parcel_u64(&one);
		else if (one.tag == IMAGE_PROGRAM)
			parts->program = one;
		else if (one.tag == IMAGE_TOOL)
			parts->tool = parcel_string(&one);
	}
	return inside.bad || !parts->program_id ? -EBADMSG : 0;
}

static int image_read(struct process_table *table, struct process *process, const struct parcel_field *field,
		      struct process_programs *programs, const struct process_state_visitor *visitor)
{
	struct image_parts parts;
	void **program;
	bool fresh;
	int result = image_parts_read(field, &parts);

	if (result < 0)
		return result;
	program = parcel_map_put(&programs->met, parts.program_id, &fresh);
	if (!program)
		return -ENOMEM;
	if (!*program)
		result = parts.program.tag ? program_read(&parts.program, program) : -EBADMSG;
	if (!result)
		result = process_restore_image(table, process, &parts.image, *program);
	return result < 0 || !parts.tool ? result : visitor->tool(visitor->context, process->image, parts.tool);
}

static int process_begin(struct process_table *table, const struct parcel_field *field, struct process **ret_process)
{
	struct event_identity identity = { 0 };
	struct process known = { 0 }, *process;
	int result;

	members_read(field, process_members, COUNT(process_members), &known);
	identity.process.pid = known.pid;
	identity.process.start_ns = known.start_boot_ns;
	identity.parent.pid = known.ppid;
	identity.parent.start_ns = known.parent_start_boot_ns;
	if (!known.pid || !known.start_boot_ns)
		return -EBADMSG;
	result = process_add(table, &identity, &process);
	if (result < 0)
		return result;
	members_read(field, process_members, COUNT(process_members), process);
	*ret_process = process;
	return 0;
}

int process_state_read(struct process_table *table, const struct parcel_field *field, struct process_programs *programs,
		       const struct process_state_visitor *visitor, struct process **ret_process)
{
	struct parcel inside = parcel_inside(field);
	struct process *process;
	struct parcel_field one;
	uint32_t dropped = 0;
	int result = process_begin(table, field, &process);

	if (result < 0)
		return result;
	while (!result && parcel_next(&inside, &one)) {
		if (one.tag == PROCESS_COUNTERS)
			members_read(&one, counter_members, COUNT(counter_members), &process->counters);
		else if (one.tag == PROCESS_IMAGE)
			result = image_read(table, process, &one, programs, visitor);
		else if (one.tag == PROCESS_IMAGES_DROPPED)
			dropped = (uint32_t)parcel_u64(&one);
		else if (one.tag >= PROCESS_STATE_OTHERS)
			result = visitor->other(visitor->context, process, &one);
	}
	process->images_dropped += dropped;
	*ret_process = process;
	return inside.bad ? -EBADMSG : result;
}
