// SPDX-License-Identifier: Apache-2.0
// Rules, the reading of what is no rule: interpreters, secrets, the kernel's filter, sample names.
#include "core/rules_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTERPRETER_KEY(name, type, member) {name, type, offsetof(struct interpreter, member)}

int read_interpreter(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		INTERPRETER_KEY("name", KEY_TEXT, name),
		INTERPRETER_KEY("exe", KEY_GLOBS, exe),
		INTERPRETER_KEY("code", KEY_WORDS, code),
		INTERPRETER_KEY("module", KEY_WORDS, module),
		INTERPRETER_KEY("jar", KEY_WORDS, jar),
		INTERPRETER_KEY("values", KEY_WORDS, values),
		INTERPRETER_KEY("file", KEY_WORDS, file),
		INTERPRETER_KEY("end", KEY_WORDS, end),
		INTERPRETER_KEY("clusters", KEY_BOOL, clusters),
		INTERPRETER_KEY("main_class", KEY_BOOL, main_class),
		INTERPRETER_KEY("shell", KEY_BOOL, shell),
		{0},
	};
	struct interpreter *interpreter = arena_alloc(&reader->rules->arena, sizeof(*interpreter)),
			   **tail;
	int error;

	if (!interpreter)
		return -ENOMEM;
	*interpreter = (struct interpreter){.place = place_of(reader, node->line),
					    .origin = reader->origin};
	if (!interpreter->place)
		return -ENOMEM;
	error = read_map(reader, node, keys, "an interpreter", interpreter);
	error = error ? error : require(reader, node, "the interpreter", "name", interpreter->name);
	error = error ? error : require(reader, node, "the interpreter", "exe", interpreter->exe);
	for (tail = &reader->rules->interpreters; !error && *tail; tail = &(*tail)->next)
		if ((*tail)->origin == reader->origin &&
		    !strcmp((*tail)->name, interpreter->name))
			error = reader_error(
				reader, node->line,
				"the interpreter \"%s\" is defined twice, first at %s; merge them",
				interpreter->name, (*tail)->place);
	if (!error)
		*tail = interpreter;
	return error;
}

// The quick look for secrets goes by plain text.
static int check_needles(struct reader *reader, const struct node *node, const struct globs *globs)
{
	for (uint32_t i = 0; globs && i < globs->count; i++)
		if (strlen(glob_needle(globs->items[i])) < 2)
			return reader_error(reader, node->line,
					    "the pattern \"%s\" holds no two plain characters side "
					    "by side; say more",
					    glob_pattern(globs->items[i]));
	return 0;
}

int read_redaction(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		{"flag", KEY_FOLDED_GLOBS, offsetof(struct redaction, flags)},
		{"value", KEY_FOLDED_GLOBS, offsetof(struct redaction, values)},
		{"assignment", KEY_FOLDED_GLOBS, offsetof(struct redaction, assignments)},
		{"program", KEY_FOLDED_GLOBS, offsetof(struct redaction, programs)},
		{0},
	};
	struct redaction *redaction = arena_alloc(&reader->rules->arena, sizeof(*redaction)),
			 **tail;
	int error;

	if (!redaction)
		return -ENOMEM;
	*redaction = (struct redaction){.place = place_of(reader, node->line)};
	if (!redaction->place)
		return -ENOMEM;
	error = read_map(reader, node, keys, "a redaction", redaction);
	if (!error && !redaction->flags && !redaction->values && !redaction->assignments)
		error = reader_error(reader, node->line,
				     "the redaction hides nothing; add flag, value or assignment");
	error = error ? error : check_needles(reader, node, redaction->flags);
	error = error ? error : check_needles(reader, node, redaction->values);
	error = error ? error : check_needles(reader, node, redaction->assignments);
	for (tail = &reader->rules->redactions; *tail;)
		tail = &(*tail)->next;
	if (!error)
		*tail = redaction;
	return error;
}

static int read_filter_value(struct reader *reader, const struct node *node, const char *text,
			     struct filter_entry *filter)
{
	char *end;

	filter->entry.value = text;
	if (has_wildcard(text))
		return reader_error(
			reader, node->line,
			"the filter runs in the kernel and takes exact values, not \"%s\"", text);
	switch (filter->entry.field) {
	case RULES_FILTER_COMM:
		if (strlen(text) <= 15)
			return 0;
		return reader_error(reader, node->line,
				    "a comm has at most 15 characters; write \"%.15s\"", text);
	case RULES_FILTER_UID:
		errno = 0;
		unsigned long long uid = strtoull(text, &end, 10);
		filter->entry.uid = (uint32_t)uid;
		if (*text >= '0' && *text <= '9' && !*end && !errno && uid < UINT32_MAX)
			return 0;
		return reader_error(reader, node->line, "\"%s\" is not a user id; write a number",
				    text);
	case RULES_FILTER_CGROUP:
		if (*text == '/')
			return 0;
		return reader_error(reader, node->line,
				    "a cgroup is a path from the root; write \"/%s\"", text);
	case RULES_FILTER_EXE:
		if (!strchr(text, '/'))
			return 0;
		return reader_error(reader, node->line,
				    "the filter takes the name of an executable; write \"%s\"",
				    path_base(text));
	}
	return 0;
}

static int read_filter_field(struct reader *reader, const struct node *node,
			     enum rules_filter_action action)
{
	static const char *const fields[] = {
		[RULES_FILTER_COMM] = "comm",
		[RULES_FILTER_UID] = "uid",
		[RULES_FILTER_CGROUP] = "cgroup",
		[RULES_FILTER_EXE] = "exe",
	};
	const struct node *item = node->kind == NODE_LIST ? node->children : node;
	uint32_t field = 0;

	while (field < 4 && strcmp(fields[field], node->key))
		field++;
	if (field == 4)
		return reader_error(reader, node->line,
				    "unknown key \"%s\" in a filter; known: comm uid cgroup exe",
				    node->key);
	for (; item; item = node->kind == NODE_LIST ? item->next : NULL) {
		struct filter_entry **tail = &reader->rules->filters;
		struct filter_entry *filter = arena_alloc(&reader->rules->arena, sizeof(*filter));
		if (!filter)
			return -ENOMEM;
		*filter = (struct filter_entry){.entry = {.action = action, .field = field}};
		if (item->kind != NODE_TEXT || !*item->text)
			return reader_error(reader, item->line,
					    "\"%s\" takes a text or a list of texts", node->key);
		int error = read_filter_value(reader, item, item->text, filter);
		if (error)
			return error;
		while (*tail)
			tail = &(*tail)->next;
		*tail = filter;
	}
	return 0;
}

int read_filter(struct reader *reader, const struct node *node)
{
	for (const struct node *item = node->kind == NODE_MAP ? node->children : NULL; item;
	     item = item->next) {
		bool include = !strcmp(item->key, "include");
		int error = 0;
		if ((!include && strcmp(item->key, "exclude")) || item->kind != NODE_MAP)
			return reader_error(
				reader, item->line,
				"a filter is exclude: or include: over comm, uid, cgroup or exe");
		for (const struct node *field = item->children; field && !error;
		     field = field->next)
			error = read_filter_field(reader, field,
						  include ? RULES_FILTER_INCLUDE
							  : RULES_FILTER_EXCLUDE);
		if (error)
			return error;
	}
	if (node->kind != NODE_MAP)
		return reader_error(
			reader, node->line,
			"a filter is exclude: or include: over comm, uid, cgroup or exe");
	return 0;
}

static int read_endings(struct reader *reader, const struct node *node, struct ending **tail)
{
	struct node *list;
	int error = node_split(reader, node, &list);
	uint32_t weight = 0;

	if (error)
		return error;
	for (; *tail; tail = &(*tail)->next)
		weight = (*tail)->weight + 1;
	for (const struct node *item = list->children; item; item = item->next) {
		struct ending *ending = arena_alloc(&reader->rules->arena, sizeof(*ending));
		if (!ending)
			return -ENOMEM;
		if (item->kind != NODE_TEXT || !*item->text || has_wildcard(item->text))
			return reader_error(reader, item->line,
					    "an ending is plain text; for example .fastq.gz");
		*ending = (struct ending){.length = strlen(item->text), .weight = weight++};
		ending->text = arena_strndup(&reader->rules->arena, item->text, ending->length);
		if (!ending->text)
			return -ENOMEM;
		*tail = ending;
		tail = &ending->next;
	}
	return 0;
}

int read_samples(struct reader *reader, const struct node *node)
{
	struct rules *rules = reader->rules;

	if (node->kind != NODE_MAP)
		return reader_error(reader, node->line,
				    "samples is a map of suffixes, trim and ignore");
	for (const struct node *item = node->children; item; item = item->next) {
		int error;
		if (!strcmp(item->key, "suffixes"))
			error = read_endings(reader, item, &rules->sample_suffixes);
		else if (!strcmp(item->key, "trim"))
			error = read_endings(reader, item, &rules->sample_trims);
		else if (!strcmp(item->key, "ignore"))
			error = read_words_into(reader, item, &rules->sample_ignore);
		else
			error = reader_error(
				reader, item->line,
				"unknown key \"%s\" in samples; known: suffixes trim ignore",
				item->key);
		if (error)
			return error;
	}
	return 0;
}
