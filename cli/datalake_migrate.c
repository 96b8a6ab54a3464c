// SPDX-License-Identifier: Apache-2.0
// `tracer datalake migrate`: a whole store into ClickHouse, and the proof that it is the same. Addresses may hold a
// password and are not repeated.

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/datalake.h"
#include "cli/ui.h"
#include "lake/migrate.h"

struct telling {
	bool terminal;
	uint64_t rows, differences;
};

static void progress(void *data, const char *what, uint64_t rows)
{
	struct telling *telling = data;

	telling->rows += rows;
	if (telling->terminal)
		fprintf(stderr, "\r\033[K%" PRIu64 " rows, %s", telling->rows, what);
}

static void difference(void *data, const char *sentence)
{
	struct telling *telling = data;
	char safe[512];

	ui_escape(safe, sizeof(safe), sentence);
	fprintf(stderr, "%s%s\n", telling->terminal && !telling->differences ? "\r\033[K" : "", safe);
	telling->differences++;
}

int datalake_migrate(struct args *args, struct datalake_options *options)
{
	struct telling telling = {.terminal = isatty(STDERR_FILENO)};
	const struct migrate_hooks hooks = {.progress = progress, .difference = difference, .data = &telling};
	const char *from = datalake_flags.from ? datalake_flags.from : options->store;
	const struct store_retention keep = datalake_retention(options);
	struct store_error why = {0};
	int result;

	if (args->operand_count != 1 || !datalake_flags.to)
		return args_usage(args, "migrate takes --to clickhouse://USER@HOST:PORT/DATABASE and --from STORE");
	result = migrate_lake(from, datalake_flags.to, &keep, &hooks, &why);
	if (telling.terminal)
		fprintf(stderr, "\r\033[K");
	if (result < 0) {
		fprintf(stderr, "tracer datalake migrate: %s\n", why.text[0] ? why.text : strerror(-result));
		return result == -EACCES || result == -EPERM			     ? EXIT_REFUSED
		       : result == -EINVAL || result == -EEXIST || result == -ENOENT ? EXIT_USAGE
										     : EXIT_NO;
	}
	if (result == 0)
		printf("moved; every count and sum is equal\n");
	else
		fprintf(stderr, "tracer datalake migrate: not the same, %" PRIu64 " differences\n",
			telling.differences);
	return result ? EXIT_NO : EXIT_OK;
}
