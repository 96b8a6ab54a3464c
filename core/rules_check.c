// SPDX-License-Identifier: Apache-2.0
// Rules, the part that finds rules which can never win: an earlier rule of the same role holds for
// every program the later one is about. Only what is certain is told: the earlier condition asks
// for program names and nothing else.
#include <string.h>

#include "core/rules_private.h"

// The globs of a condition that is only "program: ...", through ands of one; NULL for any other.
static const struct globs *only_programs(const struct condition *condition)
{
	while (condition && condition->kind == CONDITION_AND && condition->children &&
	       !condition->children->next)
		condition = condition->children;
	return condition && condition->kind == CONDITION_TEXT && condition->field == FIELD_PROGRAM
		       ? condition->globs
		       : NULL;
}

struct cover {
	const struct globs *globs;
	bool all;
};

static void check_program(void *context, const struct glob *glob)
{
	const char *name = glob_literal(glob);
	struct cover *cover = context;
	bool found = false;

	for (uint32_t i = 0; i < cover->globs->count; i++)
		found = found ||
			(name ? glob_matches(cover->globs->items[i], name)
			      : !strcmp(glob_pattern(cover->globs->items[i]), glob_pattern(glob)));
	cover->all = cover->all && found;
}

static bool is_covered(const struct rule *rule, const struct rule *earlier)
{
	struct cover cover = {.globs = only_programs(earlier->when), .all = true};

	if (earlier->section != rule->section || rule->section == SECTION_TASK ||
	    rule->section == SECTION_JOIN)
		return false;
	if (!earlier->when)
		return true;
	return cover.globs && rule->when && condition_programs(rule->when, check_program, &cover) &&
	       cover.all;
}

int rules_warnings(const struct rules *rules, struct buf *out)
{
	for (uint32_t i = 0; i < rules->count; i++)
		for (uint32_t j = 0; j < i; j++) {
			const struct rule *rule = rules->rules[i], *earlier = rules->rules[j];
			// A user's rule in front of a shipped one is what the order is for.
			if (earlier->origin != rule->origin || !is_covered(rule, earlier))
				continue;
			buf_printf(out,
				   "%s: warning: the %s \"%s\" is never reached: \"%s\" at %s "
				   "takes its programs first; move it "
				   "up or remove it\n",
				   rule->place, section_names[rule->section], rule->name,
				   earlier->name, earlier->place);
			break;
		}
	return buf_error(out);
}
