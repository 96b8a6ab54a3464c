// SPDX-License-Identifier: Apache-2.0
// The io module: read and write figures of a process, disks and mounts of the host. It has no program of its own: the
// kernel counts, the lifecycle records carry, this writes.
#include <errno.h>
#include <stddef.h>

#include "core/agent.h"
#include "core/module.h"
#include "modules/io_host.h"

struct io_options {
	bool mounts;
};

static const struct option_spec io_options[] = {
	{ "mounts", OPTION_BOOL, offsetof(struct io_options, mounts), "true", 0, 0,
	  "Mounted file systems, NFS and Lustre among them, in host samples" },
	{ 0 },
};

struct io_state {
	const struct module_host *host;
	struct io_host host_files;
};

static int io_supported(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	(void)env;
	(void)why;
	return 0;
}

static int io_open(void *data, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton)
{
	struct io_state *state = data;

	(void)ret_skeleton;
	state->host = host;
	io_host_open(&state->host_files);
	state->host_files.mounts_left_out = !((const struct io_options *)host->options)->mounts;
	return 0;
}

static void io_close(void *data)
{
	struct io_state *state = data;

	if (state && state->host)
		io_host_close(&state->host_files);
}

static void io_process_fields(const struct process *process, struct json *json)
{
	static const struct json_field fields[] = {
		JSON_FIELD(struct counters, rchar_bytes, "rchar_bytes"),
		JSON_FIELD(struct counters, wchar_bytes, "wchar_bytes"),
		JSON_FIELD(struct counters, read_syscalls, "read_syscalls"),
		JSON_FIELD(struct counters, write_syscalls, "write_syscalls"),
		JSON_FIELD(struct counters, read_bytes, "read_bytes"),
		JSON_FIELD(struct counters, write_bytes, "write_bytes"),
		JSON_FIELD(struct counters, cancelled_write_bytes, "cancelled_write_bytes"),
	};
	bool known = process->quality[FIGURE_IO] != QUALITY_UNKNOWN;

	json_put_fields(json, fields, sizeof(fields) / sizeof(fields[0]), process_counters(process, known));
}

static void io_host_record(void *data, struct json *json)
{
	io_host_fields(&((struct io_state *)data)->host_files, json);
}

static void io_cgroup_record(void *data, struct cgroup *cgroup, struct json *json)
{
	struct io_state *state = data;

	io_cgroup_fields(agent_cgroups(state->host->agent), cgroup, json);
}

const struct module module_io = {
	.name = "io",
	.id = MODULE_IO,
	.summary = "bytes and calls read and written, disks, mounts",
	.options = io_options,
	.options_size = sizeof(struct io_options),
	.state_size = sizeof(struct io_state),
	.supported = io_supported,
	.open = io_open,
	.process_fields = io_process_fields,
	.host_fields = io_host_record,
	.cgroup_fields = io_cgroup_record,
	.close = io_close,
};
