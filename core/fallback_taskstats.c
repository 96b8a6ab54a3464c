// SPDX-License-Identifier: Apache-2.0
// Room reader, without BPF: the kernel's accounting of each thread at its exit, read from generic
// netlink (taskstats). Invariants: records wait, by thread id, for the exit event that names their
// process; lengths are checked before use; a field that an older kernel's record does not reach
// stays UNKNOWN. It must not end a process.
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/loop.h"
#include "core/fallback_private.h"

enum { BUFFER_BYTES = 8 << 20, MESSAGE_MAX = 4096, ANSWER_MS = 500, WAITING = 4096, KIB = 1024 };

// What is kept of one ended thread until its exit event.
struct thread_stats {
	uint32_t tid; // 0: none
	char comm[PROC_COMM_SIZE];
	struct counters counters;
	uint64_t peak_rss_bytes, reclaim_ns, compaction_ns;
};

struct fallback_stats {
	struct thread_stats waiting[WAITING]; // by tid modulo WAITING
};

// ---- generic netlink -----------------------------------------------------------------------------

struct message {
	struct nlmsghdr netlink;
	struct genlmsghdr generic;
	char data[MESSAGE_MAX];
};

static void attribute_put(struct message *message, uint16_t type, const void *value, size_t size)
{
	size_t at = NLMSG_ALIGN(message->netlink.nlmsg_len) - sizeof(message->netlink) -
		    sizeof(message->generic);
	struct nlattr attribute = {.nla_len = (uint16_t)(NLA_HDRLEN + size), .nla_type = type};

	memcpy(message->data + at, &attribute, sizeof(attribute));
	memcpy(message->data + at + NLA_HDRLEN, value, size);
	message->netlink.nlmsg_len =
		NLMSG_ALIGN(message->netlink.nlmsg_len) + (uint32_t)NLA_ALIGN(attribute.nla_len);
}

// Finds an attribute among size bytes; returns its value, or NULL.
static const char *attribute_find(const char *data, size_t size, uint16_t type, size_t *ret_size)
{
	while (size >= NLA_HDRLEN) {
		struct nlattr attribute;
		size_t whole;

		memcpy(&attribute, data, sizeof(attribute));
		if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > size)
			return NULL;
		if ((attribute.nla_type & NLA_TYPE_MASK) == type) {
			*ret_size = attribute.nla_len - NLA_HDRLEN;
			return data + NLA_HDRLEN;
		}
		whole = NLA_ALIGN((size_t)attribute.nla_len);
		if (whole > size)
			return NULL;
		data += whole;
		size -= whole;
	}
	return NULL;
}

static struct message request(uint16_t family, uint8_t command, uint8_t version)
{
	return (struct message){
		.netlink = {.nlmsg_len = sizeof(struct nlmsghdr) + sizeof(struct genlmsghdr),
			    .nlmsg_type = family,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.generic = {.cmd = command, .version = version},
	};
}

// Sends a request and reads until its acknowledgement. What answers it stays in *reply (its length
// is returned, 0: none).
static ssize_t exchange(int fd, const struct message *message, struct message *reply)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	ssize_t answer = 0;

	if (send(fd, message, message->netlink.nlmsg_len, 0) < 0)
		return -errno;
	while (poll(&wait, 1, ANSWER_MS) > 0) {
		struct message received;
		struct nlmsgerr error;
		ssize_t length = recv(fd, &received, sizeof(received), MSG_DONTWAIT);

		if (length < (ssize_t)sizeof(received.netlink) ||
		    received.netlink.nlmsg_len > (size_t)length)
			return length < 0 ? -errno : -EBADMSG;
		if (received.netlink.nlmsg_type != NLMSG_ERROR) {
			memcpy(reply, &received, (size_t)length);
			answer = length;
			continue;
		}
		if ((size_t)length < NLMSG_HDRLEN + sizeof(error.error))
			return -EBADMSG;
		memcpy(&error.error, (const char *)&received + NLMSG_HDRLEN, sizeof(error.error));
		return error.error < 0 ? error.error : answer;
	}
	return -ETIMEDOUT;
}

static int family_find(int fd, uint16_t *ret_family)
{
	struct message message = request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1), reply;
	size_t head = sizeof(reply.netlink) + sizeof(reply.generic), size;
	ssize_t length;
	const char *value;

	attribute_put(&message, CTRL_ATTR_FAMILY_NAME, TASKSTATS_GENL_NAME,
		      sizeof(TASKSTATS_GENL_NAME));
	length = exchange(fd, &message, &reply);
	if (length < 0)
		return (int)length;
	value = (size_t)length > head ? attribute_find(reply.data, (size_t)length - head,
						       CTRL_ATTR_FAMILY_ID, &size)
				      : NULL;
	if (!value || size < sizeof(*ret_family))
		return -ENOENT;
	memcpy(ret_family, value, sizeof(*ret_family));
	return 0;
}

static int listen_on_cpus(int fd, uint16_t family)
{
	struct message message = request(family, TASKSTATS_CMD_GET, TASKSTATS_GENL_VERSION), reply;
	CLEANUP(buf_free) struct buf cpus = BUF_INIT;
	int result = fs_read("/sys/devices/system/cpu/possible", 256, &cpus);
	ssize_t length;

	if (result < 0)
		return result;
	while (cpus.length && cpus.data[cpus.length - 1] == '\n')
		cpus.data[--cpus.length] = '\0';
	attribute_put(&message, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, cpus.data, cpus.length + 1);
	length = exchange(fd, &message, &reply);
	return length < 0 ? (int)length : 0;
}

// ---- records -------------------------------------------------------------------------------------

// Whether a record of this size has the field.
#define HAS(size, field) \
	((size) >= offsetof(struct taskstats, field) + sizeof(((struct taskstats *)0)->field))

static void record_take(struct fallback *fallback, const char *data, size_t size)
{
	struct taskstats from = {0};
	struct thread_stats *to;

	if (!HAS(size, nivcsw))
		return;
	memcpy(&from, data, size < sizeof(from) ? size : sizeof(from));
	to = &fallback->stats->waiting[from.ac_pid % WAITING];
	*to = (struct thread_stats){
		.tid = from.ac_pid,
		.counters =
			{
				.cpu_ns = from.cpu_run_virtual_total
						  ? from.cpu_run_virtual_total
						  : (from.ac_utime + from.ac_stime) * 1000,
				.utime_ns = from.ac_utime * 1000,
				.stime_ns = from.ac_stime * 1000,
				.run_delay_ns = from.cpu_count ? from.cpu_delay_total : UNKNOWN,
				.voluntary_switches = from.nvcsw,
				.involuntary_switches = from.nivcsw,
				.minor_faults = from.ac_minflt,
				.major_faults = from.ac_majflt,
				.rchar_bytes = from.read_char,
				.wchar_bytes = from.write_char,
				.read_syscalls = from.read_syscalls,
				.write_syscalls = from.write_syscalls,
				.read_bytes = from.read_bytes,
				.write_bytes = from.write_bytes,
				.cancelled_write_bytes = from.cancelled_write_bytes,
			},
		.peak_rss_bytes = from.hiwater_rss ? from.hiwater_rss * KIB : UNKNOWN,
		.reclaim_ns = fallback->delays_on && HAS(size, freepages_delay_total)
				      ? from.freepages_delay_total
				      : UNKNOWN,
		.compaction_ns = fallback->delays_on && HAS(size, compact_delay_total)
					 ? from.compact_delay_total
					 : UNKNOWN,
	};
	memcpy(to->comm, from.ac_comm, PROC_COMM_SIZE - 1);
}

static void sum(__u64 *to, uint64_t from)
{
	*to = *to == UNKNOWN || from == UNKNOWN ? UNKNOWN : *to + from;
}

static void sum_long(uint64_t *to, uint64_t from)
{
	*to = *to == UNKNOWN ? from : from == UNKNOWN ? *to : *to + from;
}

static void counters_sum(struct counters *to, const struct counters *from)
{
	sum(&to->cpu_ns, from->cpu_ns);
	sum(&to->utime_ns, from->utime_ns);
	sum(&to->stime_ns, from->stime_ns);
	sum(&to->run_delay_ns, from->run_delay_ns);
	sum(&to->voluntary_switches, from->voluntary_switches);
	sum(&to->involuntary_switches, from->involuntary_switches);
	sum(&to->minor_faults, from->minor_faults);
	sum(&to->major_faults, from->major_faults);
	sum(&to->rchar_bytes, from->rchar_bytes);
	sum(&to->wchar_bytes, from->wchar_bytes);
	sum(&to->read_syscalls, from->read_syscalls);
	sum(&to->write_syscalls, from->write_syscalls);
	sum(&to->read_bytes, from->read_bytes);
	sum(&to->write_bytes, from->write_bytes);
	sum(&to->cancelled_write_bytes, from->cancelled_write_bytes);
}

void stats_take(struct fallback *fallback, uint32_t tid, struct watched *watched)
{
	struct thread_stats *stats;

	if (!fallback->stats)
		return;
	stats = &fallback->stats->waiting[tid % WAITING];
	if (stats->tid != tid) {
		if (watched)
			watched->stats_missed = true;
		return;
	}
	stats->tid = 0;
	if (!watched)
		return;
	watched->threads_met++;
	counters_sum(&watched->ended, &stats->counters);
	if (stats->peak_rss_bytes != UNKNOWN &&
	    (watched->ended_peak_rss_bytes == UNKNOWN ||
	     stats->peak_rss_bytes > watched->ended_peak_rss_bytes))
		watched->ended_peak_rss_bytes = stats->peak_rss_bytes;
	sum_long(&watched->reclaim_ns, stats->reclaim_ns);
	sum_long(&watched->compaction_ns, stats->compaction_ns);
	if (tid == watched->pid)
		memcpy(watched->process->image->comm, stats->comm, PROC_COMM_SIZE);
}

// One datagram: a thread's record, and the group's sum behind it, which lacks I/O and faults and is
// not used.
static int datagram_take(struct fallback *fallback)
{
	struct message message;
	struct sockaddr_nl from = {0};
	socklen_t from_size = sizeof(from);
	size_t head = sizeof(message.netlink) + sizeof(message.generic), size, stats_size;
	ssize_t length = recvfrom(fallback->stats_fd, &message, sizeof(message), MSG_DONTWAIT,
				  (struct sockaddr *)&from, &from_size);
	const char *thread, *stats;

	if (length < 0)
		return -errno;
	if (from.nl_pid != 0 || (size_t)length < head ||
	    message.netlink.nlmsg_len > (size_t)length ||
	    message.netlink.nlmsg_type != fallback->stats_family ||
	    message.generic.cmd != TASKSTATS_CMD_NEW)
		return -EBADMSG;
	thread =
		attribute_find(message.data, (size_t)length - head, TASKSTATS_TYPE_AGGR_PID, &size);
	stats = thread ? attribute_find(thread, size, TASKSTATS_TYPE_STATS, &stats_size) : NULL;
	if (!stats)
		return -EBADMSG;
	record_take(fallback, stats, stats_size);
	return 0;
}

void stats_drain(struct fallback *fallback)
{
	if (fallback->stats_fd < 0)
		return;
	for (;;) {
		int result = datagram_take(fallback);

		if (result == -ENOBUFS)
			agent_gap(fallback->agent, "fallback",
				  "accounting records overran the socket's buffer", 1);
		else if (result < 0 && result != -EBADMSG)
			return;
	}
}

static void on_readable(void *context, int fd, uint32_t epoll_events)
{
	(void)fd;
	(void)epoll_events;
	stats_drain(context);
}

// ---- opening -------------------------------------------------------------------------------------

static int socket_open(uint16_t *ret_family)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_GENERIC),
	    size = BUFFER_BYTES;
	int result;

	if (fd < 0)
		return -errno;
	result = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0
			 ? -errno
			 : family_find(fd, ret_family);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (result == 0)
		result = listen_on_cpus(fd, *ret_family);
	if (result < 0) {
		close(fd);
		return result;
	}
	return fd;
}

int stats_open(struct fallback *fallback)
{
	CLEANUP(buf_free) struct buf delays = BUF_INIT;
	int fd = socket_open(&fallback->stats_family), result;

	if (fd < 0)
		return fd;
	fallback->stats = calloc(1, sizeof(*fallback->stats));
	result = fallback->stats ? loop_add_fd(fallback->loop, fd, EPOLLIN, on_readable, fallback)
				 : -ENOMEM;
	if (result < 0) {
		close(fd);
		return result;
	}
	fallback->stats_fd = fd;
	fallback->delays_on = fs_read("/proc/sys/kernel/task_delayacct", 16, &delays) == 0 &&
			      delays.length && delays.data[0] == '1';
	return 0;
}

void stats_close(struct fallback *fallback)
{
	if (fallback->stats_fd >= 0) {
		loop_remove_fd(fallback->loop, fallback->stats_fd);
		close(fallback->stats_fd);
	}
	fallback->stats_fd = -1;
	free(fallback->stats);
	fallback->stats = NULL;
}
