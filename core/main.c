// SPDX-License-Identifier: Apache-2.0
// The door: finds the subcommand in the table of cli/command.c and runs it. Knows nothing about any
// of them.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ui.h"

// A descriptor opened later must never become standard output by accident.
static void main_open_standard(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
			_exit(EXIT_REFUSED);
	}
}

static int main_unknown(const char *name)
{
	const char *nearest = command_nearest(name);

	char safe[64];

	ui_escape(safe, sizeof(safe), name);
	fprintf(stderr, "tracer: no such command: %s", safe);
	if (nearest)
		fprintf(stderr, "; did you mean `tracer %s`?", nearest);
	fputs(" (`tracer help` lists them)\n", stderr);
	return EXIT_USAGE;
}

static int main_dispatch(int argc, char **argv)
{
	const struct command *command;
	const char *name;

	if (argc < 2) {
		char *help[] = {(char *)"help", NULL};
		command_help(1, help);
		return EXIT_USAGE;
	}
	name = argv[1];
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	else if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	command = command_find(name);
	return command ? command->function(argc - 1, argv + 1) : main_unknown(name);
}

int main(int argc, char **argv)
{
	int code;

	main_open_standard();
	code = main_dispatch(argc, argv);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "tracer: cannot write to standard output: %s\n", strerror(errno));
	return code ? code : EXIT_NO;
}
