// SPDX-License-Identifier: Apache-2.0
// tracer rules: check what was written, ask why a command matches, list what is there. Reads rules
// only; touches no running process.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/ui.h"
#include "core/base/cleanup.h"
#include "core/cgroup_path.h"
#include "core/rules.h"

static const char default_directory[] = "/etc/tracer/rules.d";

static void print_harmless(FILE *out, const char *text)
{
	char line[2048];

	while (*text) {
		size_t length = strcspn(text, "\n");
		char copy[1024];
		snprintf(copy, sizeof(copy), "%.*s", (int)(length < 1000 ? length : 1000), text);
		ui_escape(line, sizeof(line), copy);
		fprintf(out, "%s\n", line);
		text += length + (text[length] == '\n');
	}
}

static void cleanup_rules(struct rules **rules)
{
	rules_free(*rules);
}

static int load(const char *directory, struct rules **ret_rules)
{
	CLEANUP(buf_free) struct buf problems = BUF_INIT;
	int error = rules_load(directory, ret_rules, &problems);

	if (problems.data)
		print_harmless(stderr, problems.data);
	if (error == -EINVAL)
		return EXIT_USAGE;
	if (error) {
		fprintf(stderr, "tracer rules: %s\n", strerror(-error));
		return EXIT_NO;
	}
	return EXIT_OK;
}

static int check(const struct args *args)
{
	const char *directory = args->operand_count > 1 ? args->operands[1] : default_directory;
	CLEANUP(cleanup_rules) struct rules *rules = NULL;
	CLEANUP(buf_free) struct buf warnings = BUF_INIT;
	struct stat status;
	int code;

	if (args->operand_count > 2)
		return args_usage(args, "check takes one directory");
	if (args->operand_count > 1 && (stat(directory, &status) || !S_ISDIR(status.st_mode))) {
		fprintf(stderr,
			"tracer rules: %s is no directory; give one that holds .yaml files\n",
			directory);
		return EXIT_USAGE;
	}
	code = load(directory, &rules);
	if (code)
		return code;
	if (rules_warnings(rules, &warnings))
		return EXIT_NO;
	if (warnings.data)
		print_harmless(stdout, warnings.data);
	printf("%u rules are good%s\n", rules_count(rules),
	       warnings.length ? ", some are never reached" : "");
	return warnings.length ? EXIT_NO : EXIT_OK;
}

// Words of a command line as the kernel keeps them.
static int join_arguments(char **words, int count, struct buf *out)
{
	for (int i = 0; i < count; i++)
		buf_append(out, words[i], strlen(words[i]) + 1);
	return buf_error(out);
}

// A command line in one text, split at blanks.
static int split_command(const char *text, struct buf *out)
{
	while (*(text += strspn(text, " "))) {
		size_t length = strcspn(text, " ");
		buf_append(out, text, length);
		buf_append_char(out, 0);
		text += length;
	}
	return buf_error(out);
}

// What a command would be known by: its first word is the executable.
static struct rule_subject subject_of(const struct buf *args, char comm[16])
{
	const char *name = strrchr(args->data, '/');

	snprintf(comm, 16, "%s", name ? name + 1 : args->data);
	return (struct rule_subject){
		.comm = comm,
		.exe = args->data,
		.args = args->data,
		.args_size = (uint32_t)args->length,
		.uid = (uint32_t)getuid(),
	};
}

struct test {
	const char *directory, *cwd, *parent, *engine, *cgroup, *container, *script;
	char **words;
	int count;
};

static const char *copy_slice(struct arena *arena, struct cgroup_slice slice)
{
	return slice.text ? arena_strndup(arena, slice.text, slice.length) : NULL;
}

// As the collector reads a cgroup's path.
static void read_cgroup(const char *path, struct arena *arena, struct rule_subject *subject)
{
	struct cgroup_path_facts facts;

	if (!path)
		return;
	cgroup_path_parse(path, &facts);
	subject->cgroup_path = path;
	subject->container_id = copy_slice(arena, facts.container_id);
	subject->container_runtime = subject->container_id ? facts.runtime : NULL;
	subject->pod_uid = copy_slice(arena, facts.pod_uid);
	subject->ecs_task = copy_slice(arena, facts.ecs_task);
	subject->slurm_step = copy_slice(arena, facts.slurm_step);
	subject->slurm_job = facts.slurm_job;
}

static int run_test(const struct test *test)
{
	CLEANUP(arena_free) struct arena arena;
	CLEANUP(cleanup_rules) struct rules *rules = NULL;
	CLEANUP(buf_free) struct buf args = BUF_INIT, parent_args = BUF_INIT, out = BUF_INIT;
	struct rule_subject subject, parent;
	char comm[16], parent_comm[16];
	int code;

	arena_init(&arena, 1024);
	code = load(test->directory, &rules);
	if (code)
		return code;
	if (join_arguments(test->words, test->count, &args))
		return EXIT_NO;
	subject = subject_of(&args, comm);
	subject.cwd = test->cwd;
	subject.engine = test->engine;
	read_cgroup(test->cgroup, &arena, &subject);
	if (test->container)
		subject.container_runtime = test->container;
	subject.script = test->script;
	if (test->parent) {
		if (split_command(test->parent, &parent_args) || !parent_args.length)
			return EXIT_NO;
		parent = subject_of(&parent_args, parent_comm);
		subject.parent = &parent;
	}
	if (rules_explain(rules, &subject, &out))
		return EXIT_NO;
	print_harmless(stdout, out.data);
	return EXIT_OK;
}

static void list_one(void *context, const struct rule_listing *listing)
{
	(void)context;
	printf("%-9s %-28s %-18s %s\n", listing->section, listing->name,
	       listing->category ? listing->category : "-", listing->place);
}

static int list(const char *directory)
{
	CLEANUP(cleanup_rules) struct rules *rules = NULL;
	int code = load(directory, &rules);

	if (!code)
		rules_each(rules, list_one, NULL);
	return code;
}

static const char **test_option(const struct args *args, struct test *test)
{
	if (args_is(args, "rules"))
		return &test->directory;
	if (args_is(args, "cwd"))
		return &test->cwd;
	if (args_is(args, "parent"))
		return &test->parent;
	if (args_is(args, "engine"))
		return &test->engine;
	if (args_is(args, "cgroup"))
		return &test->cgroup;
	if (args_is(args, "script"))
		return &test->script;
	return &test->container;
}

int command_rules(int argc, char **argv)
{
	struct args args = args_of("rules", argc, argv);
	struct test test = {.directory = default_directory};
	const char *word;

	while (args_next(&args))
		*test_option(&args, &test) = args.value;
	if (args.exit_code >= 0)
		return args.exit_code;
	word = args.operand_count ? args.operands[0] : "";
	if (!strcmp(word, "check"))
		return check(&args);
	if (!strcmp(word, "list") && args.operand_count == 1)
		return list(test.directory);
	if (strcmp(word, "test"))
		return args_usage(&args, "say check, test or list");
	test.words = args.operands + 1;
	test.count = args.operand_count - 1;
	if (!test.count || !*test.words[0])
		return args_usage(&args,
				  "test needs a command; for example: test -- samtools sort x.bam");
	return run_test(&test);
}
