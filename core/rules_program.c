// SPDX-License-Identifier: Apache-2.0
// Rules, the part that finds the program: what an interpreter runs (a script, module, jar, class),
// else the executable, under the names a rule may know it by (without directory, without extension,
// without version). Reads only what the subject holds; nothing is allocated and hostile arguments
// cost at most one pass.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/rules_private.h"

enum { COMM_LENGTH_MAX = 15 };

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

uint32_t text_hash(const char *text, size_t length)
{
	uint32_t hash = UINT32_C(2166136261); // FNV-1a

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT32_C(16777619);
	return hash ^ hash >> 15;
}

bool words_have(const struct words *words, const char *text)
{
	uint32_t hash;

	if (!words)
		return false;
	hash = text_hash(text, strlen(text));
	for (; words; words = words->next) {
		for (uint32_t i = hash & words->mask; words->slots[i]; i = (i + 1) & words->mask)
			if (!strcmp(words->slots[i], text))
				return true;
		for (uint32_t i = 0; words->globs && i < words->globs->count; i++)
			if (glob_matches(words->globs->items[i], text))
				return true;
	}
	return false;
}

static void split_arguments(struct view *view, const struct rule_subject *subject)
{
	const char *text = subject->args, *end = text ? text + subject->args_size : NULL;

	while (text < end && view->argc < VIEW_ARGUMENTS) {
		const char *stop = memchr(text, 0, (size_t)(end - text));
		if (!stop)
			return;
		view->argv[view->argc++] = text;
		text = stop + 1;
	}
}

static const struct interpreter *find_interpreter(const struct rules *rules, const char *name)
{
	const struct name_glob *heads[] = {rules->interpreter_globs.heads[(uint8_t)*name],
					   rules->interpreter_globs.heads[0]};

	for (int i = 0; i < (*name ? 2 : 1); i++)
		for (const struct name_glob *one = heads[i]; one; one = one->next)
			if (glob_matches(one->glob, name))
				return one->interpreter;
	return NULL;
}

// What one option of the interpreter says: 'c' code, 'm' module, 'j' jar, 'v' takes the next
// argument, 0 nothing.
static char option_kind(const struct interpreter *interpreter, const char *option)
{
	if (words_have(interpreter->code, option))
		return 'c';
	if (words_have(interpreter->module, option))
		return 'm';
	if (words_have(interpreter->jar, option))
		return 'j';
	if (words_have(interpreter->values, option))
		return 'v';
	if (words_have(interpreter->end, option))
		return 'e';
	return 0;
}

// The same for letters behind one dash ("-euc"). A value letter that is not the last holds its
// value itself, but for o of a shell, which takes it from the next argument wherever it stands.
static char cluster_kind(const struct interpreter *interpreter, const char *argument)
{
	char kind = 0;

	if (!interpreter->clusters || argument[1] == '-')
		return 0;
	for (const char *letter = argument + 1; *letter; letter++) {
		char option[3] = {argument[0], *letter, 0};
		char one = option_kind(interpreter, option);
		if (one == 'v' && letter[1] && !interpreter->shell)
			return kind;
		if (one == 'm' && letter[1])
			return kind;
		if (one)
			kind = kind == 'c' ? kind : one;
	}
	return kind;
}

static void set_program(struct view *view, enum form form, const char *program, uint32_t index)
{
	view->form = (uint8_t)form;
	view->program = program;
	view->first = index + 1 < view->argc ? index + 1 : view->argc;
}

// An option like --file=x.R that holds the script.
static const char *file_option(const struct interpreter *interpreter, const char *argument)
{
	const char *equals = strchr(argument, '=');
	char name[32];
	size_t length = equals ? (size_t)(equals - argument) : sizeof(name);

	if (!interpreter->file || length >= sizeof(name))
		return NULL;
	memcpy(name, argument, length);
	name[length] = 0;
	return words_have(interpreter->file, name) ? equals + 1 : NULL;
}

// The script of an R that was told --args: what follows belongs to it.
static void skip_to_end_word(struct view *view)
{
	for (uint32_t i = view->first; i < view->argc; i++)
		if (words_have(view->interpreter->end, view->argv[i])) {
			view->first = i + 1;
			return;
		}
}

// A script that is read from a descriptor has no name: bash <(...), curl ... | bash /dev/stdin.
static bool is_descriptor(const char *path)
{
	return !strncmp(path, "/dev/fd/", 8) || !strcmp(path, "/dev/stdin") ||
	       (!strncmp(path, "/proc/", 6) && strstr(path, "/fd/"));
}

static void find_interpreted(struct view *view)
{
	const struct interpreter *interpreter = view->interpreter;

	set_program(view, FORM_BARE, view->exe_name, view->argc);
	for (uint32_t i = 1; i < view->argc; i++) {
		const char *argument = view->argv[i];
		const char *next = i + 1 < view->argc ? view->argv[i + 1] : NULL;
		const char *file = file_option(interpreter, argument);
		char kind = 0;
		if (file) {
			set_program(view, FORM_SCRIPT, file, i);
			skip_to_end_word(view);
			return;
		}
		if ((argument[0] != '-' && argument[0] != '+') || !argument[1]) {
			if (is_descriptor(argument))
				set_program(view, FORM_CODE, view->exe_name, i);
			else if (*argument && strcmp(argument, "-"))
				set_program(view,
					    interpreter->main_class ? FORM_CLASS : FORM_SCRIPT,
					    argument, i);
			return;
		}
		kind = option_kind(interpreter, argument);
		kind = kind ? kind : cluster_kind(interpreter, argument);
		if (kind == 'c')
			set_program(view, FORM_CODE, view->exe_name, next ? i + 1 : i);
		else if (kind == 'm' && next)
			set_program(view, interpreter->main_class ? FORM_CLASS : FORM_MODULE, next,
				    i + 1);
		else if (kind == 'j' && next)
			set_program(view, FORM_JAR, next, i + 1);
		if (kind == 'c' || kind == 'e' || ((kind == 'm' || kind == 'j') && next))
			return;
		i += kind == 'v';
	}
}

static bool is_script_extension(const char *extension)
{
	static const char *const known[] = {".py",  ".pl", ".sh", ".R",	 ".r",	".jar",
					    ".pyc", ".rb", ".js", ".jl", ".bin"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(extension, known[i]))
			return true;
	return false;
}

// Where a version begins at the end of a name ("samtools-1.17", "gcc-12", "STAR_2.7.10b"), 0:
// nowhere.
static size_t version_start(const char *name, size_t length)
{
	for (size_t i = 1; i + 1 < length; i++) {
		size_t digit = i + 1 + (name[i + 1] == 'v');
		if ((name[i] != '-' && name[i] != '_') || digit >= length ||
		    !isdigit((unsigned char)name[digit]))
			continue;
		// A compiler's target: "x86_64-linux-gnu-as".
		if (i == 3 && !strncmp(name, "x86_64-", 7))
			continue;
		size_t rest = digit + strspn(name + digit, "0123456789.abcdefrcp");
		if (rest >= length || name[rest] == '-' || name[rest] == '+')
			return i;
	}
	return 0;
}

static void find_names(struct view *view)
{
	const char *name = view->form == FORM_MODULE || view->form == FORM_CLASS
				   ? view->program
				   : path_base(view->program);
	size_t length = strnlen(name, VIEW_NAME_SIZE);
	const char *dot;

	view->names[view->name_count++] = name;
	if (length == VIEW_NAME_SIZE || view->form == FORM_MODULE || view->form == FORM_CLASS)
		return;
	dot = strrchr(name, '.');
	if (dot && dot != name && is_script_extension(dot)) {
		length = (size_t)(dot - name);
		memcpy(view->buffers[0], name, length);
		view->buffers[0][length] = 0;
		name = view->names[view->name_count++] = view->buffers[0];
	}
	length = version_start(name, length);
	if (!length)
		return;
	memcpy(view->buffers[1], name, length);
	view->buffers[1][length] = 0;
	view->names[view->name_count++] = view->buffers[1];
}

// /proc marks an executable whose file is gone; its name is what it was.
static const char *without_mark(struct view *view, const char *name)
{
	static const char mark[] = " (deleted)";
	size_t length = strnlen(name, VIEW_NAME_SIZE + sizeof(mark));

	if (length < sizeof(mark) || length - (sizeof(mark) - 1) >= VIEW_NAME_SIZE ||
	    strcmp(name + length - (sizeof(mark) - 1), mark))
		return name;
	length -= sizeof(mark) - 1;
	memcpy(view->exe_buffer, name, length);
	view->exe_buffer[length] = 0;
	return view->exe_buffer;
}

static const char *called_name(const struct view *view)
{
	const char *base = view->argc ? path_base(view->argv[0]) : "";

	return base + (*base == '-');
}

// A detached file has no name: its path is "/" alone. A memory file's is not the program's.
static bool is_nameless(const char *exe)
{
	const char *base = exe ? path_base(exe) : "";

	return !*base || !strcmp(base, "/") || !strcmp(exe, "/ (deleted)");
}

void view_init(struct view *view, const struct rules *rules, const struct rule_subject *subject,
	       struct view *parent)
{
	view->subject = subject;
	view->parent = parent;
	view->parent_made = false;
	view->argc = view->name_count = 0;
	view->interpreter = NULL;
	view->truncated = false;
	*view->job = 0;
	if (subject->slurm_job > 0)
		snprintf(view->job, sizeof(view->job), "%lld", (long long)subject->slurm_job);
	split_arguments(view, subject);
	if (subject->exe && is_nameless(subject->exe) && *called_name(view)) {
		view->exe_name = called_name(view);
	} else if (subject->exe && !is_nameless(subject->exe) && strncmp(subject->exe, "/memfd:", 7)) {
		view->exe_name = without_mark(view, path_base(subject->exe));
	} else {
		view->exe_name = subject->comm ? subject->comm : "";
		view->truncated = strlen(view->exe_name) == COMM_LENGTH_MAX;
	}
	if (*called_name(view) && words_have(rules->multicall, view->exe_name))
		view->exe_name = called_name(view);
	view->interpreter = find_interpreter(rules, view->exe_name);
	if (view->interpreter) {
		find_interpreted(view);
		view->truncated = view->truncated && view->program == view->exe_name;
	} else {
		set_program(view, FORM_PROGRAM,
			    subject->exe && view->exe_name == path_base(subject->exe)
				    ? subject->exe
				    : view->exe_name,
			    0);
	}
	find_names(view);
}

const char *view_field(const struct view *view, enum field field)
{
	const struct rule_subject *subject = view->subject;

	switch (field) {
	case FIELD_PROGRAM:
		return view->program;
	case FIELD_EXE:
		return subject->exe ? subject->exe : view->exe_name;
	case FIELD_COMM:
		return subject->comm;
	case FIELD_SCRIPT:
		return view->form == FORM_SCRIPT ? view->program : subject->script;
	case FIELD_INTERPRETER:
		return subject->interpreter;
	case FIELD_CWD:
		return subject->cwd;
	case FIELD_CGROUP:
		return subject->cgroup_path;
	case FIELD_CONTAINER:
		return subject->container_runtime;
	case FIELD_CONTAINER_ID:
		return subject->container_id;
	case FIELD_POD:
		return subject->pod_uid;
	case FIELD_ECS_TASK:
		return subject->ecs_task;
	case FIELD_JOB:
		return *view->job ? view->job : NULL;
	case FIELD_STEP:
		return subject->slurm_step;
	case FIELD_UID:
		// Only joins ask for it: made when asked.
		snprintf(((struct view *)(uintptr_t)view)->uid, sizeof(view->uid), "%u", subject->uid);
		return view->uid;
	case FIELD_CODE:
		return view->form == FORM_CODE && view->first ? view->argv[view->first - 1] : NULL;
	case FIELD_RUNNER:
		return view->interpreter ? view->interpreter->name : NULL;
	case FIELD_ENGINE:
		return subject->engine;
	case FIELD_ARGV0:
		return view->argc ? view->argv[0] : NULL;
	default:
		return NULL;
	}
}

const char *view_subcommand(const struct view *view, const struct words *words)
{
	for (uint32_t i = view->first; i < view->argc; i++) {
		if (words ? words_have(words, view->argv[i]) : view->argv[i][0] != '-')
			return *view->argv[i] ? view->argv[i] : NULL;
		if (!strcmp(view->argv[i], "--"))
			return NULL;
	}
	return NULL;
}
