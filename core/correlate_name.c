// SPDX-License-Identifier: Apache-2.0
// Correlate, the names: display names and samples repeat a million times, so one counted copy of
// each is kept. A name nobody refers to goes at once.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/correlate_private.h"

static uint32_t hash_text(const char *text)
{
	uint32_t hash = UINT32_C(2166136261); // FNV-1a

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT32_C(16777619);
	return hash ^ hash >> 15;
}

static struct name *name_of(const char *text)
{
	return (struct name *)(void *)((char *)(uintptr_t)text - offsetof(struct name, text));
}

static int grow(struct names *names)
{
	uint32_t count = names->slot_count ? names->slot_count * 2 : 256;
	struct name **slots = calloc(count, sizeof(struct name *));

	if (!slots)
		return names->slot_count ? 0 : -1;
	for (uint32_t i = 0; i < names->slot_count; i++)
		for (struct name *name = names->slots[i], *next; name; name = next) {
			next = name->hash_next;
			name->hash_next = slots[name->hash & (count - 1)];
			slots[name->hash & (count - 1)] = name;
		}
	free(names->slots);
	names->slots = slots;
	names->slot_count = count;
	return 0;
}

const char *name_intern(struct names *names, const char *text)
{
	uint32_t hash = hash_text(text);
	size_t size = strlen(text) + 1;
	struct name *name;

	if (names->count >= names->slot_count && grow(names))
		return NULL;
	for (name = names->slots[hash & (names->slot_count - 1)]; name; name = name->hash_next)
		if (name->hash == hash && !strcmp(name->text, text)) {
			name->references++;
			return name->text;
		}
	name = malloc(sizeof(*name) + size);
	if (!name)
		return NULL;
	*name = (struct name){.hash_next = names->slots[hash & (names->slot_count - 1)],
			      .references = 1,
			      .hash = hash};
	memcpy(name->text, text, size);
	names->slots[hash & (names->slot_count - 1)] = name;
	names->count++;
	return name->text;
}

void name_reference(const char *text)
{
	if (text)
		name_of(text)->references++;
}

void name_release(struct names *names, const char *text)
{
	struct name *name = text ? name_of(text) : NULL, **link;

	if (!name || --name->references)
		return;
	link = &names->slots[name->hash & (names->slot_count - 1)];
	while (*link != name)
		link = &(*link)->hash_next;
	*link = name->hash_next;
	names->count--;
	free(name);
}

void names_free(struct names *names)
{
	for (uint32_t i = 0; i < names->slot_count; i++)
		for (struct name *name = names->slots[i], *next; name; name = next) {
			next = name->hash_next;
			free(name);
		}
	free(names->slots);
	*names = (struct names){0};
}
