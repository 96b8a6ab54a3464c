// SPDX-License-Identifier: Apache-2.0
// Turns a process of the table, with the programs it has been, into what the report adds up. Each
// program gets the difference of the process's counters between its start and the next one's.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/correlate.h"
#include "core/report_tree.h"

static bool report_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("%+,-./:=@_~^", c)) || (unsigned char)c >= 0x80;
}

// Appends while there is room for the mark of a cut; false when there is none.
static bool report_put(char *out, size_t *used, const char *text, size_t length)
{
	if (*used + length > REPORT_TEXT_MAX - 4)
		return false;
	memcpy(out + *used, text, length);
	*used += length;
	return true;
}

static bool report_put_argument(char *out, size_t *used, const char *argument, size_t length)
{
	bool plain = length > 0, fits;

	for (size_t i = 0; i < length && plain; i++)
		plain = report_plain(argument[i]);
	fits = plain || report_put(out, used, "'", 1);
	for (size_t i = 0; fits && i < length; i++)
		fits = argument[i] == '\'' ? report_put(out, used, "'\\''", 4)
					   : report_put(out, used, argument + i, 1);
	return fits && (plain || report_put(out, used, "'", 1));
}

void report_command(char out[REPORT_TEXT_MAX], const char *args, size_t args_size)
{
	size_t used = 0, at = 0;
	bool fits = true;

	while (fits && args && at < args_size) {
		size_t length = strnlen(args + at, args_size - at);

		fits = (at == 0 || report_put(out, &used, " ", 1)) &&
		       report_put_argument(out, &used, args + at, length);
		at += length + 1;
	}
	if (!fits) {
		memcpy(out + used, "...", 3);
		used += 3;
	}
	out[used] = 0;
}

static uint64_t report_less(uint64_t now, uint64_t before)
{
	if (now == UNKNOWN || before == UNKNOWN)
		return UNKNOWN;
	return now > before ? now - before : 0;
}

static void report_split(const struct counters *share, uint64_t *value)
{
	uint64_t user_ns = counters_user_ns(share);

	value[REPORT_USER] = user_ns;
	value[REPORT_SYSTEM] = report_less(share->cpu_ns, user_ns);
}

static void report_share(const struct counters *from, const struct counters *to, uint64_t *value)
{
	struct counters share = {0};

	for (unsigned i = 0; i < REPORT_FIGURE_END; i++)
		value[i] = 0;
	value[REPORT_CPU] = report_less(to->cpu_ns, from->cpu_ns);
	share.cpu_ns = value[REPORT_CPU];
	share.utime_ns = report_less(to->utime_ns, from->utime_ns);
	share.stime_ns = report_less(to->stime_ns, from->stime_ns);
	report_split(&share, value);
	value[REPORT_RUN_DELAY] = report_less(to->run_delay_ns, from->run_delay_ns);
	value[REPORT_RCHAR] = report_less(to->rchar_bytes, from->rchar_bytes);
	value[REPORT_WCHAR] = report_less(to->wchar_bytes, from->wchar_bytes);
	value[REPORT_READ] = report_less(to->read_bytes, from->read_bytes);
	value[REPORT_WRITE] = report_less(to->write_bytes, from->write_bytes);
	value[REPORT_MINOR_FAULTS] = report_less(to->minor_faults, from->minor_faults);
	value[REPORT_MAJOR_FAULTS] = report_less(to->major_faults, from->major_faults);
	value[REPORT_VOLUNTARY] = report_less(to->voluntary_switches, from->voluntary_switches);
	value[REPORT_INVOLUNTARY] =
		report_less(to->involuntary_switches, from->involuntary_switches);
}

// Stalls and blocked time are known for the process only: its last program gets them.
static void report_waits(const struct process *process, uint64_t *value)
{
	uint64_t reclaim_ns = process->reclaim_stall_ns,
		 compaction_ns = process->compaction_stall_ns;

	value[REPORT_RECLAIM] = reclaim_ns == UNKNOWN || compaction_ns == UNKNOWN
					? UNKNOWN
					: reclaim_ns + compaction_ns;
	for (unsigned i = 0; i < BLOCKED_END; i++)
		value[REPORT_BLOCKED + i] = process->quality[FIGURE_BLOCKED] == QUALITY_UNKNOWN
						    ? UNKNOWN
						    : process->blocked_ns[i];
}

static void report_fill_runs(const struct process *process, struct report_process *out)
{
	const struct run *chain[REPORT_RUN_DEPTH_MAX];
	uint32_t depth = 0;

	for (const struct run *run = process->run; run && depth < REPORT_RUN_DEPTH_MAX;
	     run = run->parent)
		chain[depth++] = run;
	out->run_count = depth;
	for (uint32_t i = 0; i < depth; i++) {
		const struct run *run = chain[depth - 1 - i];

		out->runs[i] = (struct report_run){
			.id = run->id, .name = run->name, .engine = run->engine};
		out->runs[i].root_start_ns = run->root_start_boot_ns;
	}
	out->task_root_start_ns = UNKNOWN;
	if (!process->task)
		return;
	out->task_id = process->task->id;
	out->task_name = process->task->name;
	out->sample = process->task->sample;
	out->task_root_start_ns = process->task->root_start_boot_ns;
}

bool report_is_launch(uint64_t wall_ns, uint64_t cpu_ns)
{
	return wall_ns < REPORT_LAUNCH_WALL_NS || cpu_ns < REPORT_LAUNCH_CPU_NS;
}

static void report_fill_images(const struct process *process, struct report_process *out)
{
	const struct image *image = process->images;
	const struct counters *from = &image->at_start;
	uint64_t start_ns = process->start_boot_ns;
	uint32_t count = 0;

	// The copy that runs until the first exec. One without a name is tracer's own, which became COMMAND.
	if (image->next && report_is_launch(image->next->start_boot_ns - image->start_boot_ns,
					    !*image_name(image) ? 0
					    : image->forked	? image->next->at_start.cpu_ns
								: UNKNOWN))
		image = image->next;
	for (; image; image = image->next) {
		struct report_image *row = &out->images[count];

		// With no slot left the last program stands for those before it.
		if (image->next && count == REPORT_IMAGES_MAX - 1)
			continue;
		row->tool = image->tool ? image->tool : image_name(image);
		row->start_ns = start_ns;
		row->end_ns = image->next ? image->next->start_boot_ns : out->end_ns;
		row->peak_bytes = image->peak_rss_bytes;
		report_share(from, image->next ? &image->next->at_start : &process->counters,
			     row->value);
		from = image->next ? &image->next->at_start : from;
		start_ns = row->end_ns;
		count++;
	}
	out->image_count = count;
	report_waits(process, out->images[count - 1].value);
}

int report_process_end(struct report *report, const struct process *process)
{
	static const struct counters nothing;
	// What ran before the recording counts from its beginning on.
	const struct counters *from = process->seeded ? &process->images->at_start : &nothing;
	struct report_process out = {
		.start_ns = process->start_boot_ns,
		.end_ns = process->exit_boot_ns ? process->exit_boot_ns : process->counters_boot_ns,
		.threads_max = process->counters.threads_max,
		.peak_bytes = process->quality[FIGURE_MEMORY] == QUALITY_UNKNOWN
				      ? UNKNOWN
				      : process->peak_rss_bytes,
		.peak_quality = process->quality[FIGURE_MEMORY],
		.end = {process->exit_code, process->signal, process->core_dumped, process->oom,
			process->oom_limit, correlate_end_meaning(process)},
	};

	if (out.end_ns < out.start_ns)
		out.end_ns = out.start_ns;
	report_fill_runs(process, &out);
	report_fill_images(process, &out);
	report_share(from, &process->counters, out.value);
	report_waits(process, out.value);
	report_command(out.command, process->image->args, process->image->args_size);
	if (!out.command[0])
		snprintf(out.command, sizeof(out.command), "%s", image_name(process->image));
	return report_add(report, &out);
}
