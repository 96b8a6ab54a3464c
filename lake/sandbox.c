// SPDX-License-Identifier: Apache-2.0
// Landlock by raw calls, as the C library knows nothing of it. Rights that a kernel does not know yet are left out;
// a path that cannot be opened allows nothing. It must be called before threads are started: it holds for the
// caller and who comes after.

#include "lake/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { VERSION_FLAG = 1, PATH_BENEATH = 1, DIRECTORIES = 2, FILES = 3 };

// <linux/landlock.h> of older headers lacks some of these.
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_REMOVE_DIR (1ULL << 4)
#define FS_REMOVE_FILE (1ULL << 5)
#define FS_MAKE_DIR (1ULL << 7)
#define FS_MAKE_REG (1ULL << 8)
#define FS_FIRST ((1ULL << 13) - 1) // what version 1 handles
#define FS_REFER (1ULL << 13) // version 2
#define FS_TRUNCATE (1ULL << 14) // 3
#define FS_IOCTL_DEV (1ULL << 15) // 5

#define OWN                                                                                                        \
	(FS_WRITE_FILE | FS_READ_FILE | FS_READ_DIR | FS_REMOVE_DIR | FS_REMOVE_FILE | FS_MAKE_DIR | FS_MAKE_REG | \
	 FS_TRUNCATE)

struct path_beneath {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

static void allow(int ruleset, const char *path, uint64_t access, uint64_t handled)
{
	CLEANUP(cleanup_close) int fd = open(path, O_PATH | O_CLOEXEC);
	struct path_beneath rule = {.allowed = access & handled, .parent_fd = fd};
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0)
		return;
	if (!S_ISDIR(info.st_mode))
		rule.allowed &= FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
	// One that is refused allows less, never more.
	syscall(SYS_landlock_add_rule, ruleset, PATH_BENEATH, &rule, 0);
}

static void allow_file(int ruleset, const char *path, uint64_t handled)
{
	CLEANUP(cleanup_free) char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;

	allow(ruleset, path, FS_READ_FILE, handled);
	if (!slash || slash == folder)
		return;
	*slash = 0;
	// Of /etc and /tmp only the file itself.
	if (strcmp(folder, "/etc") != 0 && strcmp(folder, "/tmp") != 0)
		allow(ruleset, folder, FS_READ_FILE, handled);
}

int sandbox_files(const char *const directories[2], const char *const files[3])
{
	// A store behind a network is found by its name; mbedTLS seeds itself anew now and then.
	static const char *const always[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/services", "/dev/random",
					     "/dev/urandom"};
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
	uint64_t handled = FS_FIRST;
	CLEANUP(cleanup_close) int ruleset = -1;

	if (version < 1)
		return version < 0 ? -errno : -ENOSYS;
	handled |= version >= 2 ? FS_REFER : 0;
	handled |= version >= 3 ? FS_TRUNCATE : 0;
	handled |= version >= 5 ? FS_IOCTL_DEV : 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
	if (ruleset < 0)
		return -errno;
	for (int i = 0; i < DIRECTORIES; i++)
		if (directories[i] && *directories[i])
			allow(ruleset, directories[i], OWN, handled);
	for (int i = 0; i < FILES; i++)
		if (files[i] && *files[i])
			allow_file(ruleset, files[i], handled);
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		allow(ruleset, always[i], FS_READ_FILE, handled);
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}
