// SPDX-License-Identifier: Apache-2.0
// The streamer: a child of the collector that delivers the spool to a datalake over HTTP. It holds no privilege, reads
// the spool, writes only below the spool's `stream` directory (cursor, identity, agent token, quarantine) and is the
// only part of collect that talks to a network. docs/stream.md has what a user sees, docs/wire.md the protocol.
//
// Guarantees:
// - Every record is acknowledged by the server before the cursor passes it, or declared to the server as missing with a
//   reason. A record is sent again after any crash in between; the server tells a second delivery by its number.
// - It tries for ever. No answer, clock or certificate stops it for good, and one record that a server refuses never
//   blocks those behind it.
// - Nothing is sent before the server's certificate was verified by chain, name and, where pins are given, key.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/option.h"

enum { STREAM_WHY_SIZE = 384, STREAM_HOST_ID_SIZE = 37, STREAM_HARDWARE_SIZE = 40 };

struct stream_options {
	char *url; // "" no streaming
	char *token_file;
	char *ca_file; // "" the distribution's
	char **pins; // "sha256//BASE64" each
	char *client_cert, *client_key;
	char *proxy; // "" from the environment, "none" none
	char *no_proxy;
	char *state_directory; // "" the spool's own
	char *user;
	uint64_t batch_bytes, batch_records, batch_age_ns;
	uint64_t connect_timeout_ns, request_timeout_ns;
	uint64_t retry_limit_ns;
	uint64_t stop_wait_ns;
	uint64_t quarantine_bytes;
	bool sandbox;
};

// The declared options, as table "stream".
extern const struct option_spec stream_option_specs[];

// -EINVAL: why says which value cannot be, and what can.
int stream_options_check(const struct stream_options *options, char why[STREAM_WHY_SIZE]);

enum stream_state {
	STREAM_STARTING,
	STREAM_IDLE, // all that is there is delivered
	STREAM_SENDING,
	STREAM_RETRYING, // waits until retry_at_ns, last_error says why
	STREAM_DEAD, // the process ended unexpectedly and is started again at retry_at_ns
	STREAM_STOPPED,
	STREAM_STATE_END,
};

const char *stream_state_name(enum stream_state state);

// What the child says of itself. Sent as it is through a socket pair; the receiver trusts no member.
struct stream_report {
	uint64_t version; // STREAM_REPORT_VERSION
	uint64_t state; // enum stream_state
	uint64_t acked, delivered; // as in the cursor
	uint64_t batches, records; // acknowledged since the process began
	uint64_t bytes_sent,
		bytes_packed; // bodies of acknowledged batches: compressed, and before that
	uint64_t quarantined; // records put aside, ever
	uint64_t holes; // records declared missing since the process began
	uint64_t failures; // requests that brought nothing
	uint64_t restarts; // of the process
	uint64_t last_success_ns, last_error_ns, retry_at_ns; // Unix time; 0 never
	uint64_t oldest_ns; // Unix time of the oldest record seen and not acknowledged; 0 none
	uint64_t refused_calls; // system calls the sandbox refused
	int64_t http_status; // of the last answer; 0 none came
	uint64_t landlock; // the kernel's version of it; 0 the kernel has none
	uint64_t seccomp; // 1 in force
	uint64_t pid;
	char host_id[40];
	char last_error[STREAM_WHY_SIZE];
};

enum { STREAM_REPORT_VERSION = 1 };

// Called in the streamer's process with one sentence for a log.
typedef void stream_tell_fn(void *context, bool bad, const char *text);

// ---- the collector's side ----------------------------------------------------------------------------------------

struct stream;

// Prepares the spool's stream directory for the unprivileged user, reads the files that only the caller may read, and
// starts the child. Call while there is one thread, before privileges go. 0; -EINVAL, -EACCES or another -errno with
// why.
int stream_start(const struct stream_options *options, const char *spool_directory,
		 stream_tell_fn *tell, void *context, struct stream **ret_stream,
		 char why[STREAM_WHY_SIZE]);

// What another image needs to go on with this streamer: it and its keeper stay as they are.
struct stream_handle {
	int fd; // borrowed
	uint64_t keeper;
	uint64_t reported; // 0: report says nothing yet
	struct stream_report report;
	uint64_t hash; // of everything it was started with: another image starts one of its own when this differs
};
void stream_handle_get(const struct stream *stream, struct stream_handle *ret_handle);
uint64_t stream_options_hash(const struct stream_options *options, const char *spool_directory);
// Takes the descriptor over, on success only. -ENOMEM, or what is wrong with the spool's directory.
int stream_adopt(const struct stream_options *options, const char *spool_directory, const struct stream_handle *handle,
		 struct stream **ret_stream);

// Readable when a report has come; stream_read() takes it. Never blocks. false: both processes are gone, nothing more
// will come.
int stream_fd(const struct stream *stream);
bool stream_read(struct stream *stream);

// The latest report, every member checked. false: none has come yet.
bool stream_latest(const struct stream *stream, struct stream_report *ret_report);

// What this process has not the rights to mend: both processes are gone, or the spool was taken away and another
// directory made in its place, which they cannot open. NULL: nothing of the kind. The next image can.
const char *stream_lost(const struct stream *stream, const char *spool_directory);

// Tells the child to deliver what is there and end; waits for that, stop_wait_ns and a little at most. Frees. Takes
// NULL.
void stream_stop(struct stream *stream);

// ---- by hand -----------------------------------------------------------------------------------------------------

struct stream_hand {
	bool once; // end when all is delivered, or at the first failure
	stream_tell_fn *tell;
	void *context;
};

// Streams in this process, with the same sandbox, until SIGTERM or SIGINT. 0; 1 when once left something behind;
// -errno with why when it could not begin.
int stream_by_hand(const struct stream_options *options, const char *spool_directory,
		   const struct stream_hand *hand, char why[STREAM_WHY_SIZE],
		   struct stream_report *ret_report);
