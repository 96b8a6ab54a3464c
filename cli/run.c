// SPDX-License-Identifier: Apache-2.0
// `tracer run`: one agent around one command. The command starts only once everything is attached, keeps its
// terminal, its output and its exit code; the report goes to standard error. Nothing is written to disk but what -o
// names.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/report_text.h"
#include "cli/ui.h"
#include "core/agent.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/fallback.h"
#include "core/proc_read.h"
#include "core/privs.h"
#include "core/report.h"

enum { EXIT_TRACER = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

enum { RUN_NICE = 5, TRACE_ID_MAX = 200 };

static const uint64_t FINISH_WAIT_NS = 500 * 1000 * 1000ULL;

struct run_options {
	const char *output;
	const char *trace_id; // NULL: none
	const char *source; // "bpf", "events" or "proc"; NULL: the first that works
	bool system, wait, quiet;
	char **command;
};

struct run_session {
	struct run_options options;
	struct loop *loop;
	struct agent *agent;
	bool without_bpf;
	struct fallback *fallback; // NULL: BPF
	struct report *report;
	struct agent_sink sink;
	int output_fd; // -1: none
	int output_error;
	pid_t child;
	int release_fd; // closing it lets the command start
	int exec_error_fd;
	int exec_error; // why the command could not be started; 0: it was
	int status; // of the command, as wait(2)
	bool ended;
};

static int sink_write(void *context, const char *records, size_t length, uint32_t count,
		      enum record_class class)
{
	struct run_session *session = context;
	int result;

	(void)count;
	(void)class;
	if (session->output_fd < 0)
		return 0;
	result = fs_write_all(session->output_fd, records, length);
	if (result < 0 && !session->output_error)
		session->output_error = result;
	return result;
}

static void sink_end(void *context, const struct process *process)
{
	report_process_end(((struct run_session *)context)->report, process);
}

// The command in its own words, waiting for the go.
static void child_run(struct run_session *session, int release, int exec_error)
{
	char go;
	int error;

	loop_restore_signals(session->loop);
	while (read(release, &go, 1) < 0 && errno == EINTR)
		;
	execvp(session->options.command[0], session->options.command);
	error = errno;
	if (write(exec_error, &error, sizeof(error)) < 0)
		_exit(EXIT_TRACER);
	_exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
}

static int child_start(struct run_session *session)
{
	int release[2], failed[2];

	if (pipe2(release, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(failed, O_CLOEXEC) < 0) {
		close(release[0]);
		close(release[1]);
		return -errno;
	}
	session->child = fork();
	if (session->child == 0) {
		close(release[1]);
		child_run(session, release[0], failed[1]);
	}
	close(release[0]);
	close(failed[1]);
	session->release_fd = release[1];
	session->exec_error_fd = failed[0];
	return session->child < 0 ? -errno : 0;
}

// One dead child; 0 or less: none. Without BPF its last figures are taken first.
static int child_reap(struct run_session *session, pid_t *ret_pid, int *ret_status)
{
	if (session->fallback)
		return fallback_reap(session->fallback, ret_pid, ret_status);
	*ret_pid = waitpid(-1, ret_status, WNOHANG);
	return *ret_pid;
}

static void on_child(void *context, const struct signalfd_siginfo *info)
{
	struct run_session *session = context;
	int status;
	pid_t pid;

	(void)info;
	while (child_reap(session, &pid, &status) > 0) {
		if (pid != session->child)
			continue; // an orphan that was adopted
		session->status = status;
		session->ended = true;
		if (!session->options.wait)
			loop_stop(session->loop, 0);
	}
}

// The terminal sends its signals to the command as well; others are passed on.
static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	struct run_session *session = context;

	if (session->ended)
		loop_stop(session->loop, 0);
	else if (info->ssi_code != SI_KERNEL)
		kill(session->child, (int)info->ssi_signo);
}

static void sink_tick(void *context, uint64_t now_boot_ns)
{
	struct run_session *session = context;

	(void)now_boot_ns;
	if (session->ended && session->options.wait && !agent_living(session->agent))
		loop_stop(session->loop, 0);
}

static const char *command_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static bool source_is(const struct run_session *session, const char *source)
{
	return !session->options.source || !strcmp(session->options.source, source);
}

static int agent_open(struct run_session *session)
{
	CLEANUP(buf_free) struct buf why = BUF_INIT;
	struct agent_options options;
	int result;

	agent_options_default(&options);
	options.loop = session->loop;
	session->sink = (struct agent_sink){.write = sink_write,
					    .process_end = sink_end,
					    .tick = sink_tick,
					    .context = session};
	options.sinks = &session->sink;
	options.sink_count = 1;
	options.tree = !session->options.system;
	options.living_at_end = true;
	options.sample_ns = 1000 * 1000 * 1000ULL;
	result = -ENOTSUP;
	if (!proc_in_first_pid_namespace())
		buf_append_string(&why, "BPF names other pids than those of this pid namespace");
	else if (source_is(session, "bpf"))
		result = agent_new(&options, &session->agent, &why);
	// Bad rules (-EINVAL) are bad from any source.
	if (result < 0 && result != -EINVAL &&
	    (!session->options.source || !source_is(session, "bpf"))) {
		options.fallback = session->without_bpf = true;
		buf_reset(&why);
		result = agent_new(&options, &session->agent, &why);
	}
	if (result < 0)
		fprintf(stderr, "tracer run: %s\n", why.data ? why.data : strerror(-result));
	return result;
}

// Without BPF: the command is forked, and waits, before the first look at it.
static int fallback_start(struct run_session *session)
{
	struct fallback_options options = {
		.root_pid = session->options.system ? 0 : (uint32_t)session->child};
	enum fallback_tier tier = FALLBACK_ANY;
	struct process *root;
	char why[FALLBACK_WHY_SIZE] = "";
	int result;

	if (session->options.source)
		tier = source_is(session, "events") ? FALLBACK_NETLINK : FALLBACK_PROC;
	result = fallback_open(session->agent, session->loop, tier, &options, &session->fallback, why);
	if (result < 0) {
		fprintf(stderr, "tracer run: %s\n", why);
		return result;
	}
	root = process_find(agent_processes(session->agent), (uint32_t)session->child);
	if (!root)
		return -ESRCH;
	return correlate_root(agent_correlate(session->agent), root,
			      command_name(session->options.command[0]));
}

static int tree_start(struct run_session *session)
{
	bool marked = !session->options.system && !session->without_bpf;
	int result = marked ? agent_tree_open(session->agent) : 0;

	if (!result)
		result = child_start(session);
	if (!result && session->without_bpf)
		return fallback_start(session);
	if (!result)
		result = agent_tree_close(session->agent, (uint32_t)session->child,
					  command_name(session->options.command[0]));
	return result;
}

static int trace_start(struct run_session *session)
{
	struct process *root = process_find(agent_processes(session->agent), (uint32_t)session->child);

	if (!session->options.trace_id)
		return 0;
	return root ? correlate_trace(agent_correlate(session->agent), root, session->options.trace_id) : -ESRCH;
}

static int report_open(struct run_session *session)
{
	CLEANUP(buf_free) struct buf command = BUF_INIT;
	char host[256] = "";
	long pages = sysconf(_SC_PHYS_PAGES);
	struct report_setup setup = {
		.host = host,
		.cpu_count = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.memory_bytes =
			pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : UNKNOWN,
		.start_boot_ns = session->options.system ? clock_boot_ns() : UNKNOWN,
	};

	for (char **word = session->options.command; *word; word++)
		buf_printf(&command, "%s%s", word == session->options.command ? "" : " ", *word);
	setup.command = command.data;
	gethostname(host, sizeof(host) - 1);
	return report_new(&setup, &session->report);
}

static int signals_open(struct run_session *session)
{
	static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	int result = loop_add_signal(session->loop, SIGCHLD, on_child, session);

	for (size_t i = 0; !result && i < sizeof(passed) / sizeof(passed[0]); i++)
		result = loop_add_signal(session->loop, passed[i], on_signal, session);
	return result;
}

// The command has its rights and its priority; from here on only reading is left to do, behind it. Without BPF not
// behind: who reads /proc late misses what was there; and what other users' processes run is only shown to who might
// trace them.
static void rights_drop(const struct run_session *session)
{
	// CAP_KILL: to pass signals on to a command of another user.
	const struct privs_keep keep = {
		.bpf = !session->fallback && privs_kernel_needs_bpf(),
		.capabilities = 1ULL << CAP_KILL |
				(session->fallback ? 1ULL << CAP_SYS_PTRACE | 1ULL << CAP_DAC_READ_SEARCH : 0),
	};
	int result = privs_drop(&keep);

	if (result < 0)
		fprintf(stderr, "tracer run: giving up privileges: %s\n", strerror(-result));
	if (!session->fallback)
		setpriority(PRIO_PROCESS, 0, RUN_NICE);
}

static int session_open(struct run_session *session)
{
	int result;

	if (session->options.output) {
		session->output_fd = open(session->options.output,
					  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (session->output_fd < 0) {
			fprintf(stderr, "tracer run: %s: %s\n", session->options.output,
				strerror(errno));
			return -errno;
		}
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	result = loop_new(&session->loop);
	if (!result)
		result = signals_open(session);
	if (!result)
		result = report_open(session);
	if (result < 0) {
		fprintf(stderr, "tracer run: %s\n", strerror(-result));
		return result;
	}
	result = agent_open(session);
	if (result < 0)
		return result;
	result = tree_start(session);
	if (!result)
		result = trace_start(session);
	if (result < 0) {
		fprintf(stderr, "tracer run: starting the command: %s\n", strerror(-result));
		return result;
	}
	rights_drop(session);
	return 0;
}

static void session_close(struct run_session *session)
{
	fallback_free(session->fallback);
	agent_free(session->agent);
	report_free(session->report);
	loop_free(session->loop);
	if (session->output_fd >= 0)
		close(session->output_fd);
	if (session->release_fd >= 0)
		close(session->release_fd);
	if (session->exec_error_fd >= 0)
		close(session->exec_error_fd);
}

static void note_failed(void *context, const char *module, const char *reason)
{
	char note[256];

	snprintf(note, sizeof(note), "module %s does not run: %s; its figures are unknown", module, reason);
	report_note(((struct run_session *)context)->report, note);
}

static void note_gap(void *context, const char *room, const char *reason, uint64_t count)
{
	report_gap(((struct run_session *)context)->report, room, reason, count);
}

static void note_missing(void *context, const char *sentence)
{
	report_note(((struct run_session *)context)->report, sentence);
}

static void report_print(struct run_session *session)
{
	struct report_outcome outcome = {
		// Else the last end, as a report of the file has it: this process may notice it late.
		.end_boot_ns = session->options.system ? clock_boot_ns() : UNKNOWN,
		.exit_code = WIFEXITED(session->status) ? WEXITSTATUS(session->status) : -1,
		.signal = WIFSIGNALED(session->status) ? WTERMSIG(session->status) : 0,
	};
	struct ui ui;

	if (session->fallback)
		fallback_finish(session->fallback);
	outcome.still_running = agent_finish(session->agent, FINISH_WAIT_NS);
	if (session->fallback)
		fallback_missing(session->fallback, note_missing, session);
	agent_failed_each(session->agent, note_failed, session);
	agent_gaps_each(session->agent, note_gap, session);
	report_finish(session->report, &outcome);
	// A command that never ran leaves nothing to tell but the reason.
	if (session->options.quiet || session->exec_error)
		return;
	ui_init(&ui, stderr);
	report_write(session->report, &ui);
}

// The command's end of the pipe closes with its exec.
static void exec_error_read(struct run_session *session)
{
	int error;

	if (session->exec_error_fd >= 0 &&
	    read(session->exec_error_fd, &error, sizeof(error)) == sizeof(error))
		session->exec_error = error;
}

static int exit_code_of(const struct run_session *session)
{
	if (session->exec_error) {
		fprintf(stderr, "tracer run: %s: %s\n", session->options.command[0],
			strerror(session->exec_error));
		return session->exec_error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	}
	if (session->output_error) {
		fprintf(stderr, "tracer run: %s: %s; the file is incomplete\n",
			session->options.output, strerror(-session->output_error));
		return EXIT_TRACER;
	}
	return WIFSIGNALED(session->status) ? 128 + WTERMSIG(session->status)
					    : WEXITSTATUS(session->status);
}

static int session_run(struct run_session *session)
{
	int result;

	if (session_open(session) < 0) {
		if (session->child > 0) {
			kill(session->child, SIGKILL);
			waitpid(session->child, NULL, 0);
		}
		return EXIT_TRACER;
	}
	close(session->release_fd);
	session->release_fd = -1;
	result = loop_run(session->loop);
	if (result < 0) {
		fprintf(stderr, "tracer run: %s\n", strerror(-result));
		return EXIT_TRACER;
	}
	exec_error_read(session);
	report_print(session);
	return exit_code_of(session);
}

int command_run(int argc, char **argv)
{
	struct run_session session = {.output_fd = -1, .release_fd = -1, .exec_error_fd = -1};
	struct args args = args_of("run", argc, argv);
	int code;

	args.stop_at_operand = true;
	while (args_next(&args)) {
		if (args_is(&args, "output"))
			session.options.output = args.value;
		if (args_is(&args, "source"))
			session.options.source = args.value;
		if (args_is(&args, "trace-id"))
			session.options.trace_id = args.value;
		session.options.system |= args_is(&args, "system");
		session.options.wait |= args_is(&args, "wait");
		session.options.quiet |= args_is(&args, "quiet");
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (!args.operand_count)
		return args_usage(&args, "name a command to run");
	if (!source_is(&session, "bpf") && !source_is(&session, "events") &&
	    !source_is(&session, "proc"))
		return args_usage(&args, "--source takes bpf, events or proc");
	if (session.options.trace_id &&
	    (!*session.options.trace_id || strlen(session.options.trace_id) > TRACE_ID_MAX))
		return args_usage(&args, "--trace-id takes 1 to 200 characters");
	session.options.command = args.operands;
	code = session_run(&session);
	session_close(&session);
	return code;
}
