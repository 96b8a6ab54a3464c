// SPDX-License-Identifier: Apache-2.0
// The datalake's metrics and its stitching. A scrape waits for the one before it; stitching runs on the writer's thread
// and shares no more than its counts.
#include "lake/health.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "lake/export_prometheus.h"
#include "lake/push.h"
#include "lake/stitcher.h"

static const uint64_t S_NS = 1000000000, STITCH_NS = 500000000;

enum { FIGURES_MAX = 48, STITCH_SHARE = 50 }; // of the writer's time at most a fiftieth

struct health {
	struct server *server;
	struct ingest *ingest;
	struct push *push; // NULL: none
	struct stitcher *stitcher; // the writer's thread alone
	uint64_t stitch_next_ns; // the same; not before, by the clock that never jumps
	struct store_reader *reader;
	pthread_mutex_t lock; // of the reader and what is below
	struct stitcher_counts stitched;
	char trouble[256];
	bool troubled;
	double start_s;
	int statm_fd; // opened while /proc still may be; -1: it could not
};

static uint64_t time_ns(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * S_NS + (uint64_t)time->tv_nsec;
}

static void stitch(void *context, struct store *store, uint64_t now_ns)
{
	struct health *health = context;
	struct store_error why = {0};
	struct stitcher_counts counts;
	struct timespec begin, end;
	int error;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (time_ns(&begin) < health->stitch_next_ns)
		return;
	error = stitcher_step(health->stitcher, store, now_ns, &why);
	clock_gettime(CLOCK_MONOTONIC, &end);
	// A pipeline of a hundred thousand jobs takes a while to judge: the writer has better to do most of the time.
	health->stitch_next_ns = time_ns(&end) + (time_ns(&end) - time_ns(&begin)) * STITCH_SHARE;
	stitcher_counts(health->stitcher, &counts);
	pthread_mutex_lock(&health->lock);
	health->stitched = counts;
	if (error) {
		snprintf(health->trouble, sizeof(health->trouble), "%s", why.text[0] ? why.text : strerror(-error));
		health->troubled = true;
	}
	pthread_mutex_unlock(&health->lock);
}

bool health_trouble(struct health *health, char *text, size_t size)
{
	bool troubled;

	pthread_mutex_lock(&health->lock);
	troubled = health->troubled;
	health->troubled = false;
	if (troubled)
		snprintf(text, size, "%s", health->trouble);
	pthread_mutex_unlock(&health->lock);
	return troubled;
}

// --- figures of the server itself
// --------------------------------------------------------------------------------------

struct figures {
	struct prometheus_figure each[FIGURES_MAX + 1];
	size_t count;
};

static void put(struct figures *figures, const char *name, const char *labels, const char *help, double value)
{
	if (figures->count < FIGURES_MAX)
		figures->each[figures->count++] = (struct prometheus_figure){name, labels, help, value};
}

static void put_server(struct figures *figures, const struct server_counts *server)
{
	static const char answers[] = "HTTP answers, by hundreds of their status.";
	static const char *const codes[] = {"{code=\"0xx\"}", "{code=\"1xx\"}", "{code=\"2xx\"}",
					    "{code=\"3xx\"}", "{code=\"4xx\"}", "{code=\"5xx\"}"};

	put(figures, "tracer_lake_connections", "", "Open connections.", (double)server->connections);
	put(figures, "tracer_lake_connections_total", "", "Connections taken.", (double)server->connections_total);
	put(figures, "tracer_lake_connections_refused_total", "", "Connections refused, over the limit.",
	    (double)server->refused);
	put(figures, "tracer_lake_handshakes_failed_total", "", "TLS handshakes that failed.",
	    (double)server->handshakes_failed);
	put(figures, "tracer_lake_requests_total", "", "Requests.", (double)server->requests);
	for (size_t i = 2; i < sizeof(codes) / sizeof(codes[0]); i++)
		put(figures, "tracer_lake_responses_total", codes[i], answers, (double)server->status[i]);
	put(figures, "tracer_lake_unauthorized_total", "", "Requests without a token that allows them.",
	    (double)server->unauthorized);
	put(figures, "tracer_lake_streams", "", "Open streams of events.", (double)server->streams);
}

static void put_ingest(struct figures *figures, const struct ingest_counts *ingest)
{
	put(figures, "tracer_lake_batches_total", "", "Batches stored.", (double)ingest->batches);
	put(figures, "tracer_lake_records_total", "", "Records stored.", (double)ingest->records);
	put(figures, "tracer_lake_received_bytes_total", "", "Bytes of stored batches, as sent.",
	    (double)ingest->bytes_encoded);
	put(figures, "tracer_lake_decoded_bytes_total", "", "The same, decompressed.", (double)ingest->bytes_decoded);
	put(figures, "tracer_lake_batches_refused_total", "", "Batches that were wrong in themselves.",
	    (double)ingest->refused);
	put(figures, "tracer_lake_batches_out_of_sequence_total", "", "Batches beyond what is acknowledged.",
	    (double)ingest->sequence);
	put(figures, "tracer_lake_batches_busy_total", "", "Batches turned away under pressure.", (double)ingest->busy);
	put(figures, "tracer_lake_store_errors_total", "", "Writes that the store refused.",
	    (double)ingest->store_errors);
	put(figures, "tracer_lake_commits_total", "", "Durable steps of the store.", (double)ingest->commits);
	put(figures, "tracer_lake_batches_waiting", "", "Batches between request and answer.", (double)ingest->waiting);
}

// As every Prometheus client tells them.
static void put_process(struct figures *figures, const struct health *health)
{
	struct timespec cpu;
	char text[256];
	unsigned long long pages;
	ssize_t length = health->statm_fd < 0 ? -1 : pread(health->statm_fd, text, sizeof(text) - 1, 0);

	if (!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu))
		put(figures, "process_cpu_seconds_total", "", "CPU time of this process.",
		    (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	text[length > 0 ? length : 0] = 0;
	if (length > 0 && sscanf(text, "%*u %llu", &pages) == 1)
		put(figures, "process_resident_memory_bytes", "", "Resident memory of this process.",
		    (double)pages * (double)sysconf(_SC_PAGESIZE));
	put(figures, "process_start_time_seconds", "", "When this process started.", health->start_s);
}

static void put_store(struct figures *figures, struct store_reader *reader)
{
	struct store_status status;
	struct store_error error;

	if (store_status(reader, &status, &error))
		return;
	put(figures, "tracer_lake_store_bytes", "", "Size of the store.", (double)status.bytes);
	put(figures, "tracer_lake_store_wal_bytes", "", "Of that, not yet in its place.", (double)status.wal_bytes);
	put(figures, "tracer_lake_store_processes", "", "Processes in the store.", (double)status.processes);
}

static void put_push(struct figures *figures, struct push *push)
{
	struct push_counts counts;

	if (!push)
		return;
	push_counts(push, &counts);
	put(figures, "tracer_lake_pushed_traces_total", "", "Runs that the collector took.", (double)counts.traces);
	put(figures, "tracer_lake_pushed_metrics_total", "", "Rounds of metrics that it took.", (double)counts.metrics);
	put(figures, "tracer_lake_push_refused_total", "", "What it refused for good.", (double)counts.refused);
	put(figures, "tracer_lake_push_failures_total", "", "Attempts that are repeated.", (double)counts.failures);
	put(figures, "tracer_lake_push_dropped_total", "", "Runs that found no room among those that wait.",
	    (double)counts.dropped);
	put(figures, "tracer_lake_push_waiting", "", "Runs that wait.", (double)counts.waiting);
}

static void metrics_get(void *context, const struct server_request *request, struct server_reply *reply)
{
	struct health *health = context;
	CLEANUP(buf_free) struct buf page = BUF_INIT;
	struct figures figures = {.count = 0};
	struct store_error why = {0};
	struct server_counts server;
	struct ingest_counts ingest;
	struct timespec now;
	int error;

	clock_gettime(CLOCK_REALTIME, &now);
	server_counts(health->server, &server);
	ingest_counts(health->ingest, &ingest);
	pthread_mutex_lock(&health->lock);
	// The server's own figures are for who may see all of it.
	if (!request->workspace) {
		put_server(&figures, &server);
		put_ingest(&figures, &ingest);
		put_store(&figures, health->reader);
		put(&figures, "tracer_lake_stitch_keys", "", "Keys of runs held for stitching.",
		    (double)health->stitched.keys);
		put(&figures, "tracer_lake_stitch_joins_total", "", "Joins written.", (double)health->stitched.joins);
		put(&figures, "tracer_lake_stitch_failures_total", "", "Rounds of stitching that failed.",
		    (double)health->stitched.failures);
		put_push(&figures, health->push);
		put_process(&figures, health);
	}
	struct prometheus_question question = {
		.reader = health->reader,
		.workspace = request->workspace,
		.now_ns = (uint64_t)now.tv_sec * S_NS + (uint64_t)now.tv_nsec,
		.figures = figures.each,
	};
	error = prometheus_write(&question, &page, &why);
	pthread_mutex_unlock(&health->lock);
	if (error) {
		server_reply_error(reply, 503, "store", "%s", why.text[0] ? why.text : strerror(-error));
		return;
	}
	server_reply_begin(reply, 200, PROMETHEUS_CONTENT_TYPE);
	server_reply_write(reply, page.data, page.length);
}

static const struct server_route routes[] = {
	{.method = "GET", .pattern = "/metrics", .role = TOKEN_READ, .handler = metrics_get},
	{0},
};

int health_new(struct store *store, struct server *server, struct ingest *ingest, struct health **ret_health,
	       struct store_error *error)
{
	struct health *health = calloc(1, sizeof(*health));
	struct timespec now;
	int result;

	if (!health)
		return -ENOMEM;
	clock_gettime(CLOCK_REALTIME, &now);
	health->server = server;
	health->ingest = ingest;
	health->start_s = (double)now.tv_sec;
	health->statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	pthread_mutex_init(&health->lock, NULL);
	result = stitcher_new(&health->stitcher);
	result = result ? result : store_reader_open(store, &health->reader, error);
	result = result ? result : ingest_add_task(ingest, stitch, health, STITCH_NS);
	result = result ? result : server_add_routes(server, routes, health);
	if (result) {
		health_free(health);
		return result;
	}
	*ret_health = health;
	return 0;
}

void health_push(struct health *health, struct push *push)
{
	health->push = push;
}

void health_free(struct health *health)
{
	if (!health)
		return;
	stitcher_free(health->stitcher);
	store_reader_close(health->reader);
	if (health->statm_fd >= 0)
		close(health->statm_fd);
	pthread_mutex_destroy(&health->lock);
	free(health);
}
