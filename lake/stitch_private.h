// SPDX-License-Identifier: Apache-2.0
// What the files of stitching share: runs, keys, and the claims between them.
#pragma once

#include <stddef.h>

#include "lake/stitch.h"

struct stitch_run {
	struct stitch_run *hash_next;
	uint64_t id, start_ns, end_ns;
	struct stitch_claim *claims;
	struct stitch_run *parent; // union-find; itself at the top
	struct stitch_run *ring; // the members of its group, in a circle
	uint64_t stitched_id; // 0: whole
	uint64_t size; // at the top
	bool known; // its times are
	bool touched, changed;
	bool head; // of some place
};

// "run showed key", an edge of the graph.
struct stitch_claim {
	struct stitch_claim *run_next, *key_next;
	struct stitch_run *run;
	struct stitch_named *key;
	struct stitch_claim *joined_to; // the claim of the same key it is joined with; NULL: none
	char *why;
	uint64_t host, time_ns;
	uint64_t told; // stitched_id as visited last
	double confidence;
	double told_confidence;
	bool head;
	bool joins; // it or another is joined by it
};

struct stitch_named {
	struct stitch_named *hash_next;
	struct stitch_claim *claims;
	size_t claim_count;
	uint64_t within_ns;
	uint8_t how;
	bool local; // joins only on one host
	bool changed;
	uint32_t hash;
	size_t workspace_length;
	char text[]; // WORKSPACE NUL KEY NUL
};

enum { STITCH_WEAK_MAX = 64 }; // more runs than these that share a weak key are no hint of anything

struct stitch {
	struct stitch_run **runs;
	struct stitch_named **keys;
	size_t run_slots, run_count, key_slots, key_count;
	uint64_t claim_count;
	// Since the last update.
	struct stitch_named **changed_keys;
	size_t changed_key_count, changed_key_room;
	struct stitch_run **touched_runs; // groups to be made anew
	size_t touched_count, touched_room;
};

// Decides by the claims of one key which are joined to which (lake/stitch_judge.c): sets joined_to, joins and
// confidence of each. -ENOMEM.
int stitch_judge(struct stitch_named *key);
