// SPDX-License-Identifier: Apache-2.0
// Room correlate: reads the files of one cgroup. Sources: Documentation/admin-guide/cgroup-v2.rst,
// cgroup-v1/memory.rst, cgroup-v1/cpuacct.rst, cgroup-v1/blkio-controller.rst and accounting/psi.rst of the kernel. A
// file or key that is not there leaves its figure unknown. Reads only; one stack buffer for every file.
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/cgroup_private.h"
#include "core/cgroup_sample.h"

// v1 writes "no limit" as the largest page-aligned number.
#define V1_NO_LIMIT (1ull << 62)

struct reader {
	const struct cgroup_table *table;
	const struct cgroup *cgroup;
	struct cgroup_sample *sample;
	int unified_fd; // of its directory in the unified hierarchy; -1: none, or not opened yet
	char text[CGROUP_FILE_MAX];
	bool any; // some directory was found
};

// The directory for a controller: the unified one, opened once, or one of its own, which the caller closes.
struct place {
	int fd; // negative: none
	bool unified;
};

static struct place open_place(struct reader *reader, const char *controller)
{
	struct place place = { -1, cgroup_controller_is_unified(reader->table, controller) };

	if (place.unified && reader->unified_fd >= 0)
		place.fd = reader->unified_fd;
	else
		place.fd = cgroup_open_directory(reader->table, reader->cgroup, controller, NULL);
	if (place.unified)
		reader->unified_fd = place.fd;
	reader->any |= place.fd >= 0;
	return place;
}

static void close_place(const struct place *place)
{
	if (place->fd >= 0 && !place->unified)
		close(place->fd);
}

// A limit of v2: a number or "max".
static uint64_t read_limit(struct reader *reader, int fd, const char *name)
{
	if (cgroup_file_read(fd, name, reader->text, sizeof(reader->text)) < 0)
		return CGROUP_UNKNOWN;
	return !strncmp(reader->text, "max", 3) ? CGROUP_NO_LIMIT : text_number(reader->text, NULL);
}

static uint64_t read_limit_v1(int fd, const char *name)
{
	uint64_t limit = cgroup_number_read(fd, name);

	return limit != CGROUP_UNKNOWN && limit >= V1_NO_LIMIT ? CGROUP_NO_LIMIT : limit;
}

#define KEY(name, field) { name, offsetof(struct cgroup_figures, field), 1 }
#define KEY_US(name, field) { name, offsetof(struct cgroup_figures, field), 1000 }

static void read_keys(struct reader *reader, int fd, const char *name, const struct text_key *keys)
{
	if (cgroup_file_read(fd, name, reader->text, sizeof(reader->text)) >= 0)
		text_take_keys(reader->text, keys, &reader->sample->figures);
}

// Without CONFIG_PSI or with psi=0 the file is absent or refuses to be read.
static void read_pressure(struct reader *reader, int fd, const char *name, uint64_t *some_ns, uint64_t *full_ns)
{
	if (cgroup_file_read(fd, name, reader->text, sizeof(reader->text)) >= 0)
		text_take_pressure(reader->text, some_ns, full_ns);
}

// cpu.stat of v2; times in microseconds.
static void read_cpu_v2(struct reader *reader, int fd)
{
	static const struct text_key keys[] = {
		KEY_US("usage_usec", cpu_ns),
		KEY_US("user_usec", cpu_user_ns),
		KEY_US("system_usec", cpu_system_ns),
		KEY("nr_periods", cpu_periods),
		KEY("nr_throttled", cpu_throttled_periods),
		KEY_US("throttled_usec", cpu_throttled_ns),
		{ 0 },
	};
	struct cgroup_figures *figures = &reader->sample->figures;
	const char *period;

	read_keys(reader, fd, "cpu.stat", keys);
	if (cgroup_file_read(fd, "cpu.max", reader->text, sizeof(reader->text)) < 0)
		return;
	figures->cpu_quota_ns = strncmp(reader->text, "max", 3) ?
					text_scaled(text_number(reader->text, NULL), 1000) :
					CGROUP_NO_LIMIT;
	period = strchr(reader->text, ' ');
	if (period)
		figures->cpu_period_ns = text_scaled(text_number(period + 1, NULL), 1000);
}

// cpu.stat of v1 is in nanoseconds and has no usage: that is cpuacct's.
static void read_cpu_v1(struct reader *reader, int fd)
{
	static const struct text_key keys[] = {
		KEY("nr_periods", cpu_periods),
		KEY("nr_throttled", cpu_throttled_periods),
		KEY("throttled_time", cpu_throttled_ns),
		{ 0 },
	};
	struct cgroup_figures *figures = &reader->sample->figures;

	read_keys(reader, fd, "cpu.stat", keys);
	if (cgroup_file_read(fd, "cpu.cfs_quota_us", reader->text, sizeof(reader->text)) >= 0)
		figures->cpu_quota_ns = reader->text[0] == '-' ?
						CGROUP_NO_LIMIT :
						text_scaled(text_number(reader->text, NULL), 1000);
	figures->cpu_period_ns = text_scaled(cgroup_number_read(fd, "cpu.cfs_period_us"), 1000);
}

// cpuacct.usage is exact, its two parts are counted at ticks and may add up to more: they only give the ratio.
static void read_usage_v1(int fd, struct cgroup_figures *figures)
{
	uint64_t user_ns = cgroup_number_read(fd, "cpuacct.usage_user");
	uint64_t system_ns = cgroup_number_read(fd, "cpuacct.usage_sys");
	uint64_t sum_ns;

	figures->cpu_ns = cgroup_number_read(fd, "cpuacct.usage");
	if (figures->cpu_ns == CGROUP_UNKNOWN || user_ns == CGROUP_UNKNOWN || system_ns == CGROUP_UNKNOWN ||
	    __builtin_add_overflow(user_ns, system_ns, &sum_ns) || !sum_ns)
		return;
	figures->cpu_user_ns = (uint64_t)((unsigned __int128)figures->cpu_ns * user_ns / sum_ns);
	figures->cpu_system_ns = figures->cpu_ns - figures->cpu_user_ns;
}

static void read_cpu(struct reader *reader)
{
	CLEANUP(close_place) struct place cpu = open_place(reader, "cpu");
	CLEANUP(close_place) struct place usage = { .fd = -1 };

	if (cpu.fd >= 0 && cpu.unified) {
		read_cpu_v2(reader, cpu.fd);
		return;
	}
	if (cpu.fd >= 0)
		read_cpu_v1(reader, cpu.fd);
	usage = open_place(reader, "cpuacct");
	if (usage.fd >= 0 && !usage.unified)
		read_usage_v1(usage.fd, &reader->sample->figures);
}

static void read_pids(struct reader *reader)
{
	struct cgroup_figures *figures = &reader->sample->figures;
	CLEANUP(close_place) struct place place = open_place(reader, "pids");

	if (place.fd < 0)
		return;
	figures->pids = cgroup_number_read(place.fd, "pids.current");
	figures->pids_peak = cgroup_number_read(place.fd, "pids.peak");
	figures->pids_limit = read_limit(reader, place.fd, "pids.max");
	if (cgroup_file_read(place.fd, "pids.events", reader->text, sizeof(reader->text)) >= 0)
		figures->pids_limit_hits = text_key_number(reader->text, "max");
}

static void read_memory_v2(struct reader *reader, int fd)
{
	static const struct text_key stat_keys[] = {
		KEY("anon", anon_bytes),
		KEY("file", file_bytes),
		KEY("kernel", kernel_bytes),
		KEY("shmem", shmem_bytes),
		KEY("file_dirty", dirty_bytes),
		KEY("file_writeback", writeback_bytes),
		KEY("inactive_file", inactive_file_bytes),
		KEY("active_file", active_file_bytes),
		KEY("slab_reclaimable", slab_reclaimable_bytes),
		KEY("slab_unreclaimable", slab_unreclaimable_bytes),
		KEY("workingset_refault_file", refaults_file),
		KEY("pgfault", minor_faults),
		KEY("pgmajfault", major_faults),
		{ 0 },
	};
	static const struct text_key event_keys[] = {
		KEY("high", high_hits),
		KEY("max", limit_hits),
		KEY("oom", oom_events),
		KEY("oom_kill", oom_kills),
		{ 0 },
	};
	struct cgroup_figures *figures = &reader->sample->figures;

	figures->memory_bytes = cgroup_number_read(fd, "memory.current");
	figures->memory_peak_bytes = cgroup_number_read(fd, "memory.peak");
	figures->swap_bytes = cgroup_number_read(fd, "memory.swap.current");
	figures->memory_limit_bytes = read_limit(reader, fd, "memory.max");
	figures->memory_high_bytes = read_limit(reader, fd, "memory.high");
	figures->swap_limit_bytes = read_limit(reader, fd, "memory.swap.max");
	read_keys(reader, fd, "memory.stat", stat_keys);
	read_keys(reader, fd, "memory.events", event_keys);
}

static void read_memory_v1(struct reader *reader, int fd)
{
	static const struct text_key stat_keys[] = {
		KEY("total_rss", anon_bytes),
		KEY("total_cache", file_bytes),
		KEY("total_shmem", shmem_bytes),
		KEY("total_dirty", dirty_bytes),
		KEY("total_writeback", writeback_bytes),
		KEY("total_inactive_file", inactive_file_bytes),
		KEY("total_active_file", active_file_bytes),
		KEY("total_workingset_refault_file", refaults_file),
		KEY("total_swap", swap_bytes),
		KEY("total_pgfault", minor_faults),
		KEY("total_pgmajfault", major_faults),
		{ 0 },
	};
	static const struct text_key oom_keys[] = { KEY("oom_kill", oom_kills), { 0 } };
	struct cgroup_figures *figures = &reader->sample->figures;

	figures->memory_bytes = cgroup_number_read(fd, "memory.usage_in_bytes");
	figures->memory_peak_bytes = cgroup_number_read(fd, "memory.max_usage_in_bytes");
	figures->memory_limit_bytes = read_limit_v1(fd, "memory.limit_in_bytes");
	figures->kernel_bytes = cgroup_number_read(fd, "memory.kmem.usage_in_bytes");
	figures->limit_hits = cgroup_number_read(fd, "memory.failcnt");
	read_keys(reader, fd, "memory.stat", stat_keys);
	read_keys(reader, fd, "memory.oom_control", oom_keys);
}

static void read_memory(struct reader *reader)
{
	struct cgroup_figures *figures = &reader->sample->figures;
	CLEANUP(close_place) struct place place = open_place(reader, "memory");

	if (place.fd < 0)
		return;
	if (place.unified)
		read_memory_v2(reader, place.fd);
	else
		read_memory_v1(reader, place.fd);
	// Both versions count the major ones in all faults.
	if (figures->minor_faults != CGROUP_UNKNOWN && figures->major_faults <= figures->minor_faults)
		figures->minor_faults -= figures->major_faults;
}

// The entry of a device, added when it is new; NULL when there are too many.
static struct cgroup_device *find_device(struct cgroup_sample *sample, uint32_t major, uint32_t minor)
{
	struct cgroup_figures *figures = &sample->figures;

	for (uint64_t i = 0; i < figures->device_count; i++)
		if (sample->devices[i].major == major && sample->devices[i].minor == minor)
			return &sample->devices[i];
	if (figures->device_count == CGROUP_DEVICES_MAX)
		return NULL;
	sample->devices[figures->device_count] = (struct cgroup_device){
		.major = major,
		.minor = minor,
		.read_bytes = CGROUP_UNKNOWN,
		.write_bytes = CGROUP_UNKNOWN,
		.reads = CGROUP_UNKNOWN,
		.writes = CGROUP_UNKNOWN,
		.discard_bytes = CGROUP_UNKNOWN,
		.discards = CGROUP_UNKNOWN,
	};
	return &sample->devices[figures->device_count++];
}

// "254:0 " at the start of a line; false when it is something else.
static bool parse_device(const char *line, uint32_t *ret_major, uint32_t *ret_minor, const char **ret_rest)
{
	const char *end;
	uint64_t major = text_number(line, &end), minor;

	if (major > UINT32_MAX || *end != ':')
		return false;
	minor = text_number(end + 1, &end);
	if (minor > UINT32_MAX || *end != ' ')
		return false;
	*ret_major = (uint32_t)major;
	*ret_minor = (uint32_t)minor;
	*ret_rest = end + 1;
	return true;
}

// v2, a line a device: "254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6"; more keys may follow.
static void take_io_v2(struct cgroup_sample *sample, const char *text)
{
	static const struct text_key keys[] = {
		{ "rbytes=", offsetof(struct cgroup_device, read_bytes), 1 },
		{ "wbytes=", offsetof(struct cgroup_device, write_bytes), 1 },
		{ "rios=", offsetof(struct cgroup_device, reads), 1 },
		{ "wios=", offsetof(struct cgroup_device, writes), 1 },
		{ "dbytes=", offsetof(struct cgroup_device, discard_bytes), 1 },
		{ "dios=", offsetof(struct cgroup_device, discards), 1 },
	};
	uint32_t major, minor;
	const char *rest;

	for (const char *line = text; *line; line = text_next_line(line)) {
		if (!parse_device(line, &major, &minor, &rest) || *rest == '\n' || !*rest)
			continue;
		struct cgroup_device *device = find_device(sample, major, minor);

		if (!device) {
			sample->figures.devices_omitted++;
			continue;
		}
		for (const char *word = rest; *word && *word != '\n'; word += strcspn(word, " \n")) {
			word += *word == ' ';
			for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
				if (!strncmp(word, keys[i].name, strlen(keys[i].name)))
					*(uint64_t *)((char *)device + keys[i].offset) =
						text_number(word + strlen(keys[i].name), NULL);
			if (*word == ' ')
				break; // two blanks: not this format
		}
	}
}

// v1, a line a device and direction: "254:0 Read 123"; "Total" lines are left.
static void take_io_v1(struct cgroup_sample *sample, const char *text, bool bytes)
{
	uint32_t major, minor;
	const char *rest;

	for (const char *line = text; *line; line = text_next_line(line)) {
		if (!parse_device(line, &major, &minor, &rest))
			continue;
		bool reading = !strncmp(rest, "Read ", 5), writing = !strncmp(rest, "Write ", 6);
		bool discard = !strncmp(rest, "Discard ", 8);

		if (!reading && !writing && !discard)
			continue;
		struct cgroup_device *device = find_device(sample, major, minor);

		if (!device) {
			sample->figures.devices_omitted += bytes && reading;
			continue;
		}
		uint64_t value = text_number(strchr(rest, ' ') + 1, NULL);

		if (reading)
			*(bytes ? &device->read_bytes : &device->reads) = value;
		else if (writing)
			*(bytes ? &device->write_bytes : &device->writes) = value;
		else
			*(bytes ? &device->discard_bytes : &device->discards) = value;
	}
}

static void read_io(struct reader *reader)
{
	struct cgroup_sample *sample = reader->sample;
	CLEANUP(close_place) struct place place = open_place(reader, "io");
	const char *name = place.unified ? "io.stat" : "blkio.throttle.io_service_bytes_recursive";

	if (place.fd < 0 || cgroup_file_read(place.fd, name, reader->text, sizeof(reader->text)) < 0)
		return;
	sample->figures.device_count = 0;
	sample->figures.devices_omitted = 0;
	if (place.unified) {
		take_io_v2(sample, reader->text);
		return;
	}
	take_io_v1(sample, reader->text, true);
	name = "blkio.throttle.io_serviced_recursive";
	if (cgroup_file_read(place.fd, name, reader->text, sizeof(reader->text)) >= 0)
		take_io_v1(sample, reader->text, false);
	// The throttling policy counts only while a limit is set on newer kernels: no device is no answer.
	if (!sample->figures.device_count) {
		sample->figures.device_count = CGROUP_UNKNOWN;
		sample->figures.devices_omitted = CGROUP_UNKNOWN;
	}
}

static void read_pressures(struct reader *reader)
{
	struct cgroup_figures *figures = &reader->sample->figures;
	int fd = open_place(reader, "unified").fd;

	if (fd < 0)
		return;
	read_pressure(reader, fd, "cpu.pressure", &figures->pressure_cpu_some_ns, &figures->pressure_cpu_full_ns);
	read_pressure(reader, fd, "memory.pressure", &figures->pressure_memory_some_ns,
		      &figures->pressure_memory_full_ns);
	read_pressure(reader, fd, "io.pressure", &figures->pressure_io_some_ns, &figures->pressure_io_full_ns);
}

static bool is_limit(uint64_t value)
{
	return value != CGROUP_UNKNOWN && value != CGROUP_NO_LIMIT;
}

int cgroup_figures_read(const struct cgroup_table *table, const struct cgroup *cgroup,
			struct cgroup_sample *ret_sample)
{
	struct cgroup_sample sample = { 0 };
	struct reader reader = { .table = table, .cgroup = cgroup, .sample = &sample, .unified_fd = -1 };


	memset(&sample.figures, 0xff, sizeof(sample.figures)); // CGROUP_UNKNOWN, all of them
	read_cpu(&reader);
	read_pids(&reader);
	read_memory(&reader);
	read_io(&reader);
	read_pressures(&reader);
	if (reader.unified_fd >= 0)
		close(reader.unified_fd);
	if (!reader.any)
		return -ENOENT;
	sample.limited = is_limit(sample.figures.cpu_quota_ns) || is_limit(sample.figures.memory_limit_bytes) ||
			 is_limit(sample.figures.memory_high_bytes) || is_limit(sample.figures.swap_limit_bytes);
	*ret_sample = sample;
	return 0;
}
