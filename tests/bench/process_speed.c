// SPDX-License-Identifier: Apache-2.0
// Cost of the way of a process through user space: four records as they come out of the ring (fork, exec, exit, free),
// process table, rules, correlation, its record as JSON. No kernel, no disk.
//
//   make build/tests/bench/process_speed && build/tests/bench/process_speed [PROCESSES [same|varied|forks]]
//
// Prints one line "name value unit" a figure. `valgrind --tool=callgrind` counts its instructions, which no other load
// of the machine changes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/proc.h"
#include "core/agent.h"
#include "core/base/clock.h"
#include "core/base/loop.h"
#include "core/module.h"

enum { SHELL_PID = 1000, FIRST_PID = 10000, PIDS = 1 << 15, TEXT_SIZE = 8192, IN_FLIGHT = 8 };

struct bench {
	struct agent *agent;
	const struct module *proc;
	void *state;
	uint64_t now_ns;
	uint64_t bytes, records;
	struct event_identity shell;
};

// The strings of an exec record: paths from leaf to root, each component with its NUL.
struct command {
	const char *exe, *filename, *args;
	size_t exe_size, args_size;
};

#define PROGRAM(path, name, arguments) \
	{ .exe = path, .exe_size = sizeof(path), .filename = name, .args = arguments, .args_size = sizeof(arguments) }

static const char long_argument[480] = { [0 ... 478] = 'a' };
static const struct command pipeline[] = {
	PROGRAM("samtools\0bin\0usr", "/usr/bin/samtools", "samtools\0sort\0-@\0004\0-o\0sample_0000.sorted.bam\0sample_0000.bam"),
	PROGRAM("mawk\0bin\0usr", "/usr/bin/awk", "awk\0-F\0\t\0{ n[$1]++ } END { for (k in n) print k, n[k] }\0counts_0000.tsv"),
	PROGRAM("dash\0bin\0usr", "/bin/sh", "/bin/sh\0-c\0gzip -dc reads_0000.fastq.gz | wc -l"),
	PROGRAM("gzip\0bin\0usr", "/usr/bin/gzip", "gzip\0-dc\0reads_0000.fastq.gz"),
	PROGRAM("python3.11\0bin\0usr", "/usr/bin/python3", "python3\0scripts/merge.py\0--out\0merged_0000.csv\0--seed\0000000"),
	PROGRAM("dirname\0bin\0usr", "/usr/bin/dirname", "dirname\0--\0/srv/data/run_0000/lane.txt"),
};

static int take(void *context, const char *records, size_t length, uint32_t count, enum record_class class)
{
	struct bench *bench = context;

	(void)records;
	(void)class;
	bench->bytes += length;
	bench->records += count;
	return 0;
}

static void submit(struct bench *bench, struct event_header *header, uint16_t kind, size_t size)
{
	header->kind = kind;
	header->size = (uint32_t)size;
	header->time_ns = bench->now_ns;
	bench->now_ns += 50000;
	if (bench->proc->record(bench->state, header) < 0) {
		fprintf(stderr, "a record was refused\n");
		exit(1);
	}
}

static void identity(struct bench *bench, uint32_t pid, uint64_t start_ns, struct event_identity *ret_identity)
{
	*ret_identity = bench->shell;
	ret_identity->parent = bench->shell.process;
	ret_identity->process = (struct event_process_id){ .pid = pid, .start_ns = start_ns };
	ret_identity->pid_in_namespace = pid;
}

static uint16_t put(char *text, size_t *used, const void *from, size_t size)
{
	memcpy(text + *used, from, size);
	*used += size;
	return (uint16_t)size;
}

static void fork_one(struct bench *bench, uint32_t pid, uint64_t start_ns)
{
	struct event_fork event = { .process = { .pid = pid, .start_ns = start_ns }, .parent = bench->shell.process };

	submit(bench, &event.header, EVENT_FORK, sizeof(event));
}

// Four digits in the text become those of number, so that no two processes have the same arguments.
static void vary(char *args, size_t size, uint32_t number)
{
	char digits[5];

	snprintf(digits, sizeof(digits), "%04u", number % 10000);
	for (size_t i = 0; i + 4 <= size; i++) {
		if (!memcmp(args + i, "0000", 4)) {
			memcpy(args + i, digits, 4);
			i += 3;
		}
	}
}

static void exec_one(struct bench *bench, uint32_t pid, uint64_t start_ns, const struct command *command, uint32_t number)
{
	static _Alignas(8) char buffer[sizeof(struct event_exec) + TEXT_SIZE];
	struct event_exec *event = (void *)buffer;
	char *text = buffer + sizeof(*event);
	size_t used = 0;

	memset(event, 0, sizeof(*event));
	identity(bench, pid, start_ns, &event->identity);
	memcpy(event->identity.comm, command->exe, strnlen(command->exe, 15));
	event->counters = (struct counters){ .cpu_ns = 90000, .minor_faults = 40, .threads = 1, .threads_max = 1 };
	event->exe_size = put(text, &used, command->exe, command->exe_size);
	event->cwd_size = put(text, &used, "demo\0srv", sizeof("demo\0srv"));
	event->filename_size = put(text, &used, command->filename, strlen(command->filename) + 1);
	event->args_size = event->args_total = (uint32_t)command->args_size;
	put(text, &used, command->args, command->args_size);
	vary(text + used - command->args_size, command->args_size, number);
	submit(bench, &event->header, EVENT_EXEC, sizeof(*event) + used);
}

static void exit_one(struct bench *bench, uint32_t pid, uint64_t start_ns)
{
	struct event_exit event = { .process = { .pid = pid, .start_ns = start_ns }, .comm = "some" };

	event.counters = (struct counters){ .cpu_ns = 413227 + pid, .utime_ns = 1000000, .minor_faults = 97,
					    .run_delay_ns = 3551, .rchar_bytes = 5321, .wchar_bytes = 120,
					    .read_syscalls = 12, .write_syscalls = 2, .involuntary_switches = 1,
					    .voluntary_switches = pid & 1, .threads_max = 1 };
	event.flags = PROC_EXIT_MM_READ;
	event.peak_rss_bytes = 1234567;
	event.anon_bytes = 345678;
	event.file_bytes = 888889;
	submit(bench, &event.header, EVENT_EXIT, sizeof(event));
}

static void free_one(struct bench *bench, uint32_t pid, uint64_t start_ns)
{
	struct event_free event = { .process = { .pid = pid, .start_ns = start_ns } };

	event.counters = (struct counters){ .cpu_ns = 423227 + pid, .utime_ns = 1000000, .minor_faults = 97,
					    .run_delay_ns = 3551, .rchar_bytes = 5321, .wchar_bytes = 120,
					    .read_syscalls = 12, .write_syscalls = 2, .involuntary_switches = 1,
					    .voluntary_switches = 1, .threads_max = 1 };
	submit(bench, &event.header, EVENT_FREE, sizeof(event));
}

// A few at a time, as the records of neighbours mix in a ring.
static void storm(struct bench *bench, const char *name, const struct command *programs, size_t count, uint32_t processes)
{
	uint64_t cpu_ns = clock_process_cpu_ns(), starts[IN_FLIGHT];
	uint32_t pids[IN_FLIGHT];

	bench->bytes = bench->records = 0;
	for (uint32_t done = 0; done < processes; done += IN_FLIGHT) {
		for (uint32_t i = 0; i < IN_FLIGHT; i++) {
			pids[i] = FIRST_PID + (done + i) % PIDS;
			starts[i] = bench->now_ns;
			fork_one(bench, pids[i], starts[i]);
		}
		for (uint32_t i = 0; count && i < IN_FLIGHT; i++)
			exec_one(bench, pids[i], starts[i], &programs[(done + i) % count], done + i);
		for (uint32_t i = 0; i < IN_FLIGHT; i++)
			exit_one(bench, pids[i], starts[i]);
		for (uint32_t i = 0; i < IN_FLIGHT; i++)
			free_one(bench, pids[i], starts[i]);
		agent_finish(bench->agent, 0);
	}
	cpu_ns = clock_process_cpu_ns() - cpu_ns;
	printf("%-10s %8.0f ns/process %8.0f bytes/record\n", name, (double)cpu_ns / processes,
	       (double)bench->bytes / (double)bench->records);
}

static void shell(struct bench *bench)
{
	static const struct command script = PROGRAM("dash\0bin\0usr", "/bin/sh", "/bin/sh\0./pipeline.sh");
	struct event_process_id *id = &bench->shell.process;

	bench->shell = (struct event_identity){ .uid = 1000, .gid = 1000, .session = 900, .process_group = 950 };
	for (uint32_t i = 0; i < PROC_NAMESPACES; i++)
		bench->shell.namespaces[i] = 4026531835 + i;
	memcpy(bench->shell.comm, "sh", 3);
	fork_one(bench, SHELL_PID, bench->now_ns);
	*id = (struct event_process_id){ .pid = SHELL_PID, .start_ns = bench->now_ns - 50000 };
	exec_one(bench, id->pid, id->start_ns, &script, 0);
	bench->shell.process = *id;
}

static bool wanted(int argc, char **argv, const char *name)
{
	return argc < 3 || !strcmp(argv[2], name);
}

int main(int argc, char **argv)
{
	static const char storm_args[] = "storms\0nothing";
	uint32_t processes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200000;
	char args[sizeof(storm_args) + sizeof(long_argument)];
	struct command same = PROGRAM("storms\0bench\0build", "/proc/self/exe", "");
	struct bench bench = { .proc = modules[0], .now_ns = clock_boot_ns() };
	struct agent_sink sink = { .write = take, .context = &bench };
	struct host_env env = { .cgroup_subsystem = -1, .page_size = 4096, .cpu_count = 1 };
	struct bpf_object_skeleton *skeleton;
	struct agent_options options;
	struct buf why = BUF_INIT;
	struct module_host host = { .env = &env };

	agent_options_default(&options);
	options.fallback = true;
	options.sinks = &sink;
	options.sink_count = 1;
	bench.state = calloc(1, bench.proc->state_size);
	if (!bench.state || loop_new(&options.loop) < 0 || agent_new(&options, &bench.agent, &why) < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], why.data ? why.data : "no memory");
		return 1;
	}
	host.agent = bench.agent;
	if (bench.proc->open(bench.state, &host, &skeleton) < 0)
		return 1;
	memcpy(args, storm_args, sizeof(storm_args));
	memcpy(args + sizeof(storm_args), long_argument, sizeof(long_argument));
	same.args = args;
	same.args_size = sizeof(args);
	shell(&bench);
	if (wanted(argc, argv, "same"))
		storm(&bench, "same", &same, 1, processes);
	if (wanted(argc, argv, "varied"))
		storm(&bench, "varied", pipeline, sizeof(pipeline) / sizeof(pipeline[0]), processes);
	if (wanted(argc, argv, "forks"))
		storm(&bench, "forks", NULL, 0, processes);
	bench.proc->close(bench.state);
	agent_free(bench.agent);
	loop_free(options.loop);
	free(bench.state);
	return 0;
}
