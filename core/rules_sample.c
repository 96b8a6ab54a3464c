// SPDX-License-Identifier: Apache-2.0
// Rules, the sample part: data files among arguments by their endings, and what remains of a name
// without them ("run1/NA12878_R1.fastq.gz" -> NA12878). Words inside an argument count too: a
// shell's -c text names files as well.
#include <errno.h>
#include <string.h>

#include "core/rules_private.h"

enum { WORD_MAX = 4096, STEM_MIN = 1 };

static bool ends_with(const char *text, size_t length, const struct ending *ending)
{
	return length > ending->length &&
	       !memcmp(text + length - ending->length, ending->text, ending->length);
}

// Control characters and blanks, and "'`=<>|;&(),: as a set of bits: for each byte of every program's arguments.
static bool is_separator(char c)
{
	static const uint64_t set[4] = { 0x7c0013c5ffffffff, 0x1000000100000000 };
	unsigned char byte = (unsigned char)c;

	return set[byte / 64] >> byte % 64 & 1;
}

// Cuts known endings (_R1, .sorted, ...) until none is left.
static size_t trim(const struct rules *rules, const char *name, size_t length)
{
	for (const struct ending *ending = rules->sample_trims; ending;) {
		if (!ends_with(name, length, ending)) {
			ending = ending->next;
			continue;
		}
		length -= ending->length;
		ending = rules->sample_trims;
	}
	return length;
}

static void visit_word(const struct rules *rules, const char *word, size_t length,
		       rules_file_fn *visit, void *context)
{
	const char *slash = length ? memrchr(word, '/', length) : NULL;
	const char *name = slash ? slash + 1 : word;
	size_t name_length = length - (size_t)(name - word), stem;

	if (!length || length > WORD_MAX || *word == '-')
		return;
	for (const struct ending *ending = rules->sample_suffixes; ending; ending = ending->next) {
		if (!ends_with(name, name_length, ending))
			continue;
		stem = trim(rules, name, name_length - ending->length);
		if (stem >= STEM_MIN)
			visit(context, word, length, name, stem, ending->weight);
		return;
	}
}

void rules_files(const struct rules *rules, const char *args, uint32_t args_size,
		 rules_file_fn *visit, void *context)
{
	const char *end = args ? args + args_size : NULL;

	// Every data file's ending has a dot: from one to the next, and the word around it.
	for (const char *text = args, *dot; text < end; text++) {
		const char *word;

		dot = memchr(text, '.', (size_t)(end - text));
		if (!dot)
			return;
		for (word = dot; word > text && !is_separator(word[-1]); word--)
			;
		for (text = dot; text < end && !is_separator(*text); text++)
			;
		if (text < end)
			visit_word(rules, word, (size_t)(text - word), visit, context);
	}
}

struct best {
	const struct rules *rules;
	const char *stem;
	size_t length;
	uint32_t weight;
};

bool rules_sample_ignored(const struct rules *rules, const char *stem, size_t length)
{
	char word[128];

	if (length >= sizeof(word))
		return true;
	memcpy(word, stem, length);
	word[length] = 0;
	return words_have(rules->sample_ignore, word);
}

static void keep_best(void *context, const char *path, size_t length, const char *stem,
		      size_t stem_length, uint32_t weight)
{
	struct best *best = context;

	(void)path, (void)length;
	if ((best->stem && weight >= best->weight) ||
	    rules_sample_ignored(best->rules, stem, stem_length))
		return;
	best->stem = stem;
	best->length = stem_length;
	best->weight = weight;
}

int rules_sample(const struct rules *rules, const char *args, uint32_t args_size,
		 struct arena *arena, const char **ret_sample, uint32_t *ret_weight)
{
	struct best best = {.rules = rules, .weight = UINT32_MAX};
	const char *sample = NULL;

	rules_files(rules, args, args_size, keep_best, &best);
	if (best.stem) {
		sample = arena_strndup(arena, best.stem, best.length);
		if (!sample)
			return -ENOMEM;
	}
	*ret_sample = sample;
	*ret_weight = best.weight;
	return 0;
}
