// SPDX-License-Identifier: Apache-2.0
// Prints a report's heading and tree. Every name from outside
// passes ui_fit(); an unknown figure is "?", a sampled one carries "~", a bound "<".

#include <errno.h>
#include <string.h>

#include "cli/report_print.h"
#include "cli/report_text.h"
#include "cli/report_view.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"

enum { TEXT_PREFIX_SIZE = 96 };

const char *const text_waits[BLOCKED_END] = {
	[BLOCKED_DISK] = "disk",     [BLOCKED_NETWORK_FS] = "network fs",
	[BLOCKED_SOCKET] = "socket", [BLOCKED_PIPE] = "pipe",
	[BLOCKED_LOCK] = "lock",     [BLOCKED_CHILD] = "child",
	[BLOCKED_TIMER] = "timer",   [BLOCKED_OTHER] = "other",
};

const char *text_on(const struct text *text, enum ui_style style)
{
	return ui_style(text->ui, style);
}

const char *text_off(const struct text *text)
{
	return ui_style(text->ui, UI_PLAIN);
}

void text_heading(const struct text *text, const char *title, const char *detail)
{
	fprintf(text->out, "\n  %s%s%s", text_on(text, UI_BOLD), title, text_off(text));
	if (detail)
		fprintf(text->out, "  %s%s%s", text_on(text, UI_DIM), detail, text_off(text));
	fputc('\n', text->out);
}

// --- how something ended
// --------------------------------------------------------------------------------------

void text_end(const struct report_end *end, char *out, size_t size)
{
	char name[UI_NUMBER_SIZE], limit[80];

	if (end->oom) {
		ui_escape(limit, sizeof(limit), end->oom_limit ? end->oom_limit : "unknown");
		snprintf(out, size, "out of memory (limit: %s)", limit);
	} else if (end->signal > 0) {
		snprintf(out, size, "%s%s", ui_signal(name, end->signal),
			 end->core ? ", core dumped" : "");
	} else if (end->exit_code >= 0) {
		snprintf(out, size, "exit %d", end->exit_code);
	} else {
		snprintf(out, size, "end unknown");
	}
}

const char *text_cross(const struct text *text)
{
	return text->ui->unicode ? "✗" : "x";
}

// --- heading
// ------------------------------------------------------------------------------------------------------

uint64_t text_wall_ns(const struct report *report)
{
	uint64_t start_ns = report->setup.start_boot_ns, end_ns = report->outcome.end_boot_ns;

	return start_ns == UNKNOWN || end_ns == UNKNOWN || end_ns < start_ns ? UNKNOWN
									     : end_ns - start_ns;
}

static void text_title(const struct text *text)
{
	const struct report *report = text->report;
	const struct report_end end = {.exit_code = report->outcome.exit_code,
				       .signal = report->outcome.signal};
	bool failed = report_end_failed(&end);
	char name[REPORT_TEXT_MAX * 2], how[120], wall[UI_NUMBER_SIZE];

	text_end(&end, how, sizeof(how));
	ui_duration(wall, text_wall_ns(report));
	if (report->setup.command) {
		ui_fit(text->ui, name, sizeof(name), report->setup.command, text->ui->width - 34);
		fprintf(text->out, "\n  %s%s%s  %s%s%s after %s\n", text_on(text, UI_BOLD), name,
			text_off(text), text_on(text, failed ? UI_BAD : UI_GOOD), how,
			text_off(text), wall);
		return;
	}
	ui_fit(text->ui, name, sizeof(name),
	       report->setup.host ? report->setup.host : "unknown host", text->ui->width - 34);
	fprintf(text->out, "\n  %sRecording of %s%s, %s\n", text_on(text, UI_BOLD), name,
		text_off(text), wall);
}

static void text_where(const struct text *text)
{
	const struct report_setup *setup = &text->report->setup;
	const struct report_node *run = text->report->total.children;
	const char *dot = text->ui->unicode ? " · " : ", ";
	char name[80], memory[UI_NUMBER_SIZE];
	const char *between = "";

	fprintf(text->out, "  %s", text_on(text, UI_DIM));
	if (run && !run->next && run->engine) {
		ui_escape(name, sizeof(name), run->engine);
		fprintf(text->out, "%s", name);
		between = dot;
	}
	if (setup->host) {
		ui_escape(name, sizeof(name), setup->host);
		fprintf(text->out, "%s%s", between, name);
		between = dot;
	}
	if (setup->cpu_count) {
		fprintf(text->out, "%s%u CPU%s", between, setup->cpu_count,
			setup->cpu_count == 1 ? "" : "s");
		between = dot;
	}
	if (setup->memory_bytes != UNKNOWN)
		fprintf(text->out, "%s%s memory", between, ui_bytes(memory, setup->memory_bytes));
	fprintf(text->out, "%s\n\n", text_off(text));
}

// A line of the heading: its label, then the text, wrapped below itself. Styles inside text would break the wrapping.
static void text_line(const struct text *text, const char *label, enum ui_style style,
		      struct buf *line)
{
	fprintf(text->out, "  %s%-11s%s%s", text_on(text, UI_DIM), label, text_off(text),
		text_on(text, style));
	ui_paragraphs(text->ui, buf_error(line) < 0 ? "?" : line->data, 13, 13);
	fputs(text_off(text), text->out);
	buf_reset(line);
}

const char *text_sum(char out[UI_NUMBER_SIZE], const struct report_sum *sum, unsigned figure,
		     bool bytes)
{
	// Known for no process at all: unknown, not zero.
	uint64_t value = sum->processes && sum->unknown[figure] >= sum->processes
				 ? UNKNOWN
				 : sum->value[figure];

	return bytes ? ui_bytes(out, value) : ui_duration(out, value);
}

static void text_cpu(const struct text *text, const struct report_sum *sum, struct buf *line)
{
	char number[UI_NUMBER_SIZE];
	uint64_t wall_ns = text_wall_ns(text->report), rest_ns;
	double cores = (double)sum->value[REPORT_CPU] / (double)wall_ns;

	buf_append_string(line, text_sum(number, sum, REPORT_CPU, false));
	if (sum->unknown[REPORT_CPU] >= sum->processes) {
		buf_append_string(line, " (unknown for every process)");
		return;
	}
	if (sum->unknown[REPORT_USER] < sum->processes &&
	    sum->value[REPORT_USER] + sum->value[REPORT_SYSTEM]) {
		buf_printf(line, " (%s user,", text_sum(number, sum, REPORT_USER, false));
		buf_printf(line, " %s system", text_sum(number, sum, REPORT_SYSTEM, false));
		// Processes that no tick met: their CPU time is exact, its split is not known.
		rest_ns = sum->value[REPORT_CPU] - sum->value[REPORT_USER] -
			  sum->value[REPORT_SYSTEM];
		if (sum->unknown[REPORT_USER] && rest_ns < sum->value[REPORT_CPU])
			buf_printf(line, ", %s of short processes unsplit",
				   ui_duration(number, rest_ns));
		buf_append_char(line, ')');
	}
	if (wall_ns == UNKNOWN || wall_ns == 0)
		return;
	buf_printf(line, ", %.2f", cores);
	if (text->report->setup.cpu_count)
		buf_printf(line, " of %u cores on average (%s)", text->report->setup.cpu_count,
			   ui_percent(number, cores / text->report->setup.cpu_count));
	else
		buf_append_string(line, " cores on average");
}

static const char *text_peak(char out[UI_NUMBER_SIZE], const struct report_sum *sum)
{
	char number[UI_NUMBER_SIZE];
	const char *mark = sum->peak_quality == QUALITY_ESTIMATED ? "<"
			   : sum->peak_quality == QUALITY_SAMPLED ? "~"
								  : "";

	snprintf(out, UI_NUMBER_SIZE, "%s%.16s", sum->peak_bytes ? mark : "",
		 ui_bytes(number, sum->peak_bytes ? sum->peak_bytes : UNKNOWN));
	return out;
}

static void text_memory(const struct report_sum *sum, struct buf *line)
{
	char number[UI_NUMBER_SIZE], tool[80];

	buf_printf(line, "largest process %s", text_peak(number, sum));
	if (sum->peak_tool) {
		ui_escape(tool, sizeof(tool), sum->peak_tool);
		buf_printf(line, " (%s)", tool);
	}
}

static void text_io(const struct report_sum *sum, struct buf *line)
{
	char number[UI_NUMBER_SIZE];

	buf_printf(line, "read %s", text_sum(number, sum, REPORT_RCHAR, true));
	buf_printf(line, " (%s from disks)", text_sum(number, sum, REPORT_READ, true));
	buf_printf(line, ", wrote %s", text_sum(number, sum, REPORT_WCHAR, true));
	buf_printf(line, " (%s to disks)", text_sum(number, sum, REPORT_WRITE, true));
}

static uint64_t text_lost(const struct report *report)
{
	uint64_t lost = report->lost;

	for (uint32_t i = 0; i < report->gap_count; i++)
		lost += report->gaps[i].count;
	return lost;
}

static void text_losses(const struct text *text, struct buf *line)
{
	const struct report *report = text->report;
	char number[UI_NUMBER_SIZE], room[64], reason[64];
	uint64_t lost = text_lost(report);

	if (lost == 0) {
		buf_append_string(line, "none");
		return;
	}
	buf_printf(line, "%s record%s", ui_count(number, lost), lost == 1 ? "" : "s");
	for (uint32_t i = 0; i < report->gap_count; i++) {
		ui_escape(room, sizeof(room), report->gaps[i].room);
		ui_escape(reason, sizeof(reason), report->gaps[i].reason);
		buf_printf(line, "; %s: %s %s", room, reason,
			   ui_count(number, report->gaps[i].count));
	}
	if (report->lost)
		buf_printf(line, "; not added to this report: %s", ui_count(number, report->lost));
	buf_append_string(line, "; so the figures below are lower bounds");
}

static void text_processes(const struct text *text, struct buf *line)
{
	const struct report_sum *sum = &text->report->total.sum;
	char number[UI_NUMBER_SIZE];

	buf_append_string(line, ui_count(number, sum->processes));
	if (sum->failures)
		buf_printf(line, ", %s ended with a failure code or a signal",
			   ui_count(number, sum->failures));
	if (text->report->outcome.still_running)
		buf_printf(line, ", %s still running",
			   ui_count(number, text->report->outcome.still_running));
}

static void text_header(const struct text *text)
{
	CLEANUP(buf_free) struct buf line = BUF_INIT;
	const struct report_sum *sum = &text->report->total.sum;

	text_title(text);
	text_where(text);
	if (sum->processes) {
		text_cpu(text, sum, &line);
		text_line(text, "CPU", UI_PLAIN, &line);
		text_memory(sum, &line);
		text_line(text, "memory", UI_PLAIN, &line);
		text_io(sum, &line);
		text_line(text, "I/O", UI_PLAIN, &line);
	}
	text_processes(text, &line);
	text_line(text, "processes", UI_PLAIN, &line);
	text_losses(text, &line);
	text_line(text, "losses", text_lost(text->report) ? UI_BAD : UI_GOOD, &line);
}

// --- the tree
// --------------------------------------------------------------------------------------------------

// What most of the waiting was for, children aside: a shell waits for them by design.
static void text_wait(const struct report_sum *sum, char *out, size_t size)
{
	uint64_t best_ns = sum->value[REPORT_RUN_DELAY];
	const char *name = "CPU", *mark = "";
	char number[UI_NUMBER_SIZE];

	if (sum->value[REPORT_RECLAIM] > best_ns) {
		best_ns = sum->value[REPORT_RECLAIM];
		name = "memory";
	}
	for (unsigned i = 0; i < BLOCKED_END; i++) {
		if (i == BLOCKED_CHILD || sum->value[REPORT_BLOCKED + i] <= best_ns)
			continue;
		best_ns = sum->value[REPORT_BLOCKED + i];
		name = text_waits[i];
		mark = "~";
	}
	out[0] = 0;
	if (best_ns >= 1000000 && best_ns >= sum->wall_ns / 100)
		snprintf(out, size, "%s %s%s", name, mark, ui_duration(number, best_ns));
}

static void text_columns(struct text *text)
{
	unsigned width = text->ui->width, fixed = 2 + 7 + 9 + 9 + 5 + 7;

	text->io = width >= 76;
	fixed += text->io ? 14 : 0;
	text->waits = width >= fixed + TEXT_NAME_MIN + 18;
	fixed += text->waits ? 18 : 0;
	text->name_width = width > fixed + TEXT_NAME_MIN ? width - fixed : TEXT_NAME_MIN;
	if (text->name_width > TEXT_NAME_MAX)
		text->name_width = TEXT_NAME_MAX;
}

static void text_tree_heading(const struct text *text)
{
	fprintf(text->out, "\n  %s%-*s%7s%9s%9s%5s%7s", text_on(text, UI_BOLD),
		(int)text->name_width, "what ran", "procs", "wall", "CPU", "eff", "peak");
	if (text->io)
		fprintf(text->out, "%7s%7s", "read", "write");
	if (text->waits)
		fputs("  waited most for", text->out);
	fprintf(text->out, "%s\n", text_off(text));
}

static uint64_t text_view_wall(const struct report_view *view)
{
	if (view->kind == REPORT_TOOL || view->count > 1)
		return view->sum.wall_max_ns;
	return view->sum.last_ns - view->sum.first_ns;
}

static void text_figures(const struct text *text, const struct report_view *view)
{
	const struct report_sum *sum = &view->sum;
	bool several = view->kind == REPORT_TOOL ? sum->processes > 1 : view->count > 1;
	bool cpu_known = sum->unknown[REPORT_CPU] < sum->processes && view->offered_ns > 0;
	double ratio = cpu_known ? (double)sum->value[REPORT_CPU] / view->offered_ns : -1;
	char number[UI_NUMBER_SIZE], wall[UI_NUMBER_SIZE + 2], wait[64];
	// Only what ran long enough to matter is worth a colour.
	bool idle = ratio >= 0 && ratio < 0.25 && text_view_wall(view) >= 1000000000;

	snprintf(wall, sizeof(wall), "%s%s", several ? "<" : "",
		 ui_duration(number, text_view_wall(view)));
	fprintf(text->out, "%7s", ui_count(number, sum->processes));
	fprintf(text->out, "%9s", wall);
	fprintf(text->out, "%9s", text_sum(number, sum, REPORT_CPU, false));
	// Clocks of start and CPU time differ by microseconds: a busy process may come out just
	// above one.
	fprintf(text->out, "%s%5s%s", idle ? text_on(text, UI_WARN) : "",
		ui_percent(number, ratio > 1 ? 1 : ratio), idle ? text_off(text) : "");
	fprintf(text->out, "%7s", text_peak(number, sum));
	if (text->io) {
		fprintf(text->out, "%7s", text_sum(number, sum, REPORT_RCHAR, true));
		fprintf(text->out, "%7s", text_sum(number, sum, REPORT_WCHAR, true));
	}
	text_wait(sum, wait, sizeof(wait));
	if (text->waits && *wait)
		fprintf(text->out, "  %s", wait);
	fputc('\n', text->out);
}

// The name of a row, its remarks included, ready to fit into columns.
static void text_view_name(const struct text *text, const struct report_view *view,
			   struct buf *name)
{
	const char *dot = text->ui->unicode ? " · " : " - ";
	const char *times = text->ui->unicode ? "×" : "x";

	buf_append_string(name, view->label);
	if (view->count > 1)
		buf_printf(name, " %s%u", times, view->count);
	if (view->kind == REPORT_RUN && view->node && view->node->engine)
		buf_printf(name, "%s%s", dot, view->node->engine);
	if (view->kind == REPORT_TASK && view->node && view->node->sample &&
	    !strstr(view->label, view->node->sample))
		buf_printf(name, " [%s]", view->node->sample);
	if (view->only_tool && strcmp(view->only_tool, view->label) != 0)
		buf_printf(name, "%s%s", dot, view->only_tool);
	if (view->node && view->retries)
		buf_printf(name, " (try %u)", view->node->attempt);
	else if (view->retries)
		buf_printf(name, " (%u retried)", view->retries);
}

static void text_view_row(const struct text *text, const struct report_view *view,
			  const char *prefix, const char *branch)
{
	CLEANUP(buf_free) struct buf name = BUF_INIT;
	char fitted[TEXT_NAME_MAX * 8], mark[40] = "";
	size_t used = ui_columns(prefix) + ui_columns(branch), room;

	text_view_name(text, view, &name);
	if (view->failed && view->count > 1)
		snprintf(mark, sizeof(mark), " %s %u", text_cross(text), view->failed);
	else if (view->failed)
		snprintf(mark, sizeof(mark), " %s", text_cross(text));
	room = text->name_width > used + ui_columns(mark) + 4
		       ? text->name_width - used - ui_columns(mark)
		       : 4;
	used += ui_fit(text->ui, fitted, sizeof(fitted), name.data ? name.data : "?", room) +
		ui_columns(mark);
	fprintf(text->out, "  %s%s%s%s", text_on(text, UI_DIM), prefix, branch, text_off(text));
	fprintf(text->out, "%s%s%s%s%s%s", view->kind == REPORT_RUN ? text_on(text, UI_BOLD) : "",
		fitted, text_off(text), text_on(text, UI_BAD), mark, text_off(text));
	fprintf(text->out, "%*s", used < text->name_width ? (int)(text->name_width - used) : 0, "");
	text_figures(text, view);
}

static void text_fold_row(const struct text *text, const struct report_view *view,
			  const char *prefix, const char *branch)
{
	char fitted[800];
	size_t used = 2 + ui_columns(prefix) + ui_columns(branch);

	ui_fit(text->ui, fitted, sizeof(fitted), view->label, text->ui->width - used);
	fprintf(text->out, "  %s%s%s%s%s\n", text_on(text, UI_DIM), prefix, branch, fitted,
		text_off(text));
}

static void text_views(const struct text *text, const struct report_view *view, const char *prefix,
		       bool top)
{
	bool unicode = text->ui->unicode;
	char below[TEXT_PREFIX_SIZE];

	for (; view; view = view->next) {
		const char *branch = top	  ? ""
				     : view->next ? (unicode ? "├─ " : "|- ")
						  : (unicode ? "└─ " : "`- ");
		const char *line = top ? "" : view->next ? (unicode ? "│  " : "|  ") : "   ";

		if (view->fold)
			text_fold_row(text, view, prefix, branch);
		else
			text_view_row(text, view, prefix, branch);
		snprintf(below, sizeof(below), "%s%s", prefix, line);
		text_views(text, view->children, below, false);
	}
}

int report_write(struct report *report, const struct ui *ui)
{
	struct text text = {.report = report, .ui = ui, .out = ui->out};
	struct report_view *views = report_view_build(report, ui->unicode);

	text_columns(&text);
	text_header(&text);
	if (views) {
		text_tree_heading(&text);
		text_views(&text, views, "", true);
	}
	text_waiting(&text);
	text_failures(&text);
	text_slowest(&text);
	text_notes(&text);
	fputc('\n', text.out);
	return ferror(text.out) ? -EIO : 0;
}
