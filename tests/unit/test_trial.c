// SPDX-License-Identifier: Apache-2.0
// The trial of a new version: what fails it and when, what does not, which starts of the service are too many.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "updater/trial.h"

#define S UINT64_C(1000000000)
#define MIB (UINT64_C(1) << 20)
#define BEGAN (1000 * S)

static const struct update_trial trial = {
	.on = true, .version = "2", .previous = "1", .began_boot_id = "b", .began_ns = BEGAN, .deadline_s = 300};

static struct trial_sample sample_of(const char *version)
{
	struct trial_sample sample = {.pid = 7,
				      .uptime_ns = 600 * S,
				      .cpu_ns = 6 * S,
				      .durable = 1000,
				      .memory_bytes = 20 * MIB,
				      .source = "bpf",
				      .modules = {"proc", "io"},
				      .module_count = 2,
				      .streams = true,
				      .stream_success_ns = 5000 * S,
				      .time_ns = 5001 * S};

	snprintf(sample.version, sizeof(sample.version), "%s", version);
	return sample;
}

enum fault {
	NONE,
	SILENT,
	NEVER,
	ENDED,
	STALLED,
	MEMORY,
	CPU,
	MODULE,
	SOURCE,
	ON_DISK,
	STREAM,
	UNHEARD,
	NO_STREAM
};

// The sample of second at after the begin, with what goes wrong.
static struct trial_sample sample_at(enum fault fault, unsigned at)
{
	struct trial_sample sample = sample_of("2");

	sample.uptime_ns = at * S;
	sample.cpu_ns = at * S / 100;
	sample.durable = 1000 + at / 10;
	sample.time_ns = (5010 + at) * S;
	sample.stream_success_ns = (5009 + at) * S;
	switch (fault) {
	case ENDED:
		sample.pid = at > 40 ? 8 : 7;
		break;
	case STALLED:
		sample.durable = at > 20 ? 1002 : sample.durable;
		break;
	case MEMORY:
		sample.memory_bytes = at > 10 ? 300 * MIB : 20 * MIB;
		break;
	case CPU:
		sample.cpu_ns = at * S;
		break;
	case MODULE:
		sample.module_count = 1;
		break;
	case SOURCE:
		snprintf(sample.source, sizeof(sample.source), "proc");
		break;
	case ON_DISK:
		sample.in_memory = at > 10;
		break;
	case STREAM:
		sample.stream_ill = at > 10;
		break;
	case UNHEARD:
		sample.stream_success_ns = UINT64_MAX;
		break;
	case NO_STREAM:
		sample.streams = false;
		break;
	case NONE:
	case SILENT:
	case NEVER:
		break;
	}
	return sample;
}

// Second by second until there is a verdict; *ret_at: when.
static enum trial_verdict run(enum fault fault, bool with_before, unsigned *ret_at, char why[UPDATE_REASON_SIZE])
{
	struct trial_sample before = sample_of("1");
	enum trial_verdict verdict = TRIAL_GOING;
	struct trial_watch watch;
	unsigned at = 0;
	bool network;

	trial_watch_begin(&watch, &trial, with_before ? &before : NULL, BEGAN);
	for (; verdict == TRIAL_GOING && at < 1000; at++) {
		uint64_t now_ns = BEGAN + at * S;
		struct trial_sample sample = sample_at(fault, at);
		bool silent = fault == NEVER || (fault == SILENT && at > 30);

		// For its first seconds the old one still answers.
		trial_watch_add(&watch, silent ? NULL : at < 3 ? &before : &sample, now_ns);
		verdict = trial_judge(&watch, now_ns, &network, why);
	}
	*ret_at = at - 1;
	if (verdict == TRIAL_FAILED)
		assert_int_equal(network, fault == STREAM || fault == UNHEARD);
	return verdict;
}

static void test_what_fails_it(void **state)
{
	static const struct {
		enum fault fault;
		unsigned first, last; // seconds
		const char *why;
	} cases[] = {
		{SILENT, 80, 82, "the collector does not answer"},
		{NEVER, 50, 52, "the collector never answered"},
		{ENDED, 41, 41, "ended"},
		{STALLED, 80, 83, "nothing new was recorded"},
		{MEMORY, 30, 34, "300 MiB of memory, 256 are allowed"},
		{CPU, 80, 90, "more than 50% of a core"},
		{MODULE, 3, 3, "the module io ran before"},
		{SOURCE, 3, 3, "it records from proc"},
		{ON_DISK, 30, 34, "the spool takes no records"},
		{STREAM, 70, 73, "nothing was delivered"},
		{UNHEARD, 62, 65, "no batch was acknowledged in 60 s"},
		{NO_STREAM, 3, 3, "it streams no more"},
	};
	char why[UPDATE_REASON_SIZE];
	unsigned at;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(run(cases[i].fault, true, &at, why), TRIAL_FAILED);
		if (!strstr(why, cases[i].why) || at < cases[i].first || at > cases[i].last)
			fail_msg("%s: after %u s: %s", cases[i].why, at, why);
		assert_in_range(at, cases[i].first, cases[i].last);
	}
}

static void test_what_holds(void **state)
{
	char why[UPDATE_REASON_SIZE];
	unsigned at;

	(void)state;
	assert_int_equal(run(NONE, true, &at, why), TRIAL_HELD);
	assert_int_equal(at, 300);
	assert_int_equal(run(NONE, false, &at, why), TRIAL_HELD);
	// Of a version before that said nothing, nothing is held against this one but what is wrong in itself.
	assert_int_equal(run(MODULE, false, &at, why), TRIAL_HELD);
	assert_int_equal(run(STREAM, false, &at, why), TRIAL_HELD);
	assert_int_equal(run(MEMORY, false, &at, why), TRIAL_FAILED);
}

// Offline is offline before and after: what is durable on disk is enough.
static void test_offline(void **state)
{
	struct trial_sample ill = sample_of("1"), unheard = sample_of("1"), none = sample_of("1");
	const struct trial_sample *const befores[] = {&ill, &unheard, &none};
	char why[UPDATE_REASON_SIZE] = "";
	struct trial_watch watch;
	bool network;

	(void)state;
	ill.stream_ill = true;
	unheard.stream_success_ns = UINT64_MAX;
	none.streams = false;
	for (size_t i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
		enum trial_verdict verdict = TRIAL_GOING;

		trial_watch_begin(&watch, &trial, befores[i], BEGAN);
		for (unsigned at = 0; verdict == TRIAL_GOING && at < 1000; at++) {
			struct trial_sample sample = sample_at(UNHEARD, at);

			sample.stream_ill = true;
			trial_watch_add(&watch, &sample, BEGAN + at * S);
			verdict = trial_judge(&watch, BEGAN + at * S, &network, why);
		}
		if (verdict != TRIAL_HELD)
			fail_msg("%zu: %s", i, why);
	}
}

// Whether the old one delivers, once it is back, decides what is remembered of the new one.
static void test_delivering(void **state)
{
	static const struct {
		const char *stream;
		bool ill, delivers;
	} cases[] = {
		{"{\"state\":\"idle\",\"last_success_ns\":20,\"last_error_ns\":null}", false, true},
		{"{\"state\":\"sending\",\"last_success_ns\":20,\"last_error_ns\":19}", false, true},
		{"{\"state\":\"idle\",\"last_success_ns\":10,\"last_error_ns\":null}", false, false}, // of before
		{"{\"state\":\"sending\",\"last_success_ns\":null,\"last_error_ns\":null}", false, false},
		{"{\"state\":\"sending\",\"last_success_ns\":20,\"last_error_ns\":21}", true, false}, // tries again
		{"{\"state\":\"sending\",\"last_success_ns\":null,\"last_error_ns\":9}", true, false},
		{"{\"state\":\"retrying\",\"last_success_ns\":20,\"last_error_ns\":19}", true, false},
		{"null", false, false},
	};
	struct trial_sample sample;
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "{\"kind\":\"status\",\"version\":\"1\",\"stream\":%s}", cases[i].stream);
		assert_int_equal(trial_sample_read(text, strlen(text), 1, &sample), 0);
		if (sample.stream_ill != cases[i].ill || trial_delivers(&sample, 10) != cases[i].delivers)
			fail_msg("%s", cases[i].stream);
	}
}

// A guard that comes late, after another was killed, looks for a while before it says anything good.
static void test_a_late_guard_looks_first(void **state)
{
	struct trial_sample before = sample_of("1");
	enum trial_verdict verdict = TRIAL_GOING;
	char why[UPDATE_REASON_SIZE];
	struct trial_watch watch;
	unsigned at = 295;
	bool network;

	(void)state;
	trial_watch_begin(&watch, &trial, &before, BEGAN + at * S);
	for (; verdict == TRIAL_GOING; at++) {
		struct trial_sample sample = sample_at(NONE, at);

		trial_watch_add(&watch, &sample, BEGAN + at * S);
		verdict = trial_judge(&watch, BEGAN + at * S, &network, why);
	}
	assert_int_equal(verdict, TRIAL_HELD);
	assert_int_equal(at - 1, 295 + TRIAL_WATCHED_S);
}

enum rules_fault { READ, UNREAD, OWN, REFUSED, LEFT_OUT, CRASH, HANG, HUNGRY, BUSY, RULES_FAULTS };

// Second by second; the collector reads them in second 2.
static void test_rules(void **state)
{
	static const struct {
		unsigned first, last;
		const char *why; // NULL: it holds
	} wanted[] = {
		[READ] = {120, 121, NULL},
		[UNREAD] = {51, 52, "the collector did not read them"},
		[OWN] = {2, 2, NULL},
		[REFUSED] = {2, 2, "the collector refuses them: line 3"},
		[LEFT_OUT] = {2, 2, "the collector refuses them: line 3"},
		[CRASH] = {5, 5, "ended"},
		[HANG] = {54, 56, "does not answer"},
		[HUNGRY] = {30, 34, "300 MiB of memory"},
		[BUSY] = {80, 90, "more than 50% of a core"},
	};
	static const struct update_trial mine = {
		.on = true, .version = "7", .previous = "6", .began_boot_id = "b", .began_ns = BEGAN, .deadline_s = TRIAL_RULES_S};

	(void)state;
	for (enum rules_fault fault = READ; fault < RULES_FAULTS; fault++) {
		struct trial_sample before = sample_of("1");
		enum trial_verdict verdict = TRIAL_GOING;
		char why[UPDATE_REASON_SIZE] = "";
		struct trial_watch watch;
		bool unread = false;
		unsigned at = 0;

		before.rules_read = 4;
		before.rules_failed = before.rules_failed_own = 2;
		before.rules_left_out = true; // the ones before these
		trial_rules_begin(&watch, &mine, &before, BEGAN);
		for (; verdict == TRIAL_GOING && at < 1000; at++) {
			struct trial_sample sample = sample_at(fault == HUNGRY ? MEMORY : fault == BUSY ? CPU : UNHEARD, at);
			bool read = at >= 2 && fault != UNREAD;

			snprintf(sample.version, sizeof(sample.version), "1");
			snprintf(sample.rules_why, sizeof(sample.rules_why), "line 3");
			sample.stream_ill = true; // is none of theirs
			sample.pid = fault == CRASH && at >= 5 ? 8 : 7;
			sample.rules_read = read ? 5 : 4;
			sample.rules_failed = 2 + (read && (fault == OWN || fault == REFUSED));
			sample.rules_failed_own = 2 + (read && fault == OWN);
			sample.rules_left_out = !read || fault == LEFT_OUT;
			trial_watch_add(&watch, fault == HANG && at > 4 ? NULL : &sample, BEGAN + at * S);
			verdict = trial_judge_rules(&watch, BEGAN + at * S, &unread, why);
		}
		at--;
		if (verdict != (wanted[fault].why ? TRIAL_FAILED : TRIAL_HELD) || at < wanted[fault].first || at > wanted[fault].last ||
		    (wanted[fault].why && !strstr(why, wanted[fault].why)))
			fail_msg("%d: verdict %d after %u s: %s", (int)fault, (int)verdict, at, why);
		assert_int_equal(unread, fault == OWN);
	}
}

static void test_starts(void **state)
{
	struct update_trial mine = trial;

	(void)state;
	assert_true(trial_count_start(&mine, "1", "b", BEGAN)); // another one is started
	assert_int_equal(mine.starts, 0);
	assert_true(trial_count_start(&mine, "2", "b", BEGAN));
	assert_int_equal(mine.starts, 1);
	assert_false(trial_count_start(&mine, "2", "b", BEGAN));
	// A reboot is no fault of it, but not for ever.
	for (unsigned boot = 2; boot <= TRIAL_STARTS_MAX; boot++) {
		char name[16];

		snprintf(name, sizeof(name), "boot%u", boot);
		assert_true(trial_count_start(&mine, "2", name, boot * S));
		assert_int_equal(mine.starts, boot);
		assert_int_equal(mine.began_ns, boot * S);
		assert_string_equal(mine.began_boot_id, name);
		assert_false(trial_count_start(&mine, "2", name, boot * S));
	}
	assert_false(trial_count_start(&mine, "2", "one too many", S));
	mine.on = false;
	assert_true(trial_count_start(&mine, "2", "one too many", S));
}

static void test_reading(void **state)
{
	static const char text[] =
		"{\"kind\":\"status\",\"version\":\"2\",\"pid\":7,\"source\":\"bpf\",\"modules\":[{\"name\":\"proc\",\"state\":"
		"\"running\"},{\"name\":\"gpu\",\"state\":\"unsupported\"}],\"spool\":{\"durable\":5,\"in_memory\":true},"
		"\"stream\":{\"state\":\"retrying\",\"last_success_ns\":null},\"handover\":{\"count\":1,\"failed\":3}}";
	static const char other[] = "{\"kind\":\"status\",\"version\":\"1\",\"source\":\"no \\\"handover\\\":\"}";
	static const char *const refused[] = {"", "{}", "[]", "{\"kind\":\"status\"}", "{\"kind\":\"x\",\"version\":\"2\"}",
					      "{\"kind\":\"status\",\"version\":2}"};
	struct trial_sample sample = {.pid = 99};

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_true(trial_sample_read(refused[i], strlen(refused[i]), 1, &sample) < 0);
	assert_int_equal(sample.pid, 99);
	assert_int_equal(trial_sample_read(text, sizeof(text) - 1, 1, &sample), 0);
	assert_string_equal(sample.version, "2");
	assert_int_equal(sample.module_count, 1);
	assert_true(sample.in_memory && sample.streams && sample.stream_ill);
	assert_int_equal(sample.durable, 5);
	assert_true(sample.stream_success_ns == UINT64_MAX && sample.memory_bytes == UINT64_MAX);
	assert_true(sample.hands_over && sample.handovers_failed == 3);
	assert_int_equal(trial_sample_read(other, sizeof(other) - 1, 1, &sample), 0);
	assert_true(!sample.hands_over && sample.handovers_failed == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_fails_it), cmocka_unit_test(test_what_holds),
		cmocka_unit_test(test_offline),	      cmocka_unit_test(test_a_late_guard_looks_first),
		cmocka_unit_test(test_delivering),    cmocka_unit_test(test_starts),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
