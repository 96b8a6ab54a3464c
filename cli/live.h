// SPDX-License-Identifier: Apache-2.0
// The processes of this host now, for `tracer ps` and `tracer top`: as the collector tells them, or, when none runs, as
// /proc shows them. Read-only either way.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/process.h"

struct rules;

// Figures are UINT64_MAX and texts NULL when unknown. Texts are raw: escape before printing.
struct live_process {
	uint32_t pid, ppid, uid;
	char state;
	uint64_t start_boot_ns;
	uint64_t figures_boot_ns; // when they were read; UINT64_MAX: never
	uint64_t cpu_ns, run_delay_ns;
	uint64_t rss_bytes;
	uint64_t threads;
	uint64_t rchar_bytes, wchar_bytes, read_bytes, write_bytes;
	const char *comm, *tool, *task, *run, *engine, *sample, *container, *cgroup, *command;
	const char *json; // the line it came from, without its newline; NULL from /proc
	size_t json_length;
};

struct live {
	struct arena arena;
	struct buf snapshot; // the collector's text, which json points into
	struct live_process *rows; // by pid
	size_t count;
	uint64_t taken_boot_ns;
	uint64_t bad_lines;
	bool from_proc;
	int collector_error; // why it is from /proc: -ENOENT, -ECONNREFUSED: none runs; 0: it was asked for
};

struct live_source {
	const char *socket;
	bool proc_only;
	struct rules *rules; // of live_take() for /proc, loaded once; NULL before
};

// Takes a snapshot into live, which is empty or of an earlier call. 0 or -errno (neither way worked).
int live_take(struct live_source *source, struct live *live);
void live_free(struct live *live);
void live_source_free(struct live_source *source);

// One line on where the rows come from and what is therefore missing; "" from a collector.
void live_note(const struct live *live, char *out, size_t size);

// True when text is found, ignoring case, in a name, command or number of the process.
bool live_matches(const struct live_process *process, const char *text);

// Appends the process as one JSON line: the collector's own, or the members that /proc gives.
void live_write_json(const struct live_process *process, struct buf *out);

// live_proc.c
int live_take_proc(struct live_source *source, struct live *live);

// What /proc tells of a process beside its figures; texts live in the arena of its struct live.
struct live_seen {
	struct event_identity identity;
	struct image_strings strings;
	const char *cgroup; // in the hierarchy that live_cgroup_controller() names
};

// live_place.c: fills tool, run, task, sample and container of each row. Sorts seen. 0 or -errno.
int live_place_all(struct live *live, struct live_seen *seen, size_t count, const struct rules *rules);
// The v1 controller whose hierarchy names containers; NULL: the unified one.
const char *live_cgroup_controller(void);
// Makes room for one more row; NULL when memory is out.
struct live_process *live_add(struct live *live);
