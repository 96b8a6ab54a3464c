// SPDX-License-Identifier: Apache-2.0
// Lake, series: packed columns, and folding points into steps. Knows no store. What is unpacked may be damaged: sizes
// are checked before memory is taken.

#include "lake/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/base/cleanup.h"
#include "lake/varint.h"

enum { ROWS_MAX = 200000, COLUMNS_MAX = SERIES_METRICS_MAX * 5 + 1, RAW_MAX = 64 * 1024 * 1024, LEVEL = 3 };

// --- packing ---------------------------------------------------------------------------

int chunk_pack(const uint64_t *rows, size_t count, size_t columns, struct buf *out)
{
	CLEANUP(buf_free) struct buf raw = BUF_INIT;
	uLongf size;
	char head[VARINT_MAX];
	size_t head_length;

	varint_put(&raw, count);
	varint_put(&raw, columns);
	for (size_t column = 0; column <= columns; column++) {
		uint64_t above = 0;

		if (buf_reserve(&raw, count * VARINT_MAX) < 0)
			return -ENOMEM;
		for (size_t row = 0; row < count; row++) {
			uint64_t value = rows[row * (columns + 1) + column] + (column > 0); // unknown becomes 0

			varint_put(&raw, zigzag((int64_t)(value - above)));
			above = value;
		}
	}
	size = compressBound((uLong)raw.length);
	head_length = (size_t)(varint_write((unsigned char *)head, raw.length) - (unsigned char *)head);
	if (buf_error(&raw) < 0 || buf_reserve(out, size + head_length) < 0)
		return -ENOMEM;
	buf_append(out, head, head_length);
	if (compress2((Bytef *)out->data + out->length, &size, (const Bytef *)raw.data, (uLong)raw.length, LEVEL) !=
	    Z_OK)
		return -ENOMEM;
	out->length += size;
	return 0;
}

static int inflate_chunk(const void *data, size_t size, unsigned char **ret_raw, size_t *ret_size)
{
	struct varint_reader head = varint_reader(data, size);
	uint64_t raw_size = varint_get(&head);
	CLEANUP(cleanup_free) unsigned char *raw = NULL;
	uLongf length = (uLongf)raw_size;

	if (head.failed || raw_size > RAW_MAX)
		return -EBADMSG;
	raw = malloc(raw_size + 1);
	if (!raw)
		return -ENOMEM;
	if (uncompress(raw, &length, head.at, (uLong)(head.end - head.at)) != Z_OK || length != raw_size)
		return -EBADMSG;
	*ret_raw = raw;
	*ret_size = length;
	raw = NULL;
	return 0;
}

int chunk_unpack(const void *data, size_t size, size_t columns, uint64_t **ret_rows, size_t *ret_count)
{
	CLEANUP(cleanup_free) unsigned char *raw = NULL;
	CLEANUP(cleanup_free) uint64_t *rows = NULL;
	struct varint_reader reader;
	uint64_t count, stored;
	size_t raw_size;
	int status = inflate_chunk(data, size, &raw, &raw_size);

	if (status < 0)
		return status;
	reader = varint_reader(raw, raw_size);
	count = varint_get(&reader);
	stored = varint_get(&reader);
	if (reader.failed || count > ROWS_MAX || stored > COLUMNS_MAX || columns > COLUMNS_MAX)
		return -EBADMSG;
	rows = malloc((count * (columns + 1) + 1) * sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	memset(rows, 0xff, (count * (columns + 1) + 1) * sizeof(*rows));
	for (size_t column = 0; column <= stored; column++) {
		uint64_t above = 0;

		for (uint64_t row = 0; row < count; row++) {
			above += (uint64_t)unzigzag(varint_get(&reader));
			if (column <= columns)
				rows[row * (columns + 1) + column] = above - (column > 0);
		}
	}
	if (reader.failed)
		return -EBADMSG;
	*ret_rows = rows;
	*ret_count = count;
	rows = NULL;
	return 0;
}

// --- folding ---------------------------------------------------------------------------

static uint64_t add_up_to_max(uint64_t a, uint64_t b)
{
	return b > LAKE_U64_MAX - a ? LAKE_U64_MAX : a + b;
}

void series_sum_merge(struct series_sum *into, const struct series_sum *from)
{
	if (!from->count)
		return;
	if (!into->count || from->min < into->min)
		into->min = from->min;
	if (!into->count || from->max > into->max)
		into->max = from->max;
	into->count = add_up_to_max(into->count, from->count);
	into->sum = add_up_to_max(into->sum, from->sum);
	into->covered_ns = add_up_to_max(into->covered_ns, from->covered_ns);
}

void series_fold_begin(struct series_fold *fold, enum series_kind kind, const uint8_t *metrics, size_t metric_count,
		       uint64_t step_ns)
{
	memset(fold, 0, sizeof(*fold));
	fold->kind = kind;
	fold->metrics = metrics;
	fold->metric_count = metrics ? metric_count : series_schemas[kind].metric_count;
	fold->step_ns = step_ns;
	memset(fold->last, 0xff, sizeof(fold->last));
}

// False when the step of time_ns is another one than the open one, which has to be taken first.
static bool fold_open(struct series_fold *fold, uint64_t time_ns)
{
	uint64_t start_ns = time_ns - time_ns % fold->step_ns;

	if (fold->open && start_ns != fold->step_start_ns)
		return false;
	if (!fold->open) {
		memset(fold->sums, 0, fold->metric_count * sizeof(fold->sums[0]));
		fold->step_start_ns = start_ns;
		fold->open = true;
	}
	return true;
}

static uint64_t rate_of(uint64_t rise, uint64_t ns)
{
	double rate = (double)rise * 1e12 / (double)ns;

	return rate < 9e18 ? (uint64_t)(rate + 0.5) : LAKE_U64_MAX;
}

static void fold_counter(struct series_fold *fold, size_t i, uint64_t time_ns, uint64_t value)
{
	struct series_sum one = {.count = 1};

	if (fold->kind == SERIES_RUN) {
		// Amounts of a step of 10 s, not a running count.
		one.sum = value;
		one.covered_ns = UINT64_C(10000000000);
	} else if (fold->last[i] != LAKE_NULL && time_ns > fold->last_ns[i]) {
		one.sum = value >= fold->last[i] ? value - fold->last[i] : value;
		one.covered_ns = time_ns - fold->last_ns[i];
	} else {
		fold->last[i] = value;
		fold->last_ns[i] = time_ns;
		return;
	}
	one.min = one.max = rate_of(one.sum, one.covered_ns);
	series_sum_merge(&fold->sums[i], &one);
	fold->last[i] = value;
	fold->last_ns[i] = time_ns;
}

bool series_fold_point(struct series_fold *fold, uint64_t time_ns, const uint64_t *value)
{
	const struct series_metric *metrics = series_schemas[fold->kind].metrics;

	if (!fold_open(fold, time_ns))
		return true;
	for (size_t i = 0; i < fold->metric_count; i++) {
		unsigned metric = fold->metrics ? fold->metrics[i] : (unsigned)i;

		if (value[metric] == LAKE_NULL)
			continue;
		if (metrics[metric].type == SERIES_COUNTER)
			fold_counter(fold, i, time_ns, value[metric]);
		else
			series_sum_merge(&fold->sums[i], &(struct series_sum){.count = 1,
									      .sum = value[metric],
									      .min = value[metric],
									      .max = value[metric]});
	}
	fold->any = true;
	fold->last_time_ns = time_ns;
	return false;
}

bool series_fold_sums(struct series_fold *fold, uint64_t time_ns, const struct series_sum *sums)
{
	if (!fold_open(fold, time_ns))
		return true;
	for (size_t i = 0; i < fold->metric_count; i++)
		series_sum_merge(&fold->sums[i], &sums[fold->metrics ? fold->metrics[i] : i]);
	return false;
}

void series_fold_before(struct series_fold *fold, uint64_t time_ns, const uint64_t *value)
{
	for (size_t i = 0; i < fold->metric_count; i++) {
		unsigned metric = fold->metrics ? fold->metrics[i] : (unsigned)i;

		if (value[metric] == LAKE_NULL)
			continue;
		fold->last[i] = value[metric];
		fold->last_ns[i] = time_ns;
	}
	fold->any = true;
	fold->last_time_ns = time_ns;
}
