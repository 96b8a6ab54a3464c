// SPDX-License-Identifier: Apache-2.0
// What ten thousand streamers and a datalake do to each other, by the pauses of the one (core/stream_pause.h) and the pace of
// the other (lake/pace.h), reckoned event by event: after a long outage the requests of no second are more than
// one and a half times those of a usual one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/stream_pause.h"
#include "lake/pace.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

static uint64_t state = 42;

static uint64_t random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * UINT64_C(0x2545f4914f6cdd1d);
}

// ---- pauses ------------------------------------------------------------------------------------------------------

static void pauses_are_random_below_a_limit_that_doubles(void **unused)
{
	(void)unused;
	for (unsigned int attempts = 0; attempts < 40; attempts++) {
		uint64_t limit = attempts < 9 ? S << attempts : 300 * S, sum = 0, most = 0;

		limit = limit < 300 * S ? limit : 300 * S;
		for (int i = 0; i < 4000; i++) {
			uint64_t pause = stream_pause_ns(attempts, 300 * S, 0, random_number());

			assert_in_range(pause, 1, limit + MS);
			sum += pause;
			most = pause > most ? pause : most;
		}
		assert_in_range(sum / 4000, limit * 45 / 100, limit * 55 / 100 + MS);
		assert_true(most > limit * 95 / 100);
	}
	assert_in_range(stream_pause_ns(9, 50 * MS, 0, random_number()), 1, 51 * MS);
}

static void a_server_that_says_when_is_heard(void **unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++)
		assert_in_range(stream_pause_ns((unsigned int)i, 300 * S, 40 * S, random_number()), 40 * S, 50 * S);
}

// ---- the pace ----------------------------------------------------------------------------------------------------

static void the_pace_is_learned(void **unused)
{
	struct pace pace;
	uint64_t now = S;

	(void)unused;
	pace_begin(&pace, now);
	// Never at rest: what goes is what can.
	for (int i = 0; i < 200; i++)
		pace_note(&pace, now += 100 * MS, 70, 70 * 2000, true);
	assert_in_range(pace.batches_per_s, 690, 710);
	assert_true(pace.bytes_per_s >= 4 << 20); // small ones say nothing of it
	for (int i = 0; i < 200; i++)
		pace_note(&pace, now += 100 * MS, 3, 3 * 400000, true);
	assert_in_range(pace.bytes_per_s, 11900000, 12100000);
	assert_in_range(pace.batches_per_s, 690, 710);
	// At rest it takes what comes: that does not make it slower.
	for (int i = 0; i < 200; i++)
		pace_note(&pace, now += 100 * MS, 1, 2000, false);
	assert_in_range(pace.batches_per_s, 690, 710);
	// A store that has stopped still has them come back now and then.
	for (int i = 0; i < 200; i++)
		pace_note(&pace, now += 2 * S, 0, 0, true);
	assert_in_range(pace.batches_per_s, 1, 20);
	assert_in_range(pace_retry_s(&pace, now, 2000, 0), 1, 2);
}

static void those_refused_come_back_one_by_one(void **unused)
{
	struct pace pace;
	unsigned int last = 0, count[302] = {0};

	(void)unused;
	pace_begin(&pace, S);
	for (int i = 0; i < 60; i++)
		pace_note(&pace, S + (uint64_t)i * S, 500, 500 * 2000, true);
	for (int i = 0; i < 20000; i++) {
		unsigned int seconds = pace_retry_s(&pace, 61 * S, 2000, 0);

		assert_in_range(seconds, last > 1 ? last : 1, 300);
		last = seconds;
		count[seconds]++;
	}
	for (int second = 2; second < 49; second++)
		assert_in_range(count[second], 190, 210);
	assert_true(pace_allows(&pace, 2000, 1 << 30) && !pace_allows(&pace, 400000, 1 << 30));
	assert_true(pace_allows(&pace, 400000, 1 << 20));
}

// ---- an outage ---------------------------------------------------------------------------------------------------

enum { AGENTS = 10000, SECONDS = 4000, RECORDS = 10 };
#define INTERVAL (10 * S)

struct agent {
	uint64_t due_ns, backlog; // records
	unsigned int attempts;
};

struct world {
	struct agent agents[AGENTS];
	struct pace pace;
	uint64_t record_ns, batch_ns; // what the datalake takes for each
	uint64_t free_ns; // when it has done all that it let in
	uint64_t waiting_bytes;
	uint64_t per_second[SECONDS];
	uint64_t refused;
	size_t heap[AGENTS], place[AGENTS];
};

static void sift(struct world *world, size_t at)
{
	for (;;) {
		size_t least = at, kept;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < AGENTS; child++)
			if (world->agents[world->heap[child]].due_ns < world->agents[world->heap[least]].due_ns)
				least = child;
		if (least == at)
			return;
		kept = world->heap[at];
		world->heap[at] = world->heap[least];
		world->heap[least] = kept;
		at = least;
	}
}

// One request at now: stored at once in the books, in its time by the clock.
static void post(struct world *world, struct agent *agent, uint64_t now)
{
	uint64_t records = agent->backlog < 3500 ? agent->backlog : 3500;
	uint64_t bytes = 700 + records * 90, queued_ns = world->free_ns > now ? world->free_ns - now : 0;

	// What waits is known by how long it takes.
	world->waiting_bytes = queued_ns / world->record_ns * 90;
	if (!pace_allows(&world->pace, bytes, world->waiting_bytes) || queued_ns > 4 * S) {
		uint64_t wait_s = pace_retry_s(&world->pace, now, bytes, world->waiting_bytes);

		world->refused++;
		agent->due_ns = now + stream_pause_ns(agent->attempts++, 300 * S, wait_s * S, random_number());
		return;
	}
	world->free_ns = now + queued_ns + world->batch_ns + records * world->record_ns;
	pace_note(&world->pace, now, 1, bytes, queued_ns > 0);
	agent->attempts = 0;
	agent->backlog -= records;
	// While it works the streamer waits for its answer; then it sends what is left, else what the next interval brings.
	agent->due_ns = agent->backlog ? world->free_ns : now + INTERVAL;
	agent->backlog += agent->backlog ? 0 : RECORDS;
}

static struct world *outage(uint64_t seconds, uint64_t record_ns, uint64_t batch_ns)
{
	struct world *world = calloc(1, sizeof(*world));
	uint64_t now = 0;

	assert_non_null(world);
	world->record_ns = record_ns;
	world->batch_ns = batch_ns;
	pace_begin(&world->pace, 0);
	for (size_t i = 0; i < AGENTS; i++) {
		struct agent *agent = &world->agents[i];
		uint64_t at = INTERVAL * i / AGENTS;

		while (at < seconds * S)
			at += stream_pause_ns(agent->attempts++, 300 * S, 0, random_number());
		agent->due_ns = at - seconds * S;
		agent->backlog = RECORDS * (seconds / 10 + 1);
		world->heap[i] = i;
	}
	for (size_t i = AGENTS; i-- > 0;)
		sift(world, i);
	while (now < (SECONDS - 1) * S) {
		struct agent *agent = &world->agents[world->heap[0]];

		now = agent->due_ns;
		if (now >= (SECONDS - 1) * S)
			break;
		world->per_second[now / S]++;
		post(world, agent, now);
		assert_true(agent->due_ns > now);
		sift(world, 0);
	}
	return world;
}

static uint64_t busiest(const struct world *world, size_t from)
{
	uint64_t most = 0;

	for (size_t i = from; i < SECONDS; i++)
		most = world->per_second[i] > most ? world->per_second[i] : most;
	return most;
}

static void check(uint64_t seconds, uint64_t record_ns)
{
	struct world *world = outage(seconds, record_ns, 300000);
	uint64_t left = 0;

	for (size_t i = 0; i < AGENTS; i++)
		left += world->agents[i].backlog > RECORDS;
	print_message("%llu s away, %llu ns a record: busiest second %llu, refused %llu, not caught up %llu\n",
		      (unsigned long long)seconds, (unsigned long long)record_ns,
		      (unsigned long long)busiest(world, 0), (unsigned long long)world->refused,
		      (unsigned long long)left);
	assert_true(busiest(world, 0) <= AGENTS / 10 * 3 / 2);
	assert_int_equal(left, 0);
	free(world);
}

static void an_hour_away(void **unused)
{
	(void)unused;
	check(3600, 10000); // 100,000 records a second
	check(3600, 20000);
}

static void ten_minutes_away(void **unused)
{
	(void)unused;
	check(600, 40000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pauses_are_random_below_a_limit_that_doubles),
		cmocka_unit_test(a_server_that_says_when_is_heard),
		cmocka_unit_test(the_pace_is_learned),
		cmocka_unit_test(those_refused_come_back_one_by_one),
		cmocka_unit_test(an_hour_away),
		cmocka_unit_test(ten_minutes_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
