// SPDX-License-Identifier: Apache-2.0
// Cgroup samples and the OOM question over written trees: v2, v1 and hybrid layouts with the files as the kernel
// writes them. The same over real cgroups: tests/bpf/test_cgroup_real.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <yyjson.h>

#include "core/base/clock.h"
#include "core/cgroup_sample.h"
#include "modules/io_host.h"
#include "modules/mem_host.h"
#include "modules/sched_host.h"
#include "tests/unit/cgroup_tree.h"

#define SECOND 1000000000ull

static yyjson_doc *record(const struct tree *tree, const struct cgroup *cgroup)
{
	struct buf out = BUF_INIT;
	struct json json = json_to(&out);
	yyjson_doc *doc;

	json_open_object(&json);
	cgroup_write(cgroup, &json);
	sched_cgroup_fields(tree->table, cgroup, &json);
	mem_cgroup_fields(tree->table, cgroup, &json);
	io_cgroup_fields(tree->table, cgroup, &json);
	json_close_object(&json);
	doc = yyjson_read(out.data, out.length, 0);
	assert_non_null(doc);
	buf_free(&out);
	return doc;
}

static void expect_u64(yyjson_doc *doc, const char *key, uint64_t expect)
{
	yyjson_val *value = yyjson_obj_get(yyjson_doc_get_root(doc), key);

	if (!value || !yyjson_is_uint(value) || yyjson_get_uint(value) != expect)
		fail_msg("%s is %llu, expected %llu", key, (unsigned long long)yyjson_get_uint(value),
			 (unsigned long long)expect);
}

static void expect_null(yyjson_doc *doc, const char *key)
{
	if (!yyjson_is_null(yyjson_obj_get(yyjson_doc_get_root(doc), key)))
		fail_msg("%s is not null", key);
}

static void expect_absent(yyjson_doc *doc, const char *key)
{
	if (yyjson_obj_get(yyjson_doc_get_root(doc), key))
		fail_msg("%s is there", key);
}

static struct cgroup *sampled(struct tree *tree, const char *path)
{
	struct cgroup *cgroup = cgroup_find_path(tree->table, path);

	assert_non_null(cgroup);
	if (!cgroup->sample)
		cgroup->sample = calloc(1, sizeof(*cgroup->sample));
	assert_int_equal(cgroup_figures_read(tree->table, cgroup, cgroup->sample), 0);
	return cgroup;
}

static void open_v2(struct tree *tree)
{
	FILE *file = mountinfo_open(tree);

	make_directory(tree, "v2");
	write_file(tree, "v2/cgroup.controllers", "cpuset cpu io memory pids\n");
	mountinfo_add(file, tree, "/", "v2", "cgroup2", "rw");
	table_open(tree, file);
}

static void v2_files_become_members(void **state)
{
	struct tree *tree = *state;
	yyjson_doc *doc;
	yyjson_val *io;

	make_directory(tree, "v2");
	make_directory(tree, "v2/job");
	write_file(tree, "v2/job/cpu.stat",
		   "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnice_usec 0\ncore_sched.force_idle_usec 0\n"
		   "nr_periods 10\nnr_throttled 4\nthrottled_usec 250\nnr_bursts 0\nburst_usec 0\n");
	write_file(tree, "v2/job/cpu.max", "50000 100000\n");
	write_file(tree, "v2/job/memory.current", "4096000\n");
	write_file(tree, "v2/job/memory.peak", "8192000\n");
	write_file(tree, "v2/job/memory.max", "max\n");
	write_file(tree, "v2/job/memory.high", "1000\n");
	write_file(tree, "v2/job/memory.swap.current", "0\n");
	write_file(tree, "v2/job/memory.stat",
		   "anon 100\nfile 200\nkernel 300\nkernel_stack 1\nshmem 20\nfile_mapped 5\nfile_dirty 6\n"
		   "file_writeback 7\ninactive_anon 8\nactive_anon 9\ninactive_file 10\nactive_file 11\n"
		   "slab_reclaimable 12\nslab_unreclaimable 13\nslab 25\nworkingset_refault_anon 14\n"
		   "workingset_refault_file 15\npgscan 1\npgfault 1000\npgmajfault 30\n");
	write_file(tree, "v2/job/memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\noom_group_kill 0\n");
	write_file(tree, "v2/job/io.stat",
		   "254:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=5 dios=6\n7:1 \n"
		   "259:12 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0 cost.usage=1 cost.wait=2\n");
	write_file(tree, "v2/job/pids.current", "3\n");
	write_file(tree, "v2/job/pids.max", "max\n");
	write_file(tree, "v2/job/pids.events", "max 9\n");
	write_file(tree, "v2/job/cpu.pressure",
		   "some avg10=1.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
	open_v2(tree);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	doc = record(tree, sampled(tree, "/job"));
	expect_u64(doc, "cpu_ns", 1500000);
	expect_u64(doc, "cpu_user_ns", 1000000);
	expect_u64(doc, "cpu_system_ns", 500000);
	expect_u64(doc, "cpu_periods", 10);
	expect_u64(doc, "cpu_throttled_periods", 4);
	expect_u64(doc, "cpu_throttled_ns", 250000);
	expect_u64(doc, "cpu_quota_ns", 50000000);
	expect_u64(doc, "cpu_period_ns", 100000000);
	expect_u64(doc, "memory_bytes", 4096000);
	expect_u64(doc, "memory_peak_bytes", 8192000);
	expect_absent(doc, "memory_limit_bytes"); // none is set
	expect_u64(doc, "memory_high_bytes", 1000);
	expect_u64(doc, "swap_bytes", 0);
	expect_null(doc, "swap_limit_bytes"); // not known
	expect_u64(doc, "anon_bytes", 100);
	expect_u64(doc, "kernel_bytes", 300);
	expect_u64(doc, "slab_reclaimable_bytes", 12);
	expect_u64(doc, "minor_faults", 970);
	expect_u64(doc, "major_faults", 30);
	expect_u64(doc, "memory_limit_hits", 2);
	expect_u64(doc, "oom_kills", 4);
	expect_u64(doc, "pids", 3);
	expect_null(doc, "pids_peak");
	expect_absent(doc, "pids_limit");
	expect_u64(doc, "pids_limit_hits", 9);
	expect_u64(doc, "pressure_cpu_some_ns", 77000);
	expect_u64(doc, "pressure_cpu_full_ns", 5000);
	expect_null(doc, "pressure_memory_some_ns");
	io = yyjson_obj_get(yyjson_doc_get_root(doc), "io");
	assert_int_equal(yyjson_arr_size(io), 2);
	assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_arr_get(io, 0), "device")), "254:0");
	assert_int_equal(yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(io, 0), "write_bytes")), 314773504);
	assert_int_equal(yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(io, 1), "writes")), 4);
	yyjson_doc_free(doc);
}

static void open_v1(struct tree *tree)
{
	FILE *file = mountinfo_open(tree);

	for (int i = 0; i < 4; i++) {
		static const char *const names[] = { "cpu", "memory", "blkio", "pids" };
		static const char *const options[] = { "rw,cpu,cpuacct", "rw,memory", "rw,blkio", "rw,pids" };
		char path[32];

		make_directory(tree, names[i]);
		snprintf(path, sizeof(path), "%s/job", names[i]);
		make_directory(tree, path);
		mountinfo_add(file, tree, "/", names[i], "cgroup", options[i]);
	}
	table_open(tree, file);
}

static void v1_files_become_the_same_members(void **state)
{
	struct tree *tree = *state;
	yyjson_doc *doc;
	yyjson_val *io;

	open_v1(tree);
	write_file(tree, "cpu/job/cpuacct.usage", "1500000\n");
	write_file(tree, "cpu/job/cpuacct.usage_user", "8000000\n"); // ticks: more than there was
	write_file(tree, "cpu/job/cpuacct.usage_sys", "4000000\n");
	write_file(tree, "cpu/job/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 250000\n");
	write_file(tree, "cpu/job/cpu.cfs_quota_us", "-1\n");
	write_file(tree, "cpu/job/cpu.cfs_period_us", "100000\n");
	write_file(tree, "memory/job/memory.usage_in_bytes", "4096000\n");
	write_file(tree, "memory/job/memory.max_usage_in_bytes", "8192000\n");
	write_file(tree, "memory/job/memory.limit_in_bytes", "9223372036854771712\n");
	write_file(tree, "memory/job/memory.failcnt", "2\n");
	write_file(tree, "memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
	write_file(tree, "memory/job/memory.stat",
		   "cache 1\nrss 2\npgfault 3\ntotal_cache 200\ntotal_rss 100\ntotal_shmem 20\ntotal_dirty 6\n"
		   "total_pgfault 1000\ntotal_pgmajfault 30\ntotal_inactive_file 10\ntotal_active_file 11\n");
	write_file(tree, "blkio/job/blkio.throttle.io_service_bytes_recursive",
		   "254:0 Read 1459200\n254:0 Write 314773504\n254:0 Sync 1\n254:0 Async 2\n254:0 Discard 5\n"
		   "254:0 Total 316232709\nTotal 316232709\n");
	write_file(tree, "blkio/job/blkio.throttle.io_serviced_recursive",
		   "254:0 Read 192\n254:0 Write 353\nTotal 545\n");
	write_file(tree, "pids/job/pids.current", "3\n");
	write_file(tree, "pids/job/pids.max", "100\n");
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	assert_int_equal(cgroup_table_mode(tree->table), CGROUP_MODE_V1);
	doc = record(tree, sampled(tree, "/job"));
	expect_u64(doc, "cpu_ns", 1500000);
	expect_u64(doc, "cpu_user_ns", 1000000);
	expect_u64(doc, "cpu_system_ns", 500000);
	expect_u64(doc, "cpu_throttled_ns", 250000);
	expect_absent(doc, "cpu_quota_ns");
	expect_u64(doc, "cpu_period_ns", 100000000);
	expect_u64(doc, "memory_peak_bytes", 8192000);
	expect_absent(doc, "memory_limit_bytes");
	expect_null(doc, "memory_high_bytes"); // v1 has none
	expect_null(doc, "swap_bytes"); // no swap accounting
	expect_u64(doc, "anon_bytes", 100);
	expect_u64(doc, "file_bytes", 200);
	expect_u64(doc, "minor_faults", 970);
	expect_u64(doc, "memory_limit_hits", 2);
	expect_u64(doc, "oom_kills", 4);
	expect_null(doc, "oom_events");
	expect_u64(doc, "pids_limit", 100);
	expect_null(doc, "pressure_cpu_some_ns");
	io = yyjson_obj_get(yyjson_doc_get_root(doc), "io");
	assert_int_equal(yyjson_arr_size(io), 1);
	assert_int_equal(yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(io, 0), "write_bytes")), 314773504);
	assert_int_equal(yyjson_get_uint(yyjson_obj_get(yyjson_arr_get(io, 0), "reads")), 192);
	assert_true(yyjson_is_null(yyjson_obj_get(yyjson_arr_get(io, 0), "discards")));
	yyjson_doc_free(doc);
	// Nothing counted may mean that nothing counts.
	write_file(tree, "blkio/job/blkio.throttle.io_service_bytes_recursive", "Total 0\n");
	write_file(tree, "blkio/job/blkio.throttle.io_serviced_recursive", "Total 0\n");
	doc = record(tree, sampled(tree, "/job"));
	expect_null(doc, "io");
	expect_null(doc, "io_omitted");
	yyjson_doc_free(doc);
}

static void an_empty_directory_knows_nothing(void **state)
{
	struct tree *tree = *state;
	struct cgroup *cgroup;
	yyjson_doc *doc;

	make_directory(tree, "v2");
	make_directory(tree, "v2/job");
	open_v2(tree);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	cgroup = sampled(tree, "/job");
	doc = record(tree, cgroup);
	static const char *const members[] = { "cpu_ns", "cpu_quota_ns", "memory_bytes", "memory_limit_bytes",
					       "oom_kills", "pids", "io", "pressure_io_full_ns" };
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		expect_null(doc, members[i]);
	yyjson_doc_free(doc);
	assert_int_equal(rmdir(tree_path(tree, "v2/job")), 0);
	assert_int_equal(cgroup_figures_read(tree->table, cgroup, cgroup->sample), -ENOENT);
}

static void more_devices_than_fit_are_counted(void **state)
{
	struct tree *tree = *state;
	struct buf text = BUF_INIT;
	struct cgroup *cgroup;

	make_directory(tree, "v2");
	make_directory(tree, "v2/job");
	open_v2(tree);
	for (int i = 0; i < CGROUP_DEVICES_MAX + 3; i++)
		buf_printf(&text, "8:%d rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n", i * 16);
	write_file(tree, "v2/job/io.stat", text.data);
	buf_free(&text);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	cgroup = sampled(tree, "/job");
	assert_int_equal(cgroup->sample->figures.device_count, CGROUP_DEVICES_MAX);
	assert_int_equal(cgroup->sample->figures.devices_omitted, 3);
}

struct visits {
	char paths[1024];
	uint32_t count;
};

static void note_visit(void *context, struct cgroup *cgroup)
{
	struct visits *visits = context;
	size_t length = strlen(visits->paths);

	visits->count++;
	snprintf(visits->paths + length, sizeof(visits->paths) - length, "%s ", cgroup->path);
}

static struct visits run(struct cgroup_sampler *sampler, uint64_t now, uint32_t budget)
{
	struct visits visits = { .paths = "" };

	assert_true(cgroup_sampler_run(sampler, now, budget, note_visit, &visits) <= budget);
	return visits;
}

static void leaves_first_and_ancestors_with_limits(void **state)
{
	struct tree *tree = *state;
	struct cgroup_sampler *sampler;
	const struct cgroup *leaf;
	struct visits visits;

	make_directory(tree, "v2");
	make_directory(tree, "v2/free");
	make_directory(tree, "v2/free/limited");
	make_directory(tree, "v2/free/limited/leaf");
	make_directory(tree, "v2/other");
	write_file(tree, "v2/free/memory.max", "max\n");
	write_file(tree, "v2/free/limited/memory.max", "1000000\n");
	write_file(tree, "v2/free/limited/leaf/cpu.stat", "usage_usec 5\n");
	write_file(tree, "v2/other/cpu.stat", "usage_usec 5\n");
	open_v2(tree);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	assert_int_equal(cgroup_sampler_new(tree->table, SECOND, &sampler), 0);
	visits = run(sampler, 1 * SECOND, 100);
	assert_int_equal(visits.count, 0); // no processes are tracked
	cgroup_find_path(tree->table, "/free/limited/leaf")->processes = 1;
	cgroup_find_path(tree->table, "/")->processes = 5; // never sampled: it is the host
	visits = run(sampler, 3 * SECOND, 100);
	assert_string_equal(visits.paths, "/free/limited/leaf /free/limited ");
	// Within the round nothing is looked at again; in the next nothing has changed.
	assert_int_equal(cgroup_sampler_run(sampler, 3 * SECOND + 1, 100, note_visit, &visits), 0);
	assert_int_equal(run(sampler, 5 * SECOND, 100).count, 0);
	// The CPU time moved: the leaf is written, with a limit set meanwhile; the ancestor did not change.
	write_file(tree, "v2/free/limited/leaf/cpu.stat", "usage_usec 6\n");
	write_file(tree, "v2/free/limited/leaf/memory.max", "4096\n");
	visits = run(sampler, 7 * SECOND, 100);
	assert_string_equal(visits.paths, "/free/limited/leaf ");
	leaf = cgroup_find_path(tree->table, "/free/limited/leaf");
	assert_int_equal(leaf->sample->figures.memory_limit_bytes, 4096);
	// CPU time standing still stands for everything, for a minute.
	write_file(tree, "v2/free/limited/leaf/memory.current", "123\n");
	assert_int_equal(run(sampler, 9 * SECOND, 100).count, 0);
	visits = run(sampler, 70 * SECOND, 100);
	assert_string_equal(visits.paths, "/free/limited/leaf ");
	// Due: at once, without processes, and once only.
	cgroup_find_path(tree->table, "/other")->due = true;
	visits = run(sampler, 70 * SECOND + 1, 100);
	assert_string_equal(visits.paths, "/other ");
	assert_int_equal(run(sampler, 70 * SECOND + 2, 100).count, 0);
	cgroup_sampler_free(sampler);
}

static void a_budget_is_kept_and_nobody_starves(void **state)
{
	struct tree *tree = *state;
	struct cgroup_sampler *sampler;
	struct visits visits;
	uint32_t seen = 0;
	char path[64];

	make_directory(tree, "v2");
	for (int i = 0; i < 25; i++) {
		snprintf(path, sizeof(path), "v2/c%d", i);
		make_directory(tree, path);
		snprintf(path, sizeof(path), "v2/c%d/cpu.stat", i);
		write_file(tree, path, "usage_usec 5\n");
	}
	open_v2(tree);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	for (int i = 0; i < 25; i++) {
		snprintf(path, sizeof(path), "/c%d", i);
		cgroup_find_path(tree->table, path)->processes = 1;
	}
	assert_int_equal(cgroup_sampler_new(tree->table, SECOND, &sampler), 0);
	for (uint64_t i = 0; i < 3; i++) {
		visits = run(sampler, 10 * SECOND + i, 10);
		seen += visits.count;
	}
	assert_int_equal(seen, 25); // 10 + 10 + 5: each once
	// One goes while the round is under way.
	visits = run(sampler, 20 * SECOND, 10);
	cgroup_find_path(tree->table, "/c3")->processes = 0;
	cgroup_table_removed(tree->table, inode(tree, "v2/c3"));
	cgroup_table_expire(tree->table);
	cgroup_table_expire(tree->table);
	run(sampler, 20 * SECOND + 1, 10);
	run(sampler, 20 * SECOND + 2, 10);
	cgroup_sampler_free(sampler);
}

// --- the OOM question ---------------------------------------------------------------------------------------------

static void write_events(const struct tree *tree, const char *path, int oom, int kill, int oom_local)
{
	char full[128], text[128];

	snprintf(full, sizeof(full), "v2/%s/memory.events", path);
	snprintf(text, sizeof(text), "low 0\nhigh 0\nmax 9\noom %d\noom_kill %d\noom_group_kill 0\n", oom, kill);
	write_file(tree, full, text);
	snprintf(full, sizeof(full), "v2/%s/memory.events.local", path);
	snprintf(text, sizeof(text), "low 0\nhigh 0\nmax 9\noom %d\noom_kill 0\noom_group_kill 0\n", oom_local);
	write_file(tree, full, text);
}

static void open_oom_tree(struct tree *tree)
{
	make_directory(tree, "v2");
	make_directory(tree, "v2/pod");
	make_directory(tree, "v2/pod/one");
	make_directory(tree, "v2/pod/two");
	write_events(tree, "pod", 5, 5, 3);
	write_events(tree, "pod/one", 2, 2, 2);
	write_events(tree, "pod/two", 0, 0, 0);
	open_v2(tree);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
}

static void expect_limit(struct tree *tree, const char *victim, const char *expect)
{
	const char *path = "untouched";
	int error = cgroup_oom_limit(tree->table, cgroup_find_path(tree->table, victim), &path);

	assert_int_equal(error, expect ? 0 : -ENODATA);
	assert_string_equal(path, expect ? expect : "untouched");
}

static void the_limit_of_the_cgroup_itself(void **state)
{
	struct tree *tree = *state;

	open_oom_tree(tree);
	expect_limit(tree, "/pod/one", NULL); // nothing happened since the counters were taken
	write_events(tree, "pod/one", 3, 3, 3);
	write_events(tree, "pod", 6, 6, 3); // the parent counts it too, but not as its own
	expect_limit(tree, "/pod/one", "/pod/one");
	expect_limit(tree, "/pod/one", "/pod/one"); // a second victim of the same kill
	expect_limit(tree, "/pod/two", NULL);
}

static void the_limit_of_an_ancestor(void **state)
{
	struct tree *tree = *state;

	open_oom_tree(tree);
	write_events(tree, "pod/two", 0, 1, 0);
	write_events(tree, "pod", 6, 6, 4);
	expect_limit(tree, "/pod/two", "/pod");
	write_events(tree, "pod/one", 2, 3, 2); // and its sibling fell with it
	expect_limit(tree, "/pod/one", "/pod");
}

static void the_host_ran_out(void **state)
{
	struct tree *tree = *state;

	open_oom_tree(tree);
	write_events(tree, "pod/two", 0, 1, 0);
	write_events(tree, "pod", 5, 6, 3);
	expect_limit(tree, "/pod/two", "host");
}

static void a_container_that_is_gone_is_still_named(void **state)
{
	struct tree *tree = *state;
	struct cgroup *cgroup;
	const char *path = NULL;

	open_oom_tree(tree);
	cgroup = cgroup_find_path(tree->table, "/pod/one");
	cgroup->processes = 1;
	assert_int_equal(unlink(tree_path(tree, "v2/pod/one/memory.events")), 0);
	assert_int_equal(unlink(tree_path(tree, "v2/pod/one/memory.events.local")), 0);
	assert_int_equal(rmdir(tree_path(tree, "v2/pod/one")), 0);
	cgroup_table_removed(tree->table, cgroup->id);
	write_events(tree, "pod", 6, 6, 3); // its own limit did not move: one below it did
	assert_int_equal(cgroup_oom_limit(tree->table, cgroup, &path), 0);
	assert_string_equal(path, "/pod/one");
	path = NULL;
	assert_int_equal(cgroup_oom_limit(tree->table, cgroup, &path), 0); // the second victim
	assert_string_equal(path, "/pod/one");
}

static void unknown_is_said(void **state)
{
	struct tree *tree = *state;
	const char *path = "untouched";

	make_directory(tree, "v2");
	make_directory(tree, "v2/a");
	open_v2(tree);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	expect_limit(tree, "/a", NULL); // no memory controller
	assert_int_equal(cgroup_oom_limit(tree->table, NULL, &path), -ENODATA);
	assert_string_equal(path, "untouched");
}

static void write_v1(const struct tree *tree, const char *path, int kill, int failures)
{
	char full[128], text[128];

	snprintf(full, sizeof(full), "%s/memory.oom_control", path);
	snprintf(text, sizeof(text), "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", kill);
	write_file(tree, full, text);
	snprintf(full, sizeof(full), "%s/memory.failcnt", path);
	snprintf(text, sizeof(text), "%d\n", failures);
	write_file(tree, full, text);
}

// Linux 6.18: failcnt stays 0.
static void v1_without_failed_charges_goes_by_the_fullest(void **state)
{
	static const struct {
		const char *most, *limit, *expect;
	} cases[] = {
		{"67108864\n", "67108864\n", "/job"},
		{"66060288\n", "67108864\n", "/job"}, // the charge that failed was larger than what was left
		{"50331648\n", "67108864\n", "host"},
		{"67108864\n", "9223372036854771712\n", "host"},
	};
	struct tree *tree = *state;
	FILE *file = mountinfo_open(tree);

	make_directory(tree, "m");
	make_directory(tree, "m/job");
	write_v1(tree, "m/job", 0, 0);
	write_v1(tree, "m", 0, 0);
	mountinfo_add(file, tree, "/", "m", "cgroup", "rw,memory");
	table_open(tree, file);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_file(tree, "m/job/memory.max_usage_in_bytes", cases[i].most);
		write_file(tree, "m/job/memory.limit_in_bytes", cases[i].limit);
		write_v1(tree, "m/job", (int)i + 1, 0);
		expect_limit(tree, "/job", cases[i].expect);
	}
}

static void v1_goes_by_failed_charges(void **state)
{
	struct tree *tree = *state;
	FILE *file = mountinfo_open(tree);

	make_directory(tree, "m");
	make_directory(tree, "m/job");
	make_directory(tree, "m/job/step");
	write_v1(tree, "m", 0, 0);
	write_v1(tree, "m/job", 0, 100);
	write_v1(tree, "m/job/step", 0, 7);
	mountinfo_add(file, tree, "/", "m", "cgroup", "rw,memory");
	table_open(tree, file);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	expect_limit(tree, "/job/step", NULL);
	write_v1(tree, "m/job/step", 1, 7);
	write_v1(tree, "m/job", 0, 120);
	expect_limit(tree, "/job/step", "/job");
}

static void v1_without_a_failed_charge_was_the_host(void **state)
{
	struct tree *tree = *state;
	FILE *file = mountinfo_open(tree);

	make_directory(tree, "m");
	make_directory(tree, "m/job");
	write_v1(tree, "m/job", 0, 100);
	mountinfo_add(file, tree, "/", "m", "cgroup", "rw,memory");
	table_open(tree, file);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	write_v1(tree, "m/job", 1, 100);
	expect_limit(tree, "/job", "host");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(v2_files_become_members),
		TEST(v1_files_become_the_same_members),
		TEST(an_empty_directory_knows_nothing),
		TEST(more_devices_than_fit_are_counted),
		TEST(leaves_first_and_ancestors_with_limits),
		TEST(a_budget_is_kept_and_nobody_starves),
		TEST(the_limit_of_the_cgroup_itself),
		TEST(the_limit_of_an_ancestor),
		TEST(the_host_ran_out),
		TEST(a_container_that_is_gone_is_still_named),
		TEST(unknown_is_said),
		TEST(v1_goes_by_failed_charges),
		TEST(v1_without_failed_charges_goes_by_the_fullest),
		TEST(v1_without_a_failed_charge_was_the_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
