// SPDX-License-Identifier: Apache-2.0
// Correlate, the question to the rules: a process with up to three of its ancestors. The same command called again from
// the same place gets the answer of the last time, since the rules see nothing but what the key has. Kept answers are
// bounded, and forgotten with the rules.
#include <stdlib.h>
#include <string.h>

#include "core/correlate_private.h"

enum { ANSWERS = 128, ANSWER_TEXT_MAX = 1024, ENGINE_SIZE = 16 };

// All that a rule can look at of one process. Words, so that comparing is cheap: musl's memcmp goes byte by byte.
struct level {
	uint64_t program; // struct program.id: executable, script, interpreter, arguments, directory
	uint64_t cgroup;
	uint64_t cgroup_path; // another address after a rename
	uint64_t uid;
	uint64_t comm[PROC_COMM_SIZE / 8];
	uint64_t engine[ENGINE_SIZE / 8];
};

struct key {
	uint64_t hash;
	struct level levels[1 + PARENTS_SEEN];
};

struct answer {
	struct key key; // levels[0].program 0: none
	struct rule_result result;
	char *text; // behind the result's strings; owned
};

struct answers {
	struct answer each[ANSWERS];
};

static struct rule_subject subject_of(const struct process *process)
{
	const struct image *image = process->image;
	const struct cgroup *cgroup = process->cgroup;

	return (struct rule_subject){
		.comm = image->comm,
		.exe = image->exe,
		.script = image->script,
		.interpreter = image->interpreter,
		.args = image->args,
		.args_size = image->args_size,
		.cwd = image->cwd,
		.uid = process->uid,
		.cgroup_path = cgroup ? cgroup->path : NULL,
		.container_runtime = cgroup && cgroup->container_id ? cgroup->runtime : NULL,
		.ecs_task = cgroup ? cgroup->ecs_task : NULL,
		.container_id = cgroup ? cgroup->container_id : NULL,
		.pod_uid = cgroup ? cgroup->pod_uid : NULL,
		.slurm_step = cgroup ? cgroup->slurm_step : NULL,
		.slurm_job = cgroup ? cgroup->slurm_job : -1,
		.engine = process->run ? process->run->engine : NULL,
	};
}

// False: this process cannot be told from another by a key.
static bool level_of(const struct process *process, struct level *level)
{
	const struct image *image = process->image;
	const char *engine = process->run ? process->run->engine : "";
	size_t length = strlen(engine);

	if (!image->program || length >= ENGINE_SIZE)
		return false;
	level->program = image->program->id;
	level->cgroup = process->cgroup ? process->cgroup->id : 0;
	level->cgroup_path = process->cgroup ? (uintptr_t)process->cgroup->path : 0;
	level->uid = process->uid;
	memcpy(level->comm, image->comm, sizeof(level->comm));
	memcpy(level->engine, engine, length);
	return true;
}

static bool key_of(const struct process *process, struct key *ret_key)
{
	struct key key = { 0 };
	const uint64_t *words = (const uint64_t *)key.levels;
	int count = 0;

	for (const struct process *each = process; each && each->image && count <= PARENTS_SEEN; each = each->parent)
		if (!level_of(each, &key.levels[count++]))
			return false;
	for (size_t i = 0; i < sizeof(key.levels) / (sizeof(uint64_t)); i++)
		key.hash = (key.hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	key.hash ^= key.hash >> 32;
	*ret_key = key;
	return true;
}

static bool keys_same(const struct key *a, const struct key *b)
{
	const uint64_t *left = (const uint64_t *)a, *right = (const uint64_t *)b;

	for (size_t i = 0; i < sizeof(struct key) / sizeof(uint64_t); i++)
		if (left[i] != right[i])
			return false;
	return true;
}

static void result_texts(struct rule_result *result, const char **ret_texts[12])
{
	const char **texts[12] = {
		&result->tool,	      &result->category,   &result->engine,	&result->run_name,
		&result->task_id,     &result->task_name,  &result->sample,	&result->task_engine,
		&result->job_engine,  &result->job_id,	   &result->job_name,	&result->job_task,
	};

	memcpy(ret_texts, texts, sizeof(texts));
}

// The rules' own names live as long as the rules do, but telling them from the arena's is not worth it.
static void answer_keep(struct answer *answer, const struct key *key, const struct rule_result *result)
{
	char text[ANSWER_TEXT_MAX], *copy;
	const char **texts[12];
	size_t used = 0;

	free(answer->text);
	*answer = (struct answer){ .result = *result };
	result_texts(&answer->result, texts);
	for (size_t i = 0; i < 12; i++) {
		size_t size = *texts[i] ? strlen(*texts[i]) + 1 : 0;

		if (size > sizeof(text) - used)
			return;
		if (size)
			memcpy(text + used, *texts[i], size);
		used += size;
	}
	copy = malloc(used);
	if (!copy)
		return;
	memcpy(copy, text, used);
	answer->text = copy;
	for (size_t i = 0; i < 12; i++) {
		if (!*texts[i])
			continue;
		*texts[i] = copy;
		copy += strlen(copy) + 1;
	}
	answer->key = *key;
}

int match_process(struct correlate *correlate, const struct process *process, struct rule_result *ret_result)
{
	struct rule_subject subjects[1 + PARENTS_SEEN];
	const struct process *each = process;
	struct answer *answer = NULL;
	struct key key;
	int count = 0, error;

	if (correlate->answers && key_of(process, &key)) {
		answer = &correlate->answers->each[key.hash % ANSWERS];
		if (answer->key.levels[0].program && keys_same(&answer->key, &key)) {
			*ret_result = answer->result;
			return 0;
		}
	}
	for (; each && each->image && count < 1 + PARENTS_SEEN; each = each->parent, count++) {
		subjects[count] = subject_of(each);
		if (count)
			subjects[count - 1].parent = &subjects[count];
	}
	arena_reset(&correlate->arena);
	error = rules_match(correlate->rules, subjects, &correlate->arena, ret_result);
	// A program called for the first time may never be called again.
	// Keys of joins are in the arena, and few programs have any.
	if (!error && answer && process->image->program->uses > 1 && !ret_result->join_count)
		answer_keep(answer, &key, ret_result);
	return error;
}

struct answers *answers_new(void)
{
	return calloc(1, sizeof(struct answers));
}

void answers_forget(struct answers *answers)
{
	for (size_t i = 0; answers && i < ANSWERS; i++) {
		free(answers->each[i].text);
		answers->each[i] = (struct answer){ 0 };
	}
}

void answers_free(struct answers *answers)
{
	answers_forget(answers);
	free(answers);
}
