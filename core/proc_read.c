// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: /proc/PID as text. Invariants: every length is checked before use; a
// field that is missing, malformed or not ours to see is UNKNOWN, NULL or 0 as the header says,
// never a guess. It must not keep state, log, or open environ, mem, maps or fd.
#include "core/proc_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#define NS_PER_S 1000000000u

// A status file ends in the switches, behind CPU masks of up to 2.3 KB.
enum { TEXT_MAX = 8192, PF_KTHREAD_BIT = 0x00200000, CHILDREN_STEP = 4096 };

static uint64_t ticks_per_second(void)
{
	static uint64_t hz;

	if (!hz) {
		long value = sysconf(_SC_CLK_TCK);

		hz = value > 0 ? (uint64_t)value : 100;
	}
	return hz;
}

uint64_t proc_start_boot_ns(uint64_t start_ticks)
{
	return start_ticks * (NS_PER_S / ticks_per_second());
}

bool proc_start_matches(uint64_t start_boot_ns, uint64_t start_ticks)
{
	return start_boot_ns / (NS_PER_S / ticks_per_second()) == start_ticks;
}

// The kernel numbers its first namespaces by hand: PROC_PID_INIT_INO and PROC_USER_INIT_INO of
// include/linux/proc_ns.h.
static bool namespace_is(const char *path, const char *name)
{
	char target[64] = "";

	return readlink(path, target, sizeof(target) - 1) > 0 && !strcmp(target, name);
}

bool proc_in_first_pid_namespace(void)
{
	return namespace_is("/proc/self/ns/pid", "pid:[4026531836]");
}

bool proc_in_first_user_namespace(void)
{
	return namespace_is("/proc/self/ns/user", "user:[4026531837]");
}

int proc_open(uint32_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

// Reads at most size - 1 bytes and adds a NUL; the rest of a longer file is left. Returns the
// length or -errno.
static ssize_t text_read(int directory_fd, const char *name, char *text, size_t size)
{
	CLEANUP(cleanup_close) int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
	size_t length = 0;

	if (fd < 0)
		return -errno;
	while (length < size - 1) {
		ssize_t got = read(fd, text + length, size - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		length += (size_t)got;
	}
	text[length] = '\0';
	return (ssize_t)length;
}

static uint64_t number_after(const char *text, const char *key)
{
	const char *found = strstr(text, key);
	char *end;
	uint64_t value;

	if (!found)
		return UNKNOWN;
	found += strlen(key);
	value = strtoull(found, &end, 10);
	return end == found ? UNKNOWN : value;
}

static uint64_t kib_after(const char *text, const char *key)
{
	uint64_t kib = number_after(text, key);

	return kib == UNKNOWN ? UNKNOWN : kib * 1024;
}

// Numbers of the fields of stat that stand behind the name, see proc_pid_stat(5).
enum {
	STAT_STATE = 3,
	STAT_PPID,
	STAT_PGRP,
	STAT_SESSION,
	STAT_FLAGS = 9,
	STAT_MINFLT,
	STAT_CMINFLT,
	STAT_MAJFLT,
	STAT_UTIME = 14,
	STAT_STIME,
	STAT_THREADS = 20,
	STAT_START = 22,
	STAT_RSS = 24,
	STAT_STACK = 28,
	STAT_ARG_START = 48,
	STAT_ARG_END,
	STAT_EXIT_CODE = 52,
	STAT_END,
};

// text: behind the ") " that ends the name. Fields an older kernel lacks stay 0; returns how many
// there were.
static int stat_fields(const char *text, uint64_t fields[STAT_END])
{
	int field = STAT_STATE + 1;

	memset(fields, 0, STAT_END * sizeof(*fields));
	text++;
	for (; field < STAT_END; field++) {
		char *end;

		// Negative numbers occur only in fields that are not used.
		fields[field] = strtoull(text, &end, 10);
		if (end == text)
			break;
		text = end;
	}
	return field;
}

static int stat_parse(const char *text, struct proc_stat *stat)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t fields[STAT_END], tick_ns = NS_PER_S / ticks_per_second();
	size_t length;

	// The name may hold any byte, ')' and newline too: it ends at the last one.
	if (!open || !close || close < open || close[1] != ' ' || !close[2])
		return -EBADMSG;
	*stat = (struct proc_stat){.state = close[2], .status = -1};
	length = (size_t)(close - open - 1);
	memcpy(stat->comm, open + 1, length < PROC_COMM_SIZE ? length : PROC_COMM_SIZE - 1);
	if (stat_fields(close + 2, fields) <= STAT_RSS)
		return -EBADMSG;
	stat->kernel_thread = fields[STAT_FLAGS] & PF_KTHREAD_BIT;
	stat->children_reaped = fields[STAT_CMINFLT] > 0;
	stat->ppid = (uint32_t)fields[STAT_PPID];
	stat->process_group = (uint32_t)fields[STAT_PGRP];
	stat->session = (uint32_t)fields[STAT_SESSION];
	stat->threads = (uint32_t)fields[STAT_THREADS];
	stat->minor_faults = fields[STAT_MINFLT];
	stat->major_faults = fields[STAT_MAJFLT];
	stat->utime_ns = fields[STAT_UTIME] * tick_ns;
	stat->stime_ns = fields[STAT_STIME] * tick_ns;
	stat->start_ticks = fields[STAT_START];
	stat->rss_bytes = fields[STAT_RSS] * (uint64_t)sysconf(_SC_PAGESIZE);
	stat->program_mark =
		fields[STAT_STACK] > 1 ? fields[STAT_STACK] ^ fields[STAT_ARG_START] << 7 : 0;
	if (fields[STAT_ARG_END] > fields[STAT_ARG_START])
		stat->args_bytes = fields[STAT_ARG_END] - fields[STAT_ARG_START];
	if (stat->state == 'Z' || stat->state == 'X')
		stat->status = (int32_t)fields[STAT_EXIT_CODE];
	return 0;
}

int proc_read_stat(int proc_fd, struct proc_stat *ret_stat)
{
	struct proc_stat stat;
	char text[TEXT_MAX];
	ssize_t length = text_read(proc_fd, "stat", text, sizeof(text));
	int result;

	if (length < 0)
		return (int)length;
	result = stat_parse(text, &stat);
	if (result < 0)
		return result;
	// The kernel shows 0 for the exit code to those who may not look; who may look may also
	// read ns/pid.
	if (stat.status == 0 && readlinkat(proc_fd, "ns/user", text, sizeof(text)) < 0 &&
	    errno == EACCES)
		stat.status = -1;
	*ret_stat = stat;
	return 0;
}

static void identity_namespaces(int proc_fd, uint32_t namespaces[PROC_NAMESPACES])
{
	static const char *const names[PROC_NAMESPACES] = {
		[PROC_NAMESPACE_MNT] = "ns/mnt",       [PROC_NAMESPACE_PID] = "ns/pid",
		[PROC_NAMESPACE_NET] = "ns/net",       [PROC_NAMESPACE_USER] = "ns/user",
		[PROC_NAMESPACE_UTS] = "ns/uts",       [PROC_NAMESPACE_IPC] = "ns/ipc",
		[PROC_NAMESPACE_CGROUP] = "ns/cgroup",
	};

	for (int i = 0; i < PROC_NAMESPACES; i++) {
		char target[64];
		ssize_t length = readlinkat(proc_fd, names[i], target, sizeof(target) - 1);
		uint64_t number;

		if (length < 0 && errno == EACCES)
			return;
		if (length <= 0)
			continue;
		target[length] = '\0';
		number = number_after(target, ":[");
		namespaces[i] = number <= UINT32_MAX ? (uint32_t)number : 0;
	}
}

// The last number on a line: the innermost namespace's pid on the line NSpid.
static uint32_t last_number_after(const char *text, const char *key)
{
	const char *found = strstr(text, key);
	uint32_t value = 0;
	char *end;

	if (!found)
		return 0;
	found += strlen(key);
	while (*found == '\t' || *found == ' ') {
		value = (uint32_t)strtoul(found, &end, 10);
		if (end == found)
			break;
		found = end;
	}
	return value;
}

int proc_read_identity(int proc_fd, uint32_t pid, struct event_identity *ret_identity,
		       struct proc_stat *ret_stat)
{
	struct event_identity identity = {.process.pid = pid};
	struct proc_stat stat;
	char text[TEXT_MAX];
	ssize_t length = text_read(proc_fd, "status", text, sizeof(text));
	int result;

	if (length < 0)
		return (int)length;
	identity_namespaces(proc_fd, identity.namespaces);
	result = proc_read_stat(proc_fd, &stat);
	if (result < 0)
		return result;
	identity.process.start_ns = proc_start_boot_ns(stat.start_ticks);
	identity.parent.pid = stat.ppid;
	identity.session = stat.session;
	identity.process_group = stat.process_group;
	memcpy(identity.comm, stat.comm, sizeof(identity.comm));
	identity.uid = (uint32_t)number_after(text, "\nUid:\t");
	identity.gid = (uint32_t)number_after(text, "\nGid:\t");
	identity.pid_in_namespace = last_number_after(text, "\nNSpid:");
	*ret_identity = identity;
	if (ret_stat)
		*ret_stat = stat;
	return 0;
}

// ---- what it runs --------------------------------------------------------------------------------

// The target of a link in /proc/PID; NULL when it is not to be had. *ret_error: -ENOMEM.
static const char *link_read(int proc_fd, const char *name, struct arena *arena, int *ret_error)
{
	static const char deleted[] = " (deleted)";
	char target[PROC_PATH_MAX];
	ssize_t length = readlinkat(proc_fd, name, target, sizeof(target));
	size_t tail = sizeof(deleted) - 1;
	char *copy;

	if (length <= 0 || (size_t)length == sizeof(target))
		return NULL;
	if ((size_t)length > tail && !memcmp(target + length - tail, deleted, tail))
		length -= (ssize_t)tail;
	copy = arena_strndup(arena, target, (size_t)length);
	if (!copy)
		*ret_error = -ENOMEM;
	return copy;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

// execve() of a script names the process after the script and puts interpreter and script in front
// of the arguments; a shell that is given a script to read is named after itself.
static void image_find_script(const char *comm, struct image_strings *strings)
{
	const char *argument = strings->args, *end = strings->args + strings->args_size;

	if (!strings->args || !comm[0] ||
	    !strncmp(base_name(strings->args), comm, PROC_COMM_SIZE - 1) ||
	    (strings->exe && !strncmp(base_name(strings->exe), comm, PROC_COMM_SIZE - 1)))
		return;
	// One argument of the interpreter may stand between.
	for (int i = 0; i < 2; i++) {
		argument += strlen(argument) + 1;
		if (argument >= end)
			return;
		if (argument[0] == '-' ||
		    strncmp(base_name(argument), comm, PROC_COMM_SIZE - 1) != 0)
			continue;
		strings->script = argument;
		strings->interpreter = strings->args;
		return;
	}
}

static int image_read_args(int proc_fd, uint64_t args_bytes, struct arena *arena,
			   struct image_strings *strings)
{
	char text[PROC_ARGS_MAX + 2]; // one byte more than is kept tells a longer one, and a NUL
	ssize_t length = text_read(proc_fd, "cmdline", text, sizeof(text));
	size_t kept;

	if (length <= 0)
		return 0;
	kept = length > PROC_ARGS_MAX ? PROC_ARGS_MAX : (size_t)length;
	strings->args_total = (uint32_t)length;
	if ((size_t)length > kept && args_bytes > (uint64_t)length)
		strings->args_total = args_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)args_bytes;
	// A process may have written over its arguments: the last byte is then not a NUL.
	if (text[kept - 1] && kept < PROC_ARGS_MAX)
		kept++;
	text[kept - 1] = '\0';
	strings->args = arena_strndup(arena, text, kept);
	strings->args_size = (uint32_t)kept;
	if (strings->args_total < strings->args_size)
		strings->args_total = strings->args_size;
	return strings->args ? 0 : -ENOMEM;
}

int proc_read_image(int proc_fd, struct arena *arena, struct image_strings *ret_strings)
{
	struct image_strings strings = {0};
	struct proc_stat before, after;
	int result, error = 0;

	// An exec between two reads would mix two programs: read again until it holds still.
	for (int attempt = 0; attempt < 3; attempt++) {
		result = proc_read_stat(proc_fd, &before);
		if (result < 0)
			return result;
		strings = (struct image_strings){0};
		strings.exe = link_read(proc_fd, "exe", arena, &error);
		strings.cwd = link_read(proc_fd, "cwd", arena, &error);
		result = image_read_args(proc_fd, before.args_bytes, arena, &strings);
		if (result < 0 || error < 0)
			return -ENOMEM;
		result = proc_read_stat(proc_fd, &after);
		if (result < 0)
			return result;
		if (before.program_mark == after.program_mark)
			break;
	}
	image_find_script(after.comm, &strings);
	*ret_strings = strings;
	return 0;
}

int proc_read_image_of(uint32_t pid, uint64_t start_boot_ns, struct arena *arena,
		       struct image_strings *ret_strings)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open(pid);
	struct proc_stat stat;
	int result;

	if (proc_fd < 0)
		return -ESRCH;
	result = proc_read_stat(proc_fd, &stat);
	if (result < 0)
		return -ESRCH;
	if (!proc_start_matches(start_boot_ns, stat.start_ticks))
		return -ESRCH;
	return proc_read_image(proc_fd, arena, ret_strings);
}

// ---- figures -------------------------------------------------------------------------------------

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
	counters->rchar_bytes = number_after(text, "rchar: ");
	counters->wchar_bytes = number_after(text, "wchar: ");
	counters->read_syscalls = number_after(text, "syscr: ");
	counters->write_syscalls = number_after(text, "syscw: ");
	counters->read_bytes = number_after(text, "\nread_bytes: ");
	counters->write_bytes = number_after(text, "\nwrite_bytes: ");
	counters->cancelled_write_bytes = number_after(text, "cancelled_write_bytes: ");
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

	if (text_read(task_fd, name, text, sizeof(text)) <= 0)
		return UNKNOWN;
	strtoull(text, &end, 10);
	delay_ns = strtoull(end, &end, 10);
	return strtoull(end, NULL, 10) > 0 ? delay_ns : UNKNOWN;
}

static void switches_add(const char *status, struct counters *sum)
{
	const char *text = strstr(status, "\nvoluntary_ctxt_switches:");

	add_known(&sum->voluntary_switches,
		  text ? number_after(text, "\nvoluntary_ctxt_switches:") : UNKNOWN);
	add_known(&sum->involuntary_switches,
		  text ? number_after(text, "\nnonvoluntary_ctxt_switches:") : UNKNOWN);
}

// Adds one thread; one that just ended is left out, as it would be a moment later.
static void thread_add(void *context, uint32_t tid)
{
	struct thread_walk *walk = context;
	struct counters one;
	char name[32], text[TEXT_MAX];
	ssize_t length;

	snprintf(name, sizeof(name), "%u/status", tid);
	if (text_read(walk->task_fd, name, text, sizeof(text)) <= 0)
		return;
	walk->threads++;
	switches_add(text, &walk->sum);
	snprintf(name, sizeof(name), "%u/schedstat", tid);
	add_known(&walk->sum.run_delay_ns, run_delay_read(walk->task_fd, name));
	if (!walk->with_io)
		return;
	snprintf(name, sizeof(name), "%u/io", tid);
	length = text_read(walk->task_fd, name, text, sizeof(text));
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
static int figures_add_threads(int proc_fd, uint32_t pid, const char *status,
			       struct proc_figures *figures)
{
	bool children_reaped = figures->stat.children_reaped;
	char name[40] = "io", text[TEXT_MAX];
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
	length = text_read(proc_fd, name, text, sizeof(text));
	if (length < 0)
		text[0] = '\0'; // not ours to see: unknown
	io_parse(text, &figures->counters);
	return 0;
}

int proc_read_figures(int proc_fd, uint32_t pid, struct proc_figures *ret_figures)
{
	struct proc_figures figures = {0};
	uint64_t cpu_ns = UNKNOWN;
	char status[TEXT_MAX];
	ssize_t length;
	int result;

	result = proc_read_stat(proc_fd, &figures.stat);
	if (result < 0)
		return result;
	length = text_read(proc_fd, "status", status, sizeof(status));
	if (length < 0)
		return (int)length;
	figures_memory(status, &figures);
	result = figures_add_threads(proc_fd, pid, status, &figures);
	if (result < 0)
		return result;
	if (proc_read_cpu(pid, &cpu_ns) < 0)
		return -ESRCH;
	// The clock goes by number: it was this process's if the process is still there afterwards.
	result = proc_read_stat(proc_fd, &figures.stat);
	if (result < 0)
		return result;
	figures.counters.cpu_ns = cpu_ns;
	figures.counters.utime_ns = figures.stat.utime_ns;
	figures.counters.stime_ns = figures.stat.stime_ns;
	figures.counters.minor_faults = figures.stat.minor_faults;
	figures.counters.major_faults = figures.stat.major_faults;
	figures.counters.threads = figures.counters.threads_max = figures.stat.threads;
	*ret_figures = figures;
	return 0;
}

// ---- places --------------------------------------------------------------------------------------

// Whether a comma-separated list holds the name.
static bool list_has(const char *list, size_t length, const char *name)
{
	size_t name_length = strlen(name);

	while (length > 0) {
		const char *comma = memchr(list, ',', length);
		size_t item = comma ? (size_t)(comma - list) : length;

		if (item == name_length && !memcmp(list, name, item))
			return true;
		item += comma ? 1 : 0;
		list += item;
		length -= item;
	}
	return false;
}

int proc_read_cgroup(int proc_fd, const char *controller, char ret_path[PROC_PATH_MAX])
{
	CLEANUP(cleanup_close) int fd = openat(proc_fd, "cgroup", O_RDONLY | O_CLOEXEC);
	CLEANUP(cleanup_fclose) FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
	CLEANUP(cleanup_free) char *line = NULL;
	size_t capacity = 0;
	ssize_t length;

	if (!file)
		return -errno;
	fd = -1; // closed with the file
	// "4:memory:/a/b", and "0::/a/b" for the unified hierarchy
	while ((length = getline(&line, &capacity, file)) > 0) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (line[length - 1] == '\n')
			line[--length] = '\0';
		if (!path)
			continue;
		list++;
		if (controller ? !list_has(list, (size_t)(path - list), controller) : path != list)
			continue;
		length -= path + 1 - line;
		if (length >= PROC_PATH_MAX)
			return -ENAMETOOLONG;
		memcpy(ret_path, path + 1, (size_t)length + 1);
		return 0;
	}
	return -ENOENT;
}

int proc_open_children(int proc_fd, uint32_t tid)
{
	char name[40];
	int fd;

	snprintf(name, sizeof(name), "task/%u/children", tid);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int proc_read_children(int children_fd, void (*visit)(void *context, uint32_t pid), void *context)
{
	char text[CHILDREN_STEP];
	uint32_t pid = 0;
	off_t offset = 0;

	for (;;) {
		ssize_t got = pread(children_fd, text, sizeof(text), offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (uint32_t)(text[i] - '0');
			} else if (pid) {
				visit(context, pid);
				pid = 0;
			}
		}
		offset += got;
	}
}

int proc_each_number(int directory_fd, const char *name,
		     void (*visit)(void *context, uint32_t number), void *context)
{
	int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!directory) {
		int error = -errno;

		if (fd >= 0)
			close(fd);
		return error;
	}
	while ((entry = readdir(directory))) {
		char *end;
		unsigned long number = strtoul(entry->d_name, &end, 10);

		if (end != entry->d_name && !*end && number > 0 && number <= UINT32_MAX)
			visit(context, (uint32_t)number);
	}
	closedir(directory);
	return 0;
}
