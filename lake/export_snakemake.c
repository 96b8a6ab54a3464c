// SPDX-License-Identifier: Apache-2.0
// A run as Snakemake's benchmark table: its columns and units, one line for each task. max_vms, max_uss and max_pss are
// not recorded, so they are NA, as Snakemake writes what it has not; io_in and io_out are MiB at the block layer.
#include <stdio.h>

#include "lake/export_private.h"

enum { FLUSH_BYTES = 32 * 1024 };

static const double MIB = 1024 * 1024, S_NS = 1e9;

static void put_scaled(struct buf *out, uint64_t value, double unit)
{
	if (value == LAKE_NULL)
		buf_append_string(out, "\tNA");
	else
		buf_printf(out, "\t%.2f", (double)value / unit);
}

// H:MM:SS, days in front.
static void put_clock(struct buf *out, uint64_t seconds)
{
	uint64_t days = seconds / 86400;

	if (days)
		buf_printf(out, "\t%llu day%s, ", (unsigned long long)days, days == 1 ? "" : "s");
	else
		buf_append_char(out, '\t');
	buf_printf(out, "%llu:%02llu:%02llu", (unsigned long long)(seconds % 86400 / 3600),
		   (unsigned long long)(seconds % 3600 / 60), (unsigned long long)(seconds % 60));
}

static void put_task(const struct export *export, struct buf *out, const struct export_task *task)
{
	const union lake_slot *row = task->row;
	uint64_t start = row[TASKS_start_ns].u64;
	uint64_t end = export_end(export, row[TASKS_end_ns].u64, row[TASKS_living].u64);
	uint64_t wall = start == LAKE_NULL || end < start ? 0 : end - start;
	const char *name = export_text(row[TASKS_task_name]);

	buf_printf(out, "%.4f", (double)wall / S_NS);
	put_clock(out, wall / UINT64_C(1000000000));
	put_scaled(out, row[TASKS_peak_rss_bytes].u64, MIB);
	buf_append_string(out, "\tNA\tNA\tNA");
	put_scaled(out, row[TASKS_read_bytes].u64, MIB);
	put_scaled(out, row[TASKS_write_bytes].u64, MIB);
	put_scaled(out, wall ? row[TASKS_cpu_ns].u64 : LAKE_NULL, (double)wall / 100);
	put_scaled(out, row[TASKS_cpu_ns].u64, S_NS);
	buf_printf(out, "\t%s\t", *export_text(row[TASKS_task]) ? export_text(row[TASKS_task]) : "-");
	for (; *name; name++)
		buf_append_char(out, *name == '\t' || *name == '\n' ? ' ' : *name);
	buf_append_char(out, '\n');
}

int export_snakemake(struct export *export)
{
	struct export_task *tasks;
	size_t count;
	int error = export_tasks(export, &tasks, &count);

	buf_append_string(&export->out,
			  "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\t"
			  "jobid\trule_name\n");
	for (size_t i = 0; i < count && !error; i++) {
		put_task(export, &export->out, &tasks[i]);
		if (export->out.length > FLUSH_BYTES)
			error = export_flush(export);
	}
	return error;
}
