// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of a body.
#pragma once

#include <stddef.h>

enum { DIGEST_BYTES = 32 };

// By the CPU's own instructions where it has them, else by libsodium, which takes ten times as long.
void digest_sha256(const void *data, size_t length, unsigned char ret_digest[DIGEST_BYTES]);
