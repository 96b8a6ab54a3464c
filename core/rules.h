// SPDX-License-Identifier: Apache-2.0
// Rules say what a program is: a tool with a display name, an engine that opens a run, a task of an
// engine, a boundary below which a run begins, a shell. They are YAML data (rules/ in the tree,
// embedded; then /etc/tracer/rules.d), never C code. Order: see docs/rules.md. The first match of
// each role wins.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/buf.h"

struct rules;

// What a rule can look at. Strings may be NULL (unknown). args: NUL-separated, args_size bytes.
struct rule_subject {
	const char *comm;
	const char *exe;
	const char *script;
	const char *interpreter;
	const char *args;
	uint32_t args_size;
	const char *cwd;
	const char *cgroup_path;
	const char *container_runtime;
	const char *container_id, *pod_uid, *ecs_task, *slurm_step; // as core/cgroup.h reads them
	int64_t slurm_job; // 0 or -1: none
	uint32_t uid;
	const char *engine; // of the run it is in, or NULL
	const struct rule_subject *parent; // NULL: unknown
};

enum rule_role {
	RULE_TOOL = 1 << 0,
	RULE_ENGINE = 1 << 1, // this process opens a run of result.engine
	RULE_TASK = 1 << 2, // this process opens a task of the run
	RULE_BOUNDARY = 1 << 3, // each child opens a run of its own unless it is a boundary too
	RULE_ENGINE_AT_ROOT = 1 << 4, // with RULE_ENGINE: only where a run begins anyway
	RULE_ENGINE_HAS_TASKS =
		1 << 5, // with RULE_ENGINE: its tasks have rules; else each child of it is a task
	RULE_TASK_ANYWHERE = 1 << 6, // with RULE_TASK: also in a run of another engine
	RULE_JOB =
		1
		<< 7, // it belongs to the run job_id of a scheduler or container system, wherever it was started
	RULE_SHELL = 1 << 8, // a shell: what it forks without exec is a subshell
};

// Whose name a task of several programs carries: the highest present.
enum rule_rank {
	RULE_RANK_SILENT, // a wrapper's helper: never names a task that has a name
	RULE_RANK_SHELL, // a shell with a text of commands
	RULE_RANK_NOISE, // true, mkdir, date, env
	RULE_RANK_WRAPPER, // a rule's program that only starts others: srun, mpirun, ...
	RULE_RANK_UTILITY, // cat, sort, gzip, ...
	RULE_RANK_SCRIPT, // a shell script
	RULE_RANK_PROGRAM, // any other program
	RULE_RANK_TOOL, // one that has a rule
};

// What makes parts of a run on several hosts one (docs/rules.md).
enum join_how {
	JOIN_ID, // who has the same key at the same time is of one run
	JOIN_PLACE, // parts belong to the one run that is at the head of the place then
	JOIN_WEAK, // a hint: shown, joins nothing
};
enum { JOINS_MAX = 4 }; // of one program
#define JOIN_EVER UINT32_MAX
struct rule_join {
	const char *key; // "SCOPE:VALUE"; paths without "." and ".."
	const char *why; // in words, lives in the rules
	uint32_t within_s; // how far apart their times may be; JOIN_EVER: any
	uint8_t how; // enum join_how
	bool head; // of a place: what hands out the work
	bool job; // it speaks of the run of the job, not of one inside it
};

struct rule_result {
	uint32_t
		roles; // enum rule_role; RULE_TOOL always (an unmatched program appears under its own name)
	const char *tool; // display name, e.g. "samtools sort"; never NULL
	const char *category; // e.g. "alignment", NULL
	const char *engine;
	const char *run_name; // NULL: none said
	const char
		*task_id; // stable inside the run, e.g. a work directory; NULL: a new one each time
	const char *task_name;
	const char *sample;
	const char *task_engine; // engine the task rule belongs to
	const char *job_engine, *job_id; // with RULE_JOB, never NULL
	const char *job_name, *job_task; // NULL: none said
	uint32_t rank; // enum rule_rank
	bool probe; // it asks something for the program that started it: whatever its end is, it is no failure
	bool starts_probes; // so are its copies that run no program
	bool asks; // its exit code 1 is an answer, as grep's
	const char *tool_rule; // "file.yaml:line" of the rule that matched, NULL: none
	const char *role_rule; // of task, engine or boundary, the first of these that matched
	const char *job_rule;
	uint32_t join_count;
	struct rule_join joins[JOINS_MAX];
};

// Loads the embedded rules, then every *.yaml in directory (NULL: none) in name order. On bad
// rules: -EINVAL and "file:line: reason; what to do" lines in error; *ret_rules untouched.
int rules_load(const char *directory, struct rules **ret_rules, struct buf *error);

// The same, with a file of rules that came with an update (NULL or absent: none) after the directory's and before the
// embedded ones. When that file is what is bad, everything else is loaded without it: 0, and error says why.
int rules_load_pushed(const char *directory, const char *pushed, struct rules **ret_rules, struct buf *error);
void rules_free(struct rules *rules);
uint32_t rules_count(const struct rules *rules);

// Strings in the result live in arena or in rules. -ENOMEM.
int rules_match(const struct rules *rules, const struct rule_subject *subject, struct arena *arena,
		struct rule_result *ret_result);

// Sample of a program by the files among its arguments (what remains of the name without the known
// endings). Lower weight is the better evidence (reads before alignments). *ret_sample is NULL when
// no argument says anything. -ENOMEM.
int rules_sample(const struct rules *rules, const char *args, uint32_t args_size,
		 struct arena *arena, const char **ret_sample, uint32_t *ret_weight);

// Calls visit for each argument, or word of an argument, that names a data file by its ending.
typedef void rules_file_fn(void *context, const char *path, size_t length, const char *stem,
			   size_t stem_length, uint32_t weight);
void rules_files(const struct rules *rules, const char *args, uint32_t args_size,
		 rules_file_fn *visit, void *context);

// Is this stem too common a word ("reads", "merged") to be a sample's name?
bool rules_sample_ignored(const struct rules *rules, const char *stem, size_t length);

// Secrets out of arguments, to be called before anything is written: flags keep their name, values
// become "[redacted]". *ret_args is args itself when there was nothing to hide. -ENOMEM.
int rules_redact(const struct rules *rules, const char *args, uint32_t args_size,
		 struct arena *arena, const char **ret_args, uint32_t *ret_size);

// What the in-kernel filter is made from. Values are exact. An include of any kind means: nothing
// else is recorded.
enum rules_filter_action { RULES_FILTER_EXCLUDE, RULES_FILTER_INCLUDE };
enum rules_filter_field {
	RULES_FILTER_COMM,
	RULES_FILTER_UID,
	RULES_FILTER_CGROUP,
	RULES_FILTER_EXE
};
struct rules_filter_entry {
	enum rules_filter_action action;
	enum rules_filter_field field;
	const char *
		value; // comm: at most 15 bytes; cgroup: a path, everything below it too; exe: a basename
	uint32_t uid; // with RULES_FILTER_UID
};
void rules_filter(const struct rules *rules,
		  void (*visit)(void *context, const struct rules_filter_entry *entry),
		  void *context);

// Appends "file:line: reason; what to do" for rules that are legal but can never match. 0 or
// -ENOMEM.
int rules_warnings(const struct rules *rules, struct buf *out);

// Calls visit for each rule in matching order.
struct rule_listing {
	const char *section, *name, *category, *place;
};
void rules_each(const struct rules *rules,
		void (*visit)(void *context, const struct rule_listing *listing), void *context);

// Appends a human-readable account of which rules were tried and why the winner won.
int rules_explain(const struct rules *rules, const struct rule_subject *subject, struct buf *out);
