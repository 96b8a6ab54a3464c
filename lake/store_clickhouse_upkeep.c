// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: rounds of upkeep. What dead and beaten instances left behind is removed, and so are rows of living
// processes that a later one replaced. Neither was ever seen, or is seen any more, by a reader, so when it happens does
// not matter. Several instances may do this at once.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/store_clickhouse.h"

#define ROUND_NS (UINT64_C(300) * 1000000000)
#define ROLLUP_NS (UINT64_C(60) * 1000000000)

enum { REMOVE_MAX = 2000 }; // numbers in one statement

static int ask(struct clickhouse_http *http, const char *query, struct buf *ret_text, struct store_error *error)
{
	struct clickhouse_request request = {.query = query};

	return clickhouse_http_text(http, &request, ret_text, error);
}

// Removes the rows of a table whose number in column is among those that query gives. Only numbers go into it.
int clickhouse_remove_by(struct clickhouse_store *store, const char *table, const char *column, const char *query,
			 size_t *ret_count, struct store_error *error)
{
	CLEANUP(buf_free) struct buf list = BUF_INIT;
	CLEANUP(buf_free) struct buf statement = BUF_INIT;
	struct clickhouse_request request = {.timeout_ms = 600000};
	int err = ask(store->http, query, &list, error);

	*ret_count = 0;
	if (err < 0 || !list.length)
		return err;
	*ret_count = 1;
	for (char *c = list.data; *c; c++) {
		if (*c == '\n' && ++*ret_count)
			*c = ',';
		else if (*c < '0' || *c > '9')
			return store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	}
	buf_printf(&statement, "ALTER TABLE %s", table);
	if (*store->url.cluster)
		buf_printf(&statement, " ON CLUSTER `%s`", store->url.cluster);
	buf_printf(&statement, " DELETE WHERE %s IN (%s)", column, list.data);
	if (buf_error(&statement) < 0)
		return store_fail(error, -ENOMEM, "out of memory");
	request.query = statement.data;
	clickhouse_setting(&request, "mutations_sync", "1");
	return clickhouse_http_run(store->http, &request, error);
}

// Batches of claims so old that nobody may publish them any more.
static int remove_unpublished(struct clickhouse_store *store, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	CLEANUP(buf_free) struct buf tables = BUF_INIT;
	char query[512];
	uint64_t claim = 0, floor = 0, until;
	size_t removed;
	int err;

	snprintf(query, sizeof(query),
		 "SELECT maxIf(n, kind = 'claim' AND written < now64(3) - toIntervalSecond(%d)), "
		 "maxIf(batch, kind = 'floor') FROM chain",
		 CLICKHOUSE_REMOVE_S);
	err = ask(store->http, query, &text, error);
	if (err < 0 || sscanf(text.data, "%" SCNu64 "\t%" SCNu64, &claim, &floor) != 2)
		return err < 0 ? err : store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	until = (claim + 1) * CLICKHOUSE_CLAIM - 1;
	if (!claim || until <= floor)
		return 0;
	err = ask(store->http,
		  "SELECT table FROM system.columns WHERE database = currentDatabase() AND name = 'batch' AND table != "
		  "'chain' AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine "
		  "LIKE "
		  "'%MergeTree') ORDER BY table",
		  &tables, error);
	for (char *table = tables.data, *next; !err && table && *table; table = next) {
		next = table + strcspn(table, "\n");
		if (*next)
			*next++ = '\0';
		if (strspn(table, "abcdefghijklmnopqrstuvwxyz_") != strlen(table))
			continue;
		snprintf(query, sizeof(query),
			 "SELECT DISTINCT batch FROM %s WHERE batch > %" PRIu64 " AND batch <= %" PRIu64
			 " AND batch NOT IN (SELECT batch FROM chain WHERE kind IN ('batch', 'fold')) LIMIT %d",
			 table, floor, until, REMOVE_MAX);
		err = clickhouse_remove_by(store, table, "batch", query, &removed, error);
	}
	if (err < 0)
		return err;
	err = clickhouse_chain_head(store, error);
	clickhouse_cursors_forget(store);
	if (!err)
		err = clickhouse_chain_publish(store, "floor", until, 0, error);
	return err < 0 ? err : 0; // another one's floor is as good
}

static int remove_replaced(struct clickhouse_store *store, struct store_error *error)
{
	char query[512];
	size_t removed;

	snprintf(query, sizeof(query),
		 "SELECT row_id FROM open_rows WHERE " CLICKHOUSE_PUBLISHED
		 " AND row_id NOT IN (SELECT row_id FROM live) LIMIT %d",
		 REMOVE_MAX);
	return clickhouse_remove_by(store, "open_rows", "row_id", query, &removed, error);
}

static int bytes_of(struct clickhouse_http *http, uint64_t *ret_bytes, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int err = ask(http, "SELECT sum(bytes_on_disk) FROM system.parts WHERE database = currentDatabase() AND active",
		      &text, error);

	if (!err && sscanf(text.data, "%" SCNu64, ret_bytes) != 1)
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	return err;
}

static int round_of(struct clickhouse_store *store, struct store_error *error)
{
	int err = remove_replaced(store, error);

	if (!err)
		err = remove_unpublished(store, error);
	return err ? err : clickhouse_fold_remove(store, error);
}

int clickhouse_upkeep(struct clickhouse_store *store, uint64_t now_ns, struct store_upkeep *ret_upkeep,
		      struct store_error *error)
{
	struct store_upkeep upkeep = {0};
	bool due = now_ns - store->maintained_ns >= ROUND_NS || now_ns < store->maintained_ns;
	int err = 0;

	if (now_ns - store->rolled_ns >= ROLLUP_NS || now_ns < store->rolled_ns) {
		store->rolled_ns = now_ns;
		err = clickhouse_rollup(store, now_ns, error);
	}
	if (!err)
		err = clickhouse_fold(store, due, &upkeep.more, error);
	if (!err && due) {
		store->maintained_ns = now_ns;
		err = round_of(store, error);
	}
	if (!err && (due || store->retention_more)) {
		store->retention_more = false;
		err = bytes_of(store->http, &store->bytes, error);
		if (!err)
			err = clickhouse_retention(store, now_ns, &store->retention_more, error);
		if (!err)
			err = bytes_of(store->http, &store->bytes, error);
	}
	if (err < 0) {
		store->head = 0;
		return err;
	}
	upkeep.more |= store->retention_more;
	upkeep.bytes = store->bytes;
	*ret_upkeep = upkeep;
	return 0;
}

int clickhouse_maintain(struct store *base, uint64_t now_ns, struct store_upkeep *ret_upkeep, struct store_error *error)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;

	if (store->options.read_only)
		return store_fail(error, -EROFS, "the store was opened for reading");
	return store->options.upkeep_aside ? clickhouse_thread_ask(store, now_ns, ret_upkeep, error)
					   : clickhouse_upkeep(store, now_ns, ret_upkeep, error);
}

// ---- health -----------------------------------------------------------------------------------------------

int clickhouse_status(struct store_reader *base, struct store_status *ret_status, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct store_status status = {.backend = "clickhouse"};
	int err = ask(reader->http,
		      "SELECT (SELECT max(batch) FROM chain WHERE kind = 'schema'), (SELECT count() FROM processes)",
		      &text, error);

	if (err < 0)
		return err;
	if (sscanf(text.data, "%" SCNu64 "\t%" SCNu64, &status.version, &status.processes) != 2)
		return store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	err = bytes_of(reader->http, &status.bytes, error);
	if (!err)
		*ret_status = status;
	return err;
}

// Each query counts what must not be.
static const struct {
	const char *query, *sentence;
} checks[] = {
	{"SELECT count() - uniqExact(n) FROM chain", "places in the chain that were taken twice"},
	{"SELECT toUInt64(max(n) - min(n) + 1 - uniqExact(n)) FROM chain WHERE n > (SELECT max(upto) FROM chain WHERE "
	 "kind = "
	 "'fold')",
	 "places missing in the chain"},
	{"SELECT count() FROM (SELECT batch FROM chain WHERE kind = 'batch' GROUP BY batch HAVING count() > 1)",
	 "batches published twice"},
	{"SELECT count() FROM (SELECT host_id, boot, pid, start_boot_ns FROM processes WHERE end_ns IS NOT NULL GROUP "
	 "BY "
	 "workspace, host_id, boot, pid, start_boot_ns HAVING count() > 1)",
	 "processes that are there twice"},
	{"SELECT count() FROM (SELECT workspace, host_id, processes FROM hosts) AS h FULL JOIN (SELECT workspace, "
	 "host_id, "
	 "count() AS seen FROM processes GROUP BY workspace, host_id) AS p ON h.workspace = p.workspace AND h.host_id "
	 "= "
	 "p.host_id WHERE h.processes < p.seen",
	 "hosts with more processes than their sums say"},
};

int clickhouse_check(struct store_reader *base, store_problem_fn problem, void *data, struct store_error *error)
{
	struct clickhouse_reader *reader = (struct clickhouse_reader *)base;
	bool found = false;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		CLEANUP(buf_free) struct buf text = BUF_INIT;
		char sentence[160];
		int err = ask(reader->http, checks[i].query, &text, error);

		if (err < 0)
			return err;
		if (!strcmp(text.data, "0"))
			continue;
		snprintf(sentence, sizeof(sentence), "%.20s %s", text.data, checks[i].sentence);
		problem(data, sentence);
		found = true;
	}
	return found;
}
