// SPDX-License-Identifier: Apache-2.0
// Rules as files: the examples of docs/rules.md load and do what it says, bad files are refused with file, line and
// reason, hostile ones in bounded time, and a user's rule comes before a shipped one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/base/fs.h"
#include "core/rules.h"

enum { DOCUMENT_MAX = 1 << 20 };

static char directory[] = "/tmp/tracer-rules-XXXXXX";

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static void file_path(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", directory, name);
}

static void remove_file(const char *name)
{
	char path[128];

	file_path(path, name);
	unlink(path);
}

static int remove_directory(void **state)
{
	(void)state;
	remove_file("a.yaml");
	remove_file("b.yaml");
	return rmdir(directory);
}

static void write_file(const char *name, const char *text, size_t size)
{
	char path[128];

	FILE *file;

	file_path(path, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

// The rules of one text beside the shipped ones; error holds what was told.
static int load(const char *text, struct rules **ret_rules, struct buf *error)
{
	write_file("a.yaml", text, strlen(text));
	return rules_load(directory, ret_rules, error);
}

static struct rules *load_good(const char *text)
{
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	struct rules *rules = NULL;

	if (load(text, &rules, &error))
		fail_msg("%s\n%s", error.data ? error.data : "?", text);
	return rules;
}

// What a command is called; '|' between arguments. The text is the arena's or the rules'.
static struct rule_result match(const struct rules *rules, const char *command, const char *cwd,
				const char *engine, struct arena *arena)
{
	size_t size = strlen(command) + 1;
	char *args = arena_strndup(arena, command, size);
	struct rule_result result;

	assert_non_null(args);
	for (char *c = args; *c; c++)
		*c = *c == '|' ? 0 : *c;
	struct rule_subject subject = {.comm = "x",
				       .exe = args,
				       .args = args,
				       .args_size = (uint32_t)size,
				       .cwd = cwd,
				       .engine = engine,
				       .uid = 995};
	assert_int_equal(rules_match(rules, &subject, arena, &result), 0);
	return result;
}

// --- the document --------------------------------------------------------------------------------------------------

// The text between the n-th "```yaml" and its "```", NULL past the last.
static char *example(const char *document, int number)
{
	const char *start = document, *end;

	do {
		start = strstr(start, "\n```yaml\n");
		if (!start)
			return NULL;
		start += strlen("\n```yaml\n");
	} while (number--);
	end = strstr(start, "\n```\n");
	return end ? strndup(start, (size_t)(end - start) + 1) : NULL;
}

static void read_document(struct buf *document)
{
	assert_int_equal(fs_read("docs/rules.md", DOCUMENT_MAX, document), 0);
}

static void each_example_of_the_document_loads(void **state)
{
	CLEANUP(buf_free) struct buf document = BUF_INIT;
	int count = 0;

	(void)state;
	read_document(&document);
	for (;; count++) {
		CLEANUP(cleanup_free) char *text = example(document.data, count);
		if (!text)
			break;
		rules_free(load_good(text));
	}
	assert_true(count >= 10);
}

// All of them in one set, so that what the document promises of each can be asked.
static struct rules *load_document(void)
{
	CLEANUP(buf_free) struct buf document = BUF_INIT, error = BUF_INIT;
	struct rules *rules = NULL;
	char names[64][32];
	int count = 0;

	read_document(&document);
	for (; count < 64; count++) {
		CLEANUP(cleanup_free) char *text = example(document.data, count);
		if (!text)
			break;
		// The second catalogue must not clash with the first.
		snprintf(names[count], sizeof(names[count]), "doc%02d.yaml", count);
		write_file(names[count], text, strlen(text));
	}
	remove_file("a.yaml");
	if (rules_load(directory, &rules, &error))
		fail_msg("%s", error.data ? error.data : "?");
	while (count--)
		remove_file(names[count]);
	return rules;
}

static void the_examples_do_what_the_document_says(void **state)
{
	struct rules *rules = load_document();
	struct rule_result result;
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096);
	assert_string_equal(match(rules, "splitreads|merge|a.fq", NULL, NULL, &arena).tool,
			    "splitreads merge");
	result = match(rules, "python3|/srv/import/run.py|--full", "/srv", NULL, &arena);
	assert_string_equal(result.tool, "nightly import");
	assert_string_equal(
		match(rules, "python3|/srv/import/run.py|--full", "/scratch/x", NULL, &arena).tool,
		"python run.py");
	assert_string_equal(match(rules, "python3|/srv/import/run.py", "/srv", NULL, &arena).tool,
			    "python run.py");
	result = match(rules, "trainer|fit|--model|big|--dataset=d1", NULL, NULL, &arena);
	assert_string_equal(result.tool, "trainer big");
	assert_string_equal(result.sample, "d1");
	assert_string_equal(match(rules, "trainer|fit", NULL, NULL, &arena).tool, "trainer fit");
	assert_string_equal(match(rules, "mapper2.avx512|map|x", NULL, NULL, &arena).tool,
			    "mapper2 map");
	assert_string_equal(match(rules, "suitesort|x", NULL, NULL, &arena).tool, "suitesort");
	result = match(rules, "ourflow|run|main.flow", NULL, NULL, &arena);
	assert_string_equal(result.engine, "ourflow");
	assert_string_equal(result.run_name, "main.flow");
	result = match(rules, "bash|task.sh", "/x/jobs/align-7", "ourflow", &arena);
	assert_true(result.roles & RULE_TASK);
	assert_string_equal(result.task_id, "align-7");
	assert_string_equal(result.task_name, "align");
	assert_false(match(rules, "bash|task.sh", "/x/jobs/align-7", "other", &arena).roles &
		     RULE_TASK);
	assert_string_equal(match(rules, "ourlang-2|-I|p|x.our", NULL, NULL, &arena).tool,
			    "ourlang x.our");
	assert_string_equal(match(rules, "/bin/ourbox|y", NULL, NULL, &arena).tool, "ourbox");
	assert_int_equal(match(rules, "tidy|y", NULL, NULL, &arena).rank, RULE_RANK_UTILITY);
	assert_int_equal(match(rules, "waitfor|y", NULL, NULL, &arena).rank, RULE_RANK_NOISE);
	arena_free(&arena);
	rules_free(rules);
}

static void take_filter(void *context, const struct rules_filter_entry *entry)
{
	struct buf *out = context;
	static const char *const fields[] = {"comm", "uid", "cgroup", "exe"};

	buf_printf(out, "%s %s %s %u\n",
		   entry->action == RULES_FILTER_INCLUDE ? "include" : "exclude",
		   fields[entry->field], entry->value, entry->uid);
}

static void the_filter_is_handed_on_entry_by_entry(void **state)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct rules *rules = load_document();

	(void)state;
	rules_filter(rules, take_filter, &out);
	assert_string_equal(
		out.data,
		"exclude comm node_exporter 0\nexclude comm chronyd 0\nexclude uid 998 998\n"
		"exclude cgroup /system.slice/monitoring.service 0\ninclude exe ourflow 0\n");
	rules_free(rules);
}

// --- order -----------------------------------------------------------------------------------------------------------

static void a_users_rule_comes_before_a_shipped_one(void **state)
{
	struct rules *rules =
		load_good("catalogue:\n  mine:\n    samtools: {display: \"our samtools\"}\n");
	struct arena arena;

	(void)state;
	arena_init(&arena, 4096);
	assert_string_equal(match(rules, "samtools|sort", NULL, NULL, &arena).tool, "our samtools");
	assert_string_equal(match(rules, "bwa|mem", NULL, NULL, &arena).tool, "bwa mem");
	arena_free(&arena);
	rules_free(rules);
}

static void pushed_rules_come_between_and_stop_nothing(void **state)
{
	static const char mine[] = "catalogue:\n  mine:\n    samtools: {display: \"our samtools\"}\n";
	static const char pushed[] = "catalogue:\n  theirs:\n    samtools: {display: \"their samtools\"}\n"
				     "    bwa: {display: \"their bwa\"}\n";
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	struct rules *rules = NULL;
	struct arena arena;
	char path[128];

	(void)state;
	arena_init(&arena, 4096);
	file_path(path, "pushed");
	assert_int_equal(rules_load_pushed(NULL, path, &rules, &error), 0); // not there: none
	assert_int_equal(error.length, 0);
	rules_free(rules);
	write_file("a.yaml", mine, strlen(mine));
	write_file("pushed", pushed, strlen(pushed));
	assert_int_equal(rules_load_pushed(directory, path, &rules, &error), 0);
	assert_int_equal(error.length, 0);
	assert_string_equal(match(rules, "samtools|sort", NULL, NULL, &arena).tool, "our samtools");
	assert_string_equal(match(rules, "bwa|mem", NULL, NULL, &arena).tool, "their bwa");
	rules_free(rules);
	// A newer grammar, say: everything else goes on, and it is said.
	write_file("pushed", "novelty: 1\n", 11);
	assert_int_equal(rules_load_pushed(directory, path, &rules, &error), 0);
	assert_non_null(strstr(error.data, "left out: "));
	assert_non_null(strstr(error.data, "novelty"));
	assert_string_equal(match(rules, "samtools|sort", NULL, NULL, &arena).tool, "our samtools");
	assert_string_equal(match(rules, "bwa|mem", NULL, NULL, &arena).tool, "bwa mem");
	rules_free(rules);
	// The user's own stay an error.
	write_file("a.yaml", "novelty: 1\n", 11);
	assert_int_equal(rules_load_pushed(directory, path, &rules, &error), -EINVAL);
	remove_file("a.yaml");
	remove_file("pushed");
	arena_free(&arena);
}

static void files_are_read_in_the_order_of_their_names(void **state)
{
	static const char second[] = "tools:\n  - {name: second, when: {program: zzz}}\n";
	struct rules *rules;
	struct arena arena;

	(void)state;
	write_file("b.yaml", second, strlen(second));
	rules = load_good("tools:\n  - {name: first, when: {program: zzz}}\n");
	remove_file("b.yaml");
	arena_init(&arena, 4096);
	assert_string_equal(match(rules, "zzz", NULL, NULL, &arena).tool, "first");
	arena_free(&arena);
	rules_free(rules);
}

static void a_rule_that_is_never_reached_is_a_warning(void **state)
{
	CLEANUP(buf_free) struct buf out = BUF_INIT;
	struct rules *rules = load_good("tools:\n  - {name: all, when: {program: \"zz*\"}}\n"
					"  - {name: some, when: {program: [zza, zzb], uid: 0}}\n"
					"  - {name: other, when: {program: [zza, yy]}}\n");

	(void)state;
	assert_int_equal(rules_warnings(rules, &out), 0);
	assert_non_null(
		strstr(out.data, "a.yaml:3: warning: the tool \"some\" is never reached: \"all\""));
	assert_null(strstr(out.data, "\"other\""));
	rules_free(rules);
}

// --- wrong files -------------------------------------------------------------------------------------------------

static void wrong_files_are_told_with_line_and_reason(void **state)
{
	static const struct {
		const char *text, *line, *reason;
	} cases[] = {
		{"nonsense:\n  - x\n", ":1: ", "unknown section \"nonsense\""},
		{"tools:\n  - name: x\n    whn: {exe: y}\n", ":3: ", "unknown key \"whn\""},
		{"tools:\n  - name: x\n    when: {exo: y}\n", ":3: ", "unknown condition \"exo\""},
		{"tools:\n  - name: x\n", ":2: ", "has no \"when\""},
		{"tools:\n  - when: {exe: x}\n", ":2: ", "has no \"name\""},
		{"tools: 5\n", ":1: ", "is a list"},
		{"tools:\n  - name: [x]\n    when: {exe: y}\n", ":2: ", "takes one text"},
		{"tools:\n  - name: x\n    when: y\n", ":3: ", "expected conditions"},
		{"tools:\n  - name: x\n    when: {}\n", ":3: ", "expected conditions"},
		{"tools:\n  - name: x\n    when: {exe: \"[a\"}\n", ":3: ", "bad pattern \"[a\""},
		{"tools:\n  - name: x\n    when: {exe: []}\n", ":3: ", "the list is empty"},
		{"tools:\n  - name: x\n    when: {cwd: work}\n", ":3: ", "write \"**/work\""},
		{"tools:\n  - name: x\n    when: {uid: root}\n",
		 ":3: ", "expected a number or a range"},
		{"tools:\n  - name: x\n    when: {uid: 9-3}\n",
		 ":3: ", "is not a number or a range"},
		{"tools:\n  - name: x\n    when: {form: shell}\n", ":3: ", "form is one of"},
		{"tools:\n  - name: x\n    when: {args: {all: y}}\n",
		 ":3: ", "args knows any, count and positions"},
		{"tools:\n  - name: x\n    when: {or: {exe: y}}\n",
		 ":3: ", "takes a list of conditions"},
		{"tools:\n  - name: x\n    when: {exe: y}\n    display: \"{nope}\"\n",
		 ":4: ", "unknown placeholder {nope}"},
		{"tools:\n  - name: x\n    when: {exe: y}\n    display: \"{1\"\n",
		 ":4: ", "the '{' is not closed"},
		{"tools:\n  - name: x\n    when: {exe: y}\n    wrapper: maybe\n",
		 ":4: ", "is true or false"},
		{"tools:\n  - {name: x, when: {exe: y}}\n  - {name: x, when: {exe: z}}\n",
		 ":3: ", "is defined twice, first at "},
		{"tools:\n  - name: x\n    name: y\n    when: {exe: y}\n",
		 ":3: ", "\"name\" is given twice, first in line 2"},
		{"catalogue:\n  - x\n", ":1: ", "catalogue is a map"},
		{"catalogue:\n  c:\n    x: {subs: y}\n", ":3: ", "unknown key \"subs\""},
		{"engines:\n  - {name: My Engine, when: {exe: y}}\n",
		 ":2: ", "use a-z 0-9 - _ only"},
		{"engines:\n  - {name: x, when: {exe: y}, tasks: [{id: \"{1}\"}]}\n",
		 ":2: ", "the task has no \"when\""},
		{"jobs:\n  - {name: x, when: {exe: y}}\n", ":2: ", "has no \"id\""},
		{"redact:\n  - {program: x}\n", ":2: ", "hides nothing"},
		{"redact:\n  - flag: \"*\"\n", ":2: ", "no two plain characters"},
		{"filter:\n  - exclude: {comm: \"a*\"}\n", ":2: ", "takes exact values"},
		{"filter:\n  - exclude: {comm: abcdefghijklmnopq}\n",
		 ":2: ", "at most 15 characters"},
		{"filter:\n  - exclude: {cgroup: x}\n", ":2: ", "write \"/x\""},
		{"filter:\n  - exclude: {uid: root}\n", ":2: ", "is not a user id"},
		{"filter:\n  - drop: {uid: 1}\n", ":2: ", "exclude: or include:"},
		{"samples:\n  endings: x\n", ":2: ", "unknown key \"endings\""},
		{"- x\n", ":1: ", "is a map of sections"},
		{"a: &x [1]\nb: *x\n", ":1: ", "anchors"},
		{"tools: *x\n", ":1: ", "aliases"},
		{"tools: !!set {x}\n", ":1: ", "tags"},
		{"tools: []\n---\ntools: []\n", ":2: ", "a second document"},
		{"tools:\n\t- x\n", ":2: ", "not YAML"},
		{"tools: \"x\n", ":", "not YAML"},
		{"tools: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n", ":1: ", "nested deeper than"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP(buf_free) struct buf error = BUF_INIT;
		struct rules *rules = NULL;
		int result = load(cases[i].text, &rules, &error);
		char where[160];
		snprintf(where, sizeof(where), "%s/a.yaml%s", directory, cases[i].line);
		if (result != -EINVAL || !error.data || strncmp(error.data, where, strlen(where)) ||
		    !strstr(error.data, cases[i].reason))
			fail_msg("%s -> %d %s", cases[i].text, result,
				 error.data ? error.data : "");
		assert_null(rules);
	}
}

static void all_errors_of_a_file_are_told(void **state)
{
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	struct rules *rules = NULL;

	(void)state;
	assert_int_equal(
		load("tools:\n  - {name: x}\n  - {when: {exe: y}}\nnope: 1\n", &rules, &error),
		-EINVAL);
	assert_non_null(strstr(error.data, "a.yaml:2: "));
	assert_non_null(strstr(error.data, "a.yaml:3: "));
	assert_non_null(strstr(error.data, "a.yaml:4: "));
}

static void told_text_holds_no_terminal_escapes(void **state)
{
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	struct rules *rules = NULL;

	(void)state;
	assert_int_equal(load("\"no\\e[31mpe\": 1\n", &rules, &error), -EINVAL);
	assert_null(strchr(error.data, '\x1b'));
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Bytes repeated to a size, as one file; how long it took to be refused or read, with what errno.
static int load_repeated(const char *head, const char *piece, size_t size, uint64_t *ret_ns)
{
	CLEANUP(buf_free) struct buf text = BUF_INIT, error = BUF_INIT;
	struct rules *rules = NULL;
	uint64_t start;
	int result;

	buf_append_string(&text, head);
	while (text.length < size)
		buf_append_string(&text, piece);
	assert_int_equal(buf_error(&text), 0);
	write_file("a.yaml", text.data, text.length);
	start = now_ns();
	result = rules_load(directory, &rules, &error);
	*ret_ns = now_ns() - start;
	rules_free(rules);
	return result;
}

static void hostile_files_cost_bounded_time(void **state)
{
	static const struct {
		const char *head, *piece;
		size_t size;
	} cases[] = {
		{"tools: ", "[", 200000},
		{"tools: ", "{a: ", 200000},
		{"utilities: ", "a ", 400000},
		{"x: ", "# \n", 400000},
		{"", "a: 1\n", 400000},
		{"tools:\n", "  - {name: x, when: {exe: y}}\n", 400000},
		{"", "- - - ", 200000},
		{"\"", "\\x00", 100000},
		{"", "? ", 100000},
		{"x: |\n", "  y\n", 2000000},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t ns;
		int result = load_repeated(cases[i].head, cases[i].piece, cases[i].size, &ns);
		if ((result && result != -EINVAL) || ns > UINT64_C(10000000000))
			fail_msg("%s%s...: %d after %llu ms", cases[i].head, cases[i].piece, result,
				 (unsigned long long)(ns / 1000000));
	}
}

static void a_missing_directory_holds_no_rules(void **state)
{
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	struct rules *rules = NULL;

	(void)state;
	assert_int_equal(rules_load("/nonexistent/rules.d", &rules, &error), 0);
	assert_true(rules_count(rules) > 0);
	rules_free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_example_of_the_document_loads),
		cmocka_unit_test(the_examples_do_what_the_document_says),
		cmocka_unit_test(the_filter_is_handed_on_entry_by_entry),
		cmocka_unit_test(a_users_rule_comes_before_a_shipped_one),
		cmocka_unit_test(pushed_rules_come_between_and_stop_nothing),
		cmocka_unit_test(files_are_read_in_the_order_of_their_names),
		cmocka_unit_test(a_rule_that_is_never_reached_is_a_warning),
		cmocka_unit_test(wrong_files_are_told_with_line_and_reason),
		cmocka_unit_test(all_errors_of_a_file_are_told),
		cmocka_unit_test(told_text_holds_no_terminal_escapes),
		cmocka_unit_test(hostile_files_cost_bounded_time),
		cmocka_unit_test(a_missing_directory_holds_no_rules),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
