// SPDX-License-Identifier: Apache-2.0
// Between token.c (the table) and token_file.c (the file). Nobody else includes it.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "lake/token.h"

#define TOKEN_PREFIX "tracer_"

enum { TOKEN_SECRET_BYTES = 32, TOKEN_HASH_BYTES = 32, TOKEN_KEY_BYTES = 32 };

struct token_entry {
	struct token_entry *next;
	struct token_entry *next_of_host; // in the same bucket of hosts
	struct token token;
	unsigned char hash[TOKEN_HASH_BYTES];
};

struct tokens {
	pthread_mutex_t lock; // of the table and of what was read
	int directory_fd;
	unsigned char key[TOKEN_KEY_BYTES];
	struct token_entry *entries; // in the order they were made
	struct token_entry **entries_end;
	size_t entry_count;
	struct token_entry **slots; // by id
	struct token_entry **hosts; // buckets by host_id, as many as slots; only entries that have one
	size_t slot_count;
	dev_t device;
	ino_t inode;
	off_t read_to; // whole lines up to here are in the table
};

// NULL: unknown.
struct token_entry *tokens_find(const struct tokens *tokens, const char *id);
// Copies the entry. -EEXIST, -ENOMEM.
int tokens_insert(struct tokens *tokens, const struct token_entry *entry);
void tokens_clear(struct tokens *tokens);

// Takes in what was appended since the last look; the caller holds the lock. Cheap when nothing was.
int token_file_refresh(struct tokens *tokens);

// Append one line, sync it and take it in. The caller does not hold the lock.
int token_file_append_created(struct tokens *tokens, const struct token_entry *entry);
int token_file_append_event(struct tokens *tokens, const char *event, const char *id);
