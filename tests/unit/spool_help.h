// SPDX-License-Identifier: Apache-2.0
// What the spool tests share: scratch directories, records that carry their own number, and a reader that checks every
// record it gets against the number it came under.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/spool.h"
#include "core/spool_files.h"
#include "core/spool_reader.h"

struct tally {
	uint64_t read, frames; // records that came, all right
	uint64_t gaps, lost; // gaps with a count above 0, and their sum
	uint64_t places; // gaps with a file
	uint64_t unknown; // gaps of unknown count
	uint64_t first, last; // of the records
};

static inline char *help_scratch_in(const char *where)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/tracer-spool-XXXXXX", where);
	assert_non_null(mkdtemp(path));
	return path;
}

static inline char *help_scratch(void)
{
	return help_scratch_in("/tmp");
}

static inline int help_unlink(const char *path, const struct stat *info, int type,
			      struct FTW *where)
{
	(void)info, (void)type, (void)where;
	return remove(path);
}

// As whoever delivers does it, in the spool whose directory dir_fd is.
static inline int help_cursor_write(int dir_fd, const struct spool_cursor *cursor)
{
	int stream_fd, result;

	mkdirat(dir_fd, SPOOL_STREAM_DIRECTORY, 0700);
	stream_fd = openat(dir_fd, SPOOL_STREAM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(stream_fd >= 0);
	result = spool_cursor_write(stream_fd, cursor);
	close(stream_fd);
	return result;
}

static inline void help_remove(const char *path)
{
	assert_int_equal(nftw(path, help_unlink, 8, FTW_DEPTH | FTW_PHYS), 0);
}

// Appends count records as one frame; each says which number it must get.
static inline int help_append(struct spool *spool, uint32_t count, enum spool_class class)
{
	struct buf text = BUF_INIT;
	struct spool_stats stats;
	int result;

	spool_stats(spool, &stats);
	for (uint32_t i = 0; i < count; i++)
		buf_printf(&text, "{\"kind\":\"%s\",\"n\":%llu}\n",
			   class == SPOOL_SAMPLE ? "sample" : "process",
			   (unsigned long long)(stats.accepted + 1 + i));
	result = spool_append(spool, text.data, text.length, count, class);
	buf_free(&text);
	return result;
}

static inline void help_check_frame(const struct spool_item *item)
{
	const char *line = item->data, *end = item->data + item->length;

	for (uint64_t number = item->first; number <= item->last; number++) {
		const char *at = strstr(line, "\"n\":");

		assert_true(at && at < end);
		assert_int_equal(strtoull(at + 4, NULL, 10), number);
		line = memchr(line, '\n', (size_t)(end - line));
		assert_non_null(line);
		line++;
	}
	assert_ptr_equal(line, end);
}

static inline struct tally help_drain(struct spool_reader *reader)
{
	struct tally tally = {0};
	struct spool_item item;
	uint64_t highest = 0;
	int result;

	while ((result = spool_reader_next(reader, &item)) > 0) {
		if (item.kind == SPOOL_ITEM_GAP) {
			tally.places += item.file[0] != '\0';
			tally.unknown += item.count == SPOOL_COUNT_UNKNOWN;
			if (item.count == 0 || item.count == SPOOL_COUNT_UNKNOWN)
				continue;
			assert_true(item.last - item.first + 1 >= item.count);
			tally.gaps++;
			tally.lost += item.count;
			continue;
		}
		assert_true(item.first > highest);
		highest = item.last;
		help_check_frame(&item);
		if (tally.frames++ == 0)
			tally.first = item.first;
		tally.last = item.last;
		tally.read += item.count;
	}
	assert_int_equal(result, 0);
	return tally;
}

static inline struct tally help_read(const char *path, uint64_t from)
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct spool_reader *reader;
	struct tally tally;

	assert_true(dir_fd >= 0);
	assert_int_equal(spool_reader_open(dir_fd, from, SPOOL_READER_FINAL, &reader), 0);
	tally = help_drain(reader);
	spool_reader_close(reader);
	close(dir_fd);
	return tally;
}

static inline struct spool_stats help_stats(const struct spool *spool)
{
	struct spool_stats stats;
	uint64_t sum;

	spool_stats(spool, &stats);
	sum = stats.delivered + stats.pending;
	for (int reason = 0; reason < SPOOL_REASON_END; reason++)
		sum += stats.dropped[reason];
	assert_int_equal(stats.accepted, sum);
	assert_true(stats.durable <= stats.accepted);
	return stats;
}

struct reported {
	uint64_t count[SPOOL_REASON_END], calls;
	uint64_t first, last; // of the latest
};

static inline void help_gap(void *context, const struct spool_gap *gap)
{
	struct reported *reported = context;

	assert_true(gap->count > 0);
	assert_true(gap->first == 0 || gap->last - gap->first + 1 >= gap->count);
	reported->count[gap->reason] += gap->count;
	reported->calls++;
	reported->first = gap->first;
	reported->last = gap->last;
}

static inline struct spool *help_open(const char *path, struct spool_options options,
				      struct reported *reported)
{
	struct spool *spool = NULL;

	if (reported) {
		options.gap = help_gap;
		options.gap_context = reported;
	}
	assert_int_equal(spool_open(path, &options, &spool), 0);
	help_stats(spool);
	return spool;
}

// A tick far enough after the last one for every interval.
static inline void help_tick(struct spool *spool)
{
	static uint64_t later;

	later += 2000000000;
	spool_tick(spool, clock_boot_ns() + later);
}

static inline struct buf help_slurp(const char *dir, const char *name)
{
	struct buf text = BUF_INIT;
	char path[512];
	FILE *file;
	size_t got;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "r");
	assert_non_null(file);
	do {
		assert_int_equal(buf_reserve(&text, 8192), 0);
		got = fread(text.data + text.length, 1, 8192, file);
		text.length += got;
		text.data[text.length] = '\0';
	} while (got > 0);
	fclose(file);
	return text;
}

static inline bool help_has(const char *dir, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

static inline void help_spit(const char *dir, const char *name, const void *data, size_t length)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, length, file), length);
	fclose(file);
}

// A copy of a directory of plain files.
static inline void help_copy(const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *entry;

	assert_non_null(dir);
	assert_int_equal(mkdir(to, 0700), 0);
	while ((entry = readdir(dir))) {
		struct buf text;

		if (entry->d_name[0] == '.')
			continue;
		text = help_slurp(from, entry->d_name);
		help_spit(to, entry->d_name, text.data, text.length);
		buf_free(&text);
	}
	closedir(dir);
}
