// SPDX-License-Identifier: Apache-2.0
// The ring's reading side, over a memory file laid out as the kernel's ring is: one page with what was read, one with
// what was written, then the data. What the kernel itself writes is tests/bpf and every end-to-end test.

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/ring.h"

enum { SIZE = 64 * 1024 };

struct kernel {
	int fd;
	size_t page;
	char *pages;
	struct ring ring;
	uint32_t expect, seen; // the records are numbered
	bool more; // the handler writes another one
};

static unsigned long *position(struct kernel *kernel, int page)
{
	return (unsigned long *)(kernel->pages + (size_t)page * kernel->page);
}

static char *data_at(struct kernel *kernel, unsigned long at)
{
	return kernel->pages + 2 * kernel->page + (at & (SIZE - 1));
}

static void header_set(struct kernel *kernel, unsigned long at, uint32_t header)
{
	__atomic_store_n((uint32_t *)data_at(kernel, at), header, __ATOMIC_RELEASE);
}

// A record of so many bytes, each of them its number. False: there is no room.
static bool submit(struct kernel *kernel, uint32_t number, uint32_t length, uint32_t flags)
{
	unsigned long at = *position(kernel, 1), whole = (length + BPF_RINGBUF_HDR_SZ + 7u) & ~7ul;

	if (at + whole - *position(kernel, 0) > SIZE)
		return false;
	for (uint32_t i = 0; i < length; i++)
		*data_at(kernel, at + BPF_RINGBUF_HDR_SZ + i) = (char)number;
	header_set(kernel, at, length | flags);
	__atomic_store_n(position(kernel, 1), at + whole, __ATOMIC_RELEASE);
	return true;
}

static uint32_t length_of(uint32_t number)
{
	return 16 + number * 37 % 5000;
}

static void on_record(void *context, const void *data, size_t size)
{
	struct kernel *kernel = context;
	const char *bytes = data;

	assert_int_equal(size, length_of(kernel->expect));
	assert_int_equal((uintptr_t)data % 8, 0);
	for (size_t i = 0; i < size; i++)
		assert_int_equal(bytes[i], (char)kernel->expect);
	kernel->expect++;
	kernel->seen++;
	if (kernel->more) {
		kernel->more = false;
		assert_true(submit(kernel, kernel->expect, length_of(kernel->expect), 0));
	}
}

static int setup(void **state)
{
	static struct kernel kernel;

	kernel = (struct kernel){ .page = (size_t)sysconf(_SC_PAGESIZE) };
	kernel.fd = memfd_create("ring", MFD_CLOEXEC);
	assert_int_equal(ftruncate(kernel.fd, (off_t)(2 * kernel.page + SIZE)), 0);
	kernel.pages = mmap(NULL, 2 * kernel.page + SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, kernel.fd, 0);
	assert_true(kernel.pages != MAP_FAILED);
	assert_int_equal(ring_open(&kernel.ring, kernel.fd, SIZE), 0);
	*state = &kernel;
	return 0;
}

static int teardown(void **state)
{
	struct kernel *kernel = *state;

	ring_close(&kernel->ring);
	ring_close(&kernel->ring);
	munmap(kernel->pages, 2 * kernel->page + SIZE);
	close(kernel->fd);
	return 0;
}

static void test_round_and_round(void **state)
{
	struct kernel *kernel = *state;
	uint32_t written = 0, crossing = 0, records;

	while (*position(kernel, 1) < 40ul * SIZE) {
		while (submit(kernel, written, length_of(written), 0)) {
			unsigned long end = *position(kernel, 1);

			crossing += (end - 1) / SIZE != (end - length_of(written)) / SIZE;
			written++;
		}
		kernel->seen = 0;
		records = ring_drain(&kernel->ring, on_record, kernel);
		assert_int_equal(records, kernel->seen);
		assert_int_equal(kernel->expect, written);
		assert_int_equal(*position(kernel, 0), *position(kernel, 1));
	}
	assert_true(crossing > 10);
	assert_int_equal(kernel->ring.malformed, 0);
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 0);
}

static void test_incomplete_waits(void **state)
{
	struct kernel *kernel = *state;
	unsigned long second;

	submit(kernel, 0, length_of(0), 0);
	second = *position(kernel, 1);
	submit(kernel, 1, length_of(1), BPF_RINGBUF_BUSY_BIT);
	submit(kernel, 2, length_of(2), 0);
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 1);
	assert_int_equal(*position(kernel, 0), second);
	header_set(kernel, second, length_of(1));
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 2);
	assert_int_equal(kernel->expect, 3);
}

static void test_discarded_are_passed_over(void **state)
{
	struct kernel *kernel = *state;

	submit(kernel, 0, length_of(0), 0);
	submit(kernel, 99, 333, BPF_RINGBUF_DISCARD_BIT);
	submit(kernel, 1, length_of(1), 0);
	submit(kernel, 99, 8, BPF_RINGBUF_DISCARD_BIT);
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 2);
	assert_int_equal(*position(kernel, 0), *position(kernel, 1));
}

static void test_what_comes_meanwhile_is_read(void **state)
{
	struct kernel *kernel = *state;

	kernel->more = true;
	submit(kernel, 0, length_of(0), 0);
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 2);
}

static void test_impossible_length(void **state)
{
	struct kernel *kernel = *state;

	submit(kernel, 0, length_of(0), 0);
	submit(kernel, 1, 64, 0);
	header_set(kernel, *position(kernel, 1) - 72, 73);
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 1);
	assert_int_equal(kernel->ring.malformed, 1);
	assert_int_equal(*position(kernel, 0), *position(kernel, 1));
	submit(kernel, 1, length_of(1), 0);
	assert_int_equal(ring_drain(&kernel->ring, on_record, kernel), 1);
}

static void test_bad_sizes(void **state)
{
	struct kernel *kernel = *state;
	struct ring ring = { 0 };

	assert_int_equal(ring_open(&ring, kernel->fd, 0), -EINVAL);
	assert_int_equal(ring_open(&ring, kernel->fd, SIZE - 8), -EINVAL);
	assert_int_equal(ring_open(&ring, -1, SIZE), -EBADF);
	assert_null(ring.produced);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_and_round, setup, teardown),
		cmocka_unit_test_setup_teardown(test_incomplete_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_discarded_are_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_comes_meanwhile_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_impossible_length, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_sizes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
