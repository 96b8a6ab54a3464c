// SPDX-License-Identifier: Apache-2.0
// traced TRUTH: children of a process that a debugger has attached to. The kernel makes the debugger their parent for
// as long as it looks; whose children they are is another question. Truth: wait4, and who forked them.
#include <sys/ptrace.h>

#include "truth.h"

enum { CHILDREN = 3 };

// Lets everything below pid run until it has ended.
__attribute__((noreturn)) static void debugger(pid_t pid, int ready)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE))
		die("PTRACE_SEIZE");
	if (write(ready, "x", 1) != 1)
		die("write");
	while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (pid > 0 && WIFSTOPPED(status))
			ptrace(PTRACE_CONT, pid, 0, status >> 16 ? 0 : WSTOPSIG(status));
	}
	_exit(0);
}

static void traced(void)
{
	char extra[32];
	pid_t pid;

	snprintf(extra, sizeof(extra), ",\"ppid\":%d", getpid());
	for (unsigned i = 0; i < CHILDREN; i++) {
		uint64_t before_ns = now_ns();

		pid = fork();
		if (!pid)
			_exit(51);
		truth_wait("child of one that is traced", pid, before_ns, extra);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int ready[2];
	char byte;
	pid_t pid, other;

	truth_open(argc, argv);
	if (pipe(ready))
		die("pipe");
	pid = fork();
	if (!pid) {
		if (read(ready[0], &byte, 1) != 1)
			die("read");
		traced();
	}
	other = fork();
	if (!other)
		debugger(pid, ready[1]);
	if (waitpid(pid, NULL, 0) != pid || waitpid(other, NULL, 0) != other)
		die("waitpid");
	return 0;
}
