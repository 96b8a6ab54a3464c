// SPDX-License-Identifier: Apache-2.0
// The program's own memcpy, memmove, memcmp and memchr, by other names, against plain loops: every length, place and
// overlap that they tell apart, in memory of just that size.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *our_memcpy(void *restrict to, const void *restrict from, size_t length);
void *our_memmove(void *to, const void *from, size_t length);
int our_memcmp(const void *a, const void *b, size_t length);
void *our_memchr(const void *text, int c, size_t length);

#define memcpy our_memcpy
#define memmove our_memmove
#define memcmp our_memcmp
#define memchr our_memchr
#define MEMORY_TESTED
#include "core/base/memory.c"
#undef memcpy
#undef memmove
#undef memcmp
#undef memchr

enum { LENGTHS = 2200 };

static size_t next_length(size_t length)
{
	return length < 140 ? length + 1 : length + 89;
}

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 131 + i / 251 + 1);
}

static unsigned char *filled(size_t length)
{
	unsigned char *bytes = malloc(length ? length : 1);

	assert_non_null(bytes);
	for (size_t i = 0; i < length; i++)
		bytes[i] = byte_at(i);
	return bytes;
}

static void test_copy(void **state)
{
	(void)state;
	for (size_t length = 0; length < LENGTHS; length = next_length(length)) {
		unsigned char *from = filled(length), *to = malloc(length ? length : 1);

		assert_ptr_equal(our_memcpy(to, from, length), to);
		for (size_t i = 0; i < length; i++)
			assert_int_equal(to[i], byte_at(i));
		free(from);
		free(to);
	}
}

static void test_move(void **state)
{
	(void)state;
	for (size_t length = 0; length < LENGTHS; length = next_length(length)) {
		for (size_t by = 0; by <= length + 3; by = next_length(by) > 70 ? by + 97 : by + 1) {
			unsigned char *up = filled(length + by), *down = filled(length + by);

			assert_ptr_equal(our_memmove(up + by, up, length), up + by);
			assert_ptr_equal(our_memmove(down, down + by, length), down);
			for (size_t i = 0; i < length + by; i++) {
				if (up[i] != byte_at(i < by ? i : i - by))
					fail_msg("up: length %zu by %zu at %zu", length, by, i);
				if (i < length ? down[i] != byte_at(i + by) : down[i] != byte_at(i))
					fail_msg("down: length %zu by %zu at %zu", length, by, i);
			}
			free(up);
			free(down);
		}
	}
}

static void test_compare(void **state)
{
	(void)state;
	for (size_t length = 0; length < 300; length++) {
		unsigned char *a = filled(length), *b = filled(length);

		assert_int_equal(our_memcmp(a, b, length), 0);
		for (size_t i = 0; i < length; i++) {
			for (int by = -2; by <= 2; by++) {
				b[i] = (unsigned char)(a[i] + by);
				if (i + 1 < length)
					b[i + 1] ^= 0xff; // what comes later does not matter
				if (a[i] != b[i])
					assert_int_equal(our_memcmp(a, b, length) > 0, a[i] > b[i]);
				if (a[i] != b[i])
					assert_int_equal(our_memcmp(a, b, length) < 0, a[i] < b[i]);
				if (i + 1 < length)
					b[i + 1] ^= 0xff;
			}
			b[i] = a[i];
		}
		free(a);
		free(b);
	}
}

static void test_find(void **state)
{
	(void)state;
	for (size_t length = 0; length < 100; length++) {
		unsigned char *text = malloc(length ? length : 1);

		memset(text, 'a', length);
		assert_null(our_memchr(text, 0xff, length));
		for (size_t i = length; i-- > 0;) {
			text[i] = 0xff;
			assert_ptr_equal(our_memchr(text, 0xff, length), text + i);
			assert_ptr_equal(our_memchr(text, -1, length), text + i);
		}
		free(text);
	}
}

// strnlen() and the like give a length that the memory does not have: nothing behind the page of the match is read.
static void test_find_at_the_end_of_a_page(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	memset(pages, 'a', page);
	pages[page - 1] = 0;
	for (size_t length = 1; length < 40; length++) {
		assert_ptr_equal(our_memchr(pages + page - length, 0, 4 * page), pages + page - 1);
		assert_ptr_equal(our_memchr(pages + page - length, 0, SIZE_MAX), pages + page - 1);
	}
	munmap(pages, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_move),
		cmocka_unit_test(test_compare),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_find_at_the_end_of_a_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
