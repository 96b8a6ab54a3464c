// SPDX-License-Identifier: Apache-2.0
// Reading /proc/PID of real processes, with figures known from elsewhere: wait4(), the bytes that
// were written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/proc_read.h"

#define NS_PER_MS 1000000u

// A child that runs `work` and then waits to be told to end.
struct child {
	pid_t pid;
	int proc_fd;
	int release_fd; // closed: the child ends
};

static int lookup(const char *path, struct stat *ret_info)
{
	return stat(path, ret_info);
}

static void burn(uint64_t cpu_ns)
{
	uint64_t until = clock_process_cpu_ns() + cpu_ns;

	while (clock_process_cpu_ns() < until)
		;
}

static void child_start(struct child *child, int (*work)(void))
{
	int ready[2], release[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(release), 0);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		int code;

		close(release[1]);
		close(ready[0]);
		code = work();
		close(ready[1]);
		while (read(release[0], &byte, 1) < 0)
			;
		_exit(code);
	}
	close(release[0]);
	close(ready[1]);
	child->release_fd = release[1];
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	child->proc_fd = proc_open((uint32_t)child->pid);
	assert_true(child->proc_fd >= 0);
}

static void child_wait_zombie(const struct child *child)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT), 0);
}

static void child_end(struct child *child)
{
	close(child->release_fd);
	child_wait_zombie(child);
}

static void child_reap(struct child *child, struct rusage *usage)
{
	int status;

	assert_int_equal(wait4(child->pid, &status, 0, usage), child->pid);
	close(child->proc_fd);
}

static int work_name(void)
{
	prctl(PR_SET_NAME, "a) R 1 (\nb");
	setsid();
	return 3;
}

static void identity_survives_a_hostile_name(void **state)
{
	struct event_identity identity;
	struct proc_stat stat;
	struct child child;
	struct stat namespace;
	uint64_t now = clock_boot_ns();

	child_start(&child, work_name);
	assert_int_equal(proc_read_identity(child.proc_fd, (uint32_t)child.pid, &identity, &stat),
			 0);
	assert_string_equal(identity.comm, "a) R 1 (\nb");
	assert_int_equal(identity.parent.pid, getpid());
	assert_int_equal(identity.session, child.pid);
	assert_int_equal(identity.process_group, child.pid);
	assert_int_equal(identity.uid, getuid());
	assert_int_equal(identity.gid, getgid());
	assert_int_equal(identity.pid_in_namespace, child.pid);
	assert_int_equal(lookup("/proc/self/ns/net", &namespace), 0);
	assert_int_equal(identity.namespaces[PROC_NAMESPACE_NET], namespace.st_ino);
	assert_true(identity.process.start_ns <= now + 2000 * NS_PER_MS);
	assert_true(identity.process.start_ns + 20 * NS_PER_MS > now);
	assert_true(proc_start_matches(identity.process.start_ns, stat.start_ticks));
	assert_true(proc_start_matches(identity.process.start_ns + 9999999, stat.start_ticks));
	assert_false(proc_start_matches(identity.process.start_ns + 10000000, stat.start_ticks));
	assert_int_equal(stat.status, -1);
	child_end(&child);
	assert_int_equal(proc_read_stat(child.proc_fd, &stat), 0);
	assert_int_equal(stat.state, 'Z');
	assert_int_equal(stat.status, 3 << 8);
	child_reap(&child, NULL);
}

static void a_reaped_process_is_gone_for_its_descriptor(void **state)
{
	struct proc_figures figures;
	struct proc_stat stat;
	struct child child;
	uint64_t cpu_ns;
	int proc_fd;

	child_start(&child, work_name);
	proc_fd = dup(child.proc_fd);
	child_end(&child);
	child_reap(&child, NULL);
	assert_true(proc_read_stat(proc_fd, &stat) < 0);
	assert_true(proc_read_figures(proc_fd, (uint32_t)child.pid, &figures) < 0);
	assert_int_equal(proc_read_cpu((uint32_t)child.pid, &cpu_ns), -ESRCH);
	assert_int_equal(proc_open((uint32_t)child.pid), -ENOENT);
	close(proc_fd);
}

enum { WRITTEN = 1234567, WRITTEN_BY_CHILD = 7654321 };

static void write_bytes(size_t count)
{
	static char zeros[65536];
	int fd = open("/dev/null", O_WRONLY);

	while (count > 0) {
		ssize_t wrote = write(fd, zeros, count < sizeof(zeros) ? count : sizeof(zeros));

		if (wrote < 0)
			_exit(99);
		count -= (size_t)wrote;
	}
	close(fd);
}

// Writes, and has a child that writes more and is waited for: the kernel adds the child's bytes to
// ours.
static int work_io(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		write_bytes(WRITTEN_BY_CHILD);
		_exit(0);
	}
	write_bytes(WRITTEN);
	waitpid(pid, NULL, 0);
	burn(30 * NS_PER_MS);
	return 0;
}

static void io_leaves_reaped_children_out(void **state)
{
	struct proc_figures living, dead;
	struct child child;

	child_start(&child, work_io);
	assert_int_equal(proc_read_figures(child.proc_fd, (uint32_t)child.pid, &living), 0);
	assert_true(living.stat.children_reaped);
	assert_int_equal(living.counters.wchar_bytes, WRITTEN);
	assert_false(living.living_threads_only);
	child_end(&child);
	assert_int_equal(proc_read_figures(child.proc_fd, (uint32_t)child.pid, &dead), 0);
	// A zombie's files belong to root: without it they are unknown, not 0.
	assert_int_equal(dead.counters.wchar_bytes, geteuid() == 0 ? WRITTEN : UNKNOWN);
	assert_int_equal(dead.stat.status, 0);
	assert_true(dead.counters.voluntary_switches >= living.counters.voluntary_switches);
	child_reap(&child, NULL);
}

static int work_memory(void)
{
	size_t size = 48 << 20;
	char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED)
		return 99;
	for (size_t i = 0; i < size; i += 4096)
		((volatile char *)block)[i] = 1;
	munmap(block, size);
	burn(50 * NS_PER_MS);
	return 0;
}

static uint64_t usage_cpu_ns(const struct rusage *usage)
{
	return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) * 1000000000 +
	       ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000;
}

static void figures_agree_with_wait4(void **state)
{
	struct proc_figures living, dead;
	struct rusage usage;
	struct child child;
	uint64_t usage_ns;
	int64_t difference;

	child_start(&child, work_memory);
	assert_int_equal(proc_read_figures(child.proc_fd, (uint32_t)child.pid, &living), 0);
	assert_true(living.peak_rss_bytes >= 48u << 20);
	assert_true(living.rss_bytes < living.peak_rss_bytes);
	child_end(&child);
	assert_int_equal(proc_read_figures(child.proc_fd, (uint32_t)child.pid, &dead), 0);
	assert_int_equal(dead.peak_rss_bytes, UNKNOWN); // its memory is gone: unknown, not 0
	child_reap(&child, &usage);
	usage_ns = usage_cpu_ns(&usage);
	difference = (int64_t)(dead.counters.cpu_ns - usage_ns);
	assert_true(difference >= 0 &&
		    difference < 3000); // wait4 rounds each of its two times down to 1 us
	assert_int_equal(dead.counters.minor_faults, usage.ru_minflt);
	assert_int_equal(dead.counters.major_faults, usage.ru_majflt);
	assert_int_equal(dead.counters.voluntary_switches, usage.ru_nvcsw);
	assert_int_equal(dead.counters.involuntary_switches, usage.ru_nivcsw);
	// VmHWM and ru_maxrss are two counters; each may lag by the pages a CPU has not yet handed
	// in.
	assert_true(labs(usage.ru_maxrss - (long)(living.peak_rss_bytes / 1024)) < 1024);
}

static int work_none(void)
{
	return 0;
}

// Figures that say final are the last, also when the process ends while it is read.
static void final_figures_are_final(void **state)
{
	unsigned int finals = 0;

	for (int i = 0; i < 300; i++) {
		struct proc_figures figures = {0};
		struct rusage usage;
		struct child child;
		uint64_t usage_ns;

		child_start(&child, work_none);
		close(child.release_fd);
		while (!proc_stat_is_dead(&figures.stat))
			assert_int_equal(proc_read_figures(child.proc_fd, (uint32_t)child.pid, &figures), 0);
		child_reap(&child, &usage);
		usage_ns = usage_cpu_ns(&usage);
		assert_true(figures.counters.cpu_ns < usage_ns + 3000);
		if (!figures.final)
			continue;
		finals++;
		// One that is preempted between its death and its last switch rests too: a few in a thousand.
		assert_true(figures.counters.cpu_ns + 20000 > usage_ns);
	}
	assert_true(finals > 250);
}

static void *thread_work(void *context)
{
	burn(20 * NS_PER_MS);
	write_bytes(WRITTEN);
	pthread_barrier_wait(context);
	pause();
	return NULL;
}

static void *thread_short(void *context)
{
	write_bytes(WRITTEN);
	return NULL;
}

static int work_threads(void)
{
	static pthread_barrier_t barrier;
	pthread_t thread;

	pthread_create(&thread, NULL, thread_short, NULL);
	pthread_join(thread, NULL);
	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, thread_work, &barrier);
	pthread_barrier_wait(&barrier);
	return 0;
}

static void figures_of_threads_are_summed(void **state)
{
	struct proc_figures figures;
	struct child child;

	child_start(&child, work_threads);
	assert_int_equal(proc_read_figures(child.proc_fd, (uint32_t)child.pid, &figures), 0);
	assert_int_equal(figures.counters.threads, 4);
	assert_true(figures.living_threads_only);
	// No child was reaped: the process's own sum has the thread that ended too.
	assert_false(figures.io_living_threads_only);
	assert_int_equal(figures.counters.wchar_bytes, 4 * WRITTEN);
	assert_true(figures.counters.cpu_ns >= 20 * NS_PER_MS);
	child_end(&child);
	child_reap(&child, NULL);
}

// ---- what it runs --------------------------------------------------------------------------------

static void wait_for_name(int proc_fd, const char *name)
{
	struct proc_stat stat;

	for (int i = 0; i < 2000; i++) {
		assert_int_equal(proc_read_stat(proc_fd, &stat), 0);
		if (!strcmp(stat.comm, name))
			return;
		usleep(1000);
	}
	fail_msg("no process came to be called %s", name);
}

// exec(2) names the program before it has laid out its arguments.
static void wait_for_arguments(int proc_fd)
{
	for (int tries = 0; tries < 5000; tries++) {
		int fd = openat(proc_fd, "cmdline", O_RDONLY | O_CLOEXEC);
		char first;
		ssize_t got;

		assert_true(fd >= 0);
		got = read(fd, &first, 1);
		close(fd);
		if (got == 1)
			return;
		usleep(1000);
	}
	fail_msg("the program has no arguments");
}

// Starts a program and waits until the process has its name and arguments.
static void program_start(struct child *child, const char *const argv[], const char *name)
{
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		if (chdir("/usr") == 0)
			execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	child->proc_fd = proc_open((uint32_t)child->pid);
	assert_true(child->proc_fd >= 0);
	wait_for_name(child->proc_fd, name);
	wait_for_arguments(child->proc_fd);
}

static void program_stop(struct child *child)
{
	kill(child->pid, SIGKILL);
	child_reap(child, NULL);
}

static void image_has_program_place_and_arguments(void **state)
{
	const char *argv[] = {"/bin/sleep", "60", NULL};
	struct image_strings strings;
	struct event_identity identity;
	struct arena arena;
	struct child child;

	arena_init(&arena, 65536);
	program_start(&child, argv, "sleep");
	assert_int_equal(proc_read_image(child.proc_fd, &arena, &strings), 0);
	assert_non_null(strstr(strings.exe, "/bin/sleep"));
	assert_string_equal(strings.cwd, "/usr");
	assert_int_equal(strings.args_size, sizeof("/bin/sleep\0"
						   "60"));
	assert_memory_equal(strings.args,
			    "/bin/sleep\0"
			    "60",
			    strings.args_size);
	assert_int_equal(strings.args_total, strings.args_size);
	assert_null(strings.script);
	assert_int_equal(proc_read_identity(child.proc_fd, (uint32_t)child.pid, &identity, NULL),
			 0);
	assert_int_equal(proc_read_image_of((uint32_t)child.pid, identity.process.start_ns, &arena,
					    &strings),
			 0);
	identity.process.start_ns -= 20000000;
	assert_int_equal(proc_read_image_of((uint32_t)child.pid, identity.process.start_ns, &arena,
					    &strings),
			 -ESRCH);
	program_stop(&child);
	arena_free(&arena);
}

static void long_arguments_are_cut_and_said_so(void **state)
{
	static char huge[100001];
	const char *argv[] = {"/bin/sh", "-c", "while :; do sleep 1; done", huge, NULL};
	struct image_strings strings;
	struct arena arena;
	struct child child;

	memset(huge, 'x', sizeof(huge) - 1);
	arena_init(&arena, 65536);
	program_start(&child, argv, "sh");
	assert_int_equal(proc_read_image(child.proc_fd, &arena, &strings), 0);
	assert_int_equal(strings.args_size, PROC_ARGS_MAX);
	assert_int_equal(strings.args[PROC_ARGS_MAX - 1], '\0');
	assert_int_equal(strings.args_total, 8 + 3 + strlen(argv[2]) + 1 + sizeof(huge));
	program_stop(&child);
	arena_free(&arena);
}

static void script_is_told_from_a_shell_that_reads_one(void **state)
{
	static const char text[] = "#!/bin/sh -u\nwhile :; do read x; done </dev/zero\n";
	char path[] = "/tmp/tracer-test-XXXXXX";
	const char *direct[] = {path, "one", NULL},
		   *read_by_shell[] = {"/bin/sh", path, "one", NULL};
	struct image_strings strings;
	struct arena arena;
	struct child child;
	char name[16];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	fchmod(fd, 0755);
	close(fd);
	snprintf(name, sizeof(name), "%.15s", path + 5);
	arena_init(&arena, 65536);
	program_start(&child, direct, name);
	assert_int_equal(proc_read_image(child.proc_fd, &arena, &strings), 0);
	assert_non_null(strings.script);
	assert_string_equal(strings.script, path);
	assert_string_equal(strings.interpreter, "/bin/sh");
	program_stop(&child);
	program_start(&child, read_by_shell, "sh");
	assert_int_equal(proc_read_image(child.proc_fd, &arena, &strings), 0);
	assert_null(strings.script);
	program_stop(&child);
	unlink(path);
	arena_free(&arena);
}

static void exec_changes_the_program_mark(void **state)
{
	const char *argv[] = {"/bin/sh", "-c", "read x </dev/null; kill -STOP $$; exec sleep 60",
			      NULL};
	struct proc_stat before, again, after;
	struct child child;
	int status;

	program_start(&child, argv, "sh");
	assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
	assert_int_equal(proc_read_stat(child.proc_fd, &before), 0);
	assert_int_equal(proc_read_stat(child.proc_fd, &again), 0);
	assert_int_not_equal(before.program_mark, 0);
	assert_true(before.program_mark == again.program_mark);
	kill(child.pid, SIGCONT);
	wait_for_name(child.proc_fd, "sleep");
	assert_int_equal(proc_read_stat(child.proc_fd, &after), 0);
	assert_true(before.program_mark != after.program_mark);
	assert_true(before.start_ticks == after.start_ticks);
	program_stop(&child);
}

static void visit_count(void *context, uint32_t pid)
{
	uint32_t *counts = context;

	counts[0]++;
	if (pid == counts[1])
		counts[2]++;
}

static void children_and_cgroup_are_found(void **state)
{
	uint32_t counts[3] = {0};
	char path[PROC_PATH_MAX];
	struct child child;
	int own_fd = proc_open((uint32_t)getpid()), children_fd;

	child_start(&child, work_name);
	counts[1] = (uint32_t)child.pid;
	children_fd = proc_open_children(own_fd, (uint32_t)getpid());
	if (children_fd == -ENOENT) {
		print_message("this kernel has no /proc/PID/task/TID/children\n");
	} else {
		assert_int_equal(proc_read_children(children_fd, visit_count, counts), 0);
		assert_int_equal(counts[0], 1);
		assert_int_equal(counts[2], 1);
		close(children_fd);
	}
	counts[0] = counts[2] = 0;
	assert_int_equal(proc_each_number(AT_FDCWD, "/proc", visit_count, counts), 0);
	assert_int_equal(counts[2], 1);
	assert_true(counts[0] > 1);
	assert_int_equal(proc_read_cgroup(child.proc_fd, "no such controller", path), -ENOENT);
	if (proc_read_cgroup(child.proc_fd, NULL, path) == 0)
		assert_int_equal(path[0], '/');
	child_end(&child);
	child_reap(&child, NULL);
	close(own_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity_survives_a_hostile_name),
		cmocka_unit_test(a_reaped_process_is_gone_for_its_descriptor),
		cmocka_unit_test(io_leaves_reaped_children_out),
		cmocka_unit_test(figures_agree_with_wait4),
		cmocka_unit_test(final_figures_are_final),
		cmocka_unit_test(figures_of_threads_are_summed),
		cmocka_unit_test(image_has_program_place_and_arguments),
		cmocka_unit_test(long_arguments_are_cut_and_said_so),
		cmocka_unit_test(script_is_told_from_a_shell_that_reads_one),
		cmocka_unit_test(exec_changes_the_program_mark),
		cmocka_unit_test(children_and_cgroup_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
