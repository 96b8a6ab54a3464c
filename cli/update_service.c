// SPDX-License-Identifier: Apache-2.0
// The service as the updater's guard sees it. Asks systemd, OpenRC or the supervise script by their own commands, each
// of which gets a time to end in, and reads /proc. Starts and stops; judges nothing.
#include "cli/update_service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/base/text.h"

#define S UINT64_C(1000000000)
#define SUPERVISE_PID_FILE "/run/tracer/supervise.pid"

enum { COMMAND_S = 45, TREE_MAX = 1024 };

// ---- commands ----------------------------------------------------------------------------------------------------

static void pause_ms(unsigned ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

static _Noreturn void command_exec(char *const argv[], int output)
{
	static char *const environment[] = {
		(char *)"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C", NULL};
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	// What it starts must not end with us, nor keep our descriptors: they are close-on-exec.
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(output >= 0 ? output : null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	environ = (char **)(uintptr_t)environment;
	execvp(argv[0], argv);
	_exit(127);
}

// The exit code, or -errno; -ETIMEDOUT: it was killed. out may be NULL; what comes first goes in.
static int command_run(const char *const argv[], char *out, size_t size)
{
	uint64_t until_ns = clock_boot_ns() + COMMAND_S * S;
	int ends[2] = {-1, -1}, status;
	pid_t pid;

	if (out && pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		command_exec((char *const *)(uintptr_t)argv, ends[1]);
	if (ends[1] >= 0)
		close(ends[1]);
	while (pid > 0 && waitpid(pid, &status, WNOHANG) == 0) {
		if (clock_boot_ns() > until_ns) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			pid = -ETIMEDOUT;
			break;
		}
		pause_ms(20);
	}
	if (out) {
		ssize_t got = pid > 0 ? read(ends[0], out, size - 1) : 0;

		out[got > 0 ? got : 0] = 0;
		close(ends[0]);
	}
	if (pid < 0)
		return pid == -ETIMEDOUT ? -ETIMEDOUT : -EAGAIN;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

// ---- the managers ------------------------------------------------------------------------------------------------

enum service_manager service_manager_of(const char *library)
{
	char script[PATH_MAX];

	if (access("/run/systemd/system", F_OK) == 0 && access("/etc/systemd/system/tracer.service", F_OK) == 0)
		return SERVICE_SYSTEMD;
	if (access("/run/openrc", F_OK) == 0 && access("/etc/init.d/tracer", X_OK) == 0)
		return SERVICE_OPENRC;
	snprintf(script, sizeof(script), "%s/supervise", library);
	return access(script, X_OK) == 0 ? SERVICE_SUPERVISE : SERVICE_NONE;
}

bool service_is_stopped(const char *library)
{
	static const char *const ask[] = {"systemctl", "show", "-p", "ActiveState", "--value", "tracer.service", NULL};
	char said[64];

	switch (service_manager_of(library)) {
	case SERVICE_SYSTEMD:
		return command_run(ask, said, sizeof(said)) == 0 && strncmp(said, "inactive", 8) == 0;
	case SERVICE_OPENRC:
	case SERVICE_SUPERVISE:
		// A supervisor that was told to stop removes it; one that died has left it.
		return access(SUPERVISE_PID_FILE, F_OK) < 0;
	case SERVICE_NONE:
		break;
	}
	return true;
}

int service_restart(const char *library)
{
	static const char *const forget[] = {"systemctl", "reset-failed", "tracer.service", NULL};
	static const char *const systemd[] = {"systemctl", "restart", "tracer.service", NULL};
	static const char *const openrc[] = {"rc-service", "tracer", "restart", NULL};
	static const char *const zap[] = {"rc-service", "tracer", "zap", NULL};
	static const char *const start[] = {"rc-service", "tracer", "start", NULL};
	char script[PATH_MAX];
	const char *const supervise[] = {script, "restart", NULL};
	int result = -ENOENT;

	snprintf(script, sizeof(script), "%s/supervise", library);
	switch (service_manager_of(library)) {
	case SERVICE_SYSTEMD:
		command_run(forget, NULL, 0);
		result = command_run(systemd, NULL, 0);
		break;
	case SERVICE_OPENRC:
		result = command_run(openrc, NULL, 0);
		if (result != 0) { // its supervise-daemon was killed, say
			command_run(zap, NULL, 0);
			result = command_run(start, NULL, 0);
		}
		break;
	case SERVICE_SUPERVISE:
		result = command_run(supervise, NULL, 0);
		break;
	case SERVICE_NONE:
		break;
	}
	return result > 0 ? -EIO : result;
}

void service_start_standby(const char *library)
{
	static const char *const start[] = {"systemctl", "start", "--no-block", "tracer-guard.service", NULL};

	if (service_manager_of(library) == SERVICE_SYSTEMD)
		command_run(start, NULL, 0);
}

// ---- processes ---------------------------------------------------------------------------------------------------

static bool process_runs(pid_t pid, const char *folder)
{
	size_t length = strlen(folder);
	char path[64], target[PATH_MAX];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	got = readlink(path, target, sizeof(target) - 1);
	if (got < 0)
		return false;
	target[got] = 0;
	return strncmp(target, folder, length) == 0 && target[length] == '/';
}

// LIBRARY/versions/VERSION as the kernel names it, without links on the way.
static bool versions_path(const char *library, const char *version, char out[PATH_MAX])
{
	char real[PATH_MAX];

	return realpath(library, real) &&
	       snprintf(out, PATH_MAX, "%s/versions%s%s", real, *version ? "/" : "", version) < PATH_MAX;
}

bool service_owns(const char *library, pid_t pid)
{
	char folder[PATH_MAX];

	return versions_path(library, "", folder) && process_runs(pid, folder);
}

// The parent, from the fields behind the name, which may hold anything.
static pid_t parent_of(pid_t pid)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	const char *end;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read(path, 4096, &text) < 0 || text.length == 0)
		return -1;
	end = memrchr(text.data, ')', text.length);
	if (!end || text.length - (size_t)(end - text.data) < 6)
		return -1;
	return (pid_t)text_number(end + 4, NULL);
}

struct tree {
	pid_t pids[TREE_MAX];
	size_t count;
};

static bool tree_has(const struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->pids[i] == pid)
			return true;
	return false;
}

// Adds every process that take says, then what came from those, until nothing is new.
static void tree_gather(struct tree *tree, bool (*take)(const void *context, pid_t pid), const void *context)
{
	size_t before;

	do {
		DIR *proc = opendir("/proc");
		struct dirent *entry;

		before = tree->count;
		while (proc && (entry = readdir(proc)) && tree->count < TREE_MAX) {
			pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10); // 0 for what is no process

			if (pid <= 1 || pid == getpid() || tree_has(tree, pid))
				continue;
			if (take(context, pid) || tree_has(tree, parent_of(pid)))
				tree->pids[tree->count++] = pid;
		}
		if (proc)
			closedir(proc);
	} while (tree->count > before && tree->count < TREE_MAX);
}

static bool take_folder(const void *context, pid_t pid)
{
	return process_runs(pid, context);
}

static bool take_pid(const void *context, pid_t pid)
{
	return *(const pid_t *)context == pid;
}

void service_kill_version(const char *library, const char *version)
{
	struct tree tree = {.count = 0};
	char folder[PATH_MAX];

	if (!versions_path(library, version, folder))
		return;
	tree_gather(&tree, take_folder, folder);
	for (size_t i = 0; i < tree.count; i++)
		kill(tree.pids[i], SIGKILL);
}

uint64_t service_memory(pid_t pid)
{
	struct tree tree = {.count = 0};
	uint64_t pages = UINT64_MAX, page = (uint64_t)sysconf(_SC_PAGESIZE);

	tree_gather(&tree, take_pid, &pid);
	for (size_t i = 0; i < tree.count; i++) {
		CLEANUP(buf_free) struct buf text = BUF_INIT;
		const char *resident;
		char path[64];
		uint64_t more;

		snprintf(path, sizeof(path), "/proc/%d/statm", (int)tree.pids[i]);
		if (fs_read(path, 4096, &text) < 0 || text.length == 0)
			continue;
		resident = memchr(text.data, ' ', text.length);
		more = resident ? text_number(resident + 1, NULL) : TEXT_UNKNOWN;
		if (more != TEXT_UNKNOWN)
			pages = pages == UINT64_MAX ? more : pages + more;
	}
	return pages == UINT64_MAX ? UINT64_MAX : pages * page;
}
