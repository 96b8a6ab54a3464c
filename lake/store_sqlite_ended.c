// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: rows of ended processes on their way into processes_N. Each is written as a record of SQLite's file
// format, https://sqlite.org/fileformat2.html, into a page of a table in memory (lake/store_sqlite_pages.h); when the
// page is full, and before the transaction ends, one statement moves its rows. A statement that is given columns takes
// seven times as long: it looks at each of the 65 of a row four times.
// The index over contexts is moved with them, from a page of its own, in its order.

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/images.h"
#include "lake/store_sqlite.h"
#include "lake/store_sqlite_pages.h"

enum {
	ROWS_PAGE = 2,
	INDEX_PAGE = 3,
	OVERFLOW_PAGE = 4, // and those behind it
	ROWS_MAX = 1024, // of one page
	PAGE_HEADER = 8, // of a leaf
	LOCAL_MAX = PAGES_BYTES - 35, // of a record, in its page
	LOCAL_MIN = (PAGES_BYTES - 12) * 32 / 255 - 23,
	VARINT_BYTES = 9,
	NUMBER_BYTES = 8,
	NUMBERS_BYTES = NUMBER_BYTES * (PROCESSES_END + 2),
	HEADER_BYTES = 2 * PROCESSES_END, // of a record: a byte for a column, more for the few long ones
	INDEX_CELL_BYTES = 5 + 2 * NUMBER_BYTES,
};
_Static_assert(ROWS_MAX * (INDEX_CELL_BYTES + 2) + PAGE_HEADER < PAGES_BYTES, "the index of a page is a page");

// What processes_N has for a pid in its namespace that is not known; null there means that it is the pid.
enum { PID_UNKNOWN = 0xfe }; // -2 in one byte

enum kind { KIND_NUMBER, KIND_DICTIONARY, KIND_TEXT, KIND_IMAGES, KIND_TIME, KIND_PID };

struct indexed {
	uint64_t context, id;
};

struct ended_rows {
	struct pages pages;
	unsigned char *rows, *index; // the two pages
	size_t count, content; // rows in the page; where the lowest of them begins
	uint32_t overflow; // next page
	struct indexed indexed[ROWS_MAX];
	bool sorted; // indexed is
	struct buf images; // packed, of one row
	struct buf record; // body of one row
	struct {
		uint8_t column, kind;
	} columns[PROCESSES_END]; // behind id and context
	size_t column_count;
};

// --- SQLite's records ---------------------------------------------------------------------------

// Big-endian, 7 bits a byte, the ninth has 8. Here up to 2^56.
static size_t varint_length(uint64_t value)
{
	size_t length = 1;

	while (value >>= 7)
		length++;
	return length;
}

static unsigned char *put_varint(unsigned char *at, uint64_t value)
{
	size_t length = varint_length(value);

	if (length >= VARINT_BYTES) {
		at[VARINT_BYTES - 1] = (unsigned char)value;
		value >>= 8;
		length = VARINT_BYTES;
		for (size_t i = VARINT_BYTES - 1; i-- > 0; value >>= 7)
			at[i] = (unsigned char)(value | 0x80);
		return at + VARINT_BYTES;
	}
	for (size_t i = length; i-- > 0; value >>= 7)
		at[i] = (unsigned char)((value & 0x7f) | (i + 1 < length ? 0x80 : 0));
	return at + length;
}

static void put_u16(unsigned char *at, uint64_t value)
{
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}

static void put_u32(unsigned char *at, uint64_t value)
{
	put_u16(at, value >> 16);
	put_u16(at + 2, value);
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are turned around"
#endif

// A number's type and bytes. Room for NUMBER_BYTES at body. Returns its end.
static inline unsigned char *put_number(unsigned char *type, unsigned char *body, uint64_t value)
{
	// By the count of bits: of a number that is not negative, sign included.
	static const uint8_t widths[] = {1, 1, 2, 3, 4, 6, 6, 8, 8}, types[] = {1, 1, 2, 3, 4, 5, 5, 6, 6};
	unsigned bytes;

	if (value <= 1) {
		*type = (unsigned char)(8 + value);
		return body;
	}
	if (value == LAKE_NULL) {
		*type = 0;
		return body;
	}
	bytes = (unsigned)(64 - __builtin_clzll(value)) / 8 + 1;
	*type = types[bytes];
	value = __builtin_bswap64(value << (64 - 8 * widths[bytes]));
	memcpy(body, &value, NUMBER_BYTES);
	return body + widths[bytes];
}

// --- gathering ---------------------------------------------------------------------------

static void columns_fill(struct ended_rows *rows)
{
	for (unsigned i = 0; i < PROCESSES_END; i++) {
		enum kind kind = KIND_NUMBER;

		switch (process_place(i)) {
		case PLACE_ID:
		case PLACE_CONTEXT:
		case PLACE_CONTEXT_DICTIONARY:
			continue;
		case PLACE_ROW_DICTIONARY:
			kind = KIND_DICTIONARY;
			break;
		case PLACE_ROW_TEXT:
			kind = KIND_TEXT;
			break;
		case PLACE_ROW_IMAGES:
			kind = KIND_IMAGES;
			break;
		default:
			kind = i == PROCESSES_time_ns		? KIND_TIME
			       : i == PROCESSES_pid_in_namespace ? KIND_PID
								 : KIND_NUMBER;
		}
		rows->columns[rows->column_count].column = (uint8_t)i;
		rows->columns[rows->column_count++].kind = (uint8_t)kind;
	}
}

int ended_begin(struct sqlite_store *store, struct store_error *error)
{
	CLEANUP(buf_free) struct buf sql = BUF_INIT;
	struct ended_rows *rows = store->ended = calloc(1, sizeof(*store->ended));

	if (!rows)
		return store_fail(error, -ENOMEM, "out of memory");
	columns_fill(rows);
	sqlite_processes_table(&sql, "ended");
	if (buf_error(&sql) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	if (pages_attach(&rows->pages, store->db, "arrived", sql.data) != SQLITE_OK)
		return sqlite_fail(store->db, error, "arrived");
	rows->rows = pages_get(&rows->pages, ROWS_PAGE);
	rows->index = pages_get(&rows->pages, INDEX_PAGE);
	ended_forget(store);
	return 0;
}

void ended_free(struct sqlite_store *store)
{
	if (!store->ended)
		return;
	pages_free(&store->ended->pages);
	buf_free(&store->ended->images);
	buf_free(&store->ended->record);
	free(store->ended);
	store->ended = NULL;
}

void ended_forget(struct sqlite_store *store)
{
	struct ended_rows *rows = store->ended;

	if (!rows)
		return;
	rows->count = 0;
	rows->content = PAGES_BYTES;
	rows->sorted = true;
	pages_drop(&rows->pages, OVERFLOW_PAGE);
	rows->overflow = OVERFLOW_PAGE;
}

static int by_context(const void *a, const void *b)
{
	const struct indexed *left = a, *right = b;

	if (left->context != right->context)
		return left->context < right->context ? -1 : 1;
	return left->id < right->id ? -1 : left->id > right->id;
}

static void page_finish(unsigned char *page, unsigned char type, size_t count, size_t content)
{
	memset(page, 0, PAGE_HEADER);
	page[0] = type;
	put_u16(page + 3, count);
	put_u16(page + 5, content); // 65536 is 0
}

static void index_fill(struct ended_rows *rows)
{
	size_t content = PAGES_BYTES;

	if (!rows->sorted)
		qsort(rows->indexed, rows->count, sizeof(rows->indexed[0]), by_context);
	for (size_t i = 0; i < rows->count; i++) {
		unsigned char cell[INDEX_CELL_BYTES], *end = cell + 4;

		end = put_number(&cell[2], end, rows->indexed[i].context);
		end = put_number(&cell[3], end, rows->indexed[i].id);
		cell[0] = (unsigned char)(end - cell - 1); // of the record
		cell[1] = 3; // of its header
		content -= (size_t)(end - cell);
		memcpy(rows->index + content, cell, (size_t)(end - cell));
		put_u16(rows->index + PAGE_HEADER + 2 * i, content);
	}
	page_finish(rows->index, 0x0a, rows->count, content);
}

int ended_flush(struct sqlite_store *store, struct store_error *error)
{
	struct ended_rows *rows = store->ended;
	size_t count = rows->count;
	int status;

	if (!count)
		return 0;
	page_finish(rows->rows, 0x0d, count, rows->content);
	index_fill(rows);
	status = sqlite_step_once(store->db, store->process_insert, error);
	if (status == 0 && (size_t)sqlite3_changes64(store->db) != count)
		status = store_fail(error, -EILSEQ, "processes: %lld rows of %zu were taken",
				    (long long)sqlite3_changes64(store->db), count);
	ended_forget(store);
	return status;
}

// --- a row ---------------------------------------------------------------------------

// Where the bytes of the row's programs are.
static void images_of(struct ended_rows *rows, const struct lake_row *row, const void **ret_bytes, size_t *ret_length)
{
	*ret_bytes = row->images_packed;
	*ret_length = row->images_packed_size;
	if (row->images_packed || !row->images)
		return;
	buf_reset(&rows->images);
	images_pack(row->images, row->image_count, row->slot[PROCESSES_start_ns].u64, row->slot[PROCESSES_tool].text,
		    &rows->images);
	*ret_bytes = rows->images.data;
	*ret_length = rows->images.length;
}

// The record's header at header (room for HEADER_BYTES), its body in rows->record. Lengths; 0: no memory.
static size_t record_make(struct ended_rows *rows, const struct lake_row *row, uint64_t context, unsigned char *header)
{
	const union lake_slot *slot = row->slot;
	const struct lake_text *args = slot[PROCESSES_args].text;
	const void *images;
	size_t images_length;
	unsigned char *type = header + 1, *body, *begin;

	images_of(rows, row, &images, &images_length);
	buf_reset(&rows->record);
	if (buf_error(&rows->images) < 0 ||
	    buf_reserve(&rows->record, NUMBERS_BYTES + (args ? args->length : 0) + images_length) < 0)
		return 0;
	begin = body = (unsigned char *)rows->record.data;
	*type++ = 0; // id: the row's own number
	body = put_number(type++, body, context);
	for (size_t i = 0; i < rows->column_count; i++) {
		unsigned column = rows->columns[i].column;
		enum kind kind = (enum kind)rows->columns[i].kind;
		uint64_t value = slot[column].u64;

		if (__builtin_expect(kind == KIND_NUMBER, 1)) {
			body = put_number(type++, body, value);
			continue;
		}
		switch (kind) {
		case KIND_NUMBER:
			break;
		case KIND_DICTIONARY:
			// ended_add() has seen to it that the mark is the text's number.
			value = slot[column].text ? slot[column].text->mark : LAKE_NULL;
			break;
		case KIND_TEXT:
			value = LAKE_NULL;
			if (!slot[column].text)
				break;
			type = put_varint(type, 13 + 2 * (uint64_t)slot[column].text->length);
			memcpy(body, slot[column].text->bytes, slot[column].text->length);
			body += slot[column].text->length;
			continue;
		case KIND_IMAGES:
			value = LAKE_NULL;
			if (!images)
				break;
			type = put_varint(type, 12 + 2 * (uint64_t)images_length);
			memcpy(body, images, images_length);
			body += images_length;
			continue;
		case KIND_TIME:
			if (value == slot[PROCESSES_end_ns].u64)
				value = LAKE_NULL;
			break;
		case KIND_PID:
			if (value == LAKE_NULL) {
				*type++ = 1;
				*body++ = PID_UNKNOWN;
				continue;
			}
			if (value == slot[PROCESSES_pid].u64)
				value = LAKE_NULL;
		}
		body = put_number(type++, body, value);
	}
	rows->record.length = (size_t)(body - begin);
	header[0] = (unsigned char)(type - header);
	return (size_t)(type - header);
}
_Static_assert(PROCESSES_END + 2 + 2 * VARINT_BYTES < 128, "a record's header tells its length in one byte");

// What does not fit the page, as a list of pages. 0 or -E2BIG, -ENOMEM.
static int overflow_put(struct ended_rows *rows, const unsigned char *bytes, size_t left)
{
	while (left) {
		size_t part = left < PAGES_BYTES - 4 ? left : PAGES_BYTES - 4;
		unsigned char *page = pages_get(&rows->pages, rows->overflow);

		if (!page)
			return rows->overflow > PAGES_MAX ? -E2BIG : -ENOMEM;
		rows->overflow++;
		put_u32(page, left > part ? rows->overflow : 0);
		memcpy(page + 4, bytes, part);
		bytes += part;
		left -= part;
	}
	return 0;
}

static size_t local_bytes(size_t payload)
{
	size_t local = LOCAL_MIN + (payload - LOCAL_MIN) % (PAGES_BYTES - 4);

	if (payload <= LOCAL_MAX)
		return payload;
	return local <= LOCAL_MAX ? local : LOCAL_MIN;
}

// The row's cell: lengths, number, and of header and body what a page takes.
static int cell_put(struct sqlite_store *store, uint64_t id, const unsigned char *header, size_t header_length,
		    struct store_error *error)
{
	struct ended_rows *rows = store->ended;
	const unsigned char *body = (unsigned char *)rows->record.data;
	size_t payload = header_length + rows->record.length, local = local_bytes(payload);
	unsigned char start[2 * VARINT_BYTES], *end = put_varint(put_varint(start, payload), id), *at;
	size_t length = (size_t)(end - start) + local + (local < payload ? 4 : 0);
	int status = 0;

	if (rows->count == ROWS_MAX || PAGE_HEADER + 2 * (rows->count + 1) + length > rows->content)
		status = ended_flush(store, error);
	if (status < 0)
		return status;
	rows->content -= length;
	at = rows->rows + rows->content;
	memcpy(at, start, (size_t)(end - start));
	at += end - start;
	memcpy(at, header, header_length);
	memcpy(at + header_length, body, local - header_length);
	if (local < payload) {
		put_u32(at + local, rows->overflow);
		status = overflow_put(rows, body + local - header_length, payload - local);
	}
	put_u16(rows->rows + PAGE_HEADER + 2 * rows->count, rows->content);
	if (status < 0)
		return store_fail(error, status, "processes: a row of %zu bytes: %s", payload, strerror(-status));
	return 0;
}

int ended_add(struct sqlite_store *store, const struct lake_row *row, uint64_t context, struct store_error *error)
{
	struct ended_rows *rows = store->ended;
	struct sqlite_partition *partition = &store->partition;
	const union lake_slot *slot = row->slot;
	unsigned char header[HEADER_BYTES];
	size_t header_length;
	uint64_t no;
	int status = 0;

	for (size_t i = 0; status == 0 && i < rows->column_count; i++) {
		if (rows->columns[i].kind == KIND_DICTIONARY)
			status = dictionary_text(store, slot[rows->columns[i].column].text, &no, error);
	}
	if (status < 0)
		return status;
	header_length = record_make(rows, row, context, header);
	if (!header_length)
		return store_fail(error, -ENOMEM, "out of memory");
	status = cell_put(store, partition->next_id, header, header_length, error);
	if (status < 0)
		return status;
	rows->indexed[rows->count] = (struct indexed){context, partition->next_id};
	rows->sorted &= !rows->count || rows->indexed[rows->count - 1].context <= context;
	rows->count++;
	partition->next_id++;
	partition->rows++;
	if (partition->start_min_ns == LAKE_NULL || slot[PROCESSES_start_ns].u64 < partition->start_min_ns)
		partition->start_min_ns = slot[PROCESSES_start_ns].u64;
	if (slot[PROCESSES_end_ns].u64 > partition->end_max_ns)
		partition->end_max_ns = slot[PROCESSES_end_ns].u64;
	return 0;
}
