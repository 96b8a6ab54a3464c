// SPDX-License-Identifier: Apache-2.0
// Stitching, the judgement of one key: which of the runs that showed it belong together. Depends on their times alone,
// so that the order in which they became known cannot matter.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lake/stitch_private.h"

static const uint64_t ALIVE_MAX_NS = UINT64_C(30) * 24 * 3600 * 1000000000; // a run whose end was never told
static const double CONFIDENCE_ID = 1.0, CONFIDENCE_HEAD = 0.95, CONFIDENCE_PARTS = 0.7, CONFIDENCE_WEAK = 0.3;

static uint64_t end_of(const struct stitch_run *run)
{
	return run->end_ns == STITCH_ALIVE ? run->start_ns + ALIVE_MAX_NS : run->end_ns;
}

static bool meet(const struct stitch_named *key, const struct stitch_claim *a, const struct stitch_claim *b)
{
	const struct stitch_run *first = a->run->start_ns <= b->run->start_ns ? a->run : b->run;
	const struct stitch_run *second = first == a->run ? b->run : a->run;
	uint64_t end = end_of(first);

	if (key->local && a->host != b->host)
		return false;
	return key->within_ns == STITCH_EVER || second->start_ns <= end || second->start_ns - end <= key->within_ns;
}

static int by_host_and_start(const void *a, const void *b)
{
	const struct stitch_claim *x = *(struct stitch_claim *const *)a, *y = *(struct stitch_claim *const *)b;

	if (x->key->local && x->host != y->host)
		return x->host < y->host ? -1 : 1;
	if (x->run->start_ns != y->run->start_ns)
		return x->run->start_ns < y->run->start_ns ? -1 : 1;
	return x->run->id < y->run->id ? -1 : x->run->id > y->run->id;
}

static void join(struct stitch_claim *claim, struct stitch_claim *to, double confidence)
{
	claim->joined_to = to;
	claim->joins = to->joins = true;
	claim->confidence = confidence;
	to->confidence = to->confidence > confidence ? to->confidence : confidence;
}

// Those that follow each other without a break: each with the one that reaches furthest so far.
static void join_chain(struct stitch_claim **claims, size_t count, double confidence)
{
	struct stitch_claim *reach = NULL;

	for (size_t i = 0; i < count; i++) {
		if (reach && meet(reach->key, reach, claims[i]))
			join(claims[i], reach, confidence);
		else
			reach = NULL;
		if (!reach || end_of(claims[i]->run) > end_of(reach->run))
			reach = claims[i];
	}
}

static size_t heads_at(struct stitch_claim **heads, size_t head_count, const struct stitch_claim *part,
		       struct stitch_claim **ret_head)
{
	size_t found = 0;

	for (size_t i = 0; i < head_count && found < 2; i++)
		if (meet(part->key, heads[i], part)) {
			*ret_head = heads[i];
			found++;
		}
	return found;
}

static int judge_place(struct stitch_claim **claims, size_t count)
{
	struct stitch_claim **heads = malloc((count + 1) * sizeof(struct stitch_claim *));
	size_t head_count = 0, orphans = 0;

	if (!heads)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (claims[i]->head)
			heads[head_count++] = claims[i];
	for (size_t i = 0; i < count; i++) {
		struct stitch_claim *part = claims[i], *head = NULL;
		size_t found = part->head ? 1 : heads_at(heads, head_count, part, &head);
		if (head && found == 1)
			join(part, head, CONFIDENCE_HEAD);
		if (!found)
			claims[orphans++] = part;
	}
	free(heads);
	join_chain(claims, orphans, CONFIDENCE_PARTS);
	return 0;
}

// With whom a weak key would join: the one it overlaps longest is not known, so the first; several make each less
// likely.
static void judge_weak(struct stitch_claim **claims, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t found = 0;
		for (size_t j = 0; j < count && found < 8; j++) {
			if (i == j || !meet(claims[i]->key, claims[i], claims[j]))
				continue;
			if (!found++)
				claims[i]->joined_to = claims[j];
		}
		claims[i]->joins = found;
		claims[i]->confidence = found ? CONFIDENCE_WEAK / (double)found : 0;
	}
}

int stitch_judge(struct stitch_named *key)
{
	struct stitch_claim **claims = malloc((key->claim_count + 1) * sizeof(struct stitch_claim *));
	size_t count = 0;
	int error = 0;

	if (!claims)
		return -ENOMEM;
	for (struct stitch_claim *claim = key->claims; claim; claim = claim->key_next) {
		claim->joined_to = NULL;
		claim->joins = false;
		claim->confidence = 0;
		if (claim->run->known)
			claims[count++] = claim;
	}
	qsort(claims, count, sizeof(struct stitch_claim *), by_host_and_start);
	if (key->how == STITCH_ID)
		join_chain(claims, count, CONFIDENCE_ID);
	else if (key->how == STITCH_PLACE)
		error = judge_place(claims, count);
	else if (count <= STITCH_WEAK_MAX)
		judge_weak(claims, count);
	free(claims);
	return error;
}

// --- which keys tell anything --------------------------------------------------------------------------------------

// The path in a key, behind its last colon; NULL: it has none.
static const char *path_of(const char *key)
{
	const char *path = strstr(key, ":/");

	return path ? path + 1 : NULL;
}

static bool begins(const char *path, const char *with)
{
	size_t length = strlen(with);

	return !strncmp(path, with, length) && (!path[length] || path[length] == '/');
}

static size_t depth_of(const char *path)
{
	size_t depth = 0;

	for (; *path; path++)
		depth += *path == '/' && path[1];
	return depth;
}

bool stitch_key_tells(const char *key, enum stitch_how how)
{
	static const char *const homes[] = {"/home", "/users", "/Users", "/u",	 "/usr",
					    "/mnt",  "/media", "/srv",	 "/opt", "/export"};
	const char *colon = strchr(key, ':'), *path = path_of(key);
	size_t depth;

	if (!colon || colon == key || !colon[1])
		return false;
	if (!path || path[1] == '/') // none, or a URL
		return true;
	depth = depth_of(path);
	if (depth < 2 && how != STITCH_ID)
		return false;
	if (!strcmp(path, "/"))
		return false;
	for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++)
		if (begins(path, homes[i]) && depth < 3 && how != STITCH_ID)
			return false;
	return true;
}

bool stitch_key_is_local(const char *key)
{
	static const char *const local[] = {"/tmp", "/var", "/dev", "/run", "/proc", "/sys", "/root", "/etc", "/local"};
	const char *path = path_of(key);

	for (size_t i = 0; path && i < sizeof(local) / sizeof(local[0]); i++)
		if (begins(path, local[i]))
			return true;
	return false;
}
