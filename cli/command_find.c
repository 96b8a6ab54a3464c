// SPDX-License-Identifier: Apache-2.0
// Finding a subcommand by its name, and the one that was perhaps meant.

#include <string.h>

#include "cli/command.h"

const struct command *command_find(const char *name)
{
	for (const struct command *command = commands; command->name; command++) {
		if (!strcmp(command->name, name))
			return command;
	}
	return NULL;
}

// Edit distance (Levenshtein) of two short words; words longer than 15 are far from everything.
static unsigned command_distance(const char *from, const char *to)
{
	unsigned row[16];
	size_t width = strlen(to);

	if (width > 15 || strlen(from) > 15)
		return 16;
	for (unsigned i = 0; i <= width; i++)
		row[i] = i;
	for (unsigned i = 1; from[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= width; j++) {
			unsigned change = diagonal + (from[i - 1] != to[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < change)
				change = row[j] + 1;
			row[j] = row[j - 1] + 1 < change ? row[j - 1] + 1 : change;
		}
	}
	return row[width];
}

const char *command_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned best = 3;

	for (const struct command *command = commands; command->name; command++) {
		unsigned distance = command_distance(name, command->name);

		if (distance < best) {
			best = distance;
			nearest = command->name;
		}
	}
	return nearest;
}
