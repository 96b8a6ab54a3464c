// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A path as the mount namespace of the task sees it, walked from the leaf to the root. Each component is written
// with its NUL; user space turns the order round. (bpf_d_path() is refused outside a list of hooks.)
#pragma once

#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/lib/compat.h"

enum {
	PATH_COMPONENTS_MAX = 48,
	PATH_COMPONENT_SIZE = 256, // NAME_MAX and a NUL
	NAME_SHORT_SIZE = 32, // of the 40 bytes that a dentry has
	PATH_WALK_SIZE = 4096,
	PATH_BUFFER_SIZE = PATH_WALK_SIZE + PATH_COMPONENT_SIZE,
};

// Keeps a number where the verifier does not follow its value: paths through the loop that differ only in it are then
// one state, not thousands.
struct path_cursor {
	volatile __u32 used;
};

// A short name lies in its dentry, since 6.14 as longs ("dcache: back inline names with a struct-wrapped array of
// unsigned long"): a load for each eight bytes, where a helper call takes as long as thirty. dentry has its type. True:
// it was such a name. What is written behind its NUL the next component takes.
static __always_inline bool path_component_short(char *out, struct path_cursor *cursor, struct dentry *dentry)
{
	__u32 used = cursor->used, length = dentry->d_name.len;

	if (!bpf_core_field_exists(dentry->d_shortname) || used >= PATH_WALK_SIZE || length >= NAME_SHORT_SIZE ||
	    (__u64)dentry->d_name.name != (__u64)&dentry->d_shortname)
		return false;
	out += used;
	((__u64 *)out)[0] = dentry->d_shortname.words[0];
	if (length >= 8)
		((__u64 *)out)[1] = dentry->d_shortname.words[1];
	if (length >= 16)
		((__u64 *)out)[2] = dentry->d_shortname.words[2];
	if (length >= 24)
		((__u64 *)out)[3] = dentry->d_shortname.words[3];
	out[length] = 0;
	cursor->used = used + length + 1;
	return true;
}

// Writes one component behind the others. False: it could not be read, or there is no room.
static __always_inline bool path_component(char *out, struct path_cursor *cursor, const unsigned char *name)
{
	__u32 used = cursor->used;
	long length;

	if (used >= PATH_WALK_SIZE)
		return false;
	length = bpf_probe_read_kernel_str(out + used, PATH_COMPONENT_SIZE, name);
	if (length <= 0)
		return false;
	cursor->used = used + length;
	return true;
}

// Nearly always: a load instead of a call, where the kernel can be told the type.
static __always_inline bool mount_is_top(const struct mount *mount)
{
	const struct mount *typed;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return false;
	typed = bpf_rdonly_cast(mount, bpf_core_type_id_kernel(struct mount));
	return typed->mnt_parent == mount;
}

// From a mount's root on upwards, through the mounts above. Pointers out of container_of() have no type: each link
// is a helper call.
static __always_inline bool path_walk_mounts(char *out, struct path_cursor *cursor, const struct vfsmount *vfsmount)
{
	const struct mount *mount = (const void *)((const char *)vfsmount - bpf_core_field_offset(struct mount, mnt));
	const struct dentry *dentry = NULL, *root = NULL;

	if (mount_is_top(mount))
		return true;
	for (int i = 0; i < PATH_COMPONENTS_MAX; i++) {
		if (dentry == root) {
			const struct mount *above = BPF_CORE_READ(mount, mnt_parent);

			if (above == mount)
				return true;
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			mount = above;
			root = BPF_CORE_READ(mount, mnt.mnt_root);
			continue;
		}
		if (!path_component(out, cursor, BPF_CORE_READ(dentry, d_name.name)))
			return false;
		dentry = BPF_CORE_READ(dentry, d_parent);
	}
	return false;
}

// Inside the first mount, where pointers have their types and loads are direct. 1: its root was reached; 0: the
// path is whole (a detached tree, such as a memfd); -1: it is cut off.
static __always_inline int path_walk_first(char *out, struct path_cursor *cursor, struct vfsmount *vfsmount,
					   struct dentry *dentry)
{
	struct dentry *root = vfsmount->mnt_root;

	for (int i = 0; i < PATH_COMPONENTS_MAX; i++) {
		struct dentry *parent = dentry->d_parent;

		if (dentry == root)
			return 1;
		if (dentry == parent)
			return 0;
		if (!path_component_short(out, cursor, dentry) &&
		    !path_component(out, cursor, dentry->d_name.name))
			return -1;
		dentry = parent;
	}
	return -1;
}

// out has PATH_BUFFER_SIZE bytes; cursor lies in a map value. Returns the bytes written; 0: the path is the root. A
// path cut off at the top ends in a component "...". Not inline: the second path of a record finds its code in the
// CPU's cache.
static __noinline __u32 path_walk(char *out, struct path_cursor *cursor, struct vfsmount *vfsmount,
				       struct dentry *dentry)
{
	bool whole = true;
	__u32 used;
	int first;

	cursor->used = 0;
	first = path_walk_first(out, cursor, vfsmount, dentry);
	if (first > 0)
		whole = path_walk_mounts(out, cursor, vfsmount);
	used = cursor->used;
	if ((whole && first >= 0) || used > PATH_WALK_SIZE)
		return used;
	__builtin_memcpy(out + used, "...", 4);
	return used + 4;
}
