// SPDX-License-Identifier: Apache-2.0
// A spool writer under remote control, to be killed, starved and lied to by test_spool.py.
//
//   spool_driver steps DIR [SEGMENT_BYTES CAP_BYTES RING_BYTES blocking|aio]   commands on standard input, one answer a line
//   spool_driver verify DIR      opens, reads everything back, checks the sum, prints it, closes
//   spool_driver cold DIR        drops the files' pages from the cache
//
// Steps: append COUNT p|s, tick, stats, ack SEQUENCE DELIVERED, close, die. Time passes 300 ms a tick, whatever the clock says.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/spool_files.h"
#include "core/spool_reader.h"

static uint64_t reported[SPOOL_REASON_END];

static void on_gap(void *context, const struct spool_gap *gap)
{
	(void)context;
	reported[gap->reason] += gap->count;
}

static void die(const char *what, int error)
{
	printf("{\"error\":\"%s\",\"errno\":%d}\n", what, -error);
	fflush(stdout);
	exit(1);
}

static void say(const struct spool *spool)
{
	struct spool_stats stats;
	uint64_t sum;

	spool_stats(spool, &stats);
	sum = stats.delivered + stats.pending;
	printf("{\"accepted\":%" PRIu64 ",\"delivered\":%" PRIu64 ",\"pending\":%" PRIu64
	       ",\"durable\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"segments\":%" PRIu64
	       ",\"ring\":%s,\"ring_bytes\":%" PRIu64
	       ",\"ring_reason\":\"%s\",\"ring_error\":%d,\"epoch\":\"%" PRIx64
	       "\",\"sync_errors\":%" PRIu64 ",\"blocking\":%s,\"unclean\":%" PRIu64,
	       stats.accepted, stats.delivered, stats.pending, stats.durable, stats.bytes,
	       stats.segments, stats.ring_active ? "true" : "false", stats.ring_bytes,
	       spool_reason_name(stats.ring_reason), stats.ring_error, stats.epoch,
	       stats.sync_errors, stats.blocking_sync ? "true" : "false", stats.unclean_starts);
	for (int reason = 0; reason < SPOOL_REASON_END; reason++) {
		sum += stats.dropped[reason];
		printf(",\"%s\":%" PRIu64 ",\"reported_%s\":%" PRIu64,
		       spool_reason_name((enum spool_reason)reason), stats.dropped[reason],
		       spool_reason_name((enum spool_reason)reason), reported[reason]);
	}
	printf(",\"sum\":%" PRIu64 "}\n", sum);
	fflush(stdout);
}

// Records say which number they must come back under.
static int append(struct spool *spool, uint32_t count, enum spool_class class)
{
	struct buf text = BUF_INIT;
	struct spool_stats stats;
	int result;

	spool_stats(spool, &stats);
	for (uint32_t i = 0; i < count; i++)
		buf_printf(&text, "{\"kind\":\"%s\",\"n\":%" PRIu64 "}\n",
			   class == SPOOL_SAMPLE ? "sample" : "process", stats.accepted + 1 + i);
	result = spool_append(spool, text.data, text.length, count, class);
	buf_free(&text);
	return result;
}

static int steps(const char *path, const struct spool_options *options)
{
	char line[128], letter;
	unsigned long long first, second;
	struct spool *spool;
	uint64_t now = clock_boot_ns();
	int result = spool_open(path, options, &spool), dir_fd, stream_fd;

	if (result < 0)
		die("open", result);
	say(spool);
	while (fgets(line, sizeof(line), stdin)) {
		result = 0;
		if (sscanf(line, "append %llu %c", &first, &letter) == 2) {
			result = append(spool, (uint32_t)first,
					letter == 's' ? SPOOL_SAMPLE : SPOOL_PROCESS);
		} else if (strcmp(line, "tick\n") == 0) {
			spool_tick(spool, now += 300000000);
		} else if (sscanf(line, "ack %llu %llu", &first, &second) == 2) {
			dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			mkdirat(dir_fd, SPOOL_STREAM_DIRECTORY, 0700);
			stream_fd = openat(dir_fd, SPOOL_STREAM_DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			result = spool_cursor_write(
				stream_fd,
				&(struct spool_cursor){.acked = first, .delivered = second});
			close(stream_fd);
			close(dir_fd);
			if (result < 0) // the streamer's trouble; it tries again
				result = 0;
		} else if (strcmp(line, "die\n") == 0) {
			raise(SIGKILL);
		} else if (strcmp(line, "close\n") == 0) {
			result = spool_close(spool);
			printf("{\"closed\":%d}\n", -result);
			return 0;
		} else if (strcmp(line, "stats\n") != 0) {
			die("command", -EINVAL);
		}
		if (result < 0)
			die("step", result);
		say(spool);
	}
	return 0;
}

static void check_frame(const struct spool_item *item)
{
	const char *line = item->data, *end = item->data + item->length;

	for (uint64_t number = item->first; number <= item->last; number++) {
		const char *at = memmem(line, (size_t)(end - line), "\"n\":", 4);

		if (!at || strtoull(at + 4, NULL, 10) != number)
			die("a record came back under another number", -EBADMSG);
		line = memchr(line, '\n', (size_t)(end - line));
		if (!line)
			die("a frame ends in the middle of a record", -EBADMSG);
		line++;
	}
}

static int verify(const char *path, const struct spool_options *options)
{
	struct spool_reader *reader;
	struct spool_stats stats;
	struct spool_item item;
	struct spool *spool;
	uint64_t read = 0, lost = 0, last = 0;
	int result = spool_open(path, options, &spool), dir_fd;

	if (result < 0)
		die("open", result);
	spool_tick(spool, clock_boot_ns());
	spool_stats(spool, &stats);
	say(spool);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	result = spool_reader_open(dir_fd, stats.acked + 1, SPOOL_READER_FINAL, &reader);
	if (result < 0)
		die("reader", result);
	while ((result = spool_reader_next(reader, &item)) > 0) {
		if (item.kind == SPOOL_ITEM_GAP) {
			lost += item.count == SPOOL_COUNT_UNKNOWN ? 0 : item.count;
			continue;
		}
		if (item.first <= last)
			die("numbers do not rise", -EBADMSG);
		check_frame(&item);
		last = item.last;
		read += item.last - (item.first > stats.acked ? item.first : stats.acked + 1) + 1;
	}
	printf("{\"read\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"last\":%" PRIu64 "}\n", read, lost,
	       last);
	if (result < 0 || read != stats.pending)
		die("pending is not what can be read", -EBADMSG);
	spool_reader_close(reader);
	close(dir_fd);
	result = append(spool, 3, SPOOL_PROCESS);
	if (result == 0)
		result = spool_close(spool);
	if (result < 0)
		die("append", result);
	return 0;
}

static int cold(const char *path)
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	struct spool_lane lanes[SPOOL_CLASS_END] = {0};

	if (dir_fd < 0 || spool_list(dir_fd, lanes) < 0)
		die("list", -errno);
	for (int class = 0; class < SPOOL_CLASS_END; class ++)
		for (size_t i = 0; i < lanes[class].count; i++) {
			fd = spool_segment_open(dir_fd, (enum spool_class) class,
						lanes[class].segments[i].first);
			fdatasync(fd);
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
			close(fd);
		}
	return 0;
}

int main(int argc, char **argv)
{
	struct spool_options options = {.segment_bytes = 1500,
					.cap_bytes = 65536,
					.group_commit_ns = 50000000,
					.memory_ring_bytes = 16384,
					.gap = on_gap};

	if (argc == 7) {
		options.segment_bytes = strtoull(argv[3], NULL, 10);
		options.cap_bytes = strtoull(argv[4], NULL, 10);
		options.memory_ring_bytes = strtoull(argv[5], NULL, 10);
		options.blocking_sync = strcmp(argv[6], "blocking") == 0;
	}
	if (argc >= 3 && strcmp(argv[1], "steps") == 0)
		return steps(argv[2], &options);
	if (argc >= 3 && strcmp(argv[1], "verify") == 0)
		return verify(argv[2], &options);
	if (argc == 3 && strcmp(argv[1], "cold") == 0)
		return cold(argv[2]);
	fprintf(stderr, "usage: %s steps|verify|cold DIR [SEGMENT CAP RING blocking|aio]\n",
		argv[0]);
	return 2;
}
