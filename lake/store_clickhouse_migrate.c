// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: takes over another store, part by part. Each part is one published batch that says how far it goes,
// so that a move that was cut off goes on behind what is there. Rows of processes, gaps and events get numbers of their
// own; everything else keeps its id.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/cleanup.h"
#include "lake/migrate.h"
#include "lake/migrate_prove.h"
#include "lake/store_clickhouse.h"

enum { PART_ROWS = 20000, STAGE_CURSORS = ENTITY_END, STAGE_POINTS, STAGE_ROLLUPS, STAGE_END };

struct moving {
	struct clickhouse_store *to;
	struct store_reader *from, *aside; // aside: asked while from hands out rows
	const struct migrate_hooks *hooks;
	struct store_error *error;
	enum schema_entity_id entity;
	uint64_t batch, rows, now_s;
	uint64_t skip, seen; // of points and roll-ups: there already, and met
	uint64_t stage;
	uint64_t series_id, owner_id; // of the roll-ups that come
	char label[512], workspace[128];
	struct buf table[ENTITY_END], open, lists, rollups, points[SERIES_KIND_END];
	struct clickhouse_parts living; // what living processes bring, and the same taken away from the sums
	struct lake_batch owner; // of a living process
};

static int part_begin(struct moving *moving)
{
	for (int i = 0; i < ENTITY_END; i++)
		buf_reset(&moving->table[i]);
	for (int i = 0; i < SERIES_KIND_END; i++)
		buf_reset(&moving->points[i]);
	buf_reset(&moving->open);
	buf_reset(&moving->lists);
	buf_reset(&moving->rollups);
	clickhouse_parts_free(&moving->living);
	moving->rows = 0;
	if (clickhouse_parts_begin(&moving->living) < 0)
		return store_fail(moving->error, -ENOMEM, "out of memory");
	return clickhouse_chain_draw(moving->to, &moving->batch, moving->error);
}

static void moving_free(struct moving *moving)
{
	for (int i = 0; i < ENTITY_END; i++)
		buf_free(&moving->table[i]);
	for (int i = 0; i < SERIES_KIND_END; i++)
		buf_free(&moving->points[i]);
	buf_free(&moving->open);
	buf_free(&moving->lists);
	buf_free(&moving->rollups);
	clickhouse_parts_free(&moving->living);
	lake_batch_free(&moving->owner);
}

static int send(struct moving *moving, const char *table, const struct buf *rows)
{
	if (buf_error(rows) < 0)
		return store_fail(moving->error, -ENOMEM, "out of memory");
	return clickhouse_insert(moving->to, table, rows, moving->batch, moving->error);
}

// Rows, and how far they go, published as one.
static int part_end(struct moving *moving, uint64_t stage, const char *position)
{
	CLEANUP(buf_free) struct buf progress = BUF_INIT;
	char table[64];
	int err = 0;

	for (size_t i = 0; i < moving->living.slot_count; i++) {
		if (moving->living.slots[i])
			clickhouse_part_put(&moving->table[moving->living.slots[i]->entity], moving->living.slots[i],
					    moving->batch);
	}
	for (int id = 0; !err && id < ENTITY_END; id++) {
		snprintf(table, sizeof(table), "%s_%s", schema_entities[id].name,
			 clickhouse_has_parts((enum schema_entity_id)id) ? "part" : "rows");
		err = send(moving, table, &moving->table[id]);
	}
	for (int kind = 0; !err && kind < SERIES_KIND_END; kind++) {
		snprintf(table, sizeof(table), "points_%s", series_schemas[kind].name);
		err = send(moving, table, &moving->points[kind]);
	}
	err = err ? err : send(moving, "open_rows", &moving->open);
	if (!err && moving->lists.length) { // another token than that of the parts above
		err = clickhouse_insert(moving->to, "runs_part", &moving->lists, moving->batch | UINT64_C(1) << 62,
					moving->error);
	}
	err = err ? err : send(moving, "rollup_steps", &moving->rollups);
	clickhouse_put_u64(&progress, stage);
	clickhouse_put_text(&progress, position, strlen(position));
	clickhouse_put_u32(&progress, (uint32_t)moving->now_s);
	clickhouse_put_u64(&progress, moving->batch);
	err = err ? err : send(moving, "migrate_rows", &progress);
	while (!err)
		err = clickhouse_chain_publish(moving->to, "batch", moving->batch, 0, moving->error);
	if (err < 0)
		return err;
	moving->hooks->progress(moving->hooks->data, stage < ENTITY_END ? schema_entities[stage].name : "series",
				moving->rows);
	return part_begin(moving);
}

// ---- rows -------------------------------------------------------------------------------------------------

static uint64_t moment(enum schema_entity_id entity, const union lake_slot *slot)
{
	static const char *const names[] = {"last_seen_ns", "last_ns", "time_ns", "end_ns", "start_ns", NULL};

	for (size_t i = 0; names[i]; i++) {
		int column = schema_column_find(&schema_entities[entity], names[i]);

		if (column >= 0 && slot[column].u64 != LAKE_NULL)
			return slot[column].u64;
	}
	return 0;
}

// A part with nothing but what it belongs to.
static struct clickhouse_part *part_of(enum schema_entity_id entity, const union lake_slot *slot)
{
	size_t count = schema_entities[entity].column_count;
	struct clickhouse_part *part = calloc(1, sizeof(*part) + count * sizeof(part->slot[0]));

	if (part) {
		part->entity = (uint8_t)entity;
		memcpy(part->slot, slot, count * sizeof(part->slot[0]));
	}
	return part;
}

static int move_part(struct moving *moving, const union lake_slot *slot)
{
	union lake_slot run[RUNS_END];
	CLEANUP(cleanup_free) struct clickhouse_part *part = part_of(moving->entity, slot), *list = NULL;

	if (!part)
		return -ENOMEM;
	part->at = moment(moving->entity, slot);
	part->received_s = moving->now_s;
	if (moving->entity == ENTITY_RUNS && part->slot[RUNS_stitched_id].u64 == 0)
		part->slot[RUNS_stitched_id].u64 = LAKE_NULL;
	clickhouse_part_put(&moving->table[moving->entity], part, moving->batch);
	if (moving->entity != ENTITY_TASKS)
		return buf_error(&moving->table[moving->entity]);
	// How many tasks a run has follows from their ids.
	lake_row_clear(run, &schema_entities[ENTITY_RUNS]);
	run[RUNS_id] = slot[TASKS_run_id];
	run[RUNS_workspace] = slot[TASKS_workspace];
	run[RUNS_host_id] = slot[TASKS_host_id];
	list = part_of(ENTITY_RUNS, run);
	if (!list)
		return -ENOMEM;
	list->list = (uint64_t *)&slot[TASKS_id].u64;
	list->list_count = 1;
	list->received_s = moving->now_s;
	clickhouse_part_put(&moving->lists, list, moving->batch);
	return buf_error(&moving->lists);
}

// The sums that came over have what living processes brought so far. That is made a part which goes when they end,
// and taken out of the sums: modulo 2^64, in two steps, since the greatest number means unknown.
static int take_away(struct moving *moving, struct clickhouse_parts *brought)
{
	for (size_t i = 0; i < brought->slot_count; i++) {
		struct clickhouse_part *part = brought->slots[i];
		const struct schema_entity *entity;

		if (!part)
			continue;
		entity = &schema_entities[part->entity];
		clickhouse_part_put(&moving->table[part->entity], part, moving->batch);
		part->open_id = 0;
		part->at = 0;
		part->list_count = 0;
		for (int step = 0; step < 2; step++) {
			union lake_slot was[SCHEMA_COLUMNS_MAX];

			memcpy(was, part->slot, entity->column_count * sizeof(was[0]));
			for (unsigned c = 0; c < entity->column_count; c++) {
				enum clickhouse_role role = clickhouse_role((enum schema_entity_id)part->entity, c);

				if (role == ROLE_KEY || role == ROLE_ANY)
					continue;
				if (role != ROLE_SUM || part->slot[c].u64 == LAKE_NULL || !part->slot[c].u64)
					part->slot[c].u64 = entity->columns[c].type == SCHEMA_TEXT ||
									    entity->columns[c].type == SCHEMA_JSON
								    ? 0
								    : LAKE_NULL;
				else
					part->slot[c].u64 = step ? 1 : (uint64_t)0 - part->slot[c].u64 - 1;
			}
			clickhouse_part_put(&moving->table[part->entity], part, moving->batch);
			memcpy(part->slot, was, entity->column_count * sizeof(was[0]));
		}
	}
	return 0;
}

static int move_process(struct moving *moving, struct lake_row *row, uint64_t id)
{
	CLEANUP(clickhouse_parts_free) struct clickhouse_parts brought = {0};
	const union lake_slot *slot = row->slot;
	struct buf *out;
	int err = lake_batch_again(&moving->owner, slot[PROCESSES_workspace].text->bytes,
				   slot[PROCESSES_host_id].text->bytes);

	if (err < 0 || !slot[PROCESSES_boot].text)
		return err < 0 ? err : -EILSEQ;
	row->open = slot[PROCESSES_end_ns].u64 == LAKE_NULL;
	out = row->open ? &moving->open : &moving->table[ENTITY_PROCESSES];
	moving->owner.received_ns = moving->now_s * 1000000000;
	err = clickhouse_put_row(out, row, id, moving->owner.received_ns, moving->batch);
	clickhouse_put_u64(out, 0);
	clickhouse_put_u64(out, id);
	clickhouse_put_u64(out, clickhouse_process_id(&moving->owner, row));
	if (err < 0 || !row->open)
		return err < 0 ? err : buf_error(out);
	err = clickhouse_parts_begin(&brought);
	if (!err)
		err = clickhouse_parts_process(&brought, &moving->owner, row, id);
	return err ? err : take_away(moving, &brought);
}

static int move_row(void *data, const union lake_slot *slot)
{
	struct moving *moving = data;
	size_t count = schema_entities[moving->entity].column_count;
	uint64_t id = moving->batch << CLICKHOUSE_ROW_BITS | moving->rows++;
	CLEANUP(cleanup_free) struct lake_row *row = NULL;

	if (clickhouse_has_parts(moving->entity))
		return move_part(moving, slot);
	row = calloc(1, sizeof(*row) + count * sizeof(row->slot[0]));
	if (!row)
		return -ENOMEM;
	row->entity = (uint8_t)moving->entity;
	memcpy(row->slot, slot, count * sizeof(row->slot[0]));
	if (moving->entity == ENTITY_PROCESSES)
		return move_process(moving, row, id);
	return clickhouse_put_row(&moving->table[moving->entity], row, id, moving->now_s * 1000000000, moving->batch);
}

static int move_entity(struct moving *moving, const char *position)
{
	char cursor[STORE_CURSOR_SIZE];
	int err;

	snprintf(cursor, sizeof(cursor), "%s", position);
	do {
		struct store_query query = {.entity = moving->entity, .sort = -1, .limit = PART_ROWS, .cursor = cursor};

		err = store_select(moving->from, &query, move_row, moving, cursor, moving->error);
		if (!err)
			err = part_end(moving, moving->entity + (*cursor ? 0 : 1), cursor);
	} while (!err && *cursor);
	return err;
}

// ---- what is no entity ------------------------------------------------------------------------------------

static int move_cursor(void *data, const struct store_cursor *cursor)
{
	struct moving *moving = data;
	union lake_slot slot[HOSTS_END];
	CLEANUP(cleanup_free) struct clickhouse_part *part = NULL;
	struct arena arena;
	char epoch[17];

	arena_init(&arena, 1024);
	lake_row_clear(slot, &schema_entities[ENTITY_HOSTS]);
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, cursor->epoch);
	slot[HOSTS_id].u64 = lake_id_host(cursor->workspace, cursor->host_id);
	slot[HOSTS_workspace].text = clickhouse_text(&arena, cursor->workspace);
	slot[HOSTS_host_id].text = clickhouse_text(&arena, cursor->host_id);
	slot[HOSTS_epoch].text = clickhouse_text(&arena, epoch);
	slot[HOSTS_acked].u64 = cursor->acked;
	part = part_of(ENTITY_HOSTS, slot);
	if (part && slot[HOSTS_workspace].text && slot[HOSTS_host_id].text && slot[HOSTS_epoch].text)
		clickhouse_part_put(&moving->table[ENTITY_HOSTS], part, moving->batch);
	arena_free(&arena);
	moving->rows++;
	return part ? buf_error(&moving->table[ENTITY_HOSTS]) : -ENOMEM;
}

// Points and roll-ups come in an order of their own: how many are there tells where to go on.
static int move_on(struct moving *moving)
{
	char position[24];

	if (++moving->rows < PART_ROWS)
		return 0;
	snprintf(position, sizeof(position), "%" PRIu64, moving->seen);
	return part_end(moving, moving->stage, position);
}

static int move_point(void *data, const char *workspace, const char *host_id, const struct lake_point *point)
{
	struct moving *moving = data;
	struct buf *out = &moving->points[point->kind];

	if (moving->seen++ < moving->skip)
		return 0;
	clickhouse_put_text(out, workspace, strlen(workspace));
	clickhouse_put_text(out, host_id, strlen(host_id));
	clickhouse_put_u64(out, point->series_id);
	clickhouse_put_u64(out, point->owner_id);
	clickhouse_put_text(out, point->label ? point->label->bytes : "", point->label ? point->label->length : 0);
	clickhouse_put_u64(out, point->time_ns);
	for (unsigned i = 0; i < series_schemas[point->kind].metric_count; i++)
		clickhouse_put_known(out, point->value[i]);
	clickhouse_put_u32(out, (uint32_t)moving->now_s);
	clickhouse_put_u64(out, moving->batch);
	return buf_error(out) < 0 ? -ENOMEM : move_on(moving);
}

static int take_series(void *data, const union lake_slot *slot)
{
	struct moving *moving = data;

	moving->series_id = slot[SERIES_id].u64;
	moving->owner_id = slot[SERIES_owner_id].u64;
	snprintf(moving->label, sizeof(moving->label), "%s", slot[SERIES_label].text->bytes);
	snprintf(moving->workspace, sizeof(moving->workspace), "%s", slot[SERIES_workspace].text->bytes);
	return 0;
}

// Whose a roll-up is. They come by series.
static int series_of(struct moving *moving, uint64_t series_id)
{
	const struct store_filter filter = {.column = SERIES_id, .op = STORE_EQ, .value = {.u64 = series_id}};
	const struct store_query query = {.entity = ENTITY_SERIES, .filters = &filter, .filter_count = 1, .sort = -1};

	if (moving->series_id == series_id)
		return 0;
	moving->series_id = moving->owner_id = 0;
	return store_select(moving->aside, &query, take_series, moving, NULL, moving->error);
}

// The sums that a step was made of. What a step does not tell (over which time a counter did not rise) is all of it.
static void sum_of_step(const struct series_metric *metric, const struct store_step *step, uint64_t level_s,
			struct series_sum *sum)
{
	double scale = metric->real ? 1000 : 1, bound = metric->type == SERIES_COUNTER ? 1000 : scale;

	*sum = (struct series_sum){.count = step->count};
	if (!step->count)
		return;
	sum->sum = (uint64_t)(step->sum * scale + 0.5);
	sum->min = (uint64_t)(step->min * bound + 0.5);
	sum->max = (uint64_t)(step->max * bound + 0.5);
	if (metric->type == SERIES_COUNTER)
		sum->covered_ns =
			step->mean > 0 ? (uint64_t)((double)sum->sum * 1e9 / step->mean + 0.5) : level_s * 1000000000;
}

static int move_rollup(void *data, const struct store_rollup *rollup)
{
	const struct series_schema *schema = &series_schemas[rollup->kind];
	struct moving *moving = data;
	struct series_sum sums[SERIES_METRICS_MAX];
	int err;

	if (moving->seen++ < moving->skip)
		return 0;
	err = series_of(moving, rollup->series_id);
	if (err < 0)
		return err;
	for (unsigned i = 0; i < schema->metric_count; i++)
		sum_of_step(&schema->metrics[i], &rollup->steps[i], rollup->level_s, &sums[i]);
	clickhouse_put_rollup(&moving->rollups,
			      &(struct clickhouse_rollup){.owner_id = moving->owner_id,
							  .series_id = rollup->series_id,
							  .label = moving->label,
							  .workspace = moving->workspace,
							  .kind = rollup->kind,
							  .level_s = rollup->level_s,
							  .time_ns = rollup->time_ns,
							  .sums = sums},
			      moving->now_s, moving->batch);
	return buf_error(&moving->rollups) < 0 ? -ENOMEM : move_on(moving);
}

static int move_stage(struct moving *moving, const char *position)
{
	uint64_t stage = moving->stage;
	int err = 0;

	moving->skip = strtoull(position, NULL, 10);
	moving->seen = 0;
	if (stage < ENTITY_END) {
		moving->entity = (enum schema_entity_id)stage;
		if (stage == ENTITY_WORKSPACES || stage == ENTITY_PIPELINES)
			return 0; // follow from hosts and runs
		return move_entity(moving, position);
	}
	if (stage == STAGE_CURSORS)
		err = store_each_cursor(moving->from, move_cursor, moving, moving->error);
	else if (stage == STAGE_POINTS)
		err = store_each_point(moving->from, move_point, moving, moving->error);
	else
		err = store_each_rollup(moving->from, move_rollup, moving, moving->error);
	return err ? err : part_end(moving, stage + 1, "");
}

// ---- how far ----------------------------------------------------------------------------------------------

static int find_place(struct moving *moving, char *position, size_t size)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {
		.query = "SELECT (SELECT count() FROM chain WHERE kind = 'batch'), count(), argMax(stage, batch), "
			 "argMax(position, batch) FROM migrate_rows WHERE " CLICKHOUSE_PUBLISHED};
	uint64_t published = 0, parts = 0;
	int at = 0, err = clickhouse_http_text(moving->to->http, &request, &text, moving->error);

	if (err < 0)
		return err;
	if (sscanf(text.data, "%" SCNu64 "\t%" SCNu64 "\t%" SCNu64 "\t%n", &published, &parts, &moving->stage, &at) < 3)
		return store_fail(moving->error, -EIO, "ClickHouse: an answer that is no number");
	if (published != parts)
		return store_fail(moving->error, -EEXIST, "the ClickHouse database holds other data than this move's");
	snprintf(position, size, "%s", at ? text.data + at : "");
	return 0;
}

static int move_all(struct moving *moving)
{
	char position[STORE_CURSOR_SIZE] = "";
	int err = find_place(moving, position, sizeof(position));

	if (!err && moving->stage < STAGE_END)
		err = part_begin(moving);
	for (; !err && moving->stage < STAGE_END; moving->stage++) {
		err = move_stage(moving, position);
		position[0] = '\0';
	}
	return err;
}

int migrate_lake(const char *from, const char *to, const struct store_retention *keep,
		 const struct migrate_hooks *hooks, struct store_error *error)
{
	const struct store_options reading = {.read_only = true}, writing = {.create = true, .retention = *keep};
	struct moving moving = {.hooks = hooks, .error = error, .now_s = (uint64_t)time(NULL)};
	struct store *source = NULL, *target = NULL;
	struct store_reader *target_reader = NULL;
	int err;

	if (strncmp(to, "clickhouse:", 11))
		return store_fail(error, -EINVAL, "a lake is moved to clickhouse://USER@HOST:PORT/DATABASE");
	err = store_open(from, &reading, &source, error);
	if (!err)
		err = store_open(to, &writing, &target, error);
	if (!err)
		err = store_reader_open(source, &moving.from, error);
	if (!err)
		err = store_reader_open(source, &moving.aside, error);
	if (!err)
		err = store_reader_open(target, &target_reader, error);
	moving.to = (struct clickhouse_store *)target;
	if (!err)
		err = move_all(&moving);
	if (!err)
		err = migrate_prove(moving.from, target_reader, hooks, error);
	moving_free(&moving);
	store_reader_close(target_reader);
	store_reader_close(moving.aside);
	store_reader_close(moving.from);
	store_close(target);
	store_close(source);
	return err;
}
