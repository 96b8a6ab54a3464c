// SPDX-License-Identifier: Apache-2.0
// Streamer: its cage. No user of the host's, no capability, no path but those it needs (Landlock), no system call but
// those it needs (core/privs_stream.c). Raw calls: the C library knows nothing of Landlock. What a kernel does not have
// is left out and said in the status.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/privs.h"
#include "core/stream_private.h"

// A number that distributions leave alone: not nobody's, whose files it could read.
#define SPARE_ID 65533

// <linux/landlock.h> of older headers lacks most of this.
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { LANDLOCK_VERSION_FLAG = 1, LANDLOCK_PATH_BENEATH = 1 };

#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_REG (1ULL << 8)
#define FS_FIRST ((1ULL << 13) - 1) // what version 1 handles
#define FS_REFER (1ULL << 13) // 2
#define FS_TRUNCATE (1ULL << 14) // 3
#define NET_BIND_TCP (1ULL << 0) // 4
#define FS_IOCTL_DEV (1ULL << 15) // 5
#define SCOPE_ALL 3ULL // 6: abstract sockets, signals

struct ruleset {
	uint64_t handled_fs, handled_net, scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

void stream_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *entry;

	*ret_uid = (uid_t)-1;
	*ret_gid = (gid_t)-1;
	if (geteuid() != 0)
		return;
	entry = getpwnam(name);
	*ret_uid = entry ? entry->pw_uid : SPARE_ID;
	*ret_gid = entry ? entry->pw_gid : SPARE_ID;
}

int stream_become(const struct stream_setup *setup)
{
	const struct privs_keep nothing = {0};

	// While it still may; what cannot be dropped is kept out of reach by no_new_privs.
	for (int capability = 0; capability < 64 && setup->uid != (uid_t)-1; capability++)
		(void)prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	if (setup->uid != (uid_t)-1 &&
	    (setgroups(0, NULL) < 0 || setresgid(setup->gid, setup->gid, setup->gid) < 0 ||
	     setresuid(setup->uid, setup->uid, setup->uid) < 0))
		return -errno;
	return privs_drop(&nothing);
}

static void allow(int ruleset, int fd, uint64_t access, uint64_t handled)
{
	struct path_beneath rule = {.allowed = access & handled, .parent_fd = fd};
	struct stat info;

	if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode))
		rule.allowed &= FS_READ_FILE | FS_WRITE_FILE;
	// One that is refused allows less, never more.
	syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PATH_BENEATH, &rule, 0);
}

static void allow_path(int ruleset, const char *path, uint64_t access, uint64_t handled)
{
	CLEANUP(cleanup_close) int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd >= 0)
		allow(ruleset, fd, access, handled);
}

// The folder a file really lies in, as it is often replaced whole; of /etc only the file itself.
static void allow_file(int ruleset, const char *path, uint64_t handled)
{
	char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;

	allow_path(ruleset, path, FS_READ_FILE, handled);
	if (slash && slash != real) {
		*slash = 0;
		if (strcmp(real, "/etc") != 0)
			allow_path(ruleset, real, FS_READ_FILE, handled);
	}
	free(real);
}

static uint64_t landlock(const struct stream_setup *setup)
{
	static const char *const resolver[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/services"};
	const uint64_t own = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_REMOVE_FILE |
			     FS_MAKE_REG | FS_TRUNCATE;
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);
	struct ruleset rules = {.handled_fs = FS_FIRST};
	size_t size = sizeof(rules.handled_fs);
	CLEANUP(cleanup_close) int fd = -1;

	if (version < 1)
		return 0;
	rules.handled_fs |= version >= 2 ? FS_REFER : 0;
	rules.handled_fs |= version >= 3 ? FS_TRUNCATE : 0;
	rules.handled_fs |= version >= 5 ? FS_IOCTL_DEV : 0;
	if (version >= 4) {
		rules.handled_net = NET_BIND_TCP;
		size += sizeof(rules.handled_net);
	}
	if (version >= 6) {
		rules.scoped = SCOPE_ALL;
		size += sizeof(rules.scoped);
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
	if (fd < 0)
		return 0;
	allow(fd, setup->spool_fd, FS_READ_FILE | FS_READ_DIR, rules.handled_fs);
	allow(fd, setup->cursor_fd, own, rules.handled_fs);
	allow(fd, setup->state_fd, own, rules.handled_fs);
	if (setup->ca_path[0])
		allow_file(fd, setup->ca_path, rules.handled_fs);
	allow_path(fd, "/dev/random", FS_READ_FILE, rules.handled_fs); // where mbedTLS looks
	allow_path(fd, "/dev/urandom", FS_READ_FILE, rules.handled_fs);
	for (size_t i = 0; i < sizeof(resolver) / sizeof(resolver[0]); i++)
		allow_file(fd, resolver[i], rules.handled_fs);
	return syscall(SYS_landlock_restrict_self, fd, 0) == 0 ? (uint64_t)version : 0;
}

int stream_confine(const struct stream_setup *setup, uint64_t *ret_landlock, uint64_t *ret_seccomp)
{
	int result;

	*ret_landlock = *ret_seccomp = 0;
	if (!setup->options->sandbox)
		return 0;
	*ret_landlock = landlock(setup);
	result = privs_seccomp(PRIVS_STREAM);
	*ret_seccomp = result == 0;
	return result == -ENOSYS || result == -ENOTSUP ? 0 : result;
}
