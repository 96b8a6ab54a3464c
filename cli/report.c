// SPDX-License-Identifier: Apache-2.0
// `tracer report`: the report of `tracer run`, made again from a recorded file.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/report_text.h"
#include "cli/ui.h"
#include "core/base/cleanup.h"
#include "core/report_tree.h"

static void report_cleanup(struct report **report)
{
	report_free(*report);
}

static int report_fail(const char *path, int error)
{
	char name[256];

	ui_escape(name, sizeof(name), path);
	if (error == -EBADMSG)
		fprintf(stderr,
			"tracer report: %s: holds no record; it must be NDJSON as `tracer run -o` "
			"writes it\n",
			name);
	else
		fprintf(stderr, "tracer report: %s: %s\n", name, strerror(-error));
	return error == -EACCES || error == -EPERM ? EXIT_REFUSED : EXIT_USAGE;
}

int command_report(int argc, char **argv)
{
	const struct report_setup setup = {.memory_bytes = UNKNOWN, .start_boot_ns = UNKNOWN};
	struct report_outcome outcome = {.end_boot_ns = UNKNOWN, .exit_code = -1};
	struct args args = args_of("report", argc, argv);
	CLEANUP(report_cleanup) struct report *report = NULL;
	CLEANUP(cleanup_fclose) FILE *file = NULL;
	bool json = false, standard;
	struct ui ui;
	int error;

	while (args_next(&args))
		json |= args_is(&args, "json");
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count != 1)
		return args_usage(&args, "name one file");
	standard = !strcmp(args.operands[0], "-");
	file = fopen(standard ? "/dev/stdin" : args.operands[0], "re");
	if (!file)
		return report_fail(args.operands[0], -errno);
	error = report_new(&setup, &report);
	if (error == 0)
		error = report_read(report, file);
	if (error < 0)
		return report_fail(args.operands[0], error);
	outcome.still_running = report->outcome.still_running;
	report_finish(report, &outcome);
	ui_init(&ui, stdout);
	error = json ? report_write_json(report, stdout) : report_write(report, &ui);
	return error < 0 || report->bad_lines ? EXIT_NO : EXIT_OK;
}
