// SPDX-License-Identifier: Apache-2.0
// Streamer: the length of a pause. Room 10; knows nothing but its arguments.
#include "core/stream_pause.h"

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL
#define UNKNOWN_INTERVAL_NS (NS_PER_S / 4)

uint64_t stream_pause_ns(unsigned int attempts, uint64_t interval_ns, uint64_t limit_ns, uint64_t retry_after_ns,
			 uint64_t random)
{
	uint64_t least = interval_ns ? interval_ns : UNKNOWN_INTERVAL_NS, window = 3 * least;

	if (retry_after_ns)
		return retry_after_ns + random % (retry_after_ns / 4 + 1);
	for (unsigned int i = 0; i < attempts && window < limit_ns; i++)
		window *= 2;
	if (least >= limit_ns)
		least = 0;
	if (window > limit_ns - least)
		window = limit_ns - least;
	return least + random % (window ? window : 1) + NS_PER_MS;
}

uint64_t stream_age_ns(uint64_t batch_age_ns, uint64_t random)
{
	return batch_age_ns / 2 + random % (batch_age_ns + 1);
}
