// SPDX-License-Identifier: Apache-2.0
// What only shows when all processes are in: the order of rows, tasks that were tried again, and
// the chain of tasks that decided when the whole ended. Reads sums, changes none.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/report_tree.h"

static int report_compare_u64(uint64_t left, uint64_t right)
{
	return left < right ? -1 : left > right;
}

// A row's own tools first, by CPU time; then tasks and runs, by start.
static int report_compare_rows(const void *left, const void *right)
{
	const struct report_node *a = *(struct report_node *const *)left;
	const struct report_node *b = *(struct report_node *const *)right;
	int order = (b->kind == REPORT_TOOL) - (a->kind == REPORT_TOOL);

	if (order)
		return order;
	order = a->folded - b->folded;
	if (order == 0 && a->kind == REPORT_TOOL)
		order = report_compare_u64(b->sum.value[REPORT_CPU], a->sum.value[REPORT_CPU]);
	if (order == 0)
		order = report_compare_u64(a->sum.first_ns, b->sum.first_ns);
	return order ? order : strcmp(a->name, b->name);
}

static int report_compare_last(const void *left, const void *right)
{
	const struct report_node *a = *(struct report_node *const *)left;
	const struct report_node *b = *(struct report_node *const *)right;

	return report_compare_u64(a->sum.last_ns, b->sum.last_ns);
}

static int report_compare_names(const struct report_node *a, const struct report_node *b)
{
	int order = report_compare_u64((uintptr_t)a->parent, (uintptr_t)b->parent);

	return order ? order : strcmp(a->name, b->name);
}

// Two command lines for the same work: equal, or all that changes is a number that grew by one, as a counter of
// attempts does, beside at least three equal words.
static bool report_same_work(const char *earlier, const char *later)
{
	unsigned equal = 0, counted = 0;

	while (earlier && later && *earlier && *later) {
		size_t length = strcspn(earlier, " "), other = strcspn(later, " ");
		char *end, *other_end;
		unsigned long number = strtoul(earlier, &end, 10),
			      next = strtoul(later, &other_end, 10);

		if (length == other && !memcmp(earlier, later, length))
			equal++;
		else if (end == earlier + length && other_end == later + other &&
			 next == number + 1)
			counted++;
		else
			return false;
		earlier += length + strspn(earlier + length, " ");
		later += other + strspn(later + other, " ");
	}
	return earlier && later && *earlier == *later &&
	       (counted == 0 || (counted == 1 && equal >= 3));
}

static int report_compare_tries(const void *left, const void *right)
{
	const struct report_node *a = *(struct report_node *const *)left;
	const struct report_node *b = *(struct report_node *const *)right;
	int order = report_compare_names(a, b);

	return order ? order : report_compare_u64(a->sum.first_ns, b->sum.first_ns);
}

static int report_sort_children(struct report_node *node)
{
	struct report_node **rows;
	size_t count = 0, i = 0;

	for (struct report_node *child = node->children; child; child = child->next)
		count++;
	if (count == 0)
		return 0;
	rows = malloc(count * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (struct report_node *child = node->children; child; child = child->next)
		rows[i++] = child;
	qsort(rows, count, sizeof(*rows), report_compare_rows);
	for (i = 0; i < count; i++)
		rows[i]->next = i + 1 < count ? rows[i + 1] : NULL;
	node->children = rows[0];
	free(rows);
	for (struct report_node *child = node->children; child; child = child->next) {
		int error = report_sort_children(child);

		if (error < 0)
			return error;
	}
	return 0;
}

static void report_collect_below(struct report_node *node, enum report_kind kind,
				 struct report_node **rows, size_t *count)
{
	for (struct report_node *child = node->children; child; child = child->next) {
		if (child->kind == kind)
			rows[(*count)++] = child;
		report_collect_below(child, kind, rows, count);
	}
}

struct report_node **report_collect(struct report *report, enum report_kind kind, size_t *ret_count)
{
	struct report_node **rows =
		arena_alloc(&report->arena, (report->nodes + 1) * sizeof(*rows));
	size_t count = 0;

	if (!rows)
		return NULL;
	report_collect_below(&report->total, kind, rows, &count);
	*ret_count = count;
	return rows;
}

// A script's tasks carry their program's name: only the same command line is the same work. An engine names its
// tasks, and may start the retry from another folder.
static bool report_is_retry(const struct report_node *earlier, const struct report_node *later)
{
	bool named = later->parent->engine && strcmp(later->parent->engine, "script") != 0;
	// A task that failed early may not have shown its sample.
	bool other =
		earlier->sample && later->sample && strcmp(earlier->sample, later->sample) != 0;

	return report_compare_names(earlier, later) == 0 && !other && !later->folded &&
	       report_end_failed(&earlier->end) && later->sum.first_ns >= earlier->sum.last_ns &&
	       (named || report_same_work(earlier->command, later->command));
}

// Looks back over a few tasks of the same name: those of other samples may have begun in between.
static struct report_node *report_earlier_try(struct report_node **tasks, size_t at)
{
	enum { LOOK_BACK = 64 };

	for (size_t i = at; i > 0 && at - i < LOOK_BACK; i--) {
		if (report_compare_names(tasks[i - 1], tasks[at]) != 0)
			return NULL;
		if (report_is_retry(tasks[i - 1], tasks[at]))
			return tasks[i - 1];
	}
	return NULL;
}

// A loop that asks until something is there fails many times by design: so long a chain without an end in success
// is no retry of a task.
static void report_drop_long_chains(struct report_node **tasks, size_t count)
{
	enum { CHAIN_MAX = 8 };

	for (size_t i = 0; i < count; i++) {
		const struct report_node *last = tasks[i];

		if (tasks[i]->attempt != 1 || !tasks[i]->retry)
			continue;
		while (last->retry)
			last = last->retry;
		if (last->attempt <= CHAIN_MAX)
			continue;
		for (struct report_node *task = tasks[i], *next; task; task = next) {
			next = task->retry;
			task->attempt = 1;
			task->retry = NULL;
		}
	}
}

static void report_find_retries(struct report_node **tasks, size_t count)
{
	qsort(tasks, count, sizeof(*tasks), report_compare_tries);
	for (size_t i = 0; i < count; i++) {
		struct report_node *earlier = report_earlier_try(tasks, i);

		tasks[i]->attempt = earlier ? earlier->attempt + 1 : 1;
		if (earlier)
			earlier->retry = tasks[i];
	}
	report_drop_long_chains(tasks, count);
}

static bool report_same_end(const struct report_node *a, const struct report_node *b)
{
	return a->end.exit_code == b->end.exit_code && a->end.signal == b->end.signal &&
	       a->end.oom == b->end.oom && !a->retry == !b->retry;
}

// Failed tasks of one name and end are told once. They stand together after report_find_retries().
static void report_group_failures(struct report_node **tasks, size_t count)
{
	enum { DISTINCT_MAX = 16 };
	struct report_node *first[DISTINCT_MAX];
	size_t distinct = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = 0;

		if (i && report_compare_names(tasks[i - 1], tasks[i]) != 0)
			distinct = 0;
		if (!report_end_failed(&tasks[i]->end))
			continue;
		while (at < distinct && !report_same_end(first[at], tasks[i]))
			at++;
		tasks[i]->alike = at == distinct;
		if (at == distinct && distinct < DISTINCT_MAX)
			first[distinct++] = tasks[i];
		else if (at < distinct)
			first[at]->alike++;
	}
}

// From the task that ended last, back to the one that ended last before it began, and so on.
static void report_find_critical(struct report_node **tasks, size_t count)
{
	uint64_t before_ns = UINT64_MAX;

	qsort(tasks, count, sizeof(*tasks), report_compare_last);
	while (count--) {
		if (tasks[count]->folded || tasks[count]->sum.last_ns > before_ns)
			continue;
		tasks[count]->critical = true;
		before_ns = tasks[count]->sum.first_ns;
	}
}

static bool report_is_below(const struct report_node *node, const struct report_node *above)
{
	while (node && node != above)
		node = node->parent;
	return node != NULL;
}

void report_nest(struct report *report)
{
	struct report_node **slot = &report->total.children;

	while (*slot) {
		struct report_node *run = *slot, *parent;

		parent = run->parent_id
				 ? report_find(report, REPORT_RUN, &report->total, run->parent_id)
				 : NULL;
		if (!parent || report_is_below(parent, run)) {
			slot = &run->next;
			continue;
		}
		*slot = run->next;
		run->next = parent->children;
		run->parent = parent;
		parent->children = run;
		for (struct report_node *above = parent; above != &report->total;
		     above = above->parent)
			report_sum_merge(&above->sum, &run->sum);
	}
}

// A run that failed with what its last task answered failed for that: `set -e; grep -q ...`.
static void report_find_last_answer(struct report_node *above)
{
	for (struct report_node *run = above->children; run; run = run->next) {
		struct report_node *last = NULL;

		if (run->kind != REPORT_RUN)
			continue;
		report_find_last_answer(run);
		for (struct report_node *child = run->children; child; child = child->next)
			if (child->kind == REPORT_TASK && !child->folded &&
			    (!last || child->sum.last_ns >= last->sum.last_ns))
				last = child;
		if (!last || last->end.meaning != END_ANSWER || run->end.exit_code != last->end.exit_code)
			continue;
		last->end.meaning = END_PLAIN;
		for (struct report_node *node = last; node; node = node->parent)
			node->sum.failures++;
	}
}

int report_order(struct report *report)
{
	struct report_node **tasks;
	size_t count;
	int error;

	error = report_sort_children(&report->total);
	if (error < 0)
		return error;
	report_find_last_answer(&report->total);
	tasks = report_collect(report, REPORT_TASK, &count);
	if (!tasks)
		return -ENOMEM;
	report_find_retries(tasks, count);
	report_group_failures(tasks, count);
	report_find_critical(tasks, count);
	return 0;
}
