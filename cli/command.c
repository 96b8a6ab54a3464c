// SPDX-License-Identifier: Apache-2.0
// The table of subcommands, and nothing that runs. A new command is one row here and one function
// in cli/NAME.c.

#include "cli/command.h"
#include "cli/ask.h"

#define OPTIONS(...) ((const struct command_option[]){__VA_ARGS__, {0}})
#define EXAMPLES(...) ((const struct command_example[]){__VA_ARGS__, {0}})
#define EXITS(...) ((const struct command_exit[]){__VA_ARGS__, {0}})
// Of every command that lists rows of the lake; sort: its default.
#define ROWS_RUN_OPTION {"run", 'r', "RUN", "Only of this run: its id or name"}
#define ROWS_OPTIONS(sort)                                                                                          \
	{"where", 'w', "CONDITION", "Only rows for which this holds: 'cpu_ns>=1e9'; may be repeated"},              \
		{"host", 0, "NAME", "Only of this host"},                                                           \
		{"since", 0, "TIME", "Only since then: 2h, 2026-01-31, 2026-01-31T10:00:00Z"},                      \
		{"sort", 's', "COLUMN", "Order; -COLUMN: largest first (default: " sort ")"},                       \
		{"limit", 'n', "N", "At most so many rows; 0: all (default: 50)"},                                  \
		{"json", 'j', NULL, "All columns as JSON lines"},                                                   \
		{"csv", 0, NULL, "All columns, comma-separated, with the names first"}, ASK_WHERE_OPTIONS

#define ASK_EXITS                                                           \
	EXITS({0, "There was an answer"}, {1, "There is nothing of the kind"}, \
	      {2, "Bad usage, condition or question"},                         \
	      {3,                                                              \
	       "The store or datalake cannot be read: not there, not permitted, not reachable"})

const struct command commands[] = {
	{
		.name = "run",
		.function = command_run,
		.summary = "Run a command and report what it really did",
		.usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
		.description =
			"Starts COMMAND once everything is attached, records it and all it starts, "
			"passes its output and exit code through, then prints a report to standard "
			"error: its tasks and tools with time, CPU, memory, I/O and waiting, what "
			"failed and what was slowest.\n\n"
			"It needs no service, no configuration and no datalake. Without root it "
			"works "
			"with what /proc shows, and says what is then missing.",
		.options = OPTIONS(
			{"output", 'o', "FILE", "Write every record to FILE as NDJSON"},
			{"source", 0, "WHERE",
			 "Read processes from bpf, events (netlink) or proc only; else from the "
			 "first of them that works"},
			{"system", 0, NULL, "Record the whole host, not only COMMAND"},
			{"wait", 'w', NULL, "Go on until all that COMMAND started has ended"},
			{"trace-id", 0, "ID",
			 "Runs on other hosts with the same ID are one run with this one"},
			{"quiet", 'q', NULL, "No report"}),
		.examples = EXAMPLES(
			{"sudo tracer run ./pipeline.sh", "A script and its parts"},
			{"sudo tracer run -o run.ndjson -- snakemake -c 8", "Keep the records too"},
			{"tracer run make -j4", "Without root, with less detail"}),
		.exits =
			EXITS({0, "COMMAND ended with 0; other codes of its own are passed on"},
			      {2, "Bad usage, where COMMAND did not run"},
			      {125, "Tracer itself failed"}, {126, "COMMAND could not be executed"},
			      {127, "COMMAND was not found"},
			      {128, "and above: 128 + the signal that killed COMMAND"}),
	},
	{
		.name = "collect",
		.function = command_collect,
		.summary = "Record everything that runs on this host, into the spool",
		.usage = "[OPTION...]",
		.description = "The daemon. Attaches to the kernel, gives up every right it no "
			       "longer needs, "
			       "and writes records to the spool until SIGTERM. SIGHUP reads the "
			       "rules again.\n\n"
			       "Options come from the configuration file, then TRACER_* variables, "
			       "then flags; "
			       "the later wins.",
		.options = OPTIONS(
			{"config", 'c', "FILE", "Configuration instead of /etc/tracer/tracer.yaml"},
			{"spool", 's', "DIR", "The same as --spool-directory"},
			{"stream", 0, "URL", "The same as --stream-url: deliver to this datalake"},
			{"print-config", 0, NULL,
			 "Print the values in force and where each came from, then stop"}),
		.tables = command_collect_options,
		.examples =
			EXAMPLES({"sudo tracer collect", "With the defaults"},
				 {"sudo tracer collect --spool /data/spool --spool-cap-bytes 20G",
				  "Another place, more room"},
				 {"tracer collect --print-config", "What would be in force"}),
		.exits = EXITS({0, "Stopped when told to, everything written"},
			       {1, "Stopped, but something was lost; the log says what"},
			       {2, "Bad usage, configuration or rules"},
			       {3, "Not permitted, or this kernel cannot do it"}),
	},
	{
		.name = "datalake",
		.function = command_datalake,
		.summary = "Take batches from agents, keep them, answer questions",
		.usage = "[OPTION...] [SUBCOMMAND]",
		.description =
			"Without a subcommand: the server. It listens on loopback with plain HTTP, and "
			"elsewhere with TLS only; it makes a certificate on its first start unless it is "
			"given one, and takes a changed one without a restart (at once on SIGHUP). As root it "
			"becomes the user tracer before it opens anything that is not a port.\n\n"
			"token create --role ingest|read|admin prints a token, once; token list; token revoke ID; "
			"token release HOST_ID lets a host be enrolled anew. link prints an address that opens one "
			"session in a browser. certificate shows the pin for agents. backup FILE copies the store "
			"while it is written to. check looks for damage. migrate --from sqlite:DIR --to "
			"clickhouse://... moves a store that no server writes to, goes on where it was cut off, and "
			"compares every count and sum in the end.\n\n"
			"Options come from the configuration file, then TRACER_DATALAKE_* variables, then flags; "
			"the later wins.",
		.words = "token link certificate backup check migrate",
		.options = OPTIONS(
			{"config", 'c', "FILE", "Configuration instead of /etc/tracer/datalake.yaml"},
			{"print-config", 0, NULL,
			 "Print the values in force and where each came from, then stop"},
			{"link", 0, NULL, "Print a one-time link once it listens"},
			{"role", 0, "ingest|read|admin", "Of the token or link to make"},
			{"ttl", 0, "DURATION", "How long the token holds; without it for ever"},
			{"workspace", 0, "NAME", "Of the token or link; without it default"},
			{"note", 0, "TEXT", "Kept with the token, for people"},
			{"from", 0, "STORE", "What to move; without it the one of --store"},
			{"to", 0, "STORE", "Where to: clickhouse://USER@HOST:PORT/DATABASE"},
			{"json", 0, NULL, "Machine-readable output of token create and list"}),
		.tables = command_datalake_options,
		.examples =
			EXAMPLES({"sudo tracer datalake", "On this machine, with the defaults"},
				 {"sudo tracer datalake --listen 0.0.0.0:7070,127.0.0.1:7071",
				  "For a network, with TLS; plain for this machine"},
				 {"sudo tracer datalake token create --role ingest --ttl 30d",
				  "A token to enrol hosts with"},
				 {"sudo tracer datalake link", "Into the browser"}),
		.exits = EXITS({0, "Stopped when told to, or the subcommand did its work"},
			       {1, "The loop or the subcommand failed; damage was found"},
			       {2, "Bad usage or configuration"},
			       {3, "Not permitted, or a port, the store or the certificate cannot be opened"}),
	},
	{
		.name = "up",
		.function = command_up,
		.summary = "Collect and keep on this machine: collector and datalake together",
		.usage = "[OPTION...]",
		.description =
			"Starts `tracer collect` and `tracer datalake` for this machine, enrols it, and prints a "
			"link that opens one session in a browser. Ctrl-C or SIGTERM stops both: first the "
			"collector, which delivers what is left, then the datalake. When one of them dies, it "
			"says which, stops the other and ends with 1.\n\n"
			"Both read their own configuration files. Without root the collector shows what /proc "
			"does, and --directory says where everything is kept.",
		.options = OPTIONS(
			{"listen", 'l', "ADDRESS:PORT", "Loopback address instead of 127.0.0.1:7070"},
			{"directory", 'd', "DIR", "Keep everything there, not below /var/lib and /run"},
			{"datalake-config", 0, "FILE", "Of the datalake, instead of /etc/tracer/datalake.yaml"},
			{"demo", 0, NULL, "Run a small pipeline, print its report; needs --directory"}),
		.examples = EXAMPLES({"sudo tracer up", "This machine, with the defaults"},
				     {"tracer up --demo --directory demo-data", "A look at what it does"}),
		.exits = EXITS({0, "Stopped when told to"}, {1, "A part of it failed; the message says which"},
			       {2, "Bad usage"}, {3, "It could not be started"}),
	},
	{
		.name = "identity",
		.function = command_identity,
		.summary = "Show who this host is to a datalake, or forget it",
		.usage = "[OPTION...] [show|reset]",
		.description =
			"A host draws a random host_id when it first delivers records, and is given a token of its "
			"own. show says which and whether it is this machine's: a copied disk carries the "
			"original's, and then a new one is made at the next start. reset forgets both; stop the "
			"collector first.",
		.words = "show reset",
		.options = OPTIONS(
			{"config", 'c', "FILE", "The collector's configuration, instead of /etc/tracer/tracer.yaml"},
			{"json", 'j', NULL, "As JSON; without the token"}),
		.examples = EXAMPLES({"sudo tracer identity", "Who this host is"},
				     {"sudo tracer identity reset", "Be another host from now on"}),
		.exits = EXITS({0, "It has one of its own, or forgot it"}, {1, "It has none, or another machine's"},
			       {2, "Bad usage or configuration"}, {3, "It cannot be read, or the collector runs"}),
	},
	{
		.name = "image",
		.function = command_image,
		.summary = "Leave a golden image without identity",
		.usage = "[OPTION...] prepare",
		.description =
			"Removes what makes this host this host, so that each clone becomes one of its own: "
			"host_id and agent token, all records in the spool, the client certificate of the "
			"collector, and tokens and certificate of a datalake. Configuration and the ingest token "
			"stay: with that clones enrol. Stop the collector first.",
		.words = "prepare",
		.options = OPTIONS(
			{"config", 'c', "FILE", "The collector's configuration, instead of /etc/tracer/tracer.yaml"},
			{"lake", 0, "DIR", "State of a datalake (default: /var/lib/tracer/lake)"},
			{"dry-run", 0, NULL, "Only say what would be removed"}),
		.examples = EXAMPLES({"sudo tracer image prepare", "The last step before the snapshot"},
				     {"sudo tracer image prepare --dry-run", "See what that would remove"}),
		.exits = EXITS({0, "No identity is left"}, {1, "Something could not be removed"},
			       {2, "Bad usage or configuration"}, {3, "The collector runs"}),
	},
	{
		.name = "service",
		.function = command_service,
		.summary = "Print the file of a service manager that runs Tracer",
		.usage = "[OPTION...] NAME",
		.description =
			"Prints a unit for systemd (of the collector, of the guard of an update on trial, of the "
			"update and its timer, of the datalake), a script for OpenRC or SysV, or the script that keeps "
			"the collector running where there is no service manager. The installer writes these.",
		.words = "systemd systemd-guard systemd-update systemd-timer systemd-datalake openrc sysv supervise",
		.options = OPTIONS({"prefix", 0, "DIR", "Where Tracer is installed (default: /usr/local)"},
				   {"user", 0, "NAME", "User of the datalake (default: tracer)"}),
		.examples = EXAMPLES({"tracer service systemd", "The collector's unit"}),
		.exits = EXITS({0, "It was printed"}, {2, "Bad usage"}),
	},
	{
		.name = "top",
		.function = command_top,
		.summary = "Watch what runs, by run, task, tool, process or container",
		.usage = "[OPTION...] [TEXT]",
		.description = "A live view, from the running collector, or from /proc when none "
			       "runs. CPU is in per cent "
			       "of one core over the last interval; memory is that of the largest "
			       "process, because "
			       "shared pages would be counted twice in a sum.\n\n"
			       "Keys: r t o p c choose runs, tasks, tools, processes, containers; "
			       "C M I T P N sort by "
			       "CPU, memory, I/O, time, processes, name; / searches; arrows and "
			       "page keys move; "
			       "space pauses; + and - change the interval; ? helps; q leaves.",
		.options =
			OPTIONS({"by", 'b', "run|task|tool|process|container",
				 "First grouping (default: tool)"},
				{"sort", 's', "cpu|memory|io|time|processes|name",
				 "First order (default: cpu)"},
				{"interval", 'i', "SECONDS",
				 "Time between two looks, 1 to 3600 (default: 2)"},
				{"batch", 0, NULL, "Print one table after the other, for a pipe"},
				{"once", '1', NULL, "Print one table and end"},
				{"count", 'n', "COUNT", "End after so many tables"},
				{"proc", 0, NULL, "Read /proc even when a collector runs"},
				{"socket", 0, "FILE", "The collector's processes socket"}),
		.examples = EXAMPLES({"tracer top", "Tools by CPU"},
				     {"tracer top --by task --sort memory", "Tasks by memory"},
				     {"tracer top --once samtools",
				      "One table of what has samtools in it, for a script"}),
		.exits = EXITS({0, "It was left, or the tables were printed"}, {2, "Bad usage"},
			       {3, "Neither the collector nor /proc could be read"}),
	},
	{
		.name = "ps",
		.function = command_ps,
		.summary = "List the processes that run now",
		.usage = "[OPTION...] [TEXT]",
		.description = "One line for each process, from the running collector, or from "
			       "/proc when none runs. TEXT "
			       "and the filters select those that have it in a name, case aside.",
		.options = OPTIONS(
			{"json", 'j', NULL,
			 "JSON lines: the collector's records, or what /proc gives"},
			{"sort", 's', "pid|cpu|memory|age", "Order (default: pid)"},
			{"run", 0, "TEXT", "Only processes of runs with TEXT in their name"},
			{"task", 0, "TEXT", "The same for tasks"},
			{"tool", 0, "TEXT", "The same for tools"},
			{"container", 0, "TEXT", "The same for containers"},
			{"pid", 'p', "PID", "Only this process"},
			{"uid", 'u', "UID", "Only processes of this user"},
			{"proc", 0, NULL, "Read /proc even when a collector runs"},
			{"socket", 0, "FILE", "The collector's processes socket"}),
		.examples = EXAMPLES(
			{"tracer ps --sort memory", "Largest first"},
			{"tracer ps --json --tool bwa | jq .cpu_ns", "CPU time of each bwa"}),
		.exits =
			EXITS({0, "Something was listed"}, {1, "Nothing matched"}, {2, "Bad usage"},
			      {3, "Neither the collector nor /proc could be read"}),
	},
	{
		.name = "status",
		.function = command_status,
		.summary = "Tell how the collector is",
		.usage = "[--json]",
		.description = "Asks the running collector for its modules and why one failed, its "
			       "rates and losses, the "
			       "spool's accounting, and the CPU and memory it uses itself. Announces what "
			       "updates need and soon expires, 30, 14, 7 and 1 days before.",
		.options = OPTIONS({"json", 'j', NULL, "The collector's own JSON object, and when updates expire"},
				   {"socket", 0, "FILE", "The collector's status socket"},
				   {"metadata-dir", 0, "DIR",
				    "What updates trust, for its expiry (default: /var/lib/tracer/update)"}),
		.examples = EXAMPLES({"tracer status", "For a person"},
				     {"tracer status --json | jq .rings", "For a script"}),
		.exits = EXITS({0, "It runs, every module works and nothing was lost"},
			       {1, "A module failed or something was lost; the output says what"},
			       {2, "Bad usage"}, {3, "No collector runs, or it may not be asked"}),
	},
	{
		.name = "doctor",
		.function = command_doctor,
		.summary = "Check what this host lets tracer see",
		.usage = "[--json]",
		.description = "Looks at the kernel, its BTF and BPF, capabilities, lockdown, "
			       "cgroups, pressure "
			       "accounting, the disk of the spool and the clock. Each row is ok, "
			       "warn or fail, and tells how to "
			       "mend it. It changes nothing: a small BPF program is loaded and "
			       "dropped at once.",
		.options = OPTIONS({"json", 'j', NULL, "One JSON object a line for each check"},
				   {"spool", 0, "DIR",
				    "The spool's directory (default: /var/lib/tracer/spool)"}),
		.examples = EXAMPLES({"sudo tracer doctor", "What the collector will find"},
				     {"tracer doctor --json | jq 'select(.state != \"ok\")'",
				      "What is not right"}),
		.exits = EXITS({0, "Nothing failed"}, {1, "At least one check failed"},
			       {2, "Bad usage"}),
	},
	{
		.name = "report",
		.function = command_report,
		.summary = "Print the report of a recorded file",
		.usage = "[--json] FILE",
		.description = "Makes the report of `tracer run` again from the records in FILE, "
			       "as `tracer run -o FILE` wrote "
			       "them; - reads standard input. Lines that are no records are "
			       "counted and skipped.",
		.options = OPTIONS({"json", 'j', NULL, "One JSON object, nothing folded"}),
		.examples = EXAMPLES(
			{"tracer report run.ndjson", "What ran, as it was shown when it ended"},
			{"tracer spool dump | tracer report -",
			 "The same for all the collector kept"},
			{"tracer report --json run.ndjson | jq .cpu_ns", "One figure"}),
		.exits = EXITS({0, "The report was printed"},
			       {1, "It was, but some lines were damaged"},
			       {2, "Bad usage, or no record in the file"},
			       {3, "Reading was not permitted"}),
	},
	{
		.name = "runs",
		.function = command_rows,
		.summary = "List the runs in the lake",
		.usage = "[OPTION...]",
		.description = "One line for each start of a pipeline, script or job on a host, "
			       "newest first. Reads "
			       "the store on this machine, or with --url a datalake elsewhere; "
			       "both answer alike. "
			       "Columns and their units: `tracer sql --tables`.",
		.options = OPTIONS(ROWS_RUN_OPTION, ROWS_OPTIONS("-start_ns")),
		.examples = EXAMPLES(
			{"tracer runs --since 1d", "What ran today"},
			{"tracer runs --where 'failures>0' --json",
			 "Runs with failed processes, for a program"},
			{"tracer runs --url https://lake:7070 --token-file ~/.tracer-token",
			 "The same of a datalake elsewhere"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "show",
		.function = command_show,
		.summary = "Print the report of a run in the lake",
		.usage = "[OPTION...] RUN",
		.description = "Makes the report of `tracer run` from what the lake has of RUN: "
			       "the id that `tracer runs` "
			       "shows last, or a name, of which the latest run is taken. A run "
			       "over several hosts is one "
			       "report.",
		.options = OPTIONS({"json", 'j', NULL, "One JSON object, nothing folded"},
				   ASK_WHERE_OPTIONS),
		.examples = EXAMPLES({"tracer show pipeline.sh", "The latest run of that name"},
				     {"tracer show --json pipeline.sh | jq .cpu_ns", "One figure"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "export",
		.function = command_export,
		.summary = "Write a run of the lake for another tool",
		.usage = "[OPTION...] RUN",
		.description = "Writes RUN, with its parts on all hosts, as trace (Nextflow's trace.txt), snakemake "
			       "(its benchmark table), csv (every process), ndjson (runs, tasks, tools and processes), "
			       "perfetto (for ui.perfetto.dev) or otlp (an OpenTelemetry trace). What is not known "
			       "is absent, or what the format has for it; docs/export.md has the columns.",
		.options = OPTIONS({"format", 'f', "trace|snakemake|csv|ndjson|perfetto|otlp",
				    "What to write (default: ndjson)"},
				   {"output", 'o', "FILE", "Where to, instead of standard output"}, ASK_WHERE_OPTIONS),
		.examples = EXAMPLES({"tracer export --format perfetto -o run.perfetto-trace pipeline.sh",
				      "A timeline for the browser"},
				     {"tracer export --format trace main.nf > trace.txt", "For what reads Nextflow's"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "tasks",
		.function = command_rows,
		.summary = "List the tasks of runs",
		.usage = "[OPTION...]",
		.description = "One line for each step of a run. Reads the store on this machine, "
			       "or with --url a "
			       "datalake elsewhere; both answer alike. Columns and their units: "
			       "`tracer sql "
			       "--tables`.",
		.options = OPTIONS(ROWS_RUN_OPTION, ROWS_OPTIONS("-start_ns")),
		.examples = EXAMPLES(
			{"tracer tasks --run pipeline.sh --sort -cpu_ns",
			 "Where a run's CPU time went"},
			{"tracer tasks --where 'exit_code!=0' --since 1d", "What failed today"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "tools",
		.function = command_rows,
		.summary = "List the tools that ran, with their sums",
		.usage = "[OPTION...]",
		.description = "One line for each program by name, in each run and outside of "
			       "runs. Reads the store "
			       "on this machine, or with --url a datalake elsewhere; both answer "
			       "alike. Columns and "
			       "their units: `tracer sql --tables`.",
		.options = OPTIONS(ROWS_RUN_OPTION, ROWS_OPTIONS("-cpu_ns")),
		.examples = EXAMPLES({"tracer tools --run pipeline.sh", "What a run is made of"},
				     {"tracer tools --where tool=gzip --csv",
				      "Every use of one tool, for a spreadsheet"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "processes",
		.function = command_rows,
		.summary = "List processes",
		.usage = "[OPTION...]",
		.description = "One line for each process, latest first. Reads the store on this "
			       "machine, or with "
			       "--url a datalake elsewhere; both answer alike. Columns and their "
			       "units: `tracer sql "
			       "--tables`.",
		.options = OPTIONS(ROWS_RUN_OPTION, ROWS_OPTIONS("-id")),
		.examples =
			EXAMPLES({"tracer processes --where 'peak_rss_bytes>8G'", "Large ones"},
				 {"tracer processes --run pipeline.sh --where 'exit_code!=0'",
				  "What failed in a run"},
				 {"tracer processes --where tool=bwa --limit 0 --json | jq .cpu_ns",
				  "Every figure of a tool"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "hosts",
		.function = command_rows,
		.summary = "List the hosts that write to the lake",
		.usage = "[OPTION...]",
		.description = "One line for each machine: when it was heard of last, and what was "
			       "lost on the way. "
			       "Reads the store on this machine, or with --url a datalake "
			       "elsewhere; both answer "
			       "alike. Columns and their units: `tracer sql --tables`.",
		.options = OPTIONS(ROWS_OPTIONS("host")),
		.examples = EXAMPLES(
			{"tracer hosts", "Is every machine still sending"},
			{"tracer hosts --where 'records_lost>0'", "Where records were lost"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "sql",
		.function = command_sql,
		.summary = "Ask the lake in SQL",
		.usage = "[OPTION...] QUESTION | - | --tables",
		.description = "Runs one SELECT over the tables that --tables lists, read-only: "
			       "with - it is read from standard "
			       "input. Time, memory, rows and the size of the answer are limited; "
			       "a question that reaches a "
			       "limit is stopped and says which.\n\n"
			       "It is the SQL of the store behind it: SQLite's, or ClickHouse's.",
		.options = OPTIONS(
			{"tables", 't', NULL, "List the tables and their columns"},
			{"limit", 'n', "N",
			 "At most so many rows (default: 10000, at most 1000000)"},
			{"timeout", 0, "SECONDS", "Stop after so long (default: 10, at most 60)"},
			{"json", 'j', NULL, "JSON lines"},
			{"csv", 0, NULL, "Comma-separated values, with the names first"},
			ASK_WHERE_OPTIONS),
		.examples = EXAMPLES(
			{"tracer sql 'SELECT tool, sum(cpu_ns)/1e9 AS s FROM tools GROUP BY tool "
			 "ORDER BY s DESC LIMIT 10'",
			 "The tools that used most CPU time"},
			{"tracer sql --csv - < question.sql > answer.csv", "A longer question"}),
		.exits = ASK_EXITS,
	},
	{
		.name = "spool",
		.function = command_spool,
		.summary = "Count, print or check the records a collector keeps on disk",
		.usage = "stats | dump | fsck [OPTION...] [DIR]",
		.description = "stats shows what was accepted, delivered, dropped and is pending, "
			       "dump prints the "
			       "records as NDJSON in the order in which they were written, fsck "
			       "names every "
			       "damaged place by file and offset, with the records it cost. DIR is "
			       "/var/lib/tracer/spool when none is given.\n\n"
			       "Nothing is changed, and a collector may be writing meanwhile. A "
			       "segment file is "
			       "readable text: `cat DIR/p-* | jq .` works too.",
		.words = "stats dump fsck",
		.options = OPTIONS({"json", 'j', NULL, "One JSON object (stats, fsck)"},
				   {"from", 'f', "SEQ", "dump: start with this sequence number"},
				   {"kind", 'k', "KIND", "dump: only records of this kind"}),
		.examples = EXAMPLES({"tracer spool stats", "Is anything lost, and why"},
				     {"tracer spool dump --kind process | jq -r .exe",
				      "Every executable that ended"},
				     {"tracer spool fsck --json ./copy-of-spool",
				      "Check a copy from another host"}),
		.exits = EXITS({0, "Good"},
			       {1, "fsck found damage, or the output could not be written"},
			       {2, "Bad usage, or no readable spool there"},
			       {3, "Reading was not permitted"}),
	},
	{
		.name = "stream",
		.function = command_stream,
		.summary = "Deliver a spool to a datalake, by hand",
		.usage = "[OPTION...]",
		.description = "What `tracer collect` does by itself when stream.url is set: reads "
			       "the spool, sends its records and keeps what the server "
			       "acknowledged. By hand it is for a spool that was carried here from "
			       "a host without a network. As root it gives up every right first.\n\n"
			       "A server that cannot be reached is tried again for ever, unless --once "
			       "is given.",
		.options = OPTIONS(
			{"spool", 's', "DIR",
			 "The spool's directory (default: /var/lib/tracer/spool)"},
			{"once", '1', NULL,
			 "End when all is delivered, or with 1 at the first failure"},
			{"json", 'j', NULL, "One JSON object at the end, with what was delivered"}),
		.tables = command_stream_options,
		.examples = EXAMPLES(
			{"sudo tracer stream --once --spool ./copy-of-spool --stream-url https://lake:7070",
			 "Deliver what another host recorded"}),
		.exits = EXITS({0, "All is delivered, or it was told to stop"},
			       {1, "Something is left; it says why"},
			       {2, "Bad usage or configuration"},
			       {3, "The spool or a secret may not be read"}),
	},
	{
		.name = "rules",
		.function = command_rules,
		.summary = "Check, explain and list the rules that name tools and tasks",
		.usage = "check [DIR] | test [OPTION...] -- COMMAND... | list",
		.description = "check reads the shipped rules and those of DIR "
			       "(/etc/tracer/rules.d when none "
			       "is given) and says what is wrong, with file and line.\n\n"
			       "test says which rules a command matches and why. Its first word "
			       "stands for the "
			       "executable.\n\n"
			       "list prints every rule in the order in which they are tried.",
		.words = "check test list",
		.options = OPTIONS(
			{"rules", 'r', "DIR", "Rules of your own, instead of /etc/tracer/rules.d"},
			{"cwd", 0, "DIR", "Working directory of the command"},
			{"parent", 0, "COMMAND", "Command line of its parent process"},
			{"engine", 0, "NAME", "Engine of the run it is in"},
			{"cgroup", 0, "PATH", "Its cgroup, below the root of the hierarchy"},
			{"container", 0, "RUNTIME", "What runs its container, such as docker"},
			{"script", 0, "FILE",
			 "The script, when the kernel started an interpreter"}),
		.examples = EXAMPLES({"tracer rules test -- bwa mem -t 8 ref.fa a_1.fq a_2.fq",
				      "Which rule names it, and why"},
				     {"tracer rules check ./my-rules", "Before installing them"}),
		.exits = EXITS({0, "The rules are good"}, {1, "Some rule can never match"},
			       {2, "Bad usage, or bad rules"}),
	},
	{
		.name = "update",
		.function = command_update,
		.summary = "Verify what is new, install it, and go back",
		.usage = "[OPTION...] init [ROOT] | refresh | download [TARGET] | --apply | --rollback | ...",
		.description =
			"A client of The Update Framework 1.0. init starts trust with the root metadata in the file "
			"ROOT, which has to come by a way that you trust; without it, and wherever nothing is trusted "
			"yet, with the one that a release carries inside. refresh brings the trusted metadata up to "
			"date. --check does that and says whether there is a newer version for this host. download "
			"puts a target into --target-dir, by its name or, without one, what --check would show; a file "
			"that is there already and right is not fetched again. --status shows what is trusted and "
			"until when, without a network; it speaks up 30, 14, 7 and 1 days before.\n\n"
			"--apply installs what --check shows beside the version that runs and switches to it in one "
			"rename; two versions are kept. --rollback switches back and remembers the version it left as "
			"bad, so that it is not taken again. In a container neither is done: its image is what is "
			"updated.\n\n"
			"A child process without user, capabilities and files has the network; this one gives up "
			"any way to a network and verifies. When something is expired, older than what was seen, "
			"too long or not signed by enough keys, nothing is taken, and the collector goes on as it "
			"is. docs/update.md says what is checked.",
		.words = "init refresh download",
		.options = OPTIONS(
			{"check", 0, NULL, "Refresh, then say whether there is something newer"},
			{"apply", 0, NULL, "Refresh, then install what is newer and switch to it"},
			{"automatic", 0, NULL, "As a timer does: in the window, after the jitter, by percentage"},
			{"rollback", 0, NULL, "Switch back to the version before, and remember the other as bad"},
			{"status", 0, NULL, "Show what is trusted, when it expires, and what was last done"},
			{"rules", 0, NULL, "With --apply and --rollback: pushed rules, not the program"},
			{"pin", 0, "VERSION", "Take this version and no other"},
			{"unpin", 0, NULL, "Take the newest again"},
			{"hold", 0, NULL, "Install nothing until --unhold"},
			{"unhold", 0, NULL, "Install again"},
			{"prefix", 0, "DIR", "Of the installation (default: this program's, else /usr/local)"},
			{"config", 'c', "FILE", "Configuration instead of /etc/tracer/update.yaml"},
			{"bundle", 0, "FILE", "Everything from this file instead, without a network"},
			{"metadata-dir", 0, "DIR", "Trusted metadata (default: /var/lib/tracer/update)"},
			{"target-dir", 0, "DIR", "Where to put a target (default: here)"},
			{"target-name", 0, "TARGET", "The same as the operand of download"},
			{"json", 'j', NULL, "Machine-readable output of refresh, --check and --status"}),
		.examples = EXAMPLES(
			{"sudo tracer update init root.json", "Trust begins"},
			{"sudo tracer update --metadata-url https://updates.example/metadata --check",
			 "Is there something newer?"},
			{"tracer update --status", "What is trusted, and until when"}),
		.tables = command_update_options,
		.exits = EXITS({0, "It was done; --check: with or without something newer"},
			       {1, "Refused or not reachable; --status: something is missing or expired"},
			       {2, "Bad usage"}, {3, "Not permitted"}),
	},
	{
		.name = "bundle",
		.function = command_bundle,
		.summary = "One file with an update, for hosts without a network",
		.usage = "[OPTION...] create DIR FILE | inspect FILE | verify FILE | serve DIR|FILE",
		.description =
			"create makes FILE from a repository on disk, DIR with metadata/ and targets/: all its "
			"roots, its timestamp, snapshot, targets.json and the roles delegated below it, and every "
			"target in those. All of it is verified first, beginning with the oldest root. inspect lists "
			"what a bundle says it has, believing it. verify does what a host would do with it, with the "
			"trusted metadata of --metadata-dir or the root of --root, down to every byte of every "
			"target, and changes nothing.\n\n"
			"serve is a mirror over plain HTTP, of a published tree or of a bundle as it is, for a network "
			"without a way out: hosts say --metadata-url http://ADDRESS:PORT/metadata. It gives up its "
			"rights first, and needs no trust: hosts verify.\n\n"
			"`tracer update --bundle FILE` takes from it what it would take from a server, with the "
			"same verifier: an older or expired bundle is refused, and there is no way around.",
		.words = "create inspect verify serve",
		.options = OPTIONS(
			{"metadata-dir", 0, "DIR", "verify: as a host with this (default: /var/lib/tracer/update)"},
			{"root", 0, "FILE", "verify: as a host that has this root and nothing else"},
			{"listen", 0, "ADDRESS:PORT", "serve: where (default: 127.0.0.1:7080)"}),
		.examples = EXAMPLES(
			{"tracer bundle create site update.bundle", "Out of what a server has"},
			{"tracer bundle verify --root root.json update.bundle", "Before it is carried away"},
			{"sudo tracer update --bundle update.bundle --check", "On the host"},
			{"sudo tracer bundle serve --listen 10.0.0.5:7080 update.bundle", "A mirror of it"}),
		.exits = EXITS({0, "It was done"}, {1, "Refused: damaged, expired, older or not signed"},
			       {2, "Bad usage"}, {3, "Not permitted"}),
	},
	{
		.name = "version",
		.function = command_version,
		.summary = "Print the version",
		.usage = "[--json]",
		.description = "Prints the version of the program and of the record schema it "
			       "writes.",
		.options = OPTIONS({"json", 'j', NULL, "One JSON object"}),
		.examples = EXAMPLES({"tracer version", "The version, for a bug report"}),
		.exits = EXITS({0, "Always"}, {2, "Bad usage"}),
	},
	{
		.name = "help",
		.function = command_help,
		.summary = "Show what a command does",
		.usage = "[COMMAND]",
		.description = "Without a command: the list of commands. With one: the same as "
			       "`tracer COMMAND --help`.",
		.examples = EXAMPLES({"tracer help version", "Everything about one command"}),
		.exits = EXITS({0, "The help was printed"}, {2, "No such command"}),
	},
	{
		.name = "completion",
		.function = command_completion,
		.summary = "Print a shell's completion script",
		.usage = "bash|zsh|fish",
		.description = "Prints a script that completes commands, their options and file "
			       "names. Load it from the shell's "
			       "start-up file, or save it where the shell looks for completions.",
		.words = "bash zsh fish",
		.examples = EXAMPLES({"source <(tracer completion bash)", "For this shell only"},
				     {"tracer completion fish > "
				      "~/.config/fish/completions/tracer.fish",
				      "For good"}),
		.exits = EXITS({0, "The script was printed"}, {2, "Bad usage"}),
	},
	{
		.name = "man",
		.function = command_man,
		.summary = "Print the manual page",
		.usage = "",
		.description = "Prints the manual page of tracer and all its commands, as roff for "
			       "man(1).",
		.examples = EXAMPLES({"tracer man | man -l -", "Read it"},
				     {"tracer man > /usr/local/share/man/man1/tracer.1", "Install "
											 "it"}),
		.exits = EXITS({0, "The page was printed"}, {2, "Bad usage"}),
	},
	{0},
};
