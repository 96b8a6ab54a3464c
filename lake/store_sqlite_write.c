// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: batches in. One transaction for all of a call: cursor, rows, points and aggregates move together, so a
// kill at any moment leaves whole batches. COMMIT returns when the log is on disk (synchronous=FULL). After a failure
// everything kept in memory is forgotten, since the disk does not have it.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lake/store_sqlite.h"

static void forget_all(struct sqlite_store *store)
{
	gathered_forget(store);
	ended_forget(store);
	aggregates_forget(&store->aggregates);
	dictionary_forget(&store->dictionary);
	series_forget(store);
	amounts_clear(&store->amounts);
	living_forget(store);
	store->failed = true;
}

// Brings back what is known from disk after a failure; the disk may still be unwell.
static int recover(struct sqlite_store *store, struct store_error *error)
{
	int status;

	if (!store->failed)
		return 0;
	process_statements_close(store);
	status = sqlite_partition_load(store, error);
	if (status == 0 && store->partition.no)
		status = process_statements(store, error);
	if (status == 0)
		status = living_load(store, error);
	if (status == 0)
		store->failed = false;
	return status;
}

int sqlite_write_begin(struct sqlite_store *store, struct store_error *error)
{
	int status = store->options.read_only ? store_fail(error, -EROFS, "the lake was opened for reading") : 0;

	if (status == 0)
		status = recover(store, error);
	if (status == 0)
		status = sqlite_step_once(store->db, store->begin, error);
	return status;
}

int sqlite_write_end(struct sqlite_store *store, int status, struct store_error *error)
{
	if (status == 0)
		status = sqlite_step_once(store->db, store->commit, error);
	if (status < 0) {
		sqlite3_step(store->rollback); // fails when SQLite rolled back by itself
		sqlite3_reset(store->rollback);
		forget_all(store);
	}
	return status;
}

// --- cursor ---------------------------------------------------------------------------

static int cursor_get(struct sqlite_store *store, const struct lake_batch *batch, bool *ret_known, uint64_t *ret_acked,
		      struct store_error *error)
{
	int status;

	sqlite3_bind_int64(store->cursor_get, 1, (sqlite3_int64)batch->host);
	sqlite3_bind_int64(store->cursor_get, 2, (sqlite3_int64)batch->epoch);
	status = sqlite3_step(store->cursor_get);
	if (status != SQLITE_ROW && status != SQLITE_DONE) {
		status = sqlite_fail(store->db, error, "cursor");
		sqlite3_reset(store->cursor_get);
		return status;
	}
	*ret_known = status == SQLITE_ROW;
	*ret_acked = *ret_known ? (uint64_t)sqlite3_column_int64(store->cursor_get, 0) : batch->after;
	sqlite3_reset(store->cursor_get);
	return 0;
}

static int cursor_set(struct sqlite_store *store, const struct lake_batch *batch, uint64_t acked,
		      struct store_error *error)
{
	sqlite3_bind_int64(store->cursor_set, 1, (sqlite3_int64)batch->host);
	sqlite3_bind_int64(store->cursor_set, 2, (sqlite3_int64)batch->epoch);
	sqlite3_bind_int64(store->cursor_set, 3, (sqlite3_int64)acked);
	return sqlite_step_once(store->db, store->cursor_set, error);
}

// --- rows ---------------------------------------------------------------------------

// Rows of entities that are no more than rows. id is made by SQLite when the slot is null.
static int plain_insert(struct sqlite_store *store, sqlite3_stmt *insert, const struct lake_row *row,
			struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[row->entity];

	for (unsigned i = 0; i < entity->column_count; i++)
		sqlite_bind_slot(insert, (int)i + 1, row->slot[i], (enum schema_type)entity->columns[i].type);
	sqlite3_bind_int64(insert, (int)entity->column_count + 1, (sqlite3_int64)store->revision);
	return sqlite_step_once(store->db, insert, error);
}

static int row_store(struct sqlite_store *store, struct lake_batch *batch, struct lake_row *row, uint64_t acked,
		     uint64_t *lost, struct store_error *error)
{
	union lake_slot *slot = row->slot;

	switch (row->entity) {
	case ENTITY_PROCESSES:
		return process_store(store, batch, row, error);
	case ENTITY_HOSTS:
		return aggregate_host(store, batch, row, error);
	case ENTITY_CONTAINERS:
		return aggregate_container(store, batch, row, error);
	case ENTITY_EVENTS:
		return plain_insert(store, store->event_insert, row, error);
	case ENTITY_KEYS:
		return plain_insert(store, store->key_insert, row, error);
	case ENTITY_GAPS:
		// Of a hole that reaches back into what is there already only the rest is new.
		if (slot[GAPS_last_sequence].u64 == row->sequence && slot[GAPS_first_sequence].u64 <= acked) {
			uint64_t known = acked - slot[GAPS_first_sequence].u64 + 1;

			slot[GAPS_first_sequence].u64 = acked + 1;
			slot[GAPS_count].u64 = slot[GAPS_count].u64 > known ? slot[GAPS_count].u64 - known : 0;
		}
		if (slot[GAPS_last_sequence].u64 == row->sequence && slot[GAPS_count].u64 != LAKE_NULL)
			*lost += slot[GAPS_count].u64;
		return plain_insert(store, store->gap_insert, row, error);
	default:
		return store_fail(error, -EINVAL, "rows of %s do not come in batches",
				  schema_entities[row->entity].name);
	}
}

static int rows_store(struct sqlite_store *store, struct lake_batch *batch, uint64_t acked, uint64_t *ret_records,
		      uint64_t *ret_lost, struct store_error *error)
{
	size_t row = 0, point = 0;
	uint64_t last = 0;
	int status = 0;

	// By sequence, so that a sample finds its process and an end finds its sample.
	while (status == 0 && (row < batch->row_count || point < batch->point_count)) {
		bool take_row =
			point == batch->point_count ||
			(row < batch->row_count && batch->rows[row]->sequence <= batch->points[point]->sequence);
		uint64_t sequence = take_row ? batch->rows[row]->sequence : batch->points[point]->sequence;

		if (sequence > acked && sequence != last) {
			last = sequence;
			(*ret_records)++;
		}
		if (take_row) {
			if (sequence > acked)
				status = row_store(store, batch, batch->rows[row], acked, ret_lost, error);
			row++;
			continue;
		}
		if (sequence > acked) {
			const struct lake_point *moment = batch->points[point];

			status = series_point(store, batch, moment, error);
			if (status == 0 && moment->kind == SERIES_PROCESS)
				status = living_sample(store, batch, moment, error);
		}
		point++;
	}
	return status;
}

static int batch_store(struct sqlite_store *store, struct lake_batch *batch, struct store_result *result,
		       struct store_error *error)
{
	uint64_t acked = 0, records = 0, lost = 0;
	bool known = false;
	int status = cursor_get(store, batch, &known, &acked, error);

	if (status < 0)
		return status;
	*result = (struct store_result){.verdict = STORE_STORED, .acked = acked};
	if (batch->first > acked + 1 || (known && batch->after > acked)) {
		result->verdict = STORE_SEQUENCE;
		return 0;
	}
	if (batch->last <= acked)
		return 0;
	status = rows_store(store, batch, acked, &records, &lost, error);
	if (status == 0)
		status = gathered_flush(store, error);
	if (status == 0)
		status = aggregate_batch(store, batch, batch->last, records, lost, error);
	if (status == 0)
		status = cursor_set(store, batch, batch->last, error);
	result->acked = batch->last;
	result->records = records;
	return status;
}

static int partition_choose(struct sqlite_store *store, uint64_t now_ns, struct store_error *error)
{
	uint64_t day = now_ns / 1000000000 / STORE_DAY_S;

	if (store->partition.no && store->partition.rows < PARTITION_ROWS_MAX &&
	    (day <= store->partition.day || store->partition.rows == 0))
		return 0;
	return sqlite_partition_new(store, day, error);
}

static int partition_save(struct sqlite_store *store, struct store_error *error)
{
	const struct sqlite_partition *partition = &store->partition;

	sqlite3_bind_int64(store->partition_set, 1, (sqlite3_int64)partition->no);
	sqlite3_bind_int64(store->partition_set, 2, (sqlite3_int64)partition->rows);
	sqlite3_bind_int64(store->partition_set, 3, (sqlite3_int64)partition->next_id);
	sqlite_bind_u64(store->partition_set, 4, partition->start_min_ns);
	sqlite3_bind_int64(store->partition_set, 5, (sqlite3_int64)partition->end_max_ns);
	return sqlite_step_once(store->db, store->partition_set, error);
}

int sqlite_write(struct store *base, struct lake_batch *const *batches, size_t count, struct store_result *ret_results,
		 struct store_error *error)
{
	struct sqlite_store *store = sqlite_store_of(base);
	struct store_result results[STORE_BATCHES_MAX];
	int status;

	if (count > sizeof(results) / sizeof(results[0]))
		return store_fail(error, -EINVAL, "at most %zu batches at once", sizeof(results) / sizeof(results[0]));
	status = sqlite_write_begin(store, error);
	if (status < 0)
		return status;
	store->revision++;
	status = partition_choose(store, batches[0]->received_ns, error);
	for (size_t i = 0; status == 0 && i < count; i++)
		status = batch_store(store, batches[i], &results[i], error);
	if (status == 0)
		status = ended_flush(store, error);
	if (status == 0)
		status = amounts_flush(store, error);
	if (status == 0)
		status = aggregates_flush(store, error);
	if (status == 0)
		status = partition_save(store, error);
	if (status == 0)
		status = sqlite_runf(store->db, error, "UPDATE meta SET value=%llu WHERE name='revision'",
				     (unsigned long long)store->revision);
	status = sqlite_write_end(store, status, error);
	if (status == 0)
		memcpy(ret_results, results, count * sizeof(results[0]));
	return status;
}

// --- the store's own rows ---------------------------------------------------------------------------

static int put_prepare(struct sqlite_store *store, enum schema_entity_id id, sqlite3_stmt **ret_statement,
		       struct store_error *error)
{
	char sql[512];
	int used = snprintf(sql, sizeof(sql), "INSERT OR REPLACE INTO %s VALUES(?", schema_entities[id].name);

	for (unsigned i = 0; i < schema_entities[id].column_count; i++)
		used += snprintf(sql + used, sizeof(sql) - (size_t)used, ",?");
	snprintf(sql + used, sizeof(sql) - (size_t)used, ")");
	return sqlite_prepare(store->db, sql, false, ret_statement, error);
}

int sqlite_put(struct store *base, enum schema_entity_id entity, struct lake_row *const *rows, size_t count,
	       struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *insert = NULL, *stitch = NULL;
	struct sqlite_store *store = sqlite_store_of(base);
	int status;

	if (entity != ENTITY_FINDINGS && entity != ENTITY_JOINS && entity != ENTITY_KEYS && entity != ENTITY_GAPS)
		return store_fail(error, -EINVAL, "rows of %s come in batches only", schema_entities[entity].name);
	status = sqlite_write_begin(store, error);
	if (status < 0)
		return status;
	store->revision++;
	status = put_prepare(store, entity, &insert, error);
	if (status == 0)
		status = sqlite_prepare(store->db, "UPDATE runs SET stitched_id=?1,revision=?2 WHERE id=?3", false,
					&stitch, error);
	for (size_t i = 0; status == 0 && i < count; i++) {
		status = plain_insert(store, insert, rows[i], error);
		if (status < 0 || entity != ENTITY_JOINS || !strcmp(rows[i]->slot[JOINS_how].text->bytes, "weak"))
			continue;
		sqlite_bind_u64(stitch, 1, rows[i]->slot[JOINS_stitched_id].u64);
		sqlite3_bind_int64(stitch, 2, (sqlite3_int64)store->revision);
		sqlite_bind_u64(stitch, 3, rows[i]->slot[JOINS_run_id].u64);
		status = sqlite_step_once(store->db, stitch, error);
	}
	if (entity == ENTITY_JOINS)
		aggregates_forget(&store->aggregates); // runs changed on disk
	return sqlite_write_end(store, status, error);
}
