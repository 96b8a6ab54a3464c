// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: where agents stand, as this instance knows it. Invariant: what it believes is as of store->head,
// and is forgotten as soon as the chain turns out to have moved without it.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

enum { GROUP_HOSTS = 1000 }; // asked for in one question

static struct clickhouse_cursor *cursor_at(struct clickhouse_cursor *table, size_t room, uint64_t host, uint64_t epoch)
{
	size_t at = (size_t)((host ^ epoch * UINT64_C(0x9e3779b97f4a7c15)) % room);

	while (table[at].host && (table[at].host != host || table[at].epoch != epoch))
		at = (at + 1) % room;
	return &table[at];
}

void clickhouse_cursors_forget(struct clickhouse_store *store)
{
	free(store->cursors);
	store->cursors = NULL;
	store->cursor_count = store->cursor_room = 0;
}

struct clickhouse_cursor *clickhouse_cursor_find(struct clickhouse_store *store, const struct lake_batch *batch)
{
	struct clickhouse_cursor *cursor;

	if (!store->cursor_room)
		return NULL;
	cursor = cursor_at(store->cursors, store->cursor_room, batch->host, batch->epoch);
	return cursor->host ? cursor : NULL;
}

int clickhouse_cursor_set(struct clickhouse_store *store, uint64_t host, uint64_t epoch, bool known, uint64_t acked)
{
	struct clickhouse_cursor *cursor;

	if (store->cursor_count * 2 >= store->cursor_room) {
		size_t room = store->cursor_room ? store->cursor_room * 2 : 256;
		struct clickhouse_cursor *larger = calloc(room, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		for (size_t i = 0; i < store->cursor_room; i++) {
			struct clickhouse_cursor *old = &store->cursors[i];

			if (old->host)
				*cursor_at(larger, room, old->host, old->epoch) = *old;
		}
		free(store->cursors);
		store->cursors = larger;
		store->cursor_room = room;
	}
	cursor = cursor_at(store->cursors, store->cursor_room, host, epoch);
	store->cursor_count += !cursor->host;
	*cursor = (struct clickhouse_cursor){.host = host, .epoch = epoch, .known = known, .acked = acked};
	return 0;
}

static bool take_cursor(struct clickhouse_rows *rows, struct clickhouse_cut *cut, int *ret_stop)
{
	struct clickhouse_store *store = rows->context;
	uint64_t host, acked;
	const char *epoch;
	size_t length;

	if (!clickhouse_take_u64(cut, &host) || !clickhouse_take_text(cut, &epoch, &length) ||
	    !clickhouse_take_u64(cut, &acked))
		return false;
	if (length == 16) {
		char text[17];

		memcpy(text, epoch, 16);
		text[16] = '\0';
		*ret_stop = clickhouse_cursor_set(store, host, strtoull(text, NULL, 16), true, acked);
	}
	return true;
}

static int cursors_ask(struct clickhouse_store *store, struct buf *list, struct store_error *error)
{
	struct clickhouse_request request = {
		.query = "SELECT p.id, assumeNotNull(p.epoch), assumeNotNull(max(p.acked)) FROM hosts_part AS p WHERE "
			 "p.id IN {ids:Array(UInt64)} AND p.epoch IS NOT NULL AND p.acked IS NOT NULL "
			 "AND " CLICKHOUSE_PARTS " GROUP BY p.id, p.epoch",
		.raw_parameters = true,
	};
	struct clickhouse_rows rows = {.row = take_cursor, .context = store};

	buf_append_char(list, ']');
	if (buf_error(list) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	clickhouse_parameter(&request, "ids", list->data);
	if (store->url.replicated)
		clickhouse_setting(&request, "select_sequential_consistency", "1");
	return clickhouse_rows_run(store->http, &request, &rows, error);
}

// Everything that is asked for now is as of head or later; a later state would have moved the chain, which publishing
// finds out. So head comes first.
int clickhouse_cursors_load(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
			    struct store_error *error)
{
	CLEANUP(buf_free) struct buf list = BUF_INIT;
	size_t asked = 0;
	int err = 0;

	if (!store->head) {
		clickhouse_cursors_forget(store);
		err = clickhouse_chain_head(store, error);
	}
	for (size_t i = 0; !err && i < count; i++) {
		if (!clickhouse_cursor_find(store, batches[i])) {
			// Known to be unknown, unless the answer says otherwise.
			err = clickhouse_cursor_set(store, batches[i]->host, batches[i]->epoch, false, 0);
			buf_printf(&list, "%s%" PRIu64, asked ? "," : "[", batches[i]->host);
			asked++;
		}
		if (!err && asked && (asked == GROUP_HOSTS || i + 1 == count)) {
			err = cursors_ask(store, &list, error);
			buf_reset(&list);
			asked = 0;
		}
	}
	if (err < 0) {
		store->head = 0;
		clickhouse_cursors_forget(store);
	}
	return err;
}

// Every epoch of a host counts: what its processes are is moved by any of them.
static bool same(const struct clickhouse_cursor *left, size_t left_room, struct clickhouse_cursor *right,
		 size_t right_room, uint64_t host)
{
	for (size_t i = 0; i < left_room; i++) {
		const struct clickhouse_cursor *one = &left[i], *other;

		if (one->host != host)
			continue;
		other = right_room ? cursor_at(right, right_room, host, one->epoch) : one;
		if (!other->host ? one->known : other->known != one->known || other->acked != one->acked)
			return false;
	}
	return true;
}

int clickhouse_cursors_unmoved(struct clickhouse_store *store, struct lake_batch *const *batches, size_t count,
			       struct store_error *error)
{
	struct clickhouse_cursor *before = store->cursors;
	size_t room = store->cursor_room;
	bool unmoved = true;
	int err;

	store->cursors = NULL;
	store->cursor_count = store->cursor_room = 0;
	err = clickhouse_cursors_load(store, batches, count, error);
	for (size_t i = 0; !err && unmoved && i < count; i++)
		unmoved = same(store->cursors, store->cursor_room, before, room, batches[i]->host);
	free(before);
	return err < 0 ? err : unmoved;
}
