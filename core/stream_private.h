// SPDX-License-Identifier: Apache-2.0
// Inside the streamer: what its files share. stream_child.c starts and keeps the process, stream_sandbox.c confines it,
// stream_state.c is its memory on disk, stream_gather.c and stream_batch.c make requests out of the spool,
// stream_http.c, stream_tls.c and stream_ca.c send them, stream_answer.c reads what comes back, stream.c decides.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

#include "core/base/buf.h"
#include "core/spool_files.h"
#include "core/spool_reader.h"
#include "core/stream.h"

// Everything the process needs, gathered while it still may.
struct stream_setup {
	const struct stream_options *options;
	int spool_fd; // the directory
	int state_fd; // where identity, token and quarantine are
	int cursor_fd; // the spool's stream directory
	uid_t uid; // (uid_t)-1: stay
	gid_t gid;
	struct buf token; // for enrolment; empty: none
	char token_missing[STREAM_WHY_SIZE]; // why it is empty
	struct buf client_cert, client_key;
	char host[256], machine_id[64], hardware[STREAM_HARDWARE_SIZE];
	char ca_path[256]; // "" the embedded bundle
	struct buf ca; // as it was read at the start
	int report_fd; // where reports go, and whose end of file says stop; -1 by hand
	bool once;
	bool final; // nobody writes the spool any more
	uint64_t restarts;
	stream_tell_fn *tell;
	void *tell_context;
};

// ---- stream_child.c ----------------------------------------------------------------------------------------------

void stream_tell(const struct stream_setup *setup, bool bad, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// ---- stream_sandbox.c --------------------------------------------------------------------------------------------

// The user's numbers, or those of nobody in particular where there is none of that name. (uid_t)-1: not root, stay.
void stream_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);
// Gives up the user, groups and capabilities.
int stream_become(const struct stream_setup *setup);
// Confines files and system calls. What the kernel does not have is left out: *ret_landlock 0, *ret_seccomp 0.
int stream_confine(const struct stream_setup *setup, uint64_t *ret_landlock, uint64_t *ret_seccomp);

// ---- stream_state.c ----------------------------------------------------------------------------------------------

#define STREAM_DIRECTORY "stream" // below the spool
#define STREAM_IDENTITY_FILE "identity"

struct stream_identity {
	char host_id[STREAM_HOST_ID_SIZE];
	char token[512]; // of the agent; "" not enrolled
	bool cloned; // one of another machine was found, and this one drawn in its place
};

// What a disk that is carried or copied to another machine finds there.
struct stream_machine {
	const char *machine_id; // "" unknown
	const char *hardware; // stream_hardware(); "" unknown
};

// Waits (polling) for the lock that one streamer a spool has. 0, -EINTR when stop() says so, or -errno.
int stream_state_lock(int cursor_fd, bool (*stop)(void *), void *context, int *ret_lock_fd);
// Reads the identity, or draws one: the only place that makes a host_id. A copy of another machine's is not taken
// over: one with another machine id, or with another hardware mark of the same kind.
int stream_identity_load(int state_fd, const struct stream_machine *machine, const char *origin,
			 struct stream_identity *identity);
int stream_identity_save(int state_fd, const struct stream_machine *machine, const char *origin,
			 const struct stream_identity *identity);
int stream_host_id_draw(char out[STREAM_HOST_ID_SIZE]);
// Appends a refused record. -EDQUOT: the file has its limit.
int stream_quarantine(int state_fd, uint64_t limit_bytes, uint64_t epoch, uint64_t sequence,
		      const char *why, const char *record, size_t length);
// How many are in it.
uint64_t stream_quarantine_count(int state_fd);

// ---- stream_hardware.c -------------------------------------------------------------------------------------------

// A mark of the machine that no copy of its disk carries: "dmi:", "dt:" or "mac:" and a hash of what the firmware or
// else the network cards say. sys is "/sys" but in tests. "" when they say nothing. Needs root for the first.
void stream_hardware(const char *sys, char out[STREAM_HARDWARE_SIZE]);

// ---- stream_batch.c ----------------------------------------------------------------------------------------------

// One request: frames and holes that cover first..last of one epoch, compressed as they come.
struct stream_batch {
	z_stream zip;
	bool zip_ready;
	struct buf body; // complete once closed
	bool open, closed;
	uint64_t epoch, first, last;
	uint64_t records, holes; // in frames; in hole lines
	struct buf hole_ranges; // of uint64_t pairs
	uint64_t packed; // bytes before compression
	uint64_t oldest_ns; // append time of the oldest frame
	char digest[72]; // "sha-256=:BASE64:"
};

int stream_batch_init(struct stream_batch *batch);
void stream_batch_free(struct stream_batch *batch);
void stream_batch_begin(struct stream_batch *batch, uint64_t epoch, uint64_t first);
int stream_batch_frame(struct stream_batch *batch, const struct spool_frame_line *line,
		       const char *data);
int stream_batch_hole(struct stream_batch *batch, uint64_t first, uint64_t last,
		      const char *reason);
int stream_batch_close(struct stream_batch *batch);
// Of the numbers after..to (the first not counted), how many are records in the batch.
uint64_t stream_batch_records(const struct stream_batch *batch, uint64_t after, uint64_t to);
// The lowest number in the batch that is a record's; one above last when there is none.
uint64_t stream_batch_lowest(const struct stream_batch *batch);

// ---- stream_gather.c ---------------------------------------------------------------------------------------------

struct stream_gather {
	int spool_fd;
	unsigned int reader_flags;
	uint64_t bytes_limit, records_limit;
	struct spool_reader *reader;
	uint64_t expected; // the next number to send; 0 not known yet
	uint64_t known; // numbers up to here the server once acknowledged
	struct spool_item item; // a frame read but not wholly packed yet
	bool has_item;
	const char *rest; // of its records
	size_t rest_length;
	uint64_t rest_first;
	uint64_t rest_records;
	enum spool_hole hole; // what the reader said of the numbers missing before the next frame
	uint64_t skip; // this number is declared missing as quarantined
};

// Goes to a number (0: the first there is). What was gathered is forgotten.
int stream_gather_seek(struct stream_gather *gather, int spool_fd, uint64_t from, uint64_t known);
void stream_gather_free(struct stream_gather *gather);
// Adds what there is to the batch, up to the limits. 1: the batch has no room or may take no more (another epoch); 0:
// nothing more is there now. -EREMOTEIO: a file cannot be read, which may pass: seek and try again.
int stream_gather_fill(struct stream_gather *gather, struct stream_batch *batch);
// The record of that number alone, which must be the next one; valid until the next call.
int stream_gather_record(struct stream_gather *gather, uint64_t sequence, uint64_t *ret_epoch,
			 const char **ret_text, size_t *ret_length);

// ---- stream_answer.c ---------------------------------------------------------------------------------------------

struct stream_answer {
	bool stopped; // the request was given up because the process shall end
	bool slow; // the body could not be sent, or answered, in time
	long status; // 0: no answer came
	bool has_acked, has_sequence, has_retry_after;
	uint64_t acked, sequence;
	uint64_t retry_after_ns;
	uint64_t date_s; // the server's clock; 0 unknown
	char code[32];
	char error[STREAM_WHY_SIZE]; // printable
	char token[512];
};

// Reads the body of an answer; anything that is not as expected is left unset.
void stream_answer_body(struct stream_answer *answer, const char *text, size_t length);
// One header line.
void stream_answer_header(struct stream_answer *answer, const char *line, size_t length);
// Makes text from a network harmless: printable ASCII and UTF-8, cut at size.
void stream_text_clean(char *out, size_t size, const char *text, size_t length);

// ---- stream_ca.c -------------------------------------------------------------------------------------------------

// Finds the distribution's bundle. "" when there is none.
void stream_ca_find(char out[256]);
// Its text, or the embedded one's. *ret_name says which.
int stream_ca_read(const char *path, struct buf *out, const char **ret_name);

// ---- stream_tls.c ------------------------------------------------------------------------------------------------

struct mbedtls_ssl_config;
struct mbedtls_x509_crt;

struct stream_tls {
	char host[256]; // name or address that is verified
	char *const *pins;
	bool own_ca; // a pin does not stand in for the chain
	char why[STREAM_WHY_SIZE]; // of the last refusal
};

// Sets what a connection must hold to: profile of certificates, cipher suites, the verification above.
void stream_tls_configure(struct stream_tls *tls, struct mbedtls_ssl_config *config);
// "sha256//BASE64" of 32 bytes.
bool stream_pin_valid(const char *pin);

// ---- stream_constraint.c -----------------------------------------------------------------------------------------

// May this CA vouch for host? Reads its name constraints, which mbedTLS passes over when they are not critical. What
// cannot be read forbids.
bool stream_constraint_allows(const struct mbedtls_x509_crt *ca, const char *host);

// ---- stream_http.c -----------------------------------------------------------------------------------------------

struct stream_http;

// stop() is asked several times a second while a request runs, and ends it.
int stream_http_open(const struct stream_setup *setup, bool (*stop)(void *), void *context,
		     struct stream_http **ret_http, char why[STREAM_WHY_SIZE]);
void stream_http_close(struct stream_http *http);
void stream_http_enrol(struct stream_http *http, const struct stream_identity *identity,
		       struct stream_answer *answer);
void stream_http_post(struct stream_http *http, const struct stream_identity *identity,
		      const struct stream_batch *batch, uint64_t after,
		      struct stream_answer *answer);
// The next request makes a new connection.
void stream_http_renew(struct stream_http *http);

// Scheme, host and port of a URL as "https://host:port"; host alone. -EINVAL.
int stream_url_split(const char *url, char origin[300], char host[256], bool *ret_tls);
bool stream_host_is_loopback(const char *host);

// ---- stream.c ----------------------------------------------------------------------------------------------------

// The life of the process, once confined. 0, or 1 when once left something behind; -errno.
int stream_live(struct stream_setup *setup, struct stream_report *report);
