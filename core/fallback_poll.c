// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: when to look into /proc. Invariants: looking costs at most 1 % of a
// core over time, so the interval grows with the tree; a young process is read at every look and an
// old one less and less often, so that its last figures are never older than a quarter of its life.
// It must not interpret what is read (fallback_process.c).
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/fallback_private.h"

#define NS_PER_MS 1000000u

static const uint64_t INTERVAL_MIN_NS = 10 * NS_PER_MS, INTERVAL_MAX_NS = 2000ull * NS_PER_MS;
static const uint64_t INTERVAL_WITH_STATS_NS =
	500 * NS_PER_MS; // figures then only serve those who watch
static const uint64_t FIGURES_GAP_MAX_NS = 1000ull * NS_PER_MS;
static const uint64_t FIGURES_BUDGET_NS = 2 * NS_PER_MS; // of one look

static const int64_t CREDIT_MAX_NS = 20 * NS_PER_MS;

// A hundred and thirty: what waking up costs is not in what a look costs.
enum { COST_SHARE = 130, DESCRIPTORS_PER_PROCESS = 2, DESCRIPTORS_MAX = 4096 };

// ---- ends ----------------------------------------------------------------------------------------

static void on_pid_fd(void *context, int fd, uint32_t epoll_events)
{
	struct watched *watched = context;

	(void)fd;
	(void)epoll_events;
	fallback_ended(watched, clock_boot_ns());
}

void poll_watch_end(struct watched *watched)
{
	struct fallback *fallback = watched->fallback;
	CLEANUP(cleanup_close) int proc_fd = -1;

	if (fallback->descriptors + DESCRIPTORS_PER_PROCESS > fallback->descriptors_max)
		return;
	watched->pid_fd = (int)syscall(SYS_pidfd_open, watched->pid, 0);
	if (watched->pid_fd < 0)
		return;
	fallback->descriptors++;
	if (loop_add_fd(fallback->loop, watched->pid_fd, EPOLLIN, on_pid_fd, watched) < 0) {
		close(watched->pid_fd);
		fallback->descriptors--;
		watched->pid_fd = -1;
		return;
	}
	if (!fallback->children_files)
		return;
	proc_fd = proc_open(watched->pid);
	watched->children_fd = proc_fd < 0 ? -1 : proc_open_children(proc_fd, watched->pid);
	if (watched->children_fd >= 0)
		fallback->descriptors++;
	else
		watched->children_fd = -1;
}

// ---- new processes -------------------------------------------------------------------------------

static void visit_child(void *context, uint32_t pid)
{
	struct fallback *fallback = context;

	if (!watched_find(fallback, pid))
		fallback_found(fallback, pid, false, NULL);
}

struct thread_children {
	struct fallback *fallback;
	int proc_fd;
};

static void visit_thread(void *context, uint32_t tid)
{
	struct thread_children *walk = context;
	CLEANUP(cleanup_close) int children_fd = proc_open_children(walk->proc_fd, tid);

	if (children_fd >= 0)
		proc_read_children(children_fd, visit_child, walk->fallback);
}

// Finds the children of one process. -ESRCH: it is gone.
static int children_find(struct watched *watched)
{
	struct fallback *fallback = watched->fallback;
	CLEANUP(cleanup_close) int proc_fd = -1;

	if (watched->children_fd >= 0 && watched->process->counters.threads <= 1)
		return proc_read_children(watched->children_fd, visit_child, fallback) < 0 ? -ESRCH
											   : 0;
	proc_fd = proc_open(watched->pid);
	if (proc_fd < 0)
		return -ESRCH;
	return proc_each_number(
		       proc_fd, "task", visit_thread,
		       &(struct thread_children){.fallback = fallback, .proc_fd = proc_fd}) < 0
		       ? -ESRCH
		       : 0;
}

static void find_by_children(struct fallback *fallback)
{
	struct watched *watched = fallback->first, *next;

	// Orphans are ours, as their new parent is: the tree is complete below us and below each
	// process of it.
	if (fallback->own_children_fd >= 0)
		proc_read_children(fallback->own_children_fd, visit_child, fallback);
	// What is found is appended, and so has its own children looked for in the same pass.
	for (; watched; watched = next) {
		bool here =
			watched->process ? children_find(watched) == 0 : fallback_is_here(watched);

		next = watched->next;
		if (!here && watched->process)
			fallback_ended(watched, clock_boot_ns());
		else if (!here)
			watched_drop(watched);
	}
}

struct scan {
	struct fallback *fallback;
	bool seeding;
};

static void visit_number(void *context, uint32_t pid)
{
	struct scan *scan = context;
	struct watched *watched = watched_find(scan->fallback, pid);

	if (watched)
		watched->scan = scan->fallback->scan;
	else
		fallback_found(scan->fallback, pid, scan->seeding, NULL);
}

static void find_by_scan(struct fallback *fallback, bool seeding)
{
	struct scan scan = {.fallback = fallback, .seeding = seeding};
	struct watched *next;

	fallback->scan++;
	if (proc_each_number(AT_FDCWD, "/proc", visit_number, &scan) < 0)
		return;
	for (struct watched *watched = fallback->first; watched; watched = next) {
		next = watched->next;
		if (watched->scan == fallback->scan)
			continue;
		if (watched->process)
			fallback_ended(watched, clock_boot_ns());
		else
			watched_drop(watched);
	}
}

static void find_new(struct fallback *fallback, bool seeding)
{
	if (fallback->options.root_pid && fallback->children_files)
		find_by_children(fallback);
	else
		find_by_scan(fallback, seeding);
}

// ---- figures -------------------------------------------------------------------------------------

static bool figures_due(const struct watched *watched, uint64_t now_ns)
{
	uint64_t gap_ns = (now_ns - watched->first_seen_ns) / 4;

	if (watched->fallback->stats_fd >= 0 || gap_ns > FIGURES_GAP_MAX_NS)
		gap_ns = FIGURES_GAP_MAX_NS;
	return now_ns - watched->figures_ns >= gap_ns;
}

static void figures_of_due(struct fallback *fallback, uint64_t begin_cpu_ns, uint64_t now_ns)
{
	uint32_t left = fallback->watched_count;

	while (left-- > 0 && fallback->first) {
		struct watched *watched = fallback->cursor ? fallback->cursor : fallback->first;
		int result = 0;

		fallback->cursor = watched->next;
		if (!watched->process)
			continue;
		if (figures_due(watched, now_ns))
			result = fallback_figures(watched, now_ns);
		else if (fallback->stats_fd < 0)
			fallback_cpu(watched, now_ns);
		// With events the end is told by one, in its place among the others.
		if (result && !fallback_has_events(fallback))
			fallback_ended(watched, clock_boot_ns());
		if (clock_process_cpu_ns() - begin_cpu_ns > FIGURES_BUDGET_NS)
			return;
	}
}

// A hundredth of the time that passes is there to be spent, and some of it may be saved for a burst
// of new processes. Once it is spent, looks are as far apart as they cost a hundredth.
static uint64_t interval_paid(struct fallback *fallback, uint64_t cost_ns, uint64_t now_ns)
{
	fallback->credit_ns +=
		(int64_t)((now_ns - fallback->paid_boot_ns) / COST_SHARE) - (int64_t)cost_ns;
	fallback->paid_boot_ns = now_ns;
	fallback->cost_ns = (fallback->cost_ns * 3 + cost_ns) / 4;
	if (fallback->credit_ns > CREDIT_MAX_NS)
		fallback->credit_ns = CREDIT_MAX_NS;
	if (fallback->credit_ns < -CREDIT_MAX_NS)
		fallback->credit_ns = -CREDIT_MAX_NS;
	return fallback->credit_ns > 0 ? 0 : fallback->cost_ns * COST_SHARE;
}

static void on_timer(void *context, uint64_t now_ns)
{
	struct fallback *fallback = context;
	uint64_t begin_ns = clock_process_cpu_ns(), interval_ns, least_ns = INTERVAL_MIN_NS;

	if (!fallback_has_events(fallback))
		find_new(fallback, false);
	else if (fallback->queue_count)
		event_drain(fallback); // a drain ends after so many, and these wake nobody
	figures_of_due(fallback, clock_process_cpu_ns(), now_ns);
	interval_ns = interval_paid(fallback, clock_process_cpu_ns() - begin_ns, now_ns);
	if (fallback->stats_fd >= 0)
		least_ns = INTERVAL_WITH_STATS_NS;
	if (interval_ns < least_ns)
		interval_ns = least_ns;
	if (interval_ns > INTERVAL_MAX_NS)
		interval_ns = INTERVAL_MAX_NS;
	if (interval_ns > fallback->count.slowest_poll_ns)
		fallback->count.slowest_poll_ns = interval_ns;
	if (interval_ns != fallback->poll_interval_ns)
		loop_timer_set(fallback->timer, interval_ns);
	fallback->poll_interval_ns = interval_ns;
}

void poll_everything(struct fallback *fallback, bool seeding)
{
	struct watched *next;

	find_new(fallback, seeding);
	for (struct watched *watched = fallback->first; watched; watched = next) {
		next = watched->next;
		if (watched->process && fallback_figures(watched, clock_boot_ns()))
			fallback_ended(watched, clock_boot_ns());
	}
}

int poll_open(struct fallback *fallback)
{
	CLEANUP(cleanup_close) int proc_fd = proc_open((uint32_t)getpid());
	struct rlimit limit;

	if (proc_fd < 0)
		return proc_fd;
	fallback->own_children_fd = proc_open_children(proc_fd, (uint32_t)getpid());
	fallback->children_files = fallback->own_children_fd >= 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		fallback->descriptors_max =
			(uint32_t)(limit.rlim_cur / 2 < DESCRIPTORS_MAX ? limit.rlim_cur / 2
									: DESCRIPTORS_MAX);
	fallback->poll_interval_ns = INTERVAL_MIN_NS;
	fallback->credit_ns = CREDIT_MAX_NS;
	fallback->paid_boot_ns = clock_boot_ns();
	return loop_add_timer(fallback->loop, INTERVAL_MIN_NS, on_timer, fallback,
			      &fallback->timer);
}

void poll_close(struct fallback *fallback)
{
	if (fallback->timer)
		loop_timer_set(fallback->timer, 0);
	if (fallback->own_children_fd >= 0)
		close(fallback->own_children_fd);
}
