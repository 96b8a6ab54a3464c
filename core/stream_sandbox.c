// SPDX-License-Identifier: Apache-2.0
// Streamer: its cage. No user of the host's, no capability, no path but those it needs (Landlock), no system call but
// those it needs (core/privs_stream.c). What a kernel does not have is left out and said in the status.
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/landlock.h"
#include "core/privs.h"
#include "core/stream_private.h"

// A number that distributions leave alone: not nobody's, whose files it could read.
#define SPARE_ID 65533

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

static uint64_t landlock(const struct stream_setup *setup)
{
	struct landlock cage;

	if (landlock_begin(true, &cage) < 0)
		return 0;
	landlock_allow(&cage, setup->spool_fd, LANDLOCK_READ);
	landlock_allow(&cage, setup->cursor_fd, LANDLOCK_OWN);
	landlock_allow(&cage, setup->state_fd, LANDLOCK_OWN);
	if (setup->ca_path[0])
		landlock_allow_file(&cage, setup->ca_path);
	landlock_allow_network(&cage);
	return landlock_enforce(&cage) == 0 ? (uint64_t)cage.version : 0;
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
