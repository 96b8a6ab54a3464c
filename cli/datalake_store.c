// SPDX-License-Identifier: Apache-2.0
// `tracer datalake backup` and `check`: a store of its own, beside a running server or without one.

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/datalake.h"
#include "cli/ui.h"
#include "lake/store.h"

static int fail(const char *what, int result, const struct store_error *why)
{
	char shown[512];

	store_url_shown(what, shown, sizeof(shown));
	what = shown;
	fprintf(stderr, "tracer datalake: %s: %s\n", what, why->text[0] ? why->text : strerror(-result));
	return result == -EACCES || result == -EPERM ? EXIT_REFUSED : EXIT_NO;
}

static int open_store(const struct datalake_options *options, bool read_only, struct store **ret_store)
{
	const struct store_options store_options = {.read_only = read_only};
	struct store_error why = {0};
	int result = datalake_become_owner(options);

	if (result < 0)
		return EXIT_REFUSED;
	result = store_open(options->store, &store_options, ret_store, &why);
	return result < 0 ? fail(options->store, result, &why) : EXIT_OK;
}

int datalake_backup(struct args *args, const struct datalake_options *options)
{
	struct store_backup *backup = NULL;
	struct store_error why = {0};
	struct store *store = NULL;
	int code, result;

	if (args->operand_count != 2)
		return args_usage(args, "backup needs the file to write");
	code = open_store(options, true, &store);
	if (code)
		return code;
	result = store_backup_begin(store, args->operands[1], &backup, &why);
	while (result >= 0) {
		result = store_backup_step(backup, &why);
		if (result == 0)
			break;
	}
	store_backup_end(backup);
	store_close(store);
	return result < 0 ? fail(args->operands[1], result, &why) : EXIT_OK;
}

static void problem_print(void *data, const char *sentence)
{
	char safe[512];

	(void)data;
	ui_escape(safe, sizeof(safe), sentence);
	printf("%s\n", safe);
}

int datalake_check(struct args *args, const struct datalake_options *options)
{
	struct store_reader *reader = NULL;
	struct store_error why = {0};
	struct store *store = NULL;
	int code, result;

	if (args->operand_count != 1)
		return args_usage(args, "check takes no operands");
	code = open_store(options, true, &store);
	if (code)
		return code;
	result = store_reader_open(store, &reader, &why);
	if (!result)
		result = store_check(reader, problem_print, NULL, &why);
	store_reader_close(reader);
	store_close(store);
	if (result < 0)
		return fail(options->store, result, &why);
	if (result == 0)
		printf("sound\n");
	return result ? EXIT_NO : EXIT_OK;
}
