// SPDX-License-Identifier: Apache-2.0
// The net module's place in the table: it says that this build does not have it, so that status shows what is
// missing.
#include <errno.h>
#include <stdio.h>

#include "core/module.h"

static int net_supported(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	(void)env;
	snprintf(why, MODULE_WHY_SIZE, "not built yet");
	return -ENOSYS;
}

static int net_open(void *state, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton)
{
	(void)state;
	(void)host;
	(void)ret_skeleton;
	return -ENOSYS;
}

static void net_close(void *state)
{
	(void)state;
}

const struct module module_net = {
	.name = "net",
	.id = MODULE_NET,
	.summary = "connections, bytes and retransmits of a process",
	.supported = net_supported,
	.open = net_open,
	.close = net_close,
};
