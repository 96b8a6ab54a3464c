// SPDX-License-Identifier: Apache-2.0
// known TRACER: records this program again while that (with the argument "ends" or "waits") starts processes of which it
// knows how each ends, what CPU it takes and what it waits for, then looks at their records: there once, with that exit code
// or signal, the CPU time that wait4() gave, and the wait, where the collector looked at it. What differs between
// machines is behind these: layouts of kernel structures, registers, numbers of system calls, the size of a page.
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RECORDS "/tmp/known.ndjson"
#define TRUTH "/tmp/known.truth"

enum {
	CODES = 60,
	ENDS = CODES + 6,
	WAITS = 5,
	TRIES = 12,
	WAIT_MS = 3000,
	TOUCHED_BYTES = 24 << 20,
	LINE_BYTES = 1 << 20
};

// A process ends a few instructions after it may be waited for, and a guest's CPU can stand still in any of them: few are
// further off than the first, none further than the second.
static const int64_t CPU_USUAL_NS = 2 * 1000 * 1000, CPU_WORST_NS = 500 * 1000 * 1000;
enum { CPU_UNUSUAL = ENDS / 10 };

// What is known of a process; -1 stands for null, wait "-" for none.
struct known {
	pid_t pid;
	int code, signal;
	int64_t cpu_ns, peak_bytes;
	char wait[16];
};

static int ends[2], pair[2]; // nobody writes to either
static uint32_t word;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void burn_ms(int64_t milliseconds)
{
	while (cpu_ns() < milliseconds * 1000000)
		;
}

static void end_code(int code)
{
	burn_ms(code % 8 * 3);
	_exit(code);
}

static void end_signal(int number)
{
	burn_ms(5);
	kill(getpid(), number);
	pause();
}

static void *thread_burn(void *until_ms)
{
	burn_ms(*(int64_t *)until_ms);
	return NULL;
}

static void end_threads(int count)
{
	int64_t until_ms = 60;
	pthread_t threads[16];

	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, thread_burn, &until_ms))
			_exit(1);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

static void end_memory(int bytes)
{
	char *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	memset(memory, 1, (size_t)bytes);
	_exit(0);
}

static void wait_timer(int milliseconds)
{
	struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
	_exit(0);
}

static void wait_pipe(int unused)
{
	char byte;

	_exit(read(ends[0], &byte, 1) == 1);
}

static void wait_socket(int unused)
{
	char byte;

	_exit(recv(pair[0], &byte, 1, 0) == 1);
}

static void wait_lock(int unused)
{
	syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
	_exit(1);
}

static void wait_child(int milliseconds)
{
	pid_t pid = fork();

	if (!pid)
		wait_timer(milliseconds);
	waitpid(pid, NULL, 0);
	_exit(0);
}

static pid_t start(void (*body)(int), int argument)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		body(argument);
		_exit(1);
	}
	return pid;
}

// One line: pid, exit code or -1, signal or -1, CPU time, least peak of memory, what it waited for.
static void reap(pid_t pid, int64_t peak_bytes, const char *wait, FILE *truth)
{
	struct rusage usage;
	int64_t cpu;
	int status;

	if (wait4(pid, &status, 0, &usage) != pid)
		die("wait4");
	cpu = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000ll +
	      (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000ll;
	fprintf(truth, "%d %d %d %" PRId64 " %" PRId64 " %s\n", pid, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		WIFSIGNALED(status) ? WTERMSIG(status) : -1, cpu, peak_bytes, wait);
}

static FILE *truth_begin(void)
{
	FILE *truth = fopen(TRUTH, "we");

	if (!truth || pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die(TRUTH);
	return truth;
}

static int child_waits(void)
{
	static const struct {
		void (*body)(int);
		const char *name;
	} waits[WAITS] = {
		{wait_timer, "timer"}, {wait_pipe, "pipe"},   {wait_socket, "socket"},
		{wait_lock, "lock"},   {wait_child, "child"},
	};
	struct timespec left = {WAIT_MS / 1000, 0};
	FILE *truth = truth_begin();
	pid_t pids[WAITS];

	for (int i = 0; i < WAITS; i++)
		pids[i] = start(waits[i].body, WAIT_MS);
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	for (int i = 0; i < WAITS; i++) {
		if (waits[i].body != wait_timer && waits[i].body != wait_child)
			kill(pids[i], SIGTERM);
		reap(pids[i], 0, waits[i].name, truth);
	}
	return fclose(truth);
}

static int child_ends(void)
{
	static const int signals[] = {SIGKILL, SIGTERM, SIGSEGV, SIGABRT};
	FILE *truth = truth_begin();

	for (int code = 0; code < CODES; code++)
		reap(start(end_code, code * 4), 0, "-", truth);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		reap(start(end_signal, signals[i]), 0, "-", truth);
	reap(start(end_threads, 8), 0, "-", truth);
	reap(start(end_memory, TOUCHED_BYTES), TOUCHED_BYTES, "-", truth);
	return fclose(truth);
}

static bool number(const char *line, const char *name, int64_t *ret)
{
	char key[64];
	const char *found;

	snprintf(key, sizeof(key), "\"%s\":", name);
	found = strstr(line, key);
	if (!found)
		return false;
	found += strlen(key);
	if (*found != '-' && (*found < '0' || *found > '9'))
		return false;
	*ret = strtoll(found, NULL, 10);
	return true;
}

// -1 stands for null.
static bool equal(const char *line, pid_t pid, const char *name, int64_t right)
{
	int64_t value = -1;

	(void)number(line, name, &value);
	if (value == right)
		return true;
	printf("pid %d: %s is %" PRId64 ", not %" PRId64 "\n", pid, name, value, right);
	return false;
}

static bool within(const char *line, pid_t pid, const char *name, int64_t least, int64_t most)
{
	int64_t value;

	if (number(line, name, &value) && value >= least && value <= most)
		return true;
	printf("pid %d: %s is not from %" PRId64 " to %" PRId64 ": %s", pid, name, least, most, line);
	return false;
}

// What tells the system call of a sleeping task, the helper bpf_task_pt_regs, came with Linux 5.15.
static const char *wait_told(const char *wait)
{
	struct utsname kernel;
	int major, minor;

	uname(&kernel);
	if (sscanf(kernel.release, "%d.%d", &major, &minor) != 2)
		die("uname");
	return major < 5 || (major == 5 && minor < 15) ? "other" : wait;
}

// Counts the looks too: emulated, one look costs the collector so much that the next may come too late.
static bool waited(const char *line, pid_t pid, const char *wait, int64_t *looks)
{
	const char *blocked = strstr(line, "\"blocked_ns\":{");
	int64_t samples, value;

	if (!number(line, "blocked_samples", &samples) || !samples)
		return true;
	*looks += samples;
	if (blocked && number(blocked, wait_told(wait), &value) && value >= WAIT_MS / 2 * 1000000ll)
		return true;
	printf("pid %d: did not wait for %s: %s", pid, wait, line);
	return false;
}

static void record(const char *tracer, char *self, const char *what)
{
	int pid = fork(), status;
	cpu_set_t first;

	if (!pid) {
		// On one CPU who waits goes on once the other has let go of it.
		CPU_ZERO(&first);
		CPU_SET(0, &first);
		if (sched_setaffinity(0, sizeof(first), &first))
			die("sched_setaffinity");
		execlp(tracer, tracer, "run", "-q", "-o", RECORDS, "--", self, what, NULL);
		die(tracer);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) {
		printf("the recording ended with status %x\n", status);
		exit(1);
	}
}

struct sight {
	int known, unusual;
	int64_t worst_ns, looks;
	bool right;
};

static void look_at(struct sight *sight, const char *line, const struct known *known)
{
	int64_t difference;
	pid_t pid = known->pid;

	sight->right &= equal(line, pid, "exit_code", known->code) & equal(line, pid, "signal", known->signal);
	sight->right &= within(line, pid, "cpu_ns", known->cpu_ns - CPU_WORST_NS, known->cpu_ns + CPU_WORST_NS);
	// Kernels from 6.2 to 6.15 leave some pages of each CPU out; too few to tell are unknown, not 0.
	sight->right &=
		strstr(line, "\"peak_rss_bytes\":null")
			? !known->peak_bytes
			: within(line, pid, "peak_rss_bytes", known->peak_bytes ? known->peak_bytes - (2 << 20) : 4096,
				 known->peak_bytes + (64 << 20));
	sight->right &= known->wait[0] == '-' || waited(line, pid, known->wait, &sight->looks);
	if (!number(line, "cpu_ns", &difference))
		return;
	difference = llabs(difference - known->cpu_ns);
	sight->unusual += difference > CPU_USUAL_NS;
	sight->worst_ns = difference > sight->worst_ns ? difference : sight->worst_ns;
}

// All of the truth against the records of one recording.
static struct sight compare(void)
{
	static char line[LINE_BYTES];
	FILE *truth = fopen(TRUTH, "re"), *records = fopen(RECORDS, "re");
	struct sight sight = {.right = true};
	struct known known;

	if (!truth || !records)
		die(RECORDS);
	while (fscanf(truth, "%d %d %d %" SCNd64 " %" SCNd64 " %15s", &known.pid, &known.code, &known.signal,
		      &known.cpu_ns, &known.peak_bytes, known.wait) == 6) {
		char key[32];
		int found = 0;

		snprintf(key, sizeof(key), "\"pid\":%d,", known.pid);
		rewind(records);
		while (fgets(line, sizeof(line), records)) {
			if (!strstr(line, "\"kind\":\"process\"") || !strstr(line, key))
				continue;
			found++;
			look_at(&sight, line, &known);
		}
		if (found != 1)
			printf("pid %d: %d records\n", known.pid, found);
		sight.right &= found == 1;
		sight.known++;
	}
	rewind(records);
	while (fgets(line, sizeof(line), records)) {
		if (!strstr(line, "\"kind\":\"gap\""))
			continue;
		printf("%s", line);
		sight.right = false;
	}
	fclose(truth);
	fclose(records);
	return sight;
}

int main(int argc, char **argv)
{
	struct sight ends_seen, waits_seen;
	int tries = 0;

	if (argc != 2) {
		printf("usage: %s TRACER\n", argv[0]);
		return 2;
	}
	if (!strcmp(argv[1], "ends"))
		return child_ends();
	if (!strcmp(argv[1], "waits"))
		return child_waits();
	record(argv[1], argv[0], "ends");
	ends_seen = compare();
	do {
		record(argv[1], argv[0], "waits");
		waits_seen = compare();
	} while (waits_seen.right && !waits_seen.looks && ++tries < TRIES);
	printf("%d processes, CPU time within %" PRId64 " us of wait4's, %d of them beyond 2 ms; %" PRId64
	       " looks at %d waits\n",
	       ends_seen.known, ends_seen.worst_ns / 1000, ends_seen.unusual, waits_seen.looks, waits_seen.known);
	return ends_seen.right && ends_seen.known == ENDS && ends_seen.unusual <= CPU_UNUSUAL && waits_seen.right &&
			       waits_seen.known == WAITS && waits_seen.looks
		       ? 0
		       : 1;
}
