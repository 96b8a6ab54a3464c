// SPDX-License-Identifier: Apache-2.0
// User space's end of a BPF ring buffer (linux: Documentation/bpf/ringbuf.rst). The pages are mapped once; libbpf maps
// them twice, one behind the other, and each mapping counts as resident. The record that crosses the end, one a round,
// is put together in memory of its own instead.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

struct ring {
	char *consumed; // the page with how far this side has read
	const char *produced; // the page with how far the kernel has written; the data follow it
	size_t size, page; // bytes of data, a power of two, and of a page
	struct buf whole; // the record that crosses the end
	uint64_t malformed; // lengths that cannot be: what was there is passed over
};

// data lives until the handler returns, on a multiple of 8.
typedef void ring_record_fn(void *context, const void *data, size_t size);

// fd is the ring's map, borrowed; size its max_entries. 0 or -errno.
int ring_open(struct ring *ring, int fd, size_t size);
void ring_close(struct ring *ring); // takes one that was never opened, all zero

// Hands on what is complete, in order. Returns the number of records.
uint32_t ring_drain(struct ring *ring, ring_record_fn *record, void *context);
