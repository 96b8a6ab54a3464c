// SPDX-License-Identifier: Apache-2.0
// Correlate, what a run tells of the whole it is part of: which process tells it, and of which run.
#include "tests/unit/process_world.h"

#include <errno.h>

// What a process tells of its run, as JSON; the caller's to free.
static char *told(const struct process *process)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct json json = json_to(&out);
	char *join;

	json_open_object(&json);
	correlate_write(process, &json);
	json_close_object(&json);
	join = strstr(out.data, "\"join\":");
	return strdup(join ? join : "");
}

static void assert_tells(const struct process *process, const char *text)
{
	CLEANUP(cleanup_free) char *json = told(process);

	if (text ? !strstr(json, text) : *json)
		fail_msg("%s instead of %s", json, text ? text : "nothing");
}

static void a_run_tells_a_key_once(void **state)
{
	static const char task[] = "/scratch/work/ab/cdef0123456789abcdef0123456789";
	struct world *world = *state;
	struct cgroup batch = slurm_cgroup(77, "batch");
	struct process *shell = root(world, "/usr/bin/bash", "bash|x.sh");
	struct process *head = start_in(world, shell, "/usr/bin/java",
					"java|-jar|nextflow-24-one.jar|run|m.nf|-w|/scratch/work", "/home/a");
	struct process *submit = start_in(world, head, "/usr/bin/sbatch", "sbatch|.command.run", task);
	struct process *again = start_in(world, head, "/usr/bin/sbatch", "sbatch|.command.run", task);
	struct process *slurmd = start(world, NULL, "/usr/sbin/slurmd", "slurmd");
	struct process *script = spawn(world, slurmd);

	assert_tells(shell, NULL);
	assert_tells(head, "{\"key\":\"nextflow:/scratch/work\"");
	assert_tells(head, "\"how\":\"place\",\"within_s\":60,\"head\":true}");
	assert_tells(submit, "{\"key\":\"nextflow-task:/scratch/work/ab/cdef0123456789abcdef0123456789\"");
	assert_tells(again, NULL);

	script->cgroup = &batch;
	become_in(world, script, "/usr/bin/bash", "/bin/bash|/var/spool/slurmd/job00077/slurm_script", NULL, task);
	struct process *wrapped =
		start_in(world, script, "/usr/bin/bash",
			 "/bin/bash|-ue|/scratch/work/ab/cdef0123456789abcdef0123456789/.command.sh", task);
	assert_tells(script, "{\"key\":\"slurm-job:1000/77\"");
	assert_tells(wrapped, "{\"key\":\"nextflow-task:/scratch/work/ab/cdef0123456789abcdef0123456789\"");
	assert_tells(wrapped, "{\"key\":\"nextflow:/scratch/work\"");
	assert_string_equal(wrapped->run->id, "slurm-77");
}

static void a_job_is_not_told_of_the_engine_in_it(void **state)
{
	struct world *world = *state;
	struct cgroup batch = slurm_cgroup(78, "batch");
	struct process *slurmd = start(world, NULL, "/usr/sbin/slurmd", "slurmd");
	struct process *script = spawn(world, slurmd), *head;

	script->cgroup = &batch;
	become(world, script, "/usr/bin/bash", "/bin/bash|/var/spool/slurmd/job00078/slurm_script");
	head = start_in(world, script, "/usr/bin/python3", "python3|/usr/bin/snakemake|-d|../b//sub/.", "/data/a");
	assert_string_equal(head->run->engine, "snakemake");
	assert_tells(head, "[{\"key\":\"snakemake:/data/b/sub\"");
	CLEANUP(cleanup_free) char *json = told(head);
	assert_null(strstr(json, "slurm-job"));
}

static void a_trace_identifier_is_a_key(void **state)
{
	struct world *world = *state;
	struct process *top = root(world, "/usr/bin/bash", "bash|x.sh");
	char long_id[400];

	memset(long_id, 'x', sizeof(long_id) - 1);
	long_id[sizeof(long_id) - 1] = 0;
	assert_int_equal(correlate_trace(world->correlate, top, long_id), -EINVAL);
	assert_int_equal(correlate_trace(world->correlate, top, ""), -EINVAL);
	assert_int_equal(correlate_trace(world->correlate, top, "study-7"), 0);
	assert_tells(top, "[{\"key\":\"trace:study-7\",");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_set_up, world_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_run_tells_a_key_once),
		TEST(a_job_is_not_told_of_the_engine_in_it),
		TEST(a_trace_identifier_is_a_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
