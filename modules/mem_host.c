// SPDX-License-Identifier: Apache-2.0
// Module mem, its host and cgroup samples. Sources: proc_meminfo(5), proc_vmstat(5),
// Documentation/accounting/psi.rst. Files stay open; one read each a sample. It writes members only: the record is
// begun and ended by the agent.
#include "modules/mem_host.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/cgroup_sample.h"

enum { FILE_MAX = 256 << 10, MEMBERS_MAX = 32 };

struct member {
	const char *name; // in the record
	const char *key; // in the file
	uint64_t factor; // to the unit of the name
};

// meminfo counts in KiB, huge pages in pages.
static const struct member meminfo_members[] = {
	{ "memory_total_bytes", "MemTotal:", 1024 },
	{ "memory_free_bytes", "MemFree:", 1024 },
	{ "memory_available_bytes", "MemAvailable:", 1024 },
	{ "memory_buffers_bytes", "Buffers:", 1024 },
	{ "memory_cached_bytes", "Cached:", 1024 },
	{ "memory_anon_bytes", "AnonPages:", 1024 },
	{ "memory_shmem_bytes", "Shmem:", 1024 },
	{ "memory_mapped_bytes", "Mapped:", 1024 },
	{ "memory_slab_reclaimable_bytes", "SReclaimable:", 1024 },
	{ "memory_slab_unreclaimable_bytes", "SUnreclaim:", 1024 },
	{ "memory_kernel_stack_bytes", "KernelStack:", 1024 },
	{ "memory_page_tables_bytes", "PageTables:", 1024 },
	{ "memory_dirty_bytes", "Dirty:", 1024 },
	{ "memory_writeback_bytes", "Writeback:", 1024 },
	{ "memory_committed_bytes", "Committed_AS:", 1024 },
	{ "swap_total_bytes", "SwapTotal:", 1024 },
	{ "swap_free_bytes", "SwapFree:", 1024 },
	{ "swap_cached_bytes", "SwapCached:", 1024 },
	{ "hugepages_total", "HugePages_Total:", 1 },
	{ "hugepages_free", "HugePages_Free:", 1 },
	{ "hugepage_size_bytes", "Hugepagesize:", 1024 },
};

enum { PAGES = 0 }; // factor: the page size

// pgfault counts all faults, the major ones included.
static const struct member vmstat_members[] = {
	{ "page_faults", "pgfault", 1 },
	{ "major_faults", "pgmajfault", 1 },
	{ "swap_in_bytes", "pswpin", PAGES },
	{ "swap_out_bytes", "pswpout", PAGES },
	{ "oom_kills", "oom_kill", 1 },
	{ "compaction_stalls", "compact_stall", 1 },
	{ "reclaim_direct_scanned_bytes", "pgscan_direct", PAGES },
	{ "reclaim_direct_bytes", "pgsteal_direct", PAGES },
	{ "reclaim_kswapd_bytes", "pgsteal_kswapd", PAGES },
	{ "refaults_file", "workingset_refault_file", 1 },
};

_Static_assert(sizeof(meminfo_members) / sizeof(meminfo_members[0]) <= MEMBERS_MAX, "meminfo_members");
_Static_assert(sizeof(vmstat_members) / sizeof(vmstat_members[0]) <= MEMBERS_MAX, "vmstat_members");

int mem_host_open_at(struct mem_host *host, const char *proc)
{
	int directory = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*host = (struct mem_host){ .page_size = (uint64_t)sysconf(_SC_PAGESIZE) };
	if (directory < 0)
		return 0;
	text_file_open(&host->meminfo, directory, "meminfo");
	text_file_open(&host->vmstat, directory, "vmstat");
	text_file_open(&host->pressure, directory, "pressure/memory");
	close(directory);
	return 0;
}

int mem_host_open(struct mem_host *host)
{
	return mem_host_open_at(host, "/proc");
}

void mem_host_close(struct mem_host *host)
{
	text_file_close(&host->meminfo);
	text_file_close(&host->vmstat);
	text_file_close(&host->pressure);
}

// One pass over the file for a whole table. Members come in the table's order, null where the file has no such line.
static void write_members(const char *text, const struct member *members, size_t count, uint64_t page_size,
			  struct json *json)
{
	struct text_key keys[MEMBERS_MAX + 1];
	uint64_t values[MEMBERS_MAX];

	for (size_t i = 0; i < count; i++) {
		keys[i] = (struct text_key){ members[i].key, i * sizeof(values[0]),
					     members[i].factor == PAGES ? page_size : members[i].factor };
		values[i] = TEXT_UNKNOWN;
	}
	keys[count] = (struct text_key){ 0 };
	text_take_keys(text, keys, values);
	for (size_t i = 0; i < count; i++)
		json_put_known_u64(json, members[i].name, values[i]);
}

// One counter for each zone; which zones there are differs by machine.
static uint64_t sum_allocation_stalls(const char *text)
{
	uint64_t sum = TEXT_UNKNOWN;

	for (const char *line = text; *line; line = text_next_line(line)) {
		if (strncmp(line, "allocstall", 10))
			continue;
		uint64_t value = text_number(line + strcspn(line, " ") + 1, NULL);

		if (value != TEXT_UNKNOWN)
			sum = sum == TEXT_UNKNOWN ? value : sum + value;
	}
	return sum;
}

void mem_host_fields(struct mem_host *host, struct json *json)
{
	uint64_t some_ns = TEXT_UNKNOWN, full_ns = TEXT_UNKNOWN;
	const char *text;

	text = text_file_read(&host->meminfo, FILE_MAX) ? "" : host->meminfo.text.data;
	write_members(text, meminfo_members, sizeof(meminfo_members) / sizeof(meminfo_members[0]), host->page_size,
		      json);
	text = text_file_read(&host->vmstat, FILE_MAX) ? "" : host->vmstat.text.data;
	write_members(text, vmstat_members, sizeof(vmstat_members) / sizeof(vmstat_members[0]), host->page_size, json);
	json_put_known_u64(json, "reclaim_stalls", sum_allocation_stalls(text));
	if (!text_file_read(&host->pressure, 4096))
		text_take_pressure(host->pressure.text.data, &some_ns, &full_ns);
	json_put_known_u64(json, "pressure_memory_some_ns", some_ns);
	json_put_known_u64(json, "pressure_memory_full_ns", full_ns);
}

void mem_cgroup_fields(const struct cgroup_table *table, const struct cgroup *cgroup, struct json *json)
{
	const struct cgroup_figures *figures = cgroup->sample ? &cgroup->sample->figures : NULL;

	if (!figures)
		return;
	json_put_known_u64(json, "memory_bytes", figures->memory_bytes);
	json_put_known_u64(json, "memory_peak_bytes", figures->memory_peak_bytes);
	cgroup_put_limit(json, "memory_limit_bytes", figures->memory_limit_bytes);
	cgroup_put_limit(json, "memory_high_bytes", figures->memory_high_bytes);
	json_put_known_u64(json, "swap_bytes", figures->swap_bytes);
	cgroup_put_limit(json, "swap_limit_bytes", figures->swap_limit_bytes);
	json_put_known_u64(json, "anon_bytes", figures->anon_bytes);
	json_put_known_u64(json, "file_bytes", figures->file_bytes);
	json_put_known_u64(json, "shmem_bytes", figures->shmem_bytes);
	json_put_known_u64(json, "kernel_bytes", figures->kernel_bytes);
	json_put_known_u64(json, "slab_reclaimable_bytes", figures->slab_reclaimable_bytes);
	json_put_known_u64(json, "slab_unreclaimable_bytes", figures->slab_unreclaimable_bytes);
	json_put_known_u64(json, "active_file_bytes", figures->active_file_bytes);
	json_put_known_u64(json, "inactive_file_bytes", figures->inactive_file_bytes);
	json_put_known_u64(json, "dirty_bytes", figures->dirty_bytes);
	json_put_known_u64(json, "writeback_bytes", figures->writeback_bytes);
	json_put_known_u64(json, "minor_faults", figures->minor_faults);
	json_put_known_u64(json, "major_faults", figures->major_faults);
	json_put_known_u64(json, "refaults_file", figures->refaults_file);
	json_put_known_u64(json, "memory_limit_hits", figures->limit_hits);
	json_put_known_u64(json, "memory_high_hits", figures->high_hits);
	json_put_known_u64(json, "oom_events", figures->oom_events);
	json_put_known_u64(json, "oom_kills", figures->oom_kills);
	json_put_known_u64(json, "pressure_memory_some_ns", figures->pressure_memory_some_ns);
	json_put_known_u64(json, "pressure_memory_full_ns", figures->pressure_memory_full_ns);
}
