// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The few kernel types the programs read, with only the members they use. preserve_access_index makes every access a
// CO-RE relocation, so offsets come from the running kernel's BTF. What moved between kernels is in compat.h.
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

// include/uapi/linux/bpf.h
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};
enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
	BPF_F_CURRENT_CPU = 0xffffffff,
};
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum { PF_EXITING = 0x00000004, PF_FORKNOEXEC = 0x00000040, PF_KTHREAD = 0x00200000 }; // include/linux/sched.h
enum { SIGNAL_GROUP_EXIT = 0x00000004 }; // include/linux/sched/signal.h
enum { PIDTYPE_PID, PIDTYPE_TGID, PIDTYPE_PGID, PIDTYPE_SID }; // include/linux/pid_types.h

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

struct ns_common {
	unsigned int inum;
};

struct uts_namespace {
	struct ns_common ns;
};
struct ipc_namespace {
	struct ns_common ns;
};
struct mnt_namespace {
	struct ns_common ns;
};
struct pid_namespace {
	struct ns_common ns;
};
struct net {
	struct ns_common ns;
};
struct cgroup_namespace {
	struct ns_common ns;
};
struct user_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
	struct cgroup_namespace *cgroup_ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

struct cred {
	kuid_t uid;
	kgid_t gid;
	struct user_namespace *user_ns;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16]; // CGROUP_SUBSYS_COUNT, fewer on most kernels
	struct cgroup *dfl_cgrp;
};

struct qstr {
	__u32 len;
	const unsigned char *name;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
};

union shortname_store {
	unsigned char string[40];
	unsigned long words[5];
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union shortname_store d_shortname;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
};

struct percpu_counter {
	__s64 count;
	__s32 *counters;
};

struct mm_struct {
	unsigned long hiwater_rss;
	unsigned long arg_start;
	unsigned long arg_end;
	struct file *exe_file;
	struct percpu_counter rss_stat[4];
};

struct task_io_accounting {
	__u64 rchar;
	__u64 wchar;
	__u64 syscr;
	__u64 syscw;
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 cancelled_write_bytes;
};

struct sched_info {
	unsigned long long run_delay;
};

struct rq {
	__u64 clock;
	__u64 clock_task;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	__u64 exec_start;
	__u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct seqcount {
	unsigned int sequence;
};
struct seqcount_spinlock {
	struct seqcount seqcount;
};
struct seqlock {
	struct seqcount_spinlock seqcount;
};

struct signal_struct {
	atomic_t live;
	int nr_threads;
	int group_exit_code;
	unsigned int flags;
	struct pid *pids[4];
	struct seqlock stats_lock;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	unsigned long maxrss;
	unsigned long long sum_sched_runtime;
	struct mm_struct *oom_mm;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	struct sched_entity se;
	struct sched_info sched_info;
	struct mm_struct *mm;
	struct mm_struct *active_mm;
	int exit_state;
	int exit_code;
	unsigned int in_iowait : 1;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;
	unsigned long nivcsw;
	__u64 start_boottime;
	unsigned long min_flt;
	unsigned long maj_flt;
	const struct cred *real_cred;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct task_io_accounting ioac;
	struct css_set *cgroups;
};

struct linux_binprm {
	const char *filename;
	const char *interp;
};

struct seq_file {
	void *private;
};

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop
