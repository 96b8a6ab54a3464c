// SPDX-License-Identifier: Apache-2.0
// Query, typed rows as JSON, NDJSON and CSV, straight into a buffer. Numbers, names and order are those of the schema;
// unknown is null, in CSV an empty field. Called for each row: allocates nothing but the buffer's growth.

#include <string.h>

#include "lake/query.h"

struct query_writer query_writer_to(struct buf *out, enum query_format format,
				    const struct schema_entity *entity, const uint8_t *columns,
				    size_t column_count)
{
	return (struct query_writer){
		.format = format,
		.entity = entity,
		.columns = columns,
		.column_count = columns ? column_count : entity->column_count,
		.out = out,
	};
}

static const struct schema_column *query_writer_column(const struct query_writer *writer, size_t i,
						       unsigned *ret_at)
{
	*ret_at = writer->columns ? writer->columns[i] : (unsigned)i;
	return &writer->entity->columns[*ret_at];
}

static void query_write_raw(struct json *json, const struct lake_text *text)
{
	if (json->comma)
		buf_append_char(json->out, ',');
	buf_append(json->out, text->bytes, text->length);
	json->comma = true;
}

static void query_write_id(struct json *json, uint64_t id)
{
	buf_append(json->out, json->comma ? ",\"" : "\"", json->comma ? 2 : 1);
	json->comma = false;
	json_u64(json, id);
	buf_append_char(json->out, '"');
}

void query_write_slot(struct json *json, const struct schema_column *column, union lake_slot slot)
{
	if (lake_slot_is_null(slot, column->type)) {
		json_null(json);
		return;
	}
	switch (column->type) {
	case SCHEMA_U64:
		if (query_column_is_id(column))
			query_write_id(json, slot.u64);
		else
			json_u64(json, slot.u64);
		break;
	case SCHEMA_I64:
		json_i64(json, slot.i64);
		break;
	case SCHEMA_F64:
		json_double(json, slot.f64);
		break;
	case SCHEMA_BOOL:
		json_bool(json, slot.u64 != 0);
		break;
	case SCHEMA_TEXT:
		json_string_n(json, slot.text->bytes, slot.text->length);
		break;
	case SCHEMA_JSON:
		query_write_raw(json, slot.text);
		break;
	}
}

void query_write_csv(struct buf *out, const char *text, size_t length)
{
	if (!memchr(text, '"', length) && !memchr(text, ',', length) &&
	    !memchr(text, '\n', length) && !memchr(text, '\r', length)) {
		buf_append(out, text, length);
		return;
	}
	buf_append_char(out, '"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"')
			buf_append_char(out, '"');
		buf_append_char(out, text[i]);
	}
	buf_append_char(out, '"');
}

static void query_write_csv_slot(struct buf *out, const struct schema_column *column,
				 union lake_slot slot)
{
	struct json json = json_to(out);

	if (lake_slot_is_null(slot, column->type))
		return;
	if (column->type == SCHEMA_TEXT || column->type == SCHEMA_JSON)
		query_write_csv(out, slot.text->bytes, slot.text->length);
	else if (query_column_is_id(column))
		json_u64(&json, slot.u64);
	else
		query_write_slot(&json, column, slot);
}

void query_write_heading(struct query_writer *writer)
{
	unsigned at;

	if (writer->format != QUERY_CSV)
		return;
	for (size_t i = 0; i < writer->column_count; i++) {
		if (i)
			buf_append_char(writer->out, ',');
		buf_append_string(writer->out, query_writer_column(writer, i, &at)->name);
	}
	buf_append(writer->out, "\r\n", 2);
}

static void query_write_object(struct query_writer *writer, const union lake_slot *slot)
{
	struct json json = json_to(writer->out);
	unsigned at;

	buf_append_char(writer->out, writer->compact ? '[' : '{');
	for (size_t i = 0; i < writer->column_count; i++) {
		const struct schema_column *column = query_writer_column(writer, i, &at);

		if (!writer->compact)
			json_key(&json, column->name);
		query_write_slot(&json, column, slot[at]);
	}
	buf_append_char(writer->out, writer->compact ? ']' : '}');
}

void query_write_row(struct query_writer *writer, const union lake_slot *slot)
{
	unsigned at;

	switch (writer->format) {
	case QUERY_JSON:
		if (writer->rows)
			buf_append_char(writer->out, ',');
		query_write_object(writer, slot);
		break;
	case QUERY_NDJSON:
		query_write_object(writer, slot);
		buf_append_char(writer->out, '\n');
		break;
	case QUERY_CSV:
		for (size_t i = 0; i < writer->column_count; i++) {
			const struct schema_column *column = query_writer_column(writer, i, &at);

			if (i)
				buf_append_char(writer->out, ',');
			query_write_csv_slot(writer->out, column, slot[at]);
		}
		buf_append(writer->out, "\r\n", 2);
		break;
	}
	writer->rows++;
}
