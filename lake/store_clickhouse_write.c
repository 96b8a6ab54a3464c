// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: storing batches. Rows go in under a number of their own, then one entry of the chain publishes them
// (lake/store_clickhouse.h has the reasoning). Invariant: what this instance believes of the cursors is as of
// store->head, and is forgotten as soon as the chain turns out to have moved without it.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

enum {
	ATTEMPTS = 8, // to store one group that others keep getting in front of
	PUBLISHES = 64, // to publish rows that stay good although others got in front
	GROUP_HOSTS = 1000, // cursors asked for in one question
};

struct clickhouse_cursor {
	uint64_t host, epoch; // host 0: free
	uint64_t acked;
	bool known; // false: nothing of that host and epoch
};

// ---- what is known of the cursors ---------------------------------------------------------------------------------

static struct clickhouse_cursor *cursor_at(struct clickhouse_cursor *table, size_t room, uint64_t host, uint64_t epoch)
{
	size_t at = (size_t)((host ^ epoch * UINT64_C(0x9e3779b97f4a7c15)) % room);

	while (table[at].host && (table[at].host != host || table[at].epoch != epoch))
		at = (at + 1) % room;
	return &table[at];
}

static void cursors_forget(struct clickhouse_store *store)
{
	free(store->cursors);
	store->cursors = NULL;
	store->cursor_count = store->cursor_room = 0;
}

static struct clickhouse_cursor *cursor_find(struct clickhouse_store *store, const struct lake_batch *batch)
{
	struct clickhouse_cursor *cursor;

	if (!store->cursor_room)
		return NULL;
	cursor = cursor_at(store->cursors, store->cursor_room, batch->host, batch->epoch);
	return cursor->host ? cursor : NULL;
}

static int cursor_set(struct clickhouse_store *store, uint64_t host, uint64_t epoch, bool known, uint64_t acked)
{
	struct clickhouse_cursor *cursor;

	if (store->cursor_count * 2 >= store->cursor_room) {
		size_t room = store->cursor_room ? store->cursor_room * 2 : 256;
		struct clickhouse_cursor *larger = calloc(room, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		for (size_t i = 0; i < store->cursor_room; i++) {
			struct clickhouse_cursor *old = &store->cursors[i];

			if (old->host)
				*cursor_at(larger, room, old->host, old->epoch) = *old;
		}
		free(store->cursors);
		store->cursors = larger;
		store->cursor_room = room;
	}
	cursor = cursor_at(store->cursors, store->cursor_room, host, epoch);
	store->cursor_count += !cursor->host;
	*cursor = (struct clickhouse_cursor){.host = host, .epoch = epoch, .known = known, .acked = acked};
	return 0;
}

static bool take_cursor(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct clickhouse_store *store = rows->context;
	uint64_t host, acked;
	const char *epoch;
	size_t length;

	if (!clickhouse_take_u64(cut, &host) || !clickhouse_take_text(cut, &epoch, &length) ||
	    !clickhouse_take_u64(cut, &acked))
		return false;
	if (length == 16) {
		char text[17];

		memcpy(text, epoch, 16);
		text[16] = '\0';
		*ret_stop = cursor_set(store, host, strtoull(text, NULL, 16), true, acked);
	}
	return true;
}

static int cursors_ask(struct clickhouse_store *store, struct buf *list, struct store_error *error)
{
	struct clickhouse_request request = {
		.query = "SELECT p.id, assumeNotNull(p.epoch), assumeNotNull(max(p.acked)) FROM hosts_part AS p WHERE "
			 "p.id IN {ids:Array(UInt64)} AND p.epoch IS NOT NULL AND p.acked IS NOT NULL "
			 "AND " CLICKHOUSE_PUBLISHED " GROUP BY p.id, p.epoch",
		.raw_parameters = true,
	};
	struct clickhouse_rows rows = {.row = take_cursor, .context = store};

	buf_append_char(list, ']');
	if (buf_error(list) < 0)
		return clickhouse_fail(error, -ENOMEM, "out of memory");
	clickhouse_parameter(&request, "ids", list->data);
	if (store->url.replicated)
		clickhouse_setting(&request, "select_sequential_consistency", "1");
	return clickhouse_rows_run(store->http, &request, &rows, error);
}

// Everything that is asked for now is as of head or later; a later state would have moved the chain, which publishing
// finds out. So head comes first.
static int cursors_load(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
			struct store_error *error)
{
	CLEANUP(buf_free) struct buf list = BUF_INIT;
	size_t asked = 0;
	int err = 0;

	if (!store->head) {
		cursors_forget(store);
		err = clickhouse_chain_head(store, error);
	}
	for (size_t i = 0; !err && i < count; i++) {
		if (!cursor_find(store, batches[i])) {
			// Known to be unknown, unless the answer says otherwise.
			err = cursor_set(store, batches[i]->host, batches[i]->epoch, false, 0);
			buf_printf(&list, "%s%" PRIu64, asked ? "," : "[", batches[i]->host);
			asked++;
		}
		if (!err && asked && (asked == GROUP_HOSTS || i + 1 == count)) {
			err = cursors_ask(store, &list, error);
			buf_reset(&list);
			asked = 0;
		}
	}
	if (err < 0) {
		store->head = 0;
		cursors_forget(store);
	}
	return err;
}

// ---- rows of a group ------------------------------------------------------------------------------------------------

struct group {
	struct clickhouse_store *store;
	uint64_t batch; // its number
	uint64_t rows;
	struct buf entity[ENTITY_END]; // of those without parts
	struct buf open;
	struct buf points[SERIES_KIND_END];
	struct clickhouse_parts parts;
	struct clickhouse_living living;
};

static void group_free(struct group *group)
{
	for (int i = 0; i < ENTITY_END; i++)
		buf_free(&group->entity[i]);
	for (int i = 0; i < SERIES_KIND_END; i++)
		buf_free(&group->points[i]);
	buf_free(&group->open);
	clickhouse_parts_free(&group->parts);
	clickhouse_living_free(&group->living);
}

static int put_images(struct buf *out, const struct lake_row *row)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);

	if (!row->images) {
		clickhouse_put_slot(out, row->slot[PROCESSES_images], SCHEMA_JSON, true);
		return 0;
	}
	lake_images_json(row->images, row->image_count, &json);
	buf_append_char(out, '\0');
	clickhouse_put_text(out, text.data, text.length);
	return buf_error(&text);
}

int clickhouse_put_row(struct buf *out, const struct lake_row *row, uint64_t id, uint64_t received_ns, uint64_t batch)
{
	const struct schema_entity *entity = &schema_entities[row->entity];
	int err = 0;

	clickhouse_put_u64(out, id);
	for (unsigned i = 1; !err && i < entity->column_count; i++) {
		if (row->entity == ENTITY_PROCESSES && i == PROCESSES_images)
			err = put_images(out, row);
		else
			clickhouse_put_slot(out, row->slot[i], (enum schema_type)entity->columns[i].type,
					    entity->columns[i].flags & SCHEMA_N);
	}
	clickhouse_put_u32(out, (uint32_t)(received_ns / 1000000000));
	clickhouse_put_u64(out, batch);
	return err < 0 ? err : buf_error(out);
}

// id: what the row is known by; row_id: what this version of it is.
static int add_process(struct group *group, struct lake_batch *batch, const struct lake_row *row, uint64_t id,
		       uint64_t row_id)
{
	struct buf *out = row->open ? &group->open : &group->entity[ENTITY_PROCESSES];
	int err = clickhouse_put_row(out, row, id, batch->received_ns, group->batch);

	if (err < 0)
		return err;
	clickhouse_put_u64(out, row->sequence);
	clickhouse_put_u64(out, row_id);
	clickhouse_put_u64(out, clickhouse_process_id(batch, row));
	return clickhouse_parts_process(&group->parts, batch, row, row->open ? row_id : 0);
}

static int add_row(struct group *group, struct lake_batch *batch, const struct lake_row *row)
{
	uint64_t id = group->batch << CLICKHOUSE_ROW_BITS | group->rows++;

	if (row->entity == ENTITY_PROCESSES) {
		int err = clickhouse_living_row(&group->living, batch, row, id);

		return err < 0 ? err : add_process(group, batch, row, id, id);
	}
	if (row->entity == ENTITY_HOSTS)
		return clickhouse_parts_row(&group->parts, batch, row, batch->host, row->slot[HOSTS_time_ns].u64);
	if (clickhouse_has_parts((enum schema_entity_id)row->entity))
		return clickhouse_parts_row(&group->parts, batch, row, row->slot[0].u64, batch->received_ns);
	return clickhouse_put_row(&group->entity[row->entity], row, id, batch->received_ns, group->batch);
}

static int add_series(struct group *group, const struct lake_batch *batch, const struct lake_point *point)
{
	const struct series_schema *kind = &series_schemas[point->kind];
	bool fresh;
	struct clickhouse_part *part = clickhouse_part_get(&group->parts, ENTITY_SERIES, point->series_id, 0, &fresh);

	if (!part)
		return -ENOMEM;
	if (fresh) {
		part->slot[SERIES_workspace].text = clickhouse_text(&group->parts.arena, batch->workspace);
		part->slot[SERIES_host_id].text = clickhouse_text(&group->parts.arena, batch->host_id);
		part->slot[SERIES_kind].text = clickhouse_text(&group->parts.arena, kind->name);
		part->slot[SERIES_label].text = point->label ? point->label : clickhouse_text(&group->parts.arena, "");
		part->slot[SERIES_owner_id].u64 = point->owner_id;
		part->slot[SERIES_first_ns].u64 = part->slot[SERIES_last_ns].u64 = point->time_ns;
		if (!part->slot[SERIES_workspace].text || !part->slot[SERIES_host_id].text ||
		    !part->slot[SERIES_kind].text || !part->slot[SERIES_label].text)
			return -ENOMEM;
	}
	if (point->attributes)
		part->slot[SERIES_attributes].text = point->attributes;
	if (point->time_ns < part->slot[SERIES_first_ns].u64)
		part->slot[SERIES_first_ns].u64 = point->time_ns;
	if (point->time_ns > part->slot[SERIES_last_ns].u64)
		part->slot[SERIES_last_ns].u64 = point->time_ns;
	part->at = part->slot[SERIES_last_ns].u64;
	part->received_s = batch->received_ns / 1000000000;
	return 0;
}

static int add_point(struct group *group, const struct lake_batch *batch, const struct lake_point *point)
{
	const struct series_schema *kind = &series_schemas[point->kind];
	struct buf *out = &group->points[point->kind];

	clickhouse_put_text(out, batch->workspace, strlen(batch->workspace));
	clickhouse_put_text(out, batch->host_id, strlen(batch->host_id));
	clickhouse_put_u64(out, point->series_id);
	clickhouse_put_u64(out, point->owner_id);
	clickhouse_put_text(out, point->label ? point->label->bytes : "", point->label ? point->label->length : 0);
	clickhouse_put_u64(out, point->time_ns);
	for (unsigned i = 0; i < kind->metric_count; i++)
		clickhouse_put_known(out, point->value[i]);
	clickhouse_put_u32(out, (uint32_t)(batch->received_ns / 1000000000));
	clickhouse_put_u64(out, group->batch);
	group->rows++;
	return buf_error(out) < 0 ? -ENOMEM : add_series(group, batch, point);
}

// ---- planning ---------------------------------------------------------------------------------------------

struct plan {
	bool store; // there is something new
	uint64_t acked; // before it
	uint64_t records, lost; // what it brings
};

// A hole that lies partly below what is acknowledged already counts for the rest only.
static uint64_t hole_count(const struct lake_row *row, uint64_t acked)
{
	const union lake_slot *slot = row->slot;
	uint64_t count = slot[GAPS_count].u64, last = slot[GAPS_last_sequence].u64;

	return slot[GAPS_first_sequence].u64 <= acked && last - acked < count ? last - acked : count;
}

static bool is_hole(const struct lake_row *row)
{
	const union lake_slot *slot = row->slot;

	return row->entity == ENTITY_GAPS && slot[GAPS_first_sequence].u64 != LAKE_NULL &&
	       slot[GAPS_last_sequence].u64 == row->sequence && slot[GAPS_count].u64 != LAKE_NULL &&
	       !strcmp(slot[GAPS_room].text->bytes, "spool") && !slot[GAPS_boot].text;
}

// Records are told apart by their sequence: one may be several rows and points.
static void count_new(const struct lake_batch *batch, struct plan *plan)
{
	size_t row = 0, point = 0;
	uint64_t last = plan->acked;

	while (row < batch->row_count || point < batch->point_count) {
		bool is_row = row < batch->row_count && (point >= batch->point_count ||
							 batch->rows[row]->sequence <= batch->points[point]->sequence);
		uint64_t sequence = is_row ? batch->rows[row]->sequence : batch->points[point]->sequence;

		if (is_row && sequence > plan->acked && is_hole(batch->rows[row]))
			plan->lost += hole_count(batch->rows[row], plan->acked);
		else if (sequence > last) {
			plan->records++;
			last = sequence;
		}
		row += is_row;
		point += !is_row;
	}
}

static void plan_batch(struct clickhouse_store *store, const struct lake_batch *batch, uint64_t acked, bool known,
		       struct plan *plan, struct store_result *result)
{
	if (!known)
		acked = batch->after;
	*plan = (struct plan){.acked = acked};
	*result = (struct store_result){.verdict = STORE_STORED, .acked = acked};
	if (batch->first > acked + 1 || acked < batch->after) {
		result->verdict = STORE_SEQUENCE;
		return;
	}
	plan->store = batch->last > acked;
	if (!plan->store)
		return;
	count_new(batch, plan);
	result->acked = batch->last;
	result->records = plan->records;
}

// One host may come several times: the later batch begins where the earlier one ends.
static int plan_all(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count, struct plan *plans,
		    struct store_result *results, bool *ret_any)
{
	*ret_any = false;
	for (size_t i = 0; i < count; i++) {
		struct clickhouse_cursor *cursor = cursor_find(store, batches[i]);
		uint64_t acked = cursor->acked;
		bool known = cursor->known;

		for (size_t j = 0; j < i; j++) {
			if (plans[j].store && batches[j]->host == batches[i]->host &&
			    batches[j]->epoch == batches[i]->epoch) {
				acked = batches[j]->last;
				known = true;
			}
		}
		plan_batch(store, batches[i], acked, known, &plans[i], &results[i]);
		*ret_any |= plans[i].store;
	}
	return 0;
}

// ---- filling and sending ----------------------------------------------------------------------------------

static int add_host(struct group *group, const struct lake_batch *batch, const struct plan *plan, size_t index)
{
	bool fresh;
	// A part for each batch: its number in the group stands for open_id in the table, and never in the row.
	struct clickhouse_part *part =
		clickhouse_part_get(&group->parts, ENTITY_HOSTS, batch->host, UINT64_MAX - index, &fresh);
	char epoch[17];

	if (!part)
		return -ENOMEM;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, batch->epoch);
	part->slot[HOSTS_workspace].text = clickhouse_text(&group->parts.arena, batch->workspace);
	part->slot[HOSTS_host_id].text = clickhouse_text(&group->parts.arena, batch->host_id);
	part->slot[HOSTS_epoch].text = clickhouse_text(&group->parts.arena, epoch);
	part->slot[HOSTS_acked].u64 = batch->last;
	part->slot[HOSTS_first_seen_ns].u64 = part->slot[HOSTS_last_seen_ns].u64 = batch->received_ns;
	part->slot[HOSTS_records].u64 = plan->records;
	part->slot[HOSTS_records_lost].u64 = plan->lost;
	part->slot[HOSTS_values_out_of_range].u64 = plan->records ? batch->values_out_of_range : 0;
	part->at = batch->received_ns;
	part->received_s = batch->received_ns / 1000000000;
	return part->slot[HOSTS_workspace].text && part->slot[HOSTS_host_id].text && part->slot[HOSTS_epoch].text
		       ? 0
		       : -ENOMEM;
}

static int add_batch(struct group *group, struct lake_batch *batch, const struct plan *plan, size_t index)
{
	int err = add_host(group, batch, plan, index);

	for (size_t i = 0; !err && i < batch->row_count; i++) {
		struct lake_row *row = batch->rows[i];

		if (row->sequence <= plan->acked)
			continue;
		if (is_hole(row) && row->slot[GAPS_first_sequence].u64 <= plan->acked) {
			row->slot[GAPS_count].u64 = hole_count(row, plan->acked);
			row->slot[GAPS_first_sequence].u64 = plan->acked + 1;
		}
		err = add_row(group, batch, row);
	}
	for (size_t i = 0; !err && i < batch->point_count; i++) {
		if (batch->points[i]->sequence <= plan->acked)
			continue;
		err = add_point(group, batch, batch->points[i]);
		if (!err && batch->points[i]->kind == SERIES_PROCESS)
			err = clickhouse_living_point(&group->living, batch, batch->points[i]);
	}
	return err;
}

// Living processes that samples moved: a new version of their row, under the same id.
static int add_living(struct group *group)
{
	int err = 0;

	for (size_t i = 0; !err && i < group->living.slot_count; i++) {
		struct clickhouse_life *life = &group->living.slots[i];
		uint64_t row_id = group->batch << CLICKHOUSE_ROW_BITS | group->rows;

		if (!life->process_id || !life->moved || life->ended)
			continue;
		group->rows++;
		err = add_process(group, life->batch, life->row, life->id, row_id);
	}
	return err;
}

int clickhouse_insert(struct clickhouse_store *store, const char *table, const struct buf *rows, uint64_t batch,
		      struct store_error *error)
{
	char query[128], token[96];
	struct clickhouse_request request = {.query = query, .timeout_ms = 90000};

	if (!rows->length)
		return 0;
	request.data = rows->data;
	request.data_length = rows->length;
	snprintf(query, sizeof(query), "INSERT INTO %s FORMAT RowBinary", table);
	// Against a connection that sends the same request twice by itself.
	snprintf(token, sizeof(token), "%" PRIu64, batch);
	clickhouse_setting(&request, "insert_deduplicate", "1");
	clickhouse_setting(&request, "insert_deduplication_token", token);
	clickhouse_setting(&request, "async_insert", "0");
	clickhouse_setting(&request, "max_execution_time", "60");
	if (store->url.replicated)
		clickhouse_setting(&request, "insert_quorum", "auto");
	return clickhouse_http_run(store->http, &request, error);
}

static int send_parts(struct group *group, struct store_error *error)
{
	struct clickhouse_parts *parts = &group->parts;
	int err = 0;

	for (size_t i = 0; i < parts->slot_count; i++) {
		struct clickhouse_part *part = parts->slots[i];

		if (!part)
			continue;
		if (part->open_id > UINT64_MAX / 2)
			part->open_id = 0;
		clickhouse_part_put(&group->entity[part->entity], part, group->batch);
	}
	for (int id = 0; !err && id < ENTITY_END; id++) {
		char table[64];

		if (!clickhouse_has_parts((enum schema_entity_id)id))
			continue;
		snprintf(table, sizeof(table), "%s_part", schema_entities[id].name);
		err = buf_error(&group->entity[id]);
		if (!err)
			err = clickhouse_insert(group->store, table, &group->entity[id], group->batch, error);
	}
	return err;
}

static int send_group(struct group *group, struct store_error *error)
{
	char table[64];
	int err = clickhouse_insert(group->store, "open_rows", &group->open, group->batch, error);

	for (int id = 0; !err && id < ENTITY_END; id++) {
		if (clickhouse_has_parts((enum schema_entity_id)id))
			continue;
		snprintf(table, sizeof(table), "%s_rows", schema_entities[id].name);
		err = clickhouse_insert(group->store, table, &group->entity[id], group->batch, error);
	}
	for (int kind = 0; !err && kind < SERIES_KIND_END; kind++) {
		snprintf(table, sizeof(table), "points_%s", series_schemas[kind].name);
		err = clickhouse_insert(group->store, table, &group->points[kind], group->batch, error);
	}
	return err ? err : send_parts(group, error);
}

// ---- publishing -------------------------------------------------------------------------------------------

// Somebody else was first. Rows made from cursors that have not moved are good all the same.
static int still_good(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
		      struct store_error *error)
{
	struct clickhouse_cursor *before = store->cursors;
	size_t room = store->cursor_room;
	int err;

	store->cursors = NULL;
	store->cursor_count = store->cursor_room = 0;
	err = cursors_load(store, batches, count, error);
	for (size_t i = 0; !err && i < count; i++) {
		struct clickhouse_cursor *old = cursor_at(before, room, batches[i]->host, batches[i]->epoch);
		struct clickhouse_cursor *now = cursor_find(store, batches[i]);

		if (old->known != now->known || old->acked != now->acked) {
			free(before);
			return 0;
		}
	}
	free(before);
	return err < 0 ? err : 1;
}

// 1: published; 0: others moved what the rows were made from; -errno.
static int publish(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count, uint64_t batch,
		   struct store_error *error)
{
	for (int i = 0; i < PUBLISHES; i++) {
		int err = clickhouse_chain_publish(store, "batch", batch, 0, error);

		if (err)
			return err;
		err = still_good(store, batches, count, error);
		if (err <= 0)
			return err;
	}
	return 0;
}

// 1: done; 0: plan again; -errno.
static int attempt(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count, struct plan *plans,
		   struct store_result *results, struct store_error *error)
{
	CLEANUP(group_free) struct group group = {.store = store};
	bool any = false;
	int err;

	if (!store->head)
		cursors_forget(store);
	// Before the cursors are read: drawing may find that the chain has moved, and then forgets them.
	err = clickhouse_chain_draw(store, &group.batch, error);
	if (!err)
		err = cursors_load(store, batches, count, error);
	if (err < 0)
		return err;
	plan_all(store, batches, count, plans, results, &any);
	if (!any)
		return 1;
	err = clickhouse_parts_begin(&group.parts);
	if (!err)
		err = clickhouse_living_begin(&group.living);
	for (size_t i = 0; !err && i < count; i++) {
		if (plans[i].store)
			err = clickhouse_living_wanted(&group.living, batches[i], plans[i].acked);
	}
	if (!err)
		err = clickhouse_living_load(&group.living, store, error);
	for (size_t i = 0; !err && i < count; i++) {
		if (plans[i].store)
			err = add_batch(&group, batches[i], &plans[i], i);
	}
	if (!err)
		err = add_living(&group);
	if (err == -ENOMEM)
		clickhouse_fail(error, err, "out of memory");
	if (!err)
		err = send_group(&group, error);
	return err < 0 ? err : publish(store, batches, count, group.batch, error);
}

static int write_some(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
		      struct store_result *results, struct store_error *error)
{
	CLEANUP(cleanup_free) struct plan *plans = calloc(count, sizeof(*plans));
	int done = 0;

	if (!plans)
		return clickhouse_fail(error, -ENOMEM, "out of memory");
	for (int i = 0; !done && i < ATTEMPTS; i++)
		done = attempt(store, batches, count, plans, results, error);
	if (done <= 0) {
		store->head = 0;
		cursors_forget(store);
		return done < 0 ? done
				: clickhouse_fail(error, -EAGAIN, "other instances keep storing for these hosts");
	}
	for (size_t i = 0; i < count; i++) {
		if (plans[i].store &&
		    cursor_set(store, batches[i]->host, batches[i]->epoch, true, results[i].acked) < 0)
			store->head = 0;
	}
	return 0;
}

int clickhouse_write(struct store *base, struct lake_batch *const *batches, size_t count,
		     struct store_result *ret_results, struct store_error *error)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	size_t begin = 0;

	if (store->options.read_only)
		return clickhouse_fail(error, -EROFS, "the store was opened for reading");
	while (begin < count) {
		size_t end = begin;
		uint64_t rows = 0;
		int err;

		for (; end < count; end++) {
			rows += batches[end]->row_count + batches[end]->point_count;
			if (rows >= CLICKHOUSE_BATCH_ROWS && end > begin)
				break;
		}
		if (rows >= CLICKHOUSE_BATCH_ROWS && end == begin + 1 &&
		    batches[begin]->row_count + batches[begin]->point_count >= CLICKHOUSE_BATCH_ROWS)
			return clickhouse_fail(error, -E2BIG, "a batch of %d rows or more", CLICKHOUSE_BATCH_ROWS);
		err = write_some(store, batches + begin, end - begin, ret_results + begin, error);
		if (err < 0)
			return err;
		begin = end;
	}
	return 0;
}

void clickhouse_cursors_forget(struct clickhouse_store *store)
{
	cursors_forget(store);
}
