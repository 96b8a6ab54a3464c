// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: /proc/PID as text; here who a process is, what it runs, uses and belongs to in the files
// beside this one. Invariants of all: every length is checked before use; a field that is missing, malformed or not
// ours to see is UNKNOWN, NULL or 0 as the header says, never a guess. None may keep state, log, or open environ, mem,
// maps or fd.
#include "core/proc_read_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"

enum { PF_KTHREAD_BIT = 0x00200000 };

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

ssize_t proc_text_read(int directory_fd, const char *name, char *text, size_t size)
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

uint64_t proc_number_after(const char *text, const char *key)
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
	char text[PROC_TEXT_MAX];
	ssize_t length = proc_text_read(proc_fd, "stat", text, sizeof(text));
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

bool proc_stat_is_dead(const struct proc_stat *stat)
{
	return (stat->state == 'Z' || stat->state == 'X') && stat->threads <= 1;
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
		number = proc_number_after(target, ":[");
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
	char text[PROC_TEXT_MAX];
	ssize_t length = proc_text_read(proc_fd, "status", text, sizeof(text));
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
	identity.uid = (uint32_t)proc_number_after(text, "\nUid:\t");
	identity.gid = (uint32_t)proc_number_after(text, "\nGid:\t");
	identity.pid_in_namespace = last_number_after(text, "\nNSpid:");
	*ret_identity = identity;
	if (ret_stat)
		*ret_stat = stat;
	return 0;
}
