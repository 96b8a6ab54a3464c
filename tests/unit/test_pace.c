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

// Between the usual interval (a quarter of a second where it is not known) and a limit.
static void check_pauses(uint64_t interval)
{
	uint64_t least = interval ? interval : 250 * MS;

	for (unsigned int attempts = 0; attempts < 40; attempts++) {
		uint64_t window = attempts < 12 ? 3 * least << attempts : 300 * S, sum = 0, most = 0;

		window = window < 300 * S - least ? window : 300 * S - least;
		for (int i = 0; i < 1000; i++) {
			uint64_t pause = stream_pause_ns(attempts, interval, 300 * S, 0, random_number());

			assert_in_range(pause, least, least + window + MS);
			sum += pause - least;
			most = pause > most ? pause : most;
		}
		assert_in_range(sum / 1000, window * 43 / 100, window * 57 / 100 + MS);
		assert_true(most > least + window * 95 / 100);
	}
}

static void pauses_are_random_below_a_limit_that_doubles(void **unused)
{
	(void)unused;
	check_pauses(0);
	check_pauses(10 * S);
	for (int i = 0; i < 1000; i++) {
		assert_in_range(stream_pause_ns(9, 0, 50 * MS, 0, random_number()), 1, 51 * MS);
		assert_in_range(stream_pause_ns(9, 10 * S, 50 * MS, 0, random_number()), 1, 51 * MS);
		assert_in_range(stream_pause_ns(0, 10 * S, 12 * S, 0, random_number()), 10 * S, 12 * S + MS);
	}
}

static void a_server_that_says_when_is_heard(void **unused)
{
	(void)unused;
	for (int i = 0; i < 1000; i++)
		assert_in_range(stream_pause_ns((unsigned int)i, S, 300 * S, 40 * S, random_number()), 40 * S, 50 * S);
}

static void ages_differ(void **unused)
{
	uint64_t sum = 0;

	(void)unused;
	for (int i = 0; i < 1000; i++) {
		uint64_t age = stream_age_ns(2 * S, random_number());

		assert_in_range(age, S, 3 * S);
		sum += age;
	}
	assert_in_range(sum / 1000, 1900 * MS, 2100 * MS);
	assert_int_equal(stream_age_ns(0, random_number()), 0);
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
	unsigned int count[303] = {0};

	(void)unused;
	pace_begin(&pace, S);
	// It stores 500 a second, and as many usually come.
	for (int i = 0; i < 60; i++)
		pace_note(&pace, S + (uint64_t)i * S, 500, 500 * 2000, true);
	for (int i = 0; i < 40000; i++) {
		unsigned int seconds = pace_retry_s(&pace, 61 * S, 2000, 0);

		assert_in_range(seconds, 1, 300);
		count[seconds]++;
	}
	for (int second = 5; second < 298; second++)
		assert_in_range(count[second] + count[second + 1], 230, 270);
	assert_true(pace_allows(&pace, 2000, 1 << 30) && !pace_allows(&pace, 400000, 1 << 30));
	assert_true(pace_allows(&pace, 400000, 1 << 20));
}

// A store that could take ten times as much is no reason to ask for it.
static void no_more_than_usual_come_back(void **unused)
{
	struct pace pace;
	unsigned int count[303] = {0};
	uint64_t now = S;

	(void)unused;
	pace_begin(&pace, now);
	for (int i = 0; i < 60; i++)
		pace_note(&pace, now += S, 400, 400 * 2000, false);
	pace_note(&pace, now += S, 4000, 4000 * 2000, true);
	for (int i = 0; i < 60; i++)
		pace_note(&pace, now += S, 400, 400 * 2000, false);
	assert_in_range(pace.batches_per_s, 2000, 4000);
	assert_in_range(pace.usual_per_s, 400, 1000);
	for (int i = 0; i < 60; i++)
		pace_note(&pace, now += S * 10, 4000, 4000 * 2000, false);
	assert_in_range(pace.usual_per_s, 400, 600);
	for (int i = 0; i < 1000; i++)
		count[pace_retry_s(&pace, now, 2000, 0)]++;
	for (int second = 1; second < 302; second++)
		assert_true(count[second] <= 160);
}

// ---- an outage ---------------------------------------------------------------------------------------------------

enum { AGENTS = 10000, SECONDS = 8000, RECORDS = 10, STEADY_S = 120, LATE_S = 60, WAITING_MAX = 2048 };
#define INTERVAL (10 * S)
#define WAITING_BYTES_MAX (32 << 20)
#define BEGIN (STEADY_S * S)

// What is amiss from BEGIN on.
enum amiss {
	AWAY, // nobody answers, and what the datalake has learned of its pace is lost
	FAILING, // it takes nothing and says when to come back
	STUCK, // it stores nothing and lets as much wait as it may
};

struct agent {
	uint64_t due_ns, tick_ns; // tick_ns: a moment at which a batch of it is complete; others are whole intervals later
	uint64_t sent_ns; // what was recorded before is stored
	unsigned int attempts;
};

struct waiting {
	uint64_t done_ns, bytes;
};

struct world {
	struct agent agents[AGENTS];
	struct pace pace;
	enum amiss amiss;
	bool locked; // agents post an interval after the last answer, not at moments of their own
	uint64_t until_ns; // end of what is amiss
	uint64_t record_ns, batch_ns; // what the datalake takes for each
	uint64_t free_ns; // when it has done all that it let in
	struct waiting waiting[WAITING_MAX];
	size_t waiting_at, waiting_count;
	uint64_t waiting_bytes;
	uint64_t per_second[SECONDS];
	uint64_t refused, behind; // agents that have more than a batch to say
	size_t heap[AGENTS];
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

static void put_off(struct agent *agent, uint64_t now, uint64_t retry_s)
{
	agent->due_ns = now + stream_pause_ns(agent->attempts++, INTERVAL, 300 * S, retry_s * S, random_number());
}

static void refuse(struct world *world, struct agent *agent, uint64_t now, uint64_t bytes)
{
	world->refused++;
	put_off(agent, now, pace_retry_s(&world->pace, now, bytes, world->waiting_bytes));
}

static void let_go(struct world *world, uint64_t now)
{
	while (world->waiting_count && world->waiting[world->waiting_at].done_ns <= now) {
		struct waiting first = world->waiting[world->waiting_at];

		world->waiting_at = (world->waiting_at + 1) % WAITING_MAX;
		world->waiting_bytes -= first.bytes;
		pace_note(&world->pace, first.done_ns, 1, first.bytes, --world->waiting_count > 0);
	}
}

// Lets a batch in and says when it is stored.
static uint64_t let_in(struct world *world, uint64_t now, uint64_t records, uint64_t bytes)
{
	uint64_t begin = world->free_ns > now ? world->free_ns : now;

	if (world->amiss == STUCK && begin >= BEGIN && begin < world->until_ns)
		begin = world->until_ns;
	world->free_ns = begin + world->batch_ns + records * world->record_ns;
	world->waiting[(world->waiting_at + world->waiting_count++) % WAITING_MAX] = (struct waiting){world->free_ns, bytes};
	world->waiting_bytes += bytes;
	return world->free_ns;
}

static void post(struct world *world, struct agent *agent, uint64_t now)
{
	uint64_t owed = (now - agent->sent_ns) * RECORDS / INTERVAL, records = owed < 3500 ? owed : 3500;
	uint64_t bytes = 700 + records * 90, done;
	bool amiss = now >= BEGIN && now < world->until_ns;

	let_go(world, now);
	if (amiss && world->amiss == AWAY) {
		put_off(agent, now, 0);
		return;
	}
	if ((amiss && world->amiss == FAILING) || world->waiting_count == WAITING_MAX ||
	    world->waiting_bytes >= WAITING_BYTES_MAX || !pace_allows(&world->pace, bytes, world->waiting_bytes)) {
		refuse(world, agent, now, bytes);
		return;
	}
	done = let_in(world, now, records, bytes);
	agent->attempts = 0;
	agent->sent_ns = records == owed ? now : agent->sent_ns + records * INTERVAL / RECORDS;
	if (records < owed)
		agent->due_ns = done + MS;
	else if (world->locked)
		agent->due_ns = done + stream_age_ns(INTERVAL, random_number());
	else
		agent->due_ns = agent->tick_ns + ((done - agent->tick_ns) / INTERVAL + 1) * INTERVAL;
}

static struct world *world_new(enum amiss amiss, uint64_t seconds, uint64_t record_ns, bool locked)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	*world = (struct world){.amiss = amiss, .locked = locked, .until_ns = BEGIN + seconds * S,
				.record_ns = record_ns, .batch_ns = 300000};
	pace_begin(&world->pace, 0);
	for (size_t i = 0; i < AGENTS; i++) {
		world->agents[i].tick_ns = world->agents[i].due_ns = INTERVAL * i / AGENTS + MS;
		world->heap[i] = i;
	}
	return world;
}

// Until all have said what they had to, and a while longer. Returns when that was.
static uint64_t run(struct world *world)
{
	uint64_t now = 0, end = SECONDS * S;
	bool restarted = world->amiss != AWAY;

	while (now < end) {
		struct agent *agent = &world->agents[world->heap[0]];

		now = agent->due_ns;
		if (now >= end)
			break;
		if (!restarted && now >= world->until_ns) {
			pace_begin(&world->pace, now);
			restarted = true;
		}
		world->per_second[now / S]++;
		post(world, agent, now);
		assert_true(agent->due_ns > now);
		sift(world, 0);
		if (end == SECONDS * S && now > world->until_ns + S && world->per_second[now / S] == 1) {
			world->behind = 0;
			for (size_t i = 0; i < AGENTS; i++)
				world->behind += world->agents[i].sent_ns + 2 * INTERVAL < now;
			if (!world->behind)
				end = now + LATE_S * S;
		}
	}
	return (end - LATE_S * S) / S;
}

static void check(enum amiss amiss, uint64_t seconds, uint64_t record_ns, bool locked)
{
	static const char *const words[] = {"away", "failing", "stuck"};
	struct world *world = world_new(amiss, seconds, record_ns, locked);
	uint64_t when = run(world), most = 0, at = 0;

	for (size_t i = STEADY_S - 20; i < SECONDS; i++)
		if (world->per_second[i] > most)
			most = world->per_second[at = i];
	print_message("%s for %llu s, %llu ns a record%s: busiest second %llu, %lld s after; refused %llu; caught up after %llu s\n",
		      words[amiss], (unsigned long long)seconds, (unsigned long long)record_ns, locked ? ", locked" : "",
		      (unsigned long long)most, (long long)(at - STEADY_S - seconds), (unsigned long long)world->refused,
		      (unsigned long long)(when - STEADY_S - seconds));
	assert_int_equal(world->behind, 0);
	assert_true(most <= AGENTS / 10 * 3 / 2);
	free(world);
}

// Requests of agents that wait for an answer count too, those that nobody heard as well.
static void an_outage_of_any_length(void **unused)
{
	static const uint64_t seconds[] = {2, 5, 10, 45, 200};

	(void)unused;
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++)
		for (int locked = 0; locked < 2; locked++)
			check(AWAY, seconds[i], 10000, locked);
}

static void a_store_that_fails(void **unused)
{
	(void)unused;
	check(FAILING, 2, 10000, false);
	check(FAILING, 60, 10000, true);
}

static void a_store_that_is_stuck(void **unused)
{
	(void)unused;
	check(STUCK, 5, 10000, true);
	check(STUCK, 60, 10000, false);
}

static void an_hour_away(void **unused)
{
	(void)unused;
	check(AWAY, 3600, 10000, false); // 100,000 records a second
	check(AWAY, 3600, 20000, true);
}

static void ten_minutes_away(void **unused)
{
	(void)unused;
	check(AWAY, 600, 40000, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pauses_are_random_below_a_limit_that_doubles),
		cmocka_unit_test(a_server_that_says_when_is_heard),
		cmocka_unit_test(ages_differ),
		cmocka_unit_test(the_pace_is_learned),
		cmocka_unit_test(those_refused_come_back_one_by_one),
		cmocka_unit_test(no_more_than_usual_come_back),
		cmocka_unit_test(an_outage_of_any_length),
		cmocka_unit_test(a_store_that_fails),
		cmocka_unit_test(a_store_that_is_stuck),
		cmocka_unit_test(ten_minutes_away),
		cmocka_unit_test(an_hour_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
