// SPDX-License-Identifier: Apache-2.0
// The process table as parcels, for the next image: entries with all their images and figures. Runs, tasks, joins and
// tools are correlate's to add (core/correlate_state.h), cgroups the agent's.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/parcel.h"
#include "core/process.h"

// Programs that several images share are written once. Zeroed, then process_state_free().
struct process_programs {
	struct parcel_map met; // by id; when reading, of struct program with one reference
};

void process_state_free(struct process_programs *programs);

// Tags inside the field of one process; from PROCESS_STATE_OTHERS on they are other rooms'.
enum { PROCESS_STATE_OTHERS = 512 };

// Appends the fields of one process; the caller opens and closes the field around them.
void process_state_write(struct buf *out, const struct process *process, struct process_programs *programs);

// Called for each image in order, with what was written as its tool; and for each field that is another room's.
struct process_state_visitor {
	int (*tool)(void *context, struct image *image, const char *tool);
	int (*other)(void *context, struct process *process, const struct parcel_field *field);
	void *context;
};

// Adds the process in the field to the table. Ended ones come before living ones of the same pid. -EBADMSG: what is
// there is no process; -EEXIST, -ENOMEM.
int process_state_read(struct process_table *table, const struct parcel_field *field, struct process_programs *programs,
		       const struct process_state_visitor *visitor, struct process **ret_process);
