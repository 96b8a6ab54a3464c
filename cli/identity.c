// SPDX-License-Identifier: Apache-2.0
// `tracer identity`: who this host is to a datalake, and forgetting it. Reads the identity as text and never prints a
// token; drawing a new one is the streamer's alone (core/stream_state.c).

#include "cli/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <yyjson.h>

#include "cli/command.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/config.h"
#include "core/spool_files.h"
#include "core/stream_private.h"

enum { IDENTITY_MAX = 4096 };

void identity_directory(const struct collect_places *places, char *out, unsigned long size)
{
	if (*places->state)
		snprintf(out, size, "%s", places->state);
	else
		snprintf(out, size, "%s/" STREAM_DIRECTORY, places->spool);
}

// The descriptor stays open: the lock is to hold as long as the process lives.
static bool lock_one(const char *directory, const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool identity_lock(const struct collect_places *places)
{
	char stream[4096];

	snprintf(stream, sizeof(stream), "%s/" STREAM_DIRECTORY, places->spool);
	return lock_one(places->spool, SPOOL_LOCK_FILE) && lock_one(stream, "lock");
}

static const char *text_of(yyjson_val *root, const char *key)
{
	const char *text = yyjson_get_str(yyjson_obj_get(root, key));

	return text ? text : "";
}

// Whether the kept identity is this machine's; unknown marks do not speak against it.
static bool is_own(yyjson_val *root)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	char hardware[STREAM_HARDWARE_SIZE];
	const char *kept = text_of(root, "hardware"), *machine_id = "";
	size_t kind;

	if (fs_read("/etc/machine-id", 63, &text) == 0 && text.data) {
		text.data[strcspn(text.data, "\r\n ")] = 0;
		machine_id = text.data;
	}
	stream_hardware("/sys", hardware);
	kind = strcspn(hardware, ":") + 1;
	return !strcmp(text_of(root, "machine_id"), machine_id) &&
	       (!*kept || !*hardware || strncmp(kept, hardware, kind) != 0 || !strcmp(kept, hardware));
}

static void show_json(yyjson_val *root, bool own)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	struct json json = json_to(&text);
	const char *token = text_of(root, "token"), *origin = text_of(root, "origin");
	const char *mark = text_of(root, "hardware");

	json_open_object(&json);
	json_put_string(&json, "host_id", text_of(root, "host_id"));
	json_put_bool(&json, "own", own);
	json_put_string(&json, "machine_id", text_of(root, "machine_id"));
	json_put_string(&json, "hardware", *mark ? mark : NULL);
	json_put_string(&json, "enrolled_at", *token ? origin : NULL);
	json_close_object(&json);
	json_end_line(&json);
	fwrite(text.data ? text.data : "", 1, text.length, stdout);
}

static int show(const char *path, bool as_json)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	yyjson_doc *document;
	yyjson_val *root;
	int result = fs_read(path, IDENTITY_MAX, &text);
	bool own;

	if (result == -ENOENT) {
		puts(as_json ? "{\"host_id\":null}" : "none yet: it is made when records are first delivered");
		return EXIT_NO;
	}
	if (result < 0) {
		fprintf(stderr, "tracer identity: %s: %s\n", path, strerror(-result));
		return EXIT_REFUSED;
	}
	document = yyjson_read(text.data ? text.data : "", text.length, 0);
	root = yyjson_doc_get_root(document);
	if (!*text_of(root, "host_id")) {
		fprintf(stderr, "tracer identity: %s: damaged; a new one is made when records are next delivered\n",
			path);
		yyjson_doc_free(document);
		return EXIT_NO;
	}
	own = is_own(root);
	if (as_json) {
		show_json(root, own);
	} else {
		printf("host_id   %s\n", text_of(root, "host_id"));
		printf("enrolled  %s\n", *text_of(root, "token") ? text_of(root, "origin") : "no");
		if (!own)
			puts("          of another machine: a new one is made when records are next delivered");
	}
	yyjson_doc_free(document);
	return own ? EXIT_OK : EXIT_NO;
}

static int reset(const struct collect_places *places, const char *path)
{
	if (!identity_lock(places)) {
		fputs("tracer identity: the collector or a streamer runs; stop it first\n", stderr);
		return EXIT_REFUSED;
	}
	if (unlink(path) < 0 && errno != ENOENT) {
		fprintf(stderr, "tracer identity: %s: %s\n", path, strerror(errno));
		return EXIT_REFUSED;
	}
	puts("forgotten: the next delivery makes a new host_id and enrols with the ingest token");
	return EXIT_OK;
}

int command_identity(int argc, char **argv)
{
	struct args args = args_of("identity", argc, argv);
	struct collect_places places = {0};
	const char *file = NULL, *word;
	char directory[4096], path[4200];
	bool json = false;
	int code;

	while (args_next(&args)) {
		if (args_is(&args, "config"))
			file = args.value;
		json |= args_is(&args, "json");
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	word = args.operand_count == 0 ? "show" : args.operands[0];
	if (args.operand_count > 1 || (strcmp(word, "show") != 0 && strcmp(word, "reset") != 0))
		return args_usage(&args, "give show or reset");
	code = collect_places_read("identity", file, &places);
	if (code == EXIT_OK) {
		identity_directory(&places, directory, sizeof(directory));
		snprintf(path, sizeof(path), "%s/" STREAM_IDENTITY_FILE, directory);
		code = !strcmp(word, "show") ? show(path, json) : reset(&places, path);
	}
	config_free(places.config);
	return code;
}
