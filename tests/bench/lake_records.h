// SPDX-License-Identifier: Apache-2.0
// Records of a made-up pipeline as NDJSON, in the form of docs/records.md: tasks of ten processes, three samples a run.
#pragma once

#include <stdint.h>

#include "core/base/buf.h"

struct lake_records {
	uint64_t now_ns; // start of the next process
	uint64_t boot_ns;
	uint32_t pid;
	uint32_t run, task; // numbers of the current ones
	uint32_t in_task; // processes made of it
	uint32_t tasks_in_run; // 0: for ever the same run
	uint32_t processes_in_task;
	uint32_t random;
};

static inline uint32_t lake_random(struct lake_records *records, uint32_t below)
{
	records->random = records->random * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(records->random >> 8) * below >> 24);
}

// Appends one process record and its newline.
static inline void lake_record_process(struct lake_records *r, struct buf *out)
{
	static const char *const tools[] = {"samtools sort", "bwa",  "gzip", "bash .command.run",
					    "awk",	     "sort", "cat",  "bcftools"};
	static const char *const programs[] = {"samtools", "bwa", "gzip", "bash", "mawk", "sort", "cat", "bcftools"};
	uint32_t tool = lake_random(r, 8);
	uint64_t cpu = 1000000 + lake_random(r, 400000000), life = cpu * 5 / 4 + lake_random(r, 90000000);
	uint64_t start = r->now_ns, end = start + life;

	if (r->in_task++ == r->processes_in_task) {
		r->in_task = 1;
		if (++r->task == r->tasks_in_run && r->tasks_in_run) {
			r->task = 0;
			r->run++;
		}
	}
	r->pid = r->pid % 4194304 + 1;
	r->now_ns += 20000000 + lake_random(r, 1000000);
	buf_printf(out,
		   "{\"kind\":\"process\",\"time_ns\":%llu,\"host\":\"node-017\",\"boot\":\"bedc6b42-5b0f-40d4-b52d-"
		   "62b5bbccf9eb\","
		   "\"pid\":%u,\"ppid\":%u,\"start_ns\":%llu,\"end_ns\":%llu,\"start_boot_ns\":%llu,\"parent_start_"
		   "boot_ns\":%llu,"
		   "\"comm\":\"%s\",\"exe\":\"/usr/local/bin/%s\",\"script\":null,\"interpreter\":null,"
		   "\"args\":[\"%s\",\"-@\",\"4\",\"-o\",\"out_%u.bam\",\"in_%u.bam\"],",
		   (unsigned long long)end, r->pid, r->pid - 1, (unsigned long long)start, (unsigned long long)end,
		   (unsigned long long)(start - r->boot_ns), (unsigned long long)(start - r->boot_ns - 1000000),
		   programs[tool], programs[tool], programs[tool], r->pid, r->task);
	buf_printf(out,
		   "\"cwd\":\"/scratch/work/%02x/"
		   "%08x%08x\",\"uid\":1000,\"gid\":1000,\"pid_in_namespace\":%u,\"session\":%u,"
		   "\"process_group\":%u,\"exit_code\":%u,\"signal\":null,\"core_dumped\":false,\"oom\":false,\"oom_"
		   "limit\":null,"
		   "\"cpu_ns\":%llu,\"cpu_user_ns\":%llu,\"cpu_system_ns\":%llu,\"run_delay_ns\":%u,\"voluntary_"
		   "switches\":%u,"
		   "\"involuntary_switches\":%u,\"threads_max\":%u,\"blocked_ns\":{\"pipe\":%u},\"blocked_"
		   "samples\":%u,",
		   r->task & 0xff, r->run, r->task * 2654435761u, r->pid % 1000 + 1, 4000 + r->task,
		   4000 + r->task, lake_random(r, 200) == 0, (unsigned long long)cpu, (unsigned long long)(cpu * 4 / 5),
		   (unsigned long long)(cpu / 5), lake_random(r, 9000000), lake_random(r, 900), lake_random(r, 300),
		   1 + lake_random(r, 4), lake_random(r, 50000000), 1 + lake_random(r, 20));
	buf_printf(out,
		   "\"minor_faults\":%u,\"major_faults\":%u,\"peak_rss_bytes\":%u,\"anon_bytes\":%u,\"file_bytes\":%u,"
		   "\"shmem_bytes\":0,\"swap_bytes\":0,\"reclaim_stall_ns\":0,\"compaction_stall_ns\":0,\"rchar_"
		   "bytes\":%u,"
		   "\"wchar_bytes\":%u,\"read_syscalls\":%u,\"write_syscalls\":%u,\"read_bytes\":%u,\"write_bytes\":%u,"
		   "\"cancelled_write_bytes\":0,\"images\":[{\"start_ns\":%llu,\"tool\":\"bash "
		   ".command.run\",\"forked\":true,"
		   "\"cpu_ns\":%u,\"run_delay_ns\":%u,\"minor_faults\":%u},{\"start_ns\":%llu,\"tool\":\"%s\",\"cpu_"
		   "ns\":%llu,"
		   "\"run_delay_ns\":%u,\"minor_faults\":%u,\"rchar_bytes\":%u,\"wchar_bytes\":%u,\"peak_rss_bytes\":%"
		   "u}],",
		   100 + lake_random(r, 50000), lake_random(r, 3), 4096 * (300 + lake_random(r, 900000)),
		   4096 * lake_random(r, 90000), 4096 * lake_random(r, 900), lake_random(r, 900000000),
		   lake_random(r, 900000000), lake_random(r, 9000), lake_random(r, 9000), 4096 * lake_random(r, 90000),
		   4096 * lake_random(r, 90000), (unsigned long long)start, 300000 + lake_random(r, 100000),
		   lake_random(r, 20000), 40, (unsigned long long)(start + 400000), tools[tool],
		   (unsigned long long)(cpu - 300000), lake_random(r, 9000), 90 + lake_random(r, 5000),
		   lake_random(r, 900000), lake_random(r, 900000), 4096 * (300 + lake_random(r, 900000)));
	buf_printf(out,
		   "\"cgroup\":\"/system.slice/slurmstepd.scope/job_%u/step_0/user/"
		   "task_0\",\"container\":null,\"tool\":\"%s\","
		   "\"task\":\"%08x-%u\",\"task_name\":\"ALIGN "
		   "(sample_%u)\",\"run\":\"nextflow-bedc6b42-%u\",\"run_name\":\"rnaseq-%u\","
		   "\"run_parent\":null,\"engine\":\"nextflow\",\"sample\":\"sample_%u\",\"quality\":{\"blocked\":"
		   "\"sampled\"}}\n",
		   4711 + r->run, tools[tool], r->task * 2654435761u, r->task, r->task % 30, r->run, r->run % 20,
		   r->task % 30);
}
