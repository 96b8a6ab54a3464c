// SPDX-License-Identifier: Apache-2.0
// Streamer: its process, seen from the collector. Two processes without privilege: a keeper, which starts the other
// again when it dies (the collector may not, once its own rights are gone), and the streamer itself. One socket pair
// joins them with the collector: reports come out of it, its end of file says "deliver what is left and end". The
// collector trusts nothing that comes.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/resident.h"
#include "core/stream_prepare.h"
#include "core/stream_private.h"
#include "version.h"

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL

enum {
	RESTART_MIN_S = 1,
	RESTART_MAX_S = 60,
	LIVED_WELL_S = 300, // after that the pause begins small again
	KILL_AFTER_S = 2, // beyond stop_wait
	FDS_MAX = 65536,
};

struct stream {
	int fd;
	pid_t keeper;
	uint64_t stop_wait_ns;
	uint64_t hash; // stream_options_hash()
	struct stat spool; // the directory it delivers
	bool reported, gone, stopping;
	struct stream_report report;
};

void stream_tell(const struct stream_setup *setup, bool bad, const char *format, ...)
{
	char text[STREAM_WHY_SIZE + 160];
	va_list arguments;

	if (!setup->tell)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	setup->tell(setup->tell_context, bad, text);
}

// ---- the keeper --------------------------------------------------------------------------------------------------

static void close_others(const struct stream_setup *setup)
{
	const int keep[] = {setup->spool_fd, setup->state_fd, setup->cursor_fd, setup->report_fd};
	long limit = sysconf(_SC_OPEN_MAX);

	for (int fd = 3; fd < limit && fd < FDS_MAX; fd++) {
		bool kept = false;

		for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
			kept |= fd == keep[i];
		if (!kept)
			close(fd);
	}
}

static void signals_reset(void)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGUSR1, SIGUSR2};
	sigset_t none;

	// A terminal's Ctrl-C and a service manager's stop reach every process: the collector says when it is over.
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void keeper_report(const struct stream_setup *setup, uint64_t retry_ns, const char *why)
{
	struct stream_report report = {.version = STREAM_REPORT_VERSION,
				       .state = STREAM_DEAD,
				       .restarts = setup->restarts,
				       .last_error_ns = clock_real_ns(),
				       .retry_at_ns = clock_real_ns() + retry_ns};

	snprintf(report.last_error, sizeof(report.last_error), "%s", why);
	send(setup->report_fd, &report, sizeof(report), MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Waits on the socket (true: its end of file was seen) and on the child.
static bool keeper_wait(const struct stream_setup *setup, int child_fd, int timeout_ms)
{
	struct pollfd fds[2] = {{.fd = setup->report_fd, .events = POLLIN}, {.fd = child_fd, .events = POLLIN}};

	poll(fds, child_fd >= 0 ? 2 : 1, timeout_ms);
	return fds[0].revents & (POLLIN | POLLHUP | POLLERR);
}

// Until the child is gone; *stopping is set when the collector wants an end.
static int keeper_watch(const struct stream_setup *setup, pid_t child, bool *stopping)
{
	int child_fd = (int)syscall(SYS_pidfd_open, child, 0), status = 0;
	uint64_t deadline = 0;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (!*stopping) {
			*stopping = keeper_wait(setup, child_fd, child_fd >= 0 ? -1 : 1000);
			continue;
		}
		if (!deadline)
			deadline = clock_boot_ns() + setup->options->stop_wait_ns + KILL_AFTER_S * NS_PER_S;
		if (clock_boot_ns() >= deadline)
			kill(child, SIGKILL);
		poll(&(struct pollfd){.fd = child_fd, .events = POLLIN}, child_fd >= 0, 100);
	}
	if (child_fd >= 0)
		close(child_fd);
	return status;
}

static _Noreturn void child_run(struct stream_setup *setup)
{
	struct stream_report report = {.version = STREAM_REPORT_VERSION, .restarts = setup->restarts};
	int result = stream_confine(setup, &report.landlock, &report.seccomp);

	if (result < 0)
		stream_tell(setup, true, "the streamer cannot be confined: %s", strerror(-result));
	else
		result = stream_live(setup, &report);
	_exit(result == 0 ? 0 : result == -EAGAIN ? STREAM_EXIT_AGAIN : 1);
}

static void say_end(const struct stream_setup *setup, char *out, size_t size, int status)
{
	struct stat info;

	// What is made in its place is not ours to open.
	if (fstat(setup->spool_fd, &info) == 0 && info.st_nlink == 0)
		snprintf(out, size, "the spool's directory was removed");
	else if (WIFSIGNALED(status))
		snprintf(out, size, "the streamer was ended by signal %d", WTERMSIG(status));
	else
		snprintf(out, size, "the streamer ended with code %d", WEXITSTATUS(status));
}

static _Noreturn void keeper_run(struct stream_setup *setup)
{
	uint64_t pause_s = RESTART_MIN_S, started, until;
	char why[STREAM_WHY_SIZE];
	bool stopping = false;
	int status;
	pid_t child;

	resident_release(); // and what the child has of the same mappings
	// Told to stop while no child runs: one more delivers what is left.
	for (;;) {
		started = clock_boot_ns();
		child = fork();
		if (child == 0)
			child_run(setup);
		status = child > 0 ? keeper_watch(setup, child, &stopping) : 1 << 8;
		if (stopping)
			break;
		setup->restarts++;
		if (clock_boot_ns() - started > LIVED_WELL_S * NS_PER_S)
			pause_s = RESTART_MIN_S;
		if (!WIFEXITED(status) || WEXITSTATUS(status) != STREAM_EXIT_AGAIN) {
			say_end(setup, why, sizeof(why), status);
			stream_tell(setup, true, "%s; it is started again in %llu s", why, (unsigned long long)pause_s);
			keeper_report(setup, pause_s * NS_PER_S, why);
		}
		until = clock_boot_ns() + pause_s * NS_PER_S;
		while (!stopping && clock_boot_ns() < until)
			stopping = keeper_wait(setup, -1, (int)((until - clock_boot_ns()) / NS_PER_MS) + 1);
		pause_s = pause_s * 2 > RESTART_MAX_S ? RESTART_MAX_S : pause_s * 2;
	}
	_exit(0);
}

// ---- the collector's side ----------------------------------------------------------------------------------------

int stream_start(const struct stream_options *options, const char *spool_directory, stream_tell_fn *tell, void *context,
		 struct stream **ret_stream, char why[STREAM_WHY_SIZE])
{
	struct stream_setup setup;
	struct stream *stream = calloc(1, sizeof(*stream));
	int pair[2], result = stream ? stream_prepare(options, spool_directory, &setup, why) : -ENOMEM;

	if (result < 0) {
		free(stream);
		return result;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
		result = -errno;
		snprintf(why, STREAM_WHY_SIZE, "socketpair: %s", strerror(errno));
		stream_setup_free(&setup);
		free(stream);
		return result;
	}
	setup.report_fd = pair[1];
	setup.tell = tell;
	setup.tell_context = context;
	stream->keeper = fork();
	if (stream->keeper == 0) {
		close_others(&setup);
		signals_reset();
		prctl(PR_SET_NAME, "tracer-stream");
		result = stream_become(&setup);
		if (result == 0)
			keeper_run(&setup);
		_exit(1);
	}
	result = stream->keeper < 0 || fstat(setup.spool_fd, &stream->spool) < 0 ? -errno : 0;
	close(pair[1]);
	stream_setup_free(&setup);
	stream->fd = pair[0];
	stream->stop_wait_ns = options->stop_wait_ns;
	stream->hash = stream_options_hash(options, spool_directory);
	if (result < 0) {
		snprintf(why, STREAM_WHY_SIZE, "fork: %s", strerror(-result));
		close(pair[0]);
		free(stream);
		return result;
	}
	*ret_stream = stream;
	return 0;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return (hash ^ 0xff) * UINT64_C(1099511628211);
}

// Another version's streamer is another program, with the same options too.
uint64_t stream_options_hash(const struct stream_options *options, const char *spool_directory)
{
	const char *const texts[] = {TRACER_VERSION, TRACER_BUILD, spool_directory, options->url, options->token_file,
				     options->ca_file, options->client_cert, options->client_key, options->proxy,
				     options->no_proxy, options->state_directory, options->user};
	const uint64_t numbers[] = {options->batch_bytes, options->batch_records, options->batch_age_ns,
				    options->connect_timeout_ns, options->request_timeout_ns, options->retry_limit_ns,
				    options->stop_wait_ns, options->quarantine_bytes, options->sandbox};
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		hash = hash_text(hash, texts[i]);
	for (char **pin = options->pins; pin && *pin; pin++)
		hash = hash_text(hash, *pin);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		hash = (hash ^ numbers[i]) * UINT64_C(1099511628211);
	return hash ? hash : 1;
}

void stream_handle_get(const struct stream *stream, struct stream_handle *ret_handle)
{
	*ret_handle = (struct stream_handle){
		.fd = stream->fd,
		.keeper = (uint64_t)stream->keeper,
		.reported = stream->reported,
		.report = stream->report,
		.hash = stream->gone ? 0 : stream->hash,
	};
}

int stream_fd(const struct stream *stream)
{
	return stream->fd;
}

static bool host_id_plain(const char *text)
{
	return strspn(text, "0123456789abcdef-") == strlen(text);
}

static void report_take(struct stream *stream, struct stream_report *report)
{
	char clean[sizeof(report->last_error)];

	if (report->version != STREAM_REPORT_VERSION || report->state >= STREAM_STATE_END)
		return;
	report->last_error[sizeof(report->last_error) - 1] = 0;
	report->host_id[sizeof(report->host_id) - 1] = 0;
	stream_text_clean(clean, sizeof(clean), report->last_error, strlen(report->last_error));
	memcpy(report->last_error, clean, sizeof(clean));
	if (!host_id_plain(report->host_id))
		report->host_id[0] = 0;
	stream->reported = true;
	if (report->state != STREAM_DEAD) {
		stream->report = *report;
		return;
	}
	// The keeper knows that the streamer died, and no figures.
	stream->report.state = report->state;
	stream->report.restarts = report->restarts;
	stream->report.last_error_ns = report->last_error_ns;
	stream->report.retry_at_ns = report->retry_at_ns;
	memcpy(stream->report.last_error, report->last_error, sizeof(report->last_error));
}

int stream_adopt(const struct stream_options *options, const char *spool_directory, const struct stream_handle *handle,
		 struct stream **ret_stream)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return -ENOMEM;
	if (stat(spool_directory, &stream->spool) < 0) {
		free(stream);
		return -errno;
	}
	stream->fd = handle->fd;
	stream->keeper = (pid_t)handle->keeper;
	stream->hash = handle->hash;
	stream->stop_wait_ns = options->stop_wait_ns;
	if (handle->reported) {
		struct stream_report report = handle->report;

		report_take(stream, &report);
	}
	*ret_stream = stream;
	return 0;
}

bool stream_read(struct stream *stream)
{
	struct stream_report report;
	ssize_t got;

	while ((got = recv(stream->fd, &report, sizeof(report), MSG_DONTWAIT)) > 0)
		if (got == (ssize_t)sizeof(report))
			report_take(stream, &report);
	if (got == 0 && !stream->gone) {
		stream->gone = true;
		stream->report.state = STREAM_STOPPED;
		if (!stream->stopping) {
			stream->report.last_error_ns = clock_real_ns();
			snprintf(stream->report.last_error, sizeof(stream->report.last_error),
				 "the streamer and its keeper are gone");
		}
	}
	return !stream->gone;
}

bool stream_latest(const struct stream *stream, struct stream_report *ret_report)
{
	if (stream->reported || stream->gone)
		*ret_report = stream->report;
	return stream->reported || stream->gone;
}

const char *stream_lost(const struct stream *stream, const char *spool_directory)
{
	struct stat info;

	if (stream->gone)
		return "the streamer and its keeper are gone";
	if (stat(spool_directory, &info) < 0 ||
	    (info.st_dev == stream->spool.st_dev && info.st_ino == stream->spool.st_ino))
		return NULL;
	return "the spool's directory is another than the streamer's";
}

void stream_stop(struct stream *stream)
{
	uint64_t deadline;

	if (!stream)
		return;
	deadline = clock_boot_ns() + stream->stop_wait_ns + (KILL_AFTER_S + 1) * NS_PER_S;
	stream->stopping = true;
	shutdown(stream->fd, SHUT_WR);
	while (!stream->gone && clock_boot_ns() < deadline) {
		poll(&(struct pollfd){.fd = stream->fd, .events = POLLIN}, 1, 100);
		stream_read(stream);
	}
	close(stream->fd);
	for (int i = 0; i < 10 && waitpid(stream->keeper, NULL, WNOHANG) == 0; i++)
		poll(NULL, 0, 20);
	free(stream);
}

// ---- by hand -----------------------------------------------------------------------------------------------------

int stream_by_hand(const struct stream_options *options, const char *spool_directory, const struct stream_hand *hand,
		   char why[STREAM_WHY_SIZE], struct stream_report *ret_report)
{
	struct stream_setup setup;
	int result = stream_prepare(options, spool_directory, &setup, why);

	if (result < 0)
		return result;
	setup.once = hand->once;
	setup.final = hand->once && !spool_is_written(setup.spool_fd);
	setup.tell = hand->tell;
	setup.tell_context = hand->context;
	*ret_report = (struct stream_report){.version = STREAM_REPORT_VERSION};
	signal(SIGPIPE, SIG_IGN);
	result = stream_become(&setup);
	if (result == 0)
		result = stream_confine(&setup, &ret_report->landlock, &ret_report->seccomp);
	if (result == 0)
		result = stream_live(&setup, ret_report);
	snprintf(why, STREAM_WHY_SIZE, "%s", result < 0 ? strerror(-result) : "");
	stream_setup_free(&setup);
	return result;
}
