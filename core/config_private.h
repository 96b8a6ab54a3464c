// SPDX-License-Identifier: Apache-2.0
// Shared by config.c and config_yaml.c.
#pragma once

#include "core/base/buf.h"
#include "core/config.h"

enum config_source { CONFIG_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_VARIABLE, CONFIG_FROM_FLAG };

struct config_entry {
	char *key; // full, with the table's name
	const struct option_spec *spec;
	void *value;
	enum config_source source; // of the value that stands
	unsigned line; // in the file; 0: not in the file
};

struct config {
	struct config_entry *entries; // in the order of their tables
	size_t count;
	char *path; // of the file that was read
};

struct config_entry *config_find(const struct config *config, const char *key);

// "no such key" with the nearest one, and the keys of the same section.
void config_unknown(const struct config *config, const char *key, struct buf *out);

// Sets a value unless a stronger source has set it; it is checked either way. The message has no place and key.
int config_set(struct config_entry *entry, enum config_source source, const char *text,
	       char error[OPTION_ERROR_SIZE]);

// Makes an error message harmless for a terminal and writes it out.
void config_error(char out[CONFIG_ERROR_SIZE], struct buf *message);

// config_yaml.c: reads the text of a file into the entries.
int config_parse_yaml(struct config *config, const char *path, const struct buf *text,
		      char error[CONFIG_ERROR_SIZE]);
