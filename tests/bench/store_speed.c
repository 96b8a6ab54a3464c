// SPDX-License-Identifier: Apache-2.0
// Process records into the SQLite store, as they come off the wire: gzip bodies of NDJSON, packed as an agent packs them,
// have their digest checked and are inflated, summed and decoded by one thread and stored, group by group, by another,
// each group durable before the next. The bodies are made before the clock starts and come again and again from other
// hosts, so making them costs nothing while it runs.
//
//	store_speed DIR SECONDS [RECORDS_A_BODY [BODIES [AT_MOST]]]
//
// AT_MOST so many batches are sent, however long that takes: what a record costs in instructions is seen with
// valgrind --tool=callgrind --fair-sched=yes store_speed DIR 1000 2000 8 60.

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/crc.h"
#include "lake/decode.h"
#include "lake/store.h"
#include "lake/wire.h"
#include "tests/bench/lake_records.h"

// LEVEL as in core/stream_batch.c. With bodies of 2,000 records GROUP and QUEUE are what lake/ingest_writer.c takes for a
// commit, and that beside what it lets wait.
enum { QUEUE = 16, GROUP = 10, LEVEL = 1 };

struct body {
	unsigned char *packed;
	size_t packed_size, size;
	uint32_t records, crc;
	struct wire_headers headers;
};

struct speed {
	struct body *bodies;
	unsigned body_count;
	uint64_t until_ns, at_most; // batches
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct lake_batch queue[QUEUE]; // filled at head, stored from tail
	unsigned head, tail;
	bool done;
	uint64_t decoder_cpu_ns, decoded;
};

static void die(const char *what)
{
	fprintf(stderr, "store_speed: %s\n", what);
	exit(1);
}

static void body_make(struct body *body, uint32_t records, unsigned number)
{
	struct lake_records made = {.now_ns = 1700000000000000000 + number * 60000000000ull,
				    .boot_ns = 1699990000000000000,
				    .random = number + 1,
				    .pid = 1 + number * 100000,
				    .run = number,
				    .processes_in_task = 10};
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	z_stream stream = {0};

	made.task = number * (records / 10);
	for (uint32_t i = 0; i < records; i++)
		lake_record_process(&made, &text);
	if (buf_error(&text) < 0 || deflateInit2(&stream, LEVEL, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		die("no memory");
	body->packed_size = deflateBound(&stream, text.length);
	body->packed = malloc(body->packed_size);
	stream.next_in = (Bytef *)text.data;
	stream.avail_in = (uInt)text.length;
	stream.next_out = body->packed;
	stream.avail_out = (uInt)body->packed_size;
	if (!body->packed || deflate(&stream, Z_FINISH) != Z_STREAM_END)
		die("deflate failed");
	body->packed_size = stream.total_out;
	body->size = text.length;
	body->records = records;
	body->crc = crc32c(0, text.data, text.length);
	crypto_hash_sha256(body->headers.digest, body->packed, body->packed_size);
	deflateEnd(&stream);
}

static void decode_slowly(struct lake_batch *batch, char *line, size_t length, uint64_t sequence)
{
	static char pool[256 * 1024]; // of one record's values
	struct decode_error error;
	yyjson_alc allocator;
	yyjson_doc *doc;

	yyjson_alc_pool_init(&allocator, pool, sizeof(pool));
	doc = yyjson_read_opts(line, length, 0, &allocator, NULL);
	if (!doc || decode_record(batch, yyjson_doc_get_root(doc), sequence, &error) < 0)
		die("a record was refused");
}

// As lake/wire.c does it, but for the lines of the frames, which name the sequence.
static void decode_body(struct lake_batch *batch, const struct body *body, struct buf *text, uint64_t host,
			uint64_t turn)
{
	uint64_t sequence = turn * body->records;
	struct wire_error error;
	char host_id[40];
	const char *end;

	snprintf(host_id, sizeof(host_id), "00000000-0000-4000-8000-%012llu", (unsigned long long)host);
	buf_reset(text);
	if (lake_batch_again(batch, "default", host_id) < 0 ||
	    wire_digest_check(&body->headers, (char *)body->packed, body->packed_size, &error) < 0 ||
	    wire_inflate((char *)body->packed, body->packed_size, text, &error) < 0 ||
	    crc32c(0, text->data, text->length) != body->crc)
		die("a body was refused");
	batch->epoch = 1;
	batch->after = sequence;
	batch->first = sequence + 1;
	batch->received_ns = clock_real_ns();
	end = text->data + text->length;
	for (const char *line = text->data; line < end;) {
		char *newline;

		if (decode_usual(batch, line, end, ++sequence, &line))
			continue;
		newline = memchr(line, '\n', (size_t)(end - line));
		decode_slowly(batch, (char *)(uintptr_t)line, (size_t)(newline - line), sequence);
		line = newline + 1;
	}
	batch->last = sequence;
}

static void *decoder(void *data)
{
	struct speed *speed = data;
	struct buf text = BUF_INIT;

	prctl(PR_SET_NAME, "decode");

	for (uint64_t n = 0; n < speed->at_most && clock_boot_ns() < speed->until_ns; n++) {
		struct lake_batch *batch;

		pthread_mutex_lock(&speed->lock);
		while (speed->head - speed->tail == QUEUE)
			pthread_cond_wait(&speed->changed, &speed->lock);
		batch = &speed->queue[speed->head % QUEUE];
		pthread_mutex_unlock(&speed->lock);
		// 200 hosts; each gets the bodies in turn.
		decode_body(batch, &speed->bodies[n / 200 % speed->body_count], &text, n % 200, n / 200);
		speed->decoded += batch->records;
		pthread_mutex_lock(&speed->lock);
		speed->head++;
		pthread_cond_signal(&speed->changed);
		pthread_mutex_unlock(&speed->lock);
	}
	speed->decoder_cpu_ns = clock_thread_cpu_ns();
	pthread_mutex_lock(&speed->lock);
	speed->done = true;
	pthread_cond_signal(&speed->changed);
	pthread_mutex_unlock(&speed->lock);
	buf_free(&text);
	return NULL;
}

// What is waiting, at most a group.
static size_t take(struct speed *speed, struct lake_batch **batches)
{
	size_t count = 0;

	pthread_mutex_lock(&speed->lock);
	while (speed->head == speed->tail && !speed->done)
		pthread_cond_wait(&speed->changed, &speed->lock);
	while (count < GROUP && speed->tail + count < speed->head) {
		batches[count] = &speed->queue[(speed->tail + count) % QUEUE];
		count++;
	}
	pthread_mutex_unlock(&speed->lock);
	return count;
}

static uint64_t store_all(struct speed *speed, struct store *store)
{
	struct lake_batch *batches[GROUP];
	struct store_result results[GROUP];
	struct store_upkeep upkeep;
	struct store_error error;
	uint64_t stored = 0;
	size_t count;

	while ((count = take(speed, batches)) > 0) {
		if (store_write(store, batches, count, results, &error) < 0)
			die(error.text);
		for (size_t i = 0; i < count; i++)
			stored += results[i].records;
		pthread_mutex_lock(&speed->lock);
		speed->tail += (unsigned)count;
		pthread_cond_signal(&speed->changed);
		pthread_mutex_unlock(&speed->lock);
		if (store_maintain(store, clock_real_ns(), &upkeep, &error) < 0)
			die(error.text);
	}
	return stored;
}

static void report(struct speed *speed, struct store *store, uint64_t stored, uint64_t wall_ns, uint64_t writer_cpu_ns)
{
	struct store_reader *reader;
	struct store_status status;
	struct store_error error;
	struct rusage usage;
	double seconds = (double)wall_ns / 1e9;

	if (store_reader_open(store, &reader, &error) < 0 || store_status(reader, &status, &error) < 0)
		die(error.text);
	store_reader_close(reader);
	getrusage(RUSAGE_SELF, &usage);
	printf("%.0f records/s for %.1f s: %llu stored, %llu in the store, body %zu bytes a record, packed %zu\n",
	       (double)stored / seconds, seconds, (unsigned long long)stored, (unsigned long long)status.processes,
	       speed->bodies[0].size / speed->bodies[0].records,
	       speed->bodies[0].packed_size / speed->bodies[0].records);
	printf("CPU a record: decoding %.2f us, storing %.2f us\n", (double)speed->decoder_cpu_ns / 1e3 / (double)stored,
	       (double)writer_cpu_ns / 1e3 / (double)stored);
	printf("cores: decoding %.2f, storing %.2f; store %.0f bytes a record, log %llu MB, memory %ld MB\n",
	       (double)speed->decoder_cpu_ns / (double)wall_ns, (double)writer_cpu_ns / (double)wall_ns,
	       (double)status.bytes / (double)stored, (unsigned long long)status.wal_bytes >> 20,
	       usage.ru_maxrss / 1024);
	if (status.processes != stored || stored != speed->decoded)
		die("the store does not hold what was sent");
}

int main(int argc, char **argv)
{
	struct store_options options = {.create = true, .cache_bytes = 256 * 1024 * 1024};
	struct speed speed = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	uint32_t records = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 5000;
	struct store_error error;
	struct store *store;
	pthread_t thread;
	uint64_t begin_ns, cpu_ns, stored;
	char url[512];

	if (argc < 3) {
		fprintf(stderr, "usage: store_speed DIR SECONDS [RECORDS_A_BODY [BODIES [AT_MOST]]]\n");
		return 2;
	}
	speed.body_count = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 32;
	speed.at_most = argc > 5 ? strtoull(argv[5], NULL, 10) : UINT64_MAX;
	speed.bodies = calloc(speed.body_count, sizeof(*speed.bodies));
	for (unsigned i = 0; i < speed.body_count; i++)
		body_make(&speed.bodies[i], records, i);
	snprintf(url, sizeof(url), "sqlite:%s", argv[1]);
	if (store_open(url, &options, &store, &error) < 0)
		die(error.text);
	begin_ns = clock_boot_ns();
	speed.until_ns = begin_ns + strtoull(argv[2], NULL, 10) * 1000000000;
	cpu_ns = clock_thread_cpu_ns();
	if (pthread_create(&thread, NULL, decoder, &speed))
		die("no thread");
	stored = store_all(&speed, store);
	report(&speed, store, stored, clock_boot_ns() - begin_ns, clock_thread_cpu_ns() - cpu_ns);
	pthread_join(thread, NULL);
	store_close(store);
	for (unsigned i = 0; i < QUEUE; i++)
		lake_batch_free(&speed.queue[i]);
	return 0;
}
