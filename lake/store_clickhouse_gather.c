// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: parts read in the order of their ids and put together here, as the views do it
// (lake/store_clickhouse_view.c). To let ClickHouse group a hundred thousand tasks costs it ten times what reading them
// does. Parts of living processes count when their row is the latest, which is dear to ask and seldom needed: the first
// question leaves it out, and the first such part begins another one that does not. The same for lists of which several
// parts have some.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse_select.h"

enum { PARTS_OF_A_ROW = 2 }; // asked for, where there is a limit; what they do not fill is asked for again

struct gathering {
	struct clickhouse_reading *reading;
	uint8_t role[SCHEMA_COLUMNS_MAX]; // enum clickhouse_role, by place among the columns read
	uint8_t types[SCHEMA_COLUMNS_MAX + 3];
	size_t type_count;
	int at, open, root; // places of these in a block; -1: not read
	bool living, lists; // the question tells which processes live; lists come as such
	bool again; // with what was switched on
	bool stopped; // by whom the rows are given to
	uint64_t parts;
	// The row that parts are put together to.
	bool any;
	union lake_slot slot[SCHEMA_COLUMNS_MAX]; // by place
	uint64_t latest[SCHEMA_COLUMNS_MAX]; // by place: of which moment the value is
	uint64_t row_at, row_root; // of the latest part; of the part that the root columns are of
	struct arena texts[2]; // of a row that goes on in the next block: the one in use, and the other
};

// ---- putting together ---------------------------------------------------------------------------------------------

static bool is_text(const struct gathering *g, size_t place)
{
	return g->types[place] == SCHEMA_TEXT || g->types[place] == SCHEMA_JSON;
}

static bool is_null(const struct gathering *g, size_t place, union lake_slot slot)
{
	return lake_slot_is_null(slot, (enum schema_type)g->types[place]);
}

static bool is_greater(const struct gathering *g, size_t place, union lake_slot a, union lake_slot b)
{
	uint32_t length;
	int order;

	if (!is_text(g, place))
		return a.u64 > b.u64;
	length = a.text->length < b.text->length ? a.text->length : b.text->length;
	order = memcmp(a.text->bytes, b.text->bytes, length);
	return order ? order > 0 : a.text->length > b.text->length;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

// Both lists as one, each number once.
static int join_lists(struct gathering *g, union lake_slot *slot, const struct lake_text *more)
{
	uint32_t length = slot->text->length + more->length, kept = 0;
	struct lake_text *both;

	if (!more->length)
		return 0;
	both = length < more->length ? NULL : arena_alloc(&g->texts[0], sizeof(*both) + length);
	if (!both)
		return -ENOMEM;
	memset(both, 0, sizeof(*both));
	memcpy(both->bytes, slot->text->bytes, slot->text->length);
	memcpy(both->bytes + slot->text->length, more->bytes, more->length);
	qsort(both->bytes, length / 8, 8, by_number);
	for (uint32_t i = 0; i < length; i += 8) {
		if (!kept || memcmp(both->bytes + i, both->bytes + kept - 8, 8) != 0) {
			memmove(both->bytes + kept, both->bytes + i, 8);
			kept += 8;
		}
	}
	both->length = kept;
	slot->text = both;
	return 0;
}

static int merge_distinct(struct gathering *g, size_t place, union lake_slot value)
{
	if (g->lists)
		return join_lists(g, &g->slot[place], value.text);
	if (value.u64 && g->slot[place].u64) {
		g->lists = g->again = true;
		return -ECANCELED;
	}
	g->slot[place].u64 += value.u64;
	return 0;
}

// One column of another part. at: its moment; root: it has the earlier root.
static int merge(struct gathering *g, size_t place, union lake_slot value, uint64_t at, bool root)
{
	union lake_slot *slot = &g->slot[place];
	bool null = is_null(g, place, value), unknown = is_null(g, place, *slot);

	switch ((enum clickhouse_role)g->role[place]) {
	case ROLE_KEY:
		break;
	case ROLE_LATEST:
		if (!null && (unknown || at > g->latest[place])) {
			*slot = value;
			g->latest[place] = at;
		}
		break;
	case ROLE_REPLACE:
		if (at > g->row_at)
			*slot = value;
		break;
	case ROLE_ROOT:
		if (root)
			*slot = value;
		break;
	case ROLE_ANY:
	case ROLE_MAX:
		if (!null && (unknown || is_greater(g, place, value, *slot)))
			*slot = value;
		break;
	case ROLE_MIN:
		if (!null && (unknown || is_greater(g, place, *slot, value)))
			*slot = value;
		break;
	case ROLE_SUM:
		if (value.u64 != CLICKHOUSE_NO_SUM)
			slot->u64 = (slot->u64 == CLICKHOUSE_NO_SUM ? 0 : slot->u64) + value.u64;
		break;
	case ROLE_DISTINCT:
		return merge_distinct(g, place, value);
	}
	return 0;
}

static union lake_slot at_place(const struct clickhouse_native *block, size_t place, uint64_t row)
{
	return block->slots[place * block->rows + row];
}

static uint64_t number(const struct clickhouse_native *block, int place, uint64_t row)
{
	return place < 0 ? LAKE_NULL : at_place(block, (size_t)place, row).u64;
}

static void begin_row(struct gathering *g, const struct clickhouse_native *block, uint64_t row)
{
	g->any = true;
	g->row_at = number(block, g->at, row);
	g->row_root = number(block, g->root, row);
	for (size_t i = 0; i < g->reading->column_count; i++) {
		g->slot[i] = at_place(block, i, row);
		g->latest[i] = g->row_at;
	}
}

static int merge_row(struct gathering *g, const struct clickhouse_native *block, uint64_t row)
{
	uint64_t at = number(block, g->at, row), start = number(block, g->root, row);
	bool root = start != LAKE_NULL && (g->row_root == LAKE_NULL || start < g->row_root);
	int err = 0;

	for (size_t i = 0; !err && i < g->reading->column_count; i++)
		err = merge(g, i, at_place(block, i, row), at, root);
	if (root)
		g->row_root = start;
	if (g->at >= 0 && at > g->row_at)
		g->row_at = at;
	return err;
}

static int give(struct gathering *g)
{
	struct clickhouse_reading *reading = g->reading;
	int stop;

	g->any = false;
	for (size_t i = 0; i < reading->column_count; i++) {
		unsigned column = reading->columns[i];
		bool needed = !(reading->entity->columns[column].flags & SCHEMA_N);
		union lake_slot slot = g->slot[i];

		if (g->role[i] == ROLE_SUM && slot.u64 == CLICKHOUSE_NO_SUM)
			slot.u64 = needed ? 0 : LAKE_NULL;
		else if (g->role[i] == ROLE_SUM && slot.u64 > LAKE_U64_MAX)
			slot.u64 = LAKE_U64_MAX;
		if (g->role[i] == ROLE_DISTINCT && g->lists)
			slot.u64 = slot.text->length / 8;
		if (reading->query->entity == ENTITY_RUNS && column == RUNS_stitched_id && !slot.u64)
			slot.u64 = LAKE_NULL; // taken back
		reading->slot[column] = slot;
	}
	stop = clickhouse_reading_give(reading);
	g->stopped = stop != 0;
	return stop;
}

// Texts of a row that goes on outlive their block.
static int keep_texts(struct gathering *g)
{
	struct arena filled;

	for (size_t i = 0; i < g->reading->column_count; i++) {
		const struct lake_text *text = g->slot[i].text;
		struct lake_text *copy;

		if (!is_text(g, i) || !text)
			continue;
		copy = arena_alloc(&g->texts[1], sizeof(*copy) + text->length + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, text, sizeof(*copy) + text->length);
		copy->bytes[text->length] = '\0';
		g->slot[i].text = copy;
	}
	filled = g->texts[1];
	g->texts[1] = g->texts[0];
	g->texts[0] = filled;
	arena_reset(&g->texts[1]);
	return 0;
}

static int take_block(struct clickhouse_native *block)
{
	struct gathering *g = block->context;
	int err = 0;

	for (uint64_t row = 0; !err && row < block->rows; row++) {
		g->parts++;
		if (g->any && g->slot[0].u64 != at_place(block, 0, row).u64) {
			err = give(g);
			if (!err && g->reading->more)
				return -ECANCELED;
		}
		if (!err && g->open >= 0 && !g->living && at_place(block, (size_t)g->open, row).u64) {
			g->living = g->again = true;
			return -ECANCELED;
		}
		if (!err && g->any)
			err = merge_row(g, block, row);
		else if (!err)
			begin_row(g, block, row);
	}
	if (!err && g->any)
		err = keep_texts(g);
	return err;
}

// ---- the question -------------------------------------------------------------------------------------------------

bool clickhouse_gathers(const struct store_query *query)
{
	if (!clickhouse_has_parts(query->entity) || query->entity == ENTITY_HOSTS || query->sort > 0 ||
	    query->descending)
		return false; // of a host the latest epoch counts
	for (size_t i = 0; i < query->filter_count; i++) {
		if (query->filters[i].column >= schema_entities[query->entity].column_count ||
		    clickhouse_role(query->entity, query->filters[i].column) != ROLE_KEY)
			return false;
	}
	return true;
}

static int place(struct gathering *g, struct buf *out, bool wanted, const char *name)
{
	if (!wanted)
		return -1;
	buf_printf(out, ", t.`%s`", name);
	g->types[g->type_count] = SCHEMA_U64;
	return (int)g->type_count++;
}

static void select_list(struct gathering *g, struct buf *out)
{
	const struct clickhouse_reading *reading = g->reading;
	const struct schema_entity *entity = reading->entity;
	bool moment = false, root = false;

	buf_append_string(out, "SELECT ");
	for (size_t i = 0; i < reading->column_count; i++) {
		const struct schema_column *column = &entity->columns[reading->columns[i]];
		enum clickhouse_role role = clickhouse_role(reading->query->entity, reading->columns[i]);
		bool list = role == ROLE_DISTINCT;

		g->role[i] = (uint8_t)role;
		g->types[i] = list && g->lists ? SCHEMA_TEXT : role == ROLE_SUM ? CLICKHOUSE_SUM : column->type;
		moment |= role == ROLE_LATEST || role == ROLE_REPLACE;
		root |= role == ROLE_ROOT;
		buf_append_string(out, i ? ", " : "");
		if (list && !g->lists)
			buf_printf(out, "length(t.`%s`)", column->name);
		else
			buf_printf(out, "t.`%s`", column->name);
	}
	g->type_count = reading->column_count;
	g->at = place(g, out, moment, "at");
	g->open = place(g, out, entity->aggregate >= 0, "open_id");
	g->root = place(g, out, root, "root_start_ns");
}

static int ask(struct gathering *g, uint64_t rows, struct store_error *error)
{
	struct clickhouse_reading *reading = g->reading;
	CLEANUP(clickhouse_builder_free) struct clickhouse_builder builder;
	struct clickhouse_native native = {.types = g->types, .block = take_block, .context = g};
	int err;

	clickhouse_builder_begin(&builder);
	select_list(g, &builder.text);
	native.type_count = g->type_count;
	buf_printf(&builder.text, " FROM %s_part AS t", reading->entity->name);
	err = clickhouse_builder_where(&builder, reading->query, error);
	if (!err && !reading->given)
		err = clickhouse_page_condition(&builder, reading->query, error);
	if (err < 0)
		return err;
	if (reading->given) {
		buf_append_string(&builder.text, " AND t.id > ");
		clickhouse_builder_u64(&builder, reading->slot[0].u64);
	}
	if (reading->ids)
		buf_printf(&builder.text, " AND t.id IN (%s)", reading->ids);
	buf_append_string(&builder.text, " AND " CLICKHOUSE_PARTS);
	if (g->living)
		buf_append_string(&builder.text, " AND (open_id = 0 OR open_id IN (SELECT row_id FROM live))");
	buf_append_string(&builder.text, " ORDER BY t.id");
	if (rows)
		buf_printf(&builder.text, " LIMIT %" PRIu64 " WITH TIES", rows);
	return clickhouse_reading_run(reading, &builder, &native, error);
}

int clickhouse_gather(struct clickhouse_reading *reading, struct store_error *error)
{
	CLEANUP(cleanup_free) struct gathering *g = calloc(1, sizeof(*g));
	uint64_t rows = reading->limit ? (reading->limit + 1) * PARTS_OF_A_ROW : 0;
	int err;

	if (!g)
		return store_fail(error, -ENOMEM, "out of memory");
	g->reading = reading;
	arena_init(&g->texts[0], 4096);
	arena_init(&g->texts[1], 4096);
	do {
		g->any = g->again = false;
		g->parts = 0;
		err = ask(g, rows, error);
		if (!err && g->any)
			err = give(g);
		if (err == -ECANCELED && !g->stopped)
			err = 0;
	} while (!err && !reading->more && (g->again || (rows && g->parts >= rows)));
	arena_free(&g->texts[0]);
	arena_free(&g->texts[1]);
	return err;
}
