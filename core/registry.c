// SPDX-License-Identifier: Apache-2.0
// The module table, and the only place in core/ that names a module.
#include "core/module.h"

extern const struct module module_proc, module_sched, module_mem, module_io, module_net, module_gpu;

const struct module *const modules[] = {
	&module_proc, &module_sched, &module_mem, &module_io, &module_net, &module_gpu, NULL,
};
