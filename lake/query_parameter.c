// SPDX-License-Identifier: Apache-2.0
// Query strings and conditions into names and values. Text comes from the network: every length is bounded, and what
// is not clean UTF-8 is refused here, so that nobody behind this has to look again.

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/utf8.h"
#include "lake/query_parameter.h"

static int query_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool query_is_utf8(const char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t sequence = utf8_sequence(text + i, length - i);

		if (sequence == 0)
			return false;
		i += sequence;
	}
	return true;
}

const char *query_decode(struct arena *arena, const char *text, size_t length, bool plus_is_blank)
{
	char *out = arena_alloc(arena, length + 1);
	size_t used = 0;

	for (size_t i = 0; out && i < length; i++) {
		char c = text[i];

		if (c == '%') {
			int high = length - i > 2 ? query_hex(text[i + 1]) : -1;
			int low = length - i > 2 ? query_hex(text[i + 2]) : -1;

			if (high < 0 || low < 0)
				return NULL;
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus_is_blank) {
			c = ' ';
		}
		if (c == 0)
			return NULL;
		out[used++] = c;
	}
	if (!out)
		return NULL;
	out[used] = 0;
	return query_is_utf8(out, used) ? out : NULL;
}

static int query_parameters_push(struct query_parameters *parameters, const char *name,
				 const char *value)
{
	if (parameters->count == QUERY_PARAMETERS_MAX)
		return -E2BIG;
	parameters->list[parameters->count++] =
		(struct query_parameter){.name = name, .value = value};
	return 0;
}

int query_parameters_parse(struct query_parameters *parameters, const char *query)
{
	size_t total = query ? strlen(query) : 0;
	int error = 0;

	if (total > QUERY_TEXT_MAX)
		return -E2BIG;
	for (const char *at = query; error == 0 && at && *at;) {
		size_t length = strcspn(at, "&"), name_length = strcspn(at, "=&");
		const char *name, *value;

		if (length == 0) {
			at++;
			continue;
		}
		if (name_length == 0 || name_length == length)
			return -EINVAL;
		name = query_decode(parameters->arena, at, name_length, true);
		value = query_decode(parameters->arena, at + name_length + 1,
				     length - name_length - 1, true);
		if (!name || !value)
			return -EINVAL;
		error = query_parameters_push(parameters, name, value);
		at += length + (at[length] == '&');
	}
	return error;
}

int query_parameters_add(struct query_parameters *parameters, const char *name, const char *value)
{
	const char *name_copy = arena_strndup(parameters->arena, name, strlen(name));
	const char *value_copy = arena_strndup(parameters->arena, value, strlen(value));

	if (!name_copy || !value_copy)
		return -ENOMEM;
	return query_parameters_push(parameters, name_copy, value_copy);
}

const char *query_parameter_take(struct query_parameters *parameters, const char *name,
				 bool *ret_twice)
{
	const char *value = NULL;

	for (size_t i = 0; i < parameters->count; i++) {
		struct query_parameter *parameter = &parameters->list[i];

		if (strcmp(parameter->name, name) != 0)
			continue;
		if (value)
			*ret_twice = true;
		parameter->used = true;
		value = parameter->value;
	}
	return value;
}

const char *query_parameter_unused(const struct query_parameters *parameters)
{
	for (size_t i = 0; i < parameters->count; i++) {
		if (!parameters->list[i].used)
			return parameters->list[i].name;
	}
	return NULL;
}

void query_encode(struct buf *out, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *text; text++) {
		uint8_t c = (uint8_t)*text;

		if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
		    strchr("-._~", c)) {
			buf_append_char(out, (char)c);
		} else {
			const char escape[] = {'%', hex[c >> 4], hex[c & 15]};

			buf_append(out, escape, sizeof(escape));
		}
	}
}

int query_where(struct arena *arena, const char *text, struct query_parameter *ret_parameter)
{
	// Longer ones first.
	static const struct {
		const char *sign, *name;
	} operators[] = {
		{"!=", ".ne"}, {">=", ".gte"}, {"<=", ".lte"}, {"^=", ".prefix"},  {"==", ""},
		{"=", ""},     {">", ".gt"},   {"<", ".lt"},   {"~", ".contains"},
	};
	size_t end = strcspn(text, "=!<>^~"), length = end;
	const char *value = NULL, *suffix = "";
	char *name;

	for (size_t i = 0; !value && i < sizeof(operators) / sizeof(operators[0]); i++) {
		size_t size = strlen(operators[i].sign);

		if (!strncmp(text + end, operators[i].sign, size)) {
			value = text + end + size;
			suffix = operators[i].name;
		}
	}
	while (length > 0 && text[length - 1] == ' ')
		length--;
	for (; length > 0 && *text == ' '; length--)
		text++;
	if (!value || length == 0)
		return -EINVAL;
	value += strspn(value, " ");
	// "end_ns=null" asks whether it is unknown; nothing else can equal null.
	if (!strcmp(value, "null") && (!*suffix || !strcmp(suffix, ".ne"))) {
		value = *suffix ? "false" : "true";
		suffix = ".null";
	}
	name = arena_alloc(arena, length + strlen(suffix) + 1);
	if (!name)
		return -ENOMEM;
	memcpy(name, text, length);
	memcpy(name + length, suffix, strlen(suffix) + 1);
	ret_parameter->value = arena_strndup(arena, value, strlen(value));
	if (!ret_parameter->value)
		return -ENOMEM;
	ret_parameter->name = name;
	return 0;
}
