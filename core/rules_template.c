// SPDX-License-Identifier: Apache-2.0
// Rules, the display part: texts such as "samtools {subcommand}". A list of texts is tried in order
// until all parts of one are known. What comes out of a program's arguments is bounded and free of
// control characters.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules_private.h"

enum { TEMPLATE_PARTS_MAX = 16, TEMPLATE_TEXT_MAX = 256 };

// The field a placeholder names: "cwd", "1", "option --rule".
static int read_field(struct reader *reader, uint32_t line, char *text, struct template_part *part)
{
	char *key = strchr(text, ' ');
	char *end;

	if (key) {
		*key++ = 0;
		key += strspn(key, " ");
		part->key = key;
	}
	if (*text >= '0' && *text <= '9') {
		part->field = FIELD_NUMBER;
		part->number = (uint32_t)strtoul(text, &end, 10);
		if (*end || key || part->number >= VIEW_ARGUMENTS)
			return reader_error(reader, line, "{%s} is not a position from 0 to %d",
					    text, VIEW_ARGUMENTS - 1);
		return 0;
	}
	for (part->field = 0; part->field < FIELD_END; part->field++)
		if (*field_names[part->field] && !strcmp(field_names[part->field], text))
			break;
	if (part->field == FIELD_END)
		return reader_error(reader, line,
				    "unknown placeholder {%s}; known: a position, subcommand, "
				    "operand [WORD], option NAME, "
				    "any, runner, program, exe, comm, script, interpreter, cwd, "
				    "cgroup, container, "
				    "container_id, pod, ecs_task, job, step, engine, argv0, uid, code",
				    text);
	if (part->field == FIELD_OPTION ? !key || !*key : key && part->field != FIELD_OPERAND)
		return reader_error(reader, line,
				    part->field == FIELD_OPTION
					    ? "{option} needs the option's name; for example "
					      "{option --rule}"
					    : "{%s} takes no name behind it",
				    text);
	return 0;
}

// The inside of { }: FIELD [| PATTERN]. text may be written to.
static int read_placeholder(struct reader *reader, uint32_t line, char *text,
			    struct template_part *part)
{
	char *bar = strchr(text, '|');
	const char *reason = NULL;
	int error;

	if (bar) {
		char *pattern = bar + 1 + strspn(bar + 1, " ");
		while (bar > text && bar[-1] == ' ')
			bar--;
		*bar = 0;
		for (size_t length = strlen(pattern); length && pattern[length - 1] == ' ';
		     length--)
			pattern[length - 1] = 0;
		error = glob_compile(pattern, strchr(pattern, '/') ? GLOB_PATH : 0,
				     &reader->rules->arena, &part->glob, &reason);
		if (error == -EINVAL)
			return reader_error(reader, line, "bad pattern \"%s\": %s", pattern,
					    reason);
		if (error)
			return error;
	}
	return read_field(reader, line, text, part);
}

static int read_one(struct reader *reader, const struct node *node, struct template *template)
{
	struct arena *arena = &reader->rules->arena;
	struct template_part parts[TEMPLATE_PARTS_MAX] = {0};
	const char *text = node->text;

	while (*text) {
		struct template_part *part = &parts[template->count];
		size_t length = strcspn(text, "{");
		if (template->count == TEMPLATE_PARTS_MAX)
			return reader_error(reader, node->line,
					    "more than %d parts in one text; make it shorter",
					    TEMPLATE_PARTS_MAX);
		if (!length) {
			length = strcspn(text, "}");
			if (!text[length])
				return reader_error(reader, node->line,
						    "the '{' is not closed; add a '}'");
			char *inside = arena_strndup(arena, text + 1, length - 1);
			if (!inside)
				return -ENOMEM;
			int error = read_placeholder(reader, node->line, inside, part);
			if (error)
				return error;
			text += length + 1;
		} else {
			part->text = arena_strndup(arena, text, length);
			if (!part->text)
				return -ENOMEM;
			text += length;
		}
		template->count++;
	}
	if (!template->count)
		return reader_error(reader, node->line,
				    "the text is empty; write a name such as \"bwa {subcommand}\"");
	struct template_part *copy = arena_alloc(arena, template->count * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, parts, template->count * sizeof(*copy));
	template->parts = copy;
	return 0;
}

int template_read(struct reader *reader, const struct node *node,
		  const struct template **ret_template)
{
	const struct node *item = node->kind == NODE_LIST ? node->children : node;
	const struct template **tail = ret_template;

	if (!item)
		return reader_error(reader, node->line,
				    "the list is empty; give at least one text");
	for (; item; item = node->kind == NODE_LIST ? item->next : NULL) {
		struct template *template = arena_alloc(&reader->rules->arena, sizeof(*template));
		if (!template)
			return -ENOMEM;
		*template = (struct template){0};
		if (item->kind != NODE_TEXT)
			return reader_error(reader, item->line,
					    "expected a text or a list of texts");
		int error = read_one(reader, item, template);
		if (error)
			return error;
		*tail = template;
		tail = &template->next;
	}
	return 0;
}

// The value of an option: "--rule x" or "--rule=x".
static const char *option_value(const struct view *view, const char *name)
{
	size_t length = strlen(name);

	for (uint32_t i = view->first; i < view->argc; i++) {
		const char *argument = view->argv[i];
		if (strncmp(argument, name, length))
			continue;
		if (argument[length] == '=')
			return argument + length + 1;
		if (!argument[length] && i + 1 < view->argc)
			return view->argv[i + 1];
	}
	return NULL;
}

// The first argument that the pattern takes.
static const char *any_argument(const struct view *view, const struct glob *glob)
{
	for (uint32_t i = view->first; i < view->argc; i++)
		if (!glob || glob_matches(glob, view->argv[i]))
			return view->argv[i];
	return NULL;
}

// The first argument that is no option, behind a word when one is given.
static const char *operand(const struct view *view, const char *word)
{
	uint32_t i = view->first;

	while (word && i < view->argc && strcmp(view->argv[i], word))
		i++;
	for (i += word != NULL; i < view->argc; i++)
		if (view->argv[i][0] != '-')
			return view->argv[i];
	return NULL;
}

static const char *part_value(const struct template_part *part, const struct view *view,
			      const struct words *subcommands)
{
	switch (part->field) {
	case FIELD_NUMBER: {
		uint32_t position = part->number ? view->first + part->number - 1 : 0;
		if (!part->number)
			return view->program;
		return position < view->argc ? view->argv[position] : NULL;
	}
	case FIELD_SUBCOMMAND:
		return view_subcommand(view, subcommands);
	case FIELD_OPTION:
		return option_value(view, part->key);
	case FIELD_OPERAND:
		return operand(view, part->key);
	case FIELD_ANY:
		return any_argument(view, part->glob);
	case FIELD_PROGRAM:
		return view->names[view->name_count - 1];
	case FIELD_EXE:
		return view->exe_name;
	default:
		return view_field(view, part->field);
	}
}

// Appends one part, cut at size; false when it is unknown.
static bool expand_part(const struct template_part *part, const struct view *view, const struct words *subcommands,
			char *text, size_t text_size, size_t *length)
{
	const char *value = part->text ? part->text : part_value(part, view, subcommands);
	size_t size = value ? strnlen(value, text_size) : 0;

	if (!value || (part->glob && !glob_capture(part->glob, value, &value, &size)) || !size)
		return false;
	for (size_t i = 0; i < size && *length < text_size - 1; i++) {
		char c = value[i];
		text[(*length)++] = (unsigned char)c < ' ' || c == 0x7f ? '?' : c;
	}
	return true;
}

bool template_fill(const struct template *template, const struct view *view,
		   const struct words *subcommands, char *text, size_t size, size_t *ret_length)
{
	for (; template; template = template->next) {
		bool known = true;
		size_t length = 0;
		for (uint32_t i = 0; known && i < template->count; i++)
			known = expand_part(&template->parts[i], view, subcommands, text, size, &length);
		if (!known)
			continue;
		*ret_length = length;
		return true;
	}
	return false;
}

int template_expand(const struct template *template, const struct view *view,
		    const struct words *subcommands, struct arena *arena, const char **ret_text)
{
	char text[TEMPLATE_TEXT_MAX];
	size_t length;

	if (template && template->count == 1 && template->parts[0].text) {
		*ret_text = template->parts[0].text;
		return 0;
	}
	if (!template_fill(template, view, subcommands, text, sizeof(text), &length)) {
		*ret_text = NULL;
		return 0;
	}
	*ret_text = arena_strndup(arena, text, length);
	return *ret_text ? 0 : -ENOMEM;
}
