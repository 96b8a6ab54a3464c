// SPDX-License-Identifier: Apache-2.0
// Pools, and programs that are kept: the same strings are one, secrets are never kept, nothing is leaked or mixed up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pool.h"
#include "core/process.h"

static void objects_are_zeroed_and_apart(void **state)
{
	enum { COUNT = 5000, SIZE = 200 };
	static char *objects[COUNT];
	struct pool pool;

	(void)state;
	pool_init(&pool, SIZE);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			objects[i] = pool_take(&pool);
			assert_non_null(objects[i]);
			assert_int_equal((uintptr_t)objects[i] % 16, 0);
			for (size_t j = 0; j < SIZE; j++)
				assert_int_equal(objects[i][j], 0);
			memset(objects[i], (int)(i % 255 + 1), SIZE);
		}
		for (size_t i = 0; i < COUNT; i++)
			assert_true(objects[i][0] == (char)(i % 255 + 1) && objects[i][SIZE - 1] == objects[i][0]);
		for (size_t i = 0; i < COUNT; i++)
			pool_give(&pool, objects[round == 1 ? COUNT - 1 - i : i]);
	}
	assert_int_equal(pool.empty, 1); // the rest went back to the system
	assert_non_null(pool.partial);
	pool_give(&pool, NULL);
	pool_free(&pool);
}

static struct process *process_new(struct process_table *table, uint32_t pid)
{
	const struct event_identity identity = { .process = { .pid = pid, .start_ns = pid }, .comm = "sh" };
	struct process *process;

	assert_int_equal(process_add(table, &identity, &process), 0);
	return process;
}

static void exec(struct process_table *table, struct process *process, const char *args, uint32_t size, const char *cwd)
{
	const struct image_strings strings = { .exe = "/bin/tool", .cwd = cwd, .args = args, .args_size = size,
					       .args_total = size };

	static const char comm[PROC_COMM_SIZE] = "tool";

	assert_int_equal(process_add_image(table, process, 5, comm, &strings), 0);
}

static void the_same_command_is_one_program(void **state)
{
	static const char args[] = "tool\0-x\0a", other[] = "tool\0-x\0b";
	struct process *first, *second, *third;
	struct process_table *table;

	(void)state;
	assert_int_equal(process_table_new(&table), 0);
	first = process_new(table, 1);
	second = process_new(table, 2);
	third = process_new(table, 3);
	exec(table, first, args, sizeof(args), "/");
	exec(table, second, args, sizeof(args), "/");
	assert_ptr_not_equal(first->image->program, second->image->program); // nobody said it is plain
	process_program_plain(table, first);
	exec(table, second, args, sizeof(args), "/");
	assert_ptr_equal(first->image->program, second->image->program);
	assert_true(second->image->program->plain);
	exec(table, third, other, sizeof(other), "/");
	assert_ptr_not_equal(first->image->program, third->image->program);
	assert_false(third->image->program->plain);
	exec(table, third, args, sizeof(args), "/tmp");
	assert_ptr_not_equal(first->image->program, third->image->program);
	exec(table, third, args, sizeof(args) - 1, "/");
	assert_ptr_not_equal(first->image->program, third->image->program);
	// It outlives those that brought it, but not the rules by which it was looked through.
	process_remove(table, first);
	process_remove(table, second);
	exec(table, third, args, sizeof(args), "/");
	assert_true(third->image->program->plain);
	assert_memory_equal(third->image->args, args, sizeof(args));
	process_programs_forget(table);
	exec(table, third, args, sizeof(args), "/");
	assert_false(third->image->program->plain);
	process_table_free(table);
}

static void what_was_changed_is_never_kept(void **state)
{
	static const char secret[] = "tool\0--token\0hunter2", hidden[] = "tool\0--token\0[redacted]";
	struct image_strings strings = { .exe = "/bin/tool", .args = hidden, .args_size = sizeof(hidden),
					 .args_total = sizeof(secret) };
	struct process *first, *second;
	struct process_table *table;

	(void)state;
	assert_int_equal(process_table_new(&table), 0);
	first = process_new(table, 1);
	second = process_new(table, 2);
	exec(table, first, secret, sizeof(secret), "/");
	assert_int_equal(process_set_strings(first, &strings), 0);
	process_program_plain(table, first); // of no use to anybody else
	exec(table, second, secret, sizeof(secret), "/");
	assert_false(second->image->program->plain);
	exec(table, second, hidden, sizeof(hidden), "/");
	assert_ptr_not_equal(first->image->program, second->image->program);
	process_table_free(table);
}

static void many_programs_stay_bounded(void **state)
{
	struct process_table *table;
	struct process *process;
	char args[64];

	(void)state;
	assert_int_equal(process_table_new(&table), 0);
	process = process_new(table, 1);
	for (int i = 0; i < 5000; i++) {
		int size = snprintf(args, sizeof(args), "tool %d", i) + 1;

		exec(table, process, args, (uint32_t)size, "/");
		process_program_plain(table, process);
		exec(table, process, args, (uint32_t)size, "/");
		assert_string_equal(process->image->args, args);
	}
	assert_true(process->image_count <= IMAGES_MAX);
	process_table_free(table); // LeakSanitizer looks for the rest
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_zeroed_and_apart),
		cmocka_unit_test(the_same_command_is_one_program),
		cmocka_unit_test(what_was_changed_is_never_kept),
		cmocka_unit_test(many_programs_stay_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
