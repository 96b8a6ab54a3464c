// SPDX-License-Identifier: Apache-2.0
// Which processes the kernel records, as maps that its programs read at fork and exec: the include and exclude
// entries of
// the rules for a whole host, or one tree. A process keeps its policy until its end and its children inherit it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/cgroup.h"
#include "core/loader.h"
#include "core/rules.h"

// Replaces the entries by those of rules (NULL: none). With an include of any kind nothing else is recorded; without
// entries, everything. cgroups may be NULL. 0; -ENOSPC: more entries than the map takes; -errno.
int filter_apply(struct loader *loader, const struct rules *rules, const struct cgroup_table *cgroups);

// A cgroup was made: entries for a path hold for all below it.
int filter_cgroup_made(struct loader *loader, const struct rules *rules, uint64_t id, const char *path);

// What already ran has its policies: the live iterator gives no more.
void filter_seeded(struct loader *loader);

// Nothing but the trees that filter_process() names.
int filter_tree(int config_fd);
// Records a process and what it forks from now on, or leaves it to the default again.
int filter_process(struct loader *loader, uint32_t pid, bool include);
