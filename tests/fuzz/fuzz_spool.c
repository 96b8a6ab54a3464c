// SPDX-License-Identifier: Apache-2.0
// Any bytes as a segment, with good frames among them: the walk, the reader and a starting writer. No byte that no CRC
// covers may come out as a record, every byte belongs to one piece, and the writer's sum agrees with the reader.
//
// Input: F is a good frame, E an honest end line, O the text a frame line opens with, C a cut (the file ends here and the
// next segment starts); everything else stands for itself.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/crc.h"
#include "core/spool_files.h"
#include "core/spool_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct made {
	uint64_t next; // sequence of the next good frame
	struct spool_end_line end;
	struct buf text;
};

#define MUST(condition) ((condition) ? (void)0 : abort())

static void payload(uint64_t first, uint64_t records, struct buf *out)
{
	for (uint64_t i = 0; i < records; i++)
		buf_printf(out, "{\"kind\":\"f\",\"n\":%llu}\n", (unsigned long long)(first + i));
}

static void put_frame(struct made *made)
{
	struct spool_frame_line line = {
		.class = SPOOL_PROCESS, .first = made->next, .records = 1 + made->next % 3};
	struct buf records = BUF_INIT;
	char text[SPOOL_FRAME_LINE];

	payload(line.first, line.records, &records);
	line.bytes = records.length;
	line.crc = crc32c(0, records.data, records.length);
	spool_frame_encode(&line, text);
	buf_append(&made->text, text, sizeof(text));
	buf_append(&made->text, records.data, records.length);
	buf_free(&records);
	made->next += line.records;
}

static void put_segment(struct made *made, int dir_fd)
{
	char name[SPOOL_NAME_SIZE];
	int fd;

	spool_segment_name(SPOOL_PROCESS, made->end.first, name);
	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	MUST(fd >= 0 &&
	     write(fd, made->text.data, made->text.length) == (ssize_t)made->text.length);
	close(fd);
	buf_reset(&made->text);
	made->end = (struct spool_end_line){.first = ++made->next};
}

static void walk_all(const struct buf *text)
{
	struct spool_walk walk = {.fd = -1};
	struct spool_piece piece;
	uint64_t at = 0;
	int fd = memfd_create("segment", MFD_CLOEXEC);

	MUST(write(fd, text->data, text->length) == (ssize_t)text->length);
	spool_walk_start(&walk, fd, 0);
	do {
		MUST(spool_walk_next(&walk, true, &piece) == 0);
		MUST(piece.offset == at);
		MUST((piece.kind == SPOOL_PIECE_NOTHING) == (piece.length == 0));
		at += piece.length;
	} while (piece.kind != SPOOL_PIECE_NOTHING);
	MUST(at == text->length);
	spool_walk_free(&walk);
	close(fd);
}

static uint64_t read_all(int dir_fd)
{
	struct spool_reader *reader;
	struct spool_item item;
	uint64_t read = 0, last = 0;
	int more;

	MUST(spool_reader_open(dir_fd, 0, SPOOL_READER_FINAL, &reader) == 0);
	while ((more = spool_reader_next(reader, &item)) > 0) {
		struct buf expect = BUF_INIT;

		if (item.kind == SPOOL_ITEM_GAP)
			continue;
		MUST(item.first > last && item.last - item.first + 1 == item.count);
		last = item.last;
		read += item.count;
		payload(item.first, item.count, &expect);
		MUST(expect.length == item.length && !memcmp(expect.data, item.data, item.length));
		buf_free(&expect);
	}
	MUST(more == 0);
	spool_reader_close(reader);
	return read;
}

static void empty(int dir_fd)
{
	struct spool_lane lanes[SPOOL_CLASS_END] = {0};
	char name[SPOOL_NAME_SIZE];

	MUST(spool_list(dir_fd, lanes) == 0);
	for (int class = 0; class < SPOOL_CLASS_END; class ++) {
		for (size_t i = 0; i < lanes[class].count; i++) {
			spool_segment_name((enum spool_class) class, lanes[class].segments[i].first,
					   name);
			unlinkat(dir_fd, name, 0);
		}
		spool_lane_free(&lanes[class]);
	}
	unlinkat(dir_fd, SPOOL_STATE_FILE, 0);
}

static void start_on(const char *where, int dir_fd)
{
	struct spool_options options = SPOOL_OPTIONS_DEFAULT;
	struct spool_stats stats;
	struct spool *spool;
	uint64_t sum;

	options.blocking_sync = true;
	MUST(spool_open(where, &options, &spool) == 0);
	spool_stats(spool, &stats);
	MUST(!stats.ring_active);
	sum = stats.pending + stats.delivered;
	for (int reason = 0; reason < SPOOL_REASON_END; reason++)
		sum += stats.dropped[reason];
	MUST(sum == stats.accepted);
	MUST(spool_close(spool) == 0);
	MUST(read_all(dir_fd) == stats.pending);
}

static char path[] = "/dev/shm/tracer-fuzz-XXXXXX";

static void leave(void)
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	empty(dir_fd);
	unlinkat(dir_fd, SPOOL_LOCK_FILE, 0);
	close(dir_fd);
	rmdir(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int dir_fd = -1;
	struct made made = {.next = 1, .end = {.first = 1}};
	struct buf whole = BUF_INIT;

	if (dir_fd < 0) {
		MUST(mkdtemp(path));
		atexit(leave);
		dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	for (size_t i = 0; i < size; i++) {
		size_t before = made.text.length;
		char end[SPOOL_END_LINE];

		if (data[i] == 'F') {
			put_frame(&made);
		} else if (data[i] == 'E') {
			// Honest only where it is in the middle: at the end of a file a start takes its word.
			spool_end_encode(&made.end, end);
			buf_append(&made.text, end, sizeof(end));
			buf_append_char(&made.text, ' ');
		} else if (data[i] == 'O') {
			buf_append_string(&made.text, "\n" SPOOL_LINE_OPENING);
		} else if (data[i] == 'C') {
			put_segment(&made, dir_fd);
			before = 0;
		} else {
			buf_append_char(&made.text, (char)data[i]);
		}
		if (made.text.length > before)
			buf_append(&whole, made.text.data + before, made.text.length - before);
	}
	put_segment(&made, dir_fd);
	walk_all(&whole);
	read_all(dir_fd);
	start_on(path, dir_fd);
	empty(dir_fd);
	buf_free(&whole);
	buf_free(&made.text);
	return 0;
}
