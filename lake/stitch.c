// SPDX-License-Identifier: Apache-2.0
// Stitching, the groups: runs joined by the edges that lake/stitch_judge.c finds, kept in union-find with a ring
// through each group. Only groups that a changed key touches are made anew, from all their keys, so nothing of an older
// answer stays behind.
#include "lake/stitch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/stitch_private.h"

enum { SLOTS_FIRST = 1024 };

static uint32_t hash_bytes(const char *text, size_t length)
{
	uint32_t hash = UINT32_C(2166136261);

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT32_C(16777619);
	return hash ^ hash >> 15;
}

static size_t run_slot(uint64_t id, size_t slots)
{
	return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (slots - 1);
}

int stitch_new(struct stitch **ret_stitch)
{
	struct stitch *stitch = calloc(1, sizeof(*stitch));

	if (!stitch)
		return -ENOMEM;
	stitch->run_slots = stitch->key_slots = SLOTS_FIRST;
	stitch->runs = calloc(SLOTS_FIRST, sizeof(struct stitch_run *));
	stitch->keys = calloc(SLOTS_FIRST, sizeof(struct stitch_named *));
	if (!stitch->runs || !stitch->keys) {
		stitch_free(stitch);
		return -ENOMEM;
	}
	*ret_stitch = stitch;
	return 0;
}

static void run_free(struct stitch_run *run)
{
	for (struct stitch_claim *claim = run->claims, *next; claim; claim = next) {
		next = claim->run_next;
		free(claim->why);
		free(claim);
	}
	free(run);
}

void stitch_free(struct stitch *stitch)
{
	if (!stitch)
		return;
	for (size_t i = 0; stitch->runs && i < stitch->run_slots; i++)
		for (struct stitch_run *run = stitch->runs[i], *next; run; run = next) {
			next = run->hash_next;
			run_free(run);
		}
	for (size_t i = 0; stitch->keys && i < stitch->key_slots; i++)
		for (struct stitch_named *key = stitch->keys[i], *next; key; key = next) {
			next = key->hash_next;
			free(key);
		}
	free(stitch->runs);
	free(stitch->keys);
	free(stitch->changed_keys);
	free(stitch->touched_runs);
	free(stitch);
}

// --- tables --------------------------------------------------------------------------------------------------------

static void runs_grow(struct stitch *stitch)
{
	size_t slots = stitch->run_slots * 2;
	struct stitch_run **table = stitch->run_count < slots ? NULL : calloc(slots, sizeof(struct stitch_run *));

	if (!table)
		return; // chains grow instead
	for (size_t i = 0; i < stitch->run_slots; i++)
		for (struct stitch_run *run = stitch->runs[i], *next; run; run = next) {
			size_t slot = run_slot(run->id, slots);
			next = run->hash_next;
			run->hash_next = table[slot];
			table[slot] = run;
		}
	free(stitch->runs);
	stitch->runs = table;
	stitch->run_slots = slots;
}

static void keys_grow(struct stitch *stitch)
{
	size_t slots = stitch->key_slots * 2;
	struct stitch_named **table = stitch->key_count < slots ? NULL : calloc(slots, sizeof(struct stitch_named *));

	if (!table)
		return;
	for (size_t i = 0; i < stitch->key_slots; i++)
		for (struct stitch_named *key = stitch->keys[i], *next; key; key = next) {
			next = key->hash_next;
			key->hash_next = table[key->hash & (slots - 1)];
			table[key->hash & (slots - 1)] = key;
		}
	free(stitch->keys);
	stitch->keys = table;
	stitch->key_slots = slots;
}

static struct stitch_run *run_find(const struct stitch *stitch, uint64_t id)
{
	struct stitch_run *run = stitch->runs[run_slot(id, stitch->run_slots)];

	while (run && run->id != id)
		run = run->hash_next;
	return run;
}

static struct stitch_run *run_get(struct stitch *stitch, uint64_t id)
{
	struct stitch_run *run = run_find(stitch, id);
	size_t slot;

	if (run)
		return run;
	runs_grow(stitch);
	run = calloc(1, sizeof(*run));
	if (!run)
		return NULL;
	slot = run_slot(id, stitch->run_slots);
	*run = (struct stitch_run){.hash_next = stitch->runs[slot], .id = id, .parent = run, .ring = run, .size = 1};
	stitch->runs[slot] = run;
	stitch->run_count++;
	return run;
}

static struct stitch_named *key_find(const struct stitch *stitch, const char *workspace, const char *text,
				     uint32_t *ret_hash)
{
	size_t length = strlen(workspace);
	uint32_t hash = hash_bytes(text, strlen(text)) ^ hash_bytes(workspace, length) * 31;
	struct stitch_named *key = stitch->keys[hash & (stitch->key_slots - 1)];

	while (key && (key->hash != hash || strcmp(key->text, workspace) != 0 ||
		       strcmp(key->text + key->workspace_length + 1, text) != 0))
		key = key->hash_next;
	*ret_hash = hash;
	return key;
}

static struct stitch_named *key_get(struct stitch *stitch, const struct stitch_key *shown)
{
	size_t length = strlen(shown->workspace), size = strlen(shown->key) + 1;
	uint32_t hash;
	struct stitch_named *key = key_find(stitch, shown->workspace, shown->key, &hash);

	if (key)
		return key;
	keys_grow(stitch);
	key = calloc(1, sizeof(*key) + length + 1 + size);
	if (!key)
		return NULL;
	key->hash = hash;
	key->workspace_length = length;
	key->how = (uint8_t)shown->how;
	key->within_ns = shown->within_ns;
	key->local = stitch_key_is_local(shown->key);
	memcpy(key->text, shown->workspace, length + 1);
	memcpy(key->text + length + 1, shown->key, size);
	key->hash_next = stitch->keys[hash & (stitch->key_slots - 1)];
	stitch->keys[hash & (stitch->key_slots - 1)] = key;
	stitch->key_count++;
	return key;
}

static int key_change(struct stitch *stitch, struct stitch_named *key)
{
	if (key->changed)
		return 0;
	if (stitch->changed_key_count == stitch->changed_key_room) {
		size_t room = stitch->changed_key_room ? stitch->changed_key_room * 2 : 64;
		struct stitch_named **list = reallocarray(stitch->changed_keys, room, sizeof(struct stitch_named *));
		if (!list)
			return -ENOMEM;
		stitch->changed_keys = list;
		stitch->changed_key_room = room;
	}
	key->changed = true;
	stitch->changed_keys[stitch->changed_key_count++] = key;
	return 0;
}

// --- what is told
// -----------------------------------------------------------------------------------------------------

int stitch_run(struct stitch *stitch, uint64_t run_id, uint64_t start_ns, uint64_t end_ns)
{
	struct stitch_run *run = run_get(stitch, run_id);

	if (!run)
		return -ENOMEM;
	if (run->known && run->start_ns == start_ns && run->end_ns == end_ns)
		return 0;
	for (struct stitch_claim *claim = run->claims; claim; claim = claim->run_next)
		if (key_change(stitch, claim->key))
			return -ENOMEM;
	run->known = true;
	run->start_ns = start_ns;
	run->end_ns = end_ns;
	return 0;
}

static struct stitch_claim *claim_find(const struct stitch_run *run, const struct stitch_named *key)
{
	struct stitch_claim *by_run = run->claims, *by_key = key->claims;

	// In both lists at once: one of them may be long.
	for (; by_run && by_key; by_run = by_run->run_next, by_key = by_key->key_next) {
		if (by_run->key == key)
			return by_run;
		if (by_key->run == run)
			return by_key;
	}
	return NULL;
}

// The members of a key agree on what it is: the stricter word counts, whoever came first.
static void key_agree(struct stitch_named *key, const struct stitch_key *shown)
{
	key->how = shown->how > key->how ? (uint8_t)shown->how : key->how;
	key->within_ns = shown->within_ns < key->within_ns ? shown->within_ns : key->within_ns;
}

int stitch_key(struct stitch *stitch, const struct stitch_key *shown)
{
	struct stitch_run *run = run_get(stitch, shown->run_id);
	struct stitch_named *key = run && stitch_key_tells(shown->key, shown->how) ? key_get(stitch, shown) : NULL;
	struct stitch_claim *claim;

	if (!run)
		return -ENOMEM;
	if (!stitch_key_tells(shown->key, shown->how))
		return 0;
	if (!key || key_change(stitch, key))
		return -ENOMEM;
	claim = claim_find(run, key);
	if (!claim) {
		claim = calloc(1, sizeof(*claim));
		if (!claim)
			return -ENOMEM;
		*claim = (struct stitch_claim){
			.run_next = run->claims,
			.key_next = key->claims,
			.run = run,
			.key = key,
			.host = shown->host,
			.time_ns = shown->time_ns,
			.why = strdup(shown->why),
		};
		if (!claim->why) {
			free(claim);
			return -ENOMEM;
		}
		run->claims = key->claims = claim;
		key->claim_count++;
		stitch->claim_count++;
	}
	claim->time_ns = shown->time_ns < claim->time_ns ? shown->time_ns : claim->time_ns;
	if (strcmp(shown->why, claim->why) < 0) {
		char *why = strdup(shown->why);
		if (!why)
			return -ENOMEM;
		free(claim->why);
		claim->why = why;
	}
	claim->head |= shown->head;
	run->head |= shown->head && shown->how == STITCH_PLACE;
	key_agree(key, shown);
	return 0;
}

int stitch_known(struct stitch *stitch, const char *workspace, const char *text, uint64_t run_id, uint64_t stitched_id,
		 double confidence)
{
	uint32_t hash;
	struct stitch_named *key = key_find(stitch, workspace, text, &hash);
	struct stitch_run *run = run_find(stitch, run_id);
	struct stitch_claim *claim = key && run ? claim_find(run, key) : NULL;

	if (!claim)
		return -ENOENT;
	claim->told = stitched_id;
	claim->told_confidence = confidence;
	return 0;
}

// --- groups ----------------------------------------------------------------------------------------------------------

static struct stitch_run *top_of(struct stitch_run *run)
{
	while (run->parent != run) {
		run->parent = run->parent->parent;
		run = run->parent;
	}
	return run;
}

static void merge(struct stitch_run *a, struct stitch_run *b)
{
	struct stitch_run *x = top_of(a), *y = top_of(b), *ring = x->ring;

	if (x == y)
		return;
	if (x->size < y->size) {
		struct stitch_run *z = x;
		x = y;
		y = z;
		ring = x->ring;
	}
	x->ring = y->ring;
	y->ring = ring;
	y->parent = x;
	x->size += y->size;
}

static int touched_room(struct stitch *stitch, size_t more)
{
	size_t room = stitch->touched_room ? stitch->touched_room : 256;
	struct stitch_run **list;

	while (room < stitch->touched_count + more)
		room *= 2;
	if (room == stitch->touched_room)
		return 0;
	list = reallocarray(stitch->touched_runs, room, sizeof(struct stitch_run *));
	if (!list)
		return -ENOMEM;
	stitch->touched_runs = list;
	stitch->touched_room = room;
	return 0;
}

static void touch_one(struct stitch *stitch, struct stitch_run *run)
{
	run->touched = true;
	stitch->touched_runs[stitch->touched_count++] = run;
}

// A run and its whole group: all of it is touched, or nothing.
static int touch(struct stitch *stitch, struct stitch_run *run)
{
	struct stitch_run *member = run;

	if (run->touched)
		return 0;
	if (touched_room(stitch, top_of(run)->size))
		return -ENOMEM;
	do {
		touch_one(stitch, member);
		member = member->ring;
	} while (member != run);
	return 0;
}

static int judge_changed(struct stitch *stitch)
{
	for (size_t i = 0; i < stitch->changed_key_count; i++) {
		struct stitch_named *key = stitch->changed_keys[i];
		int error = 0;

		// Those joined until now, and those joined from now on.
		for (int round = 0; round < 2 && !error; round++) {
			if (round)
				error = stitch_judge(key);
			for (struct stitch_claim *claim = key->claims; claim && !error; claim = claim->key_next)
				if (claim->joins || claim->told)
					error = touch(stitch, claim->run);
		}
		if (error)
			return error;
	}
	return 0;
}

// Whether a stands for a whole rather than b: a head, then the earliest, then by number.
static bool is_before(const struct stitch_run *a, const struct stitch_run *b)
{
	if (a->head != b->head)
		return a->head;
	return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->id < b->id;
}

static void regroup(struct stitch *stitch)
{
	struct stitch_run **runs = stitch->touched_runs;

	for (size_t i = 0; i < stitch->touched_count; i++) {
		runs[i]->parent = runs[i]->ring = runs[i];
		runs[i]->size = 1;
	}
	for (size_t i = 0; i < stitch->touched_count; i++)
		for (struct stitch_claim *claim = runs[i]->claims; claim; claim = claim->run_next)
			if (claim->joined_to && claim->key->how != STITCH_WEAK)
				merge(runs[i], claim->joined_to->run);
	for (size_t i = 0; i < stitch->touched_count; i++) {
		struct stitch_run *best = runs[i], *member = runs[i]->ring;
		if (top_of(runs[i]) != runs[i])
			continue;
		for (; member != runs[i]; member = member->ring)
			best = is_before(member, best) ? member : best;
		member = runs[i];
		do {
			member->stitched_id = runs[i]->size > 1 ? best->id : 0;
			member = member->ring;
		} while (member != runs[i]);
	}
}

// --- what changed
// ------------------------------------------------------------------------------------------------------

static uint64_t answer_of(const struct stitch_claim *claim)
{
	const struct stitch_run *other = claim->joined_to ? claim->joined_to->run : NULL;

	if (!claim->joins)
		return 0;
	if (claim->key->how != STITCH_WEAK)
		return claim->run->stitched_id;
	if (!other || (other->stitched_id && other->stitched_id == claim->run->stitched_id))
		return 0;
	return other->stitched_id ? other->stitched_id : other->id;
}

static int tell(struct stitch_claim *claim, stitch_visit_fn *visit, void *context)
{
	uint64_t answer = answer_of(claim);
	struct stitch_change change = {
		.workspace = claim->key->text,
		.key = claim->key->text + claim->key->workspace_length + 1,
		.why = claim->why,
		.run_id = claim->run->id,
		.stitched_id = answer,
		.time_ns = claim->time_ns,
		.confidence = claim->confidence,
		.how = (enum stitch_how)claim->key->how,
		.has_answer = claim->run->stitched_id,
	};

	claim->told = answer;
	claim->told_confidence = claim->confidence;
	return visit(context, &change);
}

// Ends first; then, if there was one, one that holds is told again, so that the last word is right.
static int tell_run(struct stitch_run *run, stitch_visit_fn *visit, void *context)
{
	bool ended = false;

	for (struct stitch_claim *claim = run->claims; claim; claim = claim->run_next) {
		int error = 0;
		if (claim->told && !answer_of(claim)) {
			ended |= claim->key->how != STITCH_WEAK;
			error = tell(claim, visit, context);
		}
		if (error)
			return error;
	}
	for (struct stitch_claim *claim = run->claims; claim; claim = claim->run_next) {
		uint64_t answer = answer_of(claim);
		bool again = ended && claim->key->how != STITCH_WEAK;
		int error = 0;
		if (answer && (answer != claim->told || claim->confidence != claim->told_confidence || again)) {
			error = tell(claim, visit, context);
			ended = ended && !again;
		}
		if (error)
			return error;
	}
	return 0;
}

// Hints that lead to a run whose whole is another now.
static int touch_hints(struct stitch *stitch)
{
	size_t count = stitch->touched_count;

	for (size_t i = 0; i < count; i++)
		for (struct stitch_claim *claim = stitch->touched_runs[i]->claims; claim; claim = claim->run_next) {
			const struct stitch_named *key = claim->key;
			if (key->how != STITCH_WEAK || key->claim_count > STITCH_WEAK_MAX)
				continue;
			if (touched_room(stitch, key->claim_count))
				return -ENOMEM;
			for (struct stitch_claim *other = key->claims; other; other = other->key_next)
				if (!other->run->touched)
					touch_one(stitch, other->run);
		}
	return 0;
}

int stitch_update(struct stitch *stitch, stitch_visit_fn *visit, void *context)
{
	int error = judge_changed(stitch);

	if (error)
		return error; // what changed stays marked; the next call judges it again
	regroup(stitch);
	error = touch_hints(stitch);
	for (size_t i = 0; i < stitch->touched_count; i++) {
		if (!error)
			error = tell_run(stitch->touched_runs[i], visit, context);
		stitch->touched_runs[i]->touched = false;
	}
	stitch->touched_count = 0;
	if (error)
		return error;
	for (size_t i = 0; i < stitch->changed_key_count; i++)
		stitch->changed_keys[i]->changed = false;
	stitch->changed_key_count = 0;
	return 0;
}

uint64_t stitch_of(const struct stitch *stitch, uint64_t run_id)
{
	const struct stitch_run *run = run_find(stitch, run_id);

	return run ? run->stitched_id : 0;
}

uint64_t stitch_count(const struct stitch *stitch)
{
	return stitch->claim_count;
}

bool stitch_has(const struct stitch *stitch, uint64_t run_id)
{
	return run_find(stitch, run_id);
}

// --- forgetting
// --------------------------------------------------------------------------------------------------------

static bool is_old(const struct stitch_run *run, uint64_t before_ns)
{
	const struct stitch_run *member = run;

	do {
		if (member->known && (member->end_ns == STITCH_ALIVE ? member->start_ns : member->end_ns) >= before_ns)
			return false;
		for (const struct stitch_claim *claim = member->claims; claim; claim = claim->run_next)
			if (claim->time_ns >= before_ns)
				return false;
		member = member->ring;
	} while (member != run);
	return true;
}

static void key_drop_old(struct stitch *stitch, struct stitch_named **link)
{
	struct stitch_named *key = *link;
	struct stitch_claim **place = &key->claims;

	while (*place) {
		struct stitch_claim *claim = *place;
		if (claim->joined_to && claim->joined_to->run->touched)
			claim->joined_to = NULL;
		if (!claim->run->touched) {
			place = &claim->key_next;
			continue;
		}
		*place = claim->key_next;
		key->claim_count--;
		stitch->claim_count--;
	}
	if (key->claims)
		return;
	*link = key->hash_next;
	stitch->key_count--;
	free(key);
}

void stitch_forget(struct stitch *stitch, uint64_t before_ns)
{
	if (stitch->changed_key_count || stitch->touched_count)
		return; // after the next update
	for (size_t i = 0; i < stitch->run_slots; i++)
		for (struct stitch_run *run = stitch->runs[i]; run; run = run->hash_next)
			run->touched = is_old(run, before_ns);
	for (size_t i = 0; i < stitch->key_slots; i++)
		for (struct stitch_named **link = &stitch->keys[i]; *link;) {
			struct stitch_named *key = *link;
			key_drop_old(stitch, link);
			if (*link == key)
				link = &key->hash_next;
		}
	for (size_t i = 0; i < stitch->run_slots; i++)
		for (struct stitch_run **link = &stitch->runs[i]; *link;) {
			struct stitch_run *run = *link;
			if (!run->touched) {
				link = &run->hash_next;
				continue;
			}
			*link = run->hash_next;
			stitch->run_count--;
			run_free(run);
		}
}
