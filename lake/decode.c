// SPDX-License-Identifier: Apache-2.0
// Lake, one record into rows. Comes from a network: every member's type is checked, nothing is trusted to be there,
// nesting and sizes are bounded by the reader before this. Members stand in the record in the order of the schema
// most of the time, so the next column is tried before the hash table is asked. Series are in lake/decode_series.c.

#include "lake/decode.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lake/decode_private.h"
#include "lake/images.h"

enum { TABLE_SLOTS = 512, IMAGES_MAX = 4096, KEYS_MAX = 256 };

struct member_table {
	int16_t slots[TABLE_SLOTS]; // column + 1; 0 is free
	uint8_t required[SCHEMA_COLUMNS_MAX]; // columns that a record must have
	unsigned required_count;
};

static struct member_table tables[ENTITY_END];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static size_t member_hash(const char *name, size_t length)
{
	uint32_t hash = (uint32_t)length * 31 + (unsigned char)name[0];

	hash = hash * 131 + (unsigned char)name[length / 2];
	hash = hash * 131 + (unsigned char)name[length - 1];
	hash = hash * 131 + (unsigned char)name[length / 4];
	return (hash ^ hash >> 9) % TABLE_SLOTS;
}

static void tables_fill(void)
{
	for (int id = 0; id < ENTITY_END; id++) {
		const struct schema_entity *entity = &schema_entities[id];

		for (unsigned i = 0; i < entity->column_count; i++) {
			size_t at = member_hash(entity->columns[i].name, entity->columns[i].name_length);

			if (!(entity->columns[i].flags & SCHEMA_R))
				continue;
			while (tables[id].slots[at])
				at = (at + 1) % TABLE_SLOTS;
			tables[id].slots[at] = (int16_t)(i + 1);
			if (!(entity->columns[i].flags & SCHEMA_N))
				tables[id].required[tables[id].required_count++] = (uint8_t)i;
		}
	}
}

static int member_find(enum schema_entity_id id, const char *name, size_t length)
{
	const struct schema_entity *entity = &schema_entities[id];
	size_t at;

	if (length == 0)
		return -1;
	for (at = member_hash(name, length); tables[id].slots[at]; at = (at + 1) % TABLE_SLOTS) {
		int column = tables[id].slots[at] - 1;

		if (entity->columns[column].name_length == length &&
		    lake_same_bytes(entity->columns[column].name, name, length))
			return column;
	}
	return -1;
}

int decode_fail(struct decode_error *error, const char *member, const char *format, ...)
{
	va_list arguments;

	snprintf(error->member, sizeof(error->member), "%s", member ? member : "");
	va_start(arguments, format);
	vsnprintf(error->text, sizeof(error->text), format, arguments);
	va_end(arguments);
	return -EBADMSG;
}

// --- values ---------------------------------------------------------------------------

int decode_u64(struct lake_batch *batch, yyjson_val *value, const char *member, uint64_t *ret_number,
	       struct decode_error *error)
{
	if (yyjson_is_uint(value) && yyjson_get_uint(value) <= LAKE_U64_MAX) {
		*ret_number = yyjson_get_uint(value);
		return 0;
	}
	if (yyjson_is_null(value)) {
		*ret_number = LAKE_NULL;
		return 0;
	}
	if (yyjson_is_int(value) || (yyjson_is_real(value) && yyjson_get_real(value) >= 9223372036854775808.0)) {
		batch->values_out_of_range++;
		*ret_number = LAKE_NULL;
		return 0;
	}
	return decode_fail(error, member, "is no whole number");
}

int decode_text(struct lake_batch *batch, yyjson_val *value, const char *member, const struct lake_text **ret_text,
		struct decode_error *error)
{
	if (yyjson_is_null(value)) {
		*ret_text = NULL;
		return 0;
	}
	if (!yyjson_is_str(value))
		return decode_fail(error, member, "is no text");
	*ret_text = lake_batch_intern(batch, yyjson_get_str(value), yyjson_get_len(value));
	return *ret_text ? 0 : -ENOMEM;
}

// Any value as compact JSON text.
const struct lake_text *decode_json(struct lake_batch *batch, yyjson_val *value)
{
	const struct lake_text *text;
	size_t length;
	char *json = yyjson_val_write(value, 0, &length);

	if (!json)
		return NULL;
	text = lake_batch_intern(batch, json, length);
	free(json);
	return text;
}

// An array of texts: what `args` is. Written here, since nearly every process has one.
static int decode_args(struct lake_batch *batch, yyjson_val *value, const char *member,
		       const struct lake_text **ret_text, struct decode_error *error)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(value);
	struct json json;
	yyjson_val *argument;

	*ret_text = NULL;
	if (yyjson_is_null(value))
		return 0;
	if (!yyjson_is_arr(value))
		return decode_fail(error, member, "is no array of texts");
	buf_reset(&batch->scratch);
	json = json_to(&batch->scratch);
	json_open_array(&json);
	while ((argument = yyjson_arr_iter_next(&each))) {
		if (!yyjson_is_str(argument))
			return decode_fail(error, member, "holds something that is no text");
		json_string_n(&json, yyjson_get_str(argument), yyjson_get_len(argument));
	}
	json_close_array(&json);
	if (buf_error(&batch->scratch) < 0)
		return -ENOMEM;
	*ret_text = lake_batch_text(batch, batch->scratch.data, batch->scratch.length);
	return *ret_text ? 0 : -ENOMEM;
}

// --- members with a form of their own ---------------------------------------------------------------------------

enum image_form { IMAGE_NUMBER, IMAGE_TEXT, IMAGE_ARGS, IMAGE_FORKED };

static const struct image_member {
	const char *name;
	uint8_t length;
	uint8_t form; // enum image_form
	uint8_t offset;
} image_members[] = {
#define IMAGE_MEMBER(member, how, at) {member, sizeof(member) - 1, IMAGE_##how, offsetof(struct lake_image, at)}
	IMAGE_MEMBER("cpu_ns", NUMBER, value[IMAGE_CPU]),
	IMAGE_MEMBER("tool", TEXT, tool),
	IMAGE_MEMBER("start_ns", NUMBER, start_ns),
	IMAGE_MEMBER("run_delay_ns", NUMBER, value[IMAGE_RUN_DELAY]),
	IMAGE_MEMBER("minor_faults", NUMBER, value[IMAGE_MINOR_FAULTS]),
	IMAGE_MEMBER("major_faults", NUMBER, value[IMAGE_MAJOR_FAULTS]),
	IMAGE_MEMBER("rchar_bytes", NUMBER, value[IMAGE_RCHAR]),
	IMAGE_MEMBER("wchar_bytes", NUMBER, value[IMAGE_WCHAR]),
	IMAGE_MEMBER("read_bytes", NUMBER, value[IMAGE_READ]),
	IMAGE_MEMBER("write_bytes", NUMBER, value[IMAGE_WRITE]),
	IMAGE_MEMBER("peak_rss_bytes", NUMBER, value[IMAGE_PEAK_RSS]),
	IMAGE_MEMBER("forked", FORKED, forked),
	IMAGE_MEMBER("comm", TEXT, comm),
	IMAGE_MEMBER("exe", TEXT, exe),
	IMAGE_MEMBER("script", TEXT, script),
	IMAGE_MEMBER("interpreter", TEXT, interpreter),
	IMAGE_MEMBER("args", ARGS, args),
	IMAGE_MEMBER("args_total_bytes", NUMBER, args_total_bytes),
};

_Static_assert(sizeof(struct lake_image) < 256, "an offset is one byte");

static int decode_image_member(struct lake_batch *batch, const struct image_member *member, yyjson_val *value,
			       struct lake_image *image, struct decode_error *error)
{
	void *at = (char *)image + member->offset;

	switch (member->form) {
	case IMAGE_NUMBER:
		return decode_u64(batch, value, member->name, at, error);
	case IMAGE_TEXT:
		return decode_text(batch, value, member->name, at, error);
	case IMAGE_ARGS:
		return decode_args(batch, value, member->name, at, error);
	default:
		image->forked = yyjson_get_bool(value);
		return 0;
	}
}

// A share that is not there is 0; the peak of one that could not be told apart is unknown.
static int decode_image(struct lake_batch *batch, yyjson_val *value, struct lake_image *image,
			struct decode_error *error)
{
	yyjson_obj_iter each = yyjson_obj_iter_with(value);
	yyjson_val *key;
	int status = 0;

	*image = (struct lake_image){.start_ns = LAKE_NULL, .args_total_bytes = LAKE_NULL};
	image->value[IMAGE_PEAK_RSS] = LAKE_NULL;
	if (!yyjson_is_obj(value))
		return decode_fail(error, "images", "holds something that is no object");
	while (status == 0 && (key = yyjson_obj_iter_next(&each))) {
		const char *name = yyjson_get_str(key);
		size_t length = yyjson_get_len(key);

		for (size_t i = 0; i < sizeof(image_members) / sizeof(image_members[0]); i++) {
			if (image_members[i].length != length || !lake_same_bytes(image_members[i].name, name, length))
				continue;
			status = decode_image_member(batch, &image_members[i], yyjson_obj_iter_get_val(key), image,
						     error);
			break;
		}
	}
	return status;
}

static int decode_images(struct lake_batch *batch, yyjson_val *value, struct lake_row *row, struct decode_error *error)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(value);
	size_t count = yyjson_arr_size(value);
	struct lake_image *images;
	yyjson_val *image;
	int status = 0;

	if (yyjson_is_null(value))
		return 0;
	if (!yyjson_is_arr(value) || count > IMAGES_MAX)
		return decode_fail(error, "images", "is no array of at most %d programs", IMAGES_MAX);
	images = arena_alloc(&batch->arena, (count + 1) * sizeof(*images));
	if (!images)
		return -ENOMEM;
	for (size_t i = 0; status == 0 && (image = yyjson_arr_iter_next(&each)); i++)
		status = decode_image(batch, image, &images[i], error);
	row->images = images;
	row->image_count = (uint32_t)count;
	return status;
}

// Version 2: null, or an object with only the reasons seen; the others are then 0.
static int decode_blocked(struct lake_batch *batch, yyjson_val *value, struct lake_row *row, struct decode_error *error)
{
	yyjson_obj_iter each = yyjson_obj_iter_with(value);
	yyjson_val *key;
	int status = 0;

	if (yyjson_is_null(value))
		return 0;
	if (!yyjson_is_obj(value))
		return decode_fail(error, "blocked_ns", "is neither null nor an object");
	for (int column = PROCESSES_blocked_disk_ns; column <= PROCESSES_blocked_other_ns; column++)
		row->slot[column].u64 = 0;
	while (status == 0 && (key = yyjson_obj_iter_next(&each))) {
		char name[64];
		int column;

		snprintf(name, sizeof(name), "blocked_%s_ns", yyjson_get_str(key));
		column = member_find(ENTITY_PROCESSES, name, strlen(name));
		if (column >= PROCESSES_blocked_disk_ns && column <= PROCESSES_blocked_other_ns)
			status = decode_u64(batch, yyjson_obj_iter_get_val(key), name, &row->slot[column].u64, error);
	}
	return status;
}

int decode_quality(struct lake_batch *batch, yyjson_val *value, const struct lake_text **ret_text,
		   struct decode_error *error)
{
	yyjson_obj_iter each = yyjson_obj_iter_with(value);
	struct json json;
	yyjson_val *key;

	if (yyjson_is_null(value))
		return 0;
	if (!yyjson_is_obj(value))
		return decode_fail(error, "quality", "is no object");
	buf_reset(&batch->scratch);
	json = json_to(&batch->scratch);
	json_open_object(&json);
	while ((key = yyjson_obj_iter_next(&each))) {
		yyjson_val *how = yyjson_obj_iter_get_val(key);
		char name[32];

		if (!yyjson_is_str(how))
			return decode_fail(error, "quality", "holds something that is no text");
		if (yyjson_equals_str(how, "exact"))
			continue;
		snprintf(name, sizeof(name), "%s", yyjson_get_str(key));
		if (strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name)) {
			json_key(&json, name);
			json_string_n(&json, yyjson_get_str(how), yyjson_get_len(how));
		}
	}
	json_close_object(&json);
	if (buf_error(&batch->scratch) < 0)
		return -ENOMEM;
	*ret_text = lake_batch_intern(batch, batch->scratch.data, batch->scratch.length);
	return *ret_text ? 0 : -ENOMEM;
}

// --- a row ---------------------------------------------------------------------------

static int decode_special(struct lake_batch *batch, struct lake_row *row, int column, yyjson_val *value,
			  struct decode_error *error)
{
	const char *name = schema_entities[row->entity].columns[column].name;

	if (row->entity == ENTITY_PROCESSES && column == PROCESSES_args)
		return decode_args(batch, value, name, &row->slot[column].text, error);
	if (row->entity == ENTITY_PROCESSES && column == PROCESSES_images)
		return decode_images(batch, value, row, error);
	if (row->entity == ENTITY_PROCESSES && column == PROCESSES_quality)
		return decode_quality(batch, value, &row->slot[column].text, error);
	if (yyjson_is_null(value))
		return 0;
	if (!yyjson_is_obj(value))
		return decode_fail(error, name, "is no object");
	row->slot[column].text = decode_json(batch, value);
	return row->slot[column].text ? 0 : -ENOMEM;
}

static int decode_member(struct lake_batch *batch, struct lake_row *row, int column, yyjson_val *value,
			 struct decode_error *error)
{
	const struct schema_column *schema = &schema_entities[row->entity].columns[column];

	switch (schema->type) {
	case SCHEMA_U64:
		return decode_u64(batch, value, schema->name, &row->slot[column].u64, error);
	case SCHEMA_TEXT:
		return decode_text(batch, value, schema->name, &row->slot[column].text, error);
	case SCHEMA_BOOL:
		if (!yyjson_is_null(value) && !yyjson_is_bool(value))
			return decode_fail(error, schema->name, "is neither true, false nor null");
		row->slot[column].u64 = yyjson_is_null(value) ? LAKE_NULL : yyjson_get_bool(value);
		return 0;
	default:
		return decode_special(batch, row, column, value, error);
	}
}

static int decode_required(const struct lake_row *row, struct decode_error *error)
{
	const struct schema_entity *entity = &schema_entities[row->entity];
	const struct member_table *table = &tables[row->entity];

	for (unsigned r = 0; r < table->required_count; r++) {
		const struct schema_column *column = &entity->columns[table->required[r]];

		if (lake_slot_is_null(row->slot[table->required[r]], (enum schema_type)column->type))
			return decode_fail(error, column->name, "is missing or null");
	}
	return 0;
}

int decode_row(struct lake_batch *batch, enum schema_entity_id id, yyjson_val *record, uint64_t sequence,
	       struct lake_row **ret_row, struct decode_error *error)
{
	const struct schema_entity *entity = &schema_entities[id];
	struct lake_row *row = lake_batch_row(batch, id, sequence);
	yyjson_obj_iter each = yyjson_obj_iter_with(record);
	unsigned expected = 0;
	yyjson_val *key;
	int status = row ? 0 : -ENOMEM;

	while (status == 0 && (key = yyjson_obj_iter_next(&each))) {
		yyjson_val *value = yyjson_obj_iter_get_val(key);
		const char *name = yyjson_get_str(key);
		size_t length = yyjson_get_len(key);
		int column;

		if (expected < entity->column_count && entity->columns[expected].name_length == length &&
		    (entity->columns[expected].flags & SCHEMA_R) &&
		    lake_same_bytes(entity->columns[expected].name, name, length))
			column = (int)expected;
		else
			column = member_find(id, name, length);
		if (column >= 0) {
			expected = (unsigned)column + 1;
			status = decode_member(batch, row, column, value, error);
		} else if (id == ENTITY_PROCESSES && length == 10 && !memcmp(name, "blocked_ns", 10)) {
			status = decode_blocked(batch, value, row, error);
		} else if (id == ENTITY_PROCESSES && length == 4 && !memcmp(name, "join", 4)) {
			row->has_keys = true;
		}
	}
	if (status == 0 && id != ENTITY_PROCESSES)
		status = decode_required(row, error);
	if (status == 0)
		*ret_row = row;
	return status;
}

// --- what a run shows of a larger one ---------------------------------------------------------------------------

static int decode_key(struct lake_batch *batch, const struct lake_row *process, yyjson_val *value,
		      struct decode_error *error)
{
	yyjson_val *key = yyjson_obj_get(value, "key"), *why = yyjson_obj_get(value, "why");
	yyjson_val *how = yyjson_obj_get(value, "how"), *within = yyjson_obj_get(value, "within_s");
	struct lake_row *row;
	int status;

	if (!yyjson_is_str(key) || !yyjson_is_str(why) || !yyjson_is_str(how))
		return decode_fail(error, "join", "has an entry without key, why and how");
	row = lake_batch_row(batch, ENTITY_KEYS, process->sequence);
	if (!row)
		return -ENOMEM;
	status = decode_text(batch, key, "join.key", &row->slot[KEYS_key].text, error);
	if (status == 0)
		status = decode_text(batch, why, "join.why", &row->slot[KEYS_why].text, error);
	if (status == 0)
		status = decode_text(batch, how, "join.how", &row->slot[KEYS_how].text, error);
	if (status == 0 && within)
		status = decode_u64(batch, within, "join.within_s", &row->slot[KEYS_within_s].u64, error);
	if (status < 0)
		return status;
	row->slot[KEYS_run_id].u64 = process->slot[PROCESSES_run_id].u64;
	row->slot[KEYS_id].u64 = lake_id_key(row->slot[KEYS_run_id].u64, row->slot[KEYS_key].text->bytes,
					     row->slot[KEYS_key].text->length);
	row->slot[KEYS_head].u64 = yyjson_get_bool(yyjson_obj_get(value, "head"));
	row->slot[KEYS_time_ns].u64 = process->slot[PROCESSES_time_ns].u64;
	return 0;
}

static int decode_keys(struct lake_batch *batch, const struct lake_row *process, yyjson_val *keys,
		       struct decode_error *error)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(keys);
	yyjson_val *key;
	int status = 0;

	if (!yyjson_is_arr(keys) || yyjson_arr_size(keys) > KEYS_MAX)
		return decode_fail(error, "join", "is no array of at most %d objects", KEYS_MAX);
	while (status == 0 && (key = yyjson_arr_iter_next(&each)))
		status = decode_key(batch, process, key, error);
	return status;
}

// A container is told of once in a batch; its other processes only name it.
static int decode_process_container(struct lake_batch *batch, const struct lake_row *process,
				    struct decode_error *error)
{
	const union lake_slot *slot = process->slot;
	const struct lake_text *container = slot[PROCESSES_container].text;
	struct lake_row *row;
	yyjson_doc *doc;
	int status;

	if (!lake_batch_new_cgroup(batch, slot[PROCESSES_cgroup].text))
		return 0;
	row = lake_batch_row(batch, ENTITY_CONTAINERS, process->sequence);
	doc = row ? yyjson_read(container->bytes, container->length, 0) : NULL;
	if (!doc)
		return -ENOMEM;
	row->slot[CONTAINERS_id].u64 = slot[PROCESSES_cgroup_id].u64;
	row->slot[CONTAINERS_cgroup].text = slot[PROCESSES_cgroup].text;
	row->slot[CONTAINERS_host].text = slot[PROCESSES_host].text;
	status = decode_container(batch, yyjson_doc_get_root(doc), row->slot, error);
	yyjson_doc_free(doc);
	return status;
}

// --- kinds ---------------------------------------------------------------------------

// There are many decoders, but one writer: what it need not do is done here.
static int decode_packed_images(struct lake_batch *batch, struct lake_row *row)
{
	struct buf *packed = &batch->scratch;
	void *kept;

	buf_reset(packed);
	images_pack(row->images, row->image_count, row->slot[PROCESSES_start_ns].u64, row->slot[PROCESSES_tool].text,
		    packed);
	kept = buf_error(packed) < 0 ? NULL : arena_alloc(&batch->arena, packed->length);
	if (!kept)
		return -ENOMEM;
	memcpy(kept, packed->data, packed->length);
	row->images_packed = kept;
	row->images_packed_size = packed->length;
	return 0;
}

int decode_process_row(struct lake_batch *batch, struct lake_row *row, bool opening, struct decode_error *error)
{
	union lake_slot *slot = row->slot;
	int status;

	pthread_once(&tables_once, tables_fill);
	status = decode_required(row, error);
	if (status < 0)
		return status;
	if (!slot[PROCESSES_boot].text)
		return decode_fail(error, "boot", "is missing or null");
	row->open = opening || slot[PROCESSES_end_ns].u64 == LAKE_NULL;
	// The wall clock may have been set back in between.
	if (!row->open && slot[PROCESSES_end_ns].u64 < slot[PROCESSES_start_ns].u64)
		slot[PROCESSES_end_ns].u64 = slot[PROCESSES_start_ns].u64;
	if (!row->open && row->images)
		status = decode_packed_images(batch, row);
	if (status < 0)
		return status;
	if (slot[PROCESSES_run].text) {
		slot[PROCESSES_run_id].u64 = lake_batch_id_run(batch, slot[PROCESSES_run].text);
		if (slot[PROCESSES_task].text)
			slot[PROCESSES_task_id].u64 =
				lake_batch_id_task(batch, slot[PROCESSES_run_id].u64, slot[PROCESSES_task].text);
	}
	if (!slot[PROCESSES_cgroup].text)
		return 0;
	slot[PROCESSES_cgroup_id].u64 = lake_batch_id_cgroup(batch, slot[PROCESSES_cgroup].text);
	return slot[PROCESSES_container].text ? decode_process_container(batch, row, error) : 0;
}

static int decode_process(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, bool opening,
			  struct decode_error *error)
{
	struct lake_row *row;
	yyjson_val *keys;
	int status = decode_row(batch, ENTITY_PROCESSES, record, sequence, &row, error);

	if (status == 0)
		status = decode_process_row(batch, row, opening, error);
	if (status < 0)
		return status;
	keys = row->has_keys ? yyjson_obj_get(record, "join") : NULL;
	return keys && row->slot[PROCESSES_run].text ? decode_keys(batch, row, keys, error) : 0;
}

static int decode_event(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error)
{
	struct lake_row *row;
	int status = decode_row(batch, ENTITY_EVENTS, record, sequence, &row, error);

	if (status < 0)
		return status;
	row->slot[EVENTS_record].text = decode_json(batch, record);
	return row->slot[EVENTS_record].text ? 0 : -ENOMEM;
}

static int decode_kind(struct lake_batch *batch, const char *kind, yyjson_val *record, uint64_t sequence,
		       struct decode_error *error)
{
	struct lake_row *row;

	if (!strcmp(kind, "process"))
		return decode_process(batch, record, sequence, false, error);
	if (!strcmp(kind, "open"))
		return decode_process(batch, record, sequence, true, error);
	if (!strcmp(kind, "sample"))
		return decode_sample(batch, record, sequence, error);
	if (!strcmp(kind, "hostsample"))
		return decode_hostsample(batch, record, sequence, error);
	if (!strcmp(kind, "cgroup"))
		return decode_cgroup(batch, record, sequence, error);
	if (!strcmp(kind, "host"))
		return decode_row(batch, ENTITY_HOSTS, record, sequence, &row, error);
	if (!strcmp(kind, "gap"))
		return decode_row(batch, ENTITY_GAPS, record, sequence, &row, error);
	return decode_event(batch, record, sequence, error);
}

int decode_record(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error)
{
	size_t rows = batch->row_count, points = batch->point_count;
	uint64_t out_of_range = batch->values_out_of_range;
	const char *kind;
	int status;

	pthread_once(&tables_once, tables_fill);
	*error = (struct decode_error){0};
	if (!yyjson_is_obj(record))
		return decode_fail(error, NULL, "a record is a JSON object");
	kind = yyjson_get_str(yyjson_obj_get(record, "kind"));
	if (!kind)
		return decode_fail(error, "kind", "is missing or no text");
	if (!yyjson_is_uint(yyjson_obj_get(record, "time_ns")))
		return decode_fail(error, "time_ns", "is missing or no whole number");
	status = decode_kind(batch, kind, record, sequence, error);
	if (status < 0) {
		batch->row_count = rows;
		batch->point_count = points;
		batch->values_out_of_range = out_of_range;
		return status;
	}
	batch->records++;
	return 0;
}
