// SPDX-License-Identifier: Apache-2.0
// Hand-over, the wire: packets and descriptors. What is cut short is refused whole, and no descriptor is leaked.
#include "core/handover_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int) * HANDOVER_FDS_MAX)];
};

int handover_wire_send(int socket_fd, const void *data, size_t length, const int *fds, size_t fd_count)
{
	struct iovec vector = { .iov_base = (void *)(size_t)data, .iov_len = length };
	struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
	union control control;
	struct cmsghdr *header;

	if (fd_count > HANDOVER_FDS_MAX)
		return -E2BIG;
	if (fd_count) {
		memset(&control, 0, sizeof(control));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
	}
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void fds_take(struct msghdr *message, int *fds, size_t room, size_t *ret_count)
{
	size_t count = 0;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < here; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (count < room)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	*ret_count = count;
}

long handover_wire_receive(int socket_fd, int timeout_ms, void *data, size_t size, int *fds, size_t *fd_count)
{
	struct pollfd poll_fd = { .fd = socket_fd, .events = POLLIN };
	struct iovec vector = { .iov_base = data, .iov_len = size };
	union control control;
	struct msghdr message = {
		.msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	size_t room = *fd_count;
	ssize_t got;

	*fd_count = 0;
	if (poll(&poll_fd, 1, timeout_ms) <= 0)
		return -EAGAIN;
	got = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EINTR ? -EAGAIN : errno == ECONNRESET ? -EPIPE : -errno;
	fds_take(&message, fds, room, fd_count);
	if (got == 0 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		while (*fd_count)
			close(fds[--*fd_count]);
		return got == 0 ? -EPIPE : -EMSGSIZE;
	}
	return got;
}
