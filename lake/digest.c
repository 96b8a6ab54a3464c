// SPDX-License-Identifier: Apache-2.0
// Lake: SHA-256 (FIPS 180-4) with the x86 SHA extensions where the CPU has them, else libsodium's. For digests that
// tell damage; what signs or keeps a secret uses libsodium itself. tests/unit/test_lake_digest.c compares the two.

#include "lake/digest.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

enum { BLOCK = 64, LENGTH_AT = BLOCK - 8 };

static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static bool cpu_has_sha(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1) &&
	       __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

// The instruction keeps the eight words as (a b e f) and (c d g h), highest first.
__attribute__((target("sha,ssse3,sse4.1"))) static void blocks(__m128i state[2], const unsigned char *at, size_t count)
{
	const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);

	for (; count > 0; count--, at += BLOCK) {
		__m128i abef = state[0], cdgh = state[1], word[4];

		for (int i = 0; i < 4; i++)
			word[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i)), turn);
#pragma GCC unroll 16
		for (int i = 0; i < 16; i++) { // four rounds each
			__m128i sum = _mm_add_epi32(
				word[i & 3], _mm_loadu_si128((const __m128i *)(const void *)&constants[4 * i]));

			cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
			abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
			if (i < 12) {
				__m128i next = _mm_sha256msg1_epu32(word[i & 3], word[(i + 1) & 3]);

				next = _mm_add_epi32(next, _mm_alignr_epi8(word[(i + 3) & 3], word[(i + 2) & 3], 4));
				word[i & 3] = _mm_sha256msg2_epu32(next, word[(i + 3) & 3]);
			}
		}
		state[0] = _mm_add_epi32(state[0], abef);
		state[1] = _mm_add_epi32(state[1], cdgh);
	}
}

static void by_cpu(const void *data, size_t length, unsigned char ret_digest[DIGEST_BYTES])
{
	__m128i state[2] = {
		_mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c),
		_mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19),
	};
	size_t left = length % BLOCK, padded = left < LENGTH_AT ? BLOCK : 2 * BLOCK;
	unsigned char last[2 * BLOCK] = {0};
	uint64_t bits = __builtin_bswap64((uint64_t)length * 8);
	uint32_t word[8];

	blocks(state, data, length / BLOCK);
	if (left)
		memcpy(last, (const unsigned char *)data + length - left, left);
	last[left] = 0x80;
	memcpy(last + padded - 8, &bits, 8);
	blocks(state, last, padded / BLOCK);
	memcpy(word, state, sizeof(word));
	for (int i = 0; i < 8; i++) {
		static const uint8_t place[8] = {3, 2, 7, 6, 1, 0, 5, 4}; // of a to h
		uint32_t turned = __builtin_bswap32(word[place[i]]);

		memcpy(ret_digest + 4 * i, &turned, 4);
	}
}

void digest_sha256(const void *data, size_t length, unsigned char ret_digest[DIGEST_BYTES])
{
	static int has; // 1: yes, -1: no
	int known = __atomic_load_n(&has, __ATOMIC_RELAXED);

	if (!known)
		__atomic_store_n(&has, known = cpu_has_sha() ? 1 : -1, __ATOMIC_RELAXED);
	if (known > 0)
		by_cpu(data, length, ret_digest);
	else
		crypto_hash_sha256(ret_digest, data, length);
}
#else
void digest_sha256(const void *data, size_t length, unsigned char ret_digest[DIGEST_BYTES])
{
	crypto_hash_sha256(ret_digest, data, length);
}
#endif
