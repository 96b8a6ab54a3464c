// SPDX-License-Identifier: Apache-2.0
// Are two stores the same?
#pragma once

#include "lake/migrate.h"

// Reads both whole: for each entity the number of rows, and for each column how many values are known and their sum
// (of texts: of their hashes). 0: equal; 1: not, one difference() for each; -errno.
int migrate_prove(struct store_reader *left, struct store_reader *right, const struct migrate_hooks *hooks,
		  struct store_error *error);
