// SPDX-License-Identifier: Apache-2.0
// Reads a command line by the rows of cli/command.c. Nothing here knows a single option by name
// except --help.

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "core/config.h"

struct args args_of(const char *command_name, int argc, char **argv)
{
	return (struct args){
		.command = command_find(command_name),
		.argv = argv,
		.argc = argc,
		.index = 1,
		.operands = argv + 1,
		.exit_code = -1,
	};
}

int args_usage(const struct args *args, const char *format, ...)
{
	va_list list;

	fprintf(stderr, "tracer %s: ", args->command->name);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fprintf(stderr, " (see `tracer %s --help`)\n", args->command->name);
	return EXIT_USAGE;
}

static bool args_fail(struct args *args, const char *before, const char *text, const char *after)
{
	char safe[64];

	ui_escape(safe, sizeof(safe), text);
	args->exit_code = args_usage(args, "%s%s%s", before, safe, after);
	return false;
}

static bool args_help(struct args *args)
{
	struct ui ui;

	ui_init(&ui, stdout);
	help_write(args->command, &ui);
	args->exit_code = EXIT_OK;
	return false;
}

// The value of an option: what follows "=" or the letter, else the next word.
static bool args_take_value(struct args *args, const char *attached, const char *name)
{
	if (!attached) {
		if (args->index >= args->argc)
			return args_fail(args, "", name, " needs a value");
		attached = args->argv[args->index++];
	}
	args->value = attached;
	return true;
}

// Whether the next word is a boolean option's value: what it takes, nothing else.
static bool args_next_is_truth(const struct args *args, const struct option_spec *spec)
{
	char error[OPTION_ERROR_SIZE];
	bool value;

	return args->index < args->argc && option_parse(spec, args->argv[args->index], &value, error) == 0;
}

// A flag of a declared option; true may be left out of a boolean one.
static bool args_declared(struct args *args, const char *name, size_t length, const char *attached)
{
	const char *flag = args->argv[args->index - 1];
	char error[CONFIG_ERROR_SIZE];
	const struct option_spec *spec;

	spec = args->config ? config_find_flag(args->config, name, length) : NULL;
	if (!spec)
		return args_fail(args, "no option ", flag, "");
	if (!attached && spec->type == OPTION_BOOL && !args_next_is_truth(args, spec))
		attached = "true";
	if (!args_take_value(args, attached, flag))
		return false;
	if (config_set_flag(args->config, spec, args->value, error) == 0)
		return true;
	args->exit_code = args_usage(args, "%s", error);
	return false;
}

static bool args_long(struct args *args)
{
	const char *text = args->argv[args->index++] + 2;
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t)(equals - text) : strlen(text);
	const struct command_option *option = args->command->options;

	if (length == 4 && !memcmp(text, "help", 4))
		return args_help(args);
	for (; option && option->name; option++) {
		if (strlen(option->name) == length && !memcmp(option->name, text, length))
			break;
	}
	args->option = option && option->name ? option : NULL;
	if (!args->option)
		return args_declared(args, text, length, equals ? equals + 1 : NULL);
	if (args->option->argument)
		return args_take_value(args, equals ? equals + 1 : NULL,
				       args->argv[args->index - 1]);
	return equals ? args_fail(args, "", args->argv[args->index - 1], " takes no value") : true;
}

static bool args_letter(struct args *args)
{
	const struct command_option *option = args->command->options;
	char name[3] = {'-', *args->letters++, 0};
	const char *rest = *args->letters ? args->letters : NULL;

	for (; option && option->name && option->letter != name[1]; option++)
		;
	if (!*args->letters)
		args->letters = NULL;
	args->option = option && option->name ? option : NULL;
	if (!args->option)
		return name[1] == 'h' ? args_help(args) : args_fail(args, "no option ", name, "");
	if (!option->argument)
		return true;
	args->letters = NULL;
	return args_take_value(args, rest, name);
}

static void args_take_operands(struct args *args)
{
	while (args->index < args->argc)
		args->operands[args->operand_count++] = args->argv[args->index++];
}

bool args_next(struct args *args)
{
	args->option = NULL;
	args->value = NULL;
	if (args->letters)
		return args_letter(args);
	while (args->index < args->argc) {
		char *word = args->argv[args->index];

		if (!strcmp(word, "--")) {
			args->index++;
			args_take_operands(args);
		} else if (word[0] == '-' && word[1] == '-') {
			return args_long(args);
		} else if (word[0] == '-' && word[1]) {
			args->letters = word + 1;
			args->index++;
			return args_letter(args);
		} else if (args->stop_at_operand) {
			args_take_operands(args);
		} else {
			args->operands[args->operand_count++] = word;
			args->index++;
		}
	}
	// They are moved up in argv, which has room for them and their end.
	args->operands[args->operand_count] = NULL;
	return false;
}

bool args_is(const struct args *args, const char *option_name)
{
	return args->option && !strcmp(args->option->name, option_name);
}

bool args_number(struct args *args, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(args->value, &end, 10);
	if (errno == 0 && *end == 0 && args->value[0] >= '0' && args->value[0] <= '9' &&
	    value >= min && value <= max) {
		*ret_value = value;
		return true;
	}
	args->exit_code =
		args_usage(args, "--%s needs a number from %llu to %llu", args->option->name,
			   (unsigned long long)min, (unsigned long long)max);
	return false;
}
