// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The life of every process: fork, exec, exit of the last thread, release of the task. The kernel has counted
// everything already; these hooks read its counters at the four moments and hand them on. No policy but the filter,
// nothing on system calls, switches or faults. Environment and memory are never read; arguments once, at exec.
#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/lib/compat.h"
#include "bpf/lib/counters.h"
#include "bpf/lib/emit.h"
#include "bpf/lib/filter.h"
#include "bpf/lib/path.h"
#include "bpf/proc.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __s32 cgroup_subsystem = -1; // index into css_set.subsys; -1: the default hierarchy
const volatile __u32 cgroup_hierarchy = 0; // cgroup_root.hierarchy_id whose changes are reported
const volatile __u32 cpu_count = 1; // possible CPUs
const volatile __u32 page_shift = 12;
const volatile bool exit_has_group_dead = false; // sched_process_exit passes group_dead, since 6.16

enum {
	PAYLOAD_HEAD_SIZE = 16384, // both paths, filename and interp together stay below
	PAYLOAD_SIZE = PAYLOAD_HEAD_SIZE + PROC_ARGS_MAX,
	INTERP_SIZE = 256,
};

struct exec_scratch {
	struct path_cursor cursor;
	struct path_cursor end; // of the payload so far
	struct event_exec event;
	char payload[PAYLOAD_SIZE];
};

struct exit_scratch {
	struct path_cursor cursor;
	struct event_exit event;
	struct event_identity identity;
	char payload[PATH_BUFFER_SIZE];
};

// One entry a CPU (a per-CPU array's values end at 32 KiB); hooks run with preemption off.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exec_scratch);
} exec_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct exit_scratch);
} exit_scratch SEC(".maps");

static __always_inline void process_id_fill(struct event_process_id *id, struct task_struct *leader)
{
	id->pid = leader->tgid;
	id->reserved = 0;
	id->start_ns = leader->start_boottime;
}

static __always_inline void parent_fill(struct event_process_id *parent, struct task_struct *leader)
{
	process_id_fill(parent, task_plain(leader)->real_parent->group_leader);
}

// All but the parent. Direct loads all through: a chain of them costs a few nanoseconds, one of helper calls tens for
// each link.
static __always_inline void identity_fill(struct event_identity *identity, struct task_struct *task,
					  struct task_struct *leader)
{
	struct task_struct *plain = task_plain(task);
	const struct cred *cred = plain->real_cred;
	struct signal_struct *signal = plain->signal;

	process_id_fill(&identity->process, leader);
	identity->cgroup_id = task_cgroup_id(task, cgroup_subsystem);
	identity->default_cgroup_id = cgroup_subsystem >= 0 ? task_cgroup_id(task, -1) : 0;
	identity->uid = cred->uid.val;
	identity->gid = cred->gid.val;
	identity->process_group = signal->pids[PIDTYPE_PGID]->numbers[0].nr;
	identity->session = signal->pids[PIDTYPE_SID]->numbers[0].nr;
	task_comm(identity->comm, leader);
}

// The namespaces of the kernel's own threads, which are the host's, never change and never go: most processes have
// them, and the numbers are here instead of in seven cold cache lines.
struct host_namespaces {
	__u64 nsproxy; // address; 0: not known
	__u64 user_ns;
	__u32 inums[PROC_NAMESPACES];
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct host_namespaces);
} host_namespaces SEC(".maps");

static __always_inline struct host_namespaces *host_namespaces_all(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&host_namespaces, &zero);
}

// What a process has from its parent until it asks for something else, mostly before an exec. task: one of its threads
// that still has them.
static __always_inline void namespaces_fill(struct event_identity *identity, struct task_struct *task,
					    struct task_struct *leader)
{
	struct task_struct *plain = task_plain(task);
	struct nsproxy *namespaces = plain->nsproxy;
	const struct host_namespaces *host = host_namespaces_all();
	__u32 *ns = identity->namespaces;

	// Who is in another pid namespace has an nsproxy of its own, or its parent's.
	if (host && (__u64)namespaces == host->nsproxy && (__u64)plain->real_cred->user_ns == host->user_ns) {
		identity->pid_in_namespace = leader->tgid;
		__builtin_memcpy(ns, host->inums, sizeof(host->inums));
		return;
	}
	identity->pid_in_namespace = task_pid_in_namespace(task_plain(leader), &ns[PROC_NAMESPACE_PID]);
	ns[PROC_NAMESPACE_MNT] = namespaces->mnt_ns->ns.inum;
	ns[PROC_NAMESPACE_NET] = namespaces->net_ns->ns.inum;
	ns[PROC_NAMESPACE_USER] = plain->real_cred->user_ns->ns.inum;
	ns[PROC_NAMESPACE_UTS] = namespaces->uts_ns->ns.inum;
	ns[PROC_NAMESPACE_IPC] = namespaces->ipc_ns->ns.inum;
	ns[PROC_NAMESPACE_CGROUP] = namespaces->cgroup_ns->ns.inum;
}

// From kthreadd, which is seen where the reader is in the first pid namespace. By helper calls: the verifier refuses
// what the compiler makes of this and namespaces_fill() in one program.
static __always_inline void host_namespaces_learn(const struct task_struct *kthread)
{
	struct host_namespaces *host = host_namespaces_all();
	const struct nsproxy *nsproxy = BPF_CORE_READ(kthread, nsproxy);
	const struct user_namespace *user_ns = BPF_CORE_READ(kthread, real_cred, user_ns);

	if (!host || host->nsproxy || kthread->tgid != 2 || BPF_CORE_READ(kthread, thread_pid, level))
		return;
	host->inums[PROC_NAMESPACE_PID] = BPF_CORE_READ(kthread, thread_pid, numbers[0].ns, ns.inum);
	host->inums[PROC_NAMESPACE_MNT] = BPF_CORE_READ(nsproxy, mnt_ns, ns.inum);
	host->inums[PROC_NAMESPACE_NET] = BPF_CORE_READ(nsproxy, net_ns, ns.inum);
	host->inums[PROC_NAMESPACE_USER] = BPF_CORE_READ(user_ns, ns.inum);
	host->inums[PROC_NAMESPACE_UTS] = BPF_CORE_READ(nsproxy, uts_ns, ns.inum);
	host->inums[PROC_NAMESPACE_IPC] = BPF_CORE_READ(nsproxy, ipc_ns, ns.inum);
	host->inums[PROC_NAMESPACE_CGROUP] = BPF_CORE_READ(nsproxy, cgroup_ns, ns.inum);
	host->user_ns = (__u64)user_ns;
	host->nsproxy = (__u64)nsproxy;
}

// From those that user space has of the parent, which it is told of each change of a leader's. Of kernel threads it has
// none.
static __always_inline bool cgroups_may_differ(struct task_struct *parent, struct task_struct *child)
{
	return parent->cgroups != child->cgroups || parent->pid != parent->tgid || parent->flags & PF_KTHREAD;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(proc_fork, struct task_struct *parent, struct task_struct *child)
{
	struct filter_config *config = filter_settings();
	struct event_counts *counts;
	struct event_fork *event;

	if (child->flags & PF_KTHREAD || !config)
		return 0;
	if (child->pid != child->tgid) {
		thread_started(child);
		return 0;
	}
	filter_inherit(config, parent, child);
	if (filter_drops(config, child)) {
		lifecycle_filtered();
		return 0;
	}
	counts = lifecycle_counts();
	event = counts ? emit_reserve(counts, sizeof(*event)) : NULL;
	if (!event) {
		records_missing(config);
		return 0;
	}
	header_fill(&event->header, EVENT_FORK, sizeof(*event));
	process_id_fill(&event->process, child);
	parent_fill(&event->parent, child);
	event->cgroup_id = event->default_cgroup_id = 0;
	if (cgroups_may_differ(parent, child) || records_whole(config)) {
		event->cgroup_id = task_cgroup_id(child, cgroup_subsystem);
		event->default_cgroup_id = cgroup_subsystem >= 0 ? task_cgroup_id(child, -1) : 0;
	}
	emit_submit(counts, event);
	return 0;
}

static __always_inline __u32 read_kernel_text(char *out, __u32 size, const char *text)
{
	long length = bpf_probe_read_kernel_str(out, size, text);

	return length > 0 ? length : 0;
}

static __always_inline __u32 payload_end(const struct exec_scratch *scratch)
{
	return scratch->end.used & (PAYLOAD_HEAD_SIZE - 1);
}

// exe, cwd, filename, interp, args behind each other. Returns the bytes written.
static __always_inline __u32 exec_payload(struct exec_scratch *scratch, struct task_struct *task,
					  struct linux_binprm *bprm)
{
	struct event_exec *event = &scratch->event;
	struct mm_struct *mm = task->mm;
	struct file *exe = mm->exe_file;
	const char *filename = bprm->filename;
	const char *interp = bprm->interp;
	unsigned long arg_start = mm->arg_start;
	unsigned long arg_end = mm->arg_end;
	__u32 size;

	size = path_walk(scratch->payload, &scratch->cursor, exe->f_path.mnt, exe->f_path.dentry);
	event->exe_size = size;
	scratch->end.used = size;
	size = path_walk(scratch->payload + payload_end(scratch), &scratch->cursor, task->fs->pwd.mnt,
			 task->fs->pwd.dentry);
	event->cwd_size = size;
	scratch->end.used += size;
	event->filename_size = event->interp_size = 0;
	if (interp != filename) {
		size = read_kernel_text(scratch->payload + payload_end(scratch), PROC_PATH_MAX, filename);
		event->filename_size = size;
		scratch->end.used += size;
		size = read_kernel_text(scratch->payload + payload_end(scratch), INTERP_SIZE, interp);
		event->interp_size = size;
		scratch->end.used += size;
	}
	event->args_total = arg_end - arg_start;
	size = event->args_total > PROC_ARGS_MAX ? PROC_ARGS_MAX : event->args_total;
	event->args_size = 0;
	if (!bpf_probe_read_user(scratch->payload + payload_end(scratch), size, (const void *)arg_start))
		event->args_size = size;
	else
		size = 0;
	return payload_end(scratch) + size;
}

static __always_inline void exec_counters(struct counters *counters, struct task_struct *task,
					  struct signal_struct *signal, __u64 start_ns, __u64 now)
{
	struct thread_sums *sums;

	counters->threads = 1;
	if (thread_is_only(signal, 1, 0)) {
		counters_only(counters, task, now);
		return;
	}
	counters_from_signal(counters, signal);
	counters_add_task(counters, task);
	running_slice_add(&counters->cpu_ns, task, now);
	counters_io_zero(counters);
	sums = thread_sums_find(task->tgid, start_ns);
	if (sums)
		counters_io_sums(counters, sums);
	counters_io_task(counters, task);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(proc_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct exec_scratch *scratch = bpf_map_lookup_elem(&exec_scratch, &cpu);
	struct filter_config *config = filter_settings();
	struct task_struct *plain = task_plain(task);
	struct signal_struct *signal = plain->signal;
	struct event_exec *event;
	__u64 now;
	__u32 size;

	if (!scratch || !config)
		return 0;
	now = bpf_ktime_get_boot_ns();
	// Whichever thread called it, by now it is the leader.
	event = &scratch->event;
	identity_fill(&event->identity, task, task);
	namespaces_fill(&event->identity, task, task);
	event->identity.parent = (struct event_process_id){ 0 };
	if (records_whole(config))
		parent_fill(&event->identity.parent, task);
	filter_exec(config, task, event->identity.uid, event->identity.cgroup_id, event->identity.comm);
	if (filter_drops(config, task)) {
		lifecycle_filtered();
		return 0;
	}
	exec_counters(&event->counters, task, signal, event->identity.process.start_ns, now);
	event->maxrss_bytes = (__u64)signal->maxrss << page_shift;
	event->old_pid = old_pid != task->pid ? old_pid : 0;
	event->reserved = 0;
	size = sizeof(*event) + exec_payload(scratch, plain, bprm);
	header_fill_at(&event->header, EVENT_EXEC, size, now);
	if (size <= sizeof(*event) + PAYLOAD_SIZE && !emit_lifecycle(event, size))
		records_missing(config);
	return 0;
}

static __always_inline __u32 exit_status(struct signal_struct *signal, struct task_struct *leader)
{
	if (signal->flags & SIGNAL_GROUP_EXIT)
		return signal->group_exit_code;
	return leader->exit_code;
}

// The truth about peak memory is in the mm while it lives; signal->maxrss is inherited through exec.
static __always_inline void exit_memory(struct event_exit *event, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct mm_pages pages;
	__u64 now, peak;

	event->maxrss_bytes = 0;
	if (!mm) {
		event->maxrss_bytes = (__u64)task->signal->maxrss << page_shift;
		// Before 6.16 the mm is gone here, but the kernel thread that borrows it may still show it.
		mm = task->active_mm;
		peak = mm ? (__u64)BPF_CORE_READ(mm, hiwater_rss) << page_shift : 0;
		event->peak_rss_bytes = peak;
		event->anon_bytes = event->file_bytes = event->shmem_bytes = event->swap_bytes = 0;
		event->flags |= PROC_EXIT_RSS_BOUND;
		// From 6.2 on the kernel makes its high-water mark without the CPUs' shares.
		if (!bpf_core_type_exists(struct mm_rss_stat___before_6_2))
			event->flags |= PROC_EXIT_RSS_NEAR;
		return;
	}
	event->flags |= cpu_count > SUMMED_CPUS_MAX ? PROC_EXIT_MM_READ | PROC_EXIT_RSS_NEAR : PROC_EXIT_MM_READ;
	mm_pages_read(mm, cpu_count, &pages);
	event->anon_bytes = pages_positive(pages.of[MM_ANONPAGES]) << page_shift;
	event->file_bytes = pages_positive(pages.of[MM_FILEPAGES]) << page_shift;
	event->shmem_bytes = pages_positive(pages.of[MM_SHMEMPAGES]) << page_shift;
	event->swap_bytes = pages_positive(pages.of[MM_SWAPENTS]) << page_shift;
	now = event->anon_bytes + event->file_bytes + event->shmem_bytes;
	peak = (__u64)mm->hiwater_rss << page_shift;
	event->peak_rss_bytes = peak > now ? peak : now;
}

// Of a process that had further threads, or may have had.
static __always_inline void exit_counters(struct event_exit *event, struct task_struct *task,
					  struct task_struct *leader, const struct thread_sums *sums, __u64 now)
{
	struct task_struct *plain = task_plain(task);

	counters_from_signal(&event->counters, plain->signal);
	counters_add_task(&event->counters, task);
	running_slice_add(&event->counters.cpu_ns, task, now);
	if (leader != plain)
		counters_add_task(&event->counters, leader);
	counters_io_zero(&event->counters);
	if (sums) {
		counters_io_sums(&event->counters, sums);
		if (sums->partial)
			event->flags |= PROC_EXIT_THREADS_UNSURE;
		else
			event->threads_life_ns = sums->life_ns;
	} else {
		counters_io_task(&event->counters, task);
	}
}

// All but what says whose record it is.
static __always_inline void exit_fill(struct event_exit *event, struct task_struct *task, struct task_struct *leader,
				      bool only, const struct thread_sums *sums, __u64 now)
{
	struct task_struct *plain = task_plain(task);
	struct signal_struct *signal = plain->signal;

	event->flags = 0;
	event->threads_life_ns = 0;
	event->identity_size = event->cwd_size = 0;
	event->counters.threads = 0;
	if (only)
		counters_only(&event->counters, task, now);
	else
		exit_counters(event, task, leader, sums, now);
	event->status = exit_status(signal, leader);
	if (signal->oom_mm)
		event->flags |= PROC_EXIT_OOM_VICTIM;
	exit_memory(event, plain);
}

// With more behind it, so its size is only known at the end.
static __always_inline void exit_whole(struct exit_scratch *scratch, struct task_struct *task,
				       struct task_struct *leader, __u64 now)
{
	struct event_exit *event = &scratch->event;
	struct task_struct *plain = task_plain(task);
	__u32 size = 0;

	event->identity_size = sizeof(scratch->identity);
	identity_fill(&scratch->identity, task, leader);
	parent_fill(&scratch->identity.parent, leader);
	namespaces_fill(&scratch->identity, task, leader);
	if (task->flags & PF_FORKNOEXEC)
		size = path_walk(scratch->payload, &scratch->cursor, plain->fs->pwd.mnt, plain->fs->pwd.dentry);
	event->cwd_size = size;
	size += sizeof(*event) + sizeof(scratch->identity);
	header_fill_at(&event->header, EVENT_EXIT, size, now);
	if (size <= sizeof(*event) + sizeof(scratch->identity) + PATH_BUFFER_SIZE)
		emit_lifecycle(event, size);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(proc_exit, struct task_struct *task, bool group_dead)
{
	struct task_struct *plain = task_plain(task), *leader = plain->group_leader;
	bool is_leader = task->pid == task->tgid;
	__u64 start_ns = is_leader ? task->start_boottime : leader->start_boottime;
	const struct filter_config *config = filter_settings();
	bool only = thread_is_only(plain->signal, 1, 0), last;
	struct exit_scratch *scratch = NULL;
	struct thread_sums *sums = NULL;
	struct event_counts *counts;
	struct event_exit *event;
	__u32 zero = 0;
	__u64 now;

	if (task->flags & PF_KTHREAD || !config)
		return 0;
	if (!only)
		sums = thread_sums_find(task->tgid, start_ns);
	if (sums)
		thread_sums_add(sums, task);
	if (exit_has_group_dead)
		last = ctx[1] & 1;
	else
		last = plain->signal->live.counter == 0;
	if (!last)
		return 0;
	if (filter_drops(config, leader)) {
		lifecycle_filtered();
		return 0;
	}
	counts = lifecycle_counts();
	if (!counts)
		return 0;
	if (task->flags & PF_FORKNOEXEC || records_whole(config)) {
		scratch = bpf_map_lookup_elem(&exit_scratch, &zero);
		if (!scratch)
			return 0;
		event = &scratch->event;
	} else {
		event = emit_reserve(counts, sizeof(*event));
		if (!event)
			return 0;
	}
	now = bpf_ktime_get_boot_ns();
	event->process = (struct event_process_id){ .pid = task->tgid, .start_ns = start_ns };
	if (is_leader)
		task_comm(event->comm, task);
	else
		task_comm(event->comm, leader);
	exit_fill(event, task, leader, only, sums, now);
	if (scratch) {
		exit_whole(scratch, task, leader, now);
		return 0;
	}
	header_fill_at(&event->header, EVENT_EXIT, sizeof(*event), now);
	emit_submit(counts, event);
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROC_PARTINGS);
	__type(key, __u32);
	__type(value, struct proc_parting);
} partings SEC(".maps");

// do_notify_parent() tells the parent of a death by a signal: the dying task's memory, files and namespaces are gone by
// now, and microseconds are left. Whoever dies of, or with, another signal writes here too: the last one stands. A sub-
// thread that is the last to go does this after __exit_signal() took its own figures (sighand is gone), for its leader.
SEC("tp_btf/signal_generate")
int BPF_PROG(proc_parting)
{
	struct task_struct *task = current_trusted();
	struct task_struct *plain, *leader;
	struct signal_struct *signal;
	struct proc_parting *parting;
	__u64 cpu_ns, start_ns;
	bool released;
	__u32 slot;

	if (!task || !(task->flags & PF_EXITING))
		return 0;
	plain = task_plain(task);
	signal = plain->signal;
	if (signal->live.counter)
		return 0;
	released = !plain->sighand;
	cpu_ns = signal->sum_sched_runtime;
	if (!released)
		cpu_ns += task->se.sum_exec_runtime;
	if (task->pid == task->tgid) {
		if (released)
			return 0; // what it wrote before stands
		start_ns = task->start_boottime;
	} else {
		leader = plain->group_leader;
		start_ns = leader->start_boottime;
		cpu_ns += leader->se.sum_exec_runtime;
	}
	if (!released)
		running_slice_add(&cpu_ns, task, bpf_ktime_get_boot_ns());
	slot = proc_parting_slot(task->tgid, start_ns);
	parting = bpf_map_lookup_elem(&partings, &slot);
	if (!parting)
		return 0;
	parting->pid = task->tgid;
	parting->start_ns = start_ns;
	parting->run_delay_ns = task->sched_info.run_delay;
	parting->cpu_ns = cpu_ns;
	return 0;
}

// By helper calls: the compiler makes one load of those here and in free_fill(), and the verifier refuses that.
static __always_inline void lost_add(const struct task_struct *task, const struct thread_sums *sums, __u64 cgroup_id)
{
	struct lost_totals fresh = {
		.processes = 1,
		.cpu_ns = BPF_CORE_READ(task, signal, sum_sched_runtime),
		.read_bytes = sums ? sums->io.read_bytes : BPF_CORE_READ(task, ioac.read_bytes),
		.write_bytes = sums ? sums->io.write_bytes : BPF_CORE_READ(task, ioac.write_bytes),
	};
	struct lost_totals *totals = bpf_map_lookup_elem(&lost_totals, &cgroup_id);

	if (!totals) {
		if (!bpf_map_update_elem(&lost_totals, &cgroup_id, &fresh, BPF_NOEXIST))
			return;
		totals = bpf_map_lookup_elem(&lost_totals, &cgroup_id);
		if (!totals)
			return;
	}
	__sync_fetch_and_add(&totals->processes, 1);
	__sync_fetch_and_add(&totals->cpu_ns, fresh.cpu_ns);
	__sync_fetch_and_add(&totals->read_bytes, fresh.read_bytes);
	__sync_fetch_and_add(&totals->write_bytes, fresh.write_bytes);
}

static __always_inline void free_fill(struct event_free *event, struct task_struct *task,
				      const struct thread_sums *sums)
{
	header_fill(&event->header, EVENT_FREE, sizeof(*event));
	process_id_fill(&event->process, task);
	counters_from_signal(&event->counters, task_plain(task)->signal);
	event->counters.threads = 0;
	if (sums)
		counters_io_sums(&event->counters, sums);
	else
		counters_io_only(&event->counters, task);
}

// Called once the parent has reaped it: by now __exit_signal() of every thread has run, the leader's last, so the
// signal struct holds the whole process to the nanosecond.
SEC("tp_btf/sched_process_free")
int BPF_PROG(proc_free, struct task_struct *task)
{
	const struct filter_config *config = filter_settings();
	struct thread_sums *sums = NULL;
	struct event_counts *counts;
	__u32 tgid = task->tgid;

	if (task->flags & PF_KTHREAD || task->pid != task->tgid || !config)
		return 0;
	if (!thread_is_only(task_plain(task)->signal, 0, 1))
		sums = thread_sums_find(tgid, task->start_boottime);
	counts = lifecycle_counts();
	if (filter_drops(config, task)) {
		lifecycle_filtered();
	} else if (counts) {
		struct event_free *event = emit_reserve(counts, sizeof(*event));

		if (event) {
			free_fill(event, task, sums);
			emit_submit(counts, event);
		} else {
			lost_add(task, sums, task_cgroup_id(task, cgroup_subsystem));
		}
	}
	if (sums)
		bpf_map_delete_elem(&thread_sums, &tgid);
	filter_forget(config, task);
	return 0;
}

// One record for each thread-group leader, and one for each further thread that still lives: user space adds them up.
SEC("iter/task")
int proc_live(struct bpf_iter__task *ctx)
{
	const struct filter_config *config = filter_settings();
	struct task_struct *task = ctx->task;
	struct thread_sums *sums;
	struct event_live event;
	struct mm_struct *mm;

	if (ctx->meta->seq_num == 0) {
		struct task_struct *reader = current_trusted();

		if (reader)
			clock_shift_learn(reader);
		cpu_offsets_find(cpu_count);
	}
	if (!task || !config)
		return 0;
	task = task_plain(task);
	if (task->flags & PF_KTHREAD) {
		host_namespaces_learn(task);
		return 0;
	}
	__builtin_memset(&event, 0, sizeof(event));
	if (task->pid == task->tgid) {
		identity_fill(&event.identity, task, task);
		parent_fill(&event.identity.parent, task);
		namespaces_fill(&event.identity, task, task);
		filter_seed(config, task, event.identity.uid, event.identity.cgroup_id, event.identity.comm);
	}
	if (filter_drops(config, task->group_leader))
		return 0;
	counters_io_zero(&event.counters);
	if (task->pid != task->tgid) {
		struct event_live_thread *thread = (void *)&event;

		process_id_fill(&thread->process, task->group_leader);
		__builtin_memset(&thread->counters, 0, sizeof(thread->counters));
		counters_add_task(&thread->counters, task);
		counters_io_task(&thread->counters, task);
		header_fill(&thread->header, EVENT_LIVE_THREAD, sizeof(*thread));
		bpf_seq_write(ctx->meta->seq, thread, sizeof(*thread));
		return 0;
	}
	counters_from_signal(&event.counters, task->signal);
	counters_add_task(&event.counters, task);
	sums = thread_sums_find(task->tgid, task->start_boottime);
	if (sums)
		counters_io_sums(&event.counters, sums);
	if (!sums || !task->exit_state)
		counters_io_task(&event.counters, task);
	event.counters.threads = task->signal->live.counter;
	if (event.counters.threads > event.counters.threads_max)
		event.counters.threads_max = event.counters.threads;
	if (task->signal->live.counter == 0) {
		event.zombie = 1;
		event.status = exit_status(task->signal, task);
		if (task->signal->oom_mm)
			event.flags |= PROC_EXIT_OOM_VICTIM;
	}
	mm = task->mm;
	if (mm) {
		// Without each CPU's share: enough between start and end, and cheap on many CPUs.
		event.rss_bytes = (__u64)(mm_counter_pages(mm, MM_ANONPAGES, 0) +
					  mm_counter_pages(mm, MM_FILEPAGES, 0) +
					  mm_counter_pages(mm, MM_SHMEMPAGES, 0))
				  << page_shift;
		event.swap_bytes = (__u64)mm_counter_pages(mm, MM_SWAPENTS, 0) << page_shift;
		event.peak_rss_bytes = (__u64)mm->hiwater_rss << page_shift;
		if (event.peak_rss_bytes < event.rss_bytes)
			event.peak_rss_bytes = event.rss_bytes;
		event.flags |= PROC_EXIT_MM_READ;
	}
	event.state = task_state(task) | task->exit_state;
	header_fill(&event.header, EVENT_LIVE, sizeof(event));
	bpf_seq_write(ctx->meta->seq, &event, sizeof(event));
	return 0;
}

struct cgroup_scratch {
	struct event_cgroup event;
	char path[PROC_PATH_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cgroup_scratch);
} cgroup_scratch SEC(".maps");

// On a host of several hierarchies runtimes may still keep to the default one.
static __always_inline bool cgroup_in_default(const struct cgroup *cgroup)
{
	return cgroup_subsystem >= 0 && cgroup->root->hierarchy_id == 0;
}

static __always_inline void cgroup_changed(struct cgroup *cgroup, const char *path, __u32 change)
{
	struct cgroup_scratch *scratch;
	__u32 zero = 0, size;

	if ((__u32)cgroup->root->hierarchy_id != cgroup_hierarchy && !cgroup_in_default(cgroup))
		return;
	scratch = bpf_map_lookup_elem(&cgroup_scratch, &zero);
	if (!scratch)
		return;
	__builtin_memset(&scratch->event, 0, sizeof(scratch->event));
	scratch->event.cgroup_id = cgroup->kn->id;
	scratch->event.change = change;
	scratch->event.in_default = cgroup_in_default(cgroup);
	size = read_kernel_text(scratch->path, sizeof(scratch->path), path);
	scratch->event.path_size = size;
	size += sizeof(scratch->event);
	header_fill(&scratch->event.header, EVENT_CGROUP, size);
	if (size <= sizeof(*scratch))
		emit_lifecycle(scratch, size);
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(proc_cgroup_mkdir, struct cgroup *cgroup, const char *path)
{
	cgroup_changed(cgroup, path, PROC_CGROUP_MADE);
	return 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(proc_cgroup_rmdir, struct cgroup *cgroup, const char *path)
{
	cgroup_changed(cgroup, path, PROC_CGROUP_REMOVED);
	return 0;
}

// Runtimes move a process after its exec.
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(proc_cgroup_attach, struct cgroup *cgroup, const char *path, struct task_struct *task, bool threadgroup)
{
	const struct filter_config *config = filter_settings();
	struct event_move event;

	// A process is where its leader is; a further thread may be elsewhere.
	if (!config || (!threadgroup && task->pid != task->tgid))
		return 0;
	if (((__u32)cgroup->root->hierarchy_id != cgroup_hierarchy && !cgroup_in_default(cgroup)) ||
	    task->flags & PF_KTHREAD)
		return 0;
	if (filter_drops(config, task->group_leader)) {
		lifecycle_filtered();
		return 0;
	}
	__builtin_memset(&event, 0, sizeof(event));
	process_id_fill(&event.process, task->group_leader);
	event.cgroup_id = cgroup->kn->id;
	event.in_default = cgroup_in_default(cgroup);
	header_fill(&event.header, EVENT_MOVE, sizeof(event));
	emit_lifecycle(&event, sizeof(event));
	return 0;
}
