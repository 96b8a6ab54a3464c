// SPDX-License-Identifier: Apache-2.0
// A run in the words of other tools: one small file for each format, one table of them. What is not known is absent or
// what the format has for it, never 0. A run that is part of a whole over several hosts is written with all parts.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lake/store.h"

// Where the text goes; 0 or -errno, which ends the export.
struct export_sink {
	int (*write)(void *data, const char *bytes, size_t length);
	void *data;
};

struct export_question {
	struct store_reader *reader;
	const char *workspace; // NULL: all of them
	uint64_t run_id; // runs.id
	uint64_t now_ns; // Unix time, the end of what still runs
};

struct export;

struct export_format {
	const char *name; // NULL ends the table
	const char *content_type;
	const char *ending; // of a file: ".csv"
	const char *summary;
	int (*write)(struct export *export);
};

extern const struct export_format export_formats[];
const struct export_format *export_format_find(const char *name); // NULL: none

// -ENOENT: no such run; nothing was written. Else 0, or -errno with error filled where the store has a sentence.
int export_run(const struct export_format *format, const struct export_question *question,
	       const struct export_sink *sink, struct store_error *error);
