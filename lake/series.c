// SPDX-License-Identifier: Apache-2.0
// Lake: answers about series, whatever store they come from. Knows no store.
#include "lake/series.h"

#include <stdio.h>

const struct series_level series_levels[SERIES_LEVELS] = {
	{UINT64_C(10000000000), SERIES_MINUTE_NS},
	{SERIES_MINUTE_NS, 60 * SERIES_MINUTE_NS},
	{60 * SERIES_MINUTE_NS, 1440 * SERIES_MINUTE_NS},
};

int series_level_of(uint64_t step_ns)
{
	int level = -1;

	for (int i = 0; i < SERIES_LEVELS; i++) {
		if (step_ns && step_ns % series_levels[i].step_ns == 0)
			level = i;
	}
	return level;
}

void series_step_of_sum(const struct series_metric *metric, const struct series_sum *sum, struct store_step *step)
{
	double scale = metric->real ? 1e-3 : 1;

	*step = (struct store_step){.count = sum->count};
	if (!sum->count)
		return;
	step->sum = (double)sum->sum * scale;
	if (metric->type == SERIES_COUNTER) {
		step->mean = sum->covered_ns ? (double)sum->sum * 1e9 / (double)sum->covered_ns : 0;
		step->min = (double)sum->min / 1000;
		step->max = (double)sum->max / 1000;
	} else {
		step->mean = step->sum / (double)sum->count;
		step->min = (double)sum->min * scale;
		step->max = (double)sum->max * scale;
	}
}

const char *series_query_wrong(const struct store_series_query *query, char text[128])
{
	if (query->metric_count > SERIES_METRICS_MAX || query->kind >= SERIES_KIND_END)
		return "there is no such series";
	for (size_t i = 0; i < query->metric_count; i++) {
		if (query->metrics[i] >= series_schemas[query->kind].metric_count) {
			snprintf(text, 128, "%s has no such metric", series_schemas[query->kind].name);
			return text;
		}
	}
	return NULL;
}

int series_give_step(struct series_giver *giver)
{
	const struct store_series_query *query = giver->query;
	const struct series_schema *schema = &series_schemas[query->kind];
	struct store_step steps[SERIES_METRICS_MAX];
	bool any = false;

	if (!giver->fold.open)
		return 0;
	giver->fold.open = false;
	for (size_t i = 0; i < query->metric_count; i++) {
		series_step_of_sum(&schema->metrics[query->metrics[i]], &giver->fold.sums[i], &steps[i]);
		any |= steps[i].count > 0;
	}
	return any ? giver->step(giver->data, giver->label, giver->fold.step_start_ns, steps) : 0;
}

int series_give_point(struct series_giver *giver, uint64_t time_ns, const uint64_t *value)
{
	const struct store_series_query *query = giver->query;
	const struct series_schema *schema = &series_schemas[query->kind];
	struct store_step steps[SERIES_METRICS_MAX];
	bool any = false;

	for (size_t i = 0; i < query->metric_count; i++) {
		uint64_t known = value[query->metrics[i]];
		double number = (double)known * (schema->metrics[query->metrics[i]].real ? 1e-3 : 1);

		steps[i] = (struct store_step){.count = known != LAKE_NULL};
		if (known == LAKE_NULL)
			continue;
		steps[i].mean = steps[i].min = steps[i].max = steps[i].sum = number;
		any = true;
	}
	return any ? giver->step(giver->data, giver->label, time_ns, steps) : 0;
}
