// SPDX-License-Identifier: Apache-2.0
// io TRUTH: bytes read and written by processes with threads and reaped children. Truth: each thread's own
// /proc/self/task/TID/io, which never includes children, plus what reading that file itself adds. Run it in a
// scratch directory.
#include <pthread.h>

#include "truth.h"

enum { MIB = 1 << 20, CHILDREN = 3 };

struct figures {
	uint64_t rchar, wchar, syscr, syscw, read_bytes, write_bytes;
};

static char block[MIB];

static void add_own(struct figures *sum)
{
	static const char *const names[] = { "rchar: ",	  "wchar: ",	   "syscr: ",
					     "syscw: ",	  "read_bytes: ", "\nwrite_bytes: " };
	uint64_t *values = (uint64_t *)sum;
	char path[64], text[512];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/io", syscall(SYS_gettid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die(path);
	length = read(fd, text, sizeof(text) - 1);
	if (length <= 0)
		die(path);
	close(fd);
	text[length] = 0;
	for (unsigned i = 0; i < 6; i++) {
		char *found = strstr(text, names[i]);

		if (!found)
			die("io file");
		values[i] += strtoull(found + strlen(names[i]), NULL, 10);
	}
	// This read is counted once it is over.
	sum->rchar += (uint64_t)length;
	sum->syscr += 1;
}

static void write_file(const char *path, unsigned mib, bool sync)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		die(path);
	for (unsigned i = 0; i < mib; i++)
		if (write(fd, block, MIB) != MIB)
			die("write");
	if (sync)
		fsync(fd);
	close(fd);
}

static void read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		die(path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	while (read(fd, block, MIB) > 0)
		;
	close(fd);
}

struct job {
	const char *name;
	unsigned write_mib;
	bool read_back;
	unsigned threads;
	unsigned children;
};

static void child_of(struct figures *figures)
{
	write_file("io.child", 5, false);
	read_file("io.child");
	add_own(figures);
}

struct part {
	const struct job *job;
	struct figures figures;
};

static void *thread_body(void *argument)
{
	struct part *part = argument;
	char path[64];

	snprintf(path, sizeof(path), "io.thread.%ld", syscall(SYS_gettid));
	write_file(path, 2, false);
	unlink(path);
	add_own(&part->figures);
	return NULL;
}

static void write_line(const char *name, pid_t pid, uint64_t before_ns, const struct figures *figures)
{
	struct rusage usage;
	char extra[320];
	int status;

	if (wait4(pid, &status, 0, &usage) != pid)
		die("wait4");
	snprintf(extra, sizeof(extra),
		 ",\"with_children\":true,\"rchar_bytes\":%llu,\"wchar_bytes\":%llu,\"read_syscalls\":%llu,"
		 "\"write_syscalls\":%llu,\"read_bytes\":%llu,\"write_bytes\":%llu",
		 (unsigned long long)figures->rchar, (unsigned long long)figures->wchar,
		 (unsigned long long)figures->syscr, (unsigned long long)figures->syscw,
		 (unsigned long long)figures->read_bytes, (unsigned long long)figures->write_bytes);
	truth_reaped(name, pid, before_ns, status, &usage, extra);
}

// In shared memory: [0] the process itself, [1...] its children.
struct shared {
	struct figures figures[1 + CHILDREN];
	pid_t pids[CHILDREN];
	uint64_t before_ns[CHILDREN];
};

static void work(const struct job *job, struct shared *shared)
{
	pthread_t threads[8];
	struct part parts[8] = { 0 };

	if (job->write_mib)
		write_file("io.own", job->write_mib, true);
	if (job->read_back)
		read_file("io.own");
	for (unsigned i = 0; i < job->threads; i++)
		if (pthread_create(&threads[i], NULL, thread_body, &parts[i]))
			die("pthread_create");
	for (unsigned i = 0; i < job->threads; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < job->children; i++) {
		siginfo_t info;
		pid_t pid;

		shared->before_ns[i] = now_ns();
		pid = fork();
		if (!pid) {
			child_of(&shared->figures[1 + i]);
			_exit(0);
		}
		shared->pids[i] = pid;
		// Reaped here, so that the kernel folds the child's figures into this process's; its line has
		// no rusage.
		waitid(P_PID, (id_t)shared->pids[i], &info, WEXITED);
	}
	for (unsigned i = 0; i < job->threads; i++)
		for (unsigned j = 0; j < 6; j++)
			((uint64_t *)&shared->figures[0])[j] += ((uint64_t *)&parts[i].figures)[j];
	add_own(&shared->figures[0]);
	_exit(0);
}

static void run(const struct job *job)
{
	struct shared *shared = shared_memory(sizeof(*shared));
	uint64_t before_ns = now_ns();
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		work(job, shared);
	write_line(job->name, pid, before_ns, &shared->figures[0]);
	for (unsigned i = 0; i < job->children; i++) {
		const struct figures *figures = &shared->figures[1 + i];

		truth_write("\"case\":\"I/O of a reaped child\",\"pid\":%d,\"before_ns\":%llu,\"after_ns\":%llu,"
			    "\"exit_code\":0,\"signal\":0,\"core\":false,\"rchar_bytes\":%llu,\"wchar_bytes\":%llu,"
			    "\"read_syscalls\":%llu,\"write_syscalls\":%llu",
			    shared->pids[i], (unsigned long long)shared->before_ns[i], (unsigned long long)now_ns(),
			    (unsigned long long)figures->rchar, (unsigned long long)figures->wchar,
			    (unsigned long long)figures->syscr, (unsigned long long)figures->syscw);
	}
	munmap(shared, sizeof(*shared));
}

int main(int argc, char **argv)
{
	static const struct job jobs[] = {
		{ "I/O of one process", 8, true, 0, 0 },
		{ "I/O of threads", 1, false, 4, 0 },
		{ "I/O beside reaped children", 1, true, 0, CHILDREN },
		{ "I/O of a parent that does none", 0, false, 0, CHILDREN },
	};

	truth_open(argc, argv);
	for (unsigned i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		run(&jobs[i]);
	unlink("io.own");
	unlink("io.child");
	return 0;
}
