// SPDX-License-Identifier: Apache-2.0
// Test room: cgroups of this kernel, no stand-ins: ids, CPU throttling, memory, OOM kills and what an unprivileged
// reader sees. Runs over every hierarchy this kernel gives a memory controller in: v1 (or hybrid) and v2. Root; everything it
// makes is in a private mount namespace or below a cgroup named after its pid, and is removed at the end.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/cgroup_sample.h"

#define MIB (1024ull * 1024)
#define SECOND 1000000000ull

// One way to see cgroups: where each controller's hierarchy is mounted.
struct view {
	const char *name;
	bool unified;
	const char *memory, *cpu, *cpuacct, *pids; // NULL: not mounted
	const char *mountinfo;
	struct cgroup_table *table;
};

static char base[32]; // "/tracer-test-PID", the path of every cgroup made here
static char scratch[64]; // a tmpfs
static int checks;
static struct timespec *outside; // what the last child had run when it had entered its cgroup; shared with it

static void remove_cgroups(void);

__attribute__((format(printf, 2, 3), noreturn)) static void fail(int line, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("tests/bpf/test_cgroup_real.c:%d: ", line);
	vprintf(format, args);
	puts("");
	va_end(args);
	fflush(stdout);
	remove_cgroups();
	_exit(1);
}

#define CHECK(condition, ...)                             \
	do {                                              \
		checks++;                                 \
		if (!(condition))                         \
			fail(__LINE__, #condition ": " __VA_ARGS__); \
	} while (0)

// Four texts in a row. A test: never freed.
static const char *join(const char *a, const char *b, const char *c, const char *d)
{
	char *text;

	if (asprintf(&text, "%s%s%s%s", a, b, c, d) < 0)
		abort();
	return text;
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t written = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return written == (ssize_t)strlen(text);
}

static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[got < 0 ? 0 : got] = 0;
	return got >= 0;
}

// --- hierarchies -----------------------------------------------------------------------------------------------------

static struct view views[2];
static int view_count;

// Directories of one cgroup in all hierarchies of a view, without repeats.
static int view_places(const struct view *view, const char *places[4])
{
	const char *all[] = { view->memory, view->cpu, view->cpuacct, view->pids };
	int count = 0;

	for (int i = 0; i < 4; i++) {
		bool known = !all[i];

		for (int j = 0; j < count && !known; j++)
			known = !strcmp(places[j], all[i]);
		if (!known)
			places[count++] = all[i];
	}
	return count;
}

static void remove_cgroups(void)
{
	static const char *const below[] = { "/inner/leaf", "/inner", "" };
	const char *places[4];

	for (int i = 0; i < view_count; i++)
		for (int j = 0; j < view_places(&views[i], places); j++)
			for (size_t k = 0; k < 3; k++)
				rmdir(join(places[j], base, below[k], ""));
}

// above: the part of below without its last component. On v2 a cgroup with processes may not give controllers on, so
// this is done when its first child is made.
static void make_cgroup(const struct view *view, const char *above, const char *below)
{
	const char *places[4];

	for (int i = 0; i < view_places(view, places); i++) {
		if (view->unified && above)
			CHECK(write_text(join(places[i], base, above, "/cgroup.subtree_control"), "+memory +cpu +pids"),
			      "%s", strerror(errno));
		CHECK(!mkdir(join(places[i], base, below, ""), 0755), "mkdir %s%s%s: %s", places[i], base, below,
		      strerror(errno));
		// Before 5.11 a v1 limit holds for the cgroups below only where this is set, as every runtime does.
		write_text(join(places[i], base, below, "/memory.use_hierarchy"), "1");
	}
}

static void remove_cgroup(const struct view *view, const char *below)
{
	const char *places[4];

	for (int i = 0; i < view_places(view, places); i++)
		for (int tries = 0; rmdir(join(places[i], base, below, "")) && tries < 100; tries++)
			usleep(10000);
}

static void enter(const struct view *view, const char *below)
{
	const char *places[4];

	for (int i = 0; i < view_places(view, places); i++)
		if (!write_text(join(places[i], base, below, "/cgroup.procs"), "0"))
			_exit(100);
}

// Mounts a hierarchy in the scratch place and adds it to the view's mountinfo. False: this kernel has it not.
static bool mount_hierarchy(FILE *mountinfo, const char **ret_place, const char *type, const char *options)
{
	const char *place = join(scratch, "/", options[0] ? options : "unified", "");

	mkdir(place, 0755);
	// A controller that another hierarchy gave back is free only when its last cgroup is really gone.
	for (int tries = 0; mount("none", place, type, 0, options); tries++) {
		if (errno != EBUSY || tries == 20)
			return false;
		usleep(100000);
	}
	*ret_place = place;
	fprintf(mountinfo, "1 0 0:1 / %s rw - %s none rw,%s\n", place, type, options);
	return true;
}

static bool has_controller(const char *place, const char *name)
{
	char text[256];

	return read_text(join(place, "/cgroup.controllers", "", ""), text, sizeof(text)) && strstr(text, name);
}

static bool open_unified(struct view *view)
{
	FILE *file = fopen(view->mountinfo, "w");
	bool usable = file && mount_hierarchy(file, &view->memory, "cgroup2", "") &&
		      has_controller(view->memory, "memory");

	if (file)
		fclose(file);
	if (!usable)
		return false;
	view->cpu = view->memory;
	CHECK(write_text(join(view->memory, "/cgroup.subtree_control", "", ""), "+memory +cpu +pids"), "%s",
	      strerror(errno));
	return true;
}

static bool open_v1(struct view *view)
{
	FILE *file = fopen(view->mountinfo, "w");
	bool usable = file && mount_hierarchy(file, &view->memory, "cgroup", "memory");

	if (usable) {
		// Together where a distribution joined them, else alone.
		if (!mount_hierarchy(file, &view->cpu, "cgroup", "cpu"))
			mount_hierarchy(file, &view->cpu, "cgroup", "cpu,cpuacct");
		if (!mount_hierarchy(file, &view->cpuacct, "cgroup", "cpuacct"))
			view->cpuacct = view->cpu;
		mount_hierarchy(file, &view->pids, "cgroup", "pids");
	}
	if (file)
		fclose(file);
	return usable;
}

// --- what runs in them -----------------------------------------------------------------------------------------------

static void burn(uint64_t wall_ns)
{
	uint64_t end = clock_boot_ns() + wall_ns;

	while (clock_boot_ns() < end)
		;
}

static void touch(size_t bytes)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(101);
	for (size_t i = 0; i < bytes; i += 4096)
		memory[i] = 1;
}

// A child in a cgroup that does work, then waits until its pipe is closed.
struct child {
	pid_t pid;
	int hold;
};

static struct child start(const struct view *view, const char *below, void (*work)(size_t), size_t amount)
{
	int hold[2], ready[2];
	struct child child;
	char byte;

	CHECK(!pipe(hold) && !pipe(ready), "%s", strerror(errno));
	child.pid = fork();
	CHECK(child.pid >= 0, "%s", strerror(errno));
	if (!child.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(hold[1]);
		close(ready[0]);
		enter(view, below);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, outside);
		work(amount);
		close(ready[1]);
		_exit(read(hold[0], &byte, 1) ? 102 : 0);
	}
	close(hold[0]);
	close(ready[1]);
	child.hold = hold[1];
	if (read(ready[0], &byte, 1)) // comes back when the work is done or the child is dead
		fail(__LINE__, "read");
	close(ready[0]);
	return child;
}

static int finish(struct child child, struct rusage *usage)
{
	int status = -1;

	close(child.hold);
	CHECK(wait4(child.pid, &status, 0, usage) == child.pid, "%s", strerror(errno));
	return status;
}

static void burn_one_second(size_t unused)
{
	burn(SECOND);
}

static struct cgroup *find(const struct view *view, const char *below)
{
	struct cgroup *cgroup = cgroup_find_path(view->table, join(base, below, "", ""));

	CHECK(cgroup, "%s%s is not in the table", base, below);
	return cgroup;
}

static struct cgroup_figures figures_of(const struct view *view, const char *below)
{
	struct cgroup_sample sample;
	int error = cgroup_figures_read(view->table, find(view, below), &sample);

	CHECK(!error, "%s", strerror(-error));
	return sample.figures;
}

// --- tests -----------------------------------------------------------------------------------------------------------

static void ids_are_inode_numbers(const struct view *view)
{
	struct stat status;
	uint64_t before, cost;

	make_cgroup(view, NULL, "");
	make_cgroup(view, "", "/inner");
	before = clock_boot_ns();
	CHECK(!cgroup_table_scan(view->table), "scan");
	cost = clock_boot_ns() - before;
	printf("   scan of %u cgroups: %llu us\n", cgroup_table_count(view->table), (unsigned long long)cost / 1000);
	CHECK(!stat(join(view->memory, base, "/inner", ""), &status), "%s", strerror(errno));
	CHECK(find(view, "/inner")->id == status.st_ino, "id");
	CHECK(find(view, "/inner")->parent == find(view, ""), "parent");
}

static void throttling_is_seen(const struct view *view)
{
	struct cgroup_figures figures;
	struct rusage usage;
	struct child child;
	uint64_t cpu_ns, outside_ns;

	if (!view->cpu) {
		printf("   not tested: no cpu controller in this view\n");
		return;
	}
	if (view->unified) {
		CHECK(write_text(join(view->cpu, base, "/inner/cpu.max", ""), "20000 100000"), "%s", strerror(errno));
	} else {
		CHECK(write_text(join(view->cpu, base, "/inner/cpu.cfs_period_us", ""), "100000"), "%s",
		      strerror(errno));
		CHECK(write_text(join(view->cpu, base, "/inner/cpu.cfs_quota_us", ""), "20000"), "%s", strerror(errno));
	}
	child = start(view, "/inner", burn_one_second, 0);
	CHECK(finish(child, &usage) == 0, "the burner failed");
	cpu_ns = ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * SECOND +
		 ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000;
	figures = figures_of(view, "/inner");
	printf("   throttled: cpu %llu ms (wait4 %llu ms), %llu of %llu periods, %llu ms\n",
	       (unsigned long long)figures.cpu_ns / 1000000, (unsigned long long)cpu_ns / 1000000,
	       (unsigned long long)figures.cpu_throttled_periods, (unsigned long long)figures.cpu_periods,
	       (unsigned long long)figures.cpu_throttled_ns / 1000000);
	CHECK(figures.cpu_quota_ns == 20000000 && figures.cpu_period_ns == 100000000, "quota");
	CHECK(figures.cpu_throttled_periods >= 3 && figures.cpu_throttled_periods <= figures.cpu_periods, "periods");
	CHECK(figures.cpu_throttled_ns > 100000000 && figures.cpu_throttled_ns < 4 * SECOND, "throttled time");
	// The child forked and entered outside of it, and its last instructions come after wait4(): an emulated machine can
	// stand still in any of them.
	outside_ns = (uint64_t)outside->tv_sec * SECOND + (uint64_t)outside->tv_nsec;
	CHECK(figures.cpu_ns <= cpu_ns + 100000000 && figures.cpu_ns + outside_ns + 5000000 >= cpu_ns,
	      "cpu time: %llu ms of it outside", (unsigned long long)outside_ns / 1000000);
	CHECK(figures.cpu_user_ns <= figures.cpu_ns && figures.cpu_system_ns <= figures.cpu_ns, "user and system");
	CHECK(find(view, "/inner")->id, "id");
}

static void memory_is_told_apart(const struct view *view)
{
	struct cgroup_figures figures;
	struct child child = start(view, "/inner", touch, 64 * MIB);
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), huge_page_bytes = page_bytes / 8 * page_bytes;

	figures = figures_of(view, "/inner");
	printf("   memory: %llu MiB, anon %llu MiB, peak %lld MiB\n", (unsigned long long)(figures.memory_bytes / MIB),
	       (unsigned long long)(figures.anon_bytes / MIB),
	       figures.memory_peak_bytes == CGROUP_UNKNOWN ? -1 : (long long)(figures.memory_peak_bytes / MIB));
	CHECK(figures.anon_bytes >= 62 * MIB && figures.anon_bytes < 72 * MIB, "anon");
	CHECK(figures.memory_bytes >= 62 * MIB && figures.memory_bytes < 96 * MIB, "usage");
	CHECK(figures.memory_peak_bytes == CGROUP_UNKNOWN || figures.memory_peak_bytes >= 62 * MIB, "peak");
	CHECK(figures.memory_limit_bytes == CGROUP_NO_LIMIT, "no limit is set");
	CHECK(figures.minor_faults >= 64 * MIB / huge_page_bytes, "faults: %llu", (unsigned long long)figures.minor_faults);
	CHECK(figures.pids == CGROUP_UNKNOWN || figures.pids == 1, "pids");
	CHECK(finish(child, NULL) == 0, "child");
}

static void set_memory_limit(const struct view *view, const char *below, const char *bytes)
{
	const char *file = view->unified ? "/memory.max" : "/memory.limit_in_bytes";

	CHECK(write_text(join(view->memory, base, below, file), bytes), "%s", strerror(errno));
	write_text(join(view->memory, base, below, "/memory.swap.max"), "0");
}

static void expect_oom(const struct view *view, const char *below, const char *limit)
{
	const char *path = NULL;
	struct child child = start(view, below, touch, 256 * MIB);
	uint64_t before = clock_boot_ns();
	int error = cgroup_oom_limit(view->table, find(view, below), &path);
	uint64_t cost = clock_boot_ns() - before;
	int status = finish(child, NULL);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the hog was not killed (status %x)", status);
	CHECK(!error, "%s", strerror(-error));
	CHECK(!strcmp(path, limit), "limit is %s, expected %s", path, limit);
	printf("   OOM below %s%s: limit of %s, asked in %llu us\n", base, below, path,
	       (unsigned long long)cost / 1000);
}

static void the_limit_that_killed_is_named(const struct view *view)
{
	const char *path = "untouched";
	struct child child;

	make_cgroup(view, "/inner", "/inner/leaf");
	CHECK(!cgroup_table_scan(view->table), "scan");
	set_memory_limit(view, "/inner/leaf", "33554432");
	expect_oom(view, "/inner/leaf", join(base, "/inner/leaf", "", ""));
	CHECK(figures_of(view, "/inner/leaf").oom_kills == 1, "oom_kills");
	CHECK(figures_of(view, "/inner/leaf").memory_limit_bytes == 32 * MIB, "limit");
	// Now the same leaf, killed by its parent's limit: seconds later, so that the first is not taken for it.
	set_memory_limit(view, "/inner/leaf", view->unified ? "max" : "-1");
	set_memory_limit(view, "/inner", "33554432");
	usleep(5200000);
	expect_oom(view, "/inner/leaf", join(base, "/inner", "", ""));
	set_memory_limit(view, "/inner", view->unified ? "max" : "-1");
	// Any other kill is none.
	usleep(5200000);
	child = start(view, "/inner/leaf", touch, 1 * MIB);
	kill(child.pid, SIGKILL);
	finish(child, NULL);
	CHECK(cgroup_oom_limit(view->table, find(view, "/inner/leaf"), &path) == -ENODATA, "%s", path);
}

static void count_visit(void *context, struct cgroup *cgroup)
{
	(*(int *)context)++;
}

static int samples(struct cgroup_sampler *sampler, uint64_t now)
{
	int visits = 0;

	cgroup_sampler_run(sampler, now, 100, count_visit, &visits);
	return visits;
}

static void samples_are_taken_when_something_ran(const struct view *view)
{
	struct cgroup *cgroup = find(view, "/inner");
	struct cgroup_sampler *sampler;
	struct child child;
	uint64_t before, full, idle;

	usleep(100000); // wait4 returns a moment before the last of a child's time is accounted
	CHECK(!cgroup_sampler_new(view->table, SECOND, &sampler), "sampler");
	cgroup->processes = 1;
	before = clock_boot_ns();
	CHECK(samples(sampler, 10 * SECOND) == 1, "first sample");
	full = clock_boot_ns() - before;
	before = clock_boot_ns();
	CHECK(samples(sampler, 20 * SECOND) == 0, "nothing ran");
	idle = clock_boot_ns() - before;
	printf("   one sample: %llu us, idle %llu us\n", (unsigned long long)full / 1000,
	       (unsigned long long)idle / 1000);
	child = start(view, "/inner", touch, 8 * MIB);
	CHECK(samples(sampler, 30 * SECOND) == 1, "a process ran");
	finish(child, NULL);
	cgroup->processes = 0;
	cgroup_sampler_free(sampler);
}

// After the collector gave up its rights: everything is read through descriptors opened before, as nobody.
static void nobody_can_still_read(const struct view *view)
{
	struct cgroup_figures mine = figures_of(view, "/inner"), theirs;
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(1);
		theirs = figures_of(view, "/inner");
		// Figures move by themselves; what is known may not differ.
		for (size_t i = 0; i < sizeof(mine) / sizeof(uint64_t); i++)
			if ((((uint64_t *)&mine)[i] == CGROUP_UNKNOWN) != (((uint64_t *)&theirs)[i] == CGROUP_UNKNOWN))
				_exit(2);
		_exit(cgroup_table_scan(view->table) ? 3 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid, "%s", strerror(errno));
	CHECK(status == 0, "uid 65534: status %x", status);
}

static void the_gone_are_marked(const struct view *view)
{
	struct cgroup *leaf = find(view, "/inner/leaf");
	struct cgroup_sample sample;
	uint64_t id = leaf->id;

	remove_cgroup(view, "/inner/leaf");
	CHECK(!leaf->removed, "not seen yet");
	CHECK(cgroup_figures_read(view->table, leaf, &sample) == -ENOENT, "figures of a directory that is gone");
	CHECK(!cgroup_table_scan(view->table), "scan");
	CHECK(leaf->removed, "the scan sees it");
	for (int i = 0; i < 3; i++)
		cgroup_table_expire(view->table);
	CHECK(!cgroup_find(view->table, id), "dropped");
	remove_cgroup(view, "/inner");
	remove_cgroup(view, "");
	CHECK(!cgroup_table_scan(view->table), "scan");
}

static void run_view(struct view *view)
{
	static const struct {
		const char *name;
		void (*run)(const struct view *view);
	} tests[] = {
		{ "ids_are_inode_numbers", ids_are_inode_numbers },
		{ "throttling_is_seen", throttling_is_seen },
		{ "memory_is_told_apart", memory_is_told_apart },
		{ "samples_are_taken_when_something_ran", samples_are_taken_when_something_ran },
		{ "the_limit_that_killed_is_named", the_limit_that_killed_is_named },
		{ "nobody_can_still_read", nobody_can_still_read },
		{ "the_gone_are_marked", the_gone_are_marked },
	};

	CHECK(!cgroup_table_new_from(view->mountinfo, &view->table), "table");
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		printf("%s: %s\n", view->name, tests[i].name);
		tests[i].run(view);
	}
	cgroup_table_free(view->table);
}

// The table over the mounts this machine really has: it opens, and every cgroup found can be asked.
static void this_machine(void)
{
	struct cgroup_table *table = NULL;
	int error = cgroup_table_new(&table);

	if (error == -ENOENT) {
		printf("this machine mounts no cgroups itself\n");
		return;
	}
	CHECK(!error, "%s", strerror(-error));
	error = cgroup_table_scan(table);
	CHECK(!error, "%s", strerror(-error));
	CHECK(cgroup_find_path(table, "/"), "no root");
	printf("this machine: %s, ids from %s, %u cgroups\n", cgroup_mode_name(cgroup_table_mode(table)),
	       cgroup_table_controller(table) ? cgroup_table_controller(table) : "the unified hierarchy",
	       cgroup_table_count(table));
	cgroup_table_free(table);
}

static void open_view(const char *name, bool unified)
{
	struct view *view = &views[view_count];

	view->name = name;
	view->unified = unified;
	view->mountinfo = join(scratch, "/mountinfo-", name, "");
	view_count++;
	if (unified ? !open_unified(view) : !open_v1(view)) {
		printf("not tested: this kernel has no memory controller in %s now\n", name);
		memset(view, 0, sizeof(*view));
		view_count--;
	}
}

int main(void)
{
	int tested = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getuid()) {
		puts("needs root");
		return 1;
	}
	snprintf(base, sizeof(base), "/tracer-test-%d", getpid());
	snprintf(scratch, sizeof(scratch), "/tmp/tracer-cgroup-%d", getpid());
	mkdir("/tmp", 01777);
	CHECK(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "%s", strerror(errno));
	CHECK(!mkdir(scratch, 0755) && !mount("none", scratch, "tmpfs", 0, ""), "%s", strerror(errno));
	outside = mmap(NULL, sizeof(*outside), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(outside != MAP_FAILED, "%s", strerror(errno));
	this_machine();
	// v2 first: a v1 mount takes the controller away from it.
	open_view("v2", true);
	for (; tested < view_count; tested++)
		run_view(&views[tested]);
	if (tested) // give the controllers back
		write_text(join(views[0].memory, "/cgroup.subtree_control", "", ""), "-memory -cpu -pids");
	open_view("v1", false);
	for (; tested < view_count; tested++)
		run_view(&views[tested]);
	remove_cgroups();
	CHECK(tested, "no hierarchy with a memory controller could be mounted");
	umount2(scratch, MNT_DETACH);
	rmdir(scratch);
	printf("%d checks in %d hierarchies passed\n", checks, tested);
	return 0;
}
