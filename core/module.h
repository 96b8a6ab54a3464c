// SPDX-License-Identifier: Apache-2.0
// A module is an entry in the table of registry.c: no main, no loop, no printing, no allocation of its own. Core
// loads and attaches its BPF skeleton, hands it its ring records and calls it on the tick. Functions that may be
// NULL say so. All return 0 or -errno.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/event.h"
#include "core/base/json.h"
#include "core/option.h"
#include "core/process.h"

struct bpf_object_skeleton;
struct cgroup;

enum { MODULE_WHY_SIZE = 160 };

// What this host offers, found once at start by trying, never by version.
struct host_env {
	bool btf; // the kernel's BTF is readable
	bool cgroup_unified; // ids come from the default hierarchy
	int32_t cgroup_subsystem; // else: index of the controller's v1 hierarchy in css_set.subsys; -1: unified
	uint32_t cgroup_hierarchy; // cgroup_root.hierarchy_id of the chosen hierarchy
	bool exit_has_group_dead; // tracepoint sched_process_exit passes group_dead, since 6.16
	uint32_t page_size;
	uint32_t cpu_count; // possible CPUs
	uint64_t clock_tick_hz;
};

struct agent;

// What core lends a module while it lives.
struct module_host {
	const struct host_env *env;
	struct agent *agent; // for the calls of core/agent.h
	const void *options; // values of module.options, laid out by it
	int iterator_fd; // the link of its iterator program, once attached; -1: it has none
};

struct module {
	const char *name;
	enum module_id id;
	const char *summary; // one line for help and status
	const struct option_spec *options; // NULL: none
	size_t options_size;
	size_t state_size;

	// Pure question: 0, or -errno with one sentence on why not.
	int (*supported)(const struct host_env *env, char why[MODULE_WHY_SIZE]);
	// Opens the skeleton and sets its read-only data; state is zeroed. Core loads and attaches.
	int (*open)(void *state, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton);
	// After attach. May be NULL.
	int (*start)(void *state);
	// Instead of start, when process table and maps were taken over from another image. May be NULL.
	int (*resume)(void *state);
	// A ring record of this module; event->size bytes are readable. -EBADMSG: malformed, counted by core.
	// May be NULL.
	int (*record)(void *state, const struct event_header *event);
	// Called every interval. May be NULL.
	int (*tick)(void *state, uint64_t now_boot_ns);
	// A process is about to have its record written: the last moment to complete its figures. May be NULL.
	void (*process_end)(void *state, struct process *process);
	// Appends this module's members to a process record, whichever tier the figures came from: without state,
	// so that the members are the same (null) where the module does not run. May be NULL.
	void (*process_fields)(const struct process *process, struct json *json);
	// Appends this module's members to a hostsample or cgroup record. May be NULL.
	void (*host_fields)(void *state, struct json *json);
	void (*cgroup_fields)(void *state, struct cgroup *cgroup, struct json *json);
	// Idempotent; takes a half-open state.
	void (*close)(void *state);
};

// The table, in the order records are laid out; registry.c. Ends with NULL.
extern const struct module *const modules[];
