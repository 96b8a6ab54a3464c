// SPDX-License-Identifier: Apache-2.0
// What the files of the exports share: the parts of the run, its tasks, and a buffer on its way out.
#pragma once

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "lake/export.h"

struct export
{
	const struct export_question *question;
	const struct export_sink *sink;
	struct store_error *error;
	struct arena arena;
	struct buf out;
	// The run's parts, its head first, then by start.
	const union lake_slot **runs;
	size_t run_count, run_room;
	uint64_t whole; // runs.id that stands for all
};

// Calls visit for each row of the entity whose column is this, by sort (-1: by id). What visit returns ends the
// reading.
int export_each(struct export *export, enum schema_entity_id entity, unsigned column, uint64_t value, int sort,
		store_row_fn visit, void *data);

// All rows of a part's tasks or the like, copied, by start. count may be 0.
struct export_rows {
	const union lake_slot **rows;
	size_t count, room;
};
int export_rows(struct export *export, enum schema_entity_id entity, unsigned column, uint64_t value,
		struct export_rows *ret_rows);

// A row with its texts in an arena; NULL when memory is out.
const union lake_slot *export_copy_row(struct arena *arena, const struct schema_entity *entity,
				       const union lake_slot *slot);

// Hands on what was gathered when it is enough. 0 or -errno (sticky in the buffer's memory or the sink's answer).
int export_flush(struct export *export);

// Text of a slot, "" for null.
const char *export_text(union lake_slot slot);

// The end of something that may still run.
uint64_t export_end(const struct export *export, uint64_t end_ns, uint64_t living);

// What is known of the processes of one task together, found by a pass over its run's processes.
struct export_task {
	const union lake_slot *row; // of ENTITY_TASKS
	uint64_t pid; // of its earliest process; 0: none
	uint64_t root_start_ns;
	const union lake_slot *run;
};

// Every task of every part, by start, with its first process. The array is the arena's.
int export_tasks(struct export *export, struct export_task **ret_tasks, size_t *ret_count);

int export_nextflow(struct export *export);
int export_snakemake(struct export *export);
int export_csv(struct export *export);
int export_ndjson(struct export *export);
int export_perfetto(struct export *export);
int export_otlp(struct export *export);
