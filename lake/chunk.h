// SPDX-License-Identifier: Apache-2.0
// Points and roll-ups of a series as compressed columns: what a store keeps of a minute, an hour or a day.
//
// Both are a zlib stream over varints (lake/varint.h): the number of rows, the number of columns, then column by
// column the zigzag difference of each value to the one above it. The first column is the time in ns. An unknown value
// is 0, any other is one more than it is; a column that a later version added is missing and so unknown.
#pragma once

#include "core/base/buf.h"
#include "lake/rows.h"

// What a metric was in one step. Sums of smaller steps make larger ones.
struct series_sum {
	uint64_t count; // points; 0: unknown
	uint64_t sum; // gauge: of the values; counter: how much it rose
	uint64_t min, max; // gauge: of the values; counter: thousandths of the rate per second between points
	uint64_t covered_ns; // counter: time between those points
};

void series_sum_merge(struct series_sum *into, const struct series_sum *from);

// count rows of 1 + columns values each, appended to out. 0 or -ENOMEM.
int chunk_pack(const uint64_t *rows, size_t count, size_t columns, struct buf *out);

// rows has 1 + columns values for each row and is the caller's to free. -EBADMSG: damaged; -ENOMEM.
int chunk_unpack(const void *data, size_t size, size_t columns, uint64_t **ret_rows, size_t *ret_count);

// Folds points that come in order of time into steps.
struct series_fold {
	enum series_kind kind;
	const uint8_t *metrics; // which; NULL: all
	size_t metric_count;
	uint64_t step_ns;
	bool any; // a point came before
	uint64_t last_time_ns;
	uint64_t last[SERIES_METRICS_MAX]; // its value, or the last known one
	uint64_t last_ns[SERIES_METRICS_MAX]; // and when that was
	bool open; // sums hold something
	uint64_t step_start_ns;
	struct series_sum sums[SERIES_METRICS_MAX];
};

void series_fold_begin(struct series_fold *fold, enum series_kind kind, const uint8_t *metrics, size_t metric_count,
		       uint64_t step_ns);
// When the point begins a new step the one before is handed out first (true: take sums, then call again).
bool series_fold_point(struct series_fold *fold, uint64_t time_ns, const uint64_t *value);
// The same for a step of finer sums that starts at time_ns.
bool series_fold_sums(struct series_fold *fold, uint64_t time_ns, const struct series_sum *sums);
// A point before the first step: only what counters rise from.
void series_fold_before(struct series_fold *fold, uint64_t time_ns, const uint64_t *value);
