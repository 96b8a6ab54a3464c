// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reclaim and compaction stalls: rare events, counted per process in a map that user space reads when the process
// ends. A begin and its end run in the same task, so the open interval is kept by thread id.
#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/mem.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum stall { STALL_RECLAIM, STALL_COMPACTION };

struct open_key {
	__u32 tid;
	__u32 stall; // enum stall
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct open_key);
	__type(value, __u64);
} stalls_open SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32); // tgid
	__type(value, struct mem_stall);
} mem_stalls SEC(".maps");

__u64 stalls_begun = 0; // user space looks into the maps only when this moves
__u64 stalls_lost = 0; // found a map full

static __always_inline void stall_lost(void)
{
	__sync_fetch_and_add(&stalls_lost, 1);
}

// Not bpf_get_current_task_btf(): that came with 5.11, and these hooks are too rare for its speed to matter.
static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

static __always_inline void stall_begin(enum stall stall)
{
	struct open_key key = { .tid = (__u32)bpf_get_current_pid_tgid(), .stall = stall };
	__u64 now = bpf_ktime_get_boot_ns();

	if (BPF_CORE_READ(current_task(), flags) & PF_KTHREAD)
		return;
	__sync_fetch_and_add(&stalls_begun, 1);
	if (bpf_map_update_elem(&stalls_open, &key, &now, BPF_ANY))
		stall_lost();
}

static __always_inline void stall_end(enum stall stall)
{
	struct open_key key = { .tid = (__u32)bpf_get_current_pid_tgid(), .stall = stall };
	__u64 start_ns = BPF_CORE_READ(current_task(), group_leader, start_boottime);
	__u64 *begun = bpf_map_lookup_elem(&stalls_open, &key);
	struct mem_stall fresh = { .start_ns = start_ns };
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct mem_stall *total;
	__u64 elapsed;

	if (!begun)
		return;
	elapsed = bpf_ktime_get_boot_ns() - *begun;
	bpf_map_delete_elem(&stalls_open, &key);
	total = bpf_map_lookup_elem(&mem_stalls, &tgid);
	if (!total || total->start_ns != start_ns) {
		if (bpf_map_update_elem(&mem_stalls, &tgid, &fresh, BPF_ANY)) {
			stall_lost();
			return;
		}
		total = bpf_map_lookup_elem(&mem_stalls, &tgid);
		if (!total)
			return;
	}
	if (stall == STALL_RECLAIM) {
		__sync_fetch_and_add(&total->reclaim_ns, elapsed);
		__sync_fetch_and_add(&total->reclaims, 1);
	} else {
		__sync_fetch_and_add(&total->compaction_ns, elapsed);
		__sync_fetch_and_add(&total->compactions, 1);
	}
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int mem_direct_reclaim_begin(void *ctx)
{
	stall_begin(STALL_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int mem_direct_reclaim_end(void *ctx)
{
	stall_end(STALL_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int mem_cgroup_reclaim_begin(void *ctx)
{
	stall_begin(STALL_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int mem_cgroup_reclaim_end(void *ctx)
{
	stall_end(STALL_RECLAIM);
	return 0;
}

SEC("tp_btf/mm_compaction_begin")
int mem_compaction_begin(void *ctx)
{
	stall_begin(STALL_COMPACTION);
	return 0;
}

SEC("tp_btf/mm_compaction_end")
int mem_compaction_end(void *ctx)
{
	stall_end(STALL_COMPACTION);
	return 0;
}
