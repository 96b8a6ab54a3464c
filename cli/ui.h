// SPDX-License-Identifier: Apache-2.0
// What every command needs to talk to a person: the terminal's abilities, numbers for reading, and
// text from outside made harmless. Text that came from a process, a path or a file is printed only
// through ui_escape() or ui_fit().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ui {
	FILE *out;
	unsigned width; // columns, 40 to 400
	bool terminal;
	bool colour; // a terminal, TERM is not dumb and NO_COLOR is not set
	bool unicode; // the locale's character set is UTF-8
};

enum { UI_WIDTH_DEFAULT = 100, UI_NUMBER_SIZE = 24 };

void ui_init(struct ui *ui, FILE *out);
// The terminal's size now; rows may be NULL. Leaves both alone when out is no terminal.
void ui_size(const struct ui *ui, unsigned *ret_columns, unsigned *ret_rows);

enum ui_style { UI_PLAIN, UI_BOLD, UI_DIM, UI_GOOD, UI_WARN, UI_BAD, UI_ACCENT, UI_REVERSE };

// The sequence that starts a style; "" without colour. UI_PLAIN ends every style.
const char *ui_style(const struct ui *ui, enum ui_style style);

// Copies text so that it cannot move a cursor, hide or reorder: control, format and invalid bytes
// become \n, \t, \xNN or \u{N}. At most size bytes, NUL included, never cut inside a character.
// Returns the columns it takes.
size_t ui_escape(char *out, size_t size, const char *text);

// The same, cut to at most columns with a mark at the end ("…", or ".." without Unicode).
size_t ui_fit(const struct ui *ui, char *out, size_t size, const char *text, size_t columns);

// Columns of text that is already harmless.
size_t ui_columns(const char *text);

// Writes text padded to columns: to the right when columns is negative, as printf does.
void ui_pad(const struct ui *ui, const char *text, int columns);

// Paragraphs (separated by an empty line) wrapped at the width, 120 at most, each line after indent blanks. column:
// where the cursor already stands; 0 at the start of a line.
void ui_paragraphs(const struct ui *ui, const char *text, unsigned indent, unsigned column);

// Numbers for people. UINT64_MAX is unknown and becomes "?". They return out.
const char *ui_duration(char out[UI_NUMBER_SIZE],
			uint64_t ns); // 0.31 ms, 1.24 s, 2m05s, 3h07m, 4d02h
const char *ui_bytes(char out[UI_NUMBER_SIZE],
		     uint64_t bytes); // 512B, 1.2K, 34M, 1.1G; powers of 1024
const char *ui_count(char out[UI_NUMBER_SIZE], uint64_t count); // 12,345,678
const char *ui_percent(char out[UI_NUMBER_SIZE], double ratio); // 0.934 is 93%; negative is unknown

// "SIGKILL"; "signal 40" for one without a name.
const char *ui_signal(char out[UI_NUMBER_SIZE], int signal_number);
