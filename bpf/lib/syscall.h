// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The system call a sleeping task is in, from the registers it saved on entry.
#pragma once

#include "bpf/lib/kernel.h"

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di;
	unsigned long orig_ax; // -1: not in a system call
} __attribute__((preserve_access_index));

static __always_inline __u64 syscall_number(const struct pt_regs *regs)
{
	return regs->orig_ax;
}

static __always_inline __u32 syscall_first_argument(const struct pt_regs *regs)
{
	return regs->di;
}
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 orig_x0;
	__s32 syscallno; // -1: not in a system call
} __attribute__((preserve_access_index));

static __always_inline __u64 syscall_number(const struct pt_regs *regs)
{
	return (__u32)regs->syscallno;
}

static __always_inline __u32 syscall_first_argument(const struct pt_regs *regs)
{
	return regs->orig_x0;
}
#else
#error "no system call registers for this architecture"
#endif
