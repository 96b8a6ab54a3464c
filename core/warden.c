// SPDX-License-Identifier: Apache-2.0
// The collector's parent. Holds the rights an image needs to start, bounded to those, behind a filter of system calls;
// understands nothing of what it hands on. One image runs; at a hand-over a second one, until the first says that it
// gave everything away or the second is gone. What the image ends with, this ends with.
#include "core/warden.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/resident.h"
#include "core/handover_wire.h"
#include "core/privs.h"

// How an image is told what it is: "image FD PID", "alone FD PID" or "parent FD PID".
#define WARDEN_ROLE "_TRACER_WARDEN"
#define WARDEN_PATH "_TRACER_WARDEN_PATH" // by which name it was called first

static const uint64_t NEXT_MAX_NS = 60 * 1000 * 1000 * 1000ULL; // from its start until it has taken over
static const uint64_t OLD_MAX_NS = 5 * 1000 * 1000 * 1000ULL; // from giving everything away to its end
static const int handled[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR2, SIGCHLD };

struct child {
	pid_t pid; // 0: none
	int fd; // the pair with it; -1: gone
};

struct warden {
	char **argv; // of the whole command
	char path[PATH_MAX]; // as it was called
	char real[PATH_MAX]; // what that led to when an image was last started
	int signal_fd;
	sigset_t before; // the mask that images get
	struct child image, next, old;
	uint64_t next_until_ns, old_until_ns;
	bool again; // asked for while one was under way
	bool restart; // the next image starts when this one has ended
	bool stopping;
	char refused[WARDEN_TEXT_SIZE]; // what the next image said
};

static struct warden the_warden; // of this process

static const char *path_called(char **argv, char out[PATH_MAX])
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	char directory[PATH_MAX];

	if (!path || !*path)
		path = argv[0];
	if (*path == '/' || !getcwd(directory, sizeof(directory)))
		snprintf(out, PATH_MAX, "%s", path);
	else
		snprintf(out, PATH_MAX, "%.2000s/%.2000s", directory, path);
	return out;
}

static int message_send(int fd, enum warden_kind kind, const char *text, int passed_fd)
{
	struct warden_message message = { .version = WARDEN_VERSION, .kind = kind };

	snprintf(message.text, sizeof(message.text), "%s", text ? text : "");
	return handover_wire_send(fd, &message, sizeof(message), &passed_fd, passed_fd >= 0);
}

static int message_receive(int fd, int timeout_ms, struct warden_message *ret_message, int *ret_fd)
{
	size_t count = 1;
	int passed = -1;
	long got = handover_wire_receive(fd, timeout_ms, ret_message, sizeof(*ret_message), &passed, &count);

	if (got < 0)
		return (int)got;
	if (got != (long)sizeof(*ret_message) || ret_message->version != WARDEN_VERSION) {
		if (count)
			close(passed);
		return -EAGAIN;
	}
	ret_message->text[sizeof(ret_message->text) - 1] = '\0';
	*ret_fd = count ? passed : -1;
	return 0;
}

// ---- children ----------------------------------------------------------------------------------------------------

static void role_set(const char *role, int fd, pid_t pid, const char *path)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %d %d", role, fd, (int)pid);
	setenv(WARDEN_ROLE, text, 1);
	setenv(WARDEN_PATH, path, 1);
}

static void role_forget(void)
{
	unsetenv(WARDEN_ROLE);
	unsetenv(WARDEN_PATH);
}

static bool role_read(const char *role, int *ret_fd, pid_t *ret_pid)
{
	const char *text = getenv(WARDEN_ROLE);
	size_t length = strlen(role);
	int fd, pid;

	if (!text || strncmp(text, role, length) != 0 || sscanf(text + length, " %d %d", &fd, &pid) != 2 || fd < 3)
		return false;
	*ret_fd = fd;
	*ret_pid = pid;
	return true;
}

// Its end is this one's end: nothing would start it again, and a second collector would find the spool taken.
static void die_with_parent(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

static int pair_make(int pair[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0 ? -errno : 0;
}

static _Noreturn void next_exec(struct warden *warden, int fd)
{
	pid_t parent = getppid();
	char text[WARDEN_TEXT_SIZE];
	int copy = dup(fd); // without close-on-exec

	die_with_parent(parent);
	role_set(warden->restart ? "alone" : "image", copy, parent, warden->path);
	sigprocmask(SIG_SETMASK, &warden->before, NULL);
	execv(warden->real, warden->argv);
	snprintf(text, sizeof(text), "%.180s cannot be executed: %s", warden->real, strerror(errno));
	message_send(fd, WARDEN_REFUSED, text, -1);
	_exit(127);
}

static int next_fork(struct warden *warden)
{
	int pair[2], result;
	pid_t pid;

	if (!realpath(warden->path, warden->real)) {
		result = -errno;
		snprintf(warden->refused, sizeof(warden->refused), "%.180s: %s", warden->path, strerror(-result));
		return result;
	}
	result = pair_make(pair);
	if (result < 0)
		return result;
	pid = fork();
	if (pid == 0)
		next_exec(warden, pair[1]);
	result = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (result < 0) {
		close(pair[0]);
		return result;
	}
	warden->next = (struct child){ pid, pair[0] };
	warden->next_until_ns = clock_boot_ns() + NEXT_MAX_NS;
	return 0;
}

static void next_failed(struct warden *warden, const char *why)
{
	log_warn("the next image did not take over: %s; the running one goes on", why);
	message_send(warden->image.fd, WARDEN_FAILED, why, -1);
	warden->refused[0] = '\0';
}

static void next_start(struct warden *warden)
{
	int result;

	if (warden->next.pid || warden->old.pid || warden->restart) {
		warden->again = true;
		return;
	}
	warden->again = false;
	warden->refused[0] = '\0';
	result = next_fork(warden);
	if (result < 0)
		next_failed(warden, warden->refused[0] ? warden->refused : strerror(-result));
}

// Both get an end of a socket to each other.
static void introduce(struct warden *warden)
{
	int pair[2], result = pair_make(pair);

	if (result == 0) {
		result = message_send(warden->image.fd, WARDEN_PEER, NULL, pair[0]);
		if (result == 0)
			result = message_send(warden->next.fd, WARDEN_PEER, NULL, pair[1]);
		close(pair[0]);
		close(pair[1]);
	}
	if (result < 0)
		kill(warden->next.pid, SIGKILL);
}

static void child_close(struct child *child)
{
	if (child->fd >= 0)
		close(child->fd);
	*child = (struct child){ .fd = -1 };
}

// ---- what they say -----------------------------------------------------------------------------------------------

static void image_says(struct warden *warden, const struct warden_message *message)
{
	switch (message->kind) {
	case WARDEN_REQUEST:
		next_start(warden);
		break;
	case WARDEN_DONE:
		if (!warden->next.pid)
			break;
		warden->old = warden->image;
		warden->image = warden->next;
		warden->next = (struct child){ .fd = -1 };
		warden->old_until_ns = clock_boot_ns() + OLD_MAX_NS;
		if (warden->stopping)
			kill(warden->image.pid, SIGTERM);
		break;
	case WARDEN_KILL:
		if (warden->next.pid)
			kill(warden->next.pid, SIGKILL);
		else
			next_failed(warden, "it had ended already");
		break;
	case WARDEN_RESTART:
		warden->restart = true;
		if (warden->next.pid)
			kill(warden->next.pid, SIGKILL);
		break;
	default:
		break;
	}
}

static void next_says(struct warden *warden, const struct warden_message *message)
{
	if (message->kind == WARDEN_READY)
		introduce(warden);
	else if (message->kind == WARDEN_REFUSED)
		snprintf(warden->refused, sizeof(warden->refused), "%s", message->text);
}

static void child_listen(struct warden *warden, struct child *child,
			 void (*says)(struct warden *warden, const struct warden_message *message))
{
	struct warden_message message;
	int passed, result = 0;

	// A hand-over in between makes the one the other.
	for (int fd = child->fd; fd >= 0 && child->fd == fd && !result;) {
		result = message_receive(fd, 0, &message, &passed);
		if (result == 0 && passed >= 0)
			close(passed);
		if (result == 0)
			says(warden, &message);
	}
	if (result == -EPIPE) {
		close(child->fd);
		child->fd = -1;
	}
}

// ---- ends --------------------------------------------------------------------------------------------------------

static void end_name(const struct warden *warden, int status, char out[WARDEN_TEXT_SIZE])
{
	if (warden->refused[0])
		snprintf(out, WARDEN_TEXT_SIZE, "%s", warden->refused);
	else if (WIFSIGNALED(status))
		snprintf(out, WARDEN_TEXT_SIZE, "ended by signal %d", WTERMSIG(status));
	else
		snprintf(out, WARDEN_TEXT_SIZE, "ended with code %d", WEXITSTATUS(status));
}

// As the collector ended, so that whoever started it sees no difference.
static int end_like(int status)
{
	sigset_t one;

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, WTERMSIG(status));
	kill(getpid(), WTERMSIG(status));
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	return 128 + WTERMSIG(status); // the first process of a container survives that
}

// This code becomes the new version's too; the process stays the same. Where that fails this one goes on.
static void become_new(struct warden *warden)
{
	int copy = dup(warden->image.fd);

	if (copy < 0)
		return;
	if (warden->again)
		kill(getpid(), SIGUSR2); // it is blocked, so it waits for the new code
	role_set("parent", copy, warden->image.pid, warden->path);
	execv(warden->real, warden->argv);
	role_forget();
	close(copy);
}

// True: the image ended for good, *ret_code is how.
static bool child_ended(struct warden *warden, pid_t pid, int status, int *ret_code)
{
	char why[WARDEN_TEXT_SIZE];

	if (pid == warden->old.pid) {
		child_close(&warden->old);
		become_new(warden);
		return false;
	}
	if (pid == warden->next.pid) {
		child_close(&warden->next);
		end_name(warden, status, why);
		if (!warden->restart)
			next_failed(warden, why);
		return false;
	}
	if (pid != warden->image.pid)
		return false; // a grandchild whose parent went first
	child_close(&warden->image);
	if (warden->next.pid) {
		kill(warden->next.pid, SIGKILL);
		waitpid(warden->next.pid, NULL, 0);
		child_close(&warden->next);
	}
	if (warden->restart && !warden->stopping && WIFEXITED(status) && next_fork(warden) == 0) {
		warden->image = warden->next;
		warden->next = (struct child){ .fd = -1 };
		warden->restart = false;
		return false;
	}
	*ret_code = end_like(status);
	return true;
}

static void signals_take(struct warden *warden)
{
	struct signalfd_siginfo info;

	while (read(warden->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		int number = (int)info.ssi_signo;

		if (number == SIGUSR2)
			next_start(warden);
		else if (number != SIGCHLD && warden->image.pid)
			kill(warden->image.pid, number);
		warden->stopping |= number == SIGTERM || number == SIGINT || number == SIGQUIT;
	}
}

static int wait_ms(const struct warden *warden)
{
	uint64_t now_ns = clock_boot_ns(), until = 0;

	if (warden->next.pid)
		until = warden->next_until_ns;
	if (warden->old.pid)
		until = warden->old_until_ns;
	if (!until)
		return -1;
	return until <= now_ns ? 0 : (int)((until - now_ns) / 1000000) + 1;
}

static void overdue_kill(struct warden *warden)
{
	uint64_t now_ns = clock_boot_ns();

	if (warden->next.pid && now_ns >= warden->next_until_ns) {
		snprintf(warden->refused, sizeof(warden->refused), "it did not take over in time");
		kill(warden->next.pid, SIGKILL);
		warden->next_until_ns = now_ns + NEXT_MAX_NS;
	}
	if (warden->old.pid && now_ns >= warden->old_until_ns) {
		kill(warden->old.pid, SIGKILL);
		warden->old_until_ns = now_ns + OLD_MAX_NS;
	}
}

static int warden_live(struct warden *warden)
{
	int status, code = 1;
	pid_t pid;

	resident_release();
	for (;;) {
		struct pollfd fds[3] = { { .fd = warden->signal_fd, .events = POLLIN },
					 { .fd = warden->image.fd, .events = POLLIN },
					 { .fd = warden->next.fd, .events = POLLIN } };

		poll(fds, 3, wait_ms(warden));
		// What a child said before it ended comes first.
		child_listen(warden, &warden->next, next_says);
		child_listen(warden, &warden->image, image_says);
		signals_take(warden);
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			child_listen(warden, &warden->image, image_says);
			if (child_ended(warden, pid, status, &code))
				return code;
		}
		overdue_kill(warden);
		if (warden->again && !warden->next.pid && !warden->old.pid)
			next_start(warden);
	}
}

static int signals_open(struct warden *warden)
{
	sigset_t mask;

	sigemptyset(&mask);
	for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		sigaddset(&mask, handled[i]);
	sigprocmask(SIG_BLOCK, &mask, &warden->before);
	warden->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return warden->signal_fd < 0 ? -errno : 0;
}

static void warden_init(struct warden *warden)
{
	*warden = (struct warden){ .image.fd = -1, .next.fd = -1, .old.fd = -1, .signal_fd = -1 };
}

// Whoever reads the arguments may change the array.
static bool arguments_keep(struct warden *warden, int argc, char **argv)
{
	static char program[] = "tracer";

	warden->argv = calloc((size_t)argc + 2, sizeof(*warden->argv));
	if (!warden->argv)
		return false;
	warden->argv[0] = program;
	memcpy(warden->argv + 1, argv, (size_t)argc * sizeof(*argv));
	return true;
}

bool warden_resume(int argc, char **argv, int *ret_code)
{
	struct warden *warden = &the_warden;
	int fd;
	pid_t pid;

	warden_init(warden);
	if (!arguments_keep(warden, argc, argv) || !role_read("parent", &fd, &pid))
		return false;
	snprintf(warden->path, sizeof(warden->path), "%s", getenv(WARDEN_PATH) ? getenv(WARDEN_PATH) : "");
	role_forget();
	prctl(PR_SET_NAME, "tracer-parent");
	warden->image.pid = pid;
	warden->image.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	signals_open(warden);
	// They were blocked all along: the mask that stood before is the one without them.
	for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		sigdelset(&warden->before, handled[i]);
	*ret_code = warden_live(warden);
	return true;
}

bool warden_begin(struct warden_link *ret_link, int *ret_code)
{
	struct warden *warden = &the_warden;
	pid_t parent = getpid(), pid;
	int pair[2], fd, error;
	bool next;

	*ret_link = (struct warden_link){ .fd = -1, .main_pid = parent };
	next = role_read("image", &fd, &pid);
	if (next || role_read("alone", &fd, &pid)) {
		*ret_link = (struct warden_link){ fcntl(fd, F_DUPFD_CLOEXEC, 3), pid, next };
		close(fd);
		role_forget();
		die_with_parent(pid);
		return false;
	}
	if (!warden->argv || pair_make(pair) < 0)
		return false;
	path_called(warden->argv, warden->path);
	error = privs_warden();
	if (error < 0)
		log_warn("the parent process keeps rights it does not need: %s", strerror(-error));
	signals_open(warden);
	pid = fork();
	if (pid <= 0) {
		sigprocmask(SIG_SETMASK, &warden->before, NULL);
		close(warden->signal_fd);
		close(pair[0]);
		if (pid < 0)
			close(pair[1]);
		else
			die_with_parent(parent);
		*ret_link = (struct warden_link){ pid < 0 ? -1 : pair[1], parent, false };
		return false;
	}
	close(pair[1]);
	prctl(PR_SET_NAME, "tracer-parent");
	warden->image = (struct child){ pid, pair[0] };
	*ret_code = warden_live(warden);
	return true;
}

// ---- an image's side ---------------------------------------------------------------------------------------------

int warden_send(const struct warden_link *link, enum warden_kind kind, const char *text)
{
	return link->fd < 0 ? -EPIPE : message_send(link->fd, kind, text, -1);
}

int warden_receive(const struct warden_link *link, int timeout_ms, struct warden_message *ret_message, int *ret_fd)
{
	return link->fd < 0 ? -EPIPE : message_receive(link->fd, timeout_ms, ret_message, ret_fd);
}
