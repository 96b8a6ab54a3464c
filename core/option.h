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
