// SPDX-License-Identifier: Apache-2.0
// Rules, the part that takes secrets out of arguments before anything is written. One pass over the
// bytes finds arguments that could hold one (a pair of characters that begins the plain text of
// some pattern); only then are patterns tried, on whole arguments and on the words inside an
// argument. A flag keeps its name.
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "core/rules_private.h"

enum { WORD_MAX = 4096, PAIRS_SIZE = 65536 / 8 };

static const char hidden[] = "[redacted]";

static uint32_t pair_of(const char *text)
{
	return (uint32_t)tolower((unsigned char)text[0]) << 8 |
	       (uint32_t)tolower((unsigned char)text[1]);
}

static int add_needles(struct rules *rules, const struct redaction *redaction,
		       const struct globs *globs)
{
	for (uint32_t i = 0; globs && i < globs->count; i++) {
		const char *text = glob_needle(globs->items[i]);
		struct needle *needle = arena_alloc(&rules->arena, sizeof(*needle));
		if (!needle)
			return -ENOMEM;
		uint32_t pair = pair_of(text);
		struct needle **head = &rules->needles[pair % 256];
		*needle = (struct needle){*head, text, (uint32_t)strlen(text), redaction};
		rules->needle_pairs[pair / 8] |= (uint8_t)(1 << pair % 8);
		*head = needle;
	}
	return 0;
}

int rules_redact_prepare(struct rules *rules)
{
	int error = 0;

	rules->needle_pairs = arena_alloc(&rules->arena, PAIRS_SIZE);
	if (!rules->needle_pairs)
		return -ENOMEM;
	memset(rules->needle_pairs, 0, PAIRS_SIZE);
	for (const struct redaction *one = rules->redactions; one && !error; one = one->next) {
		error = add_needles(rules, one, one->flags);
		error = error ? error : add_needles(rules, one, one->values);
		error = error ? error : add_needles(rules, one, one->assignments);
	}
	return error;
}

static bool globs_match(const struct globs *globs, const char *text);

// Is some needle at this place, and its redaction about this program?
static bool needle_at(const struct rules *rules, const char *text, size_t size, uint32_t pair,
		      const char *program)
{
	for (const struct needle *needle = rules->needles[pair % 256]; needle;
	     needle = needle->next)
		if (needle->length <= size && !strncasecmp(needle->text, text, needle->length) &&
		    (!needle->redaction->programs ||
		     globs_match(needle->redaction->programs, program)))
			return true;
	return false;
}

static bool may_hide(const struct rules *rules, const char *args, uint32_t size)
{
	const char *end = memchr(args, 0, size), *program = end ? path_base(args) : "";
	uint32_t pair = 0;

	for (uint32_t i = 0; i < size; i++) {
		uint8_t c = (uint8_t)args[i];
		pair = (pair << 8 | (c >= 'A' && c <= 'Z' ? c | 0x20 : c)) & 0xffff;
		if (i && rules->needle_pairs[pair / 8] >> pair % 8 & 1 &&
		    needle_at(rules, args + i - 1, size - i + 1, pair, program))
			return true;
	}
	return false;
}

static bool globs_match(const struct globs *globs, const char *text)
{
	for (uint32_t i = 0; globs && i < globs->count; i++)
		if (glob_matches(globs->items[i], text))
			return true;
	return false;
}

struct redact {
	const struct rules *rules;
	const char *program; // basename of the first argument
	char *out;
	size_t length;
	bool in_text; // of an argument that is a text of several words
	bool next_hidden; // the flag before takes this word as its value
	bool changed;
};

static void put(struct redact *redact, const char *text, size_t length)
{
	memcpy(redact->out + redact->length, text, length);
	redact->length += length;
}

static void put_hidden(struct redact *redact)
{
	put(redact, hidden, sizeof(hidden) - 1);
	redact->changed = true;
}

// The part of a value that a pattern's group marks, else all of it.
static bool find_value(const struct globs *globs, bool several, const char *word,
		       const char **ret_start, size_t *ret_length)
{
	for (uint32_t i = 0; globs && i < globs->count; i++)
		if ((!several || strchr(glob_pattern(globs->items[i]), ' ')) &&
		    glob_capture(globs->items[i], word, ret_start, ret_length) && *ret_length)
			return true;
	return false;
}

static bool is_break(char c)
{
	return (unsigned char)c <= ' ' || strchr("'\"`;|&()", c);
}

// The '=' behind a name, NULL when there is none.
static char *find_equals(char *word)
{
	while (*word && *word != '=' && !is_break(*word))
		word++;
	return *word == '=' ? word : NULL;
}

// One word, NUL-terminated, of length bytes; or a whole argument of several.
static void redact_word(struct redact *redact, char *word, size_t length, bool several)
{
	char *equals = find_equals(word);
	const char *start;
	size_t value;

	// A value may begin with a dash, but what looks like the next option is one.
	if (redact->next_hidden && (word[0] != '-' || (word[1] && word[1] != '-' && word[2]))) {
		redact->next_hidden = false;
		put_hidden(redact);
		return;
	}
	redact->next_hidden = false;
	for (const struct redaction *one = redact->rules->redactions; one; one = one->next) {
		if (one->programs && !globs_match(one->programs, redact->program))
			continue;
		if (equals) {
			*equals = 0;
			bool secret = word[0] == '-' ? globs_match(one->flags, word)
						     : globs_match(one->assignments, word);
			*equals = '=';
			if (secret) {
				put(redact, word, (size_t)(equals + 1 - word));
				if (equals[1])
					put_hidden(redact);
				else
					redact->next_hidden = redact->in_text; // TOKEN='...'
				return;
			}
		} else if (word[0] == '-' && globs_match(one->flags, word)) {
			put(redact, word, length);
			redact->next_hidden = true;
			return;
		}
		if (find_value(one->values, several, word, &start, &value)) {
			put(redact, word, (size_t)(start - word));
			put_hidden(redact);
			put(redact, start + value, length - (size_t)(start - word) - value);
			return;
		}
	}
	put(redact, word, length);
}

// The words of one argument that is a text of several, such as a shell's.
static void redact_text(struct redact *redact, char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t start = i;
		while (i < length && !is_break(text[i]))
			i++;
		if (i > start && i - start < WORD_MAX) {
			char stop = text[i];
			text[i] = 0;
			redact_word(redact, text + start, i - start, false);
			text[i] = stop;
		} else {
			put(redact, text + start, i - start);
		}
		for (char quote = 0; i < length && is_break(text[i]); i++) {
			put(redact, text + i, 1);
			quote = strchr("'\"", text[i]) ? text[i] : 0;
			const char *end = quote && redact->next_hidden
						  ? memchr(text + i + 1, quote, length - i - 1)
						  : NULL;
			if (!end)
				continue;
			put_hidden(redact); // all of a quoted value
			redact->next_hidden = false;
			i = (size_t)(end - text) - 1;
		}
	}
}

// Whole first, so that patterns with spaces ("Authorization: *") see all of it; then by words.
static void redact_argument(struct redact *redact, char *argument, size_t length)
{
	bool several = false, flag = argument[0] == '-';
	size_t before = redact->length;
	bool changed = redact->changed;

	for (size_t i = 0; i < length && !several; i++)
		several = is_break(argument[i]);
	redact_word(redact, argument, length, several);
	if (!several || redact->changed != changed || (flag && redact->next_hidden) ||
	    (redact->length - before != length))
		return;
	redact->length = before;
	redact->next_hidden = false;
	redact->in_text = true;
	redact_text(redact, argument, length);
	redact->next_hidden = redact->in_text = false;
}

int rules_redact(const struct rules *rules, const char *args, uint32_t args_size,
		 struct arena *arena, const char **ret_args, uint32_t *ret_size)
{
	struct redact redact = {.rules = rules};
	char *copy;

	*ret_args = args;
	*ret_size = args_size;
	if (!args_size || !rules->redactions || !may_hide(rules, args, args_size))
		return 0;
	// Each byte hidden is at least one; the marker is longer than what it stands for by its own
	// length at most.
	copy = arena_alloc(arena, args_size + 1);
	redact.out = arena_alloc(arena, (size_t)args_size * sizeof(hidden) + 1);
	if (!copy || !redact.out)
		return -ENOMEM;
	memcpy(copy, args, args_size);
	copy[args_size] = 0;
	redact.program = path_base(copy);
	for (uint32_t i = 0; i < args_size;) {
		size_t length = strnlen(copy + i, args_size - i);
		redact_argument(&redact, copy + i, length);
		i += (uint32_t)length;
		if (i < args_size)
			put(&redact, copy + i++, 1);
	}
	if (redact.changed) {
		*ret_args = redact.out;
		*ret_size = (uint32_t)redact.length;
	}
	return 0;
}
