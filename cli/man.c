// SPDX-License-Identifier: Apache-2.0
// `tracer man`: one manual page of roff, printed from the table of cli/command.c.

#include <stdbool.h>
#include <stdio.h>

#include "cli/command.h"
#include "core/config.h"
#include "version.h"

// Text with roff's own characters escaped; a line may not begin with a full stop or an apostrophe.
static void man_text(const char *text)
{
	bool line_start = true;

	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		line_start = *text == '\n';
		if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '-')
			fputs("\\-", stdout);
		else if (*text == '\n' && text[1] == '\n')
			fputs("\n.PP\n", stdout), text++, line_start = true;
		else
			putchar(*text);
	}
}

static void man_options(const struct command *command)
{
	for (const struct command_option *option = command->options; option && option->name;
	     option++) {
		puts(".TP");
		if (option->letter)
			printf("\\fB\\-%c\\fR, ", option->letter);
		fputs("\\fB\\-\\-", stdout);
		man_text(option->name);
		fputs("\\fR", stdout);
		if (option->argument) {
			fputs(" \\fI", stdout);
			man_text(option->argument);
			fputs("\\fR", stdout);
		}
		putchar('\n');
		man_text(option->help);
		putchar('\n');
	}
}

static void man_declared(const struct command *command)
{
	const struct option_table *table = command->tables ? command->tables() : NULL;
	char name[160];

	for (; table && table->name; table++) {
		for (const struct option_spec *spec = table->options; spec && spec->key; spec++) {
			config_flag_name(table->name, spec, name, sizeof(name));
			fputs(".TP\n\\fB", stdout);
			man_text(name);
			printf("\\fR \\fI%s\\fR\n", option_placeholder(spec));
			man_text(spec->help);
			fputs(" Default: ", stdout);
			man_text(spec->default_text && *spec->default_text ? spec->default_text
									   : "none");
			puts(".");
		}
	}
}

static void man_command(const struct command *command)
{
	printf(".SS \"tracer %s ", command->name);
	man_text(command->usage);
	puts("\"");
	man_text(command->description);
	putchar('\n');
	man_options(command);
	man_declared(command);
	for (const struct command_example *example = command->examples; example && example->line;
	     example++) {
		puts(".PP");
		man_text(example->help);
		fputs(":\n.RS\n.nf\n", stdout);
		man_text(example->line);
		puts("\n.fi\n.RE");
	}
	puts(".PP\nExit codes:");
	for (const struct command_exit *exit_row = command->exits; exit_row && exit_row->help;
	     exit_row++) {
		printf(".TP\n.B %d\n", exit_row->code);
		man_text(exit_row->help);
		putchar('\n');
	}
}

int command_man(int argc, char **argv)
{
	struct args args = args_of("man", argc, argv);

	while (args_next(&args))
		;
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count)
		return args_usage(&args, "takes no operand");
	printf(".TH TRACER 1 \"\" \"tracer %s\" \"User Commands\"\n", TRACER_VERSION);
	puts(".SH NAME\ntracer \\- shows what really ran on this host\n.SH SYNOPSIS\n.B tracer\n.I "
	     "COMMAND\n[OPTIONS]\n"
	     ".SH DESCRIPTION\nEvery process, grouped into tools, tasks and runs, with the CPU, "
	     "memory and I/O each one\n"
	     "used or waited for.\n.SH COMMANDS");
	for (const struct command *command = commands; command->name; command++)
		man_command(command);
	puts(".SH FILES\n.TP\n.I /etc/tracer/tracer.yaml\nConfiguration of the collector.\n.SH "
	     "ENVIRONMENT\n"
	     ".TP\n.B NO_COLOR\nWhen set, nothing is coloured.\n.TP\n.B TRACER_*\nConfiguration, "
	     "stronger than the file.");
	return EXIT_OK;
}
