// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: rows of hosts, runs, tasks, tools, samples and containers, moved in memory by each process and written
// once for each transaction. Only the writer changes them, so what is kept here is what is on disk; after a rollback
// everything is forgotten. Pipelines are a view over runs.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "core/report_tree.h"
#include "lake/store_sqlite.h"

enum { KEPT_MAX = 200000, SLOTS_FIRST = 4096 };

_Static_assert((int)RUNS_workspace == (int)HOSTS_workspace && (int)RUNS_host_id == (int)HOSTS_host_id &&
		       (int)TOOLS_workspace == (int)RUNS_workspace && (int)SAMPLES_workspace == (int)RUNS_workspace &&
		       (int)CONTAINERS_workspace == (int)RUNS_workspace,
	       "aggregate_owner() finds them at one place");

struct aggregate {
	uint64_t id;
	uint64_t run; // of a task
	uint8_t entity;
	bool dirty;
	bool stored; // its row is there
	uint64_t stored_start_ns; // and has this; of a run
	union lake_slot slot[];
};

// --- the table in memory ---------------------------------------------------------------------------

static const struct schema_entity *schema_of(const struct aggregate *aggregate)
{
	return &schema_entities[aggregate->entity];
}

static bool is_text(const struct schema_column *column)
{
	return column->type == SCHEMA_TEXT || column->type == SCHEMA_JSON;
}

static void aggregate_free(struct aggregate *aggregate)
{
	for (unsigned i = 0; i < schema_of(aggregate)->column_count; i++) {
		if (is_text(&schema_of(aggregate)->columns[i]))
			free((void *)(uintptr_t)aggregate->slot[i].text);
	}
	free(aggregate);
}

void aggregates_forget(struct aggregates *aggregates)
{
	for (size_t i = 0; i < aggregates->slot_count; i++) {
		if (aggregates->slots[i])
			aggregate_free(aggregates->slots[i]);
		aggregates->slots[i] = NULL;
	}
	aggregates->used = aggregates->dirty_count = 0;
}

void aggregates_free(struct aggregates *aggregates)
{
	aggregates_forget(aggregates);
	free(aggregates->slots);
	free(aggregates->dirty);
	for (int id = 0; id < ENTITY_END; id++) {
		sqlite3_finalize(aggregates->load[id]);
		sqlite3_finalize(aggregates->save[id]);
		sqlite3_finalize(aggregates->change[id]);
	}
	memset(aggregates, 0, sizeof(*aggregates));
}

static size_t slot_of(const struct aggregates *aggregates, enum schema_entity_id entity, uint64_t id)
{
	size_t at = (id ^ (uint64_t)entity << 57) & (aggregates->slot_count - 1);

	while (aggregates->slots[at] && (aggregates->slots[at]->id != id || aggregates->slots[at]->entity != entity))
		at = (at + 1) & (aggregates->slot_count - 1);
	return at;
}

static int table_grow(struct aggregates *aggregates)
{
	struct aggregates larger = *aggregates;

	if ((aggregates->used + 1) * 2 <= aggregates->slot_count)
		return 0;
	larger.slot_count = aggregates->slot_count ? aggregates->slot_count * 2 : SLOTS_FIRST;
	larger.slots = calloc(larger.slot_count, sizeof(struct aggregate *));
	if (!larger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < aggregates->slot_count; i++) {
		struct aggregate *moved = aggregates->slots[i];

		if (moved)
			larger.slots[slot_of(&larger, (enum schema_entity_id)moved->entity, moved->id)] = moved;
	}
	free(aggregates->slots);
	*aggregates = larger;
	return 0;
}

static int set_text(struct aggregate *aggregate, unsigned column, const char *bytes, size_t length)
{
	const struct lake_text *old = aggregate->slot[column].text;
	struct lake_text *text;

	if (old && old->length == length && !memcmp(old->bytes, bytes, length))
		return 0;
	text = malloc(sizeof(*text) + length + 1);
	if (!text)
		return -ENOMEM;
	*text = (struct lake_text){.length = (uint32_t)length};
	memcpy(text->bytes, bytes, length);
	text->bytes[length] = '\0';
	free((void *)(uintptr_t)old);
	aggregate->slot[column].text = text;
	return 0;
}

// Null leaves what is known.
static int take_text(struct aggregate *aggregate, unsigned column, const struct lake_text *text)
{
	return text ? set_text(aggregate, column, text->bytes, text->length) : 0;
}

// What never changes, and what an index is over but seldom does, is left out: then the row changes in its place and no
// index with it. The numbers of the parameters are those of save.
static bool is_changed_in_place(enum schema_entity_id id, unsigned column)
{
	if (column == 0)
		return false;
	if (id == ENTITY_TASKS)
		return column != TASKS_run_id && column != TASKS_workspace && column != TASKS_host_id;
	return column != RUNS_workspace && column != RUNS_host_id && (id != ENTITY_RUNS || column != RUNS_start_ns);
}

static int change_statement(struct sqlite_store *store, enum schema_entity_id id, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[id];
	CLEANUP(buf_free) struct buf sql = BUF_INIT;

	buf_printf(&sql, "UPDATE %s SET revision=?%u", entity->name, entity->column_count + 1);
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (is_changed_in_place(id, i))
			buf_printf(&sql, ",%s=?%u", entity->columns[i].name, i + 1);
	}
	buf_printf(&sql, " WHERE id=?1");
	if (id == ENTITY_TASKS)
		buf_printf(&sql, " AND run_id=?%u", TASKS_run_id + 1);
	return buf_error(&sql) < 0 ? -ENOMEM
				   : sqlite_prepare(store->db, sql.data, true, &store->aggregates.change[id], error);
}

static int load_statement(struct sqlite_store *store, enum schema_entity_id id, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[id];
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	int status;

	if (store->aggregates.load[id])
		return 0;
	buf_printf(&sql, "SELECT * FROM %s WHERE id=?1%s", entity->name, id == ENTITY_TASKS ? " AND run_id=?2" : "");
	status = buf_error(&sql) < 0 ? -ENOMEM
				     : sqlite_prepare(store->db, sql.data, true, &store->aggregates.load[id], error);
	buf_reset(&sql);
	buf_printf(&sql, "INSERT OR REPLACE INTO %s VALUES(?", entity->name);
	for (unsigned i = 0; i < entity->column_count; i++)
		buf_append_string(&sql, ",?");
	buf_append_char(&sql, ')');
	if (status == 0)
		status = buf_error(&sql) < 0
				 ? -ENOMEM
				 : sqlite_prepare(store->db, sql.data, true, &store->aggregates.save[id], error);
	return status < 0 ? status : change_statement(store, id, error);
}

static int aggregate_load(struct sqlite_store *store, struct aggregate *aggregate, bool *ret_found,
			  struct store_error *error)
{
	const struct schema_entity *entity = schema_of(aggregate);
	sqlite3_stmt *load;
	int status = load_statement(store, (enum schema_entity_id)aggregate->entity, error);

	if (status < 0)
		return status;
	load = store->aggregates.load[aggregate->entity];
	sqlite3_bind_int64(load, 1, (sqlite3_int64)aggregate->id);
	if (aggregate->entity == ENTITY_TASKS)
		sqlite3_bind_int64(load, 2, (sqlite3_int64)aggregate->run);
	status = sqlite3_step(load);
	*ret_found = aggregate->stored = status == SQLITE_ROW;
	if (status != SQLITE_ROW && status != SQLITE_DONE) {
		status = sqlite_fail(store->db, error, entity->name);
		sqlite3_reset(load);
		return status;
	}
	status = 0;
	for (unsigned i = 0; *ret_found && status == 0 && i < entity->column_count; i++) {
		if (!is_text(&entity->columns[i]))
			aggregate->slot[i].u64 = sqlite_column_u64(load, (int)i);
		else if (sqlite3_column_type(load, (int)i) != SQLITE_NULL)
			status = set_text(aggregate, i, (const char *)sqlite3_column_text(load, (int)i),
					  (size_t)sqlite3_column_bytes(load, (int)i));
	}
	sqlite3_reset(load);
	if (aggregate->entity == ENTITY_RUNS)
		aggregate->stored_start_ns = aggregate->slot[RUNS_start_ns].u64;
	return status < 0 ? store_fail(error, status, "out of memory") : 0;
}

// A new one: counts are 0, sums unknown.
static void aggregate_begin(struct aggregate *aggregate)
{
	const struct schema_entity *entity = schema_of(aggregate);

	lake_row_clear(aggregate->slot, entity);
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (!is_text(&entity->columns[i]) && !(entity->columns[i].flags & SCHEMA_N))
			aggregate->slot[i].u64 = 0;
	}
}

static int aggregate_owner(struct aggregate *aggregate, const struct lake_batch *batch, struct store_error *error)
{
	unsigned at = aggregate->entity == ENTITY_TASKS ? TASKS_workspace : RUNS_workspace;
	int status = set_text(aggregate, at, batch->workspace, strlen(batch->workspace));

	if (status == 0)
		status = set_text(aggregate, at + 1, batch->host_id, strlen(batch->host_id));
	return status < 0 ? store_fail(error, status, "out of memory") : 0;
}

static int aggregate_get(struct sqlite_store *store, const struct lake_batch *batch, enum schema_entity_id entity,
			 uint64_t id, uint64_t run, struct aggregate **ret_aggregate, bool *ret_fresh,
			 struct store_error *error)
{
	struct aggregates *aggregates = &store->aggregates;
	struct aggregate *aggregate;
	size_t at;
	bool found;
	int status = table_grow(aggregates);

	if (status < 0)
		return store_fail(error, status, "out of memory");
	at = slot_of(aggregates, entity, id);
	*ret_fresh = false;
	if (aggregates->slots[at]) {
		*ret_aggregate = aggregates->slots[at];
		return 0;
	}
	aggregate = calloc(1, sizeof(*aggregate) + schema_entities[entity].column_count * sizeof(aggregate->slot[0]));
	if (!aggregate)
		return store_fail(error, -ENOMEM, "out of memory");
	aggregate->entity = (uint8_t)entity;
	aggregate->id = id;
	aggregate->run = run;
	aggregate_begin(aggregate);
	status = aggregate_load(store, aggregate, &found, error);
	if (status == 0 && !found)
		status = aggregate_owner(aggregate, batch, error);
	if (status < 0) {
		aggregate_free(aggregate);
		return status;
	}
	aggregates->slots[at] = aggregate;
	aggregates->used++;
	*ret_fresh = !found;
	*ret_aggregate = aggregate;
	return 0;
}

static int aggregate_touch(struct sqlite_store *store, struct aggregate *aggregate)
{
	struct aggregates *aggregates = &store->aggregates;

	if (aggregate->dirty)
		return 0;
	if (aggregates->dirty_count == aggregates->dirty_room) {
		size_t room = aggregates->dirty_room ? aggregates->dirty_room * 2 : 1024;
		struct aggregate **larger = realloc(aggregates->dirty, room * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		aggregates->dirty = larger;
		aggregates->dirty_room = room;
	}
	aggregates->dirty[aggregates->dirty_count++] = aggregate;
	aggregate->dirty = true;
	return 0;
}

// --- what a process brings ---------------------------------------------------------------------------

static const struct {
	uint8_t unknown; // AGGREGATE_unknown_X
	uint8_t first, last; // of SCHEMA_SUMS
} groups[] = {
	{AGGREGATE_unknown_cpu, SUM_cpu_ns, SUM_cpu_system_ns},
	{AGGREGATE_unknown_delay, SUM_run_delay_ns, SUM_run_delay_ns},
	{AGGREGATE_unknown_switches, SUM_voluntary_switches, SUM_involuntary_switches},
	{AGGREGATE_unknown_blocked, SUM_blocked_disk_ns, SUM_blocked_other_ns},
	{AGGREGATE_unknown_faults, SUM_minor_faults, SUM_major_faults},
	{AGGREGATE_unknown_stall, SUM_reclaim_stall_ns, SUM_compaction_stall_ns},
	{AGGREGATE_unknown_io, SUM_rchar_bytes, SUM_cancelled_write_bytes},
};

// What is added to an aggregate: a process, or a program's share of one.
struct amount {
	uint64_t sums[SUM_END]; // LAKE_NULL: unknown
	uint64_t start_ns, end_ns; // end LAKE_NULL: lives on
	uint64_t threads_max, peak_rss_bytes; // LAKE_NULL: unknown
	uint64_t processes, living, failures, images;
	uint8_t unknown[sizeof(groups) / sizeof(groups[0])];
	bool share; // of a program: what is not known of it is not counted as unknown
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
	union lake_slot *slot = aggregate->slot + schema_of(aggregate)->aggregate;
	union lake_slot *sums = slot + AGGREGATE_cpu_ns;

	for (unsigned i = 0; i < SUM_END; i++) {
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
	for (unsigned g = 0; !amount->share && g < sizeof(groups) / sizeof(groups[0]); g++)
		move(&slot[groups[g].unknown].u64, amount->unknown[g], sign);
	if (!amount->share)
		move(&slot[AGGREGATE_unknown_memory].u64, amount->peak_rss_bytes == LAKE_NULL, sign);
	if (slot[AGGREGATE_start_ns].u64 == LAKE_NULL || amount->start_ns < slot[AGGREGATE_start_ns].u64)
		slot[AGGREGATE_start_ns].u64 = amount->start_ns;
	if (amount->end_ns != LAKE_NULL) {
		raise_to(&slot[AGGREGATE_end_ns].u64, amount->end_ns);
		move(&slot[AGGREGATE_wall_ns].u64,
		     amount->end_ns > amount->start_ns ? amount->end_ns - amount->start_ns : 0, sign);
	}
	raise_to(&slot[AGGREGATE_threads_max].u64, amount->threads_max);
	raise_to(&slot[AGGREGATE_peak_rss_bytes].u64, amount->peak_rss_bytes);
	return aggregate_touch(store, aggregate);
}

static bool is_positive(uint64_t value)
{
	return value != LAKE_NULL && value > 0;
}

bool aggregate_failed(const struct lake_row *row)
{
	const union lake_slot *slot = row->slot;

	return !row->open && (is_positive(slot[PROCESSES_exit_code].u64) || is_positive(slot[PROCESSES_signal].u64) ||
			      slot[PROCESSES_oom].u64 == 1);
}

static void amount_of_process(const struct lake_row *row, struct amount *amount)
{
	const union lake_slot *slot = row->slot;

	memset(amount, 0, sizeof(*amount));
	for (unsigned i = 0; i < SUM_END; i++)
		amount->sums[i] = slot[PROCESSES_cpu_ns + i].u64;
	for (unsigned g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		for (unsigned i = groups[g].first; i <= groups[g].last; i++)
			amount->unknown[g] |= amount->sums[i] == LAKE_NULL;
	}
	amount->start_ns = slot[PROCESSES_start_ns].u64;
	amount->end_ns = row->open ? LAKE_NULL : slot[PROCESSES_end_ns].u64;
	amount->threads_max = slot[PROCESSES_threads_max].u64;
	amount->peak_rss_bytes = slot[PROCESSES_peak_rss_bytes].u64;
	amount->processes = 1;
	amount->living = row->open;
	amount->failures = aggregate_failed(row);
}

// The process that opened a run or task says how it ended, and what was called.
static int root_take(struct aggregate *aggregate, const struct lake_row *row)
{
	union lake_slot *slot = aggregate->slot + schema_of(aggregate)->root;
	const union lake_slot *process = row->slot;
	enum { COMMAND, ROOT_START, EXIT_CODE, SIGNAL, OOM, OOM_LIMIT };
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
	status =
		take_text(aggregate, (unsigned)(slot - aggregate->slot) + OOM_LIMIT, process[PROCESSES_oom_limit].text);
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
	return set_text(aggregate, (unsigned)(slot - aggregate->slot) + COMMAND, command, strlen(command));
}

// --- what it belongs to ---------------------------------------------------------------------------

// Programs before the last get their shares, the last one the rest, so that tools and processes agree. The launch of a
// program belongs to the program after it.
static int add_tools(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		     const struct amount *whole, int sign, struct store_error *error)
{
	static const uint8_t sums[IMAGE_PEAK_RSS] = {
		[IMAGE_CPU] = SUM_cpu_ns,
		[IMAGE_RUN_DELAY] = SUM_run_delay_ns,
		[IMAGE_MINOR_FAULTS] = SUM_minor_faults,
		[IMAGE_MAJOR_FAULTS] = SUM_major_faults,
		[IMAGE_RCHAR] = SUM_rchar_bytes,
		[IMAGE_WCHAR] = SUM_wchar_bytes,
		[IMAGE_READ] = SUM_read_bytes,
		[IMAGE_WRITE] = SUM_write_bytes,
	};
	const union lake_slot *slot = row->slot;
	uint64_t run = slot[PROCESSES_run_id].u64 == LAKE_NULL ? 0 : slot[PROCESSES_run_id].u64;
	uint64_t begin_ns = slot[PROCESSES_start_ns].u64;
	struct amount last = *whole, share;
	const struct lake_text *tool;
	struct aggregate *aggregate;
	bool fresh;
	int status = 0;

	memset(&share, 0, sizeof(share));
	for (uint32_t i = 0; status == 0 && i < row->image_count; i++) {
		const struct lake_image *image = &row->images[i];
		bool is_last = i + 1 == row->image_count;
		uint64_t next_ns = is_last ? 0 : row->images[i + 1].start_ns;

		tool = is_last ? slot[PROCESSES_tool].text : image->tool ? image->tool : image->comm;
		if (is_last || !tool || next_ns == LAKE_NULL)
			continue;
		if (i == 0 && report_is_launch(next_ns > begin_ns ? next_ns - begin_ns : 0,
					       image->forked ? image->value[IMAGE_CPU] : UNKNOWN))
			continue;
		memset(share.sums, 0, sizeof(share.sums));
		for (unsigned v = 0; v < IMAGE_PEAK_RSS; v++) {
			uint64_t value = image->value[v] == LAKE_NULL ? 0 : image->value[v];

			// A share that the process's sum does not cover would be counted twice.
			if (last.sums[sums[v]] == LAKE_NULL)
				continue;
			value = value < last.sums[sums[v]] ? value : last.sums[sums[v]];
			share.sums[sums[v]] = value;
			last.sums[sums[v]] -= value;
		}
		share.share = true;
		share.images = 1;
		share.start_ns = begin_ns;
		share.end_ns = LAKE_NULL;
		share.threads_max = LAKE_NULL;
		share.peak_rss_bytes = image->value[IMAGE_PEAK_RSS];
		status = aggregate_get(store, batch, ENTITY_TOOLS, lake_batch_id_tool(batch, run, tool), 0, &aggregate,
				       &fresh, error);
		if (status == 0)
			status = amount_add(store, aggregate, &share, sign);
		if (status == 0) {
			aggregate->slot[TOOLS_run_id].u64 = slot[PROCESSES_run_id].u64;
			status = take_text(aggregate, TOOLS_tool, tool);
		}
	}
	tool = slot[PROCESSES_tool].text;
	if (status < 0 || !tool)
		return status;
	status = aggregate_get(store, batch, ENTITY_TOOLS, lake_batch_id_tool(batch, run, tool), 0, &aggregate, &fresh,
			       error);
	if (status < 0)
		return status;
	aggregate->slot[TOOLS_run_id].u64 = slot[PROCESSES_run_id].u64;
	status = take_text(aggregate, TOOLS_tool, tool);
	return status < 0 ? status : amount_add(store, aggregate, &last, sign);
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
		status = take_text(run, RUNS_run, slot[PROCESSES_run].text);
		status = status < 0 ? status : take_text(run, RUNS_run_name, name);
		status = status < 0 ? status : take_text(run, RUNS_run_parent, slot[PROCESSES_run_parent].text);
		status = status < 0 ? status : take_text(run, RUNS_engine, engine);
		status = status < 0 ? status : take_text(run, RUNS_host, slot[PROCESSES_host].text);
		status = status < 0 ? status : root_take(run, row);
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
		status = take_text(task, TASKS_task, slot[PROCESSES_task].text);
		status = status < 0 ? status : take_text(task, TASKS_task_name, slot[PROCESSES_task_name].text);
		status = status < 0 ? status : take_text(task, TASKS_sample, slot[PROCESSES_sample].text);
		if (first && status == 0)
			status = take_text(task, TASKS_cwd, slot[PROCESSES_cwd].text);
		status = status < 0 ? status : root_take(task, row);
	}
	return status < 0 ? status : amount_add(store, task, amount, sign);
}

int aggregate_process(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row, int sign,
		      struct store_error *error)
{
	const union lake_slot *slot = row->slot;
	struct aggregate *aggregate, *run;
	struct amount amount;
	bool fresh;
	int status = aggregate_get(store, batch, ENTITY_HOSTS, batch->host, 0, &aggregate, &fresh, error);

	amount_of_process(row, &amount);
	if (status == 0)
		status = amount_add(store, aggregate, &amount, sign);
	if (status == 0 && slot[PROCESSES_run_id].u64 != LAKE_NULL) {
		status = add_run(store, batch, row, &amount, sign, &run, error);
		if (status == 0 && slot[PROCESSES_task_id].u64 != LAKE_NULL)
			status = add_task(store, batch, run, row, &amount, sign, error);
		if (status == 0 && slot[PROCESSES_sample].text) {
			status = aggregate_get(store, batch, ENTITY_SAMPLES,
					       lake_batch_id_sample(batch, run->id, slot[PROCESSES_sample].text), 0,
					       &aggregate, &fresh, error);
			if (status == 0) {
				aggregate->slot[SAMPLES_run_id].u64 = run->id;
				status = take_text(aggregate, SAMPLES_sample, slot[PROCESSES_sample].text);
			}
			if (status == 0)
				status = amount_add(store, aggregate, &amount, sign);
		}
	}
	if (status == 0 && slot[PROCESSES_cgroup_id].u64 != LAKE_NULL) {
		status = aggregate_get(store, batch, ENTITY_CONTAINERS, slot[PROCESSES_cgroup_id].u64, 0, &aggregate,
				       &fresh, error);
		if (status == 0)
			status = take_text(aggregate, CONTAINERS_cgroup, slot[PROCESSES_cgroup].text);
		if (status == 0)
			status = take_text(aggregate, CONTAINERS_host, slot[PROCESSES_host].text);
		if (status == 0)
			status = amount_add(store, aggregate, &amount, sign);
	}
	if (status == 0)
		status = add_tools(store, batch, row, &amount, sign, error);
	return status == -ENOMEM ? store_fail(error, status, "out of memory") : status;
}

// --- what records say of a host and a cgroup -----------------------------------------------------

static int take_row(struct sqlite_store *store, struct aggregate *aggregate, const struct lake_row *row)
{
	const struct schema_entity *entity = schema_of(aggregate);
	int status = 0;

	for (unsigned i = 1; status == 0 && i < entity->column_count; i++) {
		if (lake_slot_is_null(row->slot[i], (enum schema_type)entity->columns[i].type))
			continue;
		if (is_text(&entity->columns[i]))
			status = take_text(aggregate, i, row->slot[i].text);
		else
			aggregate->slot[i] = row->slot[i];
	}
	return status < 0 ? status : aggregate_touch(store, aggregate);
}

int aggregate_host(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row_or_null,
		   struct store_error *error)
{
	struct aggregate *host;
	bool fresh;
	int status = aggregate_get(store, batch, ENTITY_HOSTS, batch->host, 0, &host, &fresh, error);

	if (status == 0 && row_or_null)
		status = take_row(store, host, row_or_null);
	return status;
}

int aggregate_container(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
			struct store_error *error)
{
	struct aggregate *container;
	bool fresh;
	int status = aggregate_get(store, batch, ENTITY_CONTAINERS, row->slot[CONTAINERS_id].u64, 0, &container, &fresh,
				   error);

	(void)batch;
	return status < 0 ? status : take_row(store, container, row);
}

int aggregate_batch(struct sqlite_store *store, struct lake_batch *batch, uint64_t acked, uint64_t records,
		    uint64_t lost, struct store_error *error)
{
	struct aggregate *host;
	char epoch[17];
	bool fresh;
	int status = aggregate_get(store, batch, ENTITY_HOSTS, batch->host, 0, &host, &fresh, error);

	if (status < 0)
		return status;
	if (host->slot[HOSTS_first_seen_ns].u64 == 0)
		host->slot[HOSTS_first_seen_ns].u64 = batch->received_ns;
	host->slot[HOSTS_last_seen_ns].u64 = batch->received_ns;
	host->slot[HOSTS_acked].u64 = acked;
	move(&host->slot[HOSTS_records].u64, records, 1);
	move(&host->slot[HOSTS_records_lost].u64, lost, 1);
	move(&host->slot[HOSTS_values_out_of_range].u64, records ? batch->values_out_of_range : 0, 1);
	snprintf(epoch, sizeof(epoch), "%016llx", (unsigned long long)batch->epoch);
	status = set_text(host, HOSTS_epoch, epoch, 16);
	if (status == 0)
		status = set_text(host, HOSTS_host_id, batch->host_id, strlen(batch->host_id));
	if (status == 0)
		status = set_text(host, HOSTS_workspace, batch->workspace, strlen(batch->workspace));
	if (status == 0)
		status = aggregate_touch(store, host);
	return status < 0 ? store_fail(error, status, "out of memory") : 0;
}

// --- to disk ---------------------------------------------------------------------------

static int aggregate_save(struct sqlite_store *store, struct aggregate *aggregate, struct store_error *error)
{
	enum schema_entity_id id = (enum schema_entity_id)aggregate->entity;
	const struct schema_entity *entity = schema_of(aggregate);
	bool moved = id == ENTITY_RUNS && aggregate->stored_start_ns != aggregate->slot[RUNS_start_ns].u64;
	bool change = aggregate->stored && !moved;
	sqlite3_stmt *save = change ? store->aggregates.change[id] : store->aggregates.save[id];
	int status;

	aggregate->slot[0].u64 = aggregate->id;
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (!change || i == 0 || is_changed_in_place(id, i) || (id == ENTITY_TASKS && i == TASKS_run_id))
			sqlite_bind_slot(save, (int)i + 1, aggregate->slot[i],
					 (enum schema_type)entity->columns[i].type);
	}
	sqlite3_bind_int64(save, (int)entity->column_count + 1, (sqlite3_int64)store->revision);
	status = sqlite_step_once(store->db, save, error);
	if (status == 0 && change && sqlite3_changes(store->db) != 1)
		status = store_fail(error, -EILSEQ, "%s: a row is gone", entity->name);
	if (status < 0)
		return status;
	aggregate->stored = true;
	if (id == ENTITY_RUNS)
		aggregate->stored_start_ns = aggregate->slot[RUNS_start_ns].u64;
	return 0;
}

int aggregates_flush(struct sqlite_store *store, struct store_error *error)
{
	struct aggregates *aggregates = &store->aggregates;
	int status = 0;

	for (size_t i = 0; status == 0 && i < aggregates->dirty_count; i++) {
		status = aggregate_save(store, aggregates->dirty[i], error);
		aggregates->dirty[i]->dirty = false;
	}
	aggregates->dirty_count = 0;
	if (status == 0 && aggregates->used > KEPT_MAX)
		aggregates_forget(aggregates);
	return status;
}
