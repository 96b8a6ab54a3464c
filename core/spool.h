// SPDX-License-Identifier: Apache-2.0
// The spool: the seam between the collector, which writes, and the streamer, which delivers. An append-only log of
// NDJSON records in segment files; core/spool_format.h has the bytes, core/spool_reader.h the other side.
//
// Guarantees of the writer:
// - A record whose spool_append() has returned survives SIGKILL (it is in the page cache) unless stats.ring_records
//   says that some wait in memory. After at most one tick and group_commit_ns it survives a power cut too
//   (stats.durable).
// - accepted = delivered + pending + dropped[reason...] in every spool_stats(), after any restart too. "damaged" is
//   what is neither delivered nor readable nor dropped for another reason: nothing can leave the sum unnoticed.
// - Damage never keeps it from starting. An unusable directory does not either: records wait in memory, bounded, and
//   every one dropped there is counted under the reason that kept it from the disk. It recovers by itself.
// - Over the cap whole segments are unlinked, oldest first, those of samples before any of processes. Each class has
//   its own segments for that; sequence numbers run over both, so a reader merges them and sees every hole.
//
// One thread. Nothing here waits for the disk to sync: group commit is submitted to the kernel and reaped on a later
// tick (Linux AIO; where the host offers none, spool_tick() itself waits, stats.blocking_sync says so).
// After spool_open() the only path used is the directory descriptor's, except to find a directory that was missing.
// System calls after spool_open(), for a seccomp filter: openat close pwritev pwrite64 pread64 fstat newfstatat
// ftruncate unlinkat flock getdents64 lseek fcntl fdatasync fsync io_submit io_getevents fchmod mkdir stat, and with
// them io_setup io_destroy on a retry and at the end, getrandom when an epoch is drawn, and those of malloc.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spool;

#define SPOOL_DEFAULT_DIRECTORY "/var/lib/tracer/spool"

enum {
	SPOOL_FRAME_MAX = 8 << 20, // bytes of records in one frame
};

enum spool_class {
	SPOOL_PROCESS, // one of its kind, not made up for by a later one: process, gap, oom, conn, container, host
	SPOOL_SAMPLE, // one of a series: sample, cgroup, hostsample, gpu
	SPOOL_CLASS_END,
};

enum spool_reason {
	SPOOL_CAP,
	SPOOL_DISK_FULL,
	SPOOL_READ_ONLY,
	SPOOL_IO_ERROR,
	SPOOL_DAMAGED,
	SPOOL_REASON_END
};

// "cap", "disk_full", "read_only", "io_error", "damaged"
const char *spool_reason_name(enum spool_reason reason);

// Records that were accepted and will not be delivered. The numbers first..last hold count of them; others in that
// range may be well. first and last are 0 when the directory was never readable, so that numbers are not known yet.
struct spool_gap {
	uint64_t first, last, count;
	enum spool_reason reason;
};

// Called from spool_tick() only, so it may append to the spool.
typedef void spool_gap_fn(void *context, const struct spool_gap *gap);

struct spool_options {
	uint64_t segment_bytes; // a segment is closed when the next frame would pass this
	uint64_t cap_bytes; // of all segments together
	uint64_t group_commit_ns;
	uint64_t memory_ring_bytes;
	bool blocking_sync; // never use AIO
	spool_gap_fn *gap; // may be NULL
	void *gap_context;
};

#define SPOOL_OPTIONS_DEFAULT                 \
	{                                     \
		.segment_bytes = 16 << 20,    \
		.cap_bytes = 1ULL << 30,      \
		.group_commit_ns = 50000000,  \
		.memory_ring_bytes = 4 << 20, \
	}

struct spool_stats {
	uint64_t epoch;
	uint64_t accepted; // also the last sequence number given
	uint64_t delivered;
	uint64_t pending; // on disk or in the ring
	uint64_t dropped[SPOOL_REASON_END];
	uint64_t acked; // sequence up to which all is delivered or lost
	uint64_t durable; // sequence up to which nothing waits for the disk
	uint64_t segments, bytes;
	uint64_t gaps; // reported since the start
	uint64_t ring_records, ring_bytes;
	bool ring_active; // records go to memory because of ring_reason and ring_error (errno)
	enum spool_reason ring_reason;
	int ring_error;
	bool blocking_sync;
	uint64_t syncs,
		sync_errors; // a failed sync: frames up to 50 ms old may not survive a power cut
	uint64_t unclean_starts; // times the spool was found not closed
};

// Opens or creates the spool at path and takes its lock. options NULL: the defaults; a segment is at most an eighth of
// the cap. -EBUSY: another writer has it. -EINVAL: options no spool can have (cap under 64 KiB, no group commit, group
// commit over 1 s). -ENOMEM. Every other trouble starts it in memory, see stats.ring_active.
int spool_open(const char *path, const struct spool_options *options, struct spool **ret_spool);

// Takes records, each ended by a newline and none empty, as one frame: give it a batch. count must be the number of
// newlines. -EINVAL when it is not so; -EMSGSIZE when one record is over SPOOL_FRAME_MAX (nothing is taken then).
// 0 otherwise: the records are accepted, whatever becomes of the disk.
int spool_append(struct spool *spool, const char *records, size_t length, uint32_t count,
		 enum spool_class class);

// The same for who wrote the lines one by one and counted them: what fits into one frame is not looked through again.
int spool_append_counted(struct spool *spool, const char *records, size_t length, uint32_t count,
			 enum spool_class class);

// Group commit at once, for whoever appends in bursts: called after one, its records need no tick. True: something
// waits all the same (for the disk to take records again, for a commit not half a group_commit_ns old or not done yet),
// so ticks are due.
bool spool_commit(struct spool *spool, uint64_t now_boot_ns);

// Group commit, recovery, the cursor, the gaps. Call every 50 ms or sooner while something waits, else each second.
void spool_tick(struct spool *spool, uint64_t now_boot_ns);

void spool_stats(const struct spool *spool, struct spool_stats *ret_stats);

// Writes and syncs what is left, seals, frees. Takes NULL. 0, or -errno when records had to be dropped from memory.
int spool_close(struct spool *spool);
