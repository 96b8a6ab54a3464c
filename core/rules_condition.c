// SPDX-License-Identifier: Apache-2.0
// Rules, the condition part: what stands under "when:" to a tree, and that tree held against a
// program. Several keys of one map all have to hold. Unknown text (NULL) never matches, so `not:`
// of an unknown is true. Depth is bounded by the YAML reader; evaluation allocates nothing.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules_private.h"

const char *const field_names[FIELD_END] = {
	[FIELD_PROGRAM] = "program",
	[FIELD_EXE] = "exe",
	[FIELD_COMM] = "comm",
	[FIELD_SCRIPT] = "script",
	[FIELD_INTERPRETER] = "interpreter",
	[FIELD_CWD] = "cwd",
	[FIELD_CGROUP] = "cgroup",
	[FIELD_CONTAINER] = "container",
	[FIELD_ENGINE] = "engine",
	[FIELD_ARGV0] = "argv0",
	[FIELD_CONTAINER_ID] = "container_id",
	[FIELD_POD] = "pod",
	[FIELD_ECS_TASK] = "ecs_task",
	[FIELD_JOB] = "job",
	[FIELD_STEP] = "step",
	[FIELD_NUMBER] = "",
	[FIELD_RUNNER] = "runner",
	[FIELD_UID] = "uid",
	[FIELD_CODE] = "code",
	[FIELD_ANY] = "any",
	[FIELD_SUBCOMMAND] = "subcommand",
	[FIELD_OPTION] = "option",
	[FIELD_OPERAND] = "operand",
};

const char *const form_names[FORM_END] = {
	[FORM_PROGRAM] = "program", [FORM_SCRIPT] = "script", [FORM_MODULE] = "module",
	[FORM_JAR] = "jar",	    [FORM_CLASS] = "class",   [FORM_CODE] = "code",
	[FORM_BARE] = "bare",
};

static struct condition *condition_new(struct reader *reader, const struct node *node,
				       enum condition_kind kind)
{
	struct condition *condition = arena_alloc(&reader->rules->arena, sizeof(*condition));

	if (condition)
		*condition = (struct condition){.kind = (uint8_t)kind, .line = node->line};
	return condition;
}

int globs_read(struct reader *reader, const struct node *node, unsigned flags,
	       const struct globs **ret_globs)
{
	const struct node *item = node->kind == NODE_LIST ? node->children : node;
	uint32_t count = 0;
	struct globs *globs;

	for (const struct node *other = item; other;
	     other = node->kind == NODE_LIST ? other->next : NULL)
		count++;
	if (!count)
		return reader_error(reader, node->line,
				    "the list is empty; give at least one pattern");
	globs = arena_alloc(&reader->rules->arena,
			    sizeof(*globs) + count * sizeof(globs->items[0]));
	if (!globs)
		return -ENOMEM;
	globs->count = count;
	for (uint32_t i = 0; i < count; i++, item = item->next) {
		const char *reason = NULL;
		if (item->kind != NODE_TEXT || (item->plain && !*item->text))
			return reader_error(
				reader, item->line,
				"expected a pattern or a list of patterns; for example \"bwa*\"");
		unsigned path = strchr(item->text, '/') ? flags & GLOB_PATH : 0;
		int error = glob_compile(item->text, (flags & ~(unsigned)GLOB_PATH) | path,
					 &reader->rules->arena, &globs->items[i], &reason);
		if (error == -EINVAL)
			return reader_error(reader, item->line, "bad pattern \"%s\": %s",
					    item->text, reason);
		if (error)
			return error;
	}
	*ret_globs = globs;
	return 0;
}

static int read_number(const char *text, uint32_t *ret_number, const char **ret_end)
{
	char *end;
	unsigned long long value;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || value > UINT32_MAX)
		return -EINVAL;
	*ret_number = (uint32_t)value;
	*ret_end = end;
	return 0;
}

// "0" or "1000-1999"
static int read_range(struct reader *reader, const struct node *node, struct condition *condition)
{
	const char *end = "";

	if (node->kind != NODE_TEXT || read_number(node->text, &condition->number, &end))
		return reader_error(reader, node->line,
				    "expected a number or a range; for example 0 or 1000-1999");
	condition->number_max = condition->number;
	if (*end == '-' && read_number(end + 1, &condition->number_max, &end))
		end = "?";
	if (*end || condition->number_max < condition->number)
		return reader_error(reader, node->line,
				    "\"%s\" is not a number or a range; for example 1000-1999",
				    node->text);
	return 0;
}

static int read_uid(struct reader *reader, const struct node *node, struct condition *any)
{
	const struct condition **tail = &any->children;
	const struct node *item = node->kind == NODE_LIST ? node->children : node;

	for (; item; item = node->kind == NODE_LIST ? item->next : NULL) {
		struct condition *range = condition_new(reader, item, CONDITION_UID);
		if (!range)
			return -ENOMEM;
		int error = read_range(reader, item, range);
		if (error)
			return error;
		*tail = range;
		tail = &range->next;
	}
	return 0;
}

static int read_form(struct reader *reader, const struct node *node, struct condition *condition)
{
	const struct node *item = node->kind == NODE_LIST ? node->children : node;

	for (; item; item = node->kind == NODE_LIST ? item->next : NULL) {
		int form = 0;
		while (form < FORM_END &&
		       (item->kind != NODE_TEXT || strcmp(item->text, form_names[form])))
			form++;
		if (form == FORM_END)
			return reader_error(
				reader, item->line,
				"form is one of program, script, module, jar, class, code, bare");
		condition->number |= UINT32_C(1) << form;
	}
	return 0;
}

static int read_text(struct reader *reader, const struct node *node, enum field field,
		     struct condition *condition)
{
	int error = globs_read(reader, node, GLOB_PATH, &condition->globs);

	condition->field = (uint8_t)field;
	if (error || (field != FIELD_CWD && field != FIELD_CGROUP))
		return error;
	for (uint32_t i = 0; i < condition->globs->count; i++) {
		const char *pattern = glob_pattern(condition->globs->items[i]);
		if (*pattern != '/' && strncmp(pattern, "**", 2))
			return reader_error(reader, node->line,
					    "%s is a whole path; write \"**/%s\" for any place",
					    field_names[field], pattern);
	}
	return 0;
}

// args: a pattern, a list of patterns (each has to be there: no, any of them), or a map of
// positions.
static int read_arguments(struct reader *reader, const struct node *node, struct condition *all)
{
	const struct condition **tail = &all->children;

	if (node->kind != NODE_MAP) {
		all->kind = CONDITION_ARG_ANY;
		return globs_read(reader, node, 0, &all->globs);
	}
	for (const struct node *item = node->children; item; item = item->next) {
		struct condition *one = condition_new(reader, item, CONDITION_ARG_AT);
		const char *end = "?";
		int error;
		if (!one)
			return -ENOMEM;
		if (!strcmp(item->key, "any")) {
			one->kind = CONDITION_ARG_ANY;
			error = globs_read(reader, item, 0, &one->globs);
		} else if (!strcmp(item->key, "count")) {
			one->kind = CONDITION_ARG_COUNT;
			error = read_range(reader, item, one);
		} else if (!read_number(item->key, &one->number, &end) && !*end &&
			   one->number < VIEW_ARGUMENTS) {
			error = globs_read(reader, item, 0, &one->globs);
		} else {
			error = reader_error(
				reader, item->line,
				"args knows any, count and positions from 0 to %d, not \"%s\"",
				VIEW_ARGUMENTS - 1, item->key);
		}
		if (error)
			return error;
		*tail = one;
		tail = &one->next;
	}
	return 0;
}

static int read_children(struct reader *reader, const struct node *node,
			 struct condition *condition)
{
	const struct condition **tail = &condition->children;

	if (node->kind != NODE_LIST || !node->children)
		return reader_error(reader, node->line,
				    "\"%s\" takes a list of conditions; begin each with \"- \"",
				    node->key);
	for (const struct node *item = node->children; item; item = item->next) {
		const struct condition *child;
		int error = condition_read(reader, item, &child);
		if (error)
			return error;
		*tail = child;
		tail = (const struct condition **)&child->next;
	}
	return 0;
}

static int read_nested(struct reader *reader, const struct node *node, struct condition *condition)
{
	return condition_read(reader, node, &condition->children);
}

static int read_container(struct reader *reader, const struct node *node,
			  struct condition *condition)
{
	if (node->kind == NODE_TEXT &&
	    (!strcmp(node->text, "any") || !strcmp(node->text, "none"))) {
		condition->number = node->text[0] == 'a';
		return 0;
	}
	condition->kind = CONDITION_TEXT;
	return read_text(reader, node, FIELD_CONTAINER, condition);
}

static int read_globs(struct reader *reader, const struct node *node, struct condition *condition)
{
	return globs_read(reader, node, 0, &condition->globs);
}

static const struct condition_key {
	const char *name;
	enum condition_kind kind;
	int (*read)(struct reader *reader, const struct node *node, struct condition *condition);
} condition_keys[] = {
	{"and", CONDITION_AND, read_children},
	{"or", CONDITION_OR, read_children},
	{"not", CONDITION_NOT, read_nested},
	{"parent", CONDITION_PARENT, read_nested},
	{"uid", CONDITION_OR, read_uid},
	{"form", CONDITION_FORM, read_form},
	{"args", CONDITION_AND, read_arguments},
	{"option", CONDITION_OPTION, read_globs},
	{"subcommand", CONDITION_SUBCOMMAND, read_globs},
	{"container", CONDITION_CONTAINER, read_container},
};

static int read_key(struct reader *reader, const struct node *node,
		    struct condition **ret_condition)
{
	struct condition *condition = condition_new(reader, node, CONDITION_TEXT);
	int error;

	if (!condition)
		return -ENOMEM;
	*ret_condition = condition;
	for (size_t i = 0; i < sizeof(condition_keys) / sizeof(condition_keys[0]); i++)
		if (!strcmp(node->key, condition_keys[i].name)) {
			condition->kind = (uint8_t)condition_keys[i].kind;
			return condition_keys[i].read(reader, node, condition);
		}
	for (enum field field = 0; field < FIELD_NUMBER; field++)
		if (!strcmp(node->key, field_names[field]))
			return read_text(reader, node, field, condition);
	error = reader_error(
		reader, node->line,
		"unknown condition \"%s\"; known: program exe comm script interpreter "
		"cwd cgroup container container_id pod ecs_task job step engine argv0 args option "
		"subcommand uid form parent and or not",
		node->key);
	return error;
}

int condition_read(struct reader *reader, const struct node *node,
		   const struct condition **ret_condition)
{
	struct condition *all = condition_new(reader, node, CONDITION_AND);
	const struct condition **tail;

	if (!all)
		return -ENOMEM;
	if (node->kind != NODE_MAP || !node->children)
		return reader_error(
			reader, node->line,
			"expected conditions, one key a line; for example \"exe: bwa\"");
	tail = &all->children;
	for (const struct node *item = node->children; item; item = item->next) {
		struct condition *condition = NULL;
		int error = read_key(reader, item, &condition);
		if (error)
			return error;
		*tail = condition;
		tail = &condition->next;
	}
	*ret_condition = all;
	return 0;
}

static bool text_programs(const struct condition *condition, program_fn *visit, void *context)
{
	const struct globs *globs = condition->globs;

	if (condition->field != FIELD_PROGRAM && condition->field != FIELD_EXE)
		return false;
	for (uint32_t i = 0; i < globs->count; i++)
		if (strchr(glob_pattern(globs->items[i]), '/'))
			return false;
	for (uint32_t i = 0; visit && i < globs->count; i++)
		visit(context, globs->items[i]);
	return true;
}

bool condition_programs(const struct condition *condition, program_fn *visit, void *context)
{
	bool found = condition->kind == CONDITION_OR && condition->children;

	switch (condition->kind) {
	case CONDITION_AND:
		for (const struct condition *child = condition->children; child;
		     child = child->next)
			if (condition_programs(child, NULL, NULL))
				return condition_programs(child, visit, context);
		return false;
	case CONDITION_OR:
		for (const struct condition *child = condition->children; child;
		     child = child->next)
			found = found && condition_programs(child, NULL, NULL);
		for (const struct condition *child = condition->children; found && visit && child;
		     child = child->next)
			condition_programs(child, visit, context);
		return found;
	case CONDITION_TEXT:
		return text_programs(condition, visit, context);
	default:
		return false;
	}
}
