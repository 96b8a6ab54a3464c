// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: every batch leaves a part of each host, run, task and the like that it is about, and an entry of
// the chain. Here many parts become one (a fold), so that neither grows for ever. A fold is rows under a number of
// their own, like any batch; its entry says which places of the chain it stands for, and from then on readers take its
// rows instead of those (view part_batches). What a fold stands for is removed later. Folds of about the same size are
// folded again, so there are few, and each part is rewritten a few times only.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/store_clickhouse.h"

enum {
	FOLDS_MAX = 64,
	PUBLISHES = 16,
	BATCHES_MAX = 2000, // removed in one round
};
// Between the last row of a fold and its entry: longer than a reader takes from seeing a table's rows to seeing the
// chain, so that nobody sees the entry without the rows.
#define SETTLE_NS (UINT64_C(2) * 1000000000)

struct place {
	uint64_t after, upto; // after < n <= upto
};

// ---- what to fold ---------------------------------------------------------------------------------------------------

// The folds that count, in order, and how many batches lie behind the last one.
static int ask_folds(struct clickhouse_store *store, struct place *places, size_t *ret_count, uint64_t *ret_batches,
		     struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {
		.query = "SELECT f.after, f.upto FROM chain AS f WHERE f.kind = 'fold' AND f.batch "
			 "IN (SELECT batch FROM part_batches) ORDER BY f.upto"};
	struct clickhouse_request batches = {.query = "SELECT count() FROM chain WHERE kind = 'batch' AND n > (SELECT "
						      "max(upto) FROM chain WHERE kind = "
						      "'fold')"};
	const char *line;
	size_t count = 0;
	int err = clickhouse_http_text(store->http, &request, &text, error);

	for (line = text.data; !err && line && *line && count < FOLDS_MAX; count++) {
		if (sscanf(line, "%" SCNu64 "\t%" SCNu64, &places[count].after, &places[count].upto) != 2)
			return store_fail(error, -EIO, "ClickHouse: an answer that is no number");
		line = strchr(line, '\n');
		line = line ? line + 1 : "";
	}
	if (!err)
		err = clickhouse_http_text(store->http, &batches, &text, error);
	if (err < 0)
		return err;
	if (sscanf(text.data, "%" SCNu64, ret_batches) != 1)
		return store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	*ret_count = count;
	return 0;
}

// One column of a fold, such that folds of folds give the same.
static void gather(struct buf *out, enum schema_entity_id id, unsigned column)
{
	const char *name = schema_entities[id].columns[column].name;

	switch (clickhouse_role(id, column)) {
	case ROLE_KEY:
		buf_printf(out, "p.`%s`", name);
		break;
	case ROLE_ANY:
	case ROLE_MAX:
		buf_printf(out, "max(p.`%s`)", name);
		break;
	case ROLE_LATEST:
		if (id == ENTITY_HOSTS && column == HOSTS_acked)
			buf_append_string(out, "max(p.acked)"); // of one epoch
		else
			buf_printf(out, "argMax(p.`%s`, p.`at`)", name);
		break;
	case ROLE_ROOT:
		buf_printf(out, "argMin(tuple(p.`%s`), p.root_start_ns).1", name);
		break;
	case ROLE_REPLACE:
		buf_printf(out, "argMax(tuple(p.`%s`), p.`at`).1", name);
		break;
	case ROLE_MIN:
		buf_printf(out, "min(p.`%s`)", name);
		break;
	case ROLE_SUM: // modulo 2^64, as a sum over all of them: see take_away() in lake/store_clickhouse_migrate.c
		buf_printf(out, "sum(p.`%s`)", name);
		break;
	case ROLE_DISTINCT:
		buf_printf(out, "groupUniqArrayArray(p.`%s`)", name);
		break;
	}
}

// Parts of living processes stay apart, and are left out once the process has ended. What is compared by its moment
// stays apart from what has other moments: where an agent stands in each epoch, and what a run was joined to.
static void fold_statement(struct buf *out, enum schema_entity_id id, const struct place *place, uint64_t batch)
{
	const struct schema_entity *entity = &schema_entities[id];
	char table[64];

	snprintf(table, sizeof(table), "%s_part", entity->name);
	buf_printf(out, "INSERT INTO %s (", table);
	clickhouse_table_columns(table, out);
	buf_append_string(out, ") SELECT ");
	for (unsigned i = 0; i < entity->column_count; i++) {
		gather(out, id, i);
		buf_append_string(out, ", ");
	}
	buf_printf(out,
		   "max(p.received), toUInt64(%" PRIu64
		   "), max(p.`at`), p.open_id FROM %s AS p WHERE p.batch IN (SELECT "
		   "batch FROM chain WHERE n > %" PRIu64 " AND n <= %" PRIu64
		   " AND batch IN (SELECT batch FROM part_batches))",
		   batch, table, place->after, place->upto);
	if (entity->aggregate >= 0)
		buf_append_string(out, " AND (p.open_id = 0 OR p.open_id IN (SELECT row_id FROM live))");
	buf_append_string(out, " GROUP BY p.open_id");
	if (id == ENTITY_HOSTS)
		buf_append_string(out, ", p.epoch");
	if (id == ENTITY_RUNS)
		buf_append_string(out, ", isNull(p.stitched_id)");
	for (unsigned i = 0; i < entity->column_count; i++) {
		if (clickhouse_role(id, i) == ROLE_KEY)
			buf_printf(out, ", p.`%s`", entity->columns[i].name);
	}
}

static int fold_rows(struct clickhouse_store *store, const struct place *place, uint64_t batch,
		     struct store_error *error)
{
	int err = 0;

	for (int id = 0; !err && id < ENTITY_END; id++) {
		CLEANUP(buf_free) struct buf text = BUF_INIT;
		struct clickhouse_request request = {.timeout_ms = 600000};
		char token[24];

		if (!clickhouse_has_parts((enum schema_entity_id)id))
			continue;
		fold_statement(&text, (enum schema_entity_id)id, place, batch);
		if (buf_error(&text) < 0)
			return store_fail(error, -ENOMEM, "out of memory");
		request.query = text.data;
		snprintf(token, sizeof(token), "%" PRIu64, batch);
		clickhouse_setting(&request, "insert_deduplicate", "1");
		clickhouse_setting(&request, "insert_deduplication_token", token);
		clickhouse_setting(&request, "max_insert_threads", "1");
		if (store->url.replicated) {
			clickhouse_setting(&request, "insert_quorum", "auto");
			clickhouse_setting(&request, "select_sequential_consistency", "1");
		}
		err = clickhouse_http_run(store->http, &request, error);
	}
	return err;
}

static int begin(struct clickhouse_store *store, struct store_error *error)
{
	struct place places[FOLDS_MAX], place;
	struct clickhouse_fold *fold = &store->fold;
	uint64_t batches = 0, head = store->head, width;
	size_t count = 0;
	int err = clickhouse_chain_head(store, error);

	if (err < 0 || store->head != head)
		clickhouse_cursors_forget(store);
	if (!err)
		err = ask_folds(store, places, &count, &batches, error);
	if (err < 0 || batches < CLICKHOUSE_FOLD_BATCHES)
		return err;
	place = (struct place){.after = count ? places[count - 1].upto : 0, .upto = store->head};
	while (count) {
		width = place.upto - place.after;
		if (count < FOLDS_MAX && places[count - 1].upto - places[count - 1].after > 2 * width)
			break;
		place.after = places[--count].after;
	}
	fold->planned = store->head;
	err = clickhouse_chain_draw(store, &fold->batch, error);
	if (!err)
		err = fold_rows(store, &place, fold->batch, error);
	if (err < 0)
		return err;
	fold->after = place.after;
	fold->upto = place.upto;
	fold->ready_ns = clock_boot_ns() + SETTLE_NS;
	return 0;
}

// ---- publishing -----------------------------------------------------------------------------------------------------

// Rows stay good unless another instance has folded meanwhile.
static int others_folded(struct clickhouse_store *store, bool *ret_folded, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {
		.query = "SELECT count() FROM chain WHERE kind = 'fold' AND n > {planned:UInt64}"};
	char planned[24];
	int err;

	snprintf(planned, sizeof(planned), "%" PRIu64, store->fold.planned);
	clickhouse_parameter(&request, "planned", planned);
	if (store->url.replicated)
		clickhouse_setting(&request, "select_sequential_consistency", "1");
	err = clickhouse_http_text(store->http, &request, &text, error);
	if (!err)
		*ret_folded = strcmp(text.data, "0") != 0;
	return err;
}

static int end(struct clickhouse_store *store, struct store_error *error)
{
	struct clickhouse_fold fold = store->fold;
	bool folded = false;
	int err = 0;

	for (int i = 0; i < PUBLISHES; i++) {
		// As of a head that is read before it, so that who folds in between is found out by publishing.
		clickhouse_cursors_forget(store);
		err = clickhouse_chain_head(store, error);
		if (!err)
			err = others_folded(store, &folded, error);
		if (err < 0 || folded)
			break;
		err = clickhouse_chain_publish_fold(store, fold.batch, fold.after, fold.upto, error);
		if (err)
			break;
	}
	memset(&store->fold, 0, sizeof(store->fold));
	return err < 0 ? err : 0;
}

int clickhouse_fold(struct clickhouse_store *store, bool due, bool *ret_more, struct store_error *error)
{
	int err = 0;

	if (!store->fold.batch && due)
		err = begin(store, error);
	else if (store->fold.batch && clock_boot_ns() >= store->fold.ready_ns)
		err = end(store, error);
	if (err < 0)
		memset(&store->fold, 0, sizeof(store->fold));
	*ret_more = store->fold.batch != 0;
	return err;
}

// ---- removing -------------------------------------------------------------------------------------------------------

// Part rows that a fold has stood for so long that no reader has them in sight any more.
static int remove_parts(struct clickhouse_store *store, uint64_t upto, bool *ret_all, struct store_error *error)
{
	size_t removed = 0;
	int err = 0;

	*ret_all = true;

	for (int id = 0; !err && id < ENTITY_END; id++) {
		char query[400], table[64];

		if (!clickhouse_has_parts((enum schema_entity_id)id))
			continue;
		snprintf(table, sizeof(table), "%s_part", schema_entities[id].name);
		snprintf(query, sizeof(query),
			 "SELECT DISTINCT batch FROM %s WHERE batch IN (SELECT batch FROM chain WHERE n <= %" PRIu64
			 ") AND batch NOT IN (SELECT batch FROM part_batches) LIMIT %d",
			 table, upto, BATCHES_MAX);
		err = clickhouse_remove_by(store, table, "batch", query, &removed, error);
		*ret_all &= removed < BATCHES_MAX;
	}
	return err;
}

// Entries whose parts are folded, whose other rows count by the floor, and that roll-ups have seen. What is left of
// their part rows goes first, since nothing could tell afterwards what they are.
static int remove_entries(struct clickhouse_store *store, uint64_t upto, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request ask = {
		.query =
			"SELECT least({upto:UInt64}, (SELECT min(reached) FROM (SELECT "
			"maxIf(upto, " CLICKHOUSE_PUBLISHED ") AS reached FROM rollup_state RIGHT JOIN (SELECT "
			"toUInt32(arrayJoin([10, 60, 3600])) AS level_s) "
			"AS l USING level_s GROUP BY level_s)), (SELECT if(count() = 0, toUInt64(9223372036854775807), "
			"toUInt64(min(n) - 1)) FROM chain WHERE kind = 'batch' AND batch > (SELECT max(batch) FROM "
			"chain WHERE "
			"kind = 'floor')))"};
	struct clickhouse_request remove = {.timeout_ms = 600000};
	char number[24], statement[600];
	uint64_t until = 0;
	int err;

	snprintf(number, sizeof(number), "%" PRIu64, upto);
	clickhouse_parameter(&ask, "upto", number);
	err = clickhouse_http_text(store->http, &ask, &text, error);
	if (!err && sscanf(text.data, "%" SCNu64, &until) != 1)
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	if (err < 0 || until < CLICKHOUSE_FOLD_BATCHES)
		return err;
	snprintf(statement, sizeof(statement),
		 "ALTER TABLE chain%s%s%s DELETE WHERE n <= %" PRIu64
		 " AND (kind IN ('claim', 'batch') OR (kind = 'fold' AND batch NOT IN (SELECT batch FROM "
		 "part_batches)) OR "
		 "(kind = 'floor' AND batch < (SELECT max(batch) FROM chain WHERE kind = 'floor')))",
		 *store->url.cluster ? " ON CLUSTER `" : "", store->url.cluster, *store->url.cluster ? "`" : "", until);
	remove.query = statement;
	clickhouse_setting(&remove, "mutations_sync", "1");
	clickhouse_setting(&remove, "allow_nondeterministic_mutations", "1");
	return clickhouse_http_run(store->http, &remove, error);
}

int clickhouse_fold_remove(struct clickhouse_store *store, struct store_error *error)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct clickhouse_request request = {
		.query = "SELECT maxIf(upto, kind = 'fold' AND written < now64(3) - toIntervalSecond({age:UInt64})), "
			 "countIf(kind = 'batch') FROM chain"};
	char age[24];
	uint64_t upto = 0, entries = 0;
	bool all = false;
	int err;

	snprintf(age, sizeof(age), "%d", CLICKHOUSE_REMOVE_S);
	clickhouse_parameter(&request, "age", age);
	err = clickhouse_http_text(store->http, &request, &text, error);
	if (!err && sscanf(text.data, "%" SCNu64 "\t%" SCNu64, &upto, &entries) != 2)
		err = store_fail(error, -EIO, "ClickHouse: an answer that is no number");
	if (err < 0 || !upto || entries < CLICKHOUSE_FOLD_BATCHES)
		return err;
	err = remove_parts(store, upto, &all, error);
	return err < 0 || !all ? err : remove_entries(store, upto, error);
}
