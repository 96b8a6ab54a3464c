// SPDX-License-Identifier: Apache-2.0
// Reads the collector's snapshot of processes. What a line lacks is unknown; a line that is no record is counted.

#include "cli/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/clock.h"
#include "core/base/json.h"
#include "core/report_tree.h"
#include "core/rules.h"
#include "core/status.h"

enum { LIVE_ARENA_BLOCK = 256 * 1024 };

struct live_process *live_add(struct live *live)
{
	// Room doubles: a power of two is full.
	if ((live->count & (live->count - 1)) == 0) {
		size_t room = live->count ? live->count * 2 : 1;
		struct live_process *grown = realloc(live->rows, room * sizeof(*grown));

		if (!grown)
			return NULL;
		live->rows = grown;
	}
	live->rows[live->count] = (struct live_process){
		.cpu_ns = UINT64_MAX,
		.run_delay_ns = UINT64_MAX,
		.rss_bytes = UINT64_MAX,
		.threads = UINT64_MAX,
		.rchar_bytes = UINT64_MAX,
		.wchar_bytes = UINT64_MAX,
		.read_bytes = UINT64_MAX,
		.write_bytes = UINT64_MAX,
		.state = '?',
	};
	return &live->rows[live->count++];
}

static uint64_t live_u64(yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	return yyjson_is_uint(value) ? yyjson_get_uint(value) : UINT64_MAX;
}

static const char *live_text(struct live *live, yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	return yyjson_is_str(value)
		       ? arena_strndup(&live->arena, yyjson_get_str(value), yyjson_get_len(value))
		       : NULL;
}

static const char *live_command(struct live *live, yyjson_val *record)
{
	yyjson_arr_iter each = yyjson_arr_iter_with(yyjson_obj_get(record, "args"));
	char joined[4096], command[REPORT_TEXT_MAX];
	yyjson_val *argument;
	size_t used = 0;

	while ((argument = yyjson_arr_iter_next(&each)) && yyjson_is_str(argument)) {
		size_t length = yyjson_get_len(argument);

		if (used + length + 1 > sizeof(joined))
			break;
		memcpy(joined + used, yyjson_get_str(argument), length);
		used += length;
		joined[used++] = 0;
	}
	report_command(command, joined, used);
	return *command ? arena_strndup(&live->arena, command, strlen(command)) : NULL;
}

static const char *live_container(struct live *live, yyjson_val *record)
{
	yyjson_val *container = yyjson_obj_get(record, "container");
	const char *runtime = yyjson_get_str(yyjson_obj_get(container, "runtime"));
	const char *id = yyjson_get_str(yyjson_obj_get(container, "id"));
	char name[96];

	if (!runtime && !id)
		return NULL;
	snprintf(name, sizeof(name), "%.40s%s%.12s", runtime ? runtime : "",
		 runtime && id ? ":" : "", id ? id : "");
	return arena_strndup(&live->arena, name, strlen(name));
}

static int live_read_record(struct live *live, yyjson_val *record, const char *line, size_t length)
{
	struct live_process *process;
	uint64_t pid = live_u64(record, "pid"), number;
	const char *state = yyjson_get_str(yyjson_obj_get(record, "state"));

	if (pid > INT32_MAX) {
		live->bad_lines++;
		return 0;
	}
	process = live_add(live);
	if (!process)
		return -ENOMEM;
	process->pid = (uint32_t)pid;
	number = live_u64(record, "ppid");
	process->ppid = number <= INT32_MAX ? (uint32_t)number : 0;
	number = live_u64(record, "uid");
	process->uid = number <= UINT32_MAX ? (uint32_t)number : UINT32_MAX;
	process->state = state && *state ? *state : '?';
	process->start_boot_ns = live_u64(record, "start_boot_ns");
	process->figures_boot_ns = live_u64(record, "figures_boot_ns");
	process->cpu_ns = live_u64(record, "cpu_ns");
	process->run_delay_ns = live_u64(record, "run_delay_ns");
	process->rss_bytes = live_u64(record, "rss_bytes");
	process->threads = live_u64(record, "threads");
	if (process->threads == UINT64_MAX)
		process->threads = live_u64(record, "threads_max");
	process->rchar_bytes = live_u64(record, "rchar_bytes");
	process->wchar_bytes = live_u64(record, "wchar_bytes");
	process->read_bytes = live_u64(record, "read_bytes");
	process->write_bytes = live_u64(record, "write_bytes");
	process->comm = live_text(live, record, "comm");
	process->tool = live_text(live, record, "tool");
	process->task = live_text(live, record, "task_name");
	process->run = live_text(live, record, "run_name");
	if (!process->run)
		process->run = live_text(live, record, "run");
	process->engine = live_text(live, record, "engine");
	process->sample = live_text(live, record, "sample");
	process->cgroup = live_text(live, record, "cgroup");
	process->container = live_container(live, record);
	process->command = live_command(live, record);
	process->json = line;
	process->json_length = length;
	return 0;
}

static int live_read(struct live *live)
{
	const char *line = live->snapshot.data, *end = line ? line + live->snapshot.length : NULL;
	int error = 0;

	while (error == 0 && line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t length = (size_t)((newline ? newline : end) - line);
		yyjson_doc *document = yyjson_read(line, length, 0);

		if (document)
			error = live_read_record(live, yyjson_doc_get_root(document), line, length);
		else
			live->bad_lines += length > 0;
		yyjson_doc_free(document);
		line += length + 1;
	}
	return error;
}

static int live_compare(const void *left, const void *right)
{
	const struct live_process *a = left, *b = right;

	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

int live_take(struct live_source *source, struct live *live)
{
	int error = -ENOENT;

	if (!live->arena.block_size)
		arena_init(&live->arena, LIVE_ARENA_BLOCK);
	arena_reset(&live->arena);
	buf_reset(&live->snapshot);
	live->count = 0;
	live->bad_lines = 0;
	live->collector_error = 0;
	live->from_proc = source->proc_only;
	if (!source->proc_only) {
		error = status_fetch(source->socket, UINT64_C(5000000000), &live->snapshot);
		live->collector_error = error;
		live->from_proc = error < 0;
	}
	live->taken_boot_ns = clock_boot_ns();
	error = live->from_proc ? live_take_proc(source, live) : live_read(live);
	for (size_t i = 0; live->from_proc && i < live->count; i++)
		live->rows[i].figures_boot_ns = live->taken_boot_ns;
	if (live->count)
		qsort(live->rows, live->count, sizeof(*live->rows), live_compare);
	return error;
}

void live_free(struct live *live)
{
	if (live->arena.block_size)
		arena_free(&live->arena);
	buf_free(&live->snapshot);
	free(live->rows);
	*live = (struct live){0};
}

void live_source_free(struct live_source *source)
{
	rules_free(source->rules);
	source->rules = NULL;
}

void live_note(const struct live *live, char *out, size_t size)
{
	const char *why = live->collector_error == -EACCES   ? "the collector may not be asked"
			  : live->collector_error == -ENOENT ? "no collector runs"
			  : live->collector_error == -ECONNREFUSED ? "no collector runs"
			  : live->collector_error ? strerror(-live->collector_error)
						  : "as asked for";

	*out = 0;
	if (live->from_proc)
		snprintf(
			out, size,
			"from /proc (%s): runs and tasks only as far as their first processes still live",
			why);
	else if (live->bad_lines)
		snprintf(out, size, "%llu lines of the collector's answer were no records",
			 (unsigned long long)live->bad_lines);
}

bool live_matches(const struct live_process *process, const char *text)
{
	const char *const fields[] = {process->comm,	  process->tool,   process->task,
				      process->run,	  process->engine, process->sample,
				      process->container, process->cgroup, process->command};
	char number[16];

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (fields[i] && strcasestr(fields[i], text))
			return true;
	}
	snprintf(number, sizeof(number), "%u", process->pid);
	return !strcmp(number, text);
}

void live_write_json(const struct live_process *process, struct buf *out)
{
	struct json json = json_to(out);

	if (process->json) {
		buf_append(out, process->json, process->json_length);
		buf_append_char(out, '\n');
		return;
	}
	json_open_object(&json);
	json_put_string(&json, "kind", "process");
	json_put_u64(&json, "pid", process->pid);
	json_put_u64(&json, "ppid", process->ppid);
	json_put_u64(&json, "uid", process->uid);
	json_put_string(&json, "state", (char[]){process->state, 0});
	json_put_known_u64(&json, "start_boot_ns", process->start_boot_ns);
	json_put_string(&json, "comm", process->comm);
	json_put_string(&json, "tool", process->tool);
	json_put_string(&json, "task_name", process->task);
	json_put_string(&json, "run_name", process->run);
	json_put_string(&json, "engine", process->engine);
	json_put_string(&json, "sample", process->sample);
	json_put_string(&json, "cgroup", process->cgroup);
	json_put_string(&json, "command", process->command);
	json_put_known_u64(&json, "cpu_ns", process->cpu_ns);
	json_put_known_u64(&json, "run_delay_ns", process->run_delay_ns);
	json_put_known_u64(&json, "rss_bytes", process->rss_bytes);
	json_put_known_u64(&json, "threads", process->threads);
	json_put_known_u64(&json, "rchar_bytes", process->rchar_bytes);
	json_put_known_u64(&json, "wchar_bytes", process->wchar_bytes);
	json_put_known_u64(&json, "read_bytes", process->read_bytes);
	json_put_known_u64(&json, "write_bytes", process->write_bytes);
	json_close_object(&json);
	json_end_line(&json);
}
