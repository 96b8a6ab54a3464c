// SPDX-License-Identifier: Apache-2.0
// The sched module: CPU figures of a process, and what its sleeping threads wait for, sampled by iterator. The
// sampler pays for itself: its interval grows until it costs at most a four-thousandth of a core.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf/sched.h"
#include "core/agent.h"
#include "core/base/clock.h"
#include "core/module.h"
#include "modules/sched_host.h"
#include "sched.skel.h"

struct sched_options {
	bool blocked;
	uint64_t blocked_interval_ns;
};

static const struct option_spec sched_options[] = {
	{ "blocked", OPTION_BOOL, offsetof(struct sched_options, blocked), "true", 0, 0,
	  "Look at sleeping threads, for what they wait" },
	{ "blocked_interval", OPTION_DURATION, offsetof(struct sched_options, blocked_interval_ns), "100ms", 10000000,
	  60000000000, "Least time between two looks; the collector takes one four times a second at most" },
	{ 0 },
};

struct sched_state {
	struct sched_bpf *skeleton;
	const struct module_host *host;
	const struct sched_options *options;
	struct sched_host host_files;
	uint64_t sampled_ns;
	uint64_t interval_ns;
};

struct syscall_wait {
	long number;
	enum sched_syscall_class class;
};

static const struct syscall_wait syscall_waits[] = {
	{ SYS_read, SCHED_SYSCALL_FILE },
	{ SYS_write, SCHED_SYSCALL_FILE },
	{ SYS_readv, SCHED_SYSCALL_FILE },
	{ SYS_writev, SCHED_SYSCALL_FILE },
	{ SYS_pread64, SCHED_SYSCALL_FILE },
	{ SYS_pwrite64, SCHED_SYSCALL_FILE },
	{ SYS_preadv, SCHED_SYSCALL_FILE },
	{ SYS_pwritev, SCHED_SYSCALL_FILE },
	{ SYS_preadv2, SCHED_SYSCALL_FILE },
	{ SYS_pwritev2, SCHED_SYSCALL_FILE },
	{ SYS_splice, SCHED_SYSCALL_FILE },
	{ SYS_sendfile, SCHED_SYSCALL_FILE },
	{ SYS_copy_file_range, SCHED_SYSCALL_FILE },
	{ SYS_fsync, SCHED_SYSCALL_FILE },
	{ SYS_fdatasync, SCHED_SYSCALL_FILE },
	{ SYS_sync_file_range, SCHED_SYSCALL_FILE },
	{ SYS_ftruncate, SCHED_SYSCALL_FILE },
	{ SYS_fallocate, SCHED_SYSCALL_FILE },
	{ SYS_close, SCHED_SYSCALL_FILE },
	{ SYS_fstat, SCHED_SYSCALL_FILE },
	{ SYS_getdents64, SCHED_SYSCALL_FILE },
	{ SYS_accept, SCHED_SYSCALL_SOCKET },
	{ SYS_accept4, SCHED_SYSCALL_SOCKET },
	{ SYS_connect, SCHED_SYSCALL_SOCKET },
	{ SYS_sendto, SCHED_SYSCALL_SOCKET },
	{ SYS_recvfrom, SCHED_SYSCALL_SOCKET },
	{ SYS_sendmsg, SCHED_SYSCALL_SOCKET },
	{ SYS_recvmsg, SCHED_SYSCALL_SOCKET },
	{ SYS_sendmmsg, SCHED_SYSCALL_SOCKET },
	{ SYS_recvmmsg, SCHED_SYSCALL_SOCKET },
	{ SYS_futex, SCHED_SYSCALL_LOCK },
	{ SYS_flock, SCHED_SYSCALL_LOCK },
	{ SYS_fcntl, SCHED_SYSCALL_LOCK },
	{ SYS_semtimedop, SCHED_SYSCALL_LOCK },
	{ SYS_semop, SCHED_SYSCALL_LOCK },
	{ SYS_wait4, SCHED_SYSCALL_CHILD },
	{ SYS_waitid, SCHED_SYSCALL_CHILD },
	{ SYS_nanosleep, SCHED_SYSCALL_TIMER },
	{ SYS_clock_nanosleep, SCHED_SYSCALL_TIMER },
	{ SYS_rt_sigsuspend, SCHED_SYSCALL_SIGNAL },
};

static int sched_supported(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	if (env->btf)
		return 0;
	snprintf(why, MODULE_WHY_SIZE, "the kernel gives no BTF (/sys/kernel/btf/vmlinux)");
	return -ENOTSUP;
}

static int sched_open(void *data, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton)
{
	struct sched_state *state = data;

	state->host = host;
	state->options = host->options;
	state->interval_ns = state->options->blocked_interval_ns;
	sched_host_open(&state->host_files);
	state->skeleton = sched_bpf__open();
	if (!state->skeleton)
		return -errno;
	for (size_t i = 0; i < sizeof(syscall_waits) / sizeof(syscall_waits[0]); i++) {
		if (syscall_waits[i].number < SCHED_SYSCALLS_MAX)
			state->skeleton->rodata->syscall_classes[syscall_waits[i].number] =
				(uint8_t)syscall_waits[i].class;
	}
	bpf_program__set_autoload(state->skeleton->progs.sched_states, state->options->blocked);
	*ret_skeleton = state->skeleton->skeleton;
	return 0;
}

static void sched_close(void *data)
{
	struct sched_state *state = data;

	if (!state)
		return;
	sched_bpf__destroy(state->skeleton);
	state->skeleton = NULL;
	sched_host_close(&state->host_files);
}

// A regular file is waited for through the page cache: the time is the disk's, or the network's behind the file
// system. A thread in state D outside of any of that waits for a disk when the kernel says it waits for I/O.
static enum blocked blocked_of(const struct event_state *event, const struct process *process)
{
	switch (event->syscall_class) {
	case SCHED_SYSCALL_SIGNAL: // how a shell waits for its children
		return process->children ? BLOCKED_CHILD : BLOCKED_OTHER;
	case SCHED_SYSCALL_SOCKET:
		return BLOCKED_SOCKET;
	case SCHED_SYSCALL_LOCK:
		return BLOCKED_LOCK;
	case SCHED_SYSCALL_CHILD:
		return BLOCKED_CHILD;
	case SCHED_SYSCALL_TIMER:
		return BLOCKED_TIMER;
	default:
		break;
	}
	switch (event->file_class) {
	case SCHED_FILE_NETWORK:
		return BLOCKED_NETWORK_FS;
	case SCHED_FILE_PIPE:
		return BLOCKED_PIPE;
	case SCHED_FILE_SOCKET:
		return BLOCKED_SOCKET;
	case SCHED_FILE_REGULAR:
		return event->uninterruptible ? BLOCKED_DISK : BLOCKED_OTHER;
	default:
		return event->uninterruptible && event->in_iowait ? BLOCKED_DISK : BLOCKED_OTHER;
	}
}

static void on_state(struct sched_state *state, const struct event_state *event, uint64_t elapsed_ns)
{
	struct process_table *table = agent_processes(state->host->agent);
	struct process *process = process_find_exact(table, event->process.pid, event->process.start_ns);

	if (!process || process->exit_boot_ns)
		return;
	process->blocked_ns[blocked_of(event, process)] += elapsed_ns;
	process->blocked_samples++;
	process->quality[FIGURE_BLOCKED] = QUALITY_SAMPLED;
}

static int states_read(struct sched_state *state, uint64_t elapsed_ns)
{
	int iterator = bpf_iter_create(state->host->iterator_fd);
	static _Alignas(8) char buffer[32 * 1024];
	size_t held = 0;
	ssize_t got;

	if (iterator < 0)
		return -errno;
	while ((got = read(iterator, buffer + held, sizeof(buffer) - held)) > 0 || (got < 0 && errno == EAGAIN)) {
		size_t used = 0;

		held += got > 0 ? (size_t)got : 0;
		for (; held - used >= sizeof(struct event_state); used += sizeof(struct event_state))
			on_state(state, (const void *)(buffer + used), elapsed_ns);
		memmove(buffer, buffer + used, held - used);
		held -= used;
	}
	close(iterator);
	return got < 0 ? -errno : 0;
}

static int sched_tick(void *data, uint64_t now_boot_ns)
{
	struct sched_state *state = data;
	uint64_t elapsed = now_boot_ns - state->sampled_ns;
	uint64_t least = state->options->blocked_interval_ns;
	uint64_t begin, cost;
	int result;

	if (!state->options->blocked || elapsed < state->interval_ns)
		return 0;
	if (!state->sampled_ns || elapsed > 2 * state->interval_ns + least)
		elapsed = state->interval_ns; // the host slept, or this process did
	begin = clock_process_cpu_ns();
	result = states_read(state, elapsed);
	state->sampled_ns = now_boot_ns;
	cost = clock_process_cpu_ns() - begin;
	state->interval_ns = cost * 4000 > least ? cost * 4000 : least;
	return result;
}

// A thread is off the CPU for exactly its life less its CPU time and run delay, and a process as long as its threads
// together: the samples only divide that. Where the threads' lives are not known the samples stand as they are.
static void blocked_anchor(void *data, struct process *process)
{
	const struct counters *counters = &process->counters;
	uint64_t life = counters->threads_max == 1 ? process->exit_boot_ns - process->start_boot_ns
						   : process->threads_life_ns;
	uint64_t busy = counters->cpu_ns + counters->run_delay_ns;
	uint64_t sampled = 0;

	(void)data;
	for (int i = 0; i < BLOCKED_END; i++)
		sampled += process->blocked_ns[i];
	if (!sampled || !process->exit_boot_ns || process->seeded || process->threads_unsure || busy > life)
		return;
	for (int i = 0; i < BLOCKED_END; i++)
		process->blocked_ns[i] = (uint64_t)((double)process->blocked_ns[i] / (double)sampled *
						    (double)(life - busy));
}

static void blocked_fields(const struct process *process, struct json *json)
{
	if (process->quality[FIGURE_BLOCKED] == QUALITY_UNKNOWN) {
		json_put_null(json, "blocked_ns");
	} else {
		json_key(json, "blocked_ns");
		json_open_object(json);
		for (int i = 0; i < BLOCKED_END; i++) {
			if (process->blocked_ns[i])
				json_put_u64(json, blocked_name((enum blocked)i), process->blocked_ns[i]);
		}
		json_close_object(json);
	}
	json_put_u64(json, "blocked_samples", process->blocked_samples);
}

struct figures {
	uint64_t cpu_ns, cpu_user_ns, cpu_system_ns, run_delay_ns;
	uint64_t voluntary_switches, involuntary_switches, threads_max;
};

static void sched_process_fields(const struct process *process, struct json *json)
{
	static const struct json_field fields[] = {
		JSON_FIELD(struct figures, cpu_ns, "cpu_ns"),
		JSON_FIELD(struct figures, cpu_user_ns, "cpu_user_ns"),
		JSON_FIELD(struct figures, cpu_system_ns, "cpu_system_ns"),
		JSON_FIELD(struct figures, run_delay_ns, "run_delay_ns"),
		JSON_FIELD(struct figures, voluntary_switches, "voluntary_switches"),
		JSON_FIELD(struct figures, involuntary_switches, "involuntary_switches"),
		JSON_FIELD(struct figures, threads_max, "threads_max"),
	};
	const struct counters *counters = process_counters(process, process_counted(process));
	uint64_t user = counters_user_ns(counters);
	uint32_t threads_max = process->counters.threads_max;
	const struct figures figures = {
		.cpu_ns = counters->cpu_ns,
		.cpu_user_ns = user,
		.cpu_system_ns = user == UNKNOWN ? UNKNOWN : counters->cpu_ns - user,
		.run_delay_ns = counters->run_delay_ns,
		.voluntary_switches = counters->voluntary_switches,
		.involuntary_switches = counters->involuntary_switches,
		.threads_max = threads_max ? threads_max : UNKNOWN,
	};

	json_put_fields(json, fields, sizeof(fields) / sizeof(fields[0]), &figures);
	blocked_fields(process, json);
}

static void sched_host_record(void *data, struct json *json)
{
	sched_host_fields(&((struct sched_state *)data)->host_files, json);
}

static void sched_cgroup_record(void *data, struct cgroup *cgroup, struct json *json)
{
	struct sched_state *state = data;

	sched_cgroup_fields(agent_cgroups(state->host->agent), cgroup, json);
}

const struct module module_sched = {
	.name = "sched",
	.id = MODULE_SCHED,
	.summary = "CPU time, run delay, switches, and what threads wait for",
	.options = sched_options,
	.options_size = sizeof(struct sched_options),
	.state_size = sizeof(struct sched_state),
	.supported = sched_supported,
	.open = sched_open,
	.tick = sched_tick,
	.process_end = blocked_anchor,
	.process_fields = sched_process_fields,
	.host_fields = sched_host_record,
	.cgroup_fields = sched_cgroup_record,
	.close = sched_close,
};
