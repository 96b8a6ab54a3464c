// SPDX-License-Identifier: Apache-2.0
// The report of a recording: ended processes go in one by one and are added to a tree of runs,
// tasks and tools. Nothing is kept per process, so memory is bounded however many there are; what
// no longer fits is added to a row that says so. Text for people is made by cli/report_text.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/process.h"

struct report;

// The recording as known when it begins. Strings are copied; NULL is unknown.
struct report_setup {
	const char *command; // what was run, for the heading; NULL for a file or a whole host
	const char *host;
	uint32_t cpu_count; // 0: unknown
	uint64_t memory_bytes; // UNKNOWN: unknown
	uint64_t start_boot_ns; // UNKNOWN: the first process's start
};

// And when it ends.
struct report_outcome {
	uint64_t end_boot_ns; // UNKNOWN: the last process's end
	int32_t exit_code; // of the command; -1: unknown
	int32_t signal; // that killed it; 0: none
	uint64_t still_running; // processes of the run that outlive it
};

int report_new(const struct report_setup *setup, struct report **ret_report);
void report_free(struct report *report); // takes NULL

// Adds an ended process, decorated by correlate. 0 or -ENOMEM; a process that could not be added is
// counted as lost.
int report_process_end(struct report *report, const struct process *process);

// Records that never arrived: summed up by room and reason, shown as losses.
void report_gap(struct report *report, const char *room, const char *reason, uint64_t count);

// Something the reader must know to read the figures rightly ("not root: ..."). The same note twice
// is one.
void report_note(struct report *report, const char *note);

void report_finish(struct report *report, const struct report_outcome *outcome);

// Adds every record of an NDJSON file (plain text). Bad lines are counted and skipped. 0; -errno
// when reading fails; -EBADMSG when no line of it was a record. A host record gives name, CPUs and
// memory.
int report_read(struct report *report, FILE *file);

// One JSON object, one line. -EIO when the stream has an error.
int report_write_json(struct report *report, FILE *out);
