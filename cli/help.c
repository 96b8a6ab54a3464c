// SPDX-License-Identifier: Apache-2.0
// `tracer help` and every --help, printed from the table of cli/command.c.

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "core/config.h"

static void help_heading(const struct ui *ui, const char *text)
{
	fprintf(ui->out, "\n%s%s%s\n", ui_style(ui, UI_BOLD), text, ui_style(ui, UI_PLAIN));
}

// A name in a column of its own and its text beside it, or below it when the name is too long.
static void help_item(const struct ui *ui, const char *name, const char *text)
{
	enum { COLUMN = 30 };
	size_t columns = ui_columns(name) + 4;
	size_t room = ui->width > 100 ? 100 - COLUMN : ui->width - COLUMN;

	fprintf(ui->out, "  %s%s%s", ui_style(ui, UI_ACCENT), name, ui_style(ui, UI_PLAIN));
	fprintf(ui->out, columns > COLUMN ? "\n%*s" : "%*s",
		columns > COLUMN ? COLUMN : COLUMN - (int)columns + 2, "");
	while (strlen(text) > room) {
		size_t cut = room;

		while (cut && text[cut] != ' ')
			cut--;
		if (cut == 0)
			break;
		fprintf(ui->out, "%.*s\n%*s", (int)cut, text, COLUMN, "");
		text += cut + 1;
	}
	fprintf(ui->out, "%s\n", text);
}

static void help_options(const struct command *command, const struct ui *ui)
{
	const struct command_option *option = command->options;
	char name[80];

	help_heading(ui, "Options");
	for (; option && option->name; option++) {
		int used = option->letter ? snprintf(name, sizeof(name), "-%c, ", option->letter)
					  : snprintf(name, sizeof(name), "    ");

		snprintf(name + used, sizeof(name) - (size_t)used, "--%s%s%s", option->name,
			 option->argument ? " " : "", option->argument ? option->argument : "");
		help_item(ui, name, option->help);
	}
	help_item(ui, "-h, --help", "This text");
}

static void help_declared(const struct command *command, const struct ui *ui)
{
	const struct option_table *table = command->tables ? command->tables() : NULL;
	char name[160], text[400];

	if (!table)
		return;
	help_heading(ui, "Configuration");
	ui_paragraphs(
		ui,
		"In the YAML file (--spool-cap-bytes is cap_bytes: under spool:), as a variable "
		"(TRACER_SPOOL_CAP_BYTES), or as a flag; the later of these wins.",
		2, 0);
	for (; table->name; table++) {
		for (const struct option_spec *spec = table->options; spec && spec->key; spec++) {
			config_flag_name(table->name, spec, name, sizeof(name));
			snprintf(name + strlen(name), sizeof(name) - strlen(name), " %s",
				 option_placeholder(spec));
			snprintf(text, sizeof(text), "%s (default: %s)", spec->help,
				 spec->default_text && *spec->default_text ? spec->default_text
									   : "none");
			help_item(ui, name, text);
		}
	}
}

void help_write(const struct command *command, struct ui *ui)
{
	char code[16];

	fprintf(ui->out, "%s%s%s\n\n", ui_style(ui, UI_BOLD), command->summary,
		ui_style(ui, UI_PLAIN));
	fprintf(ui->out, "  tracer %s%s%s\n", command->name, *command->usage ? " " : "",
		command->usage);
	if (command->description) {
		fputc('\n', ui->out);
		ui_paragraphs(ui, command->description, 0, 0);
	}
	help_options(command, ui);
	help_declared(command, ui);
	if (command->examples) {
		help_heading(ui, "Examples");
		for (const struct command_example *example = command->examples; example->line;
		     example++)
			fprintf(ui->out, "  %s%s%s\n      %s\n", ui_style(ui, UI_ACCENT),
				example->line, ui_style(ui, UI_PLAIN), example->help);
	}
	if (command->exits) {
		help_heading(ui, "Exit codes");
		for (const struct command_exit *code_row = command->exits; code_row->help;
		     code_row++) {
			snprintf(code, sizeof(code), "%d", code_row->code);
			help_item(ui, code, code_row->help);
		}
	}
}

static void help_list(struct ui *ui)
{
	fprintf(ui->out,
		"%sTracer shows what really ran on this host, and what it used or waited for.%s\n",
		ui_style(ui, UI_BOLD), ui_style(ui, UI_PLAIN));
	fputs("\n  tracer COMMAND [OPTIONS]\n", ui->out);
	help_heading(ui, "Commands");
	for (const struct command *command = commands; command->name; command++)
		fprintf(ui->out, "  %s%-12s%s %s\n", ui_style(ui, UI_ACCENT), command->name,
			ui_style(ui, UI_PLAIN), command->summary);
	fputs("\n`tracer COMMAND --help` tells options, examples and exit codes.\n", ui->out);
}

int command_help(int argc, char **argv)
{
	struct args args = args_of("help", argc, argv);
	const struct command *command;
	struct ui ui;

	while (args_next(&args))
		;
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count > 1)
		return args_usage(&args, "takes one command");
	ui_init(&ui, stdout);
	if (args.operand_count == 0) {
		help_list(&ui);
		return EXIT_OK;
	}
	command = command_find(args.operands[0]);
	if (!command)
		return args_usage(&args, "no such command; `tracer help` lists them");
	help_write(command, &ui);
	return EXIT_OK;
}
