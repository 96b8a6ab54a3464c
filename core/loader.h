// SPDX-License-Identifier: Apache-2.0
// From table entries to running programs: asks each module whether it can, opens its skeleton, shares the rings and
// the filter between them, loads, attaches. A module that fails is kept with its reason; the others go on.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cgroup.h"
#include "core/module.h"
#include "core/module_options.h"
#include "core/rules.h"

struct btf;
struct bpf_object_skeleton;

enum module_state { MODULE_OFF, MODULE_RUNNING, MODULE_UNSUPPORTED, MODULE_FAILED };
const char *module_state_name(enum module_state state);

struct loaded_module {
	const struct module *module;
	enum module_state state;
	char why[MODULE_WHY_SIZE]; // one sentence when it does not run, or runs with something missing
	void *data; // module.state_size bytes
	struct module_host host;
	struct bpf_object_skeleton *skeleton; // NULL: has no programs
};

enum { LOADED_MODULES_MAX = 8 };

struct loader {
	struct loaded_module modules[LOADED_MODULES_MAX];
	size_t count;
	int ring_lifecycle_fd, ring_detail_fd, ring_counts_fd, lost_totals_fd; // -1: no program was loaded
	int filter_config_fd, filter_rules_fd, filter_processes_fd;
};

struct loader_options {
	uint64_t ring_bytes; // of the lifecycle ring, a power of two of at least a page
	const struct rules *filter; // NULL: none; their include and exclude part
	const struct cgroup_table *cgroups; // may be NULL
	const struct module_options *modules;
	bool tree; // record nothing but trees that loader_filter_process() names, from the first event on
};

// 0 even when modules failed; -errno when proc does not run (the table still tells why).
int loader_start(struct loader *loader, const struct btf *btf, const struct host_env *env, struct agent *agent,
		 const struct loader_options *options);
// Detaches and releases. Usable on a half-started or zeroed loader.
void loader_stop(struct loader *loader);

// NULL when the module does not run.
struct loaded_module *loader_find(struct loader *loader, enum module_id id);
