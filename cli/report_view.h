// SPDX-License-Identifier: Apache-2.0
// What of a report is worth a line: the tree with like tasks merged and the small folded, ready to
// print.
#pragma once

#include "core/report_tree.h"

struct report_view {
	struct report_view *next, *children;
	enum report_kind kind;
	const struct report_node *node; // NULL: several merged
	const char *label; // from outside: escape before printing
	const char *only_tool; // of a task with one tool: shown beside it instead of below
	bool fold; // not a row: label, already harmless, tells what was left out
	uint32_t count; // rows merged into this one
	uint32_t failed, retries; // of them
	struct report_sum sum;
	double offered_ns;
};

// The runs of a finished report. NULL when there are none or memory is out; lives in the report's
// arena.
struct report_view *report_view_build(struct report *report, bool unicode);
