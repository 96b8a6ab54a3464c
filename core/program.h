// SPDX-License-Identifier: Apache-2.0
// The strings of images: what a process runs, with which arguments, where. For core/process.c; others read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NULL is unknown.
struct image_strings {
	const char *exe, *script, *interpreter, *cwd;
	const char *args; // args_size bytes, NUL-separated
	uint32_t args_size, args_total;
};

// Shared by a parent and the children it forked until they exec, and by those that call the same program with the same
// arguments in the same directory.
struct program {
	uint64_t id; // never used for another
	uint32_t references;
	uint32_t uses; // images that ever had it
	bool plain; // its arguments hold no secret: they were looked through
	uint64_t hash; // 0: never looked for
	struct image_strings strings; // owned; each ends in a NUL
	char *record; // its members of a process record, once it is used again; NULL before
	uint32_t record_size;
};

enum { PROGRAMS_KEPT = 256 };

// The last plain program of each hash: what is called now is often called again.
struct programs {
	struct program *kept[PROGRAMS_KEPT];
};

// A copy of the strings, with one reference. NULL when memory is out.
struct program *program_new(const struct image_strings *strings);
void program_release(struct program *program); // takes NULL

// A kept one with these strings, or a new one; with one reference more. NULL when memory is out.
struct program *program_of(struct programs *programs, const struct image_strings *strings);

// Its arguments hold no secret: it may be given to others with the same strings.
void program_plain(struct programs *programs, struct program *program);

void programs_forget(struct programs *programs);
