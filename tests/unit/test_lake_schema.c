// SPDX-License-Identifier: Apache-2.0
// docs/lake-schema.md against the declared schema. TRACER_DOCS_WRITE=1 writes the generated part anew.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "lake/rows.h"
#include "lake/schema.h"

#define DOCUMENT "docs/lake-schema.md"
#define BEGIN "<!-- generated from lake/schema.h -->\n"

static void put_entity(struct buf *out, const struct schema_entity *entity)
{
	buf_printf(out, "\n## %s\n\n%s\n\n| column | type | null | what it is |\n|---|---|---|---|\n", entity->name,
		   entity->help);
	for (unsigned i = 0; i < entity->column_count; i++) {
		const struct schema_column *column = &entity->columns[i];

		buf_printf(out, "| `%s` | %s | %s | %s |\n", column->name, schema_type_name(column->type),
			   column->flags & SCHEMA_N ? "yes" : "", column->help);
	}
}

static void put_series(struct buf *out)
{
	buf_append_string(out, "\n## Kinds of series\n\n| kind | owner_id is | label | metrics (`+`: a counter) "
			       "|\n|---|---|---|---|\n");
	for (int kind = 0; kind < SERIES_KIND_END; kind++) {
		const struct series_schema *series = &series_schemas[kind];

		buf_printf(out, "| %s | of `%s` | %s | ", series->name, series->owner,
			   series->label ? series->label : "");
		for (unsigned i = 0; i < series->metric_count; i++)
			buf_printf(out, "%s`%s`%s", i ? " " : "", series->metrics[i].name,
				   series->metrics[i].type == SERIES_COUNTER ? "+" : "");
		buf_append_string(out, " |\n");
	}
}

static void test_document(void **state)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	CLEANUP(buf_free) struct buf wanted = BUF_INIT;
	const char *begin;

	(void)state;
	assert_int_equal(fs_read(DOCUMENT, 1 << 20, &text), 0);
	begin = strstr(text.data, BEGIN);
	assert_non_null(begin);
	begin += strlen(BEGIN);
	for (int id = 0; id < ENTITY_END; id++)
		put_entity(&wanted, &schema_entities[id]);
	put_series(&wanted);
	if (getenv("TRACER_DOCS_WRITE")) {
		FILE *file = fopen(DOCUMENT, "w");

		assert_non_null(file);
		fwrite(text.data, 1, (size_t)(begin - text.data), file);
		fwrite(wanted.data, 1, wanted.length, file);
		fclose(file);
		return;
	}
	assert_string_equal(begin, wanted.data);
}

static void test_table(void **state)
{
	(void)state;
	for (int id = 0; id < ENTITY_END; id++) {
		const struct schema_entity *entity = &schema_entities[id];

		assert_ptr_equal(schema_entity_find(entity->name), entity);
		assert_true(entity->column_count <= SCHEMA_COLUMNS_MAX);
		assert_true(entity->columns[0].flags & SCHEMA_K);
		for (unsigned i = 0; i < entity->column_count; i++) {
			assert_int_equal(strlen(entity->columns[i].name), entity->columns[i].name_length);
			assert_int_equal(schema_column_find(entity, entity->columns[i].name), i);
			// A key is never null.
			assert_false((entity->columns[i].flags & SCHEMA_K) && (entity->columns[i].flags & SCHEMA_N));
		}
		if (entity->aggregate >= 0)
			assert_string_equal(entity->columns[entity->aggregate + AGGREGATE_cpu_ns].name, "cpu_ns");
	}
	assert_null(schema_entity_find("nothing"));
	assert_int_equal(series_metric_find(SERIES_NFS, "read.rtt_ns"), 14);
}

// Links and stores depend on these: they may never change.
static void test_ids(void **state)
{
	uint64_t host = lake_id_host("default", "00000000-0000-4000-8000-000000000001");
	uint64_t run = lake_id_run(host, "slurm-4711", 10);

	(void)state;
	assert_true(host == UINT64_C(3789007870403901246));
	assert_true(run == UINT64_C(3353606076991207085));
	assert_true(lake_id_task(run, "1", 1) == UINT64_C(9196884965161029104));
	assert_true(lake_id_pipeline("default", NULL, "x") == UINT64_C(9119680857939298621));
	assert_true(lake_id_host("defaul", "t00000000-0000-4000-8000-000000000001") != host);
	assert_true(lake_id_sample(run, "1", 1) != lake_id_task(run, "1", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_document),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
