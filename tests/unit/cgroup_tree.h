// SPDX-License-Identifier: Apache-2.0
// A directory tree that stands in for cgroup hierarchies, and the mountinfo that says where they are. cmocka.h goes
// before it.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cgroup.h"

struct tree {
	char root[64];
	struct cgroup_table *table;
};

static inline char *tree_path(const struct tree *tree, const char *path)
{
	static char text[8192];

	snprintf(text, sizeof(text), "%s/%s", tree->root, path);
	return text;
}

static inline void make_directory(const struct tree *tree, const char *path)
{
	if (mkdir(tree_path(tree, path), 0755) && errno != EEXIST)
		fail_msg("mkdir %s: %s", path, strerror(errno));
}

static inline void write_file(const struct tree *tree, const char *path, const char *text)
{
	FILE *file = fopen(tree_path(tree, path), "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static inline uint64_t inode(const struct tree *tree, const char *path)
{
	struct stat status;

	assert_int_equal(stat(tree_path(tree, path), &status), 0);
	return status.st_ino;
}

static inline int tree_setup(void **state)
{
	struct tree *tree = calloc(1, sizeof(*tree));

	// The space is escaped in mountinfo.
	snprintf(tree->root, sizeof(tree->root), "/tmp/tracer cgroup.XXXXXX");
	if (!mkdtemp(tree->root))
		return -1;
	*state = tree;
	return 0;
}

static inline int tree_teardown(void **state)
{
	struct tree *tree = *state;
	char command[128];

	cgroup_table_free(tree->table);
	snprintf(command, sizeof(command), "rm -rf '%s'", tree->root);
	if (system(command))
		return -1;
	free(tree);
	return 0;
}

// One line of mountinfo for a directory of the tree.
static inline void mountinfo_add(FILE *file, const struct tree *tree, const char *root, const char *point,
				 const char *type, const char *options)
{
	fprintf(file, "31 22 0:27 %s ", root);
	for (const char *p = tree->root; *p; p++)
		fprintf(file, *p == ' ' ? "\\040" : "%c", *p);
	fprintf(file, "/%s rw,nosuid shared:9 - %s %s %s\n", point, type, type, options);
}

static inline FILE *mountinfo_open(const struct tree *tree)
{
	FILE *file = fopen(tree_path(tree, "mountinfo"), "w");

	assert_non_null(file);
	fputs("22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\nbroken line\n\n", file);
	return file;
}

static inline void table_open(struct tree *tree, FILE *mountinfo)
{
	assert_int_equal(fclose(mountinfo), 0);
	assert_int_equal(cgroup_table_new_from(tree_path(tree, "mountinfo"), &tree->table), 0);
}

static inline void open_unified(struct tree *tree)
{
	FILE *file = mountinfo_open(tree);

	make_directory(tree, "v2");
	write_file(tree, "v2/cgroup.controllers", "cpuset cpu io memory pids\n");
	mountinfo_add(file, tree, "/", "v2", "cgroup2", "rw,nsdelegate");
	table_open(tree, file);
}
