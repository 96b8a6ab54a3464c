// SPDX-License-Identifier: Apache-2.0
// The terminal of `tracer top`: plain ANSI sequences, no library. Whoever ends the process, the terminal is given
// back: the deadly signals restore it before they kill.

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/top.h"

static struct termios screen_before;
static volatile sig_atomic_t screen_taken, screen_resized, screen_continued;

static const char screen_enter[] = "\033[?1049h\033[?25l\033[?7l";
static const char screen_leave[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

// Async-signal-safe: write(2) and tcsetattr(3) only.
static void screen_restore(void)
{
	ssize_t ignored;

	if (!screen_taken)
		return;
	screen_taken = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &screen_before);
	ignored = write(STDOUT_FILENO, screen_leave, sizeof(screen_leave) - 1);
	(void)ignored;
}

static void screen_take(void)
{
	struct termios raw = screen_before;
	ssize_t ignored;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	screen_taken = 1;
	ignored = write(STDOUT_FILENO, screen_enter, sizeof(screen_enter) - 1);
	(void)ignored;
}

static void screen_die(int signal_number)
{
	screen_restore();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

// Stopping gives the terminal back too; SIGCONT takes it again.
static void screen_stop(int signal_number)
{
	int error = errno;

	(void)signal_number;
	screen_restore();
	raise(SIGSTOP);
	errno = error;
}

static void screen_note(int signal_number)
{
	if (signal_number == SIGCONT)
		screen_continued = 1;
	screen_resized = 1;
}

int top_screen_open(void)
{
	static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV,
				     SIGBUS, SIGFPE,  SIGILL, SIGABRT, SIGPIPE};
	struct sigaction action = {.sa_handler = screen_die};

	if (tcgetattr(STDIN_FILENO, &screen_before) < 0)
		return -errno;
	sigemptyset(&action.sa_mask);
	// raise() inside the handler must reach the default action at once.
	action.sa_flags = SA_NODEFER;
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		sigaction(deadly[i], &action, NULL);
	// From here on a write to the terminal goes on after the handler; poll() is woken all the same.
	action.sa_flags = SA_NODEFER | SA_RESTART;
	action.sa_handler = screen_stop;
	sigaction(SIGTSTP, &action, NULL);
	action.sa_handler = screen_note;
	action.sa_flags = SA_RESTART;
	sigaction(SIGWINCH, &action, NULL);
	sigaction(SIGCONT, &action, NULL);
	screen_take();
	atexit(screen_restore);
	return 0;
}

void top_screen_close(void)
{
	screen_restore();
}

// The rest of an escape sequence comes at once or not at all.
static int screen_escape(void)
{
	struct pollfd poll_fd = {.fd = STDIN_FILENO, .events = POLLIN};
	char text[8];
	size_t length = 0;

	while (length < sizeof(text) && poll(&poll_fd, 1, 20) > 0 &&
	       read(STDIN_FILENO, text + length, 1) == 1) {
		char c = text[length++];

		if (length > 1 && (c == '~' || (c >= 'A' && c <= 'Z')))
			break;
	}
	if (length < 2 || (text[0] != '[' && text[0] != 'O'))
		return '\033';
	switch (text[1]) {
	case 'A':
		return TOP_KEY_UP;
	case 'B':
		return TOP_KEY_DOWN;
	case 'H':
	case '1':
		return TOP_KEY_HOME;
	case 'F':
	case '4':
		return TOP_KEY_END;
	case '5':
		return TOP_KEY_PAGE_UP;
	case '6':
		return TOP_KEY_PAGE_DOWN;
	default:
		return '\033';
	}
}

int top_screen_key(int timeout_ms)
{
	struct pollfd poll_fd = {.fd = STDIN_FILENO, .events = POLLIN};
	int ready = screen_resized ? 0 : poll(&poll_fd, 1, timeout_ms);
	unsigned char c;

	if (screen_continued) {
		screen_continued = 0;
		screen_take();
	}
	if (screen_resized) {
		screen_resized = 0;
		return TOP_KEY_RESIZE;
	}
	if (ready <= 0)
		return 0;
	if (poll_fd.revents & (POLLHUP | POLLERR) || read(STDIN_FILENO, &c, 1) != 1)
		return TOP_KEY_GONE;
	return c == '\033' ? screen_escape() : c;
}
