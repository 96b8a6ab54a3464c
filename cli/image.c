// SPDX-License-Identifier: Apache-2.0
// `tracer image prepare`: takes out of a disk what makes a host that host, so that clones of it are hosts of their own:
// identity and agent token, records, the keys and certificates of this machine. Configuration and the ingest token,
// with which clones enrol, stay. Follows no link.

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/datalake.h"
#include "cli/identity.h"
#include "core/base/fs.h"
#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/config.h"

static struct {
	bool dry;
	unsigned found, failed;
} image; // of one walk: nftw() hands nothing on

static void gone(const char *path)
{
	struct stat info;

	if (!*path || (lstat(path, &info) < 0 && errno == ENOENT))
		return;
	image.found++;
	printf("%s %s\n", image.dry ? "would remove" : "removed", path);
	if (!image.dry && remove(path) < 0) {
		image.failed++;
		fprintf(stderr, "tracer image: %s: %s\n", path, strerror(errno));
	}
}

static int on_spool_file(const char *path, const struct stat *info, int type, struct FTW *walk)
{
	(void)info;
	// The folder itself stays: it may be a mount of its own.
	if (walk->level > 0 && type != FTW_DNR)
		gone(path);
	return 0;
}

static void below(const char *directory, const char *const *names)
{
	char path[4200];

	for (; *directory && *names; names++) {
		snprintf(path, sizeof(path), "%s/%s", directory, *names);
		gone(path);
	}
}

// A machine id that every clone shares is no longer ours to change, but worth a word.
static void machine_id_tell(void)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	if (fs_read("/etc/machine-id", 63, &text) == 0 && text.length > 1 &&
	    strncmp(text.data, "uninitialized", 13) != 0)
		puts("/etc/machine-id is set: empty it last (truncate -s 0 /etc/machine-id), so that each clone gets "
		     "its own");
}

static int prepare(const char *file, const char *lake)
{
	static const char *const state_names[] = {"identity", "identity.new", "quarantine.ndjson", NULL};
	static const char *const lake_names[] = {"tokens", "tokens.key", "tls.crt", "tls.key", NULL};
	struct collect_places places = {0};
	int code = collect_places_read("image", file, &places);

	if (code == EXIT_OK && !image.dry && !identity_lock(&places)) {
		fputs("tracer image: the collector or a streamer runs; stop it first\n", stderr);
		code = EXIT_REFUSED;
	}
	if (code == EXIT_OK) {
		nftw(places.spool, on_spool_file, 16, FTW_DEPTH | FTW_PHYS);
		below(places.state, state_names);
		gone(places.client_cert);
		gone(places.client_key);
		below(lake, lake_names);
		if (!image.found)
			puts("nothing of this host's identity is here");
		machine_id_tell();
		code = image.failed ? EXIT_NO : EXIT_OK;
	}
	config_free(places.config);
	return code;
}

int command_image(int argc, char **argv)
{
	struct args args = args_of("image", argc, argv);
	const char *file = NULL, *lake = DATALAKE_STATE;

	while (args_next(&args)) {
		if (args_is(&args, "config"))
			file = args.value;
		if (args_is(&args, "lake"))
			lake = args.value;
		image.dry |= args_is(&args, "dry-run");
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count != 1 || strcmp(args.operands[0], "prepare") != 0)
		return args_usage(&args, "give prepare");
	return prepare(file, lake);
}
