// SPDX-License-Identifier: Apache-2.0
// Reading the sections of a rules file: the tables of keys and what the files of this part share.
#pragma once

#include <stddef.h>

#include "core/rules_private.h"

enum key_type {
	KEY_TEXT,
	KEY_BOOL,
	KEY_TEMPLATE,
	KEY_WORDS,
	KEY_GLOBS,
	KEY_FOLDED_GLOBS,
	KEY_CONDITION,
	KEY_ELSEWHERE, // read by the caller
};

struct key {
	const char *name; // NULL ends a table
	enum key_type type;
	size_t offset; // of the value in base
};

// Reads a map by its table into base. -EINVAL after all its errors were told.
int read_map(struct reader *reader, const struct node *map, const struct key *keys,
	     const char *what, void *base);
int read_list(struct reader *reader, const struct node *node,
	      int (*read)(struct reader *reader, const struct node *node));

struct node *node_find(const struct node *map, const char *key);

// Words of a text, or the texts of a list, as a list.
int node_split(struct reader *reader, const struct node *node, struct node **ret_list);
bool has_wildcard(const char *text);

// "file:line", NULL when memory is out.
const char *place_of(struct reader *reader, uint32_t line);

// Tells that a key is missing when value is NULL.
int require(struct reader *reader, const struct node *node, const char *what, const char *key,
	    const void *value);

// An empty rule of the file being read, and its place in the order once it is complete.
struct rule *rule_new(struct reader *reader, const struct node *node, enum section section);
int rule_add(struct reader *reader, const struct node *node, struct rule *rule);

// Adds the words to a list of lists.
int read_words_into(struct reader *reader, const struct node *node, const struct words **list);

// --- sections ----------------------------------------------------------------------------------

int read_tool(struct reader *reader, const struct node *node);
int read_engine(struct reader *reader, const struct node *node);
int read_job(struct reader *reader, const struct node *node);
int read_boundary(struct reader *reader, const struct node *node);
int read_join(struct reader *reader, const struct node *node);
int read_catalogue(struct reader *reader, const struct node *node);

int read_interpreter(struct reader *reader, const struct node *node);
int read_redaction(struct reader *reader, const struct node *node);
int read_filter(struct reader *reader, const struct node *node);
int read_samples(struct reader *reader, const struct node *node);
