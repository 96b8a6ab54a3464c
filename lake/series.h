// SPDX-License-Identifier: Apache-2.0
// What answers about series have in common in every store: the levels of roll-ups, and steps handed out.
#pragma once

#include "lake/chunk.h"
#include "lake/store.h"

#define SERIES_MINUTE_NS UINT64_C(60000000000)
#define SERIES_BEFORE_NS (10 * SERIES_MINUTE_NS) // how far back a counter's earlier point is looked for
#define SERIES_GRACE_NS (2 * SERIES_MINUTE_NS) // points of a span may come so late without rolling it up twice

enum { SERIES_LEVELS = 3 };

// Steps are rolled up a whole span at a time, when it is over.
struct series_level {
	uint64_t step_ns, span_ns;
};
extern const struct series_level series_levels[SERIES_LEVELS]; // 10 s a minute, 1 min an hour, 1 h a day

// The coarsest level whose steps make up steps of step_ns; -1: only points do.
int series_level_of(uint64_t step_ns);

void series_step_of_sum(const struct series_metric *metric, const struct series_sum *sum, struct store_step *step);

// Hands the steps of one query on.
struct series_giver {
	const struct store_series_query *query;
	store_step_fn step;
	void *data;
	const char *label;
	struct series_fold fold;
};

// What is wrong with a query; NULL: nothing.
const char *series_query_wrong(const struct store_series_query *query, char text[128]);
// The fold's open step, if there is one. What step returned.
int series_give_step(struct series_giver *giver);
// A point as it came; value: all metrics of the kind.
int series_give_point(struct series_giver *giver, uint64_t time_ns, const uint64_t *value);
