// SPDX-License-Identifier: Apache-2.0
// A run as an OpenTelemetry trace in the JSON encoding of OTLP: one resource for each host, spans for run, task and
// process below each other, a link from each process to the one that started it. Names are those of the semantic
// conventions (host, os, process, container, k8s) where there is one, else they begin with "tracer.". What is not known
// has no attribute.
#include <stdio.h>
#include <string.h>
#include <yyjson.h>

#include "core/base/json.h"
#include "lake/export_private.h"
#include "lake/otlp.h"

enum { FLUSH_BYTES = 32 * 1024 };

struct spans {
	struct export *export;
	struct json json;
	const union lake_slot *run;
	uint64_t host; // hosts.id of the part at work
};

static void begin_span(struct spans *spans, uint64_t id, uint64_t parent, const char *name, uint64_t start,
		       uint64_t end)
{
	struct json *json = &spans->json;
	char text[40];

	json_open_object(json);
	snprintf(text, sizeof(text), "%016llx%016llx",
		 (unsigned long long)(spans->export->whole ^ UINT64_C(0x7472616365720000)),
		 (unsigned long long)spans->export->whole);
	json_put_string(json, "traceId", text);
	snprintf(text, sizeof(text), "%016llx", (unsigned long long)id);
	json_put_string(json, "spanId", text);
	if (parent) {
		snprintf(text, sizeof(text), "%016llx", (unsigned long long)parent);
		json_put_string(json, "parentSpanId", text);
	}
	json_put_string(json, "name", *name ? name : "(unknown)");
	json_put_u64(json, "kind", 1);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)start);
	json_put_string(json, "startTimeUnixNano", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)(end < start ? start : end));
	json_put_string(json, "endTimeUnixNano", text);
	json_key(json, "attributes");
	json_open_array(json);
}

// Ends the attributes; what ended badly is an error. Nothing is "Ok": only an application's own people may say that.
static void end_span(struct spans *spans, uint64_t exit_code, uint64_t signal, bool oom)
{
	struct json *json = &spans->json;
	char text[64] = "";

	if (oom)
		snprintf(text, sizeof(text), "out of memory");
	else if (signal != LAKE_NULL)
		snprintf(text, sizeof(text), "signal %llu", (unsigned long long)signal);
	else if (exit_code != LAKE_NULL && exit_code)
		snprintf(text, sizeof(text), "exit code %llu", (unsigned long long)exit_code);
	otlp_put_text(json, "error.type", *text ? text : NULL);
	json_close_array(json);
	json_key(json, "status");
	json_open_object(json);
	if (*text) {
		json_put_u64(json, "code", 2);
		json_put_string(json, "message", text);
	}
	json_close_object(json);
}

static void put_figures(struct json *json, const union lake_slot *cpu, const union lake_slot *peak,
			const union lake_slot *read, const union lake_slot *written)
{
	otlp_put_seconds(json, "tracer.cpu.time", cpu->u64);
	otlp_put_number(json, "tracer.memory.peak", peak->u64);
	otlp_put_number(json, "tracer.disk.read", read->u64);
	otlp_put_number(json, "tracer.disk.write", written->u64);
}

// An array of strings out of JSON text.
static void put_args(struct json *json, union lake_slot args)
{
	yyjson_doc *doc = args.text ? yyjson_read(args.text->bytes, args.text->length, 0) : NULL;
	yyjson_val *array = yyjson_doc_get_root(doc), *item;
	size_t index, count;

	if (yyjson_is_arr(array)) {
		otlp_open_array(json, "process.command_args");
		yyjson_arr_foreach(array, index, count, item)
		{
			json_open_object(json);
			json_key(json, "stringValue");
			json_string_n(json, yyjson_get_str(item) ? yyjson_get_str(item) : "", yyjson_get_len(item));
			json_close_object(json);
		}
		otlp_close_array(json);
	}
	yyjson_doc_free(doc);
}

static void put_container(struct json *json, union lake_slot container)
{
	static const struct {
		const char *member, *name;
	} names[] = {
		{"runtime", "container.runtime.name"}, {"id", "container.id"},
		{"pod_uid", "k8s.pod.uid"},	       {"ecs_task", "aws.ecs.task.id"},
		{"slurm_step", "tracer.slurm.step"},
	};
	yyjson_doc *doc = container.text ? yyjson_read(container.text->bytes, container.text->length, 0) : NULL;
	yyjson_val *object = yyjson_doc_get_root(doc), *job = yyjson_obj_get(object, "slurm_job");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		otlp_put_text(json, names[i].name, yyjson_get_str(yyjson_obj_get(object, names[i].member)));
	if (yyjson_is_uint(job))
		otlp_put_number(json, "tracer.slurm.job", yyjson_get_uint(job));
	yyjson_doc_free(doc);
}

static const char *base_of(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

static void put_link(struct spans *spans, const union lake_slot *slot)
{
	struct json *json = &spans->json;
	char text[40];

	if (slot[PROCESSES_parent_start_boot_ns].u64 == LAKE_NULL || slot[PROCESSES_ppid].u64 == LAKE_NULL)
		return;
	json_key(json, "links");
	json_open_array(json);
	json_open_object(json);
	snprintf(text, sizeof(text), "%016llx%016llx",
		 (unsigned long long)(spans->export->whole ^ UINT64_C(0x7472616365720000)),
		 (unsigned long long)spans->export->whole);
	json_put_string(json, "traceId", text);
	snprintf(text, sizeof(text), "%016llx",
		 (unsigned long long)lake_id_process(spans->host, export_text(slot[PROCESSES_boot]),
						     slot[PROCESSES_ppid].u64,
						     slot[PROCESSES_parent_start_boot_ns].u64));
	json_put_string(json, "spanId", text);
	json_close_object(json);
	json_close_array(json);
}

static int put_process(void *data, const union lake_slot *slot)
{
	struct spans *spans = data;
	struct json *json = &spans->json;
	uint64_t parent = slot[PROCESSES_task_id].u64 == LAKE_NULL ? spans->run[RUNS_id].u64
								   : slot[PROCESSES_task_id].u64;
	const char *name = export_text(slot[slot[PROCESSES_tool].text ? PROCESSES_tool : PROCESSES_comm]);

	begin_span(spans,
		   lake_id_process(spans->host, export_text(slot[PROCESSES_boot]), slot[PROCESSES_pid].u64,
				   slot[PROCESSES_start_boot_ns].u64),
		   parent, name, slot[PROCESSES_start_ns].u64,
		   export_end(spans->export, slot[PROCESSES_end_ns].u64, 0));
	otlp_put_number(json, "process.pid", slot[PROCESSES_pid].u64);
	otlp_put_number(json, "process.parent_pid", slot[PROCESSES_ppid].u64);
	otlp_put_number(json, "process.vpid", slot[PROCESSES_pid_in_namespace].u64);
	otlp_put_number(json, "process.session_leader.pid", slot[PROCESSES_session].u64);
	otlp_put_number(json, "process.real_user.id", slot[PROCESSES_uid].u64);
	otlp_put_text(json, "process.executable.path",
		      slot[PROCESSES_exe].text ? export_text(slot[PROCESSES_exe]) : NULL);
	otlp_put_text(json, "process.executable.name",
		      slot[PROCESSES_exe].text ? base_of(export_text(slot[PROCESSES_exe])) : NULL);
	otlp_put_text(json, "process.working_directory",
		      slot[PROCESSES_cwd].text ? export_text(slot[PROCESSES_cwd]) : NULL);
	otlp_put_text(json, "process.linux.cgroup",
		      slot[PROCESSES_cgroup].text ? export_text(slot[PROCESSES_cgroup]) : NULL);
	put_args(json, slot[PROCESSES_args]);
	put_container(json, slot[PROCESSES_container]);
	otlp_put_number(json, "process.exit.code", slot[PROCESSES_exit_code].u64);
	otlp_put_text(json, "tracer.tool", slot[PROCESSES_tool].text ? export_text(slot[PROCESSES_tool]) : NULL);
	otlp_put_seconds(json, "tracer.run_delay", slot[PROCESSES_run_delay_ns].u64);
	put_figures(json, &slot[PROCESSES_cpu_ns], &slot[PROCESSES_peak_rss_bytes], &slot[PROCESSES_read_bytes],
		    &slot[PROCESSES_write_bytes]);
	end_span(spans, slot[PROCESSES_exit_code].u64, slot[PROCESSES_signal].u64, slot[PROCESSES_oom].u64 == 1);
	put_link(spans, slot);
	json_close_object(json);
	return spans->export->out.length > FLUSH_BYTES ? export_flush(spans->export) : 0;
}

static int put_task(void *data, const union lake_slot *slot)
{
	struct spans *spans = data;
	struct json *json = &spans->json;

	begin_span(spans, slot[TASKS_id].u64, spans->run[RUNS_id].u64,
		   export_text(slot[slot[TASKS_task_name].text ? TASKS_task_name : TASKS_task]),
		   slot[TASKS_start_ns].u64, export_end(spans->export, slot[TASKS_end_ns].u64, slot[TASKS_living].u64));
	otlp_put_text(json, "tracer.task.id", export_text(slot[TASKS_task]));
	otlp_put_text(json, "tracer.sample", slot[TASKS_sample].text ? export_text(slot[TASKS_sample]) : NULL);
	otlp_put_text(json, "process.working_directory", slot[TASKS_cwd].text ? export_text(slot[TASKS_cwd]) : NULL);
	otlp_put_number(json, "process.exit.code", slot[TASKS_exit_code].u64);
	otlp_put_number(json, "tracer.processes", slot[TASKS_processes].u64);
	put_figures(json, &slot[TASKS_cpu_ns], &slot[TASKS_peak_rss_bytes], &slot[TASKS_read_bytes],
		    &slot[TASKS_write_bytes]);
	end_span(spans, slot[TASKS_exit_code].u64, slot[TASKS_signal].u64, slot[TASKS_oom].u64 == 1);
	json_close_object(json);
	return spans->export->out.length > FLUSH_BYTES ? export_flush(spans->export) : 0;
}

static void put_run(struct spans *spans)
{
	const union lake_slot *run = spans->run;
	struct json *json = &spans->json;
	uint64_t id = run[RUNS_id].u64;

	begin_span(spans, id, id == spans->export->whole ? 0 : spans->export->whole,
		   export_text(run[run[RUNS_run_name].text ? RUNS_run_name : RUNS_run]), run[RUNS_start_ns].u64,
		   export_end(spans->export, run[RUNS_end_ns].u64, run[RUNS_living].u64));
	otlp_put_text(json, "tracer.run.id", export_text(run[RUNS_run]));
	otlp_put_text(json, "tracer.engine", run[RUNS_engine].text ? export_text(run[RUNS_engine]) : NULL);
	otlp_put_text(json, "tracer.command", run[RUNS_command].text ? export_text(run[RUNS_command]) : NULL);
	otlp_put_number(json, "process.exit.code", run[RUNS_exit_code].u64);
	otlp_put_number(json, "tracer.processes", run[RUNS_processes].u64);
	put_figures(json, &run[RUNS_cpu_ns], &run[RUNS_peak_rss_bytes], &run[RUNS_read_bytes], &run[RUNS_write_bytes]);
	end_span(spans, run[RUNS_exit_code].u64, run[RUNS_signal].u64, run[RUNS_oom].u64 == 1);
	json_close_object(json);
}

static int put_part(struct spans *spans)
{
	const union lake_slot *run = spans->run;
	struct json *json = &spans->json;
	struct export_rows hosts;
	int error;

	spans->host = lake_id_host(export_text(run[RUNS_workspace]), export_text(run[RUNS_host_id]));
	error = export_rows(spans->export, ENTITY_HOSTS, HOSTS_id, spans->host, &hosts);
	if (error)
		return error;
	json_open_object(json);
	json_key(json, "resource");
	otlp_put_resource(json, hosts.count ? hosts.rows[0] : NULL,
			  export_text(run[run[RUNS_run_name].text ? RUNS_run_name : RUNS_run]));
	json_key(json, "scopeSpans");
	json_open_array(json);
	json_open_object(json);
	otlp_put_scope(json);
	json_key(json, "spans");
	json_open_array(json);
	put_run(spans);
	error = export_each(spans->export, ENTITY_TASKS, TASKS_run_id, run[RUNS_id].u64, TASKS_start_ns, put_task,
			    spans);
	error = error ? error
		      : export_each(spans->export, ENTITY_PROCESSES, PROCESSES_run_id, run[RUNS_id].u64,
				    PROCESSES_start_ns, put_process, spans);
	json_close_array(json);
	otlp_put_schema(json);
	json_close_object(json);
	json_close_array(json);
	otlp_put_schema(json);
	json_close_object(json);
	return error;
}

int export_otlp(struct export *export)
{
	struct spans spans = {.export = export, .json = json_to(&export->out)};
	int error = 0;

	json_open_object(&spans.json);
	json_key(&spans.json, "resourceSpans");
	json_open_array(&spans.json);
	for (size_t i = 0; i < export->run_count && !error; i++) {
		spans.run = export->runs[i];
		if (spans.run[RUNS_start_ns].u64 != LAKE_NULL)
			error = put_part(&spans);
	}
	json_close_array(&spans.json);
	json_close_object(&spans.json);
	json_end_line(&spans.json);
	return error;
}
