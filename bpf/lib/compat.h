// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What differs between kernels, one small function a difference, decided by the running kernel's BTF and never by its
// version. Each names the upstream change.
#pragma once

#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

// task_struct.state was renamed __state in 5.14, 2f064a59a11f ("sched: Change task_struct::state").
struct task_struct___before_5_14 {
	long state;
} __attribute__((preserve_access_index));

static __always_inline __u32 task_state(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ((const struct task_struct___before_5_14 *)task, state);
}

// mm_struct.rss_stat became an array of percpu_counter in 6.2, f1a7941243c1 ("mm: convert mm's rss stats into
// percpu_counter"). Before it was a struct of atomic counters.
struct mm_rss_stat___before_6_2 {
	atomic_long_t count[4];
} __attribute__((preserve_access_index));

struct mm_struct___before_6_2 {
	struct mm_rss_stat___before_6_2 rss_stat;
} __attribute__((preserve_access_index));

// The helper bpf_task_pt_regs() came with 5.15, dd6e10fbd9fb ("bpf: Add bpf_task_pt_regs() helper").
enum bpf_func_id {
	BPF_FUNC_task_pt_regs = 175,
	BPF_FUNC_map_lookup_percpu_elem = 195,
};

enum { CPU_OFFSETS_MAX = 512 };

// Where each CPU's per-CPU data lies, filled by cpu_offsets_find(). 0: not known.
struct cpu_offsets {
	__u64 of[CPU_OFFSETS_MAX];
	volatile __u64 scratch; // a pointer stored here comes back as a number
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_offsets);
} cpu_offsets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} cpu_offset_probe SEC(".maps");

struct bpf_array {
	void *pptrs[1];
} __attribute__((preserve_access_index));

static __always_inline struct cpu_offsets *cpu_offsets_all(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_offsets, &zero);
}

// The kernel's table of offsets is a data symbol, which many kernels do not name. But a per-CPU map's value lies at
// its per-CPU pointer plus the offset of the CPU (kernel/bpf/arraymap.c), and both can be seen. Needs
// bpf_map_lookup_percpu_elem(), 5.19, 07343110b293; rss_stat is per CPU since 6.2 only. Once is enough.
static __always_inline void cpu_offsets_find(__u32 cpu_count)
{
	struct cpu_offsets *offsets = cpu_offsets_all();
	__u64 base = 0;
	__u32 zero = 0;

	if (!offsets || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_map_lookup_percpu_elem))
		return;
	offsets->scratch = (__u64)&cpu_offset_probe;
	bpf_probe_read_kernel(&base, sizeof(base),
			      (const void *)(offsets->scratch + bpf_core_field_offset(struct bpf_array, pptrs)));
	if (!base)
		return;
	for (__u32 cpu = 0; cpu < CPU_OFFSETS_MAX; cpu++) {
		if (cpu >= cpu_count)
			return;
		offsets->scratch = (__u64)bpf_map_lookup_percpu_elem(&cpu_offset_probe, &zero, cpu);
		if (offsets->scratch)
			offsets->of[cpu] = offsets->scratch - base;
	}
}

// include/linux/mm_types_task.h
enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES };

// The percpu counter's own count lags by up to its batch on every CPU: the exact value adds each CPU's share. The
// member's address is computed, since a CO-RE access needs a constant index.
static __always_inline __s64 mm_counter_pages(const struct mm_struct *mm, __u32 member, __u32 cpu_count)
{
	const struct percpu_counter *counter;
	const struct cpu_offsets *offsets;
	const char *shares;
	__s64 sum;

	if (bpf_core_type_exists(struct mm_rss_stat___before_6_2)) {
		const struct mm_struct___before_6_2 *old = (const void *)mm;
		const atomic_long_t *counts = (const void *)__builtin_preserve_access_index(&old->rss_stat);

		sum = BPF_CORE_READ(counts + member, counter);
		return sum < 0 ? 0 : sum;
	}
	counter = (const void *)((const char *)__builtin_preserve_access_index(&mm->rss_stat) +
				 member * bpf_core_type_size(struct percpu_counter));
	sum = BPF_CORE_READ(counter, count);
	shares = (const char *)BPF_CORE_READ(counter, counters);
	offsets = cpu_offsets_all();
	for (__u32 cpu = 0; offsets && cpu < CPU_OFFSETS_MAX; cpu++) {
		__s32 share;

		if (cpu >= cpu_count || !offsets->of[cpu])
			break;
		if (!bpf_probe_read_kernel(&share, sizeof(share), shares + offsets->of[cpu]))
			sum += share;
	}
	return sum < 0 ? 0 : sum;
}

// The cgroup of a task in the hierarchy of one controller, or in the default one (subsystem < 0). Hybrid hosts leave
// every task in the default hierarchy's root, so core chooses.
static __always_inline __u64 task_cgroup_id(const struct task_struct *task, __s32 subsystem)
{
	const struct css_set *set = BPF_CORE_READ(task, cgroups);
	const struct cgroup_subsys_state *state = NULL;

	if (subsystem < 0)
		return BPF_CORE_READ(set, dfl_cgrp, kn, id);
	bpf_probe_read_kernel(&state, sizeof(state),
			      (const char *)__builtin_preserve_access_index(&set->subsys) +
				      (__u32)subsystem * sizeof(state));
	return state ? BPF_CORE_READ(state, cgroup, kn, id) : 0;
}

// The pid of a task in its own pid namespace, and that namespace's inode number.
static __always_inline __u32 task_pid_in_namespace(const struct task_struct *task, __u32 *ret_namespace)
{
	const struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	const struct upid *upid;

	upid = (const void *)((const char *)__builtin_preserve_access_index(&pid->numbers) +
			      level * bpf_core_type_size(struct upid));
	*ret_namespace = BPF_CORE_READ(upid, ns, ns.inum);
	return BPF_CORE_READ(upid, nr);
}

// Process group or session of a task, in the initial pid namespace. type: enum pid_type.
static __always_inline __u32 signal_pid(const struct signal_struct *signal, __u32 type)
{
	const struct pid *pid = NULL;

	bpf_probe_read_kernel(&pid, sizeof(pid),
			      (const char *)__builtin_preserve_access_index(&signal->pids) + type * sizeof(pid));
	return pid ? BPF_CORE_READ(pid, numbers[0].nr) : 0;
}
