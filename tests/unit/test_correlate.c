// SPDX-License-Identifier: Apache-2.0
// Correlate over made-up process trees with the shipped rules: what a fork inherits, where runs and
// tasks begin, what they are called. Trees follow what the engines were seen to start.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/correlate.h"

// --- a small world of processes ------------------------------------------------------------------------------------

enum { WORLD_SIZE = 4096 };

struct world {
	struct rules *rules;
	struct correlate *correlate;
	struct process *processes[WORLD_SIZE];
	uint32_t count;
	uint64_t now_ns;
};

static struct image *image_new(uint64_t now_ns)
{
	struct image *image = calloc(1, sizeof(*image));

	assert_non_null(image);
	image->start_boot_ns = now_ns;
	return image;
}

static void image_free(struct image *image)
{
	free((char *)image->exe);
	free((char *)image->script);
	free((char *)image->cwd);
	free((char *)image->args);
	free(image);
}

static struct process *spawn(struct world *world, struct process *parent)
{
	struct process *process = calloc(1, sizeof(*process));

	assert_non_null(process);
	assert_true(world->count < WORLD_SIZE);
	process->pid = 100 + world->count;
	process->start_boot_ns = world->now_ns += 10000000;
	process->uid = 1000;
	process->parent = parent;
	process->process_group = parent ? parent->process_group : process->pid;
	process->cgroup = parent ? parent->cgroup : NULL;
	process->images = process->image = image_new(world->now_ns);
	process->image_count = 1;
	if (parent) {
		memcpy(process->image->comm, parent->image->comm, sizeof(process->image->comm));
		process->sibling_next = parent->children;
		parent->children = process;
	}
	world->processes[world->count++] = process;
	assert_int_equal(correlate_fork(world->correlate, process), 0);
	return process;
}

// argv separated by '|'; cwd NULL: the parent's.
static void become_in(struct world *world, struct process *process, const char *exe,
		      const char *argv, const char *script, const char *cwd)
{
	struct image *image = image_new(world->now_ns += 1000000);
	const char *base = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
	char *args = strdup(argv);

	if (!cwd)
		cwd = process->image->cwd			       ? process->image->cwd
		      : process->parent && process->parent->image->cwd ? process->parent->image->cwd
								       : "/data";
	image->args_size = (uint32_t)strlen(args) + 1;
	for (char *c = args; *c; c++)
		*c = *c == '|' ? 0 : *c;
	image->args = args;
	image->args_total = image->args_size;
	image->exe = strdup(exe);
	image->script = script ? strdup(script) : NULL;
	image->cwd = strdup(cwd);
	snprintf(image->comm, sizeof(image->comm), "%s", base);
	process->image->next = image;
	process->image = image;
	process->image_count++;
	assert_int_equal(correlate_exec(world->correlate, process), 0);
}

static void become(struct world *world, struct process *process, const char *exe, const char *argv)
{
	become_in(world, process, exe, argv, NULL, NULL);
}

static struct process *start(struct world *world, struct process *parent, const char *exe,
			     const char *argv)
{
	struct process *process = spawn(world, parent);

	become(world, process, exe, argv);
	return process;
}

static struct process *start_in(struct world *world, struct process *parent, const char *exe,
				const char *argv, const char *cwd)
{
	struct process *process = spawn(world, parent);

	become_in(world, process, exe, argv, NULL, cwd);
	return process;
}

static void end(struct world *world, struct process *process)
{
	correlate_end(world->correlate, process);
	for (uint32_t i = 0; i < world->count; i++)
		if (world->processes[i] && world->processes[i]->parent == process)
			world->processes[i]->parent = NULL;
	if (process->parent) {
		struct process **link = &process->parent->children;
		while (*link != process)
			link = &(*link)->sibling_next;
		*link = process->sibling_next;
	}
	for (uint32_t i = 0; i < world->count; i++)
		if (world->processes[i] == process)
			world->processes[i] = NULL;
	for (struct image *image = process->images, *next; image; image = next) {
		next = image->next;
		image_free(image);
	}
	free(process);
}

static int world_set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	int result;

	assert_non_null(world);
	result = rules_load(NULL, &world->rules, &error);
	if (result)
		fprintf(stderr, "%s", error.data ? error.data : "");
	assert_int_equal(result, 0);
	assert_int_equal(correlate_new(world->rules, "0a1b2c3d-rest", &world->correlate), 0);
	*state = world;
	return 0;
}

static int world_tear_down(void **state)
{
	struct world *world = *state;

	for (uint32_t i = 0; i < world->count; i++)
		if (world->processes[i])
			end(world, world->processes[i]);
	correlate_free(world->correlate);
	rules_free(world->rules);
	free(world);
	return 0;
}

// init, sshd, a login shell
static struct process *login_shell(struct world *world)
{
	struct process *init = start(world, NULL, "/usr/lib/systemd/systemd", "/sbin/init");
	struct process *sshd = start(world, init, "/usr/sbin/sshd", "sshd: listener");
	struct process *shell = start(world, spawn(world, sshd), "/usr/bin/bash", "-bash");

	assert_null(init->run);
	assert_null(sshd->run);
	assert_null(shell->run);
	return shell;
}

static struct process *root(struct world *world, const char *exe, const char *argv)
{
	struct process *tracer = start(world, login_shell(world), "/usr/bin/tracer", "tracer|run");
	struct process *command = spawn(world, tracer);

	assert_int_equal(correlate_root(world->correlate, command, NULL), 0);
	become(world, command, exe, argv);
	return command;
}

#define assert_task(process, expect) assert_string_equal((process)->task->name, expect)

// --- tests -----------------------------------------------------------------------------------------------------------

static void each_child_of_a_script_is_a_task(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|/data/pipeline.sh");
	struct process *first =
		start(world, script, "/usr/bin/bwa", "bwa|mem|ref.fa|a_1.fq|a_2.fq");
	struct process *second = start(world, script, "/usr/bin/samtools", "samtools|sort|-");
	struct process *inner = start(world, second, "/usr/bin/gzip", "gzip|-c");

	assert_string_equal(script->run->engine, "script");
	assert_string_equal(script->run->name, "pipeline.sh");
	assert_int_equal(strncmp(script->run->id, "script-0a1b2c3d-", 16), 0);
	assert_null(script->task);
	assert_task(first, "bwa mem");
	assert_task(second, "samtools sort");
	assert_int_equal(first->task->number, 1);
	assert_int_equal(second->task->number, 2);
	assert_ptr_equal(inner->task, second->task);
	assert_string_equal(inner->task->name, "samtools sort");
	assert_string_equal(inner->image->tool, "gzip");
	assert_int_equal(script->run->task_count, 2);
	assert_ptr_equal(first->run, script->run);
}

static void a_single_program_is_its_own_task(void **state)
{
	struct world *world = *state;
	struct process *program = root(world, "/usr/bin/samtools", "samtools|sort|x.bam");

	assert_string_equal(program->run->engine, "command");
	assert_string_equal(program->run->name, "samtools sort");
	assert_task(program, "samtools sort");
	assert_int_equal(program->run->task_count, 1);
}

static void a_program_keeps_its_task_and_its_children_have_theirs(void **state)
{
	struct world *world = *state;
	struct process *train = root(world, "/usr/bin/python3.11", "python3|train.py");
	struct process *worker = spawn(world, train);
	struct process *helper = start(world, train, "/usr/bin/lscpu", "lscpu");

	assert_string_equal(train->run->name, "train.py");
	assert_task(train, "python train.py");
	assert_ptr_equal(worker->task, train->task);
	assert_string_equal(worker->image->tool, "python train.py");
	assert_task(helper, "lscpu");
}

static void a_subshell_is_called_after_what_it_runs(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *one = spawn(world, script), *two = spawn(world, script),
		       *none = spawn(world, script);
	struct process *child = start(world, one, "/usr/bin/samtools", "samtools|index|x.bam");

	start(world, two, "/usr/bin/samtools", "samtools|view|x.bam");
	start(world, two, "/usr/bin/bwa", "bwa|index|x.fa");
	assert_task(one, "samtools index");
	assert_ptr_equal(child->task, one->task);
	assert_task(two, "samtools view + bwa index");
	assert_task(none, "(subshell)");
}

static void a_root_that_becomes_an_engine_lends_the_run_its_name(void **state)
{
	struct world *world = *state;
	struct process *command = root(world, "/usr/bin/env", "env|snakemake");
	char *before = strdup(command->run->id);

	assert_string_equal(command->run->engine, "command");
	become(world, command, "/usr/bin/python3.11",
	       "python3.11|/opt/bin/snakemake|-s|map.smk|--cores|2");
	assert_string_equal(command->run->engine, "snakemake");
	assert_string_equal(command->run->name, "map.smk");
	assert_string_not_equal(command->run->id, before);
	assert_int_equal(strncmp(command->run->id, "snakemake-", 10), 0);
	assert_null(command->run->parent);
	assert_null(command->task);
	free(before);
}

static void snakemake_jobs_are_tasks(void **state)
{
	struct world *world = *state;
	struct process *engine =
		root(world, "/usr/bin/python3.11", "python3.11|/usr/bin/snakemake|--cores|2");
	struct process *job = start(world, engine, "/usr/bin/bash",
				    "/bin/bash|-c|set -euo pipefail;  bwa mem g.fa data/A.fastq | "
				    "samtools sort > A.bam");
	struct process *bwa = start(world, job, "/usr/bin/bwa", "bwa|mem|g.fa|data/A.fastq");
	struct process *sort = start(world, job, "/usr/bin/samtools", "samtools|sort");
	struct process *python =
		start(world, engine, "/usr/bin/python3.11",
		      "/usr/bin/python3.11|-m|snakemake|--target-jobs|plot:sample=B|--cores|1");
	struct process *inner = start(world, python, "/usr/bin/bash", "/bin/bash|-c|true");

	assert_ptr_equal(bwa->task, job->task);
	assert_ptr_equal(sort->task, job->task);
	assert_task(job, "bwa mem + samtools sort");
	assert_string_equal(job->task->sample, "A");
	assert_ptr_equal(python->run, engine->run);
	assert_task(python, "plot");
	assert_string_equal(python->task->id, "plot:sample=B");
	assert_ptr_equal(inner->task, python->task);
	assert_int_equal(engine->run->task_count, 2);
}

static void nextflow_tasks_are_their_work_directories(void **state)
{
	static const char work[] = "/data/work/ab/cdef1234567890abcdef1234567890";
	struct world *world = *state;
	struct process *launcher =
		root(world, "/usr/bin/bash", "bash|/usr/local/bin/nextflow|run|main.nf");
	struct process *engine = start(world, launcher, "/usr/bin/java",
				       "java|-Xmx1g|-jar|/h/.nextflow/framework/24.10.0/"
				       "nextflow-24.10.0-one.jar|run|main.nf");
	struct process *wrapper =
		start_in(world, engine, "/usr/bin/bash", "/bin/bash|-ue|.command.run", work);
	struct process *script =
		start(world, wrapper, "/usr/bin/bash", "/bin/bash|-ue|.command.sh");
	struct process *tool =
		start(world, script, "/usr/bin/perl", "perl|/usr/bin/fastqc|s1_R1.fastq.gz");

	assert_string_equal(engine->run->engine, "nextflow");
	assert_string_equal(engine->run->name, "main.nf");
	assert_ptr_equal(engine->run, launcher->run);
	assert_null(engine->task);
	assert_string_equal(wrapper->task->id, "ab/cdef12");
	assert_ptr_equal(script->task, wrapper->task);
	assert_ptr_equal(tool->task, wrapper->task);
	assert_string_equal(tool->task->sample, "s1");
	assert_string_equal(tool->task->cwd, work);
	assert_int_equal(engine->run->task_count, 1);
}

static void a_nested_engine_opens_a_run_below(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|all.sh");
	struct process *engine =
		start(world, script, "/usr/bin/python3", "python3|/usr/bin/snakemake|--cores|1");
	struct process *other = start(world, script, "/usr/bin/sort", "sort|x");

	assert_string_equal(engine->run->engine, "snakemake");
	assert_ptr_equal(engine->run->parent, script->run);
	assert_null(engine->task);
	assert_task(other, "sort");
	assert_int_equal(script->run->task_count, 1);
}

static void children_of_a_boundary_are_runs_and_pipelines_are_one(void **state)
{
	struct world *world = *state;
	struct process *shell = login_shell(world);
	struct process *first = spawn(world, shell), *second, *alone;

	first->process_group = first->pid;
	become(world, first, "/usr/bin/samtools", "samtools|view|x.bam");
	second = spawn(world, shell);
	second->process_group = first->pid;
	become(world, second, "/usr/bin/sort", "sort");
	alone = spawn(world, shell);
	alone->process_group = alone->pid;
	become(world, alone, "/usr/bin/bwa", "bwa|index|x.fa");

	assert_string_equal(first->run->name, "samtools view");
	assert_ptr_equal(second->run, first->run);
	assert_task(second, "sort");
	assert_int_equal(first->run->task_count, 2);
	assert_ptr_not_equal(alone->run, first->run);
	assert_task(alone, "bwa index");
}

static void runs_and_tasks_outlive_their_processes(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *child = start(world, script, "/usr/bin/bwa", "bwa|index|x.fa");
	struct task *task = task_reference(child->task);

	end(world, child);
	end(world, script);
	assert_string_equal(task->name, "bwa index");
	assert_string_equal(task->run->name, "x.sh");
	assert_int_equal(task->references, 1);
	task_release(task);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(each_child_of_a_script_is_a_task),
		TEST(a_single_program_is_its_own_task),
		TEST(a_program_keeps_its_task_and_its_children_have_theirs),
		TEST(a_subshell_is_called_after_what_it_runs),
		TEST(a_root_that_becomes_an_engine_lends_the_run_its_name),
		TEST(snakemake_jobs_are_tasks),
		TEST(nextflow_tasks_are_their_work_directories),
		TEST(a_nested_engine_opens_a_run_below),
		TEST(children_of_a_boundary_are_runs_and_pipelines_are_one),
		TEST(runs_and_tasks_outlive_their_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
