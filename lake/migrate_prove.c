// SPDX-License-Identifier: Apache-2.0
// Lake: two stores compared by counts and sums. Sums are modulo 2^64 and do not depend on the order of rows, so
// each store is read as it comes, once. Numbers that a store gives its own rows (ids of processes, gaps, events)
// are left out.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "lake/migrate_prove.h"

enum { SUMS_MAX = SCHEMA_COLUMNS_MAX > SERIES_METRICS_MAX * 5 ? SCHEMA_COLUMNS_MAX : SERIES_METRICS_MAX * 5 };

struct sums {
	const struct schema_entity *entity;
	uint64_t rows;
	uint64_t known[SUMS_MAX], sum[SUMS_MAX];
};

static uint64_t text_hash(const struct lake_text *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint32_t i = 0; i < text->length; i++)
		hash = (hash ^ (unsigned char)text->bytes[i]) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 29;
}

static void add(struct sums *sums, size_t at, uint64_t value)
{
	sums->known[at]++;
	sums->sum[at] += value;
}

static int add_row(void *data, const union lake_slot *slot)
{
	struct sums *sums = data;

	sums->rows++;
	for (unsigned i = 0; i < sums->entity->column_count; i++) {
		enum schema_type type = (enum schema_type)sums->entity->columns[i].type;

		if (lake_slot_is_null(slot[i], type))
			continue;
		add(sums, i, type == SCHEMA_TEXT || type == SCHEMA_JSON ? text_hash(slot[i].text) : slot[i].u64);
	}
	return 0;
}

static int add_point(void *data, const char *workspace, const char *host_id, const struct lake_point *point)
{
	struct sums *sums = (struct sums *)data + point->kind;

	(void)workspace;
	(void)host_id;
	sums->rows++;
	add(sums, SERIES_METRICS_MAX, point->time_ns);
	add(sums, SERIES_METRICS_MAX + 1, point->series_id);
	add(sums, SERIES_METRICS_MAX + 2, point->owner_id);
	for (unsigned i = 0; i < series_schemas[point->kind].metric_count; i++) {
		if (point->value[i] != LAKE_NULL)
			add(sums, i, point->value[i]);
	}
	return 0;
}

static int add_rollup(void *data, const struct store_rollup *rollup)
{
	struct sums *sums = (struct sums *)data + rollup->kind;

	for (unsigned i = 0; i < series_schemas[rollup->kind].metric_count; i++) {
		const struct store_step *step = &rollup->steps[i];
		const double numbers[4] = {step->mean, step->min, step->max, step->sum};

		if (!step->count)
			continue;
		sums->rows++;
		add(sums, i * 5, step->count + rollup->time_ns * 3 + rollup->level_s * 7 + rollup->series_id);
		for (unsigned n = 0; n < 4; n++) {
			uint64_t bits;

			memcpy(&bits, &numbers[n], sizeof(bits));
			add(sums, i * 5 + 1 + n, bits);
		}
	}
	return 0;
}

static int add_cursor(void *data, const struct store_cursor *cursor)
{
	struct sums *sums = data;

	sums->rows++;
	add(sums, 0, cursor->acked);
	add(sums, 1, cursor->epoch);
	add(sums, 2, lake_id_host(cursor->workspace, cursor->host_id));
	return 0;
}

struct proof {
	const struct migrate_hooks *hooks;
	bool different;
};

static void compare(struct proof *proof, const char *name, const struct sums *left, const struct sums *right, size_t at,
		    const char *column)
{
	char sentence[256];

	if (left->known[at] == right->known[at] && left->sum[at] == right->sum[at])
		return;
	snprintf(sentence, sizeof(sentence),
		 "%s.%s: %" PRIu64 " values with sum %" PRIu64 " there, %" PRIu64 " with sum %" PRIu64 " here", name,
		 column, left->known[at], left->sum[at], right->known[at], right->sum[at]);
	proof->hooks->difference(proof->hooks->data, sentence);
	proof->different = true;
}

static void compare_rows(struct proof *proof, const char *name, const struct sums *left, const struct sums *right)
{
	char sentence[160];

	if (left->rows == right->rows)
		return;
	snprintf(sentence, sizeof(sentence), "%s: %" PRIu64 " rows there, %" PRIu64 " here", name, left->rows,
		 right->rows);
	proof->hooks->difference(proof->hooks->data, sentence);
	proof->different = true;
}

static int prove_entity(struct proof *proof, struct store_reader *left, struct store_reader *right,
			enum schema_entity_id id, struct sums *sums, struct store_error *error)
{
	const struct schema_entity *entity = &schema_entities[id];
	bool numbered = id == ENTITY_PROCESSES || id == ENTITY_GAPS || id == ENTITY_EVENTS;
	struct store_query query = {.entity = id, .sort = -1};
	int err;

	memset(sums, 0, 2 * sizeof(*sums));
	sums[0].entity = sums[1].entity = entity;
	err = store_select(left, &query, add_row, &sums[0], NULL, error);
	if (!err)
		err = store_select(right, &query, add_row, &sums[1], NULL, error);
	if (err < 0)
		return err;
	compare_rows(proof, entity->name, &sums[0], &sums[1]);
	for (unsigned i = numbered; i < entity->column_count; i++)
		compare(proof, entity->name, &sums[0], &sums[1], i, entity->columns[i].name);
	return 0;
}

static int prove_series(struct proof *proof, struct store_reader *left, struct store_reader *right, struct sums *sums,
			struct store_error *error)
{
	struct sums *other = sums + SERIES_KIND_END;
	int err = 0;

	for (int rollups = 0; !err && rollups < 2; rollups++) {
		memset(sums, 0, 2 * SERIES_KIND_END * sizeof(*sums));
		err = rollups ? store_each_rollup(left, add_rollup, sums, error)
			      : store_each_point(left, add_point, sums, error);
		if (!err)
			err = rollups ? store_each_rollup(right, add_rollup, other, error)
				      : store_each_point(right, add_point, other, error);
		for (int kind = 0; !err && kind < SERIES_KIND_END; kind++) {
			char name[64];

			snprintf(name, sizeof(name), "%s of %s", rollups ? "roll-ups" : "points",
				 series_schemas[kind].name);
			compare_rows(proof, name, &sums[kind], &other[kind]);
			for (size_t i = 0; i < SUMS_MAX; i++)
				compare(proof, name, &sums[kind], &other[kind], i, "value");
		}
	}
	return err;
}

int migrate_prove(struct store_reader *left, struct store_reader *right, const struct migrate_hooks *hooks,
		  struct store_error *error)
{
	CLEANUP(cleanup_free) struct sums *sums = calloc(2 * SERIES_KIND_END, sizeof(*sums));
	struct proof proof = {.hooks = hooks};
	int err = sums ? 0 : -ENOMEM;

	for (int id = 0; !err && id < ENTITY_END; id++) {
		hooks->progress(hooks->data, "comparing", 0);
		err = prove_entity(&proof, left, right, (enum schema_entity_id)id, sums, error);
	}
	if (!err)
		err = prove_series(&proof, left, right, sums, error);
	if (!err) {
		memset(sums, 0, 2 * sizeof(*sums));
		err = store_each_cursor(left, add_cursor, &sums[0], error);
		if (!err)
			err = store_each_cursor(right, add_cursor, &sums[1], error);
		compare_rows(&proof, "cursors", &sums[0], &sums[1]);
		for (size_t i = 0; i < 3; i++)
			compare(&proof, "cursors", &sums[0], &sums[1], i, i ? "identity" : "acked");
	}
	return err < 0 ? err : proof.different;
}
