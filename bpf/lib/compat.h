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
};

// Where a CPU's share of per-CPU data lies. x86 keeps the offset in per-CPU data itself, which BTF names: no search
// through the kernel's symbol table is then needed at load.
#if defined(__TARGET_ARCH_x86)
extern const unsigned long this_cpu_off __ksym __weak;

static __always_inline bool cpu_offset(__u32 cpu, unsigned long *ret_offset)
{
	const unsigned long *offset;

	if (!&this_cpu_off)
		return false;
	offset = bpf_per_cpu_ptr(&this_cpu_off, cpu);
	if (!offset)
		return false;
	*ret_offset = *offset;
	return true;
}
#else
extern const void __per_cpu_offset __ksym __weak;

static __always_inline bool cpu_offset(__u32 cpu, unsigned long *ret_offset)
{
	return &__per_cpu_offset && !bpf_probe_read_kernel(ret_offset, sizeof(*ret_offset),
							   (const char *)&__per_cpu_offset +
								   cpu * sizeof(*ret_offset));
}
#endif

enum { COUNTER_CPUS_MAX = 512 };

// include/linux/mm_types_task.h
enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES };

// The percpu counter's own count lags by up to its batch on every CPU: the exact value adds each CPU's share. The
// member's address is computed, since a CO-RE access needs a constant index.
static __always_inline __s64 mm_counter_pages(const struct mm_struct *mm, __u32 member, __u32 cpu_count)
{
	const struct percpu_counter *counter;
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
	for (__u32 cpu = 0; cpu < COUNTER_CPUS_MAX; cpu++) {
		unsigned long offset;
		__s32 share;

		if (cpu >= cpu_count || !cpu_offset(cpu, &offset))
			break;
		if (!bpf_probe_read_kernel(&share, sizeof(share), shares + offset))
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
