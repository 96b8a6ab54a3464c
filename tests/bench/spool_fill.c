// SPDX-License-Identifier: Apache-2.0
// Fills a new spool with process records of a made-up pipeline, as a collector would have written it.
//
//	spool_fill DIR RECORDS
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/spool.h"
#include "tests/bench/lake_records.h"

enum { EACH = 137 };

static int fill(const char *path, uint64_t total)
{
	uint64_t now_ns = clock_real_ns(), span_ns = total * UINT64_C(20500000);
	struct lake_records records = {
		.now_ns = now_ns - span_ns,
		.boot_ns = now_ns - span_ns - UINT64_C(86400000000000),
		.tasks_in_run = 100,
		.processes_in_task = 10,
	};
	struct spool_options options = SPOOL_OPTIONS_DEFAULT;
	struct buf text = BUF_INIT;
	struct spool *spool;
	int result;

	options.cap_bytes = UINT64_C(64) << 30;
	result = spool_open(path, &options, &spool);
	for (uint64_t done = 0; result == 0 && done < total;) {
		uint64_t count = total - done < EACH ? total - done : EACH;

		buf_reset(&text);
		for (uint64_t i = 0; i < count; i++)
			lake_record_process(&records, &text);
		result = buf_error(&text);
		if (result == 0)
			result = spool_append(spool, text.data, text.length, (uint32_t)count, SPOOL_PROCESS);
		done += count;
	}
	buf_free(&text);
	return result < 0 ? result : spool_close(spool);
}

int main(int argc, char **argv)
{
	uint64_t total = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	int result;

	if (!total || access(argv[1], F_OK) == 0) {
		fprintf(stderr, "usage: spool_fill DIR RECORDS, DIR new\n");
		return 2;
	}
	result = fill(argv[1], total);
	if (result < 0)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-result));
	return result < 0;
}
