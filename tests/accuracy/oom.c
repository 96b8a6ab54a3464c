// SPDX-License-Identifier: Apache-2.0
// oom TRUTH CGROUP-DIRECTORY: a process that moves into the cgroup (whose limit the caller set) and touches
// memory until the
// kernel kills it, and one in the same cgroup that SIGKILL ends for no such reason. Truth: wait4 and the order
// of events.
#include <limits.h>

#include "truth.h"

static void join(const char *directory)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die(path);
	close(fd);
}

static pid_t start(const char *directory, bool eat)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid)
		return pid;
	join(directory);
	for (size_t total = 0; eat && total < (size_t)4 << 30; total += 1 << 20) {
		char *memory = malloc(1 << 20);

		if (!memory)
			die("malloc");
		memset(memory, 1, 1 << 20);
	}
	if (eat)
		_exit(97);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	uint64_t before_ns;
	pid_t pid;

	truth_open(argc, argv);
	if (argc < 3)
		die("no cgroup directory");
	for (unsigned i = 0; i < 5; i++) {
		before_ns = now_ns();
		pid = start(argv[2], true);
		truth_wait("OOM kill", pid, before_ns, ",\"oom\":true");
		before_ns = now_ns();
		pid = start(argv[2], false);
		sleep_ns(5000000);
		kill(pid, SIGKILL);
		truth_wait("SIGKILL beside an OOM kill", pid, before_ns, ",\"oom\":false");
	}
	return 0;
}
