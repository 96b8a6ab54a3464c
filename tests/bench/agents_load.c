// SPDX-License-Identifier: Apache-2.0
// Many agents against one datalake: each holds its connection and posts a batch at every interval, at a moment of its own.
// One thread, epoll, mbedTLS. Prints one JSON object: how long acknowledgements took, what was answered, how many requests
// came in the busiest second. Pauses are those of the streamer (core/stream_pause.h). With an outage of K intervals every
// agent loses its server, fails and waits as long as that takes (reckoned, not waited for) and comes back when its pause
// then ends, with what gathered meanwhile in batches of up to 4 MiB; the run goes on until the last of it is taken.
//
//	agents_load --state DIR --port PORT [--tls] [--agents N] [--interval MS] [--seconds S] [--records R] [--server PID]
//		[--outage-batches K --retry-limit S --recovery-limit S]

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/ssl.h>
#include <netinet/tcp.h>
#include <psa/crypto.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/crc.h"
#include "core/spool_format.h"
#include "core/stream_pause.h"
#include "lake/token.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

enum state { AWAY, CONNECTING, HANDSHAKE, RESTING, SENDING, READING };

struct agent {
	int fd;
	enum state state;
	bool tls_made;
	mbedtls_ssl_context ssl;
	char token[TOKEN_TEXT_SIZE], host_id[40];
	uint64_t sequence, due_ns, sent_ns;
	uint64_t first_ns; // when what is sent was sent for the first time
	uint64_t backlog; // records that gathered
	unsigned int attempts; // failed in a row
	struct buf out;
	size_t out_sent;
	char in[1024];
	size_t in_length;
};

static struct {
	const char *state;
	unsigned long port, agents, interval_ms, seconds, records, outage_batches, retry_limit_s, recovery_limit_s;
	unsigned long server;
	bool tls;
} options = {.agents = 1000,
	     .interval_ms = 10000,
	     .seconds = 60,
	     .records = 10,
	     .retry_limit_s = 300,
	     .recovery_limit_s = 1800};

static struct agent *agents;
static int epoll_fd;
static mbedtls_ssl_config tls_config;
static mbedtls_ctr_drbg_context tls_random;
static mbedtls_entropy_context tls_entropy;
static uint64_t start_ns, measure_ns, *latencies, latency_count, latency_room;
static uint64_t statuses[6], failures, reconnects, per_second[4096], records_sent;
static struct buf batch_text, batch_packed;

// What agents have to say after an outage differs by its numbers alone, so it is made once for those with the same.
enum { KEPT = 64, BACKLOG_RECORDS = 3500, RAMP_LIMIT_S = 600 };
static struct kept {
	uint64_t first, count;
	struct buf packed;
} kept[KEPT];
static unsigned int kept_next;

static void die(const char *what)
{
	fprintf(stderr, "agents_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

// ---- a batch -------------------------------------------------------------------------------------

static void records_make(const char *host_id, uint64_t first, uint64_t count, struct buf *out)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t n = first + i;

		buf_printf(
			out,
			"{\"kind\":\"process\",\"time_ns\":%" PRIu64
			",\"host\":\"%.8s\",\"boot\":\"%s\",\"pid\":%" PRIu64 ",\"ppid\":7,\"start_ns\":%" PRIu64
			",\"end_ns\":%" PRIu64 ",\"start_boot_ns\":%" PRIu64
			",\"parent_start_boot_ns\":5,\"comm\":\"samtools\",\"exe\":\"/usr/bin/"
			"samtools\",\"args\":[\"samtools\","
			"\"sort\",\"-o\",\"out%" PRIu64
			".bam\",\"in.bam\"],\"cwd\":\"/data/work\",\"uid\":1000,\"gid\":1000,"
			"\"session\":7,\"process_group\":7,\"exit_code\":0,\"signal\":null,\"core_dumped\":false,"
			"\"oom\":false,"
			"\"oom_limit\":null,\"cpu_ns\":%" PRIu64 ",\"cpu_user_ns\":%" PRIu64 ",\"cpu_system_ns\":1000,"
			"\"run_delay_ns\":2000,\"voluntary_switches\":3,\"involuntary_switches\":1,\"threads_max\":1,"
			"\"blocked_ns\":null,\"blocked_samples\":0,\"minor_faults\":120,\"major_faults\":0,"
			"\"peak_rss_bytes\":8388608,\"rchar_bytes\":1048576,\"wchar_bytes\":524288,\"read_syscalls\":"
			"20,"
			"\"write_syscalls\":12,\"read_bytes\":0,\"write_bytes\":524288,\"cancelled_write_bytes\":0,"
			"\"cgroup\":\"/user.slice\",\"container\":null,\"tool\":\"samtools sort\",\"task\":\"t%" PRIu64
			"\",\"task_name\":\"sort\",\"run\":\"run-%" PRIu64
			"\",\"run_name\":\"align\",\"run_parent\":null,"
			"\"engine\":\"nextflow\",\"sample\":\"s%" PRIu64 "\",\"quality\":{\"blocked\":\"unknown\"}}\n",
			clock_real_ns(), host_id, host_id, 1000 + n, clock_real_ns() - 2 * S,
			clock_real_ns(), n * 1000, n, n * 1000, n * 900, n / 8, n / 800, n / 16);
	}
}

static void batch_pack(void)
{
	z_stream stream = {0};

	if (deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		die("deflate");
	buf_reset(&batch_packed);
	buf_reserve(&batch_packed, deflateBound(&stream, batch_text.length) + 64);
	stream.next_in = (unsigned char *)batch_text.data;
	stream.avail_in = (uInt)batch_text.length;
	stream.next_out = (unsigned char *)batch_packed.data;
	stream.avail_out = (uInt)batch_packed.capacity;
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		die("deflate");
	batch_packed.length = stream.total_out;
	deflateEnd(&stream);
}

static void body_make(const char *host_id, uint64_t first, uint64_t count)
{
	struct spool_frame_line frame = {.class = SPOOL_PROCESS, .epoch = 1, .first = first, .records = count};
	char line[SPOOL_FRAME_LINE] = "";

	buf_reset(&batch_text);
	buf_append(&batch_text, line, sizeof(line)); // its place
	records_make(host_id, first, count, &batch_text);
	frame.bytes = batch_text.length - sizeof(line);
	frame.time_ns = clock_real_ns();
	frame.crc = crc32c(0, batch_text.data + sizeof(line), frame.bytes);
	spool_frame_encode(&frame, line);
	memcpy(batch_text.data, line, sizeof(line));
	batch_pack();
}

static const struct buf *body_of(const struct agent *agent, uint64_t count)
{
	if (!agent->backlog) {
		body_make(agent->host_id, agent->sequence, count);
		return &batch_packed;
	}
	for (unsigned int i = 0; i < KEPT; i++)
		if (kept[i].first == agent->sequence && kept[i].count == count)
			return &kept[i].packed;
	kept_next = (kept_next + 1) % KEPT;
	body_make("recovered-host", agent->sequence, count);
	kept[kept_next].first = agent->sequence;
	kept[kept_next].count = count;
	buf_reset(&kept[kept_next].packed);
	buf_append(&kept[kept_next].packed, batch_packed.data, batch_packed.length);
	return &kept[kept_next].packed;
}

static void request_make(struct agent *agent)
{
	uint64_t count = agent->backlog ? agent->backlog : options.records;
	unsigned char digest[32];
	const struct buf *body;
	char base64[64];

	count = count > BACKLOG_RECORDS ? BACKLOG_RECORDS : count;
	body = body_of(agent, count);
	crypto_hash_sha256(digest, (unsigned char *)body->data, body->length);
	sodium_bin2base64(base64, sizeof(base64), digest, sizeof(digest), sodium_base64_VARIANT_ORIGINAL);
	buf_reset(&agent->out);
	buf_printf(
		&agent->out,
		"POST /api/v1/ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: "
		"application/x-ndjson\r\nContent-Encoding: gzip\r\nContent-Digest: sha-256=:%s:\r\nTracer-Host: %s\r\n"
		"Tracer-Epoch: 0000000000000001\r\nTracer-Sequence: %" PRIu64 "-%" PRIu64 "\r\nTracer-After: %" PRIu64
		"\r\nContent-Length: %zu\r\n\r\n",
		agent->token, base64, agent->host_id, agent->sequence, agent->sequence + count - 1, agent->sequence - 1,
		body->length);
	buf_append(&agent->out, body->data, body->length);
	agent->out_sent = 0;
	agent->in_length = 0;
	agent->sent_ns = clock_boot_ns();
	if (!agent->attempts)
		agent->first_ns = agent->sent_ns;
	records_sent += count;
	per_second[(agent->sent_ns - start_ns) / S % 4096]++;
}

// ---- a connection ----------------------------------------------------------------------------------

static void wait_for(const struct agent *agent, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)(agent - agents)};

	epoll_ctl(epoll_fd, EPOLL_CTL_MOD, agent->fd, &event);
}

static void hang_up(struct agent *agent, uint64_t again_ns)
{
	if (agent->tls_made)
		mbedtls_ssl_free(&agent->ssl);
	agent->tls_made = false;
	if (agent->fd >= 0)
		close(agent->fd);
	agent->fd = -1;
	agent->state = AWAY;
	agent->due_ns = clock_boot_ns() + again_ns;
}

static uint64_t pause_ns(struct agent *agent, uint64_t retry_after_ns)
{
	uint64_t random;

	randombytes_buf(&random, sizeof(random));
	return stream_pause_ns(agent->attempts++, options.interval_ms * MS, options.retry_limit_s * S, retry_after_ns,
			       random);
}

static void fail(struct agent *agent)
{
	failures++;
	hang_up(agent, pause_ns(agent, 0));
}

static void dial(struct agent *agent)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
	struct epoll_event event = {.events = EPOLLOUT, .data.u64 = (uint64_t)(agent - agents)};
	int on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	agent->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (agent->fd < 0)
		die("socket");
	setsockopt(agent->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(agent->fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS) {
		fail(agent);
		return;
	}
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, agent->fd, &event);
	agent->state = CONNECTING;
}

static int bio_send(void *data, const unsigned char *bytes, size_t length)
{
	ssize_t sent = send(((struct agent *)data)->fd, bytes, length, MSG_NOSIGNAL);

	return sent >= 0 ? (int)sent : errno == EAGAIN ? MBEDTLS_ERR_SSL_WANT_WRITE : -1;
}

static int bio_receive(void *data, unsigned char *bytes, size_t length)
{
	ssize_t got = recv(((struct agent *)data)->fd, bytes, length, 0);

	return got >= 0 ? (int)got : errno == EAGAIN ? MBEDTLS_ERR_SSL_WANT_READ : -1;
}

static ssize_t put(struct agent *agent, const void *data, size_t length)
{
	int result;

	if (!options.tls)
		return send(agent->fd, data, length, MSG_NOSIGNAL);
	result = mbedtls_ssl_write(&agent->ssl, data, length);
	errno = result == MBEDTLS_ERR_SSL_WANT_WRITE || result == MBEDTLS_ERR_SSL_WANT_READ ? EAGAIN : EPIPE;
	return result;
}

static ssize_t take(struct agent *agent, void *data, size_t size)
{
	int result;

	if (!options.tls)
		return recv(agent->fd, data, size, 0);
	result = mbedtls_ssl_read(&agent->ssl, data, size);
	errno = result == MBEDTLS_ERR_SSL_WANT_WRITE || result == MBEDTLS_ERR_SSL_WANT_READ ? EAGAIN : EPIPE;
	return result;
}

// An agent connects when it has something to say.
static void speak(struct agent *agent)
{
	agent->state = RESTING;
	agent->due_ns = clock_boot_ns();
	wait_for(agent, EPOLLIN);
}

static void rest(struct agent *agent)
{
	uint64_t now_ns = clock_boot_ns(), interval_ns = options.interval_ms * MS;

	agent->state = RESTING;
	if (agent->backlog)
		agent->due_ns = now_ns;
	while (agent->due_ns < now_ns && !agent->backlog)
		agent->due_ns += interval_ns;
	wait_for(agent, EPOLLIN);
}

static void answered(struct agent *agent, int status, uint64_t content_end)
{
	uint64_t now_ns = clock_boot_ns(), next;
	const char *retry, *acked;

	(void)content_end;
	agent->in[agent->in_length] = 0;
	statuses[status / 100]++;
	buf_free(&agent->out);
	if (status == 200) {
		if (agent->first_ns >= measure_ns && latency_count < latency_room)
			latencies[latency_count++] = now_ns - agent->first_ns;
		acked = strstr(agent->in, "\"acked\":");
		next = acked ? strtoull(acked + 8, NULL, 10) + 1 : agent->sequence;
		agent->backlog -= next - agent->sequence < agent->backlog ? next - agent->sequence : agent->backlog;
		agent->sequence = next;
		agent->attempts = 0;
		rest(agent);
		return;
	}
	retry = strcasestr(agent->in, "retry-after:");
	agent->state = RESTING;
	agent->due_ns = now_ns + pause_ns(agent, retry ? strtoull(retry + 12, NULL, 10) * S : 0);
	if (strcasestr(agent->in, "connection: close"))
		hang_up(agent, agent->due_ns - now_ns);
	else
		wait_for(agent, EPOLLIN);
}

static void reading(struct agent *agent)
{
	ssize_t got = take(agent, agent->in + agent->in_length, sizeof(agent->in) - 1 - agent->in_length);
	char *end, *length;

	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0) {
		reconnects++;
		hang_up(agent, 0);
		return;
	}
	agent->in_length += (size_t)got;
	agent->in[agent->in_length] = 0;
	end = strstr(agent->in, "\r\n\r\n");
	length = strcasestr(agent->in, "content-length:");
	if (end && length && agent->in_length >= (size_t)(end + 4 - agent->in) + strtoul(length + 15, NULL, 10))
		answered(agent, (int)strtol(agent->in + 9, NULL, 10), 0);
}

static void sending(struct agent *agent)
{
	while (agent->out_sent < agent->out.length) {
		ssize_t sent = put(agent, agent->out.data + agent->out_sent, agent->out.length - agent->out_sent);

		if (sent < 0 && errno == EAGAIN) {
			wait_for(agent, EPOLLOUT);
			return;
		}
		if (sent < 0) {
			reconnects++;
			hang_up(agent, 0);
			return;
		}
		agent->out_sent += (size_t)sent;
	}
	agent->state = READING;
	wait_for(agent, EPOLLIN);
}

static void handshaking(struct agent *agent)
{
	int result = mbedtls_ssl_handshake(&agent->ssl);

	if (result == 0)
		speak(agent);
	else if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE)
		wait_for(agent, result == MBEDTLS_ERR_SSL_WANT_READ ? EPOLLIN : EPOLLOUT);
	else {
		fail(agent);
	}
}

static void connected(struct agent *agent)
{
	int error = 0;
	socklen_t size = sizeof(error);

	getsockopt(agent->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (error) {
		fail(agent);
		return;
	}
	if (!options.tls) {
		speak(agent);
		return;
	}
	mbedtls_ssl_init(&agent->ssl);
	agent->tls_made = true;
	if (mbedtls_ssl_setup(&agent->ssl, &tls_config))
		die("TLS");
	mbedtls_ssl_set_bio(&agent->ssl, agent, bio_send, bio_receive, NULL);
	agent->state = HANDSHAKE;
	handshaking(agent);
}

static void on_event(struct agent *agent)
{
	char byte;

	switch (agent->state) {
	case CONNECTING:
		connected(agent);
		break;
	case HANDSHAKE:
		handshaking(agent);
		break;
	case SENDING:
		sending(agent);
		break;
	case READING:
		reading(agent);
		break;
	case RESTING:
		if (take(agent, &byte, 1) < 0 && errno == EAGAIN)
			break;
		reconnects++;
		hang_up(agent, 0);
		break;
	case AWAY:
		break;
	}
}

static void due(struct agent *agent)
{
	if (agent->state == AWAY) {
		dial(agent);
	} else if (agent->state == RESTING) {
		request_make(agent);
		agent->state = SENDING;
		sending(agent);
	}
}

// ---- the run ---------------------------------------------------------------------------------------

static void run_until(uint64_t until_ns)
{
	struct epoll_event events[256];
	uint64_t sweep_ns = 0;

	while (clock_boot_ns() < until_ns) {
		int count = epoll_wait(epoll_fd, events, 256, 5);
		uint64_t now_ns = clock_boot_ns();

		for (int i = 0; i < count; i++)
			on_event(&agents[events[i].data.u64]);
		if (now_ns < sweep_ns)
			continue;
		sweep_ns = now_ns + 5 * MS;
		for (unsigned long i = 0; i < options.agents; i++)
			if ((agents[i].state == AWAY || agents[i].state == RESTING) && agents[i].due_ns <= now_ns)
				due(&agents[i]);
	}
}

static void agents_make(void)
{
	struct tokens *tokens;
	int result = tokens_open(options.state, &tokens);

	errno = -result;
	if (result < 0)
		die(options.state);
	agents = calloc(options.agents, sizeof(*agents));
	for (unsigned long i = 0; i < options.agents; i++) {
		struct token token = {.role = TOKEN_AGENT, .workspace = "default"};

		snprintf(agents[i].host_id, sizeof(agents[i].host_id), "%08x-%04x-4000-8000-%012x",
			 randombytes_random(), randombytes_random() & 0xffff, (unsigned int)i);
		memcpy(token.host_id, agents[i].host_id, sizeof(agents[i].host_id));
		if (tokens_create(tokens, &token, agents[i].token, NULL) < 0)
			die("token");
		agents[i].fd = -1;
		agents[i].sequence = 1;
	}
	tokens_close(tokens);
}

static uint64_t rate_max(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t most = 0;

	for (uint64_t second = (from_ns - start_ns) / S; second < (to_ns - start_ns) / S; second++)
		most = per_second[second % 4096] > most ? per_second[second % 4096] : most;
	return most;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double at_ms(double share)
{
	return latency_count ? (double)latencies[(uint64_t)(share * (double)(latency_count - 1))] / 1e6 : -1;
}

static void options_read(int argc, char **argv)
{
	struct {
		const char *name;
		unsigned long *value;
	} numbers[] = {{"--port", &options.port},
		       {"--agents", &options.agents},
		       {"--interval", &options.interval_ms},
		       {"--seconds", &options.seconds},
		       {"--records", &options.records},
		       {"--outage-batches", &options.outage_batches},
		       {"--retry-limit", &options.retry_limit_s},
		       {"--recovery-limit", &options.recovery_limit_s},
		       {"--server", &options.server}};

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tls"))
			options.tls = true;
		else if (!strcmp(argv[i], "--state") && i + 1 < argc)
			options.state = argv[++i];
		for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]) && i + 1 < argc; j++)
			if (!strcmp(argv[i], numbers[j].name))
				*numbers[j].value = strtoul(argv[++i], NULL, 10);
	}
	if (!options.state || !options.port) {
		fprintf(stderr, "agents_load: --state DIR and --port PORT are needed\n");
		exit(2);
	}
}

static void tls_open(void)
{
	mbedtls_ssl_config_init(&tls_config);
	mbedtls_ctr_drbg_init(&tls_random);
	mbedtls_entropy_init(&tls_entropy);
	if (psa_crypto_init() != PSA_SUCCESS ||
	    mbedtls_ctr_drbg_seed(&tls_random, mbedtls_entropy_func, &tls_entropy, NULL, 0) ||
	    mbedtls_ssl_config_defaults(&tls_config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
					MBEDTLS_SSL_PRESET_DEFAULT))
		die("TLS");
	mbedtls_ssl_conf_authmode(&tls_config, MBEDTLS_SSL_VERIFY_NONE);
	mbedtls_ssl_conf_rng(&tls_config, mbedtls_ctr_drbg_random, &tls_random);
}

// CPU time of the datalake so far, all threads, in seconds.
static double server_cpu_s(void)
{
	unsigned long user = 0, kernel = 0;
	char path[64], text[1024];
	const char *end;
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%lu/stat", options.server);
	file = options.server ? fopen(path, "re") : NULL;
	if (!file)
		return 0;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = 0;
	end = strrchr(text, ')');
	if (!end || sscanf(end + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) != 2)
		return 0;
	return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

// Each has its connection, and something stored.
static bool begun(void)
{
	for (unsigned long i = 0; i < options.agents; i++)
		if (agents[i].sequence == 1)
			return false;
	return true;
}

static bool recovered(void)
{
	for (unsigned long i = 0; i < options.agents; i++)
		if (agents[i].backlog)
			return false;
	return true;
}

// Every agent finds its server gone at the moment it next posts, tries again as the streamer does for as long as the outage
// takes, and is left waiting for what remains of the pause it is in at the end.
static void outage(uint64_t back_ns)
{
	uint64_t interval_ns = options.interval_ms * MS, whole_ns = options.outage_batches * interval_ns;

	for (unsigned long i = 0; i < options.agents; i++) {
		uint64_t at_ns = interval_ns * i / options.agents;

		hang_up(&agents[i], 0);
		agents[i].attempts = 0;
		while (at_ns < whole_ns)
			at_ns += pause_ns(&agents[i], 0);
		agents[i].due_ns = back_ns + at_ns - whole_ns;
		agents[i].backlog = options.outage_batches * options.records;
	}
}

static double recovery_run(uint64_t *ret_busiest)
{
	uint64_t back_ns = clock_boot_ns(), end_ns = back_ns + options.recovery_limit_s * S;
	double seconds;

	outage(back_ns);
	while (clock_boot_ns() < end_ns && !recovered())
		run_until(clock_boot_ns() + S);
	seconds = recovered() ? (double)(clock_boot_ns() - back_ns) / 1e9 : -1;
	run_until(clock_boot_ns() + 2 * options.interval_ms * MS);
	*ret_busiest = rate_max(back_ns, clock_boot_ns());
	return seconds;
}

// server_s: the datalake's CPU time of one batch.
static void report(double server_s, uint64_t acknowledged, uint64_t busiest, uint64_t busiest_back, double recovery_s)
{
	struct rusage usage;

	qsort(latencies, latency_count, sizeof(*latencies), compare);
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"agents\":%lu,\"tls\":%s,\"interval_ms\":%lu,\"records_per_batch\":%lu,\"acknowledged\":%" PRIu64
	       ",\"p50_ms\":%.1f,\"p95_ms\":%.1f,\"p99_ms\":%.1f,\"max_ms\":%.1f,\"status_2xx\":%" PRIu64
	       ",\"status_4xx\":%" PRIu64 ",\"status_5xx\":%" PRIu64 ",\"failures\":%" PRIu64 ",\"reconnects\":%" PRIu64
	       ",\"records\":%" PRIu64 ",\"busiest_second\":%" PRIu64 ",\"busiest_second_of_recovery\":%" PRIu64
	       ",\"recovery_s\":%.1f,\"server_cpu_ms_per_batch\":%.3f,\"generator_cpu_s\":%.1f}\n",
	       options.agents, options.tls ? "true" : "false", options.interval_ms, options.records, acknowledged,
	       at_ms(0.5), at_ms(0.95), at_ms(0.99), at_ms(1), statuses[2], statuses[4], statuses[5], failures,
	       reconnects, records_sent, busiest, busiest_back, recovery_s,
	       server_s * 1e3,
	       (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

int main(int argc, char **argv)
{
	uint64_t interval_ns, end_ns, ramp_ns, busiest, busiest_back = 0, acknowledged;
	double server_s, recovery_s = 0;
	uint64_t stored;

	options_read(argc, argv);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){options.agents + 100, options.agents + 100});
	if (sodium_init() < 0)
		die("sodium");
	tls_open();
	agents_make();
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	latency_room = 10000000;
	latencies = calloc(latency_room, sizeof(*latencies));
	interval_ns = options.interval_ms * MS;
	// Connecting takes its time; each posts from then on at its own moment of the interval. What is measured begins when
	// all have.
	ramp_ns = options.tls ? options.agents * 15 * MS : interval_ns;
	ramp_ns = ramp_ns < interval_ns ? interval_ns : ramp_ns;
	start_ns = clock_boot_ns();
	for (unsigned long i = 0; i < options.agents; i++)
		agents[i].due_ns = start_ns + ramp_ns * i / options.agents;
	measure_ns = UINT64_MAX;
	run_until(start_ns + ramp_ns);
	while (!begun() && clock_boot_ns() < start_ns + ramp_ns + RAMP_LIMIT_S * S)
		run_until(clock_boot_ns() + S);
	measure_ns = clock_boot_ns() + interval_ns;
	run_until(measure_ns);
	server_s = server_cpu_s();
	stored = statuses[2];
	end_ns = measure_ns + options.seconds * S;
	run_until(end_ns);
	stored = statuses[2] - stored;
	server_s = stored ? (server_cpu_s() - server_s) / (double)stored : 0;
	acknowledged = latency_count;
	busiest = rate_max(measure_ns, end_ns);
	measure_ns = UINT64_MAX; // what comes now is not counted with it
	if (options.outage_batches)
		recovery_s = recovery_run(&busiest_back);
	report(server_s, acknowledged, busiest, busiest_back, recovery_s);
	return 0;
}
