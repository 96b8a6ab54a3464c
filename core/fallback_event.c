// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: the kernel's process events, read from a netlink connector socket.
// Invariants: a message is believed only from the kernel and only when it is long enough; per-exit
// accounting of a thread is taken before its exit event, as the kernel sends it earlier; an overrun
// of the buffer is a gap, and /proc is read anew after it.
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/fallback_private.h"

enum {
	BUFFER_BYTES = 8 << 20,
	MESSAGE_MAX = 1024,
	ACKNOWLEDGE_MS = 500,
	DRAIN_MAX = 2 * QUEUE_EVENTS
};

struct subscription {
	struct nlmsghdr netlink;
	struct cn_msg connector;
	enum proc_cn_mcast_op operation;
} __attribute__((packed));

static int subscribe(int fd, enum proc_cn_mcast_op operation)
{
	struct subscription message = {
		.netlink = {.nlmsg_len = sizeof(message), .nlmsg_type = NLMSG_DONE},
		.connector = {.id = {.idx = CN_IDX_PROC, .val = CN_VAL_PROC},
			      .len = sizeof(operation)},
		.operation = operation,
	};

	return send(fd, &message, sizeof(message), 0) == sizeof(message) ? 0 : -errno;
}

// One event out of a datagram; 0, or -errno: nothing to read (-EAGAIN), overrun (-ENOBUFS), not an
// event (-EBADMSG).
static int event_read(int fd, struct proc_event *ret_event)
{
	const size_t head = NLMSG_HDRLEN + sizeof(struct cn_msg);
	_Alignas(8) char message[MESSAGE_MAX];
	struct sockaddr_nl from = {0};
	socklen_t from_size = sizeof(from);
	struct cn_msg connector;
	ssize_t length = recvfrom(fd, message, sizeof(message), MSG_DONTWAIT,
				  (struct sockaddr *)&from, &from_size);

	if (length < 0)
		return -errno;
	if (from.nl_pid != 0 || (size_t)length < head)
		return -EBADMSG;
	memcpy(&connector, message + NLMSG_HDRLEN, sizeof(connector));
	if (connector.id.idx != CN_IDX_PROC || connector.id.val != CN_VAL_PROC ||
	    connector.len > (size_t)length - head ||
	    connector.len < offsetof(struct proc_event, event_data) + 16)
		return -EBADMSG;
	memset(ret_event, 0, sizeof(*ret_event));
	memcpy(ret_event, message + head,
	       connector.len < sizeof(*ret_event) ? connector.len : sizeof(*ret_event));
	return 0;
}

// ---- what happened -------------------------------------------------------------------------------

// A thread began. A process found in /proc after this event had it counted there.
static void on_thread(struct watched *watched, uint64_t boot_ns)
{
	struct counters *counters;

	if (!watched || !watched->process || boot_ns <= watched->first_seen_ns)
		return;
	counters = &watched->process->counters;
	watched->threads++;
	if (++counters->threads > counters->threads_max)
		counters->threads_max = counters->threads;
	if (watched->threads_counted && watched->threads > counters->threads_max)
		counters->threads_max = watched->threads;
}

static void on_fork(struct fallback *fallback, const struct proc_event *event, uint64_t boot_ns)
{
	uint32_t child = (uint32_t)event->event_data.fork.child_tgid;
	struct watched *parent =
		watched_find(fallback, (uint32_t)event->event_data.fork.parent_tgid);
	struct watched *own = watched_find(fallback, child);

	if (event->event_data.fork.child_pid != event->event_data.fork.child_tgid) {
		on_thread(own, boot_ns);
		return;
	}
	if (parent && parent->process)
		fallback_forked(fallback, child, parent, boot_ns);
	else if (!fallback->options.root_pid && !parent)
		fallback_found(fallback, child, false, NULL);
}

static void on_exec(struct fallback *fallback, const struct proc_event *event, uint64_t boot_ns)
{
	struct watched *watched =
		watched_find(fallback, (uint32_t)event->event_data.exec.process_tgid);

	if (!watched || !watched->process || boot_ns <= watched->first_seen_ns)
		return;
	watched->leader_ended =
		false; // an exec from another thread ends the leader and takes its place
	fallback_execed(watched, boot_ns, true);
}

// Whether threads are left. Of a process watched from its fork they are counted; else /proc knows:
// a thread is taken off the count there before its event is sent.
static bool threads_left(const struct watched *watched)
{
	struct proc_stat stat;
	int proc_fd, result;

	if (watched->threads_counted)
		return watched->threads > 0;
	if (!watched->leader_ended)
		return true;
	proc_fd = proc_open(watched->pid);
	if (proc_fd < 0)
		return false;
	result = proc_read_stat(proc_fd, &stat);
	close(proc_fd);
	if (result < 0 ||
	    (watched->start_ticks != UNKNOWN && stat.start_ticks != watched->start_ticks))
		return false;
	return !proc_stat_is_dead(&stat);
}

static void on_exit_event(struct fallback *fallback, const struct proc_event *event,
			  uint64_t boot_ns)
{
	uint32_t tid = (uint32_t)event->event_data.exit.process_pid;
	struct watched *watched =
		watched_find(fallback, (uint32_t)event->event_data.exit.process_tgid);

	if (!watched || !watched->process) {
		stats_take(fallback, tid, NULL);
		if (watched && watched->pid == tid)
			watched_drop(watched);
		return;
	}
	if (boot_ns < watched->process->start_boot_ns)
		return; // of an earlier process with this pid
	stats_take(fallback, tid, watched);
	if (tid == watched->pid)
		watched->leader_ended = true;
	if (watched->process->counters.threads > 1)
		watched->process->counters.threads--;
	if (watched->threads > 0)
		watched->threads--;
	// Every thread that exit_group() or a signal ends carries the status of the group: the last
	// one has it.
	if (tid == watched->pid || event->event_data.exit.exit_code)
		watched->status = (int32_t)event->event_data.exit.exit_code & 0xffff;
	if (!threads_left(watched))
		fallback_ended(watched, boot_ns);
}

static void event_take(struct fallback *fallback, const struct proc_event *event)
{
	uint64_t boot_ns = event->timestamp_ns + fallback->monotonic_to_boot_ns;
	bool ids = fallback->first_user_namespace;
	struct watched *watched;

	switch ((uint32_t)event->what) {
	case PROC_EVENT_FORK:
		on_fork(fallback, event, boot_ns);
		return;
	case PROC_EVENT_EXEC:
		on_exec(fallback, event, boot_ns);
		return;
	case PROC_EVENT_EXIT:
		on_exit_event(fallback, event, boot_ns);
		return;
	case PROC_EVENT_UID:
		watched = watched_find(fallback, (uint32_t)event->event_data.id.process_tgid);
		if (ids && watched && watched->process)
			watched->process->uid = event->event_data.id.r.ruid;
		return;
	case PROC_EVENT_GID:
		watched = watched_find(fallback, (uint32_t)event->event_data.id.process_tgid);
		if (ids && watched && watched->process)
			watched->process->gid = event->event_data.id.r.rgid;
		return;
	default:
		return;
	}
}

static void clock_update(struct fallback *fallback)
{
	struct timespec time;
	uint64_t boot_ns = clock_boot_ns();

	clock_gettime(CLOCK_MONOTONIC, &time);
	fallback->monotonic_to_boot_ns =
		boot_ns - ((uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec);
}

static void overrun(struct fallback *fallback)
{
	fallback->count.overruns++;
	agent_gap(fallback->agent, "fallback", "process events overran the socket's buffer", 1);
	fallback->look_again = true;
	for (struct watched *watched = fallback->first; watched; watched = watched->next)
		watched->threads_counted = false;
}

// Takes what the socket holds into memory, which costs next to nothing, before anything is read in
// /proc: an ordinary user's socket holds a few hundred events. With accounting they are taken one
// by one from a large buffer instead: its records wait for their event in a small table.
static void queue_fill(struct fallback *fallback)
{
	uint32_t room = fallback->stats_fd >= 0 ? 1 : QUEUE_EVENTS;

	while (fallback->queue_count < room) {
		uint32_t at = (fallback->queue_first + fallback->queue_count) % QUEUE_EVENTS;
		int result = event_read(fallback->event_fd, &fallback->queue[at]);

		if (result == -ENOBUFS)
			overrun(fallback);
		else if (result == 0)
			fallback->queue_count++;
		else if (result != -EBADMSG)
			return;
	}
}

void event_drain(struct fallback *fallback)
{
	clock_update(fallback);
	for (int i = 0; i < DRAIN_MAX; i++) {
		const struct proc_event *event = &fallback->queue[fallback->queue_first];

		queue_fill(fallback);
		if (!fallback->queue_count)
			break;
		// The accounting of whatever ended is in its socket before the event is in ours: an
		// event read now has it drained.
		if ((uint32_t)event->what == PROC_EVENT_EXIT)
			stats_drain(fallback);
		event_take(fallback, event);
		fallback->queue_first = (fallback->queue_first + 1) % QUEUE_EVENTS;
		fallback->queue_count--;
	}
	// What the lost events would have told is looked for once the rest was read.
	if (fallback->look_again && !fallback->queue_count) {
		fallback->look_again = false;
		poll_everything(fallback, false);
	}
}

static void on_readable(void *context, int fd, uint32_t epoll_events)
{
	(void)fd;
	(void)epoll_events;
	event_drain(context);
}

// ---- opening -------------------------------------------------------------------------------------

// The kernel answers a subscription with an event that holds 0 or an errno; before 4.x only to
// those who may.
static int acknowledged(int fd)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct proc_event event;

	for (int i = 0; i < 1000; i++) {
		int result;

		if (poll(&wait, 1, ACKNOWLEDGE_MS) <= 0)
			return -ETIMEDOUT;
		result = event_read(fd, &event);
		if (result == -EBADMSG || result == -ENOBUFS || result == -EAGAIN)
			continue;
		if (result < 0)
			return result;
		if ((uint32_t)event.what == PROC_EVENT_NONE)
			return -(int)event.event_data.ack.err;
		return 0; // another event came first: they do come
	}
	return -EBADMSG;
}

static int socket_open(void)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR),
	    size = BUFFER_BYTES;
	int result;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		result = -errno;
		close(fd);
		return result;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	result = subscribe(fd, PROC_CN_MCAST_LISTEN);
	if (result == 0)
		result = acknowledged(fd);
	if (result < 0) {
		close(fd);
		return result;
	}
	return fd;
}

int event_open(struct fallback *fallback, char why[FALLBACK_WHY_SIZE])
{
	int fd, result;

	// Events are sent into any pid namespace, with the pids of the first.
	if (!proc_in_first_pid_namespace()) {
		snprintf(why, FALLBACK_WHY_SIZE,
			 "process events of the kernel (netlink connector): they name other pids "
			 "than those of "
			 "this pid namespace");
		return -ENOTSUP;
	}
	fallback->first_user_namespace = proc_in_first_user_namespace();
	fallback->queue = malloc(QUEUE_EVENTS * sizeof(*fallback->queue));
	fd = fallback->queue ? socket_open() : -ENOMEM;
	if (fd < 0) {
		const char *reason =
			fd == -EPERM || fd == -EACCES ? "needs CAP_NET_ADMIN before Linux 6.6"
			: fd == -EPROTONOSUPPORT || fd == -ETIMEDOUT || fd == -ECONNREFUSED
				? "this kernel, or this namespace, does not send them"
				: strerror(-fd);

		snprintf(why, FALLBACK_WHY_SIZE,
			 "process events of the kernel (netlink connector): %s", reason);
		return fd;
	}
	result = loop_add_fd(fallback->loop, fd, EPOLLIN, on_readable, fallback);
	if (result < 0) {
		close(fd);
		return result;
	}
	fallback->event_fd = fd;
	clock_update(fallback);
	return 0;
}

void event_close(struct fallback *fallback)
{
	free(fallback->queue);
	fallback->queue = NULL;
	if (fallback->event_fd < 0)
		return;
	subscribe(fallback->event_fd, PROC_CN_MCAST_IGNORE);
	loop_remove_fd(fallback->loop, fallback->event_fd);
	close(fallback->event_fd);
	fallback->event_fd = -1;
}
