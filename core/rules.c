// SPDX-License-Identifier: Apache-2.0
// Rules, the room's door: loads the files, numbers the rules in the order in which they are tried
// (the user's files by name, then pushed ones, then the shipped ones, each from top to bottom) and builds the index
// by program name. Once loaded nothing changes, so a set can be replaced whole while the old one is
// still read.
#include "core/rules.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/embedded.h"
#include "core/rules_private.h"

enum { FILE_SIZE_MAX = 1 << 20, FILES_MAX = 1000 };

// One (name, rule) pair of the index while it is built.
struct index_entry {
	const char *name;
	uint32_t order;
};

struct index_build {
	struct rules *rules;
	struct index_entry *entries;
	uint32_t count, capacity, order;
	bool failed;
};

static void index_name(struct index_build *build, const char *name)
{
	if (build->count == build->capacity) {
		uint32_t capacity = build->capacity ? build->capacity * 2 : 1024;
		struct index_entry *entries =
			reallocarray(build->entries, capacity, sizeof(*entries));
		if (!entries) {
			build->failed = true;
			return;
		}
		build->entries = entries;
		build->capacity = capacity;
	}
	build->entries[build->count++] = (struct index_entry){name, build->order};
}

static int glob_add(struct rules *rules, struct name_globs *globs, const struct name_glob *entry)
{
	const char *pattern = glob_pattern(entry->glob);
	uint8_t head = strchr("*?[\\(", *pattern) ? 0 : (uint8_t)*pattern;
	struct name_glob *copy = arena_alloc(&rules->arena, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *entry;
	copy->next = globs->heads[head];
	globs->heads[head] = copy;
	return 0;
}

static void index_program(void *context, const struct glob *glob)
{
	struct index_build *build = context;
	const char *name = glob_literal(glob);

	if (!name) {
		struct name_glob entry = {.glob = glob, .order = build->order};
		if (glob_add(build->rules, &build->rules->rule_globs, &entry))
			build->failed = true;
		return;
	}
	index_name(build, name);
	// Where only a comm is known, a longer name is found by its first 15 characters.
	if (strlen(name) > 15) {
		name = arena_strndup(&build->rules->arena, name, 15);
		build->failed = build->failed || !name;
		if (name)
			index_name(build, name);
	}
}

static int index_interpreters(struct rules *rules)
{
	for (const struct interpreter *one = rules->interpreters; one; one = one->next)
		for (uint32_t i = 0; i < one->exe->count; i++) {
			struct name_glob entry = {.glob = one->exe->items[i], .interpreter = one};
			if (glob_add(rules, &rules->interpreter_globs, &entry))
				return -ENOMEM;
		}
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct index_entry *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->order > y->order) - (x->order < y->order);
}

static void put_bucket(struct rules *rules, const char *name, uint32_t number)
{
	uint32_t slot = text_hash(name, strlen(name)) & rules->bucket_mask;

	while (rules->bucket_slots[slot])
		slot = (slot + 1) & rules->bucket_mask;
	rules->bucket_slots[slot] = number;
}

static uint32_t count_names(const struct index_build *build)
{
	uint32_t names = 0;

	for (uint32_t i = 0; i < build->count; i++)
		names += !i || strcmp(build->entries[i].name, build->entries[i - 1].name) != 0;
	return names;
}

static int fill_buckets(struct rules *rules, struct index_build *build)
{
	struct arena *arena = &rules->arena;
	uint32_t used = 0, number = 0, names;

	if (build->count)
		qsort(build->entries, build->count, sizeof(*build->entries), compare_entries);
	names = count_names(build);
	while (rules->bucket_mask < names * 2)
		rules->bucket_mask = rules->bucket_mask * 2 + 1;
	rules->bucket_orders = arena_alloc(arena, build->count * sizeof(*rules->bucket_orders));
	rules->buckets = arena_alloc(arena, names * sizeof(*rules->buckets));
	rules->bucket_slots = arena_alloc(arena, (rules->bucket_mask + 1) * sizeof(*rules->bucket_slots));
	if (!rules->bucket_orders || !rules->buckets || !rules->bucket_slots)
		return -ENOMEM;
	memset(rules->bucket_slots, 0, (rules->bucket_mask + 1) * sizeof(*rules->bucket_slots));
	for (uint32_t i = 0; i < build->count;) {
		struct bucket *bucket = &rules->buckets[number++];
		*bucket = (struct bucket){.name = build->entries[i].name, .first = used};
		for (; i < build->count && !strcmp(build->entries[i].name, bucket->name); i++)
			if (used == bucket->first ||
			    rules->bucket_orders[used - 1] != build->entries[i].order)
				rules->bucket_orders[used++] = build->entries[i].order;
		bucket->count = used - bucket->first;
		put_bucket(rules, bucket->name, number);
	}
	return 0;
}

int rules_index(struct rules *rules)
{
	struct index_build build = {.rules = rules};
	int error;

	rules->rules = arena_alloc(&rules->arena, (rules->count + 1) * sizeof(struct rule *));
	rules->loose = arena_alloc(&rules->arena, (rules->count + 1) * sizeof(*rules->loose));
	if (!rules->rules || !rules->loose)
		return -ENOMEM;
	for (struct rule *rule = rules->first; rule; rule = rule->next) {
		rules->rules[rule->order] = rule;
		build.order = rule->order;
		if (!rule->when || !condition_programs(rule->when, NULL, NULL))
			rules->loose[rules->loose_count++] = rule->order;
		else
			condition_programs(rule->when, index_program, &build);
	}
	error = build.failed ? -ENOMEM : fill_buckets(rules, &build);
	error = error ? error : index_interpreters(rules);
	free(build.entries);
	return error;
}

static int is_rules_file(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return entry->d_name[0] != '.' && length > 5 &&
	       !strcmp(entry->d_name + length - 5, ".yaml");
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name); // not the locale's order
}

static int read_path(struct reader *reader, const char *path)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int error = fs_read(path, FILE_SIZE_MAX, &text);

	reader->file = arena_strndup(&reader->rules->arena, path, strlen(path));
	if (!reader->file)
		return -ENOMEM;
	if (error == -ENOMEM)
		return error;
	if (error == -EFBIG)
		return reader_error(reader, 1, "the file has more than %d KiB; split it",
				    FILE_SIZE_MAX / 1024);
	if (error)
		return reader_error(reader, 1, "cannot be read: %s; make it readable or remove it",
				    strerror(-error));
	return rules_read_file(reader, text.data ? text.data : "", text.length);
}

static int read_directory(struct reader *reader, const char *directory)
{
	struct dirent **entries = NULL;
	int count = scandir(directory, &entries, is_rules_file, compare_names);
	int result = count < 0 && errno != ENOENT ? -errno : 0;

	if (result) {
		reader->file = directory;
		result = reader_error(reader, 1,
				      "cannot be read: %s; give a directory of .yaml files",
				      strerror(-result));
	}
	for (int i = 0; i < count; i++) {
		char path[4096];
		int error = 0;
		snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
		if (i < FILES_MAX && result != -ENOMEM)
			error = read_path(reader, path);
		result = error ? error : result;
		free(entries[i]);
	}
	free(entries);
	return result;
}

static int read_pushed(struct reader *reader, const char *path)
{
	reader->origin = RULES_PUSHED;
	return read_path(reader, path);
}

static int read_shipped(struct reader *reader)
{
	int result = 0;

	reader->origin = RULES_SHIPPED;
	for (size_t i = 0; i < embedded_rules_count; i++) {
		const struct embedded_file *file = &embedded_rules[i];
		char name[256];
		snprintf(name, sizeof(name), "rules/%s", file->name);
		reader->file = arena_strndup(&reader->rules->arena, name, strlen(name));
		if (!reader->file)
			return -ENOMEM;
		int error = rules_read_file(reader, (const char *)file->data, file->size);
		if (error == -ENOMEM)
			return error;
		result = error ? error : result;
	}
	return result;
}

static int load(struct rules *rules, const char *directory, const char *pushed, struct buf *error_text)
{
	struct reader reader = {.rules = rules, .error = error_text};
	int user = directory ? read_directory(&reader, directory) : 0;
	int other = user == -ENOMEM || !pushed ? user : read_pushed(&reader, pushed);
	int shipped = other == -ENOMEM ? other : read_shipped(&reader);
	int error = user ? user : other ? other : shipped;

	if (!error)
		error = rules_index(rules);
	return error ? error : rules_redact_prepare(rules);
}

static int load_new(const char *directory, const char *pushed, struct rules **ret_rules, struct buf *error)
{
	struct rules *rules = calloc(1, sizeof(*rules));
	int result;

	if (!rules)
		return -ENOMEM;
	arena_init(&rules->arena, 64 * 1024);
	result = load(rules, directory, pushed, error);
	if (result) {
		rules_free(rules);
		return result;
	}
	*ret_rules = rules;
	return 0;
}

int rules_load(const char *directory, struct rules **ret_rules, struct buf *error)
{
	return load_new(directory, NULL, ret_rules, error);
}

int rules_load_pushed(const char *directory, const char *pushed, struct rules **ret_rules, struct buf *error)
{
	CLEANUP(buf_free) struct buf first = BUF_INIT;
	int result;

	if (!pushed || access(pushed, F_OK) < 0)
		return load_new(directory, NULL, ret_rules, error);
	result = load_new(directory, pushed, ret_rules, &first);
	if (result != -EINVAL)
		return result;
	result = load_new(directory, NULL, ret_rules, error);
	if (result == 0)
		buf_printf(error, "left out: %s", first.data ? first.data : pushed);
	return result;
}

void rules_free(struct rules *rules)
{
	if (!rules)
		return;
	arena_free(&rules->arena);
	free(rules);
}

uint32_t rules_count(const struct rules *rules)
{
	return rules->count;
}

void rules_filter(const struct rules *rules,
		  void (*visit)(void *context, const struct rules_filter_entry *entry),
		  void *context)
{
	for (const struct filter_entry *filter = rules->filters; filter; filter = filter->next)
		visit(context, &filter->entry);
}

void rules_each(const struct rules *rules,
		void (*visit)(void *context, const struct rule_listing *listing), void *context)
{
	for (uint32_t i = 0; i < rules->count; i++) {
		const struct rule *rule = rules->rules[i];
		struct rule_listing listing = {section_names[rule->section], rule->name,
					       rule->category, rule->place};
		visit(context, &listing);
	}
}
