// SPDX-License-Identifier: Apache-2.0
// Local views of the collector: a unix socket that writes one snapshot to whoever connects, and closes. It never reads
// a byte, so a client can ask for nothing and can send nothing. Clients are few, bounded in time and share one
// snapshot: a slow or hostile one costs the collector a descriptor for STATUS_CLIENT_MAX_NS and no memory of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "core/base/json.h"

#define STATUS_SOCKET "/run/tracer/status.sock"
#define STATUS_PROCESSES_SOCKET "/run/tracer/processes.sock"

enum { STATUS_CLIENTS_MAX = 16 };
#define STATUS_CLIENT_MAX_NS UINT64_C(5000000000)
#define STATUS_SNAPSHOT_MIN_NS \
	UINT64_C(100000000) // least time between two; clients in between get the older
#define STATUS_SNAPSHOT_MAX ((size_t)64 * 1024 * 1024)

struct loop;
struct status_server;

// Appends the snapshot. Called from the loop when a client comes and no older snapshot is being sent.
typedef void status_fill_fn(void *context, struct buf *out);

// Opens a socket at path with that mode and group ((gid_t)-1: as it is). Its directory is made when missing. A socket
// nobody listens on any more is replaced. -EADDRINUSE: another collector serves it; -EEXIST: the path is something
// else; -ENAMETOOLONG; -errno. loop is borrowed.
int status_server_open(struct loop *loop, const char *path, mode_t mode, gid_t group,
		       status_fill_fn *fill, void *context, struct status_server **ret_server);

// The same with the socket of an image before this one. -ENOENT: it is not the one at path.
int status_server_adopt(struct loop *loop, const char *path, int fd, status_fill_fn *fill, void *context,
			struct status_server **ret_server);

// What another image may adopt; -1 for NULL.
int status_server_fd(const struct status_server *server);

// Unlinks the socket and drops its clients. Takes NULL.
void status_server_close(struct status_server *server);

// Clients served whole, cut short (slow, gone, or the snapshot failed), and turned away (too many at once).
struct status_counts {
	uint64_t served, cut, refused;
};
void status_server_counts(const struct status_server *server, struct status_counts *ret_counts);

// What is resident of a process: counted by the kernel page by page (smaps_rollup), or, where its rights hide that, as
// the kernel keeps it (statm), which may lag behind by some pages for each CPU. JSON_UNKNOWN: neither can be read.
uint64_t status_rss_bytes(uint64_t pid);

// Appends the members that tell of this process itself: version, pid (main_pid: whom signals reach), collector_pid,
// uptime_ns, cpu_ns, rss_bytes, refused_calls.
void status_write_self(struct json *json, uint64_t main_pid, uint64_t started_boot_ns);

// The other side: connects and reads a whole snapshot, waiting at most timeout_ns. -ECONNREFUSED or -ENOENT: no
// collector; -EACCES; -ETIMEDOUT; -EFBIG: more than STATUS_SNAPSHOT_MAX.
int status_fetch(const char *path, uint64_t timeout_ns, struct buf *out);
