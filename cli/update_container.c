// SPDX-License-Identifier: Apache-2.0
// `tracer update`: is this a container, and who updates it then? What runtimes leave for that purpose counts where
// something really is apart from the host: machines are also made out of images that have such a file. A container
// with an init, installed into like a host, is one.
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cli/update.h"

// The kernel's own first namespaces have these numbers since they have numbers (include/linux/proc_ns.h).
static bool apart(void)
{
	static const struct {
		const char *path, *first;
	} spaces[] = {{"/proc/self/ns/ipc", "ipc:[4026531839]"},
		      {"/proc/self/ns/uts", "uts:[4026531838]"},
		      {"/proc/self/ns/pid", "pid:[4026531836]"},
		      {"/proc/self/ns/cgroup", "cgroup:[4026531835]"}};
	struct statfs root;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		char text[64];
		ssize_t length = readlink(spaces[i].path, text, sizeof(text) - 1);

		if (length <= 0)
			continue; // the kernel does not have it
		text[length] = 0;
		if (strcmp(text, spaces[i].first) != 0)
			return true;
	}
	return statfs("/", &root) == 0 && (uint32_t)root.f_type == OVERLAYFS_SUPER_MAGIC;
}

const char *update_container(void)
{
	static const struct {
		const char *variable, *file, *who;
	} kinds[] = {
		{"KUBERNETES_SERVICE_HOST", NULL,
		 "this is a container of Kubernetes: whoever owns the DaemonSet updates it, by its image's tag"},
		{"ECS_CONTAINER_METADATA_URI_V4", NULL,
		 "this is a container of ECS or AWS Batch: a new revision of its task definition updates it"},
		{"APPTAINER_CONTAINER", NULL, "this is an Apptainer container: whoever builds the image updates it"},
		{"SINGULARITY_CONTAINER", NULL, "this is an Apptainer container: whoever builds the image updates it"},
		{NULL, "/run/.containerenv", "this is a Podman container: pull the new image and start it again"},
		{NULL, "/.dockerenv", "this is a Docker container: pull the new image and start it again"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].variable ? getenv(kinds[i].variable) != NULL : access(kinds[i].file, F_OK) == 0)
			return apart() ? kinds[i].who : NULL;
	return NULL;
}
