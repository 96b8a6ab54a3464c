// SPDX-License-Identifier: Apache-2.0
// Base: the clocks. Boot time orders and measures; wall time is only made from it, at the edge.
#include "core/base/clock.h"

#include <time.h>

#define NS_PER_S 1000000000ULL
#define OFFSET_READINGS 5

static uint64_t clock_read(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_boot_ns(void)
{
	return clock_read(CLOCK_BOOTTIME);
}

uint64_t clock_real_ns(void)
{
	return clock_read(CLOCK_REALTIME);
}

uint64_t clock_thread_cpu_ns(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t clock_process_cpu_ns(void)
{
	return clock_read(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_offset_update(struct clock_offset *offset)
{
	uint64_t best_width = UINT64_MAX;
	int64_t best = 0, moved;

	// A preemption between two readings only widens the bracket: the narrowest one is the least disturbed.
	for (int i = 0; i < OFFSET_READINGS; i++) {
		uint64_t before = clock_boot_ns();
		uint64_t real = clock_real_ns();
		uint64_t after = clock_boot_ns();

		if (after - before < best_width) {
			best_width = after - before;
			best = (int64_t)(real - (before + (after - before) / 2));
		}
	}
	moved = best - offset->boot_to_real_ns;
	offset->boot_to_real_ns = best;
	return moved;
}

uint64_t clock_to_real_ns(const struct clock_offset *offset, uint64_t boot_ns)
{
	return boot_ns + (uint64_t)offset->boot_to_real_ns;
}
