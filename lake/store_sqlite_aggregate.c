// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: rows of hosts, runs, tasks, tools, samples and containers, moved in memory by each process and written
// once for each transaction. Only the writer changes them, so what is kept here is what is on disk; after a rollback
// everything is forgotten. Pipelines are a view over runs.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_sqlite_aggregate.h"

enum { KEPT_MAX = 60000, SLOTS_FIRST = 4096 };

_Static_assert((int)RUNS_workspace == (int)HOSTS_workspace && (int)RUNS_host_id == (int)HOSTS_host_id &&
		       (int)TOOLS_workspace == (int)RUNS_workspace && (int)SAMPLES_workspace == (int)RUNS_workspace &&
		       (int)CONTAINERS_workspace == (int)RUNS_workspace,
	       "aggregate_owner() finds them at one place");

// --- the table in memory ---------------------------------------------------------------------------

static bool is_text(const struct schema_column *column)
{
	return column->type == SCHEMA_TEXT || column->type == SCHEMA_JSON;
}

static void aggregate_free(struct aggregate *aggregate)
{
	for (unsigned i = 0; i < aggregate_schema(aggregate)->column_count; i++) {
		if (is_text(&aggregate_schema(aggregate)->columns[i]))
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

int aggregate_set_text(struct aggregate *aggregate, unsigned column, const char *bytes, size_t length)
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

int aggregate_take_text(struct aggregate *aggregate, unsigned column, const struct lake_text *text)
{
	return text ? aggregate_set_text(aggregate, column, text->bytes, text->length) : 0;
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
	const struct schema_entity *entity = aggregate_schema(aggregate);
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
			status = aggregate_set_text(aggregate, i, (const char *)sqlite3_column_text(load, (int)i),
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
	const struct schema_entity *entity = aggregate_schema(aggregate);

	lake_row_clear(aggregate->slot, entity);
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (!is_text(&entity->columns[i]) && !(entity->columns[i].flags & SCHEMA_N))
			aggregate->slot[i].u64 = 0;
	}
}

static int aggregate_owner(struct aggregate *aggregate, const struct lake_batch *batch, struct store_error *error)
{
	unsigned at = aggregate->entity == ENTITY_TASKS ? TASKS_workspace : RUNS_workspace;
	int status = aggregate_set_text(aggregate, at, batch->workspace, strlen(batch->workspace));

	if (status == 0)
		status = aggregate_set_text(aggregate, at + 1, batch->host_id, strlen(batch->host_id));
	return status < 0 ? store_fail(error, status, "out of memory") : 0;
}

int aggregate_get(struct sqlite_store *store, const struct lake_batch *batch, enum schema_entity_id entity,
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
		aggregates->slots[at]->asked = store->revision;
		return 0;
	}
	aggregate = calloc(1, sizeof(*aggregate) + schema_entities[entity].column_count * sizeof(aggregate->slot[0]));
	if (!aggregate)
		return store_fail(error, -ENOMEM, "out of memory");
	aggregate->entity = (uint8_t)entity;
	aggregate->id = id;
	aggregate->run = run;
	aggregate->asked = store->revision;
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

int aggregate_touch(struct sqlite_store *store, struct aggregate *aggregate)
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

// --- what records say of a host and a cgroup -----------------------------------------------------

static int take_row(struct sqlite_store *store, struct aggregate *aggregate, const struct lake_row *row)
{
	const struct schema_entity *entity = aggregate_schema(aggregate);
	int status = 0;

	for (unsigned i = 1; status == 0 && i < entity->column_count; i++) {
		if (lake_slot_is_null(row->slot[i], (enum schema_type)entity->columns[i].type))
			continue;
		if (is_text(&entity->columns[i]))
			status = aggregate_take_text(aggregate, i, row->slot[i].text);
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

static void move(uint64_t *sum, uint64_t by)
{
	*sum = by > LAKE_U64_MAX - *sum ? LAKE_U64_MAX : *sum + by;
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
	move(&host->slot[HOSTS_records].u64, records);
	move(&host->slot[HOSTS_records_lost].u64, lost);
	move(&host->slot[HOSTS_values_out_of_range].u64, records ? batch->values_out_of_range : 0);
	snprintf(epoch, sizeof(epoch), "%016llx", (unsigned long long)batch->epoch);
	status = aggregate_set_text(host, HOSTS_epoch, epoch, 16);
	if (status == 0)
		status = aggregate_set_text(host, HOSTS_host_id, batch->host_id, strlen(batch->host_id));
	if (status == 0)
		status = aggregate_set_text(host, HOSTS_workspace, batch->workspace, strlen(batch->workspace));
	if (status == 0)
		status = aggregate_touch(store, host);
	return status < 0 ? store_fail(error, status, "out of memory") : 0;
}

// --- to disk ---------------------------------------------------------------------------

static int aggregate_save(struct sqlite_store *store, struct aggregate *aggregate, struct store_error *error)
{
	enum schema_entity_id id = (enum schema_entity_id)aggregate->entity;
	const struct schema_entity *entity = aggregate_schema(aggregate);
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

// Those that no transaction since the last time had anything for leave: tasks that are over, hosts that are silent.
static void aggregates_sweep(struct sqlite_store *store)
{
	struct aggregates *aggregates = &store->aggregates;
	struct aggregate **old = aggregates->slots;

	aggregates->slots = calloc(aggregates->slot_count, sizeof(struct aggregate *));
	if (!aggregates->slots) {
		aggregates->slots = old;
		aggregates_forget(aggregates);
		return;
	}
	aggregates->used = 0;
	for (size_t i = 0; i < aggregates->slot_count; i++) {
		struct aggregate *kept = old[i];

		if (kept && kept->asked > aggregates->swept) {
			aggregates->slots[slot_of(aggregates, (enum schema_entity_id)kept->entity, kept->id)] = kept;
			aggregates->used++;
		} else if (kept) {
			aggregate_free(kept);
		}
	}
	free(old);
	aggregates->swept = store->revision;
	if (aggregates->used > KEPT_MAX / 4 * 3)
		aggregates_forget(aggregates);
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
		aggregates_sweep(store);
	return status;
}
