// SPDX-License-Identifier: Apache-2.0
// zombie TRUTH SECONDS: a daemonised parent whose children end and are not reaped for SECONDS; this program
// itself ends at once.
// One child is a thread group whose leader left first. Truth: the codes the parent chose, and the children's
// own clocks.
#include <pthread.h>

#include "truth.h"

static void *spin_thread(void *argument)
{
	spin_ns(4000000);
	exit((int)(uintptr_t)argument);
}

static void child(unsigned number, struct timespec *cpu)
{
	pthread_t thread;

	if (number % 2 && !pthread_create(&thread, NULL, spin_thread, (void *)(uintptr_t)(50 + number)))
		pthread_exit(NULL);
	spin_ns(3000000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, cpu);
	_exit(50 + (int)number);
}

int main(int argc, char **argv)
{
	struct timespec *cpu = shared_memory(4096);
	uint64_t before_ns;
	siginfo_t info;

	truth_open(argc, argv);
	if (fork()) {
		sleep_ns(300000000);
		return 0;
	}
	setsid();
	for (unsigned i = 0; i < 4; i++) {
		pid_t pid;

		before_ns = now_ns();
		pid = fork();
		if (!pid)
			child(i, &cpu[i]);
		waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
		truth_write("\"case\":\"zombie\",\"pid\":%d,\"before_ns\":%llu,\"after_ns\":%llu,"
			    "\"exit_code\":%u,\"signal\":0,"
			    "\"core\":false,\"cpu_at_least_ns\":%llu",
			    pid, (unsigned long long)before_ns, (unsigned long long)now_ns(), 50 + i,
			    (unsigned long long)(cpu[i].tv_sec * 1000000000ll + cpu[i].tv_nsec));
	}
	sleep_ns((argc > 2 ? (uint64_t)atoi(argv[2]) : 2) * 1000000000u);
	return 0;
}
