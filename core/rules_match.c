// SPDX-License-Identifier: Apache-2.0
// Rules, the matching part. Rules are numbered in the order in which they are tried; those that
// need a program of a known name are found by that name, the few others are tried always. For each
// role the first rule that holds wins. Called once per exec: no allocation but the result's texts.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/rules_private.h"

const char *const section_names[SECTION_END] = {
	[SECTION_TOOL] = "tool",	 [SECTION_TASK] = "task", [SECTION_ENGINE] = "engine",
	[SECTION_BOUNDARY] = "boundary", [SECTION_JOB] = "job",
	[SECTION_JOIN] = "join",
};

static bool globs_match(const struct globs *globs, const char *text)
{
	for (uint32_t i = 0; text && i < globs->count; i++)
		if (glob_matches(globs->items[i], text))
			return true;
	return false;
}

// A name against a pattern; of a comm only the first 15 characters are known.
static bool name_matches(const struct glob *glob, const char *name, bool truncated)
{
	const char *literal = truncated ? glob_literal(glob) : NULL;

	return literal ? !strncmp(literal, name, 15) : glob_matches(glob, name);
}

static bool program_matches(const struct globs *globs, const struct view *view)
{
	for (uint32_t i = 0; i < globs->count; i++) {
		const struct glob *glob = globs->items[i];
		if (glob_is_path(glob)) {
			if (glob_matches(glob, view->program))
				return true;
			continue;
		}
		for (uint32_t j = 0; j < view->name_count; j++)
			if (name_matches(glob, view->names[j], view->truncated))
				return true;
	}
	return false;
}

static bool text_matches(const struct condition *condition, const struct view *view)
{
	const char *text = view_field(view, condition->field), *base;

	if (condition->field == FIELD_PROGRAM)
		return program_matches(condition->globs, view);
	if (condition->field != FIELD_EXE && condition->field != FIELD_SCRIPT &&
	    condition->field != FIELD_INTERPRETER)
		return globs_match(condition->globs, text);
	if (!text)
		return false;
	base = condition->field == FIELD_EXE ? view->exe_name : path_base(text);
	for (uint32_t i = 0; i < condition->globs->count; i++) {
		const struct glob *glob = condition->globs->items[i];
		if (glob_is_path(glob)
			    ? glob_matches(glob, text)
			    : name_matches(glob, base,
					   condition->field == FIELD_EXE && !view->subject->exe &&
						   strlen(base) == 15))
			return true;
	}
	return false;
}

// Every argument but the program's own name, those beyond the view's table too.
static bool any_argument(const struct globs *globs, const struct view *view)
{
	const struct rule_subject *subject = view->subject;
	const char *end = subject->args + subject->args_size;

	for (uint32_t i = 1; i < view->argc; i++)
		if (globs_match(globs, view->argv[i]))
			return true;
	if (view->argc < VIEW_ARGUMENTS)
		return false;
	for (const char *text = view->argv[view->argc - 1]; text < end;) {
		const char *stop = memchr(text, 0, (size_t)(end - text));
		if (!stop)
			return false;
		if (globs_match(globs, text))
			return true;
		text = stop + 1;
	}
	return false;
}

static bool has_option(const struct globs *globs, const struct view *view)
{
	for (uint32_t i = 1; i < view->argc; i++) {
		const char *argument = view->argv[i], *equals = strchr(argument, '=');
		char name[64];
		if (*argument != '-')
			continue;
		if (globs_match(globs, argument))
			return true;
		if (!equals || (size_t)(equals - argument) >= sizeof(name))
			continue;
		memcpy(name, argument, (size_t)(equals - argument));
		name[equals - argument] = 0;
		if (globs_match(globs, name))
			return true;
	}
	return false;
}

static bool argument_at(const struct condition *condition, const struct view *view)
{
	uint32_t position = view->first + condition->number - 1;

	if (!condition->number)
		return globs_match(condition->globs, view->program);
	return position < view->argc && globs_match(condition->globs, view->argv[position]);
}

static bool parent_holds(const struct rules *rules, const struct condition *condition,
			 const struct view *view)
{
	struct view *room = view->parent, parent;

	if (!view->subject->parent)
		return false;
	if (!room) {
		view_init(&parent, rules, view->subject->parent, NULL);
		return condition_holds(rules, condition->children, &parent);
	}
	// The same parent is asked about by several rules.
	if (!view->parent_made)
		view_init(room, rules, view->subject->parent, NULL);
	((struct view *)(uintptr_t)view)->parent_made = true;
	return condition_holds(rules, condition->children, room);
}

bool condition_holds(const struct rules *rules, const struct condition *condition,
		     const struct view *view)
{
	uint32_t count = view->argc - view->first;

	switch ((enum condition_kind)condition->kind) {
	case CONDITION_AND:
		for (const struct condition *child = condition->children; child;
		     child = child->next)
			if (!condition_holds(rules, child, view))
				return false;
		return true;
	case CONDITION_OR:
		for (const struct condition *child = condition->children; child;
		     child = child->next)
			if (condition_holds(rules, child, view))
				return true;
		return false;
	case CONDITION_NOT:
		return !condition_holds(rules, condition->children, view);
	case CONDITION_TEXT:
		return text_matches(condition, view);
	case CONDITION_ARG_ANY:
		return any_argument(condition->globs, view);
	case CONDITION_ARG_AT:
		return argument_at(condition, view);
	case CONDITION_ARG_COUNT:
		return count >= condition->number && count <= condition->number_max;
	case CONDITION_OPTION:
		return has_option(condition->globs, view);
	case CONDITION_SUBCOMMAND:
		return globs_match(condition->globs, view_subcommand(view, NULL));
	case CONDITION_UID:
		return view->subject->uid >= condition->number &&
		       view->subject->uid <= condition->number_max;
	case CONDITION_FORM:
		return condition->number >> view->form & 1;
	case CONDITION_PARENT:
		return parent_holds(rules, condition, view);
	case CONDITION_CONTAINER:
		return (view->subject->container_runtime != NULL) == condition->number;
	}
	return false;
}

bool rule_holds(const struct rules *rules, const struct rule *rule, const struct view *view)
{
	const char *engine = view->subject->engine;

	if (rule->section == SECTION_TASK && !rule->anywhere &&
	    (!engine || strcmp(engine, rule->engine)))
		return false;
	return !rule->when || condition_holds(rules, rule->when, view);
}

static const struct bucket *find_bucket(const struct rules *rules, const char *name)
{
	for (uint32_t i = text_hash(name, strlen(name)) & rules->bucket_mask; rules->bucket_slots[i];
	     i = (i + 1) & rules->bucket_mask) {
		const struct bucket *bucket = &rules->buckets[rules->bucket_slots[i] - 1];
		if (!strcmp(bucket->name, name))
			return bucket;
	}
	return NULL;
}

// Rules whose patterns take one of the program's names. More than fit are not looked for: they
// would all have to match one name.
static uint32_t find_globbed(struct candidates *candidates, const struct rules *rules,
			     const char *name, uint32_t count)
{
	const struct name_glob *heads[] = {rules->rule_globs.heads[(uint8_t)*name],
					   rules->rule_globs.heads[0]};

	for (int i = *name ? 0 : 1; i < 2; i++)
		for (const struct name_glob *one = heads[i]; one && count < VIEW_GLOBBED;
		     one = one->next) {
			uint32_t at = count;
			if (!glob_matches(one->glob, name))
				continue;
			for (; at && candidates->globbed[at - 1] > one->order; at--)
				candidates->globbed[at] = candidates->globbed[at - 1];
			candidates->globbed[at] = one->order;
			count++;
		}
	return count;
}

void candidates_begin(struct candidates *candidates, const struct rules *rules,
		      const struct view *view)
{
	uint32_t globbed = 0;

	candidates->count = 1;
	candidates->lists[0] = (struct order_list){rules->loose, rules->loose + rules->loose_count};
	for (uint32_t i = 0; i <= view->name_count; i++) {
		const char *name = i < view->name_count ? view->names[i] : view->exe_name;
		const struct bucket *bucket;
		if (i == view->name_count && name == view->names[0])
			break;
		globbed = find_globbed(candidates, rules, name, globbed);
		bucket = find_bucket(rules, name);
		if (bucket) {
			const uint32_t *orders = rules->bucket_orders + bucket->first;
			candidates->lists[candidates->count++] =
				(struct order_list){orders, orders + bucket->count};
		}
	}
	if (globbed)
		candidates->lists[candidates->count++] =
			(struct order_list){candidates->globbed, candidates->globbed + globbed};
}

const struct rule *candidates_next(struct candidates *candidates, const struct rules *rules)
{
	uint32_t best = UINT32_MAX;

	for (uint32_t i = 0; i < candidates->count; i++)
		if (candidates->lists[i].next < candidates->lists[i].end &&
		    *candidates->lists[i].next < best)
			best = *candidates->lists[i].next;
	for (uint32_t i = 0; i < candidates->count; i++)
		if (candidates->lists[i].next < candidates->lists[i].end &&
		    *candidates->lists[i].next == best)
			candidates->lists[i].next++;
	return best == UINT32_MAX ? NULL : rules->rules[best];
}

enum { TITLE_SIZE = 160 };

// Appends as much as fits, control characters as '?'.
static size_t add_text(char text[TITLE_SIZE], size_t length, const char *more)
{
	for (; *more && length < TITLE_SIZE - 1; more++)
		text[length++] = (unsigned char)*more < ' ' || *more == 0x7f ? '?' : *more;
	return length;
}

// The name of a program without a rule: its own, with the interpreter's before a script's.
static int default_title(const struct rules *rules, const struct view *view, struct arena *arena,
			 struct rule_result *result)
{
	const char *name = view->interpreter ? view->interpreter->name : view->exe_name;
	const char *what = path_base(view->program);
	char text[TITLE_SIZE];
	size_t length;

	result->rank = RULE_RANK_PROGRAM;
	for (uint32_t i = 0; i < view->name_count; i++)
		if (words_have(rules->noise, view->names[i]))
			result->rank = RULE_RANK_NOISE;
		else if (words_have(rules->utilities, view->names[i]))
			result->rank = RULE_RANK_UTILITY;
	if (view->form == FORM_CODE)
		what = view->interpreter->shell || view->interpreter->module ? "-c" : "-e";
	if (view->interpreter && view->interpreter->shell)
		result->rank = view->form != FORM_SCRIPT	 ? RULE_RANK_SHELL
			       : result->rank > RULE_RANK_SCRIPT ? RULE_RANK_SCRIPT
								 : result->rank;
	if (view->form == FORM_CLASS && strrchr(what, '.'))
		what = strrchr(what, '.') + 1;
	length = add_text(text, 0, *name ? name : "(unknown)");
	if (view->form == FORM_MODULE)
		length = add_text(text, length, " -m");
	if (view->interpreter && view->form != FORM_BARE) {
		length = add_text(text, length, " ");
		length = add_text(text, length, what);
	}
	text[length] = 0;
	result->tool = arena_strndup(arena, text, length);
	return result->tool ? 0 : -ENOMEM;
}

static int take_tool(const struct rule *rule, const struct view *view, struct arena *arena,
		     struct rule_result *result)
{
	const char *title = NULL;
	int error = template_expand(rule->title, view, rule->subcommands, arena, &title);

	if (!error && !title && rule->subcommands) {
		const char *word = view_subcommand(view, rule->subcommands);
		size_t size = strlen(rule->name) + 2 + (word ? strnlen(word, 64) : 0);
		char *text = word ? arena_alloc(arena, size) : NULL;
		if (word && !text)
			return -ENOMEM;
		if (word)
			snprintf(text, size, "%s %s", rule->name, word);
		title = text;
	}
	result->tool = title ? title : rule->name;
	result->category = rule->category;
	result->tool_rule = rule->place;
	result->probe = rule->probe;
	result->starts_probes = rule->starts_probes;
	result->rank = rule->silent    ? RULE_RANK_SILENT
		       : rule->wrapper ? RULE_RANK_WRAPPER
				       : RULE_RANK_TOOL;
	return error ? error
		     : template_expand(rule->sample, view, rule->subcommands, arena,
				       &result->sample);
}

static int take_task(const struct rule *rule, const struct view *view, struct arena *arena,
		     struct rule_result *result)
{
	int error = template_expand(rule->id, view, NULL, arena, &result->task_id);

	result->roles |= RULE_TASK | (rule->anywhere ? RULE_TASK_ANYWHERE : 0);
	result->task_engine = rule->engine;
	error = error ? error : template_expand(rule->title, view, NULL, arena, &result->task_name);
	if (!error && rule->sample)
		error = template_expand(rule->sample, view, NULL, arena, &result->sample);
	return error;
}

static int take_job(const struct rule *rule, const struct view *view, struct arena *arena,
		    struct rule_result *result)
{
	int error = template_expand(rule->id, view, NULL, arena, &result->job_id);

	if (error || !result->job_id)
		return error;
	result->roles |= RULE_JOB;
	result->job_engine = rule->engine;
	result->job_rule = rule->place;
	error = template_expand(rule->title, view, NULL, arena, &result->job_name);
	return error ? error : template_expand(rule->task, view, NULL, arena, &result->job_task);
}

static int take(const struct rule *rule, const struct view *view, struct arena *arena,
		struct rule_result *result)
{
	switch ((enum section)rule->section) {
	case SECTION_TOOL:
		return take_tool(rule, view, arena, result);
	case SECTION_TASK:
		result->role_rule = rule->place;
		return take_task(rule, view, arena, result);
	case SECTION_ENGINE:
		result->roles |= RULE_ENGINE | (rule->at_root ? RULE_ENGINE_AT_ROOT : 0) |
				 (rule->has_tasks ? RULE_ENGINE_HAS_TASKS : 0);
		result->engine = rule->engine;
		if (!result->role_rule)
			result->role_rule = rule->place;
		return template_expand(rule->title, view, NULL, arena, &result->run_name);
	case SECTION_BOUNDARY:
		result->roles |= RULE_BOUNDARY;
		if (!result->role_rule)
			result->role_rule = rule->place;
		return 0;
	case SECTION_JOB:
		return take_job(rule, view, arena, result);
	case SECTION_JOIN:
	case SECTION_END:
		break;
	}
	return 0;
}

int rules_match(const struct rules *rules, const struct rule_subject *subject, struct arena *arena,
		struct rule_result *ret_result)
{
	struct rule_result result = {.roles = RULE_TOOL};
	struct candidates candidates;
	const struct rule *rule;
	struct view view, parent;
	uint32_t found = 0; // bit per section

	view_init(&view, rules, subject, &parent);
	if (view.interpreter && view.interpreter->shell)
		result.roles |= RULE_SHELL;
	candidates_begin(&candidates, rules, &view);
	while ((rule = candidates_next(&candidates, rules))) {
		if (found >> rule->section & 1 || !rule_holds(rules, rule, &view))
			continue;
		int error = take(rule, &view, arena, &result);
		error = error || !rule->joins ? error : joins_take(rules, rule, &view, arena, &result);
		if (error)
			return error;
		// Every entry of joins that holds counts.
		if (rule->section != SECTION_JOIN && (rule->section != SECTION_JOB || result.job_id))
			found |= UINT32_C(1) << rule->section;
	}
	for (uint32_t i = 0; i < view.name_count && !result.asks; i++)
		result.asks = view.form != FORM_CODE && words_have(rules->questions, view.names[i]);
	if (!result.tool) {
		int error = default_title(rules, &view, arena, &result);
		if (error)
			return error;
	}
	*ret_result = result;
	return 0;
}
