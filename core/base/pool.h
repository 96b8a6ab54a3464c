// SPDX-License-Identifier: Apache-2.0
// Objects of one size, made and released by the thousand each second: slabs of them, so that neither costs a call of
// malloc. A slab with no object left goes back to the system, but for one.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pool_slab;

struct pool {
	struct pool_slab *partial; // slabs with room, doubly linked; full ones are in no list
	size_t object_size;
	uint32_t slab_objects;
	uint32_t empty; // slabs in the list that hold no object
};

// size: of each object, at most a few KiB. Allocates nothing.
void pool_init(struct pool *pool, size_t size);

// A zeroed object, aligned to 16; NULL when memory is out.
void *pool_take(struct pool *pool);

// Takes NULL.
void pool_give(struct pool *pool, void *object);

// Releases what is kept for reuse. Every object must have been given back.
void pool_free(struct pool *pool);
