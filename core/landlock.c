// SPDX-License-Identifier: Apache-2.0
// Landlock: what the streamer and the datalake may touch. Which paths those are is theirs to say; here are the kernel's
// numbers and what each of its versions knows.
#include "core/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"

// <linux/landlock.h> of older headers lacks most of this.
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { VERSION_FLAG = 1, PATH_BENEATH = 1 };

#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REMOVE_DIR (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_DIR (1ULL << 7)
#define FS_MAKE_REG (1ULL << 8)
#define FS_MAKE_SYM (1ULL << 12)
#define FS_FIRST ((1ULL << 13) - 1) // what version 1 handles
#define FS_REFER (1ULL << 13) // 2
#define FS_TRUNCATE (1ULL << 14) // 3
#define NET_BIND_TCP (1ULL << 0) // 4
#define FS_IOCTL_DEV (1ULL << 15) // 5
#define SCOPE_ALL 3ULL // 6: abstract sockets, signals

#define FS_OWN \
	(FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | \
	 FS_TRUNCATE)

static const uint64_t rights[] = {
	[LANDLOCK_FILES] = FS_READ_FILE,
	[LANDLOCK_READ] = FS_READ_FILE | FS_READ_DIR,
	[LANDLOCK_OWN] = FS_OWN,
	[LANDLOCK_INSTALL] = FS_OWN | FS_MAKE_SYM,
};

struct ruleset {
	uint64_t handled_fs, handled_net, scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

int landlock_begin(bool outward, struct landlock *ret_landlock)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
	struct ruleset rules = {.handled_fs = FS_FIRST};
	size_t size = sizeof(rules.handled_fs);
	int fd;

	if (version < 1)
		return version < 0 ? -errno : -ENOSYS;
	rules.handled_fs |= version >= 2 ? FS_REFER : 0;
	rules.handled_fs |= version >= 3 ? FS_TRUNCATE : 0;
	rules.handled_fs |= version >= 5 ? FS_IOCTL_DEV : 0;
	if (outward && version >= 4) {
		rules.handled_net = NET_BIND_TCP;
		size = offsetof(struct ruleset, scoped);
	}
	if (outward && version >= 6) {
		rules.scoped = SCOPE_ALL;
		size = sizeof(rules);
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
	if (fd < 0)
		return -errno;
	*ret_landlock = (struct landlock){.fd = fd, .version = (int)version, .handled = rules.handled_fs};
	return 0;
}

void landlock_allow(struct landlock *landlock, int fd, enum landlock_access access)
{
	struct path_beneath rule = {.allowed = rights[access] & landlock->handled, .parent_fd = fd};
	struct stat info;

	if (fstat(fd, &info) < 0)
		return;
	if (!S_ISDIR(info.st_mode))
		rule.allowed &= FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
	// One that is refused allows less, never more.
	syscall(SYS_landlock_add_rule, landlock->fd, PATH_BENEATH, &rule, 0);
}

void landlock_allow_path(struct landlock *landlock, const char *path, enum landlock_access access)
{
	CLEANUP(cleanup_close) int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd >= 0)
		landlock_allow(landlock, fd, access);
}

void landlock_allow_file(struct landlock *landlock, const char *path)
{
	CLEANUP(cleanup_free) char *real = realpath(path, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;

	landlock_allow_path(landlock, path, LANDLOCK_FILES);
	if (!slash || slash == real)
		return;
	*slash = 0;
	if (strcmp(real, "/etc") != 0 && strcmp(real, "/tmp") != 0)
		landlock_allow_path(landlock, real, LANDLOCK_FILES);
}

void landlock_allow_network(struct landlock *landlock)
{
	static const char *const files[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/services"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		landlock_allow_file(landlock, files[i]);
	landlock_allow_path(landlock, "/dev/random", LANDLOCK_FILES); // where mbedTLS looks
	landlock_allow_path(landlock, "/dev/urandom", LANDLOCK_FILES);
}

int landlock_enforce(struct landlock *landlock)
{
	int result = syscall(SYS_landlock_restrict_self, landlock->fd, 0) < 0 ? -errno : 0;

	close(landlock->fd);
	landlock->fd = -1;
	return result;
}
