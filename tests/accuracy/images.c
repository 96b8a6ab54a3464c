// SPDX-License-Identifier: Apache-2.0
// images TRUTH: processes that exec several times; each image uses a known share of CPU and writes a known
// number of bytes.
// Truth: wait4 for the whole, getrusage at the end of each image for its share.
#include "truth.h"

enum { IMAGES_MAX = 6 };

// In a memfd that is passed along: what each image measured when it was about to end.
struct shared {
	uint64_t cpu_ns[IMAGES_MAX]; // of the whole process so far
};

static const struct {
	const char *name;
	unsigned count;
	uint64_t spin_ns[IMAGES_MAX];
} cases[] = {
	{ "two images", 2, { 20000000, 10000000 } },
	{ "five images", 5, { 5000000, 15000000, 1000000, 10000000, 3000000 } },
	{ "six short images", 6, { 200000, 200000, 200000, 200000, 200000, 200000 } },
};

static struct shared *map(int fd)
{
	struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (shared == MAP_FAILED)
		die("mmap");
	return shared;
}

__attribute__((noreturn)) static void image(unsigned which, unsigned number, int fd)
{
	char name[32], which_text[16], number_text[16], fd_text[16];
	struct rusage usage;

	spin_ns(cases[which].spin_ns[number]);
	getrusage(RUSAGE_SELF, &usage);
	map(fd)->cpu_ns[number] = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
	if (++number == cases[which].count)
		_exit(30 + (int)which);
	snprintf(name, sizeof(name), "image-%u", number);
	snprintf(which_text, sizeof(which_text), "%u", which);
	snprintf(number_text, sizeof(number_text), "%u", number);
	snprintf(fd_text, sizeof(fd_text), "%d", fd);
	execl("/proc/self/exe", name, "--image", which_text, number_text, fd_text, NULL);
	_exit(98);
}

static void run(unsigned which, int fd)
{
	struct shared *shared = map(fd);
	char extra[512];
	uint64_t before_ns = now_ns();
	struct rusage usage;
	int status, length;
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		image(which, 0, fd);
	if (wait4(pid, &status, 0, &usage) != pid)
		die("wait4");
	length = snprintf(extra, sizeof(extra), ",\"image_names\":[null");
	for (unsigned i = 1; i < cases[which].count; i++)
		length += snprintf(extra + length, sizeof(extra) - (size_t)length, ",\"image-%u\"", i);
	length += snprintf(extra + length, sizeof(extra) - (size_t)length, "],\"image_cpu_ns\":[");
	for (unsigned i = 0; i < cases[which].count; i++)
		length += snprintf(extra + length, sizeof(extra) - (size_t)length, "%s%llu", i ? "," : "",
				   (unsigned long long)(shared->cpu_ns[i] - (i ? shared->cpu_ns[i - 1] : 0)));
	snprintf(extra + length, sizeof(extra) - (size_t)length, "]");
	truth_reaped(cases[which].name, pid, before_ns, status, &usage, extra);
	munmap(shared, 4096);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc == 5 && !strcmp(argv[1], "--image"))
		image((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), atoi(argv[4]));
	truth_open(argc, argv);
	fd = (int)syscall(SYS_memfd_create, "shares", 0);
	if (fd < 0 || ftruncate(fd, 4096))
		die("memfd");
	for (unsigned round = 0; round < 10; round++)
		for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
			run(i, fd);
	return 0;
}
