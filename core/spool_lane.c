// SPDX-License-Identifier: Apache-2.0
// Spool: writing segments. Invariants: a segment holds whole frames in sequence order, or, after a crash, whole frames
// and one torn end; a segment being written is the last of its class; a crash at any point leaves each record in
// exactly one of: a segment, a counted drop. Must not wait for the disk, except where spool_sync does.
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/crc.h"
#include "core/spool_writer.h"

static struct spool_segment *writing(struct spool_writer_lane *lane)
{
	return &lane->files.segments[lane->files.count - 1];
}

void spool_lane_commit(struct spool *spool, enum spool_class class, uint64_t now_ns)
{
	struct spool_writer_lane *lane = &spool->lane[class];

	spool_sync_submit(&spool->sync, lane->fd, true, lane->dirty_first, class);
	lane->dirty_first = 0;
	lane->submitted_ns = now_ns;
}

static void lane_close(struct spool_writer_lane *lane)
{
	close(lane->fd);
	lane->fd = -1;
	lane->dirty_first = 0;
}

void spool_lane_seal(struct spool *spool, enum spool_class class)
{
	struct spool_writer_lane *lane = &spool->lane[class];
	char text[SPOOL_END_LINE];
	struct spool_segment *segment;

	if (lane->fd < 0)
		return;
	segment = writing(lane);
	spool_end_encode(&(struct spool_end_line){.class = class,
						  .first = segment->first,
						  .last = segment->last,
						  .records = segment->records,
						  .frames = segment->frames,
						  .bytes = segment->bytes},
			 text);
	if (pwrite(lane->fd, text, sizeof(text), (off_t)segment->bytes) == (ssize_t)sizeof(text)) {
		segment->sealed = true;
		segment->bytes += sizeof(text);
		spool->bytes += sizeof(text);
	} else if (ftruncate(lane->fd, (off_t)segment->bytes) < 0) {
		// A torn end line stays: readers pass over it, and the next start counts the segment by walking it.
		segment->sealed = false;
	}
	if (lane->dirty_first)
		spool_lane_commit(spool, class, clock_boot_ns());
	lane_close(lane);
}

void spool_lane_unlink(struct spool *spool, enum spool_class class, size_t index)
{
	struct spool_lane *files = &spool->lane[class].files;
	char name[SPOOL_NAME_SIZE];

	spool_segment_name(class, files->segments[index].first, name);
	unlinkat(spool->dir_fd, name, 0);
	spool->bytes -= files->segments[index].bytes;
	spool_lane_remove(files, index);
}

// Unlinks one segment and counts its records. False when whoever delivers holds it, or has just moved on in it.
static bool segment_drop(struct spool *spool, enum spool_class class, size_t index)
{
	const struct spool_segment *segment = &spool->lane[class].files.segments[index];
	CLEANUP(cleanup_close) int fd = spool_segment_open(spool->dir_fd, class, segment->first);
	uint64_t acked = spool->state.acked, first;
	size_t count = spool->lane[class].files.count;

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return false;
	// Only now can the cursor not move inside this segment any more.
	spool_take_cursor(spool);
	if (spool->state.acked != acked || spool->lane[class].files.count != count)
		return false;
	first = segment->first > acked ? segment->first : acked + 1;
	spool_drop(spool, SPOOL_CAP, first, segment->last,
		   segment->records - segment->acked_records);
	// Said before it is done: a crash between the two finds it counted, and finishes the unlink.
	spool->state.dropping_class = (uint64_t)class + 1;
	spool->state.dropping_first = segment->first;
	spool_state_write(spool);
	spool_lane_unlink(spool, class, index);
	spool->state.dropping_class = 0;
	spool->state.dropping_first = 0;
	return true;
}

// Samples first, oldest first, never a segment that is being written.
static bool drop_oldest(struct spool *spool)
{
	static const enum spool_class order[] = {SPOOL_SAMPLE, SPOOL_PROCESS};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		struct spool_writer_lane *lane = &spool->lane[order[i]];

		for (size_t at = 0; at + (lane->fd >= 0) < lane->files.count; at++)
			if (segment_drop(spool, order[i], at))
				return true;
	}
	return false;
}

static int make_room(struct spool *spool, uint64_t bytes)
{
	uint64_t before, acked;

	while (spool->bytes + bytes > spool->options.cap_bytes) {
		before = spool->bytes;
		acked = spool->state.acked;
		// The cursor may move in between, which frees room too and changes the list: look again.
		if (!drop_oldest(spool) && spool->bytes == before && spool->state.acked == acked)
			return -EXFULL;
	}
	return 0;
}

static int segment_create(struct spool *spool, enum spool_class class, uint64_t first)
{
	struct spool_writer_lane *lane = &spool->lane[class];
	char name[SPOOL_NAME_SIZE];
	int fd;

	spool_segment_name(class, first, name);
	fd = openat(spool->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
	if (fd < 0)
		return -errno;
	if (!spool_lane_add(&lane->files, first)) {
		close(fd);
		unlinkat(spool->dir_fd, name, 0);
		return -ENOMEM;
	}
	lane->fd = fd;
	// Whatever the umask is, the streamer's group can read.
	if (fchmod(fd, 0640) < 0)
		return -errno;
	spool_sync_submit(&spool->sync, spool->dir_fd, false, first, SPOOL_TAG_DIRECTORY);
	return 0;
}

static int write_at(int fd, struct iovec parts[2], uint64_t offset)
{
	while (parts[0].iov_len + parts[1].iov_len > 0) {
		ssize_t written = pwritev(fd, parts, 2, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		offset += (uint64_t)written;
		for (int i = 0; i < 2; i++) {
			size_t taken = (size_t)written < parts[i].iov_len ? (size_t)written
									  : parts[i].iov_len;

			parts[i].iov_base = (char *)parts[i].iov_base + taken;
			parts[i].iov_len -= taken;
			written -= (ssize_t)taken;
		}
	}
	return 0;
}

int spool_lane_write(struct spool *spool, const struct spool_ring_frame *frame, const char *data)
{
	struct spool_writer_lane *lane = &spool->lane[frame->class];
	uint64_t size = SPOOL_FRAME_LINE + frame->length;
	struct spool_segment *segment;
	char line[SPOOL_FRAME_LINE];
	int result;

	if (lane->fd >= 0 && writing(lane)->frames > 0 &&
	    writing(lane)->bytes + size > spool->options.segment_bytes)
		spool_lane_seal(spool, frame->class);
	result = make_room(spool, size + 2 * SPOOL_END_LINE); // both classes can always be sealed
	if (result == 0 && lane->fd < 0)
		result = segment_create(spool, frame->class, frame->first);
	if (result < 0)
		return result;
	spool_frame_encode(&(struct spool_frame_line){.class = frame->class,
						      .epoch = spool->state.epoch,
						      .first = frame->first,
						      .records = frame->records,
						      .bytes = frame->length,
						      .time_ns = frame->time_ns,
						      .crc = crc32c(0, data, frame->length)},
			   line);
	segment = writing(lane);
	result = write_at(
		lane->fd,
		(struct iovec[2]){{line, sizeof(line)}, {(void *)(uintptr_t)data, frame->length}},
		segment->bytes);
	if (result < 0) {
		// What was written is taken back; where even that fails the torn end stays and the segment is left.
		if (ftruncate(lane->fd, (off_t)segment->bytes) < 0)
			lane_close(lane);
		return result;
	}
	segment->bytes += size;
	segment->frames_end = segment->bytes;
	segment->last = frame->first + frame->records - 1;
	segment->records += frame->records;
	segment->frames++;
	spool->bytes += size;
	if (lane->dirty_first == 0) {
		lane->dirty_first = frame->first;
		lane->dirty_since_ns = clock_boot_ns();
	} else if (clock_boot_ns() - lane->dirty_since_ns >= spool->options.group_commit_ns &&
		   !spool_sync_busy(&spool->sync, frame->class)) {
		spool_lane_commit(spool, frame->class, clock_boot_ns());
	}
	return 0;
}
