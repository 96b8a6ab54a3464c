// SPDX-License-Identifier: Apache-2.0
// One packet with descriptors over a socket pair: what parent and images, and image and image, speak through.
#pragma once

#include <stddef.h>

enum { HANDOVER_FDS_MAX = 250 }; // the kernel's SCM_MAX_FD is 253

// 0 or -errno; -EAGAIN when the other side does not take it.
int handover_wire_send(int socket_fd, const void *data, size_t length, const int *fds, size_t fd_count);
// Waits up to timeout_ms. Returns the length; -EAGAIN nothing came, -EPIPE the other side is gone, -EMSGSIZE it did not
// fit (its descriptors are closed). *fd_count: room before, number of descriptors after, each close-on-exec.
long handover_wire_receive(int socket_fd, int timeout_ms, void *data, size_t size, int *fds, size_t *fd_count);
