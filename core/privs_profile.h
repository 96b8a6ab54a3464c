// SPDX-License-Identifier: Apache-2.0
// What a profile of the system-call filter is: core/privs_collect.c, core/privs_stream.c, core/privs_datalake.c and
// core/privs_warden.c have one each, core/privs_update.c two, and core/privs_seccomp.c makes the filter. Tables end
// with -1.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/privs.h"

// Allowed when argument & mask is one of the first count values.
struct privs_checked {
	int number;
	unsigned argument;
	uint32_t mask;
	unsigned count;
	uint32_t values[12];
};

struct privs_tables {
	const int *allowed;
	const struct privs_checked *checked;
	const int *deadly; // nothing here ever makes one of these: whoever does is not us
	bool others; // what is in no table is allowed
};

#ifdef __x86_64__
// Calls that newer machines no longer have; musl uses some of them.
#define PRIVS_OLD_CALLS \
	SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_epoll_wait, SYS_poll, SYS_select, \
	SYS_pipe, SYS_time, SYS_arch_prctl,
#define PRIVS_OLD_CALLS_OF_A_KEEPER SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_chmod, SYS_getdents,
#else
#define PRIVS_OLD_CALLS
#define PRIVS_OLD_CALLS_OF_A_KEEPER
#endif

// What every profile has, at the head of its tables.
#define PRIVS_ALLOWED_TO_ALL \
	PRIVS_OLD_CALLS \
	SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_lseek, SYS_openat, \
	SYS_close, SYS_fcntl, SYS_flock, SYS_fsync, SYS_fdatasync, SYS_ftruncate, SYS_fstat, SYS_newfstatat, \
	SYS_statx, SYS_faccessat, SYS_faccessat2, SYS_getdents64, SYS_readlinkat, SYS_unlinkat, \
	SYS_renameat, SYS_renameat2, SYS_fchmod, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, \
	SYS_ppoll, SYS_pselect6, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, \
	SYS_signalfd4, SYS_eventfd2, SYS_pipe2, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg, \
	SYS_shutdown, SYS_getsockopt, SYS_setsockopt, SYS_getsockname, SYS_getpeername, SYS_munmap, \
	SYS_mremap, SYS_madvise, SYS_brk, SYS_futex, SYS_set_robust_list, SYS_set_tid_address, SYS_rseq, \
	SYS_membarrier, SYS_sched_yield, SYS_sched_getaffinity, SYS_getcpu, SYS_exit, SYS_exit_group, \
	SYS_restart_syscall, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, \
	SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, \
	SYS_getpid, SYS_gettid, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, \
	SYS_getrusage, SYS_sysinfo, SYS_uname, SYS_getrandom, SYS_capget,

// Beside that: who keeps files of its own and lets others connect.
#define PRIVS_ALLOWED_TO_A_KEEPER \
	PRIVS_OLD_CALLS_OF_A_KEEPER \
	SYS_preadv, SYS_pwritev, SYS_sync_file_range, SYS_fallocate, SYS_fadvise64, SYS_statfs, SYS_fstatfs, \
	SYS_dup, SYS_dup3, SYS_getcwd, SYS_mkdirat, SYS_fchmodat, SYS_fchown, SYS_umask, SYS_accept4, \
	SYS_rt_sigtimedwait, SYS_prlimit64, SYS_getpriority,

// Beside that: who speaks to the internet.
#define PRIVS_ALLOWED_TO_A_PEER SYS_connect, SYS_bind, SYS_socketpair,

#define PRIVS_DEADLY_TO_ALL \
	SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_init_module, \
	SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_mount, SYS_umount2, SYS_pivot_root, \
	SYS_chroot, SYS_setns, SYS_unshare, SYS_reboot, SYS_keyctl, SYS_add_key, SYS_setuid, SYS_setgid, \
	SYS_setresuid, SYS_setresgid,

// Beside that: who has nothing to do with BPF.
#define PRIVS_DEADLY_WITHOUT_BPF SYS_bpf, SYS_perf_event_open,

// What a process that only speaks to the internet may give these calls: the head of its table.
#define PRIVS_CHECKED_OF_A_PEER \
	/* no new executable memory */ \
	{SYS_mmap, 2, PROT_EXEC, 1, {0}}, \
	{SYS_mprotect, 2, PROT_EXEC, 1, {0}}, \
	/* threads, not processes */ \
	{SYS_clone, 0, CLONE_THREAD | CLONE_VM, 1, {CLONE_THREAD | CLONE_VM}}, \
	/* the internet, and nothing local */ \
	{SYS_socket, 0, ~0U, 2, {AF_INET, AF_INET6}}, \
	/* is it a terminal? is there more to read? */ \
	{SYS_ioctl, 1, ~0U, 4, {0x5401, 0x5413, 0x541b, 0x5421}},

extern const struct privs_tables privs_tables_collect, privs_tables_stream, privs_tables_datalake, privs_tables_fetch,
	privs_tables_update, privs_tables_warden;
