// SPDX-License-Identifier: Apache-2.0
// Stitching on a store: reads what is new of keys and runs, judges, writes ENTITY_JOINS. Several of them may work on
// one store: each finds the same. To be called by the one thread that writes the store, with a reader of its own.
#pragma once

#include "lake/store.h"

struct stitcher;

int stitcher_new(struct stitcher **ret_stitcher);
void stitcher_free(struct stitcher *stitcher); // takes NULL

// Reads everything lately shown when it is called first (or after a failure), then what changed since the last call,
// and writes what follows. 0 or -errno with error filled; the next call begins anew.
int stitcher_step(struct stitcher *stitcher, struct store *store, uint64_t now_ns, struct store_error *error);

struct stitcher_counts {
	uint64_t keys; // held in memory
	uint64_t joins; // rows written so far
	uint64_t failures;
};
void stitcher_counts(const struct stitcher *stitcher, struct stitcher_counts *ret_counts);
