// SPDX-License-Identifier: Apache-2.0
// Fuzz room: any bytes as a string of a record. What json_string_n() writes must be one line of valid
// JSON, whatever a process calls itself, and the readers of names must stay inside their text.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "core/base/buf.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/cgroup_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const char *path, size_t length, const struct cgroup_slice *slice)
{
	if (slice->text && (slice->text < path || slice->text + slice->length > path + length))
		abort();
}

static void check_path(const char *path)
{
	struct cgroup_path_facts facts;
	size_t length = strlen(path);

	cgroup_path_parse(path, &facts);
	inside(path, length, &facts.container_id);
	inside(path, length, &facts.pod_uid);
	inside(path, length, &facts.ecs_task);
	inside(path, length, &facts.slurm_step);
	inside(path, length, &facts.unit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf buf = {0};
	struct json json = {.out = &buf};
	char *text = malloc(size + 1);
	yyjson_doc *doc;
	const char *back;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	json_open_object(&json);
	json_key(&json, "text");
	json_string_n(&json, text, size);
	json_close_object(&json);
	doc = yyjson_read(buf.data, buf.length, 0);
	if (!doc || memchr(buf.data, '\n', buf.length))
		abort();
	back = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "text"));
	if (!back)
		abort();
	yyjson_doc_free(doc);
	for (size_t i = 0; i < size;) {
		size_t step = utf8_sequence(text + i, size - i);

		if (step > size - i)
			abort();
		if (step)
			(void)utf8_is_control(text + i, step);
		i += step ? step : 1;
	}
	check_path(text);
	buf_free(&buf);
	free(text);
	return 0;
}
