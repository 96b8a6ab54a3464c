// SPDX-License-Identifier: Apache-2.0
// `tracer up`: the one-machine product. Starts the datalake and the collector as children, each with rights of its own,
// makes the token that enrols this host, prints a link for the browser, and stops both in order: first who writes, then
// who takes. It reads nothing from a network and touches no record.

#include "cli/up.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/log.h"
#include "core/spool.h"
#include "lake/server.h"

#define MS UINT64_C(1000000)
#define LAKE_DIRECTORY "/var/lib/tracer/lake"
#define TOKEN_FILE "/var/lib/tracer/up.token"

static const uint64_t READY_NS = 30000 * MS;
static const uint64_t STOP_NS = 40000 * MS;

// ---- children ------------------------------------------------------------------------------------

void up_word(struct up_words *words, const char *text)
{
	if (words->count + 1 < UP_WORDS_MAX)
		words->list[words->count++] = (char *)(uintptr_t)text;
	words->list[words->count] = NULL;
}

int up_start(struct up *up, struct up_words *words, int output, pid_t *ret_pid)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		*ret_pid = pid;
		return 0;
	}
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	loop_restore_signals(up->loop);
	if (output >= 0)
		dup2(output, STDOUT_FILENO);
	if (up->input >= 0)
		dup2(up->input, STDIN_FILENO);
	if (strchr(words->list[0], '/'))
		execv(words->list[0], words->list);
	else
		execv("/proc/self/exe", words->list);
	fprintf(stderr, "tracer up: %s %s: %s\n", words->list[0], words->list[1], strerror(errno));
	_exit(127);
}

static void pause_ms(unsigned int ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Of a child that may take long: who wants us to stop wants it to stop.
static int wait_watching(struct up *up, pid_t pid)
{
	bool told = false;
	sigset_t pending;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (!told && sigpending(&pending) == 0 &&
		    (sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM))) {
			kill(-pid, SIGTERM);
			told = up->interrupted = true;
		}
		pause_ms(20);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int up_run(struct up *up, struct up_words *words, struct buf *out)
{
	int ends[2] = {-1, -1}, result;
	char part[4096];
	ssize_t got = 1;
	pid_t pid = 0;

	if (out && pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	result = up_start(up, words, ends[1], &pid);
	if (ends[1] >= 0)
		close(ends[1]);
	while (!result && out && got != 0) {
		got = read(ends[0], part, sizeof(part));
		if (got > 0)
			buf_append(out, part, (size_t)got);
		else if (got < 0 && errno != EINTR)
			break;
	}
	if (ends[0] >= 0)
		close(ends[0]);
	return result < 0 ? result : out ? wait_for(pid) : wait_watching(up, pid);
}

static struct up_words lake_words(const struct up *up, const char *word, const char *second)
{
	struct up_words words = {0};

	up_word(&words, "tracer");
	up_word(&words, "datalake");
	if (word)
		up_word(&words, word);
	if (second)
		up_word(&words, second);
	if (up->config) {
		up_word(&words, "--config");
		up_word(&words, up->config);
	}
	up_word(&words, "--store");
	up_word(&words, up->store);
	up_word(&words, "--state");
	up_word(&words, up->lake);
	up_word(&words, "--listen");
	up_word(&words, up->listen);
	up_word(&words, "--log-level");
	up_word(&words, up->log_level);
	return words;
}

static int collect_start(struct up *up)
{
	struct up_words words = {0};

	up_word(&words, "tracer");
	up_word(&words, "collect");
	up_word(&words, "--spool");
	up_word(&words, up->spool);
	up_word(&words, "--stream-url");
	up_word(&words, up->url);
	up_word(&words, "--stream-token-file");
	up_word(&words, up->token_file);
	up_word(&words, "--log-level");
	up_word(&words, up->log_level);
	if (up->socket[0]) {
		up_word(&words, "--status-socket");
		up_word(&words, up->socket);
		up_word(&words, "--status-processes-socket");
		up_word(&words, up->processes_socket);
	}
	return up_start(up, &words, -1, &up->collect);
}

// ---- watching them -------------------------------------------------------------------------------

static void tell_end(const char *name, int status)
{
	if (WIFSIGNALED(status))
		log_error("%s was killed by signal %d; see what it wrote above", name, WTERMSIG(status));
	else
		log_error("%s ended with exit code %d; see what it wrote above", name, WEXITSTATUS(status));
}

static void reap(struct up *up)
{
	pid_t *const pids[] = {&up->collect, &up->datalake};
	static const char *const names[] = {"the collector", "the datalake"};
	int status;

	for (int i = 0; i < 2; i++) {
		if (*pids[i] <= 0 || waitpid(*pids[i], &status, WNOHANG) != *pids[i])
			continue;
		*pids[i] = 0;
		if (up->stopping && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		tell_end(names[i], status);
		up->code = EXIT_NO;
		loop_stop(up->loop, 0);
	}
}

static void on_child(void *context, const struct signalfd_siginfo *info)
{
	(void)info;
	reap(context);
}

static void on_stop(void *context, const struct signalfd_siginfo *info)
{
	(void)info;
	loop_stop(((struct up *)context)->loop, 0);
}

static void stop_one(struct up *up, pid_t *pid, const char *name)
{
	uint64_t until_ns = clock_boot_ns() + STOP_NS;

	if (*pid > 0)
		kill(*pid, SIGTERM);
	while (*pid > 0 && clock_boot_ns() < until_ns) {
		reap(up);
		pause_ms(20);
	}
	if (*pid <= 0)
		return;
	log_error("%s did not stop and is killed", name);
	kill(*pid, SIGKILL);
	wait_for(*pid);
	*pid = 0;
	up->code = EXIT_NO;
}

// Who streams outlives a collector that was killed, to deliver what is left.
static void group_end(pid_t group)
{
	uint64_t until_ns = clock_boot_ns() + STOP_NS;

	while (group > 0 && (kill(-group, 0) == 0 || errno != ESRCH)) {
		if (clock_boot_ns() > until_ns) {
			kill(-group, SIGKILL);
			return;
		}
		pause_ms(20);
	}
}

static int loop_start(struct up *up)
{
	int result = loop_new(&up->loop);

	if (!result)
		result = loop_add_signal(up->loop, SIGTERM, on_stop, up);
	if (!result)
		result = loop_add_signal(up->loop, SIGINT, on_stop, up);
	if (!result)
		result = loop_add_signal(up->loop, SIGCHLD, on_child, up);
	if (result < 0)
		fprintf(stderr, "tracer up: %s\n", strerror(-result));
	return result < 0 ? EXIT_REFUSED : EXIT_OK;
}

// ---- starting ------------------------------------------------------------------------------------

static bool port_open(const char *listen)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	const char *colon = strrchr(listen, ':');
	bool open;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return false;
	address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	open = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return open;
}

static int datalake_start(struct up *up)
{
	struct up_words words = lake_words(up, NULL, NULL);
	uint64_t until_ns = clock_boot_ns() + READY_NS;
	int result = up_start(up, &words, -1, &up->datalake);

	while (!result && up->datalake > 0 && clock_boot_ns() < until_ns) {
		reap(up);
		if (up->datalake > 0 && port_open(up->listen))
			return EXIT_OK;
		pause_ms(50);
	}
	if (result < 0)
		fprintf(stderr, "tracer up: the datalake cannot be started: %s\n", strerror(-result));
	else if (up->datalake > 0)
		fprintf(stderr, "tracer up: the datalake does not listen on %s after 30 s\n", up->listen);
	return EXIT_REFUSED;
}

static int token_make(struct up *up)
{
	struct up_words words = lake_words(up, "token", "create");
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	int result;

	if (access(up->token_file, F_OK) == 0)
		return EXIT_OK;
	up_word(&words, "--role");
	up_word(&words, "ingest");
	up_word(&words, "--note");
	up_word(&words, "tracer up");
	result = up_run(up, &words, &text);
	if (result == 0)
		result = fs_replace(up->token_file, text.data, text.length, 0600);
	if (result)
		fprintf(stderr, "tracer up: %s: no token: %s\n", up->token_file,
			result < 0 ? strerror(-result) : "see above");
	return result ? EXIT_REFUSED : EXIT_OK;
}

static void link_print(struct up *up)
{
	struct up_words words = lake_words(up, "link", NULL);
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	if (up_run(up, &words, &text) == 0 && text.data)
		printf("\nOpen this in a browser; it holds for ten minutes and once:\n  %s\n", text.data);
	else
		log_warn("no link was made; `tracer datalake link` makes one");
	fflush(stdout);
}

static int up_open(struct up *up)
{
	int code = loop_start(up), result = 0;

	if (!code && up->directory[0])
		result = fs_make_directories(up->directory, 0755);
	if (result < 0) {
		fprintf(stderr, "tracer up: %s: %s\n", up->directory, strerror(-result));
		return EXIT_REFUSED;
	}
	if (!code && port_open(up->listen)) {
		fprintf(stderr,
			"tracer up: something listens on %s already; stop it, or choose another with --listen\n",
			up->listen);
		return EXIT_REFUSED;
	}
	if (!code)
		code = datalake_start(up);
	if (!code)
		code = token_make(up);
	if (code)
		return code;
	result = collect_start(up);
	up->collect_group = up->collect;
	if (result < 0)
		fprintf(stderr, "tracer up: the collector cannot be started: %s\n", strerror(-result));
	return result < 0 ? EXIT_REFUSED : EXIT_OK;
}

static int up_serve(struct up *up)
{
	int code = up_open(up);

	if (!code && up->demo)
		code = up_demo(up);
	// Without a terminal there is nobody who could end it.
	if (!code && !up->code && !up->interrupted && (!up->demo || isatty(STDIN_FILENO))) {
		link_print(up);
		if (up->demo)
			printf("Both go on until Ctrl-C.\n");
		loop_run(up->loop);
	}
	up->stopping = true;
	stop_one(up, &up->collect, "the collector");
	group_end(up->collect_group);
	stop_one(up, &up->datalake, "the datalake");
	loop_free(up->loop);
	return code ? code : up->code;
}

// ---- where things lie ----------------------------------------------------------------------------

// The demo takes the next port that is free.
static void port_choose(struct up *up)
{
	static char listen[32];

	for (int port = 7070; port < 7100; port++) {
		snprintf(listen, sizeof(listen), "127.0.0.1:%d", port);
		up->listen = listen;
		if (!port_open(listen))
			return;
	}
}

static int places(struct up *up, const char *directory)
{
	char real[UP_PATH_SIZE - 64];

	snprintf(up->url, sizeof(up->url), "http://%s", up->listen);
	if (!directory) {
		snprintf(up->lake, sizeof(up->lake), LAKE_DIRECTORY);
		snprintf(up->spool, sizeof(up->spool), SPOOL_DEFAULT_DIRECTORY);
		snprintf(up->token_file, sizeof(up->token_file), TOKEN_FILE);
	} else {
		if (strlen(directory) >= sizeof(real) / 2)
			return -ENAMETOOLONG;
		if (*directory == '/' || !getcwd(real, sizeof(real) / 2))
			real[0] = 0;
		snprintf(up->directory, sizeof(up->directory), "%s%s%s", real, *real ? "/" : "", directory);
		snprintf(up->lake, sizeof(up->lake), "%.400s/lake", up->directory);
		snprintf(up->spool, sizeof(up->spool), "%.400s/spool", up->directory);
		snprintf(up->token_file, sizeof(up->token_file), "%.400s/ingest.token", up->directory);
		snprintf(up->socket, sizeof(up->socket), "%.400s/status.sock", up->directory);
		snprintf(up->processes_socket, sizeof(up->processes_socket), "%.400s/processes.sock", up->directory);
	}
	snprintf(up->store, sizeof(up->store), "sqlite:%.500s", up->lake);
	return 0;
}

int command_up(int argc, char **argv)
{
	struct args args = args_of("up", argc, argv);
	struct up up = {.log_level = "info", .input = -1};
	const char *directory = NULL;

	while (args_next(&args)) {
		if (args_is(&args, "listen"))
			up.listen = args.value;
		if (args_is(&args, "directory"))
			directory = args.value;
		if (args_is(&args, "datalake-config"))
			up.config = args.value;
		up.demo |= args_is(&args, "demo");
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count)
		return args_usage(&args, "takes no operands");
	if (!up.listen && up.demo)
		port_choose(&up);
	else if (!up.listen)
		up.listen = "127.0.0.1:7070";
	if (!server_address_is_loopback(up.listen) || *up.listen == '[')
		return args_usage(&args, "--listen takes a loopback address, such as 127.0.0.1:7070; for other hosts "
					 "run `tracer datalake` with a configuration");
	if (up.demo && !directory)
		return args_usage(&args, "--demo needs --directory, a place that it may fill");
	if (places(&up, directory) < 0)
		return args_usage(&args, "--directory: the path is too long");
	if (up.demo) {
		up.log_level = "warn";
		log_set_level(LOG_LEVEL_WARN);
	}
	return up_serve(&up);
}
