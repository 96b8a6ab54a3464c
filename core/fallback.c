// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: opening, reaping, ending, and what to tell people about it. Invariants:
// whatever this tier cannot see is said in fallback_missing(), with numbers where they are known.
// It must not change anything on the host.
#include "core/fallback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/fs.h"
#include "core/fallback_private.h"

#define NS_PER_S 1000000000u

// How many processes and threads this host has started since boot; UNKNOWN when it does not say.
static uint64_t forks_read(void)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	const char *found;

	if (fs_read("/proc/stat", 4 << 20, &text) < 0 || !text.data)
		return UNKNOWN;
	found = strstr(text.data, "\nprocesses ");
	return found ? strtoull(found + strlen("\nprocesses "), NULL, 10) : UNKNOWN;
}

static int tier_open(struct fallback *fallback, char why[FALLBACK_WHY_SIZE])
{
	int result;

	if (fallback->tier == FALLBACK_NETLINK) {
		result = event_open(fallback, why);
		if (result < 0)
			return result;
		stats_open(
			fallback); // without it figures are samples, which fallback_missing() tells
	}
	result = poll_open(fallback);
	if (result < 0)
		snprintf(why, FALLBACK_WHY_SIZE, "reading /proc: %s", strerror(-result));
	return result;
}

static int seed(struct fallback *fallback, char why[FALLBACK_WHY_SIZE])
{
	struct watched *root = NULL;

	if (fallback->options.root_pid) {
		int result = fallback_found(fallback, fallback->options.root_pid, false, &root);

		if (result < 0 || !root->process) {
			snprintf(why, FALLBACK_WHY_SIZE, "process %u is not in /proc",
				 fallback->options.root_pid);
			return result < 0 ? result : -ESRCH;
		}
		root->maxrss_inherited_bytes = 0;
		root->process->image->forked = true; // ours still, until its exec
	}
	poll_everything(fallback, true);
	return 0;
}

static int open_one(struct agent *agent, struct loop *loop, enum fallback_tier tier,
		    const struct fallback_options *options, struct fallback **ret_fallback,
		    char why[FALLBACK_WHY_SIZE])
{
	struct fallback *fallback = calloc(1, sizeof(*fallback));
	int result;

	if (!fallback) {
		snprintf(why, FALLBACK_WHY_SIZE, "no memory");
		return -ENOMEM;
	}
	fallback->agent = agent;
	fallback->loop = loop;
	fallback->tier = tier;
	fallback->options = *options;
	fallback->event_fd = fallback->stats_fd = fallback->own_children_fd = -1;
	fallback->count.forks_at_start = forks_read();
	result = tier_open(fallback, why);
	if (result == 0)
		result = seed(fallback, why);
	if (result < 0) {
		fallback_free(fallback);
		return result;
	}
	*ret_fallback = fallback;
	return 0;
}

enum fallback_tier fallback_tier(const struct fallback *fallback)
{
	return fallback->tier;
}

int fallback_open(struct agent *agent, struct loop *loop, enum fallback_tier tier,
		  const struct fallback_options *options, struct fallback **ret_fallback,
		  char why[FALLBACK_WHY_SIZE])
{
	int result;

	if (tier != FALLBACK_ANY)
		return open_one(agent, loop, tier, options, ret_fallback, why);
	result = open_one(agent, loop, FALLBACK_NETLINK, options, ret_fallback, why);
	return result < 0 ? open_one(agent, loop, FALLBACK_PROC, options, ret_fallback, why) : 0;
}

void fallback_free(struct fallback *fallback)
{
	if (!fallback)
		return;
	event_close(fallback);
	stats_close(fallback);
	poll_close(fallback);
	while (fallback->first)
		watched_drop(fallback->first);
	run_release(fallback->root_run);
	free(fallback);
}

// ---- children of ours ----------------------------------------------------------------------------

static uint64_t rusage_cpu_ns(const struct rusage *usage)
{
	return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) * NS_PER_S +
	       ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000;
}

// The child's figures are read while it is a zombie; its rusage holds the children it waited for as
// well.
static void child_end(struct fallback *fallback, uint32_t pid, int32_t status,
		      const struct rusage *usage)
{
	struct watched *watched;
	struct rusage own;

	fallback->count.cpu_reaped_ns += rusage_cpu_ns(usage);
	if (fallback_has_events(fallback))
		event_drain(fallback);
	watched = watched_find(fallback, pid);
	if (!watched && !fallback_has_events(fallback)) {
		fallback_found(fallback, pid, false, NULL);
		watched = watched_find(fallback, pid);
	}
	if (!watched)
		return;
	if (!watched->process) {
		watched_drop(watched); // it ended before, and is no zombie from here on
		return;
	}
	watched->status = status;
	watched->maxrss_bytes = (uint64_t)usage->ru_maxrss * 1024;
	// A fork of ours has our memory until its exec: that much may be left of us in its maximum.
	if (watched->maxrss_inherited_bytes == 0 && getrusage(RUSAGE_SELF, &own) == 0)
		watched->maxrss_inherited_bytes = (uint64_t)own.ru_maxrss * 1024;
	fallback_ended(watched, clock_boot_ns());
	watched = watched_find(fallback, pid);
	if (watched)
		watched_drop(watched);
}

int fallback_reap(struct fallback *fallback, pid_t *ret_pid, int *ret_status)
{
	siginfo_t info = {0};
	struct rusage usage;
	int status;

	// The system call gives the rusage of a child that stays a zombie; the C library's waitid()
	// has no place for it.
	if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, &usage) < 0)
		return -errno;
	if (info.si_pid == 0)
		return 0;
	status = info.si_code == CLD_EXITED
			 ? (info.si_status & 0xff) << 8
			 : info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
	child_end(fallback, (uint32_t)info.si_pid, status, &usage);
	while (waitpid(info.si_pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	*ret_pid = info.si_pid;
	*ret_status = status;
	return 1;
}

void fallback_finish(struct fallback *fallback)
{
	if (fallback_has_events(fallback)) {
		do
			event_drain(fallback);
		while (fallback->queue_count);
		stats_drain(fallback);
	}
	poll_everything(fallback, false);
}

// ---- words ---------------------------------------------------------------------------------------

struct words {
	struct fallback *fallback;
	void (*visit)(void *context, const char *sentence);
	void *context;
};

__attribute__((format(printf, 2, 3))) static void say(const struct words *words, const char *format,
						      ...)
{
	char sentence[320];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(sentence, sizeof(sentence), format, arguments);
	va_end(arguments);
	words->visit(words->context, sentence);
}

static void say_events(const struct words *words)
{
	const struct fallback_count *count = &words->fallback->count;

	if (words->fallback->stats_fd >= 0) {
		say(words, "Recorded without BPF, from the kernel's process events and its "
			   "accounting of each exit: every "
			   "process is here.");
		say(words, "I/O is rounded down to 1 KiB for each thread of a process that was "
			   "waited for at once.");
	} else {
		say(words, "Recorded without BPF and without privilege, from the kernel's process "
			   "events and /proc: every "
			   "process is here.");
		say(words, "Memory, I/O, faults and switches are as last read while a process "
			   "lived, or unknown for a short "
			   "one.");
	}
	if (count->args_missed)
		say(words,
		    "Program and arguments of %" PRIu64 " of %" PRIu64
		    " processes are unknown: they were gone before they "
		    "could be read.",
		    count->args_missed, count->ended);
	if (count->overruns)
		say(words, "Process events were lost %" PRIu64 " times; /proc was read instead.",
		    count->overruns);
}

static void say_missed(const struct words *words)
{
	const struct fallback_count *count = &words->fallback->count;
	uint64_t forks = forks_read();

	if (forks == UNKNOWN || count->forks_at_start == UNKNOWN || forks < count->forks_at_start)
		say(words, "How many processes were missed is unknown.");
	else if (forks - count->forks_at_start > count->started)
		say(words,
		    "At most %" PRIu64 " processes were missed: the host started so many more, "
		    "threads and what is not of "
		    "this run included.",
		    forks - count->forks_at_start - count->started);
}

static void say_polling(const struct words *words)
{
	uint64_t interval_ms = words->fallback->count.slowest_poll_ns / 1000000;

	say(words,
	    "Recorded without BPF and without process events, by reading /proc every %s%" PRIu64
	    " ms: a process that "
	    "lived shorter is not here.",
	    interval_ms > 10 ? "10 to " : "", interval_ms > 10 ? interval_ms : 10);
	say_missed(words);
	say(words, "Memory, I/O, faults and switches are as last read while a process lived.");
}

static void say_cpu(const struct words *words)
{
	const struct fallback_count *count = &words->fallback->count;

	if (count->cpu_bound)
		say(words,
		    "The CPU time of %" PRIu64 " of %" PRIu64
		    " processes is a sample, a lower bound or unknown: they were "
		    "waited for before it could be read.",
		    count->cpu_bound, count->ended);
	if (count->cpu_reaped_ns > count->cpu_recorded_ns + count->cpu_recorded_ns / 100)
		say(words,
		    "The command and all that it waited for used %.3f s of CPU, of which %.3f s "
		    "are not in the records.",
		    (double)count->cpu_reaped_ns / NS_PER_S,
		    (double)(count->cpu_reaped_ns - count->cpu_recorded_ns) / NS_PER_S);
	if (count->exit_unknown)
		say(words, "The exit status of %" PRIu64 " of %" PRIu64 " processes is unknown.",
		    count->exit_unknown, count->ended);
	say(words, "What threads slept for is unknown%s.",
	    words->fallback->delays_on ? "" : ", and so are stalls in reclaim and compaction");
}

void fallback_missing(struct fallback *fallback, void (*visit)(void *context, const char *sentence),
		      void *context)
{
	struct words words = {.fallback = fallback, .visit = visit, .context = context};

	if (fallback_has_events(fallback))
		say_events(&words);
	else
		say_polling(&words);
	say_cpu(&words);
}
