// SPDX-License-Identifier: Apache-2.0
// Spool: reading. Each class is a lane of segments in which numbers rise; merging the lanes by number gives every
// record in order, and every hole exactly. Damage in a lane is held back until the lane's next frame comes up in the
// merge: the numbers missing by then are what the damage cost. Must not trust a byte that no CRC covers.
#include "core/spool_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/spool_files.h"
#include "core/spool_walk.h"

enum { DAMAGE_MAX = 16 }; // places held back a lane; further ones are counted into the last

struct held {
	int fd;
	uint64_t last;
};

struct lane {
	struct spool_lane files; // as last listed
	uint64_t current; // first sequence of the open segment; 0 none yet
	uint64_t last; // highest number read from it
	int fd;
	bool ended; // its end line was read, or a later segment exists: it grows no more
	bool exhausted; // FINAL: nothing more will come
	uint64_t checked_reads; // reads of the other lane when this one was last found empty
	struct spool_walk walk;
	struct spool_piece head; // the next frame, when has_head
	bool has_head;
	struct spool_item damage[DAMAGE_MAX];
	size_t damage_count;
	struct held *held;
	size_t held_count, held_capacity;
};

struct spool_reader {
	int dir_fd;
	unsigned int flags;
	uint64_t from;
	uint64_t expected; // the next number; 0 not known yet
	struct lane lane[SPOOL_CLASS_END];
	struct spool_item queue[2 * DAMAGE_MAX]; // to be returned first
	size_t queue_count, queue_next;
};

const char *spool_hole_name(enum spool_hole hole)
{
	static const char *const names[] = {"missing", "records", "line", "torn", "unreadable"};

	return names[hole];
}

bool spool_is_written(int dir_fd)
{
	CLEANUP(cleanup_close)
	int fd = openat(dir_fd, SPOOL_LOCK_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

void spool_reader_close(struct spool_reader *reader)
{
	if (!reader)
		return;
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct lane *lane = &reader->lane[class];

		if (lane->fd >= 0)
			close(lane->fd);
		for (size_t i = 0; i < lane->held_count; i++)
			close(lane->held[i].fd);
		free(lane->held);
		spool_walk_free(&lane->walk);
		spool_lane_free(&lane->files);
	}
	free(reader);
}

void spool_reader_release(struct spool_reader *reader, uint64_t acked)
{
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct lane *lane = &reader->lane[class];
		size_t kept = 0;

		for (size_t i = 0; i < lane->held_count; i++)
			if (lane->held[i].last <= acked)
				close(lane->held[i].fd);
			else
				lane->held[kept++] = lane->held[i];
		lane->held_count = kept;
	}
}

// ---- one lane ---------------------------------------------------------------------------------------------------

static void damage_add(struct lane *lane, enum spool_class class, enum spool_hole hole,
		       const struct spool_piece *piece)
{
	struct spool_item *damage;

	if (lane->damage_count == DAMAGE_MAX) {
		lane->damage[DAMAGE_MAX - 1].bytes += piece->length;
		return;
	}
	damage = &lane->damage[lane->damage_count++];
	*damage = (struct spool_item){
		.kind = SPOOL_ITEM_GAP,
		.class = class,
		.hole = hole,
		.offset = piece->offset,
		.bytes = piece->length,
	};
	if (piece->torn_line) { // what it would have held, should nothing behind it tell
		damage->first = piece->line.first;
		damage->last = piece->line.first + piece->line.records - 1;
	}
	spool_segment_name(class, lane->current, damage->file);
}

static int lane_list(struct spool_reader *reader)
{
	struct spool_lane lanes[SPOOL_CLASS_END] = {0};
	int result = spool_list(reader->dir_fd, lanes);

	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		if (result == 0) {
			spool_lane_free(&reader->lane[class].files);
			reader->lane[class].files = lanes[class];
		} else {
			spool_lane_free(&lanes[class]);
		}
	}
	return result;
}

int spool_reader_open(int dir_fd, uint64_t from, unsigned int flags,
		      struct spool_reader **ret_reader)
{
	struct spool_reader *reader = calloc(1, sizeof(*reader));
	int result;

	if (!reader)
		return -ENOMEM;
	reader->dir_fd = dir_fd;
	reader->flags = flags;
	reader->from = from;
	reader->expected = from;
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		reader->lane[class].fd = -1;
		reader->lane[class].checked_reads = UINT64_MAX;
	}
	result = lane_list(reader);
	if (result < 0) {
		spool_reader_close(reader);
		return result;
	}
	// A segment's name is the number of its first record: damage to that one shows too.
	for (int class = 0; from == 0 && class < SPOOL_CLASS_END; class ++) {
		const struct spool_lane *files = &reader->lane[class].files;

		if (files->count > 0 &&
		    (reader->expected == 0 || files->segments[0].first < reader->expected))
			reader->expected = files->segments[0].first;
	}
	*ret_reader = reader;
	return 0;
}

// First sequence of the segment after the current one; at the start, of the one that holds from. 0 none listed.
static uint64_t lane_following(const struct spool_reader *reader, const struct lane *lane)
{
	uint64_t found = 0;

	for (size_t i = 0; i < lane->files.count; i++) {
		uint64_t first = lane->files.segments[i].first;

		if (lane->current > 0 && first > lane->current)
			return first;
		if (lane->current == 0 && (found == 0 || first <= reader->from))
			found = first;
	}
	return found;
}

static int lane_leave(struct spool_reader *reader, struct lane *lane)
{
	if (lane->fd < 0)
		return 0;
	if (!(reader->flags & SPOOL_READER_HOLD)) {
		close(lane->fd);
		lane->fd = -1;
		return 0;
	}
	if (lane->held_count == lane->held_capacity) {
		size_t capacity = lane->held_capacity ? lane->held_capacity * 2 : 16;
		void *grown = reallocarray(lane->held, capacity, sizeof(*lane->held));

		if (!grown)
			return -ENOMEM;
		lane->held = grown;
		lane->held_capacity = capacity;
	}
	lane->held[lane->held_count++] = (struct held){lane->fd, lane->last};
	lane->fd = -1;
	return 0;
}

// False: the writer is dropping this segment at this moment, so it is as good as gone.
static bool lane_hold(int fd)
{
	struct stat info;

	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno != EWOULDBLOCK;
	return fstat(fd, &info) < 0 || info.st_nlink > 0;
}

static int lane_enter(struct spool_reader *reader, enum spool_class class, uint64_t first)
{
	struct lane *lane = &reader->lane[class];
	int result = lane_leave(reader, lane), fd;

	if (result < 0)
		return result;
	fd = spool_segment_open(reader->dir_fd, class, first);
	lane->current = first;
	lane->last = 0;
	lane->ended = false;
	if (fd >= 0 && (reader->flags & SPOOL_READER_HOLD) && !lane_hold(fd)) {
		close(fd);
		return 0;
	}
	if (fd == -ENOENT)
		return 0;
	if ((reader->flags & SPOOL_READER_HOLD) &&
	    (fd == -EACCES || fd == -EPERM || fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM))
		return fd; // says nothing about the file
	if (fd < 0 && (reader->flags & SPOOL_READER_PATIENT))
		return -EREMOTEIO;
	if (fd < 0) {
		damage_add(lane, class, SPOOL_HOLE_UNREADABLE, &(struct spool_piece){0});
		return 0;
	}
	lane->fd = fd;
	spool_walk_start(&lane->walk, fd, 0);
	return 0;
}

// The open segment has no more, or none is open. 1: another one was entered, or this one is to be looked at again.
static int lane_advance(struct spool_reader *reader, enum spool_class class)
{
	struct lane *lane = &reader->lane[class];
	uint64_t following = lane_following(reader, lane);
	int result;

	if (following == 0) {
		result = lane_list(reader);
		if (result < 0)
			return result;
		following = lane_following(reader, lane);
	}
	if (following == 0) {
		lane->exhausted = reader->flags & SPOOL_READER_FINAL;
		return 0;
	}
	if (lane->fd >= 0 && !lane->ended) {
		// The writer went on: what this one holds now is all. It may have grown since we looked.
		lane->ended = true;
		return 1;
	}
	result = lane_enter(reader, class, following);
	return result < 0 ? result : 1;
}

static void lane_abandon(struct spool_reader *reader, enum spool_class class)
{
	struct lane *lane = &reader->lane[class];

	damage_add(lane, class, SPOOL_HOLE_UNREADABLE,
		   &(struct spool_piece){.offset = lane->walk.offset});
	close(lane->fd);
	lane->fd = -1;
	lane->has_head = false;
}

// Makes has_head true unless nothing is there now.
static int lane_fill(struct spool_reader *reader, enum spool_class class)
{
	struct lane *lane = &reader->lane[class];
	int result;

	while (!lane->has_head && !lane->exhausted) {
		lane->head.kind = SPOOL_PIECE_NOTHING;
		if (lane->fd >= 0) {
			result = spool_walk_next(
				&lane->walk, lane->ended || (reader->flags & SPOOL_READER_FINAL),
				&lane->head);
			if (result == -ENOMEM)
				return result;
			if (result < 0 && (reader->flags & SPOOL_READER_PATIENT))
				return -EREMOTEIO;
			if (result < 0) {
				lane_abandon(reader, class);
				continue;
			}
		}
		switch (lane->head.kind) {
		case SPOOL_PIECE_FRAME:
		case SPOOL_PIECE_BAD_RECORDS:
			lane->has_head = true;
			lane->last = lane->head.line.first + lane->head.line.records - 1;
			break;
		case SPOOL_PIECE_TORN:
		case SPOOL_PIECE_BAD_LINE:
			damage_add(lane, class,
				   lane->head.kind == SPOOL_PIECE_TORN ? SPOOL_HOLE_TORN
								       : SPOOL_HOLE_LINE,
				   &lane->head);
			break;
		case SPOOL_PIECE_END:
			lane->ended = true;
			break;
		case SPOOL_PIECE_NOTHING:
			result = lane_advance(reader, class);
			if (result <= 0)
				return result;
			break;
		}
	}
	return 0;
}

// ---- the merge --------------------------------------------------------------------------------------------------

// Fills both lanes. A lane found empty is looked at again whenever the other was read from its file since: only then
// is it sure that no lower number is to come, as the writer writes in order.
static int fill(struct spool_reader *reader)
{
	bool found;
	int result;

	do {
		found = false;
		for (int class = 0; class < SPOOL_CLASS_END; class ++) {
			struct lane *lane = &reader->lane[class], *other = &reader->lane[!class];

			if (lane->has_head || lane->exhausted ||
			    (other->has_head && lane->checked_reads == other->walk.reads))
				continue;
			lane->checked_reads = other->has_head ? other->walk.reads : UINT64_MAX;
			result = lane_fill(reader, (enum spool_class) class);
			if (result < 0)
				return result;
			if (lane->has_head)
				lane->checked_reads = UINT64_MAX;
			found |= lane->has_head;
		}
	} while (found);
	return 0;
}

static struct lane *lowest(struct spool_reader *reader)
{
	struct lane *best = NULL;

	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct lane *lane = &reader->lane[class];

		if (lane->has_head && (!best || lane->head.line.first < best->head.line.first))
			best = lane;
	}
	return best;
}

static void queue_damage(struct spool_reader *reader, struct lane *lane)
{
	for (size_t i = 0; i < lane->damage_count; i++)
		reader->queue[reader->queue_count++] = lane->damage[i];
	lane->damage_count = 0;
}

void spool_reader_settle(struct spool_reader *reader)
{
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct lane *lane = &reader->lane[class];

		for (size_t i = 0; i < lane->damage_count; i++) {
			struct spool_item *damage = &lane->damage[i];

			if (damage->count > 0)
				continue;
			if (damage->first > 0 && damage->first >= reader->expected) {
				damage->count = damage->last - damage->first + 1;
				continue;
			}
			damage->first = damage->last = 0;
			damage->count = SPOOL_COUNT_UNKNOWN;
		}
		queue_damage(reader, lane);
	}
}

// Numbers from expected up to before are missing: the first damage held back accounts for them, else nothing does.
static bool hole(struct spool_reader *reader, uint64_t before, struct spool_item *ret_item)
{
	uint64_t first = reader->expected, count = before - first;

	reader->expected = before;
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		struct spool_item *damage = &reader->lane[class].damage[0];

		if (reader->lane[class].damage_count == 0)
			continue;
		if (damage->count == 0)
			damage->first = first;
		damage->last = before - 1;
		damage->count += count;
		return false;
	}
	*ret_item = (struct spool_item){.kind = SPOOL_ITEM_GAP,
					.hole = SPOOL_HOLE_MISSING,
					.first = first,
					.last = before - 1,
					.count = count};
	return true;
}

static void consume(struct spool_reader *reader, struct lane *lane, struct spool_item *ret_item)
{
	const struct spool_frame_line *line = &lane->head.line;

	*ret_item = (struct spool_item){
		.kind = SPOOL_ITEM_FRAME,
		.first = line->first,
		.last = line->first + line->records - 1,
		.count = line->records,
		.class = (enum spool_class)line->class,
		.epoch = line->epoch,
		.time_ns = line->time_ns,
		.crc = (uint32_t)line->crc,
		.data = lane->head.data,
		.length = line->bytes,
	};
	if (lane->head.kind == SPOOL_PIECE_BAD_RECORDS) {
		ret_item->kind = SPOOL_ITEM_GAP;
		ret_item->hole = SPOOL_HOLE_RECORDS;
		ret_item->offset = lane->head.offset;
		ret_item->bytes = lane->head.length;
		ret_item->length = 0;
		spool_segment_name(lane == &reader->lane[SPOOL_SAMPLE] ? SPOOL_SAMPLE
								       : SPOOL_PROCESS,
				   lane->current, ret_item->file);
	}
	reader->expected = ret_item->last + 1;
	lane->has_head = false;
}

int spool_reader_next(struct spool_reader *reader, struct spool_item *ret_item)
{
	struct lane *lane;
	int result;

	for (;;) {
		if (reader->queue_next < reader->queue_count) {
			*ret_item = reader->queue[reader->queue_next++];
			return 1;
		}
		reader->queue_next = reader->queue_count = 0;
		result = fill(reader);
		if (result < 0)
			return result;
		lane = lowest(reader);
		if (!lane) {
			if (!(reader->flags & SPOOL_READER_FINAL))
				return 0;
			spool_reader_settle(reader);
			if (reader->queue_count == 0)
				return 0;
			continue;
		}
		// Before the start, or a number that came already: a restored old segment, for one.
		if (lane->head.line.first + lane->head.line.records - 1 < reader->expected) {
			lane->has_head = false;
			continue;
		}
		if (reader->expected > 0 && lane->head.line.first > reader->expected) {
			if (hole(reader, lane->head.line.first, ret_item))
				return 1;
			continue;
		}
		if (lane->damage_count > 0) {
			for (size_t i = 0; i < lane->damage_count; i++)
				if (lane->damage[i].count == 0)
					lane->damage[i].first = lane->damage[i].last = 0;
			queue_damage(reader, lane);
			continue;
		}
		consume(reader, lane, ret_item);
		return 1;
	}
}
