// SPDX-License-Identifier: Apache-2.0
// The event loop: epoll, timers and signals, one per process, single-threaded. Handlers must not block.
#pragma once

#include <sys/signalfd.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_timer;

typedef void loop_fd_fn(void *context, int fd, uint32_t epoll_events);
typedef void loop_timer_fn(void *context, uint64_t now_ns);
typedef void loop_signal_fn(void *context, const struct signalfd_siginfo *info);

int loop_new(struct loop **ret_loop);
void loop_free(struct loop *loop); // takes NULL; closes its own descriptors only

// Watches fd (owned by the caller) for events (EPOLLIN, ...). 0 or -errno.
int loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fd_fn *handler, void *context);
// Waits for other events. -ENOENT when it is not watched.
int loop_change_fd(struct loop *loop, int fd, uint32_t events);
// A handler may remove any fd, its own too; no event of a removed fd is delivered. -ENOENT when it is not watched.
int loop_remove_fd(struct loop *loop, int fd);

// A repeating timer on CLOCK_BOOTTIME. It fires interval_ns after its last run, never twice for missed ones.
// All timers share one timerfd. The loop owns the timer. ret_timer may be NULL.
int loop_add_timer(struct loop *loop, uint64_t interval_ns, loop_timer_fn *handler, void *context,
		   struct loop_timer **ret_timer);
// Changes the interval; the next run is interval_ns from now. 0 disarms it.
void loop_timer_set(struct loop_timer *timer, uint64_t interval_ns);

// Blocks the signal for the process and delivers it here. The mask that stood before is what
// loop_restore_signals() puts back (for a child before exec).
int loop_add_signal(struct loop *loop, int signal_number, loop_signal_fn *handler, void *context);
void loop_restore_signals(const struct loop *loop);

// Runs until loop_stop(), which may come before it. Returns its argument, or -errno.
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop, int result);
