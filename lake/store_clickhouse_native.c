// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: blocks of columns (format Native) as they come over HTTP, to slots. A block is read column by
// column as its bytes arrive, so that nothing is read twice but a column that has not come whole. Reading never trusts
// a length. ClickHouse writes it in NativeWriter.cpp and SerializationLowCardinality.cpp.
#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lake/store_clickhouse.h"

enum { ROWS_MAX = 1 << 24, ADDITIONAL_KEYS = 1 << 9, GLOBAL_DICTIONARY = 1 << 8 };

struct form {
	bool low_cardinality, nullable, list;
	unsigned width; // of a value; 0: a text
};

static bool begins(const char **text, const char *with)
{
	size_t length = strlen(with);

	if (strncmp(*text, with, length) != 0)
		return false;
	*text += length;
	return true;
}

static bool form_of(const char *type, enum schema_type expected, struct form *ret_form)
{
	bool text = expected == SCHEMA_TEXT || expected == SCHEMA_JSON;

	*ret_form = (struct form){.low_cardinality = begins(&type, "LowCardinality("), .list = begins(&type, "Array(")};
	ret_form->nullable = begins(&type, "Nullable(");
	if (begins(&type, "String"))
		return text && !ret_form->list;
	if (begins(&type, "Bool"))
		ret_form->width = 1;
	else if (begins(&type, "UInt64") || begins(&type, "Int64") || begins(&type, "Float64"))
		ret_form->width = 8;
	if (ret_form->list)
		return text && ret_form->width == 8 && !ret_form->nullable;
	return !text && !ret_form->low_cardinality && ret_form->width == (expected == SCHEMA_BOOL ? 1 : 8);
}

static bool skip(struct clickhouse_cut *cut, uint64_t bytes)
{
	if (cut->left < bytes)
		return false;
	cut->bytes += bytes;
	cut->left -= (size_t)bytes;
	return true;
}

static bool skip_texts(struct clickhouse_cut *cut, uint64_t count)
{
	const char *bytes;
	size_t length;

	for (; count; count--) {
		if (!clickhouse_take_text(cut, &bytes, &length))
			return false;
	}
	return true;
}

static uint64_t number_at(const char *bytes, uint64_t index)
{
	uint64_t value;

	memcpy(&value, bytes + index * 8, 8);
	return le64toh(value);
}

// Whether the column is there whole. ret_bad: it is nothing that can be.
static bool is_whole(struct clickhouse_cut cut, const struct form *form, uint64_t rows, bool *ret_bad)
{
	uint64_t version, kind, keys, indexes;
	const char *ends;

	if (form->low_cardinality) {
		if (!clickhouse_take_u64(&cut, &version) || !clickhouse_take_u64(&cut, &kind) ||
		    !clickhouse_take_u64(&cut, &keys))
			return false;
		*ret_bad = version != 1 || (kind & GLOBAL_DICTIONARY) || !(kind & ADDITIONAL_KEYS) || (kind & 0xff) > 3;
		if (*ret_bad || !skip_texts(&cut, keys) || !clickhouse_take_u64(&cut, &indexes))
			return false;
		*ret_bad = indexes != rows;
		return !*ret_bad && skip(&cut, rows << (kind & 0xff));
	}
	if (form->list) {
		ends = cut.bytes;
		if (!skip(&cut, rows * 8))
			return false;
		for (uint64_t i = 0; i < rows && !*ret_bad; i++)
			*ret_bad = number_at(ends, i) > (uint64_t)1 << 32 ||
				   (i && number_at(ends, i) < number_at(ends, i - 1));
		return !*ret_bad && skip(&cut, number_at(ends, rows - 1) * 8);
	}
	if (form->nullable && !skip(&cut, rows))
		return false;
	return form->width ? skip(&cut, rows * form->width) : skip_texts(&cut, rows);
}

static const struct lake_text *text_of(struct arena *arena, const char *bytes, size_t length)
{
	struct lake_text *text = length < UINT32_MAX ? arena_alloc(arena, sizeof(*text) + length + 1) : NULL;

	if (!text)
		return NULL;
	memset(text, 0, sizeof(*text));
	text->length = (uint32_t)length;
	memcpy(text->bytes, bytes, length);
	text->bytes[length] = '\0';
	return text;
}

// The n-th is at texts[n]. False: out of memory.
static bool take_texts(struct clickhouse_cut *cut, uint64_t count, const char *nulls, struct arena *arena,
		       union lake_slot *texts)
{
	const char *bytes;
	size_t length;

	for (uint64_t i = 0; i < count && clickhouse_take_text(cut, &bytes, &length); i++) {
		texts[i].text = nulls && nulls[i] ? NULL : text_of(arena, bytes, length);
		if (!texts[i].text && !(nulls && nulls[i]))
			return false;
	}
	return true;
}

// Each text of the block once, and for each row which.
static int take_low_cardinality(struct clickhouse_cut *cut, const struct form *form, uint64_t rows, struct arena *arena,
				union lake_slot *slots)
{
	uint64_t version, kind, keys, indexes;
	union lake_slot *texts;
	const unsigned char *at;
	unsigned width;

	clickhouse_take_u64(cut, &version);
	clickhouse_take_u64(cut, &kind);
	clickhouse_take_u64(cut, &keys);
	width = 1U << (kind & 0xff);
	texts = arena_alloc(arena, (keys ? keys : 1) * sizeof(*texts)); // each took at least a byte
	if (!texts || !take_texts(cut, keys, NULL, arena, texts))
		return -ENOMEM;
	if (form->nullable && keys)
		texts[0].text = NULL;
	clickhouse_take_u64(cut, &indexes);
	at = (const unsigned char *)cut->bytes;
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t index = 0;

		for (unsigned b = 0; b < width; b++)
			index |= (uint64_t)at[i * width + b] << (8 * b);
		if (index >= keys)
			return -EBADMSG;
		slots[i] = texts[index];
	}
	skip(cut, rows * width);
	return 0;
}

// A list is a text of its numbers' bytes.
static int take_lists(struct clickhouse_cut *cut, uint64_t rows, struct arena *arena, union lake_slot *slots)
{
	const char *ends = cut->bytes;
	uint64_t begin = 0;

	skip(cut, rows * 8);
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t end = number_at(ends, i);

		slots[i].text = text_of(arena, cut->bytes + begin * 8, (end - begin) * 8);
		if (!slots[i].text)
			return -ENOMEM;
		begin = end;
	}
	skip(cut, begin * 8);
	return 0;
}

static int take_column(struct clickhouse_cut *cut, const struct form *form, enum schema_type type, uint64_t rows,
		       struct arena *arena, union lake_slot *slots)
{
	const char *nulls = form->nullable ? cut->bytes : NULL;
	union lake_slot null = {.u64 = LAKE_NULL};

	if (form->low_cardinality)
		return take_low_cardinality(cut, form, rows, arena, slots);
	if (form->list)
		return take_lists(cut, rows, arena, slots);
	if (nulls)
		skip(cut, rows);
	if (!form->width)
		return take_texts(cut, rows, nulls, arena, slots) ? 0 : -ENOMEM;
	if ((int)type == CLICKHOUSE_SUM)
		null.u64 = CLICKHOUSE_NO_SUM;
	if (type == SCHEMA_I64)
		null.i64 = LAKE_I64_NULL;
	if (type == SCHEMA_F64)
		null.f64 = NAN;
	for (uint64_t i = 0; i < rows; i++) {
		if (nulls && nulls[i])
			slots[i] = null;
		else
			slots[i].u64 = form->width == 1 ? (unsigned char)cut->bytes[i] : number_at(cut->bytes, i);
	}
	skip(cut, rows * form->width);
	return 0;
}

// 1: the block is whole; 0: more bytes are needed; -errno.
static int take_head(struct clickhouse_native *native, struct clickhouse_cut *cut)
{
	struct clickhouse_cut head = *cut;
	union lake_slot *larger;
	uint64_t columns, rows;

	if (!clickhouse_take_varint(&head, &columns) || !clickhouse_take_varint(&head, &rows))
		return 0;
	if (columns != native->type_count || rows > ROWS_MAX)
		return -EBADMSG;
	if (rows * columns > native->room) {
		larger = reallocarray(native->slots, rows * columns, sizeof(*larger));
		if (!larger)
			return -ENOMEM;
		native->slots = larger;
		native->room = rows * columns;
	}
	native->rows = rows;
	native->column = 0;
	native->begun = true;
	*cut = head;
	return 1;
}

static int take_block(struct clickhouse_native *native, struct clickhouse_cut *cut)
{
	int err = native->begun ? 1 : take_head(native, cut);

	while (err == 1 && native->column < native->type_count) {
		enum schema_type type = (enum schema_type)native->types[native->column];
		struct clickhouse_cut column = *cut;
		const char *name, *name_of_type;
		char text[96];
		size_t length;
		struct form form;
		bool bad = false;

		if (!clickhouse_take_text(&column, &name, &length) ||
		    !clickhouse_take_text(&column, &name_of_type, &length))
			return 0;
		if (length >= sizeof(text))
			return -EBADMSG;
		memcpy(text, name_of_type, length);
		text[length] = '\0';
		if (!form_of(text, type, &form))
			return -EBADMSG;
		if (native->rows && !is_whole(column, &form, native->rows, &bad))
			return bad ? -EBADMSG : 0;
		if (native->rows)
			err = take_column(&column, &form, type, native->rows, &native->arena,
					  native->slots + native->column * native->rows);
		if (err < 0)
			return err;
		err = 1;
		native->column++;
		*cut = column;
	}
	return err;
}

static int native_body(void *context, const char *bytes, size_t length)
{
	struct clickhouse_native *native = context;
	struct clickhouse_cut cut;
	int err = 0;

	buf_append(&native->pending, bytes, length);
	if (buf_error(&native->pending) < 0)
		return -ENOMEM;
	cut = (struct clickhouse_cut){.bytes = native->pending.data, .left = native->pending.length};
	while (!err && cut.left) {
		int whole = take_block(native, &cut);

		if (whole <= 0) {
			err = whole;
			break;
		}
		native->begun = false;
		err = native->rows ? native->block(native) : 0;
		arena_reset(&native->arena);
	}
	memmove(native->pending.data, cut.bytes, cut.left);
	native->pending.length = cut.left;
	return err;
}

int clickhouse_native_run(struct clickhouse_http *http, struct clickhouse_request *request,
			  struct clickhouse_native *native, struct store_error *error)
{
	int err;

	arena_init(&native->arena, 256 * 1024);
	request->body = native_body;
	request->context = native;
	clickhouse_setting(request, "default_format", "Native");
	err = clickhouse_http_run(http, request, error);
	if (err == -EBADMSG || (!err && (native->pending.length || native->begun)))
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no whole block");
	arena_free(&native->arena);
	buf_free(&native->pending);
	free(native->slots);
	native->pending = (struct buf)BUF_INIT;
	native->slots = NULL;
	native->room = 0;
	native->begun = false;
	return err;
}
