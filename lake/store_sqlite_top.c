// SPDX-License-Identifier: Apache-2.0
// Lake, SQLite: where the processes with the most of something are. A reader remembers the greatest value of each zone
// of 256 rows, of the columns it was asked to sort by. Partitions only grow at their end, so what is remembered stays
// true, and only what is new is read. No index is kept for it: the writer pays nothing.

#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_sqlite.h"

enum { TOP_MAPS_MAX = 512, TOP_ZONES_MAX = 4096 };

struct top_map {
	uint64_t partition;
	unsigned column;
	uint64_t first, next; // ids: of the first zone, and behind the last row seen
	uint64_t *most; // of each zone; 0: nothing known in it
	size_t count, room;
};

struct top {
	struct top_map maps[TOP_MAPS_MAX];
	size_t count;
};

void top_free(struct top *top)
{
	for (size_t i = 0; top && i < top->count; i++)
		free(top->maps[i].most);
	free(top);
}

static struct top_map *map_get(struct sqlite_reader *reader, uint64_t partition, unsigned column)
{
	struct top *top = reader->top ? reader->top : calloc(1, sizeof(*top));

	reader->top = top;
	for (size_t i = 0; top && i < top->count; i++) {
		if (top->maps[i].partition == partition && top->maps[i].column == column)
			return &top->maps[i];
	}
	if (!top || top->count == TOP_MAPS_MAX)
		return NULL;
	top->maps[top->count] = (struct top_map){.partition = partition, .column = column};
	return &top->maps[top->count++];
}

static int map_add(struct top_map *map, uint64_t id, uint64_t value)
{
	size_t zone;

	if (!map->count)
		map->first = id - id % TOP_ZONE_ROWS;
	zone = (size_t)((id - map->first) / TOP_ZONE_ROWS);
	if (zone >= map->room) {
		size_t room = zone * 2 + 64;
		uint64_t *most = realloc(map->most, room * sizeof(*most));

		if (!most)
			return -1;
		memset(most + map->room, 0, (room - map->room) * sizeof(*most));
		map->most = most;
		map->room = room;
	}
	if (zone >= map->count)
		map->count = zone + 1;
	if (value > map->most[zone])
		map->most[zone] = value;
	map->next = id + 1;
	return 0;
}

// Reads what came since. False: not all of it could be.
static bool map_renew(struct sqlite_reader *reader, struct top_map *map)
{
	__attribute__((cleanup(cleanup_statement))) sqlite3_stmt *statement = NULL;
	const char *name = schema_entities[ENTITY_PROCESSES].columns[map->column].name;
	struct store_error error;
	char sql[200];
	int step = SQLITE_DONE;

	snprintf(sql, sizeof(sql), "SELECT id,ifnull(%s,0) FROM processes_%llu WHERE id>=%llu", name,
		 (unsigned long long)map->partition, (unsigned long long)map->next);
	if (sqlite_prepare(reader->db, sql, false, &statement, &error) < 0)
		return false;
	while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
		if (map_add(map, (uint64_t)sqlite3_column_int64(statement, 0),
			    (uint64_t)sqlite3_column_int64(statement, 1)) < 0)
			return false;
	}
	return step == SQLITE_DONE;
}

// The smallest on top of a heap of the greatest.
static void heap_put(uint64_t *heap, size_t *used, size_t room, uint64_t value)
{
	size_t at = 0;

	if (*used < room) {
		at = (*used)++;
		for (; at && heap[(at - 1) / 2] > value; at = (at - 1) / 2)
			heap[at] = heap[(at - 1) / 2];
		heap[at] = value;
		return;
	}
	if (value <= heap[0])
		return;
	for (size_t child = 1; child < room; child = 2 * at + 1) {
		if (child + 1 < room && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= value)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = value;
}

uint64_t top_threshold(struct sqlite_reader *reader, unsigned column, const uint64_t *partitions, size_t count,
		       size_t zones)
{
	CLEANUP(cleanup_free) uint64_t *heap = zones && zones <= TOP_ZONES_MAX ? malloc(zones * sizeof(*heap)) : NULL;
	size_t used = 0, all = 0;

	for (size_t i = 0; heap && i < count; i++) {
		struct top_map *map = map_get(reader, partitions[i], column);

		if (!map || !map_renew(reader, map))
			return 0;
		for (size_t zone = 0; zone < map->count; zone++)
			heap_put(heap, &used, zones, map->most[zone]);
		all += map->count;
	}
	// Where it would leave out little it is not worth it.
	return all > 2 * zones && used == zones ? heap[0] : 0;
}

size_t top_zones_put(struct sqlite_reader *reader, struct buf *sql, uint64_t partition, unsigned column,
		     uint64_t threshold)
{
	const struct top_map *map = map_get(reader, partition, column);
	size_t put = 0;

	for (size_t zone = 0; map && zone < map->count; zone++) {
		if (map->most[zone] >= threshold)
			buf_printf(sql, "%s(%llu)", put++ ? "," : "VALUES",
				   (unsigned long long)(map->first + zone * TOP_ZONE_ROWS));
	}
	return put;
}
