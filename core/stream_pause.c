// SPDX-License-Identifier: Apache-2.0
// Streamer: the length of a pause. Room 10; knows nothing but its arguments.
#include "core/stream_pause.h"

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL
#define RETRY_BASE_NS NS_PER_S

uint64_t stream_pause_ns(unsigned int attempts, uint64_t limit_ns, uint64_t retry_after_ns, uint64_t random)
{
	uint64_t window = RETRY_BASE_NS;

	if (retry_after_ns)
		return retry_after_ns + random % (retry_after_ns / 4 + 1);
	for (unsigned int i = 0; i < attempts && window < limit_ns; i++)
		window *= 2;
	window = window < limit_ns ? window : limit_ns;
	return random % (window ? window : 1) + NS_PER_MS;
}
