// SPDX-License-Identifier: Apache-2.0
// Rules, the reading part: what the sections of a file hold, by tables of keys. An unknown key, a
// wrong type and a name given twice are errors with file, line, reason and what to do; after one,
// reading goes on so that all are told.
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules_private.h"

enum { RULES_MAX = 10000 };

enum key_type {
	KEY_TEXT,
	KEY_BOOL,
	KEY_TEMPLATE,
	KEY_WORDS,
	KEY_GLOBS,
	KEY_FOLDED_GLOBS,
	KEY_CONDITION,
	KEY_ELSEWHERE
};

struct key {
	const char *name; // NULL ends a table
	enum key_type type;
	size_t offset;
};

static struct node *node_find(const struct node *map, const char *key)
{
	for (struct node *item = map->children; item; item = item->next)
		if (!strcmp(item->key, key))
			return item;
	return NULL;
}

// Words of a text, or the texts of a list, as a list.
static int split_words(struct reader *reader, const struct node *node, struct node **ret_list)
{
	struct arena *arena = &reader->rules->arena;
	struct node *list = arena_alloc(arena, sizeof(*list)), **tail;

	if (!list)
		return -ENOMEM;
	*list = *node;
	*ret_list = list;
	if (node->kind == NODE_LIST)
		return 0;
	if (node->kind != NODE_TEXT)
		return reader_error(reader, node->line,
				    "expected words; for example \"index mem\" or [index, mem]");
	list->kind = NODE_LIST;
	list->children = NULL;
	tail = &list->children;
	for (const char *text = node->text; *(text += strspn(text, " \t\n"));) {
		size_t length = strcspn(text, " \t\n");
		struct node *word = arena_alloc(arena, sizeof(*word));
		if (!word)
			return -ENOMEM;
		*word = (struct node){.line = node->line,
				      .text = arena_strndup(arena, text, length)};
		if (!word->text)
			return -ENOMEM;
		*tail = word;
		tail = &word->next;
		text += length;
	}
	return 0;
}

static bool has_wildcard(const char *text)
{
	return strpbrk(text, "*?[\\") != NULL;
}

int words_read(struct reader *reader, const struct node *node, const struct words **ret_words)
{
	struct arena *arena = &reader->rules->arena;
	struct words *words = arena_alloc(arena, sizeof(*words));
	struct node *list = NULL, *wild = NULL;
	uint32_t count = 1;
	const char **slots;
	int error;

	if (!words)
		return -ENOMEM;
	error = split_words(reader, node, &list);
	if (error)
		return error;
	*words = (struct words){0};
	for (struct node *item = list->children; item; item = item->next, count++)
		if (item->kind != NODE_TEXT || !*item->text)
			return reader_error(reader, item->line, "expected a word");
	while (words->mask < count * 2)
		words->mask = words->mask * 2 + 1;
	slots = arena_alloc(arena, (words->mask + 1) * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	memset(slots, 0, (words->mask + 1) * sizeof(*slots));
	words->slots = slots;
	for (struct node *item = list->children, *next; item; item = next) {
		next = item->next;
		if (has_wildcard(item->text)) {
			item->next = wild;
			wild = item;
			continue;
		}
		uint32_t slot = text_hash(item->text, strlen(item->text)) & words->mask;
		while (slots[slot])
			slot = (slot + 1) & words->mask;
		slots[slot] = item->text;
	}
	*ret_words = words;
	list->children = wild;
	return wild ? globs_read(reader, list, 0, &words->globs) : 0;
}

static int read_bool(struct reader *reader, const struct node *node, bool *ret_value)
{
	bool yes = node->kind == NODE_TEXT &&
		   (!strcmp(node->text, "true") || !strcmp(node->text, "yes"));
	bool no = node->kind == NODE_TEXT &&
		  (!strcmp(node->text, "false") || !strcmp(node->text, "no"));

	if (!yes && !no)
		return reader_error(reader, node->line, "\"%s\" is true or false", node->key);
	*ret_value = yes;
	return 0;
}

static int read_text(struct reader *reader, const struct node *node, const char **ret_text)
{
	if (node->kind != NODE_TEXT || !*node->text)
		return reader_error(reader, node->line, "\"%s\" takes one text", node->key);
	*ret_text = node->text;
	return 0;
}

static int read_value(struct reader *reader, const struct node *node, const struct key *key,
		      void *base)
{
	void *value = (char *)base + key->offset;
	struct node *list = NULL;
	int error;

	switch (key->type) {
	case KEY_TEXT:
		return read_text(reader, node, value);
	case KEY_BOOL:
		return read_bool(reader, node, value);
	case KEY_TEMPLATE:
		return template_read(reader, node, value);
	case KEY_WORDS:
		return words_read(reader, node, value);
	case KEY_GLOBS:
		error = split_words(reader, node, &list);
		return error ? error : globs_read(reader, list, 0, value);
	case KEY_FOLDED_GLOBS:
		return globs_read(reader, node, GLOB_FOLD, value);
	case KEY_CONDITION:
		return condition_read(reader, node, value);
	case KEY_ELSEWHERE:
		break;
	}
	return 0;
}

// Reads a map by its table. -EINVAL after all its errors were told.
static int read_map(struct reader *reader, const struct node *map, const struct key *keys,
		    const char *what, void *base)
{
	int result = 0;

	if (map->kind != NODE_MAP)
		return reader_error(reader, map->line,
				    "%s is a map of keys; for example \"%s: ...\"", what,
				    keys[0].name);
	for (const struct node *item = map->children; item; item = item->next) {
		const struct key *key = keys;
		while (key->name && strcmp(key->name, item->key))
			key++;
		if (!key->name) {
			char known[256] = "";
			for (key = keys; key->name; key++)
				snprintf(known + strlen(known), sizeof(known) - strlen(known),
					 " %s", key->name);
			result = reader_error(reader, item->line,
					      "unknown key \"%s\" in %s; known:%s", item->key, what,
					      known);
			continue;
		}
		int error = read_value(reader, item, key, base);
		if (error == -ENOMEM)
			return error;
		result = error ? error : result;
	}
	return result;
}

static const char *place_of(struct reader *reader, uint32_t line)
{
	char text[512];

	snprintf(text, sizeof(text), "%s:%u", reader->file, line);
	return arena_strndup(&reader->rules->arena, text, strlen(text));
}

static struct rule *rule_new(struct reader *reader, const struct node *node, enum section section)
{
	struct rule *rule = arena_alloc(&reader->rules->arena, sizeof(*rule));

	if (rule)
		*rule = (struct rule){.section = (uint8_t)section,
				      .shipped = reader->shipped,
				      .place = place_of(reader, node->line)};
	return rule && rule->place ? rule : NULL;
}

// Adds a complete rule at the end. The name must be new among those of its section and origin.
static int rule_add(struct reader *reader, const struct node *node, struct rule *rule)
{
	struct rule **tail = &reader->rules->first;

	if (reader->rules->count >= RULES_MAX)
		return reader_error(reader, node->line, "more than %d rules; remove some",
				    RULES_MAX);
	for (; *tail; tail = &(*tail)->next)
		if (rule->section != SECTION_TASK && (*tail)->section == rule->section &&
		    (*tail)->shipped == rule->shipped && !strcmp((*tail)->name, rule->name))
			return reader_error(reader, node->line,
					    "the %s \"%s\" is defined twice, first at %s; merge "
					    "them or rename one",
					    section_names[rule->section], rule->name,
					    (*tail)->place);
	rule->order = reader->rules->count++;
	*tail = rule;
	return 0;
}

static int require(struct reader *reader, const struct node *node, const char *what,
		   const char *key, const void *value)
{
	if (value)
		return 0;
	return reader_error(reader, node->line, "%s has no \"%s\"; add it", what, key);
}

// Engine names become part of run ids.
static int check_name(struct reader *reader, const struct node *node, const char *name)
{
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_")])
		return reader_error(reader, node->line,
				    "the name \"%s\" becomes part of run ids; use a-z 0-9 - _ only",
				    name);
	return 0;
}

#define RULE_KEY(name, type, member) {name, type, offsetof(struct rule, member)}

static int read_tool(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),
		RULE_KEY("when", KEY_CONDITION, when),
		RULE_KEY("display", KEY_TEMPLATE, title),
		RULE_KEY("subcommands", KEY_WORDS, subcommands),
		RULE_KEY("category", KEY_TEXT, category),
		RULE_KEY("sample", KEY_TEMPLATE, sample),
		RULE_KEY("wrapper", KEY_BOOL, wrapper),
		{0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_TOOL);
	int error;

	if (!rule)
		return -ENOMEM;
	error = read_map(reader, node, keys, "a tool", rule);
	error = error ? error : require(reader, node, "the tool", "name", rule->name);
	error = error ? error : require(reader, node, "the tool", "when", rule->when);
	return error ? error : rule_add(reader, node, rule);
}

static int read_task(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("when", KEY_CONDITION, when),	  RULE_KEY("id", KEY_TEMPLATE, id),
		RULE_KEY("name", KEY_TEMPLATE, title),	  RULE_KEY("sample", KEY_TEMPLATE, sample),
		RULE_KEY("anywhere", KEY_BOOL, anywhere), {0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_TASK);
	int error;

	if (!rule)
		return -ENOMEM;
	rule->name = rule->engine = reader->engine;
	error = read_map(reader, node, keys, "a task", rule);
	error = error ? error : require(reader, node, "the task", "when", rule->when);
	return error ? error : rule_add(reader, node, rule);
}

static int read_list(struct reader *reader, const struct node *node,
		     int (*read)(struct reader *reader, const struct node *node))
{
	int result = 0;

	if (node->kind != NODE_LIST)
		return reader_error(reader, node->line,
				    "\"%s\" is a list; begin each entry with \"- \"", node->key);
	for (const struct node *item = node->children; item; item = item->next) {
		int error = read(reader, item);
		if (error == -ENOMEM)
			return error;
		result = error ? error : result;
	}
	return result;
}

static int read_engine(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),     RULE_KEY("when", KEY_CONDITION, when),
		RULE_KEY("run", KEY_TEMPLATE, title), RULE_KEY("at_root", KEY_BOOL, at_root),
		RULE_KEY("tasks", KEY_ELSEWHERE, id), {0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_ENGINE);
	const struct node *tasks;
	int error;

	if (!rule)
		return -ENOMEM;
	error = read_map(reader, node, keys, "an engine", rule);
	error = error ? error : require(reader, node, "the engine", "name", rule->name);
	error = error ? error : check_name(reader, node, rule->name);
	if (error)
		return error;
	tasks = node_find(node, "tasks");
	rule->engine = rule->name;
	rule->has_tasks = tasks;
	reader->engine = rule->name;
	// An engine may be known by its tasks alone, where only those run on a host.
	if (rule->when || !tasks)
		error = require(reader, node, "the engine", "when", rule->when);
	if (!error && rule->when)
		error = rule_add(reader, node, rule);
	return error || !tasks ? error : read_list(reader, tasks, read_task);
}

static int read_job(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),     RULE_KEY("when", KEY_CONDITION, when),
		RULE_KEY("id", KEY_TEMPLATE, id),     RULE_KEY("run", KEY_TEMPLATE, title),
		RULE_KEY("task", KEY_TEMPLATE, task), {0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_JOB);
	int error;

	if (!rule)
		return -ENOMEM;
	error = read_map(reader, node, keys, "a job", rule);
	error = error ? error : require(reader, node, "the job", "name", rule->name);
	error = error ? error : check_name(reader, node, rule->name);
	error = error ? error : require(reader, node, "the job", "when", rule->when);
	error = error ? error : require(reader, node, "the job", "id", rule->id);
	rule->engine = rule->name;
	return error ? error : rule_add(reader, node, rule);
}

static int read_boundary(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),
		RULE_KEY("when", KEY_CONDITION, when),
		{0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_BOUNDARY);
	int error;

	if (!rule)
		return -ENOMEM;
	error = read_map(reader, node, keys, "a boundary", rule);
	error = error ? error : require(reader, node, "the boundary", "name", rule->name);
	error = error ? error : require(reader, node, "the boundary", "when", rule->when);
	return error ? error : rule_add(reader, node, rule);
}

// The condition "program: NAME or one of these others".
static int catalogue_condition(struct reader *reader, const struct node *node,
			       const struct node *also, const struct condition **ret_condition)
{
	struct arena *arena = &reader->rules->arena;
	struct condition *condition = arena_alloc(arena, sizeof(*condition));
	struct node *list = NULL, *name = arena_alloc(arena, sizeof(*name));
	int error = also ? split_words(reader, also, &list) : 0;

	if (error)
		return error;
	if (!condition || !name)
		return -ENOMEM;
	*name = (struct node){
		.next = list ? list->children : NULL, .text = node->key, .line = node->line};
	struct node names = {.kind = NODE_LIST, .children = name, .line = node->line};
	*condition = (struct condition){
		.kind = CONDITION_TEXT, .field = FIELD_PROGRAM, .line = node->line};
	*ret_condition = condition;
	return globs_read(reader, &names, GLOB_PATH, &condition->globs);
}

static int read_catalogue_entry(struct reader *reader, const struct node *node,
				const char *category)
{
	static const struct key keys[] = {
		RULE_KEY("also", KEY_ELSEWHERE, name),
		RULE_KEY("subcommands", KEY_WORDS, subcommands),
		RULE_KEY("display", KEY_TEMPLATE, title),
		RULE_KEY("wrapper", KEY_BOOL, wrapper),
		{0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_TOOL);
	int error = 0;

	if (!rule)
		return -ENOMEM;
	rule->name = node->key;
	rule->category = category;
	rule->catalogue = true;
	if (node->kind == NODE_MAP)
		error = read_map(reader, node, keys, "a catalogue entry", rule);
	else if (node->kind == NODE_LIST || *node->text)
		error = words_read(reader, node, &rule->subcommands);
	if (!error)
		error = catalogue_condition(reader, node,
					    node->kind == NODE_MAP ? node_find(node, "also") : NULL,
					    &rule->when);
	return error ? error : rule_add(reader, node, rule);
}

static int read_catalogue(struct reader *reader, const struct node *node)
{
	int result = 0;

	if (node->kind != NODE_MAP)
		return reader_error(reader, node->line,
				    "catalogue is a map of categories, each a map of tools");
	for (const struct node *category = node->children; category; category = category->next) {
		if (category->kind != NODE_MAP) {
			result = reader_error(reader, category->line,
					      "the category \"%s\" is a map of tools; for example "
					      "\"bwa: index mem\"",
					      category->key);
			continue;
		}
		for (const struct node *item = category->children; item; item = item->next) {
			int error = read_catalogue_entry(reader, item, category->key);
			if (error == -ENOMEM)
				return error;
			result = error ? error : result;
		}
	}
	return result;
}

#define INTERPRETER_KEY(name, type, member) {name, type, offsetof(struct interpreter, member)}

static int read_interpreter(struct reader *reader, const struct node *node)
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
					    .shipped = reader->shipped};
	if (!interpreter->place)
		return -ENOMEM;
	error = read_map(reader, node, keys, "an interpreter", interpreter);
	error = error ? error : require(reader, node, "the interpreter", "name", interpreter->name);
	error = error ? error : require(reader, node, "the interpreter", "exe", interpreter->exe);
	for (tail = &reader->rules->interpreters; !error && *tail; tail = &(*tail)->next)
		if ((*tail)->shipped == reader->shipped &&
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

static int read_redaction(struct reader *reader, const struct node *node)
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

static int read_filter(struct reader *reader, const struct node *node)
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
	int error = split_words(reader, node, &list);
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
		*ending = (struct ending){
			.text = item->text, .length = strlen(item->text), .weight = weight++};
		*tail = ending;
		tail = &ending->next;
	}
	return 0;
}

static int add_words(struct reader *reader, const struct node *node, const struct words **list)
{
	const struct words *words = NULL;
	int error = words_read(reader, node, &words);

	if (error)
		return error;
	((struct words *)words)->next = *list;
	*list = words;
	return 0;
}

static int read_samples(struct reader *reader, const struct node *node)
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
			error = add_words(reader, item, &rules->sample_ignore);
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

static int read_section(struct reader *reader, const struct node *node)
{
	static const struct {
		const char *name;
		int (*read)(struct reader *reader, const struct node *node);
	} lists[] = {
		{"tools", read_tool},
		{"engines", read_engine},
		{"jobs", read_job},
		{"boundaries", read_boundary},
		{"redact", read_redaction},
		{"filter", read_filter},
		{"interpreters", read_interpreter},
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (!strcmp(node->key, lists[i].name))
			return read_list(reader, node, lists[i].read);
	if (!strcmp(node->key, "catalogue"))
		return read_catalogue(reader, node);
	if (!strcmp(node->key, "samples"))
		return read_samples(reader, node);
	if (!strcmp(node->key, "utilities"))
		return add_words(reader, node, &reader->rules->utilities);
	if (!strcmp(node->key, "noise"))
		return add_words(reader, node, &reader->rules->noise);
	if (!strcmp(node->key, "multicall"))
		return add_words(reader, node, &reader->rules->multicall);
	return reader_error(
		reader, node->line,
		"unknown section \"%s\"; known: tools catalogue engines jobs boundaries "
		"interpreters utilities noise multicall samples redact filter",
		node->key);
}

int rules_read_file(struct reader *reader, const char *text, size_t size)
{
	const struct node *root;
	int error = rules_yaml_read(reader, text, size, &root);

	if (error)
		return error;
	if (root->kind != NODE_MAP)
		return reader_error(reader, root->line,
				    "a rules file is a map of sections; for example \"tools:\"");
	for (const struct node *item = root->children; item; item = item->next) {
		int one = read_section(reader, item);
		if (one == -ENOMEM)
			return one;
		error = one ? one : error;
	}
	return error;
}
