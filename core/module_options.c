// SPDX-License-Identifier: Apache-2.0
// Between the modules' declarations and the configuration: memory for the values, nothing else.
#include "core/module_options.h"

#include <errno.h>
#include <stdlib.h>

int module_options_add(struct config *config, struct module_options *options)
{
	int result = 0;

	for (size_t i = 0; modules[i] && !result; i++) {
		const struct module *module = modules[i];

		if (!module->options)
			continue;
		options->values[module->id] = calloc(1, module->options_size);
		if (!options->values[module->id])
			return -ENOMEM;
		result = config_add(config, module->name, module->options, options->values[module->id]);
	}
	return result;
}

void module_options_free(struct module_options *options)
{
	for (size_t id = 0; id < MODULE_ID_END; id++) {
		free(options->values[id]);
		options->values[id] = NULL;
	}
}

size_t module_option_tables(struct option_table *tables, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; modules[i] && count < room; i++) {
		if (modules[i]->options)
			tables[count++] = (struct option_table){ modules[i]->name, modules[i]->options, NULL };
	}
	return count;
}
