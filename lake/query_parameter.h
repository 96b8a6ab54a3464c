// SPDX-License-Identifier: Apache-2.0
// The parameters of a question, in the one form the API and the command line share: names and values in order.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/base/arena.h"

enum {
	QUERY_PARAMETERS_MAX = 64,
	QUERY_TEXT_MAX = 64 * 1024, // bytes of a whole query string
};

struct query_parameter {
	const char *name, *value; // decoded, NUL-terminated
	bool used; // somebody read it: what nobody read is an error
};

struct query_parameters {
	struct arena *arena; // holds the texts
	struct query_parameter list[QUERY_PARAMETERS_MAX];
	size_t count;
};

// Adds what a URL's query string holds ("a=1&b.gte=2", percent-encoded, "+" is a blank). NULL is empty. 0; -EINVAL: a
// bad escape, a NUL, a name without a value, or text that is not UTF-8; -E2BIG: too many or too long; -ENOMEM.
int query_parameters_parse(struct query_parameters *parameters, const char *query);

// Adds one; both are copied.
int query_parameters_add(struct query_parameters *parameters, const char *name, const char *value);

// The value of a parameter that may be given once; NULL when it is not there. *ret_twice, untouched otherwise, is set
// when it is there more than once. Marks it used.
const char *query_parameter_take(struct query_parameters *parameters, const char *name,
				 bool *ret_twice);

// The first parameter that nobody read, or NULL.
const char *query_parameter_unused(const struct query_parameters *parameters);

// Decodes percent escapes of a path segment into the arena; NULL: bad escape, NUL, not UTF-8, or no memory.
const char *query_decode(struct arena *arena, const char *text, size_t length, bool plus_is_blank);

// Appends text as a query string's value.
struct buf;
void query_encode(struct buf *out, const char *text);

// A condition as a person writes it, COLUMN OPERATOR VALUE ("cpu_ns>=1e9", "tool=bwa", "exe^=/usr", "args~chr1",
// "end_ns=null"), as name and value of a parameter ("cpu_ns.gte", "1e9"). 0; -EINVAL: no operator or column; -ENOMEM.
int query_where(struct arena *arena, const char *text, struct query_parameter *ret_parameter);
