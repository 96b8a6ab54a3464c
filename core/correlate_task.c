// SPDX-License-Identifier: Apache-2.0
// Correlate, what a task is called and which sample it is about. A task that its rule does not name
// is called after the most telling programs in it, in the order in which they started. Samples come
// from file names and are handed on along a chain of tasks by the files they share; the memory of a
// run for that is bounded.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/correlate_private.h"

enum { FILES_MAX = 8192, SAMPLE_SIZE = 128, SAMPLES_HELD = 4, PATH_MAX_HASHED = 4096 };

int task_set_name(struct task_private *task, const char *name)
{
	char *copy = strdup(name);

	if (!copy)
		return -ENOMEM;
	free(task->task.name);
	task->task.name = copy;
	return 0;
}

void task_forget_tools(struct correlate *correlate, struct task_private *task)
{
	for (uint32_t i = 0; i < task->name_count; i++)
		name_release(&correlate->names, task->names[i].text);
	task->name_count = 0;
	task->more = false;
	task->rank = 0;
}

static int join_names(struct task_private *task)
{
	char text[TASK_NAMES_MAX * 80 + 16] = "";
	size_t length = 0;

	for (uint32_t i = 0; i < task->name_count; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%.72s",
					   i ? " + " : "", task->names[i].text);
	if (task->more)
		snprintf(text + length, sizeof(text) - length, " + ...");
	return task_set_name(task, text);
}

int task_add_tool(struct correlate *correlate, struct task_private *task,
		  const struct process *process, const char *tool, uint32_t rank)
{
	uint32_t at = 0;

	if (task->naming != NAMING_TOOLS ||
	    (task->name_count && (rank < task->rank || rank == RULE_RANK_SILENT)))
		return 0;
	if (rank > task->rank)
		task_forget_tools(correlate, task);
	task->rank = (uint8_t)rank;
	for (uint32_t i = 0; i < task->name_count; i++)
		if (!strcmp(task->names[i].text, tool))
			return 0;
	if (task->name_count == TASK_NAMES_MAX) {
		if (task->more)
			return 0;
		task->more = true;
		return join_names(task);
	}
	while (at < task->name_count && task->names[at].start_boot_ns <= process->start_boot_ns)
		at++;
	const char *name = name_intern(&correlate->names, tool);
	if (!name)
		return -ENOMEM;
	memmove(&task->names[at + 1], &task->names[at],
		(task->name_count - at) * sizeof(task->names[0]));
	task->names[at].text = name;
	task->names[at].start_boot_ns = process->start_boot_ns;
	task->name_count++;
	return join_names(task);
}

// --- samples -------------------------------------------------------------------------------------------------------

static uint64_t hash_add(uint64_t hash, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
	return hash;
}

// Of the path as seen from the directory; "./" in front does not count.
static uint64_t hash_path(const char *cwd, const char *path, size_t length)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	while (length > 2 && path[0] == '.' && path[1] == '/') {
		path += 2;
		length -= 2;
	}
	if (*path != '/' && cwd) {
		hash = hash_add(hash, cwd, strnlen(cwd, PATH_MAX_HASHED));
		hash = hash_add(hash, "/", 1);
	}
	hash = hash_add(hash, path, length);
	return hash ? hash : 1;
}

static struct sample_file *find_file(const struct run_private *run, uint64_t path)
{
	if (!run->file_slots)
		return NULL;
	for (uint64_t i = path; run->files[i & (run->file_slots - 1)].path; i++)
		if (run->files[i & (run->file_slots - 1)].path == path)
			return &run->files[i & (run->file_slots - 1)];
	return NULL;
}

static const char *file_sample(const struct run_private *run, uint64_t path)
{
	const struct sample_file *file = find_file(run, path);

	return file ? file->sample : NULL;
}

static void put_file(struct sample_file *files, uint32_t slots, struct sample_file file)
{
	uint64_t i = file.path;

	while (files[i & (slots - 1)].path)
		i++;
	files[i & (slots - 1)] = file;
}

// No file of this path may be there yet. sample: interned, or NULL.
static int add_file(struct run_private *run, uint64_t path, const char *sample)
{
	if (run->file_count * 2 >= run->file_slots) {
		uint32_t slots = run->file_slots ? run->file_slots * 2 : 64;
		struct sample_file *files = calloc(slots, sizeof(*files));
		if (!files)
			return -ENOMEM;
		for (uint32_t i = 0; i < run->file_slots; i++)
			if (run->files[i].path)
				put_file(files, slots, run->files[i]);
		free(run->files);
		run->files = files;
		run->file_slots = slots;
	}
	put_file(run->files, run->file_slots, (struct sample_file){path, sample});
	run->file_count++;
	return 0;
}

int run_restore_file(struct correlate *correlate, struct run_private *run, uint64_t path, const char *sample)
{
	const char *name = NULL;
	int error;

	if (!path || run->file_count >= FILES_MAX || find_file(run, path))
		return 0;
	if (sample && !(name = name_intern(&correlate->names, sample)))
		return -ENOMEM;
	error = add_file(run, path, name);
	if (error)
		name_release(&correlate->names, name);
	return error;
}

// Remembers whose file this is. One that tasks of two samples name (a reference, known sites) is
// nobody's. Past the bound nothing more is learned.
static int learn_file(struct correlate *correlate, struct run_private *run, uint64_t path,
		      const char *sample)
{
	struct sample_file *known = find_file(run, path);

	if (known && known->sample && strcmp(known->sample, sample)) {
		name_release(&correlate->names, known->sample);
		known->sample = NULL;
	}
	if (known || run->file_count >= FILES_MAX)
		return 0;
	const char *name = name_intern(&correlate->names, sample);
	if (!name)
		return -ENOMEM;
	int error = add_file(run, path, name);
	if (error)
		name_release(&correlate->names, name);
	return error;
}

// A sample is known to a run when a file under its bare name was learned: the name itself stands as
// a path.
static uint64_t hash_sample(const char *sample, size_t length)
{
	return hash_add(hash_add(UINT64_C(14695981039346656037), "//sample/", 9), sample, length);
}

struct evidence {
	struct correlate *correlate;
	struct run_private *run;
	const char *cwd;
	char first[SAMPLE_SIZE]; // of the best file
	uint32_t weight;
	bool several; // files of that weight are not all of one name
	const char *known[SAMPLES_HELD]; // distinct, of the run
	uint32_t known_count;
};

static void add_known(struct evidence *evidence, const char *sample)
{
	for (uint32_t i = 0; i < evidence->known_count; i++)
		if (!strcmp(evidence->known[i], sample))
			return;
	if (evidence->known_count < SAMPLES_HELD)
		evidence->known[evidence->known_count++] = sample;
}

// "A" for "A.chr1" when A is a sample of the run.
static const char *known_sample(struct evidence *evidence, const char *stem, size_t length)
{
	for (size_t end = length; end > 0; end--) {
		if (end < length && !strchr("._-", stem[end]))
			continue;
		const char *sample = file_sample(evidence->run, hash_sample(stem, end));
		if (sample)
			return sample;
	}
	return NULL;
}

// Of one sample by their names: equal, or one goes on where the other ends ("S1", "S1.chr7").
static bool names_agree(const char *a, const char *b, size_t b_length)
{
	size_t length = strlen(a), least = length < b_length ? length : b_length;
	const char *rest = length < b_length ? b : a;

	return !memcmp(a, b, least) && (length == b_length || strchr("._-", rest[least]));
}

static void weigh_file(void *context, const char *path, size_t length, const char *stem,
		       size_t stem_length, uint32_t weight)
{
	struct evidence *evidence = context;
	const char *known = file_sample(evidence->run, hash_path(evidence->cwd, path, length));

	if (!known)
		known = known_sample(evidence, stem, stem_length);
	if (weight > evidence->weight || stem_length >= SAMPLE_SIZE ||
	    (!known && rules_sample_ignored(evidence->correlate->rules, stem, stem_length)))
		return;
	if (weight == evidence->weight && !names_agree(evidence->first, stem, stem_length))
		evidence->several = true;
	if (weight < evidence->weight) {
		evidence->several = false;
		evidence->known_count = 0;
		evidence->weight = weight;
		memcpy(evidence->first, stem, stem_length);
		evidence->first[stem_length] = 0;
	}
	if (known)
		add_known(evidence, known);
}

struct lesson {
	struct correlate *correlate;
	struct run_private *run;
	const char *cwd, *sample;
	int error;
};

static void learn(void *context, const char *path, size_t length, const char *stem,
		  size_t stem_length, uint32_t weight)
{
	struct lesson *lesson = context;

	(void)stem, (void)stem_length, (void)weight;
	if (!lesson->error)
		lesson->error = learn_file(lesson->correlate, lesson->run,
					   hash_path(lesson->cwd, path, length), lesson->sample);
}

static int set_sample(struct task_private *task, const char *sample, uint32_t weight)
{
	char *copy = strdup(sample);

	if (!copy)
		return -ENOMEM;
	free(task->task.sample);
	task->task.sample = copy;
	task->sample_weight = weight;
	return 0;
}

// Programs of more than one sample: the task is about none of them.
static void join_samples(struct task_private *task)
{
	free(task->task.sample);
	task->task.sample = NULL;
	task->sample_joint = true;
}

static int choose_sample(struct correlate *correlate, struct task_private *task,
			 const struct image *image)
{
	struct evidence evidence = {.correlate = correlate,
				    .run = run_of(task->task.run),
				    .cwd = image->cwd,
				    .weight = UINT32_MAX};
	const char *own = task->task.sample, *found;

	rules_files(correlate->rules, image->args, image->args_size, weigh_file, &evidence);
	if (evidence.weight == UINT32_MAX)
		return 0;
	found = evidence.known_count ? evidence.known[0] : evidence.first;
	if (evidence.known_count > 1 || (evidence.several && !evidence.known_count)) {
		if (!own)
			task->sample_joint = true;
		return 0;
	}
	if (own && names_agree(own, found, strlen(found)))
		return 0;
	if (!own)
		return set_sample(task, found, evidence.known_count ? 0 : evidence.weight);
	if (evidence.known_count || evidence.weight == task->sample_weight)
		join_samples(task);
	else if (evidence.weight < task->sample_weight)
		return set_sample(task, found, evidence.weight);
	return 0;
}

int task_add_sample(struct correlate *correlate, struct task_private *task,
		    const struct process *process, const char *sample)
{
	const struct image *image = process->image;
	struct lesson lesson = {
		.correlate = correlate, .run = run_of(task->task.run), .cwd = image->cwd};
	int error = 0;

	if (sample) {
		error = set_sample(task, sample, 0);
		task->sample_said = true;
	} else if (!task->sample_joint && !task->sample_said)
		error = choose_sample(correlate, task, image);
	if (error || !task->task.sample || task->sample_joint)
		return error;
	lesson.sample = task->task.sample;
	rules_files(correlate->rules, image->args, image->args_size, learn, &lesson);
	if (!lesson.error)
		lesson.error = learn_file(correlate, lesson.run,
					  hash_sample(lesson.sample, strlen(lesson.sample)),
					  lesson.sample);
	return lesson.error;
}
