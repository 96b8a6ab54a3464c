// SPDX-License-Identifier: Apache-2.0
// A run as a Perfetto trace: TrackEvent packets, one protobuf message after the other. A track for the run on each
// host, below it one for each task, below that lanes on which the task's processes do not overlap; and a counter of the
// CPUs each part used. Field numbers are those of perfetto's protos/perfetto/trace/trace_packet.proto and
// track_event/*.proto. Times are Unix nanoseconds.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lake/export_private.h"

enum { FLUSH_BYTES = 32 * 1024, SEQUENCE = 1, LANES_MAX = 4096, NAME_MAX_BYTES = 1024 };

enum packet_field {
	TRACE_PACKET = 1, // of Trace
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	COUNTER_UNIT_NAME = 6,
	EVENT_NOTE = 4,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_CATEGORY = 22,
	EVENT_NAME = 23,
	EVENT_VALUE = 44,
	NOTE_UINT = 3,
	NOTE_STRING = 6,
	NOTE_NAME = 10,
};

enum event_type { EVENT_BEGIN = 1, EVENT_END = 2, EVENT_COUNTER = 4 };

static const uint64_t S_NS = 1000000000;

// --- protobuf --------------------------------------------------------------------------------------------------------

static void put_varint(struct buf *out, uint64_t value)
{
	do {
		buf_append_char(out, (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0)));
		value >>= 7;
	} while (value);
}

static void put_number(struct buf *out, unsigned field, uint64_t value)
{
	put_varint(out, field << 3);
	put_varint(out, value);
}

static void put_bytes(struct buf *out, unsigned field, const void *data, size_t length)
{
	put_varint(out, field << 3 | 2);
	put_varint(out, length);
	buf_append(out, data, length);
}

static void put_string(struct buf *out, unsigned field, const char *text)
{
	put_bytes(out, field, text, strnlen(text, NAME_MAX_BYTES));
}

static void put_double(struct buf *out, unsigned field, double value)
{
	uint64_t bits;
	char bytes[8];

	memcpy(&bits, &value, sizeof(bits));
	for (int i = 0; i < 8; i++)
		bytes[i] = (char)(bits >> 8 * i);
	put_varint(out, field << 3 | 1);
	buf_append(out, bytes, sizeof(bytes));
}

// --- packets
// -----------------------------------------------------------------------------------------------------------

struct drawing {
	struct export *export;
	struct buf packet, inner, note;
	bool begun;
	// Of the part at work.
	const union lake_slot *run;
	struct export_rows tasks;
	struct lane *lanes; // of all tasks, by track
	size_t lane_count, lane_room;
};

struct lane {
	uint64_t track, end_ns;
	size_t next; // of the same parent, index + 1; 0: none
};

static int packet_end(struct drawing *drawing)
{
	struct export *export = drawing->export;

	put_number(&drawing->packet, PACKET_SEQUENCE, SEQUENCE);
	if (!drawing->begun)
		put_number(&drawing->packet, PACKET_FLAGS, 1); // incremental state begins here
	drawing->begun = true;
	put_bytes(&export->out, TRACE_PACKET, drawing->packet.data, drawing->packet.length);
	if (buf_error(&drawing->packet) || buf_error(&drawing->inner) || buf_error(&drawing->note))
		return -ENOMEM;
	buf_reset(&drawing->packet);
	buf_reset(&drawing->inner);
	return export->out.length > FLUSH_BYTES ? export_flush(export) : 0;
}

static int put_track(struct drawing *drawing, uint64_t uuid, uint64_t parent, const char *name, const char *unit)
{
	put_number(&drawing->inner, TRACK_UUID, uuid);
	if (name)
		put_string(&drawing->inner, TRACK_NAME, name);
	if (parent)
		put_number(&drawing->inner, TRACK_PARENT, parent);
	if (unit) {
		put_string(&drawing->note, COUNTER_UNIT_NAME, unit);
		put_bytes(&drawing->inner, TRACK_COUNTER, drawing->note.data, drawing->note.length);
		buf_reset(&drawing->note);
	}
	put_bytes(&drawing->packet, PACKET_TRACK, drawing->inner.data, drawing->inner.length);
	return packet_end(drawing);
}

static void begin_event(struct drawing *drawing, enum event_type type, uint64_t track, uint64_t time_ns)
{
	put_number(&drawing->packet, PACKET_TIMESTAMP, time_ns);
	put_number(&drawing->inner, EVENT_TYPE, type);
	put_number(&drawing->inner, EVENT_TRACK, track);
}

static int end_event(struct drawing *drawing)
{
	put_bytes(&drawing->packet, PACKET_EVENT, drawing->inner.data, drawing->inner.length);
	return packet_end(drawing);
}

static void note_number(struct drawing *drawing, const char *name, uint64_t value)
{
	if (value == LAKE_NULL)
		return;
	put_string(&drawing->note, NOTE_NAME, name);
	put_number(&drawing->note, NOTE_UINT, value);
	put_bytes(&drawing->inner, EVENT_NOTE, drawing->note.data, drawing->note.length);
	buf_reset(&drawing->note);
}

static void note_text(struct drawing *drawing, const char *name, union lake_slot slot)
{
	if (!slot.text)
		return;
	put_string(&drawing->note, NOTE_NAME, name);
	put_string(&drawing->note, NOTE_STRING, slot.text->bytes);
	put_bytes(&drawing->inner, EVENT_NOTE, drawing->note.data, drawing->note.length);
	buf_reset(&drawing->note);
}

static int end_slice(struct drawing *drawing, uint64_t track, uint64_t time_ns)
{
	begin_event(drawing, EVENT_END, track, time_ns);
	return end_event(drawing);
}

// --- what is drawn
// -------------------------------------------------------------------------------------------------------

// Another 64-bit name made from one: tracks that have no row of their own.
static uint64_t derive(uint64_t id, uint64_t number)
{
	uint64_t hash = (id ^ (number + 1) * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);

	return (hash ^ hash >> 31) | UINT64_C(1) << 63; // never one of the store's ids, which have 63 bits
}

// A lane below the parent that is free from start on; *first is the index of its first lane, + 1.
static struct lane *lane_of(struct drawing *drawing, uint64_t parent, size_t *first, uint64_t start_ns, bool *ret_new)
{
	size_t last = 0, count = 0;

	*ret_new = false;
	for (size_t i = *first; i; last = i, i = drawing->lanes[i - 1].next, count++)
		if (drawing->lanes[i - 1].end_ns <= start_ns || count >= LANES_MAX)
			return &drawing->lanes[i - 1];
	if (drawing->lane_count == drawing->lane_room) {
		size_t room = drawing->lane_room ? drawing->lane_room * 2 : 64;
		struct lane *lanes = reallocarray(drawing->lanes, room, sizeof(*lanes));
		if (!lanes)
			return NULL;
		drawing->lanes = lanes;
		drawing->lane_room = room;
	}
	drawing->lanes[drawing->lane_count] = (struct lane){.track = derive(parent, count)};
	*(last ? &drawing->lanes[last - 1].next : first) = ++drawing->lane_count;
	*ret_new = true;
	return &drawing->lanes[drawing->lane_count - 1];
}

struct task_lanes {
	uint64_t id;
	size_t first;
};

struct processes {
	struct drawing *drawing;
	struct task_lanes *tasks; // by id
	size_t count;
	size_t outside; // lanes of processes in no task
};

static size_t *lanes_of_task(struct processes *processes, uint64_t task_id)
{
	size_t low = 0, high = processes->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (processes->tasks[middle].id < task_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < processes->count && processes->tasks[low].id == task_id ? &processes->tasks[low].first : NULL;
}

static int draw_process(void *data, const union lake_slot *slot)
{
	struct processes *processes = data;
	struct drawing *drawing = processes->drawing;
	size_t *first = slot[PROCESSES_task_id].u64 == LAKE_NULL
				? NULL
				: lanes_of_task(processes, slot[PROCESSES_task_id].u64);
	uint64_t parent = first ? slot[PROCESSES_task_id].u64 : drawing->run[RUNS_id].u64;
	uint64_t start = slot[PROCESSES_start_ns].u64;
	uint64_t end = export_end(drawing->export, slot[PROCESSES_end_ns].u64, 0);
	bool is_new;
	struct lane *lane = lane_of(drawing, parent, first ? first : &processes->outside, start, &is_new);
	int error;

	if (!lane)
		return -ENOMEM;
	end = end < start ? start : end;
	lane->end_ns = end;
	uint64_t track = lane->track;
	error = is_new ? put_track(drawing, track, parent, "processes", NULL) : 0;
	begin_event(drawing, EVENT_BEGIN, track, start);
	put_string(&drawing->inner, EVENT_CATEGORY, "process");
	put_string(&drawing->inner, EVENT_NAME,
		   slot[PROCESSES_tool].text ? export_text(slot[PROCESSES_tool]) : export_text(slot[PROCESSES_comm]));
	note_number(drawing, "pid", slot[PROCESSES_pid].u64);
	note_number(drawing, "ppid", slot[PROCESSES_ppid].u64);
	note_number(drawing, "exit_code", slot[PROCESSES_exit_code].u64);
	note_number(drawing, "signal", slot[PROCESSES_signal].u64);
	note_number(drawing, "cpu_ns", slot[PROCESSES_cpu_ns].u64);
	note_number(drawing, "run_delay_ns", slot[PROCESSES_run_delay_ns].u64);
	note_number(drawing, "peak_rss_bytes", slot[PROCESSES_peak_rss_bytes].u64);
	note_number(drawing, "read_bytes", slot[PROCESSES_read_bytes].u64);
	note_number(drawing, "write_bytes", slot[PROCESSES_write_bytes].u64);
	note_text(drawing, "exe", slot[PROCESSES_exe]);
	note_text(drawing, "args", slot[PROCESSES_args]);
	note_text(drawing, "cwd", slot[PROCESSES_cwd]);
	error = error ? error : end_event(drawing);
	return error ? error : end_slice(drawing, track, end);
}

static int draw_task(struct drawing *drawing, const union lake_slot *row)
{
	uint64_t id = row[TASKS_id].u64, start = row[TASKS_start_ns].u64;
	uint64_t end = export_end(drawing->export, row[TASKS_end_ns].u64, row[TASKS_living].u64);
	const char *name = row[TASKS_task_name].text ? export_text(row[TASKS_task_name]) : export_text(row[TASKS_task]);
	int error = put_track(drawing, id, drawing->run[RUNS_id].u64, name, NULL);

	if (error || start == LAKE_NULL)
		return error;
	begin_event(drawing, EVENT_BEGIN, id, start);
	put_string(&drawing->inner, EVENT_CATEGORY, "task");
	put_string(&drawing->inner, EVENT_NAME, name);
	note_text(drawing, "task", row[TASKS_task]);
	note_text(drawing, "sample", row[TASKS_sample]);
	note_number(drawing, "exit_code", row[TASKS_exit_code].u64);
	note_number(drawing, "processes", row[TASKS_processes].u64);
	note_number(drawing, "failures", row[TASKS_failures].u64);
	note_number(drawing, "cpu_ns", row[TASKS_cpu_ns].u64);
	note_number(drawing, "peak_rss_bytes", row[TASKS_peak_rss_bytes].u64);
	error = end_event(drawing);
	return error ? error : end_slice(drawing, id, end < start ? start : end);
}

static int draw_counter(void *data, const char *label, uint64_t time_ns, const struct store_step *steps)
{
	struct drawing *drawing = data;

	(void)label;
	if (!steps[0].count)
		return 0;
	begin_event(drawing, EVENT_COUNTER, derive(drawing->run[RUNS_id].u64, UINT32_MAX), time_ns);
	put_double(&drawing->inner, EVENT_VALUE, steps[0].mean / (double)S_NS);
	return end_event(drawing);
}

// CPUs in use over the run, from its time series.
static int draw_cpu(struct drawing *drawing, uint64_t start, uint64_t end)
{
	const uint8_t metric = (uint8_t)series_metric_find(SERIES_RUN, "cpu_ns");
	const struct store_series_query query = {
		.workspace = drawing->export->question->workspace,
		.kind = SERIES_RUN,
		.owner_id = drawing->run[RUNS_id].u64,
		.metrics = &metric,
		.metric_count = 1,
		.from_ns = start - start % (10 * S_NS),
		.to_ns = end + 10 * S_NS,
		.step_ns = 10 * S_NS,
	};
	int error = put_track(drawing, derive(query.owner_id, UINT32_MAX), query.owner_id, "CPUs used", "CPUs");

	return error ? error
		     : store_series(drawing->export->question->reader, &query, draw_counter, drawing,
				    drawing->export->error);
}

static int by_task(const void *a, const void *b)
{
	uint64_t x = ((const struct task_lanes *)a)->id, y = ((const struct task_lanes *)b)->id;

	return x < y ? -1 : x > y;
}

static int draw_processes(struct drawing *drawing)
{
	struct processes processes = {.drawing = drawing, .count = drawing->tasks.count};
	int error;

	processes.tasks = calloc(processes.count + 1, sizeof(*processes.tasks));
	if (!processes.tasks)
		return -ENOMEM;
	for (size_t i = 0; i < processes.count; i++)
		processes.tasks[i].id = drawing->tasks.rows[i][TASKS_id].u64;
	qsort(processes.tasks, processes.count, sizeof(*processes.tasks), by_task);
	drawing->lane_count = 0;
	error = export_each(drawing->export, ENTITY_PROCESSES, PROCESSES_run_id, drawing->run[RUNS_id].u64,
			    PROCESSES_start_ns, draw_process, &processes);
	free(processes.tasks);
	return error;
}

static int draw_run(struct drawing *drawing, const union lake_slot *row)
{
	uint64_t id = row[RUNS_id].u64, start = row[RUNS_start_ns].u64, whole = drawing->export->whole;
	uint64_t end = export_end(drawing->export, row[RUNS_end_ns].u64, row[RUNS_living].u64);
	const char *name = row[RUNS_run_name].text ? export_text(row[RUNS_run_name]) : export_text(row[RUNS_run]);
	char title[512];
	int error;

	if (start == LAKE_NULL)
		return 0;
	drawing->run = row;
	snprintf(title, sizeof(title), "%s on %s", name, export_text(row[RUNS_host]));
	error = put_track(drawing, id, id == whole ? 0 : whole, title, NULL);
	begin_event(drawing, EVENT_BEGIN, id, start);
	put_string(&drawing->inner, EVENT_CATEGORY, "run");
	put_string(&drawing->inner, EVENT_NAME, name);
	note_text(drawing, "run", row[RUNS_run]);
	note_text(drawing, "host", row[RUNS_host]);
	note_text(drawing, "engine", row[RUNS_engine]);
	note_text(drawing, "command", row[RUNS_command]);
	note_number(drawing, "exit_code", row[RUNS_exit_code].u64);
	note_number(drawing, "processes", row[RUNS_processes].u64);
	note_number(drawing, "cpu_ns", row[RUNS_cpu_ns].u64);
	error = error ? error : end_event(drawing);
	error = error ? error : end_slice(drawing, id, end < start ? start : end);
	error = error ? error : draw_cpu(drawing, start, end);
	error = error ? error : export_rows(drawing->export, ENTITY_TASKS, TASKS_run_id, id, &drawing->tasks);
	for (size_t i = 0; i < drawing->tasks.count && !error; i++)
		error = draw_task(drawing, drawing->tasks.rows[i]);
	return error ? error : draw_processes(drawing);
}

int export_perfetto(struct export *export)
{
	struct drawing drawing = {.export = export};
	int error = 0;

	for (size_t i = 0; i < export->run_count && !error; i++)
		error = draw_run(&drawing, export->runs[i]);
	free(drawing.lanes);
	buf_free(&drawing.packet);
	buf_free(&drawing.inner);
	buf_free(&drawing.note);
	return error;
}
