// SPDX-License-Identifier: Apache-2.0
// Cost of the rules room on one core: loading the shipped rules, matching and redacting what an exec brings.
//
//   make build/tests/bench/rules_speed && build/tests/bench/rules_speed
//
// Prints one line "name value unit" a figure; each is the best of several rounds, CPU time of this process.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/rules.h"

enum { ROUNDS = 7, CALLS = 50000, LOADS = 5 };

// '|' between arguments.
static const char *const commands[] = {
	"/usr/bin/samtools|sort|-@|8|-o|out/NA12878.sorted.bam|out/NA12878.bam",
	"/usr/bin/bash|-ue|.command.sh",
	"/usr/bin/python3.11|/opt/conda/bin/multiqc|--outdir|qc|results",
	"/usr/bin/java|-Xmx8g|-jar|/opt/picard.jar|MarkDuplicates|I=a.bam|O=b.bam|M=m.txt",
	"/usr/bin/my-unknown-tool|--threads|8|--input|a.fastq.gz|--output|b",
	"/usr/bin/cat|a|b|c",
};

static void say(const char *name, double value, const char *unit)
{
	printf("%-28s %12.3f %s\n", name, value, unit);
}

static struct rule_subject subject_of(const char *command)
{
	char *args = strdup(command);
	uint32_t size = (uint32_t)strlen(command) + 1;

	if (!args)
		abort();
	for (char *c = args; *c; c++)
		*c = *c == '|' ? 0 : *c;
	return (struct rule_subject){.comm = "x",
				     .exe = args,
				     .args = args,
				     .args_size = size,
				     .cwd = "/data/work/ab/cdef0123456789abcdef0123456789",
				     .cgroup_path = "/user.slice/user-1000.slice/session-3.scope",
				     .uid = 1000,
				     .engine = "nextflow"};
}

static struct rules *load(void)
{
	struct rules *rules = NULL;
	struct buf error = BUF_INIT;

	if (rules_load(NULL, &rules, &error)) {
		fprintf(stderr, "%s", error.data ? error.data : "out of memory\n");
		exit(1);
	}
	buf_free(&error);
	return rules;
}

static double load_ms(void)
{
	uint64_t start = clock_process_cpu_ns();

	for (int i = 0; i < LOADS; i++)
		rules_free(load());
	return (double)(clock_process_cpu_ns() - start) / LOADS / 1e6;
}

typedef int call_fn(const struct rules *rules, const struct rule_subject *subject,
		    struct arena *arena);

static int call_match(const struct rules *rules, const struct rule_subject *subject,
		      struct arena *arena)
{
	struct rule_result result;

	return rules_match(rules, subject, arena, &result);
}

static int call_redact(const struct rules *rules, const struct rule_subject *subject,
		       struct arena *arena)
{
	const char *args;
	uint32_t size;

	return rules_redact(rules, subject->args, subject->args_size, arena, &args, &size);
}

// The best round's nanoseconds a call.
static double best_ns(const struct rules *rules, const struct rule_subject *subject, call_fn *call)
{
	double best = 1e18;
	struct arena arena;

	arena_init(&arena, 16384);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = clock_process_cpu_ns();
		for (int i = 0; i < CALLS; i++) {
			if (call(rules, subject, &arena))
				abort();
			arena_reset(&arena);
		}
		double ns = (double)(clock_process_cpu_ns() - start) / CALLS;
		best = ns < best ? ns : best;
	}
	arena_free(&arena);
	return best;
}

int main(void)
{
	struct rule_subject parent = subject_of("/usr/bin/bash|.command.run");
	struct rules *rules = load();

	say("rules", rules_count(rules), "rules");
	say("load", load_ms(), "ms");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct rule_subject subject = subject_of(commands[i]);
		char name[64];
		subject.parent = &parent;
		snprintf(name, sizeof(name), "match %.20s", strrchr(subject.exe, '/') + 1);
		say(name, best_ns(rules, &subject, call_match), "ns");
		snprintf(name, sizeof(name), "redact %.20s", strrchr(subject.exe, '/') + 1);
		say(name, best_ns(rules, &subject, call_redact), "ns");
		free((char *)subject.args);
	}
	free((char *)parent.args);
	rules_free(rules);
	return 0;
}
