// SPDX-License-Identifier: Apache-2.0
// The datalake's system calls: connections it accepts, the files of its store and state, threads; and, for a store
// behind a network, connections it makes.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/privs_profile.h"

static const int allowed[] = {
	PRIVS_ALLOWED_TO_ALL
	PRIVS_ALLOWED_TO_A_KEEPER
	PRIVS_ALLOWED_TO_A_PEER
	-1,
};

static const int deadly[] = {
	PRIVS_DEADLY_TO_ALL
	PRIVS_DEADLY_WITHOUT_BPF
	-1,
};

static const struct privs_checked checked[] = {
	PRIVS_CHECKED_OF_A_PEER
	{SYS_prctl, 0, ~0U, 2, {PR_SET_NAME, PR_GET_NAME}},
	{.number = -1},
};

const struct privs_tables privs_tables_datalake = {allowed, checked, deadly, false};
