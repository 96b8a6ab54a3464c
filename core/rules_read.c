// SPDX-License-Identifier: Apache-2.0
// Rules, the reading part: maps by tables of keys, words, and which section is read by whom. An
// unknown key, a wrong type and a name given twice are errors with file, line, reason and what to
// do; after one, reading goes on so that all are told.
#include "core/rules_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	WORDS_MAX = 5000,
	NODES_BLOCK = 256 * 1024, // so large that the C library gives it back to the kernel
};

struct node *node_find(const struct node *map, const char *key)
{
	for (struct node *item = map->children; item; item = item->next)
		if (!strcmp(item->key, key))
			return item;
	return NULL;
}

// Words of a text, or the texts of a list, as a list, which lives as long as the tree.
int node_split(struct reader *reader, const struct node *node, struct node **ret_list)
{
	struct arena *arena = reader->nodes;
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

bool has_wildcard(const char *text)
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
	error = node_split(reader, node, &list);
	if (error)
		return error;
	*words = (struct words){0};
	for (struct node *item = list->children; item; item = item->next)
		if (++count > WORDS_MAX)
			return reader_error(reader, item->line, "more than %d words; remove some",
					    WORDS_MAX);
		else if (item->kind != NODE_TEXT || !*item->text)
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
		while (slots[slot] && strcmp(slots[slot], item->text))
			slot = (slot + 1) & words->mask;
		if (!slots[slot])
			slots[slot] = arena_strndup(arena, item->text, strlen(item->text));
		if (!slots[slot])
			return -ENOMEM;
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
		error = node_split(reader, node, &list);
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
int read_map(struct reader *reader, const struct node *map, const struct key *keys,
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

const char *place_of(struct reader *reader, uint32_t line)
{
	char text[512];

	snprintf(text, sizeof(text), "%s:%u", reader->file, line);
	return arena_strndup(&reader->rules->arena, text, strlen(text));
}

int require(struct reader *reader, const struct node *node, const char *what, const char *key,
	    const void *value)
{
	if (value)
		return 0;
	return reader_error(reader, node->line, "%s has no \"%s\"; add it", what, key);
}

int read_list(struct reader *reader, const struct node *node,
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

int read_words_into(struct reader *reader, const struct node *node, const struct words **list)
{
	const struct words *words = NULL;
	int error = words_read(reader, node, &words);

	if (error)
		return error;
	((struct words *)words)->next = *list;
	*list = words;
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
		{"joins", read_join},
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
		return read_words_into(reader, node, &reader->rules->utilities);
	if (!strcmp(node->key, "noise"))
		return read_words_into(reader, node, &reader->rules->noise);
	if (!strcmp(node->key, "questions"))
		return read_words_into(reader, node, &reader->rules->questions);
	if (!strcmp(node->key, "multicall"))
		return read_words_into(reader, node, &reader->rules->multicall);
	return reader_error(
		reader, node->line,
		"unknown section \"%s\"; known: tools catalogue engines jobs boundaries joins "
		"interpreters utilities noise questions multicall samples redact filter",
		node->key);
}

static int read_file(struct reader *reader, const char *text, size_t size)
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

int rules_read_file(struct reader *reader, const char *text, size_t size)
{
	struct arena nodes;
	int error;

	arena_init(&nodes, NODES_BLOCK);
	reader->nodes = &nodes;
	error = read_file(reader, text, size);
	reader->nodes = NULL;
	arena_free(&nodes);
	return error;
}
