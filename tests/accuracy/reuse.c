// SPDX-License-Identifier: Apache-2.0
// reuse TRUTH [COUNT]: COUNT processes one after the other with the same pid, each with its own arguments and
// exit code. The pid
// is had again by setting the cursor of the pid namespace; where that is refused, by going round through all pids.
// Prints how many times a pid was had again. Truth: getpid and wait4.
#include "truth.h"

static bool set_next_pid(pid_t pid)
{
	char text[16];
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	int length = snprintf(text, sizeof(text), "%d", pid - 1);
	bool set = fd >= 0 && write(fd, text, (size_t)length) == length;

	if (fd >= 0)
		close(fd);
	return set;
}

static void go_round(pid_t before)
{
	for (unsigned i = 0; i < 5000000; i++) {
		pid_t pid = vfork();

		if (!pid)
			_exit(0);
		if (pid < 0)
			die("vfork");
		waitpid(pid, NULL, 0);
		if (pid == before - 1)
			return;
	}
}

int main(int argc, char **argv)
{
	unsigned count, again = 0;
	pid_t wanted = 0;

	truth_open(argc, argv);
	count = argc > 2 ? (unsigned)atoi(argv[2]) : 200;
	for (unsigned i = 0; i < count; i++) {
		char number[16], extra[128];
		uint64_t before_ns;
		pid_t pid;

		snprintf(number, sizeof(number), "%u", i);
		snprintf(extra, sizeof(extra), ",\"args\":[\"sh\",\"-c\",\"exit $1\",\"reuse\",\"%u\"]", i % 200);
		snprintf(number, sizeof(number), "%u", i % 200);
		if (wanted && !set_next_pid(wanted) && i < 3)
			go_round(wanted);
		before_ns = now_ns();
		pid = fork();
		if (pid < 0)
			die("fork");
		if (!pid) {
			if (i % 2)
				_exit((int)(i % 200));
			execl("/bin/sh", "sh", "-c", "exit $1", "reuse", number, NULL);
			_exit(98);
		}
		truth_wait("pid reuse", pid, before_ns, i % 2 ? "" : extra);
		if (pid == wanted)
			again++;
		else
			wanted = pid;
	}
	printf("%u\n", again);
	return again >= 2 ? 0 : 1;
}
