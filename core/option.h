// SPDX-License-Identifier: Apache-2.0
// Declared options: one table parses, checks, defaults and documents. Values come from the YAML file, then TRACER_*
// variables, then flags, the later winning. The key "spool.cap_bytes" is the YAML path spool: cap_bytes:, the variable
// TRACER_SPOOL_CAP_BYTES and the flag --spool-cap-bytes.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum option_type {
	OPTION_BOOL, // bool
	OPTION_U64, // uint64_t; a count
	OPTION_BYTES, // uint64_t; accepts K, M, G, T suffixes of 1024
	OPTION_DURATION, // uint64_t nanoseconds; accepts ns, us, ms, s, m, h, d
	OPTION_STRING, // char *
	OPTION_LIST, // char **, NULL-terminated
};

struct option_spec {
	const char *key; // NULL ends a table
	enum option_type type;
	size_t offset; // of the value in the options struct
	const char *default_text; // parsed like any other value
	uint64_t min, max; // for numbers; both 0: any
	const char *help;
};

// Longest message of option_parse(), NUL included.
enum { OPTION_ERROR_SIZE = 256 };

// Parses text into *value, a place of the option's type. Strings and lists are allocated and replace (free) what
// *value holds, so it must be NULL or of an earlier call. In a list text is split at commas. -EINVAL: error says what
// is allowed; -ENOMEM. *value is untouched on failure.
int option_parse(const struct option_spec *spec, const char *text, void *value,
		 char error[OPTION_ERROR_SIZE]);

// Appends one item to a list. The same errors.
int option_append(const struct option_spec *spec, const char *item, void *value,
		  char error[OPTION_ERROR_SIZE]);

// Releases what a string or list holds and sets it to NULL.
void option_release(const struct option_spec *spec, void *value);

struct buf;

// Appends the value as YAML that option_parse() reads back: 64M, 50ms, "text", [a, b].
void option_format(const struct option_spec *spec, const void *value, struct buf *out);

// Appends what values are allowed: "a size from 1M to 8G, such as 64M".
void option_describe(const struct option_spec *spec, struct buf *out);

// What stands for a value in a usage line: SIZE, DURATION, ...
const char *option_placeholder(const struct option_spec *spec);
