// SPDX-License-Identifier: Apache-2.0
// `tracer ps`: the processes of this host once, as a table or as JSON lines.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/command.h"
#include "cli/live.h"
#include "cli/ui.h"
#include "core/base/cleanup.h"
#include "core/status.h"

struct ps_filter {
	const char *run, *task, *tool, *container, *text;
	uint64_t pid, uid; // UINT64_MAX: any
};

static bool ps_contains(const char *value, const char *part)
{
	return !part || (value && strcasestr(value, part));
}

static bool ps_wanted(const struct ps_filter *filter, const struct live_process *process)
{
	return ps_contains(process->run, filter->run) && ps_contains(process->task, filter->task) &&
	       ps_contains(process->tool, filter->tool) &&
	       ps_contains(process->container, filter->container) &&
	       (filter->pid == UINT64_MAX || filter->pid == process->pid) &&
	       (filter->uid == UINT64_MAX || filter->uid == process->uid) &&
	       (!filter->text || live_matches(process, filter->text));
}

// --- sorting -----------------------------------------------------------------------------------------------------

static uint64_t ps_known(uint64_t value)
{
	return value == UINT64_MAX ? 0 : value;
}

static int ps_descending(uint64_t left, uint64_t right)
{
	return left > right ? -1 : left < right;
}

static int ps_by_cpu(const void *left, const void *right)
{
	return ps_descending(ps_known(((const struct live_process *)left)->cpu_ns),
			     ps_known(((const struct live_process *)right)->cpu_ns));
}

static int ps_by_memory(const void *left, const void *right)
{
	return ps_descending(ps_known(((const struct live_process *)left)->rss_bytes),
			     ps_known(((const struct live_process *)right)->rss_bytes));
}

static int ps_by_age(const void *left, const void *right)
{
	return -ps_descending(((const struct live_process *)left)->start_boot_ns,
			      ((const struct live_process *)right)->start_boot_ns);
}

static bool ps_sort(struct live *live, const char *key)
{
	int (*compare)(const void *, const void *) = !strcmp(key, "cpu")      ? ps_by_cpu
						     : !strcmp(key, "memory") ? ps_by_memory
						     : !strcmp(key, "age")    ? ps_by_age
									      : NULL;

	if (compare && live->count)
		qsort(live->rows, live->count, sizeof(*live->rows), compare);
	return compare || !strcmp(key, "pid");
}

// --- output ------------------------------------------------------------------------------------------------------

static void ps_heading(const struct ui *ui, bool wide)
{
	fprintf(ui->out, "%s%8s%8s %-2s%9s%8s%7s%5s  ", ui_style(ui, UI_BOLD), "pid", "uid", "s",
		"age", "CPU", "memory", "thr");
	ui_pad(ui, "tool", -20);
	if (wide)
		fprintf(ui->out, "  %-26s", "run / task");
	fprintf(ui->out, "  command%s\n", ui_style(ui, UI_PLAIN));
}

static void ps_row(const struct ui *ui, const struct live *live, const struct live_process *process,
		   bool wide)
{
	char text[1600], place[400], age[UI_NUMBER_SIZE], cpu[UI_NUMBER_SIZE],
		memory[UI_NUMBER_SIZE];
	char threads[UI_NUMBER_SIZE], uid[16];
	uint64_t age_ns =
		process->start_boot_ns == UINT64_MAX || process->start_boot_ns > live->taken_boot_ns
			? UINT64_MAX
			: live->taken_boot_ns - process->start_boot_ns;
	unsigned fixed = 8 + 8 + 3 + 9 + 8 + 7 + 5 + 2 + 20 + 2 + (wide ? 28 : 0);

	snprintf(uid, sizeof(uid), process->uid == UINT32_MAX ? "?" : "%u", process->uid);
	fprintf(ui->out, "%8u%8s %c %9s%8s%7s%5s  ", process->pid, uid,
		process->state >= 'A' && process->state <= 'z' ? process->state : '?',
		ui_duration(age, age_ns), ui_duration(cpu, process->cpu_ns),
		ui_bytes(memory, process->rss_bytes), ui_count(threads, process->threads));
	ui_fit(ui, text, sizeof(text), process->tool ? process->tool : process->comm, 20);
	ui_pad(ui, text, -20);
	if (wide) {
		snprintf(place, sizeof(place), "%s%s%s", process->run ? process->run : "",
			 process->task ? " / " : "", process->task ? process->task : "");
		ui_fit(ui, text, sizeof(text), place, 26);
		fputs("  ", ui->out);
		ui_pad(ui, text, -26);
	}
	ui_fit(ui, text, sizeof(text), process->command ? process->command : process->comm,
	       ui->width > fixed + 10 ? ui->width - fixed : 10);
	fprintf(ui->out, "  %s\n", text);
}

static int ps_table(const struct live *live, const struct ps_filter *filter)
{
	char note[200];
	size_t shown = 0;
	struct ui ui;
	bool wide;

	ui_init(&ui, stdout);
	wide = ui.width >= 110;
	live_note(live, note, sizeof(note));
	if (*note)
		fprintf(stderr, "tracer ps: %s\n", note);
	ps_heading(&ui, wide);
	for (size_t i = 0; i < live->count; i++) {
		if (!ps_wanted(filter, &live->rows[i]))
			continue;
		ps_row(&ui, live, &live->rows[i], wide);
		shown++;
	}
	return shown ? EXIT_OK : EXIT_NO;
}

static int ps_json(const struct live *live, const struct ps_filter *filter)
{
	CLEANUP(buf_free) struct buf line = BUF_INIT;
	size_t shown = 0;

	for (size_t i = 0; i < live->count; i++) {
		if (!ps_wanted(filter, &live->rows[i]))
			continue;
		buf_reset(&line);
		live_write_json(&live->rows[i], &line);
		if (buf_error(&line) < 0)
			return EXIT_NO;
		fwrite(line.data, 1, line.length, stdout);
		shown++;
	}
	return shown ? EXIT_OK : EXIT_NO;
}

int command_ps(int argc, char **argv)
{
	struct args args = args_of("ps", argc, argv);
	CLEANUP(live_source_free) struct live_source source = {.socket = STATUS_PROCESSES_SOCKET};
	struct ps_filter filter = {.pid = UINT64_MAX, .uid = UINT64_MAX};
	CLEANUP(live_free) struct live live = {0};
	const char *sort = "pid";
	bool json = false;
	int error;

	while (args_next(&args)) {
		json |= args_is(&args, "json");
		source.proc_only |= args_is(&args, "proc");
		sort = args_is(&args, "sort") ? args.value : sort;
		source.socket = args_is(&args, "socket") ? args.value : source.socket;
		filter.run = args_is(&args, "run") ? args.value : filter.run;
		filter.task = args_is(&args, "task") ? args.value : filter.task;
		filter.tool = args_is(&args, "tool") ? args.value : filter.tool;
		filter.container = args_is(&args, "container") ? args.value : filter.container;
		if ((args_is(&args, "pid") && !args_number(&args, 0, INT32_MAX, &filter.pid)) ||
		    (args_is(&args, "uid") && !args_number(&args, 0, UINT32_MAX, &filter.uid)))
			break;
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count > 1)
		return args_usage(&args, "takes one text to search for");
	filter.text = args.operands[0];
	error = live_take(&source, &live);
	if (error < 0) {
		fprintf(stderr, "tracer ps: %s\n", strerror(-error));
		return EXIT_REFUSED;
	}
	if (!ps_sort(&live, sort))
		return args_usage(&args, "--sort takes cpu, memory, age or pid");
	return json ? ps_json(&live, &filter) : ps_table(&live, &filter);
}
