// SPDX-License-Identifier: Apache-2.0
// `tracer service`: the files by which service managers run Tracer, from installer/service/, for a prefix and a user.
// The installer writes what this prints, so that a service is of the same version as the program. A file's own name
// does as well as the short one.

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "core/embedded.h"

static const struct {
	const char *name, *file;
} services[] = {
	{"systemd", "tracer.service"},
	{"systemd-guard", "tracer-guard.service"},
	{"systemd-update", "tracer-update.service"},
	{"systemd-timer", "tracer-update.timer"},
	{"systemd-datalake", "tracer-datalake.service"},
	{"openrc", "tracer.openrc"},
	{"sysv", "tracer.sysv"},
	{"supervise", "supervise"},
};

static const struct embedded_file *service_find(const char *name)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		for (const struct embedded_file *file = embedded_service; file->name; file++)
			if ((!strcmp(services[i].name, name) || !strcmp(services[i].file, name)) &&
			    !strcmp(services[i].file, file->name))
				return file;
	return NULL;
}

// The value becomes part of command lines in the file.
static bool is_plain(const char *text)
{
	return *text && text[0] != '-' &&
	       !text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-")];
}

static void service_print(const struct embedded_file *file, const char *prefix, const char *user)
{
	const char *text = (const char *)file->data;

	while (*text) {
		size_t length = strcspn(text, "@");
		bool is_prefix = !strncmp(text + length, "@PREFIX@", 8), is_user = !strncmp(text + length, "@USER@", 6);

		fwrite(text, 1, length, stdout);
		text += length;
		if (is_prefix || is_user)
			fputs(is_prefix ? prefix : user, stdout);
		else if (*text)
			putchar(*text);
		text += is_prefix ? 8 : is_user ? 6 : *text ? 1 : 0;
	}
}

int command_service(int argc, char **argv)
{
	struct args args = args_of("service", argc, argv);
	const char *prefix = "/usr/local", *user = "tracer";
	const struct embedded_file *file;

	while (args_next(&args)) {
		if (args_is(&args, "prefix"))
			prefix = args.value;
		if (args_is(&args, "user"))
			user = args.value;
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count != 1)
		return args_usage(&args, "give one of %s", args.command->words);
	file = service_find(args.operands[0]);
	if (!file)
		return args_usage(&args, "\"%s\" is none of %s", args.operands[0], args.command->words);
	if (prefix[0] != '/' || !is_plain(prefix))
		return args_usage(&args, "--prefix: \"%s\" is no plain absolute path", prefix);
	if (!is_plain(user))
		return args_usage(&args, "--user: \"%s\" is no plain name", user);
	service_print(file, prefix, user);
	return EXIT_OK;
}
