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

// The helper bpf_task_pt_regs() came with 5.15, dd6e10fbd9fb ("bpf: Add bpf_task_pt_regs() helper").
enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158,
	BPF_FUNC_task_pt_regs = 175,
	BPF_FUNC_map_lookup_percpu_elem = 195,
};

// A trusted pointer (a hook's own argument) is loaded from with one instruction; from any other the compiler of the
// kernel makes ten of each load, with a check of the address, and code is what these programs, run once in a process's
// life, wait for. But for each *pointer* loaded from a trusted one the verifier searches the whole of the kernel's BTF
// by name, which makes loading these programs three times as slow. So: numbers from the trusted pointer, pointers from
// a plain one. The kfunc came with 6.2, a35b9af4ec2c, the search at the same time.
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym __weak;

static __always_inline struct task_struct *task_plain(struct task_struct *task)
{
	if (bpf_ksym_exists(bpf_rdonly_cast))
		return bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct));
	return task;
}

// Trusted. NULL where the verifier knows no way to it: bpf_get_current_task_btf() came with 5.11, 3ca1032ab7ab.
static __always_inline struct task_struct *current_trusted(void)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
		return bpf_get_current_task_btf();
	return NULL;
}

// A task's comm, by two loads where a helper would make a call of it.
static __always_inline void task_comm(char comm[16], const struct task_struct *task)
{
	const __u64 *from = (const void *)task->comm;

	((__u64 *)comm)[0] = from[0];
	((__u64 *)comm)[1] = from[1];
}

// mm_struct.rss_stat became an array of percpu_counter in 6.2, f1a7941243c1 ("mm: convert mm's rss stats into
// percpu_counter"). Before it was a struct of atomic counters.
struct mm_rss_stat___before_6_2 {
	atomic_long_t count[4];
} __attribute__((preserve_access_index));

struct mm_struct___before_6_2 {
	struct mm_rss_stat___before_6_2 rss_stat;
} __attribute__((preserve_access_index));

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

enum { SUMMED_CPUS_MAX = 64 };

// The per-CPU shares of a percpu_counter: all of them, or on a large host only this CPU's, the one the task ran on
// last.
static __always_inline __s64 counter_shares(const __s32 *shares, __u32 cpu_count)
{
	const struct cpu_offsets *offsets = cpu_offsets_all();
	__s64 sum = 0;
	__s32 share;

	if (!offsets || !cpu_count)
		return 0;
	if (cpu_count > SUMMED_CPUS_MAX) {
		__u32 cpu = bpf_get_smp_processor_id() & (CPU_OFFSETS_MAX - 1);

		if (offsets->of[cpu] &&
		    !bpf_probe_read_kernel(&share, sizeof(share), (const char *)shares + offsets->of[cpu]))
			sum = share;
		return sum;
	}
	for (__u32 cpu = 0; cpu < SUMMED_CPUS_MAX; cpu++) {
		if (cpu >= cpu_count || !offsets->of[cpu])
			break;
		if (!bpf_probe_read_kernel(&share, sizeof(share), (const char *)shares + offsets->of[cpu]))
			sum += share;
	}
	return sum;
}

static __always_inline __u64 pages_positive(__s64 pages)
{
	return pages < 0 ? 0 : pages;
}

// The pages an mm has of one kind (MM_ANONPAGES, ...; a constant: a CO-RE access needs one). The counter's own
// count lags by up to its batch on every CPU; with each CPU's share it is exact. cpu_count 0: without them.
// The old one through a helper: the verifier of 5.10 and 6.1 takes no direct load from a member that is an array of
// atomic counters.
#define mm_counter_pages(mm, member, cpu_count)                                                             \
	(bpf_core_type_exists(struct mm_rss_stat___before_6_2)                                              \
		 ? pages_positive(BPF_CORE_READ((const struct mm_struct___before_6_2 *)(mm),                \
						rss_stat.count[member].counter))                            \
		 : pages_positive((mm)->rss_stat[member].count +                                            \
				  counter_shares((mm)->rss_stat[member].counters, cpu_count)))

struct mm_pages {
	__s64 of[4];
};

// Four numbers from an address without a type, by two loads where the kernel can be told one.
static __always_inline bool read_four(__s32 four[4], const void *from)
{
	const struct timespec64 *two;
	__u64 first, second;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return !bpf_probe_read_kernel(four, 4 * sizeof(four[0]), from);
	two = bpf_rdonly_cast(from, bpf_core_type_id_kernel(struct timespec64));
	first = two->tv_sec;
	second = two->tv_nsec;
	four[0] = (__s32)first;
	four[1] = (__s32)(first >> 32);
	four[2] = (__s32)second;
	four[3] = (__s32)(second >> 32);
	return true;
}

// Each CPU's shares of the four counters of an mm that lie side by side, added to their own counts.
static __always_inline void shares_add_four(struct mm_pages *pages, const __s32 *shares, __u32 cpu_count)
{
	const struct cpu_offsets *offsets = cpu_offsets_all();
	__u32 first = 0, end = cpu_count;
	__s32 four[4];

	if (!offsets)
		return;
	if (cpu_count > SUMMED_CPUS_MAX) {
		first = bpf_get_smp_processor_id() & (CPU_OFFSETS_MAX - 1);
		end = first + 1;
	}
	for (__u32 i = 0; i < SUMMED_CPUS_MAX; i++) {
		__u32 cpu = first + i;

		if (cpu >= end || cpu >= CPU_OFFSETS_MAX || !offsets->of[cpu] ||
		    !read_four(four, (const char *)shares + offsets->of[cpu]))
			return;
		pages->of[0] += four[0];
		pages->of[1] += four[1];
		pages->of[2] += four[2];
		pages->of[3] += four[3];
	}
}

// All four kinds of pages of a living mm, with each CPU's share as in mm_counter_pages(). The shares of one mm are
// allocated together since 6.6, 14ef95be6f55 ("kernel/fork: group allocation/free of per-cpu counters for mm struct"):
// one read for each CPU instead of four.
static __always_inline void mm_pages_read(struct mm_struct *mm, __u32 cpu_count, struct mm_pages *pages)
{
	if (bpf_core_type_exists(struct mm_rss_stat___before_6_2)) {
		pages->of[0] = mm_counter_pages(mm, 0, 0);
		pages->of[1] = mm_counter_pages(mm, 1, 0);
		pages->of[2] = mm_counter_pages(mm, 2, 0);
		pages->of[3] = mm_counter_pages(mm, 3, 0);
		return;
	}
	pages->of[0] = mm->rss_stat[0].count;
	pages->of[1] = mm->rss_stat[1].count;
	pages->of[2] = mm->rss_stat[2].count;
	pages->of[3] = mm->rss_stat[3].count;
	if (mm->rss_stat[0].counters + 3 == mm->rss_stat[3].counters) {
		shares_add_four(pages, mm->rss_stat[0].counters, cpu_count);
		return;
	}
	pages->of[0] += counter_shares(mm->rss_stat[0].counters, cpu_count);
	pages->of[1] += counter_shares(mm->rss_stat[1].counters, cpu_count);
	pages->of[3] += counter_shares(mm->rss_stat[3].counters, cpu_count);
}

// The cgroup of a task in the hierarchy of one controller, or in the default one (subsystem < 0). Hybrid hosts leave
// every task in the default hierarchy's root, so core chooses.
// The subsystem is read-only data: the verifier keeps one case. The barrier keeps the compiler from making an address
// computation of them, which would lose the type, and with it the cheap load.
#define CGROUP_OF_SUBSYSTEM(number)                                   \
	case number:                                                  \
		asm volatile("" : "+r"(set));                         \
		return set->subsys[number]->cgroup->kn->id

static __always_inline __u64 task_cgroup_id(struct task_struct *task, __s32 subsystem)
{
	struct css_set *set = task_plain(task)->cgroups;

	switch (subsystem) {
		CGROUP_OF_SUBSYSTEM(0);
		CGROUP_OF_SUBSYSTEM(1);
		CGROUP_OF_SUBSYSTEM(2);
		CGROUP_OF_SUBSYSTEM(3);
		CGROUP_OF_SUBSYSTEM(4);
		CGROUP_OF_SUBSYSTEM(5);
		CGROUP_OF_SUBSYSTEM(6);
		CGROUP_OF_SUBSYSTEM(7);
		CGROUP_OF_SUBSYSTEM(8);
		CGROUP_OF_SUBSYSTEM(9);
		CGROUP_OF_SUBSYSTEM(10);
		CGROUP_OF_SUBSYSTEM(11);
		CGROUP_OF_SUBSYSTEM(12);
		CGROUP_OF_SUBSYSTEM(13);
		CGROUP_OF_SUBSYSTEM(14);
		CGROUP_OF_SUBSYSTEM(15);
	default:
		return set->dfl_cgrp->kn->id;
	}
}

// The pid of a task in its own pid namespace, and that namespace's inode number.
static __always_inline __u32 task_pid_in_namespace(struct task_struct *task, __u32 *ret_namespace)
{
	struct pid *pid = task->thread_pid;
	__u32 level = pid->level;
	const struct upid *upid;

	if (!level) {
		*ret_namespace = pid->numbers[0].ns->ns.inum;
		return pid->numbers[0].nr;
	}
	// Read again as a number: before 6.8 the verifier lets nothing unknown be added to a typed pointer.
	pid = BPF_CORE_READ(task, thread_pid);
	upid = (const void *)((const char *)__builtin_preserve_access_index(&pid->numbers) +
			      level * bpf_core_type_size(struct upid));
	*ret_namespace = BPF_CORE_READ(upid, ns, ns.inum);
	return BPF_CORE_READ(upid, nr);
}
