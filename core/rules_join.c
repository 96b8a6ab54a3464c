// SPDX-License-Identifier: Apache-2.0
// Rules, the join part: texts that parts of one run have in common on different hosts (a job's id, a work directory),
// with the reason in words. Says only what a process shows of itself; whether two parts are one run is decided where
// all hosts are seen.
// A key that would be cut, or that holds a secret, is no key.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules_read.h"

enum { JOIN_KEY_MAX = 512, WITHIN_DEFAULT_S = 60, WITHIN_MAX = 10000 };

static int read_how(struct reader *reader, const struct node *node, struct join_rule *join)
{
	static const char *const names[] = {[JOIN_ID] = "id", [JOIN_PLACE] = "place", [JOIN_WEAK] = "weak"};
	const char *text = join->how_text ? join->how_text : "id";

	for (uint8_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], text)) {
			join->how = i;
			return 0;
		}
	return reader_error(reader, node->line, "\"how: %s\" is none of id, place and weak", text);
}

// "90s", "10m", "1h", "2d" or "ever".
static int read_within(struct reader *reader, const struct node *node, struct join_rule *join)
{
	static const char units[] = "smhd";
	static const uint32_t seconds[] = {1, 60, 3600, 86400};
	const char *text = join->within_text;
	char *end;
	unsigned long number;

	join->within_s = join->how == JOIN_ID ? JOIN_EVER : WITHIN_DEFAULT_S;
	if (!text || !strcmp(text, "ever")) {
		join->within_s = text ? JOIN_EVER : join->within_s;
		return 0;
	}
	number = strtoul(text, &end, 10);
	if (end == text || number > WITHIN_MAX || !*end || end[1] || !strchr(units, *end))
		return reader_error(reader, node->line, "\"within: %s\" is no time such as 90s, 10m, 1h, 2d or ever",
				    text);
	join->within_s = (uint32_t)number * seconds[strchr(units, *end) - units];
	return 0;
}

#define JOIN_KEY(name, type, member) {name, type, offsetof(struct join_rule, member)}

static const struct key join_keys[] = {
	JOIN_KEY("key", KEY_TEMPLATE, key),
	JOIN_KEY("why", KEY_TEXT, why),
	JOIN_KEY("how", KEY_TEXT, how_text),
	JOIN_KEY("within", KEY_TEXT, within_text),
	JOIN_KEY("when", KEY_CONDITION, when),
	JOIN_KEY("head", KEY_BOOL, head),
	{0},
};

static int read_one(struct reader *reader, const struct node *node, const struct join_rule ***tail)
{
	struct join_rule *join = arena_alloc(&reader->rules->arena, sizeof(*join));
	int error;

	if (!join)
		return -ENOMEM;
	*join = (struct join_rule){0};
	error = read_map(reader, node, join_keys, "a join", join);
	error = error ? error : require(reader, node, "the join", "key", join->key);
	error = error ? error : require(reader, node, "the join", "why", join->why);
	error = error ? error : read_how(reader, node, join);
	error = error ? error : read_within(reader, node, join);
	**tail = join;
	*tail = &join->next;
	return error;
}

int joins_read(struct reader *reader, const struct node *map, const struct join_rule **ret_joins)
{
	const struct node *node = node_find(map, "join");
	const struct join_rule **tail = ret_joins;
	int result = 0;

	if (!node)
		return 0;
	if (node->kind != NODE_LIST)
		return read_one(reader, node, &tail);
	for (const struct node *item = node->children; item; item = item->next) {
		int error = read_one(reader, item, &tail);
		if (error == -ENOMEM)
			return error;
		result = error ? error : result;
	}
	return result;
}

// "/a//b/./c/../d/" behind the scope becomes "/a/b/d": the same place in the same words.
static size_t normalise(char *text, size_t length)
{
	char *path = memchr(text, ':', length);
	size_t in, out;

	path = path ? path + 1 : text;
	length -= (size_t)(path - text);
	if (!length || *path != '/') {
		while (length && path[length - 1] == '/')
			length--;
		return length + (size_t)(path - text);
	}
	for (in = out = 0; in < length;) {
		size_t part = ++in;
		while (in < length && path[in] != '/')
			in++;
		if (in == part || (in - part == 1 && path[part] == '.'))
			continue;
		if (in - part == 2 && path[part] == '.' && path[part + 1] == '.') {
			while (out && path[--out] != '/')
				;
			continue;
		}
		path[out++] = '/';
		memmove(path + out, path + part, in - part);
		out += in - part;
	}
	if (!out)
		path[out++] = '/';
	return out + (size_t)(path - text);
}

static int take_one(const struct rules *rules, const struct join_rule *join, bool job, const struct view *view,
		    struct arena *arena, struct rule_result *result)
{
	char text[JOIN_KEY_MAX];
	const char *shown;
	uint32_t shown_size;
	size_t length;
	int error;

	if (!template_fill(join->key, view, NULL, text, sizeof(text), &length) || length >= sizeof(text) - 1)
		return 0;
	length = normalise(text, length);
	char *key = arena_strndup(arena, text, length);
	if (!key)
		return -ENOMEM;
	error = rules_redact(rules, key, (uint32_t)length + 1, arena, &shown, &shown_size);
	if (error || shown != key)
		return error;
	for (uint32_t i = 0; i < result->join_count; i++)
		if (!strcmp(result->joins[i].key, key))
			return 0;
	result->joins[result->join_count++] = (struct rule_join){
		.key = key,
		.why = join->why,
		.within_s = join->within_s,
		.how = join->how,
		.head = join->head,
		.job = job,
	};
	return 0;
}

int joins_take(const struct rules *rules, const struct rule *rule, const struct view *view, struct arena *arena,
	       struct rule_result *result)
{
	for (const struct join_rule *join = rule->joins; join && result->join_count < JOINS_MAX; join = join->next) {
		int error = join->when && !condition_holds(rules, join->when, view)
				    ? 0
				    : take_one(rules, join, rule->section == SECTION_JOB, view, arena, result);
		if (error)
			return error;
	}
	return 0;
}

// An entry of the section "joins": for any process inside a run.
int read_join(struct reader *reader, const struct node *node)
{
	static const struct key keys[] = {
		{"name", KEY_TEXT, offsetof(struct rule, name)},
		{"when", KEY_CONDITION, offsetof(struct rule, when)},
		{"join", KEY_ELSEWHERE, 0},
		{0},
	};
	struct rule *rule = rule_new(reader, node, SECTION_JOIN);
	int error;

	if (!rule)
		return -ENOMEM;
	error = read_map(reader, node, keys, "an entry of joins", rule);
	error = error ? error : require(reader, node, "the entry of joins", "name", rule->name);
	error = error ? error : require(reader, node, "the entry of joins", "when", rule->when);
	error = error ? error : joins_read(reader, node, &rule->joins);
	error = error ? error : require(reader, node, "the entry of joins", "join", rule->joins);
	return error ? error : rule_add(reader, node, rule);
}
