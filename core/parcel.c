// SPDX-License-Identifier: Apache-2.0
// Parcel: fields by tag and length. Every length is checked against what is there; nothing here knows what a tag means.
#include "core/parcel.h"

#include <stdlib.h>
#include <string.h>

struct parcel_head {
	uint16_t tag, reserved;
	uint32_t length;
};

void parcel_put(struct buf *out, uint16_t tag, const void *data, size_t length)
{
	const struct parcel_head head = { .tag = tag, .length = (uint32_t)length };

	buf_append(out, &head, sizeof(head));
	buf_append(out, data, length);
}

void parcel_put_u64(struct buf *out, uint16_t tag, uint64_t value)
{
	parcel_put(out, tag, &value, sizeof(value));
}

void parcel_put_string(struct buf *out, uint16_t tag, const char *text)
{
	if (text)
		parcel_put(out, tag, text, strlen(text) + 1);
}

size_t parcel_open(struct buf *out, uint16_t tag)
{
	const struct parcel_head head = { .tag = tag };
	size_t opened = out->length;

	buf_append(out, &head, sizeof(head));
	return opened;
}

void parcel_close(struct buf *out, size_t opened)
{
	uint32_t length = (uint32_t)(out->length - opened - sizeof(struct parcel_head));

	if (!buf_error(out))
		memcpy(out->data + opened + offsetof(struct parcel_head, length), &length, sizeof(length));
}

bool parcel_next(struct parcel *parcel, struct parcel_field *ret_field)
{
	struct parcel_head head;

	if (parcel->at == parcel->end)
		return false;
	parcel->bad = true;
	if ((size_t)(parcel->end - parcel->at) < sizeof(head))
		return false;
	memcpy(&head, parcel->at, sizeof(head));
	if (head.length > (size_t)(parcel->end - parcel->at) - sizeof(head))
		return false;
	parcel->bad = false;
	*ret_field = (struct parcel_field){ head.tag, parcel->at + sizeof(head), head.length };
	parcel->at += sizeof(head) + head.length;
	return true;
}

uint64_t parcel_u64(const struct parcel_field *field)
{
	uint64_t value = 0;

	memcpy(&value, field->data, field->length < sizeof(value) ? field->length : sizeof(value));
	return value;
}

const char *parcel_string(const struct parcel_field *field)
{
	return field->length && !field->data[field->length - 1] ? field->data : NULL;
}

struct parcel parcel_inside(const struct parcel_field *field)
{
	return parcel_of(field->data, field->length);
}

void parcel_put_members(struct buf *out, const struct parcel_member *members, size_t count, const void *from)
{
	for (size_t i = 0; i < count; i++)
		parcel_put(out, members[i].tag, (const char *)from + members[i].offset, members[i].size);
}

static void take(const struct parcel_field *field, const struct parcel_member *member, char *to)
{
	size_t length = field->length < member->size ? field->length : member->size;
	bool truth = false;

	if (member->kind == PARCEL_TRUTH) {
		for (size_t i = 0; i < length; i++)
			truth = truth || ((const char *)field->data)[i];
		memcpy(to, &truth, sizeof(truth));
		return;
	}
	memset(to, 0, member->size);
	memcpy(to, field->data, length);
	if (member->kind == PARCEL_TEXT)
		to[member->size - 1] = 0;
}

bool parcel_take_member(const struct parcel_field *field, const struct parcel_member *members, size_t count, void *to)
{
	for (size_t i = 0; i < count; i++) {
		if (members[i].tag != field->tag)
			continue;
		take(field, &members[i], (char *)to + members[i].offset);
		return true;
	}
	return false;
}

static struct parcel_slot *slot_of(const struct parcel_map *map, uint64_t key)
{
	size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (map->slot_count - 1);

	while (map->slots[at].key && map->slots[at].key != key)
		at = (at + 1) & (map->slot_count - 1);
	return &map->slots[at];
}

static bool map_grow(struct parcel_map *map)
{
	struct parcel_map fresh = { .slot_count = map->slot_count ? map->slot_count * 2 : 1024, .count = map->count };

	if (map->count * 2 < map->slot_count)
		return true;
	fresh.slots = calloc(fresh.slot_count, sizeof(*fresh.slots));
	if (!fresh.slots)
		return false;
	for (size_t i = 0; i < map->slot_count; i++) {
		if (map->slots[i].key)
			*slot_of(&fresh, map->slots[i].key) = map->slots[i];
	}
	free(map->slots);
	*map = fresh;
	return true;
}

void **parcel_map_put(struct parcel_map *map, uint64_t key, bool *ret_new)
{
	struct parcel_slot *slot;

	if (!map_grow(map))
		return NULL;
	slot = slot_of(map, key);
	*ret_new = !slot->key;
	map->count += *ret_new;
	slot->key = key;
	return &slot->value;
}

void *parcel_map_get(const struct parcel_map *map, uint64_t key)
{
	return map->slot_count && key ? slot_of(map, key)->value : NULL;
}

void parcel_map_free(struct parcel_map *map)
{
	free(map->slots);
	*map = (struct parcel_map){ 0 };
}
