// SPDX-License-Identifier: Apache-2.0
// What one image hands to the next, without a kernel: processes with their images, runs and tasks come out as they went
// in; cut short or changed anywhere, it is refused or read as something, and never touches what is not there. And the
// socket between two images.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/correlate_state.h"
#include "core/handover.h"
#include "core/process_state.h"
#include "core/rules.h"

enum { TAG_RUN = 1, TAG_TASK, TAG_PROCESS };

struct image_world {
	struct correlate *correlate;
	struct process_table *table;
	struct correlate_state state;
};

static struct rules *the_rules;

static int rules_open(void **unused)
{
	CLEANUP(buf_free) struct buf why = BUF_INIT;

	(void)unused;
	return rules_load(NULL, &the_rules, &why);
}

static int rules_close(void **unused)
{
	(void)unused;
	rules_free(the_rules);
	return 0;
}

static void world_open(struct image_world *world)
{
	*world = (struct image_world){ 0 };
	assert_int_equal(correlate_new(the_rules, "0a1b2c3d-0000", &world->correlate), 0);
	assert_int_equal(process_table_new(&world->table), 0);
}

static void forget(void *context, struct process *process)
{
	struct image_world *world = context;

	correlate_end(world->correlate, process);
	process_remove(world->table, process);
}

static void world_close(struct image_world *world)
{
	process_each(world->table, forget, world);
	correlate_free(world->correlate);
	process_table_free(world->table);
}

static struct process *process_make(struct image_world *world, uint32_t pid, struct process *parent, const char *exe,
				    const char *args, uint32_t args_size)
{
	struct event_identity identity = { .process = { .pid = pid, .start_ns = pid * 1000000ull }, .uid = 1000 };
	const struct image_strings strings = { .exe = exe, .cwd = "/data", .args = args, .args_size = args_size,
					       .args_total = args_size };
	char comm[PROC_COMM_SIZE] = "made-up";
	struct process *process;

	if (parent) {
		identity.parent.pid = parent->pid;
		identity.parent.start_ns = parent->start_boot_ns;
	}
	assert_int_equal(process_add(world->table, &identity, &process), 0);
	if (parent)
		process_share_image(process, parent);
	assert_int_equal(correlate_fork(world->correlate, process), 0);
	assert_int_equal(process_add_image(world->table, process, pid * 1000000ull + 5, comm, &strings), 0);
	assert_int_equal(correlate_exec(world->correlate, process), 0);
	process->counters.cpu_ns = pid * 7ull;
	process->counters.threads_max = 3;
	process->image->at_start.read_bytes = pid;
	process->quality[FIGURE_CPU] = QUALITY_SAMPLED;
	process->opened = true;
	return process;
}

static const char script_args[] = "bash\0/data/pipeline.sh";
static const char bwa_args[] = "bwa\0mem\0ref.fa\0HG002_1.fq\0HG002_2.fq";

static void world_fill(struct image_world *world)
{
	struct process *init = process_make(world, 1, NULL, "/sbin/init", "init", 5);
	struct process *script = process_make(world, 10, init, "/usr/bin/bash", script_args, sizeof(script_args));
	struct process *bwa = process_make(world, 11, script, "/usr/bin/bwa", bwa_args, sizeof(bwa_args));
	struct process *ended = process_make(world, 12, script, "/usr/bin/gzip", "gzip", 5);

	(void)bwa;
	ended->exit_boot_ns = 99;
	ended->exit_code = 4;
	assert_non_null(script->run);
	assert_non_null(bwa->task);
}

struct writing {
	struct buf *out;
	struct process_programs programs;
	bool ended;
};

static void write_one(void *context, struct process *process)
{
	struct writing *writing = context;
	size_t opened;

	if ((process->exit_boot_ns != 0) != writing->ended)
		return;
	opened = parcel_open(writing->out, TAG_PROCESS);
	process_state_write(writing->out, process, &writing->programs);
	correlate_state_write_process(writing->out, process);
	parcel_close(writing->out, opened);
}

static void world_write(struct image_world *world, struct buf *out)
{
	struct writing writing = { .out = out, .ended = true };

	correlate_state_write(out, TAG_RUN, TAG_TASK, world->correlate);
	process_each(world->table, write_one, &writing);
	writing.ended = false;
	process_each(world->table, write_one, &writing);
	parcel_map_free(&writing.programs.met);
	assert_int_equal(buf_error(out), 0);
}

static int take_tool(void *context, struct image *image, const char *tool)
{
	return correlate_state_tool(((struct image_world *)context)->correlate, image, tool);
}

static int take_other(void *context, struct process *process, const struct parcel_field *field)
{
	struct image_world *world = context;

	return correlate_state_read_process(world->correlate, &world->state, process, field);
}

static int world_read(struct image_world *world, const char *data, size_t length)
{
	const struct process_state_visitor visitor = { .tool = take_tool, .other = take_other, .context = world };
	struct parcel parcel = parcel_of(data, length);
	struct process_programs programs = { 0 };
	struct process *process;
	struct parcel_field field;
	int result = 0;

	while (!result && parcel_next(&parcel, &field)) {
		if (field.tag == TAG_RUN)
			result = correlate_state_read_run(world->correlate, &world->state, &field);
		else if (field.tag == TAG_TASK)
			result = correlate_state_read_task(world->correlate, &world->state, &field);
		else if (field.tag == TAG_PROCESS)
			result = process_state_read(world->table, &field, &programs, &visitor, &process);
	}
	process_state_free(&programs);
	correlate_state_end(&world->state);
	return result ? result : parcel.bad ? -EBADMSG : 0;
}

static void relink(void *context, struct process *process)
{
	process_relink(context, process);
}

static void what_lives_comes_out_as_it_went_in(void **unused)
{
	CLEANUP(buf_free) struct buf first = BUF_INIT;
	struct image_world older, newer;
	struct process *script, *bwa, *gzip;
	char run[128], task[64];

	(void)unused;
	world_open(&older);
	world_fill(&older);
	world_write(&older, &first);
	snprintf(run, sizeof(run), "%s", process_find(older.table, 10)->run->id);
	snprintf(task, sizeof(task), "%s", process_find(older.table, 11)->task->id);
	world_close(&older); // nothing of it is needed any more
	world_open(&newer);
	assert_int_equal(world_read(&newer, first.data, first.length), 0);
	process_each(newer.table, relink, newer.table);
	script = process_find(newer.table, 10);
	bwa = process_find(newer.table, 11);
	gzip = process_find_exact(newer.table, 12, 12000000);
	assert_int_equal(process_table_count(newer.table), 4);
	assert_non_null(script);
	assert_non_null(bwa);
	assert_non_null(gzip);
	assert_string_equal(script->run->id, run);
	assert_string_equal(bwa->task->id, task);
	assert_string_equal(bwa->task->name, "bwa mem");
	assert_ptr_equal(bwa->run, script->run);
	assert_ptr_equal(bwa->task->run, script->run);
	assert_ptr_equal(bwa->parent, script);
	assert_int_equal(bwa->image_count, 2);
	assert_true(bwa->images->forked);
	assert_ptr_equal(bwa->images->program, script->image->program); // shared, as before
	assert_string_equal(bwa->image->tool, "bwa mem");
	assert_int_equal(bwa->image->args_size, sizeof(bwa_args));
	assert_memory_equal(bwa->image->args, bwa_args, sizeof(bwa_args));
	assert_int_equal(bwa->counters.cpu_ns, 77);
	assert_int_equal(bwa->image->at_start.read_bytes, 11);
	assert_true(bwa->opened);
	assert_int_equal(gzip->exit_code, 4);
	assert_int_equal(gzip->exit_boot_ns, 99);
	world_close(&newer);
}

static void a_new_task_of_a_run_that_came_along_gets_the_next_number(void **unused)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct image_world older, newer;
	struct process *next;
	uint32_t number;

	(void)unused;
	world_open(&older);
	world_fill(&older);
	number = process_find(older.table, 10)->run->task_count;
	world_write(&older, &out);
	world_close(&older);
	world_open(&newer);
	assert_int_equal(world_read(&newer, out.data, out.length), 0);
	next = process_make(&newer, 13, process_find(newer.table, 10), "/usr/bin/samtools", "samtools\0sort", 14);
	assert_ptr_equal(next->run, process_find(newer.table, 10)->run);
	assert_int_equal(next->task->number, number + 1);
	world_close(&newer);
}

static void a_state_that_is_cut_or_changed_is_no_harm(void **unused)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct image_world world;

	(void)unused;
	world_open(&world);
	world_fill(&world);
	world_write(&world, &out);
	world_close(&world);
	for (size_t length = 0; length < out.length; length += 1 + length / 256) {
		char *cut = malloc(length + !length); // of its own size, so that a step beyond is seen

		assert_non_null(cut);
		memcpy(cut, out.data, length);
		world_open(&world);
		world_read(&world, cut, length);
		world_close(&world);
		free(cut);
	}
	for (size_t at = 0; at < out.length; at += 1 + at / 256) {
		char before = out.data[at];

		out.data[at] = (char)(before ^ (at % 2 ? 0xff : 1));
		world_open(&world);
		world_read(&world, out.data, out.length);
		world_close(&world);
		out.data[at] = before;
	}
}

static void unknown_fields_are_passed_over(void **unused)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct image_world world;
	size_t opened;

	(void)unused;
	world_open(&world);
	world_fill(&world);
	parcel_put_u64(&out, 900, 1);
	world_write(&world, &out);
	opened = parcel_open(&out, 901);
	parcel_put_string(&out, 1, "of a later version");
	parcel_close(&out, opened);
	world_close(&world);
	world_open(&world);
	assert_int_equal(world_read(&world, out.data, out.length), 0);
	assert_int_equal(process_table_count(world.table), 4);
	world_close(&world);
}

static void descriptors_travel_with_an_offer(void **unused)
{
	static struct handover_packet sent, got;
	int pair[2], fd = -1, memory;
	const void *data;

	(void)unused;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(handover_memory_new(&memory), 0);
	assert_int_equal(handover_receive(pair[1], 0, &got, &fd), -EAGAIN);
	handover_offer_add(&sent.offer, HANDOVER_MAP, 1, "ring_lifecycle", memory);
	handover_offer_add(&sent.offer, HANDOVER_MAP, 2, "ring_lifecycle", STDERR_FILENO);
	handover_offer_add(&sent.offer, HANDOVER_LINK, 1, "not open", -1);
	assert_int_equal(sent.offer.item_count, 2);
	assert_int_equal(handover_send(pair[0], &sent, HANDOVER_OFFER, -1), 0);
	assert_int_equal(handover_memory_write(memory, "state", 6), 0);
	close(memory);
	assert_int_equal(handover_receive(pair[1], 1000, &got, &fd), 0);
	assert_int_equal(got.kind, HANDOVER_OFFER);
	assert_int_equal(handover_offer_find(&got.offer, HANDOVER_LINK, 1, "not open"), -1);
	memory = handover_offer_take(&got.offer, HANDOVER_MAP, 1, "ring_lifecycle");
	assert_true(fcntl(memory, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(handover_memory_map(memory, 7, &data), -EBADMSG);
	assert_int_equal(handover_memory_map(memory, 6, &data), 0);
	assert_string_equal(data, "state");
	munmap((void *)(uintptr_t)data, 6);
	close(memory);
	handover_offer_close(&got.offer);
	assert_int_equal(send(pair[0], "short", 5, 0), 5);
	assert_int_equal(handover_receive(pair[1], 1000, &got, &fd), -EBADMSG);
	close(pair[0]);
	assert_int_equal(handover_receive(pair[1], 1000, &got, &fd), -EPIPE);
	close(pair[1]);
}

static void a_memory_file_that_may_still_change_is_refused(void **unused)
{
	const void *data;
	int memory;

	(void)unused;
	assert_int_equal(handover_memory_new(&memory), 0);
	assert_int_equal(write(memory, "state", 6), 6);
	assert_int_equal(handover_memory_map(memory, 6, &data), -EBADMSG);
	close(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_lives_comes_out_as_it_went_in),
		cmocka_unit_test(a_new_task_of_a_run_that_came_along_gets_the_next_number),
		cmocka_unit_test(a_state_that_is_cut_or_changed_is_no_harm),
		cmocka_unit_test(unknown_fields_are_passed_over),
		cmocka_unit_test(descriptors_travel_with_an_offer),
		cmocka_unit_test(a_memory_file_that_may_still_change_is_refused),
	};

	return cmocka_run_group_tests(tests, rules_open, rules_close);
}
