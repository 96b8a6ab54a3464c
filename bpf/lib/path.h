// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A path as the mount namespace of the task sees it, walked from the leaf to the root. Each component is written
// with its NUL; user space turns the order round. (bpf_d_path() is refused outside a list of hooks.)
#pragma once

#include "bpf/lib/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

enum {
	PATH_COMPONENTS_MAX = 64,
	PATH_COMPONENT_SIZE = 256, // NAME_MAX and a NUL
	PATH_WALK_SIZE = 4096,
	PATH_BUFFER_SIZE = PATH_WALK_SIZE + PATH_COMPONENT_SIZE,
};

// Keeps a number where the verifier does not follow its value: paths through the loop that differ only in it are then
// one state, not thousands.
struct path_cursor {
	volatile __u32 used;
};

// out has PATH_BUFFER_SIZE bytes; cursor lies in a map value. Returns the bytes written; 0: the path is the root. A
// path cut off at the top ends in a component "...".
static __always_inline __u32 path_walk(char *out, struct path_cursor *cursor, struct vfsmount *vfsmount,
				       struct dentry *dentry)
{
	__u32 used;

	cursor->used = 0;
	for (int i = 0; i < PATH_COMPONENTS_MAX; i++) {
		struct dentry *parent;
		long length;

		if (dentry == BPF_CORE_READ(vfsmount, mnt_root)) {
			struct mount *mount = (void *)((char *)vfsmount - bpf_core_field_offset(struct mount, mnt));
			struct mount *above = BPF_CORE_READ(mount, mnt_parent);

			if (above == mount)
				return cursor->used;
			dentry = BPF_CORE_READ(mount, mnt_mountpoint);
			vfsmount = (void *)((char *)above + bpf_core_field_offset(struct mount, mnt));
			continue;
		}
		parent = BPF_CORE_READ(dentry, d_parent);
		used = cursor->used;
		if (parent == dentry) // a detached tree, such as a memfd
			return used;
		if (used >= PATH_WALK_SIZE)
			break;
		length = bpf_probe_read_kernel_str(out + used, PATH_COMPONENT_SIZE, BPF_CORE_READ(dentry, d_name.name));
		if (length <= 0)
			return used;
		cursor->used = used + length;
		dentry = parent;
	}
	used = cursor->used;
	if (used > PATH_WALK_SIZE)
		return used;
	__builtin_memcpy(out + used, "...", 4);
	return used + 4;
}
