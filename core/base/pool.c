// SPDX-License-Identifier: Apache-2.0
// Base: the pool. A slab is a mapping aligned to its size, so that an object's slab is found by its address. Invariant:
// a slab is in the list as long as it has room. A slab's memory is touched from its start on, as objects are taken.
// Under AddressSanitizer what was given back is poisoned but for its link.
#include "core/base/pool.h"

#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POOL_POISON 1
#endif

#ifdef POOL_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { SLAB_SIZE = 64 * 1024, ALIGNMENT = 16 };

struct object {
	struct object *next;
};

struct pool_slab {
	struct pool_slab *next, *previous;
	struct object *free; // given back
	uint32_t used; // in somebody's hands
	uint32_t touched; // objects ever taken: those behind have never been used
};

_Static_assert(sizeof(struct pool_slab) % ALIGNMENT == 0, "objects begin behind it");

void pool_init(struct pool *pool, size_t size)
{
	size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);

	*pool = (struct pool){ .object_size = rounded };
	pool->slab_objects = (uint32_t)((SLAB_SIZE - sizeof(struct pool_slab)) / rounded);
}

static struct pool_slab *slab_of(void *object)
{
	return (struct pool_slab *)((uintptr_t)object & ~(uintptr_t)(SLAB_SIZE - 1));
}

static void list_add(struct pool *pool, struct pool_slab *slab)
{
	slab->previous = NULL;
	slab->next = pool->partial;
	if (slab->next)
		slab->next->previous = slab;
	pool->partial = slab;
}

static void list_remove(struct pool *pool, struct pool_slab *slab)
{
	if (slab->previous)
		slab->previous->next = slab->next;
	else
		pool->partial = slab->next;
	if (slab->next)
		slab->next->previous = slab->previous;
}

// Twice the size is mapped and what lies outside the aligned part is returned.
static struct pool_slab *slab_new(void)
{
	char *map = mmap(NULL, 2 * (size_t)SLAB_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start;

	if (map == MAP_FAILED)
		return NULL;
	start = (char *)slab_of(map + SLAB_SIZE - 1);
	if (start > map)
		munmap(map, (size_t)(start - map));
	munmap(start + SLAB_SIZE, (size_t)(map + SLAB_SIZE - start));
	return (struct pool_slab *)start;
}

void *pool_take(struct pool *pool)
{
	struct pool_slab *slab = pool->partial;
	void *object;

	if (!slab) {
		slab = slab_new();
		if (!slab)
			return NULL;
		list_add(pool, slab);
		pool->empty++;
	}
	if (slab->free) {
		object = slab->free;
		slab->free = slab->free->next;
		ASAN_UNPOISON_MEMORY_REGION(object, pool->object_size);
		memset(object, 0, pool->object_size);
	} else {
		object = (char *)(slab + 1) + slab->touched++ * pool->object_size;
	}
	pool->empty -= !slab->used;
	if (++slab->used == pool->slab_objects)
		list_remove(pool, slab);
	return object;
}

void pool_give(struct pool *pool, void *object)
{
	struct pool_slab *slab = object ? slab_of(object) : NULL;
	struct object *freed = object;

	if (!object)
		return;
	freed->next = slab->free;
	slab->free = freed;
	ASAN_POISON_MEMORY_REGION(freed + 1, pool->object_size - sizeof(*freed));
	if (slab->used-- == pool->slab_objects)
		list_add(pool, slab);
	if (slab->used)
		return;
	if (pool->empty) {
		list_remove(pool, slab);
		ASAN_UNPOISON_MEMORY_REGION(slab, SLAB_SIZE);
		munmap(slab, SLAB_SIZE);
		return;
	}
	pool->empty++;
}

void pool_free(struct pool *pool)
{
	for (struct pool_slab *slab = pool->partial, *next; slab; slab = next) {
		next = slab->next;
		ASAN_UNPOISON_MEMORY_REGION(slab, SLAB_SIZE);
		munmap(slab, SLAB_SIZE);
	}
	pool->partial = NULL;
	pool->empty = 0;
}
