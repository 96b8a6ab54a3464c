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
struct handover_offer;
struct bpf_object_skeleton;

enum { MODULE_LINKS_MAX = 32, MODULE_MEMORY_MAX = 4 };

enum module_state { MODULE_OFF, MODULE_RUNNING, MODULE_UNSUPPORTED, MODULE_FAILED };
const char *module_state_name(enum module_state state);

struct loaded_module {
	const struct module *module;
	enum module_state state;
	char why[MODULE_WHY_SIZE]; // one sentence when it does not run, or runs with something missing
	void *data; // module.state_size bytes
	struct module_host host;
	struct bpf_object_skeleton *skeleton; // NULL: has no programs
	struct module_link {
		const char *name; // of its program
		int fd; // -1: not attached
	} links[MODULE_LINKS_MAX];
	size_t link_count;
	struct module_memory {
		void *data;
		size_t size;
	} memory[MODULE_MEMORY_MAX]; // of maps that were taken over
	size_t memory_count;
	bool adopted; // maps and links are another image's, and the links this one's to close
};

enum { LOADED_MODULES_MAX = 8 };

struct loader {
	struct loaded_module modules[LOADED_MODULES_MAX];
	size_t count;
	int ring_lifecycle_fd, ring_detail_fd, ring_counts_fd, lost_totals_fd; // -1: no program was loaded
	int filter_config_fd, filter_rules_fd, filter_processes_fd;
	uint64_t hash; // of all programs and what they were told: equal means that maps and links can be taken over
	bool adopted; // they were
};

struct loader_options {
	uint64_t ring_bytes; // of the lifecycle ring, a power of two of at least a page
	const struct rules *filter; // NULL: none; their include and exclude part
	const struct cgroup_table *cgroups; // may be NULL
	const struct module_options *modules;
	const struct handover_offer *offer; // of the image before this one, whose hooks run; NULL: there is none
	bool tree; // record nothing but trees that loader_filter_process() names, from the first event on
};

// With an offer whose programs are the same as these, nothing is loaded: its maps and links are used from then on. With
// another one these are attached beside them. Either way modules are opened and not started, see loader_resume().
// 0 even when modules failed; -errno when proc does not run (the table still tells why).
int loader_start(struct loader *loader, const struct btf *btf, const struct host_env *env, struct agent *agent,
		 const struct loader_options *options);
// Detaches and releases. Usable on a half-started or zeroed loader.
void loader_stop(struct loader *loader);

// After an offer: modules go on (resumed: the process table holds what the image before this one knew) or start as if
// they were the first.
void loader_resume(struct loader *loader, bool resumed);

// Adds the modules, their maps and links to an offer; the descriptors stay the loader's.
void loader_offer(const struct loader *loader, struct handover_offer *offer);
// What the kernel's side of the image before this one had counted for each process goes into the own maps, where they
// have nothing yet. For hooks of its own: before these are attached, and again once the others are gone.
void loader_maps_merge(struct loader *loader, const struct handover_offer *offer);

// NULL when the module does not run.
struct loaded_module *loader_find(struct loader *loader, enum module_id id);
