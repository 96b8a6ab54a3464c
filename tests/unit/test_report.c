// SPDX-License-Identifier: Apache-2.0
// The report: sums, shares of programs, bounds, retries, what is unknown, and hostile recordings.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_text.h"
#include "core/correlate.h"
#include "core/report_tree.h"

#define SECOND UINT64_C(1000000000)

static char test_id[] = "r1", test_name[] = "pipeline.sh", test_engine[] = "script";
static struct run test_run = {.id = test_id, .name = test_name, .engine = test_engine};

static struct report *test_report(void)
{
	const struct report_setup setup = {
		.command = "./pipeline.sh",
		.host = "node",
		.cpu_count = 4,
		.memory_bytes = 1 << 30,
		.start_boot_ns = 0,
	};
	struct report *report;

	assert_int_equal(report_new(&setup, &report), 0);
	return report;
}

// A process of one program, one CPU second in two seconds, exit code 0.
struct test_process {
	struct process process;
	struct image image;
	struct task task;
};

static void test_process_init(struct test_process *test, uint64_t start_s, const char *task,
			      const char *tool)
{
	static const char args[] = "sh\0step.sh\0a b";

	*test = (struct test_process){0};
	test->task = (struct task){.run = &test_run, .id = (char *)task, .name = (char *)task};
	test->task.root_start_boot_ns = start_s * SECOND;
	test->image = (struct image){.start_boot_ns = start_s * SECOND,
				     .tool = tool,
				     .args = args,
				     .args_size = sizeof(args),
				     .peak_rss_bytes = UNKNOWN};
	test->process = (struct process){
		.pid = 10,
		.start_boot_ns = start_s * SECOND,
		.exit_boot_ns = (start_s + 2) * SECOND,
		.images = &test->image,
		.image = &test->image,
		.image_count = 1,
		.peak_rss_bytes = 1000000,
		.run = &test_run,
		.task = &test->task,
	};
	test->process.counters =
		(struct counters){.cpu_ns = SECOND, .utime_ns = 3, .stime_ns = 1, .threads_max = 1};
	for (unsigned i = 0; i < FIGURE_END; i++)
		test->process.quality[i] = QUALITY_EXACT;
}

static void test_finish(struct report *report)
{
	const struct report_outcome outcome = {.end_boot_ns = 100 * SECOND};

	report_finish(report, &outcome);
}

static char *test_text(struct report *report, unsigned width, bool unicode)
{
	struct ui ui = {.width = width, .unicode = unicode};
	char *text = NULL;
	size_t size;

	ui.out = open_memstream(&text, &size);
	assert_int_equal(report_write(report, &ui), 0);
	fclose(ui.out);
	return text;
}

static char *test_json(struct report *report)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(report_write_json(report, out), 0);
	fclose(out);
	return text;
}

static void sums_go_to_tool_task_run_and_total(void **state)
{
	struct report *report = test_report();
	const struct report_node *run, *task;
	struct test_process test;

	(void)state;
	test_process_init(&test, 1, "t1", "bwa mem");
	test.task.sample = (char *)"liver"; // until another one shows up
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_process_init(&test, 2, "t1", "samtools sort");
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_process_init(&test, 9, "t2", "samtools sort");
	test.process.peak_rss_bytes = 5000000;
	// No tick met it: the kernel's rule calls all of it user time, and so does its record.
	test.process.counters.utime_ns = test.process.counters.stime_ns = 0;
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_finish(report);

	run = report->total.children;
	assert_string_equal(run->name, "pipeline.sh");
	assert_null(run->next);
	task = run->children;
	assert_string_equal(task->name, "t1");
	assert_null(task->sample);
	assert_string_equal(task->next->name, "t2");
	assert_int_equal(report->total.sum.value[REPORT_CPU], 3 * SECOND);
	assert_int_equal(run->sum.processes, 3);
	assert_int_equal(run->sum.peak_bytes, 5000000);
	assert_string_equal(run->sum.peak_tool, "samtools sort");
	assert_int_equal(task->sum.value[REPORT_CPU], 2 * SECOND);
	assert_int_equal(task->sum.value[REPORT_USER], 2 * SECOND / 4 * 3);
	assert_int_equal(task->next->sum.value[REPORT_USER], SECOND);
	assert_int_equal(task->next->sum.value[REPORT_SYSTEM], 0);
	assert_int_equal(task->next->sum.unknown[REPORT_USER], 0);
	assert_int_equal(task->sum.last_ns - task->sum.first_ns, 3 * SECOND);
	// Two CPU seconds in three seconds by processes of one thread: two thirds of one core.
	assert_true(report_offered_ns(report, task) == 3.0 * SECOND);
	assert_true(report_offered_ns(report, run) == 4.0 * 10 * SECOND);
	report_free(report);
}

static void programs_of_one_process_share_its_figures(void **state)
{
	struct report *report = test_report();
	struct image forked = {0}, shell = {0};
	const struct report_node *tool;
	struct test_process test;
	uint64_t sum = 0, processes = 0;

	(void)state;
	test_process_init(&test, 1, "t1", "sort");
	forked = (struct image){.forked = true,
				.next = &shell,
				.start_boot_ns = SECOND,
				.tool = "engine",
				.peak_rss_bytes = UNKNOWN};
	shell = (struct image){.next = &test.image,
			       .start_boot_ns = SECOND + 1000000,
			       .tool = "sh",
			       .peak_rss_bytes = 300,
			       .at_start = {.cpu_ns = 1000}};
	test.image.start_boot_ns = 2 * SECOND;
	test.image.at_start.cpu_ns = SECOND / 4;
	test.process.images = &forked;
	test.process.image_count = 3;
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_finish(report);

	tool = report->total.children->children->children;
	assert_string_equal(tool->name, "sort");
	assert_int_equal(tool->sum.processes, 1);
	assert_int_equal(tool->sum.value[REPORT_CPU], SECOND - SECOND / 4);
	assert_string_equal(tool->next->name, "sh");
	assert_null(tool->next->next);
	for (; tool; tool = tool->next) {
		sum += tool->sum.value[REPORT_CPU];
		processes += tool->sum.processes;
	}
	assert_int_equal(sum, SECOND);
	assert_int_equal(processes, 1);
	report_free(report);
}

static void unknown_figures_are_counted_and_never_zero(void **state)
{
	struct report *report = test_report();
	struct test_process test;
	char *json, *text;

	(void)state;
	test_process_init(&test, 1, "t1", "bwa");
	test.process.counters.cpu_ns = UNKNOWN;
	test.process.counters.rchar_bytes = UNKNOWN;
	test.process.quality[FIGURE_MEMORY] = QUALITY_UNKNOWN;
	test.process.quality[FIGURE_BLOCKED] = QUALITY_UNKNOWN;
	test.process.exit_code = -1;
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_finish(report);
	json = test_json(report);
	assert_non_null(strstr(json, "\"cpu_ns\":null"));
	assert_non_null(strstr(json, "\"peak_rss_bytes\":null"));
	assert_non_null(strstr(json, "\"blocked_disk_ns\":null"));
	assert_non_null(strstr(json, "\"rchar_bytes\":1"));
	text = test_text(report, 120, false);
	assert_non_null(strstr(text, "unknown for every process"));
	assert_non_null(strstr(text, "largest process ?"));
	assert_non_null(strstr(text, "Read and written bytes are unknown for 1"));
	assert_non_null(strstr(text, "not sampled"));
	free(json);
	free(text);
	report_free(report);
}

static void losses_and_notes_are_shown(void **state)
{
	struct report *report = test_report();
	char *text;

	(void)state;
	report_gap(report, "ring", "full", 3);
	report_gap(report, "ring", "full", 4);
	for (int i = 0; i < 100; i++) {
		char reason[32];

		snprintf(reason, sizeof(reason), "reason %d", i);
		report_gap(report, "spool", reason, 1);
	}
	report_note(report, "not root: no memory");
	report_note(report, "not root: no memory");
	assert_int_equal(report->note_count, 1);
	test_finish(report);
	text = test_text(report, 100, false);
	assert_non_null(strstr(text, "107 records; ring: full 7"));
	assert_non_null(strstr(text, "not root: no memory"));
	free(text);
	report_free(report);
}

// Arguments written with | between them.
static void test_arguments(struct test_process *test, char out[64], const char *text)
{
	test->image.args_size = (uint32_t)snprintf(out, 64, "%s", text) + 1;
	test->image.args = out;
	for (uint32_t i = 0; i < test->image.args_size; i++)
		out[i] = out[i] == '|' ? '\0' : out[i];
}

static void a_retry_is_the_same_work_after_a_failure(void **state)
{
	static const struct {
		const char *first, *second;
		int code;
		uint64_t start_s;
		uint32_t attempt;
	} cases[] = {
		{"sh|step.sh|a", "sh|step.sh|a", 1, 5, 2},
		{"sh|step.sh|a", "sh|step.sh|a", 0, 5, 1}, // the first one was fine
		{"sh|step.sh|a", "sh|step.sh|a", 1, 1, 1}, // side by side
		{"sh|step.sh|a", "sh|step.sh|b", 1, 5, 1}, // other work
		{"sh|step.sh|a|1", "sh|step.sh|a|2", 1, 5, 2}, // an attempt counter
		{"sh|step.sh|1", "sh|step.sh|2", 1, 5, 1}, // the next chunk
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct report *report = test_report();
		const struct report_node *second;
		struct test_process test;
		char args[64];

		test_process_init(&test, 1, "t1", "sh");
		test.task.name = (char *)"step.sh";
		test.process.exit_code = cases[i].code;
		test_arguments(&test, args, cases[i].first);
		assert_int_equal(report_process_end(report, &test.process), 0);
		test_process_init(&test, cases[i].start_s, "t2", "sh");
		test.task.name = (char *)"step.sh";
		test_arguments(&test, args, cases[i].second);
		assert_int_equal(report_process_end(report, &test.process), 0);
		test_finish(report);
		second = report->total.children->children;
		while (strcmp(second->id, "t2") != 0)
			second = second->next;
		assert_int_equal(second->attempt, cases[i].attempt);
		report_free(report);
	}
}

static void a_loop_that_fails_by_design_is_one_line(void **state)
{
	struct report *report = test_report();
	struct test_process test;
	char id[8], *text, *line;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(id, sizeof(id), "t%u", i);
		test_process_init(&test, 1 + 3 * i, id, "grep");
		test.task.name = (char *)"grep";
		test.process.exit_code = 1;
		assert_int_equal(report_process_end(report, &test.process), 0);
	}
	test_finish(report);
	text = test_text(report, 120, false);
	line = strstr(text, "exit 1 x20");
	assert_non_null(line);
	assert_null(strstr(line + 1, "exit 1"));
	assert_null(strstr(text, "tried again"));
	assert_null(strstr(text, "(try"));
	free(text);
	report_free(report);
}

static void the_critical_chain_goes_back_from_the_last_end(void **state)
{
	static const uint64_t starts_s[] = {1, 2, 4, 7};
	struct report *report = test_report();
	const struct report_node *task;
	struct test_process test;
	char id[8];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(id, sizeof(id), "t%zu", i);
		test_process_init(&test, starts_s[i], id, "sh");
		assert_int_equal(report_process_end(report, &test.process), 0);
	}
	test_finish(report);
	// t3 runs 7 to 9, t2 4 to 6, then t1 2 to 4; t0, 1 to 3, ended while t1 ran.
	task = report->total.children->children;
	assert_false(task->critical);
	assert_true(task->next->critical);
	assert_true(task->next->next->critical);
	assert_true(task->next->next->next->critical);
	report_free(report);
}

static void failures_name_code_signal_and_limit(void **state)
{
	struct report *report = test_report();
	struct test_process test;
	char *text;

	(void)state;
	for (int i = 0; i < 5; i++) {
		test_process_init(&test, 1, "t1", "grep");
		test.process.exit_code = 1;
		assert_int_equal(report_process_end(report, &test.process), 0);
	}
	test_process_init(&test, 0, "t1", "sh");
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_process_init(&test, 3, "t2", "bwa");
	test.process.exit_code = -1;
	test.process.signal = 11;
	test.process.core_dumped = true;
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_process_init(&test, 4, "t3", "R");
	test.process.exit_code = -1;
	test.process.signal = 9;
	test.process.oom = true;
	test.process.oom_limit = "/slurm/job_7";
	assert_int_equal(report_process_end(report, &test.process), 0);
	test_finish(report);
	text = test_text(report, 140, false);
	assert_non_null(strstr(text, "7 ended with a failure code or a signal"));
	assert_non_null(strstr(text, "SIGSEGV, core dumped"));
	assert_non_null(strstr(text, "out of memory (limit: /slurm/job_7)"));
	assert_non_null(strstr(text, "sh step.sh 'a b'"));
	assert_non_null(strstr(text, "grep exit 1 x5"));
	free(text);
	report_free(report);
}

static void rows_are_bounded_and_totals_stay_exact(void **state)
{
	enum { TASKS = 60000 };
	struct report *report = test_report();
	struct test_process test;
	char id[24], *text;

	(void)state;
	// Starts go down: the first process of a row changes each time, and its memory must not grow by it.
	for (unsigned i = 0; i < TASKS; i++) {
		snprintf(id, sizeof(id), "t%u", i);
		test_process_init(&test, 2 * TASKS - i, id, id);
		test.process.exit_code = (int32_t)(i % 250);
		assert_int_equal(report_process_end(report, &test.process), 0);
	}
	test_finish(report);
	assert_true(report->nodes < 2 * REPORT_NODES_MAX);
	assert_true(report->arena.used_bytes < 40 << 20);
	assert_int_equal(report->total.sum.processes, TASKS);
	assert_int_equal(report->total.sum.value[REPORT_CPU], TASKS * SECOND);
	assert_int_equal(report->failure_count, REPORT_FAILURES_MAX);
	text = test_text(report, 100, true);
	assert_non_null(strstr(text, "(all others)"));
	assert_true(strlen(text) < 20000);
	free(text);
	report_free(report);
}

// Every line fits, is valid for a terminal and carries no control character.
static void test_lines(const char *text, unsigned width)
{
	char line[2000];

	while (*text) {
		size_t length = strcspn(text, "\n");

		assert_true(length < sizeof(line));
		memcpy(line, text, length);
		line[length] = 0;
		for (size_t i = 0; i < length; i++)
			assert_true((unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
		assert_null(strstr(line, "\xe2\x80\xae"));
		if (ui_columns(line) > width)
			fail_msg("%zu columns, not %u: %s", ui_columns(line), width, line);
		text += length + (text[length] == '\n');
	}
}

static void hostile_names_stay_in_their_columns(void **state)
{
	static const char *const names[] = {"\033[2J\033]0;x\007",
					    "a\nb\tc",
					    "\xff\xfe\x80",
					    "\xe2\x80\xae"
					    "abc",
					    "",
					    "%s%n%s",
					    "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97",
					    NULL};
	static char longest[5000];
	struct report *report = test_report();
	struct test_process test;

	(void)state;
	memset(longest, 'L', sizeof(longest) - 1);
	for (size_t i = 0; i <= sizeof(names) / sizeof(names[0]); i++) {
		const char *name = i < sizeof(names) / sizeof(names[0]) ? names[i] : longest;

		test_process_init(&test, 1 + i, name ? name : "none", name);
		test.image.args = name;
		test.image.args_size = name ? (uint32_t)strlen(name) + 1 : 0;
		test.process.exit_code = (int32_t)i;
		test.process.oom_limit = name;
		assert_int_equal(report_process_end(report, &test.process), 0);
		report_note(report, name ? name : "none");
		report_gap(report, name ? name : "none", "x", 1);
	}
	test_finish(report);
	for (unsigned width = 80; width <= 200; width += 15) {
		char *text = test_text(report, width, width % 2);

		test_lines(text, width);
		free(text);
	}
	report_free(report);
}

static int test_read(const char *data, size_t size, struct report **ret_report)
{
	const struct report_setup setup = {.memory_bytes = UNKNOWN, .start_boot_ns = UNKNOWN};
	const struct report_outcome outcome = {.end_boot_ns = UNKNOWN, .exit_code = -1};
	FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
	int result;

	assert_non_null(file);
	assert_int_equal(report_new(&setup, ret_report), 0);
	result = report_read(*ret_report, file);
	fclose(file);
	report_finish(*ret_report, &outcome);
	return result;
}

static const char test_records[] =
	"{\"kind\":\"host\",\"host\":\"n1\",\"cpu_count\":2,\"memory_bytes\":1000}\n"
	"{\"kind\":\"process\",\"pid\":7,\"start_ns\":1000000000,\"start_boot_ns\":5,\"end_ns\":"
	"null}\n"
	"{\"kind\":\"process\",\"pid\":8,\"start_ns\":1000000000,\"start_boot_ns\":6,\"end_ns\":"
	"null}\n"
	"{\"kind\":\"process\",\"pid\":7,\"start_ns\":1000000000,\"start_boot_ns\":5,\"end_ns\":"
	"3000000000,"
	"\"cpu_ns\":500,\"tool\":\"sort\",\"run\":\"r\",\"run_name\":\"x.sh\",\"engine\":"
	"\"script\",\"task\":\"t\","
	"\"task_name\":\"sort\",\"exit_code\":3,\"signal\":null,\"args\":[\"sort\",\"-k\",\"a b\"],"
	"\"images\":[{\"start_ns\":1000000000,\"tool\":\"sh\",\"cpu_ns\":100},"
	"{\"start_ns\":2000000000,\"tool\":\"sort\",\"cpu_ns\":400}],\"quality\":{\"memory\":"
	"\"sampled\"},"
	"\"peak_rss_bytes\":4096,\"threads_max\":2}\n"
	"{\"kind\":\"gap\",\"room\":\"ring\",\"reason\":\"full\",\"count\":5}\n"
	"{\"kind\":\"of the future\"}\n";

static void a_recording_reads_back(void **state)
{
	const struct report_node *tool;
	struct report *report;

	(void)state;
	assert_int_equal(test_read(test_records, sizeof(test_records) - 1, &report), 0);
	assert_int_equal(report->total.sum.processes, 1);
	assert_int_equal(report->outcome.exit_code, -1);
	assert_int_equal(report->bad_lines, 0);
	assert_int_equal(report->gaps[0].count, 5);
	assert_int_equal(report->setup.cpu_count, 2);
	tool = report->total.children->children->children;
	assert_string_equal(tool->name, "sort");
	assert_int_equal(tool->sum.value[REPORT_CPU], 400);
	assert_int_equal(tool->next->sum.value[REPORT_CPU], 100);
	assert_int_equal(tool->sum.unknown[REPORT_RCHAR], 1);
	assert_int_equal(tool->parent->end.exit_code, 3);
	assert_string_equal(tool->parent->command, "sort -k 'a b'");
	report_free(report);
}

// What version 2 says by absence: exact figures, shares of 0, reasons that were not seen.
static void a_recording_of_version_2_reads_back(void **state)
{
	static const char records[] =
		"{\"kind\":\"process\",\"pid\":7,\"start_ns\":1000000000,\"start_boot_ns\":5,\"end_ns\":"
		"3000000000,\"cpu_ns\":900000400,\"rchar_bytes\":70,\"tool\":\"sort\",\"run\":\"r\",\"task\":\"t\","
		"\"blocked_ns\":{\"pipe\":900},"
		"\"peak_rss_bytes\":4096,\"images\":[{\"forked\":true,\"tool\":\"sh\",\"cpu_ns\":900000000},"
		"{\"start_ns\":2000000000,\"tool\":\"sort\",\"cpu_ns\":400,\"rchar_bytes\":70}],\"quality\":"
		"{\"blocked\":\"sampled\"}}\n"
		"{\"kind\":\"process\",\"pid\":8,\"start_ns\":1000000000,\"start_boot_ns\":6,\"end_ns\":"
		"1000000001,\"blocked_ns\":{},\"tool\":\"true\",\"run\":\"r\",\"task\":\"t\","
		"\"images\":[{\"forked\":true}],\"quality\":{}}\n"
		"{\"kind\":\"process\",\"pid\":9,\"start_ns\":1000000000,\"start_boot_ns\":7,\"end_ns\":"
		"1000000001,\"blocked_ns\":null,\"tool\":\"wc\",\"run\":\"r\",\"task\":\"t\",\"images\":[{}],"
		"\"quality\":{\"blocked\":\"unknown\"}}\n";
	const struct report_node *tool, *task;
	struct report *report;

	(void)state;
	assert_int_equal(test_read(records, sizeof(records) - 1, &report), 0);
	assert_int_equal(report->bad_lines, 0);
	task = report_find(report, REPORT_RUN, &report->total, "r");
	task = report_find(report, REPORT_TASK, task, "t");
	tool = report_find(report, REPORT_TOOL, task, "sort");
	assert_int_equal(tool->sum.value[REPORT_CPU], 400);
	assert_int_equal(tool->sum.value[REPORT_RCHAR], 70);
	assert_int_equal(tool->sum.peak_quality, QUALITY_EXACT);
	assert_int_equal(tool->sum.value[REPORT_BLOCKED + BLOCKED_PIPE], 900);
	assert_int_equal(tool->sum.value[REPORT_BLOCKED + BLOCKED_DISK], 0);
	assert_int_equal(tool->sum.unknown[REPORT_BLOCKED + BLOCKED_DISK], 0);
	tool = report_find(report, REPORT_TOOL, task, "sh");
	assert_int_equal(tool->sum.value[REPORT_CPU], 900000000);
	assert_int_equal(tool->sum.value[REPORT_RCHAR], 0);
	assert_int_equal(tool->sum.unknown[REPORT_RCHAR], 0);
	tool = report_find(report, REPORT_TOOL, task, "true");
	assert_int_equal(tool->sum.unknown[REPORT_BLOCKED + BLOCKED_PIPE], 0);
	tool = report_find(report, REPORT_TOOL, task, "wc");
	assert_int_equal(tool->sum.unknown[REPORT_BLOCKED + BLOCKED_PIPE], 1);
	report_free(report);
}

// Probes and answers are no failures; where the whole failed with the answer it is told. And `tracer run`'s first image,
// of nobody, has no row.
static void answers_and_probes_are_no_failures(void **state)
{
	static const char format[] =
		"{\"kind\":\"process\",\"pid\":7,\"start_ns\":1000000000,\"start_boot_ns\":5,\"end_ns\":9000000000,"
		"\"exit_code\":%d,\"tool\":\"sh x.sh\",\"run\":\"r\",\"run_name\":\"x.sh\",\"engine\":\"script\","
		"\"images\":[{\"start_ns\":1000000000,\"comm\":null,\"tool\":null,\"cpu_ns\":9000000},"
		"{\"start_ns\":2000000000,\"tool\":\"sh x.sh\"}],\"quality\":{}}\n"
		"{\"kind\":\"process\",\"pid\":8,\"start_ns\":3000000000,\"start_boot_ns\":6,\"end_ns\":3100000000,"
		"\"exit_code\":null,\"signal\":9,\"tool\":\"sleep\",\"run\":\"r\",\"task\":\"t1\",\"task_name\":\"parallel\","
		"\"engine\":\"script\",\"images\":[{}],\"quality\":{\"end\":\"probe\"}}\n"
		"{\"kind\":\"process\",\"pid\":9,\"start_ns\":4000000000,\"start_boot_ns\":7,\"end_ns\":4100000000,"
		"\"exit_code\":1,\"tool\":\"grep\",\"run\":\"r\",\"task\":\"t2\",\"task_name\":\"grep\","
		"\"engine\":\"script\",\"images\":[{}],\"quality\":{\"end\":\"answer\"}}\n";

	(void)state;
	for (int code = 0; code <= 2; code++) {
		char records[2000], *text;
		struct report *report;

		snprintf(records, sizeof(records), format, code);
		assert_int_equal(test_read(records, strlen(records), &report), 0);
		text = test_text(report, 120, false);
		assert_int_equal(report->total.sum.failures, code == 0 ? 0 : code == 1 ? 2 : 1);
		assert_null(strstr(text, "SIGKILL"));
		for (const struct report_node *row = report->total.children->children; row; row = row->next)
			assert_string_not_equal(row->name, "?");
		assert_int_equal(strstr(text, "Failures") != NULL, code != 0);
		assert_int_equal(strstr(text, "x grep ") != NULL, code == 1);
		free(text);
		report_free(report);
	}
}

static void runs_read_from_a_file_are_nested(void **state)
{
	// The innermost ends first; c says it is inside itself.
	static const char records[] = "{\"kind\":\"process\",\"pid\":1,\"start_ns\":1,\"end_ns\":5,"
				      "\"cpu_ns\":1,\"run\":\"a\",\"run_parent\":\"b\"}\n"
				      "{\"kind\":\"process\",\"pid\":2,\"start_ns\":1,\"end_ns\":6,"
				      "\"cpu_ns\":2,\"run\":\"b\",\"run_parent\":\"r\"}\n"
				      "{\"kind\":\"process\",\"pid\":3,\"start_ns\":1,\"end_ns\":7,"
				      "\"cpu_ns\":4,\"run\":\"r\"}\n"
				      "{\"kind\":\"process\",\"pid\":4,\"start_ns\":1,\"end_ns\":8,"
				      "\"cpu_ns\":8,\"run\":\"c\",\"run_parent\":\"c\"}\n"
				      "{\"kind\":\"process\",\"pid\":5,\"start_ns\":1,\"end_ns\":8,"
				      "\"cpu_ns\":8,\"run\":\"d\",\"run_parent\":\"e\"}\n"
				      "{\"kind\":\"process\",\"pid\":6,\"start_ns\":1,\"end_ns\":8,"
				      "\"cpu_ns\":8,\"run\":\"e\",\"run_parent\":\"d\"}\n";
	const struct report_node *outer, *inner;
	struct report *report;

	(void)state;
	assert_int_equal(test_read(records, sizeof(records) - 1, &report), 0);
	outer = report_find(report, REPORT_RUN, &report->total, "r");
	inner = report_find(report, REPORT_RUN, &report->total, "a");
	assert_non_null(outer);
	assert_ptr_equal(outer->parent, &report->total);
	assert_ptr_equal(inner->parent->parent, outer);
	assert_int_equal(outer->sum.value[REPORT_CPU], 7);
	assert_int_equal(outer->sum.processes, 3);
	assert_int_equal(inner->parent->sum.value[REPORT_CPU], 3);
	assert_int_equal(report->total.sum.value[REPORT_CPU], 31);
	report_free(report);
}

static void a_process_still_open_is_told(void **state)
{
	const struct report_setup setup = {.memory_bytes = UNKNOWN, .start_boot_ns = UNKNOWN};
	FILE *file = fmemopen((void *)(uintptr_t)test_records, sizeof(test_records) - 1, "r");
	struct report *report;

	(void)state;
	assert_int_equal(report_new(&setup, &report), 0);
	assert_int_equal(report_read(report, file), 0);
	assert_int_equal(report->outcome.still_running, 1);
	fclose(file);
	report_free(report);
}

static void damaged_files_are_counted_not_followed(void **state)
{
	static const char not_records[] =
		"hello\n\x00\xff\n{\"kind\":1}\n[]\n{\"kind\":\"process\"}\n{\n";
	struct report *report;
	size_t size = 3 * 1024 * 1024;
	char *line = malloc(size);

	(void)state;
	assert_int_equal(test_read(not_records, sizeof(not_records) - 1, &report), -EBADMSG);
	assert_int_equal(report->bad_lines, 6);
	report_free(report);
	// A line of 3 MiB, then a record: the line is dropped whole.
	assert_non_null(line);
	memset(line, '[', size);
	line[size - 200] = '\n';
	memcpy(line + size - 199, test_records, 70);
	memset(line + size - 129, '\n', 129);
	assert_int_equal(test_read(line, size, &report), 0);
	assert_true(report->bad_lines >= 1);
	free(line);
	report_free(report);
}

static void mutated_recordings_never_harm(void **state)
{
	enum { ROUNDS = 3000 };
	static char data[sizeof(test_records)];
	static const char bytes[] = "\"{}[],:0919\\u\0n-e\xff\n";

	(void)state;
	srandom(7);
	for (int round = 0; round < ROUNDS; round++) {
		struct report *report;
		char *text, *json;

		memcpy(data, test_records, sizeof(data));
		for (int i = 0; i < 1 + round % 8; i++)
			data[(size_t)random() % (sizeof(data) - 1)] =
				bytes[(size_t)random() % (sizeof(bytes) - 1)];
		(void)test_read(data, sizeof(data) - 1, &report);
		text = test_text(report, 100, true);
		json = test_json(report);
		test_lines(text, 100);
		free(text);
		free(json);
		report_free(report);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_go_to_tool_task_run_and_total),
		cmocka_unit_test(programs_of_one_process_share_its_figures),
		cmocka_unit_test(unknown_figures_are_counted_and_never_zero),
		cmocka_unit_test(losses_and_notes_are_shown),
		cmocka_unit_test(a_retry_is_the_same_work_after_a_failure),
		cmocka_unit_test(a_loop_that_fails_by_design_is_one_line),
		cmocka_unit_test(the_critical_chain_goes_back_from_the_last_end),
		cmocka_unit_test(failures_name_code_signal_and_limit),
		cmocka_unit_test(rows_are_bounded_and_totals_stay_exact),
		cmocka_unit_test(hostile_names_stay_in_their_columns),
		cmocka_unit_test(a_recording_reads_back),
		cmocka_unit_test(a_recording_of_version_2_reads_back),
		cmocka_unit_test(answers_and_probes_are_no_failures),
		cmocka_unit_test(runs_read_from_a_file_are_nested),
		cmocka_unit_test(a_process_still_open_is_told),
		cmocka_unit_test(damaged_files_are_counted_not_followed),
		cmocka_unit_test(mutated_recordings_never_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
