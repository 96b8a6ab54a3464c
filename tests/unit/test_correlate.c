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
#include "tests/unit/process_world.h"

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

static void helpers_of_a_nextflow_wrapper_name_no_task(void **state)
{
	static const char work[] = "/data/work/ab/cdef1234567890abcdef1234567890";
	struct world *world = *state;
	struct process *engine =
		root(world, "/usr/bin/java", "java|-jar|nextflow-24.10.0-one.jar|run|main.nf");
	struct process *wrapper =
		start_in(world, engine, "/usr/bin/bash", "/bin/bash|-ue|.command.run", work);

	start(world, wrapper, "/usr/bin/tee", "tee|.command.out");
	assert_task(wrapper, "bash .command.run");
	struct process *script = start(world, wrapper, "/usr/bin/bash", "/bin/bash|-ue|.command.sh");
	start(world, wrapper, "/usr/bin/grep", "grep|x|/proc/1/stat");
	struct process *awk = start(world, wrapper, "/usr/bin/mawk", "awk|{}");
	assert_string_equal(awk->image->tool, "mawk");
	assert_task(wrapper, "bash .command.sh");
	start(world, script, "/usr/bin/grep", "grep|-c|x|reads.txt");
	assert_task(wrapper, "grep");
	start(world, script, "/usr/bin/bwa", "bwa|index|x");
	start(world, wrapper, "/usr/bin/rm", "rm|-f|x");
	assert_task(wrapper, "bwa index");
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

static void a_slurm_job_is_a_run_and_its_steps_are_tasks(void **state)
{
	struct world *world = *state;
	struct cgroup batch = slurm_cgroup(12, "batch"), step = slurm_cgroup(12, "0"),
		      other = slurm_cgroup(13, "batch");
	struct process *init = start(world, NULL, "/sbin/init", "init");
	struct process *slurmd = start(world, init, "/usr/sbin/slurmd", "slurmd");
	struct process *stepd = start(world, slurmd, "/usr/sbin/slurmstepd", "slurmstepd");
	struct process *script = spawn(world, stepd), *second = spawn(world, stepd),
		       *third = spawn(world, stepd);

	assert_null(stepd->run);
	stepd->cgroup = &batch; // it sits in the step's cgroup, and is no part of the step
	assert_int_equal(correlate_cgroup(world->correlate, stepd), 0);
	assert_null(stepd->run);
	script->cgroup = &batch; // moved between fork and exec
	assert_int_equal(correlate_cgroup(world->correlate, script), 0);
	become(world, script, "/usr/bin/bash", "/bin/bash|/var/spool/slurmd/job00012/slurm_script");
	struct process *bwa = start(world, script, "/usr/bin/bwa", "bwa|mem|r.fa|A_1.fq");
	second->cgroup = &step;
	assert_int_equal(correlate_cgroup(world->correlate, second), 0);
	become(world, second, "/usr/bin/samtools", "samtools|sort|A.bam");
	third->cgroup = &other;
	become(world, third, "/usr/bin/bwa", "bwa|index|x");

	assert_string_equal(script->run->id, "slurm-12");
	assert_string_equal(script->run->engine, "slurm");
	assert_string_equal(script->task->id, "batch");
	assert_int_equal(script->task->root_pid, script->pid);
	assert_int_equal(script->run->root_pid, script->pid);
	assert_ptr_equal(bwa->task, script->task);
	assert_task(bwa, "bwa mem");
	assert_string_equal(bwa->task->sample, "A");
	assert_ptr_equal(second->run, script->run);
	assert_string_equal(second->task->id, "0");
	assert_task(second, "samtools sort");
	assert_string_equal(second->task->sample, "A");
	assert_int_equal(script->run->task_count, 2);
	assert_string_equal(third->run->id, "slurm-13");
}

static void a_slurm_job_without_cgroups_is_known_by_its_script(void **state)
{
	struct world *world = *state;
	struct process *init = start(world, NULL, "/sbin/init", "init");
	struct process *stepd = start(world, init, "/usr/sbin/slurmstepd", "slurmstepd");
	struct process *script = start(world, stepd, "/usr/bin/bash",
				       "/bin/bash|/var/spool/slurmd/job00012/slurm_script");
	struct process *bwa = start(world, script, "/usr/bin/bwa", "bwa|mem|r.fa|A_1.fq");

	assert_string_equal(script->run->id, "slurm-12");
	assert_string_equal(bwa->task->id, "batch");
}

static void an_engine_in_a_job_runs_below_it(void **state)
{
	struct world *world = *state;
	struct cgroup batch = slurm_cgroup(12, "batch");
	struct process *init = start(world, NULL, "/sbin/init", "init");
	struct process *script =
		spawn(world, start(world, init, "/usr/sbin/slurmstepd", "slurmstepd"));

	script->cgroup = &batch;
	become(world, script, "/usr/bin/bash", "/bin/bash|/var/spool/slurmd/job00012/slurm_script");
	struct process *engine =
		start(world, script, "/usr/bin/python3", "python3|/usr/bin/snakemake|-c1");
	struct process *job = start(world, engine, "/usr/bin/bash", "/bin/bash|-c|bwa index x");
	become(world, job, "/usr/bin/bwa", "bwa|index|x");

	assert_string_equal(engine->run->engine, "snakemake");
	assert_string_equal(engine->run->parent->id, "slurm-12");
	assert_null(engine->task);
	assert_ptr_equal(job->run, engine->run);
	assert_task(job, "bwa index");
}

static void a_job_that_is_known_late_takes_the_engine_in(void **state)
{
	struct world *world = *state;
	struct cgroup batch = slurm_cgroup(12, "batch");
	struct process *engine = start(world, login_shell(world), "/usr/bin/python3",
				       "python3|/usr/bin/snakemake|-c1");

	assert_null(engine->run->parent);
	engine->cgroup = &batch;
	assert_int_equal(correlate_cgroup(world->correlate, engine), 0);
	assert_int_equal(correlate_cgroup(world->correlate, engine), 0);
	assert_string_equal(engine->run->engine, "snakemake");
	assert_string_equal(engine->run->parent->id, "slurm-12");
	assert_null(engine->run->parent->parent);
}

static void a_container_is_a_run_and_its_init_is_the_root(void **state)
{
	struct cgroup cgroup = {.path = "/x",
				.runtime = "docker",
				.container_id = "0123456789abcdef",
				.slurm_job = -1};
	struct world *world = *state;
	struct process *init = start(world, NULL, "/sbin/init", "init");
	struct process *shim = start(world, init, "/usr/bin/containerd-shim-runc-v2",
				     "containerd-shim-runc-v2|-id|x");
	struct process *process = start(world, shim, "/usr/bin/runc", "runc|init");

	process->cgroup = &cgroup;
	assert_int_equal(correlate_cgroup(world->correlate, process), 0);
	become(world, process, "/bin/bash", "/bin/bash|-c|bwa index a; samtools view b");
	struct process *one = start(world, process, "/usr/bin/bwa", "bwa|index|a");
	struct process *two = start(world, process, "/usr/bin/samtools", "samtools|view|b");

	assert_string_equal(process->run->id, "container-0123456789ab");
	assert_string_equal(process->run->name, "docker 0123456789ab");
	assert_ptr_equal(one->run, process->run);
	assert_task(one, "bwa index");
	assert_task(two, "samtools view");
	assert_null(process->task);
}

static void a_task_in_a_container_joins_the_engine_on_its_host(void **state)
{
	static const char work[] = "/data/work/ab/cdef1234567890abcdef1234567890";
	struct cgroup cgroup = {.path = "/x",
				.runtime = "docker",
				.container_id = "0123456789abcdef",
				.slurm_job = -1};
	struct world *world = *state;
	struct process *engine =
		root(world, "/usr/bin/java", "java|-jar|nextflow-24.10.0-one.jar|run|main.nf");
	struct process *wrapper =
		start_in(world, engine, "/usr/bin/bash", "/bin/bash|-ue|.command.run", work);
	struct process *shim =
		start(world, world->processes[0], "/usr/bin/containerd-shim-runc-v2", "shim");
	struct process *inner = spawn(world, shim);

	inner->cgroup = &cgroup;
	become_in(world, inner, "/bin/bash", "/bin/bash|-ue|.command.sh", NULL, work);
	struct process *tool = start(world, inner, "/usr/bin/bwa", "bwa|mem|r|s_1.fq");

	assert_ptr_equal(inner->task, wrapper->task);
	assert_ptr_equal(tool->task, wrapper->task);
	assert_ptr_equal(tool->run, engine->run);
	assert_task(wrapper, "bwa mem");
	become(world, inner, "/usr/bin/gzip", "gzip|x");
	assert_ptr_equal(inner->task, wrapper->task);
}

static void samples_are_handed_on_along_the_files(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *align = start(world, script, "/usr/bin/bwa",
				      "bwa|mem|-o|tmp1.bam|r.fa|NA1_R1.fastq.gz|NA1_R2.fastq.gz");
	struct process *sort =
		start(world, script, "/usr/bin/samtools", "samtools|sort|-o|next1.bam|./tmp1.bam");
	struct process *call = start(world, script, "/usr/bin/gatk",
				     "gatk|HaplotypeCaller|-I|next1.bam|--dbsnp|known.vcf.gz");
	struct process *second =
		start(world, script, "/usr/bin/bwa", "bwa|mem|-o|tmp2.bam|r.fa|NA2_R1.fastq.gz");
	struct process *call2 = start(world, script, "/usr/bin/gatk",
				      "gatk|HaplotypeCaller|-I|tmp2.bam|--dbsnp|known.vcf.gz");
	struct process *part =
		start(world, script, "/usr/bin/samtools", "samtools|index|NA2.chr7.bam");
	struct process *joint =
		start(world, script, "/usr/bin/samtools", "samtools|merge|tmp1.bam|tmp2.bam");
	struct process *known = start(world, script, "/usr/bin/tabix", "tabix|other.vcf");

	assert_string_equal(align->task->sample, "NA1");
	assert_string_equal(sort->task->sample, "NA1");
	assert_string_equal(call->task->sample, "NA1");
	assert_string_equal(second->task->sample, "NA2");
	assert_string_equal(call2->task->sample, "NA2");
	assert_string_equal(part->task->sample, "NA2");
	assert_null(joint->task->sample);
	assert_string_equal(known->task->sample, "other");
}

static void a_task_over_several_samples_has_none(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *merge = start(world, script, "/usr/bin/bash", "/bin/sh|merge.sh|brain|heart");
	struct process *both = start(world, script, "/usr/bin/samtools", "samtools|merge|o.bam|a.bam|b.bam");
	struct process *one = start(world, script, "/usr/bin/bash", "/bin/sh|one.sh|liver");

	start(world, merge, "/usr/bin/gzip", "gzip|-dc|brain.fastq.gz");
	assert_string_equal(merge->task->sample, "brain");
	start(world, merge, "/usr/bin/gzip", "gzip|-dc|heart.fastq.gz");
	start(world, merge, "/usr/bin/gzip", "gzip|-dc|brain.fastq.gz");
	assert_null(merge->task->sample);
	assert_null(both->task->sample);
	start(world, one, "/usr/bin/bwa", "bwa|mem|liver_R1.fastq.gz|liver_R2.fastq.gz");
	start(world, one, "/usr/bin/samtools", "samtools|sort|-o|liver.chr7.bam|x.sam");
	assert_string_equal(one->task->sample, "liver");
}

static void a_boundary_inside_a_run_does_not_end_it(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *screen = start(world, script, "/usr/bin/tmux", "tmux|new|-d|bwa index x");
	struct process *daemon = start(world, screen, "/usr/bin/bwa", "bwa|index|x");

	assert_ptr_equal(daemon->run, script->run);
	assert_ptr_equal(daemon->task, screen->task);
}

static void a_child_of_an_unseen_init_is_a_run_until_a_login_in_it(void **state)
{
	struct world *world = *state;
	struct process *daemon = spawn(world, NULL), *terminal, *work;

	daemon->pid = 5000;
	daemon->ppid = 1;
	assert_int_equal(correlate_fork(world->correlate, daemon), 0);
	become(world, daemon, "/usr/bin/notebookd", "notebookd");
	assert_string_equal(daemon->run->name, "notebookd");
	assert_ptr_equal(start(world, daemon, "/usr/bin/sort", "sort|x")->run, daemon->run);
	terminal = start(world, daemon, "/usr/bin/bash", "-bash");
	assert_null(terminal->run);
	work = start(world, terminal, "/usr/bin/bwa", "bwa|index|x");
	assert_string_equal(work->run->name, "bwa index");
	assert_ptr_not_equal(work->run, daemon->run);
}

static void without_a_known_parent_there_is_no_run(void **state)
{
	struct world *world = *state;
	struct process *orphan = start(world, NULL, "/usr/bin/bwa", "bwa|index|x");

	orphan->pid = 5000;
	assert_null(spawn(world, orphan)->run);
}

static void a_task_of_many_tools_is_called_after_the_telling_ones(void **state)
{
	struct world *world = *state;
	struct process *engine = root(world, "/usr/bin/python3", "python3|/usr/bin/snakemake|-c1");
	struct process *job = start(world, engine, "/usr/bin/bash", "/bin/bash|-c|...");

	start(world, job, "/usr/bin/mkdir", "mkdir|x");
	assert_task(job, "mkdir");
	start(world, job, "/usr/bin/sort", "sort|x");
	assert_task(job, "sort");
	start(world, job, "/home/u/mytool", "mytool");
	assert_task(job, "mytool");
	start(world, job, "/usr/bin/bwa", "bwa|mem|x");
	assert_task(job, "bwa mem");
	start(world, job, "/usr/bin/cat", "cat");
	start(world, job, "/usr/bin/samtools", "samtools|sort|x");
	start(world, job, "/usr/bin/samtools", "samtools|sort|y");
	start(world, job, "/usr/bin/samtools", "samtools|index|x");
	assert_task(job, "bwa mem + samtools sort + samtools index");
	start(world, job, "/usr/bin/fastqc", "fastqc|x");
	assert_task(job, "bwa mem + samtools sort + samtools index + ...");
}

static void a_record_names_tool_task_run_and_sample(void **state)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *child = start(world, script, "/usr/bin/samtools", "samtools|index|S1.bam");
	struct json json = json_to(&out);
	char expect[512];

	json_open_object(&json);
	correlate_write(child, &json);
	json_close_object(&json);
	snprintf(expect, sizeof(expect),
		 "{\"tool\":\"samtools index\",\"task\":\"%s\",\"task_name\":\"samtools "
		 "index\",\"run\":\"%s\","
		 "\"run_name\":\"x.sh\",\"run_parent\":null,\"engine\":\"script\",\"sample\":"
		 "\"S1\"}",
		 child->task->id, child->run->id);
	assert_string_equal(out.data, expect);
	buf_reset(&out);
	json = json_to(&out);
	json_open_object(&json);
	correlate_write(world->processes[0], &json);
	json_close_object(&json);
	assert_non_null(strstr(out.data, "\"task\":null,\"task_name\":null,\"run\":null"));
}

static enum end_meaning ended(struct process *process, int32_t exit_code, int32_t signal)
{
	process->exit_code = exit_code;
	process->signal = signal;
	return correlate_end_meaning(process);
}

// As GNU parallel was seen to do: its own questions are no failures, its jobs' ends are their own, whatever they are.
static void what_a_wrapper_asks_for_itself_does_not_fail(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *parallel = start(world, script, "/usr/bin/perl", "perl|/usr/bin/parallel|./one.sh");
	struct process *sleeper = start(world, parallel, "/usr/bin/sleep", "sleep|10101");
	struct process *copy = spawn(world, parallel);
	struct process *asks = start(world, parallel, "/usr/bin/dash", "sh|-c|sh -c \"tput el </dev/tty\" 2>/dev/null");
	struct process *inner = start(world, asks, "/usr/bin/dash", "sh|-c|tput el </dev/tty");
	struct process *job = start(world, parallel, "/usr/bin/bash", "/bin/bash|-c|./one.sh a");
	struct process *work = start(world, job, "/usr/bin/sleep", "sleep|5");
	struct process *became = start(world, parallel, "/usr/bin/bash", "/bin/bash|-c|sleep 5");

	become(world, became, "/usr/bin/sleep", "sleep|5");
	assert_string_equal(parallel->image->tool, "parallel");
	assert_int_equal(ended(sleeper, -1, 9), END_PROBE);
	assert_int_equal(ended(sleeper, 0, 0), END_PLAIN);
	assert_int_equal(ended(copy, -1, 9), END_PROBE);
	assert_int_equal(ended(asks, 2, 0), END_PROBE);
	assert_int_equal(ended(inner, 2, 0), END_PROBE);
	assert_int_equal(ended(job, 3, 0), END_PLAIN);
	assert_int_equal(ended(work, -1, 9), END_PLAIN);
	assert_int_equal(ended(became, -1, 9), END_PLAIN);
	assert_int_equal(ended(parallel, 1, 0), END_PLAIN);
	sleeper->oom = true;
	assert_int_equal(ended(sleeper, -1, 9), END_PLAIN);
}

static void exit_code_1_of_a_question_is_an_answer(void **state)
{
	struct world *world = *state;
	struct process *script = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *grep = start(world, script, "/usr/bin/grep", "grep|-q|x|file");
	struct process *which = start_in(world, script, "/usr/bin/dash", "/bin/sh|/usr/bin/which|bwa", NULL);
	struct process *sort = start(world, script, "/usr/bin/sort", "sort|x");
	struct process *code = start(world, script, "/usr/bin/dash", "sh|-c|grep x y");

	assert_int_equal(ended(grep, 1, 0), END_ANSWER);
	assert_int_equal(ended(grep, 2, 0), END_PLAIN);
	assert_int_equal(ended(grep, -1, 11), END_PLAIN);
	assert_int_equal(ended(which, 1, 0), END_ANSWER);
	assert_int_equal(ended(sort, 1, 0), END_PLAIN);
	assert_int_equal(ended(code, 1, 0), END_PLAIN);
	assert_int_equal(ended(spawn(world, grep), 1, 0), END_PLAIN);
	become(world, grep, "/usr/bin/sort", "sort|x");
	assert_int_equal(ended(grep, 1, 0), END_PLAIN);
}

// A chain of shells as deep as the table, then its end in both directions: nothing may recurse or stay behind.
static void deep_and_wide_trees_cost_no_stack(void **state)
{
	struct world *world = *state;
	struct process *top = root(world, "/usr/bin/bash", "bash|x.sh"), *process = top;

	for (int i = 0; i < 1500; i++)
		process = start(world, process, "/usr/bin/bash", "bash|y.sh");
	assert_ptr_equal(process->run, top->run);
	for (int i = 0; i < 1500; i++)
		process = start(world, top, "/usr/bin/python3", "python3|/usr/bin/snakemake|-c1");
	assert_int_equal(top->run->task_count, 1);
	process = top;
	for (int i = 0; i < 500; i++) {
		struct process *engine =
			start(world, process, "/usr/bin/python3", "python3|/usr/bin/snakemake|-c1");
		process = start(world, engine, "/usr/bin/bash", "bash|-c|snakemake");
	}
	assert_string_equal(process->run->engine, "snakemake");
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
		TEST(helpers_of_a_nextflow_wrapper_name_no_task),
		TEST(a_task_over_several_samples_has_none),
		TEST(a_nested_engine_opens_a_run_below),
		TEST(children_of_a_boundary_are_runs_and_pipelines_are_one),
		TEST(runs_and_tasks_outlive_their_processes),
		TEST(a_slurm_job_is_a_run_and_its_steps_are_tasks),
		TEST(a_slurm_job_without_cgroups_is_known_by_its_script),
		TEST(an_engine_in_a_job_runs_below_it),
		TEST(a_job_that_is_known_late_takes_the_engine_in),
		TEST(a_container_is_a_run_and_its_init_is_the_root),
		TEST(a_task_in_a_container_joins_the_engine_on_its_host),
		TEST(samples_are_handed_on_along_the_files),
		TEST(a_boundary_inside_a_run_does_not_end_it),
		TEST(a_child_of_an_unseen_init_is_a_run_until_a_login_in_it),
		TEST(without_a_known_parent_there_is_no_run),
		TEST(a_task_of_many_tools_is_called_after_the_telling_ones),
		TEST(a_record_names_tool_task_run_and_sample),
		TEST(what_a_wrapper_asks_for_itself_does_not_fail),
		TEST(exit_code_1_of_a_question_is_an_answer),
		TEST(deep_and_wide_trees_cost_no_stack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
