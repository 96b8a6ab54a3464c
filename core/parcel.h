// SPDX-License-Identifier: Apache-2.0
// Tagged fields, one behind the other, in which one image hands its state to the next: a field has a tag, a length and
// that many bytes, which may be fields again. A reader passes over what it does not know, so both neighbours of a
// version can read it. Numbers are little-endian and may have grown or shrunk in between.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

void parcel_put(struct buf *out, uint16_t tag, const void *data, size_t length);
void parcel_put_u64(struct buf *out, uint16_t tag, uint64_t value);
void parcel_put_string(struct buf *out, uint16_t tag, const char *text); // NULL: no field

// A field of fields: what is put between the two calls. parcel_close() takes what parcel_open() returned.
size_t parcel_open(struct buf *out, uint16_t tag);
void parcel_close(struct buf *out, size_t opened);

struct parcel {
	const char *at, *end;
	bool bad; // a field was cut short
};

struct parcel_field {
	uint16_t tag;
	const char *data;
	uint32_t length;
};

static inline struct parcel parcel_of(const void *data, size_t length)
{
	return (struct parcel){ .at = data, .end = (const char *)data + length };
}

// The next field; false at the end, or when it is cut short.
bool parcel_next(struct parcel *parcel, struct parcel_field *ret_field);

uint64_t parcel_u64(const struct parcel_field *field);
// The text, whose NUL was checked; NULL when the field is none.
const char *parcel_string(const struct parcel_field *field);
struct parcel parcel_inside(const struct parcel_field *field);

// Members of a struct that are numbers, each with a tag that is never used for another.
enum parcel_kind { PARCEL_PLAIN, PARCEL_TRUTH, PARCEL_TEXT };

struct parcel_member {
	uint16_t tag, offset, size;
	uint8_t kind; // enum parcel_kind: what is taken over is 0 or 1, or ends within its size
};

#define PARCEL_KIND(value) _Generic((value), bool: PARCEL_TRUTH, char *: PARCEL_TEXT, default: PARCEL_PLAIN)
#define PARCEL_MEMBER(tag, type, member)                                                                              \
	{ tag, offsetof(type, member), sizeof(((type *)0)->member), PARCEL_KIND(((type *)0)->member) }

void parcel_put_members(struct buf *out, const struct parcel_member *members, size_t count, const void *from);
// True when the field was one of them.
bool parcel_take_member(const struct parcel_field *field, const struct parcel_member *members, size_t count, void *to);

// What was met, by a number that is not 0. Zeroed, then parcel_map_free().
struct parcel_map {
	struct parcel_slot {
		uint64_t key; // 0: free
		void *value;
	} *slots;
	size_t slot_count, count;
};

// Where the value of this key is, NULL at first (*ret_new). NULL when memory is out. Valid until the next call.
void **parcel_map_put(struct parcel_map *map, uint64_t key, bool *ret_new);
void *parcel_map_get(const struct parcel_map *map, uint64_t key); // NULL: none
void parcel_map_free(struct parcel_map *map);
