// SPDX-License-Identifier: Apache-2.0
// Rules, the reading of rules proper: tools and their catalogue, engines with their tasks, jobs and
// boundaries. A rule is added when all of it was good; its number is its place in the order.
#include "core/rules_read.h"

#include <errno.h>
#include <string.h>

enum { RULES_MAX = 10000 };

struct rule *rule_new(struct reader *reader, const struct node *node, enum section section)
{
	struct rule *rule = arena_alloc(&reader->rules->arena, sizeof(*rule));

	if (rule)
		*rule = (struct rule){.section = (uint8_t)section,
				      .origin = reader->origin,
				      .place = place_of(reader, node->line)};
	return rule && rule->place ? rule : NULL;
}

// Adds a complete rule at the end. The name must be new among those of its section and origin.
int rule_add(struct reader *reader, const struct node *node, struct rule *rule)
{
	struct rule **tail = &reader->rules->first;

	if (reader->rules->count >= RULES_MAX)
		return reader_error(reader, node->line, "more than %d rules; remove some",
				    RULES_MAX);
	for (; *tail; tail = &(*tail)->next)
		if (rule->section != SECTION_TASK && (*tail)->section == rule->section &&
		    (*tail)->origin == rule->origin && !strcmp((*tail)->name, rule->name))
			return reader_error(reader, node->line,
					    "the %s \"%s\" is defined twice, first at %s; merge "
					    "them or rename one",
					    section_names[rule->section], rule->name,
					    (*tail)->place);
	rule->order = reader->rules->count++;
	*tail = rule;
	return 0;
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

int read_tool(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),
		RULE_KEY("when", KEY_CONDITION, when),
		RULE_KEY("display", KEY_TEMPLATE, title),
		RULE_KEY("subcommands", KEY_WORDS, subcommands),
		RULE_KEY("category", KEY_TEXT, category),
		RULE_KEY("sample", KEY_TEMPLATE, sample),
		RULE_KEY("wrapper", KEY_BOOL, wrapper),
		RULE_KEY("silent", KEY_BOOL, silent),
		RULE_KEY("probe", KEY_BOOL, probe),
		RULE_KEY("starts_probes", KEY_BOOL, starts_probes),
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
		RULE_KEY("anywhere", KEY_BOOL, anywhere), RULE_KEY("join", KEY_ELSEWHERE, joins),
		{0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_TASK);
	int error;

	if (!rule)
		return -ENOMEM;
	rule->name = rule->engine = reader->engine;
	error = read_map(reader, node, keys, "a task", rule);
	error = error ? error : require(reader, node, "the task", "when", rule->when);
	error = error ? error : joins_read(reader, node, &rule->joins);
	return error ? error : rule_add(reader, node, rule);
}

int read_engine(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),     RULE_KEY("when", KEY_CONDITION, when),
		RULE_KEY("run", KEY_TEMPLATE, title), RULE_KEY("at_root", KEY_BOOL, at_root),
		RULE_KEY("tasks", KEY_ELSEWHERE, id), RULE_KEY("join", KEY_ELSEWHERE, joins),
		{0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_ENGINE);
	const struct node *tasks;
	int error;

	if (!rule)
		return -ENOMEM;
	error = read_map(reader, node, keys, "an engine", rule);
	error = error ? error : require(reader, node, "the engine", "name", rule->name);
	error = error ? error : check_name(reader, node, rule->name);
	error = error ? error : joins_read(reader, node, &rule->joins);
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

int read_job(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		RULE_KEY("name", KEY_TEXT, name),     RULE_KEY("when", KEY_CONDITION, when),
		RULE_KEY("id", KEY_TEMPLATE, id),     RULE_KEY("run", KEY_TEMPLATE, title),
		RULE_KEY("task", KEY_TEMPLATE, task), RULE_KEY("join", KEY_ELSEWHERE, joins),
		{0},
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
	error = error ? error : joins_read(reader, node, &rule->joins);
	rule->engine = rule->name;
	return error ? error : rule_add(reader, node, rule);
}

int read_boundary(struct reader *reader, const struct node *node)
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
	struct condition *condition = arena_alloc(&reader->rules->arena, sizeof(*condition));
	struct node *list = NULL, *name = arena_alloc(reader->nodes, sizeof(*name));
	int error = also ? node_split(reader, also, &list) : 0;

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
		RULE_KEY("silent", KEY_BOOL, silent),
		RULE_KEY("probe", KEY_BOOL, probe),
		RULE_KEY("starts_probes", KEY_BOOL, starts_probes),
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

int read_catalogue(struct reader *reader, const struct node *node)
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
