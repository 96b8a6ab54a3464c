// SPDX-License-Identifier: Apache-2.0
// What a cgroup path says, shape by shape. Each shape names where it is documented or which source makes it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cgroup_path.h"

#define ID "3f1c9a0be4d27788aa00112233445566778899aabbccddeeff00112233445566"
#define ID2 "b2b2b2b2e4d27788aa00112233445566778899aabbccddeeff0011223344b2b2"
#define UID "8b5e1c2a-7d7f-4b1c-9f55-0a1b2c3d4e5f"
#define UID_UNDERSCORE "8b5e1c2a_7d7f_4b1c_9f55_0a1b2c3d4e5f"
#define HASH "0123456789abcdef0123456789abcdef"

// NULL: says nothing. job -1: none.
struct shape {
	const char *path;
	const char *runtime, *id, *pod, *qos, *ecs_task;
	int64_t job;
	const char *step, *unit;
};

static const struct shape shapes[] = {
	// Docker, cgroupfs driver: docs.docker.com, "Runtime metrics", find the cgroup of a container.
	{ "/docker/" ID, "docker", ID, .job = -1 },
	// Docker, systemd driver: the same page.
	{ "/system.slice/docker-" ID ".scope", "docker", ID, .job = -1, .unit = "docker-" ID ".scope" },
	// Docker, rootless: docs.docker.com, "Rootless mode", limiting resources.
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope", "docker", ID, .job = -1,
	  .unit = "docker-" ID ".scope" },
	// Docker in Docker: the inner container counts.
	{ "/docker/" ID "/docker/" ID2, "docker", ID2, .job = -1 },
	// A service inside a container that runs systemd.
	{ "/docker/" ID "/system.slice/cron.service", "docker", ID, .job = -1, .unit = "cron.service" },
	// BuildKit below dockerd: executor/runcexecutor in moby/buildkit.
	{ "/docker/buildkit/x1k2j3h4g5f6d7s8a9p0o1i2u", "buildkit", "x1k2j3h4g5f6d7s8a9p0o1i2u", .job = -1 },
	// containerd, cgroupfs: path is /NAMESPACE/ID (containerd, oci.WithNamespacedCgroup).
	{ "/default/" ID, "containerd", ID, .job = -1 },
	{ "/k8s.io/" ID, "containerd", ID, .job = -1 },
	// nerdctl, systemd: nerdctl, pkg/cmd/container, "SLICE:nerdctl:ID".
	{ "/system.slice/nerdctl-" ID ".scope", "containerd", ID, .job = -1, .unit = "nerdctl-" ID ".scope" },
	// Kubernetes, cgroupfs driver: kubernetes.io, "Node-pressure", and pkg/kubelet/cm. The runtime is not told.
	{ "/kubepods/burstable/pod" UID "/" ID, NULL, ID, UID, "burstable", .job = -1 },
	{ "/kubepods/besteffort/pod" UID "/" ID, NULL, ID, UID, "besteffort", .job = -1 },
	{ "/kubepods/pod" UID "/" ID, NULL, ID, UID, "guaranteed", .job = -1 },
	{ "/kubepods/burstable/pod" UID, NULL, NULL, UID, "burstable", .job = -1 },
	// A static pod's uid is a hash without dashes: pkg/kubelet/config.
	{ "/kubepods/burstable/pod" HASH "/" ID, NULL, ID, HASH, "burstable", .job = -1 },
	// Kubernetes, systemd driver with containerd, CRI-O and cri-dockerd.
	{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_UNDERSCORE ".slice/cri-containerd-" ID
	  ".scope",
	  "containerd", ID, UID_UNDERSCORE, "burstable", .job = -1, .unit = "cri-containerd-" ID ".scope" },
	{ "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_UNDERSCORE ".slice/crio-" ID ".scope",
	  "crio", ID, UID_UNDERSCORE, "besteffort", .job = -1, .unit = "crio-" ID ".scope" },
	{ "/kubepods.slice/kubepods-pod" UID_UNDERSCORE ".slice/docker-" ID ".scope", "docker", ID, UID_UNDERSCORE,
	  "guaranteed", .job = -1, .unit = "docker-" ID ".scope" },
	// CRI-O below its scope: since 1.20 the process sits in "container" on v2.
	{ "/kubepods.slice/kubepods-pod" UID_UNDERSCORE ".slice/crio-" ID ".scope/container", "crio", ID,
	  UID_UNDERSCORE, "guaranteed", .job = -1, .unit = "crio-" ID ".scope" },
	// CRI-O's monitor is not the container: conmon.
	{ "/kubepods.slice/kubepods-pod" UID_UNDERSCORE ".slice/crio-conmon-" ID ".scope", NULL, NULL, UID_UNDERSCORE,
	  "guaranteed", .job = -1, .unit = "crio-conmon-" ID ".scope" },
	// kind: a kubelet with --cgroup-root=/kubelet, inside a Docker container (kind.sigs.k8s.io).
	{ "/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
	  "kubelet-kubepods-burstable-pod" UID_UNDERSCORE ".slice/cri-containerd-" ID ".scope",
	  "containerd", ID, UID_UNDERSCORE, "burstable", .job = -1, .unit = "cri-containerd-" ID ".scope" },
	// systemd notation taken literally: a kubelet with the systemd driver over a containerd without SystemdCgroup.
	{ "/system.slice/containerd.service/kubepods-burstable-pod" UID_UNDERSCORE ".slice:cri-containerd:" ID,
	  "containerd", ID, UID_UNDERSCORE, "burstable", .job = -1, .unit = "containerd.service" },
	// Podman, rootful and rootless; "container" below it on v2: podman-run(1), --cgroup-parent and --cgroups.
	{ "/machine.slice/libpod-" ID ".scope/container", "podman", ID, .job = -1, .unit = "libpod-" ID ".scope" },
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "podman", ID, .job = -1,
	  .unit = "libpod-" ID ".scope" },
	// Podman, cgroupfs manager, and in a pod.
	{ "/libpod_parent/libpod-" ID, "podman", ID, .job = -1 },
	{ "/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID ".scope", "podman", ID, .job = -1,
	  .unit = "libpod-" ID ".scope" },
	{ "/machine.slice/libpod-conmon-" ID ".scope", NULL, NULL, .job = -1, .unit = "libpod-conmon-" ID ".scope" },
	// Plain crun and runc under systemd: crun(1), --systemd-cgroup, "crun-NAME.scope".
	{ "/system.slice/crun-align.scope", "crun", "align", .job = -1, .unit = "crun-align.scope" },
	{ "/system.slice/runc-job7.scope", "runc", "job7", .job = -1, .unit = "runc-job7.scope" },
	// Amazon ECS on EC2, AWS Batch too: aws/amazon-ecs-agent issue 1119 (the task's uuid, later 32 digits).
	{ "/ecs/" UID "/" ID, "ecs", ID, .ecs_task = UID, .job = -1 },
	{ "/ecs/" HASH "/" ID, "ecs", ID, .ecs_task = HASH, .job = -1 },
	{ "/ecs/" HASH, "ecs", NULL, .ecs_task = HASH, .job = -1 },
	// With the cluster between: opentelemetry-collector-contrib issue 33716.
	{ "/ecs/AL2023/" HASH "/" ID, "ecs", ID, .ecs_task = HASH, .job = -1 },
	// ECS on v2: aws/amazon-ecs-agent pull request 3127.
	{ "/ecstasks.slice/ecstasks-" HASH ".slice/docker-" ID ".scope", "ecs", ID, .ecs_task = HASH, .job = -1,
	  .unit = "docker-" ID ".scope" },
	// Fargate, also of AWS Batch: task metadata endpoint v4, DockerId.
	{ "/ecs/" HASH "/" HASH "-2532375534", "ecs", HASH "-2532375534", .ecs_task = HASH, .job = -1 },
	// Slurm, cgroup/v1: slurm.schedmd.com/cgroups.html.
	{ "/slurm/uid_1000/job_42/step_0", "slurm", NULL, .job = 42, .step = "0" },
	{ "/slurm/uid_1000/job_42/step_batch/task_0", "slurm", NULL, .job = 42, .step = "batch" },
	{ "/slurm/uid_1000/job_42", "slurm", NULL, .job = 42 },
	{ "/slurm/uid_1000", NULL, NULL, .job = -1 },
	// Several slurmd on one node: --enable-multiple-slurmd.
	{ "/slurm_node3/uid_0/job_7/step_extern", "slurm", NULL, .job = 7, .step = "extern" },
	// Slurm, cgroup/v2: slurm.schedmd.com/cgroup_v2.html, "Slurm cgroup v2 hierarchy".
	{ "/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0", "slurm", NULL, .job = 123, .step = "batch",
	  .unit = "slurmstepd.scope" },
	{ "/system.slice/node3_slurmstepd.scope/job_123/step_1+0/slurm", "slurm", NULL, .job = 123, .step = "1+0",
	  .unit = "node3_slurmstepd.scope" },
	// A container a job started keeps its job.
	{ "/system.slice/slurmstepd.scope/job_5/step_0/user/task_0/docker/" ID, "docker", ID, .job = 5, .step = "0",
	  .unit = "slurmstepd.scope" },
	// A job number that is none, and a name that only looks like one.
	{ "/slurm/uid_1000/job_99999999999999999999/step_0", NULL, NULL, .job = -1 },
	{ "/home/job_5/step_0", NULL, NULL, .job = -1 },
	// LXC: lxc.container.conf(5), lxc.cgroup.dir; the monitor is no container. LXD and Incus use the same.
	{ "/lxc/web1", "lxc", "web1", .job = -1 },
	{ "/lxc.payload/web1/init.scope", "lxc", "web1", .job = -1, .unit = "init.scope" },
	{ "/lxc.payload.web1", "lxc", "web1", .job = -1 },
	{ "/lxc.monitor.web1", NULL, NULL, .job = -1 },
	// Garden (Cloud Foundry, Concourse): cloudfoundry/guardian, rundmc/cgroups.
	{ "/garden/5a1f0c2e-77aa-4c1d-6b3c-0d5b", "garden", "5a1f0c2e-77aa-4c1d-6b3c-0d5b", .job = -1 },
	{ "/garden/good/5a1f0c2e-77aa-4c1d-6b3c-0d5b", "garden", "5a1f0c2e-77aa-4c1d-6b3c-0d5b", .job = -1 },
	// Apptainer with cgroups: apptainer.org, "Limiting container resources"; cgroupfs and systemd managers.
	{ "/apptainer/4711", "apptainer", "4711", .job = -1 },
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/apptainer-4711.scope", "apptainer", "4711",
	  .job = -1, .unit = "apptainer-4711.scope" },
	// systemd-nspawn and machined: systemd-machined.service(8), systemd-nspawn(1).
	{ "/machine.slice/machine-deb13.scope/payload", "nspawn", "deb13", .job = -1, .unit = "machine-deb13.scope" },
	{ "/machine.slice/systemd-nspawn@deb13.service", "nspawn", "deb13", .job = -1,
	  .unit = "systemd-nspawn@deb13.service" },
	// libvirt: libvirt.org/cgroups.html.
	{ "/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope", "libvirt", "qemu\\x2d1\\x2dvm1", .job = -1,
	  .unit = "machine-qemu\\x2d1\\x2dvm1.scope" },
	// systemd: systemd.unit(5), systemd.slice(5).
	{ "/system.slice/cron.service", .job = -1, .unit = "cron.service" },
	{ "/user.slice/user-1000.slice/session-2.scope", .job = -1, .unit = "session-2.scope" },
	{ "/user.slice/user-1000.slice", .job = -1, .unit = "user-1000.slice" },
	{ "/user.slice/user-1000.slice/user@1000.service/app.slice/pipeline.service/sub", .job = -1,
	  .unit = "pipeline.service" },
	// An id without a known parent: the container is sure, its runtime is not.
	{ "/batch/" ID, NULL, ID, .job = -1 },
	// Nothing.
	{ "/", .job = -1 },
	{ "", .job = -1 },
	{ "/docker", .job = -1 },
	{ "/docker/abc", .job = -1 },
	{ "/system.slice/docker.service", .job = -1, .unit = "docker.service" },
	{ "/system.slice/docker-proxy.scope", .job = -1, .unit = "docker-proxy.scope" },
	{ "//ecs//", .job = -1 },
	{ "/a:b:c", .job = -1 },
	{ "/::", .job = -1 },
};

static void expect_slice(const char *path, const char *what, struct cgroup_slice slice, const char *expect)
{
	size_t length = expect ? strlen(expect) : 0;

	if (!slice.text != !expect || (expect && (slice.length != length || memcmp(slice.text, expect, length))))
		fail_msg("%s: %s is \"%.*s\", expected \"%s\"", path, what, (int)slice.length,
			 slice.text ? slice.text : "", expect ? expect : "(none)");
}

static void expect_text(const char *path, const char *what, const char *text, const char *expect)
{
	expect_slice(path, what, (struct cgroup_slice){ text, text ? strlen(text) : 0 }, expect);
}

static void every_shape_says_what_it_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		const struct shape *shape = &shapes[i];
		struct cgroup_path_facts facts;
		char *path = strdup(shape->path); // exactly sized: a read behind it is seen

		assert_non_null(path);
		cgroup_path_parse(path, &facts);
		expect_text(path, "runtime", facts.runtime, shape->runtime);
		expect_slice(path, "id", facts.container_id, shape->id);
		expect_slice(path, "pod", facts.pod_uid, shape->pod);
		expect_text(path, "qos", facts.pod_qos, shape->qos);
		expect_slice(path, "ECS task", facts.ecs_task, shape->ecs_task);
		expect_slice(path, "step", facts.slurm_step, shape->step);
		expect_slice(path, "unit", facts.unit, shape->unit);
		if (facts.slurm_job != shape->job)
			fail_msg("%s: job %lld", path, (long long)facts.slurm_job);
		free(path);
	}
}

static void slurm_names_the_user(void **state)
{
	struct cgroup_path_facts facts;

	(void)state;
	cgroup_path_parse("/slurm/uid_1000/job_42/step_0", &facts);
	assert_int_equal(facts.slurm_uid, 1000);
	cgroup_path_parse("/system.slice/slurmstepd.scope/job_123/step_0", &facts);
	assert_int_equal(facts.slurm_uid, -1);
}

// Every truncation and every one-byte change of every shape is read without a fault, and slices stay inside.
static void damaged_paths_are_harmless(void **state)
{
	struct cgroup_path_facts facts;

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		size_t length = strlen(shapes[i].path);

		for (size_t cut = 0; cut <= length; cut++) {
			char *path = strndup(shapes[i].path, cut);

			assert_non_null(path);
			for (int change = 0; change < 5; change++) {
				if (cut)
					path[cut / 2] = "/:-.\xff"[change];
				cgroup_path_parse(path, &facts);
				if (facts.container_id.text)
					assert_true(facts.container_id.text + facts.container_id.length <= path + cut);
				if (facts.pod_uid.text)
					assert_true(facts.pod_uid.text + facts.pod_uid.length <= path + cut);
			}
			free(path);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_says_what_it_says),
		cmocka_unit_test(slurm_names_the_user),
		cmocka_unit_test(damaged_paths_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
