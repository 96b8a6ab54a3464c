// SPDX-License-Identifier: Apache-2.0
// Host samples: this host's own figures against what the same kernel says elsewhere, and written /proc trees for
// what this host lacks (NFS, Lustre, many disks, no PSI). The NFS and Lustre texts follow the formats of the kernel
// and the manual.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>
#include <yyjson.h>

#include "modules/io_host.h"
#include "modules/mem_host.h"
#include "modules/sched_host.h"

struct world {
	char root[64];
	struct sched_host sched;
	struct mem_host mem;
	struct io_host io;
	struct buf out;
	yyjson_doc *doc;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char command[300];

	snprintf(world->root, sizeof(world->root), "/tmp/tracer-host.XXXXXX");
	if (!mkdtemp(world->root))
		return -1;
	snprintf(command, sizeof(command), "mkdir -p %s/proc/self %s/proc/pressure %s/sys/block", world->root,
		 world->root, world->root);
	*state = world;
	return system(command);
}

static int teardown(void **state)
{
	struct world *world = *state;
	char command[128];

	// Twice: close is idempotent, and takes what was never opened.
	for (int i = 0; i < 2; i++) {
		sched_host_close(&world->sched);
		mem_host_close(&world->mem);
		io_host_close(&world->io);
	}
	buf_free(&world->out);
	yyjson_doc_free(world->doc);
	snprintf(command, sizeof(command), "rm -rf '%s'", world->root);
	free(world);
	return system(command);
}

static void write_file(const struct world *world, const char *path, const char *text)
{
	char full[512], command[600];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", world->root, path);
	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\"", full);
	assert_int_equal(system(command), 0);
	file = fopen(full, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void open_real(struct world *world)
{
	assert_int_equal(sched_host_open(&world->sched), 0);
	assert_int_equal(mem_host_open(&world->mem), 0);
	assert_int_equal(io_host_open(&world->io), 0);
}

static void open_written(struct world *world)
{
	char proc[128], sys[128];

	snprintf(proc, sizeof(proc), "%s/proc", world->root);
	snprintf(sys, sizeof(sys), "%s/sys", world->root);
	assert_int_equal(sched_host_open_at(&world->sched, proc), 0);
	assert_int_equal(mem_host_open_at(&world->mem, proc), 0);
	assert_int_equal(io_host_open_at(&world->io, proc, sys), 0);
}

// Takes one sample; the result is a whole JSON object.
static yyjson_val *sample(struct world *world)
{
	struct json json = json_to(&world->out);

	buf_reset(&world->out);
	json_open_object(&json);
	sched_host_fields(&world->sched, &json);
	mem_host_fields(&world->mem, &json);
	io_host_fields(&world->io, &json);
	json_close_object(&json);
	assert_int_equal(buf_error(&world->out), 0);
	yyjson_doc_free(world->doc);
	world->doc = yyjson_read(world->out.data, world->out.length, 0);
	assert_non_null(world->doc);
	return yyjson_doc_get_root(world->doc);
}

static uint64_t number(yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	if (!value || !yyjson_is_uint(value))
		fail_msg("%s is not a number", key);
	return yyjson_get_uint(value);
}

static void expect_null(yyjson_val *object, const char *key)
{
	yyjson_val *value = yyjson_obj_get(object, key);

	if (!value || !yyjson_is_null(value))
		fail_msg("%s is not null", key);
}

static void expect_near(const char *what, double value, double expect, double tolerance)
{
	if (value < expect - tolerance || value > expect + tolerance)
		fail_msg("%s is %g, expected %g within %g", what, value, expect, tolerance);
}

static yyjson_val *find_in(yyjson_val *object, const char *array, const char *key, const char *value)
{
	yyjson_val *item;
	yyjson_arr_iter iterator;

	assert_true(yyjson_arr_iter_init(yyjson_obj_get(object, array), &iterator));
	while ((item = yyjson_arr_iter_next(&iterator)))
		if (yyjson_equals_str(yyjson_obj_get(item, key), value))
			return item;
	return NULL;
}

static void this_host_agrees_with_its_kernel(void **state)
{
	struct world *world = *state;
	struct sysinfo info;
	struct statvfs space;
	double cpu_ns = 0, uptime_ns;
	struct timespec now;
	yyjson_val *host, *root;

	open_real(world);
	host = sample(world);
	assert_int_equal(sysinfo(&info), 0);
	assert_int_equal(number(host, "memory_total_bytes"), info.totalram * info.mem_unit);
	assert_int_equal(number(host, "swap_total_bytes"), info.totalswap * info.mem_unit);
	expect_near("memory_free_bytes", (double)number(host, "memory_free_bytes"),
		    (double)info.freeram * info.mem_unit, 1 << 30);
	assert_int_equal(number(host, "cpus_online"), sysconf(_SC_NPROCESSORS_ONLN));
	// Every CPU is in one of the states at any time since it came up. Tick accounting drifts a little.
	static const char *const states[] = { "cpu_user_ns", "cpu_nice_ns", "cpu_system_ns",  "cpu_idle_ns",
					      "cpu_iowait_ns", "cpu_irq_ns", "cpu_softirq_ns", "cpu_steal_ns" };
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		cpu_ns += (double)number(host, states[i]);
	clock_gettime(CLOCK_MONOTONIC, &now);
	uptime_ns = ((double)now.tv_sec * 1e9 + (double)now.tv_nsec) * (double)number(host, "cpus_online");
	expect_near("sum of CPU states", cpu_ns, uptime_ns, uptime_ns * 0.05 + 2e9);
	expect_near("load_1m", yyjson_get_num(yyjson_obj_get(host, "load_1m")), (double)info.loads[0] / 65536, 0.5);
	assert_int_equal(statvfs("/", &space), 0);
	root = find_in(host, "mounts", "path", "/");
	if (root) { // the root may be of a type that is not asked
		assert_int_equal(number(root, "total_bytes"), space.f_blocks * space.f_frsize);
		expect_near("free_bytes", (double)number(root, "free_bytes"),
			    (double)space.f_bfree * (double)space.f_frsize, 1 << 30);
	}
}

static void counters_count_what_is_done(void **state)
{
	struct world *world = *state;
	uint64_t forks, switches, faults;
	yyjson_val *host;
	enum { PAGES = 2048 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory;

	open_real(world);
	host = sample(world);
	forks = number(host, "forks");
	switches = number(host, "context_switches");
	faults = number(host, "page_faults");
	for (int i = 0; i < 20; i++)
		assert_int_equal(system("true"), 0);
	memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	madvise(memory, PAGES * page, MADV_NOHUGEPAGE); // one fault a page
	for (size_t i = 0; i < PAGES; i++)
		memory[i * page] = 1;
	munmap(memory, PAGES * page);
	host = sample(world);
	assert_true(number(host, "forks") >= forks + 20);
	assert_true(number(host, "context_switches") >= switches + 20);
	assert_true(number(host, "page_faults") >= faults + PAGES);
}

// Median of many: one sample is to stay far below 300 us of CPU on any host; the sanitizers take their share here.
static void a_sample_is_cheap(void **state)
{
	struct world *world = *state;
	struct timespec from, to;
	double best = 1e9;

	open_real(world);
	sample(world);
	for (int i = 0; i < 100; i++) {
		struct json json = json_to(&world->out);

		buf_reset(&world->out);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
		json_open_object(&json);
		sched_host_fields(&world->sched, &json);
		mem_host_fields(&world->mem, &json);
		io_host_fields(&world->io, &json);
		json_close_object(&json);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
		double us = (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;

		if (us < best)
			best = us;
	}
	print_message("one host sample: %.0f us of CPU, sanitized build\n", best);
	assert_true(best < 1000);
}

// A member is null, never 0, when its file or line is not there: an empty /proc, and one of an old kernel without
// PSI.
static void what_is_not_there_is_null(void **state)
{
	static const char *const always[] = { "cpu_user_ns", "cpus_online", "load_1m", "context_switches",
					      "memory_total_bytes", "page_faults", "reclaim_stalls", "disks", "mounts",
					      "nfs", "lustre", "pressure_cpu_some_ns", "pressure_io_full_ns" };
	struct world *world = *state;
	yyjson_val *host;

	open_written(world);
	host = sample(world);
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		expect_null(host, always[i]);
	sched_host_close(&world->sched);
	mem_host_close(&world->mem);
	io_host_close(&world->io);

	// Linux 2.6.32 style: 8 CPU states, no MemAvailable, no oom_kill.
	write_file(world, "proc/stat", "cpu  10 20 30 40 50 60 70 80\ncpu0 10 20 30 40 50 60 70 80\nctxt 5\n");
	write_file(world, "proc/meminfo", "MemTotal:  16 kB\nMemFree:   8 kB\nMemTotalX: 3 kB\n");
	write_file(world, "proc/vmstat", "pgfault 7\nallocstall 3\n");
	write_file(world, "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n");
	open_written(world);
	host = sample(world);
	assert_int_equal(number(host, "cpu_steal_ns"), 80 * 1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	expect_null(host, "cpu_guest_ns");
	assert_int_equal(number(host, "cpus_online"), 1);
	expect_null(host, "forks");
	assert_int_equal(number(host, "memory_total_bytes"), 16384);
	expect_null(host, "memory_available_bytes");
	assert_int_equal(number(host, "page_faults"), 7);
	expect_null(host, "oom_kills");
	assert_int_equal(number(host, "reclaim_stalls"), 3);
	assert_int_equal(number(host, "pressure_memory_some_ns"), 12000);
	expect_null(host, "pressure_memory_full_ns");
}

static void damaged_files_are_harmless(void **state)
{
	static const char *const junk[] = { "", "\n\n\n", "cpu", "cpu  99999999999999999999999 x\n", "device \n",
					    "device a mounted on b with fstype nfs\n\tbytes:\t1 2\n\tREAD:\n", ":",
					    "   1 2", "1 2 sda", "22 27 0:21 / /proc rw - proc",
					    "some avg10=0.00 total=\nfull total=18446744073709551615" };
	static const char *const files[] = { "stat", "loadavg", "meminfo", "vmstat", "diskstats", "pressure/cpu",
					     "pressure/memory", "pressure/io", "self/mountinfo", "self/mountstats" };
	struct world *world = *state;
	char path[64];

	for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
		for (size_t j = 0; j < sizeof(files) / sizeof(files[0]); j++) {
			snprintf(path, sizeof(path), "proc/%s", files[j]);
			write_file(world, path, junk[i]);
		}
		open_written(world);
		sample(world);
		sample(world);
		sched_host_close(&world->sched);
		mem_host_close(&world->mem);
		io_host_close(&world->io);
	}
}

static void disks_are_whole_and_used(void **state)
{
	struct world *world = *state;
	yyjson_val *host, *disk;

	write_file(world, "proc/diskstats",
		   "   8       0 sda 100 5 2000 30 200 6 4000 60 2 70 80 9 1 16 3 4 5\n"
		   "   8       1 sda1 100 5 2000 30 200 6 4000 60 0 70 80 0 0 0 0 0 0\n"
		   "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
		   "   7       1 loop1 3 0 24 1 0 0 0 0 0 1 1 0 0 0 0 0 0\n"
		   " 104       0 cciss/c0d0 1 0 8 1 0 0 0 0 0 1 1\n" // before 4.18: 11 figures
		   " 253       0 dm-0 300 0 6000 90 0 0 0 0 0 70 80 0 0 0 0 0 0\n");
	write_file(world, "sys/block/sda/stat", "");
	write_file(world, "sys/block/loop0/stat", "");
	write_file(world, "sys/block/loop1/stat", "");
	write_file(world, "sys/block/cciss!c0d0/stat", "");
	write_file(world, "sys/block/dm-0/slaves/sda/stat", "");
	open_written(world);
	host = sample(world);
	assert_int_equal(yyjson_arr_size(yyjson_obj_get(host, "disks")), 4);
	assert_null(find_in(host, "disks", "name", "sda1"));
	assert_null(find_in(host, "disks", "name", "loop0"));
	assert_non_null(find_in(host, "disks", "name", "loop1"));
	disk = find_in(host, "disks", "name", "sda");
	assert_int_equal(number(disk, "read_bytes"), 2000 * 512);
	assert_int_equal(number(disk, "write_ns"), 60000000);
	assert_int_equal(number(disk, "in_flight"), 2);
	assert_int_equal(number(disk, "busy_ns"), 70000000);
	assert_int_equal(number(disk, "discard_bytes"), 16 * 512);
	assert_int_equal(number(disk, "flush_ns"), 5000000);
	assert_false(yyjson_get_bool(yyjson_obj_get(disk, "stacked")));
	assert_true(yyjson_get_bool(yyjson_obj_get(find_in(host, "disks", "name", "dm-0"), "stacked")));
	expect_null(find_in(host, "disks", "name", "cciss/c0d0"), "discards");
	// sda is pulled out and another disk takes its place in the list.
	write_file(world, "proc/diskstats", "   8      16 sdb 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	write_file(world, "sys/block/sdb/stat", "");
	host = sample(world);
	assert_int_equal(yyjson_arr_size(yyjson_obj_get(host, "disks")), 1);
	assert_int_equal(number(host, "disks_omitted"), 0);
	assert_int_equal(world->io.disk_count, 1);
}

static void too_many_disks_are_counted(void **state)
{
	struct world *world = *state;
	struct buf text = BUF_INIT;
	yyjson_val *host;

	for (int i = 0; i < IO_DISKS_MAX + 44; i++)
		buf_printf(&text, " 259 %d nvme%dn1 1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", i, i);
	write_file(world, "proc/diskstats", text.data);
	buf_free(&text);
	for (int i = 0; i < IO_DISKS_MAX + 44; i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/sys/block/nvme%dn1", world->root, i);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	open_written(world);
	host = sample(world);
	assert_int_equal(yyjson_arr_size(yyjson_obj_get(host, "disks")), IO_DISKS_MAX);
	assert_int_equal(number(host, "disks_omitted"), 44);
}

// Only local file systems are asked for their space, and only where the way there is local too.
static void no_mount_that_can_hang_is_asked(void **state)
{
	struct world *world = *state;
	yyjson_val *host;

	write_file(world, "proc/self/mountinfo",
		   "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
		   "30 24 0:40 / /nfs rw - nfs4 server:/export rw\n"
		   "31 30 8:17 / /nfs/scratch rw - xfs /dev/sdb1 rw\n" // its path leads through the server
		   "32 24 0:41 / /home rw - autofs systemd-1 rw\n"
		   "33 32 8:33 / /home/me rw - ext4 /dev/sdc1 rw\n"
		   "34 24 0:42 / /gcs rw - fuse.gcsfuse bucket rw\n"
		   "35 24 8:1 /var /srv/bound rw - ext4 /dev/sda1 rw\n" // the same file system again
		   "36 24 8:49 / /data rw shared:3 - ext4 /dev/sdd1 rw\n"
		   "37 36 0:43 / /data rw - nfs server:/data rw\n" // mounted over /data
		   "38 24 8:65 / /mnt/a rw - xfs /dev/sde1 rw\n"
		   "39 24 0:44 / /mnt rw - ceph mon:/ rw\n" // mounted over /mnt with /mnt/a below it
		   "40 24 0:45 / /dev/shm rw - tmpfs tmpfs rw\n"
		   "41 24 0:46 / /run/secrets rw - tmpfs tmpfs rw\n");
	write_file(world, "proc/self/mountstats", "");
	open_written(world);
	host = sample(world);
	assert_int_equal(yyjson_arr_size(yyjson_obj_get(host, "mounts")), 2);
	assert_non_null(find_in(host, "mounts", "path", "/"));
	assert_non_null(find_in(host, "mounts", "path", "/dev/shm"));
}

static void nfs_clients_are_counted(void **state)
{
	struct world *world = *state;
	yyjson_val *host, *nfs;

	write_file(world, "proc/self/mountinfo",
		   "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 24 0:40 / /mnt/my\\040data rw - nfs4 srv:/export rw\n");
	write_file(world, "proc/self/mountstats",
		   "device /dev/sda1 mounted on / with fstype ext4\n"
		   "device srv:/export mounted on /mnt/my\\040data with fstype nfs4 statvers=1.1\n"
		   "\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,proto=tcp\n"
		   "\tage:\t3600\n"
		   "\tcaps:\tcaps=0xfffbc03f,wtmult=512,dtsize=1048576\n"
		   "\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27\n"
		   "\tbytes:\t5000 600 70 8 4096 512 1 2\n"
		   "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
		   "\txprt:\ttcp 0 0 2 0 12 100 99 0 105 0 2 1 1\n"
		   "\tper-op statistics\n"
		   "\t        NULL: 1 1 0 44 24 0 1 1 0\n"
		   "\t        READ: 10 12 1 1700 5600 3 250 260 0\n"
		   "\t       WRITE: 4 4 0 9000 640 1 40 44 2\n"
		   "\t      COMMIT: 0 0 0 0 0 0 0 0 0\n"
		   "device tmpfs mounted on /tmp with fstype tmpfs\n"
		   "device old:/x mounted on /old with fstype nfs statvers=1.0\n"
		   "\tage:\t5\n\tper-op statistics\n\t        READ: 1 1 0 10 20 0 3 4\n");
	open_written(world);
	host = sample(world);
	assert_int_equal(yyjson_arr_size(yyjson_obj_get(host, "nfs")), 2);
	nfs = find_in(host, "nfs", "path", "/mnt/my data");
	assert_non_null(nfs);
	assert_string_equal(yyjson_get_str(yyjson_obj_get(nfs, "source")), "srv:/export");
	assert_int_equal(number(nfs, "age_ns"), 3600000000000);
	assert_int_equal(number(nfs, "buffered_read_bytes"), 5000);
	assert_int_equal(number(nfs, "direct_read_bytes"), 70);
	assert_int_equal(number(nfs, "read_bytes"), 4096);
	assert_int_equal(number(nfs, "write_bytes"), 512);
	assert_int_equal(number(yyjson_obj_get(nfs, "read"), "operations"), 10);
	assert_int_equal(number(yyjson_obj_get(nfs, "read"), "retransmissions"), 2);
	assert_int_equal(number(yyjson_obj_get(nfs, "read"), "rtt_ns"), 250000000);
	assert_int_equal(number(yyjson_obj_get(nfs, "write"), "errors"), 2);
	assert_int_equal(number(yyjson_obj_get(nfs, "all"), "operations"), 15);
	assert_int_equal(number(yyjson_obj_get(nfs, "all"), "timeouts"), 1);
	nfs = find_in(host, "nfs", "path", "/old");
	assert_non_null(nfs);
	expect_null(yyjson_obj_get(nfs, "read"), "errors"); // not counted by that version
	expect_null(nfs, "read_bytes");
	expect_null(yyjson_obj_get(nfs, "write"), "operations");
	assert_int_equal(number(yyjson_obj_get(nfs, "read"), "execute_ns"), 4000000);
}

static void lustre_clients_are_counted(void **state)
{
	struct world *world = *state;
	yyjson_val *host, *lustre;

	write_file(world, "proc/self/mountinfo",
		   "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 24 0:41 / /lustre rw - lustre mgs@tcp:/scratch rw\n");
	open_written(world);
	host = sample(world);
	expect_null(host, "lustre"); // mounted, but its counters cannot be read
	io_host_close(&world->io);
	write_file(world, "sys/kernel/debug/lustre/llite/scratch-ffff9a7e10b4a800/stats",
		   "snapshot_time             1700000000.123456789 secs.nsecs\n"
		   "read_bytes                12 samples [bytes] 4096 1048576 9437184\n"
		   "write_bytes               3 samples [bytes] 1 4096 8192 33554432\n"
		   "open                      5 samples [usecs] 1 20 40\n"
		   "close                     5 samples [regs]\n"
		   "getattr                   7 samples [usecs] 1 2 9\n");
	open_written(world);
	host = sample(world);
	lustre = find_in(host, "lustre", "name", "scratch-ffff9a7e10b4a800");
	assert_non_null(lustre);
	assert_int_equal(number(lustre, "reads"), 12);
	assert_int_equal(number(lustre, "read_bytes"), 9437184);
	assert_int_equal(number(lustre, "write_bytes"), 8192);
	assert_int_equal(number(lustre, "opens"), 5);
	assert_int_equal(number(lustre, "metadata_operations"), 17);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(this_host_agrees_with_its_kernel),
		TEST(counters_count_what_is_done),
		TEST(a_sample_is_cheap),
		TEST(what_is_not_there_is_null),
		TEST(damaged_files_are_harmless),
		TEST(disks_are_whole_and_used),
		TEST(too_many_disks_are_counted),
		TEST(no_mount_that_can_hang_is_asked),
		TEST(nfs_clients_are_counted),
		TEST(lustre_clients_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
