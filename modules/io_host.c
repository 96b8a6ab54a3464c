// SPDX-License-Identifier: Apache-2.0
// Module io, its host and cgroup samples: disk counters and I/O pressure; mounts are in io_mounts.c. Sources:
// Documentation/admin-guide/iostats.rst, Documentation/accounting/psi.rst. Partitions are left out: their disk has
// the sum. What a device is gets asked once, when its name is first seen.
#include "modules/io_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "core/cgroup_sample.h"

enum { FILE_MAX = 1 << 20, SECTOR_BYTES = 512 }; // the unit of diskstats, whatever the device's

int io_host_open_at(struct io_host *host, const char *proc, const char *sys)
{
	CLEANUP(cleanup_close) int directory = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(cleanup_close) int sys_fd = open(sys, O_PATH | O_DIRECTORY | O_CLOEXEC);

	memset(host, 0, sizeof(*host));
	if (directory >= 0) {
		text_file_open(&host->diskstats, directory, "diskstats");
		text_file_open(&host->pressure, directory, "pressure/io");
	}
	host->sys_block_fd = sys_fd < 0 ? -1 : openat(sys_fd, "block", O_PATH | O_DIRECTORY | O_CLOEXEC);
	host->sys_open = host->sys_block_fd >= 0;
	io_mounts_open(&host->mounts, proc, sys);
	return 0;
}

int io_host_open(struct io_host *host)
{
	return io_host_open_at(host, "/proc", "/sys");
}

void io_host_close(struct io_host *host)
{
	text_file_close(&host->diskstats);
	text_file_close(&host->pressure);
	if (host->sys_open)
		close(host->sys_block_fd);
	host->sys_open = false;
	host->disk_count = 0;
	io_mounts_close(&host->mounts);
}

// Whether the folder has an entry besides "." and "..".
static bool folder_has_entries(int parent_fd, const char *path)
{
	int fd = openat(parent_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	if (!directory) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && (entry = readdir(directory)))
		found = entry->d_name[0] != '.';
	closedir(directory);
	return found;
}

// Without /sys everything counts as a whole disk: better shown twice than lost.
static void describe_disk(const struct io_host *host, struct io_disk *disk)
{
	char path[sizeof(disk->name)], slaves[sizeof(disk->name) + 16];

	disk->whole = true;
	disk->stacked = false;
	if (!host->sys_open)
		return;
	snprintf(path, sizeof(path), "%s", disk->name);
	for (char *p = path; *p; p++)
		if (*p == '/')
			*p = '!'; // as sysfs spells it
	disk->whole = !faccessat(host->sys_block_fd, path, F_OK, 0);
	snprintf(slaves, sizeof(slaves), "%s/slaves", path);
	disk->stacked = disk->whole && folder_has_entries(host->sys_block_fd, slaves);
}

// NULL: more than IO_DISKS_MAX names. Names of devices that are gone make room.
static struct io_disk *find_disk(struct io_host *host, const char *name, size_t length)
{
	struct io_disk *disk = NULL;

	for (uint32_t i = 0; i < host->disk_count; i++) {
		struct io_disk *other = &host->disks[i];

		if (strlen(other->name) == length && !memcmp(other->name, name, length)) {
			other->seen = true;
			return other;
		}
	}
	if (length >= sizeof(disk->name) || host->disk_count == IO_DISKS_MAX)
		return NULL;
	disk = &host->disks[host->disk_count++];
	memcpy(disk->name, name, length);
	disk->name[length] = 0;
	disk->seen = true;
	describe_disk(host, disk);
	return disk;
}

static void forget_gone_disks(struct io_host *host)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < host->disk_count; i++) {
		if (!host->disks[i].seen)
			continue;
		host->disks[kept] = host->disks[i];
		host->disks[kept++].seen = false;
	}
	host->disk_count = kept;
}

enum disk_figure {
	DISK_READS, DISK_READS_MERGED, DISK_READ_SECTORS, DISK_READ_MS,
	DISK_WRITES, DISK_WRITES_MERGED, DISK_WRITE_SECTORS, DISK_WRITE_MS,
	DISK_IN_FLIGHT, DISK_BUSY_MS, DISK_QUEUE_MS,
	DISK_DISCARDS, DISK_DISCARDS_MERGED, DISK_DISCARD_SECTORS, DISK_DISCARD_MS, // 4.18
	DISK_FLUSHES, DISK_FLUSH_MS, // 5.5
	DISK_FIGURES,
};

static void write_disk(const struct io_disk *disk, const uint64_t *figures, uint64_t major, uint64_t minor,
		       struct json *json)
{
	static const struct {
		const char *name;
		enum disk_figure figure;
		uint64_t factor;
	} members[] = {
		{ "reads", DISK_READS, 1 },
		{ "read_bytes", DISK_READ_SECTORS, SECTOR_BYTES },
		{ "read_ns", DISK_READ_MS, 1000000 },
		{ "writes", DISK_WRITES, 1 },
		{ "write_bytes", DISK_WRITE_SECTORS, SECTOR_BYTES },
		{ "write_ns", DISK_WRITE_MS, 1000000 },
		{ "discards", DISK_DISCARDS, 1 },
		{ "discard_bytes", DISK_DISCARD_SECTORS, SECTOR_BYTES },
		{ "flushes", DISK_FLUSHES, 1 },
		{ "flush_ns", DISK_FLUSH_MS, 1000000 },
		{ "in_flight", DISK_IN_FLIGHT, 1 },
		{ "busy_ns", DISK_BUSY_MS, 1000000 },
		{ "queue_ns", DISK_QUEUE_MS, 1000000 },
	};
	char device[48];

	json_open_object(json);
	json_put_string(json, "name", disk->name);
	snprintf(device, sizeof(device), "%llu:%llu", (unsigned long long)major, (unsigned long long)minor);
	json_put_string(json, "device", device);
	json_put_bool(json, "stacked", disk->stacked);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_put_known_u64(json, members[i].name,
				   text_scaled(figures[members[i].figure], members[i].factor));
	json_close_object(json);
}

// Kinds of device that hosts have many of and use few of.
static bool is_pseudo(const char *name)
{
	return !strncmp(name, "loop", 4) || !strncmp(name, "ram", 3) || !strncmp(name, "zram", 4) ||
	       !strncmp(name, "nbd", 3) || !strncmp(name, "fd", 2) || !strncmp(name, "sr", 2);
}

static const char *skip_blanks(const char *p)
{
	while (*p == ' ')
		p++;
	return p;
}

// " 254  0 vda 58680 9329 ...". False: the disk could not be taken.
static bool take_disk(struct io_host *host, const char *line, struct json *json)
{
	uint64_t figures[DISK_FIGURES], major, minor;
	const char *p = skip_blanks(line), *name;
	struct io_disk *disk;

	major = text_number(p, &p);
	p = skip_blanks(p);
	minor = text_number(p, &p);
	name = p = skip_blanks(p);
	p += strcspn(p, " \n");
	if (major == TEXT_UNKNOWN || minor == TEXT_UNKNOWN || p == name || *p != ' ')
		return true; // not a line of this format
	disk = find_disk(host, name, (size_t)(p - name));
	if (!disk)
		return false;
	for (int i = 0; i < DISK_FIGURES; i++) {
		p = skip_blanks(p);
		figures[i] = text_number(p, &p);
	}
	if (disk->whole && (!is_pseudo(disk->name) || figures[DISK_READS] || figures[DISK_WRITES]))
		write_disk(disk, figures, major, minor, json);
	return true;
}

static void write_disks(struct io_host *host, struct json *json)
{
	uint64_t omitted = 0;

	if (text_file_read(&host->diskstats, FILE_MAX)) {
		json_put_null(json, "disks");
		json_put_null(json, "disks_omitted");
		return;
	}
	json_key(json, "disks");
	json_open_array(json);
	for (const char *line = host->diskstats.text.data; *line; line = text_next_line(line))
		omitted += !take_disk(host, line, json);
	json_close_array(json);
	json_put_u64(json, "disks_omitted", omitted);
	forget_gone_disks(host);
}

void io_host_fields(struct io_host *host, struct json *json)
{
	uint64_t some_ns = TEXT_UNKNOWN, full_ns = TEXT_UNKNOWN;

	write_disks(host, json);
	if (host->mounts_left_out) {
		json_put_null(json, "mounts");
		json_put_null(json, "nfs");
		json_put_null(json, "lustre");
	} else {
		io_mounts_write(&host->mounts, json);
	}
	if (!text_file_read(&host->pressure, 4096))
		text_take_pressure(host->pressure.text.data, &some_ns, &full_ns);
	json_put_known_u64(json, "pressure_io_some_ns", some_ns);
	json_put_known_u64(json, "pressure_io_full_ns", full_ns);
}

static void write_device(const struct cgroup_device *device, struct json *json)
{
	char name[24];

	snprintf(name, sizeof(name), "%u:%u", device->major, device->minor);
	json_open_object(json);
	json_put_string(json, "device", name);
	json_put_known_u64(json, "read_bytes", device->read_bytes);
	json_put_known_u64(json, "write_bytes", device->write_bytes);
	json_put_known_u64(json, "reads", device->reads);
	json_put_known_u64(json, "writes", device->writes);
	json_put_known_u64(json, "discard_bytes", device->discard_bytes);
	json_put_known_u64(json, "discards", device->discards);
	json_close_object(json);
}

void io_cgroup_fields(const struct cgroup_table *table, const struct cgroup *cgroup, struct json *json)
{
	const struct cgroup_sample *sample = cgroup->sample;

	if (!sample)
		return;
	if (sample->figures.device_count == CGROUP_UNKNOWN) {
		json_put_null(json, "io");
		json_put_null(json, "io_omitted");
	} else {
		json_key(json, "io");
		json_open_array(json);
		for (uint64_t i = 0; i < sample->figures.device_count; i++)
			write_device(&sample->devices[i], json);
		json_close_array(json);
		json_put_known_u64(json, "io_omitted", sample->figures.devices_omitted);
	}
	json_put_known_u64(json, "pressure_io_some_ns", sample->figures.pressure_io_some_ns);
	json_put_known_u64(json, "pressure_io_full_ns", sample->figures.pressure_io_full_ns);
}
