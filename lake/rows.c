// SPDX-License-Identifier: Apache-2.0
// Lake, a decoded batch: rows and points in one arena. Equal texts of a batch are mostly one object, which spares
// copies here and look-ups in the store; a cache that forgets is enough for that.

#include "lake/rows.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"

enum { BLOCK_SIZE = 64 * 1024, POOL_BLOCKS = 256 };
enum { TEXT_SLOTS = 4096, ID_SLOTS = 1024, CGROUP_SLOTS = 256, INTERN_MAX = 256 };

static struct arena_pool pool = ARENA_POOL(POOL_BLOCKS); // of all batches

struct cached_id {
	const struct lake_text *text;
	uint64_t outer;
	uint64_t id;
	char kind;
};

struct lake_cache {
	const struct lake_text *texts[TEXT_SLOTS];
	struct cached_id ids[ID_SLOTS];
	const struct lake_text *cgroups[CGROUP_SLOTS];
	const struct lake_text *last[LAKE_LAST_TEXTS];
	const struct lake_text *workspace, *host_id;
};

const char *const lake_image_value_names[IMAGE_VALUES] = {
	[IMAGE_CPU] = "cpu_ns",
	[IMAGE_RUN_DELAY] = "run_delay_ns",
	[IMAGE_MINOR_FAULTS] = "minor_faults",
	[IMAGE_MAJOR_FAULTS] = "major_faults",
	[IMAGE_RCHAR] = "rchar_bytes",
	[IMAGE_WCHAR] = "wchar_bytes",
	[IMAGE_READ] = "read_bytes",
	[IMAGE_WRITE] = "write_bytes",
	[IMAGE_PEAK_RSS] = "peak_rss_bytes",
};

static int batch_fill(struct lake_batch *batch, const char *workspace, const char *host_id)
{
	batch->workspace = arena_strndup(&batch->arena, workspace, strlen(workspace));
	batch->host_id = arena_strndup(&batch->arena, host_id, strlen(host_id));
	if (!batch->workspace || !batch->host_id)
		return -ENOMEM;
	batch->host = lake_id_host(workspace, host_id);
	batch->cache->workspace = lake_batch_intern(batch, workspace, strlen(workspace));
	batch->cache->host_id = lake_batch_intern(batch, host_id, strlen(host_id));
	return batch->cache->workspace && batch->cache->host_id ? 0 : -ENOMEM;
}

int lake_batch_begin(struct lake_batch *batch, const char *workspace, const char *host_id)
{
	int error;

	memset(batch, 0, sizeof(*batch));
	arena_init_pool(&batch->arena, BLOCK_SIZE, &pool);
	batch->cache = calloc(1, sizeof(*batch->cache));
	error = batch->cache ? batch_fill(batch, workspace, host_id) : -ENOMEM;
	if (error < 0)
		lake_batch_free(batch);
	return error;
}

void lake_batch_free(struct lake_batch *batch)
{
	if (!batch)
		return;
	free(batch->rows);
	free(batch->points);
	free(batch->cache);
	buf_free(&batch->scratch);
	if (batch->arena.block_size)
		arena_free(&batch->arena);
	memset(batch, 0, sizeof(*batch));
}

int lake_batch_again(struct lake_batch *batch, const char *workspace, const char *host_id)
{
	struct lake_batch fresh = {
		.arena = batch->arena,
		.rows = batch->rows,
		.row_room = batch->row_room,
		.points = batch->points,
		.point_room = batch->point_room,
		.cache = batch->cache,
		.scratch = batch->scratch,
	};
	int error;

	if (!batch->cache)
		return lake_batch_begin(batch, workspace, host_id);
	arena_reset(&fresh.arena);
	memset(fresh.cache, 0, sizeof(*fresh.cache));
	*batch = fresh;
	error = batch_fill(batch, workspace, host_id);
	if (error < 0)
		lake_batch_free(batch);
	return error;
}

static int grow(void *array, size_t count, size_t *room)
{
	void *larger, *old;
	size_t wanted = *room ? *room * 2 : 256;

	if (count < *room)
		return 0;
	memcpy(&old, array, sizeof(old));
	larger = realloc(old, wanted * sizeof(void *));
	if (!larger)
		return -ENOMEM;
	memcpy(array, &larger, sizeof(larger));
	*room = wanted;
	return 0;
}

// --- texts and ids ---------------------------------------------------------------------------

static uint64_t hash_bytes(const char *bytes, size_t length)
{
	uint64_t hash = length * UINT64_C(0x9e3779b97f4a7c15), word;

	for (; length >= 8; bytes += 8, length -= 8) {
		memcpy(&word, bytes, 8);
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, bytes, length);
	hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
	return hash ^ hash >> 29;
}

static size_t sequence_length(const char *bytes, size_t left)
{
	return *bytes ? utf8_sequence(bytes, left) : 0;
}

const struct lake_text *lake_batch_text(struct lake_batch *batch, const char *bytes, size_t length)
{
	struct lake_text *text;
	size_t bad = 0, out = 0;

	for (size_t i = 0, step; i < length; i += step ? step : 1) {
		step = bytes[i] > 0 ? 1 : sequence_length(bytes + i, length - i);
		bad += step == 0;
	}
	if (length + bad * 2 > UINT32_MAX)
		return NULL;
	text = arena_alloc(&batch->arena, sizeof(*text) + length + bad * 2 + 1);
	if (!text)
		return NULL;
	text->generation = 0;
	text->mark = 0;
	for (size_t i = 0; bad && i < length;) {
		size_t step = sequence_length(bytes + i, length - i);

		memcpy(text->bytes + out, step ? bytes + i : "\xef\xbf\xbd", step ? step : 3);
		out += step ? step : 3;
		i += step ? step : 1;
	}
	if (!bad)
		memcpy(text->bytes, bytes, out = length);
	text->bytes[out] = '\0';
	text->length = (uint32_t)out;
	return text;
}

const struct lake_text *lake_batch_intern(struct lake_batch *batch, const char *bytes, size_t length)
{
	const struct lake_text **slot;

	if (length > INTERN_MAX)
		return lake_batch_text(batch, bytes, length);
	slot = &batch->cache->texts[hash_bytes(bytes, length) % TEXT_SLOTS];
	if (!*slot || (*slot)->length != length || !lake_same_bytes((*slot)->bytes, bytes, length)) {
		const struct lake_text *text = lake_batch_text(batch, bytes, length);

		if (!text || text->length != length)
			return text;
		*slot = text;
	}
	return *slot;
}

const struct lake_text *lake_batch_plain(struct lake_batch *batch, const char *bytes, size_t length)
{
	struct lake_text *text;

	if (length > UINT32_MAX)
		return NULL;
	text = arena_alloc(&batch->arena, sizeof(*text) + length + 1);
	if (!text)
		return NULL;
	*text = (struct lake_text){.length = (uint32_t)length};
	memcpy(text->bytes, bytes, length);
	text->bytes[length] = '\0';
	return text;
}

const struct lake_text **lake_batch_last_texts(struct lake_batch *batch)
{
	return batch->cache->last;
}

static uint64_t batch_id(struct lake_batch *batch, char kind, uint64_t outer, const struct lake_text *text)
{
	uint64_t hash = ((uintptr_t)text >> 4 ^ outer ^ (uint64_t)kind << 40) * UINT64_C(0x9e3779b97f4a7c15);
	struct cached_id *cached = &batch->cache->ids[hash >> 54];

	if (cached->text == text && cached->outer == outer && cached->kind == kind)
		return cached->id;
	*cached = (struct cached_id){.text = text, .outer = outer, .kind = kind};
	if (kind == 'r')
		cached->id = lake_id_run(outer, text->bytes, text->length);
	else if (kind == 't')
		cached->id = lake_id_task(outer, text->bytes, text->length);
	else if (kind == 's')
		cached->id = lake_id_sample(outer, text->bytes, text->length);
	else if (kind == 'o')
		cached->id = lake_id_tool(batch->host, outer, text->bytes, text->length);
	else
		cached->id = lake_id_cgroup(outer, text->bytes, text->length);
	return cached->id;
}

uint64_t lake_batch_id_run(struct lake_batch *batch, const struct lake_text *run)
{
	return batch_id(batch, 'r', batch->host, run);
}

uint64_t lake_batch_id_task(struct lake_batch *batch, uint64_t run, const struct lake_text *task)
{
	return batch_id(batch, 't', run, task);
}

uint64_t lake_batch_id_sample(struct lake_batch *batch, uint64_t run, const struct lake_text *sample)
{
	return batch_id(batch, 's', run, sample);
}

uint64_t lake_batch_id_tool(struct lake_batch *batch, uint64_t run, const struct lake_text *tool)
{
	return batch_id(batch, 'o', run, tool);
}

uint64_t lake_batch_id_cgroup(struct lake_batch *batch, const struct lake_text *cgroup)
{
	return batch_id(batch, 'c', batch->host, cgroup);
}

bool lake_batch_new_cgroup(struct lake_batch *batch, const struct lake_text *cgroup)
{
	const struct lake_text **slot = &batch->cache->cgroups[((uintptr_t)cgroup >> 4) % CGROUP_SLOTS];
	bool fresh = *slot != cgroup;

	*slot = cgroup;
	return fresh;
}

// --- rows ---------------------------------------------------------------------------

bool lake_slot_is_null(union lake_slot slot, enum schema_type type)
{
	switch (type) {
	case SCHEMA_TEXT:
	case SCHEMA_JSON:
		return !slot.text;
	case SCHEMA_I64:
		return slot.i64 == LAKE_I64_NULL;
	case SCHEMA_F64:
		return isnan(slot.f64);
	default:
		return slot.u64 == LAKE_NULL;
	}
}

static void slots_clear(union lake_slot *slot, const struct schema_entity *entity)
{
	for (unsigned i = 0; i < entity->column_count; i++) {
		switch (entity->columns[i].type) {
		case SCHEMA_TEXT:
		case SCHEMA_JSON:
			slot[i].text = NULL;
			break;
		case SCHEMA_I64:
			slot[i].i64 = LAKE_I64_NULL;
			break;
		case SCHEMA_F64:
			slot[i].f64 = NAN;
			break;
		default:
			slot[i].u64 = LAKE_NULL;
		}
	}
}

static union lake_slot cleared[ENTITY_END][SCHEMA_COLUMNS_MAX];
static uint8_t owners[ENTITY_END][2]; // columns workspace and host_id; 0: it has none
static pthread_once_t cleared_once = PTHREAD_ONCE_INIT;

static void cleared_fill(void)
{
	for (int id = 0; id < ENTITY_END; id++) {
		int workspace = schema_column_find(&schema_entities[id], "workspace");
		int host_id = schema_column_find(&schema_entities[id], "host_id");

		slots_clear(cleared[id], &schema_entities[id]);
		owners[id][0] = (uint8_t)(workspace > 0 ? workspace : 0);
		owners[id][1] = (uint8_t)(host_id > 0 ? host_id : 0);
	}
}

void lake_row_clear(union lake_slot *slot, const struct schema_entity *entity)
{
	pthread_once(&cleared_once, cleared_fill);
	memcpy(slot, cleared[entity - schema_entities], entity->column_count * sizeof(*slot));
}

struct lake_row *lake_batch_row(struct lake_batch *batch, enum schema_entity_id entity, uint64_t sequence)
{
	const struct schema_entity *schema = &schema_entities[entity];
	struct lake_row *row;

	if (grow(&batch->rows, batch->row_count, &batch->row_room) < 0)
		return NULL;
	row = arena_alloc(&batch->arena, sizeof(*row) + schema->column_count * sizeof(row->slot[0]));
	if (!row)
		return NULL;
	*row = (struct lake_row){.sequence = sequence, .entity = (uint8_t)entity};
	lake_row_clear(row->slot, schema);
	if (owners[entity][0])
		row->slot[owners[entity][0]].text = batch->cache->workspace;
	if (owners[entity][1])
		row->slot[owners[entity][1]].text = batch->cache->host_id;
	batch->rows[batch->row_count++] = row;
	return row;
}

struct lake_point *lake_batch_point(struct lake_batch *batch, enum series_kind kind, uint64_t sequence,
				    uint64_t owner_id, const struct lake_text *label, uint64_t time_ns)
{
	unsigned count = series_schemas[kind].metric_count;
	struct lake_point *point;

	if (grow(&batch->points, batch->point_count, &batch->point_room) < 0)
		return NULL;
	point = arena_alloc(&batch->arena, sizeof(*point) + count * sizeof(point->value[0]));
	if (!point)
		return NULL;
	*point = (struct lake_point){
		.sequence = sequence,
		.owner_id = owner_id,
		.label = label,
		.time_ns = time_ns,
		.kind = (uint8_t)kind,
		.series_id = lake_id_series(kind, owner_id, label ? label->bytes : "", label ? label->length : 0),
	};
	memset(point->value, 0xff, count * sizeof(point->value[0]));
	batch->points[batch->point_count++] = point;
	return point;
}

int lake_batch_hole(struct lake_batch *batch, uint64_t first, uint64_t last, uint64_t count, const char *reason,
		    size_t reason_length)
{
	struct lake_row *row = lake_batch_row(batch, ENTITY_GAPS, last);

	if (!row)
		return -ENOMEM;
	row->slot[GAPS_time_ns].u64 = batch->received_ns <= LAKE_U64_MAX ? batch->received_ns : 0;
	row->slot[GAPS_room].text = lake_batch_intern(batch, "spool", 5);
	row->slot[GAPS_reason].text = lake_batch_intern(batch, reason, reason_length);
	row->slot[GAPS_count].u64 = count;
	row->slot[GAPS_first_sequence].u64 = first;
	row->slot[GAPS_last_sequence].u64 = last;
	return row->slot[GAPS_room].text && row->slot[GAPS_reason].text ? 0 : -ENOMEM;
}

// --- images ---------------------------------------------------------------------------

static void put_text(struct json *json, const char *key, const struct lake_text *text)
{
	if (!text)
		return;
	json_key(json, key);
	json_string_n(json, text->bytes, text->length);
}

void lake_images_json(const struct lake_image *images, size_t count, struct json *json)
{
	json_open_array(json);
	for (size_t i = 0; i < count; i++) {
		const struct lake_image *image = &images[i];

		json_open_object(json);
		if (image->start_ns != LAKE_NULL)
			json_put_u64(json, "start_ns", image->start_ns);
		put_text(json, "comm", image->comm);
		put_text(json, "exe", image->exe);
		put_text(json, "script", image->script);
		put_text(json, "interpreter", image->interpreter);
		put_text(json, "tool", image->tool);
		if (image->forked)
			json_put_bool(json, "forked", true);
		if (image->args) {
			json_key(json, "args");
			buf_append(json->out, image->args->bytes, image->args->length);
			json->comma = true;
		}
		if (image->args_total_bytes != LAKE_NULL)
			json_put_u64(json, "args_total_bytes", image->args_total_bytes);
		for (unsigned v = 0; v < IMAGE_VALUES; v++) {
			// As in the record: a share of 0 is left out, and so is a peak that is not known.
			if (image->value[v] != (v == IMAGE_PEAK_RSS ? LAKE_NULL : 0))
				json_put_known_u64(json, lake_image_value_names[v], image->value[v]);
		}
		json_close_object(json);
	}
	json_close_array(json);
}
