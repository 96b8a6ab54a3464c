// SPDX-License-Identifier: Apache-2.0
// Linked to all objects of the product it makes a release that is bad in one way: what a mark in it says, which
// tests/installer/trial.py writes into a copy. Only `collect` is spoilt; every other command is the real one.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/module.h"

extern const struct module module_io;

static volatile char mark[40] = "A RELEASE IS BAD BY: nothing..........";

static const char *kind(void)
{
	static char text[sizeof(mark)];

	for (size_t i = 0; i < sizeof(mark); i++)
		text[i] = mark[i];
	text[strcspn(text, ".")] = 0;
	return text + sizeof("A RELEASE IS BAD BY: ") - 1;
}

static ssize_t command_line(pid_t pid, char *out, size_t size)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < got; i++)
		if (!out[i])
			out[i] = ' ';
	out[got > 0 ? got : 0] = 0;
	return got;
}

static bool is_collector(pid_t pid)
{
	char path[64];
	struct stat other, own;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat(path, &other) == 0 && stat("/proc/self/exe", &own) == 0 && other.st_ino == own.st_ino &&
	       other.st_dev == own.st_dev;
}

static bool is_guard(pid_t pid)
{
	char line[512];

	return command_line(pid, line, sizeof(line)) > 0 &&
	       (strstr(line, "update guard ") || strstr(line, "--apply") || strstr(line, "supervise guard"));
}

static void send(bool (*to)(pid_t pid), int number)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 1 && pid != getpid() && to(pid))
			kill(pid, number);
	}
	if (proc)
		closedir(proc);
}

// Ends with the process that began it.
static bool aside(void)
{
	pid_t before = getpid();

	if (fork() != 0)
		return false;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != before)
		_exit(0);
	return true;
}

static void hold_memory(void)
{
	size_t size = (size_t)700 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t at = 0; memory != MAP_FAILED && at < size; at += 4096)
		memory[at] = 1;
	for (;;)
		pause();
}

static int refuse(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	(void)env;
	snprintf(why, MODULE_WHY_SIZE, "this release is bad");
	return -ENOTSUP;
}

static void break_module(void)
{
	struct module *module = (struct module *)(uintptr_t)&module_io;
	uintptr_t page = (uintptr_t)module & ~(uintptr_t)4095;

	mprotect((void *)page, 8192, PROT_READ | PROT_WRITE);
	module->supported = refuse;
}

// Not the guard, which may be of the same file.
static bool is_collecting(pid_t pid)
{
	char line[256];

	return is_collector(pid) && command_line(pid, line, sizeof(line)) > 0 && strstr(line, "tracer collect");
}

// The rules that are pushed to this host say in a comment what their reader does wrong.
static void suffer_from_rules(pid_t main_pid)
{
	char text[512];

	for (;; usleep(100000)) {
		int fd = open("/var/lib/tracer/rules/current", O_RDONLY | O_CLOEXEC);
		ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

		if (fd >= 0)
			close(fd);
		text[got > 0 ? got : 0] = 0;
		if (strstr(text, "# crash"))
			kill(main_pid, SIGSEGV);
		else if (strstr(text, "# memory"))
			hold_memory();
		else if (strstr(text, "# hang"))
			send(is_collecting, SIGSTOP);
	}
}

static void kill_supervisors(pid_t main_pid, pid_t parent)
{
	char line[512];

	for (int times = 0; times < 3; times++) {
		send(is_guard, SIGKILL);
		if (command_line(parent, line, sizeof(line)) > 0 && strstr(line, "supervise run"))
			kill(parent, SIGKILL);
		send(is_collector, SIGSTOP);
		sleep(4);
	}
	kill(main_pid, SIGSTOP);
	_exit(0);
}

__attribute__((constructor)) static void be_bad(void)
{
	pid_t main_pid = getpid(), parent = getppid();
	char line[256];

	if (command_line(main_pid, line, sizeof(line)) <= 0 || !strstr(line, "tracer collect"))
		return;
	if (strcmp(kind(), "crash") == 0)
		abort();
	if (strcmp(kind(), "spool") == 0)
		setenv("TRACER_SPOOL_DIRECTORY", "/proc/1/spool", 1);
	if (strcmp(kind(), "network") == 0)
		setenv("TRACER_STREAM_URL", "http://127.0.0.1:1", 1);
	if (strcmp(kind(), "module") == 0)
		break_module();
	if (strcmp(kind(), "late") == 0 && aside()) {
		sleep(60);
		kill(main_pid, SIGSEGV);
	} else if (strcmp(kind(), "hang") == 0 && aside()) {
		sleep(8);
		send(is_collector, SIGSTOP);
		_exit(0);
	} else if (strcmp(kind(), "rules") == 0 && aside()) {
		suffer_from_rules(main_pid);
	} else if (strcmp(kind(), "memory") == 0 && aside()) {
		hold_memory();
	} else if (strcmp(kind(), "supervisor") == 0 && aside()) {
		sleep(8);
		kill_supervisors(main_pid, parent);
	}
}
