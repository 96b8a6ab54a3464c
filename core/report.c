// SPDX-License-Identifier: Apache-2.0
// Adds ended processes to a tree of runs, tasks and tools. Every row holds sums only; rows are
// bounded, and a row beyond the bound is folded into one that says so. Never prints; never invents
// a figure: unknown ones are counted as such.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report_tree.h"

enum { REPORT_BUCKETS = 16384, REPORT_ARENA_BLOCK = 64 * 1024 };

const char *const report_figure_names[REPORT_FIGURE_END] = {
	[REPORT_CPU] = "cpu_ns",
	[REPORT_USER] = "cpu_user_ns",
	[REPORT_SYSTEM] = "cpu_system_ns",
	[REPORT_RUN_DELAY] = "run_delay_ns",
	[REPORT_RCHAR] = "rchar_bytes",
	[REPORT_WCHAR] = "wchar_bytes",
	[REPORT_READ] = "read_bytes",
	[REPORT_WRITE] = "write_bytes",
	[REPORT_MINOR_FAULTS] = "minor_faults",
	[REPORT_MAJOR_FAULTS] = "major_faults",
	[REPORT_VOLUNTARY] = "voluntary_switches",
	[REPORT_INVOLUNTARY] = "involuntary_switches",
	[REPORT_RECLAIM] = "reclaim_stall_ns",
	[REPORT_BLOCKED + BLOCKED_DISK] = "blocked_disk_ns",
	[REPORT_BLOCKED + BLOCKED_NETWORK_FS] = "blocked_network_fs_ns",
	[REPORT_BLOCKED + BLOCKED_SOCKET] = "blocked_socket_ns",
	[REPORT_BLOCKED + BLOCKED_PIPE] = "blocked_pipe_ns",
	[REPORT_BLOCKED + BLOCKED_LOCK] = "blocked_lock_ns",
	[REPORT_BLOCKED + BLOCKED_CHILD] = "blocked_child_ns",
	[REPORT_BLOCKED + BLOCKED_TIMER] = "blocked_timer_ns",
	[REPORT_BLOCKED + BLOCKED_OTHER] = "blocked_other_ns",
};

static const char *report_keep(struct report *report, const char *text)
{
	return text ? arena_strndup(&report->arena, text, strnlen(text, REPORT_TEXT_MAX - 1))
		    : NULL;
}

// Overwrites a text kept before, so that a row's memory stays bounded however often its first process changes. The
// first call sets aside the most a text may need. NULL text leaves NULL.
static const char *report_replace(struct report *report, const char *kept, const char *text)
{
	char *room = (char *)(uintptr_t)kept;

	if (!text)
		return NULL;
	if (!room)
		room = arena_alloc(&report->arena, REPORT_TEXT_MAX);
	if (room)
		snprintf(room, REPORT_TEXT_MAX, "%s", text);
	return room;
}

// Figures read from a damaged file may be anything: a sum stops at the largest number that is still known.
static void report_sum_up(uint64_t *sum, uint64_t value)
{
	*sum = value >= UNKNOWN - 1 - *sum ? UNKNOWN - 1 : *sum + value;
}

static void report_sum_init(struct report_sum *sum)
{
	*sum = (struct report_sum){.wall_min_ns = UINT64_MAX, .first_ns = UINT64_MAX};
}

int report_new(const struct report_setup *setup, struct report **ret_report)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return -ENOMEM;
	arena_init(&report->arena, REPORT_ARENA_BLOCK);
	report->setup = *setup;
	report->setup.command = report_keep(report, setup->command);
	report->setup.host = report_keep(report, setup->host);
	report->outcome = (struct report_outcome){.end_boot_ns = UNKNOWN, .exit_code = -1};
	report->total.kind = REPORT_TOTAL;
	report->total.root_ns = UINT64_MAX;
	report_sum_init(&report->total.sum);
	report->buckets = calloc(REPORT_BUCKETS, sizeof(struct report_node *));
	if (!report->buckets) {
		report_free(report);
		return -ENOMEM;
	}
	*ret_report = report;
	return 0;
}

void report_free(struct report *report)
{
	if (!report)
		return;
	free(report->buckets);
	arena_free(&report->arena);
	free(report);
}

// FNV-1a, 64 bits.
static uint64_t report_hash(enum report_kind kind, const struct report_node *parent, const char *id)
{
	uint64_t hash = 0xcbf29ce484222325 ^ (uintptr_t)parent ^ (uint64_t)kind << 56;

	for (size_t i = 0; id[i] && i < REPORT_TEXT_MAX - 1; i++)
		hash = (hash ^ (unsigned char)id[i]) * 0x100000001b3;
	return hash;
}

struct report_node *report_find(const struct report *report, enum report_kind kind,
				const struct report_node *parent, const char *id)
{
	uint64_t hash = report_hash(kind, parent, id);
	struct report_node *node = report->buckets[hash % REPORT_BUCKETS];

	// For one kind and id, hashes of different parents differ: each step is reversible. The parent itself is not
	// compared, because a run may have moved below another since.
	while (node && (node->hash != hash || node->kind != kind ||
			strncmp(node->id, id, REPORT_TEXT_MAX - 1) != 0))
		node = node->hash_next;
	return node;
}

static struct report_node *report_node_new(struct report *report, enum report_kind kind,
					   struct report_node *parent, const char *id,
					   const char *name)
{
	struct report_node *node = arena_alloc(&report->arena, sizeof(*node));

	if (!node)
		return NULL;
	*node = (struct report_node){.kind = kind, .parent = parent, .root_ns = UINT64_MAX};
	node->root_expected_ns = UNKNOWN;
	node->end.exit_code = -1;
	node->id = report_keep(report, id);
	// Runs and tasks may be renamed: their names have room for any.
	node->name = kind == REPORT_TOOL ? report_keep(report, name)
					 : report_replace(report, NULL, name);
	if (!node->id || !node->name)
		return NULL;
	report_sum_init(&node->sum);
	node->hash = report_hash(kind, parent, id);
	node->hash_next = report->buckets[node->hash % REPORT_BUCKETS];
	report->buckets[node->hash % REPORT_BUCKETS] = node;
	node->next = parent->children;
	parent->children = node;
	report->nodes++;
	return node;
}

// The row, made when it is new. Beyond REPORT_NODES_MAX rows a parent gets one more, for all that
// follow.
static struct report_node *report_node_get(struct report *report, enum report_kind kind,
					   struct report_node *parent, const char *id,
					   const char *name)
{
	static const char folded_id[] = "\001folded";
	struct report_node *node;

	id = id ? id : "";
	node = report_find(report, kind, parent, id);
	if (node || report->nodes < REPORT_NODES_MAX)
		return node ? node : report_node_new(report, kind, parent, id, name ? name : id);
	node = report_find(report, kind, parent, folded_id);
	if (node)
		return node;
	node = report_node_new(report, kind, parent, folded_id, "(all others)");
	if (node)
		node->folded = true;
	return node;
}

bool report_end_failed(const struct report_end *end)
{
	return !end->meaning && (end->signal > 0 || end->oom || end->exit_code > 0);
}

void report_sum_merge(struct report_sum *into, const struct report_sum *from)
{
	into->processes += from->processes;
	for (unsigned i = 0; i < REPORT_FIGURE_END; i++) {
		report_sum_up(&into->value[i], from->value[i]);
		into->unknown[i] += from->unknown[i];
	}
	report_sum_up(&into->wall_ns, from->wall_ns);
	if (from->wall_min_ns < into->wall_min_ns)
		into->wall_min_ns = from->wall_min_ns;
	if (from->wall_max_ns > into->wall_max_ns)
		into->wall_max_ns = from->wall_max_ns;
	report_sum_up(&into->offered_ns, from->offered_ns);
	if (from->peak_bytes > into->peak_bytes) {
		into->peak_bytes = from->peak_bytes;
		into->peak_quality = from->peak_quality;
		into->peak_tool = from->peak_tool;
	}
	into->peak_unknown += from->peak_unknown;
	if (from->first_ns < into->first_ns)
		into->first_ns = from->first_ns;
	if (from->last_ns > into->last_ns)
		into->last_ns = from->last_ns;
	if (from->threads_max > into->threads_max)
		into->threads_max = from->threads_max;
	into->failures += from->failures;
}

static void report_values_add(struct report_sum *sum, const uint64_t *value)
{
	for (unsigned i = 0; i < REPORT_FIGURE_END; i++) {
		if (value[i] == UNKNOWN)
			sum->unknown[i]++;
		else
			report_sum_up(&sum->value[i], value[i]);
	}
}

static void report_span_add(struct report_sum *sum, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t wall_ns = end_ns > start_ns ? end_ns - start_ns : 0;

	report_sum_up(&sum->wall_ns, wall_ns);
	if (wall_ns < sum->wall_min_ns)
		sum->wall_min_ns = wall_ns;
	if (wall_ns > sum->wall_max_ns)
		sum->wall_max_ns = wall_ns;
	if (start_ns < sum->first_ns)
		sum->first_ns = start_ns;
	if (end_ns > sum->last_ns)
		sum->last_ns = end_ns;
}

static uint32_t report_cores(const struct report *report, uint32_t threads)
{
	if (threads == 0)
		threads = 1;
	return report->setup.cpu_count && threads > report->setup.cpu_count
		       ? report->setup.cpu_count
		       : threads;
}

static void report_peak_add(struct report_sum *sum, uint64_t bytes, uint8_t quality,
			    const char *tool)
{
	if (bytes == UNKNOWN) {
		sum->peak_unknown++;
	} else if (bytes > sum->peak_bytes) {
		sum->peak_bytes = bytes;
		sum->peak_quality = quality;
		sum->peak_tool = tool;
	}
}

// What belongs to a process as a whole, added to a row that holds all of it.
static void report_process_add(struct report *report, struct report_node *node,
			       const struct report_process *process, const char *tool)
{
	struct report_sum *sum = &node->sum;

	sum->processes++;
	report_values_add(sum, process->value);
	report_span_add(sum, process->start_ns, process->end_ns);
	sum->offered_ns +=
		(process->end_ns - process->start_ns) * report_cores(report, process->threads_max);
	if (process->threads_max > sum->threads_max)
		sum->threads_max = process->threads_max;
	report_peak_add(sum, process->peak_bytes, process->peak_quality, tool);
	sum->failures += report_end_failed(&process->end);
	if (process->start_ns < node->root_ns && node->kind != REPORT_TOOL) {
		const char *kept_limit = node->end.oom_limit;

		node->root_ns = process->start_ns;
		node->end = process->end;
		node->end.oom_limit = report_replace(report, kept_limit, process->end.oom_limit);
		node->command = report_replace(report, node->command, process->command);
	}
}

// An image that another one replaced: its figures without a process of its own.
static void report_image_add(struct report_node *node, const struct report_image *image)
{
	report_values_add(&node->sum, image->value);
	report_span_add(&node->sum, image->start_ns, image->end_ns);
	if (image->peak_bytes != UNKNOWN)
		report_peak_add(&node->sum, image->peak_bytes, QUALITY_EXACT, node->name);
}

static int report_failure_add(struct report *report, struct report_node *tool,
			      const struct report_process *process)
{
	struct report_failure *failure = report->failures;

	for (; failure; failure = failure->next) {
		if (failure->tool == tool && failure->end.exit_code == process->end.exit_code &&
		    failure->end.signal == process->end.signal &&
		    failure->end.oom == process->end.oom && failure->end.meaning == process->end.meaning)
			break;
	}
	if (failure) {
		failure->count++;
		return 0;
	}
	if (report->failure_count == REPORT_FAILURES_MAX) {
		report->failures_folded++;
		return 0;
	}
	failure = arena_alloc(&report->arena, sizeof(*failure));
	if (!failure)
		return -ENOMEM;
	*failure = (struct report_failure){
		.next = report->failures,
		.tool = tool,
		.end = process->end,
		.count = 1,
		.first_ns = process->start_ns,
		.wall_ns = process->end_ns - process->start_ns,
		.command = report_keep(report, process->command),
	};
	failure->end.oom_limit = report_keep(report, process->end.oom_limit);
	report->failures = failure;
	report->failure_count++;
	return 0;
}

// A run or task is called what its latest record calls it: names settle while programs start.
static void report_node_rename(struct report *report, struct report_node *node, const char *name)
{
	if (name && !node->folded)
		node->name = report_replace(report, node->name, name);
}

// The row of the process's run, with the runs it is nested in above it; NULL when memory is out.
static struct report_node *report_run_get(struct report *report,
					  const struct report_process *process)
{
	struct report_node *node = &report->total;

	if (process->run_count == 0)
		return report_node_get(report, REPORT_RUN, node, "", "(outside any run)");
	for (uint32_t i = 0; node && i < process->run_count; i++) {
		const struct report_run *run = &process->runs[i];

		node = report_node_get(report, REPORT_RUN, node, run->id, run->name);
		if (node && !node->engine && run->engine) {
			node->engine = report_keep(report, run->engine);
			node->root_expected_ns = run->root_start_ns;
		}
		if (node)
			report_node_rename(report, node, run->name);
		if (node && !node->parent_id && run->parent_id)
			node->parent_id = report_keep(report, run->parent_id);
	}
	return node;
}

static struct report_node *report_task_get(struct report *report, struct report_node *run,
					   const struct report_process *process)
{
	struct report_node *node;

	if (!process->task_id)
		return run;
	node = report_node_get(report, REPORT_TASK, run, process->task_id, process->task_name);
	if (node)
		report_node_rename(report, node, process->task_name);
	// Known once a program shows it, and none again when another program shows another.
	if (node && !node->folded) {
		if (process->sample)
			node->sample_room = report_replace(report, node->sample_room, process->sample);
		node->sample = process->sample ? node->sample_room : NULL;
	}
	if (node && !node->folded && process->task_root_start_ns != UNKNOWN)
		node->root_expected_ns = process->task_root_start_ns;
	return node;
}

int report_add(struct report *report, const struct report_process *process)
{
	const struct report_image *last = &process->images[process->image_count - 1];
	struct report_node *run = report_run_get(report, process);
	struct report_node *task = run ? report_task_get(report, run, process) : NULL;
	struct report_node *tool =
		task ? report_node_get(report, REPORT_TOOL, task, last->tool, last->tool) : NULL;
	struct report_process own = *process;

	if (!tool) {
		report->lost++;
		return -ENOMEM;
	}
	for (struct report_node *node = task; node; node = node->parent)
		report_process_add(report, node, process, tool->name);
	for (uint32_t i = 0; i + 1 < process->image_count; i++) {
		const struct report_image *image = &process->images[i];
		struct report_node *node =
			report_node_get(report, REPORT_TOOL, task, image->tool, image->tool);

		if (node)
			report_image_add(node, image);
	}
	// The last program stands for the process: it gets the process's own count, duration and
	// end.
	memcpy(own.value, last->value, sizeof(own.value));
	own.start_ns = last->start_ns;
	own.peak_bytes = last->peak_bytes != UNKNOWN ? last->peak_bytes : process->peak_bytes;
	report_process_add(report, tool, &own, tool->name);
	return report_end_failed(&process->end) || process->end.meaning == END_ANSWER
		       ? report_failure_add(report, tool, process)
		       : 0;
}

void report_gap(struct report *report, const char *room, const char *reason, uint64_t count)
{
	struct report_gap *gap = report->gaps;
	struct report_gap *end = report->gaps + report->gap_count;

	while (gap < end && (strncmp(gap->room, room, REPORT_TEXT_MAX - 1) != 0 ||
			     strncmp(gap->reason, reason, REPORT_TEXT_MAX - 1) != 0))
		gap++;
	if (gap == end && report->gap_count < REPORT_GAPS_MAX) {
		struct report_gap fresh = {report_keep(report, room), report_keep(report, reason),
					   0};

		if (fresh.room && fresh.reason) {
			*gap = fresh;
			report->gap_count++;
		}
	}
	// With no row left the last one takes the count: the sum stays true.
	if (gap == report->gaps + report->gap_count && gap > report->gaps)
		gap--;
	if (gap < report->gaps + report->gap_count)
		gap->count += count;
	else
		report->lost += count;
}

void report_note(struct report *report, const char *note)
{
	for (uint32_t i = 0; i < report->note_count; i++) {
		if (!strncmp(report->notes[i], note, REPORT_TEXT_MAX - 1))
			return;
	}
	if (report->note_count == REPORT_NOTES_MAX)
		return;
	report->notes[report->note_count] = report_keep(report, note);
	if (report->notes[report->note_count])
		report->note_count++;
}

void report_finish(struct report *report, const struct report_outcome *outcome)
{
	report->outcome = *outcome;
	if (report->setup.start_boot_ns == UNKNOWN && report->total.sum.processes)
		report->setup.start_boot_ns = report->total.sum.first_ns;
	if (report->outcome.end_boot_ns == UNKNOWN && report->total.sum.processes)
		report->outcome.end_boot_ns = report->total.sum.last_ns;
	if (report_order(report) < 0)
		report_note(report, "Memory ran out: rows are not sorted and retries not "
				    "recognised.");
}

double report_offered_ns(const struct report *report, const struct report_node *node)
{
	const struct report_sum *sum = &node->sum;
	double wall_ns = (double)(sum->last_ns - sum->first_ns);
	uint32_t cores, used;

	if (sum->processes == 0)
		return 0;
	if (node->kind == REPORT_TOOL)
		return (double)sum->offered_ns;
	if (node->kind != REPORT_TASK)
		return wall_ns * report->setup.cpu_count;
	cores = report_cores(report, sum->threads_max);
	// Processes side by side use more cores than any one has threads. A twentieth of a core is
	// the shell beside.
	used = wall_ns > (double)sum->value[REPORT_CPU] / UINT16_MAX
		       ? (uint32_t)((double)sum->value[REPORT_CPU] / wall_ns + 0.95)
		       : 0;
	return wall_ns * (used > cores ? report_cores(report, used) : cores);
}
