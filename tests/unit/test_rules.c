// SPDX-License-Identifier: Apache-2.0
// The rules room: patterns, what the shipped rules make of real command lines, secrets, samples and the kernel's filter.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/glob.h"
#include "core/rules.h"

static struct rules *shipped;

static int load_shipped(void **state)
{
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	int result = rules_load(NULL, &shipped, &error);

	(void)state;
	if (result)
		fprintf(stderr, "%s", error.data ? error.data : "out of memory\n");
	return result;
}

static int free_shipped(void **state)
{
	(void)state;
	rules_free(shipped);
	return 0;
}

// A command line with '|' for the NULs; ret_args is the caller's to free.
static struct rule_subject subject_of(const char *exe, const char *command, char **ret_args)
{
	char *args = strdup(command);
	uint32_t size = (uint32_t)strlen(args) + 1;

	assert_non_null(args);
	for (char *c = args; *c; c++)
		*c = *c == '|' ? 0 : *c;
	*ret_args = args;
	return (struct rule_subject){
		.comm = "x", .exe = exe ? exe : args, .args = args, .args_size = size, .uid = 1000};
}

// --- patterns --------------------------------------------------------------------------------------------------------

static void patterns_match_like_a_shell(void **state)
{
	static const struct {
		const char *pattern, *text;
		unsigned flags;
		bool expect;
		const char *captured;
	} cases[] = {
		{"bwa", "bwa", 0, true, "bwa"},
		{"bwa", "bwa2", 0, false, NULL},
		{"bwa*", "bwa-mem2", 0, true, "bwa-mem2"},
		{"*a*b*c", "xxaxxbxxbxxc", 0, true, NULL},
		{"*a*b*c", "xxaxxcxxb", 0, false, NULL},
		{"a?c", "abc", 0, true, NULL},
		{"a?c", "ac", 0, false, NULL},
		{"[a-c]x", "bx", 0, true, NULL},
		{"[!a-c]x", "bx", 0, false, NULL},
		{"[]]x", "]x", 0, true, NULL},
		{"\\*", "*", 0, true, NULL},
		{"\\*", "a", 0, false, NULL},
		{"*/x", "/a/b/x", GLOB_PATH, false, NULL},
		{"**/x", "/a/b/x", GLOB_PATH, true, NULL},
		{"**/x", "x", GLOB_PATH, true, NULL},
		{"**/x", "/a/bx", GLOB_PATH, false, NULL},
		{"/a/**", "/a/b/c", GLOB_PATH, true, NULL},
		{"/a/**/c", "/a/c", GLOB_PATH, true, NULL},
		{"/a/**/c", "/a/b/b/c", GLOB_PATH, true, NULL},
		{"/a/?/c", "/a///c", GLOB_PATH, false, NULL},
		{"/a/[!x]/c", "/a///c", GLOB_PATH, false, NULL},
		{"**/job_(*)/step_*/**", "/s/job_12/step_0/user", GLOB_PATH, true, "12"},
		{"**/([0-9a-f]?/[0-9a-f][0-9a-f]???[0-9a-f])*/.command.*",
		 "/w/x/ab/cdef0123/.command.sh", GLOB_PATH, true, "ab/cdef01"},
		{"**/call-(*)/execution/script", "/c/call-a/sub/call-b/execution/script", GLOB_PATH,
		 true, "b"},
		{"--*TOKEN", "--My-Token", GLOB_FOLD, true, NULL},
		{"(*):*", "rule:a=1:b", 0, true, "rule"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *reason = NULL, *start = NULL;
		const struct glob *glob = NULL;
		struct arena arena;
		size_t length = 0;
		arena_init(&arena, 1024);
		assert_int_equal(
			glob_compile(cases[i].pattern, cases[i].flags, &arena, &glob, &reason), 0);
		if (glob_matches(glob, cases[i].text) != cases[i].expect)
			fail_msg("\"%s\" on \"%s\"", cases[i].pattern, cases[i].text);
		assert_int_equal(glob_capture(glob, cases[i].text, &start, &length),
				 cases[i].expect);
		if (cases[i].captured) {
			assert_int_equal(length, strlen(cases[i].captured));
			assert_memory_equal(start, cases[i].captured, length);
		}
		arena_free(&arena);
	}
}

static void bad_patterns_say_why(void **state)
{
	static const char *const bad[] = {"", "[a", "[", "a\\", "(a", "a)", "(a)(b)", "((a))"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct glob *glob = NULL;
		const char *reason = NULL;
		struct arena arena;
		arena_init(&arena, 1024);
		assert_int_equal(glob_compile(bad[i], 0, &arena, &glob, &reason), -EINVAL);
		assert_non_null(reason);
		assert_null(glob);
		arena_free(&arena);
	}
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void a_hostile_text_costs_bounded_time(void **state)
{
	static const char *const patterns[] = {"**a**a**a**a**b", "*a*a*a*a*a*a*a*b",
					       "**/a*/**/a*/**/b"};
	char text[GLOB_TEXT_MAX];
	uint64_t start = now_ns();

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 7 ? 'a' : '/';
	text[sizeof(text) - 1] = 0;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		const struct glob *glob = NULL;
		const char *reason = NULL, *open;
		struct arena arena;
		size_t length;
		arena_init(&arena, 1024);
		assert_int_equal(glob_compile(patterns[i], GLOB_PATH, &arena, &glob, &reason), 0);
		assert_false(glob_capture(glob, text, &open, &length));
		arena_free(&arena);
	}
	assert_true(now_ns() - start < UINT64_C(5000000000));
}

// --- what the shipped rules make of command lines ----------------------------------------------------------------

struct naming {
	const char *exe; // NULL: the first word
	const char *command; // '|' between arguments
	const char *tool;
};

static const struct naming namings[] = {
	{NULL, "/usr/bin/samtools|sort|-@|4|x.bam", "samtools sort"},
	{NULL, "samtools|--version", "samtools"},
	{NULL, "bwa-mem2.avx512bw|mem|-t|8|ref.fa", "bwa-mem2 mem"},
	{NULL, "/opt/samtools-1.17/bin/samtools-1.17|view", "samtools view"},
	{NULL, "bcftools|+fill-tags|x.vcf", "bcftools +fill-tags"},
	{"/usr/bin/python3.11", "python|train.py|--epochs|3", "python train.py"},
	{"/usr/bin/python3.11", "python3|-u|-W|ignore|/data/train.py", "python train.py"},
	{"/usr/bin/python3.11", "python|-m|snakemake|--cores|1", "snakemake"},
	{"/usr/bin/python3.11", "/opt/conda/bin/python|/opt/conda/bin/multiqc|.", "multiqc"},
	{"/usr/bin/python3.11", "python|-m|mypackage.tool", "python -m mypackage.tool"},
	{"/usr/bin/python3.11", "python|-uc|import os", "python -c"},
	{"/usr/bin/python3.11", "python", "python"},
	{"/usr/bin/python3.11", "python3|/p/bin/torchrun|--nproc-per-node|2|train.py",
	 "torchrun train.py"},
	{"/usr/bin/python3.11", "python|-m|ipykernel_launcher|-f|x.json",
	 "jupyter kernel (python)"},
	{"/jvm/bin/java", "java|-Xmx4g|-jar|/p/picard.jar|MarkDuplicates|I=x.bam",
	 "picard MarkDuplicates"},
	{"/jvm/bin/java", "java|-jar|gatk-package-4.4.0.0-local.jar|HaplotypeCaller|-I|x",
	 "gatk HaplotypeCaller"},
	{"/jvm/bin/java", "java|-cp|/x/lib|nextflow.cli.Launcher|run|main.nf", "nextflow run"},
	{"/jvm/bin/java", "java|-jar|my.jar|x", "java my.jar"},
	{"/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2|--library-path|/opt/lib|/opt/samtools|sort|x", "samtools sort"},
	{"/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-x86_64.so.1|/opt/own|x", "ld.so own"},
	{"/jvm/bin/java", "java|-cp|x|org.example.Main", "java Main"},
	{"/usr/lib/R/bin/exec/R", "R|--no-echo|--no-restore|--file=plots/x.R|--args|a|b",
	 "Rscript x.R"},
	{"/usr/bin/Rscript", "Rscript|--vanilla|x.R", "Rscript x.R"},
	{"/usr/bin/perl", "perl|x.pl", "perl x.pl"},
	{"/usr/bin/perl", "/usr/bin/perl|/usr/bin/bowtie2|-x|i", "bowtie2"},
	{"/usr/bin/perl", "perl|-lane|print", "perl -e"},
	{"/usr/bin/bash", "bash|-euo|pipefail|x.sh|y", "bash x.sh"},
	{"/usr/bin/bash", "/bin/bash|-c|echo hi", "bash -c"},
	{"/usr/bin/bash", "bash|-euo|pipefail|-c|echo hi", "bash -c"},
	{"/usr/bin/bash", "/bin/bash|-ue|.command.sh", "bash .command.sh"},
	{"/usr/bin/bash", "-bash", "bash"},
	{"/usr/bin/bash", "bash|/dev/fd/63|x", "bash -c"},
	{"/usr/bin/samtools (deleted)", "samtools|sort", "samtools sort"},
	{"/usr/bin/python3.11 (deleted)", "python|train.py", "python train.py"},
	{"/memfd:runtime (deleted)", "anything|x", "x"}, // its comm
	{"/", "/usr/bin/crun|run|box", "crun run"}, // a detached file
	{"/ (deleted)", "crun|init", "crun"},
	{"/", "-bash", "bash"},
	{"/", "", "x"}, // its comm
	{"/usr/bin/dash", "sh|x.sh", "sh x.sh"},
	{"/bin/busybox", "sed|-n|p", "sed"},
	{"/bin/busybox", "/bin/sh|-c|x", "sh -c"},
	{NULL, "env|python|x.py", "env"},
	{NULL, "/usr/bin/timeout|10|bwa|mem", "timeout"},
	{NULL, "nice|bwa", "nice"},
	{NULL, "/home/u/bin/my-own-tool|sub", "my-own-tool"},
	{"/usr/bin/x86_64-linux-gnu-gcc-12", "gcc|-c|x.c", "gcc"},
	{NULL, "x86_64-linux-gnu-as|--64|-o|x.o|x.s", "x86_64-linux-gnu-as"},
	{NULL, "STAR|--runMode|alignReads", "STAR"},
	{NULL, "makeblastdb|-in|x", "makeblastdb"},
	{"/usr/bin/python3.11", "python|/w/.snakemake/scripts/tmpab12cd34.plot.py",
	 "python plot.py"},
};

static void programs_are_called_what_people_call_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(namings) / sizeof(namings[0]); i++) {
		CLEANUP(cleanup_free) char *args = NULL;
		struct rule_subject subject = subject_of(namings[i].exe, namings[i].command, &args);
		struct rule_result result;
		struct arena arena;
		arena_init(&arena, 4096);
		assert_int_equal(rules_match(shipped, &subject, &arena, &result), 0);
		if (strcmp(result.tool, namings[i].tool))
			fail_msg("%s: \"%s\", not \"%s\"", namings[i].command, result.tool,
				 namings[i].tool);
		arena_free(&arena);
	}
}

static void a_truncated_comm_is_known_where_nothing_else_is(void **state)
{
	struct rule_subject subject = {.comm = "raxmlHPC-PTHREA"},
			    other = {.comm = "raxmlHPC-PTHRE"};
	struct rule_result result;
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096);
	assert_int_equal(rules_match(shipped, &subject, &arena, &result), 0);
	assert_string_equal(result.tool, "raxml");
	assert_int_equal(rules_match(shipped, &other, &arena, &result), 0);
	assert_string_equal(result.tool, "raxmlHPC-PTHRE");
	subject.comm = NULL;
	assert_int_equal(rules_match(shipped, &subject, &arena, &result), 0);
	assert_string_equal(result.tool, "(unknown)");
	arena_free(&arena);
}

static void the_catalogue_is_wide(void **state)
{
	(void)state;
	assert_true(rules_count(shipped) > 300);
}

static void no_shipped_rule_is_unreachable(void **state)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;

	(void)state;
	assert_int_equal(rules_warnings(shipped, &out), 0);
	if (out.length)
		fail_msg("%s", out.data);
}

static void display_names_hold_no_control_characters(void **state)
{
	CLEANUP(cleanup_free) char *args = NULL;
	struct rule_subject subject =
		subject_of("/usr/bin/python3", "python|a\x1b[31m\nb.py", &args);
	struct rule_result result;
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096);
	assert_int_equal(rules_match(shipped, &subject, &arena, &result), 0);
	for (const char *c = result.tool; *c; c++)
		assert_true((unsigned char)*c >= ' ');
	arena_free(&arena);
}

static void jobs_are_read_from_cgroups(void **state)
{
	struct rule_subject slurm = {.comm = "bwa", .slurm_job = 12, .slurm_step = "batch"};
	struct rule_subject pod = {.comm = "bwa",
				   .container_runtime = "containerd",
				   .container_id = "0123456789abcdef0123",
				   .pod_uid = "aa-bb"};
	struct rule_result result;
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096);
	assert_int_equal(rules_match(shipped, &slurm, &arena, &result), 0);
	assert_true(result.roles & RULE_JOB);
	assert_string_equal(result.job_engine, "slurm");
	assert_string_equal(result.job_id, "12");
	assert_string_equal(result.job_task, "batch");
	assert_int_equal(rules_match(shipped, &pod, &arena, &result), 0);
	assert_string_equal(result.job_engine, "kubernetes");
	assert_string_equal(result.job_id, "aa-bb");
	assert_string_equal(result.job_task, "0123456789ab");
	pod.pod_uid = NULL;
	assert_int_equal(rules_match(shipped, &pod, &arena, &result), 0);
	assert_string_equal(result.job_engine, "container");
	assert_null(result.job_task);
	arena_free(&arena);
}

// --- secrets -----------------------------------------------------------------------------------------------------

static void secrets_are_taken_out_of_arguments(void **state)
{
	static const struct {
		const char *before, *after; // '|' between arguments
	} cases[] = {
		{"x|--password=abc|y", "x|--password=[redacted]|y"},
		{"x|--password|abc|y", "x|--password|[redacted]|y"},
		{"x|--db-PASSWORD=abc", "x|--db-PASSWORD=[redacted]"},
		{"x|--api-key|k|--threads|4", "x|--api-key|[redacted]|--threads|4"},
		{"x|--token|--verbose", "x|--token|--verbose"},
		{"curl|-H|Authorization: Bearer abc.def", "curl|-H|Authorization: [redacted]"},
		{"curl|-u|me:pw|http", "curl|-u|[redacted]|http"},
		{"git|clone|https://me:pw@host/x", "git|clone|https://me:[redacted]@host/x"},
		{"env|AWS_SECRET_ACCESS_KEY=abc|ls", "env|AWS_SECRET_ACCESS_KEY=[redacted]|ls"},
		{"x|AKIAABCDEFGHIJKLMNOP", "x|[redacted]"},
		{"mysql|-psecret|db", "mysql|-p[redacted]|db"},
		{"samtools|-psecret|db", "samtools|-psecret|db"},
		{"bash|-c|export TOKEN=abc; run --password abc | tee x",
		 "bash|-c|export TOKEN=[redacted]; run --password [redacted] | tee x"},
		{"sh|-c|export TOKEN='a b' X=\"c d\"", "sh|-c|export TOKEN='[redacted]' X=\"c d\""},
		{"sh|-c|run --password \"a b\" -v", "sh|-c|run --password \"[redacted]\" -v"},
		{"x|--password|-abc|-v", "x|--password|[redacted]|-v"},
		{"x|--password=|next", "x|--password=|next"},
		{"x|--tokenizer|bert|--max-tokens|5", "x|--tokenizer|bert|--max-tokens|5"},
		{"bwa|mem|-t|8|ref.fa|a.fq", "bwa|mem|-t|8|ref.fa|a.fq"},
		{"hf|download|--token=hf_abcdefghijklmnopqrstuvwxyz",
		 "hf|download|--token=[redacted]"},
		{"x||--password|", "x||--password|[redacted]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP(cleanup_free) char *args = NULL, *expect = NULL;
		struct rule_subject subject = subject_of(NULL, cases[i].before, &args);
		struct rule_subject want = subject_of(NULL, cases[i].after, &expect);
		const char *out = NULL;
		uint32_t size = 0;
		struct arena arena;
		// A pipe inside an argument is a NUL here and there alike.
		arena_init(&arena, 4096);
		assert_int_equal(
			rules_redact(shipped, subject.args, subject.args_size, &arena, &out, &size),
			0);
		if (size != want.args_size || memcmp(out, want.args, size)) {
			for (uint32_t at = 0; at + 1 < size; at++)
				fputc(out[at] ? out[at] : '|', stderr);
			fail_msg(" <- %s", cases[i].before);
		}
		arena_free(&arena);
	}
}

// --- samples -----------------------------------------------------------------------------------------------------

static void samples_are_stems_of_data_files(void **state)
{
	static const struct {
		const char *command, *sample;
	} cases[] = {
		{"bwa|mem|ref.fa|reads/NA12878_R1.fastq.gz|reads/NA12878_R2.fastq.gz", "NA12878"},
		{"bwa|mem|ref.fa|S1_1.fq|S1_2.fq", "S1"},
		{"samtools|index|/x/S2.sorted.markdup.bam", "S2"},
		{"gatk|HaplotypeCaller|-I|S3.recal.bam|-O|S3.g.vcf.gz", "S3"},
		{"x|--input=S4_S1_L001_R1_001.fastq.gz", "S4_S1"},
		{"bash|-c|bwa mem g.fa data/A.fastq > A.bam", "A"},
		{"x|reads.fastq", NULL},
		{"samtools|sort|-o|sorted.bam|S5.sam", "S5"},
		{"x|ref.fa|genes.gtf", NULL},
		{"x|.bam", NULL},
		{"x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP(cleanup_free) char *args = NULL;
		struct rule_subject subject = subject_of(NULL, cases[i].command, &args);
		const char *sample = "";
		uint32_t weight;
		struct arena arena;
		arena_init(&arena, 4096);
		assert_int_equal(rules_sample(shipped, subject.args, subject.args_size, &arena,
					      &sample, &weight),
				 0);
		if (!cases[i].sample != !sample || (sample && strcmp(sample, cases[i].sample)))
			fail_msg("%s: %s", cases[i].command, sample ? sample : "(none)");
		arena_free(&arena);
	}
}

// --- cost ----------------------------------------------------------------------------------------------------------

// Keys that parts of a run on different hosts have in common: the same text from both sides.
static void parts_of_a_run_share_a_key(void **state)
{
	static const struct {
		const char *command, *cwd, *engine, *key; // key NULL: none
	} cases[] = {
		{"nextflow|run|x.nf|-w|/s/w/", "/home/a", NULL, "nextflow:/s/w"},
		{"nextflow|run|x.nf|-work-dir|s3://b/w/", "/home/a", NULL, "nextflow:s3://b/w"},
		{"nextflow|run|x.nf", "/home/a", NULL, "nextflow:/home/a/work"},
		{"bash|.command.run", "/s/w/ab/cdef0123456789", "slurm", "nextflow:/s/w"},
		{"bash|.command.run", "/s/w/ab/cdef0123456789", "nextflow", NULL},
		{"bash|-c|aws s3 cp s3://b/w/ab/cdef0123/.command.run - \x01 bash", "/", NULL, "nextflow:s3://b/w"},
		{"snakemake|--directory|/p", "/home/a", NULL, "snakemake:/p"},
		{"snakemake|-c4", "/p/./", NULL, "snakemake:/p"},
		{"python3|-m|snakemake|--target-jobs|a:|--directory|/p", "/", "slurm", "snakemake:/p"},
		{"python3|-m|snakemake|--target-jobs|a:|--directory|/p", "/", "snakemake", NULL},
		{"toil-cwl-runner|--jobStore|file:/s/store|x.cwl", "/", NULL, "toil:/s/store"},
		{"python3|/usr/bin/_toil_worker|name|file:/s/store|id", "/", "slurm", "toil:/s/store"},
		{"bash|/s/cromwell-executions/wf/6b29fc40-ca47/call-a/execution/script", "/", NULL, "cromwell:6b29fc40-ca47"},
		{"bash|/s/cromwell-executions/wf/6b29fc40-ca47/call-a/execution/script.submit", "/", NULL, "cromwell:6b29fc40-ca47"},
		{"airflow|tasks|run|dag|task|run-1", "/", NULL, "airflow:dag/run-1"},
		{"torchrun|--master_addr=n1|--master_port|29|x.py", "/", NULL, "torch:n1:29"},
		{"torchrun|--master_addr|localhost|x.py", "/", NULL, NULL},
		{"torchrun|--rdzv-endpoint=n1:9|--rdzv-id=7|x.py", "/", NULL, "torch:n1:9/7"},
		{"ssh|n2|/usr/bin/hydra_pmi_proxy|--control-port|n1:5", "/", NULL, "hydra:n1:5"},
		{"/usr/bin/hydra_pmi_proxy|--control-port|n1:5", "/", NULL, "hydra:n1:5"},
		{"sbatch|job.sh", "/p", NULL, "submit:1000:/p"},
		{"sbatch|--chdir=/q|job.sh", "/p", NULL, "submit:1000:/q"},
		{"nextflow|run|x|-w|https://me:secret@host/w", "/p", NULL, NULL}, // a secret is no key
		{"samtools|sort|x.bam", "/s/w/ab/cdef0123456789", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP(cleanup_free) char *args = NULL;
		struct rule_subject subject = subject_of(NULL, cases[i].command, &args);
		struct rule_result result;
		struct arena arena;
		bool found = false;

		subject.cwd = cases[i].cwd;
		subject.engine = cases[i].engine;
		arena_init(&arena, 4096);
		assert_int_equal(rules_match(shipped, &subject, &arena, &result), 0);
		for (uint32_t j = 0; cases[i].key && j < result.join_count; j++)
			found = found || !strcmp(result.joins[j].key, cases[i].key);
		if (cases[i].key ? !found : result.join_count)
			fail_msg("\"%s\": %s, not %s", cases[i].command, result.join_count ? result.joins[0].key : "no key",
				 cases[i].key ? cases[i].key : "none");
		arena_free(&arena);
	}
}

// The bound is for a sanitized build on a busy machine; tests/bench has the figure of the real one.
static void a_match_is_cheap(void **state)
{
	enum { ROUNDS = 2000 };
	CLEANUP(cleanup_free) char *args = NULL;
	struct rule_subject subject =
		subject_of(NULL, "/usr/bin/samtools|sort|-@|4|-o|x.bam|y.bam", &args);
	uint64_t start = now_ns();
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096);
	for (int i = 0; i < ROUNDS; i++) {
		struct rule_result result;
		assert_int_equal(rules_match(shipped, &subject, &arena, &result), 0);
		arena_reset(&arena);
	}
	arena_free(&arena);
	assert_true((now_ns() - start) / ROUNDS < 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_like_a_shell),
		cmocka_unit_test(bad_patterns_say_why),
		cmocka_unit_test(a_hostile_text_costs_bounded_time),
		cmocka_unit_test(programs_are_called_what_people_call_them),
		cmocka_unit_test(a_truncated_comm_is_known_where_nothing_else_is),
		cmocka_unit_test(the_catalogue_is_wide),
		cmocka_unit_test(no_shipped_rule_is_unreachable),
		cmocka_unit_test(display_names_hold_no_control_characters),
		cmocka_unit_test(jobs_are_read_from_cgroups),
		cmocka_unit_test(secrets_are_taken_out_of_arguments),
		cmocka_unit_test(samples_are_stems_of_data_files),
		cmocka_unit_test(parts_of_a_run_share_a_key),
		cmocka_unit_test(a_match_is_cheap),
	};

	return cmocka_run_group_tests(tests, load_shipped, free_shipped);
}
