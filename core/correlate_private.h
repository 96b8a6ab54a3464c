// SPDX-License-Identifier: Apache-2.0
// What the files of the correlate room share: interned names, runs and tasks with their private
// parts.
#pragma once

#include "core/correlate.h"

// --- names: one copy of each text, counted (core/correlate_name.c) --------------------------------------------------

struct name {
	struct name *hash_next;
	uint32_t references, hash;
	char text[];
};

struct names {
	struct name **slots;
	uint32_t slot_count, count;
};

// The one copy of text, referenced; NULL when memory is out. Released by name_release(), which
// takes NULL.
const char *name_intern(struct names *names, const char *text);
void name_reference(const char *text);
void name_release(struct names *names, const char *text);
void names_free(struct names *names);

// --- runs and tasks (core/correlate_run.c) -----------------------------------------------------------------------

// Files a run's tasks have named, by hash of their path, with the sample of the first task that
// did.
struct sample_file {
	uint64_t path; // hash; 0: free
	const char *sample; // interned
};

enum { RUN_JOINS_MAX = 64 }; // of joins_told

struct run_private {
	struct run run;
	struct correlate *owner; // NULL: correlate is gone, the run is still referred to
	struct run_private *hash_next;
	uint32_t ended; // processes of it that are gone: their records hold its id
	bool chosen; // by an engine's rule; else a default that an engine may replace
	bool job; // of a scheduler or container: known by its own id
	bool named; // the name was given by the caller: only a rule changes it
	bool children_are_tasks; // of the root process
	bool service; // its root is a child of init
	bool steps; // a job whose tasks come from the job rule
	struct sample_file *files;
	uint32_t join_count; // of keys told, by hash; the oldest are forgotten
	uint32_t *joins_told;
	uint32_t file_slots, file_count;
};

enum task_naming {
	NAMING_RULE, // the rule said it
	NAMING_ROOT, // its first process
	NAMING_TOOLS, // the most telling programs in it
};

enum { TASK_NAMES_MAX = 3 };

struct task_private {
	struct task task;
	struct correlate *owner;
	struct task_private *hash_next;
	uint8_t naming;
	bool more; // programs than fit into the name
	uint8_t rank; // of the names
	uint8_t name_count;
	struct {
		const char *text; // interned
		uint64_t start_boot_ns;
	} names[TASK_NAMES_MAX];
	uint32_t sample_weight; // evidence for the sample; UINT32_MAX: none yet
	bool sample_said; // by a rule: stays
	bool sample_joint; // more than one sample: it has none
};

struct answers;

struct correlate {
	const struct rules *rules;
	struct answers *answers; // of the rules, kept
	char boot[9]; // first 8 digits of the boot id
	struct arena arena; // of one call
	struct names names;
	struct run_private **runs;
	struct task_private **tasks;
	uint32_t run_slots, run_count, task_slots, task_count;
};

static inline struct run_private *run_of(struct run *run)
{
	return (struct run_private *)run;
}

static inline struct task_private *task_of(struct task *task)
{
	return (struct task_private *)task;
}

// A run with one reference. id NULL: made of engine, boot and root.
int run_new(struct correlate *correlate, const char *engine, const char *id, const char *name,
	    struct process *root, struct run **ret_run);
struct run_private *run_find(struct correlate *correlate, const char *engine, const char *id);
int run_rename(struct correlate *correlate, struct run_private *run, const char *engine,
	       const char *name);

// A task with one reference. id NULL: made of its first process.
int task_new(struct correlate *correlate, struct run *run, const char *id, struct process *root,
	     struct task **ret_task);
// run NULL: in any run of this engine.
struct task_private *task_find(struct correlate *correlate, const struct run *run,
			       const char *engine, const char *id);

// From another image: fields are set, the one reference is the caller's (core/correlate_state.c). The discarding ones
// take a half-made object that is in no table, or NULL.
void run_restore(struct correlate *correlate, struct run_private *run);
void run_discard(struct correlate *correlate, struct run_private *run);
void task_restore(struct correlate *correlate, struct task_private *task, struct run *run);
void task_discard(struct correlate *correlate, struct task_private *task);
// A file that the run knows, by hash; sample NULL: of several.
int run_restore_file(struct correlate *correlate, struct run_private *run, uint64_t path, const char *sample);

struct buf;
struct parcel_field;
void joins_state_write(struct buf *out, uint16_t tag, const struct process *process);
int joins_state_read(struct correlate *correlate, struct process *process, const struct parcel_field *field);

// --- joins (core/correlate_join.c) -----------------------------------------------------------------------------------

// What a process's program says its run has in common with runs elsewhere; a run tells a key once, by the process
// that first showed it. -ENOMEM.
int joins_add(struct correlate *correlate, struct process *process, const struct rule_result *result);
void joins_release(struct correlate *correlate, struct process *process);
void joins_write(const struct process *process, struct json *json);

// --- the question to the rules (core/correlate_match.c) -----------------------------------------------------------

enum { PARENTS_SEEN = 3 };

// Strings in the result live until the next call. -ENOMEM.
int match_process(struct correlate *correlate, const struct process *process, struct rule_result *ret_result);

struct answers *answers_new(void); // NULL when memory is out
void answers_forget(struct answers *answers); // takes NULL, as does
void answers_free(struct answers *answers);

// --- names and samples of tasks (core/correlate_task.c) --------------------------------------------------------------

int task_set_name(struct task_private *task, const char *name);
void task_forget_tools(struct correlate *correlate, struct task_private *task);
int task_add_tool(struct correlate *correlate, struct task_private *task,
		  const struct process *process, const char *tool, uint32_t rank);
int task_add_sample(struct correlate *correlate, struct task_private *task,
		    const struct process *process, const char *sample);
