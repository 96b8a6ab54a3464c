// SPDX-License-Identifier: Apache-2.0
// Two snapshots of processes to the lines of `tracer top`: rates by difference, then grouped and sorted. Identity
// is pid and start time, so a reused pid never inherits a rate.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/top.h"

const char *const top_group_names[TOP_GROUP_END] = {"run", "task", "tool", "process", "container"};
const char *const top_sort_names[TOP_SORT_END] = {"cpu",  "memory",    "io",
						  "time", "processes", "name"};

// Rows of a snapshot are sorted by pid.
static const struct live_process *top_before(const struct live *before,
					     const struct live_process *process)
{
	size_t low = 0, high = before->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (before->rows[middle].pid < process->pid)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == before->count || before->rows[low].pid != process->pid ||
	    before->rows[low].start_boot_ns != process->start_boot_ns)
		return NULL;
	return &before->rows[low];
}

bool top_has_moved(const struct live *before, const struct live *now)
{
	size_t known = 0, moved = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct live_process *old = top_before(before, &now->rows[i]);

		known += old != NULL;
		moved += old && old->figures_boot_ns < now->rows[i].figures_boot_ns;
	}
	return moved * 2 >= known;
}

static double top_rate(uint64_t now, uint64_t before, double seconds)
{
	if (now == UINT64_MAX || before == UINT64_MAX || now < before || seconds <= 0)
		return -1;
	return (double)(now - before) / seconds;
}

static double top_add(double sum, double value)
{
	return value < 0 ? sum : sum < 0 ? value : sum + value;
}

static void top_key(const struct live_process *process, enum top_group group, struct top_row *row)
{
	switch (group) {
	case TOP_RUN:
		row->name = process->run ? process->run : "(no run)";
		row->detail = process->engine;
		break;
	case TOP_TASK:
		row->name = process->task ? process->task : "(no task)";
		row->detail = process->run;
		break;
	case TOP_CONTAINER:
		row->name = process->container ? process->container : "(no container)";
		row->detail = process->container ? process->cgroup : NULL;
		break;
	case TOP_PROCESS:
		row->name = process->tool ? process->tool : process->comm;
		row->detail = process->command;
		row->pid = process->pid;
		break;
	default:
		row->name = process->tool ? process->tool : process->comm;
		row->detail = process->run;
		break;
	}
	row->name = row->name ? row->name : "?";
	row->detail = row->detail ? row->detail : "";
}

static void top_fill(const struct live *before, const struct live *now,
		     const struct live_process *process, struct top_row *row)
{
	const struct live_process *old = top_before(before, process);
	double seconds = 0;

	// The collector does not read them with every look.
	if (old && old->figures_boot_ns < process->figures_boot_ns && process->figures_boot_ns != UINT64_MAX)
		seconds = (double)(process->figures_boot_ns - old->figures_boot_ns) / 1e9;
	row->processes = 1;
	row->cpu = old ? top_rate(process->cpu_ns, old->cpu_ns, seconds) / 1e9 : -1;
	row->cpu = row->cpu < 0 ? -1 : row->cpu;
	row->waiting = old ? top_rate(process->run_delay_ns, old->run_delay_ns, seconds) / 1e9 : -1;
	row->waiting = row->waiting < 0 ? -1 : row->waiting;
	row->read = old ? top_rate(process->rchar_bytes, old->rchar_bytes, seconds) : -1;
	row->write = old ? top_rate(process->wchar_bytes, old->wchar_bytes, seconds) : -1;
	row->rss_bytes = process->rss_bytes;
	row->cpu_ns = process->cpu_ns;
	row->threads = process->threads;
	row->age_ns = process->start_boot_ns <= now->taken_boot_ns
			      ? now->taken_boot_ns - process->start_boot_ns
			      : 0;
}

static uint64_t top_sum(uint64_t left, uint64_t right)
{
	return left == UINT64_MAX ? right : right == UINT64_MAX ? left : left + right;
}

static void top_merge(struct top_row *into, const struct top_row *from)
{
	into->processes += from->processes;
	into->cpu = top_add(into->cpu, from->cpu);
	into->waiting = top_add(into->waiting, from->waiting);
	into->read = top_add(into->read, from->read);
	into->write = top_add(into->write, from->write);
	if (into->rss_bytes == UINT64_MAX ||
	    (from->rss_bytes != UINT64_MAX && from->rss_bytes > into->rss_bytes))
		into->rss_bytes = from->rss_bytes;
	into->cpu_ns = top_sum(into->cpu_ns, from->cpu_ns);
	into->threads = top_sum(into->threads, from->threads);
	if (from->age_ns > into->age_ns)
		into->age_ns = from->age_ns;
	if (strcmp(into->detail, from->detail) != 0)
		into->detail = "";
}

static int top_compare_names(const void *left, const void *right)
{
	const struct top_row *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int top_compare_tasks(const void *left, const void *right)
{
	const struct top_row *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : strcmp(a->detail, b->detail);
}

// Known before unknown, then the larger.
static int top_compare_numbers(double left, double right)
{
	return left > right ? -1 : left < right;
}

static double top_known(uint64_t value)
{
	return value == UINT64_MAX ? -1 : (double)value;
}

static double top_io(const struct top_row *row)
{
	return top_add(row->read, row->write);
}

#define TOP_COMPARE(name, left_value, right_value)                        \
	static int name(const void *left, const void *right)              \
	{                                                                 \
		const struct top_row *a = left, *b = right;               \
		int order = top_compare_numbers(left_value, right_value); \
		return order ? order : top_compare_names(left, right);    \
	}

TOP_COMPARE(top_compare_cpu, a->cpu, b->cpu)
TOP_COMPARE(top_compare_memory, top_known(a->rss_bytes), top_known(b->rss_bytes))
TOP_COMPARE(top_compare_io, top_io(a), top_io(b))
TOP_COMPARE(top_compare_time, top_known(a->cpu_ns), top_known(b->cpu_ns))
TOP_COMPARE(top_compare_processes, (double)a->processes, (double)b->processes)

// Equal rows stand beside each other after a sort: one pass joins them.
static size_t top_join(struct top_row *rows, size_t count, enum top_group group)
{
	size_t joined = 0;

	if (group == TOP_PROCESS || count == 0)
		return count;
	qsort(rows, count, sizeof(*rows),
	      group == TOP_TASK ? top_compare_tasks : top_compare_names);
	for (size_t i = 1; i < count; i++) {
		// A task's name may come again in another run.
		bool same = !strcmp(rows[joined].name, rows[i].name) &&
			    (group != TOP_TASK || !strcmp(rows[joined].detail, rows[i].detail));

		if (same)
			top_merge(&rows[joined], &rows[i]);
		else
			rows[++joined] = rows[i];
	}
	return joined + 1;
}

int top_rows_make(const struct live *before, const struct live *now, enum top_group group,
		  enum top_sort sort, const char *text, struct top_rows *ret_rows)
{
	static int (*const compare[])(const void *, const void *) = {
		top_compare_cpu,  top_compare_memory,	 top_compare_io,
		top_compare_time, top_compare_processes, top_compare_names,
	};
	struct top_rows result = {.rows = calloc(now->count + 1, sizeof(struct top_row))};

	if (!result.rows)
		return -ENOMEM;
	for (size_t i = 0; i < now->count; i++) {
		struct top_row *row = &result.rows[result.count];

		if (text && *text && !live_matches(&now->rows[i], text))
			continue;
		top_key(&now->rows[i], group, row);
		top_fill(before, now, &now->rows[i], row);
		result.cpu = top_add(result.cpu, row->cpu);
		result.processes++;
		result.count++;
	}
	result.count = top_join(result.rows, result.count, group);
	if (result.count)
		qsort(result.rows, result.count, sizeof(*result.rows), compare[sort]);
	*ret_rows = result;
	return 0;
}

void top_rows_free(struct top_rows *rows)
{
	free(rows->rows);
	*rows = (struct top_rows){0};
}
