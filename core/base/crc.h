// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli, RFC 3720 appendix B.4), with the SSE4.2 or Armv8 instruction where the CPU has it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Start with crc = 0; feed the result back in to continue.
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

// The same without the CPU's instruction: the fallback of crc32c(), named so that a test reaches it anywhere.
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t length);
