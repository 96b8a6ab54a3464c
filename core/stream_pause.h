// SPDX-License-Identifier: Apache-2.0
// How long the streamer waits after an attempt that brought nothing. A pure function, so that a load generator can be
// ten thousand streamers.
#pragma once

#include <stdint.h>

// attempts: failed ones in a row, before this. interval_ns: what usually lies between two batches of this streamer, 0
// not known. retry_after_ns: what the server asked for, 0 nothing. random: any number. Never 0.
//
// Some time between the usual interval and a limit, four intervals (1 s where they are not known) at first, that
// doubles up to limit_ns: agents which lost their server together do not come back together, and none asks more often
// than it posts when all is well, so that ten thousand who try again are never more requests than they usually are.
// What the server asked for is kept, and up to a quarter more for the same reason.
uint64_t stream_pause_ns(unsigned int attempts, uint64_t interval_ns, uint64_t limit_ns, uint64_t retry_after_ns,
			 uint64_t random);

// At what age a batch is sent: batch_age_ns, half of it more or less, so that streamers that were answered together,
// after a moment in which the server stood still, do not post together from then on.
uint64_t stream_age_ns(uint64_t batch_age_ns, uint64_t random);
