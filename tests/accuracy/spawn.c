// SPDX-License-Identifier: Apache-2.0
// spawn TRUTH: every way a process begins: fork, vfork, posix_spawn, clone with and without CLONE_PARENT, fork
// without exec,
// failing exec, deep chains, many alive at once, other uids. Truth: wait4 and getpid.
#include <spawn.h>
#include <linux/sched.h>

#include "truth.h"

extern char **environ;

static const char *with_args(char buffer[192], const char *args)
{
	snprintf(buffer, 192, ",\"ppid\":%d,\"args\":%s", getpid(), args);
	return buffer;
}

static void by_vfork(void)
{
	uint64_t before_ns = now_ns();
	char extra[192];
	pid_t pid = vfork();

	if (!pid) {
		execl("/proc/self/exe", "by-vfork", "--exit", "21", NULL);
		_exit(98);
	}
	truth_wait("vfork", pid, before_ns, with_args(extra, "[\"by-vfork\",\"--exit\",\"21\"]"));
}

static void by_posix_spawn(void)
{
	char *const arguments[] = { "by-spawn", "--exit", "22", NULL };
	uint64_t before_ns = now_ns();
	char extra[192];
	pid_t pid;

	errno = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ);
	if (errno)
		die("posix_spawn");
	truth_wait("posix_spawn", pid, before_ns, with_args(extra, "[\"by-spawn\",\"--exit\",\"22\"]"));
}

// vfork and an end without exec.
static void vfork_exit(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = vfork();

	if (!pid)
		_exit(23);
	truth_wait("vfork without exec", pid, before_ns, "");
}

static void fork_only(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		spin_ns(2000000);
		_exit(24);
	}
	truth_wait("fork without exec", pid, before_ns, "");
}

// A failing execve changes nothing.
static void exec_fails(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		execl("/nonexistent/program", "never-ran", NULL);
		execl("/etc/passwd", "never-ran", NULL);
		_exit(127);
	}
	truth_wait("exec that fails", pid, before_ns, ",\"not_args\":\"never-ran\"");
}

// The child of a child that asks for its grandparent as parent.
static void clone_parent(void)
{
	pid_t *sibling = shared_memory(sizeof(*sibling));
	uint64_t before_ns = now_ns();
	char extra[192];
	pid_t pid = fork();

	if (!pid) {
		pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
		if (!pid) {
			spin_ns(1000000);
			_exit(25);
		}
		*sibling = pid;
		_exit(26);
	}
	truth_wait("CLONE_PARENT's caller", pid, before_ns, "");
	snprintf(extra, sizeof(extra), ",\"ppid\":%d", getpid());
	truth_wait("CLONE_PARENT", *sibling, before_ns, extra);
}

// Each generation makes the next and waits for it: wait4's figure includes the generations below, its own does not.
static void chain(unsigned depth)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		spin_ns(300000);
		if (depth > 1)
			chain(depth - 1);
		_exit((int)(depth % 256));
	}
	truth_wait("chain", pid, before_ns, ",\"with_children\":true");
}

// Alive at the same time, ended at once.
static void crowd(unsigned count)
{
	pid_t *pids = calloc(count, sizeof(*pids));
	uint64_t before_ns = now_ns();

	if (!pids)
		die("calloc");
	for (unsigned i = 0; i < count; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork");
		if (!pids[i]) {
			pause();
			_exit(97);
		}
	}
	for (unsigned i = 0; i < count; i++)
		kill(pids[i], SIGTERM);
	for (unsigned i = 0; i < count; i++)
		truth_wait("crowd", pids[i], before_ns, "");
	free(pids);
}

static void as_other_user(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(96);
		execl("/bin/true", "true", NULL);
		_exit(98);
	}
	truth_wait("other user", pid, before_ns, ",\"uid\":65534,\"args\":[\"true\"]");
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--exit"))
		_exit(atoi(argv[2]));
	truth_open(argc, argv);
	for (unsigned i = 0; i < 20; i++) {
		by_vfork();
		by_posix_spawn();
		vfork_exit();
		fork_only();
		exec_fails();
		clone_parent();
	}
	chain(60);
	crowd(1500);
	if (!getuid())
		as_other_user();
	return 0;
}
