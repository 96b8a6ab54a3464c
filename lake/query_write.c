// SPDX-License-Identifier: Apache-2.0
// Query, typed rows as JSON, NDJSON and CSV, straight into a buffer. Numbers, names and order are those of the schema;
// unknown is null, in CSV an empty field. Called for each row: allocates nothing but the buffer's growth.

#include <string.h>

#include "lake/query.h"

// Of a value that is no text: a number with a fraction, its comma, its key's quotes and colon.
enum { VALUE_ROOM = 40 };

struct query_writer query_writer_to(struct buf *out, enum query_format format, const struct schema_entity *entity,
				    const uint8_t *columns, size_t column_count)
{
	struct query_writer writer = {
		.format = format,
		.entity = entity,
		.column_count = columns ? column_count : entity->column_count,
		.out = out,
	};

	for (size_t i = 0; i < writer.column_count; i++) {
		const struct schema_column *column = &entity->columns[columns ? columns[i] : i];

		writer.columns[i] = columns ? columns[i] : (uint8_t)i;
		writer.id[i] = query_column_is_id(column);
		writer.room += column->name_length + VALUE_ROOM;
		if (column->type == SCHEMA_TEXT || column->type == SCHEMA_JSON)
			writer.texts[writer.text_count++] = writer.columns[i];
	}
	return writer;
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

// Nearly every value is a number: those first, without a further call.
static void query_write_value(struct json *json, uint8_t type, bool id, union lake_slot slot)
{
	if (type == SCHEMA_U64) {
		if (slot.u64 == LAKE_NULL)
			json_null(json);
		else if (id)
			query_write_id(json, slot.u64);
		else
			json_u64(json, slot.u64);
		return;
	}
	if (lake_slot_is_null(slot, (enum schema_type)type))
		json_null(json);
	else if (type == SCHEMA_TEXT)
		json_string_n(json, slot.text->bytes, slot.text->length);
	else if (type == SCHEMA_JSON)
		query_write_raw(json, slot.text);
	else if (type == SCHEMA_BOOL)
		json_bool(json, slot.u64 != 0);
	else if (type == SCHEMA_I64)
		json_i64(json, slot.i64);
	else
		json_double(json, slot.f64);
}

void query_write_slot(struct json *json, const struct schema_column *column, union lake_slot slot)
{
	query_write_value(json, column->type, query_column_is_id(column), slot);
}

void query_write_csv(struct buf *out, const char *text, size_t length)
{
	if (!memchr(text, '"', length) && !memchr(text, ',', length) && !memchr(text, '\n', length) &&
	    !memchr(text, '\r', length)) {
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

static void query_write_csv_value(struct buf *out, uint8_t type, union lake_slot slot)
{
	struct json json = json_to(out);

	if (lake_slot_is_null(slot, (enum schema_type)type))
		return;
	if (type == SCHEMA_TEXT || type == SCHEMA_JSON)
		query_write_csv(out, slot.text->bytes, slot.text->length);
	else
		query_write_value(&json, type, false, slot);
}

void query_write_heading(struct query_writer *writer)
{
	if (writer->format != QUERY_CSV)
		return;
	for (size_t i = 0; i < writer->column_count; i++) {
		if (i)
			buf_append_char(writer->out, ',');
		buf_append_string(writer->out, writer->entity->columns[writer->columns[i]].name);
	}
	buf_append(writer->out, "\r\n", 2);
}

static char *query_put(char *next, const char *text, size_t length)
{
	memcpy(next, text, length);
	return next + length;
}

static char *query_put_number(char *next, bool id, uint64_t value)
{
	if (id)
		*next++ = '"';
	next = json_write_u64(next, value);
	if (id)
		*next++ = '"';
	return next;
}

// What is no number of 64 bits without a sign, and no text: the slow way, over the same room.
static char *query_put_other(struct buf *out, char *next, uint8_t type, union lake_slot slot)
{
	struct json json = json_to(out);

	out->length = (size_t)(next - out->data);
	query_write_value(&json, type, false, slot);
	return out->data + out->length;
}

static char *query_put_value(struct buf *out, char *next, uint8_t type, bool id, union lake_slot slot)
{
	if (type == SCHEMA_U64)
		return slot.u64 == LAKE_NULL ? query_put(next, "null", 4) : query_put_number(next, id, slot.u64);
	if (type != SCHEMA_TEXT && type != SCHEMA_JSON)
		return query_put_other(out, next, type, slot);
	if (!slot.text)
		return query_put(next, "null", 4);
	return type == SCHEMA_TEXT ? json_write_string(next, slot.text->bytes, slot.text->length)
				   : query_put(next, slot.text->bytes, slot.text->length);
}

// Room is made once for the whole row: this is where a large answer's time goes.
static void query_write_object(struct query_writer *writer, const union lake_slot *slot)
{
	struct buf *out = writer->out;
	size_t room = writer->room + 4;
	char *next;

	for (size_t i = 0; i < writer->text_count; i++)
		room += slot[writer->texts[i]].text ? JSON_STRING_SIZE(slot[writer->texts[i]].text->length) : 0;
	if (buf_reserve(out, room) < 0)
		return;
	next = out->data + out->length;
	*next++ = writer->compact ? '[' : '{';
	for (size_t i = 0; i < writer->column_count; i++) {
		const struct schema_column *column = &writer->entity->columns[writer->columns[i]];

		if (i)
			*next++ = ',';
		if (!writer->compact) {
			*next++ = '"';
			next = query_put(next, column->name, column->name_length);
			next = query_put(next, "\":", 2);
		}
		next = query_put_value(out, next, column->type, writer->id[i], slot[writer->columns[i]]);
	}
	*next++ = writer->compact ? ']' : '}';
	*next = '\0';
	out->length = (size_t)(next - out->data);
}

static void query_write_line(struct query_writer *writer, const union lake_slot *slot)
{
	for (size_t i = 0; i < writer->column_count; i++) {
		if (i)
			buf_append_char(writer->out, ',');
		query_write_csv_value(writer->out, writer->entity->columns[writer->columns[i]].type,
				      slot[writer->columns[i]]);
	}
	buf_append(writer->out, "\r\n", 2);
}

void query_write_row(struct query_writer *writer, const union lake_slot *slot)
{
	if (writer->format == QUERY_CSV) {
		query_write_line(writer, slot);
	} else {
		if (writer->format == QUERY_JSON && writer->rows)
			buf_append_char(writer->out, ',');
		query_write_object(writer, slot);
		if (writer->format == QUERY_NDJSON)
			buf_append_char(writer->out, '\n');
	}
	writer->rows++;
}
