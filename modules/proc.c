// SPDX-License-Identifier: Apache-2.0
// The proc module: lifecycle records into the process table. A process is added at its fork (or at the first record
// that names it), completed at its exit, and ended when its task is released, for only then are its figures final.
// A zombie that nobody reaps is ended from the live iterator, which reads the same final figures.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bpf/proc.h"
#include "core/agent.h"
#include "core/base/clock.h"
#include "core/module.h"
#include "modules/proc_strings.h"
#include "proc.skel.h"

struct proc_options {
	uint64_t live_interval_ns;
};

static const struct option_spec proc_options[] = {
	{ "live_interval", OPTION_DURATION, offsetof(struct proc_options, live_interval_ns), "1s", 250000000,
	  60000000000, "Least time between two rounds over all living processes" },
	{ 0 },
};

static const uint64_t YOUNG_NS = 500 * 1000 * 1000ULL; // longer than any record waits in the ring
static const uint64_t ZOMBIE_WAIT_NS = 1000 * 1000 * 1000ULL;
static const uint64_t FREE_WAIT_NS = 3000 * 1000 * 1000ULL; // longer than RCU keeps a released task
static const uint64_t HANDED_NS = 50 * 1000 * 1000ULL; // between two hooks on one event, were the CPU taken in between
static const uint64_t ENDED_INTERVAL_NS = 1000 * 1000 * 1000ULL;

struct proc_state {
	struct proc_bpf *skeleton;
	const struct module_host *host;
	const struct proc_options *options;
	uint64_t previous_ns; // the round before live_ns
	uint64_t live_ns; // when living processes were last read
	uint64_t interval_ns; // until the next time; grows with its cost
	uint64_t ended_ns; // when the ended were last looked through
	bool seeding;
};

static int proc_supported(const struct host_env *env, char why[MODULE_WHY_SIZE])
{
	if (env->btf)
		return 0;
	snprintf(why, MODULE_WHY_SIZE, "the kernel gives no BTF (/sys/kernel/btf/vmlinux)");
	return -ENOTSUP;
}

static int proc_open(void *data, const struct module_host *host, struct bpf_object_skeleton **ret_skeleton)
{
	struct proc_state *state = data;
	const struct host_env *env = host->env;

	state->host = host;
	state->options = host->options;
	state->skeleton = proc_bpf__open();
	if (!state->skeleton)
		return -errno;
	state->skeleton->rodata->cgroup_subsystem = env->cgroup_subsystem;
	state->skeleton->rodata->cgroup_hierarchy = env->cgroup_hierarchy;
	state->skeleton->rodata->cpu_count = env->cpu_count;
	state->skeleton->rodata->page_shift = (uint32_t)__builtin_ctz(env->page_size);
	state->skeleton->rodata->exit_has_group_dead = env->exit_has_group_dead;
	*ret_skeleton = state->skeleton->skeleton;
	return 0;
}

static void proc_close(void *data)
{
	struct proc_state *state = data;

	if (!state)
		return;
	proc_bpf__destroy(state->skeleton);
	state->skeleton = NULL;
}

static struct process_table *table(struct proc_state *state)
{
	return agent_processes(state->host->agent);
}

// A process ended and nobody told: its record is written with what is known, and the loss counted.
static void process_unseen(struct proc_state *state, struct process *process)
{
	agent_unseen(state->host->agent, "proc", "end of a process not seen");
	agent_process_end(state->host->agent, process);
}

// The entry of a record's process: 1 when it was there, 0 when it is new. Another one that still lives under the same
// pid must have ended.
static int process_of(struct proc_state *state, const struct event_header *event,
		      const struct event_identity *identity, struct process **ret_process)
{
	const struct event_process_id *id = &identity->process;
	struct process *process = process_find_exact(table(state), id->pid, id->start_ns);
	int result = 1;

	if (!process) {
		process = process_find(table(state), id->pid);
		if (process)
			process_unseen(state, process);
		result = process_add(table(state), identity, &process);
		if (result < 0)
			return result;
		process->quality[FIGURE_START] = QUALITY_EXACT;
	}
	process->seen_boot_ns = event->time_ns;
	*ret_process = process;
	return result;
}

// Who the process is: as of its last exec, or for one without an exec as it was last seen.
static void identity_take(struct process *process, const struct event_identity *identity)
{
	process->uid = identity->uid;
	process->gid = identity->gid;
	process->pid_in_namespace = identity->pid_in_namespace;
	process->session = identity->session;
	process->process_group = identity->process_group;
	memcpy(process->namespaces, identity->namespaces, sizeof(process->namespaces));
}

static void counters_set(struct process *process, const struct counters *counters, uint64_t at_boot_ns)
{
	process->counters = *counters;
	process->counters_boot_ns = at_boot_ns;
	process->quality[FIGURE_CPU] = QUALITY_SAMPLED;
	process->quality[FIGURE_IO] = QUALITY_SAMPLED;
}

// What a child of this parent has from it. parent may be NULL.
static struct event_identity identity_inherited(const struct event_fork *event, const struct process *parent)
{
	struct event_identity identity = {
		.process = event->process,
		.parent = event->parent,
		.cgroup_id = event->cgroup_id,
		.default_cgroup_id = event->default_cgroup_id,
	};

	if (!parent)
		return identity;
	if (!event->cgroup_id) {
		identity.cgroup_id = parent->cgroup_id;
		identity.default_cgroup_id = parent->default_cgroup_id;
	}
	identity.uid = parent->uid;
	identity.gid = parent->gid;
	identity.session = parent->session;
	identity.process_group = parent->process_group;
	identity.pid_in_namespace = parent->pid_in_namespace == parent->pid ? event->process.pid : 0;
	memcpy(identity.namespaces, parent->namespaces, sizeof(identity.namespaces));
	memcpy(identity.comm, parent->image->comm, sizeof(identity.comm));
	return identity;
}

static int on_fork(struct proc_state *state, const struct event_fork *event)
{
	struct process *parent = process_find_exact(table(state), event->parent.pid, event->parent.start_ns);
	const struct event_identity identity = identity_inherited(event, parent);
	struct process *process;
	int result = process_of(state, &event->header, &identity, &process);

	if (result)
		return result < 0 ? result : 0; // seeded already
	process->no_exec = true;
	parent = process->parent;
	if (parent) {
		process_share_image(process, parent);
		process->quality[FIGURE_ARGS] = parent->quality[FIGURE_ARGS];
	}
	agent_process_start(state->host->agent, process);
	return 0;
}

static bool text_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

// While two images' hooks run one exec is told twice, some microseconds apart; the older image's telling came along.
static bool exec_handed(const struct process *process, const struct event_exec *event,
			const struct image_strings *strings)
{
	const struct image *image = process->image;
	uint64_t at = event->header.time_ns;

	return process->handed_boot_ns && image->start_boot_ns < process->handed_boot_ns &&
	       at - image->start_boot_ns < HANDED_NS && !image->forked &&
	       !strncmp(image->comm, event->identity.comm, PROC_COMM_SIZE) && text_same(image->exe, strings->exe) &&
	       (!image->program->plain || // arguments without their secrets cannot be compared
		(image->args_size == strings->args_size &&
		 (!strings->args_size || !memcmp(image->args, strings->args, strings->args_size))));
}

static int on_exec(struct proc_state *state, const struct event_exec *event)
{
	struct proc_strings strings;
	struct process *process;
	int result = proc_strings_exec(event, &strings);

	if (!result)
		result = process_of(state, &event->header, &event->identity, &process);
	if (result < 0)
		return result;
	// A process that was found running may have done this very exec just before it was read.
	if (process->seeded && event->header.time_ns <= process->seeded_boot_ns)
		return 0;
	if (exec_handed(process, event, &strings.image))
		return 0;
	counters_set(process, &event->counters, event->header.time_ns);
	process->maxrss_at_exec_bytes = event->maxrss_bytes;
	process->thread_took_over |= event->old_pid != 0;
	identity_take(process, &event->identity);
	process->no_exec = false;
	process->cgroup_id = event->identity.cgroup_id;
	process->default_cgroup_id = event->identity.default_cgroup_id;
	result = process_add_image(table(state), process, event->header.time_ns, event->identity.comm, &strings.image);
	if (result < 0)
		return result;
	process->image->at_start = event->counters;
	process->quality[FIGURE_ARGS] = event->args_size || !event->args_total ? QUALITY_EXACT : QUALITY_UNKNOWN;
	agent_process_exec(state->host->agent, process);
	return 0;
}

static void peak_rss_set(struct process *process, const struct event_exit *event)
{
	uint64_t inherited = process->maxrss_at_exec_bytes;

	if (event->flags & PROC_EXIT_MM_READ) {
		process->peak_rss_bytes = event->peak_rss_bytes;
		process->anon_bytes = event->anon_bytes;
		process->file_bytes = event->file_bytes;
		process->shmem_bytes = event->shmem_bytes;
		process->swap_bytes = event->swap_bytes;
		process->quality[FIGURE_MEMORY] =
			event->flags & PROC_EXIT_RSS_NEAR ? QUALITY_ESTIMATED : QUALITY_EXACT;
	} else if (event->maxrss_bytes > inherited) {
		// It grew past what it was born with, so it is this process's own.
		process->peak_rss_bytes = event->maxrss_bytes;
		process->quality[FIGURE_MEMORY] = event->flags & PROC_EXIT_RSS_NEAR ? QUALITY_ESTIMATED : QUALITY_EXACT;
	} else if (event->peak_rss_bytes || event->maxrss_bytes) {
		process->peak_rss_bytes = event->peak_rss_bytes ? event->peak_rss_bytes : event->maxrss_bytes;
		process->quality[FIGURE_MEMORY] = QUALITY_ESTIMATED;
	} else {
		// So little that it never left the CPUs' shares: the kernel cannot tell, and it is not 0.
		process->peak_rss_bytes = UNKNOWN;
		process->quality[FIGURE_MEMORY] = QUALITY_UNKNOWN;
	}
	process->image->peak_rss_bytes = process->peak_rss_bytes;
}

static void status_set(struct process *process, uint32_t status)
{
	process->signal = (int32_t)(status & 0x7f);
	process->core_dumped = (status & 0x80) != 0;
	process->exit_code = process->signal ? -1 : (int32_t)(status >> 8 & 0xff);
	process->quality[FIGURE_EXIT] = QUALITY_EXACT;
}

static void exit_figures(struct process *process, const struct event_exit *event)
{
	process->exit_boot_ns = event->header.time_ns;
	counters_set(process, &event->counters, event->header.time_ns);
	process->threads_unsure |= (event->flags & PROC_EXIT_THREADS_UNSURE) != 0;
	process->threads_life_ns = process->thread_took_over ? 0 : event->threads_life_ns;
	process->state = 'Z';
	process->oom = (event->flags & PROC_EXIT_OOM_VICTIM) != 0;
	memcpy(process->image->comm, event->comm, PROC_COMM_SIZE);
	status_set(process, event->status);
	// Who never gave up a CPU of its own accord never slept.
	if (!event->counters.voluntary_switches && !process->blocked_samples)
		process->quality[FIGURE_BLOCKED] = QUALITY_EXACT;
	peak_rss_set(process, event);
}

static int on_exit_event(struct proc_state *state, const struct event_exit *event)
{
	const struct event_identity *identity = event->identity_size ? (const void *)(event + 1) : NULL;
	const struct event_identity unknown = { .process = event->process };
	struct process *process;
	int result;

	if (identity && (event->identity_size != sizeof(*identity) ||
			 event->header.size - sizeof(*event) < event->identity_size))
		return -EBADMSG;
	result = process_of(state, &event->header, identity ? identity : &unknown, &process);
	if (result < 0)
		return result;
	if (!result)
		agent_process_start(state->host->agent, process);
	if (!result && !identity)
		agent_unseen(state->host->agent, "proc", "start of a process not seen");
	exit_figures(process, event);
	if (!identity)
		return 0;
	if (process->no_exec)
		identity_take(process, identity);
	if (process->cgroup_id != identity->cgroup_id || process->default_cgroup_id != identity->default_cgroup_id)
		agent_process_move(state->host->agent, process, identity->cgroup_id, identity->default_cgroup_id);
	return event->cwd_size ? proc_strings_exit_cwd(event, process) : 0;
}

static void process_final(struct proc_state *state, struct process *process, const struct counters *counters)
{
	uint32_t threads_max = process->counters.threads_max;

	process->counters = *counters;
	if (process->counters.threads_max < threads_max)
		process->counters.threads_max = threads_max;
	process->quality[FIGURE_CPU] = QUALITY_EXACT;
	process->quality[FIGURE_IO] = process->threads_unsure ? QUALITY_ESTIMATED : QUALITY_EXACT;
	agent_process_end(state->host->agent, process);
}

static int on_free(struct proc_state *state, const struct event_free *event)
{
	struct process *process = process_find_exact(table(state), event->process.pid, event->process.start_ns);

	if (!process)
		return 0; // ended before the collector started, or as a zombie
	if (!process->exit_boot_ns) {
		agent_unseen(state->host->agent, "proc", "exit record lost");
		process->exit_boot_ns = event->header.time_ns;
	}
	process_final(state, process, &event->counters);
	return 0;
}

static int on_cgroup(struct proc_state *state, const struct event_cgroup *event)
{
	const char *path = (const char *)(event + 1);

	if (event->header.size < sizeof(*event) + event->path_size || !event->path_size ||
	    path[event->path_size - 1])
		return -EBADMSG;
	if (event->change == PROC_CGROUP_MADE)
		agent_cgroup_made(state->host->agent, event->cgroup_id, path, event->in_default);
	else
		agent_cgroup_removed(state->host->agent, event->cgroup_id, event->in_default);
	return 0;
}

static int on_move(struct proc_state *state, const struct event_move *event)
{
	struct process *process = process_find_exact(table(state), event->process.pid, event->process.start_ns);

	if (process)
		agent_process_move(state->host->agent, process,
				   event->in_default ? process->cgroup_id : event->cgroup_id,
				   event->in_default ? event->cgroup_id : process->default_cgroup_id);
	return 0;
}

static int proc_record(void *data, const struct event_header *event)
{
	struct proc_state *state = data;

	switch (event->kind) {
	case EVENT_FORK:
		return event->size < sizeof(struct event_fork) ? -EBADMSG : on_fork(state, (const void *)event);
	case EVENT_EXEC:
		return event->size < sizeof(struct event_exec) ? -EBADMSG : on_exec(state, (const void *)event);
	case EVENT_EXIT:
		return event->size < sizeof(struct event_exit) ? -EBADMSG : on_exit_event(state, (const void *)event);
	case EVENT_FREE:
		return event->size < sizeof(struct event_free) ? -EBADMSG : on_free(state, (const void *)event);
	case EVENT_CGROUP:
		return event->size < sizeof(struct event_cgroup) ? -EBADMSG : on_cgroup(state, (const void *)event);
	case EVENT_MOVE:
		return event->size < sizeof(struct event_move) ? -EBADMSG : on_move(state, (const void *)event);
	default:
		return -EBADMSG;
	}
}

// The state letter of /proc/PID/stat: fs/proc/array.c, task_state_array.
static char state_letter(uint32_t state)
{
	static const char letters[] = "SDTtXZP";

	for (uint32_t bit = 0; bit < sizeof(letters) - 1; bit++) {
		if (state & 1u << bit)
			return letters[bit];
	}
	return state ? 'I' : 'R';
}

static void live_seed(struct proc_state *state, const struct event_live *event, struct process *process)
{
	process->seeded = true;
	process->seeded_boot_ns = event->header.time_ns;
	process->threads_unsure = event->counters.threads_max > 1;
	process->quality[FIGURE_START] = QUALITY_EXACT;
	if (!state->seeding)
		agent_process_seed(state->host->agent, process);
}

// A process that is not in the table ran before the hooks did, or its fork was missed. One so young that its fork may
// still wait in the ring is left for the next round.
static struct process *live_add(struct proc_state *state, const struct event_live *event)
{
	const struct event_process_id *id = &event->identity.process;
	struct process *process;

	// Not by the clock of now: who is kept from the CPU between draining and looking would find everybody old.
	if (event->zombie ||
	    (!state->seeding && id->start_ns + YOUNG_NS > agent_drained_ns(state->host->agent)))
		return NULL;
	process = process_find(table(state), id->pid);
	if (process)
		process_unseen(state, process);
	if (process_add(table(state), &event->identity, &process) < 0)
		return NULL;
	if (!state->seeding)
		agent_unseen(state->host->agent, "proc", "start of a process not seen");
	live_seed(state, event, process);
	return process;
}

static void on_live(struct proc_state *state, const struct event_live *event)
{
	struct process *process = process_find_exact(table(state), event->identity.process.pid,
						     event->identity.process.start_ns);

	if (!process) {
		process = live_add(state, event);
		if (!process)
			return;
	}
	process->seen_boot_ns = event->header.time_ns;
	if (process->no_exec && !event->zombie)
		identity_take(process, &event->identity);
	process->state = event->zombie ? 'Z' : state_letter(event->state);
	if (process->exit_boot_ns) {
		if (event->zombie && event->header.time_ns - process->exit_boot_ns >= ZOMBIE_WAIT_NS)
			process_final(state, process, &event->counters);
		return;
	}
	counters_set(process, &event->counters, event->header.time_ns);
	if (event->flags & PROC_EXIT_MM_READ) {
		process->rss_bytes = event->rss_bytes;
		process->swap_bytes = event->swap_bytes;
		process->peak_rss_bytes = event->peak_rss_bytes;
		process->quality[FIGURE_MEMORY] = QUALITY_SAMPLED;
	}
}

static void on_live_thread(struct proc_state *state, const struct event_live_thread *event)
{
	struct process *process = process_find_exact(table(state), event->process.pid, event->process.start_ns);
	struct counters *sum;

	if (!process || process->exit_boot_ns)
		return;
	sum = &process->counters;
	sum->cpu_ns += event->counters.cpu_ns;
	sum->utime_ns += event->counters.utime_ns;
	sum->stime_ns += event->counters.stime_ns;
	sum->run_delay_ns += event->counters.run_delay_ns;
	sum->voluntary_switches += event->counters.voluntary_switches;
	sum->involuntary_switches += event->counters.involuntary_switches;
	sum->minor_faults += event->counters.minor_faults;
	sum->major_faults += event->counters.major_faults;
	sum->rchar_bytes += event->counters.rchar_bytes;
	sum->wchar_bytes += event->counters.wchar_bytes;
	sum->read_syscalls += event->counters.read_syscalls;
	sum->write_syscalls += event->counters.write_syscalls;
	sum->read_bytes += event->counters.read_bytes;
	sum->write_bytes += event->counters.write_bytes;
	sum->cancelled_write_bytes += event->counters.cancelled_write_bytes;
}

static size_t live_record(struct proc_state *state, const char *data, size_t size)
{
	const struct event_header *event = (const void *)data;

	if (size < sizeof(*event) || event->size > size || event->size < sizeof(*event))
		return 0;
	if (event->kind == EVENT_LIVE && event->size >= sizeof(struct event_live))
		on_live(state, (const void *)event);
	else if (event->kind == EVENT_LIVE_THREAD && event->size >= sizeof(struct event_live_thread))
		on_live_thread(state, (const void *)event);
	return event->size;
}

// Every living process, leaders before their threads as the iterator walks pids upwards; after a pid wrap a thread
// may come first, and is then added to the figures of the round before, which the next round replaces.
static int live_read(struct proc_state *state)
{
	int iterator = bpf_iter_create(state->host->iterator_fd);
	static _Alignas(8) char buffer[64 * 1024];
	size_t held = 0;
	ssize_t got;

	if (iterator < 0)
		return -errno;
	clock_thread_cpu_ns(); // brings the scheduler's clock of this task up to now, see bpf/lib/counters.h
	while ((got = read(iterator, buffer + held, sizeof(buffer) - held)) > 0 || (got < 0 && errno == EAGAIN)) {
		size_t used = 0, one;

		held += got > 0 ? (size_t)got : 0;
		while ((one = live_record(state, buffer + used, held - used)) > 0)
			used += one;
		memmove(buffer, buffer + used, held - used);
		held -= used;
	}
	close(iterator);
	return got < 0 ? -errno : 0;
}

// After attach: hooks run already, so nothing falls between them and this.
static int proc_start(void *data)
{
	struct proc_state *state = data;
	int result;

	uint64_t begin = clock_boot_ns();

	state->seeding = true;
	result = live_read(state);
	state->seeding = false;
	agent_processes_seed(state->host->agent, begin);
	state->interval_ns = state->options->live_interval_ns;
	state->live_ns = clock_boot_ns();
	return result;
}

// Another image saw to all that lives: the rounds begin as after a start.
static int proc_resume(void *data)
{
	struct proc_state *state = data;

	state->interval_ns = state->options->live_interval_ns;
	state->live_ns = state->ended_ns = clock_boot_ns();
	return 0;
}

// The map entry of a process is the kernel side's to delete, when the task is freed.
static void thread_sums_forget(struct proc_state *state, const struct process *process)
{
	int fd = bpf_map__fd(state->skeleton->maps.thread_sums);
	struct thread_sums sums;

	if (!bpf_map_lookup_elem(fd, &process->pid, &sums) && sums.start_ns == process->start_boot_ns)
		bpf_map_delete_elem(fd, &process->pid);
}

static void filter_forget(struct proc_state *state, const struct process *process)
{
	const struct filter_process key = { .pid = process->pid, .start_ns = process->start_boot_ns };

	bpf_map_delete_elem(bpf_map__fd(state->skeleton->maps.filter_processes), &key);
}

// What the process had used when its parent was told: all but some microseconds, so no more than an estimate.
static void parting_take(struct proc_state *state, struct process *process)
{
	uint32_t slot = proc_parting_slot(process->pid, process->start_boot_ns);
	struct proc_parting parting;

	process->quality[FIGURE_CPU] = QUALITY_ESTIMATED;
	if (bpf_map_lookup_elem(bpf_map__fd(state->skeleton->maps.partings), &slot, &parting) ||
	    parting.pid != process->pid || parting.start_ns != process->start_boot_ns)
		return;
	if (parting.cpu_ns > process->counters.cpu_ns)
		process->counters.cpu_ns = parting.cpu_ns;
	if (process->counters.threads_max == 1 && parting.run_delay_ns > process->counters.run_delay_ns)
		process->counters.run_delay_ns = parting.run_delay_ns;
	process->quality[FIGURE_IO] = process->threads_unsure ? QUALITY_ESTIMATED : QUALITY_EXACT;
}

struct ended_sweep {
	struct proc_state *state;
	uint64_t before_boot_ns;
};

// One or two tasks in a thousand are freed without passing sched_process_free (6.18, as perf shows too). One that ended
// long ago and is no zombie any more is such.
static void ended_one(void *context, struct process *process)
{
	struct ended_sweep *sweep = context;

	if (!process->exit_boot_ns || process->exit_boot_ns > sweep->before_boot_ns)
		return;
	parting_take(sweep->state, process);
	thread_sums_forget(sweep->state, process);
	filter_forget(sweep->state, process);
	agent_process_end(sweep->state->host->agent, process);
}

static void ended_sweep(struct proc_state *state, uint64_t before_boot_ns)
{
	struct ended_sweep sweep = { .state = state, .before_boot_ns = before_boot_ns };

	process_each(table(state), ended_one, &sweep);
}

struct live_sweep {
	struct proc_state *state;
	uint64_t before_boot_ns;
};

static void sweep_one(void *context, struct process *process)
{
	struct live_sweep *sweep = context;

	if (!process->exit_boot_ns && process->seen_boot_ns < sweep->before_boot_ns)
		process_unseen(sweep->state, process);
}

// What two rounds of the iterator did not find, and no record ended, ended unseen.
static void live_sweep(struct proc_state *state)
{
	struct live_sweep sweep = { .state = state, .before_boot_ns = state->previous_ns };

	if (state->previous_ns)
		process_each(table(state), sweep_one, &sweep);
	state->previous_ns = state->live_ns;
}

static int live_round(struct proc_state *state)
{
	uint64_t begin = clock_process_cpu_ns(), least = state->options->live_interval_ns;
	uint64_t cost;
	int result = live_read(state);

	if (!result)
		live_sweep(state);
	state->live_ns = clock_boot_ns();
	cost = clock_process_cpu_ns() - begin;
	// Never more than a four-thousandth of a core, unless somebody looks.
	state->interval_ns = cost * 4000 > least ? cost * 4000 : least;
	return result;
}

static int proc_tick(void *data, uint64_t now_boot_ns)
{
	struct proc_state *state = data;
	uint64_t interval_ns = agent_is_watched(state->host->agent, now_boot_ns) ? state->options->live_interval_ns
										 : state->interval_ns;
	int result = 0;

	// Zombies first: of what the kernel still holds all figures can be had.
	if (now_boot_ns - state->live_ns >= interval_ns)
		result = live_round(state);
	if (now_boot_ns == UINT64_MAX) {
		ended_sweep(state, UINT64_MAX);
	} else if (now_boot_ns - state->ended_ns >= ENDED_INTERVAL_NS) {
		state->ended_ns = now_boot_ns;
		ended_sweep(state, now_boot_ns - FREE_WAIT_NS);
	}
	return result;
}

const struct module module_proc = {
	.name = "proc",
	.id = MODULE_PROC,
	.summary = "processes: fork, exec, exit, arguments, identity, cgroup",
	.options = proc_options,
	.options_size = sizeof(struct proc_options),
	.state_size = sizeof(struct proc_state),
	.supported = proc_supported,
	.open = proc_open,
	.start = proc_start,
	.resume = proc_resume,
	.record = proc_record,
	.tick = proc_tick,
	.close = proc_close,
};
