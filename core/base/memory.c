// SPDX-License-Identifier: Apache-2.0
// Base: memcpy, memmove, memcmp and memchr in place of musl's. Those go byte by byte, or begin a string instruction
// that costs more than most copies here are long; this program and its libraries (SQLite, zlib) live on short ones.
// Without these four, storing records takes a tenth more CPU (tests/bench/store_speed.c, median of 24 rounds in turns).
// Words that overlap at the end, so that nothing behind length is touched. Not under the sanitizers, which have theirs.
#if defined(__x86_64__) && (!defined(TRACER_SANITIZE) || defined(MEMORY_TESTED))
#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __clang__
#define PLAIN __attribute__((no_builtin))
#else
#define PLAIN __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

enum { STRING_FROM = 1024 }; // bytes from which on the CPU's own copy pays

typedef uint64_t word64 __attribute__((may_alias, aligned(1)));
typedef uint32_t word32 __attribute__((may_alias, aligned(1)));
typedef uint16_t word16 __attribute__((may_alias, aligned(1)));

static inline __m128i load16(const unsigned char *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}

static inline void store16(unsigned char *at, __m128i value)
{
	_mm_storeu_si128((__m128i *)(void *)at, value);
}

// Right also where to begins before from and they overlap.
PLAIN static inline void *copy_up(void *to, const void *from, size_t length)
{
	const unsigned char *in = from, *in_end = in + length;
	unsigned char *out = to, *out_end = out + length;

	if (length >= STRING_FROM) {
		__asm__ volatile("rep movsb" : "+D"(out), "+S"(in), "+c"(length) : : "memory");
	} else if (length > 16) {
		__m128i last = load16(in_end - 16);

		for (; out_end - out > 16; out += 16, in += 16)
			store16(out, load16(in));
		store16(out_end - 16, last);
	} else if (length >= 8) {
		word64 first = *(const word64 *)in, last = *(const word64 *)(in_end - 8);

		*(word64 *)out = first;
		*(word64 *)(out_end - 8) = last;
	} else if (length >= 4) {
		word32 first = *(const word32 *)in, last = *(const word32 *)(in_end - 4);

		*(word32 *)out = first;
		*(word32 *)(out_end - 4) = last;
	} else if (length >= 2) {
		word16 first = *(const word16 *)in, last = *(const word16 *)(in_end - 2);

		*(word16 *)out = first;
		*(word16 *)(out_end - 2) = last;
	} else if (length) {
		*out = *in;
	}
	return to;
}

PLAIN void *memcpy(void *restrict to, const void *restrict from, size_t length)
{
	return copy_up(to, from, length);
}

PLAIN void *memmove(void *to, const void *from, size_t length)
{
	const unsigned char *in = from;
	unsigned char *out = to;

	if (length <= 16 || (uintptr_t)out - (uintptr_t)in >= length)
		return copy_up(to, from, length);
	for (; length >= 16; length -= 16)
		store16(out + length - 16, load16(in + length - 16));
	for (; length > 0; length--)
		out[length - 1] = in[length - 1];
	return to;
}

PLAIN int memcmp(const void *a, const void *b, size_t length)
{
	const unsigned char *left = a, *right = b;

	for (; length >= 8; left += 8, right += 8, length -= 8) {
		uint64_t x = *(const word64 *)left, y = *(const word64 *)right;

		if (x != y)
			return __builtin_bswap64(x) < __builtin_bswap64(y) ? -1 : 1;
	}
	for (; length > 0; left++, right++, length--) {
		if (*left != *right)
			return *left - *right;
	}
	return 0;
}

PLAIN void *memchr(const void *text, int c, size_t length)
{
	const unsigned char *at = text;
	const __m128i wanted = _mm_set1_epi8((char)c);

	// Whoever asks may not know how much there is (strnlen): only a load on its own boundary stays in a page that a
	// byte of the text is in.
	for (; length > 0 && (uintptr_t)at & 15; at++, length--) {
		if (*at == (unsigned char)c)
			return (void *)(uintptr_t)at;
	}
	for (; length >= 16; at += 16, length -= 16) {
		int found = _mm_movemask_epi8(_mm_cmpeq_epi8(load16(at), wanted));

		if (found)
			return (void *)(uintptr_t)(at + __builtin_ctz((unsigned)found));
	}
	for (; length > 0; at++, length--) {
		if (*at == (unsigned char)c)
			return (void *)(uintptr_t)at;
	}
	return NULL;
}
#endif
