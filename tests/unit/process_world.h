// SPDX-License-Identifier: Apache-2.0
// A small world of made-up processes with the shipped rules, for tests of correlate. Included by one test program each.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/correlate.h"

enum { WORLD_SIZE = 4096 };

struct world {
	struct rules *rules;
	struct correlate *correlate;
	struct process *processes[WORLD_SIZE];
	uint32_t count;
	uint64_t now_ns;
};

__attribute__((unused)) static struct image *image_new(uint64_t now_ns)
{
	struct image *image = calloc(1, sizeof(*image));

	assert_non_null(image);
	image->start_boot_ns = now_ns;
	return image;
}

__attribute__((unused)) static void image_free(struct image *image)
{
	free((char *)image->exe);
	free((char *)image->script);
	free((char *)image->cwd);
	free((char *)image->args);
	free(image);
}

__attribute__((unused)) static struct process *spawn(struct world *world, struct process *parent)
{
	struct process *process = calloc(1, sizeof(*process));

	assert_non_null(process);
	assert_true(world->count < WORLD_SIZE);
	process->pid = 100 + world->count;
	process->start_boot_ns = world->now_ns += 10000000;
	process->uid = 1000;
	process->parent = parent;
	process->process_group = parent ? parent->process_group : process->pid;
	process->cgroup = parent ? parent->cgroup : NULL;
	process->images = process->image = image_new(world->now_ns);
	process->image_count = 1;
	if (parent) {
		memcpy(process->image->comm, parent->image->comm, sizeof(process->image->comm));
		process->sibling_next = parent->children;
		parent->children = process;
	}
	world->processes[world->count++] = process;
	assert_int_equal(correlate_fork(world->correlate, process), 0);
	return process;
}

// argv separated by '|'; cwd NULL: the parent's.
__attribute__((unused)) static void become_in(struct world *world, struct process *process, const char *exe,
		      const char *argv, const char *script, const char *cwd)
{
	struct image *image = image_new(world->now_ns += 1000000);
	const char *base = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
	char *args = strdup(argv);

	if (!cwd)
		cwd = process->image->cwd			       ? process->image->cwd
		      : process->parent && process->parent->image->cwd ? process->parent->image->cwd
								       : "/data";
	image->args_size = (uint32_t)strlen(args) + 1;
	for (char *c = args; *c; c++)
		*c = *c == '|' ? 0 : *c;
	image->args = args;
	image->args_total = image->args_size;
	image->exe = strdup(exe);
	image->script = script ? strdup(script) : NULL;
	image->cwd = strdup(cwd);
	snprintf(image->comm, sizeof(image->comm), "%s", base);
	process->image->next = image;
	process->image = image;
	process->image_count++;
	assert_int_equal(correlate_exec(world->correlate, process), 0);
}

__attribute__((unused)) static void become(struct world *world, struct process *process, const char *exe, const char *argv)
{
	become_in(world, process, exe, argv, NULL, NULL);
}

__attribute__((unused)) static struct process *start(struct world *world, struct process *parent, const char *exe,
			     const char *argv)
{
	struct process *process = spawn(world, parent);

	become(world, process, exe, argv);
	return process;
}

__attribute__((unused)) static struct process *start_in(struct world *world, struct process *parent, const char *exe,
				const char *argv, const char *cwd)
{
	struct process *process = spawn(world, parent);

	become_in(world, process, exe, argv, NULL, cwd);
	return process;
}

__attribute__((unused)) static void end(struct world *world, struct process *process)
{
	correlate_end(world->correlate, process);
	for (uint32_t i = 0; i < world->count; i++)
		if (world->processes[i] && world->processes[i]->parent == process)
			world->processes[i]->parent = NULL;
	if (process->parent) {
		struct process **link = &process->parent->children;
		while (*link != process)
			link = &(*link)->sibling_next;
		*link = process->sibling_next;
	}
	for (uint32_t i = 0; i < world->count; i++)
		if (world->processes[i] == process)
			world->processes[i] = NULL;
	for (struct image *image = process->images, *next; image; image = next) {
		next = image->next;
		image_free(image);
	}
	free(process);
}

__attribute__((unused)) static int world_set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	CLEANUP(buf_free) struct buf error = BUF_INIT;
	int result;

	assert_non_null(world);
	result = rules_load(NULL, &world->rules, &error);
	if (result)
		fprintf(stderr, "%s", error.data ? error.data : "");
	assert_int_equal(result, 0);
	assert_int_equal(correlate_new(world->rules, "0a1b2c3d-rest", &world->correlate), 0);
	*state = world;
	return 0;
}

__attribute__((unused)) static int world_tear_down(void **state)
{
	struct world *world = *state;

	for (uint32_t i = 0; i < world->count; i++)
		if (world->processes[i])
			end(world, world->processes[i]);
	correlate_free(world->correlate);
	rules_free(world->rules);
	free(world);
	return 0;
}

// init, sshd, a login shell
__attribute__((unused)) static struct process *login_shell(struct world *world)
{
	struct process *init = start(world, NULL, "/usr/lib/systemd/systemd", "/sbin/init");
	struct process *sshd = start(world, init, "/usr/sbin/sshd", "sshd: listener");
	struct process *shell = start(world, spawn(world, sshd), "/usr/bin/bash", "-bash");

	assert_null(init->run);
	assert_null(sshd->run);
	assert_null(shell->run);
	return shell;
}

__attribute__((unused)) static struct process *root(struct world *world, const char *exe, const char *argv)
{
	struct process *tracer = start(world, login_shell(world), "/usr/bin/tracer", "tracer|run");
	struct process *command = spawn(world, tracer);

	assert_int_equal(correlate_root(world->correlate, command, NULL), 0);
	become(world, command, exe, argv);
	return command;
}

__attribute__((unused)) static struct cgroup slurm_cgroup(int64_t job, const char *step)
{
	return (struct cgroup){.path = "/slurm",
			       .runtime = "slurm",
			       .slurm_job = job,
			       .slurm_uid = -1,
			       .slurm_step = step};
}
