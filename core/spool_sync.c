// SPDX-License-Identifier: Apache-2.0
// Spool: syncing without waiting. Linux AIO rather than a thread: the request runs with our credentials in the kernel's
// own worker, so dropping privileges and seccomp need no second thought, and closing the file does not cancel it.
// A host without AIO (or with its aio-max-nr used up) gets plain waiting syncs.
#include "core/spool_sync.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void spool_sync_init(struct spool_sync *sync, bool blocking)
{
	*sync = (struct spool_sync){.blocking = blocking};
	if (!blocking && syscall(SYS_io_setup, SPOOL_SYNC_SLOTS, &sync->context) < 0)
		sync->blocking = true;
}

static void reap(struct spool_sync *sync, long at_least, struct timespec *timeout)
{
	struct io_event events[SPOOL_SYNC_SLOTS];
	long count;

	do
		count = syscall(SYS_io_getevents, sync->context, at_least, (long)SPOOL_SYNC_SLOTS,
				events, timeout);
	while (count < 0 && errno == EINTR);
	for (long i = 0; i < count; i++) {
		sync->done++;
		if (events[i].res < 0)
			sync->errors++;
		sync->slot[events[i].data].first = 0;
	}
	if (count >= 0)
		return;
	// The context is gone, which only a kernel that refuses its own request could do: do not wait for ever.
	for (unsigned int i = 0; i < SPOOL_SYNC_SLOTS; i++) {
		sync->errors += sync->slot[i].first != 0;
		sync->slot[i].first = 0;
	}
	sync->blocking = true;
}

static bool any(const struct spool_sync *sync)
{
	return spool_sync_first(sync) != UINT64_MAX;
}

void spool_sync_reap(struct spool_sync *sync)
{
	if (!sync->blocking && any(sync))
		reap(sync, 0, &(struct timespec){0});
}

void spool_sync_drain(struct spool_sync *sync)
{
	while (!sync->blocking && any(sync))
		reap(sync, 1, NULL);
}

void spool_sync_free(struct spool_sync *sync)
{
	spool_sync_drain(sync);
	if (!sync->blocking)
		syscall(SYS_io_destroy, sync->context);
	sync->blocking = true;
}

static void sync_now(struct spool_sync *sync, int fd, bool data_only)
{
	int result;

	do
		result = data_only ? fdatasync(fd) : fsync(fd);
	while (result < 0 && errno == EINTR);
	sync->done++;
	if (result < 0)
		sync->errors++;
}

void spool_sync_submit(struct spool_sync *sync, int fd, bool data_only, uint64_t first, int tag)
{
	struct iocb *requests[1];
	unsigned int i = 0;

	if (sync->blocking) {
		sync_now(sync, fd, data_only);
		return;
	}
	for (;; reap(sync, 1, NULL)) {
		for (i = 0; i < SPOOL_SYNC_SLOTS && sync->slot[i].first != 0; i++)
			;
		if (i < SPOOL_SYNC_SLOTS)
			break;
	}
	requests[0] = &sync->slot[i].request;
	*requests[0] = (struct iocb){
		.aio_data = i,
		.aio_lio_opcode = data_only ? IOCB_CMD_FDSYNC : IOCB_CMD_FSYNC,
		.aio_fildes = (uint32_t)fd,
	};
	sync->slot[i].first = first;
	sync->slot[i].tag = tag;
	if (syscall(SYS_io_submit, sync->context, 1L, requests) != 1) {
		sync->slot[i].first = 0;
		sync_now(sync, fd, data_only);
	}
}

bool spool_sync_busy(const struct spool_sync *sync, int tag)
{
	for (unsigned int i = 0; i < SPOOL_SYNC_SLOTS; i++)
		if (sync->slot[i].first != 0 && sync->slot[i].tag == tag)
			return true;
	return false;
}

uint64_t spool_sync_first(const struct spool_sync *sync)
{
	uint64_t first = UINT64_MAX;

	for (unsigned int i = 0; i < SPOOL_SYNC_SLOTS; i++)
		if (sync->slot[i].first != 0 && sync->slot[i].first < first)
			first = sync->slot[i].first;
	return first;
}
