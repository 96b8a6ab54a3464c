// SPDX-License-Identifier: Apache-2.0
// ends TRUTH: every way a process ends: codes, signals, core dump, stopped and killed, daemons, orphans. Daemons become
// children of this program (subreaper), so that wait4 is the truth for them too. Run it in a scratch directory.
#include <sys/prctl.h>

#include "truth.h"

static void end_by_signal(int number, bool core)
{
	struct rlimit limit = { core ? 64 << 20 : 0, core ? 64 << 20 : 0 };

	setrlimit(RLIMIT_CORE, &limit);
	signal(number, SIG_DFL);
	spin_ns(500000);
	kill(getpid(), number);
	for (;;)
		pause();
}

static void code(int number)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid)
		_exit(number);
	truth_wait("exit code", pid, before_ns, "");
}

static void signalled(int number, bool core)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid)
		end_by_signal(number, core);
	truth_wait(core ? "core dump" : number == SIGKILL ? "SIGKILL" : number == SIGSEGV ? "SIGSEGV" : "other signal",
		   pid, before_ns, "");
}

static void segfault(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		struct rlimit none = { 0, 0 };
		volatile char *forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		setrlimit(RLIMIT_CORE, &none);
		*forbidden = 1;
		_exit(97);
	}
	truth_wait("SIGSEGV", pid, before_ns, "");
}

static void stopped(void)
{
	uint64_t before_ns = now_ns();
	pid_t pid = fork();
	int status;

	if (!pid) {
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		die("child did not stop");
	kill(pid, SIGKILL);
	truth_wait("killed while stopped", pid, before_ns, "");
}

// fork, setsid, fork: the middle ends at once, the daemon goes on.
static void daemonised(unsigned number)
{
	pid_t *daemon = shared_memory(sizeof(*daemon));
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (!pid) {
		setsid();
		pid = fork();
		if (!pid) {
			sleep_ns(20000000);
			spin_ns(3000000);
			_exit((int)number);
		}
		*daemon = pid;
		_exit(0);
	}
	truth_wait("daemon's middle", pid, before_ns, "");
	truth_wait("daemon", *daemon, before_ns, "");
}

// A daemon nobody here waits for: it tells its own CPU so far, as a lower bound.
static void orphan(unsigned number)
{
	struct rusage usage;
	uint64_t before_ns = now_ns();
	pid_t pid = fork();
	int status;

	if (pid) {
		waitpid(pid, &status, 0);
		return;
	}
	setsid();
	if (fork())
		_exit(0);
	sleep_ns(10000000);
	spin_ns(2000000);
	getrusage(RUSAGE_SELF, &usage);
	truth_write("\"case\":\"orphan\",\"pid\":%d,\"before_ns\":%llu,\"after_ns\":%llu,\"exit_code\":%u,\"signal\":0,"
		    "\"core\":false,\"cpu_at_least_ns\":%llu",
		    getpid(), (unsigned long long)before_ns, (unsigned long long)now_ns() + 1000000000u, number,
		    (unsigned long long)(timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime)));
	_exit((int)number);
}

int main(int argc, char **argv)
{
	static const int quiet[] = { SIGHUP,  SIGINT,  SIGPIPE, SIGALRM,  SIGTERM,
				     SIGUSR1, SIGUSR2, SIGPROF, SIGVTALRM, SIGIO };

	truth_open(argc, argv);
	for (int i = 0; i < 256; i++)
		code(i);
	for (int i = 0; i < 20; i++) {
		signalled(SIGKILL, false);
		segfault();
	}
	for (unsigned i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++)
		signalled(quiet[i], false);
	for (int i = SIGRTMIN; i <= SIGRTMAX; i += 7)
		signalled(i, false);
	signalled(SIGABRT, false);
	signalled(SIGFPE, false);
	signalled(SIGABRT, true);
	signalled(SIGSEGV, true);
	stopped();
	for (unsigned i = 0; i < 10; i++)
		orphan(60 + i);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (unsigned i = 0; i < 10; i++)
		daemonised(40 + i);
	sleep_ns(100000000);
	return 0;
}
