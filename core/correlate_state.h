// SPDX-License-Identifier: Apache-2.0
// Runs and tasks as parcels, for the next image: they keep their ids, names, samples and what they have learned.
#pragma once

#include "core/correlate.h"
#include "core/parcel.h"
#include "core/process_state.h"

// Tags of correlate inside a process's field.
enum correlate_tag { CORRELATE_RUN = PROCESS_STATE_OTHERS, CORRELATE_TASK, CORRELATE_BITS, CORRELATE_JOIN };

// Appends a field of this tag for each run, and one for each task, the runs first, a run's parent before it.
void correlate_state_write(struct buf *out, uint16_t run_tag, uint16_t task_tag, const struct correlate *correlate);
// Appends what a process has of correlate's.
void correlate_state_write_process(struct buf *out, const struct process *process);

// By the numbers they were written with. Zeroed, then correlate_state_end().
struct correlate_state {
	struct parcel_map runs, tasks; // with one reference each
};

// 0, -EBADMSG or -ENOMEM.
int correlate_state_read_run(struct correlate *correlate, struct correlate_state *state,
			     const struct parcel_field *field);
int correlate_state_read_task(struct correlate *correlate, struct correlate_state *state,
			      const struct parcel_field *field);
// One of the fields above of a process; others are passed over.
int correlate_state_read_process(struct correlate *correlate, const struct correlate_state *state,
				 struct process *process, const struct parcel_field *field);
int correlate_state_tool(struct correlate *correlate, struct image *image, const char *tool);
// Runs and tasks that no process referred to are gone then.
void correlate_state_end(struct correlate_state *state);
