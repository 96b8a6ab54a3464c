// SPDX-License-Identifier: Apache-2.0
// The table of cgroups over directory trees laid out as the kernel does: plain directories stand in for hierarchies
// (an inode number is an inode number), a written mountinfo says where they are. Real cgroups are in
// tests/bpf/test_cgroup_real.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/cgroup_tree.h"

static void modes_and_chosen_controllers(void **state)
{
	static const struct {
		const char *v1[4]; // super options of v1 mounts
		const char *unified; // cgroup.controllers, NULL: not mounted
		enum cgroup_mode mode;
		const char *controller;
	} cases[] = {
		{ { "rw,cpu,cpuacct", "rw,memory", "rw,pids" }, NULL, CGROUP_MODE_V1, "memory" },
		{ { "rw,cpu,cpuacct", "rw,pids", "rw,name=systemd" }, NULL, CGROUP_MODE_V1, "pids" },
		{ { "rw,cpu,cpuacct" }, NULL, CGROUP_MODE_V1, "cpu" },
		{ { "rw,memory", "rw,cpu" }, "", CGROUP_MODE_HYBRID, "memory" },
		{ { "rw,pids", "rw,cpu" }, "hugetlb", CGROUP_MODE_HYBRID, "pids" },
		{ { "rw,pids" }, "cpu memory", CGROUP_MODE_UNIFIED, NULL },
		{ { "rw,net_cls", "rw,name=systemd" }, "cpu io memory pids", CGROUP_MODE_UNIFIED, NULL },
		{ { NULL }, "cpu io memory pids", CGROUP_MODE_UNIFIED, NULL },
	};
	struct tree *tree = *state;

	make_directory(tree, "v2");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		FILE *file = mountinfo_open(tree);

		for (int j = 0; j < 4 && cases[i].v1[j]; j++) {
			char point[16];

			snprintf(point, sizeof(point), "v1-%d", j);
			make_directory(tree, point);
			mountinfo_add(file, tree, "/", point, "cgroup", cases[i].v1[j]);
		}
		if (cases[i].unified) {
			write_file(tree, "v2/cgroup.controllers", cases[i].unified);
			mountinfo_add(file, tree, "/", "v2", "cgroup2", "rw");
		}
		table_open(tree, file);
		assert_int_equal(cgroup_table_mode(tree->table), cases[i].mode);
		if (cases[i].controller)
			assert_string_equal(cgroup_table_controller(tree->table), cases[i].controller);
		else
			assert_null(cgroup_table_controller(tree->table));
		cgroup_table_free(tree->table);
		tree->table = NULL;
	}
}

static void no_cgroups_is_an_empty_table(void **state)
{
	struct tree *tree = *state;
	struct cgroup_table *table = NULL;
	struct buf out = BUF_INIT;
	struct json json = json_to(&out);

	fclose(mountinfo_open(tree));
	assert_int_equal(cgroup_table_new_from(tree_path(tree, "mountinfo"), &table), -ENOENT);
	assert_null(table);
	assert_int_equal(cgroup_table_new_from(tree_path(tree, "absent"), &table), -ENOENT);
	assert_null(table);
	assert_int_equal(cgroup_table_mode(NULL), CGROUP_MODE_NONE);
	assert_null(cgroup_find(NULL, 1));
	assert_null(cgroup_find_path(NULL, "/"));
	assert_int_equal(cgroup_table_count(NULL), 0);
	assert_int_equal(cgroup_table_expire(NULL), 0);
	assert_int_equal(cgroup_table_scan(NULL), -ENOENT);
	cgroup_table_removed(NULL, 1);
	cgroup_table_free(NULL);
	json_open_object(&json);
	cgroup_write(NULL, &json);
	json_close_object(&json);
	assert_string_equal(out.data, "{\"cgroup\":null,\"container\":null}");
	buf_free(&out);
}

static void a_scan_finds_all_and_marks_the_gone(void **state)
{
	struct tree *tree = *state;
	struct cgroup *cgroup;
	uint64_t job, step;

	open_unified(tree);
	make_directory(tree, "v2/system.slice");
	make_directory(tree, "v2/system.slice/cron.service");
	make_directory(tree, "v2/slurm");
	make_directory(tree, "v2/slurm/job_7");
	make_directory(tree, "v2/slurm/job_7/step_0");
	job = inode(tree, "v2/slurm/job_7");
	step = inode(tree, "v2/slurm/job_7/step_0");
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	assert_int_equal(cgroup_table_count(tree->table), 6);
	cgroup = cgroup_find(tree->table, step);
	assert_non_null(cgroup);
	assert_string_equal(cgroup->path, "/slurm/job_7/step_0");
	assert_int_equal(cgroup->slurm_job, 7);
	assert_string_equal(cgroup->slurm_step, "0");
	assert_ptr_equal(cgroup->parent, cgroup_find(tree->table, job));
	assert_ptr_equal(cgroup_find_path(tree->table, "/slurm/job_7/step_0"), cgroup);
	assert_string_equal(cgroup_find(tree->table, inode(tree, "v2"))->path, "/");
	assert_null(cgroup_find(tree->table, inode(tree, "v2"))->parent);

	// A process still names the step: it and the job above it stay, until it does not.
	cgroup->processes = 1;
	assert_int_equal(rmdir(tree_path(tree, "v2/slurm/job_7/step_0")), 0);
	assert_int_equal(rmdir(tree_path(tree, "v2/slurm/job_7")), 0);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	assert_true(cgroup->removed);
	assert_null(cgroup_find_path(tree->table, "/slurm/job_7/step_0"));
	for (int i = 0; i < 5; i++)
		assert_int_equal(cgroup_table_expire(tree->table), 0);
	assert_ptr_equal(cgroup_find(tree->table, step), cgroup);
	cgroup->processes = 0;
	assert_int_equal(cgroup_table_expire(tree->table), 0); // a late record may still name them
	for (int i = 0; i < 4; i++)
		cgroup_table_expire(tree->table);
	assert_null(cgroup_find(tree->table, step));
	assert_null(cgroup_find(tree->table, job));
	assert_int_equal(cgroup_table_count(tree->table), 4);
}

static void events_add_with_their_parents(void **state)
{
	struct tree *tree = *state;
	const struct cgroup *cgroup;
	uint64_t id;

	open_unified(tree);
	make_directory(tree, "v2/a");
	make_directory(tree, "v2/a/b");
	make_directory(tree, "v2/a/b/c");
	id = inode(tree, "v2/a/b/c");
	assert_int_equal(cgroup_table_add(tree->table, id, "/a/b/c", &cgroup), 0);
	assert_int_equal(cgroup_table_count(tree->table), 4);
	assert_string_equal(cgroup->parent->path, "/a/b");
	assert_int_equal(cgroup->parent->id, inode(tree, "v2/a/b"));
	assert_int_equal(cgroup_table_add(tree->table, id, "/a/b/c", NULL), 0);
	assert_int_equal(cgroup_table_count(tree->table), 4);

	// One that is gone before its event is read is known by its path all the same.
	assert_int_equal(cgroup_table_add(tree->table, 1ull << 40, "/gone/too/soon", &cgroup), 0);
	assert_null(cgroup->parent);
	cgroup_table_removed(tree->table, 1ull << 40);
	assert_true(cgroup->removed);
	cgroup_table_removed(tree->table, 1ull << 41); // not known: nothing

	assert_int_equal(cgroup_table_add(tree->table, 5, "relative", NULL), -EINVAL);
	assert_int_equal(cgroup_table_add(tree->table, 5, "", NULL), -EINVAL);
}

static void a_rename_keeps_old_strings_alive(void **state)
{
	struct tree *tree = *state;
	const struct cgroup *cgroup;
	const char *old;

	open_unified(tree);
	assert_int_equal(cgroup_table_add(tree->table, 77, "/before", &cgroup), 0);
	old = cgroup->path;
	assert_int_equal(cgroup_table_add(tree->table, 77, "/after", NULL), 0);
	assert_string_equal(cgroup->path, "/after");
	assert_string_equal(old, "/before");
	assert_ptr_equal(cgroup_find_path(tree->table, "/after"), cgroup);
	assert_null(cgroup_find_path(tree->table, "/before"));
}

static void a_path_can_be_taken_again(void **state)
{
	struct tree *tree = *state;
	const struct cgroup *first, *second;

	open_unified(tree);
	assert_int_equal(cgroup_table_add(tree->table, 100, "/job", &first), 0);
	cgroup_table_removed(tree->table, 100);
	assert_int_equal(cgroup_table_add(tree->table, 101, "/job", &second), 0);
	assert_ptr_equal(cgroup_find_path(tree->table, "/job"), second);
	assert_true(first->removed);
	cgroup_table_expire(tree->table);
	cgroup_table_expire(tree->table);
	assert_null(cgroup_find(tree->table, 100));
	assert_ptr_equal(cgroup_find_path(tree->table, "/job"), second);
}

static void a_full_table_refuses_and_counts(void **state)
{
	struct tree *tree = *state;
	char path[32];
	uint32_t refused = 0;

	open_unified(tree);
	for (uint64_t i = 0; i < 17000; i++) {
		snprintf(path, sizeof(path), "/c%llu", (unsigned long long)i);
		int error = cgroup_table_add(tree->table, 1000000 + i, path, NULL);

		assert_true(error == 0 || error == -ENOSPC);
		refused += error == -ENOSPC;
	}
	assert_true(refused > 0);
	assert_int_equal(cgroup_table_refused(tree->table), refused);
	assert_int_equal(cgroup_table_count(tree->table), 17000 - refused + 1); // and the root
	for (uint64_t i = 0; i < 17000; i++)
		cgroup_table_removed(tree->table, 1000000 + i);
	cgroup_table_expire(tree->table);
	cgroup_table_expire(tree->table);
	assert_int_equal(cgroup_table_count(tree->table), 1);
	assert_int_equal(cgroup_table_add(tree->table, 5, "/again", NULL), 0);
}

// A hybrid host: ids from memory, the others by path; a controller without the directory says so.
static void directories_open_in_their_hierarchy(void **state)
{
	struct tree *tree = *state;
	FILE *file = mountinfo_open(tree);
	const struct cgroup *cgroup;
	bool unified = false;
	int fd;

	make_directory(tree, "cpu");
	make_directory(tree, "memory");
	make_directory(tree, "memory/job");
	make_directory(tree, "v2");
	make_directory(tree, "v2/job");
	write_file(tree, "v2/cgroup.controllers", "\n");
	write_file(tree, "v2/job/cpu.pressure", "some\n");
	mountinfo_add(file, tree, "/", "cpu", "cgroup", "rw,cpu,cpuacct");
	mountinfo_add(file, tree, "/", "memory", "cgroup", "rw,memory");
	mountinfo_add(file, tree, "/", "v2", "cgroup2", "rw");
	table_open(tree, file);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	cgroup = cgroup_find_path(tree->table, "/job");
	assert_non_null(cgroup);
	assert_int_equal(cgroup->id, inode(tree, "memory/job"));
	fd = cgroup_open_directory(tree->table, cgroup, "memory", &unified);
	assert_true(fd >= 0);
	assert_false(unified);
	close(fd);
	assert_int_equal(cgroup_open_directory(tree->table, cgroup, "cpu", NULL), -ENOENT);
	fd = cgroup_open_directory(tree->table, cgroup, "io", &unified); // not mounted as v1
	assert_true(fd >= 0);
	assert_true(unified);
	assert_int_equal(faccessat(fd, "cpu.pressure", F_OK, 0), 0);
	close(fd);
	assert_int_equal(cgroup_open_directory(tree->table, cgroup, "no such controller", NULL), -ENOENT);
}

// A container that sees a part of the hierarchy: paths keep the part above it. A second mount shows more: it wins.
static void a_mount_of_a_part_keeps_full_paths(void **state)
{
	struct tree *tree = *state;
	FILE *file = mountinfo_open(tree);
	const struct cgroup *cgroup;
	int fd;

	make_directory(tree, "part");
	make_directory(tree, "part/inner");
	make_directory(tree, "smaller");
	mountinfo_add(file, tree, "/docker/outer/part", "smaller", "cgroup2", "rw");
	mountinfo_add(file, tree, "/docker/outer", "part", "cgroup2", "rw");
	table_open(tree, file);
	assert_int_equal(cgroup_table_scan(tree->table), 0);
	cgroup = cgroup_find(tree->table, inode(tree, "part/inner"));
	assert_non_null(cgroup);
	assert_string_equal(cgroup->path, "/docker/outer/inner");
	fd = cgroup_open_directory(tree->table, cgroup, "memory", NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(cgroup_table_add(tree->table, 12345, "/docker/outer/../../etc", &cgroup), 0);
	assert_int_equal(cgroup_open_directory(tree->table, cgroup, "memory", NULL), -EINVAL);
	assert_int_equal(cgroup_table_add(tree->table, 12346, "/docker/outermost", &cgroup), 0);
	assert_int_equal(cgroup_open_directory(tree->table, cgroup, "memory", NULL), -ENOENT);
}

static void expect_json(const struct tree *tree, uint64_t id, const char *path, const char *expect)
{
	struct buf out = BUF_INIT;
	struct json json = json_to(&out);
	const struct cgroup *cgroup;

	assert_int_equal(cgroup_table_add(tree->table, id, path, &cgroup), 0);
	json_open_object(&json);
	cgroup_write(cgroup, &json);
	json_close_object(&json);
	assert_string_equal(out.data, expect);
	buf_free(&out);
}

#define ID "3f1c9a0be4d27788aa00112233445566778899aabbccddeeff00112233445566"

static void records_name_the_container(void **state)
{
	struct tree *tree = *state;

	open_unified(tree);
	expect_json(tree, 1, "/system.slice/cron.service",
		    "{\"cgroup\":\"/system.slice/cron.service\",\"container\":null}");
	expect_json(tree, 2, "/docker/" ID,
		    "{\"cgroup\":\"/docker/" ID "\",\"container\":{\"runtime\":\"docker\",\"id\":\"" ID "\"}}");
	expect_json(tree, 3, "/slurm/uid_5/job_42/step_batch",
		    "{\"cgroup\":\"/slurm/uid_5/job_42/step_batch\",\"container\":{\"runtime\":\"slurm\",\"id\":null,"
		    "\"slurm_job\":42,\"slurm_step\":\"batch\"}}");
	expect_json(tree, 4,
		    "/kubepods.slice/kubepods-pod8b5e1c2a_7d7f_4b1c_9f55_0a1b2c3d4e5f.slice/"
		    "cri-containerd-" ID ".scope",
		    "{\"cgroup\":\"/kubepods.slice/kubepods-pod8b5e1c2a_7d7f_4b1c_9f55_0a1b2c3d4e5f.slice/"
		    "cri-containerd-" ID ".scope\",\"container\":{\"runtime\":\"containerd\",\"id\":\"" ID "\","
		    "\"pod_uid\":\"8b5e1c2a-7d7f-4b1c-9f55-0a1b2c3d4e5f\",\"pod_qos\":\"guaranteed\"}}");
	expect_json(tree, 5, "/kubepods/besteffort/pod8b5e1c2a-7d7f-4b1c-9f55-0a1b2c3d4e5f",
		    "{\"cgroup\":\"/kubepods/besteffort/pod8b5e1c2a-7d7f-4b1c-9f55-0a1b2c3d4e5f\",\"container\":{"
		    "\"runtime\":null,\"id\":null,\"pod_uid\":\"8b5e1c2a-7d7f-4b1c-9f55-0a1b2c3d4e5f\","
		    "\"pod_qos\":\"besteffort\"}}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modes_and_chosen_controllers),
		TEST(no_cgroups_is_an_empty_table),
		TEST(a_scan_finds_all_and_marks_the_gone),
		TEST(events_add_with_their_parents),
		TEST(a_rename_keeps_old_strings_alive),
		TEST(a_path_can_be_taken_again),
		TEST(a_full_table_refuses_and_counts),
		TEST(directories_open_in_their_hierarchy),
		TEST(a_mount_of_a_part_keeps_full_paths),
		TEST(records_name_the_container),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
