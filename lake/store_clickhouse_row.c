// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: values as bytes of RowBinary, to and from. Little-endian, a byte in front of what may be null,
// texts with a varint of their length. Reading never trusts a length.
#include <errno.h>
#include <math.h>
#include <string.h>

#include "lake/store_clickhouse.h"

void clickhouse_put_u64(struct buf *out, uint64_t value)
{
	unsigned char bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	buf_append(out, bytes, sizeof(bytes));
}

void clickhouse_put_u32(struct buf *out, uint32_t value)
{
	unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8), (unsigned char)(value >> 16),
				  (unsigned char)(value >> 24)};

	buf_append(out, bytes, sizeof(bytes));
}

void clickhouse_put_varint(struct buf *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buf_append_char(out, (char)(value | 0x80));
	buf_append_char(out, (char)value);
}

void clickhouse_put_text(struct buf *out, const char *bytes, size_t length)
{
	clickhouse_put_varint(out, length);
	buf_append(out, bytes, length);
}

void clickhouse_put_known(struct buf *out, uint64_t value)
{
	buf_append_char(out, value == LAKE_NULL);
	if (value != LAKE_NULL)
		clickhouse_put_u64(out, value);
}

void clickhouse_put_slot(struct buf *out, union lake_slot slot, enum schema_type type, bool nullable)
{
	bool null = lake_slot_is_null(slot, type);

	if (nullable) {
		buf_append_char(out, null);
		if (null)
			return;
	}
	switch (type) {
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		clickhouse_put_text(out, null ? "" : slot.text->bytes, null ? 0 : slot.text->length);
		break;
	case SCHEMA_BOOL:
		buf_append_char(out, !null && slot.u64);
		break;
	default: // the three others are the same eight bytes
		clickhouse_put_u64(out, null ? 0 : slot.u64);
	}
}

const struct lake_text *clickhouse_text(struct arena *arena, const char *text)
{
	size_t length = strlen(text);
	struct lake_text *copy = arena_alloc(arena, sizeof(*copy) + length + 1);

	if (!copy)
		return NULL;
	memset(copy, 0, sizeof(*copy));
	copy->length = (uint32_t)length;
	memcpy(copy->bytes, text, length + 1);
	return copy;
}

// ---- reading ------------------------------------------------------------------------------------------------------

static bool take(struct clickhouse_cut *cut, void *to, size_t size)
{
	if (cut->left < size)
		return false;
	memcpy(to, cut->bytes, size);
	cut->bytes += size;
	cut->left -= size;
	return true;
}

bool clickhouse_take_u64(struct clickhouse_cut *cut, uint64_t *ret_value)
{
	unsigned char bytes[8];

	if (!take(cut, bytes, sizeof(bytes)))
		return false;
	*ret_value = 0;
	for (int i = 0; i < 8; i++)
		*ret_value |= (uint64_t)bytes[i] << (8 * i);
	return true;
}

bool clickhouse_take_known(struct clickhouse_cut *cut, uint64_t *ret_value)
{
	unsigned char null;

	if (!take(cut, &null, 1))
		return false;
	*ret_value = LAKE_NULL;
	return null || clickhouse_take_u64(cut, ret_value);
}

bool clickhouse_take_f64(struct clickhouse_cut *cut, double *ret_value)
{
	uint64_t bits;

	if (!clickhouse_take_u64(cut, &bits))
		return false;
	memcpy(ret_value, &bits, sizeof(bits));
	return true;
}

bool clickhouse_take_varint(struct clickhouse_cut *cut, uint64_t *ret_value)
{
	unsigned char byte = 0x80;

	*ret_value = 0;
	for (int shift = 0; byte & 0x80; shift += 7) {
		if (shift > 56 || !take(cut, &byte, 1))
			return false;
		*ret_value |= (uint64_t)(byte & 0x7f) << shift;
	}
	return true;
}

bool clickhouse_take_list(struct clickhouse_cut *cut, uint64_t *values, size_t room)
{
	uint64_t count, value;

	if (!clickhouse_take_varint(cut, &count) || count > cut->left / 8)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		if (!clickhouse_take_u64(cut, i < room ? &values[i] : &value))
			return false;
	}
	return true;
}

bool clickhouse_take_text(struct clickhouse_cut *cut, const char **ret_bytes, size_t *ret_length)
{
	uint64_t length;

	if (!clickhouse_take_varint(cut, &length) || length > cut->left)
		return false;
	*ret_bytes = cut->bytes;
	*ret_length = (size_t)length;
	cut->bytes += length;
	cut->left -= (size_t)length;
	return true;
}

static bool take_text_slot(struct clickhouse_cut *cut, struct arena *arena, union lake_slot *ret_slot)
{
	struct lake_text *text;
	const char *bytes;
	size_t length;

	if (!clickhouse_take_text(cut, &bytes, &length) || length > UINT32_MAX)
		return false;
	text = arena_alloc(arena, sizeof(*text) + length + 1);
	if (!text) {
		cut->out_of_memory = true;
		return false;
	}
	memset(text, 0, sizeof(*text));
	text->length = (uint32_t)length;
	memcpy(text->bytes, bytes, length);
	text->bytes[length] = '\0';
	ret_slot->text = text;
	return true;
}

// Everything comes as Nullable: the query makes it so.
bool clickhouse_take_slot(struct clickhouse_cut *cut, enum schema_type type, struct arena *arena,
			  union lake_slot *ret_slot)
{
	unsigned char byte;

	if (!take(cut, &byte, 1))
		return false;
	switch (type) {
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		ret_slot->text = NULL;
		return byte || take_text_slot(cut, arena, ret_slot);
	case SCHEMA_BOOL:
		ret_slot->u64 = LAKE_NULL;
		if (byte)
			return true;
		if (!take(cut, &byte, 1))
			return false;
		ret_slot->u64 = byte;
		return true;
	case SCHEMA_F64:
		ret_slot->f64 = NAN;
		return byte || clickhouse_take_f64(cut, &ret_slot->f64);
	case SCHEMA_I64:
		ret_slot->i64 = LAKE_I64_NULL;
		return byte || clickhouse_take_u64(cut, &ret_slot->u64);
	default:
		ret_slot->u64 = LAKE_NULL;
		return byte || clickhouse_take_u64(cut, &ret_slot->u64);
	}
}

// Feeds whole rows to row, which says by false that the bytes end in the middle of one; the rest waits for more.
int clickhouse_rows_body(void *context, const char *bytes, size_t length)
{
	struct clickhouse_rows *rows = context;
	struct clickhouse_cut cut;
	int err = 0;

	buf_append(&rows->pending, bytes, length);
	if (buf_error(&rows->pending) < 0)
		return -ENOMEM;
	cut = (struct clickhouse_cut){.bytes = rows->pending.data, .left = rows->pending.length};
	while (cut.left && !err) {
		struct clickhouse_cut row = cut;

		if (!rows->row(rows, &row, &err)) {
			if (row.out_of_memory)
				return -ENOMEM;
			break;
		}
		cut = row;
	}
	memmove(rows->pending.data, cut.bytes, cut.left);
	rows->pending.length = cut.left;
	return err;
}

int clickhouse_rows_run(struct clickhouse_http *http, struct clickhouse_request *request, struct clickhouse_rows *rows,
			struct store_error *error)
{
	int err;

	request->body = clickhouse_rows_body;
	request->context = rows;
	clickhouse_setting(request, "default_format", "RowBinary");
	err = clickhouse_http_run(http, request, error);
	if (!err && rows->pending.length)
		err = store_fail(error, -EIO, "ClickHouse: the answer ends in the middle of a row");
	buf_free(&rows->pending);
	rows->pending = (struct buf)BUF_INIT;
	return err;
}
