// SPDX-License-Identifier: Apache-2.0
// Between the files that keep the rows of runs, tasks and the like: store_sqlite_aggregate.c has them in memory and
// writes them, store_sqlite_sum.c moves them.
#pragma once

#include "lake/store_sqlite.h"

struct aggregate {
	uint64_t id;
	uint64_t run; // of a task
	uint8_t entity;
	bool dirty;
	bool stored; // its row is there
	uint64_t stored_start_ns; // and has this; of a run
	uint64_t asked; // revision of the latest transaction that had something for it
	union lake_slot slot[];
};

static inline const struct schema_entity *aggregate_schema(const struct aggregate *aggregate)
{
	return &schema_entities[aggregate->entity];
}

// The one with the id, from memory or disk, or a new one: ret_fresh. run: of a task.
int aggregate_get(struct sqlite_store *store, const struct lake_batch *batch, enum schema_entity_id entity, uint64_t id,
		  uint64_t run, struct aggregate **ret_aggregate, bool *ret_fresh, struct store_error *error);
// It is written at the end of the transaction.
int aggregate_touch(struct sqlite_store *store, struct aggregate *aggregate);
int aggregate_set_text(struct aggregate *aggregate, unsigned column, const char *bytes, size_t length);
// Null leaves what is known.
int aggregate_take_text(struct aggregate *aggregate, unsigned column, const struct lake_text *text);
