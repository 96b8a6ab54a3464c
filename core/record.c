// SPDX-License-Identifier: Apache-2.0
// Writing records, no decisions. Unknown is null; times leave as Unix nanoseconds; figures come from the modules
// that know them.
#include "core/record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/cgroup.h"
#include "core/correlate.h"
#include "core/module.h"
#include "core/proc_read.h"
#include "core/schema.h"
#include "version.h"

enum { PROGRAM_USES_PAID = 3 };

// NUL-separated arguments as an array of strings.
static void write_args(struct json *json, const struct image *image)
{
	const char *cursor = image->args;
	const char *end = cursor ? cursor + image->args_size : NULL;

	json_key(json, "args");
	if (!cursor) {
		json_null(json);
		return;
	}
	json_open_array(json);
	while (cursor < end) {
		size_t length = strnlen(cursor, (size_t)(end - cursor));

		json_string_n(json, cursor, length);
		cursor += length + 1;
	}
	json_close_array(json);
	if (image->args_total > image->args_size)
		json_put_u64(json, "args_total_bytes", image->args_total);
}

static uint64_t share(uint64_t now, uint64_t before)
{
	if (now == UNKNOWN || before == UNKNOWN)
		return UNKNOWN;
	return now > before ? now - before : 0;
}

#define SHARES(each)                                                                                          \
	each(cpu_ns) each(run_delay_ns) each(minor_faults) each(major_faults) each(rchar_bytes) each(wchar_bytes) \
		each(read_bytes) each(write_bytes)
#define SHARE_FIELD(name) JSON_FIELD(struct counters, name, #name),
#define SHARE_OF(name) .name = share(end->name, begin->name),

static void write_shares(struct json *json, const struct counters *end, const struct counters *begin)
{
	static const struct json_field fields[] = { SHARES(SHARE_FIELD) };
	const struct counters shares = { SHARES(SHARE_OF) };

	json_put_nonzero_fields(json, fields, sizeof(fields) / sizeof(fields[0]), &shares);
}

// The last image is the process as its own members show it; a forked one is its parent's, from the process's start on.
static void write_image(struct json *json, const struct process *process, const struct image *image,
			const struct clock_offset *clock)
{
	const struct counters *begin = &image->at_start;
	const struct counters *end = image->next ? &image->next->at_start : &process->counters;

	json_open_object(json);
	if (image->forked)
		json_put_bool(json, "forked", true);
	else
		json_put_u64(json, "start_ns", clock_to_real_ns(clock, image->start_boot_ns));
	if (image->next && !image->forked) {
		json_put_string(json, "comm", image->comm[0] ? image->comm : NULL);
		json_put_string(json, "exe", image->exe);
		if (image->script)
			json_put_string(json, "script", image->script);
		if (image->interpreter)
			json_put_string(json, "interpreter", image->interpreter);
		write_args(json, image);
	}
	json_put_string(json, "tool", image->tool);
	write_shares(json, end, begin);
	if (image->next && image->peak_rss_bytes != UNKNOWN)
		json_put_u64(json, "peak_rss_bytes", image->peak_rss_bytes);
	json_close_object(json);
}

static void write_images(struct json *json, const struct process *process, const struct clock_offset *clock)
{
	json_key(json, "images");
	json_open_array(json);
	for (const struct image *image = process->images; image; image = image->next)
		write_image(json, process, image, clock);
	json_close_array(json);
	if (process->images_dropped)
		json_put_u64(json, "images_dropped", process->images_dropped);
}

// Those that differ from known, or all. Nothing when none differs.
static void write_namespaces(struct json *json, const uint32_t namespaces[PROC_NAMESPACES], const uint32_t *known)
{
	static const char *const names[PROC_NAMESPACES] = {
		[PROC_NAMESPACE_MNT] = "mnt",	[PROC_NAMESPACE_PID] = "pid", [PROC_NAMESPACE_NET] = "net",
		[PROC_NAMESPACE_USER] = "user", [PROC_NAMESPACE_UTS] = "uts", [PROC_NAMESPACE_IPC] = "ipc",
		[PROC_NAMESPACE_CGROUP] = "cgroup",
	};

	if (known && !memcmp(namespaces, known, sizeof(uint32_t) * PROC_NAMESPACES))
		return;
	json_key(json, "namespaces");
	json_open_object(json);
	for (size_t i = 0; i < PROC_NAMESPACES; i++) {
		if (!known || namespaces[i] != known[i])
			json_put_known_u64(json, names[i], namespaces[i] ? namespaces[i] : JSON_UNKNOWN);
	}
	json_close_object(json);
}

// The members that follow from a program's strings. Written once and copied from then on for one that is used again.
static void write_strings(struct json *json, const struct image *image)
{
	struct program *program = image->program;
	size_t start = json->out->length;

	if (program && program->record) {
		json_raw(json, program->record, program->record_size);
		return;
	}
	json_put_string(json, "exe", image->exe);
	json_put_string(json, "script", image->script);
	json_put_string(json, "interpreter", image->interpreter);
	write_args(json, image);
	json_put_string(json, "cwd", image->cwd);
	if (!program || program->uses < PROGRAM_USES_PAID || buf_error(json->out))
		return;
	program->record = malloc(json->out->length - start);
	if (!program->record)
		return;
	program->record_size = (uint32_t)(json->out->length - start);
	memcpy(program->record, json->out->data + start, program->record_size);
}

struct identity {
	uint64_t pid, ppid, start_ns, end_ns, start_boot_ns, parent_start_boot_ns;
};

struct owner {
	uint64_t uid, gid, pid_in_namespace, session, process_group;
};

static void write_identity(struct json *json, const struct process *process, const struct record_host *host,
			   const struct clock_offset *clock)
{
	static const struct json_field identity_fields[] = {
		JSON_FIELD(struct identity, pid, "pid"),
		JSON_FIELD(struct identity, ppid, "ppid"),
		JSON_FIELD(struct identity, start_ns, "start_ns"),
		JSON_FIELD(struct identity, end_ns, "end_ns"),
		JSON_FIELD(struct identity, start_boot_ns, "start_boot_ns"),
		JSON_FIELD(struct identity, parent_start_boot_ns, "parent_start_boot_ns"),
	};
	static const struct json_field owner_fields[] = {
		JSON_FIELD(struct owner, uid, "uid"),
		JSON_FIELD(struct owner, gid, "gid"),
		JSON_FIELD(struct owner, pid_in_namespace, "pid_in_namespace"),
		JSON_FIELD(struct owner, session, "session"),
		JSON_FIELD(struct owner, process_group, "process_group"),
	};
	const struct image *image = process->image;
	const struct identity identity = {
		.pid = process->pid,
		.ppid = process->ppid,
		.start_ns = clock_to_real_ns(clock, process->start_boot_ns),
		.end_ns = process->exit_boot_ns ? clock_to_real_ns(clock, process->exit_boot_ns) : UNKNOWN,
		.start_boot_ns = process->start_boot_ns,
		.parent_start_boot_ns = process->parent_start_boot_ns ? process->parent_start_boot_ns : UNKNOWN,
	};
	const struct owner owner = {
		.uid = process->uid,
		.gid = process->gid,
		.pid_in_namespace = process->pid_in_namespace ? process->pid_in_namespace : UNKNOWN,
		.session = process->session,
		.process_group = process->process_group,
	};

	json_put_fields(json, identity_fields, sizeof(identity_fields) / sizeof(identity_fields[0]), &identity);
	json_put_string(json, "comm", image->comm[0] ? image->comm : NULL);
	write_strings(json, image);
	json_put_fields(json, owner_fields, sizeof(owner_fields) / sizeof(owner_fields[0]), &owner);
	write_namespaces(json, process->namespaces, host ? host->namespaces : NULL);
}

// The usual end, in one piece.
static bool write_plain_end(struct json *json, const struct process *process)
{
	static const char text[] = ",\"signal\":null,\"core_dumped\":false,\"oom\":false,\"oom_limit\":null";

	if (process->signal || process->exit_code < 0 || process->core_dumped || process->oom ||
	    process->oom_unknown || process->oom_limit)
		return false;
	json_put_u64(json, "exit_code", (uint64_t)process->exit_code);
	json_raw(json, text, sizeof(text) - 1);
	return true;
}

static void write_end(struct json *json, const struct process *process)
{
	if (process->quality[FIGURE_EXIT] == QUALITY_UNKNOWN) {
		json_put_null(json, "exit_code");
		json_put_null(json, "signal");
		json_put_null(json, "core_dumped");
		json_put_null(json, "oom");
	} else if (write_plain_end(json, process)) {
		return;
	} else {
		json_put_known_u64(json, "exit_code",
				   process->exit_code < 0 ? JSON_UNKNOWN : (uint64_t)process->exit_code);
		json_put_known_u64(json, "signal", process->signal ? (uint64_t)process->signal : JSON_UNKNOWN);
		json_put_bool(json, "core_dumped", process->core_dumped);
		if (process->oom_unknown)
			json_put_null(json, "oom");
		else
			json_put_bool(json, "oom", process->oom);
	}
	json_put_string(json, "oom_limit", process->oom_limit);
}

// Only what is not exact.
static void write_quality(struct json *json, const struct process *process)
{
	static const char *const names[FIGURE_END] = {
		[FIGURE_CPU] = "cpu",	  [FIGURE_MEMORY] = "memory", [FIGURE_IO] = "io",
		[FIGURE_ARGS] = "args",	  [FIGURE_START] = "start",   [FIGURE_EXIT] = "exit",
		[FIGURE_BLOCKED] = "blocked",
	};

	json_key(json, "quality");
	json_open_object(json);
	for (size_t i = 0; i < FIGURE_END; i++) {
		if (process->quality[i] != QUALITY_EXACT)
			json_put_string(json, names[i], quality_name((enum quality)process->quality[i]));
	}
	if (correlate_end_meaning(process))
		json_put_string(json, "end", end_meaning_name(correlate_end_meaning(process)));
	json_close_object(json);
}

static void write_figures(struct json *json, const struct process *process)
{
	for (size_t i = 0; modules[i]; i++) {
		if (modules[i]->process_fields)
			modules[i]->process_fields(process, json);
	}
}

void record_sample(const struct process *process, struct json *json)
{
	json_put_u64(json, "pid", process->pid);
	json_put_u64(json, "start_boot_ns", process->start_boot_ns);
	json_put_string(json, "state", (char[]){ process->state, '\0' });
	json_put_known_u64(json, "rss_bytes", process->rss_bytes);
	write_figures(json, process);
}

void record_process(const struct process *process, const struct record_host *host, const struct clock_offset *clock,
		    struct json *json)
{
	write_identity(json, process, host, clock);
	write_end(json, process);
	write_figures(json, process);
	write_images(json, process, clock);
	cgroup_write(process->cgroup, json);
	correlate_write(process, json);
	write_quality(json, process);
}

static void write_file_text(struct json *json, const char *key, const char *path)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT;

	if (fs_read(path, 4096, &text) < 0 || !text.data) {
		json_put_null(json, key);
		return;
	}
	text.data[strcspn(text.data, "\n")] = '\0';
	json_put_string(json, key, text.data);
}

void record_host_read(struct record_host *ret_host)
{
	struct event_identity identity;

	*ret_host = (struct record_host){ 0 };
	for (uint32_t pid = 1; pid && !ret_host->namespaces[0]; pid = pid == 1 ? (uint32_t)getpid() : 0) {
		CLEANUP(cleanup_close) int proc_fd = proc_open(pid);

		if (proc_fd >= 0 && !proc_read_identity(proc_fd, pid, &identity, NULL))
			memcpy(ret_host->namespaces, identity.namespaces, sizeof(ret_host->namespaces));
		if (pid != 1)
			return;
	}
}

void record_host(const struct record_host *host, struct json *json)
{
	struct utsname name;
	long pages = sysconf(_SC_PHYS_PAGES);

	json_put_u64(json, "schema_version", TRACER_SCHEMA_VERSION);
	json_put_string(json, "tracer_version", TRACER_VERSION);
	write_file_text(json, "machine_id", "/etc/machine-id");
	if (!uname(&name)) {
		json_put_string(json, "os_type", "linux");
		json_put_string(json, "kernel_release", name.release);
		json_put_string(json, "architecture", name.machine);
	}
	json_put_u64(json, "cpu_count", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	json_put_known_u64(json, "memory_bytes",
			   pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : JSON_UNKNOWN);
	write_namespaces(json, host->namespaces, NULL);
}
