// SPDX-License-Identifier: Apache-2.0
// What a workload knows about its own processes, by means that do not involve Tracer: wait4's rusage, its own
// clock, getpid.
// One JSON object a line is appended to the file named by the program's first argument. Header-only: each workload is
// one source file.
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
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

static int truth_fd = -1;

__attribute__((noreturn, unused)) static void die(const char *what)
{
	fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
	_exit(99);
}

__attribute__((unused)) static void truth_open(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s TRUTH-FILE [ARGUMENT...]\n", argv[0]);
		_exit(99);
	}
	truth_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (truth_fd < 0)
		die(argv[1]);
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Unix time, as in the records.
static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

// Uses CPU in the calling thread until it has used duration_ns more.
__attribute__((unused)) static void spin_ns(uint64_t duration_ns)
{
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + duration_ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 200; i++)
			;
}

__attribute__((unused)) static void sleep_ns(uint64_t duration_ns)
{
	struct timespec left = { (time_t)(duration_ns / 1000000000u), (long)(duration_ns % 1000000000u) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static inline uint64_t timeval_ns(struct timeval value)
{
	return (uint64_t)value.tv_sec * 1000000000u + (uint64_t)value.tv_usec * 1000u;
}

// One line; format makes the members, without braces.
__attribute__((unused, format(printf, 1, 2))) static void truth_write(const char *format, ...)
{
	char line[8192];
	va_list arguments;
	int length;

	line[0] = '{';
	va_start(arguments, format);
	length = vsnprintf(line + 1, sizeof(line) - 3, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(line) - 3)
		die("truth line too long");
	line[length + 1] = '}';
	line[length + 2] = '\n';
	if (write(truth_fd, line, (size_t)length + 3) != length + 3)
		die("write truth");
}

// The line of a child that wait4 has reaped. extra: more members, each preceded by a comma, or "".
__attribute__((unused)) static void truth_reaped(const char *name, pid_t pid, uint64_t before_ns, int status,
						 const struct rusage *usage, const char *extra)
{
	truth_write("\"case\":\"%s\",\"pid\":%d,\"before_ns\":%llu,\"after_ns\":%llu,\"exit_code\":%d,\"signal\":%d,"
		    "\"core\":%s,\"cpu_ns\":%llu,\"maxrss_bytes\":%llu,\"minor_faults\":%ld,\"major_faults\":%ld,"
		    "\"voluntary_switches\":%ld,\"involuntary_switches\":%ld%s",
		    name, pid, (unsigned long long)before_ns, (unsigned long long)now_ns(),
		    WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		    WIFSIGNALED(status) && WCOREDUMP(status) ? "true" : "false",
		    (unsigned long long)(timeval_ns(usage->ru_utime) + timeval_ns(usage->ru_stime)),
		    (unsigned long long)usage->ru_maxrss * 1024u, usage->ru_minflt, usage->ru_majflt, usage->ru_nvcsw,
		    usage->ru_nivcsw, extra);
}

// Waits for pid and writes its line.
__attribute__((unused)) static void truth_wait(const char *name, pid_t pid, uint64_t before_ns, const char *extra)
{
	struct rusage usage;
	int status;

	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			die("wait4");
	truth_reaped(name, pid, before_ns, status, &usage, extra);
}

// Memory that survives fork: where a child leaves what only it can know, without a system call that would count.
__attribute__((unused)) static void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	return memory;
}
