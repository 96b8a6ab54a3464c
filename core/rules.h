// SPDX-License-Identifier: Apache-2.0
// Rules say what a program is: a tool with a display name, an engine that opens a run, a task of an engine, a boundary
// below which a run begins, a shell. They are YAML data (rules/ in the tree, embedded; then /etc/tracer/rules.d), never
// C code. Order: see docs/rules.md. The first match of each role wins.
#pragma once

#include <stdbool.h>
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
	uint32_t uid;
	const char *engine; // of the run it is in, or NULL
	const struct rule_subject *parent; // NULL: unknown
};

enum rule_role {
	RULE_TOOL = 1 << 0,
	RULE_ENGINE = 1 << 1, // this process opens a run of result.engine
	RULE_TASK = 1 << 2, // this process opens a task of the run
	RULE_BOUNDARY = 1 << 3, // each child opens a run of its own unless it is a boundary too
};

struct rule_result {
	uint32_t roles; // enum rule_role; RULE_TOOL always (an unmatched program appears under its own name)
	const char *tool; // display name, e.g. "samtools sort"; never NULL
	const char *category; // e.g. "alignment", NULL
	const char *engine;
	const char *run_name; // NULL: none said
	const char *task_id; // stable inside the run, e.g. a work directory; NULL: a new one each time
	const char *task_name;
	const char *sample;
	const char *tool_rule; // "file.yaml:line" of the rule that matched, NULL: none
	const char *role_rule;
};

// Loads the embedded rules, then every *.yaml in directory (NULL: none) in name order. On bad rules: -EINVAL and
// "file:line: reason; what to do" lines in error; *ret_rules untouched.
int rules_load(const char *directory, struct rules **ret_rules, struct buf *error);
void rules_free(struct rules *rules);
uint32_t rules_count(const struct rules *rules);

// Strings in the result live in arena or in rules. -ENOMEM.
int rules_match(const struct rules *rules, const struct rule_subject *subject, struct arena *arena,
		struct rule_result *ret_result);

// Appends a human-readable account of which rules were tried and why the winner won.
int rules_explain(const struct rules *rules, const struct rule_subject *subject, struct buf *out);
