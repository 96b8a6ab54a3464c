// SPDX-License-Identifier: Apache-2.0
// Fuzz room: any bytes as a rules file. Either it is refused with the file named, or the rules match,
// redact, sample and explain programs. No shipped rules: reading them each time would be all it does.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/embedded.h"
#include "core/rules.h"

const struct embedded_file embedded_rules[] = {{0}};
const size_t embedded_rules_count = 0;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[64];

static void remove_directory(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/fuzz.yaml", directory);
	unlink(path);
	rmdir(directory);
}

static void write_file(const uint8_t *data, size_t size)
{
	char path[96];
	int fd;

	if (!directory[0]) {
		snprintf(directory, sizeof(directory), "/tmp/tracer-fuzz.XXXXXX");
		if (!mkdtemp(directory) || atexit(remove_directory))
			abort();
	}
	snprintf(path, sizeof(path), "%s/fuzz.yaml", directory);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char args[] = "samtools\0sort\0-@\0008\0--token=abc\0sample1_R1.fastq.gz";
	static const char shell_args[] = "bash\0-euc\0x --password 'a b' y.bam";
	const struct rule_subject parent = {.comm = "bash",
					    .exe = "/bin/bash",
					    .args = shell_args,
					    .args_size = sizeof(shell_args),
					    .cwd = "/tmp"};
	const struct rule_subject subject = {
		.comm = "samtools",
		.exe = "/usr/bin/samtools",
		.args = args,
		.args_size = sizeof(args),
		.cwd = "/data/work/ab/cdef0123456789",
		.slurm_job = 7,
		.parent = &parent,
	};
	struct rules *rules = NULL;
	struct buf error = {0};
	struct rule_result result;
	struct arena arena;
	const char *out;
	uint32_t out_size, weight;

	write_file(data, size);
	if (rules_load(directory, &rules, &error)) {
		if (rules || !error.length)
			abort();
		buf_free(&error);
		return 0;
	}
	arena_init(&arena, 4096);
	if (rules_match(rules, &subject, &arena, &result) || !result.tool)
		abort();
	if (rules_redact(rules, args, sizeof(args), &arena, &out, &out_size))
		abort();
	if (rules_match(rules, &parent, &arena, &result) || !result.tool)
		abort();
	if (rules_redact(rules, shell_args, sizeof(shell_args), &arena, &out, &out_size))
		abort();
	if (rules_sample(rules, args, sizeof(args), &arena, &out, &weight))
		abort();
	(void)rules_explain(rules, &subject, &error);
	(void)rules_warnings(rules, &error);
	arena_free(&arena);
	rules_free(rules);
	buf_free(&error);
	return 0;
}
