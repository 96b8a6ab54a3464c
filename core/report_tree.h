// SPDX-License-Identifier: Apache-2.0
// The inside of a report, for the files that fill it and those that write it out. Borrowed by
// reference; everything lives in the report's arena. Times are boot-clock nanoseconds, or Unix ones
// when the report was read from a file.
#pragma once

#include "core/base/arena.h"
#include "core/correlate.h"
#include "core/report.h"

enum {
	REPORT_NODES_MAX = 16384, // rows of runs, tasks and tools
	REPORT_FAILURES_MAX = 256,
	REPORT_GAPS_MAX = 32,
	REPORT_NOTES_MAX = 16,
	REPORT_TEXT_MAX = 400, // bytes kept of a name or command line
	REPORT_IMAGES_MAX = 16, // of one process; later ones are added to the last
	REPORT_RUN_DEPTH_MAX = 8,
};

// Figures that add up. Each may be UNKNOWN in a process; a sum then says for how many.
enum report_figure {
	REPORT_CPU,
	REPORT_USER,
	REPORT_SYSTEM,
	REPORT_RUN_DELAY,
	REPORT_RCHAR,
	REPORT_WCHAR,
	REPORT_READ,
	REPORT_WRITE,
	REPORT_MINOR_FAULTS,
	REPORT_MAJOR_FAULTS,
	REPORT_VOLUNTARY,
	REPORT_INVOLUNTARY,
	REPORT_RECLAIM, // direct reclaim and compaction stalls
	REPORT_BLOCKED, // enum blocked follows
	REPORT_FIGURE_END = REPORT_BLOCKED + BLOCKED_END,
};

// JSON member of a figure, e.g. "cpu_ns".
extern const char *const report_figure_names[REPORT_FIGURE_END];

// A row's sums over processes.
struct report_sum {
	uint64_t processes;
	uint64_t value[REPORT_FIGURE_END];
	uint32_t unknown[REPORT_FIGURE_END]; // processes without that figure
	uint64_t wall_ns, wall_min_ns, wall_max_ns; // of single processes
	uint64_t offered_ns; // sum of wall x cores, cores = threads_max bounded by the CPUs
	uint64_t peak_bytes; // largest process; 0 while none is known
	uint32_t peak_unknown;
	uint8_t peak_quality;
	const char *peak_tool;
	uint64_t first_ns, last_ns;
	uint32_t threads_max; // widest process
	uint64_t failures; // processes that ended with a code or a signal
};

// How a process ended.
struct report_end {
	int32_t exit_code; // -1: unknown
	int32_t signal;
	bool core, oom;
	const char *oom_limit;
	enum end_meaning meaning;
};

enum report_kind { REPORT_TOTAL, REPORT_RUN, REPORT_TASK, REPORT_TOOL };

struct report_node {
	struct report_node *hash_next, *parent, *children, *next;
	enum report_kind kind;
	uint64_t hash;
	const char *id, *name;
	const char *engine; // of a run
	const char *parent_id; // of a run read from a file, until report_nest()
	const char *sample; // of a task, as its latest record has it; NULL: none
	const char *sample_room; // kept for it
	const char *command; // of the earliest process
	struct report_sum sum;
	uint64_t root_ns; // start of the earliest process that ended
	uint64_t root_expected_ns; // start of the process that opened the row; UNKNOWN: not said
	struct report_end end; // of that process
	bool folded; // stands for all rows of its parent that found no place of their own
	bool critical; // set by report_finish()
	uint32_t attempt; // 2 for the first retry; set by report_finish()
	uint32_t alike; // failed tasks of this name and end that it stands for; 0: another one does
	struct report_node *retry; // the task that did this one's work again
};

// Failed processes of one tool in one task that ended alike.
struct report_failure {
	struct report_failure *next;
	const struct report_node *tool; // its parents are the task and the run
	struct report_end end;
	uint64_t count;
	uint64_t first_ns; // start of the first one
	uint64_t wall_ns; // its duration
	const char *command;
};

struct report_gap {
	const char *room, *reason;
	uint64_t count;
};

struct report {
	struct arena arena;
	struct report_setup setup;
	struct report_outcome outcome;
	struct report_node total; // children: runs
	struct report_node **buckets; // of nodes, by hash
	uint32_t nodes;
	struct report_failure *failures; // newest first; answers among them, which failed tasks may have failed for
	uint32_t failure_count;
	uint64_t failures_folded; // processes whose failure found no row
	struct report_gap gaps[REPORT_GAPS_MAX];
	uint32_t gap_count;
	const char *notes[REPORT_NOTES_MAX];
	uint32_t note_count;
	uint64_t lost; // processes that could not be added
	uint64_t bad_lines; // report_read()
};

// What an image or a process brings in.
struct report_image {
	const char *tool;
	uint64_t start_ns, end_ns;
	uint64_t value[REPORT_FIGURE_END];
	uint64_t peak_bytes; // UNKNOWN
};

struct report_run {
	const char *id, *name, *engine;
	const char *parent_id; // when the runs around it are not given; NULL
	uint64_t root_start_ns; // UNKNOWN
};

struct report_process {
	struct report_run runs[REPORT_RUN_DEPTH_MAX]; // outermost first
	uint32_t run_count;
	const char *task_id, *task_name, *sample; // task_id NULL: the run's own
	uint64_t task_root_start_ns;
	uint64_t start_ns, end_ns;
	uint32_t threads_max; // 0: unknown
	uint64_t peak_bytes;
	uint8_t peak_quality;
	uint64_t value[REPORT_FIGURE_END];
	struct report_image images[REPORT_IMAGES_MAX];
	uint32_t image_count; // at least one
	struct report_end end;
	char command[REPORT_TEXT_MAX]; // arguments joined, quoted where needed
};

int report_add(struct report *report, const struct report_process *process);

// A fork that execs soon, or after next to no work, is the launch of what follows, not work of what it copied.
enum { REPORT_LAUNCH_WALL_NS = 20 * 1000 * 1000, REPORT_LAUNCH_CPU_NS = 2 * 1000 * 1000 };
bool report_is_launch(uint64_t wall_ns, uint64_t cpu_ns);

// Joins NUL-separated arguments into one line a shell would take, at most REPORT_TEXT_MAX bytes
// with "..." at a cut.
void report_command(char out[REPORT_TEXT_MAX], const char *args, size_t args_size);

// The CPU time a row could have had; its efficiency is CPU time over this. A tool: each process's
// wall time x its threads_max, bounded by the CPUs. A task: its wall time x threads_max of its
// widest process, or the whole cores it really used when that is more, bounded by the CPUs. A run:
// its wall time x the CPUs of the host. 0: unknown.
double report_offered_ns(const struct report *report, const struct report_node *node);

bool report_end_failed(const struct report_end *end);

// Adds the sums of one row to another's, as if its processes had been added there.
void report_sum_merge(struct report_sum *into, const struct report_sum *from);

// The row of a kind below a parent, or NULL.
struct report_node *report_find(const struct report *report, enum report_kind kind,
				const struct report_node *parent, const char *id);

// Puts runs below the runs that their parent_id names, once all are in. A circle is left as it is.
void report_nest(struct report *report);

// core/report_order.c, called by report_finish(): sorts children (a run's own tools first, then
// tasks and runs by start; tools by CPU time, largest first), finds retries and marks the chain of
// tasks that decided the end. 0 or -ENOMEM.
int report_order(struct report *report);

// All rows of a kind, in the order of the tree. The array lives in the arena. NULL when memory is
// out.
struct report_node **report_collect(struct report *report, enum report_kind kind,
				    size_t *ret_count);
