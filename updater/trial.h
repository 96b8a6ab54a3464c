// SPDX-License-Identifier: Apache-2.0
// Judges a new version on trial by what its collector says of itself and by what the caller saw of its processes, held
// against what the version before said just before it was replaced. Pure: no file, no clock, no process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "updater/state.h"

// How long a trial lasts when nothing is wrong.
#define TRIAL_PERIOD_S 300
#define TRIAL_RULES_S 120 // of pushed rules: two windows of CPU time and what the first of them leaves out

// What fails a trial before its end. With the restart of the version before, each is over within 120 s.
#define TRIAL_SILENT_S 50 // no answer of the new version
#define TRIAL_STALLED_S 60 // nothing new is durable
#define TRIAL_STREAM_S 60 // a stream that delivered before does not
#define TRIAL_MEMORY_S 20 // over the budget, or records that wait in memory for a disk
#define TRIAL_CPU_WINDOW_S 40
#define TRIAL_WATCHED_S 60 // least time that one guard saw it well before it says "held"
#define TRIAL_MEMORY_BYTES (UINT64_C(256) << 20) // always allowed
#define TRIAL_MEMORY_CAP_BYTES (UINT64_C(512) << 20) // never: MemoryMax of the unit
#define TRIAL_CPU_PERCENT 50 // of a core, always allowed
#define TRIAL_STARTS_MAX 4 // of the service in all, over reboots; a second one in one boot is one too many

enum { TRIAL_MODULES_MAX = 32, TRIAL_NAME_SIZE = 24 };

// One snapshot of a collector. UINT64_MAX: it does not say.
struct trial_sample {
	uint64_t at_ns; // CLOCK_BOOTTIME, when it was taken
	char version[VERSIONS_NAME_SIZE];
	uint64_t pid, uptime_ns, cpu_ns, durable;
	uint64_t memory_bytes; // of the process; the caller may put the sum of its descendants here
	char source[TRIAL_NAME_SIZE];
	char modules[TRIAL_MODULES_MAX][TRIAL_NAME_SIZE]; // those that run
	size_t module_count;
	bool in_memory; // the spool takes no records
	bool streams, stream_ill; // there is a stream; it is retrying, dead or stopped, or its latest request failed
	uint64_t stream_success_ns; // Unix time of the last acknowledgement
	uint64_t time_ns; // Unix time of the snapshot
	bool hands_over; // it would, when it is asked
	uint64_t handovers_failed;
	// Of pushed rules: UINT64_MAX when it does not say. A reading that fails keeps the old ones, either for the
	// host's own files (own) or for what was pushed.
	uint64_t rules_read, rules_failed, rules_failed_own;
	bool rules_left_out;
	char rules_why[UPDATE_REASON_SIZE - 40];
};

// text: what the status socket wrote. -EBADMSG: that is no snapshot.
int trial_sample_read(const char *text, size_t length, uint64_t at_ns, struct trial_sample *ret_sample);

struct trial_watch {
	struct trial_sample before, latest;
	bool has_before, seen; // latest is one of the version on trial
	char version[VERSIONS_NAME_SIZE];
	uint64_t deadline_ns, answer_ns; // CLOCK_BOOTTIME
	uint64_t least_ns; // that it is to be seen well
	uint64_t first_ns, first_time_ns, first_durable; // of the first snapshot
	uint64_t durable_ns; // when the last progress was
	uint64_t cpu_ns, cpu_at_ns; // begin of the window
	uint64_t stream_ill_ns, memory_ns, in_memory_ns; // since when; 0: not
	bool cpu_over, ended;
};

// before NULL: not known; then nothing is held against it. now_ns and all other times: CLOCK_BOOTTIME.
void trial_watch_begin(struct trial_watch *watch, const struct update_trial *trial, const struct trial_sample *before,
		       uint64_t now_ns);
// sample NULL: there was no answer.
void trial_watch_add(struct trial_watch *watch, const struct trial_sample *sample, uint64_t now_ns);

// Something was acknowledged after since_ns (Unix time), and nothing failed since.
bool trial_delivers(const struct trial_sample *sample, uint64_t since_ns);

enum trial_verdict { TRIAL_GOING, TRIAL_HELD, TRIAL_FAILED };

// why is set when it failed. *ret_network: the reason may be the network or the datalake, and not the version.
enum trial_verdict trial_judge(const struct trial_watch *watch, uint64_t now_ns, bool *ret_network,
			       char why[UPDATE_REASON_SIZE]);

// The same collector before and after it was told to read new rules: it is to have read them (more often than in
// before), to have taken them, and to go on as before. What it delivers is not theirs. TRIAL_HELD too when the host's
// own files kept it from reading any: then *ret_unread is true.
void trial_rules_begin(struct trial_watch *watch, const struct update_trial *trial, const struct trial_sample *before,
		       uint64_t now_ns);
enum trial_verdict trial_judge_rules(const struct trial_watch *watch, uint64_t now_ns, bool *ret_unread,
				     char why[UPDATE_REASON_SIZE]);

// A start of the service in the boot boot_id: counts it in the state when current is on trial. False: it is one too
// many, the version before has to come back.
bool trial_count_start(struct update_trial *trial, const char *current, const char *boot_id, uint64_t now_ns);
