// SPDX-License-Identifier: Apache-2.0
// What the files of the rules room share: the YAML tree, the compiled rules and the view of a
// program they are matched on. Everything lives in the arena of struct rules and is read-only once
// loaded.
#pragma once

#include "core/glob.h"
#include "core/rules.h"

// --- the YAML tree (core/rules_yaml.c) -----------------------------------------------------------------------------

enum node_kind { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
	struct node *next; // in the same list or map
	struct node *children;
	const char *key; // in a map
	const char *text; // NODE_TEXT
	uint32_t line;
	uint8_t kind;
	bool plain; // not quoted: an empty plain text is "nothing"
};

// Whose a rule is, in the order in which they are read: a name may come once from each.
enum rules_origin { RULES_USER, RULES_PUSHED, RULES_SHIPPED };

// One file being read; errors go to error as "file:line: reason; what to do" lines.
struct reader {
	struct rules *rules;
	struct arena *nodes; // of the file's tree, and gone with it: texts that rules keep are not in it
	const char *file; // as it is shown
	enum rules_origin origin;
	struct buf *error;
	uint32_t error_count;
	const char *engine; // of the engine whose tasks are being read
};

// Reads one document: its nodes into reader->nodes, its texts into the rules' arena. An empty file
// gives an empty map. -EINVAL (told), -ENOMEM.
int rules_yaml_read(struct reader *reader, const char *text, size_t size,
		    const struct node **ret_root);

// Tells one error. Always gives -EINVAL.
__attribute__((format(printf, 3, 4))) int reader_error(struct reader *reader, uint32_t line,
						       const char *format, ...);

// --- compiled parts ----------------------------------------------------------------------------------------------

struct globs {
	uint32_t count;
	const struct glob *items[];
};

enum condition_kind {
	CONDITION_AND,
	CONDITION_OR,
	CONDITION_NOT,
	CONDITION_TEXT, // a field against globs
	CONDITION_ARG_ANY, // some argument matches
	CONDITION_ARG_AT, // the argument at number
	CONDITION_ARG_COUNT,
	CONDITION_OPTION, // an option is given, alone or as --option=value
	CONDITION_SUBCOMMAND,
	CONDITION_UID,
	CONDITION_FORM,
	CONDITION_PARENT,
	CONDITION_CONTAINER, // number 1: in one, 0: in none
};

enum field {
	FIELD_PROGRAM,
	FIELD_EXE,
	FIELD_COMM,
	FIELD_SCRIPT,
	FIELD_INTERPRETER,
	FIELD_CWD,
	FIELD_CGROUP,
	FIELD_CONTAINER,
	FIELD_ENGINE,
	FIELD_ARGV0,
	FIELD_CONTAINER_ID,
	FIELD_POD,
	FIELD_ECS_TASK,
	FIELD_JOB,
	FIELD_STEP,
	FIELD_NUMBER, // templates only, from here
	FIELD_RUNNER,
	FIELD_UID,
	FIELD_CODE,
	FIELD_ANY,
	FIELD_SUBCOMMAND,
	FIELD_OPTION,
	FIELD_OPERAND,
	FIELD_END,
};
extern const char *const field_names[FIELD_END];

struct condition {
	const struct condition *children, *next;
	const struct globs *globs;
	uint32_t number, number_max; // position or count; uid range; set of forms
	uint32_t line;
	uint8_t kind;
	uint8_t field;
};

// How a program was started.
enum form {
	FORM_PROGRAM, // it is the executable
	FORM_SCRIPT, // an interpreter runs this file
	FORM_MODULE, // python -m
	FORM_JAR,
	FORM_CLASS, // java Main
	FORM_CODE, // sh -c, python -c: the text is in the arguments
	FORM_BARE, // an interpreter that was told nothing: interactive, or reading a pipe
	FORM_END,
};
extern const char *const form_names[FORM_END];

struct template_part {
	const char *text; // literal, else NULL
	uint8_t field;
	uint32_t number;
	const char *key; // flag or word
	const struct glob *glob; // NULL: whole value
};
struct template
{
	const struct template *next; // tried when a part of this one is unknown
	uint32_t count;
	const struct template_part *parts;
};

struct words {
	const struct words *next; // of another file
	uint32_t mask; // slots - 1
	const char *const *slots;
	const struct globs *globs; // entries with wildcards; may be NULL
};

enum section {
	SECTION_TOOL,
	SECTION_TASK,
	SECTION_ENGINE,
	SECTION_BOUNDARY,
	SECTION_JOB,
	SECTION_JOIN,
	SECTION_END,
};
extern const char *const section_names[SECTION_END];

struct join_rule {
	const struct join_rule *next;
	const struct condition *when; // NULL: always
	const struct template *key;
	const char *why, *how_text, *within_text;
	uint32_t within_s;
	uint8_t how; // enum join_how
	bool head;
};

struct rule {
	const char *place; // "file.yaml:12"
	const char *name; // tool, engine or boundary
	const char *category, *engine;
	const struct condition *when; // NULL: always
	const struct words *subcommands;
	const struct template *title; // display name: of the tool, run or task
	const struct template *id; // of the task or job
	const struct template *task; // of a job
	const struct template *sample;
	const struct join_rule *joins;
	struct rule *next; // in reading order
	uint32_t order;
	uint8_t section;
	bool at_root, anywhere, has_tasks, wrapper, silent, probe, starts_probes, catalogue;
	enum rules_origin origin;
};

struct interpreter {
	struct interpreter *next;
	const char *place;
	const char *name;
	const struct globs *exe;
	const struct words *code, *module, *jar, *values, *file, *end;
	bool clusters, main_class, shell;
	enum rules_origin origin;
};

struct redaction {
	struct redaction *next;
	const struct globs *flags, *values, *assignments, *programs; // any may be NULL
	const char *place;
};

struct needle {
	const struct needle *next;
	const char *text; // lower case
	uint32_t length;
	const struct redaction *redaction;
};

struct filter_entry {
	struct filter_entry *next;
	struct rules_filter_entry entry;
};

// Name endings, in order of weight.
struct ending {
	struct ending *next;
	const char *text;
	size_t length;
	uint32_t weight;
};

// A pattern for program names, kept by its first character (0: it begins with a wildcard).
struct name_glob {
	const struct name_glob *next;
	const struct glob *glob;
	uint32_t order; // of the rule
	const struct interpreter *interpreter; // instead of a rule
};
struct name_globs {
	const struct name_glob *heads[256];
};

struct bucket {
	const char *name;
	uint32_t first, count; // in bucket_orders, ascending
};

struct rules {
	struct arena arena;
	uint32_t count;
	struct rule **rules; // by order
	uint32_t bucket_mask;
	uint32_t *bucket_slots; // by hash: the number of a bucket, from 1
	struct bucket *buckets;
	uint32_t *bucket_orders;
	uint32_t loose_count; // rules with no program name to be found by
	uint32_t *loose;
	struct name_globs rule_globs, interpreter_globs;
	struct interpreter *interpreters;
	const struct words *multicall, *utilities, *noise, *questions, *sample_ignore;
	struct redaction *redactions;
	struct needle *needles[256]; // plain text of secrets' patterns, by its first characters
	uint8_t *needle_pairs; // bitmap: some needle begins with this pair
	struct filter_entry *filters;
	struct ending *sample_suffixes, *sample_trims;
	struct rule *first;
};

// --- compiling (core/rules_condition.c, core/rules_template.c, core/rules_read.c) ----------------------------------

int condition_read(struct reader *reader, const struct node *node,
		   const struct condition **ret_condition);
int template_read(struct reader *reader, const struct node *node,
		  const struct template **ret_template);
int globs_read(struct reader *reader, const struct node *node, unsigned flags,
	       const struct globs **ret_globs);
// A text of words or a list of texts.
int words_read(struct reader *reader, const struct node *node, const struct words **ret_words);
bool words_have(const struct words *words, const char *text);
int rules_read_file(struct reader *reader, const char *text, size_t size);
int rules_index(struct rules *rules); // after the last file
int rules_redact_prepare(struct rules *rules);

// The patterns for program names one of which the condition needs; false when there is no such set.
typedef void program_fn(void *context, const struct glob *glob);
bool condition_programs(const struct condition *condition, program_fn *visit, void *context);

// --- matching (core/rules_program.c, core/rules_match.c) -----------------------------------------------------------

enum { VIEW_ARGUMENTS = 64, VIEW_NAMES = 3, VIEW_NAME_SIZE = 64, VIEW_GLOBBED = 8 };

// A subject with its program found: what an interpreter runs, else the executable.
struct view {
	const struct rule_subject *subject;
	struct view *parent; // room for the parent's view, NULL: none
	bool parent_made;
	const struct interpreter *interpreter; // NULL: none
	const char *exe_name; // basename, or comm when the executable is unknown; never NULL
	const char *program; // path, module or class; never NULL
	const char
		*names[VIEW_NAMES]; // of the program: basename, without extension, without version
	uint32_t name_count;
	char job[24]; // text of subject->slurm_job, "" when there is none
	char uid[12];
	bool truncated; // the name is a comm of 15 characters
	uint8_t form;
	const char *argv[VIEW_ARGUMENTS];
	uint32_t argc; // of argv
	uint32_t first; // argv index of the first argument after the program
	char exe_buffer[VIEW_NAME_SIZE];
	char buffers[VIEW_NAMES - 1][VIEW_NAME_SIZE];
};

void view_init(struct view *view, const struct rules *rules, const struct rule_subject *subject,
	       struct view *parent);
bool condition_holds(const struct rules *rules, const struct condition *condition,
		     const struct view *view);
const char *view_subcommand(const struct view *view, const struct words *words);
const char *view_field(const struct view *view, enum field field);

// Expands the first alternative whose parts are all known; NULL with 0 when none is. -ENOMEM.
int template_expand(const struct template *template, const struct view *view,
		    const struct words *subcommands, struct arena *arena, const char **ret_text);

// The same into text, which holds size bytes; more is cut. false when none is known.
bool template_fill(const struct template *template, const struct view *view,
		   const struct words *subcommands, char *text, size_t size, size_t *ret_length);

// Reads the "join" of an entry; none is no error.
int joins_read(struct reader *reader, const struct node *map, const struct join_rule **ret_joins);
// Adds what the rule's joins say of this program.
int joins_take(const struct rules *rules, const struct rule *rule, const struct view *view, struct arena *arena,
	       struct rule_result *result);

bool rule_holds(const struct rules *rules, const struct rule *rule, const struct view *view);

// The rules that can match a program, in order.
struct order_list {
	const uint32_t *next, *end;
};
struct candidates {
	uint32_t count;
	struct order_list lists[VIEW_NAMES + 3];
	uint32_t globbed[VIEW_GLOBBED]; // found by patterns, ascending
};
void candidates_begin(struct candidates *candidates, const struct rules *rules,
		      const struct view *view);
const struct rule *candidates_next(struct candidates *candidates, const struct rules *rules);

const char *path_base(const char *path);
uint32_t text_hash(const char *text, size_t length);
