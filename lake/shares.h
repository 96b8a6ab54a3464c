// SPDX-License-Identifier: Apache-2.0
// How what a process used is divided among the programs it ran one after the other: those before the last get their own
// shares, the last one the rest, so that the sums of tools and of processes agree in every store.
#pragma once

#include "lake/rows.h"

// The name under which the i-th program's share counts; NULL: it has none of its own. The launch of a program (a
// shell's child before its exec) belongs to the program after it. i + 1 < row->image_count.
const struct lake_text *shares_tool(const struct lake_row *row, uint32_t i);

// Takes what the program used out of what is left of its process: never more than that has, nothing of what is unknown
// (LAKE_NULL) there. ret_share is all of it, 0 where it has none.
void shares_take(const struct lake_image *image, uint64_t left[SUM_END], uint64_t ret_share[SUM_END]);
