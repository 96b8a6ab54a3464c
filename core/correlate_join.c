// SPDX-License-Identifier: Apache-2.0
// Correlate, what a run has in common with runs on other hosts: keys by the rules, kept with the process that first
// showed them until its record is written. Decides nothing: other hosts are not seen here. Bounded: some keys a
// process, a short memory a run.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/correlate_private.h"
#include "core/parcel.h"

enum { PROCESS_JOINS_MAX = 8 };

struct process_joins {
	uint32_t count;
	struct {
		const char *key, *why; // interned
		uint32_t within_s;
		uint8_t how;
		bool head;
	} items[PROCESS_JOINS_MAX];
};

static uint32_t hash_key(const char *key)
{
	uint32_t hash = UINT32_C(2166136261);

	for (; *key; key++)
		hash = (hash ^ (uint8_t)*key) * UINT32_C(16777619);
	return hash ? hash : 1;
}

// Whether the run has told this key lately; it has from now on. A hash that meets another's is told by another process
// of the run, or not at all: with so few kept that is one in tens of millions.
static int told(struct run_private *run, const char *key, bool *ret_told)
{
	uint32_t hash = hash_key(key);

	if (!run->joins_told && !(run->joins_told = calloc(RUN_JOINS_MAX, sizeof(*run->joins_told))))
		return -ENOMEM;
	*ret_told = true;
	for (uint32_t i = 0; i < RUN_JOINS_MAX; i++)
		if (run->joins_told[i] == hash)
			return 0;
	*ret_told = false;
	run->joins_told[run->join_count++ % RUN_JOINS_MAX] = hash;
	return 0;
}

static int keep(struct correlate *correlate, struct process *process, const struct rule_join *join)
{
	struct process_joins *joins = process->joins;

	if (!joins)
		joins = process->joins = calloc(1, sizeof(*joins));
	if (!joins)
		return -ENOMEM;
	if (joins->count == PROCESS_JOINS_MAX)
		return 0;
	joins->items[joins->count].key = name_intern(&correlate->names, join->key);
	joins->items[joins->count].why = name_intern(&correlate->names, join->why);
	joins->items[joins->count].within_s = join->within_s;
	joins->items[joins->count].how = join->how;
	joins->items[joins->count].head = join->head;
	if (!joins->items[joins->count].key || !joins->items[joins->count].why) {
		name_release(&correlate->names, joins->items[joins->count].key);
		name_release(&correlate->names, joins->items[joins->count].why);
		return -ENOMEM;
	}
	joins->count++;
	return 0;
}

int joins_add(struct correlate *correlate, struct process *process, const struct rule_result *result)
{
	for (uint32_t i = 0; process->run && i < result->join_count; i++) {
		const struct rule_join *join = &result->joins[i];
		struct run_private *run = run_of(process->run);
		bool known;
		int error;

		if (join->job && (!run->job || strcmp(run->run.engine, result->job_engine) != 0))
			continue;
		error = told(run, join->key, &known);
		if (!error && !known)
			error = keep(correlate, process, join);
		if (error)
			return error;
	}
	return 0;
}

int correlate_trace(struct correlate *correlate, struct process *process, const char *trace_id)
{
	char key[256] = "trace:";
	struct rule_result result = {
		.join_count = 1,
		.joins = {{.key = key,
			   .why = "the same trace identifier was given",
			   .within_s = JOIN_EVER,
			   .how = JOIN_ID}},
	};

	if (!process->run || !*trace_id || strlen(trace_id) >= sizeof(key) - 6)
		return -EINVAL;
	memcpy(key + 6, trace_id, strlen(trace_id) + 1);
	return joins_add(correlate, process, &result);
}

void joins_release(struct correlate *correlate, struct process *process)
{
	struct process_joins *joins = process->joins;

	for (uint32_t i = 0; joins && i < joins->count; i++) {
		name_release(&correlate->names, joins->items[i].key);
		name_release(&correlate->names, joins->items[i].why);
	}
	free(joins);
	process->joins = NULL;
}

void joins_write(const struct process *process, struct json *json)
{
	static const char *const how[] = {[JOIN_ID] = "id", [JOIN_PLACE] = "place", [JOIN_WEAK] = "weak"};
	const struct process_joins *joins = process->joins;

	if (!joins)
		return;
	json_key(json, "join");
	json_open_array(json);
	for (uint32_t i = 0; i < joins->count; i++) {
		json_open_object(json);
		json_put_string(json, "key", joins->items[i].key);
		json_put_string(json, "why", joins->items[i].why);
		json_put_string(json, "how", how[joins->items[i].how]);
		json_put_known_u64(json, "within_s",
				   joins->items[i].within_s == JOIN_EVER ? JSON_UNKNOWN : joins->items[i].within_s);
		if (joins->items[i].head)
			json_put_bool(json, "head", true);
		json_close_object(json);
	}
	json_close_array(json);
}

enum join_tag { JOIN_KEY = 1, JOIN_WHY, JOIN_WITHIN, JOIN_HOW, JOIN_HEAD };

void joins_state_write(struct buf *out, uint16_t tag, const struct process *process)
{
	for (uint32_t i = 0; process->joins && i < process->joins->count; i++) {
		size_t opened = parcel_open(out, tag);

		parcel_put_string(out, JOIN_KEY, process->joins->items[i].key);
		parcel_put_string(out, JOIN_WHY, process->joins->items[i].why);
		parcel_put_u64(out, JOIN_WITHIN, process->joins->items[i].within_s);
		parcel_put_u64(out, JOIN_HOW, process->joins->items[i].how);
		parcel_put_u64(out, JOIN_HEAD, process->joins->items[i].head);
		parcel_close(out, opened);
	}
}

int joins_state_read(struct correlate *correlate, struct process *process, const struct parcel_field *field)
{
	struct parcel inside = parcel_inside(field);
	struct rule_join join = { 0 };
	struct parcel_field one;
	const char *text;

	while (parcel_next(&inside, &one)) {
		text = parcel_string(&one);
		if (one.tag == JOIN_KEY)
			join.key = text;
		else if (one.tag == JOIN_WHY)
			join.why = text;
		else if (one.tag == JOIN_WITHIN)
			join.within_s = (uint32_t)parcel_u64(&one);
		else if (one.tag == JOIN_HOW)
			join.how = (uint8_t)parcel_u64(&one);
		else if (one.tag == JOIN_HEAD)
			join.head = parcel_u64(&one) != 0;
	}
	if (inside.bad || !join.key || !join.why || join.how > JOIN_WEAK)
		return -EBADMSG;
	return keep(correlate, process, &join);
}
