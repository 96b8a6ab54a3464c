// SPDX-License-Identifier: Apache-2.0
// `tracer completion`: scripts for bash, zsh and fish, printed from the table of cli/command.c. The
// scripts hold the words themselves, so completing never runs tracer.

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "core/config.h"

static bool completion_is_path(const char *argument)
{
	return argument && (strstr(argument, "FILE") || strstr(argument, "DIR"));
}

// Prints text inside single quotes of a POSIX-like shell.
static void completion_quoted(const char *text)
{
	putchar('\'');
	for (; *text; text++)
		fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, stdout);
	putchar('\'');
}

// "a|b|c" as "a b c"; nothing when the argument is a placeholder.
static void completion_choices(const char *argument)
{
	for (; argument && strchr(argument, '|') && *argument; argument++)
		putchar(*argument == '|' ? ' ' : *argument);
}

static bool completion_has_choices(const char *argument)
{
	return argument && strchr(argument, '|') && !completion_is_path(argument);
}

// " --flag" for each declared option of the command.
static void completion_declared(const struct command *command)
{
	const struct option_table *table = command->tables ? command->tables() : NULL;
	char name[160];

	for (; table && table->name; table++) {
		for (const struct option_spec *spec = table->options; spec && spec->key; spec++) {
			config_flag_name(table->name, spec, name, sizeof(name));
			printf(" %s", name);
		}
	}
}

static void completion_bash_values(const struct command *command)
{
	for (const struct command_option *option = command->options; option && option->name;
	     option++) {
		if (!option->argument)
			continue;
		printf("\t%s:--%s", command->name, option->name);
		if (option->letter)
			printf("|%s:-%c", command->name, option->letter);
		if (completion_is_path(option->argument)) {
			fputs(") compopt -o default 2>/dev/null; return ;;\n", stdout);
		} else {
			fputs(") COMPREPLY=($(compgen -W \"", stdout);
			if (completion_has_choices(option->argument))
				completion_choices(option->argument);
			fputs("\" -- \"$word\")); return ;;\n", stdout);
		}
	}
}

static void completion_bash(void)
{
	puts("# bash completion for tracer\n_tracer() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} "
	     "command=${COMP_WORDS[1]}\n"
	     "\tlocal previous=${COMP_WORDS[COMP_CWORD-1]} words=\n\tCOMPREPLY=()\n\tif "
	     "((COMP_CWORD == 1)); then");
	fputs("\t\tCOMPREPLY=($(compgen -W \"", stdout);
	for (const struct command *command = commands; command->name; command++)
		printf("%s ", command->name);
	puts("\" -- \"$word\")); return\n\tfi\n\tcase $command:$previous in");
	for (const struct command *command = commands; command->name; command++)
		completion_bash_values(command);
	puts("\tesac\n\tcase $command in");
	for (const struct command *command = commands; command->name; command++) {
		printf("\t%s) words=\"--help", command->name);
		for (const struct command_option *option = command->options; option && option->name;
		     option++)
			printf(" --%s", option->name);
		completion_declared(command);
		if (command->words)
			printf(" %s", command->words);
		puts("\" ;;");
	}
	puts("\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	     "\t[[ ${#COMPREPLY[@]} == 0 ]] && compopt -o default 2>/dev/null\n}\ncomplete -F "
	     "_tracer tracer");
}

static void completion_zsh_option(const struct command_option *option)
{
	char text[256];
	char *out = text;
	const char *help = option->help;

	// Brackets and colons mean something to _arguments.
	for (; *help && out < text + sizeof(text) - 3; help++) {
		if (strchr("[]:\\", *help))
			*out++ = '\\';
		*out++ = *help;
	}
	*out = 0;
	for (int pass = option->letter ? 0 : 1; pass < 2; pass++) {
		char spec[400];

		snprintf(spec, sizeof(spec), pass ? "--%s%s[%s]%s%s" : "-%.1s%s[%s]%s%s",
			 pass ? option->name : &option->letter,
			 option->argument ? (pass ? "=" : "+") : "", text,
			 option->argument ? ":value" : "",
			 completion_is_path(option->argument) ? ":_files"
			 : option->argument		      ? ":"
							      : "");
		fputs(" \\\n\t\t\t", stdout);
		if (completion_has_choices(option->argument)) {
			spec[strlen(spec)] = 0;
			fputs("'", stdout);
			fputs(spec, stdout);
			fputs("(", stdout);
			completion_choices(option->argument);
			fputs(")'", stdout);
		} else {
			completion_quoted(spec);
		}
	}
}

static void completion_zsh_declared(const struct command *command)
{
	const struct option_table *table = command->tables ? command->tables() : NULL;
	char name[160];

	for (; table && table->name; table++) {
		for (const struct option_spec *spec = table->options; spec && spec->key; spec++) {
			config_flag_name(table->name, spec, name, sizeof(name));
			printf(" \\\n\t\t\t'%s=:value:'", name);
		}
	}
}

static void completion_zsh(void)
{
	puts("#compdef tracer\n_tracer() {\n\tlocal -a commands\n\tcommands=(");
	for (const struct command *command = commands; command->name; command++) {
		char text[160];

		snprintf(text, sizeof(text), "%s:%s", command->name, command->summary);
		fputs("\t\t", stdout);
		completion_quoted(text);
		putchar('\n');
	}
	puts("\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n"
	     "\tlocal command=$words[2]\n\tshift words\n\t((CURRENT--))\n\tcase $command in");
	for (const struct command *command = commands; command->name; command++) {
		printf("\t%s)\n\t\t_arguments -s '--help[Show help]'", command->name);
		for (const struct command_option *option = command->options; option && option->name;
		     option++)
			completion_zsh_option(option);
		completion_zsh_declared(command);
		if (command->words)
			printf(" \\\n\t\t\t'1:word:(%s)' '*:file:_files' ;;\n", command->words);
		else
			puts(" \\\n\t\t\t'*:file:_files' ;;");
	}
	puts("\tesac\n}\nif [[ $funcstack[1] == _tracer ]]; then\n\t_tracer "
	     "\"$@\"\nelse\n\tcompdef _tracer tracer\nfi");
}

static void completion_fish_declared(const struct command *command)
{
	const struct option_table *table = command->tables ? command->tables() : NULL;
	char name[160];

	for (; table && table->name; table++) {
		for (const struct option_spec *spec = table->options; spec && spec->key; spec++) {
			config_flag_name(table->name, spec, name, sizeof(name));
			printf("complete -c tracer -n '__fish_seen_subcommand_from %s' -l %s -x "
			       "-d ",
			       command->name, name + 2);
			completion_quoted(spec->help);
			putchar('\n');
		}
	}
}

static void completion_fish(void)
{
	puts("# fish completion for tracer\ncomplete -c tracer -n __fish_use_subcommand -f");
	for (const struct command *command = commands; command->name; command++) {
		printf("complete -c tracer -n __fish_use_subcommand -a %s -d ", command->name);
		completion_quoted(command->summary);
		putchar('\n');
	}
	for (const struct command *command = commands; command->name; command++) {
		for (const struct command_option *option = command->options; option && option->name;
		     option++) {
			printf("complete -c tracer -n '__fish_seen_subcommand_from %s' -l %s",
			       command->name, option->name);
			if (option->letter)
				printf(" -s %c", option->letter);
			fputs(completion_is_path(option->argument) ? " -rF"
			      : option->argument		   ? " -x"
								   : "",
			      stdout);
			if (completion_has_choices(option->argument)) {
				fputs(" -a '", stdout);
				completion_choices(option->argument);
				putchar('\'');
			}
			fputs(" -d ", stdout);
			completion_quoted(option->help);
			putchar('\n');
		}
		completion_fish_declared(command);
		if (command->words)
			printf("complete -c tracer -n '__fish_seen_subcommand_from %s' -a '%s'\n",
			       command->name, command->words);
	}
}

int command_completion(int argc, char **argv)
{
	struct args args = args_of("completion", argc, argv);

	while (args_next(&args))
		;
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count == 1 && !strcmp(args.operands[0], "bash"))
		completion_bash();
	else if (args.operand_count == 1 && !strcmp(args.operands[0], "zsh"))
		completion_zsh();
	else if (args.operand_count == 1 && !strcmp(args.operands[0], "fish"))
		completion_fish();
	else
		return args_usage(&args, "name one shell: bash, zsh or fish");
	return EXIT_OK;
}
