// SPDX-License-Identifier: Apache-2.0
// A batch of one agent, decoded: typed rows and points in an arena. Made by lake/decode.c from NDJSON (or by a test by
// hand), consumed by a store. A row has one slot for each column of its entity, in the order of the schema.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/json.h"
#include "lake/schema.h"

// Text with its length; bytes are valid UTF-8, hold no NUL and are followed by one. In one batch equal short texts are
// mostly one object, so a store may keep its number of it here: mark is good while generation is the store's own.
struct lake_text {
	uint32_t length;
	uint32_t generation;
	uint64_t mark;
	char bytes[];
};

union lake_slot {
	uint64_t u64; // SCHEMA_U64, SCHEMA_BOOL (0, 1)
	int64_t i64;
	double f64;
	const struct lake_text *text; // SCHEMA_TEXT, SCHEMA_JSON; NULL is null
};

// Null of the other types. Valid numbers end at LAKE_U64_MAX.
#define LAKE_NULL UINT64_MAX
#define LAKE_I64_NULL INT64_MIN
#define LAKE_U64_MAX ((uint64_t)INT64_MAX)

// A program that a process was: see docs/records.md, `images`. Values are LAKE_NULL when unknown.
enum lake_image_value {
	IMAGE_CPU,
	IMAGE_RUN_DELAY,
	IMAGE_MINOR_FAULTS,
	IMAGE_MAJOR_FAULTS,
	IMAGE_RCHAR,
	IMAGE_WCHAR,
	IMAGE_READ,
	IMAGE_WRITE,
	IMAGE_PEAK_RSS,
	IMAGE_VALUES,
};
extern const char *const lake_image_value_names[IMAGE_VALUES];

struct lake_image {
	uint64_t start_ns;
	uint64_t args_total_bytes;
	uint64_t value[IMAGE_VALUES];
	const struct lake_text *comm, *exe, *script, *interpreter, *tool;
	const struct lake_text *args; // JSON
	bool forked;
};

struct lake_row {
	uint64_t sequence;
	uint8_t entity; // enum schema_entity_id
	bool open; // of ENTITY_PROCESSES: it lives on, a later row of the same identity replaces this one
	bool has_keys; // of ENTITY_PROCESSES: rows of ENTITY_KEYS came with it
	// Of ENTITY_PROCESSES: the programs, which decoding leaves here and not in their slot. See lake_images_json().
	uint32_t image_count;
	const struct lake_image *images;
	// The same as lake/images.h packs them, where decoding has done so; else NULL.
	const void *images_packed;
	size_t images_packed_size;
	union lake_slot slot[];
};

// One moment of one series.
struct lake_point {
	uint64_t sequence;
	uint64_t series_id;
	uint64_t owner_id;
	uint64_t time_ns;
	const struct lake_text *label; // NULL: there is one
	const struct lake_text *attributes; // JSON; NULL: none
	// Whose, when kind is SERIES_PROCESS.
	const struct lake_text *boot;
	uint64_t pid;
	uint64_t start_boot_ns;
	uint8_t kind; // enum series_kind
	uint64_t value[]; // one for each metric of the kind; LAKE_NULL unknown; metrics with fractions in thousandths
};

struct lake_batch {
	struct arena arena;
	// Who sent it: set by lake_batch_begin().
	const char *workspace;
	const char *host_id;
	uint64_t host; // hosts.id
	// Set by whoever received it.
	uint64_t epoch;
	uint64_t first, last; // sequence numbers covered, by records or holes
	uint64_t after; // what the agent believes is acknowledged in this epoch
	uint64_t received_ns; // the server's clock, Unix time
	// Filled by decoding, rising by sequence.
	struct lake_row **rows;
	size_t row_count, row_room;
	struct lake_point **points;
	size_t point_count, point_room;
	uint64_t records; // records decoded
	uint64_t values_out_of_range; // numbers that had to become null
	struct lake_cache *cache; // texts and ids met in this batch
	struct buf scratch; // of decoding
};

// Zeroed memory becomes an empty batch. 0 or -ENOMEM. workspace and host_id are copied.
int lake_batch_begin(struct lake_batch *batch, const char *workspace, const char *host_id);
// Releases everything; takes NULL and a zeroed one.
void lake_batch_free(struct lake_batch *batch);
// Empty again, for another host; memory is kept.
int lake_batch_again(struct lake_batch *batch, const char *workspace, const char *host_id);

// A new row, all slots null (workspace and host_id filled in where the entity has them). NULL when memory is out.
struct lake_row *lake_batch_row(struct lake_batch *batch, enum schema_entity_id entity, uint64_t sequence);
// A new point, all values null, series_id made of kind, owner and label (which may be NULL and is kept by reference).
struct lake_point *lake_batch_point(struct lake_batch *batch, enum series_kind kind, uint64_t sequence,
				    uint64_t owner_id, const struct lake_text *label, uint64_t time_ns);
// A hole in the sequence, as a row of ENTITY_GAPS (room "spool"). 0 or -ENOMEM.
int lake_batch_hole(struct lake_batch *batch, uint64_t first, uint64_t last, uint64_t count, const char *reason,
		    size_t reason_length);
// A copy in the arena; bytes that may not stand in a text become U+FFFD. NULL when memory is out.
const struct lake_text *lake_batch_text(struct lake_batch *batch, const char *bytes, size_t length);

// The same, remembered: equal texts of a batch become one object most of the time.
const struct lake_text *lake_batch_intern(struct lake_batch *batch, const char *bytes, size_t length);

// The same without a look at the bytes: printable ASCII only.
const struct lake_text *lake_batch_plain(struct lake_batch *batch, const char *bytes, size_t length);

// For whoever decodes: room for as many texts met in this batch, NULL at its start.
enum { LAKE_LAST_TEXTS = 96 };
const struct lake_text **lake_batch_last_texts(struct lake_batch *batch);

// Texts are short, where a call of musl's memcmp costs more than looking: whole words that overlap at the end. Both
// have length bytes.
static inline bool lake_same_bytes(const char *a, const char *b, size_t length)
{
	uint64_t left, right;

	if (length < 8) {
		for (size_t i = 0; i < length; i++) {
			if (a[i] != b[i])
				return false;
		}
		return true;
	}
	for (size_t i = 0; i + 8 < length; i += 8) {
		memcpy(&left, a + i, 8);
		memcpy(&right, b + i, 8);
		if (left != right)
			return false;
	}
	memcpy(&left, a + length - 8, 8);
	memcpy(&right, b + length - 8, 8);
	return left == right;
}

// Images as the JSON of docs/records.md, appended.
void lake_images_json(const struct lake_image *images, size_t count, struct json *json);

// Sets every slot of a row to null.
void lake_row_clear(union lake_slot *slot, const struct schema_entity *entity);
bool lake_slot_is_null(union lake_slot slot, enum schema_type type);

// --- ids ---------------------------------------------------------------------------------------------------------
// The same key gives the same id in every store, for ever: 63 bits of a BLAKE2s hash, never 0. Nobody can make a key
// that hits another's id.

uint64_t lake_id_host(const char *workspace, const char *host_id);
uint64_t lake_id_run(uint64_t host, const char *run, size_t length);
uint64_t lake_id_task(uint64_t run, const char *task, size_t length);
uint64_t lake_id_sample(uint64_t run, const char *sample, size_t length);
uint64_t lake_id_tool(uint64_t host, uint64_t run, const char *tool, size_t length); // run 0: outside
uint64_t lake_id_cgroup(uint64_t host, const char *cgroup, size_t length);
uint64_t lake_id_pipeline(const char *workspace, const char *engine, const char *name); // engine may be NULL
// What series.owner_id of a process is.
uint64_t lake_id_process(uint64_t host, const char *boot, uint64_t pid, uint64_t start_boot_ns);
uint64_t lake_id_series(enum series_kind kind, uint64_t owner_id, const char *label, size_t length);
uint64_t lake_id_key(uint64_t run, const char *key, size_t length); // of keys and of joins

// As the functions without cache, remembered for the life of the batch.
uint64_t lake_batch_id_run(struct lake_batch *batch, const struct lake_text *run);
uint64_t lake_batch_id_task(struct lake_batch *batch, uint64_t run, const struct lake_text *task);
uint64_t lake_batch_id_cgroup(struct lake_batch *batch, const struct lake_text *cgroup);
uint64_t lake_batch_id_sample(struct lake_batch *batch, uint64_t run, const struct lake_text *sample);
// Whether the cgroup was not asked for in this batch before (or that was forgotten).
bool lake_batch_new_cgroup(struct lake_batch *batch, const struct lake_text *cgroup);
uint64_t lake_batch_id_tool(struct lake_batch *batch, uint64_t run, const struct lake_text *tool);
