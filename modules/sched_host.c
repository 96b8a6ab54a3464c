// SPDX-License-Identifier: Apache-2.0
// Module sched, its host and cgroup samples. Sources: proc_stat(5), proc_loadavg(5),
// Documentation/accounting/psi.rst. Files stay open; one read each a sample. It writes members only: the record is
// begun and ended by the agent.
#include "modules/sched_host.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/cgroup_sample.h"

enum { FILE_MAX = 4 << 20 }; // /proc/stat of a host with thousands of CPUs and interrupts

static const char *const cpu_states[] = {
	"cpu_user_ns", "cpu_nice_ns",	 "cpu_system_ns", "cpu_idle_ns",  "cpu_iowait_ns",
	"cpu_irq_ns",  "cpu_softirq_ns", "cpu_steal_ns",  "cpu_guest_ns", "cpu_guest_nice_ns",
};
enum { CPU_STATES = sizeof(cpu_states) / sizeof(cpu_states[0]) };

struct stat_figures {
	uint64_t cpu_ns[CPU_STATES];
	uint64_t cpus_online;
	uint64_t context_switches, forks, procs_running, procs_blocked;
};

int sched_host_open_at(struct sched_host *host, const char *proc)
{
	int directory = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	long hertz = sysconf(_SC_CLK_TCK);

	*host = (struct sched_host){ .tick_ns = hertz > 0 ? 1000000000ull / (uint64_t)hertz : TEXT_UNKNOWN };
	if (directory < 0)
		return 0;
	text_file_open(&host->stat, directory, "stat");
	text_file_open(&host->loadavg, directory, "loadavg");
	text_file_open(&host->pressure, directory, "pressure/cpu");
	close(directory);
	return 0;
}

int sched_host_open(struct sched_host *host)
{
	return sched_host_open_at(host, "/proc");
}

void sched_host_close(struct sched_host *host)
{
	text_file_close(&host->stat);
	text_file_close(&host->loadavg);
	text_file_close(&host->pressure);
}

// "cpu  2711 15396 ...": as many states as this kernel has.
static void take_cpu(const char *p, uint64_t tick_ns, struct stat_figures *figures)
{
	for (int i = 0; i < CPU_STATES; i++) {
		while (*p == ' ')
			p++;
		figures->cpu_ns[i] = tick_ns == TEXT_UNKNOWN ? TEXT_UNKNOWN : text_scaled(text_number(p, &p), tick_ns);
	}
}

static void take_stat(const char *text, uint64_t tick_ns, struct stat_figures *figures)
{
	static const struct text_key keys[] = {
		{ "ctxt", offsetof(struct stat_figures, context_switches), 1 },
		{ "processes", offsetof(struct stat_figures, forks), 1 },
		{ "procs_running", offsetof(struct stat_figures, procs_running), 1 },
		{ "procs_blocked", offsetof(struct stat_figures, procs_blocked), 1 },
		{ 0 },
	};
	const char *line = text;
	uint64_t cpus = 0;

	for (; !strncmp(line, "cpu", 3); line = text_next_line(line)) {
		if (line[3] == ' ')
			take_cpu(line + 3, tick_ns, figures);
		else
			cpus++;
	}
	if (cpus)
		figures->cpus_online = cpus;
	text_take_keys(line, keys, figures);
}

static void write_load(struct sched_host *host, struct json *json)
{
	static const char *const names[] = { "load_1m", "load_5m", "load_15m" };
	double load[3];
	bool known = !text_file_read(&host->loadavg, 4096) &&
		     sscanf(host->loadavg.text.data, "%lf %lf %lf", &load[0], &load[1], &load[2]) == 3;

	for (int i = 0; i < 3; i++) {
		if (known)
			json_put_double(json, names[i], load[i]);
		else
			json_put_null(json, names[i]);
	}
}

void sched_host_fields(struct sched_host *host, struct json *json)
{
	struct stat_figures figures;
	uint64_t some_ns = TEXT_UNKNOWN, full_ns = TEXT_UNKNOWN;

	memset(&figures, 0xff, sizeof(figures)); // TEXT_UNKNOWN
	if (!text_file_read(&host->stat, FILE_MAX))
		take_stat(host->stat.text.data, host->tick_ns, &figures);
	json_put_known_u64(json, "cpus_online", figures.cpus_online);
	for (int i = 0; i < CPU_STATES; i++)
		json_put_known_u64(json, cpu_states[i], figures.cpu_ns[i]);
	write_load(host, json);
	json_put_known_u64(json, "context_switches", figures.context_switches);
	json_put_known_u64(json, "forks", figures.forks);
	json_put_known_u64(json, "procs_running", figures.procs_running);
	json_put_known_u64(json, "procs_blocked", figures.procs_blocked);
	// "full" of the whole host's CPU is not defined; the kernel writes 0 to keep the format.
	if (!text_file_read(&host->pressure, 4096))
		text_take_pressure(host->pressure.text.data, &some_ns, &full_ns);
	json_put_known_u64(json, "pressure_cpu_some_ns", some_ns);
}

void sched_cgroup_fields(const struct cgroup_table *table, const struct cgroup *cgroup, struct json *json)
{
	const struct cgroup_figures *figures = cgroup->sample ? &cgroup->sample->figures : NULL;

	if (!figures)
		return;
	json_put_known_u64(json, "cpu_ns", figures->cpu_ns);
	json_put_known_u64(json, "cpu_user_ns", figures->cpu_user_ns);
	json_put_known_u64(json, "cpu_system_ns", figures->cpu_system_ns);
	json_put_known_u64(json, "cpu_periods", figures->cpu_periods);
	json_put_known_u64(json, "cpu_throttled_periods", figures->cpu_throttled_periods);
	json_put_known_u64(json, "cpu_throttled_ns", figures->cpu_throttled_ns);
	cgroup_put_limit(json, "cpu_quota_ns", figures->cpu_quota_ns);
	json_put_known_u64(json, "cpu_period_ns", figures->cpu_period_ns);
	json_put_known_u64(json, "pids", figures->pids);
	json_put_known_u64(json, "pids_peak", figures->pids_peak);
	cgroup_put_limit(json, "pids_limit", figures->pids_limit);
	json_put_known_u64(json, "pids_limit_hits", figures->pids_limit_hits);
	json_put_known_u64(json, "pressure_cpu_some_ns", figures->pressure_cpu_some_ns);
	json_put_known_u64(json, "pressure_cpu_full_ns", figures->pressure_cpu_full_ns);
}
