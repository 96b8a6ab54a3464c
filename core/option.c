// SPDX-License-Identifier: Apache-2.0
// One option: text to value and back. Knows types, not where a text came from.

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/option.h"

struct option_unit {
	const char *name;
	uint64_t factor;
};

// From large to small: formatting takes the first that divides the value.
static const struct option_unit option_sizes[] = {
	{"T", UINT64_C(1) << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}, {0},
};
static const struct option_unit option_times[] = {
	{"d", UINT64_C(86400000000000)},
	{"h", UINT64_C(3600000000000)},
	{"m", UINT64_C(60000000000)},
	{"s", 1000000000},
	{"ms", 1000000},
	{"us", 1000},
	{"ns", 1},
	{0},
};
static const struct option_unit option_counts[] = {{"", 1}, {0}};

static const struct option_unit *option_units(const struct option_spec *spec)
{
	return spec->type == OPTION_BYTES      ? option_sizes
	       : spec->type == OPTION_DURATION ? option_times
					       : option_counts;
}

static bool option_parse_unit(const struct option_spec *spec, const char *text,
			      uint64_t *ret_factor)
{
	for (const struct option_unit *unit = option_units(spec); unit->name; unit++) {
		size_t length = strlen(unit->name);
		// K, KB and KiB are all 1024: nobody sizes a buffer in thousands.
		bool bytes = spec->type == OPTION_BYTES &&
			     strncasecmp(text, unit->name, length) == 0 &&
			     (!strcasecmp(text + length, "") || !strcasecmp(text + length, "B") ||
			      (length && !strcasecmp(text + length, "iB")));

		if (bytes || !strcmp(text, unit->name)) {
			*ret_factor = unit->factor;
			return true;
		}
	}
	return false;
}

static bool option_parse_number(const struct option_spec *spec, const char *text,
				uint64_t *ret_value)
{
	unsigned long long number;
	uint64_t factor, value;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return false;
	while (*end == ' ')
		end++;
	if (number == 0 && *end == 0)
		factor = 1;
	else if (!option_parse_unit(spec, end, &factor))
		return false;
	if (__builtin_mul_overflow((uint64_t)number, factor, &value))
		return false;
	if ((spec->min || spec->max) && (value < spec->min || value > spec->max))
		return false;
	*ret_value = value;
	return true;
}

static bool option_parse_bool(const char *text, bool *ret_value)
{
	static const char *const words[] = {"false", "no", "off", "0", "true", "yes", "on", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcasecmp(text, words[i])) {
			*ret_value = i >= 4;
			return true;
		}
	}
	return false;
}

static int option_refuse(const struct option_spec *spec, const char *text,
			 char error[OPTION_ERROR_SIZE])
{
	CLEANUP(buf_free) struct buf allowed = BUF_INIT;
	char safe[64];
	size_t used = 0;

	for (; *text && used < sizeof(safe) - 1; text++)
		safe[used++] = *text >= 0x20 && *text < 0x7f ? *text : '?';
	safe[used] = 0;
	option_describe(spec, &allowed);
	snprintf(error, OPTION_ERROR_SIZE, "\"%s\" is not %s", safe,
		 buf_error(&allowed) < 0 ? "allowed" : allowed.data);
	return -EINVAL;
}

static int option_set_string(const char *text, char **place)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(*place);
	*place = copy;
	return 0;
}

static void option_free_list(char **list)
{
	for (char **item = list; item && *item; item++)
		free(*item);
	free(list);
}

static int option_list_add(char ***list, const char *item, size_t length)
{
	size_t count = 0;
	char **grown, *copy;

	while (*list && (*list)[count])
		count++;
	copy = strndup(item, length);
	grown = copy ? realloc(*list, (count + 2) * sizeof(**list)) : NULL;
	if (!grown) {
		free(copy);
		return -ENOMEM;
	}
	grown[count] = copy;
	grown[count + 1] = NULL;
	*list = grown;
	return 0;
}

static int option_set_list(const char *text, char ***place)
{
	char **list = calloc(1, sizeof(*list));
	int error = list ? 0 : -ENOMEM;

	while (error == 0 && *text) {
		size_t length = strcspn(text, ",");

		if (length)
			error = option_list_add(&list, text, length);
		text += length + (text[length] == ',');
	}
	if (error < 0) {
		option_free_list(list);
		return error;
	}
	option_free_list(*place);
	*place = list;
	return 0;
}

int option_parse(const struct option_spec *spec, const char *text, void *value,
		 char error[OPTION_ERROR_SIZE])
{
	switch (spec->type) {
	case OPTION_BOOL:
		return option_parse_bool(text, value) ? 0 : option_refuse(spec, text, error);
	case OPTION_U64:
	case OPTION_BYTES:
	case OPTION_DURATION:
		return option_parse_number(spec, text, value) ? 0
							      : option_refuse(spec, text, error);
	case OPTION_STRING:
		return option_set_string(text, value);
	case OPTION_LIST:
		return option_set_list(text, value);
	}
	return option_refuse(spec, text, error);
}

int option_append(const struct option_spec *spec, const char *item, void *value,
		  char error[OPTION_ERROR_SIZE])
{
	if (spec->type != OPTION_LIST)
		return option_refuse(spec, item, error);
	return option_list_add(value, item, strlen(item));
}

void option_release(const struct option_spec *spec, void *value)
{
	if (spec->type == OPTION_STRING) {
		free(*(char **)value);
		*(char **)value = NULL;
	} else if (spec->type == OPTION_LIST) {
		option_free_list(*(char ***)value);
		*(char ***)value = NULL;
	}
}

static void option_format_number(const struct option_spec *spec, uint64_t value, struct buf *out)
{
	const struct option_unit *unit = option_units(spec);

	if (value == 0) {
		buf_append_char(out, '0');
		return;
	}
	while (value % unit->factor)
		unit++;
	buf_printf(out, "%llu%s", (unsigned long long)(value / unit->factor), unit->name);
}

// A double-quoted YAML scalar.
static void option_format_string(const char *text, struct buf *out)
{
	buf_append_char(out, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_printf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20 || *text == 0x7f)
			buf_printf(out, "\\x%02x", (unsigned char)*text);
		else
			buf_append_char(out, *text);
	}
	buf_append_char(out, '"');
}

void option_format(const struct option_spec *spec, const void *value, struct buf *out)
{
	const char *text;

	switch (spec->type) {
	case OPTION_BOOL:
		buf_append_string(out, *(const bool *)value ? "true" : "false");
		break;
	case OPTION_U64:
	case OPTION_BYTES:
	case OPTION_DURATION:
		option_format_number(spec, *(const uint64_t *)value, out);
		break;
	case OPTION_STRING:
		text = *(char *const *)value;
		option_format_string(text ? text : "", out);
		break;
	case OPTION_LIST:
		buf_append_char(out, '[');
		for (char **item = *(char **const *)value; item && *item; item++) {
			buf_append_string(out, item == *(char **const *)value ? "" : ", ");
			option_format_string(*item, out);
		}
		buf_append_char(out, ']');
		break;
	}
}

const char *option_placeholder(const struct option_spec *spec)
{
	static const char *const words[] = {
		[OPTION_BOOL] = "true|false", [OPTION_U64] = "COUNT",	[OPTION_BYTES] = "SIZE",
		[OPTION_DURATION] = "TIME",   [OPTION_STRING] = "TEXT", [OPTION_LIST] = "A,B,...",
	};

	return words[spec->type];
}

void option_describe(const struct option_spec *spec, struct buf *out)
{
	static const char *const kinds[] = {
		[OPTION_BOOL] = "true or false",
		[OPTION_U64] = "a count",
		[OPTION_BYTES] = "a size with K, M, G or T",
		[OPTION_DURATION] = "a time with ns, us, ms, s, m, h or d",
		[OPTION_STRING] = "a text",
		[OPTION_LIST] = "a list of texts",
	};

	buf_append_string(out, kinds[spec->type]);
	if (!spec->min && !spec->max)
		return;
	buf_append_string(out, " from ");
	option_format_number(spec, spec->min, out);
	buf_append_string(out, " to ");
	option_format_number(spec, spec->max, out);
}
