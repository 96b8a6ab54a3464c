// SPDX-License-Identifier: Apache-2.0
// storms KIND AMOUNT: one kind of load, as fast as it goes; prints how many nanoseconds it took, and of CPU time.
//   exec N      N static programs with 512 bytes of arguments by vfork, one after the other; execs N: one worker a CPU
//   spawn N     N times fork, exec of the host's own /bin/true (linked dynamically), wait: what a shell script does
//   switch N    N round trips of one byte between two processes on one CPU
//   syscall N   N getppid calls; fault N: N pages touched; pipe N: N MiB through a pipe
//   fork N      N children that end at once, one worker a CPU
//   crowd N     N processes that sleep until standard input ends (prints "ready")
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char long_argument[480], own_name[] = "storms", no_storm[] = "nothing", true_name[] = "true";

__attribute__((noreturn)) static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	uint64_t sum = 0;
	struct rusage usage;

	for (int who = RUSAGE_CHILDREN; who <= RUSAGE_SELF; who++) {
		getrusage(who, &usage);
		sum += (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u;
		sum += (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
	}
	return sum;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void wait_all(void)
{
	int status;

	while (wait(&status) > 0)
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			die("a worker failed");
}

// In functions of their own: vfork's child shares the frame it is called in.
static pid_t start_program(void)
{
	char *const arguments[] = { own_name, no_storm, long_argument, NULL };
	pid_t pid = vfork();

	if (!pid) {
		execv("/proc/self/exe", arguments);
		_exit(1);
	}
	return pid;
}

static pid_t start_true(void)
{
	char *const arguments[] = { true_name, NULL };
	pid_t pid = fork();

	if (!pid) {
		execv("/bin/true", arguments);
		_exit(1);
	}
	return pid;
}

static pid_t start_child(void)
{
	pid_t pid = vfork();

	if (!pid)
		_exit(0);
	return pid;
}

static void work(pid_t (*start)(void), uint64_t amount)
{
	for (uint64_t i = 0; i < amount; i++) {
		pid_t pid = start();
		int status;

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			die("child");
	}
}

static void on_every_cpu(pid_t (*start)(void), uint64_t amount)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (long i = 0; i < cpus; i++)
		if (!fork()) {
			work(start, amount / (uint64_t)cpus + (i < (long)(amount % (uint64_t)cpus)));
			_exit(0);
		}
	wait_all();
}

static void storm_exec(uint64_t amount)
{
	memset(long_argument, 'a', sizeof(long_argument) - 1);
	work(start_program, amount);
}

static void storm_execs(uint64_t amount)
{
	memset(long_argument, 'a', sizeof(long_argument) - 1);
	on_every_cpu(start_program, amount);
}

static void storm_spawn(uint64_t amount)
{
	work(start_true, amount);
}

static void storm_fork(uint64_t amount)
{
	on_every_cpu(start_child, amount);
}

static void storm_switch(uint64_t amount)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		die("pipe");
	pin(0);
	if (!fork()) {
		for (uint64_t i = 0; i < amount; i++)
			if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
				die("echo");
		_exit(0);
	}
	for (uint64_t i = 0; i < amount; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			die("call");
	wait_all();
}

static void storm_syscall(uint64_t amount)
{
	pin(0);
	for (uint64_t i = 0; i < amount; i++)
		syscall(SYS_getppid);
}

static void storm_fault(uint64_t amount)
{
	enum { PAGES = 8192 };

	pin(0);
	for (uint64_t done = 0; done < amount; done += PAGES) {
		char *memory = mmap(NULL, PAGES * 4096ul, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			die("mmap");
		madvise(memory, PAGES * 4096ul, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < PAGES; i++)
			memory[i * 4096] = 1;
		munmap(memory, PAGES * 4096ul);
	}
}

static void storm_pipe(uint64_t amount)
{
	static char block[65536];
	uint64_t left = amount << 20;
	int fds[2];

	if (pipe(fds))
		die("pipe");
	if (!fork()) {
		close(fds[0]);
		for (uint64_t sent = 0; sent < left; sent += sizeof(block))
			if (write(fds[1], block, sizeof(block)) != sizeof(block))
				die("write");
		_exit(0);
	}
	close(fds[1]);
	while (left) {
		ssize_t got = read(fds[0], block, sizeof(block));

		if (got <= 0)
			die("read");
		left -= (uint64_t)got;
	}
	wait_all();
}

static void crowd(uint64_t amount)
{
	pid_t *pids = calloc(amount, sizeof(*pids));
	char byte;

	if (!pids)
		die("calloc");
	for (uint64_t i = 0; i < amount; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			die("fork");
		if (!pids[i]) {
			pause();
			_exit(0);
		}
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	for (uint64_t i = 0; i < amount; i++)
		kill(pids[i], SIGKILL);
	for (uint64_t i = 0; i < amount; i++)
		waitpid(pids[i], NULL, 0);
	free(pids);
}

static const struct {
	const char *name;
	void (*run)(uint64_t amount);
} storms[] = {
	{ "exec", storm_exec },	      { "execs", storm_execs }, { "switch", storm_switch },
	{ "syscall", storm_syscall }, { "fault", storm_fault }, { "pipe", storm_pipe },
	{ "fork", storm_fork },	      { "crowd", crowd },	{ "spawn", storm_spawn },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "nothing"))
		return 0;
	for (size_t i = 0; argc == 3 && i < sizeof(storms) / sizeof(storms[0]); i++)
		if (!strcmp(argv[1], storms[i].name)) {
			uint64_t before = now_ns();

			storms[i].run(strtoull(argv[2], NULL, 10));
			printf("%llu %llu\n", (unsigned long long)(now_ns() - before), (unsigned long long)cpu_ns());
			return 0;
		}
	fprintf(stderr, "usage: storms exec|execs|spawn|switch|syscall|fault|pipe|fork|crowd AMOUNT\n");
	return 2;
}
