// SPDX-License-Identifier: Apache-2.0
// Canonical JSON as The Update Framework signs it (OLPC): keys in the order of their bytes, no blank, only quote and
// backslash escaped, whole numbers only. Two documents that mean the same have the same bytes.
#pragma once

#include <yyjson.h>

#include "core/base/buf.h"

enum { CANONICAL_DEPTH = 64 };

// Appends value to out. -EBADMSG: a number that is not whole or beyond 64 bits, a key that comes twice, nested deeper
// than CANONICAL_DEPTH; out is then incomplete. -ENOMEM.
int canonical_encode(yyjson_val *value, struct buf *out);
