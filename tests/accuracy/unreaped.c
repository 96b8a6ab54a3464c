// SPDX-License-Identifier: Apache-2.0
// unreaped TRUTH COUNT: a daemonised parent whose children each give back 32 MiB, end, and are reaped a while after this
// program has ended, so after the end of a recording of it. Truth: wait4.
#include "truth.h"

enum { BYTES = 32 << 20, COUNT_MAX = 256 };

static void child(unsigned number)
{
	char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(98);
	for (size_t i = 0; i < BYTES; i += 4096)
		memory[i] = 1;
	_exit((int)number);
}

int main(int argc, char **argv)
{
	unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	uint64_t before_ns[COUNT_MAX];
	pid_t pids[COUNT_MAX];
	int ended[2];
	siginfo_t info;
	char byte;

	truth_open(argc, argv);
	if (count > COUNT_MAX || pipe(ended))
		die("pipe");
	if (fork())
		return read(ended[0], &byte, 1) == 1 ? 0 : 99;
	setsid();
	for (unsigned i = 0; i < count; i++) {
		before_ns[i] = now_ns();
		pids[i] = fork();
		if (!pids[i])
			child(i);
		waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT);
	}
	if (write(ended[1], "", 1) != 1)
		die("write");
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	sleep_ns(3000000000u);
	for (unsigned i = 0; i < count; i++)
		truth_wait("unreaped", pids[i], before_ns[i], "");
	return 0;
}
