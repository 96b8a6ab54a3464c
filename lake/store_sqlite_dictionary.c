// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: the texts and contexts of the partition that is written to. What this process has not seen yet gets a
// new number, even if the partition has it already from before a restart: a few bytes instead of a look-up. The memory
// is bounded: when it is full everything is forgotten.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_sqlite.h"

enum { TEXT_SLOTS = 1 << 17, CONTEXT_SLOTS = 1 << 17, MEMORY_MAX = 32 * 1024 * 1024 };

struct dictionary_text {
	struct dictionary_text *next;
	uint64_t hash;
	uint64_t no;
	uint32_t length;
	char bytes[];
};

// A context is known by its values: numbers, and numbers of texts.
struct dictionary_context {
	struct dictionary_context *next;
	uint64_t hash;
	uint64_t no;
	uint64_t value[];
};

int dictionary_begin(struct dictionary *dictionary)
{
	arena_init(&dictionary->arena, 256 * 1024);
	dictionary->texts = calloc(TEXT_SLOTS, sizeof(*dictionary->texts));
	dictionary->contexts = calloc(CONTEXT_SLOTS, sizeof(*dictionary->contexts));
	return dictionary->texts && dictionary->contexts ? 0 : -ENOMEM;
}

void dictionary_forget(struct dictionary *dictionary)
{
	static uint32_t generations; // no two dictionaries of this process share one

	if (!dictionary->texts || !dictionary->contexts)
		return;
	memset(dictionary->texts, 0, TEXT_SLOTS * sizeof(*dictionary->texts));
	memset(dictionary->contexts, 0, CONTEXT_SLOTS * sizeof(*dictionary->contexts));
	arena_reset(&dictionary->arena);
	dictionary->text_count = dictionary->context_count = 0;
	dictionary->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
}

void dictionary_free(struct dictionary *dictionary)
{
	free(dictionary->texts);
	free(dictionary->contexts);
	if (dictionary->arena.block_size)
		arena_free(&dictionary->arena);
	memset(dictionary, 0, sizeof(*dictionary));
}

static uint64_t hash_words(const uint64_t *words, size_t count)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++) {
		hash = (hash ^ words[i]) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	return hash;
}

static uint64_t hash_text(const struct lake_text *text)
{
	uint64_t hash = text->length * UINT64_C(0x9e3779b97f4a7c15), word;
	const char *at = text->bytes;
	size_t left = text->length;

	for (; left >= 8; at += 8, left -= 8) {
		memcpy(&word, at, 8);
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, at, left);
	hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
	return hash ^ hash >> 29;
}

static int text_add(struct sqlite_store *store, const struct lake_text *text, uint64_t hash, uint64_t *ret_no,
		    struct store_error *error)
{
	struct dictionary *dictionary = &store->dictionary;
	struct dictionary_text *known;
	int status;

	known = arena_alloc(&dictionary->arena, sizeof(*known) + text->length);
	if (!known)
		return store_fail(error, -ENOMEM, "out of memory");
	sqlite3_bind_int64(dictionary->insert_text, 1, (sqlite3_int64)dictionary->next_text);
	sqlite3_bind_text(dictionary->insert_text, 2, text->bytes, (int)text->length, SQLITE_STATIC);
	status = sqlite_step_once(store->db, dictionary->insert_text, error);
	if (status < 0)
		return status;
	known->hash = hash;
	known->no = dictionary->next_text++;
	known->length = text->length;
	memcpy(known->bytes, text->bytes, text->length);
	known->next = dictionary->texts[hash % TEXT_SLOTS];
	dictionary->texts[hash % TEXT_SLOTS] = known;
	dictionary->text_count++;
	*ret_no = known->no;
	return 0;
}

int dictionary_text(struct sqlite_store *store, const struct lake_text *text, uint64_t *ret_no,
		    struct store_error *error)
{
	struct dictionary *dictionary = &store->dictionary;
	struct lake_text *marked = (struct lake_text *)text; // the mark is ours to write: lake/rows.h
	struct dictionary_text *known;
	uint64_t hash;
	int status;

	if (!text) {
		*ret_no = LAKE_NULL;
		return 0;
	}
	if (text->generation == dictionary->generation) {
		*ret_no = text->mark;
		return 0;
	}
	hash = hash_text(text);
	known = dictionary->texts[hash % TEXT_SLOTS];
	while (known && (known->hash != hash || known->length != text->length ||
			 memcmp(known->bytes, text->bytes, text->length) != 0))
		known = known->next;
	if (known) {
		*ret_no = known->no;
	} else {
		status = text_add(store, text, hash, ret_no, error);
		if (status < 0)
			return status;
	}
	marked->mark = *ret_no;
	marked->generation = dictionary->generation;
	return 0;
}

int dictionary_context(struct sqlite_store *store, const union lake_slot *slot, uint64_t host, uint64_t *ret_no,
		       struct store_error *error)
{
	struct dictionary *dictionary = &store->dictionary;
	struct dictionary_context *known;
	const uint8_t *places = process_places();
	uint64_t values[PROCESSES_END + 1], hash;
	size_t count = 0;
	int status = 0;

	if (dictionary->arena.used_bytes > MEMORY_MAX)
		dictionary_forget(dictionary);
	values[count++] = host;
	for (unsigned i = 0; status == 0 && i < PROCESSES_END; i++) {
		uint8_t place = places[i];

		if (place == PLACE_CONTEXT)
			values[count++] = slot[i].u64;
		else if (place == PLACE_CONTEXT_DICTIONARY)
			status = dictionary_text(store, slot[i].text, &values[count++], error);
	}
	if (status < 0)
		return status;
	hash = hash_words(values, count);
	known = dictionary->contexts[hash % CONTEXT_SLOTS];
	while (known && (known->hash != hash || memcmp(known->value, values, count * sizeof(values[0])) != 0))
		known = known->next;
	if (known) {
		*ret_no = known->no;
		return 0;
	}
	known = arena_alloc(&dictionary->arena, sizeof(*known) + count * sizeof(values[0]));
	if (!known)
		return store_fail(error, -ENOMEM, "out of memory");
	sqlite3_bind_int64(dictionary->insert_context, 1, (sqlite3_int64)dictionary->next_context);
	for (size_t i = 0; i < count; i++)
		sqlite_bind_u64(dictionary->insert_context, (int)i + 2, values[i]);
	status = sqlite_step_once(store->db, dictionary->insert_context, error);
	if (status < 0)
		return status;
	*known = (struct dictionary_context){
		.next = dictionary->contexts[hash % CONTEXT_SLOTS],
		.hash = hash,
		.no = dictionary->next_context++,
	};
	memcpy(known->value, values, count * sizeof(values[0]));
	dictionary->contexts[hash % CONTEXT_SLOTS] = known;
	*ret_no = known->no;
	return 0;
}
