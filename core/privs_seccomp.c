// SPDX-License-Identifier: Apache-2.0
// The system-call filter, built from three tables: allowed, allowed by an argument, deadly. Anything else traps: the
// handler counts it and makes the call return -EPERM. Threads must therefore not block SIGSYS for long: the kernel
// then kills.

#include "core/privs.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PRIVS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define PRIVS_ARCH AUDIT_ARCH_AARCH64
#endif

static const int privs_allowed[] = {
	// files
	SYS_read,
	SYS_write,
	SYS_readv,
	SYS_writev,
	SYS_pread64,
	SYS_pwrite64,
	SYS_preadv,
	SYS_pwritev,
	SYS_preadv2,
	SYS_pwritev2,
	SYS_lseek,
	SYS_openat,
	SYS_close,
	SYS_close_range,
	SYS_dup,
	SYS_dup3,
	SYS_fcntl,
	SYS_flock,
	SYS_fsync,
	SYS_fdatasync,
	SYS_sync_file_range,
	SYS_io_setup,
	SYS_io_submit,
	SYS_io_getevents,
	SYS_io_destroy,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_fadvise64,
	SYS_fstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_statfs,
	SYS_fstatfs,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_getdents64,
	SYS_readlinkat,
	SYS_getcwd,
	SYS_mkdirat,
	SYS_unlinkat,
	SYS_renameat,
	SYS_renameat2,
	SYS_fchmod,
	SYS_fchmodat,
	SYS_io_setup,
	SYS_io_submit,
	SYS_io_getevents,
	SYS_io_destroy,
	SYS_fchown,
	SYS_umask,
	// the loop, sockets that are open already, pidfds
	SYS_epoll_create1,
	SYS_epoll_ctl,
	SYS_epoll_pwait,
	SYS_ppoll,
	SYS_pselect6,
	SYS_timerfd_create,
	SYS_timerfd_settime,
	SYS_timerfd_gettime,
	SYS_signalfd4,
	SYS_eventfd2,
	SYS_pipe2,
	SYS_accept4,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_sendto,
	SYS_sendmsg,
	SYS_shutdown,
	SYS_getsockopt,
	SYS_setsockopt,
	SYS_getsockname,
	SYS_getpeername,
	SYS_pidfd_open,
	SYS_wait4,
	SYS_waitid,
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
	SYS_times,
	SYS_sysinfo,
	SYS_uname,
	SYS_getrandom,
	SYS_prlimit64,
	SYS_capget,
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
	SYS_dup2,
	SYS_pipe,
	SYS_time,
	SYS_arch_prctl,
#endif
};

// Nothing here ever makes one of these: whoever does is not us.
static const int privs_deadly[] = {
	SYS_execve,
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_reboot,
	SYS_keyctl,
	SYS_add_key,
	SYS_setuid,
	SYS_setgid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_connect,
};

// Allowed when argument & mask is one of the first count values.
struct privs_checked {
	int number;
	unsigned argument;
	uint32_t mask;
	unsigned count;
	uint32_t values[12];
};

static const struct privs_checked privs_checked[] = {
	// No new executable memory.
	{SYS_mmap, 2, PROT_EXEC, 1, {0}},
	{SYS_mprotect, 2, PROT_EXEC, 1, {0}},
	// Threads, not processes.
	{SYS_clone, 0, CLONE_THREAD | CLONE_VM, 1, {CLONE_THREAD | CLONE_VM}},
	// Is it a terminal? And what a pidfd tells of an ended process (PIDFD_GET_INFO, any size).
	{SYS_ioctl, 1, ~0U, 2, {0x5401, 0x5413}},
	{SYS_ioctl, 1, 0xc000ffff, 1, {0xc000ff0b}},
	// Maps, iterators and links that are there; no program is loaded, nothing is attached by it.
	{SYS_bpf,
	 0,
	 ~0U,
	 11,
	 {BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY,
	  BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_LOOKUP_BATCH, BPF_MAP_LOOKUP_AND_DELETE_BATCH,
	  BPF_MAP_UPDATE_BATCH, BPF_MAP_DELETE_BATCH, BPF_OBJ_GET_INFO_BY_FD, BPF_ITER_CREATE}},
	{SYS_prctl, 0, ~0U, 2, {PR_SET_NAME, PR_GET_NAME}},
};

static volatile uint64_t privs_refused_count;
static volatile int privs_refused_number = -1;

uint64_t privs_refused(int *ret_number)
{
	*ret_number = __atomic_load_n(&privs_refused_number, __ATOMIC_RELAXED);
	return __atomic_load_n(&privs_refused_count, __ATOMIC_RELAXED);
}

#ifdef PRIVS_ARCH

static void privs_trapped(int signal_number, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signal_number;
	if (info->si_code != 1) // SYS_SECCOMP
		return;
	__atomic_store_n(&privs_refused_number, info->si_syscall, __ATOMIC_RELAXED);
	__atomic_fetch_add(&privs_refused_count, 1, __ATOMIC_RELAXED);
#ifdef __x86_64__
	user->uc_mcontext.gregs[REG_RAX] = -EPERM;
#else
	user->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#endif
}

struct privs_program {
	struct sock_filter code[1024];
	unsigned short length;
	bool full;
};

static void privs_emit(struct privs_program *program, uint16_t code, uint8_t yes, uint8_t no,
		       uint32_t value)
{
	if (program->length == sizeof(program->code) / sizeof(program->code[0])) {
		program->full = true;
		return;
	}
	program->code[program->length++] = (struct sock_filter){code, yes, no, value};
}

static void privs_emit_return(struct privs_program *program, int number, uint32_t action)
{
	privs_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)number);
	privs_emit(program, BPF_RET | BPF_K, 0, 0, action);
}

// The number is in the accumulator before and, when no value fits, after.
static void privs_emit_checked(struct privs_program *program, const struct privs_checked *checked)
{
	uint32_t low = offsetof(struct seccomp_data, args) + checked->argument * 8;
	uint8_t body = (uint8_t)(3 + 2 * checked->count);

	// The kernel's calls that are checked take these arguments as 32 bits: the high half cannot matter.
	privs_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, body, (uint32_t)checked->number);
	privs_emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, low);
	privs_emit(program, BPF_ALU | BPF_AND | BPF_K, 0, 0, checked->mask);
	for (unsigned i = 0; i < checked->count; i++) {
		privs_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, checked->values[i]);
		privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	}
	privs_emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
}

static void privs_build(struct privs_program *program)
{
	privs_emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	privs_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, PRIVS_ARCH);
	privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
	privs_emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < sizeof(privs_allowed) / sizeof(privs_allowed[0]); i++)
		privs_emit_return(program, privs_allowed[i], SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < sizeof(privs_checked) / sizeof(privs_checked[0]); i++)
		privs_emit_checked(program, &privs_checked[i]);
	for (size_t i = 0; i < sizeof(privs_deadly) / sizeof(privs_deadly[0]); i++)
		privs_emit_return(program, privs_deadly[i], SECCOMP_RET_KILL_PROCESS);
	// libc falls back to clone(), whose flags can be seen.
	privs_emit_return(program, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
	// x32 calls have a bit of their own and so match nothing above: they end here too.
	privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP);
}

static int privs_install(void)
{
	struct privs_program *program = calloc(1, sizeof(*program));
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
	struct sock_fprog filter;
	int error = 0;

	if (!program)
		return -ENOMEM;
	privs_build(program);
	filter = (struct sock_fprog){program->length, program->code};
	action.sa_sigaction = privs_trapped;
	if (program->full)
		error = -E2BIG;
	else if (sigaction(SIGSYS, &action, NULL) < 0)
		error = -errno;
	else if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			 &filter) != 0)
		error = errno == EINVAL ? -ENOSYS : -errno;
	free(program);
	return error;
}

#endif

int privs_seccomp(enum privs_profile profile)
{
#ifdef PRIVS_ARCH
	return profile == PRIVS_COLLECT ? privs_install() : -EINVAL;
#else
	(void)profile;
	return -ENOTSUP;
#endif
}
