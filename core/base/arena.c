// SPDX-License-Identifier: Apache-2.0
// Base: the bump allocator. Blocks are chained newest first; only the newest standard block is carved from. A
// request too large for a block gets one of its own, put behind the newest so that carving goes on there.
// Under AddressSanitizer the bytes not handed out are poisoned, so an overrun is caught inside a block too.
#include "core/base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_POISON 1
#endif

#ifdef ARENA_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#define ALIGNMENT 16

struct arena_block {
	struct arena_block *next; // older
	size_t size;		  // bytes of data
	size_t used;
	size_t reserved; // keeps data aligned
	char data[];
};

_Static_assert(sizeof(struct arena_block) % ALIGNMENT == 0, "data is aligned when the block is");

void arena_init(struct arena *arena, size_t block_size)
{
	*arena = (struct arena){ .block_size = (block_size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) };
}

void arena_init_pool(struct arena *arena, size_t block_size, struct arena_pool *pool)
{
	arena_init(arena, block_size);
	arena->pool = pool;
}

static struct arena_block *block_from_pool(struct arena_pool *pool)
{
	struct arena_block *block;

	pthread_mutex_lock(&pool->lock);
	block = pool->blocks;
	if (block) {
		pool->blocks = block->next;
		pool->count--;
	}
	pthread_mutex_unlock(&pool->lock);
	return block;
}

static struct arena_block *block_new(const struct arena *arena, size_t size)
{
	bool pooled = arena->pool && size == arena->block_size;
	struct arena_block *block = pooled ? block_from_pool(arena->pool) : NULL;

	if (!block)
		block = malloc(sizeof(*block) + size);
	if (!block)
		return NULL;
	*block = (struct arena_block){ .size = size };
	ASAN_POISON_MEMORY_REGION(block->data, size);
	return block;
}

static bool block_to_pool(struct arena_pool *pool, struct arena_block *block)
{
	bool room;

	pthread_mutex_lock(&pool->lock);
	room = pool->count < pool->most;
	if (room) {
		block->next = pool->blocks;
		pool->blocks = block;
		pool->count++;
	}
	pthread_mutex_unlock(&pool->lock);
	return room;
}

static void block_free(const struct arena *arena, struct arena_block *block)
{
	ASAN_POISON_MEMORY_REGION(block->data, block->size);
	if (arena->pool && block->size == arena->block_size && block_to_pool(arena->pool, block))
		return;
	ASAN_UNPOISON_MEMORY_REGION(block->data, block->size);
	free(block);
}

// A block with room for rounded bytes; NULL when memory is out.
static struct arena_block *arena_block_for(struct arena *arena, size_t rounded)
{
	struct arena_block *head = arena->blocks, *block;

	if (head && head->size - head->used >= rounded)
		return head;
	block = block_new(arena, rounded > arena->block_size ? rounded : arena->block_size);
	if (!block)
		return NULL;
	if (head && rounded > arena->block_size) {
		block->next = head->next;
		head->next = block;
	} else {
		block->next = head;
		arena->blocks = block;
	}
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_block *block;
	size_t rounded;
	char *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	rounded = ((size ? size : 1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	block = arena_block_for(arena, rounded);
	if (!block)
		return NULL;
	memory = block->data + block->used;
	block->used += rounded;
	arena->used_bytes += rounded;
	ASAN_UNPOISON_MEMORY_REGION(memory, size);
	return memory;
}

char *arena_strndup(struct arena *arena, const char *text, size_t length)
{
	char *copy;

	if (length == SIZE_MAX)
		return NULL;
	copy = arena_alloc(arena, length + 1);
	if (!copy)
		return NULL;
	if (length > 0)
		memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

void arena_reset(struct arena *arena)
{
	struct arena_block *keep = NULL, *next;

	for (struct arena_block *block = arena->blocks; block; block = next) {
		next = block->next;
		if (!keep && block->size == arena->block_size)
			keep = block;
		else
			block_free(arena, block);
	}
	if (keep) {
		keep->next = NULL;
		keep->used = 0;
		ASAN_POISON_MEMORY_REGION(keep->data, keep->size);
	}
	arena->blocks = keep;
	arena->used_bytes = 0;
}

void arena_free(struct arena *arena)
{
	struct arena_block *next;

	if (!arena)
		return;
	for (struct arena_block *block = arena->blocks; block; block = next) {
		next = block->next;
		block_free(arena, block);
	}
	arena->blocks = NULL;
	arena->used_bytes = 0;
}
