// SPDX-License-Identifier: Apache-2.0
// Unpacking of bodies: what zlib packed comes out as it was, at every level and in every form; what is damaged, cut or
// lies about its size is refused and leaves nothing.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/cleanup.h"
#include "lake/inflate.h"
#include "tests/bench/lake_records.h"

enum { MAX = 64 << 20, TRAILER = 8 };

static uint64_t seed = 7;

static uint32_t random_below(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)((seed >> 33) % below);
}

// Bytes of a kind: noise, few values, runs, repeats at every distance, records.
static void make(struct buf *out, unsigned kind, size_t size)
{
	struct lake_records records = {.now_ns = 1700000000000000000, .pid = 1, .processes_in_task = 5};

	buf_reset(out);
	while (out->length < size) {
		if (kind == 0)
			buf_append_char(out, (char)random_below(256));
		else if (kind == 1)
			buf_append_char(out, (char)('a' + random_below(4)));
		else if (kind == 2)
			for (uint32_t n = 1 + random_below(700), c = random_below(256); n > 0; n--)
				buf_append_char(out, (char)c);
		else if (kind == 3 && out->length > 40)
			for (uint32_t n = 3 + random_below(300), back = 1 + random_below((uint32_t)out->length); n > 0;
			     n--)
				buf_append_char(out, out->data[out->length - back]);
		else if (kind == 3)
			buf_append_char(out, (char)random_below(256));
		else
			lake_record_process(&records, out);
	}
	out->length = size;
}

static void pack(const struct buf *plain, int level, int strategy, gz_header *header, struct buf *out)
{
	z_stream stream = {.next_in = (Bytef *)plain->data, .avail_in = (uInt)plain->length};

	buf_reset(out);
	assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, 31, 8, strategy), Z_OK);
	if (header)
		deflateSetHeader(&stream, header);
	assert_int_equal(buf_reserve(out, deflateBound(&stream, plain->length) + 512), 0);
	stream.next_out = (Bytef *)out->data;
	stream.avail_out = (uInt)out->capacity;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	out->length = stream.total_out;
	deflateEnd(&stream);
}

// In memory of just that size, so that a byte too far is seen.
static int unpack(const struct buf *packed, size_t size, struct buf *out)
{
	CLEANUP(cleanup_free) char *exact = malloc(size ? size : 1);

	memcpy(exact, packed->data, size);
	buf_free(out);
	return gzip_inflate(exact, size, MAX, out);
}

static void test_what_zlib_packed(void **state)
{
	static const int levels[] = {0, 1, 2, 4, 6, 9};
	static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_FILTERED, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
	CLEANUP(buf_free) struct buf plain = BUF_INIT, packed = BUF_INIT, out = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		size_t size = i < 40 ? i : random_below(i % 20 ? 20000 : 300000);

		make(&plain, i % 5, size);
		pack(&plain, levels[random_below(6)], strategies[random_below(5)], NULL, &packed);
		assert_int_equal(unpack(&packed, packed.length, &out), 0);
		assert_int_equal(out.length, plain.length);
		assert_memory_equal(out.data, plain.length ? plain.data : "", plain.length);
		for (unsigned s = 0; s < INFLATE_SLACK; s++)
			assert_int_equal(out.data[out.length + s], 0);
	}
}

static void test_headers(void **state)
{
	CLEANUP(buf_free) struct buf plain = BUF_INIT, packed = BUF_INIT, out = BUF_INIT;

	(void)state;
	make(&plain, 4, 5000);
	for (unsigned i = 0; i < 16; i++) {
		gz_header header = {
			.extra = i & 1 ? (Bytef *)"extra" : NULL,
			.extra_len = 5,
			.name = i & 2 ? (Bytef *)"a name" : NULL,
			.comment = i & 4 ? (Bytef *)"" : NULL,
			.hcrc = i & 8 ? 1 : 0,
		};

		pack(&plain, 1, Z_DEFAULT_STRATEGY, &header, &packed);
		assert_int_equal(unpack(&packed, packed.length, &out), 0);
		assert_memory_equal(out.data, plain.data, plain.length);
	}
}

static void test_refused(void **state)
{
	CLEANUP(buf_free) struct buf plain = BUF_INIT, packed = BUF_INIT, out = BUF_INIT;

	(void)state;
	make(&plain, 4, 3000);
	pack(&plain, 6, Z_DEFAULT_STRATEGY, NULL, &packed);
	for (size_t size = 0; size < packed.length; size++)
		assert_int_equal(unpack(&packed, size, &out), -EBADMSG);
	buf_append_char(&packed, 'x');
	assert_int_equal(unpack(&packed, packed.length, &out), -EBADMSG);
	packed.length--;
	packed.data[packed.length - 4]++; // another size
	assert_int_equal(unpack(&packed, packed.length, &out), -EBADMSG);
	memset(packed.data + packed.length - 4, 0x7f, 4); // far more than so few bytes can hold
	assert_int_equal(unpack(&packed, packed.length, &out), -EBADMSG);
	buf_free(&out);
	pack(&plain, 6, Z_DEFAULT_STRATEGY, NULL, &packed);
	assert_int_equal(gzip_inflate(packed.data, packed.length, 2999, &out), -E2BIG);
	assert_int_equal(gzip_inflate(packed.data, packed.length, 3000, &out), 0);
	// What is there already stays, and is nothing to refer to.
	assert_int_equal(gzip_inflate(packed.data, packed.length, 3000, &out), 0);
	assert_int_equal(out.length, 6000);
	assert_memory_equal(out.data + 3000, plain.data, 3000);
}

static void test_damaged(void **state)
{
	CLEANUP(buf_free) struct buf plain = BUF_INIT, packed = BUF_INIT, out = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		size_t size = 1 + random_below(i % 10 ? 300 : 5000), at;

		if (i % 4 == 0)
			make(&plain, i / 4 % 5, size);
		pack(&plain, 1 + (int)random_below(9), random_below(4) ? Z_DEFAULT_STRATEGY : Z_FIXED, NULL, &packed);
		at = 10 + random_below((uint32_t)packed.length - 10);
		packed.data[at] ^= (char)(1 << random_below(8));
		if (unpack(&packed, packed.length, &out) == 0) // bits that fill the last byte mean nothing
			assert_memory_equal(out.data, plain.data, plain.length);
		else
			assert_int_equal(out.length, 0);
	}
}

// Tables that no packer makes.
static void test_noise(void **state)
{
	CLEANUP(buf_free) struct buf packed = BUF_INIT, out = BUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		size_t size = 19 + random_below(120), told = random_below(200);

		buf_reset(&packed);
		buf_append(&packed, "\x1f\x8b\x08\0\0\0\0\0\0\0", 10);
		while (packed.length < size)
			buf_append_char(&packed, (char)random_below(256));
		packed.data[10] = (char)((packed.data[10] & ~7) | (random_below(8) ? 5 : 3)); // last, coded
		packed.data[size - 4] = (char)told;
		memset(packed.data + size - 3, 0, 3);
		assert_int_equal(unpack(&packed, size, &out), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_zlib_packed), cmocka_unit_test(test_headers), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged),		 cmocka_unit_test(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
