// SPDX-License-Identifier: Apache-2.0
// The reader room's ring. A position only grows; its low bits are the place. A record is a header of eight bytes, the
// length with two flags in its first four, then the data, all on multiples of eight. The position that this side has
// read to is stored after each record, so that the kernel has the room again at once.
#include "core/ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int ring_open(struct ring *ring, int fd, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *consumed, *produced;
	int error;

	if (!size || size & (size - 1))
		return -EINVAL;
	consumed = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (consumed == MAP_FAILED)
		return -errno;
	produced = mmap(NULL, page + size, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (produced == MAP_FAILED) {
		error = -errno;
		munmap(consumed, page);
		return error;
	}
	*ring = (struct ring){ .consumed = consumed, .produced = produced, .size = size, .page = page };
	return 0;
}

void ring_close(struct ring *ring)
{
	if (ring->consumed)
		munmap(ring->consumed, ring->page);
	if (ring->produced)
		munmap((void *)ring->produced, ring->page + ring->size);
	buf_free(&ring->whole);
	*ring = (struct ring){ 0 };
}

// In one piece, or NULL without memory for the one that crosses the end.
static const char *record_data(struct ring *ring, unsigned long position, size_t length)
{
	const char *data = ring->produced + ring->page;
	size_t at = position & (ring->size - 1), first = ring->size - at;

	if (length <= first)
		return data + at;
	buf_reset(&ring->whole);
	buf_append(&ring->whole, data + at, first);
	buf_append(&ring->whole, data, length - first);
	return buf_error(&ring->whole) < 0 ? NULL : ring->whole.data;
}

static uint32_t drain_until(struct ring *ring, unsigned long until, ring_record_fn *record, void *context)
{
	unsigned long *consumed = (unsigned long *)ring->consumed, position = *consumed;
	uint32_t records = 0;

	while (position < until) {
		const char *place = ring->produced + ring->page + (position & (ring->size - 1));
		uint32_t header = __atomic_load_n((const uint32_t *)place, __ATOMIC_ACQUIRE);
		size_t length = header & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		const char *data;

		if (header & BPF_RINGBUF_BUSY_BIT)
			break;
		if (length + BPF_RINGBUF_HDR_SZ > until - position) {
			ring->malformed++;
			position = until;
		} else if (header & BPF_RINGBUF_DISCARD_BIT) {
			position += (length + BPF_RINGBUF_HDR_SZ + 7) & ~(size_t)7;
		} else {
			data = record_data(ring, position + BPF_RINGBUF_HDR_SZ, length);
			position += (length + BPF_RINGBUF_HDR_SZ + 7) & ~(size_t)7;
			if (data)
				record(context, data, length);
			else
				ring->malformed++;
			records++;
		}
		__atomic_store_n(consumed, position, __ATOMIC_RELEASE);
	}
	return records;
}

uint32_t ring_drain(struct ring *ring, ring_record_fn *record, void *context)
{
	const unsigned long *produced = (const unsigned long *)ring->produced;
	const unsigned long *consumed = (const unsigned long *)ring->consumed;
	unsigned long before;
	uint32_t records = 0;

	// Until a round gets no further: records come while others are handed on.
	do {
		before = *consumed;
		records += drain_until(ring, __atomic_load_n(produced, __ATOMIC_ACQUIRE), record, context);
	} while (*consumed != before);
	return records;
}
