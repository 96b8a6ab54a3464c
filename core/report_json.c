// SPDX-License-Identifier: Apache-2.0
// A finished report as one JSON object. Same figures as the text, none folded; unknown is null.

#include <errno.h>

#include "core/base/cleanup.h"
#include "core/base/json.h"
#include "core/report_tree.h"

static void report_put_end(struct json *json, const struct report_end *end)
{
	if (end->exit_code >= 0)
		json_put_i64(json, "exit_code", end->exit_code);
	else
		json_put_null(json, "exit_code");
	if (end->signal > 0)
		json_put_i64(json, "signal", end->signal);
	else
		json_put_null(json, "signal");
	json_put_bool(json, "core", end->core);
	json_put_bool(json, "oom", end->oom);
	json_put_string(json, "oom_limit", end->oom_limit);
	if (end->meaning)
		json_put_string(json, "end", end_meaning_name(end->meaning));
}

static void report_put_sum(struct json *json, const struct report_sum *sum)
{
	json_put_u64(json, "processes", sum->processes);
	json_put_u64(json, "failures", sum->failures);
	json_put_known_u64(json, "first_ns", sum->first_ns);
	json_put_known_u64(json, "last_ns", sum->processes ? sum->last_ns : UNKNOWN);
	json_put_known_u64(json, "shortest_ns", sum->wall_min_ns);
	json_put_known_u64(json, "longest_ns", sum->processes ? sum->wall_max_ns : UNKNOWN);
	json_put_known_u64(json, "peak_rss_bytes", sum->peak_bytes ? sum->peak_bytes : UNKNOWN);
	json_put_string(json, "peak_rss_quality", quality_name((enum quality)sum->peak_quality));
	json_put_string(json, "peak_rss_tool", sum->peak_tool);
	if (sum->threads_max)
		json_put_u64(json, "threads_max", sum->threads_max);
	else
		json_put_null(json, "threads_max");
	for (unsigned i = 0; i < REPORT_FIGURE_END; i++)
		json_put_known_u64(json, report_figure_names[i],
				   sum->processes && sum->unknown[i] >= sum->processes
					   ? UNKNOWN
					   : sum->value[i]);
	// For how many processes a figure above is unknown and so missing from its sum.
	json_key(json, "unknown");
	json_open_object(json);
	for (unsigned i = 0; i < REPORT_FIGURE_END; i++) {
		if (sum->unknown[i])
			json_put_u64(json, report_figure_names[i], sum->unknown[i]);
	}
	if (sum->peak_unknown)
		json_put_u64(json, "peak_rss_bytes", sum->peak_unknown);
	json_close_object(json);
}

static void report_put_rows(const struct report *report, struct json *json,
			    const struct report_node *parent);

static void report_put_row(const struct report *report, struct json *json,
			   const struct report_node *node)
{
	static const char *const kinds[] = {"total", "run", "task", "tool"};
	double offered_ns = report_offered_ns(report, node);

	json_open_object(json);
	json_put_string(json, "kind", kinds[node->kind]);
	json_put_string(json, "name", node->name);
	if (node->folded)
		json_put_bool(json, "all_others", true);
	else if (node->kind != REPORT_TOOL)
		json_put_string(json, "id", node->id);
	if (node->kind == REPORT_RUN)
		json_put_string(json, "engine", node->engine);
	if (node->kind == REPORT_TASK) {
		json_put_string(json, "sample", node->sample);
		json_put_u64(json, "attempt", node->attempt);
		json_put_bool(json, "critical", node->critical);
	}
	if (node->kind != REPORT_TOOL) {
		json_put_string(json, "command", node->command);
		report_put_end(json, &node->end);
	}
	if (offered_ns > 0 && !node->sum.unknown[REPORT_CPU])
		json_put_double(json, "efficiency",
				(double)node->sum.value[REPORT_CPU] / offered_ns);
	else
		json_put_null(json, "efficiency");
	report_put_sum(json, &node->sum);
	report_put_rows(report, json, node);
	json_close_object(json);
}

static void report_put_rows(const struct report *report, struct json *json,
			    const struct report_node *parent)
{
	if (parent->kind == REPORT_TOOL)
		return;
	json_key(json, "rows");
	json_open_array(json);
	for (const struct report_node *child = parent->children; child; child = child->next)
		report_put_row(report, json, child);
	json_close_array(json);
}

static void report_put_failures(const struct report *report, struct json *json)
{
	json_key(json, "failures_by_tool");
	json_open_array(json);
	for (const struct report_failure *failure = report->failures; failure;
	     failure = failure->next) {
		json_open_object(json);
		json_put_string(json, "tool", failure->tool->name);
		json_put_string(json, "in", failure->tool->parent->name);
		json_put_u64(json, "count", failure->count);
		json_put_string(json, "first_command", failure->command);
		json_put_u64(json, "first_start_ns", failure->first_ns);
		report_put_end(json, &failure->end);
		json_close_object(json);
	}
	json_close_array(json);
	json_put_u64(json, "failures_without_row", report->failures_folded);
}

static void report_put_losses(const struct report *report, struct json *json)
{
	json_key(json, "losses");
	json_open_array(json);
	for (uint32_t i = 0; i < report->gap_count; i++) {
		json_open_object(json);
		json_put_string(json, "room", report->gaps[i].room);
		json_put_string(json, "reason", report->gaps[i].reason);
		json_put_u64(json, "count", report->gaps[i].count);
		json_close_object(json);
	}
	json_close_array(json);
	json_put_u64(json, "not_added", report->lost);
	json_put_u64(json, "bad_lines", report->bad_lines);
	json_key(json, "notes");
	json_open_array(json);
	for (uint32_t i = 0; i < report->note_count; i++)
		json_string(json, report->notes[i]);
	json_close_array(json);
}

int report_write_json(struct report *report, FILE *out)
{
	CLEANUP(buf_free) struct buf buf = BUF_INIT;
	struct json json = json_to(&buf);
	const struct report_end end = {.exit_code = report->outcome.exit_code,
				       .signal = report->outcome.signal};

	json_open_object(&json);
	json_put_string(&json, "kind", "report");
	json_put_string(&json, "command", report->setup.command);
	json_put_string(&json, "host", report->setup.host);
	json_put_known_u64(&json, "cpus",
			   report->setup.cpu_count ? report->setup.cpu_count : UNKNOWN);
	json_put_known_u64(&json, "memory_bytes", report->setup.memory_bytes);
	json_put_known_u64(&json, "start_ns", report->setup.start_boot_ns);
	json_put_known_u64(&json, "end_ns", report->outcome.end_boot_ns);
	json_put_u64(&json, "still_running", report->outcome.still_running);
	report_put_end(&json, &end);
	report_put_sum(&json, &report->total.sum);
	report_put_rows(report, &json, &report->total);
	report_put_failures(report, &json);
	report_put_losses(report, &json);
	json_close_object(&json);
	json_end_line(&json);
	if (buf_error(&buf) < 0)
		return -ENOMEM;
	return fwrite(buf.data, 1, buf.length, out) == buf.length ? 0 : -EIO;
}
