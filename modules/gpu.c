// SPDX-License-Identifier: Apache-2.0
// The gpu module's place in the table: it says that this build does not have it, so that status shows what is
// missing.
#include <errno.h>
#include <stdio.h>

#include "core/module.h"

static int gpu_supported(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	(void)env;
	snprintf(why, MODULE_WHY_SIZE, "not built yet");
	return -ENOSYS;
}

static int gpu_open(void *state, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton)
{
	(void)state;
	(void)host;
	(void)ret_skeleton;
	return -ENOSYS;
}

static void gpu_close(void *state)
{
	(void)state;
}

const struct module module_gpu = {
	.name = "gpu",
	.id = MODULE_GPU,
	.summary = "who holds a GPU, its use and memory",
	.supported = gpu_supported,
	.open = gpu_open,
	.close = gpu_close,
};
