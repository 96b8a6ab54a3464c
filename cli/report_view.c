// SPDX-License-Identifier: Apache-2.0
// Chooses the lines of a report: merges tasks of one name when there are many, folds what is too
// small to matter into one line that names it. Nothing disappears: a fold says how many and what.

#include <stdlib.h>
#include <string.h>

#include "cli/report_view.h"
#include "cli/ui.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"

enum {
	VIEW_TASKS_MAX = 24, // of a run, before those of one name are merged
	VIEW_ROWS_MAX = 16, // merged rows of a run, before the smaller ones are folded
	VIEW_TOOLS_MAX = 8, // of a task
	VIEW_FOLD_NAMES = 3, // names in a fold line
	VIEW_SMALL_NS = 50 * 1000 * 1000,
};

static struct report_view *view_new(struct report *report, const struct report_node *node)
{
	struct report_view *view = arena_alloc(&report->arena, sizeof(*view));

	if (!view)
		return NULL;
	*view = (struct report_view){
		.kind = node->kind, .node = node, .label = node->name, .count = 1};
	view->sum = node->sum;
	view->offered_ns = report_offered_ns(report, node);
	view->retries = node->attempt > 1;
	view->failed = node->kind == REPORT_TASK && report_end_failed(&node->end);
	return view;
}

static void view_append(struct report_view ***tail, struct report_view *view)
{
	if (!view)
		return;
	**tail = view;
	*tail = &view->next;
}

static void view_merge(struct report_view *into, const struct report_view *from)
{
	uint64_t longest_ns = from->sum.last_ns - from->sum.first_ns;

	// Of merged tasks the longest one's duration is told: it is no longer a span.
	if (into->count == 1)
		into->sum.wall_max_ns = into->sum.last_ns - into->sum.first_ns;
	if (longest_ns > into->sum.wall_max_ns)
		into->sum.wall_max_ns = longest_ns;
	report_sum_merge(&into->sum, &from->sum);
	into->node = NULL;
	into->count += from->count;
	into->failed += from->failed;
	into->retries += from->retries;
	into->offered_ns += from->offered_ns;
}

// Tasks are alike when their names are, up to what an engine writes in parentheses for one sample.
static size_t view_stem(const char *name)
{
	const char *parenthesis = strstr(name, " (");

	return parenthesis ? (size_t)(parenthesis - name) : strlen(name);
}

static bool view_alike(const char *left, const char *right)
{
	size_t length = view_stem(left);

	return length == view_stem(right) && !memcmp(left, right, length);
}

// Adds the tools of one more task to those of the row it was merged into.
static void view_merge_tools(struct report *report, struct report_view *into,
			     const struct report_node *task)
{
	for (const struct report_node *tool = task->children; tool; tool = tool->next) {
		struct report_view **slot = &into->children;

		while (*slot && strcmp((*slot)->label, tool->name) != 0)
			slot = &(*slot)->next;
		if (!*slot) {
			*slot = view_new(report, tool);
		} else {
			report_sum_merge(&(*slot)->sum, &tool->sum);
			(*slot)->offered_ns += (double)tool->sum.offered_ns;
		}
	}
}

static int view_compare_cpu(const void *left, const void *right)
{
	const struct report_view *a = *(struct report_view *const *)left;
	const struct report_view *b = *(struct report_view *const *)right;
	uint64_t a_ns = a->sum.value[REPORT_CPU], b_ns = b->sum.value[REPORT_CPU];

	if ((a->kind == REPORT_RUN) != (b->kind == REPORT_RUN))
		return a->kind == REPORT_RUN ? -1 : 1;
	return a_ns > b_ns ? -1 : a_ns < b_ns;
}

// Little CPU, little memory, and short, or long only because it waited for children that have rows of their own.
static bool view_is_small(const struct report_view *view, const struct report_sum *whole)
{
	const struct report_sum *sum = &view->sum;
	bool brief = sum->wall_max_ns < VIEW_SMALL_NS ||
		     sum->wall_max_ns < (whole->last_ns - whole->first_ns) / 20;
	bool parent = sum->value[REPORT_BLOCKED + BLOCKED_CHILD] > sum->wall_ns / 10 * 8;

	// A program that another one replaced: no process ended as it.
	if (sum->processes == 0 && sum->value[REPORT_CPU] <= whole->value[REPORT_CPU] / 10)
		return true;
	return (brief || parent) && sum->value[REPORT_CPU] <= whole->value[REPORT_CPU] / 50 &&
	       sum->peak_bytes <= whole->peak_bytes / 2;
}

static uint64_t view_members(const struct report_view *view)
{
	if (view->kind != REPORT_TOOL)
		return view->count;
	return view->sum.processes ? view->sum.processes : 1;
}

static void view_fold_name(struct report_view *view, struct buf *text, bool unicode)
{
	const char *times = unicode ? "×" : "x";
	char name[96], least[UI_NUMBER_SIZE], most[UI_NUMBER_SIZE], count[UI_NUMBER_SIZE];
	uint64_t number = view_members(view);

	ui_escape(name, sizeof(name), view->label);
	buf_append_string(text, name);
	if (number > 1)
		buf_printf(text, " %s%s", times, ui_count(count, number));
	ui_duration(least, view->sum.wall_min_ns);
	ui_duration(most, view->sum.wall_max_ns);
	if (view->kind != REPORT_TOOL || number < 2 || !strcmp(least, most))
		buf_printf(text, " (%s)", most);
	else
		buf_printf(text, " (%s%s%s)", least, unicode ? "–" : "-", most);
}

// One line for views[0..count): "… and 212 more short-lived: grep ×200 (0.3–2ms), …".
static struct report_view *view_fold(struct report *report, struct report_view **views,
				     size_t count, const char *what, bool unicode)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct report_view *fold;
	struct report_sum sum = {.wall_min_ns = UINT64_MAX, .first_ns = UINT64_MAX};
	char number[UI_NUMBER_SIZE];
	uint64_t members = 0;

	for (size_t i = 0; i < count; i++) {
		report_sum_merge(&sum, &views[i]->sum);
		members += view_members(views[i]);
	}
	buf_printf(&text, "%s and %s more%s: ", unicode ? "…" : "...", ui_count(number, members),
		   what);
	for (size_t i = 0; i < count && i < VIEW_FOLD_NAMES; i++) {
		buf_append_string(&text, i ? ", " : "");
		view_fold_name(views[i], &text, unicode);
	}
	if (count > VIEW_FOLD_NAMES)
		buf_printf(&text, ", %s", unicode ? "…" : "...");
	fold = arena_alloc(&report->arena, sizeof(*fold));
	if (!fold || buf_error(&text) < 0)
		return NULL;
	*fold = (struct report_view){
		.kind = views[0]->kind, .fold = true, .count = (uint32_t)count, .sum = sum};
	fold->label = arena_strndup(&report->arena, text.data, text.length);
	return fold->label ? fold : NULL;
}

static size_t view_to_array(struct report_view *list, struct report_view ***ret_views)
{
	size_t count = 0, i = 0;

	for (struct report_view *view = list; view; view = view->next)
		count++;
	*ret_views = count ? malloc(count * sizeof(**ret_views)) : NULL;
	if (!*ret_views)
		return 0;
	for (struct report_view *view = list; view; view = view->next)
		(*ret_views)[i++] = view;
	return count;
}

// Splits views, sorted by CPU time, into those that get a row and those to fold. Returns how many come first.
static size_t view_split(struct report_view **views, size_t count, const struct report_sum *whole)
{
	CLEANUP(cleanup_free) struct report_view **small = malloc(count * sizeof(*small));
	size_t kept = 0, folded = 0;

	if (!small)
		return count;
	for (size_t i = 0; i < count; i++) {
		if (kept < VIEW_TOOLS_MAX && !view_is_small(views[i], whole))
			views[kept++] = views[i];
		else
			small[folded++] = views[i];
	}
	memcpy(views + kept, small, folded * sizeof(*small));
	// A fold of one row is no shorter than the row.
	return folded == 1 || (kept == 0 && count <= 2) ? count : kept;
}

static bool view_all_brief(struct report_view **views, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (views[i]->sum.wall_max_ns >= VIEW_SMALL_NS)
			return false;
	}
	return true;
}

// Tools: the largest few, and those that are small or too many in one line.
static struct report_view *view_choose_tools(struct report *report, struct report_view *list,
					     const struct report_sum *whole, bool unicode)
{
	CLEANUP(cleanup_free) struct report_view **views = NULL;
	size_t count = view_to_array(list, &views), kept;
	struct report_view *first = NULL, **tail = &first;
	const char *what;

	if (count == 0)
		return list;
	qsort(views, count, sizeof(struct report_view *), view_compare_cpu);
	kept = view_split(views, count, whole);
	for (size_t i = 0; i < kept; i++) {
		views[i]->next = NULL;
		view_append(&tail, views[i]);
	}
	if (kept == count)
		return first;
	what = view_all_brief(views + kept, count - kept) ? " short-lived" : "";
	view_append(&tail, view_fold(report, views + kept, count - kept, what, unicode));
	return first;
}

static struct report_view *view_of_tools(struct report *report, const struct report_node *node,
					 bool unicode)
{
	struct report_view *first = NULL, **tail = &first;

	for (const struct report_node *child = node->children; child; child = child->next) {
		if (child->kind == REPORT_TOOL)
			view_append(&tail, view_new(report, child));
	}
	return view_choose_tools(report, first, &node->sum, unicode);
}

static struct report_view *view_of_task(struct report *report, const struct report_node *task,
					bool unicode)
{
	struct report_view *view = view_new(report, task);

	if (!view)
		return NULL;
	view->children = view_of_tools(report, task, unicode);
	if (view->children && !view->children->next && !view->children->fold) {
		view->only_tool = view->children->label;
		view->children = NULL;
	}
	return view;
}

// Many tasks: those of one name become one row each. Names are compared with those before: bounded
// by the distinct ones.
static struct report_view *view_of_merged_tasks(struct report *report,
						const struct report_node *run, bool unicode)
{
	struct report_view *first = NULL;

	for (const struct report_node *task = run->children; task; task = task->next) {
		struct report_view **slot = &first;

		if (task->kind != REPORT_TASK)
			continue;
		while (*slot && !view_alike((*slot)->label, task->name))
			slot = &(*slot)->next;
		if (!*slot) {
			*slot = view_new(report, task);
		} else {
			struct report_view *more = view_new(report, task);

			if (more)
				view_merge(*slot, more);
		}
		if (*slot)
			view_merge_tools(report, *slot, task);
	}
	for (struct report_view *view = first; view; view = view->next) {
		if (view->count > 1)
			view->label =
				arena_strndup(&report->arena, view->label, view_stem(view->label));
		view->children = view_choose_tools(report, view->children, &view->sum, unicode);
		if (view->children && !view->children->next && !view->children->fold) {
			view->only_tool = view->children->label;
			view->children = NULL;
		}
	}
	return first;
}

static struct report_view *view_choose_tasks(struct report *report, struct report_view *list,
					     bool unicode)
{
	CLEANUP(cleanup_free) struct report_view **views = NULL;
	size_t count = view_to_array(list, &views);
	struct report_view *first = NULL, **tail = &first;

	if (count <= VIEW_ROWS_MAX + 1)
		return list;
	qsort(views, count, sizeof(struct report_view *), view_compare_cpu);
	for (size_t i = 0; i < VIEW_ROWS_MAX; i++) {
		views[i]->next = NULL;
		view_append(&tail, views[i]);
	}
	view_append(&tail, view_fold(report, views + VIEW_ROWS_MAX, count - VIEW_ROWS_MAX, " tasks",
				     unicode));
	return first;
}

static struct report_view *view_of_run(struct report *report, const struct report_node *run,
				       bool unicode)
{
	struct report_view *view = view_new(report, run);
	struct report_view *tasks = NULL, **tail = &tasks, *only;
	size_t task_count = 0;

	if (!view)
		return NULL;
	view->children = view_of_tools(report, run, unicode);
	for (const struct report_node *child = run->children; child; child = child->next)
		task_count += child->kind == REPORT_TASK;
	if (task_count > VIEW_TASKS_MAX) {
		tasks = view_choose_tasks(report, view_of_merged_tasks(report, run, unicode),
					  unicode);
	} else {
		for (const struct report_node *child = run->children; child; child = child->next) {
			if (child->kind == REPORT_TASK)
				view_append(&tail, view_of_task(report, child, unicode));
		}
	}
	for (tail = &view->children; *tail; tail = &(*tail)->next)
		;
	*tail = tasks;
	for (; *tail; tail = &(*tail)->next)
		;
	for (const struct report_node *child = run->children; child; child = child->next) {
		if (child->kind == REPORT_RUN)
			view_append(&tail, view_of_run(report, child, unicode));
	}
	// A run of one program needs no second line for it.
	only = view->children;
	if (only && !only->next && !only->children && !only->fold && only->kind != REPORT_RUN) {
		view->only_tool = only->only_tool ? only->only_tool : only->label;
		view->failed = only->failed;
		view->children = NULL;
	}
	return view;
}

struct report_view *report_view_build(struct report *report, bool unicode)
{
	struct report_view *first = NULL, **tail = &first;

	for (const struct report_node *run = report->total.children; run; run = run->next)
		view_append(&tail, view_of_run(report, run, unicode));
	return first;
}
