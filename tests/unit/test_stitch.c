// SPDX-License-Identifier: Apache-2.0
// Stitching: which runs become one, which do not, and that neither the order nor the pieces in which they become known
// matter.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lake/stitch.h"

#define S UINT64_C(1000000000)
#define T(seconds) ((UINT64_C(1700000000) + (seconds)) * S)

enum { RUNS_MAX = 64, KEYS_MAX = 256 };

// What a store would hold: the last word on each run.
struct answer {
	uint64_t stitched[RUNS_MAX];
	uint64_t hint[RUNS_MAX];
	double confidence[RUNS_MAX];
	int changes;
};

static int note(void *context, const struct stitch_change *change)
{
	struct answer *answer = context;

	assert_in_range(change->run_id, 1, RUNS_MAX - 1);
	assert_true(change->confidence >= 0 && change->confidence <= 1);
	assert_true(*change->why);
	answer->changes++;
	if (change->how == STITCH_WEAK) {
		answer->hint[change->run_id] = change->stitched_id;
		return 0;
	}
	answer->stitched[change->run_id] = change->stitched_id;
	answer->confidence[change->run_id] = change->confidence;
	return 0;
}

static struct stitch *stitch;
static struct answer answer;

static int set_up(void **state)
{
	(void)state;
	memset(&answer, 0, sizeof(answer));
	return stitch_new(&stitch);
}

static int tear_down(void **state)
{
	(void)state;
	stitch_free(stitch);
	return 0;
}

static void run(uint64_t id, uint64_t start_s, uint64_t end_s)
{
	assert_int_equal(stitch_run(stitch, id, T(start_s), end_s == STITCH_ALIVE ? STITCH_ALIVE : T(end_s)), 0);
}

static struct stitch_key key_of(uint64_t id, const char *key, enum stitch_how how, uint64_t within_s, bool head)
{
	return (struct stitch_key){
		.workspace = "default", .key = key, .why = "because", .run_id = id, .host = id, .time_ns = T(0),
		.within_ns = within_s == STITCH_EVER ? STITCH_EVER : within_s * S, .how = how, .head = head,
	};
}

static void key(uint64_t id, const char *text, enum stitch_how how, uint64_t within_s, bool head)
{
	struct stitch_key shown = key_of(id, text, how, within_s, head);

	assert_int_equal(stitch_key(stitch, &shown), 0);
}

static void update(void)
{
	assert_int_equal(stitch_update(stitch, note, &answer), 0);
}

#define assert_whole(run, expect) \
	do { \
		assert_int_equal(stitch_of(stitch, run), expect); \
		assert_int_equal(answer.stitched[run], expect); \
	} while (0)

static void a_job_on_two_hosts_is_one_run(void **state)
{
	(void)state;
	run(1, 100, 200);
	run(2, 101, 190);
	run(3, 100, 200);
	key(1, "slurm-job:1000/7", STITCH_ID, 3600, false);
	key(2, "slurm-job:1000/7", STITCH_ID, 3600, false);
	key(3, "slurm-job:1000/8", STITCH_ID, 3600, false);
	update();
	assert_whole(1, 1);
	assert_whole(2, 1);
	assert_whole(3, 0);
	update();
	assert_int_equal(answer.changes, 2);
}

static void a_number_that_comes_again_is_another_job(void **state)
{
	(void)state;
	run(1, 100, 200);
	run(2, 100, 200);
	run(3, 90000, 90100);
	run(4, 90000, 90100);
	for (uint64_t id = 1; id <= 4; id++)
		key(id, "slurm-job:1000/7", STITCH_ID, 3600, false);
	update();
	assert_whole(1, 1);
	assert_whole(2, 1);
	assert_whole(3, 3);
	assert_whole(4, 3);
}

// While a run lives it might still meet one that starts later; when its end is told, it turns out that it did not.
static void an_end_that_comes_late_parts_what_was_joined(void **state)
{
	(void)state;
	run(1, 100, STITCH_ALIVE);
	run(2, 90000, 90100);
	key(1, "slurm-job:1000/7", STITCH_ID, 60, false);
	key(2, "slurm-job:1000/7", STITCH_ID, 60, false);
	update();
	assert_whole(2, 1);
	run(1, 100, 200);
	update();
	assert_whole(1, 0);
	assert_whole(2, 0);
}

static void the_head_of_a_place_gathers_its_parts(void **state)
{
	(void)state;
	run(5, 100, 10000); // tasks became known before the engine
	run(6, 300, 400);
	run(7, 3000, 4000);
	run(8, 50, 20000);
	key(6, "nextflow:/scratch/a/work", STITCH_PLACE, 60, false);
	key(7, "nextflow:/scratch/a/work", STITCH_PLACE, 60, false);
	update();
	assert_whole(6, 0);
	assert_whole(7, 0);
	key(5, "nextflow:/scratch/a/work", STITCH_PLACE, 60, true);
	update();
	assert_whole(5, 5);
	assert_whole(6, 5);
	assert_whole(7, 5);
	assert_true(answer.confidence[6] > 0.9 && answer.confidence[6] < 1);
	// A second engine works there at the same time: the place alone does not tell any more.
	key(8, "nextflow:/scratch/a/work", STITCH_PLACE, 60, true);
	update();
	assert_whole(5, 0);
	assert_whole(6, 0);
	assert_whole(8, 0);
	// But the directory of the task does.
	key(8, "nextflow-task:/scratch/a/work/ab/cdef01", STITCH_ID, STITCH_EVER, false);
	key(6, "nextflow-task:/scratch/a/work/ab/cdef01", STITCH_ID, STITCH_EVER, false);
	update();
	assert_whole(6, 8);
	assert_whole(7, 0);
	assert_whole(5, 0);
}

static void engines_one_after_the_other_keep_their_parts(void **state)
{
	(void)state;
	run(1, 0, 1000);
	run(2, 2000, 3000);
	run(3, 500, 600);
	run(4, 2500, 2600);
	key(1, "snakemake:/proj/x/y", STITCH_PLACE, 60, true);
	key(2, "snakemake:/proj/x/y", STITCH_PLACE, 60, true);
	key(3, "snakemake:/proj/x/y", STITCH_PLACE, 60, false);
	key(4, "snakemake:/proj/x/y", STITCH_PLACE, 60, false);
	update();
	assert_whole(3, 1);
	assert_whole(4, 2);
	assert_whole(1, 1);
	assert_whole(2, 2);
}

static void parts_without_a_head_stay_together_with_less_confidence(void **state)
{
	(void)state;
	run(1, 0, 100);
	run(2, 50, 200);
	key(1, "nextflow:/scratch/a/work", STITCH_PLACE, 60, false);
	key(2, "nextflow:/scratch/a/work", STITCH_PLACE, 60, false);
	update();
	assert_whole(2, 1);
	assert_true(answer.confidence[2] < 0.9);
}

static void a_directory_of_everybody_joins_no_strangers(void **state)
{
	static const char *const common[] = {"nextflow:/", "nextflow:/work", "snakemake:/home", "snakemake:/home/ann",
					     "snakemake:/mnt/data", "x:", ":/a/b/c", "x"};
	static const char *const telling[] = {"nextflow:/scratch/work", "snakemake:/home/ann/x", "trace:a", "nextflow:s3://b/w"};

	(void)state;
	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++)
		assert_false(stitch_key_tells(common[i], STITCH_PLACE));
	for (size_t i = 0; i < sizeof(telling) / sizeof(telling[0]); i++)
		assert_true(stitch_key_tells(telling[i], STITCH_PLACE));
	run(1, 0, 100);
	run(2, 0, 100);
	run(3, 0, 100);
	key(1, "snakemake:/home/ann", STITCH_PLACE, 60, true);
	key(2, "snakemake:/home/ann", STITCH_PLACE, 60, false);
	key(1, "snakemake:/tmp/x/y", STITCH_PLACE, 60, true);
	key(3, "snakemake:/tmp/x/y", STITCH_PLACE, 60, false);
	update();
	assert_whole(1, 0);
	assert_whole(2, 0);
	assert_whole(3, 0); // each host has a /tmp of its own
}

static void workspaces_do_not_mix(void **state)
{
	struct stitch_key other = key_of(2, "trace:a", STITCH_ID, STITCH_EVER, false);

	(void)state;
	run(1, 0, 100);
	run(2, 0, 100);
	key(1, "trace:a", STITCH_ID, STITCH_EVER, false);
	other.workspace = "another";
	assert_int_equal(stitch_key(stitch, &other), 0);
	update();
	assert_whole(1, 0);
	assert_whole(2, 0);
	assert_int_equal(answer.changes, 0);
}

static void a_hint_joins_nothing_and_leads_nowhere_else(void **state)
{
	(void)state;
	for (uint64_t id = 1; id <= 4; id++)
		run(id, 0, 100);
	key(1, "submit:1000:/p/q", STITCH_WEAK, 600, false);
	key(2, "submit:1000:/p/q", STITCH_WEAK, 600, false);
	key(2, "slurm-job:1/2", STITCH_ID, 60, false);
	key(3, "slurm-job:1/2", STITCH_ID, 60, false);
	key(3, "submit:1000:/r/s", STITCH_WEAK, 600, false);
	key(4, "submit:1000:/r/s", STITCH_WEAK, 600, false);
	update();
	assert_whole(1, 0);
	assert_whole(4, 0);
	assert_whole(2, 2);
	assert_whole(3, 2);
	assert_int_equal(answer.hint[1], 2);
	assert_int_equal(answer.hint[2], 1);
	assert_int_equal(answer.hint[4], 2); // to the whole that run 3 is part of
	key(1, "trace:t", STITCH_ID, STITCH_EVER, false);
	key(4, "trace:t", STITCH_ID, STITCH_EVER, false);
	key(2, "trace:t", STITCH_ID, STITCH_EVER, false);
	update();
	assert_int_equal(answer.hint[1], 0); // no hint any more: it is known
	assert_int_equal(answer.hint[4], 0);
}

static void chains_of_keys_are_followed(void **state)
{
	char text[32];

	(void)state;
	for (uint64_t id = 1; id < RUNS_MAX; id++)
		run(id, 1000 - id, 2000);
	for (uint64_t id = 1; id + 1 < RUNS_MAX; id++) {
		snprintf(text, sizeof(text), "x:%d", (int)id);
		key(id, text, STITCH_ID, 60, false);
		key(id + 1, text, STITCH_ID, 60, false);
		update();
	}
	for (uint64_t id = 1; id < RUNS_MAX; id++)
		assert_whole(id, RUNS_MAX - 1); // the earliest stands for all
}

static void what_was_told_before_is_not_told_again(void **state)
{
	(void)state;
	run(1, 0, 100);
	run(2, 0, 100);
	key(1, "trace:a", STITCH_ID, STITCH_EVER, false);
	key(2, "trace:a", STITCH_ID, STITCH_EVER, false);
	assert_int_equal(stitch_known(stitch, "default", "trace:a", 1, 1, 1.0), 0);
	assert_int_equal(stitch_known(stitch, "default", "trace:a", 2, 1, 1.0), 0);
	assert_int_equal(stitch_known(stitch, "default", "trace:b", 2, 1, 1.0), -ENOENT);
	update();
	assert_int_equal(answer.changes, 0);
	assert_int_equal(stitch_of(stitch, 2), 1);
	run(1, 0, 200);
	update();
	assert_int_equal(answer.changes, 0);
}

static void what_is_old_is_forgotten_whole(void **state)
{
	(void)state;
	run(1, 0, 100);
	run(2, 0, 100);
	run(3, 5000, 6000);
	run(4, 0, 5500);
	key(1, "trace:a", STITCH_ID, STITCH_EVER, false);
	key(2, "trace:a", STITCH_ID, STITCH_EVER, false);
	key(3, "trace:b", STITCH_ID, STITCH_EVER, false);
	key(4, "trace:b", STITCH_ID, STITCH_EVER, false);
	key(1, "weak:w", STITCH_WEAK, 60, false);
	key(4, "weak:w", STITCH_WEAK, 60, false);
	update();
	stitch_forget(stitch, T(1000));
	assert_int_equal(stitch_count(stitch), 3);
	assert_false(stitch_has(stitch, 1));
	assert_true(stitch_has(stitch, 4));
	update();
	assert_whole(3, 4);
	stitch_forget(stitch, T(100000));
	assert_int_equal(stitch_count(stitch), 0);
	assert_false(stitch_has(stitch, 4));
}

// --- any order -----------------------------------------------------------------------------------------------------------

struct fact {
	bool is_key, alive;
	uint64_t id, start, end;
	struct stitch_key key;
};

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static size_t make_world(struct fact *facts, char texts[KEYS_MAX][32])
{
	size_t count = 0, keys = 20 + below(60);

	for (uint64_t id = 1; id < 40; id++) {
		uint64_t start = below(2000);
		facts[count++] = (struct fact){.id = id, .start = start, .end = start + 1 + below(300)};
	}
	for (size_t i = 0; i < keys; i++) {
		size_t name = below(12);
		enum stitch_how how = name % 3 == 0 ? STITCH_PLACE : name % 7 == 5 ? STITCH_WEAK : STITCH_ID;
		snprintf(texts[i], sizeof(texts[i]), name % 2 ? "k:%d" : "k:/shared/data/%d", (int)name);
		facts[count++] = (struct fact){
			.is_key = true,
			.key = key_of(1 + below(39), texts[i], how, name % 5 ? 30 : STITCH_EVER, how == STITCH_PLACE && !below(4)),
		};
	}
	return count;
}

// Feeds a world in a random order, some runs first as living ones, with updates in between.
static void feed(const struct fact *facts, size_t count)
{
	size_t order[KEYS_MAX];
	bool ended[KEYS_MAX] = {false};

	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count; i-- > 1;) {
		size_t j = below(i + 1), swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
	for (size_t i = 0; i < count; i++) {
		const struct fact *fact = &facts[order[i]];
		if (fact->is_key)
			assert_int_equal(stitch_key(stitch, &fact->key), 0);
		else if (below(2))
			run(fact->id, fact->start, STITCH_ALIVE);
		else {
			run(fact->id, fact->start, fact->end);
			ended[order[i]] = true;
		}
		if (!below(5))
			update();
	}
	for (size_t i = 0; i < count; i++)
		if (!facts[i].is_key && !ended[i])
			run(facts[i].id, facts[i].start, facts[i].end);
	update();
}

static void the_order_does_not_matter(void **state)
{
	enum { WORLDS = 60, ORDERS = 12 };
	static struct fact facts[KEYS_MAX];
	static char texts[KEYS_MAX][32];
	int joined = 0;

	(void)state;
	for (uint64_t world = 1; world <= WORLDS; world++) {
		struct answer first;
		seed = world * UINT64_C(0x9e3779b97f4a7c15);
		size_t count = make_world(facts, texts);
		for (int order = 0; order < ORDERS; order++) {
			tear_down(NULL);
			set_up(NULL);
			feed(facts, count);
			for (uint64_t id = 1; id < RUNS_MAX; id++)
				assert_int_equal(answer.stitched[id], stitch_of(stitch, id));
			if (!order)
				first = answer;
			for (uint64_t id = 1; id < RUNS_MAX; id++) {
				if (answer.stitched[id] != first.stitched[id] || answer.hint[id] != first.hint[id])
					fail_msg("world %d order %d run %d: %d and %d, hints %d and %d", (int)world, order,
						 (int)id, (int)answer.stitched[id], (int)first.stitched[id],
						 (int)answer.hint[id], (int)first.hint[id]);
				joined += answer.stitched[id] != 0;
			}
		}
	}
	assert_true(joined > WORLDS * ORDERS * 5);
}

static int count_change(void *context, const struct stitch_change *change)
{
	(void)change;
	++*(uint64_t *)context;
	return 0;
}

// A pipeline of many jobs: each further one costs no more than a pass over its group.
static void many_parts_of_one_run(void **state)
{
	enum { PARTS = 20000 };
	uint64_t changes = 0;
	char text[64];

	(void)state;
	assert_int_equal(stitch_run(stitch, 1, T(0), STITCH_ALIVE), 0);
	key(1, "nextflow:/scratch/a/work", STITCH_PLACE, 60, true);
	for (uint64_t id = 2; id < PARTS; id++) {
		snprintf(text, sizeof(text), "nextflow-task:/scratch/a/work/%d", (int)id);
		assert_int_equal(stitch_run(stitch, id, T(id), T(id + 50)), 0);
		key(id, "nextflow:/scratch/a/work", STITCH_PLACE, 60, false);
		key(id, text, STITCH_ID, STITCH_EVER, false);
		key(1, text, STITCH_ID, STITCH_EVER, false);
	}
	assert_int_equal(stitch_count(stitch), 1 + 3 * (PARTS - 2));
	assert_int_equal(stitch_update(stitch, count_change, &changes), 0);
	assert_int_equal(changes, stitch_count(stitch));
	for (uint64_t id = 1; id < PARTS; id++)
		assert_int_equal(stitch_of(stitch, id), 1);
	assert_int_equal(stitch_run(stitch, 7, T(7), T(58)), 0);
	assert_int_equal(stitch_update(stitch, count_change, &changes), 0);
	assert_int_equal(changes, stitch_count(stitch));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_job_on_two_hosts_is_one_run),
		TEST(a_number_that_comes_again_is_another_job),
		TEST(an_end_that_comes_late_parts_what_was_joined),
		TEST(the_head_of_a_place_gathers_its_parts),
		TEST(engines_one_after_the_other_keep_their_parts),
		TEST(parts_without_a_head_stay_together_with_less_confidence),
		TEST(a_directory_of_everybody_joins_no_strangers),
		TEST(workspaces_do_not_mix),
		TEST(a_hint_joins_nothing_and_leads_nowhere_else),
		TEST(chains_of_keys_are_followed),
		TEST(what_was_told_before_is_not_told_again),
		TEST(what_is_old_is_forgotten_whole),
		TEST(the_order_does_not_matter),
		TEST(many_parts_of_one_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
