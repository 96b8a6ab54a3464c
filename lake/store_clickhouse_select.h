// SPDX-License-Identifier: Apache-2.0
// Lake, ClickHouse: what the files that read entities share; nobody else includes this.
#pragma once

#include "lake/store_clickhouse.h"

struct clickhouse_reading;

// A question under way: its text, and the parameters that the text names.
struct clickhouse_builder {
	struct buf text;
	struct arena arena; // of parameters
	struct clickhouse_request request;
	unsigned count; // of parameters
};

void clickhouse_builder_begin(struct clickhouse_builder *builder);
void clickhouse_builder_free(struct clickhouse_builder *builder);
// Add a parameter and its place in the text.
void clickhouse_builder_text(struct clickhouse_builder *builder, const char *type, const char *value, size_t length);
void clickhouse_builder_u64(struct clickhouse_builder *builder, uint64_t value);
void clickhouse_builder_slot(struct clickhouse_builder *builder, union lake_slot slot, enum schema_type type);
// " WHERE ...": workspace and filters. -EINVAL: a filter that does not fit.
int clickhouse_builder_where(struct clickhouse_builder *builder, const struct store_query *query,
			     struct store_error *error);
// " FROM ... AS t WHERE ...": the rows of the query, with the columns that reading names and those that the filters
// need. A process has a column version too: of its row while it lives, else 0.
int clickhouse_builder_source(struct clickhouse_builder *builder, const struct clickhouse_reading *reading,
			      struct store_error *error);
// " AND ... ORDER BY ... LIMIT ...": the page, and one row more.
int clickhouse_builder_page(struct clickhouse_builder *builder, const struct store_query *query,
			    struct store_error *error);

// The cursor behind a row. -ENAMETOOLONG, -ENOMEM.
int clickhouse_page_write(const struct store_query *query, const union lake_slot *row,
			  char ret_cursor[STORE_CURSOR_SIZE]);
// " AND ...": rows behind the last one of the page before. -EINVAL: a cursor of another query.
int clickhouse_page_condition(struct clickhouse_builder *builder, const struct store_query *query,
			      struct store_error *error);

// Rows on their way to the caller.
struct clickhouse_reading {
	struct clickhouse_reader *reader;
	const struct store_query *query;
	const struct schema_entity *entity;
	uint8_t columns[SCHEMA_COLUMNS_MAX]; // that are read, rising; the first is the key
	size_t column_count;
	union lake_slot slot[SCHEMA_COLUMNS_MAX]; // the row
	const char *ids; // numbers with commas: only these rows, where they are gathered; NULL: all
	uint64_t limit, given; // limit 0: none
	bool more; // there are rows behind the limit
	store_row_fn row;
	void *data;
	char cursor[STORE_CURSOR_SIZE]; // behind the last row of a full page
};

// Hands the row on, or notes that there is one more. Not 0 ends the reading.
int clickhouse_reading_give(struct clickhouse_reading *reading);
// Runs a question whose blocks native takes, within the query's time.
int clickhouse_reading_run(struct clickhouse_reading *reading, struct clickhouse_builder *builder,
			   struct clickhouse_native *native, struct store_error *error);

// The same with the row of each place read: one column of the answer for each of reading's.
int clickhouse_reading_rows(struct clickhouse_reading *reading, struct clickhouse_builder *builder,
			    struct store_error *error);

// Whether the query can be answered from parts in the order of their ids: only keys decide what is in.
bool clickhouse_gathers(const struct store_query *query);
int clickhouse_gather(struct clickhouse_reading *reading, struct store_error *error);

// Whether it is a page of few rows with many columns.
bool clickhouse_picks(const struct clickhouse_reading *reading);
int clickhouse_pick(struct clickhouse_reading *reading, struct store_error *error);
