// SPDX-License-Identifier: Apache-2.0
// Fuzz room: any bytes as a program's arguments, against the shipped rules. A match always has a name,
// and redaction keeps the number of arguments.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t count_nul(const char *text, uint32_t size)
{
	size_t count = 0;

	for (uint32_t i = 0; i < size; i++)
		count += text[i] == '\0';
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rules *rules;
	struct rule_subject subject = {.slurm_job = -1};
	struct rule_result result;
	struct buf error = {0};
	struct arena arena;
	const char *out = NULL, *sample;
	uint32_t out_size = 0, weight;
	char *args;

	if (!rules && rules_load(NULL, &rules, &error))
		abort();
	args = malloc(size + 1);
	if (!args || size > 65536) {
		free(args);
		return 0;
	}
	memcpy(args, data, size);
	args[size] = '\0';
	subject.comm = args;
	subject.exe = args;
	subject.args = args;
	subject.args_size = (uint32_t)size + 1;
	arena_init(&arena, 4096);
	if (rules_match(rules, &subject, &arena, &result) || !result.tool)
		abort();
	if (rules_redact(rules, args, subject.args_size, &arena, &out, &out_size) || !out)
		abort();
	if (count_nul(out, out_size) != count_nul(args, subject.args_size))
		abort();
	if (rules_sample(rules, args, subject.args_size, &arena, &sample, &weight))
		abort();
	if (rules_explain(rules, &subject, &error))
		abort();
	arena_free(&arena);
	buf_free(&error);
	free(args);
	return 0;
}
