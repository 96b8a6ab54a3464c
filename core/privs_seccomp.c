// SPDX-License-Identifier: Apache-2.0
// The system-call filter, built from a profile's three tables: allowed, allowed by an argument, deadly. Anything else
// traps: the handler counts it and makes the call return -EPERM. Threads must therefore not block SIGSYS for long: the
// kernel then kills.

#include "core/privs_profile.h"

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

enum { X32_CALLS = 0x40000000 };

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

static void privs_build(struct privs_program *program, const struct privs_tables *tables)
{
	privs_emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
	privs_emit(program, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, PRIVS_ARCH);
	privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
	privs_emit(program, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	for (const int *number = tables->allowed; *number >= 0; number++)
		privs_emit_return(program, *number, SECCOMP_RET_ALLOW);
	for (const struct privs_checked *checked = tables->checked; checked->number >= 0; checked++)
		privs_emit_checked(program, checked);
	for (const int *number = tables->deadly; *number >= 0; number++)
		privs_emit_return(program, *number, SECCOMP_RET_KILL_PROCESS);
	if (tables->others) {
		privs_emit(program, BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_CALLS);
		privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
		privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
		return;
	}
	// libc falls back to clone(), whose flags can be seen.
	privs_emit_return(program, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
	// x32 calls have a bit of their own and so match nothing above: they end here too.
	privs_emit(program, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP);
}

static int privs_install(const struct privs_tables *tables)
{
	struct privs_program *program = calloc(1, sizeof(*program));
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
	struct sock_fprog filter;
	int error = 0;

	if (!program)
		return -ENOMEM;
	privs_build(program, tables);
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
	switch (profile) {
	case PRIVS_COLLECT:
		return privs_install(&privs_tables_collect);
	case PRIVS_DATALAKE:
		return privs_install(&privs_tables_datalake);
	case PRIVS_STREAM:
		return privs_install(&privs_tables_stream);
	case PRIVS_FETCH:
		return privs_install(&privs_tables_fetch);
	case PRIVS_UPDATE:
		return privs_install(&privs_tables_update);
	case PRIVS_WARDEN:
		return privs_install(&privs_tables_warden);
	}
	return -EINVAL;
#else
	(void)profile;
	return -ENOTSUP;
#endif
}
