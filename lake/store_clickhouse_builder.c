// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: the text of a question. Column names come from the schema, everything else goes out as a typed
// parameter, never as part of the text.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lake/store_clickhouse_select.h"

void clickhouse_builder_begin(struct clickhouse_builder *builder)
{
	memset(builder, 0, sizeof(*builder));
	arena_init(&builder->arena, 4096);
	clickhouse_setting(&builder->request, "readonly", "2");
}

void clickhouse_builder_free(struct clickhouse_builder *builder)
{
	buf_free(&builder->text);
	arena_free(&builder->arena);
}

// Adds {pN:Type} to the query and the value to the parameters.
void clickhouse_builder_text(struct clickhouse_builder *builder, const char *type, const char *value, size_t length)
{
	char name[16];
	char *kept_name, *kept;

	snprintf(name, sizeof(name), "p%u", builder->count++);
	kept_name = arena_strndup(&builder->arena, name, strlen(name));
	kept = arena_strndup(&builder->arena, value, length);
	if (!kept_name || !kept) {
		builder->text.failed = true;
		return;
	}
	clickhouse_parameter(&builder->request, kept_name, kept);
	buf_printf(&builder->text, "{%s:%s}", kept_name, type);
}

void clickhouse_builder_u64(struct clickhouse_builder *builder, uint64_t value)
{
	char number[24];

	clickhouse_builder_text(builder, "UInt64", number, (size_t)snprintf(number, sizeof(number), "%" PRIu64, value));
}

void clickhouse_builder_slot(struct clickhouse_builder *builder, union lake_slot slot, enum schema_type type)
{
	char number[40];

	switch (type) {
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		clickhouse_builder_text(builder, "String", slot.text->bytes, slot.text->length);
		break;
	case SCHEMA_BOOL:
		clickhouse_builder_text(builder, "Bool", slot.u64 ? "true" : "false", slot.u64 ? 4 : 5);
		break;
	case SCHEMA_F64:
		clickhouse_builder_text(builder, "Float64", number,
					(size_t)snprintf(number, sizeof(number), "%.17g", slot.f64));
		break;
	case SCHEMA_I64:
		clickhouse_builder_text(builder, "Int64", number,
					(size_t)snprintf(number, sizeof(number), "%" PRId64, slot.i64));
		break;
	default:
		clickhouse_builder_u64(builder, slot.u64);
	}
}

// ---- conditions ---------------------------------------------------------------------------------------------------

static void filter(struct clickhouse_builder *builder, const struct schema_entity *entity, const struct store_filter *f)
{
	static const char *const signs[] = {[STORE_EQ] = " = ",	 [STORE_NE] = " != ", [STORE_LT] = " < ",
					    [STORE_LE] = " <= ", [STORE_GT] = " > ",  [STORE_GE] = " >= "};
	const struct schema_column *column = &entity->columns[f->column];
	enum schema_type type = (enum schema_type)column->type;

	buf_append_string(&builder->text, " AND ");
	switch (f->op) {
	case STORE_IS_NULL:
	case STORE_NOT_NULL:
		buf_printf(&builder->text, "`%s` IS %sNULL", column->name, f->op == STORE_NOT_NULL ? "NOT " : "");
		break;
	case STORE_PREFIX:
		buf_printf(&builder->text, "startsWith(`%s`, ", column->name);
		clickhouse_builder_slot(builder, f->value, type);
		buf_append_char(&builder->text, ')');
		break;
	case STORE_CONTAINS:
		buf_printf(&builder->text, "positionCaseInsensitive(`%s`, ", column->name);
		clickhouse_builder_slot(builder, f->value, type);
		buf_append_string(&builder->text, ") > 0");
		break;
	default:
		buf_printf(&builder->text, "(`%s`%s", column->name, signs[f->op]);
		clickhouse_builder_slot(builder, f->value, type);
		if (f->op == STORE_NE && (column->flags & SCHEMA_N))
			buf_printf(&builder->text, " OR `%s` IS NULL", column->name);
		buf_append_char(&builder->text, ')');
	}
}

static bool filter_fits(const struct schema_entity *entity, const struct store_filter *f)
{
	enum schema_type type;

	if (f->column >= entity->column_count)
		return false;
	type = (enum schema_type)entity->columns[f->column].type;
	if (f->op == STORE_IS_NULL || f->op == STORE_NOT_NULL)
		return true;
	if (lake_slot_is_null(f->value, type))
		return false;
	if (f->op == STORE_PREFIX || f->op == STORE_CONTAINS)
		return type == SCHEMA_TEXT || type == SCHEMA_JSON;
	return true;
}

static int filters(struct clickhouse_builder *builder, const struct store_query *query, bool keys,
		   struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[query->entity];

	if (query->filter_count > STORE_FILTERS_MAX)
		return store_fail(error, -EINVAL, "more than %d conditions", STORE_FILTERS_MAX);
	buf_append_string(&builder->text, " WHERE 1");
	if (query->workspace) {
		buf_append_string(&builder->text, " AND workspace = ");
		clickhouse_builder_text(builder, "String", query->workspace, strlen(query->workspace));
	}
	for (size_t i = 0; i < query->filter_count; i++) {
		if (!filter_fits(entity, &query->filters[i]))
			return store_fail(error, -EINVAL, "a condition that does not fit its column");
		if (!keys || clickhouse_role(query->entity, query->filters[i].column) == ROLE_KEY)
			filter(builder, entity, &query->filters[i]);
	}
	return 0;
}

int clickhouse_builder_where(struct clickhouse_builder *builder, const struct store_query *query,
			     struct store_error *error)
{
	return filters(builder, query, false, error);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

// Of the published parts, put together: only what is needed, for ClickHouse takes its time for each column of a view.
static int parts_source(struct clickhouse_builder *builder, const struct store_query *query, const bool *needed,
			struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	const char *comma = "(SELECT ";
	int err;

	for (unsigned i = 0; i < entity->column_count; i++) {
		if (!needed[i])
			continue;
		buf_append_string(&builder->text, comma);
		clickhouse_put_gathered(&builder->text, query->entity, i);
		comma = ", ";
	}
	buf_printf(&builder->text, " FROM %s_part AS p", entity->name);
	err = filters(builder, query, true, error);
	buf_append_string(&builder->text, " AND " CLICKHOUSE_PARTS);
	if (entity->aggregate >= 0)
		buf_append_string(&builder->text, " AND (open_id = 0 OR open_id IN (SELECT row_id FROM live))");
	comma = " GROUP BY p.";
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (clickhouse_role(query->entity, i) == ROLE_KEY) {
			buf_printf(&builder->text, "%s`%s`", comma, entity->columns[i].name);
			comma = ", p.";
		}
	}
	buf_append_string(&builder->text, ") AS t");
	return err;
}

static int processes_source(struct clickhouse_builder *builder, const struct store_query *query, const bool *needed,
			    struct store_error *error)
{
	static const struct {
		const char *version, *table, *counts;
	} sources[] = {
		{"toUInt64(0)", "processes_rows", CLICKHOUSE_PUBLISHED},
		{"r.row_id", "open_rows", "row_id IN (SELECT row_id FROM live)"},
	};
	const struct schema_entity *entity = &schema_entities[ENTITY_PROCESSES];
	int err = 0;

	for (size_t s = 0; !err && s < sizeof(sources) / sizeof(sources[0]); s++) {
		buf_printf(&builder->text, "%sSELECT %s AS version", s ? " UNION ALL " : "(", sources[s].version);
		for (unsigned i = 0; i < entity->column_count; i++) {
			if (needed[i])
				buf_printf(&builder->text, ", r.`%1$s` AS `%1$s`", entity->columns[i].name);
		}
		buf_printf(&builder->text, " FROM %s AS r", sources[s].table);
		err = clickhouse_builder_where(builder, query, error);
		buf_printf(&builder->text, " AND %s", sources[s].counts);
	}
	buf_append_string(&builder->text, ") AS t");
	return err;
}

int clickhouse_builder_source(struct clickhouse_builder *builder, const struct clickhouse_reading *reading,
			      struct store_error *error)
{
	const struct store_query *query = reading->query;
	bool needed[SCHEMA_COLUMNS_MAX] = {[0] = true};
	int err = 0;

	for (size_t i = 0; i < reading->column_count; i++)
		needed[reading->columns[i]] = true;
	buf_append_string(&builder->text, " FROM ");
	if (query->entity == ENTITY_PROCESSES) {
		err = processes_source(builder, query, needed, error);
		buf_append_string(&builder->text, " WHERE 1");
		return err;
	}
	if (query->workspace)
		needed[schema_column_find(reading->entity, "workspace")] = true;
	for (size_t i = 0; i < query->filter_count; i++) {
		if (query->filters[i].column < reading->entity->column_count)
			needed[query->filters[i].column] = true;
	}
	if (clickhouse_has_parts(query->entity))
		err = parts_source(builder, query, needed, error);
	else
		buf_printf(&builder->text, "`%s` AS t", reading->entity->name);
	return err < 0 ? err : clickhouse_builder_where(builder, query, error);
}

int clickhouse_builder_page(struct clickhouse_builder *builder, const struct store_query *query,
			    struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[query->entity];
	const char *key = entity->columns[0].name, *direction = query->descending ? "DESC" : "ASC";
	int err = clickhouse_page_condition(builder, query, error);

	if (err < 0)
		return err;
	if (query->sort >= 0)
		buf_printf(&builder->text, " ORDER BY `%s` %s NULLS LAST, `%s`", entity->columns[query->sort].name,
			   direction, key);
	else
		buf_printf(&builder->text, " ORDER BY `%s` %s", key, direction);
	if (query->limit)
		buf_printf(&builder->text, " LIMIT %" PRIu64, query->limit + 1);
	return 0;
}
