// SPDX-License-Identifier: Apache-2.0
// places TRUTH: working directories: plain, a root, behind a mount, deep, removed, with a newline. Truth:
// getcwd() just before exec. Run it in a scratch directory, as root for the mount.
#include "truth.h"

#include <limits.h>
#include <sys/mount.h>
#include <sys/stat.h>

static void json_text(const char *text, char *out, size_t size)
{
	size_t length = 0;

	for (; *text && length + 7 < size; text++)
		if (*text == '"' || *text == '\\' || (unsigned char)*text < 0x20)
			length += (size_t)snprintf(out + length, size - length, "\\u%04x", (unsigned)*text);
		else
			out[length++] = *text;
	out[length] = 0;
}

// enter runs in the child; the directory it ends in is the truth, unless expected says otherwise.
static void run(const char *name, void (*enter)(void), bool removed)
{
	char *cwd = shared_memory(PATH_MAX * 2);
	static char text[PATH_MAX], extra[PATH_MAX + 64];
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid) {
		enter();
		if (!removed && !getcwd(cwd, PATH_MAX * 2))
			cwd[0] = 0;
		execl("/bin/true", "true", NULL);
		_exit(98);
	}
	json_text(cwd, text, sizeof(text));
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	json_text(cwd, text, sizeof(text));
	snprintf(extra, sizeof(extra), ",\"cwd\":\"%s\"", text);
	truth_wait(name, pid, before_ns, removed || !cwd[0] ? ",\"cwd_removed\":true" : extra);
	munmap(cwd, PATH_MAX * 2);
}

static void stay(void)
{
}

static void go_root(void)
{
	if (chdir("/"))
		_exit(96);
}

static void go_proc(void)
{
	if (chdir("/proc/sys/kernel"))
		_exit(96);
}

static void go_newline(void)
{
	mkdir("new\nline \"quoted\"", 0700);
	if (chdir("new\nline \"quoted\""))
		_exit(96);
}

// 40 levels of 60 bytes: more than one read of a path, less than PATH_MAX.
static void go_deep(void)
{
	char name[61];

	memset(name, 'd', 60);
	name[60] = 0;
	for (unsigned i = 0; i < 40; i++) {
		mkdir(name, 0700);
		if (chdir(name))
			_exit(96);
	}
}

static void go_removed(void)
{
	mkdir("to-be-removed", 0700);
	if (chdir("to-be-removed") || rmdir("../to-be-removed"))
		_exit(96);
}

static void go_mount(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		_exit(96);
	mkdir("mounted", 0700);
	if (mount("tmpfs", "mounted", "tmpfs", 0, NULL) || mkdir("mounted/inside", 0700) || chdir("mounted/inside"))
		_exit(96);
}

int main(int argc, char **argv)
{
	truth_open(argc, argv);
	run("cwd", stay, false);
	run("cwd /", go_root, false);
	run("cwd in /proc", go_proc, false);
	run("cwd with a newline", go_newline, false);
	run("cwd 40 levels deep", go_deep, false);
	run("cwd removed", go_removed, true);
	if (!getuid())
		run("cwd behind a mount", go_mount, false);
	return 0;
}
