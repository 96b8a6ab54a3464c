// SPDX-License-Identifier: Apache-2.0
// Rules, the pattern part. A pattern becomes a list of tokens; matching keeps one place to come
// back to for the last * and one for the last **, which is enough because an earlier one never
// needs to take more than it did. So time is bounded by text x pattern (x text again for a **
// inside a component), there is no recursion and nothing is allocated.
#include "core/glob.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

enum token_type {
	TOKEN_CHAR,
	TOKEN_ANY,
	TOKEN_SET,
	TOKEN_STAR,
	TOKEN_GLOBSTAR,
	TOKEN_DIRECTORIES,
	TOKEN_OPEN,
	TOKEN_CLOSE
};

struct token {
	uint32_t type : 8;
	uint32_t value : 24; // the character, or which of the sets
};

enum { SET_WORDS = 8, PATTERN_MAX = 1 << 20 }; // a set: 256 bits

struct tokens {
	const char *needle;
	const uint32_t *sets;
	uint32_t count;
	bool group, literal; // literal: the needle is all of it
	struct token items[];
};

// Thousands of them are names without a wildcard, and then nothing but their text.
struct glob {
	const struct tokens *tokens; // NULL: no wildcard, no escape, and case counts
	uint8_t flags;
	char pattern[];
};

static uint8_t fold(unsigned flags, char c)
{
	return flags & GLOB_FOLD ? (uint8_t)tolower((unsigned char)c) : (uint8_t)c;
}

static void set_add(uint32_t *set, uint8_t c)
{
	set[c / 32] |= UINT32_C(1) << c % 32;
}

// Reads a [...] whose '[' is at text. Returns the characters used, 0 when it is not closed.
static size_t set_parse(const char *text, unsigned flags, uint32_t *set)
{
	size_t i = 1;
	bool negated = text[i] == '!' || text[i] == '^';

	i += negated;
	for (bool first = true; text[i] && (first || text[i] != ']'); first = false) {
		if (text[i] == '\\' && text[i + 1])
			i++;
		uint8_t low = (uint8_t)text[i++], high = low;
		if (text[i] == '-' && text[i + 1] && text[i + 1] != ']') {
			high = (uint8_t)text[i + 1];
			i += 2;
		}
		for (unsigned c = low; c <= high; c++) {
			set_add(set, (uint8_t)c);
			if (flags & GLOB_FOLD) {
				set_add(set, (uint8_t)tolower((int)c));
				set_add(set, (uint8_t)toupper((int)c));
			}
		}
	}
	if (text[i] != ']')
		return 0;
	for (int word = 0; negated && word < 8; word++)
		set[word] = ~set[word];
	if (flags & GLOB_PATH)
		set['/' / 32] &= ~(UINT32_C(1) << '/' % 32);
	return i + 1;
}

// The longest run of TOKEN_CHAR, which every match must contain.
static int find_needle(struct tokens *tokens, struct arena *arena)
{
	uint32_t best = 0, best_length = 0, length = 0;
	char *needle;

	for (uint32_t i = 0; i < tokens->count; i++) {
		if (tokens->items[i].type != TOKEN_CHAR) {
			length = 0;
			continue;
		}
		length++;
		if (length > best_length) {
			best_length = length;
			best = i + 1 - length;
		}
	}
	needle = arena_alloc(arena, best_length + 1);
	if (!needle)
		return -ENOMEM;
	for (uint32_t i = 0; i < best_length; i++)
		needle[i] = (char)tokens->items[best + i].value;
	needle[best_length] = 0;
	tokens->needle = needle;
	tokens->literal = best_length == tokens->count;
	return 0;
}

// Reads one token at text into token, a set into *set, which is then the next. Returns the
// characters used; 0 with a reason when it is wrong.
static size_t token_parse(const char *text, unsigned flags, bool at_component, uint32_t *set,
			  struct token *token, const char **ret_reason)
{
	switch (*text) {
	case '*':
		if (text[1] != '*' || !(flags & GLOB_PATH)) {
			token->type = TOKEN_STAR;
			return 1;
		}
		token->type = at_component && text[2] == '/' ? TOKEN_DIRECTORIES : TOKEN_GLOBSTAR;
		return token->type == TOKEN_DIRECTORIES ? 3 : 2;
	case '?':
		token->type = TOKEN_ANY;
		return 1;
	case '(':
	case ')':
		token->type = *text == '(' ? TOKEN_OPEN : TOKEN_CLOSE;
		return 1;
	case '[':
		memset(set, 0, SET_WORDS * sizeof(*set));
		token->type = TOKEN_SET;
		*ret_reason = "the '[' is not closed; write \\[ for the character itself";
		return set_parse(text, flags, set);
	case '\\':
		if (!text[1]) {
			*ret_reason = "it ends in a single backslash; write \\\\ for the character "
				      "itself";
			return 0;
		}
		token->value = fold(flags, text[1]);
		return 2;
	default:
		token->value = fold(flags, *text);
		return 1;
	}
}

static int tokens_read(const char *pattern, size_t length, unsigned flags, struct tokens *tokens,
		       uint32_t *sets, const char **ret_reason)
{
	uint32_t opened = 0, closed = 0, set_count = 0;

	for (size_t i = 0; i < length;) {
		struct token *token = &tokens->items[tokens->count];
		*token = (struct token){.type = TOKEN_CHAR};
		size_t used = token_parse(pattern + i, flags, i == 0 || pattern[i - 1] == '/',
					  sets + (size_t)set_count * SET_WORDS, token, ret_reason);
		if (!used)
			return -EINVAL;
		if (token->type == TOKEN_SET)
			token->value = set_count++ & 0xffffff;
		opened += token->type == TOKEN_OPEN;
		closed += token->type == TOKEN_CLOSE;
		if (closed > opened || opened > 1) {
			*ret_reason = "it may hold one group ( ); write \\( and \\) for the "
				      "characters themselves";
			return -EINVAL;
		}
		tokens->count++;
		i += used;
	}
	tokens->group = opened;
	if (opened == closed)
		return 0;
	*ret_reason = "the '(' is not closed; write \\( for the character itself";
	return -EINVAL;
}

static int tokens_compile(const char *pattern, size_t length, unsigned flags, struct arena *arena,
			  const struct tokens **ret_tokens, const char **ret_reason)
{
	struct tokens *tokens =
		arena_alloc(arena, sizeof(*tokens) + length * sizeof(tokens->items[0]));
	size_t set_count = 0; // at most
	uint32_t *sets;
	int error;

	for (const char *c = pattern; (c = strchr(c, '[')); c++)
		set_count++;
	sets = arena_alloc(arena, set_count * SET_WORDS * sizeof(*sets));
	if (!tokens || !sets)
		return -ENOMEM;
	*tokens = (struct tokens){.sets = sets};
	error = tokens_read(pattern, length, flags, tokens, sets, ret_reason);
	if (!error)
		error = find_needle(tokens, arena);
	if (!error)
		*ret_tokens = tokens;
	return error;
}

int glob_compile(const char *pattern, unsigned flags, struct arena *arena,
		 const struct glob **ret_glob, const char **ret_reason)
{
	size_t length = strlen(pattern);
	struct glob *glob;
	int error = 0;

	if (!length || length > PATTERN_MAX) {
		*ret_reason = length ? "it is too long" : "it is empty; write * to match anything";
		return -EINVAL;
	}
	glob = arena_alloc(arena, sizeof(*glob) + length + 1);
	if (!glob)
		return -ENOMEM;
	*glob = (struct glob){.flags = (uint8_t)flags};
	memcpy(glob->pattern, pattern, length + 1);
	if (flags & GLOB_FOLD || strpbrk(pattern, "*?[()\\"))
		error = tokens_compile(pattern, length, flags, arena, &glob->tokens, ret_reason);
	if (!error)
		*ret_glob = glob;
	return error;
}

const char *glob_pattern(const struct glob *glob)
{
	return glob->pattern;
}

const char *glob_literal(const struct glob *glob)
{
	if (!glob->tokens)
		return glob->pattern;
	return glob->tokens->literal ? glob->tokens->needle : NULL;
}

const char *glob_needle(const struct glob *glob)
{
	return glob->tokens ? glob->tokens->needle : glob->pattern;
}

bool glob_is_path(const struct glob *glob)
{
	return glob->flags & GLOB_PATH;
}

bool glob_has_group(const struct glob *glob)
{
	return glob->tokens && glob->tokens->group;
}

// Does this one token take the character?
static bool token_takes(const struct glob *glob, const struct token *token, char c)
{
	const uint32_t *set;

	switch (token->type) {
	case TOKEN_CHAR:
		return token->value == fold(glob->flags, c);
	case TOKEN_ANY:
		return !(glob->flags & GLOB_PATH) || c != '/';
	case TOKEN_SET:
		set = glob->tokens->sets + (size_t)token->value * SET_WORDS;
		return set[(uint8_t)c / 32] >> (uint8_t)c % 32 & 1;
	default:
		return false;
	}
}

// Where matching comes back to after a mismatch: the token after the wildcard and the text it has
// not taken yet.
struct retry {
	const struct token *token; // NULL: none
	const char *text;
};

// Lets ** take one character more, **/ one component more. False when it cannot.
static bool widen(struct retry *wide)
{
	const char *text = wide->text;

	if (!wide->token || !*text)
		return false;
	if (wide->token[-1].type == TOKEN_DIRECTORIES) {
		text = strchr(text, '/');
		if (!text)
			return false;
	}
	wide->text = text + 1;
	return true;
}

static bool match(const struct glob *glob, const char *text, const char **ret_open,
		  const char **ret_close)
{
	const struct token *token = glob->tokens->items, *end = token + glob->tokens->count;
	struct retry star = {0}, wide = {0};

	for (;;) {
		uint8_t type = token < end ? token->type : TOKEN_CHAR;
		if (token < end && type >= TOKEN_STAR) {
			token++;
			if (type == TOKEN_OPEN)
				*ret_open = text;
			else if (type == TOKEN_CLOSE)
				*ret_close = text;
			else if (type == TOKEN_STAR)
				star = (struct retry){token, text};
			else
				wide = (struct retry){token, text}, star.token = NULL;
			continue;
		}
		if (token == end && !*text)
			return true;
		if (token < end && *text && token_takes(glob, token, *text)) {
			token++;
			text++;
			continue;
		}
		if (star.token && *star.text && !(glob->flags & GLOB_PATH && *star.text == '/')) {
			star.text++;
			token = star.token;
			text = star.text;
			continue;
		}
		if (!widen(&wide))
			return false;
		star.token = NULL;
		token = wide.token;
		text = wide.text;
	}
}

bool glob_matches(const struct glob *glob, const char *text)
{
	const struct tokens *tokens = glob->tokens;
	const char *open, *close;

	if (!tokens)
		return !strcmp(glob->pattern, text);
	if (tokens->literal && !(glob->flags & GLOB_FOLD))
		return !strcmp(tokens->needle, text);
	if (tokens->items[0].type == TOKEN_CHAR && tokens->items[0].value != fold(glob->flags, *text))
		return false;
	if (!(glob->flags & GLOB_FOLD) && *tokens->needle && !strstr(text, tokens->needle))
		return false;
	return strnlen(text, GLOB_TEXT_MAX) < GLOB_TEXT_MAX && match(glob, text, &open, &close);
}

bool glob_capture(const struct glob *glob, const char *text, const char **ret_start,
		  size_t *ret_length)
{
	const char *open = text, *close = NULL;

	if (strnlen(text, GLOB_TEXT_MAX) == GLOB_TEXT_MAX)
		return false;
	if (glob->tokens ? !match(glob, text, &open, &close) : !!strcmp(glob->pattern, text))
		return false;
	*ret_start = open;
	*ret_length = close ? (size_t)(close - open) : strlen(text);
	return true;
}
