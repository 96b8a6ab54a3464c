// SPDX-License-Identifier: Apache-2.0
// Base: the event loop. One epoll, one timerfd for all timers, one signalfd for all signals.
// A handler may add or remove anything, itself included: a removed watch is only freed once the batch of events
// that might still name it is done.
#include "core/base/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/clock.h"

#define EVENTS_PER_WAIT 64
#define NS_PER_S 1000000000ULL

struct watch {
	struct watch *next; // among the removed
	int fd; // -1: removed, to be freed after this batch
	loop_fd_fn *handler;
	void *context;
};

struct loop_timer {
	struct loop_timer *next;
	struct loop *loop;
	uint64_t interval_ns; // 0: disarmed
	uint64_t due_ns;
	loop_timer_fn *handler;
	void *context;
};

struct loop {
	int epoll_fd;
	int timer_fd;
	int signal_fd; // -1 until the first signal
	bool stopped;
	int result;
	struct watch **watches; // by descriptor
	size_t watches_size;
	struct watch *removed;
	struct loop_timer *timers;
	uint64_t armed_ns; // what timer_fd is set to; 0 nothing
	sigset_t signals;
	sigset_t mask_before;
	bool mask_saved;
	struct {
		loop_signal_fn *handler;
		void *context;
	} on_signal[_NSIG];
};

static void timers_arm(struct loop *loop)
{
	struct itimerspec when = { 0 };
	uint64_t first = 0;

	for (struct loop_timer *timer = loop->timers; timer; timer = timer->next)
		if (timer->interval_ns > 0 && (first == 0 || timer->due_ns < first))
			first = timer->due_ns;
	if (first == loop->armed_ns)
		return;
	when.it_value.tv_sec = (time_t)(first / NS_PER_S);
	when.it_value.tv_nsec = (long)(first % NS_PER_S);
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		loop->armed_ns = first;
}

static void timers_run(void *context, int fd, uint32_t epoll_events)
{
	struct loop *loop = context;
	uint64_t expirations, now;

	(void)epoll_events;
	if (read(fd, &expirations, sizeof(expirations)) != sizeof(expirations))
		return;
	loop->armed_ns = 0;
	now = clock_boot_ns();
	for (struct loop_timer *timer = loop->timers; timer && !loop->stopped; timer = timer->next) {
		if (timer->interval_ns == 0 || timer->due_ns > now)
			continue;
		// From now, not from when it was due: after a suspend or a stall it fires once.
		timer->due_ns = now + timer->interval_ns;
		timer->handler(timer->context, now);
	}
	timers_arm(loop);
}

static void signals_run(void *context, int fd, uint32_t epoll_events)
{
	struct loop *loop = context;
	struct signalfd_siginfo info;

	(void)epoll_events;
	while (!loop->stopped && read(fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo < _NSIG && loop->on_signal[info.ssi_signo].handler)
			loop->on_signal[info.ssi_signo].handler(loop->on_signal[info.ssi_signo].context,
								&info);
}

static void watches_sweep(struct loop *loop)
{
	while (loop->removed) {
		struct watch *watch = loop->removed;

		loop->removed = watch->next;
		free(watch);
	}
}

int loop_new(struct loop **ret_loop)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int result;

	if (!loop)
		return -ENOMEM;
	sigemptyset(&loop->signals);
	loop->signal_fd = -1;
	loop->timer_fd = -1;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd >= 0)
		loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	result = loop->timer_fd < 0 ? -errno :
				      loop_add_fd(loop, loop->timer_fd, EPOLLIN, timers_run, loop);
	if (result < 0) {
		loop_free(loop);
		return result;
	}
	*ret_loop = loop;
	return 0;
}

void loop_free(struct loop *loop)
{
	struct loop_timer *timer, *next_timer;

	if (!loop)
		return;
	watches_sweep(loop);
	for (size_t fd = 0; fd < loop->watches_size; fd++)
		free(loop->watches[fd]);
	free(loop->watches);
	for (timer = loop->timers; timer; timer = next_timer) {
		next_timer = timer->next;
		free(timer);
	}
	if (loop->signal_fd >= 0)
		close(loop->signal_fd);
	if (loop->timer_fd >= 0)
		close(loop->timer_fd);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	free(loop);
}

static int watches_grow(struct loop *loop, int fd)
{
	size_t size = loop->watches_size ? loop->watches_size : 64;
	struct watch **watches;

	if ((size_t)fd < loop->watches_size)
		return 0;
	while (size <= (size_t)fd)
		size *= 2;
	watches = realloc(loop->watches, size * sizeof(*watches));
	if (!watches)
		return -ENOMEM;
	memset(watches + loop->watches_size, 0, (size - loop->watches_size) * sizeof(*watches));
	loop->watches = watches;
	loop->watches_size = size;
	return 0;
}

static void watch_forget(struct loop *loop, struct watch *watch)
{
	loop->watches[watch->fd] = NULL;
	watch->fd = -1;
	watch->next = loop->removed;
	loop->removed = watch;
}

int loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fd_fn *handler, void *context)
{
	struct epoll_event event = { .events = events };
	struct watch *watch;
	int result;

	if (fd < 0)
		return -EBADF;
	result = watches_grow(loop, fd);
	if (result < 0)
		return result;
	watch = malloc(sizeof(*watch));
	if (!watch)
		return -ENOMEM;
	*watch = (struct watch){ .fd = fd, .handler = handler, .context = context };
	event.data.ptr = watch;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		result = -errno;
		free(watch);
		return result;
	}
	// Its number was closed and given out again without a word.
	if (loop->watches[fd])
		watch_forget(loop, loop->watches[fd]);
	loop->watches[fd] = watch;
	return 0;
}

static struct watch *watch_of(const struct loop *loop, int fd)
{
	return fd >= 0 && (size_t)fd < loop->watches_size ? loop->watches[fd] : NULL;
}

int loop_change_fd(struct loop *loop, int fd, uint32_t events)
{
	struct watch *watch = watch_of(loop, fd);
	struct epoll_event event = { .events = events };

	if (!watch)
		return -ENOENT;
	event.data.ptr = watch;
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
}

int loop_remove_fd(struct loop *loop, int fd)
{
	struct watch *watch = watch_of(loop, fd);

	if (!watch)
		return -ENOENT;
	watch_forget(loop, watch);
	// The caller may have closed fd already; the kernel then forgot it by itself.
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL) < 0 && errno != EBADF && errno != ENOENT)
		return -errno;
	return 0;
}

int loop_add_timer(struct loop *loop, uint64_t interval_ns, loop_timer_fn *handler, void *context,
		   struct loop_timer **ret_timer)
{
	struct loop_timer *timer = malloc(sizeof(*timer));

	if (!timer)
		return -ENOMEM;
	*timer = (struct loop_timer){ .next = loop->timers, .loop = loop, .handler = handler, .context = context };
	loop->timers = timer;
	loop_timer_set(timer, interval_ns);
	if (ret_timer)
		*ret_timer = timer;
	return 0;
}

void loop_timer_set(struct loop_timer *timer, uint64_t interval_ns)
{
	timer->interval_ns = interval_ns;
	timer->due_ns = clock_boot_ns() + interval_ns;
	timers_arm(timer->loop);
}

int loop_add_signal(struct loop *loop, int signal_number, loop_signal_fn *handler, void *context)
{
	sigset_t one, before;
	int fd;

	sigemptyset(&one);
	if (signal_number >= _NSIG || sigaddset(&one, signal_number) < 0)
		return -EINVAL;
	pthread_sigmask(SIG_BLOCK, &one, &before);
	if (!loop->mask_saved)
		loop->mask_before = before;
	loop->mask_saved = true;
	sigaddset(&loop->signals, signal_number);
	fd = signalfd(loop->signal_fd, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	loop->on_signal[signal_number].handler = handler;
	loop->on_signal[signal_number].context = context;
	if (loop->signal_fd >= 0)
		return 0;
	loop->signal_fd = fd;
	return loop_add_fd(loop, fd, EPOLLIN, signals_run, loop);
}

void loop_restore_signals(const struct loop *loop)
{
	if (loop->mask_saved)
		pthread_sigmask(SIG_SETMASK, &loop->mask_before, NULL);
}

int loop_run(struct loop *loop)
{
	struct epoll_event events[EVENTS_PER_WAIT];
	int count;

	while (!loop->stopped) {
		count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_WAIT, -1);
		if (count < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < count && !loop->stopped; i++) {
			struct watch *watch = events[i].data.ptr;

			if (watch->fd >= 0)
				watch->handler(watch->context, watch->fd, events[i].events);
		}
		watches_sweep(loop);
	}
	loop->stopped = false;
	return loop->result;
}

void loop_stop(struct loop *loop, int result)
{
	loop->stopped = true;
	loop->result = result;
}
