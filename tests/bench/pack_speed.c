// SPDX-License-Identifier: Apache-2.0
// Speed of the streamer up to the network, on one core: a spool read, packed into batches, compressed, with the digest.
//
//   make build/tests/bench/pack_speed && build/tests/bench/pack_speed SPOOL [ROUNDS]
//
// SPOOL is one that a collector wrote; nothing in it is changed. Prints one line "name value unit" a figure.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/stream_private.h"

int main(int argc, char **argv)
{
	struct stream_gather gather = {
		.bytes_limit = 4 << 20, .records_limit = 10000, .reader_flags = SPOOL_READER_FINAL};
	int dir_fd = argc > 1 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, result = 0;
	uint64_t records = 0, packed = 0, sent = 0, batches = 0, cpu;
	struct stream_batch batch;

	if (dir_fd < 0 || stream_batch_init(&batch) < 0) {
		fprintf(stderr, "usage: %s SPOOL [ROUNDS]\n", argv[0]);
		return 2;
	}
	cpu = clock_process_cpu_ns();
	for (int round = argc > 2 ? atoi(argv[2]) : 1; round > 0; round--) {
		result = stream_gather_seek(&gather, dir_fd, 1, 0);
		while (result >= 0) {
			batch.open = false;
			result = stream_gather_fill(&gather, &batch);
			if (result < 0 || !batch.open)
				break;
			result = stream_batch_close(&batch);
			records += batch.records;
			packed += batch.packed;
			sent += batch.body.length;
			batches++;
		}
	}
	cpu = clock_process_cpu_ns() - cpu;
	printf("pack_records_per_cpu %12.1f records/cpu-s\n", (double)records / ((double)cpu / 1e9));
	printf("pack_bytes_per_cpu   %12.1f MB/cpu-s\n", (double)packed / 1e6 / ((double)cpu / 1e9));
	printf("ratio                %12.2f times smaller\n", (double)packed / (double)(sent ? sent : 1));
	printf("batches              %12llu\n", (unsigned long long)batches);
	stream_gather_free(&gather);
	stream_batch_free(&batch);
	return result < 0;
}
