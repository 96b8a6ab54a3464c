// SPDX-License-Identifier: Apache-2.0
// Streamer: the decisions. Gather, send, look at the answer, move the cursor; when that fails, wait and do it again.
// Invariants: the cursor passes a number only when the server said so; a batch stays the same until it is acknowledged
// or refused; no answer makes this end.
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/resident.h"
#include "core/privs.h"
#include "core/stream_pause.h"
#include "core/stream_private.h"

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL
#define LOOK_MS 500 // how often an idle streamer looks for new records
#define REPORT_NS (5 * NS_PER_S) // when nothing changes
#define REPORT_NEWS_NS (200 * NS_PER_MS)
#define INTERVAL_MAX_NS (30 * NS_PER_S) // who posts more seldom tries again as often as this
#define RELEASE_EVERY_NS (60 * NS_PER_S) // at most
#define READ_PAUSE_NS (2 * NS_PER_MS) // doubled before each attempt

enum {
	REFUSALS = 3, // equal ones, before a batch is split or a record put aside
	QUARANTINE_RUN = 16, // records put aside in a row: then it is the server, not the record
	READ_ATTEMPTS = 8, // at a place that cannot be read, before it is declared missing
	NAMES_LOST = 20, // failures to resolve: the resolver's files may have been replaced outside the sandbox's view
};

struct streamer {
	struct stream_setup *setup;
	struct stream_report *report;
	struct stream_identity identity;
	char origin[300], host[256];
	struct stream_http *http;
	struct stream_gather gather;
	struct stream_batch batch;
	struct spool_cursor cursor;
	uint64_t opened_ns, age_ns; // when the batch was begun; at what age it is sent
	uint64_t posted_ns, interval_ns; // when a batch was last sent first; what usually lies between two; 0: unknown
	uint64_t stop_ns; // the latest end; 0 nobody asked
	unsigned int attempts; // failed in a row
	unsigned int refused; // equal refusals in a row of the batch
	long refused_status;
	uint64_t refused_first, refused_last;
	unsigned int unreadable; // attempts in a row to read a place of the spool
	unsigned int quarantine_run, tokens_refused, names_lost;
	uint64_t rewound_to; // what the latest 409 asked for
	uint64_t reported_ns, released_ns;
	bool failed_before;
	bool news; // not reported yet
};

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
	(void)number;
	signalled = 1;
}

// ---- stopping and waiting ----------------------------------------------------------------------------------------

static bool asked_to_stop(const struct streamer *streamer)
{
	char byte;

	if (streamer->setup->report_fd < 0)
		return signalled;
	return recv(streamer->setup->report_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool stopping(struct streamer *streamer)
{
	if (!streamer->stop_ns && asked_to_stop(streamer))
		streamer->stop_ns = clock_boot_ns() + streamer->setup->options->stop_wait_ns;
	return streamer->stop_ns;
}

// Whether what runs now has to be given up.
static bool over(void *context)
{
	struct streamer *streamer = context;

	return stopping(streamer) && clock_boot_ns() >= streamer->stop_ns;
}

static void report_send(struct streamer *streamer, enum stream_state state)
{
	struct stream_report *report = streamer->report;
	uint64_t now_ns = clock_boot_ns();
	int number;

	if (report->state == (uint64_t)state &&
	    now_ns - streamer->reported_ns < (streamer->news ? REPORT_NEWS_NS : REPORT_NS))
		return;
	streamer->news = false;
	streamer->reported_ns = now_ns;
	report->state = state;
	report->acked = streamer->cursor.acked;
	report->delivered = streamer->cursor.delivered;
	report->oldest_ns = streamer->batch.open ? streamer->batch.oldest_ns : 0;
	report->refused_calls = privs_refused(&number);
	report->pid = (uint64_t)getpid();
	snprintf(report->host_id, sizeof(report->host_id), "%s", streamer->identity.host_id);
	if (streamer->setup->report_fd >= 0)
		send(streamer->setup->report_fd, report, sizeof(*report), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Sleeps, unless an end is asked for.
static void rest(struct streamer *streamer, uint64_t ns)
{
	uint64_t until = clock_boot_ns() + ns, now;

	while (!stopping(streamer) && (now = clock_boot_ns()) < until) {
		struct pollfd fd = {.fd = streamer->setup->report_fd, .events = POLLIN};
		uint64_t left_ms = (until - now) / NS_PER_MS + 1;

		poll(&fd, 1, left_ms > 1000 ? 1000 : (int)left_ms);
		report_send(streamer, (enum stream_state)streamer->report->state);
	}
}

static uint64_t random_number(void)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = clock_boot_ns() * 6364136223846793005ULL;
	return random;
}

static uint64_t pause_ns(struct streamer *streamer, const struct stream_answer *answer)
{
	return stream_pause_ns(streamer->attempts, streamer->interval_ns, streamer->setup->options->retry_limit_ns,
			       answer && answer->has_retry_after ? answer->retry_after_ns : 0, random_number());
}

// Batches that follow at once, since more has gathered than one holds, say nothing of what is usual.
static void interval_note(struct streamer *streamer)
{
	uint64_t now_ns = clock_boot_ns(), gap_ns = now_ns - streamer->posted_ns;

	if (streamer->posted_ns && gap_ns >= streamer->setup->options->batch_age_ns / 2) {
		gap_ns = gap_ns < INTERVAL_MAX_NS ? gap_ns : INTERVAL_MAX_NS;
		streamer->interval_ns = streamer->interval_ns ? (3 * streamer->interval_ns + gap_ns) / 4 : gap_ns;
	}
	streamer->posted_ns = now_ns;
}

// Texts of libcurl hold how many milliseconds it took.
static bool same_but_for_numbers(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "0123456789");
		b += strspn(b, "0123456789");
		if (*a != *b || !*a)
			return *a == *b;
	}
}

__attribute__((format(printf, 3, 4))) static void fail(struct streamer *streamer, const struct stream_answer *answer,
						       const char *format, ...)
{
	struct stream_report *report = streamer->report;
	char text[sizeof(report->last_error)];
	uint64_t ns = pause_ns(streamer, answer);
	va_list arguments;
	bool told;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	told = streamer->failed_before && report->http_status == (answer ? answer->status : 0) &&
	       same_but_for_numbers(text, report->last_error);
	snprintf(report->last_error, sizeof(report->last_error), "%s", text);
	report->last_error_ns = clock_real_ns();
	report->retry_at_ns = report->last_error_ns + ns;
	report->http_status = answer ? answer->status : 0;
	report->failures++;
	streamer->attempts++;
	streamer->posted_ns = 0; // what is sent after it is not sent at its usual time
	streamer->failed_before = streamer->news = true;
	if (!told)
		stream_tell(streamer->setup, true, "%s: %s", streamer->origin, text);
	report_send(streamer, STREAM_RETRYING);
	if (streamer->setup->once || streamer->stop_ns)
		streamer->stop_ns = 1; // nothing waits any more
	else
		rest(streamer, ns);
}

// A connection's beginning needs code and constants that its life does not.
static void pages_release(struct streamer *streamer)
{
	uint64_t now_ns = clock_boot_ns();

	if (streamer->released_ns && now_ns - streamer->released_ns < RELEASE_EVERY_NS)
		return;
	streamer->released_ns = now_ns;
	resident_release();
}

static void succeed(struct streamer *streamer, const struct stream_answer *answer)
{
	pages_release(streamer);
	if (streamer->failed_before)
		stream_tell(streamer->setup, false, "%s answers again", streamer->origin);
	streamer->failed_before = false;
	streamer->attempts = streamer->tokens_refused = streamer->names_lost = 0;
	streamer->report->http_status = answer->status;
	streamer->report->last_success_ns = clock_real_ns();
	streamer->report->retry_at_ns = 0;
}

// ---- enrolment ---------------------------------------------------------------------------------------------------

static int identity_save(struct streamer *streamer)
{
	const struct stream_setup *setup = streamer->setup;
	const struct stream_machine machine = {setup->machine_id, setup->hardware};

	return stream_identity_save(setup->state_fd, &machine, streamer->origin, &streamer->identity);
}

// The server knows this host and we have no token: it was given one and we died before we kept it. A host that never
// delivered anything may as well be another one.
static bool renamed(struct streamer *streamer)
{
	return !streamer->identity.token[0] && streamer->cursor.acked == 0 &&
	       stream_host_id_draw(streamer->identity.host_id) == 0 &&
	       identity_save(streamer) == 0;
}

static void enrol(struct streamer *streamer)
{
	const struct stream_setup *setup = streamer->setup;
	struct stream_answer answer;
	int result;

	if (setup->token.length == 0) {
		fail(streamer, NULL, "this host is not enrolled and there is no ingest token: %.200s",
		     setup->token_missing);
		return;
	}
	report_send(streamer, STREAM_STARTING);
	stream_http_enrol(streamer->http, &streamer->identity, &answer);
	if (answer.stopped)
		return;
	if (answer.status == 200 && answer.token[0]) {
		snprintf(streamer->identity.token, sizeof(streamer->identity.token), "%s", answer.token);
		result = identity_save(streamer);
		stream_tell(setup, result < 0, "%s: enrolled as %s%s%s", streamer->origin, streamer->identity.host_id,
			    result < 0 ? ", but that could not be kept: " : "", result < 0 ? strerror(-result) : "");
		succeed(streamer, &answer);
	} else if (answer.status == 0) {
		fail(streamer, &answer, "%s", answer.error);
	} else if (answer.status != 409 || streamer->attempts > 0 || !renamed(streamer)) {
		fail(streamer, &answer, "enrolment: HTTP %ld: %.200s", answer.status,
		     answer.error[0] ? answer.error : "no reason given");
	}
}

// ---- what an answer does -----------------------------------------------------------------------------------------

static void batch_forget(struct streamer *streamer)
{
	streamer->batch.open = streamer->batch.closed = false;
	streamer->refused = 0;
}

static int seek(struct streamer *streamer, uint64_t from)
{
	batch_forget(streamer);
	return stream_gather_seek(&streamer->gather, streamer->setup->spool_fd, from,
				  from <= streamer->cursor.acked ? streamer->cursor.acked : 0);
}

static void limits_reset(struct streamer *streamer, bool whole)
{
	const struct stream_options *options = streamer->setup->options;
	struct stream_gather *gather = &streamer->gather;

	if (!whole && gather->records_limit < options->batch_records / 2)
		gather->records_limit *= 2; // after a refusal it grows again step by step
	else
		gather->records_limit = options->batch_records;
}

static void acknowledge(struct streamer *streamer, uint64_t acked)
{
	struct spool_cursor *cursor = &streamer->cursor;
	struct stream_batch *batch = &streamer->batch;
	struct stream_report *report = streamer->report;
	uint64_t after = cursor->acked > batch->first - 1 ? cursor->acked : batch->first - 1;
	int result;

	if (acked > cursor->acked) {
		cursor->delivered += stream_batch_records(batch, after, acked);
		cursor->acked = acked;
		cursor->epoch = batch->epoch;
		result = spool_cursor_write(streamer->setup->cursor_fd, cursor);
		if (result < 0)
			stream_tell(streamer->setup, true, "the cursor cannot be written: %s", strerror(-result));
	}
	spool_reader_release(streamer->gather.reader, acked);
	streamer->news = true;
	report->batches++;
	report->records += batch->records;
	report->holes += batch->holes;
	report->bytes_sent += batch->body.length;
	report->bytes_packed += batch->packed;
	if (batch->records > 0)
		streamer->quarantine_run = 0;
	streamer->unreadable = 0;
	streamer->gather.reader_flags |= SPOOL_READER_PATIENT;
	streamer->rewound_to = 0;
	if (acked >= streamer->gather.skip)
		streamer->gather.skip = 0;
	limits_reset(streamer, false);
	if (acked == batch->last)
		batch_forget(streamer);
	else
		seek(streamer, acked + 1);
}

static void accepted(struct streamer *streamer, const struct stream_answer *answer)
{
	const struct stream_batch *batch = &streamer->batch;

	if (!answer->has_acked || answer->acked < batch->first) {
		fail(streamer, answer, "the server took the batch and acknowledged none of it");
		return;
	}
	succeed(streamer, answer);
	acknowledge(streamer, answer->acked < batch->last ? answer->acked : batch->last);
}

// The server has less than we thought, or more.
static void out_of_sequence(struct streamer *streamer, const struct stream_answer *answer)
{
	const struct stream_batch *batch = &streamer->batch;
	uint64_t from = answer->acked + 1;

	if (!answer->has_acked || from == batch->first || from == streamer->rewound_to) {
		fail(streamer, answer, "HTTP 409: %.200s", answer->error[0] ? answer->error : "out of sequence");
		return;
	}
	succeed(streamer, answer);
	if (answer->acked >= batch->first) {
		acknowledge(streamer, answer->acked < batch->last ? answer->acked : batch->last);
		return;
	}
	stream_tell(streamer->setup, true, "%s has records up to %" PRIu64 " only; going back there from %" PRIu64,
		    streamer->origin, answer->acked, batch->first);
	streamer->rewound_to = from;
	if (seek(streamer, from) < 0)
		fail(streamer, NULL, "the spool cannot be read");
}

static void quarantine(struct streamer *streamer, const struct stream_answer *answer)
{
	const struct stream_setup *setup = streamer->setup;
	uint64_t first = streamer->batch.first, sequence = stream_batch_lowest(&streamer->batch), epoch;
	const char *record;
	size_t length;
	int result = seek(streamer, sequence);

	if (result == 0)
		result = stream_gather_record(&streamer->gather, sequence, &epoch, &record, &length);
	if (result == 0)
		result = stream_quarantine(setup->state_fd, setup->options->quarantine_bytes, epoch, sequence,
					   answer->error, record, length);
	stream_tell(setup, true, "record %" PRIu64 " is refused (HTTP %ld: %s) and %s%s", sequence, answer->status,
		    answer->error, result < 0 ? "could not be put aside: " : "put aside",
		    result < 0 ? strerror(-result) : "");
	streamer->report->quarantined++;
	streamer->quarantine_run++;
	seek(streamer, first);
	streamer->gather.skip = sequence;
}

// The same batch was refused often enough: smaller ones find the record that is to blame.
static void split(struct streamer *streamer, const struct stream_answer *answer)
{
	const struct stream_batch *batch = &streamer->batch;
	uint64_t limit = batch->records / 2;

	if (answer->has_sequence && answer->sequence > batch->first && answer->sequence <= batch->last)
		limit = stream_batch_records(batch, batch->first - 1, answer->sequence - 1);
	if (limit >= batch->records)
		limit = batch->records - 1;
	streamer->gather.records_limit = limit ? limit : 1;
	if (seek(streamer, batch->first) < 0)
		fail(streamer, NULL, "the spool cannot be read");
}

static void refused(struct streamer *streamer, const struct stream_answer *answer)
{
	const struct stream_batch *batch = &streamer->batch;
	bool same = streamer->refused_status == answer->status && streamer->refused_first == batch->first &&
		    streamer->refused_last == batch->last;
	// One that arrived damaged says nothing about the records.
	bool damaged = strcmp(answer->code, "digest") == 0 || strcmp(answer->code, "encoding") == 0;

	streamer->refused = same ? streamer->refused + 1 : 1;
	streamer->refused_status = answer->status;
	streamer->refused_first = batch->first;
	streamer->refused_last = batch->last;
	stream_http_renew(streamer->http);
	if (damaged || batch->records == 0 || streamer->refused < REFUSALS ||
	    streamer->quarantine_run >= QUARANTINE_RUN) {
		fail(streamer, answer, "HTTP %ld: %.200s%s", answer->status,
		     answer->error[0] ? answer->error : "refused",
		     streamer->quarantine_run >= QUARANTINE_RUN
			     ? "; every record is refused, so none is put aside any more"
			     : "");
		return;
	}
	streamer->attempts = 0;
	if (batch->records > 1)
		split(streamer, answer);
	else
		quarantine(streamer, answer);
}

static void token_refused(struct streamer *streamer, const struct stream_answer *answer)
{
	fail(streamer, answer, "HTTP %ld: %.200s", answer->status,
	     answer->error[0] ? answer->error : "the token is refused");
	// It may have been revoked, or the server may have lost it.
	if (answer->status == 401 && ++streamer->tokens_refused >= REFUSALS && streamer->setup->token.length) {
		streamer->tokens_refused = 0;
		enrol(streamer);
	}
}

static void unanswered(struct streamer *streamer, const struct stream_answer *answer)
{
	const struct stream_batch *batch = &streamer->batch;

	stream_http_renew(streamer->http);
	// A line too slow for the whole of it may do for less.
	if (answer->slow && batch->records > 1) {
		streamer->gather.records_limit = batch->records / 2;
		seek(streamer, batch->first);
	}
	fail(streamer, answer, "%s", answer->error);
	if (strstr(answer->error, "resolve"))
		streamer->names_lost++;
}

static void answered(struct streamer *streamer, const struct stream_answer *answer)
{
	switch (answer->status) {
	case 0:
		unanswered(streamer, answer);
		return;
	case 200:
		accepted(streamer, answer);
		return;
	case 409:
		out_of_sequence(streamer, answer);
		return;
	case 400:
	case 413:
	case 422:
		refused(streamer, answer);
		return;
	case 401:
	case 403:
		token_refused(streamer, answer);
		return;
	default:
		fail(streamer, answer, "HTTP %ld: %.200s", answer->status,
		     answer->error[0] ? answer->error : "no reason given");
	}
}

// ---- the life ----------------------------------------------------------------------------------------------------

// True when there is a batch to send now.
static bool batch_ready(struct streamer *streamer)
{
	struct stream_batch *batch = &streamer->batch;
	bool was_open = batch->open;
	int result;

	if (batch->closed)
		return true;
	result = stream_gather_fill(&streamer->gather, batch);
	if (result == -EREMOTEIO && ++streamer->unreadable <= READ_ATTEMPTS) {
		rest(streamer, READ_PAUSE_NS << streamer->unreadable);
		if (streamer->unreadable == READ_ATTEMPTS)
			streamer->gather.reader_flags &= ~(unsigned int)SPOOL_READER_PATIENT;
		result = seek(streamer, batch->open ? batch->first : streamer->gather.expected);
		return false;
	}
	if (result < 0) {
		fail(streamer, NULL, "the spool cannot be read: %s", strerror(-result));
		seek(streamer, streamer->cursor.acked + 1);
		return false;
	}
	if (!was_open) {
		streamer->opened_ns = clock_boot_ns();
		streamer->age_ns = stream_age_ns(streamer->setup->options->batch_age_ns, random_number());
	}
	if (!batch->open || (batch->records == 0 && batch->holes == 0))
		return false;
	if (result == 0 && !streamer->setup->once && !stopping(streamer) &&
	    clock_boot_ns() - streamer->opened_ns < streamer->age_ns)
		return false;
	result = stream_batch_close(batch);
	if (result < 0) {
		fail(streamer, NULL, "a batch cannot be packed: %s", strerror(-result));
		seek(streamer, batch->first);
	}
	return result == 0;
}

static void send_batch(struct streamer *streamer)
{
	struct stream_answer answer;

	report_send(streamer, STREAM_SENDING);
	if (!streamer->attempts)
		interval_note(streamer);
	stream_http_post(streamer->http, &streamer->identity, &streamer->batch, streamer->batch.first - 1, &answer);
	if (!answer.stopped)
		answered(streamer, &answer);
}

// False: the spool was removed, so a new process has to look for it.
static bool spool_there(const struct streamer *streamer)
{
	struct stat info;

	return fstat(streamer->setup->spool_fd, &info) < 0 || info.st_nlink > 0;
}

static int work(struct streamer *streamer)
{
	bool all = false;

	while (!over(streamer)) {
		if (streamer->names_lost >= NAMES_LOST || !spool_there(streamer))
			return -EAGAIN;
		if (!streamer->identity.token[0]) {
			enrol(streamer);
			continue;
		}
		if (batch_ready(streamer)) {
			send_batch(streamer);
			continue;
		}
		all = !streamer->batch.open;
		if (all && (streamer->setup->once || stopping(streamer)))
			return 0;
		report_send(streamer, all ? STREAM_IDLE : STREAM_SENDING);
		rest(streamer, LOOK_MS * NS_PER_MS);
	}
	return 1;
}

static int begin(struct streamer *streamer)
{
	const struct stream_setup *setup = streamer->setup;
	const struct stream_machine machine = {setup->machine_id, setup->hardware};
	char why[STREAM_WHY_SIZE];
	bool tls;
	int result;

	// Where it is missing or damaged it begins at the first record: the server knows what it has.
	if (spool_cursor_read(setup->spool_fd, &streamer->cursor) < 0)
		streamer->cursor = (struct spool_cursor){0};
	stream_url_split(setup->options->url, streamer->origin, streamer->host, &tls);
	result = stream_identity_load(setup->state_fd, &machine, streamer->origin, &streamer->identity);
	if (result < 0) {
		stream_tell(setup, true, "the streamer's identity: %s", strerror(-result));
		return result;
	}
	if (streamer->identity.cloned)
		stream_tell(setup, true, "the identity found here is another machine's: this one is %s from now on",
			    streamer->identity.host_id);
	streamer->report->quarantined = stream_quarantine_count(setup->state_fd);
	result = stream_batch_init(&streamer->batch);
	if (result == 0)
		result = stream_http_open(setup, over, streamer, &streamer->http, why);
	if (result < 0) {
		stream_tell(setup, true, "the streamer cannot begin: %s", why);
		return result;
	}
	streamer->gather.reader_flags = SPOOL_READER_HOLD | SPOOL_READER_PATIENT;
	if (setup->final)
		streamer->gather.reader_flags |= SPOOL_READER_FINAL;
	streamer->gather.bytes_limit = setup->options->batch_bytes;
	streamer->gather.records_limit = setup->options->batch_records;
	return seek(streamer, streamer->cursor.acked + 1);
}

int stream_live(struct stream_setup *setup, struct stream_report *report)
{
	struct streamer streamer = {.setup = setup, .report = report};
	int lock_fd = -1, result;

	if (setup->report_fd < 0) {
		signal(SIGTERM, on_signal);
		signal(SIGINT, on_signal);
	}
	result = stream_state_lock(setup->cursor_fd, over, &streamer, &lock_fd);
	if (result == 0)
		result = begin(&streamer);
	if (result == 0)
		result = work(&streamer);
	report->state = STREAM_STARTING; // whatever it was, the end is reported
	report_send(&streamer, STREAM_STOPPED);
	stream_http_close(streamer.http);
	stream_gather_free(&streamer.gather);
	stream_batch_free(&streamer.batch);
	if (lock_fd >= 0)
		close(lock_fd);
	return result == -EINTR ? 0 : result;
}
