// SPDX-License-Identifier: Apache-2.0
// What runs used over time, for the series of kind SERIES_RUN. The figures of a process since it was last heard of are
// spread evenly over that time, in steps of 10 s, and gathered here until a store adds them to what it has. What is
// spread adds up to exactly what the process used.
#pragma once

#include "lake/rows.h"

// In the order of the metrics of SERIES_RUN.
enum { AMOUNT_STARTED, AMOUNT_ENDED, AMOUNT_FAILED, AMOUNT_RUNNING, AMOUNT_USED, AMOUNTS = AMOUNT_USED + SUM_END };
#define AMOUNTS_STEP_NS UINT64_C(10000000000)

struct amounts_step {
	uint64_t run; // 0: a free slot
	uint64_t step; // time / AMOUNTS_STEP_NS
	struct lake_batch *batch; // whose host it is
	uint64_t value[AMOUNTS]; // LAKE_NULL: unknown so far
};

// Zeroed memory is an empty one.
struct amounts {
	struct amounts_step *steps; // hash table
	size_t slots, count;
};

void amounts_free(struct amounts *amounts); // takes a zeroed one
void amounts_clear(struct amounts *amounts); // empty, memory is kept

// Adds what a process used since before (NULL: since its start). 0 or -ENOMEM.
int amounts_process(struct amounts *amounts, struct lake_batch *batch, const struct lake_row *row,
		    const struct lake_row *before, bool failed);

// It ended with a code, a signal or for want of memory, and that was neither an answer nor a probe's.
bool amounts_failed(const struct lake_row *row);

// Adds to a figure that may be unknown; LAKE_NULL adds nothing. Ends at LAKE_U64_MAX.
void amounts_add(uint64_t *to, uint64_t value);
// The same of all figures that add up over processes.
void amounts_add_sums(uint64_t to[SUM_END], const uint64_t values[SUM_END]);
