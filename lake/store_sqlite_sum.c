// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: what processes bring to the host, run, task, sample, container and tools that they belong to. Ended
// processes of one context (one task, mostly) are gathered and added to all of these once, in the order in which their
// last one came, so that what the latest says stands; a process that is added or taken away alone comes after them.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/report_tree.h"
#include "lake/amounts.h"
#include "lake/shares.h"
#include "lake/store_sqlite_aggregate.h"

// --- what a process brings ---------------------------------------------------------------------------

static const struct {
	uint8_t unknown; // AGGREGATE_unknown_X
	uint8_t first, last; // of SCHEMA_SUMS
} figures[] = {
	{AGGREGATE_unknown_cpu, SUM_cpu_ns, SUM_cpu_system_ns},
	{AGGREGATE_unknown_delay, SUM_run_delay_ns, SUM_run_delay_ns},
	{AGGREGATE_unknown_switches, SUM_voluntary_switches, SUM_involuntary_switches},
	{AGGREGATE_unknown_blocked, SUM_blocked_disk_ns, SUM_blocked_other_ns},
	{AGGREGATE_unknown_faults, SUM_minor_faults, SUM_major_faults},
	{AGGREGATE_unknown_stall, SUM_reclaim_stall_ns, SUM_compaction_stall_ns},
	{AGGREGATE_unknown_io, SUM_rchar_bytes, SUM_cancelled_write_bytes},
};
enum { FIGURE_GROUPS = sizeof(figures) / sizeof(figures[0]), GATHERED_MAX = 256, GATHERED_SLOTS = 1024 };

// What is added to an aggregate: a process, or a program's share of one.
struct amount {
	uint64_t sums[SUM_END]; // LAKE_NULL: unknown
	uint64_t start_ns, end_ns; // end LAKE_NULL: lives on
	uint64_t threads_max, peak_rss_bytes; // LAKE_NULL: unknown
	uint64_t processes, living, failures, images, wall_ns;
	uint64_t unknown[FIGURE_GROUPS], unknown_memory; // of a program's share 0
};

static void move(uint64_t *sum, uint64_t by, int sign)
{
	if (sign > 0)
		*sum = by > LAKE_U64_MAX - *sum ? LAKE_U64_MAX : *sum + by;
	else
		*sum = by > *sum ? 0 : *sum - by;
}

static void raise_to(uint64_t *greatest, uint64_t value)
{
	if (value != LAKE_NULL && (*greatest == LAKE_NULL || value > *greatest))
		*greatest = value;
}

static int amount_add(struct sqlite_store *store, struct aggregate *aggregate, const struct amount *amount, int sign)
{
	union lake_slot *slot = aggregate->slot + aggregate_schema(aggregate)->aggregate;
	union lake_slot *sums = slot + AGGREGATE_cpu_ns;

	if (sign > 0)
		amounts_add_sums(&sums->u64, amount->sums);
	for (unsigned i = 0; sign < 0 && i < SUM_END; i++) {
		if (amount->sums[i] == LAKE_NULL)
			continue;
		if (sums[i].u64 == LAKE_NULL)
			sums[i].u64 = 0;
		move(&sums[i].u64, amount->sums[i], sign);
	}
	move(&slot[AGGREGATE_processes].u64, amount->processes, sign);
	move(&slot[AGGREGATE_living].u64, amount->living, sign);
	move(&slot[AGGREGATE_failures].u64, amount->failures, sign);
	move(&slot[AGGREGATE_images].u64, amount->images, sign);
	move(&slot[AGGREGATE_wall_ns].u64, amount->wall_ns, sign);
	for (unsigned g = 0; g < FIGURE_GROUPS; g++)
		move(&slot[figures[g].unknown].u64, amount->unknown[g], sign);
	move(&slot[AGGREGATE_unknown_memory].u64, amount->unknown_memory, sign);
	if (slot[AGGREGATE_start_ns].u64 == LAKE_NULL || amount->start_ns < slot[AGGREGATE_start_ns].u64)
		slot[AGGREGATE_start_ns].u64 = amount->start_ns;
	raise_to(&slot[AGGREGATE_end_ns].u64, amount->end_ns);
	raise_to(&slot[AGGREGATE_threads_max].u64, amount->threads_max);
	raise_to(&slot[AGGREGATE_peak_rss_bytes].u64, amount->peak_rss_bytes);
	return aggregate_touch(store, aggregate);
}

static void amount_of_process(const struct lake_row *row, struct amount *amount)
{
	const union lake_slot *slot = row->slot;
	uint64_t start_ns = slot[PROCESSES_start_ns].u64, end_ns = slot[PROCESSES_end_ns].u64, top = 0;

	memcpy(amount->sums, &slot[PROCESSES_cpu_ns], sizeof(amount->sums));
	for (unsigned i = 0; i < SUM_END; i++)
		top |= amount->sums[i];
	memset(amount->unknown, 0, sizeof(amount->unknown));
	for (unsigned g = 0; top > LAKE_U64_MAX && g < FIGURE_GROUPS; g++) { // one is unknown
		for (unsigned i = figures[g].first; i <= figures[g].last; i++)
			amount->unknown[g] |= amount->sums[i] == LAKE_NULL;
	}
	amount->start_ns = start_ns;
	amount->end_ns = row->open ? LAKE_NULL : end_ns;
	amount->wall_ns = !row->open && end_ns > start_ns ? end_ns - start_ns : 0;
	amount->threads_max = slot[PROCESSES_threads_max].u64;
	amount->peak_rss_bytes = slot[PROCESSES_peak_rss_bytes].u64;
	amount->unknown_memory = amount->peak_rss_bytes == LAKE_NULL;
	amount->processes = 1;
	amount->living = row->open;
	amount->failures = amounts_failed(row);
	amount->images = 0;
}

// Of two that ended.
static void amount_gather(struct amount *all, const struct amount *one)
{
	amounts_add_sums(all->sums, one->sums);
	for (unsigned g = 0; g < FIGURE_GROUPS; g++)
		all->unknown[g] += one->unknown[g];
	all->unknown_memory += one->unknown_memory;
	all->processes += one->processes;
	all->failures += one->failures;
	move(&all->wall_ns, one->wall_ns, 1);
	if (one->start_ns < all->start_ns)
		all->start_ns = one->start_ns;
	raise_to(&all->end_ns, one->end_ns);
	raise_to(&all->threads_max, one->threads_max);
	raise_to(&all->peak_rss_bytes, one->peak_rss_bytes);
}

enum { COMMAND, ROOT_START, EXIT_CODE, SIGNAL, OOM, OOM_LIMIT }; // from the schema's root on

// The process that opened a run or task says how it ended, and what was called.
static int root_take(struct aggregate *aggregate, const struct lake_row *row)
{
	union lake_slot *slot = aggregate->slot + aggregate_schema(aggregate)->root;
	const union lake_slot *process = row->slot;
	char joined[4096], command[REPORT_TEXT_MAX];
	yyjson_doc *args;
	yyjson_val *argument;
	yyjson_arr_iter each;
	size_t used = 0;
	int status;

	if (slot[ROOT_START].u64 != LAKE_NULL && slot[ROOT_START].u64 < process[PROCESSES_start_ns].u64)
		return 0;
	slot[ROOT_START].u64 = process[PROCESSES_start_ns].u64;
	slot[EXIT_CODE].u64 = process[PROCESSES_exit_code].u64;
	slot[SIGNAL].u64 = process[PROCESSES_signal].u64;
	slot[OOM].u64 = process[PROCESSES_oom].u64;
	status = aggregate_take_text(aggregate, (unsigned)(slot - aggregate->slot) + OOM_LIMIT,
				     process[PROCESSES_oom_limit].text);
	if (status < 0 || !process[PROCESSES_args].text)
		return status;
	args = yyjson_read(process[PROCESSES_args].text->bytes, process[PROCESSES_args].text->length, 0);
	each = yyjson_arr_iter_with(yyjson_doc_get_root(args));
	while ((argument = yyjson_arr_iter_next(&each)) && used + yyjson_get_len(argument) < sizeof(joined)) {
		memcpy(joined + used, yyjson_get_str(argument), yyjson_get_len(argument));
		used += yyjson_get_len(argument);
		joined[used++] = '\0';
	}
	report_command(command, joined, used);
	yyjson_doc_free(args);
	return aggregate_set_text(aggregate, (unsigned)(slot - aggregate->slot) + COMMAND, command, strlen(command));
}

// It is stored again: what it then says stands, though its start, reckoned from a clock that is slewed, be a bit later.
static void root_drop(struct aggregate *aggregate, const struct lake_row *row)
{
	union lake_slot *start = aggregate->slot + aggregate_schema(aggregate)->root + ROOT_START;

	if (start->u64 == row->slot[PROCESSES_start_ns].u64)
		start->u64 = LAKE_NULL;
}

// --- what it belongs to ---------------------------------------------------------------------------

static int add_tool(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		    const struct lake_text *tool, const struct amount *amount, int sign, struct store_error *error)
{
	uint64_t run = row->slot[PROCESSES_run_id].u64;
	struct aggregate *aggregate;
	bool fresh;
	uint64_t id = lake_batch_id_tool(batch, run == LAKE_NULL ? 0 : run, tool);
	int status = aggregate_get(store, batch, ENTITY_TOOLS, id, 0, &aggregate, &fresh, error);

	if (status < 0)
		return status;
	aggregate->slot[TOOLS_run_id].u64 = run;
	status = aggregate_take_text(aggregate, TOOLS_tool, tool);
	return status < 0 ? status : amount_add(store, aggregate, amount, sign);
}

static int add_tools(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		     const struct amount *whole, int sign, struct store_error *error)
{
	const struct amount *rest = whole;
	struct amount last, share;
	int status = 0;

	for (uint32_t i = 0; status == 0 && i + 1 < row->image_count; i++) {
		const struct lake_text *tool = shares_tool(row, i);

		if (!tool)
			continue;
		if (rest == whole) {
			last = *whole;
			rest = &last;
			memset(&share, 0, sizeof(share));
			share.images = 1;
			share.start_ns = row->slot[PROCESSES_start_ns].u64;
			share.end_ns = share.threads_max = LAKE_NULL;
		}
		shares_take(&row->images[i], last.sums, share.sums);
		share.peak_rss_bytes = row->images[i].value[IMAGE_PEAK_RSS];
		status = add_tool(store, batch, row, tool, &share, sign, error);
	}
	if (status == 0 && row->slot[PROCESSES_tool].text)
		status = add_tool(store, batch, row, row->slot[PROCESSES_tool].text, rest, sign, error);
	return status;
}

static int add_run(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		   const struct amount *amount, int sign, struct aggregate **ret_run, struct store_error *error)
{
	const union lake_slot *slot = row->slot;
	const struct lake_text *name = slot[PROCESSES_run_name].text, *engine = slot[PROCESSES_engine].text;
	struct aggregate *run;
	bool fresh;
	int status = aggregate_get(store, batch, ENTITY_RUNS, slot[PROCESSES_run_id].u64, 0, &run, &fresh, error);

	if (status < 0)
		return status;
	if (sign > 0) {
		const struct lake_text *old = run->slot[RUNS_run_name].text;

		if (!old || (name && strcmp(old->bytes, name->bytes) != 0) || !run->slot[RUNS_engine].text)
			run->slot[RUNS_pipeline_id].u64 =
				lake_id_pipeline(batch->workspace, engine ? engine->bytes : NULL,
						 name ? name->bytes : slot[PROCESSES_run].text->bytes);
		status = aggregate_take_text(run, RUNS_run, slot[PROCESSES_run].text);
		status = status < 0 ? status : aggregate_take_text(run, RUNS_run_name, name);
		status = status < 0 ? status
				    : aggregate_take_text(run, RUNS_run_parent, slot[PROCESSES_run_parent].text);
		status = status < 0 ? status : aggregate_take_text(run, RUNS_engine, engine);
		status = status < 0 ? status : aggregate_take_text(run, RUNS_host, slot[PROCESSES_host].text);
		status = status < 0 ? status : root_take(run, row);
	} else {
		root_drop(run, row);
	}
	*ret_run = run;
	return status < 0 ? status : amount_add(store, run, amount, sign);
}

static int add_task(struct sqlite_store *store, struct lake_batch *batch, struct aggregate *run,
		    const struct lake_row *row, const struct amount *amount, int sign, struct store_error *error)
{
	const union lake_slot *slot = row->slot;
	struct aggregate *task;
	bool fresh, first;
	int status =
		aggregate_get(store, batch, ENTITY_TASKS, slot[PROCESSES_task_id].u64, run->id, &task, &fresh, error);

	if (status < 0)
		return status;
	if (fresh)
		run->slot[RUNS_tasks].u64++;
	if (sign > 0) {
		first = task->slot[TASKS_root_start_ns].u64 == LAKE_NULL ||
			slot[PROCESSES_start_ns].u64 <= task->slot[TASKS_root_start_ns].u64;
		task->slot[TASKS_run_id].u64 = run->id;
		status = aggregate_take_text(task, TASKS_task, slot[PROCESSES_task].text);
		status = status < 0 ? status
				    : aggregate_take_text(task, TASKS_task_name, slot[PROCESSES_task_name].text);
		status = status < 0 ? status : aggregate_take_text(task, TASKS_sample, slot[PROCESSES_sample].text);
		if (first && status == 0)
			status = aggregate_take_text(task, TASKS_cwd, slot[PROCESSES_cwd].text);
		status = status < 0 ? status : root_take(task, row);
	} else {
		root_drop(task, row);
	}
	return status < 0 ? status : amount_add(store, task, amount, sign);
}

// All but tools. row is the earliest of those that the amount is of; they have its context.
static int add_owners(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		      const struct amount *amount, int sign, struct store_error *error)
{
	const union lake_slot *slot = row->slot;
	struct aggregate *aggregate, *run;
	bool fresh;
	int status = aggregate_get(store, batch, ENTITY_HOSTS, batch->host, 0, &aggregate, &fresh, error);

	if (status == 0)
		status = amount_add(store, aggregate, amount, sign);
	if (status == 0 && slot[PROCESSES_run_id].u64 != LAKE_NULL) {
		status = add_run(store, batch, row, amount, sign, &run, error);
		if (status == 0 && slot[PROCESSES_task_id].u64 != LAKE_NULL)
			status = add_task(store, batch, run, row, amount, sign, error);
		if (status == 0 && slot[PROCESSES_sample].text) {
			status = aggregate_get(store, batch, ENTITY_SAMPLES,
					       lake_batch_id_sample(batch, run->id, slot[PROCESSES_sample].text), 0,
					       &aggregate, &fresh, error);
			if (status == 0) {
				aggregate->slot[SAMPLES_run_id].u64 = run->id;
				status = aggregate_take_text(aggregate, SAMPLES_sample, slot[PROCESSES_sample].text);
			}
			if (status == 0)
				status = amount_add(store, aggregate, amount, sign);
		}
	}
	if (status == 0 && slot[PROCESSES_cgroup_id].u64 != LAKE_NULL) {
		status = aggregate_get(store, batch, ENTITY_CONTAINERS, slot[PROCESSES_cgroup_id].u64, 0, &aggregate,
				       &fresh, error);
		if (status == 0)
			status = aggregate_take_text(aggregate, CONTAINERS_cgroup, slot[PROCESSES_cgroup].text);
		if (status == 0)
			status = aggregate_take_text(aggregate, CONTAINERS_host, slot[PROCESSES_host].text);
		if (status == 0)
			status = amount_add(store, aggregate, amount, sign);
	}
	return status == -ENOMEM ? store_fail(error, status, "out of memory") : status;
}

int aggregate_process(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row, int sign,
		      struct store_error *error)
{
	struct amount amount;
	int status = gathered_flush(store, error);

	amount_of_process(row, &amount);
	if (status == 0)
		status = add_owners(store, batch, row, &amount, sign, error);
	if (status == 0)
		status = add_tools(store, batch, row, &amount, sign, error);
	return status == -ENOMEM ? store_fail(error, status, "out of memory") : status;
}

// --- many at once ---------------------------------------------------------------------------

// Ended processes of one batch that have one context.
struct gathered_context {
	uint64_t key[PROCESSES_END]; // its columns; of texts where they are
	uint64_t no; // in the partition
	const struct lake_row *earliest, *latest;
	struct amount amount;
};

struct gathered {
	struct lake_batch *batch; // they are all of; NULL: there are none
	uint16_t slots[GATHERED_SLOTS]; // index + 1; 0 is free
	size_t count, last;
	struct gathered_context context[GATHERED_MAX];
};

static int later(const void *a, const void *b)
{
	const struct gathered_context *const *left = a, *const *right = b;

	return (*left)->latest->sequence < (*right)->latest->sequence ? -1 : 1;
}

void gathered_forget(struct sqlite_store *store)
{
	struct gathered *gathered = store->gathered;

	if (!gathered || !gathered->batch)
		return;
	memset(gathered->slots, 0, sizeof(gathered->slots));
	gathered->batch = NULL;
	gathered->count = gathered->last = 0;
}

int gathered_flush(struct sqlite_store *store, struct store_error *error)
{
	struct gathered_context *order[GATHERED_MAX];
	struct gathered *gathered = store->gathered;
	int status = 0;

	if (!gathered || !gathered->batch)
		return 0;
	for (size_t i = 0; i < gathered->count; i++)
		order[i] = &gathered->context[i];
	qsort(order, gathered->count, sizeof(order[0]), later);
	for (size_t i = 0; status == 0 && i < gathered->count; i++)
		status = add_owners(store, gathered->batch, order[i]->earliest, &order[i]->amount, 1, error);
	gathered_forget(store);
	return status;
}

static bool has_context(const struct gathered_context *context, const uint8_t *columns, unsigned count,
			const union lake_slot *slot)
{
	for (unsigned i = 0; i < count; i++) {
		if (context->key[i] != slot[columns[i]].u64)
			return false;
	}
	return true;
}

// The row's context, with the number that it has in the partition; amount becomes its first if it is new.
static int context_get(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		       struct gathered_context **ret_context, bool *ret_fresh, struct store_error *error)
{
	struct gathered *gathered = store->gathered;
	struct gathered_context *context;
	const uint8_t *columns;
	unsigned count;
	uint64_t hash = 0, no;
	size_t at;
	int status = 0;

	columns = process_context_columns(&count);
	*ret_fresh = false;
	if (gathered->count && has_context(&gathered->context[gathered->last], columns, count, row->slot)) {
		*ret_context = &gathered->context[gathered->last];
		return 0;
	}
	for (unsigned i = 0; i < count; i++)
		hash = (hash ^ row->slot[columns[i]].u64) * UINT64_C(0x9e3779b97f4a7c15);
	for (at = hash >> 54; gathered->slots[at]; at = (at + 1) % GATHERED_SLOTS) {
		context = &gathered->context[gathered->slots[at] - 1];
		if (has_context(context, columns, count, row->slot)) {
			gathered->last = (size_t)(context - gathered->context);
			*ret_context = context;
			return 0;
		}
	}
	status = dictionary_context(store, row->slot, batch->host, &no, error);
	if (status < 0)
		return status;
	context = &gathered->context[gathered->count++];
	gathered->last = gathered->count - 1;
	gathered->slots[at] = (uint16_t)gathered->count;
	for (unsigned i = 0; i < count; i++)
		context->key[i] = row->slot[columns[i]].u64;
	context->no = no;
	*ret_context = context;
	*ret_fresh = true;
	return 0;
}

int gathered_add(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		 uint64_t *ret_context, struct store_error *error)
{
	struct gathered_context *context;
	struct amount amount;
	bool fresh;
	int status = 0;

	if (!store->gathered)
		store->gathered = calloc(1, sizeof(*store->gathered));
	if (!store->gathered)
		return store_fail(error, -ENOMEM, "out of memory");
	if (store->gathered->batch != batch || store->gathered->count == GATHERED_MAX)
		status = gathered_flush(store, error);
	if (status < 0)
		return status;
	store->gathered->batch = batch;
	status = context_get(store, batch, row, &context, &fresh, error);
	if (status < 0)
		return status;
	amount_of_process(row, &amount);
	if (fresh)
		context->amount = amount;
	else
		amount_gather(&context->amount, &amount);
	if (fresh || row->slot[PROCESSES_start_ns].u64 <= context->earliest->slot[PROCESSES_start_ns].u64)
		context->earliest = row;
	context->latest = row;
	*ret_context = context->no;
	status = add_tools(store, batch, row, &amount, 1, error);
	return status == -ENOMEM ? store_fail(error, status, "out of memory") : status;
}
