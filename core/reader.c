// SPDX-License-Identifier: Apache-2.0
// The reader room. Lengths are checked here before any module sees a record. The timer slows down while nothing
// comes, so that an idle host is woken four times a second, and is quick again with the first record. Who drains as
// often anyway needs no timer.
#include "core/reader.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/ring.h"

enum { RING_LIFECYCLE, RING_DETAIL, RINGS };

static const uint64_t IDLE_INTERVAL_NS = 250 * 1000 * 1000ULL;

struct reader {
	struct loader *loader;
	struct loop *loop;
	struct loop_timer *timer;
	struct ring rings[RINGS];
	struct loaded_module *by_id[MODULE_ID_END];
	uint64_t interval_ns;
	uint64_t current_ns; // interval in force
	uint64_t malformed;
	uint64_t drained_ns;
	uint64_t hold_from_ns, skip_before_ns; // 0: neither
	struct buf held; // records behind each other, each on a multiple of 8
	reader_idle_fn *after;
	void *context;
	struct ring_totals *cpu_counts; // one a CPU, scratch
	int cpu_count;
};

static void hold(struct reader *reader, const struct event_header *event, size_t size)
{
	static const char padding[8];

	buf_append(&reader->held, event, size);
	buf_append(&reader->held, padding, -size & 7);
}

static void read_record(void *context, const void *data, size_t size)
{
	struct reader *reader = context;
	const struct event_header *event = data;
	struct loaded_module *loaded = NULL;

	if (size >= sizeof(*event) && event->time_ns < reader->skip_before_ns)
		return;
	if (reader->hold_from_ns && size >= sizeof(*event) && event->size <= size &&
	    event->time_ns >= reader->hold_from_ns) {
		hold(reader, event, event->size);
		return;
	}
	if (size >= sizeof(*event) && event->size <= size && event->size >= sizeof(*event) &&
	    event->kind >> 8 < MODULE_ID_END)
		loaded = reader->by_id[event->kind >> 8];
	if (!loaded || !loaded->module->record || loaded->module->record(loaded->data, event) < 0)
		reader->malformed++;
}

uint32_t reader_drain(struct reader *reader)
{
	uint64_t now_ns = clock_boot_ns();
	uint32_t records = 0;

	for (int i = 0; i < RINGS; i++) {
		if (reader->rings[i].size)
			records += ring_drain(&reader->rings[i], read_record, reader);
	}
	reader->drained_ns = now_ns;
	return records;
}

uint64_t reader_drained_ns(const struct reader *reader)
{
	return reader->drained_ns;
}

void reader_hold_from(struct reader *reader, uint64_t from_boot_ns)
{
	reader->hold_from_ns = from_boot_ns;
}

uint32_t reader_release(struct reader *reader)
{
	uint32_t records = 0;

	reader->hold_from_ns = 0;
	for (size_t at = 0; at < reader->held.length; records++) {
		struct event_header *event = (void *)(reader->held.data + at);

		read_record(reader, event, event->size);
		at += (event->size + 7u) & ~(size_t)7;
	}
	if (buf_error(&reader->held) < 0)
		reader->malformed++;
	buf_reset(&reader->held);
	return records;
}

void reader_skip_before(struct reader *reader, uint64_t until_boot_ns)
{
	reader->skip_before_ns = until_boot_ns;
}

static void reader_round(struct reader *reader)
{
	uint32_t records = reader_drain(reader);
	uint64_t wanted = records ? reader->interval_ns : reader->current_ns * 2;

	if (wanted > IDLE_INTERVAL_NS)
		wanted = IDLE_INTERVAL_NS;
	if (wanted != reader->current_ns && reader->timer) {
		reader->current_ns = wanted;
		loop_timer_set(reader->timer, wanted);
	}
	if (reader->after)
		reader->after(reader->context, records);
}

static void on_timer(void *context, uint64_t now_ns)
{
	(void)now_ns;
	reader_round(context);
}

static void on_wakeup(void *context, int fd, uint32_t events)
{
	(void)fd;
	(void)events;
	reader_round(context);
}

static int reader_ring_open(struct reader *reader, int ring, int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 length = sizeof(info);
	int result;

	if (fd < 0)
		return 0;
	result = bpf_map_get_info_by_fd(fd, &info, &length);
	if (!result)
		result = ring_open(&reader->rings[ring], fd, info.max_entries);
	if (!result)
		result = loop_add_fd(reader->loop, fd, EPOLLIN, on_wakeup, reader);
	return result;
}

int reader_new(struct loader *loader, struct loop *loop, uint64_t interval_ns, reader_idle_fn *after, void *context,
	       struct reader **ret_reader)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int result;

	if (!reader)
		return -ENOMEM;
	reader->loader = loader;
	reader->loop = loop;
	reader->interval_ns = reader->current_ns = interval_ns;
	reader->after = after;
	reader->context = context;
	reader->cpu_count = libbpf_num_possible_cpus();
	for (int id = 0; id < MODULE_ID_END; id++)
		reader->by_id[id] = loader_find(loader, (enum module_id)id);
	reader->cpu_counts = calloc((size_t)reader->cpu_count, sizeof(*reader->cpu_counts));
	result = reader->cpu_counts ? 0 : -ENOMEM;
	if (!result)
		result = reader_ring_open(reader, RING_LIFECYCLE, loader->ring_lifecycle_fd);
	if (!result)
		result = reader_ring_open(reader, RING_DETAIL, loader->ring_detail_fd);
	if (!result && interval_ns)
		result = loop_add_timer(loop, interval_ns, on_timer, reader, &reader->timer);
	if (result < 0) {
		reader_free(reader);
		return result;
	}
	*ret_reader = reader;
	return 0;
}

void reader_free(struct reader *reader)
{
	if (!reader)
		return;
	if (reader->timer)
		loop_timer_set(reader->timer, 0);
	for (int i = 0; i < RINGS; i++) {
		if (reader->rings[i].size)
			loop_remove_fd(reader->loop, i == RING_DETAIL ? reader->loader->ring_detail_fd
								      : reader->loader->ring_lifecycle_fd);
		ring_close(&reader->rings[i]);
	}
	free(reader->cpu_counts);
	buf_free(&reader->held);
	free(reader);
}

static int ring_sum(struct reader *reader, uint32_t ring, struct ring_totals *ret_totals)
{
	int result = bpf_map_lookup_elem(reader->loader->ring_counts_fd, &ring, reader->cpu_counts);

	if (result < 0)
		return result;
	*ret_totals = (struct ring_totals){ 0 };
	for (int cpu = 0; cpu < reader->cpu_count; cpu++) {
		for (int i = 0; i < EVENT_COUNT_END; i++)
			ret_totals->count[i] += reader->cpu_counts[cpu].count[i];
	}
	return 0;
}

int reader_stats(struct reader *reader, struct reader_stats *ret_stats)
{
	int result = ring_sum(reader, RING_LIFECYCLE, &ret_stats->lifecycle);

	if (!result)
		result = ring_sum(reader, RING_DETAIL, &ret_stats->detail);
	ret_stats->malformed = reader->malformed;
	for (int i = 0; i < RINGS; i++)
		ret_stats->malformed += reader->rings[i].malformed;
	return result;
}
