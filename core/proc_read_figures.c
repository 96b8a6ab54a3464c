// SPDX-License-Identifier: Apache-2.0
// Room reader, /proc/PID: what a process uses: CPU time, memory, faults, I/O, of it and of its threads.
#include "core/proc_read_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"

// The way out of a dead process takes some tens of microseconds, a read of its clock less than one.
#define CPU_READS 200

static uint64_t kib_after(const char *text, const char *key)
{
	uint64_t kib = proc_number_after(text, key);

	return kib == UNKNOWN ? UNKNOWN : kib * 1024;
}

int proc_read_cpu(uint32_t pid, uint64_t *ret_cpu_ns)
{
	// A process CPU clock in the kernel's encoding, CPUCLOCK_SCHED: what clock_getcpuclockid()
	// makes, without its extra system call.
	clockid_t clock = (clockid_t)(~(unsigned int)pid << 3 | 2);
	struct timespec time;

	if (clock_gettime(clock, &time) < 0)
		return -ESRCH;
	*ret_cpu_ns = (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
	return 0;
}

static void io_parse(const char *text, struct counters *counters)
{
	counters->rchar_bytes = proc_number_after(text, "rchar: ");
	counters->wchar_bytes = proc_number_after(text, "wchar: ");
	counters->read_syscalls = proc_number_after(text, "syscr: ");
	counters->write_syscalls = proc_number_after(text, "syscw: ");
	counters->read_bytes = proc_number_after(text, "\nread_bytes: ");
	counters->write_bytes = proc_number_after(text, "\nwrite_bytes: ");
	counters->cancelled_write_bytes = proc_number_after(text, "cancelled_write_bytes: ");
}

static void add_known(__u64 *sum, uint64_t value)
{
	*sum = *sum == UNKNOWN || value == UNKNOWN ? UNKNOWN : *sum + value;
}

struct thread_walk {
	int task_fd;
	bool with_io;
	uint32_t threads; // that could be read
	struct counters sum;
};

// "cpu_ns run_delay_ns times_run"; all 0 in a kernel that does not keep them.
static uint64_t run_delay_read(int task_fd, const char *name)
{
	char text[80], *end;
	uint64_t delay_ns;

	if (proc_text_read(task_fd, name, text, sizeof(text)) <= 0)
		return UNKNOWN;
	strtoull(text, &end, 10);
	delay_ns = strtoull(end, &end, 10);
	return strtoull(end, NULL, 10) > 0 ? delay_ns : UNKNOWN;
}

static void switches_add(const char *status, struct counters *sum)
{
	const char *text = strstr(status, "\nvoluntary_ctxt_switches:");

	add_known(&sum->voluntary_switches, text ? proc_number_after(text, "\nvoluntary_ctxt_switches:") : UNKNOWN);
	add_known(&sum->involuntary_switches,
		  text ? proc_number_after(text, "\nnonvoluntary_ctxt_switches:") : UNKNOWN);
}

// Adds one thread; one that just ended is left out, as it would be a moment later.
static void thread_add(void *context, uint32_t tid)
{
	struct thread_walk *walk = context;
	struct counters one;
	char name[32], text[PROC_TEXT_MAX];
	ssize_t length;

	snprintf(name, sizeof(name), "%u/status", tid);
	if (proc_text_read(walk->task_fd, name, text, sizeof(text)) <= 0)
		return;
	walk->threads++;
	switches_add(text, &walk->sum);
	snprintf(name, sizeof(name), "%u/schedstat", tid);
	add_known(&walk->sum.run_delay_ns, run_delay_read(walk->task_fd, name));
	if (!walk->with_io)
		return;
	snprintf(name, sizeof(name), "%u/io", tid);
	length = proc_text_read(walk->task_fd, name, text, sizeof(text));
	if (length == -ESRCH || length == -ENOENT)
		return;
	if (length < 0)
		text[0] = '\0'; // not ours to see: unknown
	io_parse(text, &one);
	add_known(&walk->sum.rchar_bytes, one.rchar_bytes);
	add_known(&walk->sum.wchar_bytes, one.wchar_bytes);
	add_known(&walk->sum.read_syscalls, one.read_syscalls);
	add_known(&walk->sum.write_syscalls, one.write_syscalls);
	add_known(&walk->sum.read_bytes, one.read_bytes);
	add_known(&walk->sum.write_bytes, one.write_bytes);
	add_known(&walk->sum.cancelled_write_bytes, one.cancelled_write_bytes);
}

static void figures_memory(const char *status, struct proc_figures *figures)
{
	figures->rss_bytes = kib_after(status, "\nVmRSS:");
	figures->peak_rss_bytes = kib_after(status, "\nVmHWM:");
	figures->anon_bytes = kib_after(status, "\nRssAnon:");
	figures->file_bytes = kib_after(status, "\nRssFile:");
	figures->shmem_bytes = kib_after(status, "\nRssShmem:");
	figures->swap_bytes = kib_after(status, "\nVmSwap:");
}

// What the kernel keeps for each thread, of several.
static int figures_of_threads(int proc_fd, struct proc_figures *figures, bool with_io)
{
	CLEANUP(cleanup_close)
	int task_fd = openat(proc_fd, "task", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct thread_walk walk = {.task_fd = task_fd, .with_io = with_io};
	int result;

	if (task_fd < 0)
		return -errno;
	result = proc_each_number(proc_fd, "task", thread_add, &walk);
	if (result < 0 || !walk.threads)
		return result < 0 ? result : -ESRCH;
	figures->living_threads_only = true;
	figures->io_living_threads_only = with_io;
	figures->counters = walk.sum;
	return 0;
}

// stat and status were read before.
static int figures_add_threads(int proc_fd, uint32_t pid, const char *status, struct proc_figures *figures)
{
	bool children_reaped = figures->stat.children_reaped;
	char name[40] = "io", text[PROC_TEXT_MAX];
	ssize_t length;

	if (figures->stat.threads > 1) {
		int result = figures_of_threads(proc_fd, figures, children_reaped);

		if (result < 0 || children_reaped)
			return result;
	} else {
		switches_add(status, &figures->counters);
		figures->counters.run_delay_ns = run_delay_read(proc_fd, "schedstat");
		// The sums of the process have those of its children: its only thread has its own.
		if (children_reaped)
			snprintf(name, sizeof(name), "task/%u/io", pid);
	}
	length = proc_text_read(proc_fd, name, text, sizeof(text));
	if (length < 0)
		text[0] = '\0'; // not ours to see: unknown
	io_parse(text, &figures->counters);
	return 0;
}

// On its way out a dead process still runs for a while: the clock rests when it was read twice alike.
static bool cpu_rests(uint32_t pid, uint64_t *cpu_ns)
{
	uint64_t before_ns;

	for (int i = 0; i < CPU_READS; i++) {
		before_ns = *cpu_ns;
		if (proc_read_cpu(pid, cpu_ns) < 0)
			return false;
		if (*cpu_ns == before_ns)
			return true;
	}
	return false;
}

// Reads everything once. ret_dead: it was dead before the first figure was read.
static int figures_read(int proc_fd, uint32_t pid, struct proc_figures *figures, bool *ret_dead)
{
	uint64_t cpu_ns = UNKNOWN;
	char status[PROC_TEXT_MAX];
	ssize_t length;
	int result;
	bool dead;

	*figures = (struct proc_figures){0};
	result = proc_read_stat(proc_fd, &figures->stat);
	if (result < 0)
		return result;
	dead = proc_stat_is_dead(&figures->stat);
	length = proc_text_read(proc_fd, "status", status, sizeof(status));
	if (length < 0)
		return (int)length;
	figures_memory(status, figures);
	figures->uid = (uint32_t)proc_number_after(status, "\nUid:\t");
	figures->gid = (uint32_t)proc_number_after(status, "\nGid:\t");
	result = figures_add_threads(proc_fd, pid, status, figures);
	if (result < 0)
		return result;
	if (proc_read_cpu(pid, &cpu_ns) < 0)
		return -ESRCH;
	figures->final = dead && cpu_rests(pid, &cpu_ns);
	// The clock goes by number: it was this process's if the process is still there afterwards.
	result = proc_read_stat(proc_fd, &figures->stat);
	if (result < 0)
		return result;
	figures->counters.cpu_ns = cpu_ns;
	*ret_dead = dead;
	return 0;
}

int proc_read_figures(int proc_fd, uint32_t pid, struct proc_figures *ret_figures)
{
	struct proc_figures figures;
	int result;
	bool dead;

	// One that ended while it was read is read again: what was read before is not its last.
	do
		result = figures_read(proc_fd, pid, &figures, &dead);
	while (result == 0 && !dead && proc_stat_is_dead(&figures.stat));
	if (result < 0)
		return result;
	figures.counters.utime_ns = figures.stat.utime_ns;
	figures.counters.stime_ns = figures.stat.stime_ns;
	figures.counters.minor_faults = figures.stat.minor_faults;
	figures.counters.major_faults = figures.stat.major_faults;
	figures.counters.threads = figures.counters.threads_max = figures.stat.threads;
	*ret_figures = figures;
	return 0;
}
