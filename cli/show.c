// SPDX-License-Identifier: Apache-2.0
// `tracer show RUN`: the report of `tracer run`, made from what the lake has of a run. The processes come as records
// and go through the same reader and writer as those of a file, so both say the same; a run of several hosts is one
// report.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <yyjson.h>

#include "cli/ask.h"
#include "cli/report_text.h"
#include "core/base/cleanup.h"
#include "core/report_tree.h"

enum { SHOW_PROCESSES_MAX = 500000 };

static const char show_fields[] =
	"pid,start_ns,end_ns,start_boot_ns,comm,args,threads_max,cpu_ns,cpu_user_ns,cpu_system_ns,"
	"run_delay_ns,"
	"voluntary_switches,involuntary_switches,blocked_disk_ns,blocked_network_fs_ns,blocked_"
	"socket_ns,blocked_pipe_ns,"
	"blocked_lock_ns,blocked_child_ns,blocked_timer_ns,blocked_other_ns,minor_faults,major_"
	"faults,reclaim_stall_ns,"
	"compaction_stall_ns,rchar_bytes,wchar_bytes,read_bytes,write_bytes,peak_rss_bytes,exit_"
	"code,signal,core_dumped,oom,"
	"oom_limit,images,tool,task,task_name,run,run_name,run_parent,engine,sample,quality";

static void show_document_free(yyjson_doc **document)
{
	yyjson_doc_free(*document);
}

static void show_report_free(struct report **report)
{
	report_free(*report);
}

enum { SHOW_PARTS_MAX = 64 }; // named with the reason; more are only counted

struct show {
	struct ask *ask;
	struct {
		char id[24], host[64];
	} parts[SHOW_PARTS_MAX];
	size_t part_count; // all of them
	FILE *records;
	const char *kind;
	uint64_t processes;
};

// Rows become records again: the kind in front is what they lack.
static int show_rows(void *data, const char *lines, size_t length)
{
	struct show *show = data;

	for (const char *at = lines, *end; at < lines + length; at = end + 1) {
		end = memchr(at, '\n', (size_t)(lines + length - at));
		end = end ? end : lines + length;
		if (end - at < 3)
			continue;
		fprintf(show->records, "{\"kind\":\"%s\",", show->kind);
		fwrite(at + 1, 1, (size_t)(end - at - 1), show->records);
		fputc('\n', show->records);
		show->processes += *show->kind == 'p';
	}
	return ferror(show->records) ? -EIO : 0;
}

// All rows of an entity where column is value, between two moments (0, UINT64_MAX: any).
static int show_fetch(struct show *show, const char *kind, const char *path, const char *column, const char *value,
		      const char *fields, const uint64_t *span)
{
	CLEANUP(arena_free) struct arena arena;
	struct query_parameters parameters = {.arena = &arena};
	char from[24], to[24];
	bool more = false;
	int error;

	arena_init(&arena, 4096);
	show->kind = kind;
	error = query_parameters_add(&parameters, column, value);
	if (error == 0 && fields)
		error = query_parameters_add(&parameters, "fields", fields);
	if (error == 0 && span) {
		snprintf(from, sizeof(from), "%llu", (unsigned long long)span[0]);
		snprintf(to, sizeof(to), "%llu", (unsigned long long)span[1]);
		error = query_parameters_add(&parameters, "since", from);
		if (error == 0 && span[1] != UINT64_MAX)
			error = query_parameters_add(&parameters, "until", to);
	}
	if (error < 0)
		return EXIT_REFUSED;
	return ask_pages(show->ask, path, &parameters, "ndjson", 0, show_rows, show, &more);
}

static const char *show_text(yyjson_val *object, const char *member)
{
	const char *text = yyjson_get_str(yyjson_obj_get(object, member));

	return text ? text : "";
}

// One part of the run: its host, its processes, and what was lost there meanwhile.
static int show_part(struct show *show, const char *id)
{
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	CLEANUP(show_document_free) yyjson_doc *document = NULL;
	struct query_parameters none = {.arena = &show->ask->arena};
	char path[64];
	uint64_t span[2];
	yyjson_val *run, *end;
	int exit_code;

	snprintf(path, sizeof(path), "/api/v1/runs/%.24s", id);
	exit_code = ask_answer(show->ask, path, &none, "json", NULL, &answer);
	if (exit_code >= 0)
		return exit_code;
	document = yyjson_read(answer.body.data, answer.body.length, 0);
	run = yyjson_doc_get_root(document);
	end = yyjson_obj_get(run, "end_ns");
	if (show->part_count < SHOW_PARTS_MAX) {
		snprintf(show->parts[show->part_count].id, sizeof(show->parts[0].id), "%s", id);
		snprintf(show->parts[show->part_count].host, sizeof(show->parts[0].host), "%s", show_text(run, "host"));
	}
	show->part_count++;
	span[0] = yyjson_get_uint(yyjson_obj_get(run, "start_ns"));
	// A loss is noticed a little after it happened.
	span[1] = yyjson_is_uint(end) && yyjson_obj_get(run, "living") &&
				  yyjson_get_uint(yyjson_obj_get(run, "living")) == 0
			  ? yyjson_get_uint(end) + UINT64_C(2000000000)
			  : UINT64_MAX;
	exit_code = show_fetch(show, "host", "/api/v1/hosts", "host_id", show_text(run, "host_id"),
			       "host,cpu_count,memory_bytes", NULL);
	if (exit_code < 0)
		exit_code = show_fetch(show, "process", "/api/v1/processes", "run_id", id, show_fields, NULL);
	if (exit_code < 0)
		exit_code = show_fetch(show, "gap", "/api/v1/gaps", "host_id", show_text(run, "host_id"),
				       "room,reason,count", span);
	return exit_code;
}

// Why a part is one: by the join of the greatest confidence.
static void show_why(struct show *show, struct report *report, yyjson_val *part, size_t number)
{
	char note[320];

	snprintf(note, sizeof(note), "part on %s: %s (%s)", show->parts[number].host, show_text(part, "why"),
		 show_text(part, "key"));
	report_note(report, note);
}

static void show_joins(struct show *show, struct report *report)
{
	for (size_t i = 0; show->part_count > 1 && i < show->part_count && i < SHOW_PARTS_MAX; i++) {
		CLEANUP(ask_answer_free) struct ask_answer answer = {0};
		CLEANUP(show_document_free) yyjson_doc *document = NULL;
		CLEANUP(arena_free) struct arena arena;
		struct query_parameters parameters = {.arena = &arena};
		yyjson_val *join;

		arena_init(&arena, 4096);
		if (query_parameters_add(&parameters, "run_id", show->parts[i].id) < 0 ||
		    query_parameters_add(&parameters, "sort", "-confidence") < 0 ||
		    query_parameters_add(&parameters, "how.ne", "weak") < 0 ||
		    query_parameters_add(&parameters, "limit", "1") < 0 ||
		    ask_answer(show->ask, "/api/v1/joins", &parameters, "ndjson", NULL, &answer) >= 0)
			return;
		document = yyjson_read(answer.body.data, answer.body.length, YYJSON_READ_STOP_WHEN_DONE);
		join = yyjson_doc_get_root(document);
		if (join)
			show_why(show, report, join, i);
	}
	if (show->part_count > SHOW_PARTS_MAX)
		report_note(report, "more parts than are named here");
}

static int show_print(struct show *show, uint64_t expected)
{
	const struct report_setup setup = {.memory_bytes = UNKNOWN, .start_boot_ns = UNKNOWN};
	struct report_outcome outcome = {.end_boot_ns = UNKNOWN, .exit_code = -1};
	CLEANUP(show_report_free) struct report *report = NULL;
	char note[160];
	struct ui ui;
	int error;

	rewind(show->records);
	error = report_new(&setup, &report);
	if (error == 0)
		error = report_read(report, show->records);
	if (error < 0) {
		fprintf(stderr, "tracer show: %s\n",
			error == -EBADMSG ? "none of its processes is kept any more; `tracer tasks "
					    "--run` has the sums"
					  : strerror(-error));
		return error == -EBADMSG ? EXIT_NO : EXIT_REFUSED;
	}
	if (show->processes < expected) {
		snprintf(note, sizeof(note), "%llu of its %llu processes are not kept any more: sums are lower bounds.",
			 (unsigned long long)(expected - show->processes), (unsigned long long)expected);
		report_note(report, note);
	}
	show_joins(show, report);
	outcome.still_running = report->outcome.still_running;
	report_finish(report, &outcome);
	ui_init(&ui, stdout);
	error = show->ask->output == ASK_JSON ? report_write_json(report, stdout) : report_write(report, &ui);
	return error < 0 ? EXIT_NO : EXIT_OK;
}

static int show_run(struct ask *ask, const char *name)
{
	CLEANUP(ask_answer_free) struct ask_answer answer = {0};
	CLEANUP(show_document_free) yyjson_doc *document = NULL;
	CLEANUP(cleanup_fclose) FILE *records = fdopen(memfd_create("records", MFD_CLOEXEC), "w+");
	struct show show = {.ask = ask, .records = records};
	struct query_parameters parameters = {.arena = &ask->arena};
	yyjson_val *root, *part;
	yyjson_arr_iter parts;
	uint64_t expected;
	char id[24], path[64];
	int exit_code = ask_find_run(ask, name, id);

	if (exit_code >= 0)
		return exit_code;
	if (!records || query_parameters_add(&parameters, "limit", "1") < 0)
		return EXIT_REFUSED;
	// The tree names the parts that the run has on other hosts.
	snprintf(path, sizeof(path), "/api/v1/runs/%s/tree", id);
	exit_code = ask_answer(ask, path, &parameters, "json", NULL, &answer);
	if (exit_code >= 0)
		return exit_code;
	document = yyjson_read(answer.body.data, answer.body.length, 0);
	root = yyjson_doc_get_root(document);
	expected = yyjson_get_uint(yyjson_obj_get(yyjson_obj_get(root, "run"), "processes"));
	if (expected > SHOW_PROCESSES_MAX) {
		fprintf(stderr,
			"tracer show: %llu processes are too many for a report; see `tracer tasks "
			"--run %s`\n",
			(unsigned long long)expected, id);
		return EXIT_NO;
	}
	parts = yyjson_arr_iter_with(yyjson_obj_get(root, "parts"));
	expected = yyjson_arr_size(yyjson_obj_get(root, "parts")) > 1 ? 0 : expected;
	while (exit_code < 0 && (part = yyjson_arr_iter_next(&parts)))
		exit_code = show_part(&show, yyjson_get_str(part));
	return exit_code >= 0 ? exit_code : show_print(&show, expected);
}

int command_show(int argc, char **argv)
{
	struct args args = args_of("show", argc, argv);
	CLEANUP(ask_free) struct ask ask;

	ask_init(&ask, "show");
	while (args_next(&args))
		ask_option(&ask, &args);
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count != 1)
		return args_usage(&args, "name one run; `tracer runs` lists them");
	return show_run(&ask, args.operands[0]);
}
