// SPDX-License-Identifier: Apache-2.0
// Shell patterns, compiled once and matched in bounded time: * ? [a-z] [!a-z] and \ for the next
// character. With GLOB_PATH, * and ? stop at '/' and ** does not ("**/x" is x in any directory, or
// x alone). One group ( ) marks a part that can be read out of the text.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"

enum glob_flag {
	GLOB_PATH = 1 << 0,
	GLOB_FOLD = 1 << 1, // ASCII letters match in either case
};

enum { GLOB_TEXT_MAX = 16384 }; // longer text never matches a pattern with wildcards

struct glob;

// Compiles into the arena. -EINVAL with a reason that fits into a sentence, -ENOMEM.
int glob_compile(const char *pattern, unsigned flags, struct arena *arena,
		 const struct glob **ret_glob, const char **ret_reason);

// The pattern as it was written.
const char *glob_pattern(const struct glob *glob);

// The whole text when the pattern has no wildcard, else NULL.
const char *glob_literal(const struct glob *glob);

// The longest run of plain characters in it; "" when there is none.
const char *glob_needle(const struct glob *glob);

bool glob_matches(const struct glob *glob, const char *text);

// Matches and gives the part of text inside the group (the whole text when the pattern has none).
bool glob_capture(const struct glob *glob, const char *text, const char **ret_start,
		  size_t *ret_length);
bool glob_is_path(const struct glob *glob); // compiled with GLOB_PATH
bool glob_has_group(const struct glob *glob);
