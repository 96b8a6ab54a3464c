// SPDX-License-Identifier: Apache-2.0
// Stitching: which runs of which hosts are parts of one. The answer is a function of what is known (runs with their
// times, and the keys they showed), whatever order it arrived in: members of a key that changed are judged again, and
// the groups they touch are made anew from their keys. Memory only, no store; lake/stitcher.h feeds it.
//
// Two runs are joined by a key that both showed when their times, `within` apart at most, overlap:
//	id	all of them;
//	place	each part with the one head that is there then; parts among themselves when no head is; nothing when
//		two heads are, for then it cannot be told whose a part is;
//	weak	never: such a pair is a hint, with a confidence, and nothing is joined through it.
// A key that names a directory anybody may be in, or one that other hosts do not share, is no key.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum stitch_how { STITCH_ID, STITCH_PLACE, STITCH_WEAK };

#define STITCH_EVER UINT64_MAX // within: at any time
#define STITCH_ALIVE UINT64_MAX // end: it has not ended

struct stitch;

int stitch_new(struct stitch **ret_stitch);
void stitch_free(struct stitch *stitch); // takes NULL

// A run as it is known now; again when that changes. -ENOMEM.
int stitch_run(struct stitch *stitch, uint64_t run_id, uint64_t start_ns, uint64_t end_ns);

// A key that a run showed; one known already changes nothing. The run may become known later. -ENOMEM.
struct stitch_key {
	const char *workspace, *key, *why; // copied
	uint64_t run_id, host;
	uint64_t time_ns;
	uint64_t within_ns;
	enum stitch_how how;
	bool head;
};
int stitch_key(struct stitch *stitch, const struct stitch_key *key);

// What a key was found to join before this process began, so that only differences are reported. -ENOENT: no such key.
int stitch_known(struct stitch *stitch, const char *workspace, const char *key, uint64_t run_id, uint64_t stitched_id,
		 double confidence);

// Judges what changed since the last call, and calls visit for each key of a run whose part in the answer did, those
// that join nothing any more (stitched_id 0) before the others of the same run. The run's own answer is that of the
// last one whose how is not weak. -ENOMEM, or what visit returned if not 0.
struct stitch_change {
	const char *workspace, *key, *why;
	uint64_t run_id;
	uint64_t stitched_id; // the run that stands for the whole; of a weak key: the run or whole that it may be part
			      // of
	uint64_t time_ns;
	double confidence;
	enum stitch_how how;
	bool has_answer; // this run is part of a whole, by this key or another
};
typedef int stitch_visit_fn(void *context, const struct stitch_change *change);
int stitch_update(struct stitch *stitch, stitch_visit_fn *visit, void *context);

bool stitch_has(const struct stitch *stitch, uint64_t run_id); // it showed a key, or was told of
uint64_t stitch_of(const struct stitch *stitch, uint64_t run_id); // its whole, 0: it is one itself

// Forgets runs that ended before, with their keys. What is in the store stays.
void stitch_forget(struct stitch *stitch, uint64_t before_ns);

uint64_t stitch_count(const struct stitch *stitch); // of keys shown

// Whether a key may join anything at all.
bool stitch_key_tells(const char *key, enum stitch_how how);
// Whether it does so only on one host: a directory that others do not share.
bool stitch_key_is_local(const char *key);
