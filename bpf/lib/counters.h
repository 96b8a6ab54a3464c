// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reading what the kernel counts by itself. CPU, switches and faults: the signal struct holds the released threads,
// each task_struct its own. Run delay and I/O: each task_struct only, so dead threads are summed here.
#pragma once

#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/lib/compat.h"
#include "bpf/proc.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32); // tgid
	__type(value, struct thread_sums);
} thread_sums SEC(".maps");

// sum_exec_runtime of a running task lags: it was brought up to date at exec_start, at the last tick or switch. The
// rest needs the scheduler's clock, which no helper gives, but that runs along with CLOCK_BOOTTIME (a suspend apart) at
// a distance that clock_shift_learn() measures. What interrupts and the hypervisor took from a CPU its run queue knows
// (clock - clock_task); where that cannot be reached, each CPU has a distance of its own.
enum { CLOCK_SHIFT_CPUS_MAX = 512 };

struct clock_shift {
	__u64 shift_ns;
	__u64 learnt_ns; // the clocks drift: an old measurement is worth nothing
};

struct clock_shifts {
	struct clock_shift of[CLOCK_SHIFT_CPUS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clock_shifts);
} clock_shifts SEC(".maps");

static const __s64 SHIFT_ERROR_NS = 50 * 1000;
static const __s64 SLICE_MAX_NS = 12 * 1000 * 1000; // a tick at the lowest rate, and some; a longer one is an error
static const __u64 SHIFT_AGE_MAX_NS = 2000 * 1000 * 1000ULL;

// NULL: the kernel is too old, or there are too many CPUs. With CONFIG_FAIR_GROUP_SCHED a task leads to its run queue,
// so one distance serves all CPUs.
static __always_inline struct clock_shift *clock_shift_of(const struct task_struct *task)
{
	__u32 zero = 0;
	__u32 cpu = bpf_core_field_exists(task->se.cfs_rq) ? 0 : bpf_get_smp_processor_id();
	struct clock_shifts *shifts = bpf_map_lookup_elem(&clock_shifts, &zero);

	return shifts && cpu < CLOCK_SHIFT_CPUS_MAX ? &shifts->of[cpu] : NULL;
}

// What task runs on now was not its own for so long.
static __always_inline __u64 clock_taken_ns(const struct task_struct *task)
{
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	rq = task_plain((struct task_struct *)task)->se.cfs_rq->rq;
	return rq->clock - rq->clock_task;
}

// task runs now and asked for its own CPU time a moment ago (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID), which brings
// exec_start up to now.
static __always_inline void clock_shift_learn(const struct task_struct *task)
{
	struct clock_shift *shift = clock_shift_of(task);
	__u64 now = bpf_ktime_get_boot_ns();

	if (!shift)
		return;
	shift->shift_ns = now - task->se.exec_start - clock_taken_ns(task);
	shift->learnt_ns = now;
}

// Adds what a task that runs now, CLOCK_BOOTTIME, has run since exec_start. False when that is not known.
static __always_inline bool running_slice_add(__u64 *ns, const struct task_struct *task, __u64 now)
{
	const struct clock_shift *shift = clock_shift_of(task);
	__s64 slice;

	if (!shift || now - shift->learnt_ns > SHIFT_AGE_MAX_NS)
		return false;
	slice = now - shift->shift_ns - clock_taken_ns(task) - task->se.exec_start;
	if (slice < -SHIFT_ERROR_NS || slice > SLICE_MAX_NS)
		return false;
	if (slice > 0)
		*ns += slice;
	return true;
}

static __always_inline struct thread_sums *thread_sums_find(__u32 tgid, __u64 start_ns)
{
	struct thread_sums *sums = bpf_map_lookup_elem(&thread_sums, &tgid);

	return sums && sums->start_ns == start_ns ? sums : NULL;
}

// __exit_signal() of each thread moves the count of signal->stats_lock by two, and so does the wait for a child. Where
// it stands at the number of those we know of, there was never another thread, no sums to look for, and without a
// released thread nothing in the signal struct. False: it cannot be told.
static __always_inline bool thread_is_only(struct signal_struct *signal, __u32 threads, __u32 released)
{
	return bpf_core_field_exists(signal->stats_lock.seqcount.seqcount.sequence) &&
	       signal->stats_lock.seqcount.seqcount.sequence == 2 * released && (__u32)signal->nr_threads == threads;
}

// What released threads left in the signal struct (kernel/exit.c, __exit_signal).
static __always_inline void counters_from_signal(struct counters *counters, struct signal_struct *signal)
{
	counters->cpu_ns = signal->sum_sched_runtime;
	counters->utime_ns = signal->utime;
	counters->stime_ns = signal->stime;
	counters->voluntary_switches = signal->nvcsw;
	counters->involuntary_switches = signal->nivcsw;
	counters->minor_faults = signal->min_flt;
	counters->major_faults = signal->maj_flt;
}

static __always_inline void counters_add_task(struct counters *counters, struct task_struct *task)
{
	counters->cpu_ns += task->se.sum_exec_runtime;
	counters->utime_ns += task->utime;
	counters->stime_ns += task->stime;
	counters->voluntary_switches += task->nvcsw;
	counters->involuntary_switches += task->nivcsw;
	counters->minor_faults += task->min_flt;
	counters->major_faults += task->maj_flt;
}

static __always_inline void counters_io_task(struct counters *counters, struct task_struct *task)
{
	counters->run_delay_ns += task->sched_info.run_delay;
	counters->rchar_bytes += task->ioac.rchar;
	counters->wchar_bytes += task->ioac.wchar;
	counters->read_syscalls += task->ioac.syscr;
	counters->write_syscalls += task->ioac.syscw;
	counters->read_bytes += task->ioac.read_bytes;
	counters->write_bytes += task->ioac.write_bytes;
	counters->cancelled_write_bytes += task->ioac.cancelled_write_bytes;
}

// Of a process that never had another thread. Its signal struct is empty while it lives.
static __always_inline void counters_io_only(struct counters *counters, struct task_struct *task)
{
	counters->run_delay_ns = task->sched_info.run_delay;
	counters->rchar_bytes = task->ioac.rchar;
	counters->wchar_bytes = task->ioac.wchar;
	counters->read_syscalls = task->ioac.syscr;
	counters->write_syscalls = task->ioac.syscw;
	counters->read_bytes = task->ioac.read_bytes;
	counters->write_bytes = task->ioac.write_bytes;
	counters->cancelled_write_bytes = task->ioac.cancelled_write_bytes;
	counters->threads_max = 1;
	// The compiler would make one load of these and those in counters_io_sums(), and the verifier refuses that.
	asm volatile("" ::: "memory");
}

static __always_inline void counters_only(struct counters *counters, struct task_struct *task, __u64 now)
{
	__u64 cpu_ns = task->se.sum_exec_runtime;

	running_slice_add(&cpu_ns, task, now);
	counters->cpu_ns = cpu_ns;
	counters->utime_ns = task->utime;
	counters->stime_ns = task->stime;
	counters->voluntary_switches = task->nvcsw;
	counters->involuntary_switches = task->nivcsw;
	counters->minor_faults = task->min_flt;
	counters->major_faults = task->maj_flt;
	counters_io_only(counters, task);
}

static __always_inline void counters_io_sums(struct counters *counters, const struct thread_sums *sums)
{
	counters->run_delay_ns = sums->run_delay_ns;
	counters->rchar_bytes = sums->io.rchar;
	counters->wchar_bytes = sums->io.wchar;
	counters->read_syscalls = sums->io.syscr;
	counters->write_syscalls = sums->io.syscw;
	counters->read_bytes = sums->io.read_bytes;
	counters->write_bytes = sums->io.write_bytes;
	counters->cancelled_write_bytes = sums->io.cancelled_write_bytes;
	counters->threads_max = sums->threads_max;
}

static __always_inline void counters_io_zero(struct counters *counters)
{
	counters->run_delay_ns = 0;
	counters->rchar_bytes = counters->wchar_bytes = 0;
	counters->read_syscalls = counters->write_syscalls = 0;
	counters->read_bytes = counters->write_bytes = counters->cancelled_write_bytes = 0;
	counters->threads_max = 1;
}

static __always_inline void thread_sums_add(struct thread_sums *sums, struct task_struct *task)
{
	__sync_fetch_and_add(&sums->run_delay_ns, task->sched_info.run_delay);
	__sync_fetch_and_add(&sums->life_ns, bpf_ktime_get_boot_ns() - task->start_boottime);
	__sync_fetch_and_add(&sums->io.rchar, task->ioac.rchar);
	__sync_fetch_and_add(&sums->io.wchar, task->ioac.wchar);
	__sync_fetch_and_add(&sums->io.syscr, task->ioac.syscr);
	__sync_fetch_and_add(&sums->io.syscw, task->ioac.syscw);
	__sync_fetch_and_add(&sums->io.read_bytes, task->ioac.read_bytes);
	__sync_fetch_and_add(&sums->io.write_bytes, task->ioac.write_bytes);
	__sync_fetch_and_add(&sums->io.cancelled_write_bytes, task->ioac.cancelled_write_bytes);
}

// live, not nr_threads: that still counts a thread which has begun to exit.
// A process got another thread: from now on its dead threads are summed. Not inline, for what most forks pass by.
static __noinline void thread_started(struct task_struct *thread)
{
	struct task_struct *plain = task_plain(thread);
	__u32 tgid = thread->tgid;
	__u64 start_ns = plain->group_leader->start_boottime;
	__u32 threads = plain->signal->live.counter;
	struct thread_sums *sums = thread_sums_find(tgid, start_ns);

	if (!sums) {
		struct thread_sums fresh = { .start_ns = start_ns, .threads_max = threads, .partial = threads > 2 };

		bpf_map_update_elem(&thread_sums, &tgid, &fresh, BPF_ANY);
		return;
	}
	if (threads > sums->threads_max)
		sums->threads_max = threads;
}
