// SPDX-License-Identifier: Apache-2.0
// Lake: the shares of a process's programs. Pure.

#include "lake/shares.h"

#include <string.h>

#include "core/report_tree.h"

static const uint8_t sums[IMAGE_PEAK_RSS] = {
	[IMAGE_CPU] = SUM_cpu_ns,
	[IMAGE_RUN_DELAY] = SUM_run_delay_ns,
	[IMAGE_MINOR_FAULTS] = SUM_minor_faults,
	[IMAGE_MAJOR_FAULTS] = SUM_major_faults,
	[IMAGE_RCHAR] = SUM_rchar_bytes,
	[IMAGE_WCHAR] = SUM_wchar_bytes,
	[IMAGE_READ] = SUM_read_bytes,
	[IMAGE_WRITE] = SUM_write_bytes,
};

const struct lake_text *shares_tool(const struct lake_row *row, uint32_t i)
{
	const struct lake_image *image = &row->images[i];
	uint64_t begin_ns = row->slot[PROCESSES_start_ns].u64, next_ns = image[1].start_ns;

	if (next_ns == LAKE_NULL)
		return NULL;
	if (i == 0 && report_is_launch(next_ns > begin_ns ? next_ns - begin_ns : 0,
				       image->forked ? image->value[IMAGE_CPU] : LAKE_NULL))
		return NULL;
	return image->tool ? image->tool : image->comm;
}

void shares_take(const struct lake_image *image, uint64_t left[SUM_END], uint64_t ret_share[SUM_END])
{
	memset(ret_share, 0, SUM_END * sizeof(*ret_share));
	for (unsigned v = 0; v < IMAGE_PEAK_RSS; v++) {
		uint64_t value = image->value[v] == LAKE_NULL ? 0 : image->value[v], *rest = &left[sums[v]];

		// A share that the process's sum does not cover would be counted twice.
		if (*rest == LAKE_NULL)
			continue;
		ret_share[sums[v]] = value < *rest ? value : *rest;
		*rest -= ret_share[sums[v]];
	}
}
