// SPDX-License-Identifier: Apache-2.0
// Shared by the two files that print a report: report_text.c (heading, tree) and report_findings.c
// (the rest).
#pragma once

#include "cli/ui.h"
#include "core/report_tree.h"

enum { TEXT_NAME_MIN = 24, TEXT_NAME_MAX = 64 };

struct text {
	struct report *report;
	const struct ui *ui;
	FILE *out;
	unsigned name_width;
	bool io, waits; // columns shown
};

// What a thread waited for, by enum blocked.
extern const char *const text_waits[BLOCKED_END];

const char *text_on(const struct text *text, enum ui_style style);
const char *text_off(const struct text *text);
void text_heading(const struct text *text, const char *title,
		  const char *detail); // detail may be NULL
const char *text_cross(const struct text *text); // marks a failure

// "exit 2", "SIGSEGV, core dumped", "out of memory (limit: /x)".
void text_end(const struct report_end *end, char *out, size_t size);
const char *text_sum(char out[UI_NUMBER_SIZE], const struct report_sum *sum, unsigned figure,
		     bool bytes);
uint64_t text_wall_ns(const struct report *report); // of the recording; UNKNOWN

// report_findings.c
void text_waiting(const struct text *text);
void text_failures(const struct text *text);
void text_slowest(const struct text *text);
void text_notes(const struct text *text);
