// SPDX-License-Identifier: Apache-2.0
// Lake, the records that become points of series: sample, hostsample, cgroup. A metric that the record lacks, or that
// is null there, is unknown; what the schema does not know is skipped.

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lake/decode_private.h"

enum { PARTS_MAX = 1024 }; // disks, mounts and the like of one record

static int decode_metric(struct lake_batch *batch, const struct series_metric *metric, yyjson_val *value,
			 uint64_t *ret_value, struct decode_error *error)
{
	double real;

	if (!metric->real)
		return decode_u64(batch, value, metric->name, ret_value, error);
	if (yyjson_is_null(value))
		return 0;
	if (!yyjson_is_num(value))
		return decode_fail(error, metric->name, "is no number");
	real = round(yyjson_get_num(value) * 1000);
	if (real < 0 || real >= 9e18)
		batch->values_out_of_range++;
	else
		*ret_value = (uint64_t)real;
	return 0;
}

// Every metric that object has; those behind a prefix ("read.") are in the member object of that name.
static int decode_metrics(struct lake_batch *batch, yyjson_val *object, struct lake_point *point,
			  struct decode_error *error)
{
	const struct series_schema *schema = &series_schemas[point->kind];
	yyjson_obj_iter each = yyjson_obj_iter_with(object);
	int status = 0;

	for (unsigned i = 0; status == 0 && i < schema->metric_count; i++) {
		const struct series_metric *metric = &schema->metrics[i];
		const char *dot = memchr(metric->name, '.', metric->name_length);
		yyjson_val *value;

		if (dot)
			value = yyjson_obj_get(yyjson_obj_getn(object, metric->name, (size_t)(dot - metric->name)),
					       dot + 1);
		else
			value = yyjson_obj_iter_getn(&each, metric->name, metric->name_length);
		if (value)
			status = decode_metric(batch, metric, value, &point->value[i], error);
	}
	return status;
}

// Reasons of version 2, as in a process.
static int decode_sample_blocked(struct lake_batch *batch, yyjson_val *object, struct lake_point *point,
				 struct decode_error *error)
{
	static const char *const reasons[] = {"disk", "network_fs", "socket", "pipe",
					      "lock", "child",	    "timer",  "other"};
	int first = series_metric_find(SERIES_PROCESS, "blocked_disk_ns");
	yyjson_val *blocked = yyjson_obj_get(object, "blocked_ns");
	int status = 0;

	if (!yyjson_is_obj(blocked))
		return !blocked || yyjson_is_null(blocked)
			       ? 0
			       : decode_fail(error, "blocked_ns", "is neither null nor an object");
	for (int i = 0; status == 0 && i < 8; i++) {
		yyjson_val *value = yyjson_obj_get(blocked, reasons[i]);

		point->value[first + i] = 0;
		if (value)
			status = decode_u64(batch, value, "blocked_ns", &point->value[first + i], error);
	}
	return status;
}

static int decode_time(struct lake_batch *batch, yyjson_val *record, uint64_t *ret_time_ns, struct decode_error *error)
{
	int status = decode_u64(batch, yyjson_obj_get(record, "time_ns"), "time_ns", ret_time_ns, error);

	if (status == 0 && *ret_time_ns == LAKE_NULL)
		return decode_fail(error, "time_ns", "is beyond any time");
	return status;
}

int decode_sample(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error)
{
	yyjson_val *boot = yyjson_obj_get(record, "boot"), *pid = yyjson_obj_get(record, "pid");
	yyjson_val *start = yyjson_obj_get(record, "start_boot_ns");
	const struct lake_text *boot_text;
	struct lake_point *point;
	uint64_t time_ns;
	int status = decode_time(batch, record, &time_ns, error);

	if (status < 0)
		return status;
	if (!yyjson_is_str(boot) || !yyjson_is_uint(pid) || !yyjson_is_uint(start) ||
	    yyjson_get_uint(pid) > LAKE_U64_MAX || yyjson_get_uint(start) > LAKE_U64_MAX)
		return decode_fail(error, "pid", "boot, pid and start_boot_ns must say whose sample it is");
	status = decode_text(batch, boot, "boot", &boot_text, error);
	if (status < 0)
		return status;
	point = lake_batch_point(
		batch, SERIES_PROCESS, sequence,
		lake_id_process(batch->host, boot_text->bytes, yyjson_get_uint(pid), yyjson_get_uint(start)), NULL,
		time_ns);
	if (!point)
		return -ENOMEM;
	point->boot = boot_text;
	point->pid = yyjson_get_uint(pid);
	point->start_boot_ns = yyjson_get_uint(start);
	status = decode_metrics(batch, record, point, error);
	return status < 0 ? status : decode_sample_blocked(batch, record, point, error);
}

// What of a part does not change: every member that is a text or a truth value and not its label.
static const struct lake_text *decode_attributes(struct lake_batch *batch, yyjson_val *part, const char *label)
{
	yyjson_obj_iter each = yyjson_obj_iter_with(part);
	struct json json;
	yyjson_val *key;
	bool any = false;

	buf_reset(&batch->scratch);
	json = json_to(&batch->scratch);
	json_open_object(&json);
	while ((key = yyjson_obj_iter_next(&each))) {
		yyjson_val *value = yyjson_obj_iter_get_val(key);
		const char *name = yyjson_get_str(key);

		if (!strcmp(name, label) || strspn(name, "abcdefghijklmnopqrstuvwxyz_") != yyjson_get_len(key))
			continue;
		if (!yyjson_is_str(value) && !yyjson_is_bool(value))
			continue;
		json_key(&json, name);
		if (yyjson_is_str(value))
			json_string_n(&json, yyjson_get_str(value), yyjson_get_len(value));
		else
			json_bool(&json, yyjson_get_bool(value));
		any = true;
	}
	json_close_object(&json);
	if (!any || buf_error(&batch->scratch) < 0)
		return NULL;
	return lake_batch_intern(batch, batch->scratch.data, batch->scratch.length);
}

// An array of objects, each a series of its own beside the record's.
static int decode_parts(struct lake_batch *batch, enum series_kind kind, yyjson_val *parts,
			const struct lake_point *whole, struct decode_error *error)
{
	const char *label_name = series_schemas[kind].label;
	yyjson_arr_iter each = yyjson_arr_iter_with(parts);
	yyjson_val *part;
	int status = 0;

	if (!parts || yyjson_is_null(parts))
		return 0;
	if (!yyjson_is_arr(parts) || yyjson_arr_size(parts) > PARTS_MAX)
		return decode_fail(error, series_schemas[kind].name, "is no array of at most %d objects", PARTS_MAX);
	while (status == 0 && (part = yyjson_arr_iter_next(&each))) {
		yyjson_val *name = yyjson_obj_get(part, label_name);
		const struct lake_text *label;
		struct lake_point *point;

		if (!yyjson_is_str(name))
			return decode_fail(error, series_schemas[kind].name, "has a part without %s", label_name);
		label = lake_batch_intern(batch, yyjson_get_str(name), yyjson_get_len(name));
		point = label ? lake_batch_point(batch, kind, whole->sequence, whole->owner_id, label, whole->time_ns)
			      : NULL;
		if (!point)
			return -ENOMEM;
		point->attributes = decode_attributes(batch, part, label_name);
		status = decode_metrics(batch, part, point, error);
	}
	return status;
}

int decode_hostsample(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error)
{
	static const struct {
		const char *member;
		enum series_kind kind;
	} parts[] = {
		{"disks", SERIES_DISK},
		{"mounts", SERIES_MOUNT},
		{"nfs", SERIES_NFS},
		{"lustre", SERIES_LUSTRE},
	};
	struct lake_point *point;
	uint64_t time_ns;
	int status = decode_time(batch, record, &time_ns, error);

	if (status < 0)
		return status;
	point = lake_batch_point(batch, SERIES_HOST, sequence, batch->host, NULL, time_ns);
	if (!point)
		return -ENOMEM;
	status = decode_metrics(batch, record, point, error);
	for (size_t i = 0; status == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		status = decode_parts(batch, parts[i].kind, yyjson_obj_get(record, parts[i].member), point, error);
	return status;
}

int decode_container(struct lake_batch *batch, yyjson_val *container, union lake_slot *slot, struct decode_error *error)
{
	static const struct {
		const char *member;
		int column;
	} texts[] = {
		{"runtime", CONTAINERS_container_runtime}, {"id", CONTAINERS_container_id},
		{"pod_uid", CONTAINERS_pod_uid},	   {"pod_qos", CONTAINERS_pod_qos},
		{"ecs_task", CONTAINERS_ecs_task},	   {"slurm_step", CONTAINERS_slurm_step},
	};
	yyjson_val *job = yyjson_obj_get(container, "slurm_job");
	int status = 0;

	if (!container || yyjson_is_null(container))
		return 0;
	if (!yyjson_is_obj(container))
		return decode_fail(error, "container", "is neither null nor an object");
	for (size_t i = 0; status == 0 && i < sizeof(texts) / sizeof(texts[0]); i++) {
		yyjson_val *value = yyjson_obj_get(container, texts[i].member);

		if (value)
			status = decode_text(batch, value, "container", &slot[texts[i].column].text, error);
	}
	if (status == 0 && job)
		status = decode_u64(batch, job, "container", &slot[CONTAINERS_slurm_job].u64, error);
	return status;
}

int decode_cgroup(struct lake_batch *batch, yyjson_val *record, uint64_t sequence, struct decode_error *error)
{
	yyjson_val *path = yyjson_obj_get(record, "cgroup");
	struct lake_point *point;
	struct lake_row *row;
	uint64_t time_ns;
	int status = decode_time(batch, record, &time_ns, error);

	if (status < 0)
		return status;
	if (!yyjson_is_str(path))
		return decode_fail(error, "cgroup", "is missing or no text");
	row = lake_batch_row(batch, ENTITY_CONTAINERS, sequence);
	if (!row)
		return -ENOMEM;
	status = decode_text(batch, path, "cgroup", &row->slot[CONTAINERS_cgroup].text, error);
	if (status == 0 && yyjson_obj_get(record, "host"))
		status = decode_text(batch, yyjson_obj_get(record, "host"), "host", &row->slot[CONTAINERS_host].text,
				     error);
	if (status == 0)
		status = decode_container(batch, yyjson_obj_get(record, "container"), row->slot, error);
	if (status < 0)
		return status;
	row->slot[CONTAINERS_id].u64 = lake_batch_id_cgroup(batch, row->slot[CONTAINERS_cgroup].text);
	point = lake_batch_point(batch, SERIES_CGROUP, sequence, row->slot[CONTAINERS_id].u64, NULL, time_ns);
	if (!point)
		return -ENOMEM;
	status = decode_metrics(batch, record, point, error);
	return status < 0 ? status : decode_parts(batch, SERIES_CGROUP_IO, yyjson_obj_get(record, "io"), point, error);
}
