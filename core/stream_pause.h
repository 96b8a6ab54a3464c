// SPDX-License-Identifier: Apache-2.0
// How long the streamer waits after an attempt that brought nothing. A pure function, so that a load generator can be
// ten thousand streamers.
#pragma once

#include <stdint.h>

// attempts: failed ones in a row, before this. retry_after_ns: what the server asked for, 0 nothing. random: any
// number. Never 0.
//
// Full jitter: some time below a limit that doubles from 1 s to limit_ns, so that agents which lost their server
// together do not come back together. What the server asked for is kept, and up to a quarter more for the same reason.
uint64_t stream_pause_ns(unsigned int attempts, uint64_t limit_ns, uint64_t retry_after_ns, uint64_t random);
