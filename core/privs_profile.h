// SPDX-License-Identifier: Apache-2.0
// What a profile of the system-call filter is: core/privs_collect.c, core/privs_stream.c and core/privs_datalake.c
// have one each, and core/privs_seccomp.c makes the filter. Tables end with -1.
#pragma once

#include <stdint.h>

#include "core/privs.h"

// Allowed when argument & mask is one of the first count values.
struct privs_checked {
	int number;
	unsigned argument;
	uint32_t mask;
	unsigned count;
	uint32_t values[12];
};

struct privs_tables {
	const int *allowed;
	const struct privs_checked *checked;
	const int *deadly; // nothing here ever makes one of these: whoever does is not us
};

extern const struct privs_tables privs_tables_collect, privs_tables_stream, privs_tables_datalake;
