// SPDX-License-Identifier: Apache-2.0
// Out of the kernel: drains the two rings and hands each record to its module. The kernel submits without waking
// anyone; the reader comes by on a timer, sooner only when a ring has filled past a mark.
#pragma once

#include <stdint.h>

#include "bpf/event.h"
#include "core/loader.h"

struct reader;
struct loop;

struct ring_totals {
	uint64_t count[EVENT_COUNT_END];
};

struct reader_stats {
	struct ring_totals lifecycle, detail;
	uint64_t malformed; // records that no module could read
};

typedef void reader_idle_fn(void *context, uint32_t records);

// interval_ns: how often rings are drained while records come; 0: by reader_drain() alone, and when one fills up.
// after: called when a round of draining is over, with the number of records it brought.
int reader_new(struct loader *loader, struct loop *loop, uint64_t interval_ns, reader_idle_fn *after, void *context,
	       struct reader **ret_reader);
void reader_free(struct reader *reader);

// Drains both rings now. Returns the number of records.
uint32_t reader_drain(struct reader *reader);

// Boot time of the latest drain: what was submitted before then was read. 0: none yet.
uint64_t reader_drained_ns(const struct reader *reader);

// Between two images whose hooks both run for a while. The older one keeps what came at that time or later to itself
// from then on, in memory; reader_release() hands it to the modules after all. The newer one passes over what came
// before. Each event is then one image's: of two hooks the older runs first, so none is nobody's.
void reader_hold_from(struct reader *reader, uint64_t from_boot_ns);
uint32_t reader_release(struct reader *reader);
void reader_skip_before(struct reader *reader, uint64_t until_boot_ns);

// Sums the per-CPU counts. seen = submitted + lost + filtered holds for each ring once the host is quiet; while it
// runs, an event may be between two of its counts.
int reader_stats(struct reader *reader, struct reader_stats *ret_stats);
