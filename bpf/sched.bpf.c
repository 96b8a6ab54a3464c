// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Why a thread is off the CPU, by looking at it now and then: no hook on sched_switch. The exact totals (CPU, run
// delay) come from the kernel's counters; these samples only divide the rest.
#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/lib/compat.h"
#include "bpf/lib/emit.h"
#include "bpf/lib/filter.h"
#include "bpf/lib/syscall.h"
#include "bpf/sched.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u8 syscall_classes[SCHED_SYSCALLS_MAX] = {};

enum {
	TASK_INTERRUPTIBLE = 0x0001, // include/linux/sched.h
	TASK_UNINTERRUPTIBLE = 0x0002,
	TASK_NOLOAD = 0x0400, // idle kernel waits use UNINTERRUPTIBLE | NOLOAD
	S_IFMT = 0170000, // include/uapi/linux/stat.h
	S_IFSOCK = 0140000,
	S_IFREG = 0100000,
	S_IFDIR = 0040000,
	S_IFIFO = 0010000,
};

// Superblock magics: include/uapi/linux/magic.h, and the file systems' own sources for Lustre, GPFS, BeeGFS and
// PanFS.
static __always_inline bool is_network_magic(unsigned long magic)
{
	switch (magic) {
	case 0x6969: // NFS
	case 0xff534d42: // CIFS
	case 0xfe534d42: // SMB2
	case 0x517b: // SMB
	case 0x00c36400: // Ceph
	case 0x01021997: // 9p
	case 0x5346414f: // AFS
	case 0x65735546: // FUSE: object store and cluster mounts
	case 0x0bd00bd0: // Lustre
	case 0x47504653: // GPFS
	case 0x19830326: // BeeGFS
	case 0xaad7aaea: // PanFS
		return true;
	default:
		return false;
	}
}

static __always_inline __u8 file_class(const struct task_struct *task, __u32 fd)
{
	const struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	const struct inode *inode;
	struct file *file = NULL;
	struct file **files;
	__u16 mode;

	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return SCHED_FILE_NONE;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	if (!file)
		return SCHED_FILE_NONE;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (mode == S_IFIFO)
		return SCHED_FILE_PIPE;
	if (mode == S_IFSOCK)
		return SCHED_FILE_SOCKET;
	if (mode != S_IFREG && mode != S_IFDIR)
		return SCHED_FILE_OTHER;
	return is_network_magic(BPF_CORE_READ(inode, i_sb, s_magic)) ? SCHED_FILE_NETWORK : SCHED_FILE_REGULAR;
}

SEC("iter/task")
int sched_states(struct bpf_iter__task *ctx)
{
	struct task_struct *trusted = ctx->task; // as bpf_task_pt_regs() wants it
	const struct filter_config *config = filter_settings();
	struct event_state event = {};
	struct task_struct *task;
	__u32 state;

	if (!trusted || !config)
		return 0;
	task = task_plain(trusted);
	if (task->flags & PF_KTHREAD || task->exit_state)
		return 0;
	state = task_state(task);
	if (!(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) || filter_drops(config, task->group_leader))
		return 0;
	event.process.pid = task->tgid;
	event.process.start_ns = task->group_leader->start_boottime;
	event.tid = task->pid;
	event.uninterruptible = (state & TASK_UNINTERRUPTIBLE) != 0;
	event.in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	event.syscall_class = SCHED_SYSCALL_NONE;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(trusted);
		__u64 number = syscall_number(regs);

		if (number < SCHED_SYSCALLS_MAX)
			event.syscall_class = syscall_classes[number];
		if (event.syscall_class == SCHED_SYSCALL_FILE)
			event.file_class = file_class(task, syscall_first_argument(regs));
	}
	bpf_seq_write(ctx->meta->seq, &event, sizeof(event));
	return 0;
}
