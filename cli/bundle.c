// SPDX-License-Identifier: Apache-2.0
// `tracer bundle`: makes, lists and checks one. Making and checking are runs of the updater's own verifier in a
// directory that is thrown away, so a bundle that is made is one that a host takes.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/bundle.h"
#include "cli/command.h"
#include "cli/ui.h"
#include "cli/update.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"

static int refuse(int error, const char *what, const char *why)
{
	char safe[TUF_WHY_SIZE * 2], whole[TUF_WHY_SIZE];

	tuf_fail(whole, 0, "%s: %s", what, why);
	ui_escape(safe, sizeof(safe), whole);
	fprintf(stderr, "tracer bundle: %s\n", safe);
	return error == -EACCES || error == -EPERM ? EXIT_REFUSED : EXIT_NO;
}

// ---- a host for once -----------------------------------------------------------------------------------------------

struct host {
	char directory[PATH_MAX]; // "": none
	struct tuf_client client;
};

static int host_make(struct host *host)
{
	const char *place = getenv("TMPDIR");

	if ((size_t)snprintf(host->directory, sizeof(host->directory), "%s/tracer-bundle.XXXXXX",
			     place && *place ? place : "/tmp") >= sizeof(host->directory))
		return -ENAMETOOLONG;
	if (mkdtemp(host->directory))
		return 0;
	host->directory[0] = 0;
	return -errno;
}

static void host_end(struct host *host)
{
	DIR *listing;

	tuf_close(&host->client);
	if (!host->directory[0])
		return;
	listing = opendir(host->directory);
	for (struct dirent *entry; listing && (entry = readdir(listing));)
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(listing), entry->d_name, 0);
	if (listing)
		closedir(listing);
	rmdir(host->directory);
}

// What it has seen so far: the same as another host.
static int host_copy(const struct host *host, const char *from)
{
	for (int type = 0; type < TUF_TYPES; type++) {
		CLEANUP(buf_free) struct buf bytes = BUF_INIT;
		char path[PATH_MAX + 32];
		int result;

		snprintf(path, sizeof(path), "%s/%s.json", from, tuf_type_names[type]);
		result = fs_read(path, TUF_TARGETS_BYTES, &bytes);
		if (result == -ENOENT && type != TUF_ROOT)
			continue;
		snprintf(path, sizeof(path), "%s/%s.json", host->directory, tuf_type_names[type]);
		if (result == 0)
			result = fs_replace(path, bytes.data ? bytes.data : "", bytes.length, 0644);
		if (result < 0)
			return result;
	}
	return 0;
}

static int on_check(void *context, const void *data, size_t length)
{
	return tuf_check_add(context, data, length);
}

struct whole {
	struct host *host;
	struct update_source *source;
	size_t count;
	char *why;
};

// A target: its bytes are there and right.
static int check_target(void *context, yyjson_val *key, yyjson_val *value)
{
	struct whole *whole = context;
	char name[BUNDLE_NAME_SIZE] = "targets/";
	struct tuf_target target = {0};
	struct tuf_check check;
	int result;

	tuf_target_of(value, &target);
	result = tuf_target_url(&whole->host->client, &target, yyjson_get_str(key), name + 8, sizeof(name) - 8);
	if (result == 0)
		result = tuf_check_begin(target.length, target.hashes, &check);
	if (result == 0)
		result = update_source_get(whole->source, name, target.length, on_check, &check, whole->why);
	if (result == 0)
		result = tuf_check_end(&check);
	if (result < 0)
		return tuf_fail(whole->why, result, "%s: missing, or not what the metadata describes", name);
	whole->count++;
	return 0;
}

// ---- create ------------------------------------------------------------------------------------------------------

// A repository's directory as a source that remembers what was taken from it.
struct tree {
	const char *directory;
	int out; // where what is fetched is written to
};

static int tree_read(const char *directory, const char *name, uint64_t max, struct buf *out)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >= sizeof(path))
		return -ENAMETOOLONG;
	return fs_read(path, max, out);
}

static int tree_fetch(void *context, const char *name, uint64_t max, struct buf *out, char why[TUF_WHY_SIZE])
{
	const struct tree *tree = context;
	char whole[BUNDLE_NAME_SIZE];
	int result;

	snprintf(whole, sizeof(whole), "metadata/%s", name);
	result = tree_read(tree->directory, whole, max, out);
	if (result == 0)
		result = bundle_write_entry(tree->out, whole, out->length);
	if (result == 0)
		result = fs_write_all(tree->out, out->data ? out->data : "", out->length);
	if (result == 0)
		result = bundle_write_end(tree->out);
	return result < 0 ? tuf_fail(why, result, "%s: %s", whole, strerror(-result)) : 0;
}

// A target's file in the tree: names there are not quoted.
static void unquote(const char *name, char *out)
{
	for (; *name; name++) {
		unsigned char byte;

		if (*name == '%' && tuf_hex(name + 1, strnlen(name + 1, 2), &byte, 1)) {
			*out++ = (char)byte;
			name += 2;
		} else {
			*out++ = *name;
		}
	}
	*out = 0;
}

struct making {
	const char *directory;
	const struct host *host;
	int out;
	char *why;
	char *names[BUNDLE_ENTRIES_MAX]; // of targets in it: several roles may have the same file
	size_t count;
};

static void making_free(struct making **making)
{
	for (size_t i = 0; *making && i < (*making)->count; i++)
		free((*making)->names[i]);
	free(*making);
}

static bool is_in_it(const struct making *making, const char *name)
{
	for (size_t i = 0; i < making->count; i++)
		if (strcmp(making->names[i], name) == 0)
			return true;
	return false;
}

static int copy_target(void *context, yyjson_val *key, yyjson_val *value)
{
	struct making *making = context;
	char *why = making->why;
	char name[BUNDLE_NAME_SIZE] = "targets/", plain[BUNDLE_NAME_SIZE], path[PATH_MAX], data[16384];
	struct tuf_target target = {0};
	CLEANUP(cleanup_close) int in = -1;
	struct tuf_check check;
	ssize_t got = 0;
	int result;

	tuf_target_of(value, &target);
	result = tuf_target_url(&making->host->client, &target, yyjson_get_str(key), name + 8, sizeof(name) - 8);
	if (result < 0)
		return tuf_fail(why, result, "%s: the name is too long", yyjson_get_str(key));
	if (is_in_it(making, name))
		return 0;
	if (making->count == BUNDLE_ENTRIES_MAX || !(making->names[making->count] = strdup(name)))
		return tuf_fail(why, -E2BIG, "more than %d targets", BUNDLE_ENTRIES_MAX);
	making->count++;
	unquote(name, plain);
	if (strstr(plain, "/../") ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", making->directory, plain) >= sizeof(path))
		return tuf_fail(why, -EINVAL, "%s: no name of a file", plain);
	in = open(path, O_RDONLY | O_CLOEXEC);
	result = in < 0 ? -errno : tuf_check_begin(target.length, target.hashes, &check);
	if (result == 0)
		result = bundle_write_entry(making->out, name, target.length);
	while (result == 0 && (got = read(in, data, sizeof(data))) > 0) {
		result = tuf_check_add(&check, data, (size_t)got);
		if (result == 0)
			result = fs_write_all(making->out, data, (size_t)got);
	}
	if (result == 0)
		result = got < 0 ? -errno : tuf_check_end(&check);
	if (result == 0)
		result = bundle_write_end(making->out);
	return result < 0 ? tuf_fail(why, result, "%s: %s", plain,
				     result == -EBADMSG || result == -EFBIG ? "not what the metadata describes"
									    : strerror(-result))
			  : 0;
}

static int create_into(int out, const char *directory, struct host *host, char why[TUF_WHY_SIZE])
{
	CLEANUP(buf_free) struct buf root = BUF_INIT;
	struct tree tree = {directory, out};
	const struct tuf_source source = {tree_fetch, &tree};
	CLEANUP(making_free) struct making *making = calloc(1, sizeof(*making)); // too large for a stack
	int result = bundle_write_head(out);

	if (result < 0)
		return tuf_fail(why, result, "%s", strerror(-result));
	result = tree_fetch(&tree, "1.root.json", TUF_ROOT_BYTES, &root, why);
	if (result == 0)
		result = tuf_init(host->directory, root.data ? root.data : "", root.length, why);
	if (result < 0)
		return result;
	result = tuf_open(&host->client, host->directory, &source, time(NULL));
	if (result == 0)
		result = tuf_refresh(&host->client);
	if (result < 0) {
		memcpy(why, host->client.why, TUF_WHY_SIZE);
		return result;
	}
	if (!making)
		return tuf_fail(why, -ENOMEM, "out of memory");
	*making = (struct making){.directory = directory, .host = host, .out = out, .why = why};
	result = bundle_each_target(&host->client, copy_target, making, why);
	if (result < 0)
		return result;
	return fsync(out) < 0 ? tuf_fail(why, -errno, "%s", strerror(errno)) : 0;
}

static int create(const char *directory, const char *file)
{
	struct host host = {.client = {.lock_fd = -1}};
	char part[PATH_MAX], why[TUF_WHY_SIZE];
	int out, result = host_make(&host);

	if (result < 0)
		return refuse(result, "a temporary directory", strerror(-result));
	snprintf(part, sizeof(part), "%s.XXXXXX", file);
	out = mkostemp(part, O_CLOEXEC);
	if (out < 0) {
		host_end(&host);
		return refuse(-errno, file, strerror(errno));
	}
	result = create_into(out, directory, &host, why);
	host_end(&host);
	if (result == 0 && (fchmod(out, 0644) < 0 || rename(part, file) < 0))
		result = tuf_fail(why, -errno, "%s", strerror(errno));
	close(out);
	if (result < 0) {
		unlink(part);
		return refuse(result, directory, why);
	}
	return EXIT_OK;
}

// ---- inspect and verify --------------------------------------------------------------------------------------------

static int inspect(const char *file)
{
	struct bundle bundle;
	char why[BUNDLE_WHY_SIZE];
	int result = bundle_open(file, &bundle, why);

	if (result < 0)
		return refuse(result, file, why);
	for (size_t i = 0; i < bundle.count; i++)
		printf("%12llu  %s\n", (unsigned long long)bundle.entries[i].size, bundle.entries[i].name);
	bundle_close(&bundle);
	return EXIT_OK;
}

static int trust(const struct host *host, const char *directory, const char *root_file, char why[TUF_WHY_SIZE])
{
	CLEANUP(buf_free) struct buf root = BUF_INIT;
	int result = root_file ? fs_read(root_file, TUF_ROOT_BYTES, &root) : host_copy(host, directory);

	// A host that trusts nothing yet begins with what its program carries.
	if (!root_file && result == -ENOENT)
		return update_root_begin(host->directory, why);
	if (result < 0)
		return tuf_fail(why, result, "%s: %s", root_file ? root_file : directory, strerror(-result));
	return root_file ? tuf_init(host->directory, root.data ? root.data : "", root.length, why) : 0;
}

static int verify(const char *file, const char *directory, const char *root_file)
{
	struct update_source bytes = {.bundle = {.fd = -1}};
	const struct tuf_source source = {update_source_fetch, &bytes};
	struct host host = {.client = {.lock_fd = -1}};
	char why[TUF_WHY_SIZE];
	struct whole whole = {&host, &bytes, 0, why};
	int result = bundle_open(file, &bytes.bundle, why);

	if (result < 0)
		return refuse(result, file, why);
	result = host_make(&host);
	if (result < 0)
		tuf_fail(why, result, "a temporary directory: %s", strerror(-result));
	else
		result = trust(&host, directory, root_file, why);
	if (result == 0) {
		result = tuf_open(&host.client, host.directory, &source, time(NULL));
		if (result == 0)
			result = tuf_refresh(&host.client);
		if (result < 0)
			memcpy(why, host.client.why, sizeof(why));
	}
	if (result == 0)
		result = bundle_each_target(&host.client, check_target, &whole, why);
	if (result == 0)
		printf("root %llu, timestamp %llu, snapshot %llu, targets %llu; %zu targets, all as described\n",
		       (unsigned long long)host.client.trusted[TUF_ROOT].version,
		       (unsigned long long)host.client.trusted[TUF_TIMESTAMP].version,
		       (unsigned long long)host.client.trusted[TUF_SNAPSHOT].version,
		       (unsigned long long)host.client.trusted[TUF_TARGETS].version, whole.count);
	host_end(&host);
	bundle_close(&bytes.bundle);
	return result < 0 ? refuse(result, file, why) : EXIT_OK;
}

int command_bundle(int argc, char **argv)
{
	const char *directory = UPDATE_DIRECTORY, *root = NULL, *listen = "127.0.0.1:7080", *verb;
	struct args args = args_of("bundle", argc, argv);

	while (args_next(&args)) {
		if (args_is(&args, "metadata-dir"))
			directory = args.value;
		if (args_is(&args, "root"))
			root = args.value;
		if (args_is(&args, "listen"))
			listen = args.value;
	}
	if (args.exit_code >= 0)
		return args.exit_code;
	verb = args.operand_count > 0 ? args.operands[0] : "";
	if (strcmp(verb, "create") == 0 && args.operand_count == 3)
		return create(args.operands[1], args.operands[2]);
	if (strcmp(verb, "inspect") == 0 && args.operand_count == 2)
		return inspect(args.operands[1]);
	if (strcmp(verb, "verify") == 0 && args.operand_count == 2)
		return verify(args.operands[1], directory, root);
	if (strcmp(verb, "serve") == 0 && args.operand_count == 2)
		return bundle_serve(args.operands[1], listen);
	return args_usage(&args, "say create DIR FILE, inspect FILE, verify FILE or serve DIR");
}
