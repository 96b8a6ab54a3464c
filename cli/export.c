// SPDX-License-Identifier: Apache-2.0
// `tracer export RUN`: a run of the lake in the words of another tool, to standard output or a file. The formats are
// those of lake/export.h, on a local store and a remote datalake alike.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "lake/export.h"

static int list_formats(struct args *args, const char *wrong)
{
	fprintf(stderr, "tracer export: \"%s\" is no format; known:\n", wrong);
	for (const struct export_format *format = export_formats; format->name; format++)
		fprintf(stderr, "  %-10s %s\n", format->name, format->summary);
	return args_usage(args, "choose one with --format");
}

static int write_answer(const struct ask_answer *answer, const char *path)
{
	CLEANUP(cleanup_close)
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : dup(STDOUT_FILENO);
	int error = fd < 0 ? -errno : 0;

	if (!error && answer->body.length)
		error = fs_write_all(fd, answer->body.data, answer->body.length);
	if (!error)
		return EXIT_OK;
	if (error != -EPIPE)
		fprintf(stderr, "tracer export: %s: %s\n", path ? path : "standard output", strerror(-error));
	return EXIT_NO;
}

int command_export(int argc, char **argv)
{
	struct args args = args_of("export", argc, argv);
	CLEANUP(ask_free) struct ask ask;
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	struct query_parameters none = {.arena = &ask.arena};
	const char *format = "ndjson", *path = NULL;
	char id[24], resource[64];
	int code;

	ask_init(&ask, "export");
	while (args_next(&args)) {
		if (args_is(&args, "format"))
			format = args.value;
		else if (args_is(&args, "output"))
			path = args.value;
		else
			ask_option(&ask, &args);
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count != 1)
		return args_usage(&args, "name one run; `tracer runs` lists them");
	if (!export_format_find(format))
		return list_formats(&args, format);
	if (!path && !strcmp(format, "perfetto") && isatty(STDOUT_FILENO))
		return args_usage(&args, "a perfetto trace is binary; name a file with --output");
	code = ask_find_run(&ask, args.operands[0], id);
	if (code >= 0)
		return code;
	snprintf(resource, sizeof(resource), "/api/v1/runs/%s/export", id);
	code = ask_answer(&ask, resource, &none, format, NULL, &answer);
	return code >= 0 ? code : write_answer(&answer, path);
}
