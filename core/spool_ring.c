// SPDX-License-Identifier: Apache-2.0
// Spool: the memory ring. Invariants: frames are in sequence order; bytes never passes limit_bytes.
#include "core/spool_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t cost(size_t length)
{
	return sizeof(struct spool_ring_frame) + length;
}

int spool_ring_add(struct spool_ring *ring, const struct spool_ring_frame *frame, const char *data)
{
	struct spool_ring_frame *copy;

	if (cost(frame->length) > ring->limit_bytes)
		return -E2BIG;
	if (cost(frame->length) > ring->limit_bytes - ring->bytes)
		return -ENOSPC;
	copy = malloc(sizeof(*copy) + frame->length);
	if (!copy)
		return -ENOMEM;
	*copy = *frame;
	copy->next = NULL;
	memcpy(copy->data, data, frame->length);
	if (ring->tail)
		ring->tail->next = copy;
	else
		ring->head = copy;
	ring->tail = copy;
	ring->bytes += cost(frame->length);
	ring->records += frame->records;
	return 0;
}

static struct spool_ring_frame *unlink_frame(struct spool_ring *ring,
					     struct spool_ring_frame *before)
{
	struct spool_ring_frame *frame = before ? before->next : ring->head;

	if (!frame)
		return NULL;
	if (before)
		before->next = frame->next;
	else
		ring->head = frame->next;
	if (ring->tail == frame)
		ring->tail = before;
	ring->bytes -= cost(frame->length);
	ring->records -= frame->records;
	return frame;
}

struct spool_ring_frame *spool_ring_evict(struct spool_ring *ring, enum spool_class class)
{
	struct spool_ring_frame *before = NULL;

	for (struct spool_ring_frame *frame = ring->head; frame;
	     before = frame, frame = frame->next)
		if (frame->class == SPOOL_SAMPLE)
			return unlink_frame(ring, before);
	return class == SPOOL_SAMPLE ? NULL : unlink_frame(ring, NULL);
}

struct spool_ring_frame *spool_ring_take(struct spool_ring *ring)
{
	return unlink_frame(ring, NULL);
}
