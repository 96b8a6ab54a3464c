// SPDX-License-Identifier: Apache-2.0
// Rules, the explaining part: the same candidates in the same order as matching, with the condition
// that decided each. For people; nothing on the hot path uses it.
#include <stdio.h>
#include <string.h>

#include "core/rules_private.h"

enum { PATTERNS_SHOWN = 4 };

static void put_globs(const struct globs *globs, struct buf *out)
{
	for (uint32_t i = 0; i < globs->count && i < PATTERNS_SHOWN; i++)
		buf_printf(out, "%s%s", i ? " or " : "", glob_pattern(globs->items[i]));
	if (globs->count > PATTERNS_SHOWN)
		buf_printf(out, " or %u more", globs->count - PATTERNS_SHOWN);
}

static void put_forms(uint32_t forms, struct buf *out)
{
	const char *between = "";

	for (int form = 0; form < FORM_END; form++)
		if (forms >> form & 1) {
			buf_printf(out, "%s%s", between, form_names[form]);
			between = " or ";
		}
}

// One condition in words, without what stands below an and, or, not.
static void put_condition(const struct condition *condition, struct buf *out)
{
	switch ((enum condition_kind)condition->kind) {
	case CONDITION_TEXT:
		buf_printf(out, "%s ", field_names[condition->field]);
		put_globs(condition->globs, out);
		return;
	case CONDITION_ARG_ANY:
		buf_append_string(out, "an argument ");
		put_globs(condition->globs, out);
		return;
	case CONDITION_ARG_AT:
		buf_printf(out, "argument %u ", condition->number);
		put_globs(condition->globs, out);
		return;
	case CONDITION_ARG_COUNT:
		buf_printf(out, "%u to %u arguments", condition->number, condition->number_max);
		return;
	case CONDITION_OPTION:
		buf_append_string(out, "option ");
		put_globs(condition->globs, out);
		return;
	case CONDITION_SUBCOMMAND:
		buf_append_string(out, "subcommand ");
		put_globs(condition->globs, out);
		return;
	case CONDITION_UID:
		buf_printf(out, "uid %u to %u", condition->number, condition->number_max);
		return;
	case CONDITION_FORM:
		buf_append_string(out, "form ");
		put_forms(condition->number, out);
		return;
	case CONDITION_CONTAINER:
		buf_append_string(out, condition->number ? "in a container" : "in no container");
		return;
	case CONDITION_AND:
		buf_append_string(out, "all of them");
		return;
	case CONDITION_OR:
		buf_append_string(out, "one of");
		for (const struct condition *child = condition->children; child;
		     child = child->next) {
			const struct condition *only = child;
			while (only->kind == CONDITION_AND && only->children &&
			       !only->children->next)
				only = only->children;
			buf_append_string(out, child == condition->children ? " " : ", ");
			if (only->kind == CONDITION_OR)
				buf_append_string(out, "(...)");
			else
				put_condition(only, out);
		}
		return;
	case CONDITION_NOT:
	case CONDITION_PARENT:
		return;
	}
}

// Down to the condition that made the whole fail; the words "not" and "parent" on the way are kept.
static void put_failing(const struct rules *rules, const struct condition *condition,
			const struct view *view, struct buf *out)
{
	while (condition->kind == CONDITION_AND) {
		const struct condition *child = condition->children;
		while (child->next && condition_holds(rules, child, view))
			child = child->next;
		condition = child;
	}
	if (condition->kind == CONDITION_PARENT) {
		struct view parent;
		if (!view->subject->parent) {
			buf_append_string(out, "a parent (none is known)");
			return;
		}
		view_init(&parent, rules, view->subject->parent, NULL);
		buf_append_string(out, "parent's ");
		put_failing(rules, condition->children, &parent, out);
		return;
	}
	if (condition->kind == CONDITION_NOT) {
		const struct condition *inner = condition->children;
		while (inner->kind == CONDITION_AND && inner->children && !inner->children->next)
			inner = inner->children;
		buf_append_string(out, "not ");
		put_condition(inner, out);
		return;
	}
	put_condition(condition, out);
}

// The conditions of a rule that holds, joined.
static void put_holding(const struct condition *condition, struct buf *out)
{
	const char *between = "";

	if (condition->kind != CONDITION_AND) {
		put_condition(condition, out);
		return;
	}
	for (const struct condition *child = condition->children; child; child = child->next) {
		buf_append_string(out, between);
		if (child->kind == CONDITION_NOT)
			buf_append_string(out, "not (...)");
		else if (child->kind == CONDITION_PARENT)
			buf_append_string(out, "parent (...)");
		else
			put_condition(child, out);
		between = ", ";
	}
}

static void explain_rule(const struct rules *rules, const struct rule *rule,
			 const struct view *view, uint32_t *found, struct buf *out)
{
	const char *engine = view->subject->engine;
	bool late = *found >> rule->section & 1;

	buf_printf(out, "  %-8s %-22s %-26s ", section_names[rule->section], rule->name,
		   rule->place);
	if (late) {
		buf_append_string(out, "not needed: an earlier one matched\n");
	} else if (rule_holds(rules, rule, view)) {
		*found |= UINT32_C(1) << rule->section;
		buf_append_string(out, "matches: ");
		if (rule->when)
			put_holding(rule->when, out);
		else
			buf_append_string(out, "always");
		buf_append_char(out, '\n');
	} else if (rule->section == SECTION_TASK && !rule->anywhere &&
		   (!engine || strcmp(engine, rule->engine))) {
		buf_printf(out, "no: it is in no run of %s\n", rule->engine);
	} else {
		buf_append_string(out, "no: needs ");
		put_failing(rules, rule->when, view, out);
		buf_append_char(out, '\n');
	}
}

static void explain_result(const struct rule_result *result, struct buf *out)
{
	static const char *const how[] = {[JOIN_ID] = "id", [JOIN_PLACE] = "place", [JOIN_WEAK] = "weak"};

	buf_printf(out, "tool      %s%s%s%s\n", result->tool, result->category ? " (" : "",
		   result->category ? result->category : "", result->category ? ")" : "");
	if (result->probe || result->asks)
		buf_printf(out, "          %s\n", result->probe ? "a probe: its end is no failure"
								: "asks: exit code 1 is an answer, no failure");
	buf_printf(out, "          by %s\n",
		   result->tool_rule ? result->tool_rule : "no rule: its own name");
	if (result->roles & RULE_JOB)
		buf_printf(out, "job       %s-%s%s%s\n          by %s\n", result->job_engine,
			   result->job_id, result->job_task ? ", task " : "",
			   result->job_task ? result->job_task : "", result->job_rule);
	if (result->roles & RULE_TASK)
		buf_printf(out, "task      of %s, id %s, name %s\n", result->task_engine,
			   result->task_id ? result->task_id : "(a new one)",
			   result->task_name ? result->task_name : "(of what it runs)");
	if (result->roles & RULE_ENGINE)
		buf_printf(out, "engine    %s%s%s%s\n", result->engine,
			   result->run_name ? ", run name " : "",
			   result->run_name ? result->run_name : "",
			   result->roles & RULE_ENGINE_AT_ROOT ? " (only where a run begins anyway)"
							       : "");
	if (result->roles & RULE_BOUNDARY)
		buf_append_string(out, "boundary  each child begins a run of its own\n");
	if (result->role_rule)
		buf_printf(out, "          by %s\n", result->role_rule);
	for (uint32_t i = 0; i < result->join_count; i++)
		buf_printf(out, "join      %s\n          %s: %s\n", result->joins[i].key, how[result->joins[i].how],
			   result->joins[i].why);
}

static void explain_data(const struct rules *rules, const struct rule_subject *subject,
			 struct arena *arena, struct buf *out)
{
	const char *sample = NULL, *args = subject->args;
	uint32_t weight, size = subject->args_size;

	if (!rules_sample(rules, subject->args, subject->args_size, arena, &sample, &weight) &&
	    sample)
		buf_printf(out, "sample    %s\n", sample);
	if (rules_redact(rules, subject->args, subject->args_size, arena, &args, &size) ||
	    args == subject->args)
		return;
	buf_append_string(out, "recorded ");
	for (uint32_t i = 0; i < size; i += (uint32_t)strlen(args + i) + 1)
		buf_printf(out, " %s", args + i);
	buf_append_char(out, '\n');
}

static int explain(const struct rules *rules, const struct rule_subject *subject,
		   struct arena *arena, struct buf *out)
{
	struct candidates candidates;
	struct rule_result result;
	const struct rule *rule;
	struct view view, parent;
	uint32_t found = 0;
	int error = rules_match(rules, subject, arena, &result);

	if (error)
		return error;
	view_init(&view, rules, subject, &parent);
	buf_printf(out, "program   %s (%s%s%s), known as", view.program,
		   view.interpreter ? view.interpreter->name : "", view.interpreter ? " " : "",
		   form_names[view.form]);
	for (uint32_t i = 0; i < view.name_count; i++)
		buf_printf(out, " %s", view.names[i]);
	buf_append_string(out, "\n\ntried, in order:\n");
	candidates_begin(&candidates, rules, &view);
	while ((rule = candidates_next(&candidates, rules)))
		explain_rule(rules, rule, &view, &found, out);
	buf_append_string(out, "\n");
	explain_result(&result, out);
	explain_data(rules, subject, arena, out);
	return buf_error(out);
}

int rules_explain(const struct rules *rules, const struct rule_subject *subject, struct buf *out)
{
	struct arena arena;
	int error;

	arena_init(&arena, 4096);
	error = explain(rules, subject, &arena, out);
	arena_free(&arena);
	return error;
}
