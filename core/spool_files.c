// SPDX-License-Identifier: Apache-2.0
// Spool: the files of a directory. Segments are taken by their end line, so that a large backlog opens at once; only
// what a crash left open is walked. Nothing read here is trusted beyond its CRC; names only say where to look.
#include "core/spool_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"

#define CURSOR_AHEAD_MAX (1ULL << 32)
#define VERIFY_TAIL (4 << 20) // older bytes of an open segment were synced long before a crash

struct spool_segment *spool_lane_add(struct spool_lane *lane, uint64_t first)
{
	if (lane->count == lane->capacity) {
		size_t capacity = lane->capacity ? lane->capacity * 2 : 64;
		void *grown = reallocarray(lane->segments, capacity, sizeof(*lane->segments));

		if (!grown)
			return NULL;
		lane->segments = grown;
		lane->capacity = capacity;
	}
	lane->segments[lane->count] = (struct spool_segment){.first = first, .last = first - 1};
	return &lane->segments[lane->count++];
}

void spool_lane_remove(struct spool_lane *lane, size_t index)
{
	memmove(lane->segments + index, lane->segments + index + 1,
		(lane->count - index - 1) * sizeof(*lane->segments));
	lane->count--;
}

void spool_lane_free(struct spool_lane *lane)
{
	free(lane->segments);
	*lane = (struct spool_lane){0};
}

void spool_survey_free(struct spool_survey *survey)
{
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		spool_lane_free(&survey->lane[class]);
}

int spool_segment_open(int dir_fd, enum spool_class class, uint64_t first)
{
	char name[SPOOL_NAME_SIZE];
	struct stat info;
	int fd;

	spool_segment_name(class, first, name);
	// Not blocking: a fifo of that name must not hold us.
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

// True when the file ends with an end line that agrees with its name and size.
static bool segment_sealed(int fd, enum spool_class class, struct spool_segment *segment)
{
	char text[SPOOL_END_LINE];
	struct spool_end_line end;

	if (segment->bytes < SPOOL_END_LINE ||
	    pread(fd, text, sizeof(text), (off_t)(segment->bytes - SPOOL_END_LINE)) !=
		    SPOOL_END_LINE ||
	    spool_end_decode(text, sizeof(text), &end) < 0)
		return false;
	if (end.class != (uint64_t)class || end.first != segment->first ||
	    end.bytes + SPOOL_END_LINE != segment->bytes || end.last + 1 < end.first ||
	    end.records > end.last + 1 - end.first)
		return false;
	segment->last = end.last;
	segment->records = end.records;
	segment->frames = end.frames;
	segment->frames_end = end.bytes;
	segment->sealed = true;
	return true;
}

static void damage_add(struct spool_survey *survey, uint64_t first, uint64_t last)
{
	if (survey->damage_first == 0 || first < survey->damage_first)
		survey->damage_first = first;
	if (last > survey->damage_last)
		survey->damage_last = last;
}

static void segment_count(struct spool_survey *survey, struct spool_segment *segment,
			  const struct spool_piece *piece)
{
	uint64_t last = piece->line.first + piece->line.records - 1;

	switch (piece->kind) {
	case SPOOL_PIECE_FRAME:
		if (last <= segment->last) // numbers only rise
			break;
		segment->last = last;
		segment->records += piece->line.records;
		segment->frames++;
		segment->frames_end = piece->offset + piece->length;
		break;
	case SPOOL_PIECE_TORN:
	case SPOOL_PIECE_BAD_RECORDS:
		if (piece->kind == SPOOL_PIECE_BAD_RECORDS || piece->torn_line) {
			damage_add(survey, piece->line.first, last);
			// Its numbers are never given again: what was lost shows as a hole.
			if (last > survey->highest)
				survey->highest = last;
			break;
		}
		// fall through
	case SPOOL_PIECE_BAD_LINE:
		damage_add(survey, segment->last + 1, segment->last + 1);
		break;
	case SPOOL_PIECE_END:
	case SPOOL_PIECE_NOTHING:
		break;
	}
}

static int segment_walk(struct spool_survey *survey, int fd, struct spool_segment *segment)
{
	CLEANUP(spool_walk_free) struct spool_walk walk = {0};
	struct spool_piece piece;
	int result;

	spool_walk_start(&walk, fd, 0);
	walk.verify_from = segment->bytes > VERIFY_TAIL ? segment->bytes - VERIFY_TAIL : 0;
	do {
		result = spool_walk_next(&walk, true, &piece);
		if (result < 0)
			return result;
		segment_count(survey, segment, &piece);
	} while (piece.kind != SPOOL_PIECE_NOTHING);
	return 0;
}

static int segment_survey(struct spool_survey *survey, int dir_fd, enum spool_class class,
			  struct spool_segment *segment)
{
	CLEANUP(cleanup_close) int fd = spool_segment_open(dir_fd, class, segment->first);
	struct stat info;
	int result = 0;

	if (fd < 0 || fstat(fd, &info) < 0)
		return 0; // gone since it was listed, not ours or not readable: what it held shows as missing
	segment->bytes = (uint64_t)info.st_size;
	if (!segment_sealed(fd, class, segment))
		result = segment_walk(survey, fd, segment);
	segment->unread = result < 0;
	// A name is a promise too: what its damaged frame held must not be numbered again.
	if (segment->bytes > 0 && segment->first > survey->highest)
		survey->highest = segment->first;
	if (segment->last > survey->highest)
		survey->highest = segment->last;
	return result == -ENOMEM ? result
				 : 0; // an unreadable place ends the count of this segment only
}

static int segment_order(const void *left, const void *right)
{
	const struct spool_segment *a = left, *b = right;

	return a->first < b->first ? -1 : a->first > b->first;
}

int spool_list(int dir_fd, struct spool_lane lanes[SPOOL_CLASS_END])
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), result = 0;
	enum spool_class class;
	struct dirent *entry;
	uint64_t first;
	DIR *dir;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		result = -errno;
		close(fd);
		return result;
	}
	for (errno = 0; result == 0 && (entry = readdir(dir)); errno = 0)
		if (spool_segment_parse(entry->d_name, &class, &first) == 0 &&
		    !spool_lane_add(&lanes[class], first))
			result = -ENOMEM;
	if (result == 0)
		result = -errno;
	closedir(dir);
	for (int i = 0; i < SPOOL_CLASS_END; i++)
		if (lanes[i].count > 1)
			qsort(lanes[i].segments, lanes[i].count, sizeof(*lanes[i].segments),
			      segment_order);
	return result;
}

int spool_survey(int dir_fd, struct spool_survey *survey)
{
	int result;

	survey->state_read = spool_state_read(dir_fd, &survey->state) == 0;
	survey->cursor_read = spool_cursor_read(dir_fd, &survey->cursor) == 0;
	if (survey->state_read)
		survey->highest = survey->state.accepted;
	// The state may be older than the cursor after a power cut. By how much is bounded: whoever delivers is not
	// trusted.
	if (survey->cursor_read && survey->cursor.acked > survey->highest &&
	    survey->cursor.acked - survey->highest <= CURSOR_AHEAD_MAX)
		survey->highest = survey->cursor.acked;
	result = spool_list(dir_fd, survey->lane);
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; result == 0 && i < survey->lane[class].count; i++)
			result = segment_survey(survey, dir_fd, (enum spool_class) class,
						&survey->lane[class].segments[i]);
	return result;
}

int spool_segment_ack(int dir_fd, enum spool_class class, struct spool_segment *segment,
		      uint64_t acked)
{
	CLEANUP(spool_walk_free) struct spool_walk walk = {0};
	CLEANUP(cleanup_close) int fd = -1;
	struct spool_piece piece;
	int result;

	if (acked < segment->first)
		return 0;
	if (acked >= segment->last) {
		segment->acked_offset = segment->frames_end;
		segment->acked_whole = segment->acked_records = segment->records;
		return 0;
	}
	fd = spool_segment_open(dir_fd, class, segment->first);
	if (fd < 0)
		return fd;
	spool_walk_start(&walk, fd, segment->acked_offset);
	walk.verify_from = segment->frames_end + 1;
	for (;;) {
		result = spool_walk_next(&walk, true, &piece);
		if (result < 0)
			return result;
		if (piece.kind == SPOOL_PIECE_NOTHING || piece.offset >= segment->frames_end)
			return 0;
		if (piece.kind == SPOOL_PIECE_FRAME) {
			uint64_t first = piece.line.first;

			segment->acked_records =
				segment->acked_whole + (acked >= first ? acked - first + 1 : 0);
			if (first + piece.line.records - 1 > acked)
				return 0;
			segment->acked_records = segment->acked_whole += piece.line.records;
		}
		segment->acked_offset = walk.offset;
	}
}

int spool_segment_seal(int dir_fd, enum spool_class class, struct spool_segment *segment)
{
	CLEANUP(cleanup_close) int fd = -1;
	// A space first: a newline alone would complete a frame that lacks just that, after it was counted as torn.
	char name[SPOOL_NAME_SIZE], text[2 + SPOOL_END_LINE] = " \n";
	struct spool_end_line end = {
		.class = class,
		.first = segment->first,
		.last = segment->last,
		.records = segment->records,
		.frames = segment->frames,
	};
	size_t filler;
	ssize_t written;
	char tail = '\n';

	spool_segment_name(class, segment->first, name);
	fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (segment->bytes > 0 && pread(fd, &tail, 1, (off_t)(segment->bytes - 1)) != 1)
		return -EIO;
	filler = tail == '\n' ? 0 : 2;
	end.bytes = segment->bytes + filler;
	spool_end_encode(&end, text + 2);
	written = pwrite(fd, text + 2 - filler, SPOOL_END_LINE + filler, (off_t)segment->bytes);
	if (written != (ssize_t)(SPOOL_END_LINE + filler)) {
		int result = written < 0 ? -errno : -ENOSPC;

		// Best effort: what stays behind is one more torn line, which every reader passes over.
		return ftruncate(fd, (off_t)segment->bytes) < 0 ? -errno : result;
	}
	segment->bytes += SPOOL_END_LINE + filler;
	segment->sealed = true;
	return 0;
}

int spool_state_read(int dir_fd, struct spool_state *ret_state)
{
	char text[2 * SPOOL_STATE_LINE];
	struct spool_state state, best = {0};
	bool found = false;
	size_t size;
	int result = fs_read_untrusted_at(dir_fd, SPOOL_STATE_FILE, text, sizeof(text), &size);

	if (result < 0)
		return result;
	if (size == 0) // a writer was killed, or is, between making it and writing it
		return -ENOENT;
	for (size_t at = 0; at + SPOOL_STATE_LINE <= size; at += SPOOL_STATE_LINE) {
		if (spool_state_decode(text + at, SPOOL_STATE_LINE, &state) < 0)
			continue;
		if (!found || state.generation > best.generation)
			best = state;
		found = true;
	}
	if (!found)
		return -EBADMSG;
	*ret_state = best;
	return 0;
}

int spool_cursor_read(int dir_fd, struct spool_cursor *ret_cursor)
{
	CLEANUP(cleanup_close)
	int stream_fd = openat(dir_fd, SPOOL_STREAM_DIRECTORY, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char text[SPOOL_CURSOR_LINE];
	struct spool_cursor cursor;
	size_t size;
	int result;

	if (stream_fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? -EBADMSG : -errno;
	result = fs_read_untrusted_at(stream_fd, SPOOL_CURSOR_FILE, text, sizeof(text), &size);
	if (result < 0)
		return result;
	if (spool_cursor_decode(text, size, &cursor) < 0 || cursor.delivered > cursor.acked)
		return -EBADMSG;
	*ret_cursor = cursor;
	return 0;
}

int spool_cursor_write(int stream_fd, const struct spool_cursor *cursor)
{
	CLEANUP(cleanup_close)
	int fd = openat(stream_fd, SPOOL_CURSOR_FILE ".new",
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0640);
	char text[SPOOL_CURSOR_LINE];
	int result;

	if (fd < 0)
		return -errno;
	spool_cursor_encode(cursor, text);
	// Whatever the umask is, the writer reads it as anybody: by then it has no right over others' files.
	result = fchmod(fd, 0644) < 0 ? -errno : fs_write_all(fd, text, sizeof(text));
	if (result == 0 && fsync(fd) < 0)
		result = -errno;
	if (result == 0 &&
	    renameat(stream_fd, SPOOL_CURSOR_FILE ".new", stream_fd, SPOOL_CURSOR_FILE) < 0)
		result = -errno;
	if (result == 0 && fsync(stream_fd) < 0)
		result = -errno;
	return result;
}
