// SPDX-License-Identifier: Apache-2.0
// Shared by the files of `tracer top`: top.c (command, keys), top_rows.c (what is shown), top_screen.c (the terminal).
#pragma once

#include "cli/live.h"
#include "cli/ui.h"

enum top_group { TOP_RUN, TOP_TASK, TOP_TOOL, TOP_PROCESS, TOP_CONTAINER, TOP_GROUP_END };
enum top_sort {
	TOP_BY_CPU,
	TOP_BY_MEMORY,
	TOP_BY_IO,
	TOP_BY_TIME,
	TOP_BY_PROCESSES,
	TOP_BY_NAME,
	TOP_SORT_END
};

extern const char *const top_group_names[TOP_GROUP_END];
extern const char *const top_sort_names[TOP_SORT_END];

// A line. Rates are over the last interval, negative when unknown; only what lived at both its ends counts.
struct top_row {
	const char *name, *detail; // raw
	uint32_t pid; // of a process, else 0
	uint64_t processes;
	double cpu, waiting; // cores used, and waited for
	double read, write; // bytes a second through system calls
	uint64_t rss_bytes; // largest process
	uint64_t cpu_ns; // so far
	uint64_t threads;
	uint64_t age_ns; // oldest process
};

struct top_rows {
	struct top_row *rows;
	size_t count;
	double cpu; // of all rows
	uint64_t processes;
};

// Whether the figures were read again between the two: the collector does not with every look.
bool top_has_moved(const struct live *before, const struct live *now);

// Groups the processes that have text in a name (NULL: all) and sorts. before: an older snapshot, may be empty. Rows
// borrow from now. 0 or -ENOMEM.
int top_rows_make(const struct live *before, const struct live *now, enum top_group group,
		  enum top_sort sort, const char *text, struct top_rows *ret_rows);
void top_rows_free(struct top_rows *rows);

// --- the terminal ------------------------------------------------------------------------------------------------

// Takes over the terminal: other screen, no echo, no cursor. Whatever ends the process, a deadly signal included,
// gives it back as it was (SIGKILL aside). 0 or -errno.
int top_screen_open(void);
void top_screen_close(void);

// Waits for a key until timeout_ms have passed. Returns the key, TOP_KEY_*, or 0: time is up.
enum {
	TOP_KEY_RESIZE = 0x100,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_GONE, // the terminal hung up
};
int top_screen_key(int timeout_ms);

// What is drawn.
struct top_view {
	enum top_group group;
	enum top_sort sort;
	const char *search; // "" : none
	bool typing; // the search line is being edited
	bool paused, help;
	size_t scroll;
	unsigned interval_s;
	unsigned columns, lines;
};

// Writes one frame (or, in batch mode, the whole table without positioning).
void top_draw(const struct ui *ui, const struct top_view *view, const struct live *live,
	      const struct top_rows *rows, bool batch);
