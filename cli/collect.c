// SPDX-License-Identifier: Apache-2.0
// `tracer collect`: the daemon. Opens everything while it still may, gives up its rights, then moves records from the
// kernel to the spool until it is told to stop. It parses nothing but its own configuration and rules, and
// those before.
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/collect_handover.h"
#include "cli/collect_status.h"
#include "cli/command.h"
#include "cli/identity.h"
#include "core/agent.h"
#include "core/agent_state.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/loop.h"
#include "core/base/resident.h"
#include "core/config.h"
#include "core/fallback.h"
#include "core/privs.h"
#include "core/proc_read.h"
#include "core/spool.h"
#include "core/status.h"
#include "core/stream.h"
#include "core/warden.h"

static const uint64_t COLLECT_TICK_NS = 250 * 1000 * 1000ULL;
static const uint64_t STOP_WAIT_NS = 200 * 1000 * 1000ULL;
// While records wait for the disk, and while none do: a failed disk is tried again then.
static const uint64_t SPOOL_TICK_NS = 25 * 1000 * 1000ULL;
static const uint64_t SPOOL_WAIT_NS = 2000 * 1000 * 1000ULL;
static const uint64_t SPOOL_REST_NS = 1000 * 1000 * 1000ULL;
static const uint64_t RENEW_AGAIN_NS = 10 * 1000 * 1000 * 1000ULL; // from one image that starts a streamer to the next

struct collect_options {
	char *log_level;
	char *rules_directory, *rules_pushed;
	uint64_t drain_interval_ns;
	uint64_t sample_interval_ns;
	uint64_t ring_bytes;
	char *source;
	uint64_t nice;
	char *spool_directory;
	uint64_t spool_cap_bytes;
	uint64_t spool_segment_bytes;
	uint64_t spool_memory_bytes;
	char *status_socket;
	char *status_processes_socket;
	char *status_group;
	bool seccomp;
};

static const struct option_spec option_specs[] = {
	{ "log_level", OPTION_STRING, offsetof(struct collect_options, log_level), "info", 0, 0,
	  "Least severe messages to write: error, warn, info or debug" },
	{ "rules_directory", OPTION_STRING, offsetof(struct collect_options, rules_directory), "/etc/tracer/rules.d", 0,
	  0, "Rules of your own, read after the shipped ones" },
	{ "rules_pushed", OPTION_STRING, offsetof(struct collect_options, rules_pushed),
	  "/var/lib/tracer/rules/current", 0, 0,
	  "File of rules that updates bring; bad ones are left out; \"\": none" },
	{ "drain_interval", OPTION_DURATION, offsetof(struct collect_options, drain_interval_ns), "250ms", 1000000,
	  1000000000, "How often the rings are emptied while records come" },
	{ "sample_interval", OPTION_DURATION, offsetof(struct collect_options, sample_interval_ns), "10s", 1000000000,
	  3600000000000, "How often living processes, cgroups and the host are sampled" },
	{ "ring_bytes", OPTION_BYTES, offsetof(struct collect_options, ring_bytes), "2M", 64 << 10, 1 << 30,
	  "Room in the kernel for records not yet read; a power of two" },
	{ "source", OPTION_STRING, offsetof(struct collect_options, source), "auto", 0, 0,
	  "Where processes are read from: bpf, events (netlink), proc, or auto: the first of them that works" },
	{ "nice", OPTION_U64, offsetof(struct collect_options, nice), "5", 0, 19,
	  "How far the collector steps back behind the workload" },
	{ "seccomp", OPTION_BOOL, offsetof(struct collect_options, seccomp), "true", 0, 0,
	  "Confine system calls once everything is open" },
	{ "spool.directory", OPTION_STRING, offsetof(struct collect_options, spool_directory), SPOOL_DEFAULT_DIRECTORY,
	  0, 0, "Where records wait to be delivered" },
	{ "spool.cap_bytes", OPTION_BYTES, offsetof(struct collect_options, spool_cap_bytes), "1G", 64 << 10,
	  1ULL << 50,
	  "Disk space records may take; the oldest go first, samples before processes" },
	{ "spool.segment_bytes", OPTION_BYTES, offsetof(struct collect_options, spool_segment_bytes), "16M", 4096,
	  1ULL << 40, "Size of one file of the spool" },
	{ "spool.memory_bytes", OPTION_BYTES, offsetof(struct collect_options, spool_memory_bytes), "4M", 64 << 10,
	  1ULL << 32, "Memory for records while the disk takes none" },
	{ "status.socket", OPTION_STRING, offsetof(struct collect_options, status_socket), STATUS_SOCKET, 0, 0,
	  "Where `tracer status` asks; \"\" for no socket" },
	{ "status.processes_socket", OPTION_STRING, offsetof(struct collect_options, status_processes_socket),
	  STATUS_PROCESSES_SOCKET, 0, 0, "Where `tracer ps` and `tracer top` ask; \"\" for no socket" },
	{ "status.group", OPTION_STRING, offsetof(struct collect_options, status_group), "", 0, 0,
	  "Group that may list processes; without one only root may" },
	{ 0 },
};

// The declared options, for help and completion.
const struct option_table *command_collect_options(void)
{
	static struct option_table tables[2 + MODULE_ID_END + 1] = {
		{ "", option_specs, NULL }, { "stream", stream_option_specs, NULL }
	};

	module_option_tables(tables + 2, MODULE_ID_END);
	return tables;
}

struct collect {
	struct collect_options options;
	struct stream_options stream_options;
	struct module_options module_options;
	struct config *config;
	struct loop *loop;
	struct agent *agent;
	struct fallback *fallback; // NULL: BPF
	char without_bpf[256];
	struct agent_sink sink;
	struct loop_timer *spool_timer;
	uint64_t spool_interval_ns;
	bool spool_in_memory;
	struct spool *spool;
	uint64_t renew_ns; // not before this
	struct stream *stream; // NULL: nothing is delivered
	char stream_why[STREAM_WHY_SIZE];
	struct collect_status status;
	struct collect_rules rules;
	struct collect_handover handover;
	uint64_t start_boot_ns;
};

static void spool_pace(struct collect *collect, uint64_t interval_ns)
{
	if (collect->spool_interval_ns == interval_ns || !collect->spool_timer)
		return;
	collect->spool_interval_ns = interval_ns;
	loop_timer_set(collect->spool_timer, interval_ns);
}

static int sink_write(void *context, const char *records, size_t length, uint32_t count, enum record_class class)
{
	struct collect *collect = context;

	return spool_append_counted(collect->spool, records, length, count,
				    class == RECORD_SAMPLE ? SPOOL_SAMPLE : SPOOL_PROCESS);
}

static void sink_flushed(void *context)
{
	struct collect *collect = context;

	spool_pace(collect, spool_commit(collect->spool, clock_boot_ns()) ? SPOOL_TICK_NS : SPOOL_REST_NS);
}

static void on_spool_gap(void *context, const struct spool_gap *gap)
{
	struct collect *collect = context;

	agent_gap_range(collect->agent, "spool", spool_reason_name(gap->reason), gap->count, gap->first, gap->last);
}

static void spool_tell(struct collect *collect, const struct spool_stats *stats)
{
	if (stats->ring_active == collect->spool_in_memory)
		return;
	collect->spool_in_memory = stats->ring_active;
	if (stats->ring_active)
		log_warn("%s takes no records (%s: %s): they wait in memory, %" PRIu64 " bytes at most",
			 collect->options.spool_directory, spool_reason_name(stats->ring_reason),
			 strerror(stats->ring_error), collect->options.spool_memory_bytes);
	else
		log_info("%s takes records again", collect->options.spool_directory);
}

// Only an image that has its rights yet can start another streamer: this one hands over to the next of its kind.
static void stream_renew(struct collect *collect, uint64_t now_ns)
{
	const char *why = collect->stream ? stream_lost(collect->stream, collect->options.spool_directory) : NULL;

	if (!why || now_ns < collect->renew_ns)
		return;
	collect->renew_ns = now_ns + RENEW_AGAIN_NS;
	log_warn("%s: handing over to an image that starts another", why);
	collect_handover_request(&collect->handover);
}

static void on_spool_tick(void *context, uint64_t now_ns)
{
	struct collect *collect = context;
	struct spool_stats stats;

	spool_tick(collect->spool, now_ns);
	spool_stats(collect->spool, &stats);
	spool_tell(collect, &stats);
	if (!stats.ring_active)
		stream_renew(collect, now_ns);
	if (stats.durable == stats.accepted)
		spool_pace(collect, SPOOL_REST_NS);
}

static void on_stop(void *context, const struct signalfd_siginfo *info)
{
	(void)info;
	loop_stop(((struct collect *)context)->loop, 0);
}

static void on_handover(void *context, const struct signalfd_siginfo *info)
{
	(void)info;
	collect_handover_request(&((struct collect *)context)->handover);
}

// result and why: as of agent_new() and agent_reload().
static void rules_note(struct collect *collect, int result, const struct buf *why)
{
	const char *pushed = collect->options.rules_pushed;
	struct collect_rules *rules = &collect->rules;

	snprintf(rules->why, sizeof(rules->why), "%.*s", why->data ? (int)strcspn(why->data, "\n") : 0,
		 why->data ? why->data : "");
	rules->failed += result < 0;
	rules->failed_own += result == -EINVAL; // the pushed ones were left out by then
	if (result < 0)
		return;
	rules->pushed = *pushed && access(pushed, F_OK) == 0;
	rules->left_out = why->length > 0;
}

static void on_reload(void *context, const struct signalfd_siginfo *info)
{
	CLEANUP(buf_free) struct buf why = BUF_INIT;
	struct collect *collect = context;
	int result = agent_reload(collect->agent, &why);

	(void)info;
	collect->rules.reloads++;
	rules_note(collect, result, &why);
	if (result < 0)
		log_error("rules not reloaded, the old ones stay: %s", why.data ? why.data : "out of memory");
	else if (why.length)
		log_warn("rules reloaded; pushed ones: %s", why.data);
	else
		log_info("rules reloaded");
}

static int config_read(struct collect *collect, const char *command, const char **file)
{
	char error[CONFIG_ERROR_SIZE] = "";
	const char *from_environment = getenv("TRACER_CONFIG");
	const char *path = *file ? *file : from_environment ? from_environment : CONFIG_FILE;
	int result = config_load_file(collect->config, path, *file || from_environment, error);

	if (!result)
		result = config_load_environment(collect->config, environ, error);
	if (result < 0) {
		fprintf(stderr, "tracer %s: %s\n", command, error);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static int option_refused(const struct collect *collect, const char *key, const char *what)
{
	char where[320];

	config_where(collect->config, key, where, sizeof(where));
	fprintf(stderr, "tracer collect: %s: %s\n", where, what);
	return EXIT_USAGE;
}

static int options_check(struct collect *collect)
{
	char why[STREAM_WHY_SIZE];
	enum log_level level;

	if (log_level_parse(collect->options.log_level, &level) < 0)
		return option_refused(collect, "log_level", "must be error, warn, info or debug");
	log_set_level(level);
	if (strcmp(collect->options.source, "auto") && strcmp(collect->options.source, "bpf") &&
	    strcmp(collect->options.source, "events") && strcmp(collect->options.source, "proc"))
		return option_refused(collect, "source", "must be auto, bpf, events or proc");
	if (collect->options.ring_bytes & (collect->options.ring_bytes - 1))
		return option_refused(collect, "ring_bytes", "must be a power of two, such as 2M or 4M");
	if (*collect->stream_options.url && stream_options_check(&collect->stream_options, why) < 0) {
		fprintf(stderr, "tracer collect: %s\n", why);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

static bool source_is(const struct collect *collect, const char *source)
{
	return !strcmp(collect->options.source, source) || !strcmp(collect->options.source, "auto");
}

static void log_missing(void *context, const char *sentence)
{
	(void)context;
	log_warn("%s", sentence);
}

// Without BPF. why has the reason for that, and gets another one when this fails too.
static int fallback_start(struct collect *collect, struct agent_options *options, struct buf *why)
{
	struct fallback_options host = { .root_pid = 0 };
	enum fallback_tier tier = FALLBACK_ANY;
	char reason[FALLBACK_WHY_SIZE] = "";
	int result;

	if (why->length)
		log_warn("no BPF: %s", why->data);
	snprintf(collect->without_bpf, sizeof(collect->without_bpf), "%s", why->length ? why->data : "");
	buf_reset(why);
	options->fallback = true;
	result = agent_new(options, &collect->agent, why);
	if (result < 0)
		return result;
	if (strcmp(collect->options.source, "auto"))
		tier = source_is(collect, "events") ? FALLBACK_NETLINK : FALLBACK_PROC;
	result = fallback_open(collect->agent, collect->loop, tier, &host, &collect->fallback, reason);
	if (result < 0)
		buf_append_string(why, reason);
	else
		fallback_missing(collect->fallback, log_missing, NULL);
	return result;
}

static int agent_open(struct collect *collect)
{
	CLEANUP(buf_free) struct buf why = BUF_INIT;
	struct agent_options options;
	int result;

	collect->sink = (struct agent_sink){ .write = sink_write, .flushed = sink_flushed, .context = collect };
	agent_options_default(&options);
	options.loop = collect->loop;
	options.sinks = &collect->sink;
	options.sink_count = 1;
	options.rules_directory = collect->options.rules_directory;
	options.rules_pushed = *collect->options.rules_pushed ? collect->options.rules_pushed : NULL;
	options.drain_ns = collect->options.drain_interval_ns;
	options.tick_ns = COLLECT_TICK_NS;
	options.sample_ns = collect->options.sample_interval_ns;
	options.ring_bytes = collect->options.ring_bytes;
	options.modules = &collect->module_options;
	options.offer = collect->handover.offer;
	result = -ENOTSUP;
	if (source_is(collect, "bpf") && !proc_in_first_pid_namespace())
		buf_append_string(&why, "BPF names other pids than those of this pid namespace (a container shows the "
					"host's with --pid=host, or hostPID)");
	else if (source_is(collect, "bpf"))
		result = agent_new(&options, &collect->agent, &why);
	// Bad rules (-EINVAL) are bad from any source.
	// Who takes over from BPF does so with it or not at all.
	if (result < 0 && result != -EINVAL && !collect->handover.offer && strcmp(collect->options.source, "bpf") != 0)
		result = fallback_start(collect, &options, &why);
	collect->handover.agent = collect->agent;
	if (result < 0)
		fprintf(stderr, "tracer collect: %s\n", why.data ? why.data : strerror(-result));
	else if (why.length)
		log_warn("pushed rules: %s", why.data);
	if (result == 0)
		rules_note(collect, 0, &why);
	if (result < 0)
		collect_handover_refuse(&collect->handover, why.data ? why.data : strerror(-result));
	if (result == -EINVAL)
		return EXIT_USAGE;
	return result < 0 ? EXIT_REFUSED : EXIT_OK;
}

// One that was killed is still on its way out, or another image has just ended.
static int spool_take(struct collect *collect)
{
	struct spool_options options = SPOOL_OPTIONS_DEFAULT;
	uint64_t until_ns = clock_boot_ns() + SPOOL_WAIT_NS;
	int result;

	options.cap_bytes = collect->options.spool_cap_bytes;
	options.segment_bytes = collect->options.spool_segment_bytes;
	options.memory_ring_bytes = collect->options.spool_memory_bytes;
	options.gap = on_spool_gap;
	options.gap_context = collect;
	while ((result = spool_open(collect->options.spool_directory, &options, &collect->spool)) == -EBUSY &&
	       clock_boot_ns() < until_ns)
		poll(NULL, 0, 10);
	collect->status.spool = collect->spool;
	return result;
}

static int spool_start(struct collect *collect)
{
	int result = spool_take(collect);

	if (result == -EBUSY)
		fprintf(stderr, "tracer collect: %s: another collector writes to this spool\n",
			collect->options.spool_directory);
	else if (result < 0)
		fprintf(stderr, "tracer collect: %s: %s\n", collect->options.spool_directory, strerror(-result));
	return result < 0 ? EXIT_REFUSED : EXIT_OK;
}

// ---- for the next image ------------------------------------------------------------------------------------------

static int handover_offer(void *context, struct handover_offer *offer)
{
	struct collect *collect = context;
	int result = agent_offer(collect->agent, offer);

	if (result < 0)
		return result;
	offer->start_boot_ns = collect->start_boot_ns;
	handover_offer_add(offer, HANDOVER_SOCKET, 0, "status", status_server_fd(collect->status.state));
	handover_offer_add(offer, HANDOVER_SOCKET, 0, "processes", status_server_fd(collect->status.processes));
	if (collect->stream && !stream_lost(collect->stream, collect->options.spool_directory)) {
		stream_handle_get(collect->stream, &offer->stream);
		handover_offer_add(offer, HANDOVER_STREAM, 0, "stream", offer->stream.fd);
	}
	return 0;
}

static int handover_spool_leave(void *context)
{
	struct collect *collect = context;
	struct spool_stats stats;

	spool_stats(collect->spool, &stats);
	if (stats.ring_active)
		return -EAGAIN; // records wait in memory: they cannot be handed over
	spool_close(collect->spool);
	collect->spool = NULL;
	collect->status.spool = NULL;
	return 0;
}

static int handover_spool_enter(void *context)
{
	struct collect *collect = context;

	return collect->spool ? 0 : spool_take(collect);
}

static void handover_set(struct collect *collect)
{
	collect->handover.loop = collect->loop;
	collect->handover.calls = (struct collect_handover_calls){ .offer = handover_offer,
								   .spool_leave = handover_spool_leave,
								   .spool_enter = handover_spool_enter,
								   .context = collect };
}

// ---- the streamer ------------------------------------------------------------------------------------------------

static void on_stream_tell(void *context, bool bad, const char *text)
{
	(void)context;
	if (bad)
		log_warn("stream: %s", text);
	else
		log_info("stream: %s", text);
}

static void on_stream_report(void *context, int fd, uint32_t events)
{
	struct collect *collect = context;

	(void)events;
	if (!stream_read(collect->stream)) {
		loop_remove_fd(collect->loop, fd);
		log_error("the streamer is gone: records stay in the spool until there is another");
	}
}

// The image before started one just like it: that goes on.
static bool stream_take(struct collect *collect)
{
	struct handover_offer *offer = collect->handover.offer;
	int fd;

	if (!offer || offer->stream.hash !=
			      stream_options_hash(&collect->stream_options, collect->options.spool_directory))
		return false;
	fd = handover_offer_take(offer, HANDOVER_STREAM, 0, "stream");
	if (fd < 0)
		return false;
	offer->stream.fd = fd;
	if (stream_adopt(&collect->stream_options, collect->options.spool_directory, &offer->stream,
			 &collect->stream) == 0)
		return true;
	close(fd);
	return false;
}

// The child is made while this process still may, and before it holds anything of the kernel's.
static int stream_begin(struct collect *collect)
{
	int result;

	if (!*collect->stream_options.url)
		return EXIT_OK;
	result = 0;
	if (!stream_take(collect))
		result = stream_start(&collect->stream_options, collect->options.spool_directory, on_stream_tell, NULL,
				      &collect->stream, collect->stream_why);
	if (result == -EINVAL) {
		fprintf(stderr, "tracer collect: %s\n", collect->stream_why);
		return EXIT_USAGE;
	}
	if (result < 0) { // a broken disk, say: recording goes on all the same
		log_error("nothing is delivered: %s", collect->stream_why);
		return EXIT_OK;
	}
	result = loop_add_fd(collect->loop, stream_fd(collect->stream), EPOLLIN, on_stream_report, collect);
	if (result < 0)
		log_error("the streamer's reports cannot be read: %s", strerror(-result));
	return EXIT_OK;
}

static int loop_start(struct collect *collect)
{
	int result = loop_new(&collect->loop);

	if (!result)
		result = loop_add_signal(collect->loop, SIGTERM, on_stop, collect);
	if (!result)
		result = loop_add_signal(collect->loop, SIGINT, on_stop, collect);
	if (!result)
		result = loop_add_signal(collect->loop, SIGHUP, on_reload, collect);
	if (!result)
		result = loop_add_signal(collect->loop, SIGUSR2, on_handover, collect);
	if (!result)
		result = loop_add_timer(collect->loop, SPOOL_REST_NS, on_spool_tick, collect,
					&collect->spool_timer);
	if (result < 0)
		fprintf(stderr, "tracer collect: %s\n", strerror(-result));
	return result < 0 ? EXIT_REFUSED : EXIT_OK;
}

// Everything that needs a right is open by now.
static int rights_drop(struct collect *collect)
{
	// Without BPF, what other users' processes run and count is only shown to who might trace them.
	const struct privs_keep keep = {
		.bpf = !collect->fallback && privs_kernel_needs_bpf(),
		.capabilities = collect->fallback ? 1ull << CAP_SYS_PTRACE | 1ull << CAP_DAC_READ_SEARCH : 0,
	};
	int result = privs_drop(&keep);

	if (result < 0) {
		fprintf(stderr, "tracer collect: giving up privileges: %s\n", strerror(-result));
		return EXIT_REFUSED;
	}
	if (!collect->options.seccomp)
		return EXIT_OK;
	result = privs_seccomp(PRIVS_COLLECT);
	if (result < 0)
		log_warn("system calls are not confined: %s", strerror(-result));
	return EXIT_OK;
}

static int collect_open(struct collect *collect)
{
	int code = loop_start(collect);

	if (!code && setpriority(PRIO_PROCESS, 0, (int)collect->options.nice) < 0)
		log_warn("nice %d: %s", (int)collect->options.nice, strerror(errno));
	handover_set(collect);
	if (!code)
		code = stream_begin(collect);
	if (!code && !collect->handover.offer) // else it is the older image's until it has stopped
		code = spool_start(collect);
	if (!code)
		code = agent_open(collect);
	if (!code) {
		collect->status = (struct collect_status){ .loop = collect->loop,
							   .agent = collect->agent,
							   .spool = collect->spool,
							   .stream = collect->stream,
							   .stream_url = collect->stream_options.url,
							   .stream_why = collect->stream_why,
							   .fallback = collect->fallback,
							   .without_bpf = collect->without_bpf,
							   .handover = &collect->handover,
							   .rules = &collect->rules,
							   .start_boot_ns = collect->start_boot_ns };
		collect_status_open(&collect->status, collect->options.status_socket,
				    collect->options.status_processes_socket, collect->options.status_group);
		code = rights_drop(collect);
	}
	return code;
}

// Everything is open, or nothing happened: a newer image that fails leaves no trace, for the older one goes on.
static int collect_begin(struct collect *collect)
{
	bool next = collect->handover.link.next;
	int code = collect_handover_begin(&collect->handover) < 0 ? EXIT_REFUSED : EXIT_OK;

	if (!code && collect->handover.offer) {
		collect->start_boot_ns = collect->handover.offer->start_boot_ns;
		collect->renew_ns = clock_boot_ns() + RENEW_AGAIN_NS;
	}
	if (!code)
		code = collect_open(collect);
	if (!code && collect_handover_take(&collect->handover) < 0)
		code = EXIT_REFUSED;
	if (!code && collect_handover_listen(&collect->handover) < 0)
		log_warn("this collector cannot be handed over: its parent cannot be heard");
	if (code && next)
		_exit(code);
	return code;
}

static int collect_run(struct collect *collect)
{
	int code = collect_begin(collect);
	int result;

	if (code)
		return code;
	log_info("collecting into %s", collect->options.spool_directory);
	resident_release();
	result = loop_run(collect->loop);
	if (result < 0)
		log_error("stopping: %s", strerror(-result));
	if (collect->fallback)
		fallback_finish(collect->fallback);
	agent_finish(collect->agent, STOP_WAIT_NS);
	spool_tick(collect->spool, clock_boot_ns());
	if (collect->stream) {
		stream_stop(collect->stream);
		collect->stream = collect->status.stream = NULL;
		spool_tick(collect->spool, clock_boot_ns() + SPOOL_REST_NS); // takes the last acknowledgement
	}
	log_info("stopped");
	return result < 0 ? EXIT_NO : EXIT_OK;
}

static int collect_close(struct collect *collect)
{
	int result;

	collect_status_close(&collect->status);
	collect_handover_close(&collect->handover);
	stream_stop(collect->stream);
	fallback_free(collect->fallback);
	agent_free(collect->agent);
	result = spool_close(collect->spool);
	if (result < 0)
		log_error("records in memory could not be written to the spool: %s", strerror(-result));
	loop_free(collect->loop);
	config_free(collect->config);
	module_options_free(&collect->module_options);
	return result < 0 ? EXIT_NO : EXIT_OK;
}

static int config_declare(struct collect *collect)
{
	int result = config_new(&collect->config);

	if (!result)
		result = config_add(collect->config, "", option_specs, &collect->options);
	if (!result)
		result = config_add(collect->config, "stream", stream_option_specs, &collect->stream_options);
	return result ? result : module_options_add(collect->config, &collect->module_options);
}

int collect_places_read(const char *command, const char *file, struct collect_places *ret_places)
{
	static struct collect collect; // what the config writes into outlives this call

	collect = (struct collect){ 0 };
	if (config_declare(&collect) < 0) {
		fprintf(stderr, "tracer %s: out of memory\n", command);
		return EXIT_REFUSED;
	}
	*ret_places = (struct collect_places){ .config = collect.config };
	if (config_read(&collect, command, &file))
		return EXIT_USAGE;
	ret_places->spool = collect.options.spool_directory;
	ret_places->state = collect.stream_options.state_directory;
	ret_places->token_file = collect.stream_options.token_file;
	ret_places->client_cert = collect.stream_options.client_cert;
	ret_places->client_key = collect.stream_options.client_key;
	ret_places->status_socket = collect.options.status_socket;
	return EXIT_OK;
}

int command_collect(int argc, char **argv)
{
	struct collect collect = { .start_boot_ns = clock_boot_ns(),
				   .handover = { .link.fd = -1, .peer_fd = -1, .memory_fd = -1 } };
	struct args args = args_of("collect", argc, argv);
	const char *file = NULL;
	bool print = false;
	int code, closed;

	if (warden_resume(argc, argv, &code))
		return code;
	if (config_declare(&collect) < 0) {
		fprintf(stderr, "tracer collect: out of memory\n");
		return EXIT_REFUSED;
	}
	args.config = collect.config;
	while (args_next(&args)) {
		if (args_is(&args, "config"))
			file = args.value;
		if (args_is(&args, "spool"))
			config_set_flag(collect.config, config_find_flag(collect.config, "spool-directory", 15),
					args.value, (char[CONFIG_ERROR_SIZE]){ 0 });
		if (args_is(&args, "stream"))
			config_set_flag(collect.config, config_find_flag(collect.config, "stream-url", 10), args.value,
					(char[CONFIG_ERROR_SIZE]){ 0 });
		print |= args_is(&args, "print-config");
	}
	code = args.exit_code;
	if (code < 0 && args.operand_count)
		code = args_usage(&args, "takes no operands");
	if (code < 0) {
		code = config_read(&collect, "collect", &file);
		if (!code)
			code = options_check(&collect);
		if (!code && print)
			code = config_write(collect.config, stdout) < 0 ? EXIT_NO : EXIT_OK;
		else if (!code && !warden_begin(&collect.handover.link, &code))
			code = collect_run(&collect);
	}
	closed = collect_close(&collect);
	return code ? code : closed;
}
