// SPDX-License-Identifier: Apache-2.0
// The datalake's SHA-256 is SHA-256: the examples of FIPS 180-4, and libsodium's for every length and place.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <sodium.h>
#include <stdlib.h>

#include "lake/digest.h"

static void is(const char *text, const char *expected)
{
	unsigned char digest[DIGEST_BYTES], wanted[DIGEST_BYTES];
	size_t length;

	assert_int_equal(sodium_hex2bin(wanted, sizeof(wanted), expected, 64, NULL, &length, NULL), 0);
	digest_sha256(text, __builtin_strlen(text), digest);
	assert_memory_equal(digest, wanted, sizeof(wanted));
}

static void test_examples(void **state)
{
	(void)state;
	is("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	is("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void test_all_lengths(void **state)
{
	enum { LONGEST = 1000, OFFSETS = 17 };
	unsigned char *bytes = malloc(LONGEST + OFFSETS), digest[DIGEST_BYTES], wanted[DIGEST_BYTES];

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i < LONGEST + OFFSETS; i++)
		bytes[i] = (unsigned char)(i * 131 + i / 7);
	for (size_t length = 0; length <= LONGEST; length++) {
		const unsigned char *from = bytes + length % OFFSETS;

		digest_sha256(from, length, digest);
		crypto_hash_sha256(wanted, from, length);
		assert_memory_equal(digest, wanted, sizeof(wanted));
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_all_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
