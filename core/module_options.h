// SPDX-License-Identifier: Apache-2.0
// The values of every module's declared options: in a configuration under the module's name, or as their defaults.
#pragma once

#include "core/config.h"
#include "core/module.h"

struct module_options {
	void *values[MODULE_ID_END]; // by module id, laid out by module.options; NULL: the module has none
};

// Adds each module's options to config, which writes their defaults and owns strings and lists among them: free it
// first. 0 or -errno as config_add().
int module_options_add(struct config *config, struct module_options *options);
// Idempotent; takes a zeroed struct.
void module_options_free(struct module_options *options);

// Copies the modules' tables into tables, for help and completion, at most room of them. Returns how many.
size_t module_option_tables(struct option_table *tables, size_t room);
