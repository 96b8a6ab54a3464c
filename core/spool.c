// SPDX-License-Identifier: Apache-2.0
// Spool: the writer's front. Takes records, numbers them, hands them to the segments or, while the disk refuses, to the
// memory ring; the tick commits, recovers and reports. Invariant: a record once accepted is in a segment, in the ring
// or counted as dropped, and frames reach the segments in sequence order.
#include "core/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/spool_writer.h"

#define NS_PER_S 1000000000ULL
#define RETRY_NS (NS_PER_S / 4)
#define HOUSEKEEPING_NS NS_PER_S
#define CAP_MINIMUM (64 << 10)

static enum spool_reason reason_of(int error)
{
	switch (error) {
	case -EXFULL:
		return SPOOL_CAP;
	case -ENOSPC:
	case -EDQUOT:
		return SPOOL_DISK_FULL;
	case -EROFS:
	case -EACCES:
	case -EPERM:
		return SPOOL_READ_ONLY;
	default:
		return SPOOL_IO_ERROR;
	}
}

static void fail(struct spool *spool, int error, uint64_t now_ns)
{
	spool->failing = true;
	spool->ring_reason = reason_of(error);
	spool->ring_error = -error;
	spool->retry_ns = now_ns + RETRY_NS;
}

static int options_check(struct spool *spool)
{
	struct spool_options *options = &spool->options;

	if (options->cap_bytes < CAP_MINIMUM || options->segment_bytes == 0 ||
	    options->group_commit_ns == 0 || options->group_commit_ns > NS_PER_S)
		return -EINVAL;
	// Small enough that dropping one segment is a small part of the whole.
	if (options->segment_bytes > options->cap_bytes / 8)
		options->segment_bytes = options->cap_bytes / 8;
	spool->record_max_bytes =
		options->cap_bytes / 4 < SPOOL_FRAME_MAX ? options->cap_bytes / 4 : SPOOL_FRAME_MAX;
	spool->frame_max_bytes = spool->record_max_bytes;
	if (spool->frame_max_bytes > options->segment_bytes)
		spool->frame_max_bytes = options->segment_bytes;
	if (options->memory_ring_bytes > 0 &&
	    spool->frame_max_bytes > options->memory_ring_bytes / 4)
		spool->frame_max_bytes = options->memory_ring_bytes / 4;
	return 0;
}

static void spool_free(struct spool *spool)
{
	struct spool_ring_frame *frame;

	if (!spool)
		return;
	spool_detach(spool);
	spool_sync_free(&spool->sync);
	while ((frame = spool_ring_take(&spool->ring)))
		free(frame);
	free(spool->path);
	free(spool);
}

int spool_open(const char *path, const struct spool_options *options, struct spool **ret_spool)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int result;

	if (!spool)
		return -ENOMEM;
	spool->options = options ? *options : (struct spool_options)SPOOL_OPTIONS_DEFAULT;
	spool->dir_fd = spool->lock_fd = spool->state_fd = -1;
	spool->lane[SPOOL_PROCESS].fd = spool->lane[SPOOL_SAMPLE].fd = -1;
	spool->sync.blocking = true;
	spool->path = strdup(path);
	result = spool->path ? options_check(spool) : -ENOMEM;
	if (result == 0) {
		spool->ring.limit_bytes = spool->options.memory_ring_bytes;
		spool_sync_init(&spool->sync, spool->options.blocking_sync);
		result = spool_attach(spool);
		if (result < 0 && result != -EBUSY && result != -ENOMEM) {
			fail(spool, result, clock_boot_ns());
			result = 0;
		}
	}
	if (result < 0) {
		spool_free(spool);
		return result;
	}
	*ret_spool = spool;
	return 0;
}

static void keep_in_ring(struct spool *spool, const struct spool_ring_frame *frame,
			 const char *data)
{
	struct spool_ring_frame *victim;
	int result;

	while ((result = spool_ring_add(&spool->ring, frame, data)) < 0) {
		victim = result == -E2BIG ? NULL : spool_ring_evict(&spool->ring, frame->class);
		if (!victim) {
			spool_drop(spool, spool->ring_reason, frame->first,
				   frame->first + frame->records - 1, frame->records);
			return;
		}
		spool_drop(spool, spool->ring_reason, victim->first,
			   victim->first + victim->records - 1, victim->records);
		free(victim);
	}
}

static void accept_frame(struct spool *spool, const char *data, size_t length, uint32_t records,
			 enum spool_class class)
{
	struct spool_ring_frame frame = {
		.first = spool->state.accepted + 1,
		.time_ns = clock_real_ns(),
		.length = length,
		.records = records,
		.class = class,
	};
	int result;

	// Counted only once it has a place: on its way there the cap may be enforced, which takes the sum.
	if (!spool->failing) {
		result = spool_lane_write(spool, &frame, data);
		if (result == 0) {
			spool->state.accepted += records;
			return;
		}
		fail(spool, result, clock_boot_ns());
	}
	spool->state.accepted += records;
	keep_in_ring(spool, &frame, data);
}

// Number of lines and the length of the longest; -EINVAL when the last is unfinished or one is empty.
static int lines_count(const char *records, size_t length, uint64_t *ret_count, size_t *ret_longest)
{
	uint64_t count = 0;
	size_t longest = 0;

	for (const char *line = records, *end = records + length; line < end; count++) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));

		if (!newline || newline == line)
			return -EINVAL;
		if ((size_t)(newline + 1 - line) > longest)
			longest = (size_t)(newline + 1 - line);
		line = newline + 1;
	}
	*ret_count = count;
	*ret_longest = longest;
	return 0;
}

// As many whole lines as fit into one frame; one line when even that does not fit.
static size_t frame_cut(const char *records, size_t length, size_t max)
{
	const char *newline;

	if (length <= max)
		return length;
	newline = memrchr(records, '\n', max);
	if (!newline)
		newline = memchr(records, '\n', length);
	return (size_t)(newline + 1 - records);
}

static void append_cut(struct spool *spool, const char *records, size_t length, uint64_t lines, enum spool_class class)
{
	uint64_t piece_lines;
	size_t longest;

	while (length > 0) {
		size_t piece = frame_cut(records, length, spool->frame_max_bytes);

		piece_lines = lines;
		if (piece < length)
			lines_count(records, piece, &piece_lines, &longest);
		accept_frame(spool, records, piece, (uint32_t)piece_lines, class);
		records += piece;
		length -= piece;
		lines -= piece_lines;
	}
}

int spool_append(struct spool *spool, const char *records, size_t length, uint32_t count,
		 enum spool_class class)
{
	uint64_t lines;
	size_t longest;
	int result = lines_count(records, length, &lines, &longest);

	if (result < 0 || lines == 0 || lines != count || (unsigned int)class >= SPOOL_CLASS_END)
		return -EINVAL;
	if (longest > spool->record_max_bytes)
		return -EMSGSIZE;
	append_cut(spool, records, length, lines, class);
	return 0;
}

int spool_append_counted(struct spool *spool, const char *records, size_t length, uint32_t count,
			 enum spool_class class)
{
	if (length > spool->frame_max_bytes || length < 2 || !count || records[length - 1] != '\n')
		return spool_append(spool, records, length, count, class);
	accept_frame(spool, records, length, count, class);
	return 0;
}

// Writes what waits in memory, oldest first; attaches first where need be.
static void recover(struct spool *spool, uint64_t now_ns)
{
	struct spool_ring_frame *frame;
	int result;

	if (!spool->attached) {
		result = spool_attach(spool);
		if (result < 0) {
			fail(spool, result, now_ns);
			return;
		}
	}
	while ((frame = spool->ring.head)) {
		result = spool_lane_write(spool, frame, frame->data);
		if (result < 0) {
			fail(spool, result, now_ns);
			return;
		}
		free(spool_ring_take(&spool->ring));
	}
	spool->failing = false;
}

static bool commit(struct spool *spool, uint64_t now_ns)
{
	bool waits = false;

	spool_sync_reap(&spool->sync);
	if (spool->sync.errors != spool->sync_errors_seen) {
		// The kernel forgets what it could not write once it has said so: what follows goes to a new file.
		spool->sync_errors_seen = spool->sync.errors;
		for (int class = 0; class < SPOOL_CLASS_END; class ++)
			spool_lane_seal(spool, (enum spool_class) class);
	}
	// At half the promised time, as the next tick may come just short of it.
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		if (!spool->lane[class].dirty_first)
			continue;
		if (!spool_sync_busy(&spool->sync, class) &&
		    now_ns - spool->lane[class].submitted_ns >= spool->options.group_commit_ns / 2)
			spool_lane_commit(spool, (enum spool_class) class, now_ns);
		else
			waits = true;
	}
	return waits;
}

bool spool_commit(struct spool *spool, uint64_t now_boot_ns)
{
	return !spool->attached || commit(spool, now_boot_ns) || spool->failing;
}

// Somebody may have removed the directory or the file that is being written: writes to it still succeed, unseen.
static void notice_removal(struct spool *spool, uint64_t now_ns)
{
	struct stat info;

	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct spool_writer_lane *lane = &spool->lane[class];
		struct spool_segment *segment;

		if (lane->fd < 0 || fstat(lane->fd, &info) < 0 || info.st_nlink > 0)
			continue;
		segment = &lane->files.segments[lane->files.count - 1];
		uint64_t first = segment->first, last = segment->last;

		spool_lane_seal(spool, (enum spool_class) class);
		spool_lane_unlink(spool, (enum spool_class) class, lane->files.count - 1);
		spool_balance(spool, first, last);
	}
	if (fstat(spool->dir_fd, &info) == 0 && info.st_nlink > 0)
		return;
	spool_detach(spool);
	spool_balance(spool, spool->state.acked + 1, spool->state.accepted);
	fail(spool, -ENOENT, now_ns);
}

static void report_gaps(struct spool *spool)
{
	for (int reason = 0; reason < SPOOL_REASON_END; reason++) {
		struct spool_gap gap = spool->gap[reason];

		// While records still fall out of the ring, a report would only push out more.
		if (gap.count == 0 ||
		    (spool->failing && (enum spool_reason)reason == spool->ring_reason))
			continue;
		spool->gap[reason].count = 0;
		spool->gaps++;
		if (spool->options.gap)
			spool->options.gap(spool->options.gap_context, &gap);
	}
}

void spool_tick(struct spool *spool, uint64_t now_boot_ns)
{
	if (spool->failing && now_boot_ns >= spool->retry_ns)
		recover(spool, now_boot_ns);
	if (spool->attached) {
		commit(spool, now_boot_ns);
		if (now_boot_ns >= spool->housekeeping_ns) {
			spool->housekeeping_ns = now_boot_ns + HOUSEKEEPING_NS;
			notice_removal(spool, now_boot_ns);
			if (spool->attached)
				spool_take_cursor(spool);
			if (spool->state.accepted != spool->state_accepted ||
			    spool->state.acked != spool->state_acked)
				spool->state_stale = true;
		}
		if (spool->attached && spool->state_stale)
			spool_state_write(spool);
	}
	report_gaps(spool);
}

static uint64_t durable(const struct spool *spool)
{
	uint64_t first = spool_sync_first(&spool->sync);

	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		if (spool->lane[class].dirty_first && spool->lane[class].dirty_first < first)
			first = spool->lane[class].dirty_first;
	if (spool->ring.head && spool->ring.head->first < first)
		first = spool->ring.head->first;
	return first <= spool->state.accepted ? first - 1 : spool->state.accepted;
}

void spool_stats(const struct spool *spool, struct spool_stats *ret_stats)
{
	*ret_stats = (struct spool_stats){
		.epoch = spool->state.epoch,
		.accepted = spool->state.accepted,
		.delivered = spool->state.delivered,
		.pending = spool_pending(spool),
		.acked = spool->state.acked,
		.durable = durable(spool),
		.segments = spool->lane[SPOOL_PROCESS].files.count +
			    spool->lane[SPOOL_SAMPLE].files.count,
		.bytes = spool->bytes,
		.gaps = spool->gaps,
		.ring_records = spool->ring.records,
		.ring_bytes = spool->ring.bytes,
		.ring_active = spool->failing,
		.ring_reason = spool->ring_reason,
		.ring_error = spool->failing ? spool->ring_error : 0,
		.blocking_sync = spool->sync.blocking,
		.syncs = spool->sync.done,
		.sync_errors = spool->sync.errors,
		.unclean_starts = spool->state.unclean_starts,
	};
	memcpy(ret_stats->dropped, spool->state.dropped, sizeof(ret_stats->dropped));
}

int spool_close(struct spool *spool)
{
	struct spool_ring_frame *frame;
	int result = 0;

	if (!spool)
		return 0;
	if (spool->failing)
		recover(spool, clock_boot_ns());
	while ((frame = spool_ring_take(&spool->ring))) {
		spool_drop(spool, spool->ring_reason, frame->first,
			   frame->first + frame->records - 1, frame->records);
		free(frame);
		result = -spool->ring_error;
	}
	if (spool->attached) {
		for (int class = 0; class < SPOOL_CLASS_END; class ++)
			spool_lane_seal(spool, (enum spool_class) class);
		spool_sync_drain(&spool->sync);
		spool->state.clean = spool->sync.errors == 0;
		spool_state_write(spool);
		fdatasync(spool->state_fd);
	}
	spool_free(spool);
	return result;
}
