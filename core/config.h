// SPDX-License-Identifier: Apache-2.0
// The configuration: declared options of several tables, filled from a YAML file, then TRACER_* variables, then
// flags, the later winning whatever order they are read in. Nothing undeclared is accepted. Values are written into
// the tables' own structs; strings and lists there belong to the config.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/option.h"

#define CONFIG_FILE "/etc/tracer/tracer.yaml"

enum { CONFIG_ERROR_SIZE = 768, CONFIG_FILE_MAX = 1024 * 1024 };

// The options of a room or module. With a name, a key "interval" is the path NAME: interval:, the variable
// TRACER_NAME_INTERVAL and the flag --NAME-interval; with "" keys stand as they are.
struct option_table {
	const char *name; // NULL ends an array of tables
	const struct option_spec *options;
	void *values; // laid out by the options; NULL where only the declaration is needed
};

struct config;

int config_new(struct config **ret_config);
void config_free(
	struct config *config); // takes NULL; strings and lists in the tables' structs are released

// Adds a table and writes its defaults. -EEXIST: a key, variable or flag is taken; -EINVAL: a default is not allowed by
// its own declaration.
int config_add(struct config *config, const char *name, const struct option_spec *options,
	       void *values);

// Reads a file. -ENOENT when it is absent and required is false is no error: 0. On any failure error has
// "file:line: key: reason and what is allowed" (-EINVAL), or why the file could not be read.
int config_load_file(struct config *config, const char *path, bool required,
		     char error[CONFIG_ERROR_SIZE]);

// Takes the TRACER_* variables of an environment ("NAME=value", NULL-terminated). An unknown one is -EINVAL, save
// TRACER_CONFIG and what Kubernetes sets for a service of the name tracer (TRACER_PORT, TRACER_SERVICE_HOST, ...).
int config_load_environment(struct config *config, char *const *environment,
			    char error[CONFIG_ERROR_SIZE]);

// The option behind a flag's name (without dashes, length bytes), or NULL.
const struct option_spec *config_find_flag(const struct config *config, const char *name,
					   size_t length);
int config_set_flag(struct config *config, const struct option_spec *spec, const char *text,
		    char error[CONFIG_ERROR_SIZE]);

// The option of that full key ("spool.cap_bytes") was set by a file, variable or flag.
bool config_is_set(const struct config *config, const char *key);

// "file:line: key", "TRACER_KEY" or "--key": where the value of that full key came from, for a message about it.
void config_where(const struct config *config, const char *key, char *out, size_t size);

// Writes every value as YAML that can be read back, and after each where it came from. 0 or -errno.
int config_write(const struct config *config, FILE *out);

// The flag and variable of a key: "--spool-cap-bytes", "TRACER_SPOOL_CAP_BYTES". Cut at size.
void config_flag_name(const char *table, const struct option_spec *spec, char *out, size_t size);
void config_variable_name(const char *table, const struct option_spec *spec, char *out,
			  size_t size);
