// SPDX-License-Identifier: Apache-2.0
// Fills a report from recorded NDJSON. The file may be cut, damaged or hostile: a line is bounded, what is no
// record is counted and skipped, a member of the wrong type is unknown.

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/cleanup.h"
#include "core/report_tree.h"

enum {
	READ_LINE_MAX = 1024 * 1024, // arguments of 16 KiB grow by escaping
	READ_OPEN_MAX = 65536, // processes known to be open at once; a power of two
	READ_ARGS_MAX = 4096, // more than a report shows
};
// Times beyond the year 2100 and counts beyond any machine are damage.
#define READ_NUMBER_MAX (UINT64_C(1) << 62)

struct read {
	struct report *report;
	uint64_t *
		open; // identities of processes with an opening record and no closing one; 0 is free
	uint64_t open_count;
	uint64_t records;
	uint64_t begin_ns; // of the recording: its host record; UNKNOWN before that
};

static uint64_t read_u64(yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	if (!yyjson_is_uint(value) || yyjson_get_uint(value) > READ_NUMBER_MAX)
		return UNKNOWN;
	return yyjson_get_uint(value);
}

static const char *read_text(yyjson_val *object, const char *key)
{
	return yyjson_get_str(yyjson_obj_get(object, key));
}

static int32_t read_small(yyjson_val *object, const char *key, int32_t otherwise)
{
	uint64_t value = read_u64(object, key);

	return value <= 255 ? (int32_t)value : otherwise;
}

static enum quality read_quality(yyjson_val *record, const char *figure)
{
	const char *text = read_text(yyjson_obj_get(record, "quality"), figure);

	if (!text && yyjson_is_obj(yyjson_obj_get(record, "quality")))
		return QUALITY_EXACT; // only what is not exact is there
	for (int quality = QUALITY_EXACT; text && quality <= QUALITY_ESTIMATED; quality++) {
		if (!strcmp(text, quality_name((enum quality)quality)))
			return (enum quality)quality;
	}
	return QUALITY_UNKNOWN;
}

// --- processes seen to open --------------------------------------------------------------------------------------

static uint64_t *read_open_slot(struct read *read, uint64_t identity)
{
	size_t at = (identity * 0x9e3779b97f4a7c15) >> 48;

	while (read->open[at % READ_OPEN_MAX] && read->open[at % READ_OPEN_MAX] != identity)
		at++;
	return &read->open[at % READ_OPEN_MAX];
}

// Closes the gap that a removal leaves in a run of slots.
static void read_open_remove(struct read *read, uint64_t identity)
{
	uint64_t *slot = read_open_slot(read, identity);
	size_t at = (size_t)(slot - read->open);

	if (!*slot)
		return;
	*slot = 0;
	read->open_count--;
	while (read->open[++at % READ_OPEN_MAX]) {
		uint64_t moved = read->open[at % READ_OPEN_MAX];

		read->open[at % READ_OPEN_MAX] = 0;
		*read_open_slot(read, moved) = moved;
	}
}

static void read_open_add(struct read *read, uint64_t identity)
{
	uint64_t *slot = read_open_slot(read, identity);

	if (*slot || read->open_count >= READ_OPEN_MAX / 2)
		return;
	*slot = identity;
	read->open_count++;
}

// --- a process ---------------------------------------------------------------------------------------------------

static void read_command(yyjson_val *record, char out[REPORT_TEXT_MAX])
{
	yyjson_val *args = yyjson_obj_get(record, "args"), *argument;
	char joined[READ_ARGS_MAX];
	yyjson_arr_iter each = yyjson_arr_iter_with(args);
	size_t used = 0;

	while ((argument = yyjson_arr_iter_next(&each))) {
		size_t length = yyjson_get_len(argument);

		if (!yyjson_is_str(argument) || used + length + 1 > sizeof(joined))
			break;
		memcpy(joined + used, yyjson_get_str(argument), length);
		used += length;
		joined[used++] = 0;
	}
	report_command(out, joined, used);
	if (!out[0])
		snprintf(out, REPORT_TEXT_MAX, "%s",
			 read_text(record, "comm") ? read_text(record, "comm") : "?");
}

static void read_values(yyjson_val *record, uint64_t *value)
{
	uint64_t compaction_ns = read_u64(record, "compaction_stall_ns");
	yyjson_val *blocked = yyjson_obj_get(record, "blocked_ns");

	for (unsigned i = 0; i < REPORT_FIGURE_END; i++)
		value[i] = read_u64(record, report_figure_names[i]);
	if (value[REPORT_RECLAIM] != UNKNOWN && compaction_ns != UNKNOWN)
		value[REPORT_RECLAIM] += compaction_ns;
	// Schema 1 has a member for each reason instead, read above.
	for (unsigned i = 0; yyjson_is_obj(blocked) && i < BLOCKED_END; i++)
		value[REPORT_BLOCKED + i] = yyjson_obj_get(blocked, blocked_name((enum blocked)i))
						    ? read_u64(blocked, blocked_name((enum blocked)i))
						    : 0;
}

static void read_image(yyjson_val *value, struct report_image *image)
{
	read_values(value, image->value);
	// An image has no figures of waiting of its own: nothing is known to be missing from it.
	for (unsigned i = 0; i < REPORT_FIGURE_END; i++) {
		if (image->value[i] == UNKNOWN && !yyjson_obj_get(value, report_figure_names[i]))
			image->value[i] = 0;
	}
	image->tool = read_text(value, "tool");
	if (!image->tool)
		image->tool = read_text(value, "comm");
	image->start_ns = read_u64(value, "start_ns");
	image->peak_bytes = read_u64(value, "peak_rss_bytes");
}

// The launch of a program, or one too many, belongs to the program after it.
static bool read_is_merged(const struct report_process *process, yyjson_val *image,
			   uint64_t wall_ns)
{
	bool forked = yyjson_get_bool(yyjson_obj_get(image, "forked"));
	bool nameless = !forked && !read_text(image, "comm") && !read_text(image, "tool");

	return process->image_count + 1 >= REPORT_IMAGES_MAX ||
	       (process->image_count == 0 &&
		report_is_launch(wall_ns, nameless ? 0 : forked ? read_u64(image, "cpu_ns") : UNKNOWN));
}

static void read_add_values(uint64_t *into, const uint64_t *value)
{
	for (unsigned i = 0; i < REPORT_FIGURE_END; i++)
		into[i] = into[i] == UNKNOWN || value[i] == UNKNOWN ? UNKNOWN : into[i] + value[i];
}

// The programs before the last, each with its share; the last gets the rest, so that shares and process agree.
static void read_images(yyjson_val *record, struct report_process *process)
{
	yyjson_val *images = yyjson_obj_get(record, "images"), *value;
	yyjson_arr_iter each = yyjson_arr_iter_with(images);
	struct report_image carried = {0}, *last;
	size_t count = yyjson_arr_size(images);
	uint64_t start_ns = process->start_ns, begin_ns = start_ns;

	for (size_t i = 0; (value = yyjson_arr_iter_next(&each)) && i + 1 < count; i++) {
		struct report_image *image = &process->images[process->image_count];
		uint64_t next_ns = read_u64(yyjson_arr_get(images, i + 1), "start_ns");

		if (next_ns < begin_ns || next_ns > process->end_ns)
			continue;
		read_image(value, image);
		read_add_values(image->value, carried.value);
		if (read_is_merged(process, value, next_ns - begin_ns)) {
			carried = *image;
			begin_ns = next_ns;
			continue;
		}
		memset(carried.value, 0, sizeof(carried.value));
		image->tool = image->tool ? image->tool : "?";
		image->start_ns = start_ns;
		start_ns = begin_ns = image->end_ns = next_ns;
		process->image_count++;
	}
	last = &process->images[process->image_count++];
	last->tool =
		read_text(record, "tool") ? read_text(record, "tool") : read_text(record, "comm");
	last->tool = last->tool ? last->tool : "?";
	last->start_ns = start_ns;
	last->end_ns = process->end_ns;
	last->peak_bytes = UNKNOWN;
	memcpy(last->value, process->value, sizeof(last->value));
	for (uint32_t i = 0; i + 1 < process->image_count; i++) {
		for (unsigned figure = 0; figure < REPORT_FIGURE_END; figure++) {
			uint64_t share = process->images[i].value[figure];

			if (last->value[figure] != UNKNOWN && share != UNKNOWN)
				last->value[figure] -=
					share < last->value[figure] ? share : last->value[figure];
		}
	}
}

static uint64_t read_scaled(uint64_t value, uint64_t part, uint64_t whole)
{
	return value == UNKNOWN ? UNKNOWN : (uint64_t)((double)value * ((double)part / (double)whole));
}

// Of a process that ran before the recording began the record has the whole, its programs only what came after.
static void read_before(const struct read *read, yyjson_val *record, struct report_process *process)
{
	static const enum report_figure shared[] = {
		REPORT_CPU,   REPORT_RUN_DELAY, REPORT_MINOR_FAULTS, REPORT_MAJOR_FAULTS,
		REPORT_RCHAR, REPORT_WCHAR,	REPORT_READ,	     REPORT_WRITE,
	};
	yyjson_val *images = yyjson_obj_get(record, "images"), *value;
	yyjson_arr_iter each = yyjson_arr_iter_with(images);
	uint64_t sums[REPORT_FIGURE_END] = {0}, cpu_ns = process->value[REPORT_CPU];
	struct report_image image;

	if (read->begin_ns == UNKNOWN || process->start_ns >= read->begin_ns || !yyjson_arr_size(images))
		return;
	while ((value = yyjson_arr_iter_next(&each))) {
		read_image(value, &image);
		read_add_values(sums, image.value);
	}
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		uint64_t *whole = &process->value[shared[i]];

		if (*whole != UNKNOWN && sums[shared[i]] < *whole)
			*whole = sums[shared[i]];
	}
	if (cpu_ns == UNKNOWN || !cpu_ns || sums[REPORT_CPU] >= cpu_ns)
		return;
	process->value[REPORT_USER] = read_scaled(process->value[REPORT_USER], sums[REPORT_CPU], cpu_ns);
	process->value[REPORT_SYSTEM] = read_scaled(process->value[REPORT_SYSTEM], sums[REPORT_CPU], cpu_ns);
}

static void read_run(yyjson_val *record, struct report_process *process)
{
	const char *id = read_text(record, "run");

	process->task_root_start_ns = UNKNOWN;
	if (!id)
		return;
	process->runs[0] = (struct report_run){
		.id = id,
		.name = read_text(record, "run_name"),
		.engine = read_text(record, "engine"),
		.parent_id = read_text(record, "run_parent"),
		.root_start_ns = UNKNOWN,
	};
	process->run_count = 1;
	process->task_id = read_text(record, "task");
	process->task_name = read_text(record, "task_name");
	process->sample = read_text(record, "sample");
}

static int read_process(struct read *read, yyjson_val *record)
{
	uint64_t pid = read_u64(record, "pid"), threads = read_u64(record, "threads_max");
	uint64_t identity = read_u64(record, "start_boot_ns") ^ pid << 40;
	struct report_process process = {0};

	process.start_ns = read_u64(record, "start_ns");
	process.end_ns = read_u64(record, "end_ns");
	if (pid == UNKNOWN || process.start_ns == UNKNOWN)
		return -EBADMSG;
	identity = identity ? identity : 1;
	if (process.end_ns == UNKNOWN) {
		read_open_add(read, identity);
		return 0;
	}
	read_open_remove(read, identity);
	// The wall clock may have been set back in between.
	if (process.end_ns < process.start_ns)
		process.end_ns = process.start_ns;
	process.threads_max = threads <= UINT16_MAX ? (uint32_t)threads : 0;
	process.peak_bytes = read_u64(record, "peak_rss_bytes");
	process.peak_quality = read_quality(record, "memory");
	process.end.exit_code = read_small(record, "exit_code", -1);
	process.end.signal = read_small(record, "signal", 0);
	process.end.core = yyjson_get_bool(yyjson_obj_get(record, "core_dumped"));
	process.end.oom = yyjson_get_bool(yyjson_obj_get(record, "oom"));
	process.end.oom_limit = read_text(record, "oom_limit");
	process.end.meaning = end_meaning_of(read_text(yyjson_obj_get(record, "quality"), "end"));
	read_values(record, process.value);
	read_before(read, record, &process);
	read_run(record, &process);
	read_images(record, &process);
	read_command(record, process.command);
	return report_add(read->report, &process);
}

// --- other kinds -------------------------------------------------------------------------------------------------

static void read_host(struct read *read, yyjson_val *record)
{
	struct report_setup *setup = &read->report->setup;
	const char *host = read_text(record, "host");
	uint64_t cpus = read_u64(record, "cpu_count");

	if (read->begin_ns == UNKNOWN)
		read->begin_ns = read_u64(record, "time_ns");
	if (!setup->host && host)
		setup->host = arena_strndup(&read->report->arena, host,
					    strnlen(host, REPORT_TEXT_MAX - 1));
	else if (host && setup->host && strcmp(host, setup->host) != 0)
		report_note(read->report, "The file holds records of several hosts; CPUs and "
					  "memory are of the first.");
	if (setup->cpu_count == 0 && cpus <= UINT16_MAX)
		setup->cpu_count = (uint32_t)cpus;
	if (setup->memory_bytes == UNKNOWN)
		setup->memory_bytes = read_u64(record, "memory_bytes");
}

static void read_gap(struct read *read, yyjson_val *record)
{
	const char *room = read_text(record, "room"), *reason = read_text(record, "reason");
	uint64_t count = read_u64(record, "count");

	report_gap(read->report, room ? room : "?", reason ? reason : "?",
		   count == UNKNOWN ? 1 : count);
}

static void read_line(struct read *read, char *line, size_t length)
{
	yyjson_doc *document = yyjson_read(line, length, 0);
	yyjson_val *record = yyjson_doc_get_root(document);
	const char *kind = read_text(record, "kind");
	int error = 0;

	if (!kind)
		error = -EBADMSG;
	else if (!strcmp(kind, "process"))
		error = read_process(read, record);
	else if (!strcmp(kind, "host"))
		read_host(read, record);
	else if (!strcmp(kind, "gap"))
		read_gap(read, record);
	yyjson_doc_free(document);
	read->records += error != -EBADMSG;
	read->report->bad_lines += error == -EBADMSG;
}

// Lines longer than the buffer are dropped whole. Returns false at the end of the file.
static bool read_next(struct read *read, FILE *file, char *line, size_t *ret_length)
{
	bool whole;

	do {
		size_t length = 0;
		int c;

		while ((c = getc_unlocked(file)) != EOF && c != '\n') {
			if (length < READ_LINE_MAX)
				line[length] = (char)c;
			length++;
		}
		if (c == EOF && length == 0)
			return false;
		whole = length <= READ_LINE_MAX;
		read->report->bad_lines += !whole;
		*ret_length = length;
	} while (!whole);
	return true;
}

int report_read(struct report *report, FILE *file)
{
	CLEANUP(cleanup_free) char *line = malloc(READ_LINE_MAX);
	CLEANUP(cleanup_free) uint64_t *open = calloc(READ_OPEN_MAX, sizeof(*open));
	struct read read = {.report = report, .open = open, .begin_ns = UNKNOWN};
	size_t length;

	if (!line || !open)
		return -ENOMEM;
	errno = 0;
	while (read_next(&read, file, line, &length)) {
		if (length)
			read_line(&read, line, length);
	}
	if (ferror(file))
		return errno ? -errno : -EIO;
	report->outcome.still_running = read.open_count;
	report_nest(report);
	return read.records || report->bad_lines == 0 ? 0 : -EBADMSG;
}
