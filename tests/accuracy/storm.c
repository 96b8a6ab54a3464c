// SPDX-License-Identifier: Apache-2.0
// storm TRUTH [COUNT [JOBS]]: COUNT processes that live 0.3 to 50 ms (log-uniform), JOBS at a time. One in
// three execs; lives
// are spent spinning, sleeping or both; ends are exit codes of all values and signals. Truth: wait4.
#include "truth.h"

enum { JOBS_MAX = 64 };

static const int signals[] = { SIGKILL, SIGTERM, SIGABRT, SIGSEGV, SIGUSR1 };

struct job {
	pid_t pid;
	unsigned number;
	uint64_t life_ns;
	uint64_t before_ns;
};

static uint64_t random_state = 88172645463325252u;

static double random_unit(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (double)(random_state >> 11) / 9007199254740992.0;
}

// Log-uniform by a table of equal ratios.
static uint64_t random_life_ns(void)
{
	static const double edges_ms[] = { 0.3, 0.5, 0.9, 1.6, 3.0, 5.4, 9.5, 16.5, 29.0, 50.0 };
	double place = random_unit() * 9;
	int i = (int)place;

	return (uint64_t)((edges_ms[i] + (place - i) * (edges_ms[i + 1] - edges_ms[i])) * 1e6);
}

__attribute__((noreturn)) static void live(unsigned number, uint64_t life_ns)
{
	struct rlimit no_core = { 0, 0 };
	unsigned kind = number % 8;
	uint64_t spin = kind == 0 ? life_ns : kind < 3 ? 0 : life_ns < 2000000 ? life_ns : 2000000;

	setrlimit(RLIMIT_CORE, &no_core);
	if (spin)
		spin_ns(spin);
	if (spin < life_ns)
		sleep_ns(life_ns - spin);
	if (number % 41 == 0)
		kill(getpid(), signals[number / 41 % 5]);
	_exit((int)(number % 256));
}

static pid_t start(unsigned number, uint64_t life_ns)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid > 0)
		return pid;
	if (number % 3 == 0) {
		char number_text[16], life_text[24];
		char *const arguments[] = { "storm-leaf", "--leaf", number_text, life_text, NULL };

		snprintf(number_text, sizeof(number_text), "%u", number);
		snprintf(life_text, sizeof(life_text), "%llu", (unsigned long long)life_ns);
		execv("/proc/self/exe", arguments);
		_exit(98);
	}
	live(number, life_ns);
}

static void reap(struct job *jobs, unsigned jobs_max)
{
	struct rusage usage;
	char extra[96] = "";
	int status;
	pid_t pid = wait4(-1, &status, 0, &usage);

	if (pid < 0)
		die("wait4");
	for (unsigned i = 0; i < jobs_max; i++)
		if (jobs[i].pid == pid) {
			if (jobs[i].number % 3 == 0)
				snprintf(extra, sizeof(extra), ",\"args\":[\"storm-leaf\",\"--leaf\",\"%u\",\"%llu\"]",
					 jobs[i].number, (unsigned long long)jobs[i].life_ns);
			truth_reaped("storm", pid, jobs[i].before_ns, status, &usage, extra);
			jobs[i].pid = 0;
			return;
		}
	die("a child nobody knows");
}

int main(int argc, char **argv)
{
	struct job jobs[JOBS_MAX] = { 0 };
	unsigned count, jobs_max, running = 0;

	if (argc == 4 && !strcmp(argv[1], "--leaf"))
		live((unsigned)atoi(argv[2]), strtoull(argv[3], NULL, 10));
	truth_open(argc, argv);
	count = argc > 2 ? (unsigned)atoi(argv[2]) : 10000;
	jobs_max = argc > 3 ? (unsigned)atoi(argv[3]) : 8;
	if (jobs_max < 1 || jobs_max > JOBS_MAX)
		die("JOBS out of range");
	for (unsigned i = 0; i < count; i++) {
		unsigned slot = 0;

		if (running == jobs_max) {
			reap(jobs, jobs_max);
			running--;
		}
		while (jobs[slot].pid)
			slot++;
		jobs[slot].number = i;
		jobs[slot].life_ns = random_life_ns();
		jobs[slot].before_ns = now_ns();
		jobs[slot].pid = start(i, jobs[slot].life_ns);
		running++;
	}
	for (; running; running--)
		reap(jobs, jobs_max);
	return 0;
}
