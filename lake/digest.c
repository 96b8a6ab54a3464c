// SPDX-License-Identifier: Apache-2.0
// Lake, the digest of bodies: every batch is summed before anything else is done with it, and in portable code that
// costs as much as unpacking it. Nothing here is secret.

#include "lake/digest.h"

#include <sodium.h>

_Static_assert((int)DIGEST_BYTES == (int)crypto_hash_sha256_BYTES, "SHA-256");

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_BYTES = 64, LENGTH_BYTES = 8 };

static bool usable;
static pthread_once_t usable_once = PTHREAD_ONCE_INIT;

static void usable_find(void)
{
	unsigned a, b, c, d, extended;

	if (!__get_cpuid_count(7, 0, &a, &extended, &c, &d) || !__get_cpuid(1, &a, &b, &c, &d))
		return;
	usable = extended & bit_SHA && c & bit_SSSE3 && c & bit_SSE4_1;
}

static const uint32_t constants[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

// state: as the instructions want it, {f, e, b, a} and {h, g, d, c} from the lowest word on.
__attribute__((target("sha,sse4.1"))) static void blocks(__m128i state[2], const unsigned char *data, size_t count)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i abef = state[0], cdgh = state[1];

	for (; count > 0; count--, data += BLOCK_BYTES) {
		__m128i abef_before = abef, cdgh_before = cdgh, w[4];

#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) {
			__m128i sum;

			// W[t-16] + s0(W[t-15]) + W[t-7] + s1(W[t-2]), four at a time.
			if (i < 4)
				w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(data + i * 16)),
							swap);
			else
				w[i & 3] = _mm_sha256msg2_epu32(
					_mm_add_epi32(_mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]),
						      _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4)),
					w[(i + 3) & 3]);
			sum = _mm_add_epi32(w[i & 3],
					    _mm_load_si128((const __m128i *)(const void *)(constants + i * 4)));
			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
		}
		abef = _mm_add_epi32(abef, abef_before);
		cdgh = _mm_add_epi32(cdgh, cdgh_before);
	}
	state[0] = abef;
	state[1] = cdgh;
}

static void sum(const unsigned char *data, size_t length, unsigned char *digest)
{
	__m128i state[2] = {
		_mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c),
		_mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19),
	};
	size_t whole = length / BLOCK_BYTES, left = length % BLOCK_BYTES;
	size_t last = left + 1 + LENGTH_BYTES > BLOCK_BYTES ? 2 : 1;
	unsigned char end[2 * BLOCK_BYTES] = {0};
	uint32_t words[8], order[8];
	uint64_t bits = __builtin_bswap64((uint64_t)length * 8);

	memcpy(end, data + length - left, left);
	end[left] = 0x80;
	memcpy(end + last * BLOCK_BYTES - LENGTH_BYTES, &bits, LENGTH_BYTES);
	blocks(state, data, whole);
	blocks(state, end, last);
	memcpy(words, state, sizeof(words)); // f e b a h g d c
	order[0] = words[3];
	order[1] = words[2];
	order[2] = words[7];
	order[3] = words[6];
	order[4] = words[1];
	order[5] = words[0];
	order[6] = words[5];
	order[7] = words[4];
	for (int i = 0; i < 8; i++)
		order[i] = __builtin_bswap32(order[i]);
	memcpy(digest, order, DIGEST_BYTES);
}

void digest_sha256(const void *data, size_t length, unsigned char ret_digest[DIGEST_BYTES])
{
	pthread_once(&usable_once, usable_find);
	if (usable && length > 0)
		sum(data, length, ret_digest);
	else
		crypto_hash_sha256(ret_digest, data, length);
}
#else
void digest_sha256(const void *data, size_t length, unsigned char ret_digest[DIGEST_BYTES])
{
	crypto_hash_sha256(ret_digest, data, length);
}
#endif
