// SPDX-License-Identifier: Apache-2.0
// Syncs that nobody waits for: fdatasync and fsync submitted to the kernel (Linux AIO) and reaped later.
#pragma once

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>

enum { SPOOL_SYNC_SLOTS = 16 };

struct spool_sync {
	aio_context_t context;
	bool blocking; // no AIO: a sync is done before submit returns
	struct {
		struct iocb request;
		uint64_t first; // 0: free
		int tag;
	} slot[SPOOL_SYNC_SLOTS];
	uint64_t done, errors;
};

void spool_sync_init(struct spool_sync *sync, bool blocking);
void spool_sync_free(struct spool_sync *sync); // waits for what is under way

// Syncs fd, which may be closed right after. first: the lowest sequence that waits for this sync, at least 1.
// Waits only when every slot is taken. data_only: fdatasync, else fsync.
void spool_sync_submit(struct spool_sync *sync, int fd, bool data_only, uint64_t first, int tag);

void spool_sync_reap(struct spool_sync *sync); // never waits
void spool_sync_drain(struct spool_sync *sync); // waits for all

bool spool_sync_busy(const struct spool_sync *sync, int tag);
uint64_t
spool_sync_first(const struct spool_sync *sync); // lowest sequence that waits; UINT64_MAX none
