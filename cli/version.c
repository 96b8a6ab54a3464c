// SPDX-License-Identifier: Apache-2.0
// `tracer version`.

#include <stdbool.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "cli/command.h"
#include "core/schema.h"
#include "version.h"

int command_version(int argc, char **argv)
{
	struct args args = args_of("version", argc, argv);
	struct utsname host;
	bool json = false;

	while (args_next(&args))
		json |= args_is(&args, "json");
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count)
		return args_usage(&args, "takes no operand");
	if (uname(&host) < 0)
		snprintf(host.machine, sizeof(host.machine), "unknown");
	if (json)
		printf("{\"version\":\"%s\",\"build\":\"%s\",\"schema\":%d,\"machine\":\"%s\"}\n",
		       TRACER_VERSION, TRACER_BUILD, TRACER_SCHEMA_VERSION, host.machine);
	else
		printf("tracer %s (build %s, record schema %d, %s)\n", TRACER_VERSION, TRACER_BUILD,
		       TRACER_SCHEMA_VERSION, host.machine);
	return EXIT_OK;
}
