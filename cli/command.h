// SPDX-License-Identifier: Apache-2.0
// The subcommands as one table (cli/command.c). Dispatch, `tracer help`, --help, shell completion
// and the man page are all made from it, so what is documented is what is parsed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/option.h"

// Exit codes shared by all commands; `run` is the exception and says so in its row.
enum {
	EXIT_OK = 0,
	EXIT_NO = 1, // the answer is no, or something was lost or damaged
	EXIT_USAGE = 2, // bad usage, configuration or input
	EXIT_REFUSED = 3, // not permitted or not supported here
};

struct command_option {
	const char *name; // long name without dashes; NULL ends a table
	char letter; // 0: none
	const char *argument; // placeholder of its value: FILE and DIR complete as paths, a|b|c as
		// words; NULL: a flag
	const char *help;
};

struct command_example {
	const char *line; // what to type; NULL ends a table
	const char *help;
};

struct command_exit {
	int code;
	const char *help; // NULL ends a table
};

struct option_table;

struct command {
	const char *name; // NULL ends the table
	int (*function)(int argc,
			char **argv); // argv[0] is the command's name; returns the exit code
	const char *summary; // one line
	const char *usage; // what follows "tracer NAME"
	const char *description; // paragraphs, separated by an empty line, unwrapped
	const char *words; // subcommands, separated by spaces; NULL: none
	const struct command_option *options; // NULL: only --help
	const struct command_example *examples;
	const struct command_exit *exits;
	// Declared options that are flags of this command too; NULL: none. Ends with a NULL name.
	const struct option_table *(*tables)(void);
};

extern const struct command commands[];

const struct command *command_find(const char *name); // NULL: no such command

// The name nearest to a mistyped one, or NULL when none is near.
const char *command_nearest(const char *name);

struct config;

// Walks a command line by the command's own row:
//
//	struct args args = args_of("ps", argc, argv);
//	while (args_next(&args)) {
//		if (args_is(&args, "json"))
//			json = true;
//	}
//	if (args.exit_code >= 0)
//		return args.exit_code;
//
// Options may be mixed with operands unless stop_at_operand is set (as `run` needs); "--" ends
// them. --help prints the help and a bad option prints what is allowed; both end the walk with
// exit_code set. Operands are left in args.operands[0..operand_count), a NULL behind them.
struct args {
	const struct command *command;
	struct config *config; // set by the caller: takes the flags of declared options
	char **argv;
	int argc, index;
	const char *letters; // rest of a cluster such as -sm
	const struct command_option *option; // the one just met
	const char *value; // its value, NULL for a flag
	char **operands;
	int operand_count;
	bool stop_at_operand;
	int exit_code; // -1: go on
};

struct args args_of(const char *command_name, int argc, char **argv);
bool args_next(struct args *args);
bool args_is(const struct args *args, const char *option_name);

// Parses the value of the option just met as a number from min to max. On a bad one prints why and
// sets exit_code.
bool args_number(struct args *args, uint64_t min, uint64_t max, uint64_t *ret_value);

// Prints "tracer NAME: reason" and where help is; returns EXIT_USAGE.
__attribute__((format(printf, 2, 3))) int args_usage(const struct args *args, const char *format,
						     ...);

// cli/help.c: writes a command's help to a terminal or a pipe.
struct ui;
void help_write(const struct command *command, struct ui *ui);

int command_bundle(int argc, char **argv);
int command_collect(int argc, char **argv);
const struct option_table *command_collect_options(void);
int command_completion(int argc, char **argv);
int command_datalake(int argc, char **argv);
const struct option_table *command_datalake_options(void);
int command_doctor(int argc, char **argv);
int command_help(int argc, char **argv);
int command_identity(int argc, char **argv);
int command_image(int argc, char **argv);
int command_man(int argc, char **argv);
int command_rules(int argc, char **argv);
int command_run(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_report(int argc, char **argv);
int command_rows(int argc, char **argv); // runs, tasks, tools, processes, hosts
int command_show(int argc, char **argv);
int command_export(int argc, char **argv);
int command_spool(int argc, char **argv);
int command_service(int argc, char **argv);
int command_sql(int argc, char **argv);
int command_status(int argc, char **argv);
int command_stream(int argc, char **argv);
const struct option_table *command_stream_options(void);
int command_top(int argc, char **argv);
int command_up(int argc, char **argv);
int command_update(int argc, char **argv);
const struct option_table *command_update_options(void);
int command_version(int argc, char **argv);
