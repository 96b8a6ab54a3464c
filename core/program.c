// SPDX-License-Identifier: Apache-2.0
// Programs: the strings of images, one counted allocation each, so that neither forked children nor the thousandth call
// of the same command copy them, look through them for secrets or match them against rules again. What is kept for that
// is bounded, and holds no secret: only arguments that were looked through and had none.
#include "core/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/crc.h"

enum { PROGRAM_KEPT_SIZE = 2048 };

void program_release(struct program *program)
{
	if (!program || --program->references)
		return;
	free(program->record);
	free(program);
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *text_copy(char **cursor, const char *text)
{
	size_t size = text_size(text);
	char *copy = *cursor;

	if (!text)
		return NULL;
	memcpy(copy, text, size);
	*cursor += size;
	return copy;
}

static size_t strings_size(const struct image_strings *strings)
{
	return text_size(strings->exe) + text_size(strings->script) + text_size(strings->interpreter) +
	       text_size(strings->cwd) + strings->args_size + 1;
}

struct program *program_new(const struct image_strings *strings)
{
	static uint64_t last_id;
	size_t size = strings_size(strings);
	struct program *program = calloc(1, sizeof(*program) + size);
	struct image_strings *own;
	char *cursor;

	if (!program)
		return NULL;
	program->id = ++last_id;
	program->references = 1;
	own = &program->strings;
	cursor = (char *)(program + 1);
	own->exe = text_copy(&cursor, strings->exe);
	own->script = text_copy(&cursor, strings->script);
	own->interpreter = text_copy(&cursor, strings->interpreter);
	own->cwd = text_copy(&cursor, strings->cwd);
	own->args_total = strings->args_total;
	if (strings->args && strings->args_size) {
		memcpy(cursor, strings->args, strings->args_size);
		own->args = cursor;
		own->args_size = strings->args_size;
		if (cursor[own->args_size - 1])
			cursor[own->args_size++] = '\0';
	}
	return program;
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

// Inline, two words at a time: a call of memcmp() takes twice as long for hundreds of bytes that are mostly the same.
static bool bytes_same(const char *a, const char *b, size_t size)
{
	uint64_t left[2], right[2];

	for (; size >= sizeof(left); a += sizeof(left), b += sizeof(left), size -= sizeof(left)) {
		memcpy(left, a, sizeof(left));
		memcpy(right, b, sizeof(right));
		if ((left[0] ^ right[0]) | (left[1] ^ right[1]))
			return false;
	}
	return !memcmp(a, b, size);
}

// Never 0. The CPU sums eight bytes with one instruction; who finds the same sum compares.
static uint64_t strings_hash(const struct image_strings *strings)
{
	uint32_t sum = strings->args_total;

	if (strings->args)
		sum = crc32c(sum, strings->args, strings->args_size);
	if (strings->exe)
		sum = crc32c(sum, strings->exe, strlen(strings->exe));
	if (strings->cwd)
		sum = crc32c(sum, strings->cwd, strlen(strings->cwd));
	return UINT64_C(1) << 32 | sum;
}

static bool strings_same(const struct image_strings *a, const struct image_strings *b)
{
	return a->args_size == b->args_size && a->args_total == b->args_total && !a->args == !b->args &&
	       text_same(a->exe, b->exe) && text_same(a->cwd, b->cwd) && text_same(a->script, b->script) &&
	       text_same(a->interpreter, b->interpreter) && (!a->args || bytes_same(a->args, b->args, a->args_size));
}

struct program *program_of(struct programs *programs, const struct image_strings *strings)
{
	uint64_t hash = strings_hash(strings);
	struct program *program = programs->kept[hash % PROGRAMS_KEPT];

	if (program && program->hash == hash && strings_same(&program->strings, strings)) {
		program->references++;
		return program;
	}
	program = program_new(strings);
	if (program)
		program->hash = hash;
	return program;
}

void program_plain(struct programs *programs, struct program *program)
{
	struct program **slot = &programs->kept[program->hash % PROGRAMS_KEPT];

	program->plain = true;
	if (!program->hash || strings_size(&program->strings) > PROGRAM_KEPT_SIZE)
		return;
	program_release(*slot);
	program->references++;
	*slot = program;
}

void programs_forget(struct programs *programs)
{
	for (size_t i = 0; i < PROGRAMS_KEPT; i++) {
		program_release(programs->kept[i]);
		programs->kept[i] = NULL;
	}
}
