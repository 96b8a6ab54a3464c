// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: the rows that a group of batches becomes, gathered table by table and sent under one number. Knows
// nothing of the chain: what it sends counts when somebody publishes the number.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

void clickhouse_group_free(struct clickhouse_group *group)
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
static int add_process(struct clickhouse_group *group, struct lake_batch *batch, const struct lake_row *row,
		       uint64_t id, uint64_t row_id)
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

static int add_row(struct clickhouse_group *group, struct lake_batch *batch, const struct lake_row *row)
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

static int add_series(struct clickhouse_group *group, const struct lake_batch *batch, const struct lake_point *point)
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

static int add_point(struct clickhouse_group *group, const struct lake_batch *batch, const struct lake_point *point)
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

// ---- filling and sending ----------------------------------------------------------------------------------

static int add_host(struct clickhouse_group *group, const struct lake_batch *batch, const struct clickhouse_plan *plan,
		    size_t index)
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

int clickhouse_group_add(struct clickhouse_group *group, struct lake_batch *batch, const struct clickhouse_plan *plan,
			 size_t index)
{
	int err = add_host(group, batch, plan, index);

	for (size_t i = 0; !err && i < batch->row_count; i++) {
		struct lake_row *row = batch->rows[i];

		if (row->sequence <= plan->acked)
			continue;
		if (clickhouse_is_hole(row) && row->slot[GAPS_first_sequence].u64 <= plan->acked) {
			row->slot[GAPS_count].u64 = clickhouse_hole_count(row, plan->acked);
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

// What a run used in one step. Several batches may bring some of it: a reader adds them up.
static int add_amounts(struct clickhouse_group *group, const struct amounts_step *step)
{
	struct {
		struct lake_point point;
		uint64_t value[AMOUNTS];
	} moment = {.point = {.kind = SERIES_RUN, .owner_id = step->run, .time_ns = step->step * AMOUNTS_STEP_NS}};

	moment.point.series_id = lake_id_series(SERIES_RUN, step->run, "", 0);
	memcpy(moment.point.value, step->value, sizeof(step->value));
	return add_point(group, step->batch, &moment.point);
}

// Living processes that samples moved: a new version of their row, under the same id.
int clickhouse_group_end(struct clickhouse_group *group)
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
	for (size_t i = 0; !err && i < group->living.amounts.slots; i++) {
		if (group->living.amounts.steps[i].run)
			err = add_amounts(group, &group->living.amounts.steps[i]);
	}
	return err;
}

int clickhouse_insert(struct clickhouse_store *store, const char *table, const struct buf *rows, uint64_t batch,
		      struct store_error *error)
{
	CLEANUP(buf_free) struct buf query = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 90000};
	char token[96];

	if (!rows->length)
		return 0;
	// Columns by name: an instance of a later version may have added some.
	buf_printf(&query, "INSERT INTO %s (", table);
	clickhouse_table_columns(table, &query);
	buf_append_string(&query, ") FORMAT RowBinary");
	if (buf_error(&query) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = query.data;
	request.data = rows->data;
	request.data_length = rows->length;
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

static int send_parts(struct clickhouse_group *group, struct store_error *error)
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

int clickhouse_group_send(struct clickhouse_group *group, struct store_error *error)
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
