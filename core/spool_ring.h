// SPDX-License-Identifier: Apache-2.0
// Frames that wait in memory while the disk does not take them: a queue, bounded in bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/spool.h"

struct spool_ring_frame {
	struct spool_ring_frame *next;
	uint64_t first, time_ns;
	size_t length;
	uint32_t records;
	enum spool_class class;
	char data[];
};

struct spool_ring {
	struct spool_ring_frame *head, *tail;
	uint64_t bytes, limit_bytes; // with what keeping a frame costs
	uint64_t records;
};

// Takes a copy. -ENOSPC when it does not fit beside what is there; -E2BIG when it never fits; -ENOMEM.
int spool_ring_add(struct spool_ring *ring, const struct spool_ring_frame *frame, const char *data);

// Takes out the frame to give up for one of this class: the oldest of samples, else the oldest, but no process-like
// frame for a sample. NULL when there is none. Free with free().
struct spool_ring_frame *spool_ring_evict(struct spool_ring *ring, enum spool_class class);

// Takes out the oldest frame.
struct spool_ring_frame *spool_ring_take(struct spool_ring *ring);
