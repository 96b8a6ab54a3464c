// SPDX-License-Identifier: Apache-2.0
// Questions to the running kernel, answered by its BTF and its files, never by its version.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/cgroup.h"
#include "core/module.h"

struct btf;

// The kernel's own BTF. Caller frees with btf__free(). -errno when there is none.
int probe_btf(struct btf **ret_btf);

// Fills env. btf may be NULL.
void probe_host(const struct btf *btf, const struct cgroup_table *cgroups, struct host_env *ret_env);

// A raw tracepoint of this name exists, and passes this many arguments at least.
bool probe_tracepoint(const struct btf *btf, const char *name, uint32_t arguments);
