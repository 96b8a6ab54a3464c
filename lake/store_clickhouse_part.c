// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: what a batch brings to hosts, runs, tasks and the like, gathered in memory, so that one row for
// each of them and batch is written instead of one for each process. The views put the parts together. What a living
// process brings is a part of its own (open_id), which the views leave out as soon as the process has ended.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/report_tree.h"
#include "lake/amounts.h"
#include "lake/shares.h"
#include "lake/store_clickhouse.h"

enum { FIRST_SLOTS = 1024, BLOCK_SIZE = 256 * 1024 };

int clickhouse_parts_begin(struct clickhouse_parts *parts)
{
	memset(parts, 0, sizeof(*parts));
	parts->slots = calloc(FIRST_SLOTS, sizeof(parts->slots[0]));
	if (!parts->slots)
		return -ENOMEM;
	parts->slot_count = FIRST_SLOTS;
	arena_init(&parts->arena, BLOCK_SIZE);
	return 0;
}

void clickhouse_parts_free(struct clickhouse_parts *parts)
{
	for (size_t i = 0; i < parts->slot_count; i++) {
		if (parts->slots[i])
			free(parts->slots[i]->list);
	}
	if (parts->slots)
		arena_free(&parts->arena);
	free(parts->slots);
	memset(parts, 0, sizeof(*parts));
}

static size_t part_hash(uint64_t id, uint64_t open_id, unsigned entity, size_t slots)
{
	uint64_t hash = (id ^ open_id * UINT64_C(0x9e3779b97f4a7c15) ^ entity) * UINT64_C(0xff51afd7ed558ccd);

	return (size_t)(hash >> 20) % slots;
}

static int grow(struct clickhouse_parts *parts)
{
	size_t count = parts->slot_count * 2;
	struct clickhouse_part **slots = calloc(count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < parts->slot_count; i++) {
		struct clickhouse_part *part = parts->slots[i];
		size_t at;

		if (!part)
			continue;
		for (at = part_hash(part->id, part->open_id, part->entity, count); slots[at]; at = (at + 1) % count)
			;
		slots[at] = part;
	}
	free(parts->slots);
	parts->slots = slots;
	parts->slot_count = count;
	return 0;
}

struct clickhouse_part *clickhouse_part_get(struct clickhouse_parts *parts, enum schema_entity_id entity, uint64_t id,
					    uint64_t open_id, bool *ret_fresh)
{
	const struct schema_entity *schema = &schema_entities[entity];
	struct clickhouse_part *part;
	size_t at;

	if (parts->used * 2 > parts->slot_count && grow(parts) < 0)
		return NULL;
	at = part_hash(id, open_id, entity, parts->slot_count);
	for (; (part = parts->slots[at]); at = (at + 1) % parts->slot_count) {
		if (part->id == id && part->open_id == open_id && part->entity == entity) {
			*ret_fresh = false;
			return part;
		}
	}
	part = arena_alloc(&parts->arena, sizeof(*part) + schema->column_count * sizeof(part->slot[0]));
	if (!part)
		return NULL;
	*part = (struct clickhouse_part){.id = id, .open_id = open_id, .entity = (uint8_t)entity};
	lake_row_clear(part->slot, schema);
	part->slot[0].u64 = id;
	parts->slots[at] = part;
	parts->used++;
	*ret_fresh = true;
	return part;
}

// ---- moving a part ------------------------------------------------------------------------------------------------

static void add(union lake_slot *slot, uint64_t value)
{
	if (value == LAKE_NULL)
		return;
	if (slot->u64 == LAKE_NULL)
		slot->u64 = 0;
	slot->u64 = value > LAKE_U64_MAX - slot->u64 ? LAKE_U64_MAX : slot->u64 + value;
}

static void least(union lake_slot *slot, uint64_t value)
{
	if (value < slot->u64)
		slot->u64 = value;
}

static void most(union lake_slot *slot, uint64_t value)
{
	if (value != LAKE_NULL && (slot->u64 == LAKE_NULL || value > slot->u64))
		slot->u64 = value;
}

static int list_add(struct clickhouse_part *part, uint64_t id)
{
	uint64_t *larger;

	if (part->list_count && part->list[part->list_count - 1] == id)
		return 0;
	if (part->list_count == part->list_room) {
		size_t room = part->list_room ? part->list_room * 2 : 8;

		larger = realloc(part->list, room * sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		part->list = larger;
		part->list_room = room;
	}
	part->list[part->list_count++] = id;
	return 0;
}

// Which figures of a process must be known for its group to be.
static const struct {
	unsigned unknown, first, last;
} groups[] = {
	{AGGREGATE_unknown_cpu, SUM_cpu_ns, SUM_cpu_system_ns},
	{AGGREGATE_unknown_delay, SUM_run_delay_ns, SUM_run_delay_ns},
	{AGGREGATE_unknown_switches, SUM_voluntary_switches, SUM_involuntary_switches},
	{AGGREGATE_unknown_blocked, SUM_blocked_disk_ns, SUM_blocked_other_ns},
	{AGGREGATE_unknown_faults, SUM_minor_faults, SUM_major_faults},
	{AGGREGATE_unknown_stall, SUM_reclaim_stall_ns, SUM_compaction_stall_ns},
	{AGGREGATE_unknown_io, SUM_rchar_bytes, SUM_cancelled_write_bytes},
};

// What is added to a part: a process, or a program's share of one.
struct amount {
	uint64_t sums[SUM_END]; // LAKE_NULL: unknown
	uint64_t start_ns, end_ns; // end LAKE_NULL: lives on
	uint64_t threads_max, peak_rss_bytes;
	bool share, living, failure; // share: not a process of its own, and nothing of it counts as unknown
};

static void amount_of(const struct lake_row *row, struct amount *ret_amount)
{
	const union lake_slot *slot = row->slot;

	*ret_amount = (struct amount){
		.start_ns = slot[PROCESSES_start_ns].u64,
		.end_ns = row->open ? LAKE_NULL : slot[PROCESSES_end_ns].u64,
		.threads_max = slot[PROCESSES_threads_max].u64,
		.peak_rss_bytes = slot[PROCESSES_peak_rss_bytes].u64,
		.living = row->open,
		.failure = amounts_failed(row),
	};
	for (unsigned i = 0; i < SUM_END; i++)
		ret_amount->sums[i] = slot[PROCESSES_cpu_ns + i].u64;
}

static void add_amount(union lake_slot *to, const struct amount *amount)
{
	least(&to[AGGREGATE_start_ns], amount->start_ns);
	most(&to[AGGREGATE_end_ns], amount->end_ns);
	most(&to[AGGREGATE_threads_max], amount->threads_max);
	most(&to[AGGREGATE_peak_rss_bytes], amount->peak_rss_bytes);
	for (unsigned i = 0; i < SUM_END; i++)
		add(&to[AGGREGATE_cpu_ns + i], amount->sums[i]);
	if (amount->share) {
		add(&to[AGGREGATE_images], 1);
		return;
	}
	add(&to[AGGREGATE_processes], 1);
	add(&to[AGGREGATE_living], amount->living);
	add(&to[AGGREGATE_failures], amount->failure);
	if (amount->end_ns != LAKE_NULL && amount->end_ns > amount->start_ns)
		add(&to[AGGREGATE_wall_ns], amount->end_ns - amount->start_ns);
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		bool unknown = false;

		for (unsigned i = groups[g].first; i <= groups[g].last; i++)
			unknown |= amount->sums[i] == LAKE_NULL;
		add(&to[groups[g].unknown], unknown);
	}
	add(&to[AGGREGATE_unknown_memory], amount->peak_rss_bytes == LAKE_NULL);
}

static const struct lake_text *command_of(struct clickhouse_parts *parts, const struct lake_text *args)
{
	char joined[4096], command[REPORT_TEXT_MAX];
	yyjson_doc *document = yyjson_read(args->bytes, args->length, 0);
	yyjson_arr_iter each = yyjson_arr_iter_with(yyjson_doc_get_root(document));
	yyjson_val *argument;
	size_t used = 0;

	while ((argument = yyjson_arr_iter_next(&each)) && yyjson_is_str(argument) &&
	       used + yyjson_get_len(argument) < sizeof(joined)) {
		memcpy(joined + used, yyjson_get_str(argument), yyjson_get_len(argument));
		used += yyjson_get_len(argument);
		joined[used++] = '\0';
	}
	report_command(command, joined, used);
	yyjson_doc_free(document);
	return clickhouse_text(&parts->arena, command);
}

// The columns of SCHEMA_ROOT, from the earliest process.
static void take_root(struct clickhouse_parts *parts, union lake_slot *root, const struct lake_row *row)
{
	enum { COMMAND, START, EXIT_CODE, SIGNAL, OOM, OOM_LIMIT };
	const union lake_slot *slot = row->slot;

	if (root[START].u64 < slot[PROCESSES_start_ns].u64)
		return;
	if (slot[PROCESSES_args].text)
		root[COMMAND].text = command_of(parts, slot[PROCESSES_args].text);
	root[START] = slot[PROCESSES_start_ns];
	root[EXIT_CODE] = slot[PROCESSES_exit_code];
	root[SIGNAL] = slot[PROCESSES_signal];
	root[OOM] = slot[PROCESSES_oom];
	if (slot[PROCESSES_oom_limit].text)
		root[OOM_LIMIT] = slot[PROCESSES_oom_limit];
}

static void take_text(union lake_slot *slot, const struct lake_text *text)
{
	if (text)
		slot->text = text;
}

// ---- a process and what it belongs to -----------------------------------------------------------------------------

struct bringing {
	struct clickhouse_parts *parts;
	struct lake_batch *batch;
	const struct lake_row *row;
	const struct amount *amount;
	uint64_t open_id;
};

static struct clickhouse_part *bring(struct bringing *b, enum schema_entity_id entity, uint64_t id)
{
	const struct schema_entity *schema = &schema_entities[entity];
	bool fresh;
	struct clickhouse_part *part = clickhouse_part_get(b->parts, entity, id, b->open_id, &fresh);

	if (!part)
		return NULL;
	if (fresh) {
		int host = schema_column_find(schema, "host_id");

		part->slot[schema_column_find(schema, "workspace")] = b->row->slot[PROCESSES_workspace];
		if (host >= 0)
			part->slot[host] = b->row->slot[PROCESSES_host_id];
	}
	part->at = b->row->slot[PROCESSES_time_ns].u64;
	part->received_s = b->batch->received_ns / 1000000000;
	add_amount(part->slot + schema->aggregate, b->amount);
	if (schema->root >= 0)
		take_root(b->parts, part->slot + schema->root, b->row);
	return part;
}

static int bring_run(struct bringing *b)
{
	const union lake_slot *slot = b->row->slot;
	const struct lake_text *name = slot[PROCESSES_run_name].text;
	const struct lake_text *engine = slot[PROCESSES_engine].text;
	struct clickhouse_part *run = bring(b, ENTITY_RUNS, slot[PROCESSES_run_id].u64);

	if (!run)
		return -ENOMEM;
	run->slot[RUNS_run] = slot[PROCESSES_run];
	take_text(&run->slot[RUNS_host], slot[PROCESSES_host].text);
	take_text(&run->slot[RUNS_run_name], name);
	take_text(&run->slot[RUNS_run_parent], slot[PROCESSES_run_parent].text);
	take_text(&run->slot[RUNS_engine], engine);
	run->slot[RUNS_pipeline_id].u64 = lake_id_pipeline(b->batch->workspace, engine ? engine->bytes : NULL,
							   name ? name->bytes : slot[PROCESSES_run].text->bytes);
	return slot[PROCESSES_task_id].u64 == LAKE_NULL ? 0 : list_add(run, slot[PROCESSES_task_id].u64);
}

static int bring_task(struct bringing *b)
{
	const union lake_slot *slot = b->row->slot;
	struct clickhouse_part *task = bring(b, ENTITY_TASKS, slot[PROCESSES_task_id].u64);

	if (!task)
		return -ENOMEM;
	task->slot[TASKS_run_id] = slot[PROCESSES_run_id];
	task->slot[TASKS_task] = slot[PROCESSES_task];
	take_text(&task->slot[TASKS_task_name], slot[PROCESSES_task_name].text);
	take_text(&task->slot[TASKS_sample], slot[PROCESSES_sample].text);
	if (task->slot[TASKS_root_start_ns].u64 == slot[PROCESSES_start_ns].u64)
		task->slot[TASKS_cwd] = slot[PROCESSES_cwd];
	return 0;
}

static int bring_tool(struct bringing *b, const struct lake_text *name)
{
	const union lake_slot *slot = b->row->slot;
	uint64_t run = slot[PROCESSES_run_id].u64;
	uint64_t id = lake_batch_id_tool(b->batch, run == LAKE_NULL ? 0 : run, name);
	struct clickhouse_part *tool = bring(b, ENTITY_TOOLS, id);

	if (!tool)
		return -ENOMEM;
	tool->slot[TOOLS_run_id].u64 = run;
	tool->slot[TOOLS_tool].text = name;
	return 0;
}

static int bring_tools(struct bringing *b)
{
	const struct lake_row *row = b->row;
	struct amount left = *b->amount, share = {
		.share = true, .start_ns = left.start_ns, .end_ns = LAKE_NULL, .threads_max = LAKE_NULL};
	struct bringing program = *b;
	int err = 0;

	for (uint32_t i = 0; !err && i + 1 < row->image_count; i++) {
		const struct lake_text *tool = shares_tool(row, i);

		if (!tool)
			continue;
		shares_take(&row->images[i], left.sums, share.sums);
		share.peak_rss_bytes = row->images[i].value[IMAGE_PEAK_RSS];
		program.amount = &share;
		err = bring_tool(&program, tool);
	}
	program.amount = &left;
	if (!err && row->slot[PROCESSES_tool].text)
		err = bring_tool(&program, row->slot[PROCESSES_tool].text);
	return err;
}

static int bring_sample(struct bringing *b)
{
	const union lake_slot *slot = b->row->slot;
	uint64_t run = slot[PROCESSES_run_id].u64;
	uint64_t id = lake_batch_id_sample(b->batch, run, slot[PROCESSES_sample].text);
	struct clickhouse_part *sample = bring(b, ENTITY_SAMPLES, id);

	if (!sample)
		return -ENOMEM;
	sample->slot[SAMPLES_run_id].u64 = run;
	sample->slot[SAMPLES_sample] = slot[PROCESSES_sample];
	return 0;
}

static int bring_container(struct bringing *b)
{
	const union lake_slot *slot = b->row->slot;
	struct clickhouse_part *part = bring(b, ENTITY_CONTAINERS, slot[PROCESSES_cgroup_id].u64);

	if (!part)
		return -ENOMEM;
	take_text(&part->slot[CONTAINERS_host], slot[PROCESSES_host].text);
	part->slot[CONTAINERS_cgroup] = slot[PROCESSES_cgroup];
	return 0;
}

int clickhouse_parts_process(struct clickhouse_parts *parts, struct lake_batch *batch, const struct lake_row *row,
			     uint64_t open_id)
{
	struct amount amount;
	struct bringing b = {.parts = parts, .batch = batch, .row = row, .amount = &amount, .open_id = open_id};
	const union lake_slot *slot = row->slot;
	int err;

	amount_of(row, &amount);
	err = bring(&b, ENTITY_HOSTS, batch->host) ? 0 : -ENOMEM;
	if (!err && slot[PROCESSES_run_id].u64 != LAKE_NULL)
		err = bring_run(&b);
	if (!err && slot[PROCESSES_task_id].u64 != LAKE_NULL)
		err = bring_task(&b);
	if (!err && slot[PROCESSES_run_id].u64 != LAKE_NULL && slot[PROCESSES_sample].text)
		err = bring_sample(&b);
	if (!err && slot[PROCESSES_cgroup_id].u64 != LAKE_NULL)
		err = bring_container(&b);
	return err ? err : bring_tools(&b);
}

int clickhouse_parts_row(struct clickhouse_parts *parts, const struct lake_batch *batch, const struct lake_row *row,
			 uint64_t id, uint64_t at)
{
	const struct schema_entity *schema = &schema_entities[row->entity];
	bool fresh;
	struct clickhouse_part *part = clickhouse_part_get(parts, (enum schema_entity_id)row->entity, id, 0, &fresh);

	if (!part)
		return -ENOMEM;
	for (unsigned i = 1; i < schema->column_count; i++) {
		if (!lake_slot_is_null(row->slot[i], (enum schema_type)schema->columns[i].type))
			part->slot[i] = row->slot[i];
	}
	part->at = at;
	part->received_s = batch->received_ns / 1000000000;
	return 0;
}

// ---- writing ------------------------------------------------------------------------------------------------------

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void put_list(struct buf *out, struct clickhouse_part *part)
{
	size_t count = 0;

	if (part->list_count)
		qsort(part->list, part->list_count, sizeof(part->list[0]), by_number);
	for (size_t i = 0; i < part->list_count; i++) {
		if (!count || part->list[i] != part->list[count - 1])
			part->list[count++] = part->list[i];
	}
	part->list_count = count;
	clickhouse_put_varint(out, count);
	for (size_t i = 0; i < count; i++)
		clickhouse_put_u64(out, part->list[i]);
}

void clickhouse_part_put(struct buf *out, struct clickhouse_part *part, uint64_t batch)
{
	const struct schema_entity *entity = &schema_entities[part->entity];

	for (unsigned i = 0; i < entity->column_count; i++) {
		const char *type = clickhouse_type((enum schema_entity_id)part->entity, i);

		if (!strncmp(type, "Array", 5))
			put_list(out, part);
		else
			clickhouse_put_slot(out, part->slot[i], (enum schema_type)entity->columns[i].type,
					    strstr(type, "Nullable") != NULL);
	}
	clickhouse_put_u32(out, (uint32_t)part->received_s);
	clickhouse_put_u64(out, batch);
	clickhouse_put_u64(out, part->at);
	clickhouse_put_u64(out, part->open_id);
}
