// SPDX-License-Identifier: Apache-2.0
// memory TRUTH: peak resident memory where ru_maxrss lies: a child of a large parent that execs, one that grows
// and shrinks,
// one that never execs, shared and file mappings. Truth: the process's own page walk (smaps_rollup) at its
// largest moment.
#include <fcntl.h>

#include "truth.h"

enum { MIB = 1 << 20, LARGE_MIB = 316 };

// Rss of the caller by walking its page tables: no cached or per-CPU count in between.
static uint64_t walked_rss(void)
{
	char text[2048], *line;
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		die("smaps_rollup");
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		die("smaps_rollup");
	text[length] = 0;
	line = strstr(text, "Rss:");
	return line ? strtoull(line + 4, NULL, 10) * 1024u : 0;
}

static char *touch(size_t size, int flags, int fd)
{
	char *memory = mmap(NULL, size, PROT_READ | (fd < 0 ? PROT_WRITE : 0), flags, fd, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < size; i += 4096)
		if (fd < 0)
			memory[i] = 1;
		else
			(void)*(volatile char *)(memory + i);
	return memory;
}

static int file_of(size_t size)
{
	char path[] = "memory.XXXXXX";
	int fd = mkstemp(path);
	static char block[MIB];

	if (fd < 0)
		die("mkstemp");
	unlink(path);
	for (size_t i = 0; i < size / MIB; i++)
		if (write(fd, block, MIB) != MIB)
			die("write");
	return fd;
}

struct child {
	const char *name;
	unsigned anon_mib;
	unsigned shared_mib;
	unsigned file_mib;
	bool shrinks; // gives everything back before it ends
	bool execs;
};

static uint64_t *peak; // shared with children; an exec'd one is given it as an fd

// Does not return.
static void grow(const struct child *child)
{
	char *anon = NULL, *shared = NULL, *file = NULL;

	if (child->anon_mib)
		anon = touch((size_t)child->anon_mib * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (child->shared_mib)
		shared = touch((size_t)child->shared_mib * MIB, MAP_SHARED | MAP_ANONYMOUS, -1);
	if (child->file_mib)
		file = touch((size_t)child->file_mib * MIB, MAP_SHARED, file_of((size_t)child->file_mib * MIB));
	// What runs after the last walk has run before it, so that its pages are in already.
	sleep_ns(1);
	syscall(SYS_gettid);
	walked_rss();
	*peak = walked_rss();
	if (!child->shrinks)
		syscall(SYS_exit_group, 0);
	if (anon)
		munmap(anon, (size_t)child->anon_mib * MIB);
	if (shared)
		munmap(shared, (size_t)child->shared_mib * MIB);
	if (file)
		munmap(file, (size_t)child->file_mib * MIB);
	sleep_ns(5000000);
	syscall(SYS_exit_group, 0);
}

static const struct child children[] = {
	{ "peak: tiny after exec", 0, 0, 0, false, true },
	{ "peak: 8 MiB after exec", 8, 0, 0, false, true },
	{ "peak: 40 MiB after exec", 40, 0, 0, false, true },
	{ "peak: 40 MiB given back", 40, 0, 0, true, true },
	{ "peak: 40 MiB shared", 0, 40, 0, false, true },
	{ "peak: 40 MiB of a file", 0, 0, 40, false, true },
	{ "peak: 10 + 20 + 30 MiB", 10, 20, 30, false, true },
	{ "peak: 400 MiB after exec", 400, 0, 0, false, true },
	{ "peak: fork without exec", 0, 0, 0, false, false },
	{ "peak: fork and 40 MiB", 40, 0, 0, false, false },
};

static void run(unsigned number, int peak_fd)
{
	const struct child *child = &children[number];
	uint64_t before_ns = now_ns();
	char extra[192], number_text[16], fd_text[16];
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid && child->execs) {
		snprintf(number_text, sizeof(number_text), "%u", number);
		snprintf(fd_text, sizeof(fd_text), "%d", peak_fd);
		execl("/proc/self/exe", "memory-child", "--child", number_text, fd_text, NULL);
		_exit(98);
	}
	if (!pid) {
		grow(child);
	}
	int status;
	struct rusage usage;

	if (wait4(pid, &status, 0, &usage) != pid)
		die("wait4");
	snprintf(extra, sizeof(extra), ",\"peak_rss_bytes\":%llu,\"inherited\":%s", (unsigned long long)*peak,
		 child->execs ? "true" : "false");
	truth_reaped(child->name, pid, before_ns, status, &usage, extra);
}

int main(int argc, char **argv)
{
	int peak_fd;

	if (argc == 4 && !strcmp(argv[1], "--child")) {
		peak = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[3]), 0);
		if (peak == MAP_FAILED)
			die("mmap");
		grow(&children[atoi(argv[2])]);
	}
	truth_open(argc, argv);
	peak_fd = (int)syscall(SYS_memfd_create, "peak", 0);
	if (peak_fd < 0 || ftruncate(peak_fd, 4096))
		die("memfd");
	peak = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, peak_fd, 0);
	if (peak == MAP_FAILED)
		die("mmap");
	touch((size_t)LARGE_MIB * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < sizeof(children) / sizeof(children[0]); i++)
			run(i, peak_fd);
	return 0;
}
