// SPDX-License-Identifier: Apache-2.0
// `tracer datalake`: its options, and what follows from them: where it listens, where its state lies, as whom it runs.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/datalake.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "lake/server.h"

#define AT(member) offsetof(struct datalake_options, member)
#define DAYS(n) ((n) * 86400ULL * 1000000000ULL)

// A number that distributions leave alone: not nobody's, whose files it could read.
#define SPARE_ID 65533

const struct option_spec datalake_option_specs[] = {
	{"listen", OPTION_LIST, AT(listen), "127.0.0.1:7070", 0, 0,
	 "Addresses to listen on, ADDRESS:PORT or [ADDRESS]:PORT; more by commas"},
	{"store", OPTION_STRING, AT(store), "sqlite:" DATALAKE_STATE, 0, 0,
	 "Where rows are kept: sqlite:DIR or clickhouse://USER@HOST:PORT/DATABASE"},
	{"state", OPTION_STRING, AT(state), "", 0, 0,
	 "Directory of tokens and the certificate; \"\": the store's, or " DATALAKE_STATE},
	{"user", OPTION_STRING, AT(user), "tracer", 0, 0,
	 "User to become when started as root; a number nobody has where there is no such user"},
	{"tls", OPTION_STRING, AT(tls), "auto", 0, 0,
	 "on: everywhere, on loopback too; auto: plain HTTP on loopback, TLS elsewhere"},
	{"tls_certificate", OPTION_STRING, AT(tls_certificate), "", 0, 0,
	 "PEM file of your own certificate and its chain; \"\": one is made"},
	{"tls_key", OPTION_STRING, AT(tls_key), "", 0, 0, "PEM file of its key"},
	{"tls_client_ca", OPTION_STRING, AT(tls_client_ca), "", 0, 0,
	 "PEM file: only clients with a certificate of this authority may connect by TLS"},
	{"hosts", OPTION_LIST, AT(hosts), "", 0, 0,
	 "Further names and addresses of this machine, for the certificate and the Host header"},
	{"log_level", OPTION_STRING, AT(log_level), "info", 0, 0,
	 "Least severe messages to write: error, warn, info or debug"},
	{"readers", OPTION_U64, AT(readers), "4", 1, 64, "Threads that answer questions"},
	{"decoders", OPTION_U64, AT(decoders), "2", 1, 64, "Threads that check and decode batches"},
	{"connections", OPTION_U64, AT(connections), "16384", 16, 1000000, "Most connections at once"},
	{"idle", OPTION_DURATION, AT(idle_ns), "5m", 1000000000, 86400000000000,
	 "How long a connection may rest between requests"},
	{"keep_processes", OPTION_DURATION, AT(keep_processes_ns), "90d", 0, DAYS(36500),
	 "How long processes are kept; 0s: for ever"},
	{"keep_points", OPTION_DURATION, AT(keep_points_ns), "7d", 0, DAYS(36500),
	 "How long samples are kept as they came; 0s: for ever"},
	{"keep_runs", OPTION_DURATION, AT(keep_runs_ns), "0s", 0, DAYS(36500),
	 "How long runs, tasks and other sums are kept; 0s: for ever"},
	{"store_bytes", OPTION_BYTES, AT(store_bytes), "0", 0, 1ULL << 50,
	 "Largest size of the store, the oldest goes first; 0: no limit"},
	{"updates", OPTION_STRING, AT(updates), "", 0, 0,
	 "Directory with metadata/ and targets/ of releases and rules, for hosts at /updates/; \"\": none"},
	{"otlp_endpoint", OPTION_STRING, AT(otlp_endpoint), "", 0, 0,
	 "OpenTelemetry collector to push metrics and ended runs to, such as http://127.0.0.1:4318; \"\": none"},
	{"otlp_ca_file", OPTION_STRING, AT(otlp_ca_file), "", 0, 0,
	 "Authorities its certificate is checked with, PEM; \"\": the system's"},
	{"otlp_header_file", OPTION_STRING, AT(otlp_header_file), "", 0, 0,
	 "Headers for it, \"Name: value\" a line, in a file that only its owner may read; \"\": none"},
	{"otlp_interval", OPTION_DURATION, AT(otlp_interval_ns), "30s", 1000000000, 86400000000000,
	 "How often, and how long an ended run has to stand still"},
	{"sandbox", OPTION_BOOL, AT(sandbox), "true", 0, 0,
	 "Confine files (Landlock) and system calls (seccomp) once everything is open"},
	{0},
};

const struct option_table *command_datalake_options(void)
{
	static const struct option_table tables[] = {{"", datalake_option_specs, NULL}, {0}};

	return tables;
}

// TRACER_DATALAKE_LISTEN is given on as TRACER_LISTEN: other commands have variables of their own.
static int environment_load(struct config *config, char error[CONFIG_ERROR_SIZE])
{
	static const char prefix[] = "TRACER_DATALAKE_";
	int result = 0;

	for (char **at = environ; *at && !result; at++) {
		CLEANUP(cleanup_free) char *own = NULL;
		char *one[] = {NULL, NULL};

		if (strncmp(*at, prefix, sizeof(prefix) - 1) != 0 || !strncmp(*at, "TRACER_DATALAKE_CONFIG=", 23))
			continue;
		if (asprintf(&own, "TRACER_%s", *at + sizeof(prefix) - 1) < 0) {
			own = NULL;
			return -ENOMEM;
		}
		one[0] = own;
		result = config_load_environment(config, one, error);
	}
	return result;
}

int datalake_config_read(struct args *args, struct config *config, const char *file)
{
	char error[CONFIG_ERROR_SIZE] = "";
	const char *from_environment = getenv("TRACER_DATALAKE_CONFIG");
	const char *path = file ? file : from_environment ? from_environment : DATALAKE_FILE;
	int result = config_load_file(config, path, file || from_environment, error);

	if (!result)
		result = environment_load(config, error);
	if (result < 0) {
		fprintf(stderr, "tracer %s: %s\n", args->command->name, error);
		return EXIT_USAGE;
	}
	return EXIT_OK;
}

const char *datalake_store_directory(const struct datalake_options *options)
{
	return strncmp(options->store, "sqlite:", 7) ? NULL : options->store + 7;
}

static int fail(const char *what, int result)
{
	fprintf(stderr, "tracer datalake: %s: %s\n", what, strerror(-result));
	return result;
}

static int become(uid_t uid, gid_t gid, const char *name)
{
	int parent_death = 0;

	if (initgroups(name, gid) < 0 && setgroups(0, NULL) < 0)
		return -errno;
	prctl(PR_GET_PDEATHSIG, &parent_death);
	if (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	// With the user the kernel forgets that who started us wants us to end with it.
	prctl(PR_SET_PDEATHSIG, parent_death);
	return 0;
}

// Root's files in a directory of root's, of an earlier start as root, say: given to the user with it. Nobody else could
// have put one there. -EBUSY: a server works with them.
static int files_give(int fd, uid_t uid, gid_t gid)
{
	CLEANUP(cleanup_close) int lock = openat(fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct dirent *entry;
	struct stat info;
	DIR *directory;
	int result = 0;

	if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0)
		return -EBUSY;
	directory = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!directory)
		return -errno;
	while (!result && (entry = readdir(directory))) {
		if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
		    info.st_uid == 0 && info.st_nlink == 1 &&
		    fchownat(fd, entry->d_name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
			result = -errno;
	}
	closedir(directory);
	return result;
}

// Makes a directory that only its user may look into. Given to the user, with what is in it, when it is root's.
static int directory_make(const char *path, uid_t uid, gid_t gid)
{
	CLEANUP(cleanup_close) int fd = -1;
	int result = fs_make_directories(path, 0700);
	struct stat info;

	if (result < 0)
		return fail(path, result);
	if (uid == (uid_t)-1)
		return 0;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &info) < 0)
		return fail(path, -errno);
	// Root without capabilities reads no more of another user's files than anyone.
	if (info.st_uid != uid && uid == 0) {
		fprintf(stderr,
			"tracer datalake: %s: belongs to user number %u, not to root: leave --user away, or chown it\n",
			path, (unsigned int)info.st_uid);
		return -EACCES;
	}
	if (info.st_uid != 0 || uid == 0)
		return 0;
	if (!(info.st_mode & 022))
		result = files_give(fd, uid, gid);
	if (result == -EBUSY)
		fprintf(stderr, "tracer datalake: %s: another tracer datalake has this lake open, as root\n", path);
	else if (result < 0 || fchown(fd, uid, gid) < 0)
		return fail(path, result < 0 ? result : -errno);
	return result;
}

int datalake_path_fix(char **path)
{
	char here[PATH_MAX], *whole;

	if (!*path || !**path || **path == '/')
		return 0;
	if (!getcwd(here, sizeof(here)))
		return -errno;
	if (asprintf(&whole, "%s/%s", here, *path) < 0)
		return -ENOMEM;
	free(*path);
	*path = whole;
	return 0;
}

// The user cannot get to its own directory from the root, below a home directory of root's, say: it goes there while we
// still can, and names it from within.
static int enter(struct datalake_options *options)
{
	char **const paths[] = {&options->tls_certificate, &options->tls_key, &options->tls_client_ca,
				&options->otlp_ca_file, &options->updates};
	const char *store = datalake_store_directory(options);
	bool both = store && !strcmp(store, options->state);
	char *state, *url;
	int result = 0;

	if (store && !both) {
		fprintf(stderr, "tracer datalake: %s: the user %s cannot get to it: let it through, or keep state and "
				"store in one directory\n", options->state, options->user);
		return -EACCES;
	}
	for (size_t i = 0; !result && i < sizeof(paths) / sizeof(paths[0]); i++)
		result = datalake_path_fix(paths[i]);
	if (result < 0 || chdir(options->state) < 0)
		return fail(options->state, result < 0 ? result : -errno);
	state = strdup(".");
	url = strdup(both ? "sqlite:." : options->store);
	if (!state || !url) {
		free(state);
		free(url);
		return fail(options->state, -ENOMEM);
	}
	free(options->state);
	free(options->store);
	options->state = state;
	options->store = url;
	return 0;
}

// Whether others than root may go through every directory above path.
static bool path_is_open(const char *path)
{
	char above[PATH_MAX];
	struct stat info;

	if (!realpath(path, above))
		return true;
	for (char *slash = strrchr(above, '/'); slash; slash = strrchr(above, '/')) {
		*slash = 0;
		if (stat(*above ? above : "/", &info) == 0 && !(info.st_mode & 1))
			return false;
	}
	return true;
}

int datalake_become(struct datalake_options *options)
{
	const char *store = datalake_store_directory(options);
	const struct passwd *entry = getpwnam(options->user);
	uid_t uid = geteuid() ? (uid_t)-1 : entry ? entry->pw_uid : SPARE_ID;
	gid_t gid = entry ? entry->pw_gid : SPARE_ID;
	int result = directory_make(options->state, uid, gid);

	if (!result && store)
		result = directory_make(store, uid, gid);
	if (result < 0 || uid == (uid_t)-1)
		return result;
	if (uid != 0 && !path_is_open(options->state)) {
		result = enter(options);
		if (result < 0)
			return result;
	}
	result = become(uid, gid, options->user);
	return result < 0 ? fail(options->user, result) : 0;
}

// A lake that root keeps as root stays root's: a command does not take it from a server that was started so.
static bool keeps_root(const char *state)
{
	static const char *const names[] = {"tokens.key", "lake.db"};
	char path[PATH_MAX];
	struct stat info;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%.4000s/%s", state, names[i]);
		if (lstat(path, &info) == 0 && info.st_uid == 0)
			return true;
	}
	return false;
}

int datalake_become_owner(struct datalake_options *options)
{
	struct stat info;
	int result = 0;

	if (geteuid() != 0)
		return 0;
	// Before the first start of the server there is none yet.
	if (stat(options->state, &info) < 0 || (info.st_uid == 0 && !keeps_root(options->state)))
		return datalake_become(options);
	if (info.st_uid == 0)
		return 0;
	if (!path_is_open(options->state))
		result = enter(options);
	if (result < 0)
		return result;
	if (setgroups(0, NULL) < 0 || setresgid(info.st_gid, info.st_gid, info.st_gid) < 0 ||
	    setresuid(info.st_uid, info.st_uid, info.st_uid) < 0)
		return fail(options->state, -errno);
	return 0;
}

struct store_retention datalake_retention(const struct datalake_options *options)
{
	const uint64_t second = 1000000000;

	return (struct store_retention){.processes_s = options->keep_processes_ns / second,
					.points_s = options->keep_points_ns / second,
					.aggregates_s = options->keep_runs_ns / second,
					.bytes_max = options->store_bytes};
}

void datalake_url(const struct datalake_options *options, char *out, size_t size)
{
	const char *address = options->listen && options->listen[0] ? options->listen[0] : "127.0.0.1:7070";
	bool plain = strcmp(options->tls, "on") != 0 && server_address_is_loopback(address);

	snprintf(out, size, "%s://%s", plain ? "http" : "https", address);
}
