// SPDX-License-Identifier: Apache-2.0
// The process table: chained entries in buckets by pid, which double when full. One pid may have several entries: one
// that lives, and ended ones that wait for their final figures. An entry owns its images;
// their strings are core/program.c's. Nothing here knows of modules,
// rules or records.
#include "core/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pool.h"
#include "core/program.h"

enum { BUCKETS_AT_START = 1024 };

struct process_table {
	struct process **buckets;
	size_t bucket_count; // a power of two
	size_t count;
	struct pool processes, images;
	struct program *nothing; // of an image whose strings are not known
	struct programs programs;
};

const char *quality_name(enum quality quality)
{
	switch (quality) {
	case QUALITY_EXACT:
		return "exact";
	case QUALITY_SAMPLED:
		return "sampled";
	case QUALITY_ESTIMATED:
		return "estimated";
	case QUALITY_UNKNOWN:
		break;
	}
	return "unknown";
}

const char *blocked_name(enum blocked blocked)
{
	static const char *const names[BLOCKED_END] = {
		[BLOCKED_DISK] = "disk", [BLOCKED_NETWORK_FS] = "network_fs", [BLOCKED_SOCKET] = "socket",
		[BLOCKED_PIPE] = "pipe", [BLOCKED_LOCK] = "lock",	      [BLOCKED_CHILD] = "child",
		[BLOCKED_TIMER] = "timer", [BLOCKED_OTHER] = "other",
	};

	return names[blocked];
}

const struct counters *process_counters(const struct process *process, bool known)
{
	static const struct counters unknown = {
		.cpu_ns = UNKNOWN, .utime_ns = UNKNOWN, .stime_ns = UNKNOWN, .run_delay_ns = UNKNOWN,
		.voluntary_switches = UNKNOWN, .involuntary_switches = UNKNOWN, .minor_faults = UNKNOWN,
		.major_faults = UNKNOWN, .rchar_bytes = UNKNOWN, .wchar_bytes = UNKNOWN, .read_syscalls = UNKNOWN,
		.write_syscalls = UNKNOWN, .read_bytes = UNKNOWN, .write_bytes = UNKNOWN,
		.cancelled_write_bytes = UNKNOWN,
	};

	return known ? &process->counters : &unknown;
}

uint64_t counters_user_ns(const struct counters *counters)
{
	uint64_t ticks = counters->utime_ns + counters->stime_ns;

	if (counters->cpu_ns == UNKNOWN || counters->utime_ns == UNKNOWN || counters->stime_ns == UNKNOWN)
		return UNKNOWN;
	if (!counters->stime_ns || !ticks)
		return counters->cpu_ns;
	return (uint64_t)((double)counters->cpu_ns * ((double)counters->utime_ns / (double)ticks));
}

static void image_free(struct process_table *table, struct image *image)
{
	program_release(image->program);
	pool_give(&table->images, image);
}

static void image_free_all(struct process_table *table, struct image *image)
{
	while (image) {
		struct image *next = image->next;

		image_free(table, image);
		image = next;
	}
}

int process_table_new(struct process_table **ret_table)
{
	struct process_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	pool_init(&table->processes, sizeof(struct process));
	pool_init(&table->images, sizeof(struct image));
	table->bucket_count = BUCKETS_AT_START;
	table->buckets = calloc(table->bucket_count, sizeof(*table->buckets));
	table->nothing = program_new(&(struct image_strings){ 0 });
	if (!table->buckets || !table->nothing) {
		process_table_free(table);
		return -ENOMEM;
	}
	*ret_table = table;
	return 0;
}

void process_table_free(struct process_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; table->buckets && i < table->bucket_count; i++) {
		struct process *process = table->buckets[i];

		while (process) {
			struct process *next = process->hash_next;

			image_free_all(table, process->images);
			pool_give(&table->processes, process);
			process = next;
		}
	}
	programs_forget(&table->programs);
	program_release(table->nothing);
	pool_free(&table->processes);
	pool_free(&table->images);
	free(table->buckets);
	free(table);
}

size_t process_table_count(const struct process_table *table)
{
	return table->count;
}

static size_t bucket_of(const struct process_table *table, uint32_t pid)
{
	return (pid * 2654435761u) & (table->bucket_count - 1);
}

struct process *process_find(struct process_table *table, uint32_t pid)
{
	struct process *process = table->buckets[bucket_of(table, pid)];

	while (process && (process->pid != pid || process->exit_boot_ns))
		process = process->hash_next;
	return process;
}

struct process *process_find_exact(struct process_table *table, uint32_t pid, uint64_t start_boot_ns)
{
	struct process *process = table->buckets[bucket_of(table, pid)];

	while (process && (process->pid != pid || process->start_boot_ns != start_boot_ns))
		process = process->hash_next;
	return process;
}

static void table_grow(struct process_table *table)
{
	size_t old_count = table->bucket_count;
	struct process **old = table->buckets;
	struct process **fresh = calloc(old_count * 2, sizeof(*fresh));

	if (!fresh)
		return; // longer chains, still right
	table->buckets = fresh;
	table->bucket_count = old_count * 2;
	for (size_t i = 0; i < old_count; i++) {
		while (old[i]) {
			struct process *process = old[i];
			size_t bucket = bucket_of(table, process->pid);

			old[i] = process->hash_next;
			process->hash_next = fresh[bucket];
			fresh[bucket] = process;
		}
	}
	free(old);
}

static void parent_link(struct process *process, struct process *parent)
{
	process->parent = parent;
	if (!parent)
		return;
	process->sibling_previous = NULL;
	process->sibling_next = parent->children;
	if (parent->children)
		parent->children->sibling_previous = process;
	parent->children = process;
}

static void parent_unlink(struct process *process)
{
	if (!process->parent)
		return;
	if (process->sibling_previous)
		process->sibling_previous->sibling_next = process->sibling_next;
	else
		process->parent->children = process->sibling_next;
	if (process->sibling_next)
		process->sibling_next->sibling_previous = process->sibling_previous;
	process->parent = NULL;
	process->sibling_next = process->sibling_previous = NULL;
}

void process_relink(struct process_table *table, struct process *process)
{
	struct process *parent;

	if (process->parent)
		return;
	parent = process->parent_start_boot_ns
			 ? process_find_exact(table, process->ppid, process->parent_start_boot_ns)
			 : process_find(table, process->ppid);
	if (parent && parent != process)
		parent_link(process, parent);
}

static void image_use(struct image *image, struct program *program)
{
	program->uses++;
	image->program = program;
	image->exe = program->strings.exe;
	image->script = program->strings.script;
	image->interpreter = program->strings.interpreter;
	image->cwd = program->strings.cwd;
	image->args = program->strings.args;
	image->args_size = program->strings.args_size;
	image->args_total = program->strings.args_total;
}

// A process that execs for ever keeps its first image and the latest ones.
static void images_bound(struct process_table *table, struct process *process)
{
	struct image *second = process->images->next;

	if (process->image_count <= IMAGES_MAX || second == process->image)
		return;
	process->images->next = second->next;
	image_free(table, second);
	process->image_count--;
	process->images_dropped++;
}

// Takes over the reference to the program.
static int image_append(struct process_table *table, struct process *process, uint64_t start_boot_ns,
			const char comm[PROC_COMM_SIZE], struct program *program)
{
	struct image *image = program ? pool_take(&table->images) : NULL;

	if (!image) {
		program_release(program);
		return -ENOMEM;
	}
	image_use(image, program);
	image->start_boot_ns = start_boot_ns;
	image->peak_rss_bytes = UNKNOWN;
	memcpy(image->comm, comm, PROC_COMM_SIZE);
	image->comm[PROC_COMM_SIZE - 1] = '\0';
	if (process->image)
		process->image->next = image;
	else
		process->images = image;
	process->image = image;
	process->image_count++;
	images_bound(table, process);
	return 0;
}

static void figures_unknown(struct process *process)
{
	process->rss_bytes = process->peak_rss_bytes = UNKNOWN;
	process->anon_bytes = process->file_bytes = process->shmem_bytes = process->swap_bytes = UNKNOWN;
	process->exit_code = -1;
	process->reclaim_stall_ns = process->compaction_stall_ns = UNKNOWN;
	process->state = '?';
}

int process_add(struct process_table *table, const struct event_identity *identity, struct process **ret_process)
{
	uint32_t pid = identity->process.pid;
	struct process *process;
	size_t bucket;
	int result;

	if (process_find(table, pid) || process_find_exact(table, pid, identity->process.start_ns))
		return -EEXIST;
	process = pool_take(&table->processes);
	if (!process)
		return -ENOMEM;
	process->pid = pid;
	process->start_boot_ns = identity->process.start_ns;
	process->ppid = identity->parent.pid;
	process->parent_start_boot_ns = identity->parent.start_ns;
	process->uid = identity->uid;
	process->gid = identity->gid;
	process->pid_in_namespace = identity->pid_in_namespace;
	process->session = identity->session;
	process->process_group = identity->process_group;
	memcpy(process->namespaces, identity->namespaces, sizeof(process->namespaces));
	process->cgroup_id = identity->cgroup_id;
	process->default_cgroup_id = identity->default_cgroup_id;
	figures_unknown(process);
	table->nothing->references++;
	result = image_append(table, process, process->start_boot_ns, identity->comm, table->nothing);
	if (result < 0) {
		pool_give(&table->processes, process);
		return result;
	}
	if (table->count >= table->bucket_count)
		table_grow(table);
	bucket = bucket_of(table, pid);
	process->hash_next = table->buckets[bucket];
	table->buckets[bucket] = process;
	table->count++;
	process_relink(table, process);
	*ret_process = process;
	return 0;
}

int process_add_image(struct process_table *table, struct process *process, uint64_t start_boot_ns,
		      const char comm[PROC_COMM_SIZE], const struct image_strings *strings)
{
	return image_append(table, process, start_boot_ns, comm, program_of(&table->programs, strings));
}

int process_restore_image(struct process_table *table, struct process *process, const struct image *like,
			  struct program *program)
{
	bool first = process->images->program == table->nothing && process->image_count == 1;
	struct image *image;
	int result;

	program->references++;
	result = image_append(table, process, like->start_boot_ns, like->comm, program);
	if (result < 0)
		return result;
	image = process->images;
	if (first) {
		process->images = image->next;
		process->image_count--;
		image_free(table, image);
	}
	image = process->image;
	image->forked = like->forked;
	image->at_start = like->at_start;
	image->peak_rss_bytes = like->peak_rss_bytes;
	return 0;
}

void process_program_plain(struct process_table *table, struct process *process)
{
	program_plain(&table->programs, process->image->program);
}

void process_programs_forget(struct process_table *table)
{
	programs_forget(&table->programs);
}

int process_set_strings(struct process *process, const struct image_strings *strings)
{
	struct image *image = process->image;
	struct program *program = program_new(strings);

	if (!program)
		return -ENOMEM;
	program_release(image->program);
	image_use(image, program);
	return 0;
}

void process_share_image(struct process *process, const struct process *parent)
{
	struct image *image = process->image;
	struct program *program = parent->image->program;

	program->references++;
	program_release(image->program);
	image_use(image, program);
	image->forked = true;
}

void process_remove(struct process_table *table, struct process *process)
{
	struct process **link = &table->buckets[bucket_of(table, process->pid)];

	while (*link && *link != process)
		link = &(*link)->hash_next;
	if (*link) {
		*link = process->hash_next;
		table->count--;
	}
	while (process->children)
		parent_unlink(process->children);
	parent_unlink(process);
	image_free_all(table, process->images);
	pool_give(&table->processes, process);
}

void process_each(struct process_table *table, void (*visit)(void *context, struct process *process), void *context)
{
	for (size_t i = 0; i < table->bucket_count; i++) {
		struct process *process = table->buckets[i];

		while (process) {
			struct process *next = process->hash_next;

			visit(context, process);
			process = next;
		}
	}
}

const char *image_name(const struct image *image)
{
	return image->args && image->args[0] ? image->args : image->comm;
}
