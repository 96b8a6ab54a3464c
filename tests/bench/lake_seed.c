// SPDX-License-Identifier: Apache-2.0
// Fills a lake, SQLite in DIR or the one at URL, with a made-up past: processes in runs on 20 hosts, the first run with
// 100,000 tasks, and a day of host samples, one each 10 s, rolled up. For measuring how fast it is read.
//
//	lake_seed DIR|URL [PROCESSES [RUNS [TASKS_OF_THE_FIRST]]]

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "lake/decode.h"
#include "lake/store.h"
#include "tests/bench/lake_records.h"

enum { HOSTS = 20, BATCH = 5000, DAY_S = 86400, SAMPLE_S = 10 };

struct seed {
	struct store *store;
	struct lake_batch batches[HOSTS];
	uint64_t sequence[HOSTS];
	struct buf line;
	uint64_t processes;
};

static void die(const char *what)
{
	fprintf(stderr, "lake_seed: %s\n", what);
	exit(1);
}

static void batch_begin(struct seed *seed, unsigned host)
{
	char host_id[40];

	snprintf(host_id, sizeof(host_id), "00000000-0000-4000-8000-%012u", host);
	if (lake_batch_again(&seed->batches[host], "default", host_id) < 0)
		die("no memory");
	seed->batches[host].epoch = 1;
	seed->batches[host].after = seed->sequence[host];
	seed->batches[host].first = seed->sequence[host] + 1;
	seed->batches[host].received_ns = clock_real_ns();
}

static void batch_send(struct seed *seed, unsigned host)
{
	struct lake_batch *batch = &seed->batches[host];
	struct store_result result;
	struct store_error error;

	batch->last = seed->sequence[host];
	if (batch->records && store_write(seed->store, &batch, 1, &result, &error) < 0)
		die(error.text);
	batch_begin(seed, host);
}

// The text in seed->line is one record of the host.
static void record_add(struct seed *seed, unsigned host)
{
	struct decode_error error;
	yyjson_doc *doc = yyjson_read(seed->line.data, seed->line.length, 0);

	if (!doc || decode_record(&seed->batches[host], yyjson_doc_get_root(doc), ++seed->sequence[host], &error) < 0)
		die("a record was refused");
	yyjson_doc_free(doc);
	buf_reset(&seed->line);
	if (seed->batches[host].records >= BATCH)
		batch_send(seed, host);
}

static void run_add(struct seed *seed, unsigned number, uint64_t processes, uint32_t in_task, uint64_t start_ns)
{
	struct lake_records records = {.now_ns = start_ns,
				       .boot_ns = start_ns - DAY_S * 1000000000ull,
				       .random = number + 1,
				       .pid = 1000,
				       .run = number,
				       .processes_in_task = in_task};

	for (uint64_t i = 0; i < processes; i++) {
		lake_record_process(&records, &seed->line);
		record_add(seed, number % HOSTS);
	}
	seed->processes += processes;
}

static void samples_add(struct seed *seed, unsigned host, uint64_t start_ns)
{
	for (uint64_t at = 0; at < DAY_S; at += SAMPLE_S) {
		buf_printf(&seed->line,
			   "{\"kind\":\"hostsample\",\"time_ns\":%llu,\"host\":\"node-017\",\"boot\":\"b\",\"cpus_"
			   "online\":64,"
			   "\"cpu_user_ns\":%llu,\"cpu_system_ns\":%llu,\"cpu_idle_ns\":%llu,\"load_1m\":%llu.25,"
			   "\"context_switches\":%llu,"
			   "\"memory_total_bytes\":270553174016,\"memory_available_bytes\":%llu,\"disks\":[{\"name\":"
			   "\"nvme0n1\","
			   "\"read_bytes\":%llu,\"write_bytes\":%llu}]}\n",
			   (unsigned long long)(start_ns + at * 1000000000), (unsigned long long)(at * 40000000000),
			   (unsigned long long)(at * 4000000000), (unsigned long long)(at * 20000000000),
			   (unsigned long long)(at / 1000), (unsigned long long)(at * 77777),
			   (unsigned long long)(200000000000 - at * 1000000), (unsigned long long)(at * 5000000),
			   (unsigned long long)(at * 3000000));
		record_add(seed, host);
	}
}

int main(int argc, char **argv)
{
	struct store_options options = {.create = true, .cache_bytes = 256 * 1024 * 1024};
	uint64_t processes = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	unsigned runs = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 200;
	uint64_t tasks = argc > 4 ? strtoull(argv[4], NULL, 10) : 100000;
	uint64_t now_ns = clock_real_ns(), first = tasks * 2 < processes ? tasks * 2 : processes,
		 begin_ns = clock_boot_ns();
	struct seed *seed = calloc(1, sizeof(*seed));
	struct store_upkeep upkeep = {.more = true};
	struct store_error error;
	char url[512];

	if (argc < 2) {
		fprintf(stderr, "usage: lake_seed DIR [PROCESSES [RUNS [TASKS_OF_THE_FIRST]]]\n");
		return 2;
	}
	snprintf(url, sizeof(url), strstr(argv[1], "://") ? "%s" : "sqlite:%s", argv[1]);
	if (!seed || store_open(url, &options, &seed->store, &error) < 0)
		die(seed ? error.text : "no memory");
	for (unsigned i = 0; i < HOSTS; i++)
		batch_begin(seed, i);
	run_add(seed, 0, first, 2, now_ns - 20 * DAY_S * 1000000000ull);
	for (unsigned i = 1; i < runs; i++)
		run_add(seed, i, (processes - first) / (runs - 1), 10,
			now_ns - (DAY_S * 30ull - i * 3600) * 1000000000);
	samples_add(seed, 0, now_ns - (DAY_S + 3600) * 1000000000ull);
	for (unsigned i = 0; i < HOSTS; i++)
		batch_send(seed, i);
	while (upkeep.more) {
		if (store_maintain(seed->store, now_ns, &upkeep, &error) < 0)
			die(error.text);
	}
	printf("%llu processes in %u runs, %.1f s\n", (unsigned long long)seed->processes, runs,
	       (double)(clock_boot_ns() - begin_ns) / 1e9);
	for (unsigned i = 0; i < HOSTS; i++)
		lake_batch_free(&seed->batches[i]);
	store_close(seed->store);
	buf_free(&seed->line);
	free(seed);
	return 0;
}
