// SPDX-License-Identifier: Apache-2.0
// Speed of the spool on one core: appending with CRC and group commit, opening a backlog, reading it back.
//
//   make build/tests/bench/spool_speed && build/tests/bench/spool_speed DIR [MIB [RECORD_BYTES [BATCH_BYTES]]]
//
// DIR must not exist; it is left there. Prints one line "name value unit" a figure. CPU time is this process's own,
// with the kernel's part of its system calls; syncing runs beside it.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/spool.h"
#include "core/spool_reader.h"

static void say(const char *name, double value, const char *unit)
{
	printf("%-28s %12.1f %s\n", name, value, unit);
}

static int fill(const char *path, uint64_t total, size_t record_bytes, size_t batch_bytes)
{
	struct spool_options options = SPOOL_OPTIONS_DEFAULT;
	size_t per_batch = batch_bytes / record_bytes ? batch_bytes / record_bytes : 1,
	       length = per_batch * record_bytes;
	char *batch = malloc(length);
	uint64_t start, cpu, elapsed, longest_append = 0, longest_tick = 0, next_tick = 0;
	struct spool_stats stats;
	struct spool *spool;
	int result;

	options.cap_bytes = 8ULL << 30;
	if (!batch)
		return -ENOMEM;
	memset(batch, 'x', length);
	for (size_t i = 0; i < per_batch; i++) {
		memcpy(batch + i * record_bytes, "{\"kind\":\"process\",\"x\":\"", 23);
		memcpy(batch + (i + 1) * record_bytes - 3, "\"}\n", 3);
	}
	result = spool_open(path, &options, &spool);
	if (result < 0)
		return result;
	start = clock_boot_ns();
	cpu = clock_process_cpu_ns();
	for (uint64_t done = 0, turn = 0; done < total; done += length, turn++) {
		uint64_t before = clock_boot_ns(), after;

		result = spool_append(spool, batch, length, (uint32_t)per_batch,
				      turn % 4 ? SPOOL_SAMPLE : SPOOL_PROCESS);
		if (result < 0)
			return result;
		after = clock_boot_ns();
		if (after - before > longest_append)
			longest_append = after - before;
		if (after < next_tick)
			continue;
		spool_tick(spool, after);
		next_tick = after + 20000000;
		if (clock_boot_ns() - after > longest_tick)
			longest_tick = clock_boot_ns() - after;
	}
	cpu = clock_process_cpu_ns() - cpu;
	elapsed = clock_boot_ns() - start;
	spool_stats(spool, &stats);
	say("append_records", (double)stats.accepted / ((double)elapsed / 1e9), "records/s");
	say("append_bytes", (double)stats.bytes / 1e6 / ((double)elapsed / 1e9), "MB/s");
	say("append_records_per_cpu", (double)stats.accepted / ((double)cpu / 1e9),
	    "records/cpu-s");
	say("append_bytes_per_cpu", (double)stats.bytes / 1e6 / ((double)cpu / 1e9), "MB/cpu-s");
	say("longest_append", (double)longest_append / 1e6, "ms");
	say("longest_tick", (double)longest_tick / 1e6, "ms");
	say("syncs", (double)stats.syncs, stats.blocking_sync ? "waited for" : "not waited for");
	free(batch);
	return stats.pending == stats.accepted ? spool_close(spool) : -EIO;
}

static int reopen(const char *path)
{
	struct spool_options options = SPOOL_OPTIONS_DEFAULT;
	uint64_t start = clock_boot_ns();
	struct spool_stats stats;
	struct spool *spool;
	int result;

	options.cap_bytes = 8ULL << 30;
	result = spool_open(path, &options, &spool);
	if (result < 0)
		return result;
	start = clock_boot_ns() - start;
	spool_stats(spool, &stats);
	say("open_backlog", (double)start / 1e6, "ms");
	say("backlog", (double)stats.bytes / (1 << 20), "MiB");
	return spool_close(spool);
}

static int drain(const char *path)
{
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), result;
	uint64_t start = clock_boot_ns(), cpu = clock_process_cpu_ns(), records = 0, bytes = 0;
	struct spool_reader *reader;
	struct spool_item item;

	if (dir_fd < 0)
		return -errno;
	result = spool_reader_open(dir_fd, 0, SPOOL_READER_FINAL, &reader);
	if (result < 0)
		return result;
	while ((result = spool_reader_next(reader, &item)) > 0) {
		records += item.count;
		bytes += item.length;
	}
	start = clock_boot_ns() - start;
	cpu = clock_process_cpu_ns() - cpu;
	say("drain_records_per_cpu", (double)records / ((double)cpu / 1e9), "records/cpu-s");
	say("drain_bytes_per_cpu", (double)bytes / 1e6 / ((double)cpu / 1e9), "MB/cpu-s");
	say("drain_records", (double)records / ((double)start / 1e9), "records/s");
	say("drain_bytes", (double)bytes / 1e6 / ((double)start / 1e9), "MB/s");
	spool_reader_close(reader);
	close(dir_fd);
	return result;
}

int main(int argc, char **argv)
{
	uint64_t total = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1024) << 20;
	size_t record_bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 1024;
	size_t batch_bytes = argc > 4 ? strtoull(argv[4], NULL, 10) : 65536;
	int result;

	if (argc < 2 || argc > 5 || record_bytes < 32) {
		fprintf(stderr, "usage: %s DIR [MIB [RECORD_BYTES [BATCH_BYTES]]]\n", argv[0]);
		return 2;
	}
	if (access(argv[1], F_OK) == 0) {
		fprintf(stderr, "%s: exists; give a new directory\n", argv[1]);
		return 2;
	}
	result = fill(argv[1], total, record_bytes, batch_bytes);
	if (result == 0)
		result = reopen(argv[1]);
	if (result == 0)
		result = drain(argv[1]);
	if (result < 0)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-result));
	return result < 0;
}
