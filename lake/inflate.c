// SPDX-License-Identifier: Apache-2.0
// Lake, unpacking: DEFLATE (RFC 1951) of a body that is there as a whole. The bytes may come from anyone: no code is
// used before its table is complete, no distance reaches before the start, nothing is written behind the size that the
// trailer tells but the slack, and that size is believed only as far as so many bytes can hold it.

#include "lake/inflate.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	HEADER_BYTES = 10,
	TRAILER_BYTES = 8,
	RATIO_MAX = 1032, // of DEFLATE: 258 bytes for two bits
	CODE_MAX = 15, // bits
	LITERALS = 288,
	DISTANCES = 32,
	LITERAL_BITS = 11, // what a first look decides; longer codes need a second
	DISTANCE_BITS = 9,
	LITERAL_ROOM = (1 << LITERAL_BITS) + 2048,
	DISTANCE_ROOM = (1 << DISTANCE_BITS) + 2048,
	LENGTHS = 19,
	LENGTH_BITS = 7,
};

// An entry: bits 0 to 4 how many bits the code has, 8 to 12 how many follow (of a second table: by how many it is
// looked into), then what it is, and from bit 16 on the literal, the base, or where the second table begins.
enum {
	LITERAL = 1 << 13,
	SECOND = 1 << 14,
	OTHER = 1 << 15, // end of block, or with no bits: no code
};

struct tables {
	uint32_t literal[LITERAL_ROOM], distance[DISTANCE_ROOM];
};

struct stream {
	const unsigned char *in, *in_end;
	uint64_t bits;
	unsigned count; // of bits that are good
	unsigned beyond; // bytes taken behind the end, as zeros
	unsigned char *out, *out_start, *out_end;
};

static inline uint64_t load(const unsigned char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bits are taken lowest byte first"
#endif

static void refill_at_end(struct stream *s)
{
	while (s->count <= 56) {
		if (s->in < s->in_end)
			s->bits |= (uint64_t)*s->in++ << s->count;
		else
			s->beyond++;
		s->count += 8;
	}
}

// At least 56 bits. Those above count are the next ones already, so that they may be added again.
static inline void refill(struct stream *s)
{
	if (s->in_end - s->in >= 8) {
		s->bits |= load(s->in) << s->count;
		s->in += (63 - s->count) >> 3;
		s->count |= 56;
	} else {
		refill_at_end(s);
	}
}

static inline uint64_t look(const struct stream *s, unsigned count)
{
	return s->bits & ((UINT64_C(1) << count) - 1);
}

static inline void consume(struct stream *s, unsigned count)
{
	s->bits >>= count;
	s->count -= count;
}

static inline uint64_t take(struct stream *s, unsigned count)
{
	uint64_t value = look(s, count);

	consume(s, count);
	return value;
}

// --- tables ---------------------------------------------------------------------------

static unsigned reversed(unsigned code, unsigned bits)
{
	unsigned result = 0;

	for (unsigned i = 0; i < bits; i++)
		result |= (code >> i & 1) << (bits - 1 - i);
	return result;
}

// How many bits of second table the codes need that begin with the same first bits, next being the first of them.
static unsigned second_bits(const uint16_t *left, unsigned length, unsigned first)
{
	unsigned bits = length - first;
	int room = 1 << bits;

	for (; length < CODE_MAX; length++, bits++, room <<= 1) {
		room -= left[length];
		if (room <= 0)
			break;
	}
	return bits;
}

// Where each code's symbol comes in the order of codes; false when they are no prefix code. None at all is one, and
// where it may be alone a single code of one bit.
static bool lengths_sort(const uint8_t *lengths, unsigned count, bool alone, uint16_t *number, uint16_t *sorted)
{
	uint16_t at[CODE_MAX + 2] = {0};
	int left = 1;

	memset(number, 0, (CODE_MAX + 1) * sizeof(*number));
	for (unsigned i = 0; i < count; i++)
		number[lengths[i]]++;
	for (unsigned length = 1; length <= CODE_MAX; length++) {
		left = left * 2 - number[length];
		if (left < 0)
			return false;
		at[length + 1] = (uint16_t)(at[length] + number[length]);
	}
	if (left > 0 && at[CODE_MAX + 1] > 0 && (!alone || at[CODE_MAX + 1] != 1 || number[1] != 1))
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (lengths[i])
			sorted[at[lengths[i]]++] = (uint16_t)i;
	}
	return true;
}

// entries: what each symbol means, without its bits.
static bool table_make(const uint8_t *lengths, unsigned count, const uint32_t *entries, unsigned first, uint32_t *table,
		       unsigned room)
{
	uint16_t number[CODE_MAX + 1], sorted[LITERALS];
	unsigned code = 0, symbol = 0, used = 1u << first, prefix = UINT32_MAX, base = 0, bits = 0;

	if (!lengths_sort(lengths, count, count != LENGTHS, number, sorted))
		return false;
	for (unsigned i = 0; i < used; i++)
		table[i] = OTHER;
	for (unsigned length = 1; length <= CODE_MAX; length++, code <<= 1) {
		for (; number[length]; number[length]--, symbol++, code++) {
			uint32_t entry = entries[sorted[symbol]] | length;
			unsigned at = reversed(code, length);

			if (length <= first) {
				for (; at < 1u << first; at += 1u << length)
					table[at] = entry;
				continue;
			}
			if ((at & ((1u << first) - 1)) != prefix) {
				prefix = at & ((1u << first) - 1);
				bits = second_bits(number, length, first);
				base = used;
				if (used + (1u << bits) > room)
					return false;
				used += 1u << bits;
				table[prefix] = base << 16 | SECOND | bits << 8 | first;
			}
			for (at >>= first; at < 1u << bits; at += 1u << (length - first))
				table[base + at] = entry;
		}
	}
	return true;
}

static const uint16_t length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,	 15,  17,  19,	23, 27,
				       31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t length_extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
				       2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t distance_base[] = {1,    2,    3,	   4,	 5,    7,    9,	   13,	  17,	 25,
					 33,   49,   65,   97,	 129,  193,  257,  385,	  513,	 769,
					 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

static bool tables_make(struct tables *tables, const uint8_t *literals, unsigned literal_count,
			const uint8_t *distances, unsigned distance_count)
{
	uint32_t entries[LITERALS];

	for (unsigned i = 0; i < LITERALS; i++) {
		if (i < 256)
			entries[i] = i << 16 | LITERAL;
		else if (i == 256 || i > 285)
			entries[i] = (uint32_t)(i == 256) << 16 | OTHER;
		else
			entries[i] = (uint32_t)length_base[i - 257] << 16 | (uint32_t)length_extra[i - 257] << 8;
	}
	if (!table_make(literals, literal_count, entries, LITERAL_BITS, tables->literal, LITERAL_ROOM))
		return false;
	for (unsigned i = 0; i < DISTANCES; i++)
		entries[i] = i < 30 ? (uint32_t)distance_base[i] << 16 | (i < 4 ? 0 : i / 2 - 1) << 8 : OTHER;
	return table_make(distances, distance_count, entries, DISTANCE_BITS, tables->distance, DISTANCE_ROOM);
}

static bool tables_fixed(struct tables *tables)
{
	uint8_t lengths[LITERALS], distances[DISTANCES];

	memset(lengths, 8, 144);
	memset(lengths + 144, 9, 112);
	memset(lengths + 256, 7, 24);
	memset(lengths + 280, 8, 8);
	memset(distances, 5, sizeof(distances));
	return tables_make(tables, lengths, LITERALS, distances, DISTANCES);
}

static bool tables_read(struct stream *s, struct tables *tables)
{
	static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
	uint8_t lengths[LITERALS + DISTANCES] = {0};
	unsigned literals, distances, codes, at = 0;
	uint32_t entries[LENGTHS], table[1 << LENGTH_BITS];

	refill(s);
	literals = (unsigned)take(s, 5) + 257;
	distances = (unsigned)take(s, 5) + 1;
	codes = (unsigned)take(s, 4) + 4;
	if (literals > 286 || distances > 30)
		return false;
	for (unsigned i = 0; i < codes; i++) {
		refill(s);
		lengths[order[i]] = (uint8_t)take(s, 3);
	}
	for (unsigned i = 0; i < LENGTHS; i++)
		entries[i] = i << 16;
	// All 19 have at most seven bits, so there is no second table.
	if (!table_make(lengths, LENGTHS, entries, LENGTH_BITS, table, 1 << LENGTH_BITS))
		return false;
	memset(lengths, 0, sizeof(lengths));
	while (at < literals + distances) {
		unsigned symbol, repeat = 1, value;
		uint32_t entry;

		refill(s);
		if (s->beyond > 8)
			return false;
		entry = table[look(s, LENGTH_BITS)];
		if (entry & OTHER)
			return false;
		consume(s, entry & 31);
		symbol = value = entry >> 16;
		if (symbol == 16) {
			if (at == 0)
				return false;
			value = lengths[at - 1];
			repeat = 3 + (unsigned)take(s, 2);
		} else if (symbol > 16) {
			value = 0;
			repeat = symbol == 17 ? 3 + (unsigned)take(s, 3) : 11 + (unsigned)take(s, 7);
		}
		if (repeat > literals + distances - at)
			return false;
		memset(lengths + at, (int)value, repeat);
		at += repeat;
	}
	// Without an end no block is whole.
	return lengths[256] && tables_make(tables, lengths, literals, lengths + literals, distances);
}

// --- blocks ---------------------------------------------------------------------------

static bool block_stored(struct stream *s)
{
	unsigned length, check;

	consume(s, s->count & 7);
	refill(s);
	length = (unsigned)take(s, 16);
	check = (unsigned)take(s, 16);
	// What is still among the bits goes back.
	if (s->beyond > s->count / 8 || (length ^ check) != 0xffff)
		return false;
	s->in -= s->count / 8 - s->beyond;
	s->bits = s->count = s->beyond = 0;
	if (length > (size_t)(s->in_end - s->in) || length > (size_t)(s->out_end - s->out))
		return false;
	memcpy(s->out, s->in, length);
	s->out += length;
	s->in += length;
	return true;
}

// Up to 15 bytes behind out + length are written too.
static inline void match_copy(unsigned char *out, size_t distance, size_t length)
{
	const unsigned char *from = out - distance;
	unsigned char *end = out + length;

	if (distance >= 16) {
		do {
			memcpy(out, from, 16);
			out += 16;
			from += 16;
		} while (out < end);
	} else if (distance >= 8) {
		do {
			memcpy(out, from, 8);
			out += 8;
			from += 8;
		} while (out < end);
	} else {
		do {
			*out++ = *from++;
		} while (out < end);
	}
}

static inline uint32_t second(const uint32_t *table, uint32_t entry, uint64_t bits, unsigned first)
{
	return table[(entry >> 16) + (bits >> first & ((1u << (entry >> 8 & 31)) - 1))];
}

static bool block_coded(struct stream *stream, const struct tables *tables)
{
	const uint32_t *literals = tables->literal, *distances = tables->distance;
	struct stream s = *stream; // kept in registers

	for (;;) {
		uint32_t entry;
		size_t length, distance;

		refill(&s);
		if (s.beyond > 8)
			return false;
		entry = literals[look(&s, LITERAL_BITS)];
		if (entry & LITERAL) {
			if (s.out_end - s.out < 2)
				goto last;
			consume(&s, entry & 31);
			*s.out++ = (unsigned char)(entry >> 16);
			entry = literals[look(&s, LITERAL_BITS)];
			if (entry & LITERAL) {
				consume(&s, entry & 31);
				*s.out++ = (unsigned char)(entry >> 16);
				continue;
			}
			refill(&s);
		}
	last:
		if (entry & SECOND)
			entry = second(literals, entry, s.bits, LITERAL_BITS);
		consume(&s, entry & 31);
		if (entry & LITERAL) {
			if (s.out == s.out_end)
				return false;
			*s.out++ = (unsigned char)(entry >> 16);
			continue;
		}
		if (entry & OTHER) {
			*stream = s;
			return entry >> 16;
		}
		length = (entry >> 16) + take(&s, entry >> 8 & 31);
		entry = distances[look(&s, DISTANCE_BITS)];
		if (entry & SECOND)
			entry = second(distances, entry, s.bits, DISTANCE_BITS);
		consume(&s, entry & 31);
		distance = (entry >> 16) + take(&s, entry >> 8 & 31);
		if (entry & OTHER || distance > (size_t)(s.out - s.out_start) || length > (size_t)(s.out_end - s.out))
			return false;
		match_copy(s.out, distance, length);
		s.out += length;
	}
}

static bool blocks(struct stream *s)
{
	struct tables tables;
	bool last, good;

	do {
		refill(s);
		last = take(s, 1);
		switch (take(s, 2)) {
		case 0:
			good = block_stored(s);
			break;
		case 1:
			good = tables_fixed(&tables) && block_coded(s, &tables);
			break;
		case 2:
			good = tables_read(s, &tables) && block_coded(s, &tables);
			break;
		default:
			good = false;
		}
	} while (good && !last && s->beyond <= 8);
	return good && last && s->beyond <= s->count / 8;
}

// --- gzip ---------------------------------------------------------------------------

// Bytes of the header, 0 when it is none.
static size_t header_size(const unsigned char *data, size_t size)
{
	enum { FLAG_HEADER_CRC = 2, FLAG_EXTRA = 4, FLAG_NAME = 8, FLAG_COMMENT = 16, FLAGS_NONE = 0xe0 };
	size_t at = HEADER_BYTES;

	if (size < HEADER_BYTES + TRAILER_BYTES || data[0] != 0x1f || data[1] != 0x8b || data[2] != 8 ||
	    data[3] & FLAGS_NONE)
		return 0;
	size -= TRAILER_BYTES;
	if (data[3] & FLAG_EXTRA && size - at >= 2)
		at += 2 + (size_t)(data[at] | data[at + 1] << 8);
	for (unsigned flag = FLAG_NAME; flag <= FLAG_COMMENT; flag <<= 1) {
		const unsigned char *end =
			data[3] & flag && at < size ? memchr(data + at, 0, size - at) : data + at - 1;

		if (!end)
			return 0;
		at = (size_t)(end - data) + 1;
	}
	at += data[3] & FLAG_HEADER_CRC ? 2 : 0;
	return at < size ? at : 0;
}

int gzip_inflate(const void *data, size_t size, size_t max, struct buf *out)
{
	const unsigned char *bytes = data, *trailer;
	size_t header = header_size(bytes, size), told;
	struct stream s = {0};

	if (!header)
		return -EBADMSG;
	trailer = bytes + size - TRAILER_BYTES;
	told = (size_t)trailer[4] | (size_t)trailer[5] << 8 | (size_t)trailer[6] << 16 | (size_t)trailer[7] << 24;
	if (told / RATIO_MAX > size)
		return -EBADMSG;
	if (told > max)
		return -E2BIG;
	if (buf_reserve(out, told + INFLATE_SLACK) < 0)
		return -ENOMEM;
	s.in = bytes + header;
	s.in_end = trailer;
	s.out = s.out_start = (unsigned char *)out->data + out->length;
	s.out_end = s.out + told;
	if (!blocks(&s) || s.out != s.out_end || s.in - (s.count / 8 - s.beyond) != trailer) {
		out->data[out->length] = '\0';
		return -EBADMSG;
	}
	out->length += told;
	memset(out->data + out->length, 0, INFLATE_SLACK);
	return 0;
}
