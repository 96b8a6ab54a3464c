// SPDX-License-Identifier: Apache-2.0
// What the running collector tells to whoever connects: its state, and the living processes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct collect_handover;
struct loop;
struct spool;
struct status_server;
struct stream;

// What became of the rules when they were last read.
struct collect_rules {
	bool pushed, left_out; // there is a file of pushed ones; it is bad
	uint64_t reloads; // tried since the process began
	uint64_t failed, failed_own; // of these: the old ones stayed, of failed_own for the host's own files
	char why[200]; // of what was left out, else of the last failure
};

struct collect_status {
	// Set by the caller, borrowed.
	struct loop *loop;
	struct agent *agent;
	const struct spool *spool;
	struct stream *stream; // NULL: nothing is delivered
	const char *stream_url, *stream_why; // where to; why there is no streamer although there should be
	struct fallback *fallback; // NULL: BPF
	const char *without_bpf; // why not; "": it was not asked for
	uint64_t start_boot_ns;
	const struct collect_handover *handover;
	const struct collect_rules *rules;
	// Own.
	struct status_server *state, *processes;
};

// Opens the two sockets, before privileges go; a path of "" is not opened. group may read the processes ("": root
// only); the state, which names no process, is for every user. One that cannot be opened is logged, and left out.
void collect_status_open(struct collect_status *status, const char *path,
			 const char *processes_path, const char *group);

void collect_status_close(struct collect_status *status); // takes a half-open one
