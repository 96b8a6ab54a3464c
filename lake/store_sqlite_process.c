// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: rows of processes. An ended one goes to the newest partition (lake/store_sqlite_ended.c); one that
// lives on is a row of `living` that its next record replaces. What a living one brought to the aggregates is taken
// away before the newer is added, so each process counts once.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/amounts.h"
#include "lake/images.h"
#include "lake/store_sqlite.h"

static void insert_context_sql(struct buf *sql, uint64_t partition)
{
	buf_printf(sql, "INSERT INTO contexts_%llu VALUES(?,?", (unsigned long long)partition);
	for (unsigned i = 0; i < PROCESSES_END; i++) {
		enum process_place place = process_place(i);

		if (place == PLACE_CONTEXT || place == PLACE_CONTEXT_DICTIONARY)
			buf_append_string(sql, ",?");
	}
	buf_append_char(sql, ')');
}

static int prepare_buf(struct sqlite_store *store, struct buf *sql, sqlite3_stmt **ret_statement,
		       struct store_error *error)
{
	int status = buf_error(sql) < 0 ? -ENOMEM : sqlite_prepare(store->db, sql->data, true, ret_statement, error);

	buf_reset(sql);
	return status;
}

// The next numbers of the partition's dictionary.
static int dictionary_numbers(struct sqlite_store *store, struct store_error *error)
{
	uint64_t text = 0, context = 0;
	char sql[96];
	int status;

	snprintf(sql, sizeof(sql), "SELECT max(no) FROM texts_%llu", (unsigned long long)store->partition.no);
	status = sqlite_number(store->db, sql, &text, error);
	if (status < 0)
		return status;
	snprintf(sql, sizeof(sql), "SELECT max(no) FROM contexts_%llu", (unsigned long long)store->partition.no);
	status = sqlite_number(store->db, sql, &context, error);
	store->dictionary.next_text = text + 1;
	store->dictionary.next_context = context + 1;
	return status;
}

int process_statements(struct sqlite_store *store, struct store_error *error)
{
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	int status = dictionary_numbers(store, error);

	buf_printf(&sql, "INSERT INTO texts_%llu VALUES(?,?)", (unsigned long long)store->partition.no);
	if (status == 0)
		status = prepare_buf(store, &sql, &store->dictionary.insert_text, error);
	insert_context_sql(&sql, store->partition.no);
	if (status == 0)
		status = prepare_buf(store, &sql, &store->dictionary.insert_context, error);
	// Or rollback: what an unfinished statement wrote goes with the transaction, so it needs no journal of its own.
	// Anything but all columns of a whole table, and SQLite would take the rows apart.
	buf_printf(&sql, "INSERT OR ROLLBACK INTO processes_%llu SELECT * FROM arrived.ended",
		   (unsigned long long)store->partition.no);
	if (status == 0)
		status = prepare_buf(store, &sql, &store->process_insert, error);
	return status;
}

void process_statements_close(struct sqlite_store *store)
{
	sqlite3_finalize(store->dictionary.insert_text);
	sqlite3_finalize(store->dictionary.insert_context);
	sqlite3_finalize(store->process_insert);
	store->dictionary.insert_text = store->dictionary.insert_context = store->process_insert = NULL;
}

// --- those that live on ---------------------------------------------------------------------------

static uint64_t fingerprint(uint64_t host, uint64_t pid, uint64_t start_boot_ns)
{
	uint64_t hash = (host ^ pid * UINT64_C(0x9e3779b97f4a7c15) ^ start_boot_ns) * UINT64_C(0xff51afd7ed558ccd);

	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static bool living_may_have(const struct sqlite_store *store, uint64_t print)
{
	if (!store->living_slots)
		return false;
	for (size_t at = print % store->living_slots; store->living[at]; at = (at + 1) % store->living_slots) {
		if (store->living[at] == print)
			return true;
	}
	return false;
}

// Prints are only added: one that is left over costs a look-up. The set is loaded anew when it has grown full of them.
static int living_note(struct sqlite_store *store, uint64_t print)
{
	size_t at;

	if (living_may_have(store, print))
		return 0;
	if ((store->living_count + 1) * 2 > store->living_slots) {
		size_t slots = store->living_slots ? store->living_slots * 2 : 4096;
		uint64_t *larger = calloc(slots, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		for (size_t i = 0; i < store->living_slots; i++) {
			if (!store->living[i])
				continue;
			for (at = store->living[i] % slots; larger[at];)
				at = (at + 1) % slots;
			larger[at] = store->living[i];
		}
		free(store->living);
		store->living = larger;
		store->living_slots = slots;
	}
	for (at = print % store->living_slots; store->living[at];)
		at = (at + 1) % store->living_slots;
	store->living[at] = print;
	store->living_count++;
	return 0;
}

void living_forget(struct sqlite_store *store)
{
	free(store->living);
	store->living = NULL;
	store->living_slots = store->living_count = 0;
}

int living_load(struct sqlite_store *store, struct store_error *error)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	int status = sqlite_prepare(store->db,
				    "SELECT h.id,l.pid,l.start_boot_ns FROM living l JOIN hosts h"
				    " ON h.workspace=l.workspace AND h.host_id=l.host_id",
				    false, &statement, error);

	living_forget(store);
	while (status == 0 && (status = sqlite3_step(statement)) == SQLITE_ROW)
		status =
			living_note(store, fingerprint(sqlite_column_u64(statement, 0), sqlite_column_u64(statement, 1),
						       sqlite_column_u64(statement, 2)));
	return status == SQLITE_DONE ? 0 : status < 0 ? status : sqlite_fail(store->db, error, "living");
}

// The row of `living` with the key, in the batch's arena; NULL when there is none.
static int living_find(struct sqlite_store *store, struct lake_batch *batch, uint64_t key, struct lake_row **ret_row,
		       struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	sqlite3_stmt *get = store->living_get;
	struct lake_row *row;
	int status;

	sqlite3_bind_int64(get, 1, (sqlite3_int64)key);
	status = sqlite3_step(get);
	if (status != SQLITE_ROW) {
		status = status == SQLITE_DONE ? 0 : sqlite_fail(store->db, error, "living");
		sqlite3_reset(get);
		*ret_row = NULL;
		return status;
	}
	row = arena_alloc(&batch->arena, sizeof(*row) + entity->column_count * sizeof(row->slot[0]));
	status = row ? 0 : store_fail(error, -ENOMEM, "out of memory");
	if (row)
		*row = (struct lake_row){.entity = ENTITY_PROCESSES, .open = true};
	for (unsigned i = 0; status == 0 && i < entity->column_count; i++) {
		if (i != PROCESSES_images)
			status = sqlite_column_slot(get, (int)i, (enum schema_type)entity->columns[i].type,
						    &batch->arena, &row->slot[i]);
	}
	if (status == 0) {
		const void *packed = sqlite3_column_blob(get, PROCESSES_images);
		struct lake_image *images = NULL;
		size_t count = 0;

		row->slot[PROCESSES_images].text = NULL;
		if (packed)
			status = images_unpack(packed, (size_t)sqlite3_column_bytes(get, PROCESSES_images),
					       row->slot[PROCESSES_start_ns].u64, row->slot[PROCESSES_tool].text,
					       &batch->arena, &images, &count);
		row->images = images;
		row->image_count = (uint32_t)count;
		if (status < 0)
			status = store_fail(error, status == -EBADMSG ? -EILSEQ : status, "living: damaged images");
	}
	sqlite3_reset(get);
	*ret_row = row;
	return status;
}

static int living_write(struct sqlite_store *store, const struct lake_row *row, uint64_t key, uint64_t id,
			struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	sqlite3_stmt *insert = store->living_insert;

	for (unsigned i = 1; i < entity->column_count; i++)
		sqlite_bind_slot(insert, (int)i + 1, row->slot[i], (enum schema_type)entity->columns[i].type);
	sqlite3_bind_int64(insert, 1, (sqlite3_int64)id);
	buf_reset(&store->scratch);
	images_pack(row->images, row->image_count, row->slot[PROCESSES_start_ns].u64, row->slot[PROCESSES_tool].text,
		    &store->scratch);
	if (buf_error(&store->scratch) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	sqlite3_bind_blob(insert, PROCESSES_images + 1, store->scratch.data, (int)store->scratch.length, SQLITE_STATIC);
	sqlite3_bind_int64(insert, PROCESSES_END + 1, (sqlite3_int64)store->revision);
	sqlite3_bind_int64(insert, PROCESSES_END + 2, (sqlite3_int64)key);
	return sqlite_step_once(store->db, insert, error);
}

static int living_delete(struct sqlite_store *store, uint64_t key, struct store_error *error)
{
	sqlite3_bind_int64(store->living_delete, 1, (sqlite3_int64)key);
	return sqlite_step_once(store->db, store->living_delete, error);
}

// One that was never heard of before: nearly all.
static int ended_store(struct sqlite_store *store, struct lake_batch *batch, const struct lake_row *row,
		       struct store_error *error)
{
	uint64_t context;
	int status = gathered_add(store, batch, row, &context, error);

	if (status == 0)
		status = series_amounts(store, batch, row, NULL, amounts_failed(row), error);
	return status < 0 ? status : ended_add(store, row, context, error);
}

int process_store(struct sqlite_store *store, struct lake_batch *batch, struct lake_row *row, struct store_error *error)
{
	uint64_t print = fingerprint(batch->host, row->slot[PROCESSES_pid].u64, row->slot[PROCESSES_start_boot_ns].u64);
	bool known = living_may_have(store, print);
	struct lake_row *before = NULL;
	uint64_t key = 0, id, context;
	int status = 0;

	if (!known && !row->open)
		return ended_store(store, batch, row, error);
	key = lake_id_process(batch->host, row->slot[PROCESSES_boot].text->bytes, row->slot[PROCESSES_pid].u64,
			      row->slot[PROCESSES_start_boot_ns].u64);
	if (known)
		status = living_find(store, batch, key, &before, error);
	if (status == 0 && before)
		status = aggregate_process(store, batch, before, -1, error);
	if (status == 0)
		status = aggregate_process(store, batch, row, 1, error);
	if (status == 0)
		status = series_amounts(store, batch, row, before, amounts_failed(row), error);
	if (status < 0)
		return status;
	if (!row->open) {
		status = before ? living_delete(store, key, error) : 0;
		if (status == 0)
			status = dictionary_context(store, row->slot, batch->host, &context, error);
		return status < 0 ? status : ended_add(store, row, context, error);
	}
	id = before ? before->slot[PROCESSES_id].u64 : store->partition.next_id++;
	if (living_note(store, print) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	return living_write(store, row, key, id, error);
}

int living_sample(struct sqlite_store *store, struct lake_batch *batch, const struct lake_point *point,
		  struct store_error *error)
{
	struct lake_row *before, *after;
	size_t size = sizeof(*before) + PROCESSES_END * sizeof(before->slot[0]);
	int sums = series_metric_find(SERIES_PROCESS, "cpu_ns"), status;
	static const struct {
		const char *metric;
		unsigned column;
	} others[] = {
		{"threads_max", PROCESSES_threads_max}, {"peak_rss_bytes", PROCESSES_peak_rss_bytes},
		{"anon_bytes", PROCESSES_anon_bytes},	{"file_bytes", PROCESSES_file_bytes},
		{"shmem_bytes", PROCESSES_shmem_bytes}, {"swap_bytes", PROCESSES_swap_bytes},
	};

	if (!living_may_have(store, fingerprint(batch->host, point->pid, point->start_boot_ns)))
		return 0;
	status = living_find(store, batch, point->owner_id, &before, error);
	if (status < 0 || !before)
		return status;
	after = arena_alloc(&batch->arena, size);
	if (!after)
		return store_fail(error, -ENOMEM, "out of memory");
	memcpy(after, before, size);
	for (unsigned i = 0; i < SUM_END; i++) {
		if (point->value[sums + (int)i] != LAKE_NULL)
			after->slot[PROCESSES_cpu_ns + i].u64 = point->value[sums + (int)i];
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		uint64_t value = point->value[series_metric_find(SERIES_PROCESS, others[i].metric)];

		if (value != LAKE_NULL)
			after->slot[others[i].column].u64 = value;
	}
	after->slot[PROCESSES_time_ns].u64 = point->time_ns;
	status = aggregate_process(store, batch, before, -1, error);
	if (status == 0)
		status = aggregate_process(store, batch, after, 1, error);
	if (status == 0)
		status = series_amounts(store, batch, after, before, false, error);
	return status < 0 ? status : living_write(store, after, point->owner_id, before->slot[PROCESSES_id].u64, error);
}
