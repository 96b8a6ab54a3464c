// SPDX-License-Identifier: Apache-2.0
// Feature probing for the BPF programs. Everything is read once at start; a missing answer is the cautious one.
#include "core/probe.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"

int probe_btf(struct btf **ret_btf)
{
	// What is missing is said by the caller, in a sentence; libbpf would print its own before that.
	libbpf_print_fn_t before = libbpf_set_print(NULL);
	struct btf *btf = btf__load_vmlinux_btf();
	int error = errno;

	libbpf_set_print(before);
	if (!btf)
		return -error;
	*ret_btf = btf;
	return 0;
}

static uint32_t possible_cpus(void)
{
	libbpf_print_fn_t before = libbpf_set_print(NULL);
	int cpus = libbpf_num_possible_cpus();

	libbpf_set_print(before);
	return cpus > 0 ? (uint32_t)cpus : 1;
}

// btf_trace_NAME is a pointer to a function whose first parameter is the tracer's own.
bool probe_tracepoint(const struct btf *btf, const char *name, uint32_t arguments)
{
	const struct btf_type *type;
	char type_name[128];
	int id;

	snprintf(type_name, sizeof(type_name), "btf_trace_%s", name);
	id = btf__find_by_name_kind(btf, type_name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return false;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (__u32)id)->type);
	if (!type || !btf_is_ptr(type))
		return false;
	type = btf__type_by_id(btf, type->type);
	return type && btf_is_func_proto(type) && btf_vlen(type) >= arguments + 1;
}

static int enum_value(const struct btf *btf, const char *enum_name, const char *value_name)
{
	int id = btf__find_by_name_kind(btf, enum_name, BTF_KIND_ENUM);
	const struct btf_type *type;

	if (id < 0)
		return -ENOENT;
	type = btf__type_by_id(btf, (__u32)id);
	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, btf_enum(type)[i].name_off);

		if (name && !strcmp(name, value_name))
			return btf_enum(type)[i].val;
	}
	return -ENOENT;
}

// The hierarchy number of a v1 controller: second column of /proc/cgroups.
static uint32_t hierarchy_of(const char *controller)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;
	size_t length = strlen(controller);

	if (fs_read("/proc/cgroups", 64 * 1024, &text) < 0 || !text.data)
		return 0;
	for (const char *line = text.data; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		if (!strncmp(line, controller, length) && line[length] == '\t')
			return (uint32_t)strtoul(line + length + 1, NULL, 10);
	}
	return 0;
}

void probe_host(const struct btf *btf, const struct cgroup_table *cgroups, struct host_env *ret_env)
{
	const char *controller = cgroups ? cgroup_table_controller(cgroups) : NULL;
	char name[64];
	int subsystem;

	*ret_env = (struct host_env){
		.btf = btf != NULL,
		.page_size = (uint32_t)sysconf(_SC_PAGESIZE),
		.cpu_count = possible_cpus(),
		.clock_tick_hz = (uint64_t)sysconf(_SC_CLK_TCK),
		.cgroup_subsystem = -1,
	};
	ret_env->cgroup_unified = cgroups && cgroup_table_mode(cgroups) == CGROUP_MODE_UNIFIED;
	if (!btf)
		return;
	ret_env->exit_has_group_dead = probe_tracepoint(btf, "sched_process_exit", 2);
	if (!controller)
		return;
	snprintf(name, sizeof(name), "%s_cgrp_id", controller);
	subsystem = enum_value(btf, "cgroup_subsys_id", name);
	if (subsystem < 0)
		return;
	ret_env->cgroup_subsystem = subsystem;
	ret_env->cgroup_hierarchy = hierarchy_of(controller);
}
