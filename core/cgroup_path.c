// SPDX-License-Identifier: Apache-2.0
// Room correlate, leaf: reads a cgroup path component by component, from the root. Later components lie deeper, so what
// they say replaces what was said before. It guesses nothing: a name that only looks like a container stays a path.
#include "core/cgroup_path.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum { ID_HEX_LENGTH = 64, ID_HEX_MIN = 12, ID_NAME_MAX = 128, UID_MAX_LENGTH = 36 };

// What the components so far have opened.
struct walk {
	struct cgroup_path_facts *facts;
	struct cgroup_slice previous;
	unsigned depth; // components before this one
	bool kubernetes;
	bool ecs; // the next component is a task
	bool ecs_task; // the next component is a container
	bool slurm;
	bool lxc; // the next component is a container
	bool garden;
	bool service; // facts->unit is better than a slice
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool equals(struct cgroup_slice slice, const char *text)
{
	return slice.length == strlen(text) && !memcmp(slice.text, text, slice.length);
}

static bool starts_with(struct cgroup_slice slice, const char *prefix)
{
	size_t length = strlen(prefix);

	return slice.length >= length && !memcmp(slice.text, prefix, length);
}

static bool ends_with(struct cgroup_slice slice, const char *suffix)
{
	size_t length = strlen(suffix);

	return slice.length > length && !memcmp(slice.text + slice.length - length, suffix, length);
}

static struct cgroup_slice after(struct cgroup_slice slice, size_t skip)
{
	return (struct cgroup_slice){ slice.text + skip, slice.length - skip };
}

static struct cgroup_slice without_suffix(struct cgroup_slice slice, const char *suffix)
{
	if (ends_with(slice, suffix))
		slice.length -= strlen(suffix);
	return slice;
}

static bool all_hex(struct cgroup_slice slice, size_t min, size_t max)
{
	if (slice.length < min || slice.length > max)
		return false;
	for (size_t i = 0; i < slice.length; i++)
		if (!is_hex(slice.text[i]))
			return false;
	return true;
}

// The id of a pod or task: 32 hexadecimal digits, bare or as 8-4-4-4-12 with '-' or '_'.
static bool is_uid(struct cgroup_slice slice)
{
	size_t digits = 0;

	if (slice.length != 32 && slice.length != UID_MAX_LENGTH)
		return false;
	for (size_t i = 0; i < slice.length; i++) {
		if (is_hex(slice.text[i]))
			digits++;
		else if (slice.text[i] != '-' && slice.text[i] != '_')
			return false;
	}
	return digits == 32;
}

// The decimal number that is the whole slice; false for anything else or more than INT64_MAX.
static bool to_number(struct cgroup_slice slice, int64_t *ret_number)
{
	uint64_t number = 0;

	if (!slice.length || slice.length > 18)
		return false;
	for (size_t i = 0; i < slice.length; i++) {
		if (slice.text[i] < '0' || slice.text[i] > '9')
			return false;
		number = number * 10 + (uint64_t)(slice.text[i] - '0');
	}
	*ret_number = (int64_t)number;
	return true;
}

static void found(struct walk *walk, const char *runtime, struct cgroup_slice id)
{
	walk->facts->runtime = runtime;
	walk->facts->container_id = id;
}

// Scopes of the systemd cgroup drivers: prefix, id, ".scope"; and the same prefixes without a scope below a cgroupfs
// parent. Monitors ("crio-conmon-ID", "libpod-conmon-ID") are no container: their rest is not hexadecimal.
static bool read_prefixed(struct walk *walk, struct cgroup_slice name)
{
	static const struct {
		const char *prefix, *runtime;
		bool any_name; // the id is chosen by a person
	} prefixes[] = {
		{ "cri-containerd-", "containerd", false }, { "nerdctl-", "containerd", false },
		{ "docker-", "docker", false },		    { "libpod-", "podman", false },
		{ "crio-", "crio", false },		    { "buildkit-", "buildkit", false },
		{ "crun-", "crun", true },		    { "runc-", "runc", true },
		{ "apptainer-", "apptainer", true },	    { "singularity-", "apptainer", true },
	};
	struct cgroup_slice id = without_suffix(name, ".scope");
	bool scope = id.length != name.length;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (!starts_with(id, prefixes[i].prefix))
			continue;
		id = after(id, strlen(prefixes[i].prefix));
		if (prefixes[i].any_name ? !scope || !id.length || id.length > ID_NAME_MAX :
					   !all_hex(id, ID_HEX_MIN, ID_HEX_LENGTH))
			return false;
		found(walk, walk->ecs_task ? "ecs" : prefixes[i].runtime, id);
		return true;
	}
	return false;
}

// "SLICE:PREFIX:ID": the notation for systemd, taken literally by a runtime with the cgroupfs driver.
static bool read_colons(struct walk *walk, struct cgroup_slice name)
{
	static const char *const runtimes[][2] = {
		{ "cri-containerd", "containerd" }, { "docker", "docker" }, { "crio", "crio" },
		{ "libpod", "podman" },		    { "runc", "runc" },	    { "nerdctl", "containerd" },
	};
	const char *first = memchr(name.text, ':', name.length);
	const char *second = first ? memchr(first + 1, ':', (size_t)(name.text + name.length - first - 1)) : NULL;

	if (!second)
		return false;
	struct cgroup_slice prefix = { first + 1, (size_t)(second - first - 1) };
	struct cgroup_slice id = { second + 1, (size_t)(name.text + name.length - second - 1) };

	if (!id.length || id.length > ID_NAME_MAX)
		return false;
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (equals(prefix, runtimes[i][0])) {
			found(walk, runtimes[i][1], id);
			return true;
		}
	return false;
}

static void read_pod(struct walk *walk, struct cgroup_slice uid)
{
	if (!is_uid(uid))
		return;
	walk->facts->pod_uid = uid;
	if (!walk->facts->pod_qos)
		walk->facts->pod_qos = "guaranteed"; // the only class without a level of its own
}

// kubelet: "kubepods/burstable/podUID" or "kubepods-burstable-podUID.slice", perhaps behind a prefix of the node's.
static void read_kubernetes(struct walk *walk, struct cgroup_slice name)
{
	const char *pod;

	if (equals(name, "burstable") || ends_with(name, "kubepods-burstable.slice"))
		walk->facts->pod_qos = "burstable";
	else if (equals(name, "besteffort") || ends_with(name, "kubepods-besteffort.slice"))
		walk->facts->pod_qos = "besteffort";
	if (starts_with(name, "pod")) {
		read_pod(walk, after(name, 3));
		return;
	}
	const char *colon = memchr(name.text, ':', name.length);
	struct cgroup_slice slice = { name.text, colon ? (size_t)(colon - name.text) : name.length };

	slice = without_suffix(slice, ".slice");
	pod = memmem(slice.text, slice.length, "-pod", 4);
	if (!pod)
		return;
	struct cgroup_slice before = { slice.text, (size_t)(pod - slice.text) };

	if (!walk->facts->pod_qos && ends_with(before, "-burstable"))
		walk->facts->pod_qos = "burstable";
	else if (!walk->facts->pod_qos && ends_with(before, "-besteffort"))
		walk->facts->pod_qos = "besteffort";
	read_pod(walk, after(slice, (size_t)(pod + 4 - slice.text)));
}

// ECS: "ecs/[CLUSTER/]TASK/CONTAINER", "ecstasks.slice/ecstasks-TASK.slice/docker-ID.scope", on Fargate
// "ecs/TASK/TASK-NUMBER".
static bool read_ecs(struct walk *walk, struct cgroup_slice name)
{
	if (walk->ecs) {
		if (!is_uid(name)) { // the cluster's name, where the agent puts it between
			walk->ecs = equals(walk->previous, "ecs");
			return walk->ecs;
		}
		walk->ecs = false;
		walk->ecs_task = true;
		walk->facts->ecs_task = name;
		walk->facts->runtime = "ecs";
		return true;
	}
	if (walk->ecs_task && walk->previous.text == walk->facts->ecs_task.text) {
		if (starts_with(name, "docker-"))
			return false;
		found(walk, "ecs", name);
		return true;
	}
	if (walk->depth == 0 && equals(name, "ecs")) {
		walk->ecs = true;
		return true;
	}
	if (equals(walk->previous, "ecstasks.slice") && starts_with(name, "ecstasks-") && ends_with(name, ".slice")) {
		walk->facts->ecs_task = without_suffix(after(name, 9), ".slice");
		walk->facts->runtime = "ecs";
		walk->ecs_task = true;
		return true;
	}
	return false;
}

// Slurm: "slurm[_NODE]/uid_U/job_J/step_S/task_T" on v1, "[NODE_]slurmstepd.scope/job_J/step_S/user/task_T" on v2.
static bool read_slurm(struct walk *walk, struct cgroup_slice name)
{
	if (equals(name, "slurm") || (walk->depth == 0 && starts_with(name, "slurm_")) ||
	    equals(name, "slurmstepd.scope") || ends_with(name, "_slurmstepd.scope")) {
		walk->slurm = true;
		return true;
	}
	if (!walk->slurm)
		return false;
	if (starts_with(name, "uid_"))
		return to_number(after(name, 4), &walk->facts->slurm_uid);
	if (starts_with(name, "job_") && to_number(after(name, 4), &walk->facts->slurm_job)) {
		walk->facts->runtime = "slurm";
		return true;
	}
	if (walk->facts->slurm_job < 0 || !starts_with(name, "step_") || name.length == 5)
		return false;
	walk->facts->slurm_step = after(name, 5);
	return true;
}

// LXC: "lxc/NAME", "lxc.payload/NAME", "lxc.payload.NAME"; the monitor is no container.
static bool read_lxc(struct walk *walk, struct cgroup_slice name)
{
	if (walk->lxc) {
		walk->lxc = false;
		found(walk, "lxc", name);
		return true;
	}
	if ((walk->depth == 0 && equals(name, "lxc")) || equals(name, "lxc.payload")) {
		walk->lxc = true;
		return true;
	}
	if (starts_with(name, "lxc.payload.") && name.length > 12) {
		found(walk, "lxc", after(name, 12));
		return true;
	}
	return false;
}

// Garden: "garden/HANDLE", with a level "good" or "bad" between since its CPU entitlement plugin.
static bool read_garden(struct walk *walk, struct cgroup_slice name)
{
	if (equals(name, "garden") && !walk->garden) {
		walk->garden = true;
		return true;
	}
	if (!walk->garden || walk->facts->container_id.text || equals(name, "good") || equals(name, "bad"))
		return false;
	if (!equals(walk->previous, "garden") && !equals(walk->previous, "good") && !equals(walk->previous, "bad"))
		return false;
	found(walk, "garden", name);
	return true;
}

// Machines registered with systemd, and virtual machines below libvirt's own parent.
static bool read_machine(struct walk *walk, struct cgroup_slice name)
{
	struct cgroup_slice id;

	if (starts_with(name, "machine-") && ends_with(name, ".scope")) {
		id = without_suffix(after(name, 8), ".scope");
		found(walk, starts_with(id, "qemu") || starts_with(id, "lxc\\x2d") ? "libvirt" : "nspawn", id);
		return true;
	}
	if (starts_with(name, "systemd-nspawn@") && ends_with(name, ".service")) {
		found(walk, "nspawn", without_suffix(after(name, 15), ".service"));
		return true;
	}
	if (ends_with(name, ".libvirt-qemu")) {
		found(walk, "libvirt", without_suffix(name, ".libvirt-qemu"));
		return true;
	}
	return false;
}

// A bare id: its runtime is told by the parent, or by nothing.
static bool read_bare(struct walk *walk, struct cgroup_slice name)
{
	bool long_id = all_hex(name, ID_HEX_LENGTH, ID_HEX_LENGTH);

	if (equals(walk->previous, "docker") && long_id)
		found(walk, "docker", name);
	else if (equals(walk->previous, "buildkit") && name.length <= ID_NAME_MAX)
		found(walk, "buildkit", name);
	else if (walk->depth == 1 && long_id && !walk->kubernetes &&
		 (equals(walk->previous, "default") || equals(walk->previous, "k8s.io") ||
		  equals(walk->previous, "moby")))
		found(walk, "containerd", name); // its namespaces
	else if (walk->depth == 1 && (equals(walk->previous, "apptainer") || equals(walk->previous, "singularity")))
		found(walk, "apptainer", name);
	else if (long_id)
		found(walk, NULL, name);
	else
		return false;
	return true;
}

static void read_unit(struct walk *walk, struct cgroup_slice name)
{
	if (ends_with(name, ".service") || ends_with(name, ".scope")) {
		walk->facts->unit = name;
		walk->service = true;
	} else if (ends_with(name, ".slice") && !walk->service) {
		walk->facts->unit = name;
	}
}

static void read_component(struct walk *walk, struct cgroup_slice name)
{
	read_unit(walk, name);
	if (equals(name, "kubepods") || equals(name, "kubepods.slice") || ends_with(name, "-kubepods.slice") ||
	    memmem(name.text, name.length, "kubepods-", 9))
		walk->kubernetes = true;
	if (walk->kubernetes)
		read_kubernetes(walk, name);
	if (read_ecs(walk, name) || read_slurm(walk, name) || read_lxc(walk, name) || read_garden(walk, name) ||
	    read_prefixed(walk, name) || read_colons(walk, name) || read_machine(walk, name))
		return;
	read_bare(walk, name);
}

void cgroup_path_parse(const char *path, struct cgroup_path_facts *ret_facts)
{
	struct cgroup_path_facts facts = { .slurm_job = -1, .slurm_uid = -1 };
	struct walk walk = { .facts = &facts, .previous = { "", 0 } };

	while (*path) {
		size_t length = strcspn(path, "/");
		struct cgroup_slice name = { path, length };

		if (length) {
			read_component(&walk, name);
			walk.previous = name;
			walk.depth++;
		}
		path += length + (path[length] == '/');
	}
	*ret_facts = facts;
}
