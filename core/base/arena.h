// SPDX-License-Identifier: Apache-2.0
// A bump allocator: many small objects, one lifetime. Blocks are chained; a reset keeps one.
#pragma once

#include <pthread.h>
#include <stddef.h>

struct arena_block;

// Blocks that arenas gave back, for the next that needs one: memory that comes and goes by megabytes is not asked of
// the kernel, and cleared by it, each time. All arenas of a pool have one block size; any thread may use it.
struct arena_pool {
	pthread_mutex_t lock;
	struct arena_block *blocks;
	size_t count, most; // blocks that are kept
};
#define ARENA_POOL(most_blocks) { .lock = PTHREAD_MUTEX_INITIALIZER, .most = (most_blocks) }

struct arena {
	struct arena_block *blocks; // newest first
	size_t block_size;
	struct arena_pool *pool; // NULL: none
	size_t used_bytes; // handed out since the last reset
};

// block_size: bytes of each block taken from malloc; larger requests get a block of their own. Allocates nothing.
void arena_init(struct arena *arena, size_t block_size);

// The same, with blocks from a pool that outlives it.
void arena_init_pool(struct arena *arena, size_t block_size, struct arena_pool *pool);

// Returns size bytes aligned to 16, not zeroed, owned by the arena; NULL when memory is out.
void *arena_alloc(struct arena *arena, size_t size);

// Copies length bytes of text and adds a NUL. NULL when memory is out.
char *arena_strndup(struct arena *arena, const char *text, size_t length);

// Everything handed out is invalid afterwards; one block is kept for reuse.
void arena_reset(struct arena *arena);

// Releases every block; takes NULL. The arena may be used again.
void arena_free(struct arena *arena);
