// SPDX-License-Identifier: Apache-2.0
// `tracer datalake backup` and `check`: a store of its own, beside a running server or without one.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/datalake.h"
#include "cli/ui.h"
#include "core/base/cleanup.h"
#include "lake/store.h"

static int fail(const char *what, int result, const struct store_error *why)
{
	char shown[512];

	store_url_shown(what, shown, sizeof(shown));
	what = shown;
	fprintf(stderr, "tracer datalake: %s: %s\n", what, why->text[0] ? why->text : strerror(-result));
	return result == -EACCES || result == -EPERM ? EXIT_REFUSED : EXIT_NO;
}

static int open_store(struct datalake_options *options, bool read_only, struct store **ret_store)
{
	const struct store_options store_options = {.read_only = read_only};
	struct store_error why = {0};
	int result = datalake_become_owner(options);

	if (result < 0)
		return EXIT_REFUSED;
	result = store_open(options->store, &store_options, ret_store, &why);
	return result < 0 ? fail(options->store, result, &why) : EXIT_OK;
}

// Where the lake's user may make no file, root makes it for it.
static int backup_file_make(const char *path, const struct datalake_options *options)
{
	struct stat info;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), result = 0;

	if (fd < 0)
		return -errno;
	if (geteuid() == 0 && stat(options->state, &info) == 0 && fchown(fd, info.st_uid, info.st_gid) < 0)
		result = -errno;
	close(fd);
	return result;
}

int datalake_backup(struct args *args, struct datalake_options *options)
{
	CLEANUP(cleanup_free) char *path = NULL;
	struct store_backup *backup = NULL;
	struct store_error why = {0};
	struct store *store = NULL;
	int code, result;

	if (args->operand_count != 2)
		return args_usage(args, "backup needs the file to write");
	path = strdup(args->operands[1]);
	result = path ? datalake_path_fix(&path) : -ENOMEM;
	if (!result)
		result = backup_file_make(path, options);
	if (result < 0)
		return fail(args->operands[1], result, &why);
	code = open_store(options, true, &store);
	if (code) {
		unlink(path);
		return code;
	}
	result = store_backup_begin(store, path, &backup, &why);
	while (result >= 0) {
		result = store_backup_step(backup, &why);
		if (result == 0)
			break;
	}
	store_backup_end(backup);
	store_close(store);
	if (result < 0 && result != -EEXIST)
		unlink(path);
	return result < 0 ? fail(args->operands[1], result, &why) : EXIT_OK;
}

static void problem_print(void *data, const char *sentence)
{
	char safe[512];

	(void)data;
	ui_escape(safe, sizeof(safe), sentence);
	printf("%s\n", safe);
}

int datalake_check(struct args *args, struct datalake_options *options)
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
