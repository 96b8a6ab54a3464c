// SPDX-License-Identifier: Apache-2.0
// waits TRUTH [MILLISECONDS]: processes that do nothing but wait, each for one thing: a timer, a pipe, a socket, a
// lock, a child, a timer in several threads; and two that want the same CPU. Truth: the clock around the wait, less
// what /proc/thread-self/schedstat says of the time until it ran again, which a busy host makes long.
#include "truth.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/socket.h>

static uint64_t duration_ns = 1500000000u;

// What the case is about, and what else its threads waited for; shared with the process that tells it.
static struct {
	uint64_t named_ns, other_ns;
} *waited;

struct timing {
	uint64_t at_ns, delay_ns;
};

static uint64_t run_delay_ns(void)
{
	char text[96] = "";
	int fd = open("/proc/thread-self/schedstat", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		_exit(97);
	close(fd);
	return strtoull(strchr(text, ' '), NULL, 10);
}

static struct timing timing_begin(void)
{
	return (struct timing){.at_ns = now_ns(), .delay_ns = run_delay_ns()};
}

static void timing_end(struct timing begun, uint64_t *sum_ns)
{
	uint64_t wall_ns = now_ns() - begun.at_ns, delay_ns = run_delay_ns() - begun.delay_ns;

	__atomic_fetch_add(sum_ns, wall_ns - delay_ns, __ATOMIC_RELAXED);
}

static void wait_timer(void)
{
	sleep_ns(duration_ns);
}

// Reads from a pipe or socket whose other end speaks when the time is over.
static void wait_read(int fds[2])
{
	char byte;

	if (!fork()) {
		sleep_ns(duration_ns);
		if (write(fds[1], "x", 1) != 1)
			_exit(97);
		_exit(0);
	}
	if (read(fds[0], &byte, 1) != 1)
		_exit(97);
}

static void wait_pipe(void)
{
	int fds[2];

	if (pipe(fds))
		_exit(97);
	wait_read(fds);
}

static void wait_socket(void)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		_exit(97);
	wait_read(fds);
}

static void wait_lock(void)
{
	uint32_t *word = shared_memory(4096);

	if (!fork()) {
		sleep_ns(duration_ns);
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
		_exit(0);
	}
	syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void wait_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		sleep_ns(duration_ns);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

enum { THREADS = 4 };

static void *wait_thread(void *argument)
{
	struct timing begun = timing_begin();

	(void)argument;
	sleep_ns(duration_ns);
	timing_end(begun, &waited->named_ns);
	return NULL;
}

// Its own wait for the threads is on a lock (a futex); two of them begin after half of the time.
static void wait_threads(void)
{
	struct timing begun = timing_begin();
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		if (i == THREADS / 2) {
			sleep_ns(duration_ns / 2);
			timing_end(begun, &waited->named_ns);
		}
		if (pthread_create(&threads[i], NULL, wait_thread, NULL))
			_exit(97);
	}
	begun = timing_begin();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	timing_end(begun, &waited->other_ns);
}

// A thread that runs beside one that sleeps: what it used is not in what the process waited for.
static void *spin_thread(void *argument)
{
	(void)argument;
	spin_ns(duration_ns / 3);
	return NULL;
}

static void wait_beside(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, spin_thread, NULL))
		_exit(97);
	// Nobody waits for its end, which may come late on a busy host.
	sleep_ns(duration_ns);
}

static void one(const char *name, const char *blocked, void (*body)(void), bool times_itself)
{
	uint64_t before_ns = now_ns();
	siginfo_t info;
	char extra[160];
	pid_t pid;

	waited = shared_memory(4096);
	pid = fork();
	if (!pid) {
		struct timing begun = timing_begin();

		body();
		if (!times_itself)
			timing_end(begun, &waited->named_ns);
		_exit(0);
	}
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	snprintf(extra, sizeof(extra),
		 ",\"with_children\":true,\"blocked\":\"%s\",\"blocked_ns\":%llu,\"blocked_sum_ns\":%llu", blocked,
		 (unsigned long long)waited->named_ns, (unsigned long long)(waited->named_ns + waited->other_ns));
	truth_wait(name, pid, before_ns, extra);
}

// Two spinners on one CPU: each waits for about as long as the other runs; the kernel's own figure is the truth.
static void crowded(void)
{
	uint64_t before_ns = now_ns();
	uint64_t *delays = shared_memory(4096);
	cpu_set_t cpus;
	pid_t pids[2];

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	for (unsigned i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			sched_setaffinity(0, sizeof(cpus), &cpus);
			spin_ns(300000000);
			delays[i] = run_delay_ns();
			_exit(0);
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		siginfo_t info;
		char extra[64];

		waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT);
		snprintf(extra, sizeof(extra), ",\"run_delay_ns\":%llu", (unsigned long long)delays[i]);
		truth_wait("run delay", pids[i], before_ns, extra);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name, *blocked;
		void (*body)(void);
		bool times_itself;
	} cases[] = {
		{"waits for a timer", "timer", wait_timer, false},
		{"waits for a pipe", "pipe", wait_pipe, false},
		{"waits for a socket", "socket", wait_socket, false},
		{"waits for a lock", "lock", wait_lock, false},
		{"waits for a child", "child", wait_child, false},
		{"threads that wait", "timer", wait_threads, true},
		{"waits beside a busy thread", "timer", wait_beside, false},
	};

	truth_open(argc, argv);
	if (argc > 2)
		duration_ns = (uint64_t)atoi(argv[2]) * 1000000u;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!fork()) {
			one(cases[i].name, cases[i].blocked, cases[i].body, cases[i].times_itself);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	crowded();
	return 0;
}
