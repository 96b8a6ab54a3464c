// SPDX-License-Identifier: Apache-2.0
// A whole gzip member from one buffer into another, for bodies of agents, by libdeflate: twice as fast as a streaming
// library, since it knows both ends from the start.
#pragma once

#include <stddef.h>

#include "core/base/buf.h"

enum { INFLATE_SLACK = 64 }; // zeros behind what was inflated

// Appends what data holds: one gzip member (RFC 1952) and nothing behind it. -EBADMSG: it is none, is cut off or
// damaged, or its size is not the one it tells; -E2BIG: it tells more than max; -ENOMEM. out is unchanged but for
// memory on failure.
int gzip_inflate(const void *data, size_t size, size_t max, struct buf *out);
