// SPDX-License-Identifier: Apache-2.0
// Prints what a report found: waiting, failures with their causes, the slowest tasks, and what the
// reader must know about the figures. Every name from outside passes ui_fit() or ui_escape().

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_print.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"

enum { TEXT_SLOWEST_MAX = 8, TEXT_FAILURES_MAX = 12 };

// --- waiting
// ---------------------------------------------------------------------------------------------------

void text_waiting(const struct text *text)
{
	CLEANUP(buf_free) struct buf line = BUF_INIT;
	const struct report_sum *sum = &text->report->total.sum;
	char number[UI_NUMBER_SIZE];
	bool slept = false;

	if (sum->processes == 0)
		return;
	text_heading(text, "Waiting", "thread time; ~ is sampled");
	buf_printf(&line, "for a CPU %s", text_sum(number, sum, REPORT_RUN_DELAY, false));
	if (sum->value[REPORT_RECLAIM])
		buf_printf(&line, ", for free memory %s",
			   text_sum(number, sum, REPORT_RECLAIM, false));
	if (sum->unknown[REPORT_BLOCKED] >= sum->processes) {
		buf_append_string(&line, "; what threads slept for is unknown (not sampled)");
	} else {
		for (unsigned i = 0; i < BLOCKED_END; i++) {
			if (!sum->value[REPORT_BLOCKED + i])
				continue;
			buf_printf(&line, "%s%s ~%s", slept ? ", " : "; asleep for ", text_waits[i],
				   ui_duration(number, sum->value[REPORT_BLOCKED + i]));
			slept = true;
		}
		buf_append_string(&line, slept ? "" : "; sleeps were too short to be sampled");
	}
	ui_paragraphs(text->ui, buf_error(&line) < 0 ? "?" : line.data, 2, 0);
}

// --- failures
// --------------------------------------------------------------------------------------------------

// What follows the argument whose file name is word; "" when no argument is. Quoted arguments are not looked into.
static const char *text_after_argument(const char *command, const char *word)
{
	size_t length = strlen(word);

	while (command && *command && *command != '\'') {
		size_t argument = strcspn(command, " '");

		if (argument >= length && !memcmp(command + argument - length, word, length) &&
		    (argument == length || command[argument - length - 1] == '/'))
			return command + argument;
		command += argument + (command[argument] == ' ');
	}
	return "";
}

// A script's tasks carry their program's name: what follows it on the command line tells them apart.
static void text_task_title(const struct report_node *task, char *out, size_t size)
{
	const char *blank = strrchr(task->name, ' '), *word = blank ? blank + 1 : task->name;
	bool script = !task->parent->engine || !strcmp(task->parent->engine, "script");

	snprintf(out, size, "%s%.80s", task->name,
		 task->kind == REPORT_TASK && script && *word
			 ? text_after_argument(task->command, word)
			 : "");
}

static void text_failure_line(const struct text *text, const char *where, const char *how,
			      const char *command, bool nested)
{
	char name[TEXT_NAME_MAX * 8], line[REPORT_TEXT_MAX * 2];
	size_t used, name_width = text->ui->width >= 100 ? 28 : 20;

	ui_fit(text->ui, name, sizeof(name), where, name_width);
	fprintf(text->out, "  %s%s%s ", text_on(text, UI_BAD), nested ? " " : text_cross(text),
		text_off(text));
	ui_pad(text->ui, name, -(int)name_width);
	fprintf(text->out, "  %s", text_on(text, nested ? UI_WARN : UI_BAD));
	ui_pad(text->ui, how, -12);
	fputs(text_off(text), text->out);
	used = 4 + name_width + 2 + (ui_columns(how) < 12 ? 12 : ui_columns(how)) + 2;
	// No room beside it: below.
	if (used + 16 > text->ui->width)
		used = (size_t)fprintf(text->out, "\n      ") - 1;
	else
		fputs("  ", text->out);
	ui_fit(text->ui, line, sizeof(line), command, text->ui->width - used);
	fprintf(text->out, "%s\n", line);
}

static void text_process_line(const struct text *text, const char *where,
			      const struct report_failure *failure, bool nested)
{
	char how[160], number[UI_NUMBER_SIZE];

	text_end(&failure->end, how, sizeof(how));
	if (failure->count > 1)
		snprintf(how + strlen(how), sizeof(how) - strlen(how), " %s%s",
			 text->ui->unicode ? "×" : "x", ui_count(number, failure->count));
	text_failure_line(text, where, how, failure->command, nested);
}

static void text_task_line(const struct text *text, const struct report_node *task)
{
	char how[240], again[120], title[REPORT_TEXT_MAX + 96];

	text_end(&task->end, how, sizeof(how));
	if (task->retry) {
		text_end(&task->retry->end, again, sizeof(again));
		snprintf(how + strlen(how), sizeof(how) - strlen(how), ", tried again: %s", again);
	}
	if (task->alike > 1)
		snprintf(how + strlen(how), sizeof(how) - strlen(how), " %s%s",
			 text->ui->unicode ? "×" : "x", ui_count(again, task->alike));
	text_task_title(task, title, sizeof(title));
	text_failure_line(text, title, how, task->command ? task->command : "?", false);
}

// The task (else the run) a failure happened in.
static const struct report_node *text_failure_owner(const struct report_failure *failure)
{
	return failure->tool->parent;
}

// The failed processes below a failed task or run, itself aside: usually the cause.
static void text_causes(const struct text *text, const struct report_node *owner, unsigned *lines)
{
	for (const struct report_failure *failure = text->report->failures; failure;
	     failure = failure->next) {
		if (text_failure_owner(failure) != owner || *lines >= TEXT_FAILURES_MAX)
			continue;
		if (failure->count == 1 && failure->first_ns == owner->root_ns)
			continue;
		text_process_line(text, failure->tool->name, failure, true);
		(*lines)++;
	}
}

static bool text_owner_failed(const struct report_node *owner)
{
	bool root_ended =
		owner->root_expected_ns == UNKNOWN || owner->root_expected_ns == owner->root_ns;

	return !owner->folded && root_ended && report_end_failed(&owner->end);
}

// The end of the command is in the heading, and processes outside any run have no common end.
static bool text_in_heading(const struct text *text, const struct report_node *node)
{
	return node->kind == REPORT_RUN && (!*node->id || text->report->setup.command);
}

static unsigned text_failed_owners(const struct text *text, const struct report_node *node,
				   unsigned *lines)
{
	unsigned hidden = 0;

	for (const struct report_node *child = node->children; child; child = child->next) {
		if (child->kind == REPORT_TOOL)
			continue;
		hidden += text_failed_owners(text, child, lines);
		if (!text_owner_failed(child) || text_in_heading(text, child) ||
		    (child->kind == REPORT_TASK && child->alike == 0))
			continue;
		if (*lines >= TEXT_FAILURES_MAX) {
			hidden += child->kind == REPORT_TASK ? child->alike : 1;
			continue;
		}
		text_task_line(text, child);
		(*lines)++;
		text_causes(text, child, lines);
	}
	return hidden;
}

// Killed ones are told even when their task went on.
static unsigned text_killed(const struct text *text, unsigned *lines)
{
	unsigned hidden = 0;

	for (const struct report_failure *failure = text->report->failures; failure;
	     failure = failure->next) {
		bool killed = failure->end.oom ||
			      (failure->end.signal > 0 && failure->end.signal != SIGPIPE);
		const struct report_node *owner = text_failure_owner(failure);

		if (!killed || (text_owner_failed(owner) && owner->kind == REPORT_TASK))
			continue;
		if (*lines >= TEXT_FAILURES_MAX) {
			hidden++;
			continue;
		}
		text_process_line(text, owner->name, failure, false);
		(*lines)++;
	}
	return hidden;
}

// Told one by one above: killed, or in a failed task, or what opened a failed run. An answer is no failure to tell.
static bool text_failure_was_told(const struct report_failure *failure)
{
	const struct report_node *owner = failure->tool->parent;
	bool killed =
		failure->end.oom || (failure->end.signal > 0 && failure->end.signal != SIGPIPE);

	return failure->end.meaning || killed || (text_owner_failed(owner) &&
			  (owner->kind == REPORT_TASK || failure->first_ns == owner->root_ns));
}

static bool text_same_failure(const struct report_failure *a, const struct report_failure *b)
{
	return a->end.exit_code == b->end.exit_code && a->end.signal == b->end.signal &&
	       !strcmp(a->tool->name, b->tool->name);
}

// How many processes of one tool ended this way, in all tasks; 0 when an earlier row of the list has counted it.
static uint64_t text_tolerated_count(const struct report *report,
				     const struct report_failure *failure)
{
	const struct report_failure *other = report->failures;
	uint64_t count = 0;

	for (; other; other = other->next) {
		if (text_failure_was_told(other) || !text_same_failure(other, failure))
			continue;
		if (count == 0 && other != failure)
			return 0;
		count += other->count;
	}
	return count;
}

static void text_tolerated(const struct text *text)
{
	CLEANUP(buf_free) struct buf line = BUF_INIT;
	char tool[64], how[160], number[UI_NUMBER_SIZE];
	uint64_t hidden = text->report->failures_folded;

	for (const struct report_failure *failure = text->report->failures; failure;
	     failure = failure->next) {
		uint64_t count = text_failure_was_told(failure)
					 ? 0
					 : text_tolerated_count(text->report, failure);

		if (count == 0)
			continue;
		if (line.length > 300) {
			hidden += count;
			continue;
		}
		ui_escape(tool, sizeof(tool), failure->tool->name);
		text_end(&failure->end, how, sizeof(how));
		buf_printf(&line, "%s%s %s", line.length ? ", " : "", tool, how);
		if (count > 1)
			buf_printf(&line, " %s%s", text->ui->unicode ? "×" : "x",
				   ui_count(number, count));
	}
	if (hidden)
		buf_printf(&line, "%sand %s more", line.length ? ", " : "",
			   ui_count(number, hidden));
	if (line.length == 0 || buf_error(&line) < 0)
		return;
	fprintf(text->out, "  %sNot zero, and what started them went on:%s\n",
		text_on(text, UI_DIM), text_off(text));
	ui_paragraphs(text->ui, line.data, 4, 0);
}

// The command's own end is in the heading: alone it makes no list.
static bool text_only_in_heading(const struct text *text)
{
	const struct report *report = text->report;

	return report->setup.command && report->total.sum.failures == 1 && report->failures &&
	       report->failures->first_ns == report->total.root_ns;
}

void text_failures(const struct text *text)
{
	unsigned lines = 0, hidden;

	if (text->report->total.sum.failures == 0 || text_only_in_heading(text))
		return;
	text_heading(text, "Failures", NULL);
	hidden = text_failed_owners(text, &text->report->total, &lines);
	hidden += text_killed(text, &lines);
	if (hidden)
		fprintf(text->out, "    and %u more\n", hidden);
	text_tolerated(text);
}

// --- slowest
// ---------------------------------------------------------------------------------------------------

static int text_compare_wall(const void *left, const void *right)
{
	const struct report_node *a = *(struct report_node *const *)left;
	const struct report_node *b = *(struct report_node *const *)right;
	uint64_t a_ns = a->sum.last_ns - a->sum.first_ns, b_ns = b->sum.last_ns - b->sum.first_ns;

	return a_ns > b_ns ? -1 : a_ns < b_ns;
}

// Which of the bar's cells a moment falls into, from 0 to width.
static unsigned text_cell(const struct text *text, uint64_t moment_ns, unsigned width)
{
	uint64_t from_ns = text->report->setup.start_boot_ns;
	double cell = moment_ns > from_ns
			      ? (double)(moment_ns - from_ns) / (double)text_wall_ns(text->report)
			      : 0;

	return cell >= 1 ? width : (unsigned)(cell * width);
}

// When a task ran, as a bar on the time line of the whole recording.
static void text_bar(const struct text *text, const struct report_node *task, unsigned width)
{
	unsigned start = text_cell(text, task->sum.first_ns, width);
	unsigned end = text_cell(text, task->sum.last_ns, width);

	if (start >= width)
		start = width - 1;
	if (end <= start)
		end = start + 1;
	fprintf(text->out, "  %s", text_on(text, task->critical ? UI_ACCENT : UI_DIM));
	for (unsigned i = 0; i < width; i++) {
		bool inside = i >= start && i < end;

		fputs(text->ui->unicode ? (inside ? "█" : "·") : (inside ? "#" : "."), text->out);
	}
	fprintf(text->out, "%s", text_off(text));
}

void text_slowest(const struct text *text)
{
	uint64_t wall_ns = text_wall_ns(text->report);
	char name[TEXT_NAME_MAX * 8], title[REPORT_TEXT_MAX + 96];
	char number[UI_NUMBER_SIZE], share[UI_NUMBER_SIZE];
	unsigned bar = text->ui->width >= 90 ? 32 : 16;
	unsigned name_width = text->ui->width > bar + 42 ? text->ui->width - bar - 22 : 20;
	struct report_node **tasks;
	size_t count;

	tasks = report_collect(text->report, REPORT_TASK, &count);
	if (!tasks || count < 2 || wall_ns == UNKNOWN || wall_ns == 0)
		return;
	qsort(tasks, count, sizeof(*tasks), text_compare_wall);
	text_heading(text, "Slowest tasks", "* on the chain that decided the end");
	name_width = name_width > 44 ? 44 : name_width;
	for (size_t i = 0; i < count && i < TEXT_SLOWEST_MAX; i++) {
		uint64_t task_ns = tasks[i]->sum.last_ns - tasks[i]->sum.first_ns;

		text_task_title(tasks[i], title, sizeof(title));
		ui_fit(text->ui, name, sizeof(name), title, name_width);
		fprintf(text->out, "  %s ", tasks[i]->critical ? "*" : " ");
		ui_pad(text->ui, name, -(int)name_width);
		fprintf(text->out, "%9s", ui_duration(number, task_ns));
		fprintf(text->out, "%5s", ui_percent(share, (double)task_ns / (double)wall_ns));
		text_bar(text, tasks[i], bar);
		fputc('\n', text->out);
	}
	if (count > TEXT_SLOWEST_MAX)
		fprintf(text->out, "    %sand %zu shorter%s\n", text_on(text, UI_DIM),
			count - TEXT_SLOWEST_MAX, text_off(text));
}

// --- notes
// -----------------------------------------------------------------------------------------------------

static void text_note(const struct text *text, const char *note)
{
	char safe[REPORT_TEXT_MAX * 2];

	ui_escape(safe, sizeof(safe), note);
	fprintf(text->out, "  %s ", text->ui->unicode ? "·" : "-");
	ui_paragraphs(text->ui, safe, 4, 4);
}

static void text_note_unknown(const struct text *text, const char *what, uint64_t unknown)
{
	char note[160], number[UI_NUMBER_SIZE];

	if (unknown == 0)
		return;
	snprintf(note, sizeof(note),
		 "%s unknown for %s of the processes: their sums are lower bounds.", what,
		 ui_count(number, unknown));
	text_note(text, note);
}

void text_notes(const struct text *text)
{
	const struct report *report = text->report;
	const struct report_sum *sum = &report->total.sum;
	bool unknown = sum->unknown[REPORT_CPU] || sum->unknown[REPORT_RCHAR] || sum->peak_unknown;
	char note[160], number[UI_NUMBER_SIZE];

	if (!unknown && !report->note_count && !report->bad_lines &&
	    report->nodes < REPORT_NODES_MAX)
		return;
	text_heading(text, "Notes", NULL);
	for (uint32_t i = 0; i < report->note_count; i++)
		text_note(text, report->notes[i]);
	text_note_unknown(text, "CPU time is", sum->unknown[REPORT_CPU]);
	text_note_unknown(text, "Peak memory is", sum->peak_unknown);
	text_note_unknown(text, "Read and written bytes are", sum->unknown[REPORT_RCHAR]);
	if (report->nodes >= REPORT_NODES_MAX)
		text_note(text, "More runs, tasks and tools than this report has rows for: the "
				"rest is in the rows "
				"\"(all others)\".");
	if (report->bad_lines) {
		snprintf(note, sizeof(note),
			 "%s lines of the file were no records and were skipped.",
			 ui_count(number, report->bad_lines));
		text_note(text, note);
	}
}
