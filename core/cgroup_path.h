// SPDX-License-Identifier: Apache-2.0
// What a cgroup's path says by itself: container runtime and id, pod, ECS task, Slurm job and step, systemd unit.
// Pure: no file is read. The shapes and where each is documented stand in tests/unit/test_cgroup_path.c.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cgroup_slice {
	const char *text; // inside the path that was parsed; NULL: none
	size_t length;
};

// With containers inside containers the innermost one's runtime and id are given.
struct cgroup_path_facts {
	const char *runtime; // static; NULL: no container or job, or its runtime cannot be told from the path
	const char *pod_qos; // static
	struct cgroup_slice container_id;
	struct cgroup_slice pod_uid; // '_' stands for '-' in names of systemd slices
	struct cgroup_slice ecs_task;
	struct cgroup_slice slurm_step;
	struct cgroup_slice unit;
	int64_t slurm_job; // -1: none
	int64_t slurm_uid; // -1: none
};

void cgroup_path_parse(const char *path, struct cgroup_path_facts *ret_facts);
