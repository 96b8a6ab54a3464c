// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which processes are recorded. A policy is given to a process by user space or by a match at exec, and every child
// inherits it at fork, so a whole tree follows its root, whatever becomes of the parents.
#pragma once

#include "bpf/lib/kernel.h"

#include <bpf/bpf_helpers.h>

#include "bpf/filter_policy.h"
#include "bpf/lib/compat.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 262144);
	__type(key, struct filter_process);
	__type(value, __u8); // enum filter_policy
} filter_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, struct filter_key);
	__type(value, __u8);
} filter_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct filter_config);
} filter_config SEC(".maps");

static __always_inline struct filter_config *filter_settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&filter_config, &zero);
}

static __always_inline const __u8 *filter_policy_of(__u32 pid, __u64 start_ns)
{
	struct filter_process process = { .pid = pid, .start_ns = start_ns };
	const __u8 *policy = bpf_map_lookup_elem(&filter_processes, &process);

	if (policy)
		return policy;
	process.start_ns = 0;
	return bpf_map_lookup_elem(&filter_processes, &process);
}

static __always_inline void filter_policy_set(__u32 pid, __u64 start_ns, __u8 policy)
{
	struct filter_process process = { .pid = pid, .start_ns = start_ns };

	bpf_map_update_elem(&filter_processes, &process, &policy, BPF_ANY);
}

// leader: the thread-group leader, here and below. config: filter_settings(), which a program asks for once.
static __always_inline bool filter_drops(const struct filter_config *config, struct task_struct *leader)
{
	const __u8 *policy;

	if (!config->active)
		return false;
	policy = filter_policy_of(leader->tgid, leader->start_boottime);
	return (policy ? *policy : config->default_policy) == FILTER_EXCLUDE;
}

// Whether a record has to say what those before it of the same process said: with a filter they may have been kept out,
// before everything that lives was read and after a full ring they may be missing.
static __always_inline bool records_whole(const struct filter_config *config)
{
	return config->active || config->whole;
}

// The record of a fork or exec found the ring full.
static __always_inline void records_missing(struct filter_config *config)
{
	config->whole = 1;
}

static __noinline void filter_inherit_policy(struct task_struct *parent, struct task_struct *child)
{
	const __u8 *policy;

	parent = task_plain(parent)->group_leader;
	policy = filter_policy_of(parent->tgid, parent->start_boottime);
	if (policy)
		filter_policy_set(child->tgid, child->start_boottime, *policy);
}

// parent: the thread that forked.
static __always_inline void filter_inherit(const struct filter_config *config, struct task_struct *parent,
					   struct task_struct *child)
{
	if (config->active)
		filter_inherit_policy(parent, child);
}

static __always_inline void filter_match(struct task_struct *leader, const struct filter_key *key)
{
	const __u8 *policy = bpf_map_lookup_elem(&filter_rules, key);

	if (policy)
		filter_policy_set(leader->tgid, leader->start_boottime, *policy);
}

// At exec: the rules by user, cgroup and name, the most particular last.
static __always_inline void filter_exec(const struct filter_config *config, struct task_struct *leader, __u32 uid,
					__u64 cgroup_id, const char comm[16])
{
	struct filter_key key = { .field = FILTER_UID, .number = uid };

	if (!config->active || !config->rules)
		return;
	filter_match(leader, &key);
	key.field = FILTER_CGROUP;
	key.number = cgroup_id;
	filter_match(leader, &key);
	key.field = FILTER_COMM;
	key.number = 0;
	__builtin_memcpy(key.comm, comm, sizeof(key.comm));
	filter_match(leader, &key);
}

// What already runs is treated as if its parent had just forked it and it had just called exec.
static __always_inline void filter_seed(const struct filter_config *config, struct task_struct *leader, __u32 uid,
					__u64 cgroup_id, const char comm[16])
{
	if (!config->active || !config->seeding)
		return;
	filter_inherit(config, leader->real_parent, leader);
	filter_exec(config, leader, uid, cgroup_id, comm);
}

static __always_inline void filter_forget(const struct filter_config *config, struct task_struct *leader)
{
	struct filter_process process = { .pid = leader->tgid, .start_ns = leader->start_boottime };

	if (config->active)
		bpf_map_delete_elem(&filter_processes, &process);
}
