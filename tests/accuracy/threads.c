// SPDX-License-Identifier: Apache-2.0
// threads TRUTH: processes whose threads start, end and exec in awkward orders. Truth: wait4, and each case's
// own exit code.
#include <pthread.h>

#include "truth.h"

enum { THREADS = 8 };

// By its real path: /proc/self/exe leads nowhere once the leader has ended.
static char self[4096];

static void *spin(void *argument)
{
	spin_ns((uint64_t)(uintptr_t)argument);
	return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *argument)
{
	errno = pthread_create(thread, NULL, body, argument);
	if (errno)
		die("pthread_create");
}

static pthread_barrier_t all_here;

static void *spin_together(void *argument)
{
	pthread_barrier_wait(&all_here);
	return spin(argument);
}

// All threads live at the same time, and end before main does.
static int joined(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&all_here, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		start(&threads[i], spin_together, (void *)(uintptr_t)((i + 1) * 1000000u));
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 11;
}

// 300 short threads one after the other: the CPU of the dead counts.
static int churn(void)
{
	for (unsigned i = 0; i < 300; i++) {
		pthread_t thread;

		start(&thread, spin, (void *)(uintptr_t)100000u);
		pthread_join(thread, NULL);
	}
	return 12;
}

// Main leaves with threads still running: exit_group ends them.
static int abandoned(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < THREADS; i++)
		start(&thread, spin, (void *)(uintptr_t)10000000000u);
	sleep_ns(30000000);
	return 13;
}

// The leader ends first; the last thread's return makes the exit code 0.
static int leader_first(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < 3; i++)
		start(&thread, spin, (void *)(uintptr_t)20000000u);
	spin_ns(3000000);
	pthread_exit(NULL);
}

static void *exit_group_later(void *argument)
{
	spin_ns(25000000);
	exit((int)(uintptr_t)argument);
}

// The leader ends first; another thread chooses the code.
static int leader_first_code(void)
{
	pthread_t thread;

	start(&thread, exit_group_later, (void *)(uintptr_t)15);
	pthread_exit(NULL);
}

static void *exit_thread_raw(void *argument)
{
	spin_ns(15000000);
	syscall(SYS_exit, (int)(uintptr_t)argument);
	return NULL;
}

// No exit_group at all: which code counts is the kernel's choice, and it has changed.
static int leader_first_raw(void)
{
	pthread_t thread;

	start(&thread, exit_thread_raw, (void *)(uintptr_t)77);
	syscall(SYS_exit, 16);
	return 98;
}

static void *kill_later(void *argument)
{
	spin_ns(10000000);
	kill(getpid(), (int)(uintptr_t)argument);
	for (;;)
		pause();
	return NULL;
}

// The leader is a zombie when the signal comes.
static int leader_first_killed(void)
{
	pthread_t thread;

	start(&thread, kill_later, (void *)(uintptr_t)SIGKILL);
	pthread_exit(NULL);
}

static void *exec_now(void *argument)
{
	char *const arguments[] = { "after-exec", "--exec", (char *)argument, NULL };

	spin_ns(5000000);
	execv(self, arguments);
	_exit(98);
}

// A thread execs while main and others run: the leader's pid goes on with the new image.
static int thread_exec(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < 3; i++)
		start(&thread, spin, (void *)(uintptr_t)10000000000u);
	spin_ns(4000000);
	start(&thread, exec_now, "18");
	sleep_ns(10000000000u);
	return 98;
}

// The leader has ended when a thread execs.
static int leader_first_exec(void)
{
	pthread_t thread;

	start(&thread, exec_now, "19");
	pthread_exit(NULL);
}

static const struct {
	const char *name;
	int (*body)(void);
	unsigned threads_max;
	const char *last_args; // JSON, of the image that ends, NULL: as it was
} cases[] = {
	{ "threads", joined, THREADS + 1, NULL },
	{ "thread churn", churn, 2, NULL },
	{ "threads abandoned", abandoned, THREADS + 1, NULL },
	{ "leader first", leader_first, 4, NULL },
	{ "leader first, code of another", leader_first_code, 2, NULL },
	{ "leader first, raw exit", leader_first_raw, 2, NULL },
	{ "leader first, killed", leader_first_killed, 2, NULL },
	{ "exec from a thread", thread_exec, 5, "[\"after-exec\",\"--exec\",\"18\"]" },
	{ "exec from a thread, leader gone", leader_first_exec, 2, "[\"after-exec\",\"--exec\",\"19\"]" },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--exec")) {
		spin_ns(7000000);
		return atoi(argv[2]);
	}
	truth_open(argc, argv);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		die("readlink");
	for (unsigned round = 0; round < 5; round++)
		for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			uint64_t before_ns = now_ns();
			char extra[128];
			pid_t pid = fork();

			if (pid < 0)
				die("fork");
			if (!pid)
				exit(cases[i].body());
			snprintf(extra, sizeof(extra), ",\"threads_max\":%u%s%s", cases[i].threads_max,
				 cases[i].last_args ? ",\"args\":" : "", cases[i].last_args ? cases[i].last_args : "");
			truth_wait(cases[i].name, pid, before_ns, extra);
		}
	return 0;
}
