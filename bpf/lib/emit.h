// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The shared maps and the one way out of the kernel. Lifecycle and detail records have a ring each, so that nothing
// noisy can crowd out an exit. Every event is counted: seen = submitted + lost + filtered, per ring. Core creates
// these maps once, with the first skeleton, and gives them to the others by name.
#pragma once

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>

#include "bpf/event.h"

enum { RING_LIFECYCLE, RING_DETAIL, RING_END };

struct event_counts {
	__u64 count[EVENT_COUNT_END];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 2 << 20);
} ring_lifecycle SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} ring_detail SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RING_END);
	__type(key, __u32);
	__type(value, struct event_counts);
} ring_counts SEC(".maps");

// Totals of processes whose last record found the ring full: detail may be lost, sums never.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); // cgroup id
	__type(value, struct lost_totals);
} lost_totals SEC(".maps");

enum { RING_LOOKS = 16, RING_WAKE_STEP = 64 << 10, RING_WAKE_WINDOW = 16 << 10 };

// The reader drains on its own timer, and submitting wakes nobody, until a quarter of the ring is waiting; then it is
// woken a few times every 64 KiB. How full the ring is takes a cache line from the reader to learn, so only each
// sixteenth record of a CPU asks.
static __always_inline __u64 ring_flags(void *ring, __u64 submitted)
{
	__u64 waiting;

	if (submitted % RING_LOOKS)
		return BPF_RB_NO_WAKEUP;
	waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
	if (waiting >= bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) / 4 && waiting % RING_WAKE_STEP < RING_WAKE_WINDOW)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void count_one(struct event_counts *counts, enum event_count what)
{
	__sync_fetch_and_add(&counts->count[what], 1);
}

static __always_inline struct event_counts *lifecycle_counts(void)
{
	__u32 ring = RING_LIFECYCLE;

	return bpf_map_lookup_elem(&ring_counts, &ring);
}

// An event that the filter keeps out of the ring.
static __always_inline void lifecycle_filtered(void)
{
	struct event_counts *counts = lifecycle_counts();

	if (!counts)
		return;
	count_one(counts, EVENT_COUNT_SEEN);
	count_one(counts, EVENT_COUNT_FILTERED);
}

static __always_inline void header_fill_at(struct event_header *header, __u16 kind, __u32 size, __u64 now)
{
	header->kind = kind;
	header->cpu = bpf_get_smp_processor_id();
	header->size = size;
	header->time_ns = now;
}

static __always_inline void header_fill(struct event_header *header, __u16 kind, __u32 size)
{
	header_fill_at(header, kind, size, bpf_ktime_get_boot_ns());
}

// Counts an event that is to be recorded, and copies its finished record into the lifecycle ring. False: the ring was
// full (counted).
static __always_inline bool emit_lifecycle(void *record, __u32 size)
{
	struct event_counts *counts = lifecycle_counts();
	__u64 flags;

	if (!counts)
		return false;
	count_one(counts, EVENT_COUNT_SEEN);
	flags = ring_flags(&ring_lifecycle, counts->count[EVENT_COUNT_SUBMITTED]);
	if (bpf_ringbuf_output(&ring_lifecycle, record, size, flags)) {
		count_one(counts, EVENT_COUNT_LOST);
		return false;
	}
	count_one(counts, EVENT_COUNT_SUBMITTED);
	return true;
}

// The same for a record of a fixed size, which is written where it is read: no copy. NULL: the ring was full (counted).
// What comes back holds anything; fill all of it, and submit it on every way.
static __always_inline void *emit_reserve(struct event_counts *counts, __u32 size)
{
	void *record = bpf_ringbuf_reserve(&ring_lifecycle, size, 0);

	count_one(counts, EVENT_COUNT_SEEN);
	if (!record)
		count_one(counts, EVENT_COUNT_LOST);
	return record;
}

static __always_inline void emit_submit(struct event_counts *counts, void *record)
{
	bpf_ringbuf_submit(record, ring_flags(&ring_lifecycle, counts->count[EVENT_COUNT_SUBMITTED]));
	count_one(counts, EVENT_COUNT_SUBMITTED);
}
