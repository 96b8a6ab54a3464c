// SPDX-License-Identifier: Apache-2.0
// The datalake's system calls: connections it accepts, the files of its store and state, threads; and, for a store
// behind a network, connections it makes.

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "core/privs_profile.h"

static const int allowed[] = {
	// files
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_pread64,
	SYS_pwrite64,
	SYS_preadv,
	SYS_pwritev,
	SYS_lseek,
	SYS_openat,
	SYS_close,
	SYS_fcntl,
	SYS_flock,
	SYS_fsync,
	SYS_fdatasync,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_fadvise64,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_fchown,
	SYS_mkdirat,
	SYS_getcwd,
	SYS_umask,
	SYS_dup,
	SYS_dup3,
	SYS_sync_file_range,
	SYS_fstatfs,
	SYS_statfs,
	SYS_fchmod,
	SYS_fstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_getdents64,
	SYS_readlinkat,
	SYS_unlinkat,
	SYS_renameat,
	SYS_renameat2,
	// network and waiting
	SYS_accept4,
	SYS_connect,
	SYS_bind,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_sendto,
	SYS_sendmsg,
	SYS_shutdown,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_getsockname,
	SYS_getpeername,
	SYS_socketpair,
	SYS_ppoll,
	SYS_pselect6,
	SYS_pipe2,
	SYS_eventfd2,
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_timerfd_create,
	SYS_timerfd_settime,
	SYS_timerfd_gettime,
	SYS_signalfd4,
	// memory and threads
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	SYS_futex,
	SYS_set_robust_list,
	SYS_set_tid_address,
	SYS_rseq,
	SYS_membarrier,
	SYS_sched_yield,
	SYS_sched_getaffinity,
	SYS_getcpu,
	SYS_exit,
	SYS_exit_group,
	SYS_restart_syscall,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_rt_sigtimedwait,
	SYS_sigaltstack,
	// who, when, how much
	SYS_clock_gettime,
	SYS_clock_getres,
	SYS_clock_nanosleep,
	SYS_nanosleep,
	SYS_gettimeofday,
	SYS_getpid,
	SYS_gettid,
	SYS_getppid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_getrusage,
	SYS_sysinfo,
	SYS_uname,
	SYS_getrandom,
	SYS_capget,
	SYS_prlimit64,
	SYS_getpriority,
#ifdef __x86_64__
	// Calls that newer machines no longer have; musl uses some of them.
	SYS_open,
	SYS_stat,
	SYS_lstat,
	SYS_access,
	SYS_readlink,
	SYS_mkdir,
	SYS_rmdir,
	SYS_unlink,
	SYS_rename,
	SYS_chmod,
	SYS_getdents,
	SYS_epoll_wait,
	SYS_poll,
	SYS_select,
	SYS_pipe,
	SYS_time,
	SYS_arch_prctl,
#endif
	-1,
};

static const int deadly[] = {
	SYS_execve,	SYS_execveat,	     SYS_ptrace,      SYS_process_vm_readv, SYS_process_vm_writev,
	SYS_bpf,	SYS_perf_event_open, SYS_init_module, SYS_finit_module,	    SYS_delete_module,
	SYS_kexec_load, SYS_mount,	     SYS_umount2,     SYS_pivot_root,	    SYS_chroot,
	SYS_setns,	SYS_unshare,	     SYS_reboot,      SYS_keyctl,	    SYS_add_key,
	SYS_setuid,	SYS_setgid,	     SYS_setresuid,   SYS_setresgid,	    -1,
};

static const struct privs_checked checked[] = {
	// No new executable memory.
	{SYS_mmap, 2, PROT_EXEC, 1, {0}},
	{SYS_mprotect, 2, PROT_EXEC, 1, {0}},
	// Threads, not processes.
	{SYS_clone, 0, CLONE_THREAD | CLONE_VM, 1, {CLONE_THREAD | CLONE_VM}},
	// The internet, and nothing local.
	{SYS_socket, 0, ~0U, 2, {AF_INET, AF_INET6}},
	// Is it a terminal? Is there more to read?
	{SYS_ioctl, 1, ~0U, 4, {0x5401, 0x5413, 0x541b, 0x5421}},
	{SYS_prctl, 0, ~0U, 2, {PR_SET_NAME, PR_GET_NAME}},
	{.number = -1},
};

const struct privs_tables privs_tables_datalake = {allowed, checked, deadly};
