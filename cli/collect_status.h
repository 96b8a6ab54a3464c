// SPDX-License-Identifier: Apache-2.0
// What the running collector tells to whoever connects: its state, and the living processes.
#pragma once

#include <stdint.h>

struct agent;
struct collect_handover;
struct loop;
struct spool;
struct status_server;
struct stream;

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
	// Own.
	struct status_server *state, *processes;
};

// Opens the two sockets, before privileges go; a path of "" is not opened. group may read the processes ("": root
// only); the state, which names no process, is for every user. One that cannot be opened is logged, and left out.
void collect_status_open(struct collect_status *status, const char *path,
			 const char *processes_path, const char *group);

void collect_status_close(struct collect_status *status); // takes a half-open one
