// SPDX-License-Identifier: Apache-2.0
// Rights given up in a child: what is gone, what stays, what the filter refuses and what it kills for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/privs.h"

// In the child a broken expectation ends it with the line as its message.
#define CHILD_EXPECT(condition)                                                              \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
			_exit(1);                                                            \
		}                                                                            \
	} while (0)

// Runs body in a child and returns its wait status.
static int test_child(void (*body)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void test_child_fine(void (*body)(void))
{
	int status = test_child(body);

	if (status != 0)
		fail_msg("the child ended with status %#x", (unsigned)status);
}

// A hexadecimal or decimal field of /proc/self/status.
static uint64_t test_status(const char *field)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t value = UINT64_MAX;

	CHILD_EXPECT(file != NULL);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, strlen(field)))
			value = strtoull(line + strlen(field) + 1, NULL, 16);
	}
	fclose(file);
	return value;
}

static const uint64_t bpf_mask = UINT64_C(3) << 38; // CAP_PERFMON is 38, CAP_BPF 39

static void drop_everything(void)
{
	const struct privs_keep keep = {0};
	int fd = dup(0);

	CHILD_EXPECT(privs_drop(&keep) == 0);
	CHILD_EXPECT(test_status("CapPrm") == 0);
	CHILD_EXPECT(test_status("CapEff") == 0);
	CHILD_EXPECT(test_status("CapInh") == 0);
	CHILD_EXPECT(test_status("CapAmb") == 0);
	CHILD_EXPECT(test_status("NoNewPrivs") == 1);
	CHILD_EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHILD_EXPECT(!(fcntl(0, F_GETFD) & FD_CLOEXEC));
	// Not even a program that root owns gives anything back.
	execl("/bin/sh", "sh", "-c", "grep -q 'CapEff:.0000000000000000' /proc/self/status", NULL);
	_exit(1);
}

static void drop_everything_but_bpf(void)
{
	const struct privs_keep keep = {.bpf = true};

	CHILD_EXPECT(privs_drop(&keep) == 0);
	CHILD_EXPECT(test_status("CapEff") == bpf_mask);
	CHILD_EXPECT(test_status("CapPrm") == bpf_mask);
	CHILD_EXPECT(test_status("CapBnd") == bpf_mask);
}

static void drop_bounding_set(void)
{
	const struct privs_keep keep = {0};

	CHILD_EXPECT(privs_drop(&keep) == 0);
	CHILD_EXPECT(test_status("CapBnd") == 0);
}

// As a service manager starts it: uid 65534, two capabilities, and so no CAP_SETPCAP.
static void become_nobody(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}, {.permitted = 3 << 6, .effective = 3 << 6}};

	CHILD_EXPECT(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0);
	CHILD_EXPECT(setresgid(65534, 65534, 65534) == 0);
	CHILD_EXPECT(setresuid(65534, 65534, 65534) == 0);
	CHILD_EXPECT(syscall(SYS_capset, &header, data) == 0);
	CHILD_EXPECT(test_status("CapEff") == bpf_mask);
}

static void drop_as_nobody(void)
{
	const struct privs_keep keep = {0};

	become_nobody();
	CHILD_EXPECT(privs_drop(&keep) == 0);
	CHILD_EXPECT(test_status("CapPrm") == 0);
	CHILD_EXPECT(test_status("NoNewPrivs") == 1);
	CHILD_EXPECT(privs_seccomp(PRIVS_COLLECT) == 0);
}

static void keep_bpf_as_nobody(void)
{
	const struct privs_keep keep = {.bpf = true};

	become_nobody();
	CHILD_EXPECT(privs_drop(&keep) == 0);
	CHILD_EXPECT(test_status("CapEff") == bpf_mask);
}

static void confine(void)
{
	const struct privs_keep keep = {0};

	CHILD_EXPECT(privs_drop(&keep) == 0);
	CHILD_EXPECT(privs_seccomp(PRIVS_COLLECT) == 0);
}

static void *test_thread(void *result)
{
	*(int *)result = getpid() > 0 ? 7 : 0;
	return NULL;
}

static void confined_work_goes_on(void)
{
	char path[] = "/tmp/tracer-test-privs-XXXXXX", text[4];
	pthread_t thread;
	int fd = mkstemp(path), result = 0, number;
	void *memory;

	confine();
	CHILD_EXPECT(test_status("Seccomp:") == 2);
	CHILD_EXPECT(write(fd, "abc", 3) == 3 && fsync(fd) == 0 && pread(fd, text, 3, 0) == 3);
	CHILD_EXPECT(close(fd) == 0 && unlink(path) == 0);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHILD_EXPECT(memory != MAP_FAILED);
	CHILD_EXPECT(pthread_create(&thread, NULL, test_thread, &result) == 0);
	CHILD_EXPECT(pthread_join(thread, NULL) == 0 && result == 7);
	CHILD_EXPECT(privs_refused(&number) == 0 && number == -1);
}

#define CHILD_REFUSED(number, ...)                                                        \
	do {                                                                              \
		uint64_t before = privs_refused(&latest);                                 \
		errno = 0;                                                                \
		CHILD_EXPECT(syscall(number, __VA_ARGS__) == -1 && errno == EPERM);       \
		CHILD_EXPECT(privs_refused(&latest) == before + 1 && latest == (number)); \
	} while (0)

static void confined_calls_are_refused_and_counted(void)
{
	union bpf_attr attributes = {0};
	int latest;

	confine();
	CHILD_REFUSED(SYS_socket, AF_INET, SOCK_STREAM, 0);
	CHILD_REFUSED(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	CHILD_REFUSED(SYS_kill, 1, SIGTERM);
	CHILD_REFUSED(SYS_tgkill, getpid(), getpid(), SIGTERM);
	CHILD_REFUSED(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	CHILD_REFUSED(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	CHILD_REFUSED(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes));
	CHILD_REFUSED(SYS_bpf, BPF_LINK_CREATE, &attributes, sizeof(attributes));
	CHILD_REFUSED(SYS_perf_event_open, NULL, 0, 0, 0, 0);
	CHILD_REFUSED(SYS_ioctl, 0, 0x5412, "x"); // TIOCSTI: typing into the terminal
	CHILD_REFUSED(SYS_symlinkat, "/etc/shadow", AT_FDCWD, "/tmp/x");
	CHILD_REFUSED(SYS_io_uring_setup, 1, NULL);
	CHILD_REFUSED(100000, 0);
#ifdef __x86_64__
	CHILD_REFUSED(0x40000000 | SYS_getpid, 0);
#endif
	// A map command passes the filter: the kernel itself says what is wrong with it.
	CHILD_EXPECT(syscall(SYS_bpf, BPF_MAP_LOOKUP_ELEM, &attributes, sizeof(attributes)) == -1 &&
		     errno != 0);
	CHILD_EXPECT(privs_refused(&latest) >= 13);
}

static void deadly_execve(void)
{
	confine();
	execl("/bin/true", "true", NULL);
}

static void deadly_ptrace(void)
{
	confine();
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void deadly_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	confine();
	connect(fd, (struct sockaddr *)&address, sizeof(address));
}

static void *test_late_thread(void *gate)
{
	char byte;
	// Runs before the filter is there; the filter must reach it too.
	if (read(*(int *)gate, &byte, 1) == 1)
		execl("/bin/true", "true", NULL);
	return NULL;
}

static void deadly_in_an_older_thread(void)
{
	pthread_t thread;
	int gate[2];

	CHILD_EXPECT(pipe(gate) == 0);
	CHILD_EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHILD_EXPECT(pthread_create(&thread, NULL, test_late_thread, &gate[0]) == 0);
	CHILD_EXPECT(privs_seccomp(PRIVS_COLLECT) == 0);
	CHILD_EXPECT(write(gate[1], "x", 1) == 1);
	pthread_join(thread, NULL);
}

static void every_capability_is_dropped(void **state)
{
	(void)state;
	test_child_fine(drop_everything);
	if (geteuid() != 0)
		skip();
	test_child_fine(drop_everything_but_bpf);
	test_child_fine(drop_bounding_set);
}

static void an_unprivileged_user_drops_what_it_has(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	test_child_fine(drop_as_nobody);
	test_child_fine(keep_bpf_as_nobody);
}

static void the_filter_lets_the_collector_work(void **state)
{
	(void)state;
	test_child_fine(confined_work_goes_on);
}

static void the_filter_refuses_and_counts(void **state)
{
	(void)state;
	test_child_fine(confined_calls_are_refused_and_counted);
}

static void the_filter_kills_an_intruder(void **state)
{
	void (*const deadly[])(void) = {deadly_execve, deadly_ptrace, deadly_connect,
					deadly_in_an_older_thread};

	(void)state;
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++) {
		int status = test_child(deadly[i]);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_capability_is_dropped),
		cmocka_unit_test(an_unprivileged_user_drops_what_it_has),
		cmocka_unit_test(the_filter_lets_the_collector_work),
		cmocka_unit_test(the_filter_refuses_and_counts),
		cmocka_unit_test(the_filter_kills_an_intruder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
