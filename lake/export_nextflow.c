// SPDX-License-Identifier: Apache-2.0
// A run as Nextflow's trace file: its default columns, its units and roundings, so that what reads a trace.txt reads
// this. A task that is not Nextflow's has its own id as hash. Only what a process shows is known: '-' stands where
// Nextflow would know more. peak_rss is the largest process of the task, where Nextflow adds up what lives at once.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lake/export_private.h"

enum { FLUSH_BYTES = 32 * 1024 };

static const uint64_t MS_NS = 1000000, S_NS = 1000000000;

// As its Duration prints: 95ms, 1.5s, 3m 4s, 1d 2h.
static void put_duration(struct buf *out, uint64_t ns)
{
	static const struct {
		uint64_t seconds;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
	uint64_t ms = ns / MS_NS, seconds;
	const char *between = "";

	if (ms < 1000) {
		buf_printf(out, "%llums", (unsigned long long)ms);
		return;
	}
	if (ms < 60000) {
		uint64_t tenths = (ms + 50) / 100;
		buf_printf(out, tenths % 10 ? "%llu.%llus" : "%llus", (unsigned long long)(tenths / 10),
			   (unsigned long long)(tenths % 10));
		return;
	}
	seconds = (ms + 500) / 1000;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t count = seconds / units[i].seconds;
		seconds %= units[i].seconds;
		if (!count)
			continue;
		buf_printf(out, "%s%llu%c", between, (unsigned long long)count, units[i].unit);
		between = " ";
	}
}

// As its MemoryUnit prints: 0, 44.1 KB, 3 GB.
static void put_bytes(struct buf *out, uint64_t bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	double value = (double)bytes;
	size_t unit = 0;

	if (!bytes) {
		buf_append_string(out, "0");
		return;
	}
	for (; value >= 1024; unit++)
		value /= 1024;
	value = rint(value * 10) / 10;
	buf_printf(out, value == floor(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void put_moment(struct buf *out, uint64_t ns)
{
	time_t seconds = (time_t)(ns / S_NS);
	struct tm local;
	char text[32];

	if (!localtime_r(&seconds, &local) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local))
		buf_append_char(out, '-');
	else
		buf_printf(out, "%s.%03u", text, (unsigned)(ns % S_NS / MS_NS));
}

// A name in one cell.
static void put_cell(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_append_char(out, *text == '\t' || *text == '\n' || *text == '\r' ? ' ' : *text);
}

static void put_known(struct buf *out, uint64_t value, void (*put)(struct buf *out, uint64_t value))
{
	buf_append_char(out, '\t');
	if (value == LAKE_NULL)
		buf_append_char(out, '-');
	else
		put(out, value);
}

static void put_number(struct buf *out, uint64_t value)
{
	buf_printf(out, "%llu", (unsigned long long)value);
}

static const char *status_of(const union lake_slot *task)
{
	if (task[TASKS_end_ns].u64 == LAKE_NULL || (task[TASKS_living].u64 && task[TASKS_exit_code].u64 == LAKE_NULL))
		return "RUNNING";
	if (task[TASKS_signal].u64 != LAKE_NULL)
		return "FAILED";
	if (task[TASKS_exit_code].u64 == LAKE_NULL)
		return "-";
	return task[TASKS_exit_code].u64 ? "FAILED" : "COMPLETED";
}

// What a shell would say of the task's first process.
static uint64_t exit_of(const union lake_slot *task)
{
	if (task[TASKS_signal].u64 != LAKE_NULL)
		return 128 + task[TASKS_signal].u64;
	return task[TASKS_exit_code].u64;
}

static void put_task(struct buf *out, size_t number, const struct export_task *task)
{
	const union lake_slot *row = task->row;
	const char *hash = export_text(row[TASKS_task]), *name = export_text(row[TASKS_task_name]);
	bool is_running = !strcmp(status_of(row), "RUNNING");
	uint64_t start = row[TASKS_start_ns].u64, end = row[TASKS_end_ns].u64;
	uint64_t wall = is_running || start == LAKE_NULL || end < start ? LAKE_NULL : end - start;
	bool is_here = !strcmp(export_text(task->run[RUNS_engine]), "nextflow");

	buf_printf(out, "%llu\t", (unsigned long long)number);
	put_cell(out, *hash ? hash : "-");
	put_known(out, task->pid ? task->pid : LAKE_NULL, put_number);
	buf_append_char(out, '\t');
	put_cell(out, *name ? name : "-");
	buf_printf(out, "\t%s", status_of(row));
	put_known(out, is_running ? LAKE_NULL : exit_of(row), put_number);
	// The local executor starts what it submits; elsewhere a queue lies between.
	put_known(out, is_here ? start : LAKE_NULL, put_moment);
	put_known(out, is_here ? wall : LAKE_NULL, put_duration);
	put_known(out, wall, put_duration);
	if (wall == LAKE_NULL || !wall || row[TASKS_cpu_ns].u64 == LAKE_NULL)
		buf_append_string(out, "\t-");
	else
		buf_printf(out, "\t%.1f%%", 100.0 * (double)row[TASKS_cpu_ns].u64 / (double)wall);
	put_known(out, row[TASKS_peak_rss_bytes].u64, put_bytes);
	buf_append_string(out, "\t-"); // virtual memory is not recorded
	put_known(out, row[TASKS_rchar_bytes].u64, put_bytes);
	put_known(out, row[TASKS_wchar_bytes].u64, put_bytes);
	buf_append_char(out, '\n');
}

int export_nextflow(struct export *export)
{
	struct export_task *tasks;
	size_t count;
	int error = export_tasks(export, &tasks, &count);

	buf_append_string(&export->out,
			  "task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\t%cpu\t"
			  "peak_rss\tpeak_vmem\trchar\twchar\n");
	for (size_t i = 0; i < count && !error; i++) {
		put_task(&export->out, i + 1, &tasks[i]);
		if (export->out.length > FLUSH_BYTES)
			error = export_flush(export);
	}
	return error;
}
