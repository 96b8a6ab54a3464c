// SPDX-License-Identifier: Apache-2.0
// `tracer runs`, `tasks`, `tools`, `processes` and `hosts`: rows of one entity of the lake. One function; what differs
// stands in a table.

#include <stdio.h>
#include <string.h>

#include "cli/ask.h"
#include "core/base/cleanup.h"

enum rows_scope { ROWS_NAME, ROWS_ID, ROWS_NONE }; // how --host is asked: by its name, its id, not at all

struct rows_command {
	const char *name, *path, *sort;
	enum rows_scope host;
	const char *run; // column that --run fills with an id; NULL: none
	const char *fields; // what the table needs
	const struct ask_column *columns;
};

static const struct ask_column runs_columns[] = {
	{"started", ASK_MOMENT, "start_ns", NULL},
	{"name", ASK_FLEX, "run_name", "run"},
	{"engine", ASK_TEXT, "engine", NULL},
	{"host", ASK_FLEX, "host", "host_id"},
	{"tasks", ASK_COUNT, "tasks", NULL},
	{"procs", ASK_COUNT, "processes", NULL},
	{"wall", ASK_SPAN, NULL, NULL},
	{"CPU", ASK_DURATION, "cpu_ns", NULL},
	{"memory", ASK_BYTES, "peak_rss_bytes", NULL},
	{"fail", ASK_COUNT, "failures", NULL},
	{"end", ASK_END, NULL, NULL},
	{"run", ASK_TEXT, "run", NULL},
	{0},
};

static const struct ask_column tasks_columns[] = {
	{"started", ASK_MOMENT, "start_ns", NULL},
	{"task", ASK_FLEX, "task_name", "task"},
	{"sample", ASK_FLEX, "sample", NULL},
	{"procs", ASK_COUNT, "processes", NULL},
	{"wall", ASK_SPAN, NULL, NULL},
	{"CPU", ASK_DURATION, "cpu_ns", NULL},
	{"memory", ASK_BYTES, "peak_rss_bytes", NULL},
	{"in", ASK_BYTES, "rchar_bytes", NULL},
	{"out", ASK_BYTES, "wchar_bytes", NULL},
	{"end", ASK_END, NULL, NULL},
	{0},
};

static const struct ask_column tools_columns[] = {
	{"tool", ASK_FLEX, "tool", NULL},
	{"procs", ASK_COUNT, "processes", NULL},
	{"wall", ASK_DURATION, "wall_ns", NULL},
	{"CPU", ASK_DURATION, "cpu_ns", NULL},
	{"wait CPU", ASK_DURATION, "run_delay_ns", NULL},
	{"memory", ASK_BYTES, "peak_rss_bytes", NULL},
	{"in", ASK_BYTES, "rchar_bytes", NULL},
	{"out", ASK_BYTES, "wchar_bytes", NULL},
	{"fail", ASK_COUNT, "failures", NULL},
	{0},
};

static const struct ask_column processes_columns[] = {
	{"started", ASK_MOMENT, "start_ns", NULL},
	{"host", ASK_FLEX, "host", "host_id"},
	{"pid", ASK_NUMBER, "pid", NULL},
	{"tool", ASK_FLEX, "tool", "comm"},
	{"wall", ASK_SPAN, NULL, NULL},
	{"CPU", ASK_DURATION, "cpu_ns", NULL},
	{"memory", ASK_BYTES, "peak_rss_bytes", NULL},
	{"in", ASK_BYTES, "rchar_bytes", NULL},
	{"out", ASK_BYTES, "wchar_bytes", NULL},
	{"end", ASK_END, NULL, NULL},
	{"command", ASK_COMMAND, NULL, NULL},
	{0},
};

static const struct ask_column hosts_columns[] = {
	{"host", ASK_FLEX, "host", "host_id"},
	{"seen", ASK_MOMENT, "last_seen_ns", NULL},
	{"CPUs", ASK_COUNT, "cpu_count", NULL},
	{"memory", ASK_BYTES, "memory_bytes", NULL},
	{"kernel", ASK_FLEX, "kernel_release", NULL},
	{"procs", ASK_COUNT, "processes", NULL},
	{"CPU", ASK_DURATION, "cpu_ns", NULL},
	{"fail", ASK_COUNT, "failures", NULL},
	{"lost", ASK_COUNT, "records_lost", NULL},
	{"id", ASK_TEXT, "host_id", NULL},
	{0},
};

static const struct rows_command rows_commands[] = {
	{"runs", "/api/v1/runs", "-start_ns", ROWS_NAME, "id",
	 "start_ns,end_ns,run_name,run,engine,host,host_id,tasks,processes,cpu_ns,peak_rss_bytes,"
	 "failures,exit_code,signal,"
	 "oom",
	 runs_columns},
	{"tasks", "/api/v1/tasks", "-start_ns", ROWS_ID, "run_id",
	 "start_ns,end_ns,task_name,task,sample,processes,cpu_ns,peak_rss_bytes,rchar_bytes,wchar_"
	 "bytes,exit_code,signal,oom",
	 tasks_columns},
	{"tools", "/api/v1/tools", "-cpu_ns", ROWS_ID, "run_id",
	 "tool,processes,wall_ns,cpu_ns,run_delay_ns,peak_rss_bytes,rchar_bytes,wchar_bytes,"
	 "failures",
	 tools_columns},
	{"processes", "/api/v1/processes", "-id", ROWS_NAME, "run_id",
	 "start_ns,end_ns,host,host_id,pid,tool,comm,cpu_ns,peak_rss_bytes,rchar_bytes,wchar_bytes,"
	 "exit_code,signal,oom,args",
	 processes_columns},
	{"hosts", "/api/v1/hosts", "host", ROWS_NAME, NULL,
	 "host,host_id,last_seen_ns,cpu_count,memory_bytes,kernel_release,processes,cpu_ns,"
	 "failures,records_lost",
	 hosts_columns},
	{0},
};

static int rows_print(void *data, const char *lines, size_t length)
{
	(void)data;
	return length == 0 || fwrite(lines, 1, length, stdout) == length ? 0 : -1;
}

static int rows_gather(void *data, const char *lines, size_t length)
{
	buf_append(data, lines, length);
	return buf_error(data);
}

// The names that --run and --host take, as conditions.
static int rows_scope(struct ask *ask, const struct rows_command *command)
{
	char id[80];
	int exit_code = -1, error = 0;

	if (ask->run && command->run) {
		exit_code = ask_find_run(ask, ask->run, id);
		error = exit_code >= 0 ? 0 : query_parameters_add(&ask->parameters, command->run, id);
	}
	if (exit_code < 0 && error == 0 && ask->host && command->host == ROWS_ID) {
		exit_code = ask_find_host(ask, ask->host, id);
		error = exit_code >= 0 ? 0 : query_parameters_add(&ask->parameters, "host_id", id);
	} else if (exit_code < 0 && error == 0 && ask->host) {
		error = query_parameters_add(&ask->parameters, "host", ask->host);
	}
	if (exit_code < 0 && error == 0 && ask->since)
		error = query_parameters_add(&ask->parameters, "since", ask->since);
	if (exit_code < 0 && error == 0)
		error = query_parameters_add(&ask->parameters, "sort", ask->sort ? ask->sort : command->sort);
	return error < 0 ? EXIT_USAGE : exit_code;
}

static int rows_table(struct ask *ask, const struct rows_command *command, bool *ret_more)
{
	CLEANUP(buf_free) struct buf lines = BUF_INIT;
	struct ui ui;
	int exit_code;

	if (query_parameters_add(&ask->parameters, "fields", command->fields) < 0)
		return EXIT_USAGE;
	exit_code =
		ask_pages(ask, command->path, &ask->parameters, "ndjson", ask->limit, rows_gather, &lines, ret_more);
	if (exit_code >= 0)
		return exit_code;
	ui_init(&ui, stdout);
	if (lines.length)
		ask_table(&ui, command->columns, lines.data, lines.length);
	else
		fprintf(stderr, "tracer %s: nothing there\n", command->name);
	return lines.length ? EXIT_OK : EXIT_NO;
}

int command_rows(int argc, char **argv)
{
	struct args args = args_of(argv[0], argc, argv);
	const struct rows_command *command = rows_commands;
	CLEANUP(ask_free) struct ask ask;
	bool more = false;
	int exit_code;

	while (strcmp(command->name, argv[0]) != 0)
		command++;
	ask_init(&ask, command->name);
	while (args_next(&args))
		ask_option(&ask, &args);
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.operand_count)
		return args_usage(&args, "takes no operand; conditions are given with --where");
	exit_code = rows_scope(&ask, command);
	if (exit_code >= 0)
		return exit_code;
	if (ask.output == ASK_TABLE) {
		exit_code = rows_table(&ask, command, &more);
	} else {
		exit_code = ask_pages(&ask, command->path, &ask.parameters, ask.output == ASK_JSON ? "ndjson" : "csv",
				      ask.limit, rows_print, NULL, &more);
		exit_code = exit_code >= 0 ? exit_code : EXIT_OK;
	}
	if (more)
		fprintf(stderr, "tracer %s: there are more; --limit 0 gives all\n", command->name);
	return fflush(stdout) == 0 ? exit_code : EXIT_NO;
}
